//! What happens to tapes and drives that is worth keeping, and who keeps it.

use capstan_address::LibraryName;
use capstan_engine::problem::Problem;
use capstan_format::id::MediumId;
use serde::{Deserialize, Serialize};

/// A drive that could not read or write so many tapes, which others can, is given no more of them.
pub const SUSPECT: usize = 2;

/// Something that happened to a tape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A robot put it into a drive.
    Loaded {
        /// Its library.
        #[serde(with = "crate::form::text")]
        library: LibraryName,
        /// What is on its sticker.
        barcode: String,
    },
    /// It is in a drive, which says whether it can be written.
    Tab {
        /// Its library.
        #[serde(with = "crate::form::text")]
        library: LibraryName,
        /// What is on its sticker.
        barcode: String,
        /// Whether it is write-protected.
        is_set: bool,
    },
    /// A session that wrote to it, or imported what is on it, is done.
    Used {
        /// The medium on it.
        medium: MediumId,
        /// Its library.
        #[serde(with = "crate::form::text")]
        library: LibraryName,
        /// What is on its sticker, where there is a robot that reads it.
        barcode: Option<String>,
        /// What it holds and what is left of that, in bytes, where the drive knows both.
        room: Option<(u64, u64)>,
    },
    /// The drive in which it was failed.
    DriveFailed(DriveFault),
    /// Something on it could not be read at first, and was at a later try.
    ReadAgain {
        /// The medium on it, where that is known.
        medium: Option<MediumId>,
        /// Its library.
        #[serde(with = "crate::form::text")]
        library: LibraryName,
        /// What is on its sticker, where there is a robot that reads it.
        barcode: Option<String>,
        /// The number of the drive that it is in, in its library.
        drive: Option<u32>,
    },
}

/// What a drive of a library did not do for this host. Of drives that are the only ones of their libraries nothing is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveFault {
    /// Its library.
    #[serde(with = "crate::form::text")]
    pub library: LibraryName,
    /// Its number there, from 1.
    pub drive: u32,
    /// The tape that was in it.
    pub tape: String,
    /// Whether that was written; else it was read.
    pub is_written: bool,
    /// Whether the drive failed; else it could not write the tape.
    pub is_failure: bool,
    /// What it said.
    pub what: Problem,
}

impl DriveFault {
    /// `drive 1 of vtape:/v`
    pub fn drive_name(&self) -> String {
        format!("drive {} of {}", self.drive, self.library)
    }

    /// Whether it is of that drive.
    pub fn is_of(&self, library: &LibraryName, drive: u32) -> bool {
        (&self.library, self.drive) == (library, drive)
    }
}

/// What is on record against a drive of a library.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DriveOnRecord {
    /// Its number, from 1.
    pub drive: u32,
    /// Whether it failed, and nothing says that it is well again.
    pub has_failed: bool,
    /// Whether it could not read or write several tapes, which others can.
    pub is_suspect: bool,
    /// Whether somebody took it out of service.
    pub is_out: bool,
    /// Tapes that it could not read or write.
    pub tapes: Vec<String>,
}

/// Who keeps it.
pub type Keep = dyn Fn(Event) + Send + Sync;
/// Who knows what is on record against the drives of a library.
pub type Recorded = dyn Fn(&LibraryName) -> Vec<DriveOnRecord> + Send + Sync;
/// Who knows of a tape of a library that it is exported by record: when and where to, in words that follow its name.
pub type Exported = dyn Fn(&LibraryName, &str) -> Option<String> + Send + Sync;
