//! Where the blocks of a segment lie: in the segment as the array shows it, and in the files of the members.
//!
//! A member's file is block 0, one block of each stripe, the catalog and the end record. A block that is not there (data
//! beyond the last) has no bytes, and parity is as long as the longest data block of its stripe.

use crate::array::Layout;
use crate::block::{BLOCK_ALIGN, BLOCK_SIZE_MAX, is_block_size};
use crate::error::{FormatError, Result};
use crate::record::SegmentEnd;

/// Where the blocks of a segment lie.
#[derive(Debug, Clone)]
pub struct SegmentMap {
    layout: Layout,
    block_size: u32,
    header: u32,
    data_blocks: u32,
    /// Data blocks of another length than the block size, ascending.
    short: Vec<(u32, u32)>,
    /// Bytes by which the data blocks up to each of `short` are less than full ones.
    less: Vec<u64>,
    /// Stripes in which some block is not full, ascending.
    odd: Vec<OddStripe>,
}

#[derive(Debug, Clone)]
struct OddStripe {
    stripe: u32,
    /// Length of each member's block.
    lens: Vec<u32>,
    /// Bytes by which each member's blocks up to this stripe, it included, are less than full ones.
    less: Vec<u64>,
}

impl SegmentMap {
    /// The map of a segment, from its end record.
    pub fn new(layout: Layout, block_size: u32, end: &SegmentEnd) -> Result<Self> {
        const WHAT: FormatError = FormatError::Invalid("segment end record");
        if !is_block_size(block_size) || end.data_blocks == u32::MAX {
            return Err(WHAT);
        }
        let (mut header, mut short) = (block_size, Vec::new());
        let mut last = None;
        for (index, length) in &end.short_blocks {
            let most = if *index == 0 { BLOCK_SIZE_MAX } else { block_size };
            let fits = *length >= BLOCK_ALIGN as u32
                && *length <= most
                && length.is_multiple_of(BLOCK_ALIGN as u32);
            if !fits || *index > end.data_blocks || last >= Some(*index) {
                return Err(WHAT);
            }
            last = Some(*index);
            match *index {
                0 => header = *length,
                _ => short.push((*index, *length)),
            }
        }
        let map = Self::of(layout, block_size, header, end.data_blocks, short);
        match map.catalog_at() == end.catalog_at {
            true => Ok(map),
            false => Err(WHAT),
        }
    }

    /// The map of a member that is an array itself: its data blocks are those that this one has on it.
    pub fn of_member(&self, member: usize, layout: Layout) -> Self {
        let last_len = |stripe| self.len_of(stripe, self.layout.role_of(stripe, member));
        // Only in the last stripe a member may have no block.
        let blocks = match self.stripes().checked_sub(1) {
            Some(last) if last_len(last) == 0 => last,
            _ => self.stripes(),
        };
        let odd = self.odd.iter().filter(|o| o.stripe < blocks);
        let short = odd.map(|o| (o.stripe + 1, o.lens[member]));
        let short = short.filter(|(_, length)| *length != self.block_size).collect();
        Self::of(layout, self.block_size, self.header, blocks, short)
    }

    fn of(
        layout: Layout,
        block_size: u32,
        header: u32,
        data_blocks: u32,
        short: Vec<(u32, u32)>,
    ) -> Self {
        let mut sum = 0;
        let less = short.iter().map(|(_, length)| {
            sum += u64::from(block_size - length);
            sum
        });
        let less = less.collect();
        let mut map =
            Self { layout, block_size, header, data_blocks, short, less, odd: Vec::new() };
        map.note_odd_stripes();
        map
    }

    fn note_odd_stripes(&mut self) {
        let n = self.layout.data() as u32;
        let mut stripes: Vec<u32> = self.short.iter().map(|(index, _)| (index - 1) / n).collect();
        if !self.data_blocks.is_multiple_of(n) {
            stripes.push(self.data_blocks / n);
        }
        stripes.dedup();
        let mut less = vec![0; self.layout.members()];
        for stripe in stripes {
            let lens: Vec<u32> = (0..self.layout.members())
                .map(|member| self.computed_len(stripe, self.layout.role_of(stripe, member)))
                .collect();
            less.iter_mut().zip(&lens).for_each(|(l, len)| *l += u64::from(self.block_size - len));
            self.odd.push(OddStripe { stripe, lens, less: less.clone() });
        }
    }

