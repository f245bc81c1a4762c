//! Tapes that their drives encrypt: what lies on them, who takes them, and what opens them.

use std::path::{Path, PathBuf};

use capstan_medium::tape::Spot;
use capstan_tape::DriveKey;
use capstan_tape::vtl::library::{Design, Library};
use serde_json::Value;

use crate::changed_media::{on_tape, state};
use crate::compare::same_by_rsync;
use crate::independent_reader::Reader;
use crate::support::{Lab, Run, below, finish, noise, report};
use crate::tape::{comes_back, library, library_of, media};

const SECRET: &str = "correct horse battery";
const OTHER: &str = "staple of another kind";

/// A lab whose home has a key ring, and whose commands have its passphrase.
fn lab() -> Lab {
    Lab::with_passphrase(Some(SECRET))
}

/// Runs with that passphrase, or without any, and without a terminal.
fn run_with(lab: &Lab, secret: &str, args: &[&str]) -> Run {
    let mut command = lab.program("setsid");
    command.arg("--wait").arg(env!("CARGO_BIN_EXE_capstan")).env("CAPSTAN_HOME", lab.path("home"));
    command.env("CAPSTAN_PASSPHRASE", secret).env("CAPSTAN_NEW_PASSPHRASE", OTHER);
    finish(command.args(args))
}

/// A tree of some megabytes that cannot be compressed.
fn tree(lab: &Lab, megabytes: u64) {
    for n in 0..megabytes {
        lab.file(&format!("tree/{n:02}"), noise(n + 1, 1_000_000));
    }
    lab.file("tree/sub/small", "small\n");
}

fn has(path: &Path, piece: &[u8]) -> bool {
    std::fs::read(path).unwrap().windows(piece.len()).any(|w| w == piece)
}

/// Whether a file has something of the tree as it is.
fn has_clear_text(path: &Path) -> bool {
    let file = noise(1, 1_000_000);
    [100_000, 300_000, 500_000, 800_000].iter().any(|at| has(path, &file[*at..at + 64]))
}

fn tape_file(lab: &Lab, barcode: &str) -> PathBuf {
    lab.path(format!("vtl/tapes/{barcode}.tape"))
}

/// What is said of a medium.
fn shown(lab: &Lab, medium: &str) -> Value {
    let run = run_with(lab, "", &["media", "show", medium, "--json"]);
    serde_json::from_str(&run.ok().stdout).unwrap()
}

fn labels(report: &Value) -> Vec<&str> {
    report["media"].as_array().unwrap().iter().map(|l| l.as_str().unwrap()).collect()
}

const BACKUP: [&str; 7] = ["tree", "--to", "vtape:vtl", "--name", "t", "--encrypt", "drive"];

#[test]
fn a_backup_spans_tapes_that_have_nothing_of_it_in_clear() {
    let lab = lab();
    library(&lab, 1, 4);
    tree(&lab, 50);
    let full = lab.backed_up(BACKUP);
    let on = labels(&full);
    assert!(on.len() >= 2, "{full}");
    assert_eq!(full["encryption"], "drive");
    for label in &on {
        assert!(!has_clear_text(&tape_file(&lab, label)), "{label}");
        // Not a frame's four bytes: in so much noise these are found by chance.
        let record = b"\"session_end\"";
        assert!(!has(&tape_file(&lab, label), record), "{label}: a record in clear");
        assert!(has(&tape_file(&lab, label), b"drive_key"), "{label}: its header is in clear");
        assert_eq!(shown(&lab, label)["encryption"], "drive");
    }
    assert_eq!(shown(&lab, on[0])["drive_key"].as_array().unwrap().len(), 1);
    comes_back(&lab, "t", &lab.path("tree"));
    // Each tape has a key of its own, and is verified as any.
    for label in &on {
        lab.run(["verify", "--medium", label]).ok();
    }
    lab.run(["verify", "t"]).ok();
    lab.run(["drill", "t", "--sample", "20%"]).ok();
    lab.run(["idb", "check"]).ok();
}

