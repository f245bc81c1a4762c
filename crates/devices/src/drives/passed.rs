//! Blocks of a tape that passed by last: streams that were multiplexed are read one a little after the other.
//!
//! They are kept in memory; or, where the files that are restored come more slowly than the drive reads, on disk, in a spool: then
//! the drive reads ahead in long bursts, and stands in between, instead of stopping for each few blocks.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use capstan_address::SpoolPlan;
use capstan_engine::nameless::nameless;
use capstan_medium::tape::{Spot, WINDOW};

/// Shapes of so many segments are kept.
const SHAPES_MOST: usize = 64;

/// The shape of a segment on the tape: bytes of its first block and of those after it, blocks after the first, and its second file.
#[derive(Clone)]
pub(crate) struct Shape {
    pub first: u64,
    pub full: u64,
    pub data_blocks: u64,
    pub catalog: Arc<Vec<u8>>,
}

type Key = (u64, u64);
/// The block with the medium's header.
const FIRST: Key = (0, 0);

/// Where a block is kept.
enum Kept {
    Here(Vec<u8>),
    /// In the spool: where, how long, and how long the place is.
    Spooled(u64, usize, usize),
}

impl Kept {
    fn len(&self) -> usize {
        match self {
            Self::Here(block) => block.len(),
            Self::Spooled(_, length, _) => *length,
        }
    }
}

/// A spool file, in places of a block each.
struct Spool {
    file: File,
    size: usize,
    /// Bytes of the places that are made now.
    place_size: usize,
    free: Vec<u64>,
    /// Where the next new place is.
    end: u64,
    /// The block that was asked for last.
    block: Vec<u8>,
}

/// Blocks that passed by last.
pub(crate) struct Passed {
    blocks: HashMap<Key, Kept>,
    order: VecDeque<Key>,
    bytes: usize,
    /// Of files that passed by, the drive's number of the first block, where it is known.
    pub begins: HashMap<u64, u64>,
    /// Of segments by their first file, those last that were looked at last: each reader of a member of an array asks for it, and the
    /// tape would go to the catalog and back each time.
    shapes: Vec<(u64, Shape)>,
    spool: Option<Spool>,
}

impl Passed {
    /// Nothing yet; through the spool, if one is wanted.
    pub fn through(plan: Option<&SpoolPlan>) -> Self {
        let spool = plan.and_then(|plan| {
            Some(Spool {
                file: nameless(&plan.dir).ok()?,
                size: usize::try_from(plan.size).unwrap_or(usize::MAX),
                place_size: 0,
                free: Vec::new(),
                end: 0,
                block: Vec::new(),
            })
        });
        Self {
            blocks: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            begins: HashMap::new(),
            shapes: Vec::new(),
            spool,
        }
    }

    /// Bytes that are read ahead at once; none without a spool, of which they are the half.
    pub fn burst(&self) -> usize {
        self.spool.as_ref().map_or(0, |spool| spool.size / 2)
    }

    fn most(&self) -> usize {
        self.spool.as_ref().map_or(WINDOW, |spool| spool.size.max(WINDOW))
    }

    pub fn has(&self, key: Key) -> bool {
        self.blocks.contains_key(&key)
    }

    /// Keeps a block, and forgets the oldest ones where there is no room.
    pub fn keep(&mut self, spot: Spot, block: Vec<u8>) {
        let key = (spot.file, spot.block);
        if let Some(begin) = spot.object.and_then(|object| object.checked_sub(spot.block)) {
            self.begins.insert(spot.file, begin);
        }
        if self.blocks.contains_key(&key) {
            self.order.retain(|kept| *kept != key);
            self.forget(key);
        }
        while self.bytes + block.len() > self.most() && !self.order.is_empty() {
            let Some(first) = self.order.pop_front() else { break };
            self.forget(first);
        }
        self.bytes += block.len();
        let kept = match self.spool.as_mut().map(|spool| spool.put(&block)) {
            Some(Ok((at, place))) => Kept::Spooled(at, block.len(), place),
            // A full disk: it goes on without a spool.
            Some(Err(_)) => {
                self.spool_failed();
                self.bytes = block.len();
                Kept::Here(block)
            }
            None => Kept::Here(block),
        };
        self.blocks.insert(key, kept);
        self.order.push_back(key);
    }

    fn spool_failed(&mut self) {
        self.spool = None;
        self.blocks.clear();
        self.order.clear();
        self.bytes = 0;
    }

    fn forget(&mut self, key: Key) {
        let Some(kept) = self.blocks.remove(&key) else { return };
        self.bytes -= kept.len();
        if let (Kept::Spooled(at, _, place), Some(spool)) = (kept, &mut self.spool)
            && place == spool.place_size
        {
            spool.free.push(at);
        }
    }

    /// A block, if it is kept.
    pub fn get(&mut self, key: Key) -> Option<&[u8]> {
        match self.blocks.get(&key)? {
            Kept::Here(block) => Some(block),
            Kept::Spooled(at, length, _) => self.spool.as_mut()?.get(*at, *length),
        }
    }

