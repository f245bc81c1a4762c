//! Giving versions up: which there are, the mark, where their segments lie, and at last their rows.
//!
//! The order is the caller's: versions are marked in one transaction, then their segments go from the media, then their
//! catalog files and rows. Whatever is cut short goes on from the marks.

use std::collections::HashMap;

use capstan_format::id::{MediumId, SegmentId, SegmentNumber, SessionId, VersionId};

use crate::db::{Conn, Idb};
use crate::decode::{self, Fault};
use crate::rows::{Status, Version};
use crate::versions::bare::bare;
use crate::versions::leases;
use crate::versions::protection::{self, Keeping};
use crate::versions::used::USES;
use crate::{Result, sql};

/// How many identities go into one statement.
pub(crate) const BATCH: usize = 500;

/// A version, with all that decides whether it is kept.
#[derive(Debug, Clone)]
pub struct PruneRow {
    /// The version. One that is `bare` builds on nothing: what it was to build on is free.
    pub version: Version,
    /// Whether nothing of it was committed, and nobody writes it.
    pub bare: bool,
    /// How it is kept.
    pub keeping: Keeping,
    /// The last session that wrote it.
    pub session: Option<SessionId>,
    /// Tags of its sessions.
    pub tags: Vec<String>,
    /// Whether a session that still runs reads or writes it.
    pub in_use: bool,
    /// Who reads it, or what builds on it.
    pub readers: Vec<String>,
}

/// A place of data that a version has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The version.
    pub version: VersionId,
    /// The segment that lies there.
    pub segment: SegmentId,
    /// The one that it is a copy of, or it itself.
    pub origin: SegmentId,
    /// Whether it is a copy that lacks something of the original.
    pub lacks: bool,
    /// The medium.
    pub medium: MediumId,
    /// Its number there.
    pub number: SegmentNumber,
}

/// What a version has on a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionSize {
    /// The version.
    pub version: VersionId,
    /// The medium.
    pub medium: MediumId,
    /// Its segments there.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What was removed from the database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Versions of which nothing is left.
    pub versions: u64,
    /// Segments that lie nowhere any more.
    pub segments: u64,
}

impl Idb {
    /// All versions, by object, newest first in the order of their commits.
    pub fn prune_rows(&self) -> Result<Vec<PruneRow>> {
        self.read(format_args!("list the versions"), async |conn| rows(conn).await)
    }

    /// Lets `decide` choose among all versions, and marks those it names as expired, in one transaction: nothing can be
    /// protected, locked or built on in between. `locks` are recorded first. Where a connection broke, it is asked again.
    pub fn expire<T>(
        &self,
        now_us: i64,
        locks: &[(VersionId, i64)],
        mut decide: impl FnMut(&[PruneRow]) -> (Vec<VersionId>, T),
    ) -> Result<T> {
        self.write_many(format_args!("mark versions as expired"), async |conn| {
            protection::raise_locks(conn, locks).await?;
            let (expired, decision) = decide(&rows(conn).await?);
            for ids in expired.chunks(BATCH) {
                let mut query = sql::Builder::new("UPDATE versions SET expired_us = ");
                query.push_bind(now_us).push(" WHERE expired_us IS NULL AND id IN (");
                push_ids(&mut query, ids);
                query.build().execute(&mut *conn).await?;
            }
            Ok(decision)
        })
    }

    /// Every place of data that versions have.
    pub fn claims(&self) -> Result<Vec<Claim>> {
        self.read(format_args!("list where versions lie"), claims_of_data)
    }

    /// Every place of segments without data, which say of a version that a session of it ended.
    pub fn claims_of_ends(&self) -> Result<Vec<Claim>> {
        self.read(format_args!("list where versions lie"), claims_of_ends)
    }

    /// What each version has on each medium.
    pub fn version_sizes(&self) -> Result<Vec<VersionSize>> {
        self.read(format_args!("add up the segments of versions"), async |conn| {
            let mut query = sql::Builder::new(
                "SELECT u.version_id, l.medium_id, COUNT(*) AS segments, \
                 CAST(SUM(g.bytes) AS BIGINT) AS bytes FROM (",
            );
            query.push(USES).push(
                ") u JOIN segments g ON g.id = u.segment_id \
                 JOIN segment_places l ON l.segment_id = u.segment_id \
                 GROUP BY u.version_id, l.medium_id",
            );
            let rows = query.build().fetch_all(conn).await?;
            let size = |row| {
                Ok(VersionSize {
                    version: decode::parsed(row, "version_id")?,
                    medium: decode::parsed(row, "medium_id")?,
                    segments: decode::count(row, "segments")?,
                    bytes: decode::count(row, "bytes")?,
                })
            };
            rows.iter().map(size).collect()
        })
    }

