//! An import session: rebuilds what the internal database knows of a medium from the medium alone.

pub(crate) mod bring_back;
pub(crate) mod closed_names;
mod completed;
mod found;
pub(crate) mod library;
mod names;
mod removed;
mod segments;
mod sessions;

use std::collections::{BTreeMap, HashSet};

use capstan_address::{Address, TapeAddress};
use capstan_engine::message::{Code, shell_word};
use capstan_format::id::{SegmentNumber, VersionId};
use capstan_format::record::Follows;
use capstan_idb::{Medium, Status};
use capstan_medium::host::placed::Placed;
use capstan_medium::{FoundLock, OpenMedium};

use crate::Cell;
use crate::error::Result;
use crate::keys::records::key_records;
use crate::keys::unlock::OpenedKeys;
use crate::kinds::import::found::{Imports, say_sealed};
use crate::kinds::import::library::Later;
use crate::kinds::skeleton::{SessionRun, add_rates};
use crate::media::unreadable::lost_header;
use crate::media::{Taken, shown};
use crate::observe::{Observer, Stop};
use crate::report::Report;
use crate::session::SessionLog;
use crate::upkeep::media::tape_use::Before;
use crate::versions::damaged::lost_text;

/// What an import does without keys.
const WITHOUT: &str = "import without names";

/// So many versions are named that are not whole for one reason.
const NAMED: usize = 8;

/// Where a medium was found that a device has; an array with its members in their places.
fn placed(cell: &Cell, device: &Address) -> Placed {
    match device {
        Address::Array(array) => {
            let opened = cell.devices.array(array, &cell.known_members());
            opened.map_or_else(|_| device.clone().into(), |opened| opened.placed())
        }
        other => other.clone().into(),
    }
}

/// What was read of a medium and recorded.
struct ReadIn {
    files: u64,
    dirs: u64,
    /// Bytes that were read.
    bytes: u64,
    /// The versions of which there is something.
    versions: Vec<VersionId>,
    /// The media that their sessions wrote before.
    follows: Vec<Before>,
}

/// What is to be noted of a medium that is recorded by another label than its own.
fn called_otherwise(own: &str, label: &str) -> Option<String> {
    (label != own)
        .then(|| format!("another medium is called '{own}' here, so this one is called '{label}'"))
}

impl Cell {
    /// Imports a medium. Where others are imported with it, `later` takes what is to be said of all.
    pub(crate) fn import_medium(
        &self,
        device: &Address,
        mut later: Option<&mut Later>,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let session = SessionRun::begin(self, "import", stop)?;
        let log = SessionLog::new(observer);
        let _booked = self.book_drives_of(&[device])?;
        let medium = self.open_to_import(device, &log)?;
        let header = medium.header().clone();
        // A wrong secret is said before anything is recorded.
        let keys = self.keys_to_import(&medium)?;
        let Taken { torn, kept } = self.take_as_it_is(device, &medium, &log, stop)?;
        let others = later.as_deref().map_or(&[][..], |later| &later.others_on);
        let label = self.record_found(device, &medium, others)?.label;
        let mut read = self.import_contents(device, &medium, keys, kept, &log, stop)?;
        let there = (!device.is_sequential()).then_some(&medium);
        let stay = self.bring_back_alone(header.medium, there, &log)?;
        // Among what was brought back may be what stands for others.
        self.adopt_stand_ins()?;
        match later {
            // What one lacks another one may have.
            Some(ref mut later) => later.versions.append(&mut read.versions),
            None => self.say_not_imported(&read.versions, &header.label, &log)?,
        }
        Self::say_problems(&medium, &log);
        // What was read is recorded, also where it was stopped.
        let status =
            if log.error_count() > 0 { Status::CompletedWithErrors } else { Status::Completed };
        let mut report = Report {
            files: read.files,
            dirs: read.dirs,
            bytes_read: read.bytes,
            media: vec![label.clone()],
            ..session.report(&label, status)
        };
        add_rates(&mut report, read.bytes, None);
        let is_others = self.other_cell(&header)?.is_some();
        match later {
            Some(later) => {
                later.follows.append(&mut read.follows);
                later.others_media += u64::from(is_others);
            }
            None => report.notes.extend(self.notes_of_one(device, is_others, &read.follows)?),
        }
        report.notes.extend(self.unended_on(device, &medium)?);
        report.notes.extend(self.not_whole(torn)?);
        report.notes.extend(stay);
        report.notes.extend(called_otherwise(&header.label, &label));
        self.say_changed(&log);
        log.fill(&*self.devices, &mut report);
        session.record_whole(status, None, &report)?;
        Ok(report)
    }

