//! What an administrator decided about media, and what happened to them.

use capstan_format::id::{MediumId, VersionId};

use crate::db::{Conn, Idb};
use crate::decode::{self, Fault, Row};
use crate::media::pools::RotationSet;
use crate::{Result, sql};

/// What is kept of a medium beside what it says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Management {
    /// The pool it is in.
    pub pool: Option<String>,
    /// The rotation set of that pool.
    pub rotation_set: Option<RotationSet>,
    /// When it was first initialised, in microseconds since 1970.
    pub first_us: i64,
    /// Sessions that wrote on it before it was last recycled.
    pub passes: u64,
    /// Failed writes that tell on the medium, and damage, as far as no proof took them back.
    pub errors: u64,
    /// When damage was found that no later verification took back.
    pub damaged_us: Option<i64>,
    /// When it was found to have no room left, of a medium that does not say so by itself.
    pub full_us: Option<i64>,
    /// Names of the drives that asked to be cleaned while it was in them, in its whole life.
    pub cleaning_drives: Vec<String>,
    /// When it left the house, or the last of its tapes that did.
    pub exported_us: Option<i64>,
    /// Where it went, or these tapes did.
    pub exported_to: Option<String>,
    /// Of an array of which not all tapes left together: those that did. The others are in the house.
    pub tapes_out: Vec<ExportedTape>,
    /// When it was given up: nothing is written to it any more.
    pub retired_us: Option<i64>,
    /// The other cell that it says itself that it is of.
    pub other_cell: Option<String>,
    /// When it was made this cell's all the same.
    pub adopted_us: Option<i64>,
    /// Since when it is known that it is not as it was last written.
    pub changed_us: Option<i64>,
    /// What differs.
    pub changed_why: Option<String>,
    /// How often robots loaded its tape, as far as this cell did it.
    pub loads: u64,
    /// What its tape holds, in bytes, where a drive said so.
    pub capacity: Option<u64>,
    /// Bytes of that which were written when a drive was asked last.
    pub used: Option<u64>,
}

impl Management {
    /// Whether it is another cell's, and was not made this one's.
    pub fn is_other_cells(&self) -> bool {
        self.other_cell.is_some() && self.adopted_us.is_none()
    }

    /// When a tape of the medium left the house, and where it went, if it did.
    pub fn tape_exported(&self, tape: &str) -> Option<(i64, &str)> {
        if self.tapes_out.is_empty() {
            return Some((self.exported_us?, self.exported_to.as_deref().unwrap_or_default()));
        }
        let out = self.tapes_out.iter().find(|out| out.tape == tape)?;
        Some((out.exported_us, &out.exported_to))
    }
}

/// A tape of an array that left the house.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedTape {
    /// The tape, as it is named in the array's device.
    pub tape: String,
    /// When it left.
    pub exported_us: i64,
    /// Where it went; empty where nobody said.
    pub exported_to: String,
}

/// What lies on a medium, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Segments.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sessions that wrote them.
    pub sessions: u64,
    /// When the last of them was committed, in microseconds since 1970.
    pub last_us: Option<i64>,
    /// When the last run began that wrote some of them, in microseconds since 1970.
    pub run_us: Option<i64>,
    /// Where the last of these sessions comes in the order in which sessions were begun, whatever the clock said then.
    pub last_order: Option<i64>,
}

impl Idb {
    /// What is kept of a medium; of one without a row, that it has no history.
    pub fn management(&self, medium: MediumId) -> Result<Management> {
        self.read(format_args!("look up medium {}", medium.short()), async |conn| {
            let sql = "SELECT m.created_us, g.*, (SELECT COUNT(*) FROM exported_tapes t \
                       WHERE t.medium_id = m.id) AS tapes_out FROM media m \
                       LEFT JOIN media_management g ON g.medium_id = m.id WHERE m.id = $1";
            let id = medium.to_string();
            let row = sql::query(sql).bind(&id).fetch_optional(&mut *conn).await?;
            let Some(row) = row else { return Ok(Management::default()) };
            let mut of = management(&row)?;
            if decode::count::<u64>(&row, "tapes_out")? > 0 {
                of.tapes_out = tapes_of(conn, &id).await?;
                of.exported_us = of.tapes_out.iter().map(|out| out.exported_us).max();
                of.exported_to = Some(places(&of.tapes_out));
            }
            Ok(of)
        })
    }

