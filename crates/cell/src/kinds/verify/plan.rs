//! What a verification reads: planned before anything is read.

use std::collections::HashMap;

use capstan_engine::frames::Place;
use capstan_format::id::MediumId;
use capstan_idb::Medium;
use capstan_medium::OpenMedium;
use capstan_medium::host::operator;
use capstan_port::media::read::error::ReadError;

use crate::Cell;
use crate::drives::robots::Booked;
use crate::error::{CellError, Result};
use crate::kinds::verify::part::{Part, Places, Planned, TapeToRead};
use crate::reading::known::media::all_away;
use crate::reading::version::VersionView;
use crate::request::{VerifyRequest, VersionName};
use crate::session::lease::Reading;

/// What is to be verified, and held meanwhile.
pub(super) struct Asked<'a> {
    pub name: String,
    pub planned: Vec<Planned>,
    pub version: Option<VersionView<'a>>,
    /// What of media is not as it was last written.
    pub changed: Vec<String>,
    /// Tapes that somebody has to bring.
    pub _wanted: Option<operator::Asked>,
    /// The drives of an array of tapes.
    pub _booked: Vec<Booked>,
    pub _reading: Option<Reading>,
}

/// The places of a version's segments, by how they are read.
#[derive(Default)]
struct Found {
    tapes: HashMap<MediumId, Places>,
    /// Media that are open.
    open: Vec<(MediumId, Part)>,
    /// Those that are at hand and cannot be read.
    unreadable: HashMap<MediumId, (Places, CellError)>,
    /// Why segments are to be had nowhere: of each medium once.
    away: Vec<CellError>,
}

/// What was found of one segment.
#[derive(Default)]
struct Had {
    /// It is at hand.
    here: bool,
    /// It is at hand and whole, as far as is known.
    whole: bool,
    /// Why a place was none.
    failed: Option<CellError>,
}

