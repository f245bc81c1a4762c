//! Media of all kinds, as they are before they are made hostile.

use std::fs;

use crate::mutate::Container;
use crate::support::{Lab, noise};

/// Media of a kind, with the home that knows them.
pub struct Media {
    pub name: &'static str,
    pub container: Container,
    /// What commands call them.
    pub device: &'static str,
    /// Directories that are changed.
    pub dirs: &'static [&'static str],
    pub key: bool,
    pub make: fn(&Lab),
}

/// All kinds, of which each seed takes one in turn.
pub const KINDS: &[Media] = &[
    Media {
        name: "plain",
        container: Container::Directory,
        device: "medium",
        dirs: &["medium"],
        key: false,
        make: plain,
    },
    Media {
        name: "encrypted",
        container: Container::Directory,
        device: "medium",
        dirs: &["medium"],
        key: true,
        make: plain,
    },
    Media {
        name: "copies",
        container: Container::Directory,
        device: "medium",
        dirs: &["medium", "second"],
        key: false,
        make: copies,
    },
    Media {
        name: "synthetic",
        container: Container::Directory,
        device: "medium",
        dirs: &["medium"],
        key: false,
        make: synthetic,
    },
    Media {
        name: "tape",
        container: Container::Tape,
        device: "vtape:vtl",
        dirs: &["vtl"],
        key: false,
        make: on_tape,
    },
    Media {
        name: "encrypted tape",
        container: Container::Tape,
        device: "vtape:vtl",
        dirs: &["vtl"],
        key: true,
        make: on_tape,
    },
    Media {
        name: "rait5",
        container: Container::Array,
        device: "rait5:a,b,c",
        dirs: &["a", "b", "c"],
        key: false,
        make: array,
    },
    Media {
        name: "rait1",
        container: Container::Array,
        device: "rait1:a,b",
        dirs: &["a", "b"],
        key: true,
        make: mirror,
    },
    Media {
        name: "rait5 of tapes",
        container: Container::TapeArray,
        device: "rait5:vtape:vtl,vtape:vtl,vtape:vtl",
        dirs: &["vtl"],
        key: false,
        make: tape_array,
    },
    Media {
        name: "rait1 of tapes of two libraries",
        container: Container::TapeArray,
        device: "rait1:vtape:vtl,vtape:other",
        dirs: &["vtl", "other"],
        key: true,
        make: tape_mirror,
    },
];

const TUNE: [&str; 6] = ["--block-size", "64K", "--segment-size", "1M", "--streams", "1"];

fn tree(lab: &Lab) {
    for i in 0..40 {
        lab.file(&format!("tree/d{}/f{i}", i % 5), noise(i, 500 + 150 * i as usize));
    }
    lab.file("tree/big", noise(7, 150_000));
    lab.sh("cd tree; seq 1 9000 >text; ln d1/f1 linked; ln -s d1/f1 symlink; mkfifo pipe; mkdir -p empty deep/er/than/that; \
            truncate -s 40M sparse; echo end >>sparse; chmod 4755 d1/f6; setfattr -n user.note -v some d2/f2");
}

/// A full and an incremental, a lock, a backup of the database.
fn backups(lab: &Lab, device: &str) {
    tree(lab);
    lab.file("code", lab.run(["idb", "recovery-key"]).ok().stdout.clone());
    lab.backed_up([&["tree", "--name", "t", "--to", device][..], &TUNE].concat());
    lab.sh("cd tree; echo more >>text; rm d2/f2; echo new >new; mv d3 moved; chmod 600 d1/f1");
    lab.backed_up([&["tree", "--name", "t", "--incr", "--to", device][..], &TUNE].concat());
    lab.run(["lock", "t", "--until", "2d"]).ok();
}

fn plain(lab: &Lab) {
    backups(lab, "medium");
    lab.sh("echo piped >in");
    let input = fs::File::open(lab.path("in")).unwrap();
    lab.backup_of(input.into(), ["--stdin", "--stdin-name", "s", "--name", "s", "--to", "medium"]);
}

fn copies(lab: &Lab) {
    backups(lab, "medium");
    lab.run(["copy", "--medium", "medium", "--to", "second"]).ok();
}

fn synthetic(lab: &Lab) {
    backups(lab, "medium");
    lab.run(["consolidate", "t"]).ok();
}

fn library(lab: &Lab, name: &str, drives: u32) {
    let sizes = format!("--drives {drives} --tapes {0} --slots 4 --capacity 40M", drives.max(2));
    let line = format!("vtl create {name} {sizes} --scale 1000000");
    lab.run(line.split(' ')).ok();
}

fn on_tape(lab: &Lab) {
    library(lab, "vtl", 1);
    backups(lab, "vtape:vtl");
}

fn tape_array(lab: &Lab) {
    library(lab, "vtl", 3);
    backups(lab, "rait5:vtape:vtl,vtape:vtl,vtape:vtl");
}

fn tape_mirror(lab: &Lab) {
    library(lab, "vtl", 1);
    library(lab, "other", 1);
    backups(lab, "rait1:vtape:vtl,vtape:other");
}

fn array(lab: &Lab) {
    backups(lab, "rait5:a,b,c");
}

fn mirror(lab: &Lab) {
    backups(lab, "rait1:a,b");
}
