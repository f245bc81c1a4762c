//! The catalog files: for each committed segment one file with the batches that name its files.
//!
//! A file appears whole or not at all, and durably, before the segment's row does. Files whose row
//! never came are removed after a grace time.
//!
//! Beside a catalog file lies, once it was read, its sparse index: what is in it and where. It can
//! be made again at any time, so it is not synced, and goes whenever its catalog file changes. So
//! does the table of a session's outlines, which lies beside the catalog file of its first segment.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use capstan_format::id::SegmentId;
use sqlx::{QueryBuilder, Sqlite};

use crate::Result;
use crate::db::Idb;
use crate::decode;
use crate::error::IdbError;

/// How many files are looked up in the database at once.
const LOOKUP_BATCH: usize = 256;

/// What tells a catalog file from another one that takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogStamp {
    /// Its length in bytes.
    pub len: u64,
    /// Its inode number.
    pub inode: u64,
    /// When it was last written: seconds since 1970, and nanoseconds.
    pub written: (i64, i64),
}

impl Idb {
    /// Writes a segment's catalog file: `parts`, one after the other. It is durable on return and
    /// replaces a former one.
    pub fn write_catalog(&self, segment: SegmentId, parts: &[&[u8]]) -> Result<()> {
        let target = self.catalog_path(segment);
        let temporary = self.temporary_path(segment);
        let written = write_durably(&temporary, parts)
            .and_then(|()| remove(&self.index_path(segment)))
            .and_then(|()| remove(&self.table_path(segment)))
            .and_then(|()| fs::rename(&temporary, &target))
            .and_then(|()| File::open(&self.catalogs)?.sync_all());
        written.map_err(|e| {
            // Gone already if it was renamed; else the reconciler would find it.
            let _ = fs::remove_file(&temporary);
            IdbError::io("write the catalog file", &target, e)
        })
    }

    /// Writes a further file of a segment, durably; it replaces a former one.
    pub(crate) fn write_named(
        &self,
        segment: SegmentId,
        target: &Path,
        bytes: &[u8],
    ) -> Result<()> {
        let temporary = self.temporary_path(segment);
        let written = write_durably(&temporary, &[bytes])
            .and_then(|()| fs::rename(&temporary, target))
            .and_then(|()| File::open(&self.catalogs)?.sync_all());
        written.map_err(|e| {
            let _ = fs::remove_file(&temporary);
            IdbError::io("write the listing", target, e)
        })
    }

    pub(crate) fn listing_path(&self, segment: SegmentId) -> PathBuf {
        self.catalogs.join(format!("{segment}.listing"))
    }

    /// Opens a segment's catalog file; `None` if there is none.
    pub fn read_catalog(&self, segment: SegmentId) -> Result<Option<File>> {
        open(&self.catalog_path(segment))
    }

    /// Writes the sparse index of a segment's catalog file; replaces a former one. Whether it appears whole after a power
    /// cut is for its reader to check.
    pub fn write_index(&self, segment: SegmentId, bytes: &[u8]) -> Result<()> {
        let target = self.index_path(segment);
        let temporary = self.temporary_path(segment);
        let written = write(&temporary, &[bytes]).and_then(|_| fs::rename(&temporary, &target));
        written.map_err(|e| {
            let _ = fs::remove_file(&temporary);
            IdbError::io("write the sparse index", &target, e)
        })
    }

    /// Opens the sparse index of a segment's catalog file; `None` if there is none.
    pub fn read_index(&self, segment: SegmentId) -> Result<Option<File>> {
        open(&self.index_path(segment))
    }

    /// What a segment's catalog file is told from others by; `None` if there is none.
    pub fn catalog_stamp(&self, segment: SegmentId) -> Result<Option<CatalogStamp>> {
        let path = self.catalog_path(segment);
        match fs::metadata(&path) {
            Ok(m) => Ok(Some(CatalogStamp {
                len: m.len(),
                inode: m.ino(),
                written: (m.mtime(), m.mtime_nsec()),
            })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(IdbError::io("look at the catalog file", &path, e)),
        }
    }

    /// Writes the table of outlines of the session whose first segment this is; replaces a former one. Its reader checks
    /// whether it is whole and fits.
    pub fn write_table(&self, first: SegmentId, bytes: &[u8]) -> Result<()> {
        let target = self.table_path(first);
        let temporary = self.temporary_path(first);
        let written = write(&temporary, &[bytes]).and_then(|_| fs::rename(&temporary, &target));
        written.map_err(|e| {
            let _ = fs::remove_file(&temporary);
            IdbError::io("write the table of outlines", &target, e)
        })
    }

    /// Opens the table of outlines of the session whose first segment this is; `None` if there is none.
    pub fn read_table(&self, first: SegmentId) -> Result<Option<File>> {
        open(&self.table_path(first))
    }

    /// Removes that table, if there is one.
    pub fn remove_table(&self, first: SegmentId) -> Result<()> {
        let path = self.table_path(first);
        remove(&path).map_err(|e| IdbError::io("remove the table of outlines", &path, e))
    }

    /// Removes what an interrupted commit left: catalog files without a segment's row, and
    /// temporary files, both only if older than `grace`. Returns how many it removed.
    ///
    /// `grace` must exceed the time between a catalog file and its row.
    pub fn reconcile_catalogs(&self, grace: Duration) -> Result<usize> {
        let failed = |e| IdbError::io("list the directory of catalogs", &self.catalogs, e);
        let mut removed = 0;
        let mut batch = Vec::with_capacity(LOOKUP_BATCH);
        for entry in fs::read_dir(&self.catalogs).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            match kind_of(&path) {
                Kind::Catalog(segment) if is_older(&path, grace)? => batch.push(segment),
                Kind::Temporary => removed += usize::from(remove_if_older(&path, grace)?),
                Kind::Index(segment)
                    if !fs::exists(self.catalog_path(segment)).map_err(failed)? =>
                {
                    removed += usize::from(remove_if_older(&path, grace)?);
                }
                Kind::Catalog(_) | Kind::Index(_) | Kind::Foreign => {}
            }
            if batch.len() == LOOKUP_BATCH {
                removed += self.remove_unreferenced(&batch, grace)?;
                batch.clear();
            }
        }
        removed += self.remove_unreferenced(&batch, grace)?;
        Ok(removed)
    }

