//! Backups of the database that were found on media.

use std::sync::Arc;

use capstan_address::StoreAddress;
use capstan_engine::message::Code;
use capstan_format::attachment::Attachment;
use capstan_format::idb_backup::{IdbManifest, open_idb_backup, read_idb_head};
use capstan_format::keys::KeyRecord;
use capstan_medium::OpenMedium;
use capstan_medium::host::DeviceHost;

use crate::error::{CellError, IdbRefusal, Result, chain};
use crate::keys::keyring::{self, Secrets};
use crate::session::SessionLog;

/// The largest backup that is read, in bytes.
const BACKUP_MAX: u64 = 2 << 30;

/// A backup of an internal database that was opened.
pub(super) struct Opened {
    /// Which of those that there are it is.
    pub from: String,
    pub manifest: IdbManifest,
    pub files: Files,
    /// Newer ones, which cannot be read.
    pub newer: Vec<UnreadBackup>,
}

/// A backup of an internal database that cannot be read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadBackup {
    /// Where it is.
    pub at: String,
    /// Of when it is, in microseconds since 1970, if that is known.
    pub created_us: Option<i64>,
    /// What is wrong with it.
    pub why: String,
}

/// A backup of an internal database that was found.
pub(super) struct Found {
    /// What it is called.
    pub name: String,
    /// Where it is, for messages.
    pub shown: String,
    /// When it was made, as far as its place says that.
    pub created_us: Option<i64>,
    pub place: Place,
}

/// Where a backup lies.
pub(super) enum Place {
    Store(Arc<dyn DeviceHost>, StoreAddress),
    Tape(Box<OpenMedium>, Attachment),
}

/// The first of these backups, which come newest first, that is whole, opened.
pub(super) fn newest(all: &[Found], recovery: &Secrets, log: &SessionLog<'_>) -> Result<Opened> {
    let (mut failed, mut closed, mut newer) = (None, Vec::new(), Vec::new());
    for found in all {
        let bytes = found.read();
        let cell = bytes.as_ref().ok().and_then(|b| Some(read_idb_head(b).ok()?.0.cell));
        // Another code is not tried on an older one: it would be wrong there too.
        if cell.is_some_and(|cell| closed.contains(&cell)) {
            continue;
        }
        match bytes.and_then(|bytes| found.open(&bytes, recovery)) {
            Ok(opened) => return Ok(Opened { newer, ..opened }),
            Err(e) if e.is_of_keys() => {
                closed.extend(cell);
                failed = failed.filter(CellError::is_of_keys).or(Some(e));
            }
            Err(e) => {
                let (at, why) = (found.shown.clone(), chain(&e));
                let text = format!("it cannot be read: {why}; an older one is tried");
                log.say(Code::IdbOlder, "cell", &at, text);
                newer.push(UnreadBackup { at, created_us: found.created_us, why });
                failed = failed.or(Some(e));
            }
        }
    }
    Err(failed.unwrap_or_else(|| IdbRefusal::NoReadableBackup.into()))
}

impl Found {
    pub fn read(&self) -> Result<Vec<u8>> {
        match &self.place {
            Place::Store(devices, store) => devices
                .read_idb_backup(store, &self.name, BACKUP_MAX)
                .map_err(CellError::io("read", &self.shown)),
            Place::Tape(medium, attachment) => Ok(medium.read_attachment(attachment)?),
        }
    }

    pub fn open(&self, bytes: &[u8], recovery: &Secrets) -> Result<Opened> {
        let format = |source| CellError::Format { what: self.shown.clone(), source };
        let (head, _) = read_idb_head(bytes).map_err(format)?;
        let record = KeyRecord::from_json(head.key.to_string().as_bytes())?;
        let open = keyring::unlock(record.ring(), recovery)?;
        let key = record.unwrap_contents(&open)?;
        let (manifest, files) = open_idb_backup(bytes, &key).map_err(format)?;
        Ok(Opened { from: self.name.clone(), manifest, files, newer: Vec::new() })
    }
}

pub(super) type Files = Vec<(String, Vec<u8>)>;
