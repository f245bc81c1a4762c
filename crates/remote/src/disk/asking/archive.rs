//! An archive that a disk agent on another host writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use capstan_engine::frames::FramePort;
use capstan_engine::meter::Meters;
use capstan_port::disk::archive::{
    ArchiveCounting, ArchiveFailed, ArchiveRun, GoesOn, Member, OpenArchive,
};
use capstan_port::disk::contents::Piece;
use capstan_port::disk::restore::{RestoreListener, RestoreWith};
use capstan_wire::disk::ask::{ArchiveAsk, RestoreBegin};
use capstan_wire::disk::told::{ArchiveAnswer, FromAgent};
use capstan_wire::restore::RestoreCounts;
use parking_lot::Mutex;

use super::Link;
use crate::connection::Broken;
use crate::disk::errors::{lost, other_answer};
use crate::disk::frames::serve;
use crate::disk::post::{Item, Post};
use crate::disk::told::{OFTEN, add, message};

/// Members in one message.
const MEMBERS: usize = 32;
/// Messages of rows that are under way.
const AHEAD: usize = 4;

/// An archive that was opened.
pub(super) struct RemoteArchive {
    link: Arc<Link>,
    post: Post,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts(Mutex<RestoreCounts>);

impl ArchiveCounting for Counts {
    fn counts(&self) -> RestoreCounts {
        *self.0.lock()
    }
}

impl RemoteArchive {
    pub fn new(link: Arc<Link>, post: Post) -> Self {
        Self { link, post, counts: Arc::default() }
    }
}

impl<'a> OpenArchive<'a> for RemoteArchive {
    fn counting(&self) -> Arc<dyn ArchiveCounting> {
        self.counts.clone()
    }

    fn begin(
        self: Box<Self>,
        with: RestoreWith<'a>,
        frames: Box<dyn FramePort + 'a>,
    ) -> Result<Box<dyn ArchiveRun + 'a>, ArchiveFailed> {
        let RestoreWith { listener, meters, stop, keys, has_links, has_flags } = with;
        let begin = RestoreBegin { of: 0, keys, has_links, has_flags };
        let mut run = Running {
            of: *self,
            frames,
            listener,
            meters,
            stop,
            is_stopped: false,
            members: Vec::with_capacity(MEMBERS),
            under_way: 0,
            goes_on: true,
            room: 0,
            ended: None,
        };
        run.tell(&ArchiveAsk::Begin(begin))?;
        run.take_until(&|run| run.room > 0 || run.ended.is_some())?;
        run.failed()?;
        Ok(Box::new(run))
    }
}

/// An archive that is written.
struct Running<'a> {
    of: RemoteArchive,
    frames: Box<dyn FramePort + 'a>,
    listener: &'a dyn RestoreListener,
    meters: &'a Meters,
    stop: &'a AtomicBool,
    is_stopped: bool,
    /// Members that are to be sent.
    members: Vec<Member>,
    /// Messages of rows that were not taken yet.
    under_way: usize,
    goes_on: bool,
    /// Bytes that can be held, and one.
    room: u64,
    /// How it ended.
    ended: Option<Result<(), ArchiveFailed>>,
}

