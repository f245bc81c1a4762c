//! A consolidation session: a full and its incrementals become a new full, a synthetic one, from media to media.
//!
//! First all rows are looked at: which frames are live, and how much of each. Then frames of which at least half is live
//! are passed on as they are, in the order in which they lie, each segment read once. Then the merged tree is written as
//! the rows of one stream, in the order of the walk: a row says in which frames that were passed on its contents are, or
//! its contents are saved anew, if their frame was not worth it.

mod live;
mod pass;
mod rows;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use capstan_devices::address::Address;
use capstan_disk_agent::owners::OwnerNames;
use capstan_disk_agent::squeeze::{Compression, Ladder, Squeeze};
use capstan_disk_agent::stream::StreamWriter;
use capstan_engine::message::Code;
use capstan_engine::meter::{Meters, Stage};
use capstan_format::id::{SessionId, VersionId};
use capstan_format::keys::{KeyRecord, SessionKeys};
use capstan_format::record::{SessionEnd, SessionLabel, StreamNames};
use capstan_idb::{LogLevel, Session, Status, Version};
use capstan_media_agent::mirror::Member;
use capstan_media_agent::transfer::Transfer;
use capstan_media_agent::writer::{CATALOG_LIMIT_DEFAULT, Writer, WriterOptions, default_buffers};
use capstan_tape::DriveSession;
use parking_lot::Mutex;

use self::live::{Frames, Live};
use self::pass::Pass;
use self::rows::{Counted, Rows};
use crate::Cell;
use crate::backup::{Wanted, key_json, record_commit, say_all_lost};
use crate::contents::FileContents;
use crate::drive_key::{ByDrive, of_target};
use crate::elsewhere::Spans;
use crate::error::{CellError, Result, chain};
use crate::media::recorded;
use crate::merged::Merged;
use crate::moves::Moves;
use crate::observe::{Observer, Stop};
use crate::overview::Overview;
use crate::report::Report;
use crate::request::{ConsolidateRequest, Encrypt};
use crate::session::{Ears, begun, now_us, peak_rss, rfc3339};
use crate::spare::Spares;
use crate::tapes::Supply;
use crate::transfers::{Moved, watched};
use crate::version::{VersionKeys, VersionView};

/// Kind of the sessions that make synthetic fulls.
pub(crate) const CONSOLIDATE: &str = "consolidate";

/// Size after which a segment of rows and contents saved anew ends.
const SEGMENT_SIZE: u64 = 1 << 30;

/// Whether a version was made by a consolidation.
pub(crate) fn is_consolidation(cell: &Cell, version: &Version) -> Result<bool> {
    Ok(cell.idb.sessions_of_version(version.id)?.last().is_some_and(|s| s.kind == CONSOLIDATE))
}

/// How many percent of what a version and those that it builds on have on media nobody needs who reads that version.
/// Keys of encrypted names must be in the view.
pub(crate) fn dead_percent(view: &VersionView<'_>) -> Result<u64> {
    let overview = Overview::with_replaced(view)?;
    let mut frames = Frames::new(view, Spans::of(&view.segments));
    let live = live::look(view, &overview, &mut frames)?;
    let (all, alive) = live::weigh(view, &live)?;
    Ok((all - alive).saturating_mul(100).checked_div(all).unwrap_or(0))
}

/// A consolidation that came to its end.
pub(crate) struct Consolidated {
    pub report: Report,
    pub version: VersionId,
}

type Keys = Option<(SessionKeys, KeyRecord)>;

/// A consolidation under way.
struct Run<'a> {
    cell: &'a Cell,
    source: &'a Version,
    label: &'a SessionLabel,
    names: &'a StreamNames,
    keys: &'a Keys,
    meters: &'a Arc<Meters>,
    ears: &'a Ears<'a>,
    stop: &'a Stop,
    supply: Supply,
    moves: Arc<Moves>,
    /// What the tape drives did.
    drives: Mutex<Vec<DriveSession>>,
}

