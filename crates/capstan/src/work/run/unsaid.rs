//! Runs that have no report: of a specification that cannot be read, and those that ended without a word.

use std::path::Path;
use std::time::Duration;

use capstan_cell::Cell;

use crate::args::Global;
use crate::exit::{COMPLETED, FAILED, Failure, one_line};
use crate::process::home;
use crate::work::mail::{self, Letter};
use crate::work::spec;

/// Exit codes with which a run ends that has told of itself.
const HAS_TOLD: [&str; 4] = ["0", "1", "2", "3"];

/// A run that ended so long ago at most is the one that systemd tells of: it does so at once.
const JUST_NOW: Duration = Duration::from_secs(600);

/// Records and tells that a specification cannot be read. What of it can be, says where to and whom.
pub fn refused(global: &Global, place: &Path, failure: &Failure) {
    let hint = failure.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
    let reason = format!("{}{hint}", failure.error);
    if let Err(why) = say(global, place, failure.code, &reason) {
        super::say(&format!("error: {why}"));
    }
}

/// Tells of a run that ended without doing so itself, as systemd says it did: `MONITOR_SERVICE_RESULT`, `MONITOR_EXIT_STATUS`. Before
/// version 251 it says neither: then what the run recorded of itself decides.
pub fn tell(global: &Global, place: &Path) -> Result<u8, Failure> {
    let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (result, status) = (said("MONITOR_SERVICE_RESULT"), said("MONITOR_EXIT_STATUS"));
    let ended = match (result.as_deref(), status.as_deref()) {
        (Some("exit-code"), Some(code)) if HAS_TOLD.contains(&code) => return Ok(COMPLETED),
        (None, _) if has_ended(global, place) => return Ok(COMPLETED),
        (Some(result), Some(status)) => format!("it ended by {result} ({status})"),
        (Some(result), None) => format!("it ended by {result}"),
        (None, _) => "its unit failed".to_owned(),
    };
    let name = place.file_stem().unwrap_or_default().display();
    let reason = format!(
        "the run ended before it could say how: {ended}; `journalctl -u capstan@{name}` has its last words, the next run goes on"
    );
    say(global, place, FAILED, &one_line(&reason)).map_err(|why| Failure::of(FAILED, why, None))?;
    Ok(COMPLETED)
}

/// Whether the run came to its end, and so has told of it. Where the database does not say so, it did not.
fn has_ended(global: &Global, place: &Path) -> bool {
    let global = global.of_home(spec::told(place).1, None);
    let spec = place.display().to_string();
    let ended = home::open(&global).and_then(|cell| Ok(cell.has_run_ended(&spec, JUST_NOW)?));
    ended.unwrap_or(false)
}

/// Puts it on record, and sends it.
fn say(global: &Global, place: &Path, code: u8, reason: &str) -> Result<(), String> {
    let (notify, home) = spec::told(place);
    let global = global.of_home(home, None);
    let spec = place.display().to_string();
    let cell = home::open(&global);
    let host =
        cell.as_ref().map_or_else(|_| capstan_cell::system_host(), |of| of.host().to_owned());
    let record = |cell: Cell| {
        cell.record_run_refused(&spec, code, reason)?;
        Ok(cell.record_run_ended(&spec)?)
    };
    let recorded = cell
        .and_then(record)
        .map_err(|failure| format!("it cannot be put on record: {}", global.named(failure).error));
    let Some(notify) = notify else { return recorded };
    let letter = Letter {
        subject: one_line(&format!("Capstan on {host}: {spec}: failed")),
        body: format!(
            "The run of {} on {host} did not end as it should; what it backed up before, if anything, is kept.\n\n{}\n\n`capstan status` on \
             {host} shows how old the last complete versions are.\n",
            one_line(&spec),
            one_line(reason)
        ),
    };
    let sent = mail::send(&notify, &letter);
    recorded.and(sent.map_err(|why| format!("it was not sent by mail: {why}")))
}
