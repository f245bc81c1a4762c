//! A tape that is full and damaged, of which another has all: its repair and its end.

use std::os::unix::fs::FileExt;

use crate::support::{Lab, noise};
use crate::tape::comes_back;

/// Turns a bit of a tape around.
fn flip(lab: &Lab, tape: &str, at: u64) {
    let path = lab.path(format!("vtl/tapes/{tape}.tape"));
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

fn said(lab: &Lab, line: &str, code: i32) -> String {
    let run = lab.run(line.split(' '));
    let said = format!("{}{}", run.stdout, run.stderr);
    assert_eq!(run.code, code, "{line}: {said}");
    said
}

const TAPE: &str = "V00002L9";

/// A backup on two tapes, a copy of it on two others, and the second tape damaged.
fn lab(is_copied: bool) -> Lab {
    let lab = Lab::new();
    said(&lab, "vtl create vtl --drives 2 --tapes 12 --capacity 25M --scale 1000", 0);
    said(&lab, "pool create d --scratch --library vtape:vtl", 0);
    for n in 0..60 {
        lab.file(&format!("tree/{n}"), noise(n + 1, 1_000_000));
    }
    lab.backed_up(["tree", "--to", "pool:d", "--name", "t"]);
    if is_copied {
        said(&lab, "copy t --to vtape:vtl", 0);
    }
    flip(&lab, TAPE, 5_000_000);
    flip(&lab, TAPE, 15_000_000);
    lab
}

#[test]
fn each_message_about_a_damaged_tape_that_is_full_leads_on() {
    let lab = lab(true);
    said(&lab, "verify t", 3);
    said(&lab, "status", 5);
    for (line, code) in [("media repair V00002L9 --dry-run", 3), ("media repair V00002L9", 1)] {
        let said = said(&lab, line, code);
        assert!(
            said.contains("it is full") && said.contains("`capstan media retire V00002L9`"),
            "{said}"
        );
        assert!(!said.contains("2 can be mended"), "{said}");
    }
    said(&lab, "media retire V00002L9", 0);
    // Nothing is lost, so nothing is to be done.
    said(&lab, "status", 0);
    said(&lab, "verify t", 0);
    for line in ["media recycle V00002L9", "media erase V00002L9"] {
        let said = said(&lab, line, 2);
        assert!(said.contains("`capstan media forget V00002L9`"), "{said}");
    }
    said(&lab, "media forget V00002L9", 0);
    said(&lab, "media erase vtape:vtl?tape=V00002L9 --foreign", 0);
    said(&lab, "status", 0);
    said(&lab, "verify t", 0);
    comes_back(&lab, "t", &lab.path("tree"));
    lab.file("tree/new", noise(99, 1_000_000));
    lab.backed_up(["tree", "--to", "pool:d", "--name", "t"]);
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn a_retired_tape_that_alone_has_something_is_not_forgotten_while_it_is_there() {
    let lab = lab(false);
    said(&lab, "verify t", 3);
    said(&lab, "media retire V00002L9 --no-copy", 0);
    let refused = said(&lab, "media forget V00002L9", 2);
    assert!(refused.contains("`capstan media retire V00002L9 --undo`"), "{refused}");
    let refused = said(&lab, "media recycle V00002L9", 2);
    assert!(!refused.contains("forget"), "{refused}");
    // What it costs is told for ever.
    said(&lab, "status", 6);
}
