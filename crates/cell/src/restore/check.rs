//! What is refused before a restore writes anything.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use capstan_disk_agent::target::Target;
use capstan_engine::message::path_text;

use super::outgoing::Outgoing;
use super::scope::Scope;
use super::{is_below, selected};
use crate::error::{CellError, Result, plain};
use crate::observe::Stop;
use crate::overview::Overview;
use crate::request::{RestoreRequest, RestoreTo};
use crate::version::VersionView;

/// A version and what is asked of it.
pub(super) struct Check<'a> {
    pub view: &'a VersionView<'a>,
    pub overview: &'a Overview,
    pub request: &'a RestoreRequest,
    /// Stored paths to restore; all if empty.
    pub paths: &'a [Vec<u8>],
    /// What can have something of them.
    pub scope: &'a Scope,
}

impl Check<'_> {
    /// Refuses what can be told from the request, the database, and a look at the media.
    pub fn request(&self) -> Result<()> {
        let (to, name) = match &self.request.to {
            RestoreTo::Into(dir) => (dir.as_path(), "--into a directory"),
            RestoreTo::Tar(Some(file)) => (file.as_path(), "--to-tar a file, or -"),
            RestoreTo::InPlace | RestoreTo::Tar(None) => (Path::new("/"), ""),
        };
        if to.as_os_str().is_empty() {
            return Err(CellError::BadInput(format!(
                "the name of where to restore is empty; give {name}"
            )));
        }
        self.paths()?;
        self.strip()?;
        self.view.require_a_medium()
    }

    /// Calls with each path that is there, asked for or not.
    fn each_path(&self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.scope.rows(self.view, &mut |stream, row| {
            if row.entry.kind.is_inode() && self.overview.is_first(stream, &row) {
                let path = row.entry.path();
                if !self.overview.is_replaced(&path, row.ordinal) {
                    each(&path);
                }
            }
            Ok(())
        })
    }

    /// Paths that the version does not have.
    fn paths(&self) -> Result<()> {
        if self.paths.is_empty() {
            return Ok(());
        }
        let mut missing: Vec<&Vec<u8>> = self.paths.iter().collect();
        self.each_path(&mut |path| missing.retain(|p| !is_below(path, p)))?;
        missing.first().map_or(Ok(()), |path| Err(not_in_version(path)))
    }

    /// Stripping that leaves nothing of any path.
    fn strip(&self) -> Result<()> {
        let strip = self.request.strip;
        let mut longest = 0;
        if strip > 0 {
            self.each_path(&mut |path| {
                if !path.is_empty() && selected(self.paths, path) {
                    longest = longest.max(path.split(|b| *b == b'/').count());
                }
            })?;
        }
        if longest == 0 || longest > strip {
            return Ok(());
        }
        Err(CellError::BadInput(format!(
            "--strip {strip} leaves nothing to restore: no path has more than {longest} components; strip {} at most",
            longest - 1
        )))
    }

    /// A directory in which nothing can be made, though something would have to be.
    pub fn target(&self, target: &Target, dir: &Path) -> Result<()> {
        let Err(why) = target.check_writable() else { return Ok(()) };
        let mut tops: BTreeSet<Vec<u8>> = BTreeSet::new();
        self.each_path(&mut |path| {
            let mut rest = path.split(|b| *b == b'/').skip(self.request.strip);
            if let Some(top) = rest.next().filter(|t| !t.is_empty() && selected(self.paths, path))
                && !tops.contains(top)
            {
                tops.insert(top.to_vec());
            }
        })?;
        if tops.iter().all(|top| target.has(top)) {
            return Ok(());
        }
        Err(CellError::BadInput(format!(
            "cannot restore into {}: {}; name a directory in which you may write",
            dir.display(),
            plain(&why)
        )))
    }
}

/// Opens what an archive is written to.
pub(super) fn open_archive<'a>(
    request: &RestoreRequest,
    stop: &'a Stop,
) -> Result<Box<dyn Write + 'a>> {
    let RestoreTo::Tar(Some(path)) = &request.to else { return Ok(Box::new(Outgoing { stop })) };
    let file = File::create(path).map_err(|e| {
        CellError::BadInput(format!(
            "cannot create the archive {}: {}; name a file in a directory that exists and in which you may write",
            path.display(),
            plain(&e)
        ))
    })?;
    Ok(Box::new(file))
}

/// The error for a path that the version does not have.
pub(crate) fn not_in_version(path: &[u8]) -> CellError {
    CellError::BadInput(format!(
        "/{} is not in this version; `capstan ls` shows what is",
        path_text(path)
    ))
}
