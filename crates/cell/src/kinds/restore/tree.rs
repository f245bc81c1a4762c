//! Restoring a tree: what all workers share, and what is done before and after their work.

use std::collections::{HashMap, HashSet, hash_map};
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use capstan_catalog::row::{Ordinal, Row};
use capstan_catalog::version::Overview;
use capstan_devices::tape::WINDOW as TAPE_WINDOW;
use capstan_disk_agent::target::{Created, Target, TargetError, Worker};
use capstan_engine::message::{Code, path_text};
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_engine::threads;
use capstan_format::catalog::{Contents, StreamContents};
use capstan_format::entry::{Entry, Extent, ExtentKind, Kind, OutcomeCode, Timestamp, split};
use capstan_format::id::StreamId;
use capstan_media_agent::read::segment::SegmentReader;
use parking_lot::Mutex;

use super::chosen::Chosen;
use super::firsts::Firsts;
use super::hand::Hand;
use super::pace::Turn;
use super::referred::{Home, Lent, Referred};
use super::route::Tapes;
use super::scope::{Scope, Wanted};
use super::stripped;
use crate::error::{CellError, Result};
use crate::kinds::restore::sample_arc::SampleArc;
use crate::observe::Stop;
use crate::reading::away_files::AwayFiles;
use crate::reading::losses::{Lost, Range};
use crate::reading::random::Spans;
use crate::reading::version::VersionView;
use crate::request::{RestoreRequest, RestoreTo};
use crate::session::Ears;

/// Takes a live row, its stored path, and its path below the target.
type EachLive<'f> = dyn FnMut(&Row, &[u8], &[u8]) -> Result<()> + 'f;

/// Into how many slices a segment's rows are cut for the workers.
const SLICES: usize = 8;

/// What all streams have in a part of a segment.
pub(super) struct Slice {
    pub segment: usize,
    /// Which part, from 0.
    pub number: usize,
    /// Of how many.
    pub of: usize,
    /// Only of this stream, if one is given.
    pub stream: Option<StreamId>,
    /// On a tape: the segment, opened, so that others wait for who reads it. It is closed when that is done.
    pub opened: Mutex<Option<OpenedData>>,
}

/// What a worker does at a time.
pub(super) enum Job {
    /// What a segment's own rows have there.
    Own(Slice),
    /// What others refer to.
    Lent(Lent),
}

/// A segment that is open to read, and what it holds where it is read.
pub(super) type OpenedData = (SegmentReader, std::sync::Arc<Contents>);

impl Slice {
    /// Its batches among those that a stream has in the segment.
    pub fn batches(&self, of_stream: usize) -> std::ops::Range<usize> {
        self.number * of_stream / self.of..(self.number + 1) * of_stream / self.of
    }
}

/// Why a file's data may be on no medium at hand.
pub(crate) const NOT_THERE: &str = "its data are not all on the media at hand: the session did not get that far, or a \
                                    segment is missing or cut short";

/// Why a file that exists was not replaced.
const LEFT_ALONE: &str = "what exists is left as it is, for the backup does not have all of its contents; restore it into \
                          an empty directory (--into) to get what is left of it";

/// What is wrong with a part of a file without the file.
pub(crate) const PART_ALONE: &str = "a part of it is on the media, but not what it is a part of";

/// Why data of a file are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// They are damaged or missing.
    Lost,
    /// They lie on media that are away.
    Away,
}

/// What became of a file whose metadata come from a later version than its contents, when the contents came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carried {
    /// It was made, and gets its metadata in the end.
    Made,
    /// It was there, and is left as it is.
    Left,
    /// It could not be written. What has its name is not touched.
    Failed,
}

/// What a restore counts.
#[derive(Default)]
pub(super) struct Counts {
    pub files: AtomicU64,
    pub dirs: AtomicU64,
    pub bytes: AtomicU64,
    pub lost: AtomicU64,
}

