//! One thread's share of a restore: files and directories. Nodes and links are in `node`.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use capstan_format::entry::{Entry, ExtentKind, Kind};
use capstan_wire::restore::Overwrite;

use super::dirs::{Dir, DirCache, Missing, a};
use super::error::{ShownPath, TargetError};
use super::file::OpenFile;
use super::meta::{self, Now};
use super::names::temporary_name;
use super::policy::{self, TRIES, Way};
use super::tally::count;
use super::{Target, names};
use crate::linux::flags::{self, FlagsSet};
use crate::linux::restore::{self as sys, Errno, Handle};

/// Mode of files whose final mode comes later.
pub(super) const MODE_MEANWHILE: u16 = 0o600;

/// What came of [`Worker::create_file`].
#[derive(Debug)]
pub enum Created {
    /// A new, empty file.
    File(OpenFile),
    /// One existed that the policy keeps. It must not be written to.
    Skipped,
}

/// What came of [`Worker::make_node`] and [`Worker::make_link`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// It is there, with all its metadata but the inode flags.
    Made,
    /// Something existed that the policy keeps.
    Skipped,
    /// Neither rights nor file system allow it; it is counted.
    NotPermitted,
}

/// One worker thread's means: its open directories. Paths are relative to the target's root,
/// without a leading slash; the root is the empty path. Entries have owners already mapped by
/// [`Target::ids`]. An error concerns one file only; the worker goes on.
#[derive(Debug)]
pub struct Worker<'t> {
    pub(super) target: &'t Target,
    pub(super) dirs: DirCache,
}

impl<'t> Worker<'t> {
    pub(super) fn new(target: &'t Target) -> Self {
        Self { target, dirs: DirCache::default() }
    }

