//! Files that an incremental can open and not read, of a disk that dies: a file system in an image of which the end is cut off.

use std::path::Path;

use serde_json::Value;

use crate::independent_reader::Reader;
use crate::support::{Lab, Mount, below, loop_devices, noise, report, skip};

/// Files whose new state is as long as the old one, and others.
const FILES: usize = 12;
const SIZE: usize = 3_000_000;

fn len(n: usize, night: usize) -> usize {
    if n.is_multiple_of(2) { SIZE } else { SIZE + night * 1000 }
}

fn state(n: usize, night: usize) -> Vec<u8> {
    // One is read in pieces.
    let len = if n == 5 { (34 << 20) + night } else { len(n, night) };
    noise((night * 100 + n) as u64, len)
}

/// Each file is a new one, as editors and package managers write them.
fn write(lab: &Lab, night: usize) {
    for n in 0..FILES {
        lab.file("new", state(n, night));
        lab.sh(&format!("cp new disk/new && mv disk/new disk/f{n}"));
    }
}

/// Whether a file that was restored is of the night that it is to be of.
fn is_of(tree: &Path, n: usize, night: usize) -> bool {
    std::fs::read(tree.join(format!("f{n}"))).unwrap() == state(n, night)
}

#[test]
fn what_cannot_be_read_stays_as_the_last_version_has_it() {
    if !loop_devices() {
        return skip("loop devices cannot be mounted here");
    }
    let lab = Lab::new();
    lab.sh("truncate -s 300M image; mkfs.ext4 -q -F -b 4096 image");
    let image = lab.path("image").display().to_string();
    let mounted = || Mount::new(&["-o", "loop", &image], &lab.path("disk"));
    let mount = mounted();
    write(&lab, 0);
    let backup = |code: i32| {
        let run = lab.run(["backup", "disk", "--to", "medium", "--name", "t", "--json"]);
        assert_eq!(run.code, code, "{}", run.stderr);
        report(run)
    };
    backup(0);
    write(&lab, 1);
    // Where the blocks are: the image ends before all files of the new state but the first ones.
    let first = "sync -f disk; filefrag -e disk/f* | awk '$1 == \"0:\" { sub(/\\.\\./, \"\", $4); print $4 }' | sort -n";
    let at: Vec<u64> = lab.sh(first).lines().map(|line| line.parse().unwrap()).collect();
    // Nothing of it is in the cache any more.
    drop(mount);
    let mount = mounted();
    lab.sh(&format!("find disk >/dev/null; truncate -s {} image", at[3] * 4096));
    let mut done = Value::Null;
    for _ in 0..2 {
        done = backup(3);
    }
    let unread: Vec<(usize, String)> = done["errors"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["code"] == "unreadable")
        .map(|e| (e["path"].as_str().unwrap(), e["error"].as_str().unwrap().to_owned()))
        .map(|(path, why)| (path.rsplit('f').next().unwrap().parse().unwrap(), why))
        .collect();
    let is_unread = |n: usize| unread.iter().any(|(of, _)| *of == n);
    assert!(unread.iter().all(|(_, why)| why.contains("is kept as it was")), "{unread:?}");
    let of = |even: bool| unread.iter().filter(|(n, _)| n.is_multiple_of(2) == even).count();
    assert!(of(true) > 1 && of(false) > 1 && is_unread(5), "{unread:?}");
    assert!(unread.len() < FILES, "{unread:?}");
    let holds = |into: &str, night: &dyn Fn(usize) -> usize| {
        let tree = below(&lab.path(into), &lab.path("disk"));
        let wrong: Vec<_> = (0..FILES).filter(|n| !is_of(&tree, *n, night(*n))).collect();
        assert!(wrong.is_empty(), "{into}: {wrong:?} of {unread:?}");
    };
    let old = |n: usize| usize::from(!is_unread(n));
    lab.restored(["t", "--into", "out"]);
    holds("out", &old);
    if let Some(reader) = Reader::find() {
        let id = done["session"].as_str().unwrap();
        let into = lab.path("read");
        let line = ["extract", "medium", "--into", into.to_str().unwrap(), "--session", id];
        assert_eq!(reader.run(&lab, None, &line).code, 0);
        holds("read", &old);
    }
    lab.run(["verify", "t"]).ok();
    // Nothing is lost, so nothing older has to stay for it.
    assert!(!lab.run(["status", "t"]).stdout.contains("has nothing of"));
    let pruned = lab.run(["prune", "t", "--keep-last", "1"]).ok().stdout.clone();
    assert!(!pruned.contains("last version that has"), "{pruned}");
    lab.run(["consolidate", "t"]).ok();
    lab.restored(["t", "--into", "out2"]);
    holds("out2", &old);
    // The disk is whole again: what was kept is read anew.
    drop(mount);
    lab.sh("truncate -s 300M image");
    let _mount = mounted();
    write(&lab, 2);
    backup(0);
    lab.restored(["t", "--into", "out3"]);
    holds("out3", &|_| 2);
}
