//! The cell's side: a disk agent on another host.

mod archive;
mod backup;
pub(super) mod base;
mod check;
pub(super) mod restore;
mod target;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use capstan_engine::frames::FramePort;
use capstan_engine::ladder::Ladder;
use capstan_engine::message::Listener;
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
use capstan_wire::disk::ask::{DiskAsk, Part};
use capstan_wire::disk::said::{ArchiveSaid, JobSaid, ProblemSaid, ScratchSaid};
use capstan_wire::host::Processors;
use capstan_wire::probe::{Probe, Work};
use capstan_wire::restore::{ArchiveSpec, TargetSpec};
use capstan_wire::source::{BadPath, Named, PathsAsked, RootsAsked, RootsFound};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::bulk::Bulk;
use super::errors::{archive, job, lost, scratch};
use super::post::Post;
use super::told::OFTEN;
use crate::connection::{Broken, Channel, Connection};

/// A reading of the processors is used for so long.
const FRESH: Duration = Duration::from_secs(1);

/// A disk agent on another host.
pub struct RemoteDiskAgent {
    link: Arc<Link>,
    /// Scratch directories that were made, each with the channel that keeps it.
    scratch: Mutex<HashMap<Vec<u8>, Channel>>,
}

/// What all conversations with it share.
struct Link {
    connection: Arc<Connection>,
    bulk: Bulk,
    /// The next number of a conversation.
    next: AtomicU64,
    processors: Mutex<Option<(Instant, Processors)>>,
}

impl Link {
    /// Begins a conversation.
    fn open(&self, ask: &DiskAsk) -> Result<Channel, Broken> {
        let channel = self.connection.open()?;
        channel.tell(ask)?;
        Ok(channel)
    }

    /// Asks a question.
    fn ask<A: DeserializeOwned>(&self, ask: &DiskAsk) -> Result<A, AgentLost> {
        self.open(ask).and_then(|channel| channel.hear()).map_err(|why| lost(&why))
    }

    /// A number for a conversation that has further channels.
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// A further channel of a conversation.
    fn part(&self, of: u64, part: Part) -> Result<Channel, Broken> {
        self.open(&DiskAsk::Part { of, part })
    }

    /// A reading of the processors came.
    fn processors_are(&self, now: Option<Processors>) {
        if let Some(now) = now {
            *self.processors.lock() = Some((Instant::now(), now));
        }
    }
}

/// Opens a conversation that has an answer first: whether it is.
fn opened<A: DeserializeOwned, E: DeserializeOwned>(
    link: &Link,
    ask: &DiskAsk,
) -> Result<Result<(Post, A), E>, Broken> {
    let channel = link.open(ask)?;
    match channel.hear::<Result<A, E>>()? {
        Ok(answer) => Ok(Ok((Post::of(channel)?, answer))),
        Err(e) => Ok(Err(e)),
    }
}

impl RemoteDiskAgent {
    /// The one at the other side of a connection. `bulk` serves what no media agent elsewhere does.
    pub fn new(connection: Arc<Connection>, bulk: Bulk) -> Self {
        let (next, processors) = (AtomicU64::new(0), Mutex::default());
        Self {
            link: Arc::new(Link { connection, bulk, next, processors }),
            scratch: Mutex::default(),
        }
    }
}

/// Has something done that has one answer, and that can be ended early.
fn ask_stoppable<A: DeserializeOwned>(
    link: &Link,
    ask: &impl Serialize,
    stop: &AtomicBool,
) -> Result<A, Broken> {
    let channel = link.connection.open()?;
    channel.tell(ask)?;
    let mut is_stopped = false;
    loop {
        if !is_stopped && stop.load(Relaxed) {
            is_stopped = true;
            channel.stop()?;
        }
        if let Some(answer) = channel.receive_within(OFTEN)? {
            return Ok(capstan_wire::decode(&answer)?);
        }
    }
}

impl DiskAgent for RemoteDiskAgent {
    fn processors(&self) -> Processors {
        let last = *self.link.processors.lock();
        if let Some((when, last)) = last
            && when.elapsed() < FRESH
        {
            return last;
        }
        let asked = self.link.ask::<Processors>(&DiskAsk::Processors).ok();
        self.link.processors_are(asked);
        asked.or(last.map(|(_, last)| last)).unwrap_or_default()
    }

