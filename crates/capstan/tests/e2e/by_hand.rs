//! A drive that stands alone: its tapes are asked for, and put in by hand.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use capstan_tape::vtl::library::{Design, Library};
use capstan_tape::{Changer, TapeDrive};

use crate::compare::same_by_rsync;
use crate::support::{Lab, Run, below, finish, noise, report, wait_for};
use crate::tape::{library_of, media, tree};

/// A drive with so many tapes on its shelf, of so many megabytes.
pub fn drive(lab: &Lab, tapes: u32, megabytes: u64) -> Library {
    let capacity = Some(megabytes * 1_000_000);
    let design = Design { alone: true, mail_slots: 0, capacity, ..library_of(1, tapes) };
    Library::create(&lab.path("drive"), &design, tapes).unwrap()
}

pub fn barcode(n: usize) -> String {
    format!("V{n:05}L9")
}

/// Puts a tape in as soon as nobody has the drive.
pub fn insert(dir: &Path, barcode: &str) {
    let library = Library::open(dir).unwrap();
    for _ in 0..500 {
        if library.insert(barcode).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    library.insert(barcode).unwrap();
}

/// Runs something with somebody at the drive, who is given what is asked and says which tape he puts in. Returns what was asked.
pub fn attended(
    lab: &Lab,
    args: &[&str],
    hand: &mut dyn FnMut(usize, &str) -> String,
) -> (Run, Vec<String>) {
    let mut command = lab.command();
    command.args(args).args(["--json"]).env("CAPSTAN_TAPE_WAIT", "60s").stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut asked, mut stderr) = (Vec::new(), String::new());
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        stderr.push_str(&line);
        stderr.push('\n');
        if let Some((_, wish)) = line.split_once("tape-wanted: ") {
            insert(&lab.path("drive"), &hand(asked.len(), wish));
            asked.push(wish.to_owned());
        }
    }
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    (Run { code: output.status.code().unwrap(), stdout, stderr }, asked)
}

/// The tape that a wish names by its label.
pub fn named(wish: &str) -> String {
    let label = wish.rsplit_once("put in tape 'tape-").expect(wish).1;
    barcode(label[..4].parse().unwrap())
}

#[test]
fn tapes_are_asked_for_one_after_the_other_and_wrong_ones_refused() {
    let lab = Lab::new();
    drive(&lab, 7, 40);
    tree(&lab, 50);
    // An empty drive; then the first tape, the first again, though it is full, and then new ones.
    let tapes = [1, 1, 2, 3, 4, 5, 6, 7].map(barcode);
    let backup = ["backup", "tree", "--to", "vtape:drive", "--name", "t"];
    let (run, asked) = attended(&lab, &backup, &mut |n, _| tapes[n].clone());
    let full = report(run);
    assert_eq!(full["status"], "completed", "{full}");
    let labels: Vec<_> = full["media"].as_array().unwrap().iter().collect();
    assert_eq!(labels[..2], ["tape-0001", "tape-0002"], "{full}");
    assert_eq!(asked.len(), labels.len() + 1, "{asked:#?}");
    assert!(asked[0].contains("put in a blank tape, or one of this cell"), "{asked:#?}");
    assert!(asked[1].contains("'tape-0001'") && asked[1].contains("is full"), "{asked:#?}");
    assert!(asked[2].contains("'tape-0001'") && asked[2].contains("is full"), "{asked:#?}");

    // The last one is still in it, and the second is put in first.
    let into = lab.path("restored");
    let restore = ["restore", "t", "--into", into.to_str().unwrap()];
    let mut first = true;
    let (run, asked) = attended(&lab, &restore, &mut |_, wish| match std::mem::take(&mut first) {
        true => barcode(2),
        false => named(wish),
    });
    let restored = report(run);
    assert_eq!(restored["status"], "completed", "{restored}");
    same_by_rsync(&lab.path("tree"), &below(&into, &lab.path("tree")));
    assert!(asked[1].contains("tape 'tape-0002' is in it"), "{asked:#?}");
    assert_eq!(asked.len(), labels.len() + 1, "each tape once, and the wrong one: {asked:#?}");

    // An incremental is appended to the tape that is there, which is the last.
    lab.sh("echo new > tree/new");
    let incr = ["tree", "--to", "vtape:drive", "--name", "t", "--incr"];
    let incr = lab.backed_up(incr);
    assert_eq!(incr["media"].as_array().unwrap()[0], *labels[labels.len() - 1], "{incr}");
    let (run, _) = attended(&lab, &["verify", "t"], &mut |_, wish| named(wish));
    assert_eq!(report(run)["status"], "completed");
}

