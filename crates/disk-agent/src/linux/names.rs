//! The local user database: names of users and groups by number.

use std::ffi::CStr;

use capstan_format::acl::Whose;
use capstan_format::entry::Entry;
use capstan_port::disk::check::Looked;
use capstan_stream::owners::OwnerNames;

/// Names of owners, as this host knows them.
pub fn owner_names() -> OwnerNames {
    OwnerNames::found_by(|(whose, id)| match whose {
        Whose::User => name_of_uid(id),
        Whose::Group => name_of_gid(id),
    })
}

/// A row of a file system, with the names that go with it.
pub(crate) fn looked(owners: &OwnerNames, entry: Entry) -> Looked {
    let (user, group) = (owners.user(entry.uid), owners.group(entry.gid));
    let acl = owners.of_acls(&entry);
    Looked { entry, user, group, acl }
}

/// The name of the user with that number, if there is one.
pub fn name_of_uid(uid: u32) -> Option<Vec<u8>> {
    let mut buffer = vec![0u8; 64 << 10];
    // SAFETY: an all-zero `passwd` is valid (null pointers, zero numbers).
    let mut record: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: record, buffer (with its true length) and `found` are ours and outlive the call.
    let rc = unsafe {
        libc::getpwuid_r(
            uid,
            &raw mut record,
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            &raw mut found,
        )
    };
    if rc != 0 || found.is_null() || record.pw_name.is_null() {
        return None;
    }
    // SAFETY: on success the name is a C string inside `buffer`, which is still alive.
    Some(unsafe { CStr::from_ptr(record.pw_name) }.to_bytes().to_vec())
}

/// The name of the group with that number, if there is one.
pub fn name_of_gid(gid: u32) -> Option<Vec<u8>> {
    // Groups with very many members have large records.
    let mut buffer = vec![0u8; 1 << 20];
    // SAFETY: an all-zero `group` is valid (null pointers, zero numbers).
    let mut record: libc::group = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: as in `name_of_uid`.
    let rc = unsafe {
        libc::getgrgid_r(
            gid,
            &raw mut record,
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            &raw mut found,
        )
    };
    if rc != 0 || found.is_null() || record.gr_name.is_null() {
        return None;
    }
    // SAFETY: as in `name_of_uid`.
    Some(unsafe { CStr::from_ptr(record.gr_name) }.to_bytes().to_vec())
}
