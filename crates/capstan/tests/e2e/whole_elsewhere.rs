//! What is damaged on a medium and whole on another one: the damage is said, and no file is named as lost.

use std::fs;
use std::path::Path;

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::healing::flip;
use crate::known_damage::damage;
use crate::support::{Lab, noise, report};
use crate::tape::library_of;

/// A backup on a disk, and a copy.
fn lab(to: &str) -> Lab {
    let lab = Lab::new();
    Library::create(&lab.path("lib"), &library_of(2, 3), 3).unwrap();
    lab.file("tree/a", noise(1, 2_000_000));
    lab.file("tree/b", noise(2, 2_000_000));
    let backup = ["tree", "--to", "m", "--name", "t", "--streams", "1", "--block-size", "64K"];
    lab.backed_up(backup);
    lab.run(["copy", "t", "--to", to]).ok();
    lab
}

/// What a command says: its code, its report, and what it told people.
fn said(lab: &Lab, args: &str) -> (i32, Value, String) {
    let run = lab.run(args.split(' ').chain(["--json"]));
    let (code, stderr) = (run.code, run.stderr.clone());
    (code, report(run), stderr)
}

/// The files that a report names as lost.
fn lost(json: &Value) -> Vec<String> {
    let errors = json["errors"].as_array().unwrap().iter();
    let errors = errors.filter(|e| e["code"] == "damaged" || e["code"] == "missing");
    let paths = errors.map(|e| e["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned());
    let is_file = |name: &String| name == "a" || name == "b";
    paths.filter(is_file).collect()
}

/// Verifies the medium, which is damaged, and of which another one has all.
fn all_is_on(lab: &Lab, other: &str) {
    let (code, json, stderr) = said(lab, "verify --medium m");
    assert_eq!((code, json["corrupt"].as_u64()), (3, Some(0)), "{stderr}{json:#}");
    assert_eq!(json["status"], "completed_with_errors");
    assert!(lost(&json).is_empty(), "{json:#}");
    assert!(stderr.contains("whole-elsewhere"), "{stderr}");
    assert!(stderr.contains(&format!("can be had from '{other}'")), "{stderr}");
    assert!(stderr.contains("no file is lost"), "{stderr}");
    assert!(stderr.contains("`capstan media repair m`"), "{stderr}");
}

/// Flips a byte of what the medium has of a file, so far behind the begin of its segment.
fn hurt(medium: &Path, at: u64) {
    let mut all: Vec<_> = fs::read_dir(medium).unwrap().map(|e| e.unwrap().path()).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == "segment"));
    flip(all.iter().min().unwrap(), at);
}

#[test]
fn files_that_a_copy_has_are_not_lost() {
    for (to, label) in [("second", "second"), ("vtape:lib", "V00001L9")] {
        let lab = lab(to);
        damage(&lab.path("m"));
        all_is_on(&lab, label);
        assert_eq!(lab.run(["status"]).code, 5, "monitoring sees it");
        lab.restored(["t", "--into", "out"]);
        // Nor are those of a segment that is gone.
        lab.sh("cp -a m kept; rm m/*.segment");
        let (code, json, stderr) = said(&lab, "verify --medium m");
        assert_eq!((code, json["corrupt"].as_u64()), (3, Some(0)), "{stderr}{json:#}");
        assert!(lost(&json).is_empty() && stderr.contains("is not there"), "{stderr}{json:#}");
        lab.sh("rm -r m; mv kept m");
        lab.run(["media", "repair", "m"]).ok();
        lab.run(["verify", "--medium", "m"]).ok();
    }
}

/// On tape, and where the copy is out of the house, or on a disk that is not mounted.
#[test]
fn a_copy_that_is_known_and_away_counts() {
    let lab = lab("vtape:lib");
    damage(&lab.path("m"));
    lab.run(["library", "export", "vtape:lib", "V00001L9", "--location", "the bank"]).ok();
    lab.run(["vtl", "take", "lib", "V00001L9"]).ok();
    all_is_on(&lab, "V00001L9");
    assert!(lab.run(["verify", "--medium", "m"]).stderr.contains("to the bank"));
    // A verification of the version says where they are.
    let (code, json, stderr) = said(&lab, "verify t");
    assert_eq!((code, json["corrupt"].as_u64()), (3, Some(0)), "{stderr}{json:#}");
    assert!(json["away"].as_u64().unwrap() > 0 && stderr.contains("to the bank"), "{stderr}");
    assert!(lost(&json).is_empty(), "{json:#}");
    for args in ["restore t --into out", "drill t --sample 100%"] {
        let (code, json, stderr) = said(&lab, args);
        assert_eq!((code, json["corrupt"].as_u64()), (3, Some(0)), "{args}: {stderr}{json:#}");
        assert!(json["away"].as_u64().unwrap() > 0 && stderr.contains("to the bank"), "{stderr}");
    }

    let lab = self::lab("second");
    damage(&lab.path("m"));
    lab.sh("mv second elsewhere");
    all_is_on(&lab, "second");
}

/// A restore takes frame by frame what either has, and that is what counts.
#[test]
fn what_both_lack_is_lost_and_nothing_else() {
    let lab = lab("second");
    hurt(&lab.path("m"), 500_000);
    hurt(&lab.path("second"), 3_000_000);
    all_is_on(&lab, "second");
    lab.restored(["t", "--into", "out"]);
    hurt(&lab.path("second"), 500_000);
    let (code, json, stderr) = said(&lab, "verify --medium m");
    assert_eq!((code, json["corrupt"].as_u64()), (3, Some(1)), "{stderr}{json:#}");
    let restored = lab.restore(["t", "--into", "again"]);
    assert_eq!(lost(&json), lost(&restored), "{json:#}{restored:#}");
    assert_eq!(lost(&json).len(), 1, "{json:#}");
}

#[test]
fn a_tape_that_is_damaged_says_which_copy_has_it() {
    let lab = Lab::new();
    for library in ["lib", "other"] {
        Library::create(&lab.path(library), &library_of(1, 3), 3).unwrap();
    }
    lab.file("tree/a", noise(1, 2_000_000));
    lab.backed_up(["tree", "--to", "vtape:lib", "--name", "t"]);
    lab.run(["copy", "t", "--to", "vtape:other"]).ok();
    let tape = lab.path("lib/tapes/V00001L9.tape");
    let middle = fs::metadata(&tape).unwrap().len() / 2;
    flip(&tape, middle);
    let (code, json, stderr) = said(&lab, "verify --medium V00001L9");
    assert_eq!((code, json["corrupt"].as_u64()), (3, Some(0)), "{stderr}{json:#}");
    assert!(stderr.contains("can be had from 'V00001L9-2'"), "{stderr}");
    assert!(lost(&json).is_empty(), "{json:#}");
}
