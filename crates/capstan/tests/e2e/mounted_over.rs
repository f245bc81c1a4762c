//! The place of a medium while its disk is not mounted, or another one is mounted over it: what lies there is no medium to write to, also
//! where it is an older copy of it.

use crate::known_damage::damage;
use crate::support::{Lab, Mount, can_mount, noise, skip};

/// A medium `d` of which an older copy is `old`, and a copy of all that it has on `c`.
fn lab() -> Lab {
    let lab = Lab::new();
    let backup = || lab.backed_up(["s", "--to", "d", "--name", "z", "--full"]);
    lab.file("s/a", noise(1, 200_000));
    backup();
    lab.sh("cp -a d old");
    lab.file("s/b", noise(2, 200_000));
    backup();
    lab.run(["copy", "--medium", "d", "--to", "c"]).ok();
    lab
}

/// Names and contents of all files of a directory.
fn state(lab: &Lab, dir: &str) -> String {
    lab.sh(&format!("cd {dir}; find . -type f -exec sha256sum {{}} + | sort"))
}

/// All that writes to a known medium, or removes something from it.
fn nothing_is_written(lab: &Lab) {
    let before = state(lab, "d");
    let newest = lab.run(["versions", "z", "--json"]).ok().rows()[0].clone();
    let newest = format!("z@{}", newest["session"].as_str().unwrap());
    for args in [
        &["media", "repair", "d"][..],
        &["media", "repair", "d", "--from", "c"],
        &["media", "repair", "d", "--dry-run"],
        &["media", "erase", "d", "--give-up"],
        &["media", "recycle", "d", "--give-up"],
        &["media", "label", "d", "other"],
        &["backup", "s", "--to", "d", "--name", "z"],
        &["copy", "--medium", "c", "--to", "d"],
    ] {
        lab.run(args).refused(&["not as it was last written", "--as-it-is"]);
        assert_eq!(state(lab, "d"), before, "{args:?}");
    }
    let locked = lab.run(["lock", &newest, "--until", "1d"]);
    assert!(locked.ok().stdout.contains("not recorded on d"), "{}", locked.stdout);
    lab.run(["prune", "z", "--keep-last", "1"]);
    assert_eq!(state(lab, "d"), before);
}

/// The disk is back: nothing is missed, and all is as before.
fn all_is_as_before(lab: &Lab, before: &str) {
    assert_eq!(state(lab, "d"), before);
    lab.run(["verify", "--medium", "d"]).ok();
    lab.run(["media", "repair", "d"]).ok();
    lab.backed_up(["s", "--to", "d", "--name", "z"]);
    lab.run(["status", "z"]).ok();
    lab.run(["idb", "check"]).ok();
}

#[test]
fn an_older_copy_in_the_place_of_a_disk_is_not_written() {
    let lab = lab();
    let before = state(&lab, "d");
    lab.sh("mv d away; cp -a old d");
    nothing_is_written(&lab);
    // Nor is its header, where that is damaged.
    lab.sh("printf x | dd of=d/medium.capstan bs=1 seek=100 conv=notrunc status=none");
    let hurt = state(&lab, "d");
    lab.run(["media", "repair", "d"]).refused(&["not as it was last written"]);
    assert_eq!(state(&lab, "d"), hurt);
    lab.sh("rm -r d; mv away d");
    all_is_as_before(&lab, &before);
}

#[test]
fn a_disk_that_is_mounted_over_a_medium_is_not_written() {
    if !can_mount() {
        skip("nothing can be mounted here");
        return;
    }
    let lab = lab();
    let before = state(&lab, "d");
    let over = Mount::new(&["-t", "tmpfs", "tmpfs"], &lab.path("d"));
    lab.run(["media", "repair", "d", "--from", "c"]).refused(&["no medium is there"]);
    assert_eq!(state(&lab, "d"), "");
    lab.sh("cp -a old/. d/");
    nothing_is_written(&lab);
    drop(over);
    all_is_as_before(&lab, &before);
}

/// The disk that was written lost its last segment: somebody who knows that says so.
#[test]
fn a_disk_that_lost_its_last_segment_is_repaired_when_somebody_says_so() {
    let lab = lab();
    lab.sh("rm d/00000002.segment");
    let run = lab.run(["media", "repair", "d"]);
    run.refused(&["segment 2", "is missing", "`capstan media repair 'd' --as-it-is`"]);
    lab.run(["media", "repair", "d", "--as-it-is", "--from", "c"]).ok();
    lab.run(["verify", "--medium", "d"]).ok();
    // What damage explains needs no such word.
    damage(&lab.path("d"));
    lab.run(["media", "repair", "d"]).ok();
    lab.run(["verify", "--medium", "d"]).ok();
    let last = "$(ls d/*.segment | tail -1)";
    lab.sh(&format!("truncate -s -5000 {last}"));
    lab.run(["media", "repair", "d"]).ok();
    lab.run(["verify", "--medium", "d"]).ok();
    lab.run(["status"]).ok();
}
