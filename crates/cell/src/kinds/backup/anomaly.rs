//! A backup unlike the object's earlier ones: far more files changed, or what changed no longer compresses. So looks a file
//! system that malware encrypts. Or nothing is there where much was.

use capstan_engine::meter::Stage;

use crate::report::Anomaly;
use crate::report::history::{Past, PastReport};
use crate::report::{INPUT_SIZE, NO_FILES};

/// Earlier backups of the same level that there must be to judge by.
const LEAST: usize = 3;
/// At most so many of the latest are taken.
const MOST: usize = 20;
/// A value is out of line when it is above the median by so many standard deviations...
const DEVIATIONS: f64 = 6.0;
/// ...which the median absolute deviation gives for normally distributed values (Hampel 1974)...
const NORMAL: f64 = 1.4826;
/// ...and by this at least: where all earlier values are the same, the deviation is 0.
const LEAST_JUMP: f64 = 0.2;
/// Fewer changed files are no wave.
const LEAST_FILES: u64 = 10;
/// With fewer bytes, what surrounds contents on a medium counts for too much.
const LEAST_BYTES: u64 = 1_000_000;

const SMALL: f64 = 0.1;
/// ...where that has so many bytes at least.
const LEAST_INPUT: f64 = 1_000.0;

/// What is out of line in a backup, against earlier ones of the same object (newest first). `compressed`: whether it was to
/// compress.
pub(crate) fn anomalies(now: &PastReport, past: &[Past], compressed: bool) -> Vec<Anomaly> {
    let comparable = || {
        let same = |p: &&Past| p.kind == "backup" && p.report.method == now.method;
        past.iter().filter(same).map(|p| &p.report).take(MOST)
    };
    let judge = |what, value: fn(&PastReport) -> Option<f64>| {
        out_of_line(what, value(now)?, comparable().filter_map(value).collect())
    };
    let mut found: Vec<Anomaly> = Vec::new();
    if now.stored_anew() >= LEAST_FILES {
        found.extend(judge("changed_files", changed));
    }
    if compressed {
        found.extend(judge("stored_size", stored));
    }
    found.extend(small_input(now, past));
    found.extend(no_files(now, past));
    found
}

/// No file is there, and the last backup had many.
fn no_files(now: &PastReport, past: &[Past]) -> Option<Anomaly> {
    let last = past.iter().find(|p| p.kind == "backup" && !p.report.media.is_empty())?;
    let had = last.report.files;
    (now.files == 0 && had >= LEAST_FILES).then_some(Anomaly {
        what: NO_FILES,
        value: 0.0,
        median: had as f64,
        spread: 0.0,
        sessions: 1,
    })
}

/// The share of files of which contents were stored: what was moved or touched did not change. A full backup does not know.
fn changed(r: &PastReport) -> Option<f64> {
    let known = r.method != "full" && r.files > 0;
    known.then(|| r.stored_anew() as f64 / r.files as f64)
}

/// An input that gave far less than before.
fn small_input(now: &PastReport, past: &[Past]) -> Option<Anomaly> {
    let sizes = past.iter().filter(|p| p.kind == "backup" && p.report.is_of_input());
    let sizes = sizes.map(|p| p.report.bytes_read as f64).filter(|bytes| *bytes > 0.0).take(MOST);
    let mut sizes: Vec<f64> = sizes.collect();
    let median = median(&mut sizes);
    let value = now.bytes_read as f64;
    // Of one that gave nothing at all that is said.
    let is_small = now.is_of_input() && value > 0.0 && value < median * SMALL;
    (is_small && median >= LEAST_INPUT).then_some(Anomaly {
        what: INPUT_SIZE,
        value,
        median,
        spread: 0.0,
        sessions: sizes.len(),
    })
}

/// What contents take for each byte of theirs. Of what is written again, as on a further tape, a medium has more; reports of
/// earlier programs know no better.
fn stored(r: &PastReport) -> Option<f64> {
    let stored = match r.stages.iter().find(|stage| stage.name == Stage::Cpu.name()) {
        Some(cpu) if cpu.bytes > 0 => cpu.bytes,
        _ => r.bytes_written,
    };
    (r.bytes_read >= LEAST_BYTES).then(|| stored as f64 / r.bytes_read as f64)
}

