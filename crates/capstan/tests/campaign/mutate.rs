//! Changes to media: any field of any structure, with checksums and seals that are right again.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use capstan_format::array::stamp::{Role, Stamp};
use capstan_format::block::{BlockKind, DaHeader, MaHeader, PAYLOAD_AT};
use capstan_format::crc::{crc32c, crc32c_of};
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader, FrameType};
use capstan_format::id::{BlockIndex, SegmentId, StreamId};
use capstan_format::idb_backup::{open_idb_backup, read_idb_head, seal_idb_backup};
use capstan_format::keys::{KeyRecord, Purpose, RecoveryCode, Secret};
use capstan_format::record::{decode_record, encode_record};
use serde_json::Value;

use crate::dice::Dice;
use crate::rows::{self, Known};
use crate::segment::{Derived, Frame, Keys, Segment};
use crate::tape_file::Tape;
use crate::values::{change_json, ids_of, number, text};

/// Where blocks lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Container {
    Directory,
    Tape,
    Array,
}

/// The media of one place that are changed.
pub struct Site<'a> {
    pub container: Container,
    /// The directories of media, or that of the library.
    pub dirs: Vec<PathBuf>,
    pub keys: Keys<'a>,
    /// What opens the backup of the internal database.
    pub recovery: Option<&'a str>,
}

type Change = fn(&Site<'_>, &mut Dice) -> Option<String>;

/// What is changed, and how; nothing where the place has no such thing.
pub const CHANGES: &[(&str, Change)] = &[
    ("segment header", |s, d| in_segment(s, d, segment_header)),
    ("key record", |s, d| in_segment(s, d, key_record)),
    ("segment end", |s, d| in_segment(s, d, segment_end)),
    ("stream label", |s, d| in_segment(s, d, |g, d, _| json_frame(g, d, FrameType::Label, None))),
    ("names", |s, d| in_segment(s, d, names)),
    ("rows of a batch", |s, d| in_segment(s, d, batch_rows)),
    ("rows of a batch, again", |s, d| in_segment(s, d, batch_rows)),
    ("rows of a batch, thrice", |s, d| in_segment(s, d, batch_rows)),
    ("bytes of a batch", |s, d| in_segment(s, d, |g, d, k| raw_frame(g, d, k, FrameType::Batch))),
    ("sums", |s, d| in_segment(s, d, |g, d, k| raw_frame(g, d, k, FrameType::Sums))),
    ("data", |s, d| in_segment(s, d, |g, d, k| raw_frame(g, d, k, FrameType::Data))),
    ("frame header", |s, d| in_segment(s, d, frame_header)),
    ("fill", |s, d| in_segment(s, d, fill)),
    ("order of frames", |s, d| in_segment(s, d, frames)),
    ("catalog", |s, d| in_segment(s, d, catalog)),
    ("index", |s, d| in_segment(s, d, index)),
    ("stream", |s, d| in_segment(s, d, stream)),
    ("medium header", medium_header),
    ("block", block),
    ("order of blocks", order_of_blocks),
    ("lock", lock),
    ("database backup", database_backup),
    ("file", file),
    ("tape records", |s, d| {
        let mut tape = tape(s, d)?;
        let what = tape.change(d);
        tape.write();
        Some(what)
    }),
    ("tape label", tape_label),
    ("attachment", attachment),
    ("array", array),
];

/// Changes something; what it was, and where.
pub fn mutate(site: &Site<'_>, dice: &mut Dice, which: usize) -> Option<(&'static str, String)> {
    let (name, change) = CHANGES[which % CHANGES.len()];
    change(site, dice).map(|what| (name, what))
}

/// What is in directories, by name.
pub fn listed(dirs: &[PathBuf], ending: &str) -> Vec<PathBuf> {
    let entries = dirs.iter().flat_map(|d| fs::read_dir(d).into_iter().flatten().flatten());
    let mut all: Vec<_> = entries.map(|e| e.path()).collect();
    all.retain(|p| p.to_str().is_some_and(|p| p.ends_with(ending)));
    all.sort();
    all
}

fn tape(site: &Site<'_>, dice: &mut Dice) -> Option<Tape> {
    let tapes: Vec<_> = site.dirs.iter().map(|d| d.join("tapes")).collect();
    let mut tapes = listed(&tapes, ".tape");
    tapes.retain(|t| fs::metadata(t).is_ok_and(|m| m.len() > 16));
    (!tapes.is_empty()).then(|| Tape::read(dice.pick::<PathBuf>(&tapes)))?
}

type InSegment = for<'a> fn(&mut Segment, &'a mut Dice, &Keys<'_>) -> Option<(String, Derived<'a>)>;

