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
use crate::media::out::{Here, is_on_purpose, vanished};
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

/// A medium of which something cannot be relied on.
struct GoneMedium {
    medium: Medium,
    of: Gone,
    is_other_cells: bool,
}

/// What such media lack of what is needed.
struct Lacks {
    /// The versions that are needed, with their objects.
    needed: HashMap<VersionId, ObjectId>,
    /// The last complete versions of objects, where another cell's medium lacks something.
    last: HashSet<VersionId>,
    claims: Vec<Claim>,
    /// What is whole nowhere else.
    torn: HashSet<(VersionId, SegmentId)>,
}

impl Lacks {
    /// The objects of what a medium lacks, as far as that is asked for.
    fn objects(&self, medium: MediumId, is_asked: impl Fn(&Claim) -> bool) -> HashSet<ObjectId> {
        let lacking = self.claims.iter().filter(|c| c.medium == medium && is_asked(c));
        lacking.map(|c| self.needed[&c.version]).collect()
    }

    fn is_torn(&self, claim: &Claim) -> bool {
        self.torn.contains(&(claim.version, claim.origin))
    }
}

impl Cell {
    /// The media that are away so, or lack something, of which objects still need something.
    pub fn media_away(&self) -> Result<Vec<AwayMedium>> {
        let gone = self.gone_media()?;
        if gone.is_empty() {
            return Ok(Vec::new());
        }
        let lacks = self.lacks_of(&gone)?;
        let all = self.idb.objects()?;
        let named = |ids: &HashSet<ObjectId>| -> Vec<Object> {
            all.iter().filter(|object| ids.contains(&object.id)).cloned().collect()
        };
        let mut away = Vec::new();
        for gone in gone {
            let objects = self.objects_concerned(&gone, &lacks)?;
            let still = match gone.of.changed {
                _ if gone.is_other_cells => HashSet::new(),
                true => lacks.objects(gone.medium.id, |c| lacks.is_torn(c)),
                false => objects.clone(),
            };
            let GoneMedium { medium, of, is_other_cells } = gone;
            if objects.is_empty() || of.is_moved && still.is_empty() {
                continue;
            }
            let (objects, still) = (named(&objects), named(&still));
            let Gone { why, changed, segments, .. } = of;
            let found =
                AwayMedium { medium, why, changed, objects, still, is_other_cells, segments };
            away.push(found);
        }
        Ok(away)
    }

    /// The media of which something cannot be relied on, whoever needs it.
    fn gone_media(&self) -> Result<Vec<GoneMedium>> {
        let mut libraries = Libraries::new();
        let mut gone = Vec::new();
        for medium in self.idb.media()? {
            let management = self.idb.management(medium.id)?;
            let here = Here {
                tape: &|tape| self.is_tape_here(tape),
                store: &|store| self.devices.is_there(store),
            };
            let is_on_purpose = is_on_purpose(&medium, &management, here);
            if management.retired_us.is_some() {
                continue;
            }
            let mut of = None;
            if !management.is_other_cells() && !is_on_purpose {
                of = self.gone_from_its_place(&medium, &management, &mut libraries)?;
            }
            if of.is_none() && !management.is_other_cells() {
                of = self.gone_with_vanished(&medium, &management)?;
            }
            if of.is_none() && is_on_purpose {
                continue;
            }
            // Another cell may have adopted it since it was looked at last.
            let is_other_cells = self.idb.management(medium.id)?.is_other_cells();
            if is_other_cells {
                of = self.gone_of_others(&medium)?;
            }
            gone.extend(of.map(|of| GoneMedium { medium, of, is_other_cells }));
        }
        Ok(gone)
    }

    /// What cannot be relied on of a medium that should be where it was; of an array, its tapes that nobody took away on record.
    fn gone_from_its_place(
        &self,
        medium: &Medium,
        management: &Management,
        libraries: &mut Libraries,
    ) -> Result<Option<Gone>> {
        let mut of =
            self.gone(medium, management, &mut |t| tape_away(&*self.devices, t, libraries))?;
        if let Some(of) = of.as_mut().filter(|of| !of.changed)
            && !management.tapes_out.is_empty()
        {
            let mut tapes = self.tapes_of(medium.id);
            tapes.retain(|t| {
                management.tape_exported(&tape_name(t)).is_none() && !self.is_tape_here(t)
            });
            let names: Vec<String> = tapes.iter().map(tape_name).collect();
            of.why = format!("its tapes are not there: {}", names.join(", "));
        }
        Ok(of)
    }

    /// What these media lack of what is needed.
    fn lacks_of(&self, gone: &[GoneMedium]) -> Result<Lacks> {
        let needed = self.needed()?;
        let is_others_gone = gone.iter().any(|g| g.is_other_cells);
        let last = if is_others_gone { self.last_complete()? } else { HashSet::new() };
        let is_part = |of: &Gone| of.changed || of.segments.is_some();
        let mut claims = match is_others_gone || gone.iter().any(|g| is_part(&g.of)) {
            true => self.all_claims()?,
            false => Vec::new(),
        };
        let by_id: HashMap<MediumId, &Gone> = gone.iter().map(|g| (g.medium.id, &g.of)).collect();
        let is_gone = |c: &Claim| by_id.get(&c.medium).is_some_and(|of| of.has(c.segment));
        claims.retain(|c| needed.contains_key(&c.version));
        // What nobody may rely on elsewhere does not make up for it.
        let unsound = self.unsound_places()?;
        let torn = torn(&claims, |c| is_gone(c) || unsound.has(c.medium, c.segment));
        claims.retain(is_gone);
        Ok(Lacks { needed, last, claims, torn })
    }

    /// The objects of which a medium has, or lacks, something that was not given up.
    fn objects_concerned(&self, gone: &GoneMedium, lacks: &Lacks) -> Result<HashSet<ObjectId>> {
        let GoneMedium { medium, of, is_other_cells } = gone;
        let is_known_part = of.changed && !of.is_marked || !of.changed && of.segments.is_some();
        if *is_other_cells {
            let is_of_last = |c: &Claim| lacks.last.contains(&c.version);
            return Ok(lacks.objects(medium.id, |c| is_of_last(c) && lacks.is_torn(c)));
        }
        if is_known_part {
            return Ok(lacks.objects(medium.id, |_| true));
        }
        let versions = self.idb.versions_on_medium(medium.id)?;
        Ok(versions.iter().filter_map(|id| lacks.needed.get(id).copied()).collect())
    }

    /// What of an array of tapes cannot be read as one that has it vanished, and others are known to lack it.
    fn gone_with_vanished(&self, medium: &Medium, management: &Management) -> Result<Option<Gone>> {
        let lacking = self.incomplete_tapes(medium.id)?;
        let Some(since) = lacking.iter().map(|(_, since)| *since).min() else { return Ok(None) };
        let is_incomplete = |tape: &TapeAddress| lacking.iter().any(|(of, _)| of == tape);
        let here = Here {
            tape: &|tape| self.is_tape_here(tape),
            store: &|store| self.devices.is_there(store),
        };
        let names: Vec<String> =
            vanished(medium, management, here, &is_incomplete).iter().map(tape_name).collect();
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