#[test]
fn sessions_append_where_the_key_opens_and_take_another_tape_where_not() {
    let lab = lab();
    library(&lab, 1, 2);
    tree(&lab, 3);
    let full = lab.backed_up(BACKUP);
    lab.sh("cp -a tree first; rm tree/01; echo new >tree/new");
    let second = lab.backed_up(BACKUP);
    assert_eq!((&second["media"], &second["method"]), (&full["media"], &"incr".into()));
    comes_back(&lab, "t", &lab.path("tree"));
    let first = format!("t@{}", full["session"].as_str().unwrap());
    comes_back(&lab, &first, &lab.path("first"));
    // Nobody is there to ask: a new tape takes public keys only.
    let args = [&["backup", "--json"], &BACKUP[..]].concat();
    let third = run_with(&lab, "", &args);
    assert!(third.stderr.contains("no secret is given that opens its key"), "{}", third.stderr);
    let third = report(third);
    assert_eq!(third["status"], "completed", "{third}");
    assert_ne!(third["media"], full["media"]);
    comes_back(&lab, "t", &lab.path("tree"));
    for secret in ["", "wrong"] {
        let refused = run_with(&lab, secret, &args);
        refused
            .refused(&["V00001L9 is encrypted by its drive, and no secret is given", "V00002L9"]);
    }
    let named = ["backup", "tree", "--to", "vtape:vtl?tape=V00001L9", "--encrypt", "drive"];
    run_with(&lab, "", &named).refused(&[
        "'V00001L9'",
        "its key does not open",
        "CAPSTAN_PASSPHRASE",
    ]);
}

#[test]
fn without_the_secret_nothing_is_written_and_all_that_is_known_is_shown() {
    let lab = lab();
    library(&lab, 1, 2);
    tree(&lab, 2);
    lab.backed_up(BACKUP);
    let restore = ["restore", "t", "--into", "out"];
    run_with(&lab, "", &restore)
        .refused(&["tape 'V00001L9' is encrypted by its drive", "no secret"]);
    run_with(&lab, "wrong", &restore).refused(&["tape 'V00001L9'", "wrong passphrase"]);
    assert!(!lab.path("out").exists());
    for args in [
        &["restore", "t", "--to-tar", "t.tar"][..],
        &["verify", "t"],
        &["verify", "--medium", "V00001L9"],
        &["copy", "t", "--to", "disk"],
        &["catalog", "load", "t"],
    ] {
        let refused = run_with(&lab, "", args);
        assert_ne!(refused.code, 0, "{args:?}");
        assert!(refused.stderr.contains("V00001L9"), "{args:?}: {}", refused.stderr);
    }
    assert!(!lab.path("disk").exists() && !lab.path("t.tar").exists());
    assert_eq!(shown(&lab, "V00001L9")["state"], "appendable", "it is not damaged");
    for args in [
        &["media", "list"][..],
        &["library", "inventory", "vtape:vtl"],
        &["ls", "t", "/"],
        &["idb", "check"],
        &["sessions"],
    ] {
        run_with(&lab, "", args).ok();
    }
    run_with(&lab, SECRET, &restore).ok();
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
}

#[test]
fn a_tape_and_the_secret_are_enough_when_the_home_is_lost() {
    let lab = lab();
    library(&lab, 1, 5);
    tree(&lab, 45);
    let full = lab.backed_up(BACKUP);
    assert!(labels(&full).len() >= 2);
    // What is wrapped anew in the database opens as what is on tape.
    run_with(&lab, SECRET, &["key", "rotate"]).ok();
    for (secret, into) in [(OTHER, "rotated"), (SECRET, "former")] {
        run_with(&lab, secret, &["restore", "t", "--into", into]).ok();
        same_by_rsync(&lab.path("tree"), &below(&lab.path(into), &lab.path("tree")));
    }
    std::fs::remove_dir_all(lab.path("home")).unwrap();
    let refused = run_with(&lab, "", &["import", "vtape:vtl"]);
    refused.refused(&["is encrypted by its drive, and its key", "CAPSTAN_PASSPHRASE"]);
    run_with(&lab, "wrong", &["import", "vtape:vtl"]).refused(&["wrong passphrase"]);
    assert!(run_with(&lab, "", &["sessions", "--kind", "all", "--json"]).ok().rows().is_empty());
    assert!(run_with(&lab, "", &["media", "list", "--json"]).ok().rows().is_empty());
    let import = run_with(&lab, SECRET, &["import", "vtape:vtl"]);
    import.ok();
    assert!(
        import.stderr.contains("new backups of this home are not encrypted"),
        "{}",
        import.stderr
    );
    comes_back(&lab, "t", &lab.path("tree"));
    // And the tape has the ring for new ones: the command that is named takes it.
    let adopt = lab.run(["media", "adopt", "vtape:vtl"]);
    adopt.refused(&["this home has no key ring", "`capstan key import "]);
    let hint = adopt.stderr.split("`capstan ").nth(1).unwrap().split('`').next().unwrap();
    let binary = env!("CARGO_BIN_EXE_capstan");
    lab.sh(&format!("CAPSTAN_HOME=home CAPSTAN_PASSPHRASE='{SECRET}' {binary} {hint}"));
    let again = lab.backed_up(BACKUP);
    assert!(!labels(&full).contains(&labels(&again)[0]), "those are another cell's: {again}");
}

