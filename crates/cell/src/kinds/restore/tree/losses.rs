//! What of a version does not come: what the disk agent says of it, and what it costs besides.

use capstan_engine::message::Code;
use capstan_format::entry::Kind;
use capstan_format::id::{MediumId, StreamId};
use capstan_port::disk::restore::{Name, RestoreEnded, RestoreListener, TargetFull};
use parking_lot::Mutex;

use crate::error::{CellError, Result};
use crate::kinds::restore::tree::Restore;
use crate::reading::away::files::AwayFiles;
use crate::reading::losses::Lost;
use crate::session::SessionLog;

/// Takes what the disk agent says of a restore.
pub(in crate::kinds::restore) struct Heard<'a> {
    pub log: &'a SessionLog<'a>,
    /// Files of which something is on media that are away.
    pub away: AwayFiles,
    /// Ranges of streams that could not be read.
    pub lost: Mutex<Lost>,
}

impl<'a> Heard<'a> {
    pub fn new(log: &'a SessionLog<'a>) -> Self {
        Self { log, away: AwayFiles::default(), lost: Mutex::default() }
    }
}

impl RestoreListener for Heard<'_> {
    fn say(&self, code: Code, agent: &'static str, path: &str, text: String) {
        self.log.say(code, agent, path, text);
    }

    fn away(&self, medium: MediumId, why: &str, bytes: u64) {
        self.away.add(medium, why, bytes);
    }

    fn lost(&self, stream: StreamId, from: u64, to: u64) {
        self.lost.lock().add((stream, from, to));
    }
}

impl From<RestoreEnded> for CellError {
    fn from(why: RestoreEnded) -> Self {
        match why {
            RestoreEnded::Full(TargetFull(text)) => Self::TargetFull(text),
            RestoreEnded::Lost(lost) => Self::AgentLost(lost),
        }
    }
}

impl Restore<'_> {
    /// Names what the ranges that could not be read cost, as a verification does, as far as that is not said yet.
    /// Calls with each such file, and why.
    pub(in crate::kinds::restore) fn say_lost(
        &self,
        each: &mut dyn FnMut(Name, &'static str) -> Result<()>,
    ) -> Result<()> {
        let lost = std::mem::take(&mut *self.heard.lost.lock());
        if lost.is_empty() {
            return Ok(());
        }
        self.scope.rows(self.view, &mut |stream, row| {
            let path = row.entry.path();
            let counts = row.entry.kind.is_inode() || row.entry.kind == Kind::Part;
            if counts
                && self.has_place(&path)
                && !row.entry.link
                && self.live(stream, &row, &path)
                && lost.costs(&row.entry, stream.stream, row.start)
            {
                each(self.name_of(path), "some of its data are damaged")?;
            }
            Ok(())
        })
    }
}
