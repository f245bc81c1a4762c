//! Media that are not where they were last seen, though nobody is on record as having taken them away.
//!
//! What they hold may come back any day, so nothing is decided without them: the keep rules of their objects stand still
//! ([`crate::kinds::prune`]), and `status` alarms. A medium that was exported is away on purpose, one that was retired was given up, and one
//! of another cell is that cell's to watch over; only what it lacks at hand of the last complete version of an object is said.

use std::collections::{HashMap, HashSet};

use capstan_address::TapeAddress;
use capstan_engine::message::shell_word;
use capstan_format::id::{MediumId, ObjectId, SegmentId, VersionId};
use capstan_idb::{Claim, Management, Medium, Object, torn};

use crate::Cell;
use crate::error::Result;
use crate::media::changed::ways::ways;
use crate::media::gone::Gone;
use crate::media::out::{is_on_purpose, vanished};
use crate::media::{Libraries, other_host, shown, tape_away, tape_name};
use crate::versions::damaged::Unsound;

/// A medium that is not where it was last seen, though nobody is on record as having taken it away; or that lacks something of what
/// was written to it.
#[derive(Debug, Clone)]
pub struct AwayMedium {
    /// What the database has of it, with its place.
    pub medium: Medium,
    /// What is found there.
    pub why: String,
    /// Whether it is there and not as it was last written.
    pub changed: bool,
    /// The objects of which it has, or lacks, something that was not given up.
    pub objects: Vec<Object>,
    /// Those of which what it lacks is nowhere else at hand: their keep rules stand still.
    pub still: Vec<Object>,
    /// Whether it is another cell's, which may remove what it likes: keep rules do not count what it has. It is named for objects
    /// whose last complete version needs what it does not have.
    pub is_other_cells: bool,
    /// The segments that it lacks; all of them, where none are named.
    segments: Option<HashSet<SegmentId>>,
}

impl AwayMedium {
    /// In a sentence, without what to do.
    pub fn text(&self) -> String {
        let name = shown(self.medium.id, &self.medium.label);
        if self.is_other_cells {
            return format!(
                "{name} in {} is of another cell by now, and does not have what was written to it: {}",
                self.medium.device, self.why
            );
        }
        if self.changed {
            return format!(
                "{name} in {} is not as it was last written: {}",
                self.medium.device, self.why
            );
        }
        format!(
            "{name} is not in {} ({}), though nobody is on record as having taken it away",
            self.medium.device, self.why
        )
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        let Medium { label, device, .. } = &self.medium;
        let at = shell_word(device);
        if self.is_other_cells {
            return format!(
                "make a full backup to a medium of this home, or bring back what was there; `capstan import {at}` takes it as \
                 it is"
            );
        }
        if self.changed && self.still.is_empty() {
            return format!(
                "bring back the one that was written; other media have what it lacks: if it is that one, `capstan media repair '{label}' \
                 --as-it-is` writes it anew; `capstan import {at}` takes it as it is"
            );
        }
        if self.changed && device.known().is_ok() {
            return ways(&self.medium, device, &self.why);
        }
        if device.tapes().len() > 1 {
            return format!(
                "bring its tapes back or import them from where they are now; `capstan media export 'LIBRARY?tape=BARCODE'` records that \
                 one was taken away, `capstan media forget '{label}'` gives the array up"
            );
        }
        format!(
            "mount it there or import it from where it is now; `capstan media export '{label}'` records that it was taken away, \
             `capstan media forget '{label}'` gives it up"
        )
    }

    /// Whether a segment that is recorded of a medium is to be had there, as far as it is this one.
    pub(crate) fn lacks(&self, medium: MediumId, segment: SegmentId) -> bool {
        self.medium.id == medium && self.segments.as_ref().is_none_or(|of| of.contains(&segment))
    }
}

