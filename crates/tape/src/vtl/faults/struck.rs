//! Planned faults that struck, for the reports of sessions.

use std::sync::Arc;

use capstan_medium::tape::Struck;
use parking_lot::Mutex;

use super::{Fault, Operation};

/// More are not kept.
const MOST: usize = 1000;

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
