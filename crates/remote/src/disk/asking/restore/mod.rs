//! A restore that a disk agent on another host writes.

mod finish;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use capstan_engine::frames::FramePort;
use capstan_engine::meter::Meters;
use capstan_port::disk::lost::AgentLost;
use capstan_port::disk::restore::{
    Ending, RestoreEnded, RestoreFinish, RestoreListener, RestoreRun, RestoreWith, RestoreWorker,
    ToPrepare,
};
use capstan_wire::disk::ask::{How, Part, RestoreBegin, TargetAsk};
use capstan_wire::disk::told::{FromAgent, TargetAnswer};
use capstan_wire::restore::{RestoreCounts, RestoreDone};
use capstan_wire::rows::{self, form};
use minicbor::{Decode, Encode};
use parking_lot::Mutex;

use self::finish::RemoteFinish;
use self::worker::RemoteWorker;
use super::Link;
use crate::connection::Broken;
use crate::disk::errors::{ended, lost, other_answer};
use crate::disk::post::{Item, Post};
use crate::disk::told::{OFTEN, add, message};

/// A first name that is kept, and the further name that gets the contents.
#[derive(Encode, Decode)]
pub(in crate::disk) struct KeptFirst(
    #[cbor(n(0), with = "form")] pub Vec<u8>,
    #[cbor(n(1), with = "form")] pub Vec<u8>,
);

/// A restore.
pub(super) struct RemoteRestore<'a> {
    pub link: Arc<Link>,
    pub post: Post,
    pub listener: &'a dyn RestoreListener,
    pub meters: &'a Meters,
    stop: &'a AtomicBool,
    is_stopped: AtomicBool,
    /// What the other side calls it.
    of: u64,
    workers: AtomicU32,
    counts: Mutex<RestoreCounts>,
    /// Why nothing more can be asked.
    broken: Mutex<Option<Broken>>,
}

impl<'a> RemoteRestore<'a> {
    pub fn begin(link: Arc<Link>, post: Post, with: RestoreWith<'a>) -> Self {
        let RestoreWith { listener, meters, stop, keys, has_links, has_flags } = with;
        let of = link.number();
        let restore = Self {
            link,
            post,
            listener,
            meters,
            stop,
            is_stopped: AtomicBool::new(false),
            of,
            workers: AtomicU32::new(0),
            counts: Mutex::default(),
            broken: Mutex::default(),
        };
        let begin = RestoreBegin { of, keys, has_links, has_flags };
        restore.note(restore.post.tell(&TargetAsk::Restore(begin)));
        restore
    }

    /// Keeps why nothing more can be asked: what comes next says it.
    fn note<T>(&self, done: Result<T, Broken>) -> Option<T> {
        match done {
            Ok(done) => Some(done),
            Err(why) => {
                self.broken.lock().get_or_insert(why);
                None
            }
        }
    }

    /// Whether it can go on.
    pub fn holds(&self) -> Result<(), AgentLost> {
        self.broken.lock().as_ref().map_or(Ok(()), |why| Err(lost(why)))
    }

    /// Passes on that it is to end early.
    pub fn look_at_stop(&self) {
        if self.stop.load(Relaxed) && !self.is_stopped.swap(true, Relaxed) {
            self.note(self.post.channel().stop());
        }
    }

    /// Takes what was told of it.
    fn take<D>(&self, of: FromAgent<D>) -> Result<Option<D>, Broken> {
        match of {
            FromAgent::Done(done) => return Ok(Some(done)),
            FromAgent::Told(told) => {
                add(&told.meters, self.meters);
                self.link.processors_are(told.processors);
                if let Some(counts) = told.restored {
                    *self.counts.lock() = counts;
                }
            }
            FromAgent::Message(told) => {
                let message = message(told)?;
                self.listener.say(message.code, message.agent, &message.path, message.text);
            }
            FromAgent::Away { medium, why, bytes } => self.listener.away(medium, &why, bytes),
            FromAgent::Lost { stream, from, to } => self.listener.lost(stream, from, to),
            _ => {}
        }
        Ok(None)
    }

