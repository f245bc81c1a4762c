//! In which order media of a pool are taken, and which of them are not.

use capstan_idb::{Allocation, Pool, RotationSet};
use jiff::civil::Date;

use crate::media::{MediumInfo, MediumState};
use crate::request::Turn;
use crate::supply::pools::calendar::local_date;
use crate::supply::pools::seat::has_failed;
use crate::supply::pools::usable::unusable;

/// The rank of a medium: less is taken first.
pub(super) type Rank = (u8, i64, i64);

/// From this rank on, blank tapes come before it.
pub(super) const BEHIND_BLANK: u8 = 6;

/// What is asked for.
pub(super) struct Asked<'a> {
    pub pool: &'a Pool,
    pub set: Option<RotationSet>,
    /// Whether the set takes further media.
    pub may_join: bool,
    pub turn: Turn,
    pub today: Date,
}

impl Asked<'_> {
    /// The rank of a medium; nothing where it is none of the pool's business; why it cannot be used, where it is.
    pub fn rank(&self, m: &MediumInfo) -> std::result::Result<Option<Rank>, String> {
        let of = m.management.pool.as_deref();
        let own = of == Some(&*self.pool.name);
        let drawn = of.is_some() && of == self.pool.free_pool.as_deref();
        let loose = of.is_none() && self.pool.allocation == Allocation::Loose;
        if !(own || drawn || loose) {
            return Ok(None);
        }
        let turn = own && m.management.rotation_set == self.set;
        // One of another set has its own days; one without a set joins today's, if that takes more.
        if own && !turn && m.management.rotation_set.is_some() {
            return Ok(None);
        }
        if let Some(why) = unusable(m) {
            // Media that are not the pool's are no news where they are of no use.
            return if own { Err(why) } else { Ok(None) };
        }
        if !turn && !self.may_join {
            return Ok(None);
        }
        let first = m.management.first_us;
        let (last, at) = (m.holdings.last_order.unwrap_or(0), m.holdings.last_us.unwrap_or(0));
        let begun = m.holdings.run_us.or(m.holdings.last_us).unwrap_or(first);
        // What was written last to it was all that it took: it is tried again where there is no other.
        let is_last = turn && self.set.is_some() && has_failed(m);
        // Nothing goes for what is copied.
        let may_go = matches!(self.turn, Turn::Night(_)) || self.set.is_none();
        match m.state {
            MediumState::Expired if own && !may_go => {
                Err("is for the next backup of its set".to_owned())
            }
            MediumState::Free if own && is_last => Ok(Some((BEHIND_BLANK, first, 0))),
            MediumState::Expired if turn && self.set.is_some() && self.may_join => {
                Ok(Some((BEHIND_BLANK + 1, last, at)))
            }
            // One without a set joins as long as it holds nothing.
            MediumState::Appendable if own && !turn => Ok(None),
            MediumState::Appendable if own => match self.set {
                Some(_) if local_date(begun) != self.today => {
                    Err("holds what must stay and was begun on another day".to_owned())
                }
                _ => Ok(Some((0, -last, -at))),
            },
            MediumState::Free if own => Ok(Some((1, first, 0))),
            MediumState::Expired if own => Ok(Some((2, last, at))),
            MediumState::Free if drawn => Ok(Some((3, first, 0))),
            MediumState::Expired if drawn => Ok(Some((4, last, at))),
            MediumState::Free => Ok(Some((5, first, 0))),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::Condition;
    use crate::supply::pools::allocate::samples::{medium, pool};
    use jiff::civil::date;

    #[test]
    fn media_are_taken_in_order() {
        use MediumState::*;
        let strict = pool(Allocation::Strict, Some("spare"), [0; 3]);
        let loose = pool(Allocation::Loose, None, [0; 3]);
        let rank = |pool: &Pool, m: &MediumInfo| {
            let today = date(2026, 11, 20);
            let asked = Asked { pool, set: None, may_join: true, turn: Turn::Night(today), today };
            asked.rank(m)
        };
        let order = [
            medium("newer", Some("p"), Appendable, 9),
            medium("older", Some("p"), Appendable, 5),
            medium("free", Some("p"), Free, 0),
            medium("old", Some("p"), Expired, 3),
            medium("less old", Some("p"), Expired, 4),
            medium("drawn", Some("spare"), Free, 0),
            medium("drawn old", Some("spare"), Expired, 1),
        ];
        let ranks: Vec<_> = order.iter().map(|m| rank(&strict, m).unwrap().unwrap()).collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
        let nobodys = medium("x", None, Free, 0);
        assert_eq!(rank(&strict, &nobodys), Ok(None));
        assert_eq!(rank(&loose, &nobodys), Ok(Some((5, 0, 0))));
        // What others have, and what was given up by nobody, stays.
        assert_eq!(rank(&loose, &medium("x", None, Expired, 0)), Ok(None));
        assert_eq!(rank(&loose, &medium("x", None, Appendable, 0)), Ok(None));
        assert_eq!(rank(&loose, &medium("x", Some("q"), Free, 0)), Ok(None));
        assert_eq!(rank(&strict, &medium("x", Some("spare"), Appendable, 0)), Ok(None));
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        let p = pool(Allocation::Strict, None, [0; 3]);
        let today = date(2026, 11, 20);
        let asked = Asked { pool: &p, set: None, may_join: true, turn: Turn::Night(today), today };
        let why = |m: MediumInfo| asked.rank(&m).unwrap_err();
        let own = |state| medium("x", Some("p"), state, 0);
        assert_eq!(why(own(MediumState::Full)), "is full");
        assert_eq!(why(own(MediumState::Damaged)), "is damaged");
        assert_eq!(why(own(MediumState::Retired)), "is retired");
        let absent =
            MediumInfo { absent: Some("no medium is there".into()), ..own(MediumState::Free) };
        assert_eq!(why(absent), "is not in file:/m: no medium is there");
        let mut exported = own(MediumState::Exported);
        exported.management.exported_to = Some("the bank".into());
        assert_eq!(why(exported), "is exported to the bank");
        assert_eq!(
            why(MediumInfo { foreign: true, ..own(MediumState::Foreign) }),
            "belongs to another cell"
        );
        let poor = MediumInfo {
            condition: Condition::Poor,
            reasons: vec!["3 errors".into()],
            ..own(MediumState::Poor)
        };
        assert_eq!(why(poor), "is in poor condition (3 errors)");
    }

    #[test]
    fn a_medium_of_a_set_is_appended_to_on_its_day() {
        let p = pool(Allocation::Strict, None, [2, 0, 0]);
        let day = 86_400_000_000;
        let today = local_date(100 * day);
        let set = Some(RotationSet::Daily);
        let asked = |may_join| Asked { pool: &p, set, may_join, turn: Turn::Night(today), today };
        let of_set = |last_us, set| {
            let mut m = medium("x", Some("p"), MediumState::Appendable, last_us);
            m.management.rotation_set = set;
            m
        };
        assert!(asked(false).rank(&of_set(100 * day, set)).unwrap().is_some());
        assert!(asked(false).rank(&of_set(98 * day, set)).is_err());
        assert_eq!(asked(true).rank(&of_set(100 * day, Some(RotationSet::Weekly))), Ok(None));
        // A medium without a set joins where the set has room.
        let free = medium("x", Some("p"), MediumState::Free, 0);
        assert!(asked(true).rank(&free).unwrap().is_some());
        assert_eq!(asked(false).rank(&free), Ok(None));
    }

    #[test]
    fn a_medium_whose_turn_has_come_waits_as_long_as_others_have_a_seat_to_take() {
        let p = pool(Allocation::Loose, None, [2, 0, 0]);
        let set = Some(RotationSet::Daily);
        let today = date(2026, 11, 20);
        let of_set = |state, errors| {
            let mut m = medium("x", Some("p"), state, 0);
            m.management.rotation_set = set;
            m.management.errors = errors;
            m
        };
        let rank =
            |turn, may_join, m: &MediumInfo| Asked { pool: &p, set, may_join, turn, today }.rank(m);
        let (due, failed) = (of_set(MediumState::Expired, 0), of_set(MediumState::Free, 1));
        let nobodys = medium("x", None, MediumState::Free, 0);
        let ranks =
            [&nobodys, &failed, &due].map(|m| rank(Turn::Night(today), true, m).unwrap().unwrap());
        assert!(ranks.is_sorted() && ranks[1].0 >= BEHIND_BLANK, "{ranks:?}");
        assert_eq!(rank(Turn::Night(today), false, &due), Ok(Some((2, 0, 0))));
        // Nothing goes for what is copied off another one.
        let in_place = Turn::InPlaceOf(set);
        assert!(rank(in_place, true, &due).is_err());
        assert!(rank(in_place, true, &of_set(MediumState::Free, 0)).unwrap().is_some());
    }
}
