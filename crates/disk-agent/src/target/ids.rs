//! Owners by name: the number that a user or group of the backup has on this client.

use std::collections::HashMap;

use capstan_format::acl::{self, AclNames, Whose};
use capstan_format::entry::Entry;
use parking_lot::{Mutex, MutexGuard};

use crate::linux::users;

type Known = Mutex<HashMap<Vec<u8>, Option<u32>>>;

/// Maps owners of the backup to owners here. Each name is looked up once, names that nobody has
/// included: the user database may be far away.
#[derive(Debug, Default)]
pub struct IdMap {
    numeric_ids: bool,
    users: Known,
    groups: Known,
}

impl IdMap {
    /// With `numeric_ids` every number stays as it is, whatever the names are.
    pub fn new(numeric_ids: bool) -> Self {
        Self { numeric_ids, ..Self::default() }
    }

    /// The number of the user of that name here, or else the number in the backup.
    pub fn uid(&self, uid: u32, name: Option<&[u8]>) -> u32 {
        self.map(uid, name, &self.users, users::uid_of)
    }

    /// The number of the group of that name here, or else the number in the backup.
    pub fn gid(&self, gid: u32, name: Option<&[u8]>) -> u32 {
        self.map(gid, name, &self.groups, users::gid_of)
    }

    /// A row with the owners that it has here, of the names of its user and group and of those whom its ACLs name.
    pub fn here(
        &self,
        entry: &Entry,
        (user, group): (Option<&[u8]>, Option<&[u8]>),
        acl: Option<&AclNames>,
    ) -> Entry {
        let mut entry = Entry {
            uid: self.uid(entry.uid, user),
            gid: self.gid(entry.gid, group),
            ..entry.clone()
        };
        if let Some(names) = acl {
            let name = |of| names.get(&of).map(|name| &**name);
            let acls = entry.xattrs.iter_mut().filter(|(name, _)| acl::is_acl(name));
            acls.for_each(|(_, value)| {
                *value = acl::mapped(value, &mut |whose, id| match whose {
                    Whose::User => self.uid(id, name((whose, id))),
                    Whose::Group => self.gid(id, name((whose, id))),
                });
            });
        }
        entry
    }

    fn map(
        &self,
        id: u32,
        name: Option<&[u8]>,
        known: &Known,
        look: fn(&[u8]) -> Option<u32>,
    ) -> u32 {
        let Some(name) = name.filter(|name| !name.is_empty() && !self.numeric_ids) else {
            return id;
        };
        if let Some(found) = lock(known).get(name) {
            return found.unwrap_or(id);
        }
        // Not under the lock: other names need not wait for this one.
        let found = look(name);
        lock(known).insert(name.to_vec(), found);
        found.unwrap_or(id)
    }
}

fn lock(known: &Known) -> MutexGuard<'_, HashMap<Vec<u8>, Option<u32>>> {
    // A map is whole between any two of its operations, even if a thread panicked.
    known.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_win_over_numbers_unless_numeric() {
        let map = IdMap::new(false);
        for _ in 0..2 {
            assert_eq!(map.uid(4711, Some(b"root")), 0);
            assert_eq!(map.gid(4711, Some(b"root")), 0);
            assert_eq!(map.uid(4711, Some(b"no-such-user-here")), 4711);
        }
        assert_eq!(map.uid(4711, None), 4711);
        assert_eq!(map.uid(4711, Some(b"")), 4711);
        assert_eq!(IdMap::new(true).uid(4711, Some(b"root")), 4711);
    }
}
