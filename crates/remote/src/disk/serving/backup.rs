//! A backup job at the disk agent.

use std::sync::Arc;

use capstan_engine::ladder::Ladder;
use capstan_engine::link::BlockPort;
use capstan_engine::meter::Meters;
use capstan_engine::threads::start_in;
use capstan_format::entry::Timestamp;
use capstan_port::disk::DiskAgent;
use capstan_port::disk::backup::{Ports, ReadyBackup};
use capstan_port::disk::base::{BaseFiles, BaseRows};
use capstan_wire::backup::BackupJob;
use capstan_wire::disk::ask::{JobAsk, OnBase, Part};
use capstan_wire::disk::told::FromAgent;
use capstan_wire::foreseen::Foreseen;

use super::base::{FilesHere, RowsHere};
use super::parts::Parts;
use super::teller::{Of, Teller};
use crate::connection::{Broken, Channel};
use crate::data::Dial;
use crate::data::blocks::port::RemoteBlocks;
use crate::disk::errors::{foresee_said, job_said};
use crate::disk::post::Post;
use crate::disk::told::Passing;

/// Names that are foreseen, in one message.
const FORESEEN: usize = 256;

/// Makes a job ready, and runs it.
pub(super) fn run(
    agent: &dyn DiskAgent,
    (parts, dial): (&Parts, &Arc<Dial>),
    channel: Channel,
    job: BackupJob,
) -> Result<(), Broken> {
    let ladder = Arc::new(Ladder::default());
    let ready = match agent.ready(job, &ladder) {
        Ok(ready) => ready,
        Err(e) => return channel.tell(&Err::<(), _>(job_said(e))),
    };
    channel.tell(&Ok::<(), ()>(()))?;
    let post = Post::of(channel)?;
    let ask = post.hear::<JobAsk>()?;
    let (JobAsk::Run { base: on, .. } | JobAsk::Foresee(on)) = &ask else {
        return Err(senseless());
    };
    let of = on.of;
    let base = Base::of(*on, parts, &post);
    parts.forget(of);
    let base = base?;
    let job = Job { agent, post: &post, ladder: &ladder, meters: Arc::default() };
    match ask {
        JobAsk::Run { blocks, block_size, .. } => {
            let blocks = RemoteBlocks::new(blocks, block_size as usize, dial.clone());
            job.run(ready, Arc::new(blocks), base)
        }
        JobAsk::Foresee(_) => job.foresee(ready, base),
        JobAsk::Step(_) => Err(senseless()),
    }
}

fn senseless() -> Broken {
    Broken::Message("a job was told what has no sense now".to_owned())
}

/// What it builds on.
struct Base {
    rows: Option<RowsHere>,
    files: Option<FilesHere>,
}

impl Base {
    fn of(on: OnBase, parts: &Parts, post: &Post) -> Result<Self, Broken> {
        let take = |part| parts.take((on.of, part), post.channel());
        let rows = on.has_rows.then(|| take(Part::Base).map(RowsHere::of)).transpose()?;
        let files = on.saved_by.map(|(sec, nsec)| {
            let saved_by = Timestamp { sec, nsec: nsec.min(999_999_999) };
            FilesHere::of(take(Part::Files)?, saved_by)
        });
        Ok(Self { rows, files: files.transpose()? })
    }
}

/// A job that runs.
struct Job<'j> {
    agent: &'j dyn DiskAgent,
    post: &'j Post,
    ladder: &'j Ladder,
    meters: Arc<Meters>,
}

impl Job<'_> {
    fn run(
        &self,
        ready: Box<dyn ReadyBackup>,
        blocks: Arc<dyn BlockPort>,
        mut base: Base,
    ) -> Result<(), Broken> {
        let listener = Passing(self.post);
        let (stop, counting) = (self.post.channel().stop_flag(), ready.counting());
        let teller = Teller::new(self.agent, self.post, &self.meters, Of::Backup(counting));
        let handed = self.told(&teller, || {
            let files = base.files.as_ref().map(|files| files as &dyn BaseFiles);
            let meters = self.meters.clone();
            let ports = Ports { files, meters, listener: &listener, stop: &stop };
            let rows = base.rows.as_mut().map(|rows| rows as &mut dyn BaseRows);
            ready.run(blocks, ports, rows)
        })?;
        self.post.tell(&FromAgent::Done(handed))
    }

    fn foresee(&self, ready: Box<dyn ReadyBackup>, mut base: Base) -> Result<(), Broken> {
        let listener = Passing(self.post);
        let (stop, counting) = (self.post.channel().stop_flag(), ready.counting());
        let teller = Teller::new(self.agent, self.post, &self.meters, Of::Backup(counting));
        let mut ahead: Vec<Foreseen> = Vec::with_capacity(FORESEEN);
        let mut sent = Ok(());
        let done = self.told(&teller, || {
            let files = base.files.as_ref().map(|files| files as &dyn BaseFiles);
            let meters = self.meters.clone();
            let ports = Ports { files, meters, listener: &listener, stop: &stop };
            let rows = base.rows.as_mut().map(|rows| rows as &mut dyn BaseRows);
            ready.foresee(ports, rows, &mut |foreseen| {
                ahead.push(foreseen.clone());
                if ahead.len() >= FORESEEN && sent.is_ok() {
                    sent = self.post.send(&ahead);
                    ahead.clear();
                }
            })
        })?;
        sent?;
        self.post.send(&ahead)?;
        self.post.tell(&FromAgent::Done(done.map_err(foresee_said)))
    }

    /// Does something while it is told how far it is. At the end it is told once more.
    fn told<T>(&self, teller: &Teller<'_>, work: impl FnOnce() -> T) -> Result<T, Broken> {
        let done = std::thread::scope(|scope| {
            let ending = teller.ending();
            start_in(scope, "telling", || teller.run(&mut || self.take_steps()))?;
            let done = work();
            drop(ending);
            Ok::<_, Broken>(done)
        })?;
        teller.tell()?;
        Ok(done)
    }

    /// Takes the steps of the ladder that came.
    fn take_steps(&self) -> Result<(), Broken> {
        while let Some(ask) = self.post.hear_now::<JobAsk>()? {
            if let JobAsk::Step(step) = ask {
                self.ladder.set_step(step as usize);
            }
        }
        Ok(())
    }
}
