//! The file of a home that says whose tables on a server are its own.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use capstan_engine::problem::Problem;
use capstan_engine::regular;

use super::config::{Config, FILE_NAME};
use super::files::DATABASE;
use crate::Result;
use crate::error::IdbError;

/// The file with the identity of the cell whose tables are on a server.
pub(crate) const CELL_FILE: &str = "postgres.cell";

/// The same, before the tables have it.
pub(crate) const NEW_CELL_FILE: &str = ".postgres.cell.new";

/// Refuses a home whose settings say something else than its files: nobody should begin with empty tables by mistake.
pub(crate) fn check_files(home: &Path, config: &Config) -> Result<()> {
    let file = home.join(DATABASE);
    let has_file = fs::metadata(&file).is_ok_and(|metadata| metadata.len() > 0);
    let on_server = cell_of(&home.join(CELL_FILE))?;
    match (&config.database, on_server) {
        (Some(address), _) if has_file => Err(IdbError::Mismatch(Problem::new(format!("the tables of the home {} are in {DATABASE}, and {FILE_NAME} names {address}", home.display())).hint(format!("`capstan idb move` copies them there, or put {DATABASE} aside to begin with empty ones")))),
        (None, Some(_)) => Err(IdbError::Mismatch(Problem::new(format!("the home {} has its tables on a PostgreSQL server, and its {FILE_NAME} names none", home.display())).hint(format!("put `database = \"postgres://…\"` back, or remove {CELL_FILE} to begin with empty ones")))),
        _ => Ok(()),
    }
}

/// The longest file that says whose tables there are, bytes: an identity and an address.
const SIZE_MAX: u64 = 1 << 16;

/// The identity that a file has in its first line; nothing if there is no such file.
pub(crate) fn cell_of(path: &Path) -> Result<Option<String>> {
    match regular::read_text(path, SIZE_MAX) {
        Ok(text) => Ok(text.lines().next().map(|line| line.trim().to_owned())),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(IdbError::io("read", path, e)),
    }
}
