//! Planned faults of virtual libraries.

use serde::{Deserialize, Serialize};

/// A planned fault that struck.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Struck {
    /// What had it: a drive, or a library's robot.
    pub of: String,
    /// What it was doing, as plans of faults have it: `write`, `move`.
    pub operation: String,
    /// The how manyth time it did that.
    pub number: u64,
    /// What went wrong, as plans of faults have it: `error`, `jam`.
    pub fault: String,
}
