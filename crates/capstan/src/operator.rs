//! Whoever puts tapes into drives without a robot: told on standard error, and waited for.

use std::io::{self, IsTerminal};
use std::time::Duration;

use capstan_cell::Cell;
use capstan_devices::operator::{self, Board, Operator};
use capstan_engine::message::Code;

use crate::args::parse_age;
use crate::exit::Failure;
use crate::progress::say;

const VARIABLE: &str = "CAPSTAN_TAPE_WAIT";

/// Somebody at a terminal is asked and waited for, else for as long as `CAPSTAN_TAPE_WAIT` says. What is waited for is on record
/// in the cell, where there is one already.
pub fn set(cell: Option<&Cell>) -> Result<(), Failure> {
    let patience = match std::env::var_os(VARIABLE).filter(|v| !v.is_empty()) {
        None if io::stdin().is_terminal() && io::stderr().is_terminal() => None,
        None => Some(Duration::ZERO),
        Some(text) => {
            Some(text.to_str().and_then(|text| parse_age(text).ok()).ok_or_else(|| {
                Failure::bad_input(
                    format!("{VARIABLE} is {}", text.display()),
                    "set it to how long a tape is to be waited for, as 30m or 8h",
                )
            })?)
        }
    };
    let tell = Box::new(|text: &str| say(Code::TapeWanted, "media agent", text));
    let board =
        cell.map_or_else(|| Box::new(|_: &str, _: Option<&str>| ()) as Board, Cell::tape_board);
    operator::set(Operator { patience, tell, board });
    Ok(())
}