/// What all workers of a restore share.
pub(super) struct Restore<'a> {
    pub view: &'a VersionView<'a>,
    pub overview: &'a Overview,
    /// Which segments have what of each stream.
    pub spans: Spans,
    /// Which of them are on tapes.
    pub tapes: Tapes,
    /// What of tapes rows of other segments refer to.
    pub referred: Referred,
    pub target: &'a Target,
    pub request: &'a RestoreRequest,
    /// Of a drill: the sample. Only files are restored, and no flags set, so that all can be removed again.
    pub arc: Option<SampleArc>,
    /// Among others that read the same tapes.
    pub turn: Option<&'a Turn<'a>>,
    /// What is restored.
    pub chosen: Chosen,
    /// The batches that can have something of it, and of what stands in for links.
    pub scope: Scope,
    /// Files written in parts.
    pub in_parts: HashMap<Vec<u8>, InParts>,
    /// Further names whose first name is not restored, by first name.
    pub instead: HashMap<Vec<u8>, Vec<Entry>>,
    /// What became of files whose metadata come from a later version than their contents. One that is not here did not come.
    pub carried: Mutex<HashMap<Vec<u8>, Carried>>,
    /// Files that were made, of those that may get inode flags: what stays in the place of others gets none.
    pub flagged: Mutex<HashSet<Vec<u8>>>,
    /// Files whose data are not all there, and how that is.
    pub damaged: Mutex<HashMap<Vec<u8>, Loss>>,
    /// What reading found of files, where some of them have further names: these have it too.
    pub found: Mutex<HashMap<Vec<u8>, (Code, String)>>,
    /// Files of which something is on media that are away.
    pub away: AwayFiles,
    /// Ranges of streams that could not be read.
    pub lost: Mutex<Lost>,
    /// Segments of which a frame was damaged where it was looked for first.
    pub hurt: Mutex<HashSet<usize>>,
    /// Which first names further ones can be made links to.
    pub firsts: Firsts,
    pub counts: Counts,
    pub meters: &'a Meters,
    pub ears: &'a Ears<'a>,
    pub stop: &'a Stop,
    pub bytes_read: AtomicU64,
    /// Whether data were read that carry no checksums.
    pub unchecked: AtomicBool,
}

