//! Backups to the tapes of a virtual library: spanning, appending, restoring, importing.

use std::path::{Path, PathBuf};

use capstan_medium::tape::{Place, TapeLibrary};
use capstan_tape::TapeDrive;
use capstan_tape::vtl::library::{Design, Library};
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::independent_reader::Reader;
use crate::support::{Lab, below, finish, noise, report};

/// A library whose tapes hold 40 MB, a hundred thousand times as fast as the world.
pub fn library(lab: &Lab, drives: u32, tapes: u32) -> PathBuf {
    let dir = lab.path("vtl");
    Library::create(&dir, &library_of(drives, tapes), tapes).unwrap();
    dir
}

pub fn library_of(drives: u32, tapes: u32) -> Design {
    Design {
        model: "lto-9".into(),
        drives,
        slots: tapes + 2,
        mail_slots: 1,
        alone: false,
        capacity: Some(40_000_000),
        scale: 1e5,
        ratio: 1.0,
    }
}

/// A tree of so many megabytes that cannot be compressed, and of oddities.
pub fn tree(lab: &Lab, megabytes: u64) {
    crate::mirror::tree(lab);
    for n in 0..megabytes / 10 {
        lab.file(&format!("tree/big-{n}"), noise(n + 1, 10_000_000));
    }
}

pub fn media(lab: &Lab) -> Vec<(String, String)> {
    let list = lab.run(["media", "list", "--json"]);
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let one = |medium: &Value| (text(&medium["label"]), text(&medium["state"]));
    let mut all: Vec<_> = list.ok().rows().iter().map(one).collect();
    all.sort();
    all
}

pub fn comes_back(lab: &Lab, name: &str, state: &Path) {
    let into = lab.path("restored");
    lab.restored([name, "--into", into.to_str().unwrap()]);
    same_by_rsync(state, &below(&into, &lab.path("tree")));
    std::fs::remove_dir_all(into).unwrap();
}

