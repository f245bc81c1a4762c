//! A session while it is written.

use std::sync::Arc;

use capstan_engine::link::BlockPort;
use capstan_format::record::SessionEnds;

use super::committed::Written;
use super::error::WriteError;
use super::members::{Drives, LostMirrors};

/// A session being written. One that is dropped without [`Self::finish`] is given up: what was not committed is dropped, and the media
/// are let go.
pub trait SessionWriter: Send + Sync {
    /// The end that disk agents use. It borrows the writer: while a stream is open, the writer cannot be waited for.
    fn port(&self) -> Arc<dyn BlockPort + '_>;

    /// Mirrors that failed and were left; who says so takes them out.
    fn lost_mirrors(&self) -> LostMirrors;

    /// What the tape drives did that were written to, one for each tape; whole when the writer has finished.
    fn drives(&self) -> Drives;

    /// Ends the session, and those that wrote together with it: what is left is written and committed, with their end records as far as
    /// there are any. All streams have been closed.
    fn finish(self: Box<Self>, ends: SessionEnds) -> Result<Written, WriteError>;
}
