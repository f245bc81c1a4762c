//! A session is dead when its process is, and not when whoever looks cannot see that.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::Value;

use crate::support::{Lab, can_mount, finish, noise, skip, wait_for};

/// A backup that waits for the rest of its input.
struct Waiting {
    child: Child,
    input: ChildStdin,
}

impl Waiting {
    /// The program, or one that runs it, is given.
    fn begin(lab: &Lab, mut command: Command) -> Self {
        command.args(["backup", "--json", "--stdin", "--to", "medium", "--name", "s"]);
        command.args(["--segment-size", "1M", "--compress", "off"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(&noise(1, 4_000_000)).unwrap();
        wait_for("a segment", || lab.path("medium/00000002.segment").exists());
        Self { child, input }
    }

    /// Lets it come to its end, which is a good one.
    fn end(self) {
        drop(self.input);
        let output = self.child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["status"], "completed", "{report:#}");
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// In a container, as far as its process numbers go.
fn contained(lab: &Lab) -> Command {
    let inside = lab.command();
    let mut command = lab.program("unshare");
    command.args(["-p", "-f", "--kill-child", "--mount-proc"]).arg(inside.get_program());
    command.envs(inside.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// What became of the backup that writes to `medium`: its status, and whether its version is there.
fn big(lab: &Lab) -> (String, bool) {
    let list = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
    let sessions = list.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut of = sessions.filter(|s| s["kind"] == "backup");
    let of = of.next_back().unwrap();
    (of["status"].as_str().unwrap().to_owned(), of["removed"] == false)
}

/// While a backup runs, another of its object is made, and all but the last version is given up.
fn is_kept(lab: &Lab, waiting: Waiting, status: impl AsRef<OsStr>) {
    let mut command = lab.command();
    let mut look = lab.program(status);
    look.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    finish(look.arg("status"));
    assert_eq!(big(lab).0, "running");
    let small = Stdio::from(std::fs::File::open("/proc/version").unwrap());
    let args = ["backup", "--stdin", "--to", "other", "--name", "s"];
    assert!(command.args(args).stdin(small).stdout(Stdio::null()).status().unwrap().success());
    lab.run(["prune", "s", "--keep-last", "1"]).ok();
    waiting.end();
    lab.run(["prune", "s", "--keep-last", "5"]).ok();
    assert_eq!(big(lab), ("completed".to_owned(), true));
    lab.run(["verify", "--medium", "medium"]).ok();
}

#[test]
fn a_backup_runs_under_whatever_name_its_program_is_looked_at() {
    let lab = Lab::new();
    symlink(env!("CARGO_BIN_EXE_capstan"), lab.path("capstan-0.17")).unwrap();
    let waiting = Waiting::begin(&lab, lab.command());
    is_kept(&lab, waiting, lab.path("capstan-0.17"));
}

#[test]
fn a_backup_in_a_container_runs_for_who_is_outside() {
    if !can_mount() {
        return skip("name spaces cannot be made here");
    }
    let lab = Lab::new();
    let waiting = Waiting::begin(&lab, contained(&lab));
    is_kept(&lab, waiting, env!("CARGO_BIN_EXE_capstan"));
}

/// What a server was down does not count, and that of the tests has just been started.
fn server_is_up_for_a_day(lab: &Lab) {
    if !crate::server::is_wanted() {
        return;
    }
    lab.edit_tables(
        "CREATE FUNCTION pg_postmaster_start_time() RETURNS timestamptz LANGUAGE sql \
         AS $$ SELECT pg_catalog.now() - INTERVAL '1 day' $$",
    );
    lab.edit_tables(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', \
         current_database()); END $$",
    );
}

#[test]
fn one_that_cannot_be_seen_and_is_silent_for_long_is_dead() {
    if !can_mount() {
        return skip("name spaces cannot be made here");
    }
    let lab = Lab::new();
    Waiting::begin(&lab, contained(&lab)).kill();
    server_is_up_for_a_day(&lab);
    assert_eq!(big(&lab).0, "running");
    lab.run(["media", "repair", "medium"]).refused(&["runs"]);
    lab.edit_tables("UPDATE session_beats SET heard_us = heard_us - 500000000");
    assert_eq!(big(&lab).0, "running");
    lab.edit_tables("UPDATE session_beats SET heard_us = heard_us - 200000000");
    assert_eq!(big(&lab).0, "incomplete");
    lab.run(["media", "repair", "medium"]).ok();
    lab.run(["prune", "s", "--give-up"]).ok();
    assert!(!big(&lab).1, "it was given up");
}

#[test]
fn one_that_was_taken_for_dead_and_is_heard_of_runs_on() {
    if !can_mount() {
        return skip("name spaces cannot be made here");
    }
    let lab = Lab::new();
    let waiting = Waiting::begin(&lab, contained(&lab));
    // Watched long enough, it is heard of.
    lab.edit_tables("UPDATE session_beats SET heard_us = heard_us - 900000000");
    is_kept(&lab, waiting, env!("CARGO_BIN_EXE_capstan"));
}
