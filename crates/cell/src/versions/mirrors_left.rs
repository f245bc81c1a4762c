//! Mirrors that an object's last backups did not write: which, and since when.

use capstan_engine::message::Code;
use capstan_idb::{Session, Status};
use serde::Deserialize;

use crate::session::rfc3339;

/// Codes that say that a mirror was left, at the begin of a session or later.
const LEFT: [&str; 2] = [Code::MirrorFailed.name(), Code::MirrorAway.name()];
/// The most that is shown of why, in bytes.
const WHY_MAX: usize = 300;

#[derive(Default, Deserialize)]
#[serde(default)]
struct OfReport {
    errors: Vec<Said>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    path: String,
    error: String,
    code: String,
}

/// The mirrors that a backup left, each once, with what was said of it.
fn left_by(session: &Session) -> Vec<(String, String)> {
    let report = session.report.as_deref().map(serde_json::from_str::<OfReport>);
    let mut left: Vec<(String, String)> = Vec::new();
    for said in report.and_then(|report| report.ok()).unwrap_or_default().errors {
        let is_new = left.iter().all(|(mirror, _)| *mirror != said.path);
        if LEFT.contains(&said.code.as_str()) && !said.path.is_empty() && is_new {
            left.push((said.path, said.error));
        }
    }
    left
}

/// A sentence for each mirror that the last of these backups left; they come newest first.
pub(crate) fn mirrors_left(backups: &[Session]) -> Vec<String> {
    let is_kept = |s: &&Session| !s.device.starts_with("null:") && s.status != Status::Running;
    let backups: Vec<&Session> = backups.iter().filter(is_kept).collect();
    let Some(last) = backups.first() else { return Vec::new() };
    let text = |(mirror, why): (String, String)| {
        let is_left = |s: &&&Session| left_by(s).iter().any(|(other, _)| *other == mirror);
        // One that wrote nothing says nothing of mirrors.
        let told = backups.iter().filter(|s| s.status != Status::Failed || is_left(s));
        let since: Vec<&&Session> = told.take_while(is_left).collect();
        let first = since.last().map_or(last.started_us, |s| s.started_us);
        let times = match since.len() {
            0 | 1 => String::new(),
            n => format!(", by {n} backups"),
        };
        let why = crate::names::bounded(why, WHY_MAX);
        format!(
            "its mirror {mirror} was not written, or not to the end, since {}{times}: {why}",
            rfc3339(first)
        )
    };
    left_by(last).into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use capstan_format::id::SessionId;

    use capstan_address::HostName;

    use super::*;
    use crate::session::begun_on;

    fn backup(started_us: i64, status: Status, left: &[&str]) -> Session {
        let error = |m: &&str| {
            format!("{{\"path\":\"{m}\",\"error\":\"full\",\"code\":\"mirror-failed\"}}")
        };
        let errors: Vec<String> = left.iter().map(error).collect();
        let report = Some(format!("{{\"errors\":[{}]}}", errors.join(",")));
        let id = SessionId([u8::try_from(started_us).unwrap(); 16]);
        Session {
            status,
            report,
            ..begun_on(
                &HostName::recorded("here"),
                id,
                "backup",
                "file:/m".to_owned(),
                started_us * 1_000_000,
            )
        }
    }

    #[test]
    fn a_mirror_is_named_with_since_when() {
        let failed = backup(3, Status::Failed, &[]);
        let all = [
            backup(4, Status::CompletedWithErrors, &["/b", "/b"]),
            failed,
            backup(2, Status::CompletedWithErrors, &["/a", "/b"]),
            backup(1, Status::Completed, &[]),
        ];
        let said = mirrors_left(&all);
        let words = "its mirror /b was not written, or not to the end, since 1970-01-01T00:00:02.000Z, by 2 backups: full";
        assert_eq!(said, [words]);
        assert_eq!(mirrors_left(&all[3..]), [""; 0]);
        assert_eq!(mirrors_left(&[]), [""; 0]);
    }
}
