//! Tapes that come back into a library which has another name by then: who looks at them is told how they become known again.

use serde_json::Value;

use crate::support::{Lab, Run, noise};
use crate::tape::{comes_back, library};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split(' '))
}

/// A version on a tape that is out of the house, and whose library is `other` by now.
fn renamed() -> Lab {
    let lab = Lab::new();
    library(&lab, 1, 3);
    lab.file("tree/a", noise(1, 3_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    run(&lab, "library export vtape:vtl V00001L9 --location bank").ok();
    run(&lab, "vtl take vtl V00001L9").ok();
    lab.sh("mv vtl other");
    lab
}

/// The command in backquotes that imports.
fn command(text: &str) -> String {
    let commands = text.split('`').find(|part| part.starts_with("capstan import "));
    commands.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn who_looks_at_a_tape_of_a_renamed_library_is_told_how_it_becomes_known() {
    for look in ["library import vtape:other", "library inventory vtape:other"] {
        let lab = renamed();
        let away = run(&lab, "restore t --into out");
        assert!(away.stderr.contains("in a library of another name `capstan import"), "{look}");
        run(&lab, "vtl insert other V00001L9").ok();
        let json = run(&lab, &format!("{look} --json")).ok().stdout.clone();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert!(json.to_string().contains("\"elsewhere\":{"), "{look}: {json}");
        if look.contains("import") {
            run(&lab, "library move vtape:other slot:1 mail:1").ok();
        }
        let said = run(&lab, look).ok().stdout.clone();
        // As it says.
        let command = command(&said).replace("capstan ", "").replace('\'', "");
        run(&lab, &command).ok();
        comes_back(&lab, "t", &lab.path("tree"));
        let said = run(&lab, "library inventory vtape:other").ok().stdout.clone();
        assert!(!said.contains("has that barcode"), "{said}");
    }
}

/// Two libraries with tapes of the same barcodes, which are where they should be, are no news.
#[test]
fn tapes_of_another_library_that_are_there_are_not_looked_for_elsewhere() {
    let lab = Lab::new();
    library(&lab, 1, 2);
    run(&lab, "vtl create other --drives 1 --slots 4 --tapes 2 --capacity 40M --scale 100000").ok();
    lab.file("tree/a", noise(1, 1_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    let said = run(&lab, "library inventory vtape:other").ok().stdout.clone();
    assert!(!said.contains("has that barcode"), "{said}");
}
