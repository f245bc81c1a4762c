//! In which order an archive gets its files. All in the order of their paths, where that goes to no two tapes. Else tape by tape, so that
//! each is loaded once: first what lies on none, then the files of each tape, and those that begin there and end on another.

use std::collections::{BTreeSet, VecDeque};

use capstan_catalog::row::Row;
use capstan_format::entry::Kind;
use capstan_format::id::MediumId;

use crate::contents::FileContents;
use crate::elsewhere::Spans;
use crate::error::Result;
use crate::restore::Tapes;
use crate::version::VersionView;

/// What of all rows is written in one pass over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pass {
    /// All.
    All,
    /// What has no data on a tape: directories to be made among it. Further names come when their first ones are there.
    OffTape,
    /// Files that lie on that tape, by its turn.
    OnTape(usize),
    /// Files that begin on that tape, and go on on others.
    Across(usize),
    /// Further names.
    Links,
    /// Directories once more, when all that is in them is there, for their times.
    DirsAgain,
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
    next: VecDeque<Pass>,
    /// Directories came right before what is in them, so their times hold.
    pub dirs_hold: bool,
    last: Option<Pass>,
}

impl<'a> Passes<'a> {
    pub fn new(view: &'a VersionView<'a>) -> Result<Self> {
        let tapes = Tapes::of(view.segments.len());
        let mut order: Vec<MediumId> = Vec::new();
        for segment in 0..view.segments.len() {
            let tape = tapes.of_segment(view, segment)?;
            order.extend(tape.filter(|tape| !order.contains(tape)));
        }
        view.cell.in_order_of_writing(&mut order)?;
        let first = if order.len() > 1 { Pass::OffTape } else { Pass::All };
        let next = VecDeque::from([first]);
        let spans = Spans::of(&view.segments);
        Ok(Self {
            view,
            spans,
            tapes,
            order,
            found: BTreeSet::new(),
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

    /// Whether a row is written in a pass.
    pub fn has(&mut self, pass: Pass, row: &Row, contents: &FileContents<'_>) -> Result<bool> {
        let e = &row.entry;
        match pass {
            Pass::All => return Ok(true),
            Pass::DirsAgain => return Ok(e.kind == Kind::Dir),
            Pass::Links => return Ok(e.link),
            _ if e.link => return Ok(false),
            _ => {}
        }
        let of = self.pass_of(row, contents)?;
        if pass == Pass::OffTape && of != pass {
            self.found.insert(of);
        }
        Ok(of == pass)
    }

    /// The pass in which a row is written that is no further name.
    fn pass_of(&self, row: &Row, contents: &FileContents<'_>) -> Result<Pass> {
        let mut on: BTreeSet<usize> = BTreeSet::new();
        if row.entry.kind == Kind::File && row.entry.size > 0 {
            // What is wrong with one that has none is said when it is its turn.
            for piece in contents.pieces(row).unwrap_or_default() {
                let Some((stream, from)) = piece.at else { continue };
                let (mut at, end) = (from, from.saturating_add(piece.len));
                while at < end {
                    let Some((segment, to)) = self.spans.find(stream, at) else { break };
                    if let Some(tape) = self.tapes.of_segment(self.view, segment as usize)? {
                        on.extend(self.order.iter().position(|other| *other == tape));
                    }
                    at = to;
                }
            }
        }
        let mut on = on.into_iter();
        Ok(match (on.next(), on.next()) {
            (None, _) => Pass::OffTape,
            (Some(turn), None) => Pass::OnTape(turn),
            (Some(turn), Some(_)) => Pass::Across(turn),
        })
    }
}
