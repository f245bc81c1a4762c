//! Protection, locks and prune: what is kept stays whole, what goes gives its space back, and a kill at any moment of a
//! prune costs nothing that is kept.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;

use crate::compare::{same, same_by_rsync};
use crate::independent_reader::Reader;
use crate::support::{Lab, below, noise, soak};

/// Backs the tree up after a change and keeps a copy of it; the session's id.
fn step(lab: &Lab, n: usize, options: &[&str]) -> String {
    lab.file(&format!("tree/step-{n}"), noise(n as u64, 200_000));
    // Full, unless it is said.
    let full: &[&str] = if options.contains(&"--incr") { &[] } else { &["--full"] };
    let args = [&["tree", "--to", "medium", "--name", "t"], full, options].concat();
    let report = lab.backed_up(args);
    lab.sh(&format!("rm -rf state-{n}; cp -a tree state-{n}"));
    report["session"].as_str().unwrap().to_owned()
}

fn comes_back(lab: &Lab, n: usize, session: &str) {
    let _ = fs::remove_dir_all(lab.path("out"));
    lab.restored([&format!("t@{session}"), "--into", "out"]);
    let there = below(&lab.path("out"), &lab.path("tree"));
    same(lab, &lab.path(format!("state-{n}")), &there);
    lab.run(["verify", &format!("t@{session}")]).ok();
}

fn prune(lab: &Lab, options: &[&str]) -> Value {
    let run = lab.run([&["prune", "--json"], options].concat());
    serde_json::from_str(&run.ok().stdout).unwrap()
}

/// What a prune does with each version: its session, and the action's first letter.
fn actions(pruned: &Value) -> Vec<(String, char)> {
    let versions = pruned["versions"].as_array().unwrap().iter();
    let action = |v: &Value| v["action"].as_str().unwrap().chars().next().unwrap();
    versions.map(|v| (v["session"].as_str().unwrap().to_owned(), action(v))).collect()
}

/// Actions from the oldest version on.
fn letters(pruned: &Value) -> String {
    actions(pruned).iter().rev().map(|(_, action)| *action).collect()
}

fn names(lab: &Lab, suffix: &str) -> BTreeSet<String> {
    let names = fs::read_dir(lab.path("medium")).unwrap();
    let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|n| n.ends_with(suffix)).collect()
}

fn catalogs(lab: &Lab) -> usize {
    let names = fs::read_dir(lab.path("home/catalogs")).unwrap().map(|e| e.unwrap().path());
    names.filter(|n| n.extension().is_some_and(|e| e == "catalog")).count()
}

fn medium_bytes(lab: &Lab) -> u64 {
    lab.sh("du -sb medium | cut -f1").trim().parse().unwrap()
}

fn segment_of(lab: &Lab, before: &BTreeSet<String>) -> String {
    names(lab, ".segment").difference(before).next().unwrap().clone()
}

#[test]
fn rules_keep_chains_whole_and_give_space_back() {
    let lab = Lab::new();
    let options: [&[&str]; 6] = [&[], &["--incr"], &["--incr"], &[], &["--incr"], &["--incr"]];
    let sessions: Vec<_> = (0..6).map(|n| step(&lab, n, options[n])).collect();
    let dry = prune(&lab, &["--keep-last", "1", "--dry-run"]);
    assert_eq!(letters(&dry), "rrrmmk", "{dry:#}");
    assert_eq!(names(&lab, ".segment").len(), 6, "a dry run removes nothing");
    let before = medium_bytes(&lab);
    let pruned = prune(&lab, &["--keep-last", "1"]);
    assert_eq!(actions(&pruned), actions(&dry));
    assert_eq!(pruned["freed_bytes"], dry["freed_bytes"]);
    assert_eq!(pruned["removed_versions"], 3, "{pruned:#}");
    assert_eq!(before - medium_bytes(&lab), pruned["freed_bytes"].as_u64().unwrap());
    assert_eq!((names(&lab, ".segment").len(), catalogs(&lab)), (3, 3));
    comes_back(&lab, 5, &sessions[5]);
    // What is gone, and what is only there for others, is not offered.
    lab.run(["restore", &format!("t@{}", sessions[0]), "--into", "out2"]).refused(&["no session"]);
    lab.run(["restore", &format!("t@{}", sessions[4]), "--into", "out2"]).refused(&["expired"]);
    lab.run(["protect", "--session", &sessions[4], "--permanent"]).refused(&["expired"]);
    lab.run(["lock", "--session", &sessions[4], "--until", "9d"]).refused(&["expired"]);
    let listed = lab.run(["sessions"]);
    assert_eq!(listed.ok().stdout.matches("  removed").count(), 3, "{}", listed.stdout);
    assert_eq!(listed.stdout.matches("  expired").count(), 2, "{}", listed.stdout);
    // With a new full one the chain goes, and the next version has a new number.
    let last = step(&lab, 6, &[]);
    let pruned = prune(&lab, &["t", "--keep-last", "1"]);
    assert_eq!((letters(&pruned), pruned["removed_versions"].as_u64()), ("rrrk".into(), Some(3)));
    comes_back(&lab, 6, &last);
    // The medium alone says the same.
    fs::remove_dir_all(lab.path("home")).unwrap();
    lab.run(["import", "medium"]).ok();
    comes_back(&lab, 6, &last);
    assert_eq!(letters(&prune(&lab, &["--dry-run"])), "k");
}

