//! Until when versions are kept: protection, that of the catalog, locks, and the mark of those that expired.

use capstan_format::id::VersionId;
use capstan_format::record::Protection as Recorded;

use crate::db::{Conn, Idb};
use crate::decode::{Fault, Row};
use crate::error::IdbError;
use crate::rows::Version;
use crate::versions::bare::bare;
use crate::{Result, sql};

/// How the columns say "for ever", and "not at all".
const FOR_EVER: i64 = i64::MAX;
const NOT_AT_ALL: i64 = 0;

/// Until when a version, or its catalog, is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protection {
    /// Nothing is said: keep rules decide. A catalog is kept as long as its version.
    #[default]
    Rules,
    /// Not at all: the next prune may take it.
    None,
    /// Until that time, in microseconds since 1970.
    UntilUs(i64),
    /// For ever.
    Permanent,
}

impl Protection {
    /// Whether it holds at that time.
    pub fn holds_at(self, now_us: i64) -> bool {
        match self {
            Self::Permanent => true,
            Self::UntilUs(until) => until > now_us,
            Self::Rules | Self::None => false,
        }
    }

    fn of_column(value: Option<i64>) -> Self {
        match value {
            None => Self::Rules,
            Some(NOT_AT_ALL) => Self::None,
            Some(FOR_EVER) => Self::Permanent,
            Some(until) => Self::UntilUs(until),
        }
    }

    fn column(self) -> Option<i64> {
        match self {
            Self::Rules => None,
            Self::None => Some(NOT_AT_ALL),
            Self::UntilUs(until) => Some(until),
            Self::Permanent => Some(FOR_EVER),
        }
    }
}

impl From<Protection> for Recorded {
    /// As a medium records it: what keep rules decide has no protection of its own.
    fn from(protection: Protection) -> Self {
        match protection {
            Protection::Rules | Protection::None => Self::None,
            Protection::UntilUs(until) => Self::UntilUs(until),
            Protection::Permanent => Self::Permanent,
        }
    }
}

impl From<&Recorded> for Protection {
    /// What a medium says: none is what every medium said before versions had protection, so it is no wish to lose it.
    fn from(recorded: &Recorded) -> Self {
        match recorded {
            Recorded::None => Self::Rules,
            Recorded::UntilUs(until) => Self::UntilUs(*until),
            Recorded::Permanent => Self::Permanent,
        }
    }
}

/// How a version is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keeping {
    /// Until when the version is protected.
    pub protection: Protection,
    /// Until when its catalog is kept in the internal database; after that the medium's is read.
    pub catalog: Protection,
    /// Until when nothing may remove it, in microseconds since 1970.
    pub locked_until_us: Option<i64>,
    /// When it was given up, in microseconds since 1970: it is there as long as others build on it.
    pub expired_us: Option<i64>,
}

impl Keeping {
    /// The lock that holds at that time.
    pub fn lock_at(&self, now_us: i64) -> Option<i64> {
        self.locked_until_us.filter(|until| *until > now_us)
    }
}

impl Idb {
    /// How a version is kept.
    pub fn keeping(&self, version: VersionId) -> Result<Keeping> {
        self.read(format_args!("look up version {}", version.short()), async |conn| {
            let query = sql::query("SELECT * FROM versions WHERE id = $1");
            let row = query.bind(version.to_string()).fetch_optional(conn).await?;
            row.as_ref().map_or_else(|| Ok(Keeping::default()), keeping)
        })
    }

    /// The versions that were given up and are not removed yet.
    pub fn expired_versions(&self) -> Result<Vec<VersionId>> {
        self.read(format_args!("list the versions that expired"), async |conn| {
            let sql = "SELECT id FROM versions WHERE expired_us IS NOT NULL";
            let rows = sql::query(sql).fetch_all(conn).await?;
            rows.iter().map(|row| crate::decode::parsed(row, "id")).collect()
        })
    }

