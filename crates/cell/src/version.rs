//! An object version as its catalogs show it: which rows it has, where their data lie, and what became of them.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::BufReader;
use std::ops::Range;
use std::sync::Arc;

use capstan_devices::file::FileMedium;
use capstan_engine::message::Code;
use capstan_format::batch::Batch;
use capstan_format::catalog::{Contents, RawFrame, StreamContents};
use capstan_format::codec::Decompressor;
use capstan_format::entry::{Entry, ExtentKind, Outcome, OutcomeCode};
use capstan_format::id::{KeyId, MediumId, SegmentId, StreamId, VersionId};
use capstan_format::keys::{Cipher, FrameSealer, Key32, KeyRecord, Purpose, Unlocked};
use capstan_format::record::SessionLabel;
use capstan_format::sums::Sums;
use capstan_idb::{Idb, Status, Version};

use crate::Cell;
use crate::error::{CellError, Result};
use crate::lease::Reading;
pub(crate) use crate::places::SegmentPlace;
use crate::places::{Place, places_of};
use crate::replica::Stood;
use crate::sparse::row_number;

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
    pub(crate) fn is_newer_than(&self, other: &Self) -> bool {
        if self.stream == other.stream { self > other } else { self.session > other.session }
    }
}

/// A row with the place of its data.
#[derive(Clone)]
pub(crate) struct Row {
    pub entry: Entry,
    pub ordinal: Ordinal,
    /// The stream's logical offset at which its data begin.
    pub start: u64,
    /// Where its data are: itself, or the row of an earlier version of which only the metadata changed since.
    pub data: Ordinal,
    /// The checksum of its data in this segment, where that was asked for and is known.
    pub sum: Option<u64>,
    pub user: Option<Arc<[u8]>>,
    pub group: Option<Arc<[u8]>>,
}

impl Row {
    /// Whether its contents are those of an earlier version's row.
    pub fn is_as_in(&self) -> bool {
        self.entry.extents.iter().any(|x| matches!(x.kind, ExtentKind::AsIn(_)))
    }
}

/// Keys of the sessions whose frames a version has.
#[derive(Default)]
pub(crate) struct VersionKeys {
    names: HashMap<[u8; 16], (Key32, Cipher)>,
    contents: HashMap<[u8; 16], (Key32, Cipher)>,
}

impl VersionKeys {
    /// Those of a session that is being written: its names.
    pub fn of_names(id: KeyId, names: &Key32, cipher: Cipher) -> Self {
        let mut keys = Self::default();
        keys.names.insert(id.0, (names.clone(), cipher));
        keys
    }

    /// Opens a key record with what was unlocked.
    pub fn add(&mut self, record: &KeyRecord, unlocked: &Unlocked, contents: bool) -> Result<()> {
        let id = *record.id().as_bytes();
        self.names.insert(id, (record.unwrap_names(unlocked)?, record.cipher()));
        if contents {
            self.contents.insert(id, (record.unwrap_contents(unlocked)?, record.cipher()));
        }
        Ok(())
    }

    /// Adds those of another version.
    pub fn extend(&mut self, other: &Self) {
        let all = |keys: &HashMap<[u8; 16], (Key32, Cipher)>| {
            keys.iter().map(|(id, (key, cipher))| (*id, (key.clone(), *cipher))).collect::<Vec<_>>()
        };
        self.names.extend(all(&other.names));
        self.contents.extend(all(&other.contents));
    }

