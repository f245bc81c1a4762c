//! An import of a medium that somebody writes to at the moment: what is lost of the medium is not forgotten under his hands.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::{Lab, Run, end, noise, wait_for};

/// Something that writes, stopped in its middle.
struct Stopped(Option<Child>);

impl Stopped {
    /// Begins a command, and stops it when there is something new on a medium.
    fn begin(lab: &Lab, medium: &str, args: &[&str]) -> Self {
        let at = lab.path(medium);
        let before = bytes_in(&at);
        let mut command = lab.command();
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        wait_for("something that is written", || {
            assert!(child.try_wait().unwrap().is_none(), "{args:?} ended");
            bytes_in(&at) > before + (1 << 20)
        });
        let stopped = Self(Some(child));
        stopped.signal("-STOP");
        stopped
    }

    fn signal(&self, name: &str) {
        let pid = self.0.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Lets it come to its end, which is a good one.
    fn ends_well(mut self) {
        self.signal("-CONT");
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.take().map(end);
    }
}

fn bytes_in(medium: &Path) -> u64 {
    let files = fs::read_dir(medium).unwrap();
    files.filter_map(|file| file.ok()?.metadata().ok()).map(|of| of.len()).sum()
}

fn import(lab: &Lab, medium: &str) -> Run {
    lab.run(["import", medium])
}

/// A tree with a full of it on `m`, in one segment; and 200 MB that came since.
fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 200_000));
    lab.backed_up(["tree", "--to", "m", "--name", "t"]);
    lab.sh("head -c 200M /dev/urandom >tree/large");
    lab
}

/// A backup of `t` that builds on its full, and has written and not committed.
fn backup(lab: &Lab, to: &str) -> Stopped {
    let args = ["backup", "tree", "--to", to, "--name", "t", "--incr", "--compress", "off"];
    Stopped::begin(lab, to, &[&args[..], &["--segment-size", "1G"]].concat())
}

#[test]
fn what_a_backup_that_runs_builds_on_is_not_forgotten_under_it() {
    let lab = lab();
    let stopped = backup(&lab, "m");
    // What is as it should be is imported all the same.
    import(&lab, "m").ok();
    fs::rename(lab.path("m/00000001.segment"), lab.path("hold")).unwrap();
    import(&lab, "m").refused(&["medium 'm'", "import"]);
    fs::rename(lab.path("hold"), lab.path("m/00000001.segment")).unwrap();
    stopped.ends_well();
    lab.run(["verify", "t"]).ok();
    lab.run(["idb", "check"]).ok();
}

#[test]
fn a_version_that_is_written_elsewhere_is_not_forgotten_with_its_base() {
    let lab = lab();
    lab.run(["media", "init", "n"]).ok();
    let stopped = backup(&lab, "n");
    fs::rename(lab.path("m/00000001.segment"), lab.path("hold")).unwrap();
    import(&lab, "m").refused(&["medium 'm'", "import"]);
    fs::rename(lab.path("hold"), lab.path("m/00000001.segment")).unwrap();
    import(&lab, "m").ok();
    stopped.ends_well();
    lab.run(["verify", "t"]).ok();
    lab.run(["idb", "check"]).ok();
}

#[test]
fn what_a_copy_writes_to_is_not_taken_as_it_is_meanwhile() {
    let lab = lab();
    lab.run(["copy", "t", "--to", "n"]).ok();
    lab.backed_up(["tree", "--to", "m", "--name", "t", "--full", "--compress", "off"]);
    let stopped = Stopped::begin(&lab, "n", &["copy", "t", "--to", "n"]);
    fs::rename(lab.path("n/00000001.segment"), lab.path("hold")).unwrap();
    import(&lab, "n").refused(&["import"]);
    fs::rename(lab.path("hold"), lab.path("n/00000001.segment")).unwrap();
    stopped.ends_well();
    lab.run(["verify", "--medium", "n"]).ok();
}

#[test]
fn what_a_prune_is_about_to_remove_is_not_brought_back_under_it() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 200_000));
    for _ in 0..2 {
        lab.backed_up(["tree", "--to", "m", "--name", "t", "--full"]);
    }
    lab.run(["media", "export", "m"]).ok();
    fs::rename(lab.path("m"), lab.path("away")).unwrap();
    let marks = lab.run(["prune", "--keep-last", "1"]);
    assert!(marks.ok().stdout.contains("1 version removed"), "{}", marks.stdout);
    fs::rename(lab.path("away"), lab.path("m")).unwrap();
    // As a prune holds it.
    let mut holder = lab.program("flock");
    holder.args(["-o", "m/medium.capstan", "-c", "touch held; exec cat"]).stdin(Stdio::piped());
    let holder = holder.spawn().unwrap();
    wait_for("the medium to be held", || lab.path("held").exists());
    let beside = import(&lab, "m");
    assert!(said(beside.ok()).contains("stay so"), "{}", said(&beside));
    end(holder);
    assert_eq!(crate::full::offered(&lab, "t").len(), 1);
    import(&lab, "m").ok();
    assert_eq!(crate::full::offered(&lab, "t").len(), 2);
}

fn said(run: &Run) -> String {
    format!("{}{}", run.stdout, run.stderr)
}
