//! Mirrors that have the last version, and not what it builds on.

use std::fs;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::gone_media::{status, why};
use crate::support::{Lab, below, finish, noise, report};

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 200_000));
    lab
}

fn run(lab: &Lab, line: &str) {
    lab.run(line.split_whitespace()).ok();
}

#[test]
fn a_mirror_that_was_away_is_behind_until_a_copy_fills_it() {
    let lab = lab();
    let backup = |n: u64, mode: &str| {
        lab.file(&format!("tree/{n}"), noise(n, 50_000));
        let args = ["backup", "tree", "--name", "t", "--to", "a", "--mirror", "b", mode, "--json"];
        report(lab.run(args))
    };
    let is_behind = |report: &Value| report["errors"].to_string().contains("mirror-behind");
    let first = backup(2, "--full");
    assert!(!is_behind(&first) && !is_behind(&backup(3, "--incr")));
    assert_eq!(status(&lab).0, 0);
    run(&lab, "media export b");
    lab.sh("mv b away");
    backup(4, "--incr");
    lab.sh("mv away b");
    run(&lab, "media import b");
    for n in 5..7 {
        let report = backup(n, "--incr");
        assert!(is_behind(&report), "{report:#}");
        let (code, json) = status(&lab);
        assert!(code == 5 && why(&json).contains("medium 'b' has t@"), "{json:#}");
    }
    let (_, json) = status(&lab);
    let why = why(&json);
    let command = why.split("`capstan ").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    lab.run(command.replace('\'', "").split(' ')).ok();
    assert_eq!(status(&lab).0, 0, "{command}");
    assert!(!is_behind(&backup(7, "--incr")));
    lab.sh("mv a away");
    lab.restored(["t", "--into", "out"]);
    let out = below(&lab.path("out"), &lab.path("tree"));
    assert_eq!(fs::read(out.join("4")).unwrap(), noise(4, 50_000));
    fs::remove_dir_all(lab.path("out")).unwrap();
    // A full needs nothing that it lacks.
    lab.sh("mv away a; mv b away");
    backup(8, "--incr");
    lab.sh("mv away b");
    assert!(!is_behind(&backup(9, "--full")));
    assert_eq!(status(&lab).0, 0);
}

#[test]
fn a_full_made_of_a_chain_for_one_medium_leaves_its_mirror_behind() {
    let lab = lab();
    let backup = |n: u64| {
        lab.file(&format!("tree/{n}"), noise(n, 50_000));
        lab.backed_up(["tree", "--name", "t", "--to", "a", "--mirror", "b", "--incr"])
    };
    backup(2);
    backup(3);
    run(&lab, "consolidate t --to a");
    let report = backup(4);
    assert!(report["errors"].to_string().contains("mirror-behind"), "{report:#}");
    let (code, json) = status(&lab);
    assert!(code == 5 && why(&json).contains("medium 'b' has t@"), "{json:#}");
}

/// Of tapes their library is the place: which of them has what is all the same.
#[test]
fn a_library_that_has_all_on_several_tapes_is_not_behind() {
    let lab = lab();
    for library in ["v", "w"] {
        let line = format!("vtl create {library} --drives 2 --tapes 6 --capacity 30M --scale 1000");
        run(&lab, &line);
    }
    for n in 2..12 {
        lab.file(&format!("tree/{n}"), noise(n, 4_000_000));
    }
    let both = ["tree", "--name", "t", "--to", "vtape:w", "--mirror", "vtape:v"];
    lab.backed_up(["tree", "--name", "t", "--to", "vtape:v"]);
    let mut advice = String::new();
    for n in 20..22 {
        lab.file(&format!("tree/{n}"), noise(n, 9_000_000));
        let report = lab.backup(both);
        let errors = report["errors"].as_array().unwrap();
        let [error] = &errors[..] else { panic!("{report:#}") };
        assert_eq!(error["code"], "mirror-behind", "{report:#}");
        advice = error["error"].as_str().unwrap().to_owned();
        let library = lab.path("w").display().to_string();
        assert!(
            advice.contains(&format!("--to 'vtape:{library}'"))
                || advice.contains(&format!("--to vtape:{library}`")),
            "{advice}"
        );
        let (code, json) = status(&lab);
        assert!(code == 5 && why(&json).contains("not enough by itself"), "{json:#}");
    }
    let command = advice.split("`capstan ").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    lab.run(command.replace('\'', "").split(' ')).ok();
    let (code, json) = status(&lab);
    assert_eq!(code, 0, "{json:#}");
    lab.sh("mv v away");
    crate::tape::comes_back(&lab, "t", &lab.path("tree"));
}

