//! Sets whose media are all protected by themselves: no turn mends that.

use capstan_idb::{Pool, RotationSet};
use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{CellError, Result};
use crate::media::{Kept, MediumInfo};
use crate::request::Turn;
use crate::supply::pools::allocate::Ask;
use crate::supply::pools::calendar::set_of;
use crate::supply::pools::seat::has_seat;

/// Within so many days the turn of each set comes.
const DAYS: usize = 62;

impl Cell {
    /// Why the next run to a set after a day finds no medium, where all are protected by themselves beyond that: this is said long
    /// before, as no turn mends it.
    pub(in crate::supply) fn protected_beyond(
        &self,
        pool: &Pool,
        media: &[MediumInfo],
        day: Date,
    ) -> Result<Option<String>> {
        let keeps = self.keeps()?;
        for set in RotationSet::ALL.into_iter().filter(|set| pool.size_of(*set) > 0) {
            let seated = media
                .iter()
                .filter(|m| m.management.rotation_set == Some(set) && has_seat(m))
                .collect::<Vec<_>>();
            let mut days = day.series(1.day()).skip(1).take(DAYS);
            let Some(next) = days.find(|day| set_of(pool, *day) == Some(set)) else { continue };
            let then = next.to_zoned(TimeZone::system());
            let then_us = then.map_or(i64::MAX, |then| then.timestamp().as_microsecond());
            let stays = |kept: &Kept| kept.until_us().is_none_or(|until| until > then_us);
            if seated.is_empty()
                || !seated.iter().all(|m| keeps.of_in_turn(&m.versions).iter().any(stays))
            {
                continue;
            }
            let ask = Ask::of(Turn::Night(next), ByDrive::AsItIs);
            if let Some((_, CellError::NoMedium(why))) = self.lacks_medium(pool, ask, 1, false)? {
                return Ok(Some(format!(
                    "the next run to its {set} set, of {next}, finds no medium: {why}"
                )));
            }
        }
        Ok(None)
    }
}
