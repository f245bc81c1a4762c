//! A home whose file system is full: restores go on, backups are refused before they begin, and status says so.

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Mount, below, can_mount, free_bytes, noise, skip};

#[test]
fn restores_go_on_and_backups_are_refused() {
    if !can_mount() {
        return skip("nothing can be mounted here");
    }
    let lab = Lab::new();
    let mount = Mount::new(&["-t", "tmpfs", "-o", "size=4M", "tmpfs"], &lab.path("home"));
    for i in 0..50 {
        lab.file(&format!("tree/{i}"), noise(i, 3_000));
    }
    lab.backed_up(["tree", "--to", "m", "--name", "t"]);
    assert!(lab.path("home/reserve").exists(), "room is kept for restores");
    // To the last byte.
    lab.sh("dd if=/dev/zero of=home/filler bs=4k 2>/dev/null || true");
    assert_eq!(free_bytes(&lab.path("home")), 0);
    // Looking at it takes little of the room, whatever fills the rest.
    for _ in 0..2 {
        let run = lab.run(["status", "--json"]);
        let json: Value =
            serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {}", run.stderr));
        assert_eq!(
            (run.code, &json["status"], &json["home"]["full"]),
            (6, &"critical".into(), &true.into())
        );
    }
    let line = lab.run(["status", "--plugin"]);
    assert_eq!(line.code, 2, "{}", line.stdout);
    assert!(
        line.stdout.starts_with("CAPSTAN CRITICAL") && line.stdout.contains("home"),
        "{}",
        line.stdout
    );
    assert!(line.stdout.contains("is full"), "{}", line.stdout);
    for refused in [vec!["backup", "tree", "--to", "m", "--name", "t"], vec!["import", "m"]] {
        let run = lab.run(&refused);
        assert_eq!(run.code, 2, "{refused:?}: {}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains("is full"), "{refused:?}: {}", run.stderr);
    }
    let said = lab.run(["status"]);
    assert!(said.stdout.contains("refused"), "the refusal is on record: {}", said.stdout);
    for _ in 0..3 {
        lab.restored(["t", "--into", "out"]);
        let tree = lab.path("tree");
        same_by_rsync(&tree, &below(&lab.path("out"), &tree));
        std::fs::remove_dir_all(lab.path("out")).unwrap();
    }
    lab.run(["verify", "t"]).ok();
    // Where there is room again, it goes on by itself.
    lab.sh("rm home/filler");
    lab.backed_up(["tree", "--to", "m", "--name", "t"]);
    assert!(lab.path("home/reserve").exists());
    lab.run(["status"]).ok();
    drop(mount);
}

/// Where the index of the database's log gets no room, the kernel kills who writes to it: on file systems whose blocks are smaller than a
/// page, and on those that write each page anew.
#[test]
fn no_command_is_killed_where_nothing_is_left_to_give_up() {
    if !can_mount() {
        return skip("nothing can be mounted here");
    }
    for (make, size) in [("mkfs.ext4 -q -b 1024", "40M"), ("mkfs.btrfs -q", "120M")] {
        let lab = Lab::new();
        lab.sh(&format!("truncate -s {size} disk.img; {make} disk.img"));
        let image = lab.path("disk.img");
        let _mount = Mount::new(&["-o", "loop", image.to_str().unwrap()], &lab.path("disk"));
        let home = lab.path("disk/home");
        let capstan = |args: &[&str]| lab.run([&["--home", home.to_str().unwrap()], args].concat());
        for i in 0..50 {
            lab.file(&format!("tree/{i}"), noise(i, 3_000));
        }
        capstan(&["backup", "tree", "--to", "m", "--name", "t"]).ok();
        // To the last byte.
        lab.sh("rm disk/home/reserve; sync; for n in 1 2 3 4; do \
             dd if=/dev/zero of=disk/filler$n bs=1k 2>/dev/null || sync; done");
        for args in [
            &["status", "--plugin"][..],
            &["ls", "t"],
            &["restore", "t", "--into", "out"],
            &["backup", "tree", "--to", "m", "--name", "t"],
            &["prune", "--keep-last", "1"],
            &["status"],
        ] {
            let run = capstan(args);
            let said = format!("{make}, {args:?}: {} {}{}", run.code, run.stdout, run.stderr);
            assert!((0..100).contains(&run.code), "{said}");
            assert!(run.code == 0 || said.contains("full"), "{said}");
        }
        lab.sh("rm disk/filler*; sync");
        capstan(&["backup", "tree", "--to", "m", "--name", "t"]).ok();
        capstan(&["restore", "t", "--into", "out", "--overwrite", "always"]).ok();
        let tree = lab.path("tree");
        same_by_rsync(&tree, &below(&lab.path("out"), &tree));
        capstan(&["idb", "check"]).ok();
    }
}

/// As a file system with errors=remount-ro is when its disk failed: a restore is just what is wanted then.
#[test]
fn a_home_that_is_mounted_read_only_says_so_and_how_to_restore() {
    if !can_mount() || crate::server::is_wanted() {
        return skip("nothing can be mounted here, or the tables are on a server");
    }
    let lab = Lab::new();
    let mount = Mount::new(&["-t", "tmpfs", "-o", "size=4M", "tmpfs"], &lab.path("home"));
    lab.file("tree/a", noise(1, 3_000));
    lab.backed_up(["tree", "--to", "m", "--name", "t"]);
    lab.sh("mount -o remount,ro home");
    for args in [&["status"][..], &["ls", "t"], &["restore", "t", "--into", "none"]] {
        let run = lab.run(args);
        assert!(run.code == 1 && run.stderr.contains("mounted read-only"), "{}", run.stderr);
    }
    let said = lab.run(["status"]).stderr.clone();
    let way = format!("`cp -a {} COPY`", lab.path("home").display());
    assert!(said.contains(&way), "{said}");
    lab.sh("cp -a home copy");
    lab.run(["--home", "copy", "restore", "t", "--into", "out"]).ok();
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    lab.sh("mount -o remount,rw home");
    lab.run(["status"]).ok();
    drop(mount);
}
