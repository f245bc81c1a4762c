//! A path that a version does not have, and the one that is meant: a backup has what lies behind a symbolic link by its real path.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use capstan_format::entry::split;

use crate::error::{CellError, PathLead, QueryRefusal};

/// The error for a path that the version does not have. `link_at` tells where a path leads that is a symbolic link in the version.
pub(crate) fn not_in_version(
    path: &[u8],
    link_at: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>,
) -> CellError {
    let lead = if path.iter().any(|b| b"*?[".contains(b)) {
        PathLead::Pattern
    } else if let Some((link, to)) = by_links(path, link_at) {
        PathLead::LinkThere { link: link.to_vec(), to }
    } else {
        by_links_here(path).map_or(PathLead::None, |to| PathLead::LinkHere { to })
    };
    QueryRefusal::PathNotInVersion { path: path.to_vec(), lead }.into()
}

/// The first part of a path that is a symbolic link in the version, and where the path leads by it.
fn by_links<'p>(
    path: &'p [u8],
    link_at: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Option<(&'p [u8], Vec<u8>)> {
    let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
    for at in ends {
        let (link, rest) = (&path[..at], &path[at + 1..]);
        let Some(target) = link_at(link) else { continue };
        // An absolute target begins anew.
        let to = Path::new(OsStr::from_bytes(split(link).0))
            .join(OsStr::from_bytes(&target))
            .join(OsStr::from_bytes(rest));
        let to = without_dots(&to);
        return (to != path).then_some((link, to));
    }
    None
}

/// Where a path leads on this machine now, if that is elsewhere.
fn by_links_here(path: &[u8]) -> Option<Vec<u8>> {
    let whole = PathBuf::from(std::ffi::OsString::from_vec([b"/", path].concat()));
    let there = whole.ancestors().find(|at| at.symlink_metadata().is_ok())?;
    let rest = whole.strip_prefix(there).ok()?;
    let real = there.canonicalize().ok()?.join(rest);
    let to = without_dots(&real);
    (to != path).then_some(to)
}

/// The path from the root, without its `/`, and without `.` and `..`.
fn without_dots(path: &Path) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for component in path.components() {
        match component {
            std::path::Component::Normal(name) => parts.push(name.as_bytes()),
            std::path::Component::ParentDir => drop(parts.pop()),
            _ => {}
        }
    }
    parts.join(&b'/')
}

/// A path as stored, from one as people write it.
pub(crate) fn clean(path: &[u8]) -> Vec<u8> {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    path.strip_suffix(b"/").unwrap_or(path).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_through_a_link_of_the_version_leads_to_what_it_has() {
        let leads = |path: &str, target: &'static str| {
            let mut link = |at: &[u8]| (at == b"srv/lnk").then(|| target.as_bytes().to_vec());
            not_in_version(path.as_bytes(), &mut link).to_string()
        };
        let relative = leads("srv/lnk/sub/f", "../real");
        assert!(relative.contains("/srv/lnk is a symbolic link there"), "{relative}");
        assert!(relative.contains("leads to /real/sub/f: name that"), "{relative}");
        assert!(leads("srv/lnk/sub/f", "/a/./b").contains("leads to /a/b/sub/f"));
        assert!(leads("srv/other/f", "real").contains("`capstan ls`"));
        assert!(leads("srv/lnk/f", "lnk").contains("`capstan ls`"), "it leads nowhere");
        assert!(leads("srv/*.c", "real").contains("no pattern"));
    }
}
