//! What `capstan status` says of media and drives, beside the objects.

use std::fmt::Write as _;

use capstan_cell::stage::PoorMedium;
use capstan_cell::{
    AwayMedium, DirtyDrive, DriveRecord, ProtectedTape, TapeWanted, WaitNow, WaitingSession,
};
use capstan_engine::message::{path_text, shell_word};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::exit::one_line;
use crate::text::local_time;

/// A line per tape that a drive or library waits for.
pub fn wanted_lines(wanted: &[TapeWanted]) -> String {
    let mut text = String::new();
    for w in wanted {
        let who = who(w);
        let r = &w.request;
        let _ = writeln!(
            text,
            "{} waits since {} for {} ({who}, process {} on {})",
            path_text(r.drive.split("?tape=").next().unwrap_or_default().as_bytes()),
            local_time(r.since_us),
            path_text(r.wanted.as_bytes()),
            r.pid,
            path_text(r.host.as_bytes())
        );
    }
    text
}

/// A line per session that waits for what others have.
pub fn wait_lines(waits: &[WaitNow]) -> String {
    let mut text = String::new();
    for w in waits {
        let sessions: Vec<_> = w.sessions.iter().map(session_text).collect();
        let who = match sessions.is_empty() {
            true => format!("{}, not begun yet", path_text(w.wait.command.as_bytes())),
            false => sessions.join("; "),
        };
        let _ = writeln!(
            text,
            "Process {} on {} ({who}) waits since {}: {}",
            w.wait.pid,
            path_text(w.wait.host.as_bytes()),
            local_time(w.wait.since_us),
            one_line(&w.wait.why)
        );
    }
    text
}

/// The same as JSON.
pub fn wait_json(w: &WaitNow) -> Value {
    let session = |s: &WaitingSession| json!({ "id": s.id, "kind": s.kind, "name": s.name });
    json!({
        "why": w.wait.why,
        "since": Timestamp::from_microsecond(w.wait.since_us).ok().map(|t| t.to_string()),
        "host": w.wait.host,
        "pid": w.wait.pid,
        "command": w.wait.command,
        "sessions": w.sessions.iter().map(session).collect::<Vec<_>>(),
    })
}

/// Who waits.
pub fn who(w: &TapeWanted) -> String {
    let none = || "a session that has not begun yet".to_owned();
    w.session.as_ref().map_or_else(none, session_text)
}

/// `backup desk, session 1f2e3d4c`
fn session_text(s: &WaitingSession) -> String {
    let name = path_text(s.name.as_bytes());
    let id: String = s.id.chars().take(8).collect();
    format!("{} {name}", s.kind).trim_end().to_owned() + &format!(", session {id}")
}

/// The same as JSON.
pub fn wanted_json(w: &TapeWanted) -> Value {
    let r = &w.request;
    json!({
        "drive": r.drive,
        "wanted": r.wanted,
        "barcode": w.tape.as_ref().map(|(barcode, _)| barcode),
        "place": w.tape.as_ref().and_then(|(_, place)| place.as_ref()),
        "since": Timestamp::from_microsecond(r.since_us).ok().map(|t| t.to_string()),
        "host": r.host,
        "pid": r.pid,
        "session": w.session.as_ref().map(|s| &s.id),
        "kind": w.session.as_ref().map(|s| &s.kind),
        "name": w.session.as_ref().map(|s| &s.name),
    })
}

/// A line per drive that asks to be cleaned and was not.
pub fn dirty_lines(dirty: &[DirtyDrive]) -> String {
    let mut text = String::new();
    for d in dirty {
        let _ = writeln!(
            text,
            "Drive {} of {} asked to be cleaned at {} and was not ({}): put a cleaning tape with uses left into it, then `capstan \
             library clean {} {}`",
            d.drive,
            path_text(d.library.as_bytes()),
            local_time(d.asked_us),
            path_text(d.why.as_bytes()),
            shell_word(&d.library),
            d.drive
        );
    }
    text
}

