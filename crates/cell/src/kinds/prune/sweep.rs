//! Media of which segments are removed: held, their locks read, swept, and why some stay.

use std::collections::{BTreeMap, HashMap, HashSet};

use capstan_engine::message::Code;
use capstan_engine::problem::Problem;
use capstan_engine::threads::beside;
use capstan_format::id::{MediumId, SegmentId, SegmentNumber, VersionId};
use capstan_idb::{ExpiredSegment, PruneRow};
use capstan_medium::{FoundLock, HeldMedium, OpenMedium};

use super::Sizes;
use super::chains::kept_copies::KeptCopies;
use super::decide::{Action, Decision, MediumLock};
use super::report::{Pending, Pruned};
use crate::Cell;
use crate::error::{CellError, PruneRefusal, Result, chain};
use crate::media::is_worm;
use crate::session::SessionLog;

/// Sessions of versions that were removed stay on record that long: later backups are held against them, and yearly ones
/// are among them.
const HISTORY_US: i64 = 400 * 86_400_000_000;
/// Threads that look at segments before they are removed.
/// The media that have what is to go: read, or held for the removal.
pub(super) enum AtHand {
    ToRead(OpenMedium),
    Held(HeldMedium),
}

impl AtHand {
    pub(super) fn medium(&self) -> &OpenMedium {
        match self {
            Self::ToRead(medium) => medium,
            Self::Held(held) => held.medium(),
        }
    }
}

pub(super) type Media = BTreeMap<MediumId, Result<AtHand>>;

/// Threads that look at segments before they are removed.
const READERS: usize = 16;

impl Cell {
    /// The media on which versions that go have segments: to read, or held.
    pub(super) fn media_for(
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
                        Err(match worm {
                            true => PruneRefusal::StaysOnWorm.into(),
                            false => PruneRefusal::TapeGoesAsAWhole.into(),
                        })
                    }
                    _ if self.idb.management(*id)?.changed_us.is_some() => {
                        Err(CellError::Changed(not_as_written()))
                    }
                    true => self.medium_to_change(*id).map(AtHand::ToRead),
                    false => self.hold_medium_now(*id).map(AtHand::Held),
                });
            }
        }
        media
    }

    /// Removes what only versions that go have something in, then what is known of them.
    pub(super) fn sweep(
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

    pub(super) fn pending(
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
}

/// Why nothing is removed from a medium that was changed.
fn not_as_written() -> Problem {
    Problem::new("it is not as it was last written").hint("`capstan import` takes it as it is")
}

pub(super) fn why_not(medium: Option<&Result<AtHand>>) -> String {
    match medium {
        Some(Err(e)) => chain(e),
        // Only just known of: what it has goes next time.
        _ => "it was not looked for; prune again".to_owned(),
    }
}

/// The locks on the media. One of which they cannot be listed is left alone; a lock that cannot be read holds its version. Both are
/// said.
pub(super) fn locks_on(media: &mut Media, log: &SessionLog<'_>) -> HashMap<VersionId, MediumLock> {
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
