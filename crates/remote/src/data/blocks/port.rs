//! The port of blocks as a disk agent on another host sees it.
//!
//! Each stream dials when it is opened, and has one thread: it takes the grants that come. A block is written to the connection from the
//! buffer in which it was filled, by the thread that filled it; then the buffer is free again. So a stream has two buffers at most, and
//! what is under way is held by the operating system. A stream that ends waits until all its blocks were taken.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use capstan_engine::buffer::Buffer;
use capstan_engine::link::{BlockPort, FilledBlock, Grant, LinkClosed, SegmentOrdinal};
use capstan_engine::threads;
use capstan_format::id::StreamId;
use capstan_wire::data::block::{crossing, encode};
use capstan_wire::data::credit::{Granted, OfSegment, Purse, decode_number, encode_number};
use capstan_wire::data::head::Kind;
use capstan_wire::data::opening::{DATA_PROTOCOL, Of, Opening, Welcome};
use capstan_wire::data::{DataError, Reach};
use parking_lot::{Condvar, Mutex};

use super::super::Dial;
use super::super::link::{Cutter, Incoming, Outgoing, parts, why};
use crate::connection::Broken;

/// Buffers of a stream that are kept: one is filled, and one more is asked for at the end of a segment.
const KEPT: usize = 2;

/// A port of blocks that is reached over connections. When it is dropped, they are cut.
pub struct RemoteBlocks {
    reach: Reach,
    block_size: usize,
    dial: Arc<Dial>,
    streams: Mutex<HashMap<StreamId, Arc<Line>>>,
    is_shut: AtomicBool,
    broken: Mutex<Option<Broken>>,
}

/// A stream's connection.
struct Line {
    state: Mutex<State>,
    changed: Condvar,
    /// Taken before the state, where both are: what is said of blocks comes in their order.
    out: Mutex<Out>,
    cutter: Cutter,
}

struct Out {
    outgoing: Outgoing,
    body: Vec<u8>,
}

#[derive(Default)]
struct State {
    purse: Purse,
    /// Of each grant that is being filled, whether it has no credit.
    filling: VecDeque<bool>,
    buffers: Vec<Buffer>,
    /// Whether the other side took all, and said so.
    has_ended: bool,
    broken: Option<Broken>,
}

impl RemoteBlocks {
    /// A port that is reached there, with blocks of that many bytes. Nothing is dialled before a stream is opened.
    pub fn new(reach: Reach, block_size: usize, dial: Arc<Dial>) -> Self {
        let (streams, is_shut) = (Mutex::default(), AtomicBool::new(false));
        Self { reach, block_size, dial, streams, is_shut, broken: Mutex::default() }
    }

    /// Cuts all connections: who waits learns that nothing is taken any more. For when the call has ended that they belong to.
    pub fn shut(&self) {
        self.is_shut.store(true, Relaxed);
        for line in self.streams.lock().values() {
            line.break_with(Broken::Closed);
        }
    }

    /// Why a stream could not go on, of the first one that could not.
    pub fn broken(&self) -> Option<Broken> {
        self.broken.lock().clone()
    }

    fn dialled(&self, stream: StreamId) -> Result<(Incoming, Outgoing, Cutter), Broken> {
        if self.is_shut.load(Relaxed) {
            return Err(Broken::Closed);
        }
        let (mut incoming, mut outgoing, cutter) = parts((self.dial)(&self.reach)?);
        let block_size = u32::try_from(self.block_size).unwrap_or(u32::MAX);
        let opening = Opening {
            protocol: DATA_PROTOCOL,
            ticket: self.reach.ticket.clone(),
            of: Of::Blocks { stream, block_size },
        };
        outgoing.tell(Kind::Opening, &opening)?;
        let _: Welcome = incoming.hear(Kind::Welcome)?;
        Ok((incoming, outgoing, cutter))
    }

    fn line(&self, stream: StreamId) -> Result<Arc<Line>, LinkClosed> {
        self.streams.lock().get(&stream).cloned().ok_or(LinkClosed)
    }

    /// Remembers why a stream cannot go on.
    fn note(&self, line: &Line) {
        let broken = line.state.lock().broken.clone();
        if let Some(broken) = broken {
            self.broken.lock().get_or_insert(broken);
        }
    }