    /// The target it works on.
    pub fn target(&self) -> &'t Target {
        self.target
    }

    /// Whether something exists where a file is to be that is kept by the policy, which is counted, as is what would be put right of it.
    /// Nothing is made.
    pub fn would_keep(&mut self, entry: &Entry, dir: &[u8], name: &[u8]) -> bool {
        // A further name is made anew unless it is one of that very file, which stays a name of it.
        let is_replaced =
            matches!(self.target.overwrite, Overwrite::IfDifferent | Overwrite::Always);
        if entry.link && is_replaced {
            return false;
        }
        let is_kept = self.keeps_existing(entry, dir, name);
        if is_kept && !entry.link {
            // What cannot be examined is said by the restore.
            let _ = self.would_amend(entry, dir, name);
        }
        is_kept
    }

    fn keeps_existing(&mut self, entry: &Entry, dir: &[u8], name: &[u8]) -> bool {
        let Ok(dir) = self.dirs.get(self.target, dir, Missing::Fail) else { return false };
        let Ok(name) = names::component(&dir.path, name) else { return false };
        policy::existing(self.target, &dir, &name, entry).is_ok_and(|way| way == Way::Keep)
    }

    /// Creates the regular file `name` in `dir` (made if missing), empty. What exists is treated by the policy. What is to be
    /// replaced stays until the file is finished, which is written beside it; its other names and whoever has it open keep it.
    pub fn create_file(
        &mut self,
        entry: &Entry,
        dir: &[u8],
        name: &[u8],
    ) -> Result<Created, TargetError> {
        let dir = self.dirs.get(self.target, dir, Missing::Make)?;
        let name = names::component(&dir.path, name)?;
        let final_mode = mode_at_creation(&dir, entry);
        let fail = |doing, e| TargetError::io(doing, dir.path_of(name.to_bytes()), e);
        let mut beside = None;
        for _ in 0..TRIES {
            let at = beside.as_ref().unwrap_or(&name);
            match sys::create(&dir.fd, at, final_mode.unwrap_or(MODE_MEANWHILE)) {
                Ok(fd) => {
                    if let Some(beside) = beside {
                        let path = dir.path_of(name.to_bytes());
                        self.target.beside.lock().insert(path, beside);
                    }
                    let owner = owner_of_new(&dir, &Handle::Open(fd.as_fd()))
                        .map_err(|e| fail("examine", e))?;
                    if dir.gives_acl {
                        Handle::Open(fd.as_fd())
                            .remove_xattr(sys::ACL_ACCESS)
                            .map_err(|e| fail("remove the inherited ACL of", e))?;
                    }
                    flags::set_before_writing(&fd, entry.inode_flags);
                    let now = Now { owner: Some(owner), mode: final_mode, mtime: None };
                    return Ok(Created::File(OpenFile { fd, dir, name, now }));
                }
                Err(Errno::EXIST) => match policy::existing(self.target, &dir, &name, entry)? {
                    Way::Keep | Way::Done => return Ok(Created::Skipped),
                    Way::Gone => beside = None,
                    Way::Replace => {
                        beside = Some(temporary_name(self.target).map_err(|e| fail("replace", e))?);
                    }
                },
                Err(e) => {
                    let doing = if beside.is_some() { "replace" } else { "create" };
                    return Err(fail(doing, e));
                }
            }
        }
        Err(fail("create", Errno::EXIST))
    }

    /// Opens a regular file that this restore created, to write further parts of it. The caller
    /// knows that it was created and not skipped: what is written goes into whatever file has the
    /// name.
    pub fn open_part(&mut self, dir: &[u8], name: &[u8]) -> Result<OpenFile, TargetError> {
        let dir = self.dirs.get(self.target, dir, Missing::Fail)?;
        let name = names::component(&dir.path, name)?;
        let fail = |doing, e| TargetError::io(doing, dir.path_of(name.to_bytes()), e);
        let at = self.target.name_meanwhile(&dir.path_of(name.to_bytes()), &name);
        let mut opened = sys::open_for_writing(&dir.fd, &at);
        if let Err(Errno::ACCESS) = opened {
            // A plain user's file whose mode does not let even its owner write.
            let place = sys::open_place(&dir.fd, &at).map_err(|e| fail("open", e))?;
            let handle = Handle::place(place.as_fd());
            if handle.stat().is_ok_and(|s| s.kind == Some(Kind::File)) {
                handle.set_mode(MODE_MEANWHILE).map_err(|e| fail("set the mode of", e))?;
                opened = sys::open_for_writing(&dir.fd, &at);
            }
        }
        // What is no file, or no longer one, is opened without effect or not at all.
        match opened {
            Ok(fd) => {
                require_file(&dir, name.to_bytes(), &Handle::Open(fd.as_fd()))?;
                Ok(OpenFile { fd, dir, name, now: Now::default() })
            }
            Err(e @ (Errno::LOOP | Errno::ISDIR | Errno::NXIO)) => {
                let handle = Handle::Name(dir.fd.as_fd(), &at);
                require_file(&dir, name.to_bytes(), &handle)?;
                Err(fail("open", e))
            }
            Err(e) => Err(fail("open", e)),
        }
    }

    /// Gives a file that was written in parts its metadata, inode flags excepted, and puts it in its place.
    pub fn finish_file(
        &mut self,
        entry: &Entry,
        dir: &[u8],
        name: &[u8],
    ) -> Result<(), TargetError> {
        let dir = self.dirs.get(self.target, dir, Missing::Fail)?;
        let component = names::component(&dir.path, name)?;
        let at = self.target.name_meanwhile(&dir.path_of(name), &component);
        let (fd, place) = open_existing(&dir, at.to_bytes())?;
        let handle = if place { Handle::place(fd.as_fd()) } else { Handle::Open(fd.as_fd()) };
        let owner = require_file(&dir, name, &handle)?;
        let now = Now { owner: Some(owner), ..Now::default() };
        // Contents that came whole take their place, whatever becomes of their metadata.
        let set = meta::apply(self.target, &handle, now, entry)
            .map_err(|(doing, e)| TargetError::io(doing, dir.path_of(name), e));
        let settled = self.target.settle(&dir, &component);
        set.and(settled)
    }

    /// Makes sure that a directory exists, and all that leads to it. What is made now has mode
    /// 0700 until [`Self::finish_dir`].
    pub fn make_dir(&mut self, path: &[u8]) -> Result<(), TargetError> {
        self.dirs.get(self.target, path, Missing::Make).map(|_| ())
    }

    /// Gives a directory its owner, extended attributes, mode and times. To be called when all
    /// that is below it is restored and finished, deepest first: making names in it changes its
    /// times, and a plain user whose directory's final mode lacks reading, writing or searching
    /// for its owner cannot restore anything into it afterwards.
    ///
    /// An existing directory's ACLs that are not in the backup are removed; its other attributes
    /// stay. With [`Overwrite::Never`] nothing happens to directories that existed.
    pub fn finish_dir(&mut self, entry: &Entry, path: &[u8]) -> Result<(), TargetError> {
        let dir = self.dirs.get(self.target, path, Missing::Make)?;
        if !self.target.may_finish(path) {
            return Ok(());
        }
        let fail = |(doing, e)| TargetError::io(doing, path.to_vec(), e);
        let handle = dir.fd.handle();
        let stat = handle.stat().map_err(|e| fail(("examine", e)))?;
        let mut now = Now {
            owner: Some((stat.uid, stat.gid)),
            mode: entry.xattrs.is_empty().then_some(stat.mode),
            mtime: Some(stat.mtime),
        };
        if now.owner != Some((entry.uid, entry.gid)) {
            now.mode = None;
        }
        for acl in [sys::ACL_ACCESS, sys::ACL_DEFAULT] {
            if entry.xattrs.iter().all(|(name, _)| name != acl) && handle.has_xattr(acl) {
                now.mode = None;
                if handle.remove_xattr(acl).is_err() {
                    count(&self.target.tally.xattrs_not_restored);
                }
            }
        }
        meta::apply(self.target, &handle, now, entry).map_err(fail)
    }

    /// Sets the inode flags of a file or directory, if it has any that can be set; tells whether any changed. Last of all:
    /// an immutable directory takes nothing more. Flags that rights or file system refuse are
    /// counted. With [`Overwrite::Never`] nothing happens to directories that existed.
    pub fn finish_flags(
        &mut self,
        entry: &Entry,
        dir: &[u8],
        name: &[u8],
    ) -> Result<bool, TargetError> {
        if flags::settable(entry.inode_flags) == 0 || !matches!(entry.kind, Kind::File | Kind::Dir)
        {
            return Ok(false);
        }
        let dir = self.dirs.get(self.target, dir, Missing::Fail)?;
        if entry.kind == Kind::Dir && !self.target.may_finish(&dir.path_of(name)) {
            return Ok(false);
        }
        let set = if name.is_empty() && dir.path.is_empty() {
            flags::set(&dir.fd, entry.inode_flags)
        } else {
            let (fd, place) = open_existing(&dir, name)?;
            if place { Ok(FlagsSet::default()) } else { flags::set(&fd, entry.inode_flags) }
        };
        let set =
            set.map_err(|e| TargetError::io("set the inode flags of", dir.path_of(name), e))?;
        if !set.are_complete {
            count(&self.target.tally.flags_not_restored);
        }
        Ok(set.have_changed)
    }
}

