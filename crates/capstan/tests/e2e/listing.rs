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

/// Names that are known as a whole, for which segments are left out, against patterns for which all rows are read.
fn names_agree(lab: &Lab) {
    for (name, pattern) in [("f13", "[f]13"), ("new", "[n]ew"), ("d6", "[d]6"), ("huge", "[h]uge")]
    {
        let found = lines(lab, &["find", "--name", name]);
        assert_eq!(found, lines(lab, &["find", "--name", pattern]), "{name}");
        assert!(!found.is_empty(), "{name}");
        let everywhere = lines(lab, &["find", "--all-versions", "--name", name]);
        assert_eq!(everywhere, lines(lab, &["find", "--all-versions", "--name", pattern]));
        assert_eq!(found, lines(lab, &["find", &format!("**/{name}")]));
    }
    for nothing in ["f99", "nothing-like-it"] {
        assert_eq!(lines(lab, &["find", "--name", nothing]), [""; 0], "{nothing}");
    }
}

/// Flips a bit of some files and cuts others.
fn damage(files: &[PathBuf]) {
    for (n, file) in files.iter().enumerate() {
        let mut bytes = fs::read(file).unwrap();
        let at = bytes.len() * (n % 5) / 5;
        match n % 3 {
            0 => bytes[at] ^= 4,
            1 => bytes.truncate(at),
            _ => {}
        }
        fs::write(file, bytes).unwrap();
    }
}

#[test]
fn a_directory_is_listed_alone() {
    let lab = Lab::new();
    chain(&lab);
    let all = parts_agree(&lab);
    names_agree(&lab);
    let (catalogs, indexes) = (files(&lab, "catalog"), files(&lab, "index"));
    assert!(indexes.len() > 3, "what was read has an index");
    // Damaged or cut indexes are made again, whether or not the tables of their outlines are read.
    for table in [true, false] {
        damage(&indexes);
        if !table {
            files(&lab, "table").iter().for_each(|t| fs::remove_file(t).unwrap());
        }
        names_agree(&lab);
        assert_eq!(parts_agree(&lab), all);
    }
    // Of a damaged catalog, with or without its index, the medium's copy is read.
    for (n, catalog) in catalogs.iter().enumerate() {
        let mut bytes = fs::read(catalog).unwrap();
        let at = bytes.len() / 2 + n;
        bytes[at] ^= 1;
        fs::write(catalog, bytes).unwrap();
        if n % 2 == 0 {
            // One that ends a session and has no rows has none.
            let _ = fs::remove_file(catalog.with_extension("index"));
        }
    }
    assert_eq!(parts_agree(&lab), all);
    catalogs.iter().for_each(|c| fs::remove_file(c).unwrap());
    assert_eq!(parts_agree(&lab), all);
}

#[test]
fn tables_of_outlines_are_of_what_there_is() {
    let lab = Lab::new();
    chain(&lab);
    let all = parts_agree(&lab);
    let tables = files(&lab, "table");
    assert!(!tables.is_empty(), "a session of several segments has a table");
    // Damaged, cut, another session's.
    for n in 0..3 {
        damage(&[&tables[n % tables.len()..], &tables[..n % tables.len()]].concat());
        assert_eq!(lines(&lab, &["ls", "t"]), all);
    }
    let bytes: Vec<_> = tables.iter().map(|t| fs::read(t).unwrap()).collect();
    for (table, bytes) in tables.iter().zip(bytes.iter().cycle().skip(1)) {
        fs::write(table, bytes).unwrap();
    }
    assert_eq!(parts_agree(&lab), all);
    // Catalogs that are made anew, or put back from a copy.
    lab.run(["catalog", "load", "t"]).ok();
    assert_eq!(parts_agree(&lab), all);
    lab.sh("cp -r home copy; rm -r home; mv copy home");
    assert_eq!(parts_agree(&lab), all);
    // One catalog gone, then the medium: what is not at hand is said, not left out.
    let catalogs = files(&lab, "catalog");
    // One that is needed: the least ones may have nothing but pieces of a file.
    let largest = catalogs.iter().max_by_key(|c| fs::metadata(c).unwrap().len()).unwrap();
    fs::rename(largest, lab.path("kept.catalog")).unwrap();
    assert_eq!(parts_agree(&lab), all);
    lab.sh("mv medium away");
    lab.run(["ls", "t"]).refused(&["medium"]);
    lab.sh("mv away medium");
    fs::rename(lab.path("kept.catalog"), largest).unwrap();
    // A synthetic full in place of the chain, then without the chain, then from the media alone.
    lab.run(["consolidate", "t", "--to", "made"]).ok();
    assert_eq!(parts_agree(&lab), all);
    lab.run(["prune", "--keep-last", "1"]).ok();
    assert_eq!(parts_agree(&lab), all);
    names_agree(&lab);
    let left = files(&lab, "catalog").len();
    assert!(files(&lab, "table").len() <= left && files(&lab, "index").len() <= left);
    lab.sh("rm -r home");
    lab.run(["import", "made"]).ok();
    assert_eq!(parts_agree(&lab), all);
    names_agree(&lab);
}

