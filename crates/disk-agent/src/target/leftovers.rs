//! What a restore that was killed left beside files that it was to replace, and how it is told from all else: the names have the mark of
//! the restore, so who knows that a restore is dead knows what it left.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::Target;
use super::dirs::Dir;
use crate::linux::restore as sys;

/// What the name of each file begins with that is written beside another.
const PREFIX: &str = ".capstan-";
/// Hexadecimal digits of a mark.
const DIGITS: usize = 24;

/// Marks a restore among all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark([u8; DIGITS / 2]);

impl Mark {
    /// By the identity of its session.
    pub fn of_session(id: [u8; 16]) -> Self {
        let mut mark = [0; DIGITS / 2];
        mark.copy_from_slice(&id[..DIGITS / 2]);
        Self(mark)
    }

    /// One that no other restore has, where no session is known.
    pub(super) fn drawn() -> Self {
        let (a, b) = (RandomState::new().hash_one(0), RandomState::new().hash_one(1));
        let mut id = [0; 16];
        id[..8].copy_from_slice(&a.to_le_bytes());
        id[8..].copy_from_slice(&b.to_le_bytes());
        Self::of_session(id)
    }

    fn digits(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The name of something that is written beside another, the `n`th.
    pub(super) fn name(self, n: u64) -> String {
        format!("{PREFIX}{}-{n:x}", self.digits())
    }

    /// Of the restore that gave a name, if one did.
    fn of_name(name: &[u8]) -> Option<Self> {
        let rest = std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?;
        let (digits, number) = rest.split_once('-')?;
        let is_number = (1..=16).contains(&number.len()) && is_hexadecimal(number);
        if digits.len() != DIGITS || !is_hexadecimal(digits) || !is_number {
            return None;
        }
        let mut mark = [0; DIGITS / 2];
        for (at, byte) in mark.iter_mut().enumerate() {
            *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Self(mark))
    }
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// What dead restores left, as far as it is met.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    dead: HashSet<Mark>,
    /// Hashes of the directories that were looked into.
    looked_into: Mutex<HashSet<u64>>,
    removed: AtomicU64,
}

impl Target {
    /// The same for the restore of that mark. What restores left that are `dead` is removed from each directory that is opened.
    #[must_use]
    pub fn marked(mut self, own: Mark, dead: HashSet<Mark>) -> Self {
        self.mark = own;
        self.leftovers.dead = dead;
        let root = self.root.clone();
        self.sweep(&root);
        self
    }

    /// How many files of dead restores were removed.
    pub fn leftovers_removed(&self) -> u64 {
        self.leftovers.removed.load(Relaxed)
    }

    /// Removes from a directory what dead restores left there. What cannot be removed stays, as it did until now.
    pub(super) fn sweep(&self, dir: &Dir) {
        let of = &self.leftovers;
        let is_new = || of.looked_into.lock().insert(self.hasher.hash_one(&dir.path));
        if of.dead.is_empty() || !is_new() {
            return;
        }
        for name in sys::names_in(&dir.fd).unwrap_or_default() {
            let is_left =
                Mark::of_name(name.to_bytes()).is_some_and(|mark| of.dead.contains(&mark));
            if is_left && sys::unlink(&dir.fd, &name).is_ok() {
                of.removed.fetch_add(1, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_which_restore_gave_it() {
        let mark = Mark::of_session([0xab; 16]);
        let name = mark.name(31);
        assert_eq!(name, ".capstan-abababababababababababab-1f");
        assert_eq!(Mark::of_name(name.as_bytes()), Some(mark));
        assert_ne!(Mark::drawn(), Mark::drawn());
        for other in [
            ".capstan-abababababababab",
            ".capstan-abababababababababababab",
            ".capstan-abababababababababababab-",
            ".capstan-abababababababababababab-x",
            ".capstan-ABABABABABABABABABABABAB-1",
            ".capstan-abababababababababababab-1 ",
            "capstan-abababababababababababab-1",
        ] {
            assert_eq!(Mark::of_name(other.as_bytes()), None, "{other}");
        }
    }
}