    /// Opens the medium that is there, whoever has it before; says what its header lost.
    fn open_to_import(&self, device: &Address, log: &SessionLog<'_>) -> Result<OpenMedium> {
        self.devices.wait_for(device);
        let medium = self.devices.medium(device).map_err(|e| {
            let changed = self.refuse_overwritten(device, Err(&e));
            changed.err().unwrap_or_else(|| e.into())
        })?;
        if let Some((what, text)) = lost_header(&medium) {
            log.say(Code::HeaderDamaged, "media agent", &what, text);
        }
        Ok(medium)
    }

    /// Opens the keys of what is on a medium: the one by which its drive encrypts it, and, where a secret is given, those of sessions.
    fn keys_to_import(&self, medium: &OpenMedium) -> Result<OpenedKeys> {
        self.open_drive_key(medium.header())?;
        let records = key_records(&*self.agents.media, medium, &medium.segments()?);
        let what = format!("medium {}", medium.header().label);
        self.open_keys_if_given(&records, false, &what, WITHOUT)
    }

    /// Records that a medium is there, and as it is; `others` are tapes that were read and are none of it.
    fn record_found(
        &self,
        device: &Address,
        medium: &OpenMedium,
        others: &[TapeAddress],
    ) -> Result<Medium> {
        let header = medium.header();
        // One that was imported before, and is not on its tape any more, is marked, or lies where this one was; what is there now is
        // imported.
        let _ = self.refuse_overwritten(device, Ok(header));
        let at = placed(self, device).without(others);
        let row = self.put_imported(medium, &at)?;
        self.idb.set_medium_changed(header.medium, None)?;
        self.note_lost_header(medium)?;
        // It is here, wherever it was.
        self.is_back(&row, &at)?;
        Ok(row)
    }

    /// Records what is on a medium, but the segments in `kept`, of which more is known than is left.
    fn import_contents(
        &self,
        device: &Address,
        medium: &OpenMedium,
        keys: OpenedKeys,
        kept: HashSet<SegmentNumber>,
        log: &SessionLog<'_>,
        stop: &Stop,
    ) -> Result<ReadIn> {
        let header = medium.header();
        let mut found = Imports { keys: keys.keys, kept, ..Imports::default() };
        let numbers = medium.segments()?;
        let bytes = self.import_numbers(medium, &numbers, &mut found, log, stop)?;
        found.say_gaps(log);
        let sessions = std::mem::take(&mut found.sessions);
        say_sealed(&sessions, keys.why, &header.label, log);
        if keys.opened > 0 || header.is_drive_encrypted() {
            self.warn_without_ring(device, &header.label, log)?;
        }
        let (files, dirs) = self.import_sessions(&sessions)?;
        if !device.is_sequential() {
            self.forget_removed_beside(medium, &numbers, &sessions)?;
        }
        self.note_room(device, header)?;
        let versions = sessions.iter().map(|s| s.label.version).collect();
        if keys.opened > 0 {
            self.grant_to_names_key()?;
        }
        self.import_locks(medium, log)?;
        self.idb.raise_locks(&found.locks)?;
        Ok(ReadIn { files, dirs, bytes, versions, follows: found.follows })
    }

