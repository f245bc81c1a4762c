//! Whose tables a database on a server are: those of one cell, which its home knows by a file.
//!
//! A file of the home cannot be taken for another's; a database that is named by an address can. So the home keeps the
//! identity of its cell in `postgres.cell` and holds it against the one that the tables have: a mistaken address, a home
//! that was copied, and a database that was made anew are found before anything is recorded.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;

use capstan_engine::durable;
use capstan_engine::problem::Problem;

use crate::Result;
use crate::db::Idb;
use crate::error::IdbError;
use crate::home::cell_file::{CELL_FILE, NEW_CELL_FILE, cell_of};
use crate::home::config::FILE_NAME;
use crate::home::files::lock_dir;

/// The setting with the identity of the cell.
pub(crate) const CELL: &str = "cell";

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
            (Some(here), None) => Err(IdbError::Mismatch(Problem::new(format!("the database {} is not that in which the home {} had its tables (cell {here}): it has none", self.place(), self.home().display())).hint(format!("bring that one back, or remove {CELL_FILE} to begin with empty tables and import the media")))),
        }
    }

    fn belongs_to(&self, cell: &str) -> IdbError {
        IdbError::Mismatch(Problem::new(format!("the database {} has the tables of cell {cell}, which is not that of the home {}", self.place(), self.home().display())).hint(format!("name another database in {FILE_NAME}, or, if they are this home's own, write {cell} into its \
                 {CELL_FILE}")))
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
