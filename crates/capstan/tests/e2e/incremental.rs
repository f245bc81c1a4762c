//! Incremental backups: every state comes back as it was, whatever happened to the tree in between.

use std::fs;

use serde_json::Value;

use crate::compare::{same, same_by_rsync};
use crate::independent_reader::Reader;
use crate::support::{Lab, below, noise, wait_for};

fn lab() -> Lab {
    let lab = Lab::new();
    for i in 0..600 {
        lab.file(&format!("tree/d{}/f{i}", i % 7), noise(i, 1000 + i as usize));
    }
    lab.file("tree/huge", noise(7, 40_000_000));
    lab.sh("cd tree; ln d1/f1 linked; ln -s d1/f1 symlink; mkfifo pipe; mkdir -p gone/deep; echo x >gone/deep/x; \
            truncate -s 20M sparse; echo end >>sparse");
    lab
}

/// Backs the tree up and keeps a copy of it. Returns the session's id and the report.
fn step(lab: &Lab, n: usize, options: &[&str]) -> (String, Value) {
    let args = [&["tree", "--to", "medium", "--name", "t"], options].concat();
    let report = lab.backed_up(args);
    lab.sh(&format!("cp -a tree state-{n}"));
    (report["session"].as_str().unwrap().to_owned(), report)
}

fn comes_back(lab: &Lab, n: usize, session: &str) {
    lab.restored([&format!("t@{session}"), "--into", "out"]);
    let there = below(&lab.path("out"), &lab.path("tree"));
    same(lab, &lab.path(format!("state-{n}")), &there);
    fs::remove_dir_all(lab.path("out")).unwrap();
    lab.run(["verify", &format!("t@{session}")]).ok();
}

const CHANGES: [&str; 4] = [
    // Contents, with the time put back; size the same; metadata alone; a name more and a name less; an empty directory.
    "printf changed >d1/f1; touch -r d2/f2 d1/f1; printf X | dd of=d3/f3 bs=1 seek=9 conv=notrunc status=none; \
     chmod 600 d4/f4; touch -d 2001-01-01 d5/f5; mv d6/f6 renamed; rm d0/f7; mkdir new; setfattr -n user.a -v b d1/f8",
    // Kinds that change, a directory renamed, links that come and go, a file come back under its old name.
    "rm -r gone; echo now a file >gone; rm symlink; mkdir symlink; echo y >symlink/y; mv d2 d2-moved; rm d1/f1; \
     ln d3/f3 again; mv renamed d6/f6; rm pipe",
    // Nothing but the huge and the sparse file.
    "printf Y | dd of=huge bs=1 seek=20000000 conv=notrunc status=none; echo more >>sparse",
    // Back to a directory, and away with most.
    "rm gone; mkdir gone; echo z >gone/z; rm -r d0 d1 d3 d4",
];

#[test]
fn every_state_comes_back() {
    let lab = lab();
    let mut sessions = vec![step(&lab, 0, &["--incr"])];
    assert_eq!(sessions[0].1["method"], "full", "there was nothing to build on");
    for (n, change) in CHANGES.iter().enumerate() {
        lab.sh(&format!("cd tree; {change}"));
        sessions.push(step(&lab, n + 1, &["--incr"]));
    }
    for (n, (_, report)) in sessions.iter().enumerate().skip(1) {
        assert_eq!(report["method"], "incr", "{report:#}");
        assert_eq!(report["base_session"], sessions[n - 1].0.as_str(), "{report:#}");
    }
    let read = |n: usize| sessions[n].1["bytes_read"].as_u64().unwrap();
    assert!(
        read(1) < 20_000 && read(2) < 200_000 && read(4) < 3000,
        "{} {} {}",
        read(1),
        read(2),
        read(4)
    );
    // What did not change is in the version all the same.
    assert!(sessions[4].1["kept"].as_u64() > Some(200), "{:#}", sessions[4].1);
    let all = |lab: &Lab| {
        for (n, (session, _)) in sessions.iter().enumerate() {
            comes_back(lab, n, session);
        }
    };
    all(&lab);
    // From the medium alone.
    fs::remove_dir_all(lab.path("home")).unwrap();
    lab.run(["import", "medium"]).ok();
    all(&lab);
    if let Some(reader) = Reader::find() {
        for (n, (session, _)) in sessions.iter().enumerate() {
            reader
                .run(&lab, None, &["extract", "medium", "--session", session, "--into", "read"])
                .ok();
            let there = below(&lab.path("read"), &lab.path("tree"));
            same_by_rsync(&lab.path(format!("state-{n}")), &there);
            fs::remove_dir_all(lab.path("read")).unwrap();
        }
    }
}

