//! Metadata of what was restored, in the one order in which nothing undoes what came before:
//! owner (clears setuid and capabilities), extended attributes, mode (ACLs touch it), times.

use std::sync::atomic::Ordering::Relaxed;

use capstan_format::entry::{Entry, Kind, Timestamp};

use super::Target;
use super::tally::count;
use crate::linux::restore::{Errno, Handle};

/// What is known of the metadata as it is now; `None` must be set in any case.
#[derive(Debug, Clone, Copy, Default)]
pub struct Now {
    pub owner: Option<(u32, u32)>,
    pub mode: Option<u16>,
    pub mtime: Option<Timestamp>,
}

/// What could not be done, and why.
pub type Failure = (&'static str, Errno);

/// Whether an attribute is refused for good: for lack of rights, or by this file system.
pub(super) fn refused(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::PERM
            | Errno::ACCESS
            | Errno::OPNOTSUPP
            | Errno::INVAL
            | Errno::NOSYS
            | Errno::OVERFLOW
    )
}

/// Gives what `handle` leads to all metadata of `entry` but the inode flags. All of it is tried;
/// the first failure is told. What rights or file system refuse is counted instead.
pub fn apply(target: &Target, handle: &Handle<'_>, now: Now, entry: &Entry) -> Result<(), Failure> {
    let mut first: Result<(), Failure> = Ok(());
    let mut note = |doing, result: Result<(), Errno>| {
        if let (Ok(()), Err(e)) = (&first, result) {
            first = Err((doing, e));
        }
    };
    let (uid_set, gid_set) = match set_owner(target, handle, now.owner, entry) {
        Ok(set) => set,
        Err(e) => {
            note("set the owner of", Err(e));
            (false, false)
        }
    };
    for (name, value) in &entry.xattrs {
        match handle.set_xattr(name, value) {
            Err(e) if refused(e) => count(&target.tally.xattrs_not_restored),
            result => note("set an extended attribute of", result),
        }
    }
    let mut mode = entry.mode & 0o7777;
    if entry.kind == Kind::File {
        // Not the owner's file: these bits would lend the rights of whoever has it now.
        mode &= if uid_set { !0 } else { !0o4000 };
        mode &= if gid_set { !0 } else { !0o2000 };
    }
    let somebody_elses = !target.is_root() && now.owner.is_some_and(|(uid, _)| uid != target.euid);
    let mut kept = false;
    let mut ours = |result| match result {
        Err(Errno::PERM) if somebody_elses => {
            kept = true;
            Ok(())
        }
        result => result,
    };
    if now.mode != Some(mode) && entry.kind != Kind::Symlink {
        note("set the mode of", ours(handle.set_mode(mode)));
    }
    if now.mtime != Some(entry.mtime) {
        note("set the times of", ours(handle.set_mtime(entry.mtime)));
    }
    if kept {
        count(&target.tally.modes_not_restored);
    }
    first
}

/// Sets owner and group as far as our rights go; tells which of them are right now.
fn set_owner(
    target: &Target,
    handle: &Handle<'_>,
    now: Option<(u32, u32)>,
    entry: &Entry,
) -> Result<(bool, bool), Errno> {
    let (uid_right, gid_right) =
        now.map_or((false, false), |(uid, gid)| (uid == entry.uid, gid == entry.gid));
    if uid_right && gid_right {
        return Ok((true, true));
    }
    let differing = |right: bool, id: u32| if right { None } else { Some(id) };
    let (uid, gid) = (differing(uid_right, entry.uid), differing(gid_right, entry.gid));
    // A plain user who was refused once is not asked again for each of a million files.
    if uid.is_none() || !target.chown_refused.load(Relaxed) {
        match handle.set_owner(uid, gid) {
            Ok(()) => return Ok((true, true)),
            Err(e) if !refused(e) => return Err(e),
            Err(Errno::PERM) if uid.is_some() && !target.is_root() => {
                target.chown_refused.store(true, Relaxed);
            }
            Err(_) => {}
        }
    }
    count(&target.tally.owners_not_restored);
    // A group that the user is a member of can be given all the same.
    let gid_set = gid_right || (uid.is_some() && handle.set_owner(None, gid).is_ok());
    Ok((uid_right, gid_set))
}
