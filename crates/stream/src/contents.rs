//! Contents by their place in a stream. Frames are asked for and opened as bytes of them are wanted, each once where bytes are wanted in
//! order.

use std::collections::HashMap;

use capstan_engine::frames::{FramePort, Lack};
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::codec::Decompressor;
use capstan_format::frame::FrameType;
use capstan_format::id::{KeyId, StreamId};
use capstan_format::keys::{FrameSealer, Purpose};
use capstan_format::record::SessionLabel;
use capstan_wire::keys::SessionKey;

/// What opens the frames of a stream, by the session that wrote it: nothing where they are not encrypted. An error says why its key is
/// not to be had.
pub type ContentsKeys<'k> =
    dyn Fn(Option<&SessionLabel>, StreamId) -> Result<Option<FrameSealer>, String> + 'k;

/// What opens frames by these keys. Those of sessions whose key is not among them are taken for frames that are not encrypted.
pub fn opened_by<'k>(keys: &[SessionKey]) -> Box<ContentsKeys<'k>> {
    let keys: HashMap<KeyId, SessionKey> = keys.iter().map(|key| (key.id, key.clone())).collect();
    Box::new(move |label, stream| {
        let key = label.and_then(|label| label.key).and_then(|id| keys.get(&id));
        let sealer = key.map(|of| {
            FrameSealer::new(&of.contents.0, Purpose::Contents, stream, of.cipher)
                .map_err(|e| e.to_string())
        });
        sealer.transpose()
    })
}

/// What a stream has at a place.
#[derive(Debug)]
pub enum Bytes<'b> {
    /// These bytes.
    Data(&'b [u8]),
    /// So many zeros, in place of what could not be read when it was backed up.
    Zeros(u64),
    /// So many bytes that cannot be had, and why.
    Lacking(u64, Lack),
}

/// Some of what a stream has.
#[derive(Debug)]
pub enum Chunk<'b> {
    /// These bytes.
    Bytes(&'b [u8]),
    /// So many zeros.
    Zeros(u64),
}

impl Chunk<'_> {
    /// Calls with its bytes, a buffer at a time: whoever may be stopped asks there.
    pub fn each<E>(self, each: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        const ZEROS: [u8; 16 << 10] = [0; 16 << 10];
        let mut left = match self {
            Self::Bytes(bytes) => return each(bytes),
            Self::Zeros(n) => n,
        };
        while left > 0 {
            let n = left.min(ZEROS.len() as u64);
            each(&ZEROS[..n as usize])?;
            left -= n;
        }
        Ok(())
    }
}

/// Reads streams by their logical bytes. The last frame of each of the streams that were read last is kept.
pub struct Contents<'k> {
    keys: Box<ContentsKeys<'k>>,
    /// Where the time that reading and opening takes is counted, if anybody asks.
    meters: Option<&'k Meters>,
    /// Streams of which a frame is kept at most.
    most: usize,
    decompressor: Decompressor,
    scratch: Vec<u8>,
    /// The one that was read last is the last.
    open: Vec<Open>,
    /// Stored bytes of frames that came.
    pub bytes_read: u64,
    /// Whether frames came that have no checksum.
    pub is_unchecked: bool,
}

/// A stream.
struct Open {
    stream: StreamId,
    /// What opens its frames, once that was asked for.
    sealer: Option<Option<FrameSealer>>,
    stretch: Option<Stretch>,
    /// The bytes of the frame.
    plain: Vec<u8>,
}

/// What is known of a stretch of a stream: whether a frame has bytes for it or stands for zeros, or why it cannot be had.
struct Stretch {
    from: u64,
    to: u64,
    what: Result<bool, Lack>,
}

impl Stretch {
    fn has(&self, at: u64) -> bool {
        (self.from..self.to).contains(&at)
    }
}

impl<'k> Contents<'k> {
    /// A reader that keeps a frame of up to `most` streams.
    pub fn new(keys: Box<ContentsKeys<'k>>, most: usize) -> Self {
        Self {
            keys,
            meters: None,
            most: most.max(1),
            decompressor: Decompressor::default(),
            scratch: Vec::new(),
            open: Vec::new(),
            bytes_read: 0,
            is_unchecked: false,
        }
    }

    /// Has the time that reading and opening takes counted there.
    pub fn metered(self, meters: &'k Meters) -> Self {
        Self { meters: Some(meters), ..self }
    }

    /// Forgets what is known of streams: they go on elsewhere.
    pub fn forget(&mut self) {
        for open in &mut self.open {
            (open.sealer, open.stretch) = (None, None);
        }
    }

