//! Which inodes were seen before, so that further names are stored as links. Paths spill to disk beyond 16 MiB.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::SystemTime;

use capstan_format::entry::Timestamp;
use rustix::fs::Stat;

use crate::ctime;
use crate::linux::source;
use crate::spill::{of_spill, spill_file};

/// Bytes of paths kept in memory.
const IN_MEMORY: u64 = 16 << 20;

enum First {
    Memory(Box<[u8]>),
    Spilled { at: u64, len: u32 },
}

/// What is known of an inode that has several names.
struct Seen {
    first: First,
    /// Names that were not met yet.
    left: u64,
    changed: Timestamp,
    /// Whether an inode that has its number later has another time of change.
    settled: bool,
    born: Option<Timestamp>,
}

/// First names of inodes that have several.
#[derive(Default)]
pub(crate) struct HardLinks {
    seen: HashMap<(u64, u64), Seen>,
    in_memory: u64,
    spill: Option<(File, u64)>,
}

impl HardLinks {
    /// The first name of the inode that `stat` is of, if it was seen before; else remembers `path` as its first one.
    ///
    /// An inode's number is given again once its last name is removed, perhaps while this backup runs. Whoever has it then was
    /// changed after the first name was met. So a time of change that differs, or that was new when it was met, at `now`, is
    /// followed by the question when the inode came into being: `born`, which is asked only then and of first names. Where that is
    /// not known, or known in whole seconds, it is taken for another file.
    pub fn first(
        &mut self,
        stat: &Stat,
        path: &[u8],
        now: SystemTime,
        born: impl FnOnce() -> Option<Timestamp>,
    ) -> io::Result<Option<Vec<u8>>> {
        let inode = (stat.st_dev, stat.st_ino);
        let changed = source::ctime_of(stat);
        let born = match self.seen.get(&inode) {
            Some(seen) if seen.changed == changed && seen.settled => {
                return self.further(inode, path).map(Some);
            }
            Some(seen) => match born() {
                Some(born) if seen.born == Some(born) && (seen.settled || born.nsec > 0) => {
                    return self.further(inode, path).map(Some);
                }
                other => {
                    self.forget(inode);
                    other
                }
            },
            None => born(),
        };
        let first = if self.in_memory + path.len() as u64 <= IN_MEMORY {
            self.in_memory += path.len() as u64;
            First::Memory(path.into())
        } else {
            self.spilled(path)?
        };
        let left = stat.st_nlink.saturating_sub(1).max(1);
        let settled = ctime::is_settled(changed, now);
        self.seen.insert(inode, Seen { first, left, changed, settled, born });
        Ok(None)
    }

    /// The first name of an inode that was seen, of which one more is met.
    fn further(&mut self, inode: (u64, u64), path: &[u8]) -> io::Result<Vec<u8>> {
        let Some(seen) = self.seen.get_mut(&inode) else { return Ok(path.to_vec()) };
        let name = match &seen.first {
            First::Memory(name) => name.to_vec(),
            First::Spilled { at, len } => {
                let mut name = vec![0; *len as usize];
                if let Some((file, _)) = &self.spill {
                    file.read_exact_at(&mut name, *at)?;
                }
                name
            }
        };
        // A name that is met again, as it is read once more, is none further.
        if name != path {
            seen.left -= 1;
            if seen.left == 0 {
                // All names were seen: what is known of it is no longer needed.
                self.forget(inode);
            }
        }
        Ok(name)
    }

    /// Forgets an inode: what its first name has is another one. Its next name is its first then.
    pub fn forget(&mut self, inode: (u64, u64)) {
        if let Some(Seen { first: First::Memory(name), .. }) = self.seen.remove(&inode) {
            self.in_memory -= name.len() as u64;
        }
    }

    fn spilled(&mut self, path: &[u8]) -> io::Result<First> {
        if self.spill.is_none() {
            self.spill = Some((spill_file()?, 0));
        }
        let Some((file, end)) = &mut self.spill else { return Err(io::ErrorKind::Other.into()) };
        let at = *end;
        file.write_all_at(path, at).map_err(of_spill)?;
        *end += path.len() as u64;
        Ok(First::Spilled { at, len: path.len() as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    fn stat(ino: u64, links: u32, changed: i64) -> Stat {
        let mut stat = rustix::fs::stat("/").unwrap();
        (stat.st_dev, stat.st_ino, stat.st_nlink) = (1, ino, links.into());
        (stat.st_ctime, stat.st_ctime_nsec) = (changed, 0);
        stat
    }

    fn born(sec: i64) -> impl FnOnce() -> Option<Timestamp> {
        move || Some(Timestamp { sec, nsec: 0 })
    }

    #[test]
    fn names_are_found_in_memory_and_spilled() {
        let mut links = HardLinks { in_memory: IN_MEMORY - 3, ..HardLinks::default() };
        let mut first = |ino, names, path: &[u8]| {
            links.first(&stat(ino, names, 7), path, SystemTime::now(), born(5)).unwrap()
        };
        assert_eq!(first(1, 3, b"a"), None);
        assert_eq!(first(2, 2, b"long name"), None);
        assert_eq!(first(2, 2, b"x").unwrap(), b"long name");
        assert_eq!(first(1, 3, b"b").unwrap(), b"a");
        // Met again.
        assert_eq!(first(1, 3, b"a").unwrap(), b"a");
        assert_eq!(first(1, 3, b"c").unwrap(), b"a");
        // All three names of 1 were seen: it is forgotten.
        assert_eq!(first(1, 3, b"d"), None);
        links.forget((1, 1));
        assert_eq!(links.first(&stat(1, 3, 7), b"e", SystemTime::now(), born(5)).unwrap(), None);
        assert_eq!(links.in_memory, IN_MEMORY - 3 + 1);
    }

    #[test]
    fn a_number_that_is_given_again_is_another_inode() {
        let mut links = HardLinks::default();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let mut first = |changed, born, path: &[u8]| {
            links.first(&stat(1, 9, changed), path, now, || born).unwrap()
        };
        let at = |sec| Some(Timestamp { sec, nsec: 0 });
        assert_eq!(first(7, at(5), b"a"), None);
        // Its owner changed, or it got a name.
        assert_eq!(first(8, at(5), b"b").unwrap(), b"a");
        assert_eq!(first(9, at(8), b"other"), None);
        assert_eq!(first(9, at(8), b"its name").unwrap(), b"other");
        // Here nothing tells when an inode came into being.
        assert_eq!(first(10, None, b"third"), None);
        assert_eq!(first(10, None, b"its name too").unwrap(), b"third");
        assert_eq!(first(11, None, b"fourth"), None);
        // It changed in the second in which it is looked at: another one may have the same time.
        assert_eq!(first(1000, None, b"new"), None);
        assert_eq!(first(1000, None, b"perhaps another"), None);
        assert_eq!(first(1001, at(1000), b"newer"), None);
        assert_eq!(first(1001, at(1000), b"perhaps another than newer"), None);
        let fine = Some(Timestamp { sec: 1000, nsec: 7 });
        assert_eq!(first(1002, fine, b"fine"), None);
        assert_eq!(first(1002, fine, b"its name").unwrap(), b"fine");
    }
}
