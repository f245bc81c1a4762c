//! A backup that goes on on another medium when one ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use capstan_engine::message::Code;
use capstan_media_agent::mirror::Member;
use capstan_media_agent::writer::NextMedia;
use parking_lot::Mutex;

use super::plan::SEGMENT_SIZE;
use crate::Cell;
use crate::request::BackupRequest;
use crate::session::Ears;
use crate::tapes::Supply;

/// Fewer blocks than these make a segment of nothing but its catalog.
const BLOCKS_LEAST: u64 = 16;

/// Bytes of a segment: what was asked for, else what suits the device.
pub(super) fn segment_size(request: &BackupRequest, members: &[Member]) -> u64 {
    let of_device = || {
        let device = members.iter().find_map(|m| Some((m.device.segment_size()?, m)));
        device.map(|(size, m)| size.max(BLOCKS_LEAST * u64::from(m.medium.block_size)))
    };
    request.segment_size.or_else(of_device).unwrap_or(SEGMENT_SIZE)
}

/// The changes of media in a session: they happen in the media agent's thread, and are said by the session's own.
#[derive(Default)]
pub(super) struct Moves(Mutex<State>);

#[derive(Default)]
struct State {
    unsaid: Vec<(String, String)>,
    labels: Vec<String>,
    took: Duration,
}

impl Moves {
    /// Says the changes that were not said yet.
    pub fn say(&self, ears: &Ears<'_>) {
        let unsaid = std::mem::take(&mut self.0.lock().unsaid);
        for (full, next) in unsaid {
            let text = format!("medium '{full}' is full: '{next}' goes on");
            ears.say(Code::Adapted, "media agent", &next, text);
        }
    }

    /// The labels of all media, in the order in which they were written.
    pub fn with(&self, first: Vec<String>) -> Vec<String> {
        first.into_iter().chain(self.0.lock().labels.iter().cloned()).collect()
    }

    /// Seconds that changing took.
    pub fn seconds(&self) -> f64 {
        self.0.lock().took.as_secs_f64()
    }
}

impl Cell {
    /// Gives the media on which a backup goes on.
    pub(super) fn changing(&self, request: &BackupRequest, moves: &Arc<Moves>) -> Box<NextMedia> {
        let supply = Supply::of(request.pool.as_deref(), &request.device);
        let (cell, moves) = (self.clone(), moves.clone());
        Box::new(move |members| {
            let begun = Instant::now();
            let next = cell.next_media(&supply, members, &mut |member, full| {
                let mut state = moves.0.lock();
                state.unsaid.push((full.to_owned(), member.medium.label.clone()));
                state.labels.push(member.medium.label.clone());
            });
            moves.0.lock().took += begun.elapsed();
            next
        })
    }
}
