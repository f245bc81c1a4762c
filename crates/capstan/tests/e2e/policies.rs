//! Where a restore writes, and what becomes of what is there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::compare::{same, same_by_rsync};
use crate::support::{Lab, below, is_root, noise, skip};

fn lab() -> (Lab, PathBuf) {
    let lab = Lab::new();
    for name in ["older", "newer", "same", "sub/missing"] {
        lab.file(&format!("tree/{name}"), format!("backup {name}"));
    }
    lab.sh("touch -d 2020-01-01 tree/older tree/newer tree/same tree/sub/missing tree/sub");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let there = below(&lab.path("out"), &lab.path("tree"));
    (lab, there)
}

/// Changes what lies in the target: one file older than in the backup, one newer, one untouched, one gone.
fn changed(lab: &Lab, overwrite: &str) -> (serde_json::Value, serde_json::Value) {
    lab.restored(["t", "--into", "out", "--overwrite", "always"]);
    let there = below(&lab.path("out"), &lab.path("tree"));
    fs::write(there.join("older"), "target").unwrap();
    fs::write(there.join("newer"), "target").unwrap();
    fs::remove_file(there.join("sub/missing")).unwrap();
    lab.sh(&format!(
        "cd '{}'; touch -d 2010-01-01 older; touch -d 2030-01-01 newer",
        there.display()
    ));
    let restore = ["t", "--into", "out", "--overwrite", overwrite];
    let foreseen = lab.restored(restore.iter().chain(&["--dry-run"]));
    (foreseen, lab.restored(restore))
}

#[test]
fn overwrite_policies() {
    let (lab, there) = lab();
    let content = |name: &str| fs::read_to_string(there.join(name)).unwrap();
    for (overwrite, older, newer, skipped) in [
        ("never", "target", "target", 3),
        ("if-different", "backup older", "backup newer", 1),
        ("if-newer", "backup older", "target", 2),
        ("always", "backup older", "backup newer", 0),
    ] {
        let (foreseen, report) = changed(&lab, overwrite);
        for field in ["files", "dirs", "skipped", "bytes_written"] {
            assert_eq!(foreseen[field], report[field], "{field} of a dry run, {overwrite}");
        }
        assert_eq!(
            (content("older").as_str(), content("newer").as_str()),
            (older, newer),
            "{overwrite}"
        );
        assert_eq!(
            (content("same"), content("sub/missing")),
            ("backup same".into(), "backup sub/missing".into())
        );
        assert_eq!(report["skipped"], skipped, "{overwrite}: {report:#}");
    }
    same_by_rsync(&lab.path("tree"), &there);
    let run = lab.run(["restore", "t", "--into", "out", "--overwrite", "never"]);
    assert!(run.ok().stdout.contains("Left alone  4 that existed"), "{}", run.stdout);
    let dry =
        |options: &[&str]| lab.run(["restore", "t", "--dry-run"].iter().chain(options)).stdout;
    let said = dry(&["--into", "out", "--overwrite", "never"]);
    assert!(said.contains("Left alone  4 that existed"), "{said}");
    assert!(said.contains("0 B would be restored") && !said.contains("on the medium"), "{said}");
    let said = dry(&["--into", "new"]);
    assert!(said.contains("53 B would be restored"), "{said}");
    assert!(!lab.path("new").exists(), "a dry run makes nothing");
    // In place nothing differs.
    let said = dry(&["--in-place"]);
    assert!(said.contains("Left alone  4 that existed"), "{said}");
}

