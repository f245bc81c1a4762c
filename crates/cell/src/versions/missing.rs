//! Segments that are recorded of a medium, and that it does not have.

use std::collections::BTreeSet;

use capstan_format::id::{MediumId, SegmentNumber};

use crate::Cell;
use crate::error::Result;

/// As many versions are named where segments of them are missing; others are counted.
const NAMED: usize = 3;

/// A segment that is recorded of a medium, and that it does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingSegment {
    /// Its number on the medium.
    pub number: SegmentNumber,
    /// The version that wrote it, as people name it, where it is known.
    pub version: Option<String>,
}

impl Cell {
    /// Numbers of the segments recorded of a medium. They are asked for before the medium is listed: what another session commits
    /// meanwhile is then not missed.
    pub(crate) fn recorded_on(&self, medium: MediumId) -> Result<BTreeSet<SegmentNumber>> {
        Ok(self.idb.segments_of_medium(medium)?.into_iter().map(|s| s.number).collect())
    }

    /// Which of the segments that were recorded of a medium are not among those that are there. What was given up by a prune that
    /// goes on, or was interrupted, is left out.
    pub(crate) fn missing_on(
        &self,
        medium: MediumId,
        recorded: &BTreeSet<SegmentNumber>,
        there: &BTreeSet<SegmentNumber>,
    ) -> Result<Vec<MissingSegment>> {
        if recorded.is_subset(there) {
            return Ok(Vec::new());
        }
        let leaving = self.leaving()?;
        let mut missing = Vec::new();
        // What was removed from the medium meanwhile is recorded no more.
        for segment in self.idb.segments_of_medium(medium)? {
            let number = segment.number;
            let is_missing = recorded.contains(&number) && !there.contains(&number);
            if !is_missing || leaving.contains(&segment.id) {
                continue;
            }
            let of = self.idb.version_of_segment(segment.id)?;
            let version = of.map(|(version, _)| self.version_shown(version)).transpose()?;
            missing.push(MissingSegment { number, version });
        }
        Ok(missing)
    }
}

/// Versions that segments are of, each once.
pub fn versions_of(missing: &[MissingSegment]) -> Vec<&str> {
    let mut versions: Vec<&str> = Vec::new();
    for version in missing.iter().filter_map(|m| m.version.as_deref()) {
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    versions
}

/// Says that an array lacks these.
pub(crate) fn too_few_members(missing: &[MissingSegment]) -> String {
    let versions = versions_of(missing);
    let mut of = versions.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if versions.len() > NAMED {
        of = format!("{of} and {} other versions", versions.len() - NAMED);
    }
    if !of.is_empty() {
        of = format!(" (of {of})");
    }
    let (what, them) = match missing.len() {
        1 => ("1 recorded segment is".to_owned(), "it"),
        n => (format!("{n} recorded segments are"), "them"),
    };
    format!("{what} on too few of the members at hand{of}: bring back the member that has {them}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_named_once_and_not_all() {
        let of = |number, version: Option<&str>| MissingSegment {
            number: SegmentNumber(number),
            version: version.map(str::to_owned),
        };
        assert_eq!(
            too_few_members(&[of(2, None)]),
            "1 recorded segment is on too few of the members at hand: bring back the member that has it"
        );
        let mut missing = vec![of(2, Some("a@1")), of(3, Some("a@1")), of(4, Some("b@2"))];
        assert_eq!(
            too_few_members(&missing),
            "3 recorded segments are on too few of the members at hand (of a@1, b@2): bring back the member that has them"
        );
        missing.extend([of(5, Some("c@3")), of(6, Some("d@4")), of(7, Some("e@5"))]);
        assert!(too_few_members(&missing).contains("(of a@1, b@2, c@3 and 2 other versions)"));
    }
}
