//! A name's row: what is opened, what stat, its attributes and the base say of it.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use capstan_engine::message::Code;
use capstan_format::entry::{Entry, ExtentKind, Kind, join};
use capstan_wire::backup::Locked;
use rustix::fs::Stat;
use rustix::io::Errno;

use super::contents::{Contents, OpenFile, is_alike};
use super::reader::{Opened, StreamReader};
use super::{KEPT, text};
use crate::ctime;
use crate::linux::source_file::SourceFile;
use crate::linux::{locks, source};
use crate::walk::{OfStat, WalkItem};
use capstan_port::disk::base::BaseRow;

/// A file that was changed this short a time ago may still be open for writing.
const RECENT: Duration = Duration::from_secs(120);

/// How often a name is looked at once more that was something else each time.
const CHANGES: usize = 3;

/// The row that says that a name of the base is gone.
fn tombstone(item: &WalkItem) -> Entry {
    Entry {
        kind: Kind::Tombstone,
        dir: item.dir.path.clone(),
        name: item.listed.name.clone(),
        ..Entry::default()
    }
}

impl StreamReader<'_> {
    /// Makes the row of a name, and opens what has contents. `held`: it is read again, from this file, whatever has its name now.
    pub(super) fn open(
        &mut self,
        item: &WalkItem,
        index: usize,
        retry: bool,
        held: Option<SourceFile>,
        rows: &mut Vec<NewRow>,
        opened: &mut Vec<Opened>,
    ) {
        if item.gone {
            rows.push((tombstone(item), None));
            return;
        }
        let mut sum = None;
        self.first_of = None;
        let mut result = match item.listed.kind {
            Some(Kind::File) => self.open_file(item, index, (retry, held), opened, &mut sum),
            Some(Kind::Dir) => self.open_dir(item),
            _ => self.open_node(item),
        };
        for _ in 0..CHANGES {
            if !matches!(result, Err(Errno::AGAIN)) {
                break;
            }
            result = self.open_file(item, index, (retry, None), opened, &mut sum);
        }
        let name = &item.listed.name;
        let is_as_met = match &result {
            Ok(Some(e)) => self.first_of == Some((e.dev, e.ino)),
            Ok(None) => true,
            Err(_) => false,
        };
        if !is_as_met {
            self.forget_first();
        }
        if let Err(e) = &result
            && !matches!(*e, Errno::NOENT | Errno::NOTDIR)
            && let Some(entry) = self.unopened_elsewhere(item, &mut sum)
        {
            let why =
                format!("cannot open: {}; it was moved, and {KEPT} under this name", text(*e));
            self.backup.say(Code::NotOpened, &entry.path(), why);
            result = Ok(Some(entry));
        }
        match result {
            Ok(Some(entry)) if entry.kind == Kind::Tombstone => rows.push((entry, None)),
            Ok(Some(mut entry)) => {
                entry.replaces = retry || item.base.is_some();
                let is_kernels = self.clocks.is_kernels(&item.dir, entry.dev);
                entry.ctime = ctime::recorded(entry.ctime, self.now, is_kernels);
                match entry.kind {
                    Kind::Dir => _ = self.backup.counters.dirs.fetch_add(1, Relaxed),
                    // What has contents counts when they were read.
                    _ if entry.logical_len() > 0 || has_parts(&entry) => {}
                    _ => {
                        self.backup.counters.no_contents.fetch_add(1, Relaxed);
                        self.count_file();
                    }
                }
                rows.push((entry, sum));
            }
            Ok(None) => {}
            // A stale handle does not say that: of a server that was started anew all files have one.
            Err(Errno::NOENT | Errno::NOTDIR) => {
                let path = join(&item.dir.path, name);
                self.backup.say(Code::Vanished, &path, "vanished before it was read".to_owned());
            }
            Err(e) => {
                let path = join(&item.dir.path, name);
                self.backup.say(Code::NotOpened, &path, format!("cannot open: {}", text(e)));
            }
        }
    }

    /// Holds a regular file against the base by what stat says of it. Nothing is opened for that: most files of most
    /// incrementals are as they were.
    fn glance(&mut self, item: &WalkItem) -> Result<Glance, Errno> {
        let not_yet = Ok(Glance::Open);
        let Some(base) = item.base.as_ref().filter(|b| b.complete && b.kind == Kind::File) else {
            return not_yet;
        };
        let stat = stat_of(item)?;
        let selected = self.backup.selection.takes_size(base.size);
        if !selected || !base.is_certainly_of(&stat) || self.may_be_in_use(&stat) {
            return not_yet;
        }
        let kept = |link: bool| Glance::Kept { bytes: if link { 0 } else { base.size } };
        if stat.st_nlink <= 1 || self.backup.options.hard_links_as_files {
            return if base.link_to.is_none() { Ok(kept(false)) } else { not_yet };
        }
        let path = join(&item.dir.path, &item.listed.name);
        Ok(match self.first_name(item, &stat, &path) {
            Some(first) if base.link_to.as_ref() == Some(&first) => kept(true),
            Some(first) => match source::entry_of(&item.dir, &item.listed.name, &stat) {
                Some(entry) => Glance::Link(Box::new(Entry { link: true, target: first, ..entry })),
                None => Glance::Open,
            },
            None if base.link_to.is_none() => kept(false),
            None => Glance::Open,
        })
    }

    /// The first name of a file that has several, where that is another one. To be asked once for each name.
    pub(super) fn first_name(
        &mut self,
        item: &WalkItem,
        stat: &Stat,
        path: &[u8],
    ) -> Option<Vec<u8>> {
        self.forget_first();
        let inode = (stat.st_dev, stat.st_ino);
        let born = || source::born_at(&item.dir, &item.listed.name, stat);
        match self.links.first(stat, path, self.now, born) {
            Ok(first) => {
                let first = first.filter(|first| first != path);
                self.first_of = first.is_none().then_some(inode);
                first
            }
            Err(e) => {
                self.first_of = Some(inode);
                let why =
                    format!("cannot remember its further names, they are stored as files: {e}");
                self.backup.say(Code::Adapted, path, why);
                None
            }
        }
    }

    /// The name at hand has nothing of the inode that it was remembered as the first name of: the next one is.
    pub(super) fn forget_first(&mut self) {
        if let Some(inode) = self.first_of.take() {
            self.links.forget(inode);
        }
    }

    /// `sum` is set to the checksum of contents that lie elsewhere, where that is known. What is read again has a row whatever the base
    /// has: it takes the place of that of the first reading.
    fn open_file(
        &mut self,
        item: &WalkItem,
        index: usize,
        (retry, held): (bool, Option<SourceFile>),
        opened: &mut Vec<Opened>,
        sum: &mut Option<u64>,
    ) -> Result<Option<Entry>, Errno> {
        let name = &item.listed.name;
        let is_held = held.is_some();
        let fd = match held {
            Some(fd) => fd,
            None => match self.open_named(item, retry)? {
                Named::Open(fd) => fd,
                Named::Settled(row) => return Ok(row.map(|row| *row)),
            },
        };
        let before = source::stat(&fd)?;
        let Some(mut entry) = source::entry_of(&item.dir, name, &before) else { return Ok(None) };
        if entry.kind != Kind::File {
            return self.open_node(item);
        }
        // What is read again was of such a size: its further names are links to it.
        if !is_held && !self.backup.selection.takes_size(entry.size) {
            self.backup.counters.skipped.fetch_add(1, Relaxed);
            // A version does not have what its options leave out, whatever its base has.
            return Ok(item.base.as_ref().map(|_| tombstone(item)));
        }
        let options = self.backup.options;
        let in_use = self.in_use(&fd, &before);
        if in_use && self.is_left_out_in_use(item, &entry) {
            return Ok(None);
        }
        // Its names were asked for at a glance, if that saw this very file.
        let known_as_first = is_held || self.first_of == Some((before.st_dev, before.st_ino));
        if before.st_nlink > 1 && !options.hard_links_as_files && !known_as_first {
            let path = entry.path();
            if let Some(first) = self.first_name(item, &before, &path) {
                entry.link = true;
                entry.target = first;
                let same = item.base.as_ref().is_some_and(|b| is_same(b, &before, &entry));
                return Ok(self.unless_kept(same && !retry, entry));
            }
        }
        let base = item.base.as_ref().filter(|b| !retry && is_same(b, &before, &entry));
        if base.is_some_and(|b| b.is_certainly_of(&before)) {
            return Ok(self.unless_kept(true, entry));
        }
        if in_use && self.is_recent(&before) {
            // Who has it mapped may change a page again that is not written back yet, and no time shows that: it is read the next time.
            entry.ctime = ctime::earlier(entry.ctime);
        }
        self.details(&fd, &mut entry);
        if options.lock_files {
            locks::lock_shared(&fd);
        }
        // Only its contents can tell whether anything changed.
        let is_like_base = base.is_some_and(|base| has_details_of(base, &entry));
        if entry.size == 0 {
            return Ok(self.unless_kept(is_like_base, entry));
        }
        let file = OpenFile { fd, before, entry, in_use };
        match self.held_against_base(item, file, is_like_base) {
            Contents::Settled(row) => Ok(row),
            Contents::Wanted(file) => self.plan_read(item, index, file, opened, sum),
        }
    }

    /// Opens a file by its name, unless a glance is enough.
    fn open_named(&mut self, item: &WalkItem, retry: bool) -> Result<Named, Errno> {
        let glance = if retry { Glance::Open } else { self.glance(item)? };
        match glance {
            Glance::Kept { bytes } => {
                self.count_kept(bytes);
                return Ok(Named::Settled(None));
            }
            Glance::Link(entry) => return Ok(Named::Settled(Some(entry))),
            Glance::Open => {}
        }
        match SourceFile::open(&item.dir, &item.listed.name) {
            Ok(file) => Ok(Named::Open(file)),
            // It became something else since it was listed.
            Err(Errno::LOOP | Errno::NXIO) => {
                let row = self.open_node(item)?;
                Ok(Named::Settled(row.map(Box::new)))
            }
            Err(e) => Err(e),
        }
    }

    /// Says that a file is in use. Whether it is left out for that.
    fn is_left_out_in_use(&mut self, item: &WalkItem, entry: &Entry) -> bool {
        self.backup.counters.in_use.fetch_add(1, Relaxed);
        let path = entry.path();
        let text = "locked or open for writing".to_owned();
        match self.backup.options.locked {
            Locked::Warn => self.backup.say(Code::InUse, &path, text),
            Locked::Error => self.backup.say(Code::Locked, &path, text),
            Locked::Skip => {
                let kept =
                    if item.base.is_some() { KEPT } else { "this version has nothing of it" };
                let text = format!("{text}; left out: {kept}");
                self.backup.say(Code::LockedLeftOut, &path, text);
                self.backup.counters.skipped.fetch_add(1, Relaxed);
                return true;
            }
        }
        false
    }

    fn unless_kept(&self, kept: bool, entry: Entry) -> Option<Entry> {
        if kept {
            match entry.kind {
                Kind::Dir => _ = self.backup.counters.dirs.fetch_add(1, Relaxed),
                _ => self.count_kept(if entry.link { 0 } else { entry.size }),
            }
            return None;
        }
        Some(entry)
    }

    pub(super) fn count_kept(&self, bytes: u64) {
        self.backup.counters.kept.fetch_add(1, Relaxed);
        self.backup.counters.kept_bytes.fetch_add(bytes, Relaxed);
    }

    pub(super) fn count_moved(&self, bytes: u64) {
        self.backup.counters.moved.fetch_add(1, Relaxed);
        self.backup.counters.moved_bytes.fetch_add(bytes, Relaxed);
    }

    /// A directory's row: of what has its name, or else of what was entered by that name.
    fn open_dir(&mut self, item: &WalkItem) -> Result<Option<Entry>, Errno> {
        let e = match self.open_dir_by_name(item) {
            Err(e) => e,
            found => return found,
        };
        let Some(found) = item.entered.as_ref().and_then(|entered| entered.not_found()) else {
            return Err(e);
        };
        let entry = source::entry_of(&item.dir, &item.listed.name, &found.stat);
        let Some(mut entry) = entry else { return Err(e) };
        let dir = found.dir.upgrade();
        // All that was in it was read by then: it is gone, and with it what nobody asked for yet.
        let less = if dir.is_some() { "" } else { ", without extended attributes" };
        let why = format!("{} after it was entered; it is backed up as it was then{less}", text(e));
        self.backup.say(Code::Vanished, &entry.path(), why);
        if let Some(dir) = dir {
            self.details(&dir.fd, &mut entry);
        }
        Ok(Some(entry))
    }

    fn open_dir_by_name(&mut self, item: &WalkItem) -> Result<Option<Entry>, Errno> {
        let name = &item.listed.name;
        if let Some(base) = item.base.as_ref().filter(|b| b.complete && b.link_to.is_none())
            && base.kind == Kind::Dir
            && base.is_certainly_of(&stat_of(item)?)
        {
            self.backup.counters.dirs.fetch_add(1, Relaxed);
            return Ok(None);
        }
        let (stat, fd) = match source::open_at(&item.dir, name, true) {
            Ok(fd) => (source::stat(&fd)?, Some(fd)),
            // That it cannot be listed the walker says; its row is kept.
            Err(Errno::ACCESS | Errno::PERM) => (source::stat_at(&item.dir, name)?, None),
            Err(e) => return Err(e),
        };
        let Some(mut entry) = source::entry_of(&item.dir, name, &stat) else { return Ok(None) };
        let base = item.base.as_ref().filter(|b| is_same(b, &stat, &entry));
        if base.is_some_and(|b| b.is_certainly_of(&stat)) {
            return Ok(self.unless_kept(true, entry));
        }
        let Some(fd) = fd else { return Ok(self.unless_kept(base.is_some(), entry)) };
        self.details(&fd, &mut entry);
        Ok(self.unless_kept(base.is_some_and(|base| has_details_of(base, &entry)), entry))
    }

    fn open_node(&mut self, item: &WalkItem) -> Result<Option<Entry>, Errno> {
        let name = &item.listed.name;
        let mut stat = stat_of(item)?;
        // What was asked ahead may be older than `now`: of what is to be stored it is asked again.
        if item.stat.get().is_some() && !item.base.as_ref().is_some_and(|b| b.is_of(&stat)) {
            stat = source::stat_at(&item.dir, name)?;
        }
        let Some(mut entry) = source::entry_of(&item.dir, name, &stat) else { return Ok(None) };
        if entry.kind == Kind::File {
            // A regular file where listing or opening saw something else: it is changing under our hands.
            return Err(Errno::AGAIN);
        }
        // Before it is held against the base: the first name of an inode is remembered also where nothing changed.
        if stat.st_nlink > 1 && entry.kind != Kind::Dir && !self.backup.options.hard_links_as_files
        {
            let path = entry.path();
            if let Some(first) = self.first_name(item, &stat, &path) {
                entry.link = true;
                entry.target = first;
                let same = item.base.as_ref().is_some_and(|b| is_same(b, &stat, &entry));
                return Ok(self.unless_kept(same, entry));
            }
        }
        let base = item.base.as_ref().filter(|b| is_same(b, &stat, &entry));
        if base.is_some_and(|b| b.is_certainly_of(&stat)) {
            return Ok(self.unless_kept(true, entry));
        }
        if entry.kind == Kind::Symlink {
            entry.target = source::read_link(&item.dir, name)?;
        }
        match source::add_details_at(&item.dir, &mut entry, &mut self.buffers) {
            Ok(()) => {}
            // It was removed since.
            Err(e @ (Errno::NOENT | Errno::NOTDIR)) => return Err(e),
            Err(e) => self.no_metadata(&entry, e),
        }
        Ok(self.unless_kept(base.is_some_and(|base| has_details_of(base, &entry)), entry))
    }

    pub(super) fn details(&mut self, fd: impl AsFd, entry: &mut Entry) {
        if let Err(e) = source::add_details(fd, entry, &mut self.buffers) {
            self.no_metadata(entry, e);
        }
    }

    fn no_metadata(&self, entry: &Entry, e: Errno) {
        let why = format!("cannot read its extended attributes: {}", text(e));
        self.backup.say(Code::NoMetadata, &entry.path(), why);
    }

    fn in_use(&mut self, fd: &SourceFile, stat: &Stat) -> bool {
        self.locks.is_locked(stat) || (self.is_looked_at(stat) && locks::is_open_for_writing(fd))
    }

    /// Whether only opening the file tells if it is in use.
    fn may_be_in_use(&mut self, stat: &Stat) -> bool {
        self.locks.is_locked(stat) || self.is_looked_at(stat)
    }

    /// Whether what was written may not all be on the disk yet.
    fn is_recent(&self, stat: &Stat) -> bool {
        let changed = Duration::from_secs(stat.st_mtime.max(0) as u64);
        let age = self.now.duration_since(SystemTime::UNIX_EPOCH + changed);
        age.map_or(true, |age| age < RECENT)
    }

    /// Whether it is asked of a file if somebody has it open for writing.
    fn is_looked_at(&self, stat: &Stat) -> bool {
        self.is_recent(stat) || self.backup.options.locked != Locked::Warn
    }
}

