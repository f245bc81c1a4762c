//! Media and pools: what is shown of them, what becomes of them, which one a session takes.

use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Mount, Run, below, can_mount, finish, noise, skip};

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 100_000));
    lab.file("tree/dir/b", "some text");
    lab
}

/// What `media show --json` says.
fn show(lab: &Lab, medium: &str) -> Value {
    let run = lab.run(["media", "show", medium, "--json"]);
    serde_json::from_str(&run.ok().stdout).unwrap()
}

fn state(lab: &Lab, medium: &str) -> String {
    show(lab, medium)["state"].as_str().unwrap().to_owned()
}

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

fn segments(medium: &Path) -> usize {
    let names = fs::read_dir(medium).unwrap().map(|e| e.unwrap().file_name());
    names.filter(|n| n.to_string_lossy().ends_with(".segment")).count()
}

#[test]
fn a_medium_is_made_named_and_shown() {
    let lab = lab();
    run(&lab, "media init m1 --label monday --block-size 64K").ok();
    assert_eq!(state(&lab, "monday"), "free");
    run(&lab, "media init m1").refused(&["monday", "already", "hint"]);
    run(&lab, "media init tree").refused(&["tree", "not empty"]);
    run(&lab, "media init m2 --label monday").refused(&["monday", "another medium"]);
    lab.mkdir("blank");
    run(&lab, "media show blank").refused(&["blank", "media init"]);
    run(&lab, "media show nothing").refused(&["nothing", "media list"]);

    lab.backed_up(["tree", "--to", "m1", "--name", "t"]);
    run(&lab, "media label monday tuesday").ok();
    let json = show(&lab, "m1");
    assert_eq!(
        (json["label"].as_str(), json["state"].as_str()),
        (Some("tuesday"), Some("appendable"))
    );
    assert_eq!((&json["sessions"], &json["segments"]), (&1.into(), &1.into()), "{json}");
    assert_eq!((json["condition"].as_str(), &json["passes"]), (Some("good"), &1.into()));
    assert!(json["bytes"].as_u64() > Some(100_000) && json["free_bytes"].as_u64() > Some(0));
    // The label is on the medium: another home reads it there, and the next session still fits.
    assert_eq!(lab.backed_up(["tree", "--to", "m1", "--name", "t"])["media"][0], "tuesday");
    let mut other = lab.command();
    other.env("CAPSTAN_HOME", lab.path("other")).args(["media", "import", "m1"]);
    finish(&mut other).ok();
    let mut other = lab.command();
    other.env("CAPSTAN_HOME", lab.path("other")).args(["media", "list"]);
    assert!(finish(&mut other).ok().stdout.contains("tuesday"));
    run(&lab, "media verify tuesday").ok();
    let list = run(&lab, "media list");
    assert!(list.ok().stdout.lines().nth(1).unwrap().starts_with("tuesday  "), "{}", list.stdout);
}

#[test]
fn an_exported_medium_is_not_written_and_restores_say_where_it_went() {
    let lab = lab();
    lab.backed_up(["tree", "--to", "m1", "--name", "t"]);
    lab.run(["media", "export", "m1", "--to", "bank, box 7"]).ok();
    assert_eq!(state(&lab, "m1"), "exported");
    lab.run(["backup", "tree", "--to", "m1"]).refused(&["exported", "bank, box 7", "media import"]);
    fs::rename(lab.path("m1"), lab.path("away")).unwrap();
    let restore = ["restore", "t", "--into", "out"];
    lab.run(restore).refused(&["'m1'", "exported", "bank, box 7", "hint"]);
    // It comes back, to another place.
    run(&lab, "media import away").ok();
    assert_eq!(state(&lab, "m1"), "appendable");
    lab.run(restore).ok();
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    lab.backed_up(["tree", "--to", "away", "--name", "t"]);
}

