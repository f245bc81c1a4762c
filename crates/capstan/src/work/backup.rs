//! `capstan backup`: from arguments to a request.

use std::path::PathBuf;
use std::sync::Arc;

use capstan_cell::observe::Stop;
use capstan_cell::request::{BackupRequest, Foreseen, Level, Pattern, Source};
use capstan_cell::{Cell, split_tags};
use capstan_engine::clock;
use serde_json::{Map, Value};

use crate::args::{BackupArgs, Global};
use crate::exit::{Failure, one_line};
use crate::look::ls::Lines;
use crate::output::progress::Console;
use crate::output::report_text::View;
use crate::output::{put_path, shown_path};
use crate::process::home;
use crate::work::selection;
use crate::work::session::{self, Show};

/// Runs the command.
pub fn run(global: &Global, args: &BackupArgs) -> Result<u8, Failure> {
    if args.list {
        return list(global, args);
    }
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

/// Lists what would become of each path, and says what a dry run says.
fn list(global: &Global, args: &BackupArgs) -> Result<u8, Failure> {
    let console = Arc::new(Console::new(global)?);
    let stop = Arc::new(Stop::default());
    session::on_signals(&stop, &console)?;
    let cell = home::open(global)?;
    let request = request(args)?;
    let mut lines = Lines::of(global.device_host(), args.json, "files");
    let done = cell.foresee_backup(&request, console.as_ref(), &stop, &mut |seen| {
        if args.json {
            return lines.row(&json_of(seen));
        }
        lines.put(|out, terminal| {
            out.text(&format!("{:<10}", seen.fate.name()))?;
            let size = if seen.bytes > 0 { seen.bytes.to_string() } else { String::new() };
            out.text(&format!("{size:>15}  "))?;
            out.bytes(&shown_path(&seen.path, terminal))?;
            let what = if seen.contents { "what is in it: " } else { "" };
            let rule = seen.rule.as_ref().map(|rule| format!("  ({what}{})", one_line(rule)));
            out.text(&rule.unwrap_or_default())?;
            out.text("\n")
        });
    });
    console.finish();
    let report = match done {
        Ok(report) => report,
        Err(e) => return lines.end(Map::new(), Some(e.into())),
    };
    let mut more = Map::new();
    if args.json {
        more.insert("report".to_owned(), serde_json::to_value(&report).unwrap_or_default());
    } else {
        let text = View::of(&report)?.text(false);
        lines.put(|out, _| out.text(&format!("\n{text}")));
    }
    lines.end(more, None)?;
    Ok(report.exit_code())
}

fn json_of(seen: &Foreseen) -> Map<String, Value> {
    let mut object = Map::new();
    put_path(&mut object, "path", &[b"/", &seen.path[..]].concat());
    object.insert("state".to_owned(), seen.fate.name().into());
    object.insert("bytes".to_owned(), seen.bytes.into());
    object.insert("rule".to_owned(), seen.rule.clone().into());
    object.insert("contents".to_owned(), seen.contents.into());
    object
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
        client: None,
        mirrors: args.mirror.clone(),
        device: args.to.device(),
        pool: args.to.pool(),
        name: args.name.clone(),
        level: level(args),
        resume: args.resume,
        run_us: clock::now_us(),
        dry_run: args.dry_run,
        tags: args.tags.iter().flat_map(|tags| split_tags(tags)).collect(),
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
