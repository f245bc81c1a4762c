//! A restore into an archive.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::message::Code;
use capstan_engine::meter::{Meters, Stage};
use capstan_engine::verdict::{Flow, Lanes};
use capstan_port::disk::archive::ArchiveRefused;
use capstan_wire::restore::{ArchiveSpec, SpoolSpec};

use crate::Cell;
use crate::error::{CellError, RestoreRefusal, Result};
use crate::kinds::restore::session::RunOf;
use crate::kinds::restore::tar::{self, Told};
use crate::kinds::restore::tree::losses::Heard;
use crate::kinds::restore::wanted::chosen::Chosen;
use crate::kinds::skeleton::add_rates;
use crate::observe::Stop;
use crate::reading::version::VersionView;
use crate::report::Report;
use crate::request::{RestoreRequest, RestoreTo};
use crate::session::SessionLog;
use crate::session::watch::{self, Watched};

impl Cell {
    pub(super) fn restore_to_tar(
        &self,
        view: VersionView<'_>,
        run: &RunOf<'_>,
        chosen: &Chosen,
        log: &SessionLog<'_>,
        stop: &Stop,
    ) -> Result<Report> {
        let again = || -> Result<VersionView<'_>> {
            let mut view = VersionView::open(self, run.version.id)?;
            self.add_keys(&mut view, true)?;
            Ok(view)
        };
        let mut files_of = again()?;
        // They are read from where it was decided.
        files_of.segments.clone_from(&view.segments);
        let archive = run.client.agent.open_archive(&archive_spec(run.request), &stop.0);
        let archive = archive.map_err(|e| refused(e, run.request))?;
        run.record_begin()?;
        let counting = archive.counting();
        let (meters, heard) = (Meters::default(), Heard::new(log));
        // One file comes after the other.
        let processors = run.client.agent.processors().number;
        let watched = Watched {
            waits: self.devices.waits(),
            meters: &meters,
            lanes: Lanes { streams: 1, processors },
            ladder: None,
            stages: (Stage::Device, Stage::Source),
            progress: &|p| {
                let counts = counting.counts();
                (p.files, p.bytes) = (counts.files, counts.bytes);
            },
            each: &|p| log.progress(p),
        };
        let (result, seen) = watch::watched(&watched, || {
            let told = Told { heard: &heard, meters: &meters, stop };
            tar::write(view, &files_of, run.request, chosen, archive, &told)
        });
        let away = heard.away.say(self, log)?;
        let stopped = stop.0.load(Relaxed);
        if stopped {
            log.stopped(&run.request.version.name);
        } else if let Err(e) = &result {
            log.say(Code::NotWritten, "cell", &run.request.version.name, crate::error::chain(e));
        }
        files_of.say_names_lost(&run.request.version.name, log);
        let status = run.session.status(result.is_err() && !stopped, false, log);
        let counts = counting.counts();
        let bytes = counts.bytes;
        let mut report = Report {
            files: counts.files,
            dirs: counts.dirs,
            corrupt: counts.lost,
            bytes_read: counts.bytes_read,
            bytes_written: bytes,
            media: files_of.media.used_media(),
            ..run.report(status)
        };
        add_rates(&mut report, bytes, seen.as_ref());
        report.set_away(away);
        if let Some(seen) = &seen {
            report.set_stages(&meters, seen.verdict, Flow::Restore);
        }
        files_of.media.say_replicas(log, &mut report);
        let drives = self.devices.take_sessions();
        run.session.add_drives_read(&mut report, &drives, true, log);
        log.fill(&*self.devices, &mut report);
        run.session.record_end(status, &report)?;
        Ok(report)
    }
}

/// Why the archive of a request is not opened.
fn refused(why: ArchiveRefused, request: &RestoreRequest) -> CellError {
    match (why, &request.to) {
        (ArchiveRefused::Lost(lost), _) => lost.into(),
        (ArchiveRefused::NotMade(why), RestoreTo::Tar(Some(path))) => {
            RestoreRefusal::ArchiveNotMade { path: path.clone(), why }.into()
        }
        (ArchiveRefused::NotMade(_) | ArchiveRefused::OutputClosed, _) => {
            RestoreRefusal::OutputClosed.into()
        }
    }
}

/// What an archive is written to, and with what.
fn archive_spec(request: &RestoreRequest) -> ArchiveSpec {
    let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
    let file = match &request.to {
        RestoreTo::Tar(Some(file)) => bytes(file),
        RestoreTo::Tar(None) | RestoreTo::Into(_) | RestoreTo::InPlace => Vec::new(),
    };
    let spool = request.spool.as_ref();
    let spool = spool.map(|plan| SpoolSpec { directory: bytes(&plan.dir), bytes: plan.size });
    ArchiveSpec { file, numeric_ids: request.numeric_ids, spool }
}
