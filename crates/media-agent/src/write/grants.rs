//! Who gets which buffer for which segment: the state that disk agents and the writing thread share.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use capstan_engine::buffer::Buffer;
use capstan_engine::link::{Attended, Attention, Grant, LinkClosed, SegmentOrdinal};
use capstan_format::id::StreamId;
use parking_lot::{Condvar, Mutex, MutexGuard};

/// How segments are cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub block_size: usize,
    /// Blocks of a segment, about: streams end theirs together.
    pub blocks: u32,
    /// Bytes of catalog of a segment.
    pub catalog: u64,
    /// Buffers in all.
    pub buffers: usize,
}

#[derive(Default)]
struct Segment {
    granted: u32,
    /// Granted and not yet written or given back.
    outstanding: u32,
    /// Of these, filled: they come back by themselves.
    filled: u32,
    /// No stream enters it any more; those in it get one last block each.
    closing: bool,
    catalog: u64,
}

#[derive(Default)]
struct Stream {
    /// The segment it has blocks of and may still need one of.
    open_in: Option<u32>,
    /// The first segment it may have blocks of.
    next: u32,
    /// Grants that it has neither filled nor given back. One that is filled in this process has one, or two for a moment.
    held: u32,
    /// Wakes who attends it and wants no grant now.
    wake: Arc<Condvar>,
    is_nudged: bool,
    /// Whether who attends it waits for a grant.
    wants: bool,
}

#[derive(Default)]
struct State {
    /// Last in, first out: the buffer used last is still in the core's cache.
    free: Vec<Buffer>,
    allocated: usize,
    /// Buffers beyond one for each stream that are to be in use at a time; all of them, where that is not limited.
    spare: Option<usize>,
    /// Buffers in use beyond the number that there should be.
    extra: usize,
    /// Ordinal of the segment being written, the front of `segments`.
    base: u32,
    segments: VecDeque<Segment>,
    streams: HashMap<StreamId, Stream>,
    failed: bool,
}

impl State {
    fn segment(&mut self, ordinal: u32) -> &mut Segment {
        let at = ordinal.saturating_sub(self.base) as usize;
        while self.segments.len() <= at {
            self.segments.push_back(Segment::default());
        }
        &mut self.segments[at]
    }

    /// Buffers that may be taken.
    fn available(&self, limits: &Limits) -> usize {
        self.free.len() + limits.buffers.saturating_sub(self.allocated)
    }

    /// Whether as many buffers go round as should, and one of them comes back by itself: those of later segments wait for all of
    /// this one. What a stream holds ahead does not go round: it may be slow, or have nothing to fill it with.
    fn is_enough(&self) -> bool {
        let Some(spare) = self.spare else { return false };
        let ahead = |s: &Stream| s.held.saturating_sub(1) as usize;
        let ahead: usize = self.streams.values().map(ahead).sum();
        let in_use = self.allocated.saturating_sub(self.free.len() + ahead);
        in_use >= self.streams.len() + spare
            && self.segments.front().is_some_and(|s| s.outstanding > 0)
            && (ahead == 0 || self.segments.front().is_some_and(|s| s.filled > 0))
    }

    /// Those who attend a stream hear of a segment that is to end.
    fn tell_closing(&self) {
        for s in self.streams.values() {
            s.wake.notify_all();
        }
    }

    /// An available buffer.
    fn buffer(&mut self, block_size: usize) -> Buffer {
        self.free.pop().unwrap_or_else(|| {
            self.allocated += 1;
            Buffer::new(block_size)
        })
    }

    /// Streams that must still finish in a segment before that one.
    fn open_before(&self, ordinal: u32) -> usize {
        self.streams.values().filter(|s| s.open_in.is_some_and(|o| o < ordinal)).count()
    }

    fn open_in(&self, ordinal: u32) -> usize {
        self.streams.values().filter(|s| s.open_in == Some(ordinal)).count()
    }

    fn is_closing(&self, ordinal: u32) -> bool {
        let at = ordinal.checked_sub(self.base).and_then(|i| self.segments.get(i as usize));
        at.is_some_and(|s| s.closing)
    }

    /// No stream enters the segment any more.
    fn close(&mut self, ordinal: u32) {
        if !std::mem::replace(&mut self.segment(ordinal).closing, true) {
            self.tell_closing();
        }
    }