    /// What lies on a medium.
    pub fn holdings(&self, medium: MediumId) -> Result<Holdings> {
        self.read(format_args!("look up medium {}", medium.short()), async |conn| {
            let row = sql::query(
                "SELECT COUNT(*) AS segments, CAST(COALESCE(SUM(g.bytes), 0) AS BIGINT) AS bytes, \
                 COUNT(DISTINCT g.session_id) AS sessions, MAX(g.committed_us) AS last_us, \
                 MAX(COALESCE(s.run_us, s.started_us)) AS run_us, MAX(s.begin_order) AS last_order \
                 FROM segment_places l JOIN segments g ON g.id = l.segment_id \
                 LEFT JOIN sessions s ON s.id = g.session_id \
                 WHERE l.medium_id = $1",
            )
            .bind(medium.to_string())
            .fetch_one(conn)
            .await?;
            Ok(Holdings {
                segments: decode::count(&row, "segments")?,
                bytes: decode::count(&row, "bytes")?,
                sessions: decode::count(&row, "sessions")?,
                last_us: row.try_get("last_us")?,
                run_us: row.try_get("run_us")?,
                last_order: row.try_get("last_order")?,
            })
        })
    }

    /// The versions of which something lies on a medium, each once; also if that is no more than the end of a session, without
    /// which an import would not know that it was completed.
    pub fn versions_on_medium(&self, medium: MediumId) -> Result<Vec<VersionId>> {
        self.read(format_args!("look up medium {}", medium.short()), async |conn| {
            let rows = sql::query(
                "SELECT p.version_id FROM stream_parts p \
                 JOIN segment_places l ON l.segment_id = p.segment_id \
                 WHERE l.medium_id = $1 \
                 UNION SELECT s.version_id FROM segment_places l \
                 JOIN segments g ON g.id = l.segment_id JOIN sessions s ON s.id = g.session_id \
                 WHERE l.medium_id = $1 AND s.version_id IS NOT NULL ORDER BY version_id",
            )
            .bind(medium.to_string())
            .fetch_all(conn)
            .await?;
            rows.iter().map(|row| decode::parsed(row, "version_id")).collect()
        })
    }

    /// Puts a medium into a pool, or into none.
    pub fn set_medium_pool(
        &self,
        medium: MediumId,
        pool: Option<&str>,
        set: Option<RotationSet>,
    ) -> Result<()> {
        self.write(format_args!("record the pool of medium {}", medium.short()), async |conn| {
            put_pool(conn, medium, pool, set).await
        })
    }

    /// Records that a medium has no room left.
    pub fn set_medium_full(&self, medium: MediumId, at_us: i64) -> Result<()> {
        self.write(format_args!("record medium {}", medium.short()), async |conn| {
            ensure(conn, medium).await?;
            let sql = "UPDATE media_management SET full_us = $2 WHERE medium_id = $1";
            sql::query(sql).bind(medium.to_string()).bind(at_us).execute(conn).await?;
            Ok(())
        })
    }

    /// Counts that a robot loaded a tape.
    pub fn add_load(&self, medium: MediumId) -> Result<()> {
        self.write(format_args!("count a load of medium {}", medium.short()), async |conn| {
            ensure(conn, medium).await?;
            let sql = "UPDATE media_management SET loads = loads + 1 WHERE medium_id = $1";
            sql::query(sql).bind(medium.to_string()).execute(conn).await?;
            Ok(())
        })
    }

    /// Records how many bytes a tape holds, and how many of them are written.
    pub fn set_medium_use(&self, medium: MediumId, capacity: u64, used: u64) -> Result<()> {
        let bytes = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.write(format_args!("record the use of medium {}", medium.short()), async |conn| {
            ensure(conn, medium).await?;
            let sql = "UPDATE media_management SET capacity = $2, used = $3 WHERE medium_id = $1";
            let query = sql::query(sql).bind(medium.to_string());
            query.bind(bytes(capacity)).bind(bytes(used)).execute(conn).await?;
            Ok(())
        })
    }

    /// Records that a drive asked to be cleaned while a tape was in it. Returns in how many it did so by now.
    pub fn add_cleaning_drive(&self, medium: MediumId, drive: &str) -> Result<usize> {
        self.write(format_args!("record medium {}", medium.short()), async |conn| {
            ensure(conn, medium).await?;
            let sql = "SELECT cleaning_drives FROM media_management WHERE medium_id = $1";
            let row = sql::query(sql).bind(medium.to_string()).fetch_optional(&mut *conn).await?;
            let mut drives = row.as_ref().map_or(Ok(Vec::new()), cleaning_drives)?;
            if !drives.iter().any(|known| known == drive) {
                drives.push(drive.to_owned());
                let sql = "UPDATE media_management SET cleaning_drives = $2 WHERE medium_id = $1";
                let query = sql::query(sql).bind(medium.to_string());
                query.bind(serde_json::to_string(&drives).ok()).execute(conn).await?;
            }
            Ok(drives.len())
        })
    }

