//! Tapes that are out of the house: a single one with its medium, those of an array each by itself.

use capstan_address::{Address, LibraryName, StoreAddress, TapeAddress};
use capstan_format::id::MediumId;
use capstan_idb::{Idb, Management, Medium};
use capstan_medium::host::placed::Placed;
use capstan_medium::tape::{Held, Place};

use crate::Cell;
use crate::error::Result;
use crate::media::libraries::may_travel;
use crate::session::{now_us, rfc3339};

impl Cell {
    /// Records that a tape leaves the house, which is that medium, or one of the tapes of it.
    pub(crate) fn export_tape(&self, medium: &Medium, tape: &TapeAddress, to: &str) -> Result<()> {
        let tapes = tapes_of_array(medium);
        let at = (now_us(), to);
        match member(&tapes, &tape.library, tape.tape.as_deref()) {
            Some(one) => self.idb.export_tape(medium.id, &names(&tapes), &tape_name(one), at)?,
            None => self.idb.set_medium_exported(medium.id, Some(at))?,
        }
        Ok(())
    }

    /// Records that a tape that was found in a library came back, which is that medium, or one of the tapes of it.
    pub(crate) fn tape_is_back(
        &self,
        medium: &Medium,
        library: &LibraryName,
        barcode: &str,
    ) -> Result<()> {
        let tapes = tapes_of_array(medium);
        match member(&tapes, &library.resolved(), Some(barcode)) {
            Some(one) => self.return_tapes(medium.id, &tapes, std::slice::from_ref(one)),
            None => Ok(self.idb.set_medium_exported(medium.id, None)?),
        }
    }

    /// Records that a medium is where it was found now; of an array the tapes that were.
    pub(crate) fn is_back(&self, medium: &Medium, at: &Placed) -> Result<()> {
        let tapes = tapes_of_array(medium);
        let found: Vec<TapeAddress> =
            tapes.iter().filter(|tape| at.was_found(tape)).cloned().collect();
        match found.len() == tapes.len() {
            true => Ok(self.idb.set_medium_exported(medium.id, None)?),
            false => self.return_tapes(medium.id, &tapes, &found),
        }
    }

    /// Records of the tapes of a medium that are in slots of their libraries, or came from there into drives, that they are back. What
    /// is in a mail slot may wait there to be carried away.
    pub(crate) fn tapes_in_slots_are_back(&self, id: MediumId) -> Result<()> {
        let Some(medium) = self.idb.medium(id)? else { return Ok(()) };
        for tape in medium.device.tapes() {
            if let Some(barcode) = tape.tape.as_deref().filter(|_| self.is_in_slot(&tape)) {
                self.tape_is_back(&medium, &tape.library, barcode)?;
            }
        }
        Ok(())
    }

    /// Whether a medium is on tapes that are all in slots of their libraries, or came from there into drives.
    pub(crate) fn lies_in_slots(&self, medium: &Medium) -> bool {
        let tapes = medium.device.tapes();
        !tapes.is_empty() && tapes.iter().all(|tape| self.is_in_slot(tape))
    }

    fn is_in_slot(&self, tape: &TapeAddress) -> bool {
        let is_slot = |place: Place| matches!(place, Place::Slot(_));
        let is_it = |held: &Held| {
            Some(&held.barcode) == tape.tape.as_ref()
                && (is_slot(held.place) || held.from.is_some_and(is_slot))
        };
        // A library that cannot be asked says nothing.
        let held = self.devices.inventory(&tape.library);
        held.is_ok_and(|held| held.iter().any(is_it))
    }

    fn return_tapes(
        &self,
        array: MediumId,
        tapes: &[TapeAddress],
        back: &[TapeAddress],
    ) -> Result<()> {
        Ok(self.idb.return_tapes(array, &names(tapes), &names(back))?)
    }

    /// Has no tape out of the house that is not of a medium any more: another took its place.
    pub(crate) fn forget_replaced_tapes(&self, medium: &Medium) -> Result<()> {
        let out = self.idb.management(medium.id)?.tapes_out;
        let tapes = names(&tapes_of_array(medium));
        match out.iter().all(|of| tapes.contains(&of.tape)) {
            true => Ok(()),
            false => Ok(self.idb.forget_other_tapes(medium.id, &tapes)?),
        }
    }

