//! `capstan backup`: from arguments to a request.

use std::path::PathBuf;

use capstan_cell::Cell;
use capstan_cell::observe::Stop;
use capstan_cell::request::{BackupRequest, Level, Pattern, Source};

use crate::args::{BackupArgs, Global};
use crate::exit::Failure;
use crate::progress::Console;
use crate::selection;
use crate::session::{self, Show};

/// Runs the command.
pub fn run(global: &Global, args: &BackupArgs) -> Result<u8, Failure> {
    let method = match level(args) {
        Some(Level::Full) => "full",
        Some(_) => "incr",
        None => "backup",
    };
    let show = Show { method, json: args.json, to_stderr: false };
    let backup = |cell: &Cell, console: &Console, stop: &Stop| {
        let request = request(args)?;
        Ok(cell.backup(&request, console, stop)?)
    };
    session::run_or(global, &show, backup, |cell, failure, report| {
        // Where the database is what fails, the error says so.
        let _ = cell.record_unbegun(&bare(args), false, failure.code, report);
    })
}

/// The request that options mean.
pub fn request(args: &BackupArgs) -> Result<BackupRequest, Failure> {
    let exclude = selection::patterns(&args.select.exclude_from, &args.select.exclude)?;
    let mut paths = args.paths.clone();
    if let Some(file) = &args.input.files_from {
        paths.extend(selection::paths_in(file)?.into_iter().map(PathBuf::from));
    }
    let bare = bare(args);
    let source = match bare.source {
        Source::Paths(_) => Source::Paths(paths),
        input => input,
    };
    Ok(BackupRequest { source, exclude, ..bare })
}

/// The same without what stands in files, which may be what is wrong.
pub fn bare(args: &BackupArgs) -> BackupRequest {
    let (select, busy, tune) = (&args.select, &args.busy, &args.tune);
    BackupRequest {
        source: source(args),
        mirrors: args.mirror.clone(),
        device: args.to.device(),
        pool: args.to.pool(),
        name: args.name.clone(),
        level: level(args),
        resume: args.resume,
        dry_run: args.dry_run,
        tags: args.tags.clone(),
        log_level: args.log_level,
        keep: args.keep.keep(),
        streams: tune.streams.map(usize::from),
        concurrency: tune.concurrency.most(),
        eject_to: args.eject_to.clone(),
        block_size: tune.block_size,
        new_medium: args.new_medium,
        segment_size: tune.segment_size,
        buffers: tune.buffers.map(|n| n as usize),
        compression: tune.compress,
        encrypt: tune.encrypt.map(Into::into),
        crc: !tune.no_crc,
        read: tune.read.into(),
        exclude: Pattern::typed(&select.exclude),
        include: Pattern::typed(&select.include),
        exclude_caches: select.exclude_caches,
        exclude_if_present: select.exclude_if_present.clone(),
        sizes: select.files_of_size.clone(),
        one_file_system: select.one_file_system,
        hard_links_as_files: select.hard_links_as_files,
        lock_files: busy.lock_files,
        locked: busy.locked.into(),
        retries: busy.retries,
        retry_wait: busy.retry_wait,
    }
}

fn level(args: &BackupArgs) -> Option<Level> {
    match args.level {
        _ if args.full => Some(Level::Full),
        _ if args.incr => Some(Level::Incremental),
        n => n.map(Level::Numbered),
    }
}

fn source(args: &BackupArgs) -> Source {
    let input = &args.input;
    match &input.from_command {
        Some(command) => Source::Command(command.clone(), input.stdin_name.clone()),
        None if input.stdin => Source::Stdin(input.stdin_name.clone()),
        None => Source::Paths(args.paths.clone()),
    }
}
