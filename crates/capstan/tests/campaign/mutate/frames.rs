//! Changes to the frames of a segment.

use capstan_format::crc::crc32c_of;
use capstan_format::frame::{FRAME_HEADER_LEN, FrameType};
use capstan_format::id::StreamId;
use serde_json::Value;

use super::segments::ids;
use crate::dice::Dice;
use crate::rows::{self, Known};
use crate::segment::{Derived, Frame, Keys, Segment};
use crate::values::{change_bytes, change_json, number};

/// A frame of a type, with its stream's number.
fn find(g: &Segment, dice: &mut Dice, which: impl Fn(&Frame) -> bool) -> Option<(usize, usize)> {
    let all: Vec<_> = (0..g.streams.len())
        .flat_map(|s| (0..g.streams[s].frames.len()).map(move |f| (s, f)))
        .filter(|(s, f)| which(&g.streams[*s].frames[*f]))
        .collect();
    (!all.is_empty()).then(|| *dice.pick(&all))
}

pub fn json_frame<'a>(
    g: &mut Segment,
    dice: &'a mut Dice,
    of: FrameType,
    keys: Option<&Keys<'_>>,
) -> Option<(String, Derived<'a>)> {
    let ids = ids(g);
    let (s, f) = find(g, dice, |frame| frame.header.frame_type == of)?;
    let id = g.streams[s].id;
    let sealer = keys.and_then(|keys| g.sealer(id, of, keys));
    let frame = &mut g.streams[s].frames[f];
    let mut json: Value = serde_json::from_slice(&frame.open(sealer.as_ref())?).ok()?;
    let what = change_json(&mut json, dice, &ids);
    put(frame, id, sealer.as_ref(), json.to_string().as_bytes());
    Some((what, Derived::default()))
}

fn put(
    frame: &mut Frame,
    id: StreamId,
    sealer: Option<&capstan_format::keys::FrameSealer>,
    bytes: &[u8],
) {
    frame.put(bytes);
    if let Some(sealer) = sealer {
        frame.seal(sealer);
    }
    frame.mend(id);
}

pub fn names<'a>(
    g: &mut Segment,
    dice: &'a mut Dice,
    keys: &Keys<'_>,
) -> Option<(String, Derived<'a>)> {
    json_frame(g, dice, FrameType::Names, Some(keys))
}

pub fn batch_rows<'a>(
    g: &mut Segment,
    dice: &'a mut Dice,
    keys: &Keys<'_>,
) -> Option<(String, Derived<'a>)> {
    let (s, f) = find(g, dice, |frame| frame.header.frame_type == FrameType::Batch)?;
    let id = g.streams[s].id;
    let versions =
        ids(g).iter().filter_map(|id| id.parse::<StreamId>().ok().map(|i| i.0)).collect();
    let known = Known { versions, streams: g.streams.iter().map(|s| s.id).collect() };
    let sealer = g.sealer(id, FrameType::Batch, keys);
    let frame = &mut g.streams[s].frames[f];
    let mut batch = frame.batch(sealer.as_ref())?;
    let mut what = rows::change(&mut batch, dice, &known);
    while dice.once_in(3) {
        what += " and ";
        what += &rows::change(&mut batch, dice, &known);
    }
    put(frame, id, sealer.as_ref(), &rows::encoded(&batch));
    Some((what, Derived::default()))
}

pub fn raw_frame<'a>(
    g: &mut Segment,
    dice: &'a mut Dice,
    keys: &Keys<'_>,
    of: FrameType,
) -> Option<(String, Derived<'a>)> {
    let (s, f) = find(g, dice, |frame| frame.header.frame_type == of)?;
    let id = g.streams[s].id;
    let sealer = g.sealer(id, of, keys);
    let frame = &mut g.streams[s].frames[f];
    let mut bytes = frame.open(sealer.as_ref())?;
    let what = change_bytes(&mut bytes, dice);
    put(frame, id, sealer.as_ref(), &bytes);
    Some((what, Derived::default()))
}

