//! Names of owners and groups, and of those whom ACLs name, looked up once each.

use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use capstan_format::acl::{self, AclNames, Whose};
use capstan_format::batch::BatchEncoder;
use capstan_format::entry::Entry;

use crate::linux::names as numbers;

type Names = Mutex<HashMap<u32, Option<Vec<u8>>>>;

/// Remembers the names of user and group numbers.
#[derive(Debug, Default)]
pub struct OwnerNames {
    users: Names,
    groups: Names,
}

impl OwnerNames {
    /// The user's name, if the machine knows one.
    pub fn user(&self, uid: u32) -> Option<Vec<u8>> {
        remember(&self.users, uid, numbers::name_of_uid)
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

    /// The group's name, if the machine knows one.
    pub fn group(&self, gid: u32) -> Option<Vec<u8>> {
        remember(&self.groups, gid, numbers::name_of_gid)
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

fn remember(names: &Names, id: u32, find: fn(u32) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut names = names.lock();
    names.entry(id).or_insert_with(|| find(id)).clone()
}
