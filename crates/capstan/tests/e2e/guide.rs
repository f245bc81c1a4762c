//! The guides of docs/guide, replayed: their blocks of commands, one after the other, in one shell.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::{Lab, finish};

/// The commands of a guide: its `sh` blocks.
fn commands(guide: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(guide);
    let text = fs::read_to_string(path).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.collect()
}

#[test]
fn the_life_of_a_backup() {
    let lab = Lab::new();
    lab.mkdir("bin");
    symlink(env!("CARGO_BIN_EXE_capstan"), lab.path("bin/capstan")).unwrap();
    lab.file("guide.sh", commands("lifecycle.md"));
    let mut shell = lab.program("bash");
    let path = format!("{}:{}", lab.path("bin").display(), std::env::var("PATH").unwrap());
    let run = finish(shell.args(["-euo", "pipefail", "-x", "guide.sh"]).env("PATH", path));
    assert_eq!(run.code, 0, "{}\n{}", run.stdout, run.stderr);
    assert!(run.stderr.matches("capstan restore").count() >= 7, "{}", run.stderr);
}
