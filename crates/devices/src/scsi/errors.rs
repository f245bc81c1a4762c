//! What devices say, sorted by what can be done about it.

use capstan_engine::problem::Explain;
use capstan_medium::tape::TapeError;
use capstan_scsi::sense::{DATA_PROTECT, MEDIUM_ERROR};
use capstan_scsi::{Error, holders};

/// An error of a drive or robot. `tape` is what is in it, for messages: a barcode.
pub(crate) fn explain(error: Error, tape: &str) -> TapeError {
    const WRITE_PROTECTED: u8 = 0x27;
    const ENCRYPTED: u8 = 0x74;
    const KIND: u8 = 0x30;
    let key = error.sense().map(|sense| (sense.key, sense.asc));
    // 74/01 and 74/02, by the makers under one sense key or another: no key, or not the right one.
    let is_closed = error.sense().is_some_and(|s| s.asc == ENCRYPTED && matches!(s.ascq, 1 | 2));
    let of_kind = error.sense().filter(|sense| sense.asc == KIND).map(|sense| sense.ascq);
    let tape = tape.to_owned();
    match error {
        Error::NoMedium { device } => TapeError::NoTape { drive: device },
        Error::Busy { device, holders } => {
            TapeError::Busy { what: device, holder: holders::list(&holders) }
        }
        Error::Reserved { device } => {
            TapeError::Busy { what: device, holder: "another host".to_owned() }
        }
        Error::BlockSize { device, len, max, .. } => {
            TapeError::BlockSize { drive: device, most: max, length: len }
        }
        _ if is_closed => TapeError::CannotDecrypt { tape },
        error if error.is_lost() || matches!(error, Error::Connect { .. }) => {
            TapeError::Unreachable(error.problem())
        }
        // A cleaning cartridge is in it, or is used up; what is written once was to be overwritten; it is of another kind or
        // format.
        _ if matches!(of_kind, Some(0x03 | 0x07 | 0x0a)) => TapeError::Cleans { tape },
        _ if matches!(of_kind, Some(0x0c | 0x0d)) => TapeError::Worm { tape },
        error if matches!(of_kind, Some(0x00..=0x02 | 0x04..=0x06)) => {
            TapeError::Unsuited { tape, said: error.problem() }
        }
        error => match key {
            Some((MEDIUM_ERROR, _)) => TapeError::BadTape { tape, said: error.problem() },
            Some((DATA_PROTECT, WRITE_PROTECTED)) => TapeError::WriteProtected { tape },
            _ => TapeError::Device(error.problem()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_scsi::sense::Sense;

    #[test]
    fn the_tape_is_blamed_only_where_the_drive_does() {
        let check = |key, asc, ascq| {
            let sense = Sense { key, asc, ascq, ..Sense::default() };
            let error = Error::Check { device: "/dev/sg3".into(), doing: "writing a block", sense };
            explain(error, "A00001L9")
        };
        let bad = check(MEDIUM_ERROR, 0x0c, 0);
        assert!(bad.blames_tape(), "{bad}");
        assert!(bad.to_string().starts_with("tape A00001L9: /dev/sg3 failed while"), "{bad}");
        assert!(matches!(check(DATA_PROTECT, 0x27, 0), TapeError::WriteProtected { .. }));
        for closed in [(DATA_PROTECT, 1), (DATA_PROTECT, 2), (MEDIUM_ERROR, 1)] {
            let closed = check(closed.0, 0x74, closed.1);
            assert!(matches!(closed, TapeError::CannotDecrypt { .. }), "{closed}");
            assert!(!closed.blames_tape() && !closed.blames_drive());
        }
        assert!(matches!(check(0x5, 0x30, 0x00), TapeError::Unsuited { .. }));
        assert!(matches!(check(0x2, 0x30, 0x03), TapeError::Cleans { .. }));
        assert!(matches!(check(DATA_PROTECT, 0x30, 0x0c), TapeError::Worm { .. }));
        let drive = check(0x4, 0x44, 0);
        assert!(matches!(&drive, TapeError::Device(_)) && !drive.blames_tape(), "{drive}");
        let lost = |e| {
            let error = explain(e, "A00001L9");
            error.is_unreachable() && error.blames_drive() && !error.blames_tape()
        };
        let (device, why) = ("/dev/sg3".to_owned(), "gone".to_owned());
        assert!(lost(Error::Connect { device: device.clone(), why: why.clone() }));
        assert!(lost(Error::Lost { device: device.clone(), doing: "writing", why }));
        assert!(lost(Error::TimedOut { device, doing: "writing", seconds: 5 }));
        assert!(!drive.is_unreachable());
        let busy = explain(Error::Reserved { device: "/dev/sg3".into() }, "");
        assert!(busy.to_string().contains("in use by another host"), "{busy}");
    }
}
