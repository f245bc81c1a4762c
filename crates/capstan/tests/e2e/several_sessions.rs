//! Several sessions on one library at the same time: each has a tape and a drive of its own, as long as there are any, and gives back
//! what it is done with.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};

use capstan_medium::tape::{Place, TapeLibrary};
use capstan_tape::Changer as _;
use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, below, noise, wait_for};
use crate::tape_software::tgt::{CHANGER, Library as Tgt};

/// A session that has a tape and a drive until its input ends; that comes by a pipe from the test.
struct Holder {
    child: Child,
    input: ChildStdin,
}

impl Holder {
    fn begin(lab: &Lab, name: &str, to: &[&str]) -> Self {
        let mut command = lab.command();
        command.env("CAPSTAN_WAIT", "5min").args(["backup", "--stdin", "--name", name, "--json"]);
        command.arg("--to").args(to).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        Self { child, input }
    }

    /// Gives it some bytes to write.
    fn give(&mut self, seed: u64, len: usize) {
        self.input.write_all(&noise(seed, len)).unwrap();
    }

    /// Lets it come to its end; its report and what it said.
    fn end(self) -> (Value, String) {
        drop(self.input);
        ended(self.child)
    }
}

/// The report of a session that completed, and what it said.
fn ended(child: Child) -> (Value, String) {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    (serde_json::from_slice(&output.stdout).unwrap(), said)
}

/// Runs the binary, which may wait; its report, and what it said.
fn patient(lab: &Lab, args: &[&str]) -> (Value, String) {
    ended(begun(lab, args))
}

