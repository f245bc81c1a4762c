//! Restoring into real directories. As root everything is tested; what needs root is passed over
//! with a message otherwise.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

mod attack;
mod kinds;
mod measure;
mod metadata;
mod plain_user;
mod policy;

use capstan_wire::restore::Overwrite;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use capstan_disk_agent::target::{Created, OpenFile, Target, TargetError, TargetOptions, Worker};
use capstan_format::entry::{Entry, Kind, Timestamp};

pub(crate) fn options(overwrite: Overwrite) -> TargetOptions {
    TargetOptions { overwrite, numeric_ids: false }
}

pub(crate) fn open(root: &Path) -> Target {
    Target::open(root, options(Overwrite::Always)).unwrap()
}

pub(crate) const TIME: Timestamp = Timestamp { sec: 1_234_567_890, nsec: 123_456_789 };

/// An entry that belongs to whoever runs the test.
pub(crate) fn entry(kind: Kind, mode: u16) -> Entry {
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    Entry { kind, mode, uid, gid, mtime: TIME, ..Entry::default() }
}

pub(crate) fn file(mode: u16) -> Entry {
    entry(Kind::File, mode)
}

pub(crate) fn created(created: Created) -> OpenFile {
    match created {
        Created::File(file) => file,
        Created::Skipped => panic!("skipped"),
    }
}

/// Restores a whole file.
pub(crate) fn restore(
    worker: &mut Worker<'_>,
    entry: &Entry,
    dir: &[u8],
    name: &[u8],
    data: &[u8],
) -> Result<(), TargetError> {
    let file = match worker.create_file(entry, dir, name)? {
        Created::File(file) => file,
        Created::Skipped => return Ok(()),
    };
    file.write_all_at(0, data)?;
    file.finish(worker.target(), entry)
}

pub(crate) fn path(root: &Path, below: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(below))
}

pub(crate) fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 65536];
    let len = rustix::fs::lgetxattr(path, name, &mut buffer[..]).ok()?;
    buffer.truncate(len);
    Some(buffer)
}

pub(crate) fn is_root(what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("passed over, for it needs root: {what}");
    }
    root
}

/// Runs a tool and gives what it prints.
pub(crate) fn run(tool: &str, args: &[&OsStr]) -> String {
    let out = std::process::Command::new(tool)
        .args(args)
        .output()
        .unwrap_or_else(|e| panic!("{tool} (Debian: acl, libcap2-bin, e2fsprogs): {e}"));
    assert!(out.status.success(), "{tool}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}
