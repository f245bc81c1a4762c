//! Listing parts of a version: by the sparse index, without it, and with a damaged one, always the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::support::{Lab, finish, noise};

const SECRET: &str = "fourteen words nobody guesses";

/// Three versions, of several streams and segments each.
fn chain(lab: &Lab) {
    for d in 0..30 {
        for f in 0..60 {
            lab.file(&format!("tree/{}/d{d}/f{f}", d % 3), noise(f, 2000));
        }
    }
    lab.file("tree/huge", noise(7, 40_000_000));
    let back_up = |options: &[&str]| {
        let args = ["tree", "--to", "medium", "--name", "t", "--segment-size", "2M"];
        lab.backed_up([&args, options].concat());
    };
    back_up(&["--full"]);
    lab.sh("cd tree; rm -r 1/d7; for d in 0 1 2; do echo new >$d/new; done; chmod 700 2/d11; mv 0/d3 2/d3");
    back_up(&["--incr"]);
    lab.sh("cd tree; mkdir 1/d7; echo again >1/d7/f1; rm -r 2/d3; touch 0/d0/f*");
    back_up(&["--incr"]);
}

fn lines(lab: &Lab, args: &[&str]) -> Vec<String> {
    lab.run(args).ok().stdout.lines().map(str::to_owned).collect()
}

/// Each directory alone, by its level, and with all below it: what the whole listing has of it.
fn parts_agree(lab: &Lab) -> Vec<String> {
    let all = lines(lab, &["ls", "t"]);
    let found = lab.sh("find $PWD/tree | sort");
    let there: BTreeSet<&str> =
        all.iter().map(String::as_str).filter(|p| p.contains("/tree")).collect();
    let differ: Vec<_> =
        there.symmetric_difference(&found.lines().collect()).take(5).copied().collect();
    assert_eq!(differ, [""; 0], "what is listed is what is there");
    let levels = |p: &str| p.matches('/').count();
    for dir in ["", "/0", "/0/d0", "/1/d7", "/2", "/0/d9/f13", "/huge"] {
        let path = format!("{}{dir}", lab.path("tree").display());
        let below: Vec<_> = all
            .iter()
            .filter(|p| **p == path || p.starts_with(&format!("{path}/")))
            .cloned()
            .collect();
        assert_eq!(lines(lab, &["ls", "t", &path]), below, "below {path}");
        for depth in 0..3 {
            let some = below.iter().filter(|p| levels(p) <= levels(&path) + depth).cloned();
            let listed = lines(lab, &["ls", "t", "--depth", &depth.to_string(), &path]);
            assert_eq!(listed, some.collect::<Vec<_>>(), "{depth} below {path}");
        }
    }
    lab.run(["ls", "t", &format!("{}/2/d3", lab.path("tree").display())])
        .refused(&["is not in this version"]);
    all
}

fn files(lab: &Lab, extension: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(lab.path("home/catalogs")).unwrap().map(|e| e.unwrap().path());
    all.filter(|p| p.extension().is_some_and(|e| e == extension)).collect()
}

#[test]
fn a_directory_is_listed_alone() {
    let lab = Lab::new();
    chain(&lab);
    let all = parts_agree(&lab);
    let (catalogs, indexes) = (files(&lab, "catalog"), files(&lab, "index"));
    assert!(indexes.len() > 3, "what was read has an index");
    // Damaged or cut indexes are made again.
    for (n, index) in indexes.iter().enumerate() {
        let mut bytes = fs::read(index).unwrap();
        let at = bytes.len() * (n % 5) / 5;
        match n % 3 {
            0 => bytes[at] ^= 4,
            1 => bytes.truncate(at),
            _ => {}
        }
        fs::write(index, bytes).unwrap();
    }
    assert_eq!(parts_agree(&lab), all);
    // Of a damaged catalog, with or without its index, the medium's copy is read.
    for (n, catalog) in catalogs.iter().enumerate() {
        let mut bytes = fs::read(catalog).unwrap();
        let at = bytes.len() / 2 + n;
        bytes[at] ^= 1;
        fs::write(catalog, bytes).unwrap();
        if n % 2 == 0 {
            fs::remove_file(catalog.with_extension("index")).unwrap();
        }
    }
    assert_eq!(parts_agree(&lab), all);
    catalogs.iter().for_each(|c| fs::remove_file(c).unwrap());
    assert_eq!(parts_agree(&lab), all);
}

#[test]
fn no_name_of_an_encrypted_version_lies_open_in_the_home() {
    let lab = Lab::new();
    let run = |secret: &str, args: &[&str]| {
        let mut command = lab.command();
        command.env("CAPSTAN_NEW_PASSPHRASE", SECRET).env("CAPSTAN_PASSPHRASE", secret);
        finish(command.args(args))
    };
    run("", &["key", "init"]).ok();
    lab.file("tree/a-name-to-hide", "x");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let listed = run(SECRET, &["ls", "t"]);
    assert!(listed.ok().stdout.contains("a-name-to-hide"));
    assert_eq!(files(&lab, "index").len(), 1);
    assert!(!lab.succeeds("grep -rq a-name-to-hide home medium"), "it lies open");
    run("", &["ls", "t"]).refused(&["no secret is given"]);
}
