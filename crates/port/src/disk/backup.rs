//! A backup job that a disk agent runs: what it is connected to, and what comes of it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capstan_engine::link::BlockPort;
use capstan_engine::message::Listener;
use capstan_engine::meter::Meters;
use capstan_engine::problem::Problem;
use capstan_engine::threads::NoThread;
use capstan_select::BadPattern;
use capstan_wire::backup::{Counts, HandedOver, Noted};
use capstan_wire::foreseen::Foreseen;

use super::base::{BaseFiles, BaseRows};
use super::lost::AgentLost;

/// Why a job cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// What is left out is not understood.
    #[error(transparent)]
    Pattern(#[from] BadPattern),
    /// The session's keys are of no use.
    #[error("{0}")]
    Key(Problem),
    /// What is to be said of a stream cannot be encoded.
    #[error("{0}")]
    Label(String),
    /// Nobody answers.
    #[error(transparent)]
    Lost(#[from] AgentLost),
}

/// Why nothing is foreseen.
#[derive(Debug, thiserror::Error)]
pub enum ForeseeError {
    /// No thread could be started.
    #[error(transparent)]
    NoThread(#[from] NoThread),
    /// Nobody answers any more.
    #[error(transparent)]
    Lost(#[from] AgentLost),
}

/// What a disk agent is connected to while it runs a job.
pub struct Ports<'a> {
    /// The files of the version that is built on.
    pub files: Option<&'a dyn BaseFiles>,
    /// Where the time goes: the disk agent's stages are its to fill.
    pub meters: Arc<Meters>,
    /// Takes messages.
    pub listener: &'a dyn Listener,
    /// Set to end early: what is begun is finished.
    pub stop: &'a AtomicBool,
}

/// What a running job says of itself. On another host it is told by events, five times a second.
pub trait Counting: Send + Sync {
    /// What was counted so far.
    fn counts(&self) -> Counts;
    /// The paths that were noted so far.
    fn noted(&self) -> Noted;
}

/// What a disk agent that ended without a word handed over: not all.
pub fn without_a_word(counting: &dyn Counting) -> HandedOver {
    let (counts, noted) = (counting.counts(), counting.noted());
    HandedOver { is_whole: false, input_failed: None, counts, noted }
}

/// Takes what becomes of each name.
pub type EachForeseen<'f> = dyn FnMut(&Foreseen) + 'f;

/// A job that is ready to run.
pub trait ReadyBackup: Send {
    /// What it counts while it runs.
    fn counting(&self) -> Arc<dyn Counting>;

    /// Runs it. `blocks` is the media agent, `base` the version that is built on, or gone on with. Returns when everything was handed
    /// to the media agent.
    fn run<'a>(
        self: Box<Self>,
        blocks: Arc<dyn BlockPort + 'a>,
        ports: Ports<'a>,
        base: Option<&mut dyn BaseRows>,
    ) -> HandedOver;

    /// Foresees it: nothing is written. Calls with what becomes of each name, in the order of the walk. Of an input nothing is
    /// foreseen.
    fn foresee(
        self: Box<Self>,
        ports: Ports<'_>,
        base: Option<&mut dyn BaseRows>,
        each: &mut EachForeseen<'_>,
    ) -> Result<HandedOver, ForeseeError>;
}