    /// All places of all segments that a version has: those of its streams, and those that its sessions wrote.
    pub fn places_of_version(
        &self,
        version: VersionId,
    ) -> Result<Vec<(SegmentId, MediumId, SegmentNumber)>> {
        self.read(format_args!("look up version {}", version.short()), async |conn| {
            let rows = sql::query(
                "SELECT segment_id, medium_id, number FROM segment_places WHERE segment_id IN \
                 (SELECT segment_id FROM stream_parts WHERE version_id = $1 UNION SELECT g.id \
                 FROM segments g JOIN sessions s ON s.id = g.session_id WHERE s.version_id = $1) \
                 ORDER BY medium_id, number",
            )
            .bind(version.to_string())
            .fetch_all(conn)
            .await?;
            let place = |row| {
                let (segment, medium) =
                    (decode::parsed(row, "segment_id")?, decode::parsed(row, "medium_id")?);
                Ok((segment, medium, SegmentNumber(decode::count(row, "number")?)))
            };
            rows.iter().map(place).collect()
        })
    }

    /// Removes what is known of segments that were removed from media, then that of those versions of which nothing is
    /// left anywhere. Their sessions stay on record without them, as what was done; those of backups that began before
    /// `history_from_us` go.
    pub fn forget(
        &self,
        removed: &[(SegmentId, MediumId)],
        versions: &[VersionId],
        history_from_us: i64,
    ) -> Result<Forgotten> {
        let nowhere = self.only_there(removed)?;
        for segment in &nowhere {
            self.remove_catalog(*segment)?;
        }
        self.write_many(format_args!("remove expired versions"), async |conn| {
            for there in removed.chunk_by(|a, b| a.1 == b.1) {
                for there in there.chunks(BATCH) {
                    forget_places(conn, there).await?;
                }
            }
            let mut forgotten = Forgotten::default();
            for ids in nowhere.chunks(BATCH) {
                forgotten.segments += forget_segments(conn, ids).await?;
            }
            for ids in versions.chunks(BATCH) {
                forgotten.versions += forget_versions(conn, ids).await?;
            }
            let old = "DELETE FROM sessions WHERE kind IN ('backup', 'consolidate') AND version_id IS NULL \
                       AND started_us < $1 AND NOT EXISTS \
                       (SELECT 1 FROM segments g WHERE g.session_id = sessions.id)";
            sql::query(old).bind(history_from_us).execute(conn).await?;
            Ok(forgotten)
        })
    }

    /// Removes the catalog files of versions whose catalogs are not protected any more: what they say is read from the
    /// media where it is needed. Returns how many it removed.
    pub fn drop_catalogs(&self, now_us: i64) -> Result<usize> {
        let segments: Vec<SegmentId> =
            self.read(format_args!("look for catalogs to remove"), async |conn| {
                let rows = sql::query(
                    "SELECT DISTINCT p.segment_id FROM stream_parts p \
                     JOIN versions v ON v.id = p.version_id WHERE v.catalog_until_us <= $1 \
                     AND NOT EXISTS (SELECT 1 FROM stream_parts q \
                     JOIN versions w ON w.id = q.version_id WHERE q.segment_id = p.segment_id \
                     AND (w.catalog_until_us IS NULL OR w.catalog_until_us > $1))",
                )
                .bind(now_us)
                .fetch_all(conn)
                .await?;
                rows.iter().map(|row| decode::parsed(row, "segment_id")).collect()
            })?;
        let mut removed = 0;
        for segment in segments {
            removed += usize::from(self.remove_catalog(segment)?);
        }
        Ok(removed)
    }

    /// Whether a version that a segment belongs to keeps its catalog. Where none does, [`Idb::drop_catalogs`] removes the file.
    pub fn keeps_catalog(&self, segment: SegmentId, now_us: i64) -> Result<bool> {
        self.read(format_args!("look up segment {}", segment.short()), async |conn| {
            let keeping = sql::query(
                "SELECT 1 FROM stream_parts p JOIN versions v ON v.id = p.version_id WHERE p.segment_id = $1 \
                 AND (v.catalog_until_us IS NULL OR v.catalog_until_us > $2) LIMIT 1",
            );
            let keeping = keeping.bind(segment.to_string()).bind(now_us);
            Ok(keeping.fetch_optional(conn).await?.is_some())
        })
    }

