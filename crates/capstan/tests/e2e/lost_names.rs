//! Names that are damaged on the medium, in a home without its catalogs: whoever lists names says that some are lost.

use std::fs;

use crate::support::Lab;

/// A full of 3,000 small files and a large one, of which most names are damaged.
fn lab() -> Lab {
    let lab = Lab::new();
    for n in 0..3000 {
        lab.file(&format!("tree/a/name-of-file-{n}"), format!("some text {n}"));
    }
    lab.file("tree/big", crate::support::noise(7, 3_000_000));
    let args = ["tree", "--to", "m1", "--name", "o", "--full", "--compress", "off"];
    lab.backed_up([&args[..], &["--streams", "1"]].concat());
    let segment = lab.path("m1/00000001.segment");
    let mut bytes = fs::read(&segment).unwrap();
    let end = bytes.len() - 5000;
    for at in (66_000..end).step_by(900) {
        bytes[at] ^= 0x55;
    }
    fs::write(&segment, bytes).unwrap();
    lab.sh("rm -f home/catalogs/*");
    lab
}

#[test]
fn who_lists_names_says_that_some_are_lost() {
    let lab = lab();
    let file = lab.path("tree/a/name-of-file-2500").to_str().unwrap().to_owned();
    let pattern = "name-of-file-2500";
    let of_file = format!("o:{file}");
    for (args, code) in [
        (vec!["ls", "o"], 3),
        (vec!["ls", "o", &file], 2),
        (vec!["find", pattern], 3),
        (vec!["find", pattern, "--all-versions"], 3),
        (vec!["versions", &of_file], 3),
        (vec!["restore", "o", "--list"], 3),
        (vec!["compare", "o"], 3),
        (vec!["diff", "o", "o"], 3),
        (vec!["catalog", "export", "o", "--parquet", "o.pq"], 3),
    ] {
        let run = lab.run(&args);
        assert_eq!(run.code, code, "{args:?}: {}{}", run.stdout, run.stderr);
        let lost = "are damaged and whole nowhere at hand";
        assert!(run.stderr.contains(lost), "{args:?}: {}", run.stderr);
    }
    let listed = lab.run(["ls", "o", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert!(listed["names_lost"].as_str().unwrap().contains("damaged"), "{}", listed["names_lost"]);
}
