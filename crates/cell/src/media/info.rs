//! A medium, as it is shown: what is known of it, and what of that is so now.

use capstan_format::id::{MediumId, VersionId};
use capstan_format::keys::PairId;
use capstan_idb::{Holdings, Management, Medium};

use super::condition::Condition;
use super::condition::proven::ways_out_of_poor;
use super::hosts::{look_here, other_host};
use super::keeps::{Keeps, Kept};
use super::state::{Facts, MediumState};
use super::whereabouts::{self, TapeAt, places_shown};
use super::{LEAST_SPACE, is_worm, judged};
use crate::Cell;
use crate::error::Result;
use crate::session::local;

/// A medium, as it is shown.
#[derive(Debug, Clone)]
pub struct MediumInfo {
    /// What the database has of it.
    pub medium: Medium,
    /// Its pool and its history.
    pub management: Management,
    /// What lies on it, in numbers.
    pub holdings: Holdings,
    /// Its state.
    pub state: MediumState,
    /// What its state were if nothing of it had left the house.
    pub state_inside: MediumState,
    /// Its condition, with the reasons where it is not good.
    pub condition: Condition,
    /// The reasons.
    pub reasons: Vec<String>,
    /// What can be done about it, where the condition is poor.
    pub ways_out: Option<String>,
    /// Why it cannot be used where it was last seen; nothing where it is at hand.
    pub absent: Option<String>,
    /// The host that has it, where that is another one.
    pub host: Option<String>,
    /// Bytes free where it lies, if it is at hand.
    pub free_bytes: Option<u64>,
    /// How much of it is used, from 0 to 1, where that is known.
    pub used: Option<f64>,
    /// Its tapes, as far as they have barcodes.
    pub tapes: Vec<TapeAt>,
    /// When it was seen to be write-protected, in microseconds since 1970, if it lies since then where it lay.
    pub protected_us: Option<i64>,
    /// Whether another cell writes it.
    pub foreign: bool,
    /// The versions that have something on it.
    pub versions: Vec<VersionId>,
    /// Those of them that must stay.
    pub kept: u64,
    /// Why it is not given up though none of them must: with it something would go that no prune would remove.
    pub held: Option<String>,
    /// Of a medium of a rotation set: what on one that is written no more keeps it from its turn, and what helps.
    pub waits_for: Option<String>,
    /// Until when the last of those that have an end must stay, in microseconds since 1970.
    pub kept_until_us: Option<i64>,
    /// Whether one of them must stay without end.
    pub kept_for_ever: bool,
    /// Whether what must stay on it does so until its turn comes in its rotation set, if nothing keeps it longer.
    pub kept_by_set: bool,
    /// Where its drive encrypts it: the key pairs that open its key.
    pub drive_key: Option<Vec<PairId>>,
}

impl Cell {
    /// All media, or those of a pool.
    pub fn media_list(&self, pool: Option<&str>) -> Result<Vec<MediumInfo>> {
        if let Some(name) = pool {
            self.pool(name)?;
        }
        let mut list = Vec::new();
        let keeps = self.keeps()?;
        for medium in self.idb.media()? {
            let info = self.medium_info_by(&medium, &keeps)?;
            if pool.is_none_or(|name| info.management.pool.as_deref() == Some(name)) {
                list.push(info);
            }
        }
        Ok(list)
    }

    /// A medium by label, begin of its id, or device.
    pub fn media_show(&self, text: &str) -> Result<MediumInfo> {
        let medium = self.find_medium(text)?;
        self.medium_info(&medium)
    }

    pub(crate) fn medium_info(&self, medium: &Medium) -> Result<MediumInfo> {
        self.medium_info_by(medium, &self.keeps()?)
    }

