//! `capstan sessions`: the list, and one session's report.

use capstan_cell::SessionInfo;
use capstan_engine::message::path_text;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::args::{Global, SessionsArgs};
use crate::exit::{COMPLETED, Failure};
use crate::home;
use crate::output::{JsonList, Output, local_time};
use crate::protect::{self, kept_text};
use crate::report_text::View;
use crate::sizes::{bytes_text, grouped};
use crate::table::Align::{Left, Right};
use crate::table::{cut, table};

/// The longest value that is shown of a session without a report.
const VALUE_MAX: usize = 4000;

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
        let sessions = cell.sessions(args.limit as usize)?;
        if !args.json {
            out.text(&list(&sessions))?;
        } else {
            let of = |s: &SessionInfo| json_of(s, false).into();
            JsonList::all(&mut out, "sessions", &sessions, of)?;
        }
    }
    out.finish().map(|()| COMPLETED)
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
        ("Files", Right),
        ("Size", Right),
        ("Protection", Left),
        ("Tags", Left),
    ];
    let row = |s: &SessionInfo| {
        [
            s.id.chars().take(8).collect(),
            s.kind.clone(),
            s.name.clone(),
            s.host.clone(),
            local_time(s.started_us),
            s.status.replace('_', " "),
            s.committed.map_or(grouped(s.files), |c| format!("~{}", grouped(c.rows))),
            s.committed.map_or(bytes_text(s.bytes_read), |c| format!("~{}", bytes_text(c.bytes))),
            kept(s),
            s.tags.join(","),
        ]
    };
    table(head, sessions.iter().map(row).collect())
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
    let committed = session.committed.map_or_else(String::new, |c| {
        format!(
            "about {} files and directories, {} on the medium",
            grouped(c.rows),
            bytes_text(c.bytes)
        )
    });
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
        ("Files", grouped(session.files)),
        ("Directories", grouped(session.dirs)),
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
    put("host", session.host.clone().into());
    put("status", session.status.clone().into());
    put("method", session.method.clone().into());
    put("device", session.device.clone().into());
    put("start", time(session.started_us).into());
    put("end", session.ended_us.and_then(time).into());
    put("files", session.files.into());
    put("dirs", session.dirs.into());
    put("bytes_read", session.bytes_read.into());
    put("bytes_written", session.bytes_written.into());
    put("tags", session.tags.clone().into());
    put("parent", session.parent.clone().into());
    if let Some(kept) = &session.kept {
        protect::put(&mut object, kept);
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
    use capstan_cell::Committed;

    fn session(name: &str, report: Option<&str>) -> SessionInfo {
        SessionInfo {
            id: "0123456789abcdef0123456789abcdef".to_owned(),
            kind: "backup".to_owned(),
            name: name.to_owned(),
            host: "ann".to_owned(),
            status: "completed_with_errors".to_owned(),
            method: "full".to_owned(),
            device: "file:/m".to_owned(),
            started_us: 1_700_000_000_000_000,
            ended_us: None,
            files: 1234,
            dirs: 5,
            bytes_read: 2_000_000,
            bytes_written: 1_000_000,
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
        let at = |line: &str| line.find("ann").or_else(|| line.find("Host"));
        assert_eq!(at(lines[0]), at(lines[1]));
        assert_eq!(at(lines[1]), at(lines[2]));
        assert!(lines[1].starts_with("01234567  backup  x"), "{text}");
        assert!(lines[1].contains("completed with errors") && lines[1].contains("1,234"), "{text}");
    }

    #[test]
    fn what_a_killed_session_committed_is_shown() {
        let mut killed = session("x", None);
        killed.committed = Some(Committed { rows: 4321, bytes: 5_000_000 });
        assert!(list(&[killed.clone()]).contains("~4,321  ~5.00 MB"));
        let text = show(&killed).unwrap();
        assert!(
            text.contains("about 4,321 files and directories, 5.00 MB on the medium"),
            "{text}"
        );
        assert_eq!(json_of(&killed, false)["committed_bytes"], 5_000_000);
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
