//! A restore session: the rows of a version, their data from the media, the files of a target.
//!
//! Every worker takes a stream's part of a segment at a time: it reads that part's blocks once, in order, and writes
//! files as their data come by. Files whose data lie in several places are made first and get their metadata last;
//! links, directories and inode flags follow when all data are there.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use capstan_disk_agent::target::{Created, Made, Target, TargetError, TargetOptions, Worker};
use capstan_engine::message::{Code, path_text};
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_engine::verdict::Lanes;
use capstan_format::codec::Decompressor;
use capstan_format::entry::{Entry, ExtentKind, Kind, OutcomeCode};
use capstan_format::frame::FrameType;
use capstan_format::id::SessionId;
use capstan_format::index::FramePlace;
use capstan_format::keys::{FrameSealer, Purpose};
use capstan_idb::{Session, Status, Totals, Version};
use capstan_media_agent::reader::{FrameReader, StreamContents};

use crate::Cell;
use crate::error::{CellError, Result};
use crate::observe::{Observer, Stop};
use crate::report::Report;
use crate::request::{RestoreRequest, RestoreTo, VersionName};
use crate::session::{Ears, boot_id, host, now_us, peak_rss, rfc3339};
use crate::version::{Overview, Row, VersionView};
use crate::watch::{Watched, watch};

/// What a restore counts.
#[derive(Default)]
struct Counts {
    files: AtomicU64,
    dirs: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
}

/// What all workers of a restore share.
struct Restore<'a> {
    view: &'a VersionView<'a>,
    overview: &'a Overview,
    target: &'a Target,
    request: &'a RestoreRequest,
    /// Stored paths to restore, without leading slash; all if empty.
    paths: Vec<Vec<u8>>,
    /// Files written in parts; `false` for those that exist and are kept.
    in_parts: HashMap<Vec<u8>, bool>,
    /// Further names whose first name is not restored, by first name.
    instead: HashMap<Vec<u8>, Vec<Entry>>,
    damaged: Mutex<HashSet<Vec<u8>>>,
    counts: Counts,
    meters: &'a Meters,
    ears: &'a Ears<'a>,
    stop: &'a Stop,
    bytes_read: AtomicU64,
}

