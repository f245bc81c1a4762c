//! One channel as both the threads of the connection and who speaks on it see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use capstan_wire::channel::{Incoming, Outgoing};
use parking_lot::{Condvar, Mutex};

use super::broken::Broken;

/// One channel.
#[derive(Default)]
pub(super) struct Line {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether the other side asks to end what is done on it.
    pub(super) stop: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    out: Outgoing,
    incoming: Incoming,
    broken: Option<Broken>,
}

/// What came of waiting for a message.
pub enum Heard {
    /// A message, and the credit that is due for it.
    Message(Vec<u8>, Option<u32>),
    /// Nothing in time.
    Nothing,
}

impl Line {
    /// A part of a message came. Returns the credit that is due at once.
    pub(super) fn part(&self, bytes: &[u8], is_last: bool) -> Result<Option<u32>, Broken> {
        let due = self.state.lock().incoming.part(bytes, is_last)?;
        if is_last {
            self.changed.notify_all();
        }
        Ok(due)
    }

    /// Drops what came and was not read. Says how many bytes that was.
    pub(super) fn clear(&self) -> usize {
        self.state.lock().incoming.clear()
    }

    /// The other side has room.
    pub(super) fn credit(&self, bytes: u32) -> Result<(), Broken> {
        self.state.lock().out.add(bytes)?;
        self.changed.notify_all();
        Ok(())
    }

    /// The other side says and reads nothing more.
    pub(super) fn end(&self) -> Result<(), Broken> {
        self.state.lock().incoming.end()?;
        self.stop.store(true, Relaxed);
        self.changed.notify_all();
        Ok(())
    }

    /// Whether the other side says nothing more.
    pub(super) fn has_ended(&self) -> bool {
        let state = self.state.lock();
        state.broken.is_some() || state.incoming.has_ended()
    }

    /// Nothing more comes or goes.
    pub(super) fn break_with(&self, why: &Broken) {
        self.state.lock().broken.get_or_insert_with(|| why.clone());
        self.stop.store(true, Relaxed);
        self.changed.notify_all();
    }

    /// Waits until a frame of `wanted` bytes or fewer may be sent; says how many.
    pub(super) fn room(&self, wanted: usize) -> Result<usize, Broken> {
        let mut state = self.state.lock();
        loop {
            if let Some(broken) = &state.broken {
                return Err(broken.clone());
            }
            if state.incoming.has_ended() {
                return Err(Broken::Ended);
            }
            if let Some(length) = state.out.take(wanted) {
                return Ok(length);
            }
            self.changed.wait(&mut state);
        }
    }

    /// The next message; waits at most `limit` for it. What came before the connection broke can still be had.
    pub(super) fn next(&self, limit: Option<Duration>) -> Result<Heard, Broken> {
        let begun = Instant::now();
        let mut state = self.state.lock();
        loop {
            if let Some((message, due)) = state.incoming.take_message() {
                return Ok(Heard::Message(message, due));
            }
            if state.incoming.is_over() {
                return Err(Broken::Ended);
            }
            if let Some(broken) = &state.broken {
                return Err(broken.clone());
            }
            match limit.map(|limit| limit.saturating_sub(begun.elapsed())) {
                None => self.changed.wait(&mut state),
                Some(left) if left.is_zero() => return Ok(Heard::Nothing),
                Some(left) => drop(self.changed.wait_for(&mut state, left)),
            }
        }
    }
}
