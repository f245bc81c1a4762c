//! A restore into an archive.

use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::message::Code;
use capstan_engine::meter::Stage;
use capstan_engine::verdict::{Flow, Lanes};

use crate::Cell;
use crate::error::Result;
use crate::kinds::restore::check;
use crate::kinds::restore::session::RunOf;
use crate::kinds::restore::tar::{self, Archived};
use crate::kinds::restore::wanted::chosen::Chosen;
use crate::kinds::skeleton::add_rates;
use crate::observe::Stop;
use crate::reading::version::VersionView;
use crate::report::Report;
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
        let out = check::open_archive(run.request, stop)?;
        run.record_begin()?;
        let counts = Archived::default();
        // One file comes after the other.
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let watched = Watched {
            waits: self.devices.waits(),
            meters: &counts.meters,
            lanes: Lanes { streams: 1, processors },
            ladder: None,
            stages: (Stage::Device, Stage::Source),
            progress: &|p| {
                p.files = counts.files.load(Relaxed);
                p.bytes = counts.bytes.load(Relaxed);
            },
            each: &|p| log.progress(p),
        };
        let (result, seen) = watch::watched(&watched, || {
            let request = run.request;
            tar::write(view, &files_of, request, chosen, out, log, stop, &counts)
        });
        let away = counts.away.say(self, log)?;
        let stopped = stop.0.load(Relaxed);
        if stopped {
            log.stopped(&run.request.version.name);
        } else if let Err(e) = &result {
            log.say(Code::NotWritten, "cell", &run.request.version.name, crate::error::chain(e));
        }
        files_of.say_names_lost(&run.request.version.name, log);
        let status = run.session.status(result.is_err() && !stopped, false, log);
        let bytes = counts.bytes.load(Relaxed);
        let mut report = Report {
            files: counts.files.load(Relaxed),
            dirs: counts.dirs.load(Relaxed),
            corrupt: counts.corrupt.load(Relaxed),
            bytes_read: counts.bytes_read.load(Relaxed),
            bytes_written: bytes,
            media: files_of.media.used_media(),
            ..run.report(status)
        };
        add_rates(&mut report, bytes, seen.as_ref());
        report.set_away(away);
        if let Some(seen) = &seen {
            report.set_stages(&counts.meters, seen.verdict, Flow::Restore);
        }
        files_of.media.say_replicas(log, &mut report);
        let drives = self.devices.take_sessions();
        run.session.add_drives_read(&mut report, &drives, true, log);
        log.fill(&*self.devices, &mut report);
        run.session.record_end(status, &report)?;
        Ok(report)
    }
}
