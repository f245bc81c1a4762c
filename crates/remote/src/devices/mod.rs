//! A device host over a connection: where media, libraries and drives are opened that are at another host.
//!
//! What is opened at the host stays there and has a number; what the cell gets stands for it ([`far`]). Each question is a conversation of
//! its own; while it lasts, the host may ask back. What the host asks or tells beside that, it says in conversations that it begins
//! ([`attend`]). When the connection ends, the host drops all that it opened for it ([`host`]).
//!
//! - [`message`]: what is said
//! - [`crosses`]: errors on their way
//! - [`far`], [`cell`], [`attend`]: the side of the cell
//! - [`host`]: the side of the host

mod attend;
mod cell;
pub mod crosses;
mod far;
mod host;
pub mod message;

use std::sync::Arc;

use capstan_medium::host::operator::OperatorRequests;
use capstan_medium::host::queue::Queue;
use capstan_medium::host::waits::Waits;
use capstan_port::media::MediaAgent;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use self::attend::{Attendant, OfCell};
pub use self::cell::ReadingThere;
use self::crosses::Crosses;
use self::far::Far;
pub use self::host::{Hosted, serve};
use self::message::Question;
use crate::connection::{Beats, Broken, Channel, Connection, Side};
use crate::transport::Transport;

/// What the host knows.
#[derive(Default)]
struct Told {
    /// Whether it was told who is asked for tapes, and who waits.
    known: (bool, bool),
    /// How often the tapes had changed that were asked for beforehand.
    changes: u64,
}

/// A device host at the other end of a connection.
pub struct RemoteDevices {
    far: Arc<Far>,
    cell: Arc<OfCell>,
    operator: Arc<OperatorRequests>,
    queue: Arc<Queue>,
    waits: Waits,
    told: Mutex<Told>,
    /// As long as it is there, the host keeps what it opened.
    _session: Channel,
}

impl RemoteDevices {
    /// The device host that serves the other end of a transport.
    pub fn connect(transport: Transport, beats: Beats) -> Result<Self, Broken> {
        let waits = Waits::default();
        let operator = Arc::new(OperatorRequests::counted_by(waits.clone()));
        let queue = Arc::new(Queue::counted_by(waits.clone()));
        let cell = Arc::<OfCell>::default();
        let attendant = Attendant {
            cell: cell.clone(),
            operator: Arc::downgrade(&operator),
            queue: Arc::downgrade(&queue),
            waits: waits.clone(),
        };
        let serve = move |channel| attendant.serve(channel);
        let far = Far::of(Connection::start(transport, Side::Dialled, beats, Box::new(serve))?);
        let session = far.begin(&Question::Session)?;
        let told = Mutex::default();
        Ok(Self { far, cell, operator, queue, waits, told, _session: session })
    }

    /// The media agent there, which reads segments; all else is done by `here` with what stands for media of that host.
    pub fn media_agent(&self, here: Arc<dyn MediaAgent>) -> ReadingThere {
        ReadingThere::new(self.far.clone(), here)
    }

    /// Tells the host who is asked for tapes and who waits, once somebody is; and what was asked for beforehand.
    fn introduce(&self) {
        let (operator, queue) = (self.operator.patience(), self.queue.patience());
        let mut told = self.told.lock();
        let known = (operator.is_some(), queue.is_some());
        if told.known != known {
            told.known = known;
            self.far.tell(&Question::Patience { operator, queue });
        }
        let (changes, wishes) = self.operator.wishes();
        if told.changes != changes {
            told.changes = changes;
            self.far.tell(&Question::Wishes(wishes));
        }
    }

    fn ask<A: DeserializeOwned>(&self, question: &Question) -> Result<A, Broken> {
        self.introduce();
        self.far.ask(question)
    }

    fn call<T: DeserializeOwned, E: Crosses>(&self, question: &Question) -> Result<T, E> {
        self.introduce();
        self.far.call(question)
    }

    fn tell(&self, question: &Question) {
        self.introduce();
        self.far.tell(question);
    }
}
