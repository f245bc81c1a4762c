//! A worker of a restore: pushes rows ahead, and serves frames meanwhile, where the port that has them is here.

use std::time::Duration;

use capstan_engine::frames::FramePort;
use capstan_port::disk::restore::{Fed, RestoreEnded, RestoreWorker};
use capstan_wire::disk::ask::WorkerAsk;
use capstan_wire::disk::told::{FromAgent, WorkerAnswer};

use super::RemoteRestore;
use crate::connection::Broken;
use crate::disk::errors::{ended, lost};
use crate::disk::frames::serve;
use crate::disk::post::{Item, Post};
use crate::disk::told::OFTEN;

/// Messages of rows that are under way.
const AHEAD: usize = 4;

/// A worker.
pub(super) struct RemoteWorker<'w> {
    restore: &'w RemoteRestore<'w>,
    post: Result<Post, Broken>,
    /// Frames of any stream.
    anywhere: Box<dyn FramePort + 'w>,
    /// Messages of rows that are not written yet.
    under_way: usize,
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// That no more rows are under way than that.
    Fed(usize),
    /// That all were written.
    All,
}

impl<'w> RemoteWorker<'w> {
    pub fn new(
        restore: &'w RemoteRestore<'w>,
        post: Result<Post, Broken>,
        anywhere: Box<dyn FramePort + 'w>,
    ) -> Self {
        Self { restore, post, anywhere, under_way: 0 }
    }

    /// Serves frames, and takes what is said.
    fn serve(&mut self, frames: &mut dyn FramePort, until: Until) -> Result<(), RestoreEnded> {
        let Self { restore, post, anywhere, under_way } = self;
        let post = post.as_ref().map_err(lost)?;
        loop {
            let limit = match until {
                Until::Fed(most) if *under_way <= most => Duration::ZERO,
                _ => OFTEN,
            };
            match post.next::<FromAgent<WorkerAnswer>>(limit).map_err(|why| lost(&why))? {
                None if limit.is_zero() => return Ok(()),
                None => restore.look_at_stop(),
                Some(Item::Said(FromAgent::Frame { anywhere: is_anywhere, stream, at })) => {
                    let served = match is_anywhere {
                        true => serve(post, &mut **anywhere, (stream, at)),
                        false => serve(post, frames, (stream, at)),
                    };
                    served.map_err(|why| lost(&why))?;
                }
                Some(Item::Said(FromAgent::Done(WorkerAnswer::Fed))) => {
                    *under_way = under_way.saturating_sub(1);
                }
                Some(Item::Said(FromAgent::Done(WorkerAnswer::All))) => {
                    *under_way = 0;
                    if until == Until::All {
                        return Ok(());
                    }
                }
                Some(Item::Said(FromAgent::Done(WorkerAnswer::Ended(why)))) => {
                    return Err(ended(why));
                }
                Some(_) => {}
            }
        }
    }

    fn tell(&self, ask: WorkerAsk) -> Result<(), Broken> {
        self.post.as_ref().map_err(Clone::clone)?.tell(&ask)
    }
}

impl RestoreWorker for RemoteWorker<'_> {
    fn begin_stream(&mut self) {
        // Where nobody hears it, what is fed next says so.
        let _ = self.tell(WorkerAsk::BeginStream);
    }

    fn feed(
        &mut self,
        rows: &mut Vec<Fed>,
        frames: &mut dyn FramePort,
    ) -> Result<(), RestoreEnded> {
        self.restore.holds()?;
        let sent = self.post.as_ref().map_err(Clone::clone).and_then(|post| post.send(rows));
        rows.clear();
        // What ended it was said before.
        let said = self.serve_after(sent, frames);
        said.inspect(|()| self.restore.look_at_stop())
    }

    fn end_stream(&mut self, frames: &mut dyn FramePort) -> Result<(), RestoreEnded> {
        self.restore.holds()?;
        self.tell(WorkerAsk::EndStream).map_err(|why| lost(&why))?;
        self.serve(frames, Until::All)
    }
}

impl RemoteWorker<'_> {
    fn serve_after(
        &mut self,
        sent: Result<(), Broken>,
        frames: &mut dyn FramePort,
    ) -> Result<(), RestoreEnded> {
        match sent {
            Ok(()) => {
                self.under_way += 1;
                self.serve(frames, Until::Fed(AHEAD))
            }
            Err(why) => {
                // The other side may have said before why it takes no more.
                self.serve(frames, Until::Fed(0))?;
                Err(lost(&why).into())
            }
        }
    }
}
