//! A new home knows what was imported, and no more: what lacks something that was not is not whole, until that is imported too.

use std::fs;

use crate::compare::same_by_rsync;
use crate::gone_media::{full, status, why};
use crate::support::{Lab, Run, below, noise, report};

fn said(run: &Run) -> String {
    format!("{}{}", run.stdout, run.stderr)
}

fn new_home(lab: &Lab) {
    fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
}

fn prunes(lab: &Lab, says: &str) -> Run {
    let run = lab.run(["prune", "--keep-last", "1"]);
    assert!(run.stdout.contains(says), "{}", said(&run));
    run
}

/// A version whose base lies on a medium that was not imported.
#[test]
fn what_builds_on_a_version_that_is_not_known_is_not_whole() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 200_000));
    lab.file("other/a", noise(4, 1000));
    let whole = full(&lab, "m2", "t");
    lab.sh("cp -a tree first");
    lab.backed_up(["other", "--to", "m2", "--name", "other"]);
    lab.file("tree/b", noise(2, 200_000));
    full(&lab, "m1", "t");
    lab.file("tree/c", noise(3, 1000));
    let done = lab.backed_up(["tree", "--to", "m2", "--name", "t", "--incr"]);
    let above = format!("t@{}", &done["session"].as_str().unwrap()[..8]);
    new_home(&lab);

    let taken = lab.run(["import", "m2"]);
    assert_eq!(taken.code, 3, "{}", said(&taken));
    assert!(taken.stderr.contains(&format!("{above} is not whole: version ")), "{}", said(&taken));
    let listed = lab.run(["sessions"]).ok().stdout.clone();
    assert_eq!(listed.matches("not whole").count(), 1, "{listed}");
    // Each object has its row.
    let (code, json) = status(&lab);
    assert_eq!(code, 6, "{json:#}");
    let of = |name: &str| {
        let all = json["objects"].as_array().unwrap();
        all.iter().find(|o| o["name"] == name).unwrap()["health"].clone()
    };
    assert_eq!((of("t"), of("other")), ("critical".into(), "ok".into()), "{json:#}");
    assert!(why(&json).contains("which it builds on, is not known"), "{json:#}");
    lab.run(["media", "adopt", "m2"]).ok();
    let pruned = prunes(&lab, "0 versions removed, 0 marked, 3 kept");
    assert!(pruned.stderr.contains(&above), "{}", said(&pruned));
    lab.run(["restore", &above, "--into", "out"]).refused(&["is not known", "import the medium"]);
    for version in [&*whole, "t"] {
        lab.restored([version, "--into", "out"]);
        same_by_rsync(&lab.path("first"), &below(&lab.path("out"), &lab.path("tree")));
        fs::remove_dir_all(lab.path("out")).unwrap();
    }
    // It waits for its medium, also when there is a whole one after it.
    assert_eq!(lab.backed_up(["tree", "--to", "m2", "--name", "t"])["method"], "full");
    lab.run(["status"]).ok();
    prunes(&lab, "1 version removed, 0 marked, 3 kept");
    lab.run(["import", "m1"]).ok();
    lab.restored([&*above, "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    let listed = lab.run(["sessions"]).ok().stdout.clone();
    assert!(!listed.contains("not whole"), "{listed}");
}

/// Who has no such medium any more lets what needs it go.
#[test]
fn what_will_never_be_whole_is_let_go_by_name() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 200_000));
    full(&lab, "m1", "t");
    lab.file("tree/b", noise(2, 1000));
    let done = lab.backed_up(["tree", "--to", "m2", "--name", "t", "--incr"]);
    let above = format!("t@{}", &done["session"].as_str().unwrap()[..8]);
    new_home(&lab);
    let taken = report(lab.run(["import", "m2", "--json"]));
    assert_eq!(taken["status"], "completed_with_errors", "{taken:#}");
    lab.run(["media", "adopt", "m2"]).ok();
    full(&lab, "m2", "t");
    let pruned = prunes(&lab, "0 versions removed, 0 marked, 2 kept");
    assert!(
        pruned.stderr.contains(&format!("capstan protect {above} --none")),
        "{}",
        said(&pruned)
    );
    lab.run(["protect", &above, "--none"]).ok();
    let pruned = prunes(&lab, "1 version removed, 0 marked, 1 kept");
    assert!(pruned.stderr.contains("is not known, and a later one is whole"), "{}", said(&pruned));
}
