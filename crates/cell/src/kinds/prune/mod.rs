//! Pruning: which versions are kept is decided and marked in one transaction; then the segments of those that go are
//! removed from the media, the last first; then their catalog files and rows. A kill between any two steps leaves every
//! version that is kept with all it needs, and the next prune goes on.

mod adopted;
mod asked;
mod bases;
mod decide;
mod foresee;
mod hindered;
mod kept_copies;
mod outlook;
mod plan;
mod removed;
mod room;
mod rules;
mod site;
pub(crate) mod stand_ins;
mod still;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::packing::pack_catalogs;
use capstan_devices::medium::{FoundLock, HeldMedium, OpenMedium};
use capstan_engine::message::Code;
use capstan_engine::threads::beside;
use capstan_format::id::{MediumId, SegmentId, SegmentNumber, VersionId};
use capstan_idb::{ExpiredSegment, Object, Protection, PruneRow, Status};

pub use self::decide::Action;
use self::decide::{Asked, Decision, MediumLock};
use self::kept_copies::KeptCopies;
use self::plan::Bases;
pub use self::plan::{ConsolidatedBase, UnconsolidatedBase};
pub use self::rules::{Count, KeepRules};
use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::media::is_worm;
use crate::observe::{Observer, Stop};
use crate::report::Report;
use crate::session::{SessionLog, now_us, peak_rss, rfc3339};
use crate::versions::away_media::AwayMedium;
use crate::versions::damaged::Stays;
use crate::versions::leap::Leap;

/// Sessions of versions that were removed stay on record that long: later backups are held against them, and yearly ones
/// are among them.
const HISTORY_US: i64 = 400 * 86_400_000_000;
/// Threads that look at segments before they are removed.
const READERS: usize = 16;

/// A prune.
#[derive(Debug, Clone, Default)]
pub struct PruneRequest {
    /// Names of objects; all, if none is given.
    pub names: Vec<String>,
    /// Only objects of this host; if none is given, of this one where objects are given up, else of all.
    pub host: Option<String>,
    /// Which of their versions are kept.
    pub rules: KeepRules,
    /// Whether all of the objects that are named goes, but what is protected, locked or read; without rules.
    pub give_up: bool,
    /// Whether only what consolidations left that did not end goes, whatever rules say.
    pub leftovers: bool,
    /// Backups that were begun before and did not complete go though they could be resumed, where a version of the object is whole:
    /// their room is wanted. Microseconds since 1970.
    pub unended_before_us: Option<i64>,
    /// The backups of a run that goes before have said what clocks say that cannot be.
    pub clocks_said: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// A version, and what became of it.
#[derive(Debug, Clone)]
pub struct PrunedVersion {
    /// The object's name.
    pub name: String,
    /// The host it is of.
    pub host: String,
    /// The session that wrote it, or the version's own id where none did.
    pub session: String,
    /// When it was begun, in microseconds since 1970.
    pub started_us: i64,
    /// Its method.
    pub method: String,
    /// What became of it.
    pub action: Action,
    /// Why.
    pub why: Vec<String>,
    /// Bytes of its segments on all media.
    pub bytes: u64,
}

/// Segments that stay for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The medium's label.
    pub medium: String,
    /// How many.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Why.
    pub why: String,
    /// Whether the medium failed, rather than not being at hand.
    pub failed: bool,
}

/// What a prune did, or would do.
#[derive(Debug, Clone, Default)]
pub struct Pruned {
    /// Whether it only says so.
    pub dry_run: bool,
    /// The versions that were asked for, and others that go: by object, newest first.
    pub versions: Vec<PrunedVersion>,
    /// Versions that went with all that is known of them.
    pub removed_versions: u64,
    /// Segments that were removed from media.
    pub removed_segments: u64,
    /// Bytes that this gave back.
    pub freed_bytes: u64,
    /// Catalog files that were removed from the internal database while their versions stay.
    pub removed_catalogs: u64,
    /// Catalog files that were written anew in fewer bytes.
    pub packed_catalogs: u64,
    /// Bytes that this gave back.
    pub packed_bytes: u64,
    /// Segments that stay for now.
    pub pending: Vec<Pending>,
    /// Bases of living versions that were given up and became fulls of their own, as most of their chain was dead.
    pub consolidated: Vec<ConsolidatedBase>,
    /// What clocks say of versions that cannot be: which are newer was decided without them.
    pub wrong_clocks: Vec<String>,
    /// A leap of the clock for the sake of which nothing ended by time.
    pub leap: Option<Leap>,
    /// Errors that were said.
    pub errors: u64,
    /// Media that are away though nobody took them away: of the objects named there nothing went.
    pub away: Vec<AwayMedium>,
    /// Those that should have been, and were not.
    pub unconsolidated: Vec<UnconsolidatedBase>,
    /// Backups that did not complete and stay on full disks, so that they can be resumed.
    pub unended: Vec<UnendedBackup>,
}

