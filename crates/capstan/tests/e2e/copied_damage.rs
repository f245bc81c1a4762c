//! Copies to a medium that has a part of it already, which was found damaged there.

use crate::copied_names::fails;
use crate::support::Lab;

/// A full on medium `n` with a damaged file, as a verify found, a whole copy of it on `p`, and an incremental on `o`.
fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/large", vec![7u8; 300_000]);
    let backup = |to: &str, how: &str| {
        lab.run(["backup", "tree", "--name", "d", "--compress", "off", "--to", to, how]).ok();
    };
    backup("n", "--full");
    lab.file("tree/small", "new");
    lab.run(["copy", "d", "--to", "p"]).ok();
    backup("o", "--incr");
    lab.sh("printf XXXX | dd of=n/00000001.segment bs=1 seek=150000 conv=notrunc status=none");
    assert_eq!(lab.run(["verify", "d"]).code, 3);
    lab
}

#[test]
fn a_copy_beside_what_is_damaged_on_its_medium_says_that_it_is_not_whole() {
    let lab = lab();
    let says = "medium 'n' has 1 of its segments already, and they were found damaged there";
    fails(&lab, &["copy", "d", "--to", "n"], says);
    // All of it is there by now, and no better.
    fails(&lab, &["copy", "d", "--to", "n"], says);
}

#[test]
fn a_copy_is_whole_once_what_was_damaged_on_its_medium_was_repaired() {
    let lab = lab();
    lab.run(["media", "repair", "n"]).ok();
    lab.run(["copy", "d", "--to", "n"]).ok();
    lab.sh("mv o o.away; mv p p.away");
    lab.run(["restore", "d", "--into", "out"]).ok();
}