/// Changes a segment, or all of them alike.
fn in_segment(site: &Site<'_>, dice: &mut Dice, change: InSegment) -> Option<String> {
    let everywhere = dice.once_in(3);
    let mut same = dice.fork();
    let mut done = None;
    let mut one = |segment: Option<Segment>| {
        let mut segment = segment?;
        let mut dice = same.clone();
        let (what, derived) = change(&mut segment, &mut dice, &site.keys)?;
        let built = segment.build(derived)?;
        done = Some(what);
        Some(built)
    };
    match site.container {
        Container::Directory => {
            let all = listed(&site.dirs, ".segment");
            let first = dice.below(all.len());
            for (n, path) in all.iter().enumerate() {
                if everywhere || n == first {
                    let segment = fs::read(path).ok().and_then(|b| Segment::parse(&b));
                    if let Some(built) = one(segment) {
                        fs::write(path, built.blocks.concat()).unwrap();
                    }
                }
            }
        }
        Container::Tape => {
            let mut tape = tape(site, dice)?;
            let all = tape.numbers();
            let first = dice.below(all.len());
            for (n, at) in all.into_iter().enumerate().rev() {
                if (everywhere || n == first)
                    && let Some(built) = one(tape.segment(&at))
                {
                    tape.put(at, built);
                }
            }
            tape.write();
        }
        Container::Array => return None,
    }
    same.next();
    done.map(|what| if everywhere { format!("everywhere {what}") } else { what })
}

fn ids(segment: &Segment) -> Vec<String> {
    let mut ids = Vec::new();
    ids_of(&segment.header, &mut ids);
    ids_of(&segment.end, &mut ids);
    ids
}

fn segment_header<'a>(
    g: &mut Segment,
    dice: &'a mut Dice,
    _: &Keys<'_>,
) -> Option<(String, Derived<'a>)> {
    let ids = ids(g);
    let node = match dice.below(3) {
        0 => &mut g.header["medium"],
        1 => &mut g.header["session"],
        _ => &mut g.header,
    };
    let what = change_json(node, dice, &ids);
    Some((what, Derived::default()))
}

fn key_record<'a>(
    g: &mut Segment,
    dice: &'a mut Dice,
    _: &Keys<'_>,
) -> Option<(String, Derived<'a>)> {
    let ids = ids(g);
    let keys = g.header["keys"].as_array_mut()?.first_mut()?;
    let mut what = change_json(keys, dice, &ids);
    if dice.once_in(2) {
        what += &change_json(keys, dice, &ids);
    }
    Some((what, Derived::default()))
}

fn segment_end<'a>(
    g: &mut Segment,
    dice: &'a mut Dice,
    _: &Keys<'_>,
) -> Option<(String, Derived<'a>)> {
    let ids = ids(g);
    let old_copies = dice.once_in(3);
    let end = Box::new(move |end: &mut Value| {
        change_json(end, dice, &ids);
    });
    Some(("a field".into(), Derived { end: Some(end), old_copies, ..Derived::default() }))
}

/// A frame of a type, with its stream's number.
fn find(g: &Segment, dice: &mut Dice, which: impl Fn(&Frame) -> bool) -> Option<(usize, usize)> {
    let all: Vec<_> = (0..g.streams.len())
        .flat_map(|s| (0..g.streams[s].frames.len()).map(move |f| (s, f)))
        .filter(|(s, f)| which(&g.streams[*s].frames[*f]))
        .collect();
    (!all.is_empty()).then(|| *dice.pick(&all))
}

fn json_frame<'a>(
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

