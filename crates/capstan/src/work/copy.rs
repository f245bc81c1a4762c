//! `capstan copy` and `consolidate`: from arguments to requests.

use capstan_cell::request::{ConsolidateRequest, CopyRequest, CopyWhat};

use crate::args::{ConsolidateArgs, CopyArgs, CopyTargetArgs, Destination, Global};
use crate::exit::Failure;
use crate::work::session::{self, Show};

/// Runs `copy`.
pub fn copy(global: &Global, args: &CopyArgs) -> Result<u8, Failure> {
    let what = match (&args.version, &args.session) {
        (Some(version), _) => CopyWhat::Version(version.clone()),
        (None, Some(session)) => CopyWhat::Session(session.clone()),
        // One of the three is required.
        (None, None) => CopyWhat::Medium(args.medium.clone().unwrap_or_default()),
    };
    run(global, what, args.only, &args.target)
}

/// Runs a copy of that to a device.
pub fn run(
    global: &Global,
    what: CopyWhat,
    only: bool,
    target: &CopyTargetArgs,
) -> Result<u8, Failure> {
    let request = CopyRequest {
        what,
        only,
        log_level: target.log_level,
        device: target.to.clone(),
        eject_to: target.eject_to.clone(),
        block_size: target.block_size,
        new_medium: target.new_medium,
        encrypt: target.encrypt.map(Into::into),
    };
    let show = Show { method: "copy", json: target.json, to_stderr: false };
    session::run(global, &show, |cell, console, stop| Ok(cell.copy(&request, console, stop)?))
}

/// Runs `consolidate`.
pub fn consolidate(global: &Global, args: &ConsolidateArgs) -> Result<u8, Failure> {
    let request = ConsolidateRequest {
        version: args.version.clone(),
        device: args.to.as_ref().filter(|to| to.pool().is_none()).map(Destination::device),
        pool: args.to.as_ref().and_then(Destination::pool),
        block_size: args.block_size,
        new_medium: args.new_medium,
        encrypt: args.encrypt.map(Into::into),
    };
    let show = Show { method: "synthetic full", json: args.json, to_stderr: false };
    session::run(
        global,
        &show,
        |cell, console, stop| Ok(cell.consolidate(&request, console, stop)?),
    )
}
