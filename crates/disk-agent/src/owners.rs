//! Names of owners and groups, looked up once each.

use parking_lot::Mutex;
use std::collections::HashMap;

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

    /// Names as they were where something came from, in place of those of this machine.
    pub fn set(&self, user: (u32, Option<Vec<u8>>), group: (u32, Option<Vec<u8>>)) {
        self.users.lock().insert(user.0, user.1);
        self.groups.lock().insert(group.0, group.1);
    }

    /// The group's name, if the machine knows one.
    pub fn group(&self, gid: u32) -> Option<Vec<u8>> {
        remember(&self.groups, gid, numbers::name_of_gid)
    }
}

fn remember(names: &Names, id: u32, find: fn(u32) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut names = names.lock();
    names.entry(id).or_insert_with(|| find(id)).clone()
}
