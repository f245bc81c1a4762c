//! `capstan sessions`: the list, and one session's report.

use capstan_cell::{Cell, SessionInfo};
use capstan_engine::message::path_text;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::args::{Global, SessionsArgs};
use crate::exit::{COMPLETED, Failure};
use crate::look::ls;
use crate::output::report_text::View;
use crate::output::{JsonList, Output};
use crate::process::home;
use crate::text::kept::{kept_text, put_kept};
use crate::text::local_time;
use crate::text::sizes::{bytes_text, grouped};
use crate::text::table::Align::{Left, Right};
use crate::text::table::{columns, cut};

/// The longest value that is shown of a session without a report.
const VALUE_MAX: usize = 4000;

/// So many characters of an id are no name by chance.
const SHORTEST: usize = 4;

/// Runs `sessions`.
pub fn run(global: &Global, args: &SessionsArgs) -> Result<u8, Failure> {
    let cell = home::open(global)?;
    let mut out = Output::new();
    if let Some(prefix) = &args.show {
        let session = cell.session(prefix)?;
        if args.json {
            out.json(&json_of(&session, true))?;
        } else {
            out.text(&show(&session)?)?;
        }
    } else {
        let kinds = args.kinds();
        let limit = args.limit as usize;
        let sessions = cell
            .sessions(args.name.as_deref(), kinds.as_deref(), limit)
            .map_err(|e| is_a_session(&cell, args.name.as_deref()).unwrap_or_else(|| e.into()))?;
        if sessions.is_empty() {
            let of = args
                .name
                .as_ref()
                .map_or_else(String::new, |name| format!(" of '{}'", path_text(name.as_bytes())));
            let kinds = kinds
                .map_or_else(String::new, |kinds| format!(" of the kind {}", kinds.join(" or ")));
            ls::nothing_found(global, &format!("no session{of}{kinds} is on record"));
        }
        if !args.json {
            if !sessions.is_empty() {
                out.text(&list(&sessions))?;
            }
        } else {
            let of = |s: &SessionInfo| json_of(s, false).into();
            JsonList::all(&mut out, "sessions", &sessions, of)?;
        }
    }
    out.finish().map(|()| COMPLETED)
}

/// Where what is given as an object's name is a session or a version: what shows it.
fn is_a_session(cell: &Cell, name: Option<&str>) -> Option<Failure> {
    let name = name?;
    let id = name.rsplit_once('@').map_or(name, |(_, id)| id);
    let session = cell.session(id).ok().filter(|_| id.len() >= SHORTEST)?;
    let short = session.id.get(..8).unwrap_or(&session.id);
    let error = format!("'{}' is no object but a session", path_text(name.as_bytes()));
    Some(Failure::bad_input(error, &format!("`capstan sessions --show {short}` shows it")))
}

/// A line per session, columns as wide as need be.
fn list(sessions: &[SessionInfo]) -> String {
    let head = [
        ("Session", Left),
        ("Kind", Left),
        ("Name", Left),
        ("Host", Left),
        ("Start", Left),
        ("Status", Left),
        ("Method", Left),
        ("Medium", Left),
        ("Files", Right),
        ("Read", Right),
        ("Stored", Right),
        ("Protection", Left),
        ("Tags", Left),
    ];
    let first = sessions.first();
    // What is the same of all goes without saying.
    let several = |of: fn(&SessionInfo) -> &str| {
        let different = |s: &SessionInfo| first.is_some_and(|first| of(s) != of(first));
        sessions.iter().any(different)
    };
    let several_hosts = several(|s| &s.host);
    let several_kinds = several(|s| &s.kind) || first.is_some_and(|s| !s.is_writer);
    let known = |s: &SessionInfo, text: String| if s.has_totals { text } else { "-".to_owned() };
    let row = |s: &SessionInfo| {
        let stored = s.committed.map_or_else(
            || known(s, bytes_text(s.bytes_written)),
            // Nothing but this is known of one that was killed.
            |committed| bytes_text(committed.bytes),
        );
        [
            s.id.chars().take(8).collect(),
            if several_kinds { s.kind.clone() } else { String::new() },
            s.name.clone(),
            if several_hosts { s.host.to_string() } else { String::new() },
            local_time(s.started_us),
            s.status.replace('_', " "),
            s.method.clone(),
            medium(s),
            known(s, grouped(s.files)),
            known(s, bytes_text(s.bytes_read)),
            stored,
            kept(s),
            s.tags.join(","),
        ]
    };
    columns(head, sessions.iter().map(row).collect())
}

