//! Tapes that are wanted and not in their libraries: all of them are asked for at once, before the first one is waited for.
//!
//! Whoever needs one waits for it as for the tape of a drive that stands alone ([`capstan_medium::host::operator`]). What is at hand is read
//! meanwhile.

use std::collections::{HashMap, HashSet};

use capstan_address::{Address, LibraryName, TapeAddress};
use capstan_catalog::places::{Away, SegmentPlace};
use capstan_engine::frames::Place;
use capstan_format::id::{MediumId, SegmentNumber};
use capstan_idb::Idb;
use capstan_medium::host::operator::Asked;

use crate::Cell;
use crate::error::Result;
use crate::media::out::Here;
use crate::media::{lacking_tapes, recorded, tape_exported, tape_name, tapes_to_come};
use crate::reading::replicas::sides::{OnTapes, Side, fewest};
use crate::reading::version::VersionView;

/// A tape that somebody has to bring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToBring {
    /// The tape, as a device.
    pub tape: String,
    /// What it is called, and where it is as far as that is on record: `tape V00001L9 ('monday', was exported on … to …)`.
    pub name: String,
}

impl VersionView<'_> {
    /// Has the places of each segment in the order in which they are read: tapes that are not in their libraries come last, before them
    /// those that somebody would have to put into a drive that stands alone, and before these what need not be loaded, as others have
    /// it. Returns the tapes that have to be brought all the same for the segments that are `needed`, in the order in which they are.
    pub fn bring(&mut self, needed: &dyn Fn(usize, &SegmentPlace) -> bool) -> Result<Vec<ToBring>> {
        Self::bring_beside(std::slice::from_mut(self), &[], needed)
    }

    /// The same of several versions that are read together while tapes of these libraries are written: tapes there come behind those
    /// of others, too. They would take a drive there, which another session may have, or this one itself.
    pub fn bring_beside(
        views: &mut [Self],
        written: &[LibraryName],
        needed: &dyn Fn(usize, &SegmentPlace) -> bool,
    ) -> Result<Vec<ToBring>> {
        let Some(first) = views.first() else { return Ok(Vec::new()) };
        let (cell, idb) = (first.cell, first.idb);
        let mut at = AtHand::default();
        regard_incomplete(cell, views, needed)?;
        for view in views.iter() {
            at.look(view)?;
        }
        at.look_into_drives(cell, views, written);
        let is_there = |medium: &MediumId| {
            let tapes = cell.tapes_of(*medium);
            tapes.iter().any(|tape| written.contains(&tape.library.resolved()))
        };
        let there: Vec<MediumId> = at.looked.keys().copied().filter(is_there).collect();
        // One drive cannot do both.
        let drives_of = |library| cell.devices.library(library).map(|l| l.elements().drives);
        let has_one_drive = written.iter().any(|library| drives_of(library).is_ok_and(|n| n < 2));
        at.barred = if has_one_drive { there.clone() } else { Vec::new() };
        for place in views.iter_mut().flat_map(|view| &mut view.segments) {
            if !at.absent.is_empty() || !at.by_hand.is_empty() {
                place.put_away(&|medium| at.how_far(medium));
            }
            // What would have to be brought first is no better.
            let is_elsewhere = |of: &Place| !there.contains(&of.1) && at.how_far(of.1).is_none();
            if place.places().iter().any(is_elsewhere) {
                place.put_last(&there);
            }
        }
        at.choose(idb, views, needed)?;
        let mut wanted: Vec<ToBring> = Vec::new();
        let mut asked: HashSet<MediumId> = HashSet::new();
        for (index, place) in views.iter().flat_map(|view| view.segments.iter().enumerate()) {
            let places = place.places();
            if places.iter().any(|of| !at.gone.contains(&of.1)) || !needed(index, place) {
                continue;
            }
            let first = places.iter().find(|of| at.absent.contains_key(&of.1));
            let Some((_, first, _)) = first.copied() else { continue };
            if !asked.insert(first) {
                continue;
            }
            wanted.extend(cell.to_bring(first, at.absent.get(&first).map_or(&[], Vec::as_slice))?);
        }
        Ok(wanted)
    }
}

