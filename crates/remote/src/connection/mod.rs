//! Many conversations over one transport.
//!
//! Each conversation has a [`Channel`], on which both sides send messages in order. A conversation that nobody reads holds up no other
//! (`wire::channel` has the rules). Either side opens channels; what the other side opens is handed to a function. A connection has
//! three threads: one reads, one writes, one tells the other side that this one is alive and sees whether it is.

mod broken;
mod line;
mod outbox;
mod shared;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use capstan_wire::frame::{Kind, LONGEST_PAYLOAD};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::broken::Broken;
use self::line::{Heard, Line};
use self::shared::{Shared, start};
use crate::transport::Transport;

/// Takes what the other side opens, each in a thread of its own.
pub type Serve = dyn Fn(Channel) + Send + Sync;

/// Which side of a connection this is: the numbers of channels tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that dialled.
    Dialled,
    /// The one that answered.
    Answered,
}

/// How often a side says that it is alive, and how long it waits for the other one.
#[derive(Debug, Clone, Copy)]
pub struct Beats {
    /// Between two signs of life.
    pub every: Duration,
    /// After so long a silence the connection is broken.
    pub patience: Duration,
}

impl Default for Beats {
    fn default() -> Self {
        Self { every: Duration::from_secs(8), patience: Duration::from_secs(28) }
    }
}

/// A connection. It is closed when this is dropped: what is said on its channels then breaks off.
pub struct Connection {
    shared: Arc<Shared>,
}

impl Connection {
    /// Says hello over a transport, and serves what the other side opens.
    pub fn start(
        transport: Transport,
        side: Side,
        beats: Beats,
        serve: Box<Serve>,
    ) -> Result<Self, Broken> {
        start(transport, side, beats, serve).map(|shared| Self { shared })
    }

    /// Opens a channel.
    pub fn open(&self) -> Result<Channel, Broken> {
        self.shared.open()
    }

    /// Why it cannot go on, if that is so.
    pub fn broken(&self) -> Option<Broken> {
        self.shared.broken()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.break_with(Broken::Closed);
    }
}

/// One side of a conversation. The other side hears of its end when this is dropped.
pub struct Channel {
    number: u32,
    line: Arc<Line>,
    shared: Arc<Shared>,
    has_left: AtomicBool,
}

impl Channel {
    fn new(number: u32, line: Arc<Line>, shared: Arc<Shared>) -> Self {
        Self { number, line, shared, has_left: AtomicBool::new(false) }
    }

    /// Sends a message. Waits until the other side has room for it.
    pub fn send(&self, message: &[u8]) -> Result<(), Broken> {
        let mut left = message;
        loop {
            let length = self.line.room(left.len().min(LONGEST_PAYLOAD))?;
            let (part, rest) = left.split_at(length);
            left = rest;
            let kind = if rest.is_empty() { Kind::Last } else { Kind::Part };
            self.shared.send(kind, self.number, part)?;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// Waits for a message.
    pub fn receive(&self) -> Result<Vec<u8>, Broken> {
        loop {
            if let Some(message) = self.next(None)? {
                return Ok(message);
            }
        }
    }

    /// Waits for a message, but no longer than `limit`.
    pub fn receive_within(&self, limit: Duration) -> Result<Option<Vec<u8>>, Broken> {
        self.next(Some(limit))
    }

    fn next(&self, limit: Option<Duration>) -> Result<Option<Vec<u8>>, Broken> {
        match self.line.next(limit)? {
            Heard::Nothing => Ok(None),
            Heard::Message(message, due) => {
                self.shared.taken(message.len());
                // Where the connection is broken nobody waits for credit.
                let _ = due.map(|due| self.shared.credit(self.number, due));
                Ok(Some(message))
            }
        }
    }

    /// Sends a message in its JSON form.
    pub fn tell<T: Serialize>(&self, message: &T) -> Result<(), Broken> {
        self.send(&capstan_wire::encode(message)?)
    }

    /// Waits for a message in its JSON form.
    pub fn hear<T: DeserializeOwned>(&self) -> Result<T, Broken> {
        Ok(capstan_wire::decode(&self.receive()?)?)
    }

    /// Sends a question and waits for its answer.
    pub fn ask<Q: Serialize, A: DeserializeOwned>(&self, question: &Q) -> Result<A, Broken> {
        self.tell(question)?;
        self.hear()
    }

    /// Asks the other side to end what it does on the channel.
    pub fn stop(&self) -> Result<(), Broken> {
        self.shared.send(Kind::Stop, self.number, &[])
    }

    /// Whether the other side asks to end what is done on the channel, or is gone.
    pub fn is_stopped(&self) -> bool {
        self.line.stop.load(Relaxed)
    }

    /// Whether nothing more comes from the other side, now or when all was read that came.
    pub fn has_ended(&self) -> bool {
        self.line.has_ended()
    }

    /// Ends the conversation: the other side hears of it when it has read all that was sent. Whoever waits on this side waits no longer.
    pub fn hang_up(&self) {
        if !self.has_left.swap(true, Relaxed) {
            self.line.break_with(&Broken::Closed);
            self.shared.leave(self.number);
        }
    }

    /// The same, as a flag to be passed on.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        self.line.stop.clone()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.hang_up();
    }
}
