//! What was found on tapes of libraries that hold no medium that is known.

use std::fmt;
use std::str::FromStr;

use crate::db::Idb;
use crate::decode::{self, Fault, Row};
use crate::{Result, sql};

/// What a tape is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TapeIs {
    /// Nothing is on it.
    Blank,
    /// Something is on it that is not of Capstan.
    Foreign,
    /// Its tab is set.
    WriteProtected,
    /// The drive cannot read it.
    Unreadable,
    /// It has a medium of another cell.
    OtherCell,
    /// It is a member of an array.
    Member,
    /// Its drives do not take tapes of its kind.
    Unsuited,
    /// It cleans drives.
    Cleaning,
}

impl TapeIs {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Blank,
        Self::Foreign,
        Self::WriteProtected,
        Self::Unreadable,
        Self::OtherCell,
        Self::Member,
        Self::Unsuited,
        Self::Cleaning,
    ];

    /// Its name in the tables, and in what programs read.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blank => "blank",
            Self::Foreign => "foreign",
            Self::WriteProtected => "write-protected",
            Self::Unreadable => "unreadable",
            Self::OtherCell => "other-cell",
            Self::Member => "member",
            Self::Unsuited => "unsuited",
            Self::Cleaning => "cleaning",
        }
    }
}

impl fmt::Display for TapeIs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::OtherCell => "another cell's",
            Self::Member => "part of an array",
            Self::Cleaning => "cleans",
            other => other.as_str(),
        })
    }
}

impl FromStr for TapeIs {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let found = Self::ALL.into_iter().find(|is| is.as_str() == text);
        found.ok_or_else(|| format!("'{text}' is nothing that a tape can be"))
    }
}

/// What was found on a tape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenTape {
    /// The device name of its library.
    pub library: String,
    /// What is on its sticker.
    pub barcode: String,
    /// The slot in which it belongs, from 1.
    pub slot: u32,
    /// What it is.
    pub is: TapeIs,
    /// What it seems to hold, or why it cannot be read; empty where there is no more to say.
    pub detail: String,
    /// When, in microseconds since 1970.
    pub seen_us: i64,
}

impl Idb {
    /// Records what was found on a tape, in the place of what was found before.
    pub fn put_seen_tape(&self, seen: &SeenTape) -> Result<()> {
        self.write(format_args!("record what is on tape {}", seen.barcode), async |conn| {
            sql::query(
                "INSERT INTO seen_tapes (library, barcode, slot, what, detail, seen_us) \
                 VALUES ($1, $2, $3, $4, $5, $6) \
                 ON CONFLICT (library, barcode) DO UPDATE SET slot = excluded.slot, \
                 what = excluded.what, detail = excluded.detail, seen_us = excluded.seen_us",
            )
            .bind(&seen.library)
            .bind(&seen.barcode)
            .bind(i64::from(seen.slot))
            .bind(seen.is.as_str())
            .bind(&seen.detail)
            .bind(seen.seen_us)
            .execute(conn)
            .await?;
            Ok(())
        })
    }

    /// What was found on the tapes of a library, by barcode.
    pub fn seen_tapes(&self, library: &str) -> Result<Vec<SeenTape>> {
        self.read(format_args!("look up what is on the tapes of {library}"), async |conn| {
            let sql = "SELECT * FROM seen_tapes WHERE library = $1 ORDER BY barcode";
            sql::query(sql).bind(library).fetch_all(conn).await?.iter().map(seen).collect()
        })
    }

    /// Forgets what was found on tapes of a library: on these, or on all.
    pub fn forget_seen_tapes(&self, library: &str, barcodes: Option<&[String]>) -> Result<()> {
        self.write(format_args!("forget what is on tapes of {library}"), async |conn| {
            let Some(barcodes) = barcodes else {
                let sql = "DELETE FROM seen_tapes WHERE library = $1";
                sql::query(sql).bind(library).execute(conn).await?;
                return Ok(());
            };
            for barcode in barcodes {
                let sql = "DELETE FROM seen_tapes WHERE library = $1 AND barcode = $2";
                sql::query(sql).bind(library).bind(barcode).execute(&mut *conn).await?;
            }
            Ok(())
        })
    }
}

fn seen(row: &Row) -> std::result::Result<SeenTape, Fault> {
    Ok(SeenTape {
        library: row.try_get("library")?,
        barcode: row.try_get("barcode")?,
        slot: decode::count(row, "slot")?,
        is: decode::parsed(row, "what")?,
        detail: row.try_get("detail")?,
        seen_us: row.try_get("seen_us")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_kept_by_library_and_barcode() {
        let dir = tempfile::tempdir().unwrap();
        let idb = Idb::open(&dir.path().join("home")).unwrap();
        let of = |library: &str, barcode: &str, is| SeenTape {
            library: library.to_owned(),
            barcode: barcode.to_owned(),
            slot: 3,
            is,
            detail: "it's \"tar\"".to_owned(),
            seen_us: 7,
        };
        for is in TapeIs::ALL {
            idb.put_seen_tape(&of("vtape:/v", is.as_str(), is)).unwrap();
        }
        idb.put_seen_tape(&of("vtape:/w", "A", TapeIs::Blank)).unwrap();
        idb.put_seen_tape(&of("vtape:/w", "A", TapeIs::Foreign)).unwrap();
        assert_eq!(idb.seen_tapes("vtape:/w").unwrap(), [of("vtape:/w", "A", TapeIs::Foreign)]);
        let mut all: Vec<TapeIs> =
            idb.seen_tapes("vtape:/v").unwrap().iter().map(|s| s.is).collect();
        all.sort_unstable();
        assert_eq!(all, TapeIs::ALL);
        idb.forget_seen_tapes("vtape:/v", Some(&["blank".to_owned(), "x".to_owned()])).unwrap();
        assert_eq!(idb.seen_tapes("vtape:/v").unwrap().len(), TapeIs::ALL.len() - 1);
        idb.forget_seen_tapes("vtape:/v", None).unwrap();
        assert_eq!(idb.seen_tapes("vtape:/v").unwrap(), []);
        assert_eq!(idb.seen_tapes("vtape:/w").unwrap().len(), 1);
    }
}
