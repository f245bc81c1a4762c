//! What a session leaves that was killed or stopped: files that are what they were, and no others.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::mirror::comes_back;
use crate::support::{Lab, below, noise, report, soak};

fn make(lab: &Lab) {
    for i in 0..400 {
        lab.file(&format!("tree/d{}/f{i}", i % 9), noise(i, 1000 + 997 * i as usize));
    }
    lab.file("tree/d3/huge", noise(1000, 70 << 20));
    lab.sh("ln -s f3 tree/d3/link");
}

/// Files below a directory, by their paths in it.
fn files(root: &Path) -> BTreeSet<PathBuf> {
    let (mut found, mut dirs) = (BTreeSet::new(), vec![root.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() {
                dirs.push(path);
            } else {
                found.insert(path.strip_prefix(root).unwrap().to_owned());
            }
        }
    }
    found
}

/// The newest session as `sessions --json` has it.
pub fn newest(lab: &Lab) -> Value {
    let run = lab.run(["sessions", "--kind", "all", "--json"]);
    run.ok().rows()[0].clone()
}

/// Restores the newest session, which is incomplete; returns how many files came back whole.
pub fn gives_back_what_it_has(lab: &Lab) -> usize {
    let session = newest(lab);
    assert_eq!(session["status"], "incomplete", "{session:#}");
    let name = format!("t@{}", session["session"].as_str().or(session["id"].as_str()).unwrap());
    gives_back(lab, &name)
}

/// Restores a version that is not complete: every file that comes back and is not named as an error is the one in `tree`, and
/// what is named as one is not taken for it. Returns how many came back whole.
pub fn gives_back(lab: &Lab, name: &str) -> usize {
    let report = lab.restore([name, "--into", "out"]);
    assert_eq!(report["status"], "completed_with_errors", "{report:#}");
    let says = |e: &Value| e["code"] == "incomplete";
    assert!(report["errors"].as_array().unwrap().iter().any(says), "{report:#}");
    let named: BTreeSet<&OsStr> = report["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| OsStr::new(e["path"].as_str().unwrap()))
        .collect();
    let source = lab.path("tree");
    let root = below(&lab.path("out"), &source);
    let restored = files(&root);
    assert!(restored.is_subset(&files(&source)), "names that were not in the source");
    let mut whole = 0;
    for path in &restored {
        let (a, b) = (source.join(path), root.join(path));
        if a.is_symlink() {
            assert_eq!(fs::read_link(&a).unwrap(), fs::read_link(&b).unwrap());
            continue;
        }
        let times = [&a, &b].map(|p| p.metadata().unwrap().modified().unwrap());
        if named.contains(a.as_os_str()) {
            assert_ne!(times[0], times[1], "{} is not what it was", path.display());
            continue;
        }
        assert!(fs::read(&a).unwrap() == fs::read(&b).unwrap(), "{}", path.display());
        assert_eq!(times[0], times[1], "{}", path.display());
        whole += 1;
    }
    fs::remove_dir_all(lab.path("out")).unwrap();
    whole
}

#[test]
fn a_killed_session_gives_back_what_it_has() {
    let lab = Lab::new();
    make(&lab);
    let backup = ["backup", "tree", "--to", "m", "--name", "t", "--segment-size", "2M", "--json"];
    let wanted = if soak() { 40 } else { 4 };
    let (mut some, mut seed) = (0, 5u64);
    for _ in 0..10 * wanted {
        lab.sh("rm -rf m home");
        let mut command = lab.command();
        let mut child =
            command.args(backup).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // From the first segments on, any time.
        let first = lab.path("m/00000002.segment");
        while !first.exists() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_micros((seed >> 33) % 200_000));
        let _ = child.kill();
        let ended = child.wait().unwrap().success();
        // One that is on record as completed before its process is gone has to be.
        if ended || newest(&lab)["status"] == "completed" {
            comes_back(&lab);
            continue;
        }
        // Committed segments have files, which are in the restore.
        some += usize::from(gives_back_what_it_has(&lab) > 20);
        if some == wanted {
            return;
        }
    }
    panic!("hardly any kill left files: {some} of {}", 10 * wanted);
}

#[test]
fn what_a_kill_leaves_of_a_new_medium_is_recognised() {
    let lab = Lab::new();
    lab.file("tree/file", b"contents");
    let medium = lab.mkdir("m");
    // Killed while the header was written, or before it got its name; then in the first segment.
    fs::write(medium.join("medium.capstan.new"), b"torn").unwrap();
    let backup = ["tree", "--to", "m", "--name", "t", "--resume"];
    lab.backed_up(backup);
    fs::write(medium.join("00000002.segment.part"), vec![7; 4096]).unwrap();
    lab.backed_up(backup);
    let left =
        fs::read_dir(&medium).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut left: Vec<_> = left.collect();
    left.sort();
    assert_eq!(left, ["00000001.segment", "00000002.segment", "medium.capstan"]);
    lab.run(["verify", "--medium", "m"]).ok();
}

