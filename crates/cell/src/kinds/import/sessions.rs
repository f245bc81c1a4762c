//! Objects, versions and sessions that were found on a medium.

use capstan_address::HostName;
use std::collections::BTreeSet;

use capstan_format::id::VersionId;
use capstan_format::record::SessionLabel;
use capstan_idb::{Object, Protection, Session, Status, Version};

use crate::Cell;
use crate::error::{CellError, Result};
use crate::kinds::import::found::Imported;
use crate::request::Level;
use crate::session::{CONSOLIDATE, now_us};
use crate::versions::lacking::Paths;

impl Cell {
    /// Records object, version and session as far as they are known.
    pub(super) fn put_session(&self, s: &Imported, status: Status) -> Result<()> {
        let label = &s.label;
        let names = s.names.as_ref();
        self.idb.put_object(&Object {
            id: label.object,
            name: names.map(|n| n.name.clone()).unwrap_or_default(),
            host: HostName::recorded(names.map(|n| n.host.clone()).unwrap_or_default()),
            sealed: s.sealed.clone(),
        })?;
        self.idb.upsert_version(&Version {
            id: label.version,
            object: label.object,
            status,
            method: names.map_or_else(|| method_of(label), |n| n.method.clone()),
            base: label.base,
            key: label.key,
            null_device: false,
            created_us: label.state_us.unwrap_or(label.started_us),
            stands_for: label.stands_for,
        })?;
        let end = s.end.as_ref();
        self.idb.upsert_session(&Session {
            id: label.session,
            kind: if label.state_us.is_some() { CONSOLIDATE } else { "backup" }.to_owned(),
            object: Some(label.object),
            version: Some(label.version),
            parent: label.parent,
            status,
            host: HostName::recorded(names.map(|n| n.host.clone()).unwrap_or_default()),
            device: String::new(),
            started_us: label.started_us,
            run_us: None,
            ended_us: end.map(|e| e.ended_us),
            files: end.map_or(0, |e| e.files),
            dirs: end.map_or(0, |e| e.dirs),
            bytes_read: end.map_or(0, |e| e.bytes_read),
            bytes_written: s.bytes,
            tags: names.map(|n| n.tags.clone()).unwrap_or_default(),
            report: None,
            pid: 0,
            birth: String::new(),
        })?;
        Ok(())
    }

    /// Records how sessions ended; returns their files and directories.
    pub(super) fn import_sessions(&self, sessions: &[Imported]) -> Result<(u64, u64)> {
        let counts = sessions.iter().try_fold((0_u64, 0_u64), |(files, dirs), s| {
            let (f, d) = self.import_session(s)?;
            Ok::<_, CellError>((files.saturating_add(f), dirs.saturating_add(d)))
        })?;
        let versions: BTreeSet<VersionId> = sessions.iter().map(|s| s.label.version).collect();
        self.idb.note_gaps(&versions.into_iter().collect::<Vec<_>>(), now_us())?;
        self.adopt_stand_ins()?;
        self.idb.complete_hosts()?;
        self.join_objects_of_one_name()?;
        if !sessions.is_empty() {
            self.idb.order_found(now_us())?;
        }
        Ok(counts)
    }

    /// Records how a session ended; returns its files and directories.
    fn import_session(&self, s: &Imported) -> Result<(u64, u64)> {
        let status = match s.end.as_ref().map(|e| e.status.parse::<Status>()) {
            Some(Ok(status)) => status,
            _ => Status::Incomplete,
        };
        self.put_session(s, status)?;
        if let Some(end) = s.end.as_ref().filter(|end| !end.segments.is_empty()) {
            self.idb.expect_segments(s.label.version, &end.segments, now_us())?;
        }
        let lacks = s.end.as_ref().and_then(|end| end.lacks);
        if let Some(lacks) = lacks.filter(|_| status != Status::Failed) {
            // Only how many there are is on the medium, in clear.
            let paths = if lacks > 0 { Paths::unnamed() } else { Paths::default() };
            self.idb.import_lacks(s.label.version, &paths.into_list())?;
        }
        if s.protection != Protection::Rules {
            self.idb.import_protection(s.label.version, s.protection)?;
        }
        Ok(s.end.as_ref().map_or((0, 0), |e| (e.files, e.dirs)))
    }
}

/// The method of a session that wrote no data, whose streams would say it.
fn method_of(label: &SessionLabel) -> String {
    let level = if label.base.is_some() { Level::Incremental } else { Level::Full };
    level.to_string()
}
