//! Pruning: which versions are kept is decided and marked in one transaction; then the segments of those that go are
//! removed from the media, the last first; then their catalog files and rows. A kill between any two steps leaves every
//! version that is kept with all it needs, and the next prune goes on.

mod asked;
mod chains;
mod decide;
mod foresee;
mod removed;
mod report;
mod rules;
mod still;
mod sweep;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::packing::pack_catalogs;
use capstan_engine::message::Code;
use capstan_format::id::{MediumId, VersionId};
use capstan_idb::{Object, Protection, PruneRow, Status};

use self::chains::plan::Bases;
use self::chains::{bases, room};
pub use self::decide::Action;
use self::decide::{Asked, Decision, MediumLock};
pub use self::report::{
    ConsolidatedBase, Pending, PruneRequest, Pruned, PrunedVersion, UnconsolidatedBase,
    UnendedBackup,
};
pub use self::rules::{Count, KeepRules};
use self::sweep::locks_on;
pub(crate) use self::sweep::{is_locked, remove_from};
use crate::Cell;
use crate::error::Result;
use crate::observe::{Observer, Stop};
use crate::report::Report;
use crate::session::{SessionLog, now_us, peak_rss, rfc3339};
use crate::versions::away_media::AwayMedium;
use crate::versions::damaged::Stays;
use crate::versions::leap::Leap;

