//! Multiplexing: blocks of several streams become segments on one device, each with its catalog and its commit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use capstan_engine::entropy::Entropy;
use capstan_engine::link::FilledBlock;
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::id::{SegmentId, VersionId};
use capstan_format::record::{OtherEnd, SessionEnd, SessionEnds, SessionLabel};

use crate::write::grants::Grants;
use crate::write::keep::Keep;
use crate::write::mirror::Mirrors;
use crate::write::segment::{EndedSegment, SegmentWriter};
use capstan_port::media::write::committed::{Committed, OnCommit, Written};
use capstan_port::media::write::error::WriteError;
use capstan_port::media::write::heading::{Heading, Owner};
use capstan_port::media::write::options::WriterOptions;

/// What a multiplexer is told.
pub(crate) enum Message {
    Block(FilledBlock),
    /// Look again whether the segment is complete.
    Poke,
    /// All streams have ended; with the ends of the sessions that ended well.
    Finish(SessionEnds),
}

/// So many media that fail one after the other, with nothing committed between, are not the media's fault.
const FAILURES: usize = 3;

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
    /// The segments that were ended and have something of a version.
    ended: HashMap<VersionId, Vec<SegmentId>>,
    /// What is not committed, where it is kept.
    keep: Option<Keep>,
    /// Media that failed since the last commit.
    failures: usize,
}