    /// Those segments that lie nowhere but where they were removed from.
    fn only_there(&self, removed: &[(SegmentId, MediumId)]) -> Result<Vec<SegmentId>> {
        let mut taken: HashMap<SegmentId, i64> = HashMap::new();
        for (segment, _) in removed {
            *taken.entry(*segment).or_default() -= 1;
        }
        let ids: Vec<SegmentId> = taken.keys().copied().collect();
        self.read(format_args!("look up segments"), async |conn| {
            let mut left = taken.clone();
            for ids in ids.chunks(BATCH) {
                let mut query = sql::Builder::new(
                    "SELECT segment_id, COUNT(*) AS places FROM segment_places WHERE segment_id IN (",
                );
                push_list(&mut query, ids);
                query.push(") GROUP BY segment_id");
                for row in &query.build().fetch_all(&mut *conn).await? {
                    let places: i64 = row.try_get("places")?;
                    *left.entry(decode::parsed(row, "segment_id")?).or_default() += places;
                }
            }
            Ok(left.into_iter().filter(|(_, places)| *places <= 0).map(|(id, _)| id).collect())
        })
    }
}

/// Every place of data that versions have.
pub(crate) async fn claims_of_data(conn: &mut Conn<'_>) -> std::result::Result<Vec<Claim>, Fault> {
    claims_in(conn, "stream_parts p", "p.version_id", "p.segment_id").await
}

/// Every place of segments without data.
pub(crate) async fn claims_of_ends(conn: &mut Conn<'_>) -> std::result::Result<Vec<Claim>, Fault> {
    let ends = "sessions s JOIN segments g ON g.session_id = s.id AND s.version_id IS NOT NULL \
                AND NOT EXISTS (SELECT 1 FROM stream_parts p WHERE p.segment_id = g.id)";
    claims_in(conn, ends, "s.version_id", "g.id").await
}

async fn claims_in(
    conn: &mut Conn<'_>,
    from: &str,
    version: &str,
    segment: &str,
) -> std::result::Result<Vec<Claim>, Fault> {
    let sql = format!(
        "SELECT DISTINCT {version} AS version_id, {segment} AS segment_id, \
         COALESCE(c.origin_id, {segment}) AS origin_id, \
         COALESCE(c.lacks, 0) AS lacks, l.medium_id, l.number FROM {from} \
         JOIN segment_places l ON l.segment_id = {segment} \
         LEFT JOIN segment_copies c ON c.segment_id = {segment}"
    );
    let rows = sql::query(sqlx::AssertSqlSafe(sql)).fetch_all(conn).await?;
    let claim = |row| {
        Ok(Claim {
            version: decode::parsed(row, "version_id")?,
            segment: decode::parsed(row, "segment_id")?,
            origin: decode::parsed(row, "origin_id")?,
            lacks: decode::count::<u64>(row, "lacks")? > 0,
            medium: decode::parsed(row, "medium_id")?,
            number: SegmentNumber(decode::count(row, "number")?),
        })
    };
    rows.iter().map(claim).collect()
}

async fn rows(conn: &mut Conn<'_>) -> std::result::Result<Vec<PruneRow>, Fault> {
    // A full comes before the version that it stands for, which has the same place.
    let sql = "SELECT * FROM versions ORDER BY object_id, commit_order DESC, created_us DESC, \
               stands_for_id IS NULL, id DESC";
    let found = sql::query(sql).fetch_all(&mut *conn).await?;
    let mut readers = leases::readers_by_version(conn).await?;
    let bare = bare(conn).await?;
    let mut rows = Vec::with_capacity(found.len());
    let mut places: HashMap<VersionId, usize> = HashMap::new();
    for row in &found {
        let mut version = crate::versions::objects::version(row)?;
        let bare = bare.contains(&version.id);
        version.base = version.base.filter(|_| !bare);
        places.insert(version.id, rows.len());
        let keeping = protection::keeping(row)?;
        let readers = readers.remove(&version.id).unwrap_or_default();
        let (session, tags, in_use) = (None, Vec::new(), false);
        rows.push(PruneRow { version, bare, keeping, session, tags, in_use, readers });
    }
    let sessions = sql::query(
        "SELECT id, kind, version_id, status, tags FROM sessions WHERE version_id IS NOT NULL \
         ORDER BY begin_order, started_us, id",
    )
    .fetch_all(conn)
    .await?;
    for row in &sessions {
        let place = places.get(&decode::parsed(row, "version_id")?);
        let Some(of) = place.and_then(|place| rows.get_mut(*place)) else { continue };
        of.in_use |= decode::parsed::<Status>(row, "status")? == Status::Running;
        let kind: &str = row.try_get("kind")?;
        if of.session.is_none() || is_writer(kind) {
            of.session = Some(decode::parsed(row, "id")?);
        }
        if is_writer(kind) {
            // Programs of before took what joins tags by commas for one tag.
            for tags in decode::texts(row, "tags")? {
                let tags = tags.split(',').map(str::trim).filter(|tag| !tag.is_empty());
                of.tags.extend(tags.map(str::to_owned));
            }
        }
    }
    Ok(rows)
}