    /// The array of which a tape is one, by the tape's device.
    pub(crate) fn array_with_tape(&self, device: &str) -> Result<Option<(Medium, TapeAddress)>> {
        let Ok(Address::Tape(tape @ TapeAddress { tape: Some(_), .. })) = device.parse() else {
            return Ok(None);
        };
        let tape = tape.recorded();
        let media = self.idb.media()?;
        let single = media.iter().any(|medium| medium.device == Address::from(tape.clone()));
        let is_of = |medium: &Medium| tapes_of_array(medium).iter().any(|of| of.recorded() == tape);
        let array = media.into_iter().filter(|_| !single).find(is_of);
        Ok(array.map(|array| (array, tape)))
    }
}

/// What is where it was last seen.
#[derive(Clone, Copy)]
pub(crate) struct Here<'a> {
    pub tape: &'a dyn Fn(&TapeAddress) -> bool,
    pub store: &'a dyn Fn(&StoreAddress) -> bool,
}

/// Whether it is enough to read a medium that somebody brings the tapes back that were taken away on record: the others that it needs
/// are here.
pub(crate) fn is_on_purpose(medium: &Medium, management: &Management, here: Here<'_>) -> bool {
    if management.tapes_out.is_empty() {
        return management.exported_us.is_some();
    }
    let is_to_be_had = |tape: &TapeAddress| {
        management.tape_exported(&tape_name(tape)).is_some() || (here.tape)(tape)
    };
    let to_be_had = Here { tape: &is_to_be_had, ..here };
    to_come(&medium.device, to_be_had, &|_| false, &|_| 0).is_none()
}

/// The tapes of an array that nobody took away on record, and without which what `is_incomplete` lacks cannot be read.
pub(crate) fn vanished(
    medium: &Medium,
    management: &Management,
    here: Here<'_>,
    is_incomplete: &dyn Fn(&TapeAddress) -> bool,
) -> Vec<TapeAddress> {
    if management.exported_us.is_some() && management.tapes_out.is_empty() {
        return Vec::new();
    }
    let is_to_be_had = |tape: &TapeAddress| {
        management.tape_exported(&tape_name(tape)).is_some() || (here.tape)(tape)
    };
    let to_be_had = Here { tape: &is_to_be_had, ..here };
    tapes_to_come(&medium.device, to_be_had, is_incomplete, &|_| 0)
}

/// The tapes that have to come so that a medium can be read, as few as may be; of several that would do, those whose `rank` is least.
/// Those that are incomplete lack what is to be read: they do not help, here or there. Nothing where enough are here, or tapes do not
/// help.
pub(crate) fn tapes_to_come(
    address: &Address,
    here: Here<'_>,
    is_incomplete: &dyn Fn(&TapeAddress) -> bool,
    rank: &dyn Fn(&TapeAddress) -> u8,
) -> Vec<TapeAddress> {
    to_come(address, here, is_incomplete, rank).unwrap_or_default()
}

/// The same; nothing where it can be read as it is, and an empty list where no tape that is known helps.
fn to_come(
    address: &Address,
    here: Here<'_>,
    is_incomplete: &dyn Fn(&TapeAddress) -> bool,
    rank: &dyn Fn(&TapeAddress) -> u8,
) -> Option<Vec<TapeAddress>> {
    match address {
        Address::Tape(tape) if is_incomplete(tape) => Some(Vec::new()),
        Address::Tape(tape) if (here.tape)(tape) => None,
        Address::Tape(tape) => Some(tape.tape.iter().map(|_| tape.clone()).collect()),
        Address::Store(store) => (!(here.store)(store)).then(Vec::new),
        Address::Null { .. } => None,
        Address::Unknown(_) => Some(Vec::new()),
        Address::Array(array) => {
            let of = |member| to_come(member, here, is_incomplete, rank);
            let lacking = array.members.iter().filter_map(of);
            let mut lacking: Vec<Vec<TapeAddress>> = lacking.collect();
            let few = lacking.len().saturating_sub(array.layout.parity());
            // What no tape brings back comes last.
            lacking.sort_by_key(|of| (of.is_empty(), of.iter().map(rank).max(), of.len()));
            (few > 0).then(|| lacking.into_iter().take(few).flatten().collect())
        }
    }
}

