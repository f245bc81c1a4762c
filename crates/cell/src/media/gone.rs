//! What media lack of what is recorded of them. Who decides on versions looks at the media at hand himself, each time, so this has to be
//! cheap: a directory is listed once, and of its segments only the last is opened; of an array's also the last small ones, and those of
//! which members are shorter than they should be. A tape is not loaded for it: of one that was found
//! changed nothing is relied on.

use std::collections::{BTreeSet, HashMap, HashSet};

use capstan_address::Address;
use capstan_format::id::{ObjectId, SegmentId, SegmentNumber, VersionId};
use capstan_idb::{Claim, Management, Medium, Segment};
use capstan_medium::OpenMedium;
use capstan_medium::storage::SegmentSize;

use super::changed::is_grown;
use super::{AtHand, look, other_host};
use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::session::now_us;

/// So many segments of an array are opened, of which lengths say too little.
const LOOKS: u32 = 200;
/// So many segments are named, others are counted.
const NAMED: usize = 3;

/// What cannot be relied on of a medium.
pub(crate) struct Gone {
    /// What is found, in words.
    pub why: String,
    /// Whether the medium is there and not as it was last written.
    pub changed: bool,
    /// Whether its end is not what was written last, so that nothing is written to it.
    pub is_marked: bool,
    /// The segments that it lacks; all of them, where none are named.
    pub segments: Option<HashSet<SegmentId>>,
    /// Whether all that it lacks was removed by a command, and is recorded elsewhere too: so a stage or a repair leaves it that was
    /// interrupted before it could record what it did.
    pub is_moved: bool,
}

/// What a medium on disk lacks.
pub(crate) struct Lacking {
    /// These segments.
    pub segments: Vec<Segment>,
    /// Those of them that are longer than what was written.
    grown: HashSet<SegmentNumber>,
    is_moved: bool,
}

impl Gone {
    /// Whether a segment that is recorded of the medium is not to be had there.
    pub fn has(&self, segment: SegmentId) -> bool {
        self.segments.as_ref().is_none_or(|segments| segments.contains(&segment))
    }
}

impl Cell {
    /// What of a medium that should be where it was last seen cannot be relied on; `why_away` says why a tape is not in its library.
    /// One whose end is not what was written last is marked; one that was marked, and is as recorded, is marked no more.
    pub(crate) fn gone(
        &self,
        medium: &Medium,
        management: &Management,
        why_away: &mut dyn FnMut(&Address) -> Option<String>,
    ) -> Result<Option<Gone>> {
        let is_marked = management.changed_us.is_some();
        let gone = |why, changed| {
            Some(Gone { why, changed, is_marked: changed, segments: None, is_moved: false })
        };
        let marked = || gone(management.changed_why.clone().unwrap_or_default(), true);
        let is_others = other_host(&self.idb, medium).is_some();
        let address = match &medium.device {
            Address::Null { .. } => return Ok(None),
            Address::Tape(_) if is_marked => return Ok(marked()),
            address @ Address::Tape(_) => {
                let why = why_away(address).filter(|_| !is_others);
                return Ok(why.and_then(|why| gone(why, false)));
            }
            address => address,
        };
        let AtHand { absent, problem, there, .. } = look(&*self.devices, medium);
        if is_others && there.is_none() {
            // What is not known of it here, its host says; what that found is on record.
            return Ok(is_marked.then(marked).flatten());
        }
        if let Some(why) = absent {
            return Ok(gone(why, false));
        }
        // Its place is there, and nothing in it that says which medium it is.
        if let Some(why) = problem.filter(|_| there.is_none()) {
            return Ok(gone(why, true));
        }
        let Some(there) = there.filter(|_| !address.is_sequential()) else {
            return Ok(is_marked.then(marked).flatten());
        };
        if let Some(other) = self.other_cell(there.header())? {
            // Another cell adopted it meanwhile: what goes there is for that one to say.
            self.idb.set_medium_other_cell(medium.id, Some(&other.to_string()))?;
            return Ok(None);
        }
        match self.lacking(address, &there, is_marked, is_others) {
            Ok(lacking) => Ok(lacking),
            // It went away, or cannot be read now.
            Err(CellError::Device(e)) => Ok(gone(chain(&e), false)),
            Err(e) => Err(e),
        }
    }

    /// What a medium of another cell lacks that is at hand on disk. Where it is away, that is for its cell to watch over.
    pub(crate) fn gone_of_others(&self, medium: &Medium) -> Result<Option<Gone>> {
        let is_on_disk = medium.device.is_on_stores();
        let Some(there) = look(&*self.devices, medium).there.filter(|_| is_on_disk) else {
            return Ok(None);
        };
        let (segments, grown) = match self.lacking_segments(&there) {
            Ok(Lacking { segments, grown, .. }) => (segments, grown),
            Err(CellError::Device(_)) => return Ok(None),
            Err(e) => return Err(e),
        };
        let Some(why) = in_words(&segments, &grown) else { return Ok(None) };
        let segments = Some(segments.iter().map(|s| s.id).collect());
        Ok(Some(Gone { why, changed: true, is_marked: false, segments, is_moved: false }))
    }