impl Running<'_> {
    fn tell(&self, ask: &ArchiveAsk) -> Result<(), ArchiveFailed> {
        Ok(self.of.post.tell(ask).map_err(|why| lost(&why))?)
    }

    /// Takes what is told, and serves frames, until something is so.
    fn take_until(&mut self, is_so: &dyn Fn(&Self) -> bool) -> Result<(), ArchiveFailed> {
        let done = self.take(is_so).map_err(|why| lost(&why));
        Ok(done?)
    }

    fn take(&mut self, is_so: &dyn Fn(&Self) -> bool) -> Result<(), Broken> {
        loop {
            if self.stop.load(Relaxed) && !std::mem::replace(&mut self.is_stopped, true) {
                self.of.post.channel().stop()?;
            }
            let limit = if is_so(self) { Duration::ZERO } else { OFTEN };
            let item = match self.of.post.next::<FromAgent<ArchiveAnswer>>(limit) {
                // What is waited for came, and nothing else has to.
                Ok(None) | Err(_) if limit.is_zero() => return Ok(()),
                other => other?,
            };
            match item {
                None => {}
                Some(Item::Rows(_)) => return Err(other_answer()),
                Some(Item::Said(of)) => self.heard(of)?,
            }
        }
    }

    fn heard(&mut self, of: FromAgent<ArchiveAnswer>) -> Result<(), Broken> {
        match of {
            FromAgent::Told(told) => {
                add(&told.meters, self.meters);
                self.of.link.processors_are(told.processors);
                if let Some(counts) = told.restored {
                    *self.of.counts.0.lock() = counts;
                }
            }
            FromAgent::Message(told) => {
                let message = message(told)?;
                self.listener.say(message.code, message.agent, &message.path, message.text);
            }
            FromAgent::Away { medium, why, bytes } => self.listener.away(medium, &why, bytes),
            FromAgent::Lost { stream, from, to } => self.listener.lost(stream, from, to),
            FromAgent::Frame { stream, at, .. } => {
                serve(&self.of.post, &mut *self.frames, (stream, at))?;
            }
            FromAgent::Done(ArchiveAnswer::Begun(room)) => self.room = room.saturating_add(1),
            FromAgent::Done(ArchiveAnswer::Taken(goes_on)) => {
                self.under_way = self.under_way.saturating_sub(1);
                self.goes_on &= goes_on;
            }
            FromAgent::Done(ArchiveAnswer::Ended(done)) => {
                self.ended = Some(done.map_err(|e| ArchiveFailed(e.into())));
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends the members that wait.
    fn send(&mut self) -> Result<(), ArchiveFailed> {
        if !self.members.is_empty() {
            let sent = self.of.post.send(&self.members).map_err(|why| lost(&why));
            self.members.clear();
            self.under_way += 1;
            self.failed()?;
            sent?;
        }
        Ok(())
    }

    /// Whether it failed.
    fn failed(&mut self) -> Result<(), ArchiveFailed> {
        match self.ended.take() {
            Some(Err(why)) => Err(why),
            other => {
                self.ended = other;
                Ok(())
            }
        }
    }
}

impl ArchiveRun for Running<'_> {
    fn room(&self) -> u64 {
        self.room.saturating_sub(1)
    }

    fn hold(&mut self, pieces: &[Piece]) {
        let held = self.send().and_then(|()| {
            self.tell(&ArchiveAsk::Hold)?;
            let sent = self.of.post.send(pieces).map_err(|why| lost(&why));
            sent?;
            self.under_way += 1;
            self.take_until(&|run| run.under_way <= AHEAD || run.ended.is_some())
        });
        if let Err(why) = held {
            self.ended = Some(Err(why));
        }
    }

    fn add(&mut self, member: Member) -> Result<GoesOn, ArchiveFailed> {
        self.failed()?;
        self.members.push(member);
        if self.members.len() >= MEMBERS {
            self.send()?;
            self.take_until(&|run| run.under_way <= AHEAD || run.ended.is_some())?;
            self.failed()?;
        }
        Ok(if self.goes_on { GoesOn::Yes } else { GoesOn::No })
    }

    fn end(mut self: Box<Self>, is_cut: bool) -> Result<(), ArchiveFailed> {
        self.failed()?;
        self.send()?;
        // One that was ended within a member has only that to write which is not written yet.
        self.take_until(&|run| run.under_way == 0 || run.ended.is_some())?;
        let is_cut = is_cut || !self.goes_on;
        if self.ended.is_none() {
            self.tell(&ArchiveAsk::End { is_cut })?;
            self.take_until(&|run| run.ended.is_some())?;
        }
        self.ended.take().unwrap_or(Ok(()))
    }
}
