//! A target that was opened, before a restore into it begins.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use capstan_engine::message::plain;
use capstan_engine::problem::Explain;
use capstan_format::entry::{Kind, split};
use capstan_port::disk::lost::AgentLost;
use capstan_port::disk::restore::{
    Prospect, RestoreRun, RestoreTarget, RestoreWith, TargetRefused, ToForesee,
};
use capstan_wire::restore::{LeftAlone, TargetSpec};

use super::Files;
use crate::target::{Found, Mark, Target, TargetOptions, Worker};

/// A target that is open.
pub(crate) struct OpenTarget(Target);

impl OpenTarget {
    /// Opens a target; nothing where it is only to be looked at and is not there.
    pub fn of(spec: &TargetSpec) -> Result<Option<Self>, TargetRefused> {
        let root = Path::new(OsStr::from_bytes(&spec.directory));
        let options = TargetOptions { overwrite: spec.overwrite, numeric_ids: spec.numeric_ids };
        let opened = match spec.only_looked_at {
            true => Target::open_existing(root, options),
            false => Target::open(root, options).map(Some),
        };
        let target = opened.map_err(|e| TargetRefused(e.problem()))?;
        Ok(target.map(|target| match spec.session {
            Some(session) => {
                let killed: HashSet<Mark> =
                    spec.killed.iter().map(|id| Mark::of_session(id.0)).collect();
                Self(target.marked(Mark::of_session(session.0), killed))
            }
            None => Self(target),
        }))
    }
}

/// What is left alone in a target.
pub(super) fn left_alone(target: &Target) -> LeftAlone {
    let totals = target.tally().totals();
    LeftAlone {
        kept: totals.skipped_existing,
        put_right: totals.put_right,
        differ: totals.differ_kept,
    }
}

impl RestoreTarget for OpenTarget {
    fn not_writable(&self) -> Option<String> {
        self.0.check_writable().err().map(|e| plain(&e))
    }

    fn has(&self, names: &[Vec<u8>]) -> Result<Vec<bool>, AgentLost> {
        Ok(names.iter().map(|name| self.0.has(name)).collect())
    }

    fn foresee(&self, rows: &[ToForesee]) -> Result<Vec<Prospect>, AgentLost> {
        let mut worker = self.0.worker();
        Ok(rows.iter().map(|row| prospect(&mut worker, row)).collect())
    }

    fn left_alone(&self) -> Result<LeftAlone, AgentLost> {
        Ok(left_alone(&self.0))
    }

    fn restore<'a>(self: Box<Self>, with: RestoreWith<'a>) -> Box<dyn RestoreRun + 'a> {
        Box::new(Files::new(self.0, with))
    }
}

/// What would become of a name.
fn prospect(worker: &mut Worker<'_>, row: &ToForesee) -> Prospect {
    let entry = &row.entry;
    let Some(to) = row.to.as_deref().filter(|_| entry.kind != Kind::Dir) else {
        return Prospect::Comes { is_first_kept: false };
    };
    let (dir, name) = split(to);
    let owners = (row.user.as_deref(), row.group.as_deref());
    let here = worker.target().ids().here(entry, owners, row.acl.as_deref());
    if worker.would_keep(&here, dir, name) {
        return Prospect::Stays;
    }
    let first = row.first_to.as_deref().map(split);
    let is_first_kept =
        first.is_some_and(|(dir, name)| worker.found(entry, dir, name) == Found::Other);
    Prospect::Comes { is_first_kept }
}