    /// A session's key of that purpose, if it is open.
    pub fn key(&self, purpose: Purpose, id: KeyId) -> Option<&Key32> {
        let keys = if purpose == Purpose::Names { &self.names } else { &self.contents };
        keys.get(id.as_bytes()).map(|(key, _)| key)
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
pub(crate) fn chain(idb: &Idb, version: VersionId) -> Result<Vec<Version>> {
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

/// Where a segment's contents were read from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum From {
    /// The IDB's catalog file, of so many bytes.
    Catalog(u64),
    /// The medium.
    Medium,
    /// What is kept where the catalog is not: names.
    Listing,
}

/// Refuses a version that is complete and of which no segment is known: its medium is away, or gave it up.
fn refuse_unknown(idb: &Idb, version: &Version) -> Result<()> {
    let complete = matches!(version.status, Status::Completed | Status::CompletedWithErrors);
    if !complete || version.null_device || idb.has_segments(version.id)? {
        return Ok(());
    }
    let session = idb.sessions_of_version(version.id)?.last().map(|s| s.id.short());
    Err(CellError::BadInput(format!(
        "nothing of session {} is on any known medium; import the medium that has it",
        session.unwrap_or_else(|| version.id.short())
    )))
}

/// An object version, with what it builds on: its segments in order.
pub(crate) struct VersionView<'a> {
    pub cell: &'a Cell,
    pub idb: &'a Idb,
    /// The version.
    pub version: VersionId,
    /// Whether any of its versions is encrypted, and whether all are.
    pub encrypted: bool,
    all_encrypted: bool,
    pub segments: Vec<SegmentPlace>,
    pub keys: VersionKeys,
    /// Whether listings will do where no medium is at hand.
    pub listings: bool,
    /// Segments of which there was no more than a listing.
    listed: Mutex<Vec<SegmentId>>,
    pub(crate) media: Mutex<HashMap<MediumId, FileMedium>>,
    /// Media that others have, and why they were given up.
    pub(crate) in_use: Mutex<HashMap<MediumId, String>>,
    /// What was read elsewhere than where it was looked for first.
    pub(crate) replicas: Mutex<Vec<Stood>>,
    /// Segments of which names are lost: no place at hand has all of them.
    pub(crate) poor: Mutex<Vec<SegmentId>>,
    /// Places at which damage was found, and recorded.
    pub(crate) hurt: Mutex<Vec<Place>>,
    /// Media that segments were opened on, in that order.
    pub(crate) used: Mutex<Vec<MediumId>>,
    /// The segments asked for last: all workers of a session are in the same one, or about to be; a second place is for
    /// the copy that stands in for it.
    last: Mutex<Vec<(SegmentId, Arc<Contents>, From)>>,
    /// Nothing of it is removed meanwhile.
    _reading: Option<Reading>,
}

impl<'a> VersionView<'a> {
    /// A version that is to be read: with all that it builds on it is held as long as this is there.
    pub fn open(cell: &'a Cell, version: VersionId) -> Result<Self> {
        let reading = cell.hold_version(version)?;
        Self::of_chain(cell, version, Some(reading))
    }

    /// A version of which no more is looked at than the database has: rows, names.
    pub fn open_rows(cell: &'a Cell, version: VersionId) -> Result<Self> {
        Self::of_chain(cell, version, None)
    }

    fn of_chain(cell: &'a Cell, version: VersionId, reading: Option<Reading>) -> Result<Self> {
        let chain = chain(&cell.idb, version)?;
        for version in &chain {
            refuse_unknown(&cell.idb, version)?;
        }
        Self::of(cell, &chain, false, reading)
    }

    /// A version without what it builds on, to be copied: with all that says of its sessions how they ended. Who copies holds what he
    /// copies.
    pub fn open_alone(cell: &'a Cell, version: Version) -> Result<Self> {
        Self::of(cell, &[version], true, None)
    }

    fn of(
        cell: &'a Cell,
        chain: &[Version],
        with_ends: bool,
        reading: Option<Reading>,
    ) -> Result<Self> {
        let idb = &*cell.idb;
        Ok(Self {
            cell,
            idb,
            version: chain.first().map_or(VersionId([0; 16]), |v| v.id),
            encrypted: chain.iter().any(|v| v.key.is_some()),
            all_encrypted: chain.iter().all(|v| v.key.is_some()),
            segments: places_of(idb, chain, with_ends)?,
            keys: VersionKeys::default(),
            listings: false,
            listed: Mutex::default(),
            media: Mutex::default(),
            in_use: Mutex::default(),
            replicas: Mutex::default(),
            poor: Mutex::default(),
            hurt: Mutex::default(),
            used: Mutex::default(),
            last: Mutex::default(),
            _reading: reading,
        })
    }

