//! How long a restore of all of a version will take, and on what that rests.

use crate::report::ExpectedRestore;
use crate::report::history::Past;

/// Sessions of a kind that are looked at, the latest first.
const LATEST: usize = 10;
/// What a file costs beside its contents, in bytes: a disk moves so many in the time in which it makes a file. With that, sessions
/// that moved few large files and such that moved many small ones have a pace in common.
const FILE_BYTES: u64 = 64 << 10;
/// A session that moved that much shows a pace. What small ones take is what every session takes to begin and end.
const ENOUGH: u64 = 256 << 20;
/// One that moved this part of what is to be restored shows it as well.
const ENOUGH_PART: u64 = 4;

/// A session that shows a pace.
struct Pace {
    /// Bytes of work per second.
    rate: f64,
    session: String,
}

/// The time that a restore of so many files and bytes is expected to take from a medium of a kind. It is the median of the paces of the
/// object's latest restores from such a medium that moved enough; else of its drills, else of its backups to one. `this`: the backup
/// that just ended. `None` where none of them shows a pace.
pub(crate) fn expected_restore(
    files: u64,
    bytes: u64,
    past: &[Past],
    this: &Past,
) -> Option<ExpectedRestore> {
    let wanted = work(files, bytes);
    let enough = ENOUGH.min(wanted / ENOUGH_PART).max(1);
    let is_alike = |p: &&Past| !this.medium.is_empty() && p.medium == this.medium;
    let paces_of = |kind: &'static str| {
        let all = past.iter().chain([this]).filter(is_alike).filter(|p| p.kind == kind);
        let mut paces: Vec<Pace> = all.filter_map(|p| pace(p, enough)).take(LATEST).collect();
        paces.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        (kind, paces)
    };
    let mut kinds = ["restore", "drill", "backup"].into_iter().map(paces_of);
    let (kind, paces) = kinds.find(|(_, paces)| !paces.is_empty())?;
    // Of two in the middle the slower one: who waits would rather be told too much.
    let median = paces.get((paces.len() - 1) / 2)?;
    let seconds = wanted as f64 / median.rate;
    Some(ExpectedRestore {
        seconds: (seconds * 10.0).ceil() / 10.0,
        files,
        bytes,
        rests_on: kind,
        session: median.session.clone(),
        sessions: paces.len() as u64,
        medium: this.medium.clone(),
    })
}

fn work(files: u64, bytes: u64) -> u64 {
    bytes.saturating_add(files.saturating_mul(FILE_BYTES))
}