/// As in restic, and as rules read them.
#[test]
fn tags_may_be_joined_by_commas() {
    let lab = Lab::new();
    let joined = step(&lab, 0, &["--tag", "audit, q4"]);
    step(&lab, 1, &["--tag", "q4"]);
    step(&lab, 2, &["--tag", "q4", "--tag", "audit"]);
    step(&lab, 3, &[]);
    let versions: Value =
        serde_json::from_str(&lab.run(["versions", "t", "--json"]).ok().stdout).unwrap();
    let text = versions.to_string();
    assert!(text.contains("[\"audit\",\"q4\"]"), "{text}");
    let dry = |tags| letters(&prune(&lab, &["--keep-last", "1", "--keep-tag", tags, "--dry-run"]));
    assert_eq!((dry("audit"), dry("audit,q4")), ("krkk".into(), "krkk".into()));
    assert_eq!(dry("q4"), "kkkk");
    // So are those that were recorded as one.
    if !crate::server::is_wanted() {
        lab.edit_tables("UPDATE sessions SET tags = replace(tags, char(34, 44, 34), char(44))");
        assert_eq!((dry("audit"), dry("audit,q4")), ("krkk".into(), "krkk".into()));
    }
    comes_back(&lab, 0, &joined);
    let bad = lab.run(["prune", "--keep-tag", ","]);
    assert!(bad.code == 2 && bad.stderr.contains("names no tag"), "{}", bad.stderr);
    // A specification's are the same.
    let at = lab.path("");
    let spec = format!(
        "device = \"{0}medium\"\n[options]\ntag = \"audit,q4\"\nfull = true\n[keep]\nlast = 1\ntag = \"audit,q4\"\n\
         [[object]]\nname = \"t\"\npaths = [\"{0}tree\"]\n",
        at.display()
    );
    lab.run(["run", lab.file("spec.toml", spec).to_str().unwrap()]).ok();
    assert_eq!(letters(&prune(&lab, &["--keep-tag", "audit,q4", "--dry-run"])), "kkk");
}

