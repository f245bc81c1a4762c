//! Passing frames on: the live ones of a chain, as they are, into segments of the new version.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use capstan_engine::link::LinkClosed;
use capstan_engine::message::Code;
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::catalog::StreamContents;
use capstan_format::frame::{FrameHeader, FrameType};
use capstan_format::id::{KeyId, StreamId};
use capstan_format::keys::Purpose;
use capstan_format::record::SessionLabel;
use capstan_media_agent::read::frames::FrameReader;
use capstan_media_agent::serve::replicas::{Replicas, Sought};
use capstan_media_agent::transfer::{Cutter, Transfer};
use capstan_port::media::read::known::Opened;
use capstan_port::media::write::heading::{Heading, Owner};

use super::live::{Live, Units};
use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::observe::Stop;
use crate::reading::unread::told;
use crate::reading::version::VersionView;
use crate::session::SessionLog;

/// Passes frames on.
pub(super) struct Pass<'a> {
    pub cell: &'a Cell,
    pub view: &'a VersionView<'a>,
    pub transfer: &'a Transfer,
    pub label: &'a SessionLabel,
    pub meters: &'a Meters,
    pub log: &'a SessionLog<'a>,
    pub stop: &'a Stop,
    pub replicas: Replicas,
    /// Size after which a segment ends.
    pub segment_size: u64,
    /// What the streams' parts that were written have of bytes.
    pub positions: &'a mut HashMap<StreamId, u64>,
    /// The segment being written.
    pub open: Option<OpenSegment>,
    /// What may not be durable yet.
    pub sent: Sent,
}

/// The segment being written: whose keys it has, the streams begun in it, its bytes.
#[derive(Default)]
pub(super) struct OpenSegment {
    keys: HashSet<KeyId>,
    begun: HashSet<StreamId>,
    bytes: u64,
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

    fn begin(&mut self, positions: &HashMap<StreamId, u64>) {
        self.settle();
        let positions = positions.clone();
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

impl<'a> Pass<'a> {
    /// Passes all frames on that are worth it, and notes them in `live`. An error means that the target takes no more.
    pub fn run(&mut self, live: &mut Live) -> Result<std::result::Result<(), LinkClosed>> {
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
                if let Err(closed) = self.stream((segment, &opened), s, live)? {
                    return Ok(Err(closed));
                }
            }
        }
        if self.open.is_some() {
            return Ok(self.transfer.end(None, None));
        }
        Ok(Ok(()))
    }

    fn stream(
        &mut self,
        (segment, opened): (u32, &Opened),
        s: &StreamContents,
        live: &mut Live,
    ) -> Result<std::result::Result<(), LinkClosed>> {
        let label = s.label.as_ref().map(|l| &l.session);
        let opens = self.view.keys.sealer(Purpose::Contents, label, s.stream)?.is_some();
        let mut frames = None;
        let mut out: Option<Cutter<'a>> = None;
        let source = self.meters.of(Stage::Source);
        let mut lap = Lap::start();
        let mut from_replica = Vec::new();
        for at in s.index.iter().filter(|p| p.logical_frame) {
            // What was begun is ended: a segment with less in it.
            if self.stop.0.load(Relaxed) {
                break;
            }
            if !live.is_wanted(s.stream, at.sequence) {
                continue;
            }
            let wanted = live.bytes(s.stream, at.sequence);
            let frames = frames
                .get_or_insert_with(|| FrameReader::of(&*opened.reader, &opened.layout, s.stream));
            let (header, stored) = match frames.frame(at) {
                Ok(found) => found,
                Err(e) => {
                    let mut is_it = |h: &FrameHeader, _: &[u8]| h.sequence == at.sequence;
                    let view = self.view;
                    let e = view.media.note_unread(opened.at, e);
                    let why = || chain(&e);
                    let (stream, at_byte) = (s.stream, at.logical);
                    let sought = Sought { segment, stream, at: at_byte, why: &why };
                    let stored = &mut from_replica;
                    let replica = self.replicas.frame(view, &sought, stored, &mut is_it);
                    let e = told(e, self.replicas.take_away().map(CellError::from));
                    let Some(header) = replica else {
                        // It is no loss: nothing goes on without it.
                        if e.away().is_some() {
                            return Err(e);
                        }
                        let what = format!("{}: frame {}", opened.reader.path(), at.sequence);
                        self.log.say(Code::Damaged, "media agent", &what, chain(&e));
                        continue;
                    };
                    (header, &from_replica[..])
                }
            };
            let can_open = opens || !header.sealed;
            let whole = header.frame_type == FrameType::Fill
                || wanted * 2 >= header.length
                || live.is_referred_to(s.stream, at.sequence);
            // Where a frame behind it lacks, the rows would name what is nowhere. They look for it elsewhere when they are written.
            let is_short = live.must_have(s.stream, at.sequence) > header.length;
            if (can_open && !whole) || is_short {
                continue;
            }
            if !self.has_room_for(s) || out.is_none() {
                match self.begin_stream(&mut out, s) {
                    Ok(cutter) => out = Some(cutter),
                    Err(closed) => return Ok(Err(closed)),
                }
            }
            let Some(cutter) = &mut out else { continue };
            if let Err(closed) = cutter.frame(&header, stored) {
                return Ok(Err(closed));
            }
            let units = live.pass(s.stream, at.sequence);
            self.sent.add(s.stream, at.sequence, units);
            let bytes = header.total_len() as u64;
            source.bytes(bytes);
            if let Some(open) = &mut self.open {
                open.bytes += bytes;
            }
            lap.busy(source);
        }
        Ok(close(&mut out, self.positions, s.stream))
    }

