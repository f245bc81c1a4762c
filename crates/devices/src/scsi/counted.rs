//! What a drive counts, and what its tape's density tells of it.

use capstan_medium::tape::{Counters, Media};
use capstan_scsi::log::Statistics as Counted;
use capstan_tape::DriveModel;

/// What was counted since then. Counters that were cleared meanwhile are taken as they are.
pub(super) fn counted_since(before: &Counted, now: &Counted) -> Counters {
    let since = |before: Option<u64>, now: Option<u64>| {
        now.map(|now| now.checked_sub(before.unwrap_or(0)).unwrap_or(now))
    };
    let both = |write: Option<u64>, read: Option<u64>| match (write, read) {
        (None, None) => None,
        (write, read) => Some(write.unwrap_or(0) + read.unwrap_or(0)),
    };
    let bytes_written = since(before.bytes_written, now.bytes_written);
    let bytes_on_tape = since(before.bytes_on_tape, now.bytes_on_tape);
    let counted = match (bytes_written, bytes_on_tape) {
        (Some(from), Some(to)) if to > 0 && from > 0 => Some(from as f64 / to as f64),
        _ => None,
    };
    Counters {
        bytes_written,
        bytes_on_tape,
        compression_ratio: counted.or(now.compression_ratio),
        corrected_errors: both(
            since(before.write.corrected, now.write.corrected),
            since(before.read.corrected, now.read.corrected),
        ),
        hard_errors: both(
            since(before.write.uncorrected, now.write.uncorrected),
            since(before.read.uncorrected, now.read.uncorrected),
        ),
    }
}

/// The drives that write that density: of LTO, whose makers share the codes.
pub(super) fn model_of(density: u8) -> Option<&'static DriveModel> {
    let media = Media::of_density(density).filter(|media| !media.type_m)?;
    DriveModel::named(&format!("lto-{}", media.generation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_scsi::log::ErrorCounters;

    #[test]
    fn counters_are_those_since_the_drive_was_opened() {
        let counted = |written, on_tape, corrected| Counted {
            bytes_written: Some(written),
            bytes_on_tape: Some(on_tape),
            compression_ratio: Some(9.0),
            write: ErrorCounters { corrected: Some(corrected), ..ErrorCounters::default() },
            ..Counted::default()
        };
        let done = counted_since(&counted(1000, 900, 3), &counted(4000, 1900, 5));
        assert_eq!((done.bytes_written, done.bytes_on_tape), (Some(3000), Some(1000)));
        assert_eq!((done.compression_ratio, done.corrected_errors), (Some(3.0), Some(2)));
        assert_eq!(done.hard_errors, None);
        // A new tape: the drive began to count anew.
        let anew = counted_since(&counted(4000, 1900, 5), &counted(10, 10, 0));
        assert_eq!((anew.bytes_written, anew.corrected_errors), (Some(10), Some(0)));
        assert_eq!(counted_since(&Counted::default(), &Counted::default()), Counters::default());
    }

    #[test]
    fn densities_of_lto_tell_the_capacity() {
        let capacity = |density| model_of(density).map(|model| model.capacity);
        assert_eq!(capacity(0x60), Some(18e12));
        assert_eq!(capacity(0x5a), Some(2.5e12));
        assert_eq!(capacity(0x41), None);
    }
}
