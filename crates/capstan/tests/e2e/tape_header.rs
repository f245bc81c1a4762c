//! The first block of a tape is damaged: what lies behind it is read all the same, and nothing is added or given up.

use std::fs;
use std::path::{Path, PathBuf};

use capstan_tape::vtl::library::Library;

use crate::gone_media::{status, why};
use crate::support::{Lab, noise};
use crate::tape::{comes_back, library, media};

const ALL: &str = "vtape:vtl";
const FIRST: &str = "vtape:vtl?tape=V00001L9";

fn file(dir: &Path) -> PathBuf {
    dir.join("tapes/V00001L9.tape")
}

/// Flips a bit of a tape's file. Its first block begins at byte 24.
fn flip(dir: &Path, at: usize) {
    let mut bytes = fs::read(file(dir)).unwrap();
    bytes[at] ^= 1;
    fs::write(file(dir), bytes).unwrap();
}

/// A backup on the first tape of a library.
fn with_a_backup(lab: &Lab, more: &[&str]) -> PathBuf {
    let dir = library(lab, 2, 3);
    lab.file("tree/a", noise(1, 3_000_000));
    lab.file("tree/b", "b");
    lab.backed_up([&["tree", "--to", FIRST, "--name", "t"], more].concat());
    dir
}

fn state(lab: &Lab) -> String {
    media(lab).into_iter().find(|m| m.0 == "V00001L9").unwrap().1
}

fn home_is_lost(lab: &Lab) {
    fs::rename(lab.path("home"), lab.path("lost")).unwrap();
}

#[test]
fn a_flipped_bit_in_a_tapes_first_block_costs_nothing() {
    // In the block's own header, its begin, the medium's header, and the zeros behind that.
    for at in [24, 60, 84, 100, 200, 5000] {
        let lab = Lab::new();
        let dir = with_a_backup(&lab, &["--protect", "permanent"]);
        flip(&dir, at);
        let damaged = fs::read(file(&dir)).unwrap();
        comes_back(&lab, "t", &lab.path("tree"));
        let verified = lab.run(["verify", "t"]);
        assert_eq!(verified.code, 3, "{at}: {}{}", verified.stdout, verified.stderr);
        assert!(verified.stderr.contains("the first block of vtape:"), "{at}: {}", verified.stderr);
        assert!(!verified.stderr.contains("tree/a"), "{at}: {}", verified.stderr);
        assert_eq!(state(&lab), "damaged", "{at}");
        let (code, said) = status(&lab);
        assert!(code != 6 && !why(&said).contains("--foreign"), "{at}: {said:#}");
        // Nothing is written to it, and nothing on it given up.
        let next = lab.backed_up(["tree", "--to", ALL, "--name", "u"]);
        assert_ne!(next["media"][0], "V00001L9", "{at}: {next:#}");
        for refused in [
            &["backup", "tree", "--to", FIRST, "--name", "t", "--full"][..],
            &["media", "recycle", "V00001L9", "--foreign"],
            &["media", "recycle", "V00001L9"],
            &["media", "erase", FIRST, "--foreign"],
        ] {
            let run = lab.run(refused);
            assert!(matches!(run.code, 1 | 2), "{at} {refused:?}: {}{}", run.stdout, run.stderr);
        }
        let repaired = lab.run(["media", "repair", "V00001L9"]);
        assert_eq!(repaired.code, 3, "{at}: {}{}", repaired.stdout, repaired.stderr);
        assert!(repaired.stderr.contains("media retire V00001L9"), "{at}: {}", repaired.stderr);
        assert!(fs::read(file(&dir)).unwrap() == damaged, "{at}: it was written");
        assert_eq!(state(&lab), "damaged", "{at}");
        // A new home reads it, too, and knows it as damaged.
        lab.sh("cp -a home kept");
        home_is_lost(&lab);
        lab.run(["import", FIRST]).ok();
        assert!(matches!(state(&lab).as_str(), "damaged" | "foreign"), "{at}: {}", state(&lab));
        comes_back(&lab, "t", &lab.path("tree"));
        lab.sh("rm -rf home lost; mv kept home");
        // The way out.
        let retired = lab.run(["media", "retire", "V00001L9", "--to", ALL]);
        assert_eq!(retired.code, 0, "{at}: {}{}", retired.stdout, retired.stderr);
        assert_eq!(state(&lab), "retired", "{at}");
        fs::remove_file(file(&dir)).unwrap();
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

#[test]
fn a_first_block_that_no_drive_reads_costs_nothing() {
    let lab = Lab::new();
    let dir = with_a_backup(&lab, &[]);
    let fail = || {
        for drive in [1, 2] {
            let plan: Vec<_> = (1..=4).map(|n| format!("read:{n}=error")).collect();
            Library::open(&dir).unwrap().plan_faults(Some(drive), &plan.join(",")).unwrap();
        }
    };
    fail();
    comes_back(&lab, "t", &lab.path("tree"));
    assert_eq!(state(&lab), "damaged");
    // Read again it is as it was.
    lab.run(["verify", "--medium", "V00001L9"]).ok();
    assert_eq!(state(&lab), "appendable");
    fail();
    let verified = lab.run(["verify", "t"]);
    assert_eq!(verified.code, 3, "{}{}", verified.stdout, verified.stderr);
    assert!(verified.stderr.contains("medium error"), "{}", verified.stderr);
}

#[test]
fn nobody_erases_a_locked_tape_whose_first_block_is_damaged() {
    for at in [60, 100] {
        let lab = Lab::new();
        let dir = with_a_backup(&lab, &["--lock-until", "90d"]);
        flip(&dir, at);
        home_is_lost(&lab);
        let damaged = fs::read(file(&dir)).unwrap();
        lab.run(["media", "erase", FIRST, "--foreign"]).refused(&["which is locked"]);
        assert!(fs::read(file(&dir)).unwrap() == damaged, "{at}");
        lab.run(["import", ALL]).ok();
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

/// Segments of an array do not say which member they lie on.
#[test]
fn an_array_does_without_a_member_whose_first_block_is_damaged() {
    let lab = Lab::new();
    let dir = library(&lab, 3, 3);
    lab.file("tree/a", noise(1, 3_000_000));
    let array = "rait5:vtape:vtl,vtape:vtl,vtape:vtl";
    lab.backed_up(["tree", "--to", array, "--name", "t"]);
    flip(&dir, 100);
    let before = fs::read(file(&dir)).unwrap();
    comes_back(&lab, "t", &lab.path("tree"));
    assert_ne!(lab.run(["media", "erase", FIRST, "--foreign"]).code, 0);
    home_is_lost(&lab);
    lab.run(["import", ALL]);
    comes_back(&lab, "t", &lab.path("tree"));
    assert!(fs::read(file(&dir)).unwrap() == before);
}
