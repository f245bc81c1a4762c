//! The versions of an object that can be restored, and how each of them is.

use capstan_address::HostName;
use std::collections::HashSet;

use capstan_format::id::VersionId;
use capstan_idb::{Keeping, Object, Session, Status, Version};

use crate::Cell;
use crate::error::Result;
use crate::queries::query::has_totals;
use crate::queries::states::{States, VersionState};
use crate::session::writes_versions;

/// A version that can be restored.
#[derive(Debug, Clone)]
pub struct VersionInfo {
    /// The object's name; of one whose name is encrypted, its id.
    pub name: String,
    /// The host it is of.
    pub host: HostName,
    /// The id of the session that wrote it last, or the version's own where none is on record.
    pub session: String,
    /// When it was begun, in microseconds since 1970.
    pub started_us: i64,
    /// How it was backed up.
    pub method: String,
    /// How it is.
    pub state: VersionState,
    /// Files, those included that did not change; none where that is not known.
    pub files: Option<u64>,
    /// Bytes that were read for it; none where that is not known.
    pub bytes_read: Option<u64>,
    /// Bytes that were written for it; where that is not known, those of its segments.
    pub bytes_stored: u64,
    /// Labels of the media that have it now, without what it builds on.
    pub media: Vec<String>,
    /// Until when it is kept.
    pub kept: Keeping,
    /// Tags of that session.
    pub tags: Vec<String>,
}

impl Cell {
    /// Whether an object of that name is known, on whatever host.
    pub fn has_object(&self, name: &str) -> Result<bool> {
        Ok(!self.idb.objects_by_name(name)?.is_empty())
    }

    /// The versions of the objects of that name that can be restored, each object's newest first.
    pub fn versions_of_object(&self, name: &str) -> Result<Vec<VersionInfo>> {
        let objects = self.objects_named(&[name.to_owned()], &[])?;
        let states = self.states()?;
        let mut found = Vec::new();
        for object in &objects {
            for version in self.idb.versions_of(object.id)? {
                let has_something = || self.idb.has_segments(version.id);
                if version.null_device || version.status == Status::Running || !has_something()? {
                    continue;
                }
                found.push(self.version_info(object, &version, &states)?);
            }
        }
        Ok(found)
    }

    fn version_info(
        &self,
        object: &Object,
        version: &Version,
        states: &States,
    ) -> Result<VersionInfo> {
        let mut writers = self.idb.sessions_of_version(version.id)?;
        writers.retain(|s| writes_versions(&s.kind));
        // Each run of one that was resumed read and wrote something of its own.
        let have_totals = !writers.is_empty() && writers.iter().all(has_totals);
        let sum = |of: fn(&Session) -> u64| have_totals.then(|| writers.iter().map(of).sum());
        let (bytes_read, written) = (sum(|s| s.bytes_read), sum(|s| s.bytes_written));
        let bytes_stored = match written {
            Some(written) => written,
            None => self.bytes_of_version(version.id)?,
        };
        let session = writers.pop();
        let is_named = !object.name.is_empty();
        Ok(VersionInfo {
            name: if is_named { object.name.clone() } else { object.id.to_string() },
            host: object.host.clone(),
            session: session.as_ref().map_or(version.id.to_string(), |s| s.id.to_string()),
            started_us: version.created_us,
            method: version.method.clone(),
            state: states.of(version),
            files: session.as_ref().filter(|s| has_totals(s)).map(|s| s.files),
            bytes_read,
            bytes_stored,
            media: self.labels_of_version(version.id)?,
            kept: self.idb.keeping(version.id)?,
            tags: session.map(|s| s.tags).unwrap_or_default(),
        })
    }

    /// The labels of the media that have something of a version, without what it builds on, in their order: be it no more than the
    /// end of a session in which nothing had changed.
    pub(crate) fn labels_of_version(&self, version: VersionId) -> Result<Vec<String>> {
        let mut labels = self.idb.labels_of_version(version)?;
        for end in self.idb.ends_of_version(version)? {
            labels.extend(self.idb.medium(end.medium)?.map(|medium| medium.label));
        }
        labels.sort_unstable();
        labels.dedup();
        Ok(labels)
    }

    /// Bytes of the segments that have something of a version, each counted once, without copies.
    fn bytes_of_version(&self, version: VersionId) -> Result<u64> {
        let copies = self.idb.copies_of_version(version)?;
        let mut counted = HashSet::new();
        let mut bytes: u64 = 0;
        for (segment, _) in self.idb.segments_of_version(version)? {
            if !copies.contains_key(&segment.id) && counted.insert(segment.id.0) {
                bytes = bytes.saturating_add(segment.bytes);
            }
        }
        Ok(bytes)
    }
}
