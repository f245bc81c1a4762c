//! All segments, with the versions that have something in them: what a prune would free is worked out from that before anything is
//! marked.

use capstan_format::id::SegmentNumber;

use crate::Result;
use crate::db::Idb;
use crate::decode;
use crate::pruning::ExpiredSegment;
use crate::sql;

impl Idb {
    /// Each place of each segment that any version has something in: by medium, the last first.
    pub fn used_segments(&self) -> Result<Vec<ExpiredSegment>> {
        self.read(format_args!("look for segments of versions"), async |conn| {
            let rows = sql::query(
                "SELECT u.segment_id, u.version_id, g.bytes, l.medium_id, l.number \
                 FROM (SELECT segment_id, version_id FROM stream_parts \
                 UNION SELECT g.id, s.version_id FROM segments g \
                 JOIN sessions s ON s.id = g.session_id WHERE s.version_id IS NOT NULL) u \
                 JOIN segments g ON g.id = u.segment_id \
                 JOIN segment_places l ON l.segment_id = u.segment_id \
                 ORDER BY l.medium_id, l.number DESC, u.segment_id",
            )
            .fetch_all(conn)
            .await?;
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
        })
    }
}
