//! Consolidation: a synthetic full restores to what its chain does, and later incrementals build on it.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::copy::{all_come_back, chain};
use crate::independent_reader::Reader;
use crate::mirror::{comes_back_as, damage};
use crate::support::{Lab, below, completed, finish, noise, report, wait_for};

fn consolidate(lab: &Lab, args: &[&str]) -> Value {
    report(finish(lab.command().args(["consolidate", "--json"]).args(args)))
}

fn session_of(report: &Value) -> String {
    report["session"].as_str().unwrap().to_owned()
}

#[test]
fn it_restores_to_the_same_and_is_built_on() {
    round(None);
}

#[test]
fn of_encrypted_backups_too() {
    round(Some("secret"));
}

fn round(passphrase: Option<&'static str>) {
    let lab = Lab::with_passphrase(passphrase);
    let mut sessions = chain(&lab);
    let done = completed(consolidate(&lab, &["t", "--to", "made", "--block-size", "128K"]));
    assert_eq!(
        (&done["method"], &done["base_session"]),
        (&"synthetic full".into(), &sessions[2].as_str().into())
    );
    assert!(done["bytes_written"].as_u64() > Some(40_000_000), "{done:#}");
    let files = lab.run(["ls", &format!("t@{}", sessions[2])]).ok().stdout.lines().count() as u64;
    assert_eq!(done["files"].as_u64().unwrap() + done["dirs"].as_u64().unwrap(), files, "{done:#}");
    let made = session_of(&done);
    // What it was made of goes.
    lab.sh("mv medium elsewhere");
    comes_back_as(&lab, &format!("t@{made}"), "state-2");
    comes_back_as(&lab, "t", "state-2");
    lab.run(["verify", "t"]).ok();
    lab.run(["verify", "--medium", "made"]).ok();
    let list = |version: &str| lab.run(["ls", "--json", version]).ok().stdout.clone();
    assert_eq!(list(&format!("t@{made}")), list(&format!("t@{}", sessions[2])));
    lab.run(["restore", "t", "--to-tar", "out.tar"]).ok();
    lab.sh("mkdir out; tar -C out -xf out.tar; rm out.tar");
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    fs::remove_dir_all(lab.path("out")).unwrap();
    // Nothing has changed since; then something has.
    let incr = ["tree", "--to", "made", "--name", "t", "--incr"];
    let report = lab.backed_up(incr);
    assert_eq!(
        (&report["method"], &report["base_session"]),
        (&"incr".into(), &made.as_str().into())
    );
    assert_eq!(report["bytes_read"], 0, "{report:#}");
    lab.sh("cd tree; echo later >>text; rm d5/f5; printf Z | dd of=huge bs=1 seek=9000000 conv=notrunc status=none; \
            cp -a ../tree ../state-3");
    sessions.push(session_of(&lab.backed_up(incr)));
    comes_back_as(&lab, "t", "state-3");
    // Once more, onto the same medium, from a synthetic full and what came later; and a copy of it.
    let again = completed(consolidate(&lab, &["t"]));
    assert_eq!(again["media"][0], "made");
    comes_back_as(&lab, &format!("t@{}", session_of(&again)), "state-3");
    lab.run(["copy", "t", "--to", "copied"]).ok();
    lab.sh("mv made away");
    comes_back_as(&lab, "t", "state-3");
    // From the medium alone.
    fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.sh("rm home/capstan.db*; mv away made; rm -r copied");
    lab.run(["import", "made"]).ok();
    comes_back_as(&lab, "t", "state-3");
    comes_back_as(&lab, &format!("t@{made}"), "state-2");
    lab.run(["verify", "t"]).ok();
    if let Some(reader) = Reader::find() {
        reader.run(&lab, passphrase, &["check", "made"]).ok();
        for (session, state) in [(&made, "state-2"), (&session_of(&again), "state-3")] {
            let args = ["extract", "made", "--session", session, "--into", "read"];
            reader.run(&lab, passphrase, &args).ok();
            same_by_rsync(&lab.path(state), &below(&lab.path("read"), &lab.path("tree")));
            fs::remove_dir_all(lab.path("read")).unwrap();
        }
    }
    lab.sh("mv elsewhere medium");
    lab.run(["import", "medium"]).ok();
    all_come_back(&lab, &sessions[..3]);
}

/// Of a frame with little that is still needed only that is taken over.
#[test]
fn what_is_not_needed_is_left_behind() {
    let lab = Lab::new();
    for i in 0..1000 {
        lab.file(&format!("tree/{i:04}"), noise(i, 10_000));
    }
    let backup = ["tree", "--to", "medium", "--name", "t", "--incr"];
    lab.backed_up(backup);
    // Nearly all of the first half goes, a little of the second.
    lab.sh("cd tree; for i in $(seq 0 999); do [ $i -lt 500 ] && [ $((i % 10)) != 0 ] && rm $(printf %04d $i); \
            [ $i -ge 500 ] && [ $((i % 10)) = 0 ] && rm $(printf %04d $i); done; true");
    lab.backed_up(backup);
    let done = completed(consolidate(&lab, &["t", "--to", "made"]));
    let written = done["bytes_written"].as_u64().unwrap();
    // 500 files are needed; those of the second half drag 50 dead ones with them.
    assert!((5_000_000..5_900_000).contains(&written), "{written}");
    lab.sh("rm -r medium");
    comes_back_as(&lab, "t", "tree");
    lab.run(["verify", "--medium", "made"]).ok();
}

