//! Writing a session to a device: buffers go out to its streams, whole blocks come back and are multiplexed.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use capstan_engine::entropy::Entropy;
use capstan_engine::link::{
    Attended, Attention, BlockPort, FilledBlock, Grant, LinkClosed, SegmentOrdinal,
};
use capstan_engine::meter::{Meters, Stage};
use capstan_engine::queue::{Queue, Taken};
use capstan_engine::threads;
use capstan_format::id::StreamId;
use capstan_format::record::SessionEnds;
use capstan_medium::Device;
use parking_lot::Mutex;

use crate::write::circulation::Circulation;
use crate::write::grants::{Grants, Limits};
use crate::write::keep::Keep;
use crate::write::mirror::Mirrors;
use crate::write::multiplex::{Message, Multiplexer};
use capstan_port::media::write::committed::{OnCommit, Written};
use capstan_port::media::write::error::WriteError;
use capstan_port::media::write::members::{Drives, LostMirrors, Member};
use capstan_port::media::write::options::WriterOptions;

/// How blocks come to the multiplexer.
enum Way {
    /// Through a queue to a thread of its own, so that reading and writing overlap.
    Queue(Queue<Message>),
    /// Handed over by whoever brings one: where the device takes no time, waking a thread costs more than the writing.
    Hand(Mutex<Hand>),
}

/// A multiplexer without a thread; `None` when the session has ended.
struct Hand {
    multiplexer: Option<Box<Multiplexer>>,
    result: Result<(), WriteError>,
}

struct Shared {
    grants: Arc<Grants>,
    way: Way,
}

impl Shared {
    fn give(&self, message: Message) -> Result<(), LinkClosed> {
        match &self.way {
            Way::Queue(queue) => queue.give(message).map(drop).map_err(|_| LinkClosed),
            Way::Hand(hand) => {
                let mut hand = hand.lock();
                let Hand { multiplexer: Some(multiplexer), result: Ok(()) } = &mut *hand else {
                    return Err(LinkClosed);
                };
                hand.result = multiplexer.take(Some(message));
                if hand.result.is_err() {
                    self.grants.fail();
                    return Err(LinkClosed);
                }
                Ok(())
            }
        }
    }
}

impl Shared {
    /// Nothing is taken any more, and nobody waits.
    fn close(&self) {
        self.grants.fail();
        if let Way::Queue(queue) = &self.way {
            queue.close();
        }
    }
}

/// Closes what is shared when its thread ends, also by a panic: whoever waits for it learns that.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The disk agents' end of a writer, which it borrows: while a stream is open, the writer cannot be waited for.
#[derive(Clone, Copy)]
pub struct Port<'w>(&'w Shared);

/// A session being written. One that is dropped without [`Self::finish`] is given up: what was not committed is dropped, and
/// the media are let go.
pub struct Writer {
    shared: Arc<Shared>,
    lost: LostMirrors,
    drives: Drives,
    /// `None` where blocks are handed over.
    /// Or why there is none.
    thread: Option<Result<JoinHandle<Result<Written, WriteError>>, WriteError>>,
}

impl Writer {
    /// Starts the writing thread.
    pub fn start(
        device: Box<dyn Device>,
        options: WriterOptions,
        entropy: Arc<Entropy>,
        meters: Arc<Meters>,
        on_commit: Box<OnCommit>,
    ) -> Self {
        let members = vec![Member::new(device, options.medium.clone())];
        Self::start_on(members, options, entropy, meters, on_commit)
    }

    /// Starts the writing thread for several media that all get the same; `options` has the first one's header, and all
    /// have its block size.
    pub fn start_on(
        members: Vec<Member>,
        options: WriterOptions,
        entropy: Arc<Entropy>,
        meters: Arc<Meters>,
        on_commit: Box<OnCommit>,
    ) -> Self {
        let block_size = options.medium.block_size as usize;
        let most = options.keeping.as_ref().map_or(u64::MAX, |k| Keep::segment_bytes(k.room));
        let limits = Limits {
            block_size,
            blocks: u32::try_from(options.segment_size.min(most) / block_size as u64)
                .unwrap_or(u32::MAX / 2)
                .clamp(1, u32::MAX / 2),
            catalog: options.catalog_limit,
            buffers: options.buffers.max(2),
        };
        let capacity = limits.buffers * 2 + 256;
        let grants = Arc::new(Grants::new(limits));
        let instant = members.iter().all(|m| m.device.is_instant());
        // To a disk it makes no difference that could be told from the noise.
        let on_tape = members.iter().all(|m| !m.device.commits_each_segment());
        let circulation = on_tape.then(|| Circulation::new(options.buffers));
        let mirrors = Mirrors::new(members);
        let (lost, drives) = (mirrors.lost.clone(), mirrors.drives.clone());
        let multiplexer =
            Multiplexer::new(grants.clone(), meters.clone(), mirrors, options, entropy, on_commit);
        if instant {
            let hand = Hand { multiplexer: Some(Box::new(multiplexer)), result: Ok(()) };
            let way = Way::Hand(Mutex::new(hand));
            return Self { shared: Arc::new(Shared { grants, way }), lost, drives, thread: None };
        }
        let way = Way::Queue(Queue::new(capacity));
        let shared = Arc::new(Shared { grants, way });
        let started = threads::start("media agent", {
            let shared = shared.clone();
            move || run(multiplexer, circulation, &shared, &meters)
        });
        // Without a thread nothing is taken, and the end says why.
        let thread = started.inspect_err(|_| shared.close()).map_err(WriteError::from);
        Self { shared, lost, drives, thread: Some(thread) }
    }