/// A file that a restore could not bring back whole does not stand in the way of a better copy.
#[test]
fn a_damaged_file_is_replaced_by_a_later_restore() {
    let lab = Lab::new();
    lab.file("tree/small", noise(1, 50_000));
    lab.file("tree/in-parts", noise(2, 40_000_000));
    lab.file("tree/other", noise(3, 50_000));
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--compress", "off"]);
    lab.sh("cp -a medium good");
    // The middle of the segment is within the large file; the small ones lie at its begin.
    let path = lab.path("medium/00000001.segment");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    let small = noise(1, 50_000);
    let at = bytes.windows(1000).position(|w| w == &small[20_000..21_000]).unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let report = lab.restore(["t", "--into", "out"]);
    assert_eq!(report["status"], "completed_with_errors", "{report:#}");
    let errors = report["errors"].to_string();
    assert!(errors.contains("tree/small") && errors.contains("tree/in-parts"), "{errors}");
    lab.sh("rm -r medium; mv good medium");
    lab.restored(["t", "--into", "out"]);
    crate::compare::same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
}

/// The same where not a block was damaged, but a segment with a part of it was away.
#[test]
fn a_file_of_which_a_segment_was_away_is_replaced_by_a_later_restore() {
    let lab = Lab::new();
    for n in 0..6 {
        lab.file(&format!("tree/f{n}"), noise(n, 6_000_000));
    }
    lab.sh("ln tree/f2 tree/link");
    let backup = ["tree", "--to", "m", "--name", "t", "--segment-size", "8M"];
    lab.backed_up(backup);
    lab.sh("mv m/00000002.segment .");
    let report = lab.restore(["t", "--into", "out"]);
    assert_eq!(report["status"], "completed_with_errors", "{report:#}");
    let errors = report["errors"].as_array().unwrap();
    let named: BTreeSet<_> = errors.iter().map(|e| e["path"].to_string()).collect();
    assert_eq!(named.len(), errors.len(), "each file is named once: {errors:#?}");
    lab.sh("mv 00000002.segment m");
    lab.restored(["t", "--into", "out"]);
    crate::compare::same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
}

/// A complete version of `tree`, and one that was killed: the name of that.
fn killed(lab: &Lab) -> String {
    for i in 0..300 {
        lab.file(&format!("tree/d{i}/f"), noise(i, 20_000));
    }
    let backup = ["backup", "tree", "--to", "m", "--name", "t", "--segment-size", "1M", "--full"];
    lab.run(backup).ok();
    for _ in 0..40 {
        let segments = fs::read_dir(lab.path("m")).unwrap().count();
        let mut command = lab.command();
        let mut child =
            command.args(backup).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while fs::read_dir(lab.path("m")).unwrap().count() < segments + 3
            && child.try_wait().unwrap().is_none()
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = child.kill();
        child.wait().unwrap();
        if newest(lab)["status"] == "incomplete" {
            break;
        }
    }
    let session = newest(lab);
    assert_eq!(session["status"], "incomplete", "{session:#}");
    let session = &session["session"].as_str().or(session["id"].as_str()).unwrap()[..8];
    format!("t@{session}")
}

/// Its session names it, so it is read: that is said, even if all files that it has are whole.
#[test]
fn a_version_that_is_incomplete_is_read_with_a_word() {
    let lab = Lab::new();
    let name = killed(&lab);
    let diff = format!("capstan diff {name} t");
    for args in [
        &["restore", &name, "--into", "out", "--json"][..],
        &["restore", &name, "--to-tar", "out.tar", "--json"],
        &["copy", &name, "--to", "copy", "--json"],
        &["verify", &name, "--json"],
    ] {
        let done = report(lab.run(args));
        assert_eq!(done["status"], "completed_with_errors", "{args:?}: {done:#}");
        let said: Vec<_> = done["errors"].as_array().unwrap().iter().collect();
        let said = said.iter().find(|e| e["code"] == "incomplete").expect("nothing is said of it");
        let text = said["error"].as_str().unwrap();
        assert!(text.contains(&name) && text.contains(&diff), "{args:?}: {text}");
    }
    for contents in [&[][..], &["--contents"]] {
        let compared = lab.run([&["compare", &name], contents].concat());
        let said = compared.stderr;
        assert_eq!(compared.code, 3, "{said}");
        assert!(said.contains("incomplete") && said.contains(&diff), "{said}");
    }
    let listed = lab.run(["restore", &name, "--list"]).stderr;
    assert!(listed.contains(&diff), "{listed}");
    let shown = lab.run(["diff", &name, "t"]);
    assert!(shown.code < 5 && shown.stdout.contains("tree/d"), "{}{}", shown.stdout, shown.stderr);
    // A complete one, and a medium as it is, need no such word.
    lab.restored(["t", "--into", "whole"]);
    crate::compare::same_by_rsync(&lab.path("tree"), &below(&lab.path("whole"), &lab.path("tree")));
    lab.run(["copy", "--medium", "m", "--to", "all"]).ok();
    lab.run(["verify", "t"]).ok();
    lab.run(["compare", "t"]).ok();
}