#[test]
fn where_nobody_is_there_the_tape_that_lacks_is_an_error() {
    let lab = Lab::new();
    let library = drive(&lab, 4, 400);
    tree(&lab, 0);
    let backup = ["backup", "tree", "--to", "vtape:drive", "--name", "t"];
    lab.run(backup).refused(&["no tape is loaded"]);
    library.insert(&barcode(1)).unwrap();
    lab.run(backup).ok();
    library.insert(&barcode(2)).unwrap();
    lab.run(["restore", "t", "--into", "out"]).refused(&["put in tape 'tape-0001' instead"]);
    lab.run(["verify", "--medium", "tape-0001"]).refused(&["put in tape 'tape-0001' instead"]);
    // Another cell numbers its tapes alike: both are told apart by their ids.
    let id = |home: &str, label: &str| {
        let mut show = lab.command();
        show.env("CAPSTAN_HOME", lab.path(home)).args(["media", "show", label, "--json"]);
        let shown = finish(&mut show).ok().stdout.clone();
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        shown["id"].as_str().unwrap()[..8].to_owned()
    };
    library.insert(&barcode(4)).unwrap();
    finish(lab.command().env("CAPSTAN_HOME", lab.path("theirs")).args(backup)).ok();
    let said = lab.run(["restore", "t", "--into", "out"]);
    let (theirs, ours) = (id("theirs", "tape-0001"), id("home", "tape-0001"));
    let which = format!("(medium {theirs} of another cell; medium {ours} is wanted)");
    said.refused(&["another tape 'tape-0001' is in it", &which]);
    library.insert(&barcode(3)).unwrap();
    library.drive(1).unwrap().write_block(b"another program's").unwrap();
    lab.run(backup).refused(&["not empty and not a Capstan medium"]);
    let mut wrong = lab.command();
    wrong.args(backup).env("CAPSTAN_TAPE_WAIT", "soon");
    finish(&mut wrong).refused(&["CAPSTAN_TAPE_WAIT is soon"]);
    // A number alone is seconds, as elsewhere.
    let mut seconds = lab.command();
    seconds.args(["media", "list"]).env("CAPSTAN_TAPE_WAIT", "60");
    finish(&mut seconds).ok();
}

#[test]
fn a_tape_that_is_not_to_be_written_comes_out_again() {
    let lab = Lab::new();
    let mut library = drive(&lab, 2, 400);
    tree(&lab, 0);
    library.insert(&barcode(1)).unwrap();
    library.open_drive(1).unwrap().write_block(b"another program's").unwrap();
    let backup = ["backup", "tree", "--to", "vtape:drive", "--name", "t"];
    let (run, asked) = attended(&lab, &backup, &mut |_, _| barcode(2));
    assert_eq!(report(run)["status"], "completed");
    assert!(asked.len() == 1 && asked[0].contains("not blank and not of Capstan"), "{asked:#?}");
    library.insert(&barcode(1)).unwrap();
    let mut block = [0; 32];
    library.drive(1).unwrap().read_block(&mut block).unwrap();
    assert!(block.starts_with(b"another program's"));
}

#[test]
fn a_session_that_is_stopped_waits_no_longer() {
    let lab = Lab::new();
    let library = drive(&lab, 6, 40);
    tree(&lab, 30);
    library.insert(&barcode(1)).unwrap();
    let mut command = lab.command();
    command.args(["backup", "tree", "--to", "vtape:drive", "--name", "t", "--json"]);
    command.env("CAPSTAN_TAPE_WAIT", "1h").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let asked = lines.find(|line| line.as_ref().unwrap().contains("tape-wanted"));
    assert!(asked.unwrap().unwrap().contains("'tape-0001'"));
    lab.sh(&format!("kill -INT {}", child.id()));
    let rest: Vec<_> = lines.map_while(Result::ok).collect();
    let output = child.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(1)), "{:?} {rest:#?}", output.status);
    // What was committed on the first tape is gone on with.
    let resume = ["backup", "tree", "--to", "vtape:drive", "--name", "t", "--resume"];
    let (run, _) = attended(&lab, &resume, &mut |n, _| barcode(n + 2));
    assert_eq!(report(run)["status"], "completed");
    let into = lab.path("restored");
    let restore = ["restore", "t", "--into", into.to_str().unwrap()];
    attended(&lab, &restore, &mut |_, wish| named(wish)).0.ok();
    same_by_rsync(&lab.path("tree"), &below(&into, &lab.path("tree")));
}

