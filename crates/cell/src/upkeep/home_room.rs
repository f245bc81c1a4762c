//! Room in the home: who adds much to it is refused where its file system is full, so that restores still have their records.

use capstan_idb::HomeRoom;

use crate::Cell;
use crate::error::{IdbRefusal, Result};

impl Cell {
    /// What room the file system of the home has, if that can be found out.
    pub fn home_room(&self) -> Option<HomeRoom> {
        self.idb.home_room()
    }

    /// In a sentence, that the file system of the home is full, and what to do; `None` where it is not.
    pub fn full_home(&self) -> Option<String> {
        self.refuse_full_home().err().map(|e| e.to_string())
    }

    /// Refuses what adds much to the home where there is no room for it.
    pub(crate) fn refuse_full_home(&self) -> Result<()> {
        match self.home_room().filter(|room| room.is_full) {
            None => Ok(()),
            Some(room) => {
                Err(IdbRefusal::HomeFull { home: self.home.clone(), free: room.free }.into())
            }
        }
    }
}
