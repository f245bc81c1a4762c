//! What a tape operator is told leads to something that works.

use std::fs;

use crate::by_hand::{attended, barcode, drive, insert};
use crate::support::{Lab, Run, noise, report};
use crate::tape::comes_back;

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split(' '))
}

fn said(run: &Run) -> String {
    format!("{}{}", run.stdout, run.stderr)
}

/// A drive that stands alone, without anybody at a terminal: what is said names what works there.
#[test]
fn who_reads_tapes_of_a_drive_that_stands_alone_is_told_how_they_are_asked_for() {
    let lab = Lab::new();
    drive(&lab, 4, 40);
    for n in 0..50 {
        lab.file(&format!("tree/{n}"), noise(n + 1, 1_000_000));
    }
    let backup = ["backup", "tree", "--to", "vtape:drive", "--name", "t"];
    let (done, _) = attended(&lab, &backup, &mut |n, _| barcode(n + 1));
    assert_eq!(report(done)["status"], "completed");
    lab.run(["library", "unload", "vtape:drive", "1"]);
    for line in ["restore t --into r", "verify t", "restore t --to-tar r.tar", "copy t --to disk"] {
        let refused = run(&lab, line);
        let text = said(&refused);
        assert_ne!(refused.code, 0, "{line}: {text}");
        assert!(text.contains("CAPSTAN_TAPE_WAIT"), "{line}: {text}");
        for other in ["library import", "media import", "mount it"] {
            assert!(!text.contains(other), "{line}: {text}");
        }
    }
    // Another tape is in.
    insert(&lab.path("drive"), &barcode(4));
    let refused = run(&lab, "verify t");
    assert!(said(&refused).contains("CAPSTAN_TAPE_WAIT"), "{}", said(&refused));
}

/// A pool that is full of a backup which did not complete.
#[test]
fn a_pool_full_of_what_did_not_complete_says_what_lets_it_go() {
    let lab = Lab::new();
    run(&lab, "vtl create vtl --drives 1 --tapes 1 --capacity 25M --scale 1000").ok();
    run(&lab, "pool create p").ok();
    run(&lab, "media init vtape:vtl?tape=V00001L9 --pool p").ok();
    for n in 0..40 {
        lab.file(&format!("tree/{n}"), noise(n + 1, 1_000_000));
    }
    let begun = lab.backup(["tree", "--to", "pool:p", "--name", "t", "--segment-size", "4M"]);
    assert_eq!(begun["status"], "failed", "{begun:#}");
    let refused = run(&lab, "media recycle V00001L9");
    let text = said(&refused);
    let command = |text: &str, what: &str| {
        let mut all = text.split('`').filter(|part| part.starts_with(&format!("capstan {what}")));
        all.next_back().unwrap_or_else(|| panic!("{what} is not in: {text}")).replace('\'', "")
    };
    let protect = command(&text, "protect");
    assert!(refused.code == 2 && protect.ends_with("--none"), "{text}");
    let pruned = run(&lab, "prune t --keep-last 1");
    let text = said(&pruned);
    assert!(text.contains("unended-kept") || pruned.code == 3, "{text}");
    assert_eq!(command(&text, "protect"), protect, "{text}");
    // What prune calls not whole protect does, too.
    let listed = run(&lab, "protect t --not-whole --none --json");
    assert!(listed.ok().stdout.contains("t@"), "{}", listed.stdout);
    run(&lab, &command(&text, "prune")["capstan ".len()..]).ok();
    run(&lab, "media recycle V00001L9").ok();
    fs::remove_dir_all(lab.path("tree")).unwrap();
    lab.file("tree/small", noise(1, 1_000_000));
    lab.backed_up(["tree", "--to", "pool:p", "--name", "t"]);
    comes_back(&lab, "t", &lab.path("tree"));
}

/// A tape that is found in the case of another one was imported: nothing is left to be done about it.
#[test]
fn an_import_that_finds_a_medium_on_another_tape_does_not_call_it_not_imported() {
    let lab = Lab::new();
    run(&lab, "vtl create vtl --drives 1 --tapes 4 --capacity 40M --scale 1000").ok();
    lab.file("tree/a", noise(1, 3_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    run(&lab, "library unload vtape:vtl 1");
    let tapes = lab.path("vtl/tapes");
    let [one, three, kept] = ["V00001L9.tape", "V00003L9.tape", "kept"].map(|of| tapes.join(of));
    for (from, to) in [(&one, &kept), (&three, &one), (&kept, &three)] {
        fs::rename(from, to).unwrap();
    }
    let imported = run(&lab, "import vtape:vtl");
    let text = said(&imported);
    assert!(imported.code == 0 && !text.contains("was not imported"), "{text}");
    comes_back(&lab, "t", &lab.path("tree"));
    assert_eq!(run(&lab, "status").code, 0, "{}", said(&run(&lab, "status")));
}

/// What is gone on with, and has nothing, was a full backup: so is this one.
#[test]
fn a_full_backup_that_committed_nothing_is_gone_on_with_by_a_full_one() {
    let lab = Lab::new();
    run(&lab, "vtl create vtl --drives 1 --tapes 4 --capacity 40M --scale 1000").ok();
    lab.file("tree/a", noise(1, 3_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    lab.file("tree/b", noise(2, 3_000_000));
    run(&lab, "vtl fault vtl --drive 1 mark:1=power,mark:2=power,mark:3=power,mark:4=power").ok();
    let failed = lab.backup(["tree", "--to", "vtape:vtl?tape=V00001L9", "--name", "t", "--full"]);
    assert_eq!(failed["status"], "failed", "{failed:#}");
    run(&lab, "vtl fault vtl --drive 1 ").ok();
    let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--resume"]);
    assert_eq!(done["method"], "full", "{done:#}");
}

/// A first backup has no base, whatever became of the tape that it began on.
#[test]
fn a_first_backup_that_changes_tapes_before_it_committed_anything_says_nothing_of_a_base() {
    let lab = Lab::new();
    run(&lab, "vtl create vtl --drives 1 --tapes 4 --capacity 40M --scale 1000").ok();
    lab.file("tree/a", noise(1, 9_000_000));
    run(&lab, "vtl fault vtl --drive 1 write:4=error").ok();
    let done = lab.backup(["tree", "--to", "vtape:vtl", "--name", "t"]);
    assert!(done["notes"].to_string().contains("it was begun instead of"), "{done:#}");
    assert!(!done.to_string().contains("no-base"), "{done:#}");
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn a_value_that_is_no_text_or_number_is_named_as_it_is() {
    let lab = Lab::new();
    let text = "device = \"/disk\"\ntogether = true\n[[object]]\npaths = [\"/etc\"]\n";
    let path = lab.file("n.toml", text);
    let refused = lab.run(["run", "--check", path.to_str().unwrap()]);
    refused.refused(&["'together' is `true`; write a number from 1 to 32"]);
}
