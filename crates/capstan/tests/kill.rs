//! What a killed backup leaves is restored as it is: the incomplete session has files that are what they were, and no
//! others; the rest of `e2e` kills says that going on works.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("CAPSTAN_HOME", self.dir.path().join("home"));
        for name in ["CAPSTAN_PASSPHRASE", "CAPSTAN_KEY_FILE", "CAPSTAN_RECOVERY_CODE"] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, args: &[&str]) -> (i32, String) {
        let output = self.command(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked"), "{args:?}: {said}");
        let code = output.status.code().unwrap_or(-1);
        (code, String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn report(&self, args: &[&str]) -> Value {
        let (code, out) = self.run(args);
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}, exit {code}: {e}: {out}"))
    }
}

/// Bytes that do not compress, another for each seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(len);
    out
}

fn make(source: &Path) {
    for i in 0..400 {
        let dir = source.join(format!("d{}", i % 9));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("f{i}")), noise(i, 1000 + 997 * i as usize)).unwrap();
    }
    fs::write(source.join("d3/huge"), noise(1000, 70 << 20)).unwrap();
    std::os::unix::fs::symlink("f3", source.join("d3/link")).unwrap();
}

/// Files below a directory, by their paths in it.
fn files(root: &Path) -> BTreeSet<std::path::PathBuf> {
    let (mut found, mut dirs) = (BTreeSet::new(), vec![root.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() {
                dirs.push(path);
            } else {
                found.insert(path.strip_prefix(root).unwrap().to_owned());
            }
        }
    }
    found
}

#[test]
fn an_incomplete_session_gives_back_what_it_has() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(place).unwrap();
    let lab = Lab { dir: tempfile::tempdir_in(place).unwrap() };
    let source = lab.dir.path().join("tree");
    make(&source);
    let all = files(&source);
    let backup = ["backup", "tree", "--to", "m", "--name", "t", "--segment-size", "2M", "--json"];
    let kills = if std::env::var_os("CAPSTAN_SOAK").is_some() { 60 } else { 6 };
    let (mut some, mut seed) = (0, 5u64);
    for _ in 0..kills {
        let _ = fs::remove_dir_all(lab.dir.path().join("m"));
        let _ = fs::remove_dir_all(lab.dir.path().join("home"));
        let silent = || Stdio::null();
        let mut child = lab.command(&backup).stdout(silent()).stderr(silent()).spawn().unwrap();
        // From the first segments on, any time.
        let first = lab.dir.path().join("m/00000002.segment");
        while !first.exists() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_micros((seed >> 33) % 200_000));
        let _ = child.kill();
        if child.wait().unwrap().success() {
            continue;
        }
        let (code, out) = lab.run(&["sessions", "--json"]);
        assert_eq!(code, 0);
        let session: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
        assert_eq!(session["status"], "incomplete", "{session:#}");
        let name = format!("t@{}", session["session"].as_str().or(session["id"].as_str()).unwrap());
        let report = lab.report(&["restore", &name, "--into", "out", "--json"]);
        let status = report["status"].as_str().unwrap();
        assert!(["completed", "completed_with_errors"].contains(&status), "{report:#}");
        let named: BTreeSet<&OsStr> = report["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| OsStr::new(e["path"].as_str().unwrap()))
            .collect();
        let root = lab.dir.path().join("out").join(source.strip_prefix("/").unwrap());
        let restored = files(&root);
        assert!(restored.is_subset(&all), "names that were not in the source");
        for path in restored.iter().filter(|p| !named.contains(source.join(p).as_os_str())) {
            let (a, b) = (source.join(path), root.join(path));
            if a.is_symlink() {
                assert_eq!(fs::read_link(&a).unwrap(), fs::read_link(&b).unwrap());
                continue;
            }
            assert!(fs::read(&a).unwrap() == fs::read(&b).unwrap(), "{}", path.display());
            let times = [&a, &b].map(|p| p.metadata().unwrap().modified().unwrap());
            assert_eq!(times[0], times[1], "{}", path.display());
        }
        // Committed segments have files, which are in the restore.
        some += usize::from(restored.len() > 20);
        fs::remove_dir_all(lab.dir.path().join("out")).unwrap();
    }
    assert!(some * 2 > kills, "hardly any kill left files: {some} of {kills}");
}

#[test]
fn what_a_kill_leaves_of_a_new_medium_is_recognised() {
    let lab = Lab { dir: tempfile::tempdir().unwrap() };
    fs::create_dir(lab.dir.path().join("tree")).unwrap();
    fs::write(lab.dir.path().join("tree/file"), b"contents").unwrap();
    let medium = lab.dir.path().join("m");
    fs::create_dir(&medium).unwrap();
    // Killed while the header was written, or before it got its name; then in the first segment.
    fs::write(medium.join("medium.capstan.new"), b"torn").unwrap();
    let backup = ["backup", "tree", "--to", "m", "--name", "t", "--resume", "--json"];
    assert_eq!(lab.report(&backup)["status"], "completed");
    fs::write(medium.join("00000002.segment.part"), vec![7; 4096]).unwrap();
    assert_eq!(lab.report(&backup)["status"], "completed");
    let left =
        fs::read_dir(&medium).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut left: Vec<_> = left.collect();
    left.sort();
    assert_eq!(left, ["00000001.segment", "00000002.segment", "medium.capstan"]);
    assert_eq!(lab.run(&["verify", "--medium", "m"]).0, 0);
}
