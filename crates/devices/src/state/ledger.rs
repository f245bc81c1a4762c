//! What happens to tapes that is worth keeping: how often robots load them, and how full they get.
//!
//! Where it is kept the program says once (`DeviceHost::keep_with`); without that it is not kept.

use std::sync::OnceLock;

use capstan_format::id::MediumId;

use crate::address::LibraryName;

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
    /// Something on it could not be read at first, and was at a later try.
    ReadAgain {
        /// The medium on it, where that is known.
        medium: Option<MediumId>,
        /// Its library.
        library: LibraryName,
        /// What is on its sticker, where there is a robot that reads it.
        barcode: Option<String>,
    },
}

/// Who keeps it.
pub type Keep = dyn Fn(Event) + Send + Sync;

/// What happens to the tapes of a host, for who keeps it.
#[derive(Default)]
pub(crate) struct Ledger(OnceLock<Box<Keep>>);

impl Ledger {
    /// Says who keeps it. The first one stays.
    pub fn keep_with(&self, keep: Box<Keep>) {
        let _ = self.0.set(keep);
    }

    fn note(&self, event: impl FnOnce() -> Event) {
        if let Some(keep) = self.0.get() {
            keep(event());
        }
    }

    #[cfg(test)]
    pub(crate) const fn kept_by_nobody() -> Self {
        Self(OnceLock::new())
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
        barcode: Option<&str>,
    ) {
        self.note(|| Event::ReadAgain {
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
