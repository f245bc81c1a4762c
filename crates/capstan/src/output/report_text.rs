//! The session report as text, as backup logs have it.

use std::fmt::Write as _;

use capstan_cell::Pick;
use capstan_cell::report::{DrillReport, DriveReport, Report, Staged};
use capstan_engine::message::path_text;
use capstan_tape::Struck;
use jiff::Timestamp;
use serde::Deserialize;

use crate::exit::{FAILED, Failure, one_line};
use crate::text::local_time;
use crate::text::sizes::{bytes_text, grouped, seconds_text};
use crate::text::table::{Align, columns};

/// The method of a report that says what would be done.
pub const DRY_RUN: &str = "dry run";

/// Errors that are listed.
const ERRORS_SHOWN: usize = 100;

/// A report as it is stored and printed; fields that an older version did not have are empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct View {
    session: String,
    name: String,
    host: String,
    method: String,
    base_session: Option<String>,
    status: String,
    start: String,
    end: String,
    files: u64,
    dirs: u64,
    skipped: u64,
    put_right: u64,
    in_use: u64,
    corrupt: u64,
    away: u64,
    away_bytes: u64,
    kept: u64,
    moved: u64,
    moved_bytes: u64,
    error_count: u64,
    errors: Vec<ErrorView>,
    bytes_read: u64,
    bytes_written: u64,
    media: Vec<String>,
    elapsed_s: f64,
    rate_mb_s: f64,
    rate_sustained_mb_s: f64,
    media_change_s: f64,
    tape_wait_s: f64,
    peak_rss_bytes: u64,
    encryption: Option<String>,
    drives: Vec<DriveReport>,
    bottleneck: Option<BottleneckView>,
    stages: Vec<StageView>,
    anomalies: Vec<AnomalyView>,
    expected_restore: Option<ExpectedView>,
    drill: Option<DrillReport>,
    staged: Option<Staged>,
    faults: Vec<Struck>,
    pick: Vec<Pick>,
    notes: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorView {
    path: String,
    error: String,
    code: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BottleneckView {
    stage: String,
    share: f64,
    advice: String,
    backhitches: Option<BackhitchesView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BackhitchesView {
    count: u64,
    seconds: f64,
    share: f64,
    lowest_mb_s: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnomalyView {
    what: String,
    value: f64,
    median: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ExpectedView {
    seconds: f64,
    rests_on: String,
    session: String,
    sessions: u64,
    medium: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StageView {
    name: String,
    busy_s: f64,
    wait_in_s: f64,
    wait_out_s: f64,
    bytes: u64,
}

impl View {
    /// Of a report that a session just gave.
    pub fn of(report: &Report) -> Result<Self, Failure> {
        serde_json::to_value(report).and_then(serde_json::from_value).map_err(|e| unreadable(&e))
    }

    /// Of a report that was stored.
    pub fn parse(json: &str) -> Result<Self, Failure> {
        serde_json::from_str(json).map_err(|e| unreadable(&e))
    }

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

    /// What became of files.
    fn write_files(&self, out: &mut Lines) {
        out.line("Files", &grouped(self.files));
        out.line("Directories", &grouped(self.dirs));
        match self.method.as_str() {
            _ if self.restores() => {
                out.line("Left alone", &format!("{} that existed", grouped(self.skipped)));
                if self.put_right > 0 {
                    let text = "of these: owner, mode or attributes were not as in the backup";
                    out.line("Put right", &format!("{} {text}", grouped(self.put_right)));
                }
            }
            _ => out.line("Skipped", &grouped(self.skipped)),
        }
        out.line("In use", &grouped(self.in_use));
        out.line("Corrupt", &grouped(self.corrupt));
        if self.away > 0 {
            let (files, bytes) = (grouped(self.away), bytes_text(self.away_bytes));
            out.line("Away", &format!("{files}, {bytes}, on media that are not at hand"));
        }
        out.line("Errors", &grouped(self.error_count));
        if self.kept > 0 {
            out.line("Unchanged", &format!("{}: they are in earlier backups", grouped(self.kept)));
        }
        if self.moved > 0 {
            let (files, bytes) = (grouped(self.moved), bytes_text(self.moved_bytes));
            out.line("Moved", &format!("{files} or touched: {bytes} of contents not stored again"));
        }
    }

    /// How much it was, how long it took, and what was waited for.
    fn write_pace(&self, out: &mut Lines) {
        out.line("Size", &self.size());
        out.line("Elapsed", &seconds_text(self.elapsed_s));
        let mut rates = format!("{:.1} MB/s average", self.rate_mb_s);
        // A session that was over before a sample was taken has none, and one that hardly read anything none of use.
        if self.rate_sustained_mb_s >= 0.05 {
            let _ = write!(rates, ", {:.1} MB/s sustained", self.rate_sustained_mb_s);
        }
        if self.method != "import" {
            out.line("Rate", &rates);
        }
        if self.media_change_s > 0.0 {
            out.line("Media change", &format!(" {}", seconds_text(self.media_change_s)));
        }
        if self.tape_wait_s > 0.0 {
            out.line("Tape wait", &format!(" {}", seconds_text(self.tape_wait_s)));
        }
    }

    /// Media and drives.
    fn write_media(&self, out: &mut Lines) {
        out.line("Media", &self.media.join(", "));
        match self.encryption.as_deref() {
            Some("drive") => out.line("Encryption", "by the tape drive (AES-256)"),
            Some(by) => out.line("Encryption", &format!("by {by}")),
            None => {}
        }
        for d in &self.drives {
            // A drive without a robot does not know what its tape is called.
            let only =
                self.media.first().filter(|_| self.media.len() == 1 && self.drives.len() == 1);
            out.line("Tape drive", &drive_text(d, only.map(String::as_str)));
        }
    }

    /// How long a restore would take.
    fn write_expected_restore(&self, out: &mut Lines) {
        let Some(e) = &self.expected_restore else { return };
        let id: String = e.session.chars().take(8).collect();
        let rests_on = match e.sessions {
            2.. => {
                let way = if e.rests_on == "backup" { "to" } else { "from" };
                format!("{} {}s {way} {}", grouped(e.sessions), e.rests_on, e.medium)
            }
            _ if e.session == self.session => "this backup".to_owned(),
            _ => format!("{} {id}", e.rests_on),
        };
        out.line(
            "To restore",
            &format!("about {}, by the pace of {rests_on}", seconds_text(e.seconds)),
        );
    }

    /// Whether it is of a restore, or of one that would be made: a backup that would be made writes nothing.
    fn restores(&self) -> bool {
        let would = self.bytes_read == 0 && (self.bytes_written > 0 || !self.pick.is_empty());
        self.method == "restore" || self.method == DRY_RUN && would
    }

    fn size(&self) -> String {
        let (read, written) = (bytes_text(self.bytes_read), bytes_text(self.bytes_written));
        match self.method.as_str() {
            DRY_RUN if self.restores() => format!("{written} would be restored"),
            "restore" | "drill" => format!("{read} from the media, {written} restored"),
            "copy" | "stage" | "retire" | "repair" | "synthetic full" => {
                format!("{read} from the media, {written} on the medium")
            }
            "verify" => format!("{read} read from the media"),
            // Of most of it only the catalogs.
            "import" => format!("{read} found on the media"),
            _ if self.bytes_written == 0 => format!("{read} on disk, {written} on the medium"),
            _ => format!(
                "{read} on disk, {written} on the medium ({:.2}:1)",
                self.bytes_read as f64 / self.bytes_written as f64
            ),
        }
    }

    /// A table of the stages that did something, in percent of the elapsed time: several threads may give more than 100.
    fn write_stages(&self, out: &mut String) {
        let worked = |s: &&StageView| s.busy_s + s.wait_in_s + s.wait_out_s > 0.0 || s.bytes > 0;
        let mut stages = self.stages.iter().filter(worked).peekable();
        if stages.peek().is_none() {
            return;
        }
        let share = |seconds: f64| format!("{:.0} %", seconds / self.elapsed_s.max(1e-9) * 100.0);
        let _ = writeln!(
            out,
            "\n{:<14}{:>9}{:>9}{:>9}{:>11}",
            "Stage", "busy", "wait in", "wait out", "data"
        );
        for s in stages {
            let _ = writeln!(
                out,
                "{:<14}{:>9}{:>9}{:>9}{:>11}",
                s.name,
                share(s.busy_s),
                share(s.wait_in_s),
                share(s.wait_out_s),
                bytes_text(s.bytes)
            );
        }
    }

    fn write_errors(&self, out: &mut String) {
        if self.errors.is_empty() {
            return;
        }
        out.push_str("\nErrors and warnings\n");
        for e in self.errors.iter().take(ERRORS_SHOWN) {
            let path = path_text(e.path.as_bytes());
            let _ = writeln!(out, "  {}: {path}: {}", e.code, one_line(&e.error));
        }
        let more = self.errors.len().saturating_sub(ERRORS_SHOWN);
        if more > 0 {
            let _ = writeln!(out, "  … and {} more", grouped(more as u64));
        }
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

/// What was staged, and what stays and why: names and texts of lines.
fn staged_lines(staged: &Staged) -> Vec<(&'static str, String)> {
    let versions = |n: u64| crate::text::count(n, "version");
    let done = format!(
        "{}: {} copied, {} verified, {} given back",
        versions(staged.staged_versions),
        bytes_text(staged.copied_bytes),
        bytes_text(staged.verified_bytes),
        bytes_text(staged.freed_bytes)
    );
    let mut lines = match staged.dry_run {
        true => vec![("Would stage", versions(staged.staged_versions))],
        false => vec![("Staged", done)],
    };
    for v in &staged.versions {
        let id: String = v.session.chars().take(8).collect();
        let of = format!("{}@{id} of {} with {}", v.name, time(&v.start), bytes_text(v.bytes));
        match &v.why {
            Some(why) => lines.push(("Stays", format!("{of}: {why}"))),
            None if staged.dry_run => lines.push(("Would go", of)),
            None => {}
        }
    }
    lines
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

fn unreadable(error: &serde_json::Error) -> Failure {
    let hint = "the report is damaged or of a newer Capstan; --json shows it as it is";
    Failure::of(FAILED, format!("cannot read the session's report: {error}"), Some(hint))
}

/// What limited, for how long, and what would help.
fn limit_text(b: &BottleneckView) -> String {
    let percent = |share: f64| format!("{:.0} % of the time", share * 100.0);
    match &b.backhitches {
        Some(h) => {
            let lowest = h.lowest_mb_s.map(|rate| format!(", below {rate:.1} MB/s"));
            format!(
                "{} and backhitches of the drive{}, {}; the {} backhitches took {}, {}: {}",
                b.stage,
                lowest.unwrap_or_default(),
                percent(b.share),
                grouped(h.count),
                seconds_text(h.seconds),
                percent(h.share),
                b.advice
            )
        }
        // Too short a session has none.
        None if b.share == 0.0 => format!("{}: {}", b.stage, b.advice),
        None => format!("{}, {}: {}", b.stage, percent(b.share), b.advice),
    }
}

/// What a tape drive did, as far as it is known, with that tape, if it does not know it itself.
fn drive_text(d: &DriveReport, tape: Option<&str>) -> String {
    let hitches = |n: u64| if n == 1 { "backhitch" } else { "backhitches" };
    let locates = |n: u64| if n == 1 { "locate" } else { "locates" };
    let located = |n: u64| {
        let took = seconds_text(d.locate_s.unwrap_or(0.0));
        format!("{} {} in {took}", grouped(n), locates(n))
    };
    let parts = [
        d.streaming.map(|share| format!("streamed {:.0} %", share * 100.0)),
        d.backhitches.map(|n| format!("{} {}", grouped(n), hitches(n))),
        d.medium_mb_s.map(|rate| format!("{rate:.1} MB/s at the medium")),
        d.load_s.map(|s| format!("loaded in {}", seconds_text(s))),
        d.locates.filter(|n| *n > 0).map(located),
        d.passes.map(|n| format!("{n:.3} passes")),
        d.compression_ratio.map(|ratio| format!("compressed {ratio:.2}:1")),
        d.corrected_errors.filter(|n| *n > 0).map(|n| format!("{} errors corrected", grouped(n))),
        d.hard_errors.filter(|n| *n > 0).map(|n| format!("{} errors that stayed", grouped(n))),
        (d.read_again > 0).then(|| format!("{} blocks read again", grouped(d.read_again))),
    ];
    let known: Vec<String> = parts.into_iter().flatten().collect();
    let mut text = match d.tape.as_deref().or(tape) {
        Some(tape) => format!("{tape} in {}", d.name),
        None => d.name.clone(),
    };
    if !known.is_empty() {
        let _ = write!(text, ": {}", known.join(", "));
    }
    text
}

/// The media that a restore reads, in the order in which it does: a line each, of an array one for each of its tapes.
fn pick_list(list: &[Pick]) -> String {
    use Align::{Left, Right};
    let head = [
        ("Medium", Left),
        ("Barcode", Left),
        ("Where", Left),
        ("Files", Right),
        ("Size", Right),
        ("For", Left),
        ("Device", Left),
    ];
    let row = |of: &Pick, barcode: &str, place: &str, device: &str, is_first: bool| {
        let once = |text: String| if is_first { text } else { String::new() };
        [
            path_text(of.label.as_bytes()),
            barcode.to_owned(),
            path_text(place.as_bytes()),
            once(grouped(of.files)),
            once(bytes_text(of.bytes)),
            once(path_text(of.versions.join(", ").as_bytes())),
            path_text(device.as_bytes()),
        ]
    };
    let rows = |of: &Pick| match &of.tapes[..] {
        [] => vec![row(of, "", &of.place, &of.device, true)],
        [one] => vec![row(of, &one.barcode, &of.place, &one.library, true)],
        tapes => tapes
            .iter()
            .enumerate()
            .map(|(n, tape)| row(of, &tape.barcode, &tape.place, &tape.library, n == 0))
            .collect(),
    };
    columns(head, list.iter().flat_map(rows).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_cell::report::{
        Bottleneck, LateBackhitches, ReportError, StageReport, StagedVersion,
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
            host: "ann".to_owned(),
            method: "full".to_owned(),
            status: "completed_with_errors".to_owned(),
            start: "not a time".to_owned(),
            files: 12_345,
            error_count: 1,
            errors: vec![ReportError {
                path: "/a\nb".to_owned(),
                error: "gone".to_owned(),
                code: "unreadable",
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
