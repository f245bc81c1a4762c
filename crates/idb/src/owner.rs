//! Whose tables a database on a server are: those of one cell, which its home knows by a file.
//!
//! A file of the home cannot be taken for another's; a database that is named by an address can. So the home keeps the
//! identity of its cell in `postgres.cell` and holds it against the one that the tables have: a mistaken address, a home
//! that was copied, and a database that was made anew are found before anything is recorded.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use capstan_engine::{durable, regular};

use crate::Result;
use crate::config::{Config, FILE_NAME};
use crate::db::{DATABASE, Idb, lock_dir};
use crate::error::IdbError;

/// The file with the identity of the cell whose tables are on a server.
const CELL_FILE: &str = "postgres.cell";
/// The same, before the tables have it.
const NEW_CELL_FILE: &str = ".postgres.cell.new";
/// The setting with the identity of the cell.
pub(crate) const CELL: &str = "cell";

/// Refuses a home whose settings say something else than its files: nobody should begin with empty tables by mistake.
pub(crate) fn check_files(home: &Path, config: &Config) -> Result<()> {
    let file = home.join(DATABASE);
    let has_file = fs::metadata(&file).is_ok_and(|metadata| metadata.len() > 0);
    let on_server = cell_of(&home.join(CELL_FILE))?;
    match (&config.database, on_server) {
        (Some(address), _) if has_file => Err(IdbError::Mismatch(format!(
            "the tables of the home {} are in {DATABASE}, and {FILE_NAME} names {address}; `capstan idb move` copies \
             them there, or put {DATABASE} aside to begin with empty ones",
            home.display()
        ))),
        (None, Some(_)) => Err(IdbError::Mismatch(format!(
            "the home {} has its tables on a PostgreSQL server, and its {FILE_NAME} names none; put `database = \
             \"postgres://…\"` back, or remove {CELL_FILE} to begin with empty ones",
            home.display()
        ))),
        _ => Ok(()),
    }
}

impl Idb {
    /// The identity of the cell; `new` where it has none yet. Of two processes at once one decides.
    pub fn cell_or(&self, new: &str) -> Result<String> {
        if let Some(known) = self.setting(CELL)? {
            return Ok(known);
        }
        if !self.is_on_server() {
            return self.setting_or(CELL, new);
        }
        let _lock = lock_dir(&self.home().join("catalogs"))?;
        // Another process of this home may have decided meanwhile.
        let here = cell_of(&self.home().join(CELL_FILE))?;
        if let Some(here) = here
            && self.setting(CELL)?.as_ref() == Some(&here)
        {
            return Ok(here);
        }
        // Where it was cut short, it goes on with the one that was chosen.
        let chosen = cell_of(&self.home().join(NEW_CELL_FILE))?;
        let chosen = chosen.unwrap_or_else(|| new.to_owned());
        self.begin_cell_file(&chosen)?;
        let known = self.setting_or(CELL, &chosen)?;
        if known != chosen {
            self.abandon_cell_file()?;
            return Err(self.belongs_to(&known));
        }
        self.end_cell_file()?;
        Ok(known)
    }

    /// Refuses a database on a server that has not the tables of this home.
    pub(crate) fn check_cell(&self) -> Result<()> {
        let _lock = lock_dir(&self.home().join("catalogs"))?;
        let (file, new) = (self.home().join(CELL_FILE), self.home().join(NEW_CELL_FILE));
        match (cell_of(&file)?, self.setting(CELL)?) {
            (None, None) => Ok(()),
            (Some(here), Some(there)) if here == there => Ok(()),
            (None, Some(there)) if cell_of(&new)?.as_ref() == Some(&there) => self.end_cell_file(),
            (_, Some(there)) => Err(self.belongs_to(&there)),
            (Some(here), None) => Err(IdbError::Mismatch(format!(
                "the database {} is not that in which the home {} had its tables (cell {here}): it has none; bring that \
                 one back, or remove {CELL_FILE} to begin with empty tables and import the media",
                self.place(),
                self.home().display()
            ))),
        }
    }

    fn belongs_to(&self, cell: &str) -> IdbError {
        IdbError::Mismatch(format!(
            "the database {} has the tables of cell {cell}, which is not that of the home {}; name another database in \
             {FILE_NAME}, or, if they are this home's own, write {cell} into its {CELL_FILE}",
            self.place(),
            self.home().display()
        ))
    }

    /// Writes down whose tables will be in the database.
    pub(crate) fn begin_cell_file(&self, cell: &str) -> Result<()> {
        let path = self.home().join(NEW_CELL_FILE);
        let write = || {
            let mut options = OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
            writeln!(file, "{cell}\n{}", self.place())?;
            file.sync_all()?;
            durable::synchronise_name(&path)
        };
        write().map_err(|e| IdbError::io("write", &path, e))
    }

    /// Writes down that they are.
    pub(crate) fn end_cell_file(&self) -> Result<()> {
        let path = self.home().join(CELL_FILE);
        durable::rename(&self.home().join(NEW_CELL_FILE), &path)
            .map_err(|e| IdbError::io("write", &path, e))
    }

    /// Takes back that they will be.
    pub(crate) fn abandon_cell_file(&self) -> Result<()> {
        let path = self.home().join(NEW_CELL_FILE);
        fs::remove_file(&path).map_err(|e| IdbError::io("remove", &path, e))
    }
}

/// The longest file that says whose tables there are, bytes: an identity and an address.
const SIZE_MAX: u64 = 1 << 16;

/// The identity that a file has in its first line; nothing if there is no such file.
fn cell_of(path: &Path) -> Result<Option<String>> {
    match regular::read_text(path, SIZE_MAX) {
        Ok(text) => Ok(text.lines().next().map(|line| line.trim().to_owned())),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(IdbError::io("read", path, e)),
    }
}
