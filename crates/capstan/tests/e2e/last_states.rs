//! The last state of what newer versions lack is kept: through consolidations, and of each path for itself.

use std::fs;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Mount, below, loop_devices, noise, report, skip};

const FILES: usize = 6;

/// Two paths, and a name for what is made of them.
fn lab() -> Lab {
    let lab = Lab::new();
    change(&lab, 0);
    lab.file("disk/p", noise(1, 30_000));
    lab.file("disk/dir/q", noise(2, 10_000));
    lab
}

/// Most of one path changes.
fn change(lab: &Lab, night: usize) {
    for n in (0..FILES).filter(|n| night == 0 || *n > 0) {
        lab.file(&format!("one/f{n}"), noise((night * FILES + n) as u64 + 10, 200_000));
    }
}

fn backup(lab: &Lab, level: &str, code: i32) -> String {
    let args = ["backup", "one", "disk", "--to", "medium", "--name", "t", level, "--json"];
    let run = lab.run(args);
    assert_eq!(run.code, code, "{}", run.stderr);
    report(run)["session"].as_str().unwrap().to_owned()
}

fn prune(lab: &Lab, last: &str) -> String {
    lab.run(["prune", "t", "--keep-last", last]).ok().stdout.clone()
}

fn versions(lab: &Lab) -> String {
    lab.run(["versions", "t"]).ok().stdout.clone()
}

/// A version has a path as it lies there.
fn has(lab: &Lab, session: &str, path: &str, as_in: &str) {
    lab.sh("rm -rf out");
    let version = format!("t@{session}");
    lab.restored([version.as_str(), "--into", "out"]);
    same_by_rsync(&lab.path(as_in), &below(&lab.path("out"), &lab.path(path)));
}

fn consolidations(lab: &Lab) -> usize {
    let sessions: Value =
        serde_json::from_str(&lab.run(["sessions", "--json"]).ok().stdout).unwrap();
    let sessions = sessions["sessions"].as_array().unwrap();
    sessions.iter().filter(|s| s["kind"] == "consolidate").count()
}

#[test]
fn a_consolidation_takes_over_what_its_chain_lacks() {
    let lab = lab();
    let whole = backup(&lab, "--full", 0);
    lab.sh("mv disk away");
    backup(&lab, "--full", 3);
    // Nights whose prunes consolidate what they give up.
    for night in 1..7 {
        change(&lab, night);
        backup(&lab, "--incr", 3);
        let pruned = prune(&lab, "2");
        let disk = lab.path("disk").display().to_string();
        let why = format!("last version that has {disk}");
        assert!(pruned.contains(&why), "night {night}: {pruned}");
        let status = lab.run(["status", "t"]).stdout;
        assert!(status.contains(&whole[..8]) && status.contains(&disk), "{status}");
    }
    assert!(consolidations(&lab) > 0, "no chain was consolidated");
    has(&lab, &whole, "disk", "away");
    // One that is made by hand is the last version.
    lab.run(["consolidate", "t"]).ok();
    for _ in 0..2 {
        prune(&lab, "1");
        assert!(versions(&lab).contains(&whole[..8]));
    }
    let run = lab.run(["restore", "t", "--into", "out2"]);
    assert!(run.stderr.contains(&whole[..8]), "{}", run.stderr);
    // Who has the medium alone does not know which path it is, and keeps the version too.
    fs::remove_dir_all(lab.path("home")).unwrap();
    lab.run(["import", "medium"]).ok();
    lab.run(["media", "adopt", "medium"]).ok();
    let pruned = prune(&lab, "1");
    assert!(pruned.contains("last version that has what is not on record"), "{pruned}");
    has(&lab, &whole, "disk", "away");
    let status = lab.run(["status", "t"]).stdout;
    assert!(status.contains(&whole[..8]), "{status}");
    // When the disk is back a full has all, and the old version goes: whether an incremental has nobody can say here.
    lab.sh("mv away disk");
    backup(&lab, "--incr", 0);
    prune(&lab, "1");
    assert!(versions(&lab).contains(&whole[..8]));
    backup(&lab, "--full", 0);
    prune(&lab, "1");
    assert!(!versions(&lab).contains(&whole[..8]));
}

