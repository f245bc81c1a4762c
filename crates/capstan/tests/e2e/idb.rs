//! The internal database: what its check finds, catalogs from media, its backup and its return.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Run, below, finish, noise, skip};

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 100_000));
    lab.file("tree/dir/b", "some text");
    lab
}

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", run.stdout, run.stderr))
}

fn catalogs(lab: &Lab) -> Vec<PathBuf> {
    fs::read_dir(lab.path("home/catalogs")).unwrap().map(|e| e.unwrap().path()).collect()
}

fn comes_back(lab: &Lab, name: &str, into: &str) {
    lab.restored([name, "--into", into]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path(into), &lab.path("tree")));
}

#[test]
fn a_check_names_catalogs_that_are_missing_or_damaged_and_load_makes_them_again() {
    let lab = lab();
    lab.backed_up(["tree", "--to", "m1", "--name", "t"]);
    let sound = run(&lab, "idb check");
    assert!(sound.ok().stdout.contains("1 segments checked: all agrees"), "{}", sound.stdout);
    let [file] = &catalogs(&lab)[..] else { panic!("one catalog") };
    let before = fs::read(file).unwrap();
    for (damage, word) in [(None, "missing"), (Some(before.len() / 2), "damaged")] {
        match damage {
            None => fs::remove_file(file).unwrap(),
            Some(at) => {
                let mut bytes = before.clone();
                bytes[at] ^= 1;
                fs::write(file, bytes).unwrap();
            }
        }
        let found = run(&lab, "idb check");
        assert_eq!(found.code, 3, "{}", found.stdout);
        assert!(
            found.stdout.contains(word) && found.stdout.contains("catalog load t@"),
            "{}",
            found.stdout
        );
        let load = if damage.is_none() { "catalog load t" } else { "catalog load --medium m1" };
        assert!(run(&lab, load).ok().stdout.contains("1 catalogs"));
        run(&lab, "idb check").ok();
    }
    fs::rename(lab.path("m1"), lab.path("away")).unwrap();
    run(&lab, "ls t").ok();
    run(&lab, "catalog load t").refused(&["m1", "hint"]);
}

#[test]
fn a_check_holds_media_against_the_rows() {
    let lab = lab();
    lab.backed_up(["tree", "--to", "m1", "--name", "t"]);
    lab.backed_up(["tree", "--to", "m1", "--name", "t"]);
    fs::rename(lab.path("m1/00000001.segment"), lab.path("m1/00000009.segment")).unwrap();
    let found = run(&lab, "idb check --json");
    assert_eq!(found.code, 3);
    assert!(found.stdout.contains("segments that are not recorded"), "{}", found.stdout);
    assert!(
        found.stdout.contains("capstan import") && found.stdout.contains("not there (t@"),
        "{}",
        found.stdout
    );
    assert_eq!(found.rows().len(), 2, "{}", found.stdout);
    fs::rename(lab.path("m1/00000009.segment"), lab.path("m1/00000001.segment")).unwrap();
    fs::copy(lab.path("m1/00000002.segment"), lab.path("m1/00000001.segment")).unwrap();
    let found = run(&lab, "idb check");
    assert!(found.stdout.contains("segment 1 of medium 'm1'"), "{}", found.stdout);
    let stats = json(run(&lab, "idb stats --json").ok());
    assert_eq!((&stats["rows"]["versions"], &stats["catalogs"]), (&2.into(), &2.into()), "{stats}");
    assert!(run(&lab, "idb stats").ok().stdout.contains("recovery-key"));
}

