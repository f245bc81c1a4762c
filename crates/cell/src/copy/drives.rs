//! The drives that a copy needs at a time: what is read and what is written each take one. A library may have too few.

use std::collections::{BTreeMap, HashMap};

use capstan_devices::address::{Address, LibraryName, TapeAddress};
use capstan_devices::library;
use capstan_format::id::MediumId;

use super::run::Work;
use crate::Cell;
use crate::error::{CellError, Result};
use crate::robots::Booked;

impl Cell {
    /// Books the drives that a session needs at a time to write to a device, or to media of a pool, what is read meanwhile. Refuses
    /// a device that takes all drives of a library, where what is to be copied can be read only there. It is done before a blank tape
    /// gets a header, and before any drive is taken.
    pub(crate) fn book_drives_for(
        &self,
        to: &Address,
        pool: Option<&str>,
        works: &[Work<'_>],
    ) -> Result<Vec<Booked>> {
        let mut booked = Vec::new();
        let targets = match pool {
            Some(_) => {
                let media = self.media_list(pool)?.into_iter();
                media.filter_map(|info| info.medium.device.parse().ok()).collect()
            }
            None => vec![to.clone()],
        };
        for (library, tapes) in most_tapes(&targets).into_values() {
            // What is wrong with one that cannot be asked is said when it is opened.
            let Ok(drives) = library::open(&library).map(|l| l.elements().drives) else { continue };
            let read = self.read_only_in(&library, works);
            if tapes >= drives
                && let Some(medium) = read
            {
                let label = self.labels([medium].iter())?.concat();
                let to = pool.map_or(to.to_string(), |pool| format!("pool {pool}"));
                return Err(CellError::BadInput(format!(
                    "medium '{label}' cannot be read while {to} is written: {library} has no drive for it beside; name a library \
                     with a drive of its own, or a directory"
                )));
            }
            if let Some(medium) = read {
                let tapes_read = self.tapes_of(medium);
                let read = tapes_read.iter().filter(|tape| tape.library.resolved() == library);
                let read = u32::try_from(read.count()).unwrap_or(u32::MAX);
                let beside = (tapes - 1).saturating_add(read).min(drives - 1);
                booked.append(&mut self.book_drives(&library, drives, beside)?);
            }
        }
        Ok(booked)
    }

    /// Books the drives that a session needs at a time to write to several devices.
    pub(crate) fn book_drives_of(&self, devices: &[&Address]) -> Result<Vec<Booked>> {
        let tapes: Vec<_> = devices.iter().flat_map(|device| device.tapes()).collect();
        let mut booked = Vec::new();
        for (library, tapes) in tapes_in(&tapes).into_values().filter(|(_, tapes)| *tapes > 1) {
            let Ok(drives) = library::open(&library).map(|l| l.elements().drives) else { continue };
            let beside = (tapes - 1).min(drives.saturating_sub(1));
            booked.append(&mut self.book_drives(&library, drives, beside)?);
        }
        Ok(booked)
    }

    /// A medium that has to be read, if any, of which all that is at hand is in that library.
    fn read_only_in(&self, library: &LibraryName, works: &[Work<'_>]) -> Option<MediumId> {
        let mut known: HashMap<MediumId, Source> = HashMap::new();
        for work in works {
            let mut only_there = None;
            for (_, medium, _) in work.places() {
                match known.entry(medium).or_insert_with(|| self.source_at(medium, library)) {
                    Source::Free => {
                        only_there = None;
                        break;
                    }
                    Source::Away => {}
                    Source::Within => only_there = Some(medium),
                }
            }
            if only_there.is_some() {
                return only_there;
            }
        }
        None
    }

    /// The medium that is known on a device, where that names one.
    pub(super) fn medium_named(&self, device: &Address) -> Option<MediumId> {
        let name = match device {
            Address::Tape(tape) => tape.recorded().to_string(),
            other => other.to_string(),
        };
        Some(self.find_medium(&name).ok()?.id)
    }

    fn source_at(&self, medium: MediumId, library: &LibraryName) -> Source {
        let tapes = self.tapes_of(medium);
        if tapes.iter().any(|tape| tape.library.resolved() == *library) {
            return Source::Within;
        }
        match tapes.is_empty() && self.medium_at_hand(medium).is_err() {
            true => Source::Away,
            false => Source::Free,
        }
    }
}

/// Where a medium that is to be read lies.
enum Source {
    /// In the library.
    Within,
    /// A directory that is not there.
    Away,
    /// Where nothing keeps it from being read.
    Free,
}

/// Of each library the tapes of that one of these devices that has most of them there. Libraries come in one order for all who
/// book drives in several: so none waits for one that it has and another one wants.
fn most_tapes(devices: &[Address]) -> BTreeMap<String, (LibraryName, u32)> {
    let mut most: BTreeMap<String, (LibraryName, u32)> = BTreeMap::new();
    for device in devices {
        for (name, (library, tapes)) in tapes_in(&device.tapes()) {
            let (_, most) = most.entry(name).or_insert((library, 0));
            *most = tapes.max(*most);
        }
    }
    most
}

/// How many of these tapes each library has, in the same order.
fn tapes_in(tapes: &[TapeAddress]) -> BTreeMap<String, (LibraryName, u32)> {
    let mut count: BTreeMap<String, (LibraryName, u32)> = BTreeMap::new();
    for library in tapes.iter().map(|tape| tape.library.resolved()) {
        count.entry(library.to_string()).or_insert((library, 0)).1 += 1;
    }
    count
}
