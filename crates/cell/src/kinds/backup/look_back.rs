//! What a backup that is done says against the object's earlier sessions.

use capstan_engine::message::Code;
use capstan_format::record::SessionLabel;

use crate::Cell;
use crate::error::Result;
use crate::kinds::backup::anomaly::anomalies;
use crate::kinds::backup::plan::Plan;
use crate::report::expected::expected_restore;
use crate::report::history::{Past, PastReport, PastStage, Taken};
use crate::report::{NO_FILES, Report};
use crate::request::{BackupRequest, Compression};
use crate::session::SessionLog;
use crate::versions::lacking::Said;

impl Cell {
    /// Adds to the report what is out of line, which is said, and how long a restore will take. What joined the
    /// selection since the object's last version explains both.
    pub(super) fn look_back(
        &self,
        label: &SessionLabel,
        kept_bytes: u64,
        request: &BackupRequest,
        plan: &Plan,
        report: &mut Report,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        let past = self.past(label.object)?;
        let joins = self.what_joins(label, request, plan)?;
        let now = PastReport {
            method: report.method.clone(),
            files: report.files,
            kept: report.kept,
            skipped: report.skipped,
            bytes_read: report.bytes_read,
            bytes_written: report.bytes_written,
            elapsed_s: report.elapsed_s,
            tape_wait_s: report.tape_wait_s,
            media: report.media.clone(),
            drill: None,
            moved: report.moved,
            no_contents: Some(report.no_contents),
            selection: report.selection.as_ref().map(|s| Taken { paths: Some(s.paths.clone()) }),
            stages: report.stages.iter().map(PastStage::of).collect(),
        };
        let found = anomalies(&now, &past, request.compression != Compression::Off);
        for anomaly in found {
            let is_empty = anomaly.what == NO_FILES;
            // What could not be reached was said.
            if is_empty && !Said::so_far(log).is_empty() {
                continue;
            }
            // What is explained alarms nobody.
            if !is_empty && !joins.is_empty() {
                report.notes.push(anomaly.explained_by(&joins));
                continue;
            }
            log.say(Code::Anomaly, "cell", &report.name, anomaly.text());
            report.anomalies.push(anomaly);
        }
        let bytes = report.bytes_read.saturating_add(kept_bytes);
        let medium = now.medium(&self.kinds_of_media()?);
        let this = Past { id: label.session, kind: "backup".to_owned(), medium, report: now };
        report.expected_restore = expected_restore(report.files, bytes, &past, &this);
        Ok(())
    }
}
