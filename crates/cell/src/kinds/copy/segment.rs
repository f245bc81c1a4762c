//! Copies one segment: each stream's frames in order, unchanged, checked on the way.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::batch::rows_of_stream;
use capstan_engine::link::LinkClosed;
use capstan_engine::message::{Code, path_text};
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_engine::threads::{Beside, beside};
use capstan_format::catalog::{Contents, RawFrame, StreamContents};
use capstan_format::frame::FrameHeader;
use capstan_format::id::KeyId;
use capstan_format::index::FramePlace;
use capstan_format::record::{Lacks, OtherEnd, SessionEnds, StreamExtent};
use capstan_media_agent::read::frames::FrameReader;
use capstan_media_agent::serve::replicas::{Replicas, Sought};
use capstan_media_agent::transfer::Transfer;
use capstan_port::media::read::segment::ReadSegment;
use capstan_port::media::write::heading::{Heading, Owner};

use super::source::Source;
use crate::Cell;
use crate::error::{CellError, Damage, Result, chain};
use crate::observe::Stop;
use crate::reading::away::files::AwaySegments;
use crate::reading::losses::{Lost, Range};
use crate::reading::unread::told;
use crate::reading::version::VersionView;
use crate::session::SessionLog;

/// Copies segments.
pub(super) struct Copier<'a> {
    cell: &'a Cell,
    transfer: &'a Transfer,
    meters: &'a Meters,
    log: &'a SessionLog<'a>,
    stop: &'a Stop,
    /// Frames that could be had nowhere.
    pub lost_frames: u64,
    /// The target takes no more.
    pub closed: bool,
    /// What is on media that are away, or could not be read now.
    pub away: AwaySegments,
}

impl<'a> Copier<'a> {
    pub fn new(
        cell: &'a Cell,
        transfer: &'a Transfer,
        meters: &'a Meters,
        log: &'a SessionLog<'a>,
        stop: &'a Stop,
    ) -> Self {
        let away = AwaySegments::default();
        Self { cell, transfer, meters, log, stop, lost_frames: 0, closed: false, away }
    }

    /// Copies a segment, in which these sessions end; what cannot be read of it is said. Where the target has a copy that lacks so many
    /// frames, it is only written if it lacks less.
    pub fn segment(
        &mut self,
        view: &VersionView<'_>,
        segment: u32,
        ends: &[OtherEnd],
        lacks_there: Option<u64>,
    ) {
        let found = Source::find(self.cell, view, segment).and_then(|source| {
            let heading = heading(self.cell, &source.opened.layout)?;
            Ok((source, heading))
        });
        let place = &view.segments[segment as usize];
        let (source, heading) = match found {
            Ok(source) => source,
            Err(e) if self.away.take(&e, place.bytes) => return,
            Err(e) => {
                let what = format!("segment {}", place.segment.short());
                self.log.say(Code::Missing, "media agent", &what, chain(&e));
                return;
            }
        };
        let contents = &source.opened.layout;
        // What is copied from lacks it, and so will the copy.
        let before = source.lacks.frames;
        if let Some(there) = lacks_there {
            let mut lost = Vec::new();
            let mut unread = None;
            let done = match before < there {
                true => self.streams(&source, false, &mut lost, &mut unread),
                false => Ok(()),
            };
            if unread.is_some_and(|e| self.away.take(&e, place.bytes)) {
                return;
            }
            let lacks = before + lost.len() as u64;
            if done.is_err() || lacks >= there {
                self.lost_frames += lacks;
                self.say_lacks(&source, &lost);
                return;
            }
        }
        let end = contents.end.as_ref();
        let writer = contents.header.as_ref().map(|h| h.session.session);
        let (own, others): (Vec<OtherEnd>, _) =
            ends.iter().cloned().partition(|e| Some(e.session.session) == writer);
        let ends = SessionEnds { own: own.into_iter().next().map(|e| e.end), others };
        let ended_us = end.map(|e| e.written_us);
        let (mut lost, mut unread) = (Vec::new(), None);
        let copied = || {
            self.transfer.begin(heading)?;
            self.streams(&source, true, &mut lost, &mut unread)?;
            let frames = before + lost.len() as u64;
            self.transfer.end_copy(ends, ended_us, Lacks { frames, ..source.lacks })
        };
        // A segment that was stopped before its end is dropped, and the target takes more.
        let is_cut = copied().is_err();
        // A copy that lacks what can be read another time is none to keep.
        if is_cut && unread.is_some_and(|e| self.away.take(&e, place.bytes)) {
            return;
        }
        self.closed = is_cut && !self.stop.0.load(Relaxed);
        self.lost_frames += before + lost.len() as u64;
        self.say_lacks(&source, &lost);
    }

