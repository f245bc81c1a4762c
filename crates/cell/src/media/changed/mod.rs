//! Whether a medium is as it was last written, before more is written to it: its end is held against the database, and it is not
//! written where it is at hand twice.
//!
//! What others wrote behind the last recorded segment is theirs to write, and becomes known. What was recorded and is missing, shorter
//! or another one is not: somebody cut the medium or wrote over it, or it is a copy of the one that was written. Readers may use either.

mod overwritten;
mod passed_over;
pub(crate) mod taken;
pub(crate) mod ways;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::ErrorKind;

use capstan_address::Address;
use capstan_engine::problem::Problem;
use capstan_format::id::{SegmentId, SegmentNumber};
use capstan_format::record::RECORD_MAX;
use capstan_idb::{Medium, Segment};
use capstan_medium::{DeviceError, OpenMedium};

use crate::Cell;
use crate::error::{CellError, Result};
use crate::media::changed::ways::{other_ways, ways};
use crate::media::{other_host, shown};
use crate::session::now_us;

/// So many of the last recorded segments are looked up at first.
const LOOKED_UP: u32 = 16;
/// So many versions that are not whole any more are named, others are counted.
const NAMED: usize = 100;

/// The bytes of a segment at the cut end of a tape: they are not counted.
const UNKNOWN: u64 = 0;

/// What is recorded of a segment and not found where it should be.
pub(crate) struct Lost {
    pub segment: Segment,
    /// In words that follow its number.
    what: String,
    /// The bytes that are there of it, if it is there and only not of its length.
    length: Option<u64>,
    /// Whether damage to the medium explains it: something has its number, be it one of its own segments. Of what is missing, or a strange one, an older
    /// state of the medium is as likely, or a copy that somebody else wrote to.
    pub is_damage: bool,
}

/// Whether a segment is longer than what was written. Mirrors differ a little, by what their begins and ends say of their media.
pub(super) fn is_grown(length: u64, recorded: u64) -> bool {
    length > recorded.saturating_add(2 * RECORD_MAX as u64)
}

impl Lost {
    /// Whether an import took it as it is. `taken` are the bytes of those segments of its medium that were.
    fn is_taken(&self, taken: &HashMap<SegmentId, u64>) -> bool {
        self.length.is_some_and(|length| taken.get(&self.segment.id) == Some(&length))
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Segment { number, id, .. } = &self.segment;
        write!(f, "segment {} ({}) {}", number.0, id.short(), self.what)
    }
}

impl Cell {
    /// Refuses a medium that is not as it was last written, and marks it. One that was marked and is as recorded is marked no more.
    pub(crate) fn refuse_changed(&self, address: &Address, medium: &OpenMedium) -> Result<()> {
        let header = medium.header();
        let Some(row) = self.idb.medium(header.medium)? else { return Ok(()) };
        let here = self.is_place_of(&row, address);
        match self.difference(address, medium)? {
            None => {
                if here && self.idb.management(row.id)?.changed_us.is_some() {
                    self.idb.set_medium_changed(row.id, None)?;
                }
                Ok(())
            }
            Some(what) if here => Err(self.mark_changed(&row, address, &what.to_string())?),
            Some(what) => Err(self.unlike(&row, address, &what.to_string())),
        }
    }

