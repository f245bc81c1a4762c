//! Streams and a port within one process: what arrives is what was sent, and what was granted comes back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use capstan_engine::buffer::Buffer;
use capstan_engine::entropy::Entropy;
use capstan_engine::link::{
    Attended, Attention, BlockNotes, BlockPort, FilledBlock, FrameNote, Grant, LinkClosed,
    SegmentOrdinal,
};
use capstan_format::block::{BLOCK_ALIGN, DaHeader, HEADER_LEN, PAYLOAD_AT};
use capstan_format::id::StreamId;
use capstan_wire::data::DataError;
use capstan_wire::data::Reach;
use capstan_wire::data::block::{crossing, encode};
use capstan_wire::data::credit::{OfSegment, encode_number};
use capstan_wire::data::head::Kind;
use capstan_wire::data::opening::{DATA_PROTOCOL, Of, Opening, Welcome};
use parking_lot::{Condvar, Mutex};

use super::port::RemoteBlocks;
use super::serve::{BlocksServed, StreamEnd, serve_blocks};
use crate::connection::Broken;
use crate::data::link::{Incoming, Outgoing, parts};
use crate::data::registry::Registry;
use crate::data::{Dial, cut, dial_here};
use crate::transport::Transport;

const BLOCK: usize = 64 << 10;

/// What came of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Came {
    segment: u32,
    ends_segment: bool,
    bytes: Vec<u8>,
    frames: Vec<FrameNote>,
    copies: Vec<Vec<u8>>,
    rows: u64,
    logical_end: u64,
}

impl Came {
    fn of(block: &FilledBlock) -> Self {
        let BlockNotes { frames, copies, rows, logical_end } = &block.notes;
        Self {
            segment: block.segment.0,
            ends_segment: block.ends_segment,
            bytes: block.buffer[HEADER_LEN..].to_vec(),
            frames: frames.clone(),
            copies: copies.clone(),
            rows: *rows,
            logical_end: *logical_end,
        }
    }
}

/// A media agent that keeps what comes. A segment has so many blocks of each stream.
struct Pool {
    state: Mutex<State>,
    changed: Condvar,
    of_segment: u32,
}

#[derive(Default)]
struct State {
    free: usize,
    open: BTreeMap<StreamId, (u32, u32)>,
    closing: Option<u32>,
    came: BTreeMap<StreamId, Vec<Came>>,
    outstanding: i64,
    is_failed: bool,
    nudged: u64,
}

impl Pool {
    fn new(buffers: usize, of_segment: u32) -> Self {
        let state = State { free: buffers, ..State::default() };
        Self { state: Mutex::new(state), changed: Condvar::new(), of_segment }
    }

    fn next(&self, state: &mut State, stream: StreamId) -> Result<Option<Grant>, LinkClosed> {
        let closing = state.closing;
        let Some((segment, n)) = state.open.get_mut(&stream) else { return Err(LinkClosed) };
        if state.is_failed {
            return Err(LinkClosed);
        }
        if state.free == 0 {
            return Ok(None);
        }
        let at = *segment;
        *n += 1;
        let last = *n >= self.of_segment || closing == Some(at);
        if last {
            (*segment, *n) = (at + 1, 0);
        }
        state.free -= 1;
        state.outstanding += 1;
        Ok(Some(Grant { buffer: Buffer::new(BLOCK), segment: SegmentOrdinal(at), last }))
    }

    fn back(&self, mut state: parking_lot::MutexGuard<'_, State>) {
        state.free += 1;
        state.outstanding -= 1;
        drop(state);
        self.changed.notify_all();
    }

    fn leave(state: &mut State, stream: StreamId, left: SegmentOrdinal) {
        if let Some((segment, n)) = state.open.get_mut(&stream)
            && *segment <= left.0
        {
            (*segment, *n) = (left.0 + 1, 0);
        }
    }
}

