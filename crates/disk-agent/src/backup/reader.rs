//! One stream's thread: opens groups of files, sends their rows, then their contents.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use capstan_engine::link::LinkClosed;
use capstan_engine::message::Code;
use capstan_engine::meter::Stage;
use capstan_engine::queue::{Queue, Taken};
use capstan_format::entry::{Entry, Kind, Outcome, OutcomeCode, join};
use capstan_format::sums::ContentSum;
use capstan_wire::backup::ReadMode;
use parking_lot::Mutex;
use rustix::fs::Stat;
use rustix::io::Errno;

use super::Backup;
use crate::backup::hardlinks::HardLinks;
use crate::backup::huge::{HugeFile, Pieces};
use crate::linux::clock::Clocks;
use crate::linux::source_file::{DIRECT_MIN, Reader, SourceFile};
use crate::linux::stalls::Stalls;
use crate::linux::{locks, source};
use crate::walk::ahead::Ahead;
use crate::walk::{Group, WalkItem};
use capstan_stream::StreamWriter;

/// Files smaller than this on average, in bytes, are worth fetching ahead.
const SMALL: u64 = 64 << 10;
/// Of so many files that are to be read one is asked whether it is in the page cache.
const PROBE_EVERY: usize = 16;

/// A file whose row was made, with what reading its contents needs.
pub(super) struct Opened {
    pub(super) fd: SourceFile,
    pub(super) before: Stat,
    /// Data ranges; empty for a file without holes, which is read from begin to end.
    pub(super) ranges: Vec<(u64, u64)>,
    pub(super) in_use: bool,
    pub(super) size: u64,
    pub(super) item: usize,
}

/// Bytes read at a time to see whether contents are as before.
const SUM_BUFFER: usize = 256 << 10;

/// Bytes after which the shared counters are told.
const COUNT_AT: u64 = 1 << 20;

/// What became of a file's contents.
enum Read {
    /// They were read, as far as they could be.
    Done,
    /// They changed meanwhile and are to be read again: of a file with further names from this very file.
    Changed(Option<SourceFile>),
    /// They could not be read: this row has what the base has of them, and takes the place of the one that promised them.
    Kept(Box<Entry>),
    /// The session was stopped before all of them were read.
    Stopped,
}

/// How far a range of a file could be read.
enum Reached {
    /// To its end.
    End,
    /// What is behind that byte was filled: the file ends there, or, by that error, cannot be read.
    Cut(u64, Option<Errno>),
    /// The session was stopped before.
    Stopped,
}

/// How soon somebody who stops the session is heard.
const NAP: Duration = Duration::from_millis(100);

/// A stream that may still find a huge file, whose pieces are for all. One that ends otherwise, as its device failed or by a
/// panic, finds no more.
struct Busy<'a> {
    /// How many do.
    streams: &'a Mutex<usize>,
    walked: bool,
}

impl Busy<'_> {
    fn end(&mut self) {
        if !std::mem::replace(&mut self.walked, true) {
            *self.streams.lock() -= 1;
        }
    }

    fn nobody(&self) -> bool {
        *self.streams.lock() == 0
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// One stream's thread.
pub(super) struct StreamReader<'a> {
    pub(super) backup: &'a Backup<'a>,
    writer: StreamWriter<'a>,
    queue: &'a Queue<Arc<Group>>,
    pub(super) pieces: &'a Pieces,
    ahead: &'a Ahead,
    /// The pages of the file at hand are dropped afterwards: nobody else had them in the cache.
    drops_pages: bool,
    /// There is no other stream to share a huge file with.
    pub(super) single: bool,
    pub(super) links: HardLinks,
    /// The inode that the name at hand is remembered as the first one of.
    pub(super) first_of: Option<(u64, u64)>,
    pub(super) locks: locks::LockTable,
    pub(super) buffers: source::Buffers,
    reader: Reader,
    /// For contents that are read and not sent: a new one for each file costs ten times as much as reading it.
    unsent: Vec<u8>,
    pub(super) now: SystemTime,
    pub(super) clocks: Clocks,
    /// Bytes read that the shared counters do not have yet.
    uncounted: u64,
    /// How long its thread waits.
    stalls: Stalls,
}

