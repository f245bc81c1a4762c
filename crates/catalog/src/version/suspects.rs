//! Further names whose first name may have got another row since: what to look at once more.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use capstan_format::entry::path_order;

use super::VersionRows;
use crate::row::Row;

/// Bits that paths are noted in by their hashes: 8 MiB, of which only touched pages take memory.
const BITS: usize = 1 << 26;

/// Finds link rows whose first name may have got another row since. It is made while all rows pass in the order of paths, in
/// which a first name mostly comes before the others.
pub(super) struct Suspects {
    hasher: RandomState,
    bits: Vec<u64>,
    /// The version's last session.
    last: u32,
    /// The rows, by the path of the first name.
    pub links: HashMap<Vec<u8>, Vec<Row>>,
}

impl Suspects {
    /// In a version of which link rows are wanted only if any may be kept.
    pub fn of(view: &VersionRows<'_>, has_links: bool) -> Self {
        let last = view.segments.iter().map(|s| s.session).max().unwrap_or(0);
        let bits = if has_links { vec![0; BITS / 64] } else { Vec::new() };
        Self { hasher: RandomState::new(), bits, last, links: HashMap::new() }
    }

    /// Takes the newest row of a path.
    pub fn take(&mut self, row: &Row) {
        if self.bits.is_empty() {
            return;
        }
        let e = &row.entry;
        if row.ordinal.session > 0 {
            for bit in self.bits_of(&e.path()) {
                self.bits[bit / 64] |= 1 << (bit % 64);
            }
        }
        if !e.link || row.ordinal.session >= self.last {
            return;
        }
        let first = capstan_format::entry::split(&e.target);
        // One that comes later is not known yet.
        let is_open = path_order(first, (&e.dir, &e.name)).is_gt()
            || self.bits_of(&e.target).iter().all(|bit| self.bits[bit / 64] >> (bit % 64) & 1 == 1);
        if is_open {
            self.links.entry(e.target.clone()).or_default().push(row.clone());
        }
    }

    fn bits_of(&self, path: &[u8]) -> [usize; 2] {
        let hash = self.hasher.hash_one(path);
        [hash as usize % BITS, (hash >> 32) as usize % BITS]
    }
}
