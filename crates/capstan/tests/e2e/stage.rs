//! Staging: from disk to tape, verified there, and given back; what stays, what is cut short, what fails.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::mirror::comes_back_as;
use crate::support::{Lab, completed, finish, noise, report, wait_for};
use crate::tape::{library, media};

const BACKUP: [&str; 8] = ["tree", "--to", "disk", "--name", "t", "--incr", "--segment-size", "1M"];

/// A full and incrementals on `disk`, which is in the pool `disks`; their sessions, the states in `state-0` and so on.
fn versions(lab: &Lab, count: u64) -> Vec<String> {
    lab.run(["pool", "create", "disks"]).ok();
    lab.run(["media", "init", "disk", "--pool", "disks"]).ok();
    for i in 0..40 {
        lab.file(&format!("tree/d{}/f{i}", i % 5), noise(i, 60_000));
    }
    lab.sh("cd tree; ln d1/f1 linked; ln -s d1/f1 symlink; mkdir empty; seq 1 20000 >text");
    (0..count).map(|n| next(lab, n)).collect()
}

/// One more version.
fn next(lab: &Lab, n: u64) -> String {
    lab.file(&format!("tree/new-{n}"), noise(100 + n, 1_500_000));
    lab.sh(&format!(
        "cd tree; echo {n} >>text; rm -f d2/f{}; touch -d 2001-01-0{} d3",
        2 + 5 * n,
        n + 1
    ));
    let done = lab.backed_up(BACKUP);
    lab.sh(&format!("cp -a tree state-{n}"));
    done["session"].as_str().unwrap().to_owned()
}

fn all_come_back(lab: &Lab, sessions: &[String]) {
    for (n, session) in sessions.iter().enumerate() {
        comes_back_as(lab, &format!("t@{session}"), &format!("state-{n}"));
    }
}

fn stage(lab: &Lab, args: &[&str]) -> Value {
    report(finish(lab.command().args(["stage", "--json"]).args(args)))
}

/// The segments on disk, by name.
fn segments(lab: &Lab) -> Vec<String> {
    let names = fs::read_dir(lab.path("disk")).unwrap();
    let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|n| n.ends_with(".segment")).collect();
    names.sort();
    names
}

fn number(value: &Value, key: &str) -> u64 {
    value["staged"][key].as_u64().unwrap()
}

#[test]
fn disk_is_given_back_and_all_comes_from_tape() {
    staged_to_tape(None);
}

#[test]
fn of_encrypted_backups_too() {
    staged_to_tape(Some("secret"));
}

fn staged_to_tape(passphrase: Option<&'static str>) {
    let lab = Lab::with_passphrase(passphrase);
    library(&lab, 1, 4);
    let mut sessions = versions(&lab, 3);
    let names = lab.run(["ls", "t", "-l"]).ok().stdout.clone();
    // No key is needed.
    let mut command = lab.command();
    command.env_remove("CAPSTAN_PASSPHRASE");
    let done =
        completed(report(finish(command.args(["stage", "disks", "--to", "vtape:vtl", "--json"]))));
    assert_eq!((&done["method"], &done["name"]), (&"stage".into(), &"disks".into()));
    assert_eq!((number(&done, "staged_versions"), segments(&lab).len()), (3, 0), "{done:#}");
    let [copied, verified, freed] =
        ["copied_bytes", "verified_bytes", "freed_bytes"].map(|key| number(&done, key));
    assert!(freed > 6_000_000 && copied >= verified && verified > copied / 2, "{done:#}");
    let shown = lab.run(["media", "show", "disk"]);
    assert!(shown.ok().stdout.contains("free"), "{}", shown.stdout);
    assert_eq!(lab.run(["ls", "t", "-l"]).ok().stdout, names);
    assert!(lab.run(["find", "new-1"]).ok().stdout.contains("new-1"));
    lab.run(["idb", "check"]).ok();
    all_come_back(&lab, &sessions);
    lab.run(["verify", "t"]).ok();
    lab.run(["verify", "--medium", "V00001L9"]).ok();
    let kinds = lab.run(["sessions", "--kind", "stage"]).ok().stdout.clone();
    assert!(kinds.contains("  stage  "), "{kinds}");
    let text = lab.run(["sessions", "--show", done["session"].as_str().unwrap()]);
    assert!(text.ok().stdout.contains("Staged      3 versions: "), "{}", text.stdout);
    // The next one builds on what is on tape; it goes there as well, and no other again.
    sessions.push(next(&lab, 3));
    let size: u64 = lab.sh("cat disk/*.segment | wc -c").trim().parse().unwrap();
    assert!((1_500_000..2_500_000).contains(&size), "it is an incremental: {size} bytes");
    all_come_back(&lab, &sessions);
    let again = completed(stage(&lab, &["disk", "--to", "vtape:vtl"]));
    assert_eq!((number(&again, "staged_versions"), segments(&lab).len()), (1, 0), "{again:#}");
    assert!(number(&again, "copied_bytes") < copied / 2, "{again:#}");
    let none = completed(stage(&lab, &["disk", "--to", "vtape:vtl"]));
    assert!(none["notes"].to_string().contains("nothing to stage"), "{none:#}");
    lab.run(["idb", "check"]).ok();
    // Numbers are not given twice.
    sessions.push(next(&lab, 4));
    assert!(segments(&lab)[0].as_str() > "00000008.segment", "{:?}", segments(&lab));
    all_come_back(&lab, &sessions);
    completed(stage(&lab, &["disks", "--to", "vtape:vtl"]));
    // The tapes are all that is left.
    fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
    lab.sh("rm -r disk");
    lab.run(["import", "vtape:vtl"]).ok();
    all_come_back(&lab, &sessions);
    let listed = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
    assert!(!listed.contains("\"status\":\"incomplete\""), "{listed}");
}