    /// The same only where damage does not explain it: an older state of the medium may be there, or a copy that somebody else wrote to,
    /// as where its disk is not mounted, or another one over it. What cannot be read there is damage.
    pub(crate) fn refuse_other_state(&self, address: &Address, medium: &OpenMedium) -> Result<()> {
        match self.difference(address, medium) {
            Ok(Some(lost)) if !lost.is_damage => self.refuse_changed(address, medium),
            Ok(_) | Err(CellError::Device(_)) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Marks a medium that is read, if its end is not what was written last. Returns what differs. An end that cannot be read says nothing
    /// of that: it is damage, or is met again by who reads on.
    pub(crate) fn note_changed(
        &self,
        address: &Address,
        medium: &OpenMedium,
    ) -> Result<Option<String>> {
        match self.refuse_changed(address, medium) {
            Ok(()) => Ok(None),
            Err(CellError::Changed(text)) => Ok(Some(text.to_string())),
            Err(CellError::Device(e)) if e.spares_medium() => Ok(None),
            Err(e) if e.is_unreadable() => {
                self.note_unread_end(address, medium)?;
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Records that what was written last to a medium cannot be read.
    fn note_unread_end(&self, address: &Address, medium: &OpenMedium) -> Result<()> {
        let row = self.idb.medium(medium.header().medium)?;
        let Some(row) = row.filter(|row| self.is_place_of(row, address)) else { return Ok(()) };
        let last = self.idb.last_segments_of_medium(row.id, 1)?;
        let last: Vec<SegmentId> = last.iter().map(|segment| segment.id).collect();
        Ok(self.idb.put_damage(row.id, &last, now_us())?)
    }

    /// The same, of a medium that was opened where it is recorded.
    pub(crate) fn note_changed_known(&self, medium: &OpenMedium) -> Result<Option<String>> {
        match self.idb.medium(medium.header().medium)? {
            Some(row) => self.note_changed(&row.device, medium),
            None => Ok(None),
        }
    }

    /// The error for a segment that is recorded of a medium and is not there. The medium is marked if it is its last.
    pub(crate) fn segment_gone(
        &self,
        there: &OpenMedium,
        row: &Medium,
        (segment, number): (SegmentId, SegmentNumber),
    ) -> CellError {
        let address = &row.device;
        if let Err(e) = self.refuse_changed(address, there) {
            return e;
        }
        CellError::Changed(
            format!(
                "{} in {address} is not as it was last written: segment {} ({}) is missing. {}",
                shown(row.id, &row.label),
                number.0,
                segment.short(),
                ways(row, address, "")
            )
            .into(),
        )
    }

    /// The error for a copy of a medium that was written elsewhere. What is wrong with the copy is nothing to mark that medium for.
    fn unlike(&self, row: &Medium, address: &Address, what: &str) -> CellError {
        CellError::Changed(
            Problem::new(format!(
                "{} was last written in {}{}, and what is in {address} is not as it was: {what}",
                shown(row.id, &row.label),
                row.device,
                other_host(&self.idb, row)
                    .map_or(String::new(), |host| format!(" of host '{host}'"))
            ))
            .hint(other_ways(row, address)),
        )
    }

    /// Marks a medium as not what was last written, with what differs. Gives the error that says so.
    pub(super) fn mark_changed(
        &self,
        row: &Medium,
        address: &Address,
        what: &str,
    ) -> Result<CellError> {
        self.idb.set_medium_changed(row.id, Some((now_us(), what)))?;
        Ok(CellError::Changed(
            Problem::new(format!(
                "{} in {address} is not as it was last written: {what}",
                shown(row.id, &row.label)
            ))
            .hint(format!("nothing is written to it. {}", ways(row, address, what))),
        ))
    }

    /// What of the end of a medium is not as it is recorded; nothing, if all is.
    pub(crate) fn difference(
        &self,
        address: &Address,
        medium: &OpenMedium,
    ) -> Result<Option<Lost>> {
        let id = medium.header().medium;
        let mut recorded = self.idb.last_segments_of_medium(id, LOOKED_UP)?;
        let (numbers, removed) = (medium.segments()?, medium.last_removed()?);
        let is_there = |s: &Segment| numbers.binary_search(&s.number).is_ok();
        // What was given up may be gone, as after a prune that was killed.
        let leaving = match recorded.iter().all(is_there) {
            true => HashSet::new(),
            false => self.leaving()?,
        };
        let is_removed = |s: &Segment| {
            let on_purpose = removed.is_some_and(|last| s.number <= last);
            (on_purpose || leaving.contains(&s.id)) && !is_there(s)
        };
        if recorded.len() as u32 == LOOKED_UP && recorded.iter().all(is_removed) {
            recorded = self.idb.segments_of_medium(id)?;
            recorded.reverse();
        }
        // What a prune that was killed has removed is gone on purpose.
        let Some(last) = recorded.into_iter().find(|s| !is_removed(s)) else { return Ok(None) };
        let is_there = is_there(&last);
        let taken = self.idb.bytes_of_places(id)?;
        let lost = self.lost(address, medium, last, is_there)?;
        Ok(lost.filter(|of| !of.is_taken(&taken)))
    }

    /// Whether a segment is not where it is recorded.
    fn lost(
        &self,
        address: &Address,
        medium: &OpenMedium,
        segment: Segment,
        is_there: bool,
    ) -> Result<Option<Lost>> {
        if !is_there && self.begins_there(address, medium, &segment)? {
            let what = "is cut short: its end is not there".to_owned();
            return Ok(Some(Lost { segment, what, length: Some(UNKNOWN), is_damage: true }));
        }
        // Members of an array that are away may have it.
        if !is_there && medium.may_be_away(segment.number)? {
            return Ok(None);
        }
        if !is_there {
            let what = "is missing".to_owned();
            return Ok(Some(Lost { segment, what, length: None, is_damage: false }));
        }
        let (mut is_not_whole, mut is_damage) = (None, true);
        let what = match medium.segment_found(segment.number)? {
            Some(found) if found == segment.id => {
                let length = match address.is_sequential() {
                    // A tape's last filemark says that all of it is there.
                    true => segment.bytes,
                    false => medium.segment_length(segment.number)?,
                };
                if length >= segment.bytes && !is_grown(length, segment.bytes) {
                    return Ok(None);
                }
                is_not_whole = Some(length);
                format!("has {length} bytes instead of {}", segment.bytes)
            }
            Some(other) => {
                // One of its own in the wrong place is on this disk and on no older one.
                let all = self.idb.segments_of_medium(medium.header().medium)?;
                is_damage = all.iter().any(|own| own.id == other);
                format!("is another one there ({})", other.short())
            }
            None => "is not there: what has its number cannot be read as a segment".to_owned(),
        };
        Ok(Some(Lost { segment, what, length: is_not_whole, is_damage }))
    }

    /// Whether a segment begins behind the last complete one of a tape: it was cut there.
    fn begins_there(
        &self,
        address: &Address,
        medium: &OpenMedium,
        segment: &Segment,
    ) -> Result<bool> {
        if address.as_tape().is_none() || segment.number != behind(medium)? {
            return Ok(false);
        }
        Ok(begun_behind(medium)? == Some(segment.id))
    }
}

/// The number that comes behind a tape's last complete segment.
fn behind(medium: &OpenMedium) -> Result<SegmentNumber> {
    Ok(SegmentNumber(medium.segments()?.last().map_or(1, |last| last.0.saturating_add(1))))
}

/// The segment that begins there, if any does.
fn begun_behind(medium: &OpenMedium) -> Result<Option<SegmentId>> {
    match medium.segment_found(behind(medium)?) {
        Ok(found) => Ok(found),
        // The data of the tape end before it.
        Err(DeviceError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e.into()),
    }
}