/// The mode to create a file with, if it can be the final one: nothing comes later that would
/// change it or be hindered by it.
fn mode_at_creation(dir: &Dir, entry: &Entry) -> Option<u16> {
    let simple = entry.mode & 0o7000 == 0
        && entry.xattrs.is_empty()
        && !dir.gives_acl
        && dir.gives_owner() == Some((entry.uid, entry.gid))
        && entry.extents.iter().all(|extent| extent.kind != ExtentKind::Parts);
    simple.then_some(entry.mode)
}

/// Owner and group of something just made in `dir`.
pub(super) fn owner_of_new(dir: &Dir, new: &Handle<'_>) -> Result<(u32, u32), Errno> {
    if let Some(owner) = dir.gives_owner() {
        return Ok(owner);
    }
    let stat = new.stat()?;
    dir.learn_owner((stat.uid, stat.gid));
    Ok((stat.uid, stat.gid))
}

/// Opens a name for its metadata; `true`: as a mere place, for it is not readable.
fn open_existing(dir: &Arc<Dir>, name: &[u8]) -> Result<(OwnedFd, bool), TargetError> {
    let name = names::component(&dir.path, name)?;
    let fail = |e| TargetError::io("open", dir.path_of(name.to_bytes()), e);
    match sys::open_for_reading(&dir.fd, &name) {
        Ok(fd) => Ok((fd, false)),
        Err(Errno::ACCESS | Errno::LOOP | Errno::NXIO) => {
            Ok((sys::open_place(&dir.fd, &name).map_err(fail)?, true))
        }
        Err(e) => Err(fail(e)),
    }
}

/// Owner and group of what must be a regular file.
fn require_file(dir: &Dir, name: &[u8], handle: &Handle<'_>) -> Result<(u32, u32), TargetError> {
    match handle.stat() {
        Ok(stat) if stat.kind == Some(Kind::File) => Ok((stat.uid, stat.gid)),
        Ok(stat) => Err(TargetError::Conflict {
            path: ShownPath(dir.path_of(name)),
            found: a(stat.kind),
            wanted: a(Some(Kind::File)),
        }),
        Err(e) => Err(TargetError::io("examine", dir.path_of(name), e)),
    }
}
