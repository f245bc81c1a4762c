//! What device hosts that share libraries have in common.

use std::sync::Arc;

use capstan_address::LibraryName;

use super::queue::Queue;
use crate::tape::TapeError;

/// What those who share libraries have in common.
pub trait Common: Send + Sync {
    /// Books a robot: waits in that queue until nobody else has it. Who books has it until what is returned is dropped.
    fn book(&self, queue: &Arc<Queue>, robot: &str) -> Result<Box<dyn Send>, TapeError>;
    /// Claims a drive that something is brought to, where hosts cannot see each other's locks; or says at once who has it.
    fn claim(&self, drive: &str) -> Result<Box<dyn Send>, TapeError>;
    /// A library says that somebody may have changed tapes in it.
    fn disturbed(&self, library: &LibraryName);
}
