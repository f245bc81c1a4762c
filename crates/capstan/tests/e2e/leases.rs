//! Who reads a version holds it: nothing of it is removed until that is done, or its process is gone.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::support::{Lab, noise, wait_for};

/// A home whose backups a key file opens, with two fulls and an incremental of the second.
fn lab() -> (Lab, Vec<String>) {
    let lab = Lab::new();
    lab.file("key", noise(7, 64));
    lab.run(["key", "init", "--key-file", "key"]).ok();
    let mut sessions = Vec::new();
    for n in 0..3u8 {
        lab.file("tree/state", [n; 100]);
        lab.file(&format!("tree/file-{n}"), noise(u64::from(n), 300_000));
        let mut command = lab.command();
        command.env("CAPSTAN_KEY_FILE", "key").args(["backup", "--json", "tree", "--to", "medium"]);
        command.args(["--name", "t", if n == 1 { "--incr" } else { "--full" }]);
        let report = crate::support::report(crate::support::finish(&mut command));
        sessions.push(report["session"].as_str().unwrap().to_owned());
    }
    lab.sh("mkfifo fifo");
    (lab, sessions)
}

/// Something that reads a version, and waits for its key: it has looked up already what it reads, and read none of it.
struct Waiting {
    child: Child,
    key: File,
}

