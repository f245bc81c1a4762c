//! Paths that are named and are symbolic links to directories.

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, below, noise, report};

fn said<'a>(report: &'a Value, code: &str) -> Vec<&'a Value> {
    report["errors"].as_array().unwrap().iter().filter(|e| e["code"] == code).collect()
}

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("www/a", noise(1, 20_000));
    lab.file("www/dir/b", noise(2, 30_000));
    lab.file("one/f", noise(3, 1_000));
    lab
}

fn backed_up(lab: &Lab, options: &[&str]) -> (i32, Value) {
    let args = ["backup", "www", "--to", "medium", "--name", "t", "--json"];
    let run = lab.run([&args[..], options].concat());
    (run.code, report(run))
}

/// The version restores what was in the directory.
fn restores(lab: &Lab, version: &str, kept: &str) {
    lab.sh("rm -rf out");
    lab.restored([version, "--into", "out"]);
    same_by_rsync(&lab.path(kept), &below(&lab.path("out"), &lab.path("www")));
}

#[test]
fn a_directory_that_became_a_link_is_an_error_and_what_it_had_stays() {
    let lab = lab();
    assert_eq!(backed_up(&lab, &[]).0, 0);
    lab.sh("mv www bigdisk; ln -s bigdisk www");
    // Not once only: each incremental, and prunes between them, keep it.
    for _ in 0..3 {
        let (code, report) = backed_up(&lab, &["--incr"]);
        assert_eq!((code, &report["status"]), (3, &"completed_with_errors".into()), "{report:#}");
        let [error] = said(&report, "path-became-link")[..] else { panic!("{report:#}") };
        assert_eq!(error["path"], lab.path("www").display().to_string().as_str());
        let text = error["error"].as_str().unwrap();
        assert!(text.contains("link to bigdisk now") && text.contains("kept as it was"), "{text}");
        lab.run(["prune", "t", "--keep-last", "1"]).ok();
        restores(&lab, "t", "bigdisk");
    }
    // A full has nothing of it: the last version that has it stays, whatever follows.
    let before = backed_up(&lab, &["--incr"]).1["session"].as_str().unwrap().to_owned();
    for method in ["--full", "--incr", "--full"] {
        let (code, report) = backed_up(&lab, &[method]);
        assert_eq!(code, 3, "{report:#}");
        assert_eq!(said(&report, "path-became-link").len(), 1, "{report:#}");
    }
    lab.run(["prune", "t", "--keep-last", "1"]).ok();
    restores(&lab, &format!("t@{before}"), "bigdisk");
    let status = lab.run(["status", "t"]);
    assert!(status.code == 5 && status.stdout.contains(&before[..8]), "{}", status.stdout);
    // The same is said before it is done.
    let dry = lab.run(["backup", "www", "--to", "medium", "--name", "t", "--dry-run", "--json"]);
    assert_eq!(dry.code, 3, "{}", dry.stderr);
    assert_eq!(said(&report(dry), "path-became-link").len(), 1);
    // So the message says to go on: the new path has it all, and the old one may go.
    let moved = lab.backed_up(["www/", "--to", "medium", "--name", "t"]);
    assert_eq!(moved["files"], 2, "{moved:#}");
    lab.sh("rm -rf out");
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("bigdisk"), &below(&lab.path("out"), &lab.path("bigdisk")));
    lab.run(["prune", "t", "--keep-last", "1"]).ok();
    lab.run(["status", "t"]).ok();
    // Where it leads nowhere, as its disk is not mounted, it is no other case.
    let lab = self::lab();
    assert_eq!(backed_up(&lab, &[]).0, 0);
    lab.sh("mv www bigdisk; ln -s nowhere www");
    assert_eq!(backed_up(&lab, &[]).0, 3);
    restores(&lab, "t", "bigdisk");
}

