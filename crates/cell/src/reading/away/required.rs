//! What of a version is at hand, or can be had: refused is what is not.

use capstan_catalog::places::SegmentPlace;
use capstan_engine::frames::Place;
use capstan_format::id::MediumId;
use std::collections::{HashMap, HashSet};

use crate::error::{CellError, Damage, Result};
use crate::reading::known::media::all_away;
use crate::reading::version::VersionView;

impl VersionView<'_> {
    /// Refuses a segment that is not at hand as a whole. Tapes are not loaded for it: that they are in their library has to do.
    pub fn require(&self, place: &SegmentPlace) -> Result<()> {
        let places = place.whole_places();
        if places.is_empty() && !place.lacking.is_empty() {
            return Err(Damage::OnlyLackingCopies(place.segment).into());
        }
        if self.is_on_tape_to_be_had(place)? {
            return Ok(());
        }
        let mut failed = None;
        for at in places {
            match self.whole_at(place, at) {
                Ok(()) => return Ok(()),
                Err(e) => failed = failed.or(Some(e)),
            }
        }
        failed.map_or_else(|| self.open_data(place).map(drop), Err)
    }

    /// The same, but that a medium may be away where somebody took it: it was exported, and is where that was said.
    pub fn require_or_known_away(&self, place: &SegmentPlace) -> Result<()> {
        match self.is_known_away(place)? {
            true => Ok(()),
            false => self.require(place),
        }
    }

    /// Whether nothing of a segment is looked at where it is required: it is on a tape that can be expected to come, or on a medium
    /// that somebody took away.
    pub fn is_taken_on_trust(&self, place: &SegmentPlace) -> Result<bool> {
        Ok(self.is_known_away(place)? || self.is_on_tape_to_be_had(place)?)
    }

    /// Whether a segment is on a tape that can be expected to come.
    pub fn is_on_tape_to_be_had(&self, place: &SegmentPlace) -> Result<bool> {
        for (_, medium, _) in place.whole_places() {
            if self.media.is_tape_to_be_had(medium)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_known_away(&self, place: &SegmentPlace) -> Result<bool> {
        for (_, medium, _) in place.whole_places() {
            let is_exported = crate::media::exported(&self.cell.idb, medium)?.is_some();
            // Of an array enough may be here.
            let is_array = self.cell.tapes_of(medium).len() > 1;
            if is_exported && (!is_array || !self.cell.tapes_away(medium)?.is_empty()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses a segment whose begin or end is not the one that is recorded there: it was cut short, or another one is in its
    /// place.
    fn whole_at(&self, place: &SegmentPlace, at: Place) -> Result<()> {
        let reader = self.open_place(place, at)?.reader;
        let (begin, end) = (reader.header()?.segment, reader.end()?.segment);
        match (begin, end) == (at.0, at.0) {
            true => Ok(()),
            false => Err(reader.another(at.0).into()),
        }
    }

    /// The media, of what is needed, that somebody puts into drives that stand alone.
    pub fn by_hand(&self, needed: &dyn Fn(usize, &SegmentPlace) -> bool) -> HashSet<MediumId> {
        let asked = self.segments.iter().enumerate().filter(|(index, place)| needed(*index, place));
        let media: HashSet<MediumId> =
            asked.flat_map(|(_, place)| place.places()).map(|at| at.1).collect();
        media.into_iter().filter(|id| self.cell.is_by_hand(*id)).collect()
    }

    /// Refuses a version of which no medium is at hand that has something `needed`. Tapes are not loaded for it, but that somebody has to
    /// put in by hand: where there is nothing else, the one that is read first is asked for now, as it may be that nobody is there. Where
    /// somebody `is_there`, such a tape will come.
    pub fn require_a_medium(
        &self,
        needed: &dyn Fn(usize, &SegmentPlace) -> bool,
        is_there: bool,
    ) -> Result<()> {
        let mut away = Vec::new();
        let (mut tried, mut by_hand): (Vec<MediumId>, Vec<MediumId>) = (Vec::new(), Vec::new());
        let asked = self.segments.iter().enumerate().filter(|(index, place)| needed(*index, place));
        for (_, id, _) in asked.flat_map(|(_, place)| place.places()) {
            if tried.contains(&id) {
                continue;
            }
            tried.push(id);
            if self.cell.is_by_hand(id) && self.media.is_tape_to_be_had(id)? {
                by_hand.push(id);
                continue;
            }
            if self.media.is_tape_to_be_had(id)? || self.media.is_to_be_brought(id)? {
                return Ok(());
            }
            match self.media.medium(id) {
                Ok(_) => return Ok(()),
                Err(e) => away.push(e),
            }
        }
        if is_there && !by_hand.is_empty() {
            return Ok(());
        }
        // The nearest first; of those that are as near the one that is read first.
        let asked = || self.segments.iter().enumerate().filter(|(i, place)| needed(*i, place));
        let is_first = |id: &MediumId| {
            asked().any(|(_, place)| place.places().first().is_some_and(|at| at.1 == *id))
        };
        self.cell.in_order_of_writing(&mut by_hand)?;
        by_hand.sort_by_key(|id| !is_first(id));
        for id in by_hand {
            match self.media.medium(id) {
                Ok(_) => return Ok(()),
                Err(e) => away.push(e),
            }
        }
        all_away(self.cell, away).map_or(Ok(()), Err)
    }
}

impl VersionView<'_> {
    /// Refuses a version of which a segment is on no medium at hand. Tapes are not loaded for it.
    pub fn require_all_media(&self) -> Result<()> {
        all_away(self.cell, self.media_lacking()?).map_or(Ok(()), Err)
    }

    /// The errors for the media, each once, that have segments which are on no medium at hand. Tapes are not loaded for it.
    pub fn media_lacking(&self) -> Result<Vec<CellError>> {
        let mut tried: HashMap<MediumId, Option<CellError>> = HashMap::new();
        let mut wanted = Vec::new();
        for segment in &self.segments {
            let mut places = segment.whole_places();
            if places.is_empty() {
                places = segment.places();
            }
            for (_, id, _) in &places {
                if !tried.contains_key(id) {
                    let to_be_had =
                        self.media.is_tape_to_be_had(*id)? || self.media.is_to_be_brought(*id)?;
                    let away = if to_be_had { None } else { self.media.medium(*id).err() };
                    tried.insert(*id, away);
                }
            }
            let is_away = |place: &Place| matches!(tried.get(&place.1), Some(Some(_)));
            if places.iter().all(is_away)
                && let Some((_, id, _)) = places.first()
                && !wanted.contains(id)
            {
                wanted.push(*id);
            }
        }
        Ok(wanted.iter().filter_map(|id| tried.remove(id)?).collect())
    }
}
