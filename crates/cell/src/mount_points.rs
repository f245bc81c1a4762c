//! Where something is to be mounted in a source: by the tables of this machine, and by what the object's last version found.

use std::os::unix::ffi::OsStrExt;

use capstan_disk_agent::backup::MOUNTED_LISTED;
use capstan_disk_agent::mounts::MountPoints;
use capstan_format::id::ObjectId;
use capstan_idb::Version;

use crate::Cell;
use crate::error::Result;
use crate::restore::is_complete_by;
use crate::session::writes_versions;

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
            None => Some(Vec::new()),
        };
        let last = last.map(|paths| paths.into_iter().collect());
        Ok(MountPoints { on_record: on_record.collect(), last })
    }

    /// Where a version found something mounted and something in it. Nothing of one that was imported, of one that an earlier program made,
    /// and where there were too many of them.
    pub(crate) fn mounted_by(&self, version: &Version) -> Result<Option<Vec<String>>> {
        #[derive(serde::Deserialize)]
        struct OfReport {
            mounted: Option<Vec<String>>,
        }
        let sessions = self.idb.sessions_of_version(version.id)?;
        let mut writers = sessions.iter().rev().filter(|s| writes_versions(&s.kind));
        let report = writers.find_map(|s| s.report.as_deref());
        let of = report.and_then(|json| serde_json::from_str::<OfReport>(json).ok());
        Ok(of.and_then(|of| of.mounted).filter(|paths| paths.len() < MOUNTED_LISTED))
    }
}
