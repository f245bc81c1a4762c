//! Tapes that are wanted and not in their libraries: all of them are asked for at once, before the first one is waited for.
//!
//! Whoever needs one waits for it as for the tape of a drive that stands alone ([`capstan_devices::operator`]). What is at hand is read
//! meanwhile.

use std::collections::HashMap;

use capstan_devices::address::{Address, TapeAddress};
use capstan_devices::operator::{self, Asked};
use capstan_format::id::MediumId;

use crate::Cell;
use crate::error::Result;
use crate::media::{exported, lacking_tapes, tape_away};
use crate::places::SegmentPlace;
use crate::version::VersionView;

/// A tape that somebody has to bring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToBring {
    /// The tape, as a device.
    pub tape: String,
    /// What it is called, and where it is as far as that is on record: `tape V00001L9 ('monday', was exported on … to …)`.
    pub name: String,
}

impl VersionView<'_> {
    /// Has tapes that are not in their libraries come last among the places of each segment; returns those that are needed all the
    /// same, of the segments that are `needed`, in the order in which they are.
    pub fn bring(&mut self, needed: &dyn Fn(usize, &SegmentPlace) -> bool) -> Result<Vec<ToBring>> {
        let mut absent: HashMap<MediumId, Vec<TapeAddress>> = HashMap::new();
        let (mut media, mut gone): (Vec<MediumId>, Vec<MediumId>) = (Vec::new(), Vec::new());
        for place in &self.segments {
            media.extend(place.places().iter().map(|(_, medium, _)| *medium));
        }
        media.sort_unstable();
        media.dedup();
        for medium in media {
            let tapes = self.cell.tapes_away(medium)?;
            if !tapes.is_empty() {
                absent.insert(medium, tapes);
            // A tape can be brought; a disk that is not mounted is none to read from.
            } else if !self.is_sequential(medium)? && self.medium(medium).is_err() {
                gone.push(medium);
            }
        }
        if absent.is_empty() {
            return Ok(Vec::new());
        }
        gone.extend(absent.keys().copied());
        let mut wanted: Vec<ToBring> = Vec::new();
        for (index, place) in self.segments.iter_mut().enumerate() {
            place.put_last(&gone);
            let places = place.places();
            if places.iter().any(|at| !gone.contains(&at.1)) || !needed(index, place) {
                continue;
            }
            let first = places.iter().find(|at| absent.contains_key(&at.1));
            let Some((_, first, _)) = first.copied() else { continue };
            for tape in absent.get(&first).into_iter().flatten() {
                let tape = tape.to_string();
                if wanted.iter().all(|of| of.tape != tape) {
                    let name = self.cell.name_of_tape(first, &tape)?;
                    wanted.push(ToBring { tape, name });
                }
            }
        }
        Ok(wanted)
    }
}

impl Cell {
    /// The tapes of a medium that are not in their libraries, where the medium cannot be read without them.
    pub(crate) fn tapes_away(&self, medium: MediumId) -> Result<Vec<TapeAddress>> {
        let device = self.idb.medium(medium)?.map(|row| row.device);
        let Some(address) = device.and_then(|device| device.parse::<Address>().ok()) else {
            return Ok(Vec::new());
        };
        if address.tapes().is_empty() || lacking_tapes(&address).0.is_none() {
            return Ok(Vec::new());
        }
        let mut libraries = HashMap::new();
        let mut tapes = address.tapes();
        tapes.retain(|tape| tape_away(&Address::Tape(tape.clone()), &mut libraries).is_some());
        Ok(tapes)
    }

    /// A tape with its medium's label and where it is, as far as these say more.
    pub(crate) fn name_of_tape(&self, medium: MediumId, tape: &str) -> Result<String> {
        let barcode = tape.split_once("?tape=").map_or(tape, |(_, barcode)| barcode);
        let label = self.idb.medium(medium)?.map(|row| row.label).filter(|of| of != barcode);
        let label = label.map(|label| format!("'{label}'"));
        let notes: Vec<String> = label.into_iter().chain(exported(&self.idb, medium)?).collect();
        Ok(match notes.is_empty() {
            true => format!("tape {barcode}"),
            false => format!("tape {barcode} ({})", notes.join(", ")),
        })
    }

    /// Asks for tapes, if somebody is there to bring them; they are asked for as long as what is returned is kept.
    pub(crate) fn ask_for(wanted: &[ToBring]) -> Asked {
        let (libraries, many) = (libraries_of(wanted), wanted.len());
        let names: Vec<&str> = wanted.iter().map(|of| of.name.as_str()).collect();
        let text = match many {
            1 => format!("{libraries}: put in {}", names.join(", ")),
            _ => format!("{libraries}: {many} tapes are wanted: {}", names.join("; ")),
        };
        let wishes = wanted.iter().map(|of| (of.tape.clone(), of.name.clone()));
        operator::ask_for(wishes.collect(), &text)
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
