//! One object that was recorded as two: its medium was imported while nothing opened its name, and it was backed up meanwhile.

use std::cmp::Reverse;

use capstan_idb::Object;

use crate::Cell;
use crate::error::Result;

impl Cell {
    /// Makes one of objects that have name and host in common. The one that was backed up last takes what is recorded of the others.
    /// Another cell's stays for itself: its keep rules are not ours.
    pub(crate) fn join_objects_of_one_name(&self) -> Result<()> {
        let objects = self.idb.objects()?;
        let is_one = |a: &Object, b: &Object| {
            !a.name.is_empty() && !a.host.is_empty() && (&a.name, &a.host) == (&b.name, &b.host)
        };
        // They come by name and host.
        let mut groups = objects.chunk_by(is_one).filter(|group| group.len() > 1).peekable();
        if groups.peek().is_none() {
            return Ok(());
        }
        let of_others = self.versions_of_others()?;
        for group in groups {
            let mut ours = Vec::new();
            for object in group {
                let versions = self.idb.versions_of(object.id)?;
                if versions.iter().all(|version| !of_others.contains(&version.id)) {
                    let last = self.idb.sessions_of_object(object.id, Some("backup"), 1)?;
                    ours.push((last.first().map(|session| session.started_us), object.id));
                }
            }
            ours.sort_by_key(|of| Reverse(*of));
            let Some(((_, into), others)) = ours.split_first() else { continue };
            for (_, from) in others {
                self.idb.join_objects(*from, *into)?;
            }
        }
        Ok(())
    }
}