    /// What a medium that is in use no more does not have of what is recorded of it, where it is at hand. Nothing is noted of it.
    pub(crate) fn lacking_in_place(
        &self,
        medium: &Medium,
        address: &Address,
    ) -> Result<Option<HashSet<SegmentId>>> {
        let AtHand { absent, there, .. } = look(&*self.devices, medium);
        if address.is_sequential() {
            return Ok(absent.is_none().then(HashSet::new));
        }
        let Some(there) = there else { return Ok(None) };
        let Lacking { segments, .. } = self.lacking_segments(&there)?;
        let last = self.difference(address, &there)?;
        let lacks = segments.iter().map(|s| s.id).chain(last.map(|last| last.segment.id));
        Ok(Some(lacks.collect()))
    }

    /// What a directory lacks, or has another segment in place of, that is not as it was last written. That is no damage: the
    /// one that was written may be on another disk, and come back.
    pub(crate) fn lacking_as_changed(&self, there: &OpenMedium) -> Result<HashSet<SegmentId>> {
        let Some(row) = self.idb.medium(there.header().medium)? else { return Ok(HashSet::new()) };
        let address = &row.device;
        if address.is_sequential() {
            return Ok(HashSet::new());
        }
        let Some(last) = self.difference(address, there)? else { return Ok(HashSet::new()) };
        let Lacking { segments, .. } = self.lacking_segments(there)?;
        Ok(segments.iter().map(|s| s.id).chain([last.segment.id]).collect())
    }

    fn lacking(
        &self,
        address: &Address,
        there: &OpenMedium,
        was_marked: bool,
        is_others: bool,
    ) -> Result<Option<Gone>> {
        let id = there.header().medium;
        let last = self.difference(address, there)?;
        let Lacking { segments: mut lacking, grown, is_moved } = self.lacking_segments(there)?;
        let mut segments: HashSet<SegmentId> = lacking.iter().map(|s| s.id).collect();
        let text = last.as_ref().map(ToString::to_string);
        // It may be a copy of what another host has: that host marks it.
        if last.is_some() != was_marked && !is_others {
            self.idb.set_medium_changed(id, text.as_deref().map(|text| (now_us(), text)))?;
        }
        if let Some(last) = &last {
            lacking.retain(|s| s.id != last.segment.id);
            segments.insert(last.segment.id);
        }
        let others = in_words(&lacking, &grown);
        let why = match (text, others) {
            (None, None) => return Ok(None),
            (Some(text), None) => text,
            (None, Some(others)) => others,
            (Some(text), Some(others)) => format!("{text}, and {others}"),
        };
        let (segments, is_marked) = (Some(segments), last.is_some());
        Ok(Some(Gone { why, changed: true, is_marked, segments, is_moved: is_moved && !is_marked }))
    }

    /// The recorded segments that versions have on a medium on disk and that are not there, or not all of them. What was given up is
    /// gone on purpose.
    pub(crate) fn lacking_segments(&self, there: &OpenMedium) -> Result<Lacking> {
        let id = there.header().medium;
        // What others commit after this is not missed, as it is not known.
        let recorded = self.idb.segments_of_medium(id)?;
        let lengths = there.lengths()?;
        let taken = self.idb.bytes_of_places(id)?;
        let mut looks = LOOKS;
        let mut segments = Vec::new();
        let mut grown = HashSet::new();
        // The newest first, as long as there are looks.
        for segment in recorded.into_iter().rev() {
            let is_whole = match lengths.get(&segment.number) {
                None => false,
                // What it lacks is known: an import took it as it is.
                Some(length)
                    if taken.get(&segment.id).is_some_and(|of| length.is_none_or(|n| n == *of)) =>
                {
                    true
                }
                Some(Some(length)) if is_grown(*length, segment.bytes) => {
                    grown.insert(segment.number);
                    false
                }
                Some(Some(length)) => *length >= segment.bytes,
                Some(None) => {
                    let size = SegmentSize { bytes: segment.bytes, blocks: segment.blocks };
                    !there.is_cut(segment.number, size, &mut looks)?
                }
            };
            if !is_whole {
                segments.push(segment);
            }
        }
        segments.reverse();
        if segments.is_empty() {
            return Ok(Lacking { segments, grown, is_moved: false });
        }
        // What others removed meanwhile is recorded no more, or was given up before.
        let now: HashSet<SegmentId> =
            self.idb.segments_of_medium(id)?.into_iter().map(|s| s.id).collect();
        let leaving = self.leaving()?;
        let claims = self.all_claims()?;
        let mut origins: HashMap<SegmentId, SegmentId> = HashMap::new();
        for claim in claims.iter().filter(|c| c.medium == id) {
            origins.insert(claim.segment, claim.origin);
        }
        segments.retain(|s| {
            now.contains(&s.id) && !leaving.contains(&s.id) && origins.contains_key(&s.id)
        });
        let lacking: HashSet<SegmentId> = segments.iter().map(|s| s.id).collect();
        let others: HashSet<SegmentId> = claims
            .iter()
            .filter(|c| !c.lacks && (c.medium != id || !lacking.contains(&c.segment)))
            .map(|c| c.origin)
            .collect();
        let removed = there.last_removed()?;
        let is_moved = segments.iter().all(|s| {
            let is_gone = !lengths.contains_key(&s.number);
            is_gone && removed >= Some(s.number) && others.contains(&origins[&s.id])
        });
        Ok(Lacking { segments, grown, is_moved })
    }

