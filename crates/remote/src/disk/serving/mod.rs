//! The client's side: a disk agent of this process, asked from elsewhere.

mod archive;
mod backup;
mod base;
mod check;
mod parts;
mod restore;
mod teller;

use std::sync::Arc;

use capstan_port::disk::{DiskAgent, PathsError};
use capstan_wire::check::ScratchAsked;
use capstan_wire::disk::ask::DiskAsk;
use capstan_wire::disk::said::ProblemSaid;

use self::parts::Parts;
use super::errors::{job_said, scratch_said};
use crate::connection::{Broken, Channel};
use crate::data::Dial;

/// Serves a disk agent: each channel of a connection is handed to [`DiskServer::serve`], in a thread of its own.
pub struct DiskServer {
    agent: Arc<dyn DiskAgent>,
    parts: Parts,
    dial: Arc<Dial>,
}

impl DiskServer {
    /// One for one connection. It dials media agents, and the cell, for bulk data.
    pub fn new(agent: Arc<dyn DiskAgent>, dial: Arc<Dial>) -> Self {
        Self { agent, parts: Parts::default(), dial }
    }

    /// Has the conversation of a channel, to its end.
    pub fn serve(&self, channel: Channel) {
        // Where it breaks off, the other side knows, and nobody else is to be told.
        let _ = channel.hear().and_then(|ask| self.answer(channel, ask));
    }

    fn answer(&self, channel: Channel, ask: DiskAsk) -> Result<(), Broken> {
        let agent = &*self.agent;
        match ask {
            DiskAsk::Processors => channel.tell(&agent.processors()),
            DiskAsk::Paths(asked) => match agent.paths(&asked) {
                Ok(named) => channel.tell(&Ok::<_, ()>(named)),
                Err(PathsError::Bad(bad)) => channel.tell(&Err::<(), _>(bad)),
                // To hang up says the same.
                Err(PathsError::Lost(_)) => Ok(()),
            },
            DiskAsk::Roots(asked) => {
                let found = agent.roots(&asked);
                channel.tell(&found.map_err(|e| ProblemSaid::from(e.0)))
            }
            DiskAsk::Probe { trees, work } => {
                let probed = agent.probe(&trees, work, &channel.stop_flag());
                channel.tell(&probed.map_err(job_said))
            }
            DiskAsk::Ready(job) => backup::run(agent, (&self.parts, &self.dial), channel, *job),
            DiskAsk::Compare { job, has_frames } => {
                check::compare(agent, channel, &job, has_frames)
            }
            DiskAsk::Prove(job) => check::prove(agent, channel, &job),
            DiskAsk::OpenTarget(spec) => restore::run(agent, &self.parts, channel, &spec),
            DiskAsk::OpenArchive(spec) => archive::run(agent, channel, &spec),
            DiskAsk::MakeScratch(asked) => self.keep_scratch(channel, &asked),
            DiskAsk::Part { of, part } => {
                self.parts.came((of, part), channel);
                Ok(())
            }
        }
    }

    /// Makes a scratch directory, which is there until the channel ends.
    fn keep_scratch(&self, channel: Channel, asked: &ScratchAsked) -> Result<(), Broken> {
        let made = self.agent.make_scratch(asked);
        let path = made.as_ref().ok().cloned();
        let told = channel.tell(&made.map_err(scratch_said));
        let Some(path) = path else { return told };
        let asked = told.and_then(|()| channel.hear::<()>());
        self.agent.remove_scratch(&path);
        asked.and_then(|()| channel.tell(&()))
    }
}
