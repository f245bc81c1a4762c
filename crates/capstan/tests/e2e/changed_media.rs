//! Media that are not as they were last written: cut, written over, copied; nothing is written to them, and somebody is told.

use std::path::Path;

use capstan_medium::tape::{Place, Spot, TapeLibrary};
use capstan_tape::TapeDrive;
use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::server::write_settings;
use crate::support::{Lab, Run, below, finish, noise, report};
use crate::tape::{comes_back, library, media};

pub const TAPE: &str = "V00001L9";

/// Has a tape of the library in its drive, as another program would.
pub fn on_tape(dir: &Path, barcode: &str, work: impl FnOnce(&mut dyn TapeDrive)) {
    let mut robot = Library::open(dir).unwrap();
    let held = robot.inventory().unwrap();
    if let Some(other) = held.iter().find(|h| h.place == Place::Drive(1)) {
        let free = (1..9).map(Place::Slot).find(|p| held.iter().all(|h| h.place != *p)).unwrap();
        robot.unload_drive(1).unwrap();
        robot.move_tape(Place::Drive(1), other.from.unwrap_or(free)).unwrap();
    }
    let held = robot.inventory().unwrap();
    let place = held.iter().find(|h| h.barcode == barcode).unwrap().place;
    robot.move_tape(place, Place::Drive(1)).unwrap();
    let mut drive = robot.drive(1).unwrap();
    work(&mut drive);
    drop(drive);
    robot.unload_drive(1).unwrap();
    robot.move_tape(Place::Drive(1), place).unwrap();
}

pub fn overwrite(drive: &mut dyn TapeDrive) {
    drive.locate(Spot::BEGIN).unwrap();
    for _ in 0..3 {
        drive.write_block(&[b't'; 10_240]).unwrap();
    }
    drive.write_filemark().unwrap();
    drive.sync().unwrap();
}

fn cut(drive: &mut dyn TapeDrive) {
    drive.locate(Spot { file: 1, block: 8, object: None }).unwrap();
    drive.write_filemark().unwrap();
    drive.sync().unwrap();
}

/// What `status` says, with its exit code.
fn status(lab: &Lab) -> (i32, String) {
    let run = lab.run(["status", "t", "--max-age", "1d", "--json"]);
    (run.code, run.stdout)
}

pub fn state(lab: &Lab, label: &str) -> String {
    media(lab).into_iter().find(|m| m.0 == label).unwrap_or_else(|| panic!("{label}")).1
}

pub fn codes(report: &Value) -> Vec<&str> {
    report["errors"].as_array().unwrap().iter().map(|e| e["code"].as_str().unwrap()).collect()
}

/// Makes a copy of our home, with tables of its own.
pub fn copy_home(lab: &Lab) {
    lab.sh("cp -a home other");
    if let Some(url) = lab.keep_tables() {
        write_settings(&lab.path("other"), &format!("database = \"{url}\"\n"));
    }
}

/// One run with another home, which is a copy of ours: of the same cell.
pub fn run_of(lab: &Lab, home: &str, args: &[&str]) -> Run {
    finish(lab.command().env("CAPSTAN_HOME", lab.path(home)).args(args))
}

