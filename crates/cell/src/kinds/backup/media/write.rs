//! Jobs are written to media together, and their ends put on record.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use capstan_catalog::keys::VersionKeys;
use capstan_engine::ladder::Ladder;
use capstan_engine::message::Code;
use capstan_engine::meter::{Meters, Stage};
use capstan_engine::threads;
use capstan_engine::verdict::Lanes;
use capstan_format::id::{MediumId, StreamId};
use capstan_format::keys::{KeyRecord, SessionKeys};
use capstan_format::record::{MediumHeader, SessionLabel};
use capstan_port::disk::backup::{Counting, ReadyBackup};
use capstan_port::media::write::committed::OnCommit;
use capstan_port::media::write::members::{LostMirrors, Member};
use capstan_port::media::write::options::{CATALOG_LIMIT_DEFAULT, WriterOptions};
use capstan_port::media::write::session::SessionWriter;

use crate::Cell;
use crate::clients::Client;
use crate::error::{BackupRefusal, Result};
use crate::kinds::backup::base::resume::Cursor;
use crate::kinds::backup::handed_over::HandedOver;
use crate::kinds::backup::job::{Ending, Job};
use crate::kinds::backup::media::commit::{key_json, record_commit};
use crate::kinds::backup::media::devices::Opened;
use crate::kinds::backup::media::feed;
use crate::kinds::backup::media::lost::say_all_lost;
use crate::kinds::backup::media::segment_size::segment_size;
use crate::kinds::backup::supply_of;
use crate::observe::Stop;
use crate::report::Report;
use crate::request::{BackupRequest, Source};
use crate::session::watch::{self, Seen, Watched};
use crate::session::{SessionLog, now_us};
use crate::supply::media_changes::Moves;
use crate::supply::tapes::Supply;

/// A slow source is committed this often.
const SEGMENT_TIME: Duration = Duration::from_secs(120);

/// What each job's disk agent begins with: where it looks names up, and what it was told.
type Sources<'a> = Vec<(Option<Cursor<'a>>, Box<dyn ReadyBackup>)>;

/// Jobs that are written together, and what they share.
pub(super) struct Writing<'w, 'a> {
    pub cell: &'w Cell,
    pub jobs: &'w [Job<'a>],
    /// The first one's: all are written to the same media.
    pub request: &'w BackupRequest,
    pub is_encrypted: bool,
    /// The first medium.
    pub medium: MediumHeader,
    pub meters: Arc<Meters>,
    ladder: Arc<Ladder>,
    pub moves: Arc<Moves>,
    pub mirrors_lost: AtomicU64,
    pub begun: Instant,
    pub log: &'w SessionLog<'w>,
    pub stop: &'w Stop,
}

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
        let labels: Vec<String> = members.iter().map(|m| m.medium.label.clone()).collect();
        let medium = self.prepare(jobs, &mut members)?;
        let Some(Job { request, .. }) = jobs.first() else { return Ok(Vec::new()) };
        let request = *request;
        let ladder = Arc::new(Ladder::default());
        let mut supply = supply_of(request).but(avoid);
        supply.drives_compress = fit_feed(jobs, &mut members, keys, stop)?;
        let (sources, others) = self.sources(jobs, keys, &ladder)?;
        let jobs: &[Job<'_>] = jobs;
        let Some(lead) = jobs.first() else { return Ok(Vec::new()) };
        let writing = Writing {
            cell: self,
            jobs,
            request,
            is_encrypted: keys.is_some(),
            medium,
            meters: Arc::default(),
            ladder,
            moves: Arc::default(),
            mirrors_lost: AtomicU64::new(lost),
            begun,
            log,
            stop,
        };
        let size = segment_size(request, &members);
        let options = writing.options((&lead.label, others), key_json(keys)?, size, supply);
        let (meters, on_commit) = (writing.meters.clone(), self.on_commit(request, keys));
        let writer = self.agents.media.write(members, options, meters, on_commit);
        let (handed_over, seen) = writing.run(&*writer, sources);
        let endings = writing.endings(&*writer, &handed_over)?;
        writing.ended(writer, endings, seen, labels, held)
    }

    /// What the disk agents of jobs begin with; and of the streams of all but the first job whose they are.
    fn sources<'a>(
        &self,
        jobs: &mut [Job<'a>],
        keys: Option<&(SessionKeys, KeyRecord)>,
        ladder: &Arc<Ladder>,
    ) -> Result<(Sources<'a>, HashMap<StreamId, SessionLabel>)> {
        let mut sources = Vec::new();
        let mut others: HashMap<StreamId, SessionLabel> = HashMap::new();
        for (at, job) in jobs.iter_mut().enumerate() {
            let order = job.order(self, keys)?;
            if at > 0 {
                others.extend(order.streams.ids.iter().map(|id| (*id, job.label.clone())));
            }
            sources.push((job.cursor.take(), job.plan.client.agent.ready(order, ladder)?));
        }
        Ok((sources, others))
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
        first.ok_or_else(|| BackupRefusal::NoDevice.into())
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
}

