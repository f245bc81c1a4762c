//! The Debian package: what is in it, what lintian says of it, and what its units are.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::documents::dead_links;
use crate::support::{Lab, finish, skip};

/// The sources.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A lab with the package of this binary in `deb`, unpacked in `installed`.
fn built() -> Option<Lab> {
    let lab = Lab::new();
    if !lab.succeeds("command -v dpkg-deb strip cargo") {
        skip("no dpkg-deb, strip or cargo");
        return None;
    }
    let mut build = Command::new(sources().join("tools/deb.sh"));
    build.arg(env!("CARGO_BIN_EXE_capstan")).arg(lab.path("deb")).env("CAPSTAN_DEB_QUICK", "1");
    finish(&mut build).ok();
    // Where a package is unpacked, the directory keeps the mode that the root of a machine has.
    lab.sh("mkdir -m 755 installed; dpkg-deb --fsys-tarfile deb/*.deb | tar -xp -C installed");
    assert_eq!(lab.sh("stat -c %a installed installed/etc installed/usr"), "755\n755\n755\n");
    Some(lab)
}

#[test]
fn the_package_has_all_that_belongs_to_it() {
    let Some(lab) = built() else { return };
    let list = lab.sh("dpkg-deb -c deb/*.deb");
    for (mode, path) in [
        ("drwxr-xr-x", "./"),
        ("-rwxr-xr-x", "./usr/bin/capstan"),
        ("-rw-r--r--", "./usr/share/man/man1/capstan.1.gz"),
        ("-rw-r--r--", "./usr/share/man/man1/capstan-run.1.gz"),
        ("-rw-r--r--", "./usr/share/bash-completion/completions/capstan"),
        ("-rw-r--r--", "./usr/share/zsh/vendor-completions/_capstan"),
        ("-rw-r--r--", "./usr/share/fish/vendor_completions.d/capstan.fish"),
        ("-rw-r--r--", "./lib/systemd/system/capstan@.service"),
        ("-rw-r--r--", "./lib/systemd/system/capstan@.timer"),
        ("-rw-r--r--", "./lib/systemd/system/capstan-failure@.service"),
        ("-rw-r--r--", "./etc/capstan/example.toml"),
        ("-rw-r--r--", "./usr/share/capstan/read_medium.py"),
        ("-rw-r--r--", "./usr/share/doc/capstan/copyright"),
        ("-rw-r--r--", "./usr/share/doc/capstan/changelog.gz"),
        ("-rw-r--r--", "./usr/share/doc/capstan/libraries.txt"),
        ("-rw-r--r--", "./usr/share/doc/capstan/README.md"),
        ("-rw-r--r--", "./usr/share/doc/capstan/docs/specifications.md"),
        ("-rw-r--r--", "./usr/share/doc/capstan/docs/guide/lifecycle.md"),
    ] {
        let line = list.lines().find(|l| l.ends_with(&format!(" {path}")));
        let line = line.unwrap_or_else(|| panic!("no {path} in {list}"));
        assert!(line.starts_with(mode) && line.contains("root/root"), "{line}");
    }
    let fields = "Package Version Depends Suggests";
    let control = lab.sh(&format!(
        "dpkg-deb -f deb/*.deb {fields}; dpkg-deb --ctrl-tarfile deb/*.deb | tar -xO ./conffiles"
    ));
    for words in [
        "Package: capstan",
        env!("CARGO_PKG_VERSION"),
        "libc6",
        "/etc/capstan/example.toml",
        "libzstd1 | python3-zstandard, liblz4-1 | python3-lz4, python3-cryptography, python3-argon2",
    ] {
        assert!(control.contains(words), "{words}: {control}");
    }
    // A page leads to what is there; a link to the texts that every Debian system has, to those.
    let doc = lab.path("installed/usr/share/doc/capstan");
    let (broken, checked) = dead_links(&doc, &[doc.join("README.md"), doc.join("docs")]);
    assert!(
        checked > 50 && broken.is_empty(),
        "{checked} links, of which lead nowhere: {broken:#?}"
    );
    // The changelog is of this version.
    let changes = lab.sh("zcat installed/usr/share/doc/capstan/changelog.gz | head -1");
    assert!(changes.contains(&format!("({})", env!("CARGO_PKG_VERSION"))), "{changes}");
    // What it installs works: the example is a right specification.
    let example = lab.path("installed/etc/capstan/example.toml");
    lab.run(["run", "--check", example.to_str().unwrap()]).ok();
}

#[test]
fn lintian_finds_nothing() {
    let Some(lab) = built() else { return };
    if !lab.succeeds("command -v lintian") {
        return skip("no lintian");
    }
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning", "--pedantic"]);
    let found = finish(lintian.arg(lab.sh("ls $PWD/deb/*.deb").trim()));
    assert_eq!((found.code, found.stdout.as_str()), (0, ""), "{}", found.stderr);
}

#[test]
fn the_units_are_right_and_hardened() {
    let lab = Lab::new();
    if !lab.succeeds("command -v systemd-analyze") {
        return skip("no systemd-analyze");
    }
    lab.sh(&format!("mkdir units; cp {}/packaging/*.{{service,timer}} units", sources().display()));
    let security = |unit: &str| {
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=true", "--json=short", "--no-pager"]);
        finish(command.arg(lab.path("units").join(unit)))
    };
    for unit in ["capstan@.service", "capstan-failure@.service"] {
        let judged = security(unit);
        let rows: Value = serde_json::from_str(&judged.ok().stdout).unwrap();
        assert!(rows.as_array().unwrap().len() > 50, "{rows}");
        // As `systemd-analyze` has it: 45 is 4.5, the most that is allowed.
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=true", "--threshold=45", "--no-pager"]);
        finish(command.arg(lab.path("units").join(unit))).ok();
        // Each line is there for a reason that is said above it.
        let text = lab.sh(&format!("cat units/{unit}"));
        let mut said = false;
        for line in text.lines().skip_while(|line| *line != "[Service]").skip(1) {
            let is_plain = ["Type", "ExecStart", "Nice", "IOScheduling", "TimeoutStop", "Protect"];
            let goes_on = said || is_plain.iter().any(|key| line.starts_with(key));
            assert!(line.is_empty() || line.starts_with('#') || goes_on, "{unit}: {line}");
            said = line.starts_with('#') || said && !line.is_empty();
        }
    }
    lab.sh("sed -i 's|/usr/bin/capstan|/bin/true|' units/*.service");
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--recursive-errors=no"]);
    for unit in ["capstan@.service", "capstan-failure@.service", "capstan@.timer"] {
        verify.arg(lab.path("units").join(unit));
    }
    let verified = finish(&mut verify);
    assert_eq!((verified.code, verified.stderr.as_str()), (0, ""), "{}", verified.stdout);
}
