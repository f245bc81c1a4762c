//! Tapes after the recovery of a lost home: those that came back since the backup of its database, and those that are away still.

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::support::{Lab, Run, noise};
use crate::tape::{comes_back, library_of};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

fn lab(tapes: u32) -> Lab {
    let lab = Lab::new();
    Library::create(&lab.path("vtl"), &library_of(1, tapes), tapes).unwrap();
    let sheet = run(&lab, "idb recovery-key").ok().stdout.clone();
    lab.file("sheet", sheet);
    lab.file("tree/a", noise(1, 100_000));
    lab
}

fn night(lab: &Lab, tape: &str) -> Value {
    lab.file(&format!("tree/for-{tape}"), noise(tape.len() as u64, 10_000));
    let to = format!("vtape:vtl?tape={tape}");
    lab.backup(["tree", "--to", &to, "--name", "t"])
}

fn export(lab: &Lab, tape: &str) {
    run(lab, &format!("library export vtape:vtl {tape} --location bank")).ok();
}

fn leave(lab: &Lab, tape: &str) {
    export(lab, tape);
    run(lab, &format!("vtl take vtl {tape}")).ok();
}

fn come_back(lab: &Lab, tape: &str) {
    run(lab, &format!("vtl insert vtl {tape}")).ok();
    run(lab, "library import vtape:vtl").ok();
}

fn recover(lab: &Lab, from: &str) {
    std::fs::remove_dir_all(lab.path("home")).unwrap();
    run(lab, &format!("idb recover {from} --code-file sheet"));
}

/// The tapes that are out of the house by record.
fn out(lab: &Lab) -> Vec<String> {
    let list = run(lab, "media list --json").ok().rows();
    let out = list.iter().filter(|m| !m["exported"].is_null());
    let mut out: Vec<_> = out.map(|m| m["label"].as_str().unwrap().to_owned()).collect();
    out.sort();
    out
}

/// A tape came back after the last backup of the database, which has it out of the house. Another one that was exported waits in a mail
/// slot, and one is out.
fn came_back_since() -> Lab {
    let lab = lab(4);
    for tape in ["V00001L9", "V00004L9"] {
        night(&lab, tape);
        leave(&lab, tape);
    }
    night(&lab, "V00003L9");
    export(&lab, "V00003L9");
    night(&lab, "V00002L9");
    // The mail slot is free while the first one comes in.
    run(&lab, "vtl take vtl V00003L9").ok();
    come_back(&lab, "V00001L9");
    run(&lab, "vtl insert vtl V00003L9").ok();
    assert_eq!(out(&lab), ["V00003L9", "V00004L9"]);
    lab
}

#[test]
fn a_tape_that_a_recovery_reads_in_its_slot_is_back() {
    for from in ["vtape:vtl", "vtape:vtl?tape=V00002L9"] {
        let lab = came_back_since();
        recover(&lab, from);
        assert_eq!(out(&lab), ["V00003L9", "V00004L9"], "{from}");
        let inventory = run(&lab, "library inventory vtape:vtl --json").ok().stdout.clone();
        assert!(inventory.contains("mail:1"), "{inventory}");
        let vault = run(&lab, "media vault").ok().stdout.clone();
        assert!(!vault.contains("V00001L9"), "{vault}");
        // It takes the next night.
        let next = night(&lab, "V00001L9");
        assert_eq!(next["media"][0], "V00001L9", "{next:#}");
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

/// The names of a full that lies in the vault did not come back with the database: the next night is a full that says which tapes have
/// them. Once they are imported, nights build on them.
#[test]
fn nights_go_on_where_the_names_of_the_full_are_in_the_vault() {
    for is_fetched in [false, true] {
        let lab = lab(3);
        for tape in ["V00001L9", "V00002L9"] {
            night(&lab, tape);
            leave(&lab, tape);
        }
        assert_eq!(night(&lab, "V00003L9")["method"], "incr");
        recover(&lab, "vtape:vtl");
        assert_eq!(out(&lab), ["V00001L9", "V00002L9"]);
        if is_fetched {
            for tape in ["V00001L9", "V00002L9"] {
                come_back(&lab, tape);
            }
            run(&lab, "import vtape:vtl").ok();
        }
        let next = night(&lab, "V00003L9");
        let errors = next["errors"].to_string();
        match is_fetched {
            true => assert_eq!((&next["method"], errors.as_str()), (&"incr".into(), "[]")),
            false => {
                assert_eq!(next["method"], "full", "{next:#}");
                for said in ["V00001L9 was", "V00002L9 was", "capstan import vtape:"] {
                    assert!(errors.contains(said), "{said}: {next:#}");
                }
                assert_eq!(night(&lab, "V00003L9")["method"], "incr");
            }
        }
        comes_back(&lab, "t", &lab.path("tree"));
    }
}