/// Two libraries have tapes of the same barcodes: their media have labels of their own all the same.
#[test]
fn no_two_media_have_one_label() {
    let lab = Lab::new();
    library(&lab, 1, 2);
    Library::create(&lab.path("other"), &library_of(1, 2), 2).unwrap();
    lab.file("tree/a", noise(1, 1_000_000));
    lab.run(["media", "init", "shelf", "--label", "V00002L9"]).ok();
    for (to, label) in [
        ("vtape:vtl", "V00001L9"),
        ("vtape:other", "V00001L9-2"),
        ("vtape:other?tape=V00002L9", "V00002L9-2"),
        ("vtape:other?tape=V00002L9", "V00002L9-2"),
    ] {
        let done = lab.backed_up(["tree", "--to", to, "--name", "t", "--full"]);
        assert_eq!(done["media"][0], label, "{to}: {done}");
    }
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn a_backup_spans_tapes_and_comes_back() {
    let lab = Lab::new();
    library(&lab, 1, 8);
    tree(&lab, 60);
    let full = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    let labels = full["media"].as_array().unwrap();
    assert!(labels.len() >= 3, "{full}");
    assert_eq!(full["drives"].as_array().unwrap().len(), labels.len(), "{full}");
    comes_back(&lab, "t", &lab.path("tree"));
    lab.sh("cp -a tree first");
    lab.sh("cd tree; rm big-1; echo new >new; touch big-2");
    let second = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--incr"]);
    assert_eq!(second["media"][0], *labels.last().unwrap(), "it is appended to");
    comes_back(&lab, "t", &lab.path("tree"));
    let first = format!("t@{}", full["session"].as_str().unwrap());
    comes_back(&lab, &first, &lab.path("first"));
    let states: Vec<_> = media(&lab).into_iter().map(|m| m.1).collect();
    assert!(states.starts_with(&["full".into(), "full".into()]), "{states:?}");
    assert_eq!(states.last().unwrap(), "appendable");
}

/// A file that spans tapes is on the pick list of each with what lies there.
#[test]
fn a_pick_list_counts_of_a_file_what_lies_on_each_tape() {
    for streams in ["1", "3"] {
        let lab = Lab::new();
        library(&lab, 1, 8);
        (0..6).for_each(|n| drop(lab.file(&format!("tree/{n}"), noise(n + 1, 20_000_000))));
        let backup = ["tree", "--to", "vtape:vtl", "--name", "t", "--streams", streams];
        assert!(lab.backed_up(backup)["media"].as_array().unwrap().len() > 3);
        let foreseen = lab.restore(["t", "--into", "into", "--dry-run"]);
        let pick = foreseen["pick"].as_array().unwrap();
        let of = |n: &Value| n["bytes"].as_u64().unwrap();
        assert!(pick.iter().all(|medium| of(medium) <= 40_000_000), "{pick:#?}");
        assert_eq!(pick.iter().map(of).sum::<u64>(), 120_000_000, "{pick:#?}");
    }
}

/// The files of a library's tapes, by name, with their contents.
fn contents_of(dir: &Path, barcode: &str) -> Vec<u8> {
    std::fs::read(dir.join("tapes").join(format!("{barcode}.tape"))).unwrap()
}

#[test]
fn foreign_and_protected_tapes_are_left_alone() {
    let lab = Lab::new();
    let dir = library(&lab, 1, 3);
    let mut robot = Library::open(&dir).unwrap();
    for (slot, filemarks) in [(1, 1), (2, 9)] {
        robot.move_tape(Place::Slot(slot), Place::Drive(1)).unwrap();
        let mut drive = robot.drive(1).unwrap();
        for _ in 0..filemarks {
            drive.write_block(b"somebody else's backup").unwrap();
            drive.write_filemark().unwrap();
        }
        drop(drive);
        robot.move_tape(Place::Drive(1), Place::Slot(slot)).unwrap();
    }
    let before = ["V00001L9", "V00002L9"].map(|tape| contents_of(&dir, tape));
    lab.file("tree/file", "contents");
    let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    assert_eq!(done["media"][0], "V00003L9");
    let named = lab.run(["backup", "tree", "--to", "vtape:vtl?tape=V00001L9"]);
    named.refused(&["not a Capstan medium", "--foreign"]);
    assert_eq!(["V00001L9", "V00002L9"].map(|tape| contents_of(&dir, tape)), before);
    // One whose tab is set is only read.
    let label = dir.join("tapes/V00003L9.json");
    let text = std::fs::read_to_string(&label).unwrap();
    let set = text.replace("\"write_protected\": false", "\"write_protected\": true");
    assert_ne!(text, set);
    std::fs::write(label, set).unwrap();
    comes_back(&lab, "t", &lab.path("tree"));
    let refused = lab.run(["backup", "tree", "--to", "vtape:vtl", "--name", "t"]);
    assert_ne!(refused.code, 0);
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(said.contains("write-protected"), "{said}");
    comes_back(&lab, "t", &lab.path("tree"));
    // Who says so gets one that is blank; nothing that is known goes that way.
    lab.run(["media", "erase", "vtape:vtl?tape=V00001L9"]).refused(&["no medium is called"]);
    let erase = |tape: &str| lab.run(["media", "erase", tape, "--foreign"]);
    assert!(erase("vtape:vtl?tape=V00001L9").ok().stdout.contains("no medium of Capstan"));
    assert!(erase("vtape:vtl?tape=V00001L9").ok().stdout.contains("nothing was on it"));
    lab.backed_up(["tree", "--to", "vtape:vtl?tape=V00001L9", "--name", "u"]);
    for known in ["vtape:vtl?tape=V00003L9", "vtape:vtl?tape=V00001L9"] {
        erase(known).refused(&["the database knows"]);
    }
    erase("V00003L9").refused(&["is no tape"]);
    erase("vtape:vtl").refused(&["tape=BARCODE"]);
    // Another cell's is erased, but for what is locked.
    erase("vtape:vtl?tape=V00002L9").ok();
    let locked = ["tree", "--to", "vtape:vtl?tape=V00002L9", "--name", "v", "--lock-until", "9d"];
    lab.backed_up(locked);
    let from_elsewhere = |tape: &str| {
        let mut command = lab.command();
        command.env("CAPSTAN_HOME", lab.path("away"));
        finish(command.args(["media", "erase", tape, "--foreign"]))
    };
    from_elsewhere("vtape:vtl?tape=V00002L9").refused(&["locked until"]);
    let erased = from_elsewhere("vtape:vtl?tape=V00001L9");
    assert!(erased.ok().stdout.contains("medium 'V00001L9' was on it"), "{}", erased.stdout);
    comes_back(&lab, "v", &lab.path("tree"));
}

#[test]
fn a_whole_library_is_imported_when_the_database_is_lost() {
    let lab = Lab::new();
    library(&lab, 2, 7);
    tree(&lab, 40);
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    lab.sh("cd tree; rm big-1; echo new >new");
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--incr"]);
    std::fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
    let found = lab.run(["import", "vtape:vtl"]);
    assert!(found.ok().stdout.contains("V00007L9"), "a blank one is named: {}", found.stdout);
    comes_back(&lab, "t", &lab.path("tree"));
}

/// Restores one small file at the end of a tape while the drive would fail at more operations than that takes.
fn small_file_in_few_operations(lab: &Lab, dir: &Path) -> i32 {
    let into = lab.path("small");
    // One look at the header, one locate, and the blocks with the file.
    let more = |operation, from| (from..from + 9).map(move |n| format!("{operation}:{n}=error"));
    let plan: Vec<_> = more("space", 1).chain(more("locate", 2)).chain(more("read", 4)).collect();
    Library::open(dir).unwrap().plan_faults(Some(1), &plan.join(",")).unwrap();
    let file = lab.path("tree/z/small");
    let args = ["restore", "t", file.to_str().unwrap(), "--into", into.to_str().unwrap()];
    let code = lab.run(args).code;
    Library::open(dir).unwrap().plan_faults(Some(1), "").unwrap();
    if code == 0 {
        same_by_rsync(&lab.path("tree/z"), &below(&into, &lab.path("tree/z")));
    }
    let _ = std::fs::remove_dir_all(into);
    code
}

#[test]
fn one_file_is_located_by_the_number_that_was_recorded() {
    let lab = Lab::new();
    let dir = library(&lab, 1, 1);
    lab.file("tree/a/large", noise(1, 20_000_000));
    lab.file("tree/z/small", noise(9, 10_000));
    let small = ["--streams", "1", "--segment-size", "1M", "--block-size", "64K"];
    lab.backed_up([&["tree", "--to", "vtape:vtl", "--name", "t"], &small[..]].concat());
    let filemarks = Library::open(&dir).unwrap().drive(1).unwrap().tape().unwrap().filemarks();
    assert!(filemarks > 30, "{filemarks}: too few segments to tell");
    assert_eq!(small_file_in_few_operations(&lab, &dir), 0);
    // A wrong number, or none, as in rows of older versions: it is found by filemarks, which is what was to be shown.
    for wrong in ["object - 1", "object + 100000", "NULL"] {
        lab.edit_tables(&format!("UPDATE segment_places SET object = {wrong}"));
        assert_ne!(small_file_in_few_operations(&lab, &dir), 0, "{wrong}");
        comes_back(&lab, "t", &lab.path("tree"));
    }
    // An import asks the drive.
    lab.run(["import", "vtape:vtl"]).ok();
    assert_eq!(small_file_in_few_operations(&lab, &dir), 0);
    std::fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
    lab.run(["import", "vtape:vtl"]).ok();
    assert_eq!(small_file_in_few_operations(&lab, &dir), 0);
}

#[test]
fn copies_and_mirrors_on_tape_are_located_too() {
    for options in [&["--mirror", "vtape:vtl"][..], &[]] {
        let lab = Lab::new();
        let dir = library(&lab, 1, 1);
        lab.file("tree/a", noise(1, 10_000_000));
        lab.file("tree/z/small", noise(9, 10_000));
        let args = ["tree", "--to", "disk", "--name", "t", "--streams", "1"];
        lab.backed_up([&args[..], options].concat());
        if options.is_empty() {
            lab.run(["copy", "t", "--to", "vtape:vtl"]).ok();
        }
        lab.sh("mv disk away");
        assert_eq!(small_file_in_few_operations(&lab, &dir), 0, "{options:?}");
        lab.edit_tables("UPDATE segment_places SET object = NULL");
        assert_ne!(small_file_in_few_operations(&lab, &dir), 0, "{options:?}");
    }
}

#[test]
fn copies_go_from_disk_to_tape_and_back() {
    let lab = Lab::new();
    library(&lab, 2, 6);
    tree(&lab, 20);
    lab.backed_up(["tree", "--to", "disk", "--name", "t", "--segment-size", "4M"]);
    lab.run(["copy", "t", "--to", "vtape:vtl"]).ok();
    lab.sh("mv disk away");
    comes_back(&lab, "t", &lab.path("tree"));
    lab.run(["copy", "t", "--to", "disk-2"]).ok();
    lab.sh("mv vtl gone");
    comes_back(&lab, "t", &lab.path("tree"));
    lab.sh("mv gone vtl");
    for (label, _) in media(&lab).iter().filter(|m| m.0.starts_with('V')) {
        lab.run(["verify", "--medium", label]).ok();
    }
}

#[test]
fn a_tape_is_a_mirror_of_a_directory_and_is_recycled() {
    let lab = Lab::new();
    library(&lab, 1, 5);
    tree(&lab, 0);
    let args = ["tree", "--to", "disk", "--mirror", "vtape:vtl", "--name", "t"];
    lab.backed_up([&args[..], &["--protect", "none"]].concat());
    lab.sh("mv disk away");
    comes_back(&lab, "t", &lab.path("tree"));
    lab.sh("mv away disk");
    lab.run(["media", "recycle", "V00001L9"]).ok();
    let free = media(&lab).into_iter().find(|m| m.0 == "V00001L9").unwrap();
    assert_eq!(free.1, "free");
    comes_back(&lab, "t", &lab.path("tree"));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "again"]);
    comes_back(&lab, "again", &lab.path("tree"));
}

