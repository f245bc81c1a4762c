//! Changes to blocks as they lie: their headers and records, their order, what is of arrays and attachments.

use std::fs;
use std::path::PathBuf;

use capstan_format::array::stamp::{Role, Stamp};
use capstan_format::block::{BlockKind, DaHeader, MaHeader, PAYLOAD_AT};
use capstan_format::crc::{crc32c, crc32c_of};
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader};
use capstan_format::id::{BlockIndex, SegmentId, StreamId};
use capstan_format::record::{decode_record, encode_record};
use serde_json::Value;

use super::{Site, contents, listed, tape};
use crate::dice::Dice;
use crate::values::{change_bytes, change_json, ids_of, number};

/// Writes a record block with another content; `None` if it is none.
pub fn change_record(block: &mut Vec<u8>, dice: &mut Dice) -> Option<String> {
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

pub fn medium_header(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    if site.container.is_tape() {
        let mut tape = tape(site, dice)?;
        let mut block = tape.records.first()?.bytes.clone();
        let what = change_record(&mut block, dice)?;
        tape.records[0].put(block);
        tape.write();
        return Some(what);
    }
    let all = listed(&site.dirs, "medium.capstan");
    // A change before this one may have taken it away.
    let path = (!all.is_empty()).then(|| dice.pick(&all).clone())?;
    let mut block = contents(&path)?;
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
    if site.container.is_tape() {
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
    let mut blocks = blocks_of(&contents(&path)?);
    let what = change(&mut blocks, dice)?;
    fs::write(path, blocks.concat()).ok()?;
    Some(what)
}

pub fn block(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
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

pub fn order_of_blocks(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
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

pub fn attachment(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    if !site.container.is_tape() {
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
pub fn array(site: &Site<'_>, dice: &mut Dice) -> Option<String> {
    if !site.container.is_array() {
        return None;
    }
    let takes = |ending: &str, dirs: &[PathBuf], dice: &mut Dice| {
        let all = listed(dirs, ending);
        let (from, to) = (dice.pick(&all), dice.pick(&all));
        fs::write(to, contents(from)?).ok()?;
        Some(format!("{} takes the place of {}", from.display(), to.display()))
    };
    let tapes: Vec<_> = site.dirs.iter().map(|d| d.join("tapes")).collect();
    match (dice.below(4), site.container.is_tape()) {
        (0, false) => takes(".segment", &site.dirs, dice),
        (1, false) => takes("medium.capstan", &site.dirs, dice),
        (0, true) => takes(".tape", &tapes, dice),
        (1, true) => takes(".json", &tapes, dice),
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
