//! Versions that are not complete: their sessions did not come to their end. They are read only where their session is named.

use capstan_engine::message::{Code, shell_word};
use capstan_idb::{Status, Version};

use crate::Cell;
use crate::error::Result;
use crate::session::SessionLog;

impl Cell {
    /// Says it of a version that is not complete, and how to see what it lacks.
    pub(crate) fn say_incomplete(&self, version: &Version, log: &SessionLog<'_>) -> Result<()> {
        if version.is_complete_by(None) {
            return Ok(());
        }
        let shown = self.version_shown(version.id)?;
        let name = self.idb.object(version.object)?.map(|of| of.name).unwrap_or_default();
        let ended = match version.status {
            Status::Running => "is not at its end yet",
            Status::Failed => "failed",
            _ => "ended before its time",
        };
        let others = self.idb.versions_of(version.object)?;
        let compared = match others.iter().any(|v| v.is_complete_by(None) && !v.null_device) {
            true => format!(
                "`capstan diff {} {}` shows what it lacks of the last complete version",
                shell_word(&shown),
                shell_word(&name)
            ),
            false => "there is no complete version to compare it with".to_owned(),
        };
        let text = format!(
            "{shown} is incomplete: its session {ended}, so the files lack that it had not committed by then; {compared}"
        );
        log.say(Code::Incomplete, "cell", &name, text);
        Ok(())
    }
}
