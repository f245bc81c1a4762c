//! Times as people write them: every option reads them alike, and a day means the same moment everywhere.

use serde_json::Value;

use crate::support::{Lab, Run};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

/// A tree of so many files, backed up after each; the begins of the sessions' ids.
fn lab(versions: usize) -> (Lab, Vec<String>) {
    let lab = Lab::new();
    let backed_up = |n: usize| {
        lab.file(&format!("tree/file-{n}"), n.to_string());
        let report = lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
        std::thread::sleep(std::time::Duration::from_millis(20));
        report["session"].as_str().unwrap()[..8].to_owned()
    };
    let sessions = (0..versions).map(backed_up).collect();
    (lab, sessions)
}

fn files(run: &Run) -> usize {
    run.ok().stdout.matches("file-").count()
}

#[test]
fn a_session_is_a_time() {
    let (lab, sessions) = lab(3);
    for (n, session) in sessions.iter().enumerate() {
        assert_eq!(files(&run(&lab, &format!("ls t --as-of @{session}"))), n + 1);
        assert_eq!(files(&run(&lab, &format!("find file-* --as-of @{session}"))), n + 1);
        // Each file was made before its session began.
        let since = format!("find file-* --changed-since @{session}");
        assert_eq!(files(&run(&lab, &since)), 2 - n, "{since}");
        assert_eq!(files(&run(&lab, &since.replace("since", "before"))), n + 1, "{since}");
        lab.restored(["t", "--as-of", &format!("@{session}"), "--into", "out"]);
        let restored = lab.sh("find out -name 'file-*' | wc -l; rm -r out");
        assert_eq!(restored.trim(), (n + 1).to_string());
    }
    let staged =
        run(&lab, &format!("stage medium --to disk --older-than @{} --dry-run", sessions[1]));
    assert!(staged.ok().stdout.contains("Would stage 1 version"), "{}", staged.stdout);
    run(&lab, "ls t --as-of @ffffffff").refused(&["no session's id begins with 'ffffffff'"]);
    run(&lab, "ls t --as-of @desk").refused(&["'desk' is no session's id"]);
    run(&lab, &format!("lock t --until @{}", sessions[0])).refused(&["in the past"]);
}

#[test]
fn a_day_is_its_begin_everywhere() {
    let (lab, _) = lab(2);
    let (today, tomorrow) = (lab.sh("date +%F"), lab.sh("date -d tomorrow +%F"));
    let (today, tomorrow) = (today.trim(), tomorrow.trim());
    for day in ["today", today] {
        // What a day that began before leaves out is said.
        let early = run(&lab, &format!("ls t --as-of {day}"));
        early.refused(&["no complete version of that time"]);
        let words = format!("{today} is 00:00 of that day; 't' was backed up later that day too");
        assert!(
            early.stderr.contains(&words) && early.stderr.contains(tomorrow),
            "{}",
            early.stderr
        );
        assert!(run(&lab, &format!("find file-* --as-of {day}")).ok().stdout.is_empty());
        assert_eq!(files(&run(&lab, &format!("find file-* --changed-since {day}"))), 2);
        assert!(run(&lab, &format!("find file-* --changed-before {day}")).ok().stdout.is_empty());
        let staged = run(&lab, &format!("stage medium --to disk --older-than {day} --dry-run"));
        assert!(staged.ok().stdout.contains("nothing to stage"), "{}", staged.stdout);
        run(&lab, &format!("status --max-age {day}")).ok();
    }
    for day in ["tomorrow", tomorrow] {
        let late = run(&lab, &format!("ls t --as-of {day}"));
        assert!(files(&late) == 2 && late.stderr.is_empty(), "{}", late.stderr);
        assert_eq!(files(&run(&lab, &format!("find file-* --changed-before {day}"))), 2);
        let kept = run(&lab, &format!("protect t --until {day}"));
        let until = format!("{tomorrow} 00:00");
        assert!(kept.ok().stdout.contains(&until), "{}", kept.stdout);
        run(&lab, &format!("status --max-age {day}")).refused(&["yet to come"]);
    }
}

#[test]
fn spans_look_back_or_ahead() {
    let (lab, _) = lab(1);
    lab.sh("touch -d '3 days ago' tree/old; touch -d '3 hours ago' tree/new");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let found = |option: &str| -> Vec<String> {
        let run = run(&lab, &format!("find --type f {option}"));
        let names = run.ok().stdout.lines().filter_map(|l| l.rsplit('/').next()).map(str::to_owned);
        names.filter(|name| !name.starts_with("file")).collect()
    };
    for day in ["2d", "48h", "1d24h", "2880min", "yesterday"] {
        assert_eq!(found(&format!("--changed-since {day}")), ["new"], "{day}");
        assert_eq!(found(&format!("--changed-before {day}")), ["old"], "{day}");
    }
    let now = run(&lab, "ls t --as-of now");
    assert_eq!(files(&now), 1);
    // Minutes and months are not mixed up where both may be meant.
    run(&lab, "find --changed-since 7m").refused(&["7min or 7mo"]);
    run(&lab, "status --max-age 90m").refused(&["90min or 90mo"]);
    let report: Value = lab.backed_up([
        "tree",
        "--to",
        "medium",
        "--name",
        "t",
        "--retries",
        "1",
        "--retry-wait",
        "10s",
    ]);
    assert_eq!(report["status"], "completed");
    run(&lab, "backup tree --to medium --retry-wait 2h").refused(&["2h", "at most an hour"]);
}
