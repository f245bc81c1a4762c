//! Catalogs as a table for other tools: a row for each file of a version.

mod whole_file;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Stdout, Write};
use std::path::{Path, PathBuf};

use capstan_format::entry::{Entry, ExtentKind, Kind, Timestamp};
use capstan_format::id::MediumId;
use capstan_idb::table::{ColumnKind, TableWriter, Value};
use capstan_idb::{Idb, Object, Version};

use crate::error::{CatalogError, Result};
use crate::listed::state;
use crate::row::Row;
use crate::version::Merged;
use whole_file::WholeFile;

/// Rows between two looks at whether to go on.
const ROWS_PER_LOOK: u64 = 4096;

/// The columns, in order. The guide (docs/guide/duckdb.md) says what they mean.
const COLUMNS: [(&str, ColumnKind); 27] = [
    ("object", ColumnKind::Word),
    ("host", ColumnKind::Word),
    ("session", ColumnKind::Word),
    ("version_time", ColumnKind::Time),
    ("status", ColumnKind::Word),
    ("path", ColumnKind::Sorted),
    ("path_bytes", ColumnKind::Bytes),
    ("dir", ColumnKind::Word),
    ("name", ColumnKind::Sorted),
    ("kind", ColumnKind::Word),
    ("size", ColumnKind::Number),
    ("mtime", ColumnKind::Time),
    ("ctime", ColumnKind::Time),
    ("mode", ColumnKind::Number),
    ("uid", ColumnKind::Number),
    ("gid", ColumnKind::Number),
    ("user_name", ColumnKind::Word),
    ("group_name", ColumnKind::Word),
    ("inode", ColumnKind::Unsigned),
    ("device", ColumnKind::Unsigned),
    ("hard_link_to", ColumnKind::Word),
    ("target", ColumnKind::Word),
    ("checksum", ColumnKind::Checksum),
    ("state", ColumnKind::Word),
    ("segment", ColumnKind::Word),
    ("media", ColumnKind::Word),
    ("method", ColumnKind::Word),
];

/// Where the table goes.
enum Sink {
    Stdout(Stdout),
    File(WholeFile),
}

/// Counts what is written.
struct Counted(Sink, u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = match &mut self.0 {
            Sink::Stdout(out) => out.write(bytes),
            Sink::File(file) => file.write(bytes),
        }?;
        self.1 += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Sink::Stdout(out) => out.flush(),
            Sink::File(file) => file.flush(),
        }
    }
}

/// A Parquet table that is being written. Its file is there when all of it was written, and else not at all.
pub struct Export {
    to: Option<PathBuf>,
    sink: Option<Sink>,
    table: Option<TableWriter<Counted>>,
    /// Rows that were written.
    pub rows: u64,
    /// Of these, rows of which no more than names are kept, or directories without their files.
    pub poor: u64,
}

impl Export {
    /// A table in a file; `None` is standard output.
    pub fn to(path: Option<&Path>) -> Result<Self> {
        let sink = match path {
            Some(path) => Sink::File(WholeFile::create(path)?),
            None => Sink::Stdout(io::stdout()),
        };
        let to = path.map(Path::to_owned);
        Ok(Self { to, sink: Some(sink), table: None, rows: 0, poor: 0 })
    }

    /// Adds the rows of a version. `go_on` is called now and then with the number of rows so far; returns `false` where it said no.
    pub fn write(
        &mut self,
        of: &ExportOf<'_>,
        mut merged: Merged<'_>,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        let to = self.to.as_deref();
        // Made when there is something to write: standard output stays empty otherwise.
        if let Some(sink) = self.sink.take() {
            let table = TableWriter::new(Counted(sink, 0), &COLUMNS);
            self.table = Some(table.map_err(|e| not_written(to, e))?);
        }
        let Some(table) = &mut self.table else { return Ok(false) };
        let mut places = Places::default();
        while let Some(row) = merged.next()? {
            if row.entry.kind == Kind::Tombstone {
                continue;
            }
            let poor = merged.view.is_listed(row.ordinal.segment);
            let place = places.of(&merged, &row)?;
            let values = Values::of(&row, state(&merged, &row), sum_of(&merged, &row), poor);
            table.write(&of.columns(&values, place)).map_err(|e| not_written(to, e))?;
            self.rows += 1;
            self.poor += u64::from(poor);
            if self.rows.is_multiple_of(ROWS_PER_LOOK) && !go_on(self.rows) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends the table, and returns its bytes; `None` if nothing was added: then there is no file.
    pub fn finish(self) -> Result<Option<u64>> {
        let to = self.to.as_deref();
        let Some(table) = self.table else { return Ok(None) };
        let Counted(sink, bytes) = table.finish().map_err(|e| not_written(to, e))?;
        match sink {
            Sink::File(file) => file.commit()?,
            Sink::Stdout(mut out) => out.flush().map_err(|e| not_written(to, e))?,
        }
        Ok(Some(bytes))
    }
}

fn not_written(to: Option<&Path>, e: io::Error) -> CatalogError {
    match to {
        Some(path) => CatalogError::io("write", path.display())(e),
        None => CatalogError::io("write", "standard output")(e),
    }
}

/// What all rows of a version have in common.
pub struct ExportOf<'a> {
    /// The object.
    pub object: &'a Object,
    /// The version.
    pub version: &'a Version,
    /// The session that wrote it, as people call it.
    pub session: &'a str,
}

impl ExportOf<'_> {
    /// A row, in the order of [`COLUMNS`].
    fn columns<'r>(
        &'r self,
        v: &'r Values<'r>,
        place: Option<&'r Place>,
    ) -> [Value<'r>; COLUMNS.len()] {
        let known = |value: i64| if v.attributes { Value::Number(value) } else { Value::Null };
        let bits = |value: u64| known(value as i64);
        let e = v.entry;
        [
            text(&self.object.name),
            text(&self.object.host),
            text(self.session),
            Value::Number(self.version.created_us),
            text(self.version.status.as_str()),
            text(&v.path),
            v.path_bytes.as_deref().map_or(Value::Null, Value::Text),
            v.dir.as_deref().map_or(Value::Null, text),
            text(&v.name),
            text(v.kind),
            known(i64::try_from(e.size).unwrap_or(i64::MAX)),
            v.mtime.map_or(Value::Null, known),
            v.ctime.map_or(Value::Null, known),
            known(e.mode.into()),
            known(e.uid.into()),
            known(e.gid.into()),
            v.user.as_deref().map_or(Value::Null, text),
            v.group.as_deref().map_or(Value::Null, text),
            bits(e.ino),
            bits(e.dev),
            v.hard_link_to.as_deref().map_or(Value::Null, text),
            v.target.as_deref().map_or(Value::Null, text),
            v.sum.map_or(Value::Null, bits),
            v.state.map_or(Value::Null, text),
            place.map_or(Value::Null, |place| text(&place.segment)),
            place.map_or(Value::Null, |place| text(&place.media)),
            text(&self.version.method),
        ]
    }
}

