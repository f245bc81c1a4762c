//! What the database knows of members of arrays beside what they say themselves: which took the place of others, and which are not as
//! they were last written.

use std::collections::BTreeSet;

use capstan_devices::rait::open::{KnownMembers, Opened};
use capstan_engine::message::shell_word;
use capstan_format::array::RebuiltMember;
use capstan_format::id::{MediumId, SegmentNumber};

use crate::Cell;

/// The members of arrays, as a cell knows them.
pub(crate) struct Members<'c> {
    cell: &'c Cell,
    as_they_are: bool,
}

impl Cell {
    /// What is known of members of arrays.
    pub(crate) fn known_members(&self) -> Members<'_> {
        Members { cell: self, as_they_are: false }
    }
}

impl Members<'_> {
    /// The same, where those that lack something are written all the same: what is mended is mended on all members.
    pub(crate) fn as_they_are(self) -> Self {
        Self { as_they_are: true, ..self }
    }
}

impl KnownMembers for Members<'_> {
    fn rebuilt(&self, array: MediumId) -> Vec<RebuiltMember> {
        self.cell.idb.rebuilt_members(array).unwrap_or_default()
    }

    /// The members on disk, by their places, that lack something of what is recorded of the array: they were away while it was
    /// written, or are an older state of themselves. Nothing is written to them until they are written anew, and the session says so.
    fn unfit(&self, opened: &Opened) -> Vec<(usize, String)> {
        let header = opened.storage.header();
        let recorded = self.cell.recorded_and_kept(header.whole());
        let Some(recorded) = recorded.ok().filter(|_| !self.as_they_are) else {
            return Vec::new();
        };
        let is_tape = |place: usize| opened.address.members[place].is_sequential();
        let held: Vec<Option<BTreeSet<SegmentNumber>>> = opened
            .storage
            .members()
            .into_iter()
            .enumerate()
            // What is wrong with one that cannot be listed shows where it is written.
            .map(|(place, member)| member.filter(|_| !is_tape(place))?.held().ok())
            .map(|held| held.map(BTreeSet::from_iter))
            .collect();
        // What no member has is no fault of a single one.
        let some_have: BTreeSet<_> = held.iter().flatten().flatten().copied().collect();
        let mut unfit = Vec::new();
        for (place, held) in held.into_iter().enumerate() {
            let Some(held) = held else { continue };
            let lacking =
                recorded.iter().filter(|n| some_have.contains(n) && !held.contains(n)).count();
            if lacking == 0 {
                continue;
            }
            let name = shell_word(&opened.address.members[place]);
            let label = shell_word(&header.label);
            unfit.push((
                place,
                format!(
                    "it is not as it was last written: it lacks {lacking} of the segments of the array; `capstan rait rebuild {label} \
                     --member {name} --onto NEW` writes it anew"
                ),
            ));
        }
        unfit
    }
}
