//! Jobs are written to media together, and their ends put on record.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use capstan_catalog::keys::VersionKeys;
use capstan_devices::WAYS_TO_ROOM;
use capstan_devices::address::Address;
use capstan_devices::medium::HeldMedium;
use capstan_disk_agent::stream::choice::Ladder;
use capstan_engine::message::Code;
use capstan_engine::meter::{Meters, Stage};
use capstan_engine::threads;
use capstan_engine::verdict::{Flow, Lanes};
use capstan_format::id::{MediumId, StreamId};
use capstan_format::keys::{KeyRecord, SessionKeys};
use capstan_format::record::{MediumHeader, SessionEnds, SessionLabel};
use capstan_idb::Status;
use capstan_media_agent::write::committed;
use capstan_media_agent::write::committed::OnCommit;
use capstan_media_agent::write::error::WriteError;
use capstan_media_agent::write::mirror::Member;
use capstan_media_agent::write::options::{CATALOG_LIMIT_DEFAULT, WriterOptions};
use capstan_media_agent::write::writer::Writer;

use crate::Cell;
use crate::error::{CellError, Result};
use crate::kinds::backup::job::{Ending, HandedOver, Job, Written};
use crate::kinds::backup::media::commit::{key_json, record_commit};
use crate::kinds::backup::media::feed;
use crate::kinds::backup::media::medium::{Opened, say_all_lost, segment_size};
use crate::kinds::backup::supply_of;
use crate::media::WriteFailure;
use crate::observe::Stop;
use crate::report::Report;
use crate::request::{BackupRequest, Encrypt, Source};
use crate::session::watch::{self, Watched};
use crate::session::{SessionLog, now_us};
use crate::supply::media_changes::Moves;
use crate::versions::protect::say_not_locked;

/// A slow source is committed this often.
const SEGMENT_TIME: Duration = Duration::from_secs(120);
/// Catalog files that no commit refers to are removed after a day.
const CATALOG_GRACE: Duration = Duration::from_secs(24 * 3600);

