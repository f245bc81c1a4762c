//! What a consolidation would leave behind and what it would take, worked out from catalogs alone.

use capstan_catalog::version::Overview;
use capstan_format::block::{BLOCK_ALIGN, PAYLOAD_AT};
use capstan_format::catalog::{RawFrame, StreamContents};
use capstan_format::frame::{FRAME_HEADER_LEN, FRAME_PLAIN_MAX, padded};
use capstan_format::index::FramePlace;
use capstan_format::keys::Purpose;

use super::frames::Frames;
use super::live::{self, Live};
use super::run::SEGMENT_SIZE;
use crate::error::Result;
use crate::reading::version::VersionView;

/// Most bytes that sealing adds to a frame.
const SEAL: u64 = 32;
/// Blocks of a segment that are short: its begin and end, its catalog, a stream's last.
const AROUND: u64 = 4 * BLOCK_ALIGN as u64;
/// Block size where a segment does not say its own.
const BLOCK_SIZE: u32 = 1 << 20;

/// What a version and those that it builds on have on media.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    /// Bytes of all their contents.
    pub all: u64,
    /// Those that somebody needs who reads that version, to 256 for each frame.
    pub alive: u64,
    /// Bytes that a full of it takes on a medium, about.
    pub takes: u64,
}

impl Weight {
    /// How many percent of it nobody needs.
    pub fn dead_percent(&self) -> u64 {
        (self.all - self.alive.min(self.all)).saturating_mul(100).checked_div(self.all).unwrap_or(0)
    }
}

/// Weighs a version. Keys of encrypted names must be in the view; frames whose contents do not open are passed on whole.
pub(crate) fn weigh(view: &VersionView<'_>) -> Result<Weight> {
    let overview = Overview::with_replaced(view)?;
    let mut frames = Frames::new(view, view.spans());
    let live = live::look(view, &overview, &mut frames, view.cell.referred(view)?)?;
    weigh_live(view, &live)
}

fn weigh_live(view: &VersionView<'_>, live: &Live) -> Result<Weight> {
    let mut weight = Weight::default();
    let (mut frames, mut rows, mut data, mut streams) = (0u64, 0u64, 0u64, 0u64);
    for place in &view.segments {
        let contents = view.contents(place)?;
        let block_size = contents.header.as_ref().map_or(BLOCK_SIZE, |h| h.medium.block_size);
        let own = |s: &&StreamContents| place.spans.iter().any(|(id, ..)| *id == s.stream);
        for s in contents.streams.iter().filter(own) {
            let label = s.label.as_ref().map(|l| &l.session);
            let is_sealed = label.is_some_and(|l| l.key.is_some());
            let opens =
                !is_sealed || view.keys.sealer(Purpose::Contents, label, s.stream)?.is_some();
            let stored = |f: &RawFrame| padded(FRAME_HEADER_LEN + f.stored.len()) as u64;
            rows = rows.saturating_add(s.batches.iter().chain(&s.sums).map(stored).sum());
            let mut passed = false;
            for frame in sizes(s, block_size) {
                weight.all = weight.all.saturating_add(frame.len);
                let whole = live.is_referred_to(s.stream, frame.sequence);
                let alive = match whole {
                    true => frame.len,
                    false => live.bytes(s.stream, frame.sequence).min(frame.len),
                };
                weight.alive = weight.alive.saturating_add(alive);
                if alive == 0 {
                    continue;
                }
                passed = true;
                frames += 1;
                let part = u128::from(frame.stored) * u128::from(alive);
                data = data.saturating_add(match alive.saturating_mul(2) >= frame.len || !opens {
                    true => frame.stored,
                    false => part.checked_div(u128::from(frame.len)).unwrap_or(0) as u64,
                });
            }
            streams += u64::from(passed);
        }
    }
    let (all_rows, live_rows) = live.rows();
    let part = u128::from(rows) * u128::from(live_rows);
    let rows = part.checked_div(u128::from(all_rows)).unwrap_or(0) as u64;
    // Rows stand in the stream and in the catalog; the catalog has a few bytes for each frame besides.
    let written = data.saturating_add(2 * rows).saturating_add(8 * frames);
    let segments = written / SEGMENT_SIZE + 2;
    weight.takes = written.saturating_add(AROUND * segments + BLOCK_ALIGN as u64 * streams);
    Ok(weight)
}

/// A frame of contents.
struct Size {
    sequence: u64,
    /// Bytes of contents.
    len: u64,
    /// Bytes that it takes in blocks.
    stored: u64,
}

/// The frames of contents that a stream has in a segment. What each takes is how far the next one is; that of the last is
/// guessed from those before.
fn sizes(s: &StreamContents, block_size: u32) -> impl Iterator<Item = Size> + '_ {
    let payload = u64::from(block_size).saturating_sub(PAYLOAD_AT as u64);
    let (mut known, mut at_most) = (0u64, 0u64);
    let mut following = s.index.iter().skip(1);
    let next_logical = |at: usize| {
        let next = s.index[at + 1..].iter().find(|p| p.logical_frame);
        next.map_or(s.logical_end, |p| p.logical)
    };
    s.index.iter().enumerate().filter_map(move |(at, p)| {
        let next = following.next();
        if !p.logical_frame {
            return None;
        }
        // In a sparse part a leap may follow, of what does not lie here.
        let len = next_logical(at).saturating_sub(p.logical).min(FRAME_PLAIN_MAX as u64);
        let most = padded(FRAME_HEADER_LEN + (len + SEAL) as usize) as u64;
        let stored = match next.map(|next| distance(p, next, payload)) {
            Some(distance) => {
                let stored = distance.min(most);
                (known, at_most) = (known + stored, at_most + most);
                stored
            }
            None => (u128::from(most) * u128::from(known))
                .checked_div(u128::from(at_most))
                .map_or(most, |guess| guess as u64),
        };
        Some(Size { sequence: p.sequence, len, stored })
    })
}

/// Bytes from one frame to the next of its stream, in that block or the stream's next.
fn distance(from: &FramePlace, to: &FramePlace, payload: u64) -> u64 {
    let (begin, end) = (u64::from(from.byte), u64::from(to.byte));
    match from.block == to.block {
        true => end.saturating_sub(begin),
        false => payload.saturating_sub(begin).saturating_add(end),
    }
}
