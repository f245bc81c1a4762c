//! Tapes that are in a vault: they stand on the pick list, are asked for at once, and waited for until they are in.

use std::process::{Child, Stdio};

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Run, below, noise, report, wait_for};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

fn export(lab: &Lab, barcode: &str, location: &str) {
    lab.run(["library", "export", "vtape:vtl", barcode, "--location", location]).ok();
    run(lab, &format!("vtl take vtl {barcode}")).ok();
}

/// A full and two incrementals, each on a tape of its own; the first two tapes are in vaults.
fn lab() -> Lab {
    let lab = Lab::new();
    run(
        &lab,
        "vtl create vtl --capacity 40M --scale 1e5 --drives 1 --slots 4 --tapes 3 --mail-slots 2",
    )
    .ok();
    for (n, size) in [(1, 2_500_000), (2, 1_000_000), (3, 500_000)] {
        lab.file(&format!("t/of-{n}"), noise(n, size));
        let tape = format!("vtape:vtl?tape=V0000{n}L9");
        lab.backed_up(["t", "--to", &tape, "--name", "t"]);
    }
    export(&lab, "V00001L9", "bank, box 7");
    export(&lab, "V00002L9", "home");
    lab
}

/// Starts a session that waits for tapes; the message that asks for them is the first one on standard error.
fn waiting(lab: &Lab, line: &str) -> Child {
    let mut command = lab.command();
    command.args(line.split_whitespace()).arg("--json").env("CAPSTAN_TAPE_WAIT", "10min");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn wanted(lab: &Lab) -> Vec<Value> {
    let run = run(lab, "status --json");
    let status: Value = serde_json::from_str(&run.stdout).unwrap();
    status["tapes_wanted"].as_array().unwrap().clone()
}

fn barcodes(list: &[Value]) -> Vec<&str> {
    let mut all: Vec<_> = list.iter().map(|of| of["barcode"].as_str().unwrap_or("-")).collect();
    all.sort_unstable();
    all
}

fn ended(child: Child) -> Run {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    Run { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn a_dry_run_is_the_pick_list() {
    let lab = lab();
    let list = report(run(&lab, "restore t --into out --dry-run --json"));
    let picks = list["pick"].as_array().unwrap();
    let of = |n: usize| {
        let p = &picks[n];
        (p["barcode"].as_str().unwrap(), p["place"].as_str().unwrap(), p["bytes"].as_u64().unwrap())
    };
    // What is there is read first.
    assert_eq!(of(0), ("V00003L9", "drive:1", 500_000), "{list}");
    assert_eq!(of(1), ("V00001L9", "bank, box 7", 2_500_000), "{list}");
    assert_eq!(of(2), ("V00002L9", "home", 1_000_000), "{list}");
    assert!(picks.iter().all(|p| p["files"] == 1), "{list}");
    assert!(picks[1]["for"][0].as_str().unwrap().starts_with("t@"), "{list}");
    assert_eq!((&picks[0]["away"], &picks[1]["away"]), (&false.into(), &true.into()));
    let text = run(&lab, "restore t --into out --dry-run").ok().stdout.clone();
    let lines: Vec<_> = text.lines().skip_while(|line| !line.starts_with("Medium ")).collect();
    assert!(lines[0].contains("Barcode") && lines[2].contains("bank, box 7"), "{text}");
    // Of one file only its tape is wanted; all may be away.
    let one = ["restore", "t", "of-2", "--into", "out", "--dry-run", "--json"];
    let path = lab.path("t/of-2");
    let one = one.map(|arg| if arg == "of-2" { path.to_str().unwrap() } else { arg });
    let one = report(lab.run(one));
    let picks = one["pick"].as_array().unwrap();
    assert_eq!((picks.len(), &picks[0]["barcode"]), (1, &"V00002L9".into()), "{one}");
}

#[test]
fn a_restore_asks_for_all_its_tapes_and_goes_on_as_they_come() {
    let lab = lab();
    let into = lab.path("out");
    let restore = waiting(&lab, "restore t --into out");
    wait_for("the tapes wanted", || barcodes(&wanted(&lab)) == ["V00001L9", "V00002L9"]);
    let list = wanted(&lab);
    let first = list.iter().find(|of| of["barcode"] == "V00001L9").unwrap();
    assert_eq!((&first["place"], &first["kind"]), (&"bank, box 7".into(), &"restore".into()));
    let text = run(&lab, "status").stdout;
    assert!(text.contains("vtl waits since") && text.contains("tape V00001L9 ("), "{text}");
    // What is at hand is read meanwhile.
    let there = below(&into, &lab.path("t"));
    wait_for("the tapes wanted", || {
        there.join("of-3").metadata().is_ok_and(|m| m.len() == 500_000)
    });
    // They come in another order than they were written in, one by a mail slot, one put away by the robot.
    run(&lab, "vtl insert vtl V00002L9").ok();
    wait_for("the tapes wanted", || barcodes(&wanted(&lab)) == ["V00001L9"]);
    run(&lab, "vtl insert vtl V00001L9").ok();
    run(&lab, "library import vtape:vtl").ok();
    let run = ended(restore);
    assert_eq!(run.stderr.matches("tape-wanted").count(), 1, "all at once: {}", run.stderr);
    assert!(
        run.stderr.contains("2 tapes are wanted: tape V00001L9 (was exported on"),
        "{}",
        run.stderr
    );
    let report = report(run);
    assert_eq!((&report["status"], &report["away"]), (&"completed".into(), &0.into()), "{report}");
    assert!(report["tape_wait_s"].as_f64().unwrap() > 0.0, "{report}");
    same_by_rsync(&lab.path("t"), &there);
    assert!(wanted(&lab).is_empty());
}

#[test]
fn what_does_not_come_in_time_is_away_and_who_is_told_to_end_does() {
    let lab = lab();
    let mut command = lab.command();
    command.args(["restore", "t", "--into", "out", "--json"]).env("CAPSTAN_TAPE_WAIT", "1s");
    let timed = report(crate::support::finish(&mut command));
    assert_eq!(
        (&timed["status"], &timed["away"]),
        (&"completed_with_errors".into(), &2.into()),
        "{timed}"
    );
    let waited = timed["tape_wait_s"].as_f64().unwrap();
    assert!(waited < 20.0, "it is waited for once, not for each file or tape: {waited}");
    let restore = waiting(&lab, "restore t --into other");
    wait_for("the tapes wanted", || wanted(&lab).len() == 2);
    lab.sh(&format!("kill -TERM {}", restore.id()));
    assert_eq!(report(ended(restore))["status"], "incomplete");
    assert!(wanted(&lab).is_empty());
    // Where nobody is there it is not waited for.
    let alone = report(run(&lab, "restore t --into alone --json"));
    assert_eq!((&alone["away"], &alone["tape_wait_s"]), (&2.into(), &0.0.into()), "{alone}");
}

#[test]
fn other_readers_wait_too_and_a_backup_for_a_tape_that_takes_more() {
    let lab = lab();
    for line in ["verify t", "drill t --sample 100%", "copy t --to d1", "consolidate t --to d2"] {
        let reader = waiting(&lab, line);
        wait_for("the tapes wanted", || barcodes(&wanted(&lab)) == ["V00001L9", "V00002L9"]);
        run(&lab, "vtl insert vtl V00001L9").ok();
        run(&lab, "vtl insert vtl V00002L9").ok();
        let read = ended(reader);
        assert_eq!(read.code, 0, "{line}: {} {}", read.stdout, read.stderr);
        run(&lab, "library import vtape:vtl").ok();
        lab.run(["library", "unload", "vtape:vtl", "1"]);
        export(&lab, "V00001L9", "bank, box 7");
        export(&lab, "V00002L9", "home");
        // What is at hand elsewhere is not waited for.
        lab.sh("if [ -e d1 ]; then mv d1 unplugged; fi");
    }
    run(&lab, "media export V00003L9 --to elsewhere").ok();
    lab.run(["library", "unload", "vtape:vtl", "1"]);
    run(&lab, "vtl take vtl V00003L9").ok();
    run(&lab, "backup t --to vtape:vtl --name u").refused(&["no tape of vtape:"]);
    let backup = waiting(&lab, "backup t --to vtape:vtl --name u");
    wait_for("the tapes wanted", || wanted(&lab).len() == 1);
    assert!(wanted(&lab)[0]["wanted"].as_str().unwrap().contains("blank tape"));
    run(&lab, "vtl add-tape vtl").ok();
    assert_eq!(report(ended(backup))["media"][0], "V00004L9");
    lab.restored(["u", "--into", "u"]);
    same_by_rsync(&lab.path("t"), &below(&lab.path("u"), &lab.path("t")));
}

/// What takes more of a pool is in the vault: the backup asks for it, and goes on when it was imported; so does one of which the
/// tape gets full on the way.
#[test]
fn a_backup_to_a_pool_waits_for_a_tape_of_it() {
    let lab = Lab::new();
    run(
        &lab,
        "vtl create vtl --capacity 16M --scale 1e5 --drives 1 --slots 4 --tapes 2 --mail-slots 2",
    )
    .ok();
    lab.file("t/small", noise(1, 300_000));
    run(&lab, "pool create daily").ok();
    run(&lab, "media init vtape:vtl?tape=V00001L9 --pool daily").ok();
    lab.backed_up(["t", "--to", "pool:daily", "--name", "t"]);
    run(&lab, "media init vtape:vtl?tape=V00002L9").ok();
    lab.run(["library", "unload", "vtape:vtl", "1"]);
    export(&lab, "V00001L9", "bank, box 7");
    run(&lab, "backup t --to pool:daily --name t").refused(&["pool 'daily'", "bank, box 7"]);
    let backup = waiting(&lab, "backup t --to pool:daily --name t --full");
    wait_for("the tape wanted", || wanted(&lab).len() == 1);
    let text = wanted(&lab)[0]["wanted"].as_str().unwrap().to_owned();
    for words in ["of pool daily", "V00001L9", "bank, box 7"] {
        assert!(text.contains(words), "{text}");
    }
    run(&lab, "vtl insert vtl V00001L9").ok();
    run(&lab, "library import vtape:vtl").ok();
    let done = report(ended(backup));
    assert_eq!((&done["status"], &done["media"][0]), (&"completed".into(), &"V00001L9".into()));
    assert!(wanted(&lab).is_empty());
    // It gets full, and somebody brings a tape of the pool. The other one there is none of it.
    for n in 0..3 {
        lab.file(&format!("t/large-{n}"), noise(n + 2, 1_000_000));
    }
    let line = "backup t --to pool:daily --name t --full --segment-size 1M --compress off";
    let backup = waiting(&lab, line);
    wait_for("the tape wanted", || wanted(&lab).len() == 1);
    run(&lab, "media move V00002L9 --pool daily").ok();
    let done = report(ended(backup));
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["media"], serde_json::json!(["V00001L9", "V00002L9"]), "{done}");
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("t"), &below(&lab.path("out"), &lab.path("t")));
}

#[test]
fn a_backup_to_an_array_of_libraries_waits_for_tapes() {
    let lab = Lab::new();
    run(&lab, "vtl create vtl --capacity 40M --scale 1e5 --drives 2 --slots 4 --tapes 1").ok();
    lab.file("t/file", noise(1, 300_000));
    let line = "backup t --to rait1:vtape:vtl,vtape:vtl --name t";
    run(&lab, line).refused(&["too few tapes"]);
    let backup = waiting(&lab, line);
    wait_for("the tapes wanted", || wanted(&lab).len() == 1);
    assert!(wanted(&lab)[0]["wanted"].as_str().unwrap().contains("for an array of 2"));
    run(&lab, "vtl add-tape vtl").ok();
    assert_eq!(report(ended(backup))["status"], "completed");
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("t"), &below(&lab.path("out"), &lab.path("t")));
}