impl<'a> StreamReader<'a> {
    pub(super) fn new(
        backup: &'a Backup<'a>,
        writer: StreamWriter<'a>,
        queue: &'a Queue<Arc<Group>>,
        pieces: &'a Pieces,
        ahead: &'a Ahead,
        single: bool,
    ) -> Self {
        Self {
            backup,
            writer,
            queue,
            pieces,
            ahead,
            single,
            drops_pages: false,
            links: HardLinks::default(),
            first_of: None,
            locks: locks::LockTable::default(),
            buffers: source::Buffers::default(),
            reader: Reader::default(),
            unsent: Vec::new(),
            now: SystemTime::now(),
            clocks: Clocks::default(),
            uncounted: 0,
            stalls: Stalls::of_this_thread(),
        }
    }

    /// Until the walk has ended and nothing is left to read, or the session is stopped. Then the stream ends where it
    /// is, as if it had been killed: rows whose data did not follow are known as incomplete.
    pub(super) fn run(mut self, busy: &Mutex<usize>) -> Result<(), LinkClosed> {
        self.stalls = Stalls::of_this_thread();
        let mut busy = Busy { streams: busy, walked: false };
        self.read_all(&mut busy)?;
        drop(busy);
        self.writer.finish()
    }

    fn read_all(&mut self, busy: &mut Busy<'_>) -> Result<(), LinkClosed> {
        while !self.stopped() {
            while !self.stopped()
                && let Some((file, at, len)) = self.pieces.take()
            {
                self.piece(&file, at, len)?;
            }
            if busy.walked {
                // Another stream may still find a huge file: its pieces are for all.
                if busy.nobody() {
                    break;
                }
                self.writer.idle()?;
                std::thread::sleep(Duration::from_millis(2));
                self.writer.mark_wait_in();
                continue;
            }
            let mut waited = Duration::ZERO;
            let mut taken = self.queue.take_within(Duration::ZERO, &mut waited);
            if taken_is_nothing(&taken) {
                self.writer.mark(Stage::Cpu);
                taken = self.queue.take_within(Duration::from_millis(20), &mut waited);
                self.writer.mark_wait_in();
            }
            match taken {
                Taken::Item(group) if !self.stopped() => self.group(&group)?,
                Taken::Item(_) => {}
                Taken::Nothing => self.writer.idle()?,
                Taken::Closed => busy.end(),
            }
        }
        self.count(0);
        Ok(())
    }

    /// Waits that long, unless the session is to end.
    fn rest(&self, time: Duration) {
        let begun = Instant::now();
        while !self.stopped() {
            match time.checked_sub(begun.elapsed()) {
                Some(left) if !left.is_zero() => std::thread::sleep(left.min(NAP)),
                _ => break,
            }
        }
    }

    fn stopped(&self) -> bool {
        self.backup.stop.load(Relaxed)
    }

    /// Opens a group, sends its rows, then its contents; what changed meanwhile is read again.
    fn group(&mut self, group: &Group) -> Result<(), LinkClosed> {
        self.now = SystemTime::now();
        let retries = self.backup.options.retries;
        let mut todo: Vec<_> = (0..group.items.len()).map(|index| (index, None)).collect();
        for attempt in 0..=retries {
            let mut again = Vec::new();
            let mut rows = Vec::with_capacity(todo.len());
            let mut opened = Vec::new();
            let begun = self.stalls.now();
            for (index, held) in todo {
                let item = &group.items[index];
                self.open(item, index, attempt > 0, held, &mut rows, &mut opened);
            }
            // What the fetchers did not get to they need not fetch any more.
            group.fetched.fetch_max(group.items.len(), Relaxed);
            self.learn(group, &opened, self.stalls.since(begun));
            self.writer.mark(Stage::Metadata);
            if !rows.is_empty() {
                self.writer.rows_with_sums(rows)?;
            }
            let mut kept = Vec::new();
            for mut file in opened {
                let index = file.item;
                let item = &group.items[index];
                let mode = self.backup.options.mode;
                self.begin_file(&mut file.fd, &file.before, mode, item.ours.load(Relaxed));
                match self.contents(file, item, attempt == retries)? {
                    Read::Done => self.count_file(),
                    Read::Changed(held) => again.push((index, held)),
                    Read::Kept(row) => kept.push((*row, None)),
                    Read::Stopped => return Ok(()),
                }
            }
            self.count(0);
            if !kept.is_empty() {
                self.writer.rows_with_sums(kept)?;
            }
            if again.is_empty() || self.stopped() {
                break;
            }
            self.writer.mark(Stage::Source);
            self.rest(self.backup.options.retry_wait);
            self.writer.mark_wait_in();
            todo = again;
        }
        Ok(())
    }

