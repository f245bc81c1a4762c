//! What was done: sessions, from their begin to their end or to the discovery that they died.

use capstan_address::HostName;
use std::collections::HashMap;

use capstan_format::id::{ObjectId, SessionId, VersionId};

use crate::db::{Conn, Idb};
use crate::decode::{self, Fault, Row};
use crate::error::IdbError;
use crate::rows::{Session, Status, Totals, Version, session};
use crate::sessions::beats;
use crate::versions::objects;
use crate::versions::order::{self, Comes, OrderOf};
use crate::versions::protection::{self, Keeping};
use crate::{Result, sql};

impl Idb {
    /// Says of sessions without a host that they are of their object's: of an imported one that wrote no data nothing else says it.
    pub fn complete_hosts(&self) -> Result<()> {
        self.write(format_args!("complete the hosts of sessions"), async |conn| {
            let sql = "UPDATE sessions SET host = \
                       (SELECT o.host FROM objects o WHERE o.id = sessions.object_id) \
                       WHERE host = '' AND object_id IN (SELECT id FROM objects WHERE host <> '')";
            sql::query(sql).execute(conn).await?;
            Ok(())
        })
    }

    /// Records that a session begins and, in the same transaction, the version it writes.
    ///
    /// To resume, `new_version` is the incomplete version with status `Running`; a session that
    /// only reads gives none. The object must be recorded already.
    pub fn begin_session(&self, session: &Session, new_version: Option<&Version>) -> Result<()> {
        self.write(format_args!("record session {}", session.id.short()), async |conn| {
            if let Some(version) = new_version {
                objects::begin_version(conn, version).await?;
            }
            if let Some(version) = session.version {
                objects::refuse_expired(conn, version).await?;
            }
            // Who backs it up again expects it again.
            if let Some(object) = session.object.filter(|_| session.kind == "backup") {
                let again = "UPDATE objects SET given_up_us = NULL WHERE id = $1";
                sql::query(again).bind(object.to_string()).execute(&mut *conn).await?;
            }
            if session.status == Status::Running {
                beats::heard(conn, session.id).await?;
            }
            put_session(conn, session, Comes::Now).await
        })
    }

    /// Records how a session ended and, in the same transaction, what that makes of its version.
    pub fn end_session(
        &self,
        id: SessionId,
        status: Status,
        ended_us: i64,
        totals: &Totals,
        report: &str,
        version_status: Option<Status>,
    ) -> Result<()> {
        self.write(format_args!("record the end of session {}", id.short()), async |conn| {
            let ended = sql::query(
                "UPDATE sessions SET status = $2, ended_us = $3, files = $4, dirs = $5, \
                 bytes_read = $6, bytes_written = $7, report = $8 WHERE id = $1",
            )
            .bind(id.to_string())
            .bind(status.as_str())
            .bind(ended_us)
            .bind(decode::count_in("files", totals.files)?)
            .bind(decode::count_in("dirs", totals.dirs)?)
            .bind(decode::count_in("bytes_read", totals.bytes_read)?)
            .bind(decode::count_in("bytes_written", totals.bytes_written)?)
            .bind(report)
            .execute(&mut *conn)
            .await?;
            known("session", id, ended.rows_affected())?;
            beats::ended(conn, id).await?;
            let Some(version_status) = version_status else { return Ok(()) };
            let updated = sql::query(
                // Who gave it up before its end took its session for dead.
                "UPDATE versions SET status = $2, expired_us = NULL \
                 WHERE id = (SELECT version_id FROM sessions WHERE id = $1)",
            )
            .bind(id.to_string())
            .bind(version_status.as_str())
            .execute(&mut *conn)
            .await?;
            known("the version of session", id, updated.rows_affected())?;
            order::committed(conn, id, version_status).await
        })
    }

    /// Notes that a session is not failed, but goes on in another one.
    pub fn set_incomplete(&self, id: SessionId) -> Result<()> {
        self.write(format_args!("record how session {} ended", id.short()), async |conn| {
            let sql = "UPDATE sessions SET status = $2 WHERE id = $1 AND status = $3";
            let query = sql::query(sql).bind(id.to_string());
            let query = query.bind(Status::Incomplete.as_str()).bind(Status::Failed.as_str());
            query.execute(conn).await?;
            Ok(())
        })
    }

