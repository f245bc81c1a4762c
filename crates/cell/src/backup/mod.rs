//! A backup session.

mod feed;
mod look_back;
mod medium;
mod plan;
mod pool;
mod unbegun;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use capstan_devices::address::Address;
use capstan_disk_agent::backup::{Backup, Counters};
use capstan_disk_agent::owners::OwnerNames;
use capstan_disk_agent::squeeze::{Ladder, Squeeze};
use capstan_disk_agent::stream::{Sealers, StreamOptions};
use capstan_disk_agent::walk::BaseCursor;
use capstan_engine::message::Code;
use capstan_engine::meter::{Meters, Stage};
use capstan_engine::verdict::{Flow, Lanes};
use capstan_format::id::{MediumId, ObjectId, SegmentId, SessionId, StreamId, VersionId};
use capstan_format::keys::{Cipher, FrameSealer, KeyRecord, Purpose, SessionKeys};
use capstan_format::record::{MediumHeader, SessionEnd, SessionLabel, StreamLabel, StreamNames};
use capstan_idb::{Idb, LogLevel, Object, Segment, Session, Status, StreamPart, Totals, Version};
use capstan_media_agent::writer::{
    CATALOG_LIMIT_DEFAULT, Committed, CommittedAt, OnCommit, WriteError, Writer, WriterOptions,
};

use self::medium::{Opened, segment_size};
pub(crate) use self::medium::{Wanted, say_all_lost};
use self::plan::Plan;
pub(crate) use self::plan::never_entered;
use crate::Cell;
use crate::drive_key::ByDrive;
use crate::error::{CellError, Result};
use crate::input::Input;
use crate::keyring;
use crate::logging;
use crate::media::check_location;
use crate::moves::Moves;
use crate::names;
use crate::observe::{Observer, Stop};
use crate::protect::say_not_locked;
use crate::report::Report;
use crate::request::{BackupRequest, Compression, Encrypt, Level, Source};
use crate::resume::{Cursor, resumable};
use crate::session::{Ears, begun, host, now_us, peak_rss, rfc3339};
use crate::tapes::Supply;
use crate::version::VersionKeys;
use crate::watch::{Watched, watch};

/// A slow source is committed this often.
const SEGMENT_TIME: Duration = Duration::from_secs(120);
/// Catalog files that no commit refers to are removed after a day.
const CATALOG_GRACE: Duration = Duration::from_secs(24 * 3600);

impl Cell {
    /// Backs up.
    pub fn backup(
        &self,
        request: &BackupRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        self.check_encryption(request)?;
        if let Some(location) = &request.eject_to {
            check_location(location)?;
        }
        let mut report = match supply_of(request).is_none() {
            true => self.backup_to_device(request, &[], observer, stop),
            false => self.backup_to_supply(request, observer, stop),
        }?;
        if let Some(location) = &request.eject_to {
            self.eject(&mut report, location, observer);
        }
        Ok(report)
    }

