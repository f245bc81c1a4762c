//! Paths as they are typed: a relative one begins at the working directory, in every command.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Component, Path};

use capstan_cell::Cell;
use capstan_cell::request::VersionName;
use capstan_engine::message::path_text;

use crate::exit::Failure;
use crate::text::bytes_of;

/// So many relative paths are held against a version one by one before anything is done.
const CHECKED_MAX: usize = 100;

/// The path from the root of the file system. `..` takes back the name before it: the backup's tree may not be there now.
pub fn absolute(path: &OsStr) -> Result<Vec<u8>, Failure> {
    let absolute = std::path::absolute(path).map_err(|e| {
        Failure::bad_input(
            format!("cannot resolve {}: {e}", path.display()),
            "give an absolute path",
        )
    })?;
    Ok(bytes_of(&without_dots(&absolute)))
}

/// What a relative path would be from the root. Nothing of one that begins with `.` or `..`, which says what is meant, and of one that is
/// from the root.
pub fn from_root(path: &OsStr) -> Option<Vec<u8>> {
    let path = Path::new(path);
    let is_bare = matches!(path.components().next(), Some(Component::Normal(_)));
    is_bare.then(|| bytes_of(&without_dots(&Path::new("/").join(path))))
}

/// Paths of versions. A relative one that none of the versions has there is refused where one has it from the root, and so is one
/// that is there in both ways.
pub fn of_versions(
    cell: &Cell,
    versions: &[&VersionName],
    paths: &[OsString],
) -> Result<Vec<Vec<u8>>, Failure> {
    of_versions_or(cell, versions, paths, false)
}

/// The same, where a path may as well be in the file system now.
pub fn of_version_or_now(
    cell: &Cell,
    version: &VersionName,
    paths: &[OsString],
) -> Result<Vec<Vec<u8>>, Failure> {
    of_versions_or(cell, &[version], paths, true)
}

fn of_versions_or(
    cell: &Cell,
    versions: &[&VersionName],
    paths: &[OsString],
    or_now: bool,
) -> Result<Vec<Vec<u8>>, Failure> {
    let resolved = paths.iter().map(|path| absolute(path)).collect::<Result<Vec<_>, _>>()?;
    // Who begins with . or .. says what is meant.
    let is_bare = |path: &Path| matches!(path.components().next(), Some(Component::Normal(_)));
    let mut bare: Vec<(&OsString, &Vec<u8>, Vec<u8>)> = Vec::new();
    for (path, from_here) in paths.iter().zip(&resolved) {
        let from_root = bytes_of(&without_dots(&Path::new("/").join(path)));
        if is_bare(Path::new(path)) && *from_here != from_root {
            bare.push((path, from_here, from_root));
        }
    }
    if bare.is_empty() || bare.len() > CHECKED_MAX {
        return Ok(resolved);
    }
    let both: Vec<&[u8]> =
        bare.iter().flat_map(|(_, here, root)| [here.as_slice(), root.as_slice()]).collect();
    let mut there = vec![false; both.len()];
    for version in versions {
        for (there, has) in there.iter_mut().zip(cell.have_paths(version, &both)?) {
            *there |= has;
        }
    }
    for ((path, here, root), there) in bare.iter().zip(there.chunks(2)) {
        let now = || or_now && fs::symlink_metadata(path).is_ok();
        let (typed, here, root) = (path_text(&bytes_of(path)), path_text(here), path_text(root));
        match there {
            [true, true] => {
                return Err(Failure::bad_input(
                    format!("{typed} may be {here} or {root}, and both are there"),
                    &format!("write ./{typed} for the first, {root} for the second"),
                ));
            }
            [false, true] if !now() => {
                return Err(Failure::bad_input(
                    format!(
                        "{typed} is {here}, as the working directory has it, and that is not in this version"
                    ),
                    &format!("the version has {root}: write that"),
                ));
            }
            _ => {}
        }
    }
    Ok(resolved)
}

/// An absolute path without `.` and `..`.
fn without_dots(path: &Path) -> OsString {
    let mut out = std::path::PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => drop(out.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out.into_os_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_taken_as_they_are_written() {
        let of = |path: &str| without_dots(Path::new(path)).into_string().unwrap();
        assert_eq!(of("/a/./b/../c/"), "/a/c");
        assert_eq!(of("/../a"), "/a");
        assert_eq!(of("/"), "/");
        let here = std::env::current_dir().unwrap();
        assert_eq!(absolute(OsStr::new("x/../y")).unwrap(), bytes_of(here.join("y").as_os_str()));
    }
}
