//! An object version as its catalogs show it: which rows it has, where their data lie, and what became of them.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::BufReader;
use std::ops::Range;
use std::sync::Arc;

use capstan_devices::DeviceError;
use capstan_devices::address::Address;
use capstan_devices::file::FileMedium;
use capstan_engine::message::Code;
use capstan_format::batch::Batch;
use capstan_format::codec::Decompressor;
use capstan_format::entry::{Entry, Kind, Outcome, OutcomeCode};
use capstan_format::id::{MediumId, SegmentId, SegmentNumber, StreamId, VersionId};
use capstan_format::keys::{Cipher, FrameSealer, Key32, KeyRecord, Purpose, Unlocked};
use capstan_format::record::SessionLabel;
use capstan_idb::{Idb, Version};
use capstan_media_agent::reader::{Contents, SegmentReader, StreamContents};
use capstan_media_agent::scan::scan;

use crate::error::{CellError, Result, plain};

/// The order of rows in a version: session, segment, then place in its stream there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ordinal {
    /// Which of the version's sessions wrote it, from 0.
    pub session: u32,
    pub segment: u32,
    pub row: u32,
    pub stream: StreamId,
}

impl Ordinal {
    /// Whether a row here speaks of a newer state of its file than one there. Rows of one stream are in order; those of
    /// different streams in one session are of one state: pieces of a huge file may lie before its own row.
    fn is_newer_than(&self, other: &Self) -> bool {
        if self.stream == other.stream { self > other } else { self.session > other.session }
    }
}

/// A segment that the version has rows in.
#[derive(Debug, Clone)]
pub(crate) struct SegmentPlace {
    pub segment: SegmentId,
    /// Media it lies on, each with its number there.
    pub media: Vec<(MediumId, SegmentNumber)>,
    /// The version's streams in it.
    pub streams: Vec<StreamId>,
    /// Which of the version's sessions wrote it, from 0.
    pub session: u32,
}

/// A row with the place of its data.
pub(crate) struct Row {
    pub entry: Entry,
    pub ordinal: Ordinal,
    /// The stream's logical offset at which its data begin.
    pub start: u64,
    pub user: Option<Arc<[u8]>>,
    pub group: Option<Arc<[u8]>>,
}

/// Keys of the sessions whose frames a version has.
#[derive(Default)]
pub(crate) struct VersionKeys {
    names: HashMap<[u8; 16], (Key32, Cipher)>,
    contents: HashMap<[u8; 16], (Key32, Cipher)>,
}

impl VersionKeys {
    /// Opens a key record with what was unlocked.
    pub fn add(&mut self, record: &KeyRecord, unlocked: &Unlocked, contents: bool) -> Result<()> {
        let id = *record.id().as_bytes();
        self.names.insert(id, (record.unwrap_names(unlocked)?, record.cipher()));
        if contents {
            self.contents.insert(id, (record.unwrap_contents(unlocked)?, record.cipher()));
        }
        Ok(())
    }

    pub fn sealer(
        &self,
        purpose: Purpose,
        label: Option<&SessionLabel>,
        stream: StreamId,
    ) -> Result<Option<FrameSealer>> {
        let Some(id) = label.and_then(|l| l.key) else { return Ok(None) };
        let keys = if purpose == Purpose::Names { &self.names } else { &self.contents };
        let Some((key, cipher)) = keys.get(id.as_bytes()) else { return Ok(None) };
        Ok(Some(FrameSealer::new(key, purpose, stream, *cipher)?))
    }
}

/// A version and what it builds on, newest first.
fn chain(idb: &Idb, version: VersionId) -> Result<Vec<Version>> {
    let mut chain: Vec<Version> = Vec::new();
    let mut next = Some(version);
    while let Some(id) = next {
        let row = idb.version(id)?.filter(|_| chain.iter().all(|v| v.id != id));
        let row = row.ok_or_else(|| {
            CellError::BadInput(format!(
                "version {}, which this one builds on, is not known; import the medium that has it",
                id.short()
            ))
        })?;
        next = row.base;
        chain.push(row);
    }
    Ok(chain)
}