#[test]
fn tapes_leave_when_their_session_is_done() {
    let lab = Lab::new();
    let library = drive(&lab, 2, 400);
    tree(&lab, 0);
    library.insert(&barcode(1)).unwrap();
    let backup = ["tree", "--to", "vtape:drive", "--name", "t", "--eject-to", "bank, box 7"];
    let done = lab.backed_up(backup);
    assert!(done["notes"].to_string().contains("was ejected"), "{done}");
    lab.run(backup_of(&backup)).refused(&["no tape is loaded"]);
    // It says where it is, until it is back.
    let restore = ["restore", "t", "--into", "out"];
    lab.run(restore).refused(&["bank, box 7"]);
    library.insert(&barcode(1)).unwrap();
    lab.run(["media", "import", "vtape:drive"]).ok();
    lab.run(restore).ok();
    // Of a library they come to its mail slots; where there are too few, that is said, and they stay.
    let design = Design { capacity: Some(400_000_000), ..library_of(1, 3) };
    Library::create(&lab.path("vtl"), &design, 3).unwrap();
    let out = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "u", "--eject-to", "bank"]);
    assert!(out["notes"].to_string().contains("V00001L9 in mail slot 1"), "{out}");
    let full = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "v", "--eject-to", "bank"]);
    assert!(full["errors"].to_string().contains("no free mail slot for V00002L9"), "{full}");
}

