//! What a session asks of a pool: for which night, in which drive, which media it passes over, and whether the rotation set takes more.

use capstan_format::id::MediumId;
use capstan_idb::{Pool, RotationSet};
use jiff::civil::Date;

use crate::drives::drive_key::ByDrive;
use crate::media::exchanged::Looked;
use crate::media::{MediumInfo, MediumState};
use crate::request::Turn;
use crate::supply::pools::seat::has_seat;
use crate::supply::unfit::{PassedOver, Why, loses_seat};

/// Which medium of a pool is wanted.
pub(in crate::supply) struct Ask {
    pub turn: Turn,
    pub(super) by_drive: ByDrive,
    /// None of these, each for a reason.
    pub passed: Vec<(MediumId, String)>,
    /// Those of them whose seat in their set another one takes.
    unseated: Vec<MediumId>,
    pub today: Date,
    /// Media whose turn has come by then.
    pub foreseen: Vec<MediumId>,
    /// How many others have joined the set by then.
    pub joined: usize,
    /// Whether the set takes further media beyond its number.
    pub beyond: bool,
    /// Where media were looked for whose tapes are others.
    pub(super) looked: Looked,
}

impl Ask {
    pub fn of(turn: Turn, by_drive: ByDrive) -> Self {
        let today = turn.day();
        let (passed, unseated, looked) = (Vec::new(), Vec::new(), Looked::default());
        let (foreseen, joined, beyond) = (Vec::new(), 0, false);
        Self { turn, by_drive, passed, unseated, today, foreseen, joined, beyond, looked }
    }

    /// The same without those that were passed over.
    pub fn but(mut self, passed: &[PassedOver]) -> Self {
        self.unseated = passed.iter().filter(|(_, why)| loses_seat(why)).map(|of| of.0).collect();
        self.passed = passed.iter().map(|(id, why)| (*id, why.to_string())).collect();
        self
    }

    /// Passes over a medium, from now on.
    pub(super) fn pass(&mut self, id: MediumId, why: Why, passed: &mut Vec<PassedOver>) {
        self.passed.push((id, why.to_string()));
        if loses_seat(&why) {
            self.unseated.push(id);
        }
        passed.push((id, why));
    }

    /// Makes of a medium what it is by then.
    pub(super) fn foresee(&self, info: &mut MediumInfo) {
        use MediumState::{Appendable, Full, Protected};
        let holds = matches!(info.state, Appendable | Full | Protected);
        if holds && self.foreseen.contains(&info.medium.id) {
            (info.state, info.held, info.waits_for) = (MediumState::Expired, None, None);
        }
    }

    /// Whether the set takes further media.
    pub(super) fn may_join(&self, pool: &Pool, media: &[MediumInfo]) -> bool {
        let Some(set) = self.turn.set(pool) else { return true };
        let seated = media.iter().filter(|m| self.is_seated(pool, set, m));
        self.beyond || seated.count() + self.joined < pool.size_of(set) as usize
    }

    /// Whether a medium has a seat in that set.
    pub(super) fn is_seated(&self, pool: &Pool, set: RotationSet, m: &MediumInfo) -> bool {
        let is_of_set = m.management.pool.as_deref() == Some(&*pool.name)
            && m.management.rotation_set == Some(set);
        is_of_set && has_seat(m) && !self.unseated.contains(&m.medium.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::Condition;
    use crate::supply::pools::allocate::samples::{medium, pool};
    use capstan_idb::Allocation;
    use jiff::civil::date;

    #[test]
    fn what_is_written_no_more_leaves_its_seat_to_another() {
        let p = pool(Allocation::Strict, None, [2, 0, 0]);
        let set = Some(RotationSet::Daily);
        let of_set = |n: u8| {
            let mut m = medium("x", Some("p"), MediumState::Protected, 0);
            m.medium.id = MediumId([n; 16]);
            m.holdings.segments = 1;
            m.management.rotation_set = set;
            m
        };
        let today = date(2026, 11, 20);
        let mut ask = Ask::of(Turn::Night(today), ByDrive::AsItIs);
        let both = [of_set(1), of_set(2)];
        assert!(!ask.may_join(&p, &both));
        let after = |change: &dyn Fn(&mut MediumInfo)| {
            let mut media = both.clone();
            change(&mut media[1]);
            ask.may_join(&p, &media)
        };
        assert!(after(&|m| m.management.retired_us = Some(1)));
        assert!(after(&|m| m.management.damaged_us = Some(1)));
        assert!(after(&|m| m.management.changed_us = Some(1)));
        assert!(after(&|m| m.condition = Condition::Poor));
        assert!(after(&|m| (m.management.errors, m.holdings.segments) = (1, 0)));
        assert!(after(&|m| m.protected_us = Some(1)));
        assert!(!after(&|m| m.management.errors = 1), "it holds something");
        assert!(!after(&|m| m.management.exported_us = Some(1)), "it comes back");
        ask.unseated.push(MediumId([1; 16]));
        assert!(ask.may_join(&p, &both));
    }
}
