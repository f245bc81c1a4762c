//! Encrypted backups after the loss of the home: what a secret and the medium alone give back.

use std::fs;

use crate::compare::same_by_rsync;
use crate::independent_reader::Reader;
use crate::support::{Lab, Run, below, finish};

const FIRST: &str = "correct horse battery";
const SECOND: &str = "staple of another kind";

/// Runs with a passphrase (none if empty), a new one for what makes locks, and no terminal.
fn run(lab: &Lab, passphrase: &str, args: &[&str]) -> Run {
    let mut command = lab.program("setsid");
    command.arg("--wait").arg(env!("CARGO_BIN_EXE_capstan")).env("CAPSTAN_HOME", lab.path("home"));
    command.env("CAPSTAN_NEW_PASSPHRASE", SECOND).env("CAPSTAN_PASSPHRASE", passphrase);
    finish(command.args(args))
}

fn session(lab: &Lab) -> String {
    let json = lab.backed_up(["tree", "--to", "medium", "--name", "e", "--full"]);
    json["session"].as_str().unwrap()[..8].to_owned()
}

/// Three backups, the keys rotated before the third. Their sessions.
fn rotated() -> (Lab, [String; 3]) {
    let lab = Lab::new();
    lab.file("tree/kept", "kept");
    let mut init = lab.command();
    finish(init.args(["key", "init"]).env("CAPSTAN_PASSPHRASE", FIRST)).ok();
    let (first, second) = (session(&lab), session(&lab));
    run(&lab, FIRST, &["key", "rotate"]).ok();
    let third = session(&lab);
    (lab, [first, second, third])
}

fn lose_home(lab: &Lab) {
    fs::remove_dir_all(lab.path("home")).unwrap();
}

#[test]
fn after_a_rotation_the_new_passphrase_opens_the_older_sessions_too() {
    let (lab, sessions) = rotated();
    lose_home(&lab);
    let import = run(&lab, SECOND, &["import", "medium"]);
    import.ok();
    assert!(!import.stderr.contains("are encrypted and stay so"), "{}", import.stderr);
    for session in &sessions {
        let into = format!("out-{session}");
        run(&lab, SECOND, &["restore", &format!("e@{session}"), "--into", &into]).ok();
        same_by_rsync(&lab.path("tree"), &below(&lab.path(&into), &lab.path("tree")));
        if let Some(reader) = Reader::find() {
            let into = format!("read-{session}");
            let args = ["extract", "medium", "--session", session, "--into", &into];
            reader.run(&lab, Some(SECOND), &args).ok();
            same_by_rsync(&lab.path("tree"), &below(&lab.path(&into), &lab.path("tree")));
        }
    }
    let path = lab.path("tree/kept");
    for args in [&["find", "kept", "--all-versions"][..], &["versions", path.to_str().unwrap()]] {
        let found = run(&lab, SECOND, args);
        found.ok();
        for session in &sessions {
            assert!(found.stdout.contains(session.as_str()), "{}{}", found.stdout, found.stderr);
        }
    }
}

#[test]
fn versions_that_stay_sealed_are_passed_over_with_a_warning() {
    let (lab, [first, second, third]) = rotated();
    lose_home(&lab);
    // The former passphrase opens what it was made for.
    let import = run(&lab, FIRST, &["import", "medium"]);
    import.ok();
    assert!(import.stderr.contains("the names of 1 sessions are encrypted"), "{}", import.stderr);
    let found = run(&lab, FIRST, &["find", "kept", "--all-versions"]);
    found.ok();
    assert!(found.stdout.contains(&first) && found.stdout.contains(&second), "{}", found.stdout);
    assert!(!found.stdout.contains(&third), "{}", found.stdout);
    assert!(found.stderr.contains("1 version is passed over"), "{}", found.stderr);
    // Where none opens, that is what is to be said.
    run(&lab, "wrong", &["find", "kept"]).refused(&["wrong passphrase"]);
    run(&lab, "", &["find", "kept"]).refused(&["no secret is given"]);
}

