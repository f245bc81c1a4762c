//! A verify session: reads everything, trusts nothing, and names the files that damage costs.

mod damage;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use capstan_devices::file::{FileMedium, HEADER_NAME};
use capstan_devices::open;
use capstan_devices::tape;
use capstan_engine::message::{Code, shell_word};
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_engine::verdict::{Flow, Lanes};
use capstan_format::id::{
    MediumId, ObjectId, SegmentId, SegmentNumber, SessionId, StreamId, VersionId,
};
use capstan_format::keys::KeyRecord;
use capstan_idb::{Session, Status, Totals};
use capstan_media_agent::reader::{ReadError, SegmentReader};
use capstan_media_agent::scan::scan_with;

use self::damage::Damage;
use crate::Cell;
use crate::at_hand::all_away;
use crate::attached::{Attached, DamagedAttachment};
use crate::error::{CellError, Result};
use crate::import::key_records;
use crate::judge::{self, Frames};
use crate::lease::Reading;
use crate::missing::MissingSegment;
use crate::observe::{Observer, Stop};
use crate::overview::Overview;
use crate::report::Report;
use crate::request::VerifyRequest;
use crate::restore::files_known;
use crate::session::{Ears, begun, host, now_us, peak_rss, rfc3339};
use crate::version::VersionView;
use crate::watch::{self, Watched};

/// What is to be read: a medium, and its segments.
struct Part {
    medium: FileMedium,
    segments: Vec<SegmentNumber>,
    /// Segments that are recorded and not there: of an array, too few of its members have them.
    missing: Vec<MissingSegment>,
    /// The segments that are recorded: of a medium that is read by itself all, else those that are read.
    recorded: HashMap<SegmentNumber, SegmentId>,
    /// Whether it is a tape that is read by itself.
    on_tape: bool,
    /// Segments of which nobody needs that they are whole, and why.
    passed: HashMap<SegmentNumber, String>,
}

/// The recorded segments that were read of a part.
#[derive(Default)]
struct Verified {
    sound: Vec<SegmentId>,
    damaged: Vec<SegmentId>,
}

impl Verified {
    fn note(&mut self, part: &Part, number: SegmentNumber, is_sound: bool) {
        let of = if is_sound { &mut self.sound } else { &mut self.damaged };
        of.extend(part.recorded.get(&number));
    }
}

/// What is to be verified, and held meanwhile.
struct Asked {
    name: String,
    parts: Vec<Part>,
    version: Option<VersionId>,
    /// What of media is not as it was last written.
    changed: Vec<String>,
    _reading: Option<Reading>,
}

