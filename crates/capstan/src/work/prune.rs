//! `capstan prune`: which versions stay and go, and why.

use capstan_address::HostName;
use std::sync::Arc;

use capstan_cell::Cell;
use capstan_cell::observe::{Observer, Stop};
use capstan_cell::prune::{Action, PruneRequest, Pruned, PrunedVersion};
use capstan_engine::message::path_text;
use serde_json::{Value, json};

use crate::args::{Global, PruneArgs};
use crate::exit::{COMPLETED, Failure};
use crate::look::status::away_json;
use crate::output::Output;
use crate::output::progress::Console;
use crate::process::home;
use crate::text::sizes::bytes_text;
use crate::text::table::Align::{Left, Right};
use crate::text::table::table;
use crate::text::{count, local_time};
use crate::work::session::on_signals;

/// Exit code where a medium failed or is away, something could not be consolidated, or another error was said.
const WITH_ERRORS: u8 = 3;

/// Runs the command.
pub fn run(global: &Global, args: &PruneArgs) -> Result<u8, Failure> {
    let cell = home::open(global)?;
    if args.clock_is_right {
        return say_clock_right(&cell, args.json);
    }
    let console = Arc::new(Console::new(global)?);
    let stop = Arc::new(Stop::default());
    on_signals(&stop, &console)?;
    let request = PruneRequest {
        names: args.names.clone(),
        rules: args.rules(),
        host: args.host.clone().map(HostName::recorded),
        give_up: args.give_up,
        dry_run: args.dry_run,
        ..PruneRequest::default()
    };
    let observer: &dyn Observer = console.as_ref();
    let pruned = cell.prune(&request, observer, &stop)?;
    console.finish();
    let mut out = Output::new();
    if args.json {
        out.json(&json_of(&pruned))?;
    } else if !global.quiet || args.dry_run {
        out.text(&text_of(&pruned))?;
    }
    out.finish()?;
    Ok(exit_code(&pruned))
}

/// Records that the clock is right.
fn say_clock_right(cell: &Cell, is_json: bool) -> Result<u8, Failure> {
    let now_us = cell.believe_clock()?;
    let mut out = Output::new();
    if is_json {
        let time = jiff::Timestamp::from_microsecond(now_us).ok().map(|t| t.to_string());
        out.json(&json!({ "clock_right": time }))?;
    } else {
        out.text(&format!("it is {}: the next prune goes by that\n", local_time(now_us)))?;
    }
    out.finish()?;
    Ok(COMPLETED)
}

/// What was done, for people.
pub fn text_of(pruned: &Pruned) -> String {
    list(&pruned.versions) + &summary(pruned)
}

/// Whether a medium failed, or is away so that nothing of some objects could go, something could not be consolidated, a backup that
/// did not complete fills a disk, the clock may have leapt, or another error was said.
pub fn exit_code(pruned: &Pruned) -> u8 {
    let away = !pruned.away.is_empty() || !pruned.unconsolidated.is_empty();
    let crowded = !pruned.unended.is_empty() || pruned.leap.is_some();
    let failed = pruned.pending.iter().any(|p| p.failed) || pruned.errors > 0 || away || crowded;
    if failed { WITH_ERRORS } else { COMPLETED }
}

/// A line per version, columns as wide as need be.
fn list(versions: &[PrunedVersion]) -> String {
    if versions.is_empty() {
        return String::new();
    }
    let head = [("Version", Left), ("Time", Left), ("Size", Right), ("", Left), ("Why", Left)];
    let row = |v: &PrunedVersion| {
        [
            format!("{}@{}", v.name, v.session.get(..8).unwrap_or_default()),
            local_time(v.started_us),
            bytes_text(v.bytes),
            v.action.as_str().to_owned(),
            v.why.join(", "),
        ]
    };
    let mut text = table(head, versions.iter().map(row).collect());
    text.push('\n');
    text
}

