//! Damaged segments that no version needs: what prune would take away, and what is recorded nowhere.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::message::Code;
use capstan_format::id::{MediumId, SegmentId, SegmentNumber};
use capstan_idb::{ExpiredSegment, Segment};
use capstan_medium::OpenMedium;
use capstan_port::media::read::error::ReadError;

use super::Repair;
use crate::Cell;
use crate::drives::attached::{Attached, DamagedAttachment};
use crate::error::{Result, chain};
use crate::kinds::prune::is_locked;
use crate::kinds::stage::is_whole;
use crate::observe::Silent;
use crate::reading::unread::of_way;
use crate::report::Report;
use crate::session::SessionLog;

/// A damaged segment that no version needs.
pub(super) struct Unneeded {
    pub number: SegmentNumber,
    /// What is recorded of it, if anything is.
    recorded: Option<(SegmentId, u64)>,
    /// Why it is not needed, and what is wrong with it.
    pub why: String,
    /// Whether it can go: nothing of it can be read, or it is known whose it was.
    pub goes: bool,
}

impl Cell {
    /// Records what lies on a medium and is not recorded, wherever among the others, as an import does.
    pub(super) fn record_all_unknown(&self, medium: &OpenMedium) -> Result<()> {
        let recorded = self.recorded_on(medium.header().medium)?;
        let unknown = medium.segments()?.into_iter().filter(|n| !recorded.contains(n)).collect();
        // That something of it is damaged is what the repair finds.
        self.record_numbers(medium, unknown, &SessionLog::new(&Silent))
    }
}

impl Cell {
    /// Segments of a medium of which nobody needs that they are whole, and why: they were written anew behind it, or lie on a tape,
    /// from which nothing is removed, and no version needs them.
    pub(crate) fn needless_on(&self, id: MediumId) -> Result<HashMap<SegmentNumber, String>> {
        let mut passed = HashMap::new();
        if self.idb.medium(id)?.is_some() && self.is_on_tape(id)? {
            let given_up = self.given_up()?;
            let is_gone = |s: &&ExpiredSegment| s.versions.iter().all(|v| given_up.contains(v));
            let expired = self.idb.expired_segments()?;
            for segment in expired.iter().filter(|s| s.medium == id).filter(is_gone) {
                let why = "no version needs it, and it goes when the tape is recycled";
                passed.insert(segment.number, why.to_owned());
            }
        }
        for (number, anew) in self.idb.replaced_on_medium(id)? {
            passed.insert(number, format!("it lies there anew as segment {}", anew.0));
        }
        Ok(passed)
    }
}

