//! Nothing waits for ever: damaged sources end every command, and the first SIGTERM ends what waits.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::full::offered;
use crate::mirror::damage;
use crate::support::{Lab, Run, below, finish, noise, wait_for};

/// Runs the binary; panics if that takes a minute.
fn bounded(lab: &Lab, args: &[&str]) -> Run {
    bounded_as(lab, &lab.command(), args)
}

/// The same with the environment of that command.
pub fn bounded_as(lab: &Lab, command: &std::process::Command, args: &[&str]) -> Run {
    let mut limited = lab.program("timeout");
    limited.args(["-s", "KILL", "60"]).arg(command.get_program()).args(args);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let run = finish(&mut limited);
    assert!(!matches!(run.code, 137 | -9), "{args:?} came to no end: {}", run.stderr);
    assert!(!run.stderr.contains("panicked"), "{args:?}: {}", run.stderr);
    run
}

/// Flips a byte of the contents of the one big file of a medium's first segment.
fn damage_one_frame(lab: &Lab, medium: &str) {
    let path = lab.path(medium).join("00000001.segment");
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let at = file.metadata().unwrap().len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn one_damaged_frame_ends_a_consolidation_and_leaves_the_chain() {
    for passphrase in [None, Some("secret")] {
        let lab = Lab::with_passphrase(passphrase);
        lab.file("tree/big", noise(1, 3_000_000));
        lab.file("tree/small", "one");
        let backup = ["tree", "--to", "medium", "--name", "t", "--incr"];
        lab.backed_up(backup);
        lab.file("tree/small", "two");
        lab.backed_up(backup);
        damage_one_frame(&lab, "medium");
        let before = offered(&lab, "t");
        assert_eq!(before.len(), 2);
        let run = bounded(&lab, &["consolidate", "t"]);
        assert_eq!(run.code, 1, "{}", run.stderr);
        for word in ["segment 1 of", "medium: frame", "tree/big", "none is made"] {
            assert!(run.stderr.contains(word), "'{word}' is not in: {}", run.stderr);
        }
        assert_eq!(offered(&lab, "t"), before, "the chain is as it was");
        // Nothing of the new full is left, however often it is tried.
        let segments = || lab.sh("ls medium | grep -c segment");
        let (left, _) = (segments(), bounded(&lab, &["consolidate", "t"]));
        assert_eq!((left.trim(), segments().trim()), ("2", "2"));
        // Nobody holds the medium.
        lab.file("tree/small", "three");
        let args = ["backup", "tree", "--to", "medium", "--name", "t", "--incr", "--json"];
        let report: Value = serde_json::from_str(&bounded(&lab, &args).stdout).unwrap();
        // Nothing builds on what was found damaged.
        assert_eq!((&report["status"], &report["method"]), (&"completed".into(), &"full".into()));
        assert_eq!(bounded(&lab, &["restore", "t", "--into", "out"]).code, 0);
        let small = below(&lab.path("out"), &lab.path("tree/small"));
        assert_eq!(fs::read(small).unwrap(), b"three");
    }
}

/// Ten days, of which the last is kept; a frame that it needs is damaged.
#[test]
fn prune_says_what_it_could_not_consolidate_and_does_the_rest() {
    let lab = Lab::new();
    lab.file("tree/big", noise(1, 600_000));
    let backup = ["tree", "--to", "medium", "--name", "t", "--incr"];
    lab.backed_up(backup);
    damage_one_frame(&lab, "medium");
    for day in 0..5 {
        lab.file("tree/changes", noise(10 + day, 900_000));
        lab.backed_up(backup);
    }
    lab.file("other/file", noise(3, 400_000));
    lab.backed_up(["other", "--to", "medium", "--name", "o"]);
    lab.backed_up(["other", "--to", "medium", "--name", "o", "--full"]);
    let run = bounded(&lab, &["prune", "--keep-last", "1"]);
    assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
    for word in ["warning", "not-consolidated", "tree/big", "was not consolidated"] {
        assert!(run.stderr.contains(word), "'{word}' is not in: {}", run.stderr);
    }
    assert!(run.stdout.contains("1 version removed, 0 marked"), "{}", run.stdout);
    assert_eq!(offered(&lab, "o").len(), 1);
    assert_eq!(offered(&lab, "t").len(), 6, "the chain is as it was");
    // What the attempt wrote is gone again.
    lab.run(["idb", "check"]).ok();
    let again = bounded(&lab, &["prune", "--keep-last", "1", "--json"]);
    assert_eq!(again.code, 3, "{}", again.stderr);
    lab.run(["restore", "t", "--into", "out"]);
    let changes = below(&lab.path("out"), &lab.path("tree/changes"));
    assert!(fs::read(changes).unwrap() == fs::read(lab.path("tree/changes")).unwrap());
}

/// Many frames of many streams are damaged: each command that reads them comes to its end.
#[test]
fn damaged_sources_end_every_command() {
    let lab = Lab::new();
    for i in 0..200 {
        lab.file(&format!("tree/{i}"), noise(i, 60_000));
    }
    lab.file("tree/huge", noise(1000, 40_000_000));
    let backup = ["tree", "--to", "medium", "--name", "t", "--streams", "4"];
    lab.backed_up([&backup[..], &["--block-size", "64K"]].concat());
    lab.sh("for i in $(seq 0 2 199); do echo x >>tree/$i; done");
    lab.backed_up([&backup[..], &["--incr"]].concat());
    damage(&lab.path("medium"), 3, 7);
    let commands: &[&[&str]] = &[
        &["verify", "t"],
        &["verify", "--medium", "medium"],
        &["restore", "t", "--into", "out"],
        &["restore", "t", "--to-tar", "out.tar"],
        &["copy", "t", "--to", "copied"],
        &["consolidate", "t", "--to", "made"],
        &["diff", "t", "tree"],
        &["drill", "t"],
        &["backup", "tree", "--to", "medium", "--name", "t", "--incr"],
        &["backup", "tree", "--to", "medium", "--name", "t", "--full"],
        &["prune", "--keep-last", "1"],
        &["media", "retire", "medium", "--to", "retired"],
        &["import", "medium"],
    ];
    for args in commands {
        let run = bounded(&lab, args);
        assert!((0..=6).contains(&run.code), "{args:?}: {} {}", run.code, run.stderr);
    }
}

/// Ends it as `systemctl stop` does; how long that took.
fn terminate(child: &mut Child) -> Duration {
    let pid = rustix::process::Pid::from_child(child);
    let begun = Instant::now();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    begun.elapsed()
}

const SOON: Duration = Duration::from_secs(2);

#[test]
fn the_first_sigterm_ends_a_session_that_waits() {
    let lab = Lab::new();
    lab.file("tree/file", noise(1, 40_000_000));
    let is_running =
        || lab.run(["sessions", "--kind", "all", "--json"]).ok().stdout.contains("\"running\"");
    // Input that does not come, a command that does not end, a device that is slow.
    let waits: &[&[&str]] = &[
        &["--stdin", "--stdin-name", "f", "--name", "stdin", "--to", "medium"],
        &["--from-command", "sleep 1000", "--stdin-name", "f", "--name", "c", "--to", "medium"],
        &[
            "--from-command",
            "exec >&-; trap '' TERM; while :; do sleep 1; done",
            "--stdin-name",
            "f",
            "--name",
            "d",
            "--to",
            "medium",
        ],
        &["tree", "--to", "null:rate=1", "--name", "slow"],
    ];
    for args in waits {
        let mut command = lab.command();
        command.arg("backup").args(*args);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        wait_for("the session", is_running);
        let took = terminate(&mut child);
        assert!(took < SOON, "{args:?}: {took:?}");
        assert!(!is_running(), "{args:?}");
    }
}

/// Whose terminal goes away ends in order, and what was read is committed. A shell and the kernel may both say so.
#[test]
fn a_terminal_that_goes_away_ends_a_session_in_order() {
    let lab = Lab::new();
    let content = noise(1, 3_000_000);
    lab.file("tree/file", &content);
    let sessions = || lab.run(["sessions", "--kind", "all", "--json"]).ok().stdout.clone();
    let is_running = || sessions().contains("\"running\"");
    let hang_up = |child: &Child| {
        let pid = rustix::process::Pid::from_child(child);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    };
    let slow = ["--from-command", "cat tree/file; sleep 1000", "--stdin-name", "f", "--name", "c"];
    let binary = lab.command();
    // Whoever runs the tests may have done so by `nohup`.
    let mut command = lab.program("env");
    command.arg("--default-signal=HUP").arg(binary.get_program());
    command.arg("backup").args(slow).args(["--to", "medium", "--json"]);
    for (name, value) in binary.get_envs() {
        value.map(|value| command.env(name, value));
    }
    let out = fs::File::create(lab.path("report")).unwrap();
    let mut child = command.stdout(out).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the session", is_running);
    hang_up(&child);
    hang_up(&child);
    let begun = Instant::now();
    let code = child.wait().unwrap().code();
    assert!(begun.elapsed() < SOON * 2, "{:?}", begun.elapsed());
    let report = fs::read_to_string(lab.path("report")).unwrap();
    assert_eq!(code, Some(1), "{report}");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert!(["incomplete", "failed"].contains(&report["status"].as_str().unwrap()), "{report:#}");
    assert!(!is_running());
    // Of a terminal that is none any more no report can be written: what was read is committed all the same.
    let script = "import os, pty, signal, sys, time\n\
        signal.signal(signal.SIGHUP, signal.SIG_DFL)\n\
        pid, fd = pty.fork()\n\
        if pid == 0: os.execv(sys.argv[1], sys.argv[1:])\n\
        while not os.path.exists('begun'): time.sleep(0.05)\n\
        os.close(fd)\n\
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 1)";
    let shown = "touch begun; cat tree/file; sleep 1000";
    let mut python = lab.program("python3");
    python.args(["-c", script]).arg(binary.get_program()).args(["backup", "--from-command", shown]);
    python.args(["--stdin-name", "f", "--name", "t", "--to", "medium"]);
    for (name, value) in binary.get_envs() {
        value.map(|value| python.env(name, value));
    }
    let waited = finish(&mut python);
    assert_eq!(waited.code, 0, "it ended by the signal: {}", waited.stderr);
    assert!(!is_running());
    // `nohup` says that a process is to outlive its terminal.
    let mut nohup = lab.program("nohup");
    nohup.arg(binary.get_program()).arg("backup").args(slow).args(["--to", "medium"]);
    for (name, value) in binary.get_envs() {
        value.map(|value| nohup.env(name, value));
    }
    let mut child = nohup.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the session", is_running);
    hang_up(&child);
    std::thread::sleep(Duration::from_secs(1));
    assert!(child.try_wait().unwrap().is_none() && is_running(), "it was to go on");
    assert!(terminate(&mut child) < SOON);
    assert!(!is_running());
}

/// A shell does not pass on what it is told, and one of these does not end when it is told to.
#[test]
fn what_a_command_started_ends_with_the_session() {
    let lab = Lab::new();
    lab.file("tree/f", "one");
    let spec = |hook: &str| {
        let paths = lab.path("tree");
        lab.file(
            "s.toml",
            format!(
                "device = \"{}\"\n[[object]]\nname = \"o\"\npaths = [\"{}\"]\n[commands]\npre = [\"{hook}\"]\n",
                lab.path("medium").display(),
                paths.display()
            ),
        );
    };
    let started = "echo $$ >>pids; (trap '' TERM; echo $(exec sh -c 'echo $PPID') >>pids; sleep 600; :) & sleep 600; sleep 601";
    spec(started);
    let input = ["backup", "--from-command", started, "--stdin-name", "f", "--to", "medium"];
    for args in [&input[..], &["run", "s.toml"]] {
        let _ = fs::remove_file(lab.path("pids"));
        let mut command = lab.command();
        command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let pids = || fs::read_to_string(lab.path("pids")).unwrap_or_default();
        wait_for("the command", || pids().lines().count() == 2);
        let here = lab.path("").canonicalize().unwrap();
        let of_here = || {
            let all = fs::read_dir("/proc").unwrap().flatten();
            let here =
                |e: &fs::DirEntry| fs::read_link(e.path().join("cwd")).is_ok_and(|at| at == here);
            let name =
                |e: &fs::DirEntry| fs::read_to_string(e.path().join("comm")).unwrap_or_default();
            all.filter(here)
                .map(|e| name(&e))
                .filter(|n| ["sleep", "sh", "bash"].contains(&n.trim()))
                .count()
        };
        wait_for("both to sleep", || of_here() >= 4);
        let took = terminate(&mut child);
        let left = of_here();
        lab.sh(&format!("kill -9 {} 2>/dev/null; true", pids().replace('\n', " ")));
        assert_eq!(left, 0, "{args:?}");
        assert!(took < SOON * 2, "{args:?}: {took:?}");
    }
}

/// Nobody refused it: it was ended.
#[test]
fn a_backup_that_waits_for_a_medium_and_is_ended_was_not_refused() {
    let lab = Lab::new();
    lab.file("tree/f", "one");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let mut holder = lab.command();
    holder.args(["backup", "--stdin", "--stdin-name", "f", "--name", "slow", "--to", "medium"]);
    let mut holder =
        holder.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let sessions = || lab.run(["sessions", "--kind", "all", "--json"]).ok().stdout.clone();
    wait_for("the session", || sessions().contains("\"running\""));
    let quiet = ["-q", "backup", "tree", "--to", "medium", "--name", "q", "--wait", "1s"];
    let quiet = lab.run(quiet);
    assert!(!quiet.refused(&["in use by"]).stderr.contains("[note]"), "{}", quiet.stderr);
    let mut waiter = lab.command();
    waiter.args(["backup", "tree", "--to", "medium", "--name", "t", "--wait", "1h"]);
    let mut waiter = waiter
        .stdout(Stdio::null())
        .stderr(fs::File::create(lab.path("says")).unwrap())
        .spawn()
        .unwrap();
    let says = || fs::read_to_string(lab.path("says")).unwrap();
    wait_for("it to wait", || says().contains("in use by"));
    terminate(&mut waiter);
    let code = waiter.wait().unwrap().code();
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert_eq!(code, Some(1), "{}", says());
    assert!(says().contains("told to end while it waited"), "{}", says());
    let status = lab.run(["status", "t"]).stdout;
    assert!(!status.contains("backup of 't'"), "{status}");
}

/// The time that a drive takes is cut short for who is to end; nothing that it writes is.
#[test]
fn the_first_sigterm_ends_a_verification_that_waits_for_a_drive() {
    let lab = Lab::new();
    crate::tape::library(&lab, 1, 2);
    lab.file("tree/file", noise(1, 10_000_000));
    lab.backed_up(["tree", "--name", "t", "--to", "vtape:vtl"]);
    // From now on the robot and the drive take an hour for what takes them seconds.
    lab.sh("sed -i 's/^scale = .*/scale = 0.005/' vtl/library.toml");
    for args in [&["verify", "t"][..], &["verify", "--medium", "V00001L9"]] {
        let mut command = lab.command();
        command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_secs(3));
        assert!(child.try_wait().unwrap().is_none(), "{args:?} was done before");
        let took = terminate(&mut child);
        assert!(took < SOON, "{args:?}: {took:?}");
    }
    // What was not read is not damaged.
    lab.sh("sed -i 's/^scale = .*/scale = 100000.0/' vtl/library.toml");
    lab.run(["verify", "t"]).ok();
    let shown = lab.run(["media", "show", "V00001L9", "--json"]);
    let shown: Value = serde_json::from_str(&shown.ok().stdout).unwrap();
    assert_eq!((&shown["errors"], &shown["condition"]), (&0.into(), &"good".into()));
}

