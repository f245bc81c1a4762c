//! Runs contenders in turn, A B C, C B A, throws the first round away and takes medians: the machine's speed drifts
//! within minutes, and neighbours in time share the drift. Every other round goes backwards, since what ran before
//! leaves its traces (Bacula empties the page cache of what it read, a freed tmpfs costs whoever takes its pages next),
//! and nobody should always follow the same one.

use crate::context::Context;
use crate::error::BenchError;

/// What one run gave.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// Seconds.
    pub wall_s: f64,
    /// CPU seconds.
    pub cpu_s: f64,
    /// Peak memory in bytes.
    pub peak_rss: u64,
    /// Bytes that it stored, where that was looked at.
    pub stored: u64,
    /// Bytes that it had read from disks, where that was looked at.
    pub disk_read: u64,
}

impl From<crate::process::Usage> for Sample {
    fn from(usage: crate::process::Usage) -> Self {
        let crate::process::Usage { wall_s, cpu_s, peak_rss, disk_read } = usage;
        Self { wall_s, cpu_s, peak_rss, stored: 0, disk_read }
    }
}

/// Someone who does the work.
pub struct Contender<'a> {
    /// Its name.
    pub label: String,
    /// One run: prepares, works on the clock, clears up.
    pub run: Box<dyn FnMut() -> Result<Sample, BenchError> + 'a>,
}

impl<'a> Contender<'a> {
    /// A contender.
    pub fn new(
        label: impl Into<String>,
        run: impl FnMut() -> Result<Sample, BenchError> + 'a,
    ) -> Self {
        Self { label: label.into(), run: Box::new(run) }
    }
}

/// The runs of one contender that count.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Its name.
    pub label: String,
    /// Its runs.
    pub samples: Vec<Sample>,
    /// Why it has none.
    pub failed: Option<String>,
}

impl Outcome {
    /// Median seconds.
    pub fn wall_s(&self) -> f64 {
        self.median(|s| s.wall_s)
    }

    /// Median CPU seconds.
    pub fn cpu_s(&self) -> f64 {
        self.median(|s| s.cpu_s)
    }

    /// The largest peak of memory of all runs.
    pub fn peak_rss(&self) -> u64 {
        self.samples.iter().map(|s| s.peak_rss).max().unwrap_or(0)
    }

    /// Median of the bytes stored.
    pub fn stored(&self) -> f64 {
        self.median(|s| s.stored as f64)
    }

    /// Median of the bytes read from disks.
    pub fn disk_read(&self) -> f64 {
        self.median(|s| s.disk_read as f64)
    }

    /// Fastest and slowest run.
    pub fn range_s(&self) -> (f64, f64) {
        if !self.ran() {
            return (0.0, 0.0);
        }
        let walls = || self.samples.iter().map(|s| s.wall_s);
        (walls().fold(f64::INFINITY, f64::min), walls().fold(0.0, f64::max))
    }

    /// Whether it ran.
    pub fn ran(&self) -> bool {
        !self.samples.is_empty()
    }

    fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(of).collect())
    }
}

/// The middle value, or the mean of the two middle ones; 0 of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => 0.0,
        _ if n % 2 == 1 => values[n / 2],
        _ => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// Runs all contenders in turn. The first is the one that is measured: if it fails the row has failed. Another that
/// fails drops out, and its outcome says why.
pub fn alternate(
    context: &Context,
    mut contenders: Vec<Contender<'_>>,
) -> Result<Vec<Outcome>, BenchError> {
    let mut outcomes: Vec<Outcome> = contenders
        .iter()
        .map(|c| Outcome { label: c.label.clone(), ..Outcome::default() })
        .collect();
    for round in 0..=context.runs {
        for n in order(contenders.len(), round) {
            let contender = &mut contenders[n];
            let outcome = &mut outcomes[n];
            if outcome.failed.is_some() {
                continue;
            }
            match (contender.run)() {
                Ok(sample) => {
                    let Sample { wall_s, cpu_s, peak_rss, .. } = sample;
                    let mib = peak_rss >> 20;
                    let count = if round == 0 { "does not count" } else { "" };
                    eprintln!(
                        "  {round}/{} {:<28} {wall_s:8.3} s, CPU {cpu_s:7.3} s, {mib:5} MiB {count}",
                        context.runs, contender.label
                    );
                    if round > 0 {
                        outcome.samples.push(sample);
                    }
                }
                Err(error) if n == 0 => return Err(error),
                Err(error) => {
                    eprintln!("  {}: {error}", contender.label);
                    outcome.samples.clear();
                    outcome.failed = Some(error.to_string());
                }
            }
        }
    }
    Ok(outcomes)
}

/// The contenders' numbers as round `round` takes them: forwards, backwards.
fn order(contenders: usize, round: usize) -> Vec<usize> {
    let forwards = 0..contenders;
    if round.is_multiple_of(2) { forwards.collect() } else { forwards.rev().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_always_follows_the_same() {
        assert_eq!(order(3, 0), [0, 1, 2]);
        assert_eq!(order(3, 1), [2, 1, 0]);
        assert!(order(0, 1).is_empty());
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 100.0]), 3.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 100.0]), 3.0);
    }
}
