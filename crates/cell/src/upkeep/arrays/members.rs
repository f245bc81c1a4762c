//! What the database knows of members of arrays beside what they say themselves: which took the place of others, and which are not as
//! they were last written.

use std::collections::BTreeSet;

use capstan_devices::address::Address;
use capstan_devices::rait::open::{KnownMembers, Opened};
use capstan_engine::message::shell_word;
use capstan_format::array::RebuiltMember;
use capstan_format::id::{MediumId, SegmentNumber};
use capstan_idb::{LostMember, Medium};

use crate::Cell;
use crate::error::Result;

/// The place, the device and the fault of a member.
pub(crate) type Lost = (usize, String, String);

/// The members of arrays, as a cell knows them.
pub(crate) struct Members<'c> {
    cell: &'c Cell,
    even_unfit: bool,
}

impl Cell {
    /// What is known of members of arrays.
    pub(crate) fn known_members(&self) -> Members<'_> {
        Members { cell: self, even_unfit: false }
    }
}

impl Cell {
    /// Notes which members of an array of tapes were not written, for status to say, which loads no tape.
    pub(crate) fn note_lost_members(&self, array: MediumId, lost: Vec<Lost>) -> Result<()> {
        let known = self.idb.lost_members(array)?;
        let lost: Vec<LostMember> = lost
            .into_iter()
            .map(|(member, device, why)| LostMember { member: member as u32, device, why })
            .collect();
        if known == lost {
            return Ok(());
        }
        Ok(self.idb.put_lost_members(array, &lost)?)
    }

    /// What was wrong with the members of an array of tapes when it was last written, or looked at.
    pub(crate) fn faults_noted(&self, medium: &Medium) -> Result<Vec<String>> {
        let label = shell_word(&medium.label);
        let now = match medium.device.parse() {
            Ok(Address::Array(array)) => array.members,
            _ => Vec::new(),
        };
        let said = |of: LostMember| {
            // A backup may have named one that was replaced.
            let device = now.get(of.member as usize).map_or(of.device, Address::to_string);
            let number = of.member + 1;
            // What to do is said once.
            let why = of.why.split("; ").next().unwrap_or_default();
            format!(
                "member {number} ({device}) of array '{}' is lost, or not as it was last written ({why}): what is written goes without it; \
                 bring it back, and `capstan rait status {label}` looks again, or `capstan rait rebuild {label} --member {number} --onto \
                 NEW` writes it anew",
                medium.label
            )
        };
        Ok(self.idb.lost_members(medium.id)?.into_iter().map(said).collect())
    }
}

impl Members<'_> {
    /// The same, where those that lack something are written all the same: what is mended is mended on all members.
    pub(crate) fn even_unfit(self) -> Self {
        Self { even_unfit: true, ..self }
    }
}

impl KnownMembers for Members<'_> {
    fn rebuilt(&self, array: MediumId) -> Vec<RebuiltMember> {
        self.cell.idb.rebuilt_members(array).unwrap_or_default()
    }

    /// The members, by their places, that lack something of what is recorded of the array: they were away while it was written, or are
    /// an older state of themselves. Nothing is written to them until they are written anew, and the session says so. Of tapes it is
    /// seen by where they end.
    fn unfit(&self, opened: &Opened) -> Vec<(usize, String)> {
        let header = opened.storage.header();
        let recorded = self.cell.recorded_and_kept(header.whole());
        let is_asked = |recorded: &BTreeSet<_>| !recorded.is_empty() && !self.even_unfit;
        let Some(recorded) = recorded.ok().filter(is_asked) else { return Vec::new() };
        let is_tape = |place: usize| opened.address.members[place].is_sequential();
        let held: Vec<Option<BTreeSet<SegmentNumber>>> = opened
            .storage
            .members()
            .into_iter()
            .enumerate()
            // What is wrong with one that cannot be listed shows where it is written.
            .map(|(place, member)| {
                let member = member?;
                if is_tape(place) { member.segments() } else { member.held() }.ok()
            })
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
