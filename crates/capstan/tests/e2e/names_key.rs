//! The names key: incrementals of encrypted backups with nobody at hand who knows the secret.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Run, below, finish, noise};

const SECRET: &str = "correct horse battery";

fn with(lab: &Lab, secret: &str, args: &[&str]) -> Run {
    finish(lab.command().env("CAPSTAN_PASSPHRASE", secret).args(args))
}

/// An encrypting home, and files to back up.
fn lab(init: &[&str]) -> Lab {
    let lab = Lab::new();
    for n in 0..5 {
        lab.file(&format!("tree/file-{n}"), noise(n, 200_000));
    }
    with(&lab, SECRET, &[&["key", "init"], init].concat()).ok();
    lab
}

/// Backs up with no secret at hand; the method, and what the report notes.
fn unattended(lab: &Lab) -> (String, String) {
    let report = lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    (report["method"].as_str().unwrap().to_owned(), report["notes"].to_string())
}

#[test]
fn incrementals_run_without_a_secret_and_contents_stay_closed() {
    let lab = lab(&[]);
    let mode = fs::metadata(lab.path("home/names.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(unattended(&lab).0, "full");
    lab.file("tree/new-name", "new");
    let (method, notes) = unattended(&lab);
    assert_eq!(method, "incr", "{notes}");
    let size: u64 =
        lab.sh("ls -t medium/*.segment | head -1 | xargs stat -c %s").trim().parse().unwrap();
    assert!(size < 200_000, "an incremental of {size} bytes");
    // Names are listed, contents are not given.
    assert!(with(&lab, "", &["ls", "t"]).ok().stdout.contains("new-name"));
    assert!(with(&lab, "", &["find", "new-name"]).ok().stdout.contains("new-name"));
    with(&lab, "", &["restore", "t", "--into", "out"]).refused(&["CAPSTAN_PASSPHRASE"]);
    with(&lab, "wrong", &["restore", "t", "--into", "out"]).refused(&["wrong passphrase"]);
    with(&lab, "wrong", &["verify", "t"]).refused(&["wrong passphrase"]);
    assert!(!lab.path("out").exists(), "something was written");
    with(&lab, SECRET, &["restore", "t", "--into", "out"]).ok();
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    // The key is nowhere but in its file, not even on the medium.
    let key: serde_json::Value =
        serde_json::from_slice(&fs::read(lab.path("home/names.key")).unwrap()).unwrap();
    let private = key["names_private"].as_str().unwrap();
    assert_eq!(lab.sh(&format!("grep -rlF '{private}' home medium")).trim(), "home/names.key");
    // It outlives a rotation, and the medium is enough without it.
    let mut rotate = lab.command();
    rotate.args(["key", "rotate"]).env("CAPSTAN_NEW_PASSPHRASE", "another long secret");
    finish(rotate.env("CAPSTAN_PASSPHRASE", SECRET)).ok();
    let (method, notes) = unattended(&lab);
    assert_eq!(method, "incr", "{notes}");
    fs::remove_dir_all(lab.path("home")).unwrap();
    let other = "another long secret";
    with(&lab, other, &["import", "medium"]).ok();
    with(&lab, "", &["ls", "t"]).refused(&["no secret is given"]);
    with(&lab, other, &["restore", "t", "--into", "again"]).ok();
    same_by_rsync(&lab.path("tree"), &below(&lab.path("again"), &lab.path("tree")));
}

#[test]
fn without_it_each_report_says_that_it_is_full_and_why() {
    let lab = lab(&["--no-names-key"]);
    assert!(!lab.path("home/names.key").exists());
    assert_eq!(unattended(&lab).0, "full");
    for _ in 0..2 {
        let (method, notes) = unattended(&lab);
        assert_eq!(method, "full");
        assert!(notes.contains("a full backup") && notes.contains("key names"), "{notes}");
    }
    with(&lab, "", &["ls", "t"]).refused(&["no secret is given"]);
    // With a secret it gets what was backed up before.
    let made = with(&lab, SECRET, &["key", "names"]);
    assert!(made.ok().stderr.contains("keys of 3 backups are wrapped anew"), "{}", made.stderr);
    let (method, notes) = unattended(&lab);
    assert_eq!(method, "incr", "{notes}");
    assert!(with(&lab, "", &["key", "list"]).ok().stdout.contains("names key "));
    with(&lab, "", &["key", "names", "--remove"]).ok();
    assert!(!lab.path("home/names.key").exists());
    assert_eq!(unattended(&lab).0, "full");
    // Without a secret it begins with the next one, which says so.
    with(&lab, "", &["key", "names"]).ok();
    let (method, notes) = unattended(&lab);
    assert!(method == "full" && notes.contains("those that follow build on this one"), "{notes}");
    assert_eq!(unattended(&lab).0, "incr");
    // What is damaged opens nothing, and is said to who writes.
    lab.file("home/names.key", "{}");
    let run = lab.run(["backup", "tree", "--to", "medium", "--name", "t"]);
    for words in ["names.key is damaged", "`capstan key names` makes a new one"] {
        assert!(run.ok().stderr.contains(words), "{}", run.stderr);
    }
    let status = lab.run(["status"]);
    assert!(
        status.code == 5 && status.stdout.contains("names.key is damaged"),
        "{}",
        status.stdout
    );
    with(&lab, SECRET, &["restore", "t", "--into", "out"]).ok();
    with(&lab, "", &["key", "names"]).ok();
    assert_eq!(unattended(&lab).0, "full");
}

#[test]
fn a_machine_that_cannot_read_its_backups_makes_incrementals_too() {
    let theirs = lab(&[]);
    let public = theirs.run(["key", "show"]).ok().stdout.trim().to_owned();
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 100_000));
    lab.run(["key", "init", "--recipient", &public]).ok();
    assert_eq!(unattended(&lab).0, "full");
    lab.file("tree/b", "b");
    let (method, notes) = unattended(&lab);
    assert_eq!(method, "incr", "{notes}");
    with(&lab, SECRET, &["restore", "t", "--into", "out"]).refused(&["public keys only"]);
    // Whoever has the ring reads it.
    let medium = lab.path("medium");
    with(&theirs, SECRET, &["import", medium.to_str().unwrap()]).ok();
    with(&theirs, SECRET, &["restore", "t", "--into", "out"]).ok();
    same_by_rsync(&lab.path("tree"), &below(&theirs.path("out"), &lab.path("tree")));
}