    /// Whether the open segment has room for more of a stream that it has already.
    fn has_room_for(&self, s: &StreamContents) -> bool {
        let key = s.label.as_ref().and_then(|l| l.session.key);
        !self.transfer.is_ending()
            && self.open.as_ref().is_some_and(|o| {
                o.bytes < self.segment_size
                    && o.begun.contains(&s.stream)
                    && key.is_none_or(|k| o.keys.contains(&k))
            })
    }

    /// Begins a stream's part of a segment, and ends what is `out` of it in the one before. In a segment that has nothing of the stream
    /// yet its label and names come first.
    fn begin_stream(
        &mut self,
        out: &mut Option<Cutter<'a>>,
        s: &StreamContents,
    ) -> std::result::Result<Cutter<'a>, LinkClosed> {
        close(out, self.positions, s.stream)?;
        let first = self.begin(s)?;
        let position = self.positions.get(&s.stream).copied().unwrap_or(0);
        let owner = Owner { version: self.label.version, sparse: true };
        let mut cutter = self.transfer.stream(s.stream, owner, position, 0);
        for raw in s.label_frame.iter().chain(&s.names).filter(|_| first) {
            cutter.frame(&raw.header, &raw.stored)?;
        }
        Ok(cutter)
    }

    /// Sees to it that a segment is open which has room and the keys of the stream's session. Returns whether the stream is
    /// new in it.
    fn begin(&mut self, s: &StreamContents) -> std::result::Result<bool, LinkClosed> {
        let key = s.label.as_ref().and_then(|l| l.session.key);
        let fits = |o: &OpenSegment| {
            o.bytes < self.segment_size
                && key.is_none_or(|k| o.keys.contains(&k))
                && !self.transfer.is_ending()
        };
        if self.open.as_ref().is_some_and(|o| !fits(o)) {
            self.transfer.end(None, None)?;
            self.open = None;
        }
        if self.open.is_none() {
            let ids: HashSet<KeyId> = key.into_iter().chain(self.label.key).collect();
            let record = |id: &KeyId| {
                let known = self.cell.idb.key(*id).ok().flatten()?;
                serde_json::from_str(&known.record).ok()
            };
            self.transfer.begin(Heading {
                session: self.label.clone(),
                keys: ids.iter().filter_map(record).collect(),
                copy_of: None,
                written_us: None,
            })?;
            self.open = Some(OpenSegment { keys: ids, ..OpenSegment::default() });
            self.sent.begin(self.positions);
        }
        Ok(self.open.as_mut().is_some_and(|o| o.begun.insert(s.stream)))
    }
}

/// Ends a stream's part of the segment.
fn close(
    out: &mut Option<Cutter<'_>>,
    positions: &mut HashMap<StreamId, u64>,
    stream: StreamId,
) -> std::result::Result<(), LinkClosed> {
    if let Some(cutter) = out.take() {
        positions.insert(stream, cutter.finish()?);
    }
    Ok(())
}
