//! A disk agent whose link to the media agent is cut when a seed wants it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use capstan_disk_agent::agent::LocalDiskAgent;
use capstan_engine::frames::FramePort;
use capstan_engine::ladder::Ladder;
use capstan_engine::link::{BlockPort, FilledBlock, Grant, LinkClosed, SegmentOrdinal};
use capstan_engine::message::Listener;
use capstan_format::id::StreamId;
use capstan_port::disk::archive::{ArchiveRefused, OpenArchive};
use capstan_port::disk::backup::{
    Counting, EachForeseen, ForeseeError, JobError, Ports, ReadyBackup,
};
use capstan_port::disk::base::BaseRows;
use capstan_port::disk::check::{
    CheckError, ComparedRow, Inquiry, Met, ProofRow, Proven, ScratchError,
};
use capstan_port::disk::lost::AgentLost;
use capstan_port::disk::restore::{RestoreTarget, TargetRefused};
use capstan_port::disk::{DiskAgent, PathsError};
use capstan_wire::backup::{BackupJob, HandedOver, Trees};
use capstan_wire::check::{CompareJob, ProofJob, ScratchAsked};
use capstan_wire::host::Processors;
use capstan_wire::probe::{Probe, Work};
use capstan_wire::restore::{ArchiveSpec, TargetSpec};
use capstan_wire::source::{Named, PathsAsked, RootsAsked, RootsFound};

/// When the link is cut.
#[derive(Default)]
pub struct Cut {
    is_planned: AtomicBool,
    /// Blocks that still come through.
    left: AtomicU64,
}

impl Cut {
    /// Lets it be cut after so many blocks, or not at all.
    pub fn after(&self, blocks: Option<u64>) {
        self.left.store(blocks.unwrap_or(0), Relaxed);
        self.is_planned.store(blocks.is_some(), Relaxed);
    }

    /// Whether one more comes through.
    fn passes(&self) -> bool {
        !self.is_planned.load(Relaxed)
            || self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

/// The link, as long as it holds.
struct Link<'a> {
    blocks: Arc<dyn BlockPort + 'a>,
    cut: Arc<Cut>,
    is_cut: AtomicBool,
}

impl BlockPort for Link<'_> {
    fn block_size(&self) -> usize {
        self.blocks.block_size()
    }

    fn open_stream(&self, stream: StreamId) {
        self.blocks.open_stream(stream);
    }

    fn grant(&self, stream: StreamId) -> Result<Grant, LinkClosed> {
        match self.is_cut.load(Relaxed) {
            true => Err(LinkClosed),
            false => self.blocks.grant(stream),
        }
    }

    fn grant_more(&self, stream: StreamId, segment: SegmentOrdinal) -> Result<Grant, LinkClosed> {
        match self.is_cut.load(Relaxed) {
            true => Err(LinkClosed),
            false => self.blocks.grant_more(stream, segment),
        }
    }

    fn submit(&self, block: FilledBlock) -> Result<(), LinkClosed> {
        // What was under way arrives, and its sender does not get to know it.
        let passes = !self.is_cut.load(Relaxed) && self.cut.passes();
        self.is_cut.fetch_or(!passes, Relaxed);
        let submitted = self.blocks.submit(block);
        if passes { submitted } else { Err(LinkClosed) }
    }

    fn give_back(&self, stream: StreamId, grant: Grant) {
        self.blocks.give_back(stream, grant);
    }

    fn is_closing(&self, stream: StreamId, segment: SegmentOrdinal) -> bool {
        self.blocks.is_closing(stream, segment)
    }

    fn is_closed(&self) -> bool {
        self.is_cut.load(Relaxed) || self.blocks.is_closed()
    }

    fn leave_segment(&self, stream: StreamId, segment: SegmentOrdinal) {
        self.blocks.leave_segment(stream, segment);
    }

    fn close_stream(&self, stream: StreamId) -> Result<(), LinkClosed> {
        self.blocks.close_stream(stream)
    }
}

/// A disk agent of this process, with that link.
pub struct Agent {
    agent: LocalDiskAgent,
    cut: Arc<Cut>,
}

impl Agent {
    pub fn of(cut: Arc<Cut>) -> Self {
        Self { agent: LocalDiskAgent::default(), cut }
    }
}

/// A job of it.
struct Job {
    job: Box<dyn ReadyBackup>,
    cut: Arc<Cut>,
}

impl ReadyBackup for Job {
    fn counting(&self) -> Arc<dyn Counting> {
        self.job.counting()
    }

    fn run<'a>(
        self: Box<Self>,
        blocks: Arc<dyn BlockPort + 'a>,
        ports: Ports<'a>,
        base: Option<&mut dyn BaseRows>,
    ) -> HandedOver {
        let link = Link { blocks, cut: self.cut, is_cut: AtomicBool::default() };
        self.job.run(Arc::new(link), ports, base)
    }

    fn foresee(
        self: Box<Self>,
        ports: Ports<'_>,
        base: Option<&mut dyn BaseRows>,
        each: &mut EachForeseen<'_>,
    ) -> Result<HandedOver, ForeseeError> {
        self.job.foresee(ports, base, each)
    }
}

impl DiskAgent for Agent {
    fn processors(&self) -> Processors {
        self.agent.processors()
    }

    fn paths(&self, asked: &PathsAsked) -> Result<Vec<Named>, PathsError> {
        self.agent.paths(asked)
    }

    fn roots(&self, asked: &RootsAsked) -> Result<RootsFound, AgentLost> {
        self.agent.roots(asked)
    }

    fn ready(
        &self,
        job: BackupJob,
        ladder: &Arc<Ladder>,
    ) -> Result<Box<dyn ReadyBackup>, JobError> {
        let job = self.agent.ready(job, ladder)?;
        Ok(Box::new(Job { job, cut: self.cut.clone() }))
    }

    fn probe(
        &self,
        trees: &Trees,
        work: Option<Work>,
        stop: &AtomicBool,
    ) -> Result<Probe, JobError> {
        self.agent.probe(trees, work, stop)
    }

    fn compare(
        &self,
        job: &CompareJob,
        frames: Option<&mut dyn FramePort>,
        listener: &dyn Listener,
        stop: &AtomicBool,
        rows: &mut dyn Inquiry<ComparedRow, Met>,
    ) -> Result<(), CheckError> {
        self.agent.compare(job, frames, listener, stop, rows)
    }

    fn open_target(
        &self,
        spec: &TargetSpec,
    ) -> Result<Option<Box<dyn RestoreTarget>>, TargetRefused> {
        self.agent.open_target(spec)
    }

    fn open_archive<'a>(
        &self,
        spec: &ArchiveSpec,
        stop: &'a AtomicBool,
    ) -> Result<Box<dyn OpenArchive<'a> + 'a>, ArchiveRefused> {
        self.agent.open_archive(spec, stop)
    }

    fn make_scratch(&self, asked: &ScratchAsked) -> Result<Vec<u8>, ScratchError> {
        self.agent.make_scratch(asked)
    }

    fn remove_scratch(&self, path: &[u8]) {
        self.agent.remove_scratch(path);
    }

    fn prove(
        &self,
        job: &ProofJob,
        stop: &AtomicBool,
        rows: &mut dyn Inquiry<ProofRow, Proven>,
    ) -> Result<(), CheckError> {
        self.agent.prove(job, stop, rows)
    }
}
