//! A target that is open at a disk agent on another host.

use std::sync::Arc;

use capstan_port::disk::lost::AgentLost;
use capstan_port::disk::restore::{Prospect, RestoreRun, RestoreTarget, RestoreWith, ToForesee};
use capstan_wire::disk::ask::{Names, TargetAsk};
use capstan_wire::disk::told::{FromAgent, TargetAnswer};
use capstan_wire::restore::LeftAlone;
use capstan_wire::rows;

use super::Link;
use super::restore::RemoteRestore;
use crate::connection::Broken;
use crate::disk::errors::{lost, other_answer};
use crate::disk::post::{Item, Post};

/// A target.
pub(super) struct RemoteTarget {
    link: Arc<Link>,
    post: Post,
}

impl RemoteTarget {
    pub fn new(link: Arc<Link>, post: Post) -> Self {
        Self { link, post }
    }

    fn ask(&self, ask: &TargetAsk) -> Result<TargetAnswer, Broken> {
        self.post.tell(ask)?;
        match self.post.hear::<FromAgent<TargetAnswer>>()? {
            FromAgent::Done(answer) => Ok(answer),
            _ => Err(other_answer()),
        }
    }

    fn prospects(&self, all: &[ToForesee]) -> Result<Vec<Prospect>, Broken> {
        self.post.tell(&TargetAsk::Foresee)?;
        self.post.send(all)?;
        let Item::Rows(found) = self.post.wait::<FromAgent<TargetAnswer>>()? else {
            return Err(other_answer());
        };
        let found = rows::decode::<Prospect>(&found)?;
        if found.len() == all.len() { Ok(found) } else { Err(other_answer()) }
    }
}

impl RestoreTarget for RemoteTarget {
    fn not_writable(&self) -> Option<String> {
        match self.ask(&TargetAsk::NotWritable) {
            Ok(TargetAnswer::NotWritable(why)) => why,
            Ok(_) => Some(lost(&other_answer()).to_string()),
            Err(why) => Some(lost(&why).to_string()),
        }
    }

    fn has(&self, names: &[Vec<u8>]) -> Result<Vec<bool>, AgentLost> {
        match self.ask(&TargetAsk::Has(Names(names.to_vec()))) {
            Ok(TargetAnswer::Has(all)) if all.len() == names.len() => Ok(all),
            Ok(_) => Err(lost(&other_answer())),
            Err(why) => Err(lost(&why)),
        }
    }

    fn foresee(&self, all: &[ToForesee]) -> Result<Vec<Prospect>, AgentLost> {
        self.prospects(all).map_err(|why| lost(&why))
    }

    fn left_alone(&self) -> Result<LeftAlone, AgentLost> {
        match self.ask(&TargetAsk::LeftAlone) {
            Ok(TargetAnswer::LeftAlone(all)) => Ok(all),
            Ok(_) => Err(lost(&other_answer())),
            Err(why) => Err(lost(&why)),
        }
    }

    fn restore<'a>(self: Box<Self>, with: RestoreWith<'a>) -> Box<dyn RestoreRun + 'a> {
        Box::new(RemoteRestore::begin(self.link, self.post, with))
    }
}
