//! The letter that a run writes: what failed, what to do, and how it stands.

use std::fmt::Write as _;

use capstan_cell::report::Report;
use capstan_cell::{ObjectStatus, age_text};
use capstan_engine::message::{Code, safe_text};

use super::RunReport;
use crate::exit::one_line;
use crate::text::sizes::{bytes_text, grouped};
use crate::text::{count, local_time};
use crate::work::mail::Letter;

/// So many errors of an object are told; its report has all.
const ERRORS_TOLD: usize = 5;
/// So many objects are named in the subject.
const NAMED: usize = 3;

/// The letter of a run. `stands` is how it stands with its objects, as far as that is known.
pub fn of(report: &RunReport, stands: &[ObjectStatus]) -> Letter {
    let bad: Vec<&Report> = report.sessions.iter().filter(|s| !is_well(s)).collect();
    let mut told: Vec<String> =
        bad.iter().take(NAMED).map(|s| format!("{} {}", s.name, words(&s.status))).collect();
    if bad.len() > NAMED {
        told.push(format!("{} more", bad.len() - NAMED));
    }
    if told.is_empty() {
        told.push(match report.errors.is_empty() {
            true => format!("{} completed", names(&report.sessions)),
            false => format!("{}: {}", report.spec, words(report.status)),
        });
    }
    let subject = format!("Capstan on {}: {}", report.host, told.join(", "));
    let mut body = format!("The run of {} on {} {}.\n", report.spec, report.host, verdict(report));
    let _ = writeln!(body, "Begin {}, end {}.", report.start, report.end);
    if !bad.is_empty() || !report.errors.is_empty() {
        body.push_str("\nWhat went wrong, and what to do\n");
    }
    for session in &bad {
        object(&mut body, session);
    }
    let told = |error: &String| {
        bad.iter().flat_map(|s| &s.errors).any(|of| of.error.starts_with(error.as_str()))
    };
    for error in report.errors.iter().filter(|error| !told(error)) {
        let _ = writeln!(body, "\n- {}", one_line(error));
    }
    if !report.sessions.is_empty() {
        body.push_str("\nAll backups of the run\n\n");
    }
    for s in &report.sessions {
        let _ = writeln!(
            body,
            "  {}: {}, {}, {}{}",
            s.name,
            words(&s.status),
            count(s.files, "file"),
            bytes_text(s.bytes_read),
            stands.iter().find(|o| o.name == s.name).map_or_else(String::new, complete),
        );
    }
    let _ = writeln!(body, "\n`capstan status` on {} shows how it stands.", report.host);
    Letter { subject: one_line(&subject), body: lines_of(&body) }
}

fn is_well(s: &Report) -> bool {
    s.status == "completed"
}

fn words(status: &str) -> String {
    status.replace('_', " ")
}

fn verdict(report: &RunReport) -> &'static str {
    match report.status {
        "completed" => "completed",
        "completed_with_errors" => "completed with errors",
        _ => "failed",
    }
}

fn names(sessions: &[Report]) -> String {
    let names: Vec<&str> = sessions.iter().map(|s| s.name.as_str()).collect();
    names.join(", ")
}

/// What went wrong with an object.
fn object(body: &mut String, s: &Report) {
    let _ = writeln!(body, "\n- {}: {}", s.name, words(&s.status));
    for e in s.errors.iter().take(ERRORS_TOLD) {
        let path = if e.path.is_empty() { String::new() } else { format!("{}: ", e.path) };
        let code = Code::ALL.iter().find(|code| code.name() == e.code);
        let (error, advice) = match (code, &e.refused) {
            (Some(code), _) => (e.error.as_str(), code.row().3),
            // What is refused says itself what to do.
            (None, Some(of)) => (of.sentence.as_str(), of.hint.as_deref().unwrap_or_default()),
            (None, None) => (e.error.as_str(), ""),
        };
        let _ = writeln!(body, "    {path}{}", one_line(error));
        if !advice.is_empty() {
            let _ = writeln!(body, "    To do: {}", one_line(advice));
        }
    }
    let more = s.error_count.saturating_sub(s.errors.len().min(ERRORS_TOLD) as u64);
    if more > 0 && !s.session.is_empty() {
        let id = s.session.get(..8).unwrap_or(&s.session);
        let more = grouped(more);
        let _ = writeln!(body, "    and {more} more: `capstan sessions --show {id}` has them");
    }
}

