//! Sessions that run, and whether their processes are heard of: a process says again and again that it is there, and who cannot
//! see it goes by that.

use capstan_format::id::SessionId;
use rustix::time::{ClockId, clock_gettime};

use crate::db::{Conn, Idb};
use crate::decode::{self, Fault};
use crate::rows::{Session, Status, session};
use crate::{Result, sql};

/// A session that is recorded as running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// The session.
    pub session: Session,
    /// For how long its process was not heard of, in microseconds; nothing where it never was. What the server of the tables was
    /// down does not count.
    pub silent_us: Option<i64>,
    /// When it was heard of, as it is recorded: another number when it is heard of again.
    pub heard_us: Option<i64>,
}

/// Sessions of one process that have no end on record.
const OF_PROCESS: &str = "pid = $1 AND boot_id = $2 AND ended_us IS NULL";

impl Idb {
    /// The sessions that are recorded as running, oldest first.
    pub fn running_sessions(&self) -> Result<Vec<Running>> {
        self.read(format_args!("look for sessions that run"), async |conn| {
            let (now_us, up_us) = clock_us(conn).await?;
            let sql = "SELECT s.*, b.heard_us FROM sessions s \
                       LEFT JOIN session_beats b ON b.session_id = s.id \
                       WHERE s.status = $1 ORDER BY s.started_us, s.id";
            let rows = sql::query(sql).bind(Status::Running.as_str()).fetch_all(conn).await?;
            let running = |row: &decode::Row| {
                let heard_us: Option<i64> = row.try_get("heard_us")?;
                // A time to come is one of another clock.
                let heard = heard_us.filter(|heard| *heard <= now_us);
                let silent_us = heard.map(|heard| now_us.saturating_sub(heard.max(up_us)));
                Ok(Running { session: session(row)?, silent_us, heard_us })
            };
            rows.iter().map(running).collect()
        })
    }

    /// Has the time begin for which a session is silent: it was never heard of.
    pub fn hear_first(&self, id: SessionId) -> Result<()> {
        self.write(format_args!("look for sessions that run"), async |conn| heard(conn, id).await)
    }

    /// Says that a process is there whose sessions run. What was taken for dead of it meanwhile runs again.
    pub fn beat(&self, pid: u32, birth: &str) -> Result<()> {
        self.write_passing(format_args!("say that sessions run"), async |conn| {
            let sql = format!(
                "SELECT id, status FROM sessions WHERE {OF_PROCESS} AND status IN ('running', 'incomplete')"
            );
            let query = sql::query(sqlx::AssertSqlSafe(sql)).bind(i64::from(pid)).bind(birth);
            for row in &query.fetch_all(&mut *conn).await? {
                let id = decode::parsed(row, "id")?;
                heard(conn, id).await?;
                if decode::parsed::<Status>(row, "status")? == Status::Incomplete {
                    runs_again(conn, id).await?;
                }
            }
            Ok(())
        })
    }