    fn remove_unreferenced(&self, candidates: &[SegmentId], grace: Duration) -> Result<usize> {
        let referenced = self.recorded(candidates)?;
        let mut removed = 0;
        for &segment in candidates.iter().filter(|segment| !referenced.contains(segment)) {
            // Looked at again: it may have been written anew meanwhile, its row still to come.
            for path in [self.catalog_path(segment), self.listing_path(segment)] {
                removed += usize::from(remove_if_older(&path, grace)?);
            }
        }
        Ok(removed)
    }

    /// Which of these segments have a row.
    fn recorded(&self, segments: &[SegmentId]) -> Result<HashSet<SegmentId>> {
        if segments.is_empty() {
            return Ok(HashSet::new());
        }
        self.read(format_args!("look up segments"), async |conn| {
            let mut query = QueryBuilder::<Sqlite>::new("SELECT id FROM segments WHERE id IN (");
            let mut ids = query.separated(", ");
            for segment in segments {
                ids.push_bind(segment.to_string());
            }
            query.push(")");
            let rows = query.build().fetch_all(conn).await?;
            rows.iter().map(|row| decode::parsed(row, "id")).collect()
        })
    }

    /// Removes all files of a segment; whether there was a catalog.
    pub(crate) fn remove_catalog(&self, segment: SegmentId) -> Result<bool> {
        let path = self.catalog_path(segment);
        let removed = remove(&self.index_path(segment))
            .and_then(|()| remove(&self.table_path(segment)))
            .and_then(|()| remove(&self.listing_path(segment)))
            .and_then(|()| match fs::remove_file(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
                removed => removed.map(|()| true),
            });
        removed.map_err(|e| IdbError::io("remove the catalog file", &path, e))
    }

    fn catalog_path(&self, segment: SegmentId) -> PathBuf {
        self.catalogs.join(format!("{segment}.catalog"))
    }

    fn index_path(&self, segment: SegmentId) -> PathBuf {
        self.catalogs.join(format!("{segment}.index"))
    }

    fn table_path(&self, first: SegmentId) -> PathBuf {
        self.catalogs.join(format!("{first}.table"))
    }

    /// A name that no other process and no other call uses.
    fn temporary_path(&self, segment: SegmentId) -> PathBuf {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        self.catalogs.join(format!("{segment}.{}-{call}.tmp", process::id()))
    }
}

enum Kind {
    Catalog(SegmentId),
    /// A sparse index, or a table of outlines.
    Index(SegmentId),
    Temporary,
    /// Not ours: left alone.
    Foreign,
}

fn kind_of(path: &Path) -> Kind {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
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

pub(crate) fn open(path: &Path) -> Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(IdbError::io("open the catalog file", path, e)),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn write(path: &Path, parts: &[&[u8]]) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut writer = BufWriter::new(file);
    parts.iter().try_for_each(|part| writer.write_all(part))?;
    Ok(writer.into_inner()?)
}

fn write_durably(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    write(path, parts)?.sync_all()
}

/// Whether the file exists and was last written before `grace` ago. A time in the future, after
/// the clock was set back, counts as new.
fn is_older(path: &Path, grace: Duration) -> Result<bool> {
    match fs::symlink_metadata(path).and_then(|metadata| metadata.modified()) {
        Ok(written) => Ok(written.elapsed().is_ok_and(|age| age >= grace)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(IdbError::io("look at the catalog file", path, e)),
    }
}

fn remove_if_older(path: &Path, grace: Duration) -> Result<bool> {
    if !is_older(path, grace)? {
        return Ok(false);
    }
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        // Another process's reconciler was faster.
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(IdbError::io("remove the catalog file", path, e)),
    }
}
