//! Tapes that are at hand and cannot be opened: what lies on them counts as damaged until they are read again, and no session is refused
//! because of one.

use std::fs;
use std::path::{Path, PathBuf};

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::gone_media::{status, why};
use crate::support::{Lab, noise, report};
use crate::tape::{comes_back, library, media};

const ALL: &str = "vtape:vtl";

fn file_of(dir: &Path, barcode: &str) -> PathBuf {
    dir.join(format!("tapes/{barcode}.tape"))
}

/// Breaks the file of a tape in its middle, and returns what it was.
pub fn break_file(dir: &Path, barcode: &str) -> Vec<u8> {
    let path = file_of(dir, barcode);
    let whole = fs::read(&path).unwrap();
    let mut bytes = whole.clone();
    let middle = bytes.len() / 2;
    // Longer than a block: somewhere in it a record begins.
    let end = bytes.len().min(middle + 700_000);
    bytes[middle..end].fill(b'x');
    fs::write(path, bytes).unwrap();
    whole
}

/// Has no drive read anything.
fn blind(dir: &Path, drives: u32) {
    let plan: Vec<_> = (1..400).map(|n| format!("read:{n}=error")).collect();
    for drive in 1..=drives {
        Library::open(dir).unwrap().plan_faults(Some(drive), &plan.join(",")).unwrap();
    }
}

fn see(dir: &Path, drives: u32) {
    (1..=drives).for_each(|n| Library::open(dir).unwrap().plan_faults(Some(n), "").unwrap());
}

fn state(lab: &Lab, label: &str) -> String {
    media(lab).into_iter().find(|m| m.0 == label).unwrap().1
}

fn label(done: &Value) -> String {
    done["media"][0].as_str().unwrap().to_owned()
}

/// How many versions a prune removes.
fn removed(lab: &Lab) -> usize {
    let run = lab.run(["prune", "t", "--keep-last", "1", "--json"]);
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    let all = json["versions"].as_array().unwrap();
    all.iter().filter(|v| v["action"] == "remove" || v["action"] == "mark").count()
}

/// Two fulls on a tape each.
fn two_fulls(lab: &Lab) -> (PathBuf, String, String, String) {
    let dir = library(lab, 2, 2);
    lab.run(["pool", "create", "p", "--scratch", "--library", ALL, "--not-appendable"]).ok();
    lab.file("tree/a", noise(1, 3_000_000));
    lab.file("tree/b", noise(2, 3_000_000));
    let to = ["tree", "--to", "pool:p", "--name", "t", "--full"];
    let first = lab.backed_up(to);
    let last = lab.backed_up(to);
    (dir, format!("t@{}", first["session"].as_str().unwrap()), label(&first), label(&last))
}

#[test]
fn a_version_on_a_tape_that_cannot_be_opened_pushes_no_whole_one_out() {
    for finds in ["restore t --into r", "verify t", "verify --medium LAST", "drill t --sample 100%"]
    {
        for is_file in [true, false] {
            let lab = Lab::new();
            let (dir, first, _, last) = two_fulls(&lab);
            let whole = is_file.then(|| break_file(&dir, &last));
            if !is_file {
                blind(&dir, 2);
            }
            let run = lab.run(finds.replace("LAST", &last).split(' '));
            let said = format!("{finds}, file {is_file}: {}{}", run.stdout, run.stderr);
            assert_eq!(run.code, 3, "{said}");
            assert!(run.stderr.contains("tree/a") && run.stderr.contains("tree/b"), "{said}");
            let (code, json) = status(&lab);
            assert_eq!(code, 6, "{said}{json:#}");
            assert!(why(&json).contains("was found damaged on medium"), "{said}{json:#}");
            assert_eq!(state(&lab, &last), "damaged", "{said}");
            assert_eq!(removed(&lab), 0, "{said}");
            // No other tape is taken for the next one, and the whole version stays to be had.
            if !is_file {
                see(&dir, 2);
            }
            lab.run(["backup", "tree", "--to", "pool:p", "--name", "t", "--full"])
                .refused(&["holds what must stay", "is damaged"]);
            comes_back(&lab, &first, &lab.path("tree"));
            // Read again it counts again.
            if let Some(whole) = whole {
                fs::write(file_of(&dir, &last), whole).unwrap();
            }
            lab.run(["verify", "--medium", &last]).ok();
            assert!(!why(&status(&lab).1).contains("was found damaged"), "{said}");
            assert_eq!(removed(&lab), 1, "{said}");
            comes_back(&lab, "t", &lab.path("tree"));
        }
    }
}

