//! What is said where a disk agent on another host cannot be reached any more.

use capstan_engine::problem::{Explain, Problem};

/// The disk agent cannot be reached any more, or does not keep the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AgentLost(pub Problem);

impl Explain for AgentLost {
    fn hint(&self) -> Option<String> {
        self.0.hint.clone()
    }
}
