//! What processes wait for that others have.

use crate::db::Idb;
use crate::decode::{self, Fault, Row};
use crate::{Result, sql};
use capstan_address::HostName;

/// Something that a process waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionWait {
    /// The host whose process waits.
    pub host: HostName,
    /// The process.
    pub pid: u32,
    /// The boot of that host and the space of process numbers in which `pid` means that process, and when it was begun.
    pub birth: String,
    /// Which of its waits it is.
    pub number: u64,
    /// What the process was called to do, in a few words.
    pub command: String,
    /// What it waits for and who has that, in words.
    pub why: String,
    /// Since when, in microseconds since 1970.
    pub since_us: i64,
    /// When the process said last that it waits.
    pub heard_us: i64,
}

impl Idb {
    /// Records that a process waits, or that it waits still.
    pub fn put_wait(&self, wait: &SessionWait) -> Result<()> {
        self.write(format_args!("record that {} waits", wait.command), async |conn| {
            sql::query(
                "INSERT INTO session_waits \
                 (host, pid, boot_id, number, command, why, since_us, heard_us) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8) \
                 ON CONFLICT (boot_id, pid, number) DO UPDATE SET why = excluded.why, \
                 since_us = excluded.since_us, heard_us = excluded.heard_us",
            )
            .bind(wait.host.as_str())
            .bind(i64::from(wait.pid))
            .bind(&wait.birth)
            .bind(number(wait.number))
            .bind(&wait.command)
            .bind(&wait.why)
            .bind(wait.since_us)
            .bind(wait.heard_us)
            .execute(conn)
            .await?;
            Ok(())
        })
    }

    /// Records that one of a process's waits is over.
    pub fn remove_wait(&self, pid: u32, birth: &str, of: u64) -> Result<()> {
        self.write(format_args!("record that process {pid} waits no longer"), async |conn| {
            let sql = "DELETE FROM session_waits WHERE boot_id = $1 AND pid = $2 AND number = $3";
            let query = sql::query(sql).bind(birth).bind(i64::from(pid)).bind(number(of));
            query.execute(conn).await?;
            Ok(())
        })
    }

    /// What is recorded as waited for, the longest wait first.
    pub fn waits(&self) -> Result<Vec<SessionWait>> {
        self.read(format_args!("look which sessions wait"), async |conn| {
            let sql = "SELECT * FROM session_waits ORDER BY since_us, host, pid, number";
            sql::query(sql).fetch_all(conn).await?.iter().map(wait).collect()
        })
    }
}

fn number(of: u64) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}

fn wait(row: &Row) -> std::result::Result<SessionWait, Fault> {
    Ok(SessionWait {
        host: HostName::recorded(row.try_get::<String>("host")?),
        pid: decode::count(row, "pid")?,
        birth: row.try_get("boot_id")?,
        number: decode::count(row, "number")?,
        command: row.try_get("command")?,
        why: row.try_get("why")?,
        since_us: row.try_get("since_us")?,
        heard_us: row.try_get("heard_us")?,
    })
}
