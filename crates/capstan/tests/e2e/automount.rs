//! Disks that are mounted when somebody asks for them, and that are listed only then.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, below, can_mount, noise, report, skip};

/// An automounter at `srv/auto`, which mounts what the file `source` names.
struct Automount<'a> {
    lab: &'a Lab,
    server: Child,
}

impl<'a> Automount<'a> {
    fn new(lab: &'a Lab) -> Option<Self> {
        if !can_mount() || !lab.succeeds("grep -qw autofs /proc/filesystems") {
            skip("autofs cannot be mounted here");
            return None;
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/automount.py");
        let mut command = lab.program("python3");
        command.arg(script).arg(lab.mkdir("srv/auto")).arg(lab.path("source"));
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let automount = Self { lab, server };
        assert_eq!(ready, "ready\n");
        Some(automount)
    }

    /// The disk is not mounted any more, and not listed.
    fn expires(&self) {
        let pid = self.server.id();
        let gone = "i=0; while [ -n \"$(ls srv/auto)\" ]; do i=$((i + 1)); test $i -lt 200; sleep 0.05; done";
        self.lab.sh(&format!("kill -USR1 {pid}; {gone}"));
    }
}

impl Drop for Automount<'_> {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let at = self.lab.path("srv/auto");
        self.lab.succeeds(&format!("umount -l {0}/disk; umount -l {0}", at.display()));
    }
}

#[test]
fn a_disk_that_is_mounted_when_asked_for_is_asked_for() {
    let lab = Lab::new();
    lab.file("store/dir/a", noise(1, 20_000));
    lab.file("store/b", "b");
    lab.file("srv/other", "o");
    let source = lab.path("store").display().to_string();
    lab.file("source", &source);
    let Some(automount) = Automount::new(&lab) else { return };
    let backup = || -> (i32, Value) {
        let run = lab.run(["backup", "srv", "--to", "medium", "--name", "t", "--json"]);
        (run.code, report(run))
    };
    let restores = || {
        lab.sh("rm -rf out");
        lab.restored(["t", "--into", "out"]);
        let out = below(&lab.path("out"), &lab.path("srv/auto/disk"));
        same_by_rsync(&lab.path("store"), &out);
    };
    // Somebody uses it.
    lab.sh("ls srv/auto/disk");
    let (code, first) = backup();
    assert_eq!((code, &first["files"]), (0, &3.into()), "{first:#}");
    automount.expires();
    let (code, next) = backup();
    assert_eq!((code, &next["files"]), (0, &3.into()), "{next:#}");
    restores();
    // It cannot be mounted: it is not taken for one of which all was removed.
    automount.expires();
    lab.file("source", "");
    for _ in 0..2 {
        let (code, missed) = backup();
        let error = &missed["errors"][0];
        assert_eq!((code, &error["code"]), (3, &"not-mounted".into()), "{missed:#}");
        assert!(error["error"].as_str().unwrap().contains("kept as it was"), "{missed:#}");
        restores();
    }
    lab.file("source", &source);
    assert_eq!(backup().0, 0);
    restores();
}