#[test]
fn a_tape_that_was_changed_elsewhere_is_marked_and_another_is_taken() {
    for (change, says) in [
        (overwrite as fn(&mut dyn TapeDrive), "something else was written over it"),
        (cut, "is missing"),
    ] {
        let lab = Lab::new();
        let dir = library(&lab, 1, 4);
        lab.file("tree/a", noise(1, 12_000_000));
        lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
        assert_eq!(state(&lab, TAPE), "appendable");
        on_tape(&dir, TAPE, change);
        let done = lab.backup(["tree", "--to", "vtape:vtl", "--name", "t", "--full"]);
        assert_eq!(done["status"], "completed_with_errors", "{done:#}");
        assert_eq!((&done["media"][0], codes(&done)), (&"V00002L9".into(), vec!["medium-changed"]));
        assert!(done["errors"][0]["error"].as_str().unwrap().contains(says), "{done:#}");
        assert_eq!(state(&lab, TAPE), "changed");
        let shown = lab.run(["media", "show", TAPE]).ok().stdout.clone();
        assert!(shown.contains(says), "{shown}");
        // Until that is dealt with, somebody is told; the next sessions leave it alone.
        let next = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--full"]);
        assert_eq!(next["media"][0], "V00002L9");
        let (code, said) = status(&lab);
        assert!(code != 0 && said.contains(says) && said.contains(TAPE), "{code} {said}");
        let to = format!("vtape:vtl?tape={TAPE}");
        lab.run(["backup", "tree", "--to", &to]).refused(&["not as it was last written", says]);
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

#[test]
fn nothing_builds_on_a_tape_that_was_changed_elsewhere() {
    for change in [overwrite as fn(&mut dyn TapeDrive), cut] {
        let lab = Lab::new();
        let dir = library(&lab, 1, 4);
        lab.file("tree/a", noise(1, 12_000_000));
        lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
        lab.file("tree/b", noise(2, 1_000));
        lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
        on_tape(&dir, TAPE, change);
        lab.file("tree/b", noise(3, 1_000));
        let first = lab.backup(["tree", "--to", "vtape:vtl", "--name", "t"]);
        assert_eq!((&first["method"], &first["media"][0]), (&"full".into(), &"V00002L9".into()));
        let said = codes(&first);
        assert!(said.contains(&"no-base") && said.contains(&"medium-changed"), "{first:#}");
        comes_back(&lab, "t", &lab.path("tree"));
        lab.file("tree/b", noise(4, 1_000));
        let next = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
        assert_eq!(next["method"], "incr");
        comes_back(&lab, "t", &lab.path("tree"));
        let versions = lab.run(["versions", "t", "--json"]).ok().stdout.clone();
        assert_eq!(versions.matches("\"not_at_hand\"").count(), 2, "{versions}");
    }
}

#[test]
fn a_tape_that_was_cut_is_taken_as_it_is_by_an_import() {
    let lab = Lab::new();
    let dir = library(&lab, 1, 2);
    lab.file("tree/a", noise(1, 3_000_000));
    let to = format!("vtape:vtl?tape={TAPE}");
    let first = lab.backed_up(["tree", "--to", &to, "--name", "t"]);
    lab.file("tree/b", noise(2, 3_000_000));
    let second = lab.backed_up(["tree", "--to", &to, "--name", "t", "--full"]);
    on_tape(&dir, TAPE, |drive| {
        // Behind the first session's segment, and the backup of the database that follows it, if any.
        drive.locate(Spot { file: 3, block: 0, object: None }).unwrap();
        drive.write_filemark().unwrap();
        drive.sync().unwrap();
    });
    let copied = lab.run(["backup", "tree", "--to", &to]);
    copied.refused(&["is missing", "capstan import"]);
    let taken = report(lab.run(["import", &to, "--json"]));
    assert_eq!(taken["status"], "completed_with_errors", "{taken:#}");
    assert_eq!(codes(&taken), ["medium-changed"], "{taken:#}");
    let short = &second["session"].as_str().unwrap()[..8];
    assert!(taken["notes"].to_string().contains(&format!("t@{short}")), "{taken:#}");
    assert_eq!(state(&lab, TAPE), "appendable");
    let version = format!("t@{}", first["session"].as_str().unwrap());
    lab.run(["verify", &version]).ok();
    lab.backed_up(["tree", "--to", &to, "--name", "t", "--full"]);
    assert_eq!(status(&lab).0, 0, "{:?}", status(&lab));
    comes_back(&lab, "t", &lab.path("tree"));
    lab.run(["idb", "check"]).ok();
}

/// The commands that a text names.
fn advised(text: &str) -> Vec<Vec<String>> {
    let all = text.split('`').skip(1).step_by(2).filter_map(|c| c.strip_prefix("capstan "));
    all.map(|c| c.split(' ').map(|word| word.trim_matches('\'').to_owned()).collect()).collect()
}

/// Another home of another cell erases a tape and backs up to it.
fn written_by_another(lab: &Lab) {
    let to = format!("vtape:vtl?tape={TAPE}");
    for args in [
        vec!["media", "erase", &to, "--foreign"],
        vec!["backup", "tree", "--to", &to, "--name", "theirs"],
    ] {
        run_of(lab, "another", &args).ok();
    }
}

/// What the advice about a tape names works, each command for itself, whoever gives it.
#[test]
fn each_command_that_is_advised_for_a_changed_tape_works() {
    let by_drive =
        |change: fn(&mut dyn TapeDrive)| move |lab: &Lab| on_tape(&lab.path("vtl"), TAPE, change);
    type Change = Box<dyn Fn(&Lab)>;
    let changes: [Change; 3] =
        [Box::new(by_drive(overwrite)), Box::new(by_drive(cut)), Box::new(written_by_another)];
    for change in changes {
        for by_status in [false, true] {
            let mut tried = 0;
            loop {
                let lab = Lab::new();
                library(&lab, 1, 2);
                lab.file("tree/a", noise(1, 8_000_000));
                let to = format!("vtape:vtl?tape={TAPE}");
                lab.backed_up(["tree", "--to", &to, "--name", "t"]);
                change(&lab);
                let refused = lab.run(["backup", "tree", "--to", &to]);
                refused.refused(&["not as it was last written"]);
                let pruned = lab.run(["prune", "--keep-last", "1"]);
                let text = if by_status { pruned.stderr.as_str() } else { refused.stderr.as_str() };
                let commands = advised(text);
                assert!(!commands.is_empty(), "{text}");
                let Some(command) = commands.get(tried) else { break };
                // What is another's is made known when what was there before is forgotten.
                for earlier in
                    commands.iter().take(tried).filter(|_| text.contains("is on its tape now"))
                {
                    lab.run(earlier).ok();
                }
                let run = lab.run(command);
                assert!([0, 3].contains(&run.code), "{command:?}: {}{}", run.stdout, run.stderr);
                if command.contains(&"recycle".to_owned()) {
                    assert_eq!(state(&lab, TAPE), "free");
                    lab.backed_up(["tree", "--to", &to, "--name", "t"]);
                    comes_back(&lab, "t", &lab.path("tree"));
                }
                let (_, said) = status(&lab);
                assert!(!said.contains("not as it was last written"), "{said}");
                lab.run(["idb", "check"]).ok();
                tried += 1;
            }
            assert!(tried > 1, "{tried} commands were advised");
        }
    }
}

#[test]
fn a_tape_with_another_medium_or_its_own_is_not_recycled_as_foreign() {
    let lab = Lab::new();
    library(&lab, 1, 2);
    lab.file("tree/a", noise(1, 3_000_000));
    let to = format!("vtape:vtl?tape={TAPE}");
    lab.backed_up(["tree", "--to", &to, "--name", "t"]);
    lab.run(["media", "recycle", TAPE, "--foreign"]).refused(&["leave --foreign out"]);
    written_by_another(&lab);
    lab.run(["media", "recycle", TAPE, "--foreign"]).refused(&["is on its tape now"]);
    run_of(&lab, "another", &["verify", "theirs"]).ok();
    lab.run(["media", "init", "m"]).ok();
    lab.run(["media", "recycle", "m", "--foreign"]).refused(&["no tape"]);
}

/// Two media of a pool, of which the first has three segments.
fn lab_of_directories() -> Lab {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 400_000));
    lab.run(["pool", "create", "p"]).ok();
    lab.run(["media", "init", "m", "--pool", "p"]).ok();
    for _ in 0..3 {
        lab.backed_up(["tree", "--to", "m", "--name", "t", "--full"]);
    }
    lab.run(["media", "init", "n", "--pool", "p"]).ok();
    lab
}

