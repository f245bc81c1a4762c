//! Making a medium whole again: segments of which something is damaged or missing are written anew on it, in new segments, from
//! themselves and from wherever what they lack is whole, and read back. What was damaged goes from a directory when that is done,
//! and is read last from then on where it stays, as on tape. Whatever is cut short can be done again.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use capstan_devices::address::Address;
use capstan_devices::file::FileMedium;
use capstan_devices::open;
use capstan_engine::message::Code;
use capstan_engine::meter::{Meters, Stage};
use capstan_format::id::{MediumId, SegmentId, SegmentNumber, SessionId};
use capstan_idb::{ExpiredSegment, Medium, Status, Version};
use capstan_media_agent::reader::{Contents, SegmentReader};
use capstan_media_agent::scan::scan;

use crate::Cell;
use crate::at_hand::not_there;
use crate::backup::Wanted;
use crate::copy::{Work, add_ends};
use crate::drive_key::ByDrive;
use crate::error::{CellError, Result, chain};
use crate::hold::wanted;
use crate::judge::{Frames, Losses, Named};
use crate::losses::{Lost, Range, unreadable};
use crate::observe::{Observer, Silent, Stop};
use crate::places::Place;
use crate::protect::say_not_locked;
use crate::prune::remove_from;
use crate::report::Report;
use crate::request::Encrypt;
use crate::session::{Ears, begun, host, now_us, peak_rss, rfc3339};
use crate::stage::{has_all_of, is_whole};
use crate::tapes::Supply;
use crate::transfers::{Moved, watched};
use crate::version::{VersionKeys, VersionView};

/// The kind of session.
const REPAIR: &str = "repair";

