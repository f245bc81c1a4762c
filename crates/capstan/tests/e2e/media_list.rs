//! The list of media as a tape operator needs it: where each tape is, how full, how often it was loaded, until when it is kept.

use serde_json::Value;

use crate::support::{Lab, Run, noise};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

fn rows(lab: &Lab) -> Vec<Value> {
    run(lab, "media list --json").ok().rows()
}

fn of<'r>(rows: &'r [Value], label: &str) -> &'r Value {
    rows.iter().find(|row| row["label"] == label).unwrap()
}

/// The cells of a table that has no empty ones in the columns that are asked for: by where the heads begin and end.
fn cell(text: &str, line: &str, column: &str) -> String {
    let head = text.lines().next().unwrap();
    let begin = head.find(column).unwrap_or_else(|| panic!("no {column} in {text}"));
    let row = text.lines().find(|row| row.starts_with(line)).unwrap();
    // A number ends where its head ends; a text begins where its head begins.
    let is_number = ["Used", "Size", "Loads"].contains(&column);
    let (before, after) =
        row.split_at(if is_number { begin + column.len() } else { begin }.min(row.len()));
    match is_number {
        true => before.rsplit("  ").next().unwrap().trim().to_owned(),
        false => after.split("  ").next().unwrap().trim().to_owned(),
    }
}

#[test]
fn tapes_are_listed_with_barcode_place_use_loads_and_protection() {
    let lab = Lab::new();
    run(
        &lab,
        "vtl create vtl --capacity 40M --scale 1e5 --drives 1 --slots 4 --tapes 3 --mail-slots 1",
    )
    .ok();
    run(&lab, "pool create weekly").ok();
    run(&lab, "media init vtape:vtl?tape=V00002L9 --label monday --pool weekly").ok();
    lab.file("t/file", noise(1, 8_000_000));
    lab.backed_up(["t", "--to", "vtape:vtl?tape=V00001L9", "--name", "t", "--protect", "30d"]);
    lab.backed_up(["t", "--to", "pool:weekly", "--name", "u"]);
    let list = rows(&lab);
    let first = of(&list, "V00001L9");
    assert_eq!((&first["barcode"], &first["place"]), (&"V00001L9".into(), &"slot:1".into()));
    assert_eq!((&first["loads"], &first["kept_for_ever"]), (&1.into(), &false.into()), "{first}");
    let used = first["used_percent"].as_f64().unwrap();
    assert!((20.0..40.0).contains(&used), "8 of 40 MB, headers and marks: {used}");
    let monday = of(&list, "monday");
    assert_eq!((&monday["barcode"], &monday["place"]), (&"V00002L9".into(), &"drive:1".into()));
    assert_eq!((&monday["pool"], &monday["kept_for_ever"]), (&"weekly".into(), &true.into()));

    let text = run(&lab, "media list").ok().stdout.clone();
    let of_monday = |column| cell(&text, "monday", column);
    assert_eq!((of_monday("Barcode"), of_monday("Where")), ("V00002L9".into(), "drive:1".into()));
    assert_eq!((of_monday("Pool"), of_monday("Kept until")), ("weekly".into(), "for ever".into()));
    assert_eq!(cell(&text, "V00001L9", "Used"), format!("{} %", used.floor()));
    assert!(cell(&text, "V00001L9", "Kept until").starts_with("20"), "{text}");
    assert!(!text.contains("Condition"), "all are good: {text}");

    // Each time that the robot loads it counts, whatever for.
    run(&lab, "verify t").ok();
    lab.backed_up(["t", "--to", "pool:weekly", "--name", "u", "--full"]);
    let list = rows(&lab);
    let loads = |label| of(&list, label)["loads"].as_u64().unwrap();
    let monday_before = monday["loads"].as_u64().unwrap();
    assert_eq!((loads("V00001L9"), loads("monday")), (2, monday_before + 1));
    assert!(of(&list, "monday")["used_percent"].as_f64().unwrap() > 45.0);

    // Where it is brought stands there, and that it still lies in the mail slot.
    run(&lab, "library export vtape:vtl V00001L9 --location bank").ok();
    let text = run(&lab, "media list").ok().stdout.clone();
    assert_eq!(cell(&text, "V00001L9", "Where"), "bank (still in mail:1)");
    run(&lab, "vtl take vtl V00001L9").ok();
    let text = run(&lab, "media list").ok().stdout.clone();
    assert_eq!(cell(&text, "V00001L9", "Where"), "bank");
}

#[test]
fn a_list_without_tapes_has_no_columns_for_them() {
    let lab = Lab::new();
    lab.file("t/file", noise(1, 100_000));
    lab.backed_up(["t", "--to", "m1", "--name", "t"]);
    let text = run(&lab, "media list").ok().stdout.clone();
    let head = text.lines().next().unwrap();
    for column in ["Barcode", "Loads", "Pool", "Where"] {
        assert!(!head.contains(column), "{text}");
    }
    let used = cell(&text, "m1", "Used");
    assert!(used.ends_with(" %"), "as full as its file system: {text}");
    let list = rows(&lab);
    let row = of(&list, "m1");
    assert!(row["barcode"].is_null() && row["loads"].is_null(), "{row}");
    assert!(row["used_percent"].as_f64().is_some_and(|used| used > 0.0), "{row}");
    // One that is not mounted says so, and nothing of how full it is.
    lab.sh("mv m1 away");
    let text = run(&lab, "media list").ok().stdout.clone();
    assert!(cell(&text, "m1", "Where").starts_with("not at hand"), "{text}");
    assert!(!text.contains("Used"), "{text}");
}
