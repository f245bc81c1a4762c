//! An object version as its catalogs show it: which rows it has, where their data lie, and what became of them.

mod heads;
mod indexed;
mod kept_links;
mod merged;
mod overview;
mod suspects;

use std::io::BufReader;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use capstan_engine::message::shell_word;
use capstan_format::FormatError;
use capstan_format::catalog::{Contents, StreamContents};
use capstan_format::id::{MediumId, SegmentId, VersionId};
use capstan_format::sums::Sums;
use capstan_idb::{Idb, LogLevel, Status, Version};
pub use heads::Heads;
pub use merged::{Merged, NameLike};
pub use overview::{Overview, SavedRange};
use parking_lot::Mutex;

use self::kept_links::KeptLinks;
use crate::batch::{batches_of, rows_of_batch};
use crate::error::{CatalogError, NotOnMedia, Result};
use crate::keys::VersionKeys;
use crate::places::{SegmentPlace, places_of};
use crate::row::Row;

/// What segments hold whose catalogs are not in the internal database: whoever can open media reads it there.
pub trait ContentsOnMedia: Send + Sync {
    /// What a segment holds, from any of its places.
    fn contents(&self, place: &SegmentPlace) -> std::result::Result<Contents, NotOnMedia>;
}

/// A version and what it builds on, newest first.
pub fn chain(idb: &Idb, version: VersionId) -> Result<Vec<Version>> {
    let mut chain: Vec<Version> = Vec::new();
    let mut next = Some(version);
    while let Some(id) = next {
        let row = idb.version(id)?.filter(|_| chain.iter().all(|v| v.id != id));
        let row = row.ok_or_else(|| CatalogError::UnknownBase { version: id.short() })?;
        next = row.base;
        chain.push(row);
    }
    Ok(chain)
}

/// Where a segment's contents were read from.
#[derive(Debug, Clone, Copy)]
pub enum ContentsFrom {
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
    Err(CatalogError::OnNoMedium { session: session.unwrap_or_else(|| version.id.short()) })
}

/// The rows of an object version, with what it builds on: its segments in order, and what they hold.
pub struct VersionRows<'a> {
    /// The internal database.
    pub idb: &'a Idb,
    /// The version.
    pub version: VersionId,
    /// Whether any of its versions is encrypted.
    pub encrypted: bool,
    all_encrypted: bool,
    /// Its segments, oldest first.
    pub segments: Vec<SegmentPlace>,
    /// What opens its frames.
    pub keys: VersionKeys,
    /// Whether listings will do where no medium is at hand.
    pub listings: bool,
    /// Segments of which there was no more than a listing.
    listed: Mutex<Vec<SegmentId>>,
    /// The segments asked for last: all workers of a session are in the same one, or about to be; a second place is for
    /// the copy that stands in for it.
    last: Mutex<Vec<(SegmentId, Arc<Contents>, ContentsFrom)>>,
    on_media: Arc<dyn ContentsOnMedia + 'a>,
    /// What stands for link rows whose first name is another file since, once that was looked for.
    kept_links: OnceLock<Arc<KeptLinks>>,
}

impl<'a> VersionRows<'a> {
    /// A version with all that it builds on. What its catalogs do not have is asked of `on_media`, which is kept as long as this is.
    pub fn of_chain(
        idb: &'a Idb,
        version: VersionId,
        on_media: Arc<dyn ContentsOnMedia + 'a>,
    ) -> Result<Self> {
        let chain = chain(idb, version)?;
        for version in &chain {
            refuse_unknown(idb, version)?;
        }
        Self::of(idb, &chain, false, on_media)
    }

    /// A version with what is known of what it builds on, and the version that is the first not to be had, if any.
    pub fn of_known(
        idb: &'a Idb,
        version: VersionId,
        on_media: Arc<dyn ContentsOnMedia + 'a>,
    ) -> Result<(Self, Option<VersionId>)> {
        let mut known: Vec<Version> = Vec::new();
        let mut next = Some(version);
        while let Some(id) = next {
            let row = idb.version(id)?.filter(|row| known.iter().all(|v| v.id != row.id));
            let Some(row) = row.filter(|row| refuse_unknown(idb, row).is_ok()) else { break };
            next = row.base;
            known.push(row);
        }
        match known.is_empty() {
            true => Self::of_chain(idb, version, on_media).map(|rows| (rows, None)),
            false => Ok((Self::of(idb, &known, false, on_media)?, next)),
        }
    }

    /// A version without what it builds on, and with all that says of its sessions how they ended.
    pub fn alone(
        idb: &'a Idb,
        version: Version,
        on_media: Arc<dyn ContentsOnMedia + 'a>,
    ) -> Result<Self> {
        Self::of(idb, &[version], true, on_media)
    }

