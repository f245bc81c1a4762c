//! Bad input: one clear sentence, exit code 2, nothing written. And a destination that fails later.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use capstan_format::block::BlockKind;
use capstan_format::id::{BlockIndex, SegmentId};
use capstan_format::record::{MediumHeader, decode_record, encode_record};

use crate::compare::same_by_rsync;
use crate::support::{Lab, Mount, Run, below, can_mount, end, is_root, noise, skip, wait_for};

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/kept-name", "plain words");
    lab
}

fn backup(lab: &Lab, args: &[&str]) -> Run {
    lab.run(["backup"].iter().chain(args))
}

/// Nothing became of it: no medium, and no session on record.
fn nothing_written(lab: &Lab, medium: &str) {
    assert!(!lab.path(medium).exists(), "{medium} was made");
    let run = lab.run(["sessions", "--kind", "all", "--json"]);
    assert!(run.ok().rows().is_empty(), "a session is on record");
}

#[test]
fn no_such_path() {
    let lab = lab();
    backup(&lab, &["no/such/path", "--to", "medium"]).refused(&["no/such/path"]);
    nothing_written(&lab, "medium");
    // One of several is as bad: what was asked for is not there.
    backup(&lab, &["gone", "lost", "--to", "medium"]).refused(&["any of 2 paths", "gone"]);
    nothing_written(&lab, "medium");
}

#[test]
fn destination_not_writable() {
    if !is_root() {
        return skip("only root can become another user");
    }
    let lab = Lab::of_user();
    lab.file("tree/file", "content");
    lab.mkdir("locked");
    lab.run(["backup", "tree", "--to", "locked/medium"]).refused(&["locked/medium"]);
    nothing_written(&lab, "locked/medium");
    lab.run(["backup", "tree", "--to", "locked"]).refused(&["locked"]);
    assert_eq!(fs::read_dir(lab.path("locked")).unwrap().count(), 0);
    lab.run(["backup", "tree", "--to", "/proc/nothing"]).refused(&["/proc/nothing"]);
}

#[test]
fn destination_with_other_things_in_it() {
    let lab = lab();
    lab.file("photos/holiday.jpg", "not ours");
    backup(&lab, &["tree", "--to", "photos"]).refused(&["photos", "not empty"]);
    assert_eq!(fs::read_dir(lab.path("photos")).unwrap().count(), 1);
    // A file is no directory; a path below a file even less so.
    backup(&lab, &["tree", "--to", "photos/holiday.jpg"]).refused(&["holiday.jpg"]);
    backup(&lab, &["tree", "--to", "photos/holiday.jpg/medium"]).refused(&["holiday.jpg"]);
    assert_eq!(fs::read_to_string(lab.path("photos/holiday.jpg")).unwrap(), "not ours");
    backup(&lab, &["tree", "--to", "missing/parents/medium"]).refused(&["missing/parents"]);
    nothing_written(&lab, "missing");
}

#[test]
fn destination_full() {
    if !can_mount() {
        return skip("file systems cannot be mounted here");
    }
    let lab = lab();
    let at = lab.path("small");
    let _mount = Mount::new(&["-t", "tmpfs", "-o", "size=1M", "tmpfs"], &at);
    backup(&lab, &["tree", "--to", "small/medium"]).refused(&["small"]);
    nothing_written(&lab, "small/medium");
}

#[test]
fn a_disk_that_fills_keeps_what_is_committed() {
    if !can_mount() {
        return skip("file systems cannot be mounted here");
    }
    let lab = Lab::new();
    for i in 0..60 {
        lab.file(&format!("tree/{i:02}"), noise(i, 1_000_000));
    }
    let _mount = Mount::new(&["-t", "tmpfs", "-o", "size=32M", "tmpfs"], &lab.path("small"));
    let args =
        ["tree", "--to", "small/medium", "--name", "t", "--segment-size", "10M", "--streams", "2"];
    let report = lab.backup(args);
    assert_eq!(report["status"], "failed", "{report:#}");
    assert!(report["errors"].to_string().contains("device-failed"), "{report:#}");
    assert!(report["errors"].to_string().to_lowercase().contains("space"), "{report:#}");
    // With room it goes on, and does not read again what it has.
    lab.sh("mount -o remount,size=200M small");
    let report = lab.backed_up(args.iter().chain(&["--resume"]));
    let kept = report["kept"].as_u64().unwrap();
    assert!((5..60).contains(&kept), "{report:#}");
    let into = lab.path("out");
    lab.restored(["t".as_ref(), "--into".as_ref(), into.as_os_str()]);
    same_by_rsync(&lab.path("tree"), &below(&into, &lab.path("tree")));
}

