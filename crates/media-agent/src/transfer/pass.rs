//! Passing frames on: those that are wanted of segments, as they are, into segments of another session.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::frames::Lack;
use capstan_engine::link::LinkClosed;
use capstan_engine::message::{Code, Message};
use capstan_engine::meter::{Lap, Stage};
use capstan_format::frame::{FrameHeader, FrameType};
use capstan_format::id::{KeyId, StreamId};
use capstan_port::media::read::known::Opened;
use capstan_port::media::transfer::{PassEnd, PassJob, PassStream, Passed, Passing};
use capstan_port::media::write::heading::{Heading, Owner};

use super::{Cutter, Transfer, told};
use crate::read::frames::FrameReader;
use crate::serve::replicas::{Replicas, Sought};

/// Passes frames on.
pub struct Pass<'a> {
    transfer: &'a Transfer,
    job: PassJob<'a>,
    replicas: Replicas,
    /// A frame from another place.
    stored: Vec<u8>,
    /// The segment being written.
    open: Option<OpenSegment>,
}

/// The segment being written: whose keys it has, the streams begun in it, its bytes.
#[derive(Default)]
struct OpenSegment {
    keys: HashSet<KeyId>,
    begun: HashSet<StreamId>,
    bytes: u64,
}

impl<'a> Pass<'a> {
    /// Into the segments of a transfer.
    pub fn new(transfer: &'a Transfer, job: PassJob<'a>) -> Self {
        Self { transfer, job, replicas: Replicas::default(), stored: Vec::new(), open: None }
    }

    /// Whether the open segment has room for more of a session with that key.
    fn fits(&self, open: &OpenSegment, key: Option<KeyId>) -> bool {
        !self.transfer.is_ending()
            && open.bytes < self.job.segment_size
            && key.is_none_or(|key| open.keys.contains(&key))
    }

    /// Whether the open segment has room for more of a stream that it has already.
    fn has_room_for(&self, of: &PassStream<'_>) -> bool {
        let is_begun = |o: &OpenSegment| o.begun.contains(&of.contents.stream);
        self.open.as_ref().is_some_and(|o| is_begun(o) && self.fits(o, key_of(of)))
    }

    /// Begins a stream's part of a segment, and ends what is `out` of it in the one before. In a segment that has nothing of the stream
    /// yet its label and names come first.
    fn begin_stream(
        &mut self,
        out: &mut Option<Cutter<'a>>,
        of: &PassStream<'_>,
        passed: &mut Vec<Passed>,
    ) -> Result<Cutter<'a>, LinkClosed> {
        let s = of.contents;
        self.close(out, s.stream)?;
        let first = self.begin(of, passed)?;
        let position = self.job.positions.get(&s.stream).copied().unwrap_or(0);
        let owner = Owner { version: self.job.session.version, sparse: true };
        let mut cutter = self.transfer.stream(s.stream, owner, position, 0);
        for raw in s.label_frame.iter().chain(&s.names).filter(|_| first) {
            cutter.frame(&raw.header, &raw.stored)?;
        }
        Ok(cutter)
    }

    /// Sees to it that a segment is open which has room and the keys of the stream's session. Returns whether the stream is
    /// new in it.
    fn begin(&mut self, of: &PassStream<'_>, passed: &mut Vec<Passed>) -> Result<bool, LinkClosed> {
        if self.open.as_ref().is_some_and(|o| !self.fits(o, key_of(of))) {
            self.end()?;
        }
        if self.open.is_none() {
            let session = self.job.session.clone();
            let own = session.key.filter(|own| key_of(of) != Some(*own));
            let ids = key_of(of).into_iter().chain(own).collect();
            let theirs = of.key.iter().filter_map(|(_, record)| record.clone());
            let keys = theirs.chain(own.and(self.job.key.clone())).collect();
            self.transfer.begin(Heading { session, keys, copy_of: None, written_us: None })?;
            self.open = Some(OpenSegment { keys: ids, ..OpenSegment::default() });
            passed.push(Passed::Segment(self.job.positions.clone()));
        }
        Ok(self.open.as_mut().is_some_and(|o| o.begun.insert(of.contents.stream)))
    }

    /// Ends a stream's part of the segment.
    fn close(&mut self, out: &mut Option<Cutter<'_>>, stream: StreamId) -> Result<(), LinkClosed> {
        if let Some(cutter) = out.take() {
            self.job.positions.insert(stream, cutter.finish()?);
        }
        Ok(())
    }

    fn say_lost(&self, path: String, why: &Lack) {
        self.job.listener.message(Message {
            code: Code::Damaged,
            agent: "media agent",
            path,
            text: why.text().to_owned(),
            time_us: (self.transfer.now_us)(),
        });
    }
}

