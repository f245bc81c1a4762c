//! Disks that are not mounted: no other medium is made in their place by itself, and nothing of what they hold is given up.

use std::fs;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Mount, Run, below, can_mount, loop_devices, noise, skip};

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 10_000));
    lab
}

fn night(lab: &Lab, n: usize) -> Run {
    lab.file("tree/changes", format!("night {n}"));
    lab.run(["run", spec(lab, "disk").as_str()])
}

fn spec(lab: &Lab, device: &str) -> String {
    let at = lab.path("").display().to_string();
    let at = at.trim_end_matches('/');
    let text = format!(
        "device = \"{at}/{device}\"\n[[object]]\nname = \"t\"\npaths = [\"{at}/tree\"]\nfull = true\n[keep]\nlast = 2\n"
    );
    lab.file(&format!("{device}.toml"), text).display().to_string()
}

fn sessions(lab: &Lab) -> Vec<String> {
    let run = lab.run(["sessions", "--kind", "all", "--json"]);
    let lines = run.ok().rows().into_iter();
    let backups = lines.filter(|s| s["kind"] == "backup" && s["status"] == "completed");
    backups.map(|s| s["id"].as_str().unwrap().to_owned()).collect()
}

fn status(lab: &Lab) -> (i32, Value) {
    let run = lab.run(["status", "--json"]);
    (run.code, serde_json::from_str(&run.stdout).unwrap())
}

fn restores(lab: &Lab, version: &str) {
    lab.restored([version, "--into", "out"]);
    let out = below(&lab.path("out"), &lab.path("tree"));
    assert_eq!(fs::read(out.join("a")).unwrap(), noise(1, 10_000));
    fs::remove_dir_all(lab.path("out")).unwrap();
}

/// The nights of the story: three with the disk, two without, one when it is back.
#[test]
fn a_disk_that_is_not_mounted_costs_no_backup() {
    if !loop_devices() {
        return skip("loop devices cannot be mounted here");
    }
    let lab = lab();
    lab.sh("truncate -s 64M image; mkfs.ext4 -q image");
    let (image, at) = (lab.path("image").display().to_string(), lab.path("disk"));
    let mount = || Mount::new(&["-o", "loop", &image], &at);
    let disk = mount();
    for n in 1..=3 {
        night(&lab, n).ok();
    }
    let made = sessions(&lab);
    lab.run(["status"]).ok();
    drop(disk);
    for n in 4..=5 {
        let ran = night(&lab, n);
        assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
        for word in ["medium 'disk'", "nothing is there now", "--new-medium"] {
            assert!(ran.stderr.contains(word), "{word}: {}", ran.stderr);
        }
    }
    lab.run(["backup", "tree", "--to", "disk", "--name", "t"]).refused(&[
        "'disk'",
        "--new-medium",
        "hint",
    ]);
    assert_eq!(fs::read_dir(&at).unwrap().count(), 0, "nothing was made in the mount point");
    let (code, json) = status(&lab);
    assert_eq!((code, &json["status"]), (6, &"critical".into()), "{json}");
    assert_eq!(json["media_away"][0]["label"], "disk", "{json}");
    let plugin = lab.run(["status", "--plugin"]);
    assert_eq!(plugin.code, 2);
    let line = plugin.stdout.lines().next().unwrap();
    assert!(line.contains("'disk'") && line.contains(&at.display().to_string()), "{line}");
    let _disk = mount();
    night(&lab, 6).ok();
    lab.run(["status"]).ok();
    // The rule counts nights with a backup: the last of before, and this one.
    restores(&lab, &format!("t@{}", &made[0][..8]));
    lab.run(["verify", "t"]).ok();
}

#[test]
fn a_stand_in_gives_up_nothing_of_the_medium_that_is_away() {
    let lab = lab();
    let disk = spec(&lab, "disk");
    for n in 1..=2 {
        lab.file("tree/changes", format!("night {n}"));
        lab.run(["run", disk.as_str()]).ok();
    }
    let made = sessions(&lab);
    assert_eq!(made.len(), 2);
    // Another medium is in its place on purpose, the first is away though nobody took it away.
    fs::rename(lab.path("disk"), lab.path("unplugged")).unwrap();
    lab.run(["backup", "tree", "--to", "disk", "--name", "t", "--dry-run"]).refused(&["'disk'"]);
    lab.run(["media", "init", "disk"]).refused(&["'disk'", "--new-medium"]);
    assert!(!lab.path("disk").exists(), "a refusal makes no directory");
    lab.run(["media", "init", "disk", "--new-medium", "--label", "other"]).ok();
    for n in 3..=5 {
        lab.file("tree/changes", format!("night {n}"));
        let ran = lab.run(["run", disk.as_str()]);
        assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("keep rules of 't' stand still"), "{}", ran.stderr);
    }
    let json = lab.run(["run", "--json", disk.as_str()]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["exit_code"], &json["status"]), (&3.into(), &"completed_with_errors".into()));
    assert_eq!(json["pruned"]["media_away"][0]["label"], "disk");
    assert_eq!(json["pruned"]["removed_versions"], 0);
    let dry = lab.run(["prune", "t", "--keep-last", "1", "--dry-run"]);
    assert_eq!(dry.code, 3, "{}", dry.stdout);
    assert!(
        dry.stdout.contains("0 versions would be removed, 0 would be marked, 6 kept"),
        "{}",
        dry.stdout
    );
    let (code, json) = status(&lab);
    assert_eq!((code, &json["status"]), (5, &"warning".into()), "the newest is there: {json}");
    let said = lab.run(["status"]).stdout;
    assert!(
        said.contains("Medium 'disk'") && said.contains("medium 'other' is in its place"),
        "{said}"
    );
    // It is back, somewhere else: all it has is there, and the rules go on.
    restores_from_import(&lab, &made);
}

