//! Contents of a file that is open: held against what the base has of them, and planned to be read.

use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::message::Code;
use capstan_format::entry::{Entry, Extent, ExtentKind, Kind, OutcomeCode, join};
use rustix::fs::Stat;
use rustix::io::Errno;

use super::reader::{Opened, StreamReader};
use super::rest::Rest;
use super::{KEPT, text};
use crate::backup::huge::{HUGE, HugeFile};
use crate::linux::source;
use crate::linux::source_file::SourceFile;
use crate::walk::{OfStat, WalkItem};
use capstan_port::disk::base::BaseRow;

/// A file that is open to be read.
pub(super) struct OpenFile {
    pub fd: SourceFile,
    pub before: Stat,
    pub entry: Entry,
    pub in_use: bool,
}

/// What is to be done with a file's contents.
pub(super) enum Contents {
    /// Nothing: its row, if it has one.
    Settled(Option<Entry>),
    /// They are read, as far as they are not stored yet.
    Wanted(OpenFile),
}

impl StreamReader<'_> {
    /// Holds a file's contents against what the base has.
    pub(super) fn held_against_base(
        &mut self,
        item: &WalkItem,
        mut file: OpenFile,
        is_like_base: bool,
    ) -> Contents {
        let OpenFile { fd, before, entry, in_use } = &mut file;
        let is_as_before = match *in_use && !is_like_base {
            true => Ok(false),
            false => self.has_contents_of_base(item, fd, entry, before, is_like_base),
        };
        match is_as_before {
            Err(e) => {
                self.say_kept(&entry.path(), e);
                // What the base has under this name may be another file.
                self.forget_first();
                Contents::Settled(None)
            }
            Ok(true) if is_like_base => {
                // Its bytes count as read.
                self.count_kept(0);
                Contents::Settled(None)
            }
            Ok(true) => {
                let base = ExtentKind::AsIn(self.backup.base.unwrap_or_default());
                entry.extents = vec![Extent { len: entry.size, kind: base }];
                self.count_moved(entry.size);
                Contents::Settled(Some(file.entry))
            }
            Ok(false) => Contents::Wanted(file),
        }
    }

    /// Has what of a file's contents is not stored yet read: as a whole, by its ranges, or in pieces that all streams share.
    pub(super) fn plan_read(
        &mut self,
        item: &WalkItem,
        index: usize,
        file: OpenFile,
        opened: &mut Vec<Opened>,
        sum: &mut Option<u64>,
    ) -> Result<Option<Entry>, Errno> {
        let OpenFile { mut fd, before, mut entry, in_use } = file;
        let known =
            if in_use { None } else { self.known_elsewhere(item, &mut fd, &entry, &before) };
        // Of a file that nobody writes to, and that is as it was, the rest is enough.
        let saved = item
            .base
            .as_ref()
            .filter(|b| !in_use && is_alike(b, &before, &entry) && b.is_certainly_of(&before));
        let saved = known.as_ref().map(|known| &known.base).or(saved);
        let saved = saved.map(|b| b.saved.as_slice()).unwrap_or_default();
        let is_sparse = source::may_be_sparse(&before);
        // Most files are read from begin to end.
        if !is_sparse && saved.is_empty() && (entry.size < HUGE || self.single || in_use) {
            let size = entry.size;
            opened.push(Opened { fd, before, ranges: Vec::new(), in_use, size, item: index });
            return Ok(Some(entry));
        }
        let mut ranges = vec![(0, entry.size)];
        if is_sparse {
            ranges = source::data_ranges(&fd, entry.size)?;
        }
        let is_as_known = known.as_ref().is_some_and(|known| known.base.has_data_in(&ranges));
        let rest = Rest::of(&ranges, saved);
        if known.is_some() {
            self.count_moved(rest.kept());
        }
        // What was read counts as that.
        if known.as_ref().is_none_or(|known| !known.was_read) {
            self.backup.counters.kept_bytes.fetch_add(rest.kept(), Relaxed);
        }
        if is_as_known && rest.ranges().is_empty() {
            *sum = known.and_then(|known| known.base.sum);
        }
        let data: u64 = rest.ranges().iter().map(|r| r.1).sum();
        if data >= HUGE && !self.single && !in_use {
            entry.extents = rest.extents(entry.size, &ExtentKind::Parts);
            let ranges = rest.into_ranges();
            self.set_direct(&mut fd, self.backup.options.mode);
            // Its row would promise pieces, which other streams read: whether it can be read at all is seen before.
            if let Err(e) = self.first_byte(&fd, &before, ranges[0].0)
                && self.kept_of_base(item, &fd, &before, true).is_some()
            {
                self.say_kept(&entry.path(), e);
                self.forget_first();
                return Ok(None);
            }
            self.pieces.add(HugeFile::new(fd, entry.clone(), before, ranges));
            return Ok(Some(entry));
        }
        let mut ranges = Vec::new();
        if !rest.is_whole(entry.size) {
            entry.extents = rest.extents(entry.size, &ExtentKind::Data);
            ranges = rest.into_ranges();
        }
        if data > 0 {
            opened.push(Opened { fd, before, ranges, in_use, size: entry.size, item: index });
        }
        Ok(Some(entry))
    }
}

