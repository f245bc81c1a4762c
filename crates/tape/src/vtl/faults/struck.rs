//! Planned faults that struck, for the reports of sessions.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{Fault, Operation};

/// More are not kept.
const MOST: usize = 1000;

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

/// The faults that struck in libraries that were opened with it, until somebody takes them. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct StruckLog(Arc<Mutex<Vec<Struck>>>);

impl StruckLog {
    /// The faults that struck since that was asked last.
    pub fn take(&self) -> Vec<Struck> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Keeps one.
    pub(super) fn keep(&self, of: &str, operation: Operation, number: u64, fault: Fault) {
        let mut all = self.0.lock();
        if all.len() < MOST {
            let (operation, fault) = (operation.to_string(), fault.to_string());
            all.push(Struck { of: of.to_owned(), operation, number, fault });
        }
    }
}
