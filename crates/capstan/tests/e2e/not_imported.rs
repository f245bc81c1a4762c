//! A new home knows what was imported, and no more: what lacks something that was not is not whole, until that is imported too.

use std::fs;

use capstan_tape::vtl::library::Library;

use crate::compare::same_by_rsync;
use crate::gone_media::{full, status, why};
use crate::independent_reader::Reader;
use crate::support::{Lab, Run, below, noise, report};
use crate::tape::library_of;

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
    // By its name comes what there is of it.
    let part = lab.run(["restore", &above, "--into", "part"]);
    assert_eq!(part.code, 3, "{}", said(&part));
    assert!(
        part.stderr.contains("is not known: what is of this version itself"),
        "{}",
        said(&part)
    );
    assert!(below(&lab.path("part"), &lab.path("tree")).join("c").exists());
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

fn not_whole(lab: &Lab) -> usize {
    lab.run(["sessions"]).ok().stdout.matches("not whole").count()
}

/// Whichever segment a medium lacks: of files that nobody can name, nothing else tells that they are missing.
#[test]
fn a_version_of_which_any_segment_is_missing_is_not_whole() {
    let lab = Lab::new();
    for n in 0..60 {
        lab.file(&format!("tree/{n}"), noise(n, 50_000));
    }
    let whole = full(&lab, "m", "t");
    lab.file("tree/new", noise(99, 100));
    let args = ["tree", "--to", "m", "--name", "t", "--full", "--segment-size", "512K"];
    let done = lab.backed_up(args);
    let torn = format!("t@{}", &done["session"].as_str().unwrap()[..8]);
    let last: u32 = lab.sh("ls m/*.segment | wc -l").trim().parse().unwrap();
    assert!(last > 5, "{last} segments");
    let reader = Reader::find();
    for missing in 2..last {
        let segment = format!("m/{missing:08}.segment");
        lab.sh(&format!("mv {segment} held"));
        new_home(&lab);
        let taken = lab.run(["import", "m"]);
        assert_eq!(taken.code, 3, "segment {missing}: {}", said(&taken));
        assert!(taken.stderr.contains(&format!("{torn} is not whole")), "{}", said(&taken));
        assert_eq!(not_whole(&lab), 1);
        let (code, json) = status(&lab);
        assert_eq!(code, 6, "{json:#}");
        let read = lab.run(["restore", &torn, "--into", "out"]);
        assert_eq!(read.code, 3, "segment {missing}: {}", said(&read));
        let there = below(&lab.path("out"), &lab.path("tree"));
        let count = fs::read_dir(there).unwrap().count() as u64;
        if count < 61 {
            let lack = format!("{} of its 61 files lack", 61 - count);
            assert!(read.stderr.contains(&lack), "{lack}: {}", said(&read));
        }
        fs::remove_dir_all(lab.path("out")).unwrap();
        let verified = lab.run(["verify", &torn]);
        assert_eq!(verified.code, 3, "segment {missing}: {}", said(&verified));
        if let Some(reader) = &reader {
            let read = reader.run(&lab, None, &["check", "m"]);
            assert_eq!(read.code, 3, "segment {missing}: {}", said(&read));
        }
        // A copy lacks the same, and says so where it is imported alone.
        if missing == 3 {
            assert_eq!(lab.run(["copy", &torn, "--to", "copied"]).code, 3);
            new_home(&lab);
            let taken = lab.run(["import", "copied"]);
            assert_eq!(taken.code, 3, "{}", said(&taken));
            assert!(taken.stderr.contains(&format!("{torn} is not whole")), "{}", said(&taken));
            lab.sh("rm -r copied");
            lab.run(["import", "m"]);
        }
        lab.run(["media", "adopt", "m"]).ok();
        prunes(&lab, "0 versions removed, 0 marked, 2 kept");
        lab.restored([&*whole, "--into", "out"]);
        fs::remove_dir_all(lab.path("out")).unwrap();
        // It is found again.
        lab.sh(&format!("mv held {segment}"));
        lab.run(["import", "m"]).ok();
        assert_eq!(not_whole(&lab), 0);
    }
    lab.run(["status"]).ok();
    lab.restored([&*torn, "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
}

/// What goes on on another tape is whole when all of them are known, in whatever order.
#[test]
fn a_version_on_several_tapes_is_whole_when_all_are_imported() {
    let lab = Lab::new();
    Library::create(&lab.path("vtl"), &library_of(1, 4), 4).unwrap();
    lab.file("tree/big", noise(1, 90_000_000));
    let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    let media = done["media"].as_array().unwrap().clone();
    assert!(media.len() > 2, "{done:#}");
    new_home(&lab);
    let mut rest: Vec<&str> = media.iter().rev().filter_map(|m| m.as_str()).collect();
    // The last one, which has the end, first.
    let first = rest.remove(0);
    let import = |tape: &str| lab.run(["import".to_owned(), format!("vtape:vtl?tape={tape}")]);
    let taken = import(first);
    assert_eq!(taken.code, 3, "{}", said(&taken));
    assert_eq!(not_whole(&lab), 1, "{}", said(&taken));
    for (n, tape) in rest.iter().enumerate() {
        let is_last = n + 1 == rest.len();
        let taken = import(tape);
        assert_eq!(taken.code, if is_last { 0 } else { 3 }, "{tape}: {}", said(&taken));
        assert_eq!(not_whole(&lab), usize::from(!is_last), "{}", said(&taken));
    }
    new_home(&lab);
    lab.run(["import", "vtape:vtl"]).ok();
    assert_eq!(not_whole(&lab), 0);
}
