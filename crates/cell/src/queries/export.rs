//! Catalogs as a table for other tools: which versions, and where to.

use std::path::PathBuf;

use capstan_catalog::export::{Export, ExportOf};
use capstan_catalog::version::Merged;
use capstan_idb::{Object, Version};

use crate::Cell;
use crate::error::{CellError, QueryRefusal, Result};
use crate::reading::version::VersionView;
use crate::request::VersionName;

/// What is written as a table, and where to.
#[derive(Debug, Clone)]
pub struct ExportRequest {
    /// The version, or the object.
    pub version: VersionName,
    /// All versions of the objects of that name.
    pub all_versions: bool,
    /// The file; `None` is standard output.
    pub to: Option<PathBuf>,
}

/// What was written.
#[derive(Debug, Default)]
pub struct Exported {
    /// Rows.
    pub rows: u64,
    /// Bytes of the table.
    pub bytes: u64,
    /// The versions, as people call them.
    pub versions: Vec<String>,
    /// Rows of which no more than names are kept, or directories without their files.
    pub poor: u64,
    /// Versions that could not be read, and why.
    pub left_out: Vec<(String, CellError)>,
    /// Whether it was ended early: then there is no file.
    pub stopped: bool,
}

impl Cell {
    /// Writes the files of a version, or of all versions of an object, as a Parquet table. `go_on` is called now and then with
    /// the number of rows so far; where it says no, there is no file.
    ///
    /// Of all versions, those that cannot be read are left out and named, unless none can.
    pub fn export_catalog(
        &self,
        request: &ExportRequest,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Exported> {
        let versions = self.versions_to_export(request)?;
        let (mut done, mut export) = (Exported::default(), Export::to(request.to.as_deref())?);
        for (object, version) in versions {
            let called = self.called(&version)?;
            let merged = match self.with_sums(&version) {
                Ok(merged) => merged,
                Err(e) if request.all_versions => {
                    done.left_out.push((called, e));
                    continue;
                }
                Err(e) => return Err(e),
            };
            let session = called.rsplit('@').next().unwrap_or_default();
            let of = ExportOf { object: &object, version: &version, session };
            done.stopped = !export.write(&of, merged, go_on)?;
            (done.rows, done.poor) = (export.rows, export.poor);
            if done.stopped {
                return Ok(done);
            }
            done.versions.push(called);
        }
        let Some(bytes) = export.finish()? else {
            let first = done.left_out.into_iter().next().map(|(_, e)| e);
            return Err(first.unwrap_or_else(|| nothing_of(&request.version.name)));
        };
        done.bytes = bytes;
        Ok(done)
    }

    /// The versions that are meant, oldest first.
    fn versions_to_export(&self, request: &ExportRequest) -> Result<Vec<(Object, Version)>> {
        if !request.all_versions {
            let version = self.version(&request.version)?;
            let object = self.idb.object(version.object)?;
            let object = object.ok_or_else(|| nothing_of(&request.version.name))?;
            return Ok(vec![(object, version)]);
        }
        let mut all = Vec::new();
        // An object may be called what looks like a name with a session.
        let VersionName { name, session, .. } = &request.version;
        let name = session.as_ref().map_or(name.clone(), |session| format!("{name}@{session}"));
        let objects = self.idb.objects_by_name(&name)?;
        if let Some(session) = session.as_ref().filter(|_| objects.is_empty()) {
            return Err(QueryRefusal::OneOfAllVersions { session: session.clone() }.into());
        }
        for object in objects {
            for version in self.idb.versions_of(object.id)?.into_iter().rev() {
                if !version.null_device {
                    all.push((object.clone(), version));
                }
            }
        }
        if all.is_empty() {
            // It says what there is instead.
            self.version(&request.version)?;
            return Err(nothing_of(&request.version.name));
        }
        Ok(all)
    }

    /// The rows of a version, with checksums; names where no more is kept.
    fn with_sums(&self, version: &Version) -> Result<Merged<'_>> {
        let mut view = VersionView::open(self, version.id)?;
        view.listings = true;
        self.add_keys(&mut view, false)?;
        view.settle_links()?;
        Ok(Merged::with_sums(view.into_rows())?)
    }
}

fn nothing_of(name: &str) -> CellError {
    QueryRefusal::NoReadableVersion { name: name.to_owned() }.into()
}
