//! What the paths are that are to be backed up: where they lead, and which of them are symbolic links.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use capstan_engine::message::plain;
use capstan_wire::source::{BadPath, Named, PathsAsked, RootLink};

use crate::linux::source;

/// Resolves paths.
pub(crate) fn named(asked: &PathsAsked) -> Result<Vec<Named>, BadPath> {
    let identity = |path: &[u8]| source::directory(Path::new(OsStr::from_bytes(path)));
    let own: Vec<_> = asked.own.iter().filter_map(|path| identity(path)).collect();
    let one = |path: &Vec<u8>| {
        let path = Path::new(OsStr::from_bytes(path));
        let refused =
            |e: std::io::Error| BadPath { path: path.display().to_string(), why: plain(&e) };
        let (root, missing) = match source::resolve(path) {
            Ok(root) => (root, None),
            Err(why) => (source::resolve_absent(path).map_err(refused)?, Some(plain(&why))),
        };
        let is_own = !own.is_empty()
            && identity(&[b"/", &root[..]].concat()).is_some_and(|id| own.contains(&id));
        let path = source::written(path).map_err(refused)?;
        Ok(Named { path, root, missing, is_own })
    };
    asked.paths.iter().map(one).collect()
}

/// The roots (sorted) that are links, but for those to what another root has.
pub(crate) fn links(roots: &[Vec<u8>]) -> Vec<RootLink> {
    let link = |root: &Vec<u8>| {
        let path = [b"/", &root[..]].concat();
        let path = Path::new(OsStr::from_bytes(&path));
        let target = std::fs::read_link(path).ok()?;
        let end = std::fs::canonicalize(path).ok();
        let is_taken = end.as_ref().is_some_and(|end| is_in(end, roots));
        let is_to_directory = end.is_some_and(|end| end.is_dir());
        let target = target.into_os_string().into_vec();
        (!is_taken).then(|| RootLink { root: root.clone(), target, is_to_directory })
    };
    roots.iter().filter_map(link).collect()
}

/// Whether a path is one of the roots (sorted), or lies below one.
fn is_in(path: &Path, roots: &[Vec<u8>]) -> bool {
    let without_slash = |path: &Path| {
        let bytes = path.as_os_str().as_bytes();
        bytes.strip_prefix(b"/").unwrap_or(bytes).to_vec()
    };
    path.ancestors().any(|dir| roots.binary_search(&without_slash(dir)).is_ok())
}
