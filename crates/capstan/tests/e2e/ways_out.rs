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
