//! `capstan compare`: what differs between a version and the file system now, a line per path.

use std::sync::Arc;

use capstan_cell::observe::Stop;
use capstan_cell::request::CompareRequest;
use serde_json::Map;

use crate::args::{CompareArgs, Global};
use crate::exit::{COMPLETED, COMPLETED_WITH_ERRORS, DIFFERENT, FAILED, Failure};
use crate::look::as_of::as_of;
use crate::look::diff::{end, put_change};
use crate::look::ls::Lines;
use crate::output::progress::Console;
use crate::paths;
use crate::process::home;
use crate::work::session::on_signals;

/// Runs the command.
pub fn run(global: &Global, args: &CompareArgs) -> Result<u8, Failure> {
    let console = Arc::new(Console::new(global)?);
    let stop = Arc::new(Stop::default());
    on_signals(&stop, &console)?;
    let cell = home::open(global)?;
    let version = as_of(global, &cell, &args.version, args.as_of.as_ref())?;
    let request = CompareRequest {
        paths: paths::of_version_or_now(&cell, &version, &args.paths)?,
        version,
        contents: args.contents,
    };
    let mut lines = Lines::of_names(&cell, args.json, "changes");
    let compared = cell.compare(&request, console.as_ref(), &stop, &mut |change| {
        put_change(&mut lines, change, args.json);
    });
    console.finish();
    // What was compared is shown, whatever is not.
    let compared = match compared {
        Ok(compared) => compared,
        Err(e) => return lines.end(Map::new(), Some(e.into())),
    };
    let listed = end(lines, &compared.totals, args.json)?;
    Ok(match compared.errors {
        _ if compared.stopped => FAILED,
        _ if listed != COMPLETED => listed,
        0 if compared.totals.differ() => DIFFERENT,
        0 => COMPLETED,
        _ => COMPLETED_WITH_ERRORS,
    })
}
