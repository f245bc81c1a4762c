//! Room in a home: a file that takes room while there is some, and is given up where the file system is full. So a restore has its
//! records also then, and whoever makes room can look at what is where.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, fallocate, statvfs};

use crate::Idb;

/// The file below a home.
const RESERVE: &str = "reserve";
/// Its largest and its least size, in bytes: the write-ahead log of the tables and the report of a large restore fit well.
const SIZES: (u64, u64) = (256 << 10, 8 << 20);
/// Of a small file system it is this part.
const PART: u64 = 64;
/// Below this many free bytes the tables cannot be opened for sure.
const LOW: u64 = 128 << 10;
/// What is given up at a time for that, in bytes: what fills a disk takes all it can get.
const STEP: u64 = 256 << 10;

/// What room the file system of a home has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HomeRoom {
    /// Free bytes, for who asks.
    pub free: u64,
    /// Whether it is full: the reserve was given up, wholly or in part, and there is no room to make it anew.
    pub is_full: bool,
}

impl Idb {
    /// What room the file system of the home has; `None` where that cannot be found out. Where there is some, the reserve is made
    /// whole.
    pub fn home_room(&self) -> Option<HomeRoom> {
        let (free, size) = look(self.home())?;
        let has = kept(&file_of(self.home()));
        if has >= size {
            return Some(HomeRoom { free, is_full: false });
        }
        // As much again, and once more, has to be free: else it would come and go.
        let is_full = free + has < 3 * size;
        if !is_full {
            // A home that takes no such file (it is another user's, or read-only) has none.
            let _ = make(&file_of(self.home()), size);
        }
        Some(HomeRoom { free, is_full })
    }

    /// Gives the reserve up where the file system of the home is nearly full: for a session that has to be recorded and adds little.
    pub fn give_up_reserve(&self) {
        let path = file_of(self.home());
        if let Some((free, size)) = look(self.home())
            && free < size
            && kept(&path) > 0
        {
            let _ = fs::remove_file(path);
        }
    }
}

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

fn file_of(home: &Path) -> PathBuf {
    home.join(RESERVE)
}

/// The bytes that it takes now.
fn kept(path: &Path) -> u64 {
    fs::symlink_metadata(path).map_or(0, |file| if file.is_file() { file.len() } else { 0 })
}

/// Free bytes of a home's file system, and the size that the reserve should have there.
fn look(home: &Path) -> Option<(u64, u64)> {
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

fn make(path: &Path, size: u64) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_else_in_its_place_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (home, path) = (dir.path().join("home"), dir.path().join("home/reserve"));
        drop(Idb::open(&home).unwrap());
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let idb = Idb::open(&home).unwrap();
        assert!(!idb.home_room().unwrap().is_full);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
        idb.home_room().unwrap();
        assert!(!dir.path().join("elsewhere").exists());
    }

    #[test]
    fn it_is_kept_where_there_is_room() {
        let dir = tempfile::tempdir().unwrap();
        let idb = Idb::open(&dir.path().join("home")).unwrap();
        let room = idb.home_room().unwrap();
        assert!(!room.is_full && room.free > 0);
        let path = dir.path().join("home/reserve");
        let made = fs::metadata(&path).unwrap();
        assert!(made.len() >= SIZES.0 && made.len() <= SIZES.1);
        assert!(std::os::unix::fs::MetadataExt::blocks(&made) * 512 >= made.len());
        // There is room, so nothing is given up.
        ease(idb.home());
        idb.give_up_reserve();
        assert_eq!(kept(&path), made.len());
        OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
        idb.home_room().unwrap();
        assert_eq!(kept(&path), made.len());
    }
}
