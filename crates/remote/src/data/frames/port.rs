//! The port of stored frames as a disk agent on another host sees it.
//!
//! What will be asked for is said ahead ([`FramePort::expect`]). One thread takes frames as they come, no more than there is room for. So
//! what a restore asks for in its order is there, or under way, when it is asked for.

use std::sync::Arc;

use capstan_engine::frames::{Expected, FramePort, Gap, Lack, OpenFrame, StoredFrame};
use capstan_engine::problem::Explain;
use capstan_engine::threads;
use capstan_format::crc::payload_crc;
use capstan_format::frame::FrameHeader;
use capstan_format::id::StreamId;
use capstan_format::record::SessionLabel;
use capstan_wire::data::course::{Ahead, Stretch, Wanted};
use capstan_wire::data::credit::decode_number;
use capstan_wire::data::frames::{
    Asked, For, Given, Labelled, Lacking, MOST_RANGES, MOST_REFUSED, NotOpened, Room,
};
use capstan_wire::data::head::{Head, Kind};
use capstan_wire::data::opening::{DATA_PROTOCOL, Of, Opening, Welcome};
use capstan_wire::data::{DataError, Reach};
use parking_lot::{Condvar, Mutex};

use super::super::Dial;
use super::super::link::{Cutter, Incoming, Outgoing, Pulse, parts, why};
use super::COST;
use crate::connection::Broken;

/// Buffers of frames that are kept to be filled again.
const KEPT: usize = 16;

/// Ports of stored frames that are reached over a connection, one after the other. When it is dropped, the connection is cut.
pub struct RemoteFrames {
    inbox: Arc<Inbox>,
    outgoing: Outgoing,
    cutter: Cutter,
    body: Vec<u8>,
    window: u64,
    /// Whether who reads was told that it broke.
    has_broken: bool,
}

/// What came.
#[derive(Default)]
struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ahead: Ahead<Item>,
    /// What was asked for by itself.
    answer: Option<Item>,
    /// Bytes that may come. The last frame may be longer than what is left.
    room: i64,
    /// Bytes that may come again, and of which the other side does not know yet.
    due: u64,
    /// Ports that were left, and of which frames may come still.
    left: usize,
    /// Buffers that can be filled again.
    spare: Vec<Vec<u8>>,
    broken: Option<Broken>,
}

/// A frame, or why it cannot be had.
#[derive(Debug)]
enum Item {
    Frame(Box<Came>),
    Gap(Gap),
}

#[derive(Debug)]
struct Came {
    stream: StreamId,
    header: FrameHeader,
    label: Option<Arc<SessionLabel>>,
    stored: Vec<u8>,
}

impl Came {
    /// Has it opened. Where it does not open it is taken down as refused; a gap where no more can be.
    fn open(
        &self,
        stream: StreamId,
        open: &mut OpenFrame<'_>,
        refused: &mut Vec<NotOpened>,
    ) -> Result<FrameHeader, Option<Gap>> {
        let Self { header, label, stored, .. } = self;
        if self.stream != stream {
            let why = Lack::Unread("the media agent sent a frame of another stream".into());
            return Err(Some(Gap { from: header.logical, to: u64::MAX, why }));
        }
        let Err(why) = open(&StoredFrame { label: label.as_deref(), header, stored }) else {
            return Ok(*header);
        };
        let crc = payload_crc(stream, header.sequence, stored);
        refused.push(NotOpened { crc, why });
        let first = refused.first().map(|of| of.why.clone()).unwrap_or_default();
        let to = header.logical.saturating_add(header.length);
        let gap = Gap { from: header.logical, to, why: Lack::Damaged(first) };
        Err((refused.len() >= MOST_REFUSED).then_some(gap))
    }
}

impl Item {
    fn cost(&self) -> u64 {
        match self {
            Self::Frame(of) => of.stored.len() as u64 + COST,
            Self::Gap(_) => COST,
        }
    }
}

impl State {
    /// What came is not needed any more.
    fn done_with(&mut self, item: Item, has_cost: bool) {
        if has_cost {
            self.due += item.cost();
        }
        if let Item::Frame(of) = item
            && self.spare.len() < KEPT
        {
            self.spare.push(of.stored);
        }
    }
}