impl Cell {
    /// The version that a name means. Versions on the null device are never offered.
    pub(crate) fn version(&self, name: &VersionName) -> Result<Version> {
        let objects = self.idb.objects_by_name(&name.name)?;
        if objects.is_empty() {
            let all = self.idb.objects()?;
            let mut names: Vec<_> = all.iter().map(|o| o.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            let known = match names.len() {
                0 => "nothing was backed up or imported here yet".to_owned(),
                _ => format!(
                    "known are {}",
                    names.into_iter().take(10).collect::<Vec<_>>().join(", ")
                ),
            };
            return Err(CellError::BadInput(format!(
                "no object is called '{}'; {known}",
                name.name
            )));
        }
        let mut found: Vec<Version> = Vec::new();
        for object in &objects {
            found.extend(self.idb.versions_of(object.id)?.into_iter().filter(|v| !v.null_device));
        }
        found.sort_by_key(|v| std::cmp::Reverse(v.created_us));
        let Some(prefix) = &name.session else {
            let complete =
                |v: &&Version| matches!(v.status, Status::Completed | Status::CompletedWithErrors);
            return found.iter().find(complete).cloned().ok_or_else(|| {
                CellError::BadInput(format!(
                    "'{}' has no complete version; `capstan sessions` lists what there is, NAME@SESSION names one",
                    name.name
                ))
            });
        };
        let sessions = self.idb.sessions_by_prefix(prefix)?;
        let of: BTreeSet<_> = sessions.iter().filter_map(|s| s.version).map(|v| v.0).collect();
        let mut matching = found.into_iter().filter(|v| of.contains(&v.id.0));
        match (matching.next(), matching.next()) {
            (Some(v), None) => Ok(v),
            (Some(_), Some(_)) => Err(CellError::BadInput(format!(
                "session '{prefix}' of '{}' is not the only one that begins so; give more digits",
                name.name
            ))),
            _ => Err(CellError::BadInput(format!(
                "'{}' has no session '{prefix}'; `capstan sessions` lists them",
                name.name
            ))),
        }
    }

    /// Restores.
    pub fn restore(
        &self,
        request: &RestoreRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let begun = Instant::now();
        let started_us = now_us();
        let ears = Ears::new(observer);
        let version = self.version(&request.version)?;
        let mut view = VersionView::open(&self.idb, version.id)?;
        // A wrong or missing key is said before anything is written.
        self.add_keys(&mut view, true)?;
        let overview = Overview::of(&view)?;
        let from = self.idb.sessions_of_version(version.id)?.last().map(|s| s.id);
        let session = SessionId(self.new_id()?);
        let meters = Meters::default();
        let paths: Vec<_> = request.paths.iter().map(|p| clean(p)).collect();
        let run = RunOf { cell: self, request, version: &version, session, from, started_us };
        if request.dry_run {
            return dry_run(&view, &overview, &paths, &run, &ears);
        }
        if let RestoreTo::Tar(_) = &request.to {
            return self.restore_to_tar(view, &run, &ears, stop);
        }
        let options =
            TargetOptions { overwrite: request.overwrite, numeric_ids: request.numeric_ids };
        let target = match &request.to {
            RestoreTo::Into(dir) => Target::open(dir, options)?,
            RestoreTo::InPlace | RestoreTo::Tar(_) => Target::in_place(options)?,
        };
        run.record_begin()?;
        let mut restore = Restore {
            view: &view,
            overview: &overview,
            target: &target,
            request,
            paths,
            in_parts: HashMap::new(),
            instead: HashMap::new(),
            damaged: Mutex::default(),
            counts: Counts::default(),
            meters: &meters,
            ears: &ears,
            stop,
            bytes_read: AtomicU64::new(0),
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = processors.clamp(1, 8);
        let end = AtomicBool::new(false);
        let total = restore.prepare()?;
        let watched = Watched {
            meters: &meters,
            lanes: Lanes { streams: workers as u32, processors: processors as u32 },
            ladder: None,
            stages: (Stage::Device, Stage::Source),
            progress: &|p| {
                p.files = restore.counts.files.load(Relaxed);
                p.bytes = restore.counts.bytes.load(Relaxed);
                (p.files_expected, p.bytes_expected) = total;
                p.files_found = total.0;
            },
            each: &|p| ears.progress(p),
        };
        let (result, seen) = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(&watched, &end));
            let result = restore.run(workers);
            end.store(true, Relaxed);
            watcher.thread().unpark();
            (result, watcher.join().ok())
        });
        if let Err(e) = &result {
            ears.say(Code::DeviceFailed, "cell", &request.version.name, crate::error::chain(e));
        }
        restore.report_tally();
        let missing = restore.paths.iter().filter(|_| restore.counts.files.load(Relaxed) == 0);
        let nothing = missing.count() > 0 && restore.counts.dirs.load(Relaxed) == 0;
        if nothing && result.is_ok() && target.tally().totals().skipped_existing == 0 {
            let text = "none of the paths is in this version".to_owned();
            ears.say(Code::Missing, "cell", &request.version.name, text);
        }
        let status = match (&result, stop.0.load(Relaxed)) {
            (Err(_), _) => Status::Failed,
            (_, true) => Status::Incomplete,
            _ if ears.error_count() > 0 => Status::CompletedWithErrors,
            _ => Status::Completed,
        };
        let elapsed = begun.elapsed().as_secs_f64();
        let bytes = restore.counts.bytes.load(Relaxed);
        let mut report = Report {
            status: status.to_string(),
            files: restore.counts.files.load(Relaxed),
            dirs: restore.counts.dirs.load(Relaxed),
            skipped: target.tally().totals().skipped_existing,
            corrupt: restore.counts.lost.load(Relaxed),
            bytes_read: restore.bytes_read.load(Relaxed),
            bytes_written: bytes,
            media: media_of(&view),
            elapsed_s: elapsed,
            rate_mb_s: bytes as f64 / 1e6 / elapsed.max(1e-9),
            rate_sustained_mb_s: seen.as_ref().map_or(0.0, |s| s.sustained / 1e6),
            peak_rss_bytes: peak_rss(),
            ..run.report()
        };
        if let Some(seen) = &seen {
            report.set_stages(&meters, seen.verdict);
        }
        ears.fill(&mut report);
        run.record_end(status, &report)?;
        Ok(report)
    }
}

