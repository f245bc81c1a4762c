//! Versions that are not whole: somebody took a medium as it is that had lost segments, or media were imported and what belongs to
//! their versions was not. They are whole again when a place of what is lacking is known, and so is what builds on them.

use std::collections::{HashMap, HashSet};

use capstan_format::id::{MediumId, SegmentId, VersionId};

use crate::db::{Conn, Idb};
use crate::decode::{self, Fault};
use crate::error::IdbError;
use crate::media::forget::{Above, bases, forget_versions_now};
use crate::versions::leases;
use crate::versions::pruning::{
    BATCH, Claim, claims_of_data, claims_of_ends, forget_places, forget_segments, push_ids,
    push_list,
};
use crate::{Result, sql};

/// A version that is not whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostData {
    /// The version.
    pub version: VersionId,
    /// Why: of it, or of what it builds on.
    pub loss: Loss,
}

/// What is lacking, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// A medium was taken as it is that had lost something.
    Medium {
        /// Its label.
        label: String,
        /// When it was taken, in microseconds since 1970.
        lost_us: i64,
    },
    /// No more is left than a copy that lacks something.
    Copy {
        /// The label of the medium that has it.
        label: String,
    },
    /// Segments that are known to belong to it are on no medium that is known.
    Segments,
    /// This version, which it builds on, is not known.
    Base(VersionId),
}

impl Loss {
    /// Whether nobody said that it is lost: it may be on media that were not imported.
    pub const fn is_not_imported(&self) -> bool {
        matches!(self, Self::Segments | Self::Base(_))
    }
}

/// What versions lost, each with the segment of which a place is gone and that is whole nowhere else: the original, of a copy.
pub fn torn(claims: &[Claim], is_gone: impl Fn(&Claim) -> bool) -> HashSet<(VersionId, SegmentId)> {
    let mut places: HashMap<(VersionId, SegmentId), (bool, bool)> = HashMap::new();
    for claim in claims {
        let (any_gone, is_whole) = places.entry((claim.version, claim.origin)).or_default();
        let gone = is_gone(claim);
        *any_gone |= gone;
        *is_whole |= !gone && !claim.lacks;
    }
    let torn = places.into_iter().filter(|(_, (any_gone, is_whole))| *any_gone && !is_whole);
    torn.map(|(of, _)| of).collect()
}

impl Idb {
    /// The versions that are not whole: of them, or of what they build on, something is lost or was never imported, and nothing that is
    /// known has it. A copy that lacks something does not.
    pub fn lost_versions(&self) -> Result<Vec<LostData>> {
        self.read(format_args!("look for versions that are not whole"), versions)
    }

    /// Forgets that these segments lie on a medium, where they are not any more, and versions of which nothing else is known. Of the
    /// others it notes what they lack from now on. A segment that has no other place goes with its catalog. Sessions stay for the
    /// record. Refused where a session runs with one of these versions, or somebody reads it.
    pub fn forget_segments_of_medium(
        &self,
        medium: MediumId,
        segments: &[SegmentId],
        now_us: i64,
    ) -> Result<()> {
        let what = format_args!("forget what medium {} has lost", medium.short());
        let lost: HashSet<SegmentId> = segments.iter().copied().collect();
        let gone = self.write_many(what, async |conn| {
            let cost = Cost::of(conn, medium, &lost).await?;
            refuse_used(conn, &cost.versions).await?;
            forget_versions_now(conn, &cost.forgotten).await?;
            put_lost(conn, medium, &cost.lack, now_us).await?;
            let mut gone = Vec::new();
            for ids in segments.chunks(BATCH) {
                let there: Vec<_> = ids.iter().map(|segment| (*segment, medium)).collect();
                forget_places(conn, &there).await?;
                let elsewhere = placed(conn, ids).await?;
                let nowhere: Vec<SegmentId> =
                    ids.iter().copied().filter(|id| !elsewhere.contains(id)).collect();
                if !nowhere.is_empty() {
                    forget_segments(conn, &nowhere).await?;
                }
                gone.extend(nowhere);
            }
            Ok(gone)
        })?;
        gone.into_iter().try_for_each(|segment| self.remove_catalog(segment).map(drop))
    }

