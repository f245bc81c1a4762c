//! The disk agent of this host, behind its port and in this process.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capstan_engine::frames::FramePort;
use capstan_engine::ladder::Ladder;
use capstan_engine::message::Listener;
use capstan_mounts::MountTables;
use capstan_port::disk::archive::{ArchiveRefused, OpenArchive};
use capstan_port::disk::backup::{JobError, ReadyBackup};
use capstan_port::disk::check::{
    CheckError, ComparedRow, Inquiry, Met, ProofRow, Proven, ScratchError,
};
use capstan_port::disk::lost::AgentLost;
use capstan_port::disk::restore::{RestoreTarget, TargetRefused};
use capstan_port::disk::{DiskAgent, PathsError};
use capstan_wire::backup::{BackupJob, Trees};
use capstan_wire::check::{CompareJob, ProofJob, ScratchAsked};
use capstan_wire::host::Processors;
use capstan_wire::probe::{Probe, Work};
use capstan_wire::restore::{ArchiveSpec, TargetSpec};
use capstan_wire::source::{Named, PathsAsked, RootsAsked, RootsFound, UsedAsked};

use crate::backup::job::{ReadyJob, probe_trees};
use crate::backup::roots;
use crate::check::compare::compare;
use crate::check::proof::prove;
use crate::check::scratch;
use crate::linux::mount_table::HostMounts;
use crate::linux::processors::processors;
use crate::linux::used::used;
use crate::restore::archive;
use crate::restore::open::OpenTarget;

/// The disk agent of this host.
#[derive(Debug, Default)]
pub struct LocalDiskAgent {
    /// Where the host has its mount points on record.
    tables: MountTables,
}

impl LocalDiskAgent {
    /// What is mounted now, and is to be.
    fn mounts(&self) -> HostMounts {
        let points = self.tables.points().into_iter();
        let on_record = points.map(|point| {
            let path = point.path.as_os_str().as_bytes();
            (path.strip_prefix(b"/").unwrap_or(path).to_vec(), point.by_itself)
        });
        HostMounts::now(on_record.collect())
    }
}

impl DiskAgent for LocalDiskAgent {
    fn processors(&self) -> Processors {
        processors()
    }

    fn paths(&self, asked: &PathsAsked) -> Result<Vec<Named>, PathsError> {
        Ok(roots::named(asked)?)
    }

    fn roots(&self, asked: &RootsAsked) -> Result<RootsFound, AgentLost> {
        let links = roots::links(&asked.roots);
        let used = |of: &UsedAsked| used(&asked.roots, of.one_file_system, &of.aside);
        Ok(RootsFound { links, used: asked.used.as_ref().and_then(used) })
    }

    fn ready(
        &self,
        job: BackupJob,
        ladder: &Arc<Ladder>,
    ) -> Result<Box<dyn ReadyBackup>, JobError> {
        Ok(Box::new(ReadyJob::new(job, || self.mounts(), ladder)?))
    }

    fn probe(
        &self,
        trees: &Trees,
        work: Option<Work>,
        stop: &AtomicBool,
    ) -> Result<Probe, JobError> {
        Ok(probe_trees(trees, self.mounts(), work, stop)?)
    }

    fn compare(
        &self,
        job: &CompareJob,
        frames: Option<&mut dyn FramePort>,
        listener: &dyn Listener,
        stop: &AtomicBool,
        rows: &mut dyn Inquiry<ComparedRow, Met>,
    ) -> Result<(), CheckError> {
        compare(job, frames, (listener, stop), rows)
    }

    fn open_target(
        &self,
        spec: &TargetSpec,
    ) -> Result<Option<Box<dyn RestoreTarget>>, TargetRefused> {
        let target = OpenTarget::of(spec)?;
        Ok(target.map(|target| Box::new(target) as Box<dyn RestoreTarget>))
    }

    fn open_archive<'a>(
        &self,
        spec: &ArchiveSpec,
        stop: &'a AtomicBool,
    ) -> Result<Box<dyn OpenArchive<'a> + 'a>, ArchiveRefused> {
        Ok(Box::new(archive::Opened::of(spec, stop)?))
    }

    fn make_scratch(&self, asked: &ScratchAsked) -> Result<Vec<u8>, ScratchError> {
        scratch::make(asked)
    }

    fn remove_scratch(&self, path: &[u8]) {
        scratch::remove(path);
    }

    fn prove(
        &self,
        job: &ProofJob,
        stop: &AtomicBool,
        rows: &mut dyn Inquiry<ProofRow, Proven>,
    ) -> Result<(), CheckError> {
        prove(job, stop, rows)
    }
}