#[test]
fn what_is_not_protected_goes_and_nothing_else() {
    let lab = Lab::new();
    let sessions: Vec<_> =
        [&[][..], &["--protect", "none"], &["--protect", "permanent"], &["--protect", "30d"], &[]]
            .iter()
            .enumerate()
            .map(|(n, options)| step(&lab, n, options))
            .collect();
    let listed = lab.run(["sessions"]).ok().stdout.clone();
    for words in ["not protected", "protected for ever", "protected until 20"] {
        assert!(listed.contains(words), "{words}: {listed}");
    }
    let versions = lab.run(["versions", "tree/step-0"]);
    assert!(versions.ok().stdout.contains("(protected for ever)"), "{}", versions.stdout);
    assert_eq!(letters(&prune(&lab, &[])), "krkkk");
    // Rules do not touch what is protected.
    lab.run(["protect", &format!("t@{}", sessions[3]), "--until", "2999-12-31"]).ok();
    assert_eq!(letters(&prune(&lab, &["--keep-last", "1", "--dry-run"])), "rkkk");
    lab.run(["protect", "--session", &sessions[2], "--rules"]).ok();
    assert_eq!(letters(&prune(&lab, &["--keep-last", "1", "--dry-run"])), "rrkk");
    // One version is made to expire.
    lab.run(["protect", &format!("t@{}", sessions[0]), "--none"]).ok();
    assert_eq!(letters(&prune(&lab, &[])), "rkkk");
    for n in [2, 3, 4] {
        comes_back(&lab, n, &sessions[n]);
    }
    // A lost database loses no protection that the medium has.
    fs::remove_dir_all(lab.path("home")).unwrap();
    lab.run(["import", "medium"]).ok();
    assert_eq!(letters(&prune(&lab, &["--keep-last", "1", "--dry-run"])), "kkk");
}

