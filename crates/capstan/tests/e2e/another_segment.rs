//! Names that are not in the database are read from the medium: only from the segment that is recorded there, and where some of them
//! are lost, that is said.

use std::fs;
use std::path::Path;

use crate::mirror::comes_back_as;
use crate::support::{Lab, Run, noise};

/// A full and an incremental on `a`, and what else is asked for; the database keeps of the second what `level` says.
fn backed_up(lab: &Lab, level: &str, mirror: &[&str]) {
    for n in 0..3 {
        lab.file(&format!("tree/f{n}"), noise(n + 1, 60_000));
    }
    lab.backed_up([&["tree", "--to", "a", "--name", "t", "--full"], mirror].concat());
    lab.file("tree/d/new", noise(7, 6_000));
    lab.file("tree/f1", noise(8, 6_000));
    let args = ["tree", "--to", "a", "--name", "t", "--incr", "--log-level", level];
    lab.backed_up([&args[..], mirror].concat());
}

/// Puts the first segment in the place of the second.
fn swap(lab: &Lab, medium: &str) {
    let of = |n: u32| lab.path(medium).join(format!("0000000{n}.segment"));
    fs::copy(of(1), of(2)).unwrap();
}

fn says(run: &Run, code: i32, what: &str) {
    let said = format!("{}{}", run.stdout, run.stderr);
    assert!(run.code == code && said.contains(what), "{}: {said}", run.code);
}

#[test]
fn another_segment_gives_no_names() {
    for level in ["files", "directories", "none", "all"] {
        let lab = Lab::new();
        backed_up(&lab, level, &[]);
        fs::copy(lab.path("a/00000002.segment"), lab.path("kept")).unwrap();
        swap(&lab, "a");
        if level == "all" {
            // As where they are lost.
            lab.sh("rm -r home/catalogs/*");
        }
        for args in [
            &["restore", "t", "--into", "out"][..],
            &["restore", "t", "--to-tar", "out.tar"],
            &["drill", "t", "--sample", "100%"],
            &["compare", "t"],
            &["consolidate", "t", "--to", "c"],
        ] {
            says(&lab.run(args), 1, "another segment lies in the place of segment");
        }
        let loaded = lab.run(["catalog", "load", "t"]);
        assert!(
            format!("{}{}", loaded.stdout, loaded.stderr).contains("another segment"),
            "{level}"
        );
        assert_ne!(lab.run(["status"]).code, 0);
        // What was found damaged is whole again when that is seen.
        fs::rename(lab.path("kept"), lab.path("a/00000002.segment")).unwrap();
        lab.run(["verify", "--medium", "a"]).ok();
        lab.run(["status"]).ok();
        comes_back_as(&lab, "t", "tree");
    }
}

#[test]
fn names_come_from_the_mirror_that_has_them() {
    for level in ["files", "none"] {
        let lab = Lab::new();
        backed_up(&lab, level, &["--mirror", "b"]);
        // One of both is looked at first.
        for medium in ["a", "b"] {
            swap(&lab, medium);
            comes_back_as(&lab, "t", "tree");
            lab.run(["restore", "t", "--to-tar", "out.tar"]).ok();
            lab.run(["media", "repair", medium]).ok();
            lab.run(["verify", "--medium", medium]).ok();
            comes_back_as(&lab, "t", "tree");
            lab.sh("rm out.tar");
        }
    }
}

/// Leaves a third of a file, so that neither its streams nor its catalog are whole, and overwrites the rest.
fn spoil(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let third = bytes.len() / 3;
    bytes[third..].fill(0);
    fs::write(path, bytes).unwrap();
}

#[test]
fn names_that_are_lost_are_not_left_out_in_silence() {
    let lab = Lab::new();
    // Nothing but names: no data that could lack. They do not compress.
    for n in 0..3_000_u64 {
        let name: String = noise(n + 1, 60).iter().map(|b| format!("{b:02x}")).collect();
        lab.file(&format!("tree/{name}"), "");
    }
    let args = ["tree", "--to", "a", "--name", "t", "--log-level", "none", "--compress", "off"];
    lab.backed_up(args);
    lab.file("tree/last", "");
    lab.backed_up([&args[..], &["--incr"]].concat());
    spoil(&lab.path("a/00000001.segment"));
    let lost = "names of segment";
    says(&lab.run(["restore", "t", "--into", "out"]), 3, lost);
    says(&lab.run(["restore", "t", "--to-tar", "out.tar"]), 3, lost);
    says(&lab.run(["drill", "t", "--sample", "100%"]), 3, lost);
    says(&lab.run(["verify", "t"]), 3, lost);
    says(&lab.run(["consolidate", "t", "--to", "c"]), 1, lost);
    // What lacks names is not put into the database as if it were all.
    assert_ne!(lab.run(["catalog", "load", "t"]).code, 0);
    says(&lab.run(["restore", "t", "--into", "out2"]), 3, lost);
}
