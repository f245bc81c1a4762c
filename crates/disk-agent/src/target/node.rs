//! What has a name but no contents: symbolic links, FIFOs, sockets, device nodes, further names.
//!
//! What replaces an existing name is made beside it and renamed over it, so that the old one is
//! still there if the new one cannot be made.

use std::ffi::CStr;
use std::os::fd::AsFd;

use capstan_format::entry::{Entry, Kind};

use super::dirs::{Dir, Missing};
use super::error::TargetError;
use super::meta::{self, Now};
use super::names::temporary_name;
use super::policy::{self, Found, TRIES, Way};
use super::tally::count;
use super::worker::{MODE_MEANWHILE, Made, Worker, owner_of_new};
use super::{Target, names};
use crate::linux::restore::{self as sys, Errno, Handle};

impl Worker<'_> {
    /// Makes a symbolic link, a FIFO, a socket's name or a device node, with all its metadata.
    pub fn make_node(
        &mut self,
        entry: &Entry,
        dir: &[u8],
        name: &[u8],
    ) -> Result<Made, TargetError> {
        let dir = self.dirs.get(self.target, dir, Missing::Make)?;
        let name = names::component(&dir.path, name)?;
        let text = match entry.kind {
            Kind::Symlink => Some(names::link_text(&dir.path, &name, &entry.target)?),
            _ => None,
        };
        let make = |name: &CStr| match &text {
            Some(text) => sys::make_symlink(&dir.fd, name, text),
            None => sys::make_special(&dir.fd, name, entry.kind, MODE_MEANWHILE, entry.rdev),
        };
        match place(self.target, &dir, &name, make, || {
            policy::existing(self.target, &dir, &name, entry)
        }) {
            Ok(Way::Keep) => return Ok(Made::Skipped),
            Ok(_) => {}
            Err(Failed::Errno(Errno::PERM | Errno::OPNOTSUPP)) if text.is_none() => {
                count(&self.target.tally.nodes_not_restored);
                return Ok(Made::NotPermitted);
            }
            Err(failed) => return Err(failed.into_error("make", &dir, &name)),
        }
        let fail = |doing, e| TargetError::io(doing, dir.path_of(name.to_bytes()), e);
        let finish = |handle: &Handle<'_>| {
            let owner = owner_of_new(&dir, handle).map_err(|e| fail("examine", e))?;
            if dir.gives_acl && text.is_none() {
                handle
                    .remove_xattr(sys::ACL_ACCESS)
                    .map_err(|e| fail("remove the inherited ACL of", e))?;
            }
            let now = Now { owner: Some(owner), ..Now::default() };
            meta::apply(self.target, handle, now, entry).map_err(|(doing, e)| fail(doing, e))
        };
        if text.is_some() {
            finish(&Handle::Name(dir.fd.as_fd(), &name))?;
        } else {
            // Not opened: that would wait for a FIFO's writer, or move a tape.
            let fd = sys::open_place(&dir.fd, &name).map_err(|e| fail("open", e))?;
            finish(&Handle::place(fd.as_fd()))?;
        }
        Ok(Made::Made)
    }

    /// Whether what has a name is what `entry` says, as far as kind, size and time of change tell.
    pub fn is_like(&mut self, entry: &Entry, dir: &[u8], name: &[u8]) -> Result<bool, TargetError> {
        let dir = self.dirs.get(self.target, dir, Missing::Make)?;
        let name = names::component(&dir.path, name)?;
        Ok(policy::like(&dir, &name, entry)?.is_some())
    }

    /// Whether a name has something that the policy keeps. It is counted then.
    pub fn keeps(&mut self, entry: &Entry, dir: &[u8], name: &[u8]) -> Result<bool, TargetError> {
        let dir = self.dirs.get(self.target, dir, Missing::Make)?;
        let name = names::component(&dir.path, name)?;
        Ok(policy::existing(self.target, &dir, &name, entry)? == Way::Keep)
    }

    /// What has a name where `entry` is to be; nothing is made or counted. What cannot be looked at is told where it is restored.
    pub fn found(&mut self, entry: &Entry, dir: &[u8], name: &[u8]) -> Found {
        let Ok(dir) = self.dirs.get(self.target, dir, Missing::Fail) else { return Found::Free };
        let Ok(name) = names::component(&dir.path, name) else { return Found::Free };
        policy::found(self.target, &dir, &name, entry).unwrap_or(Found::Free)
    }

    /// Gives a file that was restored earlier (`target_name` in `target_dir`) the further name
    /// `name` in `dir`. A name that already is one of that file is well as it is.
    pub fn make_link(
        &mut self,
        dir: &[u8],
        name: &[u8],
        target_dir: &[u8],
        target_name: &[u8],
    ) -> Result<Made, TargetError> {
        let from = self.dirs.get(self.target, target_dir, Missing::Fail)?;
        let dir = self.dirs.get(self.target, dir, Missing::Make)?;
        let from_name = names::component(&from.path, target_name)?;
        let name = names::component(&dir.path, name)?;
        let make = |name: &CStr| sys::link(&from.fd, &from_name, &dir.fd, name);
        let existing = || {
            let of = sys::stat(&from.fd, &from_name)
                .map_err(|e| TargetError::io("examine", from.path_of(target_name), e))?;
            // Renaming one name of an inode over another would do nothing.
            if sys::stat(&dir.fd, &name).is_ok_and(|stat| stat.id == of.id) {
                return Ok(Way::Done);
            }
            policy::existing_link(self.target, &dir, &name, &of)
        };
        match place(self.target, &dir, &name, make, existing) {
            Ok(Way::Keep) => Ok(Made::Skipped),
            Ok(_) => Ok(Made::Made),
            Err(failed) => Err(failed.into_error("make the hard link", &dir, &name)),
        }
    }
}

