//! `capstan restore`, `verify`, `drill` and `import`: from arguments to requests.

use capstan_cell::request::{DrillRequest, RestoreRequest, RestoreTo, VerifyRequest};

use capstan_devices::tape::SpoolPlan;

use crate::args::{DrillArgs, Global, ImportArgs, RestoreArgs, VerifyArgs};
use crate::exit::Failure;
use crate::output::bytes_of;
use crate::session::{self, Show};

/// Runs `restore`.
pub fn restore(global: &Global, args: &RestoreArgs) -> Result<u8, Failure> {
    let to = match (&args.into, &args.to_tar) {
        (Some(dir), _) => RestoreTo::Into(dir.clone()),
        (None, Some(file)) if file.as_os_str() == "-" => RestoreTo::Tar(None),
        (None, Some(file)) => RestoreTo::Tar(Some(file.clone())),
        // One of the three is required.
        (None, None) => RestoreTo::InPlace,
    };
    let to_stderr = matches!(to, RestoreTo::Tar(None));
    let request = RestoreRequest {
        version: args.version.as_of(args.as_of),
        paths: args.paths.iter().map(|path| bytes_of(path)).collect(),
        to,
        strip: args.strip.into(),
        overwrite: args.overwrite.into(),
        dry_run: args.dry_run,
        numeric_ids: args.numeric_ids,
        spool: args.spool.clone().map(|dir| SpoolPlan { dir, size: args.spool_size }),
    };
    let show = Show { method: "restore", json: args.json, to_stderr };
    if args.and.is_empty() {
        return session::run(global, &show, |cell, console, stop| {
            Ok(cell.restore(&request, console, stop)?)
        });
    }
    let others = args.and.iter().map(|version| version.as_of(args.as_of));
    let one = |version| RestoreRequest { version, ..request.clone() };
    let all: Vec<_> = std::iter::once(request.clone()).chain(others.map(one)).collect();
    session::run_all(global, &show, |cell, console, stop| {
        let reports = cell.restore_together(&all, console, stop)?;
        Ok(reports.into_iter().map(|report| report.map_err(Failure::from)).collect())
    })
}

/// Runs `verify`.
pub fn verify(global: &Global, args: &VerifyArgs) -> Result<u8, Failure> {
    let request = match (&args.version, &args.medium) {
        (Some(version), _) => VerifyRequest::Version(version.clone()),
        // One of the two is required.
        (None, medium) => VerifyRequest::Medium(medium.clone().unwrap_or_default()),
    };
    let show = Show { method: "verify", json: args.json, to_stderr: false };
    session::run(global, &show, |cell, console, stop| Ok(cell.verify(&request, console, stop)?))
}

/// Runs `drill`.
pub fn drill(global: &Global, args: &DrillArgs) -> Result<u8, Failure> {
    let request = DrillRequest {
        version: args.version.clone(),
        sample: args.sample,
        scratch: Some(args.scratch.clone()),
    };
    let show = Show { method: "drill", json: args.json, to_stderr: false };
    session::run(global, &show, |cell, console, stop| Ok(cell.drill(&request, console, stop)?))
}

/// Runs `import`.
pub fn import(global: &Global, args: &ImportArgs) -> Result<u8, Failure> {
    let show = Show { method: "import", json: args.json, to_stderr: false };
    session::run(global, &show, |cell, console, stop| {
        Ok(cell.import(&args.device, console, stop)?)
    })
}
