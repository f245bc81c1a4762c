//! A verify session: reads everything, trusts nothing, and names the files that damage costs.

pub(crate) mod judge;

mod damage;
mod part;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use capstan_catalog::places::{Place, SegmentPlace};
use capstan_catalog::version::Overview;
use capstan_devices::file::FileMedium;
use capstan_devices::operator;
use capstan_engine::message::{Code, shell_word};
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_engine::verdict::{Flow, Lanes};
use capstan_format::id::{
    MediumId, ObjectId, SegmentId, SegmentNumber, SessionId, StreamId, VersionId,
};
use capstan_idb::{Medium, Session, Status, Totals};
use capstan_media_agent::read::error::ReadError;
use capstan_media_agent::read::scan::scan_with;
use capstan_media_agent::read::segment::SegmentReader;

use self::damage::Damage;
use self::part::{Part, Places, Planned, TapeToRead, Verified, records_of};
use crate::Cell;
use crate::drives::attached::{Attached, DamagedAttachment};
use crate::drives::robots::Booked;
use crate::error::{CellError, Result, chain};
use crate::kinds::restore::files_known;
use crate::observe::{Observer, Stop};
use crate::reading::frame_check::Frames;
use crate::reading::known_media::all_away;
use crate::reading::unread::{code_of_device, code_of_read, of_way, of_way_to_device};
use crate::reading::version::VersionView;
use crate::report::Report;
use crate::request::VerifyRequest;
use crate::session::lease::Reading;
use crate::session::watch::{self, Watched};
use crate::session::{Ears, begun, host, now_us, peak_rss, rfc3339};

