//! Which first names have what was restored, so that further ones are made links to nothing else.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;

/// First names of files that have several, by their paths' hashes: there may be millions.
#[derive(Default)]
pub(super) struct Firsts {
    hasher: RandomState,
    asked: HashSet<u64>,
    there: Mutex<HashSet<u64>>,
}

impl Firsts {
    /// A further name of that file is to be restored.
    pub fn ask(&mut self, path: &[u8]) {
        self.asked.insert(self.hasher.hash_one(path));
    }

    /// Whether a further name of that file is to be restored.
    pub fn is_asked(&self, path: &[u8]) -> bool {
        !self.asked.is_empty() && self.asked.contains(&self.hasher.hash_one(path))
    }

    /// The file that is restored, or one like it that was there, has that name in the target.
    pub fn add(&self, path: &[u8]) {
        if self.is_asked(path) {
            self.there.lock().insert(self.hasher.hash_one(path));
        }
    }

    /// The file could not be put in its place.
    pub fn remove(&self, path: &[u8]) {
        if self.is_asked(path) {
            self.there.lock().remove(&self.hasher.hash_one(path));
        }
    }

    /// Whether the target has it.
    pub fn has(&self, path: &[u8]) -> bool {
        self.there.lock().contains(&self.hasher.hash_one(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_is_kept_in_mind() {
        let mut firsts = Firsts::default();
        firsts.ask(b"a");
        firsts.ask(b"b");
        for path in [b"a", b"b", b"c"] {
            firsts.add(path);
        }
        firsts.remove(b"b");
        assert_eq!([b"a", b"b", b"c"].map(|path| firsts.has(path)), [true, false, false]);
    }
}
