//! What is left of a segment that was cut short, when its medium is taken as it is: all that is left of a version stays, and can be
//! had by its name.

use std::collections::BTreeSet;
use std::fs;

use capstan_medium::tape::Spot;
use capstan_tape::vtl::library::Library;

use crate::changed_media::{TAPE, on_tape};
use crate::gone_media::{full, restores, status, why};
use crate::mirror::comes_back_as;
use crate::support::{Lab, Run, below, noise};
use crate::tape::library_of;

const FILES: usize = 40;

fn tree(lab: &Lab, size: usize) {
    for n in 0..FILES {
        lab.file(&format!("tree/f{n}"), noise(n as u64, size));
    }
}

fn said(run: &Run) -> String {
    format!("{}{}", run.stdout, run.stderr)
}

/// The files of a version that a restore gives back whole, of a version that is not.
fn whole_files(lab: &Lab, version: &str) -> BTreeSet<usize> {
    let run = lab.run(["restore", version, "--into", "left"]);
    assert_eq!(run.code, 3, "{version}: {}", said(&run));
    let tree = below(&lab.path("left"), &lab.path("tree"));
    let is_whole = |n: &usize| {
        let name = format!("f{n}");
        fs::read(tree.join(&name)).ok() == fs::read(lab.path("tree").join(name)).ok()
    };
    let whole: BTreeSet<usize> = (0..FILES).filter(is_whole).collect();
    fs::remove_dir_all(lab.path("left")).unwrap();
    assert!(!whole.is_empty() && whole.len() < FILES, "{whole:?}");
    whole
}

/// What is known of the version after its medium was taken as it is: as much as before.
fn is_known_as_damaged(lab: &Lab, version: &str, before: &BTreeSet<usize>) {
    let listed = lab.run(["versions", "t"]).ok().stdout.clone();
    let row = listed.lines().find(|line| line.starts_with(version));
    assert!(row.is_some_and(|row| row.contains("damaged")), "{listed}");
    let sessions = lab.run(["sessions", "t"]).ok().stdout.clone();
    assert!(!sessions.contains("removed"), "{sessions}");
    assert_eq!(&whole_files(lab, version), before);
    // Names are lost with what was cut off, unless its catalog is known.
    let names = lab.run(["ls", version]);
    assert!(matches!(names.code, 0 | 3) && !names.stdout.is_empty(), "{}", said(&names));
    let (code, json) = status(lab);
    assert_eq!(code, 6, "{json:#}");
    assert!(why(&json).contains("damaged"), "{json:#}");
    assert!(!why(&json).contains("last written"), "{json:#}");
}

#[test]
fn what_is_left_of_a_cut_segment_is_to_be_had_by_its_name() {
    for level in ["all", "files", "none"] {
        let lab = Lab::new();
        tree(&lab, 20_000);
        let args = ["tree", "--to", "m", "--name", "t", "--full", "--log-level", level];
        let done = lab.backed_up(args);
        let version = format!("t@{}", &done["session"].as_str().unwrap()[..8]);
        lab.sh("cp -a m/00000001.segment hold; truncate -s -300K m/00000001.segment");
        let before = whole_files(&lab, &version);
        // Twice: what an import leaves is nothing that the next takes for less.
        for _ in 0..2 {
            let taken = lab.run(["import", "m"]);
            assert_eq!(taken.code, 3, "{}", said(&taken));
            assert!(said(&taken).contains(&version), "{}", said(&taken));
            assert!(!said(&taken).contains("forgotten"), "{}", said(&taken));
            if level != "none" {
                is_known_as_damaged(&lab, &version, &before);
            }
            assert_eq!(whole_files(&lab, "t"), before);
        }
        assert_eq!(lab.run(["verify", "t"]).code, 3);
        assert_eq!(lab.run(["prune", "--keep-last", "1"]).code, 3);
        assert_eq!(whole_files(&lab, &version), before);
        // The medium is written again, and what is left stays beside what is whole.
        let next = lab.backup(["tree", "--to", "m", "--name", "t"]);
        assert_eq!((&next["method"], &next["status"]), (&"full".into(), &"completed".into()));
        let pruned = lab.run(["prune", "--keep-last", "1"]);
        assert_eq!(pruned.code, 3, "{}", said(&pruned));
        assert_eq!(whole_files(&lab, &version), before);
        comes_back_as(&lab, "t", "tree");
        lab.run(["idb", "check"]).ok();
        // It is whole again when what was cut is back.
        lab.sh("mv hold m/00000001.segment");
        lab.run(["import", "m"]).ok();
        comes_back_as(&lab, &version, "tree");
        lab.run(["verify", "--medium", "m"]).ok();
        lab.run(["status"]).ok();
    }
}