#[test]
fn a_directory_whose_last_segment_is_not_what_was_written_is_not_written() {
    let last = "m/00000003.segment";
    for (change, says) in [
        (format!("rm {last}"), "segment 3"),
        (format!("truncate -s -4096 {last}"), "bytes instead of"),
        (format!("cp m/00000002.segment {last}"), "is another one there"),
        (format!("truncate -s 0 {last}; truncate -s 1M {last}"), "cannot be read as a segment"),
    ] {
        let lab = lab_of_directories();
        lab.sh(&format!("cp -a {last} saved; {change}"));
        for args in [
            vec!["backup", "tree", "--to", "m", "--name", "t"],
            vec!["backup", "tree", "--to", "m", "--name", "new"],
            vec!["media", "label", "m", "other"],
        ] {
            lab.run(&args).refused(&["not as it was last written", says, "--as-new"]);
        }
        assert_eq!(state(&lab, "m"), "changed", "{change}");
        let (code, said) = status(&lab);
        assert!(code != 0 && said.contains(says), "{code} {said}");
        let pooled = lab.backed_up(["tree", "--to", "pool:p", "--name", "t", "--full"]);
        assert_eq!(pooled["media"][0], "n", "{pooled:#}");
        // As it was, it is written again.
        lab.sh(&format!("mv saved {last}"));
        let again = lab.backed_up(["tree", "--to", "m", "--name", "t", "--full"]);
        assert_eq!((&again["media"][0], state(&lab, "m")), (&"m".into(), "appendable".to_owned()));
        assert_eq!(status(&lab).0, 0, "{:?}", status(&lab));
    }
}

