//! An import session: rebuilds what the internal database knows of a medium from the medium alone.

pub(crate) mod bring_back;
pub(crate) mod closed_names;
pub(crate) mod library;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::BufReader;
use std::sync::Arc;

use capstan_catalog::keys::VersionKeys;
use capstan_devices::address::Address;
use capstan_devices::medium::{FoundLock, OpenMedium};
use capstan_devices::rait::placed::Placed;
use capstan_engine::message::{Code, shell_word};
use capstan_format::catalog::{Contents, StreamContents, rebuild};
use capstan_format::codec::Decompressor;
use capstan_format::id::{SegmentNumber, VersionId};
use capstan_format::keys::{KeyRecord, Purpose};
use capstan_format::record::{
    Follows, MediumHeader, SegmentEnd, SegmentHeader, SessionEnd, SessionLabel, StreamExtent,
    StreamNames,
};
use capstan_idb::{Medium, Object, Protection, Segment, Session, Status, Version};
use capstan_media_agent::read::scan::scan;
use capstan_media_agent::read::segment::SegmentReader;

use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::keys::records::key_records;
use crate::kinds::backup::stream_parts;
use crate::kinds::import::library::Later;
use crate::kinds::skeleton::{SessionRun, add_rates};
use crate::media::unreadable::lost_header;
use crate::media::{Taken, shown};
use crate::names::{NAME_MAX, TAGS_MAX, TEXT_MAX, bounded};
use crate::observe::{Observer, Stop};
use crate::reading::unread::of_way;
use crate::report::Report;
use crate::request::Level;
use crate::session::{CONSOLIDATE, SessionLog, host, now_us};
use crate::upkeep::media::tape_use::Before;
use crate::versions::damaged::lost_text;
use crate::versions::lacking::Paths;

/// What an import does without keys.
const WITHOUT: &str = "import without names";

/// So many versions are named that are not whole for one reason.
const NAMED: usize = 8;

/// What was found on a medium so far.
#[derive(Default)]
struct Imports {
    sessions: Vec<Imported>,
    /// What segments have of each stream.
    spans: HashMap<[u8; 16], Vec<Span>>,
    /// Keys of the names, as far as they are open.
    keys: VersionKeys,
    /// The media that sessions wrote before they went on on this one.
    follows: Vec<Before>,
    /// Locks that are attached to a tape.
    locks: Vec<(VersionId, i64)>,
    /// Segments that are cut short, and of which more is known than is left: that stays.
    kept: HashSet<SegmentNumber>,
    /// Not what sessions wrote that were gone on with since, elsewhere: what they were not told to have committed was read and
    /// written again, and is not taken for a part of their versions.
    but_gone_on: bool,
}

/// What a segment has of a stream.
struct Span {
    /// Logical begin and end.
    range: (u64, u64),
    version: VersionId,
    is_copy: bool,
    segment: Arc<str>,
}

impl Imports {
    /// Takes what a segment has of each stream.
    fn take_spans(&mut self, segment: &Arc<str>, header: &SegmentHeader, end: &SegmentEnd) {
        for s in end.streams.iter().filter(|s| !s.sparse) {
            self.spans.entry(s.stream.0).or_default().push(Span {
                range: (s.logical_start, s.logical_end),
                version: s.version,
                is_copy: header.copy_of.is_some(),
                segment: segment.clone(),
            });
        }
    }

    /// Says which segments are missing. A copy of one version may have others' in part, which then do not end here.
    fn say_gaps(&mut self, log: &SessionLog<'_>) {
        let ended = |id| self.sessions.iter().any(|s| s.label.version == id && s.end.is_some());
        for spans in self.spans.values_mut() {
            // Copies may lie in another order.
            spans.sort_by_key(|span| span.range);
            let mut end = spans.first().map_or(0, |span| span.range.0);
            for span in spans {
                let missing = span.range.0.saturating_sub(end);
                if missing > 0 && (!span.is_copy || ended(span.version)) {
                    let text = format!("a segment before it is missing: {missing} bytes");
                    log.say(Code::Missing, "media agent", &span.segment, text);
                }
                end = end.max(span.range.1);
            }
        }
    }
}

