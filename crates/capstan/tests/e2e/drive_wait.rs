//! Drives and tapes that other sessions have are waited for.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use crate::compare::same_by_rsync;
use crate::support::{Lab, below, noise};

/// Starts the binary; drives that others have are waited for.
fn patient(lab: &Lab, line: &str) -> Child {
    let mut command = lab.command();
    command.env("CAPSTAN_WAIT", "5min").args(line.split_whitespace());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn all_completed(children: impl IntoIterator<Item = Child>) -> Vec<String> {
    let ended = |child: Child| {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        said
    };
    children.into_iter().map(ended).collect()
}

#[test]
fn who_comes_when_all_drives_are_taken_waits() {
    let lab = Lab::new();
    crate::tape::library(&lab, 2, 40);
    let names = ["a", "b", "c", "d"];
    for (n, name) in names.iter().enumerate() {
        lab.file(&format!("{name}/file"), noise(n as u64, 60_000_000));
    }
    all_completed(
        names.map(|name| patient(&lab, &format!("backup {name} --to vtape:vtl --name {name}"))),
    );
    all_completed(names.map(|name| patient(&lab, &format!("restore {name} --into out-{name}"))));
    for name in names {
        same_by_rsync(&lab.path(name), &below(&lab.path(format!("out-{name}")), &lab.path(name)));
    }
    // Two arrays of two tapes each, and a single tape, in two drives.
    let array = "rait1:vtape:vtl,vtape:vtl";
    all_completed([
        patient(&lab, &format!("backup a --to {array} --name ra")),
        patient(&lab, &format!("backup b --to {array} --name rb")),
        patient(&lab, "backup c --to vtape:vtl --name rc"),
    ]);
    for (of, name) in [("a", "ra"), ("b", "rb"), ("c", "rc")] {
        let into = lab.path(format!("out-{name}"));
        lab.restored([name, "--into", into.to_str().unwrap()]);
        same_by_rsync(&lab.path(of), &below(&into, &lab.path(of)));
    }
}

/// Each reads one tape and writes another, or writes two: with two drives one after the other, however they begin.
#[test]
fn who_needs_two_drives_at_a_time_does_not_wait_for_another_such_for_ever() {
    let lab = Lab::new();
    crate::tape::library(&lab, 2, 30);
    let names = ["a", "b", "c"];
    for (n, name) in names.iter().enumerate() {
        lab.file(&format!("{name}/file"), noise(n as u64, 12_000_000));
        let to = format!("vtape:vtl?tape=V0000{}L9", n + 1);
        lab.backed_up([name, "--to", &to, "--name", name]);
        lab.file(&format!("{name}/more"), noise(9, 1_000_000));
        lab.backed_up([name, "--to", &to, "--name", name, "--incr"]);
    }
    all_completed([
        patient(&lab, "copy a --to vtape:vtl?tape=V00004L9"),
        patient(&lab, "copy b --to vtape:vtl?tape=V00005L9"),
        patient(&lab, "consolidate c --to vtape:vtl?tape=V00006L9"),
        patient(
            &lab,
            "backup a --to vtape:vtl?tape=V00007L9 --mirror vtape:vtl?tape=V00008L9 --name m",
        ),
        patient(
            &lab,
            "backup b --to vtape:vtl?tape=V00009L9 --mirror vtape:vtl?tape=V00010L9 --name n",
        ),
    ]);
    lab.sh("rm vtl/tapes/V0000[1-3]L9.tape");
    for (of, name) in [("a", "a"), ("b", "b"), ("c", "c"), ("a", "m"), ("b", "n")] {
        let into = lab.path(format!("out-{name}"));
        lab.restored([name, "--into", into.to_str().unwrap()]);
        same_by_rsync(&lab.path(of), &below(&into, &lab.path(of)));
    }
}

#[test]
fn a_tape_that_is_being_written_is_waited_for_and_that_is_said() {
    let lab = Lab::new();
    crate::tape::library(&lab, 2, 2);
    lab.file("t/file", noise(1, 3_000_000));
    let tape = lab.backed_up(["t", "--to", "vtape:vtl", "--name", "t"])["media"][0].clone();
    let drive = File::open(lab.path("vtl/drive-1")).unwrap();
    drive.lock().unwrap();
    assert_eq!(tape, "V00001L9");
    // At once, if nobody is to wait.
    let refused = lab.run(["restore", "t", "--into", "at-once"]);
    assert!(refused.code != 0 && refused.stderr.contains("in use"), "{}", refused.stderr);
    let mut restore = patient(&lab, "restore t --into out");
    let mut said = BufReader::new(restore.stderr.take().unwrap()).lines();
    let told = said.by_ref().map(Result::unwrap).find(|line| line.contains("waiting: "));
    assert!(told.is_some_and(|line| line.contains("in use by process")));
    drop(drive);
    all_completed([restore]);
    same_by_rsync(&lab.path("t"), &below(&lab.path("out"), &lab.path("t")));
}

/// Starts it while another process has the one drive, and lets it have that when it says that it waits.
fn waits_for_the_drive(lab: &Lab, line: &str) {
    let drive = File::create(lab.path("vtl/drive-1")).unwrap();
    drive.lock().unwrap();
    let mut waiting = patient(lab, line);
    let mut said = BufReader::new(waiting.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("waiting: ")), "{line}");
    drop(drive);
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{line}: {:?}", said.collect::<Vec<_>>());
}