#[test]
fn recycling_gives_up_what_may_go_and_nothing_else() {
    let lab = lab();
    lab.backed_up(["tree", "--to", "m1", "--name", "t"]);
    run(&lab, "media recycle m1").refused(&["t@", "must stay"]);
    assert_eq!((segments(&lab.path("m1")), state(&lab, "m1").as_str()), (1, "appendable"));
    // What a failed session left nobody asked for.
    let failing = ["--from-command", "cat tree/a; false", "--name", "f", "--to", "m2"];
    assert_eq!(lab.backup(failing)["status"], "failed");
    let before = show(&lab, "m2");
    assert_eq!((before["state"].as_str(), segments(&lab.path("m2"))), (Some("expired"), 1));
    let done = run(&lab, "media recycle m2");
    assert!(done.ok().stdout.contains("1 segments and 1 versions"), "{}", done.stdout);
    let after = show(&lab, "m2");
    assert_eq!((after["state"].as_str(), segments(&lab.path("m2"))), (Some("free"), 0));
    assert_ne!(before["id"], after["id"]);
    assert_eq!((&before["made"], &after["passes"]), (&after["made"], &1.into()));
    assert_eq!(fs::read_dir(lab.path("home/catalogs")).unwrap().count(), 1, "that of m1");
    lab.backed_up(["tree", "--to", "m2", "--name", "t"]);
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
}

#[test]
fn an_erased_medium_is_blank_and_forgotten() {
    for secure in [&[][..], &["--secure"]] {
        let lab = lab();
        let erase = |medium: &str| lab.run([&["media", "erase", medium], secure].concat());
        let kept = lab.backed_up(["tree", "--to", "m1", "--name", "t"]);
        erase("m1").refused(&["t@", "must stay"]);
        assert_eq!((segments(&lab.path("m1")), state(&lab, "m1").as_str()), (1, "appendable"));
        erase("nothing").refused(&["no medium is called"]);
        lab.backed_up(["tree", "--to", "m2", "--name", "t", "--full", "--protect", "none"]);
        // What overwriting does is seen by who has the file still.
        let names = ["00000001.segment", "medium.capstan"];
        let held = names.map(|name| fs::File::open(lab.path("m2").join(name)).unwrap());
        erase("m2").refused(&["t@", "last complete version", "capstan media erase m2 --give-up"]);
        let done = lab.run([&["media", "erase", "m2", "--give-up"], secure].concat());
        assert!(
            done.ok().stdout.contains("in 1 segments and 1 versions are gone"),
            "{}",
            done.stdout
        );
        assert_eq!(fs::read_dir(lab.path("m2")).unwrap().count(), 0);
        for (name, mut file) in names.iter().zip(held) {
            let mut left = Vec::new();
            file.read_to_end(&mut left).unwrap();
            assert_eq!(left.iter().all(|b| *b == 0), !secure.is_empty(), "{name}");
        }
        let listed = run(&lab, "media list");
        // The directory of the test may have any name.
        assert!(
            !listed.ok().stdout.contains(lab.path("m2").to_str().unwrap()),
            "{}",
            listed.stdout
        );
        run(&lab, "idb check").ok();
        run(&lab, "media init m2 --label again").ok();
        assert_eq!(state(&lab, "again"), "free");
        // What is locked on the medium stays whatever the database says; an erase that was cut short is done again.
        erase("again").ok();
        lab.restored(["t", "--into", "out"]);
        same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
        let name = format!("t@{}", kept["session"].as_str().unwrap());
        lab.run(["lock", &name, "--until", "3d"]).ok();
        lab.run(["protect", &name, "--none"]).ok();
        erase("m1").refused(&["must stay"]);
    }
}

#[test]
fn an_erase_that_was_cut_short_is_done_again() {
    let lab = lab();
    lab.backed_up(["tree", "--to", "m1", "--name", "t", "--protect", "none"]);
    // After the database forgot, and half of the files are gone.
    lab.backed_up(["tree", "--to", "m2", "--name", "u", "--protect", "none"]);
    run(&lab, "media recycle m1 --give-up").ok();
    run(&lab, "media erase m1").ok();
    // All of it is gone, and only the medium is known still.
    run(&lab, "media recycle m2 --give-up").ok();
    lab.sh("rm m2/*");
    run(&lab, "media erase m2").ok();
    assert!(run(&lab, "media list --json").ok().rows().is_empty());
    run(&lab, "idb check").ok();
}

