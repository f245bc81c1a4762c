//! A backup job, run by the disk agent of the host that has what it reads.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capstan_engine::link::{BlockPort, LinkClosed};
use capstan_engine::message::Listener;
use capstan_engine::meter::Meters;
use capstan_engine::threads::NoThread;
use capstan_format::id::VersionId;
use capstan_select::BadPattern;
use capstan_wire::backup::{BackupJob, Counts, JobSource, Noted, Trees};

use super::Backup;
use super::counters::Counters;
use super::foresee::{EachForeseen, foresee};
use super::input::Input;
use super::input::saved::OfInput;
use super::known::by_inode::{BaseFiles, ByInode};
use super::probe::{Probe, Work, probe};
use crate::linux::mount_table::HostMounts;
use crate::linux::names::owner_names;
use crate::select::Selection;
use crate::walk::{BaseCursor, BaseRows, Beside};
use capstan_engine::ladder::Ladder;
use capstan_stream::options::{OptionsError, StreamOptions};

/// Why a job cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// What is left out is not understood.
    #[error(transparent)]
    Pattern(#[from] BadPattern),
    /// Its streams cannot be made.
    #[error(transparent)]
    Streams(#[from] OptionsError),
}

/// What a disk agent is connected to while it runs a job.
pub struct Ports<'a> {
    /// The media agent.
    pub blocks: Arc<dyn BlockPort + 'a>,
    /// The files of the version that is built on.
    pub files: Option<&'a dyn BaseFiles>,
    /// Where the time goes.
    pub meters: Arc<Meters>,
    /// Takes messages.
    pub listener: &'a dyn Listener,
    /// Set to end early: what is begun is finished.
    pub stop: &'a AtomicBool,
}

/// What came of a job: whether all of it was handed to the media agent, and what it came to.
#[derive(Debug)]
pub struct HandedOver {
    /// Whether all of it was.
    pub whole: Result<(), LinkClosed>,
    /// Why standard input, or a command, failed.
    pub input_failed: Option<String>,
    /// What was counted.
    pub counts: Counts,
    /// What was noted.
    pub noted: Noted,
}

impl HandedOver {
    fn of(
        whole: Result<(), LinkClosed>,
        input_failed: Option<String>,
        counters: &Counters,
    ) -> Self {
        Self { whole, input_failed, counts: counters.counts(), noted: counters.noted() }
    }

    /// Of a disk agent that ended without a word: not all was handed over.
    pub fn without_a_word(counters: &Counters) -> Self {
        Self::of(Err(LinkClosed), None, counters)
    }
}

/// A job made ready: nothing of it is in doubt any more, and nothing was read.
pub struct ReadyJob {
    source: ReadySource,
    builds_on: Option<VersionId>,
    streams: Vec<StreamOptions>,
    counters: Arc<Counters>,
}

enum ReadySource {
    Trees { trees: Box<Trees>, selection: Box<Selection> },
    Stdin { path: String },
    Command { line: String, path: String },
}

impl ReadyJob {
    /// Makes a job ready, for a host with these mount points. `ladder` is the choice of compression that the streams share with
    /// others of their session.
    pub fn new(
        job: BackupJob,
        mounts: &HostMounts,
        ladder: &Arc<Ladder>,
    ) -> Result<Self, JobError> {
        let BackupJob { source, builds_on, streams } = job;
        let source = match source {
            JobSource::Trees(trees) => {
                let selection = Box::new(selection(&trees, mounts)?);
                ReadySource::Trees { trees, selection }
            }
            JobSource::Stdin { path } => ReadySource::Stdin { path },
            JobSource::Command { line, path } => ReadySource::Command { line, path },
        };
        let streams = StreamOptions::of(&streams, ladder)?;
        Ok(Self { source, builds_on, streams, counters: Arc::default() })
    }

