//! Tapes of drives that stand alone: somebody puts them in, and what is in is told by its header.

use capstan_engine::problem::Problem;
use capstan_format::block::BlockKind;
use capstan_format::record::{MediumHeader, decode_record};
use capstan_medium::host::Wanted;
use capstan_medium::host::operator::Refused;
use capstan_medium::tape::{Spot, TapeError};
use capstan_tape::Changer;

use super::loaded::{Found, LoadedDrive};
use super::{HEADER_FILE, LONGEST};
use crate::state::HostState;

/// The only drive of a drive that stands alone.
const DRIVE: u32 = 1;

/// The drive with the wanted tape in it, for which the operator is asked.
pub(crate) fn awaited(
    state: &HostState,
    library: &mut dyn Changer,
    wanted: &Wanted,
) -> Result<LoadedDrive, TapeError> {
    let name = library.name().to_owned();
    let tape = format!("tape '{}'", wanted.label);
    state.requests.insist(&name, &tape, &mut || {
        let drive = library.open_drive(DRIVE).map_err(|e| match e {
            e @ TapeError::NoTape { .. } => Refused::Empty(e),
            e => Refused::Failed(e),
        })?;
        let spool = state.spool.lock().clone();
        let mut loaded = LoadedDrive::new(drive, None, spool.as_ref()).called(&wanted.label);
        let why = match header_of(&mut loaded) {
            Ok(Some(header)) if header.medium == wanted.medium => return Ok(loaded),
            Ok(Some(header)) => wanted.another(&header),
            Ok(None) => "the tape in it is not one of Capstan".to_owned(),
            Err(e @ TapeError::NoTape { .. }) => return Err(Refused::Empty(e)),
            Err(e) if e.blames_tape() => format!("the tape in it cannot be read ({e})"),
            Err(e) => return Err(Refused::Failed(e)),
        };
        drop(loaded);
        if state.requests.is_there() {
            library.unload_drive(DRIVE).map_err(Refused::Failed)?;
        }
        let problem = Problem::new(why.clone()).hint(format!("put in {tape} instead"));
        Err(Refused::Other(TapeError::Away { library: name.clone(), problem }, why))
    })
}

/// What a tape says it is, if it is one of ours.
fn header_of(loaded: &mut LoadedDrive) -> Result<Option<MediumHeader>, TapeError> {
    let spot = Spot { file: HEADER_FILE, block: 0, object: None };
    match loaded.block(spot, LONGEST, &|_| true) {
        Ok(Found::Block(block)) => {
            Ok(decode_record(BlockKind::MediumHeader, block).ok().map(|(_, header)| header))
        }
        Ok(Found::Filemark | Found::EndOfData) | Err(TapeError::TooLong { .. }) => Ok(None),
        Err(e) => Err(e),
    }
}
