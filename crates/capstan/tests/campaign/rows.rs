//! Rows of batches, changed to what no walk of a file system gives.

use capstan_format::batch::{Batch, BatchEncoder};
use capstan_format::entry::{Entry, Extent, ExtentKind, Kind, Outcome, OutcomeCode};
use capstan_format::id::StreamId;

use crate::dice::Dice;
use crate::values::{name, number};

/// What rows may point to.
pub struct Known {
    pub versions: Vec<[u8; 16]>,
    pub streams: Vec<StreamId>,
}

/// Changes a batch; says what.
pub fn change(batch: &mut Batch, dice: &mut Dice, known: &Known) -> String {
    if batch.entries.is_empty() || dice.once_in(16) {
        return change_whole(batch, dice);
    }
    let at = dice.below(batch.entries.len());
    let other = batch.entries[dice.below(batch.entries.len())].clone();
    let count = batch.entries.len();
    let e = &mut batch.entries[at];
    match dice.below(17) {
        0 | 1 => e.name = name(dice),
        2 => e.dir = name(dice),
        3 => {
            e.kind = Kind::from_u8(dice.below(10) as u8).unwrap();
            e.outcome = None;
        }
        4 => e.size = number(dice, e.size),
        5 => numbers(e, dice),
        // Links that lead to themselves, to each other, to nothing, or out.
        6 => {
            e.link = true;
            e.target = match dice.below(3) {
                0 => path(e),
                1 => path(&other),
                _ => name(dice),
            };
            let (mine, target) = (path(e), e.target.clone());
            if let Some(back) =
                batch.entries.iter_mut().find(|o| path(o) == target && dice.once_in(2))
            {
                back.link = true;
                back.target = mine;
            }
        }
        7 => {
            e.kind = Kind::Symlink;
            e.target = name(dice);
        }
        // A link to a directory outside, and a file below it.
        8 => {
            let (dir, link) = (e.dir.clone(), e.name.clone());
            *e = Entry {
                kind: Kind::Symlink,
                size: 0,
                target: b"../../..".to_vec(),
                link: false,
                extents: Vec::new(),
                ..e.clone()
            };
            let below = Entry {
                dir: joined(&dir, &link),
                name: b"escaped".to_vec(),
                size: 0,
                ..Entry::default()
            };
            batch.entries.insert(at + 1, below);
        }
        9 => {
            let names: [&[u8]; 6] = [
                b"security.capability",
                b"system.posix_acl_access",
                b"user.x",
                b"trusted.overlay.redirect",
                b"",
                b"a\0b",
            ];
            let value = vec![0xff; [0, 1, 20, 70_000][dice.below(4)]];
            e.xattrs.push((dice.pick(&names).to_vec(), value));
        }
        10 | 11 => extents(e, dice, known),
        12 => {
            e.kind = Kind::Part;
            e.part_offset = number(dice, e.part_offset);
        }
        13 => {
            let code = OutcomeCode::from_u8(1 + dice.below(6) as u8).unwrap();
            let outcome = Outcome { code, errno: number(dice, 5) as u32, offset: number(dice, 0) };
            let row = Entry { kind: Kind::Outcome, outcome: Some(outcome), ..bare(e) };
            batch.entries.push(row);
        }
        14 => {
            let kind = [Kind::Tombstone, Kind::Part, Kind::Dir][dice.below(3)];
            let row = Entry {
                kind,
                size: if kind == Kind::Part { number(dice, 9) } else { 0 },
                ..bare(e)
            };
            batch.entries.insert(dice.below(count), row);
        }
        15 => e.replaces = !e.replaces,
        _ => numbers(e, dice),
    }
    format!("row {at} of {count}")
}