#[test]
fn each_path_that_is_away_in_turn_keeps_its_last_state() {
    let lab = lab();
    let first = backup(&lab, "--full", 0);
    change(&lab, 1);
    lab.sh("mv disk disk.away; cp -a one one.kept");
    let second = backup(&lab, "--full", 3);
    prune(&lab, "1");
    lab.sh("mv disk.away disk; mv one one.away; echo new >disk/new");
    let third = backup(&lab, "--full", 3);
    // As earlier programs left it, only in reports.
    lab.edit_tables("UPDATE versions SET lacks = NULL");
    let pruned = prune(&lab, "1");
    let why = format!("last version that has {}", lab.path("one").display());
    assert!(pruned.contains(&why), "{pruned}");
    let left = versions(&lab);
    assert!(left.contains(&third[..8]) && !left.contains(&first[..8]), "{left}");
    has(&lab, &second, "one", "one.kept");
    has(&lab, &third, "disk", "disk");
    let status = lab.run(["status", "t"]).stdout;
    assert!(status.contains(&second[..8]), "{status}");
    // Both away, one after the other: each has its own last state.
    lab.sh("cp -a disk disk.kept; mv disk disk.away; mv one.away one");
    change(&lab, 2);
    lab.sh("rm -rf one.kept; cp -a one one.kept");
    let fourth = backup(&lab, "--full", 3);
    prune(&lab, "1");
    let left = versions(&lab);
    assert!(left.contains(&third[..8]) && !left.contains(&second[..8]), "{left}");
    has(&lab, &third, "disk", "disk.kept");
    has(&lab, &fourth, "one", "one.kept");
}

/// As a plain user: root may open everything.
#[test]
fn a_file_that_may_not_be_opened_keeps_the_last_version_that_has_it() {
    let lab = Lab::of_user();
    lab.sh("mkdir tree; echo a >tree/a; echo b >tree/b");
    let backup = |level: &str| {
        let run = lab.run(["backup", "tree", "--to", "medium", "--name", "t", level, "--json"]);
        report(run)["session"].as_str().unwrap().to_owned()
    };
    backup("--full");
    lab.sh("chmod 000 tree/a");
    // An incremental has what its base has, and takes its place.
    let incr = backup("--incr");
    lab.restored(["t", "--into", "out"]);
    assert_eq!(lab.sh("find out -name a -exec cat '{}' +").trim(), "a");
    assert!(!lab.run(["status", "t"]).stdout.contains("has nothing of"));
    for _ in 0..2 {
        backup("--full");
        let pruned = prune(&lab, "1");
        let why = format!("last version that has {}", lab.path("tree/a").display());
        assert!(pruned.contains(&why) && pruned.contains(&incr[..8]), "{pruned}");
    }
    let run = lab.run(["restore", "t", "--into", "out2"]);
    assert!(run.stderr.contains("has nothing of") && run.stderr.contains(&incr[..8]));
    let version = format!("t@{incr}");
    lab.restored([version.as_str(), "--into", "out3"]);
    assert_eq!(lab.sh("find out3 -name a -exec cat '{}' +").trim(), "a");
    // Also of a chain that was made one.
    lab.sh("echo c >tree/c");
    backup("--incr");
    lab.run(["consolidate", "t"]).ok();
    assert!(prune(&lab, "1").contains(&incr[..8]));
    lab.sh("chmod 644 tree/a");
    backup("--incr");
    prune(&lab, "1");
    assert!(!versions(&lab).contains(&incr[..8]));
}

