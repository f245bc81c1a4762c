//! In which order an archive gets its files. All in the order of their paths, where that goes to no two tapes. Else tape by tape, so that
//! each is loaded once: first what lies on none, then the files that end on the first tape, and so on. Of a file that goes on on another
//! tape what lies on this one is held until its end is there. The largest of those that end on the next tape needs no room: it is
//! written last, while that one is loaded. So are those for which there is no room, and they load their tapes by turns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use capstan_catalog::row::{Ordinal, Row};
use capstan_format::entry::Kind;
use capstan_format::id::MediumId;
use capstan_port::media::read::spans::Spans;

use crate::error::Result;
use crate::kinds::restore::tree::Tapes;
use crate::reading::contents::FileContents;
use crate::reading::version::VersionView;
use capstan_port::disk::contents::Piece;

/// What of all rows is written in one pass over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pass {
    /// All.
    All,
    /// What has no data on a tape: directories to be made among it. Further names come when their first ones are there.
    OffTape,
    /// Files that end on that tape, by its turn; what lies there of files that end on a later one is held.
    OnTape(usize),
    /// Files that begin on that tape, go on on others, and are not held.
    Across(usize),
    /// Further names.
    Links,
    /// Directories once more, when all that is in them is there, for their times.
    DirsAgain,
}

/// What becomes of a row in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing.
    Not,
    /// It is written.
    Written,
    /// What of it lies on the tape of that turn is held.
    Held(usize),
}

/// A file with data on several tapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Several {
    /// Turns of its first and last tape.
    first: usize,
    last: usize,
    /// Its bytes on all tapes but the last.
    bytes: u64,
    held: bool,
}

/// The passes of an archive.
pub(super) struct Passes<'a> {
    view: &'a VersionView<'a>,
    spans: Spans,
    tapes: Tapes,
    /// All tapes of the version, in the order in which they are read.
    order: Vec<MediumId>,
    /// Passes that have something, of those by tape: it is known when all rows were seen once.
    found: BTreeSet<Pass>,
    /// Files with data on several tapes, likewise.
    several: BTreeMap<Ordinal, Several>,
    /// Bytes of them that may be held at a time.
    room: u64,
    next: VecDeque<Pass>,
    /// Directories came right before what is in them, so their times hold.
    pub dirs_hold: bool,
    last: Option<Pass>,
}

impl<'a> Passes<'a> {
    /// Of a version, with room for so many bytes.
    pub fn new(view: &'a VersionView<'a>, room: u64) -> Result<Self> {
        let tapes = Tapes::of(view.segments.len());
        let mut order: Vec<MediumId> = Vec::new();
        for segment in 0..view.segments.len() {
            let tape = tapes.of_segment(view, segment)?;
            order.extend(tape.filter(|tape| !order.contains(tape)));
        }
        view.cell.in_order_of_writing(&mut order)?;
        let first = if order.len() > 1 { Pass::OffTape } else { Pass::All };
        let next = VecDeque::from([first]);
        let spans = view.spans();
        Ok(Self {
            view,
            spans,
            tapes,
            order,
            found: BTreeSet::new(),
            several: BTreeMap::new(),
            room,
            next,
            dirs_hold: false,
            last: None,
        })
    }

    /// The next pass.
    pub fn next(&mut self) -> Result<Option<Pass>> {
        match self.last {
            Some(Pass::All) if self.dirs_hold => {}
            Some(Pass::All) => self.next.push_back(Pass::DirsAgain),
            Some(Pass::OffTape) => {
                hold_what_fits(&mut self.several, self.order.len(), self.room);
                self.found.extend(self.several.values().map(|file| match file.held {
                    true => Pass::OnTape(file.last),
                    false => Pass::Across(file.first),
                }));
                for turn in 0..self.order.len() {
                    let of_tape = [Pass::OnTape(turn), Pass::Across(turn)];
                    self.next.extend(of_tape.into_iter().filter(|pass| self.found.contains(pass)));
                }
                self.next.extend([Pass::Links, Pass::DirsAgain]);
            }
            // Files that go on on other tapes need it once more.
            Some(Pass::OnTape(turn) | Pass::Across(turn))
                if self.next.front() != Some(&Pass::Across(turn)) =>
            {
                self.view.cell.done_reading(self.order[turn]);
            }
            _ => {}
        }
        self.last = self.next.pop_front();
        Ok(self.last)
    }

    /// What becomes of a row in a pass.
    pub fn turn(&mut self, pass: Pass, row: &Row, contents: &FileContents<'_>) -> Result<Turn> {
        let e = &row.entry;
        let is_written = match pass {
            Pass::All => true,
            Pass::DirsAgain => e.kind == Kind::Dir,
            Pass::Links => e.link,
            _ if e.link => false,
            Pass::OffTape => return self.first_seen(row, contents),
            Pass::Across(turn) => {
                self.several.get(&row.ordinal).is_some_and(|file| !file.held && file.first == turn)
            }
            Pass::OnTape(turn) => match self.several.get(&row.ordinal) {
                Some(file) if file.held && (file.first..file.last).contains(&turn) => {
                    return Ok(Turn::Held(turn));
                }
                Some(file) => file.held && file.last == turn,
                None => self.turns_of(row, contents)?.first() == Some(&turn),
            },
        };
        Ok(if is_written { Turn::Written } else { Turn::Not })
    }