/// Whether a session of that kind made the version it is recorded with.
fn is_writer(kind: &str) -> bool {
    kind == "backup"
}

/// Removes places, which are all on one medium.
pub(crate) async fn forget_places(
    conn: &mut Conn<'_>,
    there: &[(SegmentId, MediumId)],
) -> std::result::Result<(), Fault> {
    let Some((_, medium)) = there.first() else { return Ok(()) };
    let mut query = sql::Builder::new("DELETE FROM segment_places WHERE medium_id = ");
    query.push_bind(medium.to_string()).push(" AND segment_id IN (");
    let segments: Vec<SegmentId> = there.iter().map(|(segment, _)| *segment).collect();
    push_ids(&mut query, &segments);
    query.build().execute(conn).await?;
    Ok(())
}

/// Removes the rows of segments that have no place; returns how many.
pub(crate) async fn forget_segments(
    conn: &mut Conn<'_>,
    ids: &[SegmentId],
) -> std::result::Result<u64, Fault> {
    let mut removed = 0;
    for (delete, segment) in [
        ("DELETE FROM stream_parts WHERE segment_id IN (", "stream_parts.segment_id"),
        ("DELETE FROM segments WHERE id IN (", "segments.id"),
    ] {
        let mut query = sql::Builder::new(delete);
        push_ids(&mut query, ids);
        query.push(" AND NOT EXISTS (SELECT 1 FROM segment_places l WHERE l.segment_id = ");
        query.push(segment).push(")");
        // The segments' own rows are the last.
        removed = query.build().execute(&mut *conn).await?.rows_affected();
    }
    Ok(removed)
}

/// Removes the rows of versions of which no segment is left; returns how many.
async fn forget_versions(
    conn: &mut Conn<'_>,
    ids: &[VersionId],
) -> std::result::Result<u64, Fault> {
    let mut query = sql::Builder::new("SELECT id FROM versions WHERE id IN (");
    push_list(&mut query, ids);
    query.push(
        ") AND expired_us IS NOT NULL \
         AND NOT EXISTS (SELECT 1 FROM stream_parts p WHERE p.version_id = versions.id) \
         AND NOT EXISTS (SELECT 1 FROM sessions s JOIN segments g ON g.session_id = s.id \
         WHERE s.version_id = versions.id)",
    );
    let rows = query.build().fetch_all(&mut *conn).await?;
    let gone = rows.iter().map(|row| decode::parsed(row, "id"));
    let gone: Vec<VersionId> = gone.collect::<std::result::Result<_, _>>()?;
    if gone.is_empty() {
        return Ok(0);
    }
    for statement in [
        "UPDATE sessions SET version_id = NULL WHERE version_id IN (",
        "DELETE FROM lost_segments WHERE version_id IN (",
        "DELETE FROM versions WHERE id IN (",
    ] {
        let mut query = sql::Builder::new(statement);
        push_ids(&mut query, &gone);
        query.build().execute(&mut *conn).await?;
    }
    forget_unneeded(conn).await?;
    Ok(gone.len() as u64)
}

pub(crate) fn push_list<T: ToString>(query: &mut sql::Builder, ids: &[T]) {
    query.push_list(ids.iter().map(ToString::to_string));
}

/// The list and its closing bracket.
pub(crate) fn push_ids<T: ToString>(query: &mut sql::Builder, ids: &[T]) {
    push_list(query, ids);
    query.push(")");
}

/// Forgets what was lost of versions that are not known any more and that nothing builds on.
pub(crate) async fn forget_unneeded(conn: &mut Conn<'_>) -> std::result::Result<(), Fault> {
    let sql = "DELETE FROM lost_segments WHERE NOT EXISTS (SELECT 1 FROM versions v \
               WHERE v.id = lost_segments.version_id OR v.base_id = lost_segments.version_id)";
    sql::query(sql).execute(conn).await?;
    Ok(())
}