impl Restore<'_> {
    /// The path below the target, or `None` if all its components are stripped.
    pub(super) fn stripped<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        stripped(path, self.request.strip)
    }

    /// Whether the path of a file, of whatever kind, is asked for.
    pub(super) fn wants(&self, path: &[u8]) -> bool {
        self.wants_that(path, false)
    }

    fn wants_that(&self, path: &[u8], is_dir: bool) -> bool {
        // Of what is stripped to nothing, nothing comes: a further name has the contents.
        self.stripped(path).is_some()
            && self.chosen.has(path, is_dir)
            && self.arc.is_none_or(|arc| arc.has(path))
    }

    /// Whether a row is of what is asked for, or of a directory that leads to it.
    fn is_near(&self, path: &[u8], is_dir: bool) -> bool {
        let is_in_sample = self.arc.is_none_or(|arc| arc.has(path));
        is_in_sample && (self.chosen.has(path, is_dir) || self.chosen.leads(path))
    }

    /// An ancestor of what is asked for, which is made on the way and gets its metadata; in place where this restore made it.
    pub(super) fn leads_to(&self, path: &[u8]) -> bool {
        let is_ours = || match self.request.to {
            RestoreTo::Into(_) => true,
            RestoreTo::InPlace => self.target.has_made(path),
            RestoreTo::Tar(_) => false,
        };
        self.chosen.leads(path) && is_ours()
    }

    pub(super) fn error(&self, code: Code, path: &[u8], text: String) {
        self.ears.say(code, "disk agent", &format!("/{}", path_text(path)), text);
    }

    /// Says what concerns one file; where the target is full, it ends the restore.
    pub(super) fn target_error(&self, path: &[u8], e: &TargetError) -> Result<()> {
        if e.is_no_space() {
            return Err(CellError::TargetFull(crate::error::chain(e)));
        }
        let code = match e {
            TargetError::Conflict { .. } => Code::Conflict,
            TargetError::BadName { .. } => Code::BadName,
            TargetError::Io { .. } => Code::NotWritten,
        };
        self.firsts.remove(path);
        self.carried.lock().insert(path.to_vec(), Carried::Failed);
        self.flagged.lock().remove(path);
        self.error(code, path, crate::error::chain(e));
        Ok(())
    }

    /// A file's data are lost, or some of them: said once per file.
    pub(super) fn lost(&self, path: &[u8], why: &str) {
        self.lose(Code::Damaged, "media agent", path, why);
    }

    /// The same, with what of a stream could not be read.
    pub(super) fn lost_range(&self, path: &[u8], range: Range, why: &str) {
        self.lost.lock().add(range);
        self.lost(path, why);
    }

    /// Says, once of each file, that what has its contents, or a part of them, is not to be had.
    pub(super) fn missing(&self, path: &[u8], why: &str) {
        self.lose(Code::Missing, "disk agent", path, why);
    }

    /// The same, where the medium may be away: then that is no loss, and a line is said of the medium in the end. The file counts once,
    /// with its whole size, however many parts of it are away; `bytes` is the size of one that is not written in parts.
    pub(super) fn not_had(&self, path: &[u8], bytes: u64, e: &CellError) {
        let Some((medium, why)) = e.away() else {
            return self.missing(path, &crate::error::chain(e));
        };
        if self.note_loss(path, Loss::Away) {
            let whole = self.in_parts.get(path).map_or(bytes, |file| file.entry.size);
            self.away.add(medium, why, whole);
            self.name_lost(Code::FileAway, "media agent", path, why);
        }
    }

    fn lose(&self, code: Code, part: &'static str, path: &[u8], why: &str) {
        if self.note_loss(path, Loss::Lost) {
            self.counts.lost.fetch_add(1, Relaxed);
            self.name_lost(code, part, path, why);
        }
    }

    /// Names a further name of a file that is lost, which is one file however many names it has.
    pub(super) fn lost_link(&self, code: Code, part: &'static str, path: &[u8], why: &str) {
        if self.note_loss(path, Loss::Lost) {
            self.name_lost(code, part, path, why);
        }
    }

    /// Names a further name of a file that is away: it is away with it.
    pub(super) fn link_away(&self, path: &[u8], why: &str) {
        if self.note_loss(path, Loss::Away) {
            self.name_lost(Code::FileAway, "media agent", path, why);
        }
    }

    /// Whether that was not noted of the file yet.
    fn note_loss(&self, path: &[u8], loss: Loss) -> bool {
        match self.damaged.lock().entry(path.to_vec()) {
            hash_map::Entry::Occupied(_) => false,
            hash_map::Entry::Vacant(free) => {
                free.insert(loss);
                true
            }
        }
    }

    fn name_lost(&self, code: Code, part: &'static str, path: &[u8], why: &str) {
        // What stands in for a first name that is not restored is what was asked for.
        let instead = || self.instead.get(path).and_then(|l| l.first()).map(Entry::path);
        let shown = if self.wants(path) { None } else { instead() };
        let shown = path_text(shown.as_deref().unwrap_or(path));
        self.ears.say(code, part, &format!("/{shown}"), why.to_owned());
    }

    /// Names what the ranges that could not be read cost, as a verification does, as far as that is not said yet.
    pub(super) fn say_lost(&self) -> Result<()> {
        let lost = std::mem::take(&mut *self.lost.lock());
        if lost.is_empty() {
            return Ok(());
        }
        self.scope.rows(self.view, &mut |stream, row| {
            let path = row.entry.path();
            let counts = row.entry.kind.is_inode() || row.entry.kind == Kind::Part;
            let asked = self.wants(&path) || self.instead.contains_key(&path);
            if counts
                && asked
                && !row.entry.link
                && self.live(stream, &row, &path)
                && lost.costs(&row.entry, stream.stream, row.start)
                && self.carried_as(&path) != Some(Carried::Left)
            {
                self.lost(&path, "some of its data are damaged");
            }
            Ok(())
        })
    }

    pub(super) fn live(&self, stream: &StreamContents, row: &Row, path: &[u8]) -> bool {
        self.overview.is_first(stream, row) && !self.overview.is_replaced(path, row.ordinal)
    }

    /// The row with owners as they are here. One that has the data of a later row has that one's time: what exists is held against it.
    pub(super) fn here(&self, row: &Row) -> Entry {
        let ids = self.target.ids();
        Entry {
            uid: ids.uid(row.entry.uid, row.user.as_deref()),
            gid: ids.gid(row.entry.gid, row.group.as_deref()),
            mtime: self.overview.carried_mtime(row.ordinal).unwrap_or(row.entry.mtime),
            ..row.entry.clone()
        }
    }

    /// Finds the files that are written in parts, and what stands in for links. Returns files and bytes to restore.
    pub(super) fn prepare(&mut self) -> Result<(u64, u64)> {
        let mut in_parts: HashMap<Vec<u8>, InParts> = HashMap::new();
        let mut links: Vec<Entry> = Vec::new();
        let mut referred = Referred::default();
        let (mut files, mut bytes) = (0, 0_u64);
        let strip = self.request.strip > 0;
        let some = self.chosen.is_narrow() || self.arc.is_some() || strip;
        let mut scope = std::mem::take(&mut self.scope);
        scope.narrow(self.view, &mut |stream, row| {
            let e = &row.entry;
            if !e.kind.is_inode() {
                let path = e.path();
                let kept = wanted_of(e, self.is_near(&path, false));
                return Ok(if self.live(stream, &row, &path) { kept } else { kept.without_data() });
            }
            let path = e.path();
            let is_dir = e.kind == Kind::Dir;
            let kept = wanted_of(e, self.is_near(&path, is_dir));
            let wanted = self.wants_that(&path, is_dir);
            if !self.live(stream, &row, &path) {
                let unkept = self.overview.is_unkept(stream.stream, &row)
                    && !self.overview.is_replaced(&path, row.ordinal);
                if wanted && unkept {
                    self.lost(&path, NOT_THERE);
                }
                return Ok(kept.without_data());
            }
            if e.kind != Kind::Dir && wanted && !self.overview.is_carrier(row.ordinal) {
                files += 1;
                // A claim that media do not bear out needs no room.
                let len = if e.link { 0 } else { self.overview.believed_len(&row) };
                bytes = bytes.saturating_add(len);
            }
            if wanted && e.link {
                self.firsts.ask(&e.target);
            }
            if kept != Wanted::Nothing {
                self.refer(&row, &mut referred);
            }
            let is_spread = || kept != Wanted::Nothing && self.home(e) == Home::Spread;
            if is_in_parts(&row, stream) || is_spread() {
                in_parts.insert(path, self.to_be_made(&row));
            } else if some && wanted && e.link && !self.wants(&e.target) {
                links.push(self.here(&row));
            }
            Ok(kept)
        })?;
        self.scope = scope;
        if !links.is_empty() && (self.chosen.is_narrow() || self.arc.is_some()) {
            let targets: HashSet<Vec<u8>> = links.iter().map(|link| link.target.clone()).collect();
            let further: Vec<Vec<u8>> = targets.iter().cloned().collect();
            let mut scope = Scope::of(self.view, &self.chosen, &further)?;
            scope.narrow(self.view, &mut |stream, row| {
                let path = row.entry.path();
                let is_dir = row.entry.kind == Kind::Dir;
                let is_near = targets.contains(&path) || self.is_near(&path, is_dir);
                if self.live(stream, &row, &path) {
                    let is_spread = || is_near && self.home(&row.entry) == Home::Spread;
                    if is_near {
                        self.refer(&row, &mut referred);
                    }
                    if is_in_parts(&row, stream) || is_spread() {
                        in_parts.insert(path.clone(), self.to_be_made(&row));
                    }
                }
                Ok(wanted_of(&row.entry, is_near))
            })?;
            self.scope = scope;
        }
        self.referred = referred.settled();
        for link in links {
            self.instead.entry(link.target.clone()).or_default().push(link);
        }
        self.in_parts = in_parts;
        Ok((files, bytes))
    }

    /// A file that is written in parts, by its row.
    fn to_be_made(&self, row: &Row) -> InParts {
        let e = &row.entry;
        let is_stored = |x: &&Extent| x.kind != ExtentKind::Hole;
        let bytes = match e.extents.as_slice() {
            [] => e.size,
            all => all.iter().filter(is_stored).fold(0, |sum, x| x.len.saturating_add(sum)),
        };
        InParts {
            entry: self.here(row),
            ordinal: row.ordinal,
            len: self.overview.believed_len(row),
            made: Mutex::new(None),
            left: AtomicU64::new(bytes),
            came: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
        }
    }

    /// So many bytes of a file were written that is written in parts. Where they were the last ones, it is put in its place, so that
    /// what it replaces takes room no longer. What is not whole is judged in the end.
    pub(super) fn written(
        &self,
        worker: &mut Worker<'_>,
        path: &[u8],
        (dir, name): (&[u8], &[u8]),
        bytes: u64,
    ) -> std::result::Result<(), TargetError> {
        let Some(file) = self.in_parts.get(path) else { return Ok(()) };
        // What a stop cut short was not written.
        if self.stop.0.load(Relaxed) || file.left.fetch_sub(bytes, AcqRel) != bytes || bytes == 0 {
            return Ok(());
        }
        if !self.is_whole(path, file.ordinal) {
            return Ok(());
        }
        // The metadata of one whose contents are an earlier row's come with the newer row.
        if self.overview.is_carrier(file.ordinal) {
            return worker.settle_file(dir, name);
        }
        file.is_settled.store(true, Relaxed);
        worker.finish_file(&file.entry, dir, name)
    }

    /// Makes a file that is written in parts, where that was not done yet; whether it is there to be written. It waits for the first
    /// part that is at hand: what is in its place stays where there is none.
    pub(super) fn make_in_parts(
        &self,
        worker: &mut Worker<'_>,
        path: &[u8],
        file: &InParts,
    ) -> std::result::Result<bool, TargetError> {
        let mut made = file.made.lock();
        if let Some(made) = *made {
            return Ok(made);
        }
        // An error is told once.
        *made = Some(false);
        let len = file.len;
        for (to, entry) in self.places_of(path, &file.entry) {
            let Some(to) = self.stripped(&to) else { continue };
            let (dir, name) = split(to);
            match worker.create_file(&entry, dir, name)? {
                Created::File(file) => {
                    self.firsts.add(path);
                    self.may_get_flags(path);
                    file.set_len(len)?;
                    file.leave()?;
                    self.counts.files.fetch_add(1, Relaxed);
                    *made = Some(true);
                }
                Created::Skipped => self.first_stays(worker, path, (&entry, dir, name))?,
            }
        }
        Ok(made.unwrap_or(false))
    }

    /// Notes of a file that was made that it may get inode flags in the end.
    pub(super) fn may_get_flags(&self, path: &[u8]) {
        if self.overview.flagged > 0 {
            self.flagged.lock().insert(path.to_vec());
        }
    }

    /// What exists in a file's place is kept: further names can be made links to it if it is what they were.
    pub(super) fn first_stays(
        &self,
        worker: &mut Worker<'_>,
        path: &[u8],
        (entry, dir, name): (&Entry, &[u8], &[u8]),
    ) -> std::result::Result<(), TargetError> {
        if self.firsts.is_asked(path) && worker.is_like(entry, dir, name)? {
            self.firsts.add(path);
        }
        Ok(())
    }

    /// Under which stored name a file is restored, if it is.
    pub(super) fn place_of(&self, path: &[u8]) -> Option<Vec<u8>> {
        let instead = || Some(self.instead.get(path)?.first()?.path());
        if self.wants(path) { Some(path.to_vec()) } else { instead() }
    }

    /// Under which names a stored file is restored: its own if asked for, and those of links whose first name it is.
    pub(super) fn places_of(&self, path: &[u8], entry: &Entry) -> Vec<(Vec<u8>, Entry)> {
        let mut places = Vec::new();
        if self.wants(path) {
            places.push((path.to_vec(), entry.clone()));
        } else if let Some(first) = self.instead.get(path).and_then(|l| l.first()) {
            places.push((first.path(), Entry { link: false, target: Vec::new(), ..entry.clone() }));
        }
        places
    }

    pub(super) fn run(&self, workers: usize) -> Result<()> {
        let done = self.run_groups(workers);
        // Also where it was stopped: what was not finished is not whole.
        if done.is_err() || self.stop.0.load(Relaxed) {
            self.date_unfinished();
        }
        let withdrawn = self.target.worker().withdraw_rest();
        done?;
        withdrawn.or_else(|e| self.target_error(b"", &e))
    }

    /// Dates the files of which not all parts were written, where there was none before.
    fn date_unfinished(&self) {
        let mut worker = self.target.worker();
        for (path, file) in &self.in_parts {
            if *file.made.lock() != Some(true) || file.is_settled.load(Relaxed) {
                continue;
            }
            for (to, _) in self.places_of(path, &file.entry) {
                let Some(to) = self.stripped(&to) else { continue };
                let (dir, name) = split(to);
                // What cannot be opened any more is not taken for anything.
                if let Ok(file) = worker.open_part(dir, name) {
                    file.leave_unfinished();
                }
            }
        }
    }

    fn run_groups(&self, workers: usize) -> Result<()> {
        // A slice has what all streams saved at about the same time, so that two workers seldom meet in a directory.
        let mut groups = self.groups()?;
        while !groups.is_empty() {
            let (tape, segments) = groups.remove(self.next_group(&groups));
            let Some(tape) = tape else {
                self.turn.inspect(|turn| turn.leave());
                let slices = segments.into_iter().flat_map(|i| self.slices(i));
                let jobs: Vec<Job> = slices.map(Job::Own).collect();
                self.run_jobs(workers, &jobs)?;
                continue;
            };
            let station = self.station(tape)?;
            // Of a tape one segment after the other: who is done with one early would wind to the next, and back for others.
            for segment in segments {
                let number = self.number_on(segment, tape);
                self.turn.inspect(|turn| turn.come(station, number));
                // All streams are read at once; who waits for the tape needs no processor.
                let mut jobs: Vec<Job> = self.lent(segment)?.into_iter().map(Job::Lent).collect();
                let mut streams = 0;
                if self.scope.has_any(segment as u32, &self.view.segments[segment].streams) {
                    let slices = self.slices(segment);
                    streams = slices.iter().filter(|slice| slice.stream.is_some()).count();
                    streams = workers.max(streams);
                    jobs.extend(slices.into_iter().map(Job::Own));
                    streams += jobs.iter().filter(|job| matches!(job, Job::Lent(_))).count();
                }
                // Where all begin is known before the first one reads.
                self.expect(&jobs)?;
                self.turn.inspect(|turn| turn.begin(station, number));
                self.run_jobs(workers.max(streams), &jobs)?;
            }
            if self.turn.is_none_or(|turn| turn.is_last_on(station)) {
                self.view.cell.done_reading(tape);
            }
        }
        self.turn.inspect(|turn| turn.leave());
        if !self.stop.0.load(Relaxed) {
            self.finish()?;
        }
        Ok(())
    }

    /// A segment in slices. On a tape each is what one stream has in it, as all streams are read together while the tape passes by
    /// once; a stream that is alone is cut so that what two neighbours have is kept when it has passed by.
    fn slices(&self, segment: usize) -> Vec<Slice> {
        let place = &self.view.segments[segment];
        // An error was told when they were grouped.
        let on_tape = self.tapes.of_segment(self.view, segment).is_ok_and(|tape| tape.is_some());
        let slice = |number, of, stream| {
            let opened = Mutex::default();
            Slice { segment, number, of, stream, opened }
        };
        // Between the blocks of one of several lie those of the others, also of other versions: its neighbours would be far ahead.
        if on_tape && self.view.contents(place).is_ok_and(|all| all.streams.len() > 1) {
            return place.streams.iter().map(|id| slice(0, 1, Some(*id))).collect();
        }
        let pieces = place.bytes / (TAPE_WINDOW as u64 / 4);
        let of = if on_tape { SLICES.max(pieces as usize) } else { SLICES };
        (0..of).map(|number| slice(number, of, None)).collect()
    }

    /// Says of what is read of a tape where it begins: who reads it keeps abreast of them all. What cannot be opened is told by who would
    /// read it.
    fn expect(&self, jobs: &[Job]) -> Result<()> {
        let mut lap = Lap::start();
        for job in jobs {
            let (segment, opened) = match job {
                Job::Lent(lent) => (lent.segment, &lent.opened),
                Job::Own(slice) => (slice.segment, &slice.opened),
            };
            let place = &self.view.segments[segment];
            if let Job::Own(slice) = job {
                let of = slice.stream.as_ref();
                let streams = of.map_or(&place.streams[..], std::slice::from_ref);
                if !self.scope.has_data(segment as u32, streams) {
                    continue;
                }
            }
            let contents = self.view.contents(place)?;
            lap.busy(self.meters.of(Stage::Cell));
            let waited = self.view.cell.devices.waits().waited();
            let data = self.view.open_data(place);
            // To load is a stage of its own.
            let waited = self.view.cell.devices.waits().waited().saturating_sub(waited);
            self.meters.of(Stage::Device).busy(lap.split().saturating_sub(waited));
            let Ok((reader, layout)) = data else { continue };
            // A batch's data come behind it.
            let block = |id: &StreamId, begin: u64| {
                let index = &layout.streams.iter().find(|s| s.stream == *id)?.index;
                let at = index.partition_point(|place| place.logical < begin);
                Some(index.get(at.saturating_sub(1))?.block.0)
            };
            let first = match job {
                Job::Lent(lent) => lent.streams.first().and_then(|id| block(id, lent.begin)),
                Job::Own(slice) => {
                    let of = slice.stream.as_ref();
                    let streams = of.map_or(&place.streams[..], std::slice::from_ref);
                    let first = |id: &StreamId| {
                        let stream = contents.streams.iter().find(|s| s.stream == *id)?;
                        let asked = |n: &usize| self.scope.has(segment as u32, *id, *n);
                        let first = slice.batches(stream.batches.len()).find(asked)?;
                        block(id, stream.batches.get(first)?.header.logical)
                    };
                    streams.iter().filter_map(first).min()
                }
            };
            if let Some(block) = first {
                reader.expect(block);
                *opened.lock() = Some((reader, layout));
            }
        }
        Ok(())
    }

    fn run_jobs(&self, workers: usize, jobs: &[Job]) -> Result<()> {
        let next = AtomicUsize::new(0);
        let failed: Mutex<Option<CellError>> = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                // All take from one list: where there is no thread, this one does the work of all.
                threads::beside(scope, "restore", || {
                    let mut hand = Hand::new(self);
                    while let Some(job) = jobs.get(next.fetch_add(1, Relaxed)) {
                        if self.stop.0.load(Relaxed) || failed.lock().is_some() {
                            return;
                        }
                        let done = match job {
                            Job::Own(slice) => hand.slice(slice),
                            Job::Lent(lent) => hand.lent(lent),
                        };
                        if let Err(e) = done {
                            failed.lock().get_or_insert(e);
                            return;
                        }
                    }
                });
            }
        });
        failed.into_inner().map_or(Ok(()), Err)
    }

    /// Calls with each live row that is wanted (or leads to one), its stored path, and its path below the target.
    pub(super) fn each_live(&self, each: &mut EachLive<'_>) -> Result<()> {
        self.scope.rows(self.view, &mut |stream, row| {
            // Of what has contents for a later version's row, only those are wanted.
            if !row.entry.kind.is_inode() || self.overview.is_carrier(row.ordinal) {
                return Ok(());
            }
            let path = row.entry.path();
            let is_dir = row.entry.kind == Kind::Dir;
            let wanted = self.wants_that(&path, is_dir) || (is_dir && self.leads_to(&path));
            if wanted && self.live(stream, &row, &path) {
                if let Some(to) = self.stripped(&path) {
                    each(&row, &path, to)?;
                }
            } else if !wanted && self.instead.contains_key(&path) && self.live(stream, &row, &path)
            {
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

    /// The metadata that a file gets: one that is damaged is dated 1970, so that it is never taken for the one in the
    /// backup, and a later restore from a better copy replaces it.
    pub(super) fn as_restored(&self, path: &[u8], mut entry: Entry) -> Entry {
        if self.damaged_now(path) {
            entry.mtime = Timestamp::default();
        }
        entry
    }

    pub(super) fn carried_as(&self, path: &[u8]) -> Option<Carried> {
        self.carried.lock().get(path).copied()
    }

    pub(super) fn damaged_now(&self, path: &[u8]) -> bool {
        self.loss_of(path).is_some()
    }

    /// What is not there of a file, if anything.
    pub(super) fn loss_of(&self, path: &[u8]) -> Option<Loss> {
        self.is_any_damaged().then(|| self.damaged.lock().get(path).copied())?
    }

    /// Whether all contents of a file came that it had when it was backed up.
    pub(super) fn is_whole(&self, path: &[u8], ordinal: Ordinal) -> bool {
        let mut outcomes = self.overview.outcomes(path, ordinal);
        !self.damaged_now(path) && outcomes.all(|o| o.code != OutcomeCode::Unreadable)
    }

    /// A file that was made, and of which nothing came as all of it is away, is none: it comes when its medium does.
    pub(super) fn comes_later(
        &self,
        worker: &mut Worker<'_>,
        path: &[u8],
        (dir, name): (&[u8], &[u8]),
    ) -> std::result::Result<(), TargetError> {
        self.flagged.lock().remove(path);
        self.firsts.remove(path);
        self.carried.lock().insert(path.to_vec(), Carried::Failed);
        worker.discard(dir, name)
    }

    /// What exists stays as it is, as what should take its place did not come whole.
    pub(super) fn left_alone(&self, path: &[u8]) {
        self.flagged.lock().remove(path);
        self.firsts.remove(path);
        // What is away comes when its medium does: a line of the medium is enough.
        if self.loss_of(path) != Some(Loss::Away) {
            self.name_lost(Code::NotWritten, "disk agent", path, LEFT_ALONE);
        }
    }

    fn is_any_damaged(&self) -> bool {
        self.counts.lost.load(Relaxed) > 0 || self.away.is_any()
    }
}

/// A file that is written in parts.
pub(super) struct InParts {
    /// As it is here.
    pub(super) entry: Entry,
    /// Where its row stands.
    ordinal: Ordinal,
    /// Its length, as far as media bear it out.
    pub(super) len: u64,
    /// Whether it is there to be written, once that was tried; `false` also for one that exists and is kept.
    pub(super) made: Mutex<Option<bool>>,
    /// Bytes of its contents that are to be written yet. It may be short of what comes, where a medium has something twice.
    left: AtomicU64,
    /// Whether any of its contents came.
    pub(super) came: AtomicBool,
    /// Whether it got its metadata and was put in its place when all of it was written.
    is_settled: AtomicBool,
}

impl InParts {
    /// Whether nothing is left to be done in the end.
    pub(super) fn is_done(&self) -> bool {
        self.is_settled.load(Relaxed) && self.left.load(Relaxed) == 0
    }
}

/// What is wanted of a row whose path is near what is asked for, or not.
fn wanted_of(entry: &Entry, is_near: bool) -> Wanted {
    match (is_near, entry.logical_len()) {
        (false, _) => Wanted::Nothing,
        (true, 0) => Wanted::Row,
        (true, _) => Wanted::Data,
    }
}

/// Whether a file's data lie in several places: in parts, or in the next segment too.
pub(crate) fn is_in_parts(row: &Row, stream: &StreamContents) -> bool {
    let e = &row.entry;
    let end = row.start.saturating_add(e.logical_len());
    let cut = e.logical_len() > 0 && end > stream.logical_end;
    let parts = e.extents.iter().any(|x| x.kind == ExtentKind::Parts);
    e.kind == Kind::File && !e.link && (cut || parts)
}
