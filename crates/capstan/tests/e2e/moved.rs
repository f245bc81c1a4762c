//! Files that were moved or touched: an incremental stores what is new of them, not their contents, and every version comes back,
//! whatever became of the media and the database meanwhile.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::compare::{same, same_by_rsync};
use crate::independent_reader::Reader;
use crate::support::{Lab, below, finish, noise, wait_for};
use crate::tape::library;

/// What an incremental may take of a medium that has nothing but rows: far less than any of the contents.
const ROWS: u64 = 200_000;

fn lab(passphrase: Option<&'static str>) -> Lab {
    let lab = Lab::with_passphrase(passphrase);
    for i in 0..600 {
        lab.file(&format!("tree/d/s{}/f{i}", i % 7), noise(i, 1000 + 5 * i as usize));
    }
    lab.file("tree/d/huge", noise(7, 40_000_000));
    lab.sh("cd tree; ln d/s1/f1 d/linked; ln d/s2/f2 outside; ln -s s1/f1 d/symlink; : >d/empty; \
            truncate -s 20M d/sparse; echo end >>d/sparse; truncate -s 5M d/hole; \
            setfattr -n user.a -v b d/s1/f8; chmod 4711 d/s1/f8");
    lab
}

/// Backs the tree up and keeps a copy of it. Returns the session's id and the report.
fn step(lab: &Lab, n: usize, options: &[&str]) -> (String, Value) {
    let args = [&["tree", "--to", "medium", "--name", "t"], options].concat();
    let report = lab.backed_up(args);
    lab.sh(&format!("cp -a --sparse=auto tree state-{n}"));
    (report["session"].as_str().unwrap().to_owned(), report)
}

fn comes_back(lab: &Lab, n: usize, session: &str) {
    let version = if session.is_empty() { "t".to_owned() } else { format!("t@{session}") };
    lab.restored([&version, "--into", "out"]);
    same(lab, &lab.path(format!("state-{n}")), &below(&lab.path("out"), &lab.path("tree")));
    fs::remove_dir_all(lab.path("out")).unwrap();
}

fn written(report: &Value) -> u64 {
    report["bytes_written"].as_u64().unwrap()
}

/// Moves of all kinds, one after the other.
const MOVES: [&str; 5] = [
    // A directory with all that is in it, to where the walk comes to it sooner.
    "mkdir a; mv d a/moved",
    // Files themselves, some in the place of others; the first name of one that has two; one that is another's former name.
    "cd a/moved; mv huge HUGE; mv s1/f1 zz; mv s1/f8 s2/f2; mv s0/f0 s0/f; mv s0/f7 s0/f0; mv s0/f s0/f7; mv sparse s3/; mv hole z",
    // The same ones again, deeper in the chain, and one that was new in between.
    "mv a b; echo new >b/new",
    // Touched: times and nothing else, of a file, a huge one, a sparse one, one with two names.
    "find b -type f -exec touch -d 2024-05-05 {} +; touch b/moved/HUGE",
    // Moved and touched.
    "mv b/moved/s4 c; find c -type f -exec touch -d 2023-03-03 {} +; mv b/moved/zz c",
];

