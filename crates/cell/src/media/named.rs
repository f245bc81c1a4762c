//! Which medium somebody means: by its label, its id or the begin of that, or the device on which it lies.
//!
//! A text that names different media in these ways is refused: which one is erased is not left to chance.

use std::io::ErrorKind;

use capstan_address::{Address, StoreAddress, TapeAddress};
use capstan_format::id::MediumId;
use capstan_idb::{ID_DIGITS_LEAST, Medium};
use capstan_medium::DeviceError;
use capstan_medium::host::DeviceHost;
use capstan_medium::host::stores::InStore;

use crate::Cell;
use crate::error::{CellError, MediumRefusal, Result, chain};
use crate::media::libraries::may_travel;

impl Cell {
    /// The recorded medium that somebody names: by label, begin of its id, or the device on which it lies.
    pub(crate) fn find_medium(&self, text: &str) -> Result<Medium> {
        if let Some(known) = self.known_medium(text)? {
            return Ok(known);
        }
        let unknown = || CellError::from(MediumRefusal::UnknownMedium { name: text.to_owned() });
        let address: Address = text.parse().map_err(|_| unknown())?;
        let store = match &address {
            Address::Store(store) if self.devices.is_there(store) => store,
            Address::Tape(tape @ TapeAddress { tape: Some(_), .. }) => {
                let (media, changed) = (self.idb.media()?, self.idb.changed_media()?);
                let known =
                    media.into_iter().filter_map(|m| Some((rank_of(&m, tape, &changed)?, m)));
                return known.min_by_key(|(rank, _)| *rank).map(|of| of.1).ok_or_else(unknown);
            }
            Address::Array(_) => {
                self.devices.wait_for(&address);
                let id = self.devices.medium(&address)?.header().medium;
                return self.idb.medium(id)?.ok_or_else(unknown);
            }
            _ => return Err(unknown()),
        };
        let there = self.devices.medium(&address);
        let is_blank = || matches!(self.devices.look_in(store), Ok(InStore::Nothing));
        if matches!(there, Err(DeviceError::NoMedium(_))) && is_blank() {
            return Err(MediumRefusal::BlankDirectory(store.shown()).into());
        }
        let id = there?.header().medium;
        let known = self.idb.medium(id)?.ok_or_else(unknown)?;
        // What is done to the medium that is known would not be done to its copy in this directory.
        self.refuse_twice(id, &address)?;
        Ok(known)
    }

    /// The medium of that label, or whose id begins so, if the database knows it. Refused where several are called so, or the
    /// directory of that name has another one.
    pub(crate) fn known_medium(&self, text: &str) -> Result<Option<Medium>> {
        let store = match text.parse() {
            Ok(Address::Store(store)) => Some(store),
            // These are written in no other way, whatever the label of a medium from elsewhere is.
            Ok(_) => return Ok(None),
            // A label may have a colon.
            Err(_) => None,
        };
        let media = self.idb.media()?;
        let digits = text.to_ascii_lowercase();
        if let Some(one) = media.iter().find(|m| m.id.to_string() == digits) {
            return Ok(Some(one.clone()));
        }
        let is_begin = digits.len() >= ID_DIGITS_LEAST && is_hexadecimal(&digits);
        let is_called = |m: &&Medium| {
            m.label == text || is_begin && m.id.to_string().starts_with(digits.as_str())
        };
        let called: Vec<&Medium> = media.iter().filter(is_called).collect();
        if called.is_empty() {
            return Ok(None);
        }
        let other = store.and_then(|store| other_in(&*self.devices, &store, &called, &media));
        match (called.as_slice(), other) {
            ([one], None) => Ok(Some((*one).clone())),
            (called, other) => Err(ambiguous(text, called, other)),
        }
    }
}

/// How surely a medium is the one on a tape: the less, the surer. Nothing where it is on another: tapes of two libraries may have the
/// same barcode.
fn rank_of(medium: &Medium, tape: &TapeAddress, changed: &[MediumId]) -> Option<u8> {
    let device = &medium.device;
    let tape = tape.recorded();
    let lies_there = device.tapes().iter().any(|of| of.recorded() == tape);
    let is_called = tape.tape.as_ref() == Some(&medium.label);
    match device {
        Address::Tape(_) if lies_there => Some(u8::from(changed.contains(&medium.id))),
        _ if lies_there && is_called => Some(2),
        // It may have come from there.
        Address::Tape(of) if is_called && may_travel(&of.library) && may_travel(&tape.library) => {
            Some(3)
        }
        _ => None,
    }
}

/// What is in a store, or was and should be, if that is none of these media.
fn other_in(
    devices: &dyn DeviceHost,
    store: &StoreAddress,
    called: &[&Medium],
    media: &[Medium],
) -> Option<String> {
    match devices.medium(&store.clone().into()) {
        Ok(there) => {
            let (id, label) = (there.header().medium, &there.header().label);
            match media.iter().find(|m| m.id == id) {
                Some(known) if called.iter().any(|m| m.id == known.id) => None,
                Some(known) => Some(format!("{id} ('{}')", known.label)),
                None => Some(format!("{id} ('{label}'), which is not known here,")),
            }
        }
        Err(e) => {
            let place = devices.whole(store);
            let was_here =
                |m: &&Medium| m.device.stores().iter().any(|s| devices.whole(s) == place);
            let here: Vec<&Medium> = media.iter().filter(was_here).collect();
            match here.last() {
                _ if here.iter().any(|m| called.iter().any(|c| c.id == m.id)) => None,
                Some(last) => Some(format!("{} ('{}'), which is away,", last.id, last.label)),
                None if has_nothing(&e) => None,
                None => Some(format!("one that cannot be read ({})", chain(&e))),
            }
        }
    }
}

/// Whether that is an error of a place where no medium is.
fn has_nothing(e: &DeviceError) -> bool {
    match e {
        DeviceError::NoMedium(_) => true,
        DeviceError::Io { source, .. } => {
            matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        }
        _ => false,
    }
}

fn is_hexadecimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The error where a text names several media, one of them maybe in the directory of that name.
fn ambiguous(text: &str, called: &[&Medium], other: Option<String>) -> CellError {
    let mut each: Vec<String> =
        called.iter().map(|m| format!("{} ('{}') in {}", m.id, m.label, m.device)).collect();
    let is_directory_too = other.is_some();
    each.extend(other.map(|other| format!("{other} in the directory of that name")));
    MediumRefusal::MediumAmbiguous { name: text.to_owned(), media: each, is_directory_too }.into()
}
