//! Which versions lie on the media that are staged, which of them can go, and which of those do.

use std::collections::HashMap;

use capstan_format::id::{MediumId, SegmentId, SegmentNumber, SessionId, VersionId};
use capstan_idb::{PruneRow, Segment, Status, Version};

use super::source::Sources;
use crate::Cell;
use crate::error::Result;
use crate::session::now_us;

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
    /// Why it stays whatever is chosen.
    pub stays: Option<String>,
}

impl Candidate {
    /// Whether it is to be staged.
    pub fn goes(&self) -> bool {
        self.chosen && self.stays.is_none()
    }
}

/// A segment on a medium that is staged.
pub(super) struct Owned {
    pub segment: Segment,
    /// The versions that have something in it, or whose session wrote it.
    pub owners: Vec<VersionId>,
    /// Whether versions have data in it.
    pub has_data: bool,
}

impl Cell {
    /// The segments on the media that are staged.
    pub(super) fn owned_segments(&self, sources: &Sources) -> Result<Vec<Owned>> {
        let mut claims: HashMap<(MediumId, SegmentNumber), Vec<VersionId>> = HashMap::new();
        for claim in self.idb.claims()?.into_iter().filter(|c| sources.has(c.medium)) {
            claims.entry((claim.medium, claim.number)).or_default().push(claim.version);
        }
        let mut writers: HashMap<SessionId, Option<VersionId>> = HashMap::new();
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
                let has_data = claimed.is_some();
                let mut owners = claimed.unwrap_or_default();
                owners.extend(writer.filter(|writer| !owners.contains(writer)));
                all.push(Owned { segment, owners, has_data });
            }
        }
        Ok(all)
    }

    /// The versions that have data on the media that are staged, oldest first, with the reasons why some stay.
    pub(super) fn stage_candidates(&self, sources: &Sources) -> Result<Vec<Candidate>> {
        let owned = self.owned_segments(sources)?;
        let mut of: HashMap<VersionId, Vec<&Owned>> = HashMap::new();
        for segment in owned.iter().filter(|s| s.has_data) {
            for owner in &segment.owners {
                of.entry(*owner).or_default().push(segment);
            }
        }
        let objects: HashMap<_, _> = self.idb.objects()?.into_iter().map(|o| (o.id, o)).collect();
        let mut candidates = Vec::new();
        for row in self.idb.prune_rows()? {
            let Some(segments) = of.get(&row.version.id) else { continue };
            let own = segments.iter().filter(|s| s.owners.first() == Some(&row.version.id));
            candidates.push(Candidate {
                name: objects.get(&row.version.object).map_or_else(String::new, |o| o.name.clone()),
                session: row.session.map_or_else(|| row.version.id.to_string(), |s| s.to_string()),
                bytes: own.map(|s| s.segment.bytes).sum(),
                chosen: false,
                stays: self.why_it_stays(&row, segments, sources)?,
                version: row.version,
            });
        }
        candidates.sort_by_key(|c| (c.version.created_us, c.version.id));
        Ok(candidates)
    }

    fn why_it_stays(
        &self,
        row: &PruneRow,
        segments: &[&Owned],
        sources: &Sources,
    ) -> Result<Option<String>> {
        let now = now_us();
        if row.version.status == Status::Running || row.in_use {
            return Ok(Some("in use by a session that runs".to_owned()));
        }
        if !matches!(row.version.status, Status::Completed | Status::CompletedWithErrors) {
            return Ok(Some("it is not complete".to_owned()));
        }
        if let Some(until) = row.keeping.lock_at(now) {
            return Ok(Some(format!("locked until {}", crate::protect::local(until))));
        }
        for owned in segments {
            let source = sources.get(owned.segment.medium);
            let keeps = source.and_then(|s| s.keeps(row.version.id, owned.segment.number, now));
            if keeps.is_some() {
                return Ok(keeps);
            }
        }
        if let Some(label) = self.mirror_of(row.version.id, sources)? {
            return Ok(Some(format!("mirrored on '{label}'")));
        }
        if row.keeping.expired_us.is_some() && !self.is_built_on(row.version.id)? {
            return Ok(Some("given up: the next prune removes it".to_owned()));
        }
        Ok(None)
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
/// all are left.
pub(super) fn choose(candidates: &mut [Candidate], before_us: Option<i64>, keep: Option<u64>) {
    let mut left: u64 = candidates.iter().map(|c| c.bytes).sum();
    for candidate in candidates.iter_mut().filter(|c| c.stays.is_none()) {
        let is_old = before_us.is_none_or(|before| candidate.version.created_us < before);
        if is_old && keep.is_none_or(|keep| left > keep) {
            candidate.chosen = true;
            left = left.saturating_sub(candidate.bytes);
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
            stays: stays.then(|| "locked".to_owned()),
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
}