    /// All versions, each with how it is kept. One of which nothing was committed builds on nothing.
    pub fn versions_kept(&self) -> Result<Vec<(Version, Keeping)>> {
        self.read(format_args!("list the versions"), async |conn| {
            let rows = sql::query("SELECT * FROM versions").fetch_all(&mut *conn).await?;
            let bare = bare(conn).await?;
            let kept = |row| {
                let version = crate::versions::objects::version(row)?;
                let base = version.base.filter(|_| !bare.contains(&version.id));
                Ok((Version { base, ..version }, keeping(row)?))
            };
            rows.iter().map(kept).collect()
        })
    }

    /// Sets until when a version and its catalog are kept, as far as given. One that expired stays so.
    pub fn set_protection(
        &self,
        version: VersionId,
        protection: Option<Protection>,
        catalog: Option<Protection>,
    ) -> Result<()> {
        self.write(format_args!("protect version {}", version.short()), async |conn| {
            crate::versions::objects::refuse_expired(conn, version).await?;
            let set = [
                ("UPDATE versions SET protected_until_us = $2 WHERE id = $1", protection),
                ("UPDATE versions SET catalog_until_us = $2 WHERE id = $1", catalog),
            ];
            for (sql, value) in set {
                let Some(value) = value else { continue };
                let update = sql::query(sql).bind(version.to_string()).bind(value.column());
                if update.execute(&mut *conn).await?.rows_affected() == 0 {
                    let id = version.to_string();
                    return Err(IdbError::Unknown { what: "version", id }.into());
                }
            }
            Ok(())
        })
    }

    /// Takes back that versions expired; returns how many had.
    pub fn bring_back(&self, versions: &[VersionId]) -> Result<u64> {
        self.write_many(format_args!("bring back {} versions", versions.len()), async |conn| {
            let mut n = 0;
            for version in versions {
                let sql = "UPDATE versions SET expired_us = NULL \
                           WHERE id = $1 AND expired_us IS NOT NULL";
                let query = sql::query(sql).bind(version.to_string());
                n += query.execute(&mut *conn).await?.rows_affected();
            }
            Ok(n)
        })
    }

    /// Takes over the protection that a medium records, where nothing was said here.
    pub fn import_protection(&self, version: VersionId, found: Protection) -> Result<()> {
        self.write(format_args!("protect version {}", version.short()), async |conn| {
            let sql = "UPDATE versions SET protected_until_us = $2 \
                       WHERE id = $1 AND protected_until_us IS NULL";
            sql::query(sql).bind(version.to_string()).bind(found.column()).execute(conn).await?;
            Ok(())
        })
    }

    /// Locks a version, and those it builds on, until at least that time. One that expired is not locked.
    pub fn lock(&self, version: VersionId, with: &[VersionId], until_us: i64) -> Result<()> {
        self.write(format_args!("lock version {}", version.short()), async |conn| {
            crate::versions::objects::refuse_expired(conn, version).await?;
            let locks: Vec<_> = with.iter().map(|id| (*id, until_us)).collect();
            raise_locks(conn, &locks).await
        })
    }

    /// Records locks found on media. A lock is never shortened.
    pub fn raise_locks(&self, locks: &[(VersionId, i64)]) -> Result<()> {
        if locks.is_empty() {
            return Ok(());
        }
        self.write(format_args!("lock {} versions", locks.len()), async |conn| {
            raise_locks(conn, locks).await
        })
    }
}

pub(crate) async fn raise_locks(
    conn: &mut Conn<'_>,
    locks: &[(VersionId, i64)],
) -> std::result::Result<(), Fault> {
    for (version, until) in locks {
        sql::query(
            "UPDATE versions SET locked_until_us = $2 \
             WHERE id = $1 AND (locked_until_us IS NULL OR locked_until_us < $2)",
        )
        .bind(version.to_string())
        .bind(*until)
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

pub(crate) fn keeping(row: &Row) -> std::result::Result<Keeping, Fault> {
    Ok(Keeping {
        protection: Protection::of_column(row.try_get("protected_until_us")?),
        catalog: Protection::of_column(row.try_get("catalog_until_us")?),
        locked_until_us: row.try_get("locked_until_us")?,
        expired_us: row.try_get("expired_us")?,
    })
}
