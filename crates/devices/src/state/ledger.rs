//! What happens to tapes that is worth keeping: how often robots load them, and how full they get.
//!
//! Where it is kept the program says once (`LocalDevices::keep_with`); without that it is not kept. In the same way it says what is on record
//! of drives, and of tapes that are exported.

use std::sync::OnceLock;

use capstan_address::LibraryName;
use capstan_format::id::MediumId;
use capstan_medium::host::ledger::{DriveFault, DriveOnRecord, Event, Exported, Keep, Recorded};

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
