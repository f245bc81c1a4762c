//! Fulls that stand already for what was given up: what builds on that is made to build on them. So it is after a consolidation that
//! was cut short, or one to another medium.

use capstan_engine::message::Code;
use capstan_format::id::VersionId;
use capstan_idb::{Protection, PruneRow, Version};

use super::bases::given_up;
use super::plan::Base;
use crate::Cell;
use crate::error::Result;
use crate::kinds::prune::chains::stand_ins::Place;
use crate::kinds::prune::decide::{Action, Asked, Decision};
use crate::reading::version::VersionView;
use crate::session::{SessionLog, now_us};

/// What builds on a version builds on what stands for it, in these rows; that is given up, if a time is given.
fn adopt(rows: &mut [PruneRow], from: VersionId, to: VersionId, give_up_us: Option<i64>) {
    for row in rows {
        if row.version.base == Some(from) {
            row.version.base = Some(to);
        }
        let ends = give_up_us.filter(|now_us| !row.keeping.protection.holds_at(*now_us));
        if let Some(now_us) = ends.filter(|_| row.version.id == to) {
            row.keeping.expired_us.get_or_insert(now_us);
        }
    }
}

/// Whether a full is kept for what it is a version of, and not only for those that build on it: by keep rules, in the place of one
/// that would be kept if there were no full, or as the last whole version.
fn is_kept_itself(
    full: VersionId,
    base: &Version,
    rows: &[PruneRow],
    decisions: &[Decision],
    asked: &Asked<'_>,
) -> bool {
    let kept = |id: VersionId| {
        let of = rows.iter().zip(decisions).find(|(row, _)| row.version.id == id);
        of.filter(|(_, decision)| decision.action == Action::Keep)
    };
    if kept(full).is_none() {
        return false;
    }
    let was_given_up = rows
        .iter()
        .any(|row| row.version.id == base.id && row.keeping.protection == Protection::None);
    let is_in_its_place = !asked.rules.is_empty() || asked.crowded.get(&base.id) == Some(&full);
    (is_in_its_place && !was_given_up) || asked.last_whole(rows).contains(&full)
}

impl Cell {
    /// The versions, after what builds on a base for which a full stands already was made to build on that: a consolidation that
    /// was cut short, or one to another medium, did so. Of a dry run it is only told what there would be. Where a full is not as good
    /// as the base, it says so, and the base stays.
    pub(in crate::kinds::prune) fn rows_with_stand_ins(
        &self,
        mut rows: Vec<PruneRow>,
        asked: &Asked<'_>,
        dry_run: bool,
        log: &SessionLog<'_>,
    ) -> Result<Vec<PruneRow>> {
        let mut is_new = false;
        let decisions = asked.decide(&rows);
        let bases = given_up(&rows, &decisions, asked);
        let bases: Vec<Base> = bases.iter().flat_map(|base| base.with_those_below(&rows)).collect();
        for base in bases {
            let from = base.version.id;
            if self.idb.stand_ins(from)?.is_empty() {
                continue;
            }
            let view = VersionView::open(self, from)?;
            if self.hinder_of(&base, &view)?.is_some() || !self.may_be_replaced(&view)? {
                continue;
            }
            drop(view);
            let mut passed = Vec::new();
            let to =
                self.stand_in(from, Place::OfGivenUp, &mut |full, why| passed.push((full, why)))?;
            for (full, why) in passed {
                let name = self.name_of_version(full)?;
                let text = format!(
                    "it does not take the place of what it was made of, which stays: {why}"
                );
                log.say(Code::Adapted, "cell", &name, text);
            }
            let Some(to) = to else { continue };
            let is_kept = is_kept_itself(to, &base.version, &rows, &decisions, asked);
            let give_up_us = Some(now_us()).filter(|_| !is_kept);
            match dry_run {
                true => adopt(&mut rows, from, to, give_up_us),
                false => is_new |= self.idb.rebase_unread(from, to, give_up_us)?,
            }
        }
        if is_new { Ok(self.idb.prune_rows()?) } else { Ok(rows) }
    }
}