fn change_whole(batch: &mut Batch, dice: &mut Dice) -> String {
    let what = match dice.below(9) {
        0 => {
            batch.data_at = number(dice, batch.data_at);
            "data_at"
        }
        1 => {
            batch.entries.reverse();
            "rows reversed"
        }
        2 => {
            batch.entries.clear();
            "no rows"
        }
        3 => {
            let more = batch.entries.clone();
            batch.entries.extend(more);
            "rows twice"
        }
        4 => {
            let like = batch.entries.first().cloned().unwrap_or_default();
            let row = |n: usize| Entry {
                name: format!("n{n}").into_bytes(),
                size: u64::MAX / 9_000,
                ..like.clone()
            };
            batch.entries.extend((0..9_000).map(row));
            "many rows with much data"
        }
        5 => {
            for n in 0..2_000 {
                let dir = "d/".repeat(n % 900);
                batch.entries.push(Entry {
                    kind: Kind::Dir,
                    dir: dir.trim_end_matches('/').into(),
                    name: b"d".to_vec(),
                    ..Entry::default()
                });
            }
            "deep directories"
        }
        6 => {
            batch.users.push((number(dice, 0) as u32, name(dice)));
            batch.groups.push((number(dice, 0) as u32, name(dice)));
            "names of owners"
        }
        7 => {
            // Each is a link to the next, the last to the first.
            let count = batch.entries.len();
            let paths: Vec<_> = batch.entries.iter().map(path).collect();
            for (n, e) in batch.entries.iter_mut().enumerate() {
                e.link = true;
                e.target = paths[(n + 1) % count].clone();
            }
            "links in a circle"
        }
        _ => {
            batch.entries.iter_mut().for_each(|e| e.size = number(dice, e.size));
            "all sizes"
        }
    };
    what.to_owned()
}

fn numbers(e: &mut Entry, dice: &mut Dice) {
    match dice.below(11) {
        0 => e.mode = [0o7777, 0, u16::MAX][dice.below(3)],
        1 => e.uid = number(dice, e.uid.into()) as u32,
        2 => e.gid = number(dice, e.gid.into()) as u32,
        3 => e.mtime.sec = number(dice, e.mtime.sec as u64) as i64,
        4 => e.mtime.nsec = number(dice, e.mtime.nsec.into()) as u32,
        5 => e.ctime.sec = number(dice, e.ctime.sec as u64) as i64,
        6 => e.ino = number(dice, e.ino),
        7 => e.dev = number(dice, e.dev),
        8 => e.rdev = (number(dice, 1) as u32, number(dice, 1) as u32),
        9 => e.inode_flags = number(dice, 0x10) as u32,
        _ => e.part_offset = number(dice, e.part_offset),
    }
}

fn extents(e: &mut Entry, dice: &mut Dice, known: &Known) {
    e.kind = Kind::File;
    e.link = false;
    let kind = |dice: &mut Dice| match dice.below(6) {
        0 => ExtentKind::Data,
        1 => ExtentKind::Hole,
        2 => ExtentKind::Parts,
        3 if !known.versions.is_empty() => ExtentKind::AsIn(*dice.pick(&known.versions)),
        4 if !known.streams.is_empty() => {
            ExtentKind::At(*dice.pick(&known.streams), number(dice, 0))
        }
        _ => ExtentKind::Unknown(number(dice, 9)),
    };
    if dice.once_in(8) {
        // Thousands of them.
        let (one, len) = (kind(dice), 1 + dice.below(5_000) as u64);
        e.extents = vec![Extent { len, kind: one }; 20_000];
    } else {
        e.extents = (0..1 + dice.below(4))
            .map(|_| Extent { len: number(dice, e.size), kind: kind(dice) })
            .collect();
    }
    // Mostly they make the size, or nobody looks at them.
    let sum = e.extents.iter().try_fold(0u64, |sum, x| sum.checked_add(x.len));
    e.size = sum.unwrap_or(e.size);
}

fn bare(e: &Entry) -> Entry {
    Entry { dir: e.dir.clone(), name: e.name.clone(), ..Entry::default() }
}

fn joined(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() }
}

fn path(e: &Entry) -> Vec<u8> {
    joined(&e.dir, &e.name)
}

/// The batch's bytes.
pub fn encoded(batch: &Batch) -> Vec<u8> {
    let mut encoder = BatchEncoder::new();
    batch.entries.iter().for_each(|e| encoder.push(e));
    batch.users.iter().for_each(|(id, name)| encoder.user(*id, name));
    batch.groups.iter().for_each(|(id, name)| encoder.group(*id, name));
    let mut out = Vec::new();
    encoder.finish(batch.data_at, &mut out);
    out
}