/// A disk that dies: a file system in an image of which the end is cut off.
#[test]
fn a_disk_that_dies_does_not_push_out_what_it_had() {
    if !loop_devices() {
        return skip("loop devices cannot be mounted here");
    }
    let lab = Lab::new();
    const SIZE: usize = 6_000_000;
    lab.mkdir("kept");
    for n in 0..FILES {
        lab.file(&format!("kept/f{n}"), noise(n as u64, SIZE));
    }
    lab.sh("truncate -s 64M image; mkfs.ext4 -q -F -b 4096 image; mkdir disk; mount -o loop image disk; cp kept/* disk; umount disk");
    let image = lab.path("image").display().to_string();
    let mount = Mount::new(&["-o", "loop", &image], &lab.path("disk"));
    let backup =
        |level: &str| lab.run(["backup", "disk", "--to", "medium", "--name", "t", level, "--json"]);
    assert_eq!(backup("--full").code, 0);
    // Nothing of it is in the cache any more.
    drop(mount);
    let mount = Mount::new(&["-o", "loop", &image], &lab.path("disk"));
    lab.sh("touch disk/f*; sync -f disk; truncate -s 30M image");
    for _ in 0..2 {
        // An incremental keeps what its base has of a file that was there.
        let run = backup("--incr");
        let (code, incr) = (run.code, report(run));
        let of = incr["errors"].as_array().unwrap().iter().filter(|e| e["code"] == "unreadable");
        let texts: Vec<&str> = of.map(|e| e["error"].as_str().unwrap()).collect();
        assert!(code == 3 && !texts.is_empty(), "{incr:#}");
        assert!(texts.iter().all(|text| text.contains("is kept as it was")), "{texts:?}");
    }
    let compare = "for f in kept/*; do cmp $f $(find out -name $(basename $f)); done";
    lab.restored(["t", "--into", "out"]);
    lab.sh(compare);
    assert!(!lab.run(["status", "t"]).stdout.contains("has nothing of"));
    assert!(!prune(&lab, "9").contains("last version that has"));
    // A full does not have it.
    let run = backup("--full");
    let (code, full) = (run.code, report(run));
    assert_eq!(code, 3, "{full:#}");
    drop(mount);
    let pruned = prune(&lab, "1");
    let cut: Vec<&str> = full["errors"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["code"] == "unreadable")
        .map(|e| e["path"].as_str().unwrap())
        .collect();
    assert!(!cut.is_empty() && pruned.contains("last version that has"), "{full:#} {pruned}");
    let status = lab.run(["status", "t"]).stdout;
    assert!(cut.iter().all(|path| status.contains(path)), "{status}");
    // What is restored of it is as long as it was, and what could not be read is zeros.
    let run = lab.run(["restore", "t", "--into", "out2"]);
    assert!(run.code == 3 && run.stderr.contains("the rest is zeros"), "{}", run.stderr);
    for path in &cut {
        let name = path.rsplit('/').next().unwrap();
        let (was, is) = (noise(name[1..].parse().unwrap(), SIZE), {
            let at = below(&lab.path("out2"), &lab.path("disk")).join(name);
            fs::read(at).unwrap()
        });
        assert_eq!(is.len(), SIZE, "{name}");
        let read = is.iter().zip(&was).take_while(|(is, was)| is == was).count();
        assert!(read < SIZE && is[read..].iter().all(|byte| *byte == 0), "{name}");
    }
    // The last version that has it stays, with what it builds on.
    lab.sh("rm -rf out");
    let left = versions(&lab);
    let kept = left.lines().filter_map(|line| line.strip_prefix("t@")).next_back().unwrap();
    let version = format!("t@{}", &kept[..8]);
    lab.restored([version.as_str(), "--into", "out"]);
    lab.sh(compare);
}

