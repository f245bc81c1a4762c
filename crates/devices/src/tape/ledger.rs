//! What happens to tapes that is worth keeping: how often robots load them, and how full they get.
//!
//! Where it is kept the program says once ([`DeviceHost::keep_with`]); without that it is not kept.

use std::sync::OnceLock;

use capstan_format::id::MediumId;

use super::mount::Tape;
use crate::address::{Address, LibraryName};
use crate::host::DeviceHost;

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
    fn note(&self, event: impl FnOnce() -> Event) {
        if let Some(keep) = self.0.get() {
            keep(event());
        }
    }

    #[cfg(test)]
    pub(super) const fn kept_by_nobody() -> Self {
        Self(OnceLock::new())
    }

    pub(super) fn note_loaded(&self, library: &LibraryName, barcode: &str) {
        self.note(|| Event::Loaded { library: library.clone(), barcode: barcode.to_owned() });
    }

    pub(super) fn note_read_again(&self, tape: &Tape, medium: Option<MediumId>) {
        self.note(|| Event::ReadAgain {
            medium,
            library: tape.library().clone(),
            barcode: tape.barcode().map(str::to_owned),
        });
    }

    pub(super) fn note_used(&self, medium: MediumId, tape: &Tape, room: Option<(u64, u64)>) {
        self.note(|| Event::Used {
            medium,
            library: tape.library().clone(),
            barcode: tape.barcode().map(str::to_owned),
            room,
        });
    }
}

impl DeviceHost {
    /// Says who keeps what happens to its tapes. The first one stays.
    pub fn keep_with(&self, keep: Box<Keep>) {
        let _ = self.core().ledger.0.set(keep);
    }

    /// Tells of the tapes of a medium that it has in drives how much of them is written, as their drives say it.
    pub fn note_use(&self, medium: MediumId, device: &Address) {
        let tapes = device.tapes();
        for tape in tapes.iter().map(|of| Tape::of(self, of)).filter(|tape| tape.is_loaded()) {
            if let Ok(room) = tape.with(|deck| Ok(deck.capacity().zip(deck.room()))) {
                self.core().ledger.note_used(medium, &tape, room);
            }
        }
    }
}
