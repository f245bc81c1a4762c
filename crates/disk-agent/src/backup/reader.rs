//! One stream's thread: opens groups of files, sends their rows, then their contents.

use parking_lot::Mutex;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use capstan_engine::link::LinkClosed;
use capstan_engine::message::Code;
use capstan_engine::meter::Stage;
use capstan_engine::queue::{Queue, Taken};
use capstan_format::entry::{Entry, Extent, ExtentKind, Kind, Outcome, OutcomeCode, join};
use rustix::fs::Stat;
use rustix::io::Errno;

use super::{Backup, Locked, ReadMode, text};
use crate::ahead::Ahead;
use crate::hardlinks::HardLinks;
use crate::huge::{HUGE, HugeFile, Pieces};
use crate::linux::{locks, source};
use crate::stream::StreamWriter;
use crate::walk::{BaseRow, Group, WalkItem};

/// A file that was changed this short a time ago may still be open for writing.
const RECENT: Duration = Duration::from_secs(120);

/// A group of files smaller than this on average, in bytes, tells by its time whether the source is cold.
const SMALL: u64 = 64 << 10;

/// A file whose row was made, with what reading its contents needs.
struct Opened {
    fd: OwnedFd,
    before: Stat,
    /// Data ranges; empty for a file without holes, which is read from begin to end.
    ranges: Vec<(u64, u64)>,
    in_use: bool,
    /// Which of the group's rows is its.
    row: usize,
    item: usize,
}

/// What became of a file's contents.
enum Read {
    /// They were read, as far as they could be.
    Done,
    /// They changed meanwhile and are to be read again.
    Changed,
    /// The session was stopped before all of them were read.
    Stopped,
}

/// How a file is read.
#[derive(Default, Clone, Copy)]
struct Current {
    /// Past the page cache.
    direct: bool,
    /// Its pages are dropped afterwards: nobody else had them in the cache.
    drop: bool,
}

/// One stream's thread.
pub(super) struct StreamReader<'a> {
    backup: &'a Backup<'a>,
    writer: StreamWriter,
    queue: &'a Queue<Arc<Group>>,
    pieces: &'a Pieces,
    ahead: &'a Ahead,
    /// How the file at hand is read.
    current: Current,
    /// There is no other stream to share a huge file with.
    single: bool,
    links: HardLinks,
    locks: locks::LockTable,
    buffers: source::Buffers,
    reader: source::Reader,
    now: SystemTime,
}

