//! Of a mirrored backup the tapes of one side are loaded, where that has all.

use std::collections::BTreeMap;
use std::fs;

use capstan_tape::vtl::library::{Design, Library};
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, below, noise, report};
use crate::tape::library_of;

/// A backup that is mirrored to two libraries, whose tapes are full at other times.
fn mirrored() -> Lab {
    let lab = Lab::new();
    for (name, capacity) in [("vtl", 40_000_000), ("other", 27_000_000)] {
        let design = Design { capacity: Some(capacity), ..library_of(2, 14) };
        Library::create(&lab.path(name), &design, 14).unwrap();
    }
    for n in 0..50 {
        lab.file(&format!("tree/d{}/f{n:02}", n % 7), noise(n, 2_000_000));
    }
    backed_up(&lab);
    lab
}

fn backed_up(lab: &Lab) {
    let to = ["tree", "--to", "vtape:vtl", "--mirror", "vtape:other", "--name", "t"];
    lab.backed_up(to);
}

fn comes_back(lab: &Lab) -> Value {
    let restored = lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    lab.sh("rm -r out");
    restored
}

/// How often the tapes of a library were loaded.
fn loads(lab: &Lab, library: &str) -> BTreeMap<String, u64> {
    let mut loads = BTreeMap::new();
    for entry in fs::read_dir(lab.path(library).join("tapes")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "json") {
            let label: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            loads.insert(name, label["loads"].as_u64().unwrap());
        }
    }
    assert!(!loads.is_empty());
    loads
}

/// How many tapes of each library were loaded by what is done; none of them more than once.
fn loaded(lab: &Lab, act: impl FnOnce()) -> [usize; 2] {
    let both = ["vtl", "other"];
    for library in both {
        // What is in a drive costs no load.
        for drive in ["drive:1", "drive:2"] {
            lab.run(["library", "unload", &format!("vtape:{library}"), drive]);
        }
    }
    let before = both.map(|library| loads(lab, library));
    act();
    [0, 1].map(|of| {
        let now = loads(lab, both[of]);
        let more: Vec<_> = now.iter().map(|(tape, n)| n - before[of][tape]).collect();
        assert!(more.iter().all(|n| *n <= 1), "{now:?}, before {:?}", before[of]);
        more.iter().filter(|n| **n == 1).count()
    })
}

#[test]
fn a_restore_a_drill_an_archive_and_copies_load_the_tapes_of_one_side() {
    let lab = mirrored();
    let few = loaded(&lab, || {
        lab.sh("mv other away");
        comes_back(&lab);
        lab.sh("mv away other");
    });
    let many = loaded(&lab, || {
        lab.sh("mv vtl away");
        comes_back(&lab);
        lab.sh("mv away vtl");
    });
    assert!(few[0] >= 3 && few[0] < many[1], "{few:?} {many:?}");
    assert_eq!((few[1], many[0]), (0, 0));

    let dry = lab.restore(["t", "--into", "out", "--dry-run"]);
    let picked: Vec<_> = dry["pick"].as_array().unwrap().iter().map(|of| &of["barcode"]).collect();
    let with_both = loaded(&lab, || {
        let restored = comes_back(&lab);
        let drives = restored["drives"].as_array().unwrap();
        let tapes: Vec<_> = drives.iter().map(|drive| &drive["tape"]).collect();
        assert_eq!(tapes, picked, "{restored:#}");
    });
    assert_eq!(with_both, few);
    for line in ["drill t --sample 100%", "restore t --to-tar out.tar", "copy t --to copied"] {
        let of = loaded(&lab, || {
            lab.run(line.split_whitespace()).ok();
        });
        assert_eq!(of, few, "{line}");
    }
    lab.sh("rm -r copied");
    lab.file("tree/new", noise(99, 3_000_000));
    lab.sh("mv tree/d3 tree/moved");
    backed_up(&lab);
    let of = loaded(&lab, || {
        lab.run(["consolidate", "t", "--to", "made"]).ok();
    });
    assert!(of[0].abs_diff(few[0]) <= 1 && of[1] == 0, "{of:?}");
}

/// What cannot be read on the side that was chosen still comes from the other.
#[test]
fn what_the_side_lacks_comes_from_the_other() {
    let lab = mirrored();
    let unload = || {
        for drive in ["drive:1", "drive:2"] {
            lab.run(["library", "unload", "vtape:vtl", drive]);
        }
    };
    unload();
    // Its file is gone, though it is in its slot.
    lab.sh("mv vtl/tapes/V00002L9.tape gone");
    comes_back(&lab);
    lab.sh("mv gone vtl/tapes/V00002L9.tape");
    unload();
    lab.run(["library", "export", "vtape:vtl", "V00002L9"]).ok();
    lab.run(["vtl", "take", "vtl", "V00002L9"]).ok();
    let of = loaded(&lab, || drop(comes_back(&lab)));
    assert!(of[0] >= 2 && of[1] >= 1, "{of:?}");
    let damaged = report(lab.run(["verify", "t", "--json"]));
    assert_eq!((&damaged["corrupt"], &damaged["away"]), (&0.into(), &0.into()), "{damaged:#}");
}
