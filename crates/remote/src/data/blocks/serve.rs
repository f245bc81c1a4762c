//! Serves a port of blocks to streams that are filled on other hosts.
//!
//! Each stream has a connection and two threads. One reads blocks into the buffers that were granted, and passes them on. The other waits
//! for what the port has to say: a buffer, where there was none, and the end of a segment. A stream that has credit left of a segment
//! that is to end uses it up within a short time, or is told to end its part at once. So a stream that is slow holds up a segment for
//! no longer than one block takes it. A stream whose connection is cut, or that breaks the rules, is closed, and all that it held goes
//! back.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use capstan_engine::link::{
    Attended, Attention, BlockPort, FilledBlock, Grant, LinkClosed, SegmentOrdinal,
};
use capstan_engine::threads;
use capstan_format::id::StreamId;
use capstan_wire::data::DataError;
use capstan_wire::data::block::{BlockHead, Progress, crossing};
use capstan_wire::data::credit::{
    Credit, Granted, Ledger, MOST_AHEAD, OfSegment, Place, decode_number, encode_number,
};
use capstan_wire::data::head::{Head, Kind};
use capstan_wire::data::opening::Of;
use parking_lot::Mutex;

use super::super::link::{Cutter, Incoming, Outgoing, Pulse, Watch};
use super::super::registry::{Arrived, Waiting};
use crate::connection::Broken;

/// A stream that has credit left of a segment that is to end may use it up within that time: what is under way anyway.
const GRACE: Duration = Duration::from_millis(20);
/// Between two looks at whether the block that is being read gets on, and whether the call has ended.
const LOOK: Duration = Duration::from_secs(1);

/// How a port of blocks is served.
#[derive(Debug, Clone, Copy)]
pub struct BlocksServed {
    /// Buffers that a stream is granted ahead. Between two hosts of 20 ms, 1 Gb/s holds five blocks of 512 KiB, all streams together.
    pub ahead: usize,
    /// A block of which nothing comes for so long is given up, and its stream with it.
    pub patience: Duration,
}

impl BlocksServed {
    /// What a writer with so many buffers can grant ahead to so many streams, so that none takes away what another one needs.
    pub fn of(buffers: usize, streams: usize) -> Self {
        // Some are being written.
        let ahead = buffers.saturating_sub(2) / streams.max(1);
        Self { ahead: ahead.clamp(1, 64), patience: Duration::from_secs(28) }
    }
}

/// What became of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEnd {
    /// The stream.
    pub stream: StreamId,
    /// Blocks of it that were taken.
    pub blocks: u64,
    /// Why it did not end by itself, if so.
    pub broken: Option<Broken>,
}

/// Serves a port to whoever shows the ticket of `waiting`, for these streams, each once. Returns when `waiting` is closed; all
/// connections have ended then, and all that they held was given back.
pub fn serve_blocks(
    waiting: &Waiting,
    port: &dyn BlockPort,
    streams: &[StreamId],
    how: BlocksServed,
) -> Vec<StreamEnd> {
    let ends = Mutex::new(Vec::new());
    let mut left = streams.to_vec();
    let mut watched: Vec<(Arc<Vital>, [Watch; 2])> = Vec::new();
    thread::scope(|scope| {
        while !waiting.is_closed() {
            let arrived = waiting.next(LOOK);
            watched.retain_mut(|(vital, watches)| vital.is_well(watches, how.patience));
            let Some(mut arrived) = arrived else { continue };
            let place = match arrived.of {
                Of::Blocks { stream, block_size } if block_size as usize == port.block_size() => {
                    left.iter().position(|of| *of == stream)
                }
                Of::Blocks { .. } | Of::Frames => None,
            };
            let Some(place) = place else {
                arrived.refuse("this stream, or its size of blocks, is not what is waited for");
                continue;
            };
            let stream = left.swap_remove(place);
            let (ends, cutter) = (&ends, arrived.cutter.clone());
            let vital = Arc::new(Vital::of(cutter.clone()));
            watched.push((vital.clone(), Default::default()));
            let work = move || {
                let end = Served::run(arrived, port, stream, how, &vital);
                ends.lock().push(end);
            };
            if let Err(e) = threads::start_in(scope, "data connection: blocks", work) {
                cutter.cut();
                ends.lock().push(StreamEnd { stream, blocks: 0, broken: Some(e.into()) });
            }
        }
    });
    ends.into_inner()
}