#[test]
fn all_that_writes_looks_at_the_end_of_a_directory_first() {
    let lab = lab_of_directories();
    lab.file("tree/b", noise(2, 10_000));
    lab.backed_up(["tree", "--to", "n", "--name", "t", "--incr"]);
    lab.sh("rm m/00000003.segment");
    // Found by the session itself: another of the pool goes on, and the session says so.
    let pooled = lab.backup(["tree", "--to", "pool:p", "--name", "u"]);
    let first = pooled["media"][0] == "m";
    assert!(!first, "{pooled:#}");
    for args in [
        vec!["copy", "u", "--to", "m"],
        vec!["consolidate", "t", "--to", "m"],
        vec!["stage", "n", "--to", "m"],
        vec!["media", "retire", "n", "--to", "m"],
    ] {
        lab.run(&args).refused(&["not as it was last written"]);
    }
    let mirrored = lab.backup(["tree", "--to", "n", "--mirror", "m", "--name", "u"]);
    assert_eq!(mirrored["status"], "completed_with_errors", "{mirrored:#}");
    assert!(codes(&mirrored).contains(&"medium-changed"), "{mirrored:#}");
    assert_eq!(state(&lab, "m"), "changed");
    lab.restored(["u", "--into", lab.path("out").to_str().unwrap()]);
}

#[test]
fn a_session_to_a_pool_says_which_medium_it_passed_over() {
    let lab = lab_of_directories();
    lab.sh("rm -rf n; rm m/00000003.segment");
    lab.run(["media", "init", "o", "--pool", "p"]).ok();
    let done = lab.backup(["tree", "--to", "pool:p", "--name", "t", "--full"]);
    assert_eq!(done["status"], "completed_with_errors", "{done:#}");
    assert_eq!(
        (&done["media"][0], codes(&done)),
        (&"o".into(), vec!["medium-changed"]),
        "{done:#}"
    );
    assert_eq!(state(&lab, "m"), "changed");
    // Taken as it is, it is written again; what is lost is forgotten by name.
    let taken = report(lab.run(["import", "m", "--json"]));
    assert_eq!(codes(&taken), ["medium-changed"], "{taken:#}");
    assert!(taken["notes"].to_string().contains("t@"), "{taken:#}");
    assert_eq!(state(&lab, "m"), "appendable");
    lab.backed_up(["tree", "--to", "m", "--name", "t", "--full"]);
    lab.run(["idb", "check"]).ok();
}

#[test]
fn what_a_prune_or_another_home_of_the_cell_did_is_no_change() {
    let lab = lab_of_directories();
    // A prune that was killed had removed the last segment, and noted its number.
    lab.sh("rm m/00000003.segment; >m/00000003.gone");
    copy_home(&lab);
    lab.backed_up(["tree", "--to", "m", "--name", "t", "--full"]);
    run_of(&lab, "other", &["backup", "tree", "--to", "m", "--name", "t", "--full"]).ok();
    lab.backed_up(["tree", "--to", "m", "--name", "t", "--full"]);
    assert!(lab.path("m/00000006.segment").exists());
    run_of(&lab, "other", &["backup", "tree", "--to", "m", "--name", "t"]).ok();
}

