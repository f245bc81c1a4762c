//! Giving the disk's space back, when the copies are known to be whole.

use std::collections::{HashMap, HashSet};

use capstan_engine::frames::Place;
use capstan_engine::message::Code;
use capstan_format::id::{MediumId, SegmentId, SessionId, VersionId};
use capstan_idb::ExpiredSegment;
use capstan_medium::HeldMedium;

use super::candidates::{Candidate, Owned};
use super::source::{Source, Sources};
use crate::Cell;
use crate::error::{Result, StageRefusal, chain};
use crate::kinds::prune::remove_from;
use crate::report::Staged;
use crate::session::SessionLog;

impl Cell {
    /// Removes the originals of the candidates that still go. With the media held, all that decides is looked at anew: hours
    /// may have passed.
    pub(super) fn give_back(
        &self,
        sources: &Sources,
        candidates: &mut [Candidate],
        relied_on: &HashMap<VersionId, Vec<Place>>,
        staged: &mut Staged,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        let held = self.hold_sources(sources);
        let mut fresh = Vec::new();
        for source in &sources.media {
            let opened = match held.get(&source.row.id) {
                Some(Ok(held)) => Ok(held.medium().clone()),
                Some(Err(why)) => Err(StageRefusal::SourceNotHeld(why.clone()).into()),
                None => continue,
            };
            fresh.push(Source::new(source.row.clone(), opened));
        }
        let fresh = Sources::new(sources.name.clone(), sources.pool.clone(), fresh);
        let copies = self.hold_copies(candidates, relied_on)?;
        let now: HashMap<_, _> =
            self.stage_candidates(&fresh, None)?.into_iter().map(|c| (c.version.id, c)).collect();
        for candidate in candidates.iter_mut().filter(|c| c.is_given_back()) {
            let id = candidate.version.id;
            let of = relied_on.get(&id).map(Vec::as_slice).unwrap_or_default();
            candidate.stays = match now.get(&id) {
                Some(now) if now.stays.is_some() => now.stays.clone(),
                // It was locked meanwhile.
                Some(now) if now.locked.is_some() => now.locked.clone(),
                _ if self.idb.is_in_use(candidate.version.object)? => {
                    Some("a session of its object runs: the next stage gives it back".to_owned())
                }
                _ => self.lost_copy(id, of, &copies)?,
            };
        }
        let owned = self.owned_segments(&fresh)?;
        let gone: HashSet<VersionId> =
            candidates.iter().filter(|c| c.is_given_back()).map(|c| c.version.id).collect();
        let dead = dead(&owned, &gone);
        let mut left: HashMap<MediumId, String> = HashMap::new();
        for (id, held) in &held {
            let Ok(held) = held else { continue };
            let here: Vec<&ExpiredSegment> = dead.iter().filter(|s| s.medium == *id).collect();
            if here.is_empty() {
                continue;
            }
            let swept = remove_from(held, &here, self.believed_us()?);
            let removed: Vec<(SegmentId, MediumId)> = here
                .iter()
                .filter(|s| swept.gone.contains(&s.number))
                .map(|s| (s.segment, *id))
                .collect();
            // No version goes by this, and no history.
            self.forget_removed(&removed, &[], i64::MIN, |_| Some(held))?;
            staged.freed_segments += swept.segments;
            staged.freed_bytes += swept.bytes;
            if let Some((why, failed)) = swept.stays {
                let label = self.labels([*id].iter())?.concat();
                let code = if failed { Code::DeviceFailed } else { Code::Adapted };
                log.say(code, "media agent", &label, format!("segments stay for now: {why}"));
                left.insert(*id, why);
            }
        }
        // What is said to be staged is gone from all of these media.
        let remaining = self.owned_segments(&fresh)?;
        for candidate in candidates.iter_mut().filter(|c| c.is_given_back()) {
            let stays = remaining
                .iter()
                .find(|s| s.is_copied && s.owners.contains(&candidate.version.id))
                .map(|s| s.segment.medium);
            candidate.stays = stays.map(|medium| {
                let why = left.get(&medium).cloned();
                why.unwrap_or_else(|| "a segment is shared with a version that stays".to_owned())
            });
        }
        Ok(())
    }

    fn hold_sources(
        &self,
        sources: &Sources,
    ) -> HashMap<MediumId, std::result::Result<HeldMedium, String>> {
        let hold = |id| self.hold_medium_now(id).map_err(|e| chain(&e));
        sources.media.iter().map(|s| (s.row.id, hold(s.row.id))).collect()
    }

    /// Holds those media with copies that others could remove segments from: two that are staged to each other would
    /// otherwise give up both.
    fn hold_copies(
        &self,
        candidates: &[Candidate],
        relied_on: &HashMap<VersionId, Vec<Place>>,
    ) -> Result<HashMap<MediumId, std::result::Result<HeldMedium, String>>> {
        let mut held = HashMap::new();
        for candidate in candidates.iter().filter(|c| c.is_given_back()) {
            for (_, medium, _) in relied_on.get(&candidate.version.id).into_iter().flatten() {
                if !held.contains_key(medium) && !self.is_on_tape(*medium)? {
                    held.insert(*medium, self.hold_medium_now(*medium).map_err(|e| chain(&e)));
                }
            }
        }
        Ok(held)
    }

    /// Why a copy cannot be relied on any more, if so.
    pub(super) fn lost_copy(
        &self,
        version: VersionId,
        relied_on: &[Place],
        held: &HashMap<MediumId, std::result::Result<HeldMedium, String>>,
    ) -> Result<Option<String>> {
        let recorded: HashSet<Place> = self.idb.places_of_version(version)?.into_iter().collect();
        for place in relied_on {
            let (segment, medium, number) = *place;
            if !recorded.contains(place) {
                return Ok(Some("its copy was removed meanwhile".to_owned()));
            }
            match held.get(&medium) {
                Some(Err(why)) => return Ok(Some(why.clone())),
                Some(Ok(held)) if held.medium().segment_at(number) != Some(segment) => {
                    return Ok(Some("its copy was removed meanwhile".to_owned()));
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

/// The segments of which only versions that go have something. One without data, which says no more than that its session
/// ended, goes with its session's others: the copy of the last one says it.
fn dead(owned: &[Owned], gone: &HashSet<VersionId>) -> Vec<ExpiredSegment> {
    let goes = |s: &&Owned| !s.owners.is_empty() && s.owners.iter().all(|v| gone.contains(v));
    let copied: HashSet<SessionId> =
        owned.iter().filter(|s| s.is_copied).filter(goes).map(|s| s.segment.session).collect();
    let with_others = |s: &&Owned| s.is_copied || copied.contains(&s.segment.session);
    let of = |s: &Owned| ExpiredSegment {
        segment: s.segment.id,
        medium: s.segment.medium,
        number: s.segment.number,
        bytes: s.segment.bytes,
        versions: s.owners.clone(),
    };
    owned.iter().filter(goes).filter(with_others).map(of).collect()
}