    /// What is to be noted of a medium that was imported alone.
    fn notes_of_one(
        &self,
        device: &Address,
        is_others: bool,
        follows: &[Before],
    ) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        if is_others {
            notes.push(format!(
                "the medium belongs to another cell: `capstan media adopt {}` makes it one of this cell, to write to it",
                shell_word(device)
            ));
        }
        self.note_left(follows)?;
        notes.extend(self.wanted_before(follows)?);
        Ok(notes)
    }

    /// Records a medium where it was found. What a segment repeats of it, where its header is damaged, may be out of date.
    fn put_imported(&self, medium: &OpenMedium, at: &Placed) -> Result<Medium> {
        let header = medium.header();
        match self.idb.medium(header.medium)? {
            Some(known) if medium.header_problem().is_some() => {
                let row = Medium { device: self.device_of(at, known.id)?, ..known };
                Ok(self.idb.place_medium(&row, self.host(), |_| row.label.clone())?)
            }
            _ => self.put_medium_of(at, header),
        }
    }

    /// Which media are wanted besides: sessions that were imported wrote them before, and they are not known.
    pub(crate) fn wanted_before(&self, follows: &[Before]) -> Result<Vec<String>> {
        let mut wanted: BTreeMap<[u8; 16], (&Follows, Vec<String>)> = BTreeMap::new();
        for Before { session, medium: before, .. } in follows {
            if self.idb.medium(before.medium)?.is_none() {
                let (_, sessions) = wanted.entry(before.medium.0).or_insert((before, Vec::new()));
                sessions.push(session.short());
            }
        }
        let text = |(before, sessions): (&Follows, Vec<String>)| {
            let what = if sessions.len() == 1 { "session" } else { "sessions" };
            format!(
                "{} is wanted, and not known: {what} {} wrote it before and went on here; import it too, what they backed up is \
                 not whole without it",
                shown(before.medium, &before.label),
                sessions.join(", ")
            )
        };
        Ok(wanted.into_values().map(text).collect())
    }

    /// Says which of these versions, of which something was imported from what is named so, are not whole, as the rest of them, or of
    /// what they build on, was not.
    pub(crate) fn say_not_imported(
        &self,
        versions: &[VersionId],
        what: &str,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        let mut by_reason: BTreeMap<String, Vec<VersionId>> = BTreeMap::new();
        for lost in self.idb.lost_versions()? {
            let is_new = lost.loss.is_not_imported() && versions.contains(&lost.version);
            let row = if is_new { self.idb.version(lost.version)? } else { None };
            // Of one that is incomplete that is said everywhere.
            if row.is_some_and(|version| version.is_complete_by(None)) {
                by_reason.entry(lost_text(&lost)).or_default().push(lost.version);
            }
        }
        for (why, of) in by_reason {
            let named = of.iter().take(NAMED).map(|id| self.name_of_version(*id));
            let named = named.collect::<Result<Vec<_>>>()?.join(", ");
            let (more, are) = match of.len() {
                1 => (String::new(), "is"),
                n if n <= NAMED => (String::new(), "are"),
                n => (format!(" and {} more", n - NAMED), "are"),
            };
            let text = format!("{named}{more} {are} not whole: {why}");
            log.say(Code::Missing, "cell", what, text);
        }
        Ok(())
    }

    /// Takes over the locks that the medium records: a new database does not lift them.
    fn import_locks(&self, medium: &OpenMedium, log: &SessionLog<'_>) -> Result<()> {
        let mut locks = Vec::new();
        for found in medium.version_locks()? {
            match found {
                FoundLock::Whole(lock) => locks.push((lock.version, lock.until_us)),
                FoundLock::Damaged(version) => {
                    let text = format!(
                        "the lock of version {} is damaged: what it has here is not pruned; lock it again",
                        version.short()
                    );
                    log.say(Code::Damaged, "media agent", medium.path(), text);
                }
            }
        }
        Ok(self.idb.raise_locks(&locks)?)
    }
}
