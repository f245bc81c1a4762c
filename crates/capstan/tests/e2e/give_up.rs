//! The last complete version of an object: no prune removes it, but one that gives the object up by its name.

use crate::support::{Lab, finish, noise};

fn versions(lab: &Lab, name: &str) -> usize {
    let sessions = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
    let of = |line: &&str| {
        let s: serde_json::Value = serde_json::from_str(line).unwrap();
        s["name"] == name
            && s["kind"] == "backup"
            && s["removed"] == false
            && s["expired"].is_null()
    };
    sessions.lines().filter(of).count()
}

fn lab() -> (Lab, Vec<String>) {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 100_000));
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let report = lab.backed_up(["tree", "--to", "medium", "--name", "t", "--full"]);
        sessions.push(format!("t@{}", report["session"].as_str().unwrap()));
    }
    lab.backed_up(["tree", "--to", "medium", "--name", "other"]);
    (lab, sessions)
}

#[test]
fn the_last_version_stays_though_it_is_not_protected() {
    let (lab, sessions) = lab();
    for session in &sessions {
        lab.run(["protect", session, "--none"]).ok();
    }
    lab.run(["prune", "t"]).ok();
    assert_eq!(versions(&lab, "t"), 1);
    lab.run(["prune"]).ok();
    lab.run(["prune", "--keep-within", "1h"]).ok();
    assert_eq!(versions(&lab, "t"), 1);
    lab.restored(["t", "--into", "out"]);
}

#[test]
fn an_object_is_given_up_by_its_name_alone() {
    let (lab, _) = lab();
    lab.run(["prune", "--give-up"]).refused(&["NAME"]);
    lab.run(["prune", "t", "--give-up", "--keep-last", "1"]).refused(&["--keep-last"]);
    lab.run(["prune", "nobody", "--give-up"]).refused(&["no object is called 'nobody'"]);
    let dry = lab.run(["prune", "t", "--give-up", "--dry-run"]).ok().stdout.clone();
    assert!(dry.contains("2 versions would be removed") && dry.contains("given up"), "{dry}");
    assert_eq!(versions(&lab, "t"), 2);
    let done = lab.run(["prune", "t", "--give-up"]).ok().stdout.clone();
    assert!(done.contains("2 versions removed"), "{done}");
    assert_eq!((versions(&lab, "t"), versions(&lab, "other")), (0, 1));
    lab.run(["restore", "t", "--into", "out"]).refused(&["'t'"]);
    lab.restored(["other", "--into", "out"]);
    lab.run(["idb", "check"]).ok();
    // Nobody waits for its backups any more, until it is backed up again.
    let status = lab.run(["status"]).ok().stdout.clone();
    assert!(status.contains("other") && !status.contains(" t "), "{status}");
    lab.run(["status", "t"]).ok();
    lab.run(["backup", "nowhere", "--to", "medium", "--name", "t"]);
    assert_ne!(lab.run(["status", "t"]).code, 0);
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    assert!(lab.run(["status", "t"]).ok().stdout.contains('t'));
}

#[test]
fn what_is_protected_locked_or_on_a_medium_that_is_away_is_not_given_up() {
    let (lab, sessions) = lab();
    lab.run(["protect", &sessions[0], "--until", "3d"]).ok();
    lab.run(["lock", &sessions[1], "--until", "3d"]).ok();
    lab.run(["prune", "t", "--give-up"]).ok();
    assert_eq!(versions(&lab, "t"), 2);
    lab.sh("mv medium away");
    let still = finish(lab.command().args(["prune", "other", "--give-up"]));
    assert_eq!(still.code, 3, "{}{}", still.stdout, still.stderr);
    lab.sh("mv away medium");
    lab.restored(["other", "--into", "out"]);
}
