//! One data connection: messages as they are written and read.

use std::io::{BufReader, ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use capstan_wire::data::DataError;
use capstan_wire::data::head::{Head, Kind};
use capstan_wire::data::opening::Refused;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connection::Broken;
use crate::transport::{Shut, Transport};

/// Bytes that are read at once where a head is looked for. What of a payload is among them is copied once more; so it is little.
const READ_AHEAD: usize = 4 << 10;
/// A body that was longer is not kept for the next one.
const KEPT_BODY: usize = 64 << 10;

/// What reads messages.
pub(crate) struct Incoming {
    reader: BufReader<Box<dyn Read + Send>>,
}

/// What writes messages.
pub(crate) struct Outgoing {
    writer: Box<dyn Write + Send>,
}

/// Ends a connection at once, in both directions.
#[derive(Clone)]
pub(crate) struct Cutter(Arc<Shut>);

impl Cutter {
    /// Ends it.
    pub fn cut(&self) {
        (self.0)(Shutdown::Both);
    }

    /// Says nothing more; what the other side still says is read.
    pub fn end_writing(&self) {
        (self.0)(Shutdown::Write);
    }
}

/// Whether something gets on that must not take for ever: reading or writing within a message.
#[derive(Default)]
pub(crate) struct Pulse {
    is_busy: AtomicBool,
    beats: AtomicU64,
}

/// While it lives something is to get on.
pub(crate) struct Busy<'p>(&'p Pulse);

impl Pulse {
    /// From now on it has to get on.
    pub fn busy(&self) -> Busy<'_> {
        self.beat();
        self.is_busy.store(true, Relaxed);
        Busy(self)
    }

    /// It got on.
    pub fn beat(&self) {
        self.beats.fetch_add(1, Relaxed);
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.is_busy.store(false, Relaxed);
    }
}

/// Looks from time to time whether something gets on.
pub(crate) struct Watch {
    beats: u64,
    since: Instant,
}

impl Default for Watch {
    fn default() -> Self {
        Self { beats: 0, since: Instant::now() }
    }
}

impl Watch {
    /// For how long it did not get on.
    pub fn silence(&mut self, pulse: &Pulse) -> Duration {
        let beats = pulse.beats.load(Relaxed);
        if !pulse.is_busy.load(Relaxed) || beats != self.beats {
            *self = Self { beats, since: Instant::now() };
        }
        self.since.elapsed()
    }
}

/// The parts of a connection.
pub(crate) fn parts(transport: Transport) -> (Incoming, Outgoing, Cutter) {
    let Transport { reader, writer, shut } = transport;
    let incoming = Incoming { reader: BufReader::with_capacity(READ_AHEAD, reader) };
    (incoming, Outgoing { writer }, Cutter(Arc::new(shut)))
}

impl Incoming {
    /// Waits for a message. Its payload is not read: it is, by [`Self::payload`], before the next message.
    pub fn next(&mut self, body: &mut Vec<u8>) -> Result<Head, Broken> {
        let mut head = [0; Head::LEN];
        let Some((first, rest)) = head.split_first_mut() else { return Err(Broken::Gone) };
        match self.reader.read_exact(std::slice::from_mut(first)) {
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Err(Broken::Gone),
            other => other?,
        }
        self.reader.read_exact(rest).map_err(cut_off)?;
        let head = Head::decode(&head)?;
        body.clear();
        body.shrink_to(KEPT_BODY);
        body.resize(head.body as usize, 0);
        self.reader.read_exact(body).map_err(cut_off)?;
        Ok(head)
    }

    /// Reads a payload, or a part of it.
    pub fn payload(&mut self, to: &mut [u8], pulse: &Pulse) -> Result<(), Broken> {
        let _busy = pulse.busy();
        let mut at = 0;
        while at < to.len() {
            match self.reader.read(&mut to[at..]) {
                Ok(0) => return Err(cut_off(ErrorKind::UnexpectedEof.into())),
                Ok(n) => at += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
            pulse.beat();
        }
        Ok(())
    }

    /// Waits for a message of JSON of that kind.
    pub fn hear<T: DeserializeOwned>(&mut self, kind: Kind) -> Result<T, Broken> {
        let mut body = Vec::new();
        match self.next(&mut body)?.kind {
            of if of == kind => Ok(capstan_wire::decode(&body)?),
            Kind::Refused | Kind::Closed => Err(Broken::Refused(why(&body))),
            other => Err(DataError::Senseless(other.byte()).into()),
        }
    }

    /// Reads what still comes, until the other side hangs up: what it was told last might be lost on its way otherwise.
    pub fn drain(&mut self, pulse: &Pulse) {
        let _busy = pulse.busy();
        let mut nowhere = vec![0; 64 << 10];
        while self.reader.read(&mut nowhere).is_ok_and(|n| n > 0) {}
    }
}

/// Why the other side refuses, or ends it.
pub(crate) fn why(body: &[u8]) -> String {
    const MOST: usize = 1024;
    match capstan_wire::decode::<Refused>(body) {
        Ok(refused) => refused.why.chars().filter(|c| !c.is_control()).take(MOST).collect(),
        Err(_) => "the other side does not say why".to_owned(),
    }
}

/// The other side hung up within a message.
fn cut_off(e: std::io::Error) -> Broken {
    match e.kind() {
        ErrorKind::UnexpectedEof => Broken::CutOff,
        _ => e.into(),
    }
}

impl Outgoing {
    /// Sends a message.
    pub fn send(&mut self, kind: Kind, body: &[u8], payload: &[u8]) -> Result<(), Broken> {
        let head = Head { kind, body: body.len() as u32, payload: payload.len() as u32 };
        let head = head.encode();
        let mut slices = [IoSlice::new(&head), IoSlice::new(body), IoSlice::new(payload)];
        let mut left = &mut slices[..];
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match self.writer.write_vectored(left) {
                Ok(0) => return Err(Broken::Gone),
                Ok(n) => IoSlice::advance_slices(&mut left, n),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.writer.flush()?;
        Ok(())
    }

    /// Sends the head and the body of a message, and so many bytes of its payload.
    #[cfg(test)]
    pub fn send_torn(&mut self, kind: Kind, body: &[u8], payload: &[u8], sent: usize) {
        let head = Head { kind, body: body.len() as u32, payload: payload.len() as u32 };
        let bytes = [&head.encode()[..], body, &payload[..sent]].concat();
        self.writer.write_all(&bytes).unwrap();
    }

    /// Sends a message of JSON.
    pub fn tell<T: Serialize>(&mut self, kind: Kind, message: &T) -> Result<(), Broken> {
        self.send(kind, &capstan_wire::encode(message)?, &[])
    }

    /// Says why nothing more is taken or served. Nobody may be there to hear it.
    pub fn refuse(&mut self, kind: Kind, why: &str) {
        let _ = self.tell(kind, &Refused { why: why.to_owned() });
    }
}
