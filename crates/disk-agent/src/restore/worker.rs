//! One thread's share of a restore: writes files as their rows come.

use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::frames::{Expected, FramePort, Lack};
use capstan_engine::meter::{Lap, Stage};
use capstan_format::entry::{Entry, ExtentKind, split};
use capstan_format::id::StreamId;

use super::Files;
use super::losses::{Carried, Loss};
use crate::target::{Created, Made, OpenFile, TargetError, Worker};
use capstan_port::disk::restore::{
    Fed, FileRow, Name, Placed, RestoreEnded, RestoreWorker, TargetFull,
};
use capstan_stream::contents::{Bytes, Contents, opened_by};

/// Streams of which a frame is kept where contents are asked for out of order.
const OUT_OF_ORDER: usize = 8;

/// Writes bytes at an offset of a file.
type WriteAt<'w> = dyn FnMut(u64, &[u8]) -> Result<(), TargetError> + 'w;

/// Writes files. What concerns one file is said, and the next one comes; only a full target is an error.
pub(super) struct FileWorker<'a> {
    files: &'a Files<'a>,
    worker: Worker<'a>,
    /// What comes in the order of the stream that is read now.
    in_order: Contents<'a>,
    /// What is asked for by itself, and where it comes from.
    by_place: Contents<'a>,
    port: Box<dyn FramePort + 'a>,
    /// Whether any contents of the file that is written came.
    came: bool,
    /// Bytes of the file at hand, or of the part of it, that count as restored.
    counted: u64,
    /// What rows that came will ask for: in the order of the stream, and by itself.
    expected: [Vec<Expected>; 2],
    lap: Lap,
}

impl RestoreWorker for FileWorker<'_> {
    fn begin_stream(&mut self) {
        self.in_order.forget();
    }

    fn feed(
        &mut self,
        rows: &mut Vec<Fed>,
        frames: &mut dyn FramePort,
    ) -> Result<(), RestoreEnded> {
        // The time since was the caller's.
        self.lap.split();
        let files = self.files;
        self.expect(rows, frames);
        for fed in rows.drain(..) {
            if files.is_stopped() {
                continue;
            }
            match fed {
                Fed::File { row, is_lent } => self.file(&row, frames, is_lent)?,
                Fed::Node(row) => self.node(&row)?,
                Fed::Parts(name, pieces) => self.parts(&name, &pieces, frames)?,
                Fed::Lost(name, why) => files.lost(&name, &why),
                Fed::NotHad(name, bytes, why) => files.not_had(&name, bytes, &why),
                Fed::Found(name, code, text) => files.found(&name, code, text),
            }
        }
        Ok(())
    }

    fn end_stream(&mut self, _: &mut dyn FramePort) -> Result<(), RestoreEnded> {
        Ok(())
    }
}

impl<'a> FileWorker<'a> {
    /// A worker. `port` gives frames of any stream out of order.
    pub fn new(files: &'a Files<'a>, port: Box<dyn FramePort + 'a>) -> Self {
        let keys = || opened_by(&files.keys);
        Self {
            files,
            worker: files.target.worker(),
            in_order: Contents::new(keys(), 1).metered(files.meters),
            by_place: Contents::new(keys(), OUT_OF_ORDER).metered(files.meters),
            port,
            came: false,
            counted: 0,
            expected: Default::default(),
            lap: Lap::start(),
        }
    }

    /// Says what rows will ask for. What exists already and is kept is not asked for then.
    fn expect(&mut self, rows: &[Fed], frames: &mut dyn FramePort) {
        let [in_order, by_place] = &mut self.expected;
        let mut add = |is_in_order: bool, (stream, from, len): (StreamId, u64, u64)| {
            let to = from.saturating_add(len);
            let list = if is_in_order { &mut *in_order } else { &mut *by_place };
            list.push(Expected { stream, from, to });
        };
        for fed in rows {
            match fed {
                Fed::File { row, .. } if row.entry.extents.is_empty() => {
                    add(true, (row.stream, row.start, row.entry.size));
                }
                Fed::File { row, is_lent } => {
                    let mut logical = row.start;
                    for extent in &row.entry.extents {
                        match extent.kind {
                            ExtentKind::Data => {
                                add(true, (row.stream, logical, extent.len));
                                logical = logical.saturating_add(extent.len);
                            }
                            ExtentKind::At(stream, at) => add(*is_lent, (stream, at, extent.len)),
                            _ => {}
                        }
                    }
                }
                Fed::Parts(_, pieces) => {
                    for piece in pieces {
                        add(piece.is_in_order, (piece.stream, piece.at, piece.len));
                    }
                }
                Fed::Node(_) | Fed::Lost(..) | Fed::NotHad(..) | Fed::Found(..) => {}
            }
        }
        frames.expect(in_order);
        self.port.expect(by_place);
        in_order.clear();
        by_place.clear();
    }