/// What the segments of a session say of it.
struct Imported {
    label: SessionLabel,
    end: Option<SessionEnd>,
    names: Option<StreamNames>,
    sealed: Option<Vec<u8>>,
    /// As its first segment's header has it.
    protection: Protection,
    bytes: u64,
}

impl Imported {
    /// A session, as the first of its segments that is read begins.
    fn of(label: &SessionLabel, header: &SegmentHeader) -> Self {
        Self {
            label: label.clone(),
            end: None,
            names: None,
            sealed: None,
            protection: Protection::from(&header.medium.protection),
            bytes: 0,
        }
    }

    /// Adds what a segment of so many bytes says of it.
    fn add(&mut self, contents: &Contents, end: &SegmentEnd, bytes: u64, keys: &VersionKeys) {
        let ended = end.end_of(self.label.session);
        self.bytes = match ended.filter(|_| end.session != self.label.session) {
            // What it wrote together with another one is that one's segments.
            Some(ended) => ended.bytes_written,
            // Its end knows what lies on other media: all that was written before.
            None if end.session == self.label.session => {
                let before = ended.map_or(0, |ended| ended.bytes_written).max(self.bytes);
                before.saturating_add(bytes)
            }
            None => self.bytes,
        };
        self.end = self.end.take().or_else(|| ended.cloned());
        if self.names.is_some() {
            return;
        }
        // What a consolidation passed on has the names of other sessions.
        let own = |s: &&StreamContents| {
            let label = s.label.as_ref().map(|l| l.session.session);
            label.unwrap_or(end.session) == self.label.session
        };
        let mut streams = contents.streams.iter().filter(own);
        let Some(stream) = streams.find(|s| s.names.is_some()) else { return };
        match names(stream, keys) {
            Ok(names) => self.names = Some(names),
            Err(_) => self.sealed = stream.names.as_ref().map(|n| n.stored.clone()),
        }
    }
}

/// Where a medium was found that a device has; an array with its members in their places.
fn placed(cell: &Cell, device: &Address) -> Placed {
    match device {
        Address::Array(array) => {
            let opened = capstan_devices::rait::open::open_known(
                &cell.devices,
                array,
                &cell.known_members(),
            );
            opened.map_or_else(|_| device.clone().into(), |opened| opened.placed())
        }
        other => other.clone().into(),
    }
}

