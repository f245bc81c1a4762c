//! Files that somebody writes to while they are backed up, and that are read again: each version restores to what an independent
//! reader takes from its medium.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::compare::same_by_rsync_with;
use crate::independent_reader::Reader;
use crate::support::{Lab, Run, below, noise, report as report_of, skip};

const FILES: u64 = 300;

/// Writes a byte into one file after the other until it is told to stop.
fn scribble(lab: &Lab, stop: &AtomicBool) {
    let mut n = 1_u64;
    while !stop.load(Relaxed) {
        for _ in 0..20 {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let path = lab.path(format!("tree/n{}", (n >> 33) % FILES));
            let file = File::options().write(true).open(&path).unwrap();
            let len = file.metadata().unwrap().len();
            file.write_all_at(&[n as u8], (n >> 20) % (len + 1)).unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Backs up while somebody writes, some nights long, and restores each night.
fn nights(options: &str) {
    let lab = Lab::new();
    let Some(reader) = Reader::find() else { return };
    for n in 0..FILES {
        lab.file(&format!("tree/n{n}"), noise(n, (n as usize * 7919) % 20_000));
    }
    for night in 0..6 {
        let stop = AtomicBool::new(false);
        let report = std::thread::scope(|scope| {
            scope.spawn(|| scribble(&lab, &stop));
            let line = format!("backup tree --to medium --name t --json {options}");
            let backed_up = lab.run(line.split(' '));
            stop.store(true, Relaxed);
            report_of(backed_up)
        });
        let id = report["session"].as_str().unwrap().to_owned();
        let (into, out) = (lab.path(format!("restored-{night}")), lab.path(format!("out-{night}")));
        let version = format!("t@{id}");
        let restored = lab.run(["restore", &version, "--into", into.to_str().unwrap()]);
        assert!([0, 3].contains(&restored.code), "{}", restored.stderr);
        assert!(!restored.stderr.contains("damaged"), "{}", restored.stderr);
        let line = ["extract", "medium", "--into", out.to_str().unwrap(), "--session", &id];
        let read = reader.run(&lab, None, &line);
        assert_eq!(read.code, 0, "{}", read.stderr);
        let tree = lab.path("tree");
        let (into, out) = (below(&into, &tree), below(&out, &tree));
        assert_eq!(std::fs::read_dir(&into).unwrap().count() as u64, FILES, "night {night}");
        same_by_rsync_with(&[], &out, &into);
    }
    // A full made of all of them has the same.
    lab.run(["consolidate", "t"]).ok();
    lab.run(["restore", "t", "--into", "consolidated"]).ok();
    let tree = lab.path("tree");
    let (full, last) = (lab.path("consolidated"), lab.path("restored-5"));
    same_by_rsync_with(&[], &below(&last, &tree), &below(&full, &tree));
}

#[test]
fn what_was_read_again_is_restored_as_it_was_read_last() {
    nights("--retries 2 --retry-wait 0");
}

#[test]
fn of_small_segments_too() {
    nights("--retries 2 --retry-wait 0 --segment-size 1M --streams 1");
}

/// The lines that say of a file that it was cut.
fn cut_of(run: &Run) -> Vec<&str> {
    run.stderr.lines().filter(|line| line.contains("103 short")).collect()
}

/// Makes a full of a version, restores both, and compares them.
fn a_full_is_the_same(lab: &Lab, name: &str, source: &Path) -> Run {
    let into = |into: &str| {
        let run = lab.run(["restore", name, "--into", into]);
        assert!([0, 3].contains(&run.code), "{}", run.stderr);
        (run, below(&lab.path(into), source))
    };
    let (of_version, version) = into(&format!("{name}-version"));
    lab.run(["consolidate", name]).ok();
    let (_, full) = into(&format!("{name}-full"));
    same_by_rsync_with(&["--checksum"], &version, &full);
    lab.run(["verify", name]).ok();
    of_version
}

/// The kernel says of such a file that it has 4096 bytes, and it ends after some.
#[test]
fn what_is_shorter_than_the_file_system_says_is_so_in_a_full() {
    let lab = Lab::new();
    let source = Path::new("/sys/module/kernel/parameters");
    if !source.is_dir() {
        return skip("there is no sysfs");
    }
    let line = "backup /sys/module/kernel/parameters --to medium --name t";
    let full = lab.run(line.split(' '));
    assert!(cut_of(&full).len() > 2, "{}", full.stderr);
    let incr = lab.run(line.split(' '));
    assert!(cut_of(&incr).len() > 2, "{}", incr.stderr);
    let restored = a_full_is_the_same(&lab, "t", source);
    assert!(cut_of(&restored).len() > 2, "{}", restored.stderr);
    for (file, size) in manifest_sizes(&below(&lab.path("t-full"), source)) {
        assert!(size < 4096, "{file} has {size} bytes");
    }
    // And in a full of that one.
    lab.run(line.split(' '));
    lab.sh("rm -r t-version t-full");
    a_full_is_the_same(&lab, "t", source);
}

fn manifest_sizes(dir: &Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let size =
        |e: std::fs::DirEntry| (e.file_name().display().to_string(), e.metadata().unwrap().len());
    entries.map(size).collect()
}

/// A file that was cut has changed, too.
#[test]
fn what_was_cut_while_it_was_read_is_as_long_in_a_full() {
    for round in 0..40_u64 {
        let lab = Lab::new();
        for n in 0..FILES {
            lab.file(&format!("tree/n{n}"), noise(n, 300_000));
        }
        let stop = AtomicBool::new(false);
        let incr = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut n = round + 1;
                while !stop.load(Relaxed) {
                    n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let path = lab.path(format!("tree/n{}", (n >> 33) % FILES));
                    File::options()
                        .write(true)
                        .open(path)
                        .unwrap()
                        .set_len((n >> 20) % 300_000)
                        .unwrap();
                }
            });
            let line = "backup tree --to medium --name t";
            lab.run(line.split(' '));
            let incr = lab.run(line.split(' '));
            stop.store(true, Relaxed);
            incr
        });
        let cut = a_full_is_the_same(&lab, "t", &lab.path("tree"));
        if !cut_of(&incr).is_empty() && cut.stderr.contains("102 changed") {
            return;
        }
    }
    panic!("no file was cut in time");
}
