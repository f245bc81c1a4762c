//! What the internal database knows of the tapes in a library, and what it is told when they leave and come back.

use std::collections::{BTreeMap, HashMap};

use capstan_address::{Address, LibraryName, TapeAddress};
use capstan_format::id::MediumId;
use capstan_idb::{Medium, SeenTape};
use capstan_medium::tape::{Held, Place, TapeLibrary};

use super::{
    Moved, TapeName, at, by_places, called, carry, find, free_slot, no_room, of_tape, open,
};
use crate::Cell;
use crate::drives::uses::Uses;
use crate::error::{CellError, DriveRefusal, Result};
use crate::media::libraries::may_travel;
use crate::media::{Libraries, MediumInfo, MediumState, tape_away, tape_exported, tape_name};

/// A tape in its place, and what is known of it.
#[derive(Debug, Clone)]
pub struct Inventoried {
    /// The tape.
    pub tape: Held,
    /// The medium on it; nothing where this cell knows of none.
    pub known: Option<KnownTape>,
    /// The labels of the media of which it is one, where several are recorded there.
    pub among: Vec<String>,
    /// Where this cell knows of no medium on it: one that has its barcode in another library, and is not there.
    pub elsewhere: Option<Medium>,
    /// Of one that cleans drives: how far it is used up.
    pub uses: Option<Uses>,
    /// What was found on it, where this cell knows of no medium there.
    pub seen: Option<SeenTape>,
}

/// What the database has of a tape's medium.
#[derive(Debug, Clone)]
pub struct KnownTape {
    /// Its id.
    pub id: MediumId,
    /// Its label.
    pub label: String,
    /// The pool it is in.
    pub pool: Option<String>,
    /// Its state.
    pub state: MediumState,
    /// Bytes on it.
    pub bytes: u64,
}

/// A tape that was moved to a mail slot.
#[derive(Debug, Clone)]
pub struct Exported {
    /// The move.
    pub moved: Moved,
    /// The label of its medium, which is recorded as exported now; nothing where this cell knows of none.
    pub label: Option<String>,
    /// Then a medium that has its barcode in another library, and is not there.
    pub elsewhere: Option<Medium>,
}

impl Cell {
    /// All tapes of a library by place; where asked for, after the library has looked into every slot. Media that are recorded as
    /// exported and are found in slots then are back.
    pub fn library_inventory(&self, name: &LibraryName, rescan: bool) -> Result<Vec<Inventoried>> {
        let mut library = open(&*self.devices, name)?;
        if rescan {
            library.rescan().map_err(of_tape)?;
            self.forget_seen_in(name)?;
        }
        let held = library.inventory().map_err(of_tape)?;
        let mut left = HashMap::new();
        for tape in held.iter().filter(|tape| tape.is_cleaning()) {
            left.insert(tape.barcode.clone(), library.cleanings_left(&tape.barcode));
        }
        drop(library);
        let of = name.resolved().to_string();
        let known = self.tapes_known(name)?;
        let in_slots = held.iter().filter(|tape| rescan && matches!(tape.place, Place::Slot(_)));
        for (tape, medium) in in_slots.filter_map(|t| Some((t, known.of_barcode(&t.barcode)?))) {
            if self.exported(medium.id)?.is_some() {
                self.tape_is_back(medium, name, &tape.barcode)?;
            }
        }
        let mut seen = self.seen_in(name, &held)?;
        let inventoried = held.into_iter().map(|tape| {
            let (known, among) = match &known.among(&tape.barcode)[..] {
                [] => (None, Vec::new()),
                [one] => (Some(KnownTape::of(self.medium_info(one)?)), Vec::new()),
                several => (None, several.iter().map(|m| m.label.clone()).collect()),
            };
            let is_unknown = known.is_none() && among.is_empty();
            let seen = seen.remove(&tape.barcode).filter(|_| is_unknown);
            let uses = match left.get(&tape.barcode) {
                None => None,
                Some(left) => {
                    let recorded = self.uses_of(&of, &tape.barcode)?;
                    Some(Uses { left: left.or(recorded.left), ..recorded })
                }
            };
            let may_be = is_unknown && uses.is_none() && seen.is_none();
            let elsewhere = if may_be { self.absent_with(name, &tape.barcode)? } else { None };
            Ok(Inventoried { tape, known, among, elsewhere, uses, seen })
        });
        inventoried.collect()
    }