/// An object version, with what it builds on: its segments in order.
pub(crate) struct VersionView<'a> {
    pub idb: &'a Idb,
    /// Whether any of its sessions is encrypted.
    pub encrypted: bool,
    pub segments: Vec<SegmentPlace>,
    pub keys: VersionKeys,
    media: Mutex<HashMap<MediumId, FileMedium>>,
    /// The segment asked for last: all workers of a session are in the same one, or about to be.
    last: Mutex<Option<(SegmentId, Arc<Contents>)>>,
}

impl<'a> VersionView<'a> {
    pub fn open(idb: &'a Idb, version: VersionId) -> Result<Self> {
        let mut segments: Vec<SegmentPlace> = Vec::new();
        let mut sessions = Vec::new();
        let chain = chain(idb, version)?;
        let encrypted = chain.iter().any(|v| v.key.is_some());
        let parts = chain.iter().rev().map(|v| idb.segments_of_version(v.id));
        for (segment, parts) in
            parts.collect::<std::result::Result<Vec<_>, _>>()?.into_iter().flatten()
        {
            if !sessions.contains(&segment.session) {
                sessions.push(segment.session);
            }
            let place = (segment.medium, segment.number);
            match segments.iter_mut().find(|s| s.segment == segment.id) {
                Some(known) => known.media.push(place),
                None => segments.push(SegmentPlace {
                    segment: segment.id,
                    media: vec![place],
                    streams: parts.iter().map(|p| p.stream).collect(),
                    // They come in the order of their sessions.
                    session: sessions.len().saturating_sub(1) as u32,
                }),
            }
        }
        Ok(Self {
            idb,
            encrypted,
            segments,
            keys: VersionKeys::default(),
            media: Mutex::default(),
            last: Mutex::default(),
        })
    }

    /// The medium, opened once.
    pub fn medium(&self, id: MediumId) -> Result<FileMedium> {
        let mut media = self.media.lock();
        if let Some(medium) = media.get(&id) {
            return Ok(medium.clone());
        }
        let row = self.idb.medium(id)?;
        let row = row.ok_or_else(|| {
            CellError::BadInput(format!("medium {} is not known; import it first", id.short()))
        })?;
        let Address::File(path) = row.device.parse::<Address>()? else {
            return Err(CellError::BadInput(format!("medium {} keeps nothing", row.label)));
        };
        let medium = FileMedium::open(&path).map_err(|e| not_there(e, &row))?;
        if medium.header().medium != id {
            return Err(CellError::BadInput(format!(
                "{} holds medium {}, not {} ({}); mount the right one there, or import it from where it is",
                row.device,
                medium.header().medium.short(),
                id.short(),
                row.label
            )));
        }
        media.insert(id, medium.clone());
        Ok(medium)
    }

