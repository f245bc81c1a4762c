//! `capstan backup`: from arguments to a request.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use capstan_cell::Cell;
use capstan_cell::observe::Stop;
use capstan_cell::request::{BackupRequest, Level, Source};
use capstan_devices::operator;
use capstan_engine::threads;

use crate::args::{BackupArgs, Global, split_paths};
use crate::exit::{FAILED, Failure};
use crate::progress::Console;
use crate::session::{self, Show};

/// How soon a stop is heard while a list is read.
const NAP: Duration = Duration::from_millis(100);
/// Most bytes of a file of paths or patterns: some ten million paths.
const LIST_MAX: u64 = 1 << 30;

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
    session::run_or(global, &show, backup, |cell, report| {
        // Where the database is what fails, the error says so.
        let _ = cell.record_unbegun(&bare(args), false, report);
    })
}

/// The request that options mean.
pub fn request(args: &BackupArgs) -> Result<BackupRequest, Failure> {
    let mut exclude = Vec::new();
    for file in &args.select.exclude_from {
        exclude.extend(patterns(file)?);
    }
    // What is typed overrides what is in files: later patterns decide.
    exclude.extend_from_slice(&args.select.exclude);
    let mut paths = args.paths.clone();
    if let Some(file) = &args.input.files_from {
        paths.extend(split_paths(&read_list(file)?));
        if paths.is_empty() {
            return Err(Failure::bad_input(
                format!("{} names no path", shown(file)),
                "give one path per line",
            ));
        }
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
        exclude: select.exclude.clone(),
        include: select.include.clone(),
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

/// The lines of a file of patterns.
fn patterns(file: &Path) -> Result<Vec<String>, Failure> {
    let text = String::from_utf8(read_list(file)?).map_err(|_| {
        Failure::bad_input(
            format!("{} is not UTF-8", shown(file)),
            "write patterns as UTF-8; ? matches any byte of a name that is not",
        )
    })?;
    // A file from another system may begin with a byte order mark.
    Ok(text.trim_start_matches('\u{feff}').lines().map(str::to_owned).collect())
}

fn read_list(file: &Path) -> Result<Vec<u8>, Failure> {
    let path = file.to_owned();
    let read = move || {
        let mut content = Vec::new();
        let mut read = |from: &mut dyn Read| from.take(LIST_MAX + 1).read_to_end(&mut content);
        match path.as_os_str() == "-" {
            true => read(&mut io::stdin().lock()),
            false => File::open(&path).and_then(|mut file| read(&mut file)),
        }?;
        Ok(content)
    };
    // A pipe may have nobody who writes to it. Who reads from it then ends with the process.
    let Some(content) = while_needed(read) else {
        let why = format!("stopped before all of {} was read", shown(file));
        return Err(Failure::of(FAILED, why, None));
    };
    let content = content.map_err(|e| {
        Failure::bad_input(format!("cannot read {}: {e}", shown(file)), "check its path and mode")
    })?;
    if content.len() as u64 > LIST_MAX {
        return Err(Failure::bad_input(
            format!("{} is longer than 1 GiB", shown(file)),
            "back up directories instead of their files",
        ));
    }
    Ok(content)
}

/// What is read in a thread of its own; nothing, where the session is to end before.
fn while_needed(
    read: impl FnOnce() -> io::Result<Vec<u8>> + Send + 'static,
) -> Option<io::Result<Vec<u8>>> {
    let (tell, hear) = mpsc::channel();
    let reader = threads::start("list", move || {
        // Where nobody hears it, the session has ended.
        let _ = tell.send(read());
    });
    if let Err(e) = reader {
        return Some(Err(io::Error::other(e)));
    }
    while !operator::has_left() {
        match hear.recv_timeout(NAP) {
            Ok(content) => return Some(content),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Some(Err(io::Error::other("its reader ended")));
            }
        }
    }
    None
}

fn shown(file: &Path) -> String {
    if file.as_os_str() == "-" { "standard input".to_owned() } else { file.display().to_string() }
}
