//! The tables on a PostgreSQL server: one that goes away while a session runs, and the way there and back.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::compare::same_by_rsync;
use crate::server::{Server, write_settings};
use crate::support::{Lab, Run, below, finish, noise, wait_for};

/// Small segments: each is a commit.
const SMALL: [&str; 6] = ["--block-size", "64K", "--segment-size", "64K", "--compress", "off"];

fn lab_on(server: &Server, further: &str) -> Lab {
    let lab = Lab::new();
    use_server(&lab, server, further);
    (0..30).for_each(|n| drop(lab.file(&format!("tree/{n}"), noise(n, 400_000))));
    lab
}

fn use_server(lab: &Lab, server: &Server, further: &str) {
    let settings = format!("database = \"{}\"\n{further}", server.new_database());
    write_settings(&lab.path("home"), &settings);
}

fn begin(lab: &Lab) -> Child {
    let mut command = lab.command();
    command.args(["backup", "tree", "--to", "medium", "--name", "t"]).args(SMALL);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> Run {
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn segments(lab: &Lab) -> usize {
    let names = fs::read_dir(lab.path("medium")).into_iter().flatten().flatten();
    names.filter(|e| Path::new(&e.file_name()).extension().is_some_and(|x| x == "segment")).count()
}

fn comes_back(lab: &Lab, into: &str) {
    lab.restored(["t", "--into", into]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path(into), &lab.path("tree")));
}

#[test]
fn a_session_waits_for_a_server_that_is_restarted() {
    let server = Server::start();
    let lab = lab_on(&server, "");
    let child = begin(&lab);
    wait_for("segments", || segments(&lab) > 3);
    server.stop();
    std::thread::sleep(Duration::from_millis(1200));
    let then = segments(&lab);
    assert!(then < 150, "it is still at work");
    server.start_again();
    let run = ended(child);
    run.ok();
    let said = |words: &str| run.stderr.lines().filter(|line| line.contains(words)).count();
    assert_eq!(
        (said("452 idb-away"), said("went away"), said("is back")),
        (2, 1, 1),
        "{}",
        run.stderr
    );
    assert!(segments(&lab) > then);
    comes_back(&lab, "out");
    assert!(lab.run(["idb", "check"]).ok().stdout.contains("all agrees"));
}

#[test]
fn what_is_committed_is_kept_when_the_server_stays_away_and_the_next_session_goes_on() {
    let server = Server::start();
    let lab = lab_on(&server, "database-wait = \"1s\"\n");
    let child = begin(&lab);
    wait_for("segments", || segments(&lab) > 40);
    server.stop();
    let run = ended(child);
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    for words in ["went away", "not back within 1 s", "is kept", "--resume"] {
        assert!(run.stderr.contains(words), "'{words}': {}", run.stderr);
    }
    let left = segments(&lab);
    assert!(left > 40);
    // Still away: that is said at once.
    let run = lab.run(["sessions"]);
    assert!(run.code == 1 && run.stderr.contains("see that PostgreSQL runs"), "{}", run.stderr);
    server.start_again();
    let args = ["tree", "--to", "medium", "--name", "t", "--resume"];
    let report = lab.backed_up([&args[..], &SMALL].concat());
    assert!(report["kept"].as_u64().unwrap() > 0, "{report:#}");
    comes_back(&lab, "out");
    assert!(lab.run(["idb", "check"]).ok().stdout.contains("all agrees"));
}

#[test]
fn a_server_that_is_killed_under_a_session_costs_nothing() {
    let server = Server::start();
    let lab = lab_on(&server, "");
    let child = begin(&lab);
    for more in [4, 20, 40] {
        wait_for("segments", || segments(&lab) > more);
        server.crash();
        server.start_again();
    }
    ended(child).ok();
    comes_back(&lab, "out");
    assert!(lab.run(["idb", "check"]).ok().stdout.contains("all agrees"));
}

#[test]
fn settings_that_are_wrong_are_refused() {
    let lab = Lab::new();
    let with = |text: &str| {
        write_settings(&lab.path("home"), text);
        lab.run(["sessions"])
    };
    with("\nfoo = 1\n").refused(&["home/capstan.toml:2: 'foo' is no setting", "database-wait"]);
    let run = with("database = \"postgres://me:hidden@h/db?sslmod=x\"\n");
    assert!(!run.refused(&["capstan.toml:1", "sslmode"]).stderr.contains("hidden"));
    let run = with("database = \"postgres://me:hidden@127.0.0.1:1/db\"\n");
    assert!(run.code == 1 && run.stderr.contains("postgres://me@127.0.0.1:1/db"), "{}", run.stderr);
    assert!(!run.stderr.contains("hidden"), "{}", run.stderr);
    let url = Server::shared().new_database();
    with(&format!("database = \"{url}\"\n")).ok();
    // Another cell's, under the same address.
    let mut other = lab.command();
    write_settings(&lab.path("other"), &format!("database = \"{url}\"\n"));
    other.env("CAPSTAN_HOME", lab.path("other")).arg("sessions");
    finish(&mut other).refused(&["has the tables of cell", "name another database"]);
}

#[test]
fn tables_move_to_a_server_and_come_back_from_a_medium() {
    let lab = Lab::new();
    // Begun in a file, whatever else is tested.
    fs::create_dir(lab.path("home")).unwrap();
    fs::write(lab.path("home/capstan.db"), "").unwrap();
    lab.file("tree/a", noise(1, 100_000));
    let sheet = lab.run(["idb", "recovery-key"]).ok().stdout.clone();
    lab.file("sheet", sheet);
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.run(["idb", "move"]).refused(&["name no server"]);

    use_server(&lab, Server::shared(), "");
    lab.run(["sessions"]).refused(&["capstan.db", "`capstan idb move`"]);
    let moved = lab.run(["idb", "move"]);
    assert!(moved.ok().stdout.contains("rows are in postgres://"), "{}", moved.stdout);
    assert!(lab.path("home/capstan.db.moved").exists() && !lab.path("home/capstan.db").exists());
    comes_back(&lab, "moved");
    lab.file("tree/b", "more");
    assert_eq!(lab.backed_up(["tree", "--to", "medium", "--name", "t"])["method"], "incr");
    let stats = lab.run(["idb", "stats"]);
    assert!(stats.ok().stdout.contains("in postgres://"), "{}", stats.stdout);

    // Home and server are lost.
    fs::remove_dir_all(lab.path("home")).unwrap();
    use_server(&lab, Server::shared(), "");
    lab.run(["idb", "recover", "medium", "--code-file", "sheet"]).ok();
    assert!(!lab.path("home/capstan.db").exists());
    comes_back(&lab, "back");
    lab.run(["idb", "recover", "medium", "--code-file", "sheet"])
        .refused(&["already", "postgres://"]);
    // And into a file.
    fs::remove_dir_all(lab.path("home")).unwrap();
    fs::create_dir(lab.path("home")).unwrap();
    fs::write(lab.path("home/capstan.toml"), "").unwrap();
    lab.run(["idb", "recover", "medium", "--code-file", "sheet"]).ok();
    assert!(lab.path("home/capstan.db").exists());
    comes_back(&lab, "file");
    assert!(lab.run(["idb", "check"]).ok().stdout.contains("all agrees"));
}

/// Wherever it is killed, the recovery of a home whose tables go to a server can be given again.
#[test]
fn a_recovery_to_a_server_that_is_killed_is_given_again() {
    let server = Server::shared();
    let lab = lab_on(server, "");
    lab.file("sheet", lab.run(["idb", "recovery-key"]).ok().stdout.clone());
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let recover = || {
        let mut command = lab.command();
        command.args(["idb", "recover", "medium", "--code-file", "sheet"]);
        command
    };
    let lose_home = || {
        fs::remove_dir_all(lab.path("home")).unwrap();
        use_server(&lab, server, "");
    };
    lose_home();
    let begun = std::time::Instant::now();
    finish(&mut recover()).ok();
    let mut took = begun.elapsed();
    let (mut killed, mut n) = (0, 0);
    while killed < 8 {
        n = n % 9 + 1;
        lose_home();
        let mut child = recover().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(took * n / 10);
        match child.try_wait().unwrap() {
            None => killed += 1,
            // The first one may have been slow, on a machine that was busy then.
            Some(_) => took = took * 2 / 3,
        }
        let _ = child.kill();
        child.wait().unwrap();
        let again = finish(&mut recover());
        if again.code == 2 {
            // All was done but the end of the process.
            again.refused(&["already"]);
        } else {
            again.ok();
        }
        assert!(!lab.path("home/capstan.db").exists(), "killed after {n} tenths");
        lab.run(["idb", "check"]).ok();
        assert!(lab.run(["ls", "t"]).ok().stdout.contains("tree/7"), "killed after {n} tenths");
    }
    comes_back(&lab, "out");
}