/// The key of a stream's session.
fn key_of(of: &PassStream<'_>) -> Option<KeyId> {
    of.key.as_ref().map(|(id, _)| *id)
}

impl Passing for Pass<'_> {
    fn stream(
        &mut self,
        (segment, opened): (u32, &Opened),
        of: &PassStream<'_>,
        passed: &mut Vec<Passed>,
    ) -> Result<(), PassEnd> {
        let stream = of.contents.stream;
        let mut frames = None;
        let mut out: Option<Cutter<'_>> = None;
        let source = self.transfer.meters.of(Stage::Source);
        let mut lap = Lap::start();
        let mut from_replica = std::mem::take(&mut self.stored);
        for wanted in &of.frames {
            // What was begun is ended: a segment with less in it.
            if self.job.stop.load(Relaxed) {
                break;
            }
            let at = &wanted.place;
            let frames = frames
                .get_or_insert_with(|| FrameReader::of(&*opened.reader, &opened.layout, stream));
            let (header, stored) = match frames.frame(at) {
                Ok(found) => found,
                Err(e) => {
                    let mut is_it = |h: &FrameHeader, _: &[u8]| h.sequence == at.sequence;
                    let media = self.job.media;
                    let lack = media.note_unread(opened.at, e);
                    let why = || lack.text().to_owned();
                    let sought = Sought { segment, stream, at: at.logical, why: &why };
                    let replica =
                        self.replicas.frame(media, &sought, &mut from_replica, &mut is_it);
                    let lack = told(lack, self.replicas.take_away());
                    let Some(header) = replica else {
                        // It is no loss: nothing goes on without it.
                        if matches!(lack, Lack::Away { .. }) {
                            return Err(PassEnd::Unread(lack));
                        }
                        let what = format!("{}: frame {}", opened.reader.path(), at.sequence);
                        self.say_lost(what, &lack);
                        continue;
                    };
                    (header, &from_replica[..])
                }
            };
            let can_open = of.opens || !header.sealed;
            let whole = header.frame_type == FrameType::Fill
                || wanted.needed * 2 >= header.length
                || wanted.is_referred_to;
            // Where a frame behind it lacks, the rows would name what is nowhere. They look for it elsewhere when they are written.
            let is_short = wanted.must_have > header.length;
            if (can_open && !whole) || is_short {
                continue;
            }
            if !self.has_room_for(of) || out.is_none() {
                out = Some(self.begin_stream(&mut out, of, passed)?);
            }
            let Some(cutter) = &mut out else { continue };
            cutter.frame(&header, stored)?;
            passed.push(Passed::Frame(at.sequence));
            let bytes = header.total_len() as u64;
            source.bytes(bytes);
            if let Some(open) = &mut self.open {
                open.bytes += bytes;
            }
            lap.busy(source);
        }
        self.stored = from_replica;
        Ok(self.close(&mut out, stream)?)
    }

    fn end(&mut self) -> Result<(), LinkClosed> {
        match self.open.take() {
            Some(_) => self.transfer.end(None, None),
            None => Ok(()),
        }
    }

    fn into_positions(self: Box<Self>) -> HashMap<StreamId, u64> {
        self.job.positions
    }
}
