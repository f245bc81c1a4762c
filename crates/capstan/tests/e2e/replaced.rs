//! Restores over files that exist: each is replaced by all of the one in the backup, or stays as it is.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::time::Duration;

use crate::compare::same;
use crate::support::{Lab, Mount, below, can_mount, noise, skip};

/// The files below `tree` that differ from those below `ref`, by contents and by which names are one file, and what is in only one.
fn differing(lab: &Lab) -> String {
    lab.sh(
        "rsync -aHn --no-times --omit-dir-times --checksum --delete --itemize-changes ref/ tree/",
    )
}

#[test]
fn a_damaged_medium_costs_no_file_that_exists() {
    let lab = Lab::new();
    for n in 0..12 {
        lab.file(&format!("tree/d{}/f{n}", n % 3), noise(n, 100_000 + 7_000 * n as usize));
    }
    // Over several segments, with holes, with further names, and of which times alone changed: its contents lie in the full.
    lab.file("tree/big", noise(50, 3_000_000));
    lab.sh("truncate -s 900000 tree/sparse; dd if=/dev/urandom of=tree/sparse bs=1000 seek=300 count=200 conv=notrunc status=none");
    lab.sh("ln tree/d0/f0 tree/zero; ln tree/big tree/d1/big; touch tree/later-moved; cp tree/d0/f3 tree/moved");
    let options = ["--segment-size", "1M", "--compress", "off", "--streams", "2"];
    let args = ["tree", "--to", "medium", "--name", "t"];
    lab.backed_up([&args[..], &options[..]].concat());
    lab.sh(
        "mkdir tree/new; mv tree/moved tree/new/moved; touch -d 2021-01-01 tree/d2/f2 tree/d1/f4",
    );
    lab.backed_up([&args[..], &options[..]].concat());
    lab.sh("cp -a tree ref; cp -a medium whole");
    let mut withdrawn = 0;
    for turn in 0..12_u64 {
        lab.sh("rm -rf medium; cp -a whole medium; find tree -type f | xargs touch -d 2022-02-02");
        let mut segments: Vec<_> = fs::read_dir(lab.path("medium"))
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e == "segment"))
            .collect();
        segments.sort();
        let segment = &segments[turn as usize % segments.len()];
        let mut bytes = fs::read(segment).unwrap();
        let at = bytes.len() * (turn as usize % 5 + 1) / 7;
        match turn % 3 {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1,
            _ => {
                let end = (at + 200_000).min(bytes.len());
                bytes[at..end].fill(0);
            }
        }
        fs::write(segment, bytes).unwrap();
        let run = lab.run(["restore", "t", "--in-place", "--json"]);
        assert!(matches!(run.code, 0 | 3), "{}{}", run.stdout, run.stderr);
        assert_eq!(differing(&lab), "", "turn {turn}: {}{}", run.stdout, run.stderr);
        withdrawn += run.stdout.matches("what exists is left as it is").count();
    }
    assert!(withdrawn > 5, "{withdrawn}");
    // Where nothing is, what is left of a file comes.
    lab.sh("rm -rf tree medium; cp -a whole medium; truncate -s 500000 medium/00000001.segment");
    let run = lab.run(["restore", "t", "--in-place", "--json"]);
    assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
    assert!(!run.stdout.contains("what exists is left as it is"), "{}", run.stdout);
    assert!(lab.path("tree/big").exists());
}

#[test]
fn a_restore_that_is_ended_leaves_what_exists_or_has_replaced_it() {
    let lab = Lab::new();
    lab.file("tree/big", noise(1, 60_000_000));
    lab.sh("truncate -s 50000000 tree/sparse; dd if=/dev/urandom of=tree/sparse bs=1M seek=2 count=30 conv=notrunc status=none");
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--compress", "off"]);
    lab.sh("cp -a tree ref");
    let mut cut = 0;
    for turn in 0..8 {
        lab.sh("rm -rf tree; mkdir tree; echo live > tree/big; echo live > tree/sparse");
        let mut command = lab.command();
        command.args(["restore", "t", "--in-place"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20 * turn));
        let pid = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        child.wait().unwrap();
        for name in ["big", "sparse"] {
            let path = lab.path("tree").join(name);
            match fs::metadata(&path).unwrap().size() {
                5 => cut += 1,
                _ => _ = lab.sh(&format!("cmp ref/{name} tree/{name}")),
            }
        }
        assert_eq!(lab.sh("ls -A tree"), "big\nsparse\n");
    }
    assert!(cut > 0);
    // A file that was not there and came in part is not taken for the one in the backup.
    for turn in 0..8 {
        lab.sh("rm -rf tree");
        let mut command = lab.command();
        command.args(["restore", "t", "--in-place"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20 * turn));
        let pid = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        child.wait().unwrap();
        lab.restored(["t", "--in-place"]);
        lab.sh("diff -r ref tree");
    }
}

