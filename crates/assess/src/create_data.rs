//! Deterministic test data: a directory tree whose sizes, shape and compressibility are as asked.
//!
//! The tree depends on the [`Options`] alone, not on the machine, the number of writers or the
//! way files are laid out on the disk. Its default content, [`Pattern::Mixed`], compresses by the
//! asked ratio within 5 % with `zstd -1` as well as with LZ-style compression such as lz4 or that
//! of a tape drive, because its redundancy is local. Its random parts never repeat, so
//! deduplication finds nothing.
//!
//! `plan` says which file has which size and ratio, `tree` which directory it lives in, `content`
//! makes its bytes, `writer` puts them on the disk.

mod content;
mod error;
mod options;
mod plan;
mod prng;
#[cfg(test)]
mod ratio_tests;
mod tree;
mod writer;

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

pub use error::CreateDataError;
pub use options::{Amount, Distribution, Options, Pattern};

use error::io_error;
use plan::Plan;
use tree::Tree;

/// Modification time of every file and directory: 2024-01-01 00:00:00 UTC.
pub const MTIME_UNIX_S: i64 = 1_704_067_200;

/// What a run created and how fast.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Files created.
    pub files: u64,
    /// Directories created below the target directory.
    pub dirs: u64,
    /// Bytes of content in all files.
    pub bytes: u64,
    /// Files laid out in pieces; fewer than asked where files are below 8 KiB.
    pub fragmented_files: u64,
    /// Seconds from the first directory to the last, including the sync to disk if asked.
    pub elapsed_s: f64,
    /// Bytes per second in units of 10^6.
    pub rate_mb_s: f64,
}

/// Creates the tree that `options` describe in `dir`, which must be absent or empty.
///
/// A `lost+found` directory does not count, so that a new file system can be filled from its top.
/// `progress` gets the bytes and files written so far, from any of the writer threads. On an error
/// what was written stays, so that the cause can be looked at.
pub fn create_data(
    dir: &Path,
    options: &Options,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Summary, CreateDataError> {
    options.validate()?;
    let plan = Plan::new(options)?;
    let tree = Tree::new(options, plan.files())?;
    prepare_target(dir, &plan, &tree)?;

    let start = Instant::now();
    tree.create_dirs(dir)?;
    let fragmented_files = writer::write_files(dir, options, &plan, &tree, progress)?;
    // Last, as every new entry changes the time of its directory.
    tree.set_times(dir)?;
    if options.sync {
        let handle = fs::File::open(dir).map_err(io_error("open", dir))?;
        rustix::fs::syncfs(handle).map_err(|e| io_error("sync", dir)(e.into()))?;
    }
    let elapsed_s = start.elapsed().as_secs_f64();

    let rate_mb_s = plan.bytes() as f64 / 1e6 / elapsed_s.max(1e-9);
    Ok(Summary {
        files: plan.files(),
        dirs: tree.dirs(),
        bytes: plan.bytes(),
        fragmented_files,
        elapsed_s,
        rate_mb_s,
    })
}

/// Makes sure that `dir` exists, is empty, has room, and that no path in it gets too long.
fn prepare_target(dir: &Path, plan: &Plan, tree: &Tree) -> Result<(), CreateDataError> {
    match fs::read_dir(dir) {
        Ok(entries) => {
            for entry in entries {
                let name = entry.map_err(io_error("list", dir))?.file_name();
                if name != "lost+found" {
                    return Err(CreateDataError::NotEmpty { path: dir.into(), found: name });
                }
            }
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            fs::create_dir_all(dir).map_err(io_error("create", dir))?;
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => {
            return Err(CreateDataError::NotADirectory { path: dir.into() });
        }
        Err(e) => return Err(io_error("list", dir)(e)),
    }
    tree.check_path_length(dir)?;
    let space = rustix::fs::statvfs(dir).map_err(|e| io_error("examine", dir)(e.into()))?;
    let available = space.f_bavail.saturating_mul(space.f_frsize);
    if plan.bytes() > available {
        return Err(CreateDataError::NoSpace { path: dir.into(), needed: plan.bytes(), available });
    }
    Ok(())
}
