//! Where something is to be mounted in a source, by what the object's last version found.

use std::collections::HashSet;

use capstan_format::id::ObjectId;
use capstan_idb::Version;
use capstan_wire::backup::{MOUNTED_LISTED, MountedLast};

use crate::Cell;
use crate::error::Result;
use crate::session::writes_versions;

/// Where a version found something mounted and something in it, and contents that another may mask, by its report. Nothing of a version that was
/// imported, of one that an earlier program made, and where there were too many of them.
#[derive(Default, serde::Deserialize)]
pub(crate) struct FoundMounted {
    pub mounted: Option<Vec<String>>,
    pub maskable: Option<Vec<String>>,
    /// Whether it is no record of the last version.
    #[serde(skip)]
    is_of_earlier: bool,
}

impl FoundMounted {
    fn of_earlier(self) -> Self {
        Self { is_of_earlier: true, ..self }
    }
}

/// So many versions are asked what they found mounted, where the last one has no record of it.
const EARLIER: usize = 64;

impl Cell {
    /// What the last version of an object found mounted, as far as is known.
    pub(crate) fn mounted_last(&self, object: Option<ObjectId>) -> Result<MountedLast> {
        let versions = object.map(|object| self.idb.versions_of(object)).transpose()?;
        let versions = versions.unwrap_or_default();
        let mut complete = versions.iter().filter(|v| v.is_complete_by(None) && !v.null_device);
        let newest = complete.next().map(|version| self.mounted_by(version)).transpose()?;
        let last = match newest {
            Some(found) if found.mounted.is_some() => found,
            // Of one that was imported, or is recorded anew in an older home, the rows tell, and what an earlier one found.
            Some(_) => {
                let earlier = complete.map(|version| self.mounted_by(version));
                let known = |found: &Result<FoundMounted>| {
                    found.as_ref().map_or(true, |found| found.mounted.is_some())
                };
                earlier.take(EARLIER).find(known).transpose()?.unwrap_or_default().of_earlier()
            }
            // An incomplete one that is resumed: its rows tell.
            None if self.has_any(versions.iter())? => FoundMounted::default().of_earlier(),
            // There is nothing that could be lost.
            None => FoundMounted::default(),
        };
        Ok(MountedLast {
            mounted: last.mounted.map(HashSet::from_iter),
            maskable: last.maskable.map(HashSet::from_iter),
            rows_tell: last.is_of_earlier,
        })
    }

    fn has_any<'v>(&self, mut versions: impl Iterator<Item = &'v Version>) -> Result<bool> {
        let has =
            |v: &Version| -> Result<bool> { Ok(!v.null_device && self.idb.has_segments(v.id)?) };
        versions.try_fold(false, |any, version| Ok(any || has(version)?))
    }

    /// What a version found mounted.
    pub(crate) fn mounted_by(&self, version: &Version) -> Result<FoundMounted> {
        let sessions = self.idb.sessions_of_version(version.id)?;
        let mut writers = sessions.iter().rev().filter(|s| writes_versions(&s.kind));
        let report = writers.find_map(|s| s.report.as_deref());
        let found = report.and_then(|json| serde_json::from_str(json).ok());
        let FoundMounted { mounted, maskable, .. } = found.unwrap_or_default();
        let all = |paths: &Vec<String>| paths.len() < MOUNTED_LISTED;
        let (mounted, maskable) = (mounted.filter(all), maskable.filter(all));
        Ok(FoundMounted { mounted, maskable, is_of_earlier: false })
    }
}