/// Two tapes of one library are two copies: what lies on one of them alone has one.
#[test]
fn of_two_mirrors_in_one_library_it_is_said_that_one_is_behind() {
    let lab = lab();
    run(&lab, "vtl create v --drives 2 --tapes 6 --scale 1000");
    lab.backed_up(["tree", "--name", "t", "--to", "vtape:v"]);
    lab.file("tree/2", noise(2, 50_000));
    let both = ["tree", "--name", "t", "--to", "vtape:v", "--mirror", "vtape:v", "--incr"];
    let report = lab.backup(both);
    assert_eq!(report["media"].as_array().unwrap().len(), 2, "{report:#}");
    let errors = report["errors"].as_array().unwrap();
    let [error] = &errors[..] else { panic!("{report:#}") };
    let text = error["error"].as_str().unwrap();
    assert!(error["code"] == "mirror-behind" && text.contains("2 copies of t@"), "{text}");
    let (code, json) = status(&lab);
    assert!(code == 5 && why(&json).contains("2 copies of t@"), "{json:#}");
    let command = text.split("`capstan ").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    lab.run(command.replace('\'', "").split(' ')).ok();
    let (code, json) = status(&lab);
    assert_eq!(code, 0, "{json:#}");
    lab.file("tree/3", noise(3, 50_000));
    assert_eq!(lab.backup(both)["error_count"], 0);
    // Each of them is enough by itself.
    for tape in report["media"].as_array().unwrap() {
        let tape = format!("v/tapes/{}.tape", tape.as_str().unwrap());
        lab.sh(&format!("mv {tape} away"));
        crate::tape::comes_back(&lab, "t", &lab.path("tree"));
        lab.sh(&format!("mv away {tape}"));
    }
}

/// Nothing of what is done to the media, and with them, changes a directory above what is backed up.
fn quiet() -> Lab {
    let lab = lab();
    lab.sh("mkdir disks at");
    lab
}

/// Whether a medium alone has all of the last version, for a new home.
fn is_enough(lab: &Lab, medium: &str) -> bool {
    lab.sh(&format!("cd at; rm -rf *; cp -r ../disks/{medium} alone"));
    let there = |line: &str| {
        let mut command = lab.command();
        command.env("CAPSTAN_HOME", lab.path("at/home")).args(line.split_whitespace());
        finish(&mut command)
    };
    let imported = there("import at/alone");
    if imported.code != 0 {
        assert!(imported.stderr.contains("not whole"), "{}", imported.stderr);
        return false;
    }
    there("restore t --into at/out").ok();
    same_by_rsync(&lab.path("tree"), &below(&lab.path("at/out"), &lab.path("tree")));
    true
}

#[test]
fn a_night_in_which_nothing_changed_takes_nothing_back() {
    // The first night back is quiet, or the second.
    for is_quiet_at_once in [true, false] {
        let lab = quiet();
        let backup = |mode: &str| {
            let args =
                ["backup", "tree", "--name", "t", "--to", "disks/a", "--mirror", "disks/b", mode];
            report(lab.run([&args[..], &["--json"]].concat()))
        };
        let is_behind = |report: &Value| report["errors"].to_string().contains("mirror-behind");
        backup("--full");
        lab.sh("cd disks; mv b away");
        lab.file("tree/new", noise(2, 50_000));
        backup("--full");
        lab.sh("cd disks; mv away b; sleep 1.1");
        if !is_quiet_at_once {
            lab.file("tree/more", noise(3, 50_000));
            assert!(is_behind(&backup("--incr")));
            lab.sh("sleep 1.1");
        }
        for _ in 0..2 {
            let quiet = backup("--incr");
            assert_eq!(
                (&quiet["bytes_read"], quiet["files"].as_u64() > Some(1)),
                (&0.into(), true)
            );
            assert!(is_behind(&quiet), "{quiet:#}");
            let (code, json) = status(&lab);
            assert!(code == 5 && why(&json).contains("medium 'b' has t@"), "{json:#}");
        }
        assert!(!is_enough(&lab, "b"));
        let (_, json) = status(&lab);
        let why = why(&json);
        let command =
            why.split("`capstan ").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
        lab.run(command.replace('\'', "").split(' ')).ok();
        assert_eq!(status(&lab).0, 0, "{command}");
        assert!(!is_behind(&backup("--incr")));
        assert!(is_enough(&lab, "b"));
    }
}

