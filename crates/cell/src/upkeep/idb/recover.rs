//! `idb recover`: the internal database of a lost home, from the backup of it that lies on a medium.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use capstan_address::{Address, StoreAddress};
use capstan_engine::{durable, regular};
use capstan_format::id::MediumId;
use capstan_idb::Medium;
use capstan_medium::host::DeviceHost;
use capstan_medium::host::stores::IdbBackup;
use capstan_port::Agents;

use super::backup::{DATABASE_FILE, RECOVERY_FILE};
use super::found::{Files, Found, Opened, Place, UnreadBackup, newest};
use super::on_tape::Tapes;
use crate::Cell;
use crate::error::{CellError, IdbRefusal, Result, chain};
use crate::keys::keyring::{self, Secrets};
use crate::observe::{Observer, Stop};
use crate::report::Report;
use crate::session::{SessionLog, now_us};

/// The file of a home whose recovery was begun, until that is done.
const BEGUN: &str = "recovery.begun";
/// The setting that says when the database was last recovered.
const RECOVERED: &str = "idb-recovered-us";
/// So many of the last sessions are looked at for what a home was used for.
const SESSIONS_SINCE: usize = 1000;

/// What was recovered.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// The cell's identity.
    pub cell: String,
    /// Of when the backup is, in microseconds since 1970.
    pub created_us: i64,
    /// Which of the backups on the medium it is.
    pub from: String,
    /// Newer ones there, which cannot be read: what was done since then is missing.
    pub newer: Vec<UnreadBackup>,
    /// What became of each medium that the database names.
    pub media: Vec<RecoveredMedium>,
    /// Tapes of the library that could not be looked at: a newer backup may be on them.
    pub unread: Vec<String>,
    /// What is to be known or done before the next backup.
    pub notes: Vec<String>,
}

/// A medium that the recovered database names.
#[derive(Debug, Clone)]
pub struct RecoveredMedium {
    /// Its label.
    pub label: String,
    /// Where it was last.
    pub device: String,
    /// Why its catalogs are not here; nothing where they are.
    pub lacking: Option<String>,
    /// Files of the sessions that were read from it.
    pub files: u64,
}

/// Brings an internal database back into an empty home. `recovery` opens the backup; `secrets` names on encrypted media.
pub fn recover(
    agents: Agents,
    home: &Path,
    device: &Address,
    recovery: &Secrets,
    secrets: Secrets,
    observer: &dyn Observer,
    stop: &Stop,
) -> Result<Recovered> {
    // One that was cut short is gone on with: its tables are there, or are brought there once more.
    let begun = Begun::load(home)?;
    let goes_on = begun.is_some();
    // Whoever made keys in a home means to use it.
    let has_keys = [keyring::FILE_NAME, RECOVERY_FILE].iter().any(|name| home.join(name).exists());
    let has_tables = match capstan_idb::refuse_database(home, goes_on || !has_keys) {
        Ok(()) => false,
        Err(e) if goes_on && e.is_bad_input() => true,
        Err(e) => return Err(e.into()),
    };
    let log = SessionLog::new(observer);
    let devices = &agents.devices;
    let tapes = Tapes::of(devices, device)?;
    let Opened { from, manifest, files, newer } = match &tapes {
        Some(tapes) => tapes.newest(recovery, &secrets, &log)?,
        None => newest(&in_store(devices, device)?, recovery, &log)?,
    };
    match begun.filter(|_| has_tables) {
        Some(begun) if begun.from != from => return Err(begun.of_another(home, &from)),
        Some(_) => {}
        None => put_files(home, &files, &from)?,
    }
    if capstan_idb::names_server(home)? && home.join(DATABASE_FILE).exists() {
        super::move_database(home)?;
    }
    let cell = Cell::open_begun(home, secrets, agents.clone())?;
    if has_tables && cell.id != manifest.cell {
        return Err(IdbRefusal::AnotherCell {
            home: home.to_owned(),
            begun: cell.id,
            found: manifest.cell,
        }
        .into());
    }
    Begun::hold(home, &cell, has_tables)?;
    if !has_tables {
        // Who read versions when the backup was made is not there any more.
        for reader in cell.idb.readers()? {
            cell.idb.free_versions(&reader)?;
        }
    }
    // What is at hand may lie elsewhere than it did.
    let unread = tapes.as_ref().map(Tapes::unread).unwrap_or_default();
    let here = tapes.map_or_else(|| vec![device.clone()], |tapes| tapes.of_cell(cell.id));
    let mut media: Vec<(Option<MediumId>, RecoveredMedium)> = Vec::new();
    for address in &here {
        media.push(match cell.reimport(address, observer, stop) {
            Ok((id, row)) => (Some(id), row),
            Err(e) if here.len() > 1 => {
                let label = address.to_string();
                (None, outcome(label.clone(), label, Err(e)))
            }
            Err(e) => return Err(e),
        });
    }
    for medium in cell.idb.media()? {
        if media.iter().all(|(id, _)| *id != Some(medium.id)) {
            media.push((Some(medium.id), cell.take_back(&medium, observer, stop)));
        }
    }
    let media = media.into_iter().map(|(_, row)| row).collect();
    let notes = cell.other_name_text()?.into_iter().chain(cell.names_key_again()?).collect();
    cell.idb.put_setting(RECOVERED, &now_us().to_string())?;
    let begun = home.join(BEGUN);
    if !stop.0.load(Relaxed) && begun.exists() {
        std::fs::remove_file(&begun).map_err(CellError::io("remove", begun.display()))?;
    }
    let (cell, created_us) = (cell.id.to_string(), manifest.created_us);
    Ok(Recovered { cell, created_us, from, newer, media, unread, notes })
}

