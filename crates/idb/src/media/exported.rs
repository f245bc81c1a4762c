//! Media that left the house: each as a whole, or, of an array, the tapes that did.

use capstan_format::id::MediumId;

use crate::db::{Conn, Idb};
use crate::decode::{self, Fault};
use crate::media::leaving;
use crate::media::managed::{ExportedTape, Management, ensure, tapes_of};
use crate::{Result, sql};

impl Idb {
    /// The media that left the house, or of which tapes did.
    pub fn exported_media(&self) -> Result<Vec<MediumId>> {
        self.read(format_args!("list the media that are out of the house"), async |conn| {
            let sql = "SELECT medium_id FROM media_management WHERE exported_us IS NOT NULL \
                       UNION SELECT medium_id FROM exported_tapes";
            let rows = sql::query(sql).fetch_all(conn).await?;
            rows.iter().map(|row| decode::parsed(row, "medium_id")).collect()
        })
    }

    /// Records that a medium left the house with all its tapes, and where it went; or that it came back.
    pub fn set_medium_exported(&self, medium: MediumId, to: Option<(i64, &str)>) -> Result<()> {
        self.write(format_args!("record where medium {} is", medium.short()), async |conn| {
            forget(conn, &medium.to_string()).await?;
            set_whole(conn, medium, to).await
        })
    }

    /// Records that a tape of an array left the house, and where it went. What is recorded of the array as a whole is said of each of its
    /// `tapes` then.
    pub fn export_tape(
        &self,
        array: MediumId,
        tapes: &[String],
        tape: &str,
        (at_us, to): (i64, &str),
    ) -> Result<()> {
        self.write(format_args!("record where medium {} is", array.short()), async |conn| {
            split(conn, array, tapes).await?;
            let out = ExportedTape {
                tape: tape.to_owned(),
                exported_us: at_us,
                exported_to: to.to_owned(),
            };
            put(conn, &array.to_string(), &out).await
        })
    }

    /// Records which of the `tapes` of an array came back; the others stay where they are.
    pub fn return_tapes(&self, array: MediumId, tapes: &[String], back: &[String]) -> Result<()> {
        self.write(format_args!("record where medium {} is", array.short()), async |conn| {
            split(conn, array, tapes).await?;
            remove(conn, &array.to_string(), back).await
        })
    }

    /// Forgets the tapes that left the house and are not of the array any more, which has these `tapes`.
    pub fn forget_other_tapes(&self, array: MediumId, tapes: &[String]) -> Result<()> {
        self.write(format_args!("record where medium {} is", array.short()), async |conn| {
            let id = array.to_string();
            let mut others = tapes_of(conn, &id).await?;
            others.retain(|out| !tapes.contains(&out.tape));
            let others: Vec<String> = others.into_iter().map(|out| out.tape).collect();
            remove(conn, &id, &others).await
        })
    }

    /// Records that a medium is where it was before, with its tapes.
    pub fn set_exported_as(&self, medium: MediumId, before: &Management) -> Result<()> {
        self.write(format_args!("record where medium {} is", medium.short()), async |conn| {
            let id = medium.to_string();
            forget(conn, &id).await?;
            let to = before.exported_to.as_deref().unwrap_or_default();
            let whole = before.exported_us.filter(|_| before.tapes_out.is_empty());
            set_whole(conn, medium, whole.map(|us| (us, to))).await?;
            for out in &before.tapes_out {
                put(conn, &id, out).await?;
            }
            Ok(())
        })
    }
}

/// Forgets which tapes of an array left the house, and which of a medium are to.
pub(crate) async fn forget(conn: &mut Conn<'_>, array: &str) -> std::result::Result<(), Fault> {
    leaving::forget(conn, array, None).await?;
    let sql = "DELETE FROM exported_tapes WHERE medium_id = $1";
    sql::query(sql).bind(array).execute(conn).await?;
    Ok(())
}

async fn set_whole(
    conn: &mut Conn<'_>,
    medium: MediumId,
    to: Option<(i64, &str)>,
) -> std::result::Result<(), Fault> {
    if to.is_some() {
        ensure(conn, medium).await?;
    }
    let sql = "UPDATE media_management SET exported_us = $2, exported_to = $3 WHERE medium_id = $1";
    let query = sql::query(sql).bind(medium.to_string());
    query.bind(to.map(|to| to.0)).bind(to.map(|to| to.1)).execute(conn).await?;
    Ok(())
}

/// Says of each tape of an array what is recorded of the array as a whole.
async fn split(
    conn: &mut Conn<'_>,
    array: MediumId,
    tapes: &[String],
) -> std::result::Result<(), Fault> {
    let id = array.to_string();
    let sql = "SELECT exported_us, exported_to FROM media_management \
               WHERE medium_id = $1 AND exported_us IS NOT NULL";
    let Some(row) = sql::query(sql).bind(&id).fetch_optional(&mut *conn).await? else {
        return Ok(());
    };
    let to: Option<String> = row.try_get("exported_to")?;
    let (exported_us, exported_to) = (row.try_get("exported_us")?, to.unwrap_or_default());
    for tape in tapes {
        let (tape, exported_to) = (tape.clone(), exported_to.clone());
        put(conn, &id, &ExportedTape { tape, exported_us, exported_to }).await?;
    }
    set_whole(conn, array, None).await
}

async fn put(
    conn: &mut Conn<'_>,
    array: &str,
    out: &ExportedTape,
) -> std::result::Result<(), Fault> {
    leaving::forget(conn, array, Some(&out.tape)).await?;
    sql::query(
        "INSERT INTO exported_tapes (medium_id, tape, exported_us, exported_to) \
         VALUES ($1, $2, $3, $4) ON CONFLICT (medium_id, tape) DO UPDATE SET \
         exported_us = excluded.exported_us, exported_to = excluded.exported_to",
    )
    .bind(array)
    .bind(&out.tape)
    .bind(out.exported_us)
    .bind(&out.exported_to)
    .execute(conn)
    .await?;
    Ok(())
}

async fn remove(
    conn: &mut Conn<'_>,
    array: &str,
    tapes: &[String],
) -> std::result::Result<(), Fault> {
    let sql = "DELETE FROM exported_tapes WHERE medium_id = $1 AND tape = $2";
    for tape in tapes {
        leaving::forget(conn, array, Some(tape)).await?;
        sql::query(sql).bind(array).bind(tape).execute(&mut *conn).await?;
    }
    Ok(())
}
