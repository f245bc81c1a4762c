//! Passing frames on: the live ones of a chain, as they are, into segments of the new version.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::link::LinkClosed;
use capstan_engine::message::Code;
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::frame::{FrameHeader, FrameType};
use capstan_format::id::{KeyId, StreamId};
use capstan_format::keys::Purpose;
use capstan_format::record::SessionLabel;
use capstan_media_agent::reader::{Contents, SegmentReader, StreamContents};
use capstan_media_agent::segment::{Heading, Owner};
use capstan_media_agent::transfer::{Cutter, Transfer};

use super::live::Live;
use crate::Cell;
use crate::error::{Result, chain};
use crate::observe::Stop;
use crate::places::SegmentPlace;
use crate::session::Ears;
use crate::spare::Spares;
use crate::version::VersionView;

/// Size after which a segment ends.
const SEGMENT_SIZE: u64 = 1 << 30;

/// Passes frames on.
pub(super) struct Pass<'a> {
    pub cell: &'a Cell,
    pub view: &'a VersionView<'a>,
    pub transfer: &'a Transfer,
    pub label: &'a SessionLabel,
    pub meters: &'a Meters,
    pub ears: &'a Ears<'a>,
    pub stop: &'a Stop,
    pub spares: Spares,
    pub stored: Vec<u8>,
    pub positions: HashMap<StreamId, u64>,
    /// The segment being written: whose keys it has, the streams begun in it, its bytes.
    pub open: Option<OpenSegment>,
}

#[derive(Default)]
pub(super) struct OpenSegment {
    keys: HashSet<KeyId>,
    begun: HashSet<StreamId>,
    bytes: u64,
}

impl Pass<'_> {
    /// Passes all frames on that are worth it, and notes them in `live`. An error means that the target takes no more.
    pub fn run(&mut self, live: &mut Live) -> Result<std::result::Result<(), LinkClosed>> {
        for place in &self.view.segments {
            if self.stop.0.load(Relaxed) {
                break;
            }
            let (reader, contents) = match self.view.open_data(place) {
                Ok(opened) => opened,
                Err(e) => {
                    let what = format!("segment {}", place.segment.short());
                    self.ears.say(Code::Missing, "media agent", &what, chain(&e));
                    continue;
                }
            };
            for s in &contents.streams {
                if let Err(closed) = self.stream(place, &reader, &contents, s, live)? {
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
        place: &SegmentPlace,
        reader: &SegmentReader,
        contents: &Contents,
        s: &StreamContents,
        live: &mut Live,
    ) -> Result<std::result::Result<(), LinkClosed>> {
        let label = s.label.as_ref().map(|l| &l.session);
        let opens = self.view.keys.sealer(Purpose::Contents, label, s.stream)?.is_some();
        let mut frames = None;
        let mut out: Option<Cutter<'_>> = None;
        let source = self.meters.of(Stage::Source);
        let mut lap = Lap::start();
        for at in s.index.iter().filter(|p| p.logical_frame) {
            let wanted = live.bytes(s.stream, at.sequence);
            if wanted == 0 {
                continue;
            }
            let frames = frames.get_or_insert_with(|| reader.frames(contents, s.stream));
            let (header, stored) = match frames.frame(at) {
                Ok(found) => found,
                Err(e) => {
                    let mut good = |h: &FrameHeader, _: &[u8]| h.sequence == at.sequence;
                    let (view, stored) = (self.view, &mut self.stored);
                    let spare =
                        self.spares.frame_at(view, place, s.stream, at.logical, stored, &mut good);
                    let Some(header) = spare else {
                        let what = format!("{}: frame {}", reader.path(), at.sequence);
                        self.ears.say(Code::Damaged, "media agent", &what, e.to_string());
                        continue;
                    };
                    (header, &self.stored[..])
                }
            };
            let can_open = opens || !header.sealed;
            let whole = header.frame_type == FrameType::Fill || wanted * 2 >= header.length;
            if can_open && !whole {
                continue;
            }
            let room = self.open.as_ref().is_some_and(|o| {
                o.bytes < SEGMENT_SIZE
                    && o.begun.contains(&s.stream)
                    && label.and_then(|l| l.key).is_none_or(|k| o.keys.contains(&k))
            });
            if !room || out.is_none() {
                let begun = close(&mut out, &mut self.positions, s.stream)
                    .and_then(|()| begin(self.cell, self.transfer, self.label, &mut self.open, s));
                match begun {
                    Ok(first) => {
                        let position = self.positions.get(&s.stream).copied().unwrap_or(0);
                        let owner = Owner { version: self.label.version, sparse: true };
                        let mut cutter = self.transfer.stream(s.stream, owner, position, 0);
                        let heads = s.label_frame.iter().chain(&s.names).filter(|_| first);
                        for raw in heads {
                            if let Err(closed) = cutter.frame(&raw.header, &raw.stored) {
                                return Ok(Err(closed));
                            }
                        }
                        out = Some(cutter);
                    }
                    Err(closed) => return Ok(Err(closed)),
                }
            }
            let Some(cutter) = &mut out else { continue };
            if let Err(closed) = cutter.frame(&header, stored) {
                return Ok(Err(closed));
            }
            live.pass(s.stream, at.sequence);
            let bytes = header.total_len() as u64;
            source.bytes(bytes);
            if let Some(open) = &mut self.open {
                open.bytes += bytes;
            }
            lap.busy(source);
        }
        Ok(close(&mut out, &mut self.positions, s.stream))
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

/// Sees to it that a segment is open which has room and the keys of the stream's session. Returns whether the stream is
/// new in it.
fn begin(
    cell: &Cell,
    transfer: &Transfer,
    label: &SessionLabel,
    open: &mut Option<OpenSegment>,
    s: &StreamContents,
) -> std::result::Result<bool, LinkClosed> {
    let key = s.label.as_ref().and_then(|l| l.session.key);
    let fits = |o: &OpenSegment| o.bytes < SEGMENT_SIZE && key.is_none_or(|k| o.keys.contains(&k));
    if open.as_ref().is_some_and(|o| !fits(o)) {
        transfer.end(None, None)?;
        *open = None;
    }
    if open.is_none() {
        let ids: HashSet<KeyId> = key.into_iter().chain(label.key).collect();
        let record = |id: &KeyId| {
            let known = cell.idb.key(*id).ok().flatten()?;
            serde_json::from_str(&known.record).ok()
        };
        transfer.begin(Heading {
            session: label.clone(),
            keys: ids.iter().filter_map(record).collect(),
            copy_of: None,
            written_us: None,
        })?;
        *open = Some(OpenSegment { keys: ids, ..OpenSegment::default() });
    }
    Ok(open.as_mut().is_some_and(|o| o.begun.insert(s.stream)))
}
