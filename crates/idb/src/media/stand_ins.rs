//! Synthetic fulls in the place of the versions that they have the state of. What is known of media is asked by the caller, who
//! chooses among those that are whole as far as the tables say.

use capstan_format::id::{ObjectId, VersionId};

use crate::db::{Conn, Idb};
use crate::decode::{self, Fault};
use crate::media::lost;
use crate::{Result, sql};

/// Fulls that stand for the version that `$1` names, were completed, have something on media and were not given up.
const STANDS: &str = "SELECT s.id FROM versions s WHERE s.stands_for_id = $1 \
                      AND s.status = 'completed' AND s.expired_us IS NULL \
                      AND EXISTS (SELECT 1 FROM stream_parts p \
                      JOIN segment_places l ON l.segment_id = p.segment_id WHERE p.version_id = s.id) \
                      ORDER BY s.created_us DESC, s.id";

impl Idb {
    /// The versions that have the state of `version`, are complete, and of which nothing was lost or given up; the newest first.
    pub fn stand_ins(&self, version: VersionId) -> Result<Vec<VersionId>> {
        self.read(format_args!("look up version {}", version.short()), async |conn| {
            stand_ins(conn, version).await
        })
    }

    /// Whether a session of the object runs: it may read any version of it.
    pub fn is_in_use(&self, object: ObjectId) -> Result<bool> {
        self.read(format_args!("look for sessions that run"), async |conn| {
            let sql = "SELECT 1 FROM sessions WHERE object_id = $1 AND status = 'running' LIMIT 1";
            let query = sql::query(sql).bind(object.to_string());
            Ok(query.fetch_optional(conn).await?.is_some())
        })
    }

    /// Lets what builds on `from` build on `to`. Returns `false`, and does nothing, if `to` is no stand-in of `from` any more.
    pub fn rebase(&self, from: VersionId, to: VersionId) -> Result<bool> {
        self.write(
            format_args!("put version {} in the place of another", to.short()),
            async |conn| rebase(conn, from, to).await,
        )
    }

    /// The same for a `from` that will go. Where a time is given `to` is given up then, unless it is protected for its own sake: it is
    /// there for what builds on it. Does nothing either while a session of the object runs: it may refer to what only `from` has.
    pub fn rebase_unread(
        &self,
        from: VersionId,
        to: VersionId,
        give_up_us: Option<i64>,
    ) -> Result<bool> {
        self.write(
            format_args!("put version {} in the place of another", to.short()),
            async |conn| {
                let sql = "SELECT 1 FROM sessions s JOIN versions v ON v.object_id = s.object_id \
                       WHERE v.id = $1 AND s.status = 'running' LIMIT 1";
                let running = sql::query(sql).bind(from.to_string());
                if running.fetch_optional(&mut *conn).await?.is_some()
                    || !rebase(&mut *conn, from, to).await?
                {
                    return Ok(false);
                }
                if let Some(now_us) = give_up_us {
                    let sql = "UPDATE versions SET expired_us = $1 WHERE id = $2 \
                           AND (protected_until_us IS NULL OR protected_until_us <= $1)";
                    let query = sql::query(sql).bind(now_us).bind(to.to_string());
                    query.execute(conn).await?;
                }
                Ok(true)
            },
        )
    }

    /// The versions that others build on, that are not known or have nothing on any medium, and for which fulls stand: so it is
    /// after an import of media from which they were removed.
    pub fn bases_gone(&self) -> Result<Vec<VersionId>> {
        self.read(format_args!("look for what stands for lost versions"), async |conn| {
            let sql = "SELECT DISTINCT v.base_id FROM versions v \
                       WHERE v.base_id IN (SELECT s.stands_for_id FROM versions s) \
                       AND NOT EXISTS (SELECT 1 FROM stream_parts p WHERE p.version_id = v.base_id)";
            let rows = sql::query(sql).fetch_all(conn).await?;
            rows.iter().map(|row| decode::parsed(row, "base_id")).collect()
        })
    }
}

async fn rebase(
    conn: &mut Conn<'_>,
    from: VersionId,
    to: VersionId,
) -> std::result::Result<bool, Fault> {
    if !stand_ins(&mut *conn, from).await?.contains(&to) {
        return Ok(false);
    }
    let sql = "UPDATE versions SET base_id = $2 WHERE base_id = $1";
    let query = sql::query(sql).bind(from.to_string()).bind(to.to_string());
    query.execute(conn).await?;
    Ok(true)
}

async fn stand_ins(
    conn: &mut Conn<'_>,
    version: VersionId,
) -> std::result::Result<Vec<VersionId>, Fault> {
    let rows = sql::query(STANDS).bind(version.to_string()).fetch_all(&mut *conn).await?;
    let found = rows.iter().map(|row| decode::parsed(row, "id"));
    let mut found = found.collect::<std::result::Result<Vec<VersionId>, _>>()?;
    if !found.is_empty() {
        let lost = lost::versions(conn).await?;
        found.retain(|id| lost.iter().all(|of| of.version != *id));
    }
    Ok(found)
}
