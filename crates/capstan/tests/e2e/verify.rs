//! What `verify` names: what a restore would name, with keys and without.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Lab, Run, finish, noise, report};

const SECRET: &str = "correct horse battery";

/// Verifies with a passphrase (none if empty) and no terminal.
fn verify(lab: &Lab, passphrase: &str, args: &[&str]) -> Run {
    let mut command = lab.program("setsid");
    command.arg("--wait").arg(env!("CARGO_BIN_EXE_capstan")).env("CAPSTAN_HOME", lab.path("home"));
    command.env("CAPSTAN_PASSPHRASE", passphrase).args(["verify", "--json"]);
    finish(command.args(args))
}

fn segments(medium: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(medium).unwrap().map(|e| e.unwrap().path());
    let mut segments: Vec<_> =
        all.filter(|p| p.extension().is_some_and(|e| e == "segment")).collect();
    segments.sort();
    segments
}

/// The files that a report names as lost.
fn lost(json: &Value) -> BTreeSet<String> {
    let errors = json["errors"].as_array().unwrap().iter();
    let lost = errors.filter(|e| e["code"] == "damaged" || e["code"] == "missing");
    let paths = lost.map(|e| e["path"].as_str().unwrap().to_owned());
    paths.filter(|p| p.starts_with('/')).collect()
}

#[test]
fn files_are_counted_as_a_backup_counts_them() {
    let lab = Lab::new();
    for name in ["tree/a", "tree/b/c", "tree/b/d/e"] {
        lab.file(name, name);
    }
    let backup = lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    assert_eq!(backup["files"], 3);
    for args in [&["t"][..], &["--medium", "medium"]] {
        assert_eq!(report(verify(&lab, "", args))["files"], 3, "{args:?}");
    }
}

#[test]
fn with_a_secret_encrypted_frames_are_opened_and_lost_files_named() {
    let lab = Lab::new();
    lab.file("tree/big", noise(1, 2 << 20));
    lab.file("tree/small", "small");
    let mut init = lab.command();
    finish(init.args(["key", "init"]).env("CAPSTAN_PASSPHRASE", SECRET)).ok();
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--no-crc"]);
    let whole = verify(&lab, SECRET, &["t"]);
    assert!(!whole.ok().stderr.contains("not opened"), "{}", whole.stderr);
    for args in [&["t"][..], &["--medium", "medium"]] {
        verify(&lab, "wrong", args).says_wrong();
    }

    // Encrypted frames have checksums all the same: who has no secret sees that one is damaged, and not in which file.
    let segment = segments(&lab.path("medium")).remove(0);
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, bytes).unwrap();
    for args in [&["t"][..], &["--medium", "medium"]] {
        let blind = verify(&lab, "", args);
        assert!(blind.stderr.contains("encrypted frames were not opened"), "{}", blind.stderr);
        assert_eq!(blind.code, 3, "{}", blind.stderr);
        let json = report(verify(&lab, SECRET, args));
        assert_eq!(json["status"], "completed_with_errors", "{args:?}");
        let big = lab.path("tree/big").to_str().unwrap().to_owned();
        assert_eq!(lost(&json), BTreeSet::from([big]), "{args:?}: {json:#}");
    }
}

#[test]
fn of_an_incomplete_session_it_names_what_a_restore_names() {
    for secret in ["", SECRET] {
        let lab = Lab::new();
        for i in 0..6 {
            lab.file(&format!("tree/{i}"), noise(i, 700 << 10));
        }
        if !secret.is_empty() {
            let mut init = lab.command();
            finish(init.args(["key", "init"]).env("CAPSTAN_PASSPHRASE", secret)).ok();
        }
        let small = ["--streams", "1", "--segment-size", "1M", "--block-size", "64K"];
        let backup = ["tree", "--to", "medium", "--name", "t"];
        let json = lab.backed_up(backup.iter().chain(&small));
        // A kill after the second segment: the database knows no more than the medium has.
        fs::remove_dir_all(lab.path("home")).unwrap();
        for segment in &segments(&lab.path("medium"))[2..] {
            fs::remove_file(segment).unwrap();
        }
        let with =
            |args: &[&str]| finish(lab.command().env("CAPSTAN_PASSPHRASE", secret).args(args));
        with(&["import", "medium"]).ok();
        let name = format!("t@{}", &json["session"].as_str().unwrap()[..8]);
        let restored = report(with(&["restore", "--json", &name, "--into", "out"]));
        let verified = report(verify(&lab, secret, &[&name]));
        assert!(!lost(&restored).is_empty(), "{restored:#}");
        assert_eq!(lost(&verified), lost(&restored), "{verified:#}");
        assert_eq!(verified["corrupt"], restored["corrupt"]);
        assert_eq!(verified["status"], "completed_with_errors");
    }
}

impl Run {
    fn says_wrong(&self) {
        assert_eq!(self.code, 2, "{}{}", self.stdout, self.stderr);
        assert!(self.stderr.contains("wrong passphrase"), "{}", self.stderr);
    }
}