fn names<'a>(
    g: &mut Segment,
    dice: &'a mut Dice,
    keys: &Keys<'_>,
) -> Option<(String, Derived<'a>)> {
    json_frame(g, dice, FrameType::Names, Some(keys))
}

fn batch_rows<'a>(
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

fn raw_frame<'a>(
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

/// Changes some bytes, as varints and as words.
fn change_bytes(bytes: &mut Vec<u8>, dice: &mut Dice) -> String {
    // Heads are small and matter most.
    let within = if dice.once_in(2) { bytes.len().min(64) } else { bytes.len() };
    let at = dice.below(within);
    match dice.below(6) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << dice.below(8),
        1 => bytes.truncate(at),
        2 if !bytes.is_empty() => {
            let mut varint = Vec::new();
            capstan_format::bytes::put_varint(&mut varint, number(dice, bytes[at].into()));
            bytes.splice(at..at + 1, varint);
        }
        3 => {
            let more = bytes[at..].to_vec();
            bytes.extend(more);
        }
        4 => {
            let len = dice.below(300);
            let some: Vec<u8> = (0..len).map(|_| dice.next() as u8).collect();
            bytes.splice(at..at, some);
        }
        _ => {
            let word = number(dice, 0).to_le_bytes();
            let end = (at + 8).min(bytes.len());
            bytes.splice(at..end, word);
        }
    }
    format!("at byte {at}")
}

fn frame_header<'a>(
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

fn fill<'a>(g: &mut Segment, dice: &'a mut Dice, _: &Keys<'_>) -> Option<(String, Derived<'a>)> {
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

fn frames<'a>(g: &mut Segment, dice: &'a mut Dice, _: &Keys<'_>) -> Option<(String, Derived<'a>)> {
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

fn catalog<'a>(_: &mut Segment, dice: &'a mut Dice, _: &Keys<'_>) -> Option<(String, Derived<'a>)> {
    let change = Box::new(move |frames: &mut Vec<Frame>| {
        let (at, other) = (dice.below(frames.len()), dice.below(frames.len()));
        match dice.below(7) {
            0 => {
                frames.remove(at);
            }
            1 => frames.swap(at, other),
            2 => {
                let one = frames[at].clone();
                frames.insert(other, one);
            }
            3 => frames.truncate(at),
            4 => {
                let one = frames[at].clone();
                frames.splice(at..at, std::iter::repeat_n(one, 2_000));
            }
            _ => {
                let frame = &mut frames[at];
                let mut bytes = frame.open(None).unwrap_or_default();
                change_bytes(&mut bytes, dice);
                let is_copy = frame.header.frame_type == FrameType::Copy;
                frame.put(&bytes);
                if is_copy && frame.header.codec != capstan_format::codec::Codec::None {
                    frame.header.length = bytes.len() as u64;
                }
            }
        }
    });
    Some(("a frame".into(), Derived { catalog: Some(change), ..Derived::default() }))
}

fn index<'a>(_: &mut Segment, dice: &'a mut Dice, _: &Keys<'_>) -> Option<(String, Derived<'a>)> {
    let change = Box::new(move |places: &mut Vec<capstan_format::index::FramePlace>| {
        let at = dice.below(places.len());
        match (dice.below(7), places.get_mut(at)) {
            (0, Some(p)) => p.block = BlockIndex(number(dice, p.block.0.into()) as u32),
            (1, Some(p)) => p.byte = number(dice, p.byte.into()) as u32,
            (2, Some(p)) => p.logical = number(dice, p.logical),
            (3, Some(p)) => p.sequence = number(dice, p.sequence),
            (4, Some(p)) => p.logical_frame = !p.logical_frame,
            (5, Some(_)) => {
                places.remove(at);
            }
            (_, Some(p)) => {
                let one = *p;
                places.splice(at..at, std::iter::repeat_n(one, 30_000));
            }
            (_, None) => {}
        }
    });
    Some(("a place".into(), Derived { index: Some(change), ..Derived::default() }))
}