#[test]
fn a_link_that_always_was_one_is_a_warning() {
    let lab = lab();
    lab.sh("mv www bigdisk; ln -s bigdisk www; mkdir sub; echo x >sub/f; ln -s sub/f file; ln -s sub/f/.. odd");
    for _ in 0..2 {
        let (code, report) = backed_up(&lab, &["one", "file"]);
        assert_eq!((code, &report["status"]), (0, &"completed".into()), "{report:#}");
        // Links to files are what is meant.
        let [warning] = said(&report, "path-is-link")[..] else { panic!("{report:#}") };
        let text = warning["error"].as_str().unwrap();
        assert!(text.contains("not backed up: bigdisk"), "{text}");
    }
    // It goes with what it leads to; and another name is for the link itself.
    let both = lab.backed_up(["www", "bigdisk", "--to", "medium", "--name", "both"]);
    assert!(said(&both, "path-is-link").is_empty(), "{both:#}");
    // Of many the first are named and the others counted.
    lab.sh("mkdir links; for i in $(seq 9); do ln -s ../bigdisk links/$i; done");
    let links: Vec<String> = (1..=9).map(|i| format!("links/{i}")).collect();
    let many =
        lab.backed_up(links.iter().map(String::as_str).chain(["--to", "medium", "--name", "many"]));
    let said = said(&many, "path-is-link");
    assert_eq!(said.len(), 6, "{many:#}");
    assert!(said[5]["error"].as_str().unwrap().starts_with("4 more"), "{many:#}");
}

#[test]
fn a_directory_that_was_moved_into_another_path_is_taken_there() {
    let lab = lab();
    assert_eq!(backed_up(&lab, &["one"]).0, 0);
    lab.sh("mv www one/big; ln -s one/big www");
    let (code, report) = backed_up(&lab, &["one"]);
    assert_eq!((code, &report["files"]), (0, &4.into()), "{report:#}");
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("one"), &below(&lab.path("out"), &lab.path("one")));
    lab.sh("test -L out/\"$PWD\"/www");
}

/// A backup has what lies behind a link by its real path: who asks for the path that he typed is led there.
#[test]
fn a_path_through_a_link_leads_to_the_one_that_the_version_has() {
    let lab = lab();
    lab.sh("mkdir real; mv www real/www; ln -s real lnk");
    lab.backed_up(["lnk/www", "--to", "medium", "--name", "t"]);
    lab.backed_up([
        ".",
        "--exclude",
        "/home",
        "--exclude",
        "/medium",
        "--to",
        "medium",
        "--name",
        "all",
    ]);
    let real = lab.path("real/www/dir/b").display().to_string();
    let named = format!("{real}: name that");
    for gone in [false, true] {
        if gone {
            lab.sh("rm lnk");
        }
        // The version that has the link knows where it led.
        for name in ["t", "all"].into_iter().filter(|name| !gone || *name == "all") {
            lab.run(["restore", name, "lnk/www/dir/b", "--into", "out"]).refused(&[&named]);
            lab.run(["ls", name, "lnk/www/dir/b"]).refused(&[&named]);
        }
    }
    lab.restored(["t", &real, "--into", "out"]);
}

const ABOVE: [&str; 7] = ["backup", "cur/data", "one", "--to", "medium", "--name", "t"];

fn backed_up_above(lab: &Lab, options: &[&str]) -> (i32, Value) {
    let run = lab.run([&ABOVE[..], options, &["--json"]].concat());
    (run.code, report(run))
}

/// The version restores what was there.
fn has_above(lab: &Lab, version: &str, was: &str, kept: &str) {
    lab.sh("rm -rf out");
    lab.restored([version, "--into", "out"]);
    same_by_rsync(&lab.path(kept), &below(&lab.path("out"), &lab.path(was)));
}

