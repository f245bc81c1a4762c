//! The real binary on `/dev/sgN` of a real kernel (a process: see tape_software/uml.rs), and tools that know nothing of it on the
//! same drives and tapes: `mtx`, `mt`, `dd` and `tar`.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::independent_reader::Reader;
use crate::support::{Lab, below, finish, noise};
use crate::tape_software::uml;

const CHANGER: &str = "/dev/sch0";
/// The first drive.
const TAPE: &str = "/dev/nst0";

#[test]
fn tools_of_the_system_read_what_was_written() {
    uml::run_inside("kernel_drivers::");
}

#[test]
#[ignore = "is called inside user-mode-linux"]
fn power_off() {
    uml::power_off();
}

#[test]
#[ignore = "is called inside user-mode-linux"]
fn inside() {
    uml::inside(|_| {
        let lab = Lab::within(&std::env::temp_dir());
        lab.sh(
            "mkdir -p tree/a; echo text >tree/a/text; ln -s a tree/link; ln tree/a/text tree/hard",
        );
        lab.file("tree/big", noise(1, 5_000_000));
        let library = "scsi:/dev/sch0?tape=TAPE01L6";
        lab.backed_up(["tree", "--to", library, "--name", "t", "--segment-size", "2M"]);
        lab.sh("echo more >tree/a/more");
        lab.backed_up(["tree", "--to", library, "--name", "t", "--incr"]);
        elements_agree(&lab);
        copied_by_dd_it_is_read(&lab);
        a_tape_of_tar_is_left_alone(&lab);
        let into = lab.path("restored");
        lab.restored(["t", "--into", into.to_str().unwrap()]);
        same_by_rsync(&lab.path("tree"), &below(&into, &lab.path("tree")));
    });
}

/// A program of the packages that are unpacked.
fn unpacked(name: &str) -> PathBuf {
    uml::unpacked().join(name)
}

fn mtx(arguments: &str) -> String {
    let mut mtx = Command::new(unpacked("usr/sbin/mtx"));
    finish(mtx.args(["-f", CHANGER]).args(arguments.split(' '))).ok().stdout.clone()
}

fn mt(arguments: &str) -> String {
    let mut mt = Command::new(unpacked("bin/mt-st"));
    finish(mt.args(["-f", TAPE]).args(arguments.split(' '))).ok().stdout.clone()
}

/// `mtx` and we see the same tapes in the same places; slots are numbered alike.
fn elements_agree(lab: &Lab) {
    let status = mtx("status");
    let listed = lab.run(["library", "inventory", "scsi:/dev/sch0", "--json"]);
    let tapes: Vec<Value> = listed.ok().rows();
    assert_eq!(tapes.len(), 6, "{}", listed.stdout);
    for tape in tapes {
        let (barcode, place) = (tape["barcode"].as_str().unwrap(), tape["place"].as_str().unwrap());
        let line = status.lines().find(|line| line.contains(barcode)).unwrap();
        let there = match place.split_once(':').unwrap() {
            // Theirs begin at zero.
            ("drive", n) => format!("Data Transfer Element {}:", n.parse::<u32>().unwrap() - 1),
            (_, n) => format!("Storage Element {n}:"),
        };
        assert!(line.contains(&there), "{place}: {line}");
    }
}

/// The recipe of tools/read_medium.py, and what that makes of it.
fn copied_by_dd_it_is_read(lab: &Lab) {
    let Some(reader) = Reader::find() else { return };
    if mtx("status").lines().any(|line| line.contains("Element 0:Full")) {
        mtx("unload");
    }
    mtx("load 1 0");
    mt("rewind");
    mt("setblk 0");
    let said = lab.sh("mkdir copied; cd copied; n=0; \
         while dd if=/dev/nst0 of=tape.$n bs=1M; do n=$((n + 1)); done 2>&1; ls -l");
    let copied = lab.path("copied");
    let copied = copied.to_str().unwrap();
    let files = std::fs::read_dir(copied).unwrap().count();
    // The header, four segments of the first session and one of the second at least.
    assert!(files >= 11, "{said}");
    reader.run(lab, None, &["extract", copied, "--into", "extracted"]).ok();
    same_by_rsync(&lab.path("tree"), &below(&lab.path("extracted"), &lab.path("tree")));
    mtx("unload 1 0");
}

/// What `tar` wrote is not ours: it is refused, and `tar` still reads it.
fn a_tape_of_tar_is_left_alone(lab: &Lab) {
    mtx("load 2 0");
    mt("rewind");
    mt("setblk 0");
    lab.sh("tar -C tree -b 128 -cf /dev/nst0 a");
    mtx("unload 2 0");
    let refused =
        lab.run(["backup", "tree", "--to", "scsi:/dev/sch0?tape=TAPE02L6", "--name", "t"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("TAPE02L6"), "{}", refused.stderr);
    if !mtx("status").contains("Element 0:Full") {
        mtx("load 2 0");
    }
    mt("rewind");
    mt("setblk 0");
    assert_eq!(lab.sh("tar -b 128 -tf /dev/nst0 | sort"), "a/\na/more\na/text\n");
    mtx("unload 2 0");
}
