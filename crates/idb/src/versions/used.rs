//! Segments in their places, with the versions that have something in them: what a prune would free is worked out from that before
//! anything is marked, and what it removes from what was marked.

use capstan_format::id::{MediumId, SegmentId, SegmentNumber, VersionId};

use crate::db::{Conn, Idb};
use crate::decode::{self, Fault};
use crate::{Result, sql};

/// A segment, in one place, that a version has something in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiredSegment {
    /// The segment.
    pub segment: SegmentId,
    /// The medium.
    pub medium: MediumId,
    /// Its number there.
    pub number: SegmentNumber,
    /// Its bytes.
    pub bytes: u64,
    /// All versions that have something in it, also those that did not expire.
    pub versions: Vec<VersionId>,
}

/// Segments and the versions that have something in them: those of their streams, and those whose sessions wrote them.
pub(crate) const USES: &str = "SELECT segment_id, version_id FROM stream_parts \
    UNION SELECT g.id, s.version_id FROM segments g \
    JOIN sessions s ON s.id = g.session_id WHERE s.version_id IS NOT NULL";

impl Idb {
    /// Each place of each segment that any version has something in: by medium, the last first.
    pub fn used_segments(&self) -> Result<Vec<ExpiredSegment>> {
        self.read(format_args!("look for segments of versions"), async |conn| {
            used(conn, USES).await
        })
    }

    /// Those that versions which expired have something in.
    pub fn expired_segments(&self) -> Result<Vec<ExpiredSegment>> {
        // Of all uses only those of touched segments: there are few, and they are found by index.
        let uses = "WITH gone AS (SELECT id FROM versions WHERE expired_us IS NOT NULL), \
             touched AS (SELECT segment_id AS id FROM stream_parts \
             WHERE version_id IN (SELECT id FROM gone) \
             UNION SELECT g.id FROM segments g JOIN sessions s ON s.id = g.session_id \
             WHERE s.version_id IN (SELECT id FROM gone)) \
             SELECT segment_id, version_id FROM stream_parts \
             WHERE segment_id IN (SELECT id FROM touched) \
             UNION SELECT g.id, s.version_id FROM segments g \
             JOIN sessions s ON s.id = g.session_id \
             WHERE g.id IN (SELECT id FROM touched) AND s.version_id IS NOT NULL";
        self.read(format_args!("look for segments of expired versions"), async |conn| {
            used(conn, uses).await
        })
    }
}

/// The places of what `uses` selects.
async fn used(conn: &mut Conn<'_>, uses: &str) -> std::result::Result<Vec<ExpiredSegment>, Fault> {
    let mut query = sql::Builder::new(
        "SELECT u.segment_id, u.version_id, g.bytes, l.medium_id, l.number FROM (",
    );
    query.push(uses).push(
        ") u JOIN segments g ON g.id = u.segment_id \
         JOIN segment_places l ON l.segment_id = u.segment_id \
         ORDER BY l.medium_id, l.number DESC, u.segment_id",
    );
    let rows = query.build().fetch_all(conn).await?;
    let mut found: Vec<ExpiredSegment> = Vec::new();
    for row in &rows {
        let (segment, medium) =
            (decode::parsed(row, "segment_id")?, decode::parsed(row, "medium_id")?);
        let version = decode::parsed(row, "version_id")?;
        match found.last_mut() {
            Some(last) if (last.segment, last.medium) == (segment, medium) => {
                last.versions.push(version);
            }
            _ => found.push(ExpiredSegment {
                segment,
                medium,
                number: SegmentNumber(decode::count(row, "number")?),
                bytes: decode::count(row, "bytes")?,
                versions: vec![version],
            }),
        }
    }
    Ok(found)
}
