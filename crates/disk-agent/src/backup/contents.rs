//! Contents of a file that is open: held against what the base has of them, and planned to be read.

use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::message::Code;
use capstan_format::entry::{Entry, Extent, ExtentKind};
use rustix::fs::Stat;
use rustix::io::Errno;

use super::reader::{Opened, StreamReader};
use super::rest::Rest;
use super::{KEPT, text};
use crate::backup::huge::{HUGE, HugeFile};
use crate::linux::source;
use crate::linux::source_file::SourceFile;
use crate::walk::{BaseRow, WalkItem};

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
                let why = format!("cannot be read: {}; {}", text(e), KEPT);
                self.backup.say(Code::Unreadable, &entry.path(), why);
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

/// Whether the file is as it was when the base's row was made.
pub(super) fn is_alike(base: &BaseRow, stat: &Stat, entry: &Entry) -> bool {
    base.is_of(stat) && base.link_to.as_ref() == entry.link.then_some(&entry.target)
}