/// Lets tapes of arrays not count that lack something of what is read of these, as far as that is recorded.
fn regard_incomplete(
    cell: &Cell,
    views: &[VersionView<'_>],
    needed: &dyn Fn(usize, &SegmentPlace) -> bool,
) -> Result<()> {
    let mut last: HashMap<MediumId, SegmentNumber> = HashMap::new();
    for (index, place) in views.iter().flat_map(|view| view.segments.iter().enumerate()) {
        let is_needed = needed(index, place);
        for (_, medium, number) in place.places() {
            let last = last.entry(medium).or_insert(SegmentNumber(0));
            *last = if is_needed { number.max(*last) } else { *last };
        }
    }
    for (medium, last) in last {
        let tapes = cell.tapes_of(medium);
        if tapes.len() > 1 {
            let mut lacking = cell.incomplete_tapes(medium)?;
            lacking.retain(|(_, since)| *since <= last);
            let lacking: Vec<TapeAddress> = lacking.into_iter().map(|(tape, _)| tape).collect();
            cell.devices.set_incomplete(&tapes, &lacking);
        }
    }
    Ok(())
}

/// Which of the media are at hand.
#[derive(Default)]
struct AtHand {
    /// Those that are looked at, and whether each is on tape.
    looked: HashMap<MediumId, bool>,
    /// Tapes that can be brought, with those that are not in their libraries.
    absent: HashMap<MediumId, Vec<TapeAddress>>,
    /// These and disks that are not there.
    gone: Vec<MediumId>,
    /// Tapes that somebody would have to put into a drive that stands alone.
    by_hand: Vec<MediumId>,
    /// Tapes that cannot be read while others are written.
    barred: Vec<MediumId>,
}

impl AtHand {
    fn look(&mut self, view: &VersionView<'_>) -> Result<()> {
        for (_, medium, _) in view.segments.iter().flat_map(SegmentPlace::places) {
            if self.looked.contains_key(&medium) {
                continue;
            }
            let is_tape = view.media.is_sequential(medium)?;
            self.looked.insert(medium, is_tape);
            let tapes = view.cell.tapes_away(medium)?;
            if !tapes.is_empty() {
                self.absent.insert(medium, tapes);
                self.gone.push(medium);
            // A tape can be brought; a disk that is not mounted is none to read from.
            } else if !is_tape && view.media.medium(medium).is_err() {
                self.gone.push(medium);
            }
        }
        Ok(())
    }

    fn how_far(&self, medium: MediumId) -> Option<Away> {
        match medium {
            medium if self.gone.contains(&medium) => Some(Away::Gone),
            medium if self.by_hand.contains(&medium) => Some(Away::ByHand),
            medium if self.barred.contains(&medium) => Some(Away::Gone),
            _ => None,
        }
    }

    /// Finds out which tapes are in drives that stand alone, where others have something of theirs. A drive that is written has none that
    /// can be read.
    fn look_into_drives(
        &mut self,
        cell: &Cell,
        views: &[VersionView<'_>],
        written: &[LibraryName],
    ) {
        let mut inside: HashMap<LibraryName, Option<MediumId>> = HashMap::new();
        let mut known: HashSet<MediumId> = HashSet::new();
        for place in views.iter().flat_map(|view| &view.segments) {
            let media: Vec<MediumId> = place.places().into_iter().map(|at| at.1).collect();
            let is_alone = media.iter().all(|id| Some(id) == media.first());
            for medium in media.into_iter().filter(|_| !is_alone) {
                if !known.insert(medium) {
                    continue;
                }
                let Some(drive) = cell.drive_by_hand(medium) else { continue };
                let library = drive.library.resolved();
                let is_written = written.contains(&library);
                let there = inside.entry(library);
                let look = || if is_written { None } else { cell.devices.medium_in(&drive) };
                if *there.or_insert_with(look) != Some(medium) {
                    self.by_hand.push(medium);
                }
            }
        }
    }

    /// Has tapes come behind that need not be loaded.
    fn choose(
        &self,
        idb: &Idb,
        views: &mut [VersionView<'_>],
        needed: &dyn Fn(usize, &SegmentPlace) -> bool,
    ) -> Result<()> {
        let mut segments = Vec::new();
        for (index, place) in views.iter().flat_map(|view| view.segments.iter().enumerate()) {
            let (tapes, bytes) = (self.tapes_of(place), place.bytes);
            segments.push(OnTapes { tapes, bytes, is_needed: needed(index, place) });
        }
        segments.retain(|of| !of.tapes.is_empty());
        let mut sides: HashMap<MediumId, Side> = HashMap::new();
        for medium in self.looked.iter().filter(|(_, is_tape)| **is_tape).map(|(id, _)| *id) {
            let device = idb.medium(medium)?.map(|row| row.device);
            let tapes = device.map(|device| device.tapes()).unwrap_or_default();
            let mut libraries: Vec<String> = tapes.iter().map(|t| t.library.to_string()).collect();
            libraries.dedup();
            sides.insert(medium, (libraries.join(","), idb.management(medium)?.pool));
        }
        let chosen = fewest(&segments, &sides);
        for place in views.iter_mut().flat_map(|view| &mut view.segments) {
            place.put_behind(&|id| sides.contains_key(&id) && !chosen.contains(&id));
        }
        Ok(())
    }

    /// The tapes that a segment can be read from; none, where a disk has it that comes before them, or is a mirror of them.
    fn tapes_of(&self, place: &SegmentPlace) -> Vec<MediumId> {
        let mut places = place.whole_places();
        if places.is_empty() {
            places = place.places();
        }
        let is_tape = |at: &Place| self.looked.get(&at.1) == Some(&true);
        let rank = |at: &Place| (self.how_far(at.1), place.last.contains(&at.1));
        let Some(best) = places.iter().map(rank).min() else { return Vec::new() };
        places.retain(|at| rank(at) == best);
        let of = places.first().map(|at| at.0);
        let is_on_disk = places.first().is_some_and(|at| !is_tape(at))
            || places.iter().any(|at| !is_tape(at) && Some(at.0) == of);
        places.retain(|at| !is_on_disk && is_tape(at));
        places.into_iter().map(|at| at.1).collect()
    }
}

/// Has the places of segments come first for which nobody has to go.
pub(crate) fn nearest_first(cell: &Cell, views: &mut [VersionView<'_>]) -> Result<()> {
    let mut known: HashMap<MediumId, Option<Away>> = HashMap::new();
    for place in views.iter_mut().flat_map(|view| &mut view.segments) {
        let media: Vec<MediumId> = place.places().into_iter().map(|at| at.1).collect();
        for medium in media.iter().filter(|_| media.len() > 1) {
            if !known.contains_key(medium) {
                known.insert(*medium, cell.how_far(*medium)?);
            }
        }
        place.put_away(&|medium| known.get(&medium).copied().flatten());
    }
    Ok(())
}

impl Cell {
    /// How these tapes of a medium are asked for. Of an array others may do as well, which are named with the last.
    pub(crate) fn to_bring(&self, medium: MediumId, tapes: &[TapeAddress]) -> Result<Vec<ToBring>> {
        let mut others = self.tapes_that_may_come(medium)?;
        others.retain(|tape| !tapes.contains(tape));
        let of = |tape: &TapeAddress| {
            let tape = tape_name(tape);
            Ok(ToBring { name: self.name_of_tape(medium, &tape)?, tape })
        };
        let mut wanted = tapes.iter().map(of).collect::<Result<Vec<_>>>()?;
        let others = others.iter().map(|tape| self.name_of_tape(medium, &tape_name(tape)));
        let others = others.collect::<Result<Vec<_>>>()?;
        if let Some(last) = wanted.last_mut().filter(|_| !others.is_empty()) {
            let instead = if tapes.len() == 1 { "instead" } else { "instead of any of them" };
            last.name.push_str(&format!(", or {instead} {}", others.join(" or ")));
        }
        Ok(wanted)
    }

    /// How far a medium is now, if it is a tape that somebody has to put in or bring.
    pub(crate) fn how_far(&self, medium: MediumId) -> Result<Option<Away>> {
        if !self.tapes_away(medium)?.is_empty() {
            return Ok(Some(Away::Gone));
        }
        let drive = self.drive_by_hand(medium);
        let is_out = drive.is_some_and(|drive| self.devices.medium_in(&drive) != Some(medium));
        Ok(is_out.then_some(Away::ByHand))
    }

    /// The tapes that have to be brought so that a medium can be read; nothing where enough are in their libraries. Of an array those
    /// that are known to be somewhere come first, and no more are named than it needs.
    pub(crate) fn tapes_away(&self, medium: MediumId) -> Result<Vec<TapeAddress>> {
        let Some(address) = self.device_of_medium(medium).filter(|a| !a.tapes().is_empty()) else {
            return Ok(Vec::new());
        };
        let is_incomplete = |tape: &TapeAddress| self.devices.is_incomplete(tape);
        let is_any_incomplete = address.tapes().iter().any(is_incomplete);
        if !is_any_incomplete && lacking_tapes(&*self.devices, &address).0.is_none() {
            return Ok(Vec::new());
        }
        let management = self.idb.management(medium)?;
        let rank =
            |tape: &TapeAddress| u8::from(management.tape_exported(&tape_name(tape)).is_none());
        let here = Here {
            tape: &|tape| self.is_tape_here(tape),
            store: &|store| self.devices.is_there(store),
        };
        Ok(tapes_to_come(&address, here, &is_incomplete, &rank))
    }

    /// The tapes of an array that are known to lack something that was written to it, each with the first segment that it may lack.
    pub(crate) fn incomplete_tapes(
        &self,
        medium: MediumId,
    ) -> Result<Vec<(TapeAddress, SegmentNumber)>> {
        let Some(Address::Array(array)) = self.device_of_medium(medium) else {
            return Ok(Vec::new());
        };
        let mut tapes = Vec::new();
        for of in self.idb.lost_members(medium)? {
            let now = array.members.get(of.member as usize);
            if let (Some(now), Some(since)) = (now, of.since)
                // Another one may have its place by now.
                && recorded(&Address::of_record(of.device)) == recorded(now)
            {
                tapes.extend(now.tapes().into_iter().map(|tape| (tape, since)));
            }
        }
        Ok(tapes)
    }

    /// All tapes of a medium that are not in their libraries, where it needs some of them.
    fn tapes_that_may_come(&self, medium: MediumId) -> Result<Vec<TapeAddress>> {
        let mut tapes = match self.tapes_away(medium)?.is_empty() {
            true => Vec::new(),
            false => self.tapes_of(medium),
        };
        tapes.retain(|tape| {
            tape.tape.is_some() && !self.is_tape_here(tape) && !self.devices.is_incomplete(tape)
        });
        Ok(tapes)
    }

    /// Whether a tape is where it can be read: in its library, or somebody puts it in by hand.
    pub(crate) fn is_tape_here(&self, tape: &TapeAddress) -> bool {
        lacking_tapes(&*self.devices, &Address::from(tape.clone())).0.is_none()
    }

    /// A tape with its medium's label and where it is, as far as these say more.
    pub(crate) fn name_of_tape(&self, medium: MediumId, tape: &str) -> Result<String> {
        let barcode = tape.split_once("?tape=").map_or(tape, |(_, barcode)| barcode);
        let label = self.idb.medium(medium)?.map(|row| row.label).filter(|of| of != barcode);
        let label = label.map(|label| format!("'{label}'"));
        let exported = tape_exported(&self.idb, medium, tape)?;
        let notes: Vec<String> = label.into_iter().chain(exported).collect();
        Ok(match notes.is_empty() {
            true => format!("tape {barcode}"),
            false => format!("tape {barcode} ({})", notes.join(", ")),
        })
    }

    /// Whether a tape can be expected to come when it is needed: it is in its library, or somebody will be there to put it in. Of an
    /// array enough of its tapes.
    pub(crate) fn is_to_be_had(&self, address: &Address) -> Result<bool> {
        match address {
            Address::Tape(tape) if tape.tape.is_none() => Ok(self.devices.is_by_hand(tape)?),
            _ => Ok(lacking_tapes(&*self.devices, address).0.is_none()),
        }
    }

    /// Whether somebody is there to bring tapes.
    pub(crate) fn has_operator(&self) -> bool {
        self.devices.operator().is_there()
    }

    /// Asks for tapes, if somebody is there to bring them; they are asked for as long as what is returned is kept.
    pub(crate) fn ask_for(&self, wanted: &[ToBring]) -> Asked {
        let (libraries, many) = (libraries_of(wanted), wanted.len());
        let names: Vec<&str> = wanted.iter().map(|of| of.name.as_str()).collect();
        let text = match many {
            1 => format!("{libraries}: put in {}", names.join(", ")),
            _ => format!("{libraries}: {many} tapes are wanted: {}", names.join("; ")),
        };
        let wishes = wanted.iter().map(|of| (of.tape.clone(), of.name.clone()));
        self.devices.operator().ask_for(wishes.collect(), &text)
    }
}

/// The libraries of tapes, each once.
fn libraries_of(wanted: &[ToBring]) -> String {
    let mut libraries: Vec<&str> = Vec::new();
    for of in wanted {
        let library = of.tape.split('?').next().unwrap_or_default();
        if !libraries.contains(&library) {
            libraries.push(library);
        }
    }
    libraries.join(", ")
}
