//! The drives that a copy needs at a time: what is read and what is written each take one. A library may have too few.

use std::collections::{HashMap, HashSet};

use capstan_address::{Address, LibraryName, TapeAddress};
use capstan_catalog::places::SegmentPlace;
use capstan_format::id::MediumId;

use super::run::Work;
use crate::Cell;
use crate::drives::robots::Booked;
use crate::error::{CopyRefusal, Result};
use crate::reading::version::VersionView;
use crate::supply::enough_drives::{Needs, tapes_in};

impl Cell {
    /// Books the drives that a session needs at a time to write to a device, or to media of a pool, what is read meanwhile. Refuses
    /// a device that takes all drives of a library, where what is to be copied can be read only there. It is done before a blank tape
    /// gets a header, and before any drive is taken, when what is read has its order ([`crate::reading::version::VersionView::bring_beside`]).
    pub(crate) fn book_drives_for(
        &self,
        to: &Address,
        pool: Option<&str>,
        works: &[Work<'_>],
    ) -> Result<Vec<Booked>> {
        let targets = self.devices_of(to, pool)?;
        let mut needs = most_tapes(targets.iter().map(Address::tapes));
        if needs.is_empty() {
            return Ok(Vec::new());
        }
        for (library, tapes) in needs.values() {
            // What is wrong with one that cannot be asked is said when it is opened.
            let Ok(drives) = self.devices.library(library).map(|l| l.elements().drives) else {
                continue;
            };
            let read = self.read_only_in(library, works);
            if *tapes >= drives
                && let Some(medium) = read
            {
                let label = self.labels([medium].iter())?.concat();
                let to = pool.map_or(to.to_string(), |pool| format!("pool {pool}"));
                return Err(CopyRefusal::NoDriveToRead {
                    label,
                    target: to,
                    library: library.clone(),
                }
                .into());
            }
        }
        for (name, (library, read)) in self.tapes_to_read(works) {
            needs.entry(name).or_insert((library, 0)).1 += read;
        }
        self.book(needs)
    }

    /// The same, of media one of which is read at a time.
    pub(crate) fn book_drives_to_read(
        &self,
        to: &Address,
        pool: Option<&str>,
        from: &[Address],
    ) -> Result<Vec<Booked>> {
        let mut needs = most_tapes(self.devices_of(to, pool)?.iter().map(Address::tapes));
        if needs.is_empty() {
            return Ok(Vec::new());
        }
        for (name, (library, read)) in most_tapes(from.iter().map(Address::tapes)) {
            needs.entry(name).or_insert((library, 0)).1 += read;
        }
        self.book(needs)
    }

    /// The devices that may be written: that one, or those of a pool.
    fn devices_of(&self, to: &Address, pool: Option<&str>) -> Result<Vec<Address>> {
        if pool.is_none() {
            return Ok(vec![to.clone()]);
        }
        let media = self.media_list(pool)?.into_iter();
        Ok(media.map(|info| info.medium.device).collect())
    }

    /// Books the drives that a session needs at a time to write to several devices.
    pub(crate) fn book_drives_of(&self, devices: &[&Address]) -> Result<Vec<Booked>> {
        let tapes: Vec<_> = devices.iter().flat_map(|device| device.tapes()).collect();
        self.book(tapes_in(&tapes))
    }

    /// Books the drives that a session needs at a time to read versions, when what is read has its order: those of the largest of the
    /// arrays of tapes. Single tapes are read one after the other.
    pub(crate) fn book_drives_of_versions(
        &self,
        versions: &[VersionView<'_>],
    ) -> Result<Vec<Booked>> {
        let segments = versions.iter().flat_map(|view| &view.segments);
        let first = |place: &SegmentPlace| place.places().first().map(|at| at.1);
        let media: HashSet<MediumId> = segments.filter_map(first).collect();
        let tapes = media.into_iter().map(|medium| self.tapes_of(medium));
        self.book(most_tapes(tapes.filter(|tapes| tapes.len() > 1)))
    }

    fn book(&self, needs: Needs) -> Result<Vec<Booked>> {
        let needs: Vec<_> = needs.into_values().collect();
        self.book_drives(&needs)
    }

    /// The libraries of the tapes that may be written: of that device, or those of a pool.
    pub(crate) fn libraries_written(
        &self,
        to: &Address,
        pool: Option<&str>,
    ) -> Result<Vec<LibraryName>> {
        let tapes = most_tapes(self.devices_of(to, pool)?.iter().map(Address::tapes));
        Ok(tapes.into_values().map(|(library, _)| library).collect())
    }

    /// Of each library how many of its tapes are in drives at a time, of what is read first.
    fn tapes_to_read(&self, works: &[Work<'_>]) -> Needs {
        let first = |work: &Work<'_>| work.places().first().map(|at| at.1);
        let media: HashSet<MediumId> = works.iter().filter_map(first).collect();
        most_tapes(media.into_iter().map(|medium| self.tapes_of(medium)))
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
    pub(crate) fn medium_named(&self, device: &Address) -> Option<MediumId> {
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

/// Of each library the tapes of that one of several devices that has most of them there.
fn most_tapes(devices: impl IntoIterator<Item = Vec<TapeAddress>>) -> Needs {
    let mut most = Needs::new();
    for tapes in devices {
        for (name, (library, tapes)) in tapes_in(&tapes) {
            let (_, most) = most.entry(name).or_insert((library, 0));
            *most = tapes.max(*most);
        }
    }
    most
}
