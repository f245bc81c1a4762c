//! What media lost for good: somebody took a medium as it is. What had something in the segments that are gone is not whole until a
//! place of them is known again.

use capstan_format::id::{MediumId, SegmentId, VersionId};

use crate::Result;
use crate::db::{Conn, Idb};
use crate::decode::{self, Fault};
use crate::sql;

/// A version of which a medium lost something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostData {
    /// The version.
    pub version: VersionId,
    /// The label of the medium that had it.
    pub medium: String,
    /// When the medium was taken as it is, in microseconds since 1970.
    pub lost_us: i64,
}

impl Idb {
    /// The versions that are not whole, as media lost something of them and nothing that is known has it.
    pub fn lost_versions(&self) -> Result<Vec<LostData>> {
        self.read(format_args!("look for versions that are not whole"), async |conn| {
            let rows = sql::query(
                "SELECT d.version_id, MIN(d.medium) AS medium, MAX(d.lost_us) AS lost_us \
                 FROM lost_segments d \
                 WHERE NOT EXISTS (SELECT 1 FROM segment_places l WHERE l.segment_id = d.segment_id) \
                 AND NOT EXISTS (SELECT 1 FROM segment_copies c JOIN segment_places l \
                 ON l.segment_id = c.segment_id WHERE c.origin_id = d.segment_id) \
                 GROUP BY d.version_id ORDER BY d.version_id",
            )
            .fetch_all(conn)
            .await?;
            let lost = |row| {
                Ok(LostData {
                    version: decode::parsed(row, "version_id")?,
                    medium: row.try_get::<&str>("medium")?.to_owned(),
                    lost_us: row.try_get("lost_us")?,
                })
            };
            rows.iter().map(lost).collect()
        })
    }
}

/// Notes that a medium lost a segment of a version.
pub(crate) async fn put_lost(
    conn: &mut Conn<'_>,
    medium: MediumId,
    (segment, version): (SegmentId, VersionId),
    now_us: i64,
) -> std::result::Result<(), Fault> {
    sql::query(
        "INSERT INTO lost_segments (segment_id, version_id, medium, lost_us) \
         SELECT $1, $2, label, $4 FROM media WHERE id = $3 \
         ON CONFLICT (version_id, segment_id) DO UPDATE SET lost_us = excluded.lost_us",
    )
    .bind(segment.to_string())
    .bind(version.to_string())
    .bind(medium.to_string())
    .bind(now_us)
    .execute(conn)
    .await?;
    Ok(())
}
