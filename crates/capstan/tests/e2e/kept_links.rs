//! Further names that were not reached, whose first name was replaced or removed meanwhile: they keep the contents that they had.

use std::fs;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::independent_reader::Reader;
use crate::support::{Lab, NOBODY, below, finish, is_root, noise, skip};

const BACKUP: [&str; 6] = ["p1", "p2", "--to", "medium", "--name", "t"];

/// Names that stay links: a2 and gone2 of names beside them, and what was only touched.
const LINKS: usize = 3;

/// Two directories whose files are the same inodes: of each kind that has several names.
fn lab() -> Lab {
    let lab = Lab::new();
    fill(&lab, "p1", "p2");
    lab
}

fn fill(lab: &Lab, first: &str, second: &str) {
    files(lab, first);
    further_names(lab, first, second);
}

fn files(lab: &Lab, first: &str) {
    lab.file(&format!("{first}/a"), noise(1, 200_000));
    // In parts, by two streams.
    lab.file(&format!("{first}/big"), noise(2, 34_000_000));
    lab.file(&format!("{first}/touched"), noise(3, 50_000));
    lab.file(&format!("{first}/gone"), noise(4, 60_000));
    lab.file(&format!("{first}/empty"), "");
}

fn further_names(lab: &Lab, first: &str, second: &str) {
    lab.sh(&format!(
        "truncate -s 3M {first}/sparse; echo island | dd of={first}/sparse bs=1M seek=1 conv=notrunc status=none
         ln -s a {first}/soft; mkfifo {first}/fifo; mkdir -p {second}; chmod 640 {first}/a
         cp -al {first}/. {second}/; ln {second}/a {second}/a2; ln {second}/gone {second}/gone2; sleep 0.01"
    ));
}

/// What is done to the first names: another file in their places, or nothing.
fn changed(lab: &Lab, dir: &str) {
    lab.file("new/a", noise(11, 150_000));
    lab.file("new/big", noise(12, 35_000_000));
    lab.sh(&format!(
        "cd {dir}; touch -d 2020-02-02 touched; mv {new}/a a; mv {new}/big big
         rm gone empty fifo; echo new >empty; mkfifo fifo; rm soft; ln -s elsewhere soft
         rm sparse; truncate -s 3M sparse; echo other | dd of=sparse bs=1M seek=2 conv=notrunc status=none",
        new = lab.path("new").display()
    ));
}

fn kept_of(lab: &Lab, second: &str) -> String {
    // What is only touched stays the same file, and has the time of its first name.
    lab.sh(&format!("cp -a {second} as-it-was; touch -d 2020-02-02 as-it-was/touched"));
    "as-it-was".to_owned()
}

fn errors(report: &Value) -> Vec<&str> {
    let errors = report["errors"].as_array().unwrap();
    errors.iter().map(|e| e["code"].as_str().unwrap()).collect()
}

/// All readers give the second directory as it was, and the first one as it is.
fn all_readers_give(lab: &Lab, home: &str, first: &str, kept: &str, second: &str, version: &str) {
    let run = |args: &[&str]| {
        let mut command = lab.command();
        let run = finish(command.env("CAPSTAN_HOME", lab.path(home)).args(args));
        run.ok();
        run
    };
    let same = |what: &str| {
        let there = |dir: &str| below(&lab.path("out"), &lab.path(dir));
        println!("{what}");
        same_by_rsync(&lab.path(first), &there(first));
        same_by_rsync(&lab.path(kept), &there(second));
        lab.sh("rm -rf out; mkdir out");
    };
    lab.sh("rm -rf out; mkdir out");
    run(&["restore", version, "--into", "out"]);
    same("restored");
    // What is listed says the same: no name is a link to another file. What is only touched stays a link.
    let listed = run(&["ls", version, "--json"]).rows();
    let of_dir = |path: &Value| path.as_str().unwrap().rsplit_once('/').unwrap().0.to_owned();
    let links: Vec<_> = listed.iter().filter(|row| row["hard_link_to"].is_string()).collect();
    assert_eq!(links.len(), LINKS, "{links:#?}");
    for row in links.iter().filter(|row| !row["path"].as_str().unwrap().ends_with("/touched")) {
        assert_eq!(of_dir(&row["path"]), of_dir(&row["hard_link_to"]), "{row}");
    }
    // One directory, and one name alone.
    for (path, links) in [(second.to_owned(), LINKS), (format!("{second}/a"), 0)] {
        let listed = run(&["ls", version, &lab.path(path).display().to_string(), "--json"]).rows();
        let is_link = |row: &&Value| row["hard_link_to"].is_string();
        assert_eq!(listed.iter().filter(is_link).count(), links, "{listed:#?}");
    }
    // The second directory alone, and one name alone, whose first name is another file.
    let path = |of: &str| lab.path(of).display().to_string();
    run(&["restore", version, &path(second), "--into", "out"]);
    same_by_rsync(&lab.path(kept), &below(&lab.path("out"), &lab.path(second)));
    run(&["restore", version, &path(&format!("{second}/a2")), "--into", "one"]);
    let one = below(&lab.path("one"), &lab.path(format!("{second}/a2")));
    assert!(fs::read(one).unwrap() == noise(1, 200_000));
    lab.sh("rm -rf out one; mkdir out");
    run(&["restore", version, "--to-tar", "t.tar"]);
    lab.sh("tar --xattrs -C out -xf t.tar; rm t.tar");
    same("from the archive");
    run(&["verify", version]);
    run(&["drill", version, "--sample", "100%"]);
}

