//! `media repair`: what is damaged or missing on a medium is written anew on it, and lies there whole; and who reads or copies takes
//! from elsewhere what a damaged medium lacks, and says so.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::mirror::{comes_back_as, damage};
use crate::support::{Lab, below, completed, noise, report};

pub fn tree(lab: &Lab) {
    for i in 0..120 {
        lab.file(&format!("tree/d{}/f{i}", i % 7), noise(i, 20_000 + i as usize));
    }
    lab.file("tree/large", noise(7, 5_000_000));
    lab.sh("cd tree; seq 1 20000 >text; ln d1/f1 linked; : >empty");
}

const SMALL: [&str; 6] = ["--block-size", "64K", "--segment-size", "2M", "--compress", "off"];

pub fn backed_up(lab: &Lab, args: &[&str]) {
    lab.backed_up([&["tree", "--name", "t"], args, &SMALL].concat());
}

pub fn repair(lab: &Lab, args: &[&str]) -> Value {
    report(lab.run([&["media", "repair", "--json"], args].concat()))
}

pub fn segments(lab: &Lab, medium: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(lab.path(medium)).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<_> = all.filter(|p| p.extension().is_some_and(|e| e == "segment")).collect();
    all.sort();
    all
}

/// Restores from this medium alone, all others being away.
fn whole_alone(lab: &Lab, medium: &str, others: &[&str]) {
    for other in others {
        fs::rename(lab.path(other), lab.path(format!("{other}.away"))).unwrap();
    }
    lab.run(["verify", "--medium", medium]).ok();
    comes_back_as(lab, "t", "tree");
    // And where nothing is known but what the medium says.
    let mut command = lab.command();
    command.env("CAPSTAN_HOME", lab.path("home2")).args(["import", medium]);
    crate::support::finish(&mut command).ok();
    let mut command = lab.command();
    command.env("CAPSTAN_HOME", lab.path("home2")).args(["restore", "t", "--into", "out"]);
    crate::support::finish(&mut command).ok();
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    fs::remove_dir_all(lab.path("out")).unwrap();
    fs::remove_dir_all(lab.path("home2")).unwrap();
    for other in others {
        fs::rename(lab.path(format!("{other}.away")), lab.path(other)).unwrap();
    }
}

#[test]
fn what_is_damaged_or_missing_is_taken_from_a_mirror() {
    let lab = Lab::new();
    tree(&lab);
    backed_up(&lab, &["--to", "a", "--mirror", "b"]);
    lab.sh("echo more >>tree/text; echo new >tree/new");
    backed_up(&lab, &["--to", "a", "--mirror", "b", "--incr"]);
    damage(&lab.path("a"), 0, 9);
    let all = segments(&lab, "a");
    fs::remove_file(&all[1]).unwrap();
    fs::write(&all[2], noise(1, 1_000_000)).unwrap();
    let before = segments(&lab, "a");
    // The last of a full may be too short to be hit.
    let is_hit = |path: &&PathBuf| fs::metadata(path).map_or(true, |m| m.len() > 44_096);
    let hit: Vec<PathBuf> = all.iter().filter(is_hit).cloned().collect();
    let foreseen = repair(&lab, &["a", "--dry-run"]);
    assert_eq!(foreseen["status"], "completed", "{foreseen:#}");
    assert!(foreseen["notes"].to_string().contains("would be written anew"), "{foreseen:#}");
    assert_eq!(segments(&lab, "a"), before);

    let done = completed(repair(&lab, &["a"]));
    assert!(done["bytes_written"].as_u64().unwrap() > 2_000_000, "{done:#}");
    assert!(done["notes"].to_string().contains("are whole again"), "{done:#}");
    assert!(hit.iter().all(|segment| !segment.exists()), "damaged segments went");
    whole_alone(&lab, "a", &["b"]);
    let again = completed(repair(&lab, &["a"]));
    assert!(
        again["notes"].to_string().contains("nothing on 'a' that a version needs is damaged"),
        "{again:#}"
    );
    lab.run(["idb", "check"]).ok();
    // It goes on as before.
    lab.sh("echo again >>tree/text");
    backed_up(&lab, &["--to", "a", "--incr"]);
    whole_alone(&lab, "a", &["b"]);
}

