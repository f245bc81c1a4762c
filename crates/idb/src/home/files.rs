//! The files of a home, which are its owner's alone.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use capstan_engine::durable;

use crate::Result;
use crate::error::IdbError;

/// The database's file below a home.
pub(crate) const DATABASE: &str = "capstan.db";

/// SQLite would say that it cannot open its file, which is true of much.
pub(crate) fn refuse_read_only(home: &Path) -> Result<()> {
    // What else is wrong with the home is said where that is opened.
    let is_read_only = rustix::fs::statvfs(home)
        .is_ok_and(|of| of.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    match is_read_only {
        true => Err(IdbError::ReadOnly { home: home.to_owned() }),
        false => Ok(()),
    }
}

/// Locks the directory of catalogs: one process at a time makes a database.
pub(crate) fn lock_dir(catalogs: &Path) -> Result<File> {
    File::open(catalogs)
        .and_then(|dir| dir.lock().map(|()| dir))
        .map_err(|e| IdbError::io("lock the directory of catalogs", catalogs, e))
}

/// Creates a directory, and what is missing above it, for its owner alone. One that exists stays.
pub(crate) fn create_private_dir(dir: &Path) -> Result<()> {
    let create = || {
        if dir.is_dir() {
            return Ok(());
        }
        // Its entry, and those of all above it, must be as durable as what will be recorded in it.
        durable::create_directories(dir, 0o700)
    };
    create().map_err(|e| IdbError::io("create the directory", dir, e))
}

/// Creates the empty database file: left to SQLite, it would be readable as the umask allows, in a
/// home that may have been made by another.
pub(crate) fn create_private_file(path: &Path) -> Result<()> {
    let create = || {
        if fs::exists(path)? {
            return Ok(());
        }
        OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        durable::synchronise_way_to(path)
    };
    create().map_err(|e| IdbError::io("create the internal database", path, e))
}
