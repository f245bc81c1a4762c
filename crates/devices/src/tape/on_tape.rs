//! What is on a tape, looked at before anything is written to it.

use capstan_address::TapeAddress;
use capstan_format::id::MediumId;
use capstan_medium::DeviceError;
use capstan_medium::medium::member_alone;
use capstan_medium::tape::{OnTape, TapeError};

use super::seems::seems;
use super::storage::{TapeStorage, open_member};
use crate::drives::Tape;
use crate::host::LocalDevices;

/// Whether nothing was ever written to a tape.
pub(crate) fn is_blank(host: &LocalDevices, address: &TapeAddress) -> Result<bool, DeviceError> {
    let end = Tape::of(host.tapes(), address).with(|loaded| loaded.end())?;
    Ok((end.file, end.block) == (0, 0))
}

/// Whether one block was written to a tape, as a medium's header is, and nothing behind it but the filemark.
pub(crate) fn has_header_only(
    host: &LocalDevices,
    address: &TapeAddress,
) -> Result<bool, DeviceError> {
    let end = Tape::of(host.tapes(), address).with(|loaded| loaded.end())?;
    Ok([(0, 1), (1, 0)].contains(&(end.file, end.block)))
}

/// What is on a tape that the host has in a drive now.
pub(crate) fn seen_on(host: &LocalDevices, address: &TapeAddress) -> Option<OnTape> {
    let tape = Tape::of(host.tapes(), address);
    if !tape.is_loaded() {
        return None;
    }
    let end = tape.with(|loaded| loaded.end()).ok()?;
    if (end.file, end.block) == (0, 0) {
        return Some(OnTape::Blank);
    }
    match open_member(host, address) {
        Ok(there) => Some(OnTape::Medium(Box::new(there.header().clone()))),
        Err(e) if e.is_no_medium() => {
            let block = TapeStorage::new(tape).header().unwrap_or_default();
            Some(OnTape::Foreign(seems(&block)))
        }
        Err(_) => None,
    }
}

/// Refuses a tape on which anything is, or that takes nothing.
pub(crate) fn refuse_used(host: &LocalDevices, address: &TapeAddress) -> Result<(), DeviceError> {
    refuse_used_but(host, &Tape::of(host.tapes(), address), address, &[])
}

/// The same; one that holds one of these media and no segment, or is one of these members of an array and has nothing else, is none on
/// which anything is.
pub(super) fn refuse_used_but(
    host: &LocalDevices,
    tape: &Tape,
    address: &TapeAddress,
    may_go: &[MediumId],
) -> Result<(), DeviceError> {
    if tape.with(|loaded| Ok(loaded.is_write_protected()))? {
        return Err(TapeError::WriteProtected { tape: tape.name() }.into());
    }
    if is_blank(host, address)? {
        return Ok(());
    }
    Err(match open_member(host, address) {
        Ok(there) if there.header().is_array() => {
            if may_go.contains(&there.header().medium) && has_header_only(host, address)? {
                return Ok(());
            }
            member_alone(there.header(), &tape.name())
        }
        Ok(there) if may_go.contains(&there.header().medium) && there.segments()?.is_empty() => {
            return Ok(());
        }
        Ok(_) => DeviceError::NotBlank(tape.name()),
        Err(_) => DeviceError::NotOurs(tape.name()),
    })
}