impl Cell {
    /// Makes a full of a version and what it builds on.
    pub fn consolidate(
        &self,
        request: &ConsolidateRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let source = self.version(&request.version)?;
        let name = request.version.name.clone();
        if source.base.is_none() {
            return Err(CellError::BadInput(format!(
                "that version of '{name}' is a full one already, there is nothing to consolidate; `capstan copy` puts \
                 it on another medium"
            )));
        }
        let device = match &request.device {
            Some(device) => device.clone(),
            None => self.device_of(&VersionView::open(self, source.id)?)?,
        };
        let by_drive = ByDrive::of_copy(request.encrypt);
        self.check_by_drive(by_drive, [&device])?;
        let wanted = Wanted { block_size: request.block_size, by_drive };
        let done = self.consolidate_version(&source, &name, &device, &wanted, observer, stop)?;
        let mut report = done.report;
        self.retire_poor_tapes(&mut report, observer, stop);
        Ok(report)
    }

    /// The same for a version that may have been given up, onto that device.
    pub(crate) fn consolidate_version(
        &self,
        source: &Version,
        name: &str,
        device: &Address,
        wanted: &Wanted,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Consolidated> {
        let (begun, started_us) = (Instant::now(), now_us());
        let ears = Ears::new(observer);
        let mut view = VersionView::open(self, source.id)?;
        self.add_keys(&mut view, false)?;
        self.open_drive_keys(&view)?;
        // What is sealed stays sealed.
        let keys = match wanted.by_drive {
            ByDrive::Yes if !view.encrypted => None,
            _ => self.session_keys()?,
        };
        if view.encrypted && keys.is_none() {
            return Err(CellError::BadInput(format!(
                "'{name}' is encrypted, and there is no key ring in {} to encrypt what is made of it; take it over with \
                 `capstan key import`",
                self.home.display()
            )));
        }
        if device.keeps_nothing() {
            return Err(CellError::BadInput(
                "the null device keeps nothing to restore from; name a directory".to_owned(),
            ));
        }
        view.require_a_medium()?;
        let member = self.open_device(device, wanted, observer)?;
        self.warn_in_clear(&member.medium, [&view], name, &ears)?;
        let encryption = match of_target(&member.medium) {
            None if keys.is_some() => Some(Encrypt::Software),
            by_drive => by_drive,
        };
        let medium = member.medium.clone();
        let from = self.idb.sessions_of_version(source.id)?.last().map(|s| s.id);
        let object = self.idb.object(source.object)?;
        let label = SessionLabel {
            session: SessionId(self.new_id()?),
            object: source.object,
            version: VersionId(self.new_id()?),
            parent: None,
            base: None,
            started_us,
            key: keys.as_ref().map(|(k, _)| k.id),
            cipher: keys.as_ref().map(|(_, r)| r.cipher()),
            // Right behind the state that it is of, so that it comes before what is newer.
            state_us: Some(source.created_us.saturating_add(1)),
            stands_for: Some(source.id),
        };
        let names = StreamNames {
            name: name.to_owned(),
            host: object.map(|o| o.host).unwrap_or_default(),
            method: "full".to_owned(),
            tags: Vec::new(),
        };
        self.record_consolidation(&label, &names, device, from, &keys)?;
        let meters = Arc::new(Meters::default());
        let run = Run {
            cell: self,
            source,
            label: &label,
            names: &names,
            keys: &keys,
            meters: &meters,
            ears: &ears,
            stop,
            supply: Supply::of(None, [device]).encrypted(wanted.by_drive),
            moves: Arc::default(),
            drives: Mutex::default(),
        };
        let total = bytes_of(&view);
        let (result, seen) = watched(&meters, &ears, total, || run.run(member));
        run.moves.say(&ears);
        let (counted, written) = match &result {
            Ok((counted, written)) => (counted, *written),
            Err(e) => {
                ears.say(Code::DeviceFailed, "cell", name, chain(e));
                (&Counted::default(), meters.of(Stage::Device).read().bytes)
            }
        };
        if stop.0.load(Relaxed) {
            ears.stopped(name);
        }
        let status = match (&result, stop.0.load(Relaxed)) {
            (Err(_), _) => Status::Failed,
            (_, true) => Status::Incomplete,
            _ if ears.error_count() > 0 => Status::CompletedWithErrors,
            _ => Status::Completed,
        };
        let read = meters.of(Stage::Source).read().bytes;
        let moved = Moved { read, written, elapsed_s: begun.elapsed().as_secs_f64() };
        let mut report = Report {
            session: label.session.to_string(),
            name: name.to_owned(),
            host: names.host.clone(),
            method: "synthetic full".to_owned(),
            base_session: from.map(|s| s.to_string()),
            status: status.to_string(),
            start: rfc3339(started_us),
            end: rfc3339(now_us()),
            files: counted.files,
            dirs: counted.dirs,
            media: run.moves.with(vec![medium.label.clone()]),
            media_change_s: run.moves.seconds(),
            peak_rss_bytes: peak_rss(),
            encryption,
            ..Report::default()
        };
        let last = result.is_ok().then(|| run.moves.last(&medium).medium);
        let drives = run.drives.into_inner();
        report.set_drives(&drives);
        self.clean_drives(&drives, &mut report, &ears);
        moved.fill(&mut report, &meters, seen);
        ears.fill(&mut report);
        // What came to no end is not gone on with: the chain is there, and is consolidated anew.
        let version = match status {
            Status::Incomplete => Status::Failed,
            other => other,
        };
        self.record_moved(label.session, status, &report, Some(version))?;
        self.back_up_idb(device, last, &ears, &mut report);
        Ok(Consolidated { report, version: label.version })
    }

    /// The device that has the newest segment of a version.
    fn device_of(&self, view: &VersionView<'_>) -> Result<Address> {
        let places = view.segments.last().map(|s| s.places()).unwrap_or_default();
        for (_, medium, _) in places {
            if let Some(known) = self.idb.medium(medium)? {
                return Ok(known.device.parse()?);
            }
        }
        Err(CellError::BadInput(
            "it is not known on which device the version is; name one with --to".to_owned(),
        ))
    }

    fn record_consolidation(
        &self,
        label: &SessionLabel,
        names: &StreamNames,
        device: &Address,
        from: Option<SessionId>,
        keys: &Keys,
    ) -> Result<()> {
        if let Some((keys, record)) = keys {
            let record = String::from_utf8_lossy(&record.to_json()?).into_owned();
            self.idb.put_key(&capstan_idb::KeyRecord { id: keys.id, record })?;
        }
        let version = Version {
            id: label.version,
            object: label.object,
            status: Status::Running,
            method: names.method.clone(),
            base: None,
            key: label.key,
            null_device: false,
            created_us: label.state_us.unwrap_or(label.started_us),
            stands_for: label.stands_for,
        };
        let session = Session {
            object: Some(label.object),
            version: Some(label.version),
            parent: from,
            ..begun(label.session, CONSOLIDATE, recorded(device), label.started_us)
        };
        Ok(self.idb.begin_session(&session, Some(&version))?)
    }
}

impl Run<'_> {
    /// A view of the chain; with the contents keys, if they can be had. Without them frames are passed on whole.
    fn view(&self) -> Result<(VersionView<'_>, Option<CellError>)> {
        let mut view = VersionView::open(self.cell, self.source.id)?;
        let Err(why) = self.cell.add_keys(&mut view, true) else { return Ok((view, None)) };
        let mut view = VersionView::open(self.cell, self.source.id)?;
        self.cell.add_keys(&mut view, false)?;
        Ok((view, Some(why)))
    }

