//! The tutorial and the guides, replayed: their blocks of commands, one after the other, in one shell.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::{Lab, finish};

/// The commands of a page of docs: its `sh` blocks.
fn commands(page: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = fs::read_to_string(path).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.collect()
}

/// Runs the commands of a page; what they said.
fn replayed(page: &str) -> String {
    let lab = Lab::new();
    lab.mkdir("bin");
    symlink(env!("CARGO_BIN_EXE_capstan"), lab.path("bin/capstan")).unwrap();
    lab.file("guide.sh", commands(page));
    let mut shell = lab.program("bash");
    let path = format!("{}:{}", lab.path("bin").display(), std::env::var("PATH").unwrap());
    let run = finish(shell.args(["-euo", "pipefail", "-x", "guide.sh"]).env("PATH", path));
    assert_eq!(run.code, 0, "{}\n{}", run.stdout, run.stderr);
    run.stderr
}

#[test]
fn the_tutorial() {
    let said = replayed("tutorial.md");
    for command in ["backup", "restore", "key init", "run --check", "idb recover"] {
        assert!(said.contains(&format!("+ capstan {command}")), "'{command}': {said}");
    }
}

#[test]
fn the_life_of_a_backup() {
    let said = replayed("guide/lifecycle.md");
    assert!(said.matches("capstan restore").count() >= 7, "{said}");
}

#[test]
fn encryption_and_its_loss() {
    let said = replayed("guide/encryption.md");
    assert!(said.matches("+ capstan restore").count() >= 2, "{said}");
}

#[test]
fn monitoring() {
    let said = replayed("guide/monitoring.md");
    assert!(said.contains("+ test 2 = 2"), "{said}");
}

#[test]
fn rotating_tapes() {
    let said = replayed("guide/tape-rotation.md");
    assert_eq!(said.matches("+ capstan library export").count(), 2, "{said}");
}

#[test]
fn a_damaged_medium() {
    let said = replayed("guide/damaged-medium.md");
    for code in ["201 damaged", "229 replica-used"] {
        assert!(said.contains(code), "'{code}': {said}");
    }
}
