//! Where a restore never writes: on media that are known, and into the home.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Cell;
use crate::error::{RestoreRefusal, Result};
use crate::queries::leads::clean;
use crate::request::{RestoreRequest, RestoreTo};

/// Refuses a target on a medium or in the home: what a restore writes over there may be what others need to restore.
pub(in crate::kinds::restore) fn refuse_target(
    cell: &Cell,
    request: &RestoreRequest,
) -> Result<()> {
    let within = |path: &Path| -> Result<()> {
        match cell.kept_around(path)? {
            None => Ok(()),
            Some(what) => Err(RestoreRefusal::OwnPlace { path: path.to_owned(), what }.into()),
        }
    };
    match &request.to {
        RestoreTo::Into(to) | RestoreTo::Tar(Some(to)) => within(to),
        RestoreTo::Tar(None) => Ok(()),
        RestoreTo::InPlace => request.paths.iter().try_for_each(|path| {
            within(Path::new(OsStr::from_bytes(&[b"/", &clean(path)[..]].concat())))
        }),
    }
}

impl Cell {
    /// What of the cell's own a path lies in, or is: a medium that is known and there, or the home.
    fn kept_around(&self, path: &Path) -> Result<Option<String>> {
        let identity = |path: &Path| path.metadata().ok().map(|m| (m.dev(), m.ino()));
        let around = real(path);
        let around: Vec<_> = around.ancestors().filter_map(identity).collect();
        let is_around = |path: &Path| identity(path).is_some_and(|of| around.contains(&of));
        if is_around(&self.home) {
            return Ok(Some(format!("Capstan's home {}", self.home.display())));
        }
        for known in self.idb.media()? {
            let address = &known.device;
            // Where a medium was there may be other things now.
            let is_there = || self.is_at(known.id, address);
            if address.directories().iter().any(|path| is_around(path)) && is_there() {
                return Ok(Some(format!("medium '{}'", known.label)));
            }
        }
        Ok(None)
    }
}

/// A path without links and `..`, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut behind = Vec::new();
    for at in path.ancestors() {
        if let Ok(real) = at.canonicalize() {
            return behind.iter().rev().fold(real, |all, name| all.join(name));
        }
        behind.extend(at.file_name());
    }
    path
}
