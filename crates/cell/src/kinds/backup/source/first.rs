//! The first backup of an object that may be none: why one that was backed up before is not known by its name.

use capstan_address::HostName;
use std::collections::HashSet;

use capstan_engine::message::{Code, shell_word};
use capstan_format::id::MediumId;
use capstan_idb::{Object, Session};

use crate::Cell;
use crate::error::Result;
use crate::kinds::backup::plan::Plan;
use crate::queries::other_names::setting;
use crate::session::{SessionLog, writes_versions};

impl Cell {
    /// The object that is backed up, as it is known. Where it is not, names are opened that were imported closed.
    pub(in crate::kinds::backup) fn object_backed_up(
        &self,
        name: &str,
        host: &HostName,
    ) -> Result<Option<Object>> {
        let find = || -> Result<_> {
            Ok(self.idb.objects_by_name(name)?.into_iter().find(|o| o.host == host))
        };
        match find()? {
            None if self.open_closed_names()? => find(),
            known => Ok(known),
        }
    }

    /// Says why a backup is full that may not be the first of what it backs up.
    pub(in crate::kinds::backup) fn say_why_full(
        &self,
        plan: &Plan,
        media: &[MediumId],
        log: &SessionLog<'_>,
    ) -> Result<()> {
        let full = |why: String| {
            log.say(Code::NoBase, "cell", &plan.name, format!("a full backup is made: {why}"));
        };
        for medium in self.media_with_closed_names(media)? {
            let Some(row) = self.idb.medium(medium)? else { continue };
            full(format!(
                "'{}' has backups whose names are encrypted, and one of '{}' may be among them; `capstan import {}`, with a secret at \
                 hand, opens them",
                row.label,
                plan.name,
                shell_word(&row.device)
            ));
        }
        // On a server each host has its own.
        if !self.idb.is_on_server()
            && plan.client.is_here
            && let Some(other) = self.earlier_host(&plan.name)?
        {
            full(format!(
                "this machine is called {} now, and '{}' was backed up by this home when it was called {other}; to go on with that, {}",
                self.host(),
                plan.name,
                setting(&self.home, &other)
            ));
        }
        Ok(())
    }

    /// Those of these media, and of what is kept together with them, that have something of objects whose names are closed.
    fn media_with_closed_names(&self, media: &[MediumId]) -> Result<Vec<MediumId>> {
        let mut on = HashSet::new();
        for object in self.closed_objects()? {
            for version in self.idb.versions_of(object.id)? {
                let segments = self.idb.segments_of_version(version.id)?;
                on.extend(segments.iter().map(|(segment, _)| segment.medium));
            }
        }
        let mut found = Vec::new();
        for medium in on {
            if media.contains(&medium) || self.are_kept_together(medium, media)? {
                found.push(medium);
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// The host by whose name this home backed up an object of that name: sessions that were imported have no process.
    fn earlier_host(&self, name: &str) -> Result<Option<HostName>> {
        for object in self.idb.objects_by_name(name)? {
            for version in self.idb.versions_of(object.id)? {
                let sessions = self.idb.sessions_of_version(version.id)?;
                let is_of_use = version.is_complete_by(None) && !version.null_device;
                let is_ours = |s: &Session| s.pid != 0 && writes_versions(&s.kind);
                if is_of_use && sessions.iter().any(is_ours) {
                    return Ok(Some(object.host));
                }
            }
        }
        Ok(None)
    }
}
