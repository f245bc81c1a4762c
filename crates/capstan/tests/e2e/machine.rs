//! This machine's own `/usr` and `/etc`: some 150,000 files that nobody made for a test.

use std::path::Path;

use crate::compare::same_by_rsync;
use crate::support::{Lab, below, free_bytes, is_root, skip};

#[test]
fn usr_and_etc_come_back() {
    if !is_root() {
        return skip("only root can read all of /etc");
    }
    let lab = Lab::new();
    let size = lab.sh("du -sxB1 /usr /etc | awk '{s += $1} END {printf \"%.0f\", s}'");
    let need = size.parse::<u64>().unwrap() * 2;
    let free = free_bytes(&lab.path(""));
    assert!(free > need, "the test needs {} MB of disk, {} MB are free", need >> 20, free >> 20);
    let into = lab.path("out");
    let medium = lab.path("medium");
    let report = lab.backed_up([
        Path::new("/usr"),
        "/etc".as_ref(),
        "--name".as_ref(),
        "machine".as_ref(),
        "--to".as_ref(),
        &medium,
        "--one-file-system".as_ref(),
    ]);
    eprintln!("backup:  {}", summary(&report));
    let restored = lab.restored(["machine".as_ref(), "--into".as_ref(), into.as_os_str()]);
    eprintln!("restore: {}", summary(&restored));
    assert_eq!(report["files"], restored["files"], "files");
    assert_eq!(report["bytes_read"], restored["bytes_written"], "bytes");
    for tree in ["/etc", "/usr"] {
        same_by_rsync(Path::new(tree), &below(&into, Path::new(tree)));
    }
    lab.run(["verify", "machine"]).ok();
}

fn summary(report: &serde_json::Value) -> String {
    format!(
        "{} files, {} MB in {:.1} s, {} MiB of memory, verdict {}",
        report["files"],
        report["bytes_read"].as_u64().max(report["bytes_written"].as_u64()).unwrap_or(0)
            / 1_000_000,
        report["elapsed_s"].as_f64().unwrap_or(0.0),
        report["peak_rss_bytes"].as_u64().unwrap_or(0) >> 20,
        report["bottleneck"]["stage"],
    )
}
