//! Where something is to be mounted in a source: by the tables of this machine, and by what the object's last version found.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;

use capstan_disk_agent::backup::MOUNTED_LISTED;
use capstan_disk_agent::mounts::MountPoints;
use capstan_format::id::ObjectId;
use capstan_idb::Version;

use crate::Cell;
use crate::error::Result;
use crate::restore::is_complete_by;
use crate::session::writes_versions;

/// Where a version found something mounted and something in it, and contents that an empty directory may mask, by its report. Nothing of a version that was
/// imported, of one that an earlier program made, and where there were too many of them.
#[derive(Default, serde::Deserialize)]
pub(crate) struct FoundMounted {
    pub mounted: Option<Vec<String>>,
    pub maskable: Option<Vec<String>>,
}

impl Cell {
    /// Where something is to be mounted, as far as is known, for a backup of an object.
    pub(crate) fn mount_points(&self, object: Option<ObjectId>) -> Result<MountPoints> {
        let points = self.mounts.points().into_iter();
        let on_record = points.map(|point| {
            let path = point.path.as_os_str().as_bytes();
            (path.strip_prefix(b"/").unwrap_or(path).to_vec(), point.by_itself)
        });
        let versions = object.map(|object| self.idb.versions_of(object)).transpose()?;
        let is_of_use = |v: &&Version| is_complete_by(v, None) && !v.null_device;
        let last = match versions.iter().flatten().find(is_of_use) {
            Some(version) => self.mounted_by(version)?,
            // There is nothing that could be lost.
            None => FoundMounted { mounted: Some(Vec::new()), maskable: Some(Vec::new()) },
        };
        Ok(MountPoints {
            on_record: on_record.collect(),
            last: last.mounted.map(HashSet::from_iter),
            last_maskable: last.maskable.map(HashSet::from_iter),
        })
    }

    /// What a version found mounted.
    pub(crate) fn mounted_by(&self, version: &Version) -> Result<FoundMounted> {
        let sessions = self.idb.sessions_of_version(version.id)?;
        let mut writers = sessions.iter().rev().filter(|s| writes_versions(&s.kind));
        let report = writers.find_map(|s| s.report.as_deref());
        let found = report.and_then(|json| serde_json::from_str(json).ok());
        let FoundMounted { mounted, maskable } = found.unwrap_or_default();
        let all = |paths: &Vec<String>| paths.len() < MOUNTED_LISTED;
        Ok(FoundMounted { mounted: mounted.filter(all), maskable: maskable.filter(all) })
    }
}
