//! What exists and looks like what is in the backup is left alone by a restore, and gets the metadata that it had.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use serde_json::Value;

use crate::compare::{same_attributes, same_by_rsync};
use crate::support::{
    Lab, Mount, NOBODY, below, can_mount, is_root, loop_devices, noise, report, skip,
};

const BACKUP: [&str; 5] = ["tree", "--to", "medium", "--name", "t"];

/// Files of all kinds in a full backup and an incremental one, of which some have all their contents in the first and their metadata in
/// the second; and a copy of them.
fn lab(within: Option<&Path>) -> Lab {
    let lab = within.map_or_else(Lab::new, Lab::within);
    lab.file("tree/in/parts", noise(1, 34_000_000));
    lab.file("tree/carried", noise(2, 50_000));
    lab.sh("cd tree; mkdir d; for f in d/id_rsa acl plain suid cap named linked moved empty flagged; do echo $f >$f; done; : >empty
            chmod 600 d/id_rsa; chmod 700 d; chmod 640 linked carried; ln linked d/linked2; ln -s plain soft; mkfifo -m 600 fifo");
    if is_root() {
        lab.sh("cd tree; chown -h 5:6 soft acl suid; chown 7:8 d in/parts linked; chmod 6755 suid; mknod null c 1 3");
    }
    lab.backed_up(BACKUP);
    lab.sh("cd tree; chmod 604 carried; touch -d 2021-02-03 carried; mv moved moved2; sleep 0.01");
    if is_root() {
        lab.sh("cd tree; setfacl -m u:9:r acl d; setfacl -d -m u:9:rx d; setfattr -n user.who -v me named
                setfattr -n security.capability -v 0x0100000200040000000000000000000000000000 cap; touch acl d named cap; chattr +d flagged || :");
    }
    lab.backed_up(BACKUP);
    lab.sh("cp -a tree ref; cd tree; lsattr flagged | grep -q d && chattr +d ../ref/flagged || :");
    lab
}

/// As somebody's `chmod -R` and `chown -R` in the wrong directory leave it.
fn spoil(lab: &Lab) {
    lab.sh(&format!(
        "cd tree; setfacl -R -b .; setfattr -x user.who named; chattr -d flagged || :; chmod -R 777 .; chown -Rh {NOBODY}:{NOBODY} .
         setfacl -m u:3:rwx plain; setfacl -m u:3:rwx fifo"
    ));
}

fn restore_in_place(lab: &Lab, options: &[&str]) -> Value {
    lab.restored(["t", "--in-place"].iter().chain(options))
}

/// When the metadata of each file changed last.
fn ctimes(lab: &Lab, dir: &str) -> String {
    lab.sh(&format!("cd {dir}; find . -not -type d -printf '%p %C@\\n' | sort"))
}

#[test]
fn what_is_left_alone_gets_its_metadata() {
    if !is_root() {
        return skip("only root gives files away");
    }
    let lab = lab(None);
    spoil(&lab);
    let files = 15;
    let foreseen = restore_in_place(&lab, &["--dry-run"]);
    let done = restore_in_place(&lab, &[]);
    for report in [&foreseen, &done] {
        let counts = ["files", "skipped", "put_right", "bytes_written"].map(|of| &report[of]);
        // A further name is linked to the first one, where it is not that file already.
        assert_eq!(counts[0], 1, "{report:#}");
        assert_eq!((counts[2], counts[3]), (&files.into(), &0.into()), "{report:#}");
        assert!(counts[1].as_u64() >= Some(files), "{report:#}");
    }
    assert_eq!(done["bytes_read"], 0, "no contents are read: {done:#}");
    same_by_rsync(&lab.path("ref"), &lab.path("tree"));
    same_attributes(&lab, &lab.path("ref"), &lab.path("tree"));
    // What is as it should be is looked at, and not touched.
    let before = ctimes(&lab, "tree");
    let again = restore_in_place(&lab, &[]);
    assert_eq!(again["put_right"], 0, "{again:#}");
    assert_eq!(ctimes(&lab, "tree"), before);
    let said = lab.run(["restore", "t", "--in-place"]).stdout;
    assert!(!said.contains("Put right"), "{said}");
}

/// What of it is asked for, in place and in another tree; an attribute that is not in the backup stays, what gives rights goes.
#[test]
fn one_file_and_an_existing_tree() {
    if !is_root() {
        return skip("only root gives files away");
    }
    let lab = lab(None);
    spoil(&lab);
    lab.sh("setfattr -n user.extra -v x tree/plain");
    lab.sh(
        "setfattr -n security.capability -v 0x0100000200040000000000000000000000000000 tree/plain",
    );
    let run = lab.run(["restore", "t", "tree/plain", "tree/d/linked2", "--in-place"]);
    assert!(
        run.ok().stdout.contains("Put right   2 of these: owner, mode or attributes"),
        "{}",
        run.stdout
    );
    let of = |name: &str| fs::symlink_metadata(lab.path(name)).unwrap();
    assert_eq!((of("tree/plain").mode() & 0o7777, of("tree/plain").uid()), (0o644, 0));
    assert_eq!((of("tree/linked").mode() & 0o7777, of("tree/linked").uid()), (0o640, 7));
    assert_eq!(of("tree/acl").mode() & 0o7777, 0o777, "nobody asked for it");
    let attributes = lab.sh("cd tree; getfattr -m - plain; getfacl -c plain");
    assert!(attributes.contains("user.extra"), "{attributes}");
    assert!(!attributes.contains("capability") && !attributes.contains("user:3"), "{attributes}");
    // Another tree, of which a file was changed too.
    lab.sh("mkdir out");
    let there = below(&lab.path("out"), &lab.path("tree"));
    fs::create_dir_all(there.parent().unwrap()).unwrap();
    lab.sh(&format!(
        "cp -a tree {0}; setfattr -x user.extra {0}/plain; echo changed >{0}/acl",
        there.display()
    ));
    let done = lab.restored(["t", "--into", "out"]);
    assert_eq!((&done["files"], &done["put_right"]), (&2.into(), &12.into()), "{done:#}");
    same_by_rsync(&lab.path("ref"), &there);
}

#[test]
fn what_the_policy_keeps_stays_as_it_is() {
    let lab = lab(None);
    lab.sh("cd tree; chmod 777 plain d/id_rsa empty; echo newer >plain; chattr -d flagged || :; cp -a . ../spoilt");
    for options in [&["--overwrite", "never", "--dry-run"][..], &["--overwrite", "never"]] {
        let kept = restore_in_place(&lab, options);
        assert_eq!(
            (&kept["bytes_written"], &kept["put_right"]),
            (&0.into(), &0.into()),
            "{kept:#}"
        );
        let note = kept["notes"][0].as_str().unwrap_or_default();
        assert!(note.starts_with("2 files that were left alone have another"), "{kept:#}");
        assert!(note.contains("--overwrite if-different"), "{note}");
        same_by_rsync(&lab.path("spoilt"), &lab.path("tree"));
    }
    // Newer is the user's; what is the same is put right.
    let kept = restore_in_place(&lab, &["--overwrite", "if-newer"]);
    let flagged = u64::from(
        is_root() && lab.sh("lsattr ref/flagged").split(' ').next().unwrap().contains('d'),
    );
    assert_eq!(
        (&kept["bytes_written"], &kept["put_right"]),
        (&0.into(), &(2 + flagged).into()),
        "{kept:#}"
    );
    assert_eq!(fs::metadata(lab.path("tree/plain")).unwrap().mode() & 0o777, 0o777);
    let kept = restore_in_place(&lab, &[]);
    assert_eq!((&kept["files"], &kept["put_right"]), (&2.into(), &0.into()), "{kept:#}");
    same_by_rsync(&lab.path("ref"), &lab.path("tree"));
}

/// A plain user puts right what is his, though its mode shut him out.
#[test]
fn a_plain_user_puts_his_files_right() {
    if !is_root() {
        return skip("only root becomes another user");
    }
    let lab = Lab::of_user();
    lab.sh("mkdir tree; cd tree; echo a >a; echo b >b; echo c >c; chmod 400 b; chmod 640 c; setfattr -n user.who -v me a c; ln -s a soft; cp -a . ../ref");
    lab.backed_up(BACKUP);
    lab.sh("cd tree; setfattr -x user.who c; chmod 000 a c; chmod 777 b");
    let done = lab.restored(["t", "--in-place"]);
    assert_eq!((&done["files"], &done["put_right"]), (&0.into(), &3.into()), "{done:#}");
    same_by_rsync(&lab.path("ref"), &lab.path("tree"));
    // What is somebody else's now is told, each time.
    std::os::unix::fs::chown(lab.path("tree/a"), Some(0), Some(0)).unwrap();
    fs::set_permissions(lab.path("tree/a"), fs::Permissions::from_mode(0o606)).unwrap();
    for _ in 0..2 {
        let told = lab.restore(["t", "--in-place"]);
        assert_eq!(told["put_right"], 0, "{told:#}");
        let errors = told["errors"].to_string();
        assert!(errors.contains("1 owners could not be restored"), "{told:#}");
        assert!(errors.contains("1 modes of others' files and directories could not"), "{told:#}");
    }
}

/// Each file that cannot be put right is named, as directories are, with what to do.
#[test]
fn what_cannot_be_put_right_is_named() {
    if !can_mount() || !loop_devices() {
        return skip("only who may mount has a file system of his own");
    }
    let outer = Lab::new();
    outer.sh("truncate -s 200M image; mkfs.ext4 -q image");
    let image = outer.path("image");
    let at = outer.path("at");
    let _mount = Mount::new(&["-o", "loop", image.to_str().unwrap()], &at);
    let lab = lab(Some(&at));
    lab.sh("chmod 606 tree/plain tree/acl; chattr +i tree/plain");
    let told = lab.restore(["t", "--in-place"]);
    assert_eq!(
        (&told["put_right"], &told["status"]),
        (&1.into(), &"completed_with_errors".into()),
        "{told:#}"
    );
    let error = &told["errors"][0];
    assert_eq!(error["code"], "not-written", "{told:#}");
    assert!(error["path"].as_str().unwrap().ends_with("tree/plain"), "{told:#}");
    assert!(error["error"].as_str().unwrap().contains("lsattr"), "{told:#}");
    lab.sh("chattr -i tree/plain");
    // Nothing can be written there.
    outer.sh("mkdir elsewhere other");
    lab.sh(&format!("cp -a home medium {}; sync", outer.path("elsewhere").display()));
    outer.sh("mount -o remount,ro at");
    let mut command = outer.command();
    command.env("CAPSTAN_HOME", outer.path("elsewhere/home")).current_dir(outer.path("other"));
    command.args(["restore", "t", "--in-place", "--json"]);
    let told = report(crate::support::finish(&mut command));
    outer.sh("mount -o remount,rw at");
    assert_eq!(
        (&told["put_right"], &told["status"]),
        (&0.into(), &"completed_with_errors".into()),
        "{told:#}"
    );
    let errors = told["errors"].to_string();
    assert!(
        errors.contains("plain: Read-only file system (os error 30); mount it writable"),
        "{told:#}"
    );
}