#[test]
fn the_database_comes_back_from_the_device_of_a_session() {
    let lab = lab();
    // Said once in the life of a home, and as a note.
    let first = lab.backed_up(["tree", "--to", "m1", "--name", "t"]);
    assert!(first["notes"][0].as_str().unwrap().contains("idb recovery-key"), "{first}");
    let second = lab.backed_up(["tree", "--to", "m1", "--name", "t"]);
    assert_eq!((&second["notes"], &second["errors"]), (&Value::Null, &serde_json::json!([])));
    // A code that nobody saw opens nothing.
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let unseen = lab.command().args(["idb", "recovery-key"]).stdout(full).status().unwrap();
    assert_eq!(unseen.code(), Some(1));
    let sheet = run(&lab, "idb recovery-key").ok().stdout.clone();
    let code = sheet.lines().find(|l| l.trim().starts_with("1:")).unwrap().trim().to_owned();
    run(&lab, "idb recovery-key").refused(&["already", "--replace"]);
    lab.file("sheet", &sheet);

    run(&lab, "pool create office --not-appendable --rotation weekly=3").ok();
    run(&lab, "media label m1 monday").ok();
    run(&lab, "media init m2 --label tuesday --pool office").ok();
    let mut init = lab.command();
    init.args(["key", "init"]).env("CAPSTAN_PASSPHRASE", "correct horse battery");
    finish(&mut init).ok();
    let backup = |to: &str| lab.backed_up(["tree", "--to", to, "--name", "t"]);
    for _ in 0..3 {
        backup("m1");
    }
    backup("pool:office");
    backup("m1");
    let saved = |medium: &str| -> Vec<PathBuf> {
        let names = fs::read_dir(lab.path(medium)).unwrap().map(|e| e.unwrap().path());
        let mut names: Vec<_> = names
            .filter(|p| p.file_name().unwrap().to_string_lossy().starts_with("idb-"))
            .collect();
        names.sort();
        names
    };
    assert_eq!((saved("m1").len(), saved("m2").len()), (3, 1));
    // Nothing of the code, and nothing in clear, is on the medium or in the home.
    let bytes = fs::read(saved("m1").pop().unwrap()).unwrap();
    assert!(!bytes.windows(6).any(|w| w == b"office"));
    assert!(!lab.succeeds(&format!("grep -rqF '{}' home m1 m2", &code[3..])));

    fs::remove_dir_all(lab.path("home")).unwrap();
    fs::rename(lab.path("m2"), lab.path("away")).unwrap();
    // The newest is damaged: the one before it is as good, and that is said.
    let newest = saved("m1").pop().unwrap();
    let mut broken = bytes.clone();
    let last = broken.len() - 100;
    broken[last] ^= 1;
    fs::write(&newest, broken).unwrap();
    let recover = |extra: &[&str], code: Option<&str>| {
        let mut command = lab.program("setsid");
        command
            .arg("--wait")
            .arg(env!("CARGO_BIN_EXE_capstan"))
            .env("CAPSTAN_HOME", lab.path("home"));
        command.args(["idb", "recover", "m1"]).args(extra);
        code.map(|code| command.env("CAPSTAN_IDB_RECOVERY", code));
        finish(&mut command)
    };
    recover(&[], None).refused(&["recovery code", "CAPSTAN_IDB_RECOVERY"]);
    let other = "0".repeat(64);
    recover(&[], Some(&other)).refused(&["hint"]);
    assert!(!lab.path("home/capstan.db").exists());
    let back = recover(&["--code-file", "sheet"], None);
    assert_eq!(back.code, 3, "{}{}", back.stdout, back.stderr);
    assert!(back.stderr.contains("an older one is tried"), "{}", back.stderr);
    assert!(
        back.stdout.contains("medium 'tuesday'") && back.stdout.contains("is lacking"),
        "{}",
        back.stdout
    );
    recover(&["--code-file", "sheet"], None).refused(&["already"]);

    let page = run(&lab, "pool show office").ok().stdout.clone();
    assert!(page.contains("not appendable, 3 weekly") && page.contains("tuesday"), "{page}");
    assert!(run(&lab, "media list").ok().stdout.contains("monday"));
    assert!(run(&lab, "sessions").ok().stdout.contains("  t  "));
    // It is the same cell: what it wrote it may go on writing, encrypted as before.
    let again = backup("m1");
    assert_eq!(again["media"][0], "monday");
    let mut restore = lab.command();
    restore
        .args(["restore", "t", "--into", "out"])
        .env("CAPSTAN_PASSPHRASE", "correct horse battery");
    finish(&mut restore).ok();
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    // What lay on the medium that is away comes with it.
    run(&lab, "media import away").ok();
    assert_eq!(run(&lab, "idb check").code, 0);
}

