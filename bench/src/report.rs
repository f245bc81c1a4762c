//! The lines of the report, kept as JSON beside it, so that a part can be measured again.

mod host;
mod render;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{BenchError, io_error};
use crate::measure::Outcome;

pub use host::today;
pub use render::{render, terminal};

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Goal {
    /// At least that.
    AtLeast(f64),
    /// At most that.
    AtMost(f64),
    /// Only printed.
    Shown,
}

/// A contender's numbers in a line.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Side {
    /// Its name.
    pub label: String,
    /// Median seconds.
    pub wall_s: f64,
    /// Fastest and slowest run.
    pub range_s: (f64, f64),
    /// Median CPU seconds.
    pub cpu_s: f64,
    /// Peak memory in bytes.
    pub peak_rss: u64,
    /// Runs that count.
    pub runs: usize,
}

impl From<&Outcome> for Side {
    fn from(outcome: &Outcome) -> Self {
        Self {
            label: outcome.label.clone(),
            wall_s: outcome.wall_s(),
            range_s: outcome.range_s(),
            cpu_s: outcome.cpu_s(),
            peak_rss: outcome.peak_rss(),
            runs: outcome.samples.len(),
        }
    }
}

/// One comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    /// What is compared.
    pub work: String,
    /// Capstan.
    pub ours: Option<Side>,
    /// The limit or the rival.
    pub theirs: Option<Side>,
    /// The number that has a goal; none if it could not be measured.
    pub value: Option<f64>,
    /// Its unit: `×`, `%`, `MiB`.
    pub unit: String,
    /// What is wanted.
    pub goal: Goal,
    /// What else is to be said, or why there is no number.
    pub note: String,
    /// The day it was measured.
    pub date: String,
}

impl Line {
    /// How many times as fast as the other.
    pub fn speed(work: &str, ours: &Outcome, theirs: &Outcome, goal: Goal) -> Self {
        Self::ratio(work, ours, theirs, theirs.wall_s() / ours.wall_s(), goal)
    }

    /// Another ratio of the two.
    pub fn ratio(work: &str, ours: &Outcome, theirs: &Outcome, value: f64, goal: Goal) -> Self {
        let (reason, measured) = match (&ours.failed, &theirs.failed) {
            (Some(why), _) | (_, Some(why)) => (why.clone(), false),
            _ => (String::new(), ours.ran() && theirs.ran()),
        };
        Self {
            work: work.into(),
            ours: ours.ran().then(|| ours.into()),
            theirs: Some(theirs.into()),
            value: (measured && value.is_finite()).then_some(value),
            unit: "×".into(),
            goal,
            note: reason,
            date: today(),
        }
    }

    /// A number of ours alone.
    pub fn alone(work: &str, ours: &Outcome, value: f64, unit: &str, goal: Goal) -> Self {
        Self {
            work: work.into(),
            ours: Some(ours.into()),
            theirs: None,
            value: Some(value),
            unit: unit.into(),
            goal,
            note: String::new(),
            date: today(),
        }
    }

    /// A comparison that could not be made.
    pub fn missing(work: &str, reason: &str) -> Self {
        Self {
            work: work.into(),
            ours: None,
            theirs: None,
            value: None,
            unit: String::new(),
            goal: Goal::Shown,
            note: reason.into(),
            date: today(),
        }
    }

    /// Adds a remark.
    pub fn note(mut self, text: impl AsRef<str>) -> Self {
        if !self.note.is_empty() && !text.as_ref().is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(text.as_ref());
        self
    }

    /// `met`, by how much it is missed, or a dash.
    pub fn verdict(&self) -> String {
        let Some(value) = self.value else { return "not measured".into() };
        let missed = match self.goal {
            Goal::AtLeast(goal) if value < goal => 1.0 - value / goal,
            Goal::AtMost(goal) if value > goal => value / goal - 1.0,
            Goal::Shown => return "–".into(),
            _ => return "met".into(),
        };
        match missed.is_finite() {
            true => format!("missed by {:.0} %", (missed * 100.0).max(1.0)),
            false => "missed".into(),
        }
    }
}