    /// The segments that only say how sessions of it ended: of those in which nothing had changed, say.
    pub fn ends(&self) -> Result<Vec<SegmentPlace>> {
        let mut ends = places_of(self.idb, &chain(self.idb, self.version)?, true)?;
        ends.retain(|end| self.segments.iter().all(|s| s.segment != end.segment));
        Ok(ends)
    }

    /// Leaves out places on other media than these.
    pub fn keep_places(&mut self, keep: &dyn Fn(MediumId) -> bool) {
        self.segments.iter_mut().for_each(|place| place.keep(keep));
    }

    /// Whether all of it is encrypted, or nothing.
    pub fn encrypted_alike(&self, encrypted: bool) -> bool {
        if encrypted { self.all_encrypted } else { !self.encrypted }
    }

    /// What a segment holds: from the IDB's catalog, else from the medium's, else by reading all of it.
    pub fn contents(&self, place: &SegmentPlace) -> Result<Arc<Contents>> {
        Ok(self.contents_from(place)?.0)
    }

    pub fn contents_from(&self, place: &SegmentPlace) -> Result<(Arc<Contents>, From)> {
        self.kept_contents(place.segment, || self.read_contents(place))
    }

    /// Contents of a segment, read if they are not among those asked for last.
    pub fn kept_contents(
        &self,
        segment: SegmentId,
        read: impl FnOnce() -> Result<(Contents, From)>,
    ) -> Result<(Arc<Contents>, From)> {
        // Held while it is read, so that others wait for it instead of reading it too.
        let mut last = self.last.lock();
        if let Some((_, contents, from)) = last.iter().find(|l| l.0 == segment) {
            return Ok((contents.clone(), *from));
        }
        if last.len() > 1 {
            last.remove(0);
        }
        let (contents, from) = read()?;
        let contents = Arc::new(contents);
        last.push((segment, contents.clone(), from));
        Ok((contents, from))
    }

    fn read_contents(&self, place: &SegmentPlace) -> Result<(Contents, From)> {
        let mut damage = None;
        if let Some(file) = self.idb.read_catalog(place.segment)? {
            let len = file.len();
            match Contents::from_catalog(place.segment, BufReader::new(file)) {
                Ok(contents) => return Ok((contents, From::Catalog(len))),
                Err(e) => damage = Some(e),
            }
        }
        match self.contents_on_media(place) {
            Ok(contents) => Ok((contents, From::Medium)),
            Err(e) => match self.listing(place) {
                Some(listing) => Ok(listing),
                None => Err(crate::logging::no_catalog(self.idb, place.segment, damage, e)),
            },
        }
    }

    /// What is kept of a segment whose catalog is not, where that will do.
    fn listing(&self, place: &SegmentPlace) -> Option<(Contents, From)> {
        let file = self.idb.read_listing(place.segment).ok()?.filter(|_| self.listings)?;
        let contents = Contents::from_catalog(place.segment, BufReader::new(file)).ok()?;
        self.listed.lock().push(place.segment);
        Some((contents, From::Listing))
    }

