//! A mirrored backup of which one side fails, then the other: it goes on on further tapes, and what one side lacks is on record at once.

use capstan_tape::vtl::library::Library;

use crate::gone_media::{status, why};
use crate::support::{Lab, noise};
use crate::tape::comes_back;

#[test]
fn what_a_side_lacks_of_a_session_that_was_gone_on_with_is_on_record_at_once() {
    let lab = Lab::new();
    for library in ["v", "w"] {
        let line = format!("vtl create {library} --drives 1 --tapes 8 --capacity 25M --scale 1000");
        lab.run(line.split(' ')).ok();
    }
    let both = ["tree", "--name", "t", "--to", "vtape:v", "--mirror", "vtape:w"];
    for n in 0..8 {
        lab.file(&format!("tree/{n}"), noise(n + 1, 1_000_000));
    }
    lab.backed_up(both);
    for n in 20..50 {
        lab.file(&format!("tree/more/{n}"), noise(n, 1_000_000));
    }
    for (library, fault) in [("v", "write:6=error"), ("w", "write:45=error")] {
        Library::open(&lab.path(library)).unwrap().plan_faults(Some(1), fault).unwrap();
    }
    let done = lab.backup(["--segment-size", "4M"].into_iter().chain(both));
    assert_eq!(done["status"], "completed_with_errors", "{done:#}");
    assert!(done["notes"].to_string().contains("it goes on with session"), "{done:#}");
    assert!(done["errors"].to_string().contains("mirror-failed"), "{done:#}");
    assert!(done["errors"].to_string().contains("mirror-behind"), "{done:#}");
    let sessions = lab.run(["sessions", "t", "--json"]).ok().rows();
    let last = sessions.iter().find(|s| s["id"] == done["session"]).unwrap();
    assert_eq!(last["status"], "completed_with_errors", "{last:#}");
    let shown = lab.run(["sessions", "--show", done["session"].as_str().unwrap()]);
    assert!(shown.ok().stdout.contains("mirror-failed"), "{}", shown.stdout);
    let (code, json) = status(&lab);
    assert!(code == 5 && why(&json).contains("a part of t@"), "{json:#}");
    let said = why(&json);
    let command = said.split("`capstan ").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    lab.run(command.replace('\'', "").split(' ')).ok();
    let (_, json) = status(&lab);
    assert!(!why(&json).contains("a part of t@"), "{command}: {json:#}");
    assert_eq!(lab.backup(both)["error_count"], 0);
    assert_eq!(status(&lab).0, 0, "{command}");
    // Each side is enough by itself.
    for library in ["v", "w"] {
        let (here, away) = (lab.path(library), lab.path("away"));
        std::fs::rename(&here, &away).unwrap();
        comes_back(&lab, "t", &lab.path("tree"));
        std::fs::rename(&away, &here).unwrap();
    }
}