impl Cell {
    /// What is to be read for a request.
    pub(super) fn verify_plan(&self, request: &VerifyRequest) -> Result<Asked<'_>> {
        match request {
            VerifyRequest::Version(name) => self.plan_of_version_to_verify(name),
            VerifyRequest::Medium(text) => self.plan_of_medium_to_verify(text),
        }
    }

    fn plan_of_version_to_verify(&self, name: &VersionName) -> Result<Asked<'_>> {
        let version = self.version(name)?;
        let _reading = Some(self.hold_version(version.id)?);
        let mut view = VersionView::open(self, version.id)?;
        let to_bring = view.bring(&|_, _| true)?;
        let _wanted = Some(self.ask_for(&to_bring));
        let _booked = self.book_drives_of_versions(std::slice::from_ref(&view))?;
        let found = self.places_to_verify(&view)?;
        let mut changed = Vec::new();
        for (_, part) in &found.open {
            changed.extend(self.note_changed_known(&part.medium)?);
        }
        let planned = self.in_order_to_verify(found)?;
        let (name, version) = (name.name.clone(), Some(view));
        Ok(Asked { name, planned, version, changed, _wanted, _booked, _reading })
    }

    /// Where all segments of a version lie that are at hand. An error where there is none.
    fn places_to_verify(&self, view: &VersionView<'_>) -> Result<Found> {
        let mut found = Found::default();
        let retired = self.idb.retired_media()?;
        let unsound = self.unsound_places()?;
        for segment in &view.segments {
            let is_whole = |at: &Place| segment.lacks_at(*at) == 0 && !unsound.has(at.1, at.0);
            let mut had = Had::default();
            let mut places = segment.places();
            // What is retired is read where nothing else has it whole.
            places.sort_by_key(|at| retired.contains(&at.1));
            for at in places {
                // Nobody puts in a tape for what is at hand.
                let is_spared = retired.contains(&at.1) || segment.how_far(at.1).is_some();
                if !(had.whole && is_spared) {
                    self.place_to_verify(view, at, &is_whole, &mut had, &mut found)?;
                }
            }
            match had.failed.filter(|_| !had.here) {
                Some(e) if e.away().is_some() => {
                    found.away.retain(|other| other.away() != e.away());
                    found.away.push(e);
                }
                Some(e) => return Err(e),
                None => {}
            }
        }
        // What is at hand is verified; of the rest it is said that it is away.
        let is_nothing_here =
            found.tapes.is_empty() && found.open.is_empty() && found.unreadable.is_empty();
        let away = std::mem::take(&mut found.away);
        all_away(self, away).filter(|_| is_nothing_here).map_or(Ok(found), Err)
    }

    fn place_to_verify(
        &self,
        view: &VersionView<'_>,
        at: Place,
        is_whole: &dyn Fn(&Place) -> bool,
        had: &mut Had,
        found: &mut Found,
    ) -> Result<()> {
        let (id, medium, number) = at;
        let is_away = !self.tapes_away(medium)?.is_empty();
        // Mirrors and copies that are elsewhere are not needed, and nobody waits for them.
        if had.here && is_away {
            return Ok(());
        }
        if view.media.is_sequential(medium)? && (!is_away || self.has_operator()) {
            had.here = true;
            had.whole |= is_whole(&at);
            found.tapes.entry(medium).or_default().insert(number, id);
            return Ok(());
        }
        let opened = match view.media.medium(medium) {
            Ok(opened) => opened,
            Err(e @ CellError::Unreadable { .. }) => {
                had.here = true;
                let of = found.unreadable.entry(medium);
                of.or_insert_with(|| (Places::new(), e)).0.insert(number, id);
                return Ok(());
            }
            Err(e) => {
                had.failed.get_or_insert(e);
                return Ok(());
            }
        };
        if opened.segment_at(number).is_some_and(|there| there != id) {
            let path = format!("segment {} of {}", number.0, opened.path());
            had.failed.get_or_insert(ReadError::Another { path, recorded: id }.into());
            return Ok(());
        }
        had.here = true;
        had.whole |= is_whole(&at);
        match found.open.iter_mut().find(|(id, _)| *id == medium) {
            Some((_, part)) => {
                part.segments.push(number);
                part.recorded.insert(number, id);
            }
            None => {
                let passed = self.needless_on(medium)?;
                found.open.push((medium, Part::of(opened, [(number, id)].into(), passed)));
            }
        }
        Ok(())
    }

    /// Open media first, then tapes as they were written; those that somebody has to bring come last.
    fn in_order_to_verify(&self, mut found: Found) -> Result<Vec<Planned>> {
        let mut order: Vec<MediumId> = found.tapes.keys().copied().collect();
        self.in_order_of_writing(&mut order)?;
        let mut ranked: Vec<(bool, MediumId)> = Vec::new();
        for medium in order {
            ranked.push((!self.tapes_away(medium)?.is_empty(), medium));
        }
        ranked.sort_by_key(|(is_away, _)| *is_away);
        let open = found.open.into_iter().map(|(_, part)| Planned::Open(Box::new(part)));
        let mut planned: Vec<Planned> = open.collect();
        for (medium, (recorded, e)) in found.unreadable {
            let of = TapeToRead { medium, recorded, passed: HashMap::new() };
            planned.push(Planned::Unreadable(of, e));
        }
        for (_, medium) in ranked {
            let recorded = found.tapes.remove(&medium).unwrap_or_default();
            let passed = self.needless_on(medium)?;
            planned.push(Planned::Tape(TapeToRead { medium, recorded, passed }));
        }
        Ok(planned)
    }

    /// A medium by itself: what is recorded of where its segments lie is no help here, but what others will not have.
    fn plan_of_medium_to_verify(&self, text: &str) -> Result<Asked<'_>> {
        let booked;
        let (address, medium) = match self.known_medium(text)? {
            Some(known) => {
                let address = &known.device;
                booked = self.book_drives_of(&[address])?;
                let medium = match self.open_known(&known, address) {
                    Err(e @ CellError::Unreadable { .. }) => {
                        return self.unreadable_alone(known, e, booked);
                    }
                    opened => opened?,
                };
                // It may be found elsewhere.
                (self.place_of(known.id)?.1, medium)
            }
            None => {
                let address = text.parse()?;
                booked = self.book_drives_of(&[&address])?;
                let opened = self.devices.medium(&address);
                self.refuse_overwritten(&address, opened.as_ref().map(OpenMedium::header))?;
                (address, opened?)
            }
        };
        self.open_drive_key(medium.header())?;
        let changed = self.note_changed(&address, &medium)?.into_iter().collect();
        let id = medium.header().medium;
        let reading = self.hold_versions(&self.idb.versions_on_medium(id)?)?;
        let recorded = self.recorded_on(id)?;
        let segments = medium.segments()?;
        let missing = self.missing_on(id, &recorded, &segments.iter().copied().collect())?;
        let recorded = self.idb.segments_of_medium(id)?;
        let recorded = recorded.into_iter().map(|s| (s.number, s.id)).collect();
        let passed = self.needless_on(id)?;
        let on_tape = address.is_sequential();
        let part = Part { medium, segments, missing, recorded, on_tape, passed };
        let name = part.medium.header().label.clone();
        let planned = vec![Planned::Open(Box::new(part))];
        let (version, _wanted) = (None, None);
        Ok(Asked { name, planned, version, changed, _wanted, _booked: booked, _reading: reading })
    }

    /// A medium by itself that cannot be read: all that is recorded of it is damaged.
    fn unreadable_alone(
        &self,
        known: Medium,
        e: CellError,
        booked: Vec<Booked>,
    ) -> Result<Asked<'_>> {
        let recorded = self.idb.segments_of_medium(known.id)?;
        let recorded = recorded.into_iter().map(|s| (s.number, s.id)).collect();
        let of = TapeToRead { medium: known.id, recorded, passed: HashMap::new() };
        Ok(Asked {
            name: known.label,
            planned: vec![Planned::Unreadable(of, e)],
            version: None,
            changed: Vec::new(),
            _wanted: None,
            _booked: booked,
            _reading: self.hold_versions(&self.idb.versions_on_medium(known.id)?)?,
        })
    }
}