/// In words, that a medium, or tapes of it, left the house, and where they went.
pub(crate) fn exported(idb: &Idb, medium: MediumId) -> Result<Option<String>> {
    let management = idb.management(medium)?;
    let Some(us) = management.exported_us else { return Ok(None) };
    let out = &management.tapes_out;
    let of = |us: i64, to: &str| went(us, to);
    let tapes = idb.medium(medium)?.map(|row| tapes_of_array(&row)).unwrap_or_default();
    let is_same = |to: &String| out.iter().all(|of| of.exported_to == *to);
    let together = out.is_empty()
        || out.len() == tapes.len() && management.exported_to.as_ref().is_some_and(is_same);
    if together {
        return Ok(Some(of(us, management.exported_to.as_deref().unwrap_or_default())));
    }
    let each = out.iter().map(|out| {
        let barcode = out.tape.split_once("?tape=").map_or(out.tape.as_str(), |(_, tape)| tape);
        format!("{barcode} {}", of(out.exported_us, &out.exported_to))
    });
    let each = each.collect::<Vec<_>>().join("; ");
    Ok(Some(format!("has tapes out of the house ({each})")))
}

/// In words, that a tape of a medium left the house, and where it went.
pub(crate) fn tape_exported(idb: &Idb, medium: MediumId, tape: &str) -> Result<Option<String>> {
    let management = idb.management(medium)?;
    Ok(management.tape_exported(tape).map(|(us, to)| went(us, to)))
}

/// In words, that what lies on a tape of a library by record left the house, and where it went.
pub(crate) fn tape_of_library_exported(
    idb: &Idb,
    library: &LibraryName,
    barcode: &str,
) -> Option<String> {
    let (library, barcode) = (library.resolved(), Some(barcode.to_owned()));
    let tape = TapeAddress { library, drive: None, tape: barcode, spool: None }.recorded();
    let is_on = |medium: &Medium| medium.device.tapes().iter().any(|of| of.recorded() == tape);
    // Where it cannot be looked up now, it is found by who opens it.
    let mut media = idb.media().ok()?;
    media.retain(is_on);
    let exported = |medium: &Medium| tape_exported(idb, medium.id, &tape_name(&tape)).ok()?;
    let all: Option<Vec<String>> = media.iter().map(exported).collect();
    all?.into_iter().next()
}

fn went(us: i64, to: &str) -> String {
    let day = rfc3339(us);
    let day = day.split('T').next().unwrap_or_default();
    match to {
        "" => format!("was exported on {day}"),
        to => format!("was exported on {day} to {to}"),
    }
}

/// The tapes of an array that have barcodes; none of another medium.
fn tapes_of_array(medium: &Medium) -> Vec<TapeAddress> {
    let address @ Address::Array(_) = &medium.device else {
        return Vec::new();
    };
    let mut tapes = address.tapes();
    tapes.retain(|tape| tape.tape.is_some());
    tapes
}

/// The tape of an array that has that barcode: in that library, or it came from another one.
fn member<'t>(
    tapes: &'t [TapeAddress],
    library: &LibraryName,
    barcode: Option<&str>,
) -> Option<&'t TapeAddress> {
    let is_it = |tape: &&TapeAddress| tape.tape.as_deref() == barcode;
    let is_here = |tape: &&TapeAddress| is_it(tape) && tape.library.resolved() == *library;
    let may_be =
        |tape: &&TapeAddress| is_it(tape) && may_travel(&tape.library) && may_travel(library);
    tapes.iter().find(is_here).or_else(|| tapes.iter().find(may_be))
}

/// What a tape is called in the database.
pub(crate) fn tape_name(tape: &TapeAddress) -> String {
    tape.recorded().to_string()
}

