//! Arrays of tapes as the database has them: where the members lie, which took the place of others, and which lack something. Neither an
//! import nor a backup that names other tapes makes it forget that.

use std::fs;

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::support::{Lab, Run, noise};
use crate::tape::{comes_back, library_of};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", run.stdout, run.stderr))
}

/// A lab with these libraries, and a tree.
fn lab(libraries: &[&str], drives: u32) -> Lab {
    let lab = Lab::new();
    for name in libraries {
        Library::create(&lab.path(name), &library_of(drives, 9), 9).unwrap();
    }
    lab.file("tree/big", noise(1, 3_000_000));
    lab.file("tree/text", "1\n");
    lab.sh("cd tree; ln text linked; ln -s text symlink");
    lab
}

fn back_up(lab: &Lab, to: &str) -> Value {
    lab.sh("echo more >>tree/text");
    lab.backup(["tree", "--name", "t", "--to", to, "--block-size", "64K"])
}

fn backed_up(lab: &Lab, to: &str) -> String {
    let report = back_up(lab, to);
    assert_eq!(report["status"], "completed", "{report:#}");
    report["media"][0].as_str().unwrap().to_owned()
}

fn device(lab: &Lab, label: &str) -> String {
    let shown = json(run(lab, &format!("media show {label} --json")).ok());
    let below = lab.path("x").display().to_string();
    shown["device"].as_str().unwrap().replace(below.trim_end_matches('x'), "")
}

fn whole_tree_comes_back(lab: &Lab) {
    comes_back(lab, "t", &lab.path("tree"));
}

/// The tape is not to be had any more.
fn lose(lab: &Lab, library: &str, barcode: &str) {
    fs::rename(lab.path(format!("{library}/tapes/{barcode}.tape")), lab.path("lost")).unwrap();
}

fn find_again(lab: &Lab, library: &str, barcode: &str) {
    fs::rename(lab.path("lost"), lab.path(format!("{library}/tapes/{barcode}.tape"))).unwrap();
}

#[test]
fn an_import_of_one_library_keeps_what_is_known_of_another() {
    for (array, half, drives) in [
        ("rait1:vtape:here,vtape:there", 1, 2),
        ("rait1:(rait0:vtape:here,vtape:here),(rait0:vtape:there,vtape:there)", 2, 2),
    ] {
        let lab = lab(&["here", "there"], drives);
        let label = backed_up(&lab, array);
        let known = device(&lab, &label);
        for library in ["here", "there", "here"] {
            run(&lab, &format!("import vtape:{library}")).ok();
            assert_eq!(device(&lab, &label), known, "{array}: after the import of {library}");
        }
        let inventory = json(run(&lab, "library inventory vtape:there --json").ok());
        let of_it = inventory.to_string().matches(&format!("\"label\":\"{label}\"")).count();
        assert_eq!(of_it, half, "{inventory:#}");
        // It is gone on with, and what was imported may be lost.
        assert_eq!(backed_up(&lab, array), label);
        lab.sh("mv here gone");
        whole_tree_comes_back(&lab);
    }
}

#[test]
fn a_recovered_database_keeps_what_it_knows_of_other_libraries() {
    let lab = lab(&["here", "there", "further"], 2);
    let sheet = run(&lab, "idb recovery-key").ok().stdout.clone();
    lab.file("sheet", sheet);
    let label = backed_up(&lab, "rait5:vtape:here,vtape:there,vtape:further");
    let other = backed_up(&lab, "rait1:vtape:here,vtape:there");
    let known = [device(&lab, &label), device(&lab, &other)];
    fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
    run(&lab, "idb recover vtape:here --code-file sheet");
    assert_eq!([device(&lab, &label), device(&lab, &other)], known);
    lab.sh("mv here gone");
    whole_tree_comes_back(&lab);
}