    /// Records that a medium has no damage any more. Where it was `mended` the error that the damage was is taken back; where it was
    /// only read and found sound, nobody knows why it was not before.
    pub fn clear_medium_damage(&self, medium: MediumId, mended: bool) -> Result<()> {
        self.write(format_args!("record medium {}", medium.short()), async |conn| {
            let sql = "UPDATE media_management SET damaged_us = NULL, \
                       errors = CASE WHEN errors > $2 THEN errors - $2 ELSE 0 END \
                       WHERE medium_id = $1 AND damaged_us IS NOT NULL";
            let query = sql::query(sql).bind(medium.to_string()).bind(i64::from(mended));
            query.execute(&mut *conn).await?;
            let sql = "UPDATE segment_places SET damaged_us = NULL, bytes = NULL \
                       WHERE medium_id = $1 AND damaged_us IS NOT NULL";
            sql::query(sql).bind(medium.to_string()).execute(conn).await?;
            Ok(())
        })
    }

    /// Records that a medium was given up.
    pub fn set_medium_retired(&self, medium: MediumId, at_us: i64) -> Result<()> {
        self.write(format_args!("record medium {}", medium.short()), async |conn| {
            ensure(conn, medium).await?;
            let sql = "UPDATE media_management SET retired_us = $2 WHERE medium_id = $1";
            sql::query(sql).bind(medium.to_string()).bind(at_us).execute(conn).await?;
            Ok(())
        })
    }

    /// Records which other cell a medium says that it is of, if it does.
    pub fn set_medium_other_cell(&self, medium: MediumId, other: Option<&str>) -> Result<()> {
        self.write(format_args!("record medium {}", medium.short()), async |conn| {
            if other.is_some() {
                ensure(conn, medium).await?;
            }
            let sql = "UPDATE media_management SET other_cell = $2 WHERE medium_id = $1";
            sql::query(sql).bind(medium.to_string()).bind(other).execute(conn).await?;
            Ok(())
        })
    }

    /// Records that a medium, which says itself that it is another cell's, is this one's.
    pub fn set_medium_adopted(&self, medium: MediumId, at_us: i64) -> Result<()> {
        self.write(format_args!("record medium {}", medium.short()), async |conn| {
            ensure(conn, medium).await?;
            let sql = "UPDATE media_management SET adopted_us = $2 WHERE medium_id = $1";
            sql::query(sql).bind(medium.to_string()).bind(at_us).execute(conn).await?;
            Ok(())
        })
    }

    /// Records that a medium was found not to be as it was last written, and what differs; or that it is as recorded.
    pub fn set_medium_changed(&self, medium: MediumId, changed: Option<(i64, &str)>) -> Result<()> {
        self.write(format_args!("record medium {}", medium.short()), async |conn| {
            if changed.is_some() {
                ensure(conn, medium).await?;
            }
            // Since when stays with what was found first.
            let sql = "UPDATE media_management SET \
                       changed_us = CASE WHEN $3 IS NULL THEN NULL ELSE COALESCE(changed_us, $2) END, \
                       changed_why = $3 WHERE medium_id = $1";
            let query = sql::query(sql).bind(medium.to_string());
            query.bind(changed.map(|c| c.0)).bind(changed.map(|c| c.1)).execute(conn).await?;
            Ok(())
        })
    }

    /// The media that were found not to be as they were last written.
    pub fn changed_media(&self) -> Result<Vec<MediumId>> {
        self.read(format_args!("list the media that were changed"), async |conn| {
            let sql = "SELECT medium_id FROM media_management WHERE changed_us IS NOT NULL";
            let rows = sql::query(sql).fetch_all(conn).await?;
            rows.iter().map(|row| decode::parsed(row, "medium_id")).collect()
        })
    }

