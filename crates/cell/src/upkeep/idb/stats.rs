//! `idb stats`: how much is recorded.

use capstan_idb::{CountedTable, Sizes};

use super::backup::BACKED_UP;
use crate::Cell;
use crate::error::Result;
use crate::session::rfc3339;

/// How much the internal database has.
#[derive(Debug, Clone)]
pub struct IdbStats {
    /// Where the tables are: their file, or the address of a server without a password.
    pub place: String,
    /// Rows by kind.
    pub rows: Vec<(&'static str, u64)>,
    /// Bytes and files.
    pub sizes: Sizes,
    /// Bytes on all media, each copy counted.
    pub media_bytes: u64,
    /// Its own backup.
    pub backup: StatsBackup,
}

/// How the database is backed up itself.
#[derive(Debug, Clone)]
pub struct StatsBackup {
    /// Whether a recovery key was made.
    pub has_recovery_key: bool,
    /// When it was last written to a medium, RFC 3339.
    pub last: Option<String>,
}

impl Cell {
    /// How much is recorded.
    pub fn idb_stats(&self) -> Result<IdbStats> {
        let mut rows = Vec::new();
        for table in CountedTable::ALL {
            rows.push((table.name(), self.idb.count_rows(table)?));
        }
        let mut media_bytes: u64 = 0;
        for medium in self.idb.media()? {
            media_bytes = media_bytes.saturating_add(self.idb.holdings(medium.id)?.bytes);
        }
        let last = self.idb.setting(BACKED_UP)?.and_then(|us| us.parse::<i64>().ok());
        Ok(IdbStats {
            place: self.idb.place().to_owned(),
            rows,
            sizes: self.idb.sizes()?,
            media_bytes,
            backup: StatsBackup {
                has_recovery_key: self.recovery_ring()?.is_some(),
                last: last.map(rfc3339),
            },
        })
    }
}
