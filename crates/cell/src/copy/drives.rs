//! Copies that a library has too few drives for: what is read and what is written each take one.

use std::collections::HashMap;

use capstan_devices::address::{Address, LibraryName};
use capstan_devices::library;
use capstan_format::id::MediumId;

use super::run::Work;
use crate::Cell;
use crate::error::{CellError, Result};

impl Cell {
    /// Refuses to write to a device that takes all drives of a library, where what is to be copied can be read only there. It is said
    /// before a blank tape gets a header.
    pub(crate) fn refuse_too_few_drives(&self, to: &Address, works: &[Work<'_>]) -> Result<()> {
        let taken = full_libraries(to);
        if taken.is_empty() {
            return Ok(());
        }
        let mut known: HashMap<MediumId, Source> = HashMap::new();
        for work in works {
            let mut only_there = None;
            for (_, medium, _) in work.places() {
                match known.entry(medium).or_insert_with(|| self.source_at(medium, &taken)) {
                    Source::Free => {
                        only_there = None;
                        break;
                    }
                    Source::Away => {}
                    Source::Within(library) => only_there = Some((medium, library.clone())),
                }
            }
            if let Some((medium, library)) = only_there {
                let label = self.labels([medium].iter())?.concat();
                return Err(CellError::BadInput(format!(
                    "medium '{label}' cannot be read while {to} is written: {library} has no drive for it beside; name a library \
                     with a drive of its own, or a directory"
                )));
            }
        }
        Ok(())
    }

    /// The medium that is known on a device, where that names one.
    pub(super) fn medium_named(&self, device: &Address) -> Option<MediumId> {
        let name = match device {
            Address::Tape(tape) => tape.recorded().to_string(),
            other => other.to_string(),
        };
        Some(self.find_medium(&name).ok()?.id)
    }

    fn source_at(&self, medium: MediumId, taken: &[LibraryName]) -> Source {
        let tapes = self.tapes_of(medium);
        let mut libraries = tapes.iter().map(|tape| tape.library.resolved());
        match libraries.find(|library| taken.contains(library)) {
            Some(library) => Source::Within(library),
            None if tapes.is_empty() && self.medium_at_hand(medium).is_err() => Source::Away,
            None => Source::Free,
        }
    }
}

/// Where a medium that is to be read lies.
enum Source {
    /// In a library of which no drive is left for it.
    Within(LibraryName),
    /// A directory that is not there.
    Away,
    /// Where nothing keeps it from being read.
    Free,
}

/// The libraries whose drives are all taken where that device is written.
fn full_libraries(to: &Address) -> Vec<LibraryName> {
    let mut tapes: HashMap<LibraryName, u32> = HashMap::new();
    for tape in to.tapes() {
        *tapes.entry(tape.library.resolved()).or_default() += 1;
    }
    // What is wrong with one that cannot be asked is said when it is opened.
    let is_full = |(name, tapes): (LibraryName, u32)| {
        let drives = library::open(&name).ok()?.elements().drives;
        (tapes >= drives).then_some(name)
    };
    tapes.into_iter().filter_map(is_full).collect()
}
