//! Metadata of what is left alone because it looks like what is in the backup: they are put right, and its contents are neither read
//! nor written.

use std::os::fd::AsFd;

use capstan_format::entry::{Entry, Kind, Xattr};
use capstan_wire::restore::Overwrite;

use super::dirs::Missing;
use super::error::TargetError;
use super::meta::{self, Failure, Now};
use super::policy;
use super::tally::count;
use super::worker::{MODE_MEANWHILE, Worker};
use super::{Target, names};
use crate::linux::restore::{self as sys, Handle, Stat};

/// Attributes that give rights. Where the backup does not have them they are removed; others that it does not have stay.
const RIGHTS: [&[u8]; 2] = [sys::ACL_ACCESS, sys::CAPABILITY];

/// What [`Worker::amend`] found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Existing {
    /// It looks like what is in the backup: by kind, size and time of last change.
    pub is_like: bool,
    /// Metadata of it were put right, and it is counted.
    pub is_amended: bool,
}

impl Worker<'_> {
    /// Puts right the metadata of what was left alone and looks like `entry`, inode flags excepted, as far as the policy allows. Where
    /// all is right, nothing is set.
    pub fn amend(
        &mut self,
        entry: &Entry,
        dir: &[u8],
        name: &[u8],
    ) -> Result<Existing, TargetError> {
        let dir = self.dirs.get(self.target, dir, Missing::Fail)?;
        let name = names::component(&dir.path, name)?;
        let fail = |(doing, e)| TargetError::io(doing, dir.path_of(name.to_bytes()), e);
        let Some(stat) = policy::like(&dir, &name, entry)? else { return Ok(Existing::default()) };
        let mut found = Existing { is_like: true, is_amended: false };
        let by_name = Handle::Name(dir.fd.as_fd(), &name);
        let before = Differences::of(&by_name, &stat, entry).map_err(fail)?;
        if before.are_none() {
            return Ok(found);
        }
        if !self.target.amends() {
            count(&self.target.tally.differ_kept);
            return Ok(found);
        }
        let place;
        let handle = if entry.kind == Kind::Symlink {
            by_name
        } else {
            place = sys::open_place(&dir.fd, &name).map_err(|e| fail(("open", e)))?;
            Handle::place(place.as_fd())
        };
        let now = || handle.stat().map_err(|e| fail(("examine", e)));
        // Somebody put something else in its place meanwhile.
        if now()?.id != stat.id {
            return Ok(found);
        }
        let set = match lets_be_read(self.target, &handle, &stat, &before) {
            false => set(self.target, &handle, &stat, entry, &before),
            true => Differences::of(&handle, &stat, entry).and_then(|found| {
                set(self.target, &handle, &stat, entry, &Differences { mode: true, ..found })
            }),
        };
        let after = Differences::of(&handle, &now()?, entry).map_err(fail)?;
        if after != before {
            count(&self.target.tally.put_right);
            found.is_amended = true;
        }
        set.map_err(fail)?;
        Ok(found)
    }

    /// Counts what [`Self::amend`] would put right.
    pub(super) fn would_amend(
        &mut self,
        entry: &Entry,
        dir: &[u8],
        name: &[u8],
    ) -> Result<(), TargetError> {
        let dir = self.dirs.get(self.target, dir, Missing::Fail)?;
        let name = names::component(&dir.path, name)?;
        let Some(stat) = policy::like(&dir, &name, entry)? else { return Ok(()) };
        let handle = Handle::Name(dir.fd.as_fd(), &name);
        let differences = Differences::of(&handle, &stat, entry)
            .map_err(|(doing, e)| TargetError::io(doing, dir.path_of(name.to_bytes()), e))?;
        if !differences.are_none() {
            let tally = &self.target.tally;
            let amends = self.target.amends();
            count(if amends { &tally.put_right } else { &tally.differ_kept });
        }
        Ok(())
    }
}

