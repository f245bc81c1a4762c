//! The side of a cell: the connection to a device host, and what stands for what was opened there.

use std::sync::Arc;

use capstan_engine::problem::Problem;
use capstan_medium::DeviceError;
use capstan_medium::storage::Handle;
use serde::de::DeserializeOwned;

use super::crosses::{Crosses, lost};
use super::message::{Asked, Kind, Question, Reply};
use crate::connection::{Broken, Channel, Connection};

/// The connection to a device host. It is closed when all that stands for anything there is dropped.
pub struct Far {
    connection: Connection,
}

/// Answers what a host asks in a conversation.
pub type Answer<'a> = dyn FnMut(&Channel, Asked) -> Result<(), Broken> + 'a;

impl Far {
    /// Of this connection.
    pub fn of(connection: Connection) -> Arc<Self> {
        Arc::new(Self { connection })
    }

    /// Begins a conversation.
    pub fn begin(&self, question: &Question) -> Result<Channel, Broken> {
        let channel = self.connection.open()?;
        channel.tell(question)?;
        Ok(channel)
    }

    /// Asks, and waits for the answer.
    pub fn ask<A: DeserializeOwned>(&self, question: &Question) -> Result<A, Broken> {
        answered(&self.begin(question)?, &mut refuse)
    }

    /// Asks what may fail.
    pub fn call<T: DeserializeOwned, E: Crosses>(&self, question: &Question) -> Result<T, E> {
        self.call_back(question, &mut refuse)
    }

    /// Asks what may fail, and answers what is asked meanwhile.
    pub fn call_back<T: DeserializeOwned, E: Crosses>(
        &self,
        question: &Question,
        answer: &mut Answer<'_>,
    ) -> Result<T, E> {
        result(self.begin(question).and_then(|channel| answered(&channel, answer)))
    }

    /// Asks what may fail, of bytes that follow the question.
    pub fn send<T: DeserializeOwned, E: Crosses>(
        &self,
        question: &Question,
        bytes: &[u8],
    ) -> Result<T, E> {
        let asked = || {
            let channel = self.begin(question)?;
            super::message::send_bytes(&channel, bytes)?;
            answered(&channel, &mut refuse)
        };
        result(asked())
    }

    /// Asks for bytes, at most so many.
    pub fn fetch<E: Crosses>(&self, question: &Question, most: u64) -> Result<Vec<u8>, E> {
        let asked = || {
            let channel = self.begin(question)?;
            match answered::<Result<(), E::Form>>(&channel, &mut refuse)? {
                Ok(()) => super::message::hear_bytes(&channel, most).map(Ok),
                Err(form) => Ok(Err(form)),
            }
        };
        result(asked())
    }

    /// Tells what needs no answer, and waits until it is done. Where the connection broke, nothing is left that it would change.
    pub fn tell(&self, question: &Question) {
        let _ = self.ask::<()>(question);
    }

    /// What stands there for what has that number.
    pub fn handle(self: &Arc<Self>, number: u64) -> Handle {
        Handle { connection: Arc::as_ptr(self) as u64, number }
    }

    /// The number of something at this host; refused where it is elsewhere.
    pub fn number_of(self: &Arc<Self>, handle: Option<Handle>) -> Result<u64, DeviceError> {
        match handle {
            Some(of) if of.connection == Arc::as_ptr(self) as u64 => Ok(of.number),
            _ => {
                let what = "what one host has opened was passed to another host";
                Err(DeviceError::HostLost(
                    Problem::new(what).hint("this is a fault of capstan, please report it"),
                ))
            }
        }
    }
}

/// Waits for an answer, and answers what is asked before it.
pub fn answered<A: DeserializeOwned>(
    channel: &Channel,
    answer: &mut Answer<'_>,
) -> Result<A, Broken> {
    loop {
        match channel.hear::<Reply<A>>()? {
            Reply::Is(found) => return Ok(found),
            Reply::Asks(asked) => answer(channel, asked)?,
        }
    }
}

/// Nothing may be asked in that conversation.
pub fn refuse(_: &Channel, asked: Asked) -> Result<(), Broken> {
    Err(Broken::Message(format!("it asks what nobody can answer here: {asked:?}")))
}

/// What came of a call.
pub fn result<T, E: Crosses>(answer: Result<Result<T, E::Form>, Broken>) -> Result<T, E> {
    match answer {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(form)) => Err(E::of_form(form)),
        Err(broken) => Err(E::lost(lost(&broken))),
    }
}

/// What stands for something that was opened at a host. Dropped, it drops that.
pub struct Stand {
    pub far: Arc<Far>,
    kind: Kind,
    pub number: u64,
    is_given: bool,
}

impl Stand {
    /// For that number.
    pub fn new(far: &Arc<Far>, kind: Kind, number: u64) -> Self {
        Self { far: far.clone(), kind, number, is_given: false }
    }

    /// The host has taken it back.
    pub fn give(mut self) -> u64 {
        self.is_given = true;
        self.number
    }

    pub fn handle(&self) -> Handle {
        self.far.handle(self.number)
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        if !self.is_given {
            self.far.tell(&Question::Drop(self.kind, self.number));
        }
    }
}