/// By what it is told whether a stream gets on that is in the midst of a message.
struct Vital {
    reading: Pulse,
    writing: Pulse,
    cutter: Cutter,
    /// For how long it did not, when it was given up.
    silent: Mutex<Option<Duration>>,
}

impl Vital {
    fn of(cutter: Cutter) -> Self {
        let (reading, writing) = (Pulse::default(), Pulse::default());
        Self { reading, writing, cutter, silent: Mutex::default() }
    }

    /// Looks whether it gets on, and cuts it if it does not.
    fn is_well(&self, [reading, writing]: &mut [Watch; 2], patience: Duration) -> bool {
        let silence = reading.silence(&self.reading).max(writing.silence(&self.writing));
        if silence >= patience {
            *self.silent.lock() = Some(silence);
            self.cutter.cut();
        }
        silence < patience
    }
}

/// One stream that is served.
struct Served<'p> {
    port: &'p dyn BlockPort,
    stream: StreamId,
    how: BlocksServed,
    state: Mutex<State>,
    vital: &'p Vital,
}

struct State {
    ledger: Ledger<Grant>,
    outgoing: Outgoing,
    body: Vec<u8>,
    /// Blocks that were passed on.
    taken: u64,
    /// Whether the thread that attends the port is to bring the next grant.
    wants: bool,
    /// The segment whose end that thread waits for.
    watched: Option<SegmentOrdinal>,
    /// The segment that the stream was told to end.
    told: Option<SegmentOrdinal>,
    /// Nothing is granted any more.
    is_over: bool,
    /// Why, where the thread that attends the port found it.
    why: Option<Broken>,
}

impl<'p> Served<'p> {
    /// Serves a stream until it ends, or cannot go on.
    fn run(
        arrived: Arrived,
        port: &'p dyn BlockPort,
        stream: StreamId,
        how: BlocksServed,
        vital: &'p Vital,
    ) -> StreamEnd {
        let Arrived { mut incoming, outgoing, .. } = arrived;
        let state = State {
            ledger: Ledger::default(),
            outgoing,
            body: Vec::new(),
            taken: 0,
            wants: false,
            watched: None,
            told: None,
            is_over: false,
            why: None,
        };
        let how = BlocksServed { ahead: how.ahead.clamp(1, MOST_AHEAD), ..how };
        port.open_stream(stream);
        let state = Mutex::new(state);
        let served = Self { port, stream, how, state, vital };
        let ended = thread::scope(|scope| {
            let attending = threads::start_in(scope, "data connection: grants", || served.attend());
            let ended = match attending {
                Ok(_) => served.read(&mut incoming),
                Err(e) => Err(e.into()),
            };
            served.give_up();
            ended
        });
        served.close(ended, &mut incoming)
    }

    /// The stream is over: all that it held goes back.
    fn give_up(&self) {
        let held = {
            let mut state = self.state.lock();
            state.is_over = true;
            state.ledger.end()
        };
        held.into_iter().for_each(|grant| self.port.give_back(self.stream, grant));
        self.port.nudge(self.stream);
    }

    /// Closes the stream, and tells the other side.
    fn close(self, ended: Result<(), Broken>, incoming: &mut Incoming) -> StreamEnd {
        let State { mut outgoing, taken, why, mut body, .. } = self.state.into_inner();
        let closed = self.port.close_stream(self.stream).map_err(closed);
        let silent = self.vital.silent.lock().map(|silence| Broken::Silent(silence.as_secs()));
        let ended = ended.map_err(|broken| silent.or(why).unwrap_or(broken)).and(closed);
        match &ended {
            Ok(()) => {
                encode_number(taken, &mut body);
                let _ = outgoing.send(Kind::Ended, &body, &[]);
            }
            Err(why) => outgoing.refuse(Kind::Closed, &said(why)),
        }
        self.vital.cutter.end_writing();
        incoming.drain(&self.vital.reading);
        self.vital.cutter.cut();
        StreamEnd { stream: self.stream, blocks: taken, broken: ended.err() }
    }

