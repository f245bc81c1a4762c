//! Serves ports of stored frames to a reader on another host.
//!
//! One thread takes what the reader says. The caller's thread asks the port: what is asked for by itself comes first, then what is
//! expected, in its order, as far as there is room. The bytes of a frame go from where the port has them to the connection.

use std::collections::VecDeque;
use std::sync::Arc;

use capstan_engine::frames::{FramePort, StoredFrame};
use capstan_engine::threads;
use capstan_format::crc::payload_crc;
use capstan_format::frame::FrameHeader;
use capstan_format::id::StreamId;
use capstan_format::record::SessionLabel;
use capstan_wire::data::DataError;
use capstan_wire::data::course::{Course, Stretch};
use capstan_wire::data::credit::encode_number;
use capstan_wire::data::frames::{Asked, For, Given, Labelled, Lacking, NotOpened, Ranges, Room};
use capstan_wire::data::head::Kind;
use capstan_wire::data::opening::Of;
use parking_lot::{Condvar, Mutex};

use super::super::link::{Cutter, Incoming, Outgoing};
use super::super::registry::Arrived;
use super::COST;
use crate::connection::Broken;

/// Ports that the reader may be ahead of the one that is served.
const MOST_PORTS: usize = 1024;
/// Bytes of room that a reader may give.
const MOST_ROOM: i64 = 1 << 30;

/// Serves ports to one reader, one after the other. When it is dropped, the connection is cut.
pub struct FrameService {
    requests: Arc<Requests>,
    outgoing: Outgoing,
    cutter: Cutter,
    body: Vec<u8>,
    /// The label that was sent last.
    label: Option<SessionLabel>,
}

/// What the reader says.
#[derive(Default)]
struct Requests {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Of the port that is served, and of those that the reader went on to.
    ports: VecDeque<OfPort>,
    /// Bytes that may be sent. The last frame may be longer than what is left.
    room: i64,
    broken: Option<Broken>,
}

#[derive(Default)]
struct OfPort {
    course: Course,
    asked: Option<Asked>,
    /// Ranges before this one were said to be served.
    served: u64,
    has_ended: bool,
}

enum Todo {
    Answer(Asked),
    Push(u64, StreamId, u64),
    Served(u64),
    End,
}

impl FrameService {
    /// Serves whoever arrived, if he came for frames.
    pub fn of(mut arrived: Arrived) -> Result<Self, Broken> {
        if arrived.of != Of::Frames {
            arrived.refuse("frames are served here, and no blocks are taken");
            return Err(DataError::Senseless(Kind::Opening.byte()).into());
        }
        let Arrived { incoming, outgoing, cutter, .. } = arrived;
        let requests = Arc::new(Requests::default());
        requests.state.lock().ports.push_back(OfPort::default());
        let of = requests.clone();
        threads::start("data connection: frames asked", move || of.read(incoming))?;
        Ok(Self { requests, outgoing, cutter, body: Vec::new(), label: None })
    }

    /// Serves a port until the reader has done with it. He may then go on to the next one.
    pub fn serve(&mut self, port: &mut dyn FramePort) -> Result<(), Broken> {
        loop {
            match self.requests.next()? {
                Todo::Answer(asked) => {
                    self.give(port, For::Asked, (asked.stream, asked.at), &asked.refused)?;
                }
                Todo::Push(number, stream, at) => {
                    let cost = self.give(port, For::Range(number), (stream, at), &[])?;
                    let mut state = self.requests.state.lock();
                    state.room = state.room.saturating_sub_unsigned(cost);
                }
                Todo::Served(before) => {
                    encode_number(before, &mut self.body);
                    self.outgoing.send(Kind::Served, &self.body, &[])?;
                }
                Todo::End => {
                    // Who reads may be gone already.
                    let _ = self.outgoing.send(Kind::Ended, &[], &[]);
                    return Ok(());
                }
            }
        }
    }

