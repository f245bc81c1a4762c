//! The catalog files: for each committed segment one file with the batches that name its files.
//!
//! A file appears whole or not at all, and durably, before the segment's row does. Files whose row
//! never came are removed after a grace time.
//!
//! Beside a catalog file lies, once it was read, its sparse index: what is in it and where. It can
//! be made again at any time, so it is not synced, and goes whenever its catalog file changes. So
//! does the table of a session's outlines, which lies beside the catalog file of its first segment.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use capstan_format::id::SegmentId;

use crate::catalog_store::{CatalogFile, CatalogStamp, Listed};
use crate::db::Idb;
use crate::error::IdbError;
use crate::{Result, decode, sql};

/// How many files are looked up in the database at once.
const LOOKUP_BATCH: usize = 256;

impl Idb {
    /// Writes a segment's catalog file: `parts`, one after the other. It is durable on return and
    /// replaces a former one.
    pub fn write_catalog(&self, segment: SegmentId, parts: &[&[u8]]) -> Result<()> {
        let name = catalog_name(segment);
        // What is of the former one must not be taken for the new one's.
        let written = self
            .catalogs
            .remove(&index_name(segment))
            .and_then(|_| self.catalogs.remove(&table_name(segment)))
            .and_then(|_| self.catalogs.put(&name, parts));
        written.map_err(|e| self.failed("write the catalog file", &name, e))
    }

    /// Writes what is kept of a segment's catalog at a lower logging level, durably; it replaces a former one.
    pub fn write_listing(&self, segment: SegmentId, bytes: &[u8]) -> Result<()> {
        let name = listing_name(segment);
        self.catalogs.put(&name, &[bytes]).map_err(|e| self.failed("write the listing", &name, e))
    }

    /// Opens a segment's catalog file; `None` if there is none.
    pub fn read_catalog(&self, segment: SegmentId) -> Result<Option<CatalogFile>> {
        self.open_file(&catalog_name(segment))
    }

    /// What a segment's catalog file is told from others by; `None` if there is none.
    pub fn catalog_stamp(&self, segment: SegmentId) -> Result<Option<CatalogStamp>> {
        let name = catalog_name(segment);
        let found = self.catalogs.look(&name);
        let found = found.map_err(|e| self.failed("look at the catalog file", &name, e))?;
        Ok(found.map(|found| found.stamp()))
    }

    /// Opens what is kept of a segment's catalog at a lower logging level; `None` if there is none.
    pub fn read_listing(&self, segment: SegmentId) -> Result<Option<CatalogFile>> {
        self.open_file(&listing_name(segment))
    }

    /// Opens the sparse index of a segment's catalog file; `None` if there is none.
    pub fn read_index(&self, segment: SegmentId) -> Result<Option<CatalogFile>> {
        self.open_file(&index_name(segment))
    }

    fn open_file(&self, name: &str) -> Result<Option<CatalogFile>> {
        self.catalogs.get(name).map_err(|e| self.failed("open the catalog file", name, e))
    }

    /// Writes the sparse index of a segment's catalog file; replaces a former one. Whether it appears whole after a power
    /// cut is for its reader to check.
    pub fn write_index(&self, segment: SegmentId, bytes: &[u8]) -> Result<()> {
        let name = index_name(segment);
        let written = self.catalogs.put_relaxed(&name, bytes);
        written.map_err(|e| self.failed("write the sparse index", &name, e))
    }

    /// Writes the table of outlines of the session whose first segment this is; replaces a former one. Its reader checks
    /// whether it is whole and fits.
    pub fn write_table(&self, first: SegmentId, bytes: &[u8]) -> Result<()> {
        let name = table_name(first);
        let written = self.catalogs.put_relaxed(&name, bytes);
        written.map_err(|e| self.failed("write the table of outlines", &name, e))
    }

    /// Opens the table of outlines of the session whose first segment this is; `None` if there is none.
    pub fn read_table(&self, first: SegmentId) -> Result<Option<CatalogFile>> {
        self.open_file(&table_name(first))
    }

    /// Removes that table, if there is one.
    pub fn remove_table(&self, first: SegmentId) -> Result<()> {
        let name = table_name(first);
        let removed = self.catalogs.remove(&name);
        removed.map(drop).map_err(|e| self.failed("remove the table of outlines", &name, e))
    }

