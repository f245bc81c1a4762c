//! A backup that could not begin: it is on record, so that silence is noticed.

use std::path::PathBuf;

use capstan_engine::leaving;
use capstan_format::id::{ObjectId, SessionId};
use capstan_idb::{Object, Refused, Session, Status, Totals};

use super::devices_of;
use crate::Cell;
use crate::error::Result;
use crate::kinds::backup::roots::outermost;
use crate::report::Report;
use crate::request::{BackupRequest, Source};
use crate::session::now_us;

impl Cell {
    /// Records a backup that was refused before it was a session, with what its report says, and gives the report the id.
    /// An object that was never backed up `becomes_known` by it, so that `status` says that it has no complete version; else
    /// the refusal alone is recorded: somebody may have mistyped its name. `code` is the exit code.
    pub fn record_unbegun(
        &self,
        request: &BackupRequest,
        becomes_known: bool,
        code: u8,
        report: &mut Report,
    ) -> Result<()> {
        if request.dry_run || request.keeps_nothing() {
            return Ok(());
        }
        report.name = request.name.clone().unwrap_or_else(|| self.name_of(request));
        let host = request.client.as_ref().unwrap_or_else(|| self.host());
        let name = &report.name;
        let known = self.idb.objects_by_name(name)?.into_iter().find(|o| o.host == host);
        let object = match known {
            // The one that runs is its last backup.
            Some(object) if self.idb.is_in_use(object.id)? => return Ok(()),
            Some(object) => object.id,
            None if name.is_empty() => return Ok(()),
            None if leaving::has_left() => return Ok(()),
            None if !becomes_known => {
                return self.record_refused(Refused::Backup, name, code, &reason(report));
            }
            None => {
                let id = ObjectId(self.new_id()?);
                let (name, host) = (name.clone(), host.to_owned());
                self.idb.put_object(&Object { id, name, host, sealed: None })?;
                id
            }
        };
        let id = SessionId(self.new_id()?);
        report.session = id.to_string();
        let ended_us = now_us();
        let started_us = ended_us - (report.elapsed_s * 1e6) as i64;
        let session = Session {
            object: Some(object),
            tags: request.tags.clone(),
            run_us: Some(request.run_us),
            ..self.begun(id, "backup", devices_of(request), started_us)
        };
        self.begin_session(&session, None)?;
        let json = serde_json::to_string(&report).unwrap_or_default();
        self.idb.end_session(id, Status::Failed, ended_us, &Totals::default(), &json, None)?;
        // Somebody ended what waited: that is no refusal.
        if leaving::has_left() {
            return Ok(());
        }
        self.record_refused(Refused::Backup, &report.name, code, &reason(report))
    }

    /// The name that the object has by default; where its paths do not resolve, as far as they are as they are written.
    fn name_of(&self, request: &BackupRequest) -> String {
        let paths = match &request.source {
            Source::Paths(paths) => paths,
            Source::Stdin(name) | Source::Command(_, name) => return name.clone(),
        };
        let client = self.client(request.client.as_ref()).ok();
        let named = client.and_then(|client| client.ask_paths(paths, &[]).ok());
        let names: Vec<String> = match named {
            Some(named) => outermost(&named, &[])
                .iter()
                .map(|r| format!("/{}", String::from_utf8_lossy(r)))
                .collect(),
            None => {
                let absolute = |p: &PathBuf| std::path::absolute(p).unwrap_or_else(|_| p.clone());
                paths.iter().map(|p| absolute(p).display().to_string()).collect()
            }
        };
        names.join(",")
    }
}

/// Why a backup was refused, and what to do, as its report says it.
fn reason(report: &Report) -> String {
    report.errors.first().map(|e| e.error.clone()).unwrap_or_default()
}