#[test]
fn a_last_version_that_was_cut_is_said_to_be_damaged_and_stays() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 200_000));
    let first = full(&lab, "m", "t");
    tree(&lab, 20_000);
    let done = lab.backed_up(["tree", "--to", "m", "--name", "t", "--incr"]);
    let last = format!("t@{}", &done["session"].as_str().unwrap()[..8]);
    lab.sh("truncate -s -300K m/00000002.segment");
    assert_eq!(lab.run(["import", "m"]).code, 3);
    let (code, json) = status(&lab);
    assert_eq!(code, 6, "{json:#}");
    assert!(why(&json).contains(&format!("{last} was found damaged")), "{json:#}");
    let left = whole_files(&lab, &last);
    let pruned = lab.run(["prune", "--keep-last", "1"]);
    assert_eq!(pruned.code, 3, "{}", said(&pruned));
    restores(&lab, &first);
    assert_eq!(whole_files(&lab, &last), left);
    // No backup builds on it.
    let next = lab.backed_up(["tree", "--to", "n", "--name", "t"]);
    assert_eq!(next["method"], "full", "{next:#}");
    assert_eq!(whole_files(&lab, &last), left);
    // Who wants it no more lets it go.
    lab.run(["protect", &last, "--none"]).ok();
    lab.run(["prune", "t"]).ok();
    assert!(!lab.path("m/00000002.segment").exists());
}

#[test]
fn what_is_left_at_the_cut_end_of_a_tape_is_not_written_over() {
    let lab = Lab::new();
    Library::create(&lab.path("vtl"), &library_of(1, 3), 3).unwrap();
    tree(&lab, 60_000);
    let to = format!("vtape:vtl?tape={TAPE}");
    let done = lab.backed_up(["tree", "--to", &to, "--name", "t"]);
    let version = format!("t@{}", &done["session"].as_str().unwrap()[..8]);
    on_tape(&lab.path("vtl"), TAPE, |drive| {
        drive.locate(Spot { file: 1, block: 4, object: None }).unwrap();
        drive.write_filemark().unwrap();
        drive.sync().unwrap();
    });
    let before = whole_files(&lab, &version);
    for import in [to.as_str(), "vtape:vtl"] {
        let taken = lab.run(["import", import]);
        assert_eq!(taken.code, 3, "{}", said(&taken));
        is_known_as_damaged(&lab, &version, &before);
    }
    // Nothing is written over it, whatever is asked for.
    lab.run(["backup", "tree", "--to", &to, "--name", "t"]).refused(&["cut short", "recycle"]);
    lab.run(["lock", &version, "--until", "30d"]).refused(&["cut short"]);
    let next = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    assert_eq!((&next["method"], &next["media"][0]), (&"full".into(), &"V00002L9".into()));
    assert_eq!(whole_files(&lab, &version), before);
    comes_back_as(&lab, "t", "tree");
    // A home that knows nothing of it says that something is there.
    fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
    let taken = lab.run(["import", &to]);
    assert!(taken.ok().stdout.contains("has no end"), "{}", said(&taken));
}