fn stream<'a>(g: &mut Segment, dice: &'a mut Dice, _: &Keys<'_>) -> Option<(String, Derived<'a>)> {
    if g.streams.is_empty() {
        return None;
    }
    let at = dice.below(g.streams.len());
    let what = match dice.below(4) {
        0 => {
            g.streams[at].position = number(dice, g.streams[at].position);
            "position"
        }
        1 => {
            g.streams.remove(at);
            "gone"
        }
        2 => {
            let one = g.streams[at].clone();
            g.streams.push(one);
            "twice"
        }
        _ => {
            g.streams[at].id = StreamId(g.id.0);
            let id = g.streams[at].id;
            g.streams[at].frames.iter_mut().for_each(|f| f.mend(id));
            "has the segment's id"
        }
    };
    Some((what.into(), Derived::default()))
}

/// Writes a record block with another content; `None` if it is none.
fn change_record(block: &mut Vec<u8>, dice: &mut Dice) -> Option<String> {
    let ma = MaHeader::decode(block).ok()?;
    let (_, mut json) = decode_record::<Value>(ma.kind, block).ok()?;
    let mut ids = Vec::new();
    ids_of(&json, &mut ids);
    let what = change_json(&mut json, dice, &ids);
    let stamp = Stamp::of(block);
    let made = encode_record(ma.kind, ma.segment, ma.index, &json, ma.length as usize).ok()?;
    *block = made;
    restamp(block, stamp);
    Some(format!("{:?} {what}", ma.kind))
}

fn restamp(block: &mut [u8], stamp: Option<Stamp>) {
    if let Some(stamp) = stamp {
        Stamp { crc: Stamp::crc_of(block), ..stamp }.put(block);
    }
}

fn medium_header(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    if site.container == Container::Tape {
        let mut tape = tape(site, dice)?;
        let mut block = tape.records.first()?.bytes.clone();
        let what = change_record(&mut block, dice)?;
        tape.records[0].put(block);
        tape.write();
        return Some(what);
    }
    let path = dice.pick(&listed(&site.dirs, "medium.capstan")).clone();
    let mut block = fs::read(&path).ok()?;
    let what = change_record(&mut block, dice)?;
    fs::write(path, block).ok()?;
    Some(what)
}

/// Blocks of a file, one after the other.
fn blocks_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut at, mut blocks) = (0, Vec::new());
    while let Ok(ma) = MaHeader::decode(bytes.get(at..).unwrap_or_default()) {
        let Some(block) = bytes.get(at..at + ma.length as usize) else { break };
        blocks.push(block.to_vec());
        at += block.len();
    }
    blocks
}

fn with_blocks(
    site: &Site<'_>,
    dice: &mut Dice,
    change: impl FnOnce(&mut Vec<Vec<u8>>, &mut Dice) -> Option<String>,
) -> Option<String> {
    if site.container == Container::Tape {
        let mut tape = tape(site, dice)?;
        let all: Vec<_> = (0..tape.records.len()).filter(|n| !tape.records[*n].is_mark()).collect();
        let mut blocks: Vec<_> = all.iter().map(|n| tape.records[*n].bytes.clone()).collect();
        let what = change(&mut blocks, dice)?;
        for (n, block) in all.into_iter().zip(blocks) {
            tape.records[n].put(block);
        }
        tape.write();
        return Some(what);
    }
    let all = listed(&site.dirs, ".segment");
    let path = (!all.is_empty()).then(|| dice.pick(&all).clone())?;
    let mut blocks = blocks_of(&fs::read(&path).ok()?);
    let what = change(&mut blocks, dice)?;
    fs::write(path, blocks.concat()).ok()?;
    Some(what)
}

fn block(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    with_blocks(site, dice, |blocks, dice| {
        let (at, of) = (dice.below(blocks.len()), blocks.len());
        let what = change_block(blocks.get_mut(at)?, dice)?;
        Some(format!("{at} of {of}: {what}"))
    })
}

