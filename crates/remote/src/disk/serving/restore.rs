//! A restore at the disk agent.

use std::thread::Scope;
use std::time::Duration;

use capstan_engine::meter::Meters;
use capstan_engine::problem::Explain;
use capstan_engine::threads::start_in;
use capstan_port::disk::DiskAgent;
use capstan_port::disk::restore::{
    Ending, RestoreEnded, RestoreRun, RestoreTarget, RestoreWith, ToForesee, ToPrepare,
};
use capstan_wire::disk::ask::{How, Part, RestoreBegin, TargetAsk, WorkerAsk};
use capstan_wire::disk::said::{EndedSaid, ProblemSaid};
use capstan_wire::disk::told::{FromAgent, TargetAnswer, WorkerAnswer};
use capstan_wire::restore::TargetSpec;
use capstan_wire::rows;
use parking_lot::Mutex;

use super::parts::Parts;
use super::teller::{Of, Teller};
use crate::connection::{Broken, Channel};
use crate::disk::asking::restore::KeptFirst;
use crate::disk::errors::ended_said;
use crate::disk::frames::FramesThere;
use crate::disk::post::{Item, Post};
use crate::disk::told::Passing;

/// Opens a target, answers what is asked of it, and restores into it.
pub(super) fn run(
    agent: &dyn DiskAgent,
    parts: &Parts,
    channel: Channel,
    spec: &TargetSpec,
) -> Result<(), Broken> {
    let target = match agent.open_target(spec) {
        Ok(Some(target)) => target,
        Ok(None) => return channel.tell(&Ok::<_, ProblemSaid>(false)),
        Err(e) => return channel.tell(&Err::<bool, _>(ProblemSaid::from(e.problem()))),
    };
    channel.tell(&Ok::<_, ProblemSaid>(true))?;
    let post = Post::of(channel)?;
    let begin = asked(&post, &*target)?;
    let (meters, listener) = (Meters::default(), Passing(&post));
    let stop = post.channel().stop_flag();
    let RestoreBegin { of, keys, has_links, has_flags } = begin;
    let with = RestoreWith {
        listener: &listener,
        meters: &meters,
        stop: &stop,
        keys,
        has_links,
        has_flags,
    };
    let mut run = target.restore(with);
    let prepared = prepare(&post, &mut *run);
    let restoring = Restoring { agent, parts, of, post: &post, meters: &meters, run: &*run };
    let done = prepared.and_then(|first| restoring.run(first));
    if done.is_err() {
        restoring.give_up();
    }
    parts.forget(of);
    done
}

/// Answers until a restore is to begin.
fn asked(post: &Post, target: &dyn RestoreTarget) -> Result<RestoreBegin, Broken> {
    // An agent that is behind another one, and lost it, hangs up.
    let gone = |_| Broken::Ended;
    loop {
        let answer = match post.hear::<TargetAsk>()? {
            TargetAsk::NotWritable => TargetAnswer::NotWritable(target.not_writable()),
            TargetAsk::Has(names) => TargetAnswer::Has(target.has(&names.0).map_err(gone)?),
            TargetAsk::LeftAlone => TargetAnswer::LeftAlone(target.left_alone().map_err(gone)?),
            TargetAsk::Foresee => {
                let prospects = target.foresee(&post.rows::<ToForesee>()?).map_err(gone)?;
                post.send(&prospects)?;
                continue;
            }
            TargetAsk::Restore(begin) => return Ok(begin),
            _ => return Err(senseless()),
        };
        post.tell(&FromAgent::Done(answer))?;
    }
}

fn senseless() -> Broken {
    Broken::Message("a target was asked for what has no sense now".to_owned())
}

/// Takes what has to be known before anything is written. Gives the first that is asked afterwards.
fn prepare(post: &Post, run: &mut dyn RestoreRun) -> Result<TargetAsk, Broken> {
    loop {
        match post.wait::<TargetAsk>()? {
            Item::Rows(message) => run.prepare(&mut rows::decode::<ToPrepare>(&message)?),
            Item::Said(TargetAsk::KeptFirsts) => {
                let kept = run.kept_firsts().into_iter();
                let kept: Vec<_> = kept.map(|(first, further)| KeptFirst(first, further)).collect();
                for some in kept.chunks(256) {
                    post.send(some)?;
                }
                post.tell(&FromAgent::Done(TargetAnswer::Rows))?;
            }
            Item::Said(ask) => return Ok(ask),
        }
    }
}

/// A restore that writes.
struct Restoring<'r> {
    agent: &'r dyn DiskAgent,
    parts: &'r Parts,
    /// What the other side calls it.
    of: u64,
    post: &'r Post,
    meters: &'r Meters,
    run: &'r dyn RestoreRun,
}

/// Why workers ended.
type Failed = Mutex<Option<EndedSaid>>;

