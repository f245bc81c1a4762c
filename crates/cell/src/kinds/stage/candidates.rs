//! Which versions lie on the media that are staged, which of them can go, and which of those do.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use capstan_format::id::{MediumId, SegmentId, SegmentNumber, SessionId, VersionId};
use capstan_idb::{PruneRow, Segment, Status, Version};

use serde::Deserialize;

use super::STAGE;
use super::source::{Keeps, Sources};
use crate::Cell;
use crate::error::Result;
use crate::kinds::copy::lacking;
use crate::kinds::copy::staged_on::Target;
use crate::reading::version::VersionView;

/// Sessions that are looked through for the last that staged.
const LOOKED_BACK: usize = 500;

/// What of a report is asked for.
#[derive(Deserialize)]
struct Named {
    name: String,
}

/// A version that has data on media that are staged.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub version: Version,
    /// The object's name.
    pub name: String,
    /// The session that wrote it, or the version's own id where none did.
    pub session: String,
    /// Bytes of its segments there.
    pub bytes: u64,
    /// Whether the request chose it.
    pub chosen: bool,
    /// Why the request did not choose it.
    pub passed_over: Option<String>,
    /// Why it stays whatever is chosen.
    pub stays: Option<String>,
    /// What keeps it on disk though it is copied: a lock.
    pub locked: Option<String>,
}

impl Candidate {
    /// Whether it is to be copied.
    pub fn goes(&self) -> bool {
        self.chosen && self.stays.is_none()
    }

    /// Whether its space on disk is to be given back then.
    pub fn is_given_back(&self) -> bool {
        self.goes() && self.locked.is_none()
    }
}

/// What keeps a version where it is.
#[derive(Default)]
struct Kept {
    stays: Option<String>,
    locked: Option<String>,
}

impl Kept {
    fn stays(why: &str) -> Self {
        Self { stays: Some(why.to_owned()), locked: None }
    }
}

/// A segment on a medium that is staged.
pub(super) struct Owned {
    pub segment: Segment,
    /// The versions that have something in it, or whose session wrote it.
    pub owners: Vec<VersionId>,
    /// Whether it is copied: versions have data in it, or it is all that a session wrote.
    pub is_copied: bool,
}

impl Cell {
    /// The segments on the media that are staged.
    pub(super) fn owned_segments(&self, sources: &Sources) -> Result<Vec<Owned>> {
        let mut claims: HashMap<(MediumId, SegmentNumber), Vec<VersionId>> = HashMap::new();
        for claim in self.idb.claims()?.into_iter().filter(|c| sources.has(c.medium)) {
            claims.entry((claim.medium, claim.number)).or_default().push(claim.version);
        }
        let mut writers: HashMap<SessionId, Option<VersionId>> = HashMap::new();
        let mut ends: HashMap<VersionId, HashSet<SegmentId>> = HashMap::new();
        let mut all = Vec::new();
        for source in &sources.media {
            for segment in self.idb.segments_of_medium(source.row.id)? {
                let writer = match writers.get(&segment.session) {
                    Some(known) => *known,
                    None => {
                        let found = self.idb.session(segment.session)?.and_then(|s| s.version);
                        *writers.entry(segment.session).or_insert(found)
                    }
                };
                let claimed = claims.remove(&(segment.medium, segment.number));
                let mut is_copied = claimed.is_some();
                if let (false, Some(version)) = (is_copied, writer) {
                    let ends = match ends.entry(version) {
                        Entry::Occupied(known) => known.into_mut(),
                        Entry::Vacant(new) => {
                            let found = self.idb.ends_of_version(version)?;
                            new.insert(found.into_iter().map(|end| end.id).collect())
                        }
                    };
                    is_copied = ends.contains(&segment.id);
                }
                let mut owners = claimed.unwrap_or_default();
                owners.extend(writer.filter(|writer| !owners.contains(writer)));
                all.push(Owned { segment, owners, is_copied });
            }
        }
        Ok(all)
    }

