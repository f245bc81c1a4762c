//! Bases that were given up: what newer versions build on stays on the media, however little of it they still have. Where
//! more than half of such a chain is dead, its last version is consolidated, what built on it builds on the new full, and
//! the chain goes.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use capstan_devices::address::Address;
use capstan_engine::message::Code;
use capstan_format::id::{MediumId, VersionId};
use capstan_idb::{PruneRow, Status, Version};

use super::decide::{Action, Asked, Decision};
use crate::Cell;
use crate::backup::Wanted;
use crate::consolidate::{Consolidated, To};
use crate::error::{CellError, Result, chain};
use crate::observe::{Observer, Stop};
use crate::session::Ears;
use crate::version::VersionView;

/// Share of a chain that is dead from which on it is consolidated, in percent of its data: below, more bytes would be
/// written than are given back.
const DEAD_PERCENT: u64 = 50;

/// A base that became a full of its own, or would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsolidatedBase {
    /// The object's name.
    pub name: String,
    /// The session that wrote the base.
    pub session: String,
    /// How much of it and what it builds on nobody needs, in percent of their data.
    pub dead_percent: u64,
    /// The session that consolidated it; none where that is still to come.
    pub by: Option<String>,
}

/// A version that was given up and that others build on, with its session.
pub(super) struct Base {
    version: Version,
    session: String,
}

/// Versions that are only kept since ones that live build on them: the last of each such chain, with a chain below it.
pub(super) fn given_up(rows: &[PruneRow], decisions: &[Decision], asked: &Asked<'_>) -> Vec<Base> {
    let places: HashMap<VersionId, usize> =
        rows.iter().enumerate().map(|(i, row)| (row.version.id, i)).collect();
    let base_of = |i: usize| rows[i].version.base.and_then(|id| places.get(&id).copied());
    let is_free = |i: usize| decisions[i].action == Action::Mark && !asked.is_held(&rows[i]);
    let mut found: Vec<usize> = (0..rows.len())
        .filter(|i| decisions[*i].action == Action::Keep && asked.is_of(rows[*i].version.object))
        .filter_map(base_of)
        .filter(|i| {
            // What is locked below stays, so that nothing would be given back. A circle is no chain.
            let mut below = std::iter::successors(base_of(*i), |i| base_of(*i)).take(rows.len());
            is_free(*i) && rows[*i].version.base.is_some() && below.all(is_free)
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    let base = |i: usize| Base {
        version: rows[i].version.clone(),
        session: rows[i].session.map_or(rows[i].version.id.to_string(), |s| s.to_string()),
    };
    found.into_iter().map(base).collect()
}

impl Cell {
    /// Consolidates those bases that are mostly dead, or says which would be.
    pub(super) fn consolidate_bases(
        &self,
        bases: Vec<Base>,
        dry_run: bool,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Vec<ConsolidatedBase>> {
        let ears = Ears::new(observer);
        let mut done = Vec::new();
        for base in bases {
            if stop.0.load(Relaxed) {
                break;
            }
            let object = self.idb.object(base.version.object)?;
            let name = object.map(|o| o.name).unwrap_or_default();
            match self.consolidate_base(&base, &name, dry_run, observer, stop) {
                Ok(Some(of)) => done.push(of),
                Ok(None) => {}
                Err(e) => {
                    let session = base.session.get(..8).unwrap_or_default();
                    let text = format!(
                        "session {session} was not consolidated, so all that it builds on stays: {}",
                        chain(&e)
                    );
                    ears.say(Code::Adapted, "cell", &name, text);
                }
            }
        }
        Ok(done)
    }

    fn consolidate_base(
        &self,
        base: &Base,
        name: &str,
        dry_run: bool,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Option<ConsolidatedBase>> {
        // A restore that runs may have found out already what it reads.
        if self.idb.is_in_use(base.version.object)? {
            return Ok(None);
        }
        let session = base.session.clone();
        let mut of = ConsolidatedBase { name: name.to_owned(), session, dead_percent: 0, by: None };
        let (to, stands) = {
            let mut view = VersionView::open(self, base.version.id)?;
            let Some(to) = self.only_device(&view)? else { return Ok(None) };
            // Without its keys nobody can say what is dead.
            if view.encrypted && !self.secrets.are_given() {
                return Ok(None);
            }
            if !self.opens_unasked(&view)? {
                return Ok(None);
            }
            self.add_keys(&mut view, false)?;
            of.dead_percent = crate::consolidate::dead_percent(&view)?;
            (to, self.idb.stand_in(base.version.id)?)
        };
        if of.dead_percent < DEAD_PERCENT && stands.is_none() {
            return Ok(None);
        }
        if dry_run {
            return Ok(Some(of));
        }
        let stands = match stands {
            Some(stands) => stands,
            None => {
                let Consolidated { report, version } = self.consolidate_version(
                    &base.version,
                    name,
                    &to,
                    &Wanted::default(),
                    observer,
                    stop,
                )?;
                if report.status != Status::Completed.as_str() {
                    let why = report.errors.first().map(|e| e.error.clone());
                    return Err(CellError::BadInput(why.unwrap_or(report.status)));
                }
                of.by = Some(report.session);
                version
            }
        };
        self.idb.rebase(base.version.id, stands)?;
        Ok(Some(of))
    }

    /// The device of the one medium that has all of a version and what it builds on. Where there is more than one, or a
    /// copy, a consolidation on one of them would leave less than there was; and of a tape no part is given back.
    fn only_device(&self, view: &VersionView<'_>) -> Result<Option<To>> {
        let mut only: Option<MediumId> = None;
        for place in &view.segments {
            let [(_, medium, _)] = place.places()[..] else { return Ok(None) };
            if *only.get_or_insert(medium) != medium {
                return Ok(None);
            }
        }
        let Some(medium) = only else { return Ok(None) };
        let Some(known) = self.idb.medium(medium)? else { return Ok(None) };
        let device: Address = known.device.parse()?;
        Ok((!device.is_sequential()).then_some(To { device, pool: None }))
    }
}
