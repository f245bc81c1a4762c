//! What an agent says of its host.

use serde::{Deserialize, Serialize};

/// The processors of a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processors {
    /// How many there are for the agent.
    pub number: u32,
    /// Their time since the host started, in ticks.
    pub ticks: u64,
    /// How much of that they had nothing to do.
    pub idle: u64,
}

impl Processors {
    /// Of the time since an earlier reading the share, from 0 to 1, in which they had nothing to do.
    pub fn idle_since(&self, earlier: &Self) -> f64 {
        let all = self.ticks.saturating_sub(earlier.ticks).max(1);
        self.idle.saturating_sub(earlier.idle) as f64 / all as f64
    }
}