/// Changes something in a block as it lies; its length stays.
fn change_block(block: &mut Vec<u8>, dice: &mut Dice) -> Option<String> {
    let ma = MaHeader::decode(block).ok()?;
    let stamp = Stamp::of(block);
    let is_data = matches!(ma.kind, BlockKind::Data | BlockKind::Catalog);
    let what = match dice.below(6) {
        0 => {
            let mut new = ma;
            match dice.below(3) {
                0 => new.index = BlockIndex(number(dice, ma.index.0.into()) as u32),
                1 => new.length = number(dice, ma.length.into()) as u32,
                _ => new.segment = SegmentId([[0; 16], [7; 16]][dice.below(2)]),
            }
            new.encode(block);
            "MA header".to_owned()
        }
        1 => {
            // Any byte of it, also such as are reserved.
            block[4 + dice.below(56)] = dice.next() as u8;
            let crc = crc32c(&block[..60]);
            block[60..64].copy_from_slice(&crc.to_le_bytes());
            return Some("MA header's bytes".into());
        }
        2 if is_data => {
            let mut da = DaHeader::decode(block).ok()?;
            match dice.below(4) {
                0 => da.position = number(dice, da.position),
                1 => da.used = number(dice, da.used.into()) as u32,
                2 => da.first_frame = number(dice, da.first_frame.into()) as u32,
                _ => da.stream = StreamId(ma.segment.0),
            }
            da.encode(block);
            "DA header".to_owned()
        }
        3 | 4 if is_data => frame_in(block, dice)?,
        _ if is_data => return None,
        _ => return change_record(block, dice),
    };
    restamp(block, stamp);
    Some(what)
}

/// Changes the header of a frame that begins in a block.
fn frame_in(block: &mut [u8], dice: &mut Dice) -> Option<String> {
    let da = DaHeader::decode(block).ok()?;
    let (mut at, mut all) = (PAYLOAD_AT + da.first_frame as usize, Vec::new());
    while let Ok(h) = FrameHeader::decode(da.stream, block.get(at..)?) {
        all.push((at, h));
        at += h.total_len();
        if at >= block.len() {
            break;
        }
    }
    let (at, h) = *all.get(dice.below(all.len()))?;
    let raw = &mut block[at..at + FRAME_HEADER_LEN];
    let old = [h.sequence, h.logical, h.length, h.stored.into()];
    let field = dice.below(4);
    let new = number(dice, old[field]).to_le_bytes();
    let len = if field == 3 { 4 } else { 8 };
    raw[8 + 8 * field..8 + 8 * field + len].copy_from_slice(&new[..len]);
    let crc = crc32c_of(&[da.stream.as_bytes(), &raw[..44]]);
    raw[44..].copy_from_slice(&crc.to_le_bytes());
    Some(format!("frame of type {:?}", h.frame_type))
}

fn order_of_blocks(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    with_blocks(site, dice, |blocks, dice| {
        let (at, other) = (dice.below(blocks.len()), dice.below(blocks.len()));
        match dice.below(4) {
            0 if blocks.len() > 1 => {
                blocks.remove(at);
            }
            1 => {
                let one = blocks.get(at)?.clone();
                blocks.insert(other, one);
            }
            2 if !blocks.is_empty() => blocks.swap(at, other),
            _ => blocks.get_mut(at)?.fill(0),
        }
        Some(format!("block {at} and {other}"))
    })
}

fn lock(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    let all = listed(&site.dirs, ".lock");
    let path = (!all.is_empty()).then(|| dice.pick(&all).clone())?;
    let mut block = fs::read(&path).ok()?;
    let what = change_record(&mut block, dice)?;
    fs::write(&path, &block).ok()?;
    if dice.once_in(4) {
        // As the lock of another version.
        let name = text(dice).replace(['/', '\0'], "_").chars().take(40).collect::<String>();
        fs::write(path.with_file_name(format!("{name}.lock")), &block).ok()?;
    }
    Some(what)
}

