//! Versions that were given up and not yet removed, brought back by an import or an adoption of the medium that has them.
//!
//! Who imports a medium wants what it has. Keep rules decide on it anew, with all that is known then.

use std::collections::{HashMap, HashSet};

use capstan_catalog::version::chain;
use capstan_engine::message::Code;
use capstan_format::id::{MediumId, SegmentNumber, StreamId, VersionId};
use capstan_idb::Status;
use capstan_medium::OpenMedium;

use crate::Cell;
use crate::error::{CellError, Result};
use crate::session::SessionLog;

impl Cell {
    /// The same where nobody holds the medium yet. Where somebody does, who may be about to remove them, they stay given up: they would be
    /// back without what they had. Returns that, if it is so.
    pub(crate) fn bring_back_alone(
        &self,
        id: MediumId,
        there: Option<&OpenMedium>,
        log: &SessionLog<'_>,
    ) -> Result<Option<String>> {
        let given_up = self.given_up_on(id, &self.expired()?)?.len();
        let Some(row) = self.idb.medium(id)?.filter(|_| given_up > 0) else { return Ok(None) };
        match self.hold_as_it_is(&row, &row.device) {
            Err(CellError::InUse(_)) => Ok(Some(format!(
                "{given_up} of the versions on '{}' were given up, and stay so: a session writes to it, or removes from it; import it \
                 again when that is done, if they are to be brought back",
                row.label
            ))),
            Err(e) => Err(e),
            Ok(_held) => self.bring_back(id, there, log).map(|()| None),
        }
    }

    fn expired(&self) -> Result<HashSet<VersionId>> {
        Ok(self.idb.expired_versions()?.into_iter().collect())
    }

    fn given_up_on(&self, id: MediumId, expired: &HashSet<VersionId>) -> Result<Vec<VersionId>> {
        let mut versions = self.idb.versions_on_medium(id)?;
        versions.retain(|version| expired.contains(version));
        Ok(versions)
    }

    /// Takes back that versions on a medium were given up, as far as they and all they build on are whole. `there` is the medium,
    /// where it can be looked at without winding.
    pub(crate) fn bring_back(
        &self,
        id: MediumId,
        there: Option<&OpenMedium>,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        let expired = self.expired()?;
        let mut whole = HashSet::new();
        for version in self.given_up_on(id, &expired)? {
            if self.is_left_whole(version, id, there)? {
                whole.insert(version);
            }
        }
        let mut back: Vec<VersionId> = Vec::new();
        for version in &whole {
            let Ok(chain) = chain(&self.idb, *version) else { continue };
            let mut given_up = Vec::new();
            for of in chain {
                if expired.contains(&of.id) {
                    given_up.push(of.id);
                }
            }
            if given_up.iter().all(|of| whole.contains(of)) {
                back.extend(given_up);
            }
        }
        back.sort_unstable();
        back.dedup();
        if back.is_empty() {
            return Ok(());
        }
        let n = self.idb.bring_back(&back)?;
        let text = format!(
            "{n} of its versions that were given up and not removed yet are back; keep rules decide on them anew"
        );
        let label = self.labels(std::iter::once(&id))?.concat();
        log.say(Code::BroughtBack, "cell", &label, text);
        Ok(())
    }

    /// Whether nothing of a version was removed yet, as far as the database and the medium say: its streams have no gaps, all that
    /// is recorded of it on the medium is there, and its end is.
    fn is_left_whole(
        &self,
        id: VersionId,
        on: MediumId,
        there: Option<&OpenMedium>,
    ) -> Result<bool> {
        let Some(version) = self.idb.version(id)? else { return Ok(false) };
        if !matches!(version.status, Status::Completed | Status::CompletedWithErrors) {
            return Ok(false);
        }
        let mut spans: HashMap<StreamId, Vec<(u64, u64)>> = HashMap::new();
        for part in self.idb.segments_of_version(id)?.into_iter().flat_map(|(_, parts)| parts) {
            spans.entry(part.stream).or_default().push((part.logical_start, part.logical_end));
        }
        // Of what a consolidation passed on there are gaps anyway.
        if version.stands_for.is_none() && !spans.into_values().all(has_no_gaps) {
            return Ok(false);
        }
        let Some(there) = there else { return Ok(true) };
        let has: HashSet<SegmentNumber> = there.segments()?.into_iter().collect();
        let places = self.idb.places_of_version(id)?;
        let mut here: Vec<SegmentNumber> =
            places.iter().filter(|(_, medium, _)| *medium == on).map(|p| p.2).collect();
        if !here.iter().all(|number| has.contains(number)) {
            return Ok(false);
        }
        let sessions = self.idb.sessions_of_version(id)?;
        here.sort_unstable();
        let ended = here.into_iter().rev().any(|number| {
            let end = self.read_segment(there, number).and_then(|reader| reader.end());
            end.is_ok_and(|end| sessions.iter().any(|s| end.end_of(s.id).is_some()))
        });
        Ok(ended)
    }
}

/// Whether parts of a stream are all of it from its begin on.
fn has_no_gaps(mut spans: Vec<(u64, u64)>) -> bool {
    // Mirrors and copies have the same again.
    spans.sort_unstable();
    let mut end = 0;
    for (from, to) in spans {
        if from > end {
            return false;
        }
        end = end.max(to);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_whose_begin_or_middle_is_gone_has_gaps() {
        assert!(has_no_gaps(vec![(5, 9), (0, 5), (0, 3)]));
        assert!(has_no_gaps(vec![]));
        assert!(!has_no_gaps(vec![(1, 5)]));
        assert!(!has_no_gaps(vec![(0, 5), (6, 9)]));
    }
}