    /// Moves the tapes in the mail slots to free slots, and records that their media are back. `on` is told of each. Those that were
    /// loaded from there come back too, unless they are in use.
    pub fn library_import(&self, name: &LibraryName, on: &mut dyn FnMut(&Exported)) -> Result<u64> {
        let elements = open(&*self.devices, name)?.elements();
        if elements.mail_slots == 0 {
            return Err(DriveRefusal::NoMailSlots { library: name.clone() }.into());
        }
        let known = self.tapes_known(name)?;
        let mut count = 0;
        let mut is_back = |moved: Moved| {
            // It was outside, where anybody may have written it or moved its tab.
            self.forget_seen_tape(name, &moved.barcode)?;
            let medium = known.of_barcode(&moved.barcode);
            if let Some(medium) = medium {
                self.tape_is_back(medium, name, &moved.barcode)?;
            }
            let elsewhere = match medium {
                Some(_) => None,
                None => self.absent_with(name, &moved.barcode)?,
            };
            let label = medium.map(|medium| medium.label.clone());
            on(&Exported { moved, label, elsewhere });
            count += 1;
            Ok::<_, CellError>(())
        };
        for tape in open(&*self.devices, name)?.inventory().map_err(of_tape)? {
            if let (Place::Drive(n), Some(Place::Mail(_))) = (tape.place, tape.from)
                // Who has the drive brings it back.
                && let Ok(moved) = super::unload(&*self.devices, name, n)
                && matches!(moved.to, Some(Place::Slot(_)))
            {
                is_back(moved)?;
            }
        }
        let mut library = open(&*self.devices, name)?;
        let held = library.inventory().map_err(of_tape)?;
        for Held { place, .. } in held.iter().filter(|h| matches!(h.place, Place::Mail(_))) {
            let moved = by_places(&mut *library, |library, held| {
                let Some(tape) = at(held, *place) else { return Ok(None) };
                let to = free_slot(held, elements).ok_or_else(|| no_room(name))?;
                carry(library, &tape.barcode, *place, to).map(Some)
            })?;
            // One that somebody took meanwhile is not there to be moved.
            moved.map_or(Ok(()), &mut is_back)?;
        }
        Ok(count)
    }

    /// Moves tapes to mail slots, and records where their media go; those in drives that nobody uses are unloaded first. Before
    /// anything is moved it is seen that all of them are there, are in no use and have room. `on` is told of each.
    pub fn library_export(
        &self,
        name: &LibraryName,
        barcodes: &[String],
        location: &str,
        on: &mut dyn FnMut(&Exported),
    ) -> Result<()> {
        crate::media::check_location(location)?;
        let mut library = open(&*self.devices, name)?;
        let held = library.inventory().map_err(of_tape)?;
        let mut tapes = Vec::new();
        for barcode in barcodes {
            let tape = self.to_export(&mut *library, &held, barcode, name)?;
            if !tapes.contains(&tape) {
                tapes.push(tape);
            }
        }
        let free = free_mail(&*library, &held).count();
        let wanted = tapes.iter().filter(|t| !matches!(t.place, Place::Mail(_))).count();
        if wanted > free {
            return Err(
                DriveRefusal::TooFewMailSlots { library: name.clone(), free, wanted }.into()
            );
        }
        let known = self.tapes_known(name)?;
        for Held { barcode, .. } in tapes {
            let medium = known.of_barcode(&barcode);
            let moved = self.export_one(&mut *library, name, &barcode, medium, location)?;
            let label = medium.map(|medium| medium.label.clone());
            on(&Exported { moved, label, elsewhere: None });
        }
        Ok(())
    }

    /// The tape of a library that is to be exported; refused where somebody uses it.
    fn to_export(
        &self,
        library: &mut dyn TapeLibrary,
        held: &[Held],
        barcode: &str,
        name: &LibraryName,
    ) -> Result<Held> {
        let tape = find(held, &TapeName::Barcode(barcode.to_owned()), name)?;
        if let Place::Drive(n) = tape.place
            && let Some(who) = library.drive_info(n).map_err(of_tape)?.in_use
        {
            return Err(DriveRefusal::DriveInUse {
                tape: called(tape),
                drive: n,
                holder: self.devices.queue().name(&who),
            }
            .into());
        }
        Ok(tape.clone())
    }

    /// Moves a tape to a mail slot from where it lies then. It goes on record before: no backup that looks for a tape takes it out of the
    /// mail slot, as it sees it there only when that is on record.
    fn export_one(
        &self,
        library: &mut dyn TapeLibrary,
        name: &LibraryName,
        barcode: &str,
        medium: Option<&Medium>,
        location: &str,
    ) -> Result<Moved> {
        let (of, text) = (name.resolved(), Some(barcode.to_owned()));
        let tape = TapeAddress { library: of, drive: None, tape: text, spool: None };
        let mut is_new = false;
        if let Some(medium) = medium {
            is_new = tape_exported(&self.idb, medium.id, &tape_name(&tape))?.is_none();
            self.record_export(medium, Some(&tape), location)?;
        }
        let moved = by_places(library, |library, held| {
            let Held { place: from, barcode, .. } = self.to_export(library, held, barcode, name)?;
            if let Place::Mail(_) = from {
                return Ok(Moved { barcode, from, to: Some(from) });
            }
            let to = free_mail(library, held).next();
            let to = to.ok_or_else(|| DriveRefusal::NoFreeMailSlot {
                library: name.clone(),
                barcode: barcode.clone(),
            })?;
            if let Place::Drive(n) = from {
                library.unload_drive(n).map_err(of_tape)?;
            }
            carry(library, &barcode, from, to)
        });
        if let (Err(_), Some(medium), true) = (&moved, medium, is_new) {
            self.tape_is_back(medium, name, barcode)?;
        }
        self.forget_seen_tape(name, barcode)?;
        moved
    }