impl<'a> StreamReader<'a> {
    pub(super) fn new(
        backup: &'a Backup<'a>,
        writer: StreamWriter,
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
            current: Current::default(),
            links: HardLinks::default(),
            locks: locks::LockTable::default(),
            buffers: source::Buffers::default(),
            reader: source::Reader::default(),
            now: SystemTime::now(),
        }
    }

    /// Until the walk has ended and nothing is left to read, or the session is stopped. Then the stream ends where it
    /// is, as if it had been killed: rows whose data did not follow are known as incomplete.
    pub(super) fn run(mut self, busy: &Mutex<usize>) -> Result<(), LinkClosed> {
        let mut walked = false;
        while !self.stopped() {
            while !self.stopped()
                && let Some((file, at, len)) = self.pieces.take()
            {
                self.piece(&file, at, len)?;
            }
            if walked {
                // Another stream may still find a huge file: its pieces are for all.
                if *busy.lock() == 0 {
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
                Taken::Closed => {
                    walked = true;
                    *busy.lock() -= 1;
                }
            }
        }
        self.writer.finish()
    }

    fn stopped(&self) -> bool {
        self.backup.stop.load(Relaxed)
    }

    /// Opens a group, sends its rows, then its contents; what changed meanwhile is read again.
    fn group(&mut self, group: &Group) -> Result<(), LinkClosed> {
        let begun = Instant::now();
        self.now = SystemTime::now();
        let retries = self.backup.options.retries;
        let mut todo: Vec<usize> = (0..group.items.len()).collect();
        let mut bytes = 0;
        for attempt in 0..=retries {
            let mut again = Vec::new();
            let mut rows = Vec::with_capacity(todo.len());
            let mut opened = Vec::new();
            for index in &todo {
                self.open(&group.items[*index], *index, attempt > 0, &mut rows, &mut opened);
            }
            // What the fetchers did not get to they need not fetch any more.
            group.fetched.fetch_max(group.items.len(), Relaxed);
            self.writer.mark(Stage::Metadata);
            let names: Vec<_> = opened
                .iter()
                .map(|o: &Opened| (rows[o.row].name.clone(), rows[o.row].size))
                .collect();
            if !rows.is_empty() {
                self.writer.rows(rows)?;
            }
            for (file, (name, size)) in opened.into_iter().zip(names) {
                let index = file.item;
                let item = &group.items[index];
                bytes += size;
                self.begin_file(&file.fd, size, item.ours.load(Relaxed));
                match self.contents(file, &item.dir.path, &name, size, attempt == retries)? {
                    Read::Done => self.count_file(),
                    Read::Changed => again.push(index),
                    Read::Stopped => return Ok(()),
                }
            }
            if again.is_empty() || self.stopped() {
                break;
            }
            self.writer.mark(Stage::Source);
            std::thread::sleep(self.backup.options.retry_wait);
            self.writer.mark_wait_in();
            todo = again;
        }
        // Only small files tell by their time whether the source is cold.
        if bytes < SMALL * group.items.len() as u64 {
            self.ahead.learn(group.items.len(), begun.elapsed());
        }
        Ok(())
    }

    /// Settles how a file is read.
    fn begin_file(&mut self, fd: &OwnedFd, size: u64, ours: bool) {
        self.reader.next_file();
        self.current = Current { direct: false, drop: ours };
        if size >= source::DIRECT_MIN {
            self.current.direct = self.set_direct(fd);
            if !self.current.direct {
                source::will_read_all(fd);
                // Where the kernel cannot drop pages by itself, those of files that nobody had in the cache are dropped.
                self.current.drop |= self.reader.must_drop() && source::is_cold(fd);
            }
        }
    }

    /// Lets a large file be read past the page cache, if it is to be.
    fn set_direct(&self, fd: &OwnedFd) -> bool {
        let wanted = match self.backup.options.mode {
            ReadMode::Direct => true,
            ReadMode::Buffered => false,
            ReadMode::Auto => source::is_cold(fd),
        };
        wanted && source::set_direct(fd)
    }

    /// Makes the row of a name, and opens what has contents.
    fn open(
        &mut self,
        item: &WalkItem,
        index: usize,
        retry: bool,
        rows: &mut Vec<Entry>,
        opened: &mut Vec<Opened>,
    ) {
        if item.gone {
            rows.push(Entry {
                kind: Kind::Tombstone,
                dir: item.dir.path.clone(),
                name: item.listed.name.clone(),
                ..Entry::default()
            });
            return;
        }
        let result = match item.listed.kind {
            Some(Kind::File) => self.open_file(item, index, rows, opened),
            Some(Kind::Dir) => self.open_dir(item),
            _ => self.open_node(item),
        };
        let name = &item.listed.name;
        match result {
            Ok(Some(mut entry)) => {
                entry.replaces = retry || item.base.is_some();
                match entry.kind {
                    Kind::Dir => _ = self.backup.counters.dirs.fetch_add(1, Relaxed),
                    // What has contents counts when they were read.
                    _ if entry.logical_len() > 0 || has_parts(&entry) => {}
                    _ => self.count_file(),
                }
                rows.push(entry);
            }
            Ok(None) => {}
            Err(Errno::NOENT | Errno::NOTDIR | Errno::STALE) => {
                let path = join(&item.dir.path, name);
                self.backup.say(Code::Vanished, &path, "vanished before it was read".to_owned());
            }
            Err(e) => {
                let path = join(&item.dir.path, name);
                self.backup.say(Code::NotOpened, &path, format!("cannot open: {}", text(e)));
            }
        }
    }

    fn open_file(
        &mut self,
        item: &WalkItem,
        index: usize,
        rows: &[Entry],
        opened: &mut Vec<Opened>,
    ) -> Result<Option<Entry>, Errno> {
        let name = &item.listed.name;
        let fd = match source::open_at(&item.dir, name, false) {
            Ok(fd) => fd,
            // It became something else since it was listed.
            Err(Errno::LOOP | Errno::NXIO) => return self.open_node(item),
            Err(e) => return Err(e),
        };
        let before = source::stat(&fd)?;
        let Some(mut entry) = source::entry_of(&item.dir, name, &before) else { return Ok(None) };
        if entry.kind != Kind::File {
            return self.open_node(item);
        }
        if self.backup.selection.sizes.as_ref().is_some_and(|s| !s.contains(&entry.size)) {
            self.backup.counters.skipped.fetch_add(1, Relaxed);
            return Ok(None);
        }
        let options = self.backup.options;
        let in_use = self.in_use(&fd, &before);
        if in_use {
            self.backup.counters.in_use.fetch_add(1, Relaxed);
            let path = entry.path();
            let text = "locked or open for writing".to_owned();
            match options.locked {
                Locked::Warn => self.backup.say(Code::InUse, &path, text),
                Locked::Error => self.backup.say(Code::Locked, &path, text),
                Locked::Skip => {
                    self.backup.say(Code::InUse, &path, text + "; left out");
                    self.backup.counters.skipped.fetch_add(1, Relaxed);
                    return Ok(None);
                }
            }
        }
        if before.st_nlink > 1 && !options.hard_links_as_files {
            let path = entry.path();
            match self.links.first((entry.dev, entry.ino), before.st_nlink, &path) {
                Ok(Some(first)) if first != path => {
                    entry.link = true;
                    entry.target = first;
                    let same = item.base.as_ref().is_some_and(|b| is_same(b, &entry));
                    return Ok(self.unless_kept(same, entry));
                }
                Ok(_) => {}
                Err(e) => {
                    let why =
                        format!("cannot remember its further names, they are stored as files: {e}");
                    self.backup.say(Code::Adapted, &path, why);
                }
            }
        }
        if item.base.as_ref().is_some_and(|b| is_same(b, &entry)) {
            return Ok(self.unless_kept(true, entry));
        }
        self.details(&fd, &mut entry);
        if options.lock_files {
            locks::lock_shared(&fd);
        }
        if entry.size == 0 {
            return Ok(Some(entry));
        }
        let mut ranges = Vec::new();
        if source::may_be_sparse(&before) {
            ranges = source::data_ranges(&fd, entry.size)?;
            if ranges == [(0, entry.size)] {
                ranges.clear();
            } else {
                entry.extents = extents(&ranges, entry.size, ExtentKind::Data);
            }
        }
        let data: u64 =
            if entry.extents.is_empty() { entry.size } else { ranges.iter().map(|r| r.1).sum() };
        if data >= HUGE && !self.single && !in_use {
            let ranges = if ranges.is_empty() { vec![(0, entry.size)] } else { ranges };
            entry.extents = extents(&ranges, entry.size, ExtentKind::Parts);
            let direct = self.set_direct(&fd);
            self.pieces.add(HugeFile::new(fd, entry.clone(), before, direct, ranges));
            return Ok(Some(entry));
        }
        if data > 0 {
            opened.push(Opened { fd, before, ranges, in_use, row: rows.len(), item: index });
        }
        Ok(Some(entry))
    }

    fn unless_kept(&self, kept: bool, entry: Entry) -> Option<Entry> {
        if kept {
            let counters = self.backup.counters;
            let counter = if entry.kind == Kind::Dir { &counters.dirs } else { &counters.kept };
            counter.fetch_add(1, Relaxed);
            return None;
        }
        Some(entry)
    }

    fn open_dir(&mut self, item: &WalkItem) -> Result<Option<Entry>, Errno> {
        let name = &item.listed.name;
        let (stat, fd) = match source::open_at(&item.dir, name, true) {
            Ok(fd) => (source::stat(&fd)?, Some(fd)),
            // That it cannot be listed the walker says; its row is kept.
            Err(Errno::ACCESS | Errno::PERM) => (source::stat_at(&item.dir, name)?, None),
            Err(e) => return Err(e),
        };
        let Some(mut entry) = source::entry_of(&item.dir, name, &stat) else { return Ok(None) };
        if item.base.as_ref().is_some_and(|b| is_same(b, &entry)) {
            return Ok(self.unless_kept(true, entry));
        }
        if let Some(fd) = fd {
            self.details(&fd, &mut entry);
        }
        Ok(Some(entry))
    }

    fn open_node(&mut self, item: &WalkItem) -> Result<Option<Entry>, Errno> {
        let name = &item.listed.name;
        let stat = source::stat_at(&item.dir, name)?;
        let Some(mut entry) = source::entry_of(&item.dir, name, &stat) else { return Ok(None) };
        if entry.kind == Kind::File {
            // A regular file where listing or opening saw something else: it is changing under our hands.
            return Err(Errno::AGAIN);
        }
        if item.base.as_ref().is_some_and(|b| is_same(b, &entry)) {
            return Ok(self.unless_kept(true, entry));
        }
        if entry.kind == Kind::Symlink {
            entry.target = source::read_link(&item.dir, name)?;
        }
        if stat.st_nlink > 1 && entry.kind != Kind::Dir && !self.backup.options.hard_links_as_files
        {
            let path = entry.path();
            if let Ok(Some(first)) = self.links.first((entry.dev, entry.ino), stat.st_nlink, &path)
                && first != path
            {
                entry.link = true;
                entry.target = first;
                return Ok(Some(entry));
            }
        }
        if let Err(e) = source::add_details_at(&item.dir, &mut entry, &mut self.buffers) {
            self.no_metadata(&entry, e);
        }
        Ok(Some(entry))
    }

    fn details(&mut self, fd: &OwnedFd, entry: &mut Entry) {
        if let Err(e) = source::add_details(fd, entry, &mut self.buffers) {
            self.no_metadata(entry, e);
        }
    }

    fn no_metadata(&self, entry: &Entry, e: Errno) {
        let why = format!("cannot read its extended attributes: {}", text(e));
        self.backup.say(Code::NoMetadata, &entry.path(), why);
    }

    fn in_use(&mut self, fd: &OwnedFd, stat: &Stat) -> bool {
        let changed = Duration::from_secs(stat.st_mtime.max(0) as u64);
        let recent = self
            .now
            .duration_since(SystemTime::UNIX_EPOCH + changed)
            .map_or(true, |age| age < RECENT);
        let look = recent || self.backup.options.locked != Locked::Warn;
        self.locks.is_locked(stat) || (look && locks::is_open_for_writing(fd))
    }

    /// Sends a file's contents.
    fn contents(
        &mut self,
        file: Opened,
        dir: &[u8],
        name: &[u8],
        size: u64,
        last: bool,
    ) -> Result<Read, LinkClosed> {
        let whole = [(0, size)];
        let ranges = if file.ranges.is_empty() { &whole[..] } else { &file.ranges };
        let mut failed = false;
        for (at, len) in ranges {
            let read = self.range(&file.fd, dir, name, *at, *len, failed)?;
            if !read && self.stopped() {
                return Ok(Read::Stopped);
            }
            failed |= !read;
        }
        let changed = match source::stat(&file.fd) {
            Ok(after) => source::changed(&file.before, &after),
            Err(_) => false,
        };
        if self.current.drop {
            source::drop_pages(&file.fd);
        }
        drop(file.fd);
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
        Ok(if changed && !last { Read::Changed } else { Read::Done })
    }

    /// Sends `len` bytes from `at`; what cannot be read is filled. Returns whether all was read. Nothing is filled when
    /// the session is stopped: nothing more may be sent then.
    fn range(
        &mut self,
        fd: &OwnedFd,
        dir: &[u8],
        name: &[u8],
        at: u64,
        len: u64,
        silent: bool,
    ) -> Result<bool, LinkClosed> {
        let mut done = 0;
        while done < len {
            if self.stopped() {
                return Ok(false);
            }
            let space = self.writer.space()?;
            let want = space.len().min(usize::try_from(len - done).unwrap_or(usize::MAX));
            let out = &mut space[..want];
            let result = if self.current.direct {
                self.reader.read_direct(fd, out, at + done)
            } else {
                self.reader.read_at(fd, out, at + done)
            };
            match result {
                Ok(0) => {
                    self.writer.fill(len - done)?;
                    if !silent {
                        let text = format!("ends at byte {} while it was read", at + done);
                        self.backup.say(Code::Short, &join(dir, name), text);
                        self.outcome(dir, name, OutcomeCode::Short, 0, at + done);
                    }
                    return Ok(false);
                }
                Ok(n) => {
                    self.writer.advance(n)?;
                    done += n as u64;
                    self.count(n as u64);
                }
                // Accepted when it was asked for, refused when it is done: on through the page cache.
                Err(Errno::INVAL) if self.current.direct && source::clear_direct(fd) => {
                    self.current.direct = false;
                }
                Err(e) => {
                    self.writer.fill(len - done)?;
                    if !silent {
                        self.backup.counters.corrupt.fetch_add(1, Relaxed);
                        let text =
                            format!("cannot be read from byte {} on: {}", at + done, text(e));
                        self.backup.say(Code::Unreadable, &join(dir, name), text);
                        let errno = e.raw_os_error().unsigned_abs();
                        self.outcome(dir, name, OutcomeCode::Unreadable, errno, at + done);
                    }
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn count_file(&self) {
        self.backup.counters.files.fetch_add(1, Relaxed);
    }

    fn count(&self, bytes: u64) {
        self.backup.counters.bytes.fetch_add(bytes, Relaxed);
        self.backup.meters.of(Stage::Source).bytes(bytes);
    }

    fn outcome(&mut self, dir: &[u8], name: &[u8], code: OutcomeCode, errno: u32, offset: u64) {
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
        self.reader.next_file();
        self.current = Current { direct: file.direct, drop: false };
        let silent = file.failed.load(Relaxed);
        if !self.range(&file.fd, dir, name, at, len, silent)? {
            if self.stopped() {
                return Ok(());
            }
            file.failed.store(true, Relaxed);
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

fn has_parts(entry: &Entry) -> bool {
    entry.extents.iter().any(|x| x.kind == ExtentKind::Parts)
}

fn taken_is_nothing<T>(taken: &Taken<T>) -> bool {
    matches!(taken, Taken::Nothing)
}

/// Whether the base has this very state of the file, whole.
fn is_same(base: &BaseRow, entry: &Entry) -> bool {
    base.complete
        && base.kind == entry.kind
        && base.size == entry.size
        && base.mtime == entry.mtime
        && base.ctime == entry.ctime
        && base.ino == entry.ino
}

/// The extents of a file of `size` bytes with these data ranges; what is between them is hole.
fn extents(ranges: &[(u64, u64)], size: u64, kind: ExtentKind) -> Vec<Extent> {
    let mut extents = Vec::with_capacity(ranges.len() * 2 + 1);
    let mut at = 0;
    for (from, len) in ranges {
        if *from > at {
            extents.push(Extent { len: from - at, kind: ExtentKind::Hole });
        }
        extents.push(Extent { len: *len, kind: kind.clone() });
        at = from + len;
    }
    if at < size {
        extents.push(Extent { len: size - at, kind: ExtentKind::Hole });
    }
    extents
}
