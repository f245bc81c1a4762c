//! Media that are to be made or written, and cannot be so.

use capstan_address::{Address, ArrayAddress, LibraryName};
use capstan_engine::problem::{Explain, Problem};

/// Why no medium is made or chosen as it was asked for; nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SupplyRefusal {
    /// A medium's blocks cannot have that size.
    #[error("the block size {size} is out of range")]
    BlockSizeOutOfRange {
        /// The size, in bytes.
        size: u32,
    },
    /// A device that was to become a medium holds one.
    #[error("{device} holds {medium} already")]
    HoldsMedium {
        /// The device.
        device: Address,
        /// The medium.
        medium: String,
    },
    /// A library has fewer drives than a backup takes.
    #[error("library {library} has {}, and this backup takes {takes} at a time, one for each tape that is written", counted(.drives))]
    TooFewDrives {
        /// The library.
        library: LibraryName,
        /// Drives that it has.
        drives: u32,
        /// Drives that the backup takes.
        takes: u32,
    },
    /// Several tapes were meant, and one was named.
    #[error("{library} is one tape, or a drive that stands alone")]
    OneTape {
        /// What was named.
        library: String,
    },
    /// A pattern for barcodes cannot be understood.
    #[error("'{pattern}' is no pattern for barcodes: {why}")]
    BadBarcodePattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// No tape of a library has such a barcode.
    #[error("no tape of {library} has a barcode like '{pattern}'")]
    NoSuchBarcode {
        /// The library.
        library: String,
        /// The pattern of the barcodes.
        pattern: String,
    },
    /// A medium is full, and nothing says where the session goes on.
    #[error("medium '{label}' takes no more")]
    TakesNoMore {
        /// The medium's label.
        label: String,
    },
    /// The tape in a drive that stands alone cannot be written.
    #[error("{drive}: {why}")]
    UnfitTapeInDrive {
        /// The drive.
        drive: String,
        /// Why not.
        why: String,
        /// The tape that is wanted.
        wanted: String,
    },
    /// An array of tapes was given a spool.
    #[error("{array} has a spool, and members of arrays have none")]
    ArrayWithSpool {
        /// The array.
        array: ArrayAddress,
    },
    /// A member of an array of tapes fails, and another array is taken.
    #[error("{member}: {}", why.sentence)]
    MemberFailed {
        /// The member.
        member: String,
        /// What failed.
        why: Problem,
    },
    /// A tape does not become a member of a new array.
    #[error("{why}")]
    TapeNotFree {
        /// Why not.
        why: String,
    },
    /// A tape that was to become a member of a new array holds backups.
    #[error("it holds backups")]
    TapeHoldsBackups,
    /// A tape that was to become a member of a new array is not there.
    #[error("another medium is in its place")]
    AnotherTape,
    /// A tape that was to become a member of a new array holds something that the database does not know.
    #[error("it holds what is not recorded")]
    TapeHoldsUnrecorded,
}

impl Explain for SupplyRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::BlockSizeOutOfRange { .. } => {
                "it is 64 KiB to 8 MiB, a multiple of 4 KiB".to_owned()
            }
            Self::HoldsMedium { .. } => {
                "`capstan media recycle` gives up what a medium holds, `capstan media import` makes it known".to_owned()
            }
            Self::TooFewDrives { .. } => {
                "name a mirror in another library, or a directory".to_owned()
            }
            Self::OneTape { .. } => "--barcodes is for the tapes of a library".to_owned(),
            Self::BadBarcodePattern { .. }
            | Self::TapeNotFree { .. }
            | Self::TapeHoldsBackups
            | Self::AnotherTape
            | Self::TapeHoldsUnrecorded => return None,
            Self::MemberFailed { why, .. } => return why.hint.clone(),
            Self::NoSuchBarcode { .. } => "`capstan library inventory` lists them".to_owned(),
            Self::TakesNoMore { .. } => {
                "name a library or a pool instead, that the session can go on on another".to_owned()
            }
            Self::UnfitTapeInDrive { wanted, .. } => format!(
                "put in {wanted}, and run it again on a terminal or with CAPSTAN_TAPE_WAIT to be asked for it"
            ),
            Self::ArrayWithSpool { .. } => "leave it out".to_owned(),
        })
    }
}

fn counted(drives: &u32) -> String {
    if *drives == 1 { "one drive".to_owned() } else { format!("{drives} drives") }
}
