//! Frames asked for and given, as bytes. [`super::course`] has the rules.
//!
//! Nothing here is as long as a message may be: texts are cut when they are written, and lists have an end.

use capstan_engine::frames::{Expected, Gap, Lack};
use capstan_engine::problem::Problem;
use capstan_format::bytes::{Cursor, put_bytes, put_varint};
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader};
use capstan_format::id::{MediumId, StreamId};
use capstan_format::record::SessionLabel;

use super::DataError;

/// Ranges of one message at most.
pub const MOST_RANGES: usize = 1024;
/// Places that a frame was refused from at most: so many media have the same segment.
pub const MOST_REFUSED: usize = 64;
/// Bytes of a text at most.
const LONGEST_TEXT: usize = 1 << 10;

/// What will be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranges {
    /// Ranges before this one are not asked for any more.
    pub from: u64,
    /// The number of the first one. They are numbered as they are said.
    pub first: u64,
    /// The ranges.
    pub ranges: Vec<Expected>,
}

impl Ranges {
    /// Its body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        put_varint(out, self.from);
        put_varint(out, self.first);
        put_varint(out, self.ranges.len() as u64);
        let mut last = None;
        for Expected { stream, from, to } in &self.ranges {
            let is_same = last == Some(*stream);
            out.push(u8::from(!is_same));
            if !is_same {
                out.extend_from_slice(stream.as_bytes());
            }
            last = Some(*stream);
            put_varint(out, *from);
            put_varint(out, to.saturating_sub(*from));
        }
    }

    /// The ranges that these bytes are.
    pub fn decode(body: &[u8]) -> Result<Self, DataError> {
        let mut of = Cursor::new(body, "ranges");
        let (from, first) = (of.varint()?, of.varint()?);
        let count = of.count()?;
        if count > MOST_RANGES {
            return Err(DataError::TooMuch("ranges"));
        }
        let (mut ranges, mut last) = (Vec::with_capacity(count), None);
        for _ in 0..count {
            if of.u8()? != 0 {
                last = Some(StreamId(of.array()?));
            }
            let stream = last.ok_or(DataError::TooMuch("ranges without a stream"))?;
            let (from, len) = (of.varint()?, of.varint()?);
            ranges.push(Expected { stream, from, to: from.saturating_add(len) });
        }
        Ok(Self { from, first, ranges })
    }
}

/// There is room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes of frames.
    pub bytes: u64,
    /// Ranges before this one are not asked for any more.
    pub from: u64,
}

impl Room {
    /// Its body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        put_varint(out, self.bytes);
        put_varint(out, self.from);
    }

    /// The room that these bytes are.
    pub fn decode(body: &[u8]) -> Result<Self, DataError> {
        let mut of = Cursor::new(body, "room");
        Ok(Self { bytes: of.varint()?, from: of.varint()? })
    }
}

/// A frame that did not open: which it was, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotOpened {
    /// The checksum of its bytes ([`FrameHeader::payload_crc`] as it should be).
    pub crc: u32,
    /// Why it did not open.
    pub why: String,
}

/// A frame that is asked for by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Ranges before this one are not asked for any more.
    pub from: u64,
    /// The stream.
    pub stream: StreamId,
    /// The logical byte that the frame has.
    pub at: u64,
    /// What came of it already.
    pub refused: Vec<NotOpened>,
}

impl Asked {
    /// Its body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        put_varint(out, self.from);
        out.extend_from_slice(self.stream.as_bytes());
        put_varint(out, self.at);
        let refused = &self.refused[..self.refused.len().min(MOST_REFUSED)];
        put_varint(out, refused.len() as u64);
        for NotOpened { crc, why } in refused {
            out.extend_from_slice(&crc.to_le_bytes());
            put_text(out, why);
        }
    }

    /// What these bytes ask for.
    pub fn decode(body: &[u8]) -> Result<Self, DataError> {
        let mut of = Cursor::new(body, "frame asked for");
        let (from, stream, at) = (of.varint()?, StreamId(of.array()?), of.varint()?);
        let count = of.count()?;
        if count > MOST_REFUSED {
            return Err(DataError::TooMuch("frames that did not open"));
        }
        let mut refused = Vec::with_capacity(count);
        for _ in 0..count {
            let crc = u32::from_le_bytes(of.array()?);
            refused.push(NotOpened { crc, why: text(&mut of)? });
        }
        Ok(Self { from, stream, at, refused })
    }
}

/// What something that comes is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// The range of that number.
    Range(u64),
    /// What was asked for by itself.
    Asked,
}

