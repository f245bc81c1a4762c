//! A regular file of the target while its contents are written.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use capstan_format::entry::{Entry, Timestamp};

use super::Target;
use super::dirs::Dir;
use super::error::TargetError;
use super::meta::{self, Now};
use crate::linux::restore::{self as sys, Errno, Handle};

/// A regular file that is open for writing. Dropping it closes it as [`OpenFile::leave`] does,
/// but hides what closing finds.
#[derive(Debug)]
pub struct OpenFile {
    pub(super) fd: OwnedFd,
    pub(super) dir: Arc<Dir>,
    pub(super) name: CString,
    pub(super) now: Now,
}

impl OpenFile {
    /// Writes all of `data` at that offset. Holes are what is never written.
    pub fn write_all_at(&self, offset: u64, data: &[u8]) -> Result<(), TargetError> {
        sys::write_all_at(&self.fd, offset, data).map_err(|e| self.error("write", e))
    }

    /// Sets the length: needed where the file ends in a hole.
    pub fn set_len(&self, size: u64) -> Result<(), TargetError> {
        sys::set_len(&self.fd, size).map_err(|e| self.error("set the length of", e))
    }

    /// Gives it the metadata of `entry`, inode flags excepted, closes it, and puts it in its place.
    pub fn finish(self, target: &Target, entry: &Entry) -> Result<(), TargetError> {
        let handle = Handle::Open(self.fd.as_fd());
        let mut now = self.now;
        if now.owner.is_none() {
            let stat = handle.stat().map_err(|e| self.error("examine", e))?;
            now.owner = Some((stat.uid, stat.gid));
        }
        let set = meta::apply(target, &handle, now, entry)
            .map_err(|(doing, errno)| self.error(doing, errno));
        let (dir, name) = (self.dir.clone(), self.name.clone());
        self.leave()?;
        // Contents that came whole take their place, whatever becomes of their metadata.
        let settled = target.settle(&dir, &name);
        set.and(settled)
    }

    /// Closes it without its metadata: [`Worker::finish_file`](super::Worker::finish_file) sets it
    /// when all parts are written.
    pub fn leave(self) -> Result<(), TargetError> {
        let Self { fd, dir, name, .. } = self;
        sys::close(fd).map_err(|e| TargetError::io("write", dir.path_of(name.to_bytes()), e))
    }

    /// Closes it, and dates it 1970, as not all of it came: so it is never taken for the file in the backup, nor for a newer one. Best
    /// effort: what cut it short is told.
    pub fn leave_unfinished(self) {
        let _ = Handle::Open(self.fd.as_fd()).set_mtime(Timestamp::default());
    }

    /// The path below the target.
    pub fn path(&self) -> Vec<u8> {
        self.dir.path_of(self.name.to_bytes())
    }

    fn error(&self, doing: &'static str, errno: Errno) -> TargetError {
        TargetError::io(doing, self.path(), errno)
    }
}
