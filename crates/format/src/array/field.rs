//! The field GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d), and what is done to whole blocks in it.

/// The product of two elements.
pub const fn multiply(a: u8, b: u8) -> u8 {
    let (mut a, mut b, mut product) = (a, b, 0);
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = double(a);
        b >>= 1;
    }
    product
}

/// The product with x.
const fn double(a: u8) -> u8 {
    (a << 1) ^ (((a >> 7) & 1) * 0x1d)
}

/// The element whose product with `a` is 1; 0 of 0, which has none.
pub const fn inverse(a: u8) -> u8 {
    // a^254: the group of the field has 255 elements.
    let (mut power, mut product, mut n) = (a, 1, 254);
    while n != 0 {
        if n & 1 != 0 {
            product = multiply(product, power);
        }
        power = multiply(power, power);
        n >>= 1;
    }
    product
}

/// `to[i] ^= from[i]` for all of `from`, which is not the longer.
pub fn add(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to ^= from);
}

/// `to[i] ^= factor · from[i]` for all of `from`, which is not the longer.
pub fn add_multiple(to: &mut [u8], from: &[u8], factor: u8) {
    match factor {
        0 => {}
        1 => add(to, from),
        _ => {
            let done = vector::add_multiple(to, from, factor);
            add_doubled(to.get_mut(done..).unwrap_or_default(), &from[done..], factor);
        }
    }
}

/// By doubling, for processors without a byte shuffle that is known here: the compiler makes vectors of it.
fn add_doubled(to: &mut [u8], from: &[u8], factor: u8) {
    for (to, from) in to.iter_mut().zip(from) {
        let (mut power, mut product) = (*from, 0);
        for bit in 0..8 {
            // All ones where the factor has that bit.
            product ^= power & 0u8.wrapping_sub((factor >> bit) & 1);
            power = double(power);
        }
        *to ^= product;
    }
}

/// By tables of 16 products for either half of a byte, 32 bytes at a time.
#[cfg(target_arch = "x86_64")]
mod vector {
    use std::arch::x86_64::{
        __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
        _mm256_loadu_si256, _mm256_set1_epi8, _mm256_shuffle_epi8, _mm256_srli_epi64,
        _mm256_storeu_si256, _mm256_xor_si256,
    };

    use super::multiply;

    const WIDTH: usize = 32;

    /// Does as much from the begin as is whole vectors; returns how much that was.
    pub fn add_multiple(to: &mut [u8], from: &[u8], factor: u8) -> usize {
        if !is_x86_feature_detected!("avx2") {
            return 0;
        }
        let low: [u8; 16] = std::array::from_fn(|i| multiply(factor, i as u8));
        let high: [u8; 16] = std::array::from_fn(|i| multiply(factor, (i as u8) << 4));
        // SAFETY: the processor has AVX2, as was just asked.
        unsafe { with_tables(to, from, &low, &high) }
    }

    #[target_feature(enable = "avx2")]
    fn with_tables(to: &mut [u8], from: &[u8], low: &[u8; 16], high: &[u8; 16]) -> usize {
        // SAFETY: both tables are 16 bytes long, and the load needs no alignment.
        let (low, high) = unsafe {
            (_mm_loadu_si128(low.as_ptr().cast()), _mm_loadu_si128(high.as_ptr().cast()))
        };
        let (low, high) = (_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high));
        let half = _mm256_set1_epi8(0x0f);
        let mut done = 0;
        for (to, from) in to.chunks_exact_mut(WIDTH).zip(from.chunks_exact(WIDTH)) {
            let (from_at, to_at) = (from.as_ptr().cast(), to.as_mut_ptr().cast::<__m256i>());
            // SAFETY: both chunks are 32 bytes long; loads and stores need no alignment.
            let (x, sum) = unsafe { (_mm256_loadu_si256(from_at), _mm256_loadu_si256(to_at)) };
            let of_low = _mm256_shuffle_epi8(low, _mm256_and_si256(x, half));
            let rest = _mm256_and_si256(_mm256_srli_epi64::<4>(x), half);
            let product = _mm256_xor_si256(of_low, _mm256_shuffle_epi8(high, rest));
            // SAFETY: as above.
            unsafe { _mm256_storeu_si256(to_at, _mm256_xor_si256(sum, product)) };
            done += WIDTH;
        }
        done
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod vector {
    pub fn add_multiple(_: &mut [u8], _: &[u8], _: u8) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_field() {
        assert_eq!(multiply(0x80, 2), 0x1d);
        assert_eq!(inverse(2), 0x8e);
        for a in 1..=255 {
            assert_eq!(multiply(a, inverse(a)), 1, "{a}");
            assert_eq!(multiply(a, 1), a);
            for b in 0..=255 {
                assert_eq!(multiply(a, b), multiply(b, a));
                assert_eq!(multiply(a, b ^ 0x35), multiply(a, b) ^ multiply(a, 0x35));
            }
        }
    }

    #[test]
    fn whole_blocks_are_multiplied_as_single_bytes_are() {
        // All lengths around the width of a vector, with a tail of every length.
        let from: Vec<u8> = (0..300_u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for factor in 0..=255 {
            for len in [0, 1, 31, 32, 33, 63, 64, 255, 300] {
                let mut to = vec![0x5a; 300];
                let mut doubled = to.clone();
                add_multiple(&mut to, &from[..len], factor);
                add_doubled(&mut doubled, &from[..len], factor);
                let slow = |i: usize| 0x5a ^ if i < len { multiply(factor, from[i]) } else { 0 };
                assert!((0..300).all(|i| to[i] == slow(i)), "{factor} {len}");
                assert_eq!(to, doubled);
            }
        }
    }
}
