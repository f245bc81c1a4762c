//! A mark in the directory of a member that is written anew: one that was not ended is no member yet, and is begun again.
//!
//! Tapes have none, nor have arrays that are members.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use capstan_address::{Address, StoreAddress};
use capstan_format::id::MediumId;
use capstan_medium::DeviceError;
use capstan_medium::error::io_error;
use capstan_medium::storage::Storage;

use crate::directory::{RealStorage, UNFINISHED, is_our_name};

/// Longer than any mark.
const LONGEST: u64 = 256;

/// The mark of one rebuilding.
pub(super) struct Mark {
    directory: Option<PathBuf>,
    text: String,
}

impl Mark {
    /// The mark of the member of an array at a place, which is to be written there.
    pub fn new(array: MediumId, place: usize, onto: &Address) -> Self {
        let directory = onto.as_store().and_then(StoreAddress::directory).map(Path::to_owned);
        Self { directory, text: format!("{array} {}\n", place + 1) }
    }

    /// Removes what an earlier rebuilding of the same member left. The array is held: nobody else writes to it.
    pub fn clear(&self) -> Result<(), DeviceError> {
        self.run("remove what was begun in", |directory| match self.is_in(directory)? {
            true => clear(directory),
            false => Ok(()),
        })
    }

    /// Marks the directory, which is empty.
    pub fn put(&self) -> Result<(), DeviceError> {
        self.run("mark", |directory| {
            let mut file = File::create_new(directory.join(UNFINISHED))?;
            file.write_all(self.text.as_bytes())?;
            file.sync_all()?;
            RealStorage::open(directory)?.sync()
        })
    }

    /// Says that the member is whole.
    pub fn remove(&self) -> Result<(), DeviceError> {
        self.run("end the rebuilding in", |directory| {
            fs::remove_file(directory.join(UNFINISHED))?;
            RealStorage::open(directory)?.sync()
        })
    }

    fn run(
        &self,
        action: &'static str,
        run: impl Fn(&Path) -> io::Result<()>,
    ) -> Result<(), DeviceError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        run(directory).map_err(io_error(action, &directory.display().to_string()))
    }

    /// Whether a directory has this mark, or nothing but as much of it as a crash left: all else is written after it.
    fn is_in(&self, directory: &Path) -> io::Result<bool> {
        let mut found = Vec::new();
        match File::open(directory.join(UNFINISHED)) {
            Ok(file) => file.take(LONGEST).read_to_end(&mut found)?,
            Err(e) if is_absent(&e) => return Ok(false),
            Err(e) => return Err(e),
        };
        let (text, found) = (self.text.as_bytes(), &found[..]);
        Ok(found == text || text.starts_with(found) && ours_in(directory)?.is_empty())
    }
}

/// Whether a rebuilding of the member in that directory did not end.
pub(super) fn is_in(directory: &Path) -> bool {
    directory.join(UNFINISHED).exists()
}

fn is_absent(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// What is ours in a directory, but for its mark.
fn ours_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let is_ours = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name != UNFINISHED && is_our_name(name))
    };
    let paths = fs::read_dir(directory)?.map(|entry| entry.map(|e| e.path()));
    paths.filter(|path| path.as_ref().map_or(true, |path| is_ours(path))).collect()
}

/// Removes what is ours from a directory, its mark last.
fn clear(directory: &Path) -> io::Result<()> {
    for path in ours_in(directory)? {
        fs::remove_file(path)?;
    }
    RealStorage::open(directory)?.sync()?;
    fs::remove_file(directory.join(UNFINISHED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_member_is_cleared_and_only_what_is_ours() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_path_buf();
        let onto = Address::of_directory(path.clone());
        let mark = |array, place| Mark::new(MediumId([array; 16]), place, &onto);
        let names = || {
            let names = fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name());
            let mut names: Vec<_> = names.map(|n| n.into_string().unwrap()).collect();
            names.sort();
            names
        };
        fs::write(path.join("00000001.segment"), "x").unwrap();
        mark(1, 1).clear().unwrap();
        assert_eq!(names(), ["00000001.segment"]);
        mark(1, 1).put().unwrap();
        fs::write(path.join("of-others"), "x").unwrap();
        mark(1, 2).clear().unwrap();
        mark(2, 1).clear().unwrap();
        assert_eq!(names(), ["00000001.segment", "of-others", UNFINISHED]);
        mark(1, 1).clear().unwrap();
        assert_eq!(names(), ["of-others"]);
        mark(1, 1).put().unwrap();
        assert!(is_in(&path));
        mark(1, 1).remove().unwrap();
        assert!(!is_in(&path));
        // Killed before the mark was whole.
        fs::write(path.join(UNFINISHED), "0").unwrap();
        fs::write(path.join("00000001.segment"), "x").unwrap();
        mark(1, 1).clear().unwrap();
        assert_eq!(names(), ["00000001.segment", "of-others", UNFINISHED]);
        fs::remove_file(path.join("00000001.segment")).unwrap();
        mark(1, 2).clear().unwrap();
        assert_eq!(names(), ["of-others"]);
    }
}