    /// Gives the frame that has a stream's byte, or says why it cannot be had; not one that was refused. Says what that costs.
    fn give(
        &mut self,
        port: &mut dyn FramePort,
        of: For,
        (stream, at): (StreamId, u64),
        refused: &[NotOpened],
    ) -> Result<u64, Broken> {
        let mut sent = Ok(0);
        let found = port.frame_at(stream, at, &mut |frame| {
            let known = (!refused.is_empty())
                .then(|| payload_crc(stream, frame.header.sequence, frame.stored))
                .and_then(|crc| refused.iter().find(|refused| refused.crc == crc));
            match known {
                Some(NotOpened { why, .. }) => Err(why.clone()),
                None => {
                    sent = self.send(of, stream, frame);
                    Ok(())
                }
            }
        });
        let cost = sent?;
        let (stretch, cost) = match found {
            Ok(FrameHeader { logical, length, .. }) => {
                (Stretch { stream, from: logical, to: logical.saturating_add(length) }, cost)
            }
            Err(gap) => {
                let stretch = Stretch { stream, from: gap.from, to: gap.to };
                Lacking { of, stream, gap }.encode(&mut self.body);
                self.outgoing.send(Kind::Gap, &self.body, &[])?;
                (stretch, COST)
            }
        };
        if let Some(of) = self.requests.state.lock().ports.front_mut() {
            of.course.sent(stretch, at);
        }
        Ok(cost)
    }

    fn send(&mut self, of: For, stream: StreamId, frame: &StoredFrame<'_>) -> Result<u64, Broken> {
        let label = match frame.label {
            None => Labelled::Not,
            Some(label) if self.label.as_ref() == Some(label) => Labelled::AsBefore,
            Some(label) => {
                self.label = Some(label.clone());
                Labelled::By(Box::new(label.clone()))
            }
        };
        Given { of, stream, header: *frame.header, label }.encode(&mut self.body)?;
        self.outgoing.send(Kind::Frame, &self.body, frame.stored)?;
        Ok(frame.stored.len() as u64 + COST)
    }
}

impl Drop for FrameService {
    fn drop(&mut self) {
        self.cutter.cut();
    }
}

impl Requests {
    /// Waits for what is to be done.
    fn next(&self) -> Result<Todo, Broken> {
        let mut state = self.state.lock();
        loop {
            let State { ports, room, broken } = &mut *state;
            let Some(of) = ports.front_mut() else { return Err(Broken::Ended) };
            if of.has_ended {
                ports.pop_front();
                return Ok(Todo::End);
            }
            if let Some(broken) = broken {
                return Err(broken.clone());
            }
            if let Some(asked) = of.asked.take() {
                return Ok(Todo::Answer(asked));
            }
            match of.course.coming() {
                Some((number, stream, at)) if *room > 0 => {
                    return Ok(Todo::Push(number, stream, at));
                }
                Some(_) => {}
                None if of.served < of.course.next_number() => {
                    of.served = of.course.next_number();
                    return Ok(Todo::Served(of.served));
                }
                None => {}
            }
            self.changed.wait(&mut state);
        }
    }

    /// Takes what the reader says, until he hangs up.
    fn read(&self, mut incoming: Incoming) {
        let mut body = Vec::new();
        let why = loop {
            let heard = incoming.next(&mut body).and_then(|head| self.hear(head.kind, &body));
            self.changed.notify_all();
            if let Err(e) = heard {
                break e;
            }
        };
        self.state.lock().broken = Some(why);
        self.changed.notify_all();
    }

    fn hear(&self, kind: Kind, body: &[u8]) -> Result<(), Broken> {
        let mut state = self.state.lock();
        let State { ports, room, .. } = &mut *state;
        let is_full = ports.len() >= MOST_PORTS;
        let Some(of) = ports.back_mut() else {
            return Err(DataError::Senseless(kind.byte()).into());
        };
        match kind {
            Kind::Expect => of.course.expect(Ranges::decode(body)?)?,
            Kind::Room => {
                let Room { bytes, from } = Room::decode(body)?;
                *room = room.saturating_add_unsigned(bytes).min(MOST_ROOM);
                of.course.skip(from);
            }
            Kind::Ask => {
                let asked = Asked::decode(body)?;
                of.course.skip(asked.from);
                if of.asked.replace(asked).is_some() {
                    return Err(DataError::TooMuch("frames asked for").into());
                }
            }
            Kind::End if !is_full => {
                of.has_ended = true;
                ports.push_back(OfPort::default());
            }
            kind => return Err(DataError::Senseless(kind.byte()).into()),
        }
        Ok(())
    }
}
