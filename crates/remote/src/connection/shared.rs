//! What the threads of a connection and its channels have in common.

use std::collections::HashMap;
use std::io::{BufReader, ErrorKind, Read};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use capstan_engine::threads;
use capstan_wire::frame::{FrameError, Head, Kind, LONGEST_PAYLOAD};
use capstan_wire::hello::Hello;
use parking_lot::{Condvar, Mutex};

use super::broken::Broken;
use super::line::Line;
use super::outbox::Outbox;
use super::{Beats, Channel, Serve, Side};
use crate::transport::{Shut, Transport};

/// Channels that the other side may have open.
const MOST_CHANNELS: usize = 1024;
/// Bytes of messages that wait to be read, or to be put together, all channels together.
const MOST_HELD: usize = 128 << 20;

/// What the threads of a connection and its channels have in common.
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    outbox: Outbox,
    held: AtomicUsize,
    /// Whether nothing more is read.
    has_read: AtomicBool,
    /// The number of the first channel that this side opened or opens.
    first: u32,
    shut: Shut,
}

struct State {
    lines: HashMap<u32, Arc<Line>>,
    /// The number of the next channel that this side opens.
    next: u32,
    /// The number of the next one that the other side opens.
    next_theirs: u32,
    broken: Option<Broken>,
    heard: Instant,
}

/// Says hello, and starts the threads.
pub(super) fn start(
    transport: Transport,
    side: Side,
    beats: Beats,
    serve: Box<Serve>,
) -> Result<Arc<Shared>, Broken> {
    let Transport { reader, mut writer, shut } = transport;
    let hello = capstan_wire::encode(&Hello::default())?;
    let head = Head { kind: Kind::Hello, channel: 0, length: hello.len() as u32 };
    writer.write_all(&[&head.encode()[..], &hello].concat())?;
    writer.flush()?;
    let mut reader = BufReader::with_capacity(LONGEST_PAYLOAD, reader);
    let mut payload = Vec::new();
    let head = read_frame(&mut reader, &mut payload)?;
    if head.kind != Kind::Hello {
        return Err(FrameError::Senseless(head.channel).into());
    }
    capstan_wire::decode::<Hello>(&payload)?.common()?;
    let (next, next_theirs) = match side {
        Side::Dialled => (1, 2),
        Side::Answered => (2, 1),
    };
    let state =
        State { lines: HashMap::new(), next, next_theirs, broken: None, heard: Instant::now() };
    let serve: Arc<Serve> = serve.into();
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        changed: Condvar::new(),
        outbox: Outbox::default(),
        held: AtomicUsize::new(0),
        has_read: AtomicBool::new(false),
        first: next,
        shut,
    });
    let of = shared.clone();
    let writing = threads::start("connection: write", move || {
        match of.outbox.write_to(&mut *writer) {
            // What the other side still has to say is read.
            Ok(()) => (of.shut)(Shutdown::Write),
            Err(e) => of.break_with(e.into()),
        }
    });
    let of = shared.clone();
    let reading = writing.and_then(|_| {
        threads::start("connection: read", move || {
            if let Err(why) = of.read(&mut reader, &serve) {
                of.break_with(why);
            }
            let _state = of.state.lock();
            of.has_read.store(true, Relaxed);
            of.changed.notify_all();
        })
    });
    let of = shared.clone();
    let beating = reading.and_then(|_| threads::start("connection: beat", move || of.beat(beats)));
    if let Err(e) = beating {
        shared.break_with(e.into());
        return Err(shared.broken().unwrap_or(Broken::Closed));
    }
    Ok(shared)
}

/// Reads a frame; its payload replaces what is in `payload`.
fn read_frame(reader: &mut dyn Read, payload: &mut Vec<u8>) -> Result<Head, Broken> {
    let mut head = [0; Head::LEN];
    let Some((first, rest)) = head.split_first_mut() else { return Err(Broken::Gone) };
    match reader.read_exact(std::slice::from_mut(first)) {
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Err(Broken::Gone),
        other => other?,
    }
    reader.read_exact(rest)?;
    let head = Head::decode(&head)?;
    payload.resize(head.length as usize, 0);
    reader.read_exact(payload)?;
    Ok(head)
}

impl Shared {
    pub(super) fn open(self: &Arc<Self>) -> Result<Channel, Broken> {
        let mut state = self.state.lock();
        if let Some(broken) = &state.broken {
            return Err(broken.clone());
        }
        let number = state.next;
        state.next = number.checked_add(2).ok_or(Broken::TooMuch)?;
        let line = Arc::new(Line::default());
        state.lines.insert(number, line.clone());
        // In the order of the numbers, so before the lock is given back.
        self.outbox.add_now(Head { kind: Kind::Open, channel: number, length: 0 }, &[])?;
        Ok(Channel::new(number, line, self.clone()))
    }

    pub(super) fn broken(&self) -> Option<Broken> {
        self.state.lock().broken.clone()
    }