fn summary(pruned: &Pruned) -> String {
    let (would, removed) = if pruned.dry_run { ("would be ", "to be ") } else { ("", "") };
    let mut text = format!(
        "{} {would}removed, {} {would}marked, {} kept; {} and {} {removed}given back\n",
        count(pruned.count(Action::Remove), "version"),
        pruned.count(Action::Mark),
        pruned.count(Action::Keep),
        count(pruned.removed_segments, "segment"),
        bytes_text(pruned.freed_bytes),
    );
    if pruned.removed_catalogs > 0 {
        let catalogs = count(pruned.removed_catalogs, "catalog file");
        text.push_str(&format!("{catalogs} of versions that stay removed: protection ended\n"));
    }
    for of in &pruned.consolidated {
        text.push_str(&format!(
            "{}@{} {would}consolidated: of what it builds on {} % was dead, the new full takes {}\n",
            path_text(of.name.as_bytes()),
            of.session.get(..8).unwrap_or_default(),
            of.dead_percent,
            bytes_text(of.takes_bytes),
        ));
    }
    for of in &pruned.unconsolidated {
        text.push_str(&format!(
            "{}@{} not consolidated: {}\n",
            path_text(of.name.as_bytes()),
            of.session.get(..8).unwrap_or_default(),
            path_text(of.why.as_bytes()),
        ));
    }
    for of in &pruned.unended {
        text.push_str(&format!(
            "{}@{} did not complete and stays on the full disk of {}: {}\n",
            path_text(of.name.as_bytes()),
            of.session.get(..8).unwrap_or_default(),
            path_text(of.medium.as_bytes()),
            bytes_text(of.bytes),
        ));
    }
    if pruned.packed_catalogs > 0 {
        let catalogs = count(pruned.packed_catalogs, "catalog file");
        let saved = bytes_text(pruned.packed_bytes);
        text.push_str(&format!("{catalogs} packed: {saved} given back in the database\n"));
    }
    for p in &pruned.pending {
        text.push_str(&format!(
            "{} with {} on {} go at a later prune: {}\n",
            count(p.segments, "segment"),
            bytes_text(p.bytes),
            path_text(p.medium.as_bytes()),
            path_text(p.why.as_bytes()),
        ));
    }
    text
}

/// What was done, for programs.
pub fn json_of(pruned: &Pruned) -> Value {
    let time = |us: i64| jiff::Timestamp::from_microsecond(us).ok().map(|t| t.to_string());
    let versions = pruned.versions.iter().map(|v| {
        json!({
            "name": v.name, "host": v.host, "session": v.session, "start": time(v.started_us),
            "method": v.method, "action": v.action.as_str(), "why": v.why, "bytes": v.bytes,
        })
    });
    let pending = pruned.pending.iter().map(|p| {
        json!({
            "medium": p.medium, "segments": p.segments, "bytes": p.bytes, "why": p.why, "failed": p.failed,
        })
    });
    let consolidated = pruned.consolidated.iter().map(|of| {
        json!({
            "name": of.name, "base_session": of.session, "dead_percent": of.dead_percent, "session": of.by,
            "takes_bytes": of.takes_bytes,
        })
    });
    let unconsolidated = pruned
        .unconsolidated
        .iter()
        .map(|of| json!({ "name": of.name, "host": of.host, "base_session": of.session, "why": of.why, "lacks_bytes": of.lacks_bytes }));
    let unended = pruned.unended.iter().map(|of| {
        json!({ "name": of.name, "session": of.session, "medium": of.medium, "bytes": of.bytes })
    });
    json!({
        "dry_run": pruned.dry_run,
        "versions": versions.collect::<Vec<_>>(),
        "removed_versions": pruned.removed_versions,
        "removed_segments": pruned.removed_segments,
        "freed_bytes": pruned.freed_bytes,
        "removed_catalogs": pruned.removed_catalogs,
        "packed_catalogs": pruned.packed_catalogs,
        "packed_bytes": pruned.packed_bytes,
        "pending": pending.collect::<Vec<_>>(),
        "media_away": pruned.away.iter().map(away_json).collect::<Vec<_>>(),
        "consolidated": consolidated.collect::<Vec<_>>(),
        "wrong_clocks": pruned.wrong_clocks,
        "unconsolidated": unconsolidated.collect::<Vec<_>>(),
        "unended": unended.collect::<Vec<_>>(),
        "clock_leap": pruned.leap.map(|leap| json!({ "from": time(leap.from_us), "to": time(leap.to_us) })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_what_goes_and_what_comes_back() {
        let version = |action, why: &str| PrunedVersion {
            name: "desk".to_owned(),
            host: HostName::recorded("h"),
            session: "0123456789abcdef".to_owned(),
            started_us: 0,
            method: "full".to_owned(),
            action,
            why: vec![why.to_owned()],
            bytes: 2_000_000,
        };
        let versions = vec![version(Action::Keep, "daily"), version(Action::Remove, "no rule")];
        let pruned = Pruned { versions, removed_segments: 1, freed_bytes: 7, ..Pruned::default() };
        let text = list(&pruned.versions);
        assert!(
            text.contains("desk@01234567") && text.contains("2.00 MB  keep    daily\n"),
            "{text}"
        );
        let text = summary(&pruned);
        assert!(
            text.starts_with("1 version removed, 0 marked, 1 kept; 1 segment and 7 B given"),
            "{text}"
        );
        let text = summary(&Pruned { dry_run: true, ..pruned.clone() });
        assert!(text.starts_with("1 version would be removed"), "{text}");
        assert_eq!(json_of(&pruned)["versions"][1]["action"], "remove");
    }
}