fn reader_gives(lab: &Lab, first: &str, kept: &str, second: &str) {
    let Some(reader) = Reader::find() else {
        return skip("tools/read_medium.py or its venv is missing: make setup");
    };
    lab.sh("rm -rf out");
    reader.run(lab, None, &["check", "medium"]).ok();
    reader.run(lab, None, &["extract", "medium", "--into", "out"]).ok();
    same_by_rsync(&lab.path(first), &below(&lab.path("out"), &lab.path(first)));
    same_by_rsync(&lab.path(kept), &below(&lab.path("out"), &lab.path(second)));
}

#[test]
fn a_missing_root_keeps_what_its_names_had() {
    let lab = lab();
    lab.backed_up([&BACKUP[..], &["--streams", "2"]].concat());
    let kept = kept_of(&lab, "p2");
    lab.sh("mv p2 away");
    changed(&lab, "p1");
    for _ in 0..2 {
        let night = lab.backup(BACKUP);
        assert_eq!((&night["method"], errors(&night)), (&"incr".into(), vec!["path-missing"]));
    }
    all_readers_give(&lab, "home", "p1", &kept, "p2", "t");
    reader_gives(&lab, "p1", &kept, "p2");
    // A cell that knows nothing of it.
    let mut import = lab.command();
    import.env("CAPSTAN_HOME", lab.path("other")).args(["import", "medium"]);
    finish(&mut import).ok();
    all_readers_give(&lab, "other", "p1", &kept, "p2", "t");
    // A copy in place of the original.
    lab.run(["copy", "t", "--to", "copy"]).ok();
    lab.sh("mv medium hidden");
    all_readers_give(&lab, "home", "p1", &kept, "p2", "t");
    lab.sh("mv hidden medium");
    // A full of it stands alone.
    lab.run(["prune", "t", "--keep-last", "1"]).ok();
    all_readers_give(&lab, "home", "p1", &kept, "p2", "t");
    lab.run(["consolidate", "t"]).ok();
    lab.run(["prune", "t", "--keep-last", "1"]).ok();
    let sessions = lab.run(["sessions", "t", "--json"]).rows();
    let left: Vec<_> = sessions.iter().filter(|s| s["removed"] == false).collect();
    assert_eq!(left.len(), 1, "{left:#?}");
    all_readers_give(&lab, "home", "p1", &kept, "p2", "t");
    reader_gives(&lab, "p1", &kept, "p2");
    // It is back: its names are files of their own.
    lab.sh("mv away p2");
    lab.backed_up(BACKUP);
    all_readers_give(&lab, "home", "p1", "p2", "p2", "t");
}