    /// Does something on a stream's connection.
    fn on<T>(
        &self,
        stream: StreamId,
        work: impl FnOnce(&Line) -> Result<T, LinkClosed>,
    ) -> Result<T, LinkClosed> {
        let line = self.line(stream)?;
        work(&line).inspect_err(|_| self.note(&line))
    }
}

impl Drop for RemoteBlocks {
    fn drop(&mut self) {
        self.shut();
    }
}

impl BlockPort for RemoteBlocks {
    fn block_size(&self) -> usize {
        self.block_size
    }

    fn open_stream(&self, stream: StreamId) {
        let opened = self.dialled(stream).and_then(|(incoming, outgoing, cutter)| {
            let out = Mutex::new(Out { outgoing, body: Vec::new() });
            let (state, changed) = (Mutex::default(), Condvar::new());
            let line = Arc::new(Line { state, changed, out, cutter });
            let of = line.clone();
            threads::start("data connection: credit", move || of.read(incoming))?;
            Ok(line)
        });
        match opened {
            Ok(line) => {
                self.streams.lock().insert(stream, line.clone());
                // It may have been shut meanwhile.
                if self.is_shut.load(Relaxed) {
                    line.break_with(Broken::Closed);
                }
            }
            Err(e) => drop(self.broken.lock().get_or_insert(e)),
        }
    }

    fn grant(&self, stream: StreamId) -> Result<Grant, LinkClosed> {
        self.on(stream, |line| line.grant(self.block_size))
    }

    fn grant_more(&self, stream: StreamId, segment: SegmentOrdinal) -> Result<Grant, LinkClosed> {
        self.on(stream, |line| line.grant_more(segment, self.block_size))
    }

    fn submit(&self, block: FilledBlock) -> Result<(), LinkClosed> {
        self.on(block.stream, |line| line.submit(block))
    }

    fn give_back(&self, stream: StreamId, grant: Grant) {
        let _ = self.on(stream, |line| {
            line.state.lock().filling.pop_back();
            line.leave(grant.segment)
        });
    }

    fn is_closing(&self, stream: StreamId, segment: SegmentOrdinal) -> bool {
        self.line(stream).is_ok_and(|line| line.state.lock().purse.is_closing(segment))
    }

    fn is_closed(&self) -> bool {
        self.is_shut.load(Relaxed)
    }

    fn leave_segment(&self, stream: StreamId, segment: SegmentOrdinal) {
        let _ = self.on(stream, |line| line.leave(segment));
    }

    fn close_stream(&self, stream: StreamId) -> Result<(), LinkClosed> {
        let ended = self.on(stream, Line::end);
        if let Some(line) = self.streams.lock().remove(&stream) {
            line.cutter.cut();
        }
        ended
    }
}

impl Line {
    /// Nothing more comes or goes.
    fn break_with(&self, why: Broken) {
        let mut state = self.state.lock();
        if !state.has_ended {
            state.broken.get_or_insert(why);
        }
        drop(state);
        self.cutter.cut();
        self.changed.notify_all();
    }

    fn grant(&self, block_size: usize) -> Result<Grant, LinkClosed> {
        let mut state = self.state.lock();
        loop {
            if state.broken.is_some() || state.has_ended {
                return Err(LinkClosed);
            }
            if let Some(credit) = state.purse.take() {
                state.filling.push_back(false);
                let buffer = state.buffers.pop().unwrap_or_else(|| Buffer::new(block_size));
                return Ok(Grant { buffer, segment: credit.segment, last: credit.last });
            }
            self.changed.wait(&mut state);
        }
    }

    /// One more of the segment, with credit if there is some left of it. The other side has a buffer for it in any case.
    fn grant_more(&self, segment: SegmentOrdinal, block_size: usize) -> Result<Grant, LinkClosed> {
        let mut state = self.state.lock();
        if state.broken.is_some() || state.has_ended {
            return Err(LinkClosed);
        }
        let is_more = state.purse.take_of(segment).is_none();
        state.filling.push_back(is_more);
        let buffer = state.buffers.pop().unwrap_or_else(|| Buffer::new(block_size));
        Ok(Grant { buffer, segment, last: true })
    }

