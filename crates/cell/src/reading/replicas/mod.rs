//! Opening a segment where it can be had: on its media, mirrors of each other, and in copies.

pub(crate) mod sides;
pub(crate) mod used;

use std::io::BufReader;
use std::sync::Arc;

use capstan_catalog::NotOnMedia;
use capstan_catalog::places::SegmentPlace;
use capstan_catalog::version::{ContentsFrom, ContentsOnMedia};
use capstan_engine::frames::Place;
use capstan_engine::problem::Problem;
use capstan_format::catalog::Contents;
use capstan_format::id::SegmentId;
use capstan_port::media::read::error::ReadError;
use capstan_port::media::read::known::Opened;
use capstan_port::media::read::segment::ReadSegment;

use crate::Cell;
use crate::error::{CellError, Damage, Result, chain};
use crate::reading::known::media::OpenMedia;
use crate::reading::unread::told;
use crate::reading::version::VersionView;

impl VersionView<'_> {
    /// Opens the first place of a segment's data that can be opened.
    pub fn open_data(&self, place: &SegmentPlace) -> Result<Opened> {
        let mut failed = None;
        for at in place.places() {
            match self.open_place(place, at) {
                Ok(opened) => {
                    if let Some(e) = &failed {
                        self.media.note_replica(place, at, &|| chain(e), 0);
                    }
                    return Ok(opened);
                }
                Err(e) => {
                    let e = self.media.unread_or(at.1, e);
                    failed = Some(match failed {
                        Some(known) => told(known, Some(e)),
                        None => e,
                    });
                }
            }
        }
        Err(failed.unwrap_or_else(|| CellError::from(Damage::SegmentOnNoMedium(place.segment))))
    }

    /// Opens a segment's data at one of its places.
    pub(crate) fn open_place(
        &self,
        place: &SegmentPlace,
        at @ (segment, medium, number): Place,
    ) -> Result<Opened> {
        let there = self.media.medium_once(medium)?;
        let reader = self.media.open_segment(&there, at)?;
        // A tape would have to go there; frames of another stream do not pass their checks there either.
        if !self.media.is_sequential(medium)?
            && there.segment_at(number).is_some_and(|found| found != segment)
        {
            return Err(reader.another(segment).into());
        }
        self.media.note_used(medium);
        if segment == place.segment {
            let contents = self.contents(place)?;
            // Rows may have been taken from a copy, where frames lie elsewhere.
            if contents.header.as_ref().is_none_or(|h| h.segment == segment) {
                return Ok(Opened { at, reader, layout: contents });
            }
        }
        let read =
            || -> Result<_> { Ok((self.contents_of(place, at, &*reader)?, ContentsFrom::Medium)) };
        let layout = self.kept_contents(segment, read)?.0;
        Ok(Opened { at, reader, layout })
    }

    /// What a segment holds by one of its places.
    pub fn contents_at(&self, place: &SegmentPlace, at: Place) -> Result<Arc<Contents>> {
        if at.0 == place.segment {
            return Ok(self.contents(place)?);
        }
        if let Some(file) = self.idb.read_catalog(at.0)?
            && let Ok(contents) = Contents::from_catalog(at.0, BufReader::new(file))
        {
            return Ok(Arc::new(contents));
        }
        Ok(self.open_place(place, at)?.layout)
    }

    /// What a segment holds: from the IDB's catalog, else from that at hand, else by reading all of it.
    fn contents_of(
        &self,
        place: &SegmentPlace,
        at: Place,
        reader: &dyn ReadSegment,
    ) -> Result<Contents> {
        let segment = at.0;
        if let Some(file) = self.idb.read_catalog(segment)?
            && let Ok(contents) = Contents::from_catalog(segment, BufReader::new(file))
        {
            return Ok(contents);
        }
        match reader.catalog_of(segment) {
            Ok(contents) => Ok(contents),
            Err(e @ ReadError::Another { .. }) => Err(e.into()),
            Err(_) => {
                let read = reader.scan_of(segment)?;
                if !read.is_complete() {
                    self.media.note_damage(at);
                }
                if !read.has_names_of(&place.streams) {
                    self.media.poor_there.lock().insert(segment);
                }
                Ok(read.contents)
            }
        }
    }
}

impl ContentsOnMedia for OpenMedia<'_> {
    fn contents(&self, place: &SegmentPlace) -> std::result::Result<Contents, NotOnMedia> {
        self.contents_on_media(place).map_err(|e| NotOnMedia {
            why: chain(&e),
            is_damage: matches!(e, CellError::Read(_) | CellError::Unfinished(_)),
            is_passing: e.away().is_some(),
        })
    }
}