/// Says of how many sessions the names stay encrypted, and why.
fn say_sealed(sessions: &[Imported], why: Option<CellError>, label: &str, log: &SessionLog<'_>) {
    let sealed = sessions.iter().filter(|s| s.sealed.is_some() && s.names.is_none()).count();
    if sealed == 0 {
        return;
    }
    let why = why.map(|e| format!(" ({e})")).unwrap_or_default();
    let text = format!(
        "the names of {sealed} sessions are encrypted and stay so{why}; set CAPSTAN_PASSPHRASE or CAPSTAN_KEY_FILE and \
         import again to read them"
    );
    log.say(Code::Sealed, "cell", label, text);
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
        self.devices.wait_for(device);
        let opened = self.devices.medium(device);
        let medium = opened.map_err(|e| {
            let changed = self.refuse_overwritten(device, Err(&e));
            changed.err().unwrap_or_else(|| e.into())
        })?;
        let header = medium.header().clone();
        if let Some((what, text)) = lost_header(&medium) {
            log.say(Code::HeaderDamaged, "media agent", &what, text);
        }
        self.open_drive_key(&header)?;
        // A wrong secret is said before anything is recorded.
        let records = key_records(&medium, &medium.segments()?);
        let what = format!("medium {}", header.label);
        let opened = self.open_keys_if_given(&records, false, &what, WITHOUT)?;
        let Taken { torn, kept } = self.take_as_it_is(device, &medium, &log, stop)?;
        // One that was imported before, and is not on its tape any more, is marked, or lies where this one was; what is there now is
        // imported.
        let _ = self.refuse_overwritten(device, Ok(&header));
        let others = later.as_deref().map_or(&[][..], |later| &later.others_on);
        let at = placed(self, device).without(others);
        let row = self.put_imported(&medium, &at)?;
        self.idb.set_medium_changed(header.medium, None)?;
        self.note_lost_header(&medium)?;
        // It is here, wherever it was.
        self.is_back(&row, &at)?;
        let label = row.label;
        let mut found = Imports { keys: opened.keys, kept, ..Imports::default() };
        let mut bytes = 0;
        for number in medium.segments()? {
            if stop.0.load(std::sync::atomic::Ordering::Relaxed) {
                break;
            }
            bytes += match self.import_number(&medium, number, &mut found, &log) {
                // What lies behind it may be sound.
                Err(e) if e.is_unreadable() => {
                    self.note_unread(&medium, number, &e, &log)?;
                    0
                }
                bytes => bytes?,
            };
        }
        found.say_gaps(&log);
        let sessions = std::mem::take(&mut found.sessions);
        say_sealed(&sessions, opened.why, &header.label, &log);
        if opened.opened > 0 || header.is_drive_encrypted() {
            self.warn_without_ring(device, &header.label, &log)?;
        }
        let (files, dirs) = self.import_sessions(&sessions)?;
        self.note_room(device, &header)?;
        let versions: Vec<VersionId> = sessions.iter().map(|s| s.label.version).collect();
        if opened.opened > 0 {
            self.grant_to_names_key()?;
        }
        self.import_locks(&medium, &log)?;
        self.idb.raise_locks(&found.locks)?;
        let stay = self.bring_back_alone(
            header.medium,
            (!device.is_sequential()).then_some(&medium),
            &log,
        )?;
        // Among what was brought back may be what stands for others.
        self.adopt_stand_ins()?;
        match later {
            // What one lacks another one may have.
            Some(ref mut later) => later.versions.extend(versions),
            None => self.say_not_imported(&versions, &header.label, &log)?,
        }
        Self::say_problems(&medium, &log);
        // What was read is recorded, also where it was stopped.
        let status =
            if log.error_count() > 0 { Status::CompletedWithErrors } else { Status::Completed };
        let mut report = Report {
            files,
            dirs,
            bytes_read: bytes,
            media: vec![label.clone()],
            ..session.report(&label, status)
        };
        add_rates(&mut report, bytes, None);
        let is_others = self.other_cell(medium.header())?.is_some();
        match later {
            Some(later) => {
                later.follows.append(&mut found.follows);
                later.others_media += u64::from(is_others);
            }
            None => {
                report.notes.extend(is_others.then(|| {
                    format!(
                        "the medium belongs to another cell: `capstan media adopt {}` makes it one of this cell, to \
                         write to it",
                        shell_word(device)
                    )
                }));
                self.note_left(&found.follows)?;
                report.notes.extend(self.wanted_before(&found.follows)?);
            }
        }
        report.notes.extend(self.unended_on(device, &medium)?);
        report.notes.extend(self.not_whole(torn)?);
        report.notes.extend(stay);
        report.notes.extend((label != header.label).then(|| {
            format!(
                "another medium is called '{}' here, so this one is called '{label}'",
                header.label
            )
        }));
        self.say_changed(&log);
        log.fill(&self.devices, &mut report);
        session.record_whole(status, None, &report)?;
        Ok(report)
    }

    /// Records a medium where it was found. What a segment repeats of it, where its header is damaged, may be out of date.
    fn put_imported(&self, medium: &OpenMedium, at: &Placed) -> Result<Medium> {
        let header = medium.header();
        match self.idb.medium(header.medium)? {
            Some(known) if medium.header_problem().is_some() => {
                let row = Medium { device: self.device_of(at, known.id)?, ..known };
                Ok(self.idb.place_medium(&row, &host(), |_| row.label.clone())?)
            }
            _ => self.put_medium_of(at, header),
        }
    }

    /// Records the segments behind the last recorded one: a writer that was killed had committed them on the medium and
    /// not here yet. The caller holds the medium for writing.
    pub(crate) fn record_unknown(&self, medium: &OpenMedium, log: &SessionLog<'_>) -> Result<()> {
        let last = self.idb.last_segment_number(medium.header().medium)?;
        let unknown = medium.segments()?.into_iter().filter(|n| last.is_none_or(|last| *n > last));
        self.record_numbers(medium, unknown.collect(), log)
    }

    /// Records segments that are not recorded, by their numbers.
    pub(crate) fn record_numbers(
        &self,
        medium: &OpenMedium,
        unknown: Vec<SegmentNumber>,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        if !unknown.is_empty() {
            self.open_drive_key(medium.header())?;
        }
        let mut found = Imports { but_gone_on: true, ..Imports::default() };
        // A backup asks nobody, and goes on whatever is given.
        if self.secrets.are_given() {
            let records = key_records(medium, &unknown);
            let opened = self.open_keys_if_given(&records, false, &medium.header().label, WITHOUT);
            found.keys = opened.map(|o| o.keys).unwrap_or_default();
        }
        for number in unknown {
            self.import_number(medium, number, &mut found, log)?;
        }
        found.say_gaps(log);
        self.import_sessions(&found.sessions)?;
        // What is locked stays, whatever else is recorded of it.
        Ok(self.idb.raise_locks(&found.locks)?)
    }

    /// Whether a session was gone on with since.
    fn was_gone_on_with(&self, label: &SessionLabel) -> Result<bool> {
        let sessions = self.idb.sessions_of_version(label.version)?;
        let known = sessions.iter().find(|s| s.id == label.session);
        Ok(known.is_some_and(|of| sessions.iter().any(|s| s.started_us > of.started_us)))
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

    /// Says that something on a medium cannot be read, and records it: nothing is added to that medium.
    fn note_unread(
        &self,
        medium: &OpenMedium,
        number: SegmentNumber,
        why: &CellError,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        let what = format!("segment {} of {}", number.0, medium.path());
        log.say(Code::Damaged, "media agent", &what, chain(why));
        let id = medium.header().medium;
        let recorded = self.idb.segments_of_medium(id)?.into_iter();
        let hurt: Vec<_> = recorded.filter(|s| s.number == number).map(|s| s.id).collect();
        Ok(self.idb.put_damage(id, &hurt, now_us())?)
    }

    /// Takes what has that number on a medium: a segment, or what was attached to it.
    fn import_number(
        &self,
        medium: &OpenMedium,
        number: SegmentNumber,
        found: &mut Imports,
        log: &SessionLog<'_>,
    ) -> Result<u64> {
        match medium.attachment(number)? {
            Some(attached) => {
                let locks = attached.locks.iter().map(|lock| (lock.version, lock.until_us));
                found.locks.extend(locks);
                Ok(0)
            }
            None if found.kept.contains(&number) => {
                self.pass_known(medium, number, found)?;
                Ok(0)
            }
            None => self.import_segment(medium, number, found, log),
        }
    }

    /// Takes no more of a segment than where it comes among the others, from what is known of it.
    fn pass_known(
        &self,
        medium: &OpenMedium,
        number: SegmentNumber,
        found: &mut Imports,
    ) -> Result<()> {
        let recorded = self.idb.segments_of_medium(medium.header().medium)?;
        let Some(segment) = recorded.into_iter().find(|s| s.number == number) else {
            return Ok(());
        };
        let file = match self.idb.read_catalog(segment.id)? {
            None => self.idb.read_listing(segment.id)?,
            file => file,
        };
        let known = file.and_then(|f| Contents::from_catalog(segment.id, BufReader::new(f)).ok());
        if let Some((Some(header), Some(end))) = known.map(|known| (known.header, known.end)) {
            let what = format!("segment {} of {}", number.0, medium.path());
            found.take_spans(&what.into(), &header, &end);
        }
        Ok(())
    }

    fn import_segment(
        &self,
        medium: &OpenMedium,
        number: SegmentNumber,
        found: &mut Imports,
        log: &SessionLog<'_>,
    ) -> Result<u64> {
        let reader = SegmentReader::open(medium, number)?;
        let what = reader.path().to_owned();
        // Whether its own catalog says that all is well, and whether it is known where all of it lies, damaged or not.
        let (mut whole, mut is_complete) = (true, true);
        let contents = match reader.catalog() {
            Ok(contents) => contents,
            Err(e) if of_way(&e).is_some() => return Err(e.into()),
            Err(e) => {
                whole = false;
                let text = format!("{e}; its contents are taken from its streams");
                log.say(Code::Damaged, "media agent", &what, text);
                let mut read = scan(&reader)?;
                let catalog = read.catalog.take();
                catalog.filter(|c| c.header.is_some() && c.end.is_some()).unwrap_or_else(|| {
                    is_complete = read.is_complete();
                    read.contents
                })
            }
        };
        let Some(contents) = completed(contents, medium.header(), number) else {
            let text = "nothing of it can be read".to_owned();
            log.say(Code::Damaged, "media agent", &what, text);
            return Ok(reader.len()?);
        };
        let (Some(header), Some(end)) = (&contents.header, &contents.end) else {
            return Ok(reader.len()?);
        };
        found.take_spans(&what.as_str().into(), header, end);
        let Imports { sessions, keys, follows, but_gone_on, .. } = found;
        let label = header.session.clone();
        let mut labels = labels_of(header, &contents);
        let mut parts = stream_parts(end.segment, &end.streams);
        if *but_gone_on {
            let mut gone = Vec::new();
            for label in &labels {
                if self.was_gone_on_with(label)? {
                    gone.push(label.session);
                    parts.retain(|part| part.version != label.version);
                }
            }
            labels.retain(|label| !gone.contains(&label.session));
            if labels.is_empty() {
                return Ok(reader.len()?);
            }
        }
        follows.extend(header.follows.clone().map(|medium| Before {
            session: label.session,
            medium,
            at_us: header.written_us,
        }));
        for key in &header.keys {
            let json = key.to_string();
            let record = KeyRecord::from_json(json.as_bytes())?;
            self.idb.import_key(&capstan_idb::KeyRecord { id: record.id(), record: json })?;
        }
        for label in labels {
            let at = sessions.iter().position(|s| s.label.session == label.session);
            let at = at.unwrap_or_else(|| {
                sessions.push(Imported::of(&label, header));
                sessions.len() - 1
            });
            let session = &mut sessions[at];
            session.add(&contents, end, reader.len()?, keys);
            self.put_session(session, Status::Incomplete)?;
        }
        // What is known from a mirror is not replaced by what is left here. A catalog that lacks anything would be taken for all, at
        // other places too: who reads the medium, or another one that has the segment, finds what is left.
        let is_known = self.idb.read_catalog(end.segment)?.is_some();
        if whole || is_complete && !is_known {
            let catalog = rebuild(&contents).unwrap_or_default();
            self.idb.write_catalog(end.segment, &[&catalog])?;
        } else if is_known {
            parts.clear();
        }
        if let Some(origin) = header.copy_of {
            self.idb.put_copy(end.segment, origin, end.lacks)?;
        }
        let row = Segment {
            id: end.segment,
            medium: medium.header().medium,
            number,
            object: reader.object(),
            session: label.session,
            blocks: end.blocks,
            bytes: reader.len()?,
            committed_us: end.written_us,
        };
        // A mirror may have it, or an earlier import: what is known of it is no less than what is left here.
        if whole || !self.idb.put_damaged_place(&row, now_us())? {
            self.idb.commit_segments(&[(row, parts)])?;
        }
        Ok(reader.len()?)
    }

    /// Records object, version and session as far as they are known.
    fn put_session(&self, s: &Imported, status: Status) -> Result<()> {
        let label = &s.label;
        let names = s.names.as_ref();
        self.idb.put_object(&Object {
            id: label.object,
            name: names.map(|n| n.name.clone()).unwrap_or_default(),
            host: names.map(|n| n.host.clone()).unwrap_or_default(),
            sealed: s.sealed.clone(),
        })?;
        self.idb.upsert_version(&Version {
            id: label.version,
            object: label.object,
            status,
            method: names.map_or_else(|| method_of(label), |n| n.method.clone()),
            base: label.base,
            key: label.key,
            null_device: false,
            created_us: label.state_us.unwrap_or(label.started_us),
            stands_for: label.stands_for,
        })?;
        let end = s.end.as_ref();
        self.idb.upsert_session(&Session {
            id: label.session,
            kind: if label.state_us.is_some() { CONSOLIDATE } else { "backup" }.to_owned(),
            object: Some(label.object),
            version: Some(label.version),
            parent: label.parent,
            status,
            host: names.map(|n| n.host.clone()).unwrap_or_default(),
            device: String::new(),
            started_us: label.started_us,
            run_us: None,
            ended_us: end.map(|e| e.ended_us),
            files: end.map_or(0, |e| e.files),
            dirs: end.map_or(0, |e| e.dirs),
            bytes_read: end.map_or(0, |e| e.bytes_read),
            bytes_written: s.bytes,
            tags: names.map(|n| n.tags.clone()).unwrap_or_default(),
            report: None,
            pid: 0,
            birth: String::new(),
        })?;
        Ok(())
    }

    /// Records how sessions ended; returns their files and directories.
    fn import_sessions(&self, sessions: &[Imported]) -> Result<(u64, u64)> {
        let counts = sessions.iter().try_fold((0_u64, 0_u64), |(files, dirs), s| {
            let (f, d) = self.import_session(s)?;
            Ok::<_, CellError>((files.saturating_add(f), dirs.saturating_add(d)))
        })?;
        let versions: BTreeSet<VersionId> = sessions.iter().map(|s| s.label.version).collect();
        self.idb.note_gaps(&versions.into_iter().collect::<Vec<_>>(), now_us())?;
        self.adopt_stand_ins()?;
        self.idb.complete_hosts()?;
        self.join_objects_of_one_name()?;
        if !sessions.is_empty() {
            self.idb.order_found(now_us())?;
        }
        Ok(counts)
    }

    /// Records how a session ended; returns its files and directories.
    fn import_session(&self, s: &Imported) -> Result<(u64, u64)> {
        let status = match s.end.as_ref().map(|e| e.status.parse::<Status>()) {
            Some(Ok(status)) => status,
            _ => Status::Incomplete,
        };
        self.put_session(s, status)?;
        if let Some(end) = s.end.as_ref().filter(|end| !end.segments.is_empty()) {
            self.idb.expect_segments(s.label.version, &end.segments, now_us())?;
        }
        let lacks = s.end.as_ref().and_then(|end| end.lacks);
        if let Some(lacks) = lacks.filter(|_| status != Status::Failed) {
            // Only how many there are is on the medium, in clear.
            let paths = if lacks > 0 { Paths::unnamed() } else { Paths::default() };
            self.idb.import_lacks(s.label.version, &paths.into_list())?;
        }
        if s.protection != Protection::Rules {
            self.idb.import_protection(s.label.version, s.protection)?;
        }
        Ok(s.end.as_ref().map_or((0, 0), |e| (e.files, e.dirs)))
    }
}

