//! A medium that another session has is waited for, and it is said for whom.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, below, finish, noise};

/// A session that has the medium in `m` until it is told to end; its object is called `first`.
struct Holder(Child);

impl Holder {
    fn begin(lab: &Lab, device: &str) -> Self {
        let mut command = lab.command();
        let script = format!("cat {}", lab.sh("mkfifo held; echo -n $PWD/held"));
        command.args(["backup", "--from-command", &script, "--name", "first", "--to"]).arg(device);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while !lab.run(["sessions", "--json"]).ok().stdout.contains("\"running\"") {
            assert!(Instant::now() < until, "it did not begin");
            std::thread::sleep(Duration::from_millis(50));
        }
        Self(child)
    }

    fn end(mut self, lab: &Lab) {
        lab.sh("echo data >held");
        assert!(self.0.wait().unwrap().success());
    }
}

/// A command that waits, with what it has said when it began to.
fn waiting(lab: &Lab, args: &[&str]) -> (Child, Lines<BufReader<ChildStderr>>, String) {
    let mut command = lab.command();
    command.env_remove("CAPSTAN_WAIT").args(args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = said.by_ref().map(Result::unwrap).find(|line| line.contains("waiting: "));
    let line = line.unwrap_or_else(|| panic!("{args:?} does not wait"));
    (child, said, line)
}

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("t/file", noise(1, 100_000));
    lab.backed_up(["t", "--to", "m", "--name", "t"]);
    lab
}

#[test]
fn a_directory_in_use_is_waited_for_and_it_is_said_for_whom() {
    let lab = lab();
    let holder = Holder::begin(&lab, "m");
    let id = lab.run(["sessions", "--json"]).rows()[0]["id"].as_str().unwrap()[..8].to_owned();
    let pid = holder.0.id();
    // At once, where nobody is to wait.
    let refused = lab.run(["backup", "t", "--to", "m", "--name", "t", "--wait", "0"]);
    refused.refused(&["the medium in", "in use", &format!("process {pid}"), &id, "'first'"]);
    let refused = lab.run(["media", "label", "m", "other", "--wait", "1s"]);
    refused.refused(&["in use", "'first'"]);
    let mut all = Vec::new();
    for args in [
        &["backup", "t", "--to", "m", "--name", "t", "--wait", "1h"][..],
        &["backup", "t", "--to", "other", "--mirror", "m", "--name", "mirrored", "--wait"],
        &["media", "label", "m", "again"],
        &["lock", "t", "--until", "1d"],
    ] {
        let (child, said, line) = waiting(&lab, args);
        for words in ["the medium in", &id, "'first'", &format!("process {pid}")] {
            assert!(line.contains(words), "{words}: {line}");
        }
        all.push((child, said));
    }
    holder.end(&lab);
    for (mut child, said) in all {
        let said: Vec<_> = said.map(Result::unwrap).collect();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{said:?}");
    }
    lab.restored(["mirrored", "--into", "out"]);
    same_by_rsync(&lab.path("t"), &below(&lab.path("out"), &lab.path("t")));
    lab.run(["verify", "t"]).ok();
}

/// Whoever waits has nothing that others wait for: two with each other's disks come one after the other.
#[test]
fn two_that_want_each_others_disks_do_not_wait_for_ever() {
    let lab = lab();
    lab.backed_up(["t", "--to", "n", "--name", "n"]);
    lab.file("t/more", noise(2, 30_000_000));
    let run = |name: &str, to: &str, mirror: &str| {
        let mut command = lab.command();
        command.args(["backup", "t", "--full", "--name", name, "--to", to, "--mirror", mirror]);
        command.args(["--json", "--wait", "5min"]).stdout(Stdio::piped());
        command.stderr(Stdio::null()).spawn().unwrap()
    };
    for round in 0..3 {
        let both = [run(&format!("a{round}"), "m", "n"), run(&format!("b{round}"), "n", "m")];
        for child in both {
            let output = child.wait_with_output().unwrap();
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            // None left its mirror because the other one had it.
            assert_eq!(report["status"], "completed", "{report:#}");
            assert_eq!(report["media"].as_array().unwrap().len(), 2, "{report:#}");
        }
    }
}

