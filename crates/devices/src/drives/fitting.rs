//! Which drives of a library take a tape: by its barcode and by what the drives say that they are.

use std::collections::BTreeSet;

use capstan_medium::tape::{Media, TapeError, generation};
use capstan_tape::Changer;

/// Which drives of a library take a tape.
pub(crate) struct Fitting {
    /// What the tape is by its barcode.
    media: Option<Media>,
    /// The drives' generations, as far as they are known.
    drives: Vec<Option<u8>>,
    to_write: bool,
}

impl Fitting {
    /// Which drives take the tape with that barcode, to be written or read.
    pub fn of(library: &mut dyn Changer, barcode: &str, to_write: bool) -> Self {
        let media = Media::of_barcode(barcode);
        let drives = if media.is_some() { generations_of(library) } else { Vec::new() };
        Self { media, drives, to_write }
    }

    /// Of a tape of which nobody knows what it is.
    #[cfg(test)]
    pub const fn any() -> Self {
        Self { media: None, drives: Vec::new(), to_write: false }
    }

    /// Refuses the tape where no drive takes it, or not the one that was named.
    pub fn refuse_none(
        &self,
        library: &str,
        barcode: &str,
        drive: Option<u32>,
    ) -> Result<(), TapeError> {
        let takes = match drive {
            Some(n) => self.takes(n),
            None => self.drives.is_empty() || (1..=self.drives.len() as u32).any(|n| self.takes(n)),
        };
        match self.media.filter(|_| !takes) {
            Some(media) => Err(TapeError::NoDrive {
                library: library.to_owned(),
                tape: barcode.to_owned(),
                media,
                drives: names(&self.drives),
                to_write: self.to_write,
            }),
            None => Ok(()),
        }
    }

    /// Whether a drive does; one of which nothing is known may.
    fn may(&self, n: u32, does: impl Fn(Media, u8) -> bool) -> bool {
        let drive = (n as usize).checked_sub(1).and_then(|n| self.drives.get(n).copied().flatten());
        self.media.zip(drive).is_none_or(|(media, drive)| does(media, drive))
    }

    /// Whether a drive writes it.
    pub fn writes(&self, n: u32) -> bool {
        self.may(n, Media::is_written_by)
    }

    /// Whether a drive does what is to be done with it.
    pub fn takes(&self, n: u32) -> bool {
        if self.to_write { self.writes(n) } else { self.may(n, Media::is_read_by) }
    }
}

/// The generations of a library's drives. Of one that cannot be asked it is not known.
pub(crate) fn generations_of(library: &mut dyn Changer) -> Vec<Option<u8>> {
    let drives = library.elements().drives;
    (1..=drives).map(|n| generation::of_drive(&library.drive_info(n).ok()?.model)).collect()
}

/// The generations of drives, each once.
pub(crate) fn names(drives: &[Option<u8>]) -> String {
    let known: BTreeSet<u8> = drives.iter().flatten().copied().collect();
    let names: Vec<String> = known.iter().map(|n| format!("LTO-{n}")).collect();
    names.join(", ")
}