/// A text.
fn text(text: &str) -> Value<'_> {
    Value::Text(text.as_bytes())
}

/// What is computed of one row.
struct Values<'a> {
    entry: &'a Entry,
    state: Option<&'static str>,
    user: Option<Cow<'a, str>>,
    group: Option<Cow<'a, str>>,
    /// Whether more than its name is known.
    attributes: bool,
    path: String,
    /// The path where it is not UTF-8.
    path_bytes: Option<Vec<u8>>,
    dir: Option<String>,
    name: Cow<'a, str>,
    kind: &'static str,
    mtime: Option<i64>,
    ctime: Option<i64>,
    hard_link_to: Option<String>,
    target: Option<Cow<'a, str>>,
    sum: Option<u64>,
}

impl<'a> Values<'a> {
    fn of(row: &'a Row, state: Option<&'static str>, sum: Option<u64>, poor: bool) -> Self {
        let e = &row.entry;
        let mut path = vec![b'/'];
        path.extend_from_slice(&e.path());
        let (path, path_bytes) = match String::from_utf8(path) {
            Ok(path) => (path, None),
            Err(e) => (String::from_utf8_lossy(e.as_bytes()).into_owned(), Some(e.into_bytes())),
        };
        let absolute = |path: &[u8]| format!("/{}", String::from_utf8_lossy(path));
        let is_root = e.dir.is_empty() && e.name.is_empty();
        let target = (!e.link && !e.target.is_empty()).then(|| String::from_utf8_lossy(&e.target));
        Self {
            entry: e,
            state,
            user: row.user.as_deref().map(String::from_utf8_lossy),
            group: row.group.as_deref().map(String::from_utf8_lossy),
            attributes: !poor || e.ino != 0,
            path,
            path_bytes,
            dir: (!is_root).then(|| absolute(&e.dir)),
            name: String::from_utf8_lossy(&e.name),
            kind: e.kind.as_str(),
            mtime: microseconds(e.mtime),
            ctime: microseconds(e.ctime),
            hard_link_to: e.link.then(|| absolute(&e.target)),
            target,
            sum,
        }
    }
}

/// The checksum of a file's contents, where they are all there and it is known.
fn sum_of(merged: &Merged<'_>, row: &Row) -> Option<u64> {
    let e = &row.entry;
    if e.kind != Kind::File || e.link || !merged.overview.is_whole(row) {
        return None;
    }
    merged.overview.content_sum(row)
}

/// Microseconds since 1970, as far as 64 bits reach.
fn microseconds(time: Timestamp) -> Option<i64> {
    time.sec.checked_mul(1_000_000)?.checked_add(i64::from(time.nsec / 1000))
}

/// Where a row's contents begin.
struct Place {
    segment: String,
    media: String,
}

/// Places by the segment's number in its version.
#[derive(Default)]
struct Places {
    by_segment: HashMap<u32, Place>,
    labels: HashMap<[u8; 16], String>,
}

impl Places {
    /// The place of a row, but where its contents lie in another segment than the row.
    fn of(&mut self, merged: &Merged<'_>, row: &Row) -> Result<Option<&Place>> {
        let elsewhere =
            |kind: &ExtentKind| matches!(kind, ExtentKind::At(..) | ExtentKind::AsIn(_));
        if row.entry.extents.iter().any(|x| elsewhere(&x.kind)) {
            return Ok(None);
        }
        let segment = row.data.segment;
        let Some(at) = merged.view.segments.get(segment as usize) else { return Ok(None) };
        if !self.by_segment.contains_key(&segment) {
            let mut media: Vec<String> = Vec::new();
            for (_, medium, _) in at.places() {
                let label = self.label(merged.view.idb, medium)?;
                if !media.contains(&label) {
                    media.push(label);
                }
            }
            let place = Place { segment: at.segment.to_string(), media: media.join(", ") };
            self.by_segment.insert(segment, place);
        }
        Ok(self.by_segment.get(&segment))
    }

    fn label(&mut self, idb: &Idb, medium: MediumId) -> Result<String> {
        if let Some(label) = self.labels.get(&medium.0) {
            return Ok(label.clone());
        }
        let row = idb.medium(medium)?;
        let label = row.map_or_else(|| medium.short(), |row| row.label);
        self.labels.insert(medium.0, label.clone());
        Ok(label)
    }
}