    /// Removes what an interrupted commit left: catalog files without a segment's row, and
    /// temporary files, both only if older than `grace`. Returns how many it removed.
    ///
    /// `grace` must exceed the time between a catalog file and its row.
    pub fn reconcile_catalogs(&self, grace: Duration) -> Result<usize> {
        let failed = |e| self.failed("list the catalog files", "", e);
        let (mut there, mut old, mut indexes, mut temporary) =
            (HashSet::new(), Vec::new(), Vec::new(), Vec::new());
        // What is found is removed afterwards: the store is at work until then.
        let mut take = |found: Listed| match kind_of(&found.name) {
            Kind::Catalog(segment) => {
                there.insert(segment);
                old.extend(found.is_older(grace).then_some(segment));
            }
            Kind::Index(segment) => indexes.push((segment, found.name)),
            Kind::Temporary => temporary.push(found.name),
            Kind::Foreign => {}
        };
        self.catalogs.list(&mut take).map_err(failed)?;
        let mut removed = self.catalogs.remove_unfinished(grace).map_err(failed)?;
        for batch in old.chunks(LOOKUP_BATCH) {
            removed += self.remove_unreferenced(batch, grace)?;
        }
        let alone = indexes.into_iter().filter(|(segment, _)| !there.contains(segment));
        for name in alone.map(|(_, name)| name).chain(temporary) {
            removed += usize::from(self.remove_if_older(&name, grace)?);
        }
        Ok(removed)
    }

    /// Calls with the length of each catalog file.
    pub(crate) fn each_catalog(&self, each: &mut dyn FnMut(u64)) -> Result<()> {
        let listed = self.catalogs.list(&mut |found| {
            if found.name.ends_with(".catalog") {
                each(found.len);
            }
        });
        listed.map_err(|e| self.failed("list the catalog files", "", e))
    }

    fn remove_unreferenced(&self, candidates: &[SegmentId], grace: Duration) -> Result<usize> {
        let referenced = self.recorded(candidates)?;
        let mut removed = 0;
        for &segment in candidates.iter().filter(|segment| !referenced.contains(segment)) {
            // Looked at again: it may have been written anew meanwhile, its row still to come.
            for name in [catalog_name(segment), listing_name(segment)] {
                removed += usize::from(self.remove_if_older(&name, grace)?);
            }
        }
        Ok(removed)
    }

    fn remove_if_older(&self, name: &str, grace: Duration) -> Result<bool> {
        let removed = self.catalogs.remove_if_older(name, grace);
        removed.map_err(|e| self.failed("remove the catalog file", name, e))
    }

    /// Which of these segments have a row.
    fn recorded(&self, segments: &[SegmentId]) -> Result<HashSet<SegmentId>> {
        if segments.is_empty() {
            return Ok(HashSet::new());
        }
        self.read(format_args!("look up segments"), async |conn| {
            let mut query = sql::Builder::new("SELECT id FROM segments WHERE id IN (");
            query.push_list(segments.iter().map(ToString::to_string)).push(")");
            let rows = query.build().fetch_all(conn).await?;
            rows.iter().map(|row| decode::parsed(row, "id")).collect()
        })
    }

    /// Removes all files of a segment; whether there was a catalog.
    pub(crate) fn remove_catalog(&self, segment: SegmentId) -> Result<bool> {
        let name = catalog_name(segment);
        let removed = self
            .catalogs
            .remove(&index_name(segment))
            .and_then(|_| self.catalogs.remove(&table_name(segment)))
            .and_then(|_| self.catalogs.remove(&listing_name(segment)))
            .and_then(|_| self.catalogs.remove(&name));
        removed.map_err(|e| self.failed("remove the catalog file", &name, e))
    }

    fn failed(&self, what: &'static str, name: &str, error: io::Error) -> IdbError {
        IdbError::io(what, &self.catalogs.shown(name), error)
    }
}

fn catalog_name(segment: SegmentId) -> String {
    format!("{segment}.catalog")
}

fn listing_name(segment: SegmentId) -> String {
    format!("{segment}.listing")
}

fn index_name(segment: SegmentId) -> String {
    format!("{segment}.index")
}

fn table_name(first: SegmentId) -> String {
    format!("{first}.table")
}

enum Kind {
    /// A catalog, or what is kept of it.
    Catalog(SegmentId),
    /// A sparse index, or a table of outlines.
    Index(SegmentId),
    /// What earlier versions of the program left of a write.
    Temporary,
    /// Not ours: left alone.
    Foreign,
}

fn kind_of(name: &str) -> Kind {
    let segment_of = |stem: &str| stem.parse::<SegmentId>().ok();
    let listing = name.strip_suffix(".listing");
    if let Some(segment) = name.strip_suffix(".catalog").or(listing).and_then(segment_of) {
        return Kind::Catalog(segment);
    }
    let table = name.strip_suffix(".table");
    if let Some(segment) = name.strip_suffix(".index").or(table).and_then(segment_of) {
        return Kind::Index(segment);
    }
    let temporary = name.strip_suffix(".tmp").and_then(|stem| stem.split_once('.'));
    match temporary.and_then(|(stem, _)| segment_of(stem)) {
        Some(_) => Kind::Temporary,
        None => Kind::Foreign,
    }
}