    /// Removes a session that wrote nothing that was committed, with its version. False if there is something of it.
    pub fn drop_unwritten(&self, id: SessionId) -> Result<bool> {
        self.write(format_args!("forget session {}", id.short()), async |conn| {
            let sql = "SELECT s.version_id FROM sessions s WHERE s.id = $1 AND s.version_id IS NOT NULL \
                       AND NOT EXISTS (SELECT 1 FROM segments g WHERE g.session_id = s.id) \
                       AND NOT EXISTS (SELECT 1 FROM stream_parts p WHERE p.version_id = s.version_id) \
                       AND NOT EXISTS (SELECT 1 FROM sessions o WHERE o.version_id = s.version_id AND o.id <> s.id)";
            let row = sql::query(sql).bind(id.to_string()).fetch_optional(&mut *conn).await?;
            let Some(row) = row else { return Ok(false) };
            let version: String = row.try_get("version_id")?;
            for (sql, of) in [
                ("DELETE FROM session_logging WHERE session_id = $1", id.to_string()),
                ("DELETE FROM sessions WHERE id = $1", id.to_string()),
                ("DELETE FROM lost_segments WHERE version_id = $1", version.clone()),
                ("DELETE FROM versions WHERE id = $1", version.clone()),
            ] {
                sql::query(sql).bind(of).execute(&mut *conn).await?;
            }
            Ok(true)
        })
    }

    /// Replaces the report of a session that ended.
    pub fn set_session_report(&self, id: SessionId, report: &str) -> Result<()> {
        self.write(format_args!("record the report of session {}", id.short()), async |conn| {
            let query = sql::query("UPDATE sessions SET report = $2 WHERE id = $1");
            let changed = query.bind(id.to_string()).bind(report).execute(conn).await?;
            known("session", id, changed.rows_affected())
        })
    }

    /// Replaces the report of a session that was completed, by one that says errors of it: those of a session that it went on with.
    pub fn set_session_with_errors(&self, id: SessionId, report: &str) -> Result<()> {
        self.write(format_args!("record the errors of session {}", id.short()), async |conn| {
            let (with, without) =
                (Status::CompletedWithErrors.as_str(), Status::Completed.as_str());
            let query = sql::query("UPDATE sessions SET report = $2, status = $3 WHERE id = $1");
            let query = query.bind(id.to_string()).bind(report).bind(with);
            known("session", id, query.execute(&mut *conn).await?.rows_affected())?;
            sql::query(
                "UPDATE versions SET status = $2 WHERE status = $3 \
                 AND id = (SELECT version_id FROM sessions WHERE id = $1)",
            )
            .bind(id.to_string())
            .bind(with)
            .bind(without)
            .execute(&mut *conn)
            .await?;
            Ok(())
        })
    }

    /// Records a session found on a medium. A recorded one gives way only to one that says more
    /// (an end, where there was none); of two that say as much, the gaps are filled and the
    /// greater totals stay.
    pub fn upsert_session(&self, found: &Session) -> Result<()> {
        self.write(format_args!("record session {}", found.id.short()), async |conn| {
            let query = sql::query("SELECT * FROM sessions WHERE id = $1");
            let row = query.bind(found.id.to_string()).fetch_optional(&mut *conn).await?;
            match row.as_ref().map(session).transpose()? {
                None => put_session(conn, found, Comes::Before).await,
                Some(recorded) => put_session(conn, &merge(recorded, found), Comes::Before).await,
            }
        })
    }

    /// The last `limit` sessions, newest first.
    pub fn sessions(&self, limit: usize) -> Result<Vec<Session>> {
        self.read(format_args!("list the sessions"), async |conn| {
            let sql = "SELECT * FROM sessions ORDER BY begin_order DESC, started_us DESC, id DESC LIMIT $1";
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            sql::query(sql).bind(limit).fetch_all(conn).await?.iter().map(session).collect()
        })
    }

    /// The last restores that came to no end, and said nothing of that: their processes are gone.
    pub fn killed_restores(&self) -> Result<Vec<SessionId>> {
        const LAST: i64 = 1000;
        self.read(format_args!("list the sessions"), async |conn| {
            let sql = "SELECT * FROM sessions WHERE kind = 'restore' AND status = $1 AND report IS NULL \
                       ORDER BY begin_order DESC, started_us DESC LIMIT $2";
            let query = sql::query(sql).bind(Status::Incomplete.as_str()).bind(LAST);
            query.fetch_all(conn).await?.iter().map(|row| Ok(session(row)?.id)).collect()
        })
    }

    /// When the runs began that wrote versions, in microseconds since 1970.
    pub fn runs_of_versions(&self) -> Result<HashMap<VersionId, i64>> {
        self.read(format_args!("list the sessions"), async |conn| {
            let sql = "SELECT version_id, MIN(COALESCE(run_us, started_us)) AS run_us FROM sessions \
                       WHERE kind = 'backup' AND version_id IS NOT NULL GROUP BY version_id";
            let rows = sql::query(sql).fetch_all(conn).await?;
            let of = |row: &Row| Ok((decode::parsed(row, "version_id")?, row.try_get("run_us")?));
            rows.iter().map(of).collect()
        })
    }