impl Cell {
    /// Prunes. Where most of what is only kept for newer versions is dead, these get a new base, and it is pruned again.
    pub fn prune(
        &self,
        request: &PruneRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Pruned> {
        match request.dry_run {
            // What is gone cannot be brought back by a database that is mended.
            false => self.sound_pages()?,
            true => self.check_pages(&SessionLog::new(observer)),
        }
        // The clock is judged once: the sessions that it is judged by go with what is old.
        let leap = self.leap()?;
        // All media are looked at for it: once, as long as nothing was done.
        let found = self.media_away()?;
        let away = self.say_still(request, found.clone(), &SessionLog::new(observer))?;
        let (mut pruned, mut bases) =
            self.prune_once(request, &found, leap, true, observer, stop)?;
        pruned.away = away;
        let again = |pruned: &mut Pruned| -> Result<()> {
            let away = self.media_away()?;
            let (next, _) = self.prune_once(request, &away, leap, false, observer, stop)?;
            *pruned = std::mem::take(pruned).and(next);
            Ok(())
        };
        if !request.dry_run {
            self.consolidate_bases(&mut bases, &mut || again(&mut pruned), observer, stop)?;
            if bases.wrote {
                again(&mut pruned)?;
            }
        }
        if request.give_up && !request.dry_run {
            let objects: Vec<_> =
                self.asked(request, &found)?.objects.into_iter().flatten().collect();
            self.idb.give_up_objects(&objects, now_us())?;
        }
        let log = SessionLog::new(observer);
        self.settle_bases(bases, request, leap, &log, &mut pruned)?;
        let asked = self.asked_by(request, &found, leap)?;
        self.say_crowded(request, &asked, &log, &mut pruned)?;
        self.say_unended(request, &log, &mut pruned)?;
        pruned.leap = self.say_leap(&asked, &log)?;
        if request.dry_run {
            return Ok(pruned);
        }
        self.record_unconsolidated(request, &pruned)?;
        // Nothing is held any more that others could wait for.
        let packed = pack_catalogs(&self.idb, &|| stop.0.load(Relaxed))?;
        (pruned.packed_catalogs, pruned.packed_bytes) = (packed.catalogs, packed.saved);
        Ok(pruned)
    }

    /// Removes what consolidations of an object left that did not end: nothing goes on with it, and it takes room.
    pub(crate) fn remove_unended_fulls(
        &self,
        object: &Object,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<()> {
        let request = PruneRequest {
            names: vec![object.name.clone()],
            host: Some(object.host.clone()),
            leftovers: true,
            ..PruneRequest::default()
        };
        let decided = self.asked(&request, &[])?.decide(&self.idb.prune_rows()?);
        if decided.iter().all(|decision| decision.action != Action::Remove) {
            return Ok(());
        }
        self.prune_once(&request, &self.media_away()?, self.leap()?, false, observer, stop)
            .map(drop)
    }

    /// Decides what goes, and marks it, in one transaction. Gives all versions as they were then, and what was decided.
    fn mark(&self, asked: &Asked<'_>) -> Result<(Vec<PruneRow>, Vec<Decision>)> {
        let until = |(id, lock): (&VersionId, &MediumLock)| match lock {
            MediumLock::UntilUs(until) => Some((*id, *until)),
            MediumLock::Damaged => None,
        };
        let locks: Vec<_> = asked.locks.iter().filter_map(until).collect();
        Ok(self.idb.expire(now_us(), &locks, |rows| {
            let decisions = asked.decide(rows);
            // What a full is to be made of is not marked before there is one.
            let later = bases::versions_of(&bases::given_up(rows, &decisions, asked));
            let given_up = rows
                .iter()
                .zip(&decisions)
                .filter(|(row, d)| d.action != Action::Keep && !later.contains(&row.version.id));
            (given_up.map(|(row, _)| row.version.id).collect(), (rows.to_vec(), decisions))
        })?)
    }

    /// Marks and removes; and settles what is to be consolidated, if that is asked for.
    fn prune_once(
        &self,
        request: &PruneRequest,
        away: &[AwayMedium],
        leap: Option<Leap>,
        consolidates: bool,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<(Pruned, Bases)> {
        let started_us = now_us();
        let log = SessionLog::new(observer);
        let mut asked = self.asked_by(request, away, leap)?;
        let wrong_clocks = match request.leftovers {
            true => Vec::new(),
            false => self.say_clocks(&asked, request.clocks_said, &log)?,
        };
        let rows = self.rows_without_dead_readers(&log, stop)?;
        let mut rows = self.rows_with_stand_ins(rows, &asked, request.dry_run, &log)?;
        let mut sizes = self.sizes()?;
        // First what the database alone says: it names the media that are needed.
        let first = asked.decide(&rows);
        let mut media = self.media_for(&rows, &first, &sizes, request.dry_run);
        if !request.dry_run {
            for at_hand in media.values_mut() {
                // A version of another home may build on what is to go.
                let known = at_hand.as_ref().map(|held| self.record_unknown(held.medium(), &log));
                if let Ok(Err(e)) = known {
                    *at_hand = Err(e);
                }
            }
            sizes = self.sizes()?;
        }
        asked.locks = locks_on(&mut media, &log);
        let decisions = if request.dry_run {
            asked.decide(&rows)
        } else {
            let (now, decisions) = self.mark(&asked)?;
            rows = now;
            decisions
        };
        self.say_lost_that_go(&rows, &decisions, &asked, &log)?;
        if consolidates {
            self.say_not_whole(&rows, &asked, &log)?;
        }
        let versions = self.described(&rows, &decisions, &sizes, &asked)?;
        let mut of_bases = match consolidates {
            true => {
                let given_up = bases::given_up(&rows, &decisions, &asked);
                self.plan_bases(given_up, &rows, &gone(&rows, &decisions))?
            }
            false => Bases::default(),
        };
        let dry_run = request.dry_run;
        let mut pruned = Pruned { dry_run, versions, wrong_clocks, ..Pruned::default() };
        if request.dry_run {
            self.foresee(&rows, &decisions, &mut of_bases, &media, asked.now_us, &mut pruned)?;
            pruned.errors = log.error_count();
            return Ok((pruned, of_bases));
        }
        let gone = gone(&rows, &decisions);
        let kept = self.kept_copies(&rows, &gone, &self.sizes()?)?;
        self.sweep((&gone, &kept), &media, asked.now_us, &mut pruned)?;
        pruned.removed_catalogs = self.idb.drop_catalogs(asked.now_us)? as u64;
        if pruned.count(Action::Keep) < pruned.versions.len() as u64 {
            self.record_prune(&mut pruned, request, started_us, &log)?;
        }
        pruned.errors = log.error_count();
        let held = media.values().flatten().map(|held| held.medium().path());
        self.back_up_idb_on(held, &log);
        Ok((pruned, of_bases))
    }

    /// The versions that expired and that nothing holds any more: the next prune takes what only they have.
    pub(crate) fn given_up(&self) -> Result<HashSet<VersionId>> {
        let decided = self.decided_without_rules()?.into_iter();
        let before = decided
            .filter(|(row, d)| d.action == Action::Remove && row.keeping.expired_us.is_some());
        Ok(before.map(|(row, _)| row.version.id).collect())
    }

    /// Those of all versions that a prune without rules keeps, each with the reason; and those of these that it would keep if the turn
    /// of all media of rotation sets had come, and that of these versions is past. A session that failed left nothing that was asked for.
    pub(crate) fn stays_without_rules(
        &self,
        rows: &[PruneRow],
        past_turn: &HashSet<VersionId>,
    ) -> Result<(Stays, Stays)> {
        let request = PruneRequest::default();
        let mut asked = self.asked(&request, &self.media_away()?)?;
        let stays = |asked: &Asked<'_>| {
            let decided = rows.iter().zip(asked.decide(rows));
            let stays = decided.filter(|(row, d)| {
                d.action == Action::Keep && row.version.status != Status::Failed
            });
            stays.map(|(row, d)| (row.version.id, d.why.join(", "))).collect::<Stays>()
        };
        let now = stays(&asked);
        (asked.in_turn, asked.past_turn) = (true, past_turn.clone());
        let in_turn = stays(&asked);
        Ok((now, in_turn))
    }

    /// The last whole version of each object, with all that these build on.
    pub(crate) fn last_whole(&self) -> Result<HashSet<VersionId>> {
        let rows = self.idb.prune_rows()?;
        let last = self.asked(&PruneRequest::default(), &self.media_away()?)?.last_whole(&rows);
        Ok(room::with_bases(&rows, last.into_iter()))
    }

    fn decided_without_rules(&self) -> Result<Vec<(PruneRow, Decision)>> {
        let request = PruneRequest::default();
        let rows = self.idb.prune_rows()?;
        let decisions = self.asked(&request, &self.media_away()?)?.decide(&rows);
        Ok(rows.into_iter().zip(decisions).collect())
    }

    /// All versions, held by none who died.
    fn rows_without_dead_readers(
        &self,
        log: &SessionLog<'_>,
        stop: &Stop,
    ) -> Result<Vec<PruneRow>> {
        let rows = self.idb.prune_rows()?;
        if rows.iter().all(|row| row.readers.is_empty()) {
            return Ok(rows);
        }
        self.end_dead_leases(log, stop)?;
        Ok(self.idb.prune_rows()?)
    }

    /// Says of the objects that are asked for what clocks say that cannot be.
    fn say_clocks(
        &self,
        asked: &Asked<'_>,
        is_said: bool,
        log: &SessionLog<'_>,
    ) -> Result<Vec<String>> {
        let mut said = Vec::new();
        for object in self.idb.objects()?.into_iter().filter(|o| asked.is_of(o.id)) {
            if let Some(fault) = self.clock_fault(object.id)? {
                if !is_said {
                    log.say(Code::ClockWrong, "cell", &object.name, fault.text.clone());
                }
                said.push(fault.text);
            }
        }
        Ok(said)
    }

    /// Says that the clock may have leapt, where anything that is asked for goes by time.
    fn say_leap(&self, asked: &Asked<'_>, log: &SessionLog<'_>) -> Result<Option<Leap>> {
        let Some(leap) = asked.leap else { return Ok(None) };
        let has_date = |row: &PruneRow| {
            row.keeping.locked_until_us.is_some()
                || matches!(row.keeping.protection, Protection::UntilUs(_))
        };
        let rows = self.idb.prune_rows()?;
        let is_dated = |row: &PruneRow| asked.is_of(row.version.object) && has_date(row);
        if !asked.rules.go_by_time() && !rows.iter().any(is_dated) {
            return Ok(None);
        }
        log.say(Code::ClockLeapt, "cell", self.host(), leap.text());
        Ok(Some(leap))
    }

    /// What each version has on each medium: segments and bytes.
    fn sizes(&self) -> Result<Sizes> {
        let mut sizes = Sizes::new();
        for size in self.idb.version_sizes()? {
            sizes.entry(size.version).or_default().push((size.medium, size.segments, size.bytes));
        }
        Ok(sizes)
    }

    fn described(
        &self,
        rows: &[PruneRow],
        decisions: &[Decision],
        sizes: &Sizes,
        asked: &Asked<'_>,
    ) -> Result<Vec<PrunedVersion>> {
        let objects: HashMap<_, _> = self.idb.objects()?.into_iter().map(|o| (o.id, o)).collect();
        let mut versions = Vec::new();
        for (row, decision) in rows.iter().zip(decisions) {
            if !asked.is_of(row.version.object) && decision.action != Action::Remove {
                continue;
            }
            let object = objects.get(&row.version.object);
            let own = sizes.get(&row.version.id).into_iter().flatten();
            versions.push(PrunedVersion {
                name: object.map(|o| o.name.clone()).unwrap_or_default(),
                host: object.map(|o| o.host.clone()).unwrap_or_default(),
                session: row.session.map_or(row.version.id.to_string(), |s| s.to_string()),
                started_us: row.version.created_us,
                method: row.version.method.clone(),
                action: decision.action,
                why: decision.why.clone(),
                bytes: own.map(|(_, _, bytes)| bytes).sum(),
            });
        }
        // By name, as people look for it; the order within an object stays.
        versions.sort_by(|a, b| (&a.name, &a.host).cmp(&(&b.name, &b.host)));
        Ok(versions)
    }

    /// Puts a prune on record, with what it did.
    fn record_prune(
        &self,
        pruned: &mut Pruned,
        request: &PruneRequest,
        started_us: i64,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        for pending in &pruned.pending {
            let text = format!("{} segments stay for now: {}", pending.segments, pending.why);
            let code = if pending.failed { Code::DeviceFailed } else { Code::Adapted };
            log.say(code, "media agent", &pending.medium, text);
        }
        let failed = pruned.pending.iter().any(|p| p.failed) || log.error_count() > 0;
        let status = if failed { Status::CompletedWithErrors } else { Status::Completed };
        let ended_us = now_us();
        let mut report = Report {
            name: request.names.join(","),
            host: self.host().to_owned(),
            method: "prune".to_owned(),
            status: status.to_string(),
            start: rfc3339(started_us),
            end: rfc3339(ended_us),
            elapsed_s: (ended_us - started_us) as f64 / 1e6,
            peak_rss_bytes: peak_rss(),
            ..Report::default()
        };
        log.fill(&*self.devices, &mut report);
        self.record(&mut report, "prune", started_us, status)
    }
}

/// The versions that go.
fn gone(rows: &[PruneRow], decisions: &[Decision]) -> HashSet<VersionId> {
    let going = rows.iter().zip(decisions).filter(|(_, d)| d.action == Action::Remove);
    going.map(|(row, _)| row.version.id).collect()
}

/// By version: medium, segments and bytes there.
type Sizes = HashMap<VersionId, Vec<(MediumId, u64, u64)>>;
