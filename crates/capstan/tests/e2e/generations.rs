//! What a tape is: its generation and whether it is written once, by its barcode and by what its drive says.

use std::path::Path;

use serde_json::Value;

use crate::changed_media::on_tape;
use crate::compare::same_by_rsync;
use crate::support::{Lab, Run, below, finish, noise};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

/// A library of a model with tapes of these barcodes, a hundred thousand times as fast as the world.
fn library(lab: &Lab, model: &str, barcodes: &[&str]) {
    run(lab, &format!("vtl create vtl --model {model} --drives 1 --slots 9 --tapes 0 --mail-slots 0 --scale 1e5")).ok();
    for barcode in barcodes {
        run(lab, &format!("vtl add-tape vtl --barcode {barcode}")).ok();
    }
    lab.file("tree/file", noise(1, 300_000));
}

fn label(lab: &Lab, barcode: &str) -> Value {
    let text = std::fs::read_to_string(lab.path(format!("vtl/tapes/{barcode}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn loads(lab: &Lab, barcode: &str) -> u64 {
    label(lab, barcode)["loads"].as_u64().unwrap()
}

/// The tape is another one than its sticker says.
fn is_truly(lab: &Lab, barcode: &str, media: &str) {
    let mut label = label(lab, barcode);
    label["media"] = media.into();
    std::fs::write(lab.path(format!("vtl/tapes/{barcode}.json")), label.to_string()).unwrap();
}

fn contents(lab: &Lab, barcode: &str) -> Vec<u8> {
    std::fs::read(lab.path(Path::new("vtl/tapes").join(format!("{barcode}.tape")))).unwrap()
}

fn backed_up(lab: &Lab, options: &str) -> Value {
    lab.backed_up(format!("tree --to vtape:vtl --name t {options}").split_whitespace())
}

fn comes_back(lab: &Lab) {
    lab.sh("rm -rf out");
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
}

#[test]
fn tapes_that_no_drive_writes_are_named_and_not_loaded() {
    let lab = Lab::new();
    library(&lab, "lto-8", &["A00001L5", "A00002L6", "A00003L9"]);
    assert_eq!(label(&lab, "A00002L6")["capacity"], 2.5e12);
    let none = run(&lab, "backup tree --to vtape:vtl --name t");
    none.refused(&[
        "A00001L5 is LTO-5, which no drive of the library writes (LTO-8)",
        "A00002L6 is LTO-6",
        "A00003L9 is LTO-9",
    ]);
    run(&lab, "backup tree --to vtape:vtl?tape=A00002L6 --name t")
        .refused(&["A00002L6 is LTO-6", "no drive"]);
    run(&lab, "media init vtape:vtl?tape=A00003L9").refused(&["A00003L9 is LTO-9", "no drive"]);
    run(&lab, "vtl add-tape vtl --barcode A00004L7").ok();
    run(&lab, "vtl add-tape vtl --barcode A00005M8").ok();
    assert_eq!(
        (&label(&lab, "A00004L7")["capacity"], &label(&lab, "A00005M8")["capacity"]),
        (&6e12.into(), &9e12.into())
    );
    assert_eq!(backed_up(&lab, "")["media"][0], "A00004L7");
    comes_back(&lab);
    for never in ["A00001L5", "A00002L6", "A00003L9"] {
        assert_eq!(loads(&lab, never), 0, "{never}");
    }
    // A sticker of another make says nothing, and the tape is of the drives' generation.
    run(&lab, "vtl add-tape vtl --barcode NEW").ok();
    lab.backed_up(["tree", "--to", "vtape:vtl?tape=NEW", "--name", "n"]);
}

/// An LTO-7 drive reads an LTO-5 tape and does not write it.
#[test]
fn a_tape_of_two_generations_ago_is_read_and_not_written() {
    let lab = Lab::new();
    library(&lab, "lto-5", &["A00001L5"]);
    backed_up(&lab, "");
    let path = lab.path("vtl/library.toml");
    let design = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, design.replace("lto-5", "lto-7")).unwrap();
    run(&lab, "library unload vtape:vtl 1").ok();
    comes_back(&lab);
    let before = contents(&lab, "A00001L5");
    run(&lab, "backup tree --to vtape:vtl --name t")
        .refused(&["A00001L5 is LTO-5, which no drive", "(LTO-7)"]);
    let pool = run(&lab, "pool create p");
    pool.ok();
    run(&lab, "media move A00001L5 --pool p").ok();
    run(&lab, "backup tree --to pool:p --name t").refused(&["A00001L5 is LTO-5, which no drive"]);
    run(&lab, "media recycle A00001L5").refused(&["no drive"]);
    assert_eq!(contents(&lab, "A00001L5"), before);
}

#[test]
fn what_is_written_once_is_appended_to_and_never_given_up() {
    let lab = Lab::new();
    library(&lab, "lto-5", &["A00001LV"]);
    backed_up(&lab, "");
    lab.file("tree/more", noise(2, 300_000));
    backed_up(&lab, "");
    backed_up(&lab, "--full");
    comes_back(&lab);
    let before = contents(&lab, "A00001LV");
    let state = || {
        let shown: Value =
            serde_json::from_str(&run(&lab, "media show A00001LV --json").ok().stdout).unwrap();
        shown["state"].as_str().unwrap().to_owned()
    };
    run(&lab, "prune --keep-last 1").ok();
    run(&lab, "media protect A00001LV --none").ok();
    assert_eq!(state(), "appendable", "nothing on it must stay, and it stays");
    for refused in [
        "media recycle A00001LV",
        "media erase A00001LV",
        "media erase A00001LV --secure",
        "media recycle A00001LV --foreign",
    ] {
        let refused = run(&lab, refused);
        assert_ne!(refused.code, 0);
        assert!(
            refused.stderr.contains("WORM") || refused.stderr.contains("leave --foreign out"),
            "{}",
            refused.stderr
        );
    }
    let mut other = lab.command();
    other.env("CAPSTAN_HOME", lab.path("other"));
    let foreign = ["media", "erase", "vtape:vtl?tape=A00001LV", "--foreign"];
    finish(other.args(foreign)).refused(&["A00001LV is WORM"]);
    // A pool does not take it for one that can be written anew.
    run(&lab, "pool create p --not-appendable").ok();
    run(&lab, "media move A00001LV --pool p").ok();
    run(&lab, "backup tree --to pool:p --name t").refused(&["no usable medium", "A00001LV"]);
    assert_eq!(contents(&lab, "A00001LV"), before);
    comes_back(&lab);
}

#[test]
fn a_sticker_that_says_something_else_than_the_drive_is_said() {
    let lab = Lab::new();
    library(&lab, "lto-9", &["A00001L9", "A00002L9", "A00003L9", "A00004L9"]);
    // It is older than it says, and no drive here reads it: another one is taken, and it is not loaded for that again.
    is_truly(&lab, "A00001L9", "L6");
    is_truly(&lab, "A00002L9", "L8");
    let done = backed_up(&lab, "");
    assert_eq!(done["media"][0], "A00002L9");
    let said = done["errors"].to_string();
    assert!(
        said.contains("mislabelled")
            && said.contains("A00002L9 is LTO-9, the drive says that it is LTO-8"),
        "{said}"
    );
    assert_eq!(done["status"], "completed", "{done}");
    comes_back(&lab);
    let listed = run(&lab, "library inventory vtape:vtl").ok().stdout.clone();
    assert!(listed.contains("unsuited"), "{listed}");
    // What the drive says counts as much as the sticker.
    is_truly(&lab, "A00003L9", "LZ");
    let named = lab.backed_up(["tree", "--to", "vtape:vtl?tape=A00003L9", "--name", "w"]);
    assert!(named["errors"].to_string().contains("LTO-9 WORM"), "{named}");
    run(&lab, "media protect A00003L9 --none").ok();
    run(&lab, "media recycle A00003L9").refused(&["A00003L9 is WORM"]);
    assert_eq!(backed_up(&lab, "")["errors"].to_string().matches("mislabelled").count(), 1);
    let right = lab.backed_up(["tree", "--to", "vtape:vtl?tape=A00004L9", "--name", "r"]);
    assert!(!right["errors"].to_string().contains("mislabelled"), "{right}");
}

/// What a prune leaves on a tape that is written once stays there: no command is named that refuses it.
#[test]
fn a_prune_names_no_command_that_refuses_worm_tapes() {
    let lab = Lab::new();
    library(&lab, "lto-8", &["A00001LY"]);
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    let pruned = run(&lab, "prune t --give-up").ok().stdout.clone();
    assert!(pruned.contains("WORM") && !pruned.contains("media recycle"), "{pruned}");
}

/// A tape that is written once is taken where there is no other.
#[test]
fn a_blank_tape_that_can_be_written_anew_is_taken_before_a_worm_tape() {
    let lab = Lab::new();
    library(&lab, "lto-9", &["A00001LZ", "A00002L9"]);
    assert_eq!(backed_up(&lab, "")["media"][0], "A00002L9");
    run(&lab, "media export A00002L9").ok();
    let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--full"]);
    assert_eq!(done["media"][0], "A00001LZ");
    // It goes on on one that was begun.
    assert_eq!(backed_up(&lab, "--full")["media"][0], "A00001LZ");
}

/// What a killed session left at the end of a WORM tape stays there, and nothing can follow it: the tape is not loaded for that again.
#[test]
fn a_worm_tape_that_ends_in_what_a_session_left_is_full() {
    let lab = Lab::new();
    library(&lab, "lto-9", &["A00001LZ", "A00002LZ", "A00003LZ", "A00004L9"]);
    lab.backed_up(["tree", "--to", "vtape:vtl?tape=A00001LZ", "--name", "t"]);
    run(&lab, "pool create p").ok();
    run(&lab, "media init vtape:vtl?tape=A00002LZ --pool p").ok();
    run(&lab, "media init vtape:vtl?tape=A00003LZ --pool p").ok();
    for tape in ["A00001LZ", "A00002LZ"] {
        on_tape(&lab.path("vtl"), tape, |drive| {
            drive.locate_end().unwrap();
            drive.write_block(&[7; 4096]).unwrap();
            drive.sync().unwrap();
        });
    }
    let states = || -> Vec<String> {
        ["A00001LZ", "A00002LZ"].map(|tape| crate::changed_media::state(&lab, tape)).into()
    };
    assert_eq!(states(), ["appendable", "free"]);
    let done = backed_up(&lab, "--full");
    assert_eq!(done["media"][0], "A00004L9", "{done}");
    let of_pool = lab.backed_up(["tree", "--to", "pool:p", "--name", "u"]);
    assert_eq!(of_pool["media"][0], "A00003LZ", "{of_pool}");
    assert_eq!(states(), ["full", "full"]);
    let before = ["A00001LZ", "A00002LZ"].map(|tape| loads(&lab, tape));
    backed_up(&lab, "--full");
    lab.backed_up(["tree", "--to", "pool:p", "--name", "u"]);
    assert_eq!(before, ["A00001LZ", "A00002LZ"].map(|tape| loads(&lab, tape)));
    comes_back(&lab);
}
