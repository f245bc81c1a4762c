//! The side of a device host: questions are answered by calling the device host of this process.
//!
//! What is opened is kept in [`things`] under a number until it is needed no more, or the connection ends. [`ask_cell`] says what the host
//! asks and tells by itself.

mod arrays;
mod ask_cell;
mod media;
mod opened;
mod segments;
mod storage;
mod stores;
mod tapes;
mod things;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use capstan_format::id::MediumId;
use capstan_medium::DeviceError;
use capstan_medium::host::DeviceHost;
use capstan_medium::os_form::Form;
use capstan_port::media::MediaAgent;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::ask_cell::Cells;
use self::things::Things;
use super::crosses::{Crosses, lost};
use super::message::{Asked, Question, Reply};
use crate::connection::{Beats, Broken, Channel, Connection, Side};
use crate::transport::Transport;

/// A device host that is served over a connection, until this is dropped.
pub struct Hosted {
    connection: Arc<Connection>,
    side: Arc<HostSide>,
}

impl Hosted {
    /// Why the connection cannot go on, if that is so.
    pub fn broken(&self) -> Option<Broken> {
        self.connection.broken()
    }

    /// Whether nothing is done for the cell just now. Once the connection is broken, nothing of it is open any more then.
    pub fn is_idle(&self) -> bool {
        self.side.running.load(Relaxed) == 0
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.side.things.close();
    }
}

/// Serves a device host and its media agent at the other end of a transport.
pub fn serve(
    transport: Transport,
    beats: Beats,
    devices: Arc<dyn DeviceHost>,
    agent: Arc<dyn MediaAgent>,
) -> Result<Hosted, Broken> {
    let (things, cells) = (Things::default(), Arc::default());
    let side = Arc::new(HostSide { devices, agent, things, cells, running: AtomicUsize::new(0) });
    let serving = side.clone();
    let serve = move |channel| HostSide::serve(&serving, &channel);
    let connection = Connection::start(transport, Side::Answered, beats, Box::new(serve))?;
    let connection = Arc::new(connection);
    side.cells.set(&connection);
    Ok(Hosted { connection, side })
}

/// What a host has of a connection.
pub struct HostSide {
    devices: Arc<dyn DeviceHost>,
    agent: Arc<dyn MediaAgent>,
    things: Things,
    cells: Arc<Cells>,
    /// Conversations that are answered now.
    running: AtomicUsize,
}

impl HostSide {
    /// Answers one conversation. What cannot be answered ends it, which the cell hears.
    fn serve(self: &Arc<Self>, channel: &Channel) {
        self.running.fetch_add(1, Relaxed);
        let _running = Running(self);
        let asked = Asks { channel, side: self };
        let _ = channel.hear::<Question>().and_then(|question| asked.answer(question));
    }
}

/// A conversation that is answered, until this is dropped.
struct Running<'s>(&'s HostSide);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Relaxed);
    }
}

/// A conversation that is answered.
struct Asks<'c> {
    channel: &'c Channel,
    side: &'c Arc<HostSide>,
}

impl Asks<'_> {
    fn answer(&self, question: Question) -> Result<(), Broken> {
        let (devices, things) = (&*self.side.devices, &self.side.things);
        match question {
            Question::Session => {
                self.side.cells.watch_waits(devices.waits().clone());
                // It ends when the cell needs nothing more, or the connection breaks.
                while self.channel.receive().is_ok() {}
                things.close();
                Ok(())
            }
            Question::Patience { operator, queue } => {
                self.side.cells.introduce(devices, operator, queue);
                self.is(&())
            }
            Question::Wishes(wishes) => {
                devices.operator().set_wishes(wishes);
                self.is(&())
            }
            Question::Knows(what) => {
                self.side.cells.knows(devices, what);
                self.is(&())
            }
            Question::Drop(kind, number) => {
                things.drop_one(kind, number);
                self.is(&())
            }
            Question::Settle => {
                let say = |text: &str| drop(self.tell(Asked::Say(text.to_owned())));
                devices.settle(&say);
                self.is(&())
            }
            Question::Stores(of) => self.stores(of),
            Question::Media(of) => self.media(of),
            Question::Storage(number, of) => self.storage(number, of),
            Question::File(number, of) => self.file(number, of),
            Question::NewFile(number, of) => self.new_file(number, of),
            Question::Writable(number, of) => self.writable(number, of),
            Question::Device(number, of) => self.device(number, of),
            Question::Tapes(of) => self.tapes(of),
            Question::Library(number, of) => self.library(number, of),
            Question::KeepTrial(number) => {
                things.trials.take(number).into_iter().for_each(|trial| trial.keep());
                self.is(&())
            }
            Question::Arrays(of) => self.arrays(of),
            Question::Array(number, of) => self.array(number, of),
            Question::MediaAgent(of) => self.media_agent(of),
            Question::HalfMade(array, of) => self.half_made(&array, of),
        }
    }

    /// Gives the answer.
    fn is<A: Serialize>(&self, answer: &A) -> Result<(), Broken> {
        self.channel.tell(&Reply::Is(answer))
    }

    /// Gives what came of a call that may fail.
    fn came<T: Serialize, E: Crosses>(&self, result: Result<T, E>) -> Result<(), Broken> {
        self.is(&result.map_err(E::into_form))
    }

    /// Gives what came of a call that may fail, with its bytes behind it.
    fn came_bytes<E: Crosses>(&self, result: Result<Vec<u8>, E>) -> Result<(), Broken> {
        match result {
            Ok(bytes) => {
                self.is(&Ok::<(), E::Form>(()))?;
                super::message::send_bytes(self.channel, &bytes)
            }
            Err(e) => self.came(Err::<(), E>(e)),
        }
    }

    /// Tells the cell something before the answer.
    fn tell(&self, asked: Asked) -> Result<(), Broken> {
        self.channel.tell(&Reply::<()>::Asks(asked))
    }

    /// Asks the cell something before the answer.
    fn ask<A: DeserializeOwned>(&self, asked: Asked) -> Result<A, Broken> {
        self.tell(asked)?;
        self.channel.hear()
    }

    /// Asks the cell what may fail.
    fn ask_io<A: DeserializeOwned>(&self, asked: Asked) -> io::Result<A> {
        match self.ask::<Result<A, Form>>(asked) {
            Ok(answer) => answer.map_err(|form| form.0),
            Err(broken) => Err(io::Error::lost(lost(&broken))),
        }
    }

    fn new_id(&self) -> io::Result<MediumId> {
        self.ask_io(Asked::NewId)
    }
}

/// That something is not there any more, or never was.
fn gone<E: Crosses>() -> E {
    E::lost("what was opened at the device host is closed already".into())
}

/// That, of a device.
fn no_device() -> DeviceError {
    gone()
}