fn restores_from_import(lab: &Lab, made: &[String]) {
    lab.run(["import", "unplugged"]).ok();
    for session in made {
        restores(lab, &format!("t@{}", &session[..8]));
    }
    lab.run(["status"]).ok();
    let pruned = lab.run(["prune", "t", "--keep-last", "1"]);
    assert!(
        pruned.ok().stdout.contains("5 versions removed, 0 marked, 1 kept"),
        "{}",
        pruned.stdout
    );
}

#[test]
fn what_was_exported_or_forgotten_holds_nothing_back() {
    let lab = lab();
    for (name, medium) in [("t", "m1"), ("t", "m1"), ("t", "m2"), ("u", "m1")] {
        lab.backed_up(["tree", "--to", medium, "--name", name, "--full"]);
    }
    fs::rename(lab.path("m1"), lab.path("away")).unwrap();
    let kept = |words: &str, code: i32| {
        let run = lab.run(["prune", "--keep-last", "1", "--dry-run"]);
        assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
        assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
    };
    kept("0 versions would be removed, 0 would be marked, 4 kept", 3);
    lab.run(["media", "export", "m1", "--to", "vault"]).ok();
    kept("2 versions would be removed, 0 would be marked, 2 kept", 0);
    lab.run(["status"]).ok();
    // It is back, and lost for good.
    lab.run(["import", "away"]).ok();
    lab.run(["media", "forget", "m1"]).refused(&["at hand", "erase"]);
    fs::rename(lab.path("away"), lab.path("lost")).unwrap();
    assert_eq!(lab.run(["status"]).code, 6, "of 'u' there is nothing else");
    let forgotten = lab.run(["media", "forget", "m1"]);
    assert!(forgotten.ok().stdout.contains("3 versions"), "{}", forgotten.stdout);
    kept("0 versions would be removed, 0 would be marked, 1 kept", 0);
    // Nothing was removed from it: who finds it has all of it again.
    lab.run(["import", "lost"]).ok();
    lab.restored(["u", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    kept("2 versions would be removed, 0 would be marked, 2 kept", 0);
}

#[test]
fn an_import_brings_back_what_was_given_up_and_not_removed() {
    let lab = lab();
    for medium in ["m1", "m1", "m2"] {
        lab.backed_up(["tree", "--to", medium, "--name", "t", "--full"]);
    }
    let made = sessions(&lab);
    // Taken away on purpose: its versions count, and expire.
    lab.run(["media", "export", "m1"]).ok();
    fs::rename(lab.path("m1"), lab.path("away")).unwrap();
    let pruned = lab.run(["prune", "--keep-last", "1"]);
    assert!(pruned.ok().stdout.contains("2 versions removed"), "{}", pruned.stdout);
    let version = format!("t@{}", &made[2][..8]);
    assert_ne!(lab.run(["restore", &version, "--into", "out"]).code, 0);
    fs::rename(lab.path("away"), lab.path("m1")).unwrap();
    let imported = lab.run(["import", "m1", "-v"]);
    let said = format!("{}{}", imported.ok().stdout, imported.stderr);
    assert!(said.contains("2 of its versions that were given up"), "{said}");
    restores(&lab, &version);
    // The rules decide anew, and then it goes.
    let pruned = lab.run(["prune", "--keep-last", "2"]);
    assert!(
        pruned.ok().stdout.contains("1 version removed, 0 marked, 2 kept"),
        "{}",
        pruned.stdout
    );
    lab.run(["idb", "check"]).ok();
}

#[test]
fn every_command_that_makes_a_medium_asks_for_its_place() {
    let lab = lab();
    lab.backed_up(["tree", "--to", "m1", "--name", "t"]);
    lab.backed_up(["tree", "--to", "m2", "--name", "u"]);
    lab.backed_up(["tree", "--to", "rait1:a,b", "--name", "v"]);
    for name in ["m2", "a", "b"] {
        fs::rename(lab.path(name), lab.path(format!("{name}-away"))).unwrap();
    }
    let sentence = ["known to be in", "--new-medium"];
    let refused = |args: &str| {
        lab.run(args.split(' ')).refused(&sentence);
        for name in ["m2", "a", "b"] {
            assert!(!lab.path(name).exists(), "{args} made {name}");
        }
    };
    refused("backup tree --to m2");
    refused("backup tree --to ./m2/");
    // A mirror that is away is left out, and none is made in its place.
    let run = lab.run("backup tree --to m1 --mirror m2 --name t".split(' '));
    assert!(run.code == 3 && run.stderr.contains("mirror-away"), "{}{}", run.stdout, run.stderr);
    assert!(!lab.path("m2").exists());
    refused("backup tree --to a");
    refused("backup tree --to rait1:x,a");
    refused("backup tree --to rait1:a,b");
    refused("copy t --to m2");
    lab.backed_up(["tree", "--to", "m1", "--name", "t", "--incr"]);
    refused("consolidate t --to m2");
    refused("stage m1 --to m2");
    refused("media retire m1 --to m2");
    refused("media copy m1 --to m2");
    refused("media init m2");
    // An array does without a member; it is written anew where it was, and nowhere where another medium was.
    fs::rename(lab.path("a-away"), lab.path("a")).unwrap();
    lab.run(["rait", "rebuild", "rait1:a,b", "--member", "2", "--onto", "m2"]).refused(&sentence);
    lab.run(["rait", "rebuild", "rait1:a,b", "--member", "2", "--onto", "b"]).ok();
    // On purpose.
    lab.run(["copy", "t", "--to", "m2", "--new-medium"]).ok();
    lab.run(["pool", "create", "p"]).ok();
    lab.run(["backup", "tree", "--to", "pool:p", "--new-medium"]).refused(&["media init"]);
}

#[test]
fn no_medium_is_made_in_an_empty_mount_point() {
    if !can_mount() {
        return skip("file systems cannot be mounted here");
    }
    let lab = lab();
    let disk = lab.mkdir("my disk");
    let fstab =
        format!("/dev/none {} ext4 noauto 0 0\n", disk.display().to_string().replace(' ', "\\040"));
    let run = |args: &[&str]| lab.run_with_fstab(&fstab, args);
    run(&["backup", "tree", "--to", "my disk"]).refused(&[
        "nothing is mounted at",
        "my disk",
        "--new-medium",
    ]);
    run(&["backup", "tree", "--to", "my disk/desk"]).refused(&["nothing is mounted at"]);
    run(&["media", "init", "my disk"]).refused(&["nothing is mounted at"]);
    // Nor a home, which would be another cell's.
    run(&["media", "list", "--home", "my disk/home"]).refused(&["no home is made"]);
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 0);
    {
        let _disk = Mount::new(&["-t", "tmpfs", "tmpfs"], &disk);
        run(&["backup", "tree", "--to", "my disk/desk"]).ok();
    }
    run(&["media", "init", "my disk", "--new-medium"]).ok();
}

#[test]
fn where_disks_take_turns_one_that_is_missing_was_not_taken_away() {
    let lab = lab();
    let pair = ["tree", "--name", "t", "--to", "first", "--mirror", "usb"];
    lab.backed_up(pair);
    lab.sh("mv usb usb-a");
    lab.backed_up([&pair[..], &["--new-medium"]].concat());
    lab.run(["media", "export", "usb-2"]).ok();
    lab.sh("mv usb usb-b");
    let run = lab.run([&["backup"], &pair[..]].concat());
    assert_eq!(run.code, 3, "{}", run.stderr);
    for word in ["mirror-away", "is known to be in", "--new-medium"] {
        assert!(run.stderr.contains(word), "'{word}' is not in: {}", run.stderr);
    }
    assert!(!lab.path("usb").exists());
}

/// Disks that are in one place in turn are each enough by themselves, though sessions name the same device.
#[test]
fn where_two_disks_take_turns_in_one_place_each_builds_on_its_own() {
    let lab = lab();
    let pair = ["tree", "--name", "t", "--to", "usb/m"];
    let turn = |n: usize, from: Option<&str>, to: &str, options: &[&str]| -> serde_json::Value {
        if let Some(from) = from {
            lab.sh(&format!("mv usb {from}"));
        }
        lab.sh(&format!("mv {to} usb; echo {n} >>tree/changed"));
        lab.backed_up([&pair[..], options].concat())
    };
    lab.sh("mkdir -p disk-a disk-b");
    let full_a = turn(1, None, "disk-a", &[]);
    let full_b = turn(2, Some("disk-a"), "disk-b", &["--new-medium"]);
    assert!(full_b["base_session"].is_null() && !full_a["session"].is_null(), "{full_b}");
    let incr_b = turn(3, Some("disk-b"), "disk-b", &[]);
    let incr_a = turn(4, Some("disk-b"), "disk-a", &[]);
    assert_eq!(incr_b["base_session"], full_b["session"]);
    assert_eq!(incr_a["base_session"], full_a["session"]);
    lab.sh("rm -rf disk-b");
    lab.restored(["t", "--into", "out"]);
    crate::compare::same(
        &lab,
        &lab.path("tree"),
        &crate::support::below(&lab.path("out"), &lab.path("tree")),
    );
}