    /// The stream fills or gives back what it held.
    fn holds_less(&mut self, stream: StreamId) {
        if let Some(s) = self.streams.get_mut(&stream) {
            s.held = s.held.saturating_sub(1);
        }
    }
}

pub(crate) struct Grants {
    state: Mutex<State>,
    changed: Condvar,
    limits: Limits,
}

impl Grants {
    pub fn new(limits: Limits) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), limits }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// From now on so many buffers beyond one for each stream are to be in use at a time.
    pub fn limit_spare(&self, spare: usize) {
        let mut state = self.lock();
        state.spare = Some(spare);
        self.freed(state);
    }

    /// Something changed for which who wants a buffer may have waited.
    fn freed(&self, state: MutexGuard<'_, State>) {
        for s in state.streams.values().filter(|s| s.wants) {
            s.wake.notify_all();
        }
        drop(state);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub fn open_stream(&self, stream: StreamId) {
        self.lock().streams.insert(stream, Stream::default());
    }

    pub fn close_stream(&self, stream: StreamId) {
        let mut state = self.lock();
        if let Some(stream) = state.streams.remove(&stream) {
            stream.wake.notify_all();
        }
        self.freed(state);
    }

    /// Waits for a buffer of the stream's segment.
    pub fn grant(&self, stream: StreamId) -> Result<Grant, LinkClosed> {
        let mut state = self.lock();
        loop {
            if let Some(grant) = self.next(&mut state, stream)? {
                return Ok(grant);
            }
            self.changed.wait(&mut state);
        }
    }

    /// A buffer of the stream's segment, if there is one for it now.
    fn next(&self, state: &mut State, stream: StreamId) -> Result<Option<Grant>, LinkClosed> {
        if state.failed {
            return Err(LinkClosed);
        }
        let (open_in, next) = state.streams.get(&stream).map_or((None, 0), |s| (s.open_in, s.next));
        let mut ordinal = next.max(state.base);
        while open_in != Some(ordinal) && state.segment(ordinal).closing {
            ordinal += 1;
        }
        // Ahead of others, a stream leaves a buffer for each one that must still finish in an earlier segment:
        // blocks of a later segment are not written, and their buffers not free, before the earlier ones are.
        let reserve = state.open_before(ordinal);
        if state.available(&self.limits) > reserve && !state.is_enough() {
            return Ok(Some(self.take(state, stream, ordinal)));
        }
        Ok(None)
    }

    /// Waits for what there is to tell a stream that is filled elsewhere.
    pub fn attend(&self, stream: StreamId, to: Attention) -> Result<Attended, LinkClosed> {
        let begun = Instant::now();
        let mut state = self.lock();
        loop {
            if state.failed {
                return Err(LinkClosed);
            }
            if to.closing.is_some_and(|segment| state.is_closing(segment.0)) {
                return Ok(Attended::Closing);
            }
            if to.grant
                && let Some(grant) = self.next(&mut state, stream)?
            {
                return Ok(Attended::Grant(grant));
            }
            let left = to.limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(Attended::Nothing);
            }
            let Some(s) = state.streams.get_mut(&stream) else { return Err(LinkClosed) };
            if std::mem::take(&mut s.is_nudged) {
                return Ok(Attended::Nothing);
            }
            s.wants = to.grant;
            let wake = s.wake.clone();
            wake.wait_for(&mut state, left);
            if let Some(s) = state.streams.get_mut(&stream) {
                s.wants = false;
            }
        }
    }

    /// Ends the wait of who attends the stream.
    pub fn nudge(&self, stream: StreamId) {
        if let Some(s) = self.lock().streams.get_mut(&stream) {
            s.is_nudged = true;
            s.wake.notify_all();
        }
    }

    fn take(&self, state: &mut State, stream: StreamId, ordinal: u32) -> Grant {
        let buffer = state.buffer(self.limits.block_size);
        let active = state.streams.len() as u32;
        let limit = self.limits.blocks;
        let segment = state.segment(ordinal);
        segment.granted += 1;
        segment.outstanding += 1;
        if segment.granted.saturating_add(active) > limit {
            state.close(ordinal);
        }
        let last = state.segment(ordinal).closing;
        if let Some(s) = state.streams.get_mut(&stream) {
            (s.open_in, s.next) = if last { (None, ordinal + 1) } else { (Some(ordinal), ordinal) };
            s.held += 1;
        }
        Grant { buffer, segment: SegmentOrdinal(ordinal), last }
    }

    /// One more buffer for a segment whose last was granted; the number of buffers is exceeded rather than waited for.
    pub fn grant_more(
        &self,
        stream: StreamId,
        ordinal: SegmentOrdinal,
    ) -> Result<Grant, LinkClosed> {
        let mut state = self.lock();
        if state.failed {
            return Err(LinkClosed);
        }
        // Buffers left for streams that must still finish in this or an earlier segment are not taken.
        let buffer =
            if state.available(&self.limits) > state.open_before(ordinal.0.saturating_add(1)) {
                state.buffer(self.limits.block_size)
            } else {
                state.extra += 1;
                Buffer::new(self.limits.block_size)
            };
        let segment = state.segment(ordinal.0);
        segment.granted += 1;
        segment.outstanding += 1;
        if let Some(s) = state.streams.get_mut(&stream) {
            s.held += 1;
        }
        Ok(Grant { buffer, segment: ordinal, last: true })
    }

    /// A block was filled: its catalog bytes count, and the stream may be done with its segment.
    pub fn filled(
        &self,
        stream: StreamId,
        ordinal: SegmentOrdinal,
        catalog: u64,
        ends_segment: bool,
    ) -> Result<(), LinkClosed> {
        let mut state = self.lock();
        if state.failed {
            return Err(LinkClosed);
        }
        let limit = self.limits.catalog;
        state.holds_less(stream);
        let segment = state.segment(ordinal.0);
        segment.filled += 1;
        segment.catalog += catalog;
        if segment.catalog >= limit {
            state.close(ordinal.0);
        }
        if ends_segment {
            leave(&mut state, stream, ordinal);
            self.freed(state);
        }
        Ok(())
    }

    /// The stream has nothing more for the segment.
    pub fn leave(&self, stream: StreamId, ordinal: SegmentOrdinal) {
        let mut state = self.lock();
        leave(&mut state, stream, ordinal);
        // Who is ahead may have waited for the buffer that was left for this stream.
        self.freed(state);
    }

    /// The stream does not fill this, and has nothing more for the segment.
    pub fn give_back(&self, stream: StreamId, grant: Grant) {
        let mut state = self.lock();
        leave(&mut state, stream, grant.segment);
        state.holds_less(stream);
        if grant.segment.0 >= state.base {
            let segment = state.segment(grant.segment.0);
            // It is not a block of the segment.
            segment.granted = segment.granted.saturating_sub(1);
            segment.outstanding = segment.outstanding.saturating_sub(1);
        }
        self.free(state, grant.buffer);
    }

    /// A block was written: its buffer is free again.
    pub fn release(&self, ordinal: SegmentOrdinal, buffer: Buffer) {
        let mut state = self.lock();
        if ordinal.0 >= state.base {
            let segment = state.segment(ordinal.0);
            segment.outstanding = segment.outstanding.saturating_sub(1);
            segment.filled = segment.filled.saturating_sub(1);
        }
        self.free(state, buffer);
    }

    fn free(&self, mut state: MutexGuard<'_, State>, buffer: Buffer) {
        if state.extra > 0 {
            state.extra -= 1;
        } else {
            state.free.push(buffer);
        }
        self.freed(state);
    }

    pub fn is_closing(&self, ordinal: SegmentOrdinal) -> bool {
        self.lock().is_closing(ordinal.0)
    }

    /// Whether nothing is granted any more.
    pub fn is_failed(&self) -> bool {
        self.lock().failed
    }

    /// Lets the segment being written end as soon as its streams can.
    pub fn close_current(&self) {
        let mut state = self.lock();
        let base = state.base;
        if state.segment(base).granted > 0 {
            state.close(base);
        }
    }

    /// Whether the segment being written has all its blocks.
    pub fn is_complete(&self) -> bool {
        let mut state = self.lock();
        let base = state.base;
        let open = state.open_in(base);
        let segment = state.segment(base);
        segment.closing && segment.outstanding == 0 && open == 0
    }

    /// Whether every stream has ended and every block was written.
    pub fn is_drained(&self) -> bool {
        let state = self.lock();
        state.streams.is_empty() && state.segments.iter().all(|s| s.outstanding == 0)
    }

    /// The segment being written is finished; the next is.
    pub fn next_segment(&self) {
        let mut state = self.lock();
        state.segments.pop_front();
        state.base += 1;
        self.freed(state);
    }

    /// Nothing is granted any more.
    pub fn fail(&self) {
        let mut state = self.lock();
        state.failed = true;
        state.tell_closing();
        self.freed(state);
    }
}