/// One setting of a sweep.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SweepLine {
    /// The option that is swept.
    pub option: String,
    /// Its value.
    pub value: String,
    /// The backup.
    pub backup: Side,
    /// Bytes read per second of backup, in MB.
    pub rate_mb_s: f64,
    /// Bytes stored.
    pub stored: f64,
    /// Median seconds of a restore.
    pub restore_s: f64,
}

/// All that was measured.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Book {
    /// By benchmark.
    pub lines: BTreeMap<String, Vec<Line>>,
    /// The sweeps.
    pub sweep: Vec<SweepLine>,
}

impl Book {
    /// Where the numbers of a report are kept.
    pub fn store_path(results: &Path) -> PathBuf {
        results.with_extension("json")
    }

    /// The numbers of an earlier run; none if there was none.
    pub fn load(results: &Path) -> Result<Self, BenchError> {
        let path = Self::store_path(results);
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|e| BenchError::Unexpected {
                program: path.display().to_string(),
                problem: format!("it is not a report of this program ({e}): remove it"),
            }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(io_error("read", &path)(e)),
        }
    }

    /// Writes the report and its numbers.
    pub fn save(&self, results: &Path, order: &[&str]) -> Result<(), BenchError> {
        let path = Self::store_path(results);
        let text = serde_json::to_string_pretty(self).map_err(|e| BenchError::Unexpected {
            program: "the report".into(),
            problem: e.to_string(),
        })?;
        fs::write(&path, text + "\n").map_err(io_error("write", &path))?;
        let mut report = render(self, order);
        // What people found out about goals that are missed stands beside the results and is kept.
        if let Ok(notes) = fs::read_to_string(results.with_file_name("NOTES.md")) {
            report.push('\n');
            report.push_str(&notes);
        }
        fs::write(results, report).map_err(io_error("write", results))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Sample;

    fn outcome(label: &str, walls: &[f64]) -> Outcome {
        let samples = walls.iter().map(|w| Sample { wall_s: *w, ..Sample::default() }).collect();
        Outcome { label: label.into(), samples, failed: None }
    }

    #[test]
    fn verdicts_say_how_far_it_is() {
        let (a, b) = (outcome("a", &[2.0, 2.0, 9.0]), outcome("b", &[1.0, 1.4, 1.4]));
        let line = |goal| Line::speed("w", &a, &b, goal);
        assert_eq!(line(Goal::AtLeast(0.7)).verdict(), "met");
        assert_eq!(line(Goal::AtLeast(1.4)).verdict(), "missed by 50 %");
        assert_eq!(line(Goal::AtMost(0.35)).verdict(), "missed by 100 %");
        assert_eq!(line(Goal::Shown).verdict(), "–");
        let failed = Outcome { failed: Some("not installed".into()), ..Outcome::default() };
        let line = Line::speed("w", &a, &failed, Goal::AtLeast(1.0));
        assert_eq!(
            (line.verdict().as_str(), line.note.as_str()),
            ("not measured", "not installed")
        );
    }

    #[test]
    fn a_report_is_kept_and_rendered() {
        let dir = std::env::temp_dir().join(format!("bench-report-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let results = dir.join("RESULTS.md");
        let mut book = Book::load(&results).unwrap();
        let (a, b) = (outcome("capstan", &[2.0]), outcome("tar | gzip", &[3.0]));
        let absent = Outcome { failed: Some("absent".into()), ..Outcome::default() };
        let line = |b| Line::speed("work", &a, b, Goal::AtLeast(1.2));
        book.lines.insert("x".into(), vec![line(&b), line(&absent)]);
        book.save(&results, &["x", "y"]).unwrap();
        let again = Book::load(&results).unwrap();
        let values: Vec<_> = again.lines["x"].iter().map(|line| line.value).collect();
        assert_eq!(values, [Some(1.5), None]);
        let text = fs::read_to_string(&results).unwrap();
        // A bar in a name must not end a cell.
        assert!(text.contains("tar \\| gzip") && text.contains("| met |"), "{text}");
        fs::remove_dir_all(dir).unwrap();
    }
}
