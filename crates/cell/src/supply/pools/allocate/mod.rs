//! Which medium of a pool a session takes, and how it becomes the pool's.
//!
//! In this order: one of the pool that takes more, the one written last; a free one of the pool; an expired one of the pool, the oldest,
//! which is recycled; a free or expired one of the free pool; where the pool is loose, a free one that is in no pool; where it takes blank
//! tapes, one of those, which is the pool's from then on. Where a pool has rotation sets, only media of the day's set count, and a medium
//! is appended to on the day on which it was begun.
//!
//! A medium of a set that has all its media is expired when its turn comes ([`crate::supply::rotation`]). As long as media have a seat to
//! take, because one is written no more or failed just now, they come before it.

mod ask;
mod beyond;
mod blank;
mod choose;
mod rank;
#[cfg(test)]
mod samples;

use capstan_engine::message::Code;
use capstan_idb::Medium;

pub(in crate::supply) use self::ask::Ask;
use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{CellError, Result, chain};
use crate::media::MediumState;
use crate::request::Turn;
use crate::supply::pools::allocate::choose::Chosen;
use crate::supply::pools::queue::has_no_drive;
use crate::supply::unfit::{FAILURES, PassedOver, Why, why_next};

impl Cell {
    /// The medium that a session to a pool takes, not one of those that were `passed` over for a reason. It is the pool's from then on,
    /// and what was expired on it is given up, unless it is only asked for. One that cannot be given up now, as somebody reads it, is
    /// passed over for another one, as is one that cannot be written anew: that is added to those that were passed over.
    pub(crate) fn allocate(
        &self,
        name: &str,
        turn: Turn,
        by_drive: ByDrive,
        passed: &mut Vec<PassedOver>,
        only_ask: bool,
    ) -> Result<Medium> {
        self.settle_directories(&self.pool(name)?)?;
        let mut ask = Ask::of(turn, by_drive).but(passed);
        let (mut busy, mut failures) = (None, 0);
        loop {
            let chosen = match self.choose(name, &ask) {
                // What others have may do when they are done.
                Err(e @ CellError::NoMedium(_)) => match self.or_scratch(name, &ask, only_ask, e) {
                    Err(none) if none.is_busy() => return Err(none),
                    Err(_) if self.goes_beyond(name, &mut ask)? => continue,
                    Err(none) => return Err(busy.unwrap_or(none)),
                    taken => return self.say_beyond(name, &ask, only_ask, taken?),
                },
                Err(e) => return Err(busy.unwrap_or(e)),
                Ok(chosen) => chosen,
            };
            if chosen.behind_blank {
                let none = CellError::NoMedium("".into());
                match self.or_scratch(name, &ask, only_ask, none) {
                    Err(e) if !e.is_busy() => {}
                    taken => return self.say_beyond(name, &ask, only_ask, taken?),
                }
            }
            if only_ask {
                return Ok(chosen.info.medium);
            }
            match self.take(name, &chosen) {
                Ok(medium) => return self.say_beyond(name, &ask, only_ask, medium),
                Err(NotTaken::NotWritten(e)) => {
                    let Medium { id, label, .. } = &chosen.info.medium;
                    self.note_not_anew(label, &e);
                    ask.pass(*id, Why::ended(false, &chain(&e)), passed);
                    failures += 1;
                    // Nothing more is given up for what may be the drive's fault.
                    if failures >= FAILURES {
                        return Err(e);
                    }
                }
                Err(NotTaken::Kept(e @ CellError::Idb(_))) => return Err(e),
                // The next one would have no drive either.
                Err(NotTaken::Kept(e)) if has_no_drive(&e) => return Err(e),
                // It is chosen once more, where it is.
                Err(NotTaken::Kept(CellError::Exchanged(_)))
                    if ask.looked.is_new(chosen.info.medium.id, &chosen.info.medium.device) => {}
                // One that was changed is marked, and has no seat by that.
                Err(NotTaken::Kept(e))
                    if !matches!(e, CellError::Changed(_))
                        && let Some(why) = why_next(&e) =>
                {
                    let Medium { id, label, .. } = &chosen.info.medium;
                    self.note_passed_over(label, Some(*id), &e);
                    ask.pass(*id, why.into(), passed);
                }
                Err(NotTaken::Kept(e)) => {
                    let why = format!("cannot be given up now ({})", chain(&e));
                    ask.passed.push((chosen.info.medium.id, why));
                    busy = if e.is_busy() { Some(e) } else { busy };
                }
            }
        }
    }

    /// Makes a medium that was chosen the pool's, and gives up what was expired on it.
    fn take(
        &self,
        name: &str,
        Chosen { info, set, .. }: &Chosen,
    ) -> std::result::Result<Medium, NotTaken> {
        let mut medium = info.medium.clone();
        if info.state == MediumState::Expired {
            let may_go = || {
                let now = self.medium_info(&info.medium)?;
                let refused =
                    |why| CellError::NoMedium(format!("{} {why}", info.medium.label).into());
                now.held.map_or(Ok(()), |why| Err(refused(why)))
            };
            let trial = self.devices.trial(&medium.device);
            let device = self.hold_now(&medium)?;
            let given_up = self.give_up_held(&*device, &medium, &may_go)?;
            let anew = self.begin_anew(device, &medium, given_up);
            medium = anew.map_err(NotTaken::not_written)?.medium;
            trial.keep();
        }
        if info.management.pool.as_deref() != Some(name) || info.management.rotation_set != *set {
            self.idb.set_medium_pool(medium.id, Some(name), *set).map_err(CellError::from)?;
        }
        Ok(medium)
    }

    /// Notes that a medium could not be written anew, for a session to say.
    fn note_not_anew(&self, label: &str, why: &CellError) {
        let text = format!(
            "writing to medium '{label}' failed as it was to be written anew, and another is taken: {}",
            chain(why)
        );
        self.note_passed(Code::MediumFailed, label, text);
    }
}

/// Why a medium that was chosen is not taken.
enum NotTaken {
    /// What it holds is not given up, or it cannot be had.
    Kept(CellError),
    /// It could not be written anew.
    NotWritten(CellError),
}

impl NotTaken {
    fn not_written(e: CellError) -> Self {
        match e {
            CellError::Device(_) => Self::NotWritten(e),
            e => Self::Kept(e),
        }
    }
}

impl From<CellError> for NotTaken {
    fn from(e: CellError) -> Self {
        Self::Kept(e)
    }
}
