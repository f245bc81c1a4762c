//! `capstan stage`, and `capstan media retire`: from arguments to a request.

use capstan_cell::Cell;
use capstan_cell::request::{StageRequest, Turn};
use capstan_cell::stage::RetireRequest;

use crate::args::{Global, RetireArgs, StageArgs};
use crate::exit::Failure;
use crate::work::session::{self, Show};

/// Runs the command.
pub fn run(global: &Global, args: &StageArgs) -> Result<u8, Failure> {
    let show = Show { method: "stage", json: args.json, to_stderr: false };
    session::run(global, &show, |cell, console, stop| {
        Ok(cell.stage(&request(args, cell)?, console, stop)?)
    })
}

/// Runs `media retire`.
pub fn retire(global: &Global, args: &RetireArgs) -> Result<u8, Failure> {
    let show = Show { method: "retire", json: args.json, to_stderr: false };
    let to = args.to.as_ref();
    let request = RetireRequest {
        medium: args.medium.clone(),
        device: to.filter(|to| to.pool().is_none()).map(|to| to.device()),
        pool: to.and_then(|to| to.pool()),
        no_copy: args.no_copy,
        new_medium: args.new_medium,
    };
    session::run(global, &show, |cell, console, stop| {
        Ok(cell.media_retire(&request, console, stop)?)
    })
}

/// The request that options mean.
pub fn request(args: &StageArgs, cell: &Cell) -> Result<StageRequest, Failure> {
    Ok(StageRequest {
        source: args.source.clone(),
        device: args.to.device(),
        pool: args.to.pool(),
        turn: Turn::of_now(),
        begun_before_us: args.older_than.as_ref().map(|when| when.us(cell)).transpose()?,
        keep: args.keep,
        block_size: args.block_size,
        new_medium: args.new_medium,
        encrypt: args.encrypt.map(Into::into),
        dry_run: args.dry_run,
    })
}