#[test]
fn waiting_ends_on_sigterm() {
    let lab = lab();
    let holder = Holder::begin(&lab, "m");
    let (child, said, _) = waiting(&lab, &["backup", "t", "--to", "m", "--name", "t", "--wait"]);
    lab.sh(&format!("kill -TERM {}", child.id()));
    let said: Vec<_> = said.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(1 | 2)), "{:?} {said:?}", output.status);
    assert!(said.iter().any(|line| line.contains("error: ")), "{said:?}");
    holder.end(&lab);
}

#[test]
fn a_path_behind_wait_is_no_time_and_that_is_said() {
    let lab = lab();
    let run = lab.run(["backup", "--wait", "t", "--to", "m"]);
    run.refused(&["no span of time", "behind all else"]);
    let mut odd = lab.command();
    odd.env("CAPSTAN_WAIT", "soon").args(["sessions"]);
    finish(&mut odd).refused(&["'soon'", "no span of time"]);
}

/// What waits, as `status` has it.
fn waits(lab: &Lab) -> Vec<Value> {
    let status: Value = serde_json::from_str(&lab.run(["status", "--json"]).stdout).unwrap();
    status["waits"].as_array().unwrap().clone()
}

#[test]
fn who_waits_is_in_the_status_with_what_for() {
    let lab = lab();
    assert!(waits(&lab).is_empty());
    let holder = Holder::begin(&lab, "m");
    let args = ["backup", "t", "--to", "m", "--name", "t", "--wait", "1h"];
    let (mut backup, _backup_said, line) = waiting(&lab, &args);
    let (mut label, _label_said, _) = waiting(&lab, &["media", "label", "m", "again"]);
    let why = line.split("waiting: ").nth(1).unwrap().to_owned();
    assert!(why.contains("'first'"), "{why}");
    let of = |pid: u32| waits(&lab).into_iter().find(|of| of["pid"] == pid);
    let shown = of(backup.id()).unwrap();
    assert_eq!((&shown["why"], &shown["command"]), (&why.as_str().into(), &"backup t".into()));
    assert!(shown["since"].as_str().unwrap().starts_with("20"), "{shown}");
    assert_eq!(of(label.id()).unwrap()["command"], "media label");
    let text = lab.run(["status"]).stdout;
    let line = text.lines().find(|line| line.contains(&format!("Process {} on ", backup.id())));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("backup t") && line.contains("waits since 20"), "{line}");
    assert!(line.ends_with(&format!(": {why}")), "{line}");
    // What a process left that was killed is gone with it.
    label.kill().unwrap();
    label.wait().unwrap();
    assert!(of(label.id()).is_none());
    holder.end(&lab);
    assert!(backup.wait().unwrap().success());
    assert!(waits(&lab).is_empty());
    assert!(!lab.run(["status"]).stdout.contains("waits since"));
}

#[test]
fn who_waits_for_a_drive_is_in_the_status() {
    let lab = lab();
    crate::tape::library(&lab, 1, 2);
    lab.backed_up(["t", "--to", "vtape:vtl", "--name", "tape"]);
    let holder = Holder::begin(&lab, "vtape:vtl");
    let args = ["restore", "tape", "--into", "out", "--wait", "1h"];
    let (mut restore, _said, line) = waiting(&lab, &args);
    let why = line.split("waiting: ").nth(1).unwrap();
    let shown = waits(&lab);
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_eq!(shown[0]["why"], why);
    assert!(why.contains("'first'"), "{why}");
    let session = &shown[0]["sessions"][0];
    assert_eq!((&session["kind"], &session["name"]), (&"restore".into(), &"tape".into()));
    holder.end(&lab);
    assert!(restore.wait().unwrap().success());
    assert!(waits(&lab).is_empty());
    same_by_rsync(&lab.path("t"), &below(&lab.path("out"), &lab.path("t")));
}
