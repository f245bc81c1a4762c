//! A verification's work: every medium is read to its end, segment by segment.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::keys::VersionKeys;
use capstan_catalog::places::SegmentPlace;
use capstan_engine::message::{Code, shell_word};
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::id::{MediumId, SegmentId, SegmentNumber, StreamId};
use capstan_medium::OpenMedium;
use capstan_port::media::read::error::ReadError;
use capstan_port::media::read::findings::{Damage as Flaw, Scan};

use crate::Cell;
use crate::drives::attached::{Attached, DamagedAttachment};
use crate::error::{CellError, Result, chain};
use crate::kinds::verify::damage::Damage;
use crate::kinds::verify::judge;
use crate::kinds::verify::part::{Part, Planned, Verified};
use crate::observe::Stop;
use crate::reading::frame_keys::frame_keys;
use crate::reading::known::media::all_away;
use crate::reading::names_there::rows_lacking_in_copy;
use crate::reading::unread::{code_of_device, code_of_read, of_way, of_way_to_device};
use crate::reading::version::VersionView;
use crate::session::{SessionLog, now_us};

/// What reads media, and what it found so far.
pub(super) struct Verification<'a> {
    cell: &'a Cell,
    log: &'a SessionLog<'a>,
    stop: &'a Stop,
    meters: &'a Meters,
    lap: Lap,
    keys: &'a VersionKeys,
    /// The streams of the version; none where a medium is read by itself.
    streams: Option<HashSet<StreamId>>,
    /// Whether a medium is read by itself.
    is_medium: bool,
    pub damage: Damage<'a>,
    /// The media that were read.
    pub parts: Vec<Part>,
    /// Labels of those that are at hand and cannot be read.
    pub unreadable: Vec<String>,
    /// Files that were found.
    pub files: u64,
    /// Frames that were not opened, as there was no key.
    pub closed: u64,
}

/// What was found on one medium.
#[derive(Default)]
struct OfMedium {
    read: Verified,
    attachments: Attached,
    /// How much could not be read now, which is no fault of the medium.
    unread: u64,
}

impl<'a> Verification<'a> {
    /// Of that version, or of media by themselves.
    pub fn new(
        cell: &'a Cell,
        (log, stop, meters): (&'a SessionLog<'a>, &'a Stop, &'a Meters),
        keys: &'a VersionKeys,
        view: Option<&'a VersionView<'a>>,
    ) -> Self {
        Self {
            cell,
            log,
            stop,
            meters,
            lap: Lap::start(),
            keys,
            streams: view.map(streams_of),
            is_medium: view.is_none(),
            damage: Damage::new(view, keys),
            parts: Vec::new(),
            unreadable: Vec::new(),
            files: 0,
            closed: 0,
        }
    }

    /// Reads all that was planned.
    pub fn all(
        &mut self,
        planned: Vec<Planned>,
        view: Option<&VersionView<'_>>,
        name: &str,
    ) -> Result<()> {
        let mut failed: Vec<(MediumId, CellError)> = Vec::new();
        for planned in planned {
            if self.is_stopped() && !self.is_nothing_read() {
                break;
            }
            // A tape is loaded when it is its turn, and not before.
            let (id, recorded) = (planned.medium(), planned.recorded());
            match planned.open(view, name, self.log) {
                Ok(part) => {
                    self.mark(Stage::Device);
                    self.part(part);
                }
                Err(e @ CellError::Unreadable { .. }) => {
                    self.damage.take_unopened(self.cell, id, &recorded);
                    let label = self.cell.label_of(id)?;
                    self.log.say(Code::Damaged, "media agent", &label, chain(&e));
                    self.unreadable.push(label);
                }
                Err(e) => failed.push((id, e)),
            }
        }
        self.without(view, failed)
    }

    fn is_stopped(&self) -> bool {
        self.stop.0.load(Relaxed)
    }

    fn is_nothing_read(&self) -> bool {
        self.parts.is_empty() && self.unreadable.is_empty()
    }

