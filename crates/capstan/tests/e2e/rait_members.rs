//! Members of arrays that are not what they were: replaced, put back to an older state, away, damaged. Backups go on without them and
//! say so, and status says it until somebody mends it.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::mirror::{comes_back, damage};
use crate::support::{Lab, Run, below, noise, report};

const ARRAY: &str = "rait5:a,b,c";

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/big", noise(1, 3_000_000));
    lab.file("tree/text", "1");
    lab.backed_up(["tree", "--name", "t", "--to", ARRAY, "--block-size", "64K"]);
    lab
}

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

/// Backs up what has errors; the errors, as text.
fn degraded(lab: &Lab, array: &str) -> String {
    lab.sh("echo more >>tree/text");
    let done = lab.backup(["tree", "--name", "t", "--to", array]);
    assert_eq!(done["status"], "completed_with_errors", "{done:#}");
    assert!(done["error_count"].as_u64().unwrap() > 0, "{done:#}");
    done["errors"].to_string()
}

fn status(lab: &Lab) -> (i32, String) {
    let run = run(lab, "status --json");
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    (run.code, json["objects"][0]["why"].to_string())
}

fn segments(lab: &Lab, member: &str) -> usize {
    let names = fs::read_dir(lab.path(member)).unwrap().map(|e| e.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|e| e == "segment")).count()
}

#[test]
fn a_member_that_was_replaced_is_none_any_more() {
    let lab = lab();
    damage(&lab.path("b"), 1, 3);
    run(&lab, "rait rebuild a --member b --onto new").ok();
    let before = segments(&lab, "b");
    let said = degraded(&lab, ARRAY);
    assert!(said.contains("member-lost") && said.contains("replaced it"), "{said}");
    assert_eq!(segments(&lab, "b"), before, "nothing is written to it");
    // The array is known with the member that has its place now.
    let shown = run(&lab, "media show a").ok().stdout.clone();
    assert!(shown.contains("/new,"), "{shown}");
    // What was written without the new one it lacks, and it is none before it is whole again.
    let (code, why) = status(&lab);
    assert!(code != 0 && why.contains("/new") && why.contains("rait rebuild"), "{why}");
    run(&lab, "rait rebuild a --member new --onto newest").ok();
    lab.sh("echo more >>tree/text");
    lab.backed_up(["tree", "--name", "t", "--to", "rait5:a,newest,c"]);
    assert_eq!(status(&lab).0, 0, "{:?}", status(&lab));
    lab.sh("mv c away");
    comes_back(&lab);
    // The others know it too, without the database.
    lab.sh("mv away c");
    fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
    for old in ["b", "new"] {
        let info = run(&lab, &format!("rait status rait5:a,{old},c --json")).stdout;
        let info: Value = serde_json::from_str(&info).unwrap();
        assert_eq!(info["members"][1]["state"], "lost", "{info:#}");
    }
}

#[test]
fn an_older_state_of_a_member_is_not_written_to() {
    let lab = lab();
    lab.sh("cp -a a old; echo more >>tree/text");
    lab.backed_up(["tree", "--name", "t", "--to", ARRAY]);
    lab.sh("rm -r a; mv old a");
    let (code, why) = status(&lab);
    assert!(code != 0 && why.contains("lacks 1 of the segments"), "{why}");
    let before = segments(&lab, "a");
    for _ in 0..2 {
        let said = degraded(&lab, ARRAY);
        assert!(said.contains("member-lost") && said.contains("rait rebuild"), "{said}");
        assert_eq!(segments(&lab, "a"), before);
    }
    comes_back(&lab);
    run(&lab, "rait rebuild a --member a --onto d").ok();
    lab.sh("echo more >>tree/text; mv a old");
    lab.backed_up(["tree", "--name", "t", "--to", "rait5:d,b,c"]);
    assert_eq!(status(&lab).0, 0, "{:?}", status(&lab));
    lab.sh("mv c away");
    comes_back(&lab);
}

#[test]
fn status_warns_of_members_that_lack() {
    let lab = lab();
    assert_eq!(status(&lab).0, 0, "{:?}", status(&lab));
    lab.sh("mv b bx");
    let (code, why) = status(&lab);
    assert!(code != 0 && why.contains("/b") && why.contains("rait rebuild"), "{why}");
    lab.sh("mv bx b; mv b/00000001.segment kept");
    let (code, why) = status(&lab);
    assert!(code != 0 && why.contains("lacks 1 of the segments"), "{why}");
    lab.sh("mv kept b/00000001.segment");
    assert_eq!(status(&lab).0, 0, "{:?}", status(&lab));
    // What a verification found stays known until it is mended, or found whole.
    damage(&lab.path("b"), 1, 3);
    let verified = report(run(&lab, "verify t --json"));
    assert_eq!(verified["status"], "completed_with_errors", "{verified:#}");
    assert!(verified["error_count"].as_u64().unwrap() > 0, "the count agrees: {verified:#}");
    let (code, why) = status(&lab);
    assert!(code != 0 && why.contains("damaged") && why.contains("/b"), "{why}");
    run(&lab, "rait rebuild a --member b --onto d").ok();
    assert_eq!(status(&lab).0, 0, "{:?}", status(&lab));
}

/// What another session has is not lost: who writes to an array waits for all of it.
#[test]
fn two_backups_to_one_array_of_tapes_come_one_after_the_other() {
    for array in [
        "rait1:vtape:vtl?tape=V00001L9,vtape:vtl?tape=V00002L9",
        "rait1:vtape:vtl?tape=V00002L9,vtape:vtl?tape=V00001L9",
    ] {
        let lab = Lab::new();
        let create = "vtl create vtl --drives 3 --slots 8 --tapes 6 --capacity 200M --scale 300";
        lab.run(create.split(' ')).ok();
        for (n, name) in ["p", "c"].into_iter().enumerate() {
            lab.file(&format!("{name}/f"), noise(n as u64, 3_000_000));
        }
        let to = "rait1:vtape:vtl?tape=V00001L9,vtape:vtl?tape=V00002L9";
        lab.backed_up(["p", "--to", to, "--name", "p"]);
        for round in 0..2 {
            let begun = ["p", "c"].map(|name| {
                lab.file(&format!("{name}/n{round}"), noise(round + 7, 2_000_000));
                let to = if name == "p" { to } else { array };
                let mut backup = lab.command();
                backup
                    .args(["backup", name, "--to", to, "--name", name, "--json", "--wait", "5min"]);
                backup.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            });
            for backup in begun {
                let output = backup.wait_with_output().unwrap();
                let text = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(0), "round {round}: {text}");
                assert!(!text.contains("member-lost"), "round {round}: {text}");
            }
        }
        lab.run(["status"]).ok();
        for name in ["p", "c"] {
            lab.restored([name, "--into", "out"]);
            same_by_rsync(&lab.path(name), &below(&lab.path("out"), &lab.path(name)));
        }
    }
}