fn out_of_line(what: &'static str, value: f64, mut earlier: Vec<f64>) -> Option<Anomaly> {
    if earlier.len() < LEAST {
        return None;
    }
    let median = median(&mut earlier);
    let mut deviations: Vec<f64> = earlier.iter().map(|e| (e - median).abs()).collect();
    let spread = NORMAL * self::median(&mut deviations);
    let limit = median + (DEVIATIONS * spread).max(LEAST_JUMP);
    (value > limit).then_some(Anomaly { what, value, median, spread, sessions: earlier.len() })
}

/// Of an even number of values, the mean of the two in the middle.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() % 2 {
        1 => values[half],
        _ if values.is_empty() => 0.0,
        _ => f64::midpoint(values[half - 1], values[half]),
    }
}

impl Anomaly {
    /// The sentence that says it, with both numbers.
    pub(crate) fn text(&self) -> String {
        if self.what == INPUT_SIZE {
            return format!(
                "the input has {} bytes, where the median of the last {} is {}: a sign that the command does not give all",
                self.value, self.sessions, self.median
            );
        }
        if self.what == NO_FILES {
            return format!(
                "no file was found, where the last backup found {}: a sign that something is not mounted, or that all was removed",
                self.median
            );
        }
        let (found, meaning) = self.said();
        format!("{found}: a sign of encryption by malware, {meaning}")
    }

    /// The same where what is taken now and was not before explains it.
    pub(crate) fn explained_by(&self, joins: &[String]) -> String {
        format!(
            "{}: more is taken than before, which explains it: {}",
            self.said().0,
            joins.join("; ")
        )
    }

    /// What was found, with both numbers, and what it may mean besides.
    fn said(&self) -> (String, &'static str) {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let (what, meaning) = match self.what {
            "changed_files" => ("of the files changed", "or a large change that you know of"),
            _ => (
                "of their size is what changed files take on the medium",
                "or data of another kind",
            ),
        };
        let found = format!(
            "{} {what}, where the median of the last {} such backups is {} (spread {})",
            percent(self.value),
            self.sessions,
            percent(self.median),
            percent(self.spread)
        );
        (found, meaning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::history::PastStage;
    use capstan_format::id::SessionId;

    #[test]
    fn that_no_file_is_there_is_out_of_line_with_one_earlier_backup() {
        let of = |files| PastReport { media: vec!["m".to_owned()], ..report(files, files, 0, 0) };
        assert_eq!(found(&of(0), &[of(10)]), ["no_files"]);
        let full = PastReport { method: "full".to_owned(), ..of(10) };
        assert_eq!(found(&of(0), &[full]), ["no_files"]);
        assert_eq!(found(&of(1), &[of(10)]), [""; 0]);
        assert_eq!(found(&of(0), &[of(9)]), [""; 0], "few files may all go");
        assert_eq!(found(&of(0), &[of(0), of(10)]), [""; 0], "it was said then");
        assert_eq!(found(&of(0), &[]), [""; 0]);
        let text = anomalies(&of(0), &past(&[of(1234)]), true)[0].text();
        assert!(text.contains("the last backup found 1234"), "{text}");
    }

    fn report(files: u64, kept: u64, read: u64, written: u64) -> PastReport {
        PastReport {
            method: "incr".to_owned(),
            files,
            kept,
            bytes_read: read,
            bytes_written: written,
            ..PastReport::default()
        }
    }

    fn past(reports: &[PastReport]) -> Vec<Past> {
        let of = |r: &PastReport| Past {
            id: SessionId([1; 16]),
            kind: "backup".to_owned(),
            medium: String::new(),
            report: r.clone(),
        };
        reports.iter().map(of).collect()
    }

    fn found(now: &PastReport, earlier: &[PastReport]) -> Vec<&'static str> {
        anomalies(now, &past(earlier), true).iter().map(|a| a.what).collect()
    }

    #[test]
    fn a_jump_of_either_measure_is_out_of_line() {
        let quiet = report(1000, 990, 2_000_000, 800_000);
        let earlier = [quiet.clone(), report(1000, 980, 3_000_000, 1_300_000), quiet.clone()];
        assert_eq!(found(&quiet, &earlier), [""; 0]);
        assert_eq!(found(&report(1000, 0, 2_000_000, 800_000), &earlier), ["changed_files"]);
        assert_eq!(found(&report(1000, 990, 2_000_000, 1_990_000), &earlier), ["stored_size"]);
        let both = report(1000, 0, 2_000_000, 2_000_000);
        assert_eq!(found(&both, &earlier), ["changed_files", "stored_size"]);
        assert_eq!(
            anomalies(&both, &past(&earlier), false).len(),
            1,
            "nothing was to be compressed"
        );
        // Too little to judge by: sessions, files, bytes.
        assert_eq!(found(&both, &earlier[..2]), [""; 0]);
        assert_eq!(found(&report(9, 0, 2_000_000, 800_000), &earlier), [""; 0]);
        assert_eq!(found(&report(1000, 990, 999_999, 999_999), &earlier), [""; 0]);
    }

