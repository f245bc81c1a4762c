//! Arrays of tapes that are chosen from libraries, a tape for each member: `rait5:vtape:/v,vtape:/v,vtape:/v`.
//!
//! As with single tapes, a session gets the array of this cell that takes more and was written last, else a free one, else a new
//! one. A new one is made of tapes that hold nothing: free ones of this cell, then blank ones. Arrays that lack a tape are left to who
//! names them.

use std::collections::{HashMap, VecDeque};

use capstan_address::{Address, ArrayAddress, LibraryName, TapeAddress};
use capstan_engine::message::shell_word;
use capstan_engine::problem::Problem;
use capstan_format::id::MediumId;
use capstan_idb::Medium;
use capstan_medium::host::DeviceHost;
use capstan_medium::{DeviceError, HeldMedium};
use capstan_port::media::write::members::Member;

use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{CellError, Result, SupplyRefusal};
use crate::media::libraries::is_of;
use crate::media::{BLOCK_SIZE, MediumState, label_of, lacking_tapes};
use crate::observe::Silent;
use crate::supply::Wanted;
use crate::supply::pools::queue::has_no_drive;
use crate::supply::tapes::Candidate;
use crate::supply::unfit::{PassedOver, Unfit, why_passed};

/// A medium that was opened to write, and held if it was to be.
type Opened = (Member, Option<HeldMedium>);

/// How often tapes of a new array are chosen again, as another session took one of them first.
const TAKEN_TRIES: usize = 20;

