//! What happens to tapes that is worth keeping: how often robots load them, and how full they get.
//!
//! Where it is kept the program says once ([`keep_with`]); without that it is not kept.

use std::sync::OnceLock;

use capstan_format::id::MediumId;

use super::mount::Tape;
use crate::address::{Address, LibraryName};

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

static KEEP: OnceLock<Box<Keep>> = OnceLock::new();

/// Says who keeps it. The first one stays.
pub fn keep_with(keep: Box<Keep>) {
    let _ = KEEP.set(keep);
}

pub(super) fn note(event: impl FnOnce() -> Event) {
    if let Some(keep) = KEEP.get() {
        keep(event());
    }
}

pub(super) fn note_read_again(tape: &Tape, medium: Option<MediumId>) {
    note(|| Event::ReadAgain {
        medium,
        library: tape.library().clone(),
        barcode: tape.barcode().map(str::to_owned),
    });
}

/// Tells of the tapes of a medium that this process has in drives how much of them is written, as their drives say it.
pub fn note_use(medium: MediumId, device: &Address) {
    for tape in device.tapes().iter().map(Tape::of).filter(|tape| tape.is_loaded()) {
        if let Ok(room) = tape.with(|deck| Ok(deck.capacity().zip(deck.room()))) {
            note_used(medium, &tape, room);
        }
    }
}

pub(super) fn note_used(medium: MediumId, tape: &Tape, room: Option<(u64, u64)>) {
    note(|| Event::Used {
        medium,
        library: tape.library().clone(),
        barcode: tape.barcode().map(str::to_owned),
        room,
    });
}