impl RemoteFrames {
    /// Dials. So many bytes of frames may be under way and unread; [`WINDOW`](super::WINDOW) is enough for most links.
    pub fn dial(reach: &Reach, dial: &Dial, window: u64) -> Result<Self, Broken> {
        let (mut incoming, mut outgoing, cutter) = parts(dial(reach)?);
        let ticket = reach.ticket.clone();
        let opening = Opening { protocol: DATA_PROTOCOL, ticket, of: Of::Frames };
        outgoing.tell(Kind::Opening, &opening)?;
        let _: Welcome = incoming.hear(Kind::Welcome)?;
        let inbox = Arc::new(Inbox::default());
        // What is to come is under way as soon as it is expected.
        inbox.state.lock().due = window;
        let of = inbox.clone();
        threads::start("data connection: frames", move || of.read(incoming))?;
        let mut frames =
            Self { inbox, outgoing, cutter, body: Vec::new(), window, has_broken: false };
        frames.give_room(0)?;
        Ok(frames)
    }

    /// What is read of this port has been read: what is asked for from now on is of the next one.
    pub fn next_port(&mut self) -> Result<(), Broken> {
        let mut state = self.inbox.state.lock();
        for item in std::mem::take(&mut state.ahead).into_came() {
            state.done_with(item, true);
        }
        state.left += 1;
        drop(state);
        self.outgoing.send(Kind::End, &[], &[])
    }

    /// It broke: from now on nothing can be had, also not what came before.
    fn break_with(&mut self, at: u64, broken: Broken) -> Gap {
        self.has_broken = true;
        let mut state = self.inbox.state.lock();
        gap_of(at, state.broken.get_or_insert(broken))
    }

    /// Why it cannot go on, if so.
    pub fn broken(&self) -> Option<Broken> {
        self.inbox.state.lock().broken.clone()
    }

    /// Tells the other side of the room that became free, where that is so much.
    fn give_room(&mut self, least: u64) -> Result<(), Broken> {
        let room = {
            let mut state = self.inbox.state.lock();
            if state.due <= least {
                return Ok(());
            }
            let bytes = std::mem::take(&mut state.due);
            state.room = state.room.saturating_add_unsigned(bytes);
            Room { bytes, from: state.ahead.first() }
        };
        room.encode(&mut self.body);
        self.outgoing.send(Kind::Room, &self.body, &[])
    }

    /// Tells the other side what will be asked for, as far as it holds that.
    fn tell_expected(&mut self) -> Result<(), Broken> {
        loop {
            let ranges = self.inbox.state.lock().ahead.untold(MOST_RANGES);
            let Some(ranges) = ranges else { return Ok(()) };
            ranges.encode(&mut self.body);
            self.outgoing.send(Kind::Expect, &self.body, &[])?;
        }
    }

    /// The frame that has a byte: as it came, or asked for by itself. Whether it cost room.
    fn obtain(&mut self, stream: StreamId, at: u64) -> Result<(Item, bool), Broken> {
        let mut unused = Vec::new();
        loop {
            let mut state = self.inbox.state.lock();
            if let Some(broken) = state.broken.as_ref().filter(|_| self.has_broken) {
                return Err(broken.clone());
            }
            let wanted = state.ahead.want(stream, at, &mut unused);
            for item in unused.drain(..) {
                state.done_with(item, true);
            }
            match wanted {
                Wanted::Came(item) => return Ok((item, true)),
                Wanted::Ask => {
                    drop(state);
                    return Ok((self.ask(stream, at, &[])?, false));
                }
                Wanted::Wait => {
                    if let Some(broken) = &state.broken {
                        return Err(broken.clone());
                    }
                    let has_to_tell = state.due > 0 || state.ahead.is_untold();
                    if !has_to_tell {
                        self.inbox.changed.wait(&mut state);
                        continue;
                    }
                    drop(state);
                    self.tell_expected()?;
                    self.give_room(0)?;
                }
            }
        }
    }

    /// Asks for a frame by itself, and waits for it.
    fn ask(&mut self, stream: StreamId, at: u64, refused: &[NotOpened]) -> Result<Item, Broken> {
        let from = self.inbox.state.lock().ahead.first();
        Asked { from, stream, at, refused: refused.to_vec() }.encode(&mut self.body);
        self.outgoing.send(Kind::Ask, &self.body, &[])?;
        let mut state = self.inbox.state.lock();
        loop {
            if let Some(item) = state.answer.take() {
                return Ok(item);
            }
            if let Some(broken) = &state.broken {
                return Err(broken.clone());
            }
            self.inbox.changed.wait(&mut state);
        }
    }
}

impl Drop for RemoteFrames {
    fn drop(&mut self) {
        self.cutter.cut();
    }
}

