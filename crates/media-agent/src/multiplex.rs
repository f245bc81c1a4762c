//! Multiplexing: blocks of several streams become segments on one device, each with its catalog and its commit.

use std::sync::Arc;
use std::time::Duration;

use capstan_engine::entropy::Entropy;
use capstan_engine::link::FilledBlock;
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::record::{OtherEnd, SessionEnd, SessionEnds, SessionLabel};

use crate::grants::Grants;
use crate::mirror::Mirrors;
use crate::segment::{Heading, Owner, SegmentWriter};
use crate::writer::{Committed, OnCommit, WriteError, WriterOptions, Written};

/// What a multiplexer is told.
pub(crate) enum Message {
    Block(FilledBlock),
    /// Look again whether the segment is complete.
    Poke,
    /// All streams have ended; with the ends of the sessions that ended well.
    Finish(SessionEnds),
}

/// Writes a session's blocks to a device.
pub(crate) struct Multiplexer {
    grants: Arc<Grants>,
    meters: Arc<Meters>,
    writer: SegmentWriter,
    options: WriterOptions,
    on_commit: Box<OnCommit>,
    /// Ordinal of the segment being written.
    current: u32,
    /// Blocks of later segments that came early.
    ahead: Vec<FilledBlock>,
    finish: Option<SessionEnds>,
    written: Written,
}

impl Multiplexer {
    pub fn new(
        grants: Arc<Grants>,
        meters: Arc<Meters>,
        mirrors: Mirrors,
        options: WriterOptions,
        entropy: Arc<Entropy>,
        on_commit: Box<OnCommit>,
    ) -> Self {
        let writer = SegmentWriter::new(mirrors, entropy, meters.clone(), options.now_us);
        Self {
            grants,
            meters,
            writer,
            options,
            on_commit,
            current: 0,
            ahead: Vec::new(),
            finish: None,
            written: Written::default(),
        }
    }

    /// Takes a message, if there is one, and ends the segments that are complete.
    pub fn take(&mut self, message: Option<Message>) -> Result<(), WriteError> {
        match message {
            Some(Message::Block(block)) if block.segment.0 == self.current => self.write(block)?,
            Some(Message::Block(block)) => self.ahead.push(block),
            Some(Message::Finish(ends)) => self.finish = Some(ends),
            Some(Message::Poke) | None => {}
        }
        let age = self.writer.age().unwrap_or(Duration::ZERO);
        if age >= self.options.segment_time {
            self.grants.close_current();
        }
        while self.grants.is_complete() {
            self.end_segment(SessionEnds::default())?;
            self.take_ahead()?;
        }
        Ok(())
    }

    /// Whether all streams have ended and every block was written.
    pub fn is_finished(&self) -> bool {
        self.finish.is_some() && self.ahead.is_empty() && self.grants.is_drained()
    }

    /// Ends the session: after a failure what was begun is dropped, else it is committed. Nothing is granted afterwards.
    pub fn end(mut self, result: Result<(), WriteError>) -> Result<Written, WriteError> {
        let result = result.and_then(|()| {
            let ends = self.finish.take().unwrap_or_default();
            self.end_sessions(ends)?;
            let committed = self.writer.commit()?;
            self.record(&committed)
        });
        if let Err(failure) = &result {
            let saved = self.writer.salvage(failure);
            // What cannot be recorded is found when the medium is written next.
            let _ = self.record(&saved);
            self.writer.abandon();
        }
        self.grants.fail();
        result.map(|()| self.written)
    }

    /// Ends the segment that is open, with the ends of the sessions that have something in it. Each of the others gets a segment of
    /// its own for it, so that it is given up with its session, and not with another one.
    fn end_sessions(&mut self, ends: SessionEnds) -> Result<(), WriteError> {
        let SessionEnds { own, others } = ends;
        let is_here = |e: &OtherEnd| self.writer.has_any_of(e.session.version);
        let (here, apart): (Vec<_>, Vec<_>) = others.into_iter().partition(is_here);
        if self.writer.age().is_some() || own.is_some() {
            self.end_segment(SessionEnds { own, others: here })?;
        }
        for OtherEnd { session, end } in apart {
            let bytes = self.written.of_others.get(&session.session).copied().unwrap_or(0);
            self.writer.begin(heading(session, &self.options))?;
            let end = SessionEnd { bytes_written: bytes, ..end };
            let ended = self.writer.end(Some(end).into(), None)?;
            self.written.bytes += ended.bytes;
            self.written.segments.push(ended.number);
            self.record(&ended.committed)?;
        }
        Ok(())
    }

    /// The next segment is current: writes what came early for it.
    fn take_ahead(&mut self) -> Result<(), WriteError> {
        let (now, later) = std::mem::take(&mut self.ahead)
            .into_iter()
            .partition(|b: &FilledBlock| b.segment.0 == self.current);
        self.ahead = later;
        now.into_iter().try_for_each(|b| self.write(b))
    }

    fn begin(&mut self) -> Result<(), WriteError> {
        if self.writer.age().is_some() {
            return Ok(());
        }
        self.writer.begin(heading(self.options.session.clone(), &self.options))
    }

    fn write(&mut self, mut block: FilledBlock) -> Result<(), WriteError> {
        if self.writer.age().is_none()
            && self.writer.is_ending()
            && let Some(next) = &mut self.options.next_media
        {
            let (meters, on_commit) = (&self.meters, &mut *self.on_commit);
            self.writer.change(next, &mut |committed| recorded(meters, on_commit, committed))?;
        }
        self.begin()?;
        let other = self.options.others.get(&block.stream);
        let version = other.unwrap_or(&self.options.session).version;
        let bytes = self.writer.write(&mut block, Owner { version, sparse: false })?;
        if let Some(other) = other {
            *self.written.of_others.entry(other.session).or_default() += bytes;
        }
        self.grants.release(block.segment, block.buffer);
        if self.writer.is_ending() {
            self.grants.close_current();
        }
        Ok(())
    }

    fn end_segment(&mut self, mut ends: SessionEnds) -> Result<(), WriteError> {
        self.begin()?;
        let Written { bytes, of_others, .. } = &self.written;
        for other in &mut ends.others {
            other.end.bytes_written = of_others.get(&other.session.session).copied().unwrap_or(0);
        }
        let own = ends.own.map(|e| SessionEnd { bytes_written: *bytes, ..e });
        let ended = self.writer.end(SessionEnds { own, ..ends }, None)?;
        self.written.bytes += ended.bytes;
        self.written.segments.push(ended.number);
        self.record(&ended.committed)?;
        self.current += 1;
        self.grants.next_segment();
        Ok(())
    }

    /// Records what became durable.
    fn record(&mut self, committed: &[Committed]) -> Result<(), WriteError> {
        recorded(&self.meters, &mut *self.on_commit, committed)
    }
}

/// The heading of a segment that names that session.
fn heading(session: SessionLabel, options: &WriterOptions) -> Heading {
    Heading { session, keys: options.keys.clone(), copy_of: None, written_us: None }
}

fn recorded(
    meters: &Meters,
    on_commit: &mut OnCommit,
    committed: &[Committed],
) -> Result<(), WriteError> {
    let mut lap = Lap::start();
    for segment in committed {
        on_commit(segment).map_err(WriteError::Commit)?;
    }
    lap.busy(meters.of(Stage::Cell));
    Ok(())
}