    fn mark(&mut self, stage: Stage) {
        self.lap.busy(self.meters.of(stage));
    }

    /// Says of media of a version that could not be opened, as far as no other has what they have. That they are away is said of the
    /// files. An error where there is nothing at all to be read.
    fn without(
        &self,
        view: Option<&VersionView<'_>>,
        failed: Vec<(MediumId, CellError)>,
    ) -> Result<()> {
        if self.is_nothing_read() {
            let failed = failed.into_iter().map(|(_, e)| e).collect();
            return all_away(self.cell, failed).map_or(Ok(()), Err);
        }
        let is_read = |id: MediumId| self.parts.iter().any(|p| p.medium.header().medium == id);
        for (id, e) in failed.iter().filter(|(_, e)| e.away().is_none()) {
            let is_lacking = |segment: &SegmentPlace| {
                let places = segment.places();
                places.iter().any(|at| at.1 == *id) && !places.iter().any(|at| is_read(at.1))
            };
            if view.is_some_and(|view| view.segments.iter().any(is_lacking)) {
                let label = self.cell.label_of(*id)?;
                self.log.say(Code::DeviceFailed, "cell", &label, chain(e));
            }
        }
        Ok(())
    }

    /// Reads a medium, and records what was found of it.
    fn part(&mut self, part: Part) {
        part.say_header_problem(self.log);
        let errors = self.log.error_count();
        part.say_missing(self.log);
        let mut of = OfMedium::default();
        for number in &part.segments {
            if self.is_stopped() || !self.segment(&part, *number, &mut of) {
                break;
            }
        }
        if !self.is_stopped() {
            for unread in of.attachments.unread() {
                of.unread += 1;
                self.say_unread(unread.code, &unread.what, &unread.why);
            }
            say_lost(of.attachments, &part.medium, self.log);
        }
        let whole = self.is_medium && of.unread == 0 && !self.is_stopped();
        let damaged =
            self.log.error_count() > errors + of.unread || part.medium.header_problem().is_some();
        if let Err(e) = self.cell.record_verified(&part, &of.read, damaged, whole) {
            self.log.say(Code::Adapted, "cell", part.medium.path(), chain(&e));
        }
        self.cell.done_reading(part.medium.header().medium);
        self.parts.push(part);
    }

    fn say_unread(&self, code: Code, what: &str, why: &str) {
        self.log.say(code, "media agent", what, format!("it could not be read now: {why}"));
    }

    /// Reads a segment, or an attachment. Returns `false` where it was stopped before its end.
    fn segment(&mut self, part: &Part, number: SegmentNumber, of: &mut OfMedium) -> bool {
        if let Ok(Some(attached)) = part.medium.attachment(number) {
            let bytes = of.attachments.read(&part.medium, attached);
            self.meters.of(Stage::Device).bytes(bytes);
            self.mark(Stage::Device);
            return true;
        }
        let what = format!("segment {} of {}", number.0, part.medium.path());
        // What nobody reads while all else is whole: parity, and further copies.
        if let Err(e) = part.medium.check_spare(number) {
            match of_way_to_device(&e) {
                Some(why) => {
                    of.unread += 1;
                    self.say_unread(code_of_device(&e), &what, &why);
                }
                None => self.log.say(Code::Damaged, "media agent", &what, chain(&e)),
            }
        }
        let before = self.log.error_count();
        let scanned = self.scan(part, number);
        self.mark(Stage::Device);
        if let Err(e) = &scanned
            && !self.is_stopped()
            && let Some(why) = of_way(e)
        {
            self.damage.take_unread(self.cell, part, number, &why);
            of.unread += 1;
            self.say_unread(code_of_read(e), &what, &why);
            return true;
        }
        let is_passed = part.passed.contains_key(&number);
        match scanned {
            // It was not read to its end.
            Err(_) if self.is_stopped() => return false,
            Ok(scan) if is_passed && !scan.damage.is_empty() => {
                self.meters.of(Stage::Device).bytes(scan.bytes());
                part.say_passed(number, self.log);
            }
            Err(_) if is_passed => part.say_passed(number, self.log),
            Ok(mut scan) => {
                self.meters.of(Stage::Device).bytes(scan.bytes());
                scan.damage.extend(lacking(&scan, self.keys, &what));
                let streams = &self.streams;
                let asked = |id| streams.as_ref().is_none_or(|streams| streams.contains(&id));
                self.files += judge::segment(&scan, self.keys, &asked, self.log);
                of.read.note(part, number, scan.damage.is_empty());
                self.damage.take(self.cell, part, number, Ok(scan));
            }
            Err(e) => {
                of.read.note(part, number, false);
                self.damage.take(self.cell, part, number, Err(chain(&e)));
                self.log.say(Code::Damaged, "media agent", &what, chain(&e));
            }
        }
        if self.is_medium && self.log.error_count() > before {
            part.say_unknown(number, self.log);
        }
        self.mark(Stage::Cpu);
        true
    }

