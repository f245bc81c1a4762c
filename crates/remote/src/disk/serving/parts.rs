//! Further channels of conversations, until who has the conversation takes them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use capstan_wire::disk::ask::Part;
use parking_lot::{Condvar, Mutex};

use crate::connection::{Broken, Channel};

/// So long a channel that was announced is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Channels that wait to be taken.
const MOST: usize = 256;
const TICK: Duration = Duration::from_millis(200);

/// Channels that came and were not taken.
#[derive(Default)]
pub(super) struct Parts {
    came: Mutex<HashMap<(u64, Part), Channel>>,
    changed: Condvar,
}

impl Parts {
    /// A channel came.
    pub fn came(&self, of: (u64, Part), channel: Channel) {
        let mut came = self.came.lock();
        // One that has ended may have said all before it is taken. Where nobody takes so many, their conversations have ended.
        if came.len() >= MOST {
            came.retain(|_, channel| !channel.has_ended());
        }
        came.insert(of, channel);
        self.changed.notify_all();
    }

    /// A conversation has ended: nobody takes what is there for it.
    pub fn forget(&self, of: u64) {
        self.came.lock().retain(|(conversation, _), _| *conversation != of);
    }

    /// Waits for the channel of a conversation; not where `of` has ended.
    pub fn take(&self, part: (u64, Part), of: &Channel) -> Result<Channel, Broken> {
        let begun = Instant::now();
        let mut came = self.came.lock();
        loop {
            if let Some(channel) = came.remove(&part) {
                return Ok(channel);
            }
            if of.has_ended() {
                return Err(Broken::Ended);
            }
            if begun.elapsed() > PATIENCE {
                return Err(Broken::Silent(PATIENCE.as_secs()));
            }
            self.changed.wait_for(&mut came, TICK);
        }
    }
}