    /// Records that a medium is in use again: it was the drives' fault that they asked to be cleaned, or could
    /// not write. Damage that is there still is an error.
    pub fn unretire_medium(&self, medium: MediumId) -> Result<()> {
        self.write(format_args!("record medium {}", medium.short()), async |conn| {
            let sql = "UPDATE media_management SET retired_us = NULL, cleaning_drives = NULL, \
                       errors = CASE WHEN damaged_us IS NULL THEN 0 ELSE 1 END, error_us = NULL \
                       WHERE medium_id = $1";
            sql::query(sql).bind(medium.to_string()).execute(conn).await?;
            Ok(())
        })
    }

    /// The media that were given up.
    pub fn retired_media(&self) -> Result<Vec<MediumId>> {
        self.read(format_args!("list the media that are retired"), async |conn| {
            let sql = "SELECT medium_id FROM media_management WHERE retired_us IS NOT NULL";
            let rows = sql::query(sql).fetch_all(conn).await?;
            rows.iter().map(|row| decode::parsed(row, "medium_id")).collect()
        })
    }
}

/// The tapes of an array that left the house.
pub(crate) async fn tapes_of(
    conn: &mut Conn<'_>,
    array: &str,
) -> std::result::Result<Vec<ExportedTape>, Fault> {
    let sql = "SELECT * FROM exported_tapes WHERE medium_id = $1 ORDER BY tape";
    let rows = sql::query(sql).bind(array).fetch_all(conn).await?;
    let tape = |row: &Row| {
        Ok(ExportedTape {
            tape: row.try_get("tape")?,
            exported_us: row.try_get("exported_us")?,
            exported_to: row.try_get("exported_to")?,
        })
    };
    rows.iter().map(tape).collect()
}

/// Where tapes are, each place once.
fn places(out: &[ExportedTape]) -> String {
    let mut places: Vec<&str> = Vec::new();
    for of in out {
        if !of.exported_to.is_empty() && !places.contains(&of.exported_to.as_str()) {
            places.push(&of.exported_to);
        }
    }
    places.join("; ")
}

pub(crate) async fn put_pool(
    conn: &mut Conn<'_>,
    medium: MediumId,
    pool: Option<&str>,
    set: Option<RotationSet>,
) -> std::result::Result<(), Fault> {
    ensure(conn, medium).await?;
    let sql = "UPDATE media_management SET pool = $2, rotation_set = $3 WHERE medium_id = $1";
    let query = sql::query(sql).bind(medium.to_string()).bind(pool);
    query.bind(set.map(|set| set.to_string())).execute(conn).await?;
    Ok(())
}

/// Makes the row of a medium that has none. One that is not recorded gets none.
pub(crate) async fn ensure(
    conn: &mut Conn<'_>,
    medium: MediumId,
) -> std::result::Result<(), Fault> {
    sql::query(
        "INSERT INTO media_management (medium_id, first_us, passes, errors) \
         SELECT id, created_us, 0, 0 FROM media WHERE id = $1 \
         ON CONFLICT (medium_id) DO NOTHING",
    )
    .bind(medium.to_string())
    .execute(conn)
    .await?;
    Ok(())
}

fn cleaning_drives(row: &Row) -> std::result::Result<Vec<String>, Fault> {
    let list: Option<String> = row.try_get("cleaning_drives")?;
    Ok(list.and_then(|list| serde_json::from_str(&list).ok()).unwrap_or_default())
}

fn management(row: &Row) -> std::result::Result<Management, Fault> {
    let known: Option<&str> = row.try_get("medium_id")?;
    if known.is_none() {
        return Ok(Management { first_us: row.try_get("created_us")?, ..Management::default() });
    }
    Ok(Management {
        pool: row.try_get("pool")?,
        rotation_set: decode::parsed_opt(row, "rotation_set")?,
        first_us: row.try_get("first_us")?,
        passes: decode::count(row, "passes")?,
        errors: decode::count(row, "errors")?,
        damaged_us: row.try_get("damaged_us")?,
        full_us: row.try_get("full_us")?,
        cleaning_drives: cleaning_drives(row)?,
        exported_us: row.try_get("exported_us")?,
        exported_to: row.try_get("exported_to")?,
        tapes_out: Vec::new(),
        retired_us: row.try_get("retired_us")?,
        other_cell: row.try_get("other_cell")?,
        adopted_us: row.try_get("adopted_us")?,
        changed_us: row.try_get("changed_us")?,
        changed_why: row.try_get("changed_why")?,
        loads: decode::count(row, "loads")?,
        capacity: decode::count_opt(row, "capacity")?,
        used: decode::count_opt(row, "used")?,
    })
}