#[test]
fn destination_inside_what_is_backed_up() {
    let lab = lab();
    let medium = lab.path("tree/medium");
    // Twice: the second time the medium has something in it. The home is below the tree as well.
    for _ in 0..2 {
        let mut command = lab.command();
        command.env("CAPSTAN_HOME", lab.path("tree/home"));
        command.args(["backup", "tree", "--name", "t", "--to"]).arg(&medium);
        let run = crate::support::finish(command.arg("--verbose"));
        let said = format!("{}{}", run.ok().stdout, run.stderr);
        assert!(said.contains("tree/medium") && said.contains("own medium"), "no note: {said}");
    }
    let mut command = lab.command();
    let command = command.env("CAPSTAN_HOME", lab.path("tree/home")).args(["ls", "t"]);
    let list = crate::support::finish(command).stdout;
    assert!(list.contains("tree/kept-name"), "{list}");
    assert!(!list.contains(".segment") && !list.contains("capstan.db"), "{list}");
    // The medium itself: nothing of it is backed up.
    let before = fs::read_dir(&medium).unwrap().count();
    let run = lab.run([OsStr::new("backup"), medium.as_ref(), "--to".as_ref(), medium.as_ref()]);
    run.refused(&["nothing of it is backed up"]);
    assert_eq!(fs::read_dir(&medium).unwrap().count(), before);
}

#[test]
fn unknown_objects_and_sessions() {
    let lab = lab();
    backup(&lab, &["tree", "--to", "medium", "--name", "known"]).ok();
    for name in ["nobody", "known@ffffffff"] {
        for args in [&["restore", name, "--into", "out"][..], &["ls", name], &["verify", name]] {
            lab.run(args).refused(&[name.split('@').next_back().unwrap()]);
        }
    }
    lab.run(["sessions", "--show", "ffffffff"]).refused(&["ffffffff"]);
    lab.run(["restore", "known", "/no/such/file", "--into", "out"]).refused(&["/no/such/file"]);
    lab.run(["verify", "--medium", "nothing-of-that-name"]).refused(&["nothing-of-that-name"]);
    assert!(!lab.path("out").exists(), "something was restored");
}

