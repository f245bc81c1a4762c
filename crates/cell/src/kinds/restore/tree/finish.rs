//! The end of a restore: the rows of files, further names and directories once more, when all contents are there.

use capstan_catalog::row::Row;
use capstan_disk_agent::restore::{Finish, LinkRow};
use capstan_engine::meter::{Lap, Stage};
use capstan_format::entry::Kind;

use super::Restore;
use crate::error::Result;

impl Restore<'_> {
    /// Metadata of files written in parts, links, directories, inode flags: in this order, when all data are there.
    pub(in crate::kinds::restore) fn finish(&self) -> Result<()> {
        let mut finish = Finish::new(&self.files);
        let mut lap = Lap::start();
        self.say_lost()?;
        if self.files.has_parts() || self.overview.has_carriers() {
            self.each_live(&mut |live| match live.row.entry.kind == Kind::File
                && !live.row.entry.link
            {
                true => {
                    Ok(finish.file(&self.file_row(live.row, live.names()), live.row.is_as_in())?)
                }
                false => Ok(()),
            })?;
        }
        if self.overview.links > 0 {
            self.each_live(&mut |live| match live.row.entry.link {
                true => self.link(&mut finish, live),
                false => Ok(()),
            })?;
        }
        if self.arc.is_none() {
            self.finish_dirs(finish)?;
        }
        lap.busy(self.meters.of(Stage::Metadata));
        Ok(())
    }

    /// Makes the directories that have no files, gives all their metadata, and files and directories their inode flags.
    fn finish_dirs(&self, mut finish: Finish<'_>) -> Result<()> {
        // To make one changes its parent's times.
        self.each_live(&mut |live| match live.row.entry.kind == Kind::Dir && !live.if_made {
            true => Ok(finish.make_dir(&self.file_row(live.row, live.names()).name)?),
            false => Ok(()),
        })?;
        self.each_live(&mut |live| match live.row.entry.kind == Kind::Dir {
            true => Ok(finish.dir(&self.file_row(live.row, live.names()), live.if_made)?),
            false => Ok(()),
        })?;
        if self.overview.flagged > 0 {
            self.each_live(&mut |live| {
                let name = self.file_row(live.row, live.names()).name;
                Ok(finish.flags(&name, &live.row.entry, live.if_made)?)
            })?;
        }
        Ok(finish.end()?)
    }

    fn link(&self, finish: &mut Finish<'_>, live: Live<'_>) -> Result<()> {
        let first = &live.row.entry.target;
        // Where the first name is not restored, the first of the others has its contents.
        let instead = self.instead.get(first).map(Vec::as_slice);
        let first_to = self.stripped(instead.unwrap_or(first));
        let row = self.file_row(live.row, live.names());
        Ok(finish.link(&LinkRow { row, instead, first_to })?)
    }
}

/// A live row that is wanted, or a directory that leads to one.
#[derive(Clone, Copy)]
pub(in crate::kinds::restore) struct Live<'r> {
    pub row: &'r Row,
    /// Its path in the backup.
    pub stored: &'r [u8],
    /// Under which path in the backup it is restored.
    pub shown: &'r [u8],
    /// That path below the target.
    pub to: &'r [u8],
    /// Only what this restore made: a directory that leads to what is asked for, in place.
    pub if_made: bool,
}

impl<'r> Live<'r> {
    pub fn names(&self) -> (&'r [u8], &'r [u8], &'r [u8]) {
        (self.stored, self.shown, self.to)
    }
}