    /// The end that disk agents use.
    pub fn port(&self) -> Port<'_> {
        Port(&self.shared)
    }

    /// Mirrors that failed and were left; who says so takes them out.
    pub fn lost_mirrors(&self) -> LostMirrors {
        self.lost.clone()
    }

    /// What the tape drives did that were written to, one for each tape; whole when the writer has finished.
    pub fn drives(&self) -> Drives {
        self.drives.clone()
    }

    /// Lets the current segment end and be committed soon.
    pub fn commit_soon(&self) {
        self.shared.grants.close_current();
        let _ = self.shared.give(Message::Poke);
    }

    /// Ends the session, and those that wrote together with it: what is left is written and committed, with their end records
    /// as far as there are any. All streams have been closed: what is open has borrowed the writer, so that this is no
    /// program:
    ///
    /// ```compile_fail,E0505
    /// use std::sync::Arc;
    /// use capstan_engine::link::BlockPort;
    /// use capstan_media_agent::write::writer::Writer;
    ///
    /// fn waits_for_ever(writer: Writer) {
    ///     let stream: Arc<dyn BlockPort + '_> = Arc::new(writer.port());
    ///     let _ = writer.finish(None);
    ///     drop(stream);
    /// }
    /// ```
    pub fn finish(mut self, ends: impl Into<SessionEnds>) -> Result<Written, WriteError> {
        let _ = self.shared.give(Message::Finish(ends.into()));
        if let Some(thread) = self.thread.take() {
            return thread?.join().unwrap_or(Err(WriteError::Thread));
        }
        let Way::Hand(hand) = &self.shared.way else { return Err(WriteError::Thread) };
        let mut hand = hand.lock();
        let result = std::mem::replace(&mut hand.result, Ok(()));
        match hand.multiplexer.take() {
            Some(multiplexer) => multiplexer.end(result),
            None => Err(WriteError::Thread),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Nobody gave an end: its thread drops what was begun.
        self.shared.close();
        if let Some(Ok(thread)) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The writing thread.
fn run(
    mut multiplexer: Multiplexer,
    mut circulation: Option<Circulation>,
    shared: &Shared,
    meters: &Meters,
) -> Result<Written, WriteError> {
    let Way::Queue(queue) = &shared.way else { return Err(WriteError::Thread) };
    let _closing = Closing(shared);
    let mut result = Ok(());
    while result.is_ok() && !multiplexer.is_finished() {
        let mut waited = Duration::ZERO;
        let message = queue.take_within(Duration::from_millis(500), &mut waited);
        meters.of(Stage::Device).wait_in(waited);
        if let Some(spare) = circulation.as_mut().and_then(|c| c.block(waited)) {
            shared.grants.limit_spare(spare);
        }
        result = match message {
            Taken::Item(message) => multiplexer.take(Some(message)),
            Taken::Nothing => multiplexer.take(None),
            Taken::Closed => Err(WriteError::Thread),
        };
    }
    multiplexer.end(result)
}

impl BlockPort for Port<'_> {
    fn block_size(&self) -> usize {
        self.0.grants.limits().block_size
    }
    fn open_stream(&self, stream: StreamId) {
        self.0.grants.open_stream(stream);
    }
    fn grant(&self, stream: StreamId) -> Result<Grant, LinkClosed> {
        self.0.grants.grant(stream)
    }
    fn grant_more(&self, stream: StreamId, segment: SegmentOrdinal) -> Result<Grant, LinkClosed> {
        self.0.grants.grant_more(stream, segment)
    }
    fn submit(&self, block: FilledBlock) -> Result<(), LinkClosed> {
        let catalog = block.notes.copies.iter().map(|c| c.len() as u64).sum();
        self.0.grants.filled(block.stream, block.segment, catalog, block.ends_segment)?;
        self.0.give(Message::Block(block))
    }
    fn give_back(&self, stream: StreamId, grant: Grant) {
        self.0.grants.give_back(stream, grant);
        let _ = self.0.give(Message::Poke);
    }
    fn is_closing(&self, _: StreamId, segment: SegmentOrdinal) -> bool {
        self.0.grants.is_closing(segment)
    }
    fn is_closed(&self) -> bool {
        self.0.grants.is_failed()
    }
    fn leave_segment(&self, stream: StreamId, segment: SegmentOrdinal) {
        self.0.grants.leave(stream, segment);
        let _ = self.0.give(Message::Poke);
    }
    fn close_stream(&self, stream: StreamId) -> Result<(), LinkClosed> {
        self.0.grants.close_stream(stream);
        let _ = self.0.give(Message::Poke);
        // What fails from here on, the end of the writer says.
        Ok(())
    }
    fn attend(&self, stream: StreamId, to: Attention) -> Result<Attended, LinkClosed> {
        self.0.grants.attend(stream, to)
    }
    fn nudge(&self, stream: StreamId) {
        self.0.grants.nudge(stream);
    }
}