    /// When each backup that completed was begun, in the order in which they were; also of those whose versions are gone, as long as
    /// they are on record. In microseconds since 1970.
    pub fn backup_times(&self) -> Result<Vec<i64>> {
        self.read(format_args!("list the sessions"), async |conn| {
            let sql = "SELECT started_us FROM sessions WHERE kind = 'backup' \
                       AND status IN ('completed', 'completed_with_errors') ORDER BY begin_order, started_us";
            let rows = sql::query(sql).fetch_all(conn).await?;
            rows.iter().map(|row| Ok(row.try_get("started_us")?)).collect()
        })
    }

    /// The last `limit` of these sessions, newest first, each with what it worked on: one question, however many there are.
    pub fn described_sessions(
        &self,
        of: &SessionsOf,
        limit: usize,
    ) -> Result<Vec<(Session, Described)>> {
        self.read(format_args!("list the sessions"), async |conn| {
            // A list of nothing is no SQL: of no object there is no session.
            if [of.objects.as_ref().map(Vec::len), of.kinds.as_ref().map(Vec::len)]
                .contains(&Some(0))
            {
                return Ok(Vec::new());
            }
            let mut query = sql::Builder::new(
                "SELECT s.*, o.name AS object_name, v.method, v.protected_until_us, \
                 v.catalog_until_us, v.locked_until_us, v.expired_us FROM sessions s \
                 LEFT JOIN objects o ON o.id = s.object_id \
                 LEFT JOIN versions v ON v.id = s.version_id",
            );
            let mut joint = " WHERE ";
            if let Some(objects) = &of.objects {
                let ids = objects.iter().map(ObjectId::to_string);
                query.push(joint).push("s.object_id IN (").push_list(ids).push(")");
                joint = " AND ";
            }
            if let Some(kinds) = &of.kinds {
                query.push(joint).push("s.kind IN (").push_list(kinds).push(")");
            }
            query.push(" ORDER BY s.begin_order DESC, s.started_us DESC, s.id DESC LIMIT ");
            query.push_bind(i64::try_from(limit).unwrap_or(i64::MAX));
            let query = query.build();
            let rows = query.fetch_all(conn).await?;
            rows.iter().map(|row| Ok((session(row)?, described(row)?))).collect()
        })
    }

    /// The last `limit` sessions of an object, newest first; of one kind, or of all.
    pub fn sessions_of_object(
        &self,
        object: ObjectId,
        kind: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Session>> {
        self.read(format_args!("look up object {}", object.short()), async |conn| {
            let sql = "SELECT * FROM sessions WHERE object_id = $1 AND ($2 = '' OR kind = $2) \
                       ORDER BY begin_order DESC, started_us DESC, id DESC LIMIT $3";
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let query = sql::query(sql).bind(object.to_string()).bind(kind.unwrap_or(""));
            let query = query.bind(limit);
            query.fetch_all(conn).await?.iter().map(session).collect()
        })
    }

    /// A session by its identity.
    pub fn session(&self, id: SessionId) -> Result<Option<Session>> {
        self.read(format_args!("look up session {}", id.short()), async |conn| {
            let query = sql::query("SELECT * FROM sessions WHERE id = $1").bind(id.to_string());
            query.fetch_optional(conn).await?.as_ref().map(session).transpose()
        })
    }

    /// The sessions whose identity begins with these hexadecimal digits, newest first. Anything
    /// else, and nothing at all, is the beginning of none.
    pub fn sessions_by_prefix(&self, typed: &str) -> Result<Vec<Session>> {
        let Some((low, high)) = decode::prefix_range(typed) else { return Ok(Vec::new()) };
        self.read(format_args!("look up session {typed}"), async |conn| {
            let sql = "SELECT * FROM sessions WHERE id >= $1 AND id < $2 \
                       ORDER BY begin_order DESC, started_us DESC, id DESC";
            let rows = sql::query(sql).bind(&low).bind(&high).fetch_all(conn).await?;
            rows.iter().map(session).collect()
        })
    }

    /// The sessions that wrote or read a version, oldest first.
    pub fn sessions_of_version(&self, version: VersionId) -> Result<Vec<Session>> {
        self.read(format_args!("look up version {}", version.short()), async |conn| {
            let sql = "SELECT * FROM sessions WHERE version_id = $1 \
                       ORDER BY begin_order, started_us, id";
            let rows = sql::query(sql).bind(version.to_string()).fetch_all(conn).await?;
            rows.iter().map(session).collect()
        })
    }
}

/// Which sessions are listed; all by default.
#[derive(Debug, Clone, Default)]
pub struct SessionsOf {
    /// Only those that worked on one of these objects.
    pub objects: Option<Vec<ObjectId>>,
    /// Only those of these kinds.
    pub kinds: Option<Vec<String>>,
}

/// What is known of what a session worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The name of its object; empty where there is none, or only its encrypted form is known.
    pub name: String,
    /// How its version was backed up, and how that is kept.
    pub version: Option<(String, Keeping)>,
}