/// The longest note of a recovery, bytes: two identities.
const BEGUN_MAX: u64 = 4096;

/// What a home notes of a recovery that was begun and not ended.
struct Begun {
    /// The backup of the internal database that it was of.
    from: String,
    /// The last session that this knew. Nothing, if the recovery was cut short before that was asked.
    last: Option<String>,
    /// When that was asked, in microseconds since 1970.
    at_us: i64,
}

impl Begun {
    fn load(home: &Path) -> Result<Option<Self>> {
        let path = home.join(BEGUN);
        let text = match regular::read_text(&path, BEGUN_MAX) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(CellError::io("read", path.display())(e)),
        };
        let mut lines = text.lines();
        let from = lines.next().unwrap_or_default().to_owned();
        let written = path.metadata().and_then(|file| file.modified());
        let written = written.map_err(CellError::io("examine", path.display()))?;
        let since = written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let at_us = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        Ok(Some(Self { from, last: lines.next().map(str::to_owned), at_us }))
    }

    fn of_another(&self, home: &Path, from: &str) -> CellError {
        IdbRefusal::AnotherBackup {
            home: home.to_owned(),
            begun: self.from.clone(),
            found: from.to_owned(),
        }
        .into()
    }

    /// Notes where the recovery begins; of one that goes on it looks whether the home was used since: then it is no recovery's.
    fn hold(home: &Path, cell: &Cell, goes_on: bool) -> Result<()> {
        let Some(begun) = Self::load(home)? else { return Ok(()) };
        let Some(last) = begun.last.filter(|_| goes_on) else {
            let last = cell.idb.sessions(1)?.pop().map(|s| s.id.to_string()).unwrap_or_default();
            return put_file(home, BEGUN, format!("{}\n{last}", begun.from).as_bytes());
        };
        let since = cell.idb.sessions(SESSIONS_SINCE)?;
        let mut since = since.iter().take_while(|s| s.id.to_string() != last);
        // The recovery itself brings back older sessions, which media have and its backup of the database has not.
        match since.find(|s| s.kind != "import" && s.started_us >= begun.at_us) {
            None => Ok(()),
            Some(used) => Err(IdbRefusal::UsedSince {
                home: home.to_owned(),
                kind: used.kind.clone(),
                session: used.id.short(),
                mark: home.join(BEGUN),
            }
            .into()),
        }
    }
}

/// Refuses a home into which a recovery was begun that is not done: it lacks some of what is to come there, and who makes a new cell
/// in it, or writes to it, is in the recovery's way.
pub fn refuse_half_recovered(home: &Path) -> Result<()> {
    let begun = home.join(BEGUN);
    let marks = [&begun, &temporary(home, BEGUN)];
    let Some(mark) = marks.into_iter().find(|mark| mark.symlink_metadata().is_ok()) else {
        return Ok(());
    };
    Err(IdbRefusal::HalfRecovered { home: home.to_owned(), mark: mark.clone() }.into())
}