/// After the loss of a home: with a secret at hand for the ring and the import, in whatever order, incrementals run on unattended.
#[test]
fn the_first_backup_after_the_loss_of_a_home_is_an_incremental() {
    for order in [
        &["import", "key"][..],
        &["key", "import"],
        &["key"],
        &["key", "import closed"],
        &["import closed", "key"],
    ] {
        let lab = lab(&[]);
        assert_eq!(unattended(&lab).0, "full");
        fs::remove_dir_all(lab.path("home")).unwrap();
        for command in order {
            match *command {
                "key" => with(&lab, SECRET, &["key", "import", "medium"]).ok(),
                "import" => with(&lab, SECRET, &["import", "medium"]).ok(),
                _ => with(&lab, "", &["import", "medium"]).ok(),
            };
        }
        lab.run(["media", "adopt", "medium"]).ok();
        lab.file("tree/new", "new");
        let (method, notes) = unattended(&lab);
        assert_eq!(method, "incr", "{order:?}: {notes}");
        with(&lab, SECRET, &["restore", "t", "--into", "out"]).ok();
        same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    }
    // Where no secret was at hand for the import, the message says what helps.
    let lab = lab(&[]);
    unattended(&lab);
    fs::remove_dir_all(lab.path("home")).unwrap();
    with(&lab, SECRET, &["key", "import", "medium", "--no-names-key"]).ok();
    with(&lab, SECRET, &["import", "medium"]).ok();
    lab.run(["media", "adopt", "medium"]).ok();
    let full = lab.backup(["tree", "--to", "medium", "--name", "t"]);
    let said = full["errors"].to_string();
    assert!(said.contains("no-base") && said.contains("capstan key names"), "{full:#}");
}