    /// Reads a segment to its end, and opens its frames as far as there are keys.
    fn scan(&mut self, part: &Part, number: SegmentNumber) -> std::result::Result<Scan, ReadError> {
        let reader = self.cell.read_segment(&part.medium, number);
        let scanned = reader.and_then(|reader| reader.scan_with(&frame_keys(self.keys)));
        self.closed += scanned.as_ref().map_or(0, |scan| scan.closed);
        scanned
    }
}

impl Cell {
    /// Records what was found out of a medium.
    fn record_verified(
        &self,
        part: &Part,
        read: &Verified,
        damaged: bool,
        whole: bool,
    ) -> Result<()> {
        let id = part.medium.header().medium;
        self.idb.clear_damage_of(id, &read.sound)?;
        match (damaged, whole) {
            (true, _) => {
                let lacking = self.lacking_as_changed(&part.medium)?;
                let is_damaged = |segment: &&SegmentId| !lacking.contains(segment);
                let hurt: Vec<_> = read.damaged.iter().filter(is_damaged).copied().collect();
                // Where no segment is named, something else of the medium is damaged.
                if !hurt.is_empty() || read.damaged.is_empty() {
                    self.idb.put_damage(id, &hurt, now_us())?;
                }
            }
            (false, true) => self.note_sound(id, false)?,
            (false, false) => {}
        }
        Ok(())
    }
}

/// What a copy lacks of its original, where that is no damage of its own: it is not whole, however well it is read.
fn lacking(scan: &Scan, keys: &VersionKeys, what: &str) -> Option<Flaw> {
    let contents = scan.catalog.as_ref().unwrap_or(&scan.contents);
    let lacks = contents.end.as_ref().map_or(0, |end| end.lacks);
    let text = match scan.damage.is_empty() {
        false => return None,
        true if lacks > 0 => format!("it is a copy that lacks {lacks} frames of its original"),
        true => match rows_lacking_in_copy(contents, || keys) {
            0 => return None,
            rows => format!(
                "it is a copy that has {rows} names fewer than its end record counts: what it was copied from was damaged"
            ),
        },
    };
    Some(Flaw { what: format!("{what}: {text}"), range: None, batch: None })
}

/// Says what of a tape's attachments is damaged, and in no later one.
fn say_lost(attachments: Attached, medium: &OpenMedium, log: &SessionLog<'_>) {
    for DamagedAttachment { it, why } in attachments.lost() {
        let what = format!("{} {} of {}", it.attachment, it.number.0, medium.path());
        let label = shell_word(&medium.header().label);
        let text =
            format!("{why}; `capstan media repair {label}` writes it anew at the end of the tape");
        log.say(Code::Damaged, "media agent", &what, text);
    }
}

/// The streams of a version and what it builds on: others may lie in the same segments.
fn streams_of(view: &VersionView<'_>) -> HashSet<StreamId> {
    let spans = view.segments.iter().flat_map(|place| &place.spans);
    spans.map(|(stream, ..)| *stream).collect()
}