    /// Sessions recorded as running that are dead become incomplete, and so does a running version with no running session left. One
    /// that was heard of since it was looked at is not dead. Returns those sessions, oldest first.
    pub fn mark_dead_sessions(&self, is_dead: &dyn Fn(&Running) -> bool) -> Result<Vec<SessionId>> {
        let mut dead = self.running_sessions()?;
        dead.retain(is_dead);
        // No write lock where there is nothing to write: this is asked at every start.
        if dead.is_empty() && !self.has_abandoned_version()? {
            return Ok(Vec::new());
        }
        self.write(format_args!("mark sessions that died"), async |conn| {
            let mut marked = Vec::with_capacity(dead.len());
            for Running { session, heard_us, .. } in &dead {
                // Still running: it may have ended itself, or have been heard of, between the two transactions.
                let sql = "UPDATE sessions SET status = $2 WHERE id = $1 AND status = $3 \
                           AND COALESCE((SELECT b.heard_us FROM session_beats b \
                           WHERE b.session_id = sessions.id), -1) = $4";
                let update = sql::query(sql)
                    .bind(session.id.to_string())
                    .bind(Status::Incomplete.as_str())
                    .bind(Status::Running.as_str())
                    .bind(heard_us.unwrap_or(-1));
                if update.execute(&mut *conn).await?.rows_affected() > 0 {
                    marked.push(session.id);
                }
            }
            let of_others = "DELETE FROM session_beats WHERE NOT EXISTS \
                             (SELECT 1 FROM sessions s WHERE s.id = session_id AND s.status = $1)";
            let query = sql::query(of_others).bind(Status::Running.as_str());
            query.execute(&mut *conn).await?;
            sql::query(
                "UPDATE versions SET status = $1 WHERE status = $2 AND NOT EXISTS \
                 (SELECT 1 FROM sessions s WHERE s.version_id = versions.id AND s.status = $2)",
            )
            .bind(Status::Incomplete.as_str())
            .bind(Status::Running.as_str())
            .execute(conn)
            .await?;
            Ok(marked)
        })
    }

    /// Whether a version counts as running though no session does that could be writing it.
    fn has_abandoned_version(&self) -> Result<bool> {
        self.read(format_args!("look for versions left by dead sessions"), async |conn| {
            let row = sql::query(
                "SELECT 1 FROM versions WHERE status = $1 AND NOT EXISTS \
                 (SELECT 1 FROM sessions s WHERE s.version_id = versions.id AND s.status = $1) \
                 LIMIT 1",
            )
            .bind(Status::Running.as_str())
            .fetch_optional(conn)
            .await?;
            Ok(row.is_some())
        })
    }
}

/// Notes that the process of a session is there.
pub(crate) async fn heard(conn: &mut Conn<'_>, id: SessionId) -> std::result::Result<(), Fault> {
    let (now_us, _) = clock_us(conn).await?;
    let sql = "INSERT INTO session_beats (session_id, heard_us) VALUES ($1, $2) \
               ON CONFLICT (session_id) DO UPDATE SET heard_us = excluded.heard_us";
    sql::query(sql).bind(id.to_string()).bind(now_us).execute(conn).await?;
    Ok(())
}

/// Notes that a session came to its end.
pub(crate) async fn ended(conn: &mut Conn<'_>, id: SessionId) -> std::result::Result<(), Fault> {
    let sql = "DELETE FROM session_beats WHERE session_id = $1";
    sql::query(sql).bind(id.to_string()).execute(conn).await?;
    Ok(())
}

/// A session that was taken for dead, and the version that it makes.
async fn runs_again(conn: &mut Conn<'_>, id: SessionId) -> std::result::Result<(), Fault> {
    for sql in [
        "UPDATE sessions SET status = 'running' WHERE id = $1",
        // Who gave it up took it for abandoned.
        "UPDATE versions SET status = 'running', expired_us = NULL WHERE status = 'incomplete' AND id = \
         (SELECT version_id FROM sessions WHERE id = $1 AND kind IN ('backup', 'consolidate'))",
    ] {
        sql::query(sql).bind(id.to_string()).execute(&mut *conn).await?;
    }
    Ok(())
}

/// The time now, and since when there is somebody to tell it to: by the server's clock; in a file, which the processes of one
/// running system have alone, by that system's, which nobody sets.
async fn clock_us(conn: &mut Conn<'_>) -> std::result::Result<(i64, i64), Fault> {
    if matches!(conn, Conn::Sqlite(_)) {
        let now = clock_gettime(ClockId::Monotonic);
        return Ok((now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1000), 0));
    }
    let sql = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) AS now_us, \
               CAST(EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000 AS BIGINT) AS up_us";
    let row = sql::query(sql).fetch_one(conn).await?;
    Ok((row.try_get("now_us")?, row.try_get("up_us")?))
}
