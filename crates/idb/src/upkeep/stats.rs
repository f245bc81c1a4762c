//! How much is recorded.

use crate::db::Idb;
use crate::{Result, sql};

impl Idb {
    /// How many rows a table has.
    pub fn count_rows(&self, table: CountedTable) -> Result<u64> {
        self.read(format_args!("count rows"), async |conn| {
            let row = sql::query(table.sql()).fetch_one(conn).await?;
            let count: i64 = row.try_get("rows")?;
            Ok(u64::try_from(count).unwrap_or(0))
        })
    }
}

/// A table whose rows can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountedTable {
    /// Objects.
    Objects,
    /// Versions.
    Versions,
    /// Sessions.
    Sessions,
    /// Media.
    Media,
    /// Segments.
    Segments,
    /// Places of segments.
    Places,
    /// Keys.
    Keys,
}

impl CountedTable {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Objects,
        Self::Versions,
        Self::Sessions,
        Self::Media,
        Self::Segments,
        Self::Places,
        Self::Keys,
    ];

    /// What its rows are called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Objects => "objects",
            Self::Versions => "versions",
            Self::Sessions => "sessions",
            Self::Media => "media",
            Self::Segments => "segments",
            Self::Places => "places of segments",
            Self::Keys => "keys",
        }
    }

    const fn sql(self) -> &'static str {
        match self {
            Self::Objects => "SELECT COUNT(*) AS rows FROM objects",
            Self::Versions => "SELECT COUNT(*) AS rows FROM versions",
            Self::Sessions => "SELECT COUNT(*) AS rows FROM sessions",
            Self::Media => "SELECT COUNT(*) AS rows FROM media",
            Self::Segments => "SELECT COUNT(*) AS rows FROM segments",
            Self::Places => "SELECT COUNT(*) AS rows FROM segment_places",
            Self::Keys => "SELECT COUNT(*) AS rows FROM wrapped_keys",
        }
    }
}
