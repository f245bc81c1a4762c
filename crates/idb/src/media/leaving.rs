//! Tapes that a session was to bring out of their library, and that are in there still.

use capstan_format::id::MediumId;

use crate::db::{Conn, Idb};
use crate::decode::{self, Fault, Row};
use crate::{Result, sql};

/// A tape that is to leave its library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeavingTape {
    /// Its medium.
    pub medium: MediumId,
    /// The tape, as its device is recorded.
    pub tape: String,
    /// When it was to leave, in microseconds since 1970.
    pub asked_us: i64,
    /// Where it is to go.
    pub to: String,
}

impl Idb {
    /// Records that a tape is to leave its library, until it does or its medium is taken back.
    pub fn put_leaving(&self, of: &LeavingTape) -> Result<()> {
        self.write(format_args!("record that tape {} is to leave", of.tape), async |conn| {
            sql::query(
                "INSERT INTO leaving_tapes (medium_id, tape, asked_us, leaves_to) \
                 VALUES ($1, $2, $3, $4) ON CONFLICT (medium_id, tape) DO UPDATE SET \
                 asked_us = excluded.asked_us, leaves_to = excluded.leaves_to",
            )
            .bind(of.medium.to_string())
            .bind(&of.tape)
            .bind(of.asked_us)
            .bind(&of.to)
            .execute(conn)
            .await?;
            Ok(())
        })
    }

    /// The tapes that are to leave their libraries.
    pub fn leaving(&self) -> Result<Vec<LeavingTape>> {
        self.read(format_args!("list the tapes that are to leave"), async |conn| {
            let sql = "SELECT * FROM leaving_tapes ORDER BY medium_id, tape";
            let of = |row: &Row| {
                Ok(LeavingTape {
                    medium: decode::parsed(row, "medium_id")?,
                    tape: row.try_get("tape")?,
                    asked_us: row.try_get("asked_us")?,
                    to: row.try_get("leaves_to")?,
                })
            };
            sql::query(sql).fetch_all(conn).await?.iter().map(of).collect()
        })
    }
}

/// Forgets that tapes of a medium are to leave: that one, or all.
pub(crate) async fn forget(
    conn: &mut Conn<'_>,
    medium: &str,
    tape: Option<&str>,
) -> std::result::Result<(), Fault> {
    let all = "DELETE FROM leaving_tapes WHERE medium_id = $1";
    let one = "DELETE FROM leaving_tapes WHERE medium_id = $1 AND tape = $2";
    match tape {
        None => sql::query(all).bind(medium).execute(conn).await?,
        Some(tape) => sql::query(one).bind(medium).bind(tape).execute(conn).await?,
    };
    Ok(())
}
