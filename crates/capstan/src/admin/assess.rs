//! `capstan assess`: measuring, and the data to measure with.

use std::time::{Duration, Instant};

use capstan_assess::create_data::{CreateDataError, create_data};
use capstan_cell::observe::{Observer, Progress};
use parking_lot::Mutex;
use serde_json::json;

use crate::args::{AssessCommand, CreateDataArgs, Global};
use crate::exit::{BAD_INPUT, COMPLETED, FAILED, Failure};
use crate::output::Output;
use crate::output::progress::Console;
use crate::text::sizes::{bytes_text, grouped, seconds_text};

/// Between two looks at how far the writers are.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Runs `assess`.
pub fn run(global: &Global, command: &AssessCommand) -> Result<u8, Failure> {
    match command {
        AssessCommand::CreateData(args) => create(global, args),
    }
}

fn create(global: &Global, args: &CreateDataArgs) -> Result<u8, Failure> {
    let options = args.options();
    let console = Console::new(global)?;
    let start = Instant::now();
    // When progress was last shown, and the bytes then.
    let last = Mutex::new((start, 0u64));
    let progress = |bytes: u64, files: u64| {
        // Writers call it for every file; who finds another one showing it goes on.
        let Some(mut last) = last.try_lock() else { return };
        let now = Instant::now();
        let time = now.duration_since(last.0);
        if time < LOOK_EVERY {
            return;
        }
        let rate = bytes.saturating_sub(last.1) as f64 / time.as_secs_f64();
        *last = (now, bytes);
        console.progress(&Progress {
            elapsed_s: now.duration_since(start).as_secs_f64(),
            files,
            bytes,
            rate_in: rate,
            rate_out: rate,
            ..Progress::default()
        });
    };
    let summary = create_data(&args.dir, &options, &progress);
    console.finish();
    let summary = summary.map_err(|e| failure(&e))?;
    let mut out = Output::new();
    if args.json {
        out.json(&json!({ "options": options, "summary": summary }))?;
    } else {
        out.text(&format!(
            "{} files in {} directories, {}, {} in pieces; {} at {:.1} MB/s\n",
            grouped(summary.files),
            grouped(summary.dirs),
            bytes_text(summary.bytes),
            grouped(summary.fragmented_files),
            seconds_text(summary.elapsed_s),
            summary.rate_mb_s,
        ))?;
    }
    out.finish().map(|()| COMPLETED)
}

fn failure(error: &CreateDataError) -> Failure {
    let code = if error.is_bad_input() { BAD_INPUT } else { FAILED };
    let mut failure = Failure::new(code, error);
    // These errors put what to do after a colon.
    if failure.hint.is_none()
        && let Some((what, hint)) = failure.error.clone().split_once(": ")
    {
        let (hint, cause) = hint.split_once(": ").unwrap_or((hint, ""));
        failure.error = if cause.is_empty() { what.to_owned() } else { format!("{what}: {cause}") };
        failure.hint = Some(hint.to_owned());
    }
    failure
}