impl Cell {
    /// Writes jobs that are on record to media, and puts their ends on record.
    pub(in crate::kinds::backup) fn write_jobs(
        &self,
        jobs: &mut [Job<'_>],
        opened: Opened,
        keys: Option<&(SessionKeys, KeyRecord)>,
        begun: Instant,
        log: &SessionLog<'_>,
        stop: &Stop,
    ) -> Result<Vec<Report>> {
        let Opened { mut members, lost, held, avoid, booked: _booked } = opened;
        let media: Vec<String> = members.iter().map(|m| m.medium.label.clone()).collect();
        let medium = self.prepare(jobs, &mut members)?;
        let Some(Job { request, .. }) = jobs.first() else { return Ok(Vec::new()) };
        let request = *request;

        let meters = Arc::new(Meters::default());
        let mut drives_compress = feed::who_compresses(jobs, &mut members, keys.is_some())?;
        if let [job] = jobs {
            let is_whole = job.label.base.is_none() && !job.goes_on && !job.plan.roots.is_empty();
            if is_whole && request.streams.or(request.concurrency).is_none() {
                let Job { plan, log, .. } = job;
                let work = feed::work_of(plan, keys.map(|(_, record)| record.cipher()))?;
                feed::fit(plan, &mut members, &mut drives_compress, work, log, &stop.0)?;
            }
        }
        let ladder = Arc::new(Ladder::default());
        let mut sources = Vec::new();
        let mut others: HashMap<StreamId, SessionLabel> = HashMap::new();
        for (at, job) in jobs.iter_mut().enumerate() {
            let streams = job.streams(self, keys, &ladder)?;
            if at > 0 {
                others.extend(streams.iter().map(|s| (s.stream, job.label.clone())));
            }
            sources.push((job.cursor.take(), streams));
        }
        let jobs: &[Job<'_>] = jobs;
        let Some(lead) = jobs.first() else { return Ok(Vec::new()) };
        let mut supply = supply_of(request).but(avoid);
        supply.drives_compress = drives_compress;
        let moves = Arc::new(Moves::default());
        let keeping = self.keeping(jobs, &supply, &moves, log);
        let options = WriterOptions {
            medium: medium.clone(),
            session: lead.label.clone(),
            others,
            keys: key_json(keys)?,
            segment_size: segment_size(request, &members),
            catalog_limit: CATALOG_LIMIT_DEFAULT,
            segment_time: SEGMENT_TIME,
            buffers: jobs.iter().map(|job| job.plan.buffers).sum(),
            now_us,
            // Who backs up to a supply goes on with it in another session.
            rereads: !supply.is_none()
                && jobs.iter().all(|job| matches!(job.request.source, Source::Paths(_))),
            next_media: Some(self.changing(supply, &moves)),
            keeping,
        };
        let mirrors_lost = AtomicU64::new(lost);
        let writer = Writer::start_on(
            members,
            options,
            self.entropy.clone(),
            meters.clone(),
            self.on_commit(request, keys),
        );
        let lost_mirrors = writer.lost_mirrors();
        let say_lost_mirrors = || {
            mirrors_lost.fetch_add(say_all_lost(self, &lost_mirrors, log), Relaxed);
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let streams: usize = jobs.iter().map(|job| job.plan.streams).sum();
        let watched = Watched {
            waits: self.devices.waits(),
            meters: &meters,
            lanes: Lanes { streams: streams as u32, processors: processors as u32 },
            ladder: Some(&ladder),
            stages: (Stage::Source, Stage::Device),
            progress: &|p| {
                for Job { counters, expected, is_about, .. } in jobs {
                    p.is_about |= is_about;
                    p.files += counters.files.load(Relaxed) + counters.kept.load(Relaxed);
                    p.files_found += counters.found.load(Relaxed);
                    p.bytes += counters.bytes.load(Relaxed);
                    p.files_expected += expected.0;
                    p.bytes_expected += expected.1;
                }
            },
            each: &|p| {
                say_lost_mirrors();
                moves.say(log);
                log.progress(p);
            },
        };
        let port = Arc::new(writer.port());
        let all = || {
            std::thread::scope(|scope| {
                let mut running = Vec::new();
                for (job, (cursor, streams)) in jobs.iter().zip(sources) {
                    let (port, meters) = (port.clone(), &meters);
                    let run = move || job.run(port, meters, stop, cursor, streams);
                    let started = threads::start_in(scope, "disk agent", run);
                    running.push(started.inspect_err(|e| {
                        job.log.say(Code::NoThread, "disk agent", &job.plan.name, e.to_string());
                    }));
                }
                let handed = running.into_iter().map(|job| match job {
                    Ok(job) => job.join().unwrap_or_default(),
                    Err(_) => HandedOver::default(),
                });
                handed.collect::<Vec<HandedOver>>()
            })
        };
        let (handed_over, seen) = watch::watched(&watched, all);
        let stopped = stop.0.load(Relaxed);
        say_lost_mirrors();
        self.say_changed(log);
        let media_errors = log.error_count() + mirrors_lost.load(Relaxed);
        let mut endings: Vec<Ending> = jobs
            .iter()
            .zip(&handed_over)
            .map(|(job, of)| {
                if !stopped {
                    job.look_at_input(self, of)?;
                }
                job.ending(self, of, stopped, media_errors)
            })
            .collect::<Result<_>>()?;
        for (job, ending) in jobs.iter().zip(&mut endings).filter(|(job, _)| job.goes_on) {
            if let Some(end) = &mut ending.end {
                end.segments = self.idb.segments_belonging_to(job.label.version)?;
            }
        }
        let drives = writer.drives();
        let written = writer.finish(ends(jobs, &endings));
        let drives = std::mem::take(&mut *drives.lock());
        say_lost_mirrors();
        moves.say(log);
        let passed_over = self.say_changed(log);
        let degraded = mirrors_lost.load(Relaxed) + passed_over > 0;
        let (written, failure) = match written {
            Ok(written) => (written, None),
            Err(e) => {
                let bytes = meters.of(Stage::Device).read().bytes;
                // Who wrote how much of it is not known.
                let share = bytes / jobs.len().max(1) as u64;
                let of_others = jobs.iter().skip(1).map(|job| (job.label.session, share)).collect();
                (committed::Written { bytes, of_others, ..committed::Written::default() }, Some(e))
            }
        };
        let of = failure.as_ref().map(WriteFailure::of);
        let device_full = of == Some(WriteFailure::Full);
        // Another medium would be written through the same spool.
        let medium_failed = device_full || of.is_some_and(WriteFailure::is_of_medium);
        let full_media: &[MediumId] = match &failure {
            Some(WriteError::Full { media, .. }) => media,
            _ => &[],
        };
        if let Some(e) = &failure {
            self.say_device_failed(request, &moves.last(&medium), e, log)?;
        }
        for ending in &mut endings {
            ending.status = match ending.status {
                _ if failure.is_some() => Status::Failed,
                Status::Completed if degraded => Status::CompletedWithErrors,
                other => other,
            };
        }
        self.lock_jobs(jobs, &mut endings, held);
        let media = moves.with(media);
        let blocks = meters.of(Stage::Device).read().bytes;
        let mut common = Report::default();
        common.set_drives(&drives);
        self.clean_drives(&drives, &mut common, log);
        if let Some(seen) = &seen {
            common.set_stages(&meters, seen.verdict, Flow::Backup);
        }
        // Beside a directory it is what lies there that counts.
        let all_on_tape = (request.pool.is_some() || request.device.is_tape())
            && request.mirrors.iter().all(Address::is_tape);
        let mut reports = Vec::new();
        for (job, ending) in jobs.iter().zip(&endings) {
            let mut report = job.report(
                ending,
                &Written {
                    media: &media,
                    media_change_s: moves.seconds(),
                    elapsed_s: begun.elapsed().as_secs_f64(),
                    rate_sustained: seen.as_ref().map_or(0.0, |s| s.sustained),
                    bytes: match bytes_of(job, jobs, &written, blocks) {
                        bytes if all_on_tape => common.on_tape(bytes),
                        bytes => bytes,
                    },
                    device_full,
                    device_failed: medium_failed,
                    full_media,
                    device_lost: of == Some(WriteFailure::Connection),
                    encryption: match request.encrypt {
                        Some(Encrypt::Drive) => Some(Encrypt::Drive),
                        _ => keys.is_some().then_some(Encrypt::Software),
                    },
                },
            );
            report.bottleneck.clone_from(&common.bottleneck);
            report.stages.clone_from(&common.stages);
            report.drives.clone_from(&common.drives);
            report.notes.extend(common.notes.iter().cloned());
            job.log.also(log);
            job.record_end(self, ending, &mut report)?;
            reports.push(report);
        }
        if let Some(report) = reports.first_mut().filter(|_| !device_full) {
            // Those of a mirror that failed are none of them.
            let last = match of {
                None => written.media.clone(),
                Some(WriteFailure::Other) => vec![moves.last(&medium).medium],
                Some(_) => Vec::new(),
            };
            self.back_up_idb(&request.device, &last, log, report);
        }
        // Catalog files of commits that a kill cut short; one that is just being written is left alone.
        self.idb.reconcile_catalogs(CATALOG_GRACE)?;
        Ok(reports)
    }

    /// What the media's headers say of the jobs, and what these write after. Gives the first medium's.
    fn prepare(&self, jobs: &[Job<'_>], members: &mut [Member]) -> Result<MediumHeader> {
        let ids: Vec<MediumId> = members.iter().map(|m| m.medium.medium).collect();
        let mut before = None;
        let mut protection = capstan_format::record::Protection::None;
        for job in jobs {
            // As long as the longest: it is one header for all.
            let keep = self.keep_new(job.label.version, &job.request.keep)?;
            protection = protection.max(keep.into());
            if job.goes_on && before.is_none() {
                before = self.left_behind(job.label.version, &ids)?;
            }
        }
        for member in members.iter_mut() {
            member.medium.protection = protection.clone();
            member.follows.clone_from(&before);
        }
        let first = members.first().map(|m| m.medium.clone());
        first.ok_or_else(|| {
            CellError::BadInput("there is no device to write to; name one".to_owned())
        })
    }

    /// What records the commits of jobs.
    fn on_commit(
        &self,
        request: &BackupRequest,
        keys: Option<&(SessionKeys, KeyRecord)>,
    ) -> Box<OnCommit> {
        if request.device.keeps_nothing() {
            return Box::new(|_| Ok(()));
        }
        let (idb, level) = (self.idb.clone(), request.log_level);
        let names = keys.map_or_else(VersionKeys::default, |(keys, record)| {
            VersionKeys::of_names(keys.id, &keys.names, record.cipher())
        });
        Box::new(move |c| record_commit(&idb, c, level, &names).map_err(Into::into))
    }

    /// Locks what was completed, where that is asked for. The media are `held` until the first is locked.
    fn lock_jobs(&self, jobs: &[Job<'_>], endings: &mut [Ending], mut held: Vec<HeldMedium>) {
        for (job, ending) in jobs.iter().zip(endings) {
            let done = matches!(ending.status, Status::Completed | Status::CompletedWithErrors);
            let Some(until_us) = job.request.keep.lock_until_us.filter(|_| done) else { continue };
            let (version, name) = (job.label.version, &job.plan.name);
            if let Err(e) = self.lock_new(version, name, until_us, std::mem::take(&mut held)) {
                ending.status = Status::CompletedWithErrors;
                say_not_locked(&job.log, name, &e);
            }
        }
    }

    /// Says and records why a device took no more. Where there are further media, these go on, and it is no error of the
    /// backup.
    fn say_device_failed(
        &self,
        request: &BackupRequest,
        medium: &MediumHeader,
        why: &WriteError,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        let device = request.device.to_string();
        let of = WriteFailure::of(why);
        let mut label = medium.label.clone();
        match why {
            WriteError::Full { media, .. } => {
                media.iter().try_for_each(|full| self.note_write_failure(*full, of))?;
                label = self.labels(media.iter())?.join("', '");
            }
            _ => self.note_write_failure(medium.medium, of)?,
        }
        let full = of == WriteFailure::Full;
        let more = !supply_of(request).is_none();
        if (full || of.is_of_medium()) && more && matches!(request.source, Source::Paths(_)) {
            let (code, text) = match full {
                true => (Code::Adapted, format!("medium '{label}' is full: another goes on")),
                false => {
                    let why = crate::error::chain(why);
                    let text =
                        format!("writing to medium '{label}' failed, and another goes on: {why}");
                    (Code::MediumFailed, text)
                }
            };
            log.say(code, "media agent", &device, text);
            return Ok(());
        }
        let mut text = crate::error::chain(why);
        if full && !request.device.is_sequential() {
            // What is said of any device that is full leaves out what this one is.
            let what = text.split("; ").next().unwrap_or_default();
            text = format!(
                "the disk of medium '{label}' is full, what was committed is kept: {what}; {WAYS_TO_ROOM}"
            );
        }
        log.say(Code::DeviceFailed, "media agent", &device, text);
        Ok(())
    }
}

/// The ends of sessions that are written together; segments name the first one's.
fn ends(jobs: &[Job<'_>], endings: &[Ending]) -> SessionEnds {
    let others = jobs.iter().zip(endings).skip(1);
    SessionEnds {
        own: endings.first().and_then(|first| first.end.clone()),
        others: others.filter_map(|(job, ending)| ending.beside(&job.label)).collect(),
    }
}

/// The bytes that a job wrote, of which so many are `blocks` of data: its own blocks, and its share of what is around them.
fn bytes_of(job: &Job<'_>, jobs: &[Job<'_>], written: &committed::Written, blocks: u64) -> u64 {
    let around = written.bytes.saturating_sub(blocks) / jobs.len().max(1) as u64;
    let other = |job: &Job<'_>| written.of_others.get(&job.label.session).copied();
    match other(job) {
        Some(own) => own + around,
        // The one that segments name has the rest.
        None => {
            let others = jobs.iter().filter_map(other).map(|own| own + around);
            written.bytes.saturating_sub(others.sum())
        }
    }
}
