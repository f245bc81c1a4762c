//! A backup job, run by the disk agent of the host that has what it reads.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capstan_engine::link::{BlockPort, LinkClosed};
use capstan_engine::problem::Explain;
use capstan_format::id::VersionId;
use capstan_port::disk::backup::{
    Counting, EachForeseen, ForeseeError, JobError, Ports, ReadyBackup,
};
use capstan_port::disk::base::BaseRows;
use capstan_select::BadPattern;
use capstan_wire::backup::{BackupJob, HandedOver, JobSource, Trees};
use capstan_wire::probe::{Probe, Work};

use super::Backup;
use super::counters::Counters;
use super::foresee::{Nowhere, foresee};
use super::input::Input;
use super::input::saved::OfInput;
use super::known::by_inode::ByInode;
use super::probe::probe;
use crate::linux::mount_table::HostMounts;
use crate::linux::names::owner_names;
use crate::select::Selection;
use crate::walk::{BaseCursor, Beside};
use capstan_engine::ladder::Ladder;
use capstan_stream::options::{OptionsError, StreamOptions};

/// What came of a job.
fn handed_over(
    whole: Result<(), LinkClosed>,
    input_failed: Option<String>,
    counters: &Counters,
) -> HandedOver {
    let (counts, noted) = (counters.counts(), counters.noted());
    HandedOver { is_whole: whole.is_ok(), input_failed, counts, noted }
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
    /// Makes a job ready, for a host with these mount points, which are asked for where there is a walk. `ladder` is the choice of compression that the streams share with
    /// others of their session.
    pub fn new(
        job: BackupJob,
        mounts: impl FnOnce() -> HostMounts,
        ladder: &Arc<Ladder>,
    ) -> Result<Self, JobError> {
        let BackupJob { source, builds_on, streams } = job;
        let source = match source {
            JobSource::Trees(trees) => {
                let selection = Box::new(selection(&trees, mounts())?);
                ReadySource::Trees { trees, selection }
            }
            JobSource::Stdin { path } => ReadySource::Stdin { path },
            JobSource::Command { line, path } => ReadySource::Command { line, path },
        };
        let streams = StreamOptions::of(&streams, ladder).map_err(|e| match e {
            OptionsError::Key(e) => JobError::Key(e.problem()),
            e @ OptionsError::Label(_) => JobError::Label(e.to_string()),
        })?;
        Ok(Self { source, builds_on, streams, counters: Arc::default() })
    }
}

impl ReadyBackup for ReadyJob {
    fn counting(&self) -> Arc<dyn Counting> {
        self.counters.clone()
    }

    fn run<'a>(
        mut self: Box<Self>,
        blocks: Arc<dyn BlockPort + 'a>,
        ports: Ports<'a>,
        base: Option<&mut dyn BaseRows>,
    ) -> HandedOver {
        let counters = self.counters.clone();
        let (path, input) = match &self.source {
            ReadySource::Trees { trees, selection } => {
                let backup = backup(blocks, &ports, &counters, (trees, selection), self.builds_on);
                let mut beside = base.map(Beside::new);
                let base = beside.as_mut().map(|base| base as &mut dyn BaseCursor);
                let whole = backup.run(&trees.roots, base, self.streams);
                return handed_over(whole, None, &counters);
            }
            ReadySource::Stdin { path } => (path, Input::stdin(ports.stop)),
            ReadySource::Command { line, path } => (path, Input::command(line, ports.stop)),
        };
        let (whole, failed) = match (input, self.streams.pop()) {
            (Ok(input), Some(stream)) => run_input(path, input, stream, (blocks, ports), &counters),
            (Ok(_), None) => (Ok(()), None),
            (Err(e), _) => {
                (Ok(()), Some(format!("cannot open the input, or start the command: {e}")))
            }
        };
        handed_over(whole, failed, &counters)
    }

    fn foresee(
        mut self: Box<Self>,
        ports: Ports<'_>,
        base: Option<&mut dyn BaseRows>,
        each: &mut EachForeseen<'_>,
    ) -> Result<HandedOver, ForeseeError> {
        let counters = self.counters.clone();
        if let (ReadySource::Trees { trees, selection }, Some(stream)) =
            (&self.source, self.streams.pop())
        {
            let backup =
                backup(Arc::new(Nowhere), &ports, &counters, (trees, selection), self.builds_on);
            let mut beside = base.map(Beside::new);
            let base = beside.as_mut().map(|base| base as &mut dyn BaseCursor);
            foresee(&backup, &trees.roots, base, stream, each)?;
        }
        Ok(handed_over(Ok(()), None, &counters))
    }
}

/// Saves what an input gives. Whether all of it was handed over, and why the input failed.
fn run_input(
    path: &str,
    mut input: Input<'_>,
    stream: StreamOptions,
    (port, ports): (Arc<dyn BlockPort + '_>, Ports<'_>),
    counters: &Counters,
) -> (Result<(), LinkClosed>, Option<String>) {
    let Ports { meters, stop, .. } = ports;
    let of_input = OfInput { port, meters, stop, counters };
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
    port: Arc<dyn BlockPort + 'a>,
    ports: &'a Ports<'a>,
    counters: &'a Counters,
    (trees, selection): (&'a Trees, &'a Selection),
    builds_on: Option<VersionId>,
) -> Backup<'a> {
    Backup {
        port,
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

fn selection(trees: &Trees, mounts: HostMounts) -> Result<Selection, BadPattern> {
    Selection::new(&trees.rules, &trees.roots, &trees.mounted_last, mounts)
}

/// Reads the first files of a job's trees for a second, or 256 MiB of them, and works on them as a stream would.
pub fn probe_trees(
    trees: &Trees,
    mounts: HostMounts,
    work: Option<Work>,
    stop: &AtomicBool,
) -> Result<Probe, BadPattern> {
    Ok(probe(&trees.roots, &selection(trees, mounts)?, work, stop))
}
