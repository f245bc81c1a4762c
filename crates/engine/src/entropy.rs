//! Randomness through one narrow door, so that a test can run under a seed.

use parking_lot::Mutex;
use std::fs::File;
use std::io::Read;

/// Where random bytes come from.
pub enum Entropy {
    /// The operating system.
    System(Mutex<File>),
    /// A seed: for tests only, the bytes are predictable.
    Seeded(Mutex<u64>),
}

impl Entropy {
    /// The operating system's randomness.
    pub fn system() -> std::io::Result<Self> {
        Ok(Self::System(Mutex::new(File::open("/dev/urandom")?)))
    }

    /// Predictable bytes from a seed, for tests.
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Mutex::new(seed))
    }

    /// Fills `out` with random bytes.
    pub fn fill(&self, out: &mut [u8]) -> std::io::Result<()> {
        match self {
            Self::System(file) => {
                let mut file = file.lock();
                file.read_exact(out)
            }
            Self::Seeded(state) => {
                let mut state = state.lock();
                for byte in out {
                    // SplitMix64 (Steele, Lea, Flood 2014).
                    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    let mut z = *state;
                    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                    *byte = (z ^ (z >> 31)) as u8;
                }
                Ok(())
            }
        }
    }

    /// Sixteen random bytes: a new identity.
    pub fn id(&self) -> std::io::Result<[u8; 16]> {
        let mut id = [0; 16];
        self.fill(&mut id)?;
        Ok(id)
    }
}