fn names(tapes: &[TapeAddress]) -> Vec<String> {
    tapes.iter().map(tape_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_to_come(array: &str, here: &[&str], known: &[&str]) -> String {
        let is_in = |list: &[&str], tape: &TapeAddress| {
            tape.tape.as_deref().is_some_and(|barcode| list.contains(&barcode))
        };
        let is_here = |tape: &TapeAddress| is_in(here, tape);
        let rank = |tape: &TapeAddress| u8::from(!is_in(known, tape));
        // In small letters what lacks something.
        let is_incomplete = |tape: &TapeAddress| {
            tape.tape.as_deref().is_some_and(|barcode| *barcode != barcode.to_uppercase())
        };
        let here = Here { tape: &is_here, store: &|_| false };
        let tapes = tapes_to_come(&array.parse().unwrap(), here, &is_incomplete, &rank);
        tapes.into_iter().filter_map(|tape| tape.tape).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn as_few_tapes_come_as_an_array_needs() {
        let of = |barcode: &str| format!("vtape:/v?tape={barcode}");
        let three = format!("rait5:{},{},{}", of("A"), of("B"), of("C"));
        assert_eq!(names_to_come(&three, &["A", "B"], &[]), "");
        assert_eq!(names_to_come(&three, &["B"], &[]), "A");
        assert_eq!(names_to_come(&three, &["B"], &["C"]), "C", "it is known where it is");
        assert_eq!(names_to_come(&three, &[], &["B", "C"]), "B C");
        let striped = format!("rait0:{},{}", of("A"), of("B"));
        assert_eq!(names_to_come(&striped, &[], &["B"]), "B A");
        // The half of which one tape lacks, and not the other.
        let halves = format!("rait1:({striped}),(rait0:{},{})", of("C"), of("D"));
        assert_eq!(names_to_come(&halves, &["C"], &[]), "D");
        assert_eq!(names_to_come(&halves, &["C", "A", "B"], &[]), "");
        assert_eq!(names_to_come(&of("A"), &[], &[]), "A");
        // One that is incomplete is none to read from, here or there.
        let lacks = format!("rait5:{},{},{}", of("A"), of("b"), of("C"));
        assert_eq!(names_to_come(&lacks, &["b", "C"], &[]), "A");
        assert_eq!(names_to_come(&lacks, &["A", "C"], &[]), "");
        assert_eq!(names_to_come(&lacks, &["C"], &["b"]), "A");
        assert_eq!(names_to_come(&lacks, &[], &[]), "A C");
        assert_eq!(names_to_come(&format!("rait1:{},{}", of("a"), of("B")), &["a"], &[]), "B");
        let no_help = format!("rait5:{},{},{}", of("A"), of("b"), of("c"));
        assert_eq!(names_to_come(&no_help, &["A", "b", "c"], &[]), "");
        // Which tape it was is not known: no tape can be asked for there.
        assert_eq!(names_to_come(&format!("rait1:vtape:/v,{}", of("B")), &[], &[]), "B");
        assert_eq!(names_to_come(&format!("rait1:/not-there,{}", of("B")), &[], &[]), "B");
    }

    #[test]
    fn what_is_on_record_and_what_is_here_is_enough() {
        let out = |tape: &str| capstan_idb::ExportedTape {
            tape: format!("vtape:/v?tape={tape}"),
            exported_us: 1,
            exported_to: "bank".to_owned(),
        };
        let medium = |device: &str| Medium {
            id: MediumId([1; 16]),
            label: "m".to_owned(),
            device: device.parse().unwrap(),
            block_size: 1 << 19,
            created_us: 0,
            hosts: Vec::new(),
        };
        let of = |tapes: Vec<capstan_idb::ExportedTape>| Management {
            exported_us: Some(1),
            tapes_out: tapes,
            ..Management::default()
        };
        let nowhere = |_: &TapeAddress| false;
        fn here(tape: &dyn Fn(&TapeAddress) -> bool) -> Here<'_> {
            Here { tape, store: &|_| false }
        }
        let striped = medium("rait0:vtape:/v?tape=A,vtape:/v?tape=B");
        assert!(!is_on_purpose(&striped, &of(vec![out("A")]), here(&nowhere)));
        assert!(is_on_purpose(
            &striped,
            &of(vec![out("A")]),
            here(&|t| t.tape.as_deref() == Some("B"))
        ));
        assert!(is_on_purpose(&striped, &of(vec![out("A"), out("B")]), here(&nowhere)));
        assert!(is_on_purpose(&striped, &of(Vec::new()), here(&nowhere)), "it left as a whole");
        assert!(!is_on_purpose(&striped, &Management::default(), here(&nowhere)));
        let mirrored = medium("rait1:vtape:/v?tape=A,vtape:/v?tape=B");
        assert!(is_on_purpose(&mirrored, &of(vec![out("A")]), here(&nowhere)));
    }
}