#[test]
fn a_wrong_secret_is_told_from_none_before_anything_is_imported() {
    let (lab, _) = rotated();
    lose_home(&lab);
    let wrong = run(&lab, "wrong", &["import", "medium"]);
    wrong.refused(&["opens nothing of medium medium", "wrong passphrase", "import without names"]);
    let listed = run(&lab, "", &["sessions", "--kind", "all", "--json"]);
    assert!(listed.ok().rows().is_empty(), "something was recorded");
    let none = run(&lab, "", &["import", "medium"]);
    none.ok();
    assert!(none.stderr.contains("the names of 3 sessions are encrypted"), "{}", none.stderr);
}

#[test]
fn a_wrong_passphrase_is_not_hidden_by_the_mediums_ring() {
    let lab = Lab::new();
    lab.file("tree/kept", "kept");
    lab.file("key", [7; 32]);
    finish(lab.command().args(["key", "init", "--key-file", "key", "--no-names-key"])).ok();
    session(&lab);
    // At home a passphrase opens now; on the medium there is none.
    let mut add = lab.command();
    add.args(["key", "add", "--passphrase", "--unlock-key-file", "key"]);
    finish(add.env("CAPSTAN_NEW_PASSPHRASE", FIRST)).ok();
    run(&lab, "wrong", &["ls", "e"]).refused(&["wrong passphrase"]);
    run(&lab, FIRST, &["ls", "e"]).ok();
}

#[test]
fn a_lost_key_ring_lets_nothing_out_in_clear() {
    let lab = Lab::new();
    lab.file("tree/kept", "TOPSECRET");
    run(&lab, FIRST, &["key", "init"]).ok();
    let backup = |name: &str| {
        lab.run(["backup", "tree", "--to", "medium", "--name", name, "--compress", "off", "--full"])
    };
    let is_clear = || lab.succeeds("grep -q TOPSECRET medium/*.segment");
    backup("e").ok();
    lab.sh("mv home/keyring.json ring");
    // Of a name that was backed up, and of a new one: its names key says that the home had a ring.
    for name in ["e", "new"] {
        backup(name).refused(&["would not be encrypted", "keyring.json", "capstan key import"]);
        assert!(!is_clear());
    }
    let status = lab.run(["status"]);
    assert!(status.code == 5 || status.code == 6, "{}", status.stdout);
    assert!(status.stdout.contains("keyring.json is not there"), "{}", status.stdout);
    let sessions = lab.run(["sessions"]);
    assert!(sessions.stdout.contains("failed"), "{}", sessions.stdout);
    lab.sh("mv ring home/keyring.json");
    backup("e").ok();
    assert!(!is_clear());
    lab.run(["status", "e"]).ok();
    lab.run(["backup", "tree", "--to", "medium", "--name", "e", "--encrypt", "off"])
        .refused(&["there is a key ring"]);
}

/// A home that was put back to before its ring was made knows nothing of one. The medium does.
#[test]
fn a_home_from_before_its_ring_lets_nothing_out_in_clear() {
    let lab = Lab::new();
    lab.file("tree/kept", "kept");
    let backup = |more: &[&str]| {
        let args = ["backup", "tree", "--to", "medium", "--name", "e", "--compress", "off"];
        lab.run([&args[..], more].concat())
    };
    backup(&[]).ok();
    lab.sh("cp -a home before");
    let tables = lab.keep_tables();
    run(&lab, FIRST, &["key", "init"]).ok();
    lab.file("tree/more", "more");
    backup(&[]).ok();
    lab.sh("rm -r home; mv before home");
    lab.put_tables_back(&tables);
    lab.file("tree/new", "TOPSECRET");
    for _ in 0..2 {
        backup(&[]).refused(&["would not be encrypted", "the last one of this name is encrypted"]);
        assert!(!lab.succeeds("grep -q TOPSECRET medium/*.segment"));
    }
    backup(&["--encrypt", "off"]).ok();
    assert!(lab.succeeds("grep -q TOPSECRET medium/*.segment"));
}

