//! What is not whole is written anew, read back, and takes the place of what was damaged.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::keys::VersionKeys;
use capstan_engine::frames::Place;
use capstan_engine::message::Code;
use capstan_engine::meter::Stage;
use capstan_format::catalog::Contents;
use capstan_format::id::{SegmentId, SegmentNumber};
use capstan_idb::ExpiredSegment;
use capstan_medium::OpenMedium;

use super::find::{Broken, Found, data_of};
use super::{Outcome, Repair, full_way};
use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{RepairRefusal, Result, chain};
use crate::kinds::copy::{Work, add_ends};
use crate::kinds::prune::remove_from;
use crate::kinds::stage::{has_all_of, is_whole};
use crate::observe::Silent;
use crate::reading::frame_keys::frame_keys;
use crate::reading::losses::{Lost, Range, unreadable};
use crate::reading::version::VersionView;
use crate::report::Report;
use crate::request::Encrypt;
use crate::supply::Wanted;
use crate::supply::tapes::Supply;
use crate::versions::protect::say_not_locked;

impl Repair<'_> {
    /// Writes what can be mended anew; whether that failed, and the bytes that were written.
    pub fn write_anew(
        &self,
        views: &mut [VersionView<'_>],
        broken: &[Broken],
        report: &mut Report,
    ) -> Result<(bool, u64)> {
        let cell = self.cell;
        let is_encrypted = cell.drive_key_pairs(self.row.id)?.is_some();
        let by_drive = ByDrive::of_copy(is_encrypted.then_some(Encrypt::Drive));
        let on_tape = self.address.is_sequential();
        if on_tape {
            // A tape that is written cannot be read meanwhile.
            views.iter_mut().for_each(|view| view.keep_places(&|id| id != self.row.id));
        }
        let kept = cell.levels_of_copies(views, None)?;
        let mut works: Vec<Work<'_>> = Vec::new();
        for b in broken.iter().filter(|b| b.helps) {
            let view = &views[b.at.0];
            let place = &view.segments[b.at.1];
            if on_tape && place.places().is_empty() {
                let text = format!(
                    "segment {} cannot be mended: nothing else at hand has it, and a tape cannot be read while it is written; \
                     copy what is left of it elsewhere",
                    b.number()
                );
                self.log.say(Code::Damaged, "media agent", &self.row.label, text);
                continue;
            }
            works.push(Work::of(view, b.at.1 as u32));
        }
        if works.is_empty() {
            return Ok((false, 0));
        }
        add_ends(cell, &self.versions, &mut works, &|id| id == self.row.id)?;
        // That its end is not as it was last written is what may have to be mended.
        let wanted = Wanted { by_drive, as_it_is: !on_tape, ..Wanted::default() };
        if !on_tape {
            // Much was read meanwhile, and another disk may be mounted there now.
            let there = cell.open_known(&self.row, &self.address)?;
            cell.changed_to_mend(&self.address, &there, self.as_it_is)?;
        }
        let member = cell.open_device(&self.address, &wanted, &Silent)?;
        if member.medium.medium != self.row.id {
            return Err(RepairRefusal::AnotherThere {
                device: self.address.clone(),
                found: member.medium.label.clone(),
                wanted: self.row.label.clone(),
            }
            .into());
        }
        let supply = Supply::of(None, [&self.address]).encrypted(by_drive);
        let run = cell.copy_works(&works, member, supply, kept, &self.meters, self.log, self.stop);
        report.replicas.extend(run.replicas);
        if let Err(e) = &run.finished {
            let way = if e.is_full() {
                format!("; {}", full_way(&self.row.label))
            } else {
                String::new()
            };
            let text = format!("{}{way}", chain(e));
            self.log.say(Code::DeviceFailed, "media agent", &self.row.label, text);
        }
        Ok((run.finished.is_err() || run.closed, run.committed))
    }

    /// Reads back what was written, and lets it take the place of what is damaged.
    pub fn replace(
        &self,
        views: &[VersionView<'_>],
        found: &Found,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let (cell, row, log) = (self.cell, &self.row, self.log);
        let tried: Vec<&Broken> = found.broken.iter().filter(|b| b.helps).collect();
        if tried.is_empty() && found.stale.is_empty() {
            return Ok(());
        }
        let medium = cell.open_known(row, &self.address)?;
        cell.open_drive_key(medium.header())?;
        let mut fresh = Vec::new();
        for version in &self.versions {
            fresh.push(VersionView::open_alone(cell, version.clone())?);
        }
        let mut given_up = Vec::new();
        for (at, bytes) in &found.stale {
            given_up.push(self.expired(*at, *bytes)?);
        }
        for b in tried {
            if self.stop.0.load(Relaxed) {
                break;
            }
            let (view, place) = (&fresh[b.at.0], &views[b.at.0].segments[b.at.1]);
            let now = view.segments.iter().find(|p| p.segment == place.segment);
            let is_new = |at: &Place| at.1 == row.id && !b.places.contains(at);
            let Some(new) = now.and_then(|now| now.places().into_iter().find(is_new)) else {
                continue;
            };
            self.meters.of(Stage::Source).bytes(place.bytes);
            let original = view.contents(now.unwrap_or(place)).ok();
            if let Err(why) =
                read_back(cell, &medium, new, original.as_deref(), &place.spans, &b.lost)
            {
                let text = format!(
                    "segment {} was written anew as segment {} and is not whole: {why}; the damaged one stays",
                    b.number(),
                    new.2.0
                );
                log.say(Code::Damaged, "media agent", &row.label, text);
                continue;
            }
            if b.is_to_be_had() {
                outcome.whole += 1;
                let text = format!(
                    "segment {} lies there anew as segment {}, which was read back; it was damaged: {}",
                    b.number(),
                    new.2.0,
                    b.why
                );
                log.say(Code::Repaired, "media agent", &row.label, text);
                for at in &b.places {
                    given_up.push(self.expired(*at, place.bytes)?);
                }
            }
        }
        if let Err(e) = cell.lock_on(&self.versions, &[row.id]) {
            // What is locked stays locked where it is damaged.
            say_not_locked(log, &row.label, &e);
            return Ok(());
        }
        if !self.address.is_sequential() {
            let there: HashSet<SegmentNumber> = medium.segments()?.into_iter().collect();
            drop(medium);
            self.give_up(&given_up, &there)?;
        }
        Ok(())
    }

    fn expired(&self, (segment, medium, number): Place, bytes: u64) -> Result<ExpiredSegment> {
        let versions = self.cell.idb.versions_in_segments(&[segment])?;
        Ok(ExpiredSegment { segment, medium, number, bytes, versions })
    }

    /// Removes damaged segments that are not needed on this medium any more. Returns the numbers of those that are gone.
    pub fn give_up(
        &self,
        given_up: &[ExpiredSegment],
        there: &HashSet<SegmentNumber>,
    ) -> Result<HashSet<SegmentNumber>> {
        let (cell, label, log) = (self.cell, &self.row.label, self.log);
        if given_up.is_empty() {
            return Ok(HashSet::new());
        }
        if let Err(e) = cell.refuse_read(self.row.id) {
            let text = format!("damaged segments stay, and are read last: {}", chain(&e));
            log.say(Code::Adapted, "cell", label, text);
            return Ok(HashSet::new());
        }
        let held = cell.hold_medium_as_it_is(self.row.id)?;
        let present: Vec<&ExpiredSegment> =
            given_up.iter().filter(|s| there.contains(&s.number)).collect();
        let swept = remove_from(&held, &present, cell.believed_us()?);
        let is_gone =
            |s: &&ExpiredSegment| !there.contains(&s.number) || swept.gone.contains(&s.number);
        let gone: Vec<_> = given_up.iter().filter(is_gone).collect();
        let removed: Vec<(SegmentId, _)> = gone.iter().map(|s| (s.segment, s.medium)).collect();
        // No version goes by this, and no history.
        cell.idb.forget(&removed, &[], i64::MIN)?;
        if let Some((why, failed)) = swept.stays {
            let code = if failed { Code::DeviceFailed } else { Code::Adapted };
            let text = format!("damaged segments stay, and are read last: {why}");
            log.say(code, "media agent", label, text);
        }
        Ok(gone.iter().map(|s| s.number).collect())
    }
}

/// Reads a new segment, and holds it against what it is a copy of; what was `lost` before may lack.
fn read_back(
    cell: &Cell,
    medium: &OpenMedium,
    (segment, _, number): Place,
    original: Option<&Contents>,
    spans: &[Range],
    lost: &Lost,
) -> std::result::Result<(), String> {
    let reader = cell.read_segment(medium, number).map_err(|e| chain(&e))?;
    let read = reader.scan().map_err(|e| chain(&e))?;
    let all = lost.is_empty();
    if all {
        is_whole(&read, segment)?;
        if let Some(original) = original {
            has_all_of(&read.contents, original)?;
        }
    }
    let keys = VersionKeys::default();
    let spans = data_of(Some(&read.contents), spans);
    let lacks =
        unreadable(&*reader, &read.contents, Some(&read.contents), &spans, &frame_keys(&keys))
            .map_err(|e| chain(&e))?;
    match lacks.bytes() > lost.and(&lacks).bytes() {
        true => Err("it lacks something that can be had".to_owned()),
        false => Ok(()),
    }
}