fn put_for(out: &mut Vec<u8>, of: For) {
    match of {
        For::Range(number) => put_varint(out, number.saturating_add(1)),
        For::Asked => put_varint(out, 0),
    }
}

fn read_for(of: &mut Cursor<'_>) -> Result<For, DataError> {
    Ok(of.varint()?.checked_sub(1).map_or(For::Asked, For::Range))
}

/// What is said of the session that wrote a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Labelled {
    /// Nothing is known.
    Not,
    /// The same as of the frame before.
    AsBefore,
    /// This.
    By(Box<SessionLabel>),
}

/// A frame that comes, but for its stored bytes, which are the payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// What it is for.
    pub of: For,
    /// Its stream.
    pub stream: StreamId,
    /// Its header.
    pub header: FrameHeader,
    /// The session that wrote it.
    pub label: Labelled,
}

impl Given {
    /// Its body.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), crate::WireError> {
        out.clear();
        put_for(out, self.of);
        out.extend_from_slice(self.stream.as_bytes());
        let mut header = [0; FRAME_HEADER_LEN];
        self.header.encode(self.stream, &mut header);
        out.extend_from_slice(&header);
        match &self.label {
            Labelled::Not => out.push(0),
            Labelled::AsBefore => out.push(1),
            Labelled::By(label) => {
                out.push(2);
                put_bytes(out, &crate::encode(label)?);
            }
        }
        Ok(())
    }

    /// The frame that comes with a payload of `stored` bytes.
    pub fn decode(body: &[u8], stored: u32) -> Result<Self, DataError> {
        let mut of = Cursor::new(body, "frame");
        let (what_for, stream) = (read_for(&mut of)?, StreamId(of.array()?));
        let header = FrameHeader::decode(stream, of.take(FRAME_HEADER_LEN)?)?;
        if header.stored != stored {
            return Err(DataError::Block("length of a frame"));
        }
        let label = match of.u8()? {
            0 => Labelled::Not,
            1 => Labelled::AsBefore,
            _ => {
                let label = crate::decode(of.bytes()?);
                Labelled::By(label.map_err(|_| DataError::Block("label of a frame"))?)
            }
        };
        Ok(Self { of: what_for, stream, header, label })
    }
}

/// Bytes that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// What that answers.
    pub of: For,
    /// The stream.
    pub stream: StreamId,
    /// The bytes, and why.
    pub gap: Gap,
}

impl Lacking {
    /// Its body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        put_for(out, self.of);
        out.extend_from_slice(self.stream.as_bytes());
        put_varint(out, self.gap.from);
        put_varint(out, self.gap.to);
        match &self.gap.why {
            Lack::Damaged(text) => {
                out.push(0);
                put_text(out, text);
            }
            Lack::Unread(problem) => {
                out.push(1);
                put_problem(out, problem);
            }
            Lack::Away { medium, why, text } => {
                out.push(2);
                out.extend_from_slice(medium.as_bytes());
                put_text(out, why);
                put_problem(out, text);
            }
        }
    }

    /// What these bytes say.
    pub fn decode(body: &[u8]) -> Result<Self, DataError> {
        let mut of = Cursor::new(body, "gap");
        let (what_for, stream) = (read_for(&mut of)?, StreamId(of.array()?));
        let (from, to) = (of.varint()?, of.varint()?);
        let why = match of.u8()? {
            0 => Lack::Damaged(text(&mut of)?),
            2 => Lack::Away {
                medium: MediumId(of.array()?),
                why: text(&mut of)?,
                text: problem(&mut of)?,
            },
            // What a later version knows besides is no damage.
            _ => Lack::Unread(problem(&mut of)?),
        };
        Ok(Self { of: what_for, stream, gap: Gap { from, to, why } })
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, &text.as_bytes()[..text.floor_char_boundary(LONGEST_TEXT)]);
}

fn text(of: &mut Cursor<'_>) -> Result<String, DataError> {
    let bytes = of.bytes()?;
    if bytes.len() > LONGEST_TEXT {
        return Err(DataError::TooMuch("bytes of text"));
    }
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

fn put_problem(out: &mut Vec<u8>, Problem { sentence, hint }: &Problem) {
    put_text(out, sentence);
    out.push(u8::from(hint.is_some()));
    hint.iter().for_each(|hint| put_text(out, hint));
}

fn problem(of: &mut Cursor<'_>) -> Result<Problem, DataError> {
    let sentence = text(of)?;
    let hint = if of.u8()? == 0 { None } else { Some(text(of)?) };
    Ok(Problem { sentence, hint })
}
