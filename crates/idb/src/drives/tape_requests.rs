//! Drives that wait for a tape that somebody is to put in.

use crate::db::Idb;
use crate::decode::{self, Fault, Row};
use crate::{Result, sql};
use capstan_address::HostName;

/// A drive that waits for a tape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapeRequest {
    /// The host whose process waits.
    pub host: HostName,
    /// The process.
    pub pid: u32,
    /// The boot of that host and the space of process numbers in which `pid` means that process, and when it was begun.
    pub birth: String,
    /// The drive.
    pub drive: String,
    /// What is to be put in, in words.
    pub wanted: String,
    /// Since when, in microseconds since 1970.
    pub since_us: i64,
    /// When the process said last that it waits.
    pub heard_us: i64,
}

impl Idb {
    /// Records that a drive waits, or that it waits still.
    pub fn put_tape_request(&self, request: &TapeRequest) -> Result<()> {
        self.write(format_args!("record that {} waits for a tape", request.drive), async |conn| {
            sql::query(
                "INSERT INTO tape_requests (host, pid, drive, boot_id, wanted, since_us, heard_us) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7) \
                 ON CONFLICT (host, pid, drive) DO UPDATE SET boot_id = excluded.boot_id, \
                 wanted = excluded.wanted, since_us = excluded.since_us, \
                 heard_us = excluded.heard_us",
            )
            .bind(request.host.as_str())
            .bind(i64::from(request.pid))
            .bind(&request.drive)
            .bind(&request.birth)
            .bind(&request.wanted)
            .bind(request.since_us)
            .bind(request.heard_us)
            .execute(conn)
            .await?;
            Ok(())
        })
    }

    /// Records that a drive waits no longer.
    pub fn remove_tape_request(&self, host: &str, pid: u32, drive: &str) -> Result<()> {
        self.write(format_args!("record that {drive} waits no longer"), async |conn| {
            let sql = "DELETE FROM tape_requests WHERE host = $1 AND pid = $2 AND drive = $3";
            let query = sql::query(sql).bind(host).bind(i64::from(pid)).bind(drive);
            query.execute(conn).await?;
            Ok(())
        })
    }

    /// The drives that are recorded as waiting, those first that have waited longest.
    pub fn tape_requests(&self) -> Result<Vec<TapeRequest>> {
        self.read(format_args!("look which drives wait for tapes"), async |conn| {
            let sql = "SELECT * FROM tape_requests ORDER BY since_us, host, pid, drive";
            sql::query(sql).fetch_all(conn).await?.iter().map(request).collect()
        })
    }
}

fn request(row: &Row) -> std::result::Result<TapeRequest, Fault> {
    Ok(TapeRequest {
        host: HostName::recorded(row.try_get::<String>("host")?),
        pid: decode::count(row, "pid")?,
        birth: row.try_get("boot_id")?,
        drive: row.try_get("drive")?,
        wanted: row.try_get("wanted")?,
        since_us: row.try_get("since_us")?,
        heard_us: row.try_get("heard_us")?,
    })
}
