//! Names of owners and groups, and of those whom ACLs name, looked up once each. Where they are looked up is said by who makes
//! [`OwnerNames`]: in the user database of a host, or nowhere.

use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use capstan_format::acl::{self, AclNames, Whose};
use capstan_format::batch::BatchEncoder;
use capstan_format::entry::Entry;

type Names = Mutex<HashMap<u32, Option<Vec<u8>>>>;

/// Remembers the names of user and group numbers.
#[derive(Debug)]
pub struct OwnerNames {
    users: Names,
    groups: Names,
    find: FindName,
}

/// Looks up a name.
pub type FindName = fn((Whose, u32)) -> Option<Vec<u8>>;

impl Default for OwnerNames {
    /// Those that are [set](Self::set), and no others.
    fn default() -> Self {
        Self::found_by(|_| None)
    }
}

impl OwnerNames {
    /// Names that are looked up by `find`.
    pub fn found_by(find: FindName) -> Self {
        Self { users: Names::default(), groups: Names::default(), find }
    }

    /// The user's name, if the machine knows one.
    pub fn user(&self, uid: u32) -> Option<Vec<u8>> {
        self.remember(Whose::User, uid)
    }

    /// The name of whom an ACL names, if the machine knows it.
    pub fn name(&self, (whose, id): (Whose, u32)) -> Option<Vec<u8>> {
        match whose {
            Whose::User => self.user(id),
            Whose::Group => self.group(id),
        }
    }

    /// The names of all whom the ACLs of a file name; `None` if they name nobody.
    pub fn of_acls(&self, entry: &Entry) -> Option<Arc<AclNames>> {
        let known = acl::named(&entry.xattrs).filter_map(|of| Some((of, self.name(of)?.into())));
        let names: AclNames = known.collect();
        (!names.is_empty()).then(|| names.into())
    }

    /// A name as it was where something came from, in place of that of this machine.
    pub fn set(&self, (whose, id): (Whose, u32), name: Option<Vec<u8>>) {
        let names = match whose {
            Whose::User => &self.users,
            Whose::Group => &self.groups,
        };
        names.lock().insert(id, name);
    }

    fn remember(&self, whose: Whose, id: u32) -> Option<Vec<u8>> {
        let mut names = match whose {
            Whose::User => self.users.lock(),
            Whose::Group => self.groups.lock(),
        };
        names.entry(id).or_insert_with(|| (self.find)((whose, id))).clone()
    }

    /// The group's name, if the machine knows one.
    pub fn group(&self, gid: u32) -> Option<Vec<u8>> {
        self.remember(Whose::Group, gid)
    }
}

/// Whom the rows of a batch name: their owners, and who is in their ACLs.
#[derive(Debug, Default)]
pub(crate) struct Named(BTreeSet<(Whose, u32)>);

impl Named {
    /// Adds whom a row names.
    pub fn add(&mut self, entry: &Entry) {
        if entry.kind.is_inode() {
            self.0.extend([(Whose::User, entry.uid), (Whose::Group, entry.gid)]);
            self.0.extend(acl::named(&entry.xattrs));
        }
    }

    /// Gives a batch the names that are known, and begins anew.
    pub fn put(&mut self, owners: &OwnerNames, encoder: &mut BatchEncoder) {
        for of in std::mem::take(&mut self.0) {
            match (owners.name(of), of) {
                (Some(name), (Whose::User, id)) => encoder.user(id, &name),
                (Some(name), (Whose::Group, id)) => encoder.group(id, &name),
                (None, _) => {}
            }
        }
    }
}
