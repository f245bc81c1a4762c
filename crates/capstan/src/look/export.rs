//! `capstan catalog export`: a catalog as a table for other tools.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::Ordering;

use capstan_cell::{CellError, ExportRequest, Exported};
use capstan_engine::message::path_text;
use indicatif::{HumanCount, ProgressBar};
use serde_json::json;

use crate::args::{ExportArgs, Global};
use crate::exit::{COMPLETED, COMPLETED_WITH_ERRORS, FAILED, Failure, one_line};
use crate::look::as_of::as_of;
use crate::output::{Output, json_line, stdout_is_terminal};
use crate::process::{home, signals};
use crate::text::sizes::{bytes_text, grouped};

/// Runs the command.
pub fn run(global: &Global, args: &ExportArgs) -> Result<u8, Failure> {
    match export(global, args) {
        // Standard output is for the table alone.
        Err(failure) if args.parquet.as_os_str() == "-" => Err(failure.in_json()),
        done => done,
    }
}

fn export(global: &Global, args: &ExportArgs) -> Result<u8, Failure> {
    let to = (args.parquet.as_os_str() != "-").then(|| args.parquet.clone());
    if to.is_none() && stdout_is_terminal() {
        return Err(Failure::bad_input(
            "a table is no text for a terminal",
            "give --parquet a file, or redirect standard output",
        ));
    }
    let interrupted = signals::told()
        .map_err(|e| Failure::of(FAILED, format!("cannot watch for signals: {e}"), None))?;
    let cell = home::open(global)?;
    let request = ExportRequest {
        version: as_of(global, &cell, &args.version, args.as_of.as_ref())?,
        all_versions: args.all_versions,
        to,
    };
    let bar = (io::stderr().is_terminal() && !global.quiet).then(ProgressBar::new_spinner);
    let done = cell.export_catalog(&request, &mut |rows| {
        if let Some(bar) = &bar {
            bar.set_message(format!("{} rows", HumanCount(rows)));
            bar.tick();
        }
        !interrupted.load(Ordering::Relaxed)
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let done = done.map_err(failure)?;
    if done.stopped {
        let error = "interrupted, so no table was written".to_owned();
        return Err(Failure::of(FAILED, error, None));
    }
    tell(global, &done);
    say(args, &done)?;
    let lost = cell.names_lost();
    if let Some(lost) = &lost {
        // Where nobody reads it, the exit code remains.
        let _ = writeln!(io::stderr(), "capstan: error: {}", one_line(&lost.to_string()));
    }
    Ok(match done.left_out.is_empty() && lost.is_none() {
        true => COMPLETED,
        false => COMPLETED_WITH_ERRORS,
    })
}

/// Where who reads standard output went away, there is nothing to say.
fn failure(error: CellError) -> Failure {
    match &error {
        CellError::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => {
            Failure::output(source)
        }
        _ => error.into(),
    }
}

/// Says what is not in the table. What the exit code tells of is an error.
fn tell(global: &Global, done: &Exported) {
    let mut stderr = io::stderr().lock();
    // Where nobody reads them, the exit code and the column `state` remain.
    for (called, why) in &done.left_out {
        let why = one_line(&why.to_string());
        let _ =
            writeln!(stderr, "capstan: error: {} is left out: {why}", path_text(called.as_bytes()));
    }
    if done.poor > 0 && !global.quiet {
        let _ = writeln!(
            stderr,
            "capstan: warning: {} rows have less than was backed up, as the column state says: more is not kept of these \
             catalogs, and their media are away; `capstan catalog load` fetches them",
            grouped(done.poor)
        );
    }
}

fn say(args: &ExportArgs, done: &Exported) -> Result<(), Failure> {
    let text = if args.json {
        let left_out = done.left_out.iter();
        let left_out: Vec<_> = left_out
            .map(|(called, e)| json!({"version": called, "error": e.to_string()}))
            .collect();
        json_line(&json!({
            "rows": done.rows,
            "bytes": done.bytes,
            "versions": done.versions,
            "poor_rows": done.poor,
            "left_out": left_out,
        }))
    } else {
        let of = match done.versions.as_slice() {
            [one] => path_text(one.as_bytes()).to_string(),
            more => format!("{} versions", grouped(more.len() as u64)),
        };
        let (rows, bytes) = (grouped(done.rows), bytes_text(done.bytes));
        let to = args.parquet.display().to_string();
        let to = if to == "-" { "standard output".to_owned() } else { one_line(&to) };
        format!("{rows} rows of {of} are written to {to}, {bytes}\n")
    };
    if args.parquet.as_os_str() == "-" {
        // Where nobody reads it, the exit code remains.
        let _ = io::stderr().lock().write_all(text.as_bytes());
        return Ok(());
    }
    let mut out = Output::new();
    out.text(&text)?;
    out.finish()
}