#[test]
fn a_tape_is_of_one_kind_as_long_as_it_holds_anything() {
    let lab = lab();
    library(&lab, 1, 1);
    tree(&lab, 1);
    let plain = ["backup", "tree", "--to", "vtape:vtl", "--name", "p"];
    let by_drive = [&["backup"], &BACKUP[..]].concat();
    let named = ["backup", "tree", "--to", "vtape:vtl?tape=V00001L9"];
    lab.run(&by_drive).ok();
    lab.run(plain).refused(&["V00001L9 is encrypted by its drive"]);
    lab.run(named).refused(&["'V00001L9' is encrypted by its drive", "with --encrypt drive"]);
    lab.run(["media", "protect", "V00001L9", "--none"]).ok();
    // It is given up without the secret too.
    run_with(&lab, "", &["media", "recycle", "V00001L9", "--give-up"]).ok();
    assert_eq!(shown(&lab, "V00001L9")["encryption"], Value::Null);
    lab.run(plain).ok();
    comes_back(&lab, "p", &lab.path("tree"));
    lab.run(&by_drive).refused(&["V00001L9 is not encrypted by its drive"]);
    let named = [&named[..], &["--encrypt", "drive"]].concat();
    lab.run(named)
        .refused(&["'V00001L9' is not encrypted by its drive", "without --encrypt drive"]);
    lab.run(["media", "protect", "V00001L9", "--none"]).ok();
    lab.run(["media", "recycle", "V00001L9", "--give-up"]).ok();
    lab.run(&by_drive).ok();
    comes_back(&lab, "t", &lab.path("tree"));
    lab.run(["media", "protect", "V00001L9", "--none"]).ok();
    run_with(&lab, "", &["media", "erase", "V00001L9", "--give-up"]).ok();
    assert!(media(&lab).is_empty());
}

#[test]
fn what_cannot_be_encrypted_by_a_drive_is_refused_before_anything_is_written() {
    let lab = lab();
    tree(&lab, 1);
    for to in ["disk", "null:", "rait1:a,b"] {
        let run = lab.run(["backup", "tree", "--to", to, "--encrypt", "drive"]);
        run.refused(&["is no tape", "only tape drives encrypt by themselves"]);
    }
    lab.run(["copy", "t", "--to", "disk", "--encrypt", "drive"]);
    assert!(!lab.path("disk").exists() && !lab.path("a").exists());
    let old = Design { model: "lto-3".into(), ..library_of(1, 1) };
    Library::create(&lab.path("vtl"), &old, 1).unwrap();
    lab.run([&["backup"], &BACKUP[..]].concat()).refused(&["drive", "cannot encrypt", "LTO-4"]);
    let tapes: Vec<_> = std::fs::read_dir(lab.path("vtl/tapes")).unwrap().flatten().collect();
    let tape = tapes.iter().find(|t| t.path().extension().is_some_and(|e| e == "tape")).unwrap();
    assert_eq!(tape.metadata().unwrap().len(), 16, "a blank tape");
    let mirror = ["backup", "tree", "--to", "vtape:vtl", "--mirror", "disk", "--encrypt", "drive"];
    lab.run(mirror).refused(&["disk", "is no tape"]);
    assert_eq!(tape.metadata().unwrap().len(), 16, "a blank tape");
    // The key has to be kept by somebody.
    let lab = Lab::new();
    library(&lab, 1, 1);
    tree(&lab, 1);
    for by in ["drive", "software"] {
        let run = lab.run(["backup", "tree", "--to", "vtape:vtl", "--encrypt", by]);
        run.refused(&["needs a key ring", "capstan key init"]);
    }
    assert_eq!(std::fs::metadata(tape_file(&lab, "V00001L9")).unwrap().len(), 16);
}

#[test]
fn a_pool_gives_tapes_of_the_kind_that_is_asked_for() {
    let lab = lab();
    library(&lab, 1, 3);
    tree(&lab, 1);
    lab.run(["pool", "create", "p"]).ok();
    lab.run(["media", "init", "disk", "--pool", "p"]).ok();
    for tape in ["V00001L9", "V00002L9"] {
        lab.run(["media", "init", &format!("vtape:vtl?tape={tape}"), "--pool", "p"]).ok();
    }
    let to = |name| ["tree", "--to", "pool:p", "--name", name];
    let by_drive = |name| [&to(name)[..], &["--encrypt", "drive"]].concat();
    let first = lab.backed_up(by_drive("a"));
    assert_eq!(first["media"][0], "V00001L9");
    let plain = lab.backed_up(to("b"));
    assert_eq!(plain["media"][0], "disk");
    let again = lab.backed_up(by_drive("a"));
    assert_eq!(again["media"][0], "V00001L9");
    comes_back(&lab, "a", &lab.path("tree"));
    assert_eq!(shown(&lab, "V00001L9")["pool"], "p");
    // Where no secret is given, the free one is next; then there is none.
    let args = [&["backup", "--json"], &by_drive("a")[..]].concat();
    assert_eq!(report(run_with(&lab, "", &args))["media"][0], "V00002L9");
    run_with(&lab, "", &args).refused(&["disk is no tape", "V00001L9 is encrypted by its drive"]);
}