fn begun(lab: &Lab, args: &[&str]) -> Child {
    let mut command = lab.command();
    command.env("CAPSTAN_WAIT", "20s").args(args).arg("--json");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Nobody waited for a tape or a drive; a robot may have been busy.
fn did_not_wait(said: &str) {
    let waited = said.lines().find(|l| l.contains("waiting: ") && !l.contains("robot"));
    assert_eq!(waited, None, "{said}");
}

fn media(report: &Value) -> Vec<String> {
    let media = report["media"].as_array().unwrap();
    media.iter().map(|label| label.as_str().unwrap().to_owned()).collect()
}

/// The drives that are in use, each with its tape and the process that has it.
fn in_use(library: &Path) -> Vec<(u32, String, u32)> {
    let mut library = Library::open(library).unwrap();
    let held = library.tapes().unwrap();
    let mut all = Vec::new();
    for n in 1..=library.elements().drives {
        let Some(user) = library.drive_info(n).unwrap().in_use else { continue };
        let tape = held.iter().find(|tape| tape.place == Place::Drive(n));
        let pid = user.split(' ').nth(1).unwrap().parse().unwrap_or_default();
        all.push((n, tape.map(|tape| tape.barcode.clone()).unwrap_or_default(), pid));
    }
    all
}

fn lab(drives: u32, tapes: u32) -> Lab {
    let lab = Lab::new();
    crate::tape::library(&lab, drives, tapes);
    lab.file("t/file", noise(1, 3_000_000));
    lab
}

/// As many as there are drives choose at the same moment.
#[test]
fn sessions_that_begin_at_once_have_each_a_tape_and_a_drive() {
    let lab = lab(4, 6);
    let vtl = lab.path("vtl");
    for round in 0..3 {
        let names = ["a", "b", "c", "d"].map(|name| format!("{name}{round}"));
        let mut holders: Vec<_> =
            names.iter().map(|name| Holder::begin(&lab, name, &["vtape:vtl"])).collect();
        let pids: Vec<u32> = holders.iter().map(|of| of.child.id()).collect();
        wait_for("each has a drive", || {
            let all = in_use(&vtl);
            pids.iter().all(|pid| all.iter().filter(|(_, _, user)| user == pid).count() == 1)
        });
        for (n, holder) in holders.iter_mut().enumerate() {
            holder.give(n as u64, 2_000_000);
        }
        let mut used = Vec::new();
        for (holder, name) in holders.into_iter().zip(&names) {
            let (report, said) = holder.end();
            did_not_wait(&said);
            assert_eq!(report["name"], name.as_str());
            used.extend(media(&report));
        }
        used.sort();
        used.dedup();
        assert_eq!(used.len(), 4, "{used:?}");
        for (n, name) in names.iter().enumerate() {
            let archive = lab.sh(&format!(
                "'{}' restore {name} --into out-{name} --home home >&2; find out-{name} -type f",
                env!("CARGO_BIN_EXE_capstan")
            ));
            let file = lab.path(archive.trim());
            assert!(std::fs::read(file).unwrap() == noise(n as u64, 2_000_000), "{name}");
        }
    }
}

#[test]
fn nobody_waits_for_anothers_tape_as_long_as_there_are_others() {
    let lab = lab(3, 8);
    for (n, pool) in [(6, "p"), (7, "p"), (8, "other")] {
        lab.sh(&format!(
            "'{0}' --home home pool create {pool} >/dev/null 2>&1 || :
             '{0}' --home home media init 'vtape:vtl?tape=V0000{n}L9' --pool {pool} >/dev/null",
            env!("CARGO_BIN_EXE_capstan")
        ));
    }
    let first = lab.backed_up(["t", "--to", "vtape:vtl", "--name", "source"]);
    assert_eq!(media(&first), ["V00001L9"]);
    let of_library = Holder::begin(&lab, "library", &["vtape:vtl"]);
    let of_pool = Holder::begin(&lab, "pool", &["pool:p"]);
    let tapes = || in_use(&lab.path("vtl")).into_iter().map(|of| of.1).collect::<Vec<_>>();
    wait_for("both have a drive", || {
        let tapes = tapes();
        let of_pool = |tape: &String| ["V00006L9", "V00007L9"].contains(&tape.as_str());
        tapes.len() == 2 && tapes.contains(&"V00001L9".to_owned()) && tapes.iter().any(of_pool)
    });
    let (report, said) = patient(&lab, &["backup", "t", "--to", "vtape:vtl", "--name", "t"]);
    did_not_wait(&said);
    assert_eq!(media(&report), ["V00002L9"]);
    let (report, said) = patient(&lab, &["backup", "t", "--to", "pool:p", "--name", "t"]);
    did_not_wait(&said);
    let in_pool = media(&report);
    assert!(["V00006L9", "V00007L9"].contains(&&*in_pool[0]), "{in_pool:?}");
    // Beside them one is read, and one that is on disk is copied to a tape.
    let (_, said) = patient(&lab, &["restore", "t", "--into", "out"]);
    did_not_wait(&said);
    same_by_rsync(&lab.path("t"), &below(&lab.path("out"), &lab.path("t")));
    lab.backed_up(["t", "--to", "disk", "--name", "d"]);
    let (report, said) = patient(&lab, &["copy", "d", "--to", "vtape:vtl"]);
    did_not_wait(&said);
    assert_eq!(media(&report), ["V00002L9"], "the one that takes more and that nobody has");
    lab.backed_up(["t", "--to", "disk", "--name", "e"]);
    let (report, said) = patient(&lab, &["stage", "disk", "--to", "pool:p"]);
    did_not_wait(&said);
    assert_eq!(media(&report), in_pool);
    of_library.end();
    // What is in a drive at a moment may only be tried: what it wrote to in the end counts.
    let written = media(&of_pool.end().0);
    assert!(!written.contains(&in_pool[0]), "{in_pool:?} {written:?}");
}

#[test]
fn who_comes_when_no_drive_is_left_waits_for_all_who_have_one_and_one_that_is_killed_frees_both() {
    let lab = lab(2, 5);
    let mut first = Holder::begin(&lab, "first", &["vtape:vtl"]);
    let second = Holder::begin(&lab, "second", &["vtape:vtl"]);
    let pids = [first.child.id(), second.child.id()];
    wait_for("both have a drive", || {
        let all = in_use(&lab.path("vtl"));
        let has = |tape: &str| all.iter().any(|of| of.1 == tape);
        has("V00001L9") && has("V00002L9") && pids.iter().all(|p| all.iter().any(|of| of.2 == *p))
    });
    let of_first = in_use(&lab.path("vtl")).into_iter().find(|of| of.2 == pids[0]).unwrap();
    // At once, where nobody is to wait: no further tape is looked at, and none is given up.
    let refused = lab.run(["backup", "t", "--to", "vtape:vtl", "--name", "none"]);
    let both = pids.map(|pid| format!("(in process {pid})"));
    refused.refused(&["every drive of library", "'first'", "'second'", &both[0], &both[1]]);
    let mut third = begun(&lab, &["backup", "t", "--to", "vtape:vtl", "--name", "third"]);
    let mut said = BufReader::new(third.stderr.take().unwrap()).lines();
    let told = said.by_ref().map(Result::unwrap).find(|line| line.contains("waiting: ")).unwrap();
    for words in ["every drive of library", "'first'", "'second'", &both[0], &both[1]] {
        assert!(told.contains(words), "{words}: {told}");
    }
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let (report, _) = ended(third);
    let drive = format!("drive {} of ", of_first.0);
    assert!(report["drives"][0]["name"].as_str().unwrap().starts_with(&drive), "{report:#}");
    // The tape of the one that was killed is nobody's.
    let (report, said) = patient(
        &lab,
        &["backup", "t", "--to", &format!("vtape:vtl?tape={}", of_first.1), "--name", "on-it"],
    );
    did_not_wait(&said);
    assert_eq!(media(&report), [of_first.1]);
    second.end();
}

/// Of a library all is imported that can be had at once; then it waits for the tapes that others have, or for a drive.
#[test]
fn an_import_of_a_library_waits_for_drives_and_tapes() {
    for holders in [&["V00001L9"][..], &["V00001L9", "V00002L9"]] {
        let lab = lab(2, 4);
        for tape in ["V00001L9", "V00002L9", "V00003L9"] {
            lab.backed_up(["t", "--to", &format!("vtape:vtl?tape={tape}"), "--name", tape]);
        }
        let on = |tape: &&str| {
            let to = format!("vtape:vtl?tape={tape}");
            Holder::begin(&lab, &format!("held-{tape}"), &[&to])
        };
        let held: Vec<Holder> = holders.iter().map(on).collect();
        wait_for("they have their drives", || in_use(&lab.path("vtl")).len() == held.len());
        // At once, where nobody is to wait.
        let now = lab.run(["import", "vtape:vtl"]);
        assert!(now.code != 0 && now.stderr.contains("in use"), "{} {}", now.code, now.stderr);
        let mut import = begun(&lab, &["import", "vtape:vtl"]);
        let mut said = BufReader::new(import.stderr.take().unwrap()).lines();
        let told = said.by_ref().map(Result::unwrap).find(|line| line.contains("waiting: "));
        assert!(told.unwrap().contains("'held-"));
        held.into_iter().for_each(|holder| drop(holder.end()));
        let (report, _) = ended(import);
        let mut all = media(&report);
        all.sort();
        assert_eq!(all, ["V00001L9", "V00002L9", "V00003L9"], "{report:#}");
        assert_eq!(report["errors"], serde_json::json!([]), "{report:#}");
    }
}

/// Tapes hold 40 MB: it goes on on a second one, and has no use for the first drive then.
#[test]
fn a_full_tapes_drive_is_given_back_while_its_session_goes_on() {
    let lab = lab(2, 5);
    let vtl = lab.path("vtl");
    let mut spans = Holder::begin(&lab, "spans", &["vtape:vtl"]);
    spans.give(7, 35_000_000);
    let pid = spans.child.id();
    wait_for("it goes on on the second tape, in one drive", || {
        let tapes: Vec<_> = in_use(&vtl).into_iter().map(|(_, tape, _)| tape).collect();
        tapes == ["V00002L9"]
    });
    let (report, said) = patient(&lab, &["backup", "t", "--to", "vtape:vtl", "--name", "t"]);
    did_not_wait(&said);
    assert_eq!(media(&report), ["V00003L9"]);
    assert!(in_use(&vtl).iter().all(|(_, _, user)| *user == pid));
    let (report, _) = spans.end();
    assert_eq!(media(&report), ["V00001L9", "V00002L9"]);
}

/// It needs a drive for its next tape, and has one: nobody who waits gets that before it.
#[test]
fn who_goes_on_on_another_tape_keeps_its_drive() {
    let lab = lab(1, 8);
    let mut spans = Holder::begin(&lab, "spans", &["vtape:vtl"]);
    spans.give(7, 10_000_000);
    wait_for("it has the drive", || in_use(&lab.path("vtl")).len() == 1);
    let waiting: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| {
            let mut command = lab.command();
            command.env("CAPSTAN_WAIT", "5min").args(["backup", "t", "--to", "vtape:vtl"]);
            command.args(["--json", "--name", name]).stdout(Stdio::piped());
            let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
            let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
            assert!(said.by_ref().map(Result::unwrap).any(|line| line.contains("waiting: ")));
            (child, said)
        })
        .collect();
    spans.give(8, 110_000_000);
    let (report, said) = spans.end();
    did_not_wait(&said);
    assert!(media(&report).len() > 3, "{report:#}");
    for (child, said) in waiting {
        let said: Vec<_> = said.map(Result::unwrap).collect();
        let (report, _) = ended(child);
        assert_eq!(report["status"], "completed", "{said:?}");
    }
}

