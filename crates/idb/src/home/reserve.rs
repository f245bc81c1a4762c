//! Room in a home: a file that takes room while there is some, and is given up where the file system is full. So a restore has its
//! records also then, and whoever makes room can look at what is where.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, fallocate, statvfs};

/// The file below a home.
const RESERVE: &str = "reserve";
/// Its largest and its least size, in bytes: the write-ahead log of the tables and the report of a large restore fit well.
pub(crate) const SIZES: (u64, u64) = (256 << 10, 8 << 20);
/// Of a small file system it is this part.
const PART: u64 = 64;
/// Below this many free bytes the tables cannot be opened for sure.
const LOW: u64 = 128 << 10;
/// What is given up at a time for that, in bytes: what fills a disk takes all it can get.
const STEP: u64 = 256 << 10;

/// Gives up as much of it as opening the tables takes, where there is no room for that.
pub(crate) fn ease(home: &Path) {
    let path = file_of(home);
    let (Some((free, _)), has) = (look(home), kept(&path)) else { return };
    if free < LOW && has > 0 {
        // Who may not write here needs no room either.
        let _ = open(&path).and_then(|file| file.set_len(has.saturating_sub(STEP)));
    }
}

/// Whether there is no room to open the tables in the usual way, and nothing left to give up for that.
pub(crate) fn is_used_up(home: &Path) -> bool {
    look(home).is_some_and(|(free, _)| free < LOW)
}

pub(crate) fn file_of(home: &Path) -> PathBuf {
    home.join(RESERVE)
}

/// The bytes that it takes now.
pub(crate) fn kept(path: &Path) -> u64 {
    fs::symlink_metadata(path).map_or(0, |file| if file.is_file() { file.len() } else { 0 })
}

/// Free bytes of a home's file system, and the size that the reserve should have there.
pub(crate) fn look(home: &Path) -> Option<(u64, u64)> {
    let stat = statvfs(home).ok().filter(|stat| stat.f_blocks > 0)?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    let size = (bytes(stat.f_blocks) / PART).clamp(SIZES.0, SIZES.1);
    Some((bytes(stat.f_bavail), size.next_multiple_of(4096)))
}

/// Opens it to write; makes it where it is not. Of what is in its place and is no file nothing is opened that could be waited for, and
/// no link is followed.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a regular file")),
    }
}

pub(crate) fn make(path: &Path, size: u64) -> io::Result<()> {
    let mut file = open(path)?;
    if fallocate(&file, FallocateFlags::empty(), 0, size).is_ok() {
        return Ok(());
    }
    // Where the file system cannot take room without being written to.
    let zeros = vec![0; 64 << 10];
    for at in (0..size).step_by(zeros.len()) {
        let rest = usize::try_from(size - at).map_or(zeros.len(), |rest| rest.min(zeros.len()));
        if let Err(e) = file.write_all(&zeros[..rest]) {
            drop(file);
            let _ = fs::remove_file(path);
            return Err(e);
        }
    }
    Ok(())
}
