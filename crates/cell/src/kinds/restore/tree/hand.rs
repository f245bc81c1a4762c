//! One worker of a restore: takes what a stream has in a segment, reads its frames once and in order, writes files.

mod lent;

use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::row::Row;
use capstan_disk_agent::target::{Created, Made, OpenFile, TargetError, Worker};
use capstan_engine::meter::{Lap, Stage};
use capstan_format::catalog::{Contents, StreamContents};
use capstan_format::codec::Decompressor;
use capstan_format::entry::{Entry, ExtentKind, Kind, OutcomeCode, split};
use capstan_format::frame::{FrameHeader, FrameType};
use capstan_format::id::StreamId;
use capstan_format::index::FramePlace;
use capstan_format::keys::{FrameSealer, Purpose};
use capstan_media_agent::read::frames::FrameReader;

use super::losses::{Carried, Loss, PART_ALONE};
use super::referred::{Home, Stretch};
use super::slice::Slice;
use super::{NOT_THERE, Restore};
use crate::error::{CellError, Result, chain};
use crate::kinds::restore::wanted::scope::runs;
use crate::reading::random::{Elsewhere, Found};
use crate::reading::replicas::Spares;
use crate::report::outcome::of_outcome;

/// Writes bytes at an offset of a file.
type WriteAt<'f> = dyn FnMut(u64, &[u8]) -> std::result::Result<(), TargetError> + 'f;

/// One worker.
pub(super) struct Hand<'a> {
    restore: &'a Restore<'a>,
    worker: Worker<'a>,
    decompressor: Decompressor,
    scratch: Vec<u8>,
    plain: Vec<u8>,
    spares: Spares,
    spare: Vec<u8>,
    elsewhere: Elsewhere<'a>,
    /// Whether any contents of the file that is written came.
    came: bool,
    lap: Lap,
}

/// The data of a stream's part of a segment, in order.
struct Data {
    stream: StreamId,
    /// Which of the version's segments it is.
    segment: usize,
    /// `None` if the segment cannot be read.
    frames: Option<FrameReader>,
    index: Vec<FramePlace>,
    at: usize,
    sealer: Option<FrameSealer>,
    /// The frame in `plain`: its logical begin and end; `None` if it is damaged.
    current: Option<Frame>,
    /// Whether it is what rows elsewhere refer to, and not what rows beside it promise.
    is_lent: bool,
}

/// What is wrong where no frame has a byte of a stream.
const GAP: &str = "some of its data are missing on the medium";

/// Where the next frame begins behind a byte that none has.
fn gap_end(index: &[FramePlace], at: u64) -> Option<u64> {
    index.get(index.partition_point(|p| p.logical <= at)).map(|p| p.logical)
}

/// A frame's logical begin and end, and whether it has bytes (or stands for zeros); or what is wrong with it.
type Frame = (u64, u64, std::result::Result<bool, Unhad>);

/// Why a frame is not to be had.
enum Unhad {
    /// This is wrong with it.
    Lost(String),
    /// It could not be read now.
    Away(CellError),
}

impl Unhad {
    fn text(&self) -> String {
        match self {
            Self::Lost(why) => why.clone(),
            Self::Away(e) => chain(e),
        }
    }
}

impl<'a> Hand<'a> {
    pub(super) fn new(restore: &'a Restore<'a>) -> Self {
        Self {
            restore,
            worker: restore.target.worker(),
            decompressor: Decompressor::default(),
            scratch: Vec::new(),
            plain: Vec::new(),
            spares: Spares::default(),
            spare: Vec::new(),
            elsewhere: Elsewhere::new(restore.view, restore.spans.clone()),
            came: false,
            lap: Lap::start(),
        }
    }

    fn mark(&mut self, stage: Stage) {
        self.lap.busy(self.restore.meters.of(stage));
    }

    /// Restores a slice of what all streams have in a segment.
    pub(super) fn slice(&mut self, slice: &Slice) -> Result<()> {
        let segment = slice.segment;
        let r = self.restore;
        let place = &r.view.segments[segment];
        let contents = r.view.contents(place)?;
        self.mark(Stage::Cell);
        // A tape is not loaded for a directory on the way.
        let opened = match slice.opened.lock().take() {
            Some(opened) => Some(Ok(opened)),
            None => {
                r.scope.has_data(segment as u32, &place.streams).then(|| r.view.open_data(place))
            }
        };
        // To load and to wind is the device's work.
        self.mark(Stage::Device);
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
            let (reader, layout) = match &opened {
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
            let frames = FrameReader::of(reader, layout, stream.stream);
            let mut data = self.data_of(segment, stream, layout, frames)?;
            self.mark(Stage::Cell);
            for run in runs(&batches) {
                r.view.rows_of(segment as u32, stream, run, &mut |row| {
                    if r.stop.0.load(Relaxed) {
                        return Ok(());
                    }
                    self.row(&row, stream, &mut data)
                })?;
            }
        }
        Ok(())
    }

