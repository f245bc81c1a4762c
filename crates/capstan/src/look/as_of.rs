//! Which version a time means. A day is its begin: that later ones of that day are not meant is said.

use std::io::Write as _;

use capstan_cell::Cell;
use capstan_cell::request::VersionName;

use crate::args::{Global, When};
use crate::exit::{Failure, one_line};
use crate::text::local_time;

/// A day in microseconds, an hour more where clocks are put back.
const DAY_US: i64 = 86_400_000_000;

/// The version as of a time, if one is given.
pub fn as_of(
    global: &Global,
    cell: &Cell,
    version: &VersionName,
    when: Option<&When>,
) -> Result<VersionName, Failure> {
    let Some(when) = when else { return Ok(version.clone()) };
    let at_us = when.us(cell)?;
    if let When::Day(date) = when
        && version.session.is_none()
        && !global.quiet
        && let Some(last) = cell.begun_within(&version.name, at_us, at_us + DAY_US)?.first()
    {
        let next = date.tomorrow().map_or_else(|_| "now".to_owned(), |day| day.to_string());
        // Where nobody reads it, the rule stands in the help.
        let _ = writeln!(
            std::io::stderr().lock(),
            "capstan: warning: {date} is 00:00 of that day; '{}' was backed up later that day too ({}), which --as-of {next} takes",
            one_line(&version.name),
            local_time(*last),
        );
    }
    Ok(version.as_of(Some(at_us)))
}