#[test]
fn a_recovered_database_restores_what_is_not_encrypted_without_any_secret() {
    let lab = lab();
    run(&lab, "idb recovery-key").ok();
    let sheet = run(&lab, "idb recovery-key --replace").ok().stdout.clone();
    lab.file("sheet", &sheet);
    lab.backed_up(["tree", "--to", "m1", "--name", "t"]);
    fs::remove_dir_all(lab.path("home")).unwrap();
    let back = run(&lab, "idb recover m1 --code-file sheet --json");
    let back = json(back.ok());
    assert_eq!(
        (&back["media"][0]["lacking"], &back["media"][0]["files"]),
        (&Value::Null, &2.into()),
        "{back}"
    );
    run(&lab, "idb check").ok();
    comes_back(&lab, "t", "out");
    run(&lab, "idb recover nowhere").refused(&["already"]);
    // What says that a recovery was cut short makes none of a home with the tables of another.
    lab.file("home/recovery.begun", "idb-of-another");
    run(&lab, "idb recover m1 --code-file sheet").refused(&["was begun", "idb-of-another"]);
    fs::remove_file(lab.path("home/recovery.begun")).unwrap();
    // Nor of one that was used since.
    let used = run(&lab, "sessions --kind all --json").ok().rows()[0].clone();
    let used = used["id"].as_str().unwrap().to_owned();
    lab.backed_up(["tree", "--to", "m2", "--name", "t"]);
    let from = back["from"].as_str().unwrap();
    lab.file("home/recovery.begun", format!("{from}\n{used}"));
    lab.sh("touch -d '1 hour ago' home/recovery.begun");
    run(&lab, "idb recover m1 --code-file sheet").refused(&["was used since"]);
    // What is older than the recovery, and which its backup of the database has not, it brought back itself.
    lab.sh("touch home/recovery.begun");
    run(&lab, "idb recover m1 --code-file sheet").ok();
    assert!(!lab.path("home/recovery.begun").exists());
    fs::remove_dir_all(lab.path("home")).unwrap();
    lab.mkdir("empty");
    run(&lab, "idb recover empty").refused(&["empty", "no backup"]);
}

#[test]
fn a_home_whose_recovery_was_killed_is_left_to_the_recovery() {
    // Killed while it notes that it begins, and when it has noted it.
    for left in [".recovery.begun.new", "recovery.begun"] {
        let lab = lab();
        let sheet = run(&lab, "idb recovery-key").ok().stdout.clone();
        lab.file("sheet", &sheet);
        lab.backed_up(["tree", "--to", "m1", "--name", "t"]);
        fs::remove_dir_all(lab.path("home")).unwrap();
        lab.file(&format!("home/{left}"), "");
        for command in [
            "status",
            "sessions",
            "backup tree --to m1 --name t",
            "prune --keep-last 1",
            "import m1",
            "key init",
            "key show",
            "idb move",
            "idb check",
        ] {
            let refused = run(&lab, command);
            refused.refused(&["recovery into", "not done", "idb recover"]);
        }
        assert!(!lab.path("home/capstan.db").exists());
        // As it was killed, nothing is said of which backup it is of.
        if left == "recovery.begun" {
            fs::rename(lab.path("home/recovery.begun"), lab.path("home/.recovery.begun.new"))
                .unwrap();
        }
        run(&lab, "idb recover m1 --code-file sheet").ok();
        assert_eq!(
            fs::read_dir(lab.path("home"))
                .unwrap()
                .flatten()
                .filter(|e| { e.file_name().to_string_lossy().contains("recovery.begun") })
                .count(),
            0
        );
        run(&lab, "status").ok();
        comes_back(&lab, "t", "out");
    }
}

#[test]
fn whatever_the_logging_level_everything_can_be_restored_and_loaded() {
    for (encrypted, level, names, attributes) in [
        (false, "none", 0, 0),
        (false, "directories", 0, 1),
        (false, "files", 2, 0),
        (true, "files", 2, 0),
    ] {
        let lab = lab();
        let secret = "correct horse battery";
        let with = |args: &[&str]| {
            let mut command = lab.command();
            finish(command.args(args).env("CAPSTAN_PASSPHRASE", secret))
        };
        if encrypted {
            with(&["key", "init"]).ok();
        }
        lab.backed_up(["tree", "--to", "m1", "--name", "t", "--log-level", level]);
        let kept = catalogs(&lab);
        let suffixes: Vec<_> =
            kept.iter().map(|p| p.extension().unwrap().to_str().unwrap()).collect();
        assert_eq!(suffixes, if level == "none" { vec![] } else { vec!["listing"] });
        let clear = fs::read(kept.first().unwrap_or(&lab.path("sheet"))).unwrap_or_default();
        assert!(!encrypted || !clear.windows(4).any(|w| w == b"tree"));
        assert!(run(&lab, "idb check").ok().stdout.contains("all agrees"));
        // The medium has everything.
        let all = with(&["ls", "-l", "t"]).ok().stdout.clone();
        assert!(all.contains("100000") || all.contains("100,000"), "{all}");
        with(&["restore", "t", "--into", "out"]).ok();
        same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
        // Without it, what is kept.
        fs::rename(lab.path("m1"), lab.path("away")).unwrap();
        let poor = with(&["ls", "--json", "t"]);
        if level == "none" {
            poor.refused(&["m1"]);
        } else {
            let rows = poor.ok().rows();
            let count =
                |kind: &str| rows.iter().filter(|r| r["kind"] == kind || r["type"] == kind).count();
            assert_eq!(count("file"), names, "{rows:?}");
            let state = if attributes == 1 { "files not listed" } else { "name only" };
            assert!(rows.iter().all(|r| r["state"] == state), "{rows:?}");
            assert!(
                with(&["restore", "t", "--into", "out2"]).code == 2,
                "nothing is restored from a listing"
            );
        }
        fs::rename(lab.path("away"), lab.path("m1")).unwrap();
        with(&["catalog", "load", "t"]).ok();
        fs::rename(lab.path("m1"), lab.path("away")).unwrap();
        assert_eq!(with(&["ls", "-l", "t"]).ok().stdout, all);
    }
}

