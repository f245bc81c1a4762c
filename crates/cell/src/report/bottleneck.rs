//! What limited a session, as its report says it: the verdict of the watch, and what drives did.

use capstan_engine::verdict::{Flow, Verdict};
use serde::Serialize;

use crate::report::DriveReport;

/// A session's bottleneck.
#[derive(Debug, Clone, Serialize)]
pub struct Bottleneck {
    /// The stage's name.
    pub stage: &'static str,
    /// Share of the time in which it limited, 0 to 1; with backhitches, in which it or these did.
    pub share: f64,
    /// What would help.
    pub advice: &'static str,
    /// The backhitches of a drive that is not fed, or emptied, as fast as its lowest speed, where they limited too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backhitches: Option<LateBackhitches>,
}

/// Backhitches that limited a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LateBackhitches {
    /// How many.
    pub count: u64,
    /// Seconds that they took: to stop, to go back and to start.
    pub seconds: f64,
    /// Share of the time, 0 to 1.
    pub share: f64,
    /// The lowest rate at which the drive goes on without stopping, MB = 10^6 bytes.
    pub lowest_mb_s: Option<f64>,
}

impl Bottleneck {
    /// What a watch says, with what drives did.
    pub(crate) fn of(verdict: Verdict, flow: Flow, drives: &[DriveReport]) -> Self {
        // Drives that work at the same time stop at the same time, or the slowest holds up the others.
        let late = |d: &&DriveReport| d.late_backhitches.is_some_and(|n| n > 1);
        let seconds = |d: &DriveReport| d.backhitch_s.unwrap_or(0.0);
        let hitched = drives.iter().filter(late).max_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        let verdict = hitched.map_or(verdict, |drive| verdict.with_backhitches(seconds(drive)));
        let backhitches = verdict.backhitches.zip(hitched).map(|(share, drive)| LateBackhitches {
            count: drive.late_backhitches.unwrap_or(0),
            seconds: seconds(drive),
            share: rounded(share),
            lowest_mb_s: drive.lowest_mb_s,
        });
        let (stage, share) = match verdict.is_too_short() {
            true => (TOO_SHORT, 0.0),
            false => (verdict.name(), rounded(verdict.share)),
        };
        Self { stage, share, advice: verdict.advice(flow), backhitches }
    }
}

/// The stage of a session that was too short for a verdict.
const TOO_SHORT: &str = "unknown";

fn rounded(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod table;
