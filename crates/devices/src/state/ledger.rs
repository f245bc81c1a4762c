//! What happens to tapes that is worth keeping: how often robots load them, and how full they get.
//!
//! Where it is kept the program says once (`DeviceHost::keep_with`); without that it is not kept. In the same way it says what is on record
//! of drives, and of tapes that are exported.

use std::sync::OnceLock;

use capstan_format::id::MediumId;

use capstan_address::LibraryName;

/// Something that happened to a tape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A robot put it into a drive.
    Loaded {
        /// Its library.
        library: LibraryName,
        /// What is on its sticker.
        barcode: String,
    },
    /// It is in a drive, which says whether it can be written.
    Tab {
        /// Its library.
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
        library: LibraryName,
        /// What is on its sticker, where there is a robot that reads it.
        barcode: Option<String>,
        /// The number of the drive that it is in, in its library.
        drive: Option<u32>,
    },
}

/// What a drive of a library did not do for this host. Of drives that are the only ones of their libraries nothing is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveFault {
    /// Its library.
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
    pub what: String,
}

impl DriveFault {
    /// `drive 1 of vtape:/v`
    pub fn drive_name(&self) -> String {
        format!("drive {} of {}", self.drive, self.library)
    }

    /// Whether it is of that drive.
    pub(crate) fn is_of(&self, library: &LibraryName, drive: u32) -> bool {
        (&self.library, self.drive) == (library, drive)
    }
}

/// What is on record against a drive of a library.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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

/// What happens to the tapes of a host, for who keeps it, and what that one has on record of its drives and tapes.
#[derive(Default)]
pub(crate) struct Ledger {
    keep: OnceLock<Box<Keep>>,
    drives: OnceLock<Box<Recorded>>,
    exported: OnceLock<Box<Exported>>,
}

impl Ledger {
    /// Says who keeps it. The first one stays.
    pub fn keep_with(&self, keep: Box<Keep>) {
        let _ = self.keep.set(keep);
    }

    /// Says who knows what is on record against drives. The first one stays.
    pub fn doubt_drives_by(&self, recorded: Box<Recorded>) {
        let _ = self.drives.set(recorded);
    }

    /// Says who knows which tapes are exported. The first one stays.
    pub fn know_exported_by(&self, recorded: Box<Exported>) {
        let _ = self.exported.set(recorded);
    }

    /// That a tape of a library is exported by record, if it is.
    pub(crate) fn exported(&self, library: &LibraryName, barcode: &str) -> Option<String> {
        self.exported.get().and_then(|recorded| recorded(library, barcode))
    }

    /// What is on record against the drives of a library.
    pub(crate) fn drives_on_record(&self, library: &LibraryName) -> Vec<DriveOnRecord> {
        self.drives.get().map_or_else(Vec::new, |recorded| recorded(library))
    }

    /// A drive failed. That it could not write a tape is for who judges the tape.
    pub(crate) fn note_fault(&self, fault: &DriveFault) {
        if fault.is_failure {
            self.note(|| Event::DriveFailed(fault.clone()));
        }
    }

    fn note(&self, event: impl FnOnce() -> Event) {
        if let Some(keep) = self.keep.get() {
            keep(event());
        }
    }

    #[cfg(test)]
    pub(crate) const fn kept_by_nobody() -> Self {
        Self { keep: OnceLock::new(), drives: OnceLock::new(), exported: OnceLock::new() }
    }

    pub(crate) fn note_loaded(&self, library: &LibraryName, barcode: &str) {
        self.note(|| Event::Loaded { library: library.clone(), barcode: barcode.to_owned() });
    }

    pub(crate) fn note_tab(&self, library: &LibraryName, barcode: &str, is_set: bool) {
        self.note(|| Event::Tab { library: library.clone(), barcode: barcode.to_owned(), is_set });
    }

    pub(crate) fn note_read_again(
        &self,
        medium: Option<MediumId>,
        library: &LibraryName,
        (barcode, drive): (Option<&str>, Option<u32>),
    ) {
        self.note(|| Event::ReadAgain {
            drive,
            medium,
            library: library.clone(),
            barcode: barcode.map(str::to_owned),
        });
    }

    pub(crate) fn note_used(
        &self,
        medium: MediumId,
        library: &LibraryName,
        barcode: Option<&str>,
        room: Option<(u64, u64)>,
    ) {
        self.note(|| Event::Used {
            medium,
            library: library.clone(),
            barcode: barcode.map(str::to_owned),
            room,
        });
    }
}
