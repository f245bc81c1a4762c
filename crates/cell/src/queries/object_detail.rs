//! One object in detail: how it stands, its versions, and what its last one was told to take.

use std::time::Duration;

use crate::Cell;
use crate::error::Result;
use crate::queries::status::ObjectStatus;
use crate::queries::versions::VersionInfo;
use crate::report::Selected;

/// An object in detail.
#[derive(Debug, Clone)]
pub struct ObjectDetail {
    /// How it stands.
    pub status: ObjectStatus,
    /// Its versions that can be restored, newest first.
    pub versions: Vec<VersionInfo>,
    /// What its last complete version was told to take; nothing where that is not on record, as after an import.
    pub selection: Option<Selected>,
}

impl Cell {
    /// The objects of that name, of each host one. Those that were only measured, or given up, are left out.
    pub fn object_detail(&self, name: &str, max_age: Duration) -> Result<Vec<ObjectDetail>> {
        let names = [name.to_owned()];
        let versions = self.versions_of_object(name)?;
        let mut found = Vec::new();
        for status in self.status(&names, max_age)? {
            let is_of_it = |v: &&VersionInfo| v.host == status.host;
            let versions: Vec<_> = versions.iter().filter(is_of_it).cloned().collect();
            let mut selection = None;
            for object in self.objects_named(&names, &[])?.iter().filter(|o| o.host == status.host)
            {
                let all = self.idb.versions_of(object.id)?;
                let last = all.iter().find(|v| v.is_complete_by(None) && !v.null_device);
                selection = last.map(|last| self.selected_by(last)).transpose()?.flatten();
            }
            found.push(ObjectDetail { status, versions, selection });
        }
        Ok(found)
    }
}
