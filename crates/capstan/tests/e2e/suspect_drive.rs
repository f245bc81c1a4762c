//! A drive that cannot read tapes, beside one that can: no tape counts as damaged for it, and the drive is named.

use std::path::Path;

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::gone_media::status;
use crate::support::{Lab, noise, report};
use crate::tape::{comes_back, library, media};

/// Has a drive read nothing from its `from`th block on.
fn blind(dir: &Path, drive: u32, from: u32) {
    let plan: Vec<_> = (from..400).map(|n| format!("read:{n}=error")).collect();
    Library::open(dir).unwrap().plan_faults(Some(drive), &plan.join(",")).unwrap();
}

fn suspects(report: &Value) -> Vec<&Value> {
    let all = report["errors"].as_array().unwrap();
    all.iter().filter(|e| e["code"] == "drive-suspect").collect()
}

#[test]
fn what_one_drive_cannot_read_another_one_reads() {
    for from in [1, 4] {
        for read in
            ["restore t --into r --json", "verify t --json", "verify --medium V00001L9 --json"]
        {
            let lab = Lab::new();
            let dir = library(&lab, 2, 3);
            (0..6).for_each(|n| drop(lab.file(&format!("tree/{n}"), noise(n + 1, 2_000_000))));
            lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
            // It stands in the first one.
            blind(&dir, 1, from);
            let run = lab.run(read.split(' '));
            assert_eq!(run.code, 0, "{from} {read}: {}{}", run.stdout, run.stderr);
            let done = report(run);
            let said = suspects(&done);
            let text = said.first().map(|said| said.to_string()).unwrap_or_default();
            assert!(said.len() == 1 && text.contains("V00001L9"), "{from} {read}: {done:#}");
            assert!(text.contains("drive 1") && text.contains("drive 2"), "{from} {read}: {text}");
            assert_eq!(media(&lab)[0].1, "appendable", "{from} {read}");
            assert_eq!(status(&lab).0, 0, "{from} {read}");
            comes_back(&lab, "t", &lab.path("tree"));
        }
    }
}

#[test]
fn what_no_drive_reads_is_the_tapes_fault() {
    let lab = Lab::new();
    let dir = library(&lab, 2, 3);
    lab.file("tree/a", noise(1, 6_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    [1, 2].into_iter().for_each(|drive| blind(&dir, drive, 1));
    let run = lab.run(["verify", "t", "--json"]);
    assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
    let done = report(run);
    assert!(suspects(&done).is_empty(), "{done:#}");
    assert_eq!((media(&lab)[0].1.as_str(), status(&lab).0), ("damaged", 6));
}
