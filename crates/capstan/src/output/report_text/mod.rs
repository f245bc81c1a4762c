//! The session report as text, as backup logs have it. Here is the order of its lines.

mod files;
mod media;
mod pace;
mod staged;
mod view;

use std::fmt::Write as _;

use capstan_cell::report::DrillReport;
use capstan_medium::tape::Struck;
use jiff::Timestamp;

pub use self::view::View;
use crate::exit::one_line;
use crate::output::report_text::media::pick_list;
use crate::output::report_text::pace::limit_text;
use crate::output::report_text::staged::staged_lines;
use crate::output::report_text::view::AnomalyView;
use crate::text::local_time;
use crate::text::sizes::{bytes_text, grouped};

/// The method of a report that says what would be done.
pub const DRY_RUN: &str = "dry run";

impl View {
    /// The report; what no session of its kind has is left out. With `list_errors`, the first errors follow.
    pub fn text(&self, list_errors: bool) -> String {
        let mut out = Lines(String::with_capacity(2048));
        self.write_session(&mut out);
        self.write_files(&mut out);
        self.write_pace(&mut out);
        self.write_media(&mut out);
        if self.peak_rss_bytes > 0 {
            out.line("Memory", &format!("{} at most", bytes_text(self.peak_rss_bytes)));
        }
        self.write_expected_restore(&mut out);
        if let Some(d) = &self.drill {
            out.line(
                "Sample",
                &format!(
                    "{} files, {:.1} % of all since all were taken",
                    grouped(d.files),
                    d.round * 100.0
                ),
            );
            out.line("Proved", &proved(d));
        }
        for (name, text) in self.staged.iter().flat_map(staged_lines) {
            out.line(name, &text);
        }
        self.anomalies.iter().for_each(|anomaly| out.line("Anomaly", &anomaly_text(anomaly)));
        if let Some(b) = &self.bottleneck {
            out.line("Limit", &limit_text(b));
        }
        for Struck { of, operation, number, fault } in &self.faults {
            out.line("Fault", &format!("{of}: {operation}:{number}={fault}, as planned"));
        }
        self.notes.iter().for_each(|note| out.line("Note", note));
        let mut out = out.0;
        self.write_stages(&mut out);
        if !self.pick.is_empty() {
            let _ = write!(out, "\n{}", pick_list(&self.pick));
        }
        if list_errors {
            self.write_errors(&mut out);
        }
        out
    }

    /// Which session it was, and how it ended.
    fn write_session(&self, out: &mut Lines) {
        out.line("Session", &self.session);
        out.line("Name", &self.name);
        out.line("Host", &self.host);
        out.line("Method", &self.method);
        out.line("Based on", self.base_session.as_deref().unwrap_or_default());
        out.line("Start", &time(&self.start));
        out.line("End", &time(&self.end));
        out.line("Status", &self.status.replace('_', " "));
    }

    /// Whether it is of a restore, or of one that would be made: a backup that would be made writes nothing.
    fn restores(&self) -> bool {
        let would = self.bytes_read == 0 && (self.bytes_written > 0 || !self.pick.is_empty());
        self.method == "restore" || self.method == DRY_RUN && would
    }
}

/// Lines of a report: a name, and what it is.
struct Lines(String);

impl Lines {
    /// Adds a line, if there is anything to say.
    fn line(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            let _ = writeln!(self.0, "{name:<12}{}", one_line(value));
        }
    }
}

/// What is unusual.
fn anomaly_text(a: &AnomalyView) -> String {
    if a.what == "input_size" {
        let (value, usual) = (grouped(a.value as u64), grouped(a.median as u64));
        return format!("the input has {value} bytes, usually {usual}");
    }
    if a.what == "no_files" {
        return format!("no file, where the last backup found {}", a.median);
    }
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let (value, usual) = (percent(a.value), percent(a.median));
    let what = match a.what.as_str() {
        "changed_files" => "of the files changed",
        _ => "of their size stored",
    };
    format!("{value} {what}, usually {usual}")
}

/// `5 by the live files, 3 by checksums, 0 not`
fn proved(d: &DrillReport) -> String {
    let mut text = format!(
        "{} by the live files, {} by checksums",
        grouped(d.by_live_file),
        grouped(d.by_checksum)
    );
    if d.by_length > 0 {
        let _ = write!(text, ", {} by length and metadata alone", grouped(d.by_length));
    }
    let _ = write!(text, ", {} not", grouped(d.failed));
    text
}