fn database_backup(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    if site.container != Container::Directory {
        return None;
    }
    let all: Vec<_> = listed(&site.dirs, ".capstan").into_iter().filter(|p| is_idb(p)).collect();
    let path = (!all.is_empty()).then(|| dice.pick(&all).clone())?;
    let mut bytes = fs::read(&path).ok()?;
    let (mut head, at) = read_idb_head(&bytes).ok()?;
    let what = match dice.below(4) {
        0 => {
            let mut json = serde_json::to_value(&head).ok()?;
            let what = change_json(&mut json, dice, &[]);
            let text = json.to_string().into_bytes();
            let mut new = bytes[..8].to_vec();
            new.extend_from_slice(&(text.len() as u32).to_le_bytes());
            new.extend_from_slice(&crc32c(&text).to_le_bytes());
            new.extend_from_slice(&text);
            new.resize(new.len().next_multiple_of(8), 0);
            new.extend_from_slice(&bytes[at..]);
            bytes = new;
            format!("head {what}")
        }
        1 => {
            let key = &mut head.key;
            let what = change_json(key, dice, &[]);
            let contents = contents_key(&bytes, site.recovery?)?;
            let files = open_idb_backup(&bytes, &contents).ok()?.1;
            let files: Vec<_> = files.iter().map(|(n, b)| (n.as_str(), &b[..])).collect();
            bytes = seal_idb_backup(&head, &contents, &files).ok()?;
            format!("key {what}")
        }
        // Sealed with the right key: names that lead out, and databases that are none.
        _ => {
            let contents = contents_key(&bytes, site.recovery?)?;
            let mut files = open_idb_backup(&bytes, &contents).ok()?.1;
            let n = dice.below(files.len());
            let what = match dice.below(4) {
                0 => {
                    files.push((text(dice), b"x".to_vec()));
                    "a file more"
                }
                1 => {
                    files.get_mut(n)?.0 = text(dice);
                    "a name"
                }
                2 => {
                    let one = files.get(n)?.clone();
                    files.push(one);
                    "a file twice"
                }
                _ => {
                    change_bytes(&mut files.get_mut(n)?.1, dice);
                    "a file's bytes"
                }
            };
            let files: Vec<_> = files.iter().map(|(n, b)| (n.as_str(), &b[..])).collect();
            bytes = seal_idb_backup(&head, &contents, &files).ok()?;
            what.to_owned()
        }
    };
    fs::write(path, bytes).ok()?;
    Some(what)
}

fn is_idb(path: &Path) -> bool {
    path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with("idb-"))
}

fn contents_key(bytes: &[u8], code: &str) -> Option<[u8; 32]> {
    let (head, _) = read_idb_head(bytes).ok()?;
    let record = KeyRecord::from_json(head.key.to_string().as_bytes()).ok()?;
    let code = RecoveryCode::parse(code).ok()?;
    let open = record.ring().unlock(&Secret::RecoveryCode(&code)).ok()?;
    Some(*record.unwrap_all(&open).ok()?.key(Purpose::Contents))
}

/// Changes what kind of file something is, its name or its length.
fn file(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    // Of a library only what is of its tapes.
    let tapes = site.dirs.iter().map(|d| d.join("tapes")).collect();
    let dirs = if site.container == Container::Tape { tapes } else { site.dirs.clone() };
    let mut all = listed(&dirs, "");
    all.retain(|p| p.is_file());
    let path = (!all.is_empty()).then(|| dice.pick(&all).clone())?;
    let name = path.file_name()?.to_str()?.to_owned();
    let what = match dice.below(11) {
        0 => {
            fs::remove_file(&path).ok()?;
            "gone"
        }
        1 => {
            let length = fs::metadata(&path).ok()?.len();
            let length = (number(dice, length) % (length + 2)).min(length * 2);
            OpenOptions::new().write(true).open(&path).ok()?.set_len(length).ok()?;
            "cut"
        }
        2 => {
            OpenOptions::new().write(true).open(&path).ok()?.set_len(100 << 20).ok()?;
            "a long hole behind it"
        }
        3 => {
            fs::remove_file(&path).ok()?;
            fs::create_dir(&path).ok()?;
            "a directory"
        }
        4 => {
            fs::remove_file(&path).ok()?;
            let path = std::ffi::CString::new(path.to_str()?).ok()?;
            // SAFETY: a path that ends in a zero byte.
            unsafe { libc::mkfifo(path.as_ptr(), 0o644) };
            "a pipe"
        }
        5 | 6 => {
            fs::remove_file(&path).ok()?;
            let target = dice
                .pick(&["/dev/zero", "/dev/urandom", ".", &name, "/etc/passwd", "nothing"])
                .to_string();
            std::os::unix::fs::symlink(target, &path).ok()?;
            "a symbolic link"
        }
        7 => {
            let other = dice.pick(&all).clone();
            fs::copy(other, &path).ok()?;
            "another's content"
        }
        8 => {
            let new = dice
                .pick(&[
                    "99999999.segment",
                    "4294967295.segment",
                    "18446744073709551616.segment",
                    "00000000.segment",
                    "1.segment",
                    "idb-1.capstan",
                    "x.lock",
                    "99999999.gone",
                    "00000001.segment.part",
                ])
                .to_string();
            fs::copy(&path, path.with_file_name(new)).ok()?;
            "by another name too"
        }
        9 => {
            fs::write(&path, []).ok()?;
            "empty"
        }
        _ => {
            let mut bytes = fs::read(&path).ok()?;
            change_bytes(&mut bytes, dice);
            fs::write(&path, bytes).ok()?;
            "other bytes"
        }
    };
    Some(format!("{name}: {what}"))
}

