//! A medium that is written, opened, or made where there is none: by its name, or one of several that would do.

use capstan_address::Address;
use capstan_engine::problem::Explain;
use capstan_idb::Medium;
use capstan_medium::HeldMedium;
use capstan_port::media::write::members::Member;

use crate::Cell;
use crate::error::{BackupRefusal, CellError, Result};
use crate::media::libraries::{is_of, libraries_of};
use crate::observe::{Observer, Silent};
use crate::session::waited::is_ours;
use crate::supply::Wanted;
use crate::supply::tapes::arrays::is_of_libraries;
use crate::supply::tapes::by_hand::Choice;

impl Cell {
    /// Opens a device to write to, or makes a medium there.
    pub(crate) fn open_device(
        &self,
        address: &Address,
        wanted: &Wanted,
        observer: &dyn Observer,
    ) -> Result<Member> {
        Ok(self.open_held(address, wanted, false, &Choice::default(), observer)?.0)
    }

    /// The same; where the device has several tapes, one of that choice.
    pub(crate) fn open_chosen(
        &self,
        address: &Address,
        wanted: &Wanted,
        choice: &Choice,
    ) -> Result<Member> {
        Ok(self.open_held(address, wanted, false, choice, &Silent)?.0)
    }

    /// Opens one of several media that would do, which is on trial: nothing is waited for.
    pub(crate) fn open_on_trial(&self, address: &Address, wanted: &Wanted) -> Result<Member> {
        Ok(self.open_held_now(address, wanted, false, &Choice::default(), &Silent)?.0)
    }

    /// Opens one of several media that would do: who has it, or all drives, is not waited for, and where it will not do, its drive is
    /// given back. If `hold`, with the medium held on beyond the life of the device.
    fn try_held(
        &self,
        address: &Address,
        wanted: &Wanted,
        hold: bool,
        choice: &Choice,
        observer: &dyn Observer,
    ) -> Result<(Member, Option<HeldMedium>)> {
        let trial = self.devices.trial(address);
        let opened = self.open_held_now(address, wanted, hold, choice, observer)?;
        trial.keep();
        Ok(opened)
    }

    /// The same of a medium that was named, whose device others may have: that is waited for. Of a pool another medium may do.
    pub(super) fn open_held(
        &self,
        address: &Address,
        wanted: &Wanted,
        hold: bool,
        choice: &Choice,
        observer: &dyn Observer,
    ) -> Result<(Member, Option<HeldMedium>)> {
        let has_all = || {
            address.tapes().iter().any(|tape| self.devices.has_all_drives(&tape.resolved().library))
        };
        if choice.pool.is_some() {
            return self.try_held(address, wanted, hold, choice, observer);
        }
        // Another thread of this process may have a tape, which is soon done with it.
        let is_ours_to_hold = |e: &CellError| !address.is_tape() && is_ours(e);
        let mut wait = self.devices.queue().wait();
        loop {
            match self.open_held_now(address, wanted, hold, choice, observer) {
                Err(e) if e.is_busy() && !has_all() && !is_ours_to_hold(&e) => {
                    // Nobody waits for what this process has and does not use.
                    self.devices.release_idle();
                    if !wait.again(&e) {
                        return Err(e);
                    }
                }
                opened => return opened,
            }
        }
    }

    pub(super) fn open_held_now(
        &self,
        address: &Address,
        wanted: &Wanted,
        hold: bool,
        choice: &Choice,
        observer: &dyn Observer,
    ) -> Result<(Member, Option<HeldMedium>)> {
        let of_libraries = match address {
            Address::Array(array) => is_of_libraries(&*self.devices, array)
                .map_err(|e| self.lacks_library(address, &e))?,
            _ => false,
        };
        match address {
            Address::Tape(tape) if tape.tape.is_none() => match self.devices.is_by_hand(tape)? {
                true => self.open_by_hand(tape, choice, &mut || {
                    self.open_named(address, wanted, hold, observer)
                }),
                false => {
                    let mut open = || self.open_tape_of(tape, wanted, &choice.passed);
                    let opened = match choice.asks {
                        true => self.open_when_brought(
                            std::slice::from_ref(&tape.library),
                            &choice.wanted(),
                            &mut open,
                        ),
                        false => open(),
                    };
                    Ok((opened?, None))
                }
            },
            Address::Array(array) if of_libraries => {
                wanted.by_drive.refuse_no_tape(address)?;
                let mut open = || self.open_array_of(array, wanted, hold, &choice.passed);
                if !choice.asks {
                    return open();
                }
                let libraries: Vec<_> =
                    libraries_of(address).into_iter().map(|of| of.library).collect();
                let tapes = format!(
                    "blank tapes for an array of {}, or the tapes of one of this cell that takes more",
                    array.layout.members()
                );
                self.open_when_brought(&libraries, &tapes, &mut open)
            }
            // Their tapes are changed by hand, which nobody is asked for.
            _ if address.names_no_medium() && !choice.passed.is_empty() => {
                Err(BackupRefusal::ArrayByHandFull { array: address.clone() }.into())
            }
            _ => self.open_named(address, wanted, hold, observer),
        }
    }

    /// The error where a library is away from which a session is to choose tapes of an array.
    fn lacks_library(&self, array: &Address, why: &CellError) -> CellError {
        let known = self.idb.media().unwrap_or_default();
        let of_these = |m: &&Medium| is_of(&m.device, array);
        let named = known.iter().filter(of_these).max_by_key(|m| m.created_us);
        // What would help a library that was never there does not help here.
        let why = why.sentence();
        BackupRefusal::NoTapesForArray {
            array: array.clone(),
            why,
            without: named.map(|m| m.device.clone()),
        }
        .into()
    }
}
