//! The session of a restore, as it is recorded and as its report begins.

use capstan_format::id::SessionId;
use capstan_idb::{Status, Version};
use capstan_wire::restore::LeftAlone;

use crate::clients::Client;
use crate::error::Result;
use crate::kinds::skeleton::SessionRun;
use crate::report::Report;
use crate::request::{RestoreRequest, RestoreTo};

/// A restore under way.
pub(super) struct RunOf<'a> {
    pub session: SessionRun<'a>,
    pub request: &'a RestoreRequest,
    /// Where it writes.
    pub client: &'a Client,
    pub version: &'a Version,
    /// The session that wrote the version.
    pub from: Option<SessionId>,
}

impl RunOf<'_> {
    /// Where it restores to, for people.
    pub fn destination(&self) -> String {
        match &self.request.to {
            RestoreTo::Into(dir) => dir.display().to_string(),
            RestoreTo::InPlace => "/".to_owned(),
            RestoreTo::Tar(_) => "tar".to_owned(),
        }
    }

    pub fn record_begin(&self) -> Result<()> {
        self.session.record_begin(self.destination(), Some(self.version.object), self.from)
    }

    pub fn report(&self, status: Status) -> Report {
        let report = self.session.report(&self.request.version.name, status);
        Report { base_session: self.from.map(|s| s.to_string()), ..report }
    }
}

/// Fills in what was there already, and what became of it.
pub(super) fn left_alone(of: &LeftAlone, report: &mut Report) {
    (report.skipped, report.put_right) = (of.kept, of.put_right);
    report.notes.extend(differ_text(of.differ));
}

/// What a report says of files that look like those in the backup, and whose metadata the policy kept.
fn differ_text(n: u64) -> Option<String> {
    let (files, have) = if n == 1 { ("file", "has") } else { ("files", "have") };
    (n > 0).then(|| {
        format!(
            "{n} {files} that were left alone {have} another owner, mode or attributes than in the backup: --overwrite if-different puts \
             these right, and replaces files that were changed"
        )
    })
}
