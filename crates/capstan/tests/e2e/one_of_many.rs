//! What is wrong in one place does not keep all else from being done: a mirror that is not mounted, a lock file that cannot be read, a
//! medium that somebody reads, a disk without a free inode, a header that is gone.

use serde_json::Value;

use crate::mirror::comes_back;
use crate::support::{Lab, Mount, Run, can_mount, noise, skip};

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 100_000));
    lab
}

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

fn backup(lab: &Lab, line: &str) -> Value {
    lab.sh("echo more >>tree/text");
    lab.backup(["tree"].into_iter().chain(line.split_whitespace()))
}

#[test]
fn a_mirror_that_is_not_mounted_is_left_out() {
    let lab = lab();
    backup(&lab, "--to m --mirror n --name t");
    for (gone, there) in [("n", "m"), ("m", "n")] {
        lab.sh(&format!("mv {gone} away"));
        let done = backup(&lab, "--to m --mirror n --name t");
        assert_eq!(done["status"], "completed_with_errors", "{done:#}");
        assert_eq!(done["media"], serde_json::json!([there]), "{done:#}");
        assert!(done["errors"].to_string().contains("mirror-away"), "{done:#}");
        assert!(done["error_count"].as_u64().unwrap() > 0, "{done:#}");
        assert!(!lab.path(gone).exists(), "no medium was made in its place");
        comes_back(&lab);
        lab.sh(&format!("mv away {gone}"));
        run(&lab, &format!("copy t --to {gone}")).ok();
    }
    // Where all are away nothing is done.
    lab.sh("mkdir away; mv m n away");
    run(&lab, "backup tree --to m --mirror n --name t").refused(&["nothing is there now"]);
}

#[test]
fn status_alarms_where_a_header_is_gone() {
    for spoil in ["rm m/medium.capstan", "head -c 4096 /dev/zero >m/medium.capstan"] {
        let lab = lab();
        backup(&lab, "--to m --name t");
        run(&lab, "status").ok();
        lab.sh(spoil);
        let alarm = run(&lab, "status");
        assert!(alarm.code != 0, "{spoil}: {}", alarm.stdout);
        assert!(alarm.stdout.contains("media repair m"), "{spoil}: {}", alarm.stdout);
        // What cannot be removed for it is said.
        let dead = "protect t --none";
        run(&lab, dead).ok();
        let pruned = run(&lab, "prune t --give-up");
        assert_eq!(pruned.code, 3, "{}{}", pruned.stdout, pruned.stderr);
        run(&lab, "media repair m");
        assert_eq!(run(&lab, "prune t --give-up").code, 0);
    }
}

#[test]
fn a_lock_that_cannot_be_read_holds_its_version_only() {
    let lab = lab();
    backup(&lab, "--to m --name t --full --protect none");
    for _ in 0..2 {
        backup(&lab, "--to n --name u --full --protect none");
    }
    run(&lab, "lock t --until 2999-01-01").ok();
    lab.sh("for lock in m/*.lock; do rm $lock; mkdir $lock; done");
    for _ in 0..2 {
        backup(&lab, "--to m --name t --full --protect none");
    }
    let run = run(&lab, "prune --keep-last 1");
    assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains(".lock") || run.stderr.contains("the lock"), "{}", run.stderr);
    let segments = |m: &str| lab.sh(&format!("ls {m} | grep -c segment")).trim().to_owned();
    assert_eq!((segments("m"), segments("n")), ("2".into(), "1".into()), "{}", run.stdout);
}

#[test]
fn a_disk_without_a_free_inode_is_pruned() {
    if !can_mount() {
        return skip("only root can mount a small file system");
    }
    let lab = lab();
    let _small =
        Mount::new(&["-t", "tmpfs", "-o", "size=60m,nr_inodes=6", "tmpfs"], &lab.path("small"));
    for n in 0..5 {
        let to = format!("--to small/m --full --protect none --name t{n}");
        if backup(&lab, &to)["status"] != "completed" {
            break;
        }
    }
    assert!(!lab.succeeds("touch small/x"), "there is an inode left");
    let names = |what: &str| lab.sh(&format!("ls small/m | grep -c '{what}' || true"));
    let before: u32 = names("segment$").trim().parse().unwrap();
    // The last one: its number must not be given again.
    let last = format!("t{}", before - 1);
    run(&lab, &format!("prune {last} --give-up")).ok();
    assert_eq!(names("segment$").trim().parse::<u32>().unwrap(), before - 1);
    assert_eq!(lab.sh("cat small/m/*.gone | wc -c").trim(), "0");
    run(&lab, "prune t0 --give-up").ok();
    let done = backup(&lab, "--to small/m --name t1 --full");
    assert_eq!(done["status"], "completed", "{done:#}");
    let number = format!("{:08}.segment", before + 1);
    assert!(lab.path("small/m").join(&number).exists(), "{number} is not there");
}
