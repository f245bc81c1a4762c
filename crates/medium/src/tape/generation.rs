//! Which generation a tape is of, and which drives read and write it: of LTO, by sticker, by density and by a drive's model.

use serde::{Deserialize, Serialize};
use std::fmt;

/// By this the cleaning tapes of all makers are told.
pub const CLEANING: &str = "CLN";

/// Characters of a barcode of LTO: six of the owner's, two that say what the tape is.
const BARCODE: usize = 8;

/// What a tape of LTO is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// Its generation, from 1.
    pub generation: u8,
    /// One of the seventh generation that an LTO-8 drive formatted for itself.
    pub type_m: bool,
    /// What is written on it can be appended to, never overwritten or erased.
    pub worm: bool,
}

impl Media {
    /// Of a generation, rewritable.
    pub const fn lto(generation: u8) -> Self {
        Self { generation, type_m: false, worm: false }
    }

    /// What a barcode says, by the last two of its eight characters. Nothing of one that is made otherwise, or that is on a tape
    /// that cleans.
    pub fn of_barcode(barcode: &str) -> Option<Self> {
        let fits = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit();
        let is_lto = barcode.len() == BARCODE && barcode.bytes().all(fits);
        if !is_lto || barcode.starts_with(CLEANING) {
            return None;
        }
        let worm = |generation| Self { worm: true, ..Self::lto(generation) };
        Some(match barcode.get(BARCODE - 2..)?.as_bytes() {
            b"M8" => Self { type_m: true, ..Self::lto(7) },
            [b'L', n @ b'1'..=b'9'] => Self::lto(n - b'0'),
            b"LA" => Self::lto(10),
            [b'L', n @ b'T'..=b'Z'] => worm(n - b'T' + 3),
            _ => return None,
        })
    }

    /// What a density says, by the code that MODE SENSE has.
    pub fn of_density(density: u8) -> Option<Self> {
        Some(match density {
            0x40 => Self::lto(1),
            0x42 => Self::lto(2),
            0x44 => Self::lto(3),
            0x46 => Self::lto(4),
            0x58 => Self::lto(5),
            0x5a => Self::lto(6),
            0x5c => Self::lto(7),
            0x5d => Self { type_m: true, ..Self::lto(7) },
            0x5e => Self::lto(8),
            0x60 => Self::lto(9),
            _ => return None,
        })
    }

    /// Whether a drive of that generation reads it.
    pub fn is_read_by(self, drive: u8) -> bool {
        let back = drive.checked_sub(self.generation);
        match drive {
            _ if self.type_m => drive == 8,
            0..=7 => matches!(back, Some(0..=2)),
            8 | 9 => matches!(back, Some(0 | 1)),
            _ => back == Some(0),
        }
    }

    /// Whether a drive of that generation writes it.
    pub fn is_written_by(self, drive: u8) -> bool {
        let back = drive.checked_sub(self.generation);
        match drive {
            _ if self.type_m => drive == 8,
            0..=9 => matches!(back, Some(0 | 1)),
            _ => back == Some(0),
        }
    }
}

impl fmt::Display for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, worm) =
            (if self.type_m { " type M" } else { "" }, if self.worm { " WORM" } else { "" });
        write!(f, "LTO-{}{kind}{worm}", self.generation)
    }
}

/// The generation of a drive of LTO, by what it calls itself: `ULTRIUM-TD8`, `Ultrium 9-SCSI`, `ULT3580-HH7`, `virtual lto-6`.
pub fn of_drive(model: &str) -> Option<u8> {
    let model = model.to_ascii_lowercase();
    let behind = |name: &str| model.find(name).and_then(|at| model.get(at + name.len()..));
    let rest = behind("ultrium").or_else(|| behind("ult3580")).or_else(|| behind("lto"))?;
    let rest = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|n| (1..=10).contains(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn barcodes_say_what_tapes_are() {
        let says = |barcode: &str| Media::of_barcode(barcode).map(|m| m.to_string());
        for (barcode, what) in [
            ("A00001L1", "LTO-1"),
            ("A00001L9", "LTO-9"),
            ("A00001LA", "LTO-10"),
            ("A00001M8", "LTO-7 type M"),
            ("A00001LT", "LTO-3 WORM"),
            ("A00001LV", "LTO-5 WORM"),
            ("A00001LZ", "LTO-9 WORM"),
        ] {
            assert_eq!(says(barcode).as_deref(), Some(what), "{barcode}");
        }
        let others = [
            "",
            "L9",
            "A0001L9",
            "A000001L9",
            "a00001l9",
            "A00001L0",
            "A00001LB",
            "A00001M7",
            "CLN001L9",
            "A0000 L9",
            "A0000ÄL9",
            "ÄÄÄL9",
            "A00001CU",
        ];
        for none in others {
            assert_eq!(says(none), None, "{none}");
        }
    }

    #[test]
    fn drives_read_two_generations_back_and_write_one_as_long_as_they_did() {
        let read =
            |n: u8| (1..=10).filter(|drive| Media::lto(n).is_read_by(*drive)).collect::<Vec<_>>();
        let written = |n: u8| {
            (1..=10).filter(|drive| Media::lto(n).is_written_by(*drive)).collect::<Vec<_>>()
        };
        assert_eq!((read(1), written(1)), (vec![1, 2, 3], vec![1, 2]));
        assert_eq!((read(5), written(5)), (vec![5, 6, 7], vec![5, 6]));
        assert_eq!((read(6), written(6)), (vec![6, 7], vec![6, 7]));
        assert_eq!((read(7), written(7)), (vec![7, 8], vec![7, 8]));
        assert_eq!((read(8), written(8)), (vec![8, 9], vec![8, 9]));
        assert_eq!((read(9), written(9)), (vec![9], vec![9]));
        assert_eq!((read(10), written(10)), (vec![10], vec![10]));
        let m8 = Media::of_barcode("A00001M8").unwrap();
        assert_eq!((1..=10).filter(|n| m8.is_read_by(*n)).collect::<Vec<_>>(), [8]);
        assert!(m8.is_written_by(8) && !m8.is_written_by(7));
    }

    #[test]
    fn drives_are_known_by_what_they_call_themselves() {
        for (model, generation) in [
            ("IBM ULTRIUM-TD8", Some(8)),
            ("IBM     ULTRIUM-HH7", Some(7)),
            ("HP Ultrium 5-SCSI", Some(5)),
            ("HPE Ultrium 9-SCSI", Some(9)),
            ("IBM ULT3580-TD6", Some(6)),
            ("QUANTUM ULTRIUM 4", Some(4)),
            ("virtual lto-9", Some(9)),
            ("virtual dlt-7000", None),
            ("STK T10000D", None),
            ("HP Ultrium", None),
            ("IBM ULTRIUM-TD99999999999", None),
            ("", None),
        ] {
            assert_eq!(of_drive(model), generation, "{model}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_on_a_sticker_or_in_an_inquiry_is_no_harm(text in ".{0,40}", tail in "[LM][0-9A-Z]") {
            let _ = of_drive(&text);
            let barcode = format!("{text}{tail}");
            if let Some(media) = Media::of_barcode(&barcode) {
                prop_assert!(barcode.len() == 8 && barcode.is_ascii());
                prop_assert!((1..=10).contains(&media.generation));
                prop_assert!((1..=10).any(|drive| media.is_written_by(drive)));
                prop_assert!((1..=10).all(|drive| !media.is_written_by(drive) || media.is_read_by(drive)));
            }
        }
    }
}