#[test]
fn copies_go_onto_such_tapes_and_say_where_they_lie_in_clear() {
    let lab = lab();
    library(&lab, 2, 3);
    tree(&lab, 3);
    lab.backed_up(BACKUP);
    let copy = lab.run(["copy", "t", "--to", "disk"]);
    copy.ok();
    assert!(copy.stderr.contains("lies in clear on medium 'disk'"), "{}", copy.stderr);
    assert!(has_clear_text(&lab.path("disk/00000001.segment")), "what is in clear is found");
    lab.sh("mv vtl away");
    run_with(&lab, "", &["restore", "t", "--into", "out"]).ok();
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    lab.sh("mv away vtl; cp -a tree state");
    // What is on disk goes to tapes that are encrypted: where the tape is, or where that is asked for.
    lab.backed_up(["tree", "--to", "stage", "--name", "s"]);
    let onto = "vtape:vtl?tape=V00001L9";
    lab.run(["copy", "s", "--to", onto]).ok();
    let staged = lab.run(["stage", "stage", "--to", "vtape:vtl", "--encrypt", "drive", "--json"]);
    let staged: Value = serde_json::from_str(&staged.ok().stdout).unwrap();
    assert_eq!(
        (&staged["encryption"], &staged["staged"]["staged_versions"]),
        (&"drive".into(), &1.into())
    );
    comes_back(&lab, "s", &lab.path("state"));
    lab.sh("rm tree/01; echo new >tree/new");
    lab.backed_up([&BACKUP[..], &["--incr"]].concat());
    lab.run(["consolidate", "t", "--encrypt", "drive"]).ok();
    comes_back(&lab, "t", &lab.path("tree"));
    for tape in ["V00001L9", "V00002L9"] {
        assert!(!has_clear_text(&tape_file(&lab, tape)), "{tape}");
    }
}

#[test]
fn what_is_attached_is_encrypted_too_and_comes_back() {
    let lab = lab();
    library(&lab, 1, 1);
    tree(&lab, 1);
    lab.file("sheet", lab.run(["idb", "recovery-key"]).ok().stdout.clone());
    lab.backed_up(BACKUP);
    lab.run(["lock", "t", "--until", "1d"]).ok();
    assert!(!has(&tape_file(&lab, "V00001L9"), b"\"attachment\""));
    lab.run(["verify", "--medium", "V00001L9"]).ok();
    std::fs::remove_dir_all(lab.path("home")).unwrap();
    let recover = ["idb", "recover", "vtape:vtl?tape=V00001L9", "--code-file", "sheet"];
    run_with(&lab, "", &recover).refused(&["'V00001L9' is encrypted by its drive"]);
    run_with(&lab, SECRET, &recover).ok();
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn spools_before_and_behind_such_a_drive_change_nothing() {
    let lab = lab();
    library(&lab, 1, 2);
    tree(&lab, 20);
    let spool = lab.mkdir("spool");
    let spooled = format!("vtape:vtl?spool={}&spool-size=16M", spool.display());
    let done = lab.backed_up(["tree", "--to", &spooled, "--name", "t", "--encrypt", "drive"]);
    assert!(!has_clear_text(&tape_file(&lab, labels(&done)[0])));
    let into = lab.path("out");
    lab.restored(["t", "--into", into.to_str().unwrap(), "--spool", "spool"]);
    same_by_rsync(&lab.path("tree"), &below(&into, &lab.path("tree")));
}

#[test]
fn a_specification_has_the_drive_encrypt() {
    let lab = lab();
    library(&lab, 1, 1);
    tree(&lab, 1);
    lab.file(
        "spec.toml",
        format!(
            "device = \"vtape:{0}/vtl\"\n[options]\nencrypt = \"drive\"\n[[object]]\nname = \"t\"\npaths = [\"{0}/tree\"]\n",
            lab.path("").display().to_string().trim_end_matches('/')
        ),
    );
    lab.run(["run", "spec.toml"]).ok();
    assert!(!has_clear_text(&tape_file(&lab, "V00001L9")));
    assert_eq!(shown(&lab, "V00001L9")["encryption"], "drive");
    comes_back(&lab, "t", &lab.path("tree"));
    lab.file("bad.toml", "[stage]\nfrom = \"p\"\nto = \"pool:q\"\nencrypt = \"software\"\n");
    let bad = lab.run(["run", "--check", "bad.toml"]);
    assert!(bad.stderr.contains("'software'"), "{}", bad.stderr);
}

#[test]
fn of_a_library_what_does_not_open_is_named_and_the_rest_is_imported() {
    let lab = lab();
    library(&lab, 1, 2);
    tree(&lab, 1);
    lab.backed_up(BACKUP);
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "p"]);
    std::fs::remove_dir_all(lab.path("home")).unwrap();
    let import = run_with(&lab, "", &["import", "vtape:vtl"]);
    assert_eq!(import.code, 3, "{}{}", import.stdout, import.stderr);
    assert!(import.stdout.contains("their keys do not open: V00001L9"), "{}", import.stdout);
    run_with(&lab, SECRET, &["import", "vtape:vtl"]).ok();
    comes_back(&lab, "p", &lab.path("tree"));
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn other_readers_refuse_such_a_tape_in_words() {
    let lab = lab();
    library(&lab, 1, 1);
    tree(&lab, 1);
    lab.backed_up(BACKUP);
    let Some(reader) = Reader::find() else { return };
    let run = reader.run(&lab, Some(SECRET), &["list", "vtl/tapes/V00001L9.tape"]);
    assert_ne!(run.code, 0);
    assert!(run.stderr.contains("encrypted by its tape drive"), "{}{}", run.stdout, run.stderr);
}