    /// The time since the last mark was work of that stage.
    fn mark(&mut self, stage: Stage) {
        self.lap.busy(self.files.meters.of(stage));
    }

    /// Makes what has a name and no contents, with all its metadata.
    fn node(&mut self, row: &FileRow) -> Result<(), TargetFull> {
        let done = self.make_node(row);
        self.told(row.name.stored(), done)
    }

    /// Writes a file that is not written in parts. `port` gives the frames of the stream that is read now. `is_lent`: all its contents
    /// are in that stream, though its row is elsewhere.
    fn file(
        &mut self,
        row: &FileRow,
        port: &mut dyn FramePort,
        is_lent: bool,
    ) -> Result<(), TargetFull> {
        let done = self.write_file(row, port, is_lent);
        self.told(row.name.stored(), done)
    }

    /// Writes some contents of a file that is written in parts.
    fn parts(
        &mut self,
        name: &Name,
        pieces: &[Placed],
        port: &mut dyn FramePort,
    ) -> Result<(), TargetFull> {
        let done = self.write_parts(name, pieces, port);
        self.told(name.stored(), done)
    }

    fn told(&mut self, stored: &[u8], done: Result<(), TargetError>) -> Result<(), TargetFull> {
        let told = done.or_else(|e| self.files.target_error(stored, &e));
        self.mark(Stage::Source);
        told
    }

    fn make_node(&mut self, row: &FileRow) -> Result<(), TargetError> {
        let files = self.files;
        let (dir, name) = split(row.name.to());
        let entry = files.here(row);
        match self.worker.make_node(&entry, dir, name)? {
            Made::Made => {
                files.counts.files.fetch_add(1, Relaxed);
                files.firsts.add(row.name.stored());
            }
            Made::Skipped => {
                let at = (&entry, dir, name);
                files.stays(&mut self.worker, row.name.stored(), at, row.is_carrier())?;
            }
            Made::NotPermitted => {}
        }
        Ok(())
    }

    fn write_file(
        &mut self,
        row: &FileRow,
        port: &mut dyn FramePort,
        is_lent: bool,
    ) -> Result<(), TargetError> {
        let files = self.files;
        let stored = row.name.stored();
        let unknown = row.entry.extents.iter().find_map(|x| match x.kind {
            ExtentKind::Unknown(n) => {
                Some(format!("its contents are stored in a way ({n}) that needs a newer capstan"))
            }
            _ => None,
        });
        if let Some(why) = unknown {
            files.lost(&row.name, &why);
            return Ok(());
        }
        let (dir, name) = split(row.name.to());
        let entry = files.here(row);
        let is_carrier = row.is_carrier();
        let file = match self.worker.create_file(&entry, dir, name)? {
            Created::File(file) => file,
            Created::Skipped => {
                return files.stays(&mut self.worker, stored, (&entry, dir, name), is_carrier);
            }
        };
        files.firsts.add(stored);
        // Which flags a carrier's file gets says another row.
        if entry.inode_flags != 0 || is_carrier {
            files.may_get_flags(stored);
        }
        if is_carrier {
            files.carried.lock().insert(stored.to_vec(), Carried::Made);
        }
        (self.came, self.counted) = (false, 0);
        if let Err(e) = self.fill(&file, row, port, is_lent) {
            file.leave_unfinished();
            self.uncount();
            return Err(e);
        }
        let loss = files.loss_of(stored);
        if row.is_unreadable || loss.is_some() {
            // What could be read is there; its length is right, as far as media have it.
            file.set_len(row.believed_len)?;
        }
        if files.is_stopped() {
            file.leave_unfinished();
            self.uncount();
            return Ok(());
        }
        if !self.came && loss == Some(Loss::Away) {
            file.leave()?;
            return files.comes_later(&mut self.worker, stored, (dir, name));
        }
        if is_carrier {
            file.leave()?;
        } else if !files.is_whole(stored, row.is_unreadable) && self.worker.withdraw(dir, name)? {
            files.left_alone(&row.name);
            return Ok(());
        } else {
            file.finish(&files.target, &files.as_restored(stored, entry))?;
        }
        files.counts.files.fetch_add(1, Relaxed);
        Ok(())
    }

