//! A medium that is taken as it is, though that is not as it was last written: what it lost is forgotten, or mended.

use std::collections::HashSet;

use capstan_address::Address;
use capstan_engine::message::Code;
use capstan_engine::problem::Problem;
use capstan_format::id::{MediumId, SegmentId, SegmentNumber, VersionId};
use capstan_idb::{IdbError, Medium};
use capstan_medium::{HeldMedium, OpenMedium};

use crate::Cell;
use crate::error::{CellError, MediumRefusal, Result};
use crate::media::changed::{Lost, NAMED, begun_behind, behind};
use crate::media::shown;
use crate::observe::Stop;
use crate::session::waited::patiently;
use crate::session::{SessionLog, now_us};

/// What an import makes of a medium that is not as it was last written.
#[derive(Default)]
pub(crate) struct Taken {
    /// The versions that cannot do without what is lost, the first with their names: what is imported now may make them whole.
    pub torn: Vec<(VersionId, Option<String>)>,
    /// Segments that are cut short, or grew: what is known of them stays.
    pub kept: HashSet<SegmentNumber>,
}

impl Cell {
    /// What is on a tape behind its last complete segment and was not taken, to be noted.
    pub(crate) fn unended_on(
        &self,
        address: &Address,
        medium: &OpenMedium,
    ) -> Result<Option<String>> {
        let header = medium.header();
        if address.as_tape().is_none() || !self.idb.bytes_of_places(header.medium)?.is_empty() {
            return Ok(None);
        }
        let begun = match begun_behind(medium) {
            Err(e) if e.is_unreadable() => None,
            begun => begun?,
        };
        Ok(begun.map(|id| {
            format!(
                "on '{}' segment {} ({}) has no end: its session did not complete it, or the tape was cut there; nothing of it is \
                 imported, and what is written next is written over it",
                header.label,
                behind(medium).map_or(0, |number| number.0),
                id.short()
            )
        }))
    }

    /// Refuses to write behind the end of a tape that was cut there: that would be over all that is left of a segment.
    pub(crate) fn refuse_behind_cut(&self, medium: &OpenMedium) -> Result<()> {
        let Some(row) = self.idb.medium(medium.header().medium)? else { return Ok(()) };
        let is_tape = row.device.as_tape().is_some();
        if !is_tape || self.idb.bytes_of_places(row.id)?.is_empty() {
            return Ok(());
        }
        Err(MediumRefusal::CutShort { medium: shown(row.id, &row.label), label: row.label }.into())
    }

