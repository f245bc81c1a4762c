//! What a segment holds, as it crosses a connection: records as JSON, and behind them frames and indexes as `format` has them.

use capstan_format::FormatError;
use capstan_format::bytes::{Cursor, put_bytes, put_varint};
use capstan_format::catalog::{Contents, CopyPlace, RawFrame, StreamContents};
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader};
use capstan_format::id::{SegmentId, StreamId};
use capstan_format::index::{FramePlace, INDEX_FRAMES_MAX, decode_index, encode_index};
use capstan_format::record::{SegmentEnd, SegmentHeader, StreamLabel};
use serde::{Deserialize, Serialize};

use super::bytes::{hear_bytes, send_bytes};
use crate::connection::{Broken, Channel};

const WHAT: &str = "contents of a segment";
/// Most bytes of frames and indexes of a segment: a catalog ends at some mebibytes, and a scan has as much.
const MOST: u64 = 1 << 30;

#[derive(Serialize, Deserialize)]
struct Head {
    segment: Option<SegmentId>,
    header: Option<SegmentHeader>,
    end: Option<SegmentEnd>,
    /// Index, offset and length of each block that was found.
    blocks: Option<Vec<(u32, u64, u32)>>,
    streams: Vec<OfStream>,
}

#[derive(Serialize, Deserialize)]
struct OfStream {
    stream: StreamId,
    label: Option<StreamLabel>,
    logical_end: u64,
    /// How many frames follow: of the label, of names, of batches, of sums.
    frames: [usize; 4],
    /// How many parts of the index follow.
    indexes: usize,
    /// Where batches and sums lie in the catalog.
    places: [Vec<(u64, u32, u32)>; 2],
}

/// Sends what a segment holds.
pub fn send_contents(channel: &Channel, contents: &Contents) -> Result<(), Broken> {
    let mut bytes = Vec::new();
    let head = Head {
        segment: contents.segment,
        header: contents.header.clone(),
        end: contents.end.clone(),
        blocks: contents.blocks.as_ref().map(|blocks| {
            blocks.iter().map(|(index, (at, length))| (*index, *at, *length)).collect()
        }),
        streams: contents.streams.iter().map(|s| put_stream(s, &mut bytes)).collect(),
    };
    channel.tell(&head)?;
    send_bytes(channel, &bytes)
}

/// Takes what the other side says that a segment holds.
pub fn hear_contents(channel: &Channel) -> Result<Contents, Broken> {
    let head: Head = channel.hear()?;
    let bytes = hear_bytes(channel, MOST)?;
    contents(head, &bytes).map_err(|e| Broken::Message(e.to_string()))
}

fn put_stream(s: &StreamContents, out: &mut Vec<u8>) -> OfStream {
    let frames = s.metadata();
    let mut header = [0; FRAME_HEADER_LEN];
    for raw in frames {
        raw.header.encode(s.stream, &mut header);
        out.extend_from_slice(&header);
        put_bytes(out, &raw.stored);
    }
    let parts = s.index.chunks(INDEX_FRAMES_MAX);
    let indexes = parts.len();
    for part in parts {
        let index = encode_index(s.stream, part);
        put_varint(out, index.len() as u64);
        out.extend_from_slice(&index);
    }
    let count = |frame: &Option<RawFrame>| usize::from(frame.is_some());
    let places = |places: &[CopyPlace]| places.iter().map(|p| (p.at, p.len, p.number)).collect();
    OfStream {
        stream: s.stream,
        label: s.label.clone(),
        logical_end: s.logical_end,
        frames: [count(&s.label_frame), count(&s.names), s.batches.len(), s.sums.len()],
        indexes,
        places: [places(&s.places), places(&s.sum_places)],
    }
}

fn contents(head: Head, bytes: &[u8]) -> Result<Contents, FormatError> {
    let mut of = Cursor::new(bytes, WHAT);
    let mut streams = Vec::new();
    for stream in head.streams {
        streams.push(take_stream(stream, &mut of)?);
    }
    let blocks = head.blocks.map(|blocks| {
        blocks.into_iter().map(|(index, at, length)| (index, (at, length))).collect()
    });
    let Head { segment, header, end, .. } = head;
    match of.is_empty() {
        true => Ok(Contents { segment, header, end, streams, blocks }),
        false => Err(FormatError::Invalid(WHAT)),
    }
}

fn take_stream(of: OfStream, bytes: &mut Cursor<'_>) -> Result<StreamContents, FormatError> {
    let stream = of.stream;
    let mut frames = |count: usize| -> Result<Vec<RawFrame>, FormatError> {
        let mut frames = Vec::new();
        for _ in 0..count {
            let header: [u8; FRAME_HEADER_LEN] = bytes.array()?;
            let header = FrameHeader::decode(stream, &header)?;
            frames.push(RawFrame { header, stored: bytes.bytes()?.to_vec() });
        }
        Ok(frames)
    };
    let [label, names, batches, sums] = of.frames;
    let (label, names) = (frames(label.min(1))?.pop(), frames(names.min(1))?.pop());
    let (batches, sums) = (frames(batches)?, frames(sums)?);
    let mut index: Vec<FramePlace> = Vec::new();
    for _ in 0..of.indexes {
        let (whose, mut part) = decode_index(bytes.bytes()?)?;
        if whose != stream {
            return Err(FormatError::Invalid(WHAT));
        }
        index.append(&mut part);
    }
    let place = |(at, len, number)| CopyPlace { at, len, number };
    let [places, sum_places] = of.places.map(|places| places.into_iter().map(place).collect());
    Ok(StreamContents {
        stream,
        label: of.label,
        label_frame: label,
        names,
        batches,
        places,
        sums,
        sum_places,
        index,
        logical_end: of.logical_end,
    })
}