    /// Refuses a version of which no medium is at hand.
    pub fn require_a_medium(&self) -> Result<()> {
        let mut first = None;
        let mut tried: Vec<MediumId> = Vec::new();
        for (id, _) in self.segments.iter().flat_map(|s| &s.media) {
            if tried.contains(id) {
                continue;
            }
            tried.push(*id);
            match self.medium(*id) {
                Ok(_) => return Ok(()),
                Err(e) => first = first.or(Some(e)),
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Opens a segment on the first medium where it can be.
    pub fn open_segment(&self, place: &SegmentPlace) -> Result<SegmentReader> {
        let mut failed = None;
        for (medium, number) in &place.media {
            let opened = self.medium(*medium).and_then(|m| Ok(SegmentReader::open(&m, *number)?));
            match opened {
                Ok(reader) => return Ok(reader),
                Err(e) => failed = Some(e),
            }
        }
        Err(failed.unwrap_or_else(|| {
            CellError::BadInput(format!(
                "segment {} lies on no known medium",
                place.segment.short()
            ))
        }))
    }

    /// What a segment holds: from the IDB's catalog, else from the medium's, else by reading all of it.
    pub fn contents(&self, place: &SegmentPlace) -> Result<Arc<Contents>> {
        // Held while it is read, so that others wait for it instead of reading it too.
        let mut last = self.last.lock();
        if let Some((_, contents)) = last.as_ref().filter(|(segment, _)| *segment == place.segment)
        {
            return Ok(contents.clone());
        }
        *last = None;
        let contents = Arc::new(self.read_contents(place)?);
        *last = Some((place.segment, contents.clone()));
        Ok(contents)
    }

    fn read_contents(&self, place: &SegmentPlace) -> Result<Contents> {
        if let Some(file) = self.idb.read_catalog(place.segment)?
            && let Ok(contents) = Contents::from_catalog(place.segment, BufReader::new(file))
        {
            return Ok(contents);
        }
        let reader = self.open_segment(place)?;
        if let Ok(contents) = reader.catalog() {
            return Ok(contents);
        }
        Ok(scan(&reader)?.contents)
    }

    /// The decoded batches of a stream in a segment, with the logical offset of each one's first row.
    pub fn batches(
        &self,
        stream: &StreamContents,
        range: Range<usize>,
        each: &mut dyn FnMut(usize, Batch, u64) -> Result<()>,
    ) -> Result<()> {
        let label = stream.label.as_ref().map(|l| &l.session);
        let sealer = self.keys.sealer(Purpose::Names, label, stream.stream)?;
        let (mut d, mut scratch, mut plain) = (Decompressor::default(), Vec::new(), Vec::new());
        for (index, raw) in stream.batches.iter().enumerate().skip(range.start).take(range.len()) {
            let what = || format!("a batch of stream {}", stream.stream.short());
            let format = |source| CellError::Format { what: what(), source };
            raw.header
                .open(&raw.stored, sealer.as_ref(), &mut d, &mut scratch, &mut plain)
                .map_err(format)?;
            let batch = Batch::decode(&plain).map_err(format)?;
            let start = raw.header.logical.saturating_add(batch.data_at);
            each(index, batch, start)?;
        }
        Ok(())
    }

    /// The rows of a stream in a segment, in order.
    pub fn rows(
        &self,
        segment: u32,
        stream: &StreamContents,
        each: &mut dyn FnMut(Row) -> Result<()>,
    ) -> Result<()> {
        self.rows_of(segment, stream, 0..stream.batches.len(), each)
    }

    /// The rows of some batches of a stream in a segment, in order.
    pub fn rows_of(
        &self,
        segment: u32,
        stream: &StreamContents,
        batches: Range<usize>,
        each: &mut dyn FnMut(Row) -> Result<()>,
    ) -> Result<()> {
        let session = self.segments.get(segment as usize).map_or(0, |s| s.session);
        self.batches(stream, batches, &mut |index, batch, mut start| {
            let names = |names: Vec<(u32, Vec<u8>)>| -> HashMap<u32, Arc<[u8]>> {
                names.into_iter().map(|(id, name)| (id, name.into())).collect()
            };
            let (users, groups) = (names(batch.users), names(batch.groups));
            for (at, entry) in batch.entries.into_iter().enumerate() {
                let len = entry.logical_len();
                // A batch has at most 2^16 rows.
                let row = (index as u32) << 16 | at as u32;
                let (user, group) =
                    (users.get(&entry.uid).cloned(), groups.get(&entry.gid).cloned());
                let ordinal = Ordinal { session, segment, row, stream: stream.stream };
                each(Row { entry, ordinal, start, user, group })?;
                start = start.saturating_add(len);
            }
            Ok(())
        })
    }

    /// All rows, segment by segment, stream by stream.
    pub fn all_rows(&self, each: &mut dyn FnMut(&StreamContents, Row) -> Result<()>) -> Result<()> {
        for (index, place) in self.segments.iter().enumerate() {
            let contents = self.contents(place)?;
            for stream in contents.streams.iter().filter(|s| place.streams.contains(&s.stream)) {
                self.rows(index as u32, stream, &mut |row| each(stream, row))?;
            }
        }
        Ok(())
    }
}

/// What a pass over all rows of a version finds that single rows do not show.
#[derive(Default)]
pub(crate) struct Overview {
    /// The newest row that replaces or removes earlier ones of its path.
    replaced: HashMap<Vec<u8>, Ordinal>,
    /// What reading found, with the place of the record.
    outcomes: HashMap<Vec<u8>, (Ordinal, Outcome)>,
    /// Ranges of each stream's logical bytes that are on media, in the order of the segments.
    spans: HashMap<StreamId, Vec<(u64, u64)>>,
    /// Each file's parts that are on media, with their bytes.
    parts: HashMap<Vec<u8>, Vec<(Ordinal, u64)>>,
    pub files: u64,
    pub dirs: u64,
    pub bytes: u64,
    pub links: u64,
    pub flagged: u64,
}

impl Overview {
    pub fn of(view: &VersionView<'_>) -> Result<Self> {
        let mut o = Self::default();
        // What is on media of each stream first: rows are judged by it.
        for place in &view.segments {
            let contents = view.contents(place)?;
            for s in &contents.streams {
                let begin = s.index.first().map_or(s.logical_end, |p| p.logical);
                o.spans.entry(s.stream).or_default().push((begin, s.logical_end));
            }
        }
        view.all_rows(&mut |stream, row| {
            o.take(stream, &row);
            Ok(())
        })?;
        Ok(o)
    }

    fn take(&mut self, stream: &StreamContents, row: &Row) {
        let e = &row.entry;
        if e.replaces && e.kind.is_inode() || e.kind == Kind::Tombstone {
            let newest = self.replaced.entry(e.path()).or_insert(row.ordinal);
            *newest = (*newest).max(row.ordinal);
        }
        match e.kind {
            Kind::Outcome => {
                if let Some(outcome) = e.outcome {
                    self.outcomes.insert(e.path(), (row.ordinal, outcome));
                }
            }
            Kind::Part => {
                let here = stream.logical_end.min(row.start.saturating_add(e.size));
                let len = here.saturating_sub(row.start);
                if len > 0 {
                    self.parts.entry(e.path()).or_default().push((row.ordinal, len));
                }
            }
            Kind::Dir => self.dirs += 1,
            kind if kind.is_inode() && self.is_first(stream, row) => {
                self.files += 1;
                self.bytes = self.bytes.saturating_add(if e.link { 0 } else { e.size });
                self.links += u64::from(e.link);
            }
            _ => {}
        }
        self.flagged += u64::from(e.inode_flags != 0);
    }

    /// Whether the row's data, if it has any, begin in this segment: else it comes again in the next.
    pub fn is_first(&self, stream: &StreamContents, row: &Row) -> bool {
        row.entry.logical_len() == 0 || row.start < stream.logical_end
    }

    /// Whether a newer row takes this one's place.
    pub fn is_replaced(&self, path: &[u8], ordinal: Ordinal) -> bool {
        !self.replaced.is_empty()
            && self.replaced.get(path).is_some_and(|newest| newest.is_newer_than(&ordinal))
    }

    /// What reading found of the file that this row is of.
    pub fn outcome(&self, path: &[u8], ordinal: Ordinal) -> Option<Outcome> {
        let (at, outcome) = self.outcomes.get(path)?;
        (!ordinal.is_newer_than(at)).then_some(*outcome)
    }

    /// Whether all data that the row promises are on media.
    pub fn is_whole(&self, stream: StreamId, row: &Row) -> bool {
        let e = &row.entry;
        if !self.is_on_media(stream, row.start, e.logical_len()) {
            return false;
        }
        let parts: u64 = e
            .extents
            .iter()
            .filter(|x| x.kind == capstan_format::entry::ExtentKind::Parts)
            .map(|x| x.len)
            .sum();
        if parts == 0 {
            return true;
        }
        let path = e.path();
        let have = self.parts.get(&path).map(Vec::as_slice).unwrap_or_default();
        // Those of an earlier session's try do not count.
        let have = have.iter().filter(|(ordinal, _)| !self.is_replaced(&path, *ordinal));
        have.map(|(_, len)| len).sum::<u64>() >= parts
    }

    /// Whether not even the begin of the data that the row promises is on media: the row does not come again.
    pub fn is_unkept(&self, stream: StreamId, row: &Row) -> bool {
        row.entry.logical_len() > 0 && !self.is_on_media(stream, row.start, 1)
    }

    fn is_on_media(&self, stream: StreamId, start: u64, len: u64) -> bool {
        let end = start.saturating_add(len);
        let mut at = start;
        for (from, to) in self.spans.get(&stream).map(Vec::as_slice).unwrap_or_default() {
            if (*from..*to).contains(&at) {
                at = *to;
            }
        }
        at >= end
    }

    /// Whether the row's file was read as one state, whole.
    pub fn is_clean(&self, path: &[u8], ordinal: Ordinal) -> bool {
        !matches!(
            self.outcome(path, ordinal).map(|o| o.code),
            Some(
                OutcomeCode::Changed
                    | OutcomeCode::Short
                    | OutcomeCode::Unreadable
                    | OutcomeCode::Vanished
            )
        )
    }
}

/// What an outcome means to who restores or verifies; nothing where the file is what it was.
pub(crate) fn of_outcome(o: Outcome) -> Option<(Code, String)> {
    match o.code {
        OutcomeCode::Changed => {
            Some((Code::Changed, "it changed while it was backed up".to_owned()))
        }
        OutcomeCode::Short => {
            Some((Code::Short, format!("it was cut at byte {} by the backup", o.offset)))
        }
        OutcomeCode::Unreadable => {
            let text = format!(
                "the backup could not read it from byte {} on; the rest is zeros",
                o.offset
            );
            Some((Code::Unreadable, text))
        }
        _ => None,
    }
}

/// The rows of a stream's batches with the logical offset of each one's data, outside of any version.
pub(crate) fn rows_of_stream(
    keys: &VersionKeys,
    stream: &StreamContents,
    each: &mut dyn FnMut(&Entry, u64),
) -> Result<()> {
    let label = stream.label.as_ref().map(|l| &l.session);
    let sealer = keys.sealer(Purpose::Names, label, stream.stream)?;
    let (mut d, mut scratch, mut plain) = (Decompressor::default(), Vec::new(), Vec::new());
    for raw in &stream.batches {
        let format = |source| CellError::Format { what: "a batch".to_owned(), source };
        raw.header
            .open(&raw.stored, sealer.as_ref(), &mut d, &mut scratch, &mut plain)
            .map_err(format)?;
        let batch = Batch::decode(&plain).map_err(format)?;
        let mut start = raw.header.logical.saturating_add(batch.data_at);
        for entry in &batch.entries {
            each(entry, start);
            start = start.saturating_add(entry.logical_len());
        }
    }
    Ok(())
}

/// The error for a medium that cannot be opened where it was last seen.
fn not_there(e: DeviceError, medium: &capstan_idb::Medium) -> CellError {
    let why = match &e {
        DeviceError::Io { source, .. } => plain(source),
        DeviceError::NoMedium(_) => "no medium is there".to_owned(),
        _ => return e.into(),
    };
    CellError::BadInput(format!(
        "cannot read medium '{}' ({}) in {}: {why}; mount it there, or import it from where it is now",
        medium.label,
        medium.id.short(),
        medium.device
    ))
}