impl BlockPort for Pool {
    fn block_size(&self) -> usize {
        BLOCK
    }
    fn open_stream(&self, stream: StreamId) {
        self.state.lock().open.insert(stream, (0, 0));
    }
    fn grant(&self, _: StreamId) -> Result<Grant, LinkClosed> {
        Err(LinkClosed)
    }
    fn grant_more(&self, _: StreamId, segment: SegmentOrdinal) -> Result<Grant, LinkClosed> {
        let mut state = self.state.lock();
        // The number of buffers is exceeded rather than waited for.
        state.free = state.free.saturating_sub(1);
        state.outstanding += 1;
        Ok(Grant { buffer: Buffer::new(BLOCK), segment, last: true })
    }
    fn submit(&self, block: FilledBlock) -> Result<(), LinkClosed> {
        let mut state = self.state.lock();
        if state.is_failed {
            self.back(state);
            return Err(LinkClosed);
        }
        if block.ends_segment {
            Self::leave(&mut state, block.stream, block.segment);
        }
        state.came.entry(block.stream).or_default().push(Came::of(&block));
        self.back(state);
        Ok(())
    }
    fn give_back(&self, stream: StreamId, grant: Grant) {
        let mut state = self.state.lock();
        Self::leave(&mut state, stream, grant.segment);
        self.back(state);
    }
    fn is_closing(&self, _: StreamId, segment: SegmentOrdinal) -> bool {
        self.state.lock().closing == Some(segment.0)
    }
    fn is_closed(&self) -> bool {
        self.state.lock().is_failed
    }
    fn leave_segment(&self, stream: StreamId, segment: SegmentOrdinal) {
        Self::leave(&mut self.state.lock(), stream, segment);
    }
    fn close_stream(&self, stream: StreamId) -> Result<(), LinkClosed> {
        assert!(self.state.lock().open.remove(&stream).is_some(), "closed twice");
        Ok(())
    }
    fn attend(&self, stream: StreamId, to: Attention) -> Result<Attended, LinkClosed> {
        let mut state = self.state.lock();
        let (begun, nudged) = (Instant::now(), state.nudged);
        loop {
            if to.closing.is_some_and(|segment| state.closing == Some(segment.0)) {
                return Ok(Attended::Closing);
            }
            if to.grant
                && let Some(grant) = self.next(&mut state, stream)?
            {
                return Ok(Attended::Grant(grant));
            }
            if state.is_failed {
                return Err(LinkClosed);
            }
            let left = to.limit.saturating_sub(begun.elapsed());
            if left.is_zero() || nudged != state.nudged {
                return Ok(Attended::Nothing);
            }
            // A nudge before the wait is not lost for long.
            self.changed.wait_for(&mut state, left.min(Duration::from_millis(20)));
        }
    }
    fn nudge(&self, _: StreamId) {
        self.state.lock().nudged += 1;
        self.changed.notify_all();
    }
}

/// Fills blocks of a stream.
struct Filler {
    stream: StreamId,
    position: u64,
    sequence: u64,
    logical: u64,
    seed: u64,
    /// What was filled, as it is to arrive.
    filled: Vec<Came>,
}