    #[test]
    fn what_is_written_again_on_a_further_tape_is_none() {
        let stages = |bytes| vec![PastStage { name: "cpu".to_owned(), bytes }];
        let of = |written, stored| PastReport {
            stages: stages(stored),
            ..report(1000, 990, 2_000_000, written)
        };
        let earlier = [of(1_200_000, 800_000), of(900_000, 800_000), of(900_000, 810_000)];
        assert_eq!(found(&of(2_900_000, 800_000), &earlier), [""; 0]);
        assert_eq!(found(&of(900_000, 1_990_000), &earlier), ["stored_size"]);
        let by_an_earlier_program = [0, 0, 0].map(|none| of(900_000, none));
        assert_eq!(found(&of(2_900_000, 800_000), &by_an_earlier_program), [""; 0]);
        assert_eq!(found(&of(900_000, 1_990_000), &by_an_earlier_program), ["stored_size"]);
    }

    #[test]
    fn a_lively_history_and_one_earlier_jump_are_taken_as_they_are() {
        let share = |kept| report(1000, kept, 0, 0);
        let lively = [900, 400, 700, 500, 800].map(share);
        assert_eq!(found(&share(0), &lively), [""; 0]);
        let once = [990, 0, 995, 990, 985].map(share);
        assert_eq!(found(&share(100), &once), ["changed_files"]);
        let another =
            [990, 990, 990].map(|kept| PastReport { method: "level 1".into(), ..share(kept) });
        assert_eq!(found(&share(0), &another), [""; 0]);
    }

    #[test]
    fn what_was_moved_or_touched_did_not_change() {
        let earlier = [990, 980, 990].map(|kept| report(1000, kept, 0, 0));
        let moved = PastReport { moved: 995, ..report(1000, 0, 0, 0) };
        assert_eq!(found(&moved, &earlier), [""; 0]);
        let with_links = PastReport { no_contents: Some(995), moved: 500, ..moved.clone() };
        assert_eq!(found(&with_links, &earlier), [""; 0]);
        let other = PastReport { no_contents: Some(100), ..moved };
        assert_eq!(found(&other, &earlier), ["changed_files"]);
    }

    #[test]
    fn an_input_that_gives_far_less_is_out_of_line() {
        let selection = || Some(crate::report::history::Taken { paths: Some(Vec::new()) });
        let of = |bytes| PastReport {
            method: "full".to_owned(),
            selection: selection(),
            ..report(1, 0, bytes, bytes)
        };
        assert_eq!(found(&of(99), &[of(1000)]), ["input_size"], "one earlier is enough");
        assert_eq!(found(&of(100), &[of(1000)]), [""; 0]);
        assert_eq!(found(&of(20), &[of(20), of(1000), of(1200)]), ["input_size"]);
        assert_eq!(found(&of(20), &[of(999)]), [""; 0], "small ones vary");
        assert_eq!(found(&of(0), &[of(1000)]), [""; 0], "that is an error of its own");
        assert_eq!(found(&of(20), &[of(0), of(0), of(0), of(1000)]), ["input_size"]);
        let paths = PastReport { selection: None, ..of(20) };
        assert_eq!(found(&paths, &[of(1000)]), [""; 0]);
        assert_eq!(found(&of(20), &[PastReport { selection: None, ..of(1000) }]), [""; 0]);
        let text = anomalies(&of(20), &past(&[of(1000)]), true)[0].text();
        assert!(text.contains("has 20 bytes") && text.contains("is 1000"), "{text}");
    }

    #[test]
    fn the_sentence_has_both_numbers() {
        let text = Anomaly {
            what: "changed_files",
            value: 1.0,
            median: 0.0125,
            spread: 0.001,
            sessions: 7,
        }
        .text();
        assert!(
            text.starts_with("100.0 % of the files changed, where the median of the last 7"),
            "{text}"
        );
        assert!(text.contains("1.2 % (spread 0.1 %)"), "{text}");
    }
}
