//! The end of a restore: metadata, links, directories and inode flags, when all contents are there.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::row::Row;
use capstan_disk_agent::target::{Made, Worker, check_path};
use capstan_engine::message::{Code, path_text};
use capstan_engine::meter::{Lap, Stage};
use capstan_format::entry::{Entry, Kind, split};

use super::Restore;
use super::losses::{Carried, Loss};
use super::parts::InParts;
use crate::error::Result;
use crate::reading::losses::{of_link, of_link_away, of_link_found};

impl Restore<'_> {
    /// Metadata of files written in parts, links, directories, inode flags: in this order, when all data are there.
    pub(in crate::kinds::restore) fn finish(&self) -> Result<()> {
        let mut worker = self.target.worker();
        let mut lap = Lap::start();
        self.say_lost()?;
        if !self.in_parts.is_empty() || self.overview.has_carriers() {
            self.each_live(&mut |row, path, to| self.finish_parts(&mut worker, row, path, to))?;
        }
        if self.overview.links > 0 {
            self.each_live(&mut |row, path, to| {
                if row.entry.link { self.link(&mut worker, row, path, to) } else { Ok(()) }
            })?;
        }
        if self.arc.is_none() {
            self.finish_dirs(&mut worker)?;
        }
        lap.busy(self.meters.of(Stage::Metadata));
        Ok(())
    }

    /// Gives a file that was written in parts its metadata, and puts it in its place; or names what did not come of it.
    fn finish_parts(
        &self,
        worker: &mut Worker<'_>,
        row: &Row,
        path: &[u8],
        to: &[u8],
    ) -> Result<()> {
        if row.entry.kind != Kind::File || row.entry.link {
            return Ok(());
        }
        let file = self.in_parts.get(path);
        if let Some(file) = file
            && !self.damaged_now(path)
            && let Err(e) = self.make_in_parts(worker, path, file)
        {
            self.target_error(path, &e)?;
        }
        // What did not come may be there all the same, as somebody's: it is not touched.
        if row.is_as_in()
            && file.is_none()
            && self.carried_as(path).is_none()
            && !self.damaged_now(path)
        {
            self.missing(path, "its contents were not restored");
        }
        let is_done = file.is_some_and(InParts::is_done);
        if !self.is_open(row, path) || is_done && !self.damaged_now(path) {
            return Ok(());
        }
        let (dir, name) = split(to);
        let not_made = |file: &InParts| {
            self.counts.files.fetch_sub(1, Relaxed);
            *file.made.lock() = Some(false);
        };
        if let Some(file) = file
            && !file.came.load(Relaxed)
            && self.loss_of(path) == Some(Loss::Away)
        {
            not_made(file);
            return match self.comes_later(worker, path, (dir, name)) {
                Ok(()) => Ok(()),
                Err(e) => self.target_error(path, &e),
            };
        }
        if !self.is_whole(path, row.ordinal) {
            match worker.withdraw(dir, name) {
                Ok(true) => {
                    file.inspect(|file| not_made(file));
                    self.left_alone(path);
                    return Ok(());
                }
                Ok(false) => {}
                Err(e) => self.target_error(path, &e)?,
            }
        }
        let entry = self.as_restored(path, self.here(row));
        match worker.finish_file(&entry, dir, name) {
            Ok(()) => Ok(()),
            Err(e) => self.target_error(path, &e),
        }
    }

    /// Makes the directories that have no files, gives all their metadata, and files and directories their inode flags.
    fn finish_dirs(&self, worker: &mut Worker<'_>) -> Result<()> {
        // All are made before any gets its times: to make one (those without files are new) changes its parent's.
        let mut failed: HashSet<Vec<u8>> = HashSet::new();
        self.each_live(&mut |row, path, to| {
            if row.entry.kind == Kind::Dir
                && let Err(e) = worker.make_dir(to)
            {
                failed.insert(to.to_vec());
                self.target_error(path, &e)?;
            }
            Ok(())
        })?;
        // Directories that their owner may not enter are finished after all others, deepest first.
        let mut closed: Vec<(usize, Vec<u8>, Entry)> = Vec::new();
        self.each_live(&mut |row, path, to| {
            if row.entry.kind == Kind::Dir && !failed.contains(to) {
                let entry = self.here(row);
                self.counts.dirs.fetch_add(1, Relaxed);
                if !self.target.is_root() && entry.mode & 0o700 != 0o700 {
                    let depth = to.iter().filter(|b| **b == b'/').count();
                    closed.push((depth, to.to_vec(), entry));
                } else if let Err(e) = worker.finish_dir(&entry, to) {
                    self.target_error(path, &e)?;
                }
            }
            Ok(())
        })?;
        if self.overview.flagged > 0 {
            self.each_live(&mut |row, path, to| {
                let is_ours = || row.entry.kind == Kind::Dir || self.flagged.lock().contains(path);
                if row.entry.inode_flags != 0 && is_ours() {
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
        Ok(())
    }

    /// Whether a file was made without its metadata: these come when all its contents are there.
    fn is_open(&self, row: &Row, path: &[u8]) -> bool {
        match self.in_parts.get(path) {
            Some(file) => *file.made.lock() == Some(true),
            None => row.is_as_in() && self.carried_as(path) == Some(Carried::Made),
        }
    }

    pub(in crate::kinds::restore) fn link(
        &self,
        worker: &mut Worker<'_>,
        row: &Row,
        path: &[u8],
        to: &[u8],
    ) -> Result<()> {
        let first = &row.entry.target;
        // Where the first name is not restored, the first of the others has its contents.
        let instead = self.instead.get(first).and_then(|l| l.first()).map(Entry::path);
        let first = instead.as_deref().unwrap_or(first);
        if first == path {
            return Ok(());
        }
        let loss = self.loss_of(&row.entry.target);
        if loss == Some(Loss::Away) {
            self.link_away(path, &of_link_away(&row.entry.target));
        }
        // What has its contents is named already.
        if let Some((code, text)) = self.found.lock().get(&row.entry.target) {
            self.error(*code, path, of_link_found(&row.entry.target, text));
        }
        if self.in_parts.get(first).is_some_and(|file| file.made.lock().is_none()) {
            let why = format!("its contents are those of /{}", path_text(first));
            self.lost_link(Code::Missing, "disk agent", path, &why);
            return Ok(());
        }
        if loss == Some(Loss::Lost) {
            self.lost_link(Code::Damaged, "media agent", path, &of_link(&row.entry.target));
        }
        let (dir, name) = split(to);
        if !self.firsts.has(&row.entry.target) {
            // What has the first name, if anything, is another file. It was said what became of the contents.
            return match loss {
                Some(_) => Ok(()),
                None => self.no_first(worker, row, path, (dir, name)),
            };
        }
        if loss.is_some() && worker.is_there(dir, name) {
            self.left_alone(path);
            return Ok(());
        }
        let Some(first) = self.stripped(first) else { return Ok(()) };
        let (first_dir, first_name) = split(first);
        match worker.make_link(dir, name, first_dir, first_name) {
            Ok(Made::Made) => {
                self.counts.files.fetch_add(1, Relaxed);
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(e) => self.target_error(path, &e),
        }
    }

    /// A further name whose first name was not restored, though nothing of it is lost.
    fn no_first(
        &self,
        worker: &mut Worker<'_>,
        row: &Row,
        path: &[u8],
        (dir, name): (&[u8], &[u8]),
    ) -> Result<()> {
        // One of a node that could not be made is one more such.
        if is_special(row.entry.kind) {
            self.target.tally().node_not_restored();
            return Ok(());
        }
        // A first name that no restore makes is a fault of the row: of the medium, not of this restore.
        if let Err(e) = check_path(&row.entry.target) {
            return self.target_error(path, &e);
        }
        match worker.keeps(&self.here(row), dir, name) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let text = format!(
                    "it is a further name of /{}, which was not restored; restore it by itself to have its contents",
                    path_text(&row.entry.target)
                );
                self.error(Code::NotWritten, path, text);
                Ok(())
            }
            Err(e) => self.target_error(path, &e),
        }
    }

    /// What could not be restored, each in total.
    pub(in crate::kinds::restore) fn report_tally(&self) {
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

/// Kinds that only some users and file systems can make.
fn is_special(kind: Kind) -> bool {
    matches!(kind, Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice)
}
