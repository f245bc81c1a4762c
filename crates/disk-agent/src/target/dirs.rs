//! Directories of the target, opened once by each worker and kept while they are in use.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use capstan_format::entry::{Kind, join};

use super::error::{ShownPath, TargetError};
use super::{Target, names};
use crate::linux::restore::{self as sys, DirFd, Errno};

/// Directories that a worker keeps open.
const KEPT: usize = 32;

/// An open directory of the target.
#[derive(Debug)]
pub struct Dir {
    pub fd: DirFd,
    pub path: Vec<u8>,
    /// Whether it gives what is made in it an ACL.
    pub gives_acl: bool,
    /// Owner and group that what is made in it gets: found out with the first file, for it depends
    /// on setgid bits, mount options and what servers make of root.
    gives_owner: OnceLock<(u32, u32)>,
}

impl Dir {
    pub fn existing(fd: DirFd, path: Vec<u8>) -> Self {
        let gives_acl = fd.handle().has_xattr(sys::ACL_DEFAULT);
        Self { fd, path, gives_acl, gives_owner: OnceLock::new() }
    }

    /// The owner and group that a new file here gets, if that is known.
    pub fn gives_owner(&self) -> Option<(u32, u32)> {
        self.gives_owner.get().copied()
    }

    /// Keeps what [`Self::gives_owner`] tells.
    pub fn learn_owner(&self, owner: (u32, u32)) {
        let _ = self.gives_owner.set(owner);
    }

    /// The path below the target of a name in it.
    pub fn path_of(&self, name: &[u8]) -> Vec<u8> {
        join(&self.path, name)
    }

    fn parent_of(&self, path: &[u8]) -> bool {
        names::split(path).0 == self.path
    }
}

/// What to do about a directory that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    Make,
    Fail,
}

/// One worker's open directories, the last used first.
#[derive(Debug, Default)]
pub struct DirCache {
    dirs: VecDeque<Arc<Dir>>,
}

impl DirCache {
    /// The directory `path`, from the cache, opened or made with all that leads to it.
    pub fn get(
        &mut self,
        target: &Target,
        path: &[u8],
        missing: Missing,
    ) -> Result<Arc<Dir>, TargetError> {
        if let Some(dir) = self.kept(target, path) {
            return Ok(dir);
        }
        names::check_path(path)?;
        let dir = self.open_or_make(target, path, missing)?;
        if self.dirs.len() == KEPT {
            self.dirs.pop_back();
        }
        self.dirs.push_front(Arc::clone(&dir));
        Ok(dir)
    }

    fn kept(&mut self, target: &Target, path: &[u8]) -> Option<Arc<Dir>> {
        if path.is_empty() {
            return Some(Arc::clone(&target.root));
        }
        let at = self.dirs.iter().position(|dir| dir.path == path)?;
        if at != 0 {
            let dir = self.dirs.remove(at)?;
            self.dirs.push_front(dir);
        }
        self.dirs.front().cloned()
    }

    fn open_or_make(
        &mut self,
        target: &Target,
        path: &[u8],
        missing: Missing,
    ) -> Result<Arc<Dir>, TargetError> {
        // Upwards to what exists, then down again: most often one step or none.
        let mut to_make = Vec::new();
        let mut end = path.len();
        let mut dir = loop {
            let prefix = &path[..end];
            if let Some(dir) = self.kept(target, prefix) {
                break dir;
            }
            match sys::open_beneath(&target.root.fd, prefix) {
                Ok(fd) => {
                    let dir = Dir::existing(fd, prefix.to_vec());
                    target.sweep(&dir);
                    break Arc::new(dir);
                }
                Err(Errno::NOENT) if missing == Missing::Make => to_make.push(end),
                Err(e) => return Err(not_opened(target, prefix, e)),
            }
            end = names::split(prefix).0.len();
        };
        while let Some(end) = to_make.pop() {
            debug_assert!(dir.parent_of(&path[..end]));
            dir = Arc::new(make_in(target, &dir, &path[..end])?);
        }
        Ok(dir)
    }
}

/// Makes the directory `path` in its parent `at`, unless another worker just did.
fn make_in(target: &Target, at: &Dir, path: &[u8]) -> Result<Dir, TargetError> {
    let (parent, name) = names::split(path);
    let name = names::component(parent, name)?;
    let made = match sys::make_dir(&at.fd, &name) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(e) => return Err(TargetError::io("make the directory", path.to_vec(), e)),
    };
    let fd = sys::open_child_dir(&at.fd, &name).map_err(|e| not_opened(target, path, e))?;
    if !made {
        return Ok(Dir::existing(fd, path.to_vec()));
    }
    target.note_made(path);
    if at.gives_acl {
        // What it inherited is not in the backup, must not go on to what is made in it, and may
        // have taken rights from its mode.
        let handle = fd.handle();
        handle
            .remove_xattr(sys::ACL_ACCESS)
            .and_then(|()| handle.remove_xattr(sys::ACL_DEFAULT))
            .and_then(|()| handle.set_mode(0o700))
            .map_err(|e| TargetError::io("remove the inherited ACL of", path.to_vec(), e))?;
    }
    Ok(Dir { fd, path: path.to_vec(), gives_acl: false, gives_owner: OnceLock::new() })
}

/// The error of a directory that could not be opened: often something else is in its place.
fn not_opened(target: &Target, path: &[u8], errno: Errno) -> TargetError {
    if matches!(errno, Errno::LOOP | Errno::NOTDIR | Errno::XDEV)
        && let Some((end, kind)) = sys::first_obstacle(&target.root.fd, path)
    {
        return TargetError::Conflict {
            path: ShownPath(path[..end].to_vec()),
            found: a(kind),
            wanted: a(Some(Kind::Dir)),
        };
    }
    TargetError::io("open the directory", path.to_vec(), errno)
}

/// What messages call a kind of file.
pub fn a(kind: Option<Kind>) -> &'static str {
    match kind {
        Some(Kind::File) => "a file",
        Some(Kind::Dir) => "a directory",
        Some(Kind::Symlink) => "a symbolic link",
        Some(Kind::Fifo) => "a FIFO",
        Some(Kind::Socket) => "a socket",
        Some(Kind::CharDevice | Kind::BlockDevice) => "a device node",
        _ => "something else",
    }
}