#[test]
fn an_erased_tape_has_nothing_of_what_was_on_it() {
    for secure in [&[][..], &["--secure"]] {
        let lab = Lab::new();
        let dir = library(&lab, 1, 3);
        lab.file("tree/file", noise(1, 3_000_000));
        let args = ["tree", "--to", "vtape:vtl", "--name", "t", "--compress", "off"];
        lab.backed_up(args);
        let erase = || lab.run([&["media", "erase", "V00001L9", "--give-up"], secure].concat());
        erase().refused(&["must stay"]);
        comes_back(&lab, "t", &lab.path("tree"));
        lab.run(["media", "protect", "V00001L9", "--none"]).ok();
        // The tape's file, by a name that the library does not know.
        lab.sh("ln vtl/tapes/V00001L9.tape kept");
        let piece = &noise(1, 3_000_000)[1_000_000..1_000_200];
        let has = |bytes: &[u8]| bytes.windows(piece.len()).any(|w| w == piece);
        assert!(has(&contents_of(&dir, "V00001L9")));
        let done = erase();
        assert!(done.ok().stdout.contains("is blank"), "{}", done.stdout);
        assert!(!has(&std::fs::read(lab.path("kept")).unwrap()));
        assert_eq!(contents_of(&dir, "V00001L9").len(), 16, "a blank tape");
        assert!(media(&lab).is_empty());
        lab.run(["restore", "t", "--into", "out"]).refused(&["t"]);
        // It is taken as any blank one.
        let again = lab.backed_up(args);
        assert_eq!(again["media"][0], "V00001L9");
        comes_back(&lab, "t", &lab.path("tree"));
        lab.run(["idb", "check"]).ok();
    }
}

