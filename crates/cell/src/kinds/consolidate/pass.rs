//! Passing frames on: the live ones of a chain, as they are, into segments of the new version.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use capstan_engine::link::LinkClosed;
use capstan_format::catalog::StreamContents;
use capstan_format::id::{KeyId, StreamId};
use capstan_format::keys::Purpose;
use capstan_port::media::read::known::Opened;
use capstan_port::media::transfer::{PassEnd, PassStream, Passed, Passing, WantedFrame};

use super::live::{Live, Units};
use crate::Cell;
use crate::error::Result;
use crate::observe::Stop;
use crate::reading::version::VersionView;

/// Whether the target took all.
type Closed = std::result::Result<(), LinkClosed>;

/// Has frames passed on.
pub(super) struct Pass<'a, 'p> {
    pub cell: &'a Cell,
    pub view: &'a VersionView<'a>,
    /// The media agent that passes them on.
    pub passing: Box<dyn Passing + 'p>,
    pub stop: &'a Stop,
    /// What may not be durable yet.
    pub sent: Sent,
}

/// What was passed on in segments that may not be durable yet.
pub(super) struct Sent {
    segments: VecDeque<SentSegment>,
    /// How many segments were begun before those.
    settled: usize,
    /// How many are durable.
    committed: Arc<AtomicUsize>,
}

struct SentSegment {
    frames: Vec<(StreamId, u64, Units)>,
    /// The streams' positions at its begin.
    positions: HashMap<StreamId, u64>,
}

impl Sent {
    /// Nothing yet; `committed` counts the segments that became durable.
    pub fn new(committed: Arc<AtomicUsize>) -> Self {
        Self { segments: VecDeque::new(), settled: 0, committed }
    }

    fn begin(&mut self, positions: HashMap<StreamId, u64>) {
        self.settle();
        self.segments.push_back(SentSegment { frames: Vec::new(), positions });
    }

    fn add(&mut self, stream: StreamId, sequence: u64, units: Units) {
        if let Some(segment) = self.segments.back_mut() {
            segment.frames.push((stream, sequence, units));
        }
    }

    /// Forgets what is durable.
    fn settle(&mut self) {
        while self.settled < self.committed.load(Relaxed) && self.segments.pop_front().is_some() {
            self.settled += 1;
        }
    }

    /// After the target failed and has committed what it could: what is not durable was not passed on.
    pub fn take_back(mut self, live: &mut Live, positions: &mut HashMap<StreamId, u64>) {
        self.settle();
        if let Some(first) = self.segments.front() {
            positions.clone_from(&first.positions);
        }
        for (stream, sequence, units) in self.segments.iter().flat_map(|segment| &segment.frames) {
            live.take_back(*stream, *sequence, *units);
        }
    }
}

impl Pass<'_, '_> {
    /// Passes all frames on that are worth it, and notes them in `live`. An error means that the target takes no more. Gives also what
    /// may not be durable, and what the streams' parts have of bytes.
    pub fn run(mut self, live: &mut Live) -> (Result<Closed>, Sent, HashMap<StreamId, u64>) {
        let passed = self.all(live);
        (passed, self.sent, self.passing.into_positions())
    }

    fn all(&mut self, live: &mut Live) -> Result<Closed> {
        for (segment, place) in (0..).zip(&self.view.segments) {
            if self.stop.0.load(Relaxed) {
                break;
            }
            let has_live = |s: &StreamContents| {
                let mut frames = s.index.iter().filter(|p| p.logical_frame);
                frames.any(|p| live.is_wanted(s.stream, p.sequence))
            };
            if !self.view.contents(place)?.streams.iter().any(has_live) {
                continue;
            }
            let opened = self.view.open_data(place)?;
            for s in &opened.layout.streams {
                match self.stream((segment, &opened), s, live)? {
                    Ok(()) => {}
                    Err(PassEnd::Closed) => return Ok(Err(LinkClosed)),
                    Err(PassEnd::Unread(lack)) => return Err(lack.into()),
                }
            }
        }
        Ok(self.passing.end())
    }

    fn stream(
        &mut self,
        from: (u32, &Opened),
        s: &StreamContents,
        live: &mut Live,
    ) -> Result<std::result::Result<(), PassEnd>> {
        let label = s.label.as_ref().map(|l| &l.session);
        let opens = self.view.keys.sealer(Purpose::Contents, label, s.stream)?.is_some();
        let wanted = s.index.iter().filter(|p| p.logical_frame);
        let wanted = wanted.filter(|at| live.is_wanted(s.stream, at.sequence));
        let wanted = wanted.map(|at| WantedFrame {
            place: *at,
            needed: live.bytes(s.stream, at.sequence),
            is_referred_to: live.is_referred_to(s.stream, at.sequence),
            must_have: live.must_have(s.stream, at.sequence),
        });
        let frames: Vec<WantedFrame> = wanted.collect();
        if frames.is_empty() {
            return Ok(Ok(()));
        }
        let key = label.and_then(|l| l.key).map(|id| (id, key_record(self.cell, id)));
        let of = PassStream { contents: s, key, opens, frames };
        let mut passed = Vec::new();
        let done = self.passing.stream(from, &of, &mut passed);
        for event in passed {
            match event {
                Passed::Segment(positions) => self.sent.begin(positions),
                Passed::Frame(sequence) => {
                    let units = live.pass(s.stream, sequence);
                    self.sent.add(s.stream, sequence, units);
                }
            }
        }
        Ok(done)
    }
}

/// A wrapped key, as the database has it.
pub(super) fn key_record(cell: &Cell, id: KeyId) -> Option<serde_json::Value> {
    let known = cell.idb.key(id).ok().flatten()?;
    serde_json::from_str(&known.record).ok()
}