/// A medium that is to be made whole again.
#[derive(Debug, Clone, Default)]
pub struct RepairRequest {
    /// Its label, the begin of its id, or its device.
    pub medium: String,
    /// The only medium from which what it lacks is taken, if one is named; else all that are at hand.
    pub from: Option<String>,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// A segment that is not whole on the medium.
struct Broken {
    /// Which of the views, and which of its segments.
    at: (usize, usize),
    /// Its places on the medium, none of them whole.
    places: Vec<Place>,
    /// What is wrong there.
    why: String,
    /// What none of its places at hand has.
    lost: Lost,
    /// Whether writing it anew would gain something.
    helps: bool,
}

impl Broken {
    fn number(&self) -> u32 {
        self.places.last().map_or(0, |(_, _, number)| number.0)
    }
}

impl Cell {
    /// Makes a medium whole again, as far as what it lacks is whole anywhere at hand.
    pub fn media_repair(
        &self,
        request: &RepairRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let (begun_at, started_us) = (Instant::now(), now_us());
        let ears = Ears::new(observer);
        let row = self.find_medium(&request.medium)?;
        self.refuse_retired(row.id, &row.label)?;
        let from = request.from.as_ref().map(|from| self.find_medium(from)).transpose()?;
        if from.as_ref().is_some_and(|from| from.id == row.id) {
            return Err(CellError::BadInput(format!(
                "'{}' cannot be repaired from itself; name another medium with --from, or none",
                row.label
            )));
        }
        let address: Address = row.device.parse()?;
        let medium =
            open::known(&address, wanted(&row)).map_err(|e| not_there(&self.idb, e, &row))?;
        self.open_drive_key(medium.header())?;
        let mut versions = Vec::new();
        for id in self.idb.versions_on_medium(row.id)? {
            versions.extend(self.idb.version(id)?);
        }
        versions.sort_by_key(|v: &Version| (v.created_us, v.id));
        if let Some(running) = versions.iter().find(|v| v.status == Status::Running) {
            return Err(CellError::BadInput(format!(
                "a session that runs writes version {} to medium '{}'; repair it when that is done",
                running.id.short(),
                row.label
            )));
        }
        if !request.dry_run {
            self.refuse_read(row.id)?;
        }
        let ids: Vec<_> = versions.iter().map(|v| v.id).collect();
        let reading = self.hold_versions(&ids)?;
        let source = |id: MediumId| id == row.id || from.as_ref().is_none_or(|from| from.id == id);
        let mut views = Vec::new();
        for version in &versions {
            let mut view = VersionView::open_alone(self, version.clone())?;
            view.keep_places(&source);
            self.open_drive_keys(&view)?;
            views.push(view);
        }
        let meters = Arc::new(Meters::default());
        let broken = self.broken(&row, &medium, &views, &meters, &ears, stop);
        drop(medium);
        let mut report = Report {
            name: row.label.clone(),
            host: host(),
            method: REPAIR.to_owned(),
            start: rfc3339(started_us),
            media: vec![row.label.clone()],
            ..Report::default()
        };
        let mut session = None;
        let mut failed = false;
        let mut written = 0;
        if request.dry_run {
            report.method = "dry run".to_owned();
            for b in broken.iter().filter(|b| b.helps) {
                let text = format!("segment {} would be written anew: {}", b.number(), b.why);
                report.notes.push(text);
            }
        } else if broken.iter().any(|b| b.helps) && !stop.0.load(Relaxed) {
            let id = SessionId(self.new_id()?);
            self.idb.begin_session(&begun(id, REPAIR, row.device.clone(), started_us), None)?;
            session = Some(id);
            let run = self.write_anew(
                &row,
                &address,
                &versions,
                &mut views,
                &broken,
                &meters,
                &ears,
                stop,
                &mut report,
            );
            match run {
                Ok(done) => (failed, written) = (done.0, done.1),
                Err(e) => {
                    failed = true;
                    ears.say(Code::DeviceFailed, "cell", &row.label, chain(&e));
                }
            }
        }
        // Others may have begun to read meanwhile: what they read stays then.
        drop(reading);
        let mut whole = 0;
        if !request.dry_run && !failed && !stop.0.load(Relaxed) {
            whole = self.replace(&row, &versions, &views, &broken, &meters, &ears, stop)?;
        }
        report.corrupt = self.name_lost(&views, &broken, &row, &ears);
        self.note_repaired(&row, &broken, whole, request.dry_run, stop, &mut report)?;
        if stop.0.load(Relaxed) {
            ears.stopped(&row.label);
        }
        let status = match stop.0.load(Relaxed) {
            _ if failed => Status::Failed,
            true => Status::Incomplete,
            false if ears.error_count() > 0 => Status::CompletedWithErrors,
            false => Status::Completed,
        };
        report.status = status.to_string();
        report.end = rfc3339(now_us());
        report.peak_rss_bytes = peak_rss();
        let moved = Moved {
            read: meters.of(Stage::Source).read().bytes,
            written,
            elapsed_s: begun_at.elapsed().as_secs_f64(),
        };
        moved.fill(&mut report, &meters, None);
        ears.fill(&mut report);
        match session {
            Some(id) => {
                report.session = id.to_string();
                self.record_moved(id, status, &report, None)?;
            }
            None if request.dry_run => {}
            None => self.record(&mut report, REPAIR, started_us, status)?,
        }
        Ok(report)
    }