impl Cell {
    fn restore_to_tar(
        &self,
        view: VersionView<'_>,
        run: &RunOf<'_>,
        ears: &Ears<'_>,
        stop: &Stop,
    ) -> Result<Report> {
        let begun = Instant::now();
        let again = || -> Result<VersionView<'_>> {
            let mut view = VersionView::open(&self.idb, run.version.id)?;
            self.add_keys(&mut view, true)?;
            Ok(view)
        };
        let (files_of, dirs_of) = (again()?, again()?);
        run.record_begin()?;
        let mut report = Report { media: media_of(&view), ..run.report() };
        let result =
            crate::tar::write(view, dirs_of, &files_of, run.request, ears, stop, &mut report);
        if let Err(e) = &result {
            ears.say(Code::NotWritten, "cell", &run.request.version.name, crate::error::chain(e));
        }
        let status = match (&result, stop.0.load(Relaxed)) {
            (Err(_), _) => Status::Failed,
            (_, true) => Status::Incomplete,
            _ if ears.error_count() > 0 => Status::CompletedWithErrors,
            _ => Status::Completed,
        };
        report.status = status.to_string();
        report.end = rfc3339(now_us());
        report.elapsed_s = begun.elapsed().as_secs_f64();
        report.rate_mb_s = report.bytes_written as f64 / 1e6 / report.elapsed_s.max(1e-9);
        report.peak_rss_bytes = peak_rss();
        ears.fill(&mut report);
        run.record_end(status, &report)?;
        Ok(report)
    }
}

fn media_of(view: &VersionView<'_>) -> Vec<String> {
    let mut media: Vec<_> =
        view.segments.iter().filter_map(|s| s.media.first().map(|m| m.0)).collect();
    media.dedup();
    let mut labels: Vec<String> = Vec::new();
    for medium in media {
        let label = view.idb.medium(medium).ok().flatten().map(|m| m.label);
        let label = label.unwrap_or_else(|| medium.short());
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels
}

/// A path as stored, from one as people write it.
pub(crate) fn clean(path: &[u8]) -> Vec<u8> {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    path.strip_suffix(b"/").unwrap_or(path).to_vec()
}

/// The session of a restore, for the record.
struct RunOf<'a> {
    cell: &'a Cell,
    request: &'a RestoreRequest,
    version: &'a Version,
    session: SessionId,
    from: Option<SessionId>,
    started_us: i64,
}

impl RunOf<'_> {
    fn record_begin(&self) -> Result<()> {
        let device = match &self.request.to {
            RestoreTo::Into(dir) => dir.display().to_string(),
            RestoreTo::InPlace => "/".to_owned(),
            RestoreTo::Tar(_) => "tar".to_owned(),
        };
        let session = Session {
            id: self.session,
            kind: "restore".to_owned(),
            object: Some(self.version.object),
            version: None,
            parent: self.from,
            status: Status::Running,
            host: host(),
            device,
            started_us: self.started_us,
            ended_us: None,
            files: 0,
            dirs: 0,
            bytes_read: 0,
            bytes_written: 0,
            tags: Vec::new(),
            report: None,
            pid: std::process::id(),
            boot_id: boot_id(),
        };
        Ok(self.cell.idb.begin_session(&session, None)?)
    }

    fn report(&self) -> Report {
        Report {
            session: self.session.to_string(),
            name: self.request.version.name.clone(),
            host: host(),
            method: "restore".to_owned(),
            base_session: self.from.map(|s| s.to_string()),
            start: rfc3339(self.started_us),
            end: rfc3339(now_us()),
            ..Report::default()
        }
    }

    fn record_end(&self, status: Status, report: &Report) -> Result<()> {
        let totals = Totals {
            files: report.files,
            dirs: report.dirs,
            bytes_read: report.bytes_read,
            bytes_written: report.bytes_written,
        };
        let json = serde_json::to_string(report).unwrap_or_default();
        Ok(self.cell.idb.end_session(self.session, status, now_us(), &totals, &json, None)?)
    }
}

fn dry_run(
    view: &VersionView<'_>,
    overview: &Overview,
    paths: &[Vec<u8>],
    run: &RunOf<'_>,
    ears: &Ears<'_>,
) -> Result<Report> {
    let mut report =
        Report { status: "completed".to_owned(), media: media_of(view), ..run.report() };
    report.method = "dry run".to_owned();
    view.all_rows(&mut |stream, row| {
        let path = row.entry.path();
        let live = row.entry.kind.is_inode()
            && overview.is_first(stream, &row)
            && !overview.is_replaced(&path, row.ordinal);
        if live && selected(paths, &path) {
            if row.entry.kind == Kind::Dir {
                report.dirs += 1;
            } else {
                report.files += 1;
                report.bytes_written += if row.entry.link { 0 } else { row.entry.size };
            }
        }
        Ok(())
    })?;
    ears.fill(&mut report);
    Ok(report)
}