    /// Finds out whether the source is cold, from how long its rows took to make and from some of the files that come next.
    fn learn(&self, group: &Group, opened: &[Opened], waited: Duration) {
        // Large files are read ahead by the kernel.
        let bytes: u64 = opened.iter().map(|file| file.size).sum();
        if self.ahead.is_cold() || bytes >= SMALL * group.items.len() as u64 {
            return;
        }
        self.ahead.waited(group.items.len(), waited);
        if opened.len() >= PROBE_EVERY {
            let probed: Vec<_> = opened.iter().step_by(PROBE_EVERY).collect();
            let cold = probed.iter().filter(|file| file.fd.is_cold()).count();
            self.ahead.found_cold(cold, probed.len());
        }
    }

    /// Settles how a file is read, however it was before.
    fn begin_file(&mut self, file: &mut SourceFile, stat: &Stat, mode: ReadMode, ours: bool) {
        self.reader.next_file(stat.st_dev);
        self.drops_pages = ours;
        if (stat.st_size as u64) < DIRECT_MIN {
            file.set_buffered();
        } else if !self.set_direct(file, mode) {
            file.will_read_all();
            // Where the kernel cannot drop pages by itself, those of files that nobody had in the cache are dropped.
            self.drops_pages |= self.reader.must_drop() && file.is_cold();
        }
    }

    /// Has a large file read past the page cache, if it is to be.
    pub(super) fn set_direct(&self, file: &mut SourceFile, mode: ReadMode) -> bool {
        let wanted = match mode {
            ReadMode::Direct => true,
            ReadMode::Buffered => false,
            ReadMode::Auto => file.is_cold(),
        };
        if wanted { file.set_direct() } else { !file.set_buffered() }
    }

    /// Sends a file's contents.
    fn contents(&mut self, file: Opened, item: &WalkItem, last: bool) -> Result<Read, LinkClosed> {
        let (dir, name) = (&item.dir.path, &item.listed.name);
        let whole = [(0, file.size)];
        let ranges = if file.ranges.is_empty() { &whole[..] } else { &file.ranges };
        let mut cut = None;
        for (at, len) in ranges {
            match self.range(&file.fd, *at, *len)? {
                Reached::End => {}
                Reached::Cut(at, why) => cut = cut.or(Some((at, why))),
                Reached::Stopped => return Ok(Read::Stopped),
            }
        }
        let changed = match source::stat(&file.fd) {
            Ok(after) => source::changed(&file.before, &after),
            Err(_) => false,
        };
        if self.drops_pages {
            file.fd.drop_pages();
        }
        if let Some((at, Some(e))) = cut
            && (!changed || last)
            && let Some(row) = self.kept_of_base(item, &file.fd, &file.before, at <= ranges[0].0)
        {
            self.say_kept(&row.path(), e);
            self.outcome(dir, name, OutcomeCode::Unreadable, e.raw_os_error().unsigned_abs(), at);
            return Ok(Read::Kept(Box::new(row)));
        }
        if let Some((at, why)) = cut {
            self.say_cut(dir, name, at, why);
        }
        if changed {
            if last {
                self.backup.say(
                    Code::Changed,
                    &join(dir, name),
                    "changed while it was read; what is stored may mix two states".to_owned(),
                );
            }
            self.outcome(dir, name, OutcomeCode::Changed, 0, 0);
        } else if file.in_use {
            self.outcome(dir, name, OutcomeCode::InUse, 0, 0);
        }
        if !changed || last {
            return Ok(Read::Done);
        }
        // Its further names are links to this one, which may be another file by then.
        let is_held = file.before.st_nlink > 1 && !self.backup.options.hard_links_as_files;
        Ok(Read::Changed(is_held.then_some(file.fd)))
    }

    /// The checksum of a file's data ranges; `None` if it ends sooner, or the session is to end. Their bytes are counted as read if
    /// `counts`. An error is of what cannot be read.
    pub(super) fn content_sum(
        &mut self,
        file: &mut SourceFile,
        stat: &Stat,
        mode: ReadMode,
        ranges: &[(u64, u64)],
        counts: bool,
    ) -> Result<Option<u64>, Errno> {
        self.begin_file(file, stat, mode, false);
        let mut buffer = std::mem::take(&mut self.unsent);
        buffer.resize(SUM_BUFFER, 0);
        let sum = self.sum_of(file, ranges, counts, &mut buffer);
        self.unsent = buffer;
        if self.drops_pages {
            file.drop_pages();
        }
        sum
    }