#[test]
fn nothing_changed_costs_next_to_nothing() {
    let lab = lab();
    step(&lab, 0, &[]);
    let (session, report) = step(&lab, 1, &["--incr"]);
    assert_eq!(
        (report["bytes_read"].as_u64(), report["files"].as_u64()),
        (Some(0), Some(606)),
        "{report:#}"
    );
    assert!(report["bytes_written"].as_u64() < Some(100_000), "{report:#}");
    comes_back(&lab, 1, &session);
}

#[test]
fn levels_build_on_lower_levels() {
    let lab = lab();
    let mut sessions: Vec<(String, Value)> = Vec::new();
    // Each with the step that it builds on.
    let steps: [(&[&str], Option<usize>); 6] = [
        (&["--full"], None),
        (&["--level", "2"], Some(0)),
        (&["--level", "3"], Some(1)),
        (&["--level", "2"], Some(0)),
        (&["--incr"], Some(3)),
        (&["--level", "1"], Some(0)),
    ];
    for (n, (options, base)) in steps.iter().enumerate() {
        lab.file(&format!("tree/new-{n}"), noise(n as u64, 2000));
        let (session, report) = step(&lab, n, options);
        let expected = base.map(|n: usize| Value::from(sessions[n].0.as_str()));
        assert_eq!(report["base_session"], expected.unwrap_or_default(), "{n} {report:#}");
        sessions.push((session, report));
    }
    for (n, (session, _)) in sessions.iter().enumerate() {
        comes_back(&lab, n, session);
    }
}

#[test]
fn without_its_base_a_full_backup_is_made_and_said_so() {
    let lab = lab();
    step(&lab, 0, &[]);
    lab.sh("echo 1 >tree/one");
    step(&lab, 1, &["--incr"]);
    lab.sh("rm medium/00000001.segment");
    let (session, report) = step(&lab, 2, &["--incr"]);
    assert_eq!(report["method"], "full", "{report:#}");
    assert!(report["errors"].to_string().contains("no-base"), "{report:#}");
    comes_back(&lab, 2, &session);
}

#[test]
fn what_is_not_wanted_any_more_is_not_in_the_next_version() {
    let lab = lab();
    step(&lab, 0, &[]);
    lab.sh("rm -rf state-0");
    let report = lab.backed_up([
        "tree",
        "--to",
        "medium",
        "--name",
        "t",
        "--incr",
        "--exclude",
        "huge",
        "--exclude",
        "d1/",
    ]);
    let found = lab.run(["ls", "t"]);
    let listed = &found.ok().stdout;
    assert!(!listed.contains("huge") && !listed.contains("d1/f1\n"), "{listed}");
    assert!(listed.contains("d2/f2"), "{listed}");
    assert_eq!(report["method"], "incr");
}