/// The method of a session that wrote no data, whose streams would say it.
fn method_of(label: &SessionLabel) -> String {
    let level = if label.base.is_some() { Level::Incremental } else { Level::Full };
    level.to_string()
}

/// The sessions that wrote a segment, first the one that its header names. Those of which a consolidation passed frames on did not.
fn labels_of(header: &SegmentHeader, contents: &Contents) -> Vec<SessionLabel> {
    let mut labels = vec![header.session.clone()];
    let streams = contents.streams.iter().filter_map(|s| s.label.as_ref()).map(|l| &l.session);
    let streams = streams.filter(|_| header.session.stands_for.is_none());
    // One that ends here may have nothing else here.
    let ended = contents.end.iter().flat_map(|end| &end.other_ends).map(|other| &other.session);
    for label in streams.chain(ended) {
        if labels.iter().all(|known| known.session != label.session) {
            labels.push(label.clone());
        }
    }
    labels
}

/// The object's name, opened where it is encrypted and its key is open.
pub(crate) fn names(stream: &StreamContents, keys: &VersionKeys) -> Result<StreamNames> {
    let what = "the object's name".to_owned();
    let Some(raw) = &stream.names else {
        return Err(CellError::BadInput("a stream has no name".to_owned()));
    };
    let label = stream.label.as_ref().map(|l| &l.session);
    let sealer = keys.sealer(Purpose::Names, label, stream.stream)?;
    let (mut scratch, mut plain) = (Vec::new(), Vec::new());
    let mut decompressor = Decompressor::default();
    raw.header
        .open(&raw.stored, sealer.as_ref(), &mut decompressor, &mut scratch, &mut plain)
        .map_err(|source| CellError::Format { what, source })?;
    let names: StreamNames = serde_json::from_slice(&plain)
        .map_err(|_| CellError::BadInput("an object's name cannot be read".to_owned()))?;
    // Capstan writes none that are longer; others may.
    Ok(StreamNames {
        name: bounded(names.name, NAME_MAX),
        host: bounded(names.host, TEXT_MAX),
        method: bounded(names.method, TEXT_MAX),
        tags: names.tags.into_iter().take(TAGS_MAX).map(|t| bounded(t, TEXT_MAX)).collect(),
    })
}