impl StreamReader<'_> {
    /// Says that a file cannot be read, and that its version has of it what the base has.
    pub(super) fn say_kept(&self, path: &[u8], e: Errno) {
        let why = format!("cannot be read: {}; {}", text(e), KEPT);
        self.backup.say(Code::Unreadable, path, why);
    }

    /// Says that a file ends at that byte, or, with an error, that it cannot be read from there on.
    pub(super) fn say_cut(&mut self, dir: &[u8], name: &[u8], at: u64, why: Option<Errno>) {
        let path = join(dir, name);
        let Some(e) = why else {
            let text = format!("ends at byte {at} while it was read");
            self.backup.say(Code::Short, &path, text);
            return self.outcome(dir, name, OutcomeCode::Short, 0, at);
        };
        self.backup.counters.corrupt.fetch_add(1, Relaxed);
        self.backup.counters.add_cut(&path);
        let text = format!("cannot be read from byte {at} on: {}", text(e));
        self.backup.say(Code::Unreadable, &path, text);
        self.outcome(dir, name, OutcomeCode::Unreadable, e.raw_os_error().unsigned_abs(), at);
    }

    /// The row of a file that cannot be read, with the contents that the base has of it: where these are as long, or nothing at all
    /// of the new ones could be read. Its times are those of the base, so that it is read again the next time.
    pub(super) fn kept_of_base(
        &mut self,
        item: &WalkItem,
        file: &SourceFile,
        before: &Stat,
        is_nothing_read: bool,
    ) -> Option<Entry> {
        let as_in = self.backup.base?;
        let base = item.base.as_ref().filter(|b| b.complete && b.kind == Kind::File)?;
        let mut entry = source::entry_of(&item.dir, &item.listed.name, before)?;
        // Further names of it, which have rows by now, would be links to another file.
        let is_alone = before.st_nlink <= 1 || self.backup.options.hard_links_as_files;
        let is_it = is_alone || base.ino == entry.ino;
        if base.link_to.is_some() || !is_it || !(is_nothing_read || base.size == entry.size) {
            return None;
        }
        self.details(file, &mut entry);
        (entry.size, entry.mtime, entry.ctime) = (base.size, base.mtime, base.ctime);
        entry.replaces = true;
        if base.size > 0 {
            entry.extents = vec![Extent { len: base.size, kind: ExtentKind::AsIn(as_in) }];
        }
        Some(entry)
    }
}

/// Whether the file is as it was when the base's row was made.
pub(super) fn is_alike(base: &BaseRow, stat: &Stat, entry: &Entry) -> bool {
    base.is_of(stat) && base.link_to.as_ref() == entry.link.then_some(&entry.target)
}