/// A run waits for a blank tape: people are told by mail and the webhook is, at once.
#[test]
fn a_tape_that_a_run_wants_is_told_by_mail_and_webhook() {
    let lab = Lab::new();
    run(&lab, "vtl create vtl --capacity 40M --scale 1e5 --drives 1 --slots 4 --tapes 0").ok();
    lab.file("t/file", noise(1, 300_000));
    let sendmail = "#!/bin/sh\ncd $(dirname $0); n=0; while [ -e letter-$n ]; do n=$((n+1)); done; cat >letter-$n\n";
    lab.file("sendmail", sendmail);
    lab.sh("chmod 755 sendmail");
    let here = lab.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    let (url, asked) = crate::runs::server("204 No Content");
    let spec = format!(
        "device = \"vtape:{here}/vtl\"\n[[object]]\nname = \"t\"\npaths = [\"{here}/t\"]\n\
         [notify]\nmail = \"root@example.org\"\nsendmail = \"{here}/sendmail\"\nfrom = \"capstan@example.org\"\n\
         [webhook]\nurl = \"{url}\"\ntimeout = \"10s\"\n"
    );
    let spec = lab.file("desk.toml", spec);
    let run_ = waiting(&lab, &format!("run {}", spec.display()));
    let (_, told) = asked.join().unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        (&told["status"], &told["spec"]),
        (&"waiting".into(), &spec.to_str().unwrap().into())
    );
    assert!(told["wanted"].as_str().unwrap().contains("a blank tape"), "{told}");
    wait_for("the tape wanted", || wanted(&lab).len() == 1);
    // Long lines are broken for the way.
    let letter = lab.sh("cat letter-0").replace("=\n", "").replace("=\r\n", "");
    for words in ["a tape is wanted", "blank tape", "desk.toml", "goes on by itself"] {
        assert!(letter.contains(words), "{words}: {letter}");
    }
    run(&lab, "vtl add-tape vtl").ok();
    let done = ended(run_);
    let done: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(done["sessions"][0]["status"], "completed", "{done}");
    // The server of this test answered once: the report was not taken, and the letter about that is the second.
    assert_eq!(done["status"], "completed_with_errors", "{done}");
    assert!(lab.path("letter-1").exists() && !lab.path("letter-2").exists());
}

