//! Synthetic fulls in the place of the versions that they have the state of.

use capstan_format::id::{ObjectId, VersionId};

use crate::Result;
use crate::db::{Conn, Idb};
use crate::decode::{self, Fault};
use crate::sql;

/// Whether row `s` stands for the version that `$1` names, and is whole.
const STANDS: &str = "s.stands_for_id = $1 AND s.status = 'completed' \
                      AND EXISTS (SELECT 1 FROM stream_parts p WHERE p.version_id = s.id)";

impl Idb {
    /// A complete version that has the state of `version`; the newest.
    pub fn stand_in(&self, version: VersionId) -> Result<Option<VersionId>> {
        self.read(format_args!("look up version {}", version.short()), async |conn| {
            stand_in(conn, version).await
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

    /// Lets what builds on `from` build on `to`, which stands for it, and gives `to` up: it is there for those.
    pub fn rebase(&self, from: VersionId, to: VersionId, now_us: i64) -> Result<()> {
        self.write(
            format_args!("put version {} in the place of another", to.short()),
            async |conn| {
                let sql =
                    "UPDATE versions SET expired_us = $1 WHERE id = $2 AND expired_us IS NULL";
                let query = sql::query(sql).bind(now_us).bind(to.to_string());
                query.execute(&mut *conn).await?;
                rebase(conn, from, to).await?;
                Ok(())
            },
        )
    }

    /// Lets versions whose base is not known, or has nothing on any medium, build on what stands for it, where anything
    /// does: so it is after an import of media from which the base was removed. Returns how many versions that are.
    pub fn adopt_stand_ins(&self) -> Result<u64> {
        self.write(format_args!("look for what stands for lost versions"), async |conn| {
            let lost = "SELECT DISTINCT v.base_id FROM versions v \
                        WHERE v.base_id IN (SELECT s.stands_for_id FROM versions s) \
                        AND NOT EXISTS (SELECT 1 FROM stream_parts p WHERE p.version_id = v.base_id)";
            let lost: Vec<VersionId> = {
                let rows = sql::query(lost).fetch_all(&mut *conn).await?;
                let ids = rows.iter().map(|row| decode::parsed(row, "base_id"));
                ids.collect::<std::result::Result<_, _>>()?
            };
            let mut adopted = 0;
            for base in lost {
                if let Some(stands) = stand_in(conn, base).await? {
                    adopted += rebase(conn, base, stands).await?;
                }
            }
            Ok(adopted)
        })
    }
}

async fn stand_in(
    conn: &mut Conn<'_>,
    version: VersionId,
) -> std::result::Result<Option<VersionId>, Fault> {
    let sql =
        format!("SELECT s.id FROM versions s WHERE {STANDS} ORDER BY s.created_us DESC, s.id");
    let query = sql::query(sqlx::AssertSqlSafe(sql)).bind(version.to_string());
    query.fetch_optional(conn).await?.map(|row| decode::parsed(&row, "id")).transpose()
}

async fn rebase(
    conn: &mut Conn<'_>,
    from: VersionId,
    to: VersionId,
) -> std::result::Result<u64, Fault> {
    let sql = "UPDATE versions SET base_id = $2 WHERE base_id = $1";
    let query = sql::query(sql).bind(from.to_string()).bind(to.to_string());
    Ok(query.execute(conn).await?.rows_affected())
}
