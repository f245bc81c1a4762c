//! Room in the home: who adds much to it is refused where its file system is full, so that restores still have their records.

use capstan_idb::HomeRoom;

use crate::Cell;
use crate::error::{CellError, Result};

impl Cell {
    /// What room the file system of the home has, if that can be found out.
    pub fn home_room(&self) -> Option<HomeRoom> {
        self.idb.home_room()
    }

    /// In a sentence, that the file system of the home is full, and what to do; `None` where it is not.
    pub fn full_home(&self) -> Option<String> {
        let room = self.home_room().filter(|room| room.is_full)?;
        Some(format!(
            "the file system of the home {} is full, {:.1} MB are left, which restores need for their records; make room there, or \
             move the home to a larger disk, then backups go on",
            self.home.display(),
            room.free as f64 / 1e6
        ))
    }

    /// Refuses what adds much to the home where there is no room for it.
    pub(crate) fn refuse_full_home(&self) -> Result<()> {
        self.full_home().map_or(Ok(()), |why| Err(CellError::BadInput(why)))
    }
}
