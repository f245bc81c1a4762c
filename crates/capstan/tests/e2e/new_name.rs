//! A machine that gets another name: what it backed up before is not lost from sight, and it can go on with it.

use std::fs;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Run, below, can_mount, finish, noise, report, skip};

/// The same machine under a name.
fn called(lab: &Lab, name: &str, args: &[&str]) -> Run {
    let mut command = lab.program("unshare");
    let script = "echo \"$0\" >/proc/sys/kernel/hostname; exec \"$@\"";
    command.args(["-u", "bash", "-euc", script, name]);
    command.arg(env!("CARGO_BIN_EXE_capstan")).args(args);
    command.env("CAPSTAN_HOME", lab.path("home"));
    finish(&mut command)
}

const BACKUP: [&str; 6] = ["backup", "tree", "--to", "medium", "--name", "t"];

fn backup(lab: &Lab, name: &str) -> serde_json::Value {
    let report = report(called(lab, name, &[&BACKUP[..], &["--json"]].concat()));
    assert_eq!(report["status"], "completed", "{report:#}");
    report
}

fn lab() -> Option<Lab> {
    // Where hosts share a database, equal names on several are as it should be.
    if !can_mount() || crate::server::is_wanted() {
        skip("no name spaces, or the tables are on a server");
        return None;
    }
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 100_000));
    Some(lab)
}

#[test]
fn a_machine_with_a_new_name_is_told_how_to_go_on_and_does() {
    let Some(lab) = lab() else { return };
    backup(&lab, "vm");
    lab.file("tree/b", noise(2, 1000));
    let text = called(&lab, "newvm", &BACKUP);
    let setting = format!("write `host = \"vm\"` into {}", lab.path("home/capstan.toml").display());
    for words in
        ["no-base", "this machine is called newvm now", "when it was called vm; to go on", &setting]
    {
        assert!(text.ok().stderr.contains(words), "{words}: {}", text.stderr);
    }
    // Once: then the new one has a version.
    let again = called(&lab, "newvm", &BACKUP);
    assert!(!again.ok().stderr.contains("no-base"), "{}", again.stderr);
    let status = called(&lab, "newvm", &["status", "--max-age", "0s"]);
    for words in [
        "backups of 't' come from host newvm now",
        &setting,
        "`capstan prune 't' --give-up --host vm`",
    ] {
        assert!(status.stdout.contains(words), "{words}: {}", status.stdout);
    }
    // What it says is done, and the backup goes on with what there was.
    fs::write(lab.path("home/capstan.toml"), "host = \"vm\"\n").unwrap();
    lab.file("tree/c", noise(3, 1000));
    let next = backup(&lab, "newvm");
    assert_eq!((&next["method"], &next["host"]), (&"incr".into(), &"vm".into()), "{next:#}");
    called(&lab, "newvm", &["restore", "t", "--into", "out"]).ok();
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    // The rules of a run are those of its object.
    let spec = lab.path("spec.toml");
    let tree = lab.path("tree");
    fs::write(
        &spec,
        format!(
            "device = \"{}\"\n[keep]\nlast = 1\n[[object]]\nname = \"t\"\npaths = [\"{}\"]\nfull = true\n",
            lab.path("medium").display(),
            tree.display()
        ),
    )
    .unwrap();
    let ran = called(&lab, "newvm", &["run", "--json", spec.to_str().unwrap()]);
    let ran: serde_json::Value = serde_json::from_str(&ran.ok().stdout).unwrap();
    assert_eq!((&ran["host"], &ran["pruned"]["removed_versions"]), (&"vm".into(), &2.into()));
    // What the new name had goes in the way that is named; then all is well.
    called(&lab, "newvm", &["prune", "t", "--give-up", "--host", "newvm"]).ok();
    called(&lab, "newvm", &["status"]).ok();
    assert_eq!(called(&lab, "newvm", &["versions", "t"]).ok().stdout.matches("t@").count(), 1);
}

#[test]
fn another_machine_that_takes_over_goes_on_where_its_home_says_so() {
    let Some(lab) = lab() else { return };
    lab.sh("touch code; chmod 600 code");
    let key = called(&lab, "vm", &["idb", "recovery-key"]);
    fs::write(lab.path("code"), &key.ok().stdout).unwrap();
    backup(&lab, "vm");
    lab.sh("rm -r home");
    let recover = ["idb", "recover", "medium", "--code-file", "code"];
    let recovered = called(&lab, "newbox", &recover);
    let said = format!("{}{}", recovered.ok().stdout, recovered.stderr);
    assert!(said.contains("`host = \"vm\"`"), "{said}");
    fs::write(lab.path("home/capstan.toml"), "host = \"vm\"\n").unwrap();
    assert_eq!(backup(&lab, "newbox")["method"], "incr");
}
