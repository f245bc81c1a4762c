//! Backups and runs that were refused, and prunes that could not make room: the last of each, until one goes well.

use crate::db::Idb;
use crate::decode::{self, Fault, Row};
use crate::{Result, sql};
use capstan_address::HostName;

/// What was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A backup of an object, which its name names.
    Backup,
    /// A run of a specification, which its path names.
    Run,
    /// A consolidation by a prune, of an object, which its name names.
    Prune,
}

impl Refused {
    /// Its name in the tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Run => "run",
            Self::Prune => "prune",
        }
    }
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Of what.
    pub kind: Refused,
    /// The object's name, or the specification's path.
    pub name: String,
    /// The host that asked.
    pub host: HostName,
    /// When, in microseconds since 1970.
    pub refused_us: i64,
    /// The exit code.
    pub code: u8,
    /// Why, and what to do.
    pub reason: String,
}

impl Idb {
    /// Records a refusal, in the place of an earlier one of the same.
    pub fn put_refusal(&self, refusal: &Refusal) -> Result<()> {
        self.write(format_args!("record that '{}' was refused", refusal.name), async |conn| {
            sql::query(
                "INSERT INTO refusals (kind, name, host, refused_us, code, reason) \
                 VALUES ($1, $2, $3, $4, $5, $6) \
                 ON CONFLICT (kind, name, host) DO UPDATE SET refused_us = excluded.refused_us, \
                 code = excluded.code, reason = excluded.reason",
            )
            .bind(refusal.kind.as_str())
            .bind(&refusal.name)
            .bind(refusal.host.as_str())
            .bind(refusal.refused_us)
            .bind(i64::from(refusal.code))
            .bind(&refusal.reason)
            .execute(conn)
            .await?;
            Ok(())
        })
    }

    /// Forgets a refusal: it went well.
    pub fn end_refusal(&self, kind: Refused, name: &str, host: &str) -> Result<()> {
        self.write(format_args!("record that '{name}' is refused no longer"), async |conn| {
            let sql = "DELETE FROM refusals WHERE kind = $1 AND name = $2 AND host = $3";
            let query = sql::query(sql).bind(kind.as_str()).bind(name).bind(host);
            query.execute(conn).await?;
            Ok(())
        })
    }

    /// All that is refused, by name.
    pub fn refusals(&self) -> Result<Vec<Refusal>> {
        self.read(format_args!("look for refusals"), async |conn| {
            let sql = "SELECT * FROM refusals ORDER BY kind, name, host";
            sql::query(sql).fetch_all(conn).await?.iter().map(refusal).collect()
        })
    }
}

fn refusal(row: &Row) -> std::result::Result<Refusal, Fault> {
    let kind: String = row.try_get("kind")?;
    Ok(Refusal {
        kind: match kind.as_str() {
            "run" => Refused::Run,
            "prune" => Refused::Prune,
            _ => Refused::Backup,
        },
        name: row.try_get("name")?,
        host: HostName::recorded(row.try_get::<String>("host")?),
        refused_us: row.try_get("refused_us")?,
        code: decode::count(row, "code")?,
        reason: row.try_get("reason")?,
    })
}