impl Cell {
    /// Verifies a version or a medium.
    pub fn verify(
        &self,
        request: &VerifyRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let (begun, started_us) = (Instant::now(), now_us());
        let ears = Ears::new(observer);
        self.check_pages(&ears);
        let Asked { name, parts, version, changed, _reading } = self.parts(request)?;
        for text in changed {
            ears.say(Code::MediumChanged, "cell", &name, text);
        }
        let streams = version.map(|version| self.streams_of(version)).transpose()?;
        let asked: &dyn Fn(StreamId) -> bool =
            &|stream| streams.as_ref().is_none_or(|streams| streams.contains(&stream));
        let records = match version {
            // The database's may have been wrapped anew since the medium was written.
            Some(version) => VersionView::open(self, version)
                .and_then(|view| self.key_records(&view))
                .unwrap_or_else(|_| records_of(&parts)),
            None => records_of(&parts),
        };
        let opened = self.open_keys_if_given(&records, true, &name, "verify checksums only")?;
        let keys = opened.keys;
        let meters = Meters::default();
        let total: u64 = parts.iter().map(|part| self.bytes_of(part)).sum();
        let watched = Watched {
            meters: &meters,
            lanes: Lanes { streams: 1, processors: 1 },
            ladder: None,
            stages: (Stage::Device, Stage::Device),
            progress: &|p| {
                p.bytes = meters.of(Stage::Device).read().bytes;
                p.bytes_expected = total;
            },
            each: &|p| ears.progress(p),
        };
        let (mut files, mut closed) = (0, 0);
        let mut view = version.map(|version| VersionView::open(self, version)).transpose()?;
        if let Some(view) = &mut view {
            view.keys.extend(&keys);
        }
        if let (Some(version), Some(view)) = (version, &view) {
            let known = || files_known(view, &Overview::with_replaced(view).ok()?).ok();
            self.say_lost(version, &name, known, &ears)?;
        }
        let mut damage = Damage::new(view.as_ref(), &keys);
        for part in &parts {
            if let Some(problem) = part.medium.header_problem() {
                let what = format!("{}/{HEADER_NAME}", part.medium.path());
                let text = format!(
                    "{problem}; the header is taken from a segment, `capstan media repair {}` writes the file anew",
                    shell_word(part.medium.path())
                );
                ears.say(Code::Damaged, "media agent", &what, text);
            }
        }
        let ((), seen) = watch::watched(&watched, || {
            let mut lap = Lap::start();
            for part in &parts {
                let errors = ears.error_count();
                let mut read = Verified::default();
                part.say_missing(&ears);
                let mut attachments = Attached::default();
                for number in &part.segments {
                    if stop.0.load(Relaxed) {
                        break;
                    }
                    if let Ok(Some(of)) = part.medium.attachment(*number) {
                        let bytes = attachments.read(&part.medium, of);
                        meters.of(Stage::Device).bytes(bytes);
                        lap.busy(meters.of(Stage::Device));
                        continue;
                    }
                    // What nobody reads while all else is whole: parity, and further copies.
                    if let Err(e) = part.medium.check_spare(*number) {
                        let what = format!("segment {} of {}", number.0, part.medium.path());
                        ears.say(Code::Damaged, "media agent", &what, crate::error::chain(&e));
                    }
                    let passed = part.passed.get(number);
                    let before = ears.error_count();
                    let mut frames = Frames::new(&keys);
                    let scanned = SegmentReader::open(&part.medium, *number).and_then(|r| {
                        let mut open = |label: Option<&_>, stream, header: &_, stored: &[u8]| {
                            frames.check(label, stream, header, stored)
                        };
                        let scan = scan_with(&r, &mut open)?;
                        Ok((scan.bytes(), scan))
                    });
                    closed += frames.closed;
                    lap.busy(meters.of(Stage::Device));
                    match scanned {
                        // It was not read to its end.
                        Err(_) if stop.0.load(Relaxed) => break,
                        Ok((bytes, scan)) if passed.is_some() && !scan.damage.is_empty() => {
                            meters.of(Stage::Device).bytes(bytes);
                            part.say_passed(*number, &ears);
                        }
                        Err(_) if passed.is_some() => part.say_passed(*number, &ears),
                        Ok((bytes, scan)) => {
                            meters.of(Stage::Device).bytes(bytes);
                            files += judge::segment(&scan, &keys, asked, &ears);
                            read.note(part, *number, scan.damage.is_empty());
                            damage.take(self, part, *number, Ok(scan));
                        }
                        Err(e) => {
                            read.note(part, *number, false);
                            damage.take(self, part, *number, Err(crate::error::chain(&e)));
                            let what = format!("segment {} of {}", number.0, part.medium.path());
                            ears.say(Code::Damaged, "media agent", &what, crate::error::chain(&e));
                        }
                    }
                    if version.is_none() && ears.error_count() > before {
                        part.say_unknown(*number, &ears);
                    }
                    lap.busy(meters.of(Stage::Cpu));
                }
                if !stop.0.load(Relaxed) {
                    say_lost(attachments, &part.medium, &ears);
                }
                let whole = matches!(request, VerifyRequest::Medium(_)) && !stop.0.load(Relaxed);
                let damaged = ears.error_count() > errors || part.medium.header_problem().is_some();
                if let Err(e) = self.record_verified(part, &read, damaged, whole) {
                    ears.say(Code::Adapted, "cell", part.medium.path(), crate::error::chain(&e));
                }
                self.done_reading(part.medium.header().medium);
            }
        });
        if closed > 0 {
            let why = opened.why.map(|e| format!(" ({e})")).unwrap_or_default();
            let text = format!(
                "{closed} encrypted frames were not opened{why}: only their checksums were checked, and files in them \
                 cannot be named"
            );
            ears.say(Code::Sealed, "cell", &name, text);
        }
        let degraded =
            parts.iter().filter(|part| Self::say_problems(&part.medium, &ears)).count() > 0;
        let (mut corrupt, mut away) = (0, Vec::new());
        if !stop.0.load(Relaxed) {
            match (&view, version) {
                (Some(view), Some(version)) => {
                    match judge::version(view, &mut damage.losses(), &ears) {
                        Ok(passed) => {
                            (files, corrupt) = (passed.files, passed.lost);
                            away = passed.away.say(self, &ears)?;
                        }
                        Err(e) => self.say_unnamed(version, &name, closed > 0, &e, &ears)?,
                    }
                }
                _ => corrupt = damage.say(self, &parts, closed > 0, &ears),
            }
        }
        let status = match stop.0.load(Relaxed) {
            true => Status::Incomplete,
            false if ears.error_count() > 0 || degraded => Status::CompletedWithErrors,
            false => Status::Completed,
        };
        let elapsed = begun.elapsed().as_secs_f64();
        let bytes = meters.of(Stage::Device).read().bytes;
        let mut report = Report {
            session: String::new(),
            name,
            host: host(),
            method: "verify".to_owned(),
            status: status.to_string(),
            start: rfc3339(started_us),
            end: rfc3339(now_us()),
            files,
            corrupt,
            bytes_read: bytes,
            media: parts.iter().map(|p| p.medium.header().label.clone()).collect(),
            elapsed_s: elapsed,
            rate_mb_s: bytes as f64 / 1e6 / elapsed.max(1e-9),
            rate_sustained_mb_s: seen.as_ref().map_or(0.0, |s| s.sustained / 1e6),
            peak_rss_bytes: peak_rss(),
            ..Report::default()
        };
        report.set_away(away);
        if let Some(seen) = &seen {
            report.set_stages(&meters, seen.verdict, Flow::Restore);
        }
        report.set_drives_read(&tape::take_sessions());
        ears.fill(&mut report);
        let version = version.map(|id| self.idb.version(id)).transpose()?.flatten();
        self.record(&mut report, "verify", version.map(|v| v.object), started_us, status)?;
        Ok(report)
    }