impl Waiting {
    fn begin(lab: &Lab, args: &[&str]) -> Self {
        let mut command = lab.command();
        command.env("CAPSTAN_KEY_FILE", "fifo").args(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut key = None;
        wait_for("the key to be asked for", || {
            assert!(child.try_wait().unwrap().is_none(), "{args:?} ended");
            // Without a reader it cannot be opened.
            let mut open = OpenOptions::new();
            open.write(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
            key = open.open(lab.path("fifo")).ok();
            key.is_some()
        });
        Self { child, key: key.unwrap() }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args([name, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Gives it the key, and lets it come to its end.
    fn end(mut self, lab: &Lab) -> (i32, String) {
        // Who asks for it again is given it again.
        let content = fs::read(lab.path("key")).unwrap();
        fs::rename(lab.path("fifo"), lab.path("fifo.used")).unwrap();
        fs::write(lab.path("fifo"), &content).unwrap();
        self.key.write_all(&content).unwrap();
        drop(self.key);
        let output = self.child.wait_with_output().unwrap();
        fs::remove_file(lab.path("fifo")).unwrap();
        fs::rename(lab.path("fifo.used"), lab.path("fifo")).unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
    }
}

/// Prunes to the last version; what became of each session's version, and why.
fn prune(lab: &Lab) -> Vec<(String, String, String)> {
    let run = lab.run(["prune", "--json", "--keep-last", "1"]);
    let json: Value = serde_json::from_str(&run.ok().stdout).unwrap();
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let versions = json["versions"].as_array().unwrap().iter();
    versions.map(|v| (text(&v["session"]), text(&v["action"]), v["why"].to_string())).collect()
}

fn action(pruned: &[(String, String, String)], session: &str) -> (String, String) {
    let of = pruned.iter().find(|(id, ..)| id == session);
    of.map(|(_, action, why)| (action.clone(), why.clone())).unwrap_or_default()
}

#[test]
fn what_a_restore_reads_is_not_pruned() {
    held_by(&["restore", "t@OLD", "--into", "out"]);
}

#[test]
fn what_a_verification_reads_is_not_pruned() {
    held_by(&["verify", "t@OLD"]);
}

#[test]
fn what_a_comparison_reads_is_not_pruned() {
    held_by(&["compare", "t@OLD", "--contents"]);
}

#[test]
fn what_an_archive_or_a_consolidation_reads_is_not_pruned() {
    held_by(&["restore", "t@OLD", "--to-tar", "out.tar"]);
    held_by(&["consolidate", "t@OLD", "--to", "made"]);
}

#[test]
fn what_a_drill_reads_is_not_pruned() {
    held_by(&["drill", "t@OLD", "--sample", "100%"]);
}

/// Something that reads the incremental, which is not the last version, stopped while it is pruned.
fn held_by(args: &[&str]) {
    let (lab, sessions) = lab();
    let of = format!("t@{}", sessions[1]);
    let args: Vec<&str> = args.iter().map(|a| if *a == "t@OLD" { &of } else { *a }).collect();
    let waiting = Waiting::begin(&lab, &args);
    waiting.signal("-STOP");
    let pruned = prune(&lab);
    let (what, why) = action(&pruned, &sessions[1]);
    assert!(what == "keep" && why.contains("read by process"), "{args:?}: {pruned:?}");
    assert_ne!(action(&pruned, &sessions[0]).0, "remove", "{args:?}: {pruned:?}");
    waiting.signal("-CONT");
    let (code, said) = waiting.end(&lab);
    // The live files are not those of then.
    let expected = if args[0] == "compare" { 4 } else { 0 };
    assert_eq!(code, expected, "{args:?}: {said}");
    assert!(!said.contains("missing") && !said.contains("damaged"), "{args:?}: {said}");
    // Now it goes.
    let pruned = prune(&lab);
    assert_eq!(action(&pruned, &sessions[1]).0, "remove", "{args:?}: {pruned:?}");
}

#[test]
fn a_reader_that_was_killed_holds_nothing() {
    let (lab, sessions) = lab();
    let of = format!("t@{}", sessions[1]);
    let waiting = Waiting::begin(&lab, &["verify", &of]);
    let mut waiting = waiting;
    waiting.child.kill().unwrap();
    waiting.child.wait().unwrap();
    let begun = std::time::Instant::now();
    let pruned = prune(&lab);
    assert_eq!(action(&pruned, &sessions[1]).0, "remove", "{pruned:?}");
    assert!(begun.elapsed().as_secs() < 25, "it was waited for");
}

#[test]
fn a_medium_that_is_read_is_not_given_up() {
    let (lab, sessions) = lab();
    for session in &sessions {
        lab.run(["protect", &format!("t@{session}"), "--none"]).ok();
    }
    let of = format!("t@{}", sessions[1]);
    let waiting = Waiting::begin(&lab, &["verify", &of]);
    for command in ["recycle", "erase"] {
        lab.run(["media", command, "medium"]).refused(&["reads t@", "process"]);
    }
    let (code, said) = waiting.end(&lab);
    assert_eq!(code, 0, "{said}");
    lab.run(["media", "recycle", "medium", "--give-up"]).ok();
}

#[test]
fn what_is_read_stays_on_disk_when_it_is_staged() {
    let (lab, sessions) = lab();
    let of = format!("t@{}", sessions[0]);
    let waiting = Waiting::begin(&lab, &["verify", &of]);
    let stage = ["stage", "medium", "--to", "other", "--json"];
    let run = lab.run(stage);
    assert!(run.stdout.contains("read by process"), "{}{}", run.stdout, run.stderr);
    let (code, said) = waiting.end(&lab);
    assert_eq!(code, 0, "{said}");
    let run = lab.run(stage);
    assert!(!run.stdout.contains("read by process"), "{}{}", run.stdout, run.stderr);
}

#[test]
fn a_pool_takes_another_medium_than_one_that_is_read() {
    let lab = Lab::new();
    lab.file("key", noise(7, 64));
    lab.run(["key", "init", "--key-file", "key"]).ok();
    lab.sh("mkfifo fifo");
    lab.run(["pool", "create", "p", "--not-appendable"]).ok();
    let backup = |name: &str| {
        lab.file("tree/a", noise(1, 100_000));
        let to = ["backup", "--json", "tree", "--to", "pool:p", "--full", "--protect", "none"];
        let mut command = lab.command();
        command.env("CAPSTAN_KEY_FILE", "key").args(to).args(["--name", name]);
        crate::support::finish(&mut command)
    };
    let taken = |name: &str| {
        let report = crate::support::report(backup(name));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&report["media"][0]), text(&report["session"]))
    };
    let mut sessions = Vec::new();
    for medium in ["m1", "m2", "m3"] {
        lab.run(["media", "init", medium, "--pool", "p"]).ok();
        let (on, session) = taken("t");
        assert_eq!(on, medium);
        sessions.push(session);
    }
    // Both m1 and m2 have what is not the last any more, and m1 is the one that was written first.
    let of = format!("t@{}", sessions[0]);
    let waiting = Waiting::begin(&lab, &["verify", &of]);
    assert_eq!(taken("t").0, "m2");
    let (code, said) = waiting.end(&lab);
    assert_eq!(code, 0, "{said}");
    assert_eq!(taken("t").0, "m1");
}
