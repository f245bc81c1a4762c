//! Catalogs as a table for other tools: a row for each file of a version.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Stdout, Write};
use std::path::PathBuf;

use capstan_catalog::row::Row;
use capstan_catalog::version::Merged;
use capstan_format::entry::{Entry, ExtentKind, Kind, Timestamp};
use capstan_format::id::MediumId;
use capstan_idb::table::{ColumnKind, TableWriter, Value};
use capstan_idb::{Object, Version};

use crate::Cell;
use crate::error::{CellError, Result};
use crate::query::state;
use crate::request::VersionName;
use crate::version::VersionView;
use crate::whole_file::WholeFile;

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
        let sink = match &request.to {
            Some(path) => Sink::File(WholeFile::create(path)?),
            None => Sink::Stdout(io::stdout()),
        };
        let written = |e| match &request.to {
            Some(path) => CellError::io("write", path.display())(e),
            None => CellError::io("write", "standard output")(e),
        };
        let (mut done, mut sink, mut table) = (Exported::default(), Some(sink), None);
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
            // Made when there is something to write: standard output stays empty otherwise.
            if let Some(sink) = sink.take() {
                table = Some(TableWriter::new(Counted(sink, 0), &COLUMNS).map_err(written)?);
            }
            let Some(table) = &mut table else { break };
            let session = called.rsplit('@').next().unwrap_or_default();
            let of = Of { cell: self, object: &object, version: &version, session };
            of.write(merged, table, &written, &mut done, go_on)?;
            if done.stopped {
                return Ok(done);
            }
            done.versions.push(called);
        }
        let Some(table) = table else {
            let first = done.left_out.into_iter().next().map(|(_, e)| e);
            return Err(first.unwrap_or_else(|| nothing_of(&request.version.name)));
        };
        let Counted(sink, bytes) = table.finish().map_err(written)?;
        done.bytes = bytes;
        match sink {
            Sink::File(file) => file.commit()?,
            Sink::Stdout(mut out) => out.flush().map_err(written)?,
        }
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
            return Err(CellError::BadInput(format!(
                "session {session} is one version, and all are wanted; give the object's name alone, or leave out --all-versions"
            )));
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
        Ok(Merged::with_sums(view.into_rows())?)
    }
}

fn nothing_of(name: &str) -> CellError {
    CellError::BadInput(format!(
        "'{name}' has no version that could be read; `capstan sessions` lists what there is"
    ))
}

/// What all rows of a version have in common.
struct Of<'a> {
    cell: &'a Cell,
    object: &'a Object,
    version: &'a Version,
    session: &'a str,
}

impl Of<'_> {
    fn write(
        &self,
        mut merged: Merged<'_>,
        table: &mut TableWriter<Counted>,
        written: &dyn Fn(io::Error) -> CellError,
        done: &mut Exported,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<()> {
        let mut places = Places::default();
        while let Some(row) = merged.next()? {
            if row.entry.kind == Kind::Tombstone {
                continue;
            }
            let poor = merged.view.is_listed(row.ordinal.segment);
            let place = places.of(self.cell, &merged, &row)?;
            let values = Values::of(&row, state(&merged, &row), sum_of(&merged, &row), poor);
            table.write(&self.columns(&values, place)).map_err(written)?;
            done.rows += 1;
            done.poor += u64::from(poor);
            if done.rows.is_multiple_of(ROWS_PER_LOOK) && !go_on(done.rows) {
                done.stopped = true;
                return Ok(());
            }
        }
        Ok(())
    }

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
    fn of(&mut self, cell: &Cell, merged: &Merged<'_>, row: &Row) -> Result<Option<&Place>> {
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
                let label = self.label(cell, medium)?;
                if !media.contains(&label) {
                    media.push(label);
                }
            }
            let place = Place { segment: at.segment.to_string(), media: media.join(", ") };
            self.by_segment.insert(segment, place);
        }
        Ok(self.by_segment.get(&segment))
    }

    fn label(&mut self, cell: &Cell, medium: MediumId) -> Result<String> {
        if let Some(label) = self.labels.get(&medium.0) {
            return Ok(label.clone());
        }
        let row = cell.idb.medium(medium)?;
        let label = row.map_or_else(|| medium.short(), |row| row.label);
        self.labels.insert(medium.0, label.clone());
        Ok(label)
    }
}