/// Whether a stored path is one of those asked for, or below one.
pub(crate) fn selected(paths: &[Vec<u8>], path: &[u8]) -> bool {
    paths.is_empty() || paths.iter().any(|p| is_below(path, p))
}

fn is_below(path: &[u8], root: &[u8]) -> bool {
    root.is_empty()
        || path == root
        || path.strip_prefix(root).is_some_and(|rest| rest.starts_with(b"/"))
}

/// A path split into its directory and its name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

impl Restore<'_> {
    /// The path below the target, or `None` if all its components are stripped.
    fn stripped<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let mut rest = path;
        for _ in 0..self.request.strip {
            let at = rest.iter().position(|b| *b == b'/')?;
            rest = &rest[at + 1..];
        }
        (!rest.is_empty()).then_some(rest)
    }

    fn wants(&self, path: &[u8]) -> bool {
        selected(&self.paths, path)
    }

    /// An ancestor of what is asked for: made on the way, and given its metadata where it is made below a directory.
    fn leads_to(&self, path: &[u8]) -> bool {
        matches!(self.request.to, RestoreTo::Into(_))
            && self.paths.iter().any(|p| is_below(p, path))
    }

    fn error(&self, code: Code, path: &[u8], text: String) {
        self.ears.say(code, "disk agent", &format!("/{}", path_text(path)), text);
    }

    fn target_error(&self, path: &[u8], e: &TargetError) -> Result<()> {
        let code = match e {
            TargetError::Conflict { .. } => Code::Conflict,
            TargetError::BadName { .. } => Code::BadName,
            TargetError::Io { .. } => Code::NotWritten,
        };
        self.error(code, path, crate::error::chain(e));
        Ok(())
    }

    /// A file's data are lost, or some of them: said once per file.
    fn lost(&self, path: &[u8], why: &str) {
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        if damaged.insert(path.to_vec()) {
            self.counts.lost.fetch_add(1, Relaxed);
            self.ears.say(
                Code::Damaged,
                "media agent",
                &format!("/{}", path_text(path)),
                why.to_owned(),
            );
        }
    }

    fn live(&self, stream: &StreamContents, row: &Row, path: &[u8]) -> bool {
        self.overview.is_first(stream, row) && !self.overview.is_replaced(path, row.ordinal)
    }

    /// The row with owners as they are here.
    fn here(&self, row: &Row) -> Entry {
        let ids = self.target.ids();
        Entry {
            uid: ids.uid(row.entry.uid, row.user.as_deref()),
            gid: ids.gid(row.entry.gid, row.group.as_deref()),
            ..row.entry.clone()
        }
    }

    /// Makes the files that are written in parts, and finds what stands in for links. Returns files and bytes to restore.
    fn prepare(&mut self) -> Result<(u64, u64)> {
        let mut in_parts: HashMap<Vec<u8>, Entry> = HashMap::new();
        let mut links: Vec<Entry> = Vec::new();
        let (mut files, mut bytes) = (0, 0);
        let some = !self.paths.is_empty();
        self.view.all_rows(&mut |stream, row| {
            let e = &row.entry;
            if !e.kind.is_inode() {
                return Ok(());
            }
            let path = e.path();
            if !self.live(stream, &row, &path) {
                return Ok(());
            }
            let wanted = self.wants(&path);
            if e.kind != Kind::Dir && wanted {
                files += 1;
                bytes += if e.link { 0 } else { e.size };
            }
            let cut = e.logical_len() > 0 && row.start + e.logical_len() > stream.logical_end;
            let parts = e.extents.iter().any(|x| x.kind == ExtentKind::Parts);
            if e.kind == Kind::File && !e.link && (cut || parts) {
                in_parts.insert(path, self.here(&row));
            } else if some && wanted && e.link && !self.wants(&e.target) {
                links.push(self.here(&row));
            }
            Ok(())
        })?;
        for link in links {
            self.instead.entry(link.target.clone()).or_default().push(link);
        }
        let mut worker = self.target.worker();
        for (path, entry) in in_parts {
            let mut made = false;
            for (to, entry) in self.places_of(&path, &entry) {
                let Some(to) = self.stripped(&to) else { continue };
                let (dir, name) = split(to);
                match worker.create_file(&entry, dir, name) {
                    Ok(Created::File(file)) => {
                        let done = file.set_len(entry.size).and_then(|()| file.leave());
                        match done {
                            Ok(()) => made = true,
                            Err(e) => self.target_error(&path, &e)?,
                        }
                    }
                    Ok(Created::Skipped) => {}
                    Err(e) => self.target_error(&path, &e)?,
                }
            }
            self.in_parts.insert(path, made);
        }
        Ok((files, bytes))
    }

    /// Under which names a stored file is restored: its own if asked for, and those of links whose first name it is.
    fn places_of(&self, path: &[u8], entry: &Entry) -> Vec<(Vec<u8>, Entry)> {
        let mut places = Vec::new();
        if self.wants(path) {
            places.push((path.to_vec(), entry.clone()));
        } else if let Some(first) = self.instead.get(path).and_then(|l| l.first()) {
            places.push((first.path(), Entry { link: false, target: Vec::new(), ..entry.clone() }));
        }
        places
    }

    fn run(&self, workers: usize) -> Result<()> {
        let jobs: Vec<(usize, usize)> = self
            .view
            .segments
            .iter()
            .enumerate()
            .flat_map(|(i, s)| (0..s.streams.len()).map(move |j| (i, j)))
            .collect();
        let next = AtomicUsize::new(0);
        let failed: Mutex<Option<CellError>> = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    let mut hand = Hand::new(self);
                    while let Some((segment, stream)) = jobs.get(next.fetch_add(1, Relaxed)) {
                        if self.stop.0.load(Relaxed) {
                            return;
                        }
                        if let Err(e) = hand.part(*segment, *stream) {
                            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                            return;
                        }
                    }
                });
            }
        });
        if let Some(e) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(e);
        }
        if !self.stop.0.load(Relaxed) {
            self.finish()?;
        }
        Ok(())
    }

    /// Links, metadata of files written in parts, directories, inode flags: in this order, when all data are there.
    fn finish(&self) -> Result<()> {
        let mut worker = self.target.worker();
        let mut lap = Lap::start();
        if self.overview.links > 0 {
            self.each_live(&mut |row, path, to| {
                if row.entry.link { self.link(&mut worker, row, path, to) } else { Ok(()) }
            })?;
        }
        if !self.in_parts.is_empty() {
            self.each_live(&mut |row, path, to| {
                if !row.entry.link && self.in_parts.get(path) == Some(&true) {
                    let (dir, name) = split(to);
                    if let Err(e) = worker.finish_file(&self.here(row), dir, name) {
                        self.target_error(path, &e)?;
                    }
                }
                Ok(())
            })?;
        }
        // Directories that their owner may not enter are finished after all others, deepest first.
        let mut closed: Vec<(usize, Vec<u8>, Entry)> = Vec::new();
        self.each_live(&mut |row, path, to| {
            if row.entry.kind == Kind::Dir {
                let entry = self.here(row);
                self.counts.dirs.fetch_add(1, Relaxed);
                if !self.target.is_root() && entry.mode & 0o700 != 0o700 {
                    let depth = to.iter().filter(|b| **b == b'/').count();
                    closed.push((depth, to.to_vec(), entry));
                } else if let Err(e) =
                    worker.make_dir(to).and_then(|()| worker.finish_dir(&entry, to))
                {
                    self.target_error(path, &e)?;
                }
            }
            Ok(())
        })?;
        for (_, to, _) in &closed {
            if let Err(e) = worker.make_dir(to) {
                self.target_error(to, &e)?;
            }
        }
        if self.overview.flagged > 0 {
            self.each_live(&mut |row, path, to| {
                if row.entry.inode_flags != 0 && row.entry.kind != Kind::Symlink {
                    let (dir, name) = split(to);
                    if let Err(e) = worker.finish_flags(&row.entry, dir, name) {
                        self.target_error(path, &e)?;
                    }
                }
                Ok(())
            })?;
        }
        closed.sort_by_key(|(depth, ..)| std::cmp::Reverse(*depth));
        for (_, to, entry) in closed {
            if let Err(e) = worker.finish_dir(&entry, &to) {
                self.target_error(&to, &e)?;
            }
        }
        lap.busy(self.meters.of(Stage::Metadata));
        Ok(())
    }

    /// Calls with each live row that is wanted (or leads to one), its stored path, and its path below the target.
    fn each_live(&self, each: &mut dyn FnMut(&Row, &[u8], &[u8]) -> Result<()>) -> Result<()> {
        self.view.all_rows(&mut |stream, row| {
            if !row.entry.kind.is_inode() {
                return Ok(());
            }
            let path = row.entry.path();
            let wanted = self.wants(&path) || (row.entry.kind == Kind::Dir && self.leads_to(&path));
            if wanted && self.live(stream, &row, &path) {
                if let Some(to) = self.stripped(&path) {
                    each(&row, &path, to)?;
                }
            } else if !wanted && self.instead.contains_key(&path) {
                for link in self.instead[&path].iter().take(1) {
                    let place = link.path();
                    if let Some(to) = self.stripped(&place) {
                        each(&row, &path, to)?;
                    }
                }
            }
            Ok(())
        })
    }

    fn link(&self, worker: &mut Worker<'_>, row: &Row, path: &[u8], to: &[u8]) -> Result<()> {
        let first = &row.entry.target;
        // Where the first name is not restored, the first of the others has its contents.
        let instead = self.instead.get(first).and_then(|l| l.first()).map(Entry::path);
        let first = instead.as_deref().unwrap_or(first);
        if first == path {
            return Ok(());
        }
        let Some(first) = self.stripped(first) else { return Ok(()) };
        let ((dir, name), (first_dir, first_name)) = (split(to), split(first));
        match worker.make_link(dir, name, first_dir, first_name) {
            Ok(Made::Made) => {
                self.counts.files.fetch_add(1, Relaxed);
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(e) => self.target_error(path, &e),
        }
    }

    /// What could not be restored, each in total.
    fn report_tally(&self) {
        let t = self.target.tally().totals();
        let rows = [
            (t.owners_not_restored, "owners"),
            (t.nodes_not_restored, "device nodes"),
            (t.xattrs_not_restored, "extended attributes"),
            (t.flags_not_restored, "inode flags"),
            (t.modes_not_restored, "modes of others' directories"),
        ];
        for (n, what) in rows {
            if n > 0 {
                let text = format!("{n} {what} could not be restored");
                self.ears.say(Code::NotRestored, "disk agent", &self.request.version.name, text);
            }
        }
    }
}

