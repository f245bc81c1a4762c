//! The way of a restore through the media: each tape once, all that is wanted of it together and in its order, whichever version has it.

use std::collections::HashMap;
use std::sync::OnceLock;

use capstan_catalog::places::SegmentPlace;
use capstan_format::id::{MediumId, SegmentNumber};

use super::Restore;
use crate::Cell;
use crate::error::Result;
use crate::kinds::restore::pace::Station;
use crate::reading::version::VersionView;

/// Segments that are read together: those of a tape, in its order; or, without a tape, all others.
pub(in crate::kinds::restore) type Group = (Option<MediumId>, Vec<usize>);

/// Which segments of a version are read from which tape. What was found out once stays so.
pub(crate) struct Tapes(Vec<OnceLock<Option<MediumId>>>);

impl Tapes {
    /// Of that many segments.
    pub fn of(segments: usize) -> Self {
        Self(std::iter::repeat_with(OnceLock::new).take(segments).collect())
    }

    /// The tape that a segment is read from, if it is one.
    pub fn of_segment(&self, view: &VersionView<'_>, segment: usize) -> Result<Option<MediumId>> {
        let Some((known, place)) = self.0.get(segment).zip(view.segments.get(segment)) else {
            return Ok(None);
        };
        match known.get() {
            Some(tape) => Ok(*tape),
            None => tape_of(view, place).map(|tape| *known.get_or_init(|| tape)),
        }
    }
}

/// The tape that a segment is read from, if it is one: of its media the first that is at hand.
fn tape_of(view: &VersionView<'_>, place: &SegmentPlace) -> Result<Option<MediumId>> {
    for (_, medium, _) in place.places() {
        if view.media.is_sequential(medium)? {
            return Ok(Some(medium));
        }
        if view.media.medium(medium).is_ok() {
            return Ok(None);
        }
    }
    Ok(None)
}

impl Cell {
    /// When the first of what lies on a medium was written.
    fn begun_writing(&self, medium: MediumId) -> Result<Option<i64>> {
        let on = self.idb.segments_of_medium(medium)?;
        Ok(on.iter().map(|segment| segment.committed_us).min())
    }

    /// Puts media into the order in which they were begun: all who read of them keep to it, also who restore several versions at once.
    pub(crate) fn in_order_of_writing(&self, media: &mut [MediumId]) -> Result<()> {
        let mut begun: HashMap<MediumId, Option<i64>> = HashMap::new();
        for medium in media.iter() {
            begun.insert(*medium, self.begun_writing(*medium)?);
        }
        media.sort_by_key(|medium| (begun.get(medium).copied().flatten(), *medium));
        Ok(())
    }
}

impl Restore<'_> {
    /// The segments that have something to read, in the order in which they are read. Who needs no data of a tape does not load it.
    pub(in crate::kinds::restore) fn groups(&self) -> Result<Vec<Group>> {
        let mut on: HashMap<MediumId, Vec<usize>> = HashMap::new();
        let mut others: Vec<usize> = Vec::new();
        for (i, place) in self.view.segments.iter().enumerate() {
            let index = i as u32;
            let is_referred = self.referred.has(index);
            if !is_referred && !self.scope.has_any(index, &place.streams) {
                continue;
            }
            let needs_data = is_referred || self.scope.has_data(index, &place.streams);
            let tape = if needs_data { self.tapes.of_segment(self.view, i)? } else { None };
            match tape {
                Some(tape) => on.entry(tape).or_default().push(i),
                None => others.push(i),
            }
        }
        let mut tapes: Vec<MediumId> = on.keys().copied().collect();
        self.view.cell.in_order_of_writing(&mut tapes)?;
        let mut groups: Vec<Group> = Vec::new();
        for tape in tapes {
            let mut segments = on.remove(&tape).unwrap_or_default();
            segments.sort_by_key(|i| self.number_on(*i, tape));
            groups.push((Some(tape), segments));
        }
        // Others go on to the next tape meanwhile.
        if !others.is_empty() {
            groups.push((None, others));
        }
        Ok(groups)
    }

    /// The group of segments that is read next: the first one that is at hand. Where none is, that one whose tape comes first, as long as
    /// somebody is there to bring it.
    pub(in crate::kinds::restore) fn next_group(&self, groups: &[Group]) -> usize {
        let cell = self.view.cell;
        let is_at_hand = |(tape, _): &Group| {
            tape.is_none_or(|tape| cell.tapes_away(tape).is_ok_and(|away| away.is_empty()))
        };
        let at_hand = || groups.iter().position(is_at_hand);
        if let Some(next) = at_hand() {
            return next;
        }
        self.turn.inspect(|turn| turn.leave());
        let mut next = None;
        cell.devices.operator().any_comes(&mut || {
            next = at_hand();
            next.is_some()
        });
        next.unwrap_or(0)
    }

    /// Where a tape comes among all that are read.
    pub(in crate::kinds::restore) fn station(&self, tape: MediumId) -> Result<Station> {
        Ok((self.view.cell.begun_writing(tape)?, tape))
    }

    /// The number of a segment on a medium.
    pub(in crate::kinds::restore) fn number_on(
        &self,
        segment: usize,
        medium: MediumId,
    ) -> SegmentNumber {
        let places = self.view.segments[segment].places();
        let on = places.iter().find(|(_, on, _)| *on == medium);
        on.map_or(SegmentNumber(0), |(_, _, number)| *number)
    }
}