    /// Reads one byte, to see whether that can be done.
    pub(super) fn first_byte(
        &mut self,
        file: &SourceFile,
        stat: &Stat,
        at: u64,
    ) -> Result<usize, Errno> {
        self.reader.next_file(stat.st_dev);
        self.reader.read_at(file, &mut [0], at)
    }

    fn sum_of(
        &mut self,
        file: &SourceFile,
        ranges: &[(u64, u64)],
        counts: bool,
        buffer: &mut [u8],
    ) -> Result<Option<u64>, Errno> {
        let mut sum = ContentSum::default();
        for (at, len) in ranges {
            let mut done = 0;
            while done < *len {
                if self.stopped() {
                    return Ok(None);
                }
                let want = usize::try_from(len - done).unwrap_or(SUM_BUFFER).min(buffer.len());
                let out = &mut buffer[..want];
                let n = self.reader.read_at(file, out, at + done)?;
                if n == 0 {
                    return Ok(None);
                }
                sum.update(&buffer[..n]);
                done += n as u64;
                if counts {
                    self.count(n as u64);
                }
            }
        }
        Ok(Some(sum.take()))
    }

    /// Sends `len` bytes from `at`; what cannot be read is filled. Nothing is filled when the session is stopped: nothing more
    /// may be sent then.
    fn range(&mut self, file: &SourceFile, at: u64, len: u64) -> Result<Reached, LinkClosed> {
        let mut done = 0;
        while done < len {
            if self.stopped() {
                return Ok(Reached::Stopped);
            }
            let space = self.writer.space()?;
            let want = space.len().min(usize::try_from(len - done).unwrap_or(usize::MAX));
            let out = &mut space[..want];
            match self.reader.read_at(file, out, at + done) {
                Ok(0) => {
                    self.writer.fill(len - done)?;
                    return Ok(Reached::Cut(at + done, None));
                }
                Ok(n) => {
                    self.writer.advance(n)?;
                    done += n as u64;
                    self.count(n as u64);
                }
                Err(e) => {
                    self.writer.fill(len - done)?;
                    return Ok(Reached::Cut(at + done, Some(e)));
                }
            }
        }
        Ok(Reached::End)
    }

    pub(super) fn count_file(&self) {
        self.backup.counters.files.fetch_add(1, Relaxed);
    }

    /// Counts bytes that were read. The counters are shared by all streams, so they are not told of every small file.
    pub(super) fn count(&mut self, bytes: u64) {
        self.uncounted += bytes;
        if self.uncounted >= COUNT_AT || bytes == 0 {
            let bytes = std::mem::take(&mut self.uncounted);
            self.backup.counters.bytes.fetch_add(bytes, Relaxed);
            self.backup.meters.of(Stage::Source).bytes(bytes);
        }
    }

    pub(super) fn outcome(
        &mut self,
        dir: &[u8],
        name: &[u8],
        code: OutcomeCode,
        errno: u32,
        offset: u64,
    ) {
        self.writer.outcome(Entry {
            kind: Kind::Outcome,
            dir: dir.to_vec(),
            name: name.to_vec(),
            outcome: Some(Outcome { code, errno, offset }),
            ..Entry::default()
        });
    }

    /// Sends a piece of a huge file.
    fn piece(&mut self, file: &HugeFile, at: u64, len: u64) -> Result<(), LinkClosed> {
        let part = Entry {
            kind: Kind::Part,
            size: len,
            part_offset: at,
            extents: Vec::new(),
            xattrs: Vec::new(),
            inode_flags: 0,
            ..file.entry.clone()
        };
        let (dir, name) = (&file.entry.dir, &file.entry.name);
        self.writer.rows(vec![part])?;
        self.reader.next_file(file.before.st_dev);
        match self.range(&file.fd, at, len)? {
            Reached::End => {}
            Reached::Stopped => return Ok(()),
            Reached::Cut(at, why) if !file.failed.swap(true, Relaxed) => {
                self.say_cut(dir, name, at, why);
            }
            Reached::Cut(..) => {}
        }
        if file.piece_done() {
            self.count_file();
            let changed = source::stat(&file.fd).is_ok_and(|s| source::changed(&file.before, &s));
            if changed {
                let text =
                    "changed while it was read; what is stored may mix two states".to_owned();
                self.backup.say(Code::Changed, &join(dir, name), text);
                self.outcome(dir, name, OutcomeCode::Changed, 0, 0);
            }
        }
        Ok(())
    }
}

fn taken_is_nothing<T>(taken: &Taken<T>) -> bool {
    matches!(taken, Taken::Nothing)
}
