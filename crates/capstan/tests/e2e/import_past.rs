//! An import of a library that has a tape, or a drive, which cannot be read: all other tapes are imported, and that one is named.

use std::path::Path;

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::support::{Lab, Run, noise};
use crate::tape::library;

const TAPES: u64 = 4;

/// A library with one drive, and a version on each of four tapes. Nothing is known of them any more.
fn lab() -> (Lab, std::path::PathBuf) {
    let lab = Lab::new();
    let dir = library(&lab, 1, TAPES as u32);
    for n in 1..=TAPES {
        lab.file("tree/a", noise(n, 3_000_000));
        let to = format!("vtape:vtl?tape=V0000{n}L9");
        lab.backed_up(["tree", "--to", &to, "--name", &format!("t{n}"), "--full"]);
    }
    lab.run(["library", "unload", "vtape:vtl", "1"]).ok();
    lab.lose_tables();
    (lab, dir)
}

fn plan(dir: &Path, drive: Option<u32>, plan: &str) {
    Library::open(dir).unwrap().plan_faults(drive, plan).unwrap();
}

/// The numbers of the objects that are known and come back.
fn come_back(lab: &Lab) -> Vec<u64> {
    let comes = |n: &u64| {
        let _ = std::fs::remove_dir_all(lab.path("out"));
        let done = lab.run(["restore", &format!("t{n}"), "--into", "out"]);
        done.code == 0
    };
    (1..=TAPES).filter(comes).collect()
}

/// What the import says of tapes.
fn said(run: &Run) -> String {
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    format!("{}{}", report["errors"], run.stderr)
}

#[test]
fn an_import_of_a_library_passes_over_what_cannot_be_read() {
    let damage: [(&str, &dyn Fn(&Path)); 7] = [
        ("its file is none", &|dir| edit(dir, |bytes| bytes[..8].fill(b'x'))),
        ("its file ends in nonsense", &|dir| {
            edit(dir, |bytes| bytes.extend_from_slice(b"nonsense, and more of it"))
        }),
        ("no file", &|dir| std::fs::remove_file(dir.join("tapes/V00002L9.tape")).unwrap()),
        ("the drive reads no header", &|dir| {
            let all: Vec<_> = (1..17).map(|n| format!("read:{n}=error")).collect();
            plan(dir, Some(1), &all.join(","));
        }),
        ("the drive reads no more of it", &|dir| {
            let all: Vec<_> = (4..41).map(|n| format!("read:{n}=error")).collect();
            plan(dir, Some(1), &all.join(","));
        }),
        ("the drive goes", &|dir| plan(dir, Some(1), "read:20=offline")),
        ("the robot jams", &|dir| plan(dir, None, "move:3=jam")),
    ];
    for (what, damage) in damage {
        let (lab, dir) = lab();
        damage(&dir);
        let run = lab.run(["import", "vtape:vtl", "--json"]);
        let text = format!("{what}: {}{}", run.stdout, run.stderr);
        // A drive that is well again is tried once more, and reads all.
        let all = what == "the drive goes" && run.code == 0;
        assert!(all || run.code == 3 && said(&run).contains("L9"), "{text}");
        plan(&dir, Some(1), "");
        plan(&dir, None, "");
        let back = come_back(&lab);
        let least = if all { TAPES } else { TAPES - 1 };
        assert!(back.len() as u64 >= least, "{back:?} {text}");
    }
}

/// Where none can be read, each is named.
#[test]
fn each_tape_is_named_where_none_can_be_read() {
    let (lab, dir) = lab();
    for n in 1..=TAPES {
        let tape = dir.join(format!("tapes/V0000{n}L9.tape"));
        let mut bytes = std::fs::read(&tape).unwrap();
        bytes.extend_from_slice(b"nonsense, and more of it");
        std::fs::write(&tape, bytes).unwrap();
    }
    let run = lab.run(["import", "vtape:vtl"]);
    assert!(run.code == 1 || run.code == 2, "{} {}{}", run.code, run.stdout, run.stderr);
    for n in 1..=TAPES {
        let tape = format!("V0000{n}L9 was not imported");
        assert!(run.stderr.contains(&tape), "{tape}: {}{}", run.stdout, run.stderr);
    }
}

/// Changes the file of the second tape.
fn edit(dir: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let tape = dir.join("tapes/V00002L9.tape");
    let mut bytes = std::fs::read(&tape).unwrap();
    change(&mut bytes);
    std::fs::write(&tape, bytes).unwrap();
}
