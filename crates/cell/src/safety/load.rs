//! `catalog load`: the catalog files made again from the media.

use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::message::Code;
use capstan_media_agent::catalog::rebuild;
use capstan_media_agent::reader::SegmentReader;
use capstan_media_agent::scan::scan;

use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::observe::{Observer, Stop};
use crate::request::VersionName;
use crate::session::Ears;
use crate::version::{SegmentPlace, VersionView};
use capstan_devices::file::FileMedium;

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

/// Opens a segment on the first of its own media that has it: a copy's catalog is another.
fn own_place(view: &VersionView<'_>, place: &SegmentPlace) -> Result<SegmentReader> {
    let mut failed = None;
    for (medium, number) in &place.media {
        let open = |m: FileMedium| Ok(SegmentReader::open(&m, *number)?);
        match view.medium(*medium).and_then(open) {
            Ok(reader) => return Ok(reader),
            Err(e) => failed = failed.or(Some(e)),
        }
    }
    Err(failed.unwrap_or_else(|| {
        CellError::BadInput(format!("segment {} lies on no known medium", place.segment.short()))
    }))
}

impl Cell {
    /// Loads catalogs from media.
    pub fn load_catalogs(
        &self,
        request: &LoadRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Loaded> {
        let ears = Ears::new(observer);
        match request {
            LoadRequest::Version(name) => {
                let version = self.version(name)?;
                let view = VersionView::open(self, version.id)?;
                view.require_a_medium()?;
                self.load_all(&view.segments, &|place| own_place(&view, place), &ears, stop)
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
                        lacking: Vec::new(),
                    })
                    .collect();
                let open = |place: &SegmentPlace| {
                    let (_, number) = place.media.first().ok_or_else(|| {
                        CellError::BadInput(format!(
                            "segment {} has no place",
                            place.segment.short()
                        ))
                    })?;
                    Ok(SegmentReader::open(&there, *number)?)
                };
                self.load_all(&places, &open, &ears, stop)
            }
        }
    }

    fn load_all(
        &self,
        places: &[SegmentPlace],
        open: &dyn Fn(&SegmentPlace) -> Result<SegmentReader>,
        ears: &Ears<'_>,
        stop: &Stop,
    ) -> Result<Loaded> {
        let mut loaded = Loaded::default();
        for place in places {
            if stop.0.load(Relaxed) {
                break;
            }
            match open(place).and_then(|reader| catalog_of(&reader, place)) {
                Ok(catalog) => {
                    self.idb.write_catalog(place.segment, &[&catalog])?;
                    loaded.catalogs += 1;
                    loaded.bytes += catalog.len() as u64;
                }
                Err(e) => {
                    loaded.failed += 1;
                    let what = format!("segment {}", place.segment.short());
                    ears.say(Code::Missing, "media agent", &what, chain(&e));
                }
            }
        }
        Ok(loaded)
    }
}

/// A segment's catalog, from the medium's own or from all its streams.
fn catalog_of(reader: &SegmentReader, place: &SegmentPlace) -> Result<Vec<u8>> {
    let contents = match reader.catalog() {
        Ok(contents) => contents,
        Err(_) => scan(reader)?.contents,
    };
    let header = contents.header.as_ref().map(|h| h.segment);
    if header.is_some_and(|id| id != place.segment) {
        return Err(CellError::BadInput(format!(
            "another segment lies in its place ({}); verify the medium",
            reader.path()
        )));
    }
    rebuild(&contents).ok_or_else(|| {
        CellError::BadInput(format!(
            "{} has neither begin nor end; verify the medium",
            reader.path()
        ))
    })
}
