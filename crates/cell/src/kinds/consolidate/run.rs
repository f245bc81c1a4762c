//! A session that consolidates: what is worth it is passed on, then come the rows; and how it ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use capstan_address::{HostName, LibraryName};
use capstan_catalog::keys::VersionKeys;
use capstan_catalog::version::{Merged, Overview};
use capstan_engine::ladder::Ladder;
use capstan_engine::message::Code;
use capstan_engine::meter::{Meters, Stage};
use capstan_format::id::{SessionId, StreamId, VersionId};
use capstan_format::keys::{KeyRecord, SessionKeys};
use capstan_format::record::{MediumHeader, SessionEnd, SessionLabel, StreamNames};
use capstan_idb::{LogLevel, Session, Status, Version};
use capstan_medium::tape::DriveSession;
use capstan_port::media::read::spans::Spans;
use capstan_port::media::transfer::{PassJob, TransferOptions};
use capstan_port::media::write::committed::{Committed, OnCommit};
use capstan_port::media::write::error::WriteError;
use capstan_port::media::write::members::Member;
use capstan_port::media::write::options::{CATALOG_LIMIT_DEFAULT, WriterOptions, default_buffers};
use capstan_stream::StreamWriter;
use capstan_stream::options::StreamOptions;
use capstan_stream::owners::OwnerNames;
use capstan_wire::compression::Compression;
use parking_lot::Mutex;

use super::frames::Frames;
use super::live::{self, Live};
use super::pass::{Pass, Sent, key_record};
use super::rows::{Counted, Rows};
use super::target::To;
use crate::Cell;
use crate::drives::drive_key::of_target;
use crate::error::{CellError, Result};
use crate::kinds::backup::{device_segment_size, key_json, record_commit, say_all_lost};
use crate::media::WriteFailure;
use crate::observe::Stop;
use crate::reading::contents::FileContents;
use crate::reading::version::VersionView;
use crate::report::Report;
use crate::request::Encrypt;
use crate::session::transfers::{Moved, watched};
use crate::session::watch::Seen;
use crate::session::{CONSOLIDATE, SessionLog, now_us, peak_rss, rfc3339};
use crate::supply::media_changes::Moves;
use crate::supply::tapes::Supply;

/// Most bytes after which a segment ends; on a small tape one does so sooner.
pub(super) const SEGMENT_SIZE: u64 = 1 << 30;

/// A consolidation, whatever session is at it.
pub(super) struct Run<'a> {
    pub cell: &'a Cell,
    pub source: &'a Version,
    pub names: StreamNames,
    pub keys: Option<(SessionKeys, KeyRecord)>,
    /// The version that is made.
    pub version: VersionId,
    pub to: &'a To,
    /// The libraries of the tapes that it may write.
    pub written: Vec<LibraryName>,
    pub supply: Supply,
    pub log: &'a SessionLog<'a>,
    pub stop: &'a Stop,
    /// Bytes of the segments that are read.
    pub bytes: u64,
}

/// How far a consolidation is, which the next session goes on with if a medium fails.
pub(super) struct Going<'a> {
    view: VersionView<'a>,
    overview: Overview,
    spans: Spans,
    live: Live,
    positions: HashMap<StreamId, u64>,
}

/// A session.
pub(super) struct On {
    label: SessionLabel,
    /// The session that it goes on with, else the one that wrote what is consolidated.
    parent: Option<SessionId>,
    begun: Instant,
    meters: Arc<Meters>,
    moves: Arc<Moves>,
    committed: Arc<AtomicUsize>,
    /// What the tape drives did.
    drives: Mutex<Vec<DriveSession>>,
}

/// How a session ended.
pub(super) struct Ended {
    /// What was written, or why there is no more of it.
    pub result: Result<(Counted, u64)>,
    /// Its medium, and the last one.
    first: MediumHeader,
    pub last: MediumHeader,
    /// Whether anything became durable.
    pub took: bool,
    seen: Option<Seen>,
}

impl Ended {
    /// Why the target took no more, if that is how it ended.
    pub fn failure(&self) -> Option<&WriteError> {
        match &self.result {
            Err(CellError::Write(e)) => Some(e),
            _ => None,
        }
    }
}

