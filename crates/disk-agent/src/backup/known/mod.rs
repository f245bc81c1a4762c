//! Files that the base has under other names, or has as they are but for their times: their contents are not saved again.
//!
//! What stat says is enough where nothing can have been written since: the inode was there when the base was saved, and its size
//! and both its times, to the nanosecond, are as they were. The time of change (ctime) is the kernel's: nobody puts it back, where
//! the file system [has one](ctime::proves_contents).
//! It stays where a directory above the file was moved; where the file itself was, it is a new one, and then, as with all else that is
//! not certain, the contents are read and held against the checksum that the base has of them.

pub(super) mod by_inode;
mod inodes;

use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::message::Code;
use capstan_format::entry::{Entry, ExtentKind, Kind};
use capstan_wire::backup::ReadMode;
use rustix::fs::Stat;
use rustix::io::Errno;

use super::reader::StreamReader;
use super::rest::Rest;
use crate::backup::huge::HUGE;
use crate::linux::source;
use crate::linux::source_file::SourceFile;
use crate::walk::WalkItem;
use capstan_port::disk::base::BaseRow;
use capstan_port::disk::ctime;

/// A file that the base has elsewhere.
pub(super) struct Known {
    pub base: BaseRow,
    /// It was read to see that.
    pub was_read: bool,
}