/// Whether an array names nothing but libraries, of which its tapes are to be chosen. Drives that stand alone are no libraries.
pub(crate) fn is_of_libraries(devices: &dyn DeviceHost, array: &ArrayAddress) -> Result<bool> {
    let array = Address::from(array.clone());
    if !array.names_no_medium() {
        return Ok(false);
    }
    for tape in array.tapes() {
        if devices.is_by_hand(&tape)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Cell {
    /// Opens an array of tapes of these libraries to write, none of those that were `passed` over.
    pub(crate) fn open_array_of(
        &self,
        array: &ArrayAddress,
        wanted: &Wanted,
        hold: bool,
        passed: &[PassedOver],
    ) -> Result<Opened> {
        if Address::from(array.clone()).tapes().iter().any(|tape| tape.spool.is_some()) {
            return Err(SupplyRefusal::ArrayWithSpool { array: array.clone() }.into());
        }
        self.devices.refuse_too_few_drives(array)?;
        let mut unfit = Unfit::default();
        for (medium, why_not) in self.arrays_in_order(array, wanted.by_drive)? {
            let name = format!("array '{}'", medium.label);
            let why_not = why_passed(passed, medium.id).map(ToString::to_string).or(why_not);
            match why_not {
                Some(why) => unfit.say(&name, why),
                None => match self.open_whole(&medium.device, wanted, hold) {
                    Err(e) => {
                        self.note_passed_over(&medium.label, Some(medium.id), &e);
                        unfit.add(&name, e)?;
                    }
                    opened => return opened,
                },
            }
        }
        self.open_new_array(array, wanted, hold, &unfit)
    }

    /// The known arrays of tapes of these libraries, those first that are taken first; with the reason why one cannot be used.
    fn arrays_in_order(
        &self,
        array: &ArrayAddress,
        by_drive: ByDrive,
    ) -> Result<Vec<(Medium, Option<String>)>> {
        let wanted = Address::from(array.clone());
        let mut ranked = Vec::new();
        for (place, medium) in self.idb.media()?.into_iter().enumerate() {
            let device @ Address::Array(_) = &medium.device else { continue };
            if !is_of(device, &wanted) {
                continue;
            }
            let info = self.medium_info(&medium)?;
            let (rank, why) = self.turn_of(&info, by_drive, place)?;
            let lacks = || lacking_tapes(&*self.devices, device).1.into_iter().next();
            let why = why.or_else(|| lacks().map(|lacking| format!("lacks a tape: {lacking}")));
            ranked.push((rank, medium, why));
        }
        ranked.sort_by_key(|(rank, ..)| *rank);
        Ok(ranked.into_iter().map(|(_, medium, why)| (medium, why)).collect())
    }

    /// Opens an array if all its members can be written.
    fn open_whole(&self, address: &Address, wanted: &Wanted, hold: bool) -> Result<Opened> {
        let trial = self.devices.trial(address);
        let mut opened = self.open_named(address, wanted, hold, &Silent)?;
        if let Some(of) = opened.0.device.take_lost().into_iter().next() {
            let (member, why) = (of.name(), of.error);
            // The trial gives back what was written no more.
            let label = opened.0.medium.label.clone();
            drop(opened);
            self.passed_lost(&label, &member, &why.to_string());
            return Err(SupplyRefusal::MemberFailed { member, why }.into());
        }
        trial.keep();
        Ok(opened)
    }

    /// Makes an array of tapes that hold nothing, and opens it.
    fn open_new_array(
        &self,
        array: &ArrayAddress,
        wanted: &Wanted,
        hold: bool,
        unfit: &Unfit,
    ) -> Result<Opened> {
        let size = wanted.block_size.unwrap_or(BLOCK_SIZE);
        let mut left = TAKEN_TRIES;
        let address = loop {
            let (chosen, free) = self.tapes_of_new_array(array, wanted, unfit.clone())?;
            let address = Address::from(chosen.clone());
            let label = self.label_of_array(&address, &free)?;
            let header = self
                .new_medium_by(wanted.by_drive, &label, size)
                .map_err(CellError::io("read", "/dev/urandom"))?;
            let new_id = || self.entropy.id().map(MediumId);
            match self.devices.make_array(&chosen, &header.as_array(), &free, &new_id) {
                // Another session took one of them since they were looked at.
                Err(e) if e.is_used() && left > 0 => left -= 1,
                made => {
                    made?;
                    for medium in free {
                        if let Some(row) = self.idb.medium(medium)? {
                            self.forget_erased(&row)?;
                        }
                    }
                    break address;
                }
            }
        };
        self.open_named(&address, wanted, hold, &Silent)
    }

    /// The tapes of a new array, and the media on them that are given up.
    fn tapes_of_new_array(
        &self,
        array: &ArrayAddress,
        wanted: &Wanted,
        mut unfit: Unfit,
    ) -> Result<(ArrayAddress, Vec<MediumId>)> {
        let mut of: HashMap<LibraryName, VecDeque<Candidate>> = HashMap::new();
        let mut free: Vec<MediumId> = Vec::new();
        let chosen = array.with_tapes(&mut |member: &TapeAddress| {
            let library = member.resolved();
            if !of.contains_key(&library.library) {
                let tapes = self.tapes_in_order(&library, wanted.by_drive)?;
                of.insert(library.library.clone(), tapes.into());
            }
            let mut tapes = of.get_mut(&library.library);
            while let Some(candidate) = tapes.as_mut().and_then(|tapes| tapes.pop_front()) {
                let tape = library.with_tape(&candidate.barcode);
                let tape = TapeAddress { drive: library.drive, ..tape };
                let trial = self.devices.trial(&Address::from(tape.clone()));
                match self.holds_nothing(&candidate, &tape) {
                    Ok(given_up) => {
                        trial.keep();
                        free.extend(given_up);
                        return Ok(tape);
                    }
                    Err(e) => {
                        if candidate.known.is_none() && candidate.why_not.is_none() {
                            self.remember_unfit(&tape, &e)?;
                        }
                        let no_drive = has_no_drive(&e);
                        match candidate.why_not {
                            Some(why) if candidate.is_seen => {
                                unfit.say_seen(&candidate.barcode, why, &library.library);
                            }
                            _ => unfit.add(&candidate.barcode, e)?,
                        }
                        if no_drive {
                            break;
                        }
                    }
                }
            }
            Err(unfit.error(&format!("tape of {}", library.library), |found| {
                let (library, members) = (&library.library, array.layout.members());
                Problem::new(format!(
                    "no array of tapes can be written, and {library} has too few tapes for a new one of {members} ({found})"
                ))
                .hint(format!(
                    "put blank tapes into mail slots and `capstan library import {}` them, or recycle an array",
                    shell_word(library)
                ))
            }))
        })?;
        Ok((chosen, free))
    }

    /// What a new array is called: as one of its tapes, where no other medium is called so; media that are `going` do not count.
    fn label_of_array(&self, array: &Address, going: &[MediumId]) -> Result<String> {
        let media = self.idb.media()?;
        let is_free = |label: &String| {
            media.iter().all(|medium| medium.label != *label || going.contains(&medium.id))
        };
        let first = label_of(array);
        let barcodes = array.tapes().into_iter().filter_map(|tape| tape.tape);
        let numbered = (2..u32::MAX).map(|n| format!("{first}-{n}"));
        let mut labels = barcodes.chain(numbered);
        Ok(labels.find(is_free).unwrap_or_else(|| first.clone()))
    }

    /// Refuses a tape that cannot become a member of a new array. Returns the medium, or member of an array, that is given up with it.
    fn holds_nothing(&self, candidate: &Candidate, tape: &TapeAddress) -> Result<Option<MediumId>> {
        if let Some(why) = &candidate.why_not {
            return Err(SupplyRefusal::TapeNotFree { why: why.clone() }.into());
        }
        let Some((medium, state)) = candidate.known else {
            return match self.devices.refuse_used(tape) {
                Err(e @ DeviceError::ArrayMember { .. }) => {
                    let left = self.left_of_making(tape)?;
                    let left = left.filter(|_| self.devices.refuse_worm(tape).is_ok());
                    left.map(Some).ok_or_else(|| e.into())
                }
                unused => Ok(unused.map(|()| None)?),
            };
        };
        if state != MediumState::Free {
            return Err(SupplyRefusal::TapeHoldsBackups.into());
        }
        let nobody = || Err(std::io::ErrorKind::NotFound.into());
        let address = Address::from(tape.clone());
        let device = self.judged(&address, self.devices.writable(&address, &nobody, None, &())?)?;
        match device.medium().header().medium == medium {
            false => Err(SupplyRefusal::AnotherTape.into()),
            true if !device.medium().segments()?.is_empty() => {
                Err(SupplyRefusal::TapeHoldsUnrecorded.into())
            }
            true => Ok(Some(medium)),
        }
    }
}