    fn computed_len(&self, stripe: u32, role: usize) -> u32 {
        let len = |role| self.index_of(stripe, role).map_or(0, |index| self.block_len(index));
        match role < self.layout.data() {
            true => len(role),
            false => (0..self.layout.data()).map(len).max().unwrap_or(0),
        }
    }

    /// The layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Length of block 0.
    pub fn header_len(&self) -> u32 {
        self.header
    }

    /// Number of data blocks: their indices are 1 to this.
    pub fn data_blocks(&self) -> u32 {
        self.data_blocks
    }

    /// Number of stripes.
    pub fn stripes(&self) -> u32 {
        self.data_blocks.div_ceil(self.layout.data() as u32)
    }

    /// Stripe and role of a data block.
    pub fn place_of(&self, index: u32) -> (u32, usize) {
        let (at, n) = (index.saturating_sub(1), self.layout.data() as u32);
        (at / n, (at % n) as usize)
    }

    /// The data block of that role in a stripe, if there is one.
    pub fn index_of(&self, stripe: u32, role: usize) -> Option<u32> {
        let n = self.layout.data();
        let index = u64::from(stripe) * n as u64 + role as u64 + 1;
        u32::try_from(index).ok().filter(|i| role < n && *i <= self.data_blocks)
    }

    /// Length of a data block.
    pub fn block_len(&self, index: u32) -> u32 {
        let at = self.short.binary_search_by_key(&index, |s| s.0);
        at.map_or(self.block_size, |at| self.short[at].1)
    }

    /// Where a data block begins in the segment as the array shows it; of the one behind the last, where the catalog
    /// begins.
    pub fn block_at(&self, index: u32) -> u64 {
        let before = self.short.partition_point(|s| s.0 < index);
        let less = before.checked_sub(1).map_or(0, |i| self.less[i]);
        let full = u64::from(index.saturating_sub(1)) * u64::from(self.block_size);
        u64::from(self.header) + full - less
    }

    /// Where the catalog begins in the segment as the array shows it.
    pub fn catalog_at(&self) -> u64 {
        self.block_at(self.data_blocks.saturating_add(1))
    }

    /// The data block that has the byte at an offset, which is behind block 0 and before the catalog.
    pub fn block_with(&self, offset: u64) -> Option<u32> {
        if offset < u64::from(self.header) || offset >= self.catalog_at() {
            return None;
        }
        // The last block that begins at or before the offset.
        let (mut low, mut high) = (1, self.data_blocks);
        while low < high {
            let middle = high - (high - low) / 2;
            match self.block_at(middle) <= offset {
                true => low = middle,
                false => high = middle - 1,
            }
        }
        Some(low)
    }

    /// Length of the block of a role in a stripe; 0 if there is none.
    pub fn len_of(&self, stripe: u32, role: usize) -> u32 {
        let at = self.odd.binary_search_by_key(&stripe, |o| o.stripe);
        let member = self.layout.member_of(stripe, role);
        at.map_or(self.block_size, |at| self.odd[at].lens[member])
    }