    /// A medium that has a barcode in another library, and is not there: it may be the tape with that barcode here, where the library got
    /// another name.
    fn absent_with(&self, library: &LibraryName, barcode: &str) -> Result<Option<Medium>> {
        let mut libraries = Libraries::new();
        for medium in self.idb.media()? {
            let device = &medium.device;
            let mut is_it = |tape: TapeAddress| {
                let is_other = tape.library.resolved() != library.resolved();
                let has_it = !barcode.is_empty() && tape.tape.as_deref() == Some(barcode);
                is_other && has_it && self.tape_is_away(tape, &mut libraries)
            };
            if device.tapes().into_iter().any(&mut is_it) {
                return Ok(Some(medium));
            }
        }
        Ok(None)
    }

    /// Whether a tape is not in its library, or that cannot be asked.
    fn tape_is_away(&self, tape: TapeAddress, libraries: &mut Libraries) -> bool {
        tape_away(&*self.devices, &Address::from(tape), libraries).is_some()
    }

    /// The media that may be in a library, by barcode.
    fn tapes_known(&self, library: &LibraryName) -> Result<Tapes> {
        let media = self.idb.media()?;
        Ok(Tapes::of(media, &library.resolved()))
    }
}

/// The mail slots of a library that are free.
fn free_mail(library: &dyn TapeLibrary, held: &[Held]) -> impl Iterator<Item = Place> {
    let is_free = |place: &Place| at(held, *place).is_none();
    (1..=library.elements().mail_slots).map(Place::Mail).filter(is_free)
}

impl KnownTape {
    fn of(info: MediumInfo) -> Self {
        Self {
            id: info.medium.id,
            label: info.medium.label,
            pool: info.management.pool,
            state: info.state,
            bytes: info.holdings.bytes,
        }
    }
}

/// Media on tapes, by barcode.
#[derive(Debug, Default)]
struct Tapes(BTreeMap<String, Vec<(bool, Medium)>>);

impl Tapes {
    /// A tape that was last seen in this library is it. One of another may have come from there, if that is no virtual one:
    /// these give the same barcodes all over.
    fn of(media: Vec<Medium>, library: &LibraryName) -> Self {
        let mut tapes = Self::default();
        for medium in media {
            let device = &medium.device;
            for TapeAddress { library: of, tape, .. } in device.tapes() {
                let here = of == *library;
                if let Some(barcode) = tape
                    && (here || (may_travel(&of) && may_travel(library)))
                {
                    tapes.0.entry(barcode).or_default().push((here, medium.clone()));
                }
            }
        }
        tapes
    }

    /// The medium of a barcode, where that is certain.
    fn of_barcode(&self, barcode: &str) -> Option<&Medium> {
        match self.among(barcode)[..] {
            [one] => Some(one),
            _ => None,
        }
    }

    /// The media of which a barcode is one: those that were last seen here, if there are any.
    fn among(&self, barcode: &str) -> Vec<&Medium> {
        let all = self.0.get(barcode).map(Vec::as_slice).unwrap_or_default();
        let is_here = all.iter().any(|(here, _)| *here);
        all.iter().filter(|(here, _)| *here == is_here).map(|(_, medium)| medium).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barcode_is_a_medium_where_that_is_certain() {
        let medium = |n: u8, device: &str| Medium {
            id: MediumId([n; 16]),
            label: format!("m{n}"),
            device: device.parse().unwrap(),
            block_size: 1 << 19,
            created_us: 0,
            hosts: Vec::new(),
        };
        let all = || {
            vec![
                medium(1, "vtape:/v?tape=V00001L9"),
                medium(2, "vtape:/w?tape=V00001L9"),
                medium(3, "scsi:/dev/sg3?tape=A1"),
                medium(4, "scsi:/dev/sg9?tape=A1"),
                medium(5, "scsi:/dev/sg9?tape=A2"),
                medium(6, "/mnt/A2"),
                medium(7, "rait1:vtape:/w?tape=V00007L9,vtape:/w?tape=V00008L9"),
            ]
        };
        let of = |library: &str, barcode: &str| {
            let tapes = Tapes::of(all(), &library.parse().unwrap());
            tapes.of_barcode(barcode).map(|medium| medium.label.clone())
        };
        assert_eq!(of("vtape:/w", "V00001L9").as_deref(), Some("m2"));
        assert_eq!(of("vtape:/x", "V00001L9"), None);
        assert_eq!(of("vtape:/w", "V00008L9").as_deref(), Some("m7"), "a part of an array");
        assert_eq!(of("scsi:/dev/sg3", "A1").as_deref(), Some("m3"));
        assert_eq!(of("scsi:/dev/sg3", "A2").as_deref(), Some("m5"), "it came from there");
        assert_eq!(of("scsi:/dev/sg4", "A1"), None, "one of two");
        let tapes = Tapes::of(all(), &"scsi:/dev/sg4".parse().unwrap());
        assert_eq!(tapes.among("A1").len(), 2);
        assert_eq!(of("vtape:/w", "A2"), None);
        assert_eq!(of("vtape:/w", ""), None);
    }
}
