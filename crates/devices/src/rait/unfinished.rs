//! A mark in the store of a member that is written anew: one that was not ended is no member yet, and is begun again.
//!
//! Tapes have none, nor have arrays that are members.

use std::io::{self, ErrorKind};

use capstan_address::Address;
use capstan_format::id::MediumId;
use capstan_medium::DeviceError;
use capstan_medium::error::io_error;
use capstan_medium::storage::Storage;

use crate::host::LocalDevices;
use crate::store::{Site, Store, UNFINISHED, is_our_name};

/// Longer than any mark.
const LONGEST: usize = 256;

/// The mark of one rebuilding.
pub(super) struct Mark {
    site: Option<Site>,
    text: String,
}

impl Mark {
    /// The mark of the member of an array at a place, which is to be written there.
    pub fn new(
        host: &LocalDevices,
        array: MediumId,
        place: usize,
        onto: &Address,
    ) -> Result<Self, DeviceError> {
        let site = onto.as_store().map(|store| host.site(store)).transpose()?;
        Ok(Self { site, text: format!("{array} {}\n", place + 1) })
    }

    /// Removes what an earlier rebuilding of the same member left. The array is held: nobody else writes to it.
    pub fn clear(&self) -> Result<(), DeviceError> {
        // A store that is not there has nothing.
        if self.site.as_ref().is_some_and(|site| matches!(site.open(), Err(e) if is_absent(&e))) {
            return Ok(());
        }
        self.run("remove what was begun in", |store| match self.is_in(store)? {
            true => clear(store),
            false => Ok(()),
        })
    }

    /// Marks the store, which is empty.
    pub fn put(&self) -> Result<(), DeviceError> {
        self.run("mark", |store| {
            let mut file = store.create(UNFINISHED)?;
            file.append(self.text.as_bytes())?;
            file.sync()?;
            store.sync()
        })
    }

    /// Says that the member is whole.
    pub fn remove(&self) -> Result<(), DeviceError> {
        self.run("end the rebuilding in", |store| {
            store.remove(UNFINISHED)?;
            store.sync()
        })
    }

    fn run(
        &self,
        action: &'static str,
        run: impl Fn(&dyn Store) -> io::Result<()>,
    ) -> Result<(), DeviceError> {
        let Some(site) = &self.site else { return Ok(()) };
        site.open().and_then(|store| run(&*store)).map_err(io_error(action, site.shown()))
    }

    /// Whether a store has this mark, or nothing but as much of it as a crash left: all else is written after it.
    fn is_in(&self, store: &dyn Store) -> io::Result<bool> {
        let file = match store.open(UNFINISHED) {
            Err(e) if is_absent(&e) => return Ok(false),
            opened => opened?,
        };
        let mut found = [0; LONGEST];
        let n = file.read_at(&mut found, 0)?;
        let (text, found) = (self.text.as_bytes(), &found[..n]);
        Ok(found == text || text.starts_with(found) && ours_in(store)?.is_empty())
    }
}

fn is_absent(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// What is ours in a store, but for its mark.
fn ours_in(store: &dyn Storage) -> io::Result<Vec<String>> {
    let mut names = store.list()?;
    names.retain(|name| name != UNFINISHED && is_our_name(name));
    Ok(names)
}

/// Removes what is ours from a store, its mark last.
fn clear(store: &dyn Store) -> io::Result<()> {
    for name in ours_in(store)? {
        store.remove(&name)?;
    }
    store.sync()?;
    store.remove(UNFINISHED)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_the_same_member_is_cleared_and_only_what_is_ours() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_path_buf();
        let onto = Address::of_directory(path.clone());
        let host = LocalDevices::default();
        let mark = |array, place| Mark::new(&host, MediumId([array; 16]), place, &onto).unwrap();
        let is_marked = || host.site(&path.as_path().into()).unwrap().has(UNFINISHED);
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
        assert!(is_marked());
        mark(1, 1).remove().unwrap();
        assert!(!is_marked());
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