#[test]
fn a_damaged_names_key_costs_no_backup() {
    let lab = Lab::new();
    lab.file("tree/kept", "kept");
    run(&lab, FIRST, &["key", "init"]).ok();
    let backup = || lab.run(["backup", "tree", "--to", "medium", "--name", "e", "--json"]);
    backup().ok();
    lab.sh(
        "cp home/names.key whole; sed -i 's/[0-9a-f][0-9a-f][0-9a-f][0-9a-f]/zzzz/' home/names.key",
    );
    let full = backup();
    assert!(full.ok().stdout.contains("\"method\":\"full\""), "{}", full.stdout);
    assert!(full.stderr.contains("names.key is damaged"), "{}{}", full.stdout, full.stderr);
    let status = lab.run(["status"]);
    assert_eq!(status.code, 5, "{}", status.stdout);
    assert!(status.stdout.contains("names.key is damaged"), "{}", status.stdout);
    run(&lab, SECOND, &["restore", "e", "--into", "out"]).ok();
    run(&lab, SECOND, &["key", "names"]).ok();
    lab.run(["status"]).ok();
    assert!(backup().ok().stdout.contains("\"method\":\"incr\""));
}

#[test]
fn after_an_import_backups_are_encrypted_again_with_the_mediums_ring() {
    let (lab, _) = rotated();
    lose_home(&lab);
    let backup = |name: &str| lab.run(["backup", "tree", "--to", "medium", "--name", name]);
    let import = run(&lab, SECOND, &["import", "medium"]);
    assert!(import.ok().stderr.contains("`capstan key import "), "{}", import.stderr);
    assert!(import.stdout.contains("capstan media adopt"), "{}", import.stdout);
    // What would lie open from now on is not written by mistake.
    let adopt = run(&lab, "", &["media", "adopt", "medium"]);
    adopt.refused(&["encrypted backups, and this home has no key ring", "`capstan key import "]);
    lab.run(["backup", "tree", "--to", "medium", "--name", "f"]).refused(&["another cell"]);
    run(&lab, "", &["media", "adopt", "medium", "--unencrypted"]).ok();
    backup("e").refused(&["would not be encrypted", "`capstan key import ", "--encrypt off"]);
    run(&lab, "", &["backup", "tree", "--to", "medium", "--name", "e", "--encrypt", "off"]).ok();
    // It was said once.
    let plain = backup("e");
    assert!(plain.ok().stderr.contains("this backup is not encrypted"), "{}", plain.stderr);
    assert!(!backup("new").ok().stderr.contains("not encrypted"));

    run(&lab, "", &["key", "import", "medium"]).refused(&["no secret is given"]);
    run(&lab, "wrong", &["key", "import", "medium"]).refused(&["wrong passphrase"]);
    // Who has the former secret alone was shut out by the rotation.
    run(&lab, FIRST, &["key", "import", "medium"]).refused(&["the newest key"]);
    assert!(!lab.path("home/keyring.json").exists());
    let taken = run(&lab, SECOND, &["key", "import", "medium", "--no-names-key"]);
    assert!(taken.ok().stderr.contains("compare the id"), "{}", taken.stderr);
    run(&lab, SECOND, &["key", "import", "medium"]).refused(&["a key ring in", "already"]);

    assert!(!backup("e").ok().stderr.contains("not encrypted"));
    run(&lab, "", &["ls", "e"]).refused(&["no secret is given"]);
    run(&lab, SECOND, &["ls", "e"]).ok();
    lab.run(["key", "import", "nowhere"]).refused(&["already"]);
}

#[test]
fn a_medium_without_keys_has_no_ring_to_take() {
    let lab = Lab::new();
    lab.file("tree/kept", "kept");
    session(&lab);
    run(&lab, SECOND, &["key", "import", "medium"]).refused(&["carries no key ring"]);
}