/// The stream has nothing more for the segment. It may hold grants of a later one already.
fn leave(state: &mut State, stream: StreamId, ordinal: SegmentOrdinal) {
    if let Some(s) = state.streams.get_mut(&stream) {
        s.open_in = s.open_in.filter(|open_in| *open_in != ordinal.0);
        s.next = s.next.max(ordinal.0 + 1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn grants(blocks: u32) -> Grants {
        Grants::new(Limits { block_size: 65536, blocks, catalog: 1 << 20, buffers: 8 })
    }
    const A: StreamId = StreamId([1; 16]);
    const B: StreamId = StreamId([2; 16]);

    #[test]
    fn each_stream_gets_one_last_block_of_a_segment() {
        let g = grants(4);
        g.open_stream(A);
        g.open_stream(B);
        let mut held = Vec::new();
        let mut sequence = String::new();
        for stream in [A, A, B, A, A] {
            let grant = g.grant(stream).unwrap();
            sequence += &format!("{}{} ", grant.segment.0, if grant.last { "!" } else { "" });
            held.push(grant);
        }
        // A's third is its last in segment 0; B was only in it when it closed, with its last.
        assert_eq!(sequence, "0 0 0! 0! 1 ");
        assert!(!g.is_complete());
        for grant in held {
            g.release(grant.segment, grant.buffer);
        }
        assert!(g.is_complete());
        g.next_segment();
        assert!(!g.is_complete());
    }

    #[test]
    fn catalogs_close_a_segment() {
        let g = grants(100);
        g.open_stream(A);
        let grant = g.grant(A).unwrap();
        assert!(!grant.last);
        g.filled(A, grant.segment, 2 << 20, false).unwrap();
        assert!(g.is_closing(grant.segment));
        assert!(g.grant(A).unwrap().last);
        assert_eq!(g.grant(A).unwrap().segment, SegmentOrdinal(1));
    }

    #[test]
    fn who_is_ahead_leaves_a_buffer_to_all_behind() {
        const C: StreamId = StreamId([3; 16]);
        let g = Grants::new(Limits { block_size: 65536, blocks: 100, catalog: 1, buffers: 3 });
        [A, B, C].into_iter().for_each(|s| g.open_stream(s));
        // C stays in segment 0, A in segment 1; both are closing, and B goes on to segment 2.
        let c = g.grant(C).unwrap();
        g.filled(C, c.segment, 9, false).unwrap();
        let a = g.grant(A).unwrap();
        assert_eq!(a.segment, SegmentOrdinal(1));
        g.filled(A, a.segment, 9, false).unwrap();
        g.release(c.segment, c.buffer);
        // Two buffers are left, and C and A may need one each.
        std::thread::scope(|s| {
            let waiter = s.spawn(|| g.grant(B).map(|b| b.segment));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waiter.is_finished());
            g.leave(C, c.segment);
            g.release(a.segment, a.buffer);
            assert_eq!(waiter.join().unwrap(), Ok(SegmentOrdinal(2)));
        });
    }

    #[test]
    fn fewer_buffers_go_round_where_they_come_back_by_themselves() {
        let g = grants(100);
        g.open_stream(A);
        let mut held: Vec<_> = (0..3).map(|_| g.grant(A).unwrap()).collect();
        held.iter().for_each(|of| g.filled(A, of.segment, 0, false).unwrap());
        g.limit_spare(2);
        std::thread::scope(|s| {
            let waiter = s.spawn(|| g.grant(A));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waiter.is_finished());
            let back = held.pop().unwrap();
            g.release(back.segment, back.buffer);
            held.push(waiter.join().unwrap().unwrap());
        });
        assert_eq!(g.lock().allocated, 3);
    }

    #[test]
    fn fewer_buffers_do_not_hold_up_who_must_finish_a_segment() {
        let g = grants(4);
        g.open_stream(A);
        g.open_stream(B);
        let b = g.grant(B).unwrap();
        // A ends the segment for all, and goes ahead.
        let ahead: Vec<_> = (0..6).map(|_| g.grant(A).unwrap()).collect();
        assert!(ahead.iter().skip(2).all(|a| a.segment.0 > 0));
        for (grant, _) in std::iter::once(b).chain(ahead).zip(0..3) {
            g.release(grant.segment, grant.buffer);
        }
        g.limit_spare(0);
        assert_eq!(g.grant(B).unwrap().segment, SegmentOrdinal(0));
    }

    fn attended(g: &Grants, stream: StreamId, closing: Option<SegmentOrdinal>) -> Option<Grant> {
        let to = Attention { grant: true, closing, limit: Duration::ZERO };
        match g.attend(stream, to).unwrap() {
            Attended::Grant(grant) => Some(grant),
            Attended::Closing | Attended::Nothing => None,
        }
    }

    #[test]
    fn a_stream_that_holds_grants_of_the_next_segment_ends_the_one_before() {
        let g = Grants::new(Limits { block_size: 65536, blocks: 3, catalog: 1 << 20, buffers: 8 });
        g.open_stream(A);
        let mut held: VecDeque<_> = (0..5).filter_map(|_| attended(&g, A, None)).collect();
        let segments: Vec<_> = held.iter().map(|h| (h.segment.0, h.last)).collect();
        assert_eq!(segments, [(0, false), (0, false), (0, true), (1, false), (1, false)]);
        // Its first block ends the segment: the two others of it go back, and those of the next one stay.
        let first = held.pop_front().unwrap();
        g.filled(A, first.segment, 0, true).unwrap();
        g.release(first.segment, first.buffer);
        for _ in 0..2 {
            g.give_back(A, held.pop_front().unwrap());
        }
        assert!(g.is_complete());
        g.next_segment();
        // It is still in the next one: that cannot end without it.
        g.close_current();
        for grant in held.drain(..) {
            g.filled(A, grant.segment, 0, false).unwrap();
            g.release(grant.segment, grant.buffer);
        }
        assert!(!g.is_complete());
        let last = g.grant(A).unwrap();
        assert_eq!((last.segment, last.last), (SegmentOrdinal(1), true));
    }

    #[test]
    fn what_an_idle_stream_holds_ahead_does_not_go_round() {
        let g = grants(100);
        g.open_stream(A);
        g.open_stream(B);
        let idle: Vec<_> = (0..4).filter_map(|_| attended(&g, B, None)).collect();
        g.limit_spare(2);
        // B holds one as any stream does. Two others go round, and one is A's.
        let mut held: Vec<_> = (0..3).filter_map(|_| attended(&g, A, None)).collect();
        assert_eq!((idle.len(), held.len()), (4, 3));
        for grant in &held {
            g.filled(A, grant.segment, 0, false).unwrap();
        }
        assert!(attended(&g, A, None).is_none());
        let back = held.pop().unwrap();
        g.release(back.segment, back.buffer);
        assert!(attended(&g, A, None).is_some());
    }

    #[test]
    fn who_attends_an_idle_stream_hears_that_its_segment_is_to_end() {
        let g = grants(100);
        g.open_stream(A);
        let grant = g.grant(A).unwrap();
        let g = &g;
        std::thread::scope(|s| {
            let to = Attention {
                grant: false,
                closing: Some(grant.segment),
                limit: Duration::from_secs(60),
            };
            let waiter = s.spawn(move || g.attend(A, to).map(|a| matches!(a, Attended::Closing)));
            std::thread::sleep(Duration::from_millis(20));
            g.close_current();
            assert_eq!(waiter.join().unwrap(), Ok(true));
            let to = Attention { closing: None, ..to };
            let waiter = s.spawn(move || g.attend(A, to).map(|a| matches!(a, Attended::Nothing)));
            g.nudge(A);
            assert_eq!(waiter.join().unwrap(), Ok(true));
            let waiter = s.spawn(move || g.attend(A, to).map(|a| matches!(a, Attended::Nothing)));
            std::thread::sleep(Duration::from_millis(20));
            g.fail();
            assert_eq!(waiter.join().unwrap(), Err(LinkClosed));
        });
    }

    #[test]
    fn failing_wakes_who_waits() {
        let g = grants(100);
        g.open_stream(A);
        let held: Vec<_> = (0..8).map(|_| g.grant(A).unwrap()).collect();
        std::thread::scope(|s| {
            let waiter = s.spawn(|| g.grant(A).is_err());
            std::thread::sleep(std::time::Duration::from_millis(20));
            g.fail();
            assert!(waiter.join().unwrap());
        });
        drop(held);
    }
}
