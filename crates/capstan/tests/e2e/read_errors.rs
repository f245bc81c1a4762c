//! Tapes of which a read fails: once, which costs nothing; and so often that the first look at a tape sees nothing of it.

use std::path::{Path, PathBuf};

use capstan_tape::vtl::library::{Design, Library};
use serde_json::Value;

use crate::support::{Lab, finish, noise};
use crate::tape::{comes_back, library, library_of};

const FIRST: &str = "vtape:vtl?tape=V00001L9";

/// One read that fails; and as many as one look at a tape makes, so that the next one sees what it did not.
const FAILING: [u32; 2] = [1, 4];

/// Has reads of the first drive fail from that one on, as many as that.
fn fail(dir: &Path, from: u32, reads: u32) {
    let plan: Vec<_> = (from..from + reads).map(|n| format!("read:{n}=error")).collect();
    Library::open(dir).unwrap().plan_faults(Some(1), &plan.join(",")).unwrap();
}

fn contents(dir: &Path) -> Vec<u8> {
    std::fs::read(dir.join("tapes/V00001L9.tape")).unwrap()
}

/// A library whose first tape has a backup: of this home, or of another.
fn with_a_backup(lab: &Lab, home: &str) -> PathBuf {
    let dir = library(lab, 1, 3);
    lab.file("tree/file", noise(1, 30_000));
    let mut command = lab.command();
    command.env("CAPSTAN_HOME", lab.path(home));
    finish(command.args(["backup", "tree", "--to", FIRST, "--name", "t"])).ok();
    dir
}

#[test]
fn a_failed_read_of_its_header_gives_no_tape_of_another_cell_away() {
    for reads in FAILING {
        let lab = Lab::new();
        let dir = with_a_backup(&lab, "other");
        let before = contents(&dir);
        fail(&dir, 1, reads);
        let named = lab.run(["backup", "tree", "--to", FIRST, "--name", "t"]);
        named.refused(&["another cell"]);
        fail(&dir, 1, reads);
        let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
        assert_eq!(done["media"][0], "V00002L9", "{reads}: {done}");
        assert!(contents(&dir) == before, "{reads}: it was written");
        // Nor is anything of it known here.
        let versions = lab.run(["sessions", "--kind", "backup", "--json"]).ok().rows();
        assert_eq!(versions.len(), 1, "{reads}: {versions:?}");
    }
}

#[test]
fn a_failed_read_of_its_header_lets_nothing_be_written_to_a_tape_that_is_given_up_or_away() {
    for (command, why) in
        [("media retire V00001L9 --no-copy", "retired"), ("media export V00001L9", "exported")]
    {
        for reads in FAILING {
            let lab = Lab::new();
            let dir = with_a_backup(&lab, "home");
            lab.run(command.split(' ')).ok();
            let before = contents(&dir);
            fail(&dir, 1, reads);
            let named = lab.run(["backup", "tree", "--to", FIRST, "--name", "t", "--full"]);
            named.refused(&[why]);
            lab.backed_up(["tree", "--to", "disk", "--name", "d"]);
            fail(&dir, 1, reads);
            assert_ne!(lab.run(["copy", "d", "--to", FIRST]).code, 0, "{reads} {why}");
            assert!(contents(&dir) == before, "{reads}: a tape that is {why} was written");
        }
    }
}

fn shown(lab: &Lab) -> Value {
    let shown = lab.run(["media", "show", "V00001L9", "--json"]);
    serde_json::from_str(&shown.ok().stdout).unwrap()
}

#[test]
fn a_block_that_cannot_be_read_at_once_is_read_again() {
    for (at, reads) in [(1, 1), (5, 1), (9, 3)] {
        let lab = Lab::new();
        let dir = library(&lab, 1, 2);
        lab.file("tree/file", noise(1, 20_000_000));
        lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
        fail(&dir, at, reads);
        let into = lab.path("r");
        let done = lab.restored(["t", "--into", into.to_str().unwrap()]);
        assert_eq!(done["drives"][0]["read_again"], 1, "{at}: {done}");
        assert!(done["notes"].to_string().contains("came at a later try"), "{at}: {done}");
        // It tells on the tape, and on nothing else.
        let shown = shown(&lab);
        assert_eq!((&shown["errors"], &shown["condition"]), (&1.into(), &"fair".into()), "{shown}");
        assert_eq!(lab.run(["status"]).code, 0, "{at}");
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

#[test]
fn what_was_found_damaged_and_can_be_read_again_counts_again() {
    let lab = Lab::new();
    let dir = library(&lab, 1, 2);
    lab.file("tree/file", noise(1, 20_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    fail(&dir, 5, 300);
    let restored = lab.restore(["t", "--into", lab.path("r").to_str().unwrap()]);
    assert_eq!(restored["status"], "completed_with_errors", "{restored}");
    Library::open(&dir).unwrap().plan_faults(Some(1), "").unwrap();
    let status = lab.run(["status"]);
    let verify = "capstan verify --medium V00001L9";
    assert!(status.code == 6 && status.stdout.contains(verify), "{}", status.stdout);
    lab.run(verify.split(' ').skip(1)).ok();
    assert_eq!(lab.run(["status"]).code, 0);
}

/// Each reader of a segment of an array would go to the end of it first, and back.
#[test]
fn an_array_of_tapes_is_read_in_one_pass() {
    let lab = Lab::new();
    let design = Design { capacity: Some(4_000_000_000), ..library_of(3, 4) };
    Library::create(&lab.path("vtl"), &design, 4).unwrap();
    lab.file("tree/file", noise(1, 120_000_000));
    let array = "rait5:vtape:vtl,vtape:vtl,vtape:vtl";
    lab.backed_up(["tree", "--to", array, "--name", "t", "--streams", "1"]);
    let done = lab.restored(["t", "--into", lab.path("r").to_str().unwrap()]);
    for drive in done["drives"].as_array().unwrap() {
        assert!(drive["locates"].as_u64().unwrap() <= 8, "{drive}");
    }
    std::fs::remove_dir_all(lab.path("r")).unwrap();
    comes_back(&lab, "t", &lab.path("tree"));
}
