//! What a failure to write means for the medium that was written.

use capstan_engine::leaving;
use capstan_format::id::MediumId;
use capstan_medium::DeviceError;
use capstan_port::media::write::error::WriteError;

use crate::Cell;
use crate::error::Result;
use crate::session::now_us;

/// Whose a failure to write is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteFailure {
    /// The medium is full.
    Full,
    /// The medium.
    Medium,
    /// Where the medium lies, its drive, or what it is: it is mounted read-only or not at all, lets this user write nothing, or is
    /// write-protected. That says nothing of the medium.
    Place,
    /// The drive does not answer, or the connection to it is lost. That says nothing of the medium either.
    Connection,
    /// The spool before the drive: another medium would be written through it, too.
    Spool,
    /// None of the device's: the database took no commit, say, or there is no further medium.
    Other,
}

impl WriteFailure {
    /// Whose this one is.
    pub fn of(error: &WriteError) -> Self {
        match error {
            e if e.is_full() => Self::Full,
            WriteError::Device(e) => Self::of_device(e),
            _ => Self::Other,
        }
    }

    /// The same of an error of the device.
    pub fn of_device(error: &DeviceError) -> Self {
        match error {
            e if e.is_full() => Self::Full,
            e if e.is_of_spool() => Self::Spool,
            e if e.is_unreachable() => Self::Connection,
            DeviceError::NoThread(_) => Self::Other,
            e if !e.tells_on_medium() => Self::Place,
            _ => Self::Medium,
        }
    }

    /// Whether another medium may do.
    pub fn is_of_medium(self) -> bool {
        matches!(self, Self::Medium | Self::Place | Self::Connection)
    }
}

impl Cell {
    /// Records a failure with the medium that was written: a tape that is full is written no more, and an error tells on its
    /// condition. A directory may have room again later.
    pub(crate) fn note_write_failure(&self, medium: MediumId, failure: WriteFailure) -> Result<()> {
        let is_sequential = || self.device_of_medium(medium).is_some_and(|d| d.is_sequential());
        match failure {
            WriteFailure::Full if is_sequential() => {
                Ok(self.idb.set_medium_full(medium, now_us())?)
            }
            // A drive that was left at work, as the session was told to end, says nothing of the tape either.
            WriteFailure::Medium if leaving::has_left() => Ok(()),
            WriteFailure::Medium => self.note_unwritten(medium),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_medium::tape::TapeError;
    use rustix::io::Errno;

    fn of(e: DeviceError) -> WriteFailure {
        WriteFailure::of(&WriteError::Device(e))
    }

    fn io(errno: Errno) -> DeviceError {
        let (action, path) = ("write", "/m/00000002.segment.part".to_owned());
        DeviceError::Io { action: action.into(), path, source: errno.into() }
    }

    fn broken(source: DeviceError) -> DeviceError {
        let array = "rait5:/a,/b,/c".to_owned();
        DeviceError::ArrayBroken { array, lost: 2, members: 3, spare: 1, source: Box::new(source) }
    }

    #[test]
    fn what_is_no_fault_of_a_disk_is_none_of_the_medium() {
        let table = [
            (Errno::IO, WriteFailure::Medium),
            (Errno::UCLEAN, WriteFailure::Medium),
            (Errno::ROFS, WriteFailure::Place),
            (Errno::ACCESS, WriteFailure::Place),
            (Errno::PERM, WriteFailure::Place),
            (Errno::NOENT, WriteFailure::Place),
            (Errno::STALE, WriteFailure::Place),
            (Errno::NOTCONN, WriteFailure::Place),
            (Errno::NODEV, WriteFailure::Place),
            (Errno::NOSPC, WriteFailure::Full),
            (Errno::DQUOT, WriteFailure::Full),
        ];
        for (errno, whose) in table {
            assert_eq!(of(io(errno)), whose, "{errno:?}");
            // An array that lacks too many members failed as the last of them did.
            assert_eq!(of(broken(io(errno))), whose, "{errno:?}");
            assert!(whose == WriteFailure::Full || whose.is_of_medium(), "another may do");
        }
    }

    #[test]
    fn what_a_drive_did_is_none_of_the_tape() {
        let (tape, drive) = (|| "A00001L9".to_owned(), || "/dev/sg3".to_owned());
        let hardware = || TapeError::Device("the drive has a hardware error".into());
        let table = [
            (TapeError::Medium { tape: tape(), at: 7 }, WriteFailure::Medium),
            (TapeError::BadTape { tape: tape(), said: "write error".into() }, WriteFailure::Medium),
            (TapeError::WriteProtected { tape: tape() }, WriteFailure::Place),
            (TapeError::Worm { tape: tape() }, WriteFailure::Place),
            (TapeError::NoTape { drive: drive() }, WriteFailure::Place),
            (hardware(), WriteFailure::Place),
            (TapeError::Offline { drive: drive() }, WriteFailure::Connection),
            (TapeError::EndOfMedium { tape: tape() }, WriteFailure::Full),
        ];
        for (e, whose) in table {
            let text = e.to_string();
            assert_eq!(of(DeviceError::Tape(e)), whose, "{text}");
        }
        // As a file of a tape hands it on.
        let (action, path) = ("write", "A00001L9".to_owned());
        let source = std::io::Error::other(hardware());
        assert_eq!(
            of(DeviceError::Io { action: action.into(), path, source }),
            WriteFailure::Place
        );
    }
}
