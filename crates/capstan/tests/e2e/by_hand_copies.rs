//! A drive that stands alone, and copies of its tapes elsewhere: a tape is asked for where nothing at hand has the same, and once.

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::by_hand::{attended, barcode, drive, insert, named};
use crate::compare::same_by_rsync;
use crate::support::{Lab, below, noise, report};
use crate::tape::library_of;

/// A full on the first tape of a drive that stands alone, and a library with a robot.
fn lab() -> Lab {
    let lab = Lab::new();
    drive(&lab, 3, 200);
    Library::create(&lab.path("lib"), &library_of(2, 3), 3).unwrap();
    lab.file("tree/a", noise(1, 3_000_000));
    lab.file("tree/b", noise(2, 2_000_000));
    insert(&lab.path("drive"), &barcode(1));
    lab.backed_up(["tree", "--to", "vtape:drive", "--name", "t"]);
    lab
}

/// The same, with an incremental on the second tape, which stays in the drive.
fn lab_of_two() -> Lab {
    let lab = lab();
    insert(&lab.path("drive"), &barcode(2));
    lab.file("tree/new", noise(3, 1_000_000));
    let incr = lab.backed_up(["tree", "--to", "vtape:drive", "--name", "t", "--incr"]);
    assert_eq!(incr["media"], serde_json::json!(["tape-0002"]), "{incr:#}");
    lab
}

/// The media that a restore would read.
fn picked(lab: &Lab) -> Vec<String> {
    let dry = lab.run(["restore", "t", "--into", "none", "--dry-run", "--json"]);
    let dry: Value = serde_json::from_str(&dry.ok().stdout).unwrap();
    let label = |pick: &Value| pick["label"].as_str().unwrap().to_owned();
    dry["pick"].as_array().unwrap().iter().map(label).collect()
}

#[test]
fn a_tape_is_not_asked_for_that_a_copy_at_hand_has() {
    for (to, label) in [("vtape:lib", "V00001L9"), ("disk", "disk")] {
        let lab = lab();
        lab.run(["copy", "t", "--to", to]).ok();
        // The tape that is in its drive is at hand as well.
        assert_eq!(picked(&lab), ["tape-0001"]);
        let verified = report(lab.run(["verify", "t", "--json"]));
        assert_eq!(verified["media"].as_array().unwrap().len(), 2, "{verified:#}");
        for inside in [None, Some(2)] {
            lab.run(["library", "unload", "vtape:drive", "drive:1"]);
            if let Some(tape) = inside {
                insert(&lab.path("drive"), &barcode(tape));
            }
            assert_eq!(picked(&lab), [label], "{to} {inside:?}");
            for args in [
                "restore t --into out",
                "verify t",
                "drill t --sample 100%",
                "copy t --to further",
                "restore t --to-tar out.tar",
                "compare t --contents",
            ] {
                let args: Vec<&str> = args.split(' ').collect();
                let (run, asked) = attended(&lab, &args, &mut |_, wish| named(wish));
                assert!(asked.is_empty(), "{to} {inside:?}: {args:?}: {asked:#?}");
                assert_eq!(run.code, 0, "{to} {inside:?}: {args:?}: {}", run.stderr);
            }
            same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
            lab.sh("rm -rf out out.tar further");
            lab.run(["media", "forget", "further"]).ok();
        }
    }
}

/// The copy lies on another tape of the same drive.
#[test]
fn of_two_tapes_of_one_drive_that_have_the_same_the_one_that_is_in_is_read() {
    let lab = lab();
    lab.run(["copy", "t", "--to", "disk"]).ok();
    insert(&lab.path("drive"), &barcode(2));
    let (run, asked) =
        attended(&lab, &["copy", "t", "--to", "vtape:drive"], &mut |_, wish| named(wish));
    assert_eq!((run.code, asked.len()), (0, 0), "{asked:#?}: {}", run.stderr);
    lab.sh("rm -r disk");
    lab.run(["media", "forget", "disk"]).ok();
    assert_eq!(picked(&lab), ["tape-0002"]);
    let restore = ["restore", "t", "--into", "out"];
    let (run, asked) = attended(&lab, &restore, &mut |_, wish| named(wish));
    assert_eq!((run.code, asked.len()), (0, 0), "{asked:#?}: {}", run.stderr);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
}

#[test]
fn only_what_nothing_at_hand_has_is_asked_for() {
    let lab = lab_of_two();
    insert(&lab.path("drive"), &barcode(1));
    let versions = lab.run(["versions", "t", "--json"]).ok().rows();
    let oldest = versions.last().unwrap()["session"].as_str().unwrap();
    lab.run(["copy", &format!("t@{}", &oldest[..8]), "--to", "disk"]).ok();
    insert(&lab.path("drive"), &barcode(3));
    let mut both = picked(&lab);
    both.sort();
    assert_eq!(both, ["disk", "tape-0002"]);
    let restore = ["restore", "t", "--into", "out"];
    let (run, asked) = attended(&lab, &restore, &mut |_, wish| named(wish));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(matches!(&asked[..], [one] if one.contains("'tape-0002'")), "{asked:#?}");
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
}

/// Also where a version builds on another: each tape of the chain is put in once.
#[test]
fn who_reads_a_chain_asks_for_each_of_its_tapes_once() {
    for args in ["copy t --to vtape:lib", "copy t --to disk", "consolidate t --to disk"] {
        let lab = lab_of_two();
        let args: Vec<&str> = args.split(' ').collect();
        let (run, asked) = attended(&lab, &args, &mut |_, wish| named(wish));
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        let tapes: Vec<String> = asked.iter().map(|wish| named(wish)).collect();
        assert_eq!(tapes, [barcode(1), barcode(2)], "{args:?}: {asked:#?}");
    }
}

/// What is chosen lies on the second tape: nobody looks for the first one.
#[test]
fn a_tape_that_has_nothing_of_what_is_chosen_is_not_asked_for() {
    let lab = lab_of_two();
    lab.run(["library", "unload", "vtape:drive", "drive:1"]).ok();
    let new = lab.path("tree/new").display().to_string();
    let restore = ["restore", "t", &new, "--into", "out"];
    let (run, asked) = attended(&lab, &restore, &mut |_, wish| named(wish));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(matches!(&asked[..], [one] if one.contains("'tape-0002'")), "{asked:#?}");
}
