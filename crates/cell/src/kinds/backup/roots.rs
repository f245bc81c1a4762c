//! Which paths are walked for those that are named.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use capstan_format::entry::is_inside;
use capstan_port::disk::PathsError;
use capstan_wire::source::{Named, PathsAsked};

use crate::clients::Client;

impl Client {
    /// Asks the disk agent where paths lead. Nothing is backed up of those that are `own`.
    pub(super) fn ask_paths(
        &self,
        paths: &[PathBuf],
        own: &[PathBuf],
    ) -> Result<Vec<Named>, PathsError> {
        let bytes = |paths: &[PathBuf]| {
            paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect()
        };
        self.agent.paths(&PathsAsked { paths: bytes(paths), own: bytes(own) })
    }
}

/// Of these paths, those that lie in what is walked for others.
pub(super) fn inner(named: &[Named]) -> Vec<Vec<u8>> {
    let outer = outermost(named, &[]);
    let inner = named.iter().map(|of| &of.root).filter(|root| !outer.contains(*root));
    inner.cloned().collect()
}

/// What is walked for these paths, and for those that nobody named: sorted, none inside another.
pub(super) fn outermost(named: &[Named], others: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let named = named.iter().map(|of| &of.root);
    let mut roots: Vec<Vec<u8>> = named.chain(others).cloned().collect();
    roots.sort();
    roots.dedup();
    let all = roots.clone();
    roots.retain(|path| !all.iter().any(|root| path != root && is_inside(path, root)));
    roots
}
