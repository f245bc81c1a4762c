//! Objects of which nothing may go now: some of it is on a medium that is away though nobody took it away, or that lacks something.

use std::collections::{HashMap, HashSet};

use capstan_engine::message::{Code, shell_word};
use capstan_format::id::{MediumId, ObjectId, VersionId};
use capstan_idb::{PruneRow, torn};

use super::decide::{Action, Asked, Decision};
use super::report::PruneRequest;
use crate::Cell;
use crate::error::Result;
use crate::session::SessionLog;
use crate::versions::away_media::AwayMedium;
use crate::versions::damaged::damaged_text;
use crate::versions::damaged::lost_text;

/// By object, why nothing of it goes while these media are away.
pub(super) fn standing_still(away: &[AwayMedium]) -> HashMap<ObjectId, String> {
    let mut still: HashMap<ObjectId, String> = HashMap::new();
    for of in away {
        for object in &of.still {
            still.entry(object.id).or_insert_with(|| {
                let what = if of.changed { "was changed" } else { "is away" };
                format!("keep rules stand still: medium '{}' {what}", of.medium.label)
            });
        }
    }
    still
}

impl Cell {
    /// Of the media that are away those for whose sake nothing of an object that is asked for goes; says so.
    pub(super) fn say_still(
        &self,
        request: &PruneRequest,
        mut away: Vec<AwayMedium>,
        log: &SessionLog<'_>,
    ) -> Result<Vec<AwayMedium>> {
        let host = request.of_host(self.host());
        for of in &mut away {
            of.still.retain(|object| {
                let is_named = request.names.is_empty() || request.names.contains(&object.name);
                is_named && host.as_ref().is_none_or(|host| *host == object.host)
            });
        }
        away.retain(|of| !of.still.is_empty());
        for of in &away {
            let names: Vec<_> = of.still.iter().map(|o| format!("'{}'", o.name)).collect();
            let text = format!(
                "{}: the keep rules of {} stand still, and nothing is given up or removed of what they keep; {}",
                of.text(),
                names.join(", "),
                of.hint()
            );
            let code = if of.changed { Code::MediumChanged } else { Code::MediumAway };
            log.say(code, "cell", &of.medium.label, text);
        }
        Ok(away)
    }

    /// Says which versions go as they are not whole any more.
    pub(super) fn say_lost_that_go(
        &self,
        rows: &[PruneRow],
        decisions: &[Decision],
        asked: &Asked<'_>,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        for (row, decision) in rows.iter().zip(decisions) {
            let is_lost = asked.lost.contains_key(&row.version.id);
            if is_lost && decision.action == Action::Remove && row.keeping.expired_us.is_none() {
                let name = self.name_of_version(row.version.id)?;
                let text = format!("what is left of it goes: {}", decision.why.join(", "));
                log.say(Code::LostData, "cell", &name, text);
            }
        }
        Ok(())
    }

    /// Says which versions take no place of a keep rule, as they are damaged or what they lack was not imported, by object, and what
    /// to do.
    pub(super) fn say_not_whole(
        &self,
        rows: &[PruneRow],
        asked: &Asked<'_>,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        let is_said = |row: &PruneRow| {
            let (id, object) = (&row.version.id, row.version.object);
            asked.is_of(object) && !asked.of_others.contains(id) && !asked.give_up
        };
        for of in rows.chunk_by(|a, b| a.version.object == b.version.object) {
            let mut damaged = of.iter().filter(|row| is_said(row) && asked.waits_for_repair(row));
            if let Some(newest) = damaged.next()
                && let Some(labels) = asked.damaged.get(&newest.version.id)
            {
                let name = self.name_of_version(newest.version.id)?;
                let more = damaged.count();
                let which = which_of(&name, more);
                let text = format!(
                    "{name}{} {}: it takes no place of a keep rule, and stays; `capstan media repair` mends it where a copy is at \
                     hand, else, once a later version is whole, `capstan protect {which} --none` lets prune remove it",
                    and_more(more),
                    damaged_text(labels)
                );
                log.say(Code::Damaged, "cell", &name, text);
            }
            let mut lacking = of.iter().filter(|row| is_said(row) && asked.waits_for_import(row));
            if let Some(newest) = lacking.next()
                && let Some(lost) = asked.lost.get(&newest.version.id)
            {
                let name = self.name_of_version(newest.version.id)?;
                let more = lacking.count();
                let which = which_of(&name, more);
                let text = format!(
                    "{name}{} is not whole: {}. It takes no place of a keep rule, and stays; if there is no such medium any more, \
                     once a later version is whole, `capstan protect {which} --none` lets prune remove it",
                    and_more(more),
                    lost_text(lost)
                );
                log.say(Code::LostData, "cell", &name, text);
            }
        }
        Ok(())
    }

    /// Versions of which a segment lies on media of other cells alone: these are theirs.
    pub(crate) fn versions_of_others(&self) -> Result<HashSet<VersionId>> {
        let mut others: HashSet<MediumId> = HashSet::new();
        for medium in self.idb.media()? {
            if self.idb.management(medium.id)?.is_other_cells() {
                others.insert(medium.id);
            }
        }
        if others.is_empty() {
            return Ok(HashSet::new());
        }
        let mut claims = self.idb.claims()?;
        // A night in which nothing changed has no more than its end there.
        claims.extend(self.idb.claims_of_ends()?);
        let torn = torn(&claims, |claim| others.contains(&claim.medium));
        Ok(torn.into_iter().map(|(version, _)| version).collect())
    }
}

fn and_more(others: usize) -> String {
    match others {
        0 => String::new(),
        n => format!(" (and {n} more)"),
    }
}

/// How `protect` is told of a version that is not whole, or of it and all others of its object.
fn which_of(version: &str, others: usize) -> String {
    match version.rsplit_once('@') {
        Some((object, _)) if others > 0 => format!("{} --not-whole", shell_word(object)),
        _ => shell_word(version),
    }
}
