//! The backup of the internal database: what media cannot give back, sealed for a recovery key, beside the session's data.
//!
//! The home has the public half of that key and what the recovery code opens, never the code: so every session writes
//! such a backup and nobody who takes home or medium reads one.

use std::path::PathBuf;

use capstan_address::{Address, StoreAddress};
use capstan_engine::message::Code;
use capstan_format::id::{MediumId, StreamId};
use capstan_format::idb_backup::{IdbBackupHead, seal_idb_backup};
use capstan_format::keys::{
    Cipher, KeyRecord, KeyRing, LockBy, NewLock, RecoveryCode, Scope, SessionKeys,
};
use capstan_medium::host::DeviceHost;
use zeroize::Zeroizing;

use crate::Cell;
use crate::drives::attached::Content;
use crate::error::{CellError, IdbRefusal, Result, chain};
use crate::keys::keyring;
use crate::report::{Report, ReportError};
use crate::session::{SessionLog, now_us};

/// The file below the home with the public half of the recovery key, and its lock.
pub const RECOVERY_FILE: &str = "idb-recovery.json";
/// The file with the tables.
pub(super) const DATABASE_FILE: &str = "capstan.db";
/// The setting with the time of the last backup.
pub(super) const BACKED_UP: &str = "idb-backed-up-us";
/// The setting that says that somebody was told how to make a recovery key.
const TOLD: &str = "told-of-recovery-key";

/// A recovery key that was just made: its code is shown once.
pub struct RecoveryKey {
    /// The id of the key pair that it opens.
    pub id: String,
    /// The code, as it is written down.
    pub code: Zeroizing<String>,
}

/// The stores of a device in which a backup of the database is laid: of an array those that are there.
fn places_for_idb(devices: &dyn DeviceHost, device: &Address) -> Vec<StoreAddress> {
    let mut places = device.stores();
    if device.as_array().is_some() {
        places.retain(|store| devices.has_header(store));
    }
    places
}

impl Cell {
    /// The ring that backups of the internal database are sealed for.
    pub(super) fn recovery_ring(&self) -> Result<Option<KeyRing>> {
        keyring::load_as(&self.home, RECOVERY_FILE)
    }

    /// Makes a recovery key. One that is there is replaced only if that is asked for: backups that were sealed for it keep
    /// needing its code. It is in force once `show` has shown its code, and not if that fails.
    pub fn make_recovery_key<E: From<CellError>>(
        &self,
        replace: bool,
        show: impl FnOnce(&RecoveryKey) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let _lock = keyring::lock(&self.home)?;
        let (ring, key) = self.new_recovery_key(replace)?;
        show(&key)?;
        Ok(keyring::save_as(&self.home, RECOVERY_FILE, &ring)?)
    }

    fn new_recovery_key(&self, replace: bool) -> Result<(KeyRing, RecoveryKey)> {
        if let Some(ring) = self.recovery_ring()?
            && !replace
        {
            return Err(
                IdbRefusal::RecoveryKeyExists { key: ring.active()?.id().to_string() }.into()
            );
        }
        let now = now_us() / 1_000_000;
        let (code, ring) = keyring::with_randomness(&self.entropy, |rng| {
            let code = RecoveryCode::draw(rng);
            let by = LockBy::RecoveryCode(&code);
            let lock =
                NewLock { by, scope: Scope::All, label: "recovery of the internal database" };
            let (ring, _) = KeyRing::create(&lock, now, rng)?;
            Ok((code, ring))
        })?;
        let key = RecoveryKey { id: ring.active()?.id().to_string(), code: code.to_text() };
        Ok((ring, key))
    }

    /// Lays a backup of the internal database beside the data of a session that ended: on the media that it wrote `last`, one of each
    /// mirror, if none failed; else in the directories of the device. What fails does not make the session fail: it is said, and in the report.
    pub(crate) fn back_up_idb(
        &self,
        device: &Address,
        last: &[MediumId],
        log: &SessionLog<'_>,
        report: &mut Report,
    ) {
        let (tapes, others): (Vec<MediumId>, Vec<_>) =
            last.iter().partition(|id| self.is_on_tape(**id).unwrap_or(false));
        let device_of = |id: MediumId| Some(self.idb.medium(id).ok()??.device);
        let devices: Vec<Address> = match last {
            [] => vec![device.clone()],
            _ => others.into_iter().filter_map(device_of).collect(),
        };
        for store in devices.iter().flat_map(|of| places_for_idb(&*self.devices, of)) {
            let written = self.write_idb_backup(&store);
            self.say_idb_backup(written, store.shown(), log, report);
        }
        for id in tapes {
            let written = self.attach_idb_backup(id);
            let labels = self.labels(std::iter::once(&id)).unwrap_or_default();
            self.say_idb_backup(written, labels.concat(), log, report);
        }
    }