    /// Every place of what versions have, also of segments that say no more than that a session ended.
    pub(crate) fn all_claims(&self) -> Result<Vec<Claim>> {
        let mut claims = self.idb.claims()?;
        claims.extend(self.idb.claims_of_ends()?);
        Ok(claims)
    }

    /// The versions that were not given up, or are locked, and those that they build on, each with its object.
    pub(crate) fn needed(&self) -> Result<HashMap<VersionId, ObjectId>> {
        let rows = self.idb.prune_rows()?;
        let now_us = self.believed_us()?;
        let by_id: HashMap<VersionId, _> = rows.iter().map(|row| (row.version.id, row)).collect();
        let mut needed = HashMap::new();
        for row in &rows {
            if row.keeping.expired_us.is_some() && row.keeping.lock_at(now_us).is_none() {
                continue;
            }
            let mut at = Some(row);
            while let Some(row) = at
                && needed.insert(row.version.id, row.version.object).is_none()
            {
                at = row.version.base.and_then(|base| by_id.get(&base).copied());
            }
        }
        Ok(needed)
    }

    /// Why a medium that is at hand is not as it was last written, if so.
    pub(crate) fn changed_at_hand(&self, medium: &Medium) -> Result<Option<String>> {
        let management = self.idb.management(medium.id)?;
        let gone = self.gone(medium, &management, &mut |_| None)?;
        Ok(gone.filter(|gone| gone.changed).map(|gone| gone.why))
    }
}

fn in_words(lacking: &[Segment], grown: &HashSet<SegmentNumber>) -> Option<String> {
    let what = match lacking.iter().any(|s| grown.contains(&s.number)) {
        true if lacking.iter().all(|s| grown.contains(&s.number)) => "longer than what was written",
        true => "missing, cut short or longer than what was written",
        false => "missing or cut short",
    };
    let numbers: BTreeSet<u32> = lacking.iter().map(|s| s.number.0).collect();
    let mut named: Vec<String> = numbers.iter().take(NAMED).map(u32::to_string).collect();
    let last = match numbers.len() {
        0 => return None,
        1 => return Some(format!("segment {} is {what}", named.concat())),
        n if n > NAMED => format!("{} others", n - NAMED),
        _ => named.pop().unwrap_or_default(),
    };
    Some(format!("segments {} and {last} are {what}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_format::id::MediumId;

    #[test]
    fn not_all_that_lacks_is_named() {
        let segment = |n: u8| Segment {
            id: SegmentId([n; 16]),
            medium: MediumId([1; 16]),
            number: SegmentNumber(n.into()),
            session: capstan_format::id::SessionId([1; 16]),
            blocks: 1,
            bytes: 1,
            committed_us: 0,
            object: None,
        };
        let text = |numbers: &[u8]| {
            let all: Vec<_> = numbers.iter().map(|n| segment(*n)).collect();
            in_words(&all, &[SegmentNumber(8)].into()).unwrap_or_default()
        };
        assert_eq!(text(&[]), "");
        assert_eq!(text(&[7]), "segment 7 is missing or cut short");
        assert_eq!(text(&[8]), "segment 8 is longer than what was written");
        assert_eq!(
            text(&[7, 8]),
            "segments 7 and 8 are missing, cut short or longer than what was written"
        );
        assert_eq!(text(&[2, 1]), "segments 1 and 2 are missing or cut short");
        assert_eq!(text(&[1, 2, 3]), "segments 1, 2 and 3 are missing or cut short");
        assert_eq!(
            text(&[1, 2, 3, 4, 5]),
            "segments 1, 2, 3 and 2 others are missing or cut short"
        );
    }
}