#[test]
fn what_lies_on_a_medium_that_is_away_never_passes_for_whole() {
    let lab = lab();
    fs::write(lab.path("sheet"), run(&lab, "idb recovery-key").ok().stdout.clone()).unwrap();
    lab.backed_up(["tree", "--to", "m1", "--name", "t"]);
    lab.file("tree/dir/b", "changed");
    lab.backed_up(["tree", "--to", "m2", "--name", "t", "--incr"]);
    lab.file("other/x", "x");
    lab.backed_up(["other", "--to", "m1", "--name", "other"]);
    lab.sh("mv m1 away; rm -r home");
    let recovered = run(&lab, "idb recover m2 --code-file sheet");
    assert_eq!(recovered.code, 3, "{}", recovered.stdout);
    let restored = run(&lab, "restore t --into out");
    assert_ne!(restored.code, 0, "the base is away: {}", restored.stdout);
    assert_ne!(run(&lab, "verify t").code, 0);
    let consolidated = run(&lab, "consolidate t");
    assert_ne!(consolidated.code, 0, "{}", consolidated.stdout);
    // What the newest backup of the database does not know is not there; what it knows is refused.
    assert_ne!(run(&lab, "restore other --into out").code, 0);
    let pruned = run(&lab, "prune --keep-last 1");
    assert_eq!(pruned.code, 3, "nothing goes: {}", pruned.stdout);
    lab.sh("mv away m1; rm -rf out");
    run(&lab, "import m1").ok();
    comes_back(&lab, "t", "whole");
}

/// Whoever looks into an empty home makes tables there, in which is nothing.
#[test]
fn a_home_that_was_only_looked_at_is_empty_to_a_recovery() {
    if crate::server::is_wanted() {
        return skip("tables that are on a server are named by hand");
    }
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 100_000));
    lab.file("sheet", lab.run(["idb", "recovery-key"]).ok().stdout.clone());
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    fs::remove_dir_all(lab.path("home")).unwrap();
    // It knows of nothing: to who watches that is no good news.
    let status = lab.run(["status"]);
    assert_eq!(status.code, 5, "{}", status.stdout);
    assert!(lab.path("home/capstan.db").exists());
    lab.run(["idb", "recover", "medium", "--code-file", "sheet"]).ok();
    lab.run(["status"]).ok();
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    lab.run(["idb", "recover", "medium", "--code-file", "sheet"]).refused(&["already"]);
}

/// The recovery sheet for programs: its code opens what the sheet on paper opens.
#[test]
fn a_recovery_key_comes_as_json_too() {
    let lab = Lab::new();
    lab.file("t/file", noise(1, 10_000));
    let sheet: Value =
        serde_json::from_str(&run(&lab, "idb recovery-key --name ann --json").ok().stdout).unwrap();
    assert_eq!(sheet["name"], "ann");
    lab.backed_up(["t", "--to", "m", "--name", "t"]);
    lab.sh("mv home gone");
    lab.file("code", sheet["code"].as_str().unwrap());
    run(&lab, "idb recover m --code-file code").ok();
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("t"), &below(&lab.path("out"), &lab.path("t")));
    let again = run(&lab, "idb recovery-key --json");
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert!(again["error"].as_str().unwrap().contains("already"), "{again}");
}

