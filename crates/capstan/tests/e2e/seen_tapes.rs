//! What was found on a tape is remembered until the library shows that it moved: no search loads it again.

use std::path::Path;

use capstan_medium::tape::{Place, TapeLibrary};
use capstan_tape::Changer;
use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::support::{Lab, Run, finish, noise};
use crate::tape_software::tgt::{CHANGER, Library as Tgt};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

/// How often each tape of a virtual library was loaded, by its number.
fn loads(dir: &Path, count: u32) -> Vec<u64> {
    let of = |n: u32| {
        let text = std::fs::read_to_string(dir.join(format!("tapes/V{n:05}L9.json"))).unwrap();
        let label: Value = serde_json::from_str(&text).unwrap();
        label["loads"].as_u64().unwrap()
    };
    (1..=count).map(of).collect()
}

/// Another program writes to the tape in a slot.
fn written_by_others(dir: &Path, slot: u32, block: &[u8]) {
    let mut robot = Library::open(dir).unwrap();
    robot.move_tape(Place::Slot(slot), Place::Drive(1)).unwrap();
    let mut drive = robot.open_drive(1).unwrap();
    drive.write_block(block).unwrap();
    drive.write_filemark().unwrap();
    drop(drive);
    robot.move_tape(Place::Drive(1), Place::Slot(slot)).unwrap();
}

/// What an inventory says of each tape of which no medium is known.
fn seen(lab: &Lab, library: &str) -> Vec<(String, String)> {
    let listed = run(lab, &format!("library inventory {library} --json"));
    let listed: Value = serde_json::from_str(&listed.ok().stdout).unwrap();
    let tapes = listed["tapes"].as_array().unwrap().iter();
    let unknown = tapes.filter(|tape| tape["known"].is_null());
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    unknown
        .map(|tape| {
            let (is, detail) = (&tape["seen"]["is"], &tape["seen"]["detail"]);
            let words = format!("{} {}", text(is), text(detail));
            (text(&tape["barcode"]), words.trim_end().to_owned())
        })
        .collect()
}

/// A backup that needs a tape on which nothing is; returns which it got. Its tape goes into a pool, so that the next one needs another.
fn takes_a_blank_one(lab: &Lab) -> String {
    let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--full"]);
    let tape = done["media"][0].as_str().unwrap().to_owned();
    run(lab, &format!("media move {tape} --pool used")).ok();
    tape
}

fn put_all_away(lab: &Lab) {
    run(lab, "library unload vtape:vtl 1").ok();
}

#[test]
fn tapes_that_were_looked_at_are_not_loaded_again_until_they_move() {
    let lab = Lab::new();
    let dir = crate::tape::library(&lab, 1, 10);
    run(&lab, "pool create used").ok();
    lab.file("tree/file", noise(1, 100_000));
    let mut tar = vec![0; 10_240];
    tar[257..262].copy_from_slice(b"ustar");
    written_by_others(&dir, 1, &tar);
    written_by_others(&dir, 2, b"VOL1NIGHT1");
    // The third is another cell's, the tab of the fourth is set, the fifth cannot be read.
    let mut other = lab.command();
    other.env("CAPSTAN_HOME", lab.path("other"));
    finish(other.args(["backup", "tree", "--to", "vtape:vtl?tape=V00003L9"])).ok();
    put_all_away(&lab);
    let label = dir.join("tapes/V00004L9.json");
    let text = std::fs::read_to_string(&label).unwrap();
    let set = text.replace("\"write_protected\": false", "\"write_protected\": true");
    std::fs::write(label, set).unwrap();
    written_by_others(&dir, 5, b"x");
    let before = loads(&dir, 5);

    assert_eq!(takes_a_blank_one(&lab), "V00006L9");
    let after = loads(&dir, 5);
    let more: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    assert_eq!(more, [1; 5]);
    put_all_away(&lab);
    assert_eq!(takes_a_blank_one(&lab), "V00007L9");
    assert_eq!(loads(&dir, 5), after, "they were looked at a moment ago");
    let tape = |n: u32| format!("V{n:05}L9");
    let found = [
        (tape(1), "foreign tar".to_owned()),
        (tape(2), "foreign label VOL1 NIGHT1".to_owned()),
        (tape(3), "other-cell 'V00003L9'".to_owned()),
        (tape(4), "write-protected".to_owned()),
        (tape(5), "foreign".to_owned()),
    ];
    let listed = seen(&lab, "vtape:vtl");
    assert_eq!(listed[..5], found);
    let text = run(&lab, "library inventory vtape:vtl").ok().stdout.clone();
    assert!(text.contains("foreign (tar), seen 20"), "{text}");
    // Who names one is told at once, and reads it anew.
    run(&lab, "backup tree --to vtape:vtl?tape=V00001L9").refused(&["not a Capstan medium"]);
    put_all_away(&lab);
    let after = loads(&dir, 5);

    // One is taken to another slot, by whomever; one was away between two looks; of the others nothing is known to be new.
    run(&lab, "library move vtape:vtl slot:1 slot:11").ok();
    run(&lab, "library move vtape:vtl slot:2 mail:1").ok();
    run(&lab, "library inventory vtape:vtl").ok();
    run(&lab, "library move vtape:vtl mail:1 slot:2").ok();
    assert_eq!(takes_a_blank_one(&lab), "V00008L9");
    let moved = loads(&dir, 5);
    let more: Vec<u64> = moved.iter().zip(&after).map(|(after, before)| after - before).collect();
    assert_eq!(more, [0, 1, 0, 0, 0], "the first lies behind the blank ones now");

    // Who has the library look into its slots anew wants the tapes looked at anew as well.
    put_all_away(&lab);
    run(&lab, "library inventory vtape:vtl --rescan").ok();
    assert!(seen(&lab, "vtape:vtl").iter().all(|(_, is)| is == "- -"));
    takes_a_blank_one(&lab);
    let anew = loads(&dir, 5);
    assert_eq!(anew[1..], moved[1..].iter().map(|n| n + 1).collect::<Vec<_>>());
}

