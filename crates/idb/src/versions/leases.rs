//! Leases of versions: who reads a version holds it and what it builds on, so that nobody removes them meanwhile. They are taken in
//! transactions of the kind in which versions are given up, so there is no moment between. They go with their processes: after a
//! failure of power nobody misses them.

use capstan_address::HostName;
use std::collections::HashMap;

use capstan_format::id::{MediumId, VersionId};

use crate::db::{Conn, Idb};
use crate::decode::{self, Fault, Row};
use crate::error::IdbError;
use crate::{Result, sql};

/// Who reads versions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reader {
    /// The lease's own identity.
    pub lease: String,
    /// The host of the process.
    pub host: HostName,
    /// The boot and the space of process numbers in which its number means it.
    pub place: String,
    /// The process.
    pub pid: u32,
    /// When it was begun, as its system counts.
    pub started: String,
    /// Goes up as long as it has the lease.
    pub beat: u64,
    /// Since when, in microseconds since 1970, by that host's clock.
    pub since_us: i64,
}

impl Reader {
    /// Who it is, for people.
    pub fn who(&self) -> String {
        format!("process {} on {}", self.pid, self.host)
    }
}

impl Idb {
    /// Holds versions and all that they build on. Of one that was given up, and that nothing builds on which was not, `None` is given
    /// where `living` are asked for: it goes at any time. Returns all that is held.
    pub fn hold_versions(
        &self,
        reader: &Reader,
        versions: &[VersionId],
        living: bool,
    ) -> Result<Option<Vec<VersionId>>> {
        self.write_passing(format_args!("hold versions that are read"), async |conn| {
            let mut held = Vec::new();
            for version in versions {
                if living && is_given_up(conn, *version).await? {
                    return Ok(None);
                }
                for id in with_bases(conn, *version).await? {
                    if !held.contains(&id) {
                        put(conn, reader, id).await?;
                        held.push(id);
                    }
                }
            }
            Ok(Some(held))
        })
    }

    /// Says that a lease is had still; takes it again if somebody took its holder for dead.
    pub fn keep_holding(&self, reader: &Reader, versions: &[VersionId]) -> Result<()> {
        self.write_passing(format_args!("hold versions that are read"), async |conn| {
            let sql = "UPDATE version_leases SET beat = beat + 1 WHERE lease = $1";
            let known = sql::query(sql).bind(&reader.lease).execute(&mut *conn).await?;
            if known.rows_affected() == 0 {
                for id in versions {
                    put(conn, reader, *id).await?;
                }
            }
            Ok(())
        })
    }

    /// Ends a lease.
    pub fn free_versions(&self, reader: &Reader) -> Result<()> {
        self.write_passing(format_args!("free versions that were read"), async |conn| {
            let sql = "DELETE FROM version_leases WHERE lease = $1";
            sql::query(sql).bind(&reader.lease).execute(conn).await?;
            Ok(())
        })
    }

    /// Ends a lease that is as it was seen: one that was kept meanwhile stays.
    pub fn end_lease(&self, seen: &Reader) -> Result<()> {
        self.write_passing(format_args!("end a lease of versions"), async |conn| {
            let sql = "DELETE FROM version_leases WHERE lease = $1 AND beat = $2";
            let query = sql::query(sql).bind(&seen.lease);
            query.bind(decode::count_in("beat", seen.beat)?).execute(conn).await?;
            Ok(())
        })
    }

    /// Whoever reads any version.
    pub fn readers(&self) -> Result<Vec<Reader>> {
        self.read(format_args!("look for who reads versions"), async |conn| {
            let sql = "SELECT DISTINCT lease, host, place, pid, started, beat, since_us \
                       FROM version_leases ORDER BY since_us, lease";
            sql::query(sql).fetch_all(conn).await?.iter().map(reader).collect()
        })
    }

    /// Who reads a version that has something on a medium, and which, if anybody does.
    pub fn reader_on_medium(&self, medium: MediumId) -> Result<Option<(VersionId, Reader)>> {
        self.read(format_args!("look for who reads medium {}", medium.short()), async |conn| {
            reader_on_medium(conn, medium).await
        })
    }
}

