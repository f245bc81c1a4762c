//! The end of a restore: the rows of files, further names and directories once more, when all contents are there.

use std::borrow::Cow;

use capstan_engine::meter::{Lap, Stage};
use capstan_format::entry::Kind;
use capstan_port::disk::restore::{LinkRow, RestoreFinish, RestoreRun, ToFinish};

use super::{Live, ROWS, Restore};
use crate::error::Result;

/// Who finishes at the disk agent, and the rows that are to be pushed there.
pub(super) struct Finishing<'a> {
    agent: Box<dyn RestoreFinish + 'a>,
    rows: Vec<ToFinish>,
}

impl Finishing<'_> {
    /// Pushes a row, with others.
    pub fn push(&mut self, row: ToFinish) -> Result<()> {
        self.rows.push(row);
        if self.rows.len() < ROWS { Ok(()) } else { Ok(self.agent.rows(&mut self.rows)?) }
    }

    /// Pushes all that are left, and has the directories finished.
    fn end(mut self, with_dirs: bool) -> Result<()> {
        self.agent.rows(&mut self.rows)?;
        if with_dirs { Ok(self.agent.end()?) } else { Ok(()) }
    }
}

impl Restore<'_> {
    /// Metadata of files written in parts, links, directories, inode flags: in this order, when all data are there.
    pub(in crate::kinds::restore) fn finish(&self, agent: &dyn RestoreRun) -> Result<()> {
        let mut finish = Finishing { agent: agent.finish(), rows: Vec::new() };
        let mut lap = Lap::start();
        self.say_lost(&mut |name, why| finish.push(ToFinish::Lost(name, Cow::Borrowed(why))))?;
        if !self.in_parts.is_empty() || self.overview.has_carriers() {
            self.each_live(&mut |Live { row, name, .. }| {
                let is_file = row.entry.kind == Kind::File && !row.entry.link;
                let is_as_in = row.is_as_in();
                // All others have theirs.
                if !is_file || !is_as_in && !self.in_parts.contains(&name.stored) {
                    return Ok(());
                }
                finish.push(ToFinish::File { row: self.file_row(row, name), is_as_in })
            })?;
        }
        if self.overview.links > 0 {
            self.each_live(&mut |live| match live.row.entry.link {
                true => finish.push(self.link(live)),
                false => Ok(()),
            })?;
        }
        if self.arc.is_none() {
            self.finish_dirs(&mut finish)?;
        }
        finish.end(self.arc.is_none())?;
        lap.busy(self.meters.of(Stage::Metadata));
        Ok(())
    }

    /// Makes the directories that have no files, gives all their metadata, and files and directories their inode flags.
    fn finish_dirs(&self, finish: &mut Finishing<'_>) -> Result<()> {
        // To make one changes its parent's times.
        self.each_live(&mut |live| match live.row.entry.kind == Kind::Dir && !live.if_made {
            true => finish.push(ToFinish::MakeDir(live.name)),
            false => Ok(()),
        })?;
        self.each_live(&mut |Live { row, name, if_made }| match row.entry.kind == Kind::Dir {
            true => finish.push(ToFinish::Dir { row: self.file_row(row, name), if_made }),
            false => Ok(()),
        })?;
        if self.overview.flagged > 0 {
            self.each_live(&mut |Live { row, name, if_made }| match row.entry.inode_flags {
                0 => Ok(()),
                _ => finish.push(ToFinish::Flags { name, entry: row.entry, if_made }),
            })?;
        }
        Ok(())
    }

    fn link(&self, Live { row, name, .. }: Live) -> ToFinish {
        let first = &row.entry.target;
        // Where the first name is not restored, the first of the others has its contents.
        let instead = self.instead.get(first).cloned();
        let first_to = self.stripped(instead.as_ref().unwrap_or(first)).map(<[u8]>::to_vec);
        ToFinish::Link(LinkRow { row: self.file_row(row, name), instead, first_to })
    }
}