    fn paths(&self, asked: &PathsAsked) -> Result<Vec<Named>, PathsError> {
        let answer = self.link.ask::<Result<_, BadPath>>(&DiskAsk::Paths(asked.clone()))?;
        Ok(answer?)
    }

    fn roots(&self, asked: &RootsAsked) -> Result<RootsFound, AgentLost> {
        let answer = self.link.ask::<Result<_, ProblemSaid>>(&DiskAsk::Roots(asked.clone()))?;
        answer.map_err(|e| AgentLost(e.into()))
    }

    fn ready(
        &self,
        order: BackupJob,
        ladder: &Arc<Ladder>,
    ) -> Result<Box<dyn ReadyBackup>, JobError> {
        let streams = order.streams.ids.clone();
        let answer = opened::<(), JobSaid>(&self.link, &DiskAsk::Ready(Box::new(order)));
        let (post, ()) = answer.map_err(|why| lost(&why))?.map_err(job)?;
        Ok(Box::new(backup::RemoteJob::new((self.link.clone(), post), streams, ladder.clone())))
    }

    fn probe(
        &self,
        trees: &Trees,
        work: Option<Work>,
        stop: &AtomicBool,
    ) -> Result<Probe, JobError> {
        let ask = DiskAsk::Probe { trees: Box::new(trees.clone()), work };
        let answer = ask_stoppable::<Result<_, JobSaid>>(&self.link, &ask, stop);
        answer.map_err(|why| lost(&why))?.map_err(job)
    }

    fn compare(
        &self,
        job: &CompareJob,
        frames: Option<&mut dyn FramePort>,
        listener: &dyn Listener,
        stop: &AtomicBool,
        rows: &mut dyn Inquiry<ComparedRow, Met>,
    ) -> Result<(), CheckError> {
        let ask = DiskAsk::Compare { job: Box::new(job.clone()), has_frames: frames.is_some() };
        let post = self.link.open(&ask).and_then(Post::of).map_err(|why| lost(&why))?;
        check::run(&post, check::With { frames, listener: Some(listener), stop }, rows)
    }

    fn open_target(
        &self,
        spec: &TargetSpec,
    ) -> Result<Option<Box<dyn RestoreTarget>>, TargetRefused> {
        let answer = opened::<bool, ProblemSaid>(&self.link, &DiskAsk::OpenTarget(spec.clone()));
        let answer = answer.map_err(|why| TargetRefused(lost(&why).0))?;
        let (post, is_there) = answer.map_err(|e| TargetRefused(e.into()))?;
        Ok(is_there.then(|| {
            let target = target::RemoteTarget::new(self.link.clone(), post);
            Box::new(target) as Box<dyn RestoreTarget>
        }))
    }

    fn open_archive<'a>(
        &self,
        spec: &ArchiveSpec,
        _stop: &'a AtomicBool,
    ) -> Result<Box<dyn OpenArchive<'a> + 'a>, ArchiveRefused> {
        let answer = opened::<(), ArchiveSaid>(&self.link, &DiskAsk::OpenArchive(spec.clone()));
        let (post, ()) = answer.map_err(|why| lost(&why))?.map_err(archive)?;
        Ok(Box::new(archive::RemoteArchive::new(self.link.clone(), post)))
    }

    fn make_scratch(&self, asked: &ScratchAsked) -> Result<Vec<u8>, ScratchError> {
        let asking = || -> Result<_, Broken> {
            let channel = self.link.open(&DiskAsk::MakeScratch(asked.clone()))?;
            let answer = channel.hear::<Result<Vec<u8>, ScratchSaid>>()?;
            Ok((channel, answer))
        };
        let (channel, answer) = asking().map_err(|why| lost(&why))?;
        let path = answer.map_err(scratch)?;
        self.scratch.lock().insert(path.clone(), channel);
        Ok(path)
    }

    fn remove_scratch(&self, path: &[u8]) {
        let kept = self.scratch.lock().remove(path);
        // The answer says that it is gone. Where the connection broke it goes without being asked.
        let _ = kept.map(|channel| channel.ask::<_, ()>(&()));
    }

    fn prove(
        &self,
        job: &ProofJob,
        stop: &AtomicBool,
        rows: &mut dyn Inquiry<ProofRow, Proven>,
    ) -> Result<(), CheckError> {
        let ask = DiskAsk::Prove(job.clone());
        let post = self.link.open(&ask).and_then(Post::of).map_err(|why| lost(&why))?;
        check::run(&post, check::With { frames: None, listener: None, stop }, rows)
    }
}