fn moved(passphrase: Option<&'static str>) {
    let lab = lab(passphrase);
    let mut sessions = vec![step(&lab, 0, &["--segment-size", "8M"])];
    for (n, change) in MOVES.iter().enumerate() {
        lab.sh(&format!("cd tree; {change}"));
        let (session, report) = step(&lab, n + 1, &["--incr"]);
        assert_eq!(report["method"], "incr", "{report:#}");
        // Who writes to a huge file is not asked whether he only touched it.
        let may = if n == 3 { 40_000_000 + ROWS } else { ROWS };
        assert!(written(&report) < may, "{change}: {report:#}");
        assert!(report["moved"].as_u64() > Some(4), "{change}: {report:#}");
        sessions.push((session, report));
    }
    // What was moved with its directory is not even read.
    for n in [1, 3] {
        let (_, report) = &sessions[n];
        assert!(report["bytes_read"].as_u64() < Some(20_000), "{report:#}");
        assert!(report["moved_bytes"].as_u64() > Some(40_000_000), "{report:#}");
    }
    let all = |lab: &Lab| {
        for (n, (session, _)) in sessions.iter().enumerate() {
            comes_back(lab, n, session);
        }
    };
    all(&lab);
    lab.run(["verify", "t"]).ok();
    lab.run(["compare", "t", "--contents"]).ok();
    lab.sh("test ! -e tar || rm -r tar; mkdir tar");
    lab.run(["restore", "t", "--to-tar", "t.tar"]).ok();
    lab.sh("tar -x -C tar -f t.tar --xattrs --xattrs-include='*'");
    same_by_rsync(&lab.path("tree"), &below(&lab.path("tar"), &lab.path("tree")));
    // One file, and a directory.
    let one = lab.path("tree/b/moved/HUGE");
    lab.restored([Path::new("t"), &one, &lab.path("tree/c"), "--into".as_ref(), "out".as_ref()]);
    lab.sh(&format!("cmp '{0}' 'out{0}'", one.display()));
    same_by_rsync(&lab.path("tree/c"), &below(&lab.path("out"), &lab.path("tree/c")));
    fs::remove_dir_all(lab.path("out")).unwrap();
    // From copies, where the medium is gone.
    let (session, _) = sessions.last().unwrap();
    lab.run(["copy", "t", "--to", "copies"]).ok();
    lab.sh("mv medium away");
    comes_back(&lab, 5, session);
    lab.sh("mv away medium");
    // From the medium alone.
    lab.sh("mv home/keyring.json kept 2>/dev/null || true; rm -r home; mkdir home; mv kept home/keyring.json 2>/dev/null || true");
    lab.run(["import", "medium"]).ok();
    all(&lab);
    if let Some(reader) = Reader::find() {
        let check = reader.run(&lab, passphrase, &["check", "medium"]);
        check.ok();
        for (n, (session, _)) in sessions.iter().enumerate() {
            let args = ["extract", "medium", "--session", session, "--into", "read"];
            reader.run(&lab, passphrase, &args).ok();
            let there = below(&lab.path("read"), &lab.path("tree"));
            same_by_rsync(&lab.path(format!("state-{n}")), &there);
            fs::remove_dir_all(lab.path("read")).unwrap();
        }
    }
    // What is made of it is whole, and what builds on that knows the files still.
    lab.run(["media", "adopt", "medium"]).ok();
    lab.run(["consolidate", "t", "--to", "medium"]).ok();
    lab.run(["prune", "t", "--keep-last", "1"]).ok();
    comes_back(&lab, 5, "");
    lab.sh("mv tree/c tree/e; mv tree/b tree/f");
    let (session, report) = step(&lab, 6, &["--incr"]);
    assert!(written(&report) < ROWS, "{report:#}");
    comes_back(&lab, 6, &session);
}

#[test]
fn what_was_moved_is_stored_once() {
    moved(None);
}

#[test]
fn what_was_moved_is_stored_once_where_it_is_encrypted() {
    moved(Some("correct horse"));
}

/// Another file with the inode, the size and the times of the one that was there: the kernel's time of change tells, or the contents
/// do.
#[test]
fn an_inode_that_is_used_again_is_another_file() {
    let lab = Lab::new();
    lab.file("tree/old", noise(1, 300_000));
    lab.sh("touch -d '2024-05-05 05:05:05.123456789' tree/old");
    let ino = fs::metadata(lab.path("tree/old")).unwrap().ino();
    step(&lab, 0, &[]);
    // Who believed the clock of the file system would take what comes for older than the backup.
    lab.edit_tables("UPDATE sessions SET ended_us = 9000000000000000");
    lab.sh("rm tree/old");
    let mut others = Vec::new();
    let again = (0..500).find(|n| {
        let path = lab.file(&format!("tree/new-{n}"), noise(2, 300_000));
        let found = fs::metadata(&path).unwrap().ino() == ino;
        if !found {
            others.push(path);
        }
        found
    });
    others.iter().for_each(|path| fs::remove_file(path).unwrap());
    let name = match again {
        Some(n) => format!("tree/new-{n}"),
        // A file system that gives no number twice: the very inode, written to, is as good.
        None => {
            lab.sh("rm -rf tree/*");
            lab.file("tree/old", noise(1, 300_000));
            lab.sh("touch -d '2024-05-05 05:05:05.123456789' tree/old");
            step(&lab, 0, &["--full"]);
            lab.edit_tables("UPDATE sessions SET ended_us = 9000000000000000");
            lab.sh("mv tree/old tree/new");
            fs::write(lab.path("tree/new"), noise(2, 300_000)).unwrap();
            "tree/new".to_owned()
        }
    };
    lab.sh(&format!("touch -d '2024-05-05 05:05:05.123456789' {name}"));
    let stat = fs::metadata(lab.path(&name)).unwrap();
    assert_eq!((stat.size(), stat.mtime_nsec()), (300_000, 123_456_789));
    let (session, report) = step(&lab, 1, &["--incr"]);
    assert_eq!(report["moved"], 0, "{report:#}");
    assert!(written(&report) > 300_000, "{report:#}");
    comes_back(&lab, 1, &session);
    // The same contents under another name, in an inode that was used again: nothing is lost by knowing them.
    lab.sh(&format!("mv {name} tree/further"));
    let (session, report) = step(&lab, 2, &["--incr"]);
    assert_eq!(report["moved"], 1, "{report:#}");
    comes_back(&lab, 2, &session);
}