/// One worker.
struct Hand<'a> {
    restore: &'a Restore<'a>,
    worker: Worker<'a>,
    decompressor: Decompressor,
    scratch: Vec<u8>,
    plain: Vec<u8>,
    lap: Lap,
}

/// The data of a stream's part of a segment, in order.
struct Data<'a> {
    frames: FrameReader<'a>,
    index: Vec<FramePlace>,
    at: usize,
    sealer: Option<FrameSealer>,
    /// The frame in `plain`: its logical begin and end; `None` if it is damaged.
    current: Option<(u64, u64, std::result::Result<bool, String>)>,
}

impl<'a> Hand<'a> {
    fn new(restore: &'a Restore<'a>) -> Self {
        Self {
            restore,
            worker: restore.target.worker(),
            decompressor: Decompressor::default(),
            scratch: Vec::new(),
            plain: Vec::new(),
            lap: Lap::start(),
        }
    }

    fn mark(&mut self, stage: Stage) {
        self.lap.busy(self.restore.meters.of(stage));
    }

    /// Restores what one stream has in one segment.
    fn part(&mut self, segment: usize, stream: usize) -> Result<()> {
        let r = self.restore;
        let place = &r.view.segments[segment];
        let contents = r.view.contents(place)?;
        let Some(stream) = contents.streams.iter().find(|s| s.stream == place.streams[stream])
        else {
            return Ok(());
        };
        let label = stream.label.as_ref().map(|l| &l.session);
        let sealer = r.view.keys.sealer(Purpose::Contents, label, stream.stream)?;
        let reader = match r.view.open_segment(place) {
            Ok(reader) => reader,
            Err(e) => return self.all_missing(segment, stream, &e),
        };
        let mut data = Data {
            frames: reader.frames(&contents, stream.stream),
            index: stream.index.iter().filter(|p| p.logical_frame).copied().collect(),
            at: 0,
            sealer,
            current: None,
        };
        self.mark(Stage::Cell);
        let view = r.view;
        view.rows(segment as u32, stream, &mut |row| {
            if r.stop.0.load(Relaxed) {
                return Ok(());
            }
            self.row(&row, stream, &mut data)
        })
    }

