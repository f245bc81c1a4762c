//! How much tapes are used: how often robots loaded them, and how much of them is written. It goes on record as it happens.

use std::collections::HashMap;
use std::sync::Weak;

use capstan_devices::address::{Address, LibraryName, TapeAddress};
use capstan_devices::tape::ledger::{Event, keep_with};
use capstan_format::id::MediumId;
use capstan_idb::Idb;
use parking_lot::Mutex;

use crate::Cell;
use crate::error::Result;

/// Loads of tapes on which no medium was yet.
type Unknown = Mutex<HashMap<(LibraryName, String), u32>>;

impl Cell {
    /// Has this process record what it does to tapes. A record that cannot be made keeps no session from going on.
    pub fn keep_tape_use(&self) {
        // This outlives the cell, which closes its database when it ends.
        let idb = std::sync::Arc::downgrade(&self.idb);
        let unknown = Unknown::default();
        keep_with(Box::new(move |event| {
            if let Some(idb) = Weak::upgrade(&idb) {
                let _ = keep(&idb, &unknown, event);
            }
        }));
    }
}

fn keep(idb: &Idb, unknown: &Unknown, event: Event) -> Result<()> {
    match event {
        Event::Loaded { library, barcode } => match medium_on(idb, &library, &barcode)? {
            Some(medium) => idb.add_load(medium)?,
            None => *unknown.lock().entry((library, barcode)).or_default() += 1,
        },
        Event::Written { medium, library, barcode, room } => {
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
    let on_it = |device: &str| {
        device.parse::<Address>().is_ok_and(|address| address.tapes().iter().any(is_it))
    };
    Ok(idb.media()?.into_iter().find(|medium| on_it(&medium.device)).map(|medium| medium.id))
}