    /// What it counts while it runs.
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// Runs it. `base` is the version that is built on, or gone on with. Returns when everything was handed to the media agent.
    pub fn run(mut self, ports: Ports<'_>, base: Option<&mut dyn BaseRows>) -> HandedOver {
        let counters = self.counters.clone();
        let (path, input) = match &self.source {
            ReadySource::Trees { trees, selection } => {
                let backup = backup(&ports, &counters, (trees, selection), self.builds_on);
                let mut beside = base.map(Beside::new);
                let base = beside.as_mut().map(|base| base as &mut dyn BaseCursor);
                let whole = backup.run(&trees.roots, base, self.streams);
                return HandedOver::of(whole, None, &counters);
            }
            ReadySource::Stdin { path } => (path, Input::stdin(ports.stop)),
            ReadySource::Command { line, path } => (path, Input::command(line, ports.stop)),
        };
        let (whole, failed) = match (input, self.streams.pop()) {
            (Ok(input), Some(stream)) => run_input(path, input, stream, ports, &counters),
            (Ok(_), None) => (Ok(()), None),
            (Err(e), _) => {
                (Ok(()), Some(format!("cannot open the input, or start the command: {e}")))
            }
        };
        HandedOver::of(whole, failed, &counters)
    }

    /// Foresees it: nothing is written. Calls with what becomes of each name, in the order of the walk. Of an input nothing is
    /// foreseen.
    pub fn foresee(
        mut self,
        ports: Ports<'_>,
        base: Option<&mut dyn BaseRows>,
        each: &mut EachForeseen<'_>,
    ) -> Result<HandedOver, NoThread> {
        let counters = self.counters.clone();
        if let (ReadySource::Trees { trees, selection }, Some(stream)) =
            (&self.source, self.streams.pop())
        {
            let backup = backup(&ports, &counters, (trees, selection), self.builds_on);
            let mut beside = base.map(Beside::new);
            let base = beside.as_mut().map(|base| base as &mut dyn BaseCursor);
            foresee(&backup, &trees.roots, base, stream, each)?;
        }
        Ok(HandedOver::of(Ok(()), None, &counters))
    }
}

/// Saves what an input gives. Whether all of it was handed over, and why the input failed.
fn run_input(
    path: &str,
    mut input: Input<'_>,
    stream: StreamOptions,
    ports: Ports<'_>,
    counters: &Counters,
) -> (Result<(), LinkClosed>, Option<String>) {
    let Ports { blocks, meters, stop, .. } = ports;
    let of_input = OfInput { port: blocks, meters, stop, counters };
    match of_input.run(path.as_bytes(), &mut input, stream) {
        Err(closed) => {
            input.give_up();
            (Err(closed), None)
        }
        Ok(read) => {
            let read = read.map_err(|e| format!("cannot read the input: {e}"));
            (Ok(()), read.err().or(input.end().err()))
        }
    }
}

fn backup<'a>(
    ports: &'a Ports<'a>,
    counters: &'a Counters,
    (trees, selection): (&'a Trees, &'a Selection),
    builds_on: Option<VersionId>,
) -> Backup<'a> {
    Backup {
        port: ports.blocks.clone(),
        meters: ports.meters.clone(),
        owners: Arc::new(owner_names()),
        selection,
        base: builds_on.map(|version| version.0),
        known: ports.files.map(ByInode::new),
        options: &trees.read,
        stop: ports.stop,
        counters,
        listener: ports.listener,
    }
}

fn selection(trees: &Trees, mounts: &HostMounts) -> Result<Selection, BadPattern> {
    Selection::new(&trees.rules, &trees.roots, &trees.mounted_last, mounts.clone())
}

/// Reads the first files of a job's trees for a second, or 256 MiB of them, and works on them as a stream would.
pub fn probe_trees(
    trees: &Trees,
    mounts: &HostMounts,
    work: Option<Work>,
    stop: &AtomicBool,
) -> Result<Probe, BadPattern> {
    Ok(probe(&trees.roots, &selection(trees, mounts)?, work, stop))
}