/// A backup of which nothing is said is no full one because its base went to tape: specifications with `[stage]` write what
/// changed. Another directory, and a medium that was given up, get a full one as ever.
#[test]
fn what_was_staged_is_built_on_unasked() {
    let lab = Lab::new();
    library(&lab, 1, 4);
    let mut sessions = versions(&lab, 2);
    let unasked = |to: &str, n: usize| {
        lab.file(&format!("tree/more-{n}"), noise(200 + n as u64, 100_000));
        let args = ["tree", "--to", to, "--name", "t", "--segment-size", "1M"];
        let done = lab.backed_up(args);
        lab.sh(&format!("cp -a tree state-{n}"));
        (done["session"].as_str().unwrap().to_owned(), done["method"].as_str().unwrap().to_owned())
    };
    completed(stage(&lab, &["disks", "--to", "vtape:vtl", "--keep", "2M"]));
    assert!(!segments(&lab).is_empty(), "one is on both, the other on tape only");
    for (n, stays) in [(2, "pool:disks"), (3, "disk")] {
        let (session, method) = unasked(stays, n);
        assert_eq!(method, "incr", "to {stays}");
        sessions.push(session);
        all_come_back(&lab, &sessions);
        completed(stage(&lab, &["disks", "--to", "vtape:vtl"]));
        assert_eq!(segments(&lab).len(), 0);
    }
    let (session, method) = unasked("disk", 4);
    assert_eq!(method, "incr", "all is on tape");
    sessions.push(session);
    all_come_back(&lab, &sessions);
    completed(stage(&lab, &["disks", "--to", "vtape:vtl"]));
    // So does what was made of them on the disk.
    lab.run(["consolidate", "t", "--to", "disk"]).ok();
    completed(stage(&lab, &["disks", "--to", "vtape:vtl"]));
    assert_eq!(segments(&lab).len(), 0);
    let (session, method) = unasked("disk", 5);
    assert_eq!(method, "incr", "the synthetic full is on tape");
    sessions.push(session);
    completed(stage(&lab, &["disks", "--to", "vtape:vtl"]));
    let (session, method) = unasked("other-disk", 6);
    assert_eq!(method, "full", "it is enough by itself");
    sessions.push(session);
    let (session, method) = unasked("disk", 7);
    assert_eq!(method, "incr", "the last of this disk is built on, not the one that is elsewhere");
    sessions.push(session);
    completed(stage(&lab, &["disks", "--to", "vtape:vtl"]));
    lab.run(["media", "recycle", "disk"]).ok();
    let (session, method) = unasked("disk", 8);
    assert_eq!(method, "full", "the disk was given up and began anew");
    sessions.push(session);
    all_come_back(&lab, &sessions);
    lab.run(["idb", "check"]).ok();
}

