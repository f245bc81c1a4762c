//! What is refused is refused before anything is made: no medium of one device where another cannot be used, none where what is
//! to be written on it cannot be read, and no header of a medium that is not repaired.

use std::fs;

use crate::naming::id_of;
use crate::support::{Lab, noise};

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 50_000));
    lab
}

/// Refused with these words, and nothing is there.
fn makes_nothing(lab: &Lab, line: &str, words: &[&str]) {
    // How full a disk is changes by what others do there.
    let media = || {
        let list = lab.run(["media", "list"]).ok().stdout.clone();
        let names = list.lines().map(|line| line.split_whitespace().take(2).collect::<String>());
        names.collect::<Vec<_>>()
    };
    let known = media();
    lab.run(line.split(' ')).refused(words);
    assert!(!lab.path("new").exists(), "{line}");
    assert_eq!(media(), known, "{line}");
}

#[test]
fn a_mirror_that_cannot_be_written_leaves_the_device_as_it_is() {
    let lab = lab();
    lab.file("files/x", "x");
    lab.run(["media", "init", "small", "--block-size", "64K"]).ok();
    lab.run(["media", "init", "large", "--block-size", "1M"]).ok();
    lab.run(["vtl", "create", "vtl", "--tapes", "2"]).ok();
    lab.backed_up(["tree", "--to", "headless", "--name", "h"]);
    fs::remove_file(lab.path("headless/medium.capstan")).unwrap();
    let mirror = |what: &str| format!("backup tree --name t --to new --mirror {what}");
    makes_nothing(&lab, &mirror("files"), &["files", "not empty"]);
    makes_nothing(&lab, &mirror("new"), &["twice"]);
    makes_nothing(&lab, &mirror("./tree/../new"), &["twice"]);
    makes_nothing(&lab, &mirror("small --mirror large"), &["large", "blocks of 1048576"]);
    makes_nothing(&lab, &mirror("small --block-size 1M"), &["small", "blocks of 65536"]);
    makes_nothing(&lab, &mirror("vtape:nosuch"), &["nosuch", "library"]);
    makes_nothing(&lab, &mirror("vtape:vtl?tape=NOSUCH"), &["NOSUCH", "not in the library"]);
    makes_nothing(&lab, &mirror("headless"), &["headless", "media repair"]);
    makes_nothing(&lab, &format!("{} --dry-run", mirror("files")), &["files", "not empty"]);
    // Blocks are as those of what is there, not as those of what is made.
    lab.backed_up("tree --name t --to new --mirror small".split(' '));
    assert!(lab.run(["media", "show", "new"]).ok().stdout.contains("65.5 kB"));
}

#[test]
fn no_medium_is_made_for_what_cannot_be_read() {
    let lab = lab();
    lab.backed_up(["tree", "--to", "m", "--name", "t", "--protect", "permanent"]);
    lab.sh("mv m away");
    for line in ["copy t --to new", "copy --medium m --to new", "media retire m --to new"] {
        makes_nothing(&lab, line, &["'m'", "cannot read"]);
    }
    // A question makes nothing either.
    lab.run(["media", "init", "empty"]).ok();
    lab.sh("rm -r empty");
    lab.run(["media", "erase", "empty"]).ok();
    assert!(!lab.path("empty").exists());
}

#[test]
fn a_repair_that_is_refused_writes_no_header() {
    let lab = lab();
    lab.backed_up(["tree", "--to", "m", "--name", "t"]);
    let id = id_of(&lab, "m");
    fs::write(lab.path("m/medium.capstan"), "nothing of it").unwrap();
    for (from, why) in [("nosuch", "no medium"), ("m", "itself"), (&id, "itself")] {
        lab.run(["media", "repair", "m", "--from", from]).refused(&[why]);
        assert_eq!(fs::read(lab.path("m/medium.capstan")).unwrap(), b"nothing of it", "{from}");
    }
    lab.run(["media", "retire", "m", "--no-copy"]).ok();
    lab.run(["media", "repair", "m"]).refused(&["retired"]);
    assert_eq!(fs::read(lab.path("m/medium.capstan")).unwrap(), b"nothing of it");
    lab.run(["media", "retire", "m", "--undo"]).ok();
    lab.run(["media", "repair", "m"]).ok();
    lab.restored(["t", "--into", "out"]);
}
