//! What became of a job at its disk agent.

use capstan_port::disk::backup::{Counting, without_a_word};
use capstan_wire::backup as agent;

use crate::error::chain;
use crate::kinds::backup::base::resume::Cursor;

/// What a disk agent handed over, and what became of what its job builds on.
pub(super) struct HandedOver {
    /// What the disk agent says.
    pub by_agent: agent::HandedOver,
    /// Why what the job builds on could not be read to its end.
    pub base_failed: Option<String>,
}

impl HandedOver {
    /// Of a disk agent that ended without a word.
    pub fn without_a_word(counting: &dyn Counting) -> Self {
        Self { by_agent: without_a_word(counting), base_failed: None }
    }

    /// The same, with what became of what it builds on.
    pub fn built_on(self, base: Option<&Cursor<'_>>) -> Self {
        Self { base_failed: base.and_then(Cursor::failed).map(|e| chain(e)), ..self }
    }

    /// Whether all of it was, and its input did not fail.
    pub fn is_well(&self) -> bool {
        let Self { by_agent, base_failed } = self;
        by_agent.is_whole && by_agent.input_failed.is_none() && base_failed.is_none()
    }
}
