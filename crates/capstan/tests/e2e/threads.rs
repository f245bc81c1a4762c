//! A kernel that has no more threads: commands say so and come to their end, and nothing of them stays begun.

use std::fs;

use crate::hangs::bounded_as;
use crate::support::{Lab, Run, below, noise};

/// What a program under test is told (`engine::threads`).
const THREADS: &str = "CAPSTAN_TEST_THREADS";

/// A command where there are so many threads.
fn with_threads(lab: &Lab, threads: u32, args: &[&str]) -> Run {
    let mut command = lab.command();
    command.env(THREADS, threads.to_string());
    let run = bounded_as(lab, &command, args);
    let said = format!("{}{}", run.stdout, run.stderr);
    assert!((0..=6).contains(&run.code), "{args:?} with {threads}: {} {said}", run.code);
    let says = said.contains("cannot start a thread for ") && said.contains("ulimit -u");
    assert!(run.code == 0 || says, "{args:?} with {threads}: {} {said}", run.code);
    // Whether it succeeded or not, it has ended, and no lease of it stays.
    let sessions = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
    assert!(!sessions.contains("\"running\""), "{args:?} with {threads}: {sessions}");
    run
}

/// With how many threads a command succeeds that has none, then one, and so on; at most so many.
fn succeeds_with(lab: &Lab, most: u32, args: impl Fn(u32) -> Vec<String>) -> u32 {
    let failed = |threads: &u32| {
        let args = args(*threads);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        with_threads(lab, *threads, &args).code != 0
    };
    let failed = (0..=most).take_while(failed).count() as u32;
    assert!(failed <= most, "{:?}", args(most));
    failed
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn lab() -> Lab {
    let lab = Lab::new();
    for i in 0..40 {
        lab.file(&format!("tree/{i}"), noise(i, 30_000));
    }
    lab.file("tree/huge", noise(1000, 40_000_000));
    lab
}

#[test]
fn backups_end_where_there_are_no_more_threads() {
    let lab = lab();
    for to in ["m --mirror n", "rait5:a,b,c"] {
        let backup = format!("backup tree --to {to} --name t --full --streams 3");
        // Signals, media agent, watch, disk agent, three streams; those that fetch ahead may be missing.
        let needed = succeeds_with(&lab, 12, |_| words(&backup));
        assert!(needed > 4, "{to}: {needed}");
        lab.run(words(&backup)).ok();
        lab.restored(["t", "--into", "out"]);
        let huge = below(&lab.path("out"), &lab.path("tree")).join("huge");
        assert!(fs::read(huge).unwrap() == fs::read(lab.path("tree/huge")).unwrap());
        fs::remove_dir_all(lab.path("out")).unwrap();
    }
    lab.run(["verify", "t"]).ok();
}

#[test]
fn what_reads_ends_where_there_are_no_more_threads() {
    let lab = lab();
    lab.backed_up(["tree", "--to", "m", "--name", "t", "--streams", "3"]);
    lab.sh("echo more >tree/1; rm tree/2");
    lab.backed_up(["tree", "--to", "m", "--name", "t", "--incr", "--streams", "3"]);
    let commands = [
        "restore t --into out.N",
        "verify t",
        "compare t --contents",
        "copy t --to copied.N",
        "consolidate t --to made.N",
        "backup tree --to m --name t --dry-run",
        "prune --keep-last 1",
    ];
    for command in commands {
        let needed = succeeds_with(&lab, 14, |n| words(&command.replace('N', &n.to_string())));
        assert!(needed > 0, "{command}");
    }
}