/// A directory was moved to a disk and replaced by a link, or a link to what is there was switched to what lacks the path: it is a
/// path that is missing, and stays where the last version has it.
#[test]
fn what_a_link_above_led_to_is_kept_where_it_leads_to_nothing() {
    // The begin, what happens, where the path was, where what it had is now.
    let cases = [
        ("mkdir cur; mv www cur/data", "mv cur away; ln -s disk/cur cur", "cur/data", "away/data"),
        (
            "mkdir r41 r42; mv www r41/data; ln -s r41 cur",
            "ln -sfn r42 cur",
            "r41/data",
            "r41/data",
        ),
        (
            "mkdir -p disk/cur; mv www disk/cur/data; ln -s disk/cur cur",
            "mv disk away; ln -sfn gone cur",
            "disk/cur/data",
            "away/cur/data",
        ),
    ];
    for (begin, happens, was, kept) in cases {
        let lab = lab();
        lab.sh(begin);
        assert_eq!(backed_up_above(&lab, &[]).0, 0);
        lab.sh(&format!("cp -a {was} kept"));
        lab.sh(happens);
        let mut before = String::new();
        for n in 0..3 {
            lab.file("one/more", noise(20 + n, 500));
            let (code, report) = backed_up_above(&lab, &[]);
            assert_eq!((code, &report["method"]), (3, &"incr".into()), "{report:#}");
            let [missing] = said(&report, "path-missing")[..] else { panic!("{report:#}") };
            assert_eq!(missing["path"], lab.path(was).display().to_string().as_str());
            let text = missing["error"].as_str().unwrap();
            assert!(
                text.contains("by a symbolic link") && text.contains("kept as it was"),
                "{text}"
            );
            assert!(said(&report, "less-selected").is_empty(), "{report:#}");
            lab.run(["prune", "t", "--keep-last", "1"]).ok();
            has_above(&lab, "t", was, "kept");
            before = report["session"].as_str().unwrap().to_owned();
        }
        let dry = lab.run([&ABOVE[..], &["--dry-run", "--json"]].concat());
        assert_eq!(said(&report(dry), "path-missing").len(), 1);
        // Fulls have nothing of it: the last version that has it stays.
        for method in ["--full", "--incr", "--full"] {
            let (code, report) = backed_up_above(&lab, &[method]);
            assert_eq!(code, 3, "{report:#}");
            assert_eq!(said(&report, "path-missing").len(), 1, "{report:#}");
            assert!(said(&report, "less-selected").is_empty(), "{report:#}");
        }
        lab.run(["prune", "t", "--keep-last", "1"]).ok();
        has_above(&lab, &format!("t@{before}"), was, "kept");
        let status = lab.run(["status", "t"]);
        assert!(status.code == 5 && status.stdout.contains(&before[..8]), "{}", status.stdout);
        // It is there again: that is told as what it is, and the old one may go.
        lab.sh(&format!("test -e {kept}; rm -rf cur; mkdir cur; cp -a kept cur/data"));
        let (code, report) = backed_up_above(&lab, &[]);
        assert_eq!((code, said(&report, "path-missing").len()), (0, 0), "{report:#}");
        has_above(&lab, "t", "cur/data", "kept");
        lab.run(["prune", "t", "--keep-last", "1"]).ok();
        lab.run(["status", "t"]).ok();
    }
}

#[test]
fn a_link_above_that_leads_to_another_tree_is_not_called_unnamed() {
    let lab = lab();
    lab.sh("mkdir r41 r42; cp -a www r42/data; mv www r41/data; ln -s r41 cur");
    assert_eq!(backed_up_above(&lab, &[]).0, 0);
    lab.sh("ln -sfn r42 cur");
    let (code, report) = backed_up_above(&lab, &[]);
    assert_eq!(code, 0, "{report:#}");
    let [less] = said(&report, "less-selected")[..] else { panic!("{report:#}") };
    let text = less["error"].as_str().unwrap();
    let led = format!("{} (by {})", lab.path("r41/data").display(), lab.path("cur/data").display());
    assert!(text.contains(&led) && !text.contains("named no more"), "{text}");
    has_above(&lab, "t", "r42/data", "r42/data");
    // What is backed up under its own name is not kept for another one's sake.
    lab.sh("mkdir r43; ln -sfn r43 cur");
    let both = ["backup", "cur/data", "r42", "one", "--to", "medium", "--name", "t", "--json"];
    lab.file("r42/data/new", noise(9, 700));
    let run = self::report(lab.run(both));
    assert_eq!(said(&run, "path-missing")[0]["path"], lab.path("r43/data").display().to_string());
    has_above(&lab, "t", "r42", "r42");
}

/// Of a version that was imported it is not known what it was told to take: what lies where the path is written tells it.
#[test]
fn after_an_import_what_a_link_above_replaced_is_kept_too() {
    let lab = lab();
    lab.sh("mkdir cur; mv www cur/data");
    assert_eq!(backed_up_above(&lab, &[]).0, 0);
    lab.sh("rm -rf home; cp -a cur/data kept");
    lab.run(["import", "medium"]).ok();
    lab.run(["media", "adopt", "medium"]).ok();
    lab.sh("mv cur away; ln -s disk/cur cur");
    for _ in 0..2 {
        let (code, report) = backed_up_above(&lab, &["--incr"]);
        assert_eq!((code, &report["method"]), (3, &"incr".into()), "{report:#}");
        has_above(&lab, "t", "cur/data", "kept");
    }
}