#[test]
fn what_is_whole_nowhere_is_named_and_stays() {
    let lab = Lab::new();
    tree(&lab);
    backed_up(&lab, &["--to", "a", "--streams", "1"]);
    lab.run(["copy", "t", "--to", "b"]).ok();
    // Frames of the large file, on both; and others on one.
    damage(&lab.path("a"), 0, 1000);
    damage(&lab.path("b"), 0, 1000);
    damage(&lab.path("a"), 5, 1000);
    let before = lab.restore(["t", "--into", "out"]);
    fs::remove_dir_all(lab.path("out")).unwrap();
    assert_eq!(before["status"], "completed_with_errors", "{before:#}");
    let json = repair(&lab, &["a", "--from", "b"]);
    assert_eq!(json["status"], "completed_with_errors", "{json:#}");
    assert_eq!(json["corrupt"], before["corrupt"], "{json:#}\n{before:#}");
    assert!(json["errors"].to_string().contains("whole nowhere at hand"), "{json:#}");
    let after = lab.restore(["t", "--into", "out"]);
    fs::remove_dir_all(lab.path("out")).unwrap();
    assert_eq!(after["corrupt"], before["corrupt"], "{after:#}");
    lab.run(["media", "repair", "a", "--from", "a"]).refused(&["from itself"]);
    lab.run(["media", "repair", "nowhere"]).refused(&["nowhere"]);
}

#[test]
fn headers_and_catalogs_are_mended_from_the_medium_itself() {
    let lab = Lab::new();
    tree(&lab);
    backed_up(&lab, &["--to", "a"]);
    for (i, segment) in segments(&lab, "a").iter().enumerate() {
        let mut bytes = fs::read(segment).unwrap();
        let end = bytes.len();
        // Of one the header, of one the end and some of the catalog.
        match i {
            0 => bytes[..4096].fill(0),
            1 => bytes[end - 6000..].fill(0),
            _ => continue,
        }
        fs::write(segment, bytes).unwrap();
    }
    let done = completed(repair(&lab, &["a"]));
    assert!(done["notes"].to_string().contains("2 are whole again"), "{done:#}");
    whole_alone(&lab, "a", &[]);
}

#[test]
fn a_restore_says_what_a_replica_was_used_for() {
    let lab = Lab::new();
    tree(&lab);
    backed_up(&lab, &["--to", "a", "--mirror", "b"]);
    let whole = lab.restored(["t", "--into", "out"]);
    assert_eq!(whole["replicas"], Value::Null, "{whole:#}");
    fs::remove_dir_all(lab.path("out")).unwrap();
    // Of a medium and its mirror either may be the one that is read.
    let read = whole["media"][0].as_str().unwrap();
    let other = if read == "a" { "b" } else { "a" };
    damage(&lab.path(read), 0, 1000);
    fs::remove_file(&segments(&lab, read)[1]).unwrap();
    let run = lab.run(["restore", "t", "--into", "out"]);
    let said = format!("{}{}", run.ok().stdout, run.stderr);
    assert!(said.contains(&format!("segment 2 is read from '{other}'")), "{said}");
    fs::remove_dir_all(lab.path("out")).unwrap();
    let json = lab.restored(["t", "--into", "out"]);
    assert!(json["errors"].to_string().contains("replica-used"), "{json:#}");
    fs::remove_dir_all(lab.path("out")).unwrap();
    let replicas = json["replicas"].as_array().unwrap();
    let of = |number: u64| replicas.iter().find(|r| r["number"] == number).unwrap();
    assert_eq!((&of(1)["medium"], &of(1)["used"]), (&read.into(), &other.into()), "{json:#}");
    assert_eq!(of(2)["frames"], 0, "{json:#}");
    assert!(of(1)["why"].as_str().unwrap().contains("checksum"), "{json:#}");
    // A copy, and who retires, take what lacks from there too, and say so.
    let copied = completed(report(lab.run(["copy", "--medium", read, "--to", "c", "--json"])));
    assert!(!copied["replicas"].as_array().unwrap().is_empty(), "{copied:#}");
    let retired = completed(report(lab.run(["media", "retire", read, "--to", "d", "--json"])));
    assert!(!retired["replicas"].as_array().unwrap().is_empty(), "{retired:#}");
    whole_alone(&lab, "c", &["a", "b", "d"]);
    whole_alone(&lab, "d", &["a", "b", "c"]);
}

#[test]
fn a_segment_that_is_on_the_other_medium_only_keeps_its_place() {
    let lab = Lab::new();
    lab.file("tree/big", noise(3, 14_000_000));
    backed_up(&lab, &["--to", "a", "--mirror", "b"]);
    let whole = lab.restored(["t", "--into", "out"]);
    fs::remove_dir_all(lab.path("out")).unwrap();
    // The one that is read first says in which order the segments come.
    let read = whole["media"][0].as_str().unwrap();
    for number in [4, 5, 1] {
        let segment = lab.path(read).join(format!("{number:08}.segment"));
        let mut bytes = fs::read(&segment).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&segment, bytes).unwrap();
        completed(repair(&lab, &[read]));
        lab.restored(["t", "--into", "out"]);
        same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
        fs::remove_dir_all(lab.path("out")).unwrap();
        lab.run(["verify", "t"]).ok();
    }
}
