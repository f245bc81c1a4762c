//! What is in a drive that stands alone, as far as its host knows: nobody has to look there.

use std::sync::Arc;

use capstan_format::id::MediumId;

use super::Tapes;
use super::mount::Tape;
use capstan_address::LibraryName;

/// What a host knows of a drive that stands alone without a look into it.
pub(crate) enum InDrive {
    /// This medium is in it, and read.
    Read(MediumId),
    /// It is written, or waits for a tape.
    Taken,
    /// Nothing.
    Unknown,
}

impl InDrive {
    /// Of that drive.
    pub fn of(tapes: &Tapes, drive: &LibraryName) -> Self {
        let tapes = tapes.all();
        let of_drive = |tape: &&Arc<Tape>| tape.library() == drive;
        for tape in tapes.iter().filter(of_drive) {
            if tape.is_taken() {
                return Self::Taken;
            }
            if let Some(medium) = tape.wanted_there() {
                return Self::Read(medium);
            }
        }
        Self::Unknown
    }
}