/// What is to be verified, and held meanwhile.
struct Asked<'a> {
    name: String,
    planned: Vec<Planned>,
    version: Option<VersionView<'a>>,
    /// What of media is not as it was last written.
    changed: Vec<String>,
    /// Tapes that somebody has to bring.
    _wanted: Option<operator::Asked>,
    /// The drives of an array of tapes.
    _booked: Vec<Booked>,
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
        let Asked { name, planned, version: mut view, changed, _wanted, _booked, _reading } =
            self.parts(request)?;
        let version = view.as_ref().map(|view| view.version);
        for text in changed {
            ears.say(Code::MediumChanged, "cell", &name, text);
        }
        let streams = view.as_ref().map(streams_of);
        let asked: &dyn Fn(StreamId) -> bool =
            &|stream| streams.as_ref().is_none_or(|streams| streams.contains(&stream));
        // The database's may have been wrapped anew since the medium was written.
        let known = view.as_ref().and_then(|view| self.key_records(view).ok());
        let records = known.unwrap_or_else(|| records_of(&planned, view.as_ref()));
        let opened = self.open_keys_if_given(&records, true, &name, "verify checksums only")?;
        let keys = opened.keys;
        let meters = Meters::default();
        let total: u64 = planned.iter().map(|planned| self.bytes_of(planned)).sum();
        let watched = Watched {
            waits: self.devices.waits(),
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
        if let Some(view) = &mut view {
            view.keys.extend(&keys);
        }
        if let (Some(version), Some(view)) = (version, &view) {
            let known = || files_known(view, &Overview::with_replaced(view).ok()?).ok();
            self.say_lost(version, &name, known, &ears)?;
        }
        let mut damage = Damage::new(view.as_ref(), &keys);
        let (mut parts, mut unreadable): (Vec<Part>, Vec<String>) = (Vec::new(), Vec::new());
        let (done, seen) = watch::watched(&watched, || {
            let mut failed: Vec<(MediumId, CellError)> = Vec::new();
            let mut lap = Lap::start();
            for planned in planned {
                if stop.0.load(Relaxed) && !(parts.is_empty() && unreadable.is_empty()) {
                    break;
                }
                // A tape is loaded when it is its turn, and not before.
                let (id, recorded) = (planned.medium(), planned.recorded());
                let part = match planned.open(view.as_ref(), &name, &ears) {
                    Ok(part) => part,
                    Err(e @ CellError::Unreadable { .. }) => {
                        damage.take_unopened(self, id, &recorded);
                        let label = self.label_of(id)?;
                        ears.say(Code::Damaged, "media agent", &label, chain(&e));
                        unreadable.push(label);
                        continue;
                    }
                    Err(e) => {
                        failed.push((id, e));
                        continue;
                    }
                };
                lap.busy(meters.of(Stage::Device));
                part.say_header_problem(&ears);
                let errors = ears.error_count();
                let mut read = Verified::default();
                // What could not be read now, which is no fault of the medium.
                let mut unread = 0;
                let mut say_unread = |code: Code, what: &str, why: &str| {
                    ears.say(code, "media agent", what, format!("it could not be read now: {why}"));
                    unread += 1;
                };
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
                    let what = format!("segment {} of {}", number.0, part.medium.path());
                    if let Err(e) = part.medium.check_spare(*number) {
                        match of_way_to_device(&e) {
                            Some(why) => say_unread(code_of_device(&e), &what, &why),
                            None => ears.say(Code::Damaged, "media agent", &what, chain(&e)),
                        }
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
                    let is_stopped = stop.0.load(Relaxed);
                    if let Err(e) = &scanned
                        && let Some(why) = of_way(e)
                        && !is_stopped
                    {
                        damage.take_unread(self, &part, *number, &why);
                        say_unread(code_of_read(e), &what, &why);
                        continue;
                    }
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
                            read.note(&part, *number, scan.damage.is_empty());
                            damage.take(self, &part, *number, Ok(scan));
                        }
                        Err(e) => {
                            read.note(&part, *number, false);
                            damage.take(self, &part, *number, Err(chain(&e)));
                            ears.say(Code::Damaged, "media agent", &what, chain(&e));
                        }
                    }
                    if version.is_none() && ears.error_count() > before {
                        part.say_unknown(*number, &ears);
                    }
                    lap.busy(meters.of(Stage::Cpu));
                }
                if !stop.0.load(Relaxed) {
                    for of in attachments.unread() {
                        say_unread(of.code, &of.what, &of.why);
                    }
                    say_lost(attachments, &part.medium, &ears);
                }
                let is_all = unread == 0 && !stop.0.load(Relaxed);
                let whole = matches!(request, VerifyRequest::Medium(_)) && is_all;
                let damaged =
                    ears.error_count() > errors + unread || part.medium.header_problem().is_some();
                if let Err(e) = self.record_verified(&part, &read, damaged, whole) {
                    ears.say(Code::Adapted, "cell", part.medium.path(), chain(&e));
                }
                self.done_reading(part.medium.header().medium);
                parts.push(part);
            }
            let is_nothing_read = parts.is_empty() && unreadable.is_empty();
            self.without(view.as_ref(), &parts, failed, is_nothing_read, &ears)
        });
        done?;
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
                    let mut losses = damage.losses();
                    match judge::version(view, &mut losses, damage.opened(), &ears) {
                        Ok(passed) => {
                            (files, corrupt) = (passed.files, passed.lost);
                            away = passed.away.say(self, &ears)?;
                        }
                        Err(e) => self.say_unnamed(version, &name, closed > 0, &e, &ears)?,
                    }
                }
                _ => {
                    let (lost, unread) = damage.say(self, &parts, closed > 0, &ears);
                    (corrupt, away) = (lost, unread.say(self, &ears)?);
                }
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
            media: parts
                .iter()
                .map(|p| p.medium.header().label.clone())
                .chain(unreadable)
                .collect(),
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
        let drives = self.devices.take_sessions();
        report.set_drives_read(&drives);
        self.clean_drives(&drives, &mut report, &ears);
        ears.fill(&self.devices, &mut report);
        let version = version.map(|id| self.idb.version(id)).transpose()?.flatten();
        self.record(&mut report, "verify", version.map(|v| v.object), started_us, status)?;
        Ok(report)
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
            (true, _) => {
                let lacking = self.lacking_as_changed(&part.medium)?;
                let is_damaged = |segment: &&SegmentId| !lacking.contains(segment);
                let hurt: Vec<_> = read.damaged.iter().filter(is_damaged).copied().collect();
                // Where no segment is named, something else of the medium is damaged.
                if !hurt.is_empty() || read.damaged.is_empty() {
                    self.idb.put_damage(id, &hurt, now_us())?;
                }
            }
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

    /// The bytes of all that is to be read of a medium, for the progress: as they are recorded, since a tape would have to go to the
    /// end of each segment to tell; where they are not, as the medium says.
    fn bytes_of(&self, planned: &Planned) -> u64 {
        let recorded = self.idb.segments_of_medium(planned.medium()).unwrap_or_default();
        let recorded: HashMap<_, _> = recorded.into_iter().map(|s| (s.number, s.bytes)).collect();
        let of = |number: &SegmentNumber| match (recorded.get(number), planned) {
            (Some(bytes), _) => Some(*bytes),
            (None, Planned::Tape(_) | Planned::Unreadable(..)) => None,
            (None, Planned::Open(part)) => match part.medium.attachment(*number) {
                Ok(Some(attached)) => Some(attached.length),
                _ => SegmentReader::open(&part.medium, *number).ok()?.len().ok(),
            },
        };
        planned.segments().iter().filter_map(of).sum()
    }

    /// Says of media of a version that could not be opened, as far as no other has what they have. That they are away is said of the
    /// files. An error where there is nothing at all to be read.
    fn without(
        &self,
        view: Option<&VersionView<'_>>,
        parts: &[Part],
        failed: Vec<(MediumId, CellError)>,
        is_nothing_read: bool,
        ears: &Ears<'_>,
    ) -> Result<()> {
        if is_nothing_read {
            let failed = failed.into_iter().map(|(_, e)| e).collect();
            return all_away(self, failed).map_or(Ok(()), Err);
        }
        let is_read = |id: MediumId| parts.iter().any(|p| p.medium.header().medium == id);
        for (id, e) in failed.iter().filter(|(_, e)| e.away().is_none()) {
            let is_lacking = |segment: &SegmentPlace| {
                let places = segment.places();
                places.iter().any(|at| at.1 == *id) && !places.iter().any(|at| is_read(at.1))
            };
            if view.is_some_and(|view| view.segments.iter().any(is_lacking)) {
                let label = self.label_of(*id)?;
                ears.say(Code::DeviceFailed, "cell", &label, chain(e));
            }
        }
        Ok(())
    }

    fn parts(&self, request: &VerifyRequest) -> Result<Asked<'_>> {
        match request {
            VerifyRequest::Version(name) => {
                let version = self.version(name)?;
                let reading = Some(self.hold_version(version.id)?);
                let mut view = VersionView::open(self, version.id)?;
                let to_bring = view.bring(&|_, _| true)?;
                let wanted = Some(self.ask_for(&to_bring));
                let booked = self.book_drives_of_versions(std::slice::from_ref(&view))?;
                let mut tapes: HashMap<MediumId, Places> = HashMap::new();
                let mut others: Vec<(MediumId, Part)> = Vec::new();
                let mut unreadable: HashMap<MediumId, (Places, CellError)> = HashMap::new();
                let mut away: Vec<CellError> = Vec::new();
                let retired = self.idb.retired_media()?;
                let unsound = self.unsound_places()?;
                for segment in &view.segments {
                    let (mut here, mut failed) = (false, None);
                    // What is retired is read where nothing else has it whole.
                    let mut is_had = false;
                    let mut places = segment.places();
                    let is_whole =
                        |at: &Place| segment.lacks_at(*at) == 0 && !unsound.has(at.1, at.0);
                    places.sort_by_key(|at| retired.contains(&at.1));
                    for (id, medium, number) in places {
                        if is_had && retired.contains(&medium) {
                            continue;
                        }
                        let is_away = !self.tapes_away(medium)?.is_empty();
                        // Mirrors and copies that are elsewhere are not needed, and nobody waits for them.
                        if here && is_away {
                            continue;
                        }
                        if view.media.is_sequential(medium)? && (!is_away || self.has_operator()) {
                            here = true;
                            is_had |= is_whole(&(id, medium, number));
                            tapes.entry(medium).or_default().insert(number, id);
                            continue;
                        }
                        let opened = match view.media.medium(medium) {
                            Ok(opened) => opened,
                            Err(e @ CellError::Unreadable { .. }) => {
                                here = true;
                                let of = unreadable.entry(medium);
                                of.or_insert_with(|| (Places::new(), e)).0.insert(number, id);
                                continue;
                            }
                            Err(e) => {
                                failed = failed.or(Some(e));
                                continue;
                            }
                        };
                        if opened.segment_at(number).is_some_and(|found| found != id) {
                            let path = format!("segment {} of {}", number.0, opened.path());
                            let e = ReadError::Another { path, recorded: id };
                            failed = failed.or(Some(e.into()));
                            continue;
                        }
                        here = true;
                        is_had |= is_whole(&(id, medium, number));
                        match others.iter_mut().find(|(id, _)| *id == medium) {
                            Some((_, part)) => {
                                part.segments.push(number);
                                part.recorded.insert(number, id);
                            }
                            None => {
                                let recorded = [(number, id)].into();
                                let passed = self.needless_on(medium)?;
                                others.push((medium, Part::of(opened, recorded, passed)));
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
                let is_nothing_here =
                    tapes.is_empty() && others.is_empty() && unreadable.is_empty();
                if let Some(e) = all_away(self, away).filter(|_| is_nothing_here) {
                    return Err(e);
                }
                let mut changed = Vec::new();
                for (_, part) in &others {
                    changed.extend(self.note_changed_known(&part.medium)?);
                }
                let mut order: Vec<MediumId> = tapes.keys().copied().collect();
                self.in_order_of_writing(&mut order)?;
                // Those that somebody has to bring come last.
                let mut ranked: Vec<(bool, MediumId)> = Vec::new();
                for medium in order {
                    ranked.push((!self.tapes_away(medium)?.is_empty(), medium));
                }
                ranked.sort_by_key(|(is_away, _)| *is_away);
                let mut planned: Vec<Planned> =
                    others.into_iter().map(|(_, part)| Planned::Open(Box::new(part))).collect();
                for (medium, (recorded, e)) in unreadable {
                    let of = TapeToRead { medium, recorded, passed: HashMap::new() };
                    planned.push(Planned::Unreadable(of, e));
                }
                for (_, medium) in ranked {
                    let recorded = tapes.remove(&medium).unwrap_or_default();
                    let passed = self.needless_on(medium)?;
                    planned.push(Planned::Tape(TapeToRead { medium, recorded, passed }));
                }
                let (name, version) = (name.name.clone(), Some(view));
                Ok(Asked {
                    name,
                    planned,
                    version,
                    changed,
                    _wanted: wanted,
                    _booked: booked,
                    _reading: reading,
                })
            }
            VerifyRequest::Medium(text) => {
                // By itself: what is recorded of where its segments lie is no help here, but what others will not have.
                let booked;
                let (address, medium) = match self.known_medium(text)? {
                    Some(known) => {
                        let address = known.device.parse()?;
                        booked = self.book_drives_of(&[&address])?;
                        let medium = match self.open_known(&known, &address) {
                            Err(e @ CellError::Unreadable { .. }) => {
                                return self.unreadable_alone(known, e, booked);
                            }
                            opened => opened?,
                        };
                        (address, medium)
                    }
                    None => {
                        let address = text.parse()?;
                        booked = self.book_drives_of(&[&address])?;
                        let opened = self.devices.medium(&address);
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
                let planned = vec![Planned::Open(Box::new(part))];
                let (version, _wanted) = (None, None);
                Ok(Asked {
                    name,
                    planned,
                    version,
                    changed,
                    _wanted,
                    _booked: booked,
                    _reading: reading,
                })
            }
        }
    }

    /// A medium by itself that cannot be read: all that is recorded of it is damaged.
    fn unreadable_alone(
        &self,
        known: Medium,
        e: CellError,
        booked: Vec<Booked>,
    ) -> Result<Asked<'_>> {
        let recorded = self.idb.segments_of_medium(known.id)?;
        let recorded = recorded.into_iter().map(|s| (s.number, s.id)).collect();
        let of = TapeToRead { medium: known.id, recorded, passed: HashMap::new() };
        Ok(Asked {
            name: known.label,
            planned: vec![Planned::Unreadable(of, e)],
            version: None,
            changed: Vec::new(),
            _wanted: None,
            _booked: booked,
            _reading: self.hold_versions(&self.idb.versions_on_medium(known.id)?)?,
        })
    }

    /// What a medium is called.
    fn label_of(&self, id: MediumId) -> Result<String> {
        Ok(self.idb.medium(id)?.map_or_else(|| id.short(), |row| row.label))
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
                chain(why)
            );
            ears.say(Code::Missing, "cell", name, text);
        } else if !sealed {
            let text = format!("its rows cannot be read: {}", chain(why));
            ears.say(Code::Damaged, "cell", name, text);
        }
        Ok(())
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

/// The streams of a version and what it builds on: others may lie in the same segments.
fn streams_of(view: &VersionView<'_>) -> HashSet<StreamId> {
    let spans = view.segments.iter().flat_map(|place| &place.spans);
    spans.map(|(stream, ..)| *stream).collect()
}