    /// Reads what comes, until the stream ends.
    fn read(&self, incoming: &mut Incoming) -> Result<(), Broken> {
        let mut progress = Progress::of(self.stream);
        self.top_up(&mut self.state.lock())?;
        let mut body = Vec::new();
        loop {
            let head = incoming.next(&mut body)?;
            match head.kind {
                Kind::Block => self.block(head, &body, incoming, &mut progress)?,
                Kind::Left => {
                    let left = OfSegment::decode(&body)?;
                    let has_been_in = self.state.lock().ledger.has_been_in(left.segment);
                    if left.blocks != progress.blocks() || !has_been_in {
                        return Err(DataError::Senseless(head.kind.byte()).into());
                    }
                    self.port.leave_segment(self.stream, left.segment);
                    self.left(left.segment)?;
                }
                Kind::End if decode_number(&body)? == progress.blocks() => return Ok(()),
                kind => return Err(DataError::Senseless(kind.byte()).into()),
            }
        }
    }

    /// Takes a block.
    fn block(
        &self,
        head: Head,
        body: &[u8],
        incoming: &mut Incoming,
        progress: &mut Progress,
    ) -> Result<(), Broken> {
        let (port, stream) = (self.port, self.stream);
        let says = BlockHead::decode(body, port.block_size())?;
        let (segment, ends_segment) = (says.segment, says.ends_segment);
        if head.payload as usize != crossing(says.short_len).len() {
            return Err(DataError::Block("length").into());
        }
        let place = self.state.lock().ledger.place(&says)?;
        let mut grant = match place {
            Place::Here(grant) => grant,
            Place::OneMore => port.grant_more(stream, segment).map_err(closed)?,
        };
        let came = self.fill(&mut grant, &says, incoming).and_then(|()| {
            progress.check(&says, &grant.buffer)?;
            self.keep_more(&says)?;
            Ok(says.short_len)
        });
        let notes = came.and_then(|len| Ok((len, says.notes(&grant.buffer)?)));
        let (short_len, notes) = match notes {
            Ok(came) => came,
            Err(why) => {
                port.give_back(stream, grant);
                return Err(why);
            }
        };
        let buffer = grant.buffer;
        let block = FilledBlock { buffer, short_len, stream, segment, ends_segment, notes };
        port.submit(block).map_err(closed)?;
        self.state.lock().taken += 1;
        if ends_segment {
            return self.left(segment);
        }
        self.top_up(&mut self.state.lock())
    }

    /// Reads a block into its buffer. The rest of the buffer is zeros, as it is where the block was filled.
    fn fill(
        &self,
        grant: &mut Grant,
        says: &BlockHead<'_>,
        incoming: &mut Incoming,
    ) -> Result<(), Broken> {
        let wrong = || Broken::from(DataError::Block("length"));
        let range = crossing(says.short_len);
        let end = range.end;
        let to = grant.buffer.get_mut(range).ok_or_else(wrong)?;
        incoming.payload(to, &self.vital.reading)?;
        grant.buffer.get_mut(end..).ok_or_else(wrong)?.fill(0);
        Ok(())
    }

    /// Behind the last block of a segment that does not end it one more comes: while a buffer is granted, the segment cannot end.
    fn keep_more(&self, says: &BlockHead<'_>) -> Result<(), Broken> {
        if self.state.lock().ledger.needs_more(says) {
            let more = self.port.grant_more(self.stream, says.segment).map_err(closed)?;
            self.state.lock().ledger.keep_more(more);
        }
        Ok(())
    }

    /// The stream has nothing more for the segment.
    fn left(&self, segment: SegmentOrdinal) -> Result<(), Broken> {
        let back = self.state.lock().ledger.leave(segment);
        back.into_iter().for_each(|grant| self.port.give_back(self.stream, grant));
        self.top_up(&mut self.state.lock())
    }