#[test]
fn a_directory_that_cannot_be_listed_keeps_what_its_names_had() {
    if !is_root() {
        return skip("not root");
    }
    let lab = Lab::of_user();
    lab.sh("mkdir tree new");
    files(&lab, "tree/p1");
    let chown = || {
        let mut chown = std::process::Command::new("chown");
        chown.args(["-Rh", &format!("{NOBODY}:{NOBODY}")]);
        finish(chown.args(["tree", "new"].map(|dir| lab.path(dir)))).ok();
    };
    chown();
    further_names(&lab, "tree/p1", "tree/p2");
    let args = ["tree", "--to", "medium", "--name", "t"];
    lab.backed_up(args);
    let kept = kept_of(&lab, "tree/p2");
    lab.sh("chmod 0 tree/p2");
    changed(&lab, "tree/p1");
    chown();
    let night = lab.backup(args);
    assert_eq!(errors(&night), ["not-listed"], "{night:#}");
    let restored = |kept: &str| {
        lab.sh("rm -rf out");
        lab.restored(["t", "--into", "out"]);
        let there = |dir: &str| below(&lab.path("out"), &lab.path(dir));
        same_by_rsync(&lab.path("tree/p1"), &there("tree/p1"));
        lab.sh(&format!("chmod 755 out{0}/tree/p2 {kept}", lab.path("").display()));
        let names = lab.sh(&format!("cd {kept}; ls"));
        for name in names.split_whitespace().filter(|name| *name != "fifo" && *name != "soft") {
            let (was, is) = (lab.path(kept).join(name), there("tree/p2").join(name));
            assert!(fs::read(was).unwrap() == fs::read(is).unwrap(), "{name}");
        }
    };
    restored(&kept);
    lab.run(["consolidate", "t"]).ok();
    lab.run(["prune", "t", "--keep-last", "1"]).ok();
    restored(&kept);
    lab.sh("chmod 755 tree/p2");
}

#[test]
fn a_file_that_is_locked_and_left_out_keeps_what_it_had() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 200_000));
    lab.file("tree/c", noise(5, 100_000));
    lab.sh("ln tree/a tree/b; ln tree/c tree/d");
    let args = ["tree", "--to", "medium", "--name", "t", "--locked", "skip"];
    lab.sh("touch -d '10 minutes ago' tree/*");
    lab.backed_up(args);
    lab.sh("cp -a tree was; echo new >new; mv new tree/a; rm tree/c");
    let held = ["tree/b", "tree/d"].map(|name| fs::File::open(lab.path(name)).unwrap());
    held.iter().for_each(|file| file.lock().unwrap());
    let night = lab.backup(args);
    let restored = || {
        lab.sh("rm -rf out");
        let run = lab.run(["restore", "t", "--into", "out"]);
        let there = below(&lab.path("out"), &lab.path("tree"));
        assert_eq!(fs::read(there.join("a")).unwrap(), b"new\n", "{}", run.stderr);
        assert!(!there.join("c").exists());
        for (name, seed, len) in [("b", 1, 200_000), ("d", 5, 100_000)] {
            assert!(fs::read(there.join(name)).unwrap() == noise(seed, len), "{name}: {night:#}");
        }
    };
    restored();
    lab.run(["consolidate", "t"]).ok();
    lab.run(["prune", "t", "--keep-last", "1"]).ok();
    restored();
    drop(held);
}

/// A file that changed while it was backed up is one, however many names it has: a restore names them all.
#[test]
fn each_name_of_a_file_that_changed_is_named() {
    let lab = Lab::new();
    let file = lab.file("tree/a", noise(1, 60_000_000));
    lab.sh("ln tree/a tree/b; ln tree/a tree/c; echo x >tree/d; ln tree/d tree/e");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let is_over = || stop.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::os::unix::fs::FileExt as _;
            let file = std::fs::File::options().write(true).open(&file).unwrap();
            for n in 0.. {
                if is_over() {
                    break;
                }
                file.write_all_at(&[n as u8], 59_000_000).unwrap();
                std::thread::sleep(std::time::Duration::from_micros(300));
            }
        });
        let run = lab.run(["backup", "tree", "--to", "medium", "--name", "t", "--retries", "0"]);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(run.stderr.contains("changed"), "{}", run.stderr);
    });
    let run = lab.run(["restore", "t", "--into", "out", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let errors = report["errors"].as_array().unwrap();
    let named = |name: &str| {
        let path = lab.path(name).display().to_string();
        errors.iter().filter(|e| e["path"] == path.as_str() && e["code"] == "changed").count()
    };
    for name in ["tree/a", "tree/b", "tree/c"] {
        assert_eq!(named(name), 1, "{name}: {report:#}");
    }
    assert_eq!((named("tree/d"), named("tree/e")), (0, 0), "{report:#}");
}
