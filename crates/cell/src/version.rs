//! An object version as its catalogs show it: which rows it has, where their data lie, and what became of them.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::BufReader;
use std::ops::Range;
use std::sync::Arc;

use capstan_catalog::batch::{batches_of, rows_of_batch};
use capstan_catalog::keys::VersionKeys;
use capstan_catalog::places::{Place, SegmentPlace, places_of};
use capstan_catalog::row::Row;
use capstan_devices::file::FileMedium;
use capstan_format::catalog::{Contents, StreamContents};
use capstan_format::id::{MediumId, SegmentId, VersionId};
use capstan_format::sums::Sums;
use capstan_idb::{Idb, Status, Version};

use crate::Cell;
use crate::error::{CellError, Result};
use crate::lease::Reading;
use crate::replica::Stood;

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