/// Why something could not be put in its place.
enum Failed {
    Errno(Errno),
    Other(TargetError),
}

impl Failed {
    fn into_error(self, doing: &'static str, dir: &Dir, name: &CStr) -> TargetError {
        match self {
            Self::Errno(e) => TargetError::io(doing, dir.path_of(name.to_bytes()), e),
            Self::Other(e) => e,
        }
    }
}

/// Makes something under its name, or where that exists as `existing` says. [`Way::Keep`] and
/// [`Way::Done`]: what exists stays.
fn place(
    target: &Target,
    dir: &Dir,
    name: &CStr,
    make: impl Fn(&CStr) -> Result<(), Errno>,
    existing: impl Fn() -> Result<Way, TargetError>,
) -> Result<Way, Failed> {
    for _ in 0..TRIES {
        match make(name) {
            Ok(()) => return Ok(Way::Gone),
            Err(Errno::EXIST) => match existing().map_err(Failed::Other)? {
                way @ (Way::Keep | Way::Done) => return Ok(way),
                Way::Gone => {}
                Way::Replace => {
                    if replace(target, dir, name, &make).map_err(Failed::Errno)? {
                        return Ok(Way::Replace);
                    }
                }
            },
            Err(e) => return Err(Failed::Errno(e)),
        }
    }
    Err(Failed::Errno(Errno::EXIST))
}

/// Makes it beside `name` and renames it over that; `false`: the name beside was taken.
fn replace(
    target: &Target,
    dir: &Dir,
    name: &CStr,
    make: impl Fn(&CStr) -> Result<(), Errno>,
) -> Result<bool, Errno> {
    let beside = temporary_name(target)?;
    match make(&beside) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(false),
        Err(e) => return Err(e),
    }
    sys::rename(&dir.fd, &beside, name).inspect_err(|_| {
        // Best effort: the failure that is told is the renaming's.
        let _ = sys::unlink(&dir.fd, &beside);
    })?;
    Ok(true)
}
