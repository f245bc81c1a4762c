//! What a home does with media that it only imported: it reads them, and neither writes to them nor removes anything from them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::support::{Lab, finish, noise};

/// What lies in a directory: names, and contents but the backups of databases.
fn contents(of: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(of).unwrap().map(Result::unwrap);
    entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect()
}

#[test]
fn a_home_that_only_imported_a_medium_changes_nothing_on_it() {
    let lab = Lab::new();
    let first = |args: &str| {
        let mut command = lab.command();
        command.env("CAPSTAN_HOME", lab.path("first")).args(args.split(' '));
        finish(&mut command)
    };
    first("idb recovery-key").ok();
    for n in 0..3 {
        lab.file("tree/a", noise(n, 50_000));
        first("backup tree --to m1 --name t --full").ok();
        first("backup tree --to rait1:a,b --name v --full").ok();
    }
    let media = ["m1", "a", "b"].map(|name| lab.path(name));
    let before = media.each_ref().map(|path| contents(path));
    // This home makes backups of its database, too.
    lab.run(["idb", "recovery-key"]).ok();
    lab.run(["import", "m1"]).ok();
    lab.run(["import", "rait1:a,b"]).ok();
    lab.backed_up(["tree", "--to", "own", "--name", "own"]);
    let run = |args: &str| lab.run(args.split(' '));
    for prune in ["prune --keep-last 1 --dry-run", "prune --keep-last 1"] {
        let pruned = run(prune);
        let words = "removed, 0 ";
        assert!(pruned.ok().stdout.contains("another cell"), "{}", pruned.stdout);
        assert!(
            pruned.stdout.contains("7 kept") && pruned.stdout.contains(words),
            "{}",
            pruned.stdout
        );
    }
    // Given up by name or not: it is not this home's to remove.
    run("media protect m1 --none").ok();
    assert!(run("prune --keep-last 1").ok().stdout.contains("7 kept"));
    for (command, words) in [
        ("stage m1 --to own", "media adopt"),
        ("stage rait1:a,b --to own", "media adopt"),
        ("media recycle m1", "media adopt"),
        ("media erase m1", "media adopt"),
        ("media label m1 mine", "media adopt"),
        ("media repair m1", "media adopt"),
        ("media repair rait1:a,b", "media adopt"),
        ("lock t --until 2090-01-01", "cannot be locked"),
        ("rait rebuild rait1:a,b --member 2 --onto new", "media adopt"),
        ("copy own --to m1", "media adopt"),
        ("backup tree --to m1 --name t", "media adopt"),
        ("backup tree --to own --mirror m1 --name t", "media adopt"),
    ] {
        run(command).refused(&["another cell", words]);
    }
    for reads in ["verify t", "drill t", "copy t --to own", "idb check"] {
        run(reads).ok();
    }
    for (path, before) in media.iter().zip(before) {
        assert_eq!(contents(path), before, "{} was changed", path.display());
    }
    // Adopted, it is this home's, and the other's no more.
    run("media adopt m1").ok();
    assert!(run("prune t --keep-last 1").ok().stdout.contains("removed"));
    let refused = first("prune t --keep-last 1");
    assert!(refused.stdout.contains("another cell"), "{}{}", refused.stdout, refused.stderr);
}

#[test]
fn a_last_version_that_another_cell_removed_alarms() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 50_000));
    lab.backed_up(["tree", "--to", "m", "--name", "t", "--full"]);
    let run = |args: &str| lab.run(args.split(' '));
    let other = |args: &str| {
        let mut command = lab.command();
        finish(command.env("CAPSTAN_HOME", lab.path("other")).args(args.split(' ')))
    };
    other("media adopt m").ok();
    assert_eq!(run("status").code, 0, "all is there still");
    other("backup tree --to m --name t --full").ok();
    assert_eq!(run("status").code, 0, "what that one writes is its own");
    other("prune t --give-up").ok();
    for _ in 0..2 {
        let status = run("status");
        assert_eq!(status.code, 6, "{}", status.stdout);
        assert!(
            status.stdout.contains("another cell") && status.stdout.contains("last version needs"),
            "{}",
            status.stdout
        );
    }
    // Keep rules count nothing of it, and stand still for nothing of it.
    run("prune t --keep-last 1").ok();
    lab.backed_up(["tree", "--to", "own", "--name", "t", "--full"]);
    run("status").ok();
}