#[test]
fn damage_is_part_of_a_mediums_condition_until_it_is_gone() {
    let lab = lab();
    lab.backed_up(["tree", "--to", "m1", "--name", "t"]);
    let segment = lab.path("m1/00000001.segment");
    let sound = fs::read(&segment).unwrap();
    let mut broken = sound.clone();
    broken[50_000] ^= 1;
    fs::write(&segment, &broken).unwrap();
    assert_eq!(run(&lab, "media verify m1").code, 3);
    let json = show(&lab, "m1");
    assert_eq!(
        (json["state"].as_str(), json["condition"].as_str()),
        (Some("damaged"), Some("fair"))
    );
    assert!(json["reasons"][0].as_str().unwrap().contains("1 error"), "{json}");
    fs::write(&segment, &sound).unwrap();
    run(&lab, "media verify m1").ok();
    assert_eq!(state(&lab, "m1"), "appendable");
    // A verification that read all of it and found nothing takes errors of a disk back.
    assert_eq!(show(&lab, "m1")["errors"], 0);
}

#[test]
fn a_medium_of_another_cell_is_read_and_not_written_until_it_is_adopted() {
    let lab = lab();
    lab.backed_up(["tree", "--to", "m1", "--name", "t"]);
    fs::rename(lab.path("home"), lab.path("first")).unwrap();
    lab.run(["backup", "tree", "--to", "m1"]).refused(&["another cell", "media adopt"]);
    run(&lab, "media import m1").ok();
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    run(&lab, "media label m1 mine").refused(&["another cell"]);
    run(&lab, "media recycle m1").refused(&["another cell"]);
    assert_eq!((&show(&lab, "m1")["foreign"], state(&lab, "m1")), (&true.into(), "foreign".into()));
    run(&lab, "media adopt m1").ok();
    assert_eq!(state(&lab, "m1"), "appendable");
    run(&lab, "media adopt m1").refused(&["already"]);
    lab.backed_up(["tree", "--to", "m1", "--name", "t", "--incr"]);
    // Now it is the first cell that must not.
    let mut first = lab.command();
    first.env("CAPSTAN_HOME", lab.path("first")).args(["backup", "tree", "--to", "m1"]);
    finish(&mut first).refused(&["another cell"]);
}

#[test]
fn a_pool_chooses_the_medium_or_says_what_is_needed() {
    let lab = lab();
    let to_pool = ["tree", "--to", "pool:office", "--name", "t"];
    let backup = ["backup", "tree", "--to", "pool:office"];
    lab.run(backup).refused(&["office", "pool create"]);
    run(&lab, "pool create office --not-appendable").ok();
    lab.run(backup).refused(&["office", "it has none", "media init DEVICE --pool office"]);
    run(&lab, "media init m1 --pool office").ok();
    assert_eq!(lab.backed_up(to_pool)["media"][0], "m1");
    assert_eq!(state(&lab, "m1"), "protected");
    run(&lab, "media init m2").ok();
    lab.run(backup).refused(&["m1 holds what must stay"]);
    // A loose pool takes a free medium of nobody, which is its own from then on.
    run(&lab, "pool set office --allocation loose").ok();
    assert_eq!(lab.backed_up(to_pool)["media"][0], "m2");
    assert_eq!(show(&lab, "m2")["pool"], "office");
    run(&lab, "pool create spare").ok();
    run(&lab, "media init m3 --pool spare").ok();
    run(&lab, "pool set office --allocation strict --free-pool spare").ok();
    run(&lab, "pool delete spare").refused(&["1 media"]);
    assert_eq!(lab.backed_up(to_pool)["media"][0], "m3");
    run(&lab, "pool delete spare").refused(&["office", "draws"]);
    lab.run(["media", "export", "m1", "--to", "vault"]).ok();
    fs::rename(lab.path("m2"), lab.path("gone")).unwrap();
    let refused = lab.run(backup);
    refused.refused(&["m1 is exported to vault", "m2", "m3 holds what must stay"]);
    run(&lab, "pool set office --appendable").ok();
    assert_eq!(lab.backed_up(to_pool)["media"][0], "m3");
    let page = run(&lab, "pool show office");
    assert!(page.ok().stdout.contains("strict, appendable, draws from spare"), "{}", page.stdout);
    assert!(run(&lab, "pool list").ok().stdout.contains("office"));
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
}