/// A backup that did not complete and stays on a full disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnendedBackup {
    /// The object's name.
    pub name: String,
    /// Its session.
    pub session: String,
    /// The label of the medium.
    pub medium: String,
    /// Bytes of its segments there.
    pub bytes: u64,
}

impl Pruned {
    /// With what a further prune did, of the same objects.
    pub fn and(self, next: Self) -> Self {
        let mut versions = self.versions;
        for v in next.versions {
            match versions.iter_mut().find(|known| known.session == v.session) {
                Some(known) => *known = v,
                None => versions.push(v),
            }
        }
        Self {
            versions,
            removed_versions: self.removed_versions + next.removed_versions,
            removed_segments: self.removed_segments + next.removed_segments,
            freed_bytes: self.freed_bytes + next.freed_bytes,
            removed_catalogs: self.removed_catalogs + next.removed_catalogs,
            packed_catalogs: self.packed_catalogs + next.packed_catalogs,
            packed_bytes: self.packed_bytes + next.packed_bytes,
            consolidated: [self.consolidated, next.consolidated].concat(),
            errors: self.errors.max(next.errors),
            away: if next.away.is_empty() { self.away } else { next.away },
            unconsolidated: [self.unconsolidated, next.unconsolidated].concat(),
            ..next
        }
    }

    /// How many versions an action was taken on.
    pub fn count(&self, action: Action) -> u64 {
        self.versions.iter().filter(|v| v.action == action).count() as u64
    }
}

/// The media that have what is to go: read, or held for the removal.
enum AtHand {
    ToRead(OpenMedium),
    Held(HeldMedium),
}

impl AtHand {
    fn medium(&self) -> &OpenMedium {
        match self {
            Self::ToRead(medium) => medium,
            Self::Held(held) => held.medium(),
        }
    }
}

