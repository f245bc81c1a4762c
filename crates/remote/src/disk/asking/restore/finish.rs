//! The end of a restore: rows are pushed, errors come with later ones or at the end.

use std::time::Duration;

use capstan_port::disk::restore::{RestoreEnded, RestoreFinish, ToFinish};
use capstan_wire::disk::ask::WorkerAsk;
use capstan_wire::disk::told::{FromAgent, WorkerAnswer};

use super::RemoteRestore;
use crate::connection::Broken;
use crate::disk::errors::{ended, lost};
use crate::disk::post::{Item, Post};
use crate::disk::told::OFTEN;

/// Who finishes.
pub(super) struct RemoteFinish<'w> {
    restore: &'w RemoteRestore<'w>,
    post: Result<Post, Broken>,
}

impl<'w> RemoteFinish<'w> {
    pub fn new(restore: &'w RemoteRestore<'w>, post: Result<Post, Broken>) -> Self {
        Self { restore, post }
    }

    /// Takes what is said; waits for the end where that is wanted.
    fn take(&self, is_end: bool) -> Result<(), RestoreEnded> {
        self.restore.holds()?;
        let post = self.post.as_ref().map_err(lost)?;
        let limit = if is_end { OFTEN } else { Duration::ZERO };
        loop {
            self.restore.look_at_stop();
            match post.next::<FromAgent<WorkerAnswer>>(limit).map_err(|why| lost(&why))? {
                None if is_end => {}
                None => return Ok(()),
                Some(Item::Said(FromAgent::Done(WorkerAnswer::All))) if is_end => return Ok(()),
                Some(Item::Said(FromAgent::Done(WorkerAnswer::Ended(why)))) => {
                    return Err(ended(why));
                }
                Some(_) => {}
            }
        }
    }
}

impl RestoreFinish for RemoteFinish<'_> {
    fn rows(&mut self, rows: &mut Vec<ToFinish>) -> Result<(), RestoreEnded> {
        self.take(false)?;
        if let Ok(post) = &self.post
            && !rows.is_empty()
        {
            let sent = post.send(rows);
            rows.clear();
            sent.map_err(|why| lost(&why))?;
        }
        Ok(())
    }

    fn end(self: Box<Self>) -> Result<(), RestoreEnded> {
        let post = self.post.as_ref().map_err(lost)?;
        post.tell(&WorkerAsk::End).map_err(|why| lost(&why))?;
        self.take(true)
    }
}