/// Large files are written in parts, and each takes the place of the one it replaces as soon as all of its parts are there: what is
/// written beside needs room for a few of them, not for all.
#[test]
fn files_in_parts_take_their_places_one_after_the_other() {
    if !can_mount() {
        return skip("not root in full");
    }
    let lab = Lab::new();
    lab.mkdir("small");
    let _mount = Mount::new(&["-t", "tmpfs", "-o", "size=460M", "tmpfs"], &lab.path("small"));
    // Eight of 34 MB are 272 MB.
    for n in 0..8 {
        lab.file(&format!("tree/big{n}"), noise(n, 34_000_000 + 1000 * n as usize));
    }
    lab.sh("ln tree/big3 tree/name; chmod 440 tree/big2");
    let backup =
        ["tree", "--to", "medium", "--name", "t", "--streams", "2", "--segment-size", "64M"];
    lab.backed_up(backup);
    // Of one the metadata alone changed since: its contents are an earlier row's.
    lab.sh("touch -d 2020-02-02 tree/big5; chmod 600 tree/big6");
    lab.backed_up(backup);
    lab.restored(["t", "--into", "small"]);
    let there = below(&lab.path("small"), &lab.path("tree"));
    same(&lab, &lab.path("tree"), &there);
    // Others are there, of the same length.
    lab.sh(&format!(
        "cd '{}'; chmod u+w *; for f in big*; do head -c $(stat -c %s $f) /dev/zero | tr '\\0' x >$f; done",
        there.display()
    ));
    lab.restored(["t", "--into", "small", "--overwrite", "always"]);
    assert_eq!(lab.sh(&format!("ls -A '{}'", there.display())), lab.sh("ls -A tree"));
    same(&lab, &lab.path("tree"), &there);
    // Parts that are damaged leave what is there, as before.
    lab.sh(
        "for f in medium/*.segment; do size=$(stat -c %s $f)
         if [ $size -gt 30000000 ]; then head -c 4096 /dev/urandom | dd of=$f bs=1 seek=$((size / 2)) conv=notrunc status=none; fi; done",
    );
    lab.sh(&format!(
        "cd '{}'; chmod u+w *; for f in big*; do echo mine >$f; done",
        there.display()
    ));
    let run = lab.run(["restore", "t", "--into", "small", "--overwrite", "always"]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    let (mut mine, mut whole) = (0, 0);
    for n in 0..8 {
        let name = format!("big{n}");
        match fs::read(there.join(&name)).unwrap() {
            all if all == b"mine\n" => mine += 1,
            all => {
                assert!(all == fs::read(lab.path("tree").join(&name)).unwrap(), "{name}");
                whole += 1;
            }
        }
    }
    assert!(mine > 0 && whole > 0, "{mine} {whole} {}", run.stderr);
    assert!(!lab.sh(&format!("ls -A '{}'", there.display())).contains(".capstan"));
}

/// A further name is made a link to what was restored, or to what is like it, and to nothing else.
#[test]
fn no_name_becomes_a_link_to_another_file_that_was_kept() {
    let lab = Lab::new();
    lab.file("tree/a", "in the backup");
    lab.sh("touch -d 2020-01-01 tree/a; ln tree/a tree/b; ln tree/a tree/c; mkfifo tree/p; ln tree/p tree/q");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.sh("cp -a tree ref");
    let restore =
        |policy: &str| lab.run(["restore", "t", "--in-place", "--overwrite", policy, "--json"]);
    // Another a is there, and is kept: the first of the others that is not kept has the contents.
    for (policy, b) in [("never", "own\n"), ("if-newer", "in the backup")] {
        lab.sh("rm -rf tree; mkdir tree; echo live > tree/a; echo own > tree/b; touch -d 2010-01-01 tree/b");
        let run = restore(policy);
        assert_eq!(run.code, 0, "{policy}: {}{}", run.stdout, run.stderr);
        assert_eq!(lab.sh("cat tree/a tree/b"), format!("live\n{b}"), "{policy}");
        lab.sh("test tree/p -ef tree/q; cmp tree/c ref/a");
        assert_eq!(lab.succeeds("test tree/b -ef tree/c"), policy == "if-newer");
    }
    // The same a is there, of which names are gone.
    for policy in ["never", "if-newer", "if-different"] {
        lab.sh("rm -rf tree; cp -a ref tree; rm tree/b tree/q");
        assert_eq!(restore(policy).code, 0);
        lab.sh("test tree/a -ef tree/b -a tree/a -ef tree/c -a tree/p -ef tree/q");
    }
}

/// Contents may lie in an earlier version than the time that a file has in this one.
#[test]
fn what_exists_is_held_against_the_version_that_is_restored() {
    let lab = Lab::new();
    // In one piece, and over several segments.
    lab.file("tree/f", noise(1, 5000));
    lab.file("tree/big", noise(2, 3_000_000));
    lab.sh("touch -d 2021-01-01 tree/f tree/big");
    let args =
        ["tree", "--to", "medium", "--name", "t", "--segment-size", "1M", "--compress", "off"];
    lab.backed_up(args);
    let restore = |when: &str, live: &str| {
        lab.sh(&format!("touch -d {when} tree/f tree/big"));
        assert_eq!(lab.backed_up(args)["moved"], 2);
        lab.sh("rm -rf kept; mv tree kept; mkdir tree; echo live > tree/f; echo live > tree/big");
        lab.sh(&format!("touch -d {live} tree/f tree/big"));
        lab.restored(["t", "--in-place", "--overwrite", "if-newer"]);
        let replaced = lab.succeeds("diff -r kept tree");
        assert!(replaced || lab.sh("cat tree/f tree/big") == "live\nlive\n");
        lab.sh("rm -rf tree; mv kept tree");
        replaced
    };
    assert!(!restore("2010-01-01", "2015-01-01"));
    assert!(restore("2025-01-01", "2023-01-01"));
}

/// In a container each restore is process 1.
#[test]
fn what_a_killed_restore_left_beside_is_in_nobodys_way() {
    let lab = Lab::new();
    for n in 0..12 {
        lab.file(&format!("tree/.capstan-1-{n}"), noise(n, 700));
        lab.file(&format!("tree/f{n}"), noise(n + 50, 3000 + n as usize));
    }
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.sh("cp -a tree ref; touch tree/* tree/.capstan*; rm tree/.capstan-1-3");
    let binary = env!("CARGO_BIN_EXE_capstan");
    lab.sh(&format!(
        "unshare --fork --pid --mount-proc '{binary}' --home home restore t --in-place"
    ));
    lab.sh("diff -r ref tree");
}

#[test]
fn two_files_that_would_have_one_path_are_refused() {
    let lab = Lab::new();
    for path in ["tree/p1/x", "tree/p2/x", "tree/p1/only", "tree/p2/deep/x"] {
        lab.file(path, path);
    }
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let strip = lab.path("tree/p1").components().count() - 1;
    let strip = strip.to_string();
    for to in [["--into", "out"], ["--to-tar", "t.tar"]] {
        let run = lab.run(["restore", "t", "--strip", &strip, to[0], to[1]]);
        run.refused(&["/x and another file would have one path", "strip less"]);
    }
    // What is asked for by name does not go without a word; others are counted.
    lab.file("tree/top", "top");
    lab.file("tree/p1/y/z", "z");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let (top, p1) = (lab.path("tree/top"), lab.path("tree/p1/only"));
    let named = ["restore", "t", top.to_str().unwrap(), p1.to_str().unwrap(), "--into", "out"];
    let run = lab.run([&named[..], &["--strip", &strip]].concat());
    run.refused(&["leaves nothing of /", "tree/top, which is asked for"]);
    let tree = lab.path("tree");
    let all = ["restore", "t", tree.to_str().unwrap(), "--exclude", "p2", "--into", "some"];
    let run = lab.run([&all[..], &["--strip", &strip]].concat());
    assert!(
        run.ok().stderr.contains("stripped") && run.stderr.contains("tree/top"),
        "{}",
        run.stderr
    );
    assert_eq!(lab.sh("cd some; find . -type f | sort"), "./only\n./x\n./y/z\n");
    // Directories may meet.
    let deep = lab.path("tree/p2/deep");
    let only = lab.path("tree/p1");
    let (only, deep) = (only.to_str().unwrap(), deep.to_str().unwrap());
    lab.restored(["t", only, deep, "--strip", &strip, "--into", "out"]);
    assert_eq!(lab.sh("cd out; find . -type f | sort"), "./deep/x\n./only\n./x\n./y/z\n");
}

#[test]
fn a_file_that_was_touched_since_the_full_is_none_that_another_one_meets() {
    let lab = Lab::new();
    for n in 0..3 {
        lab.file(&format!("tree/f{n}"), noise(n, 5000));
    }
    let backup = ["tree", "--to", "medium", "--name", "t"];
    lab.backed_up(backup);
    lab.sh("chmod 600 tree/f0; touch -d 2020-01-01 tree/f1; echo more >>tree/f2");
    lab.backed_up(backup);
    let strip = (lab.path("tree").components().count() - 1).to_string();
    lab.restored(["t", "--strip", &strip, "--into", "out"]);
    lab.sh("diff -r tree out");
    lab.restored(["t", "--strip", &strip, "--to-tar", "t.tar"]);
    assert_eq!(lab.sh("tar -tf t.tar | grep -v '/$' | sort"), "f0\nf1\nf2\n");
}