    /// Makes the database say what a medium that is imported has, where that is not as it was last written: what is lost of it is
    /// forgotten, with the versions of which nothing else is known. A copy of a medium that was written elsewhere is refused, and so is
    /// one that somebody writes to, or of which somebody uses what is lost. Of a segment that is cut short nothing is forgotten: it is
    /// damaged there, and what is left of it is all that may be left of its versions.
    pub(crate) fn take_as_it_is(
        &self,
        address: &Address,
        medium: &OpenMedium,
        log: &SessionLog<'_>,
        stop: &Stop,
    ) -> Result<Taken> {
        let header = medium.header();
        let Some(row) = self.idb.medium(header.medium)? else { return Ok(Taken::default()) };
        if !self.is_to_be_taken(address, medium, &row)? {
            return Ok(Taken::default());
        }
        // What others write or remove now is not lost.
        let _held = self.hold_as_it_is(&row, address)?;
        let lost = self.lost_segments(address, medium)?;
        let elsewhere = self.elsewhere(row.id)?;
        // What another one has is not kept at the end of a tape, where it would be in the way.
        let is_kept = |of: &Lost| {
            let is_elsewhere = address.is_sequential() && elsewhere.contains(&of.segment.id);
            of.length.is_some() && !is_elsewhere
        };
        let (kept, lost): (Vec<Lost>, Vec<Lost>) = lost.into_iter().partition(is_kept);
        let ids: Vec<SegmentId> = lost.iter().map(|of| of.segment.id).collect();
        let cut = kept.iter().map(|of| of.segment.id).filter(|id| !elsewhere.contains(id));
        let torn: Vec<SegmentId> = ids.iter().copied().chain(cut).collect();
        let versions = self.idb.versions_torn_by(row.id, &torn)?;
        let name = |(n, id): (usize, &VersionId)| {
            Ok((*id, (n < NAMED).then(|| self.name_of_version(*id)).transpose()?))
        };
        let names = versions.iter().enumerate().map(name).collect::<Result<Vec<_>>>()?;
        self.end_dead_leases(log, stop)?;
        let places = self.idb.damaged_places()?.into_iter();
        let mut damaged: Vec<SegmentId> =
            places.filter(|(on, _)| *on == row.id).map(|(_, segment)| segment).collect();
        let was_damaged = !damaged.is_empty();
        let taken = self.idb.bytes_of_places(row.id)?;
        match self.idb.forget_segments_of_medium(row.id, &ids, now_us()) {
            Err(IdbError::IsRead { version, reader }) => {
                return Err(CellError::InUse(Problem::new(format!("{} in {address} has lost something of version {version}, which {reader} uses", shown(row.id, &row.label))).hint("import it when that is done")));
            }
            forgotten => forgotten?,
        }
        for of in &lost {
            log.say(Code::MediumChanged, "cell", &row.label, format!("{of}, and is forgotten"));
        }
        self.take_cut(&row, &kept, &elsewhere, log)?;
        let numbers = medium.segments()?;
        damaged.retain(|id| {
            let gone = |of: &Lost| of.segment.id == *id && !numbers.contains(&of.segment.number);
            // What was cut short and is as it was written is back.
            let is_back = taken.contains_key(id) && kept.iter().all(|of| of.segment.id != *id);
            !lost.iter().any(gone) && !is_back
        });
        // What was met as damage is not there any more.
        let is_healed = was_damaged && damaged.is_empty() && kept.is_empty();
        if is_healed && medium.header_problem().is_none() {
            self.idb.clear_medium_damage(row.id, false)?;
        }
        Ok(Taken { torn: names, kept: kept.iter().map(|of| of.segment.number).collect() })
    }

    /// Whether a medium may lack something of what is recorded of it. Refuses a copy of a medium that was written elsewhere.
    fn is_to_be_taken(&self, address: &Address, medium: &OpenMedium, row: &Medium) -> Result<bool> {
        let is_marked = self.idb.management(row.id)?.changed_us.is_some();
        let difference = match self.difference(address, medium) {
            Err(e) if e.is_unreadable() => {
                self.note_unread_end(address, medium)?;
                None
            }
            difference => difference?,
        };
        if !self.is_place_of(row, address) {
            match difference {
                None => return Ok(false),
                Some(what) if !self.is_place_taken(row)? => {
                    return Err(self.unlike(row, address, &what.to_string()));
                }
                Some(_) => {}
            }
        }
        let lacks = || match address.is_sequential() {
            true => Ok(false),
            false => self.lacking_segments(medium).map(|lacking| !lacking.segments.is_empty()),
        };
        let has_taken = !self.idb.bytes_of_places(row.id)?.is_empty();
        Ok(difference.is_some() || is_marked || has_taken || lacks()?)
    }

    /// Records of what is cut short on a medium, or grew, that it was taken as it is, and says so.
    fn take_cut(
        &self,
        row: &Medium,
        cut: &[Lost],
        elsewhere: &HashSet<SegmentId>,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        let (known, taken) = (self.idb.damaged_places()?, self.idb.bytes_of_places(row.id)?);
        for of in cut {
            let id = of.segment.id;
            if let Some(length) = of.length
                && !(known.contains(&(row.id, id)) && of.is_taken(&taken))
            {
                self.idb.put_bytes_of_place(row.id, id, length, now_us())?;
                if elsewhere.contains(&id) {
                    self.idb.put_damage(row.id, &[id], now_us())?;
                }
                if row.device.as_tape().is_some() {
                    self.idb.set_medium_full(row.id, now_us())?;
                }
            }
            let text = match elsewhere.contains(&id) {
                true => format!(
                    "{of}; another medium has it, which a restore takes what lacks from, and `capstan media repair '{}'` writes it \
                     anew",
                    row.label
                ),
                false => format!(
                    "{of}, and no other medium that is known has it; what is left of it stays, as damaged, and a restore by name \
                     gives back what it has"
                ),
            };
            log.say(Code::MediumChanged, "cell", &row.label, text);
        }
        Ok(())
    }