    /// Whether the byte of the stream can be told without asking the port.
    pub fn knows(&self, stream: StreamId, at: u64) -> bool {
        let mut known = self.open.iter().filter_map(|o| Some((o.stream, o.stretch.as_ref()?)));
        known.any(|(of, stretch)| of == stream && stretch.has(at))
    }

    /// What the stream has from its logical byte `at` on, at most `len` bytes of it; `len` is not 0. The time since `lap` was looked at
    /// last is taken for reading.
    pub fn get(
        &mut self,
        port: &mut dyn FramePort,
        stream: StreamId,
        at: u64,
        len: u64,
        lap: &mut Lap,
    ) -> Bytes<'_> {
        if !self.knows(stream, at) {
            self.load(port, stream, at, lap);
        }
        let open = self.open.iter().find(|o| o.stream == stream);
        let Some((open, stretch)) = open.and_then(|o| Some((o, o.stretch.as_ref()?))) else {
            return Bytes::Lacking(len, misplaced());
        };
        let to = stretch.to.min(at.saturating_add(len));
        match &stretch.what {
            Ok(false) => Bytes::Zeros(to - at),
            Err(why) => Bytes::Lacking(to - at, why.clone()),
            Ok(true) => {
                let range = (at - stretch.from) as usize..(to - stretch.from) as usize;
                match open.plain.get(range) {
                    Some(bytes) => Bytes::Data(bytes),
                    None => Bytes::Lacking(to - at, misplaced()),
                }
            }
        }
    }

    /// Calls with `len` bytes of a stream from its logical byte `logical` on.
    pub fn each<E: From<Lack>>(
        &mut self,
        port: &mut dyn FramePort,
        (stream, logical, len): (StreamId, u64, u64),
        lap: &mut Lap,
        each: &mut dyn FnMut(Chunk<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut at, end) = (logical, logical.saturating_add(len));
        while at < end {
            lap.split();
            at += match self.get(port, stream, at, end - at, lap) {
                Bytes::Data(bytes) => {
                    each(Chunk::Bytes(bytes))?;
                    bytes.len() as u64
                }
                Bytes::Zeros(n) => {
                    each(Chunk::Zeros(n))?;
                    n
                }
                Bytes::Lacking(_, why) => return Err(why.into()),
            };
        }
        Ok(())
    }

    /// Has the frame opened that has the stream's byte `at`.
    fn load(&mut self, port: &mut dyn FramePort, stream: StreamId, at: u64, lap: &mut Lap) {
        let mut open = match self.open.iter().position(|o| o.stream == stream) {
            Some(known) => self.open.remove(known),
            None if self.open.len() >= self.most => {
                Open { stream, sealer: None, stretch: None, ..self.open.remove(0) }
            }
            None => Open { stream, sealer: None, stretch: None, plain: Vec::new() },
        };
        let Self { keys, meters, decompressor, scratch, bytes_read, is_unchecked, .. } = self;
        let Open { sealer, plain, .. } = &mut open;
        let mut count = |stage: Stage, bytes: u64| {
            if let Some(meters) = meters {
                lap.busy(meters.of(stage));
                meters.of(stage).bytes(bytes);
            }
        };
        let loaded = port.frame_at(stream, at, &mut |frame| {
            let header = frame.header;
            count(Stage::Device, header.stored.into());
            *bytes_read += u64::from(header.stored);
            if sealer.is_none() {
                *sealer = Some(keys(frame.label, stream)?);
            }
            let sealer = sealer.as_ref().and_then(Option::as_ref);
            let is_fill = header.frame_type == FrameType::Fill;
            *is_unchecked |= header.payload_crc.is_none() && sealer.is_none() && !is_fill;
            let opened = header.open(frame.stored, sealer, decompressor, scratch, plain);
            count(Stage::Cpu, 0);
            opened.map_err(|e| e.to_string())
        });
        open.stretch = Some(match loaded {
            Ok(header) => Stretch {
                from: header.logical,
                to: header.logical.saturating_add(header.length),
                what: Ok(header.frame_type != FrameType::Fill),
            },
            Err(gap) => Stretch { from: gap.from, to: gap.to, what: Err(gap.why) },
        });
        // Whoever asks must get on, whatever the port says.
        if open.stretch.as_ref().is_none_or(|stretch| !stretch.has(at)) {
            open.stretch = Some(Stretch { from: at, to: u64::MAX, what: Err(misplaced()) });
        }
        self.open.push(open);
    }
}

/// A frame came that does not have what was asked for.
fn misplaced() -> Lack {
    Lack::Damaged("its frames are not where they should be".to_owned())
}