#[test]
fn options_out_of_range() {
    let lab = lab();
    for (option, value) in [
        ("--block-size", "4096"),
        ("--block-size", "16777216"),
        ("--block-size", "100000"),
        ("--block-size", "rubbish"),
        ("--exclude", "a["),
        ("--include", "b[z-a]"),
        ("--compress", "zstd:99"),
        ("--compress", "gzip"),
        ("--streams", "0"),
        ("--files-of-size", "10M..1M"),
        ("--exclude-from", "no/such/list"),
        ("--files-from", "no/such/list"),
        ("--segment-size", "0"),
    ] {
        let run = backup(&lab, &["tree", "--to", "medium", option, value]);
        assert_eq!(run.code, 2, "{option} {value}: {}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains(value), "{option} {value} is not named: {}", run.stderr);
        assert!(!lab.path("medium").exists(), "{option} {value}: a medium was made");
    }
    backup(&lab, &["tree", "--to", "s3://bucket/prefix"]).refused(&["s3://bucket/prefix"]);
    // Stores in memory are for tests of the code: whoever names one on a command line is told what devices there are.
    for device in ["mem:a", "rait1:mem:a,mem:b"] {
        backup(&lab, &["tree", "--to", device]).refused(&["'mem:a' is not a device", "file:/path"]);
    }
    backup(&lab, &["tree", "--to", "null:rate=fast"]).refused(&["null:rate=fast"]);
    backup(&lab, &["tree"]).refused(&["--to"]);
    backup(&lab, &["--to", "medium"]).refused(&[]);
    nothing_written(&lab, "medium");
}

#[test]
fn another_block_size_than_the_mediums() {
    let lab = lab();
    backup(&lab, &["tree", "--to", "medium", "--block-size", "256K"]).ok();
    let before = fs::read_dir(lab.path("medium")).unwrap().count();
    backup(&lab, &["tree", "--to", "medium", "--block-size", "1M"]).refused(&["262144"]);
    assert_eq!(fs::read_dir(lab.path("medium")).unwrap().count(), before);
}

/// Makes a medium that says of itself what `change` makes of it.
fn medium_of_tomorrow(lab: &Lab, change: impl FnOnce(&mut MediumHeader)) -> std::path::PathBuf {
    backup(lab, &["tree", "--to", "medium", "--name", "t"]).ok();
    let at = lab.path("medium/medium.capstan");
    let (_, mut header) =
        decode_record::<MediumHeader>(BlockKind::MediumHeader, &fs::read(&at).unwrap()).unwrap();
    change(&mut header);
    let block =
        encode_record(BlockKind::MediumHeader, SegmentId([0; 16]), BlockIndex(0), &header, 0)
            .unwrap();
    fs::write(&at, block).unwrap();
    lab.path("medium")
}

fn refused_everywhere(lab: &Lab, medium: &Path, words: &[&str]) {
    let before: Vec<_> = fs::read_dir(medium).unwrap().map(|e| e.unwrap().file_name()).collect();
    backup(lab, &["tree", "--to", "medium"]).refused(words);
    let run = crate::support::finish(
        lab.command().env("CAPSTAN_HOME", lab.path("new-home")).args(["import", "medium"]),
    );
    run.refused(words);
    let after: Vec<_> = fs::read_dir(medium).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(before, after);
}

#[test]
fn a_medium_of_a_newer_format() {
    let lab = lab();
    let medium = medium_of_tomorrow(&lab, |h| h.format += 1);
    refused_everywhere(&lab, &medium, &["medium", "newer"]);
}

#[test]
fn a_medium_with_unknown_incompatible_features() {
    let lab = lab();
    let medium = medium_of_tomorrow(&lab, |h| h.incompatible = 1 << 40);
    refused_everywhere(&lab, &medium, &["medium"]);
}

#[test]
fn a_second_backup_at_the_same_time() {
    let lab = lab();
    let mut first = lab.command();
    first.args(["backup", "--stdin", "--stdin-name", "slow", "--to", "medium"]);
    let mut first =
        first.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // Enough for some blocks, and no end.
    first.stdin.as_mut().unwrap().write_all(&noise(1, 5_000_000)).unwrap();
    let holder = first.id().to_string();
    wait_for("the first backup to begin", || lab.path("medium/00000001.segment.part").exists());
    let second = backup(&lab, &["tree", "--to", "medium"]);
    // It says who holds the medium, by number and name.
    second.refused(&["in use", &holder, "capstan"]);
    // Killed, the first leaves nothing that stands in the way.
    end(first);
    backup(&lab, &["tree", "--to", "medium"]).ok();
}

#[test]
fn a_missing_or_wrong_key_is_said_before_anything_is_written() {
    let lab = lab();
    let secret = |command: &mut std::process::Command, secret: Option<&str>| {
        if let Some(secret) = secret {
            command.env("CAPSTAN_PASSPHRASE", secret);
        }
        crate::support::finish(command.env("CAPSTAN_NEW_PASSPHRASE", "correct horse"))
    };
    secret(lab.command().args(["key", "init"]), Some("correct horse")).ok();
    // Writing needs no secret.
    backup(&lab, &["tree", "--to", "medium", "--name", "t"]).ok();
    for wrong in [None, Some("battery staple")] {
        let run = secret(lab.command().args(["restore", "t", "--into", "out"]), wrong);
        run.refused(&[]);
        assert!(!lab.path("out").exists(), "something was written");
    }
    secret(lab.command().args(["restore", "t", "--into", "out"]), Some("correct horse")).ok();
    let there = below(&lab.path("out"), &lab.path("tree"));
    same_by_rsync(&lab.path("tree"), &there);
    // The content is nowhere on the medium in clear.
    let segments =
        fs::read_dir(lab.path("medium")).unwrap().map(|e| fs::read(e.unwrap().path()).unwrap());
    for bytes in segments {
        assert!(
            !bytes.windows(7).any(|w| w == b"plain w" || w == b"kept-na"),
            "clear text on the medium"
        );
    }
}

#[test]
fn every_refusal_says_what_to_do() {
    let lab = lab();
    lab.file("file", "x");
    lab.file("empty/medium.capstan", "");
    backup(&lab, &["tree", "--to", "medium", "--name", "t"]).ok();
    lab.sh("cp -r medium headless; rm headless/medium.capstan");
    for (args, words) in [
        ("backup tree --to file", ["Not a directory", "name a directory"]),
        ("backup tree --to /proc/foo", ["/proc/foo", "check the path"]),
        ("backup tree --to empty", ["empty", "capstan media repair"]),
        ("backup tree --to headless", ["no medium.capstan", "capstan media repair"]),
        ("import /nope", ["/nope", "check the path"]),
        ("import null:", ["null device", "name a directory"]),
        ("verify --medium nope", ["nope", "check the path"]),
        ("verify --medium null:", ["null device", "name a directory"]),
        ("key init --key-file empty/medium.capstan", ["32 random bytes", "--new-key-file"]),
        ("restore t@xyz --into out", ["'t' has no session 'xyz'", "capstan sessions"]),
        ("restore t@beef --into out", ["'t' has no session 'beef'", "capstan sessions"]),
        ("restore t --into out --strip -1", ["'-1' for '--strip", "--help"]),
        ("backup tree --to medium --retry-wait -1", ["'-1' for '--retry-wait", "write 0 to 3600"]),
        ("sessions --limit -1", ["'-1' for '--limit", "--help"]),
        ("sessions --home /proc/xx", ["/proc/xx", "set CAPSTAN_HOME to another place"]),
    ] {
        let run = lab.run(args.split(' '));
        assert!(matches!(run.code, 1 | 2), "{args}: {}", run.code);
        assert!(run.stderr.contains("capstan: hint: "), "{args}: {}", run.stderr);
        for word in words {
            assert!(run.stderr.contains(word), "{args}: '{word}' is not in: {}", run.stderr);
        }
        for wrong in ["Some(", "-- -1"] {
            assert!(!run.stderr.contains(wrong), "{args}: {}", run.stderr);
        }
    }
}
