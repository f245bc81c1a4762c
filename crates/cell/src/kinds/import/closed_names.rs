//! Names of objects that were imported without a secret, opened later by the names key of the home.

use capstan_address::HostName;
use std::io::BufReader;

use capstan_catalog::keys::VersionKeys;
use capstan_format::catalog::Contents;
use capstan_format::keys::KeyRecord;
use capstan_format::record::StreamNames;
use capstan_idb::Object;

use crate::Cell;
use crate::error::Result;
use crate::kinds::import::names::names;

impl Cell {
    /// The objects of which no name is known, as it is encrypted.
    pub(crate) fn closed_objects(&self) -> Result<Vec<Object>> {
        let mut objects = self.idb.objects()?;
        objects.retain(|object| object.name.is_empty() && object.sealed.is_some());
        Ok(objects)
    }

    /// Opens names with the names key of the home, asking nobody: what is backed up now builds on what was imported. Whether any was
    /// opened.
    pub(crate) fn open_closed_names(&self) -> Result<bool> {
        let closed = self.closed_objects()?;
        if closed.is_empty() {
            return Ok(false);
        }
        let mut keys = VersionKeys::default();
        for row in self.idb.keys()? {
            // One that cannot be read opens nothing.
            if let Ok(record) = KeyRecord::from_json(row.record.as_bytes()) {
                self.opener.lock().open_unasked(self, &record, &mut keys);
            }
        }
        let mut any = false;
        for object in closed {
            let Some(names) = self.names_in_catalogs(&object, &keys)? else { continue };
            self.idb.put_object(&Object {
                name: names.name,
                host: HostName::recorded(names.host),
                ..object
            })?;
            any = true;
        }
        if any {
            self.idb.complete_hosts()?;
            self.join_objects_of_one_name()?;
        }
        Ok(any)
    }

    /// The names of an object, from the catalogs of its versions.
    fn names_in_catalogs(
        &self,
        object: &Object,
        keys: &VersionKeys,
    ) -> Result<Option<StreamNames>> {
        for version in self.idb.versions_of(object.id)? {
            for (segment, _) in self.idb.segments_of_version(version.id)? {
                let Some(file) = self.idb.read_catalog(segment.id)? else { continue };
                // What is damaged is said by who needs it.
                let Ok(contents) = Contents::from_catalog(segment.id, BufReader::new(file)) else {
                    continue;
                };
                let own = contents.streams.iter().filter(|stream| {
                    let label = stream.label.as_ref().map(|label| &label.session);
                    label.is_some_and(|label| label.object == object.id)
                });
                let opened = own.filter_map(|stream| names(stream, keys).ok()).next();
                if opened.is_some() {
                    return Ok(opened);
                }
            }
        }
        Ok(None)
    }
}