    fn submit(&self, block: FilledBlock) -> Result<(), LinkClosed> {
        let mut out = self.out.lock();
        let Out { outgoing, body } = &mut *out;
        let (number, is_more) = {
            let mut state = self.state.lock();
            let is_more = state.filling.pop_front().unwrap_or(false);
            if state.broken.is_some() {
                return Err(LinkClosed);
            }
            let number = state.purse.send();
            if block.ends_segment {
                state.purse.leave(block.segment);
            }
            (number, is_more)
        };
        encode(&block, number, is_more, body);
        let payload = block.buffer.get(crossing(block.short_len)).unwrap_or_default();
        let sent = outgoing.send(Kind::Block, body, payload);
        drop(out);
        match sent {
            Ok(()) => {
                let mut state = self.state.lock();
                if state.buffers.len() < KEPT {
                    state.buffers.push(block.buffer);
                }
                Ok(())
            }
            Err(e) => {
                self.break_late(e);
                Err(LinkClosed)
            }
        }
    }

    /// Writing failed. The other side may have said why: what it said is read first.
    fn break_late(&self, why: Broken) {
        const WAIT: std::time::Duration = std::time::Duration::from_secs(1);
        let mut state = self.state.lock();
        if state.broken.is_none() {
            self.changed.wait_for(&mut state, WAIT);
        }
        drop(state);
        self.break_with(why);
    }

    /// The stream has nothing more for the segment.
    fn leave(&self, segment: SegmentOrdinal) -> Result<(), LinkClosed> {
        let mut out = self.out.lock();
        let blocks = {
            let mut state = self.state.lock();
            if state.broken.is_some() {
                return Err(LinkClosed);
            }
            if !state.purse.leave(segment) {
                return Ok(());
            }
            state.purse.sent()
        };
        let Out { outgoing, body } = &mut *out;
        OfSegment { blocks, segment }.encode(body);
        let sent = outgoing.send(Kind::Left, body, &[]);
        drop(out);
        sent.map_err(|e| {
            self.break_late(e);
            LinkClosed
        })
    }

    /// The stream ends: waits until the other side has taken all of it.
    fn end(&self) -> Result<(), LinkClosed> {
        let sent = {
            let mut out = self.out.lock();
            let Out { outgoing, body } = &mut *out;
            encode_number(self.state.lock().purse.sent(), body);
            outgoing.send(Kind::End, body, &[])
        };
        if let Err(e) = sent {
            self.break_late(e);
        }
        let mut state = self.state.lock();
        while !state.has_ended && state.broken.is_none() {
            self.changed.wait(&mut state);
        }
        if state.has_ended { Ok(()) } else { Err(LinkClosed) }
    }

    /// Takes what the other side says, until it ends.
    fn read(&self, mut incoming: Incoming) {
        let mut body = Vec::new();
        loop {
            let heard = self.hear(&mut incoming, &mut body);
            self.changed.notify_all();
            match heard {
                Ok(true) => {}
                Ok(false) => return,
                Err(e) => return self.break_with(e),
            }
        }
    }

    /// Takes a message. Whether another one may come.
    fn hear(&self, incoming: &mut Incoming, body: &mut Vec<u8>) -> Result<bool, Broken> {
        let head = incoming.next(body)?;
        match head.kind {
            Kind::Granted => self.state.lock().purse.granted(&Granted::decode(body)?)?,
            Kind::Closing => {
                let OfSegment { blocks, segment } = OfSegment::decode(body)?;
                self.close(blocks, segment)?;
            }
            Kind::Ended => {
                let mut state = self.state.lock();
                let taken = decode_number(body)?;
                state.purse.acknowledged(taken)?;
                if taken != state.purse.sent() {
                    return Err(DataError::NotSent.into());
                }
                state.has_ended = true;
                return Ok(false);
            }
            Kind::Closed => return Err(Broken::Refused(why(body))),
            kind => return Err(DataError::Senseless(kind.byte()).into()),
        }
        Ok(true)
    }

    /// The segment is to end. If the stream is not in it, it leaves it at once.
    fn close(&self, blocks: u64, segment: SegmentOrdinal) -> Result<(), Broken> {
        let mut out = self.out.lock();
        let sent = {
            let mut state = self.state.lock();
            state.purse.acknowledged(blocks)?;
            if !state.purse.close(segment) {
                return Ok(());
            }
            state.purse.sent()
        };
        let Out { outgoing, body } = &mut *out;
        OfSegment { blocks: sent, segment }.encode(body);
        outgoing.send(Kind::Left, body, &[])
    }
}