/// What was written to, whatever its times say: nothing of it passes for what it was.
#[test]
fn what_was_written_to_is_stored() {
    let lab = Lab::new();
    for name in ["d/written", "d/stays", "d/back"] {
        lab.file(&format!("tree/{name}"), noise(1, 200_000));
    }
    // Where the hole is, a checksum of the data does not tell.
    lab.sh("cd tree/d; truncate -s 8M sparse; dd if=stays of=sparse bs=65536 count=2 seek=32 conv=notrunc status=none; \
            touch -d '2024-05-05 05:05:05.123456789' *");
    step(&lab, 0, &[]);
    lab.sh("cd tree/d; printf X | dd of=written bs=1 seek=9 conv=notrunc status=none; touch -r stays written; \
            printf X | dd of=back bs=1 seek=9 conv=notrunc status=none; \
            fallocate -p -o 2097152 -l 131072 sparse; dd if=stays of=sparse bs=65536 count=2 seek=8 conv=notrunc status=none; \
            touch -r stays sparse; test $(stat -c %s sparse) = 8388608; cd ..; mv d e");
    let (session, report) = step(&lab, 1, &["--incr"]);
    assert_eq!(report["moved"], 1, "only what stays: {report:#}");
    comes_back(&lab, 1, &session);
    // The same under the same names.
    lab.sh("cd tree/e; printf Y | dd of=written bs=1 seek=9 conv=notrunc status=none; touch -r stays written; \
            fallocate -p -o 524288 -l 131072 sparse; dd if=stays of=sparse bs=65536 count=2 seek=64 conv=notrunc status=none; \
            touch -r stays sparse; touch -d 2022-02-02 back");
    let (session, report) = step(&lab, 2, &["--incr"]);
    assert_eq!(report["moved"], 1, "only what was touched: {report:#}");
    comes_back(&lab, 2, &session);
}

/// Versions on a base that is mostly dead, with the files that live in one frame with those that died, and were moved since.
fn mostly_dead(lab: &Lab) -> Vec<String> {
    let mut versions = Vec::new();
    for i in 0..400 {
        lab.file(&format!("tree/d/f{i}"), noise(i, 20_000));
    }
    let mut next = |n: usize| versions.push(step(lab, n, &["--segment-size", "1M"]).0);
    next(0);
    lab.sh("cd tree/d; for i in {0..399}; do test $((i % 40)) = 0 || rm f$i; done");
    next(1);
    lab.sh("mv tree/d tree/e; mv tree/e/f40 tree/e/x40");
    next(2);
    lab.sh("mv tree/e tree/f");
    next(3);
    versions
}

/// A full that takes the place of a base has the frames to which what builds on it refers.
#[test]
fn prune_takes_no_contents_from_what_was_moved() {
    for level in [2, 1] {
        let lab = Lab::new();
        let versions = mostly_dead(&lab);
        let keep = level.to_string();
        let done = finish(lab.command().args(["prune", "t", "--json", "--keep-last", &keep]));
        let done: Value = serde_json::from_str(&done.ok().stdout).unwrap();
        assert_eq!(done["consolidated"].as_array().map(Vec::len), Some(1), "{done:#}");
        let kept = &versions[4 - level..];
        let all = |lab: &Lab| {
            for (n, session) in kept.iter().enumerate() {
                comes_back(lab, 4 - level + n, session);
                lab.run(["verify", &format!("t@{session}")]).ok();
            }
        };
        all(&lab);
        fs::remove_dir_all(lab.path("home")).unwrap();
        lab.run(["import", "medium"]).ok();
        all(&lab);
        if let Some(reader) = Reader::find() {
            let session = kept.last().unwrap();
            reader
                .run(&lab, None, &["extract", "medium", "--session", session, "--into", "read"])
                .ok();
            same_by_rsync(&lab.path("tree"), &below(&lab.path("read"), &lab.path("tree")));
        }
    }
}

