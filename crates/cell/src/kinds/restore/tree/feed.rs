//! One worker of a restore: takes what a stream has in a segment, decides which rows are wanted, and passes them with their frames to
//! the disk agent, which writes the files.

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::row::Row;
use capstan_engine::frames::{FramePort, Gap, OpenFrame};
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::catalog::StreamContents;
use capstan_format::entry::{Entry, ExtentKind, Kind};
use capstan_format::frame::FrameHeader;
use capstan_format::id::StreamId;
use capstan_port::disk::restore::{Fed, Name, Placed, RestoreRun, RestoreWorker};
use capstan_port::media::read::frames::SegmentFrames;
use capstan_port::media::read::known::gap;

use super::referred::Home;
use super::slice::Slice;
use super::{ROWS, Restore, TreeKeys};
use crate::error::{CellError, Result};
use crate::kinds::restore::wanted::scope::runs;
use crate::reading::serving::lack_of;
use crate::report::outcome::of_outcome;

/// What is wrong with a part of a file without the file.
pub(crate) const PART_ALONE: &str = "a part of it is on the media, but not what it is a part of";

/// One worker.
pub(super) struct Feed<'a> {
    pub restore: &'a Restore<'a>,
    pub worker: Pushed<'a>,
    /// The media agent, which serves streams in their order.
    pub served: Box<dyn SegmentFrames + 'a>,
}

/// A worker of the disk agent, and the rows that are to be pushed to it.
pub(super) struct Pushed<'a> {
    worker: Box<dyn RestoreWorker + 'a>,
    pub rows: Vec<Fed>,
    meters: &'a Meters,
    lap: Lap,
}

impl Pushed<'_> {
    /// The time since the last mark, or since rows were pushed, was work of that stage.
    pub fn mark(&mut self, stage: Stage) {
        self.lap.busy(self.meters.of(stage));
    }

    /// Another stream comes, or the same one from elsewhere.
    pub fn begin_stream(&mut self) {
        self.worker.begin_stream();
    }

    /// Nothing more comes of the stream: pushes all rows, and has them written.
    pub fn end_stream(&mut self, frames: &mut dyn FramePort) -> Result<()> {
        self.push_all(frames)?;
        self.mark(Stage::Cell);
        self.worker.end_stream(frames)?;
        self.lap.split();
        Ok(())
    }

    /// Pushes rows, where there are enough.
    pub fn push(&mut self, frames: &mut dyn FramePort) -> Result<()> {
        if self.rows.len() < ROWS { Ok(()) } else { self.push_all(frames) }
    }

    /// Pushes all rows.
    pub fn push_all(&mut self, frames: &mut dyn FramePort) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        self.mark(Stage::Cell);
        self.worker.feed(&mut self.rows, frames)?;
        self.lap.split();
        Ok(())
    }
}

/// No frames: nobody wants any, or they cannot be read.
pub(super) struct NoFrames;

impl FramePort for NoFrames {
    fn frame_at(
        &mut self,
        _: StreamId,
        at: u64,
        _: &mut OpenFrame<'_>,
    ) -> std::result::Result<FrameHeader, Gap> {
        Err(Gap { from: at, to: u64::MAX, why: gap() })
    }
}

impl<'a> Feed<'a> {
    pub fn new(restore: &'a Restore<'a>, agent: &'a dyn RestoreRun) -> Self {
        let media = restore.view.media.agent();
        let worker = agent.worker(media.frames(restore.view, restore.spans.clone()));
        let served = media.frames_in_order(restore.view);
        let worker = Pushed { worker, rows: Vec::new(), meters: restore.meters, lap: Lap::start() };
        Self { restore, worker, served }
    }

    /// Restores a slice of what all streams have in a segment.
    pub fn slice(&mut self, slice: &Slice) -> Result<()> {
        let segment = slice.segment;
        let r = self.restore;
        let place = &r.view.segments[segment];
        let contents = r.view.contents(place)?;
        self.worker.mark(Stage::Cell);
        // A tape is not loaded for a directory on the way.
        let opened = match slice.opened.lock().take() {
            Some(opened) => Some(Ok(opened)),
            None => {
                r.scope.has_data(segment as u32, &place.streams).then(|| r.view.open_data(place))
            }
        };
        // To load and to wind is the device's work.
        self.worker.mark(Stage::Device);
        let is_meant = |s: &&StreamContents| {
            place.streams.contains(&s.stream) && slice.stream.is_none_or(|id| id == s.stream)
        };
        for stream in contents.streams.iter().filter(is_meant) {
            let batches = slice.batches(stream.batches.len());
            let asked = |n: &usize| r.scope.has(segment as u32, stream.stream, *n);
            let batches: Vec<usize> = batches.filter(asked).collect();
            if batches.is_empty() {
                continue;
            }
            let opened = match &opened {
                Some(Ok(opened)) => opened,
                Some(Err(e)) => {
                    self.without_data(segment, stream, &batches, Some(e))?;
                    continue;
                }
                None => {
                    self.without_data(segment, stream, &batches, None)?;
                    continue;
                }
            };
            TreeKeys(r.view).check(stream)?;
            let Self { worker, served, .. } = self;
            let mut frames = served.of((segment as u32, opened), stream);
            worker.begin_stream();
            worker.mark(Stage::Cell);
            for run in runs(&batches) {
                r.view.rows_of(segment as u32, stream, run, &mut |row| {
                    if r.stop.0.load(Relaxed) {
                        return Ok(());
                    }
                    r.feed_row(row, stream, &mut worker.rows);
                    worker.push(&mut *frames)
                })?;
            }
            worker.end_stream(&mut *frames)?;
        }
        Ok(())
    }

