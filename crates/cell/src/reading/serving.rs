//! The media of a version, for the media agent that serves its frames.

use std::sync::Arc;

use capstan_engine::frames::{Lack, Place};
use capstan_engine::problem::Explain;
use capstan_format::catalog::Contents;
use capstan_port::media::read::error::ReadError;
use capstan_port::media::read::known::{KnownMedia, Opened, gap};
use capstan_port::media::read::spans::Spans;

use crate::error::CellError;
use crate::reading::version::VersionView;

impl VersionView<'_> {
    /// Which of its segments have which bytes of its streams.
    pub fn spans(&self) -> Spans {
        Spans::of(self.segments.iter().map(|place| place.spans.as_slice()))
    }
}

impl KnownMedia for VersionView<'_> {
    fn places(&self, segment: u32) -> Vec<Place> {
        self.segments.get(segment as usize).map(|place| place.places()).unwrap_or_default()
    }

    fn contents(&self, segment: u32) -> Result<Arc<Contents>, Lack> {
        let place = self.segments.get(segment as usize).ok_or_else(gap)?;
        (**self).contents(place).map_err(|e| lack_of(&e.into()))
    }

    fn open(&self, segment: u32) -> Result<Opened, Lack> {
        let place = self.segments.get(segment as usize).ok_or_else(gap)?;
        self.open_data(place).map_err(|e| lack_of(&e))
    }

    fn open_at(&self, segment: u32, at: Place) -> Result<Opened, Lack> {
        let place = self.segments.get(segment as usize).ok_or_else(gap)?;
        self.open_place(place, at).map_err(|e| lack_of(&e))
    }

    fn note_replica(&self, segment: u32, used: Place, why: &dyn Fn() -> String, frames: u64) {
        if let Some(place) = self.segments.get(segment as usize) {
            self.media.note_replica(place, used, why, frames);
        }
    }

    fn note_hurt(&self, segment: u32) {
        self.media.hurt_segments.lock().insert(segment);
    }

    fn unread(&self, (_, medium, _): Place, e: ReadError) -> Lack {
        lack_of(&self.media.unread(medium, e))
    }

    fn note_unread(&self, at: Place, e: ReadError) -> Lack {
        lack_of(&self.media.note_unread(at, e))
    }
}

/// Why bytes cannot be had whose segment could not be opened, or read.
pub(crate) fn lack_of(e: &CellError) -> Lack {
    match e.away() {
        Some((medium, why)) => Lack::Away { medium, why: why.to_owned(), text: e.problem() },
        None => Lack::Unread(e.problem()),
    }
}

impl From<Lack> for CellError {
    fn from(lack: Lack) -> Self {
        match lack {
            Lack::Away { medium, why, text } => Self::Away { medium, why, text },
            Lack::Damaged(text) => Self::Unfinished(text.into()),
            Lack::Unread(text) => Self::Unfinished(text),
        }
    }
}