impl Restoring<'_> {
    /// What was not finished is dated so.
    fn give_up(&self) {
        // Nobody is there to hear it.
        let _ = self.run.end(Ending::Failed);
    }

    fn run(&self, first: TargetAsk) -> Result<(), Broken> {
        let counts = || self.run.counts();
        let teller = Teller::new(self.agent, self.post, self.meters, Of::Restore(&counts));
        std::thread::scope(|scope| {
            let _ending = teller.ending();
            start_in(scope, "telling", || teller.run(&mut || Ok(())))?;
            let mut first = Some(first);
            // What comes until the end, in which workers come and go.
            let failed = Failed::default();
            let how = std::thread::scope(|workers| self.work(workers, &failed, &mut first));
            let how = match how {
                Ok(Some(how)) => how,
                Ok(None) => return Ok(()),
                Err(why) => return Err(why),
            };
            let failed = failed.into_inner();
            let how = if failed.is_some() { Ending::Failed } else { how };
            let done = self.run.end(how).map_err(ended_said);
            let done = failed.map_or(done, Err);
            let told = teller
                .tell()
                .and_then(|()| self.post.tell(&FromAgent::Done(TargetAnswer::Ended(done))));
            if told.is_ok() {
                self.last(&teller);
            }
            Ok(())
        })
    }

    /// Lets workers work until it is to end. Nothing where it is done without.
    fn work<'s, 'e: 's>(
        &'e self,
        scope: &'s Scope<'s, 'e>,
        failed: &'e Failed,
        first: &mut Option<TargetAsk>,
    ) -> Result<Option<Ending>, Broken> {
        loop {
            let ask = match first.take() {
                Some(ask) => ask,
                None => self.post.hear::<TargetAsk>()?,
            };
            match ask {
                TargetAsk::Worker(n) => {
                    let channel = self.part(Part::Worker(n))?;
                    start_in(scope, "restore", move || self.worker(channel, failed))?;
                }
                TargetAsk::Finish => {
                    let channel = self.part(Part::Finish)?;
                    start_in(scope, "restore: finish", move || self.finish(channel, failed))?;
                }
                TargetAsk::End(how) => {
                    return Ok(Some(match how {
                        How::Done => Ending::Done,
                        How::Stopped => Ending::Stopped,
                        How::Failed => Ending::Failed,
                    }));
                }
                TargetAsk::Done(object) => {
                    self.done(&object)?;
                    return Ok(None);
                }
                _ => return Err(senseless()),
            }
        }
    }

    fn part(&self, part: Part) -> Result<Channel, Broken> {
        self.parts.take((self.of, part), self.post.channel())
    }

    /// Answers what is asked after the end. All is written: it does not matter any more whether anybody hears it.
    fn last(&self, teller: &Teller<'_>) {
        while let Ok(TargetAsk::Done(object)) = self.post.hear::<TargetAsk>() {
            let told = teller.tell().and_then(|()| self.done(&object));
            if told.is_err() {
                return;
            }
        }
    }

    fn done(&self, object: &str) -> Result<(), Broken> {
        let done = self.run.done(object);
        self.post.tell(&FromAgent::Done(TargetAnswer::Done(done)))
    }

    /// Writes what comes on a worker's channel.
    fn worker(&self, channel: Channel, failed: &Failed) -> Result<(), Broken> {
        let post = Post::of(channel)?;
        let frames = |anywhere| FramesThere { post: &post, anywhere };
        let mut worker = self.run.worker(Box::new(frames(true)));
        let mut in_order = frames(false);
        loop {
            let answer = match post.wait::<WorkerAsk>()? {
                Item::Rows(message) => {
                    let fed = worker.feed(&mut rows::decode(&message)?, &mut in_order);
                    fed.map(|()| Some(WorkerAnswer::Fed))
                }
                Item::Said(WorkerAsk::BeginStream) => {
                    worker.begin_stream();
                    Ok(None)
                }
                Item::Said(WorkerAsk::EndStream | WorkerAsk::End) => {
                    worker.end_stream(&mut in_order).map(|()| Some(WorkerAnswer::All))
                }
            };
            if !say(&post, answer, failed)? {
                return Ok(());
            }
        }
    }

    /// Finishes.
    fn finish(&self, channel: Channel, failed: &Failed) -> Result<(), Broken> {
        let post = Post::of(channel)?;
        let mut finish = Some(self.run.finish());
        loop {
            let answer = match post.wait::<WorkerAsk>()? {
                Item::Rows(message) => {
                    let mut all = rows::decode(&message)?;
                    finish.as_mut().map_or(Ok(()), |finish| finish.rows(&mut all)).map(|()| None)
                }
                Item::Said(_) => {
                    let end = finish.take().map_or(Ok(()), |finish| finish.end());
                    end.map(|()| Some(WorkerAnswer::All))
                }
            };
            if !say(&post, answer, failed)? {
                return Ok(());
            }
        }
    }
}

/// Says what a worker came to. Whether it goes on.
fn say(
    post: &Post,
    answer: Result<Option<WorkerAnswer>, RestoreEnded>,
    failed: &Failed,
) -> Result<bool, Broken> {
    match answer {
        Ok(None) => Ok(true),
        Ok(Some(answer)) => post.tell(&FromAgent::Done(answer)).map(|()| true),
        Err(why) => {
            let why = ended_said(why);
            failed.lock().get_or_insert_with(|| why.clone());
            post.tell(&FromAgent::Done(WorkerAnswer::Ended(why)))?;
            // What was said arrives before the channel is left; what comes meanwhile is of no use.
            let _ = post.next::<WorkerAsk>(Duration::ZERO);
            Ok(false)
        }
    }
}
