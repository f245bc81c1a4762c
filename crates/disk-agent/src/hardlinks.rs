//! Which inodes were seen before, so that further names are stored as links. Paths spill to disk beyond 16 MiB.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::spill::spill_file;

/// Bytes of paths kept in memory.
const IN_MEMORY: u64 = 16 << 20;

enum First {
    Memory(Box<[u8]>),
    Spilled { at: u64, len: u32 },
}

/// First names of inodes that have several.
#[derive(Default)]
pub(crate) struct HardLinks {
    seen: HashMap<(u64, u64), (First, u64)>,
    in_memory: u64,
    spill: Option<(File, u64)>,
}

impl HardLinks {
    /// The inode's first name, if it was seen before; else remembers `path` as the first of `links` names.
    pub fn first(
        &mut self,
        inode: (u64, u64),
        links: u64,
        path: &[u8],
    ) -> io::Result<Option<Vec<u8>>> {
        if let Some((first, left)) = self.seen.get_mut(&inode) {
            let name = match first {
                First::Memory(name) => name.to_vec(),
                First::Spilled { at, len } => {
                    let mut name = vec![0; *len as usize];
                    if let Some((file, _)) = &self.spill {
                        file.read_exact_at(&mut name, *at)?;
                    }
                    name
                }
            };
            *left -= 1;
            if *left == 0 {
                // All names were seen: what is known of it is no longer needed.
                self.forget(inode);
            }
            return Ok(Some(name));
        }
        let first = if self.in_memory + path.len() as u64 <= IN_MEMORY {
            self.in_memory += path.len() as u64;
            First::Memory(path.into())
        } else {
            self.spilled(path)?
        };
        self.seen.insert(inode, (first, links.saturating_sub(1).max(1)));
        Ok(None)
    }

    /// Forgets an inode: what its first name has is another one. Its next name is its first then.
    pub fn forget(&mut self, inode: (u64, u64)) {
        if let Some((First::Memory(name), _)) = self.seen.remove(&inode) {
            self.in_memory -= name.len() as u64;
        }
    }

    fn spilled(&mut self, path: &[u8]) -> io::Result<First> {
        if self.spill.is_none() {
            self.spill = Some((spill_file()?, 0));
        }
        let Some((file, end)) = &mut self.spill else { return Err(io::ErrorKind::Other.into()) };
        let at = *end;
        file.write_all_at(path, at)?;
        *end += path.len() as u64;
        Ok(First::Spilled { at, len: path.len() as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_memory_and_spilled() {
        let mut links = HardLinks { in_memory: IN_MEMORY - 3, ..HardLinks::default() };
        assert_eq!(links.first((1, 1), 3, b"a").unwrap(), None);
        assert_eq!(links.first((1, 2), 2, b"long name").unwrap(), None);
        assert_eq!(links.first((1, 2), 2, b"x").unwrap().unwrap(), b"long name");
        assert_eq!(links.first((1, 1), 3, b"b").unwrap().unwrap(), b"a");
        assert_eq!(links.first((1, 1), 3, b"c").unwrap().unwrap(), b"a");
        // All three names of (1, 1) were seen: it is forgotten.
        assert_eq!(links.first((1, 1), 3, b"d").unwrap(), None);
        links.forget((1, 1));
        assert_eq!(links.first((1, 1), 3, b"e").unwrap(), None);
        assert_eq!(links.in_memory, IN_MEMORY - 3 + 1);
    }
}
