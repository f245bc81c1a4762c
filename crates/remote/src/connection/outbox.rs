//! What is to be written to a connection, in its order.

use std::io::Write;
use std::time::{Duration, Instant};

use capstan_wire::frame::Head;
use parking_lot::{Condvar, Mutex};

use super::broken::Broken;

/// Bytes that wait to be written; who has more to say waits then.
const MOST: usize = 256 << 10;

/// What is to be written.
#[derive(Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// Whether nothing more is taken.
    is_closed: bool,
    /// Whether nothing more is written.
    is_done: bool,
}

impl Outbox {
    /// Adds a frame, and waits for room before where much is to be written already.
    pub(super) fn add(&self, head: Head, payload: &[u8]) -> Result<(), Broken> {
        let mut state = self.state.lock();
        while state.bytes.len() >= MOST && !state.is_closed {
            self.changed.wait(&mut state);
        }
        self.put(&mut state, head, payload)
    }

    /// Adds a small frame at once. The thread that reads may not wait for one that writes: two sides would wait for each other.
    pub(super) fn add_now(&self, head: Head, payload: &[u8]) -> Result<(), Broken> {
        self.put(&mut self.state.lock(), head, payload)
    }

    fn put(&self, state: &mut State, head: Head, payload: &[u8]) -> Result<(), Broken> {
        if state.is_closed {
            return Err(Broken::Closed);
        }
        state.bytes.extend_from_slice(&head.encode());
        state.bytes.extend_from_slice(payload);
        self.changed.notify_all();
        Ok(())
    }

    /// Nothing more is taken; what is there is written.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until all is written, or cannot be; at most so long.
    pub(super) fn wait_done(&self, limit: Duration) {
        let begun = Instant::now();
        let mut state = self.state.lock();
        while !state.is_done && begun.elapsed() < limit {
            self.changed.wait_for(&mut state, limit.saturating_sub(begun.elapsed()));
        }
    }

    /// Writes what comes, until it is closed.
    pub(super) fn write_to(&self, writer: &mut dyn Write) -> std::io::Result<()> {
        let written = self.write_all_to(writer);
        let mut state = self.state.lock();
        (state.is_done, state.is_closed) = (true, true);
        drop(state);
        self.changed.notify_all();
        written
    }

    fn write_all_to(&self, writer: &mut dyn Write) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            let mut state = self.state.lock();
            while state.bytes.is_empty() && !state.is_closed {
                self.changed.wait(&mut state);
            }
            if state.bytes.is_empty() {
                return Ok(());
            }
            bytes.clear();
            std::mem::swap(&mut bytes, &mut state.bytes);
            drop(state);
            self.changed.notify_all();
            writer.write_all(&bytes)?;
            writer.flush()?;
        }
    }
}