    /// The versions that have data on the media that are staged, oldest first, with the reasons why some stay.
    pub(super) fn stage_candidates(
        &self,
        sources: &Sources,
        target: Option<&Target>,
    ) -> Result<Vec<Candidate>> {
        let owned = self.owned_segments(sources)?;
        let mut of: HashMap<VersionId, Vec<&Owned>> = HashMap::new();
        for segment in owned.iter().filter(|s| s.is_copied) {
            for owner in &segment.owners {
                of.entry(*owner).or_default().push(segment);
            }
        }
        let objects: HashMap<_, _> = self.idb.objects()?.into_iter().map(|o| (o.id, o)).collect();
        let mut candidates = Vec::new();
        let believed_us = self.believed_us()?;
        for row in self.idb.prune_rows()? {
            let Some(segments) = of.get(&row.version.id) else { continue };
            let own = segments.iter().filter(|s| s.owners.first() == Some(&row.version.id));
            let mut kept = self.what_keeps(&row, segments, sources, believed_us)?;
            if let (None, Some(why), Some(target)) = (&kept.stays, &kept.locked, target)
                && self.is_copied(&row.version, sources, target)?
            {
                kept.stays =
                    Some(format!("{why}: it is copied already, and stays on disk until then"));
            }
            candidates.push(Candidate {
                name: objects.get(&row.version.object).map_or_else(String::new, |o| o.name.clone()),
                session: row.session.map_or_else(|| row.version.id.to_string(), |s| s.to_string()),
                bytes: own.map(|s| s.segment.bytes).sum(),
                chosen: false,
                passed_over: None,
                stays: kept.stays,
                locked: kept.locked,
                version: row.version,
            });
        }
        self.sort_by_commit(&mut candidates, |c| &c.version)?;
        Ok(candidates)
    }

    /// What keeps a version where it is now, as far as times are believed.
    fn what_keeps(
        &self,
        row: &PruneRow,
        segments: &[&Owned],
        sources: &Sources,
        now: i64,
    ) -> Result<Kept> {
        if row.version.status == Status::Running || row.in_use {
            return Ok(Kept::stays("in use by a session that runs"));
        }
        if let Some(reader) = row.readers.first() {
            return Ok(Kept::stays(&format!("read by {reader}")));
        }
        if !matches!(row.version.status, Status::Completed | Status::CompletedWithErrors) {
            return Ok(Kept::stays("it is not complete"));
        }
        if let Some(label) = self.mirror_of(row.version.id, sources)? {
            return Ok(Kept::stays(&format!("mirrored on '{label}'")));
        }
        if row.keeping.expired_us.is_some() && !self.is_built_on(row.version.id)? {
            return Ok(Kept::stays("given up: the next prune removes it"));
        }
        let mut locked_us = row.keeping.lock_at(now);
        for owned in segments {
            let Some(source) = sources.get(owned.segment.medium) else { continue };
            match source.keeps(row.version.id, owned.segment.number, now) {
                Some(Keeps::Locked(until_us)) => locked_us = locked_us.max(Some(until_us)),
                Some(Keeps::Other(why)) => return Ok(Kept::stays(&why)),
                None => {}
            }
        }
        let locked =
            locked_us.map(|until| format!("locked until {}", crate::session::local(until)));
        Ok(Kept { stays: None, locked })
    }

    /// Whether all that a version has on the media that are staged is on the target already, and its locks with it.
    fn is_copied(&self, version: &Version, sources: &Sources, target: &Target) -> Result<bool> {
        if !self.ended_well(sources)? {
            return Ok(false);
        }
        let view = [VersionView::open_alone(self, version.clone())?];
        let is_target = |id| target.has(self, id) && !sources.has(id);
        Ok(lacking(&view, &|id| sources.has(id), &is_target).is_empty())
    }

