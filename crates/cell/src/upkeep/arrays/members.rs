//! What the database knows of members of arrays beside what they say themselves: which took the place of others, and which are not as
//! they were last written.

use std::collections::BTreeSet;

use capstan_address::Address;
use capstan_engine::message::shell_word;
use capstan_format::array::RebuiltMember;
use capstan_format::id::{MediumId, SegmentNumber};
use capstan_idb::{LostMember, Medium};
use capstan_medium::LostMember as Lost;
use capstan_medium::host::{KnownMembers, OpenArray};

use crate::Cell;
use crate::error::Result;

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
    pub(super) fn note_lost_members(&self, array: MediumId, lost: &[LostMember]) -> Result<()> {
        if self.idb.lost_members(array)? != lost {
            self.idb.put_lost_members(array, lost)?;
            // Who reads next asks anew.
            self.devices.set_incomplete(&self.tapes_of(array), &[]);
        }
        Ok(())
    }

    /// The same of an array that is about to be written: these members are not.
    pub(crate) fn note_not_written(&self, array: MediumId, lost: Vec<Lost>) -> Result<()> {
        let known = self.idb.lost_members(array)?;
        let next = self.idb.last_segment_number(array)?.map_or(1, |last| last.0.saturating_add(1));
        let mut noted = Vec::new();
        for of in lost {
            let of_before = since_known(&known, of.member as u32, &of.device);
            // What one that is there lacks was not looked at one by one.
            let since = of_before.unwrap_or(SegmentNumber(if of.is_away { next } else { 0 }));
            noted.push(lost_member(of, since));
        }
        self.note_lost_members(array, &noted)
    }

    /// Notes that a member of an array of tapes failed while it was written.
    pub(crate) fn note_failed_member(&self, array: MediumId, failed: Lost) -> Result<()> {
        let is_of_tapes =
            |row: &Medium| matches!(&row.device, a @ Address::Array(_) if a.is_sequential());
        if !self.idb.medium(array)?.is_some_and(|row| is_of_tapes(&row)) {
            return Ok(());
        }
        let mut known = self.idb.lost_members(array)?;
        let of_before = since_known(&known, failed.member as u32, &failed.device);
        let Some(since) = of_before.into_iter().chain(failed.since).min() else { return Ok(()) };
        known.retain(|of| of.member != failed.member as u32);
        known.push(lost_member(failed, since));
        known.sort_by_key(|of| of.member);
        self.note_lost_members(array, &known)
    }

    /// What was wrong with the members of an array of tapes when it was last written, or looked at.
    pub(crate) fn faults_noted(&self, medium: &Medium) -> Result<Vec<String>> {
        let label = shell_word(&medium.label);
        let now = match &medium.device {
            Address::Array(array) => &array.members[..],
            _ => &[],
        };
        let said = |of: LostMember| {
            // A backup may have named one that was replaced.
            let device = now.get(of.member as usize).map_or(of.device, Address::to_string);
            let number = of.member + 1;
            format!(
                "member {number} ({device}) of array '{}' is lost, or not as it was last written ({}): what is written goes without it; \
                 bring it back, and `capstan rait status {label}` looks again, or `capstan rait rebuild {label} --member {number} --onto \
                 NEW` writes it anew",
                medium.label, of.why
            )
        };
        // That one is not here which was taken away on record is no fault.
        let management = self.idb.management(medium.id)?;
        let is_out =
            |of: &LostMember| of.since.is_none() && management.tape_exported(&of.device).is_some();
        let lost = self.idb.lost_members(medium.id)?.into_iter();
        Ok(lost.filter(|of| !is_out(of)).map(said).collect())
    }
}

/// The first segment that a member lacks, as it was known before.
pub(super) fn since_known(
    known: &[LostMember],
    member: u32,
    device: &str,
) -> Option<SegmentNumber> {
    let is_it = |of: &&LostMember| of.member == member && of.device == device;
    known.iter().find(is_it).and_then(|of| of.since)
}

fn lost_member(of: Lost, since: SegmentNumber) -> LostMember {
    let (member, since) = (of.member as u32, Some(since));
    LostMember { member, device: of.device, why: of.error.sentence, since }
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
    fn unfit(&self, opened: &dyn OpenArray) -> Vec<(usize, String)> {
        let header = opened.header();
        let recorded = self.cell.recorded_and_kept(header.whole());
        let is_asked = |recorded: &BTreeSet<_>| !recorded.is_empty() && !self.even_unfit;
        let Some(recorded) = recorded.ok().filter(is_asked) else { return Vec::new() };
        let is_tape = |place: usize| opened.address().members[place].is_sequential();
        let held: Vec<Option<BTreeSet<SegmentNumber>>> = opened
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
            let name = shell_word(&opened.address().members[place]);
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
