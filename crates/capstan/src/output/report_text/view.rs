//! A session's report as it is stored.

use capstan_cell::Pick;
use capstan_cell::report::{DrillReport, DriveReport, Report, Staged};
use capstan_medium::tape::Struck;
use serde::Deserialize;

use crate::exit::{FAILED, Failure};

/// A report as it is stored and printed; fields that an older version did not have are empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct View {
    pub(super) session: String,
    pub(super) name: String,
    pub(super) host: String,
    pub(super) method: String,
    pub(super) base_session: Option<String>,
    pub(super) status: String,
    pub(super) start: String,
    pub(super) end: String,
    pub(super) files: u64,
    pub(super) dirs: u64,
    pub(super) skipped: u64,
    pub(super) put_right: u64,
    pub(super) in_use: u64,
    pub(super) corrupt: u64,
    pub(super) away: u64,
    pub(super) away_bytes: u64,
    pub(super) kept: u64,
    pub(super) moved: u64,
    pub(super) moved_bytes: u64,
    pub(super) error_count: u64,
    pub(super) errors: Vec<ErrorView>,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    pub(super) media: Vec<String>,
    pub(super) elapsed_s: f64,
    pub(super) rate_mb_s: f64,
    pub(super) rate_sustained_mb_s: f64,
    pub(super) media_change_s: f64,
    pub(super) tape_wait_s: f64,
    pub(super) peak_rss_bytes: u64,
    pub(super) encryption: Option<String>,
    pub(super) drives: Vec<DriveReport>,
    pub(super) bottleneck: Option<BottleneckView>,
    pub(super) stages: Vec<StageView>,
    pub(super) anomalies: Vec<AnomalyView>,
    pub(super) expected_restore: Option<ExpectedView>,
    pub(super) drill: Option<DrillReport>,
    pub(super) staged: Option<Staged>,
    pub(super) faults: Vec<Struck>,
    pub(super) pick: Vec<Pick>,
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorView {
    pub(super) path: String,
    pub(super) error: String,
    pub(super) code: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct BottleneckView {
    pub(super) stage: String,
    pub(super) share: f64,
    pub(super) advice: String,
    pub(super) backhitches: Option<BackhitchesView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct BackhitchesView {
    pub(super) count: u64,
    pub(super) seconds: f64,
    pub(super) share: f64,
    pub(super) lowest_mb_s: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AnomalyView {
    pub(super) what: String,
    pub(super) value: f64,
    pub(super) median: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ExpectedView {
    pub(super) seconds: f64,
    pub(super) rests_on: String,
    pub(super) session: String,
    pub(super) sessions: u64,
    pub(super) medium: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StageView {
    pub(super) name: String,
    pub(super) busy_s: f64,
    pub(super) wait_in_s: f64,
    pub(super) wait_out_s: f64,
    pub(super) bytes: u64,
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
}

fn unreadable(error: &serde_json::Error) -> Failure {
    let hint = "the report is damaged or of a newer Capstan; --json shows it as it is";
    Failure::of(FAILED, format!("cannot read the session's report: {error}"), Some(hint))
}