/// An array is read as soon as enough of its tapes are there, whichever they are.
#[test]
fn of_an_array_enough_tapes_are_waited_for() {
    let lab = Lab::new();
    run(&lab, "vtl create vtl --capacity 60M --scale 1e5 --drives 4 --slots 8 --tapes 6").ok();
    lab.file("t/f", noise(1, 2_500_000));
    for (layout, name) in [("rait1", "mirror"), ("rait5", "parity")] {
        let members = vec!["vtape:vtl"; if name == "mirror" { 2 } else { 3 }].join(",");
        lab.backed_up(["t", "--to", &format!("{layout}:{members}"), "--name", name]);
    }
    let back = |name: &str| {
        same_by_rsync(&lab.path("t"), &below(&lab.path(name), &lab.path("t")));
    };
    // One tape of three is lost for good: nobody is asked for it, whatever reads.
    run(&lab, "library unload vtape:vtl drive:3").ok();
    lab.sh(&format!("{} vtl take vtl V00003L9", env!("CARGO_BIN_EXE_capstan")));
    for line in ["restore parity --into parity", "verify parity", "drill parity"] {
        let read = ended(waiting(&lab, line));
        assert!(!read.stderr.contains("put in"), "{line}: {}", read.stderr);
        assert_eq!(report(read)["tape_wait_s"], 0.0, "{line}");
    }
    back("parity");
    // Both mirrors are in vaults. One is asked for, and the other one is enough.
    export(&lab, "V00001L9", "bank");
    export(&lab, "V00002L9", "cellar");
    let restore = waiting(&lab, "restore mirror --into mirror");
    wait_for("the request for a tape", || barcodes(&wanted(&lab)) == ["V00001L9"]);
    run(&lab, "vtl insert vtl V00002L9").ok();
    assert_eq!(report(ended(restore))["status"], "completed");
    back("mirror");
}