impl Multiplexer {
    pub fn new(
        grants: Arc<Grants>,
        meters: Arc<Meters>,
        mirrors: Mirrors,
        mut options: WriterOptions,
        entropy: Arc<Entropy>,
        on_commit: Box<OnCommit>,
    ) -> Self {
        let mut writer = SegmentWriter::new(mirrors, entropy, meters.clone(), options.now_us);
        let mut keep = None;
        if let Some(keeping) = &mut options.keeping {
            writer.limit_commits(Keep::commit_bytes(keeping.room));
            match Keep::new(keeping) {
                Ok(made) => keep = Some(made),
                Err(e) => (keeping.lost)(format!("{}: {e}", keeping.path)),
            }
        }
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
            ended: HashMap::new(),
            keep,
            failures: 0,
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
            if self.writer.age().is_some() {
                self.end_segment(SessionEnds::default())?;
            } else {
                // All that was granted of it came back empty.
                self.next_segment();
            }
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
            self.commit()
        });
        if let Err(failure) = &result {
            let saved = self.writer.salvage(failure);
            // What cannot be recorded is found when the medium is written next.
            let _ = self.record(&saved);
            self.writer.abandon();
        }
        self.grants.fail();
        self.written.media = self.writer.media();
        result.map(|()| self.written)
    }

    /// Ends the segment that is open, with the ends of the sessions that have something in it. Each of the others gets a segment of
    /// its own for it, so that it is given up with its session, and not with another one.
    fn end_sessions(&mut self, ends: SessionEnds) -> Result<(), WriteError> {
        let SessionEnds { own, others } = ends;
        let is_here = |e: &OtherEnd| self.writer.versions().any(|of| of == e.session.version);
        let (here, apart): (Vec<_>, Vec<_>) = others.into_iter().partition(is_here);
        if self.writer.age().is_some() || own.is_some() {
            self.end_segment(SessionEnds { own, others: here })?;
        }
        for OtherEnd { session, end } in apart {
            let bytes = self.written.of_others.get(&session.session).copied().unwrap_or(0);
            let end = SessionEnd { bytes_written: bytes, ..end };
            let end = self.with_segments(end, session.version);
            self.end_as(&heading(session, &self.options), Some(end).into())?;
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

    /// Begins a segment, if none is open.
    fn begin(&mut self, heading: &Heading) -> Result<(), WriteError> {
        if self.writer.age().is_some() {
            return Ok(());
        }
        self.writer.begin(heading.clone())?;
        if let (Some(keep), Some((id, written_us))) = (&mut self.keep, self.writer.opened()) {
            keep.begin(heading.clone(), id, written_us);
        }
        Ok(())
    }

    /// Goes on on other media, where one of those that are written ends soon and no segment is open.
    fn change(&mut self) -> Result<(), WriteError> {
        if self.writer.age().is_some() || !self.writer.is_ending() {
            return Ok(());
        }
        let Some(next) = &mut self.options.next_media else { return Ok(()) };
        let (meters, on_commit, keep) = (&self.meters, &mut *self.on_commit, &mut self.keep);
        let failures = &mut self.failures;
        self.writer.change(next, &mut |committed| {
            recorded(meters, on_commit, committed)?;
            note(keep, failures, &ids(committed));
            Ok(())
        })
    }

    fn write_now(&mut self, block: &mut FilledBlock, owner: Owner) -> Result<u64, WriteError> {
        self.change()?;
        self.begin(&heading(self.options.session.clone(), &self.options))?;
        self.writer.write(block, owner)
    }

    /// Settles what becomes of one of several media that is full.
    fn settle_full(&mut self) {
        let goes_on = self.options.rereads || self.can_write_again();
        self.writer.set_goes_on(goes_on);
    }

    fn write(&mut self, mut block: FilledBlock) -> Result<(), WriteError> {
        let other = self.options.others.get(&block.stream);
        let (session, version) =
            (other.map(|o| o.session), other.unwrap_or(&self.options.session).version);
        let owner = Owner { version, sparse: false };
        let bytes = loop {
            self.settle_full();
            match self.write_now(&mut block, owner) {
                Ok(bytes) => break bytes,
                Err(e) => self.go_on(e)?,
            }
        };
        if let Some(session) = session {
            *self.written.of_others.entry(session).or_default() += bytes;
        }
        if let Some(why) = self.keep.as_mut().and_then(|keep| keep.block(&block, owner)) {
            if let Some(keeping) = &mut self.options.keeping {
                (keeping.lost)(why);
            }
            // What comes after the next commit is kept again.
            self.grants.close_current();
        }
        self.grants.release(block.segment, block.buffer);
        if self.writer.is_ending() {
            self.grants.close_current();
        }
        Ok(())
    }

    fn end_segment(&mut self, mut ends: SessionEnds) -> Result<(), WriteError> {
        let Written { bytes, of_others, .. } = &self.written;
        for OtherEnd { session, end } in &mut ends.others {
            end.bytes_written = of_others.get(&session.session).copied().unwrap_or(0);
            *end = self.with_segments(end.clone(), session.version);
        }
        let own = ends.own.map(|e| SessionEnd { bytes_written: *bytes, ..e });
        let own = own.map(|e| self.with_segments(e, self.options.session.version));
        let heading = heading(self.options.session.clone(), &self.options);
        self.end_as(&heading, SessionEnds { own, ..ends })?;
        self.next_segment();
        Ok(())
    }

    fn next_segment(&mut self) {
        self.current += 1;
        self.grants.next_segment();
    }

    /// A session's end, with the segments that were ended before and have something of its version.
    fn with_segments(&self, mut end: SessionEnd, version: VersionId) -> SessionEnd {
        let known: HashSet<SegmentId> = end.segments.iter().copied().collect();
        let ended = self.ended.get(&version).into_iter().flatten();
        end.segments.extend(ended.filter(|id| !known.contains(*id)));
        end
    }

    /// Ends the segment that is open; where none is, one of that heading.
    fn end_as(&mut self, heading: &Heading, mut ends: SessionEnds) -> Result<(), WriteError> {
        ends.limit_lists();
        let now = self.keep.is_some().then(self.options.now_us);
        let (here, ended) = loop {
            self.settle_full();
            let begun = self.begin(heading);
            // What is written again has the same id.
            let id = self.writer.opened().map(|(id, _)| id);
            let here: HashSet<VersionId> = self.writer.versions().collect();
            match begun.and_then(|()| self.writer.end(ends.clone(), now)) {
                Ok(ended) => break ((id, here), ended),
                Err(e) => self.go_on(e)?,
            }
        };
        if let (Some(id), versions) = here {
            for version in versions {
                self.ended.entry(version).or_default().push(id);
            }
        }
        if let (Some(keep), Some(now)) = (&mut self.keep, now) {
            keep.ended(ends, now);
        }
        self.take_ended(&ended)?;
        if self.keep.as_ref().is_some_and(Keep::is_due) {
            self.commit()?;
        }
        Ok(())
    }

    fn take_ended(&mut self, ended: &EndedSegment) -> Result<(), WriteError> {
        self.written.bytes += ended.bytes;
        self.written.segments.push(ended.number);
        self.record(&ended.committed)
    }

    /// Makes durable what was ended.
    fn commit(&mut self) -> Result<(), WriteError> {
        let committed = loop {
            self.settle_full();
            match self.writer.commit() {
                Ok(committed) => break committed,
                Err(e) => self.go_on(e)?,
            }
        };
        self.record(&committed)
    }

    /// Whether what is not committed can be written again to other media.
    fn can_write_again(&self) -> bool {
        self.keep.as_ref().is_some_and(Keep::is_whole) && self.failures < FAILURES
    }

    /// Goes on on other media after a failure of those that are written: what these have not committed is written again there.
    /// Gives the failure back, where that cannot be.
    fn go_on(&mut self, mut failure: WriteError) -> Result<(), WriteError> {
        loop {
            if !failure.is_of_media() || !self.can_write_again() {
                return Err(failure);
            }
            self.failures += 1;
            let saved = self.writer.salvage(&failure);
            self.record(&saved)?;
            let Some(keeping) = &mut self.options.keeping else { return Err(failure) };
            self.writer.replace(&mut |members| (keeping.replace)(members, &failure))?;
            self.settle_full();
            match self.write_again() {
                Ok(()) => return Ok(()),
                Err(e) => failure = e,
            }
        }
    }

    /// Writes what is kept to the media at hand. The segment that was open is so again.
    fn write_again(&mut self) -> Result<(), WriteError> {
        let Some(keep) = self.keep.take() else { return Ok(()) };
        let mut durable: Vec<SegmentId> = Vec::new();
        let result = self.write_kept(&keep, &mut durable);
        self.keep = Some(keep);
        note(&mut self.keep, &mut self.failures, &durable);
        result
    }

    fn write_kept(&mut self, keep: &Keep, durable: &mut Vec<SegmentId>) -> Result<(), WriteError> {
        let (meters, on_commit) = (&self.meters, &mut *self.on_commit);
        let mut record = |committed: &[Committed]| {
            recorded(meters, on_commit, committed)?;
            durable.extend(committed.iter().map(|c| c.header.segment));
            Ok(())
        };
        for segment in keep.segments() {
            if self.writer.is_ending()
                && let Some(next) = &mut self.options.next_media
            {
                self.writer.change(next, &mut record)?;
            }
            self.writer.begin_as(segment.heading.clone(), segment.id)?;
            let writer = &mut self.writer;
            keep.blocks(&segment, &mut |mut block, owner| {
                writer.write(&mut block, owner).map(drop)
            })?;
            if let Some((ends, written_us)) = segment.ended {
                let ended = self.writer.end(ends, Some(written_us))?;
                self.written.bytes += ended.bytes;
                record(&ended.committed)?;
            }
        }
        Ok(())
    }

    /// Records what became durable.
    fn record(&mut self, committed: &[Committed]) -> Result<(), WriteError> {
        recorded(&self.meters, &mut *self.on_commit, committed)?;
        note(&mut self.keep, &mut self.failures, &ids(committed));
        Ok(())
    }
}

fn ids(committed: &[Committed]) -> Vec<SegmentId> {
    committed.iter().map(|c| c.header.segment).collect()
}

/// What became durable need not be kept any more.
fn note(keep: &mut Option<Keep>, failures: &mut usize, committed: &[SegmentId]) {
    if let Some(keep) = keep.as_mut().filter(|_| !committed.is_empty()) {
        keep.committed(committed);
        *failures = 0;
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
