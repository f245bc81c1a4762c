//! Files that changed at the same length and are not in the page cache: an incremental reads them twice, past the cache or through it,
//! and stores what is in them.

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, below, noise};

/// Name and length: below and above what is read past the cache, and what all streams read together.
const FILES: [(&str, usize); 8] = [
    ("small", 900_000),
    ("a", 1 << 20),
    ("b", (1 << 20) + 1),
    ("c", 2_500_000),
    ("d", 5 << 20),
    ("e", 12_345_678),
    ("f", 20 << 20),
    ("huge", 40 << 20),
];

/// Writes other contents of the same length into each file, and drops them from the page cache.
fn change(lab: &Lab, night: u64) {
    for (n, (name, len)) in (1..).zip(FILES) {
        lab.file("new", noise(night * 100 + n, len));
        lab.sh(&format!("dd if=new of=tree/{name} bs=1M conv=notrunc status=none"));
    }
    lab.sh("dd if=new of=tree/holes bs=1M count=3 seek=8 conv=notrunc status=none");
    // Of those that are large only its time says that one may be as it was.
    lab.sh("touch -d '2026-01-02 03:04:05.5' tree/huge tree/d");
    lab.sh("sync -f tree; find tree -type f -exec dd if={} iflag=nocache count=0 status=none ';'");
}

fn nights(nights: u64, read: &str, options: &[&str]) {
    let lab = Lab::new();
    lab.sh("mkdir tree; truncate -s 60M tree/holes; : >tree/e; ln tree/e tree/further-name-of-e");
    for night in 0..nights {
        change(&lab, night);
        let args = [&["tree", "--to", "medium", "--name", "t", "--read", read], options].concat();
        let done = lab.backed_up(args);
        assert_eq!((&done["error_count"], &done["status"]), (&0.into(), &"completed".into()));
        lab.sh("rm -rf out");
        lab.restored(["t", "--into", "out"]);
        same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
        let compared = lab.run(["compare", "t", "tree", "--contents", "--json"]);
        let compared: Value = serde_json::from_str(&compared.ok().stdout).unwrap();
        assert_eq!(compared["changes"], Value::Array(Vec::new()), "{read} {night}");
    }
    lab.run(["verify", "t"]).ok();
}

#[test]
fn what_changed_at_the_same_length_is_stored_as_it_is() {
    nights(4, "auto", &[]);
}

#[test]
fn one_stream_stores_it_as_well() {
    nights(4, "auto", &["--streams", "1"]);
}

#[test]
fn past_the_cache_it_is_stored_as_well() {
    nights(2, "direct", &[]);
}

#[test]
fn through_the_cache_it_is_stored_as_well() {
    nights(2, "buffered", &["--streams", "1"]);
}