    /// What was written of the file at hand is of no use: it is not restored.
    fn uncount(&mut self) {
        self.files.counts.bytes.fetch_sub(std::mem::take(&mut self.counted), Relaxed);
    }

    /// Writes the contents of a file.
    fn fill(
        &mut self,
        file: &OpenFile,
        row: &FileRow,
        port: &mut dyn FramePort,
        is_lent: bool,
    ) -> Result<(), TargetError> {
        let entry: &Entry = &row.entry;
        let of = (&row.name, entry.size);
        if entry.extents.is_empty() {
            let place = (row.stream, row.start, entry.size);
            return self.copy(of, place, Some(port), &mut |at, bytes| file.write_all_at(at, bytes));
        }
        let (mut offset, mut logical) = (0_u64, row.start);
        for extent in &entry.extents {
            let from = offset;
            let mut write =
                |at: u64, bytes: &[u8]| file.write_all_at(from.saturating_add(at), bytes);
            match extent.kind {
                ExtentKind::Data => {
                    let place = (row.stream, logical, extent.len);
                    self.copy(of, place, Some(&mut *port), &mut write)?;
                    logical = logical.saturating_add(extent.len);
                }
                ExtentKind::At(stream, at) => {
                    let port = is_lent.then_some(&mut *port as &mut dyn FramePort);
                    self.copy(of, (stream, at, extent.len), port, &mut write)?;
                }
                _ => {}
            }
            offset = offset.saturating_add(extent.len);
        }
        file.set_len(row.believed_len)
    }

    fn write_parts(
        &mut self,
        name: &Name,
        pieces: &[Placed],
        port: &mut dyn FramePort,
    ) -> Result<(), TargetError> {
        let files = self.files;
        let Some(in_parts) = files.in_parts.get(name.stored()) else { return Ok(()) };
        if !files.make_in_parts(&mut self.worker, name.stored(), in_parts)? {
            return Ok(());
        }
        (self.came, self.counted) = (false, 0);
        let (dir, last) = split(name.to());
        let file = self.worker.open_part(dir, last)?;
        let mut written = 0_u64;
        for piece in pieces {
            written = written.saturating_add(piece.len);
            let place = (piece.stream, piece.at, piece.len);
            let port = piece.is_in_order.then_some(&mut *port as &mut dyn FramePort);
            let copied = self.copy((name, in_parts.entry.size), place, port, &mut |at, bytes| {
                file.write_all_at(piece.offset.saturating_add(at), bytes)
            });
            copied.inspect_err(|_| self.uncount())?;
        }
        file.leave()?;
        in_parts.came.fetch_or(self.came, Relaxed);
        files.written(&mut self.worker, name.stored(), (dir, last), written)
    }

    /// Passes `len` bytes of a stream from `from` on to `write`, with their offset; of a file of a size. Without a port they are asked for
    /// by themselves. What cannot be had is left out.
    fn copy(
        &mut self,
        (name, size): (&Name, u64),
        (stream, from, len): (StreamId, u64, u64),
        port: Option<&mut dyn FramePort>,
        write: &mut WriteAt<'_>,
    ) -> Result<(), TargetError> {
        let Self { files, in_order, by_place, port: any, came, counted, lap, .. } = self;
        let (contents, port): (_, &mut dyn FramePort) = match port {
            Some(port) => (in_order, port),
            None => (by_place, &mut **any),
        };
        let source = files.meters.of(Stage::Source);
        let mut done = 0;
        while done < len && !files.is_stopped() {
            let at = from.saturating_add(done);
            if !contents.knows(stream, at) {
                lap.busy(source);
            }
            done += match contents.get(port, stream, at, len - done, lap) {
                Bytes::Data(bytes) => {
                    write(done, bytes)?;
                    *came = true;
                    files.counts.bytes.fetch_add(bytes.len() as u64, Relaxed);
                    *counted += bytes.len() as u64;
                    source.bytes(bytes.len() as u64);
                    bytes.len() as u64
                }
                // They are there already.
                Bytes::Zeros(n) => {
                    *came = true;
                    n
                }
                Bytes::Lacking(n, Lack::Damaged(why)) => {
                    files.lost_range(name, (stream, at, at.saturating_add(n)), &why);
                    n
                }
                Bytes::Lacking(n, why) => {
                    files.not_had(name, size, &why);
                    n
                }
            };
        }
        let read = std::mem::take(&mut contents.bytes_read);
        files.counts.bytes_read.fetch_add(read, Relaxed);
        if std::mem::take(&mut contents.is_unchecked) {
            files.is_unchecked.store(true, Relaxed);
        }
        lap.busy(source);
        Ok(())
    }
}