    /// Says what lacks in a copy: what lacks in what it was copied from, and what could not be read.
    fn say_lacks(&self, source: &Source<'_>, lost: &[Range]) {
        if let Some(text) = source.say_lacks() {
            self.log.say(Code::Damaged, "media agent", source.opened.reader.path(), text);
        }
        if !lost.is_empty() {
            self.say_lost(source.view, &source.opened.layout, lost);
        }
    }

    /// Copies all streams of a segment, or only reads them: from tape, which passes by once, all at the same time.
    fn streams(
        &self,
        source: &Source<'_>,
        is_written: bool,
        lost: &mut Vec<Range>,
        unread: &mut Option<CellError>,
    ) -> std::result::Result<(), LinkClosed> {
        let Source { view, place, opened, .. } = source;
        let streams: Vec<_> =
            opened.layout.streams.iter().filter(|s| !s.index.is_empty()).collect();
        let on_tape = view.media.is_sequential(opened.at.1).is_ok_and(|on| on);
        let read = |s: &StreamContents, reader: &dyn ReadSegment| {
            let mut hand = Hand {
                of: self,
                source,
                is_written,
                replicas: Replicas::default(),
                stored: Vec::new(),
                lost: Vec::new(),
                unread: None,
            };
            let done = hand.stream(reader, s);
            (done, hand.lost, hand.unread)
        };
        if !on_tape || streams.len() < 2 {
            return streams.into_iter().try_for_each(|s| {
                let (done, mut of, away) = read(s, &*opened.reader);
                lost.append(&mut of);
                *unread = unread.take().or(away);
                done
            });
        }
        self.transfer.widen(streams.len());
        let read = &read;
        let all: Vec<_> = std::thread::scope(|scope| {
            let start = |s| {
                // Each has a place of its own on the tape. One that cannot be opened again has none.
                let own = view.open_place(place, opened.at).ok();
                beside(scope, "stream", move || read(s, &*own.as_ref().unwrap_or(opened).reader))
            };
            let running: Vec<_> = streams.into_iter().map(start).collect();
            running.into_iter().map(Beside::join).collect()
        });
        for ended in all {
            let (done, mut of, away) = ended.unwrap_or((Err(LinkClosed), Vec::new(), None));
            lost.append(&mut of);
            *unread = unread.take().or(away);
            done?;
        }
        Ok(())
    }

    /// Names the files that lack something in the copy, where their names can be read.
    fn say_lost(&self, view: &VersionView<'_>, contents: &Contents, lost: &[Range]) {
        let keys = self.cell.keys_of_names(view, "copy");
        let (lost, mut named) = (Lost::all(lost), HashSet::new());
        for s in &contents.streams {
            let read = rows_of_stream(&keys, s, &mut |entry, start| {
                if lost.costs(entry, s.stream, start) && named.insert(entry.path()) {
                    let text = "the copy lacks some of its data, as the original does".to_owned();
                    let path = format!("/{}", path_text(&entry.path()));
                    self.log.say(Code::Damaged, "media agent", &path, text);
                }
            });
            if read.is_err() {
                let text = "the names of the files that this costs are encrypted".to_owned();
                self.log.say(Code::Damaged, "media agent", &s.stream.to_string(), text);
            }
        }
    }
}

/// Copies one stream of a segment.
struct Hand<'a> {
    of: &'a Copier<'a>,
    source: &'a Source<'a>,
    is_written: bool,
    replicas: Replicas,
    stored: Vec<u8>,
    /// What could be had nowhere, frame by frame.
    lost: Vec<Range>,
    /// Why a frame could not be read now that may be whole where it lies. Nothing is copied behind it.
    unread: Option<CellError>,
}