/// Where a file of a home is written before it takes its name.
fn temporary(home: &Path, name: &str) -> PathBuf {
    home.join(format!(".{name}.new"))
}

/// Writes a file of a home, durably.
fn put_file(home: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let (path, temporary) = (home.join(name), temporary(home, name));
    let write = || -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        durable::rename(&temporary, &path)
    };
    write().map_err(CellError::io("write", path.display()))
}

/// The backups in the store that a device is, newest first.
fn in_store(devices: &Arc<dyn DeviceHost>, device: &Address) -> Result<Vec<Found>> {
    let places = device.stores();
    let has_one =
        |store: &&StoreAddress| devices.idb_backups(store).is_ok_and(|all| !all.is_empty());
    let Some(store) = places.iter().find(has_one).or(places.first()) else {
        return Err(IdbRefusal::KeepsNoBackups.into());
    };
    let found = |IdbBackup { name, created_us }| {
        let shown = store.at(store.place().join(&name)).shown();
        let place = Place::Store(devices.clone(), store.clone());
        Found { name, shown, created_us, place }
    };
    let all = devices.idb_backups(store)?;
    if all.is_empty() {
        return Err(IdbRefusal::NoBackupIn(store.shown()).into());
    }
    Ok(all.into_iter().map(found).collect())
}

/// Writes the files of a home, each durably; the database last. Before them it is noted that a recovery was begun, so that one that
/// was cut short can be gone on with.
fn put_files(home: &Path, files: &Files, from: &str) -> Result<()> {
    let io = |action| CellError::io(action, home.display());
    durable::create_directories(home, 0o700).map_err(io("create the home"))?;
    let begun = (BEGUN.to_owned(), from.as_bytes().to_vec());
    for wanted in [BEGUN, keyring::FILE_NAME, RECOVERY_FILE, DATABASE_FILE] {
        let mut all = files.iter().chain([&begun]);
        let Some((_, bytes)) = all.find(|(name, _)| name == wanted) else { continue };
        if wanted == DATABASE_FILE {
            capstan_idb::remove_blank_database(home)?;
        }
        put_file(home, wanted, bytes)?;
    }
    if !home.join(DATABASE_FILE).exists() {
        return Err(IdbRefusal::NoTables.into());
    }
    Ok(())
}

impl Cell {
    /// When the database was last recovered, in microseconds since 1970. What media hold that were not seen since may be newer.
    pub(crate) fn recovered_us(&self) -> Result<Option<i64>> {
        Ok(self.idb.setting(RECOVERED)?.and_then(|us| us.parse().ok()))
    }

    /// Imports the medium whose device was named.
    fn reimport(
        &self,
        device: &Address,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<(MediumId, RecoveredMedium)> {
        self.devices.wait_for(device);
        let there = self.devices.medium(device)?;
        let id = there.header().medium;
        let known = self.idb.management(id)?;
        let report = self.import(device, observer, stop);
        if known.exported_us.is_some() {
            // It was out of the house when the backup was made, and is read where it is. A tape in a slot came back since.
            self.idb.set_exported_as(id, &known)?;
            if report.is_ok() {
                self.tapes_in_slots_are_back(id)?;
            }
        }
        let label = there.header().label.clone();
        Ok((id, outcome(label, device.to_string(), report)))
    }

    /// Imports a medium from where it was last, if it is there.
    fn take_back(&self, medium: &Medium, observer: &dyn Observer, stop: &Stop) -> RecoveredMedium {
        let import = || -> Result<Report> {
            if let Some(to) = self.exported(medium.id)?
                && !self.lies_in_slots(medium)
            {
                return Err(IdbRefusal::Exported(to).into());
            }
            self.open_medium(medium)?;
            self.import(&medium.device, observer, stop)
        };
        outcome(medium.label.clone(), medium.device.to_string(), import())
    }
}

fn outcome(label: String, device: String, result: Result<Report>) -> RecoveredMedium {
    match result {
        Ok(report) => RecoveredMedium { label, device, lacking: None, files: report.files },
        Err(e) => RecoveredMedium { label, device, lacking: Some(chain(&e)), files: 0 },
    }
}
