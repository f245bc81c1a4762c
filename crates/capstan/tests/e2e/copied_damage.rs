//! Copies to a medium that has a part of it already, which was found damaged there.

use crate::copied_names::fails;
use crate::support::{Lab, finish, noise};

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

/// Checksums of encrypted frames remain without checksums of contents: who has no key finds damage by them.
#[test]
fn what_is_encrypted_is_checked_where_nothing_else_is() {
    let secret = "correct horse battery";
    let lab = Lab::new();
    lab.file("tree/large", noise(1, 3_000_000));
    let with = |args: &[&str]| finish(lab.command().env("CAPSTAN_PASSPHRASE", secret).args(args));
    with(&["key", "init"]).ok();
    with(&["backup", "tree", "--to", "n", "--name", "d", "--no-crc"]).ok();
    lab.run(["copy", "d", "--to", "p"]).ok();
    lab.sh("printf XXXX | dd of=n/00000001.segment bs=1 seek=1500000 conv=notrunc status=none");
    // Alone, it is no whole copy: the other one is wanted.
    lab.sh("mv p p.away");
    let copied = lab.run(["copy", "d", "--to", "q"]);
    assert_eq!(copied.code, 3, "{}", copied.stderr);
    assert!(copied.stderr.contains("away: p"), "{}", copied.stderr);
    assert_eq!(lab.run(["verify", "--medium", "n"]).code, 3);
    // With another one it is mended, and then enough.
    lab.sh("mv p.away p; rm -r q");
    lab.run(["media", "repair", "n"]).ok();
    lab.run(["verify", "--medium", "n"]).ok();
    lab.sh("mv p p.away");
    with(&["restore", "d", "--into", "out"]).ok();
    lab.sh("cmp tree/large out/$PWD/tree/large");
}
