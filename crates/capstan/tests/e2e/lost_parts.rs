//! A file whose contents go on in the next segment, where the row that says so is lost.

use std::fs;

use crate::support::{Lab, below, noise};

/// Damages all rows in a segment, and cuts its catalog off.
fn lose_rows(lab: &Lab, segment: &str) {
    let path = lab.path(segment);
    let mut bytes = fs::read(&path).unwrap();
    let rows: Vec<usize> = (0..bytes.len() - 64)
        .step_by(8)
        .filter(|at| bytes[*at..].starts_with(b"CpFr") && bytes[at + 4] == 2)
        .collect();
    assert!(!rows.is_empty());
    rows.iter().for_each(|at| bytes[at + 70] ^= 0x40);
    bytes.truncate(bytes.len() - 12_000);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_file_of_which_nobody_knows_where_it_goes_on_is_named_and_not_given() {
    let lab = Lab::new();
    lab.file("tree/large", noise(1, 5_000_000));
    lab.file("tree/small", "text");
    let small =
        ["--block-size", "64K", "--streams", "1", "--segment-size", "2M", "--compress", "off"];
    lab.backed_up(["tree", "--to", "medium", "--name", "t"].iter().chain(&small));
    lose_rows(&lab, "medium/00000002.segment");
    let home = |args: &[&str]| {
        let mut command = lab.command();
        crate::support::finish(command.env("CAPSTAN_HOME", lab.path("other")).args(args))
    };
    assert_eq!(home(&["import", "medium"]).code, 3);
    let large = lab.path("tree/large").display().to_string();
    for args in [
        &["restore", "t", "--into", "out"][..],
        &["verify", "t"],
        &["drill", "t", "--sample", "100%", "--scratch", "."],
    ] {
        let run = home(args);
        assert_eq!(run.code, 3, "{args:?}: {}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains(&large), "{args:?}: {}", run.stderr);
    }
    let out = below(&lab.path("out"), &lab.path("tree"));
    assert_eq!(fs::read_to_string(out.join("small")).unwrap(), "text");
    // An archive finds its bytes where they follow each other.
    assert_eq!(home(&["restore", "t", "--to-tar", "out.tar"]).code, 3);
    lab.sh("mkdir unpacked; tar -C unpacked -xf out.tar");
    let unpacked = below(&lab.path("unpacked"), &lab.path("tree"));
    assert!(fs::read(unpacked.join("large")).unwrap() == noise(1, 5_000_000));
}