    /// The same, where it is known already what must stay.
    fn medium_info_by(&self, medium: &Medium, keeps: &Keeps) -> Result<MediumInfo> {
        let management = self.idb.management(medium.id)?;
        let holdings = self.idb.holdings(medium.id)?;
        let versions = self.idb.versions_on_medium(medium.id)?;
        let (is_due, waits_for) = self.turn_in_set_of(medium.id, &management, keeps)?;
        let kept = if is_due { Vec::new() } else { keeps.of(&versions) };
        let is_asked = holdings.segments > 0 && kept.is_empty() && !is_due;
        let held = match is_asked {
            true => self.held_text(medium, keeps.lasts(self)?)?,
            false => None,
        };
        let at_hand = look_here(self, medium);
        let pool =
            management.pool.as_deref().map(|name| self.idb.pool(name)).transpose()?.flatten();
        let appendable = pool.as_ref().is_none_or(|pool| pool.appendable);
        let takes_turns = |set| pool.as_ref().is_some_and(|pool| pool.size_of(set) > 0);
        let kept_by_set = !kept.is_empty()
            && management.rotation_set.is_some_and(takes_turns)
            && !is_worm(medium);
        let kept_longest = if kept_by_set { keeps.of_in_turn(&versions) } else { kept.clone() };
        let (condition, mut reasons) = judged(medium, &management, holdings.sessions);
        let ways_out = (condition == Condition::Poor && management.retired_us.is_none())
            .then(|| ways_out_of_poor(medium, management.errors));
        let foreign = match &at_hand.header {
            Some(header) => self.other_cell(header)?.is_some(),
            None => management.is_other_cells(),
        };
        let mut facts = Facts {
            is_initialised: true,
            is_exported: management.exported_us.is_some(),
            is_damaged: management.damaged_us.is_some() || at_hand.problem.is_some(),
            holds_data: holdings.segments > 0,
            // What is on one that is only appended to stays, whether it must or not.
            is_kept: !kept.is_empty() || held.is_some() || is_worm(medium),
            has_room: management.full_us.is_none()
                && at_hand.free_bytes.is_none_or(|free| free >= LEAST_SPACE),
            appendable,
            is_poor: condition == Condition::Poor,
            is_retired: management.retired_us.is_some(),
            is_foreign: foreign,
            is_changed: management.changed_us.is_some(),
        };
        let state = MediumState::of(&facts);
        facts.is_exported = false;
        let state_inside = MediumState::of(&facts);
        reasons.extend(management.changed_why.iter().map(|why| format!("changed: {why}")));
        let used = whereabouts::used(&management, &holdings, &at_hand);
        let tapes = tapes_shown(medium, &management, at_hand.tapes);
        let protected_us = self.protected_since(medium)?;
        reasons.extend(protected_us.map(|us| format!("write-protected, seen {}", local(us))));
        reasons.extend(held.clone());
        reasons.extend(at_hand.problem);
        reasons.extend(at_hand.lost);
        Ok(MediumInfo {
            medium: medium.clone(),
            host: other_host(&self.idb, medium).map(str::to_owned),
            foreign,
            state,
            state_inside,
            condition,
            reasons,
            ways_out,
            absent: at_hand.absent,
            free_bytes: at_hand.free_bytes,
            used,
            tapes,
            protected_us,
            kept: kept.len() as u64,
            held,
            waits_for,
            kept_until_us: kept_longest.iter().filter_map(Kept::until_us).max(),
            kept_for_ever: kept_longest.iter().any(|k| k.until_us().is_none()),
            kept_by_set,
            drive_key: self.drive_key_pairs(medium.id)?,
            versions,
            management,
            holdings,
        })
    }

    /// Whether the turn of a medium of a rotation set has come, and what keeps it from that.
    fn turn_in_set_of(
        &self,
        id: MediumId,
        management: &Management,
        keeps: &Keeps,
    ) -> Result<(bool, Option<String>)> {
        if management.rotation_set.is_none() {
            return Ok((false, None));
        }
        let lasts = keeps.lasts(self)?;
        let is_due = lasts.due.contains(&id) || lasts.past.contains(&id);
        let waits_for = lasts.waits_for.get(&id).copied();
        Ok((is_due, waits_for.map(|of| self.waits_for_text(of)).transpose()?))
    }
}

/// The tapes of a medium: as they were found, else as they are on record, and whereto each was brought.
fn tapes_shown(medium: &Medium, management: &Management, found: Vec<TapeAt>) -> Vec<TapeAt> {
    let mut tapes = found;
    if tapes.is_empty() {
        tapes = whereabouts::tapes_of(&medium.device, |_| None);
    }
    for tape in &mut tapes {
        tape.exported = management.tape_exported(&tape.device).map(|(us, to)| (us, to.to_owned()));
    }
    tapes
}

impl MediumInfo {
    /// Sessions that wrote on it in its whole life.
    pub fn passes(&self) -> u64 {
        self.management.passes.saturating_add(self.holdings.sessions)
    }
}

/// Where a medium is, in words: a place of its library, where it was brought, or why it is not at hand. Empty where it is in its place.
pub fn place_shown(m: &MediumInfo) -> String {
    let places: Vec<_> = m.tapes.iter().filter_map(|tape| Some(tape.place?.short())).collect();
    let places = places.join(", ");
    // Of an array each place stands beside its barcode, where some of its tapes are not in their libraries.
    let is_exported = m.tapes.iter().any(|tape| tape.exported.is_some());
    let is_partly_there = !places.is_empty() && m.tapes.iter().any(|tape| tape.place.is_none());
    if m.tapes.len() > 1 && (is_exported || is_partly_there) {
        return places_shown(&m.tapes);
    }
    if m.management.exported_us.is_some() {
        let to = m.management.exported_to.as_deref().filter(|to| !to.is_empty());
        let to = to.unwrap_or("out of the house");
        return match places.as_str() {
            "" => to.to_owned(),
            places => format!("{to} (still in {places})"),
        };
    }
    match (&m.absent, &m.host) {
        (Some(why), _) => format!("not at hand: {why}"),
        (None, Some(host)) => format!("{places} (host '{host}' has it too)").trim().to_owned(),
        (None, None) => places,
    }
}
