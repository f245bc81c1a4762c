//! Whether a stream's bytes lie on media that are away only: asked before a file is begun that could not be ended.

use std::collections::HashMap;

use capstan_format::id::{MediumId, StreamId};
use capstan_port::media::read::spans::Spans;

use crate::error::{CellError, Result};
use crate::reading::version::VersionView;

/// What is known of the segments of a version that were asked for.
pub(crate) struct AwayData<'a> {
    view: &'a VersionView<'a>,
    spans: Spans,
    /// Why segments are on media that are away only, or that they are not.
    known: HashMap<u32, Option<(MediumId, String)>>,
}

impl<'a> AwayData<'a> {
    /// Nothing was asked for yet.
    pub fn of(view: &'a VersionView<'a>, spans: Spans) -> Self {
        Self { view, spans, known: HashMap::new() }
    }

    /// Why some of a range of a stream's bytes cannot be had now: it lies on media that are away only. A tape that is in its library is
    /// not loaded for that; one that somebody may bring is waited for.
    pub fn why(&mut self, stream: StreamId, from: u64, len: u64) -> Result<Option<CellError>> {
        let (mut at, end) = (from, from.saturating_add(len));
        while at < end {
            let Some((segment, to)) = self.spans.find(stream, at) else { break };
            let why = match self.known.get(&segment) {
                Some(known) => known.clone(),
                None => {
                    let why = self.why_away(segment)?;
                    self.known.insert(segment, why.clone());
                    why
                }
            };
            if let Some((medium, why)) = why {
                return Ok(Some(CellError::Away { medium, text: why.clone().into(), why }));
            }
            at = to.max(at + 1);
        }
        Ok(None)
    }

    fn why_away(&self, segment: u32) -> Result<Option<(MediumId, String)>> {
        let Some(place) = self.view.segments.get(segment as usize) else { return Ok(None) };
        let media = &self.view.media;
        let mut first = None;
        for (_, medium, _) in place.places() {
            if media.is_sequential(medium)? && self.view.cell.tapes_away(medium)?.is_empty() {
                return Ok(None);
            }
            match media.medium_once(medium) {
                Err(CellError::Away { medium, why, .. }) => {
                    first.get_or_insert((medium, why));
                }
                // What else is wrong is found when it is read.
                _ => return Ok(None),
            }
        }
        Ok(first)
    }
}
