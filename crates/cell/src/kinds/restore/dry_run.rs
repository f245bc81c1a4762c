//! What a restore would bring: counted, and where it lies.

use capstan_catalog::version::Overview;
use capstan_disk_agent::target::{Found, Target, TargetOptions};
use capstan_format::entry::{Kind, split};
use capstan_idb::Status;

use crate::error::Result;
use crate::kinds::restore::list::Tally;
use crate::kinds::restore::session::{RunOf, left_alone};
use crate::kinds::restore::wanted::chosen::Chosen;
use crate::kinds::restore::wanted::scope::{Scope, each_live};
use crate::kinds::restore::{pick, stripped};
use crate::reading::version::VersionView;
use crate::report::Report;
use crate::request::{RestoreRequest, RestoreTo};
use crate::session::SessionLog;

/// How many files are known of a version, directories aside.
pub(crate) fn files_known(view: &VersionView<'_>, overview: &Overview) -> Result<u64> {
    let mut files = 0;
    each_live(view, overview, &Scope::default(), &mut |row, _| {
        files += u64::from(row.entry.kind != Kind::Dir);
    })?;
    Ok(files)
}

pub(super) fn dry_run(
    view: &VersionView<'_>,
    overview: &Overview,
    chosen: &Chosen,
    scope: &Scope,
    run: &RunOf<'_>,
    log: &SessionLog<'_>,
) -> Result<Report> {
    let mut tally = Tally::new(run.request, chosen);
    let mut report = run.report(Status::Completed);
    report.method = "dry run".to_owned();
    let RestoreRequest { to, strip, overwrite, numeric_ids, .. } = run.request;
    let options = TargetOptions { overwrite: *overwrite, numeric_ids: *numeric_ids };
    let target = match to {
        RestoreTo::Into(dir) => Target::open_existing(dir, options)?,
        RestoreTo::InPlace => Some(Target::in_place(options)?),
        RestoreTo::Tar(_) => None,
    };
    let mut worker = target.as_ref().map(Target::worker);
    each_live(view, overview, scope, &mut |row, path| {
        let entry = &row.entry;
        if !tally.takes(entry, path) {
            return;
        }
        let mut is_first_kept = false;
        if entry.kind != Kind::Dir
            && let (Some(worker), Some(to)) = (&mut worker, stripped(path, *strip))
        {
            let (dir, name) = split(to);
            let owners = (row.user.as_deref(), row.group.as_deref());
            let here = worker.target().ids().here(entry, owners, row.acl.as_deref());
            if worker.would_keep(&here, dir, name) {
                return;
            }
            let first = stripped(&entry.target, *strip).filter(|_| entry.link).map(split);
            is_first_kept =
                first.is_some_and(|(dir, name)| worker.found(entry, dir, name) == Found::Other);
        }
        tally.count_with(entry, is_first_kept);
    })?;
    if let Some(target) = &target {
        left_alone(target, &mut report);
    }
    (report.files, report.dirs, report.bytes_written) = (tally.files, tally.dirs, tally.data);
    report.pick = pick::list(view, overview, scope, &tally)?;
    report.media = report.pick.iter().map(|of| of.label.clone()).collect();
    log.fill(&*view.cell.devices, &mut report);
    Ok(report)
}
