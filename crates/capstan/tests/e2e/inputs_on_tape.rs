//! Standard input and the output of commands cannot be read again: where a tape fails, what was not committed of them is written to
//! the next one from where it is kept.

use std::fs::File;
use std::path::PathBuf;

use capstan_tape::vtl::library::{Design, Library};
use serde_json::Value;

use crate::independent_reader::Reader;
use crate::support::{Lab, finish, noise, report};
use crate::tape::library_of;

fn library(lab: &Lab, drives: u32, tapes: u32) -> Library {
    let dir = lab.path("vtl");
    let design = Design { capacity: Some(40_000_000), ..library_of(drives, tapes) };
    Library::create(&dir, &design, tapes).unwrap();
    Library::open(&dir).unwrap()
}

/// Backs up a file as standard input.
fn backup(lab: &Lab, input: &PathBuf, to: &str) -> Value {
    let mut command = lab.command();
    command.args(["backup", "--stdin", "--name", "t", "--to", to, "--json"]);
    report(finish(command.stdin(File::open(input).unwrap())))
}

fn comes_back(lab: &Lab, name: &str, input: &PathBuf) {
    lab.restored([name, "--into", "out"]);
    assert!(std::fs::read(lab.path("out/stdin")).unwrap() == std::fs::read(input).unwrap());
    std::fs::remove_dir_all(lab.path("out")).unwrap();
}

fn tapes_of(done: &Value) -> Vec<String> {
    let labels = done["media"].as_array().unwrap().iter();
    labels.map(|label| format!("vtl/tapes/{}.tape", label.as_str().unwrap())).collect()
}

#[test]
fn what_fails_on_one_tape_goes_on_on_the_next() {
    for plan in
        ["write:30=error", "write:25=offline", "mark:3=error", "mark:4=power", "sync:2=error"]
    {
        let lab = Lab::new();
        let library = library(&lab, 1, 6);
        let input = lab.file("input", noise(1, 25_000_000));
        library.plan_faults(Some(1), plan).unwrap();
        let done = backup(&lab, &input, "vtape:vtl");
        assert_eq!(
            (&done["status"], &done["error_count"]),
            (&"completed".into(), &0.into()),
            "{plan}: {done:#}"
        );
        assert_eq!(done["media"].as_array().unwrap().len(), 2, "{plan}: {done:#}");
        assert_eq!(done["bytes_read"], 25_000_000, "{plan}");
        comes_back(&lab, "t", &input);
        // It is one session: nothing was resumed, nothing is left over.
        let sessions = lab.run(["sessions", "--kind", "all", "--json"]).ok().rows().len();
        assert_eq!(sessions, 1 + 1, "{plan}: the backup and the restore");
        // What came to the first tape after all does no harm where that is written again.
        let second = backup(&lab, &input, "vtape:vtl");
        assert_eq!(second["status"], "completed", "{plan}: {second:#}");
        for session in [&done["session"], &second["session"]] {
            comes_back(&lab, &format!("t@{}", session.as_str().unwrap()), &input);
        }
        lab.run(["idb", "check"]).ok();
        lab.run(["verify", "t"]).ok();
        if let Some(reader) = Reader::find() {
            let tapes = tapes_of(&done);
            let last = tapes.last().unwrap();
            // The tape that failed has nothing that is needed.
            let id = done["session"].as_str().unwrap();
            reader.run(&lab, None, &["extract", last, "--session", id, "--into", "read"]).ok();
            assert!(
                std::fs::read(lab.path("read/stdin")).unwrap() == std::fs::read(&input).unwrap()
            );
        }
    }
}

#[test]
fn what_is_committed_is_not_written_again() {
    let lab = Lab::new();
    let library = library(&lab, 2, 9);
    let input = lab.file("input", noise(2, 90_000_000));
    // The second tape goes into the second drive, the third into the first one.
    library.plan_faults(Some(2), "write:20=error").unwrap();
    let done = backup(&lab, &input, "vtape:vtl");
    assert_eq!(done["status"], "completed", "{done:#}");
    let written = done["bytes_written"].as_u64().unwrap();
    println!("{written} bytes written");
    assert!(written < 125_000_000, "{done:#}");
    comes_back(&lab, "t", &input);
    if let Some(reader) = Reader::find() {
        let tapes = tapes_of(&done);
        let mut args = vec!["extract", &tapes[0], "--into", "read"];
        tapes[1..].iter().for_each(|tape| args.extend(["--and", tape]));
        reader.run(&lab, None, &args).ok();
        assert!(std::fs::read(lab.path("read/stdin")).unwrap() == std::fs::read(&input).unwrap());
    }
}

#[test]
fn a_commands_output_goes_on_through_several_failures() {
    let lab = Lab::new();
    let library = library(&lab, 2, 9);
    let input = lab.file("input", noise(3, 20_000_000));
    library.plan_faults(Some(1), "write:20=error").unwrap();
    library.plan_faults(Some(2), "write:25=error").unwrap();
    let line = format!("cat {}", input.display());
    let args = ["backup", "--from-command", &line, "--name", "t", "--to", "vtape:vtl", "--json"];
    let done = report(lab.run(args));
    assert_eq!(done["status"], "completed", "{done:#}");
    assert!(done["media"].as_array().unwrap().len() >= 2, "{done:#}");
    let listed = lab.run(["ls", "t", "--json"]).ok().json_lines();
    assert!(listed.contains("20000000"), "{listed}");
    lab.run(["verify", "t"]).ok();
}

#[test]
fn without_another_tape_it_fails_and_says_so() {
    let lab = Lab::new();
    let library = library(&lab, 1, 1);
    let input = lab.file("input", noise(4, 25_000_000));
    library.plan_faults(Some(1), "write:30=error").unwrap();
    let failed = backup(&lab, &input, "vtape:vtl");
    assert_eq!(failed["status"], "failed", "{failed:#}");
    let said = failed["errors"].to_string();
    assert!(said.contains("medium error") && said.contains("no medium to go on on"), "{said}");
}

#[test]
fn a_command_ends_where_what_it_gives_cannot_be_written() {
    let lab = Lab::new();
    let library = library(&lab, 1, 1);
    let input = lab.file("input", noise(4, 25_000_000));
    library.plan_faults(Some(1), "write:30=error").unwrap();
    let line = format!("echo $$ >pid; cat {}; sleep 300; :", input.display());
    let args = ["backup", "--from-command", &line, "--name", "t", "--to", "vtape:vtl", "--json"];
    let failed = report(lab.run(args));
    assert_eq!(failed["status"], "failed", "{failed:#}");
    let pid = std::fs::read_to_string(lab.path("pid")).unwrap();
    let is_there = PathBuf::from(format!("/proc/{}", pid.trim())).exists();
    lab.sh(&format!("kill {} 2>/dev/null || true", pid.trim()));
    assert!(!is_there, "the command goes on");
}