    /// The segment's medium cannot be read: every file with data in it is named.
    fn all_missing(
        &mut self,
        segment: usize,
        stream: &StreamContents,
        why: &CellError,
    ) -> Result<()> {
        let r = self.restore;
        let text = crate::error::chain(why);
        r.view.rows(segment as u32, stream, &mut |row| {
            let path = row.entry.path();
            let concerned = row.entry.logical_len() > 0 && r.live(stream, &row, &path);
            if concerned && r.wants(&path) {
                r.counts.lost.fetch_add(1, Relaxed);
                r.error(Code::Missing, &path, text.clone());
            }
            Ok(())
        })
    }

    fn row(&mut self, row: &Row, stream: &StreamContents, data: &mut Data<'_>) -> Result<()> {
        let r = self.restore;
        let e = &row.entry;
        if matches!(e.kind, Kind::Dir | Kind::Outcome | Kind::Tombstone) || e.link {
            return Ok(());
        }
        let path = e.path();
        if !r.live(stream, row, &path) {
            return Ok(());
        }
        let mut entry = None;
        let to = if r.wants(&path) {
            path.clone()
        } else {
            match r.instead.get(&path).and_then(|l| l.first()) {
                Some(link) => link.path(),
                None => return Ok(()),
            }
        };
        let Some(to) = r.stripped(&to) else { return Ok(()) };
        let (dir, name) = split(to);
        let result = match e.kind {
            Kind::Part => self.write_part(row, stream, &path, dir, name, data),
            Kind::File if r.in_parts.contains_key(&path) => {
                r.counts.files.fetch_add(1, Relaxed);
                if !r.overview.is_whole(stream.stream, row) {
                    r.lost(
                        &path,
                        "its data are not all on the media: the session did not get that far",
                    );
                }
                self.write_part(row, stream, &path, dir, name, data)
            }
            Kind::File => {
                let entry = entry.get_or_insert_with(|| r.here(row));
                self.write_file(entry, row, &path, dir, name, data)
            }
            _ => {
                let entry = r.here(row);
                self.worker.make_node(&entry, dir, name).map(|made| {
                    r.counts.files.fetch_add(u64::from(matches!(made, Made::Made)), Relaxed);
                })
            }
        };
        if let Err(e) = result {
            r.target_error(&path, &e)?;
        }
        if e.kind != Kind::Part
            && let Some(o) = r.overview.outcome(&path, row.ordinal)
        {
            let (code, text) = match o.code {
                OutcomeCode::Changed => {
                    (Code::Changed, "it changed while it was backed up".to_owned())
                }
                OutcomeCode::Short => {
                    (Code::Short, format!("it was cut at byte {} by the backup", o.offset))
                }
                OutcomeCode::Unreadable => (
                    Code::Unreadable,
                    format!(
                        "the backup could not read it from byte {} on; the rest is zeros",
                        o.offset
                    ),
                ),
                _ => return Ok(()),
            };
            r.error(code, &path, text);
        }
        self.mark(Stage::Source);
        Ok(())
    }