#[test]
fn a_lock_holds_whatever_is_done() {
    let lab = Lab::new();
    let base = step(&lab, 0, &[]);
    let locked = step(&lab, 1, &["--incr", "--protect", "none", "--lock-until", "30d"]);
    let later = step(&lab, 2, &["--protect", "none"]);
    let last = step(&lab, 3, &[]);
    assert_eq!(names(&lab, ".lock").len(), 2, "it and its base");
    let listed = lab.run(["sessions"]).ok().stdout.clone();
    assert_eq!(listed.matches("locked until").count(), 2, "{listed}");
    if let Some(reader) = Reader::find() {
        let listed = reader.run(&lab, None, &["list", "medium"]);
        assert_eq!(listed.ok().stdout.matches("  locked until 20").count(), 2, "{}", listed.stdout);
        reader.run(&lab, None, &["check", "medium"]).ok();
    }
    lab.run(["protect", &format!("t@{locked}"), "--none"]).ok();
    lab.run(["protect", &format!("t@{base}"), "--none"]).ok();
    assert_eq!(letters(&prune(&lab, &["--keep-last", "1"])), "kkrk");
    // Prolonged, never shortened.
    let of = format!("t@{locked}");
    lab.run(["lock", &of, "--until", "20d"]).refused(&["not shortened", "locked until"]);
    assert!(lab.run(["lock", &of, "--until", "60d"]).ok().stdout.contains("with 2 versions"));
    // Without the database, from the medium alone.
    for import_first in [true, false] {
        fs::remove_dir_all(lab.path("home")).unwrap();
        lab.run(["import", "medium"]).ok();
        // It is another home's until then, and nothing of it goes.
        lab.run(["media", "adopt", "medium"]).ok();
        if !import_first {
            // A database that knows of no lock; the media do.
            lab.edit_tables("UPDATE versions SET locked_until_us = NULL");
        }
        lab.run(["protect", &of, "--none"]).ok();
        assert_eq!(letters(&prune(&lab, &["--keep-last", "1"])), "kkk", "{import_first}");
        lab.run(["lock", &of, "--until", "50d"]).refused(&["locked until"]);
    }
    comes_back(&lab, 1, &locked);
    comes_back(&lab, 3, &last);
    // What damage leaves unknown counts as locked.
    for name in names(&lab, ".lock") {
        let path = lab.path("medium").join(name);
        let mut bytes = fs::read(&path).unwrap();
        bytes[80] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    fs::remove_dir_all(lab.path("home")).unwrap();
    let run = lab.run(["import", "medium"]);
    assert!(run.code == 3 && run.stderr.contains("lock of version"), "{} {}", run.code, run.stderr);
    lab.run(["media", "adopt", "medium"]).ok();
    let run = lab.run(["prune", "--json", "--keep-last", "1"]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    let pruned = serde_json::from_str::<Value>(&run.stdout).unwrap();
    assert_eq!(letters(&pruned), "kkk", "{pruned:#}");
    assert!(pruned.to_string().contains("damaged"), "{pruned:#}");
    comes_back(&lab, 1, &locked);
    assert!(!lab.run(["sessions"]).ok().stdout.contains(&later[..8]), "it went before");
}

#[test]
fn a_medium_that_was_exported_or_is_busy_is_pruned_later() {
    let lab = Lab::new();
    let first = step(&lab, 0, &[]);
    step(&lab, 1, &[]);
    lab.run(["media", "export", "medium"]).ok();
    lab.sh("mv medium away");
    let pruned = prune(&lab, &["--keep-last", "1"]);
    assert_eq!((letters(&pruned), pruned["removed_versions"].as_u64()), ("rk".into(), Some(0)));
    assert_eq!(pruned["pending"][0]["segments"], 1, "{pruned:#}");
    lab.sh("mv away medium");
    lab.run(["restore", &format!("t@{first}"), "--into", "out"]).refused(&["expired"]);
    lab.run(["import", "medium"]).ok();
    // A writer has it.
    let mut command = lab.command();
    command.args(["backup", "--stdin", "--name", "other", "--to", "medium"]);
    let mut writer = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // To try the lock would take it for a moment, in which the writer finds it taken.
    let held = || lab.succeeds("grep -q :$(stat -c %i medium/medium.capstan) /proc/locks");
    crate::support::wait_for("the writer", held);
    let run = lab.run(["prune", "--keep-last", "1"]);
    assert!(run.ok().stdout.contains("in use by process"), "{}", run.stdout);
    assert_eq!(names(&lab, ".segment").len(), 2);
    drop(writer.stdin.take());
    writer.wait().unwrap();
    let before = names(&lab, ".segment");
    let run = lab.run(["prune"]);
    assert!(run.ok().stdout.contains("1 version removed"), "{}", run.stdout);
    assert_eq!(before.len() - names(&lab, ".segment").len(), 1);
    lab.run(["verify", "t"]).ok();
}

#[test]
fn a_catalog_goes_before_its_version() {
    let lab = Lab::new();
    let session = step(&lab, 0, &["--protect-catalog", "none"]);
    step(&lab, 1, &[]);
    assert_eq!(catalogs(&lab), 2);
    assert_eq!(prune(&lab, &[])["removed_catalogs"], 1);
    assert_eq!(catalogs(&lab), 1);
    comes_back(&lab, 0, &session);
    let listed = lab.run(["ls", &format!("t@{session}")]);
    assert!(listed.ok().stdout.contains("step-0"), "the medium's is read");
    // That it is not here is as asked; that one is missing which is to be kept is not.
    lab.run(["idb", "check"]).ok();
    lab.sh("rm home/catalogs/*.catalog");
    let check = lab.run(["idb", "check"]);
    assert_eq!(check.code, 3, "{}", check.stdout);
    assert_eq!(check.stdout.matches("catalog file is missing").count(), 1, "{}", check.stdout);
}

#[test]
fn numbers_are_not_given_again() {
    let lab = Lab::new();
    step(&lab, 0, &[]);
    assert_eq!(letters(&prune(&lab, &["t", "--give-up"])), "r");
    assert!(names(&lab, ".segment").is_empty());
    let before = BTreeSet::new();
    let second = step(&lab, 1, &[]);
    assert_eq!(segment_of(&lab, &before), "00000002.segment");
    comes_back(&lab, 1, &second);
}

/// A backup that cannot be locked as asked is complete all the same, and says so.
#[test]
fn a_copy_of_what_is_locked_is_locked_too() {
    let lab = Lab::new();
    let session = step(&lab, 0, &["--lock-until", "90d"]);
    lab.run(["copy", "t", "--to", "copy"]).ok();
    assert!(lab.succeeds("ls copy/*.lock"), "no lock on the copy");
    lab.run(["media", "recycle", "copy"]).refused(&["holds what must stay"]);
    // Also where nothing is known of it but what is on the medium.
    fs::remove_dir_all(lab.path("home")).unwrap();
    lab.run(["import", "copy"]).ok();
    lab.run(["protect", &format!("t@{session}"), "--none"]).ok();
    let pruned = prune(&lab, &[]);
    assert_eq!(letters(&pruned), "k", "{pruned:#}");
    comes_back(&lab, 0, &session);
}

#[test]
fn a_lock_that_is_not_there_is_an_error() {
    let lab = Lab::new();
    let base = step(&lab, 0, &[]);
    // What it builds on is on a medium that somebody writes to.
    let writer = fs::File::open(lab.path("medium/medium.capstan")).unwrap();
    writer.lock().unwrap();
    let report = lab.backup(["tree", "--to", "m2", "--name", "t", "--incr", "--lock-until", "9d"]);
    drop(writer);
    assert_eq!(report["status"], "completed_with_errors", "{report:#}");
    assert_eq!(report["errors"][0]["code"], "not-locked", "{report:#}");
    let of = format!("t@{}", report["session"].as_str().unwrap());
    lab.run(["lock", &of, "--until", "9d"]).ok();
    lab.run(["protect", &format!("t@{base}"), "--none"]).ok();
    assert_eq!(letters(&prune(&lab, &["--keep-last", "1"])), "kk");
    assert_eq!((names(&lab, ".lock").len(), lab.sh("ls m2/*.lock").lines().count()), (1, 1));
}

/// A removal that fails halfway is said, and goes on at the next prune.
#[test]
fn a_segment_that_cannot_be_removed_stays() {
    let lab = Lab::new();
    let sessions: Vec<_> = (0..4).map(|n| step(&lab, n, &[])).collect();
    if !lab.succeeds("chattr +i medium/00000002.segment") {
        return crate::support::skip("no immutable files here");
    }
    let run = lab.run(["prune", "--keep-last", "1"]);
    assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
    assert!(
        run.stdout.contains("2 segments with") && run.stderr.contains("00000002"),
        "{}",
        run.stdout
    );
    assert_eq!(names(&lab, ".segment").len(), 3, "the last went first");
    comes_back(&lab, 3, &sessions[3]);
    lab.sh("chattr -i medium/00000002.segment");
    assert_eq!(prune(&lab, &[])["removed_versions"], 2);
    assert_eq!(names(&lab, ".segment").len(), 1);
    comes_back(&lab, 3, &sessions[3]);
}

/// Somebody removed segments by hand, and another home took the medium as it is and gave their numbers again: prune removes
/// nothing of the new ones.
#[test]
fn another_segment_of_that_number_stays() {
    let lab = Lab::new();
    let kept = step(&lab, 0, &[]);
    step(&lab, 1, &[]);
    // It is given up while the medium is away.
    lab.run(["protect", "--session", &kept, "--permanent"]).ok();
    lab.run(["media", "export", "medium"]).ok();
    lab.sh("mv medium away");
    prune(&lab, &["t", "--give-up"]);
    lab.sh("mv away medium; rm medium/00000002.segment; cp -a home kept");
    let tables = lab.keep_tables();
    lab.run(["import", "medium"]).ok();
    let new = step(&lab, 2, &[]);
    // We give no number of a recorded segment again; others may have.
    lab.sh("mv medium/00000003.segment medium/00000002.segment");
    lab.sh("rm -rf home; mv kept home");
    lab.put_tables_back(&tables);
    // Neither while it is out of the house by record, nor as it is not what was last written.
    for state in ["exported", "changed"] {
        let pruned = prune(&lab, &[]);
        assert_eq!(letters(&pruned), "kr", "{state}");
        let removed = (&pruned["removed_segments"], &pruned["removed_versions"]);
        assert_eq!(removed, (&0.into(), &0.into()), "{state}");
        lab.edit_tables("UPDATE media_management SET exported_us = NULL");
    }
    lab.run(["import", "medium"]);
    comes_back(&lab, 2, &new);
}

#[test]
fn bad_input_is_refused() {
    let lab = Lab::new();
    let session = step(&lab, 0, &[]);
    let of = format!("t@{session}");
    let past = &["protection in the past"];
    lab.run(["backup", "tree", "--to", "m2", "--protect", "2001-01-01"]).refused(past);
    lab.run(["backup", "tree", "--to", "m2", "--protect-catalog", "0d"]).refused(past);
    lab.run(["backup", "tree", "--to", "m2", "--lock-until", "2001-01-01"]).refused(past);
    assert!(!lab.path("m2").exists());
    lab.run(["protect", &of, "--until", "2001-01-01"]).refused(past);
    lab.run(["lock", &of, "--until", "1999-12-31"]).refused(past);
    lab.run(["backup", "tree", "--to", "null:", "--lock-until", "9d"]).refused(&["null device"]);
    lab.run(["backup", "tree", "--to", "m2", "--protect", "soon"]).refused(&["it is no time"]);
    lab.run(["protect", &of]).refused(&["--until"]);
    lab.run(["protect", &of, "--none", "--permanent"]).refused(&["--permanent"]);
    lab.run(["protect", "--session", "ffffffff", "--none"]).refused(&["no session"]);
    lab.run(["lock", "nobody", "--until", "9d"]).refused(&["no object is called 'nobody'"]);
    lab.run(["prune", "nobody"]).refused(&["no object is called 'nobody'"]);
    lab.run(["prune", "--keep-daily", "-1"]).refused(&["unlimited"]);
    lab.run(["prune", "--keep-within", "5x"]).refused(&["no span of time"]);
    comes_back(&lab, 0, &session);
}

/// Puts medium and home back as they were. Segments and catalogs are never written again, so links to them will do.
fn put_back(lab: &Lab, tables: &Option<String>) {
    // Where the file system can, each removal waits for the disk: else they are all done before a kill comes.
    lab.sh(
        "rm -rf medium home; cp -al saved/* .; rm home/capstan.*; cp -a saved/home/capstan.* home; \
         chattr +D medium || true",
    );
    lab.put_tables_back(tables);
}

/// SIGKILL at any moment of a prune: at random, and where the removal of segments has come to a random one.
#[test]
fn a_killed_prune_costs_nothing_that_is_kept() {
    let lab = Lab::new();
    let small = ["--block-size", "64K", "--segment-size", "64K", "--compress", "off"];
    let kept: Vec<String> = (0..5)
        .map(|n| {
            lab.file(&format!("tree/more-{n}"), noise(50 + n as u64, 900_000));
            let incr: &[&str] = if n % 3 == 0 { &[] } else { &["--incr"] };
            step(&lab, n, &[&small[..], incr].concat())
        })
        .collect();
    // Of two chains the first goes, but for what is locked of it.
    lab.run(["lock", &format!("t@{}", kept[0]), "--until", "9d"]).ok();
    lab.sh("mkdir saved; cp -a medium home saved");
    let tables = lab.keep_tables();
    let all = names(&lab, ".segment");
    let rules = ["prune", "--keep-last", "1"];
    let begun = Instant::now();
    lab.run(rules).ok();
    let (whole, left) = (begun.elapsed(), names(&lab, ".segment"));
    let gone: Vec<&String> = all.difference(&left).collect();
    assert!(gone.len() > 20, "{} of {}", gone.len(), all.len());
    let (rounds, mut seed, mut halfway) = (if soak() { 400 } else { 6 }, 11_u64, 0);
    for round in 0..rounds {
        put_back(&lab, &tables);
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = f64::from((seed >> 40) as u32) / f64::from(1 << 24);
        let mut command = lab.command();
        command.args(rules).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        if round % 3 == 0 {
            std::thread::sleep(whole.mul_f64(share));
        } else {
            let at = lab.path("medium").join(gone[(share * gone.len() as f64 / 3.0) as usize]);
            let begun = Instant::now();
            while at.exists() && begun.elapsed() < 20 * whole {}
        }
        let _ = child.kill();
        child.wait().unwrap();
        let now = names(&lab, ".segment");
        assert!(now.is_superset(&left), "what is kept is gone: {:?}", left.difference(&now));
        halfway += usize::from(now.len() > left.len() && now.len() < all.len());
        // What the killed one had begun is for the next one to end, and nothing to worry about.
        let checked = lab.run(["idb", "check", "--json"]).stdout;
        assert!(!checked.contains("put its file back"), "{checked}");
        for n in [0, 4] {
            lab.run(["verify", &format!("t@{}", kept[n])]).ok();
        }
        // The database may be lost as well: what was cut short is not taken for complete.
        if round % 5 == 4 {
            fs::remove_dir_all(lab.path("home")).unwrap();
            lab.run(["import", "medium", "--quiet"]);
            lab.run(["media", "adopt", "medium"]).ok();
            let listed = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
            for line in listed.lines() {
                let session: Value = serde_json::from_str(line).unwrap();
                if session["kind"] == "backup" && session["status"] == "completed" {
                    lab.run(["verify", &format!("t@{}", session["id"].as_str().unwrap())]).ok();
                }
            }
        }
        lab.run(rules).ok();
        assert_eq!(names(&lab, ".segment"), left, "round {round}");
        let _ = fs::remove_dir_all(lab.path("out"));
        lab.restored(["t", "--into", "out"]);
        same_by_rsync(&lab.path("state-4"), &below(&lab.path("out"), &lab.path("tree")));
    }
    eprintln!("{halfway} of {rounds} prunes were killed between their first and last removal");
    assert!(
        halfway * 8 > rounds,
        "hardly any prune was killed while it removed segments: {halfway}"
    );
}

#[test]
fn a_version_that_is_gone_from_its_medium_pushes_none_out() {
    let lab = Lab::new();
    let sessions: Vec<String> = (0..3).map(|n| step(&lab, n, &[])).collect();
    // The home is put back as it was before a prune took the two newest.
    lab.sh("cp -a home before");
    let tables = lab.keep_tables();
    lab.run(["protect", &format!("t@{}", sessions[0]), "--permanent"]).ok();
    prune(&lab, &["t", "--give-up"]);
    lab.sh("rm -r home; mv before home");
    lab.put_tables_back(&tables);
    // Until somebody says that it is meant, nothing goes.
    let still = lab.run(["prune", "--keep-last", "1"]);
    assert_eq!(still.code, 3, "{}{}", still.stdout, still.stderr);
    assert!(still.stderr.contains("segments 2 and 3 are missing"), "{}", still.stderr);
    lab.run(["import", "medium"]);
    assert_eq!(letters(&prune(&lab, &["--keep-last", "1"])), "k");
    comes_back(&lab, 0, &sessions[0]);
}

#[test]
fn what_was_pruned_does_not_come_back_with_the_database() {
    let lab = Lab::new();
    let sheet = lab.run(["idb", "recovery-key"]).ok().stdout.clone();
    fs::write(lab.path("sheet"), sheet).unwrap();
    let kept = step(&lab, 0, &[]);
    step(&lab, 1, &["--protect", "none"]);
    lab.run(["protect", &format!("t@{kept}"), "--permanent"]).ok();
    assert_eq!(letters(&prune(&lab, &["t", "--give-up"])), "kr");
    fs::remove_dir_all(lab.path("home")).unwrap();
    lab.run(["idb", "recover", "medium", "--code-file", "sheet"]).ok();
    lab.restored(["t", "--into", "newest"]);
    same(&lab, &lab.path("state-0"), &below(&lab.path("newest"), &lab.path("tree")));
    assert_eq!(letters(&prune(&lab, &["--keep-last", "1"])), "k");
    comes_back(&lab, 0, &kept);
}

#[test]
fn a_copy_alone_can_be_locked() {
    let lab = Lab::new();
    let session = step(&lab, 0, &[]);
    lab.run(["copy", "t", "--to", "copy"]).ok();
    lab.sh("mv medium lost");
    lab.run(["lock", "t", "--until", "90d"]).ok();
    assert!(lab.succeeds("ls copy/*.lock"));
    lab.run(["verify", "--medium", "copy"]).ok();
    lab.restored([&format!("t@{session}"), "--into", "out"]);
}

#[test]
fn nothing_builds_on_what_was_found_damaged() {
    let lab = Lab::new();
    step(&lab, 0, &[]);
    lab.sh("s=$(ls medium/*.segment | head -1); printf XXXX | dd of=$s bs=1 seek=150000 conv=notrunc status=none");
    assert_eq!(lab.run(["verify", "t"]).code, 3);
    assert_eq!(lab.run(["status", "t"]).code, 6, "its only version is damaged");
    let args = ["tree", "--to", "medium", "--name", "t"];
    let run = lab.run([&["backup"], &args[..]].concat());
    assert!(run.ok().stderr.contains("was found damaged"), "{}", run.stderr);
    lab.restored(["t", "--into", "out"]);
    same(&lab, &lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
}
