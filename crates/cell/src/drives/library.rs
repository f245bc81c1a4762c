//! Tape libraries as an administrator handles them: what is where, and tapes from here to there.
//!
//! Nothing here reads or writes a tape. [`known`] is what the internal database has to say of tapes.

pub(crate) mod known;

use capstan_address::LibraryName;
use capstan_medium::DeviceError;
use capstan_medium::host::DeviceHost;
use capstan_medium::tape::FoundDevice;
use capstan_medium::tape::TapeError;
use capstan_medium::tape::TapeLibrary;
use capstan_medium::tape::{DriveInfo, Elements, Held, Place, is_spare};

pub use known::{Exported, Inventoried, KnownTape};

use crate::error::{CellError, DriveRefusal, Result};

/// A library now.
#[derive(Debug, Clone)]
pub struct LibraryStatus {
    /// Its name.
    pub name: String,
    /// What it has.
    pub elements: Elements,
    /// Its drives.
    pub drives: Vec<DriveStatus>,
    /// Tapes in slots and mail slots.
    pub tapes: Vec<Held>,
}

/// A drive of a library now.
#[derive(Debug, Clone)]
pub struct DriveStatus {
    /// Its number, from 1.
    pub number: u32,
    /// What it is, and who uses it.
    pub info: DriveInfo,
    /// The tape in it.
    pub tape: Option<Held>,
}

/// A tape that was moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Its barcode; empty where it has none that could be read.
    pub barcode: String,
    /// Where it was.
    pub from: Place,
    /// Where it is; nothing where somebody has to take it out.
    pub to: Option<Place>,
}

/// A drive that was cleaned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaned {
    /// The cleaning tape.
    pub barcode: String,
    /// Uses of it that are left, where that is known.
    pub left: Option<u32>,
}

/// Which tape is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TapeName {
    /// The one in a place.
    At(Place),
    /// The one with that barcode.
    Barcode(String),
}

impl std::str::FromStr for TapeName {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        Ok(text.parse().map_or_else(|_| Self::Barcode(text.to_owned()), Self::At))
    }
}

/// A library that is open.
pub(crate) fn open(devices: &dyn DeviceHost, name: &LibraryName) -> Result<Box<dyn TapeLibrary>> {
    devices.library(name).map_err(of_tape)
}

pub(crate) fn of_tape(error: TapeError) -> CellError {
    CellError::Device(DeviceError::Tape(error))
}

/// Drives and changers of this machine, or of those iSCSI hosts; and why some targets could not be asked.
pub fn scan(devices: &dyn DeviceHost, hosts: &[String]) -> Result<(Vec<FoundDevice>, Vec<String>)> {
    if hosts.is_empty() {
        return Ok((devices.devices_here(), Vec::new()));
    }
    let (mut seen, mut failed) = (Vec::new(), Vec::new());
    for host in hosts {
        let (mut found, mut not) = devices.devices_at(host)?;
        seen.append(&mut found);
        failed.append(&mut not);
    }
    Ok((seen, failed))
}

/// How it stands with a library.
pub fn status(devices: &dyn DeviceHost, name: &LibraryName) -> Result<LibraryStatus> {
    let mut library = open(devices, name)?;
    let elements = library.elements();
    let infos = (1..=elements.drives).map(|n| Ok((n, library.drive_info(n).map_err(of_tape)?)));
    let mut infos: Vec<(u32, DriveInfo)> = infos.collect::<Result<_>>()?;
    let held = match library.inventory() {
        // Only who has a drive that stands alone could say what is in it.
        Err(TapeError::Busy { holder, .. }) if elements.slots == 0 => {
            infos.iter_mut().for_each(|(_, info)| info.in_use = Some(holder.clone()));
            Vec::new()
        }
        held => held.map_err(of_tape)?,
    };
    let in_drive = |n| held.iter().find(|h| h.place == Place::Drive(n)).cloned();
    let drives = infos
        .into_iter()
        .map(|(number, info)| DriveStatus { number, info, tape: in_drive(number) })
        .collect();
    let tapes = held.iter().filter(|h| !matches!(h.place, Place::Drive(_))).cloned().collect();
    Ok(LibraryStatus { name: name.to_string(), elements, drives, tapes })
}

