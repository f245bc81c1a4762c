//! Filters of names: which segments need not be read for a name that is known as a whole.
//!
//! A Bloom filter with four bits for each name: it may say that a name is there that is not (one of 18), never that one is
//! not there that is. It is read as a whole, since a flipped bit would hide a file if nobody looked at the checksum.

/// Bits of the filter for each different name: 0.75 bytes.
const BITS: usize = 6;
/// Bits that are set for a name; with [`BITS`] this is the best number.
const SET: u64 = 4;

/// Gathers names.
#[derive(Default)]
pub(super) struct NameGatherer(Vec<u64>);

impl NameGatherer {
    pub fn add(&mut self, name: &[u8]) {
        self.0.push(hash(name));
    }

    /// The filter's bytes; none of no names.
    pub fn finish(mut self) -> Vec<u8> {
        self.0.sort_unstable();
        self.0.dedup();
        let mut filter = vec![0; (self.0.len() * BITS).div_ceil(8)];
        for hash in self.0 {
            for bit in bits(hash, filter.len()) {
                filter[bit / 8] |= 1 << (bit % 8);
            }
        }
        filter
    }
}

/// Whether a name may be one of those that a filter was made of.
pub(super) fn may_have(filter: &[u8], name: &[u8]) -> bool {
    !filter.is_empty() && bits(hash(name), filter.len()).all(|b| filter[b / 8] >> (b % 8) & 1 == 1)
}

/// The bits of a hash in a filter of so many bytes, more than none.
fn bits(hash: u64, bytes: usize) -> impl Iterator<Item = usize> {
    let step = mixed(hash) | 1;
    let of = bytes as u128 * 8;
    (0..SET)
        .map(move |n| ((u128::from(hash.wrapping_add(step.wrapping_mul(n))) * of) >> 64) as usize)
}

/// FNV-1a, its bits mixed. It is part of the file's form: whoever changes it counts the version up.
fn hash(name: &[u8]) -> u64 {
    mixed(name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    }))
}

/// The finalizer of MurmurHash3.
fn mixed(mut hash: u64) -> u64 {
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ hash >> 33).wrapping_mul(factor);
    }
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_few_others() {
        for count in [0u32, 1, 2, 1000, 50_000] {
            let mut names = NameGatherer::default();
            // Each twice: that takes no more room.
            (0..count).chain(0..count).for_each(|n| names.add(format!("f{n:09}").as_bytes()));
            let filter = names.finish();
            assert_eq!(filter.len(), (count as usize * BITS).div_ceil(8));
            assert!((0..count).all(|n| may_have(&filter, format!("f{n:09}").as_bytes())));
            if count >= 1000 {
                let others = 1_000_000..1_100_000u32;
                let found =
                    others.filter(|n| may_have(&filter, format!("f{n:09}").as_bytes())).count();
                assert!((4500..6700).contains(&found), "{found} of 100,000 that are not there");
            }
        }
        assert!(!may_have(&[], b""), "of no names none is there");
    }

    #[test]
    fn the_hash_stays() {
        let mut names = NameGatherer::default();
        names.add(b"mail.pst");
        names.add(b"");
        let filter = names.finish();
        assert_eq!(filter.len(), 2);
        assert!(may_have(&filter, b"") && may_have(&filter, b"mail.pst"));
        assert_eq!(hash(b""), 0xefd0_1f60_ba99_2926);
    }
}