/// Its name was closed when the medium was imported, and it was backed up before somebody opened it.
#[test]
fn what_was_imported_without_a_secret_is_one_object_with_what_came_since() {
    let lab = lab(&[]);
    unattended(&lab);
    fs::rename(lab.path("home"), lab.path("lost")).unwrap();
    with(&lab, "", &["import", "medium"]);
    with(&lab, SECRET, &["key", "import", "medium", "--no-names-key"]).ok();
    lab.run(["media", "adopt", "medium"]).ok();
    lab.file("tree/since", "since");
    let full = lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    assert_eq!(full["method"], "full");
    // It may be the first of what it backs up, or not: that is said, with what helps.
    let said = full["errors"].to_string();
    for words in
        ["no-base", "names are encrypted", "one of 't' may be among them", "capstan import"]
    {
        assert!(said.contains(words), "'{words}' is not in: {full:#}");
    }
    with(&lab, SECRET, &["import", "medium"]).ok();
    let objects = || {
        let shown = lab.run(["status", "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        shown["objects"].as_array().unwrap().len()
    };
    assert_eq!(objects(), 1);
    // The rules count both.
    let pruned = with(&lab, SECRET, &["prune", "t", "--keep-last", "1", "--json"]);
    let pruned: serde_json::Value = serde_json::from_str(&pruned.ok().stdout).unwrap();
    assert_eq!(pruned["removed_versions"], 1, "{pruned:#}");
    // Imported again, it stays one.
    with(&lab, SECRET, &["import", "medium"]).ok();
    assert_eq!(objects(), 1);
    with(&lab, SECRET, &["restore", "t", "--into", "out"]).ok();
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    lab.run(["idb", "check"]).ok();
}

/// It lies on no medium, and not in the backup of the database.
#[test]
fn after_a_recovery_of_the_database_it_is_made_again_or_asked_for() {
    let lab = lab(&[]);
    let sheet = with(&lab, SECRET, &["idb", "recovery-key"]).ok().stdout.clone();
    lab.file("code", sheet);
    unattended(&lab);
    unattended(&lab);
    let lose = || fs::remove_dir_all(lab.path("home")).unwrap();
    let recover = |secret| {
        let run = with(&lab, secret, &["idb", "recover", "medium", "--code-file", "code"]);
        run.ok().stdout.clone()
    };
    // With a secret at hand nothing is left to be done.
    lose();
    let said = recover(SECRET);
    assert!(said.contains("names.key is made anew"), "{said}");
    lab.run(["status"]).ok();
    assert_eq!(unattended(&lab).0, "incr");
    // Without one it says what is to be done, and so does status until it is.
    lose();
    let said = recover("");
    assert!(said.contains("`capstan key names` makes it"), "{said}");
    let status = lab.run(["status"]);
    assert_eq!(status.code, 5, "{}", status.stdout);
    assert!(status.stdout.contains("names.key is not there since"), "{}", status.stdout);
    assert_eq!(unattended(&lab).0, "full");
    with(&lab, SECRET, &["key", "names"]).ok();
    assert_eq!(unattended(&lab).0, "incr");
    lab.run(["status"]).ok();
    // Whoever does not want it says so.
    lose();
    recover("");
    assert_eq!(lab.run(["status"]).code, 5);
    lab.run(["key", "names", "--remove"]).ok();
    lab.run(["status"]).ok();
    lab.run(["key", "names", "--remove"]).refused(&["there is no names key"]);
    // A home that did without one is not told of it.
    let bare = Lab::new();
    bare.file("tree/a", "a");
    with(&bare, SECRET, &["key", "init", "--no-names-key"]).ok();
    let sheet = with(&bare, "", &["idb", "recovery-key"]).ok().stdout.clone();
    bare.file("code", sheet);
    bare.backed_up(["tree", "--to", "medium", "--name", "t"]);
    fs::remove_dir_all(bare.path("home")).unwrap();
    let run = with(&bare, SECRET, &["idb", "recover", "medium", "--code-file", "code"]);
    assert!(!run.ok().stdout.contains("names.key"), "{}", run.stdout);
    assert!(!bare.path("home/names.key").exists());
}
