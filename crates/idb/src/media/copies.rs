//! Which segments are copies of others.

use std::collections::HashMap;

use capstan_format::id::{MediumId, SegmentId, SegmentNumber, VersionId};

use crate::db::Idb;
use crate::versions::pruning::BATCH;
use crate::{Result, decode, sql};

/// What a copy is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyOf {
    /// The original.
    pub origin: SegmentId,
    /// So many of its frames the copy lacks.
    pub lacks: u64,
}

impl Idb {
    /// The versions that have something in any of these segments, each once.
    pub fn versions_in_segments(&self, segments: &[SegmentId]) -> Result<Vec<VersionId>> {
        self.read(format_args!("look up segments"), async |conn| {
            let mut found: Vec<VersionId> = Vec::new();
            for segments in segments.chunks(BATCH) {
                let sql = "SELECT version_id FROM stream_parts WHERE segment_id IN (";
                let mut query = sql::Builder::new(sql);
                query.push_list(segments.iter().map(ToString::to_string));
                query.push(
                    ") UNION SELECT s.version_id FROM segments g JOIN sessions s ON s.id = g.session_id \
                     WHERE s.version_id IS NOT NULL AND g.id IN (",
                );
                query.push_list(segments.iter().map(ToString::to_string));
                query.push(") ORDER BY version_id");
                for row in &query.build().fetch_all(&mut *conn).await? {
                    let version = decode::parsed(row, "version_id")?;
                    if !found.contains(&version) {
                        found.push(version);
                    }
                }
            }
            Ok(found)
        })
    }

    /// Records that a segment is a copy of another, of which it lacks so many frames. Called before the segment itself is recorded.
    pub fn put_copy(&self, segment: SegmentId, origin: SegmentId, lacks: u64) -> Result<()> {
        self.write(format_args!("record copy {}", segment.short()), async |conn| {
            sql::query(
                "INSERT INTO segment_copies (segment_id, origin_id, lacks) VALUES ($1, $2, $3) \
                 ON CONFLICT (segment_id) DO UPDATE SET origin_id = excluded.origin_id, \
                 lacks = excluded.lacks",
            )
            .bind(segment.to_string())
            .bind(origin.to_string())
            .bind(decode::count_in("lacks", lacks)?)
            .execute(conn)
            .await?;
            Ok(())
        })
    }

    /// Segments of a medium of which another copy lies behind them on the same medium, with the number of the last one: a repair
    /// wrote them anew.
    pub fn replaced_on_medium(
        &self,
        medium: MediumId,
    ) -> Result<Vec<(SegmentNumber, SegmentNumber)>> {
        self.read(format_args!("look up medium {}", medium.short()), async |conn| {
            let rows = sql::query(
                "WITH here AS (SELECT l.number, COALESCE(c.origin_id, l.segment_id) AS origin, \
                 COALESCE(c.lacks, 0) AS lacks \
                 FROM segment_places l LEFT JOIN segment_copies c ON c.segment_id = l.segment_id \
                 WHERE l.medium_id = $1) \
                 SELECT a.number, MAX(b.number) AS anew FROM here a \
                 JOIN here b ON b.origin = a.origin AND b.number > a.number AND b.lacks = 0 \
                 GROUP BY a.number ORDER BY a.number",
            )
            .bind(medium.to_string())
            .fetch_all(conn)
            .await?;
            let pair = |row| {
                Ok((
                    SegmentNumber(decode::count(row, "number")?),
                    SegmentNumber(decode::count(row, "anew")?),
                ))
            };
            rows.iter().map(pair).collect()
        })
    }

    /// The copies among a version's segments, each with what it is a copy of.
    pub fn copies_of_version(&self, version: VersionId) -> Result<HashMap<SegmentId, CopyOf>> {
        self.read(format_args!("look up version {}", version.short()), async |conn| {
            let rows = sql::query(
                "SELECT c.segment_id, c.origin_id, c.lacks FROM segment_copies c \
                 JOIN stream_parts p ON p.segment_id = c.segment_id WHERE p.version_id = $1 \
                 UNION SELECT c.segment_id, c.origin_id, c.lacks FROM segment_copies c \
                 JOIN segments g ON g.id = c.segment_id \
                 JOIN sessions s ON s.id = g.session_id WHERE s.version_id = $1",
            )
            .bind(version.to_string())
            .fetch_all(conn)
            .await?;
            let pair = |row| {
                let origin = decode::parsed(row, "origin_id")?;
                let of = CopyOf { origin, lacks: decode::count(row, "lacks")? };
                Ok((decode::parsed(row, "segment_id")?, of))
            };
            rows.iter().map(pair).collect()
        })
    }

    /// The versions of which a medium has a copy that lacks something, and no place that does not, each with that medium.
    pub fn lacking_copies(&self) -> Result<Vec<(VersionId, MediumId)>> {
        self.read(format_args!("look for copies that are not whole"), async |conn| {
            let rows = sql::query(
                "SELECT DISTINCT p.version_id, l.medium_id FROM segment_copies c \
                 JOIN segment_places l ON l.segment_id = c.segment_id \
                 JOIN stream_parts p ON p.segment_id = c.segment_id WHERE c.lacks > 0 \
                 AND NOT EXISTS (SELECT 1 FROM segment_places o \
                 WHERE o.segment_id = c.origin_id AND o.medium_id = l.medium_id) \
                 AND NOT EXISTS (SELECT 1 FROM segment_copies k \
                 JOIN segment_places o ON o.segment_id = k.segment_id \
                 WHERE k.origin_id = c.origin_id AND k.lacks = 0 AND o.medium_id = l.medium_id) \
                 ORDER BY p.version_id, l.medium_id",
            )
            .fetch_all(conn)
            .await?;
            let pair =
                |row| Ok((decode::parsed(row, "version_id")?, decode::parsed(row, "medium_id")?));
            rows.iter().map(pair).collect()
        })
    }
}
