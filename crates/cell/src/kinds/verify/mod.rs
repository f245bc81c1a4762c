//! A verify session: reads everything, trusts nothing, and names the files that damage costs.

pub(crate) mod judge;

mod damage;
mod elsewhere;
mod part;
mod plan;
mod reading;

use std::collections::HashMap;

use capstan_catalog::version::Overview;
use capstan_engine::message::Code;
use capstan_engine::meter::{Meters, Stage};
use capstan_engine::verdict::{Flow, Lanes};
use capstan_format::id::{MediumId, SegmentNumber, VersionId};
use capstan_idb::Status;

use self::damage::Damage;
use self::part::{Part, Planned, records_of};
use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::kinds::restore::files_known;
use crate::kinds::skeleton::{SessionRun, add_rates};
use crate::kinds::verify::plan::Asked;
use crate::kinds::verify::reading::Verification;
use crate::observe::{Observer, Stop};
use crate::reading::version::VersionView;
use crate::report::{AwayReport, Report};
use crate::request::VerifyRequest;
use crate::session::SessionLog;
use crate::session::watch::{self, Watched};

/// What a verification comes to.
#[derive(Default)]
struct Judged {
    /// Files that were found.
    files: u64,
    /// Files that damage costs.
    corrupt: u64,
    away: Vec<AwayReport>,
}

impl Cell {
    /// Says what is known already that a version lacks.
    fn say_lacks_known(
        &self,
        view: &VersionView<'_>,
        name: &str,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        if let Some(version) = self.idb.version(view.version)? {
            self.say_incomplete(&version, log)?;
        }
        let known = || files_known(view, &Overview::with_replaced(view).ok()?).ok();
        self.say_lost(view.version, name, known, log)
    }

    /// Verifies a version or a medium.
    pub fn verify(
        &self,
        request: &VerifyRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let session = SessionRun::begin(self, "verify", stop)?;
        let log = SessionLog::new(observer);
        self.check_pages(&log);
        let Asked { name, planned, version: mut view, changed, _wanted, _booked, _reading } =
            self.verify_plan(request)?;
        let version = view.as_ref().map(|view| view.version);
        for text in changed {
            log.say(Code::MediumChanged, "cell", &name, text);
        }
        // The database's may have been wrapped anew since the medium was written.
        let known = view.as_ref().and_then(|view| self.key_records(view).ok());
        let records =
            known.unwrap_or_else(|| records_of(&*self.agents.media, &planned, view.as_ref()));
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
            each: &|p| log.progress(p),
        };
        if let Some(view) = &mut view {
            view.keys.extend(&keys);
            self.say_lacks_known(view, &name, &log)?;
        }
        let mut reading = Verification::new(self, (&log, stop, &meters), &keys, view.as_ref());
        let (done, seen) = watch::watched(&watched, || reading.all(planned, view.as_ref(), &name));
        done?;
        let Verification { mut damage, parts, unreadable, files, closed, .. } = reading;
        say_closed(closed, opened.why, &name, &log);
        let degraded =
            parts.iter().filter(|part| Self::say_problems(&part.medium, &log)).count() > 0;
        let mut judged = Judged { files, ..Judged::default() };
        if !session.is_stopped() {
            judged = match (&view, version) {
                (Some(view), Some(version)) => {
                    let of = (view, version, &*name);
                    self.judge_version(of, &mut damage, judged, closed > 0, &log)?
                }
                _ => {
                    let (corrupt, unread) = damage.say(self, &parts, closed > 0, &log)?;
                    Judged { corrupt, away: unread.say(self, &log)?, ..judged }
                }
            };
        }
        let status = session.status(false, degraded, &log);
        let bytes = meters.of(Stage::Device).read().bytes;
        let labels = parts.iter().map(|part| part.medium.header().label.clone());
        let mut report = Report {
            files: judged.files,
            corrupt: judged.corrupt,
            bytes_read: bytes,
            media: labels.chain(unreadable).collect(),
            ..session.report(&name, status)
        };
        add_rates(&mut report, bytes, seen.as_ref());
        report.set_away(judged.away);
        if let Some(seen) = &seen {
            report.set_stages(&meters, seen.verdict, Flow::Restore);
        }
        session.add_drives_read(&mut report, &self.devices.take_sessions(), true, &log);
        log.fill(&*self.devices, &mut report);
        let version = version.map(|id| self.idb.version(id)).transpose()?.flatten();
        session.record_whole(status, version.map(|v| v.object), &report)?;
        Ok(report)
    }

    /// Names the files of a version that damage costs.
    fn judge_version(
        &self,
        (view, version, name): (&VersionView<'_>, VersionId, &str),
        damage: &mut Damage<'_>,
        read: Judged,
        is_sealed: bool,
        log: &SessionLog<'_>,
    ) -> Result<Judged> {
        let mut losses = damage.losses_of_version(self)?;
        match judge::version(view, &mut losses, damage.opened(), log) {
            Ok(passed) => Ok(Judged {
                files: passed.files,
                corrupt: passed.lost,
                away: passed.away.say(self, log)?,
            }),
            Err(e) => {
                self.say_unnamed(version, name, is_sealed, &e, log)?;
                Ok(read)
            }
        }
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
                _ => self.read_segment(&part.medium, *number).ok()?.bytes().ok(),
            },
        };
        planned.segments().iter().filter_map(of).sum()
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
        log: &SessionLog<'_>,
    ) -> Result<()> {
        let status = self.idb.version(version)?.map(|v| v.status);
        let complete = matches!(status, Some(Status::Completed | Status::CompletedWithErrors));
        if !complete {
            let text = format!(
                "the backup did not end: files are missing, and cannot be named: {}",
                chain(why)
            );
            log.say(Code::Missing, "cell", name, text);
        } else if !sealed {
            let text = format!("its rows cannot be read: {}", chain(why));
            log.say(Code::Damaged, "cell", name, text);
        }
        Ok(())
    }
}

/// Says how many frames were not opened, as there was no key.
fn say_closed(closed: u64, why: Option<CellError>, name: &str, log: &SessionLog<'_>) {
    if closed == 0 {
        return;
    }
    let why = why.map(|e| format!(" ({e})")).unwrap_or_default();
    let text = format!(
        "{closed} encrypted frames were not opened{why}: only their checksums were checked, and files in them cannot be named"
    );
    log.say(Code::Sealed, "cell", name, text);
}
