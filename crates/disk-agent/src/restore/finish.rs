//! The end of a restore: metadata, further names, directories and inode flags, when all contents are there.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::message::{Code, path_text};
use capstan_format::entry::{Entry, Kind, split};
use capstan_port::disk::further_names::{of_link, of_link_away, of_link_found};
use capstan_port::disk::restore::{
    FileRow, LinkRow, Name, RestoreEnded, RestoreFinish, TargetFull, ToFinish,
};

use super::Files;
use super::losses::{Carried, Loss};
use super::parts::InParts;
use crate::target::{Made, TargetError, Worker, check_path};

/// Finishes a restore, on one thread. The caller goes through the rows: see [`ToFinish`].
pub(super) struct Finish<'f> {
    files: &'f Files<'f>,
    worker: Worker<'f>,
    /// Directories that could not be made.
    failed: HashSet<Vec<u8>>,
    /// Directories that their owner may not enter are finished after all others, deepest first: how deep, where, as what.
    closed: Vec<(usize, Vec<u8>, Entry)>,
}

type Done = Result<(), TargetFull>;

impl RestoreFinish for Finish<'_> {
    fn rows(&mut self, rows: &mut Vec<ToFinish>) -> Result<(), RestoreEnded> {
        for row in rows.drain(..) {
            match row {
                ToFinish::Lost(name, why) => {
                    if !self.files.is_left(name.stored()) {
                        self.files.lost(&name, &why);
                    }
                }
                ToFinish::File { row, is_as_in } => self.file(&row, is_as_in)?,
                ToFinish::Link(link) => self.link(&link)?,
                ToFinish::MakeDir(name) => self.make_dir(&name)?,
                ToFinish::Dir { row, if_made } => self.dir(&row, if_made)?,
                ToFinish::Flags { name, entry, if_made } => self.flags(&name, &entry, if_made)?,
            }
        }
        Ok(())
    }

    fn end(mut self: Box<Self>) -> Result<(), RestoreEnded> {
        self.closed.sort_by_key(|(depth, ..)| std::cmp::Reverse(*depth));
        for (_, to, entry) in std::mem::take(&mut self.closed) {
            let done = self.worker.finish_dir(&entry, &to);
            self.told(&to, done)?;
        }
        Ok(())
    }
}

impl<'f> Finish<'f> {
    /// Everything has come that will.
    pub fn new(files: &'f Files<'f>) -> Self {
        let worker = files.target.worker();
        Self { files, worker, failed: HashSet::new(), closed: Vec::new() }
    }

    /// Gives a file that was written in parts its metadata, and puts it in its place; or names what did not come of it. `is_as_in`: its
    /// contents are an earlier version's.
    fn file(&mut self, row: &FileRow, is_as_in: bool) -> Done {
        let done = self.finish_file(row, is_as_in);
        self.told(row.name.stored(), done)
    }

    fn finish_file(&mut self, row: &FileRow, is_as_in: bool) -> Result<(), TargetError> {
        let files = self.files;
        let (name, stored) = (&row.name, row.name.stored());
        if is_as_in && files.carried_as(stored) == Some(Carried::Left) {
            let (dir, last) = split(name.to());
            return files.stays(&mut self.worker, stored, (&files.here(row), dir, last), false);
        }
        let file = files.in_parts.get(stored);
        let is_damaged = || files.loss_of(stored).is_some();
        if let Some(file) = file
            && !is_damaged()
        {
            files.make_in_parts(&mut self.worker, stored, file)?;
        }
        // What did not come may be there all the same, as somebody's: it is not touched.
        if is_as_in && file.is_none() && files.carried_as(stored).is_none() && !is_damaged() {
            files.missing(name, "its contents were not restored");
        }
        // A file that was made without its metadata gets them when all its contents are there.
        let is_open = match file {
            Some(file) => *file.made.lock() == Some(true),
            None => is_as_in && files.carried_as(stored) == Some(Carried::Made),
        };
        let is_done = file.is_some_and(InParts::is_done);
        if !is_open || is_done && !is_damaged() {
            return Ok(());
        }
        let (dir, last) = split(name.to());
        let not_made = |file: &InParts| {
            files.counts.files.fetch_sub(1, Relaxed);
            *file.made.lock() = Some(false);
        };
        if let Some(file) = file
            && !file.came.load(Relaxed)
            && files.loss_of(stored) == Some(Loss::Away)
        {
            not_made(file);
            return files.comes_later(&mut self.worker, stored, (dir, last));
        }
        if !files.is_whole(stored, row.is_unreadable) && self.worker.withdraw(dir, last)? {
            file.inspect(|file| not_made(file));
            files.left_alone(name);
            return Ok(());
        }
        let entry = files.as_restored(stored, files.here(row));
        self.worker.finish_file(&entry, dir, last)
    }

