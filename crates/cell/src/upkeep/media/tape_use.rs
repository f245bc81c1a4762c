//! How much tapes are used: how often robots loaded them, and how much of them is written. It goes on record as it happens. An import
//! finds it out while it has the tape in a drive: no session has to load one to learn that it is full.

use std::collections::HashMap;
use std::sync::Weak;

use capstan_address::{Address, LibraryName, TapeAddress};
use capstan_format::id::{MediumId, SessionId};
use capstan_format::record::{Follows, MediumHeader};
use capstan_idb::{Idb, Management};
use capstan_medium::host::ledger::Event;
use parking_lot::Mutex;

use crate::Cell;
use crate::drives::on_record;
use crate::error::Result;
use crate::media::tape_of_library_exported;
use crate::media::write_protected::forget_tab;
use crate::session::now_us;

/// Loads of tapes on which no medium was yet.
type Unknown = Mutex<HashMap<(LibraryName, String), u32>>;

impl Cell {
    /// Has this process record what it does to tapes. A record that cannot be made keeps no session from going on.
    pub fn keep_tape_use(&self) {
        // This outlives the cell, which closes its database when it ends.
        let idb = std::sync::Arc::downgrade(&self.idb);
        let unknown = Unknown::default();
        let of_drives = idb.clone();
        self.devices.doubt_drives_by(Box::new(move |library| {
            let idb = Weak::upgrade(&of_drives);
            idb.map_or_else(Vec::new, |idb| on_record::known_of(&idb, library))
        }));
        let of_tapes = idb.clone();
        self.devices.know_exported_by(Box::new(move |library, barcode| {
            Weak::upgrade(&of_tapes)
                .and_then(|idb| tape_of_library_exported(&idb, library, barcode))
        }));
        self.devices.keep_with(Box::new(move |event| {
            if let Some(idb) = Weak::upgrade(&idb) {
                let _ = keep(&idb, &unknown, event);
            }
        }));
    }
}

impl Cell {
    /// Records how much is written of a medium's tapes, which were read just now, and whether they take more.
    pub(crate) fn note_room(&self, device: &Address, header: &MediumHeader) -> Result<()> {
        if !device.is_tape() {
            return Ok(());
        }
        self.devices.note_use(header.medium, device);
        let management = self.idb.management(header.medium)?;
        // Who wrote behind that would be warned at once that the end is near.
        let has_ended = used(&management).is_some_and(|used| used > 1.0 - END_SHARE);
        if has_ended && management.full_us.is_none() {
            self.idb.set_medium_full(header.medium, now_us())?;
        }
        Ok(())
    }

    /// Records that tapes are full which sessions left to go on on others.
    pub(crate) fn note_left(&self, before: &[Before]) -> Result<()> {
        for Before { medium, at_us, .. } in before {
            let Some(device) = self.device_of_medium(medium.medium) else { continue };
            let management = self.idb.management(medium.medium)?;
            if !device.is_tape() || management.full_us.is_some() {
                continue;
            }
            // One that has much room left had failed, or its drive had. One that was written since took more.
            let has_room = used(&management).is_some_and(|used| used < LEFT_SHARE);
            let last = self.idb.last_segments_of_medium(medium.medium, 1)?;
            if !has_room && last.iter().all(|last| last.committed_us <= *at_us) {
                self.idb.set_medium_full(medium.medium, *at_us)?;
            }
        }
        Ok(())
    }
}

/// The last part of a tape, in which drives warn that its end is near.
const END_SHARE: f64 = 0.005;
/// A session goes on on another tape when one is full: it has used at least so much of it, whatever its spool holds.
const LEFT_SHARE: f64 = 0.5;

/// How much of a tape is written, from 0 to 1, as a drive said last.
fn used(management: &Management) -> Option<f64> {
    let (capacity, used) = management.capacity.zip(management.used)?;
    (capacity > 0).then(|| used as f64 / capacity as f64)
}

fn keep(idb: &Idb, unknown: &Unknown, event: Event) -> Result<()> {
    match event {
        // The drive had tried for itself before: it is an error of the tape, one for each time that it is loaded.
        Event::ReadAgain { library, drive, .. } if on_record::is_suspect(idb, &library, drive) => {}
        Event::ReadAgain { medium, library, barcode, .. } => {
            let on_it = |barcode: String| medium_on(idb, &library, &barcode);
            let medium =
                medium.map_or_else(|| barcode.map_or(Ok(None), on_it), |of| Ok(Some(of)))?;
            if let Some(medium) = medium {
                idb.add_medium_error(medium, now_us(), false)?;
            }
        }
        Event::Loaded { library, barcode } => match medium_on(idb, &library, &barcode)? {
            Some(medium) => idb.add_load(medium)?,
            None => *unknown.lock().entry((library, barcode)).or_default() += 1,
        },
        Event::DriveFailed(fault) => on_record::note_failure(idb, &fault)?,
        Event::Tab { is_set: true, .. } => {}
        Event::Tab { library, barcode, .. } => forget_tab(idb, &library, &barcode)?,
        Event::Used { medium, library, barcode, room } => {
            // A member of an array is known by the array.
            let is_member = idb.medium(medium)?.is_none();
            let array = match &barcode {
                Some(barcode) if is_member => medium_on(idb, &library, barcode)?,
                _ => None,
            };
            if is_member && array.is_none() {
                return Ok(());
            }
            let (medium, room) = (array.unwrap_or(medium), room.filter(|_| !is_member));
            let loads = barcode.and_then(|barcode| unknown.lock().remove(&(library, barcode)));
            for _ in 0..loads.unwrap_or(0) {
                idb.add_load(medium)?;
            }
            if let Some((capacity, left)) = room {
                idb.set_medium_use(medium, capacity, capacity.saturating_sub(left))?;
            }
        }
    }
    Ok(())
}

/// The medium that was last seen on a tape.
fn medium_on(idb: &Idb, library: &LibraryName, barcode: &str) -> Result<Option<MediumId>> {
    let is_it = |tape: &TapeAddress| {
        tape.tape.as_deref() == Some(barcode) && tape.library.resolved() == library.resolved()
    };
    let on_it = |device: &Address| device.tapes().iter().any(is_it);
    Ok(idb.media()?.into_iter().find(|medium| on_it(&medium.device)).map(|medium| medium.id))
}

/// A medium that a session left.
#[derive(Debug)]
pub(crate) struct Before {
    /// The session.
    pub session: SessionId,
    /// What it left.
    pub medium: Follows,
    /// When it went on on the next one, in microseconds since 1970.
    pub at_us: i64,
}