/// The labels of its media; of a session that kept nothing, the device says more.
fn medium(session: &SessionInfo) -> String {
    match session.device.starts_with("null:") {
        true if session.media.is_empty() => "null:".to_owned(),
        _ => session.media.join(","),
    }
}

/// Until when a backup's version is kept, or that it is no more, or not whole any more.
fn kept(session: &SessionInfo) -> String {
    match &session.kept {
        Some(_) if session.is_lost => "not whole".to_owned(),
        Some(kept) => kept_text(kept),
        None if session.is_removed => "removed".to_owned(),
        // There is nothing to keep.
        None if session.is_writer => "-".to_owned(),
        None => String::new(),
    }
}

/// The report, or what is known of a session that has none.
fn show(session: &SessionInfo) -> Result<String, Failure> {
    if let Some(report) = &session.report {
        return Ok(View::parse(report)?.text(true));
    }
    let end = session.ended_us.map_or_else(|| "not yet".to_owned(), local_time);
    let committed = session
        .committed
        .map_or_else(String::new, |c| format!("{} on the medium", bytes_text(c.bytes)));
    let known = |text: String| if session.has_totals { text } else { String::new() };
    let lines = [
        ("Session", session.id.clone()),
        ("Kind", session.kind.clone()),
        ("Name", path_text(session.name.as_bytes())),
        ("Host", path_text(session.host.as_bytes())),
        ("Method", session.method.clone()),
        ("Device", path_text(session.device.as_bytes())),
        ("Start", local_time(session.started_us)),
        ("End", end),
        ("Status", session.status.replace('_', " ")),
        ("Media", path_text(session.media.join(", ").as_bytes())),
        ("Files", known(grouped(session.files))),
        ("Directories", known(grouped(session.dirs))),
        ("Read", known(bytes_text(session.bytes_read))),
        ("Stored", known(bytes_text(session.bytes_written))),
        ("Committed", committed),
        ("Protection", kept(session)),
        ("Tags", path_text(session.tags.join(", ").as_bytes())),
    ];
    let lines = lines.into_iter().filter(|(_, value)| !value.is_empty());
    Ok(lines.map(|(name, value)| format!("{name:<12}{}\n", cut(&value, VALUE_MAX).0)).collect())
}