/// Who reads each version.
pub(crate) async fn readers_by_version(
    conn: &mut Conn<'_>,
) -> std::result::Result<HashMap<VersionId, Vec<String>>, Fault> {
    let sql = "SELECT * FROM version_leases ORDER BY since_us, lease";
    let mut found: HashMap<VersionId, Vec<String>> = HashMap::new();
    for row in sql::query(sql).fetch_all(conn).await? {
        let of = found.entry(decode::parsed(&row, "version_id")?).or_default();
        let who = reader(&row)?.who();
        if !of.contains(&who) {
            of.push(who);
        }
    }
    Ok(found)
}

/// Refuses to give up what a medium has while somebody reads it.
pub(crate) async fn refuse_read(
    conn: &mut Conn<'_>,
    medium: MediumId,
) -> std::result::Result<(), Fault> {
    match reader_on_medium(conn, medium).await? {
        None => Ok(()),
        Some((version, reader)) => {
            Err(IdbError::IsRead { version: version.short(), reader: reader.who() }.into())
        }
    }
}

async fn reader_on_medium(
    conn: &mut Conn<'_>,
    medium: MediumId,
) -> std::result::Result<Option<(VersionId, Reader)>, Fault> {
    let sql = "SELECT k.* FROM version_leases k WHERE k.version_id IN \
               (SELECT p.version_id FROM stream_parts p \
               JOIN segment_places l ON l.segment_id = p.segment_id WHERE l.medium_id = $1) \
               ORDER BY k.since_us, k.lease LIMIT 1";
    let row = sql::query(sql).bind(medium.to_string()).fetch_optional(conn).await?;
    row.map(|row| Ok((decode::parsed(&row, "version_id")?, reader(&row)?))).transpose()
}

/// Whether a version was given up, and all that builds on it.
pub(crate) async fn is_given_up(
    conn: &mut Conn<'_>,
    version: VersionId,
) -> std::result::Result<bool, Fault> {
    let sql = "WITH RECURSIVE above AS (SELECT id, expired_us FROM versions WHERE id = $1 \
               UNION SELECT v.id, v.expired_us FROM versions v JOIN above a ON v.base_id = a.id) \
               SELECT COUNT(*) AS all_of_them, COUNT(expired_us) AS expired FROM above";
    let row = sql::query(sql).bind(version.to_string()).fetch_one(conn).await?;
    let (all, expired): (i64, i64) = (row.try_get("all_of_them")?, row.try_get("expired")?);
    Ok(all == expired)
}

/// A version and what it builds on, as far as that is recorded.
async fn with_bases(
    conn: &mut Conn<'_>,
    version: VersionId,
) -> std::result::Result<Vec<VersionId>, Fault> {
    let sql = "WITH RECURSIVE below AS (SELECT id, base_id FROM versions WHERE id = $1 \
               UNION SELECT v.id, v.base_id FROM versions v JOIN below b ON v.id = b.base_id) \
               SELECT id FROM below";
    let rows = sql::query(sql).bind(version.to_string()).fetch_all(conn).await?;
    rows.iter().map(|row| decode::parsed(row, "id")).collect()
}

async fn put(
    conn: &mut Conn<'_>,
    reader: &Reader,
    version: VersionId,
) -> std::result::Result<(), Fault> {
    sql::query(
        "INSERT INTO version_leases (lease, version_id, host, place, pid, started, beat, since_us) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (lease, version_id) DO NOTHING",
    )
    .bind(&reader.lease)
    .bind(version.to_string())
    .bind(reader.host.as_str())
    .bind(&reader.place)
    .bind(i64::from(reader.pid))
    .bind(&reader.started)
    .bind(decode::count_in("beat", reader.beat)?)
    .bind(reader.since_us)
    .execute(conn)
    .await?;
    Ok(())
}

fn reader(row: &Row) -> std::result::Result<Reader, Fault> {
    Ok(Reader {
        lease: row.try_get("lease")?,
        host: HostName::recorded(row.try_get::<String>("host")?),
        place: row.try_get("place")?,
        pid: decode::count(row, "pid")?,
        started: row.try_get("started")?,
        beat: decode::count(row, "beat")?,
        since_us: row.try_get("since_us")?,
    })
}