impl OpenMedia<'_> {
    /// What a segment holds, from the first medium whose catalog can be read; else by reading all that is there of it, where that has
    /// all names. What lies in its place and is another segment is nothing of it.
    fn contents_on_media(&self, place: &SegmentPlace) -> Result<Contents> {
        let mut readers: Vec<(Place, Arc<dyn ReadSegment>)> = Vec::new();
        let mut lacking: Option<Contents> = None;
        let mut failed: Option<CellError> = None;
        for at in self.nearest(place)? {
            let reader = match self.medium(at.1).and_then(|m| self.open_segment(&m, at)) {
                Ok(reader) => reader,
                Err(e) => {
                    self.fail(&mut failed, at, e);
                    continue;
                }
            };
            match reader.catalog_of(at.0) {
                // Another place may have them.
                Ok(contents) if contents.says_names_lack() => lacking = lacking.or(Some(contents)),
                Ok(contents) => {
                    if let Some(e) = &failed {
                        self.note_replica(place, at, &|| chain(e), 0);
                    }
                    return Ok(contents);
                }
                Err(e @ ReadError::Another { .. }) => self.fail(&mut failed, at, e.into()),
                Err(_) => readers.push((at, reader)),
            }
        }
        let (read, has_names) = self.scanned(place, readers, &mut failed);
        let best = match (read, lacking) {
            (Some(read), Some(lacking)) if !has_names => {
                let metadata = |c: &Contents| c.streams.iter().flat_map(|s| s.metadata()).count();
                Some(if metadata(&lacking) > metadata(&read) { lacking } else { read })
            }
            (read, lacking) => read.or(lacking),
        };
        match (best, failed) {
            (Some(contents), _) => {
                if !has_names {
                    self.note_poor(place.segment);
                }
                Ok(contents)
            }
            (None, Some(e)) => Err(e),
            (None, None) => Err(CellError::from(Damage::SegmentOnNoMedium(place.segment))),
        }
    }

    /// The places of a segment, those on media for which nobody has to go first.
    fn nearest(&self, place: &SegmentPlace) -> Result<Vec<Place>> {
        let (mut places, mut far) = (place.places(), Vec::new());
        for medium in places.iter().map(|at| at.1).filter(|_| places.len() > 1) {
            far.push((medium, self.cell.how_far(medium)?));
        }
        let how_far = |at: &Place| far.iter().find(|of| of.0 == at.1).and_then(|of| of.1);
        places.sort_by_key(how_far);
        Ok(places)
    }

    /// What places without a whole catalog have of a segment, together; and whether all names are there.
    fn scanned(
        &self,
        place: &SegmentPlace,
        readers: Vec<(Place, Arc<dyn ReadSegment>)>,
        failed: &mut Option<CellError>,
    ) -> (Option<Contents>, bool) {
        // What one lacks of the segment itself a mirror may have; a copy has it elsewhere.
        let (mut best, mut has_names): (Option<Contents>, bool) = (None, false);
        for (at, reader) in readers {
            match reader.scan_of(at.0) {
                Ok(read) if read.has_names_of(&place.streams) && read.is_complete() => {
                    return (Some(read.contents), true);
                }
                Ok(read) if read.has_any_of(&place.streams) => {
                    self.note_damage(at);
                    let is_named = read.has_names_of(&place.streams);
                    if !is_named {
                        self.poor_there.lock().insert(at.0);
                    }
                    let is_mirror =
                        best.as_ref().is_some_and(|b| b.segment == read.contents.segment);
                    match &mut best {
                        Some(best) if is_mirror => best.take_mirror(read.contents),
                        Some(_) if has_names || !is_named => {}
                        best => *best = Some(read.contents),
                    }
                    has_names |= is_named;
                }
                Ok(_) => {
                    self.note_damage(at);
                    self.fail(failed, at, unreadable_names(reader.path(), at.0));
                }
                Err(e) => {
                    let e = self.note_unread(at, e);
                    self.fail(failed, at, e);
                }
            }
        }
        (best, has_names)
    }

    /// Notes why a place cannot be read, beside what is known of others.
    fn fail(&self, failed: &mut Option<CellError>, at: Place, e: CellError) {
        if matches!(e, CellError::Read(ReadError::Another { .. })) {
            self.note_damage(at);
        }
        let e = self.unread_or(at.1, e);
        *failed = Some(match failed.take() {
            Some(known) => told(known, Some(e)),
            None => e,
        });
    }

    /// Whether names of a segment are known to lack, in all of its places or where it lies under that id.
    pub fn is_poor(&self, segment: SegmentId) -> bool {
        self.poor.lock().contains(&segment) || self.poor_there.lock().contains(&segment)
    }

    pub(super) fn note_poor(&self, segment: SegmentId) {
        for poor in [&self.poor, &*self.cell.poor] {
            let mut poor = poor.lock();
            if !poor.contains(&segment) {
                poor.push(segment);
            }
        }
    }

    /// Why not all names of the version are known, as far as it was read: of some segments no place at hand has all of them.
    pub(super) fn names_lost(&self) -> Option<CellError> {
        names_lost_of(&self.poor.lock())
    }
}

impl Cell {
    /// Why not all names are known of the versions that were read.
    pub fn names_lost(&self) -> Option<CellError> {
        names_lost_of(&self.poor.lock())
    }
}

/// The error for segments of which no place at hand has all names, if there are any.
fn names_lost_of(poor: &[SegmentId]) -> Option<CellError> {
    let first = poor.first()?;
    let more = match poor.len() - 1 {
        0 => String::new(),
        n => format!(" (and of {n} more)"),
    };
    Some(CellError::Unfinished(Problem::new(format!("names of segment {}{more} are damaged and whole nowhere at hand: files whose names are lost \
                 cannot be named", first.short())).hint("they are left out, or are as an earlier backup has them")))
}

/// The error for a place where nothing is left of the names.
fn unreadable_names(path: &str, segment: SegmentId) -> CellError {
    CellError::Unfinished(
        format!("the names of segment {} cannot be read: {path} is damaged", segment.short())
            .into(),
    )
}