    /// Writes the new version; returns what it has, and the bytes on the medium.
    fn run(&self, member: Member) -> Result<(Counted, u64)> {
        let (view, closed) = self.view()?;
        if let Some(why) = closed {
            let text = format!("frames are taken over whole, as their contents do not open: {why}");
            self.ears.say(Code::Adapted, "cell", &self.names.name, text);
        }
        let overview = Overview::with_replaced(&view)?;
        let spans = Spans::of(&view.segments);
        let mut frames = Frames::new(&view, spans.clone());
        let mut live = live::look(&view, &overview, &mut frames)?;
        let (members, passed) = self.pass(&view, &mut live, member)?;
        if self.stop.0.load(Relaxed) {
            return Ok((Counted::default(), passed));
        }
        let frames = Frames::new(&view, spans);
        let (counted, written) = self.rows(&view, &overview, &live, frames, members)?;
        Ok((counted, passed + written))
    }

    fn on_commit(&self) -> Box<capstan_media_agent::writer::OnCommit> {
        let idb = self.cell.idb.clone();
        Box::new(move |c| {
            record_commit(&idb, c, LogLevel::All, &VersionKeys::default()).map_err(Into::into)
        })
    }

    fn pass(
        &self,
        view: &VersionView<'_>,
        live: &mut Live,
        member: Member,
    ) -> Result<(Vec<Member>, u64)> {
        let entropy = self.cell.entropy.clone();
        let meters = self.meters.clone();
        let next_media = self.cell.changing(self.supply.clone(), &self.moves);
        let transfer = Transfer::start(
            vec![member],
            entropy,
            meters,
            now_us,
            Some(next_media),
            self.on_commit(),
        );
        let mut pass = Pass {
            cell: self.cell,
            view,
            transfer: &transfer,
            label: self.label,
            meters: self.meters,
            ears: self.ears,
            stop: self.stop,
            spares: Spares::default(),
            stored: Vec::new(),
            positions: HashMap::new(),
            open: None,
        };
        let passed = pass.run(live);
        drop(pass);
        // Why the target takes no more is what the writer ended with.
        let (lost, drives) = (transfer.lost_mirrors(), transfer.drives());
        let finished = transfer.finish();
        self.drives.lock().append(&mut drives.lock());
        say_all_lost(&lost, self.ears);
        let (members, written) = finished?;
        passed?.map_err(|_| capstan_media_agent::writer::WriteError::Thread)?;
        Ok((members, written.bytes))
    }

