//! Copies one segment: each stream's frames in order, unchanged, checked on the way.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::batch::rows_of_stream;
use capstan_engine::message::{Code, path_text};
use capstan_format::catalog::Contents;
use capstan_format::id::KeyId;
use capstan_format::record::{OtherEnd, SessionEnds};
use capstan_port::media::transfer::{Copied, CopyFrom, CopyTo, SegmentTransfer};
use capstan_port::media::write::heading::Heading;

use super::source::Source;
use crate::Cell;
use crate::error::{Damage, Result, chain};
use crate::observe::Stop;
use crate::reading::away::files::AwaySegments;
use crate::reading::losses::{Lost, Range};
use crate::reading::version::VersionView;
use crate::session::SessionLog;

/// Copies segments.
pub(super) struct Copier<'a> {
    cell: &'a Cell,
    transfer: &'a dyn SegmentTransfer,
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
        transfer: &'a dyn SegmentTransfer,
        log: &'a SessionLog<'a>,
        stop: &'a Stop,
    ) -> Self {
        let away = AwaySegments::default();
        Self { cell, transfer, log, stop, lost_frames: 0, closed: false, away }
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
            let read = match before < there {
                true => self.moved(&source, None),
                false => Copied::default(),
            };
            if read.unread.is_some_and(|e| self.away.take(&e.into(), place.bytes)) {
                return;
            }
            let lacks = before + read.lost.len() as u64;
            if read.is_cut || lacks >= there {
                self.lost_frames += lacks;
                self.say_lacks(&source, &read.lost);
                return;
            }
        }
        let writer = contents.header.as_ref().map(|h| h.session.session);
        let (own, others): (Vec<OtherEnd>, _) =
            ends.iter().cloned().partition(|e| Some(e.session.session) == writer);
        let ends = SessionEnds { own: own.into_iter().next().map(|e| e.end), others };
        let ended_us = contents.end.as_ref().map(|e| e.written_us);
        let to = CopyTo { heading, ends, ended_us, lacks: source.lacks };
        // A segment that was stopped before its end is dropped, and the target takes more.
        let Copied { lost, unread, is_cut } = self.moved(&source, Some(to));
        // A copy that lacks what can be read another time is none to keep.
        if is_cut && unread.is_some_and(|e| self.away.take(&e.into(), place.bytes)) {
            return;
        }
        self.closed = is_cut && !self.stop.0.load(Relaxed);
        self.lost_frames += before + lost.len() as u64;
        self.say_lacks(&source, &lost);
    }

    /// Has the media agent copy a segment, or only read it.
    fn moved(&self, source: &Source<'_>, to: Option<CopyTo>) -> Copied {
        let Source { view, segment, opened, .. } = source;
        let from = CopyFrom {
            media: *view,
            segment: *segment,
            opened,
            is_sequential: view.media.is_sequential(opened.at.1).is_ok_and(|on| on),
            listener: self.log,
            stop: &self.stop.0,
        };
        self.transfer.copy(&from, to)
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
