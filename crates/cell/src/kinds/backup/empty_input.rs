//! Standard input or a command that gives nothing, where it gave something before: as a dump of which the database is gone.

use capstan_engine::message::{Code, path_text};

use crate::Cell;
use crate::error::Result;
use crate::kinds::backup::handed_over::HandedOver;
use crate::kinds::backup::job::Job;
use crate::names::input_path;
use crate::request::Source;

impl Job<'_> {
    /// Says that its input was empty where an earlier version has something: this one lacks that.
    pub(super) fn look_at_input(&self, cell: &Cell, of: &HandedOver) -> Result<()> {
        let (Source::Stdin(name) | Source::Command(_, name)) = &self.request.source else {
            return Ok(());
        };
        let is_empty = of.by_agent.counts.bytes == 0 && of.is_well();
        if !is_empty || self.plan.null || !self.is_known {
            return Ok(());
        }
        let path = format!("/{}", path_text(input_path(name)?.as_bytes()));
        let past = cell.past_of(self.label.object, "backup")?;
        let had = past.iter().map(|p| &p.report).find(|r| r.is_of_input() && r.bytes_read > 0);
        if had.is_some() || self.last_lacks(cell, &path)? {
            let had = had.map_or(String::new(), |r| {
                format!("; the last backup that had something read {} bytes", r.bytes_read)
            });
            let text = format!("the input was empty: this version has an empty file{had}");
            self.log.say(Code::InputEmpty, "cell", &path, text);
        }
        Ok(())
    }

    /// Whether the object's last version was as empty, which was said then.
    fn last_lacks(&self, cell: &Cell, path: &str) -> Result<bool> {
        let versions = cell.idb.versions_of(self.label.object)?;
        let is_before = |v: &&capstan_idb::Version| {
            v.id != self.label.version && v.is_complete_by(None) && !v.null_device
        };
        let Some(last) = versions.iter().find(is_before) else { return Ok(false) };
        Ok(cell.lacking_paths()?.of(last.id).is_some_and(|paths| paths.have(path)))
    }
}