impl Filler {
    fn of(stream: StreamId) -> Self {
        let seed = u64::from(stream.0[0]) + 1;
        Self { stream, position: 0, sequence: 0, logical: 0, seed, filled: Vec::new() }
    }

    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.seed >> 33
    }

    fn block(&mut self, mut grant: Grant, ends_segment: bool) -> FilledBlock {
        let room = (BLOCK - PAYLOAD_AT) as u64;
        let used = (200 + self.random() % (room - 200)) as usize / 8 * 8;
        for byte in &mut grant.buffer[PAYLOAD_AT..PAYLOAD_AT + used] {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (self.seed >> 56) as u8;
        }
        grant.buffer[PAYLOAD_AT + used..].fill(0);
        // Rows that went on from the block before, rows in the block, contents.
        let first = if self.sequence.is_multiple_of(3) { 0 } else { 48 };
        let batch = grant.buffer[PAYLOAD_AT + first..PAYLOAD_AT + first + 70].to_vec();
        let note = |at: usize, n: u64, logical_frame| FrameNote {
            logical_frame,
            sequence: self.sequence + n,
            logical: self.logical,
            byte: at as u32,
        };
        let frames = vec![note(first, 0, false), note(first + 72, 1, true)];
        let copies = if first > 0 { vec![vec![7; 5000], batch] } else { vec![batch] };
        self.logical += 1000;
        let notes = BlockNotes { frames, copies, rows: 12, logical_end: self.logical };
        let header = DaHeader {
            stream: self.stream,
            position: self.position,
            used: used as u32,
            first_frame: first as u32,
        };
        header.encode(&mut grant.buffer);
        self.position += used as u64;
        self.sequence += 2;
        let block = FilledBlock {
            short_len: (PAYLOAD_AT + used).next_multiple_of(BLOCK_ALIGN) as u32,
            buffer: grant.buffer,
            stream: self.stream,
            segment: grant.segment,
            ends_segment,
            notes,
        };
        self.filled.push(Came::of(&block));
        block
    }

    /// Sends so many blocks as a stream does: it ends a segment with its last block, or when that is to end, and now and then needs one
    /// more.
    fn send(&mut self, port: &dyn BlockPort, blocks: usize) -> Result<(), LinkClosed> {
        port.open_stream(self.stream);
        let sent = (0..blocks).try_for_each(|_| {
            let grant = port.grant(self.stream)?;
            let segment = grant.segment;
            let is_last = grant.last || port.is_closing(self.stream, segment);
            if is_last && self.random().is_multiple_of(3) {
                let more = port.grant_more(self.stream, segment)?;
                port.submit(self.block(grant, false))?;
                port.submit(self.block(more, true))
            } else {
                port.submit(self.block(grant, is_last))
            }
        });
        sent.and(port.close_stream(self.stream))
    }
}

const HOW: BlocksServed = BlocksServed { ahead: 3, patience: Duration::from_secs(20) };

/// Serves a pool to whatever `with` does over `dial`.
fn served<T>(
    pool: &Pool,
    streams: &[StreamId],
    how: BlocksServed,
    dial: impl FnOnce(&Arc<Registry>) -> Arc<Dial>,
    with: impl FnOnce(RemoteBlocks, Reach) -> T,
) -> (T, Vec<StreamEnd>) {
    let registry = Registry::new(Entropy::seeded(7));
    let waiting = registry.expect().unwrap();
    let reach = Reach { at: String::new(), ticket: waiting.ticket().clone() };
    let dial = dial(&registry);
    let ends = thread::scope(|scope| {
        let serving = scope.spawn(|| serve_blocks(&waiting, pool, streams, how));
        let done = with(RemoteBlocks::new(reach.clone(), BLOCK, dial), reach);
        waiting.close();
        (done, serving.join().unwrap())
    });
    let state = pool.state.lock();
    assert_eq!(state.outstanding, 0, "all that was granted came back");
    assert!(state.open.is_empty(), "a stream is open");
    ends
}

fn ids(n: u8) -> Vec<StreamId> {
    (0..n).map(|n| StreamId([n; 16])).collect()
}