    /// Backs up to a device; where that has several tapes, not to those to `avoid`.
    fn backup_to_device(
        &self,
        request: &BackupRequest,
        avoid: &[MediumId],
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let begun = Instant::now();
        let started_us = now_us();
        let ears = Ears::new(observer);
        let plan = self.plan(request, &ears)?;
        if request.dry_run {
            return self.dry_run(request, plan, &ears, stop, started_us);
        }
        let host = host();
        // First of all, as the medium may have more of the object than the database knows.
        let Opened { mut members, lost, held } =
            self.open_devices(request, avoid, observer, &ears)?;
        let ids: Vec<MediumId> = members.iter().map(|m| m.medium.medium).collect();
        let media: Vec<String> = members.iter().map(|m| m.medium.label.clone()).collect();
        let headers: Vec<_> = members.iter().map(|m| m.medium.clone()).collect();
        self.say_closed(request, &headers, &ears)?;
        let Some(mut medium) = members.first().map(|m| m.medium.clone()) else {
            return Err(CellError::BadInput("there is no device to write to; name one".to_owned()));
        };
        let known = self.idb.objects_by_name(&plan.name)?;
        let known = known.into_iter().find(|o| o.host == host);
        let object = match &known {
            Some(o) => o.id,
            None => ObjectId(self.new_id()?),
        };
        // An input begins anew each time: there is nothing to go on with.
        let resume = request.resume && matches!(request.source, Source::Paths(_));
        let resumed = match (&known, resume) {
            (Some(o), true) => resumable(self, o, &ears)?,
            _ => None,
        };
        let started_us = resumed
            .as_ref()
            .map_or(started_us, |r| started_us.max(r.parent_started_us.saturating_add(1)));
        let by_drive = request.encrypt == Some(Encrypt::Drive);
        let keys = if by_drive { None } else { self.session_keys()? };
        if keys.is_none() && !by_drive && !plan.null {
            self.warn_not_encrypted(&plan.name, &ears)?;
        }
        // Neither an input nor a test of the source's speed builds on anything.
        let never = plan.roots.is_empty() || plan.null && request.level.is_none();
        let wanted = if never { Some(Level::Full) } else { request.level };
        let based = match (&known, &resumed) {
            (Some(o), None) => self.base_for(o, wanted, &ids, keys.is_some(), &ears)?,
            _ => None,
        };
        let (method, base) = match (&resumed, &based) {
            (Some(r), _) => (r.version.method.clone(), r.version.base),
            (None, Some(b)) => (wanted.unwrap_or(Level::Incremental).to_string(), Some(b.version)),
            (None, None) => (Level::Full.to_string(), None),
        };
        let mut plan = plan;
        plan.method = method;
        plan.never(self, request)?;
        let session = SessionId(self.new_id()?);
        let resumed_version = resumed.as_ref().map(|r| r.version.id);
        let version = resumed.as_ref().map_or(VersionId(self.new_id()?), |r| r.version.id);
        let label = SessionLabel {
            session,
            object,
            version,
            parent: resumed.as_ref().map(|r| r.parent),
            base,
            started_us,
            key: keys.as_ref().map(|(k, _)| k.id),
            cipher: keys.as_ref().map(|(_, r)| r.cipher()),
            state_us: None,
            stands_for: None,
        };
        self.record_begin(request, &plan, &host, &label, keys.as_ref(), known.is_none())?;
        medium.protection = self.keep_new(version, &request.keep)?.into();
        let before = resumed_version.map(|v| self.left_behind(v, &ids)).transpose()?.flatten();
        for member in &mut members {
            member.medium.protection = medium.protection.clone();
            member.follows.clone_from(&before);
        }

        let meters = Arc::new(Meters::default());
        let mut drives_compress = feed::who_compresses(&mut plan, &mut members, keys.is_some())?;
        let reads_only = keys.is_none() && plan.compression == Compression::Off;
        let is_whole = base.is_none() && label.parent.is_none() && !plan.roots.is_empty();
        if reads_only && is_whole && request.streams.or(request.concurrency).is_none() {
            feed::fit(&mut plan, &mut members, &mut drives_compress, &ears, &stop.0)?;
        }
        let mut supply = supply_of(request);
        supply.drives_compress = drives_compress;
        let moves = Arc::new(Moves::default());
        let key_records = key_json(keys.as_ref())?;
        let options = WriterOptions {
            medium: medium.clone(),
            session: label.clone(),
            keys: key_records,
            segment_size: segment_size(request, &members),
            catalog_limit: CATALOG_LIMIT_DEFAULT,
            segment_time: SEGMENT_TIME,
            buffers: plan.buffers,
            now_us,
            next_media: Some(self.changing(supply, &moves)),
        };
        let on_commit: Box<OnCommit> = if plan.null {
            Box::new(|_| Ok(()))
        } else {
            let (idb, level) = (self.idb.clone(), request.log_level);
            let names = match &keys {
                Some((keys, record)) => {
                    VersionKeys::of_names(keys.id, &keys.names, record.cipher())
                }
                None => VersionKeys::default(),
            };
            Box::new(move |c| record_commit(&idb, c, level, &names).map_err(Into::into))
        };
        let mirrors_lost = AtomicU64::new(lost);
        let writer =
            Writer::start_on(members, options, self.entropy.clone(), meters.clone(), on_commit);
        let lost_mirrors = writer.lost_mirrors();
        let say_lost_mirrors = || {
            mirrors_lost.fetch_add(say_all_lost(&lost_mirrors, &ears), Relaxed);
        };
        let ladder = Arc::new(Ladder::default());
        let mut streams = Vec::new();
        for _ in 0..plan.streams {
            streams.push(self.stream(request, &plan, &host, &label, keys.as_ref(), &ladder)?);
        }
        let base_session = based.as_ref().map(|b| b.session);
        // A resumed run's base is its own version: that has not all of what it refers to.
        let based_on = based.as_ref().map(|b| b.version);
        let cursor = resumed.map(|r| r.cursor).or(based.map(|b| b.cursor));
        let counters = Counters::default();
        let backup = Backup {
            port: Arc::new(writer.port()),
            meters: meters.clone(),
            owners: Arc::new(OwnerNames::default()),
            selection: &plan.selection,
            base: based_on.map(|version| version.0),
            options: &plan.read,
            stop: &stop.0,
            counters: &counters,
            listener: &ears,
        };
        let expected = self.expected(object, version)?;
        let end = AtomicBool::new(false);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let watched = Watched {
            meters: &meters,
            lanes: Lanes { streams: plan.streams as u32, processors: processors as u32 },
            ladder: Some(&ladder),
            stages: (Stage::Source, Stage::Device),
            progress: &|p| {
                p.files = counters.files.load(Relaxed) + counters.kept.load(Relaxed);
                p.files_found = counters.found.load(Relaxed);
                p.bytes = counters.bytes.load(Relaxed);
                (p.files_expected, p.bytes_expected) = expected;
            },
            each: &|p| {
                say_lost_mirrors();
                moves.say(&ears);
                ears.progress(p);
            },
        };
        let (handed_over, seen, input_failed) = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(&watched, &end));
            let (result, failed) = run_source(request, &plan, &backup, cursor, streams);
            end.store(true, Relaxed);
            watcher.thread().unpark();
            (result, watcher.join().ok(), failed)
        });
        if let Some(why) = &input_failed {
            ears.say(Code::InputFailed, "disk agent", &plan.name, why.clone());
        }
        let stopped = stop.0.load(Relaxed);
        if stopped {
            ears.stopped(&plan.name);
        }
        say_lost_mirrors();
        let errors = ears.error_count() + mirrors_lost.load(Relaxed);
        let mut status = match (handed_over.is_ok(), &input_failed, stopped) {
            (false, ..) | (_, Some(_), false) => Status::Failed,
            (.., true) => Status::Incomplete,
            _ if errors > 0 => Status::CompletedWithErrors,
            _ => Status::Completed,
        };
        let totals = Totals {
            files: counters.files.load(Relaxed) + counters.kept.load(Relaxed),
            dirs: counters.dirs.load(Relaxed),
            bytes_read: counters.bytes.load(Relaxed),
            bytes_written: 0,
        };
        let session_end =
            (status != Status::Incomplete && handed_over.is_ok()).then(|| SessionEnd {
                status: status.to_string(),
                ended_us: now_us(),
                files: totals.files,
                dirs: totals.dirs,
                bytes_read: totals.bytes_read,
                bytes_written: 0,
            });
        let drives = writer.drives();
        let written = writer.finish(session_end);
        let drives = std::mem::take(&mut *drives.lock());
        say_lost_mirrors();
        moves.say(&ears);
        if status == Status::Completed && mirrors_lost.load(Relaxed) > 0 {
            status = Status::CompletedWithErrors;
        }
        let (bytes_written, failure) = match written {
            Ok(w) => (w.bytes, None),
            Err(e) => (meters.of(Stage::Device).read().bytes, Some(e)),
        };
        let device_full = matches!(&failure, Some(WriteError::Device(e)) if e.is_full());
        if let Some(e) = &failure {
            status = Status::Failed;
            self.say_device_failed(request, &moves.last(&medium), e, device_full, &ears)?;
        }
        if matches!(status, Status::Completed | Status::CompletedWithErrors)
            && let Some(until_us) = request.keep.lock_until_us
            && let Err(e) = self.lock_new(version, &plan.name, until_us, held)
        {
            status = Status::CompletedWithErrors;
            say_not_locked(&ears, &plan.name, &e);
        }
        let ended_us = now_us();
        let elapsed = begun.elapsed().as_secs_f64();
        let mut report = Report {
            session: session.to_string(),
            name: plan.name.clone(),
            host,
            method: plan.method.clone(),
            base_session: label.parent.or(base_session).map(|p| p.to_string()),
            status: status.to_string(),
            start: rfc3339(started_us),
            end: rfc3339(ended_us),
            files: totals.files,
            dirs: totals.dirs,
            skipped: counters.skipped.load(Relaxed),
            in_use: counters.in_use.load(Relaxed),
            corrupt: counters.corrupt.load(Relaxed),
            kept: counters.kept.load(Relaxed),
            selection: Plan::selected(request, &plan.roots),
            bytes_read: totals.bytes_read,
            bytes_written,
            media: if plan.null { Vec::new() } else { moves.with(media) },
            media_change_s: moves.seconds(),
            elapsed_s: elapsed,
            rate_mb_s: totals.bytes_read as f64 / 1e6 / elapsed.max(1e-9),
            rate_sustained_mb_s: seen.as_ref().map_or(0.0, |s| s.sustained / 1e6),
            peak_rss_bytes: peak_rss(),
            notes: std::mem::take(&mut plan.notes),
            device_full,
            device_failed: matches!(&failure, Some(WriteError::Device(_))),
            encryption: match by_drive {
                true => Some(Encrypt::Drive),
                false => keys.is_some().then_some(Encrypt::Software),
            },
            ..Report::default()
        };
        report.set_drives(&drives);
        self.clean_drives(&drives, &mut report, &ears);
        if let Some(seen) = &seen {
            report.set_stages(&meters, seen.verdict, Flow::Backup);
        }
        if matches!(status, Status::Completed | Status::CompletedWithErrors) && !plan.null {
            let kept_bytes = counters.kept_bytes.load(Relaxed);
            self.look_back(object, session, kept_bytes, request, &mut report, &ears)?;
        }
        if status == Status::Failed && !plan.null && !self.idb.has_segments(version)? {
            report.nothing_committed();
        }
        ears.fill(&mut report);
        let totals = Totals { bytes_written, files: report.files, dirs: report.dirs, ..totals };
        let json = serde_json::to_string(&report).unwrap_or_default();
        // A failed device leaves what was committed: the version can be resumed.
        let version_status = match status {
            Status::Failed if input_failed.is_none() => Status::Incomplete,
            other => other,
        };
        self.idb.end_session(session, status, ended_us, &totals, &json, Some(version_status))?;
        if !device_full {
            let last = (!report.device_failed).then(|| moves.last(&medium).medium);
            self.back_up_idb(&request.device, last, &ears, &mut report);
        }
        // Catalog files of commits that a kill cut short; one that is just being written is left alone.
        self.idb.reconcile_catalogs(CATALOG_GRACE)?;
        Ok(report)
    }

    /// Says and records why a device took no more. Where there are further media, these go on, and it is no error of the
    /// backup.
    fn say_device_failed(
        &self,
        request: &BackupRequest,
        medium: &MediumHeader,
        why: &WriteError,
        full: bool,
        ears: &Ears<'_>,
    ) -> Result<()> {
        let device = request.device.to_string();
        let failed = matches!(why, WriteError::Device(_));
        if failed && full && device_is_tape(&request.device) {
            self.idb.set_medium_full(medium.medium, now_us())?;
        }
        if failed && !full {
            self.idb.add_medium_error(medium.medium, None)?;
        }
        let more = !supply_of(request).is_none();
        if failed && more && matches!(request.source, Source::Paths(_)) {
            let text = match full {
                true => format!("medium '{}' is full: another goes on", medium.label),
                false => format!(
                    "writing to medium '{}' failed, and another goes on: {}",
                    medium.label,
                    crate::error::chain(why)
                ),
            };
            ears.say(Code::Adapted, "media agent", &device, text);
            return Ok(());
        }
        ears.say(Code::DeviceFailed, "media agent", &device, crate::error::chain(why));
        Ok(())
    }

    /// Keys of an encrypted session: where there is a key ring, every session is.
    pub(crate) fn session_keys(&self) -> Result<Option<(SessionKeys, KeyRecord)>> {
        let Some(ring) = keyring::load(&self.home)? else { return Ok(None) };
        let mut failed = None;
        let mut rng = |out: &mut [u8]| {
            if let Err(e) = self.entropy.fill(out) {
                failed = Some(e);
            }
        };
        let keys = SessionKeys::draw(&mut rng);
        let record = KeyRecord::wrap(&keys, Cipher::best(), &ring, &[], &mut rng)?;
        match failed {
            Some(e) => Err(CellError::io("read", "/dev/urandom")(e)),
            None => Ok(Some((keys, record))),
        }
    }

    fn record_begin(
        &self,
        request: &BackupRequest,
        plan: &Plan,
        host: &str,
        label: &SessionLabel,
        keys: Option<&(SessionKeys, KeyRecord)>,
        new_object: bool,
    ) -> Result<()> {
        if new_object {
            let (name, host) = (plan.name.clone(), host.to_owned());
            self.idb.put_object(&Object { id: label.object, name, host, sealed: None })?;
        }
        if let Some((keys, record)) = keys {
            let record = String::from_utf8_lossy(&record.to_json()?).into_owned();
            self.idb.put_key(&capstan_idb::KeyRecord { id: keys.id, record })?;
        }
        let version = Version {
            id: label.version,
            object: label.object,
            status: Status::Running,
            method: plan.method.clone(),
            base: label.base,
            key: label.key,
            null_device: plan.null,
            created_us: label.started_us,
            stands_for: None,
        };
        let session = Session {
            object: Some(label.object),
            version: Some(label.version),
            parent: label.parent,
            host: host.to_owned(),
            tags: request.tags.clone(),
            ..begun(label.session, "backup", devices_of(request), label.started_us)
        };
        self.idb.begin_session(&session, Some(&version))?;
        if request.log_level != LogLevel::All {
            self.idb.set_log_level(label.session, request.log_level)?;
        }
        Ok(())
    }

    fn stream(
        &self,
        request: &BackupRequest,
        plan: &Plan,
        host: &str,
        label: &SessionLabel,
        keys: Option<&(SessionKeys, KeyRecord)>,
        ladder: &Arc<Ladder>,
    ) -> Result<StreamOptions> {
        let names = StreamNames {
            name: plan.name.clone(),
            host: host.to_owned(),
            method: plan.method.clone(),
            tags: request.tags.clone(),
        };
        let squeeze = Squeeze::new(plan.compression, ladder.clone());
        self.stream_options(&names, label, keys, request.crc, squeeze)
    }

    /// What a stream of a session is made with.
    pub(crate) fn stream_options(
        &self,
        names: &StreamNames,
        label: &SessionLabel,
        keys: Option<&(SessionKeys, KeyRecord)>,
        crc: bool,
        squeeze: Squeeze,
    ) -> Result<StreamOptions> {
        let stream = StreamId(self.new_id()?);
        let json = |e: serde_json::Error| CellError::BadInput(format!("a label is not JSON: {e}"));
        let sealers = match keys {
            None => None,
            Some((keys, record)) => {
                let of = |purpose: Purpose| {
                    FrameSealer::new(keys.key(purpose), purpose, stream, record.cipher())
                };
                Some(Sealers { names: of(Purpose::Names)?, contents: of(Purpose::Contents)? })
            }
        };
        Ok(StreamOptions {
            stream,
            label: serde_json::to_vec(&StreamLabel { session: label.clone() }).map_err(json)?,
            names: serde_json::to_vec(names).map_err(json)?,
            sealers,
            crc,
            squeeze,
        })
    }

    /// Files and bytes to expect: what the object's last complete version had.
    fn expected(&self, object: ObjectId, but: VersionId) -> Result<(u64, u64)> {
        for version in self.idb.versions_of(object)?.into_iter().filter(|v| v.id != but) {
            for session in self.idb.sessions_of_version(version.id)? {
                if session.status == Status::Completed {
                    return Ok((session.files, session.bytes_read));
                }
            }
        }
        Ok((0, 0))
    }
}

