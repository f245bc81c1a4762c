//! Files that are written beside what they are to replace, until all of them is there.

use std::collections::HashMap;
use std::ffi::{CStr, CString};

use parking_lot::Mutex;

use super::dirs::{Dir, Missing};
use super::error::TargetError;
use super::worker::Worker;
use super::{Target, names};
use crate::linux::restore::{self as sys, Errno};

/// Files that are written and not in their places: by path below the target, the name in the same directory that they have meanwhile.
pub(super) type Beside = Mutex<HashMap<Vec<u8>, CString>>;

impl Target {
    /// The name that a file has while it is written.
    pub(super) fn name_meanwhile(&self, path: &[u8], name: &CStr) -> CString {
        self.beside.lock().get(path).map_or_else(|| name.to_owned(), Clone::clone)
    }

    /// Puts a file that was written beside another in that one's place. Any other is in its place already.
    pub(super) fn settle(&self, dir: &Dir, name: &CStr) -> Result<(), TargetError> {
        let path = dir.path_of(name.to_bytes());
        let Some(beside) = self.beside.lock().remove(&path) else { return Ok(()) };
        sys::rename(&dir.fd, &beside, name).map_err(|e| {
            // Best effort: the failure that is told is the renaming's.
            let _ = sys::unlink(&dir.fd, &beside);
            TargetError::io("replace", path, e)
        })
    }
}

impl Worker<'_> {
    /// Puts a file that was written beside another in that one's place, before it has its metadata.
    pub fn settle_file(&mut self, dir: &[u8], name: &[u8]) -> Result<(), TargetError> {
        let dir = self.dirs.get(self.target, dir, Missing::Fail)?;
        let name = names::component(&dir.path, name)?;
        self.target.settle(&dir, &name)
    }

    /// Removes what was written of a file beside another, which stays as it is. `false`: nothing was there, and it is in its place.
    pub fn withdraw(&mut self, dir: &[u8], name: &[u8]) -> Result<bool, TargetError> {
        let dir = self.dirs.get(self.target, dir, Missing::Fail)?;
        let name = names::component(&dir.path, name)?;
        let path = dir.path_of(name.to_bytes());
        let Some(beside) = self.target.beside.lock().remove(&path) else { return Ok(false) };
        match sys::unlink(&dir.fd, &beside) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(e) => Err(TargetError::io("remove what was written beside", path, e)),
        }
    }

    /// Removes a file that this restore made: what was written beside another, which stays; else what has the name. The caller knows
    /// that it was created and not skipped.
    pub fn discard(&mut self, dir: &[u8], name: &[u8]) -> Result<(), TargetError> {
        if self.withdraw(dir, name)? {
            return Ok(());
        }
        let dir = self.dirs.get(self.target, dir, Missing::Fail)?;
        let name = names::component(&dir.path, name)?;
        match sys::unlink(&dir.fd, &name) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(TargetError::io("remove", dir.path_of(name.to_bytes()), e)),
        }
    }

    /// Whether something has that name.
    pub fn is_there(&mut self, dir: &[u8], name: &[u8]) -> bool {
        let Ok(dir) = self.dirs.get(self.target, dir, Missing::Fail) else { return false };
        names::component(&dir.path, name).is_ok_and(|name| sys::stat(&dir.fd, &name).is_ok())
    }

    /// Removes all that was written beside something and is not whole: to be called at the end, however that comes.
    pub fn withdraw_rest(&mut self) -> Result<(), TargetError> {
        let rest: Vec<Vec<u8>> = self.target.beside.lock().keys().cloned().collect();
        for path in rest {
            let at = path.iter().rposition(|b| *b == b'/');
            let (dir, name) = at.map_or((&b""[..], &path[..]), |at| (&path[..at], &path[at + 1..]));
            self.withdraw(dir, name)?;
        }
        Ok(())
    }
}