    /// Grants what can be granted now, and says so. What cannot is waited for in the other thread.
    fn top_up(&self, state: &mut State) -> Result<(), Broken> {
        let mut credits = Vec::new();
        let now = Attention { grant: true, closing: None, limit: Duration::ZERO };
        while !state.is_over && !state.wants && state.ledger.held() < self.how.ahead {
            match self.port.attend(self.stream, now) {
                Ok(Attended::Grant(grant)) => credits.extend(self.took(state, grant)),
                Ok(Attended::Closing | Attended::Nothing) => {
                    state.wants = true;
                    self.port.nudge(self.stream);
                }
                Err(e) => return Err(closed(e)),
            }
        }
        if state.watched != state.ledger.first_segment() {
            self.port.nudge(self.stream);
        }
        if credits.is_empty() { Ok(()) } else { self.tell_granted(state, credits) }
    }

    /// A grant came: the credit for it, unless the stream does not need it any more.
    fn took(&self, state: &mut State, grant: Grant) -> Option<Credit> {
        let credit = Credit { segment: grant.segment, last: grant.last };
        match state.is_over {
            false => match state.ledger.grant(credit, grant) {
                Ok(()) => return Some(credit),
                Err(grant) => self.port.give_back(self.stream, grant),
            },
            true => self.port.give_back(self.stream, grant),
        }
        None
    }

    /// Waits for what the port has to say, until the stream is over.
    fn attend(&self) {
        let mut closing: Option<(SegmentOrdinal, Instant)> = None;
        loop {
            let to = {
                let mut state = self.state.lock();
                if state.is_over {
                    return;
                }
                let first = state.ledger.first_segment();
                closing = closing.filter(|(segment, _)| first == Some(*segment));
                if let Some((segment, _)) = closing.filter(|(_, since)| since.elapsed() >= GRACE) {
                    closing = None;
                    state.told = Some(segment);
                    if self.tell_closing(&mut state, segment).is_err() {
                        return self.vital.cutter.cut();
                    }
                }
                state.watched = first;
                let grace = closing.map(|(_, since)| GRACE.saturating_sub(since.elapsed()));
                Attention {
                    grant: state.wants,
                    closing: first.filter(|first| closing.is_none() && state.told != Some(*first)),
                    // Without a limit nothing is waited for.
                    limit: grace.unwrap_or(LOOK).max(Duration::from_millis(1)),
                }
            };
            match self.port.attend(self.stream, to) {
                Ok(Attended::Grant(grant)) => {
                    let mut state = self.state.lock();
                    state.wants = false;
                    let credit = self.took(&mut state, grant);
                    let credits = credit.into_iter().collect();
                    let told = self.tell_granted(&mut state, credits);
                    if told.and_then(|()| self.top_up(&mut state)).is_err() {
                        return self.vital.cutter.cut();
                    }
                }
                Ok(Attended::Closing) => {
                    closing = to.closing.map(|segment| (segment, Instant::now()));
                }
                Ok(Attended::Nothing) => {}
                Err(e) => return self.fail(closed(e)),
            }
        }
    }

    /// The stream cannot go on: whoever reads its blocks learns that.
    fn fail(&self, why: Broken) {
        let mut state = self.state.lock();
        if !state.is_over {
            state.outgoing.refuse(Kind::Closed, &said(&why));
            state.why = Some(why);
            self.vital.cutter.end_writing();
        }
    }

    fn tell_granted(&self, state: &mut State, credits: Vec<Credit>) -> Result<(), Broken> {
        let State { outgoing, body, taken, .. } = state;
        let _busy = self.vital.writing.busy();
        Granted { taken: *taken, credits }.encode(body);
        outgoing.send(Kind::Granted, body, &[])
    }

    fn tell_closing(&self, state: &mut State, segment: SegmentOrdinal) -> Result<(), Broken> {
        let State { outgoing, body, taken, .. } = state;
        let _busy = self.vital.writing.busy();
        OfSegment { blocks: *taken, segment }.encode(body);
        outgoing.send(Kind::Closing, body, &[])
    }
}

/// What the other side is told of it.
fn said(why: &Broken) -> String {
    match why {
        // The port of this side refuses.
        Broken::Refused(why) => why.clone(),
        why => why.to_string(),
    }
}

fn closed(e: LinkClosed) -> Broken {
    Broken::Refused(e.to_string())
}
