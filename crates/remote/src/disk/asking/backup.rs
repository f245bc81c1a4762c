//! A backup job at a disk agent on another host.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::ladder::Ladder;
use capstan_engine::link::BlockPort;
use capstan_engine::message::{Code, Message};
use capstan_engine::meter::Meters;
use capstan_engine::threads::start_in;
use capstan_format::id::StreamId;
use capstan_port::disk::backup::{
    Counting, EachForeseen, ForeseeError, Ports, ReadyBackup, without_a_word,
};
use capstan_port::disk::base::BaseRows;
use capstan_wire::backup::{Counts, HandedOver, Noted};
use capstan_wire::disk::ask::{JobAsk, OnBase, Part};
use capstan_wire::disk::said::ForeseeSaid;
use capstan_wire::disk::told::{FromAgent, Told};
use capstan_wire::foreseen::Foreseen;
use capstan_wire::rows;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::Link;
use super::base::{give_files, give_rows};
use crate::connection::Broken;
use crate::disk::bulk::Blocks;
use crate::disk::errors::{foresee, lost};
use crate::disk::post::{Item, Post};
use crate::disk::told::{OFTEN, add, message};

/// A job that is ready at the other side.
pub(super) struct RemoteJob {
    link: Arc<Link>,
    post: Post,
    streams: Vec<StreamId>,
    ladder: Arc<Ladder>,
    counted: Arc<Counted>,
}

/// What was told last.
#[derive(Default)]
struct Counted {
    counts: Mutex<Counts>,
    noted: Mutex<Noted>,
}

impl Counting for Counted {
    fn counts(&self) -> Counts {
        *self.counts.lock()
    }

    fn noted(&self) -> Noted {
        self.noted.lock().clone()
    }
}

/// What a conversation about a job tells of.
struct Talk<'t> {
    link: &'t Link,
    post: &'t Post,
    ladder: &'t Ladder,
    counted: &'t Counted,
    meters: &'t Meters,
    ports: &'t Ports<'t>,
}

impl RemoteJob {
    pub fn new(
        (link, post): (Arc<Link>, Post),
        streams: Vec<StreamId>,
        ladder: Arc<Ladder>,
    ) -> Self {
        Self { link, post, streams, ladder, counted: Arc::default() }
    }

    fn talk<'t>(&'t self, ports: &'t Ports<'t>) -> Talk<'t> {
        let Self { link, post, ladder, counted, .. } = self;
        Talk { link, post, ladder, counted, meters: &ports.meters, ports }
    }
}

impl ReadyBackup for RemoteJob {
    fn counting(&self) -> Arc<dyn Counting> {
        self.counted.clone()
    }

    fn run<'a>(
        self: Box<Self>,
        blocks: Arc<dyn BlockPort + 'a>,
        ports: Ports<'a>,
        base: Option<&mut dyn BaseRows>,
    ) -> HandedOver {
        let talk = self.talk(&ports);
        let run = || -> Result<HandedOver, Broken> {
            let served = Blocks::of(&*blocks, &self.link.bulk)?;
            let (reach, block_size) = (served.reach(), blocks.block_size() as u32);
            let begin = |base| JobAsk::Run { blocks: reach, block_size, base };
            std::thread::scope(|scope| {
                // What serves blocks ends when this does.
                let _closing = served.closing();
                start_in(scope, "blocks", || served.serve(&*blocks, &self.streams))?;
                talk.through::<HandedOver>(begin, base, &mut |_| {})
            })
        };
        run().unwrap_or_else(|why| {
            let (counted, problem) = (&*self.counted, lost(&why));
            ports.listener.message(Message {
                code: Code::AgentLost,
                agent: "disk agent",
                path: String::new(),
                text: problem.to_string(),
                time_us: 0,
            });
            without_a_word(counted)
        })
    }

    fn foresee(
        self: Box<Self>,
        ports: Ports<'_>,
        base: Option<&mut dyn BaseRows>,
        each: &mut EachForeseen<'_>,
    ) -> Result<HandedOver, ForeseeError> {
        let talk = self.talk(&ports);
        let done = talk.through::<Result<HandedOver, ForeseeSaid>>(JobAsk::Foresee, base, each);
        done.map_err(|why| lost(&why))?.map_err(foresee)
    }
}

impl Talk<'_> {
    /// Has the job done; gives what it came to. What it builds on goes on channels of its own.
    fn through<D: DeserializeOwned>(
        &self,
        begin: impl FnOnce(OnBase) -> JobAsk,
        base: Option<&mut dyn BaseRows>,
        each: &mut EachForeseen<'_>,
    ) -> Result<D, Broken> {
        let of = self.link.number();
        let saved_by = self.ports.files.map(|files| files.saved_by());
        let on = OnBase {
            of,
            has_rows: base.is_some(),
            saved_by: saved_by.map(|time| (time.sec, time.nsec)),
        };
        let rows = base.map(|base| self.link.part(of, Part::Base).map(|channel| (channel, base)));
        let files = self.ports.files.map(|files| {
            let channel = self.link.part(of, Part::Files).and_then(Post::of);
            channel.map(|channel| (channel, files))
        });
        let (rows, files) = (rows.transpose()?, files.transpose()?);
        std::thread::scope(|scope| {
            self.post.tell(&begin(on))?;
            if let Some((channel, base)) = rows {
                start_in(scope, "rows of the base", move || give_rows(&channel, base))?;
            }
            // It hears of the end when the other side leaves the channel.
            if let Some((channel, files)) = files {
                start_in(scope, "files of the base", move || give_files(&channel, files))?;
            }
            let done = self.follow(each);
            if done.is_err() {
                // Nobody asks for anything any more.
                let _ = self.post.channel().stop();
                self.post.channel().hang_up();
            }
            done
        })
    }

    /// Takes what is told until it is done.
    fn follow<D: DeserializeOwned>(&self, each: &mut EachForeseen<'_>) -> Result<D, Broken> {
        let (mut is_stopped, mut step) = (false, 0);
        loop {
            if !is_stopped && self.ports.stop.load(Relaxed) {
                is_stopped = true;
                self.post.channel().stop()?;
            }
            let now = self.ladder.step();
            if std::mem::replace(&mut step, now) != now {
                self.post.tell(&JobAsk::Step(now as u32))?;
            }
            match self.post.next::<FromAgent<D>>(OFTEN)? {
                None => {}
                Some(Item::Rows(found)) => {
                    rows::decode::<Foreseen>(&found)?.iter().for_each(&mut *each)
                }
                Some(Item::Said(FromAgent::Done(done))) => return Ok(done),
                Some(Item::Said(FromAgent::Told(told))) => self.told(*told),
                Some(Item::Said(FromAgent::Message(told))) => {
                    self.ports.listener.message(message(told)?);
                }
                Some(Item::Said(_)) => {}
            }
        }
    }

    fn told(&self, told: Told) {
        add(&told.meters, self.meters);
        self.link.processors_are(told.processors);
        if let Some(counts) = told.counts {
            *self.counted.counts.lock() = counts;
        }
        if let Some(noted) = told.noted {
            *self.counted.noted.lock() = noted;
        }
    }
}
