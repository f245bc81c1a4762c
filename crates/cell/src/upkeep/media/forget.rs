//! Forgetting a medium that will not come back: destroyed, stolen, lost.

use std::collections::HashSet;

use capstan_address::{Address, TapeAddress};
use capstan_engine::message::shell_word;
use capstan_format::id::{MediumId, VersionId};
use capstan_idb::{Claim, Medium, torn};

use crate::Cell;
use crate::error::{Result, UpkeepRefusal};
use crate::media::hosts::look_here;
use crate::media::shown;
use crate::session::now_us;

/// What forgetting a medium gave up.
#[derive(Debug, Clone)]
pub struct Forgotten {
    /// The medium as it was known.
    pub medium: Medium,
    /// Versions of which nothing is known any more.
    pub versions: u64,
    /// Versions that cannot be restored without what it had, and have something elsewhere: the next prune removes that.
    pub given_up: u64,
    /// Versions that are not whole any more, of which a copy stays that lacks something.
    pub not_whole: u64,
}

impl Cell {
    /// Forgets a medium, and the versions that need what only it has. Nothing is removed from it: an import brings it back.
    /// Refused where it is at hand as it was last written, unless it is another cell's.
    pub fn media_forget(&self, name: &str) -> Result<Forgotten> {
        let medium = self.find_medium(name)?;
        let management = self.idb.management(medium.id)?;
        let by_hand = matches!(medium.device, Address::Tape(TapeAddress { tape: None, .. }));
        // What is in its place may not be what was recorded.
        let is_there = !by_hand && look_here(self, &medium).absent.is_none();
        // What is on another cell's is that one's to keep.
        let is_ours = !management.is_other_cells();
        let is_left = management.retired_us.is_some() && self.is_had_elsewhere(medium.id)?;
        if is_ours && is_there && !is_left && self.changed_at_hand(&medium)?.is_none() {
            let (called, label) = (shown(medium.id, &medium.label), shell_word(&medium.label));
            let way = match management.retired_us {
                None => format!(
                    "`capstan media recycle {label}` or `capstan media erase {label}` gives up what it holds"
                ),
                Some(_) => format!(
                    "it has what no other medium has whole: `capstan media retire {label} --undo`, then `capstan media retire {label}`, \
                     copies that, as far as it can be read; or take it out of there, then this command gives that up"
                ),
            };
            return Err(UpkeepRefusal::AtHand { medium: called, device: medium.device, way }.into());
        }
        self.forget_lost(medium)
    }

    /// Whether all on a medium that must stay is whole on others, which are not retired.
    pub(crate) fn is_had_elsewhere(&self, id: MediumId) -> Result<bool> {
        let (needed, unsound) = (self.needed()?, self.unsound_places()?);
        let mut out_of_use: HashSet<MediumId> = self.idb.retired_media()?.into_iter().collect();
        out_of_use.insert(id);
        let mut claims = self.all_claims()?;
        claims.retain(|claim| needed.contains_key(&claim.version));
        let torn = torn(&claims, |claim| {
            out_of_use.contains(&claim.medium) || unsound.has(claim.medium, claim.segment)
        });
        let is_lost = |c: &Claim| c.medium == id && torn.contains(&(c.version, c.origin));
        Ok(!claims.iter().any(is_lost))
    }

    /// The same of one that is known to be lost.
    pub(crate) fn forget_lost(&self, medium: Medium) -> Result<Forgotten> {
        for id in self.idb.versions_on_medium(medium.id)? {
            if let Some(version) = self.idb.version(id)?
                && self.idb.is_in_use(version.object)?
            {
                return Err(UpkeepRefusal::InUseBySession {
                    medium: shown(medium.id, &medium.label),
                }
                .into());
            }
        }
        let lost_before: HashSet<VersionId> =
            self.idb.lost_versions()?.into_iter().map(|of| of.version).collect();
        let lost = self.idb.versions_only_on_medium(medium.id)?;
        let (mut gone, mut torn) = (Vec::new(), HashSet::new());
        for id in self.idb.with_dependants(&lost)? {
            let places = self.idb.places_of_version(id)?;
            match places.iter().all(|(_, on, _)| *on == medium.id) {
                true => gone.push(id),
                false => drop(torn.insert(id)),
            }
        }
        // What they have elsewhere goes by a prune, which knows of locks.
        let torn: Vec<VersionId> = torn.into_iter().collect();
        self.idb.expire(now_us(), &[], |_| (torn.clone(), ()))?;
        self.leaves_set(medium.id)?;
        self.idb.forget_medium_contents(medium.id, &gone)?;
        self.idb.remove_medium(medium.id)?;
        let lost_now = self.idb.lost_versions()?.into_iter();
        let not_whole = lost_now.filter(|of| !lost_before.contains(&of.version)).count() as u64;
        let (versions, given_up) = (gone.len() as u64, torn.len() as u64);
        Ok(Forgotten { medium, versions, given_up, not_whole })
    }
}
