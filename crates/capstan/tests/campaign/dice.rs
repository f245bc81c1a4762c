//! Chance under a seed.

use std::ops::Range;

/// Numbers that are the same for the same seed.
#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        let mut dice = Self(seed ^ 0x6a09_e667_f3bc_c908);
        dice.next();
        dice
    }

    /// SplitMix64.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of 0 to `n` − 1; 0 where there is none.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// Others, which do not depend on how many of these are used.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next())
    }
}

/// The seeds that are to be tried alone: `CAPSTAN_SEED=7`, or from one to before another one, `CAPSTAN_SEED=500..900`.
pub fn seeds_wanted() -> Option<Range<u64>> {
    let text = std::env::var("CAPSTAN_SEED").ok()?;
    let number = |text: &str| -> u64 {
        text.parse().unwrap_or_else(|_| panic!("CAPSTAN_SEED has '{text}', not a number"))
    };
    Some(match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&text)..number(&text) + 1,
    })
}

/// The one with which a campaign begins that draws all from one.
pub fn seed_wanted() -> Option<u64> {
    seeds_wanted().map(|seeds| seeds.start)
}