/// What is not a tape to write on is looked at, and its drive is for others again.
#[test]
fn a_tape_that_will_not_do_keeps_no_drive() {
    let lab = lab(2, 3);
    let mut foreign = Library::open(&lab.path("vtl")).unwrap();
    foreign.move_tape(Place::Slot(1), Place::Drive(1)).unwrap();
    let mut drive = foreign.open_drive(1).unwrap();
    drive.write_block(&[7; 4096]).unwrap();
    drive.sync().unwrap();
    drop(drive);
    let holder = Holder::begin(&lab, "first", &["vtape:vtl"]);
    let tapes = || in_use(&lab.path("vtl")).into_iter().map(|of| of.1).collect::<Vec<_>>();
    wait_for("it has the second tape", || tapes() == ["V00002L9"]);
    let (report, said) = patient(&lab, &["backup", "t", "--to", "vtape:vtl", "--name", "t"]);
    did_not_wait(&said);
    assert_eq!(media(&report), ["V00003L9"]);
    holder.end();
}

/// The rest of the version lies in a library whose drive another session has.
#[test]
fn the_drive_of_a_tape_that_was_read_is_given_back_while_the_restore_goes_on() {
    let lab = lab(1, 3);
    Library::create(&lab.path("other"), &crate::tape::library_of(1, 2), 2).unwrap();
    lab.backed_up(["t", "--to", "vtape:vtl", "--name", "t"]);
    lab.file("t/more", noise(2, 3_000_000));
    lab.backed_up(["t", "--to", "vtape:other", "--name", "t", "--incr"]);
    let drive = File::open(lab.path("other/drive-1")).unwrap();
    drive.lock().unwrap();
    let mut command = lab.command();
    command.env("CAPSTAN_WAIT", "5min").args(["restore", "t", "--into", "out", "--json"]);
    let mut restore = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(restore.stderr.take().unwrap()).lines();
    assert!(said.by_ref().map(Result::unwrap).any(|line| line.contains("waiting: ")));
    assert!(in_use(&lab.path("vtl")).is_empty());
    let (report, said) = patient(&lab, &["backup", "t", "--to", "vtape:vtl", "--name", "u"]);
    did_not_wait(&said);
    assert_eq!(media(&report), ["V00001L9"]);
    drop(drive);
    ended(restore);
    same_by_rsync(&lab.path("t"), &below(&lab.path("out"), &lab.path("t")));
}