/// The medium has its ring of before: both key pairs' secrets open what was written before, and the message says whose it is.
#[test]
fn after_a_rotation_the_former_passphrase_opens_the_older_sessions_at_home_too() {
    let (lab, [first, second, third]) = rotated();
    for (session, secret) in [(&first, FIRST), (&second, FIRST), (&first, SECOND), (&third, SECOND)]
    {
        let into = format!("out-{session}-{}", secret.len());
        run(&lab, secret, &["restore", &format!("e@{session}"), "--into", &into]).ok();
        same_by_rsync(&lab.path("tree"), &below(&lab.path(&into), &lab.path("tree")));
    }
    let newest = run(&lab, FIRST, &["restore", &format!("e@{third}"), "--into", "none"]);
    newest.refused(&["encrypted for key pair", "what was given opens key pair", "key rotate"]);
    assert!(!newest.stderr.contains("scope 'all'"), "{}", newest.stderr);
    // To wrap them once more changes nothing of it.
    run(&lab, SECOND, &["key", "rewrap"]).ok();
    run(&lab, FIRST, &["restore", &format!("e@{first}"), "--into", "again"]).ok();
}

#[test]
fn a_sheet_says_which_media_do_not_carry_it_yet() {
    let lab = Lab::new();
    lab.file("tree/kept", "kept");
    run(&lab, SECOND, &["key", "init"]).ok();
    let to = |medium| lab.backed_up(["tree", "--to", medium, "--name", "e", "--full"]);
    to("m1");
    to("m2");
    lab.sh("mv m1 away");
    let sheet = run(&lab, SECOND, &["key", "recovery"]);
    let lacking = "2 media were last written before it was made";
    assert!(sheet.ok().stderr.contains(lacking), "{}", sheet.stderr);
    assert!(sheet.stderr.contains("'m1', 'm2'"), "{}", sheet.stderr);
    assert!(sheet.stdout.contains("that was written since it was printed"), "{}", sheet.stdout);
    let status = lab.run(["status"]);
    assert!(status.stdout.contains(lacking), "{}", status.stdout);
    to("m2");
    lab.sh("mv away m1");
    let status = lab.run(["status"]);
    assert!(status.ok().stdout.contains("1 medium was last written before"), "{}", status.stdout);
    assert!(status.stdout.contains("'m1';"), "{}", status.stdout);
    // With the sheet alone the older medium opens after the newer one.
    lose_home(&lab);
    let is_of_code = |l: &&str| l.contains(": ") && l.trim().starts_with(['1', '2', '3', '4']);
    let code: Vec<&str> = sheet.stdout.lines().filter(is_of_code).collect();
    let with_code = |args: &[&str]| {
        finish(lab.command().env("CAPSTAN_RECOVERY_CODE", code.join("\n")).args(args))
    };
    with_code(&["import", "m1"])
        .refused(&["opens nothing of medium m1", "import a medium first that was written since"]);
    with_code(&["import", "m2"]).ok();
    with_code(&["import", "m1"]).ok();
    for row in lab.run(["sessions", "--json"]).rows() {
        let id = row["id"].as_str().unwrap();
        let into = format!("out-{id}");
        with_code(&["restore", &format!("e@{id}"), "--into", &into]).ok();
        same_by_rsync(&lab.path("tree"), &below(&lab.path(&into), &lab.path("tree")));
    }
}

/// A disk that only copies are written to opens by what opened the backups that it has copies of.
#[test]
fn a_disk_of_copies_carries_the_lock_of_what_was_copied() {
    let lab = Lab::new();
    lab.file("tree/kept", "kept");
    run(&lab, SECOND, &["key", "init"]).ok();
    let to_main = || lab.backed_up(["tree", "--to", "main", "--name", "e", "--full"]);
    to_main();
    lab.run(["copy", "e", "--to", "off"]).ok();
    run(&lab, SECOND, &["key", "recovery"]).ok();
    assert!(lab.run(["status"]).stdout.contains("2 media were last written before"));
    to_main();
    let status = lab.run(["status"]).stdout;
    assert!(
        status.contains("'off'; each carries it") && status.contains("or copied to it"),
        "{status}"
    );
    lab.run(["copy", "e", "--to", "off"]).ok();
    let status = lab.run(["status"]);
    assert!(!status.ok().stdout.contains("last written before"), "{}", status.stdout);
    // So does one that only has what a consolidation wrote.
    lab.file("tree/kept", "changed");
    lab.backed_up(["tree", "--to", "main", "--name", "e"]);
    lab.run(["consolidate", "e", "--to", "full"]).ok();
    let status = lab.run(["status"]);
    assert!(!status.ok().stdout.contains("last written before"), "{}", status.stdout);
}