/// The same as JSON.
pub fn dirty_json(d: &DirtyDrive) -> Value {
    json!({
        "library": d.library,
        "drive": d.drive,
        "asked": Timestamp::from_microsecond(d.asked_us).ok().map(|t| t.to_string()),
        "why": d.why,
    })
}

/// A line per drive that failed, or that is suspect.
pub fn ill_lines(ill: &[DriveRecord]) -> String {
    let mut text = String::new();
    for of in ill {
        let to_do = match of.failed {
            Some(_) => "see to its power and its cables",
            None => "clean it, and have it looked at if that does not help",
        };
        let why = of.why_ill().map(|why| why.sentence).unwrap_or_default();
        let _ = writeln!(
            text,
            "Drive {} of {} {}{}: sessions take it last; {to_do}, then `capstan library enable {} drive:{}`, or take it out of service \
             with `capstan library disable`",
            of.drive,
            path_text(of.library.as_bytes()),
            path_text(why.as_bytes()),
            of.ill_us().map_or(String::new(), |us| format!(", at {}", local_time(us))),
            shell_word(&of.library),
            of.drive
        );
    }
    text
}

/// The same as JSON.
pub fn ill_json(of: &DriveRecord) -> Value {
    let is = if of.failed.is_some() { "failed" } else { "suspect" };
    json!({
        "library": of.library,
        "drive": of.drive,
        "is": is,
        "since": of.ill_us().and_then(|us| Timestamp::from_microsecond(us).ok()).map(|t| t.to_string()),
        "why": of.why_ill().map(|why| why.to_string()),
    })
}

/// A line per tape that was to be written and is write-protected.
pub fn protected_lines(protected: &[ProtectedTape]) -> String {
    let mut text = String::new();
    for of in protected {
        let label = path_text(of.medium.label.as_bytes());
        let _ = writeln!(
            text,
            "Medium '{label}' ({}) was to be written at {} and is write-protected: take it out through a mail slot, move its tab and \
             bring it back, or give it up with `capstan media retire {}`",
            path_text(of.medium.device.to_string().as_bytes()),
            local_time(of.seen_us),
            shell_word(&label)
        );
    }
    text
}

/// The same as JSON.
pub fn protected_json(of: &ProtectedTape) -> Value {
    json!({
        "id": of.medium.id.to_string(),
        "label": of.medium.label,
        "device": of.medium.device,
        "seen": Timestamp::from_microsecond(of.seen_us).ok().map(|t| t.to_string()),
    })
}

/// A line per medium in poor condition.
pub fn poor_lines(poor: &[PoorMedium]) -> String {
    let mut text = String::new();
    for m in poor {
        let label = path_text(m.medium.label.as_bytes());
        let _ = writeln!(
            text,
            "Medium '{label}' is poor ({}): {}",
            m.reasons.join(", "),
            path_text(m.ways_out.as_bytes())
        );
    }
    text
}

/// A medium in poor condition as JSON.
pub fn poor_json(m: &PoorMedium) -> Value {
    json!({
        "id": m.medium.id.to_string(),
        "label": m.medium.label,
        "device": m.medium.device,
        "reasons": m.reasons,
        "hint": m.ways_out,
    })
}

/// A line per medium that is away though nobody took it away.
pub fn away_lines(away: &[AwayMedium]) -> String {
    let line = |of: &AwayMedium| {
        let text = format!("{}: {}", of.text(), of.hint());
        let mut chars = text.chars();
        let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
        format!("{first}{}\n", path_text(chars.as_str().as_bytes()))
    };
    away.iter().map(line).collect()
}

/// A medium that is away though nobody took it away as JSON.
pub fn away_json(of: &AwayMedium) -> Value {
    json!({
        "id": of.medium.id.to_string(),
        "label": of.medium.label,
        "device": of.medium.device,
        "why": of.why,
        "objects": of.objects.iter().map(|o| &o.name).collect::<Vec<_>>(),
    })
}