/// Has streams send blocks, each in a thread, and says what came back to each.
fn send(
    port: &RemoteBlocks,
    streams: &[StreamId],
    blocks: usize,
) -> Vec<(Filler, Result<(), LinkClosed>)> {
    thread::scope(|scope| {
        let send = |stream: &StreamId| {
            let mut filler = Filler::of(*stream);
            scope.spawn(move || {
                let sent = filler.send(port, blocks);
                (filler, sent)
            })
        };
        let threads: Vec<_> = streams.iter().map(send).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn check_same(dial: impl FnOnce(&Arc<Registry>) -> Arc<Dial>) {
    let (pool, streams) = (Pool::new(14, 5), ids(4));
    let (sent, ends) = served(&pool, &streams, HOW, dial, |port, _| send(&port, &streams, 200));
    let state = pool.state.lock();
    for (filler, sent) in sent {
        sent.unwrap();
        assert!(state.came[&filler.stream] == filler.filled, "what came is not what was sent");
        assert!(filler.filled.len() > 200, "none took one more");
    }
    assert_eq!(ends.len(), 4);
    assert!(ends.iter().all(|end| end.broken.is_none() && end.blocks >= 200), "{ends:?}");
}

#[test]
fn what_comes_is_byte_for_byte_what_was_sent() {
    check_same(dial_here);
}

#[test]
fn over_tcp_too() {
    check_same(|registry| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let registry = registry.clone();
        thread::spawn(move || {
            for accepted in listener.incoming().take(4) {
                registry.admit_beside(Transport::tcp(accepted.unwrap()).unwrap()).unwrap();
            }
        });
        Arc::new(move |_| Transport::tcp(std::net::TcpStream::connect(at)?))
    });
}

/// A segment that is to end early: busy streams end it, and what an idle one holds ahead comes back.
#[test]
fn an_idle_stream_holds_up_no_segment() {
    let (pool, streams) = (Pool::new(14, 1000), ids(2));
    served(&pool, &streams, HOW, dial_here, |port, _| {
        let [busy, idle] = streams[..] else { unreachable!() };
        let mut filler = Filler::of(idle);
        port.open_stream(idle);
        let grant = port.grant(idle).unwrap();
        port.submit(filler.block(grant, false)).unwrap();
        Filler::of(busy).send(&port, 20).unwrap();
        assert!(!port.is_closing(idle, SegmentOrdinal(0)));
        pool.state.lock().closing = Some(0);
        pool.changed.notify_all();
        let begun = Instant::now();
        while !port.is_closing(idle, SegmentOrdinal(0)) {
            assert!(begun.elapsed() < Duration::from_secs(20), "it is not told");
            thread::sleep(Duration::from_millis(5));
        }
        port.leave_segment(idle, SegmentOrdinal(0));
        let grant = port.grant(idle).unwrap();
        assert_eq!(grant.segment, SegmentOrdinal(1));
        port.give_back(idle, grant);
        port.close_stream(idle).unwrap();
    });
}

/// Credit of a segment that the stream has not begun comes back by itself.
#[test]
fn what_nobody_has_begun_comes_back() {
    let (pool, streams) = (Pool::new(14, 1000), ids(1));
    served(&pool, &streams, HOW, dial_here, |port, _| {
        port.open_stream(streams[0]);
        let wait = |until: &dyn Fn(&State) -> bool| {
            let begun = Instant::now();
            while !until(&pool.state.lock()) {
                assert!(begun.elapsed() < Duration::from_secs(20), "it does not come back");
                thread::sleep(Duration::from_millis(5));
            }
        };
        wait(&|state| state.outstanding == 3);
        pool.state.lock().closing = Some(0);
        pool.changed.notify_all();
        wait(&|state| state.open[&streams[0]].0 == 1);
        assert_eq!(port.grant(streams[0]).unwrap().segment, SegmentOrdinal(1));
        port.close_stream(streams[0]).unwrap();
    });
}

#[test]
fn a_stream_that_waits_for_a_buffer_gets_the_next() {
    // One buffer for two streams: they take turns.
    let (pool, streams) = (Pool::new(1, 4), ids(2));
    let how = BlocksServed { ahead: 1, ..HOW };
    let (sent, _) =
        served(&pool, &streams[..1], how, dial_here, |port, _| send(&port, &streams[..1], 50));
    assert!(sent.iter().all(|(_, sent)| sent.is_ok()));
}

#[test]
fn a_media_agent_that_takes_no_more_says_so() {
    let (pool, streams) = (Pool::new(14, 5), ids(3));
    let ((sent, why), ends) = served(&pool, &streams, HOW, dial_here, |port, _| {
        let sent = thread::scope(|scope| {
            scope.spawn(|| {
                while pool.state.lock().came.len() < 3 {
                    thread::sleep(Duration::from_millis(1));
                }
                pool.state.lock().is_failed = true;
                pool.changed.notify_all();
            });
            send(&port, &streams, usize::MAX)
        });
        (sent, port.broken())
    });
    assert!(sent.iter().all(|(_, sent)| *sent == Err(LinkClosed)));
    let refused = Broken::Refused("the media agent takes no more blocks".to_owned());
    assert_eq!(why, Some(refused.clone()));
    assert!(ends.iter().all(|end| end.broken == Some(refused.clone())), "{ends:?}");
}

#[test]
fn a_cut_ends_its_own_stream_alone() {
    let (pool, streams) = (Pool::new(14, 5), ids(2));
    let mut whole = 0;
    for operations in (0..40).chain((40..400).step_by(7)) {
        pool.state.lock().came.clear();
        let cut = |registry: &Arc<Registry>| -> Arc<Dial> {
            let dialled = Mutex::new(0);
            let registry = registry.clone();
            Arc::new(move |_| {
                let (here, there) = Transport::pair()?;
                registry.admit_beside(there).map_err(std::io::Error::other)?;
                // The second one is cut.
                let mut dialled = dialled.lock();
                *dialled += 1;
                Ok(if *dialled == 2 { cut::cut_after(here, operations) } else { here })
            })
        };
        let (sent, ends) = served(&pool, &streams, HOW, cut, |port, _| {
            thread::scope(|scope| {
                let mut threads = Vec::new();
                for stream in &streams {
                    let (mut filler, port) = (Filler::of(*stream), &port);
                    threads.push(scope.spawn(move || {
                        let sent = filler.send(port, 20);
                        (filler, sent)
                    }));
                    while port.broken().is_none() && pool.state.lock().open.is_empty() {
                        thread::sleep(Duration::from_micros(100));
                        if !pool.state.lock().came.is_empty() {
                            break;
                        }
                    }
                }
                threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            })
        });
        let state = pool.state.lock();
        let none = Vec::new();
        let fine = sent.iter().filter(|(_, sent)| sent.is_ok()).count();
        assert!(fine >= 1, "{operations}: {ends:?}");
        whole += fine - 1;
        for (filler, sent) in sent {
            let came = state.came.get(&filler.stream).unwrap_or(&none);
            let filled = &filler.filled[..filler.filled.len().min(came.len())];
            assert!(came == filled, "what came is not what was sent");
            // Who hears that all is well has all of it taken.
            assert!(sent.is_err() || came.len() == filler.filled.len());
        }
    }
    assert!(whole > 0, "none came through");
}

/// A peer that speaks by hand.
struct Peer {
    incoming: Incoming,
    outgoing: Outgoing,
}

impl Peer {
    fn dial(
        dial: &Dial,
        reach: &Reach,
        stream: StreamId,
        block_size: usize,
    ) -> Result<Self, Broken> {
        let (mut incoming, mut outgoing, _) = parts(dial(reach).unwrap());
        let of = Of::Blocks { stream, block_size: block_size as u32 };
        let ticket = reach.ticket.clone();
        outgoing.tell(Kind::Opening, &Opening { protocol: DATA_PROTOCOL, ticket, of })?;
        let _: Welcome = incoming.hear(Kind::Welcome)?;
        Ok(Self { incoming, outgoing })
    }

    /// Sends a block, after it was changed.
    fn block(&mut self, block: &FilledBlock, number: u64, is_more: bool) {
        let mut body = Vec::new();
        encode(block, number, is_more, &mut body);
        let _ = self.outgoing.send(Kind::Block, &body, &block.buffer[crossing(block.short_len)]);
    }

    /// Reads until it is hung up on. Says what was said last.
    fn last(mut self) -> Option<String> {
        let (mut body, mut last) = (Vec::new(), None);
        while let Ok(head) = self.incoming.next(&mut body) {
            last = (head.kind == Kind::Closed).then(|| crate::data::link::why(&body));
        }
        last
    }
}

/// What a peer that does `what` hears at the end, and what became of its stream.
fn hostile(what: impl FnOnce(&mut Peer, &mut Filler)) -> (String, Broken) {
    let (pool, streams) = (Pool::new(14, 5), ids(1));
    let kept = Arc::new(Mutex::new(None));
    let keep = |of: &Arc<Registry>| {
        *kept.lock() = Some(dial_here(of));
        dial_here(of)
    };
    let (heard, ends) = served(&pool, &streams, HOW, keep, |_, reach| {
        let dial: Arc<Dial> = kept.lock().clone().unwrap();
        let mut peer = Peer::dial(&*dial, &reach, streams[0], BLOCK).unwrap();
        what(&mut peer, &mut Filler::of(streams[0]));
        peer.last().unwrap_or_default()
    });
    (heard, ends[0].broken.clone().unwrap())
}

fn grant(segment: u32) -> Grant {
    Grant { buffer: Buffer::new(BLOCK), segment: SegmentOrdinal(segment), last: false }
}

#[test]
fn who_says_what_is_not_so_is_closed() {
    let wrong = |what: &'static str| Broken::Data(DataError::Block(what));
    let not_granted = Broken::Data(DataError::NotGranted);
    let sends = |change: fn(&mut FilledBlock)| {
        hostile(move |peer, filler| {
            let mut block = filler.block(grant(0), false);
            change(&mut block);
            peer.block(&block, 0, false);
        })
    };
    let (heard, why) = sends(|block| block.segment = SegmentOrdinal(1));
    assert_eq!(why, not_granted);
    assert_eq!(
        heard,
        "the other side does not keep the protocol: a block came that was not granted"
    );
    let changes: [(fn(&mut FilledBlock), Broken); 8] = [
        (|block| block.segment = SegmentOrdinal(u32::MAX), not_granted.clone()),
        (|block| block.buffer[80] ^= 1, wrong("")),
        (
            |block| block.notes.frames.iter_mut().for_each(|note| note.sequence += 1),
            wrong("sequence of frames"),
        ),
        (|block| block.notes.frames.reverse(), wrong("order of frames")),
        (|block| block.notes.frames[1].logical = 5000, wrong("logical end")),
        (|block| block.notes.rows = u64::MAX, wrong("number of rows")),
        (|block| block.notes.frames[1].byte = 8, wrong("order of frames")),
        (|block| block.notes.copies.push(vec![1; 100]), wrong("catalog")),
    ];
    for (change, expected) in changes {
        let (heard, why) = sends(change);
        assert!(heard.starts_with("the other side does not keep the protocol: "), "{heard}");
        match (&why, &expected) {
            (
                Broken::Data(DataError::Block(_) | DataError::Form(_)),
                Broken::Data(DataError::Block("")),
            ) => {}
            _ => assert_eq!(why, expected),
        }
    }
}

#[test]
fn who_speaks_out_of_turn_is_closed() {
    let not_granted = Broken::Data(DataError::NotGranted);
    let senseless = |kind: Kind| Broken::Data(DataError::Senseless(kind.byte()));
    // One block more than there is, of a segment that is not begun, or with the number of another one.
    let (_, why) = hostile(|peer, filler| peer.block(&filler.block(grant(0), false), 0, true));
    assert_eq!(why, not_granted);
    let (_, why) = hostile(|peer, filler| peer.block(&filler.block(grant(0), false), 1, false));
    assert_eq!(why, Broken::Data(DataError::Block("number")));
    // Another stream's block.
    let (_, why) = hostile(|peer, _| {
        peer.block(&Filler::of(StreamId([9; 16])).block(grant(0), false), 0, false);
    });
    assert_eq!(why, Broken::Data(DataError::Block("stream")));
    // A segment that was never granted is left: of it nothing is kept.
    let (_, why) = hostile(|peer, _| {
        let mut body = Vec::new();
        OfSegment { blocks: 0, segment: SegmentOrdinal(u32::MAX) }.encode(&mut body);
        peer.outgoing.send(Kind::Left, &body, &[]).unwrap();
    });
    assert_eq!(why, senseless(Kind::Left));
    let (_, why) = hostile(|peer, _| {
        let mut body = Vec::new();
        encode_number(1, &mut body);
        peer.outgoing.send(Kind::End, &body, &[]).unwrap();
    });
    assert_eq!(why, senseless(Kind::End));
    let (_, why) = hostile(|peer, _| peer.outgoing.send(Kind::Ended, &[], &[]).unwrap());
    assert_eq!(why, senseless(Kind::Ended));
}

#[test]
fn who_is_not_waited_for_is_not_let_in() {
    let (pool, streams) = (Pool::new(14, 5), ids(1));
    let kept = Arc::new(Mutex::new(None));
    let keep = |of: &Arc<Registry>| {
        *kept.lock() = Some(dial_here(of));
        dial_here(of)
    };
    served(&pool, &streams, HOW, keep, |port, reach| {
        let dial: Arc<Dial> = kept.lock().clone().unwrap();
        let unknown = Reach { ticket: capstan_wire::data::Ticket(vec![1; 32]), ..reach.clone() };
        let refused = Peer::dial(&*dial, &unknown, streams[0], BLOCK).err();
        let text = "nobody waits for a connection with this ticket";
        assert_eq!(refused, Some(Broken::Refused(text.to_owned())));
        let text = "this stream, or its size of blocks, is not what is waited for";
        for (stream, block_size) in [(StreamId([9; 16]), BLOCK), (streams[0], 2 * BLOCK)] {
            let peer = Peer::dial(&*dial, &reach, stream, block_size).unwrap();
            assert_eq!(peer.last().as_deref(), Some(text));
        }
        // The stream itself is let in, and once.
        port.open_stream(streams[0]);
        let peer = Peer::dial(&*dial, &reach, streams[0], BLOCK).unwrap();
        assert_eq!(peer.last().as_deref(), Some(text));
        port.close_stream(streams[0]).unwrap();
    });
}

#[test]
fn who_stops_in_the_midst_of_a_block_is_given_up() {
    let (pool, streams) = (Pool::new(14, 5), ids(2));
    let kept = Arc::new(Mutex::new(None));
    let keep = |of: &Arc<Registry>| {
        *kept.lock() = Some(dial_here(of));
        dial_here(of)
    };
    let how = BlocksServed { patience: Duration::from_secs(2), ..HOW };
    let (_, ends) = served(&pool, &streams, how, keep, |port, reach| {
        let dial: Arc<Dial> = kept.lock().clone().unwrap();
        let (mut incoming, mut outgoing, cutter) = parts(dial(&reach).unwrap());
        let of = Of::Blocks { stream: streams[0], block_size: BLOCK as u32 };
        let opening = Opening { protocol: 1, ticket: reach.ticket.clone(), of };
        outgoing.tell(Kind::Opening, &opening).unwrap();
        let _: Welcome = incoming.hear(Kind::Welcome).unwrap();
        let block = Filler::of(streams[0]).block(grant(0), false);
        let mut body = Vec::new();
        encode(&block, 0, false, &mut body);
        let whole = &block.buffer[crossing(block.short_len)];
        outgoing.send_torn(Kind::Block, &body, whole, whole.len() / 2);
        Filler::of(streams[1]).send(&port, 20).unwrap();
        let begun = Instant::now();
        while pool.state.lock().open.contains_key(&streams[0]) {
            assert!(begun.elapsed() < Duration::from_secs(20), "it is waited for");
            thread::sleep(Duration::from_millis(20));
        }
        drop(cutter);
    });
    let silent = ends.iter().find(|end| end.stream == streams[0]).unwrap();
    assert!(matches!(silent.broken, Some(Broken::Silent(_))), "{silent:?}");
}