#[test]
fn a_killed_incremental_goes_on() {
    let lab = lab();
    step(&lab, 0, &[]);
    for i in 0..60 {
        lab.file(&format!("tree/more/{i}"), noise(1000 + i, 500_000));
    }
    let mut command = lab.command();
    command.args([
        "backup",
        "tree",
        "--to",
        "medium",
        "--name",
        "t",
        "--incr",
        "--segment-size",
        "1M",
    ]);
    let quiet = std::process::Stdio::null;
    let mut child = command.stdout(quiet()).stderr(quiet()).spawn().unwrap();
    crate::support::wait_for("a commit", || lab.path("medium/00000004.segment").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let (session, report) = step(&lab, 1, &["--incr", "--resume"]);
    assert_eq!(report["method"], "incr", "{report:#}");
    comes_back(&lab, 1, &session);
}

/// One that was killed before it had committed anything is in the way of nothing.
#[test]
fn what_came_to_nothing_does_not_hide_what_can_be_gone_on_with() {
    let lab = lab();
    for i in 0..60 {
        lab.file(&format!("tree/more/{i}"), noise(1000 + i, 500_000));
    }
    let killed = |options: &[&str], is_far: &dyn Fn() -> bool| {
        let mut command = lab.command();
        command.args(["backup", "tree", "--to", "medium", "--name", "t"]).args(options);
        let quiet = std::process::Stdio::null;
        let mut child = command.stdout(quiet()).stderr(quiet()).spawn().unwrap();
        crate::support::wait_for("it", is_far);
        child.kill().unwrap();
        child.wait().unwrap();
    };
    let sessions = || lab.run(["sessions", "--json"]).ok().rows().len();
    // So slow that it is not done before this sees it on a busy machine.
    let slow = ["--segment-size", "1M", "--compress", "zstd:19"];
    killed(&slow, &|| lab.path("medium/00000004.segment").exists());
    // The one segment of the second is not whole for long.
    killed(&["--segment-size", "1G", "--compress", "zstd:19"], &|| sessions() == 2);
    let (session, report) = step(&lab, 0, &["--resume"]);
    comes_back(&lab, 0, &session);
    let all = lab.backed_up(["tree", "--to", "medium", "--name", "t", "--full"]);
    let read = |report: &serde_json::Value| report["bytes_read"].as_u64().unwrap();
    assert!(read(&report) + 1_000_000 < read(&all), "it began anew: {report:#}");
}

/// A time names the state that the tree had then.
#[test]
fn as_of_a_time() {
    let lab = Lab::new();
    let mut times = Vec::new();
    for n in 0..3 {
        lab.file(&format!("tree/file-{n}"), n.to_string());
        let (_, report) = step(&lab, n, &[["--full", "--incr"][usize::from(n > 0)]]);
        times.push(report["end"].as_str().unwrap().to_owned());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    for (n, time) in times.iter().enumerate() {
        lab.restored(["t", "--as-of", time, "--into", "out"]);
        same_by_rsync(&lab.path(format!("state-{n}")), &below(&lab.path("out"), &lab.path("tree")));
        fs::remove_dir_all(lab.path("out")).unwrap();
        let listed = lab.run(["ls", "t", "--as-of", time]);
        assert_eq!(listed.ok().stdout.matches("file-").count(), n + 1, "{}", listed.stdout);
        let found = lab.run(["find", "file-*", "--as-of", time]);
        assert_eq!(found.ok().stdout.matches("file-").count(), n + 1, "{}", found.stdout);
    }
    lab.run(["ls", "t", "--as-of", "2001-01-01"])
        .refused(&["no complete version of that time", "its first is of"]);
    lab.run(["ls", "t", "--as-of", "whenever"]).refused(&["it is no time"]);
}

#[test]
fn by_default_it_builds_on_the_last_version_that_is_kept_with_it() {
    let lab = Lab::new();
    lab.file("tree/a", "a");
    let report = |device: &str, options: &[&str]| {
        let args = [&["tree", "--name", "t", "--to", device], options].concat();
        lab.backed_up(args)
    };
    let method = |device: &str, options: &[&str]| {
        report(device, options)["method"].as_str().unwrap().to_owned()
    };
    let silent = |device: &str, method: &str| {
        let report = report(device, &[]);
        assert_eq!(report["method"], method, "{report:#}");
        assert_eq!(report["errors"], serde_json::json!([]), "{report:#}");
        assert!(!report["notes"].to_string().contains("needs both"), "{report:#}");
    };
    silent("one", "full");
    silent("one", "incr");
    let other = report("two", &[]);
    assert_eq!(other["method"], "full", "another medium is to be enough by itself: {other:#}");
    let errors = other["errors"].to_string();
    assert!(errors.contains("no-base") && errors.contains("lies on one"), "{other:#}");
    // Disks that take turns have a chain each.
    for device in ["two", "one", "two", "one"] {
        lab.file("tree/a", device);
        silent(device, "incr");
    }
    let both = report("two", &["--incr"]);
    assert_eq!(both["method"], "incr", "{both:#}");
    assert!(both["notes"].to_string().contains("lies on one: a restore needs both"), "{both:#}");
    silent("two", "incr");
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    lab.sh("rm -r out; mv one away");
    silent("two", "incr");
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    lab.sh("mv away one");
    silent("one", "incr");
    // One that is not there, and nobody said where it is.
    lab.sh("mv one away");
    let full = report("two", &["--incr"]);
    assert_eq!(full["method"], "full", "{full:#}");
    assert!(full["errors"].to_string().contains("no-base"), "{full:#}");
    lab.sh("mv away one");
    assert_eq!(method("one", &["--full"]), "full");
    assert_eq!(method("null:", &[]), "full", "a test of the source reads it");
    assert_eq!(method("one", &[]), "incr", "what went to the null device is not built on");
    let mut init = lab.command();
    init.args(["key", "init"]).env("CAPSTAN_PASSPHRASE", "begins to encrypt");
    crate::support::finish(&mut init).ok();
    let full = report("one", &[]);
    assert_eq!(full["method"], "full", "from now on all is encrypted");
    let errors = full["errors"].to_string();
    assert!(errors.contains("no-base") && errors.contains("would build on is not"), "{full:#}");
    assert!(lab.run(["backup", "tree", "--name", "new", "--to", "one"]).ok().stderr.is_empty());
}

#[test]
fn of_a_file_whose_metadata_changed_no_contents_are_stored() {
    let lab = lab();
    // A file over the end of a segment, too.
    lab.file("tree/large", noise(3, 9_000_000));
    let small = &["--segment-size", "3M"][..];
    let mut sessions = vec![step(&lab, 0, small).0];
    let mut written = Vec::new();
    for (n, change) in [
        "chmod 640 d1/f1 huge sparse large; setfattr -n user.a -v b d2/f2; chown 7:7 d3/f3; setfattr -n user.gone -v x d4/f4",
        // Again, and the contents of others with size and time as before.
        "chmod 600 d1/f1 huge; touch -r d5/f5 ../stamp; printf X | dd of=d5/f5 bs=1 seek=9 conv=notrunc status=none; \
         touch -r ../stamp d5/f5; setfattr -x user.gone d4/f4; ln d6/f6 linked-too; chmod 604 d6/f13",
        "echo more >>d1/f1; touch -r huge ../stamp; printf Y | dd of=huge bs=1 seek=20000000 conv=notrunc status=none; \
         touch -r ../stamp huge; chmod 444 large; rm d2/f2",
    ]
    .iter()
    .enumerate()
    {
        lab.sh(&format!("cd tree; {change}"));
        let (session, report) = step(&lab, n + 1, small);
        assert_eq!(report["method"], "incr");
        written.push(report["bytes_written"].as_u64().unwrap());
        sessions.push(session);
    }
    assert!(written[0] < 100_000 && written[1] < 100_000, "{written:?}");
    assert!(written[2] > 40_000_000, "the huge file was written anew: {written:?}");
    let all = |lab: &Lab| {
        for (n, session) in sessions.iter().enumerate() {
            comes_back(lab, n, session);
        }
    };
    all(&lab);
    // Over what is there: what is as it should be stays, the rest is made anew.
    lab.sh("cp -a tree over; chmod 777 over/large; echo other >over/d4/f4");
    lab.restored(["t", "--into", "out"]);
    let there = below(&lab.path("out"), &lab.path("tree"));
    lab.sh(&format!("echo other >{}/d4/f4; rm {}/d3/f3", there.display(), there.display()));
    lab.restored(["t", "--into", "out"]);
    same(&lab, &lab.path("tree"), &there);
    fs::remove_dir_all(lab.path("out")).unwrap();
    // As an archive, single files, and from the medium alone.
    let path = lab.path("tree/huge").display().to_string();
    lab.restored([&format!("t@{}", sessions[2]), &path, "--into", "one"]);
    let one = below(&lab.path("one"), &lab.path("tree/huge"));
    lab.sh(&format!(
        "cmp state-2/huge {0}; [ $(stat -c %a%Y {0}) = $(stat -c %a%Y state-2/huge) ]",
        one.display()
    ));
    lab.run(["restore", &format!("t@{}", sessions[2]), "--to-tar", "t.tar"]).ok();
    lab.sh("mkdir tarred; tar -C tarred --xattrs --xattrs-include='*' -xpSf t.tar");
    same_by_rsync(&lab.path("state-2"), &below(&lab.path("tarred"), &lab.path("tree")));
    fs::remove_dir_all(lab.path("home")).unwrap();
    lab.run(["import", "medium"]).ok();
    all(&lab);
    if let Some(reader) = Reader::find() {
        reader.run(&lab, None, &["check", "medium"]).ok();
        for (n, session) in sessions.iter().enumerate() {
            reader
                .run(&lab, None, &["extract", "medium", "--session", session, "--into", "read"])
                .ok();
            let there = below(&lab.path("read"), &lab.path("tree"));
            same_by_rsync(&lab.path(format!("state-{n}")), &there);
            fs::remove_dir_all(lab.path("read")).unwrap();
        }
    }
}

/// What the database takes for whole may have been cut short or changed from outside.
#[test]
fn a_base_whose_segments_are_not_what_was_written_is_none() {
    for spoil in [
        ": >medium/00000001.segment",
        "truncate -s 100000 medium/00000001.segment",
        "head -c 2000000 /dev/urandom >medium/00000001.segment",
        "cp other/00000001.segment medium/00000001.segment",
    ] {
        let lab = Lab::new();
        lab.file("tree/a", noise(1, 900_000));
        lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
        lab.backed_up(["tree", "--to", "other", "--name", "o"]);
        lab.sh(spoil);
        lab.run(["backup", "tree", "--to", "medium", "--name", "t"]).refused(&["--as-new"]);
        let done = lab.backup(["tree", "--to", "third", "--name", "t"]);
        assert_eq!(done["method"], "full", "{spoil}: {done}");
        lab.restored(["t", "--into", "out"]);
        same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    }
}

#[test]
fn a_medium_that_was_set_back_is_no_base() {
    let lab = Lab::new();
    lab.file("tree/a", "1");
    lab.file("other/q", "5");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.sh("cp -a medium good");
    lab.file("tree/new", "new");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.sh("rm -r medium; mv good medium");
    let refused = lab.run(["backup", "other", "--to", "medium", "--name", "o"]);
    refused.refused(&["segment 2", "is missing"]);
    assert_ne!(lab.run(["verify", "t"]).code, 0);
    let elsewhere = lab.backup(["tree", "--to", "else", "--name", "t"]);
    assert_eq!(elsewhere["method"], "full", "{elsewhere:#}");
    assert_eq!(lab.run(["import", "medium"]).code, 3, "it is taken as it is");
    lab.backed_up(["other", "--to", "medium", "--name", "o"]);
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.run(["idb", "check"]).ok();
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
}

#[test]
fn links_of_all_kinds_stay_links() {
    let lab = Lab::new();
    lab.sh("mkdir tree; cd tree; mkfifo p; ln p q; ln -s x s; ln s t; echo 1 >f; ln f g");
    for _ in 0..3 {
        lab.backed_up(["tree", "--to", "medium", "--name", "t", "--incr"]);
        lab.restored(["t", "--into", "out"]);
        same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
        lab.sh("rm -r out; date +%N >tree/f");
    }
}

#[test]
fn damage_that_a_restore_finds_is_remembered() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 2_400_000));
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.sh("dd if=/dev/urandom of=medium/00000001.segment bs=1 seek=900000 count=3000 conv=notrunc status=none");
    lab.restore(["t", "--into", "out"]);
    assert!(lab.run(["media", "list"]).ok().stdout.contains("damaged"));
    assert_eq!(lab.backup(["tree", "--to", "medium", "--name", "t"])["method"], "full");
}

