//! One worker of a restore: takes what a stream has in a segment, decides which rows are wanted, and passes them with their frames to
//! the disk agent, which writes the files.

use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::row::Row;
use capstan_disk_agent::restore::{FileRow, FileWorker, Piece};
use capstan_engine::frames::{FramePort, Gap, OpenFrame};
use capstan_engine::meter::Stage;
use capstan_format::catalog::StreamContents;
use capstan_format::entry::{Entry, ExtentKind, Kind};
use capstan_format::frame::FrameHeader;
use capstan_format::id::StreamId;
use capstan_media_agent::serve::anywhere::AnyFrames;
use capstan_media_agent::serve::gap;
use capstan_media_agent::serve::in_order::SegmentFrames;
use capstan_media_agent::serve::replicas::Replicas;

use super::referred::Home;
use super::slice::Slice;
use super::{Restore, TreeKeys};
use crate::error::{CellError, Result};
use crate::kinds::restore::wanted::scope::runs;
use crate::reading::serving::lack_of;
use crate::report::outcome::of_outcome;

/// What is wrong with a part of a file without the file.
pub(crate) const PART_ALONE: &str = "a part of it is on the media, but not what it is a part of";

/// One worker.
pub(super) struct Feed<'a> {
    pub restore: &'a Restore<'a>,
    pub worker: FileWorker<'a>,
    pub replicas: Replicas,
}

/// No frames: nobody wants any, or they cannot be read.
struct NoFrames;

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
    pub fn new(restore: &'a Restore<'a>) -> Self {
        let frames = AnyFrames::new(restore.view, restore.spans.clone());
        let keys = TreeKeys(restore.view);
        let worker = FileWorker::new(&restore.files, Box::new(frames), &|| keys.of_contents());
        Self { restore, worker, replicas: Replicas::default() }
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
            let Self { worker, replicas, .. } = self;
            let mut frames = SegmentFrames::new(r.view, (segment as u32, opened), stream, replicas);
            worker.begin_stream();
            worker.mark(Stage::Cell);
            for run in runs(&batches) {
                r.view.rows_of(segment as u32, stream, run, &mut |row| {
                    if r.stop.0.load(Relaxed) {
                        return Ok(());
                    }
                    r.feed_row(worker, &row, stream, &mut frames)
                })?;
            }
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
                    return r.feed_row(worker, &row, stream, &mut NoFrames);
                }
                let path = row.entry.path();
                if let Some(why) = &why
                    && r.live(stream, &row, &path)
                    && (r.wants(&path) || r.instead.contains_key(&path))
                {
                    r.files.not_had(&r.name_of(&path), row.entry.size, why);
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Restore<'_> {
    /// Passes a row on, if it is wanted.
    fn feed_row(
        &self,
        worker: &mut FileWorker<'_>,
        row: &Row,
        stream: &StreamContents,
        frames: &mut dyn FramePort,
    ) -> Result<()> {
        let e = &row.entry;
        if matches!(e.kind, Kind::Dir | Kind::Outcome | Kind::Tombstone) || e.link {
            return Ok(());
        }
        let path = e.path();
        if !self.live(stream, row, &path) {
            return Ok(());
        }
        if row.is_as_in() {
            // The row that has its contents comes, or came; its metadata last.
            if self.wants(&path) && self.overview.is_orphan(&path) {
                let why = "its contents lie in an earlier version, which does not have them";
                self.files.lost(&self.name_of(&path), why);
            }
            return Ok(());
        }
        let Some(shown) = self.place_of(&path) else { return Ok(()) };
        let Some(to) = self.stripped(&shown) else { return Ok(()) };
        let file = self.file_row(row, (&path, &shown, to));
        match e.kind {
            Kind::Part => self.feed_part(worker, row, stream, &file, frames)?,
            Kind::File if self.files.is_in_parts(&path) => {
                if !self.overview.is_whole(row) {
                    self.files.lost(&file.name, super::NOT_THERE);
                }
                self.feed_part(worker, row, stream, &file, frames)?;
            }
            // It comes when the tape is there.
            Kind::File if matches!(self.home(e), Home::There(..)) => return Ok(()),
            Kind::File => worker.file(&file, frames, false)?,
            _ => worker.node(&file)?,
        }
        if e.kind != Kind::Part
            && let Some((code, text)) =
                self.overview.outcome(&path, row.ordinal).and_then(of_outcome)
        {
            self.files.found(&file.name, code, text);
        }
        Ok(())
    }

    /// Passes on what this segment has of a file that is written in parts.
    fn feed_part(
        &self,
        worker: &mut FileWorker<'_>,
        row: &Row,
        stream: &StreamContents,
        file: &FileRow<'_>,
        frames: &mut dyn FramePort,
    ) -> Result<()> {
        let e = &row.entry;
        let mut pieces = if e.kind == Kind::Part { Vec::new() } else { self.read_with_row(e) };
        if e.logical_len() == 0 && pieces.is_empty() {
            return Ok(());
        }
        if !self.files.is_in_parts(file.name.stored) {
            self.files.lost(&file.name, PART_ALONE);
            return Ok(());
        }
        let mut at = row.start;
        for (offset, len) in ranges_here(e) {
            let here = len.min(stream.logical_end.saturating_sub(at));
            let stream = stream.stream;
            pieces.push(Piece { offset, stream, at, len: here, is_in_order: true });
            at = at.saturating_add(len);
        }
        Ok(worker.parts(&file.name, &pieces, frames)?)
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