#[test]
fn a_pool_whose_media_rotate() {
    let lab = lab();
    run(&lab, "pool create gfs --rotation daily=1,weekly=1,monthly=1").ok();
    run(&lab, "media init m1 --pool gfs").ok();
    let to_pool = ["tree", "--to", "pool:gfs", "--name", "t"];
    assert_eq!(lab.backed_up(to_pool)["media"][0], "m1");
    let set = show(&lab, "m1")["rotation_set"].as_str().unwrap().to_owned();
    assert!(["daily", "weekly", "monthly"].contains(&set.as_str()));
    run(&lab, "media init m2 --pool gfs").ok();
    // The set has its one medium, and it is still its day (unless that just ended).
    let report = lab.backup(to_pool);
    assert!(report["media"][0] == "m1" || report["status"] == "failed", "{report}");
    assert_eq!(show(&lab, "m2")["rotation_set"], Value::Null);
    run(&lab, "pool set gfs --no-rotation").ok();
}

#[test]
fn a_full_medium_makes_way_for_the_next_of_its_pool() {
    if !can_mount() {
        return skip("file systems cannot be mounted here");
    }
    let lab = Lab::new();
    for i in 0..50 {
        lab.file(&format!("tree/f{i}"), noise(i, 1 << 20));
    }
    let at = |name: &str| {
        let path = lab.path(name);
        Mount::new(&["-t", "tmpfs", "-o", "size=24M", "tmpfs"], &path)
    };
    let (_one, _two) = (at("m1"), at("m2"));
    run(&lab, "pool create office").ok();
    run(&lab, "media init m1 --pool office").ok();
    run(&lab, "media init m2 --pool office").ok();
    let to_pool =
        ["tree", "--to", "pool:office", "--name", "t", "--compress", "off", "--segment-size", "4M"];
    let report = lab.backup(to_pool);
    assert_eq!(
        (&report["status"], &report["media"]),
        (&"failed".into(), &serde_json::json!(["m1", "m2"]))
    );
    let said = report["errors"].to_string();
    assert!(said.contains("no usable medium") && said.contains("m1 is full"), "{said}");
    let _three = at("m3");
    run(&lab, "media init m3 --pool office").ok();
    let mut resume: Vec<&str> = to_pool.to_vec();
    resume.push("--resume");
    lab.backed_up(&resume);
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
}

#[test]
fn all_that_lies_on_a_medium_is_protected_at_once() {
    let lab = lab();
    lab.run(["media", "protect", "nowhere", "--permanent"]).refused(&["no medium is called"]);
    let sessions: Vec<Value> = (0..2)
        .map(|n| {
            lab.file("tree/changes", format!("day {n}"));
            lab.backed_up(["tree", "--to", "m1", "--name", "t"])
        })
        .collect();
    lab.backed_up(["tree", "--to", "m2", "--name", "u", "--full"]);
    lab.run(["media", "protect", "m1", "--until", "2001-01-01"]).refused(&["in the past"]);
    let said = run(&lab, "media protect m1 --permanent").ok().stdout.clone();
    for (line, session) in said.lines().zip(&sessions) {
        let name = format!("t@{}: ", &session["session"].as_str().unwrap()[..8]);
        assert!(line.starts_with(&name) && line.contains("for ever"), "{said}");
    }
    assert_eq!(said.lines().count(), 2, "{said}");
    run(&lab, "media recycle m1").refused(&["t@", "must stay"]);
    assert!(run(&lab, "prune --keep-last 1").ok().stdout.contains("0 versions removed"));
    let said = run(&lab, "media protect m1 --none --json");
    assert_eq!(said.ok().rows().len(), 2, "{}", said.stdout);
    run(&lab, "media recycle m1 --give-up").ok();
}
