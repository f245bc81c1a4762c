//! The port to a disk agent, which has the file systems of one host.
//!
//! [`backup`] is what a backup job runs with, and [`base`] the stream of rows that it builds on. [`check`] is what is held against the
//! file systems: comparisons and the proof of drills. [`restore`] is what a restore runs with, [`archive`] one into an archive. [`contents`] says where contents lie, [`ctime`] what times prove.

pub mod archive;
pub mod backup;
pub mod base;
pub mod check;
pub mod contents;
pub mod ctime;
pub mod further_names;
pub mod lost;
pub mod restore;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capstan_engine::frames::FramePort;
use capstan_engine::ladder::Ladder;
use capstan_engine::message::Listener;
use capstan_wire::backup::{BackupJob, Trees};
use capstan_wire::check::{CompareJob, ProofJob, ScratchAsked};
use capstan_wire::host::Processors;
use capstan_wire::probe::{Probe, Work};
use capstan_wire::restore::{ArchiveSpec, TargetSpec};
use capstan_wire::source::{BadPath, Named, PathsAsked, RootsAsked, RootsFound};

use self::archive::{ArchiveRefused, OpenArchive};
use self::backup::{JobError, ReadyBackup};
use self::check::{CheckError, ComparedRow, Inquiry, Met, ProofRow, Proven, ScratchError};
use self::lost::AgentLost;
use self::restore::{RestoreTarget, TargetRefused};

/// Why it is not said where paths lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathsError {
    /// A path means nothing.
    Bad(BadPath),
    /// Nobody answers.
    Lost(AgentLost),
}

impl From<BadPath> for PathsError {
    fn from(bad: BadPath) -> Self {
        Self::Bad(bad)
    }
}

impl From<AgentLost> for PathsError {
    fn from(lost: AgentLost) -> Self {
        Self::Lost(lost)
    }
}

/// A disk agent.
pub trait DiskAgent: Send + Sync {
    /// The processors of its host. On another host they are told five times a second, and this is the last reading.
    fn processors(&self) -> Processors;

    /// Says where paths lead that are to be backed up, each in its place.
    fn paths(&self, asked: &PathsAsked) -> Result<Vec<Named>, PathsError>;

    /// Says what roots are.
    fn roots(&self, asked: &RootsAsked) -> Result<RootsFound, AgentLost>;

    /// Makes a backup job ready: nothing of it is in doubt then, and nothing was read. `ladder` is the choice of compression that its
    /// streams share with others of their session: the cell's watch climbs it.
    fn ready(&self, job: BackupJob, ladder: &Arc<Ladder>)
    -> Result<Box<dyn ReadyBackup>, JobError>;

    /// Reads the first files of trees for a second, or 256 MiB of them, and works on them as a stream would. Ends early where `stop` is
    /// set.
    fn probe(
        &self,
        trees: &Trees,
        work: Option<Work>,
        stop: &AtomicBool,
    ) -> Result<Probe, JobError>;

    /// Holds the rows of a version, in the order of the walk, against what there is. Contents come from `frames`, where they are to be
    /// compared. What cannot be looked at is said.
    fn compare(
        &self,
        job: &CompareJob,
        frames: Option<&mut dyn FramePort>,
        listener: &dyn Listener,
        stop: &AtomicBool,
        rows: &mut dyn Inquiry<ComparedRow, Met>,
    ) -> Result<(), CheckError>;

    /// Opens what is restored into; nothing where it is only to be looked at and is not there.
    fn open_target(
        &self,
        spec: &TargetSpec,
    ) -> Result<Option<Box<dyn RestoreTarget>>, TargetRefused>;

    /// Opens an archive to be written. Who reads it may stop reading: then `stop` ends the writing.
    fn open_archive<'a>(
        &self,
        spec: &ArchiveSpec,
        stop: &'a AtomicBool,
    ) -> Result<Box<dyn OpenArchive<'a> + 'a>, ArchiveRefused>;

    /// Makes a scratch directory, and gives its path.
    fn make_scratch(&self, asked: &ScratchAsked) -> Result<Vec<u8>, ScratchError>;

    /// Removes a scratch directory with all that is in it.
    fn remove_scratch(&self, path: &[u8]);

    /// Looks at what a drill restored, and at the live files.
    fn prove(
        &self,
        job: &ProofJob,
        stop: &AtomicBool,
        rows: &mut dyn Inquiry<ProofRow, Proven>,
    ) -> Result<(), CheckError>;
}