/// The key of an array's tapes is the array's: it opens what one of them has that is of no array any more.
#[test]
fn a_replaced_tape_of_an_array_can_be_erased() {
    let lab = Lab::with_passphrase(Some("correct horse"));
    lab.run(
        "vtl create vtl --drives 4 --slots 12 --tapes 6 --capacity 60M --scale 2000".split(' '),
    )
    .ok();
    lab.file("tree/f", noise(1, 2_000_000));
    lab.backed_up([
        "tree",
        "--to",
        "rait5:vtape:vtl,vtape:vtl,vtape:vtl",
        "--encrypt",
        "drive",
        "--name",
        "t",
    ]);
    let rebuild =
        "rait rebuild V00001L9 --member vtape:vtl?tape=V00002L9 --onto vtape:vtl?tape=V00006L9";
    lab.run(rebuild.split(' ')).ok();
    lab.run(["media", "erase", "vtape:vtl?tape=V00002L9", "--foreign"]).ok();
    lab.backed_up(["tree", "--to", "vtape:vtl?tape=V00002L9", "--name", "t"]);
}

/// Some of a tape was written with another key, as by a library that manages keys itself: nobody can say that it is damaged.
#[test]
fn what_needs_another_key_is_not_damaged() {
    let lab = lab();
    library(&lab, 1, 3);
    tree(&lab, 3);
    lab.backed_up(BACKUP);
    lab.sh("cp -a tree first");
    lab.file("tree/more", noise(77, 2_000_000));
    let second = lab.backed_up(BACKUP);
    assert_eq!(second["media"], serde_json::json!(["V00001L9"]));
    // All files of the second session, block by block.
    on_tape(&lab.path("vtl"), "V00001L9", |drive| {
        let files = drive.locate_end().unwrap().file;
        let key = DriveKey::new([9; 32]);
        drive.locate(Spot { file: 3, block: 0, object: None }).unwrap();
        drive.set_key(Some(&key)).unwrap();
        for _ in 3..files {
            for _ in 0..4 {
                drive.write_block(&[b'x'; 1 << 18]).unwrap();
            }
            drive.write_filemark().unwrap();
        }
        drive.sync().unwrap();
    });
    for args in [
        &["verify", "t"][..],
        &["verify", "--medium", "V00001L9"],
        &["restore", "t", "--into", "out"],
        &["copy", "t", "--to", "disk"],
        &["media", "repair", "V00001L9"],
        &["verify", "t"],
    ] {
        let run = lab.run(args);
        assert_ne!(run.code, 0, "{args:?} {}", run.stderr);
        let text = format!("{}{}", run.stdout, run.stderr);
        assert!(text.contains("encrypted with another key"), "{args:?}: {text}");
        assert!(!text.contains("[damaged]"), "{args:?}: {text}");
        assert_ne!(state(&lab, "V00001L9"), "damaged", "{args:?}: {text}");
    }
}
