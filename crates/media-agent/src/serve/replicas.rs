//! Frames from the other places of a segment, for what is damaged or missing where it was looked for first.

use capstan_engine::frames::Lack;
use capstan_format::frame::FrameHeader;
use capstan_format::id::StreamId;

use crate::read::frames::FrameReader;
use capstan_port::media::read::known::{KnownMedia, Opened};

/// What is looked for in the other places of a segment.
pub struct Sought<'s> {
    /// The number of the segment in its version.
    pub segment: u32,
    /// The stream.
    pub stream: StreamId,
    /// The logical byte that the frame has.
    pub at: u64,
    /// What is wrong with the place that was tried first.
    pub why: &'s dyn Fn() -> String,
}

/// The other places of segments. The one that had a frame last is kept open.
#[derive(Default)]
pub struct Replicas {
    open: Option<(u32, Opened)>,
    /// Why a place could not be read that may have the frame sought last, where nothing is known to be wrong with it.
    away: Option<Lack>,
}

impl Replicas {
    /// The frame that is sought, from any place where it reads and `is_good` accepts its header and stored bytes. The stored bytes are left
    /// in `stored`.
    pub fn frame(
        &mut self,
        media: &dyn KnownMedia,
        sought: &Sought<'_>,
        stored: &mut Vec<u8>,
        is_good: &mut dyn FnMut(&FrameHeader, &[u8]) -> bool,
    ) -> Option<FrameHeader> {
        let Sought { segment, stream, at, why } = *sought;
        let places = media.places(segment);
        self.away = None;
        if places.len() < 2 {
            return None;
        }
        let last = self.open.as_ref().filter(|o| o.0 == segment).map(|o| o.1.at);
        let last = last.filter(|last| places.contains(last));
        for place in last.into_iter().chain(places) {
            if self.open.as_ref().is_none_or(|o| o.0 != segment || o.1.at != place) {
                let opened = match media.open_at(segment, place) {
                    Ok(opened) => opened,
                    Err(lack) => {
                        self.note_away(lack);
                        continue;
                    }
                };
                self.open = Some((segment, opened));
            }
            let Some((_, Opened { reader, layout, .. })) = &self.open else { continue };
            let Some(s) = layout.streams.iter().find(|s| s.stream == stream) else { continue };
            let before = s.index.partition_point(|p| p.logical <= at);
            let Some(found) = s.index[..before].iter().rev().find(|p| p.logical_frame) else {
                continue;
            };
            let mut frames = FrameReader::of(&**reader, layout, stream);
            match frames.frame(found) {
                Ok((header, bytes)) => {
                    let has_it = at < header.logical.saturating_add(header.length);
                    if has_it && is_good(&header, bytes) {
                        stored.clear();
                        stored.extend_from_slice(bytes);
                        media.note_replica(segment, place, why, 1);
                        return Some(header);
                    }
                }
                Err(e) => {
                    let lack = media.note_unread(place, e);
                    self.note_away(lack);
                }
            }
        }
        None
    }

    fn note_away(&mut self, lack: Lack) {
        let is_away = matches!(lack, Lack::Away { .. });
        self.away = self.away.take().or_else(|| is_away.then_some(lack));
    }

    /// Why a place could not be read now that may have the frame sought last.
    pub fn take_away(&mut self) -> Option<Lack> {
        self.away.take()
    }
}
