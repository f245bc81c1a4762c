//! Changes to media: any field of any structure, with checksums and seals that are right again.

mod blocks;
mod database;
mod files;
mod frames;
mod segments;

use std::fs;
use std::path::{Path, PathBuf};

use capstan_format::frame::FrameType;

use self::blocks::{array, attachment, block, medium_header, order_of_blocks};
use self::database::database_backup;
use self::files::{file, library, lock, tape_label};
use self::frames::{batch_rows, fill, frame_header, frames, json_frame, names, raw_frame};
use self::segments::{catalog, in_segment, index, key_record, segment_end, segment_header, stream};
use crate::dice::Dice;
use crate::segment::Keys;
use crate::tape_file::Tape;

/// What is in a file. Another change may have put a pipe in its place, which would never come to an end.
pub fn contents(path: impl AsRef<Path>) -> Option<Vec<u8>> {
    let is_file = fs::metadata(&path).is_ok_and(|meta| meta.is_file());
    if is_file { fs::read(path).ok() } else { None }
}

/// Where blocks lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Container {
    Directory,
    Tape,
    Array,
    /// An array, whose members are tapes.
    TapeArray,
}

impl Container {
    pub fn is_tape(self) -> bool {
        matches!(self, Self::Tape | Self::TapeArray)
    }

    pub fn is_array(self) -> bool {
        matches!(self, Self::Array | Self::TapeArray)
    }
}

/// The media of one place that are changed.
pub struct Site<'a> {
    pub container: Container,
    /// The directories of media, or those of libraries.
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
    ("library", library),
    ("attachment", attachment),
    ("array", array),
    ("array, again", array),
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