/// What an import found on a tape is known: it is no member of what it was a member of.
#[test]
fn a_member_whose_tape_has_something_else_is_not_known_to_be_there() {
    let lab = lab(&["here"], 3);
    let label = backed_up(&lab, "rait5:vtape:here,vtape:here,vtape:here");
    let known = device(&lab, &label);
    assert!(known.contains("V00002L9"), "{known}");
    fs::write(lab.path("here/tapes/V00002L9.tape"), "capstan vtape 1\n").unwrap();
    run(&lab, "import vtape:here");
    assert_eq!(device(&lab, &label), known.replace("?tape=V00002L9", ""));
    whole_tree_comes_back(&lab);
}

/// A lab with an array of the tapes 1, 2 and 3 of a library, of which the tape 9 has taken the place of the second; its label.
fn replaced() -> (Lab, String) {
    let lab = lab(&["vtl"], 4);
    let label = backed_up(&lab, OLD);
    run(&lab, &format!("rait rebuild {label} --member V00002L9 --onto vtape:vtl?tape=V00009L9"))
        .ok();
    assert_eq!(device(&lab, &label), NEW);
    (lab, label)
}

const OLD: &str = "rait5:vtape:vtl?tape=V00001L9,vtape:vtl?tape=V00002L9,vtape:vtl?tape=V00003L9";
const NEW: &str = "rait5:vtape:vtl?tape=V00001L9,vtape:vtl?tape=V00009L9,vtape:vtl?tape=V00003L9";

fn tape(lab: &Lab, barcode: &str) -> Vec<u8> {
    fs::read(lab.path(format!("vtl/tapes/{barcode}.tape"))).unwrap()
}

#[test]
fn a_tape_that_was_replaced_is_no_member_any_more() {
    let (lab, label) = replaced();
    assert_eq!(backed_up(&lab, "rait5:vtape:vtl,vtape:vtl,vtape:vtl"), label);
    let before = tape(&lab, "V00002L9");
    let done = back_up(&lab, OLD);
    assert_eq!(done["status"], "completed_with_errors", "{done:#}");
    let said = done["errors"].to_string();
    assert!(said.contains("member-lost") && said.contains("replaced it"), "{said}");
    assert!(before == tape(&lab, "V00002L9"), "nothing is written to it");
    assert_eq!(device(&lab, &label), NEW, "the new one stays recorded");
    let status = json(&run(&lab, &format!("rait status {OLD} --json")));
    assert_eq!(status["members"][1]["state"], "lost", "{status:#}");
    // It is whole again once it is written anew, and then any one may be lost.
    run(&lab, &format!("rait rebuild {label} --member V00009L9 --onto vtape:vtl?tape=V00008L9"))
        .ok();
    lose(&lab, "vtl", "V00001L9");
    whole_tree_comes_back(&lab);
    find_again(&lab, "vtl", "V00001L9");
    // Nor is the first or the second that was replaced taken for it.
    for old in [OLD, NEW] {
        let done = back_up(&lab, old);
        assert_eq!(done["status"], "completed_with_errors", "{done:#}");
    }
    assert_eq!(device(&lab, &label), NEW.replace("V00009L9", "V00008L9"));
}

/// What status says of the objects, and with which exit code.
fn status(lab: &Lab) -> (i32, String) {
    let run = run(lab, "status --json");
    (run.code, json(&run)["objects"][0]["why"].to_string())
}

fn unload(lab: &Lab, drives: u32) {
    for drive in 1..=drives {
        run(lab, &format!("library unload vtape:vtl drive:{drive}"));
    }
}

const ANY: &str = "rait5:vtape:vtl,vtape:vtl,vtape:vtl";