#[test]
fn damage_costs_what_it_touches_and_a_copy_mends_it() {
    let lab = Lab::new();
    chain(&lab);
    completed(consolidate(&lab, &["t", "--to", "made", "--block-size", "64K"]));
    lab.run(["copy", "t", "--to", "copied"]).ok();
    lab.sh("mv medium elsewhere");
    damage(&lab.path("made"), 3, 30);
    comes_back_as(&lab, "t", "tree");
    lab.sh("mv copied away");
    let run = lab.run(["restore", "t", "--into", "out"]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    let named = |text: &str| {
        let mut names: Vec<_> = text
            .lines()
            .filter(|l| l.contains("damaged: /"))
            .map(|l| l.split("damaged: ").nth(1).unwrap().split(": ").next().unwrap().to_owned())
            .collect();
        names.sort();
        names.dedup();
        names
    };
    let lost = named(&run.stderr);
    assert!(!lost.is_empty(), "{}", run.stderr);
    // Verification names the same, from the version and from the medium.
    for args in [["verify", "t"].as_slice(), &["verify", "--medium", "made"]] {
        let run = lab.run(args);
        assert_eq!((run.code, named(&run.stderr)), (3, lost.clone()), "{}", run.stderr);
    }
}

#[test]
fn what_cannot_be_done_is_said_before() {
    let lab = Lab::new();
    lab.file("tree/x", "x");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.run(["consolidate", "t"]).refused(&["is a full one already", "capstan copy"]);
    lab.run(["consolidate", "u"]).refused(&["no object is called"]);
    lab.sh("echo y >tree/y");
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--incr"]);
    lab.run(["consolidate", "t", "--to", "null:"]).refused(&["null device"]);
    lab.sh("mv medium elsewhere");
    lab.run(["consolidate", "t", "--to", "made"]).refused(&["cannot read medium"]);
    assert!(!lab.path("made").exists());
}

/// Files that were read again stand out of order in the backup; the last try counts.
#[test]
fn files_that_were_read_again() {
    let lab = Lab::new();
    for i in 0..40 {
        lab.file(&format!("tree/{i:02}"), noise(i, 400_000));
    }
    let mut busy = lab.program("bash");
    let touch = "while :; do for i in $(seq 10 29); do echo x >>tree/$i; done; done";
    let mut busy = busy.args(["-c", touch]).spawn().unwrap();
    let backup = ["tree", "--to", "medium", "--name", "t", "--incr"];
    let report = lab.backup([&backup[..], &["--retries", "2", "--retry-wait", "0"]].concat());
    busy.kill().unwrap();
    busy.wait().unwrap();
    assert!(
        report["errors"].to_string().contains("\"changed\""),
        "the files held still: {report:#}"
    );
    lab.sh("rm tree/0*; touch tree/10");
    lab.backed_up(backup);
    lab.sh("rm tree/35");
    let chain = session_of(&lab.backed_up(backup));
    let done = completed(consolidate(&lab, &["t", "--to", "made"]));
    for (version, into) in [(&chain, "of-chain"), (&session_of(&done), "of-full")] {
        let run = lab.run(["restore", &format!("t@{version}"), "--into", into]);
        assert!(matches!(run.code, 0 | 3), "{}", run.stderr);
    }
    let restored = |into: &str| below(&lab.path(into), &lab.path("tree"));
    same_by_rsync(&restored("of-chain"), &restored("of-full"));
    let list = |version: &str| lab.run(["ls", &format!("t@{version}")]).ok().stdout.lines().count();
    assert_eq!(list(&chain), list(&session_of(&done)));
}

#[test]
fn one_that_is_killed_leaves_the_chain_and_is_begun_anew() {
    let lab = Lab::new();
    let sessions = chain(&lab);
    let mut command = lab.command();
    command.args(["consolidate", "t", "--to", "made"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    wait_for("a segment", || lab.path("made/00000001.segment.part").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    comes_back_as(&lab, &format!("t@{}", sessions[2]), "state-2");
    // A backup does not go on with it.
    let report = lab.backed_up(["tree", "--to", "medium", "--name", "t", "--incr", "--resume"]);
    assert_eq!(
        (&report["method"], &report["base_session"]),
        (&"incr".into(), &sessions[2].as_str().into())
    );
    completed(consolidate(&lab, &["t", "--to", "made"]));
    lab.sh("mv medium elsewhere");
    comes_back_as(&lab, "t", "tree");
}
