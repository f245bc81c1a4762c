//! A tape fails in the middle of large files: what was committed of them stays, and only the rest is read and written again.

use capstan_tape::vtl::library::{Design, Library};
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::independent_reader::Reader;
use crate::support::{Lab, below, noise};
use crate::tape::{comes_back, library_of};

const TAPE: u64 = 60_000_000;

fn library(lab: &Lab, tapes: u32) -> Library {
    let dir = lab.path("vtl");
    let design = Design { capacity: Some(TAPE), ..library_of(2, tapes) };
    Library::create(&dir, &design, tapes).unwrap();
    Library::open(&dir).unwrap()
}

/// 100 MB in one file; the first tape is full at 48 MB or so, and committed.
fn tree(lab: &Lab) {
    lab.file("tree/a", "small");
    lab.file("tree/large", noise(1, 100_000_000));
    lab.file("tree/z", "small, too");
}

fn written(report: &Value) -> u64 {
    report["bytes_written"].as_u64().unwrap()
}

#[test]
fn files_go_on_from_their_last_commit() {
    for streams in ["1", "4"] {
        let lab = Lab::new();
        let library = library(&lab, 8);
        tree(&lab);
        // The second tape goes into the second drive.
        library.plan_faults(Some(2), "write:40=error").unwrap();
        let args = ["tree", "--to", "vtape:vtl", "--name", "t", "--streams", streams];
        let done = lab.backed_up(args);
        assert!(done["notes"].to_string().contains("it goes on with session"), "{done:#}");
        // 100 MB, the 20 MB that were lost with the second tape, and what is around them: catalogs, and blocks that are not full.
        println!("{streams} streams: {} bytes written", written(&done));
        assert!(written(&done) < 170_000_000, "{done:#}");
        comes_back(&lab, "t", &lab.path("tree"));
        lab.run(["verify", "t"]).ok();
        lab.run(["idb", "check"]).ok();
        if let Some(reader) = Reader::find() {
            let labels = done["media"].as_array().unwrap().iter();
            let mut tapes: Vec<_> =
                labels.map(|l| format!("vtl/tapes/{}.tape", l.as_str().unwrap())).collect();
            let first = tapes.remove(0);
            let mut args = vec!["extract", &first, "--into", "out"];
            tapes.iter().for_each(|tape| args.extend(["--and", tape]));
            reader.run(&lab, None, &args).ok();
            same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
            args[0] = "check";
            let run = reader.run(&lab, None, &[&["check", &first][..], &args[4..]].concat());
            run.ok();
        }
        // What is built on it, made of it and copied from it is whole, too.
        lab.file("tree/new", "more");
        lab.sh("touch tree/large");
        let incr = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--incr"]);
        assert_eq!(incr["method"], "incr", "{incr:#}");
        comes_back(&lab, "t", &lab.path("tree"));
        lab.run(["consolidate", "t", "--to", "full"]).ok();
        std::fs::rename(lab.path("vtl"), lab.path("away")).unwrap();
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

/// The same by hand: there was no further tape, and `--resume` comes later. Where the file changed meanwhile, it is read again.
#[test]
fn a_file_that_changed_meanwhile_is_read_again() {
    for (change, reads) in
        [("true", 20_000_000..80_000_000), ("echo >>tree/large", 100_000_000..105_000_000)]
    {
        let lab = Lab::new();
        let library = library(&lab, 2);
        tree(&lab);
        library.plan_faults(Some(2), "write:40=error").unwrap();
        let failed = lab.backup(["tree", "--to", "vtape:vtl", "--name", "t"]);
        assert_eq!(failed["status"], "failed", "{failed:#}");
        (0..3).for_each(|_| drop(lab.run(["vtl", "add-tape", "vtl"])));
        lab.sh(change);
        let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--resume"]);
        assert!(reads.contains(&done["bytes_read"].as_u64().unwrap()), "{change}: {done:#}");
        comes_back(&lab, "t", &lab.path("tree"));
        lab.run(["verify", "t"]).ok();
    }
}

/// What was to be gone on with lies on a tape that nobody can bring: nothing is built on that, and it is said.
#[test]
fn what_lies_on_a_tape_that_is_gone_is_not_gone_on_with() {
    for exported in [false, true] {
        let lab = Lab::new();
        let library = library(&lab, 1);
        tree(&lab);
        let failed = lab.backup(["tree", "--to", "vtape:vtl", "--name", "t"]);
        assert!(failed["status"] != "completed" && failed["media"][0] == "V00001L9", "{failed:#}");
        lab.run(["library", "unload", "vtape:vtl", "1"]);
        if exported {
            lab.run(["media", "export", "V00001L9", "--to", "bank"]).ok();
        }
        library.take("V00001L9").unwrap();
        for _ in 0..if exported { 2 } else { 3 } {
            lab.run(["vtl", "add-tape", "vtl"]).ok();
        }
        let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--resume"]);
        let says =
            |e: &Value| e["code"] == "no-base" && e["error"].to_string().contains("V00001L9");
        let said = done["errors"].as_array().unwrap().iter().any(says);
        assert_eq!(said, !exported, "{done:#}");
        if exported {
            // Somebody has it: that is built on, and brought for the restore.
            library.put_in("V00001L9").unwrap();
            lab.run(["library", "import", "vtape:vtl"]).ok();
        }
        assert_eq!(done["bytes_read"].as_u64().unwrap() < 100_000_000, exported, "{done:#}");
        comes_back(&lab, "t", &lab.path("tree"));
    }
}