impl Hand<'_> {
    fn stream(
        &mut self,
        reader: &dyn ReadSegment,
        s: &StreamContents,
    ) -> std::result::Result<(), LinkClosed> {
        let Source { view, segment, opened, .. } = self.source;
        let extent = extent_of(&opened.layout, s);
        let owner = Owner { version: extent.version, sparse: extent.sparse };
        let mut frames = FrameReader::of(reader, &opened.layout, s.stream);
        let position = s.index.first().and_then(|first| frames.position_of(first)).unwrap_or(0);
        let begin = || self.of.transfer.stream(s.stream, owner, position, extent.rows);
        let mut out = self.is_written.then(begin);
        let mut put = |header: &FrameHeader, stored: &[u8]| {
            out.as_mut().map_or(Ok(()), |out| out.frame(header, stored))
        };
        let source = self.of.meters.of(Stage::Source);
        let mut lap = Lap::start();
        let mut unplaced = unplaced(s).into_iter().peekable();
        for (at, frame) in s.index.iter().enumerate() {
            while let Some(raw) = unplaced.next_if(|raw| raw.header.sequence < frame.sequence) {
                put(&raw.header, &raw.stored)?;
            }
            if self.of.stop.0.load(Relaxed) {
                return Err(LinkClosed);
            }
            match frames.frame(frame) {
                Ok((header, stored)) => {
                    source.bytes(header.total_len() as u64);
                    put(&header, stored)?;
                }
                Err(e) => {
                    let e = match self.of.stop.0.load(Relaxed) {
                        true => e.into(),
                        false => view.media.note_unread(opened.at, e),
                    };
                    let why = || chain(&e);
                    let mended = self.mended(view, *segment, s, frame, &why);
                    let e = told(e, self.replicas.take_away().map(CellError::from));
                    let Some(header) = mended else {
                        if e.away().is_some() {
                            self.unread = Some(e);
                            return Err(LinkClosed);
                        }
                        let what = format!(
                            "{}: frame {} of stream {}",
                            reader.path(),
                            frame.sequence,
                            s.stream.short()
                        );
                        self.of.log.say(Code::Damaged, "media agent", &what, chain(&e));
                        let next = s.index.get(at + 1).map_or(s.logical_end, |p| p.logical);
                        self.lost.push((s.stream, frame.logical, next));
                        continue;
                    };
                    put(&header, &self.stored)?;
                }
            }
            lap.busy(source);
        }
        unplaced.try_for_each(|raw| put(&raw.header, &raw.stored))?;
        out.map_or(Ok(()), |out| out.finish().map(drop))
    }

    /// A frame that is damaged where it was looked for first, from the catalog or another place; its stored bytes are left
    /// in `stored`.
    fn mended(
        &mut self,
        view: &VersionView<'_>,
        segment: u32,
        s: &StreamContents,
        at: &FramePlace,
        why: &dyn Fn() -> String,
    ) -> Option<FrameHeader> {
        if at.logical_frame {
            let mut is_it = |header: &FrameHeader, _: &[u8]| header.sequence == at.sequence;
            let sought = Sought { segment, stream: s.stream, at: at.logical, why };
            return self.replicas.frame(view, &sought, &mut self.stored, &mut is_it);
        }
        let found: Option<&RawFrame> = s.metadata().find(|raw| raw.header.sequence == at.sequence);
        found.map(|raw| {
            self.stored.clone_from(&raw.stored);
            raw.header
        })
    }
}

/// Metadata of which a copy is there and that do not lie where a reader finds them, in their order.
fn unplaced(s: &StreamContents) -> Vec<&RawFrame> {
    let placed: HashSet<u64> = s.index.iter().map(|place| place.sequence).collect();
    let mut all: Vec<&RawFrame> =
        s.metadata().filter(|raw| !placed.contains(&raw.header.sequence)).collect();
    all.sort_by_key(|raw| raw.header.sequence);
    all
}

/// The extent of a stream in its segment: as the end record says, else as was found.
fn extent_of(contents: &Contents, s: &StreamContents) -> StreamExtent {
    let known = contents.end.iter().flat_map(|e| &e.streams).find(|e| e.stream == s.stream);
    let label = s.label.as_ref().map(|l| &l.session);
    let label = label.or(contents.header.as_ref().map(|h| &h.session));
    known.cloned().unwrap_or_else(|| StreamExtent {
        stream: s.stream,
        version: label.map_or(capstan_format::id::VersionId([0; 16]), |l| l.version),
        logical_start: 0,
        logical_end: s.logical_end,
        first_sequence: 0,
        frames: s.index.len() as u64,
        rows: 0,
        sparse: false,
    })
}

/// The heading of a segment's copy: its session's, with the wrapped keys of all sessions whose frames lie in it as they
/// are wrapped today.
fn heading(cell: &Cell, contents: &Contents) -> Result<Heading> {
    let header = contents.header.as_ref().ok_or_else(|| Damage::SegmentHeaderLost)?;
    let labels = contents.streams.iter().filter_map(|s| s.label.as_ref()).map(|l| &l.session);
    let mut ids: Vec<KeyId> = Vec::new();
    for id in labels.chain([&header.session]).filter_map(|label| label.key) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let mut keys = Vec::new();
    for id in ids {
        let known = cell.idb.key(id)?.and_then(|k| serde_json::from_str(&k.record).ok());
        let text = id.to_string();
        let here = || header.keys.iter().find(|k| k["id"].as_str() == Some(&text)).cloned();
        keys.extend(known.or_else(here));
    }
    Ok(Heading {
        session: header.session.clone(),
        keys,
        copy_of: Some(header.copy_of.unwrap_or(header.segment)),
        written_us: Some(header.written_us),
    })
}