fn tape_label(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    if site.container != Container::Tape {
        return None;
    }
    // Those of tapes: the library's own file is not a medium's.
    let tapes: Vec<_> = site.dirs.iter().map(|d| d.join("tapes")).collect();
    let all = listed(&tapes, ".json");
    let path = (!all.is_empty()).then(|| dice.pick(&all).clone())?;
    let mut json: Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
    let what = change_json(&mut json, dice, &[]);
    fs::write(&path, json.to_string()).ok()?;
    Some(format!("{} {what}", path.file_name()?.display()))
}

fn attachment(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    if site.container != Container::Tape {
        return None;
    }
    let mut tape = tape(site, dice)?;
    let of_attachment =
        |bytes: &[u8]| MaHeader::decode(bytes).is_ok_and(|ma| ma.kind.is_of_attachment());
    let all: Vec<_> =
        (0..tape.records.len()).filter(|n| of_attachment(&tape.records[*n].bytes)).collect();
    let at = *all.get(dice.below(all.len()))?;
    let mut block = tape.records[at].bytes.clone();
    let what = if MaHeader::decode(&block).ok()?.kind == BlockKind::AttachmentData {
        let mut contents = block[64..].to_vec();
        change_bytes(&mut contents, dice);
        contents.resize(block.len() - 64, 0);
        block[64..].copy_from_slice(&contents);
        let crc = Stamp::crc_of(&block);
        block[48..52].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32c(&block[..60]);
        block[60..64].copy_from_slice(&crc.to_le_bytes());
        "contents".to_owned()
    } else {
        change_record(&mut block, dice)?
    };
    tape.records[at].put(block);
    tape.write();
    Some(what)
}

/// What is particular to members of arrays: stamps, places in arrays, and members that take another's place.
fn array(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    if site.container != Container::Array {
        return None;
    }
    match dice.below(4) {
        0 => {
            let all = listed(&site.dirs, ".segment");
            let (from, to) = (dice.pick(&all), dice.pick(&all));
            fs::write(to, fs::read(from).ok()?).ok()?;
            Some("a segment takes another's place".into())
        }
        1 => {
            let all = listed(&site.dirs, "medium.capstan");
            let (from, to) = (dice.pick(&all), dice.pick(&all));
            fs::write(to, fs::read(from).ok()?).ok()?;
            Some("a header takes another's place".into())
        }
        _ => with_blocks(site, dice, |blocks, dice| {
            let at = dice.below(blocks.len());
            let block = blocks.get_mut(at)?;
            let mut stamp = Stamp::of(block)?;
            match dice.below(4) {
                0 => stamp.role = *dice.pick(&[Role::Data, Role::Parity, Role::Common]),
                1 => stamp.member = number(dice, stamp.member.into()) as u8,
                2 => stamp.stripe = number(dice, stamp.stripe),
                _ => {
                    let at = 64 + dice.below(block.len() - 64);
                    block[at] ^= 0xff;
                }
            }
            restamp(block, Some(stamp));
            Some(format!("stamp of block {at}"))
        }),
    }
}