/// A row, and the checksum of its file's contents where they lie elsewhere and it is known.
pub(super) type NewRow = (Entry, Option<u64>);

/// What came of opening a name.
enum Named {
    /// It is open.
    Open(SourceFile),
    /// It need not be: its row, if it has one.
    Settled(Option<Box<Entry>>),
}

/// What a glance at a file that the base has tells.
enum Glance {
    /// The base has this state of it, with so many bytes.
    Kept { bytes: u64 },
    /// It is a further name of a file that was met before.
    Link(Box<Entry>),
    /// It is to be opened.
    Open,
}

/// What stat says of a name, which may have been asked ahead.
fn stat_of(item: &WalkItem) -> Result<Stat, Errno> {
    match item.stat.get() {
        Some(stat) => Ok(**stat),
        None => source::stat_at(&item.dir, &item.listed.name),
    }
}

fn has_parts(entry: &Entry) -> bool {
    entry.extents.iter().any(|x| x.kind == ExtentKind::Parts)
}

/// Whether the base has this very state of the file, whole.
fn is_same(base: &BaseRow, stat: &Stat, entry: &Entry) -> bool {
    base.complete && is_alike(base, stat, entry)
}

/// Whether the base has the details of this row.
fn has_details_of(base: &BaseRow, entry: &Entry) -> bool {
    base.details.as_ref().is_some_and(|details| details.are_of(entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_port::disk::base::Access;

    fn base_of(stat: &Stat, access: Option<Access>) -> BaseRow {
        BaseRow {
            complete: true,
            sum: None,
            kind: Kind::CharDevice,
            access,
            details: None,
            size: 0,
            mtime: source::mtime_of(stat),
            ctime: source::ctime_of(stat),
            ino: stat.st_ino,
            dev: stat.st_dev,
            data: None,
            link_to: None,
            saved: Vec::new(),
        }
    }

    #[test]
    fn where_ctime_may_be_mtime_only_a_further_name_is_certain() {
        let mut stat = rustix::fs::stat("/dev/null").unwrap();
        (stat.st_mtime, stat.st_mtime_nsec) = (1_700_000_000, 0);
        (stat.st_ctime, stat.st_ctime_nsec) = (1_700_000_001, 0);
        assert!(base_of(&stat, None).is_certainly_of(&stat));
        stat.st_ctime = stat.st_mtime;
        let mut base = base_of(&stat, None);
        assert!(base.is_of(&stat) && !base.is_certainly_of(&stat));
        base.link_to = Some(b"first".to_vec());
        assert!(base.is_certainly_of(&stat));
        base.size = 1;
        assert!(!base.is_certainly_of(&stat), "it is another one");
    }

    #[test]
    fn what_stat_gives_anyway_is_held_against_the_base() {
        let stat = rustix::fs::stat("/dev/null").unwrap();
        let access = source::access_of(Kind::CharDevice, &stat);
        let base = |access| base_of(&stat, access);
        assert_eq!((access.rdev, access.mode & 0o666), ((1, 3), 0o666));
        assert!(base(Some(access)).is_of(&stat) && base(None).is_of(&stat));
        for other in [
            Access { mode: access.mode ^ 1, ..access },
            Access { uid: access.uid + 1, ..access },
            Access { gid: access.gid + 1, ..access },
            Access { rdev: (1, 5), ..access },
        ] {
            assert!(!base(Some(other)).is_of(&stat), "{other:?}");
        }
    }
}