/// Nor is it known where a link above a path led. What no path leads to any more is kept, as it may be that.
#[test]
fn after_an_import_what_a_link_above_led_to_is_kept_too() {
    // What happens, and the path that is kept.
    let cases = [
        ("ln -sfn none cur", "real/data"),
        // What is kept is not there either.
        ("rm cur; mv real away", "real/data"),
        ("ln -sfn one cur", "real/data"),
    ];
    for (happens, was) in cases {
        let lab = lab();
        lab.sh("mkdir real; mv www real/data; ln -s real cur");
        assert_eq!(backed_up_above(&lab, &[]).0, 0);
        lab.sh("rm -rf home; cp -a real/data kept; cp -a cur link");
        lab.run(["import", "medium"]).ok();
        lab.run(["media", "adopt", "medium"]).ok();
        lab.sh(happens);
        let kept_was = lab.path(was).display().to_string();
        let mut before = String::new();
        for n in 0..3 {
            lab.file("one/more", noise(20 + n, 500));
            let (code, report) = backed_up_above(&lab, &["--incr"]);
            assert_eq!((code, &report["method"]), (3, &"incr".into()), "{report:#}");
            let [missing] = said(&report, "path-missing")[..] else { panic!("{report:#}") };
            assert_eq!(missing["path"], kept_was.as_str());
            let text = missing["error"].as_str().unwrap();
            let named = lab.path("cur/data").display().to_string();
            assert!(text.contains(&named) && text.contains("kept as it was"), "{text}");
            assert!(said(&report, "less-selected").is_empty(), "{report:#}");
            lab.run(["prune", "t", "--keep-last", "1"]).ok();
            has_above(&lab, "t", was, "kept");
            before = report["session"].as_str().unwrap().to_owned();
        }
        let dry = lab.run([&ABOVE[..], &["--dry-run", "--json"]].concat());
        assert_eq!(said(&report(dry), "path-missing").len(), 1);
        for method in ["--full", "--incr", "--full"] {
            let (code, report) = backed_up_above(&lab, &[method]);
            let [missing] = said(&report, "path-missing")[..] else { panic!("{report:#}") };
            assert_eq!((code, &missing["path"]), (3, &kept_was.as_str().into()), "{report:#}");
        }
        lab.run(["prune", "t", "--keep-last", "1"]).ok();
        has_above(&lab, &format!("t@{before}"), was, "kept");
        // It leads there again.
        lab.sh("rm -rf cur real; mkdir real; cp -a kept real/data; cp -a link cur");
        let (code, report) = backed_up_above(&lab, &[]);
        assert_eq!((code, said(&report, "path-missing").len()), (0, 0), "{report:#}");
        assert!(said(&report, "less-selected").is_empty(), "{report:#}");
        has_above(&lab, "t", was, "kept");
        lab.run(["prune", "t", "--keep-last", "1"]).ok();
        lab.run(["status", "t"]).ok();
    }
}

/// Several links lead elsewhere, a path is new: all that none leads to is kept, and nothing is kept twice.
#[test]
fn after_an_import_all_that_several_paths_led_to_is_kept() {
    let lab = lab();
    lab.sh("mkdir real other; mv www real/data; cp -a real/data other/x; ln -s real cur; ln -s other/x two");
    let first = ["backup", "cur/data", "two/", "one", "--to", "medium", "--name", "t", "--json"];
    lab.run(first).ok();
    lab.sh("rm -rf home; cp -a real/data kept");
    lab.run(["import", "medium"]).ok();
    lab.run(["media", "adopt", "medium"]).ok();
    lab.sh("ln -sfn none cur; ln -sfn none two");
    for _ in 0..2 {
        let report = report(lab.run([&first[..], &["--incr"]].concat()));
        assert_eq!(said(&report, "path-missing").len(), 2, "{report:#}");
        has_above(&lab, "t", "real/data", "kept");
        has_above(&lab, "t", "other/x", "kept");
    }
    // One of them is there again: that does not keep the other one from being kept.
    lab.sh("ln -sfn other/x two");
    let report = report(lab.run(first));
    assert_eq!(said(&report, "path-missing").len(), 1, "{report:#}");
    has_above(&lab, "t", "real/data", "kept");
    has_above(&lab, "t", "other/x", "other/x");
}