    fn rows(
        &self,
        view: &VersionView<'_>,
        overview: &Overview,
        live: &Live,
        frames: Frames<'_>,
        members: Vec<Member>,
    ) -> Result<(Counted, u64)> {
        let first = members.first().map(|m| m.medium.clone());
        let medium = first.ok_or(capstan_media_agent::writer::WriteError::Thread)?;
        let options = WriterOptions {
            medium,
            session: self.label.clone(),
            others: std::collections::HashMap::new(),
            keys: key_json(self.keys.as_ref())?,
            segment_size: SEGMENT_SIZE,
            catalog_limit: CATALOG_LIMIT_DEFAULT,
            segment_time: Duration::MAX,
            buffers: default_buffers(1),
            now_us,
            next_media: Some(self.cell.changing(self.supply.clone(), &self.moves)),
        };
        let owners = Arc::new(OwnerNames::default());
        let squeeze = Squeeze::new(Compression::Auto, Arc::new(Ladder::default()));
        let keys = self.keys.as_ref();
        let stream = self.cell.stream_options(self.names, self.label, keys, true, squeeze)?;
        let mut merged = Merged::with_sums(self.view()?.0)?;
        let mut rows = Rows {
            overview,
            live,
            frames,
            contents: FileContents::new(view, overview)?,
            owners: owners.clone(),
            meters: self.meters,
            ears: self.ears,
            stop: self.stop,
            ready: Vec::new(),
            counted: Counted::default(),
        };
        let (entropy, meters) = (self.cell.entropy.clone(), self.meters.clone());
        let writer = Writer::start_on(members, options, entropy, meters, self.on_commit());
        let port = Arc::new(writer.port());
        let mut out = StreamWriter::open(port, self.meters.clone(), owners, stream);
        let handed = rows.run(&mut merged, &mut out);
        let whole = matches!(handed, Ok(Ok(()))) && out.finish().is_ok();
        let stopped = self.stop.0.load(Relaxed);
        let status = match self.ears.error_count() {
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
        });
        let (lost, drives) = (writer.lost_mirrors(), writer.drives());
        let written = writer.finish(end);
        self.drives.lock().append(&mut drives.lock());
        say_all_lost(&lost, self.ears);
        let written = written?;
        handed?.map_err(|_| capstan_media_agent::writer::WriteError::Thread)?;
        Ok((rows.counted, written.bytes))
    }
}

/// Bytes of a version's segments on the media.
fn bytes_of(view: &VersionView<'_>) -> u64 {
    view.segments.iter().map(|place| place.bytes).sum()
}
