//! Backups of an internal database on tapes: on one, or on all of a library; on arrays of tapes too.

use std::collections::VecDeque;
use std::sync::Arc;

use capstan_address::Address;
use capstan_engine::message::Code;
use capstan_engine::problem::Explain;
use capstan_format::attachment::AttachmentKind;
use capstan_format::id::CellId;
use capstan_medium::host::DeviceHost;
use capstan_medium::host::found_arrays::{FoundTape, arrays_of};
use capstan_medium::{DeviceError, OpenMedium};
use parking_lot::Mutex;

use super::found::{Found, Opened, Place, newest};
use crate::drives::drive_key::open_with;
use crate::error::{IdbRefusal, Result, chain};
use crate::keys::keyring::Secrets;
use crate::media::libraries::libraries_of;
use crate::session::{SessionLog, rfc3339};
use crate::supply::tapes::arrays::is_of_libraries;
use crate::supply::tapes::barcodes;

/// So many of the last numbers of a tape are looked at first: a session ends with a backup of the database.
const NEAR: usize = 4;

/// The tapes that somebody names who wants his database back.
pub(super) struct Tapes {
    devices: Arc<dyn DeviceHost>,
    named: String,
    /// Single tapes, or parts of arrays; or arrays that were named with their tapes.
    all: Vec<Address>,
    /// Only arrays are meant.
    only_arrays: bool,
    /// The media of Capstan that they are, with the cell that each is of, once they were looked at.
    media: Mutex<Vec<(Address, Option<CellId>)>>,
    /// Those that could not be looked at.
    unread: Mutex<Vec<String>>,
}

impl Tapes {
    /// The tapes of a device; nothing where it is no tape and no library.
    pub fn of(devices: &Arc<dyn DeviceHost>, device: &Address) -> Result<Option<Self>> {
        let names_libraries = match device {
            Address::Tape(tape) => tape.tape.is_none() && !devices.is_by_hand(tape)?,
            Address::Array(array) => is_of_libraries(&**devices, array)?,
            _ => false,
        };
        let mut all = Vec::new();
        for library in libraries_of(device).into_iter().filter(|_| names_libraries) {
            let tape = |barcode: &String| Address::from(library.with_tape(barcode));
            all.extend(barcodes(&**devices, &library)?.iter().map(tape));
        }
        if !names_libraries {
            if !device.is_tape() {
                return Ok(None);
            }
            all.push(device.clone());
        }
        let only_arrays = device.as_array().is_some();
        Ok(Some(Self {
            devices: devices.clone(),
            named: device.to_string(),
            all,
            only_arrays,
            media: Mutex::default(),
            unread: Mutex::default(),
        }))
    }

    /// The newest backup on them that is whole, opened. First their ends are looked at, then all of them.
    pub fn newest(
        &self,
        recovery: &Secrets,
        secrets: &Secrets,
        log: &SessionLog<'_>,
    ) -> Result<Opened> {
        let near = self.look(NEAR, secrets, log)?;
        match newest(&near, recovery, log) {
            Err(e) if !e.is_of_keys() => {
                let all = self.look(usize::MAX, secrets, log)?;
                match all.is_empty() {
                    true => Err(IdbRefusal::NoBackupOn { device: self.named.to_string() }.into()),
                    false => newest(&all, recovery, log),
                }
            }
            found => found,
        }
    }

    /// Those that could not be looked at: a newer backup may be on them than on all others.
    pub fn unread(&self) -> Vec<String> {
        self.unread.lock().clone()
    }

    /// The tapes of them that are media of that cell, or of nobody.
    pub fn of_cell(&self, cell: CellId) -> Vec<Address> {
        let media = self.media.lock();
        let ours = media.iter().filter(|(_, of)| of.is_none_or(|of| of == cell));
        ours.map(|(device, _)| device.clone()).collect()
    }