/// A library without a tape to write says the same the second time, of all tapes, and no tape has moved.
#[test]
fn a_search_in_vain_loads_no_tape_the_second_time() {
    let lab = Lab::new();
    let dir = crate::tape::library(&lab, 2, 3);
    lab.file("tree/file", "contents");
    for slot in 1..=3 {
        written_by_others(&dir, slot, b"somebody else's");
    }
    let search = || {
        let refused = run(&lab, "backup tree --to vtape:vtl --name t");
        refused.refused(&["no tape of vtape:", "V00002L9 is not blank and not of Capstan"]);
        (loads(&dir, 3), std::fs::read_to_string(dir.join("inventory.json")).unwrap())
    };
    let first = search();
    assert_eq!(search(), first);
    // Mirrors and arrays of tapes look for them in the same way.
    run(&lab, "backup tree --to rait1:vtape:vtl,vtape:vtl --name a").refused(&["seen 20"]);
    assert_eq!(loads(&dir, 3), first.0);
    // Made blank, it is taken, and it is known that it is.
    run(&lab, "media erase vtape:vtl?tape=V00002L9 --foreign").ok();
    assert!(seen(&lab, "vtape:vtl").contains(&("V00002L9".to_owned(), "blank".to_owned())));
    let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    assert_eq!(done["media"][0], "V00002L9");
    assert_eq!([loads(&dir, 3)[0], loads(&dir, 3)[2]], [first.0[0], first.0[2]]);
}

/// A tape that the drive cannot read does not end the search, and is left alone from then on.
#[test]
fn a_tape_that_cannot_be_read_is_passed_over_and_remembered() {
    let lab = Lab::new();
    let dir = crate::tape::library(&lab, 1, 3);
    run(&lab, "pool create used").ok();
    lab.file("tree/file", "contents");
    written_by_others(&dir, 1, b"somebody else's");
    // Each strikes once: the first tape is read four times, and each block is tried four times.
    let plan: Vec<String> = (1..=16).map(|n| format!("read:{n}=error")).collect();
    run(&lab, &format!("vtl fault vtl --drive 1 {}", plan.join(","))).ok();
    assert_eq!(takes_a_blank_one(&lab), "V00002L9");
    assert_eq!(seen(&lab, "vtape:vtl")[0].1.split(' ').next(), Some("unreadable"));
    let before = loads(&dir, 1);
    put_all_away(&lab);
    assert_eq!(takes_a_blank_one(&lab), "V00003L9");
    assert_eq!(loads(&dir, 1), before);
}

/// An import looks at every tape of a library, and remembers what it found.
#[test]
fn what_an_import_found_is_remembered() {
    let lab = Lab::new();
    let dir = crate::tape::library(&lab, 1, 4);
    lab.file("tree/file", "contents");
    written_by_others(&dir, 1, b"somebody else's");
    written_by_others(&dir, 2, b"070701");
    run(&lab, "import vtape:vtl");
    let before = loads(&dir, 4);
    let mut found = seen(&lab, "vtape:vtl");
    found.sort();
    let is: Vec<&str> = found.iter().map(|(_, is)| is.as_str()).collect();
    assert_eq!(is, ["foreign", "foreign cpio", "blank", "blank"]);
    put_all_away(&lab);
    let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    assert_eq!(done["media"][0], "V00003L9");
    assert_eq!(loads(&dir, 2), before[..2]);
}

/// In a library that is not ours the same holds: after the second search only the tape that was taken is in a drive.
#[test]
fn tapes_of_a_library_that_is_not_ours_are_remembered() {
    let lab = Lab::new();
    let Some(tgt) = Tgt::start(24, None) else { return };
    lab.file("tree/file", "contents");
    let library = tgt.url(CHANGER);
    let mut other = lab.command();
    other.env("CAPSTAN_HOME", lab.path("other"));
    finish(other.args(["backup", "tree", "--to", &format!("{library}?tape=TAPE01L6")])).ok();
    run(&lab, "pool create used").ok();
    let search = || {
        let in_drives = || {
            let status = run(&lab, &format!("library status {library} --json"));
            let status: Value = serde_json::from_str(&status.ok().stdout).unwrap();
            let drives = status["drives"].as_array().unwrap().clone();
            let named = drives
                .iter()
                .filter_map(|d| Some((d["drive"].clone(), d["tape"].as_str()?.to_owned())));
            named.collect::<Vec<_>>()
        };
        for (drive, _) in in_drives() {
            run(&lab, &format!("library unload {library} {drive}")).ok();
        }
        let done = lab.backed_up(["tree", "--to", &library, "--name", "t", "--full"]);
        let tape = done["media"][0].as_str().unwrap();
        run(&lab, &format!("media move {tape} --pool used")).ok();
        let mut tapes: Vec<String> = in_drives().into_iter().map(|(_, tape)| tape).collect();
        tapes.sort();
        tapes
    };
    assert_eq!(search(), ["TAPE01L6", "TAPE02L6"]);
    assert_eq!(
        seen(&lab, &library)[0],
        ("TAPE01L6".to_owned(), "other-cell 'TAPE01L6'".to_owned())
    );
    assert_eq!(search(), ["TAPE03L6"]);
}
