//! The errors that count against a medium, and how they are taken back.

use capstan_format::id::MediumId;

use crate::db::Idb;
use crate::media::managed::ensure;
use crate::{Result, decode, sql};

impl Idb {
    /// Counts an error of a medium, which happened then: a write that failed, or damage. Damage is one error as long as it is there,
    /// however often it is found.
    pub fn add_medium_error(&self, medium: MediumId, at_us: i64, is_damage: bool) -> Result<()> {
        self.write(format_args!("record an error of medium {}", medium.short()), async |conn| {
            ensure(conn, medium).await?;
            let sql = match is_damage {
                true => {
                    "UPDATE media_management SET \
                     errors = errors + CASE WHEN damaged_us IS NULL THEN 1 ELSE 0 END, \
                     error_us = CASE WHEN damaged_us IS NULL THEN $2 ELSE error_us END, \
                     damaged_us = COALESCE(damaged_us, $2) WHERE medium_id = $1"
                }
                false => {
                    "UPDATE media_management SET errors = errors + 1, error_us = $2 \
                     WHERE medium_id = $1"
                }
            };
            sql::query(sql).bind(medium.to_string()).bind(at_us).execute(conn).await?;
            Ok(())
        })
    }

    /// Takes back one error of a medium, which was none of its own. Damage stays.
    pub fn take_back_error(&self, medium: MediumId) -> Result<()> {
        self.write(format_args!("record medium {}", medium.short()), async |conn| {
            let sql = "UPDATE media_management SET errors = errors - 1 WHERE medium_id = $1 \
                       AND errors > CASE WHEN damaged_us IS NULL THEN 0 ELSE 1 END";
            sql::query(sql).bind(medium.to_string()).execute(conn).await?;
            Ok(())
        })
    }

    /// Takes back all errors of a medium that has no damage.
    pub fn forgive_errors(&self, medium: MediumId) -> Result<()> {
        self.write(format_args!("record medium {}", medium.short()), async |conn| {
            let sql = "UPDATE media_management SET errors = 0, error_us = NULL \
                       WHERE medium_id = $1 AND damaged_us IS NULL AND errors > 0";
            sql::query(sql).bind(medium.to_string()).execute(conn).await?;
            Ok(())
        })
    }

    /// The media that have errors, and no damage.
    pub fn media_with_errors(&self) -> Result<Vec<MediumId>> {
        self.read(format_args!("list the media that have errors"), async |conn| {
            let sql = "SELECT medium_id FROM media_management \
                       WHERE errors > 0 AND damaged_us IS NULL";
            let rows = sql::query(sql).fetch_all(conn).await?;
            rows.iter().map(|row| decode::parsed(row, "medium_id")).collect()
        })
    }

    /// Of how many sessions something was committed to a medium since its last error.
    pub fn sessions_since_error(&self, medium: MediumId) -> Result<u64> {
        self.read(format_args!("look up medium {}", medium.short()), async |conn| {
            let sql = "SELECT COUNT(DISTINCT g.session_id) AS sessions FROM segment_places l \
                       JOIN segments g ON g.id = l.segment_id \
                       JOIN media_management m ON m.medium_id = l.medium_id \
                       WHERE l.medium_id = $1 AND g.committed_us > COALESCE(m.error_us, 0)";
            let row = sql::query(sql).bind(medium.to_string()).fetch_one(conn).await?;
            decode::count(&row, "sessions")
        })
    }
}
