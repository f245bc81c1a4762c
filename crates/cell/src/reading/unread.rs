//! What could not be read as a drive, a robot, or the way to them failed, or as this user may not read it: of what lies on the medium that
//! tells nothing. It is no damage, and is as away as a tape on a shelf.

use capstan_engine::message::Code;
use capstan_engine::problem::Problem;
use capstan_format::id::MediumId;
use capstan_idb::Idb;
use capstan_medium::DeviceError;
use capstan_medium::os_errors::{is_far, is_refused};
use capstan_medium::tape::TapeError;
use capstan_port::media::read::error::ReadError;

use crate::error::{CellError, chain};

/// What a drive or a robot said, where that failed or a key is wanted, and not what was to be read.
fn of_way_to_tape(e: &TapeError) -> Option<String> {
    let is_of_robot = matches!(e, TapeError::Robot { .. } | TapeError::Library { .. });
    (e.spares_tape() || e.is_busy() || e.is_away() || is_of_robot).then(|| chain(e))
}

/// Why a device could not be read now, where that tells nothing of what lies there.
pub(crate) fn of_way_to_device(e: &DeviceError) -> Option<String> {
    match (e, e.of_tape()) {
        (_, Some(tape)) => of_way_to_tape(tape),
        (DeviceError::ArrayBroken { source, .. }, _) => of_way_to_device(source),
        (DeviceError::Io { source, .. }, _) if is_not_now(source) => Some(chain(e)),
        (DeviceError::Busy { .. } | DeviceError::HostLost(_), _) => Some(chain(e)),
        _ => None,
    }
}

/// Why a medium could not be read now, where that tells nothing of what lies there.
pub(crate) fn of_way(e: &ReadError) -> Option<String> {
    match e {
        ReadError::Device(e) => of_way_to_device(e),
        ReadError::Io { source, .. } => {
            match source.get_ref().and_then(|e| e.downcast_ref::<TapeError>()) {
                Some(tape) => of_way_to_tape(tape),
                None => is_not_now(source).then(|| chain(e)),
            }
        }
        _ => None,
    }
}

/// What is said of a device that could not be read now.
pub(crate) fn code_of_device(e: &DeviceError) -> Code {
    let array = match e {
        DeviceError::ArrayBroken { source, .. } => source.of_tape(),
        _ => None,
    };
    code_of(e.of_tape().or(array))
}

/// What is said of a medium that could not be read now.
pub(crate) fn code_of_read(e: &ReadError) -> Code {
    match e {
        ReadError::Device(e) => code_of_device(e),
        ReadError::Io { source, .. } => code_of(source.get_ref().and_then(|e| e.downcast_ref())),
        _ => Code::DeviceFailed,
    }
}

fn code_of(e: Option<&TapeError>) -> Code {
    match e {
        Some(e) if e.needs_key() => Code::NeedsKey,
        Some(e) if e.is_away() => Code::Away,
        _ => Code::DeviceFailed,
    }
}

/// The error for a medium that cannot be read now, for such a reason.
pub(crate) fn not_now(idb: &Idb, medium: MediumId, why: &str) -> CellError {
    let label = idb.medium(medium).ok().flatten().map(|row| row.label);
    let name = label.map_or_else(|| medium.short(), |label| format!("'{label}'"));
    let text = Problem::new(format!("medium {name} could not be read now: {why}")).hint(
        "that says nothing of what is on it: do it again when that is mended, or with another drive",
    );
    CellError::Away { medium, why: format!("which could not be read now: {why}"), text }
}

/// Of two errors for places of the same data the one that is told: that a medium is not to be had now comes before what others lack, as
/// the data may be there.
pub(crate) fn told(known: CellError, next: Option<CellError>) -> CellError {
    match next {
        Some(next) if known.away().is_none() && next.away().is_some() => next,
        _ => known,
    }
}

/// Whether a file cannot be read now, whatever is in it.
fn is_not_now(e: &std::io::Error) -> bool {
    is_far(e) || is_refused(e)
}
