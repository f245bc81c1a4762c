//! What the database and other media know of a segment is not replaced by the less that is left of it on one medium.

use std::fs::{self, OpenOptions};
use std::path::Path;

use crate::mirror::comes_back_as;
use crate::support::{Lab, noise};

fn tree(lab: &Lab) {
    for n in 0..6 {
        lab.file(&format!("tree/f{n}"), noise(n + 1, 60_000));
    }
}

fn set_length(path: &Path, length: impl Fn(u64) -> u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let now = file.metadata().unwrap().len();
    file.set_len(length(now)).unwrap();
}

/// Imports a medium of which a segment is cut short, and is whole elsewhere.
fn import_of_cut(lab: &Lab, cut: u64) {
    set_length(&lab.path("a/00000001.segment"), |length| length - cut);
    // Twice: what an import leaves is nothing that the next takes for more.
    for _ in 0..2 {
        let run = lab.run(["import", "a"]);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(run.code == 3 && said.contains("another medium has it"), "{}: {said}", run.code);
        assert!(!said.contains("forgotten") && !said.contains("before it is missing"), "{said}");
        assert_ne!(lab.run(["status"]).code, 0);
        comes_back_as(lab, "t", "tree");
    }
    lab.run(["drill", "t", "--sample", "100%"]).ok();
    lab.run(["media", "repair", "a"]).ok();
    lab.run(["verify", "--medium", "a"]).ok();
    comes_back_as(lab, "t", "tree");
    lab.backed_up(["tree", "--to", "a", "--name", "t"]);
    lab.run(["status"]).ok();
}

#[test]
fn an_import_of_a_cut_segment_forgets_nothing_that_a_mirror_has() {
    for (level, cut) in [("all", 40_000), ("all", 320_000), ("files", 150_000), ("none", 150_000)] {
        let lab = Lab::new();
        tree(&lab);
        let args = ["tree", "--to", "a", "--mirror", "b", "--name", "t", "--log-level", level];
        lab.backed_up(args);
        import_of_cut(&lab, cut);
    }
}

#[test]
fn an_import_of_a_cut_segment_forgets_nothing_that_a_copy_has() {
    let lab = Lab::new();
    tree(&lab);
    lab.backed_up(["tree", "--to", "c", "--name", "t", "--full"]);
    lab.file("tree/f1", noise(9, 60_000));
    lab.backed_up(["tree", "--to", "a", "--name", "t", "--full"]);
    lab.run(["copy", "t", "--to", "b"]).ok();
    import_of_cut(&lab, 150_000);
    lab.run(["prune", "--keep-last", "1"]).ok();
    comes_back_as(&lab, "t", "tree");
}

#[test]
fn an_unknown_mirror_that_is_cut_takes_nothing_from_what_is_known() {
    let lab = Lab::new();
    tree(&lab);
    lab.backed_up(["tree", "--to", "a", "--mirror", "b", "--name", "t"]);
    lab.sh("mv b away");
    lab.run(["media", "forget", "b"]).ok();
    lab.sh("mv away b");
    set_length(&lab.path("b/00000001.segment"), |length| length - 150_000);
    assert_eq!(lab.run(["import", "b"]).code, 3);
    comes_back_as(&lab, "t", "tree");
    lab.run(["media", "repair", "b"]).ok();
    lab.run(["verify", "--medium", "b"]).ok();
}

#[test]
fn a_segment_that_grew_is_read_to_its_end() {
    let lab = Lab::new();
    tree(&lab);
    lab.backed_up(["tree", "--to", "a", "--mirror", "b", "--name", "t", "--log-level", "none"]);
    lab.run(["status"]).ok();
    // More than could be read in a lifetime.
    set_length(&lab.path("a/00000001.segment"), |_| 8 << 40);
    let said = |args: &[&str], code: i32, what: &str| {
        let run = lab.run(args);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(run.code == code && said.contains(what), "{args:?} {}: {said}", run.code);
    };
    assert_ne!(lab.run(["status"]).code, 0);
    said(&["verify", "--medium", "a"], 3, "behind its end");
    comes_back_as(&lab, "t", "tree");
    said(&["media", "repair", "a"], 0, "whole again");
    lab.run(["verify", "--medium", "a"]).ok();
    lab.run(["status"]).ok();
    comes_back_as(&lab, "t", "tree");
}

#[test]
fn a_segment_that_is_a_hole_is_read_to_its_end() {
    for erase in [false, true] {
        let lab = Lab::new();
        tree(&lab);
        lab.backed_up(["tree", "--to", "a", "--name", "t", "--full", "--protect", "none"]);
        // Its end is gone, and nothing comes for 8 TB.
        let path = lab.path("a/00000001.segment");
        set_length(&path, |length| length - 100_000);
        set_length(&path, |_| 8 << 40);
        if erase {
            lab.run(["media", "erase", "a", "--secure", "--give-up"]).ok();
            assert!(!path.exists());
            continue;
        }
        assert_eq!(lab.run(["verify", "--medium", "a"]).code, 3);
        assert_eq!(lab.run(["media", "repair", "a"]).code, 3);
        assert_eq!(lab.run(["import", "a"]).code, 3);
    }
}

#[test]
fn what_is_no_file_of_the_medium_is_not_overwritten() {
    let lab = Lab::new();
    tree(&lab);
    for _ in 0..3 {
        lab.backed_up(["tree", "--to", "a", "--name", "t", "--full", "--protect", "none"]);
    }
    lab.file("victim", noise(1, 100_000));
    lab.sh("cp victim kept; cd a; rm 0000000?.segment; ln ../victim 00000001.segment; ln -s ../victim 00000002.segment; mkfifo 00000003.segment");
    let run = lab.run(["media", "erase", "a", "--secure", "--give-up"]);
    let said = format!("{}{}", run.ok().stdout, run.stderr);
    assert!(said.contains("00000001.segment has another name"), "{said}");
    assert!(said.contains("00000002.segment is no regular file"), "{said}");
    assert!(said.contains("00000003.segment is no regular file"), "{said}");
    lab.sh("cmp victim kept; test ! -e a/00000001.segment; test ! -p a/00000003.segment");
}

