//! Whether a medium is as it was last written, before more is written to it: its end is held against the database, and it is not
//! written where it is at hand twice.
//!
//! What others wrote behind the last recorded segment is theirs to write, and becomes known. What was recorded and is missing, shorter
//! or another one is not: somebody cut the medium or wrote over it, or it is a copy of the one that was written. Readers may use either.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use capstan_devices::DeviceError;
use capstan_devices::address::{Address, TapeAddress};
use capstan_devices::medium::{HeldMedium, OpenMedium};
use capstan_engine::message::{Code, shell_word};
use capstan_format::FormatError;
use capstan_format::id::{MediumId, SegmentId, SegmentNumber, VersionId};
use capstan_format::record::{MediumHeader, RECORD_MAX};
use capstan_idb::{IdbError, Medium, Segment};
use capstan_tape::TapeError;

use super::write_protected::is_write_protected;
use super::{absent_tape, is_place_here, other_host, recorded, shown};
use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::observe::Stop;
use crate::session::waited::patiently;
use crate::session::{SessionLog, now_us};

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

/// What an import makes of a medium that is not as it was last written.
#[derive(Default)]
pub(crate) struct Taken {
    /// The versions that cannot do without what is lost, the first with their names: what is imported now may make them whole.
    pub torn: Vec<(VersionId, Option<String>)>,
    /// Segments that are cut short, or grew: what is known of them stays.
    pub kept: HashSet<SegmentNumber>,
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
            Err(CellError::Changed(text)) => Ok(Some(text)),
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
            Some(row) => self.note_changed(&row.device.parse()?, medium),
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
        let address = match row.device.parse::<Address>() {
            Ok(address) => address,
            Err(e) => return e.into(),
        };
        if let Err(e) = self.refuse_changed(&address, there) {
            return e;
        }
        CellError::Changed(format!(
            "{} in {address} is not as it was last written: segment {} ({}) is missing. {}",
            shown(row.id, &row.label),
            number.0,
            segment.short(),
            ways(row, &address, "")
        ))
    }

    /// The error for a copy of a medium that was written elsewhere. What is wrong with the copy is nothing to mark that medium for.
    fn unlike(&self, row: &Medium, address: &Address, what: &str) -> CellError {
        CellError::Changed(format!(
            "{} was last written in {}{}, and what is in {address} is not as it was: {what}; {}",
            shown(row.id, &row.label),
            row.device,
            other_host(&self.idb, row).map_or(String::new(), |host| format!(" of host '{host}'")),
            other_ways(row, address)
        ))
    }

    /// Notes that a medium was passed over, if that is as it is not as it was last written, cannot be read, or is write-protected, for a
    /// session to say. `medium` is what is known to be there.
    pub(crate) fn note_passed_over(&self, name: &str, medium: Option<MediumId>, why: &CellError) {
        match why {
            why if is_write_protected(why) => {
                // One that is not recorded is found again.
                if let Some(text) = medium.and_then(|id| self.note_write_protected(id).ok()?) {
                    self.note_passed(Code::WriteProtected, name, text);
                }
            }
            CellError::Changed(text) => self.note_passed(Code::MediumChanged, name, text.clone()),
            why if why.is_unreadable() => {
                let text = format!("it was passed over, as it cannot be read: {}", chain(why));
                self.note_passed(Code::MediumFailed, name, text);
            }
            CellError::Device(e @ DeviceError::TapeHeaderLost { .. }) => {
                self.note_passed(Code::MediumFailed, name, chain(e));
            }
            _ => {}
        }
    }

    /// The same of an array that was passed over as a member is lost.
    pub(crate) fn passed_lost(&self, name: &str, member: &str, why: &str) {
        let text = format!(
            "this array is not gone on with, as a member is lost, or not as it was last written: {member}: {why}"
        );
        self.note_passed(Code::MemberLost, name, text);
    }

    /// Notes something of a medium or tape, for a session to say.
    pub(crate) fn note_passed(&self, code: Code, name: &str, text: String) {
        let said = (code, name.to_owned(), text);
        let mut changed = self.changed.lock();
        if !changed.contains(&said) {
            changed.push(said);
        }
    }

    /// Says which media were passed over as they are not as they were last written. Returns how many of them, without
    /// arrays that only lack a member.
    pub(crate) fn say_changed(&self, log: &SessionLog<'_>) -> u64 {
        let passed = std::mem::take(&mut *self.changed.lock());
        for (code, name, text) in &passed {
            log.say(*code, "cell", name, text.clone());
        }
        passed.iter().filter(|(code, ..)| *code == Code::MediumChanged).count() as u64
    }

    /// Marks a medium as not what was last written, with what differs. Gives the error that says so.
    pub(super) fn mark_changed(
        &self,
        row: &Medium,
        address: &Address,
        what: &str,
    ) -> Result<CellError> {
        self.idb.set_medium_changed(row.id, Some((now_us(), what)))?;
        Ok(CellError::Changed(format!(
            "{} in {address} is not as it was last written: {what}; nothing is written to it. {}",
            shown(row.id, &row.label),
            ways(row, address, what)
        )))
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
        if !matches!(address, Address::Tape(_)) || segment.number != behind(medium)? {
            return Ok(false);
        }
        Ok(begun_behind(medium)? == Some(segment.id))
    }

    /// What is on a tape behind its last complete segment and was not taken, to be noted.
    pub(crate) fn unended_on(
        &self,
        address: &Address,
        medium: &OpenMedium,
    ) -> Result<Option<String>> {
        let header = medium.header();
        if !matches!(address, Address::Tape(_))
            || !self.idb.bytes_of_places(header.medium)?.is_empty()
        {
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
        let is_tape = matches!(row.device.parse(), Ok(Address::Tape(_)));
        if !is_tape || self.idb.bytes_of_places(row.id)?.is_empty() {
            return Ok(());
        }
        Err(CellError::BadInput(format!(
            "{} was cut short, and what is written next would be over what is left there; take another one, or give up what it has: \
             `capstan media recycle '{1}'`, or `capstan media forget '{1}'` when it is gone",
            shown(row.id, &row.label),
            row.label
        )))
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
        let is_marked = self.idb.management(row.id)?.changed_us.is_some();
        let difference = match self.difference(address, medium) {
            Err(e) if e.is_unreadable() => {
                self.note_unread_end(address, medium)?;
                None
            }
            difference => difference?,
        };
        if !self.is_place_of(&row, address) {
            match difference {
                None => return Ok(Taken::default()),
                Some(what) if !self.is_place_taken(&row)? => {
                    return Err(self.unlike(&row, address, &what.to_string()));
                }
                Some(_) => {}
            }
        }
        let lacks = || match address.is_sequential() {
            true => Ok(false),
            false => self.lacking_segments(medium).map(|lacking| !lacking.segments.is_empty()),
        };
        let has_taken = !self.idb.bytes_of_places(row.id)?.is_empty();
        if difference.is_none() && !is_marked && !has_taken && !lacks()? {
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
                return Err(CellError::InUse(format!(
                    "{} in {address} has lost something of version {version}, which {reader} uses; import it when that is done",
                    shown(row.id, &row.label)
                )));
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
                if matches!(row.device.parse(), Ok(Address::Tape(_))) {
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
        match patiently(&self.devices, || Ok(self.devices.held(address)?)) {
            Ok(held) => Ok(Some(held)),
            Err(e) if e.is_busy() => Err(CellError::InUse(format!(
                "a session writes to {} in {address}, or removes from it, and not all of it is as it is recorded; import it when \
                 that is done",
                shown(row.id, &row.label)
            ))),
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

    /// Refuses a medium that is at hand at another place too, where it was written last.
    pub(crate) fn refuse_twice(&self, id: MediumId, address: &Address) -> Result<()> {
        let Some(row) = self.idb.medium(id)? else { return Ok(()) };
        let Ok(last) = row.device.parse::<Address>() else { return Ok(()) };
        if self.is_place_of(&row, address) || !is_at_hand_elsewhere(self, id, &last, address) {
            return Ok(());
        }
        Err(CellError::BadInput(format!(
            "{} is in two places, {last} and {}, and was last written in the first; {}",
            shown(id, &row.label),
            recorded(address),
            other_ways(&row, address)
        )))
    }

    /// Refuses a tape whose barcode is that of a medium which is not on it any more, and marks that medium; or corrects what is recorded,
    /// where another medium of the library is there. `found` is what is on it now.
    pub(crate) fn refuse_overwritten(
        &self,
        address: &Address,
        found: std::result::Result<&MediumHeader, &DeviceError>,
    ) -> Result<()> {
        if !matches!(address, Address::Tape(TapeAddress { tape: Some(_), .. })) {
            return Ok(());
        }
        if let Ok(header) = found
            && let Some(exchanged) = self.set_right(address, header)?
        {
            return Err(exchanged);
        }
        let (what, is_blank) = match found {
            Ok(header) => (format!("{} {ON_IT}", shown(header.medium, &header.label)), false),
            Err(DeviceError::NoMedium(_)) => {
                let is_blank = self.devices.is_blank(address)?;
                (if is_blank { BLANK } else { OTHERS }.to_owned(), is_blank)
            }
            Err(DeviceError::Medium {
                source: FormatError::Newer { .. } | FormatError::UnknownFeatures(_),
                ..
            }) => return Ok(()),
            Err(DeviceError::ArrayMember { .. }) => (PART.to_owned(), true),
            Err(e) if e.is_no_medium() => (OTHERS.to_owned(), false),
            Err(e) if e.of_tape().is_some_and(TapeError::is_no_tape) => (chain(e), false),
            Err(e) if e.blames_medium() => return self.note_unreadable_at(address),
            // What is wrong with the drive or the library, says who opens it.
            Err(_) => return Ok(()),
        };
        let is_it = |row: &Medium| found.is_ok_and(|header| header.medium == row.id);
        let place = recorded(address);
        let mut of_here: Vec<Medium> = self.idb.media()?;
        of_here.retain(|row| row.device == place);
        if of_here.iter().any(is_it) {
            return Ok(());
        }
        let mut refused = None;
        for row in of_here {
            // Where nothing was written yet, nothing is lost; what can be written is.
            let holds = self.idb.last_segment_number(row.id)?.is_some();
            if holds || !is_blank && found.is_err() {
                refused = Some(self.mark_changed(&row, address, &what)?);
            }
        }
        refused.map_or(Ok(()), Err)
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

/// What is on a tape that has no header of ours.
const OTHERS: &str = "something else was written over it";
/// What is on one that has nothing.
const BLANK: &str = "its tape is blank";
/// What is on one that was made a member of an array.
const PART: &str = "its tape is a part of an array";
/// What follows the name of another medium that is there.
pub(super) const ON_IT: &str = "is on its tape now";

impl Cell {
    /// Whether a medium is recorded as lying there. A tape is the one with its barcode, wherever that is.
    fn is_place_of(&self, row: &Medium, address: &Address) -> bool {
        let same_tape = |last: Address| match (last, address) {
            (Address::Tape(last), Address::Tape(now)) => {
                last.tape.is_some() && last.tape == now.tape
            }
            _ => false,
        };
        let is_here = address.is_tape() || is_place_here(&self.idb, row);
        is_here && recorded(address) == row.device || row.device.parse().is_ok_and(same_tape)
    }

    /// Whether another medium is known to lie by now where a medium was written last: then what is found of it elsewhere is no copy,
    /// but the medium itself.
    fn is_place_taken(&self, row: &Medium) -> Result<bool> {
        if other_host(&self.idb, row).is_some() {
            return Ok(false);
        }
        let Ok(last) = row.device.parse::<Address>() else { return Ok(false) };
        if !last.is_tape() && self.is_at(row.id, &last) {
            return Ok(false);
        }
        Ok(self.idb.media()?.iter().any(|other| other.id != row.id && other.device == row.device))
    }
}

/// Whether the medium is still where it was last, which is not the same place by another name.
fn is_at_hand_elsewhere(cell: &Cell, id: MediumId, last: &Address, now: &Address) -> bool {
    let has_it = || cell.is_at(id, last);
    match (last, now) {
        (Address::File(_), Address::File(_)) | (Address::Array(_), Address::Array(_)) => {
            let (last, now) = (last.directories(), now.directories());
            let shares = last.iter().any(|l| now.iter().any(|n| is_same_directory(l, n)));
            !last.is_empty() && !shares && has_it()
        }
        // Nobody loads the one for the other: another barcode of the same medium is enough.
        (Address::Tape(last), Address::Tape(now)) => {
            last.tape.is_some() && now.tape.is_some() && absent_tape(&cell.devices, last).is_none()
        }
        _ => false,
    }
}

fn is_same_directory(a: &Path, b: &Path) -> bool {
    let of = |path: &Path| path.metadata().ok().map(|m| (m.dev(), m.ino()));
    of(a).is_some_and(|found| Some(found) == of(b))
}

/// What can be done about a medium that was changed where it is, by what was found there.
pub(crate) fn ways(row: &Medium, address: &Address, found: &str) -> String {
    let label = &row.label;
    let named = shell_word(address);
    if let Address::File(path) = address {
        return format!(
            "If another disk or directory is the one that was written, bring that back; `capstan media adopt {0} --as-new` makes \
             this one a medium of its own; if this is the one itself, `capstan media repair '{label}' --as-it-is` writes anew what \
             it lost and other media have; `capstan import {0}` takes it as it is, keeps what is left of segments that were cut, and forgets those that are gone",
            shell_word(path.display())
        );
    }
    let forget = format!("`capstan media forget '{label}'` gives up what it held");
    let of = if address.is_sequential() { "tape" } else { "array" };
    match found {
        OTHERS | BLANK => format!(
            "`capstan media recycle '{label}' --foreign` gives up what it held, erases the tape and makes it a free medium; \
             {forget} and leaves the {of} as it is"
        ),
        PART => forget,
        found if found.ends_with(ON_IT) => {
            format!("{forget}; `capstan import {named}` makes known what is there now")
        }
        _ => format!(
            "`capstan import {named}` takes it as it is, keeps what is left of a segment that was cut, and forgets those that are \
             gone; {forget} and leaves the {of} as it is"
        ),
    }
}

/// What can be done about a copy of a medium that lies elsewhere. It may be the only one that is left, so nobody is told to erase it.
fn other_ways(row: &Medium, address: &Address) -> String {
    let Medium { label, device, .. } = row;
    let (named, at) = (shell_word(address), shell_word(device));
    match address {
        Address::File(path) => format!(
            "write to the first, or make this one a medium of its own: `capstan media adopt {} --as-new`; if the first is lost, \
             `capstan media forget {}` gives it up then",
            shell_word(path.display()),
            shell_word(label)
        ),
        Address::Tape(_) => format!(
            "write to the first. If this is the only one, its tape is in another case: `capstan import` the library, or put it into \
             the case that it was in ({device}), and `capstan import {at}` takes it as it is; `capstan media forget '{label}'` \
             and then `capstan import {named}` make known what this one has"
        ),
        _ => format!(
            "write to the first. If this is the only one, `capstan media forget '{label}'` and then `capstan import {named}` \
             make known what it has"
        ),
    }
}
