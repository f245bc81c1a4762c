//! A consolidation that does not meet some of what the version needs makes no full: it names whose it is, and the versions stay.

use std::fs;

use crate::compare::same_by_rsync;
use crate::support::{Lab, below, noise, report};

/// A full whose names are whole and of which one frame of contents lacks, in all that says what lies where: its catalog is lost in the
/// home and on the medium, and the frame is damaged. An incremental builds on it.
fn lacks_a_frame() -> Lab {
    let lab = Lab::new();
    for i in 0..6 {
        lab.file(&format!("tree/f{i}"), noise(i, 400_000));
    }
    let to = ["tree", "--to", "m", "--name", "t", "--streams", "1", "--block-size", "64K"];
    lab.backed_up(to);
    lab.file("tree/new", "x");
    lab.backed_up(to.iter().chain(&["--incr"]));
    lab.sh("cp -a m whole");
    let path = lab.path("m/00000001.segment");
    let mut bytes = fs::read(&path).unwrap();
    let len = bytes.len();
    bytes[len / 2] ^= 0xff;
    bytes[len - 6000..].fill(0);
    fs::write(path, bytes).unwrap();
    lab.sh("rm home/catalogs/*");
    lab
}

#[test]
fn no_full_is_made_without_a_frame_that_is_in_no_index() {
    let lab = lacks_a_frame();
    let run = lab.run(["consolidate", "t", "--to", "made", "--json"]);
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("a full would lack what cannot be read"), "{}", run.stderr);
    let done = report(run);
    assert_eq!(done["status"], "failed", "{done:#}");
    let errors = done["errors"].as_array().unwrap();
    let file = format!("{}/f", lab.path("tree").display());
    let names = |e: &serde_json::Value| {
        e["code"] == "damaged" && e["path"].as_str().unwrap().starts_with(&file)
    };
    assert!(errors.iter().any(names), "{done:#}");
    // The chain is the version, as far as it goes, and whole when its medium is.
    let run = lab.run(["prune", "t", "--keep-last", "1"]);
    assert!(lab.path("m/00000001.segment").exists(), "{}{}", run.stdout, run.stderr);
    lab.sh("rm -r m; mv whole m");
    lab.run(["verify", "--medium", "m"]).ok();
    lab.run(["consolidate", "t", "--to", "made"]).ok();
    lab.sh("mv m gone");
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
}