    /// What of a stream lies in a segment; `stream` has its label, `layout` says where its frames are.
    fn data_of(
        &self,
        segment: usize,
        stream: &StreamContents,
        layout: &Contents,
        frames: FrameReader,
    ) -> Result<Data> {
        let label = stream.label.as_ref().map(|l| &l.session);
        let sealer = self.restore.view.keys.sealer(Purpose::Contents, label, stream.stream)?;
        let index = layout.streams.iter().find(|s| s.stream == stream.stream);
        let index = index.map(|s| s.index.as_slice()).unwrap_or_default();
        Ok(Data {
            stream: stream.stream,
            segment,
            frames: Some(frames),
            index: index.iter().filter(|p| p.logical_frame).copied().collect(),
            at: 0,
            sealer,
            current: None,
            is_lent: false,
        })
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
        let mut none = Data {
            stream: stream.stream,
            segment,
            frames: None,
            index: Vec::new(),
            at: 0,
            sealer: None,
            current: None,
            is_lent: false,
        };
        for run in runs(batches) {
            r.view.rows_of(segment as u32, stream, run, &mut |row| {
                if row.entry.logical_len() == 0 {
                    return self.row(&row, stream, &mut none);
                }
                let path = row.entry.path();
                if let Some(e) = why
                    && r.live(stream, &row, &path)
                    && (r.wants(&path) || r.instead.contains_key(&path))
                {
                    r.not_had(&path, row.entry.size, e);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn row(&mut self, row: &Row, stream: &StreamContents, data: &mut Data) -> Result<()> {
        let r = self.restore;
        let e = &row.entry;
        if matches!(e.kind, Kind::Dir | Kind::Outcome | Kind::Tombstone) || e.link {
            return Ok(());
        }
        let path = e.path();
        if !r.live(stream, row, &path) {
            return Ok(());
        }
        if row.is_as_in() {
            // The row that has its contents comes, or came; its metadata last.
            if r.wants(&path) && r.overview.is_orphan(&path) {
                r.lost(&path, "its contents lie in an earlier version, which does not have them");
            }
            return Ok(());
        }
        let Some(to) = r.place_of(&path) else { return Ok(()) };
        let Some(to) = r.stripped(&to) else { return Ok(()) };
        let (dir, name) = split(to);
        let result = match e.kind {
            Kind::Part => self.write_part(row, stream, &path, dir, name, data),
            Kind::File if r.in_parts.contains_key(&path) => {
                if !r.overview.is_whole(row) {
                    r.lost(&path, NOT_THERE);
                }
                self.write_part(row, stream, &path, dir, name, data)
            }
            // It comes when the tape is there.
            Kind::File if matches!(r.home(e), Home::There(..)) => return Ok(()),
            Kind::File => self.write_file(&r.here(row), row, &path, dir, name, data),
            _ => {
                let entry = r.here(row);
                self.worker.make_node(&entry, dir, name).and_then(|made| {
                    r.counts.files.fetch_add(u64::from(matches!(made, Made::Made)), Relaxed);
                    match made {
                        Made::Made => r.firsts.add(&path),
                        Made::Skipped => {
                            r.first_stays(&mut self.worker, &path, (&entry, dir, name))?;
                        }
                        Made::NotPermitted => {}
                    }
                    Ok(())
                })
            }
        };
        if let Err(e) = result {
            r.target_error(&path, &e)?;
        }
        if e.kind != Kind::Part
            && let Some((code, text)) = r.overview.outcome(&path, row.ordinal).and_then(of_outcome)
        {
            if r.overview.links > 0 {
                r.found.lock().insert(path.clone(), (code, text.clone()));
            }
            r.error(code, &path, text);
        }
        self.mark(Stage::Source);
        Ok(())
    }

    fn write_file(
        &mut self,
        entry: &Entry,
        row: &Row,
        path: &[u8],
        dir: &[u8],
        name: &[u8],
        data: &mut Data,
    ) -> std::result::Result<(), TargetError> {
        let r = self.restore;
        let unknown = entry.extents.iter().find_map(|x| match x.kind {
            ExtentKind::Unknown(n) => {
                Some(format!("its contents are stored in a way ({n}) that needs a newer capstan"))
            }
            _ => None,
        });
        if let Some(why) = unknown {
            r.lost(path, &why);
            return Ok(());
        }
        let is_carrier = r.overview.is_carrier(row.ordinal);
        let file = match self.worker.create_file(entry, dir, name)? {
            Created::File(file) => file,
            Created::Skipped => {
                if is_carrier {
                    r.carried.lock().insert(path.to_vec(), Carried::Left);
                }
                return r.first_stays(&mut self.worker, path, (entry, dir, name));
            }
        };
        r.firsts.add(path);
        // Which flags a carrier's file gets says another row.
        if row.entry.inode_flags != 0 || is_carrier {
            r.may_get_flags(path);
        }
        if is_carrier {
            r.carried.lock().insert(path.to_vec(), Carried::Made);
        }
        self.came = false;
        if let Err(e) = self.fill(&file, entry, row, path, data) {
            file.leave_unfinished();
            return Err(e);
        }
        let mut outcomes = r.overview.outcomes(path, row.ordinal);
        if outcomes.any(|o| o.code == OutcomeCode::Unreadable) || r.damaged_now(path) {
            // What could be read is there; its length is right, as far as media have it.
            file.set_len(r.overview.believed_len(row))?;
        }
        if r.stop.0.load(Relaxed) {
            file.leave_unfinished();
            return Ok(());
        }
        if !self.came && r.loss_of(path) == Some(Loss::Away) {
            file.leave()?;
            return r.comes_later(&mut self.worker, path, (dir, name));
        }
        if is_carrier {
            file.leave()?;
        } else if !r.is_whole(path, row.ordinal) && self.worker.withdraw(dir, name)? {
            r.left_alone(path);
            return Ok(());
        } else {
            file.finish(r.target, &r.as_restored(path, entry.clone()))?;
        }
        r.counts.files.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Writes the contents of a file.
    fn fill(
        &mut self,
        file: &OpenFile,
        entry: &Entry,
        row: &Row,
        path: &[u8],
        data: &mut Data,
    ) -> std::result::Result<(), TargetError> {
        let r = self.restore;
        let mut offset = 0_u64;
        let mut logical = row.start;
        if entry.extents.is_empty() {
            self.copy(path, data, logical, entry.size, &mut |at, bytes| {
                file.write_all_at(at, bytes)
            })?;
        } else {
            for extent in &entry.extents {
                if extent.kind == ExtentKind::Data {
                    let from = offset;
                    self.copy(path, data, logical, extent.len, &mut |at, bytes| {
                        file.write_all_at(from.saturating_add(at), bytes)
                    })?;
                    logical = logical.saturating_add(extent.len);
                }
                if let ExtentKind::At(_, at) = extent.kind
                    && data.is_lent
                {
                    let from = offset;
                    self.copy(path, data, at, extent.len, &mut |at, bytes| {
                        file.write_all_at(from.saturating_add(at), bytes)
                    })?;
                } else if let ExtentKind::At(stream, at) = extent.kind {
                    let from = offset;
                    let (of, place) = ((path, entry.size), (stream, at, extent.len));
                    self.copy_elsewhere(of, place, &mut |at, bytes| {
                        file.write_all_at(from.saturating_add(at), bytes)
                    })?;
                }
                offset = offset.saturating_add(extent.len);
            }
            file.set_len(r.overview.believed_len(row))?;
        }
        Ok(())
    }

    /// Writes what this segment has of a file that is written in parts.
    fn write_part(
        &mut self,
        row: &Row,
        stream: &StreamContents,
        path: &[u8],
        dir: &[u8],
        name: &[u8],
        data: &mut Data,
    ) -> std::result::Result<(), TargetError> {
        let r = self.restore;
        let e = &row.entry;
        let elsewhere = if e.kind == Kind::Part { Vec::new() } else { r.read_with_row(e) };
        if e.logical_len() == 0 && elsewhere.is_empty() {
            return Ok(());
        }
        let Some(file) = r.in_parts.get(path) else {
            r.lost(path, PART_ALONE);
            return Ok(());
        };
        if !r.make_in_parts(&mut self.worker, path, file)? {
            return Ok(());
        }
        self.came = false;
        let part = self.worker.open_part(dir, name)?;
        let end = stream.logical_end;
        let mut logical = row.start;
        let whole = [(e.part_offset, e.size)];
        let ranges: Vec<(u64, u64)> = if e.kind == Kind::Part || e.extents.is_empty() {
            whole.to_vec()
        } else {
            let mut at = 0_u64;
            let mut ranges = Vec::new();
            for x in &e.extents {
                if x.kind == ExtentKind::Data {
                    ranges.push((at, x.len));
                }
                at = at.saturating_add(x.len);
            }
            ranges
        };
        let mut written = 0_u64;
        for Stretch { offset, stream, at, len, .. } in elsewhere {
            written = written.saturating_add(len);
            self.copy_elsewhere((path, e.size), (stream, at, len), &mut |to, bytes| {
                part.write_all_at(offset.saturating_add(to), bytes)
            })?;
        }
        for (offset, len) in ranges {
            let here = len.min(end.saturating_sub(logical));
            written = written.saturating_add(here);
            self.copy(path, data, logical, here, &mut |at, bytes| {
                part.write_all_at(offset.saturating_add(at), bytes)
            })?;
            logical = logical.saturating_add(len);
        }
        part.leave()?;
        file.came.fetch_or(self.came, Relaxed);
        r.written(&mut self.worker, path, (dir, name), written)
    }

    /// Passes `len` bytes of the stream from `from` on to `write`, with their offset. What is damaged is left out.
    fn copy(
        &mut self,
        path: &[u8],
        data: &mut Data,
        from: u64,
        len: u64,
        write: &mut WriteAt<'_>,
    ) -> std::result::Result<(), TargetError> {
        let r = self.restore;
        let end = from.saturating_add(len);
        let mut at = from;
        while at < end && !r.stop.0.load(Relaxed) {
            self.frame_at(data, at);
            let Some((begin, stop, state)) = &data.current else {
                r.lost_range(path, (data.stream, at, end), GAP);
                return Ok(());
            };
            let stop = (*stop).min(end);
            match state {
                Ok(true) => {
                    let bytes = &self.plain[(at - begin) as usize..(stop - begin) as usize];
                    write(at - from, bytes)?;
                    self.came = true;
                    self.restore.counts.bytes.fetch_add(bytes.len() as u64, Relaxed);
                    self.restore.meters.of(Stage::Source).bytes(bytes.len() as u64);
                }
                // Filling: zeros, which are there already.
                Ok(false) => self.came = true,
                Err(Unhad::Lost(why)) => r.lost_range(path, (data.stream, at, stop), why),
                Err(Unhad::Away(e)) => r.not_had(path, len, e),
            }
            at = stop;
        }
        self.mark(Stage::Source);
        Ok(())
    }

    /// The same of another stream, wherever that lies, for a file of a size.
    fn copy_elsewhere(
        &mut self,
        (path, size): (&[u8], u64),
        (stream, from, len): (StreamId, u64, u64),
        write: &mut WriteAt<'_>,
    ) -> std::result::Result<(), TargetError> {
        let r = self.restore;
        let mut done = 0;
        while done < len && !r.stop.0.load(Relaxed) {
            done += match self.elsewhere.get(stream, from.saturating_add(done), len - done) {
                Found::Bytes(bytes) => {
                    write(done, bytes)?;
                    self.came = true;
                    r.counts.bytes.fetch_add(bytes.len() as u64, Relaxed);
                    r.meters.of(Stage::Source).bytes(bytes.len() as u64);
                    bytes.len() as u64
                }
                // They are there already.
                Found::Zeros(n) => n,
                Found::Lost(n, e) => {
                    let at = from.saturating_add(done);
                    match self.elsewhere.is_unopened {
                        true => r.not_had(path, size, &e),
                        false => {
                            let range = (stream, at, at.saturating_add(n));
                            r.lost_range(path, range, &crate::error::chain(&e));
                        }
                    }
                    n
                }
            };
        }
        let read = std::mem::take(&mut self.elsewhere.bytes_read);
        r.bytes_read.fetch_add(read, Relaxed);
        r.meters.of(Stage::Device).bytes(read);
        self.mark(Stage::Device);
        Ok(())
    }

    /// Makes the frame that has the logical byte `at` the current one.
    fn frame_at(&mut self, data: &mut Data, at: u64) {
        if data.current.as_ref().is_some_and(|(from, to, _)| (*from..*to).contains(&at)) {
            return;
        }
        data.current = None;
        self.mark(Stage::Source);
        let first = self.first_frame_at(data, at);
        // What it should have and has not counts as well: it may be a copy that lacks it.
        if !matches!(&first, Some((_, to, Ok(_))) if at < *to)
            && !matches!(&first, Some((_, _, Err(Unhad::Away(_)))))
        {
            self.restore.hurt.lock().insert(data.segment);
        }
        data.current = match first {
            Some((_, to, Ok(_))) if at < to => first,
            first => self
                .spare_frame_at(data, at, &first)
                .or_else(|| self.maybe_away(at, &data.index, first))
                .or_else(|| {
                    let gap = Err(Unhad::Lost(GAP.to_owned()));
                    Some((at, gap_end(&data.index, at)?, gap))
                }),
        };
    }

    /// What is wrong where no place gave the frame that has the logical byte `at`: that one could not be read now, which may have it, comes
    /// first.
    fn maybe_away(&mut self, at: u64, index: &[FramePlace], first: Option<Frame>) -> Option<Frame> {
        let away = self.spares.away.take().map(Unhad::Away);
        match (first.filter(|f| at < f.1), away) {
            (Some((from, to, Err(Unhad::Lost(_)))), Some(away)) => Some((from, to, Err(away))),
            (None, Some(away)) => Some((at, gap_end(index, at)?, Err(away))),
            (first, _) => first,
        }
    }

    /// The frame that has the logical byte `at`, or one before it, from where the segment was opened.
    fn first_frame_at(&mut self, data: &mut Data, at: u64) -> Option<Frame> {
        // Rows ask in ascending order nearly always; else it is looked for.
        if data.index.get(data.at).is_some_and(|p| p.logical > at) {
            data.at = 0;
        }
        let skip = data.index[data.at..].partition_point(|p| p.logical <= at);
        let found = (data.at + skip).checked_sub(1)?;
        let place = data.index.get(found).copied()?;
        let frames = data.frames.as_mut()?;
        let next = data.index.get(found + 1).map(|p| p.logical);
        data.at = found;
        let r = self.restore;
        Some(match frames.frame(&place) {
            Ok((header, stored)) => {
                let end = header.logical.saturating_add(header.length);
                r.bytes_read.fetch_add(u64::from(header.stored), Relaxed);
                let device = r.meters.of(Stage::Device);
                device.bytes(u64::from(header.stored));
                self.lap.busy(device);
                if header.payload_crc.is_none()
                    && data.sealer.is_none()
                    && header.frame_type != FrameType::Fill
                {
                    r.unchecked.store(true, Relaxed);
                }
                let opened = match header.frame_type {
                    FrameType::Fill => Ok(false),
                    _ => header
                        .open(
                            stored,
                            data.sealer.as_ref(),
                            &mut self.decompressor,
                            &mut self.scratch,
                            &mut self.plain,
                        )
                        .map(|()| true)
                        .map_err(|e| Unhad::Lost(e.to_string())),
                };
                self.lap.busy(r.meters.of(Stage::Cpu));
                (place.logical, end, opened)
            }
            // How long it was is known from the one after it.
            Err(e) => {
                let text = e.to_string();
                let why = match r.view.media.unread(frames.medium(), e) {
                    e @ CellError::Away { .. } => Unhad::Away(e),
                    _ => Unhad::Lost(text),
                };
                (place.logical, next.unwrap_or(u64::MAX), Err(why))
            }
        })
    }

    /// The frame that has the logical byte `at`, from another mirror or copy.
    fn spare_frame_at(&mut self, data: &Data, at: u64, first: &Option<Frame>) -> Option<Frame> {
        let r = self.restore;
        let place = r.view.segments.get(data.segment)?;
        let (plain, scratch) = (&mut self.plain, &mut self.scratch);
        let decompressor = &mut self.decompressor;
        let mut good = |header: &FrameHeader, stored: &[u8]| {
            header.open(stored, data.sealer.as_ref(), decompressor, scratch, plain).is_ok()
        };
        let why = || match first {
            Some((_, _, Err(why))) => why.text(),
            _ => GAP.to_owned(),
        };
        let spare = &mut self.spare;
        let header =
            self.spares.frame_at(r.view, place, data.stream, at, spare, &why, &mut good)?;
        r.bytes_read.fetch_add(u64::from(header.stored), Relaxed);
        let end = header.logical.saturating_add(header.length);
        Some((header.logical, end, Ok(header.frame_type != FrameType::Fill)))
    }
}