    /// Whether the last session that staged from these media came to its end, and none was cut short since: copies that it made
    /// are locked where they have to be, and were read back.
    fn ended_well(&self, sources: &Sources) -> Result<bool> {
        for session in self.idb.sessions(LOOKED_BACK)?.iter().filter(|s| s.kind == STAGE) {
            if !matches!(session.status, Status::Completed | Status::CompletedWithErrors) {
                return Ok(false);
            }
            let report = session.report.as_deref().unwrap_or_default();
            if serde_json::from_str::<Named>(report).is_ok_and(|r| r.name == sources.name) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Another medium that has segments of a version: they are mirrors of each other, and shall stay so.
    fn mirror_of(&self, version: VersionId, sources: &Sources) -> Result<Option<String>> {
        let mut media: HashMap<SegmentId, Vec<MediumId>> = HashMap::new();
        for (segment, medium, _) in self.idb.places_of_version(version)? {
            media.entry(segment).or_default().push(medium);
        }
        let mirrored =
            media.into_values().find(|m| m.len() > 1 && m.iter().any(|id| sources.has(*id)));
        let Some(mirrored) = mirrored else { return Ok(None) };
        let other = mirrored.iter().find(|id| !sources.has(**id)).or(mirrored.last());
        Ok(Some(self.labels(other.into_iter())?.concat()))
    }

    /// Whether a version that was not given up builds on one.
    fn is_built_on(&self, version: VersionId) -> Result<bool> {
        for dependant in self.idb.with_dependants(&[version])? {
            if self.idb.keeping(dependant)?.expired_us.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Chooses from candidates, which come oldest first: those that began before `before_us`, until no more than `keep` bytes of
/// all are left. Of the others it says why not.
pub(super) fn choose(candidates: &mut [Candidate], before_us: Option<i64>, keep: Option<u64>) {
    let mut left: u64 = candidates.iter().map(|c| c.bytes).sum();
    for candidate in candidates.iter_mut().filter(|c| c.stays.is_none()) {
        if let Some(before) = before_us.filter(|before| candidate.version.created_us >= *before) {
            let before = crate::session::local(before);
            candidate.passed_over =
                Some(format!("too young: what was begun before {before} is staged"));
        } else if keep.is_some_and(|keep| left <= keep) {
            candidate.passed_over = Some("there is no more on disk than may stay there".to_owned());
        } else {
            candidate.chosen = true;
            if candidate.locked.is_none() {
                left = left.saturating_sub(candidate.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_format::id::ObjectId;

    fn candidate(n: u8, bytes: u64, stays: bool) -> Candidate {
        Candidate {
            version: Version {
                id: VersionId([n; 16]),
                object: ObjectId([1; 16]),
                status: Status::Completed,
                method: "full".to_owned(),
                base: None,
                key: None,
                null_device: false,
                created_us: i64::from(n),
                stands_for: None,
            },
            name: "t".to_owned(),
            session: String::new(),
            bytes,
            chosen: false,
            passed_over: None,
            stays: stays.then(|| "mirrored".to_owned()),
            locked: None,
        }
    }

    fn chosen(before_us: Option<i64>, keep: Option<u64>) -> Vec<i64> {
        let mut all = vec![
            candidate(1, 10, false),
            candidate(2, 20, true),
            candidate(3, 30, false),
            candidate(4, 40, false),
        ];
        choose(&mut all, before_us, keep);
        all.iter().filter(|c| c.goes()).map(|c| c.version.created_us).collect()
    }

    #[test]
    fn the_oldest_go_until_enough_did() {
        assert_eq!(chosen(None, None), [1, 3, 4]);
        assert_eq!(chosen(Some(4), None), [1, 3], "by age");
        // There are 100 bytes; what stays whatever is asked counts as left.
        assert_eq!(chosen(None, Some(100)), [0; 0]);
        assert_eq!(chosen(None, Some(99)), [1]);
        assert_eq!(chosen(None, Some(90)), [1]);
        assert_eq!(chosen(None, Some(89)), [1, 3]);
        assert_eq!(chosen(None, Some(0)), [1, 3, 4]);
        assert_eq!(chosen(Some(3), Some(0)), [1], "both conditions hold");
    }

    #[test]
    fn what_is_passed_over_says_why() {
        let mut all =
            vec![candidate(1, 10, false), candidate(2, 20, true), candidate(3, 30, false)];
        choose(&mut all, Some(3), None);
        let why = |c: &Candidate| c.passed_over.clone().unwrap_or_default();
        assert!(why(&all[2]).starts_with("too young: what was begun before "), "{all:?}");
        assert_eq!((why(&all[0]), why(&all[1])), (String::new(), String::new()));
        choose(&mut all, None, Some(60));
        assert_eq!(why(&all[0]), "there is no more on disk than may stay there");
    }
}