    /// The tape is written at that place: what was there and behind it is gone. All is forgotten but the tape's first block: whoever
    /// opens the tape again to write at its end would wind it back for that.
    pub fn overwritten(&mut self, at: Spot) {
        let keys: Vec<_> = self.order.drain(..).collect();
        for key in keys {
            match key == FIRST && at.file > 0 {
                true => self.order.push_back(key),
                false => self.forget(key),
            }
        }
        self.begins.clear();
        self.shapes.clear();
    }

    /// The shape of the segment that begins with that file, if it is kept.
    pub fn shape(&self, file: u64) -> Option<Shape> {
        self.shapes.iter().find(|of| of.0 == file).map(|of| of.1.clone())
    }

    /// Keeps the shape of a segment, and forgets the oldest ones where they are too large together.
    pub fn keep_shape(&mut self, file: u64, shape: Shape) {
        self.shapes.retain(|of| of.0 != file);
        self.shapes.push((file, shape));
        let bytes = |shapes: &[(u64, Shape)]| -> usize {
            shapes.iter().map(|(_, shape)| shape.catalog.len()).sum()
        };
        while self.shapes.len() > 1
            && (self.shapes.len() > SHAPES_MOST || bytes(&self.shapes) > WINDOW / 2)
        {
            self.shapes.remove(0);
        }
    }
}

impl Spool {
    /// Writes a block; where, and how long its place is.
    fn put(&mut self, block: &[u8]) -> std::io::Result<(u64, usize)> {
        if self.place_size < block.len() {
            // Longer than those before: the places that there are do no more.
            self.place_size = block.len();
            self.free.clear();
        }
        let place = self.place_size;
        let at = self.free.pop().unwrap_or_else(|| {
            let at = self.end;
            self.end += place as u64;
            at
        });
        self.file.write_all_at(block, at)?;
        Ok((at, place))
    }

    fn get(&mut self, at: u64, length: usize) -> Option<&[u8]> {
        self.block.resize(length, 0);
        self.file.read_exact_at(&mut self.block, at).ok()?;
        Some(&self.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(block: u64) -> Spot {
        Spot { file: 1, block, object: Some(100 + block) }
    }

    #[test]
    fn what_passed_by_last_is_kept_on_disk_up_to_the_size_of_the_spool() {
        let dir = tempfile::tempdir().unwrap();
        const BLOCK: usize = 1 << 20;
        let plan = SpoolPlan { dir: dir.path().to_owned(), size: 64 << 20 };
        let mut passed = Passed::through(Some(&plan));
        assert_eq!(passed.burst(), 32 << 20);
        // A short one first, as headers can be.
        passed.keep(spot(0), vec![7; 4096]);
        for n in 1..200 {
            passed.keep(spot(n), vec![n as u8; BLOCK]);
        }
        assert!(!passed.has((1, 0)) && !passed.has((1, 135)) && passed.has((1, 136)));
        for n in 136..200 {
            let block = passed.get((1, n)).unwrap();
            assert!(block.len() == BLOCK && block.iter().all(|b| *b == n as u8), "{n}");
        }
        assert_eq!(passed.begins.get(&1), Some(&100));
        let on_disk = passed.spool.as_ref().unwrap().end;
        assert!(on_disk <= plan.size + 2 * BLOCK as u64, "{on_disk}");
        // Once more is no second one.
        passed.keep(spot(150), vec![1; BLOCK]);
        assert_eq!(passed.get((1, 150)).unwrap()[0], 1);
        assert_eq!(passed.bytes, 64 * BLOCK);
        passed.keep(Spot::BEGIN, vec![3; BLOCK]);
        passed.overwritten(spot(0));
        assert!(!passed.has((1, 150)) && passed.get((0, 0)).unwrap()[0] == 3);
        passed.overwritten(Spot::BEGIN);
        assert!(!passed.has((0, 0)) && passed.bytes == 0);
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "it has no name");
    }

    #[test]
    fn shapes_are_kept_until_the_tape_is_written_or_they_are_too_large() {
        let mut passed = Passed::through(None);
        let shape =
            |bytes| Shape { first: 1, full: 2, data_blocks: 3, catalog: Arc::new(vec![0; bytes]) };
        for file in 0..10 {
            passed.keep_shape(2 * file + 1, shape(4 << 20));
        }
        assert!(passed.shape(11).is_none() && passed.shape(13).is_some());
        passed.keep_shape(21, shape(WINDOW));
        assert!(passed.shape(19).is_none() && passed.shape(21).is_some(), "one is kept always");
        passed.overwritten(spot(0));
        assert!(passed.shape(21).is_none());
    }

    #[test]
    fn without_a_spool_the_last_ones_are_in_memory() {
        let mut passed = Passed::through(None);
        assert_eq!(passed.burst(), 0);
        for n in 0..100 {
            passed.keep(spot(n), vec![n as u8; 1 << 20]);
        }
        assert!(!passed.has((1, 67)) && passed.get((1, 68)).is_some_and(|block| block[0] == 68));
        passed.spool_failed();
        assert!(passed.get((1, 99)).is_none());
    }
}