    /// The segments of a medium that are known to be on another one too, themselves or as a copy that lacks nothing.
    fn elsewhere(&self, medium: MediumId) -> Result<HashSet<SegmentId>> {
        let claims = self.all_claims()?;
        let others: HashSet<SegmentId> =
            claims.iter().filter(|c| c.medium != medium && !c.lacks).map(|c| c.origin).collect();
        let here = claims.iter().filter(|c| c.medium == medium && others.contains(&c.origin));
        Ok(here.map(|c| c.segment).collect())
    }

    /// Those of these versions that are not known any more, not whole, damaged or incomplete, to be noted.
    pub(crate) fn not_whole(
        &self,
        mut versions: Vec<(VersionId, Option<String>)>,
    ) -> Result<Option<String>> {
        if versions.is_empty() {
            return Ok(None);
        }
        let mut lost: HashSet<VersionId> =
            self.idb.lost_versions()?.into_iter().map(|of| of.version).collect();
        lost.extend(self.unsound_versions(&self.unsound_places()?)?.damaged.into_keys());
        // One of which the end is lost is incomplete.
        let kept = self.idb.versions_kept()?.into_iter().map(|(version, _)| version);
        let complete: HashSet<VersionId> =
            kept.filter(|version| version.is_complete_by(None)).map(|version| version.id).collect();
        versions.retain(|(id, _)| lost.contains(id) || !complete.contains(id));
        let all = versions.len();
        let names: Vec<String> = versions.into_iter().filter_map(|(_, name)| name).collect();
        let more = match all.saturating_sub(names.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Ok((all > 0).then(|| {
            format!(
                "with what is lost these are not whole any more, and known as far as media have them: {}{more}",
                names.join(", ")
            )
        }))
    }

    /// Holds a medium of which something is to be forgotten, or to be brought back. What cannot be held, nobody writes to.
    pub(crate) fn hold_as_it_is(
        &self,
        row: &Medium,
        address: &Address,
    ) -> Result<Option<HeldMedium>> {
        // Who has a tape in its drive is alone with it.
        if address.is_sequential() {
            return Ok(None);
        }
        match patiently(&*self.devices, || Ok(self.devices.held(address)?)) {
            Ok(held) => Ok(Some(held)),
            Err(e) if e.is_busy() => Err(CellError::InUse(Problem::new(format!("a session writes to {} in {address}, or removes from it, and not all of it is as it is recorded", shown(row.id, &row.label))).hint("import it when that is done"))),
            Err(_) => Ok(None),
        }
    }

    /// The recorded segments of a medium that are not on it any more. What was given up is gone on purpose.
    fn lost_segments(&self, address: &Address, medium: &OpenMedium) -> Result<Vec<Lost>> {
        // In this order: what a backup commits meanwhile is on the medium and not recorded, which is nothing lost.
        let recorded = self.idb.segments_of_medium(medium.header().medium)?;
        let leaving = self.leaving()?;
        let numbers = medium.segments()?;
        let mut all = Vec::new();
        for segment in recorded {
            let is_there = numbers.binary_search(&segment.number).is_ok();
            if is_there || !leaving.contains(&segment.id) {
                match self.lost(address, medium, segment, is_there) {
                    // What cannot be read is not lost for that.
                    Err(e) if e.is_unreadable() => {}
                    lost => all.extend(lost?),
                }
            }
        }
        Ok(all)
    }
}
