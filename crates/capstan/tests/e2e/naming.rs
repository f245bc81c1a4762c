//! How media and sessions are named: what could be two of them is neither.

use serde_json::Value;

use crate::support::{Lab, noise};

/// The id of a medium.
pub fn id_of(lab: &Lab, medium: &str) -> String {
    let shown = lab.run(["media", "show", medium, "--json"]);
    let json: Value = serde_json::from_str(&shown.ok().stdout).unwrap();
    json["id"].as_str().unwrap().to_owned()
}

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 50_000));
    lab.backed_up(["tree", "--to", "m", "--name", "t", "--protect", "none"]);
    lab
}

/// All that changes a medium, or reads all of it.
fn refuse_all(lab: &Lab, name: &str, words: &[&str]) {
    for line in [
        "media erase",
        "media recycle",
        "media forget",
        "media retire --no-copy",
        "media retire --undo",
        "media adopt",
        "media adopt --as-new",
        "media label --",
        "media export",
        "media move --no-pool",
        "media repair",
        "media protect --permanent",
        "media verify",
        "stage --to null: --",
        "rait status",
        "copy --to third --medium",
    ] {
        let mut args: Vec<&str> = line.split(' ').collect();
        args.push(name);
        args.extend((line == "media label --").then_some("new"));
        lab.run(args).refused(words);
    }
}

#[test]
fn the_begin_of_an_id_that_is_a_directory_too_is_neither() {
    let lab = lab();
    let id = id_of(&lab, "m");
    let name = &id[..8];
    let there = format!("./{name}");
    lab.run(["media", "init", &there, "--label", "other"]).ok();
    let other = id_of(&lab, "other");
    refuse_all(&lab, name, &[&id, &other, "2 media", &there, &format!("file:{name}")]);
    // One that this home does not know is another one just as well.
    let home = lab.path("home-2");
    lab.sh(&format!("rm -r {name}"));
    let mut init = lab.command();
    init.env("CAPSTAN_HOME", &home).args(["media", "init", &there, "--label", "theirs"]);
    assert!(init.output().unwrap().status.success());
    refuse_all(&lab, name, &[&id, "theirs", "not known here"]);
    // So is one that is known to be there and is away.
    lab.sh(&format!("rm -r {name}"));
    refuse_all(&lab, name, &[&id, &other, "away"]);
    lab.run(["media", "forget", "other"]).ok();
    lab.mkdir(name);
    lab.run(["media", "label", name, "mine"]).ok();
    lab.run(["media", "erase", &id, "--give-up"]).ok();
}

#[test]
fn a_label_that_is_another_mediums_directory_is_neither() {
    let lab = lab();
    lab.run(["media", "init", "n", "--label", "x"]).ok();
    lab.run(["media", "label", "m", "n"]).ok();
    let (m, n) = (id_of(&lab, "m"), id_of(&lab, "./n"));
    refuse_all(&lab, "n", &[&m, &n, "./n"]);
    assert_eq!((id_of(&lab, "x"), id_of(&lab, "file:n")), (n.clone(), n));
    // Its own directory is what it is.
    lab.run(["media", "label", "./n", "y"]).ok();
    lab.sh("mv n gone && mv m n");
    lab.run(["import", "n"]).ok();
    lab.run(["media", "recycle", "n", "--give-up"]).ok();
    for label in ["./z", "/z", "file:z", "null:", "vtape:z"] {
        lab.run(["media", "label", "./n", label]).refused(&[label, "device"]);
    }
    lab.run(["media", "label", "./n", "week:1"]).ok();
    lab.run(["media", "show", "week:1"]).ok();
}

#[test]
fn too_few_digits_of_an_id_name_nothing() {
    let lab = lab();
    let id = id_of(&lab, "m");
    for digits in 1..4 {
        refuse_all(&lab, &id[..digits], &[&id[..digits]]);
        lab.run(["media", "erase", &id[..digits]]).refused(&["4 digits"]);
    }
    assert_eq!(id_of(&lab, &id[..4].to_uppercase()), id);
    let report = lab.backed_up(["tree", "--to", "m", "--name", "t"]);
    let session = report["session"].as_str().unwrap();
    let version = format!("t@{}", &session[..3]);
    for line in [
        format!("sessions --show {}", &session[..3]),
        format!("protect --permanent --session {}", &session[..3]),
        format!("lock --until 1d --session {}", &session[..3]),
        format!("copy --to third --session {}", &session[..3]),
        format!("protect --permanent {version}"),
        format!("lock --until 1d {version}"),
        format!("ls {version}"),
    ] {
        lab.run(line.split(' ')).refused(&[&session[..3], "4 digits"]);
    }
    lab.run(["sessions", "--show", &session[..4]]).ok();
    lab.run(["copy", "--to", "third", "--session", &session[..4].to_uppercase()]).ok();
}

#[test]
fn a_copy_of_a_medium_is_not_taken_for_the_medium() {
    let lab = lab();
    lab.sh("cp -a m copy");
    for line in ["media erase", "media recycle", "media retire --no-copy", "media export"] {
        lab.run(line.split(' ').chain(["./copy"])).refused(&["two places", "/m", "--as-new"]);
    }
    lab.run(["media", "label", "copy", "new"]).refused(&["two places"]);
    assert_eq!(lab.run(["media", "list"]).ok().stdout.lines().count(), 2);
    lab.run(["media", "adopt", "copy", "--as-new"]).ok();
    lab.run(["media", "erase", "./copy"]).ok();
    lab.restored(["t", "--into", "out"]);
}
