//! How fast drives are.

use serde::{Deserialize, Serialize};

/// How fast a drive is, in bytes per second at the medium.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Speeds {
    /// The lowest rate that it can match; fed below that it stops and moves back again and again.
    pub lowest: f64,
    /// The highest.
    pub native: f64,
}

impl Speeds {
    /// Of a drive that does not say what it is: nothing is known of what it needs, and it takes at most as much as an LTO-10
    /// (400 MB/s) does of data that shrink 2.5 to 1.
    pub const UNKNOWN: Self = Self { lowest: 0.0, native: 1e9 };

    /// What suits both of two drives that are fed alike.
    pub fn and(self, other: Self) -> Self {
        Self { lowest: self.lowest.max(other.lowest), native: self.native.min(other.native) }
    }
}

/// Seconds to stop, to find the track and to be at speed after a locate, of linear drives: an estimate.
pub const SETTLE_S: f64 = 2.0;
