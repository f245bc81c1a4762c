//! How far cleaning tapes are used up.

use serde::{Deserialize, Serialize};

/// How far a cleaning tape is used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uses {
    /// How often this cell used it.
    pub used: u64,
    /// How many uses are left, where that is known.
    pub left: Option<u32>,
}
