//! The disk agent of this host, behind its port and in this process.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capstan_engine::ladder::Ladder;
use capstan_mounts::MountTables;
use capstan_port::disk::DiskAgent;
use capstan_port::disk::backup::{JobError, ReadyBackup};
use capstan_wire::backup::{BackupJob, Trees};
use capstan_wire::probe::{Probe, Work};
use capstan_wire::source::{BadPath, Named, PathsAsked, RootsAsked, RootsFound, UsedAsked};

use crate::backup::job::{ReadyJob, probe_trees};
use crate::backup::roots;
use crate::linux::mount_table::HostMounts;
use crate::linux::used::used;

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
    fn paths(&self, asked: &PathsAsked) -> Result<Vec<Named>, BadPath> {
        roots::named(asked)
    }

    fn roots(&self, asked: &RootsAsked) -> RootsFound {
        let links = roots::links(&asked.roots);
        let used = |of: &UsedAsked| used(&asked.roots, of.one_file_system, &of.aside);
        RootsFound { links, used: asked.used.as_ref().and_then(used) }
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
}