/// A file that cannot be opened any more is known by its inode where it, or a directory above it, is moved.
#[test]
fn what_cannot_be_opened_is_kept_where_it_is_moved() {
    let lab = Lab::of_user();
    lab.sh(
        "mkdir -p tree/d tree/x; echo one >tree/d/1; head -c 90000 /dev/urandom >tree/d/5; ln tree/d/5 tree/d/link; \
         echo alone >tree/x/alone; echo other >tree/x/other; truncate -s 1M tree/d/holes; echo end >>tree/d/holes",
    );
    let backup = |level: &str| {
        report(lab.run(["backup", "tree", "--to", "medium", "--name", "t", level, "--json"]))
    };
    let opened = |report: &Value| report["errors"].to_string().matches("not-opened").count();
    backup("--full");
    lab.sh("cp -a tree kept; chmod 000 tree/d/5 tree/d/holes tree/x/alone");
    assert_eq!(opened(&backup("--incr")), 4);
    // A directory above, the file itself, and that in the place of another one.
    lab.sh("mv tree/d tree/e; mv tree/x/alone tree/x/other; mv kept/d kept/e; mv kept/x/alone kept/x/other");
    for night in 0..3 {
        let report = backup("--incr");
        assert_eq!((&report["status"], opened(&report)), (&"completed_with_errors".into(), 4));
        let text = report["errors"].to_string();
        assert!(
            night > 0 || text.contains("it was moved, and what the last version has"),
            "{text}"
        );
        lab.run(["prune", "t", "--keep-last", "1"]).ok();
        lab.sh("rm -rf out");
        lab.restored(["t", "--into", "out"]);
        let out = below(&lab.path("out"), &lab.path("tree"));
        lab.sh(&format!("cd '{}'; chmod --reference=e/1 e/5 e/holes x/other", out.display()));
        lab.sh(&format!(
            "cd kept; find . -type d -exec touch -r '{}'/{{}} {{}} ';'",
            out.display()
        ));
        same_by_rsync(&lab.path("kept"), &out);
    }
    let verified = lab.run(["verify", "t"]);
    assert_eq!(verified.code, 0, "{}", verified.stdout);
    lab.sh("cd tree; chmod --reference=e/1 e/5 e/holes x/other");
    assert_eq!(backup("--incr")["error_count"], 0);
    lab.sh("rm -rf out");
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
}

/// The medium of a full is lost for good: what the incremental's medium has is to be had all the same, by the session's name.
#[test]
fn what_an_incremental_has_itself_comes_without_its_base() {
    let lab = Lab::new();
    for n in 1..=4 {
        lab.file(&format!("t/f{n}"), noise(n, 100_000));
    }
    lab.backed_up(["t", "--to", "m1", "--name", "t"]);
    lab.file("t/f2", noise(9, 120_000));
    lab.sh("echo new >t/new; chmod 600 t/f1; mv t/f3 t/m3");
    let session = lab.backed_up(["t", "--to", "m2", "--name", "t", "--incr"])["session"].clone();
    let named = format!("t@{}", session.as_str().unwrap());
    lab.sh("mv m1 lost");
    let comes = |to: &str, files: &str| {
        let done = lab.run(["restore", &named, "--into", to, "--json"]);
        assert_eq!(done.code, 3, "{}", done.stderr);
        let done = report(done);
        assert_eq!(done["status"], "completed_with_errors", "{done:#}");
        let errors = done["errors"].to_string();
        assert!(errors.contains("is not known: what is of this version itself"), "{errors}");
        assert!(errors.contains("/t/m3"), "{errors}");
        let tree = below(&lab.path(to), &lab.path("t"));
        lab.sh(&format!("cmp t/f2 {0}/f2; cmp t/new {0}/new", tree.display()));
        let found = lab.sh(&format!("find {} -type f -printf '%f\n' | sort", tree.display()));
        assert_eq!(found, files);
    };
    // In a home that never knew the medium.
    lab.sh("mv home old-home");
    lab.run(["import", "m2"]);
    let unnamed = lab.run(["restore", "t", "--into", "none"]);
    assert_eq!(unnamed.code, 2, "{}", unnamed.stderr);
    assert!(unnamed.stderr.contains("NAME@SESSION"), "{}", unnamed.stderr);
    // A file that was moved lost its contents with the full, and is named.
    comes("of-new", "f2\nm3\nnew\n");
}
