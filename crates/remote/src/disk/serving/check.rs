//! Comparisons and proofs at the disk agent.

use std::collections::VecDeque;

use capstan_engine::frames::FramePort;
use capstan_port::disk::DiskAgent;
use capstan_port::disk::check::{CheckError, Inquiry, RowsBroken};
use capstan_wire::check::{CompareJob, ProofJob};
use capstan_wire::disk::ask::RowsEnd;
use capstan_wire::disk::told::FromAgent;
use capstan_wire::rows;
use minicbor::{Decode, Encode};

use crate::connection::{Broken, Channel};
use crate::disk::errors::check_said;
use crate::disk::frames::FramesThere;
use crate::disk::post::{Item, Post};
use crate::disk::told::Passing;

/// Messages of rows that are under way.
const AHEAD: u32 = 4;
/// Findings in one message.
const FOUND: usize = 256;

/// Compares.
pub(super) fn compare(
    agent: &dyn DiskAgent,
    channel: Channel,
    job: &CompareJob,
    has_frames: bool,
) -> Result<(), Broken> {
    let post = Post::of(channel)?;
    let mut frames = has_frames.then_some(FramesThere { post: &post, anywhere: true });
    let frames = frames.as_mut().map(|frames| frames as &mut dyn FramePort);
    let stop = post.channel().stop_flag();
    let (listener, mut inquiry) = (Passing(&post), Asked::begin(&post)?);
    let done = agent.compare(job, frames, &listener, &stop, &mut inquiry);
    inquiry.end(done)
}

/// Proves what a drill restored.
pub(super) fn prove(agent: &dyn DiskAgent, channel: Channel, job: &ProofJob) -> Result<(), Broken> {
    let post = Post::of(channel)?;
    let stop = post.channel().stop_flag();
    let mut inquiry = Asked::begin(&post)?;
    let done = agent.prove(job, &stop, &mut inquiry);
    inquiry.end(done)
}

/// Rows as they come from the cell, and what is found of them.
struct Asked<'p, F> {
    post: &'p Post,
    found: VecDeque<F>,
    is_at_end: bool,
    broken: Option<Broken>,
}

impl<'p, F: Encode<()>> Asked<'p, F> {
    fn begin(post: &'p Post) -> Result<Self, Broken> {
        post.tell(&FromAgent::<()>::More(AHEAD))?;
        Ok(Self { post, found: VecDeque::new(), is_at_end: false, broken: None })
    }

    /// Sends what was found.
    fn send(&mut self) {
        if !self.found.is_empty() && self.broken.is_none() {
            self.broken = self.post.send(self.found.make_contiguous()).err();
        }
        self.found.clear();
    }

    fn end(mut self, done: Result<(), CheckError>) -> Result<(), Broken> {
        self.send();
        match self.broken {
            Some(why) => Err(why),
            None => self.post.tell(&FromAgent::Done(done.map_err(check_said))),
        }
    }
}

impl<R: for<'b> Decode<'b, ()>, F: Encode<()>> Inquiry<R, F> for Asked<'_, F> {
    fn rows(&mut self) -> Result<Vec<R>, RowsBroken> {
        self.send();
        if self.is_at_end {
            return Ok(Vec::new());
        }
        let asked = || -> Result<Result<Vec<R>, RowsBroken>, Broken> {
            match self.post.wait::<RowsEnd>()? {
                Item::Said(_) => Ok(Err(RowsBroken)),
                Item::Rows(message) => {
                    let all = rows::decode::<R>(&message)?;
                    if !all.is_empty() {
                        self.post.tell(&FromAgent::<()>::More(1))?;
                    }
                    Ok(Ok(all))
                }
            }
        };
        let came = asked().unwrap_or_else(|why| {
            self.broken.get_or_insert(why);
            Err(RowsBroken)
        });
        self.is_at_end = came.as_ref().map_or(true, Vec::is_empty);
        came
    }

    fn found(&mut self, found: F) {
        self.found.push_back(found);
        if self.found.len() >= FOUND {
            self.send();
        }
    }
}