    fn write_file(
        &mut self,
        entry: &Entry,
        row: &Row,
        path: &[u8],
        dir: &[u8],
        name: &[u8],
        data: &mut Data<'_>,
    ) -> std::result::Result<(), TargetError> {
        let r = self.restore;
        let unknown = entry.extents.iter().find_map(|x| match x.kind {
            ExtentKind::Unknown(n) => {
                Some(format!("its contents are stored in a way ({n}) that needs a newer capstan"))
            }
            ExtentKind::AsIn(_) => Some("its contents lie in an earlier version".to_owned()),
            _ => None,
        });
        if let Some(why) = unknown {
            r.lost(path, &why);
            return Ok(());
        }
        let file = match self.worker.create_file(entry, dir, name)? {
            Created::File(file) => file,
            Created::Skipped => return Ok(()),
        };
        let mut offset = 0;
        let mut logical = row.start;
        if entry.extents.is_empty() {
            self.copy(path, data, logical, entry.size, &mut |at, bytes| {
                file.write_all_at(at, bytes)
            })?;
        } else {
            for extent in &entry.extents {
                if extent.kind == ExtentKind::Data {
                    let from = offset;
                    self.copy(path, data, logical, extent.len, &mut |at, bytes| {
                        file.write_all_at(from + at, bytes)
                    })?;
                    logical += extent.len;
                }
                offset += extent.len;
            }
            file.set_len(entry.size)?;
        }
        if r.damaged_now(path) {
            // What could be read is there; its length is right.
            file.set_len(entry.size)?;
        }
        file.finish(r.target, entry)?;
        r.counts.files.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Writes what this segment has of a file that is written in parts.
    fn write_part(
        &mut self,
        row: &Row,
        stream: &StreamContents,
        path: &[u8],
        dir: &[u8],
        name: &[u8],
        data: &mut Data<'_>,
    ) -> std::result::Result<(), TargetError> {
        let r = self.restore;
        if r.in_parts.get(path) == Some(&false) {
            return Ok(());
        }
        let e = &row.entry;
        if e.logical_len() == 0 {
            return Ok(());
        }
        if !r.in_parts.contains_key(path) {
            r.lost(path, "a part of it is on the media, but not what it is a part of");
            return Ok(());
        }
        let file = self.worker.open_part(dir, name)?;
        let end = stream.logical_end;
        let mut logical = row.start;
        let whole = [(e.part_offset, e.size)];
        let ranges: Vec<(u64, u64)> = if e.kind == Kind::Part || e.extents.is_empty() {
            whole.to_vec()
        } else {
            let mut at = 0;
            let mut ranges = Vec::new();
            for x in &e.extents {
                if x.kind == ExtentKind::Data {
                    ranges.push((at, x.len));
                }
                at += x.len;
            }
            ranges
        };
        for (offset, len) in ranges {
            let here = len.min(end.saturating_sub(logical));
            self.copy(path, data, logical, here, &mut |at, bytes| {
                file.write_all_at(offset + at, bytes)
            })?;
            logical += len;
        }
        file.leave()
    }

    /// Passes `len` bytes of the stream from `from` on to `write`, with their offset. What is damaged is left out.
    fn copy(
        &mut self,
        path: &[u8],
        data: &mut Data<'_>,
        from: u64,
        len: u64,
        write: &mut dyn FnMut(u64, &[u8]) -> std::result::Result<(), TargetError>,
    ) -> std::result::Result<(), TargetError> {
        let r = self.restore;
        let end = from + len;
        let mut at = from;
        while at < end {
            self.frame_at(data, at);
            let Some((begin, stop, state)) = &data.current else {
                r.lost(path, "some of its data are missing on the medium");
                return Ok(());
            };
            let stop = (*stop).min(end);
            match state {
                Ok(true) => {
                    let bytes = &self.plain[(at - begin) as usize..(stop - begin) as usize];
                    write(at - from, bytes)?;
                    self.restore.counts.bytes.fetch_add(bytes.len() as u64, Relaxed);
                    self.restore.meters.of(Stage::Source).bytes(bytes.len() as u64);
                }
                // Filling: zeros, which are there already.
                Ok(false) => {}
                Err(why) => r.lost(path, why),
            }
            at = stop;
        }
        self.mark(Stage::Source);
        Ok(())
    }

    /// Makes the frame that has the logical byte `at` the current one.
    fn frame_at(&mut self, data: &mut Data<'_>, at: u64) {
        if data.current.as_ref().is_some_and(|(from, to, _)| (*from..*to).contains(&at)) {
            return;
        }
        data.current = None;
        self.mark(Stage::Source);
        // Rows ask in ascending order nearly always; else it is looked for.
        if data.index.get(data.at).is_some_and(|p| p.logical > at) {
            data.at = 0;
        }
        let skip = data.index[data.at..].partition_point(|p| p.logical <= at);
        let Some(found) = (data.at + skip).checked_sub(1) else { return };
        let Some(place) = data.index.get(found).copied() else { return };
        let next = data.index.get(found + 1).map(|p| p.logical);
        data.at = found;
        let r = self.restore;
        let state = match data.frames.frame(&place) {
            Ok((header, stored)) => {
                let end = header.logical + header.length;
                r.bytes_read.fetch_add(u64::from(header.stored), Relaxed);
                let device = r.meters.of(Stage::Device);
                device.bytes(u64::from(header.stored));
                self.lap.busy(device);
                let opened = match header.frame_type {
                    FrameType::Fill => Ok(false),
                    _ => header
                        .open(
                            stored,
                            data.sealer.as_ref(),
                            &mut self.decompressor,
                            &mut self.scratch,
                            &mut self.plain,
                        )
                        .map(|()| true)
                        .map_err(|e| e.to_string()),
                };
                self.lap.busy(r.meters.of(Stage::Cpu));
                (end, opened)
            }
            // How long it was is known from the one after it.
            Err(e) => (next.unwrap_or(u64::MAX), Err(e.to_string())),
        };
        if at < state.0 {
            data.current = Some((place.logical, state.0, state.1));
        }
    }
}

impl Restore<'_> {
    fn damaged_now(&self, path: &[u8]) -> bool {
        self.counts.lost.load(Relaxed) > 0
            && self.damaged.lock().unwrap_or_else(PoisonError::into_inner).contains(path)
    }
}