fn json_of(session: &SessionInfo, with_report: bool) -> Map<String, Value> {
    let time = |us: i64| Timestamp::from_microsecond(us).ok().map(|t| t.to_string());
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
    put("id", session.id.clone().into());
    put("kind", session.kind.clone().into());
    put("name", session.name.clone().into());
    put("host", session.host.to_string().into());
    put("status", session.status.clone().into());
    put("method", session.method.clone().into());
    put("device", session.device.clone().into());
    put("start", time(session.started_us).into());
    put("end", session.ended_us.and_then(time).into());
    // What is not known is null: 0 would be a count.
    let known = |count: u64| session.has_totals.then_some(count);
    put("files", known(session.files).into());
    put("dirs", known(session.dirs).into());
    put("bytes_read", known(session.bytes_read).into());
    put("bytes_written", known(session.bytes_written).into());
    put("media", session.media.clone().into());
    put("tags", session.tags.clone().into());
    put("parent", session.parent.clone().into());
    if let Some(kept) = &session.kept {
        put_kept(&mut object, kept);
    }
    object.insert("removed".to_owned(), session.is_removed.into());
    object.insert("lost_data".to_owned(), session.is_lost.into());
    let mut put = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
    if let Some(c) = &session.committed {
        put("committed_rows", c.rows.into());
        put("committed_bytes", c.bytes.into());
    }
    if with_report {
        let report = session.report.as_deref().and_then(|r| serde_json::from_str(r).ok());
        put("report", report.unwrap_or(Value::Null));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_address::HostName;
    use capstan_cell::Committed;

    fn session(name: &str, report: Option<&str>) -> SessionInfo {
        SessionInfo {
            id: "0123456789abcdef0123456789abcdef".to_owned(),
            kind: "backup".to_owned(),
            name: name.to_owned(),
            host: HostName::recorded("ann"),
            status: "completed_with_errors".to_owned(),
            method: "full".to_owned(),
            device: "file:/m".to_owned(),
            started_us: 1_700_000_000_000_000,
            ended_us: None,
            files: 1234,
            dirs: 5,
            bytes_read: 2_000_000,
            bytes_written: 1_000_000,
            has_totals: true,
            media: vec!["shelf".to_owned()],
            tags: vec!["a".to_owned()],
            parent: None,
            report: report.map(str::to_owned),
            kept: None,
            is_removed: true,
            is_writer: true,
            is_lost: false,
            committed: None,
        }
    }

    #[test]
    fn columns_line_up() {
        let text = list(&[session("x", None), session("a longer name", None)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let at = |line: &str| line.find("shelf").or_else(|| line.find("Medium"));
        assert_eq!(at(lines[0]), at(lines[1]));
        assert_eq!(at(lines[1]), at(lines[2]));
        assert!(lines[1].starts_with("01234567  x "), "{text}");
        for part in ["completed with errors  full", "1,234  2.00 MB  1.00 MB  removed"] {
            assert!(lines[1].contains(part), "{part}: {text}");
        }
        assert!(!lines[0].contains("Kind") && !lines[0].contains("Host"), "{text}");
    }

    #[test]
    fn kinds_and_hosts_are_shown_where_they_differ() {
        let mut restore = session("x", None);
        restore.kind = "restore".to_owned();
        restore.is_writer = false;
        let alone = list(std::slice::from_ref(&restore));
        assert!(alone.contains("  restore  ") && !alone.contains("Host"), "{alone}");
        restore.host = HostName::recorded("bob");
        let both = list(&[session("x", None), restore]);
        for part in ["  backup   x", "  restore  x", "  ann ", "  bob "] {
            assert!(both.contains(part), "{part}: {both}");
        }
    }

    #[test]
    fn of_a_killed_session_nothing_is_shown_but_what_it_committed() {
        let mut killed = session("x", None);
        (killed.has_totals, killed.files, killed.bytes_read) = (false, 0, 0);
        killed.committed = Some(Committed { rows: 4321, bytes: 5_000_000 });
        let text = list(&[killed.clone()]);
        assert!(text.contains("shelf       -     -  5.00 MB"), "{text}");
        let text = show(&killed).unwrap();
        assert!(text.contains("Committed   5.00 MB on the medium"), "{text}");
        assert!(!text.contains("Files") && !text.contains("Directories"), "{text}");
        let json = json_of(&killed, false);
        assert_eq!((&json["files"], &json["bytes_read"]), (&Value::Null, &Value::Null));
        assert_eq!(
            (&json["committed_bytes"], &json["committed_rows"]),
            (&5_000_000.into(), &4321.into())
        );
        // One that committed nothing has nothing to show.
        killed.committed = None;
        assert!(list(&[killed]).contains("shelf       -     -       -"));
    }

    #[test]
    fn a_session_without_report_is_shown_too() {
        assert!(show(&session("x", None)).unwrap().contains("End         not yet"));
        let report = r#"{"name":"of the report"}"#;
        assert!(show(&session("x", Some(report))).unwrap().contains("of the report"));
        let object = json_of(&session("x", Some(report)), true);
        assert_eq!(object["report"]["name"], "of the report");
        assert_eq!(object["start"], "2023-11-14T22:13:20Z");
    }
}
