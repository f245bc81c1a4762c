//! A backup neither pushes the working set out of the page cache nor leaves its own pages behind.

use std::path::Path;

use crate::support::{Lab, is_root, noise, skip};

/// Share of a tree's pages that are in the page cache, 0 to 1.
fn resident(lab: &Lab, tree: &Path) -> f64 {
    let script = format!(
        "find '{}' -type f -size +0 -print0 | xargs -0 fincore -nb -o RES,SIZE",
        tree.display()
    );
    let (mut pages, mut size) = (0.0, 0.0);
    for line in lab.sh(&script).lines() {
        let mut words = line.split_whitespace().map(|w| w.parse::<f64>().unwrap());
        pages += words.next().unwrap();
        size += words.next().unwrap();
    }
    assert!(size > 0.0, "nothing in {}", tree.display());
    (pages / size).min(1.0)
}

fn drop_from_cache(lab: &Lab, tree: &str) {
    lab.sh(&format!(
        "sync -f {tree}; find {tree} -type f -exec dd if={{}} iflag=nocache count=0 status=none \\;"
    ));
}

#[test]
#[ignore = "needs the machine for itself"]
fn the_working_set_stays_and_the_rest_goes() {
    let lab = Lab::new();
    let (warm, cold) =
        if crate::support::soak() { (1_000, memory_mb() + 1_000) } else { (100, 300) };
    // The trees and the medium.
    let needed = (warm + 2 * cold) * 1_100_000;
    if crate::support::free_bytes(&lab.path("")) < needed {
        return skip(&format!("{needed} bytes are not free"));
    }
    for i in 0..warm / 10 {
        lab.file(&format!("warm/{i}"), noise(i, 10_000_000));
    }
    for i in 0..cold / 10 {
        lab.file(&format!("cold/{i}"), noise(i, 10_000_000));
    }
    // Some small ones, too: they are not read by large pieces.
    for i in 0..2_000 {
        lab.file(&format!("cold/small/{i}"), noise(i, 9_000));
    }
    let [warm, cold, medium] = ["warm", "cold", "medium"].map(|n| lab.path(n));
    // Some machines reclaim pages by themselves within seconds (DAMON): then the next try may be undisturbed.
    let mut kept = 0.0;
    for _ in 0..4 {
        drop_from_cache(&lab, "cold");
        if resident(&lab, &cold) > 0.01 {
            return skip("pages cannot be dropped on this file system");
        }
        warm_up(&lab);
        lab.backed_up([
            cold.as_os_str(),
            "--to".as_ref(),
            medium.as_ref(),
            "--name".as_ref(),
            "cold".as_ref(),
        ]);
        kept = resident(&lab, &warm);
        let (left, written) = (resident(&lab, &cold), resident(&lab, &medium));
        eprintln!(
            "resident: warm set {kept:.3}, what was backed up {left:.3}, medium {written:.3}"
        );
        assert!(left <= 0.10, "{left:.3} of what was read is left in the page cache");
        assert!(written <= 0.10, "{written:.3} of the medium is left in the page cache");
        if kept >= 0.95 {
            break;
        }
    }
    assert!(kept >= 0.95, "only {kept:.3} of the warm set is left");
    // What was in the cache before stays there although it is backed up itself.
    for _ in 0..4 {
        warm_up(&lab);
        lab.backed_up([
            warm.as_os_str(),
            "--to".as_ref(),
            medium.as_ref(),
            "--name".as_ref(),
            "warm".as_ref(),
        ]);
        kept = resident(&lab, &warm);
        if kept >= 0.95 {
            return;
        }
    }
    panic!("only {kept:.3} of the warm set is left after its own backup");
}

fn warm_up(lab: &Lab) {
    lab.sh("find warm -type f -exec cat {} + >/dev/null");
}

fn memory_mb() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    text.lines().next().and_then(|l| l.split_whitespace().nth(1)).unwrap().parse::<u64>().unwrap()
        / 1000
}

#[test]
fn access_times_stay_as_they_are() {
    if !is_root() {
        return skip("mount options need root");
    }
    let lab = Lab::new();
    lab.file("tree/file", "x");
    // An access time older than the file's last change: any read that counts would renew it.
    lab.sh("touch -a -d 2001-01-01 tree/file");
    let times = || lab.sh("stat -c '%x %y %z' tree/file");
    let before = times();
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    assert_eq!(times(), before, "reading changed the file's times");
}