    /// Makes a further name, or says why it is not made.
    fn link(&mut self, link: &LinkRow) -> Done {
        let files = self.files;
        let name = &link.row.name;
        let target = link.row.entry.target.as_slice();
        // Where the first name is not restored, the first of the others has its contents.
        let first = link.instead.as_deref().unwrap_or(target);
        if first == name.stored() {
            return Ok(());
        }
        let loss = files.loss_of(target);
        if loss == Some(Loss::Away) {
            files.link_away(name, &of_link_away(target));
        }
        // What has its contents is named already.
        if let Some((code, text)) = files.found.lock().get(target) {
            files.error(*code, name.stored(), of_link_found(target, text));
        }
        if files.in_parts.get(first).is_some_and(|file| file.made.lock().is_none()) {
            let why = format!("its contents are those of /{}", path_text(first));
            files.lost_link(Code::Missing, "disk agent", name, &why);
            return Ok(());
        }
        if loss == Some(Loss::Lost) {
            files.lost_link(Code::Damaged, "media agent", name, &of_link(target));
        }
        let (dir, last) = split(name.to());
        if !files.firsts.has(target) {
            // What has the first name, if anything, is another file. It was said what became of the contents.
            return match loss {
                Some(_) => Ok(()),
                None => self.no_first(link),
            };
        }
        if loss.is_some() && self.worker.is_there(dir, last) {
            files.left_alone(name);
            return Ok(());
        }
        let Some(first) = link.first_to.as_deref() else { return Ok(()) };
        let (first_dir, first_name) = split(first);
        let made = self.worker.make_link(dir, last, first_dir, first_name).map(|made| {
            files.counts.files.fetch_add(u64::from(made == Made::Made), Relaxed);
        });
        self.told(name.stored(), made)
    }

    /// A further name whose first name was not restored, though nothing of it is lost.
    fn no_first(&mut self, link: &LinkRow) -> Done {
        let files = self.files;
        let (stored, target) = (link.row.name.stored(), link.row.entry.target.as_slice());
        // One of a node that could not be made is one more such.
        if is_special(link.row.entry.kind) {
            files.target.tally().node_not_restored();
            return Ok(());
        }
        // A first name that no restore makes is a fault of the row: of the medium, not of this restore.
        if let Err(e) = check_path(target) {
            return files.target_error(stored, &e);
        }
        let (dir, last) = split(link.row.name.to());
        match self.worker.keeps(&files.here(&link.row), dir, last) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let text = format!(
                    "it is a further name of /{}, which was not restored; restore it by itself to have its contents",
                    path_text(target)
                );
                files.error(Code::NotWritten, stored, text);
                Ok(())
            }
            Err(e) => files.target_error(stored, &e),
        }
    }

    /// Makes a directory, also one that has no files. All are made before any gets its times: to make one changes its parent's.
    fn make_dir(&mut self, name: &Name) -> Done {
        let made = self.worker.make_dir(name.to());
        if made.is_err() {
            self.failed.insert(name.to().to_vec());
        }
        self.told(name.stored(), made)
    }

    /// Gives a directory its metadata. `if_made`: only where this restore made it.
    fn dir(&mut self, row: &FileRow, if_made: bool) -> Done {
        let (files, to) = (self.files, row.name.to());
        if self.failed.contains(to) || if_made && !files.target.has_made(to) {
            return Ok(());
        }
        let entry = files.here(row);
        files.counts.dirs.fetch_add(1, Relaxed);
        if !files.target.is_root() && entry.mode & 0o700 != 0o700 {
            let depth = to.iter().filter(|b| **b == b'/').count();
            self.closed.push((depth, to.to_vec(), entry));
            return Ok(());
        }
        let done = self.worker.finish_dir(&entry, to);
        self.told(row.name.stored(), done)
    }

    /// Sets inode flags, of a directory or of a file that this restore made.
    fn flags(&mut self, name: &Name, entry: &Entry, if_made: bool) -> Done {
        let files = self.files;
        let is_ours = match entry.kind {
            Kind::Dir => !if_made || files.target.has_made(name.to()),
            _ => files.flagged.lock().contains_key(name.stored()),
        };
        if entry.inode_flags == 0 || !is_ours {
            return Ok(());
        }
        let (dir, last) = split(name.to());
        let set = self.worker.finish_flags(entry, dir, last);
        let counts = || files.flagged.lock().get(name.stored()) == Some(&true);
        if matches!(set, Ok(true)) && entry.kind != Kind::Dir && counts() {
            files.target.tally().flags_put_right();
        }
        self.told(name.stored(), set.map(drop))
    }

    fn told(&self, stored: &[u8], done: Result<(), TargetError>) -> Done {
        done.or_else(|e| self.files.target_error(stored, &e))
    }
}

/// Kinds that only some users and file systems can make.
fn is_special(kind: Kind) -> bool {
    matches!(kind, Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice)
}