/// Of a library with too few mail slots as many come out as have room, and the others are named.
#[test]
fn of_many_tapes_those_come_out_that_have_room() {
    let lab = Lab::new();
    let design = Design { mail_slots: 2, ..library_of(1, 6) };
    Library::create(&lab.path("vtl"), &design, 6).unwrap();
    tree(&lab, 80);
    let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--eject-to", "box 7"]);
    let tapes = done["media"].as_array().unwrap().len();
    assert!(tapes > 2, "{done}");
    let notes = done["notes"].to_string();
    assert!(notes.contains("V00001L9 in mail slot 1, V00002L9 in mail slot 2"), "{done}");
    let warned = done["errors"][0]["error"].as_str().unwrap();
    assert!(warned.contains("no free mail slot for V00003L9"), "{done}");
    let out = media(&lab).into_iter().filter(|(_, state)| state == "exported").count();
    assert_eq!(out, 2);
    // The morning's list has those too that stay, until they are out.
    let vaulted = || -> Vec<(String, String, String)> {
        let list = lab.run(["media", "vault", "--json"]).ok().stdout.clone();
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        let rows = list["to_vault"].as_array().unwrap().iter();
        let text = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
        rows.map(|row| (text(&row["barcode"]), text(&row["to"]), text(&row["why"]))).collect()
    };
    let mut expected: Vec<_> = (1..=tapes).map(|n| (barcode(n), "box 7".to_owned())).collect();
    let why = |n: usize| if n <= 2 { "exported" } else { "asked" }.to_owned();
    let expected: Vec<_> =
        expected.drain(..).zip(1..).map(|((tape, to), n)| (tape, to, why(n))).collect();
    assert_eq!(vaulted(), expected);
    let text = lab.run(["media", "vault"]).ok().stdout.clone();
    assert!(text.contains("to leave by --eject-to, and still here"), "{text}");
    // The commands that it names work as they are: each after the mail slots were emptied.
    let exports: Vec<&str> =
        warned.split('`').filter(|part| part.starts_with("capstan ")).collect();
    assert_eq!(exports.len(), (tapes - 2).div_ceil(2), "{warned}");
    for export in exports {
        lab.sh("python3 - <<'end'
import json
held = json.load(open('vtl/inventory.json'))
json.dump([h for h in held if 'mail' not in h['place']], open('vtl/inventory.json', 'w'))
end");
        pasted(&lab, export);
    }
    let out = media(&lab).into_iter().filter(|(_, state)| state == "exported").count();
    assert_eq!(out, tapes);
    assert!(vaulted().iter().all(|(.., why)| why == "exported"), "{:?}", vaulted());
}

/// A tape that was to leave goes where it was to go, or stays if that is said.
#[test]
fn a_tape_that_was_to_leave_goes_later_or_is_kept() {
    let lab = Lab::new();
    let design = Design { mail_slots: 0, ..library_of(1, 3) };
    Library::create(&lab.path("vtl"), &design, 3).unwrap();
    lab.file("tree/a", [1; 100_000]);
    let vaulted = || lab.run(["media", "vault"]).ok().stdout.clone();
    let places = || {
        let list = lab.run(["media", "list", "--json"]).ok().rows();
        list.iter().map(|m| m["exported_to"].to_string()).collect::<Vec<_>>()
    };
    let backup = ["tree", "--to", "vtape:vtl", "--name", "t", "--eject-to", "box 7"];
    lab.backup(backup);
    assert!(vaulted().contains("box 7"), "{}", vaulted());
    lab.run(["media", "import", "vtape:vtl?tape=V00001L9"]).ok();
    assert!(!vaulted().contains("box 7"), "{}", vaulted());
    lab.backup(backup);
    assert!(vaulted().contains("box 7"), "{}", vaulted());
    lab.run(["media", "export", "V00001L9"]).ok();
    assert_eq!(places(), ["\"box 7\""]);
}

/// Runs a command that a message suggests, as a shell has it.
fn pasted(lab: &Lab, command: &str) {
    let home = lab.path("home");
    let arguments = command.strip_prefix("capstan ").unwrap();
    let binary = env!("CARGO_BIN_EXE_capstan");
    lab.sh(&format!("CAPSTAN_HOME='{}' '{binary}' {arguments}", home.display()));
}

/// Without mail slots somebody opens the door, and the media are recorded by the commands that are named.
#[test]
fn tapes_of_a_library_without_mail_slots_go_out_by_hand() {
    let lab = Lab::new();
    let design = Design { mail_slots: 0, ..library_of(1, 3) };
    Library::create(&lab.path("a vtl"), &design, 3).unwrap();
    lab.file("tree/a", [1; 100_000]);
    let backup = ["tree", "--to", "vtape:a vtl", "--name", "t", "--eject-to", "Ann's box?"];
    let done = lab.backup(backup);
    let warned = done["errors"][0]["error"].as_str().unwrap();
    let export = warned.split('`').nth(1).unwrap();
    pasted(&lab, export);
    let shown = lab.run(["media", "list", "--json"]).ok().stdout.clone();
    assert!(shown.contains("Ann's box?"), "{warned} {shown}");
    // An address is quoted, too.
    let refused = lab.run(["backup", "tree", "--to", "vtape:a vtl?tape=V00001L9", "--name", "t"]);
    let hint = refused.refused(&["media import"]).stderr.split('`').nth(1).unwrap().to_owned();
    pasted(&lab, &hint);
    lab.backed_up(["tree", "--to", "vtape:a vtl?tape=V00001L9", "--name", "t"]);
}

fn waiting(lab: &Lab) -> Vec<serde_json::Value> {
    let status = lab.run(["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    status["tapes_wanted"].as_array().unwrap().clone()
}

/// Whoever has the tapes sees which drive waits for which since when, and nothing of what waited once.
#[test]
fn what_drives_wait_for_is_on_record_while_they_do() {
    let lab = Lab::new();
    let library = drive(&lab, 6, 40);
    tree(&lab, 0);
    library.insert(&barcode(1)).unwrap();
    assert_eq!(waiting(&lab), Vec::<serde_json::Value>::new());
    let begin = |args: &[&str]| {
        let mut command = lab.command();
        command.args(args).args(["--json"]).env("CAPSTAN_TAPE_WAIT", "1h");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("tape-wanted")));
        wait_for("it is on record", || !waiting(&lab).is_empty());
        (child, lines)
    };
    // One stream: of several more may be on its way than a small tape has room for behind its early warning.
    let options = ["--segment-size", "8M", "--streams", "1"];
    let (child, lines) =
        begin(&[&["backup", "tree", "--to", "vtape:drive", "--name", "t"], &options[..]].concat());
    let wanted = waiting(&lab);
    let one = &wanted[0];
    assert_eq!(
        (wanted.len(), &one["pid"], &one["kind"]),
        (1, &child.id().into(), &"backup".into())
    );
    let drive = one["drive"].as_str().unwrap();
    assert!(drive.ends_with("/drive") || drive.ends_with("drive"), "{one}");
    assert!(one["wanted"].as_str().unwrap().contains("a blank tape"), "{one}");
    assert!(one["since"].as_str().unwrap().starts_with("20") && one["name"] == "t", "{one}");
    let text = lab.run(["status"]).stdout;
    assert!(text.contains("waits since") && text.contains("backup t, session "), "{text}");
    // It goes on when the tape is in, and counts what it waited.
    std::thread::sleep(Duration::from_millis(300));
    insert(&lab.path("drive"), &barcode(2));
    let rest: Vec<_> = lines.map_while(Result::ok).collect();
    let output = child.wait_with_output().unwrap();
    let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(done["status"], "completed", "{done} {rest:#?}");
    let waited = done["tape_wait_s"].as_f64().unwrap();
    assert!(
        (0.3..60.0).contains(&waited) && waited <= done["elapsed_s"].as_f64().unwrap(),
        "{done}"
    );
    let shown = lab.run(["sessions", "--show", done["session"].as_str().unwrap()]);
    assert!(shown.ok().stdout.contains("Tape wait"), "{}", shown.stdout);
    assert_eq!(waiting(&lab), Vec::<serde_json::Value>::new());
    // Of a process that was killed while it waits nothing is left.
    let (mut child, _lines) = begin(&["restore", "t", "--into", "out"]);
    assert!(waiting(&lab)[0]["wanted"].as_str().unwrap().contains("'tape-0001'"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(waiting(&lab), Vec::<serde_json::Value>::new());
    assert!(!lab.run(["status"]).stdout.contains("waits since"));
}

/// A tape that did not come while it was waited for is not waited for again, however much is on it.
#[test]
fn a_tape_is_waited_for_once() {
    let lab = Lab::new();
    let library = drive(&lab, 4, 40);
    lab.file("tree/big", noise(1, 60_000_000));
    let args = ["backup", "tree", "--to", "vtape:drive", "--name", "t", "--segment-size", "2M"];
    let (run, _) =
        attended(&lab, &[&args[..], &["--streams", "1"]].concat(), &mut |n, _| barcode(n + 1));
    assert_eq!(report(run)["status"], "completed");
    library.insert(&barcode(1)).unwrap();
    let mut command = lab.command();
    command.args(["restore", "t", "--into", "out", "--json"]).env("CAPSTAN_TAPE_WAIT", "1s");
    let run = finish(&mut command);
    let said = run.stderr.matches("put in tape 'tape-0002'").count();
    assert!(said >= 1 && run.code == 3, "{}", run.stderr);
    let waited = report(run)["tape_wait_s"].as_f64().unwrap();
    // For each of the tapes once.
    assert!((1.0..4.5).contains(&waited), "{waited}");
}

fn backup_of<'a>(args: &[&'a str]) -> Vec<&'a str> {
    std::iter::once("backup").chain(args.iter().copied()).collect()
}