#[test]
fn strip_and_paths() {
    let (lab, _) = lab();
    let depth = lab.path("tree").components().count() - 1;
    lab.restored(["t", "--into", "flat", "--strip", &depth.to_string()]);
    // The target itself is the user's own: it keeps its mode and time.
    lab.sh("chmod --reference tree flat; touch -r tree flat");
    same_by_rsync(&lab.path("tree"), &lab.path("flat"));
    // One more strips the directory below, too; what has no name left is left out.
    lab.restored(["t", "--into", "flatter", "--strip", &(depth + 1).to_string()]);
    assert!(lab.path("flatter/missing").is_file() && !lab.path("flatter/older").exists());
    let sub = lab.path("tree/sub");
    lab.restored(["t".as_ref(), sub.as_os_str(), "--into".as_ref(), "part".as_ref()]);
    let part = below(&lab.path("part"), &lab.path("tree"));
    assert!(part.join("sub/missing").is_file() && !part.join("older").exists());
    assert_eq!(
        fs::metadata(part.join("sub")).unwrap().mtime(),
        fs::metadata(&sub).unwrap().mtime()
    );
}

#[test]
fn in_place() {
    let (lab, _) = lab();
    let copy = lab.path("copy");
    lab.sh("cp -a tree copy; rm tree/older; echo damaged >tree/newer; rm -r tree/sub; echo mine >tree/extra");
    lab.restored(["t", "--in-place"]);
    assert_eq!(
        fs::read_to_string(lab.path("tree/extra")).unwrap(),
        "mine\n",
        "what is not in the backup stays"
    );
    fs::remove_file(lab.path("tree/extra")).unwrap();
    lab.restored(["t", "--in-place"]);
    same(&lab, &copy, &lab.path("tree"));
}

#[test]
fn a_dry_run_restores_nothing() {
    let (lab, there) = lab();
    let report = lab.restored(["t", "--into", "out", "--dry-run"]);
    assert_eq!(report["files"], 4, "{report:#}");
    assert!(!there.exists());
}

#[test]
fn as_a_tar_archive() {
    let (lab, _) = lab();
    lab.sh("ln tree/older tree/linked; ln -s older tree/link; mkfifo tree/fifo; truncate -s 300M tree/sparse; \
            printf middle | dd of=tree/sparse bs=1 seek=200M conv=notrunc status=none; \
            printf 'n%.0s' {1..255} >name; echo long >tree/$(cat name)");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.restored(["t", "--to-tar", "archive.tar"]);
    let size = fs::metadata(lab.path("archive.tar")).unwrap().len();
    assert!(size < 1 << 20, "holes take no room in an archive, it has {size} bytes");
    lab.sh("mkdir by-tar; tar -x -p --xattrs --acls --numeric-owner -f archive.tar -C by-tar");
    same_by_rsync(&lab.path("tree"), &below(&lab.path("by-tar"), &lab.path("tree")));
    // To standard output, straight into tar.
    let binary = env!("CARGO_BIN_EXE_capstan");
    lab.sh(&format!(
        "mkdir by-pipe; set -o pipefail; CAPSTAN_HOME=$PWD/home '{binary}' restore t --to-tar - | tar -x -p -C by-pipe"
    ));
    same_by_rsync(&lab.path("tree"), &below(&lab.path("by-pipe"), &lab.path("tree")));
}

#[test]
fn an_archive_has_hard_links_of_all_kinds_and_acls() {
    let lab = Lab::new();
    lab.sh("mkdir tree; cd tree; echo x >file; ln file file2; ln -s to soft; ln soft soft2; mkfifo fifo; ln fifo fifo2");
    let nodes = is_root();
    if nodes {
        lab.sh("cd tree; mknod null c 1 3; ln null null2");
    }
    let acls = lab.succeeds(
        "cd tree; mkdir dir; setfacl -m u:1:rw,g:2:r,m::rx file; setfacl -d -m u:3:rwx dir",
    );
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let report = lab.restored(["t", "--to-tar", "archive.tar"]);
    assert_eq!(report["errors"].as_array().map(Vec::len), Some(0), "{report:#}");
    for options in ["--acls", "--acls --xattrs", "--acls --xattrs --xattrs-include=*"] {
        lab.sh(&format!(
            "rm -rf by-tar; mkdir by-tar; tar -x -p {options} -f archive.tar -C by-tar"
        ));
        let there = below(&lab.path("by-tar"), &lab.path("tree"));
        let inode = |name: &str| fs::symlink_metadata(there.join(name)).unwrap().ino();
        for name in ["file", "soft", "fifo", "null"].iter().filter(|n| nodes || **n != "null") {
            assert_eq!(inode(name), inode(&format!("{name}2")), "{name}");
        }
        if acls {
            let facl = |dir: &Path| {
                lab.sh(&format!("cd '{}'; getfacl -n -R . | grep -v '^#'", dir.display()))
            };
            assert_eq!(facl(&lab.path("tree")), facl(&there), "{options}");
        } else {
            skip("there are no ACLs here");
        }
    }
}