#[test]
fn who_makes_or_erases_media_waits_for_a_drive_too() {
    let lab = Lab::new();
    crate::tape::library(&lab, 1, 4);
    waits_for_the_drive(&lab, "media init vtape:vtl --barcodes V0000[12]L9");
    waits_for_the_drive(&lab, "media init vtape:vtl?tape=V00003L9");
    let media = lab.run(["media", "list"]).ok().stdout.clone();
    assert_eq!(media.matches("free").count(), 3, "{media}");
    waits_for_the_drive(&lab, "media erase vtape:vtl?tape=V00004L9 --foreign");
}

#[test]
fn who_gives_up_a_tape_that_is_being_read_waits_or_is_told_who_reads_it() {
    let lab = Lab::new();
    crate::tape::library(&lab, 2, 2);
    lab.file("t/file", noise(1, 100_000));
    lab.backed_up(["t", "--to", "vtape:vtl?tape=V00001L9", "--protect", "none", "--name", "t"]);
    // A newer one elsewhere, so that this tape may go.
    lab.backed_up(["t", "--to", "vtape:vtl?tape=V00002L9", "--full", "--name", "t"]);
    lab.run(["library", "unload", "vtape:vtl", "2"]);
    let inventory = lab.run(["library", "inventory", "vtape:vtl"]).ok().stdout.clone();
    let line = inventory.lines().find(|line| line.contains("V00001L9")).unwrap();
    assert!(line.contains("drive:1"), "{inventory}");
    for command in ["recycle", "erase"] {
        let drive = File::create(lab.path("vtl/drive-1")).unwrap();
        drive.lock().unwrap();
        let refused = lab.run(["media", command, "V00001L9"]);
        assert_ne!(refused.code, 0, "{command}");
        assert!(refused.stderr.contains("in use by process"), "{command}: {}", refused.stderr);
        assert!(!refused.stderr.contains("mount it there"), "{command}: {}", refused.stderr);
    }
    waits_for_the_drive(&lab, "media recycle V00001L9");
}

#[test]
fn a_drive_that_is_in_use_is_no_lack_of_tapes() {
    let lab = Lab::new();
    crate::tape::library(&lab, 1, 3);
    lab.file("t/file", noise(1, 1_000));
    let drive = File::create(lab.path("vtl/drive-1")).unwrap();
    drive.lock().unwrap();
    let refused = lab.run(["backup", "t", "--to", "vtape:vtl", "--wait", "0"]);
    refused.refused(&["in use by process", "--wait", "end that session"]);
    assert!(!refused.stderr.contains("blank tape"), "{}", refused.stderr);
}

/// Each reads three tapes at a time, and there are three drives: one after the other, whole arrays, and not tape by tape by turns.
#[test]
fn who_reads_arrays_of_tapes_has_all_drives_for_one_at_a_time() {
    let lab = Lab::new();
    let dir = crate::tape::library(&lab, 3, 12);
    let names = ["a", "b"];
    for (n, name) in names.iter().enumerate() {
        lab.file(&format!("{name}/file"), noise(n as u64, 30_000_000));
        let array = "rait5:vtape:vtl,vtape:vtl,vtape:vtl";
        lab.backed_up([name, "--to", array, "--name", name]);
    }
    let loads = || -> u64 {
        let tapes = std::fs::read_dir(dir.join("tapes")).unwrap().map(|of| of.unwrap().path());
        let labels = tapes.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let of = |path| std::fs::read_to_string(path).unwrap();
        let label = |path| serde_json::from_str::<serde_json::Value>(&of(path)).unwrap();
        labels.map(|path| label(path)["loads"].as_u64().unwrap()).sum()
    };
    let restore = |name: &str| patient(&lab, &format!("restore {name} --into out-{name}"));
    let verify = |name: &str| patient(&lab, &format!("verify {name}"));
    for start in [&restore as &dyn Fn(&str) -> Child, &verify] {
        let before = loads();
        all_completed(names.map(start));
        let more = loads() - before;
        // Each array once, and the last one that the other had in the drives.
        assert!(more <= 18, "{more}");
    }
    for name in names {
        same_by_rsync(&lab.path(name), &below(&lab.path(format!("out-{name}")), &lab.path(name)));
    }
}

#[test]
fn who_brings_a_database_back_waits_for_a_drive_too() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 100_000));
    lab.file("sheet", lab.run(["idb", "recovery-key"]).ok().stdout.clone());
    crate::tape::library(&lab, 1, 2);
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    for device in ["vtape:vtl", "vtape:vtl?tape=V00001L9"] {
        std::fs::remove_dir_all(lab.path("home")).unwrap();
        waits_for_the_drive(&lab, &format!("idb recover {device} --code-file sheet"));
        crate::tape::comes_back(&lab, "t", &lab.path("tree"));
    }
}

/// What limited a session that waited for another's drive was the other one: no robot.
#[test]
fn waiting_for_another_session_is_named_as_that() {
    let lab = Lab::new();
    crate::tape::library(&lab, 1, 2);
    lab.file("tree/a", noise(1, 100_000));
    let drive = File::create(lab.path("vtl/drive-1")).unwrap();
    drive.lock().unwrap();
    let mut waiting = patient(&lab, "backup tree --to vtape:vtl --name t --json");
    let mut said = BufReader::new(waiting.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("waiting: ")));
    std::thread::sleep(std::time::Duration::from_secs(8));
    drop(drive);
    let output = waiting.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let limit = &report["bottleneck"];
    assert_eq!(limit["stage"], "other sessions", "{report:#}");
    assert!(limit["advice"].as_str().unwrap().contains("another session"), "{report:#}");
}