    /// Takes what was told until now.
    pub fn catch_up(&self) {
        self.look_at_stop();
        loop {
            match self.post.next::<FromAgent<TargetAnswer>>(Duration::ZERO) {
                Ok(None) => return,
                Ok(Some(Item::Rows(_))) => {}
                Ok(Some(Item::Said(of))) => drop(self.note(self.take(of))),
                Err(why) => {
                    self.note::<()>(Err(why));
                    return;
                }
            }
        }
    }

    /// Asks, and waits for the answer; gives the rows that came with it.
    fn ask(&self, ask: &TargetAsk) -> Result<(TargetAnswer, Vec<Vec<u8>>), Broken> {
        if let Some(why) = &*self.broken.lock() {
            return Err(why.clone());
        }
        self.post.tell(ask)?;
        let mut rows = Vec::new();
        loop {
            self.look_at_stop();
            match self.post.next::<FromAgent<TargetAnswer>>(OFTEN)? {
                None => {}
                Some(Item::Rows(message)) => rows.push(message),
                Some(Item::Said(of)) => {
                    if let Some(answer) = self.take(of)? {
                        return Ok((answer, rows));
                    }
                }
            }
        }
    }

    fn ask_kept_firsts(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Broken> {
        let (_, messages) = self.ask(&TargetAsk::KeptFirsts)?;
        let mut kept = Vec::new();
        for message in messages {
            let all = rows::decode::<KeptFirst>(&message)?;
            kept.extend(all.into_iter().map(|KeptFirst(first, further)| (first, further)));
        }
        Ok(kept)
    }

    /// Opens a further channel of it, and says that it comes.
    fn part(&self, part: Part, ask: &TargetAsk) -> Result<Post, Broken> {
        if let Some(why) = &*self.broken.lock() {
            return Err(why.clone());
        }
        let channel = self.link.part(self.of, part)?;
        self.post.tell(ask)?;
        Post::of(channel)
    }
}

impl RestoreRun for RemoteRestore<'_> {
    fn prepare(&mut self, rows: &mut Vec<ToPrepare>) {
        if !rows.is_empty() && self.broken.lock().is_none() {
            self.note(self.post.send(rows));
        }
        rows.clear();
        self.catch_up();
    }

    fn kept_firsts(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.note(self.ask_kept_firsts()).unwrap_or_default()
    }

    fn worker<'w>(&'w self, frames: Box<dyn FramePort + 'w>) -> Box<dyn RestoreWorker + 'w> {
        let n = self.workers.fetch_add(1, Relaxed);
        let post = self.part(Part::Worker(n), &TargetAsk::Worker(n));
        Box::new(RemoteWorker::new(self, post, frames))
    }

    fn finish<'w>(&'w self) -> Box<dyn RestoreFinish + 'w> {
        Box::new(RemoteFinish::new(self, self.part(Part::Finish, &TargetAsk::Finish)))
    }

    fn end(&self, how: Ending) -> Result<(), RestoreEnded> {
        let how = match how {
            Ending::Done => How::Done,
            Ending::Stopped => How::Stopped,
            Ending::Failed => How::Failed,
        };
        match self.ask(&TargetAsk::End(how)) {
            Ok((TargetAnswer::Ended(done), _)) => done.map_err(ended),
            Ok(_) => Err(lost(&other_answer()).into()),
            Err(why) => Err(lost(&why).into()),
        }
    }

    fn counts(&self) -> RestoreCounts {
        self.catch_up();
        *self.counts.lock()
    }

    fn done(&self, object: &str) -> RestoreDone {
        match self.ask(&TargetAsk::Done(object.to_owned())) {
            Ok((TargetAnswer::Done(done), _)) => done,
            // What it came to is not known: that it broke was said.
            Ok(_) | Err(_) => RestoreDone::default(),
        }
    }
}
