//! Copies one segment: each stream's frames in order, unchanged, checked on the way.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::frames::Lack;
use capstan_engine::link::LinkClosed;
use capstan_engine::message::{Code, Message};
use capstan_engine::meter::{Lap, Stage};
use capstan_engine::problem::Explain;
use capstan_engine::threads::{Beside, beside};
use capstan_format::catalog::{Contents, RawFrame, StreamContents};
use capstan_format::frame::FrameHeader;
use capstan_format::id::{StreamId, VersionId};
use capstan_format::index::FramePlace;
use capstan_format::record::{Lacks, StreamExtent};
use capstan_port::media::read::segment::ReadSegment;
use capstan_port::media::transfer::{Copied, CopyFrom, CopyTo};
use capstan_port::media::write::heading::Owner;

use super::{Transfer, told};
use crate::read::frames::FrameReader;
use crate::serve::replicas::{Replicas, Sought};

impl Transfer {
    /// Copies a segment, or only reads what a copy would need.
    pub fn copy(&self, from: &CopyFrom<'_>, to: Option<CopyTo>) -> Copied {
        let mut copied = Copied::default();
        let is_written = to.is_some();
        let run = || -> Result<(), LinkClosed> {
            let Some(CopyTo { heading, ends, ended_us, lacks }) = to else {
                return self.copy_streams(from, is_written, &mut copied);
            };
            self.begin(heading)?;
            self.copy_streams(from, is_written, &mut copied)?;
            let frames = lacks.frames + copied.lost.len() as u64;
            self.end_copy(ends, ended_us, Lacks { frames, ..lacks })
        };
        let is_cut = run().is_err();
        Copied { is_cut, ..copied }
    }

    /// Copies all streams of a segment, or only reads them: from tape, which passes by once, all at the same time.
    fn copy_streams(
        &self,
        from: &CopyFrom<'_>,
        is_written: bool,
        copied: &mut Copied,
    ) -> Result<(), LinkClosed> {
        let CopyFrom { media, segment, opened, .. } = *from;
        let streams: Vec<_> =
            opened.layout.streams.iter().filter(|s| !s.index.is_empty()).collect();
        let read = |s: &StreamContents, reader: &dyn ReadSegment| {
            let mut stream = CopyStream {
                transfer: self,
                from,
                is_written,
                replicas: Replicas::default(),
                stored: Vec::new(),
                lost: Vec::new(),
                unread: None,
            };
            let done = stream.run(reader, s);
            (done, stream.lost, stream.unread)
        };
        let mut take = |(done, mut lost, unread): (_, Vec<_>, Option<Lack>)| {
            copied.lost.append(&mut lost);
            copied.unread = copied.unread.take().or(unread);
            done
        };
        if !from.is_sequential || streams.len() < 2 {
            return streams.into_iter().try_for_each(|s| take(read(s, &*opened.reader)));
        }
        self.widen(streams.len());
        let read = &read;
        let all: Vec<_> = std::thread::scope(|scope| {
            let start = |s| {
                // Each has a place of its own on the tape. One that cannot be opened again has none.
                let own = media.open_at(segment, opened.at).ok();
                beside(scope, "stream", move || read(s, &*own.as_ref().unwrap_or(opened).reader))
            };
            let running: Vec<_> = streams.into_iter().map(start).collect();
            running.into_iter().map(Beside::join).collect()
        });
        let ended = all.into_iter().map(|of| of.unwrap_or((Err(LinkClosed), Vec::new(), None)));
        ended.into_iter().try_for_each(take)
    }
}

/// Copies one stream of a segment.
struct CopyStream<'a> {
    transfer: &'a Transfer,
    from: &'a CopyFrom<'a>,
    is_written: bool,
    replicas: Replicas,
    stored: Vec<u8>,
    /// What could be had nowhere, frame by frame.
    lost: Vec<(StreamId, u64, u64)>,
    /// Why a frame could not be read now that may be whole where it lies. Nothing is copied behind it.
    unread: Option<Lack>,
}

impl CopyStream<'_> {
    fn run(&mut self, reader: &dyn ReadSegment, s: &StreamContents) -> Result<(), LinkClosed> {
        let CopyFrom { media, opened, listener, stop, .. } = *self.from;
        let extent = extent_of(&opened.layout, s);
        let owner = Owner { version: extent.version, sparse: extent.sparse };
        let mut frames = FrameReader::of(reader, &opened.layout, s.stream);
        let position = s.index.first().and_then(|first| frames.position_of(first)).unwrap_or(0);
        let transfer = self.transfer;
        let begin = || transfer.stream(s.stream, owner, position, extent.rows);
        let mut out = self.is_written.then(begin);
        let mut put = |header: &FrameHeader, stored: &[u8]| {
            out.as_mut().map_or(Ok(()), |out| out.frame(header, stored))
        };
        let source = transfer.meters.of(Stage::Source);
        let mut lap = Lap::start();
        let mut unplaced = unplaced(s).into_iter().peekable();
        for (at, frame) in s.index.iter().enumerate() {
            while let Some(raw) = unplaced.next_if(|raw| raw.header.sequence < frame.sequence) {
                put(&raw.header, &raw.stored)?;
            }
            if stop.load(Relaxed) {
                return Err(LinkClosed);
            }
            match frames.frame(frame) {
                Ok((header, stored)) => {
                    source.bytes(header.total_len() as u64);
                    put(&header, stored)?;
                }
                Err(e) => {
                    let why = match stop.load(Relaxed) {
                        true => Lack::Unread(e.problem()),
                        false => media.note_unread(opened.at, e),
                    };
                    let mended = self.mended(s, frame, &|| why.text());
                    let why = told(why, self.replicas.take_away());
                    let Some(header) = mended else {
                        if matches!(why, Lack::Away { .. }) {
                            self.unread = Some(why);
                            return Err(LinkClosed);
                        }
                        let (sequence, stream) = (frame.sequence, s.stream.short());
                        listener.message(Message {
                            code: Code::Damaged,
                            agent: "media agent",
                            path: format!("{}: frame {sequence} of stream {stream}", reader.path()),
                            text: why.text().to_owned(),
                            time_us: (transfer.now_us)(),
                        });
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
        s: &StreamContents,
        at: &FramePlace,
        why: &dyn Fn() -> String,
    ) -> Option<FrameHeader> {
        if at.logical_frame {
            let CopyFrom { media, segment, .. } = *self.from;
            let mut is_it = |header: &FrameHeader, _: &[u8]| header.sequence == at.sequence;
            let sought = Sought { segment, stream: s.stream, at: at.logical, why };
            return self.replicas.frame(media, &sought, &mut self.stored, &mut is_it);
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
        version: label.map_or(VersionId([0; 16]), |l| l.version),
        logical_start: 0,
        logical_end: s.logical_end,
        first_sequence: 0,
        frames: s.index.len() as u64,
        rows: 0,
        sparse: false,
    })
}