/// Objects that are written together: the end of one in which nothing had changed stands in what another one's session wrote.
#[test]
fn of_objects_together_a_quiet_one_takes_nothing_back() {
    let lab = quiet();
    lab.file("busy/a", noise(2, 20_000));
    let at = lab.path("").display().to_string();
    let at = at.trim_end_matches('/');
    let mut spec = format!(
        "device = \"{at}/disks/a\"\ntogether = 2\n[options]\nmirror = [\"{at}/disks/b\"]\n"
    );
    for name in ["busy", "tree"] {
        spec += &format!("[[object]]\nname = \"{name}\"\npaths = [\"{at}/{name}\"]\n");
    }
    lab.file("spec.toml", spec);
    let run = || {
        let json = lab.run(["run", "spec.toml", "--json"]).stdout;
        serde_json::from_str::<Value>(&json).unwrap_or_else(|e| panic!("{e}: {json}"))
    };
    run();
    lab.sh("cd disks; mv b away");
    lab.file("tree/new", noise(3, 50_000));
    run();
    lab.sh("cd disks; mv away b; sleep 1.1");
    for n in 4..6 {
        lab.file("busy/a", noise(n, 20_000));
        let report = run();
        let quiet = &report["sessions"][1];
        assert_eq!(
            (&quiet["name"], &quiet["bytes_read"]),
            (&"tree".into(), &0.into()),
            "{report:#}"
        );
        assert!(quiet["errors"].to_string().contains("mirror-behind"), "{report:#}");
        let (code, json) = status(&lab);
        assert!(code == 5 && why(&json).contains("medium 'b' has tree@"), "{json:#}");
    }
}

/// What says that nothing had changed belongs to the chain, too: without it a medium does not know what it builds on.
#[test]
fn a_mirror_that_lacks_a_quiet_night_is_behind() {
    let lab = quiet();
    let backup = |to: &[&str]| {
        report(lab.run([&["backup", "tree", "--name", "t", "--json", "--to"], to].concat()))
    };
    let is_behind = |report: &Value| report["errors"].to_string().contains("mirror-behind");
    let both = ["disks/a", "--mirror", "disks/b"];
    backup(&both);
    lab.sh("cd disks; mv b away; sleep 1.1");
    assert_eq!(backup(&both)["bytes_read"], 0);
    lab.sh("cd disks; mv away b");
    lab.file("tree/new", noise(2, 50_000));
    let report = backup(&[&both[..], &["--incr"]].concat());
    assert!(is_behind(&report), "{report:#}");
    assert!(!is_enough(&lab, "b"));
    let (_, json) = status(&lab);
    let why = why(&json);
    let command = why.split("`capstan ").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    lab.run(command.replace('\'', "").split(' ')).ok();
    assert_eq!(status(&lab).0, 0, "{command}");
    assert!(is_enough(&lab, "b"));
}

#[test]
fn a_disk_that_is_written_alone_does_not_build_on_a_quiet_night_that_it_lacks() {
    let lab = quiet();
    let backup = |to: &[&str]| {
        report(lab.run([&["backup", "tree", "--name", "t", "--json", "--to"], to].concat()))
    };
    let both = ["disks/a", "--mirror", "disks/b"];
    backup(&both);
    lab.sh("cd disks; mv b away; sleep 1.1");
    assert_eq!(backup(&both)["bytes_read"], 0);
    lab.sh("cd disks; mv away b");
    lab.file("tree/other", noise(3, 50_000));
    assert_eq!(backup(&["disks/b"])["method"], "incr");
    assert!(is_enough(&lab, "b"));
}
