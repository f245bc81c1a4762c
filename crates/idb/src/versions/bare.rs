//! Versions of which nothing was committed: their backups ended before that, or went to the null device. They hold nothing: neither what
//! they were to build on, nor a medium.

use std::collections::HashSet;

use capstan_format::id::VersionId;

use crate::db::Conn;
use crate::decode::{self, Fault};
use crate::sql;

/// The versions of which nothing was committed, and that nobody writes any more. A process that was taken for dead may be at work: what
/// has no end on record counts only when a later version was begun.
pub(crate) async fn bare(conn: &mut Conn<'_>) -> std::result::Result<HashSet<VersionId>, Fault> {
    let sql = "SELECT v.id FROM versions v WHERE (v.status IN ('incomplete', 'failed') \
               OR v.null_device = TRUE AND v.status <> 'running') \
               AND NOT EXISTS (SELECT 1 FROM stream_parts p WHERE p.version_id = v.id) \
               AND NOT EXISTS (SELECT 1 FROM lost_segments d WHERE d.version_id = v.id) \
               AND NOT EXISTS (SELECT 1 FROM sessions s JOIN segments g ON g.session_id = s.id \
               WHERE s.version_id = v.id) \
               AND EXISTS (SELECT 1 FROM sessions s WHERE s.version_id = v.id) \
               AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.version_id = v.id AND s.status = 'running') \
               AND (NOT EXISTS (SELECT 1 FROM sessions s WHERE s.version_id = v.id AND s.ended_us IS NULL) \
               OR EXISTS (SELECT 1 FROM versions l WHERE l.object_id = v.object_id AND l.commit_order > v.commit_order))";
    let rows = sql::query(sql).fetch_all(conn).await?;
    rows.iter().map(|row| decode::parsed(row, "id")).collect()
}