#[test]
fn a_copy_that_cannot_be_opened_takes_no_place_of_the_original() {
    let lab = Lab::new();
    let dir = library(&lab, 3, 2);
    lab.run(["pool", "create", "p", "--not-appendable"]).ok();
    lab.run(["media", "init", "vtape:vtl?tape=V00001L9", "--pool", "p"]).ok();
    lab.file("tree/a", noise(1, 3_000_000));
    lab.backed_up(["tree", "--to", "pool:p", "--name", "t", "--protect", "none"]);
    lab.run(["copy", "t", "--to", "vtape:vtl?tape=V00002L9"]).ok();
    break_file(&dir, "V00002L9");
    let verified = lab.run(["verify", "t", "--json"]);
    assert_eq!(verified.code, 3, "{}{}", verified.stdout, verified.stderr);
    let verified = report(verified);
    assert_eq!(verified["corrupt"], 0, "the original has all: {verified:#}");
    assert!(verified["errors"].to_string().contains("V00002L9"), "{verified:#}");
    assert_eq!(status(&lab).0, 5);
    lab.run(["backup", "tree", "--to", "pool:p", "--name", "other", "--protect", "none"])
        .refused(&["last complete version"]);
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn one_tape_that_cannot_be_opened_blocks_no_session() {
    for to in [ALL, "pool:p"] {
        let lab = Lab::new();
        let dir = library(&lab, 2, 4);
        lab.run(["pool", "create", "p", "--scratch", "--library", ALL]).ok();
        lab.file("tree/a", noise(1, 3_000_000));
        let first = label(&lab.backed_up(["tree", "--to", to, "--name", "t"]));
        lab.backed_up(["tree", "--to", "disk", "--name", "d"]);
        break_file(&dir, &first);
        let again = lab.backup(["tree", "--to", to, "--name", "t", "--full"]);
        assert_ne!(label(&again), first, "{to}: {again:#}");
        assert!(again["errors"].to_string().contains("cannot be read"), "{to}: {again:#}");
        assert_eq!(state(&lab, &first), "damaged", "{to}");
        comes_back(&lab, "t", &lab.path("tree"));
        // Marked as it is, it is not loaded again.
        let third = lab.backed_up(["tree", "--to", to, "--name", "t", "--full"]);
        assert_eq!(label(&third), label(&again), "{to}");
        lab.run(["copy", "d", "--to", ALL]).ok();
        // A new home reads the others.
        fs::rename(lab.path("home"), lab.path("lost")).unwrap();
        let imported = lab.run(["import", ALL]);
        assert_eq!(imported.code, 3, "{to}: {}{}", imported.stdout, imported.stderr);
        assert!(imported.stderr.contains(&first), "{to}: {}", imported.stderr);
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

#[test]
fn a_drive_that_does_not_answer_marks_no_tape() {
    let lab = Lab::new();
    let dir = library(&lab, 1, 2);
    lab.file("tree/a", noise(1, 3_000_000));
    let first = label(&lab.backed_up(["tree", "--to", ALL, "--name", "t"]));
    let plan: Vec<_> = (1..9).map(|n| format!("read:{n}=offline")).collect();
    Library::open(&dir).unwrap().plan_faults(Some(1), &plan.join(",")).unwrap();
    assert_ne!(lab.run(["verify", "--medium", &first]).code, 0);
    assert_eq!(state(&lab, &first), "appendable");
    see(&dir, 1);
    assert_eq!(status(&lab).0, 0);
}

#[test]
fn an_array_of_which_too_many_tapes_cannot_be_opened_counts_as_damaged() {
    let lab = Lab::new();
    let dir = library(&lab, 3, 3);
    lab.file("tree/a", noise(1, 3_000_000));
    let done =
        lab.backed_up(["tree", "--to", "rait5:vtape:vtl,vtape:vtl,vtape:vtl", "--name", "t"]);
    let array = label(&done);
    let whole = break_file(&dir, "V00001L9");
    lab.restored(["t", "--into", lab.path("r").to_str().unwrap()]);
    assert_eq!(state(&lab, &array), "appendable", "one may be lost");
    // With one that is away it may be whole again.
    let out = lab.path("out.tape");
    fs::rename(file_of(&dir, "V00002L9"), &out).unwrap();
    assert_ne!(lab.run(["verify", "t"]).code, 0);
    assert_ne!(state(&lab, &array), "damaged");
    fs::rename(&out, file_of(&dir, "V00002L9")).unwrap();
    let other = break_file(&dir, "V00002L9");
    let verified = lab.run(["verify", "t"]);
    assert_eq!(verified.code, 3, "{}{}", verified.stdout, verified.stderr);
    assert!(verified.stderr.contains("tree/a"), "{}", verified.stderr);
    assert_eq!((state(&lab, &array).as_str(), status(&lab).0), ("damaged", 6));
    fs::write(file_of(&dir, "V00001L9"), whole).unwrap();
    fs::write(file_of(&dir, "V00002L9"), other).unwrap();
    lab.run(["verify", "--medium", &array]).ok();
    assert_eq!(status(&lab).0, 0);
    comes_back(&lab, "t", &lab.path("tree"));
}