/// Contents with the records that a damaged segment lost, as far as its streams say the same.
fn completed(
    mut contents: Contents,
    medium: &MediumHeader,
    number: SegmentNumber,
) -> Option<Contents> {
    if contents.header.is_none() {
        let label = contents.streams.iter().find_map(|s| s.label.as_ref())?.session.clone();
        contents.header = Some(SegmentHeader {
            medium: medium.clone(),
            segment: contents.segment?,
            number,
            written_us: label.started_us,
            session: label,
            keys: Vec::new(),
            copy_of: None,
            follows: None,
        });
    }
    let header = contents.header.clone()?;
    if contents.end.is_none() {
        let label: &SessionLabel = &header.session;
        let session = label.session;
        let other = |s: &'_ StreamContents| {
            s.label.as_ref().map(|l| l.session.clone()).filter(|of| of.session != session)
        };
        // What a consolidation passed on is of other sessions, and of its version here.
        let passes_on = label.stands_for.is_some();
        let version_of = |s: &StreamContents| {
            other(s).filter(|_| !passes_on).map_or(label.version, |other| other.version)
        };
        let streams = contents.streams.iter().map(|s| StreamExtent {
            stream: s.stream,
            version: version_of(s),
            logical_start: s.index.first().map_or(0, |p| p.logical),
            logical_end: s.logical_end,
            first_sequence: s.index.first().map_or(0, |p| p.sequence),
            frames: s.index.len() as u64,
            rows: 0,
            sparse: passes_on && other(s).is_some(),
        });
        contents.end = Some(SegmentEnd {
            segment: header.segment,
            number: header.number,
            session,
            data_blocks: contents.blocks.iter().flatten().last().map_or(0, |(index, _)| *index),
            blocks: 0,
            catalog_at: 0,
            short_blocks: other_lengths(contents.blocks.as_ref(), header.medium.block_size),
            streams: streams.collect(),
            session_end: None,
            other_ends: Vec::new(),
            lacks: 0,
            lacks_names: false,
            written_us: header.written_us,
        });
    }
    Some(contents)
}

/// Index and length of the blocks that do not have the block size, from where those that were found lie.
fn other_lengths(blocks: Option<&BTreeMap<u32, (u64, u32)>>, block_size: u32) -> Vec<(u32, u32)> {
    let mut others = Vec::new();
    let (mut next, mut end) = (0u32, 0u64);
    for (index, (at, len)) in blocks.into_iter().flatten() {
        // Lost blocks are together as long as the gap they leave.
        let full = u64::from(index.saturating_sub(next)).saturating_sub(1) * u64::from(block_size);
        let gap = u32::try_from(at.saturating_sub(end).saturating_sub(full)).unwrap_or(block_size);
        if *index > next && gap != block_size {
            others.push((next, gap));
        }
        if *len != block_size {
            others.push((*index, *len));
        }
        (next, end) = (index.saturating_add(1), at.saturating_add(u64::from(*len)));
    }
    others
}