    /// Whether a row comes from a listing.
    pub fn is_listed(&self, segment: u32) -> bool {
        let place = self.segments.get(segment as usize);
        place.is_some_and(|place| self.listed.lock().contains(&place.segment))
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
        batches_of(&self.keys, stream, batches, &mut |index, batch, start| {
            let of = (session, segment, stream.stream);
            rows_of_batch(of, index, batch, start, &Sums::default(), each)
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

/// Opens batches.
#[derive(Default)]
pub(crate) struct BatchOpener {
    decompressor: Decompressor,
    scratch: Vec<u8>,
    plain: Vec<u8>,
}

impl BatchOpener {
    /// A batch and the logical offset of its first row's data.
    pub fn open(
        &mut self,
        raw: &RawFrame,
        stream: StreamId,
        sealer: Option<&FrameSealer>,
    ) -> Result<(Batch, u64)> {
        let format = |source| CellError::Format {
            what: format!("a batch of stream {}", stream.short()),
            source,
        };
        let Self { decompressor, scratch, plain } = self;
        raw.header.open(&raw.stored, sealer, decompressor, scratch, plain).map_err(format)?;
        let batch = Batch::decode(plain).map_err(format)?;
        let start = raw.header.logical.saturating_add(batch.data_at);
        Ok((batch, start))
    }

    /// Calls with the directory and name of each row of a batch, as long as it returns `true`.
    pub fn names(
        &mut self,
        raw: &RawFrame,
        stream: StreamId,
        sealer: Option<&FrameSealer>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let format = |source| CellError::Format {
            what: format!("a batch of stream {}", stream.short()),
            source,
        };
        let Self { decompressor, scratch, plain } = self;
        raw.header.open(&raw.stored, sealer, decompressor, scratch, plain).map_err(format)?;
        Batch::each_name(plain, each).map_err(format)
    }

    /// The checksums of a batch's rows.
    pub fn sums(&mut self, raw: &RawFrame, sealer: Option<&FrameSealer>) -> Result<Sums> {
        let format =
            |source| CellError::Format { what: "checksums of contents".to_owned(), source };
        let Self { decompressor, scratch, plain } = self;
        raw.header.open(&raw.stored, sealer, decompressor, scratch, plain).map_err(format)?;
        Sums::decode(plain).map_err(format)
    }
}

/// Some of a stream's batches, each with the logical offset of its first row's data.
pub(crate) fn batches_of(
    keys: &VersionKeys,
    stream: &StreamContents,
    range: Range<usize>,
    each: &mut dyn FnMut(usize, Batch, u64) -> Result<()>,
) -> Result<()> {
    let label = stream.label.as_ref().map(|l| &l.session);
    let sealer = keys.sealer(Purpose::Names, label, stream.stream)?;
    let mut opener = BatchOpener::default();
    for (index, raw) in stream.batches.iter().enumerate().skip(range.start).take(range.len()) {
        let (batch, start) = opener.open(raw, stream.stream, sealer.as_ref())?;
        each(index, batch, start)?;
    }
    Ok(())
}

/// The rows of a batch, the `index`th of a stream in a segment: `of` is the session's number, the segment's and the stream;
/// `sums` are the checksums of its rows that have data, as far as they are known.
pub(crate) fn rows_of_batch(
    of: (u32, u32, StreamId),
    index: usize,
    batch: Batch,
    mut start: u64,
    sums: &Sums,
    each: &mut dyn FnMut(Row) -> Result<()>,
) -> Result<()> {
    let names = |names: Vec<(u32, Vec<u8>)>| -> HashMap<u32, Arc<[u8]>> {
        names.into_iter().map(|(id, name)| (id, name.into())).collect()
    };
    let (session, segment, stream) = of;
    let (users, groups) = (names(batch.users), names(batch.groups));
    let (mut own, mut whole) = (sums.sums.iter(), sums.whole.iter().peekable());
    for (at, entry) in batch.entries.into_iter().enumerate() {
        let len = entry.logical_len();
        let (user, group) = (users.get(&entry.uid).cloned(), groups.get(&entry.gid).cloned());
        let ordinal = Ordinal { session, segment, row: row_number(index, at), stream };
        let of_whole = whole.next_if(|(row, _)| *row as usize == at).map(|(_, sum)| *sum);
        let sum = if len > 0 { own.next().copied().flatten() } else { of_whole };
        each(Row { entry, ordinal, start, data: ordinal, sum, user, group })?;
        start = start.saturating_add(len);
    }
    Ok(())
}

/// The rows of a stream's batches with the logical offset of each one's data, outside of any version.
pub(crate) fn rows_of_stream(
    keys: &VersionKeys,
    stream: &StreamContents,
    each: &mut dyn FnMut(&Entry, u64),
) -> Result<()> {
    batches_of(keys, stream, 0..stream.batches.len(), &mut |_, batch, mut start| {
        for entry in &batch.entries {
            each(entry, start);
            start = start.saturating_add(entry.logical_len());
        }
        Ok(())
    })
}
