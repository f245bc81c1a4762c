//! Libraries as places of tapes: which tapes are in them, and which devices are of the same libraries.

use std::collections::{HashMap, HashSet};

use capstan_address::{Address, LibraryName, TapeAddress};
use capstan_medium::DeviceError;
use capstan_medium::host::DeviceHost;

use crate::error::chain;

/// Barcodes of the tapes in libraries, or why a library cannot be asked; each is asked once.
pub(crate) type Libraries =
    HashMap<LibraryName, std::result::Result<HashSet<String>, Option<String>>>;

/// Why a tape is not in its library, if it is not.
pub(crate) fn tape_away(
    devices: &dyn DeviceHost,
    tape: &Address,
    libraries: &mut Libraries,
) -> Option<String> {
    match tape {
        Address::Tape(TapeAddress { tape: Some(barcode), library, .. }) => {
            match libraries.entry(library.clone()).or_insert_with(|| barcodes_in(devices, library))
            {
                Ok(held) if held.contains(barcode) => None,
                Ok(_) => Some("it is not in the library".to_owned()),
                Err(why) => why.clone(),
            }
        }
        // The tapes of a drive that stands alone lie on a shelf.
        _ => None,
    }
}

/// What is in a library; of one that others have nothing is said.
fn barcodes_in(
    devices: &dyn DeviceHost,
    library: &LibraryName,
) -> std::result::Result<HashSet<String>, Option<String>> {
    match devices.inventory(library) {
        Ok(held) => Ok(held.into_iter().map(|h| h.barcode).collect()),
        Err(e) => {
            let e = DeviceError::from(e);
            Err((!e.is_busy()).then(|| chain(&e)))
        }
    }
}

/// Whether tapes of that library may come into another one. Virtual ones do not, and have the same barcodes all over.
pub(crate) fn may_travel(name: &LibraryName) -> bool {
    matches!(name, LibraryName::Scsi(_))
}

/// Whether a medium lies on a tape of that library, or its tapes are of the libraries of that array.
pub(crate) fn is_of(device: &Address, library: &Address) -> bool {
    shape(device) == shape(library)
}

/// What a device is, whichever tapes it is: the same for all that can stand for each other.
fn shape(device: &Address) -> String {
    match device {
        Address::Tape(tape) => tape.library.resolved().to_string(),
        Address::Array(array) => {
            let mut members: Vec<String> = array.members.iter().map(shape).collect();
            members.sort();
            format!("{}({})", array.layout, members.join(","))
        }
        other => other.to_string(),
    }
}

/// The libraries, or drives that stand alone, that a device names; each once.
pub(crate) fn libraries_of(device: &Address) -> Vec<TapeAddress> {
    let mut libraries: Vec<TapeAddress> = Vec::new();
    for tape in device.tapes() {
        let library = TapeAddress { tape: None, ..tape.recorded() };
        if !libraries.contains(&library) {
            libraries.push(library);
        }
    }
    libraries
}

/// A library for another tape instead of this one; for an array of tapes an array of libraries. Nothing where tapes are changed by
/// hand, or it is none.
pub(crate) fn libraries_for(device: &Address) -> Option<Address> {
    let library = |tape: &TapeAddress| {
        tape.tape.as_ref().map(|_| TapeAddress { tape: None, ..tape.recorded() }).ok_or(())
    };
    match device {
        Address::Tape(tape) => library(tape).ok().map(Address::from),
        Address::Array(array) if device.is_tape() => {
            array.with_tapes(&mut |tape| library(tape)).ok().map(Address::from)
        }
        _ => None,
    }
}
