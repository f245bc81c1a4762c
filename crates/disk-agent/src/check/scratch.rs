//! A directory that nobody else may enter, for what a drill restores.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use capstan_engine::message::plain;
use capstan_port::disk::check::ScratchError;
use capstan_wire::check::ScratchAsked;

/// Makes it.
pub(crate) fn make(asked: &ScratchAsked) -> Result<Vec<u8>, ScratchError> {
    let parent = Path::new(OsStr::from_bytes(&asked.parent));
    let dir = parent.display().to_string();
    let refused = |e: io::Error| ScratchError::NotWritable { dir: dir.clone(), why: plain(&e) };
    let parent = std::fs::canonicalize(parent).map_err(refused)?;
    if let Ok(stat) = rustix::fs::statvfs(&parent)
        && stat.f_bavail.saturating_mul(stat.f_frsize) < asked.bytes
    {
        let (dir, megabytes) = (parent.display().to_string(), asked.bytes.div_ceil(1_000_000));
        return Err(ScratchError::NoRoom { dir, megabytes });
    }
    let made = parent.join(&asked.name);
    std::fs::DirBuilder::new().mode(0o700).create(&made).map_err(refused)?;
    Ok(made.into_os_string().into_vec())
}

/// Removes it, with all that is in it.
pub(crate) fn remove(path: &[u8]) {
    // What stays behind is of no use to anybody but takes room; there is nobody left to tell.
    let _ = std::fs::remove_dir_all(OsStr::from_bytes(path));
}