/// `; last complete version 2026-11-24 01:30:00 (26 h ago)`
fn complete(o: &ObjectStatus) -> String {
    match (o.complete_us, o.age) {
        (Some(us), Some(age)) => {
            format!("; last complete version {} ({} ago)", local_time(us), age_text(age))
        }
        _ => "; there is no complete version".to_owned(),
    }
}

/// The text without what moves a terminal, line for line.
fn lines_of(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", safe_text(line))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_address::HostName;
    use capstan_cell::report::ReportError;
    use capstan_engine::problem::Problem;

    fn session(name: &str, status: &str) -> Report {
        Report { name: name.to_owned(), status: status.to_owned(), ..Report::default() }
    }

    fn run(sessions: Vec<Report>, errors: &[&str], status: &'static str) -> RunReport {
        RunReport {
            spec: "/etc/capstan/desk.toml".to_owned(),
            host: HostName::recorded("ann"),
            status,
            exit_code: 1,
            start: "2026-11-24T01:30:00.000Z".to_owned(),
            end: "2026-11-24T01:31:00.000Z".to_owned(),
            errors: errors.iter().map(|e| (*e).to_owned()).collect(),
            sessions,
            pruned: None,
            staged: None,
        }
    }

    #[test]
    fn the_subject_names_object_host_and_verdict() {
        let subject = |sessions, errors, status| of(&run(sessions, errors, status), &[]).subject;
        let bad = vec![session("home", "failed"), session("etc", "completed")];
        assert_eq!(subject(bad, &[], "failed"), "Capstan on ann: home failed");
        let well = vec![session("home", "completed"), session("etc", "completed")];
        assert_eq!(subject(well, &[], "completed"), "Capstan on ann: home, etc completed");
        let errors = &["the webhook did not take it"][..];
        let text = subject(vec![session("etc", "completed")], errors, "completed_with_errors");
        assert_eq!(text, "Capstan on ann: /etc/capstan/desk.toml: completed with errors");
        let many = (0..9).map(|n| session(&format!("o{n}"), "failed")).collect();
        let text = subject(many, &[], "failed");
        assert_eq!(text, "Capstan on ann: o0 failed, o1 failed, o2 failed, 6 more");
        // Nobody writes further headers by the name of an object.
        let odd = vec![session("a\r\nBcc: x@y", "failed")];
        assert!(!subject(odd, &[], "failed").contains(['\r', '\n']));
    }

    #[test]
    fn the_body_says_what_failed_and_what_to_do() {
        let mut bad = session("home", "failed");
        bad.error_count = 9;
        bad.session = "0123456789".to_owned();
        let code = Code::ALL.iter().find(|code| !code.row().3.is_empty()).unwrap();
        bad.errors = vec![ReportError {
            path: "home/x".to_owned(),
            error: "it broke".to_owned(),
            code: code.name(),
            refused: None,
        }];
        let mut refused = session("etc", "failed");
        refused.errors = vec![ReportError {
            path: String::new(),
            error: "nothing was backed up: `x` failed; mend it".to_owned(),
            code: "failed",
            refused: Some(Problem::new("nothing was backed up: `x` failed").hint("mend it")),
        }];
        let errors = &["post failed", "nothing was backed up: `x` failed"][..];
        let body = of(&run(vec![bad, refused], errors, "failed"), &[]).body;
        assert_eq!(body.matches("nothing was backed up").count(), 1, "{body}");
        for words in [
            "The run of /etc/capstan/desk.toml on ann failed.",
            "- home: failed",
            "home/x: it broke",
            &format!("To do: {}", code.row().3),
            "and 8 more: `capstan sessions --show 01234567` has them",
            "- post failed",
            "- etc: failed\n    nothing was backed up: `x` failed\n    To do: mend it",
        ] {
            assert!(body.contains(words), "{words}: {body}");
        }
    }
}