#[test]
fn a_tape_that_is_not_as_it_was_last_written_is_not_appended_to() {
    let lab = lab(&["vtl"], 4);
    let label = backed_up(&lab, OLD);
    unload(&lab, 4);
    lab.sh("mkdir old; cp vtl/tapes/V00002L9.* old");
    assert_eq!(backed_up(&lab, OLD), label);
    assert_eq!(status(&lab).0, 0, "{:?}", status(&lab));
    unload(&lab, 4);
    lab.sh("cp old/* vtl/tapes");
    let before = tape(&lab, "V00002L9");
    // Who names it goes on without it, each time.
    for _ in 0..2 {
        let done = back_up(&lab, OLD);
        assert_eq!(done["status"], "completed_with_errors", "{done:#}");
        let said = done["errors"].to_string();
        assert!(said.contains("member-lost") && said.contains("as it was last written"), "{said}");
        assert!(before == tape(&lab, "V00002L9"), "nothing is written to it");
        let (code, why) = status(&lab);
        assert!(code != 0 && why.contains("V00002L9") && why.contains("rait rebuild"), "{why}");
    }
    whole_tree_comes_back(&lab);
    // It is whole again once it is written anew, and then any one may be lost.
    run(&lab, &format!("rait rebuild {label} --member V00002L9 --onto vtape:vtl?tape=V00009L9"))
        .ok();
    let (_, why) = status(&lab);
    assert!(!why.contains("V00002L9") && !why.contains("rait rebuild"), "{why}");
    assert_eq!(backed_up(&lab, ANY), label);
    assert_eq!(status(&lab).0, 0, "{:?}", status(&lab));
    lose(&lab, "vtl", "V00001L9");
    whole_tree_comes_back(&lab);
}

/// A session that chooses tapes takes others, says why, and status does.
#[test]
fn an_array_that_lacks_something_is_not_passed_over_in_silence() {
    for is_blank in [false, true] {
        let lab = lab(&["vtl"], 4);
        let label = backed_up(&lab, ANY);
        unload(&lab, 4);
        lab.sh("mkdir old; cp vtl/tapes/V00002L9.* old");
        assert_eq!(backed_up(&lab, ANY), label);
        unload(&lab, 4);
        match is_blank {
            true => fs::write(lab.path("vtl/tapes/V00002L9.tape"), "capstan vtape 1\n").unwrap(),
            false => drop(lab.sh("cp old/* vtl/tapes")),
        }
        let done = back_up(&lab, ANY);
        let said = done["errors"].to_string();
        assert!(said.contains("member-lost") && said.contains(&label), "{done:#}");
        assert!(said.contains("V00002L9"), "{done:#}");
        assert_ne!(done["media"][0], label.as_str(), "{done:#}");
        let (code, why) = status(&lab);
        assert!(code != 0 && why.contains("V00002L9") && why.contains("rait rebuild"), "{why}");
        whole_tree_comes_back(&lab);
        let onto = "vtape:vtl?tape=V00009L9";
        run(&lab, &format!("rait rebuild {label} --member V00002L9 --onto {onto}")).ok();
        assert_eq!(status(&lab).0, 0, "{:?}", status(&lab));
    }
}

/// As many as may be lost are lost, and the one that was replaced does not count.
#[test]
fn what_was_replaced_does_not_make_an_array_whole() {
    let (lab, label) = replaced();
    lose(&lab, "vtl", "V00003L9");
    let before = tape(&lab, "V00002L9");
    lab.sh("echo more >>tree/text");
    let refused = lab.run(["backup", "tree", "--name", "t", "--to", OLD]);
    refused.refused(&["lacks 2 of its 3 members", "replaced it", "rait status"]);
    assert!(before == tape(&lab, "V00002L9"), "nothing is written to it");
    assert_eq!(device(&lab, &label), NEW);
}

#[test]
fn an_import_does_not_take_a_tape_that_was_replaced() {
    let (lab, label) = replaced();
    for import in ["vtape:vtl", OLD, "rait5:vtape:vtl,vtape:vtl,vtape:vtl"] {
        run(&lab, &format!("import {import}"));
        assert_eq!(device(&lab, &label), NEW, "after the import of {import}");
    }
    // Without the database the new one itself says so, and then it is known.
    fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
    run(&lab, "import vtape:vtl").ok();
    assert_eq!(device(&lab, &label), NEW);
    run(&lab, &format!("media adopt {OLD}")).ok();
    assert_eq!(device(&lab, &label), NEW);
    let done = back_up(&lab, OLD);
    assert_eq!(done["status"], "completed_with_errors", "{done:#}");
    assert_eq!(device(&lab, &label), NEW);
    whole_tree_comes_back(&lab);
}