fn time(rfc3339: &str) -> String {
    match rfc3339.parse::<Timestamp>() {
        Ok(time) => local_time(time.as_microsecond()),
        Err(_) => rfc3339.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_address::HostName;
    use capstan_cell::report::{
        Bottleneck, LateBackhitches, Report, ReportError, StageReport, Staged, StagedVersion,
    };

    fn report() -> Report {
        let stage = |name, busy_s, wait_in_s, wait_out_s, bytes| StageReport {
            name,
            busy_s,
            wait_in_s,
            wait_out_s,
            bytes,
        };
        Report {
            session: "0123456789abcdef0123456789abcdef".to_owned(),
            name: "desk".to_owned(),
            host: HostName::recorded("ann"),
            method: "full".to_owned(),
            status: "completed_with_errors".to_owned(),
            start: "not a time".to_owned(),
            files: 12_345,
            error_count: 1,
            errors: vec![ReportError {
                path: "/a\nb".to_owned(),
                error: "gone".to_owned(),
                code: "unreadable",
                refused: None,
            }],
            bytes_read: 200_000_000,
            bytes_written: 100_000_000,
            media: vec!["one".to_owned(), "two".to_owned()],
            elapsed_s: 2.0,
            rate_mb_s: 100.0,
            rate_sustained_mb_s: 111.06,
            bottleneck: Some(Bottleneck {
                stage: "cpu",
                share: 0.835,
                advice: "buy more",
                backhitches: None,
            }),
            stages: vec![
                stage("source", 3.0, 0.0, 1.0, 200_000_000),
                stage("network", 0.0, 0.0, 0.0, 0),
            ],
            ..Report::default()
        }
    }

    #[test]
    fn a_backup_log_says_all_that_it_should() {
        let text = View::of(&report()).unwrap().text(false);
        for line in [
            "Session     0123456789abcdef0123456789abcdef",
            "Name        desk",
            "Start       not a time",
            "Status      completed with errors",
            "Files       12,345",
            "Directories 0",
            "In use      0",
            "Size        200 MB on disk, 100 MB on the medium (2.00:1)",
            "Elapsed     2.0 s",
            "Rate        100.0 MB/s average, 111.1 MB/s sustained",
            "Media       one, two",
            "Limit       cpu, 84 % of the time: buy more",
            "Stage              busy  wait in wait out       data",
            "source            150 %      0 %     50 %     200 MB",
        ] {
            assert!(text.lines().any(|l| l == line), "'{line}' is missing in:\n{text}");
        }
        assert!(!text.contains("network") && !text.contains("unreadable"), "{text}");
    }

    #[test]
    fn a_drive_that_is_not_fed_limits_beside_what_feeds_it() {
        let late =
            LateBackhitches { count: 1353, seconds: 83.0, share: 0.82, lowest_mb_s: Some(7.5) };
        let bottleneck = Bottleneck {
            stage: "source",
            share: 0.99,
            advice: "take a spool",
            backhitches: Some(late),
        };
        let text =
            View::of(&Report { bottleneck: Some(bottleneck), ..report() }).unwrap().text(false);
        let line = "Limit       source and backhitches of the drive, below 7.5 MB/s, 99 % of the time; the 1,353 backhitches took 1:23, \
                    82 % of the time: take a spool";
        assert!(text.lines().any(|l| l == line), "{text}");
    }

    #[test]
    fn a_stored_report_reads_back_and_lists_errors() {
        let json = serde_json::to_string(&report()).unwrap();
        let text = View::parse(&json).unwrap().text(true);
        assert!(text.ends_with("  unreadable: /a\\nb: gone\n"), "{text}");
        assert!(View::parse("{").is_err());
        // An older version's report lacks fields, a newer one has more.
        let text = View::parse(r#"{"name":"x","later":1}"#).unwrap().text(true);
        assert!(text.contains("Name        x"));
    }

    #[test]
    fn what_was_staged_and_what_stays_is_said() {
        let version = |name: &str, why: Option<&str>| StagedVersion {
            name: name.to_owned(),
            session: "0123456789abcdef".to_owned(),
            start: "long ago".to_owned(),
            bytes: 5_000_000,
            staged: why.is_none(),
            why: why.map(str::to_owned),
        };
        let staged = Staged {
            staged_versions: 1,
            copied_bytes: 5_100_000,
            verified_bytes: 5_100_000,
            freed_bytes: 5_000_000,
            versions: vec![version("a", None), version("b", Some("mirrored on 'm'"))],
            ..Staged::default()
        };
        let stage = Report { method: "stage".to_owned(), staged: Some(staged), ..report() };
        let text = View::of(&stage).unwrap().text(false);
        for line in [
            "Staged      1 version: 5.10 MB copied, 5.10 MB verified, 5.00 MB given back",
            "Stays       b@01234567 of long ago with 5.00 MB: mirrored on 'm'",
        ] {
            assert!(text.lines().any(|l| l == line), "'{line}' is missing in:\n{text}");
        }
    }

    #[test]
    fn a_restore_speaks_of_what_it_read_and_wrote() {
        let restore = Report {
            method: "restore".to_owned(),
            skipped: 1234,
            rate_sustained_mb_s: 0.0,
            ..report()
        };
        let text = View::of(&restore).unwrap().text(false);
        assert!(text.contains("Left alone  1,234 that existed"), "{text}");
        assert!(!text.contains("sustained") && text.contains("MB/s average\n"), "{text}");
        assert!(text.contains("200 MB from the media, 100 MB restored"), "{text}");
    }
}