type Media = BTreeMap<MediumId, Result<AtHand>>;

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
        // All media are looked at for it: once, as long as nothing was done.
        let found = self.media_away()?;
        let away = self.say_still(request, found.clone(), &SessionLog::new(observer))?;
        let (mut pruned, mut bases) = self.prune_once(request, &found, true, observer, stop)?;
        pruned.away = away;
        let again = |pruned: &mut Pruned| -> Result<()> {
            let (next, _) = self.prune_once(request, &self.media_away()?, false, observer, stop)?;
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
        self.settle_bases(bases, request, &log, &mut pruned)?;
        self.say_crowded(request, &self.asked(request, &found)?, &log, &mut pruned)?;
        self.say_unended(request, &log, &mut pruned)?;
        pruned.leap = self.say_leap(&self.asked(request, &found)?, &log)?;
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
        self.prune_once(&request, &self.media_away()?, false, observer, stop).map(drop)
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
        consolidates: bool,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<(Pruned, Bases)> {
        let started_us = now_us();
        let log = SessionLog::new(observer);
        let mut asked = self.asked(request, away)?;
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

    /// The media on which versions that go have segments: to read, or held.
    fn media_for(
        &self,
        rows: &[PruneRow],
        decisions: &[Decision],
        sizes: &Sizes,
        to_read: bool,
    ) -> Media {
        let mut media = Media::new();
        for (row, _) in rows.iter().zip(decisions).filter(|(_, d)| d.action == Action::Remove) {
            for (id, ..) in sizes.get(&row.version.id).into_iter().flatten() {
                media.entry(*id).or_insert_with(|| match to_read {
                    _ if self.is_on_tape(*id)? => {
                        let worm = self.idb.medium(*id)?.is_some_and(|medium| is_worm(&medium));
                        let why = if worm { STAYS_ON_WORM } else { GIVEN_UP_AS_A_WHOLE };
                        Err(CellError::BadInput(why.to_owned()))
                    }
                    _ if self.idb.management(*id)?.changed_us.is_some() => {
                        Err(CellError::Changed(NOT_AS_WRITTEN.to_owned()))
                    }
                    true => self.medium_to_change(*id).map(AtHand::ToRead),
                    false => self.hold_medium_now(*id).map(AtHand::Held),
                });
            }
        }
        media
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

    /// Removes what only versions that go have something in, then what is known of them.
    fn sweep(
        &self,
        (gone, kept): (&HashSet<VersionId>, &KeptCopies),
        media: &Media,
        now_us: i64,
        pruned: &mut Pruned,
    ) -> Result<()> {
        let expired = self.idb.expired_segments()?;
        let mut removed: Vec<(SegmentId, MediumId)> = Vec::new();
        for segments in expired.chunk_by(|a, b| a.medium == b.medium) {
            let dead = segments.iter().filter(|s| s.versions.iter().all(|v| gone.contains(v)));
            let (stay, dead): (Vec<&ExpiredSegment>, Vec<&ExpiredSegment>) =
                dead.partition(|s| kept.why(s).is_some());
            if let Some((first, why)) = stay.first().and_then(|s| Some((s, kept.why(s)?))) {
                let (count, bytes) = (stay.len() as u64, stay.iter().map(|s| s.bytes).sum());
                let why = why.to_owned();
                pruned.pending.push(self.pending(first.medium, count, bytes, why, false)?);
            }
            let Some(id) = dead.first().map(|s| s.medium) else { continue };
            let swept = match media.get(&id) {
                Some(Ok(AtHand::Held(held))) => remove_from(held, &dead, now_us),
                other => {
                    // One that others have, or that is away, is no failure.
                    let failed = match other {
                        Some(Err(CellError::Device(e))) => !e.is_busy(),
                        Some(Err(CellError::Unreadable { .. })) => true,
                        _ => false,
                    };
                    Swept { stays: Some((why_not(other), failed)), ..Swept::default() }
                }
            };
            let (done, left): (Vec<&ExpiredSegment>, Vec<&ExpiredSegment>) =
                dead.iter().copied().partition(|s| swept.gone.contains(&s.number));
            removed.extend(done.iter().map(|s| (s.segment, id)));
            pruned.removed_segments += swept.segments;
            pruned.freed_bytes += swept.bytes;
            if let Some((why, failed)) = swept.stays {
                let bytes = left.iter().map(|s| s.bytes).sum();
                pruned.pending.push(self.pending(id, left.len() as u64, bytes, why, failed)?);
            }
        }
        let gone: Vec<VersionId> = gone.iter().copied().collect();
        let history_from_us = now_us.saturating_sub(HISTORY_US);
        let held = |id| match media.get(&id) {
            Some(Ok(AtHand::Held(held))) => Some(held),
            _ => None,
        };
        let forgotten = self.forget_removed(&removed, &gone, history_from_us, held)?;
        pruned.removed_versions = forgotten.versions;
        Ok(())
    }

    fn pending(
        &self,
        id: MediumId,
        segments: u64,
        bytes: u64,
        why: String,
        failed: bool,
    ) -> Result<Pending> {
        let medium = self.labels([id].iter())?.concat();
        Ok(Pending { medium, segments, bytes, why, failed })
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
        log.fill(&self.devices, &mut report);
        self.record(&mut report, "prune", started_us, status)
    }
}

/// The versions that go.
fn gone(rows: &[PruneRow], decisions: &[Decision]) -> HashSet<VersionId> {
    let going = rows.iter().zip(decisions).filter(|(_, d)| d.action == Action::Remove);
    going.map(|(row, _)| row.version.id).collect()
}

/// Why nothing of a tape is removed.
const GIVEN_UP_AS_A_WHOLE: &str =
    "a tape is given up as a whole: `capstan media recycle` does it when nothing on it must stay";

/// Why nothing of a tape that is written once is removed.
const STAYS_ON_WORM: &str =
    "the tape is WORM: what is on it cannot be overwritten or erased, and goes with the tape";

/// Why nothing is removed from a medium that was changed.
const NOT_AS_WRITTEN: &str = "it is not as it was last written; `capstan import` takes it as it is";

/// By version: medium, segments and bytes there.
type Sizes = HashMap<VersionId, Vec<(MediumId, u64, u64)>>;

fn why_not(medium: Option<&Result<AtHand>>) -> String {
    match medium {
        Some(Err(e)) => chain(e),
        // Only just known of: what it has goes next time.
        _ => "it was not looked for; prune again".to_owned(),
    }
}

/// The locks on the media. One of which they cannot be listed is left alone; a lock that cannot be read holds its version. Both are
/// said.
fn locks_on(media: &mut Media, log: &SessionLog<'_>) -> HashMap<VersionId, MediumLock> {
    let mut locks: HashMap<VersionId, MediumLock> = HashMap::new();
    for at_hand in media.values_mut() {
        let Ok(medium) = at_hand.as_ref().map(AtHand::medium) else { continue };
        let on_it = match medium.version_locks() {
            Ok(on_it) => on_it,
            Err(e) => {
                log.say(Code::DeviceFailed, "media agent", medium.path(), chain(&e));
                *at_hand = Err(e.into());
                continue;
            }
        };
        for found in on_it {
            let known = locks.get(&found.version()).copied();
            let lock = match (&found, known) {
                (FoundLock::Whole(lock), Some(MediumLock::UntilUs(until))) => {
                    MediumLock::UntilUs(until.max(lock.until_us))
                }
                (FoundLock::Whole(lock), _) => MediumLock::UntilUs(lock.until_us),
                (FoundLock::Damaged(version), known) => {
                    let what = format!("the lock {version} in {}", medium.path());
                    let text = "it cannot be read, so the version that it locks is kept; the others are not held by it";
                    log.say(Code::Damaged, "media agent", &what, text.to_owned());
                    known.unwrap_or(MediumLock::Damaged)
                }
            };
            locks.insert(found.version(), lock);
        }
    }
    locks
}

/// What became of the dead segments of a medium.
#[derive(Default)]
pub(crate) struct Swept {
    /// Those that are not there any more, by number.
    pub gone: HashSet<SegmentNumber>,
    /// How many of them were removed now.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Why others stay, and whether the medium failed.
    pub stays: Option<(String, bool)>,
}

/// Whether a lock on the medium covers a segment.
pub(crate) fn is_locked(locks: &[FoundLock], number: SegmentNumber, now_us: i64) -> bool {
    locks.iter().any(|found| match found {
        FoundLock::Whole(lock) => lock.until_us > now_us && lock.covers(number),
        // Its version is kept as a whole.
        FoundLock::Damaged(_) => false,
    })
}

/// Removes dead segments of a medium, but those that a lock there covers.
pub(crate) fn remove_from(held: &HeldMedium, dead: &[&ExpiredSegment], now_us: i64) -> Swept {
    let medium = held.medium();
    let locks = match medium.version_locks() {
        Ok(locks) => locks,
        Err(e) => return Swept { stays: Some((chain(&e), true)), ..Swept::default() },
    };
    let is_free = |s: &&ExpiredSegment| !is_locked(&locks, s.number, now_us);
    let free: Vec<&ExpiredSegment> = dead.iter().copied().filter(is_free).collect();
    let mut swept = Swept { gone: strangers(medium, &free), ..Swept::default() };
    let ours = free.iter().map(|s| s.number).filter(|n| !swept.gone.contains(n));
    let (removed, failure) = held.remove_segments(&ours.collect::<Vec<_>>());
    let removed: HashSet<SegmentNumber> = removed.into_iter().collect();
    swept.segments = removed.len() as u64;
    swept.bytes = free.iter().filter(|s| removed.contains(&s.number)).map(|s| s.bytes).sum();
    swept.gone.extend(removed);
    let failure = failure.or_else(|| held.remove_passed_locks(&locks, now_us).err());
    swept.stays = match failure {
        Some(e) => Some((chain(&e), true)),
        None if free.len() < dead.len() => Some(("a lock covers them".to_owned(), false)),
        None => None,
    };
    swept
}

/// Numbers under which the medium has other segments than these: they are not ours to remove, and ours are gone. So it is
/// where somebody removed segments by hand and the numbers were given again.
fn strangers(medium: &OpenMedium, segments: &[&ExpiredSegment]) -> HashSet<SegmentNumber> {
    // Cold first blocks are bound by latency, as cold small files are.
    let share = segments.len().div_ceil(READERS).max(1);
    let is_stranger =
        |s: &&&ExpiredSegment| medium.segment_at(s.number).is_some_and(|id| id != s.segment);
    let look = |share: &[&ExpiredSegment]| -> Vec<SegmentNumber> {
        share.iter().filter(is_stranger).map(|s| s.number).collect()
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = segments
            .chunks(share)
            .map(|share| beside(scope, "look", move || look(share)))
            .collect();
        // A reader that failed has said nothing of its segments: none of them is removed.
        let shares = segments.chunks(share).zip(readers);
        let found = shares.flat_map(|(share, reader)| {
            reader.join().unwrap_or_else(|| share.iter().map(|s| s.number).collect())
        });
        found.collect()
    })
}