    /// Notes where a row lies that is no further name.
    fn first_seen(&mut self, row: &Row, contents: &FileContents<'_>) -> Result<Turn> {
        let on = self.turns_of(row, contents)?;
        let Some((first, last)) = on.first().copied().zip(on.last().copied()) else {
            return Ok(Turn::Written);
        };
        if first == last {
            self.found.insert(Pass::OnTape(first));
            return Ok(Turn::Not);
        }
        let mut bytes = 0_u64;
        for turn in first..last {
            // It is read in a pass of that tape.
            self.found.extend(on.contains(&turn).then_some(Pass::OnTape(turn)));
            let there = self.on_tape(turn, &contents.pieces(row)?)?;
            bytes = there.iter().fold(bytes, |sum, piece| sum.saturating_add(piece.len));
        }
        self.several.insert(row.ordinal, Several { first, last, bytes, held: false });
        Ok(Turn::Not)
    }

    /// What of some pieces lies on the tape of a turn.
    pub fn on_tape(&self, turn: usize, pieces: &[Piece]) -> Result<Vec<Piece>> {
        let mut there = Vec::new();
        self.each_part(pieces, &mut |on, part| {
            there.extend((on == turn).then_some(part));
        })?;
        Ok(there)
    }

    /// The turns of the tapes that have something of a row that is no further name.
    fn turns_of(&self, row: &Row, contents: &FileContents<'_>) -> Result<BTreeSet<usize>> {
        let mut on = BTreeSet::new();
        if row.entry.kind == Kind::File && row.entry.size > 0 {
            // What is wrong with one that has none is said when it is its turn.
            let pieces = contents.pieces(row).unwrap_or_default();
            self.each_part(&pieces, &mut |turn, _| {
                on.insert(turn);
            })?;
        }
        Ok(on)
    }

    /// Calls with the parts of pieces that lie on tapes, and whose turn these are.
    fn each_part(&self, pieces: &[Piece], each: &mut dyn FnMut(usize, Piece)) -> Result<()> {
        for piece in pieces {
            let Some((stream, from)) = piece.at else { continue };
            let (mut at, end) = (from, from.saturating_add(piece.len));
            while at < end {
                let Some((segment, to)) = self.spans.find(stream, at) else { break };
                let to = to.min(end);
                if let Some(tape) = self.tapes.of_segment(self.view, segment as usize)?
                    && let Some(turn) = self.order.iter().position(|other| *other == tape)
                {
                    let offset = piece.offset + (at - from);
                    each(turn, Piece { offset, len: to - at, at: Some((stream, at)) });
                }
                at = to;
            }
        }
        Ok(())
    }
}

/// Chooses which files are held: of those that begin on a tape all but the largest that ends on the next one, the small ones first,
/// while there is room.
fn hold_what_fits(several: &mut BTreeMap<Ordinal, Several>, tapes: usize, room: u64) {
    let mut files: Vec<&mut Several> = several.values_mut().collect();
    files.sort_by_key(|file| file.bytes);
    let mut used = vec![0_u64; tapes];
    let mut largest: Vec<Option<usize>> = vec![None; tapes];
    for (i, file) in files.iter().enumerate().filter(|(_, file)| file.last == file.first + 1) {
        largest[file.first] = Some(i);
    }
    for (i, file) in files.iter_mut().enumerate() {
        let during = file.first..=file.last;
        let fits = used[during.clone()].iter().all(|used| used.saturating_add(file.bytes) <= room);
        if fits && largest[file.first] != Some(i) {
            file.held = true;
            used[during].iter_mut().for_each(|used| *used += file.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use capstan_format::id::StreamId;

    use super::*;

    #[test]
    fn all_but_the_largest_are_held_while_there_is_room() {
        let held = |files: &[(usize, usize, u64)], room| -> Vec<bool> {
            let of = |(row, (first, last, bytes)): (u32, &(usize, usize, u64))| {
                let at = Ordinal { session: 0, segment: 0, row, stream: StreamId([0; 16]) };
                (at, Several { first: *first, last: *last, bytes: *bytes, held: false })
            };
            let mut several: BTreeMap<Ordinal, Several> = (0..).zip(files).map(of).collect();
            hold_what_fits(&mut several, 4, room);
            several.values().map(|file| file.held).collect()
        };
        assert_eq!(held(&[(0, 1, 7)], 100), [false], "it needs no room");
        assert_eq!(held(&[(0, 1, 7), (0, 1, 9), (0, 2, 18)], 100), [true, false, true]);
        assert_eq!(held(&[(0, 1, 7), (0, 1, 9), (0, 2, 18)], 10), [true, false, false]);
        // The room is free again when the last tape of who had it is done.
        let two = [(0, 1, 10), (0, 1, 11), (2, 3, 10), (2, 3, 12)];
        assert_eq!(held(&two, 10), [true, false, true, false]);
        let long = [(0, 2, 10), (0, 1, 11), (2, 3, 10), (2, 3, 12)];
        assert_eq!(
            held(&long, 10),
            [true, false, false, false],
            "it has the room on that tape still"
        );
        assert_eq!(held(&[(0, 1, u64::MAX), (0, 1, u64::MAX), (0, 1, 1)], 9), [false, false, true]);
    }
}