impl Cell {
    /// The media that are away so, or lack something, of which objects still need something.
    pub fn media_away(&self) -> Result<Vec<AwayMedium>> {
        let mut libraries = Libraries::new();
        let mut gone: HashMap<MediumId, Gone> = HashMap::new();
        let mut others: HashSet<MediumId> = HashSet::new();
        let mut media = self.idb.media()?;
        for medium in &media {
            let management = self.idb.management(medium.id)?;
            let is_here = |tape: &TapeAddress| self.is_tape_here(tape);
            let is_on_purpose = is_on_purpose(medium, &management, &is_here);
            if management.retired_us.is_some() {
                continue;
            }
            let mut of = None;
            if !management.is_other_cells() && !is_on_purpose {
                of = self.gone(medium, &management, &mut |t| {
                    tape_away(&self.devices, t, &mut libraries)
                })?;
            }
            // Of the tapes that lack, those that nobody took away on record.
            if let Some(of) = of.as_mut().filter(|of| !of.changed)
                && !management.tapes_out.is_empty()
            {
                let mut tapes = self.tapes_of(medium.id);
                tapes.retain(|t| management.tape_exported(&tape_name(t)).is_none() && !is_here(t));
                let names: Vec<String> = tapes.iter().map(tape_name).collect();
                of.why = format!("its tapes are not there: {}", names.join(", "));
            }
            if of.is_none() && !management.is_other_cells() {
                of = self.gone_with_vanished(medium, &management)?;
            }
            if of.is_none() && is_on_purpose {
                continue;
            }
            // Another cell may have adopted it since it was looked at last.
            if self.idb.management(medium.id)?.is_other_cells() {
                of = self.gone_of_others(medium)?;
                others.insert(medium.id);
            }
            gone.extend(of.map(|of| (medium.id, of)));
        }
        media.retain(|medium| gone.contains_key(&medium.id));
        if media.is_empty() {
            return Ok(Vec::new());
        }
        let needed = self.needed()?;
        let is_others_gone = gone.keys().any(|id| others.contains(id));
        let last = if is_others_gone { self.last_complete()? } else { HashSet::new() };
        let is_part = |of: &Gone| of.changed || of.segments.is_some();
        let mut claims = match is_others_gone || gone.values().any(is_part) {
            true => self.all_claims()?,
            false => Vec::new(),
        };
        let is_gone = |c: &Claim| gone.get(&c.medium).is_some_and(|of| of.has(c.segment));
        claims.retain(|c| needed.contains_key(&c.version));
        // What nobody may rely on elsewhere does not make up for it.
        let unsound = self.unsound_places()?;
        let torn = torn(&claims, |c| is_gone(c) || unsound.has(c.medium, c.segment));
        claims.retain(is_gone);
        let all = self.idb.objects()?;
        let mut away = Vec::new();
        for medium in media {
            let Some(of) = gone.get(&medium.id) else { continue };
            let lacking = || claims.iter().filter(|c| c.medium == medium.id);
            let is_other_cells = others.contains(&medium.id);
            let is_torn = |c: &&Claim| torn.contains(&(c.version, c.origin));
            let objects: HashSet<ObjectId> = match of.changed && !of.is_marked {
                _ if is_other_cells => {
                    let of_last = lacking().filter(|c| last.contains(&c.version));
                    of_last.filter(is_torn).map(|c| needed[&c.version]).collect()
                }
                true => lacking().map(|c| needed[&c.version]).collect(),
                false if !of.changed && of.segments.is_some() => {
                    lacking().map(|c| needed[&c.version]).collect()
                }
                false => {
                    let versions = self.idb.versions_on_medium(medium.id)?;
                    versions.iter().filter_map(|id| needed.get(id).copied()).collect()
                }
            };
            let still: HashSet<ObjectId> = match of.changed {
                _ if is_other_cells => HashSet::new(),
                true => lacking().filter(is_torn).map(|c| needed[&c.version]).collect(),
                false => objects.clone(),
            };
            if objects.is_empty() || of.is_moved && still.is_empty() {
                continue;
            }
            let named = |ids: &HashSet<ObjectId>| -> Vec<Object> {
                all.iter().filter(|object| ids.contains(&object.id)).cloned().collect()
            };
            let (objects, still) = (named(&objects), named(&still));
            let (why, changed, segments) = (of.why.clone(), of.changed, of.segments.clone());
            let found =
                AwayMedium { medium, why, changed, objects, still, is_other_cells, segments };
            away.push(found);
        }
        Ok(away)
    }

    /// What of an array of tapes cannot be read as one that has it vanished, and others are known to lack it.
    fn gone_with_vanished(&self, medium: &Medium, management: &Management) -> Result<Option<Gone>> {
        let lacking = self.incomplete_tapes(medium.id)?;
        let Some(since) = lacking.iter().map(|(_, since)| *since).min() else { return Ok(None) };
        let is_incomplete = |tape: &TapeAddress| lacking.iter().any(|(of, _)| of == tape);
        let is_here = |tape: &TapeAddress| self.is_tape_here(tape);
        let names: Vec<String> =
            vanished(medium, management, &is_here, &is_incomplete).iter().map(tape_name).collect();
        if names.is_empty() || other_host(&self.idb, medium).is_some() {
            return Ok(None);
        }
        let lacking: Vec<String> = lacking.iter().map(|(tape, _)| tape_name(tape)).collect();
        let why = format!(
            "its tapes are not there: {}; others lack some of what is on them: {}",
            names.join(", "),
            lacking.join(", ")
        );
        let mut segments = self.idb.segments_of_medium(medium.id)?;
        segments.retain(|segment| segment.number >= since);
        let segments = Some(segments.into_iter().map(|segment| segment.id).collect());
        let (changed, is_marked, is_moved) = (false, false, false);
        Ok(Some(Gone { why, changed, is_marked, segments, is_moved }))
    }

    /// The last complete version of each object, of which no medium lost anything for good, with all that these build on.
    fn last_complete(&self) -> Result<HashSet<VersionId>> {
        let mut last = HashSet::new();
        for object in self.idb.objects()? {
            let mut versions = self.idb.versions_of(object.id)?;
            versions.retain(|v| !v.null_device && v.is_complete_by(None));
            if let Some(newest) = self.whole_of(&versions)?.first() {
                last.extend(
                    capstan_catalog::version::chain(&self.idb, newest.id)?.iter().map(|v| v.id),
                );
            }
        }
        Ok(last)
    }

    /// Whether a version cannot be restored without media that are away: other places of what these have nobody may rely on.
    pub(crate) fn needs(
        &self,
        version: VersionId,
        away: &[AwayMedium],
        unsound: &Unsound,
    ) -> Result<bool> {
        if away.is_empty() {
            return Ok(false);
        }
        for version in capstan_catalog::version::chain(&self.idb, version)? {
            let origins = self.idb.copies_of_version(version.id)?;
            let mut is_there: HashMap<SegmentId, bool> = HashMap::new();
            for (segment, _) in self.idb.segments_of_version(version.id)? {
                let copy = origins.get(&segment.id);
                let (origin, lacks) = copy.map_or((segment.id, 0), |of| (of.origin, of.lacks));
                *is_there.entry(origin).or_default() |= lacks == 0
                    && !unsound.has(segment.medium, segment.id)
                    && !away.iter().any(|of| of.lacks(segment.medium, segment.id));
            }
            if is_there.values().any(|is_there| !is_there) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
