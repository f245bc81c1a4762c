//! A small fast generator of pseudo-random bytes: xoshiro256++ (Blackman and Vigna, public domain).
//!
//! Written here because the bytes must never change with a dependency's version: the same seed has
//! to give the same tree for years.

/// One step of SplitMix64, the recommended way to turn a seed into generator state.
pub(super) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A generator whose sequence depends on a seed and a stream number.
#[derive(Debug, Clone)]
pub(super) struct Prng {
    state: [u64; 4],
}

impl Prng {
    /// The generator of `stream` under `seed`; different pairs give unrelated sequences.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut hashed_seed = seed;
        let mut mix = split_mix(&mut hashed_seed) ^ stream;
        Self { state: std::array::from_fn(|_| split_mix(&mut mix)) }
    }

    #[inline(always)]
    pub(super) fn next(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound`; the bias is below `bound` / 2^32, which is nothing here.
    #[inline]
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Fills `out` with random bytes, eight a step.
    #[inline]
    pub(super) fn fill(&mut self, out: &mut [u8]) {
        // A local copy keeps the state in registers.
        let mut local = self.clone();
        let mut words = out.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&local.next().to_le_bytes());
        }
        let rest = words.into_remainder();
        if !rest.is_empty() {
            let last = local.next().to_le_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
        *self = local;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sequence() {
        // First outputs of the reference implementation for the state 1, 2, 3, 4.
        let mut prng = Prng { state: [1, 2, 3, 4] };
        let got: Vec<u64> = (0..4).map(|_| prng.next()).collect();
        assert_eq!(got, [41943041, 58720359, 3588806011781223, 3591011842654386]);
    }

    #[test]
    fn streams_differ_and_fill_matches_next() {
        let mut bytes = [0u8; 20];
        Prng::new(7, 1).fill(&mut bytes);
        let mut other = Prng::new(7, 1);
        assert_eq!(bytes[..8], other.next().to_le_bytes());
        assert_eq!(bytes[8..16], other.next().to_le_bytes());
        assert_eq!(bytes[16..], other.next().to_le_bytes()[..4]);
        assert_ne!(Prng::new(7, 1).next(), Prng::new(7, 2).next());
        assert_ne!(Prng::new(7, 1).next(), Prng::new(8, 1).next());
    }
}