    /// The segments that are recorded of a medium and are not whole there.
    fn broken(
        &self,
        row: &Medium,
        medium: &FileMedium,
        views: &[VersionView<'_>],
        meters: &Meters,
        ears: &Ears<'_>,
        stop: &Stop,
    ) -> Vec<Broken> {
        let mut known: HashSet<SegmentId> = HashSet::new();
        let mut all = Vec::new();
        for (v, view) in views.iter().enumerate() {
            for (s, place) in view.segments.iter().enumerate() {
                let here: Vec<Place> =
                    place.places().into_iter().filter(|at| at.1 == row.id).collect();
                if !here.is_empty() && known.insert(place.segment) {
                    all.push(((v, s), here));
                }
            }
        }
        // In the order in which they lie there.
        all.sort_by_key(|(_, here)| here.iter().map(|at| at.2).min());
        let total = all.iter().map(|((v, s), _)| views[*v].segments[*s].bytes).sum();
        let source = meters.of(Stage::Source);
        let (broken, _) = watched(meters, ears, total, || {
            let mut broken = Vec::new();
            for ((v, s), places) in all {
                if stop.0.load(Relaxed) {
                    break;
                }
                let view = &views[v];
                source.bytes(view.segments[s].bytes);
                let mut flaws = Vec::new();
                for at in &places {
                    flaws.extend(self.flaw(view, medium, *at));
                }
                // What was mended before lies there twice; one of them is whole.
                if flaws.len() == places.len() {
                    let why = flaws.into_iter().next_back().unwrap_or_default();
                    broken.push(self.examined(view, (v, s), places, why));
                }
            }
            broken
        });
        broken
    }

    /// What is wrong with a segment at a place, if anything is.
    fn flaw(&self, view: &VersionView<'_>, medium: &FileMedium, at: Place) -> Option<String> {
        let (segment, id, number) = at;
        let on_tape = view.is_sequential(id).unwrap_or(false);
        if !on_tape && medium.segment_at(number).is_some_and(|found| found != segment) {
            return Some("another segment lies in its place".to_owned());
        }
        if let Err(e) = medium.check_spare(number) {
            return Some(chain(&e));
        }
        match SegmentReader::open(medium, number).and_then(|reader| scan(&reader)) {
            Ok(read) => is_whole(&read, segment).err(),
            Err(e) => Some(chain(&e)),
        }
    }

    /// What of a segment that is not whole can be had.
    fn examined(
        &self,
        view: &VersionView<'_>,
        at: (usize, usize),
        places: Vec<Place>,
        why: String,
    ) -> Broken {
        let place = &view.segments[at.1];
        let spans = data_of(view.contents(place).ok().as_deref(), &place.spans);
        let keys = VersionKeys::default();
        let lost_at = |at: Place| match view.open_place(place, at) {
            Ok((reader, layout)) => {
                unreadable(&reader, &layout, None, &spans, &mut Frames::new(&keys))
            }
            Err(_) => Lost::all(&spans),
        };
        let all = Lost::all(&spans);
        let here = places.iter().fold(all, |lost, at| lost.and(&lost_at(*at)));
        let mut lost = here.clone();
        for other in place.places().into_iter().filter(|other| !places.contains(other)) {
            if lost.is_empty() {
                break;
            }
            lost = lost.and(&lost_at(other));
        }
        // Where data are lost and nobody has them, a new segment would have no more than the damaged one.
        let helps = here.is_empty() || lost.bytes() < here.bytes();
        Broken { at, places, why, lost, helps }
    }

    /// Writes what can be mended anew; whether that failed, and the bytes that were written.
    #[expect(clippy::too_many_arguments, reason = "what a session has in hand")]
    fn write_anew(
        &self,
        row: &Medium,
        address: &Address,
        versions: &[Version],
        views: &mut [VersionView<'_>],
        broken: &[Broken],
        meters: &Arc<Meters>,
        ears: &Ears<'_>,
        stop: &Stop,
        report: &mut Report,
    ) -> Result<(bool, u64)> {
        let is_encrypted = self.drive_key_pairs(row.id)?.is_some();
        let by_drive = ByDrive::of_copy(is_encrypted.then_some(Encrypt::Drive));
        let on_tape = address.is_sequential();
        if on_tape {
            // A tape that is written cannot be read meanwhile.
            views.iter_mut().for_each(|view| view.keep_places(&|id| id != row.id));
        }
        let kept = self.levels_of_copies(views, None)?;
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
                ears.say(Code::Damaged, "media agent", &row.label, text);
                continue;
            }
            works.push(Work::of(view, place));
        }
        if works.is_empty() {
            return Ok((false, 0));
        }
        add_ends(self, versions, &mut works, &|id| id == row.id)?;
        // That its end is not as it was last written is what may have to be mended.
        let wanted = Wanted { by_drive, as_it_is: !on_tape, ..Wanted::default() };
        let member = self.open_device(address, &wanted, &Silent)?;
        if member.medium.medium != row.id {
            return Err(CellError::BadInput(format!(
                "{address} holds medium '{}', not '{}'",
                member.medium.label, row.label
            )));
        }
        let supply = Supply::of(None, [address]).encrypted(by_drive);
        let run = self.copy_works(&works, member, supply, kept, meters, ears, stop);
        report.replicas.extend(run.replicas);
        if let Err(e) = &run.finished {
            ears.say(Code::DeviceFailed, "media agent", &row.label, chain(e));
        }
        Ok((run.finished.is_err() || run.closed, run.committed))
    }