/// Of mirrors any one may be all that is left.
#[test]
fn each_mirror_has_a_backup_of_the_database() {
    let lab = Lab::new();
    crate::tape::library(&lab, 2, 3);
    run(&lab, "vtl create other --capacity 40M --tapes 4 --scale 1000").ok();
    for n in 0..8 {
        lab.file(&format!("tree/f{n}"), noise(n, 6_000_000));
    }
    lab.file("sheet", run(&lab, "idb recovery-key").ok().stdout.clone());
    let done = lab.backed_up(
        "tree --name t --to vtape:vtl --mirror vtape:other --mirror m --mirror n".split(' '),
    );
    // On the last one of each.
    assert!(done["media"].as_array().unwrap().len() > 4, "{done:#}");
    for place in ["vtape:vtl", "vtape:other", "m", "n"] {
        lab.sh("rm -rf home");
        run(&lab, &format!("idb recover {place} --code-file sheet")).ok();
        let sessions = run(&lab, "sessions").ok().stdout.clone();
        assert!(sessions.contains("  t  "), "{place}: {sessions}");
    }
}

/// A version that was made of nothing lacks nothing.
#[test]
fn a_check_takes_a_version_of_nothing_for_whole() {
    let lab = lab();
    let nothing = ["backup", "/", "--to", "medium", "--name", "none", "--exclude", "/*"];
    lab.run(nothing).ok();
    lab.run([&nothing[..], &["--full"]].concat()).ok();
    lab.run(["idb", "check"]).ok();
    // One that had something is missed as before.
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.sh("rm medium/00*.segment");
    assert_ne!(lab.run(["idb", "check"]).code, 0);
}

/// The newest backup of the database is damaged, and the one before it does not know all: whoever recovers is told, by the exit code, too.
#[test]
fn a_recovery_from_an_older_backup_of_the_database_says_what_is_missing() {
    let lab = lab();
    lab.file("sheet", run(&lab, "idb recovery-key").ok().stdout.clone());
    let backup = |to: &str| drop(lab.backed_up(["tree", "--to", to, "--name", "t", "--full"]));
    backup("m1");
    run(&lab, "media label m1 monday").ok();
    run(&lab, "pool create office").ok();
    backup("m1");
    lab.sh("rm -r home; cp -a m1 whole");
    let names = "ls m1/idb-*.capstan | sort";
    let damaged = lab.sh(&format!("truncate -s -1000 $({names} | tail -1); {names} | tail -1"));
    let recovered = run(&lab, "idb recover m1 --code-file sheet");
    let said = &recovered.stdout;
    assert_eq!(recovered.code, 3, "{said}{}", recovered.stderr);
    assert!(
        said.contains("warning: a newer backup of 20") && said.contains(damaged.trim()),
        "{said}"
    );
    assert!(
        said.contains("Pools, labels, protection") && said.contains("`capstan import"),
        "{said}"
    );
    assert!(recovered.stderr.contains("[warning] cell 457 idb-older"), "{}", recovered.stderr);
    run(&lab, "pool show office").refused(&["office"]);
    // The version that the older one does not know lies on the medium.
    let versions = run(&lab, "versions t").ok().stdout.clone();
    assert_eq!(versions.lines().filter(|line| line.starts_with("t@")).count(), 2, "{versions}");
    lab.sh("rm -r home");
    let json = run(&lab, "idb recover m1 --code-file sheet --json");
    let of: Value = serde_json::from_str(&json.stdout).unwrap();
    let newer = of["newer_unread"].as_array().unwrap();
    assert_eq!((json.code, newer.len()), (3, 1), "{of:#}");
    assert!(newer[0]["created"].as_str() > of["created"].as_str(), "{of:#}");
    assert!(newer[0]["why"].as_str().is_some_and(|why| !why.is_empty()), "{of:#}");
    // One that can be read is taken without a word.
    lab.sh("rm -r home m1; mv whole m1");
    let json = run(&lab, "idb recover m1 --code-file sheet --json");
    let of: Value = serde_json::from_str(&json.ok().stdout).unwrap();
    assert_eq!(of["newer_unread"], serde_json::json!([]), "{of:#}");
    run(&lab, "pool show office").ok();
}

/// What a session commits meanwhile, and what one removes, is no finding.
#[test]
fn a_check_beside_a_backup_finds_nothing() {
    let lab = lab();
    for n in 0..6 {
        lab.file(&format!("tree/noise{n}"), crate::support::noise(n, 8_000_000));
    }
    let args = ["tree", "--to", "m1", "--name", "t", "--full", "--segment-size", "1M"];
    lab.backed_up(args);
    let mut checks = 0;
    for _ in 0..3 {
        let mut backup = lab.command().arg("backup").args(args).arg("-q").spawn().unwrap();
        while backup.try_wait().unwrap().is_none() {
            run(&lab, "idb check").ok();
            checks += 1;
        }
    }
    assert!(checks > 3, "{checks} checks beside them");
    lab.run(["prune", "--keep-last", "1"]).ok();
    run(&lab, "idb check").ok();
}