#[test]
fn the_oldest_go_by_age_and_size() {
    let lab = Lab::new();
    library(&lab, 1, 3);
    let sessions = versions(&lab, 4);
    let all = segments(&lab);
    // Three of them are two days old.
    lab.edit_tables(
        "UPDATE versions SET created_us = created_us - 172800000000 \
         WHERE created_us < (SELECT MAX(created_us) FROM versions)",
    );
    let would = completed(stage(&lab, &["disks", "--to", "vtape:vtl", "--dry-run"]));
    assert_eq!((number(&would, "staged_versions"), &would["session"]), (4, &"".into()));
    let none = ["disks", "--to", "vtape:vtl", "--older-than", "3d", "--dry-run"];
    let young = completed(stage(&lab, &none));
    assert_eq!(number(&young, "staged_versions"), 0);
    let why: Vec<_> =
        young["staged"]["versions"].as_array().unwrap().iter().map(|v| &v["why"]).collect();
    assert!(
        why.len() == 4 && why.iter().all(|why| why.to_string().contains("too young")),
        "{young:#}"
    );
    let text = lab.run(["stage", "disks", "--to", "vtape:vtl", "--older-than", "3d", "--dry-run"]);
    assert_eq!(text.ok().stdout.matches(": too young").count(), 4, "{}", text.stdout);
    assert_eq!(segments(&lab), all, "nothing was done");
    assert!(media(&lab).iter().all(|m| m.0 == "disk"), "no tape was written");
    // The first is the full one, with most of it: when that went, the rest may stay.
    let by_size = ["pool:disks", "--to", "vtape:vtl", "--keep", "6M", "--older-than", "1d"];
    let done = completed(stage(&lab, &by_size));
    let staged: Vec<_> =
        done["staged"]["versions"].as_array().unwrap().iter().map(|v| &v["session"]).collect();
    assert_eq!(staged, [sessions[0].as_str()], "{done:#}");
    let done = completed(stage(&lab, &["disks", "--to", "vtape:vtl", "--older-than", "1d"]));
    assert_eq!(number(&done, "staged_versions"), 2, "{done:#}");
    assert!(!segments(&lab).is_empty());
    all_come_back(&lab, &sessions);
    lab.run(["stage", "disks", "--to", "null:"]).refused(&["keeps no copy"]);
    lab.run(["stage", "disks", "--to", "disk"]).refused(&["is what is to be staged"]);
    lab.run(["stage", "disks", "--to", "pool:disks"]).refused(&["to itself"]);
    lab.run(["stage", "nothing", "--to", "x"]).refused(&["neither a pool nor a medium"]);
    lab.run(["stage", "V00001L9", "--to", "x"]).refused(&["is a tape"]);
    lab.run(["idb", "check"]).ok();
}

#[test]
fn what_is_locked_or_mirrored_stays() {
    let lab = Lab::new();
    library(&lab, 1, 3);
    let sessions = versions(&lab, 2);
    lab.run(["lock", &format!("t@{}", sessions[0]), "--until", "30d"]).ok();
    lab.file("other/file", noise(5, 100_000));
    lab.backed_up(["other", "--to", "disk", "--mirror", "disk-2", "--name", "m", "--full"]);
    let before = segments(&lab);
    let done = completed(stage(&lab, &["disks", "--to", "vtape:vtl"]));
    let versions = done["staged"]["versions"].as_array().unwrap();
    let why = |n: usize| versions[n]["why"].as_str().unwrap_or("it went");
    assert!(why(0).starts_with("locked until ") && why(0).contains("it is copied"), "{done:#}");
    assert_eq!((why(1), why(2)), ("it went", "mirrored on 'disk-2'"), "{done:#}");
    assert_eq!(number(&done, "staged_versions"), 1, "{done:#}");
    assert!(segments(&lab).len() < before.len() && !segments(&lab).is_empty());
    all_come_back(&lab, &sessions);
    // It is not copied and read every day.
    let again = completed(stage(&lab, &["disks", "--to", "vtape:vtl"]));
    assert!(again["notes"].to_string().contains("nothing to stage"), "{again:#}");
    assert!(again["staged"].to_string().contains("it is copied already"), "{again:#}");
    let text = lab.run(["stage", "disks", "--to", "vtape:vtl", "--dry-run"]);
    assert!(text.ok().stdout.contains("Stays       t@"), "{}", text.stdout);
    assert!(text.stdout.contains("mirrored on 'disk-2'"), "{}", text.stdout);
    lab.run(["verify", "m"]).ok();
    lab.run(["idb", "check"]).ok();
}

/// A disk that is away is not passed over in silence.
#[test]
fn what_is_away_is_said() {
    let lab = Lab::new();
    library(&lab, 1, 3);
    let sessions = versions(&lab, 2);
    lab.sh("mv disk away");
    for extra in [&[][..], &["--dry-run"]] {
        let run = lab.run(["stage", "disks", "--to", "vtape:vtl", "--json"].iter().chain(extra));
        assert_eq!(run.code, 1, "{}", run.stderr);
        let said = report(run);
        assert_eq!(
            (&said["status"], &said["errors"][0]["code"]),
            (&"failed".into(), &"missing".into())
        );
    }
    lab.sh("mv away disk");
    assert_eq!(
        number(&completed(stage(&lab, &["disks", "--to", "vtape:vtl"])), "staged_versions"),
        2
    );
    all_come_back(&lab, &sessions);
    // Nothing of it is waited for any more.
    lab.sh("mv disk away");
    completed(stage(&lab, &["disks", "--to", "vtape:vtl"]));
}