/// A page that is not written back yet may be changed again by who has it mapped, and no time of the file shows that.
#[test]
fn a_file_that_was_mapped_while_it_was_read_is_read_again() {
    let lab = Lab::new();
    lab.file("tree/db", vec![0; 8192]);
    lab.sh("mkfifo go");
    let script = "import mmap
f = open('tree/db', 'r+b')
m = mmap.mmap(f.fileno(), 0)
m[0:8] = b'AAAAAAAA'
open('ready', 'w').close()
open('go').read()
m[0:8] = b'BBBBBBBB'
m.close()
";
    let mut child = lab.program("python3").args(["-c", script]).spawn().unwrap();
    wait_for("it to be mapped", || lab.path("ready").exists());
    let args = ["tree", "--to", "medium", "--name", "t"];
    // Later than in the clock's tick of the change.
    std::thread::sleep(std::time::Duration::from_millis(50));
    let full = lab.backup(args);
    assert_eq!(full["in_use"], 1, "{full:#}");
    let times = || lab.sh("stat -c '%y %z' tree/db");
    let before = times();
    lab.sh("echo > go");
    assert!(child.wait().unwrap().success());
    assert_eq!(times(), before, "this kernel shows the change by a time");
    lab.backup(args);
    lab.restored(["t", "--into", "out"]);
    lab.sh("cmp tree/db out\"$PWD\"/tree/db");
    // At rest it is as known as any other.
    lab.sh("touch -d 2020-01-01 tree/db");
    lab.backup(args);
    assert_eq!(lab.backup(args)["kept"], 1);
}