/// One process reserves drives; another home is as another host.
#[test]
fn sessions_on_a_real_library_have_each_a_tape_and_a_drive() {
    let lab = lab(1, 1);
    let Some(tgt) = Tgt::start(60, None) else { return };
    let library = tgt.url(CHANGER);
    let mut first = Holder::begin(&lab, "first", &[&library]);
    first.give(7, 10_000_000);
    let loaded = |lab: &Lab| {
        let status = lab.run(["library", "status", &library, "--json"]);
        let status: Value = serde_json::from_str(&status.ok().stdout).unwrap();
        let drives = status["drives"].as_array().unwrap().clone();
        drives.into_iter().filter(|drive| drive["in_use_by"].is_string()).count()
    };
    wait_for("it has a drive", || loaded(&lab) == 1);
    let mut second = Holder::begin(&lab, "second", &[&library]);
    second.give(8, 10_000_000);
    wait_for("the second one has the other drive", || loaded(&lab) == 2);
    let refused = lab.run(["backup", "t", "--to", &library, "--name", "third"]);
    refused.refused(&["every drive of library", "'first'", "'second'"]);
    // It goes on on another tape in the drive that it has.
    first.give(9, 70_000_000);
    let (first, said) = first.end();
    did_not_wait(&said);
    let (third, said) = patient(&lab, &["backup", "t", "--to", &library, "--name", "third"]);
    did_not_wait(&said);
    let (second, said) = second.end();
    did_not_wait(&said);
    let (first, second, third) = (media(&first), media(&second), media(&third));
    assert!(first.len() == 2 && second.len() == 1, "{first:?} {second:?}");
    assert!(!first.contains(&second[0]) && !third.contains(&second[0]), "{third:?}");
    lab.restored(["third", "--into", "out"]);
    same_by_rsync(&lab.path("t"), &below(&lab.path("out"), &lab.path("t")));
}

/// Each has a drive of one library and needs one of the other: if both took what is free, each would wait for the other.
#[test]
fn two_that_need_drives_of_two_libraries_do_not_wait_for_each_other() {
    let lab = Lab::new();
    for name in ["left", "right"] {
        let design = crate::tape::library_of(1, 4);
        Library::create(&lab.path(name), &design, 4).unwrap();
    }
    lab.file("tree/a", noise(1, 3_000_000));
    for (object, to) in [("l", "left"), ("r", "right")] {
        lab.backed_up(["tree", "--to", &format!("vtape:{to}"), "--name", object]);
    }
    let pairs = [
        [
            "backup tree --to vtape:left --mirror vtape:right --name a",
            "backup tree --to vtape:right --mirror vtape:left --name b",
        ],
        ["copy l --to vtape:right", "copy r --to vtape:left"],
    ];
    for pair in pairs.iter().cycle().take(6) {
        let start = |line: &&str| {
            let mut command = lab.command();
            command.args(line.split(' ')).args(["--wait", "5min"]);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let both: Vec<_> = pair.iter().map(start).collect();
        for (one, line) in both.into_iter().zip(pair) {
            let ended = one.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            // A second copy finds all there.
            assert!(matches!(ended.status.code(), Some(0)), "{line}: {said}");
        }
    }
}