    /// Forgets those of these versions of which no segment is recorded: they were removed. Sessions stay for the record. What a session
    /// runs with, or somebody reads, stays. An incremental without changes may have no segment of its own: do not ask for it.
    pub fn forget_bare(&self, versions: &[VersionId]) -> Result<()> {
        self.write_many(format_args!("forget versions that were removed"), async |conn| {
            for ids in versions.chunks(BATCH) {
                let mut query = sql::Builder::new(
                    "SELECT v.id FROM versions v WHERE NOT EXISTS (SELECT 1 FROM stream_parts p WHERE p.version_id = v.id) \
                     AND NOT EXISTS (SELECT 1 FROM sessions s JOIN segments g ON g.session_id = s.id \
                     WHERE s.version_id = v.id) AND v.id IN (",
                );
                push_ids(&mut query, ids);
                let rows = query.build().fetch_all(&mut *conn).await?;
                for row in &rows {
                    let id = decode::parsed(row, "id")?;
                    match refuse_used(conn, &[id]).await {
                        Err(Fault::Rule(IdbError::IsRead { .. })) => {}
                        unused => {
                            unused?;
                            forget_versions_now(conn, &[id]).await?;
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// The segments that belong to a version, the originals of copies: those that are recorded, and those that are known to be lacking.
    pub fn segments_belonging_to(&self, version: VersionId) -> Result<Vec<SegmentId>> {
        self.read(format_args!("look up version {}", version.short()), async |conn| {
            let rows = sql::query(
                "SELECT COALESCE(c.origin_id, p.segment_id) AS id FROM stream_parts p \
                 LEFT JOIN segment_copies c ON c.segment_id = p.segment_id WHERE p.version_id = $1 \
                 UNION SELECT d.segment_id FROM lost_segments d WHERE d.version_id = $1 \
                 AND d.segment_id NOT IN (SELECT q.stream_id FROM stream_parts q WHERE q.version_id = $1) \
                 ORDER BY id",
            )
            .bind(version.to_string())
            .fetch_all(conn)
            .await?;
            rows.iter().map(|row| decode::parsed(row, "id")).collect()
        })
    }

    /// Notes that these segments belong to a version: it is not whole as long as one of them, or a whole copy of it, is on no medium
    /// that is known.
    pub fn expect_segments(
        &self,
        version: VersionId,
        segments: &[SegmentId],
        now_us: i64,
    ) -> Result<()> {
        let what = format_args!("note what belongs to version {}", version.short());
        self.write(what, async |conn| {
            let mut lack = Vec::new();
            for ids in segments.chunks(BATCH) {
                let there = placed(conn, ids).await?;
                let missing = ids.iter().filter(|id| !there.contains(id));
                lack.extend(missing.map(|id| (*id, version)));
            }
            note_lost(conn, "", &lack, now_us).await
        })
    }

    /// Notes which of these versions have streams that begin late or have a gap, as segments before are on no medium that is known;
    /// of those that are complete, and no synthetic fulls, whose streams have gaps on purpose. Which segments it are nobody knows, so the
    /// stream stands for them. What was noted of them before is forgotten.
    pub fn note_gaps(&self, versions: &[VersionId], now_us: i64) -> Result<()> {
        self.write_many(format_args!("look for what versions lack"), async |conn| {
            for version in versions {
                let id = version.to_string();
                let sql = "DELETE FROM lost_segments WHERE version_id = $1 AND segment_id IN \
                           (SELECT stream_id FROM stream_parts WHERE version_id = $1)";
                sql::query(sql).bind(&id).execute(&mut *conn).await?;
                let rows = sql::query(
                    "SELECT DISTINCT p.stream_id, p.logical_start, p.logical_end FROM stream_parts p \
                     JOIN segment_places l ON l.segment_id = p.segment_id \
                     JOIN versions v ON v.id = p.version_id \
                     WHERE p.version_id = $1 AND v.stands_for_id IS NULL \
                     AND v.status IN ('completed', 'completed_with_errors') \
                     ORDER BY p.stream_id, p.logical_start, p.logical_end",
                )
                .bind(&id)
                .fetch_all(&mut *conn)
                .await?;
                let part = |row| {
                    let stream: SegmentId = decode::parsed(row, "stream_id")?;
                    let at = |column| decode::count::<u64>(row, column);
                    Ok((stream, at("logical_start")?, at("logical_end")?))
                };
                let parts = rows.iter().map(part).collect::<std::result::Result<Vec<_>, Fault>>()?;
                let torn = parts.chunk_by(|a, b| a.0 == b.0).filter(|parts| has_gap(parts));
                let torn: Vec<_> = torn.filter_map(|of| Some((of.first()?.0, *version))).collect();
                note_lost(conn, "", &torn, now_us).await?;
            }
            Ok(())
        })
    }

    /// The versions that would not be whole any more if a medium had lost these segments.
    pub fn versions_torn_by(
        &self,
        medium: MediumId,
        segments: &[SegmentId],
    ) -> Result<Vec<VersionId>> {
        let lost: HashSet<SegmentId> = segments.iter().copied().collect();
        self.read(format_args!("look up what medium {} has", medium.short()), async |conn| {
            Ok(Cost::of(conn, medium, &lost).await?.versions)
        })
    }
}

/// Whether parts of a stream, by their begin, leave something out between 0 and the end of the last.
fn has_gap(parts: &[(SegmentId, u64, u64)]) -> bool {
    let mut end = 0;
    parts.iter().any(|(_, from, to)| {
        let gap = *from > end;
        end = end.max(*to);
        gap
    })
}

/// The versions that are not whole.
pub(crate) async fn versions(conn: &mut Conn<'_>) -> std::result::Result<Vec<LostData>, Fault> {
    // Of several reasons the first counts, by its number.
    let rows = sql::query(
        "WITH RECURSIVE lost (version_id, reason, what, lost_us) AS (\
         SELECT d.version_id, CAST(CASE d.medium WHEN '' THEN 2 ELSE 0 END AS BIGINT), d.medium, \
         MAX(d.lost_us) FROM lost_segments d \
         WHERE NOT EXISTS (SELECT 1 FROM segment_places l WHERE l.segment_id = d.segment_id) \
         AND d.segment_id NOT IN (SELECT c.origin_id FROM segment_copies c \
         JOIN segment_places l ON l.segment_id = c.segment_id WHERE c.lacks = 0) \
         GROUP BY d.version_id, d.medium \
         UNION SELECT p.version_id, CAST(1 AS BIGINT), MIN(m.label), CAST(0 AS BIGINT) FROM segment_copies c \
         JOIN segment_places l ON l.segment_id = c.segment_id \
         JOIN media m ON m.id = l.medium_id \
         JOIN stream_parts p ON p.segment_id = c.segment_id WHERE c.lacks > 0 \
         AND NOT EXISTS (SELECT 1 FROM segment_places o WHERE o.segment_id = c.origin_id) \
         AND NOT EXISTS (SELECT 1 FROM segment_copies k \
         JOIN segment_places o ON o.segment_id = k.segment_id \
         WHERE k.origin_id = c.origin_id AND k.lacks = 0) \
         GROUP BY p.version_id \
         UNION SELECT v.id, CAST(3 AS BIGINT), v.base_id, CAST(0 AS BIGINT) FROM versions v \
         WHERE v.base_id IS NOT NULL \
         AND NOT EXISTS (SELECT 1 FROM versions b WHERE b.id = v.base_id) \
         UNION SELECT v.id, b.reason, b.what, b.lost_us \
         FROM lost b JOIN versions v ON v.base_id = b.version_id) \
         SELECT version_id, reason, what, lost_us FROM lost \
         WHERE EXISTS (SELECT 1 FROM versions k WHERE k.id = lost.version_id) \
         ORDER BY version_id, reason, lost_us DESC, what",
    )
    .fetch_all(conn)
    .await?;
    let lost = |row: &sql::Row| {
        let label = row.try_get::<&str>("what")?.to_owned();
        let loss = match decode::count::<u64>(row, "reason")? {
            0 => Loss::Medium { label, lost_us: row.try_get("lost_us")? },
            1 => Loss::Copy { label },
            2 => Loss::Segments,
            _ => Loss::Base(decode::parsed(row, "what")?),
        };
        Ok(LostData { version: decode::parsed(row, "version_id")?, loss })
    };
    let mut all = rows.iter().map(lost).collect::<std::result::Result<Vec<LostData>, Fault>>()?;
    all.dedup_by_key(|of| of.version);
    Ok(all)
}

/// What it costs that a medium has lost segments.
struct Cost {
    /// The versions that are not whole any more.
    versions: Vec<VersionId>,
    /// Those of which nothing is left.
    forgotten: Vec<VersionId>,
    /// What the others lack themselves; and, under the identity of what they build on, what was forgotten with that: another version
    /// may take its place, and nothing is lacking then.
    lack: Vec<(SegmentId, VersionId)>,
}

impl Cost {
    async fn of(
        conn: &mut Conn<'_>,
        medium: MediumId,
        lost: &HashSet<SegmentId>,
    ) -> std::result::Result<Self, Fault> {
        let mut claims = claims_of_data(conn).await?;
        claims.extend(claims_of_ends(conn).await?);
        let bases = bases(conn).await?;
        Ok(Self::counted(&claims, &bases, |c| c.medium == medium && lost.contains(&c.segment)))
    }

    /// The same, of all places and of all versions that build on others.
    fn counted(
        claims: &[Claim],
        bases: &[(VersionId, VersionId)],
        is_lost: impl Fn(&Claim) -> bool,
    ) -> Self {
        let mut lacks: HashMap<VersionId, HashSet<SegmentId>> = HashMap::new();
        for (version, segment) in torn(claims, &is_lost) {
            lacks.entry(version).or_default().insert(segment);
        }
        let first: Vec<VersionId> = lacks.keys().copied().collect();
        let mut versions = Above::of(bases).with_all(&first);
        let left: HashSet<VersionId> =
            claims.iter().filter(|c| !is_lost(c)).map(|c| c.version).collect();
        let base: HashMap<VersionId, VersionId> = bases.iter().copied().collect();
        let mut lack = HashSet::new();
        for id in versions.iter().filter(|id| left.contains(id)) {
            lack.extend(lacks.get(id).into_iter().flatten().map(|segment| (*segment, *id)));
            let below =
                |of: &VersionId| base.get(of).copied().filter(|below| !left.contains(below));
            let Some(next) = below(id) else { continue };
            let (mut at, mut seen) = (Some(next), HashSet::new());
            while let Some(of) = at.filter(|of| seen.insert(*of)) {
                lack.extend(lacks.get(&of).into_iter().flatten().map(|segment| (*segment, next)));
                at = below(&of);
            }
        }
        versions.sort_unstable();
        let forgotten = versions.iter().copied().filter(|id| !left.contains(id)).collect();
        Self { versions, forgotten, lack: lack.into_iter().collect() }
    }
}

/// Refuses to forget anything of versions that a session writes, or that anybody reads.
async fn refuse_used(
    conn: &mut Conn<'_>,
    versions: &[VersionId],
) -> std::result::Result<(), Fault> {
    let mut used = leases::readers_by_version(conn).await?;
    let sql = "SELECT id, version_id FROM sessions \
               WHERE status = 'running' AND version_id IS NOT NULL";
    for row in sql::query(sql).fetch_all(conn).await? {
        let session: capstan_format::id::SessionId = decode::parsed(&row, "id")?;
        let of = used.entry(decode::parsed(&row, "version_id")?).or_default();
        of.push(format!("session {}", session.short()));
    }
    let in_use = versions.iter().find_map(|id| Some((id, used.get(id)?.first()?)));
    in_use.map_or(Ok(()), |(id, who)| {
        Err(IdbError::IsRead { version: id.short(), reader: who.clone() }.into())
    })
}

/// Which of these segments have a place.
async fn placed(
    conn: &mut Conn<'_>,
    ids: &[SegmentId],
) -> std::result::Result<HashSet<SegmentId>, Fault> {
    let mut query =
        sql::Builder::new("SELECT DISTINCT segment_id FROM segment_places WHERE segment_id IN (");
    push_ids(&mut query, ids);
    let rows = query.build().fetch_all(conn).await?;
    rows.iter().map(|row| decode::parsed(row, "segment_id")).collect()
}

/// Notes that a medium lost segments of versions.
async fn put_lost(
    conn: &mut Conn<'_>,
    medium: MediumId,
    lack: &[(SegmentId, VersionId)],
    now_us: i64,
) -> std::result::Result<(), Fault> {
    let query = sql::query("SELECT label FROM media WHERE id = $1").bind(medium.to_string());
    let Some(row) = query.fetch_optional(&mut *conn).await? else { return Ok(()) };
    let label = row.try_get::<&str>("label")?.to_owned();
    note_lost(conn, &label, lack, now_us).await
}

/// Notes that these segments are lacking, which were on a medium of that label; of none, where it is not known.
async fn note_lost(
    conn: &mut Conn<'_>,
    label: &str,
    lack: &[(SegmentId, VersionId)],
    now_us: i64,
) -> std::result::Result<(), Fault> {
    for of in lack.chunks(BATCH) {
        let mut query = sql::Builder::new(
            "INSERT INTO lost_segments (segment_id, version_id, medium, lost_us) VALUES ",
        );
        for (n, (segment, version)) in of.iter().enumerate() {
            query.push(if n > 0 { ", (" } else { "(" });
            push_list(&mut query, &[segment.to_string(), version.to_string(), label.to_owned()]);
            query.push(", ").push_bind(now_us).push(")");
        }
        // What somebody said to be lost stays so.
        query.push(match label {
            "" => " ON CONFLICT (version_id, segment_id) DO NOTHING",
            _ => {
                " ON CONFLICT (version_id, segment_id) DO UPDATE SET medium = excluded.medium, lost_us = excluded.lost_us"
            }
        });
        query.build().execute(&mut *conn).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_format::id::SegmentNumber;

    fn claim(version: u8, segment: u8, origin: u8, medium: u8) -> Claim {
        Claim {
            version: VersionId([version; 16]),
            segment: SegmentId([segment; 16]),
            origin: SegmentId([origin; 16]),
            lacks: false,
            medium: MediumId([medium; 16]),
            number: SegmentNumber(1),
        }
    }

    #[test]
    fn what_a_mirror_or_a_copy_has_is_not_lost() {
        let claims = [claim(1, 1, 1, 1), claim(1, 1, 1, 2), claim(1, 2, 2, 1), claim(1, 3, 2, 1)];
        let all = |_: &Claim| true;
        let first = |c: &Claim| c.medium == MediumId([1; 16]);
        let copied = |c: &Claim| c.segment == SegmentId([2; 16]);
        let of = |n: u8| (VersionId([1; 16]), SegmentId([n; 16]));
        assert_eq!(torn(&claims, all), HashSet::from([of(1), of(2)]));
        assert_eq!(torn(&claims, first), HashSet::from([of(2)]), "the mirror has the other");
        assert_eq!(torn(&claims, copied), HashSet::new(), "its copy is on the same medium");
        let lacking = claims.map(|c| Claim { lacks: c.segment != c.origin, ..c });
        assert_eq!(torn(&lacking, copied), HashSet::from([of(2)]), "its copy lacks something");
        let none = |_: &Claim| false;
        assert_eq!(torn(&lacking[3..], none), HashSet::new(), "it was not whole before");
    }

    #[test]
    fn what_is_forgotten_is_lacking_under_the_last_of_it() {
        // 1 <- 2 <- 3 <- 4: of 1 and 2 nothing is left; 3 and 4 are on another medium.
        let claims = [
            claim(1, 1, 1, 1),
            claim(1, 2, 2, 1),
            claim(2, 3, 3, 1),
            claim(3, 4, 4, 2),
            claim(4, 5, 5, 2),
        ];
        let id = |n: u8| VersionId([n; 16]);
        let bases = [(id(2), id(1)), (id(3), id(2)), (id(4), id(3))];
        let mut cost = Cost::counted(&claims, &bases, |c| c.medium == MediumId([1; 16]));
        assert_eq!(cost.versions, [id(1), id(2), id(3), id(4)]);
        assert_eq!(cost.forgotten, [id(1), id(2)]);
        cost.lack.sort_unstable();
        assert_eq!(cost.lack, [1, 2, 3].map(|n: u8| (SegmentId([n; 16]), id(2))));
    }
}