#[test]
fn a_medium_retires_onto_its_mirror() {
    for as_new in [false, true] {
        let lab = Lab::new();
        tree(&lab);
        lab.backed_up(["tree", "--to", "a", "--mirror", "b", "--name", "t", "--full"]);
        if as_new {
            lab.sh("cp -a a c");
            lab.run(["media", "adopt", "c", "--as-new"]).ok();
        }
        let to = if as_new { "c" } else { "b" };
        lab.run(["media", "retire", "a", "--to", to]).ok();
        lab.sh("mv a gone");
        comes_back_as(&lab, "t", "tree");
    }
    // One that is damaged does not do.
    let lab = Lab::new();
    tree(&lab);
    lab.backed_up(["tree", "--to", "a", "--mirror", "b", "--name", "t", "--full"]);
    lab.sh("printf xxxx | dd of=b/00000001.segment conv=notrunc bs=1 seek=100000 2>/dev/null");
    assert_eq!(lab.run(["media", "retire", "a", "--to", "b"]).code, 3);
}

#[test]
fn a_restore_writes_neither_on_a_medium_nor_into_the_home() {
    let lab = Lab::new();
    tree(&lab);
    lab.backed_up(["tree", "--to", "a", "--name", "t", "--full"]);
    lab.sh("ln -s a link");
    for (option, place) in [
        ("--to-tar", "a/00000001.segment"),
        ("--to-tar", "a/new.tar"),
        ("--to-tar", "link/../a/new.tar"),
        ("--to-tar", "home/capstan.db"),
        ("--into", "a"),
        ("--into", "link/below/it"),
        ("--into", "home/out"),
    ] {
        lab.run(["restore", "t", option, place]).refused(&["a restore writes nothing there"]);
    }
    lab.run(["verify", "--medium", "a"]).ok();
    lab.sh("test ! -e a/new.tar; test ! -e a/below; test ! -e home/out");
    // Beside them there is room for all.
    lab.run(["restore", "t", "--to-tar", "b.tar"]).ok();
    comes_back_as(&lab, "t", "tree");
}

/// Bytes of a frame's header, of data, and of what says where all of it lies are changed: what an import can make of that is less than
/// what the mirror says, whether or not the home keeps names.
#[test]
fn an_import_of_a_damaged_segment_replaces_nothing_that_a_mirror_has() {
    for level in ["all", "files", "directories", "none"] {
        let lab = Lab::new();
        for n in 0..40 {
            lab.file(&format!("tree/f{n}"), noise(n, 3_000 + 100 * n as usize));
        }
        let to = |medium: &'static str| ["tree", "--to", medium, "--name", "t", "--full"];
        lab.backed_up(to("o"));
        let args = ["--mirror", "b", "--log-level", level];
        lab.backed_up([&to("a")[..], &args].concat());
        let path = lab.path("a/00000001.segment");
        let mut bytes = fs::read(&path).unwrap();
        let end = bytes.len() - 94;
        bytes[28_240] ^= 0x41;
        bytes[end..].iter_mut().for_each(|byte| *byte ^= 0x41);
        fs::write(&path, bytes).unwrap();
        for _ in 0..2 {
            assert_eq!(lab.run(["import", "a"]).code, 3);
            comes_back_as(&lab, "t", "tree");
        }
        lab.run(["copy", "t", "--to", "d"]).ok();
        lab.run(["copy", "--medium", "b", "--to", "e"]).ok();
        lab.run(["prune", "--keep-last", "1"]).ok();
        for only in ["d", "e"] {
            lab.sh(&format!("mkdir away; mv a b {only} away; mv away/{only} .; mv home kept"));
            lab.run(["import", only]).ok();
            comes_back_as(&lab, "t", "tree");
            lab.sh("rm -r home; mv kept home; mv away/* .; rmdir away");
        }
        lab.run(["media", "repair", "a"]).ok();
        lab.run(["verify", "--medium", "a"]).ok();
        lab.sh("mkdir away; mv b d e away");
        comes_back_as(&lab, "t", "tree");
    }
}

/// What one of two mirrors lacks is found on the other, also where neither says any more where all of it lies.
#[test]
fn mirrors_that_are_both_damaged_make_up_for_each_other() {
    for by_import in [false, true] {
        let lab = Lab::new();
        for n in 0..40 {
            lab.file(&format!("tree/f{n}"), noise(n, 3_000 + 100 * n as usize));
        }
        let args = ["tree", "--to", "a", "--mirror", "b", "--name", "t", "--log-level", "none"];
        lab.backed_up(args);
        for (medium, data) in [("a", 28_240), ("b", 150_000)] {
            let path = lab.path(format!("{medium}/00000001.segment"));
            let mut bytes = fs::read(&path).unwrap();
            let end = bytes.len() - 94;
            bytes[data] ^= 0x41;
            bytes[end..].iter_mut().for_each(|byte| *byte ^= 0x41);
            fs::write(&path, bytes).unwrap();
        }
        if by_import {
            lab.sh("mv home known");
            assert_eq!(lab.run(["import", "a"]).code, 3);
            assert_eq!(lab.run(["import", "b"]).code, 3);
        }
        comes_back_as(&lab, "t", "tree");
    }
}
