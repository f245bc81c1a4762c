//! A session that goes on on another medium when one ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use capstan_engine::message::Code;
use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_media_agent::writer::NextMedia;
use parking_lot::Mutex;

use crate::Cell;
use crate::session::Ears;
use crate::tapes::Supply;

/// The changes of media in a session: they happen in the media agent's thread, and are said by the session's own.
#[derive(Default)]
pub(crate) struct Moves(Mutex<State>);

#[derive(Default)]
struct State {
    unsaid: Vec<(String, String)>,
    labels: Vec<String>,
    ids: Vec<MediumId>,
    last: Option<MediumHeader>,
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

    /// All media but the first.
    pub fn ids(&self) -> Vec<MediumId> {
        self.0.lock().ids.clone()
    }

    /// What was written last, if not the first.
    pub fn last(&self, first: &MediumHeader) -> MediumHeader {
        self.0.lock().last.clone().unwrap_or_else(|| first.clone())
    }

    /// Seconds that changing took.
    pub fn seconds(&self) -> f64 {
        self.0.lock().took.as_secs_f64()
    }
}

impl Cell {
    /// Gives the media on which a session goes on.
    pub(crate) fn changing(&self, supply: Supply, moves: &Arc<Moves>) -> Box<NextMedia> {
        let (cell, moves) = (self.clone(), moves.clone());
        Box::new(move |members| {
            let begun = Instant::now();
            let next = cell.next_media(&supply, members, &mut |member, full| {
                let mut state = moves.0.lock();
                state.unsaid.push((full.to_owned(), member.medium.label.clone()));
                state.labels.push(member.medium.label.clone());
                state.ids.push(member.medium.medium);
                state.last = Some(member.medium.clone());
            });
            moves.0.lock().took += begun.elapsed();
            next
        })
    }
}