impl Target {
    /// Whether anything that differs from the backup is kept.
    pub fn may_keep_others(&self) -> bool {
        matches!(self.overwrite, Overwrite::Never | Overwrite::IfNewer)
    }

    /// Whether metadata of what is left alone are put right.
    pub fn amends(&self) -> bool {
        self.overwrite != Overwrite::Never
    }
}

/// What of something's metadata is not as in the backup.
#[derive(Debug, PartialEq, Eq)]
struct Differences<'e> {
    uid: bool,
    gid: bool,
    mode: bool,
    /// Attributes that are missing, or have other values.
    xattrs: Vec<&'e Xattr>,
    /// Attributes that give rights and are not in the backup.
    rights: Vec<&'static [u8]>,
}

impl<'e> Differences<'e> {
    fn of(handle: &Handle<'_>, stat: &Stat, entry: &'e Entry) -> Result<Self, Failure> {
        let mut it = Self {
            uid: stat.uid != entry.uid,
            gid: stat.gid != entry.gid,
            mode: entry.kind != Kind::Symlink && stat.mode != entry.mode & 0o7777,
            xattrs: Vec::new(),
            rights: Vec::new(),
        };
        // The row of a further name tells of no attributes.
        if entry.link {
            return Ok(it);
        }
        let fail = |e| ("read the extended attributes of", e);
        for xattr in &entry.xattrs {
            if !handle.has_value(&xattr.0, &xattr.1).map_err(fail)? {
                it.xattrs.push(xattr);
            }
        }
        let has_right = |name: &[u8]| entry.xattrs.iter().any(|(of, _)| of == name);
        let names = handle.xattr_names().map_err(fail)?;
        for name in names.split(|b| *b == 0) {
            let right = RIGHTS.into_iter().find(|right| *right == name);
            it.rights.extend(right.filter(|right| !has_right(right)));
        }
        Ok(it)
    }

    fn are_none(&self) -> bool {
        let Self { uid, gid, mode, xattrs, rights } = self;
        !(*uid || *gid || *mode) && xattrs.is_empty() && rights.is_empty()
    }
}

/// Lets a plain user read and write the attributes of what is his, where its mode does not; tells whether its mode is another one now.
fn lets_be_read(
    target: &Target,
    handle: &Handle<'_>,
    stat: &Stat,
    differences: &Differences<'_>,
) -> bool {
    let is_shut = stat.mode & MODE_MEANWHILE != MODE_MEANWHILE && stat.uid == target.euid;
    !target.is_root()
        && is_shut
        && !differences.xattrs.is_empty()
        && handle.set_mode(stat.mode | MODE_MEANWHILE).is_ok()
}

/// Sets what differs.
fn set(
    target: &Target,
    handle: &Handle<'_>,
    stat: &Stat,
    entry: &Entry,
    differences: &Differences<'_>,
) -> Result<(), Failure> {
    let Differences { uid, gid, mode, xattrs, rights } = differences;
    let mut removed = Ok(());
    for name in rights {
        match handle.remove_xattr(name) {
            Err(e) if meta::refused(e) => count(&target.tally.xattrs_not_restored),
            Err(e) => removed = Err(("remove an extended attribute of", e)),
            Ok(()) => {}
        }
    }
    let changes_owner = *uid || *gid;
    // Another owner takes the capability with it, and attributes change the mode.
    let is_to_set =
        |xattr: &&Xattr| xattrs.contains(xattr) || changes_owner && xattr.0 == sys::CAPABILITY;
    let to_set = entry.xattrs.iter().filter(is_to_set).cloned().collect();
    let keeps_mode = !(*mode || changes_owner) && xattrs.is_empty() && rights.is_empty();
    let now = Now {
        owner: Some((stat.uid, stat.gid)),
        mode: keeps_mode.then_some(stat.mode),
        mtime: Some(stat.mtime),
    };
    meta::apply(target, handle, now, &Entry { xattrs: to_set, ..entry.clone() }).and(removed)
}
