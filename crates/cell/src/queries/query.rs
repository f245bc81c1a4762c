//! Questions to the internal database: what is in a version, where a name occurs, which sessions there were.

use capstan_address::HostName;
use std::collections::BTreeSet;

use capstan_catalog::find::{Among, each_among};
use capstan_catalog::listed::{Listed, listed};
use capstan_catalog::row::{Row, path_of};
use capstan_catalog::version::Merged;
use capstan_engine::problem::Problem;
use capstan_format::entry::{Entry, Kind, selected};
use capstan_format::id::{KeyId, SessionId, VersionId};
use capstan_format::keys::KeyRecord;
use capstan_idb::{Described, Keeping, Object, Session, SessionsOf, Status, Version};

use crate::Cell;
use crate::error::{CellError, QueryRefusal, Result};
use crate::queries::states::VersionState;
use crate::reading::version::VersionView;
use crate::request::VersionName;
use crate::request::Which;
use crate::session::writes_versions;
use crate::versions::clock;

/// A row found in a version.
#[derive(Debug, Clone)]
pub struct Found {
    /// The object's name.
    pub name: String,
    /// The host it is of.
    pub host: HostName,
    /// The id of the session.
    pub session: String,
    /// When that session started, in microseconds since 1970.
    pub started_us: i64,
    /// Until when the version is kept.
    pub kept: Keeping,
    /// How the version is.
    pub state: VersionState,
    /// The row.
    pub listed: Listed,
}

/// Versions that could not be searched, as their names stay encrypted.
#[derive(Debug, Default)]
pub struct PassedOver {
    /// How many.
    pub versions: u64,
    /// Why the first of them was.
    pub why: Option<CellError>,
}

impl PassedOver {
    fn add(&mut self, why: CellError) {
        self.versions += 1;
        self.why = self.why.take().or(Some(why));
    }
}

/// What a session committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// Rows: files, directories, and further rows of files in parts.
    pub rows: u64,
    /// Bytes on the medium.
    pub bytes: u64,
}

/// A session, as it is shown.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// `backup`, `restore`, …
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// The host.
    pub host: HostName,
    /// Its status.
    pub status: String,
    /// Method of a backup.
    pub method: String,
    /// The device, or a restore's target.
    pub device: String,
    /// Start, in microseconds since 1970.
    pub started_us: i64,
    /// End, in microseconds since 1970.
    pub ended_us: Option<i64>,
    /// Files.
    pub files: u64,
    /// Directories.
    pub dirs: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Whether files, directories and bytes are known: not of a session that runs, or came to no end that would say so.
    pub has_totals: bool,
    /// Labels of the media that it wrote or read.
    pub media: Vec<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// The session it goes on with or restores from.
    pub parent: Option<String>,
    /// Its report as JSON.
    pub report: Option<String>,
    /// Until when its version is kept, if it is a backup or a consolidation.
    pub kept: Option<Keeping>,
    /// Whether it made a version, and that is no more.
    pub is_removed: bool,
    /// Whether it was to make a version.
    pub is_writer: bool,
    /// Whether a medium has lost something of its version for good.
    pub is_lost: bool,
    /// What a backup committed, where it came to no end that would say so.
    pub committed: Option<Committed>,
}

impl Cell {
    /// Opens the keys of all sessions whose frames the version has: of names, and if `contents` of contents.
    pub(crate) fn add_keys(&self, view: &mut VersionView<'_>, contents: bool) -> Result<()> {
        for record in self.key_records(view)? {
            self.open_key(&record, contents, &mut view.keys)?;
        }
        Ok(())
    }

