//! Changes to segments: their records, catalogs and streams.

use std::fs;

use capstan_format::frame::FrameType;
use capstan_format::id::{BlockIndex, StreamId};
use serde_json::Value;

use super::{Container, Site, contents, listed, tape};
use crate::dice::Dice;
use crate::segment::{Derived, Frame, Keys, Segment};
use crate::values::{change_bytes, change_json, ids_of, number};

/// A change to one segment, some of it to what is derived of the rest.
pub type InSegment =
    for<'a> fn(&mut Segment, &'a mut Dice, &Keys<'_>) -> Option<(String, Derived<'a>)>;

/// Changes a segment, or all of them alike.
pub fn in_segment(site: &Site<'_>, dice: &mut Dice, change: InSegment) -> Option<String> {
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
                    let segment = contents(path).and_then(|b| Segment::parse(&b));
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
        // What lies there are stripes.
        Container::Array | Container::TapeArray => return None,
    }
    same.next();
    done.map(|what| if everywhere { format!("everywhere {what}") } else { what })
}

/// The ids that a segment names.
pub fn ids(segment: &Segment) -> Vec<String> {
    let mut ids = Vec::new();
    ids_of(&segment.header, &mut ids);
    ids_of(&segment.end, &mut ids);
    ids
}

pub fn segment_header<'a>(
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

pub fn key_record<'a>(
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

pub fn segment_end<'a>(
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

pub fn catalog<'a>(
    _: &mut Segment,
    dice: &'a mut Dice,
    _: &Keys<'_>,
) -> Option<(String, Derived<'a>)> {
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

pub fn index<'a>(
    _: &mut Segment,
    dice: &'a mut Dice,
    _: &Keys<'_>,
) -> Option<(String, Derived<'a>)> {
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

pub fn stream<'a>(
    g: &mut Segment,
    dice: &'a mut Dice,
    _: &Keys<'_>,
) -> Option<(String, Derived<'a>)> {
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
