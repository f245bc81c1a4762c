//! Parity of blocks, as an array computes it.

use std::time::Instant;

use capstan_format::array::Layout;
use capstan_format::array::code::{add, factor};

use super::Done;
use crate::error::BenchError;

/// Bytes of a block: that of a medium at defaults.
const BLOCK: usize = 512 << 10;

/// Computes parity of so many bytes; `shape` is N+K, where K = 1 means XOR.
pub fn compute(shape: &str, bytes: u64) -> Result<(std::time::Duration, Done), BenchError> {
    let members = |text: &str| text.parse::<usize>().ok();
    let sizes = shape.split_once('+').and_then(|(n, k)| Some((members(n)?, members(k)?)));
    let layout = sizes.and_then(|(n, k)| match k {
        1 => Layout::of("rait5", n + 1),
        _ => Layout::of(&format!("rait:{shape}"), n + k),
    });
    let Some(layout) = layout else {
        return Err(BenchError::Usage(format!("'{shape}' is no N+K of an array")));
    };
    let data: Vec<Vec<u8>> =
        (0..layout.data()).map(|j| (0..BLOCK).map(|i| (i * 7 + j * 31) as u8).collect()).collect();
    let mut parity = vec![vec![0_u8; BLOCK]; layout.parity()];
    let (start, mut done) = (Instant::now(), 0);
    while done < bytes {
        for (j, block) in data.iter().enumerate() {
            for (i, sum) in parity.iter_mut().enumerate() {
                add(sum, std::hint::black_box(block), factor(layout, i, j));
            }
            done += BLOCK as u64;
        }
    }
    std::hint::black_box(&parity);
    Ok((start.elapsed(), Done { files: 0, bytes: done }))
}