    /// The wrapped keys of all sessions whose frames the version has.
    pub(crate) fn key_records(&self, view: &VersionView<'_>) -> Result<Vec<KeyRecord>> {
        if !view.encrypted {
            return Ok(Vec::new());
        }
        let labels = view.labels()?;
        let ids: BTreeSet<[u8; 16]> = labels.iter().filter_map(|l| l.key).map(|k| k.0).collect();
        let record = |id| {
            let row = self.idb.key(KeyId(id))?.ok_or_else(|| {
                CellError::NoKey(
                    Problem::new(format!(
                        "the wrapped keys {} are not known here",
                        KeyId(id).short()
                    ))
                    .hint("import the medium again"),
                )
            })?;
            Ok(KeyRecord::from_json(row.record.as_bytes())?)
        };
        ids.into_iter().map(record).collect()
    }

    /// The rows of a version in order: those of each of `paths` and at most `depth` levels below, or of all. A path that it
    /// does not have is an error, when all others are listed. Only what is listed is read.
    pub fn list(
        &self,
        version: &VersionName,
        paths: &[Vec<u8>],
        depth: Option<usize>,
        each: &mut dyn FnMut(&Listed),
    ) -> Result<()> {
        let version = self.version(version)?;
        let mut merged = self.named(&version)?;
        let mut paths: Vec<_> = paths.iter().map(|p| crate::queries::leads::clean(p)).collect();
        if paths.is_empty() {
            paths.push(Vec::new());
        }
        let mut missing = None;
        for (at, path) in paths.iter().enumerate() {
            let earlier = paths.iter().take(at);
            if depth.is_none() && earlier.clone().any(|p| selected(std::slice::from_ref(p), path)) {
                // It was listed with that one.
                continue;
            }
            let mut any = path.is_empty();
            merged.settle_links_below(path, depth)?;
            merged.each_below(path, depth, &mut |merged, row| {
                if row.entry.kind != Kind::Tombstone {
                    any = true;
                    each(&listed(merged, row));
                }
            })?;
            if !any {
                missing = missing.or(Some(path));
            }
        }
        let Some(path) = missing else { return Ok(()) };
        let mut failed = None;
        let error = crate::queries::leads::not_in_version(path, &mut |at| {
            let mut target = None;
            let mut look = |_: &Merged<'_>, row: &Row| {
                if row.entry.kind == Kind::Symlink {
                    target = Some(row.entry.target.clone());
                }
            };
            if let Err(e) = merged.each_below(at, Some(0), &mut look) {
                failed.get_or_insert(e);
            }
            target
        });
        failed.map_or(Err(error), |e| Err(e.into()))
    }

    /// Whether a version has each of these paths.
    pub fn have_paths(&self, version: &VersionName, paths: &[&[u8]]) -> Result<Vec<bool>> {
        let version = self.version(version)?;
        let mut merged = self.named(&version)?;
        let has = |path: &&[u8]| {
            let mut has = false;
            let path = crate::queries::leads::clean(path);
            merged.each_below(&path, Some(0), &mut |_, row| {
                has |= row.entry.kind != Kind::Tombstone
            })?;
            Ok(has)
        };
        paths.iter().map(has).collect()
    }

    /// The rows of a version, to be read in order; of those whose catalogs are not kept and whose media are not at hand, what
    /// is kept of their names.
    pub(crate) fn named(&self, version: &Version) -> Result<Merged<'_>> {
        let mut view = VersionView::open_rows(self, version.id)?;
        view.listings = true;
        self.add_keys(&mut view, false)?;
        Ok(Merged::new(view.into_rows())?)
    }

    /// The rows of a version, to be read in order.
    pub(crate) fn merged(&self, version: &Version) -> Result<Merged<'_>> {
        let mut view = VersionView::open(self, version.id)?;
        self.add_keys(&mut view, false)?;
        Ok(Merged::new(view.into_rows())?)
    }

    /// Calls with each version of a path, newest first within its object: of the objects of that name, or of all. Returns what
    /// was passed over.
    pub fn versions_of_path(
        &self,
        name: Option<&str>,
        path: &[u8],
        each: &mut dyn FnMut(&Found),
    ) -> Result<PassedOver> {
        let path = crate::queries::leads::clean(path);
        let objects = match name {
            Some(name) => self.objects_named(&[name.to_owned()], &[])?,
            None => self.idb.objects()?,
        };
        let (which, among) = (Which::All, Among::Path(&path));
        self.each_found_of(objects, which, among, &mut |p, _| p == path, each)
    }

    /// Calls with each row that matches in the versions of each object that are meant. Returns what was passed over.
    pub(crate) fn each_found(
        &self,
        which: Which,
        among: Among<'_>,
        matches: &mut dyn FnMut(&[u8], &Entry) -> bool,
        each: &mut dyn FnMut(&Found),
    ) -> Result<PassedOver> {
        self.each_found_of(self.idb.objects()?, which, among, matches, each)
    }

    fn each_found_of(
        &self,
        objects: Vec<Object>,
        which: Which,
        among: Among<'_>,
        matches: &mut dyn FnMut(&[u8], &Entry) -> bool,
        each: &mut dyn FnMut(&Found),
    ) -> Result<PassedOver> {
        let mut passed = PassedOver::default();
        let mut read: u64 = 0;
        let states = self.states()?;
        for object in objects {
            let mut versions = self.idb.versions_of(object.id)?;
            versions.retain(|v| !v.null_device);
            match which {
                Which::AsOf(at) => {
                    versions = clock::newest_by(&versions, at).cloned().into_iter().collect();
                }
                Which::Newest => versions.truncate(1),
                Which::All => {}
            }
            for version in versions {
                let session = self.writer_of(version.id)?.map(|s| s.id.to_string());
                let kept = self.idb.keeping(version.id)?;
                let mut take = |row: &Row, listed: &Listed| {
                    if matches(&path_of(row), &row.entry) {
                        each(&Found {
                            name: object.name.clone(),
                            host: object.host.clone(),
                            session: session.clone().unwrap_or_default(),
                            started_us: version.created_us,
                            kept,
                            state: states.of(&version),
                            listed: listed.clone(),
                        });
                    }
                };
                let result = self
                    .named(&version)
                    .and_then(|mut rows| Ok(each_among(&mut rows, among, &mut take)?));
                match result {
                    Ok(()) => read += 1,
                    // Keys are opened before the first row is given.
                    Err(e) if e.is_of_keys() => passed.add(e),
                    Err(e) => return Err(e),
                }
            }
        }
        match passed.why {
            // Without what opens any of them there is nothing to search.
            Some(e) if read == 0 => Err(e),
            why => Ok(PassedOver { why, ..passed }),
        }
    }

    /// The newest sessions, newest first: those of objects of that name, or of all; of these kinds, or of all.
    pub fn sessions(
        &self,
        name: Option<&str>,
        kinds: Option<&[&str]>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>> {
        let objects = match name {
            Some(name) => {
                let objects = self.objects_named(&[name.to_owned()], &[])?;
                Some(objects.into_iter().map(|object| object.id).collect())
            }
            None => None,
        };
        let kinds = kinds.map(|kinds| kinds.iter().map(|&kind| kind.to_owned()).collect());
        let found = self.idb.described_sessions(&SessionsOf { objects, kinds }, limit)?;
        found.into_iter().map(|(session, of)| self.info(&session, of)).collect()
    }

    /// The session whose id begins so.
    pub fn session(&self, prefix: &str) -> Result<SessionInfo> {
        let one = self.session_row(prefix)?;
        self.info(&one, self.worked_on(&one)?)
    }

    /// The same, as it is recorded.
    pub(crate) fn session_row(&self, prefix: &str) -> Result<Session> {
        let mut found = self.idb.sessions_by_prefix(prefix)?;
        match (found.len(), found.pop()) {
            (1, Some(one)) => Ok(one),
            (0, _) => Err(QueryRefusal::UnknownSession { prefix: prefix.to_owned() }.into()),
            (n, _) => {
                Err(QueryRefusal::PrefixAmbiguous { count: n, prefix: prefix.to_owned() }.into())
            }
        }
    }

    /// The last session that wrote a version, of those that are on record.
    pub(crate) fn writer_of(&self, version: VersionId) -> Result<Option<Session>> {
        let sessions = self.idb.sessions_of_version(version)?;
        Ok(sessions.into_iter().rfind(|s| writes_versions(&s.kind)))
    }

    fn worked_on(&self, s: &Session) -> Result<Described> {
        let name = match s.object {
            Some(id) => self.idb.object(id)?.map(|o| o.name).unwrap_or_default(),
            None => String::new(),
        };
        let version = match s.version {
            Some(id) => self.idb.version(id)?,
            None => None,
        };
        let version = match version {
            Some(version) => Some((version.method, self.idb.keeping(version.id)?)),
            None => None,
        };
        Ok(Described { name, version })
    }

    fn info(&self, s: &Session, of: Described) -> Result<SessionInfo> {
        let Described { name, version } = of;
        let (method, kept) = version.unzip();
        // What only read a version says nothing of how that is kept.
        let is_writer = writes_versions(&s.kind);
        let kept = kept.filter(|_| is_writer);
        let method = method.unwrap_or_default();
        Ok(SessionInfo {
            id: s.id.to_string(),
            kind: s.kind.clone(),
            name,
            host: s.host.clone(),
            status: s.status.to_string(),
            method,
            device: s.device.clone(),
            started_us: s.started_us,
            ended_us: s.ended_us,
            files: s.files,
            dirs: s.dirs,
            bytes_read: s.bytes_read,
            bytes_written: s.bytes_written,
            has_totals: has_totals(s),
            media: self.media_of_session(s)?,
            tags: s.tags.clone(),
            parent: s.parent.map(|p| p.to_string()),
            report: s.report.clone(),
            is_removed: is_writer && kept.is_none() && s.status != Status::Failed,
            is_writer,
            is_lost: match s.version.filter(|_| is_writer) {
                Some(version) => self.lost_of(version)?.is_some(),
                None => false,
            },
            kept,
            committed: self.committed(s)?,
        })
    }

    /// The media that a session wrote or read, as its report says; of one without, those that have something of its version.
    fn media_of_session(&self, s: &Session) -> Result<Vec<String>> {
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct OfReport {
            media: Vec<String>,
        }
        if let Some(json) = &s.report {
            // One that cannot be read says nothing.
            return Ok(serde_json::from_str::<OfReport>(json).unwrap_or_default().media);
        }
        match s.version.filter(|_| writes_versions(&s.kind)) {
            Some(version) => self.labels_of_version(version),
            None => Ok(Vec::new()),
        }
    }

    /// Whether a session was written together with the one that segments name: those begin at one time.
    fn wrote_with(&self, s: &Session, named: SessionId) -> Result<bool> {
        let named = self.idb.session(named)?;
        Ok(named.is_some_and(|named| named.started_us == s.started_us && named.kind == s.kind))
    }

    /// The sum of a session's segments, where it has no totals of its own.
    fn committed(&self, s: &Session) -> Result<Option<Committed>> {
        let Some(version) = s.version.filter(|_| !has_totals(s)) else {
            return Ok(None);
        };
        let mut sum = Committed { rows: 0, bytes: 0 };
        let mut counted = BTreeSet::new();
        let copies = self.idb.copies_of_version(version)?;
        for (segment, parts) in self.idb.segments_of_version(version)? {
            // One that lies on several media comes with each.
            let own = segment.session == s.id || self.wrote_with(s, segment.session)?;
            if own && !copies.contains_key(&segment.id) && counted.insert(segment.id.0) {
                sum.bytes = sum.bytes.saturating_add(segment.bytes);
                sum.rows = parts.iter().fold(sum.rows, |all, p| all.saturating_add(p.rows));
            }
        }
        Ok((!counted.is_empty()).then_some(sum))
    }
}

/// Whether a session has totals: its own, or those of its end on the medium that it was imported from.
pub(crate) fn has_totals(s: &Session) -> bool {
    let ended = matches!(s.status, Status::Completed | Status::CompletedWithErrors);
    ended || s.report.is_some() || s.files + s.dirs + s.bytes_read > 0
}