    /// The backups among the last numbers of each medium, newest first. Says what it looks at.
    fn look(&self, depth: usize, secrets: &Secrets, log: &SessionLog<'_>) -> Result<Vec<Found>> {
        let mut found: Vec<(i64, Found)> = Vec::new();
        let mut parts: Vec<FoundTape> = Vec::new();
        self.media.lock().clear();
        self.unread.lock().clear();
        // What others have, or for what there is no drive, is waited for when the rest was looked at.
        let mut left: Vec<&Address> = Vec::new();
        let mut all = self.all.iter().map(|address| (address, false)).collect::<VecDeque<_>>();
        let mut is_patient = true;
        while let Some((address, is_last)) = all.pop_front() {
            if is_patient && (is_last || self.all.len() == 1) {
                self.devices.wait_for(address);
            }
            let (header, is_busy) = match address {
                Address::Tape(tape) if self.all.len() > 1 => match self.devices.header_on(tape) {
                    Ok(header) => (Some((tape, header)), false),
                    Err(e) => (None, e.is_busy()),
                },
                _ => (None, false),
            };
            match header {
                Some((tape, header)) if header.is_array() => parts.push((tape.clone(), header)),
                Some(_) if self.only_arrays => {}
                None if is_busy && !is_last => left.push(address),
                _ => self.look_at(address, depth, secrets, log, &mut found)?,
            }
            is_patient &= !(is_busy && is_last);
            if self.all.len() > 1 {
                self.devices.done_reading(address);
            }
            if all.is_empty() {
                all.extend(left.drain(..).map(|address| (address, true)));
            }
        }
        for array in arrays_of(parts, &()) {
            let address = Address::from(array.address);
            self.devices.wait_for(&address);
            self.look_at(&address, depth, secrets, log, &mut found)?;
        }
        found.sort_by_key(|(us, _)| std::cmp::Reverse(*us));
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }

    /// The same of one medium.
    fn look_at(
        &self,
        address: &Address,
        depth: usize,
        secrets: &Secrets,
        log: &SessionLog<'_>,
        found: &mut Vec<(i64, Found)>,
    ) -> Result<()> {
        let name = address.to_string();
        let here = match self.devices.medium(address) {
            Ok(medium) => {
                self.media.lock().push((address.clone(), medium.header().cell));
                match open_with(&*self.devices, medium.header(), secrets) {
                    Err(e) if e.is_of_keys() && self.all.len() > 1 => {
                        log.say(Code::Sealed, "cell", &name, chain(&e));
                        self.unread.lock().push(name);
                        return Ok(());
                    }
                    // It is not the code of the backup that is asked for.
                    Err(e) if e.is_of_keys() => {
                        return Err(IdbRefusal::TapeSealed(e.problem()).into());
                    }
                    opened => opened?,
                }
                backups_on(&medium, depth)
            }
            Err(
                DeviceError::NoMedium(_) | DeviceError::Medium { .. } | DeviceError::NotOurs(_),
            ) if self.all.len() > 1 => {
                say(log, &name, "it is blank, or not of Capstan".to_owned());
                return Ok(());
            }
            Err(e) => Err(e),
        };
        match here {
            Ok(here) => {
                let what = match here.first() {
                    Some((us, _)) => {
                        format!("its last backup of a database is of {}", rfc3339(*us))
                    }
                    None if depth == NEAR => "no backup of a database is at its end".to_owned(),
                    None => "no backup of a database is on it".to_owned(),
                };
                say(log, &name, what);
                found.extend(here);
            }
            Err(e) if self.all.len() > 1 => {
                let text = format!("it is not looked at: {}", chain(&e));
                log.say(Code::Damaged, "cell", &name, text);
                self.unread.lock().push(name);
            }
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }
}

fn say(log: &SessionLog<'_>, tape: &str, text: String) {
    log.say(Code::Adapted, "cell", tape, text);
}

/// The backups among the last numbers of a tape, the last first, each with its time.
fn backups_on(
    medium: &OpenMedium,
    depth: usize,
) -> std::result::Result<Vec<(i64, Found)>, DeviceError> {
    let mut found = Vec::new();
    for number in medium.segments()?.into_iter().rev().take(depth) {
        let Some(attachment) = medium.attachment(number)? else { continue };
        if attachment.attachment == AttachmentKind::IdbBackup {
            let name = format!("attachment {} of {}", number.0, medium.path());
            let (us, shown) = (attachment.written_us, name.clone());
            let place = Place::Tape(Box::new(medium.clone()), attachment);
            found.push((us, Found { name, shown, created_us: Some(us), place }));
        }
    }
    Ok(found)
}