/// A machine that is called otherwise than before has nothing to build on, and says why its backup is full.
#[test]
fn a_renamed_machine_is_told_why_its_backup_is_full() {
    let lab = lab();
    if !lab.succeeds("unshare -u hostname renamed") || crate::server::is_wanted() {
        return crate::support::skip("no machine can be renamed here");
    }
    let first = lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let was = first["host"].as_str().unwrap();
    let binary = lab.command();
    let called = |name: &str, args: &[&str]| {
        let mut renamed = lab.program("unshare");
        renamed.args(["-u", "sh", "-c", "hostname \"$0\"; exec \"$@\"", name]);
        renamed.arg(binary.get_program()).args(args);
        for (name, value) in binary.get_envs() {
            value.map(|value| renamed.env(name, value));
        }
        crate::support::finish(&mut renamed)
    };
    let args = ["backup", "tree", "--to", "medium", "--name", "t", "--json"];
    let backup = || crate::support::report(called("renamed", &args));
    let report = backup();
    assert_eq!(report["method"], "full", "{report:#}");
    let said = report["errors"].to_string();
    let words = format!("was backed up by this home when it was called {was}");
    assert!(said.contains("no-base") && said.contains(&words), "{report:#}");
    // What others backed up, and was only read here, is none of this home.
    lab.sh("mv home theirs");
    lab.run(["import", "medium"]).ok();
    let theirs = format!("t@{}", first["session"].as_str().unwrap());
    lab.restored([&theirs, "--into", "out"]);
    let own = ["backup", "tree", "--to", "own", "--name", "t", "--json"];
    let own = crate::support::report(called("another", &own));
    assert_eq!(own["errors"], serde_json::json!([]), "{own:#}");
    lab.sh("rm -r home; mv theirs home");
    let next = backup();
    assert_eq!((&next["method"], &next["errors"]), (&"incr".into(), &serde_json::json!([])));
}
