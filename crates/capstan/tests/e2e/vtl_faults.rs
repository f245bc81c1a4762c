//! Planned faults of virtual libraries: counted over all commands that use them, and named in the reports of those they strike.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::{Lab, noise};
use crate::tape::library;

fn struck(report: &Value) -> Vec<Value> {
    report["faults"].as_array().cloned().unwrap_or_default()
}

#[test]
fn moves_are_counted_from_one_command_to_the_next() {
    let lab = Lab::new();
    library(&lab, 1, 2);
    let step = |line: &str| lab.run(line.split_whitespace());
    step("vtl fault vtl move:3=jam").ok();
    step("library load vtape:vtl V00001L9").ok();
    step("library unload vtape:vtl 1").ok();
    let jammed = step("library load vtape:vtl V00001L9");
    assert_eq!((jammed.code, jammed.stderr.contains("jammed")), (1, true), "{}", jammed.stderr);
    step("library load vtape:vtl V00001L9").ok();
    step("library unload vtape:vtl 1").ok();
    // The third move is the first one of this session.
    step("vtl fault vtl move:3=jam").ok();
    step("library load vtape:vtl V00002L9").ok();
    step("library unload vtape:vtl 1").ok();
    lab.file("tree/a", noise(1, 1_000_000));
    let failed = lab.backup(["tree", "--to", "vtape:vtl", "--name", "t"]);
    let of = format!("the robot of {}", lab.path("vtl").display());
    let jam = json!({ "of": of, "operation": "move", "number": 3, "fault": "jam" });
    assert_eq!(struck(&failed), [jam], "{failed:#}");
    let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    assert_eq!(struck(&done), [] as [Value; 0]);
}

#[test]
fn what_a_drive_does_is_counted_over_sessions_and_stands_in_the_report_once() {
    let lab = Lab::new();
    library(&lab, 1, 12);
    lab.file("tree/a", noise(1, 2_000_000));
    lab.run(["vtl", "fault", "vtl", "--drive", "1", "write:30=error"]).ok();
    let sessions: Vec<Value> = (0..6)
        .map(|_| lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--full"]))
        .collect();
    let hit: Vec<&Value> = sessions.iter().filter(|report| !struck(report).is_empty()).collect();
    assert_eq!(hit.len(), 1, "{sessions:#?}");
    assert!(struck(&sessions[0]).is_empty(), "no session alone writes so many blocks");
    let of = format!("drive 1 of {}", lab.path("vtl").display());
    let fault = json!({ "of": of, "operation": "write", "number": 30, "fault": "error" });
    assert_eq!(struck(hit[0]), [fault]);
    // The one that it ended has it on record.
    let sessions = lab.run(["sessions", "--kind", "all", "--json"]).ok().rows();
    let failed = sessions.iter().find(|session| session["status"] == "failed").unwrap();
    let text = lab.run(["sessions", "--show", failed["id"].as_str().unwrap()]);
    let line = format!("Fault       {of}: write:30=error, as planned");
    assert!(text.ok().stdout.lines().any(|l| l == line), "{}", text.stdout);
}

#[test]
fn what_a_library_has_is_not_for_all_to_write_whatever_the_umask() {
    let lab = Lab::new();
    let binary = env!("CARGO_BIN_EXE_capstan");
    lab.sh(&format!(
        "umask 0; {binary} vtl create vtl --slots 3 --capacity 40M --scale 1e5; {binary} vtl fault vtl --drive 1 write:1=dirty; \
         {binary} library load vtape:vtl V00001L9 1; mkdir t; echo x > t/a; \
         CAPSTAN_HOME=$PWD/home {binary} backup t --to 'vtape:vtl?tape=V00001L9' --name t -q"
    ));
    let mut seen = 0;
    let mut look = |path: std::path::PathBuf| {
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o022, 0, "{}: {mode:o}", path.display());
        seen += 1;
    };
    look(lab.path("vtl"));
    for dir in ["vtl", "vtl/tapes"] {
        for entry in std::fs::read_dir(lab.path(dir)).unwrap() {
            look(entry.unwrap().path());
        }
    }
    assert!(seen > 10, "{seen}");
}