/// How often it is decided anew what is moved, as others move tapes too.
const TRIES: u32 = 20;

/// Does something with tapes by where they lie; anew, if that failed as others moved some meanwhile: a robot is waited for, and who has it
/// moves tapes.
fn by_places<T>(
    library: &mut dyn TapeLibrary,
    mut act: impl FnMut(&mut dyn TapeLibrary, &[Held]) -> Result<T>,
) -> Result<T> {
    let mut held = library.inventory().map_err(of_tape)?;
    for _ in 1..TRIES {
        let done = act(library, &held);
        let is_of_places = matches!(
            &done,
            Err(CellError::Device(e)) if matches!(e.of_tape(), Some(TapeError::Library { .. }))
        );
        if !is_of_places {
            return done;
        }
        let now = library.inventory().map_err(of_tape)?;
        if now == held {
            return done;
        }
        held = now;
    }
    act(library, &held)
}

/// Moves a tape from a place to another. One in a drive is unloaded first.
pub fn move_tape(
    devices: &dyn DeviceHost,
    name: &LibraryName,
    from: Place,
    to: Place,
) -> Result<Moved> {
    let mut library = open(devices, name)?;
    let held = library.inventory().map_err(of_tape)?;
    let barcode = at(&held, from).map(|h| h.barcode.clone()).unwrap_or_default();
    if let (Place::Drive(n), Some(_)) = (from, at(&held, from)) {
        library.unload_drive(n).map_err(of_tape)?;
    }
    carry(&mut *library, &barcode, from, to)
}

/// Loads a tape into a drive: that one, or the first that is empty and that nobody uses.
pub fn load(
    devices: &dyn DeviceHost,
    name: &LibraryName,
    tape: &TapeName,
    drive: Option<u32>,
) -> Result<Moved> {
    let mut library = open(devices, name)?;
    by_places(&mut *library, |library, held| {
        let tape = find(held, tape, name)?;
        if tape.is_cleaning() {
            return Err(DriveRefusal::CleaningTape { barcode: tape.barcode.clone() }.into());
        }
        if let Place::Drive(n) = tape.place {
            return Err(DriveRefusal::InDriveAlready { tape: called(tape), drive: n }.into());
        }
        let number = match drive {
            Some(number) => has_drive(library, number)?,
            None => free_drive(library, held)?,
        };
        carry(library, &tape.barcode, tape.place, Place::Drive(number))
    })
}

/// The first drive that is empty, that nobody uses, and that this host reaches.
fn free_drive(library: &mut dyn TapeLibrary, held: &[Held]) -> Result<u32> {
    for number in 1..=library.elements().drives {
        if at(held, Place::Drive(number)).is_some() {
            continue;
        }
        let info = library.drive_info(number).map_err(of_tape)?;
        if info.in_use.is_none() {
            return Ok(number);
        }
    }
    Err(DriveRefusal::NoFreeDrive.into())
}

/// Unloads a drive: its tape goes back to where it came from, or else to the first free slot.
pub fn unload(devices: &dyn DeviceHost, name: &LibraryName, drive: u32) -> Result<Moved> {
    let mut library = open(devices, name)?;
    let elements = library.elements();
    has_drive(&*library, drive)?;
    let from = Place::Drive(drive);
    if elements.slots == 0 {
        library.unload_drive(drive).map_err(of_tape)?;
        return Ok(Moved { barcode: String::new(), from, to: None });
    }
    by_places(&mut *library, |library, held| {
        let Some(tape) = at(held, from) else {
            return Err(DriveRefusal::EmptyDrive { drive, library: name.clone() }.into());
        };
        let home = tape.from.filter(|place| at(held, *place).is_none());
        let to = home.or_else(|| free_slot(held, elements)).ok_or_else(|| no_room(name))?;
        library.unload_drive(drive).map_err(of_tape)?;
        carry(library, &tape.barcode, from, to)
    })
}

