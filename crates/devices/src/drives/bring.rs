//! Bringing a tape to a drive by the robot, beside others who do the same.
//!
//! A drive is claimed before a tape is brought there, and until it is open: from then on it is this host's. So nobody takes out,
//! or opens, what somebody else has just brought; a claim ends with its process.

use std::time::{Duration, Instant};

use capstan_address::LibraryName;
use capstan_engine::leaving;
use capstan_engine::problem::Problem;
use capstan_medium::tape::{Held, Place, TapeError, is_spare};
use capstan_tape::{Changer, TapeDrive};

use super::fitting::Fitting;
use crate::state::ledger::Ledger;

/// How long to wait before looking again where tapes are.
const PAUSE: Duration = Duration::from_millis(2);
/// How often it is decided anew where a tape goes, as others move tapes too.
const MOVED_TRIES: usize = 20;
/// The same where nothing was seen to move.
const SAME_TRIES: usize = 3;
/// A program that is just being started has a drive open as long as who started it: it is looked again after that.
const FORK: Duration = Duration::from_millis(60);

/// A drive that is claimed for the next tape of this host.
pub(crate) struct Kept {
    number: u32,
    _claim: Box<dyn Send>,
}

impl Kept {
    /// Claims a drive that this host has; waits so long for others who look whether it is free.
    pub fn of(library: &mut dyn Changer, number: u32, patience: Duration) -> Option<Self> {
        let begun = Instant::now();
        loop {
            match library.claim_drive(number) {
                Ok(claim) => return Some(Self { number, _claim: claim }),
                Err(e) if e.is_busy() && begun.elapsed() < patience && leaving::nap(PAUSE) => {}
                Err(_) => return None,
            }
        }
    }
}

/// What is to be brought, and where it may go.
pub(crate) struct Bringing<'a> {
    /// Who is told that it was loaded.
    pub ledger: &'a Ledger,
    /// The library.
    pub of: &'a LibraryName,
    /// The tape.
    pub barcode: &'a str,
    /// The drive that it is to be in, where that was said.
    pub drive: Option<u32>,
    /// Drives that this host has.
    pub ours: Vec<u32>,
    /// Drives that failed in reading, the last one last: others come first.
    pub failed: Vec<u32>,
    /// Drives that are not taken: others may read what they could not.
    pub shunned: Vec<u32>,
    /// One that it has claimed.
    pub kept: Option<&'a Kept>,
    /// The drives that take it.
    pub fits: &'a Fitting,
    /// Whether it stays in its mail slot, if it is exported by record.
    pub leaves_exported: bool,
    /// Gets to know of a drive that fails as it is opened.
    pub note_dead: &'a dyn Fn(u32, &TapeError),
}

/// Where tapes are, as it was seen last.
struct Seen {
    held: Vec<Held>,
    /// The tape that is brought.
    here: Held,
}

impl Seen {
    fn in_drive(&self, number: u32) -> Option<&Held> {
        self.held.iter().find(|h| h.place == Place::Drive(number))
    }

    /// Moves the tape into a drive; one that is there is put away before.
    fn load(&self, library: &mut dyn Changer, drive: u32) -> Result<(), TapeError> {
        if let Some(there) = self.in_drive(drive) {
            put_away(library, drive, there, &self.held)?;
        }
        library.move_tape(self.here.place, Place::Drive(drive))
    }
}

/// What came of opening the drive in which the tape was found.
enum There {
    Open(Box<dyn TapeDrive>),
    /// The drive failed so, and the tape came out of it.
    Out(TapeError),
}