impl<'a> Run<'a> {
    /// A session, the first one or one that goes on with another; on record.
    pub fn session(&self, before: Option<&On>) -> Result<On> {
        let started_us = now_us();
        // One that has nothing on any medium is not known where the database is lost.
        let before = before.and_then(|before| match before.committed.load(Relaxed) {
            0 => before.label.parent,
            _ => Some(before.label.session),
        });
        let parent = match before {
            None => self.cell.idb.sessions_of_version(self.source.id)?.last().map(|s| s.id),
            before => before,
        };
        let keys = self.keys.as_ref();
        let label = SessionLabel {
            session: SessionId(self.cell.new_id()?),
            object: self.source.object,
            version: self.version,
            parent: before,
            base: None,
            started_us,
            key: keys.map(|(k, _)| k.id),
            cipher: keys.map(|(_, r)| r.cipher()),
            // Right behind the state that it is of, so that it comes before what is newer.
            state_us: Some(self.source.created_us.saturating_add(1)),
            stands_for: Some(self.source.id),
        };
        if let Some((keys, record)) = keys {
            let record = String::from_utf8_lossy(&record.to_json()?).into_owned();
            self.cell.idb.put_key(&capstan_idb::KeyRecord { id: keys.id, record })?;
        }
        let version = Version {
            id: label.version,
            object: label.object,
            status: Status::Running,
            method: self.names.method.clone(),
            base: None,
            key: label.key,
            null_device: false,
            created_us: label.state_us.unwrap_or(started_us),
            stands_for: label.stands_for,
        };
        let session = Session {
            object: Some(label.object),
            version: Some(label.version),
            parent,
            ..self.cell.begun(label.session, CONSOLIDATE, self.to.name(), started_us)
        };
        self.cell.begin_session(&session, Some(&version))?;
        self.cell.take_over_lacks(self.source.id, self.version)?;
        Ok(On {
            label,
            parent,
            begun: Instant::now(),
            meters: Arc::default(),
            moves: Arc::default(),
            committed: Arc::default(),
            drives: Mutex::default(),
        })
    }