#[test]
fn a_symlink_in_the_way_is_a_conflict_and_nothing_leaves_the_target() {
    let (lab, there) = lab();
    lab.mkdir("elsewhere");
    fs::create_dir_all(&there).unwrap();
    std::os::unix::fs::symlink(lab.path("elsewhere"), there.join("sub")).unwrap();
    let report = lab.restore(["t", "--into", "out"]);
    assert_eq!(report["status"], "completed_with_errors", "{report:#}");
    assert!(report["errors"].to_string().contains("conflict"), "{report:#}");
    assert_eq!(
        fs::read_dir(lab.path("elsewhere")).unwrap().count(),
        0,
        "it wrote through the symlink"
    );
    assert!(there.join("older").is_file(), "the rest is restored");
}

/// Where the first name of a file is kept as something else, a further name has the contents, and the others are links to it.
#[test]
fn missing_names_come_back_though_the_first_is_kept() {
    let lab = Lab::new();
    lab.file("tree/big1", noise(1, 34_000_000));
    lab.sh("cd tree; echo old >x; ln x y; ln x z; echo same >a; ln a b; ln big1 big2; ln -s to s; ln s s2
            touch -hd 2020-01-01 x a s big1; cp -a . ../ref");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let inode = |name: &str| fs::symlink_metadata(lab.path("tree").join(name)).unwrap().ino();
    for overwrite in ["never", "if-newer"] {
        let options = ["t", "--in-place", "--overwrite", overwrite];
        lab.sh(
            "cd tree; rm *; echo newer >x; echo mine >big1; ln -s elsewhere s; cp -p ../ref/a a",
        );
        let kept = ["x", "big1", "s", "a"].map(inode);
        let foreseen = lab.restored(options.iter().chain(&["--dry-run"]));
        let done = lab.restored(options);
        for field in ["files", "skipped", "bytes_written"] {
            assert_eq!(foreseen[field], done[field], "{field} of a dry run, {overwrite}");
        }
        assert_eq!((&done["files"], &done["skipped"]), (&5.into(), &4.into()), "{done:#}");
        assert_eq!(["x", "big1", "s", "a"].map(inode), kept, "{overwrite}");
        assert_eq!(
            lab.sh("cat tree/y tree/x tree/big1; readlink tree/s tree/s2"),
            "old\nnewer\nmine\nelsewhere\nto\n"
        );
        assert_eq!((inode("y"), inode("a")), (inode("z"), inode("b")));
        lab.sh(
            "cmp tree/big2 ref/big2; rm tree/x tree/big1 tree/s; cp -a ref/x ref/big1 ref/s tree",
        );
        // Another name that was kept and has the contents: the missing ones are links to it.
        lab.sh("cd tree; rm y; echo newer >x");
        let z = inode("z");
        lab.restored(options);
        assert_eq!((inode("y"), inode("z")), (z, z), "{overwrite}");
    }
    // All names are kept: nothing is missing.
    lab.sh("cd tree; rm y z; echo 1 >x; echo 2 >y; echo 3 >z");
    lab.restored(["t", "--in-place", "--overwrite", "never"]);
    assert_eq!(lab.sh("cat tree/x tree/y tree/z"), "1\n2\n3\n");
}
