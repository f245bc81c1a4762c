//! Running a session: signals, messages, progress, and the report at its end.

use capstan_address::HostName;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use capstan_cell::Cell;
use capstan_cell::observe::Stop;
use capstan_cell::report::{Report, ReportError};
use capstan_engine::{leaving, threads};
use capstan_medium::host::{DeviceHost, Tapes};
use jiff::Timestamp;
use serde_json::json;
use signal_hook::iterator::Signals;

use crate::args::Global;
use crate::exit::{BAD_INPUT, COMPLETED, COMPLETED_WITH_ERRORS, FAILED, Failure};
use crate::output::progress::Console;
use crate::output::report_text::{DRY_RUN, View};
use crate::output::{Output, json_line};
use crate::process::{home, signals};

/// How a session shows its report.
pub struct Show {
    /// What it does, as `Report::method` has it where no session began.
    pub method: &'static str,
    /// As a JSON object.
    pub json: bool,
    /// On standard error, since standard output carries data.
    pub to_stderr: bool,
}

/// Runs a session and gives its exit code.
pub fn run(
    global: &Global,
    show: &Show,
    session: impl FnOnce(&Cell, &Console, &Stop) -> Result<Report, Failure>,
) -> Result<u8, Failure> {
    run_or(global, show, session, |_, _, _| ())
}

/// The same; `refused` gets the report of one that could not begin.
pub fn run_or(
    global: &Global,
    show: &Show,
    session: impl FnOnce(&Cell, &Console, &Stop) -> Result<Report, Failure>,
    refused: impl FnOnce(&Cell, &Failure, &mut Report),
) -> Result<u8, Failure> {
    let start = Timestamp::now();
    let result = watched(global, |cell, console, stop| {
        Ok(session(cell, console, stop).map_err(|failure| {
            let failure = global.named(failure);
            let mut report = failed(&global.devices, cell.host(), show.method, start, &failure);
            refused(cell, &failure, &mut report);
            (failure, Box::new(report))
        }))
    });
    let without_home = |failure: Failure| {
        let host = capstan_cell::system_host();
        let report = failed(&global.devices, &host, show.method, start, &failure);
        Err((failure, Box::new(report)))
    };
    match result.unwrap_or_else(without_home) {
        Ok(mut report) => {
            // Those of what followed on the session.
            report.faults.append(&mut global.devices.take_struck());
            print(global, show, &report)?;
            Ok(report.exit_code())
        }
        Err((failure, report)) => {
            if show.json {
                // Programs get their one object, whatever happened.
                print(global, show, &report)?;
            }
            Err(failure.in_json())
        }
    }
}

/// Runs several sessions at once, and gives the gravest of their exit codes. Their reports are shown one after the other; as JSON they are the list `sessions` of one
/// object.
pub fn run_all(
    global: &Global,
    show: &Show,
    sessions: impl FnOnce(&Cell, &Console, &Stop) -> Result<Vec<Result<Report, Failure>>, Failure>,
) -> Result<u8, Failure> {
    let start = Timestamp::now();
    let mut code = COMPLETED;
    let mut reports = Vec::new();
    let sessions = |cell: &Cell, console: &Console, stop: &Stop| {
        Ok((cell.host().to_owned(), sessions(cell, console, stop)?))
    };
    let (host, results) = watched(global, sessions)?;
    for result in results {
        let report = result.unwrap_or_else(|failure| {
            let failure = global.named(failure);
            failure.say();
            code = gravest(code, failure.code);
            failed(&global.devices, &host, show.method, start, &failure)
        });
        code = gravest(code, report.exit_code());
        if show.json {
            reports.push(report);
        // Of one that could not begin all was said.
        } else if !report.session.is_empty() {
            print(global, show, &report)?;
        }
    }
    if show.json {
        print_text(show, &json_line(&json!({ "sessions": reports })))?;
    }
    Ok(code)
}

/// The graver of two exit codes: failed is worse than completed with errors.
pub fn gravest(a: u8, b: u8) -> u8 {
    let grave = |code: u8| match code {
        COMPLETED => 0,
        COMPLETED_WITH_ERRORS => 1,
        _ => 2,
    };
    if grave(b) > grave(a) { b } else { a }
}

fn watched<T>(
    global: &Global,
    session: impl FnOnce(&Cell, &Console, &Stop) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let console = Arc::new(Console::new(global)?);
    let stop = Arc::new(Stop::default());
    on_signals(&stop, &console)?;
    let cell = home::open(global)?;
    let result = session(&cell, &console, &stop);
    console.finish();
    result
}

/// The first SIGINT, SIGTERM or SIGHUP ends the session in order; see `signals` for the second.
pub fn on_signals(stop: &Arc<Stop>, console: &Arc<Console>) -> Result<(), Failure> {
    watch_signals(stop, console)
        .map_err(|e| Failure::of(FAILED, format!("cannot watch for signals: {e}"), None))
}

fn watch_signals(stop: &Arc<Stop>, console: &Arc<Console>) -> io::Result<()> {
    let mut signals = Signals::new(signals::watched()?)?;
    let (stop, console) = (Arc::clone(stop), Arc::clone(console));
    let watch = move || {
        if signals.forever().next().is_some() {
            stop.0.store(true, Ordering::SeqCst);
            leaving::leave();
            console.line("capstan: ending in order: what was read is being committed; once more to end at once");
        }
    };
    threads::start("signals", watch).map(drop).map_err(io::Error::other)
}

fn print(global: &Global, show: &Show, report: &Report) -> Result<(), Failure> {
    // What would be done is asked for, as JSON is; else errors were said as they came.
    let is_dry = report.method == DRY_RUN || report.staged.as_ref().is_some_and(|s| s.dry_run);
    if global.quiet && !show.json && !is_dry {
        return Ok(());
    }
    let text = if show.json { json_line(report) } else { View::of(report)?.text(false) };
    print_text(show, &text)
}

fn print_text(show: &Show, text: &str) -> Result<(), Failure> {
    if show.to_stderr {
        // Where nobody reads it, the exit code remains.
        let _ = io::stderr().lock().write_all(text.as_bytes());
        return Ok(());
    }
    let mut out = Output::new();
    match out.text(text).and_then(|()| out.finish()) {
        // Nobody reads the report: what the session came to is in the exit code.
        Err(failure) if failure.error.is_empty() => Ok(()),
        result => result,
    }
}

/// The report of a session that could not begin.
pub fn failed(
    devices: &dyn DeviceHost,
    host: &HostName,
    method: &str,
    start: Timestamp,
    failure: &Failure,
) -> Report {
    let end = Timestamp::now();
    let code = if failure.code == BAD_INPUT { "bad-input" } else { "failed" };
    let refused = failure.problem();
    let (path, error) = (String::new(), refused.to_string());
    Report {
        host: host.to_owned(),
        method: method.to_owned(),
        status: "failed".to_owned(),
        start: format!("{start:.3}"),
        end: format!("{end:.3}"),
        elapsed_s: end.duration_since(start).as_secs_f64(),
        error_count: 1,
        errors: vec![ReportError { path, error, code, refused: Some(refused) }],
        faults: devices.take_struck(),
        ..Report::default()
    }
}
