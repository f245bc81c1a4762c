//! `catalog load`: the catalog files made again from the media.

use std::io::BufReader;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::places::SegmentPlace;
use capstan_engine::message::Code;
use capstan_format::catalog::{Contents, rebuild};
use capstan_format::id::SegmentId;
use capstan_medium::OpenMedium;
use capstan_port::media::read::segment::ReadSegment;

use crate::Cell;
use crate::error::{CellError, Damage, Result, chain};
use crate::observe::{Observer, Stop};
use crate::reading::version::VersionView;
use crate::request::VersionName;
use crate::session::SessionLog;

/// Of what the catalogs are loaded.
#[derive(Debug, Clone)]
pub enum LoadRequest {
    /// Of all segments that a version needs.
    Version(VersionName),
    /// Of all segments recorded for a medium: its label, id or device.
    Medium(String),
}

/// What was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Catalogs that were written.
    pub catalogs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Segments whose catalog could not be had; each was named.
    pub failed: u64,
}

/// Opens a segment on each of its own media that has it: a copy's catalog is another.
fn own_places(
    cell: &Cell,
    view: &VersionView<'_>,
    place: &SegmentPlace,
) -> Result<Vec<Arc<dyn ReadSegment>>> {
    let mut failed = None;
    let mut opened = Vec::new();
    for (medium, number) in &place.media {
        let open = |m: OpenMedium| Ok(cell.read_segment(&m, *number)?);
        match view.media.medium(*medium).and_then(open) {
            Ok(reader) => opened.push(reader),
            Err(e) => failed = failed.or(Some(e)),
        }
    }
    if !opened.is_empty() {
        return Ok(opened);
    }
    Err(failed.unwrap_or_else(|| CellError::from(Damage::SegmentOnNoMedium(place.segment))))
}

impl Cell {
    /// Loads catalogs from media.
    pub fn load_catalogs(
        &self,
        request: &LoadRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Loaded> {
        let log = SessionLog::new(observer);
        match request {
            LoadRequest::Version(name) => {
                let version = self.version(name)?;
                let view = VersionView::open(self, version.id)?;
                view.require_a_medium(&|_, _| true, false)?;
                // Those of sessions in which nothing had changed have catalogs too.
                let ends = view.ends()?;
                let places = view.segments.iter().chain(&ends);
                self.load_all(places, &|place| own_places(self, &view, place), &log, stop)
            }
            LoadRequest::Medium(name) => {
                let medium = self.find_medium(name)?;
                let there = self.open_medium(&medium)?;
                self.open_drive_key(there.header())?;
                let places: Vec<SegmentPlace> = self
                    .idb
                    .segments_of_medium(medium.id)?
                    .into_iter()
                    .map(|s| SegmentPlace {
                        segment: s.id,
                        media: vec![(medium.id, s.number)],
                        bytes: s.bytes,
                        copies: Vec::new(),
                        spans: Vec::new(),
                        streams: Vec::new(),
                        session: 0,
                        by: s.session,
                        last: Vec::new(),
                        behind: Vec::new(),
                        away: Vec::new(),
                        lacking: Vec::new(),
                    })
                    .collect();
                let open = |place: &SegmentPlace| {
                    let (_, number) = place.media.first().ok_or_else(|| {
                        CellError::from(Damage::SegmentWithoutPlace(place.segment))
                    })?;
                    Ok(vec![self.read_segment(&there, *number)?])
                };
                self.load_all(&places, &open, &log, stop)
            }
        }
    }

    fn load_all<'p>(
        &self,
        places: impl IntoIterator<Item = &'p SegmentPlace>,
        open: &dyn Fn(&SegmentPlace) -> Result<Vec<Arc<dyn ReadSegment>>>,
        log: &SessionLog<'_>,
        stop: &Stop,
    ) -> Result<Loaded> {
        let mut loaded = Loaded::default();
        for place in places {
            if stop.0.load(Relaxed) {
                break;
            }
            match open(place).and_then(|readers| self.catalog_of(&readers, place)) {
                Ok(catalog) => {
                    self.idb.write_catalog(place.segment, &[&catalog])?;
                    loaded.catalogs += 1;
                    loaded.bytes += catalog.len() as u64;
                }
                Err(e) => {
                    loaded.failed += 1;
                    let what = format!("segment {}", place.segment.short());
                    log.say(Code::Missing, "media agent", &what, chain(&e));
                }
            }
        }
        Ok(loaded)
    }
}

impl Cell {
    /// A segment's catalog, from a medium's own or from all its streams. What the database has as a whole is not replaced by less.
    fn catalog_of(
        &self,
        readers: &[Arc<dyn ReadSegment>],
        place: &SegmentPlace,
    ) -> Result<Vec<u8>> {
        let segment = place.segment;
        let mut failed: Option<CellError> = None;
        for reader in readers {
            match reader.catalog_of(segment) {
                Ok(contents) => return made_anew(&contents, &**reader),
                Err(e) => failed = failed.or(Some(e.into())),
            }
        }
        if self.has_catalog(segment)? {
            let why = failed.map(|e| format!(" ({})", chain(&e))).unwrap_or_default();
            return Err(Damage::CatalogUnreadable { why }.into());
        }
        let mut best = None;
        for reader in readers {
            match reader.scan_of(segment) {
                Ok(read) if read.poor.is_empty() => return made_anew(&read.contents, &**reader),
                Ok(read) => best = best.or(Some((read, reader))),
                Err(e) => failed = failed.or(Some(e.into())),
            }
        }
        match (best, failed) {
            // Rows that lack would be taken for files that never were.
            (Some((_, reader)), _) => {
                Err(Damage::NamesLost { path: reader.path().to_owned() }.into())
            }
            (None, Some(e)) => Err(e),
            (None, None) => Err(Damage::NoPlace.into()),
        }
    }

    /// Whether the database has a segment's catalog, and all of it can be read.
    pub(crate) fn has_catalog(&self, segment: SegmentId) -> Result<bool> {
        let Some(file) = self.idb.read_catalog(segment)? else { return Ok(false) };
        Ok(Contents::from_catalog(segment, BufReader::new(file)).is_ok())
    }
}

fn made_anew(contents: &Contents, reader: &dyn ReadSegment) -> Result<Vec<u8>> {
    rebuild(contents).ok_or_else(|| Damage::NoBeginOrEnd { path: reader.path().to_owned() }.into())
}