#[test]
fn a_medium_of_another_cell_is_forgotten_and_an_import_brings_it_back() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 50_000));
    let first = |args: &str| {
        let mut command = lab.command();
        command.env("CAPSTAN_HOME", lab.path("first")).args(args.split(' '));
        finish(&mut command)
    };
    first("backup tree --to m --name t").ok();
    let before = contents(&lab.path("m"));
    for _ in 0..2 {
        lab.run(["import", "m"]).ok();
        lab.restored(["t", "--into", "out"]);
        lab.run(["media", "forget", "m"]).ok();
        assert_eq!(lab.run(["restore", "t", "--into", "none"]).code, 2);
    }
    assert_eq!(contents(&lab.path("m")), before);
    lab.run(["import", "m"]).ok();
    fs::remove_dir_all(lab.path("m")).unwrap();
    lab.run(["media", "forget", "m"]).ok();
}

#[test]
fn a_tape_of_another_cell_that_was_imported_can_be_erased() {
    let lab = Lab::new();
    crate::tape::library(&lab, 1, 3);
    lab.file("tree/a", noise(1, 50_000));
    let mut command = lab.command();
    command.env("CAPSTAN_HOME", lab.path("first"));
    finish(command.args(["backup", "tree", "--to", "vtape:vtl", "--name", "t"])).ok();
    lab.run(["import", "vtape:vtl"]).ok();
    let erase = ["media", "erase", "vtape:vtl?tape=V00001L9", "--foreign"];
    lab.run(erase).refused(&["another cell", "media forget 'V00001L9'"]);
    lab.run(["media", "forget", "V00001L9"]).ok();
    lab.run(erase).ok();
    lab.backed_up(["tree", "--to", "vtape:vtl?tape=V00001L9", "--name", "own"]);
}

#[test]
fn what_wrote_no_data_is_imported_with_its_host_and_method() {
    let lab = Lab::new();
    let at = |path: &str| lab.path(path).display().to_string();
    let mut objects = String::new();
    for name in ["a", "b"] {
        lab.file(&format!("tree/{name}/file"), noise(1, 50_000));
        let paths = at(&format!("tree/{name}"));
        objects.push_str(&format!(
            "[[object]]\nname = \"{name}\"\npaths = [\"{paths}\"]\nincr = true\n"
        ));
    }
    // Of sessions that found nothing new together the second medium has the ends, and no more.
    for medium in ["m", "m", "n"] {
        let device = at(medium);
        lab.file("spec.toml", format!("device = \"{device}\"\ntogether = 2\n{objects}"));
        lab.run(["run", "spec.toml"]).ok();
    }
    let of = |lab: &Lab| {
        let all = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
        let all = all.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let mut all: Vec<_> = all.filter(|s| s["kind"] == "backup").collect();
        all.sort_by_key(|s| s["id"].as_str().map(str::to_owned));
        let what = |s: &serde_json::Value| {
            (s["id"].clone(), s["host"].clone(), s["name"].clone(), s["method"].clone())
        };
        all.iter().map(what).collect::<Vec<_>>()
    };
    let before = of(&lab);
    assert_eq!(before.len(), 6);
    for order in [["m", "n"], ["n", "m"]] {
        let other = Lab::new();
        for medium in order {
            let taken = other.run(["import", lab.path(medium).to_str().unwrap()]);
            // Until the other one is imported, what they build on is not known.
            let is_alone = order[0] == "n" && medium == "n";
            assert_eq!(taken.code, if is_alone { 3 } else { 0 }, "{}", taken.stderr);
        }
        assert_eq!(of(&other), before, "{order:?}");
    }
}