impl Repair<'_> {
    /// Damaged segments that are not among those that are needed, and damaged attachments.
    pub(super) fn unneeded(
        &self,
        medium: &OpenMedium,
        needed: &HashSet<SegmentNumber>,
    ) -> Result<(Vec<Unneeded>, Vec<DamagedAttachment>)> {
        let recorded = self.cell.idb.segments_of_medium(self.row.id)?;
        let recorded: HashMap<SegmentNumber, Segment> =
            recorded.into_iter().map(|s| (s.number, s)).collect();
        let (mut found, mut attachments) = (Vec::new(), Attached::default());
        for number in medium.segments()?.into_iter().filter(|n| !needed.contains(n)) {
            if self.stop.0.load(Relaxed) {
                break;
            }
            if let Ok(Some(of)) = medium.attachment(number) {
                attachments.read(medium, of);
                continue;
            }
            let judged = self.judged(medium, number, recorded.get(&number));
            // What was not read to its end is not damaged.
            found.extend(judged.filter(|_| !self.stop.0.load(Relaxed)));
        }
        Ok((found, attachments.lost()))
    }

    /// Writes damaged attachments once more, at the end of the tape. Whether all are whole again.
    pub(super) fn attach_anew(
        &self,
        damaged: &[DamagedAttachment],
        report: &mut Report,
    ) -> Result<bool> {
        let mut all = true;
        for DamagedAttachment { it, why } in damaged {
            let what = format!("{} {} of '{}'", it.attachment, it.number.0, self.row.label);
            // Held only as long as it is written: what is laid down for a backup of the database opens it as well.
            let medium = self.cell.open_known(&self.row, &self.address)?;
            let is_as_written = self.cell.refuse_changed(&self.address, &medium);
            let (code, text) = match is_as_written.and_then(|()| self.cell.attach_anew(&medium, it))
            {
                Ok(true) => {
                    (Code::Repaired, format!("it was written anew at the end of the tape: {why}"))
                }
                Ok(false) => (
                    Code::Damaged,
                    format!(
                        "{why}; it cannot be made again without a recovery key (`capstan idb recovery-key`)"
                    ),
                ),
                Err(e) => (Code::Damaged, format!("{why}; it was not written anew: {}", chain(&e))),
            };
            match code {
                Code::Repaired => report.notes.push(format!("{what}: {text}")),
                _ => all = false,
            }
            self.log.say(code, "media agent", &what, text);
        }
        Ok(all)
    }

    /// Removes them, as prune would; from a tape nothing is removed. Returns whether any stays that is to go sooner or later.
    pub(super) fn remove_unneeded(&self, unneeded: &[Unneeded]) -> Result<bool> {
        let (label, log) = (&self.row.label, self.log);
        for u in unneeded.iter().filter(|u| !u.goes) {
            log.say(Code::Damaged, "media agent", label, u.text("it stays"));
        }
        let stays = unneeded.iter().any(|u| !u.goes);
        let going: Vec<&Unneeded> = unneeded.iter().filter(|u| u.goes).collect();
        if going.is_empty() {
            return Ok(stays);
        }
        if self.address.is_sequential() {
            for u in going {
                let text = u.text("it goes when the tape is recycled");
                log.say(Code::Repaired, "media agent", label, text);
            }
            return Ok(stays);
        }
        let there = going.iter().map(|u| u.number).collect();
        let medium = self.row.id;
        let recorded = |u: &&&Unneeded| {
            let (segment, bytes) = u.recorded?;
            Some(ExpiredSegment { segment, medium, number: u.number, bytes, versions: Vec::new() })
        };
        let expired: Vec<ExpiredSegment> = going.iter().filter_map(|u| recorded(&u)).collect();
        let mut gone = self.give_up(&expired, &there)?;
        let unknown = going.iter().filter(|u| u.recorded.is_none()).map(|u| u.number);
        gone.extend(self.remove_unreadable(&unknown.collect::<Vec<_>>())?);
        for u in going.iter().filter(|u| gone.contains(&u.number)) {
            log.say(Code::Repaired, "media agent", label, u.text("it was removed"));
        }
        Ok(stays || going.iter().any(|u| !gone.contains(&u.number)))
    }

    /// Removes segments of which nothing can be read and the database knows nothing, but those that a lock covers. Returns the
    /// numbers of those that are gone.
    fn remove_unreadable(&self, numbers: &[SegmentNumber]) -> Result<Vec<SegmentNumber>> {
        let (cell, label, log) = (self.cell, &self.row.label, self.log);
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let held = cell.hold_medium_as_it_is(self.row.id)?;
        let (locks, now_us) = (held.medium().version_locks()?, cell.believed_us()?);
        let (locked, free): (Vec<_>, Vec<_>) =
            numbers.iter().copied().partition(|number| is_locked(&locks, *number, now_us));
        for number in locked {
            let text = format!("segment {} stays: a lock covers it", number.0);
            log.say(Code::Damaged, "media agent", label, text);
        }
        let (gone, failure) = held.remove_segments(&free);
        if let Some(e) = failure {
            let text = format!("damaged segments stay: {}", chain(&e));
            log.say(Code::DeviceFailed, "media agent", label, text);
        }
        Ok(gone)
    }
}

impl Unneeded {
    fn text(&self, what: &str) -> String {
        format!("segment {} was not needed and is damaged: {what}; {}", self.number.0, self.why)
    }
}

impl Repair<'_> {
    /// Reads a segment that no version needs; nothing, if it is whole.
    fn judged(
        &self,
        medium: &OpenMedium,
        number: SegmentNumber,
        recorded: Option<&Segment>,
    ) -> Option<Unneeded> {
        let read = self.cell.read_segment(medium, number).and_then(|reader| reader.scan());
        let (flaw, left) = match &read {
            // That tells nothing of it.
            Err(e) if of_way(e).is_some() => return None,
            // What its device does not give today it may give tomorrow.
            Err(e) => (
                chain(e),
                if matches!(e, ReadError::Format(_)) { Left::Nothing } else { Left::Unknown },
            ),
            Ok(read) => {
                let id =
                    recorded.map(|s| s.id).or(read.contents.header.as_ref().map(|h| h.segment));
                let flaw = match id {
                    Some(id) => is_whole(read, id).err()?,
                    None => "nothing of it can be read that says what it is".to_owned(),
                };
                let has_frames = read.contents.streams.iter().any(|s| !s.index.is_empty());
                (flaw, if has_frames { Left::Something } else { Left::Nothing })
            }
        };
        let way = "move its file elsewhere if nothing lacks";
        let (why, goes) = match (recorded, left) {
            (Some(_), _) => (format!("the versions that it was of have expired ({flaw})"), true),
            // Whose it is nobody can say, and a newer program may read it.
            (None, Left::Something) => (
                format!("it is not recorded, and some of its data can be read ({flaw}); {way}"),
                false,
            ),
            (None, Left::Unknown) => {
                (format!("it is not recorded, and cannot be read now ({flaw}); {way}"), false)
            }
            (None, Left::Nothing) if self.remove_unreadable => {
                (format!("it is not recorded, and none of its data can be read ({flaw})"), true)
            }
            (None, Left::Nothing) => (
                format!(
                    "it is not recorded, and none of its data can be read ({flaw}); --remove-unreadable removes it if nothing lacks"
                ),
                false,
            ),
        };
        let recorded = recorded.map(|s| (s.id, s.bytes));
        Some(Unneeded { number, recorded, why, goes })
    }
}

/// What can be read of a damaged segment's data.
enum Left {
    Something,
    Nothing,
    /// It is not known.
    Unknown,
}