pub fn frame_header<'a>(
    g: &mut Segment,
    dice: &'a mut Dice,
    keys: &Keys<'_>,
) -> Option<(String, Derived<'a>)> {
    let (s, f) = find(g, dice, |_| true)?;
    let id = g.streams[s].id;
    let frame_type = g.streams[s].frames[f].header.frame_type;
    let sealer = g.sealer(id, frame_type, keys);
    let frame = &mut g.streams[s].frames[f];
    let plain = frame.open(sealer.as_ref());
    let h = &mut frame.header;
    let what = match dice.below(8) {
        0 => {
            h.sequence = number(dice, h.sequence);
            "sequence"
        }
        1 => {
            h.logical = number(dice, h.logical);
            "logical offset"
        }
        2 => {
            h.frame_type = FrameType::Unknown(dice.next() as u8);
            "type"
        }
        3 => {
            h.frame_type = *dice.pick(&[
                FrameType::Data,
                FrameType::Batch,
                FrameType::Fill,
                FrameType::Label,
                FrameType::Sums,
                FrameType::Copy,
                FrameType::Index,
            ]);
            "type"
        }
        4 => {
            h.sealed = !h.sealed;
            "seal"
        }
        5 => {
            h.payload_crc = None;
            "no checksum"
        }
        // What cannot be written any other way: all bytes of the header, with its checksum.
        n => {
            let mut raw = [0; FRAME_HEADER_LEN];
            h.encode(id, &mut raw);
            let at = 4 + dice.below(36);
            if n == 6 {
                raw[at] = dice.next() as u8;
            } else {
                let word = [8, 16, 24, 32][dice.below(4)];
                let old = u64::from_le_bytes(raw[word..word + 8].try_into().unwrap());
                let len = if word == 32 { 4 } else { 8 };
                let new = number(dice, old).to_le_bytes();
                raw[word..word + len].copy_from_slice(&new[..len]);
            }
            let crc = crc32c_of(&[id.as_bytes(), &raw[..44]]);
            raw[44..].copy_from_slice(&crc.to_le_bytes());
            frame.raw = Some(raw);
            return Some(("raw bytes".into(), Derived::default()));
        }
    };
    // Sealed anew, for what it now is.
    if let (Some(sealer), Some(plain), true) = (&sealer, plain, h.sealed) {
        frame.put(&plain);
        frame.seal(sealer);
    }
    frame.mend(id);
    Some((what.into(), Derived::default()))
}

pub fn fill<'a>(
    g: &mut Segment,
    dice: &'a mut Dice,
    _: &Keys<'_>,
) -> Option<(String, Derived<'a>)> {
    let (s, f) = find(g, dice, |frame| frame.header.frame_type == FrameType::Data)?;
    let stream = &mut g.streams[s];
    let frame = &mut stream.frames[f];
    let h = &mut frame.header;
    (h.frame_type, h.codec, h.sealed, h.stored) =
        (FrameType::Fill, capstan_format::codec::Codec::None, false, 0);
    let old = h.length;
    h.length = number(dice, old).min(u64::MAX - h.logical);
    frame.stored.clear();
    frame.mend(stream.id);
    let more = frame.header.length.wrapping_sub(old);
    // What follows goes on where it ends.
    let id = stream.id;
    for frame in stream.frames[f + 1..].iter_mut().filter(|f| !f.header.sealed) {
        frame.header.logical = frame.header.logical.wrapping_add(more);
        frame.mend(id);
    }
    Some(("for data".into(), Derived::default()))
}

pub fn frames<'a>(
    g: &mut Segment,
    dice: &'a mut Dice,
    _: &Keys<'_>,
) -> Option<(String, Derived<'a>)> {
    let (s, f) = find(g, dice, |_| true)?;
    let frames = &mut g.streams[s].frames;
    let other = dice.below(frames.len());
    let what = match dice.below(4) {
        0 => {
            frames.remove(f);
            "gone"
        }
        1 => {
            let one = frames[f].clone();
            frames.insert(other, one);
            "twice"
        }
        2 => {
            frames.swap(f, other);
            "swapped"
        }
        _ => {
            frames.truncate(f);
            "cut"
        }
    };
    Some((what.into(), Derived::default()))
}