type HandedOver = std::result::Result<(), capstan_engine::link::LinkClosed>;

/// Runs the disk agents; returns whether all was handed over, and why the input failed.
fn run_source(
    request: &BackupRequest,
    plan: &Plan,
    backup: &Backup<'_>,
    mut cursor: Option<Cursor<'_>>,
    mut streams: Vec<StreamOptions>,
) -> (HandedOver, Option<String>) {
    let (name, input) = match &request.source {
        Source::Paths(_) => {
            let base = cursor.as_mut().map(|c| c as &mut dyn BaseCursor);
            return (backup.run(&plan.roots, base, streams), None);
        }
        Source::Stdin(name) => (name, Ok(Input::Stdin(std::io::stdin()))),
        Source::Command(line, name) => (name, Input::command(line)),
    };
    let mut input = match input {
        Ok(input) => input,
        Err(e) => return (Ok(()), Some(format!("cannot start the command: {e}"))),
    };
    let Some(stream) = streams.pop() else { return (Ok(()), None) };
    let path = match names::input_path(name) {
        Ok(path) => path,
        Err(e) => return (Ok(()), Some(e.to_string())),
    };
    match backup.run_input(path.as_bytes(), &mut input, stream) {
        Err(closed) => (Err(closed), None),
        Ok(read) => {
            let read = read.map_err(|e| format!("cannot read the input: {e}"));
            (Ok(()), read.err().or(input.end().err()))
        }
    }
}