#[test]
fn packed_catalogs_say_what_they_said() {
    let lab = Lab::new();
    chain(&lab);
    let all = parts_agree(&lab);
    let rows = lines(&lab, &["ls", "--json", "t"]);
    let bytes = |lab: &Lab| {
        files(lab, "catalog").iter().map(|c| fs::metadata(c).unwrap().len()).sum::<u64>()
    };
    let before = bytes(&lab);
    let pruned = lab.run(["prune", "--json"]);
    let pruned: serde_json::Value = serde_json::from_str(&pruned.ok().stdout).unwrap();
    // Those of little more than a file's pieces do not get smaller.
    assert!(pruned["packed_catalogs"].as_u64() > Some(files(&lab, "catalog").len() as u64 / 2));
    assert_eq!(pruned["packed_bytes"].as_u64(), Some(before - bytes(&lab)));
    let again = lab.run(["prune", "--json"]);
    assert!(again.ok().stdout.contains("\"packed_catalogs\":0"), "{}", again.stdout);
    assert_eq!(lines(&lab, &["ls", "--json", "t"]), rows);
    names_agree(&lab);
    lab.run(["idb", "check"]).ok();
    // An index made of them, and a damaged one, whose medium is read.
    files(&lab, "index").iter().for_each(|i| fs::remove_file(i).unwrap());
    assert_eq!(parts_agree(&lab), all);
    let unhurt: Vec<_> =
        files(&lab, "catalog").into_iter().map(|c| (fs::read(&c).unwrap(), c)).collect();
    for (n, (bytes, catalog)) in unhurt.iter().enumerate() {
        let mut bytes = bytes.clone();
        let at = bytes.len() * (n % 7) / 7;
        bytes[at] ^= 1;
        fs::write(catalog, bytes).unwrap();
    }
    assert_eq!(lines(&lab, &["ls", "--json", "t"]), rows);
    for (bytes, catalog) in &unhurt {
        fs::write(catalog, bytes).unwrap();
    }
    // What is built on them, made of them, and restored from them.
    lab.sh("cd tree; touch 0/d6/f1; rm 1/d4/f2; echo more >>2/d2/f3");
    let report = lab.backed_up(["tree", "--to", "medium", "--name", "t", "--incr"]);
    assert!(report["bytes_read"].as_u64() < Some(20_000), "only what changed: {report:#}");
    lab.restored(["t", "--into", "out"]);
    let there = crate::support::below(&lab.path("out"), &lab.path("tree"));
    crate::compare::same_by_rsync(&lab.path("tree"), &there);
    lab.run(["verify", "t"]).ok();
    lab.run(["copy", "t", "--to", "copied"]).ok();
    lab.run(["consolidate", "t", "--to", "made"]).ok();
    lab.sh("mv medium away");
    parts_agree(&lab);
    names_agree(&lab);
}

#[test]
fn no_name_of_an_encrypted_version_lies_open_in_the_home() {
    let lab = Lab::new();
    let run = |secret: &str, args: &[&str]| {
        let mut command = lab.command();
        command.env("CAPSTAN_NEW_PASSPHRASE", SECRET).env("CAPSTAN_PASSPHRASE", secret);
        finish(command.args(args))
    };
    run("", &["key", "init", "--no-names-key"]).ok();
    lab.file("tree/a-name-to-hide", "x");
    for n in 0..6 {
        lab.file(&format!("tree/{n}/a-name-to-hide"), noise(n, 1_000_000));
    }
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--segment-size", "2M"]);
    let found = |n: u64| {
        let found = run(SECRET, &["find", "--name", "a-name-to-hide"]);
        assert_eq!(found.ok().stdout.lines().count() as u64, n);
    };
    for _ in 0..2 {
        let listed = run(SECRET, &["ls", "t"]);
        assert!(listed.ok().stdout.contains("a-name-to-hide"));
        found(7);
    }
    assert!(files(&lab, "index").len() > 1);
    assert_eq!(files(&lab, "table").len(), 1);
    assert!(!lab.succeeds("grep -rq a-name-to-hide home medium"), "it lies open");
    run("", &["ls", "t"]).refused(&["no secret is given"]);
}
