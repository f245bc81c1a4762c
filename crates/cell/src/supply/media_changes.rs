//! A session that goes on on another medium when one ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use capstan_engine::message::Code;
use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_port::media::write::error::WriteError;
use capstan_port::media::write::members::Member;
use capstan_port::media::write::options::{NextMedia, ReplaceMedia};
use parking_lot::Mutex;

use crate::Cell;
use crate::error::chain;
use crate::media::WriteFailure;
use crate::session::SessionLog;
use crate::supply::tapes::Supply;
use crate::supply::unfit::{PassedOver, Why};

/// The changes of media in a session: they happen in the media agent's thread, and are said by the session's own.
#[derive(Default)]
pub(crate) struct Moves(Mutex<State>);

#[derive(Default)]
struct State {
    /// What there is to say of a medium.
    unsaid: Vec<(Code, String, String)>,
    /// Media that failed.
    failed: Vec<PassedOver>,
    labels: Vec<String>,
    ids: Vec<MediumId>,
    last: Option<MediumHeader>,
    took: Duration,
}

impl Moves {
    /// Says the changes that were not said yet.
    pub fn say(&self, log: &SessionLog<'_>) {
        let unsaid = std::mem::take(&mut self.0.lock().unsaid);
        for (code, of, text) in unsaid {
            log.say(code, "media agent", &of, text);
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

    /// Something to say of it.
    pub fn note(&self, code: Code, of: &str, text: String) {
        self.0.lock().unsaid.push((code, of.to_owned(), text));
    }

    /// Another medium goes on.
    fn take(&self, member: &Member, code: Code, text: String) {
        let MediumHeader { medium, label, .. } = &member.medium;
        let mut state = self.0.lock();
        state.unsaid.push((code, label.clone(), text));
        state.labels.push(label.clone());
        state.ids.push(*medium);
        state.last = Some(member.medium.clone());
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
            let supply = supply.clone().but(moves.0.lock().failed.clone());
            let next = cell.next_media(&supply, members, None, &mut |member, full| {
                let text = format!("medium '{full}' is full: '{}' goes on", member.medium.label);
                moves.take(member, Code::Adapted, text);
            });
            moves.0.lock().took += begun.elapsed();
            next
        })
    }

    /// Gives the media on which a session goes on where those that it has failed, and what they did not commit is kept.
    pub(crate) fn replacing(&self, supply: Supply, moves: &Arc<Moves>) -> Box<ReplaceMedia> {
        let (cell, moves) = (self.clone(), moves.clone());
        Box::new(move |members, why| {
            let begun = Instant::now();
            let failed: Vec<MediumId> = match why {
                WriteError::Full { media, .. } => media.clone(),
                _ => members.iter().map(|m| m.medium.medium).collect(),
            };
            let is_full = matches!(why, WriteError::Full { .. });
            let (of, why) = (WriteFailure::of(why), chain(why));
            let place = failed.first().map_or(String::new(), |id| cell.failed_in(*id));
            let reason = |id: &MediumId| (*id, Why::ended(is_full, &why));
            moves.0.lock().failed.extend(failed.iter().map(reason));
            let supply = supply.clone().but(moves.0.lock().failed.clone());
            let next =
                cell.next_media(&supply, members, Some((of, &failed)), &mut |member, failed| {
                    let label = &member.medium.label;
                    let (code, text) = match of {
                        WriteFailure::Full => {
                            (Code::Adapted, format!("medium '{failed}' is full: '{label}' goes on"))
                        }
                        _ => (
                            Code::MediumFailed,
                            format!(
                                "writing to medium '{failed}'{place} failed, and '{label}' goes on: {why}"
                            ),
                        ),
                    };
                    moves.take(member, code, text);
                });
            moves.0.lock().took += begun.elapsed();
            next.map_err(|e| {
                WriteError::Media(format!("{why}; there is no medium to go on on: {}", chain(&e)))
            })
        })
    }
}