#[test]
fn pipes_in_the_place_of_files_of_the_home_are_not_waited_for() {
    let lab = Lab::with_passphrase(Some("secret"));
    lab.file("tree/f", noise(1, 40_000));
    lab.run(["idb", "recovery-key"]).ok();
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.file("tree/g", "two");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.run(["ls", "t"]).ok();
    lab.sh("mkdir saved; cp -a home medium saved");
    let files = lab.sh("cd home; find . -type f ! -name 'capstan.db*'");
    assert!(files.lines().count() > 5, "{files}");
    for file in files.lines() {
        for command in [
            "status",
            "ls t",
            "find f",
            "verify t",
            "restore t --into out --overwrite always",
            "backup tree --to medium --name t",
            "prune --keep-last 1",
            "import medium",
            "idb check",
        ] {
            lab.sh("rm -rf home medium; cp -a saved/* .");
            lab.sh(&format!("rm 'home/{file}'; mkfifo 'home/{file}'"));
            let run = bounded(&lab, &command.split(' ').collect::<Vec<_>>());
            let all = format!("{file}: {command}: {}{}", run.stdout, run.stderr);
            assert!((0..=6).contains(&run.code), "{}: {all}", run.code);
        }
    }
}

/// Lists that nobody writes, commands of a run that hang, and tables that another process keeps locked.
#[test]
fn the_first_sigterm_ends_what_waits_before_a_session() {
    let lab = Lab::new();
    lab.file("tree/file", noise(1, 100_000));
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.sh("mkfifo fifo");
    let spec = |name: &str, when: &str| {
        let (medium, tree) = (lab.path("medium"), lab.path("tree"));
        lab.file(
            name,
            format!(
                "device = {medium:?}\n[[object]]\nname = \"t\"\npaths = [{tree:?}]\n[commands]\n{when} = [\"touch begun; exec sleep 1000\"]\n"
            ),
        );
    };
    spec("pre.toml", "pre");
    spec("post.toml", "post");
    let in_turn: &[&[&str]] = &[
        &["backup", "--files-from", "fifo", "--to", "medium", "--name", "u"],
        &["backup", "--files-from", "-", "--to", "medium", "--name", "u"],
        &["backup", "tree", "--exclude-from", "fifo", "--to", "medium", "--name", "u"],
        &["run", "pre.toml"],
        &["run", "post.toml"],
    ];
    for args in in_turn {
        lab.sh("rm -f begun");
        let mut command = lab.command();
        command.args(*args);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        match args[0] {
            "run" => wait_for("the command", || lab.path("begun").exists()),
            _ => std::thread::sleep(Duration::from_millis(700)),
        }
        assert!(child.try_wait().unwrap().is_none(), "{args:?} waits");
        let took = terminate(&mut child);
        assert!(took < SOON, "{args:?}: {took:?}");
    }
    if crate::server::is_wanted() {
        return;
    }
    let locked = "import sqlite3, time; c = sqlite3.connect('home/capstan.db', isolation_level=None); c.execute('begin immediate'); \
                  open('locked', 'w'); time.sleep(1000)";
    let mut python = std::process::Command::new("python3");
    let mut holder = python.args(["-c", locked]).current_dir(lab.path(".")).spawn().unwrap();
    wait_for("the lock", || lab.path("locked").exists());
    for args in [&["prune", "--keep-last", "1"][..], &["restore", "t", "--into", "out"]] {
        let mut command = lab.command();
        command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        assert!(child.try_wait().unwrap().is_none(), "{args:?} waits");
        let took = terminate(&mut child);
        assert!(took < SOON, "{args:?}: {took:?}");
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
    lab.restored(["t", "--into", "out"]);
}