/// The disk that was written is lost, and an older clone of it is left: what the refusal names is enough, taken by its word.
#[test]
fn a_clone_whose_first_is_lost_takes_its_place_by_what_the_refusal_says() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 40_000));
    lab.backed_up(["tree", "--to", "m", "--name", "t"]);
    lab.sh("cp -a tree kept; cp -a m clone");
    lab.file("tree/b", noise(2, 40_000));
    lab.backed_up(["tree", "--to", "m", "--name", "t"]);
    lab.sh("rm -r m tree; cp -a kept tree");
    let run = lab.run(["import", "clone"]);
    run.refused(&["was last written in", "--as-new", "media forget"]);
    let commands: Vec<&str> = run.stderr.split('`').skip(1).step_by(2).collect();
    assert_eq!(commands.len(), 2, "{}", run.stderr);
    for command in commands {
        let words: Vec<&str> = command.strip_prefix("capstan ").unwrap().split(' ').collect();
        lab.run(&words).ok();
    }
    lab.run(["status"]).ok();
    let report = lab.backed_up(["tree", "--to", "clone", "--name", "t"]);
    assert_eq!(report["method"], "incr", "it builds on what the clone has: {report:#}");
    comes_back(&lab, "t", &lab.path("tree"));
    lab.run(["verify", "--medium", "clone"]).ok();
    lab.run(["prune", "t", "--keep-last", "1"]).ok();
    lab.run(["idb", "check"]).ok();
}

#[test]
fn two_directories_with_one_identity_are_not_both_written() {
    let lab = lab_of_directories();
    lab.sh("mv m a; mv n elsewhere");
    // One that was moved is written where it is now, and its address follows.
    lab.backed_up(["tree", "--to", "a", "--name", "t", "--full"]);
    let at = |label: &str| lab.run(["media", "show", label, "--json"]).ok().stdout.clone();
    assert!(at("m").contains(lab.path("a").to_str().unwrap()), "{}", at("m"));
    lab.sh("ln -s a link");
    lab.backed_up(["tree", "--to", "link", "--name", "t", "--full"]);
    lab.sh("cp -a a b");
    // Either will do as long as they are alike, but not both.
    let (a, b) = (lab.path("a"), lab.path("b"));
    let both = [a.to_str().unwrap(), b.to_str().unwrap(), "in two places", "--as-new"];
    lab.run(["backup", "tree", "--to", "b", "--name", "t"]).refused(&both);
    lab.run(["backup", "tree", "--to", "a", "--mirror", "b", "--name", "t"]).refused(&both);
    lab.file("tree/b", noise(2, 10_000));
    lab.backed_up(["tree", "--to", "a", "--name", "t", "--full"]);
    lab.run(["backup", "tree", "--to", "b", "--name", "t"]).refused(&both);
    lab.sh("mv a away");
    let lacks = ["last written in", a.to_str().unwrap(), "segment 6", "is missing", "--as-new"];
    lab.run(["backup", "tree", "--to", "b", "--name", "t"]).refused(&lacks);
    lab.run(["import", "b"]).refused(&lacks);
    lab.sh("mv away a");
    assert_eq!(state(&lab, "m"), "appendable", "what was written is as it was");
    lab.run(["media", "adopt", "a", "--as-new"]).refused(&["as it was last written"]);
    lab.run(["media", "adopt", "b", "--as-new"]).ok();
    assert_eq!(state(&lab, "b"), "appendable");
    lab.file("tree/c", noise(3, 10_000));
    for to in ["b", "a", "b"] {
        lab.backed_up(["tree", "--to", to, "--name", "t"]);
        comes_back(&lab, "t", &lab.path("tree"));
    }
    for medium in ["a", "b"] {
        // By its place: a letter may begin the id of another one.
        lab.run(["verify", "--medium", lab.path(medium).to_str().unwrap()]).ok();
    }
    // What both have comes back from either.
    lab.sh("mv a away");
    let sessions = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
    let of = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let mut sessions: Vec<Value> = sessions.lines().map(of).collect();
    sessions.retain(|s| s["kind"] == "backup");
    sessions.sort_by_key(|s| s["start"].as_str().map(str::to_owned));
    let first = format!("t@{}", sessions[0]["id"].as_str().unwrap());
    lab.restored([first.as_str(), "--into", lab.path("out").to_str().unwrap()]);
    lab.run(["idb", "check"]).ok();
}