/// A full that was made before anything referred to its base, and has not all of that, takes no place.
#[test]
fn a_full_without_what_is_referred_to_takes_no_place() {
    let lab = Lab::new();
    for i in 0..400 {
        lab.file(&format!("tree/d/f{i}"), noise(i, 20_000));
    }
    step(&lab, 0, &["--segment-size", "1M"]);
    lab.sh("cd tree/d; for i in {0..399}; do test $((i % 40)) = 0 || rm f$i; done");
    let (base, _) = step(&lab, 1, &["--segment-size", "1M"]);
    // In another life it becomes a full; this one does not know of it.
    lab.sh("cp -a home other");
    let kept = lab.keep_tables();
    lab.run(["consolidate", &format!("t@{base}"), "--to", "b", "--block-size", "64K"]).ok();
    lab.sh("rm -r home; mv other home");
    lab.put_tables_back(&kept);
    lab.sh("mv tree/d tree/e");
    let (session, report) = step(&lab, 2, &["--incr"]);
    assert_eq!(report["moved"], 10, "{report:#}");
    lab.run(["import", "b"]).ok();
    let done = finish(lab.command().args(["prune", "t", "--json", "--keep-last", "1"]));
    let done: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        done["consolidated"].as_array().map(Vec::len),
        Some(1),
        "another one is made: {done:#}"
    );
    comes_back(&lab, 2, &session);
    lab.run(["verify", &format!("t@{session}")]).ok();
}

/// A backup that was cut short goes on with what was moved in between.
#[test]
fn what_was_moved_before_it_went_on_is_stored_once() {
    let lab = lab(None);
    step(&lab, 0, &[]);
    for n in 0..20 {
        lab.file(&format!("tree/a/{n}"), noise(99 + n, 10_000_000));
    }
    let segments = || fs::read_dir(lab.path("medium")).unwrap().count();
    let before = segments();
    let mut cut = lab.command();
    cut.args(["backup", "tree", "--to", "medium", "--name", "t", "--segment-size", "1M"]);
    let mut child = cut.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("a few segments", || segments() > before + 4);
    let _ = child.kill();
    let _ = child.wait();
    lab.sh("mv tree/d tree/moved");
    let (session, report) = step(&lab, 1, &["--resume"]);
    assert_eq!(report["method"], "incr", "{report:#}");
    assert!(report["moved"].as_u64() > Some(600), "{report:#}");
    assert!(written(&report) < 200_000_000 + 2 * ROWS, "{report:#}");
    comes_back(&lab, 1, &session);
}

/// Contents on several tapes, whose files have other names on the last one; with one drive.
#[test]
fn what_was_moved_comes_back_from_tapes() {
    let lab = Lab::new();
    library(&lab, 1, 5);
    (0..5).for_each(|n| drop(lab.file(&format!("tree/d/big-{n}"), noise(n, 9_000_000))));
    (0..800).for_each(|n| drop(lab.file(&format!("tree/d/s/{n:03}"), noise(100 + n, 15_000))));
    let args = ["tree", "--to", "vtape:vtl", "--name", "t"];
    let full = lab.backed_up(args);
    assert!(full["media"].as_array().map(Vec::len) >= Some(2), "{full:#}");
    lab.sh("mv tree/d tree/moved; echo new >tree/new");
    let incr = lab.backed_up(args.iter().chain(&["--incr"]));
    assert_eq!(incr["moved"], 805, "{incr:#}");
    let restored = lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    fs::remove_dir_all(lab.path("out")).unwrap();
    eprintln!("{restored:#}");
    fs::remove_dir_all(lab.path("home")).unwrap();
    lab.run(["import", "vtape:vtl"]).ok();
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
}