    fn say_idb_backup(
        &self,
        written: Result<bool>,
        path: String,
        log: &SessionLog<'_>,
        report: &mut Report,
    ) {
        match written {
            Ok(true) => {}
            Ok(false) => report.notes.extend(self.recovery_key_note()),
            Err(e) => {
                let code = Code::IdbNotSaved;
                let error =
                    format!("the backup of the internal database was not written: {}", chain(&e));
                log.say(code, "cell", &path, error.clone());
                report.errors.push(ReportError { path, error, code: code.name(), refused: None });
            }
        }
    }

    /// The same, on media on which something was removed: what their backups said of it is no longer so.
    pub(crate) fn back_up_idb_on<'m>(
        &self,
        media: impl Iterator<Item = &'m str>,
        log: &SessionLog<'_>,
    ) {
        let places = |text: &str| match Address::of_record(text.to_owned()) {
            Address::Unknown(text) => vec![PathBuf::from(text).into()],
            address => places_for_idb(&*self.devices, &address),
        };
        for store in media.flat_map(places) {
            if let Err(e) = self.write_idb_backup(&store) {
                let text =
                    format!("the backup of the internal database was not written: {}", chain(&e));
                log.say(Code::IdbNotSaved, "cell", &store.shown(), text);
            }
        }
    }

    /// Says once in a home's life how its database is backed up.
    fn recovery_key_note(&self) -> Option<String> {
        if self.idb.setting(TOLD).ok()?.is_some() {
            return None;
        }
        self.idb.put_setting(TOLD, "yes").ok()?;
        let text = "the internal database is not backed up with the data: `capstan idb recovery-key` makes the key for it";
        Some(text.to_owned())
    }

    /// Whether there is a recovery key, and so a backup was written.
    fn write_idb_backup(&self, store: &StoreAddress) -> Result<bool> {
        let Some((created_us, bytes)) = self.sealed_idb_backup()? else { return Ok(false) };
        // The disk may have gone meanwhile, and the medium may be another cell's.
        self.refuse_other_cells(&self.devices.header_in(store)?, &store.shown())?;
        self.devices.write_idb_backup(store, created_us, &bytes)?;
        Ok(true)
    }

    /// The same onto a tape.
    fn attach_idb_backup(&self, id: MediumId) -> Result<bool> {
        if self.recovery_ring()?.is_none() {
            return Ok(false);
        }
        let Some(medium) = self.tape_to_attach_to(id)? else { return Ok(false) };
        let Some((created_us, bytes)) = self.sealed_idb_backup()? else { return Ok(false) };
        self.attach(&medium, Content::IdbBackup(created_us, bytes))?;
        Ok(true)
    }

    /// A backup of the internal database as it is now, and its time; none without a recovery key.
    pub(crate) fn sealed_idb_backup(&self) -> Result<Option<(i64, Vec<u8>)>> {
        let Some(ring) = self.recovery_ring()? else { return Ok(None) };
        self.sound_pages()?;
        let created_us = now_us();
        // Before the copy is made, so that it is in it.
        self.idb.put_setting(BACKED_UP, &created_us.to_string())?;
        Ok(Some((created_us, self.idb_backup(&ring, created_us)?)))
    }

    fn idb_backup(&self, ring: &KeyRing, created_us: i64) -> Result<Vec<u8>> {
        let cipher = Cipher::best();
        let (keys, record) = keyring::with_randomness(&self.entropy, |rng| {
            let keys = SessionKeys::draw(rng);
            let record = KeyRecord::wrap(&keys, cipher, ring, &[], rng)?;
            Ok((keys, record))
        })?;
        let json = |e: serde_json::Error| {
            CellError::from(IdbRefusal::RecoveryKeyUnusable {
                why: format!("a wrapped key is no JSON: {e}"),
            })
        };
        let head = IdbBackupHead {
            format: 1,
            cell: self.id,
            created_us,
            stream: StreamId(self.new_id()?),
            cipher,
            key: serde_json::from_slice(&record.to_json()?).map_err(json)?,
        };
        let tables = self.idb.small_copy()?;
        let rings =
            [(keyring::FILE_NAME, keyring::load(&self.home)?), (RECOVERY_FILE, Some(ring.clone()))];
        let mut files: Vec<(&str, Vec<u8>)> = vec![(DATABASE_FILE, tables)];
        for (name, ring) in rings {
            if let Some(ring) = ring {
                files.push((name, ring.to_json()?));
            }
        }
        let files: Vec<(&str, &[u8])> =
            files.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
        seal_idb_backup(&head, &keys.contents, &files)
            .map_err(|e| IdbRefusal::RecoveryKeyUnusable { why: e.to_string() }.into())
    }
}