impl Bringing<'_> {
    /// Puts the tape into a drive, and opens that; with its number. Where somebody else moved tapes meanwhile, what was decided no
    /// longer fits, and it is decided anew.
    pub fn bring(&self, library: &mut dyn Changer) -> Result<(u32, Box<dyn TapeDrive>), TapeError> {
        let (mut left, mut unmoved) = (MOVED_TRIES, SAME_TRIES);
        loop {
            let held = library.inventory()?;
            let brought = self.bring_among(library, held.clone());
            let moved = match &brought {
                // Until it was opened, anybody could put another tape into the drive. From then on nobody can.
                Ok((n, _)) => !is_in_drive(&library.inventory()?, self.barcode, *n),
                Err(e) => matches!(
                    e,
                    TapeError::Library { .. } | TapeError::Away { .. } | TapeError::NoTape { .. }
                ),
            };
            if !moved {
                return brought;
            }
            // All may lie as before where another session moved a tape there and back.
            match library.inventory()? == held && brought.is_err() {
                true if unmoved == 0 => return brought,
                true => unmoved -= 1,
                false if left == 0 => {
                    let what = format!("tape {} of library {}", self.barcode, library.name());
                    return Err(TapeError::Busy { what, holder: OTHERS.to_owned() });
                }
                false => left -= 1,
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The same, with the tapes where they were seen.
    fn bring_among(
        &self,
        library: &mut dyn Changer,
        held: Vec<Held>,
    ) -> Result<(u32, Box<dyn TapeDrive>), TapeError> {
        if let Some(drive) = self.drive {
            library.elements().refuse_no_drive(library.name(), drive)?;
        }
        let here = find(library, &held, self.barcode)?;
        self.refuse_exported(library, &here)?;
        self.fits.refuse_none(library.name(), self.barcode, self.drive)?;
        let mut seen = Seen { held, here };
        self.leave_unfit(library, &mut seen)?;
        self.leave_unwanted(library, &mut seen)?;
        let left = match seen.here.place {
            Place::Drive(n) => match self.open_there(library, n, &mut seen)? {
                There::Open(drive) => return Ok((n, drive)),
                There::Out(e) => Some((n, e)),
            },
            _ => None,
        };
        self.bring_to_first(library, &seen, left)
    }

    /// Takes the tape out of a drive that does not take it.
    fn leave_unfit(&self, library: &mut dyn Changer, seen: &mut Seen) -> Result<(), TapeError> {
        if let Place::Drive(n) = seen.here.place
            && !self.fits.takes(n)
            && self.drive.is_none()
        {
            let _claim = self.claim(library, n)?;
            put_away(library, n, &seen.here, &seen.held)?;
            self.look_again(library, seen)?;
        }
        Ok(())
    }

    /// Takes the tape out of a drive that it is not to be in, where another one may do better.
    fn leave_unwanted(&self, library: &mut dyn Changer, seen: &mut Seen) -> Result<(), TapeError> {
        if let Place::Drive(n) = seen.here.place
            && (self.shunned.contains(&n)
                || self.drive.is_some_and(|drive| drive != n)
                || self.failed.contains(&n) && self.has_another(library, n))
        {
            let _claim = self.claim(library, n)?;
            // Where it does not come out it is read where it is.
            if put_away(library, n, &seen.here, &seen.held).is_ok() {
                self.look_again(library, seen)?;
            }
        }
        Ok(())
    }

    /// Opens the drive that the tape is in; takes it out where that fails and another one will do.
    fn open_there(
        &self,
        library: &mut dyn Changer,
        drive: u32,
        seen: &mut Seen,
    ) -> Result<There, TapeError> {
        let _claim = self.claim(library, drive)?;
        match library.open_drive(drive) {
            Err(e) if e.blames_drive() && self.drive.is_none() => {
                (self.note_dead)(drive, &e);
                // Where it comes out, another drive may read it.
                if put_away(library, drive, &seen.here, &seen.held).is_err() {
                    return Err(e);
                }
                self.look_again(library, seen)?;
                Ok(There::Out(e))
            }
            opened => Ok(There::Open(opened?)),
        }
    }

    /// Sees where tapes are after one was moved.
    fn look_again(&self, library: &mut dyn Changer, seen: &mut Seen) -> Result<(), TapeError> {
        seen.held = library.inventory()?;
        seen.here = find(library, &seen.held, self.barcode)?;
        Ok(())
    }

    /// Brings the tape to the first drive that can be had, and opens that. It may have been taken out of one that failed so.
    fn bring_to_first(
        &self,
        library: &mut dyn Changer,
        seen: &Seen,
        left: Option<(u32, TapeError)>,
    ) -> Result<(u32, Box<dyn TapeDrive>), TapeError> {
        let (left, mut offline) = left.unzip();
        let (mut holders, mut unreached) = (Vec::new(), None);
        for n in self.drives_in_order(library, seen, left) {
            let _claim = match self.claim(library, n) {
                Ok(claim) => claim,
                Err(TapeError::Busy { holder, .. }) => {
                    holders.push(holder);
                    continue;
                }
                // The robot reaches it, and this host does not.
                Err(e @ TapeError::Library { .. }) => {
                    unreached = Some(e);
                    continue;
                }
                Err(e) => return Err(e),
            };
            match seen.load(library, n) {
                // What goes wrong from here on goes wrong with the tape in this drive.
                Ok(()) => return Ok((n, self.open_loaded(library, n)?)),
                Err(TapeError::Busy { holder, .. }) => holders.push(holder),
                Err(e) if e.blames_drive() => offline = Some(e),
                Err(e) => return Err(e),
            }
        }
        let none_reached = unreached.filter(|_| holders.is_empty() && self.ours.is_empty());
        let none_free = || no_drive(library.name(), &holders);
        Err(offline.or(none_reached).unwrap_or_else(none_free))
    }

    /// The drives that may be tried, but the one that it left, in the order in which they are.
    fn drives_in_order(&self, library: &dyn Changer, seen: &Seen, left: Option<u32>) -> Vec<u32> {
        let mut drives: Vec<u32> = match self.drive {
            Some(n) => vec![n],
            None => (1..=library.elements().drives).collect(),
        };
        let may = |n: &u32| !self.ours.contains(n) && !self.shunned.contains(n);
        drives.retain(|n| Some(*n) != left && may(n) && self.fits.takes(*n));
        // Those first that can write it as well, and empty ones: nothing has to be put away.
        drives.sort_by_key(|n| {
            (self.rank_of_failed(*n), !self.fits.writes(*n), seen.in_drive(*n).is_some())
        });
        drives
    }

    /// Opens the drive to which the tape was brought.
    fn open_loaded(
        &self,
        library: &mut dyn Changer,
        drive: u32,
    ) -> Result<Box<dyn TapeDrive>, TapeError> {
        self.ledger.note_loaded(self.of, self.barcode);
        let opened = library.open_drive(drive);
        if let Err(e) = &opened
            && e.blames_drive()
        {
            (self.note_dead)(drive, e);
        }
        opened
    }

    /// Refuses a tape that waits in a mail slot for somebody to take it out. It is asked of the record each time that it is decided what
    /// is moved: who waited may have missed that.
    fn refuse_exported(&self, library: &dyn Changer, here: &Held) -> Result<(), TapeError> {
        let may_be_out = self.leaves_exported && matches!(here.place, Place::Mail(_));
        let exported = || self.ledger.exported(self.of, self.barcode);
        match may_be_out.then(exported).flatten() {
            Some(exported) => Err(TapeError::Away {
                library: library.name().to_owned(),
                problem: Problem::new(format!(
                    "tape {} {exported}, and lies in a mail slot",
                    self.barcode
                ))
                .hint("`capstan library import` takes it back"),
            }),
            None => Ok(()),
        }
    }

    /// When a drive failed in reading: those that did come last, of them first the one whose failure is the longest ago.
    fn rank_of_failed(&self, number: u32) -> Option<usize> {
        self.failed.iter().position(|n| *n == number)
    }

    /// Whether there is a drive for the tape that did not fail, and that nobody has.
    fn has_another(&self, library: &mut dyn Changer, failed: u32) -> bool {
        let may = |n: &u32| {
            *n != failed
                && !self.failed.contains(n)
                && !self.shunned.contains(n)
                && !self.ours.contains(n)
                && self.fits.takes(*n)
        };
        self.drive.is_none()
            && (1..=library.elements().drives)
                .filter(may)
                .any(|n| library.drive_info(n).is_ok_and(|info| info.in_use.is_none()))
    }

    /// Claims a drive, unless that is done. Who has it open is not disturbed by that.
    fn claim(
        &self,
        library: &mut dyn Changer,
        number: u32,
    ) -> Result<Option<Box<dyn Send>>, TapeError> {
        if self.kept.is_some_and(|kept| kept.number == number) {
            return Ok(None);
        }
        let user = |library: &mut dyn Changer| library.drive_info(number).map(|info| info.in_use);
        if user(library)?.is_some()
            && leaving::nap(FORK)
            && let Some(holder) = user(library)?
        {
            let what = format!("drive {number} of library {}", library.name());
            return Err(TapeError::Busy { what, holder });
        }
        library.claim_drive(number).map(Some)
    }
}

/// Whoever it is.
const OTHERS: &str = "other sessions";

/// The error that others have all drives.
pub(crate) fn no_drive(library: &str, holders: &[String]) -> TapeError {
    let mut named: Vec<&str> = Vec::new();
    for holder in holders {
        if !named.contains(&holder.as_str()) {
            named.push(holder);
        }
    }
    let holder = if named.is_empty() { OTHERS.to_owned() } else { named.join(" and ") };
    TapeError::NoDriveFree { library: library.to_owned(), holder }
}

/// The tape with that barcode. A drive that gets one that cleans cleans itself, and ejects it.
fn find(library: &dyn Changer, held: &[Held], barcode: &str) -> Result<Held, TapeError> {
    let refused =
        |problem: Problem| TapeError::Library { library: library.name().to_owned(), problem };
    match held.iter().find(|h| h.barcode == barcode) {
        Some(tape) if tape.is_cleaning() => Err(refused(
            Problem::new(format!("tape {barcode} cleans drives and takes no data"))
                .hint("name another, or use `capstan library clean` to clean a drive"),
        )),
        Some(tape) => Ok(tape.clone()),
        None => Err(TapeError::Away {
            library: library.name().to_owned(),
            problem: Problem::new(format!("tape {barcode} is not in it"))
                .hint("put it into a mail slot and `capstan library import` it"),
        }),
    }
}

fn is_in_drive(held: &[Held], barcode: &str, drive: u32) -> bool {
    held.iter().any(|h| (h.place, h.barcode.as_str()) == (Place::Drive(drive), barcode))
}

/// Brings the tape that is in a drive back to where it came from, or to any free slot.
fn put_away(
    library: &mut dyn Changer,
    drive: u32,
    there: &Held,
    held: &[Held],
) -> Result<(), TapeError> {
    library.unload_drive(drive)?;
    if !is_in_drive(&library.inventory()?, &there.barcode, drive) {
        return Err(TapeError::Library {
            library: library.name().to_owned(),
            problem: format!("tape {} is not in drive {drive} any more", there.barcode).into(),
        });
    }
    let free = |place: &Place| held.iter().all(|h| h.place != *place);
    let home = there.from.filter(free);
    let elements = library.elements();
    let slots = (1..=elements.slots).map(Place::Slot);
    // In need a mail slot will do, and in the end the slot of a tape that is in another drive.
    let places: Vec<Place> = slots.chain((1..=elements.mail_slots).map(Place::Mail)).collect();
    let spare = places.iter().find(|place| is_spare(held, **place)).copied();
    let any = || places.iter().copied().find(free);
    let Some(home) = home.or(spare).or_else(any) else {
        return Err(TapeError::Library {
            library: library.name().to_owned(),
            problem: Problem::new(format!(
                "there is no free slot for tape {}, which is in drive {drive}",
                there.barcode
            ))
            .hint("take a tape out of the library"),
        });
    };
    library.move_tape(Place::Drive(drive), home)
}

#[cfg(test)]
mod tests;