    /// Looks at what there is, with the contents keys if they can be had. Without them frames are passed on whole.
    fn look(&self) -> Result<Going<'a>> {
        let view = self.view(true).or_else(|why| {
            let text = format!("frames are taken over whole, as their contents do not open: {why}");
            self.log.say(Code::Adapted, "cell", &self.names.name, text);
            self.view(false)
        })?;
        let overview = Overview::with_replaced(&view)?;
        let spans = view.spans();
        let mut frames = Frames::new(&view, spans.clone());
        let referred = self.cell.referred(&view)?;
        let live = live::look(&view, &overview, &mut frames, referred)?;
        drop(frames);
        // A full without them would stand for the version, and they would be gone.
        if let Some(e) = view.names_lost() {
            return Err(e);
        }
        Ok(Going { view, overview, spans, live, positions: HashMap::new() })
    }

    fn view(&self, with_contents: bool) -> Result<VersionView<'a>> {
        let mut view = VersionView::open(self.cell, self.source.id)?;
        self.cell.add_keys(&mut view, with_contents)?;
        // Those that lack were asked for.
        let views = std::slice::from_mut(&mut view);
        VersionView::bring_beside(views, &self.written, &|_, _| true)?;
        Ok(view)
    }

    /// Writes the version to that medium and those that come after it, as far as it is not written yet.
    pub fn write(&self, on: &On, member: Member, going: &mut Option<Going<'a>>) -> Ended {
        let first = member.medium.clone();
        let run = || {
            let going = match going {
                Some(going) => going,
                none => none.insert(self.look()?),
            };
            let segment_size = device_segment_size(std::slice::from_ref(&member));
            let segment_size = segment_size.unwrap_or(SEGMENT_SIZE).min(SEGMENT_SIZE);
            let (members, passed) = self.pass(on, going, member, segment_size)?;
            if self.stop.0.load(Relaxed) {
                return Ok((Counted::default(), passed));
            }
            let (counted, written) = self.rows(on, going, members, segment_size)?;
            Ok((counted, passed + written))
        };
        let (result, seen) =
            watched(self.cell.devices.waits(), &on.meters, self.log, self.bytes, run);
        on.moves.say(self.log);
        let (last, took) = (on.moves.last(&first), on.committed.load(Relaxed) > 0);
        Ended { result, first, last, took, seen }
    }

    fn on_commit(&self, on: &On) -> Box<OnCommit> {
        let (idb, count) = (self.cell.idb.clone(), on.committed.clone());
        Box::new(move |c: &Committed| {
            record_commit(&idb, c, LogLevel::All, &VersionKeys::default())?;
            count.fetch_add(1, Relaxed);
            Ok(())
        })
    }

    fn pass(
        &self,
        on: &On,
        going: &mut Going<'_>,
        member: Member,
        segment_size: u64,
    ) -> Result<(Vec<Member>, u64)> {
        let options = TransferOptions {
            meters: on.meters.clone(),
            now_us,
            next_media: Some(self.cell.changing(self.supply.clone(), &on.moves)),
            on_commit: self.on_commit(on),
        };
        let transfer = self.cell.agents.media.transfer(vec![member], options);
        let passing = transfer.pass(PassJob {
            media: &going.view,
            session: on.label.clone(),
            key: on.label.key.and_then(|id| key_record(self.cell, id)),
            segment_size,
            positions: std::mem::take(&mut going.positions),
            listener: self.log,
            stop: &self.stop.0,
        });
        let sent = Sent::new(on.committed.clone());
        let pass = Pass { cell: self.cell, view: &going.view, passing, stop: self.stop, sent };
        let (passed, sent, positions) = pass.run(&mut going.live);
        going.positions = positions;
        // Why the target takes no more is what the writer ended with.
        let (lost, drives) = (transfer.lost_mirrors(), transfer.drives());
        let finished = transfer.finish();
        on.drives.lock().append(&mut drives.lock());
        say_all_lost(self.cell, &lost, self.log);
        if finished.is_err() {
            sent.take_back(&mut going.live, &mut going.positions);
        }
        let (members, written) = finished?;
        passed?.map_err(|_| WriteError::Thread)?;
        Ok((members, written.bytes))
    }

    /// What the writer of the rows is made with.
    fn options(&self, on: &On, medium: MediumHeader, segment_size: u64) -> Result<WriterOptions> {
        Ok(WriterOptions {
            medium,
            session: on.label.clone(),
            others: HashMap::new(),
            keys: key_json(self.keys.as_ref())?,
            segment_size,
            catalog_limit: CATALOG_LIMIT_DEFAULT,
            segment_time: Duration::MAX,
            buffers: default_buffers(1),
            now_us,
            rereads: false,
            next_media: Some(self.cell.changing(self.supply.clone(), &on.moves)),
            keeping: None,
        })
    }

    fn rows(
        &self,
        on: &On,
        going: &Going<'_>,
        members: Vec<Member>,
        segment_size: u64,
    ) -> Result<(Counted, u64)> {
        let medium = members.first().map(|m| m.medium.clone()).ok_or(WriteError::Thread)?;
        let options = self.options(on, medium, segment_size)?;
        let owners = Arc::new(OwnerNames::default());
        let (keys, names) = (self.keys.as_ref(), self.names.clone());
        let streams = self.cell.streams(1, names, &on.label, keys, true, Compression::Auto)?;
        let stream = StreamOptions::of(&streams, &Arc::new(Ladder::default()))?.pop();
        let stream = stream.ok_or(WriteError::Thread)?;
        let view = self.view(true).or_else(|_| self.view(false))?;
        view.settle_links_as(&going.view);
        let mut merged = Merged::with_sums(view.into_rows())?;
        let mut rows = Rows {
            overview: &going.overview,
            live: &going.live,
            frames: Frames::new(&going.view, going.spans.clone()),
            contents: FileContents::new(&going.view, &going.overview)?,
            owners: owners.clone(),
            meters: &on.meters,
            log: self.log,
            stop: self.stop,
            ready: Vec::new(),
            counted: Counted::default(),
        };
        let belonging = self.cell.idb.segments_belonging_to(on.label.version);
        let belonging = belonging.map_err(|e| WriteError::Commit(Box::new(e)))?;
        let lacks = self.cell.idb.lacks_of(on.label.version)?.map(|paths| paths.len() as u64);
        let (meters, on_commit) = (on.meters.clone(), self.on_commit(on));
        let writer = self.cell.agents.media.write(members, options, meters, on_commit);
        let mut out = StreamWriter::open(writer.port(), on.meters.clone(), owners, stream);
        let handed = rows.run(&mut merged, &mut out);
        // A stream that is not finished is closed none the less.
        let whole = match handed {
            Ok(Ok(())) => out.finish().is_ok(),
            _ => {
                drop(out);
                false
            }
        };
        let stopped = self.stop.0.load(Relaxed);
        let status = match self.log.error_count() {
            0 => Status::Completed,
            _ => Status::CompletedWithErrors,
        };
        let end = (whole && !stopped).then(|| SessionEnd {
            status: status.to_string(),
            ended_us: now_us(),
            files: rows.counted.files,
            dirs: rows.counted.dirs,
            bytes_read: 0,
            bytes_written: 0,
            // What was passed on, by earlier sessions too, is recorded by now.
            segments: belonging,
            lacks,
        });
        let (lost, drives) = (writer.lost_mirrors(), writer.drives());
        let written = writer.finish(end.into());
        on.drives.lock().append(&mut drives.lock());
        say_all_lost(self.cell, &lost, self.log);
        let written = written?;
        handed?.map_err(|_| WriteError::Thread)?;
        Ok((rows.counted, written.bytes))
    }

    /// Records how a session ended, and reports it.
    pub fn end(&self, on: &On, ended: Ended) -> Result<Report> {
        let (counted, written) = match &ended.result {
            Ok((counted, written)) => (counted, *written),
            Err(_) => (&Counted::default(), on.meters.of(Stage::Device).read().bytes),
        };
        let stopped = self.stop.0.load(Relaxed);
        self.cell.say_changed(self.log);
        if stopped {
            self.log.stopped(&self.names.name);
        }
        let status = match (&ended.result, stopped) {
            (Err(_), _) => Status::Failed,
            (_, true) => Status::Incomplete,
            _ if self.log.error_count() > 0 => Status::CompletedWithErrors,
            _ => Status::Completed,
        };
        let encryption = match of_target(&ended.first) {
            None if self.keys.is_some() => Some(Encrypt::Software),
            by_drive => by_drive,
        };
        let failure = ended.failure().map(WriteFailure::of);
        let found = self.cell.mounted_by(self.source)?;
        let mut report = Report {
            session: on.label.session.to_string(),
            name: self.names.name.clone(),
            host: HostName::recorded(&*self.names.host),
            method: "synthetic full".to_owned(),
            base_session: on.parent.map(|s| s.to_string()),
            status: status.to_string(),
            start: rfc3339(on.label.started_us),
            end: rfc3339(now_us()),
            files: counted.files,
            dirs: counted.dirs,
            mounted: found.mounted,
            maskable: found.maskable,
            media: on.moves.with(vec![ended.first.label]),
            media_change_s: on.moves.seconds(),
            peak_rss_bytes: peak_rss(),
            encryption,
            device_full: failure == Some(WriteFailure::Full),
            device_failed: failure.is_some(),
            ..Report::default()
        };
        let drives = std::mem::take(&mut *on.drives.lock());
        report.set_drives(&drives);
        self.cell.clean_drives(&drives, &mut report, self.log);
        let read = on.meters.of(Stage::Source).read().bytes;
        let moved = Moved { read, written, elapsed_s: on.begun.elapsed().as_secs_f64() };
        moved.fill(&mut report, &on.meters, ended.seen);
        if failure.is_some() && !self.cell.idb.has_segments(self.version)? {
            report.nothing_committed();
        }
        self.log.fill(&*self.cell.devices, &mut report);
        // What came to no end is not gone on with later: the chain is there, and is consolidated anew.
        let version = match status {
            Status::Incomplete => Status::Failed,
            other => other,
        };
        self.cell.record_end(on.label.session, status, &report, Some(version))?;
        Ok(report)
    }
}
