//! The calendar of rotation sets: which set has its day today, and on which day a medium was written.

use capstan_idb::{Pool, RotationSet};
use jiff::Timestamp;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;

use crate::media::MediumInfo;
use crate::request::Turn;
use crate::session::now_us;

impl Turn {
    /// The turn of a run that began then, in microseconds since 1970.
    pub fn of_run(began_us: i64) -> Self {
        Self::Night(local_date(began_us))
    }

    /// The turn of what begins now.
    pub fn of_now() -> Self {
        Self::of_run(now_us())
    }

    /// The day whose turn it is.
    pub(in crate::supply::pools) fn day(self) -> Date {
        match self {
            Self::Night(day) => day,
            Self::InPlaceOf(_) => local_date(now_us()),
        }
    }

    pub(in crate::supply) fn set(self, pool: &Pool) -> Option<RotationSet> {
        match self {
            Self::Night(day) => set_of(pool, day),
            Self::InPlaceOf(set) => set,
        }
    }
}

/// Whether a run of that day wrote to a medium of a set.
pub(in crate::supply) fn was_written(m: &MediumInfo, set: RotationSet, day: Date) -> bool {
    let run = m.holdings.run_us.filter(|us| Timestamp::from_microsecond(*us).is_ok());
    m.management.rotation_set == Some(set) && run.is_some_and(|us| local_date(us) == day)
}

/// The rotation set whose day it is: the first of the month, else Sunday, else any, of the sets that the pool has.
pub(in crate::supply) fn set_of(pool: &Pool, today: Date) -> Option<RotationSet> {
    let has = |set: RotationSet| pool.size_of(set) > 0;
    let due = [
        (RotationSet::Monthly, today.day() == 1),
        (RotationSet::Weekly, today.weekday() == Weekday::Sunday),
        (RotationSet::Daily, true),
    ];
    let due = due.into_iter().find(|(set, due)| *due && has(*set)).map(|(set, _)| set);
    // Without a daily set, other days belong to the set that comes round most often.
    due.or_else(|| RotationSet::ALL.into_iter().find(|set| has(*set)))
}

/// The day of a time, here.
pub(crate) fn local_date(us: i64) -> Date {
    let time = Timestamp::from_microsecond(us).unwrap_or(Timestamp::UNIX_EPOCH);
    time.to_zoned(TimeZone::system()).date()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supply::pools::PoolInfo;
    use jiff::civil::date;

    #[test]
    fn media_rotate_by_the_calendar() {
        let pool = |rotation| Pool { rotation, ..PoolInfo::default_of("p") };
        let all = pool([5, 4, 12]);
        let weekly = pool([0, 4, 0]);
        let none = pool([0; 3]);
        let (first, sunday, friday) = (date(2026, 11, 1), date(2026, 11, 22), date(2026, 11, 20));
        assert_eq!(set_of(&all, first), Some(RotationSet::Monthly));
        assert_eq!(set_of(&all, sunday), Some(RotationSet::Weekly));
        assert_eq!(set_of(&all, friday), Some(RotationSet::Daily));
        assert_eq!(set_of(&weekly, friday), Some(RotationSet::Weekly));
        assert_eq!(set_of(&none, friday), None);
    }
}