/// Cleans a drive with the first cleaning tape that is fit for it.
pub fn clean(devices: &dyn DeviceHost, name: &LibraryName, drive: u32) -> Result<Cleaned> {
    let mut library = open(devices, name)?;
    has_drive(&*library, drive)?;
    let held = library.inventory().map_err(of_tape)?;
    if let Some(there) = at(&held, Place::Drive(drive)) {
        return Err(DriveRefusal::DriveNotEmpty { drive, tape: called(there) }.into());
    }
    let mut tapes =
        held.iter().filter(|h| h.is_cleaning() && !matches!(h.place, Place::Drive(_))).peekable();
    if tapes.peek().is_none() && library.elements().slots > 0 {
        return Err(DriveRefusal::NoCleaningTape { library: name.clone() }.into());
    }
    loop {
        // Without slots the library says itself that a person has to do it.
        let tape = tapes.next();
        let place = tape.map_or(Place::Slot(1), |tape| tape.place);
        match library.clean(drive, place) {
            Ok(left) => {
                let barcode = tape.map(|tape| tape.barcode.clone()).unwrap_or_default();
                return Ok(Cleaned { barcode, left });
            }
            // One that is used up does not keep the next one from being used.
            Err(TapeError::Library { .. }) if tapes.peek().is_some() => {}
            Err(e) => return Err(of_tape(e)),
        }
    }
}

/// The number of a drive that the library has.
fn has_drive(library: &dyn TapeLibrary, drive: u32) -> Result<u32> {
    library.elements().refuse_no_drive(library.name(), drive).map_err(of_tape)?;
    Ok(drive)
}

fn carry(library: &mut dyn TapeLibrary, barcode: &str, from: Place, to: Place) -> Result<Moved> {
    library.move_tape(from, to).map_err(of_tape)?;
    Ok(Moved { barcode: barcode.to_owned(), from, to: Some(to) })
}

fn at(held: &[Held], place: Place) -> Option<&Held> {
    held.iter().find(|h| h.place == place)
}

fn find<'a>(held: &'a [Held], tape: &TapeName, library: &LibraryName) -> Result<&'a Held> {
    match tape {
        TapeName::At(place) => at(held, *place).ok_or_else(|| {
            DriveRefusal::EmptyPlace { place: *place, library: library.clone() }.into()
        }),
        TapeName::Barcode(barcode) => {
            held.iter().find(|h| h.barcode == *barcode && !barcode.is_empty()).ok_or_else(|| {
                DriveRefusal::UnknownTape { library: library.clone(), barcode: barcode.clone() }
                    .into()
            })
        }
    }
}

fn called(tape: &Held) -> String {
    match tape.barcode.as_str() {
        "" => "a tape without a barcode".to_owned(),
        barcode => format!("tape {barcode}"),
    }
}

/// The first slot that is free, and to which no tape goes back that is in a drive.
fn free_slot(held: &[Held], elements: Elements) -> Option<Place> {
    (1..=elements.slots).map(Place::Slot).find(|place| is_spare(held, *place))
}

fn no_room(library: &LibraryName) -> CellError {
    DriveRefusal::NoFreeSlot { library: library.clone() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tapes_are_named_by_place_or_barcode() {
        let name = |text: &str| text.parse::<TapeName>().unwrap();
        assert_eq!(name("slot:3"), TapeName::At(Place::Slot(3)));
        assert_eq!(name("A00001L9"), TapeName::Barcode("A00001L9".to_owned()));
        assert_eq!(name("slot:x"), TapeName::Barcode("slot:x".to_owned()));
    }
}
