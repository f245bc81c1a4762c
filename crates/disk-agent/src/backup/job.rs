//! A backup job, run by the disk agent of the host that has what it reads.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capstan_engine::link::{BlockPort, LinkClosed};
use capstan_engine::message::Listener;
use capstan_engine::meter::Meters;
use capstan_engine::threads::NoThread;
use capstan_format::id::{StreamId, VersionId};
use capstan_format::keys::{FrameSealer, KeyError, Purpose};
use capstan_format::record::StreamLabel;
use capstan_select::BadPattern;
use capstan_wire::backup::{BackupJob, JobSource, Streams, Trees};
use capstan_wire::keys::SecretKey;

use super::by_inode::{BaseFiles, ByInode};
use super::foresee::{EachForeseen, foresee};
use super::input::Input;
use super::of_input::OfInput;
use super::probe::{Probe, Work, probe};
use super::{Backup, Counters};
use crate::linux::mount_table::HostMounts;
use crate::owners::OwnerNames;
use crate::select::Selection;
use crate::stream::choice::{CompressionChoice, Ladder};
use crate::stream::{Sealers, StreamOptions};
use crate::walk::{BaseCursor, BaseRows, Beside};

/// Why a job cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// What is left out is not understood.
    #[error(transparent)]
    Pattern(#[from] BadPattern),
    /// The session's keys are of no use.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// What is to be said of a stream cannot be encoded.
    #[error("a label is not JSON: {0}")]
    Label(#[from] serde_json::Error),
}

/// What a disk agent is connected to while it runs a job.
pub struct Ports<'a> {
    /// The media agent.
    pub blocks: Arc<dyn BlockPort + 'a>,
    /// The files of the version that is built on.
    pub files: Option<&'a dyn BaseFiles>,
    /// Where the time goes.
    pub meters: Arc<Meters>,
    /// What is counted.
    pub counters: &'a Counters,
    /// Takes messages.
    pub listener: &'a dyn Listener,
    /// Set to end early: what is begun is finished.
    pub stop: &'a AtomicBool,
}

/// Whether all of a job was handed to the media agent, and why its input failed. By default, of a disk agent that ended without
/// a word, it was not.
#[derive(Debug)]
pub struct HandedOver {
    /// Whether all of it was.
    pub whole: Result<(), LinkClosed>,
    /// Why standard input, or a command, failed.
    pub input_failed: Option<String>,
}

impl HandedOver {
    fn of(whole: Result<(), LinkClosed>) -> Self {
        Self { whole, input_failed: None }
    }

    fn failed(why: String) -> Self {
        Self { whole: Ok(()), input_failed: Some(why) }
    }
}

impl Default for HandedOver {
    fn default() -> Self {
        Self::of(Err(LinkClosed))
    }
}

/// A job made ready: nothing of it is in doubt any more, and nothing was read.
pub struct ReadyJob {
    source: ReadySource,
    builds_on: Option<VersionId>,
    streams: Vec<StreamOptions>,
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
        let streams = stream_options(&streams, ladder)?;
        Ok(Self { source, builds_on, streams })
    }

    /// Runs it. `base` is the version that is built on, or gone on with. Returns when everything was handed to the media agent.
    pub fn run(mut self, ports: Ports<'_>, base: Option<&mut dyn BaseRows>) -> HandedOver {
        let (path, input) = match &self.source {
            ReadySource::Trees { trees, selection } => {
                let backup = backup(&ports, trees, selection, self.builds_on);
                let mut beside = base.map(Beside::new);
                let base = beside.as_mut().map(|base| base as &mut dyn BaseCursor);
                return HandedOver::of(backup.run(&trees.roots, base, self.streams));
            }
            ReadySource::Stdin { path } => (path, Input::stdin(ports.stop)),
            ReadySource::Command { line, path } => (path, Input::command(line, ports.stop)),
        };
        let mut input = match input {
            Ok(input) => input,
            Err(e) => {
                return HandedOver::failed(format!(
                    "cannot open the input, or start the command: {e}"
                ));
            }
        };
        let Some(stream) = self.streams.pop() else { return HandedOver::of(Ok(())) };
        let Ports { blocks, meters, stop, counters, .. } = ports;
        let of_input = OfInput { port: blocks, meters, stop, counters };
        match of_input.run(path.as_bytes(), &mut input, stream) {
            Err(closed) => {
                input.give_up();
                HandedOver::of(Err(closed))
            }
            Ok(read) => {
                let read = read.map_err(|e| format!("cannot read the input: {e}"));
                HandedOver { whole: Ok(()), input_failed: read.err().or(input.end().err()) }
            }
        }
    }

    /// Foresees it: nothing is written. Calls with what becomes of each name, in the order of the walk. Of an input nothing is
    /// foreseen.
    pub fn foresee(
        mut self,
        ports: Ports<'_>,
        base: Option<&mut dyn BaseRows>,
        each: &mut EachForeseen<'_>,
    ) -> Result<(), NoThread> {
        let ReadySource::Trees { trees, selection } = &self.source else { return Ok(()) };
        let Some(stream) = self.streams.pop() else { return Ok(()) };
        let backup = backup(&ports, trees, selection, self.builds_on);
        let mut beside = base.map(Beside::new);
        let base = beside.as_mut().map(|base| base as &mut dyn BaseCursor);
        foresee(&backup, &trees.roots, base, stream, each)
    }
}

fn backup<'a>(
    ports: &'a Ports<'a>,
    trees: &'a Trees,
    selection: &'a Selection,
    builds_on: Option<VersionId>,
) -> Backup<'a> {
    Backup {
        port: ports.blocks.clone(),
        meters: ports.meters.clone(),
        owners: Arc::new(OwnerNames::default()),
        selection,
        base: builds_on.map(|version| version.0),
        known: ports.files.map(ByInode::new),
        options: &trees.read,
        stop: ports.stop,
        counters: ports.counters,
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

/// What the streams of a session are made with.
pub fn stream_options(
    streams: &Streams,
    ladder: &Arc<Ladder>,
) -> Result<Vec<StreamOptions>, JobError> {
    let label = serde_json::to_vec(&StreamLabel { session: streams.label.clone() })?;
    let names = serde_json::to_vec(&streams.names)?;
    let one = |stream: &StreamId| {
        let sealers = streams.keys.as_ref().map(|keys| {
            let of =
                |key: &SecretKey, purpose| FrameSealer::new(&key.0, purpose, *stream, keys.cipher);
            let names = of(&keys.names, Purpose::Names)?;
            Ok(Sealers { names, contents: of(&keys.contents, Purpose::Contents)? })
        });
        Ok(StreamOptions {
            stream: *stream,
            label: label.clone(),
            names: names.clone(),
            sealers: sealers.transpose().map_err(JobError::Key)?,
            crc: streams.crc,
            choice: CompressionChoice::new(streams.compression, ladder.clone()),
        })
    };
    streams.ids.iter().map(one).collect()
}
