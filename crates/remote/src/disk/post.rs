//! One conversation of either side: its channel, and what came on it and was not taken yet.
//!
//! A thread reads all that comes, so that a side that has much to say never waits for one that has much to say too. How much can come is
//! bounded: rows are sent when there is room for them, frames when they were asked for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use capstan_engine::threads;
use capstan_wire::rows::{self, are_rows};
use minicbor::{Decode, Encode};
use parking_lot::{Condvar, Mutex};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connection::{Broken, Channel};

/// Messages of a kind that may wait to be taken.
const MOST: usize = 4096;
/// A frame, or a gap, begins so.
pub(super) const FRAME: u8 = 1;
pub(super) const GAP: u8 = 2;

/// One conversation. It is ended when this is dropped.
pub(super) struct Post(Arc<Inner>);

struct Inner {
    channel: Channel,
    came: Mutex<Came>,
    changed: Condvar,
}

#[derive(Default)]
struct Came {
    /// Rows and words, in their order.
    items: VecDeque<Vec<u8>>,
    frames: VecDeque<Vec<u8>>,
    broken: Option<Broken>,
}

/// What came.
pub(super) enum Item<M> {
    /// Something that was said.
    Said(M),
    /// A message of rows.
    Rows(Vec<u8>),
}

impl Post {
    /// Begins to read a channel.
    pub fn of(channel: Channel) -> Result<Self, Broken> {
        let inner = Arc::new(Inner { channel, came: Mutex::default(), changed: Condvar::new() });
        let reading = inner.clone();
        threads::start("conversation", move || reading.read())?;
        Ok(Self(inner))
    }

    /// Its channel.
    pub fn channel(&self) -> &Channel {
        &self.0.channel
    }

    /// Says something.
    pub fn tell<T: Serialize>(&self, message: &T) -> Result<(), Broken> {
        self.0.channel.tell(message)
    }

    /// Sends rows.
    pub fn send<T: Encode<()>>(&self, all: &[T]) -> Result<(), Broken> {
        self.0.channel.send(&rows::encode(all)?)
    }

    /// Whatever comes next, but no longer than `limit`.
    pub fn next<T: DeserializeOwned>(&self, limit: Duration) -> Result<Option<Item<T>>, Broken> {
        let item = self.0.take(|came| &mut came.items, Some(limit))?;
        item.map(of_item).transpose()
    }

    /// What the other side said, if it did.
    pub fn hear_now<T: DeserializeOwned>(&self) -> Result<Option<T>, Broken> {
        match self.next(Duration::ZERO)? {
            Some(Item::Said(said)) => Ok(Some(said)),
            Some(Item::Rows(_)) | None => Ok(None),
        }
    }

    /// Waits for whatever comes next.
    pub fn wait<T: DeserializeOwned>(&self) -> Result<Item<T>, Broken> {
        of_item(self.0.take(|came| &mut came.items, None)?.unwrap_or_default())
    }

    /// Waits for what the other side says.
    pub fn hear<T: DeserializeOwned>(&self) -> Result<T, Broken> {
        match self.wait()? {
            Item::Said(said) => Ok(said),
            Item::Rows(_) => Err(Broken::Message("rows came where none were asked for".to_owned())),
        }
    }

    /// Waits for rows.
    pub fn rows<T: for<'b> Decode<'b, ()>>(&self) -> Result<Vec<T>, Broken> {
        match self.wait::<serde_json::Value>()? {
            Item::Rows(message) => Ok(rows::decode(&message)?),
            Item::Said(_) => {
                Err(Broken::Message("no rows came where some were asked for".to_owned()))
            }
        }
    }

    /// Waits for a frame, or for what is said instead of one.
    pub fn frame(&self) -> Result<Vec<u8>, Broken> {
        Ok(self.0.take(|came| &mut came.frames, None)?.unwrap_or_default())
    }
}

fn of_item<T: DeserializeOwned>(message: Vec<u8>) -> Result<Item<T>, Broken> {
    match are_rows(&message) {
        true => Ok(Item::Rows(message)),
        false => Ok(Item::Said(capstan_wire::decode(&message)?)),
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.0.channel.hang_up();
    }
}

impl Inner {
    /// Takes what comes until the conversation ends.
    fn read(&self) {
        let why = loop {
            match self.channel.receive() {
                Err(why) => break why,
                Ok(message) => {
                    let mut came = self.came.lock();
                    let queue = match message.first() {
                        Some(&(FRAME | GAP)) => &mut came.frames,
                        _ => &mut came.items,
                    };
                    if queue.len() >= MOST {
                        break Broken::TooMuch;
                    }
                    queue.push_back(message);
                    drop(came);
                    self.changed.notify_all();
                }
            }
        };
        self.came.lock().broken = Some(why);
        self.changed.notify_all();
    }

    fn take(
        &self,
        of: fn(&mut Came) -> &mut VecDeque<Vec<u8>>,
        limit: Option<Duration>,
    ) -> Result<Option<Vec<u8>>, Broken> {
        let begun = Instant::now();
        let mut came = self.came.lock();
        loop {
            let queue = of(&mut came);
            if let Some(message) = queue.pop_front() {
                return Ok(Some(message));
            }
            if let Some(broken) = &came.broken {
                return Err(broken.clone());
            }
            match limit.map(|limit| limit.saturating_sub(begun.elapsed())) {
                None => self.changed.wait(&mut came),
                Some(left) if left.is_zero() => return Ok(None),
                Some(left) => drop(self.changed.wait_for(&mut came, left)),
            }
        }
    }
}
