//! What a restore would bring: counted, and where it lies.

use capstan_catalog::version::Overview;
use capstan_format::entry::Kind;
use capstan_idb::Status;
use capstan_port::disk::restore::{Prospect, RestoreTarget, ToForesee};
use capstan_wire::restore::TargetSpec;

use crate::error::Result;
use crate::kinds::restore::list::Tally;
use crate::kinds::restore::session::{RunOf, left_alone};
use crate::kinds::restore::to_tree::target_spec;
use crate::kinds::restore::wanted::chosen::Chosen;
use crate::kinds::restore::wanted::scope::{Scope, each_live};
use crate::kinds::restore::{pick, stripped};
use crate::reading::version::VersionView;
use crate::report::Report;
use crate::request::RestoreTo;
use crate::session::SessionLog;
use capstan_port::disk::lost::AgentLost;

/// So many rows are asked about at a time.
const ROWS: usize = 256;

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
    let request = run.request;
    let target = match &request.to {
        RestoreTo::Tar(_) => None,
        RestoreTo::Into(_) | RestoreTo::InPlace => {
            let spec = TargetSpec { only_looked_at: true, ..target_spec(request) };
            run.client.agent.open_target(&spec)?
        }
    };
    let mut rows: Vec<ToForesee> = Vec::new();
    let mut lost = None;
    each_live(view, overview, scope, &mut |row, path| {
        if !tally.takes(&row.entry, path) {
            return;
        }
        let to = |path: &[u8]| stripped(path, request.strip).map(<[u8]>::to_vec);
        let first_to = row.entry.link.then(|| to(&row.entry.target)).flatten();
        let (entry, user, group, acl) =
            (row.entry.clone(), row.user.clone(), row.group.clone(), row.acl.clone());
        rows.push(ToForesee { to: to(path), first_to, entry, user, group, acl });
        if rows.len() >= ROWS {
            // Errors are told when all rows are through.
            let counted = count(&mut rows, target.as_deref(), &mut tally);
            lost = lost.take().or(counted.err());
        }
    })?;
    lost.map_or(Ok(()), Err)?;
    count(&mut rows, target.as_deref(), &mut tally)?;
    if let Some(target) = &target {
        left_alone(&target.left_alone()?, &mut report);
    }
    (report.files, report.dirs, report.bytes_written) = (tally.files, tally.dirs, tally.data);
    report.pick = pick::list(view, overview, scope, &tally)?;
    report.media = report.pick.iter().map(|of| of.label.clone()).collect();
    log.fill(&*view.cell.devices, &mut report);
    Ok(report)
}

/// Counts rows that come, where what is in the target lets them.
fn count(
    rows: &mut Vec<ToForesee>,
    target: Option<&dyn RestoreTarget>,
    tally: &mut Tally<'_>,
) -> std::result::Result<(), AgentLost> {
    let prospects = target.map(|target| target.foresee(rows)).transpose()?.unwrap_or_default();
    for (at, row) in rows.drain(..).enumerate() {
        match prospects.get(at) {
            Some(Prospect::Stays) => {}
            Some(Prospect::Comes { is_first_kept }) => {
                tally.count_with(&row.entry, *is_first_kept);
            }
            None => {
                tally.count(&row.entry);
            }
        }
    }
    Ok(())
}