/// The wrapped keys of a session, as its segments carry them.
pub(crate) fn key_json(keys: Option<&(SessionKeys, KeyRecord)>) -> Result<Vec<serde_json::Value>> {
    let Some((_, record)) = keys else { return Ok(Vec::new()) };
    let json = serde_json::from_slice(&record.to_json()?);
    let json = json.map_err(|_| CellError::BadInput("the key record is not JSON".to_owned()))?;
    Ok(vec![json])
}

/// Where a backup gets its media.
fn supply_of(request: &BackupRequest) -> Supply {
    let devices = std::iter::once(&request.device).chain(&request.mirrors);
    let supply = Supply::of(request.pool.as_deref(), devices);
    supply.encrypted(ByDrive::of_backup(request.encrypt))
}

fn device_is_tape(device: &Address) -> bool {
    matches!(device, Address::Tape(_))
}

/// The devices that a backup writes to, for people.
fn devices_of(request: &BackupRequest) -> String {
    let all = std::iter::once(&request.device).chain(&request.mirrors);
    all.map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Records a commit: the catalog file first, then one transaction.
pub(crate) fn record_commit(
    idb: &Idb,
    c: &Committed,
    level: LogLevel,
    names: &VersionKeys,
) -> Result<()> {
    logging::keep(idb, c, level, names)?;
    if let Some(origin) = c.header.copy_of {
        idb.put_copy(c.header.segment, origin)?;
        idb.set_log_level_of_copy(c.header.segment, level)?;
    }
    let on = |place: &CommittedAt| {
        let segment = Segment {
            id: c.header.segment,
            medium: place.medium,
            number: place.number,
            object: place.object,
            session: c.header.session.session,
            blocks: c.end.blocks,
            bytes: c.bytes,
            committed_us: c.end.written_us,
        };
        (segment, stream_parts(c.header.segment, &c.end.streams))
    };
    Ok(idb.commit_segments(&c.places.iter().map(on).collect::<Vec<_>>())?)
}

/// What of each stream lies in a segment, as the IDB records it.
pub(crate) fn stream_parts(
    segment: SegmentId,
    streams: &[capstan_format::record::StreamExtent],
) -> Vec<StreamPart> {
    let part = |s: &capstan_format::record::StreamExtent| StreamPart {
        segment,
        stream: s.stream,
        version: s.version,
        logical_start: s.logical_start,
        logical_end: s.logical_end,
        rows: s.rows,
    };
    streams.iter().map(part).collect()
}
