//! How long a restore of all of a version will take, and on what that rests.

use crate::history::Past;
use crate::report::ExpectedRestore;

/// Sessions that restored are looked at before those that backed up; of each, this many of the latest.
const LATEST: usize = 10;

/// What a session moved, and in which time.
struct Pace<'a> {
    kind: &'static str,
    session: &'a str,
    files: u64,
    bytes: u64,
    seconds: f64,
}

/// The time that a restore of so many files and bytes is expected to take. It rests on the object's latest restores and drills,
/// where there are any that wrote something, else on its backups; of several on the one that moved the most: small ones mostly
/// measure what every session costs. `this`: the backup that just ended, as the one to fall back to.
pub(crate) fn expected_restore(
    files: u64,
    bytes: u64,
    past: &[Past],
    this: &Past,
) -> Option<ExpectedRestore> {
    let ids: Vec<String> = past.iter().chain([this]).map(|p| p.id.to_string()).collect();
    let all = || past.iter().chain([this]).zip(&ids);
    let pace = |(p, id), kind: &'static str| {
        let p: &Past = p;
        let bytes = if kind == "backup" { p.report.bytes_read } else { p.report.bytes_written };
        let files = if kind == "backup" {
            p.report.files - p.report.kept.min(p.report.files)
        } else {
            p.report.files
        };
        let id: &String = id;
        (p.kind == kind && files > 0 && p.report.elapsed_s > 0.0).then_some(Pace {
            kind,
            session: id,
            files,
            bytes,
            // A drill proves what it restored: that is no part of a restore.
            seconds: p.report.drill.as_ref().map_or(p.report.elapsed_s, |d| d.restore_s),
        })
    };
    let most = |kinds: &[&'static str]| {
        let of = |x| kinds.iter().find_map(|kind| pace(x, kind));
        all().filter_map(of).take(LATEST).max_by_key(|p| (p.bytes, p.files))
    };
    let pace = most(&["restore", "drill"]).or_else(|| most(&["backup"]))?;
    let by = |done: u64, all: u64| match done {
        0 => 0.0,
        _ => all as f64 * pace.seconds / done as f64,
    };
    // Large files are bound by bytes, small ones by their number.
    let seconds = by(pace.bytes, bytes).max(by(pace.files, files));
    Some(ExpectedRestore {
        seconds: (seconds * 10.0).ceil() / 10.0,
        files,
        bytes,
        rests_on: pace.kind,
        session: pace.session.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::PastReport;
    use capstan_format::id::SessionId;

    fn past(id: u8, kind: &str, files: u64, bytes: u64, elapsed_s: f64) -> Past {
        let report = PastReport {
            files,
            bytes_read: bytes,
            bytes_written: bytes,
            elapsed_s,
            ..PastReport::default()
        };
        Past { id: SessionId([id; 16]), kind: kind.to_owned(), report }
    }

    #[test]
    fn restores_count_before_drills_of_less_and_backups() {
        let this = past(9, "backup", 100, 1_000_000_000, 10.0);
        let of = |past: &[Past]| {
            let e = expected_restore(200, 2_000_000_000, past, &this).unwrap();
            (e.seconds, e.rests_on, e.session[..2].to_owned())
        };
        assert_eq!(of(&[]), (20.0, "backup", "09".to_owned()));
        let drill = past(1, "drill", 2, 10_000_000, 1.0);
        assert_eq!(of(std::slice::from_ref(&drill)).1, "drill");
        let restore = past(2, "restore", 100, 500_000_000, 10.0);
        assert_eq!(of(&[drill, restore]), (40.0, "restore", "02".to_owned()));
        // Many small files.
        let small = past(3, "restore", 1000, 1000, 10.0);
        let e = expected_restore(500_000, 1000, &[small], &this).unwrap();
        assert_eq!(e.seconds, 5000.0);
        // One that restored nothing says nothing.
        assert_eq!(of(&[past(4, "restore", 0, 0, 1.0)]).1, "backup");
    }

    #[test]
    fn without_anything_to_go_by_nothing_is_said() {
        assert!(expected_restore(5, 5, &[], &past(1, "backup", 0, 0, 1.0)).is_none());
    }
}