    /// The streams of a version and what it builds on: others may lie in the same segments.
    fn streams_of(&self, version: VersionId) -> Result<HashSet<StreamId>> {
        let view = VersionView::open(self, version)?;
        let spans = view.segments.iter().flat_map(|place| &place.spans);
        Ok(spans.map(|(stream, ..)| *stream).collect())
    }

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
            (true, _) => self.idb.put_damage(id, &read.damaged, now_us())?,
            (false, true) => self.idb.clear_medium_damage(id, false)?,
            (false, false) => {}
        }
        Ok(())
    }

    /// Records a session that had no begin of its own to record.
    pub(crate) fn record(
        &self,
        report: &mut Report,
        kind: &str,
        object: Option<ObjectId>,
        started_us: i64,
        status: Status,
    ) -> Result<()> {
        let id = SessionId(self.new_id()?);
        report.session = id.to_string();
        let session = Session { object, ..begun(id, kind, report.media.join(", "), started_us) };
        self.begin_session(&session, None)?;
        let totals = Totals {
            files: report.files,
            dirs: report.dirs,
            bytes_read: report.bytes_read,
            bytes_written: report.bytes_written,
        };
        let json = serde_json::to_string(report).unwrap_or_default();
        Ok(self.idb.end_session(id, status, now_us(), &totals, &json, None)?)
    }

    /// The bytes of all segments of a part, for the progress: as they are recorded, since a tape would have to go to the end of each
    /// to tell; where they are not, as the medium says.
    fn bytes_of(&self, part: &Part) -> u64 {
        let recorded = self.idb.segments_of_medium(part.medium.header().medium).unwrap_or_default();
        let recorded: HashMap<_, _> = recorded.into_iter().map(|s| (s.number, s.bytes)).collect();
        let of = |number: &SegmentNumber| match recorded.get(number) {
            Some(bytes) => Some(*bytes),
            None => match part.medium.attachment(*number) {
                Ok(Some(attached)) => Some(attached.length),
                _ => SegmentReader::open(&part.medium, *number).ok()?.len().ok(),
            },
        };
        part.segments.iter().filter_map(of).sum()
    }

    fn parts(&self, request: &VerifyRequest) -> Result<Asked> {
        match request {
            VerifyRequest::Version(name) => {
                let version = self.version(name)?;
                let reading = Some(self.hold_version(version.id)?);
                let mut view = VersionView::open(self, version.id)?;
                let to_bring = view.bring(&|_, _| true)?;
                let asked = Self::ask_for(&to_bring);
                let mut parts: Vec<(MediumId, Part)> = Vec::new();
                let mut away: Vec<CellError> = Vec::new();
                for segment in &view.segments {
                    let (mut here, mut failed) = (false, None);
                    for (id, medium, number) in segment.places() {
                        // Mirrors and copies that are elsewhere are not needed, and nobody waits for them.
                        if here && !self.tapes_away(medium)?.is_empty() {
                            continue;
                        }
                        let opened = match view.medium(medium) {
                            Ok(opened) => opened,
                            Err(e) => {
                                failed = failed.or(Some(e));
                                continue;
                            }
                        };
                        if !view.is_sequential(medium)?
                            && opened.segment_at(number).is_some_and(|found| found != id)
                        {
                            let path = format!("segment {} of {}", number.0, opened.path());
                            let e = ReadError::Another { path, recorded: id };
                            failed = failed.or(Some(e.into()));
                            continue;
                        }
                        here = true;
                        match parts.iter_mut().find(|(id, _)| *id == medium) {
                            Some((_, part)) => {
                                part.segments.push(number);
                                part.recorded.insert(number, id);
                            }
                            None => {
                                // Each is read when the one before is done with.
                                if let Some((before, _)) = parts.last() {
                                    self.done_reading(*before);
                                }
                                let segments = vec![number];
                                let (missing, recorded) = (Vec::new(), [(number, id)].into());
                                let passed = self.needless_on(medium)?;
                                let part = Part {
                                    medium: opened,
                                    segments,
                                    missing,
                                    recorded,
                                    on_tape: false,
                                    passed,
                                };
                                parts.push((medium, part));
                            }
                        }
                    }
                    match failed.filter(|_| !here) {
                        // Of each medium once.
                        Some(e) if e.away().is_some() => {
                            away.retain(|other| other.away() != e.away());
                            away.push(e);
                        }
                        Some(e) => return Err(e),
                        None => {}
                    }
                }
                // What is at hand is verified; of the rest it is said that it is away.
                if let Some(e) = all_away(&self.idb, away).filter(|_| parts.is_empty()) {
                    return Err(e);
                }
                let parts: Vec<Part> = parts.into_iter().map(|(_, p)| p).collect();
                let mut changed = Vec::new();
                for part in &parts {
                    changed.extend(self.note_changed_known(&part.medium)?);
                    if parts.len() > 1 {
                        self.done_reading(part.medium.header().medium);
                    }
                }
                drop(asked);
                let (name, version) = (name.name.clone(), Some(version.id));
                Ok(Asked { name, parts, version, changed, _reading: reading })
            }
            VerifyRequest::Medium(text) => {
                // By itself: what is recorded of where its segments lie is no help here, but what others will not have.
                let (address, medium) = match self.known_medium(text)? {
                    Some(known) => {
                        let address = known.device.parse()?;
                        let medium = self.open_known(&known, &address)?;
                        (address, medium)
                    }
                    None => {
                        let address = text.parse()?;
                        let opened = open::medium(&address);
                        self.refuse_overwritten(&address, opened.as_ref().map(FileMedium::header))?;
                        (address, opened?)
                    }
                };
                self.open_drive_key(medium.header())?;
                let changed = self.note_changed(&address, &medium)?.into_iter().collect();
                let id = medium.header().medium;
                let reading = self.hold_versions(&self.idb.versions_on_medium(id)?)?;
                let recorded = self.recorded_on(id)?;
                let segments = medium.segments()?;
                let missing =
                    self.missing_on(id, &recorded, &segments.iter().copied().collect())?;
                let recorded = self.idb.segments_of_medium(id)?;
                let recorded = recorded.into_iter().map(|s| (s.number, s.id)).collect();
                let passed = self.needless_on(id)?;
                let on_tape = address.is_sequential();
                let part = Part { medium, segments, missing, recorded, on_tape, passed };
                let name = part.medium.header().label.clone();
                let parts = vec![part];
                Ok(Asked { name, parts, version: None, changed, _reading: reading })
            }
        }
    }

    /// Says it where the files that a version lacks cannot be named.
    fn say_unnamed(
        &self,
        version: VersionId,
        name: &str,
        sealed: bool,
        why: &CellError,
        ears: &Ears<'_>,
    ) -> Result<()> {
        let status = self.idb.version(version)?.map(|v| v.status);
        let complete = matches!(status, Some(Status::Completed | Status::CompletedWithErrors));
        if !complete {
            let text = format!(
                "the backup did not end: files are missing, and cannot be named: {}",
                crate::error::chain(why)
            );
            ears.say(Code::Missing, "cell", name, text);
        } else if !sealed {
            let text = format!("its rows cannot be read: {}", crate::error::chain(why));
            ears.say(Code::Damaged, "cell", name, text);
        }
        Ok(())
    }
}