/// What cannot be had as the connection broke.
fn gap_of(at: u64, broken: &Broken) -> Gap {
    let mut text = broken.problem();
    text.sentence = format!("the connection to the media agent broke: {}", text.sentence);
    Gap { from: at, to: u64::MAX, why: Lack::Unread(text) }
}

impl FramePort for RemoteFrames {
    fn expect(&mut self, ranges: &[Expected]) {
        self.inbox.state.lock().ahead.expect(ranges);
        // Who asks for a frame hears that the connection broke.
        let _ = self.tell_expected();
    }

    fn frame_at(
        &mut self,
        stream: StreamId,
        at: u64,
        open: &mut OpenFrame<'_>,
    ) -> Result<FrameHeader, Gap> {
        let mut refused = Vec::new();
        loop {
            let item = match refused.is_empty() {
                true => self.obtain(stream, at),
                false => self.ask(stream, at, &refused).map(|item| (item, false)),
            };
            let (item, has_cost) = item.map_err(|broken| self.break_with(at, broken))?;
            let opened = match &item {
                Item::Gap(gap) => Err(Some(gap.clone())),
                Item::Frame(of) => of.open(stream, open, &mut refused),
            };
            self.inbox.state.lock().done_with(item, has_cost);
            // That it broke says the next frame.
            let _ = self.give_room(self.window / 4);
            match opened {
                Ok(header) => return Ok(header),
                Err(Some(gap)) => return Err(gap),
                // The same from another place.
                Err(None) => {}
            }
        }
    }
}

impl Inbox {
    /// Takes what comes, until the connection ends.
    fn read(&self, mut incoming: Incoming) {
        let (mut body, mut label) = (Vec::new(), None);
        let why = loop {
            let heard = incoming
                .next(&mut body)
                .and_then(|head| self.hear(head, &body, &mut incoming, &mut label));
            self.changed.notify_all();
            if let Err(e) = heard {
                break e;
            }
        };
        self.state.lock().broken.get_or_insert(why);
        self.changed.notify_all();
    }

    fn hear(
        &self,
        head: Head,
        body: &[u8],
        incoming: &mut Incoming,
        label: &mut Option<Arc<SessionLabel>>,
    ) -> Result<(), Broken> {
        match head.kind {
            Kind::Frame => {
                let given = Given::decode(body, head.payload)?;
                let mut stored = self.state.lock().spare.pop().unwrap_or_default();
                stored.resize(head.payload as usize, 0);
                incoming.payload(&mut stored, &Pulse::default())?;
                let Given { of, stream, header, label: labelled } = given;
                if let Labelled::By(new) = &labelled {
                    *label = Some(Arc::new((**new).clone()));
                }
                let label = label.clone().filter(|_| labelled != Labelled::Not);
                let to = header.logical.saturating_add(header.length);
                let stretch = Stretch { stream, from: header.logical, to };
                let came = Came { stream, header, label, stored };
                self.take(of, stretch, Item::Frame(Box::new(came)))
            }
            Kind::Gap => {
                let Lacking { of, stream, gap } = Lacking::decode(body)?;
                let stretch = Stretch { stream, from: gap.from, to: gap.to };
                self.take(of, stretch, Item::Gap(gap))
            }
            Kind::Served => {
                let mut state = self.state.lock();
                match state.left {
                    0 => Ok(state.ahead.served(decode_number(body)?)?),
                    _ => Ok(()),
                }
            }
            Kind::Ended => {
                let mut state = self.state.lock();
                let left = state.left.checked_sub(1);
                state.left = left.ok_or(DataError::Senseless(head.kind.byte()))?;
                Ok(())
            }
            Kind::Closed => Err(Broken::Refused(why(body))),
            kind => Err(DataError::Senseless(kind.byte()).into()),
        }
    }

    /// Takes something that came.
    fn take(&self, of: For, stretch: Stretch, item: Item) -> Result<(), Broken> {
        let mut state = self.state.lock();
        let number = match of {
            For::Range(number) => number,
            For::Asked => {
                return match state.answer.replace(item) {
                    None => Ok(()),
                    Some(_) => Err(DataError::TooMuch("frames").into()),
                };
            }
        };
        if state.room <= 0 {
            return Err(DataError::TooMuch("frames").into());
        }
        state.room = state.room.saturating_sub_unsigned(item.cost());
        let unused = match state.left {
            0 => state.ahead.came(number, stretch, item)?,
            // It is of a port that was left.
            _ => Some(item),
        };
        if let Some(item) = unused {
            state.done_with(item, true);
        }
        Ok(())
    }
}