    /// Reads back what was written, and lets it take the place of what is damaged. Returns how many segments are whole again.
    #[expect(clippy::too_many_arguments, reason = "what a session has in hand")]
    fn replace(
        &self,
        row: &Medium,
        versions: &[Version],
        views: &[VersionView<'_>],
        broken: &[Broken],
        meters: &Meters,
        ears: &Ears<'_>,
        stop: &Stop,
    ) -> Result<usize> {
        let tried: Vec<&Broken> = broken.iter().filter(|b| b.helps).collect();
        if tried.is_empty() {
            return Ok(0);
        }
        let address: Address = row.device.parse()?;
        let medium =
            open::known(&address, wanted(row)).map_err(|e| not_there(&self.idb, e, row))?;
        self.open_drive_key(medium.header())?;
        let mut fresh = Vec::new();
        for version in versions {
            fresh.push(VersionView::open_alone(self, version.clone())?);
        }
        let mut given_up: Vec<ExpiredSegment> = Vec::new();
        let mut whole = 0;
        for b in tried {
            if stop.0.load(Relaxed) {
                break;
            }
            let (view, place) = (&fresh[b.at.0], &views[b.at.0].segments[b.at.1]);
            let now = view.segments.iter().find(|p| p.segment == place.segment);
            let is_new = |at: &Place| at.1 == row.id && !b.places.contains(at);
            let Some(new) = now.and_then(|now| now.places().into_iter().find(is_new)) else {
                continue;
            };
            meters.of(Stage::Source).bytes(place.bytes);
            let original = view.contents(now.unwrap_or(place)).ok();
            if let Err(why) = read_back(&medium, new, original.as_deref(), &place.spans, &b.lost) {
                let text = format!(
                    "segment {} was written anew as segment {} and is not whole: {why}; the damaged one stays",
                    b.number(),
                    new.2.0
                );
                ears.say(Code::Damaged, "media agent", &row.label, text);
                continue;
            }
            if b.lost.is_empty() {
                whole += 1;
                let text = format!(
                    "segment {} lies there anew as segment {}, which was read back; it was damaged: {}",
                    b.number(),
                    new.2.0,
                    b.why
                );
                ears.say(Code::Repaired, "media agent", &row.label, text);
                let versions = self.idb.versions_in_segments(&[place.segment])?;
                given_up.extend(b.places.iter().map(|(segment, medium, number)| ExpiredSegment {
                    segment: *segment,
                    medium: *medium,
                    number: *number,
                    bytes: place.bytes,
                    versions: versions.clone(),
                }));
            }
        }
        if let Err(e) = self.lock_on(versions, &[row.id]) {
            // What is locked stays locked where it is damaged.
            say_not_locked(ears, &row.label, &e);
            return Ok(whole);
        }
        if !address.is_sequential() {
            let there: HashSet<SegmentNumber> = medium.segments()?.into_iter().collect();
            drop(medium);
            self.give_up(row, &given_up, &there, ears)?;
        }
        Ok(whole)
    }

    /// Removes damaged segments of which a new one lies on the same medium.
    fn give_up(
        &self,
        row: &Medium,
        given_up: &[ExpiredSegment],
        there: &HashSet<SegmentNumber>,
        ears: &Ears<'_>,
    ) -> Result<()> {
        if given_up.is_empty() {
            return Ok(());
        }
        if let Err(e) = self.refuse_read(row.id) {
            let text = format!("damaged segments stay, and are read last: {}", chain(&e));
            ears.say(Code::Adapted, "cell", &row.label, text);
            return Ok(());
        }
        let held = self.hold_medium(row.id)?;
        let present: Vec<&ExpiredSegment> =
            given_up.iter().filter(|s| there.contains(&s.number)).collect();
        let swept = remove_from(&held, &present, now_us());
        let is_gone =
            |s: &&ExpiredSegment| !there.contains(&s.number) || swept.gone.contains(&s.number);
        let removed: Vec<_> =
            given_up.iter().filter(is_gone).map(|s| (s.segment, s.medium)).collect();
        // No version goes by this, and no history.
        self.idb.forget(&removed, &[], i64::MIN)?;
        if let Some((why, failed)) = swept.stays {
            let code = if failed { Code::DeviceFailed } else { Code::Adapted };
            let text = format!("damaged segments stay, and are read last: {why}");
            ears.say(code, "media agent", &row.label, text);
        }
        Ok(())
    }

    /// Says what is whole nowhere, and names the files that this costs, where their names can be read; returns how many they are.
    fn name_lost(
        &self,
        views: &[VersionView<'_>],
        broken: &[Broken],
        row: &Medium,
        ears: &Ears<'_>,
    ) -> u64 {
        let mut losses = Losses::default();
        for b in broken.iter().filter(|b| !b.lost.is_empty()) {
            let text = format!(
                "segment {} cannot be mended: what is damaged there ({}) is whole nowhere at hand",
                b.number(),
                b.why
            );
            ears.say(Code::Damaged, "media agent", &row.label, text);
            losses.damaged.extend(&b.lost);
        }
        if losses.is_empty() {
            return 0;
        }
        let mut named = Named::default();
        let mut sealed = false;
        let mut known: HashSet<SegmentId> = HashSet::new();
        for view in views {
            let mut keys = VersionKeys::default();
            if self.secrets.are_given()
                && let Ok(records) = self.key_records(view)
                && let Ok(opened) = self.open_keys_if_given(&records, false, &row.label, "repair")
            {
                keys = opened.keys;
            }
            // Rows of what was passed on lie in other segments.
            for place in view.segments.iter().filter(|place| known.insert(place.segment)) {
                if let Ok(contents) = view.contents(place) {
                    sealed |= named.take_rows(&contents, &keys, &losses).is_err();
                }
            }
        }
        if sealed {
            let text = "the names of some files that this costs are encrypted".to_owned();
            ears.say(Code::Damaged, "media agent", &row.label, text);
        }
        named.say(ears)
    }

    /// Puts into report and database what came of it.
    fn note_repaired(
        &self,
        row: &Medium,
        broken: &[Broken],
        whole: usize,
        dry_run: bool,
        stop: &Stop,
        report: &mut Report,
    ) -> Result<()> {
        let text = match (broken.len(), dry_run) {
            (0, _) => format!("nothing on '{}' is damaged or missing", row.label),
            (n, true) => format!(
                "of '{}' {n} segments are damaged or missing; {} can be mended",
                row.label,
                broken.iter().filter(|b| b.lost.is_empty()).count()
            ),
            (n, false) => format!(
                "of '{}' {n} segments were damaged or missing; {whole} are whole again",
                row.label
            ),
        };
        report.notes.push(text);
        if dry_run || stop.0.load(Relaxed) {
            return Ok(());
        }
        match whole == broken.len() {
            true => Ok(self.idb.clear_medium_damage(row.id)?),
            false => Ok(self.idb.add_medium_error(row.id, Some(now_us()))?),
        }
    }
}

/// What a segment must have of streams' data: not of those that a consolidation passed on in part.
fn data_of(contents: Option<&Contents>, spans: &[Range]) -> Vec<Range> {
    let ends = contents.and_then(|c| c.end.as_ref()).map(|end| &end.streams);
    let sparse: HashSet<_> =
        ends.into_iter().flatten().filter(|e| e.sparse).map(|e| e.stream).collect();
    spans.iter().copied().filter(|(stream, ..)| !sparse.contains(stream)).collect()
}

/// Reads a new segment, and holds it against what it is a copy of; what was `lost` before may lack.
fn read_back(
    medium: &FileMedium,
    (segment, _, number): Place,
    original: Option<&Contents>,
    spans: &[Range],
    lost: &Lost,
) -> std::result::Result<(), String> {
    let reader = SegmentReader::open(medium, number).map_err(|e| chain(&e))?;
    let read = scan(&reader).map_err(|e| chain(&e))?;
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
        unreadable(&reader, &read.contents, Some(&read.contents), &spans, &mut Frames::new(&keys));
    match lacks.bytes() > lost.and(&lacks).bytes() {
        true => Err("it lacks something that can be had".to_owned()),
        false => Ok(()),
    }
}