impl Part {
    /// Says of a damaged segment that this costs nothing.
    fn say_passed(&self, number: SegmentNumber, ears: &Ears<'_>) {
        let what = format!("segment {} of {}", number.0, self.medium.path());
        let why = self.passed.get(&number).map(String::as_str).unwrap_or_default();
        ears.say(
            Code::Adapted,
            "media agent",
            &what,
            format!("it is damaged, which costs nothing: {why}"),
        );
    }

    /// Says of a damaged segment what becomes of it, where the database does not know it.
    fn say_unknown(&self, number: SegmentNumber, ears: &Ears<'_>) {
        if self.recorded.contains_key(&number) {
            return;
        }
        let way = match self.on_tape {
            true => "it stays until the tape is recycled".to_owned(),
            false => format!(
                "`capstan media repair {} --remove-unreadable` removes it if nothing of it can be read",
                shell_word(self.medium.path())
            ),
        };
        let what = format!("segment {} of {}", number.0, self.medium.path());
        let text =
            format!("no version that is known needs it: the database does not know it; {way}");
        ears.say(Code::Adapted, "media agent", &what, text);
    }

    fn say_missing(&self, ears: &Ears<'_>) {
        for missing in &self.missing {
            let what = format!("segment {} of {}", missing.number.0, self.medium.path());
            let of = missing.version.as_ref().map(|v| format!(" ({v})")).unwrap_or_default();
            let text = match self.medium.header().is_array() {
                true => format!(
                    "it is recorded{of} and on too few of the members at hand: bring back the member that has it"
                ),
                false => format!("it is recorded{of} and is not there"),
            };
            ears.say(Code::Missing, "media agent", &what, text);
        }
    }
}

/// Says what of a tape's attachments is damaged, and in no later one.
fn say_lost(attachments: Attached, medium: &FileMedium, ears: &Ears<'_>) {
    for DamagedAttachment { it, why } in attachments.lost() {
        let what = format!("{} {} of {}", it.attachment, it.number.0, medium.path());
        let label = shell_word(&medium.header().label);
        let text =
            format!("{why}; `capstan media repair {label}` writes it anew at the end of the tape");
        ears.say(Code::Damaged, "media agent", &what, text);
    }
}

/// The wrapped keys of all that is to be read, as they lie on the media.
fn records_of(parts: &[Part]) -> Vec<KeyRecord> {
    parts.iter().flat_map(|p| key_records(&p.medium, &p.segments)).collect()
}
