//! `capstan rait`: how arrays are, and lost members written anew.

use std::sync::Arc;

use capstan_cell::arrays::ArrayInfo;
use capstan_cell::missing::versions_of;
use capstan_cell::observe::Stop;
use capstan_engine::message::path_text;
use serde_json::{Value, json};

use crate::args::{Global, RaitCommand};
use crate::exit::{COMPLETED, COMPLETED_WITH_ERRORS, FAILED, Failure};
use crate::output::Output;
use crate::output::progress::Console;
use crate::process::home;
use crate::text::sizes::{bytes_text, grouped};
use crate::text::table::{Align, fields, table};
use crate::work::session;

/// Runs `rait`.
pub fn run(global: &Global, command: &RaitCommand) -> Result<u8, Failure> {
    let mut out = Output::new();
    let code = match command {
        RaitCommand::Status { array, json } => {
            let info = home::open(global)?.array_status(array)?;
            match json {
                true => out.json(&json_of(&info))?,
                false => out.text(&page(&info))?,
            }
            match info.state() {
                "whole" => COMPLETED,
                "broken" => FAILED,
                _ => COMPLETED_WITH_ERRORS,
            }
        }
        RaitCommand::Rebuild { array, member, onto, new_medium, json } => {
            let console = Arc::new(Console::new(global)?);
            let stop = Arc::new(Stop::default());
            session::on_signals(&stop, &console)?;
            let cell = home::open(global)?;
            let (rebuilt, info) =
                cell.array_rebuild(array, member, onto, *new_medium, &*console, &stop)?;
            console.finish();
            if *json {
                let damaged: Vec<_> = rebuilt.damaged.iter().map(|n| n.0).collect();
                out.json(&json!({
                    "onto": onto.to_string(),
                    "segments": rebuilt.segments,
                    "bytes": rebuilt.bytes,
                    "damaged_segments": damaged,
                    "array": json_of(&info),
                }))?;
            } else {
                let (segments, bytes) = (grouped(rebuilt.segments), bytes_text(rebuilt.bytes));
                out.text(&format!("{segments} segments, {bytes} written to {onto}\n\n"))?;
                out.text(&page(&info))?;
            }
            match rebuilt.damaged.is_empty() {
                true => COMPLETED,
                false => COMPLETED_WITH_ERRORS,
            }
        }
    };
    out.finish().map(|()| code)
}

fn page(info: &ArrayInfo) -> String {
    let medium = info.medium.as_ref();
    let segments = match info.missing.len() {
        0 => grouped(info.segments),
        n => format!("{}, {} of them missing", grouped(info.segments), grouped(n as u64)),
    };
    let mut text = fields(&[
        ("Array", medium.map_or_else(String::new, |(label, _)| path_text(label.as_bytes()))),
        ("Id", medium.map_or_else(String::new, |(_, id)| id.to_string())),
        (
            "Layout",
            format!("{}, {} of {} may be lost", info.layout, info.spare, info.members.len()),
        ),
        ("State", info.state().to_owned()),
        ("Problem", info.problem().unwrap_or_default()),
        ("Segments", segments),
    ]);
    text.push('\n');
    text + &members(info)
}

/// A line per member.
pub fn members(info: &ArrayInfo) -> String {
    let head = [
        ("Member", Align::Right),
        ("State", Align::Left),
        ("Segments", Align::Right),
        ("Device", Align::Left),
        ("Problem", Align::Left),
    ];
    let row = |(place, m): (usize, &capstan_cell::arrays::MemberInfo)| {
        let lacking = m.lacking.len() as u64;
        let lacks = (lacking > 0).then(|| format!("it lacks {} segments", grouped(lacking)));
        let problems: Vec<String> =
            lacks.into_iter().chain(m.problems.iter().map(ToString::to_string)).collect();
        [
            (place + 1).to_string(),
            m.state().to_owned(),
            grouped(m.segments),
            path_text(m.device.as_bytes()),
            problems.join("; "),
        ]
    };
    table(head, info.members.iter().enumerate().map(row).collect())
}

/// An object per member.
pub fn members_json(info: &ArrayInfo) -> Vec<Value> {
    info.members
        .iter()
        .map(|m| {
            json!({
                "device": m.device,
                "id": m.medium.map(|id| id.to_string()),
                "state": m.state(),
                "segments": m.segments,
                "lacking": m.lacking.iter().map(|n| n.0).collect::<Vec<_>>(),
                "problems": m.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
            })
        })
        .collect()
}

fn json_of(info: &ArrayInfo) -> Value {
    json!({
        "label": info.medium.as_ref().map(|m| m.0.clone()),
        "id": info.medium.as_ref().map(|m| m.1.to_string()),
        "device": info.device,
        "layout": info.layout,
        "may_lose": info.spare,
        "state": info.state(),
        "problem": info.problem(),
        "segments": info.segments,
        "missing_segments": info.missing.iter().map(|m| m.number.0).collect::<Vec<_>>(),
        "missing_of": versions_of(&info.missing),
        "members": members_json(info),
    })
}