/// Two homes of a cell wrote one copy each: neither takes the other's segment for its own.
#[test]
fn segments_of_one_number_and_two_identities_are_named() {
    let lab = lab_of_directories();
    lab.sh("cp -a m b; mv m a");
    copy_home(&lab);
    lab.backed_up(["tree", "--to", "a", "--name", "t", "--full"]);
    lab.sh("mv a away");
    run_of(&lab, "other", &["backup", "tree", "--to", "b", "--name", "t", "--full"]).ok();
    let says = ["segment 4", "is another one there", "--as-new"];
    lab.run(["backup", "tree", "--to", "b", "--name", "t"]).refused(&says);
    lab.run(["import", "b"]).refused(&says);
    lab.run(["media", "adopt", "b", "--as-new"]).ok();
    lab.sh("mv away a");
    for to in ["a", "b"] {
        lab.backed_up(["tree", "--to", to, "--name", "t"]);
        lab.run(["verify", "--medium", to]).ok();
    }
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn a_session_without_data_that_is_lost_is_no_base() {
    let lab = Lab::new();
    lab.file("s/a", noise(1, 5_000));
    let backup = || lab.backed_up(["s", "--to", "d", "--name", "z"]);
    backup();
    lab.file("s/b", noise(2, 5_000));
    backup();
    let unchanged = backup();
    assert_eq!(unchanged["bytes_read"], 0, "{unchanged:#}");
    lab.sh("rm d/00000003.segment");
    lab.run(["backup", "s", "--to", "d", "--name", "z"]).refused(&["--as-new"]);
    lab.run(["media", "adopt", "d", "--as-new"]).ok();
    lab.file("s/c", noise(3, 5_000));
    let next = backup();
    // Another test may have changed the directory that all have theirs in: then the one before has data, and the first two are built on.
    assert_ne!(next["base_session"], unchanged["session"], "it is on no medium: {next:#}");
    lab.restored(["z", "--into", "out"]);
}

/// What lacks on an older state of a disk is no damage: the disk that was written comes back, and all is as before.
#[test]
fn what_was_missed_on_an_old_copy_of_a_disk_is_there_again_with_the_disk() {
    for look in
        [&["verify", "z"][..], &["media", "repair", "d"], &["restore", "z", "--into", "old-out"]]
    {
        let lab = Lab::new();
        let backup = || lab.backed_up(["s", "--to", "d", "--name", "z"]);
        lab.file("s/f1", noise(1, 5_000));
        backup();
        lab.sh("cp -a d old");
        for n in 2..5 {
            lab.file(&format!("s/f{n}"), noise(n, 5_000));
            backup();
        }
        lab.sh("mv d new; cp -a old d");
        let run = lab.run(look);
        assert!(
            run.code != 0 && run.stderr.contains("not as it was last written"),
            "{}",
            run.stderr
        );
        assert_eq!(lab.run(["status", "z"]).code, 6);
        lab.sh("rm -r d; mv new d");
        lab.run(["status", "z"]).ok();
        let versions = lab.run(["versions", "z"]).ok().stdout.clone();
        assert!(!versions.contains("damaged"), "after {look:?}: {versions}");
        lab.file("s/f5", noise(5, 5_000));
        assert_eq!(backup()["method"], "incr", "after {look:?}");
        lab.run(["prune", "z", "--keep-last", "9"]).ok();
        lab.restored(["z", "--into", "out"]);
        let out = below(&lab.path("out"), &lab.path("s"));
        same_by_rsync(&lab.path("s"), &out);
    }
}

/// Damage of what is on a disk that was put back to an older state is damage.
#[test]
fn what_is_damaged_on_an_old_copy_of_a_disk_is_damage() {
    let lab = Lab::new();
    lab.file("s/f1", noise(1, 400_000));
    lab.backed_up(["s", "--to", "d", "--name", "z"]);
    lab.sh("cp -a d old");
    lab.file("s/f2", noise(2, 5_000));
    lab.backed_up(["s", "--to", "d", "--name", "z"]);
    lab.sh("rm -r d; mv old d");
    let segment = lab.path("d/00000001.segment");
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    assert_ne!(lab.run(["verify", "z"]).code, 0);
    assert!(lab.run(["versions", "z"]).ok().stdout.contains("damaged"));
}