/// The pace of a session, if it moved enough and hardly did anything else.
fn pace(p: &Past, enough: u64) -> Option<Pace> {
    let r = &p.report;
    let (moved, passed_over, bytes) = match p.kind.as_str() {
        // What did not change was looked at, and not moved.
        "backup" => (r.files.saturating_sub(r.kept), r.kept, r.bytes_read),
        // What was there already was compared, and not moved.
        _ => (r.files, r.skipped, r.bytes_written),
    };
    // A drill proves what it restored, and hands put tapes in: neither is part of the pace.
    let seconds = r.drill.as_ref().map_or(r.elapsed_s - r.tape_wait_s, |drill| drill.restore_s);
    let done = work(moved, bytes);
    let shows = moved > passed_over && done >= enough && seconds > 0.0;
    shows.then(|| Pace { rate: done as f64 / seconds, session: p.id.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::history::PastReport;
    use capstan_format::id::SessionId;

    const MB: u64 = 1_000_000;

    fn past(id: u8, kind: &str, files: u64, bytes: u64, elapsed_s: f64) -> Past {
        let report = PastReport {
            files,
            bytes_read: bytes,
            bytes_written: bytes,
            elapsed_s,
            ..PastReport::default()
        };
        let (kind, medium) = (kind.to_owned(), "disk".to_owned());
        Past { id: SessionId([id; 16]), kind, medium, report }
    }

    /// Seconds for 20,000 files of 4 GB in all, on what they rest, and on how many.
    fn expected(past_ones: &[Past]) -> (u64, &'static str, String, u64) {
        let this = past(9, "backup", 20_000, 4000 * MB, 50.0);
        let e = expected_restore(20_000, 4000 * MB, past_ones, &this).unwrap();
        (e.seconds.round() as u64, e.rests_on, e.session[..2].to_owned(), e.sessions)
    }

    #[test]
    fn one_small_file_says_nothing_of_all() {
        let of_this = (50, "backup", "09".to_owned(), 1);
        assert_eq!(expected(&[]), of_this);
        // A file of 10 kB in 0.1 s: by the number of files it would be 33 minutes.
        assert_eq!(expected(&[past(1, "restore", 1, 10_000, 0.1)]), of_this);
        assert_eq!(expected(&[past(1, "drill", 20, 4 * MB, 3.0)]), of_this);
        // Nor does one that restored nothing, nor a backup of little that looked at much.
        assert_eq!(expected(&[past(1, "restore", 0, 0, 1.0)]), of_this);
        let mut incremental = past(1, "backup", 20_000, 300 * MB, 200.0);
        incremental.report.kept = 19_000;
        assert_eq!(expected(&[incremental]), of_this);
        // One large file is enough, and shows what bytes take.
        let large = past(1, "restore", 1, 2000 * MB, 10.0);
        assert_eq!(expected(&[large]), (27, "restore", "01".to_owned(), 1));
    }

    #[test]
    fn it_is_the_median_of_the_latest_of_the_best_kind() {
        let restore = |id, seconds| past(id, "restore", 20_000, 4000 * MB, seconds);
        let three = [restore(1, 40.0), restore(2, 900.0), restore(3, 30.0)];
        assert_eq!(expected(&three), (40, "restore", "01".to_owned(), 3));
        // Of two the slower.
        assert_eq!(expected(&three[1..]), (900, "restore", "02".to_owned(), 2));
        let drill = past(4, "drill", 20_000, 4000 * MB, 20.0);
        assert_eq!(expected(std::slice::from_ref(&drill)), (20, "drill", "04".to_owned(), 1));
        assert_eq!(expected(&[drill, restore(1, 40.0)]).1, "restore");
        // What is long ago counts no more.
        let mut many: Vec<Past> = (0..10).map(|i| restore(i + 20, 60.0)).collect();
        many.extend((0..20).map(|i| restore(i + 40, 7000.0)));
        assert_eq!((expected(&many).0, expected(&many).3), (60, 10));
    }

    #[test]
    fn other_media_have_another_pace() {
        let mut tape = past(1, "restore", 20_000, 4000 * MB, 400.0);
        tape.medium = "tape L9".to_owned();
        assert_eq!(expected(std::slice::from_ref(&tape)).1, "backup");
        let mut this = past(9, "backup", 20_000, 4000 * MB, 50.0);
        this.medium = "tape L9".to_owned();
        let of = |past: &[Past]| expected_restore(20_000, 4000 * MB, past, &this).unwrap().seconds;
        assert_eq!(of(std::slice::from_ref(&tape)), 400.0);
        // Hands that put a tape in are no pace.
        tape.report.tape_wait_s = 300.0;
        assert_eq!(of(&[tape]), 100.0);
    }

    #[test]
    fn what_an_object_is_made_of_need_not_be_as_it_was() {
        // Many small files: bound by their number, whatever their bytes.
        let small = past(1, "restore", 100_000, 100 * MB, 10.0);
        let this = past(9, "backup", 1, MB, 1.0);
        let e = expected_restore(1_000_000, 1000 * MB, &[small], &this).unwrap();
        assert_eq!(e.seconds, 100.0);
        // Small objects have small sessions: what moved a part of them shows their pace.
        let e = expected_restore(50, 5 * MB, &[past(1, "restore", 40, 4 * MB, 0.8)], &this);
        assert_eq!(e.unwrap().seconds, 1.0);
    }

    #[test]
    fn without_anything_to_go_by_nothing_is_said() {
        assert!(expected_restore(5, 5, &[], &past(1, "backup", 0, 0, 1.0)).is_none());
        let mut nowhere = past(1, "backup", 5, 5, 1.0);
        nowhere.medium.clear();
        assert!(expected_restore(5, 5, &[], &nowhere).is_none());
    }
}