#[test]
fn tapes_put_in_by_hand_are_encrypted_by_their_drive_too() {
    let lab = Lab::with_passphrase(Some("secret"));
    drive(&lab, 8, 40);
    tree(&lab, 50);
    let tapes: Vec<_> = (1..8).map(barcode).collect();
    let to = ["--to", "vtape:drive", "--encrypt", "drive"];
    let backup = [&["backup", "tree", "--name", "t"], &to[..]].concat();
    let (run, _) = attended(&lab, &backup, &mut |n, _| tapes[n].clone());
    let full = report(run);
    assert_eq!(full["status"], "completed", "{full}");
    assert!(full["media"].as_array().unwrap().len() >= 2, "{full}");
    let into = lab.path("restored");
    let restore = ["restore", "t", "--into", into.to_str().unwrap()];
    let (run, asked) = attended(&lab, &restore, &mut |_, wish| named(wish));
    assert_eq!(report(run)["status"], "completed", "{asked:#?}");
    same_by_rsync(&lab.path("tree"), &below(&into, &lab.path("tree")));
    // A session that encrypts by itself takes another one.
    lab.file("few/file", "few");
    let plain = ["backup", "few", "--name", "p", "--to", "vtape:drive"];
    let (run, asked) = attended(&lab, &plain, &mut |_, _| barcode(8));
    assert_eq!(report(run)["status"], "completed", "{asked:#?}");
    assert!(asked[0].contains("is encrypted by its drive"), "{asked:#?}");
}