/// A copy that is given up takes nothing of its original with it, nor an original of its copy.
#[test]
fn a_tape_with_no_more_than_the_end_of_a_session_is_kept() {
    let lab = Lab::new();
    let design = Design { capacity: Some(100_000_000), ..library_of(1, 2) };
    Library::create(&lab.path("vtl"), &design, 2).unwrap();
    tree(&lab, 10);
    let on = |tape: &str, level: &str| {
        let device = format!("vtape:vtl?tape={tape}");
        lab.backed_up(["tree", "--to", &device, "--name", "t", level])
    };
    on("V00001L9", "--full");
    // Nothing has changed, so nothing of it is data.
    on("V00002L9", "--incr");
    let states = ["V00001L9", "V00002L9"].map(|tape| (tape.to_owned(), "appendable".to_owned()));
    assert_eq!(media(&lab), states);
    lab.run(["media", "recycle", "V00002L9"]).refused(&["V00002L9"]);
    lab.lose_tables();
    lab.run(["import", "vtape:vtl"]).ok();
    let sessions = lab.run(["sessions", "--kind", "all", "--json"]);
    let completed = sessions.ok().stdout.matches("\"completed\"").count();
    assert!(completed >= 2, "{}", sessions.stdout);
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn what_lies_elsewhere_too_outlives_a_tape() {
    for give_up in ["recycle", "erase"] {
        let lab = Lab::new();
        library(&lab, 1, 3);
        lab.file("tree/file", noise(1, 300_000));
        lab.backed_up(["tree", "--to", "disk", "--name", "t", "--protect", "none"]);
        for _ in 0..2 {
            lab.run(["copy", "t", "--to", "vtape:vtl?tape=V00001L9"]).ok();
            lab.run(["media", give_up, "V00001L9"]).ok();
            comes_back(&lab, "t", &lab.path("tree"));
            lab.run(["idb", "check"]).ok();
        }
        lab.run(["copy", "t", "--to", "vtape:vtl?tape=V00001L9"]).ok();
        lab.run(["media", give_up, "disk"]).ok();
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

#[test]
fn a_reader_made_from_the_documents_alone_reads_a_tape() {
    let Some(reader) = Reader::find() else { return };
    let lab = Lab::with_passphrase(Some("secret"));
    library(&lab, 1, 1);
    lab.file("tree/big", noise(1, 9_000_000));
    lab.sh("cp -a /etc/alternatives tree/");
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    let tape = "vtl/tapes/V00001L9.tape";
    reader.run(&lab, Some("secret"), &["check", tape]).ok();
    reader.run(&lab, Some("secret"), &["extract", tape, "--into", "restored"]).ok();
    same_by_rsync(&lab.path("tree"), &below(&lab.path("restored"), &lab.path("tree")));
}

#[test]
fn drives_compress_unless_the_session_encrypts() {
    for (passphrase, options, drives) in [
        (None, &[][..], true),
        (None, &["--compress", "zstd"][..], false),
        (Some("secret"), &[][..], false),
    ] {
        let lab = Lab::with_passphrase(passphrase);
        let design = Design { ratio: 2.0, capacity: Some(400_000_000), ..library_of(1, 2) };
        Library::create(&lab.path("vtl"), &design, 2).unwrap();
        lab.file("tree/text", "the same again\n".repeat(1_000_000));
        let args = ["tree", "--to", "vtape:vtl", "--name", "t"];
        let done = lab.backed_up([&args[..], options].concat());
        let [read, written] = ["bytes_read", "bytes_written"].map(|k| done[k].as_f64().unwrap());
        // What lies on the tape counts, whoever made it smaller.
        let expected = if drives { 0.45..0.8 } else { 0.0..0.3 };
        assert!(expected.contains(&(written / read)), "{done}");
        let listed = lab.run(["sessions", "--json"]).ok().rows();
        assert_eq!(listed[0]["bytes_written"].as_f64(), Some(written), "{listed:?}");
        let ratio = done["drives"][0]["compression_ratio"].as_f64().unwrap();
        // The medium's header was written before it was settled.
        assert_eq!(ratio > 1.5, drives, "{done}");
        if drives {
            lab.run(["copy", "t", "--to", "disk"]).ok();
            let copy = report(lab.run(["copy", "t", "--to", "vtape:vtl", "--json"]));
            let copied = copy["bytes_written"].as_f64().unwrap();
            assert!((0.45..0.8).contains(&(copied / read)), "{copy}");
        }
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

#[test]
fn a_prune_leaves_tapes_as_they_are() {
    let lab = Lab::new();
    library(&lab, 1, 2);
    lab.file("tree/file", "one");
    let args = ["tree", "--to", "vtape:vtl", "--name", "t", "--full", "--protect", "none"];
    lab.backed_up(args);
    lab.file("tree/file", "two");
    lab.backed_up(args);
    lab.run(["library", "unload", "vtape:vtl", "1"]).ok();
    let loads = || lab.sh("cat vtl/tapes/*.json");
    let before = loads();
    assert!(before.contains("loads"), "{before}");
    let pruned = lab.run(["prune", "t", "--keep-last", "1"]);
    let said = format!("{}{}", pruned.ok().stdout, pruned.stderr);
    assert!(said.contains("given up as a whole"), "{said}");
    assert_eq!(loads(), before, "no tape is loaded to look at it");
    comes_back(&lab, "t", &lab.path("tree"));
}

/// The labels of the media that a session names in its report.
fn media_of(report: &Value) -> Vec<&str> {
    report["media"].as_array().unwrap().iter().filter_map(Value::as_str).collect()
}

#[test]
fn a_segment_that_no_tape_has_room_for_uses_up_none() {
    let lab = Lab::new();
    let design = Design { capacity: Some(20_000_000), ..library_of(1, 5) };
    Library::create(&lab.path("vtl"), &design, 5).unwrap();
    lab.file("tree/large", noise(1, 30_000_000));
    lab.backed_up(["tree", "--to", "disk", "--name", "t"]);
    for _ in 0..2 {
        let refused = lab.run(["copy", "t", "--to", "vtape:vtl"]);
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        assert!(refused.stderr.contains("larger than the tape"), "{}", refused.stderr);
    }
    assert!(media(&lab).iter().all(|(_, state)| state != "full"));
    lab.file("small/file", "contents");
    let done = lab.backed_up(["small", "--to", "vtape:vtl", "--name", "u"]);
    assert_eq!(media_of(&done), ["V00001L9"]);
}

#[test]
fn a_copy_to_a_library_goes_on_and_one_file_loads_its_tapes_only() {
    let lab = Lab::new();
    let design = Design { capacity: Some(40_000_000), ..library_of(1, 8) };
    Library::create(&lab.path("vtl"), &design, 8).unwrap();
    (0..60).for_each(|n| drop(lab.file(&format!("tree/f{n:02}"), noise(n, 1_500_000))));
    lab.backed_up(["tree", "--to", "disk", "--name", "t", "--segment-size", "4M"]);
    let copy = || report(lab.run(["copy", "t", "--to", "vtape:vtl", "--json"]));
    let first = copy();
    let on = media_of(&first).len();
    assert!(on >= 3, "{first:#}");
    assert_eq!(copy()["bytes_written"], 0, "all of it is there");
    std::fs::remove_dir_all(lab.path("disk")).unwrap();
    let path = lab.path("tree/f05").display().to_string();
    let one = lab.restore(["t", &path, "--into", "one"]);
    assert_eq!(one["status"], "completed", "{one:#}");
    assert!(media_of(&one).len() < on, "{one:#}");
    comes_back(&lab, "t", &lab.path("tree"));
}

/// An import has each tape in a drive, and keeps what it saw: no backup loads a full one again to learn it.
#[test]
fn an_import_keeps_which_tapes_are_full() {
    let lab = Lab::new();
    let dir = library(&lab, 1, 8);
    tree(&lab, 100);
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    let before = media(&lab);
    let full: Vec<&str> =
        before.iter().filter(|of| of.1 == "full").map(|of| of.0.as_str()).collect();
    assert!(full.len() >= 2 && before.len() > full.len(), "{before:?}");
    std::fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
    lab.run(["import", "vtape:vtl"]).ok();
    lab.run(["media", "adopt", "vtape:vtl"]).ok();
    assert_eq!(media(&lab), before);
    let listed = lab.run(["media", "list", "--json"]);
    assert!(listed.ok().rows().iter().all(|medium| medium["capacity_bytes"] == 40_000_000));
    let loads = || -> Vec<u64> {
        let of = |label: &&str| {
            let text = std::fs::read_to_string(dir.join(format!("tapes/{label}.json"))).unwrap();
            serde_json::from_str::<Value>(&text).unwrap()["loads"].as_u64().unwrap()
        };
        full.iter().map(of).collect()
    };
    let loaded = loads();
    lab.file("tree/new", noise(77, 1_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    assert_eq!(loads(), loaded);
    comes_back(&lab, "t", &lab.path("tree"));
}