    fn of(
        idb: &'a Idb,
        chain: &[Version],
        with_ends: bool,
        on_media: Arc<dyn ContentsOnMedia + 'a>,
    ) -> Result<Self> {
        Ok(Self {
            idb,
            version: chain.first().map_or(VersionId([0; 16]), |v| v.id),
            encrypted: chain.iter().any(|v| v.key.is_some()),
            all_encrypted: chain.iter().all(|v| v.key.is_some()),
            segments: places_of(idb, chain, with_ends)?,
            keys: VersionKeys::default(),
            listings: false,
            listed: Mutex::default(),
            last: Mutex::default(),
            on_media,
            kept_links: OnceLock::new(),
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

    /// The same, with where it was read from.
    pub fn contents_from(&self, place: &SegmentPlace) -> Result<(Arc<Contents>, ContentsFrom)> {
        self.kept_contents(place.segment, || self.read_contents(place))
    }

    /// Contents of a segment, read if they are not among those asked for last.
    pub fn kept_contents<E>(
        &self,
        segment: SegmentId,
        read: impl FnOnce() -> std::result::Result<(Contents, ContentsFrom), E>,
    ) -> std::result::Result<(Arc<Contents>, ContentsFrom), E> {
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

    fn read_contents(&self, place: &SegmentPlace) -> Result<(Contents, ContentsFrom)> {
        let mut damage = None;
        if let Some(file) = self.idb.read_catalog(place.segment)? {
            let len = file.len();
            match Contents::from_catalog(place.segment, BufReader::new(file)) {
                Ok(contents) => return Ok((contents, ContentsFrom::Catalog(len))),
                Err(e) => damage = Some(e),
            }
        }
        match self.on_media.contents(place) {
            Ok(contents) => Ok((contents, ContentsFrom::Medium)),
            Err(e) => match self.listing(place) {
                Some(listing) => Ok(listing),
                None => Err(no_catalog(self.idb, place.segment, damage, e)),
            },
        }
    }

    /// What is kept of a segment whose catalog is not, where that will do.
    fn listing(&self, place: &SegmentPlace) -> Option<(Contents, ContentsFrom)> {
        let file = self.idb.read_listing(place.segment).ok()?.filter(|_| self.listings)?;
        let contents = Contents::from_catalog(place.segment, BufReader::new(file)).ok()?;
        self.listed.lock().push(place.segment);
        Some((contents, ContentsFrom::Listing))
    }

    /// Whether a row comes from a listing.
    pub fn is_listed(&self, segment: u32) -> bool {
        let place = self.segments.get(segment as usize);
        place.is_some_and(|place| self.listed.lock().contains(&place.segment))
    }

    /// The rows of a stream in a segment, in order.
    pub fn rows<E: From<CatalogError>>(
        &self,
        segment: u32,
        stream: &StreamContents,
        each: &mut dyn FnMut(Row) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.rows_of(segment, stream, 0..stream.batches.len(), each)
    }

    /// The rows of some batches of a stream in a segment, in order.
    pub fn rows_of<E: From<CatalogError>>(
        &self,
        segment: u32,
        stream: &StreamContents,
        batches: Range<usize>,
        each: &mut dyn FnMut(Row) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let session = self.segments.get(segment as usize).map_or(0, |s| s.session);
        batches_of(&self.keys, stream, batches, &mut |index, batch, start| {
            let of = (session, segment, stream.stream);
            let each = &mut self.with_kept_links(each);
            rows_of_batch(of, index, batch, start, &Sums::default(), each)
        })
    }

    /// Calls with rows, instead of links whose first name is another file since with what they were of.
    fn with_kept_links<'e, E>(
        &'e self,
        each: &'e mut dyn FnMut(Row) -> std::result::Result<(), E>,
    ) -> impl FnMut(Row) -> std::result::Result<(), E> + 'e {
        let kept = self.kept_links.get();
        move |mut row| {
            kept.inspect(|kept| kept.put(&mut row));
            each(row)
        }
    }

    /// Finds what stands for link rows whose first name is another file since, as [`Overview::with_replaced`] does.
    pub fn settle_links(&self) -> Result<()> {
        Overview::with_replaced(self).map(drop)
    }

    /// Takes over what was found of such rows in another view of the same segments.
    pub fn settle_links_as(&self, other: &Self) {
        if let Some(kept) = other.kept_links.get() {
            let _ = self.kept_links.set(kept.clone());
        }
    }

    /// All rows, segment by segment, stream by stream.
    pub fn all_rows<E: From<CatalogError>>(
        &self,
        each: &mut dyn FnMut(&StreamContents, Row) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        for (index, place) in self.segments.iter().enumerate() {
            let contents = self.contents(place)?;
            for stream in contents.streams.iter().filter(|s| place.streams.contains(&s.stream)) {
                self.rows(index as u32, stream, &mut |row| each(stream, row))?;
            }
        }
        Ok(())
    }
}

/// The error for a segment whose catalog is not to be had, neither here nor on a medium (`away` says why not there).
fn no_catalog(
    idb: &Idb,
    segment: SegmentId,
    damage: Option<FormatError>,
    away: NotOnMedia,
) -> CatalogError {
    // Who wrote it is for the hint: without, a medium can be named as well.
    let session = idb.version_of_segment(segment).ok().flatten().map(|(_, session)| session);
    let row = session.and_then(|session| idb.session(session).ok().flatten());
    let object = row.as_ref().and_then(|s| idb.object(s.object?).ok().flatten());
    let load = match (&row, object) {
        (Some(row), Some(object)) if !object.name.is_empty() => {
            shell_word(format!("{}@{}", object.name, row.id.short()))
        }
        _ => "--medium MEDIUM".to_owned(),
    };
    let level = session.map(|session| idb.log_level_of(segment, session));
    let problem = match damage {
        Some(e) => format!("is damaged ({e})"),
        None if matches!(level, Some(Ok(LogLevel::All)) | None) => "is missing".to_owned(),
        None => "is not kept".to_owned(),
    };
    CatalogError::NoCatalog { segment: segment.short(), problem, load, away }
}