    /// The segment's medium cannot be read: every file with data in it is named, what has none is restored. Or nobody wants its
    /// data.
    fn without_data(
        &mut self,
        segment: usize,
        stream: &StreamContents,
        batches: &[usize],
        why: Option<&CellError>,
    ) -> Result<()> {
        let r = self.restore;
        let why = why.map(lack_of);
        let worker = &mut self.worker;
        worker.begin_stream();
        for run in runs(batches) {
            r.view.rows_of(segment as u32, stream, run, &mut |row| {
                if row.entry.logical_len() == 0 {
                    r.feed_row(row, stream, &mut worker.rows);
                    return worker.push(&mut NoFrames);
                }
                let path = row.entry.path();
                if let Some(why) = &why
                    && r.live(stream, &row, &path)
                    && r.has_place(&path)
                {
                    let not_had = Fed::NotHad(r.name_of(path), row.entry.size, why.clone());
                    worker.rows.push(not_had);
                }
                worker.push(&mut NoFrames)
            })?;
        }
        worker.end_stream(&mut NoFrames)
    }
}

impl Restore<'_> {
    /// Passes a row on, if it is wanted.
    fn feed_row(&self, row: Row, stream: &StreamContents, rows: &mut Vec<Fed>) {
        let e = &row.entry;
        if matches!(e.kind, Kind::Dir | Kind::Outcome | Kind::Tombstone) || e.link {
            return;
        }
        let path = e.path();
        if !self.live(stream, &row, &path) {
            return;
        }
        if row.is_as_in() {
            // The row that has its contents comes, or came; its metadata last.
            if self.wants(&path) && self.overview.is_orphan(&path) {
                let why = "its contents lie in an earlier version, which does not have them";
                rows.push(Fed::Lost(self.name_of(path), Cow::Borrowed(why)));
            }
            return;
        }
        let Some(name) = self.name(path) else { return };
        let found = match e.kind {
            Kind::Part => None,
            _ => self.found_of(&row, &name),
        };
        match e.kind {
            Kind::Part => self.feed_part(&row, stream, name, rows),
            Kind::File if self.in_parts.contains(&name.stored) => {
                if !self.overview.is_whole(&row) {
                    rows.push(Fed::Lost(name.clone(), Cow::Borrowed(super::NOT_THERE)));
                }
                self.feed_part(&row, stream, name, rows);
            }
            // It comes when the tape is there.
            Kind::File if matches!(self.home(e), Home::There(..)) => return,
            Kind::File => {
                let row = self.file_row(row, name);
                rows.push(Fed::File { row, is_lent: false });
            }
            _ => rows.push(Fed::Node(self.file_row(row, name))),
        }
        rows.extend(found);
    }

    /// What the backup found of a file.
    pub(super) fn found_of(&self, row: &Row, name: &Name) -> Option<Fed> {
        let outcome = self.overview.outcome(&name.stored, row.ordinal)?;
        let (code, text) = of_outcome(outcome)?;
        Some(Fed::Found(name.clone(), code, text))
    }

    /// Passes on what this segment has of a file that is written in parts.
    fn feed_part(&self, row: &Row, stream: &StreamContents, name: Name, rows: &mut Vec<Fed>) {
        let e = &row.entry;
        let mut pieces = if e.kind == Kind::Part { Vec::new() } else { self.read_with_row(e) };
        if e.logical_len() == 0 && pieces.is_empty() {
            return;
        }
        if !self.in_parts.contains(&name.stored) {
            rows.push(Fed::Lost(name, Cow::Borrowed(PART_ALONE)));
            return;
        }
        let mut at = row.start;
        for (offset, len) in ranges_here(e) {
            let here = len.min(stream.logical_end.saturating_sub(at));
            let stream = stream.stream;
            pieces.push(Placed { offset, stream, at, len: here, is_in_order: true });
            at = at.saturating_add(len);
        }
        rows.push(Fed::Parts(name, pieces));
    }
}

/// What a row has of a file that is written in parts, as offset and length.
fn ranges_here(e: &Entry) -> Vec<(u64, u64)> {
    if e.kind == Kind::Part || e.extents.is_empty() {
        return vec![(e.part_offset, e.size)];
    }
    let mut at = 0_u64;
    let mut ranges = Vec::new();
    for x in &e.extents {
        if x.kind == ExtentKind::Data {
            ranges.push((at, x.len));
        }
        at = at.saturating_add(x.len);
    }
    ranges
}