/// Fits the feed to the media: settles whether their drives compress, and of one full backup how many streams feed them. Returns whether
/// the drives compress, where they can.
fn fit_feed(
    jobs: &mut [Job<'_>],
    members: &mut [Member],
    keys: Option<&(SessionKeys, KeyRecord)>,
    stop: &Stop,
) -> Result<Option<bool>> {
    let mut drives_compress = feed::who_compresses(jobs, members, keys.is_some())?;
    if let [job] = jobs {
        let is_whole = job.label.base.is_none() && !job.goes_on && !job.plan.trees.roots.is_empty();
        if is_whole && job.request.streams.or(job.request.concurrency).is_none() {
            let Job { plan, log, .. } = job;
            let work = feed::work_of(plan, keys.map(|(_, record)| record.cipher()));
            let agent = plan.client.agent.clone();
            feed::fit((&*agent, plan), members, &mut drives_compress, work, log, &stop.0)?;
        }
    }
    Ok(drives_compress)
}

/// The processors of the clients of these jobs, all together.
fn processors_of(jobs: &[Job<'_>]) -> u32 {
    let mut clients: Vec<&Client> = jobs.iter().map(|job| &job.plan.client).collect();
    clients.sort_by_key(|client| &client.host);
    clients.dedup_by_key(|client| &client.host);
    clients.iter().map(|client| client.agent.processors().number).sum()
}

impl Writing<'_, '_> {
    /// What the writer is made with. `session` is the one that segments name, `others` has those of the streams of other ones.
    fn options(
        &self,
        (session, others): (&SessionLabel, HashMap<StreamId, SessionLabel>),
        keys: Vec<serde_json::Value>,
        segment_size: u64,
        supply: Supply,
    ) -> WriterOptions {
        let jobs = self.jobs;
        // Who backs up to a supply goes on with it in another session.
        let rereads = !supply.is_none()
            && jobs.iter().all(|job| matches!(job.request.source, Source::Paths(_)));
        let keeping = self.cell.keeping(jobs, &supply, &self.moves, self.log);
        WriterOptions {
            medium: self.medium.clone(),
            session: session.clone(),
            others,
            keys,
            segment_size,
            catalog_limit: CATALOG_LIMIT_DEFAULT,
            segment_time: SEGMENT_TIME,
            buffers: jobs.iter().map(|job| job.plan.buffers).sum(),
            now_us,
            rereads,
            next_media: Some(self.cell.changing(supply, &self.moves)),
            keeping,
        }
    }

    /// Says which mirrors were lost since it was said last.
    pub fn say_lost_mirrors(&self, lost: &LostMirrors) {
        self.mirrors_lost.fetch_add(say_all_lost(self.cell, lost, self.log), Relaxed);
    }

    /// Runs the disk agents of all jobs, watched. Gives what each handed over, and what the watch saw.
    fn run(
        &self,
        writer: &dyn SessionWriter,
        sources: Sources<'_>,
    ) -> (Vec<HandedOver>, Option<Seen>) {
        let jobs = self.jobs;
        let lost_mirrors = writer.lost_mirrors();
        let processors = processors_of(jobs);
        let streams: usize = jobs.iter().map(|job| job.plan.streams).sum();
        let counters: Vec<Arc<dyn Counting>> = sources.iter().map(|s| s.1.counting()).collect();
        let watched = Watched {
            waits: self.cell.devices.waits(),
            meters: &self.meters,
            lanes: Lanes { streams: streams as u32, processors },
            ladder: jobs.first().map(|job| (&*self.ladder, &*job.plan.client.agent)),
            stages: (Stage::Source, Stage::Device),
            progress: &|p| {
                let jobs = jobs.iter().zip(&counters);
                jobs.for_each(|(job, counters)| job.add_progress(&counters.counts(), p));
            },
            each: &|p| {
                self.say_lost_mirrors(&lost_mirrors);
                self.moves.say(self.log);
                self.log.progress(p);
            },
        };
        let port = writer.port();
        let all = || {
            std::thread::scope(|scope| {
                let mut running = Vec::new();
                for (job, (cursor, ready)) in jobs.iter().zip(sources) {
                    let (port, meters, stop) = (port.clone(), &self.meters, self.stop);
                    let run = move || job.run(port, meters, stop, cursor, ready);
                    let started = threads::start_in(scope, "disk agent", run);
                    running.push(started.inspect_err(|e| {
                        job.log.say(Code::NoThread, "disk agent", &job.plan.name, e.to_string());
                    }));
                }
                let handed = running.into_iter().zip(&counters).map(|(job, counters)| {
                    let ended = job.ok().and_then(|job| job.join().ok());
                    ended.unwrap_or_else(|| HandedOver::without_a_word(&**counters))
                });
                handed.collect::<Vec<HandedOver>>()
            })
        };
        watch::watched(&watched, all)
    }

    /// How the jobs ended, as far as it shows before their media have all of them.
    fn endings(
        &self,
        writer: &dyn SessionWriter,
        handed_over: &[HandedOver],
    ) -> Result<Vec<Ending>> {
        let cell = self.cell;
        let stopped = self.stop.0.load(Relaxed);
        self.say_lost_mirrors(&writer.lost_mirrors());
        cell.say_changed(self.log);
        let media_errors = self.log.error_count() + self.mirrors_lost.load(Relaxed);
        let ending = |(job, of): (&Job<'_>, &HandedOver)| {
            if !stopped {
                job.look_at_input(cell, of)?;
            }
            let mut ending = job.ending(cell, of, stopped, media_errors)?;
            if job.goes_on
                && let Some(end) = &mut ending.end
            {
                end.segments = cell.idb.segments_belonging_to(job.label.version)?;
            }
            Ok(ending)
        };
        self.jobs.iter().zip(handed_over).map(ending).collect()
    }
}
