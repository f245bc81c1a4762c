//! What becomes of a name that exists where something is to be restored.

use std::ffi::CStr;

use capstan_format::entry::{Entry, Kind};
use capstan_wire::restore::Overwrite;

use super::Target;
use super::dirs::{Dir, a};
use super::error::{ShownPath, TargetError};
use super::tally::count;
use crate::linux::restore::{self as sys, Errno, Stat};

/// How often a name that comes and goes at the same time as we look is tried.
pub const TRIES: usize = 8;

/// What to do about an existing name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It stays, and is counted.
    Keep,
    /// It makes way.
    Replace,
    /// It already is what is wanted.
    Done,
    /// It is gone meanwhile.
    Gone,
}

/// What to do about `name` in `dir`, where `entry` is to be. A directory is a conflict.
pub fn existing(
    target: &Target,
    dir: &Dir,
    name: &CStr,
    entry: &Entry,
) -> Result<Way, TargetError> {
    let Some(stat) = examine(dir, name, a(Some(entry.kind)))? else {
        return Ok(Way::Gone);
    };
    let replace = replaces(target, &stat, entry, || differs(dir, name, &stat, entry));
    Ok(verdict(target, replace))
}

/// What has a name where something is to be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing, or what makes way.
    Free,
    /// What stays, and looks like what is to be restored.
    Like,
    /// Something else that stays.
    Other,
}

/// What `name` in `dir` has, where `entry` is to be. Nothing is counted.
pub fn found(target: &Target, dir: &Dir, name: &CStr, entry: &Entry) -> Result<Found, TargetError> {
    let Some(stat) = examine(dir, name, a(Some(entry.kind)))? else { return Ok(Found::Free) };
    let is_like = !differs(dir, name, &stat, entry);
    Ok(match replaces(target, &stat, entry, || !is_like) {
        true => Found::Free,
        false if is_like => Found::Like,
        false => Found::Other,
    })
}

fn replaces(target: &Target, stat: &Stat, entry: &Entry, differs: impl Fn() -> bool) -> bool {
    match target.overwrite {
        Overwrite::Never => false,
        Overwrite::Always => true,
        Overwrite::IfNewer => entry.mtime > stat.mtime,
        Overwrite::IfDifferent => differs(),
    }
}

/// What `name` in `dir` is, if that is what `entry` says, as far as kind, size and time of change tell.
pub fn like(dir: &Dir, name: &CStr, entry: &Entry) -> Result<Option<Stat>, TargetError> {
    let stat = examine(dir, name, a(Some(entry.kind)))?;
    Ok(stat.filter(|stat| !differs(dir, name, stat, entry)))
}

/// What to do about `name` in `dir`, where a further name of the inode `of` is to be.
pub fn existing_link(
    target: &Target,
    dir: &Dir,
    name: &CStr,
    of: &Stat,
) -> Result<Way, TargetError> {
    let Some(stat) = examine(dir, name, "a hard link")? else {
        return Ok(Way::Gone);
    };
    let replace = match target.overwrite {
        Overwrite::Never => false,
        Overwrite::IfNewer => of.mtime > stat.mtime,
        Overwrite::IfDifferent | Overwrite::Always => true,
    };
    Ok(verdict(target, replace))
}

fn verdict(target: &Target, replace: bool) -> Way {
    if replace {
        return Way::Replace;
    }
    count(&target.tally.skipped_existing);
    Way::Keep
}

fn examine(dir: &Dir, name: &CStr, wanted: &'static str) -> Result<Option<Stat>, TargetError> {
    match sys::stat(&dir.fd, name) {
        Ok(stat) if stat.kind == Some(Kind::Dir) => Err(TargetError::Conflict {
            path: ShownPath(dir.path_of(name.to_bytes())),
            found: a(stat.kind),
            wanted,
        }),
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(TargetError::io("examine", dir.path_of(name.to_bytes()), e)),
    }
}

fn differs(dir: &Dir, name: &CStr, stat: &Stat, entry: &Entry) -> bool {
    if stat.kind != Some(entry.kind) || stat.mtime != entry.mtime {
        return true;
    }
    match entry.kind {
        Kind::File => stat.size != entry.size,
        // The row of a further name has that of the first one in the place of the text.
        Kind::Symlink => {
            !entry.link
                && !sys::read_link(&dir.fd, name).is_ok_and(|text| text.as_bytes() == entry.target)
        }
        Kind::CharDevice | Kind::BlockDevice => stat.rdev != entry.rdev,
        _ => false,
    }
}