/// What is locked on disk is locked on its tape, too, and goes from disk when the lock is over.
#[test]
fn a_lock_goes_with_its_version() {
    let lab = Lab::new();
    library(&lab, 1, 3);
    let sessions = versions(&lab, 2);
    lab.run(["lock", &format!("t@{}", sessions[1]), "--until", "30d"]).ok();
    let all = segments(&lab);
    let done = completed(stage(&lab, &["disks", "--to", "vtape:vtl"]));
    assert_eq!(
        (number(&done, "freed_bytes"), number(&done, "staged_versions")),
        (0, 0),
        "{done:#}"
    );
    assert!(number(&done, "verified_bytes") > 5_000_000, "{done:#}");
    assert_eq!(segments(&lab), all);
    // The tape is all that is left: it has the versions, and their locks.
    lab.sh("mv disk away");
    all_come_back(&lab, &sessions);
    fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
    lab.run(["import", "vtape:vtl"]).ok();
    all_come_back(&lab, &sessions);
    let listed = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
    assert_eq!(listed.matches("\"locked_until\":\"2").count(), 2, "{listed}");
}

#[test]
fn when_a_lock_is_over_its_disk_is_given_back() {
    let lab = Lab::new();
    library(&lab, 1, 3);
    let sessions = versions(&lab, 1);
    let until = lab.sh("date -d '+4 seconds' '+%Y-%m-%d %H:%M:%S'");
    lab.run(["lock", "t", "--until", until.trim()]).ok();
    let begun = Instant::now();
    let first = completed(stage(&lab, &["disks", "--to", "vtape:vtl"]));
    let kept = number(&first, "freed_bytes") == 0;
    assert!(kept || begun.elapsed() >= Duration::from_secs(3), "{first:#}");
    let left = Duration::from_millis(4100).saturating_sub(begun.elapsed());
    std::thread::sleep(left);
    let then = stage(&lab, &["disks", "--to", "vtape:vtl"]);
    if kept {
        assert_eq!((number(&then, "copied_bytes"), number(&then, "staged_versions")), (0, 1));
    }
    assert!(segments(&lab).is_empty());
    all_come_back(&lab, &sessions);
    lab.run(["idb", "check"]).ok();
}

#[test]
fn a_copy_that_cannot_be_read_gives_nothing_back() {
    let lab = Lab::new();
    let dir = library(&lab, 1, 3);
    let sessions = versions(&lab, 1);
    let before = segments(&lab);
    // One that passes by at the second try costs nothing; these do not.
    let plan: Vec<_> = (6..90).map(|n| format!("read:{n}=error")).collect();
    Library::open(&dir).unwrap().plan_faults(Some(1), &plan.join(",")).unwrap();
    let done = stage(&lab, &["disks", "--to", "vtape:vtl"]);
    Library::open(&dir).unwrap().plan_faults(Some(1), "").unwrap();
    assert_eq!(done["status"], "completed_with_errors", "{done:#}");
    assert_eq!((number(&done, "freed_bytes"), number(&done, "staged_versions")), (0, 0));
    assert!(done["errors"].to_string().contains("does not verify"), "{done:#}");
    assert_eq!(segments(&lab), before);
    // It is no tape to rely on: another is taken.
    assert!(media(&lab).contains(&("V00001L9".to_owned(), "damaged".to_owned())));
    let done = completed(stage(&lab, &["disks", "--to", "vtape:vtl"]));
    assert_eq!((&done["media"][0], segments(&lab).len()), (&"V00002L9".into(), 0), "{done:#}");
    all_come_back(&lab, &sessions);
    lab.run(["idb", "check"]).ok();
}

#[test]
fn damage_of_the_original_keeps_it() {
    let lab = Lab::new();
    let sessions = versions(&lab, 1);
    crate::mirror::damage(&lab.path("disk"), 0, 9);
    let before = segments(&lab);
    for _ in 0..2 {
        let done = stage(&lab, &["disks", "--to", "disk-2"]);
        assert_eq!(done["status"], "completed_with_errors", "{done:#}");
        assert_eq!((segments(&lab), number(&done, "freed_segments")), (before.clone(), 0));
    }
    let media = media(&lab);
    assert!(media.contains(&("disk-2".to_owned(), "appendable".to_owned())), "{media:?}");
    let _ = sessions;
}

