//! Room in a home: what there is, and the reserve that is made and given up.

use std::fs;

use crate::db::Idb;
use crate::home::reserve::{file_of, kept, look, make};

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    use crate::home::reserve::{SIZES, ease};

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