impl StreamReader<'_> {
    /// What the base has of a regular file that it has under another name, or has under this one as another file.
    pub(super) fn known_elsewhere(
        &mut self,
        item: &WalkItem,
        file: &mut SourceFile,
        entry: &Entry,
        before: &Stat,
    ) -> Option<Known> {
        let known = self.backup.known.as_ref()?;
        let is_here = |b: &BaseRow| {
            let of_this = b.kind == Kind::File && b.ino == entry.ino && b.link_to.is_none();
            of_this && b.complete
        };
        if item.base.as_ref().is_some_and(is_here) {
            return None;
        }
        let born = source::born(&*file);
        if born.is_some_and(|born| born > known.saved_by()) {
            return None;
        }
        let mut found = match known.find(entry.ino, entry.size, self.backup.stop) {
            Ok(found) => found,
            Err(_) if self.backup.stop.load(Relaxed) => return None,
            Err(why) => {
                let text = format!("files that were moved are saved anew: {why}");
                self.backup.say(Code::Adapted, &entry.path(), text);
                return None;
            }
        };
        if let Some(at) = found.iter().position(|b| born.is_some() && is_untouched(b, entry)) {
            return Some(Known { base: found.swap_remove(at), was_read: false });
        }
        found.retain(|b| is_worth_reading(b, entry));
        // What cannot be read is found out once more when it is saved.
        let at = self.with_same_contents(item, file, entry, before, &found).ok()??;
        Some(Known { base: found.swap_remove(at), was_read: true })
    }

    /// The row of a regular file that cannot be opened and that the base has under another name, by its inode, size and mtime. Its
    /// time of change (ctime) is the one that the base has, so that it is opened again the next time. `sum` is set to the
    /// checksum of its contents.
    pub(super) fn unopened_elsewhere(
        &mut self,
        item: &WalkItem,
        sum: &mut Option<u64>,
    ) -> Option<Entry> {
        let known = self.backup.known.as_ref()?;
        let stat = source::stat_at(&item.dir, &item.listed.name).ok()?;
        let mut entry = source::entry_of(&item.dir, &item.listed.name, &stat)?;
        let is_selected = self.backup.selection.takes_size(entry.size);
        let is_here = |b: &BaseRow| b.kind == Kind::File && b.ino == entry.ino;
        if entry.kind != Kind::File || !is_selected || item.base.as_ref().is_some_and(is_here) {
            return None;
        }
        if stat.st_nlink > 1
            && !self.backup.options.hard_links_as_files
            && let Some(first) = self.first_name(item, &stat, &entry.path())
        {
            (entry.link, entry.target) = (true, first);
            return Some(entry);
        }
        // Where the table cannot be made it was said, or is when a file is asked for that can be opened.
        let found = known.find(entry.ino, entry.size, self.backup.stop).unwrap_or_default();
        let is_it = |b: &BaseRow| {
            (b.dev, b.ino, b.size, b.mtime) == (entry.dev, entry.ino, entry.size, entry.mtime)
        };
        let rest = found.into_iter().find(is_it).map(|base| {
            let ranges = base.data.clone().unwrap_or_else(|| vec![(0, base.size)]);
            (Rest::of(&ranges, &base.saved), base)
        });
        let Some((rest, base)) = rest.filter(|(rest, _)| rest.ranges().is_empty()) else {
            self.forget_first();
            return None;
        };
        entry.extents = rest.extents(entry.size, &ExtentKind::Data);
        entry.ctime = base.ctime;
        *sum = base.sum;
        self.count_moved(rest.kept());
        self.backup.counters.kept_bytes.fetch_add(rest.kept(), Relaxed);
        Some(entry)
    }

    /// Whether a file that was touched, or of which stat does not tell, has the very contents that the base has under this name.
    /// `is_like_base`: all else is as it is there, so that it needs no row. An error says why it cannot be read.
    pub(super) fn has_contents_of_base(
        &mut self,
        item: &WalkItem,
        file: &mut SourceFile,
        entry: &Entry,
        before: &Stat,
        is_like_base: bool,
    ) -> Result<bool, Errno> {
        // What goes on with an earlier run of its version has no base that a row can refer to.
        let is_of_use = is_like_base || self.backup.base.is_some();
        let Some(base) = item.base.as_ref().filter(|b| b.complete && is_of_use) else {
            return Ok(false);
        };
        let alike = base.kind == Kind::File && base.size == entry.size && base.link_to.is_none();
        if !alike || !is_worth_reading(base, entry) {
            return Ok(false);
        }
        let of = std::slice::from_ref(base);
        Ok(self.with_same_contents(item, file, entry, before, of)?.is_some())
    }

    /// Which of these files of the base, of the same length, has the contents of one. It is read for that, if it can be.
    fn with_same_contents(
        &mut self,
        item: &WalkItem,
        file: &mut SourceFile,
        entry: &Entry,
        before: &Stat,
        of: &[BaseRow],
    ) -> Result<Option<usize>, Errno> {
        let mut ranges = vec![(0, entry.size)];
        if source::may_be_sparse(before) {
            ranges = source::data_ranges(&*file, entry.size)?;
        }
        // The checksum leaves holes out: they have to be where they were.
        let is_alike = |b: &BaseRow| b.sum.is_some() && b.has_data_in(&ranges);
        if !of.iter().any(is_alike) {
            return Ok(None);
        }
        // What turns out to be new is read once more: out of the page cache, unless it is large.
        let mut mode = self.backup.options.mode;
        if entry.size < HUGE && mode == ReadMode::Auto && file.is_cold() {
            file.prefetch_all();
            item.ours.store(true, Relaxed);
            mode = ReadMode::Buffered;
        }
        // What is new counts when it is read to be stored; a large one is counted while it is read, since it is seldom new.
        let is_large = entry.size >= HUGE;
        let sum = self.content_sum(file, before, mode, &ranges, is_large)?;
        let was_written_to =
            || source::stat(&*file).map_or(true, |after| source::changed(before, &after));
        let found = of.iter().position(|b| sum.is_some() && b.sum == sum && is_alike(b));
        let found = found.filter(|_| !was_written_to());
        if found.is_some() {
            if item.ours.load(Relaxed) {
                file.drop_pages();
            }
            let read: u64 = ranges.iter().map(|range| range.1).sum();
            if !is_large && read > 0 {
                self.count(read);
            }
        }
        Ok(found)
    }
}

/// Whether nothing can have been written to the file since the base has it. It had another name then: whole seconds do not tell
/// whether that was another file, also where ctime is the kernel's.
fn is_untouched(base: &BaseRow, entry: &Entry) -> bool {
    (base.dev, base.ino, base.size) == (entry.dev, entry.ino, entry.size)
        && (base.mtime, base.ctime) == (entry.mtime, entry.ctime)
        && entry.ctime.nsec != 0
        && ctime::proves_contents(entry.mtime, entry.ctime)
}

/// Whether the contents may be the same though stat does not say so: what was written to since, and is large, is seldom only touched,
/// and would be read twice.
fn is_worth_reading(base: &BaseRow, entry: &Entry) -> bool {
    base.mtime == entry.mtime || base.ino == entry.ino && entry.size < HUGE
}
