//! What is waited for: whoever puts tapes into drives without a robot, and media and drives that other sessions have. Both are
//! told on standard error.

use std::io::{self, IsTerminal};
use std::time::Duration;

use capstan_cell::Cell;
use capstan_devices::scsi::Reconnects;
use capstan_engine::message::Code;
use capstan_medium::host::DeviceHost;
use capstan_medium::host::operator::{Board, Operator};
use capstan_medium::host::queue::Patience;

use crate::args::{Global, parse_age};
use crate::exit::Failure;
use crate::output::progress::say;

const TAPE_WAIT: &str = "CAPSTAN_TAPE_WAIT";
/// A backup has its window; what cannot begin within that time is looked at by somebody.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// A target that is started anew is there again by then.
const RECONNECT: Duration = Duration::from_secs(120);

/// Somebody at a terminal is asked and waited for, else for as long as `CAPSTAN_TAPE_WAIT` says. What is waited for is on record
/// in the cell, where there is one already, for `status`. What others have is waited for as long as `--wait` says, and lost
/// connections are tried again as long as `--reconnect` says.
pub fn set(cell: Option<&Cell>, global: &Global) -> Result<(), Failure> {
    let quiet = global.quiet;
    // That it waits is a note.
    let waits = move |text: &str| {
        if !quiet {
            say(Code::Waiting, "media agent", text);
        }
    };
    let most = global.reconnect.unwrap_or(RECONNECT);
    global.devices.reconnect_as(Reconnects { most, tell: Box::new(waits) });
    let patience = match wait_of(TAPE_WAIT, "a tape")? {
        None if io::stdin().is_terminal() && io::stderr().is_terminal() => None,
        given => Some(given.unwrap_or_default()),
    };
    global.devices.queue().set(Patience {
        most: global.wait.map_or(Some(PATIENCE), |wait| wait.0),
        name: cell.map_or_else(|| Box::new(str::to_owned) as Name, Cell::name_holders),
        tell: Box::new(waits),
        board: match cell {
            Some(cell) => cell.wait_board(&global.typed),
            None => Box::new(|_: u64, _: Option<(&str, Duration)>| ()),
        },
    });
    let told = global.told.clone();
    let tell = Box::new(move |text: &str| {
        say(Code::TapeWanted, "media agent", text);
        if let Some(told) = &told {
            (told.0)(text);
        }
    });
    let board =
        cell.map_or_else(|| Box::new(|_: &str, _: Option<&str>| ()) as Board, Cell::tape_board);
    global.devices.operator().set(Operator { patience, tell, board });
    Ok(())
}

/// Names who has what is waited for.
type Name = Box<dyn Fn(&str) -> String + Send + Sync>;

/// How long something is to be waited for, where the environment says it: a number alone is seconds.
fn wait_of(variable: &str, what: &str) -> Result<Option<Duration>, Failure> {
    let Some(text) = std::env::var_os(variable).filter(|v| !v.is_empty()) else { return Ok(None) };
    let seconds = |text: &str| text.parse::<u32>().ok().map(|n| Duration::from_secs(n.into()));
    let given = text.to_str().and_then(|text| seconds(text).or_else(|| parse_age(text).ok()));
    given.map(Some).ok_or_else(|| {
        Failure::bad_input(
            format!("{variable} is {}", text.display()),
            &format!("set it to how long {what} is to be waited for, as 30min or 8h"),
        )
    })
}