/// Killed at any moment, everything restores; run again, it comes to its end.
#[test]
fn a_killed_stage_goes_on() {
    let lab = Lab::new();
    library(&lab, 1, 12);
    let mut sessions = versions(&lab, 2);
    let (mut killed, mut seed) = (0, 5_u64);
    for round in 0..6 {
        for _ in 0..3 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let mut command = lab.command();
            command.args(["stage", "disks", "--to", "vtape:vtl"]);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis((seed >> 33) % 150));
            killed += u32::from(child.try_wait().unwrap().is_none());
            let _ = child.kill();
            child.wait().unwrap();
        }
        let last = sessions.len() - 1;
        comes_back_as(&lab, &format!("t@{}", sessions[last]), &format!("state-{last}"));
        completed(stage(&lab, &["disks", "--to", "vtape:vtl"]));
        assert!(segments(&lab).is_empty(), "round {round}: {:?}", segments(&lab));
        lab.run(["idb", "check"]).ok();
        if round % 2 == 0 {
            sessions.push(next(&lab, sessions.len() as u64));
        }
    }
    assert!(killed > 2, "hardly anything was killed: {killed}");
    all_come_back(&lab, &sessions);
}

/// Between the removal from disk and the database's forgetting: what a kill there leaves.
#[test]
fn what_went_from_disk_and_was_not_forgotten_is_forgotten() {
    for level in ["all", "none"] {
        let lab = Lab::new();
        library(&lab, 1, 3);
        lab.file("tree/file", noise(3, 3_000_000));
        let args = ["tree", "--to", "disk", "--name", "t", "--log-level", level];
        lab.backed_up(args);
        lab.run(["copy", "t", "--to", "vtape:vtl?tape=V00001L9"]).ok();
        lab.sh("for n in disk/*.segment; do mv $n ${n%segment}gone; done; ls disk");
        let done = completed(stage(&lab, &["disk", "--to", "vtape:vtl?tape=V00001L9"]));
        assert_eq!((number(&done, "copied_bytes"), number(&done, "staged_versions")), (0, 1));
        lab.run(["idb", "check"]).ok();
        comes_back_as(&lab, "t", "tree");
    }
}

/// Two that are staged to each other at once do not both give up what the other has.
#[test]
fn disks_are_staged_to_each_other() {
    let lab = Lab::new();
    let sessions = versions(&lab, 1);
    lab.run(["copy", "t", "--to", "disk-2"]).ok();
    let start = |from: &str, to: &str| {
        let mut command = lab.command();
        command.args(["stage", from, "--to", to]).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let mut both = [start("disk", "disk-2"), start("disk-2", "disk")];
    for child in &mut both {
        wait_for("its end", || child.try_wait().unwrap().is_some());
    }
    all_come_back(&lab, &sessions);
}

#[test]
fn a_specification_stages_after_its_backups() {
    let lab = Lab::new();
    library(&lab, 1, 3);
    lab.run(["pool", "create", "tapes"]).ok();
    lab.run(["media", "init", "vtape:vtl?tape=V00002L9", "--pool", "tapes"]).ok();
    let sessions = versions(&lab, 1);
    let spec = |stage: &str| {
        let text = format!(
            "device = \"{0}/disk\"\n[[object]]\nname = \"t\"\npaths = [\"{0}/tree\"]\nincr = true\n{stage}",
            lab.path("").to_str().unwrap().trim_end_matches('/')
        );
        lab.file("spec.toml", text).to_str().unwrap().to_owned()
    };
    let bad = spec("[stage]\nto = \"pool:\"\nolder-than = \"3x\"\nform = \"disks\"\n");
    let refused = lab.run(["run", "--check", &bad]);
    assert_eq!(refused.code, 2);
    for word in [":7: ", "names no pool", ":8: ", ":9: ", "'form' is not a key of [stage]"] {
        assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
    }
    let good = spec("[stage]\nfrom = \"disks\"\nto = \"pool:tapes\"\nkeep = 0\n");
    let run = lab.run(["run", "--json", &good]);
    let done: Value = serde_json::from_str(&run.ok().stdout).unwrap();
    assert_eq!(done["staged"]["staged"]["staged_versions"], 2, "{done:#}");
    assert_eq!(done["staged"]["media"][0], "V00002L9");
    assert!(segments(&lab).is_empty());
    all_come_back(&lab, &sessions);
    assert!(Path::new(&good).exists());
}