    /// Where a member's block of a stripe begins in its file; of the one behind the last, where its catalog begins.
    pub fn member_at(&self, member: usize, stripe: u32) -> u64 {
        let before = self.odd.partition_point(|o| o.stripe < stripe);
        let less = before.checked_sub(1).map_or(0, |i| self.odd[i].less[member]);
        u64::from(self.header) + u64::from(stripe) * u64::from(self.block_size) - less
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{SegmentId, SegmentNumber, SessionId};
    use proptest::prelude::*;

    const B: u32 = 64 << 10;

    fn end(data_blocks: u32, short: &[(u32, u32)]) -> SegmentEnd {
        let len = |i| short.iter().find(|s| s.0 == i).map_or(B, |s| s.1);
        SegmentEnd {
            segment: SegmentId([1; 16]),
            number: SegmentNumber(1),
            session: SessionId([2; 16]),
            data_blocks,
            blocks: data_blocks + 3,
            catalog_at: (0..=data_blocks).map(|i| u64::from(len(i))).sum(),
            short_blocks: short.to_vec(),
            streams: Vec::new(),
            session_end: None,
            other_ends: Vec::new(),
            lacks: 0,
            lacks_names: false,
            written_us: 0,
        }
    }

    proptest! {
        /// Against laying out block after block, as the writer does.
        #[test]
        fn places_are_those_that_a_writer_gives(
            which in 0_usize..5,
            blocks in 0_u32..30,
            short in prop::collection::btree_map(0_u32..30, 1_u32..17, 0..8),
        ) {
            let layouts = [("rait0", 3), ("rait1", 2), ("rait5", 4), ("rait:4+2", 6), ("rait:1+1", 2)];
            let (name, members) = layouts[which];
            let layout = Layout::of(name, members).unwrap();
            let short: Vec<_> = short.into_iter().filter(|s| s.0 <= blocks).map(|(i, l)| (i, l * 4096)).collect();
            let end = end(blocks, &short);
            let map = SegmentMap::new(layout, B, &end).unwrap();
            let len = |i| short.iter().find(|s| s.0 == i).map_or(B, |s| s.1);
            let mut at = u64::from(len(0));
            let mut files = vec![at; members];
            for stripe in 0..map.stripes() {
                let first = stripe * layout.data() as u32 + 1;
                let mut longest = 0;
                for role in 0..members {
                    let member = layout.member_of(stripe, role);
                    prop_assert_eq!(map.member_at(member, stripe), files[member]);
                    let index = first + role as u32;
                    let length = match (role < layout.data(), index <= blocks) {
                        (true, true) => {
                            prop_assert_eq!(map.block_at(index), at);
                            prop_assert_eq!(map.place_of(index), (stripe, role));
                            prop_assert_eq!(map.block_with(at), Some(index));
                            prop_assert_eq!(map.block_with(at + u64::from(len(index)) - 1), Some(index));
                            at += u64::from(len(index));
                            longest = longest.max(len(index));
                            len(index)
                        }
                        (true, false) => 0,
                        (false, _) => longest,
                    };
                    prop_assert_eq!(map.len_of(stripe, role), length);
                    files[member] += u64::from(length);
                }
            }
            for (member, at) in files.iter().enumerate() {
                prop_assert_eq!(map.member_at(member, map.stripes()), *at);
            }
            prop_assert_eq!(map.catalog_at(), at);
            prop_assert_eq!(map.block_with(at), None);
            prop_assert_eq!(map.block_with(u64::from(len(0)) - 1), None);
        }
    }

    #[test]
    fn records_that_cannot_be_are_refused() {
        let layout = Layout::of("rait5", 3).unwrap();
        let map = |end: &SegmentEnd| SegmentMap::new(layout, B, end);
        let good = end(5, &[(0, 4096), (5, 8192)]);
        assert!(map(&good).is_ok());
        assert!(map(&SegmentEnd { catalog_at: 1, ..good.clone() }).is_err());
        for short in [
            vec![(6, 4096)],
            vec![(5, 4096), (2, 4096)],
            vec![(2, 4096), (2, 4096)],
            vec![(2, B + 4096)],
            vec![(2, 0)],
            vec![(2, 5000)],
        ] {
            let end = SegmentEnd { short_blocks: short.clone(), ..good.clone() };
            assert!(map(&end).is_err(), "{short:?}");
        }
        assert!(SegmentMap::new(layout, 5000, &good).is_err());
        // Nothing is allocated by what a record claims, and nothing overflows.
        let huge = SegmentEnd { data_blocks: u32::MAX - 1, short_blocks: Vec::new(), ..good };
        let at = u64::from(u32::MAX) * u64::from(B);
        assert!(map(&SegmentEnd { catalog_at: at, ..huge }).is_ok());
    }
}