fn described(row: &Row) -> std::result::Result<Described, Fault> {
    let name: Option<String> = row.try_get("object_name")?;
    let method: Option<String> = row.try_get("method")?;
    let version = method.map(|method| Ok::<_, Fault>((method, protection::keeping(row)?)));
    Ok(Described { name: name.unwrap_or_default(), version: version.transpose()? })
}

fn known(what: &'static str, id: SessionId, rows: u64) -> std::result::Result<(), Fault> {
    match rows {
        0 => Err(IdbError::Unknown { what, id: id.to_string() }.into()),
        _ => Ok(()),
    }
}

fn merge(recorded: Session, found: &Session) -> Session {
    let found = found.clone();
    let text = |first: String, second: String| if first.is_empty() { second } else { first };
    let of = |first: HostName, second: HostName| if first.is_empty() { second } else { first };
    if recorded.status.says_more_than(found.status) {
        // What the piece that was found first did not know.
        return Session { host: of(recorded.host, found.host), ..recorded };
    }
    let more = found.status.says_more_than(recorded.status);
    let (first, second) = if more { (found, recorded) } else { (recorded, found) };
    // With an end record its totals are the truth; two pieces each count what they saw.
    let total = |first: u64, second: u64| if more { first } else { first.max(second) };
    Session {
        id: first.id,
        kind: text(first.kind, second.kind),
        object: first.object.or(second.object),
        version: first.version.or(second.version),
        parent: first.parent.or(second.parent),
        status: first.status,
        host: of(first.host, second.host),
        device: text(first.device, second.device),
        started_us: first.started_us,
        run_us: first.run_us.or(second.run_us),
        ended_us: first.ended_us.or(second.ended_us),
        files: total(first.files, second.files),
        dirs: total(first.dirs, second.dirs),
        bytes_read: total(first.bytes_read, second.bytes_read),
        bytes_written: total(first.bytes_written, second.bytes_written),
        tags: if first.tags.is_empty() { second.tags } else { first.tags },
        report: first.report.or(second.report),
        pid: first.pid,
        birth: first.birth,
    }
}

/// One that is recorded already keeps its place in the order.
async fn put_session(
    conn: &mut Conn<'_>,
    session: &Session,
    comes: Comes,
) -> std::result::Result<(), Fault> {
    let place = match comes {
        Comes::Now => order::next(conn, OrderOf::Sessions).await?,
        Comes::Before => 0,
    };
    sql::query(
        "INSERT INTO sessions (id, kind, object_id, version_id, parent_id, status, host, device, \
         started_us, ended_us, files, dirs, bytes_read, bytes_written, tags, report, pid, boot_id, \
         begin_order, order_known, run_us) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
         $14, $15, $16, $17, $18, $19, $20, $21) \
         ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, object_id = excluded.object_id, \
         version_id = excluded.version_id, parent_id = excluded.parent_id, \
         status = excluded.status, host = excluded.host, device = excluded.device, \
         started_us = excluded.started_us, ended_us = excluded.ended_us, \
         files = excluded.files, dirs = excluded.dirs, bytes_read = excluded.bytes_read, \
         bytes_written = excluded.bytes_written, tags = excluded.tags, \
         report = excluded.report, pid = excluded.pid, boot_id = excluded.boot_id, \
         run_us = excluded.run_us",
    )
    .bind(session.id.to_string())
    .bind(&session.kind)
    .bind(session.object.map(|id| id.to_string()))
    .bind(session.version.map(|id| id.to_string()))
    .bind(session.parent.map(|id| id.to_string()))
    .bind(session.status.as_str())
    .bind(session.host.as_str())
    .bind(&session.device)
    .bind(session.started_us)
    .bind(session.ended_us)
    .bind(decode::count_in("files", session.files)?)
    .bind(decode::count_in("dirs", session.dirs)?)
    .bind(decode::count_in("bytes_read", session.bytes_read)?)
    .bind(decode::count_in("bytes_written", session.bytes_written)?)
    .bind(decode::texts_in("tags", &session.tags)?)
    .bind(&session.report)
    .bind(i64::from(session.pid))
    .bind(&session.birth)
    .bind(place)
    .bind(comes.is_known())
    .bind(session.run_us)
    .execute(conn)
    .await?;
    Ok(())
}