    /// Nothing more comes or goes, unless it is so already.
    pub(super) fn break_with(&self, why: Broken) {
        let lines: Vec<Arc<Line>> = {
            let mut state = self.state.lock();
            if state.broken.is_some() {
                return;
            }
            state.broken = Some(why.clone());
            state.lines.values().cloned().collect()
        };
        lines.iter().for_each(|line| line.break_with(&why));
        self.outbox.close();
        self.changed.notify_all();
        // Where a side closed it, what was said before is still written and read.
        if !matches!(why, Broken::Closed | Broken::Gone) {
            (self.shut)(Shutdown::Both);
        }
    }

    pub(super) fn send(&self, kind: Kind, channel: u32, payload: &[u8]) -> Result<(), Broken> {
        let head = Head { kind, channel, length: payload.len() as u32 };
        self.outbox.add(head, payload).map_err(|closed| self.broken().unwrap_or(closed))
    }

    pub(super) fn credit(&self, channel: u32, bytes: u32) -> Result<(), Broken> {
        let head = Head { kind: Kind::Credit, channel, length: 4 };
        self.outbox.add_now(head, &bytes.to_le_bytes())
    }

    /// A message of so many bytes was read.
    pub(super) fn taken(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Relaxed);
    }

    /// Nobody speaks on the channel any more at this side.
    pub(super) fn leave(&self, channel: u32) {
        let line = self.state.lock().lines.remove(&channel);
        // What nobody read is held no longer.
        line.into_iter().for_each(|line| self.taken(line.clear()));
        let _ = self.outbox.add_now(Head { kind: Kind::End, channel, length: 0 }, &[]);
    }

    /// Takes what comes until the connection ends.
    fn read(self: &Arc<Self>, reader: &mut dyn Read, serve: &Arc<Serve>) -> Result<(), Broken> {
        let mut payload = Vec::new();
        loop {
            let head = read_frame(reader, &mut payload)?;
            let mut state = self.state.lock();
            state.heard = Instant::now();
            match head.kind {
                Kind::Beat => continue,
                Kind::Hello => return Err(FrameError::Senseless(0).into()),
                Kind::Open => {
                    let opened = self.opened(&mut state, head.channel)?;
                    drop(state);
                    if let Some(channel) = opened {
                        let serve = serve.clone();
                        // Without a thread the channel ends, which the other side hears.
                        let _ = threads::start("connection: serve", move || serve(channel));
                    }
                    continue;
                }
                Kind::Part | Kind::Last | Kind::Credit | Kind::Stop | Kind::End => {}
            }
            let Some(line) = state.lines.get(&head.channel) else {
                // It was left here, and the other side does not know that yet.
                if self.was_open(&state, head.channel) {
                    continue;
                }
                return Err(FrameError::Senseless(head.channel).into());
            };
            match (head.kind, <[u8; 4]>::try_from(&payload[..])) {
                (Kind::Credit, Ok(bytes)) => line.credit(u32::from_le_bytes(bytes))?,
                (Kind::Stop, _) => line.stop.store(true, Relaxed),
                (Kind::End, _) => line.end()?,
                (kind, _) => {
                    let held = self.held.fetch_add(payload.len(), Relaxed);
                    if held + payload.len() > MOST_HELD {
                        return Err(Broken::TooMuch);
                    }
                    if let Some(due) = line.part(&payload, kind == Kind::Last)? {
                        self.credit(head.channel, due)?;
                    }
                }
            }
        }
    }

    /// The other side opened a channel; nothing, where it has too many.
    fn opened(self: &Arc<Self>, state: &mut State, number: u32) -> Result<Option<Channel>, Broken> {
        if number != state.next_theirs {
            return Err(FrameError::Senseless(number).into());
        }
        state.next_theirs = number.checked_add(2).ok_or(Broken::TooMuch)?;
        // What was broken is told to the channels that there were. Nobody would tell this one.
        if state.broken.is_some() {
            return Ok(None);
        }
        if state.lines.len() >= MOST_CHANNELS {
            let _ = self.outbox.add_now(Head { kind: Kind::End, channel: number, length: 0 }, &[]);
            return Ok(None);
        }
        let line = Arc::new(Line::default());
        state.lines.insert(number, line.clone());
        Ok(Some(Channel::new(number, line, self.clone())))
    }

    fn was_open(&self, state: &State, number: u32) -> bool {
        let is_ours = number % 2 == self.first % 2;
        number < if is_ours { state.next } else { state.next_theirs }
    }

    /// Says that this side is alive, and sees whether the other one is.
    fn beat(&self, beats: Beats) {
        let mut state = self.state.lock();
        loop {
            self.changed.wait_for(&mut state, beats.every);
            if state.broken.is_some() {
                break;
            }
            let silence = state.heard.elapsed();
            if silence >= beats.patience {
                drop(state);
                return self.break_with(Broken::Silent(silence.as_secs()));
            }
            let _ = self.outbox.add_now(Head { kind: Kind::Beat, channel: 0, length: 0 }, &[]);
        }
        // A side that does not read, or does not end, may not hold up the end.
        let begun = Instant::now();
        while !self.has_read.load(Relaxed) && begun.elapsed() < beats.patience {
            self.changed.wait_for(&mut state, beats.patience.saturating_sub(begun.elapsed()));
        }
        drop(state);
        self.outbox.wait_done(beats.patience.saturating_sub(begun.elapsed()));
        (self.shut)(Shutdown::Both);
    }
}
