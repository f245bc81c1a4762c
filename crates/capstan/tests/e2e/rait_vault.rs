//! Tapes of arrays that leave the house and come back one by one: each has a place of its own.

use std::process::{Child, Stdio};

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Run, below, finish, noise, report, wait_for};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

/// A library, and an array of so many of its tapes with a backup of a tree; its label is `V00001L9`.
fn lab(layout: &str, members: usize) -> Lab {
    let lab = Lab::new();
    run(
        &lab,
        "vtl create vtl --capacity 60M --scale 1e5 --drives 3 --slots 8 --tapes 4 --mail-slots 3",
    )
    .ok();
    lab.file("t/file", noise(1, 2_500_000));
    backup(&lab, layout, members);
    lab
}

fn array(layout: &str, members: usize) -> String {
    format!("{layout}:{}", vec!["vtape:vtl"; members].join(","))
}

fn backup(lab: &Lab, layout: &str, members: usize) -> Value {
    lab.backed_up(["t", "--to", &array(layout, members), "--name", "t"])
}

/// Exports a tape by a mail slot, and takes it out.
fn export(lab: &Lab, barcode: &str, location: &str) {
    lab.run(["library", "export", "vtape:vtl", barcode, "--location", location]).ok();
    run(lab, &format!("vtl take vtl {barcode}")).ok();
}

/// Takes a tape out that lies in a slot, and tells nobody.
fn take(lab: &Lab, barcode: &str) {
    let held = json(lab, "library inventory vtape:vtl --json");
    let is_it = |tape: &&Value| tape["barcode"] == barcode;
    let tape = held["tapes"].as_array().unwrap().iter().find(is_it).unwrap().clone();
    let from = tape["place"].as_str().unwrap();
    run(lab, &format!("library move vtape:vtl {from} mail:1")).ok();
    run(lab, &format!("vtl take vtl {barcode}")).ok();
}

fn comes_by_mail(lab: &Lab, barcode: &str) {
    run(lab, &format!("vtl insert vtl {barcode}")).ok();
    run(lab, "library import vtape:vtl").ok();
}

fn unload(lab: &Lab) {
    for drive in 1..=3 {
        let _ = run(lab, &format!("library unload vtape:vtl drive:{drive}"));
    }
}

fn json(lab: &Lab, line: &str) -> Value {
    let run = run(lab, line);
    serde_json::from_str(&run.stdout)
        .unwrap_or_else(|e| panic!("{e}: '{}' {}", run.stdout, run.stderr))
}

/// The array's tapes, each with the place where it is on record: `V00001L9 bank`, and `-` for one that is in the house.
fn outside(lab: &Lab) -> Vec<String> {
    let medium = json(lab, "media show V00001L9 --json");
    let of = |tape: &Value| {
        let to = tape["exported_to"].as_str().unwrap_or("-");
        assert_eq!(tape["exported"].is_string(), to != "-", "{tape}");
        format!("{} {to}", tape["barcode"].as_str().unwrap())
    };
    medium["tapes"].as_array().unwrap().iter().map(of).collect()
}

fn place(lab: &Lab) -> String {
    let shown = run(lab, "media show V00001L9").ok().stdout.clone();
    let line = shown.lines().find_map(|line| line.strip_prefix("Where ")).unwrap();
    line.trim().to_owned()
}

/// Of the lists of what is to be carried these values, a line for each.
fn carried(lab: &Lab, list: &str, names: [&str; 3]) -> Vec<String> {
    let all = json(lab, "media vault --json");
    let row =
        |row: &Value| names.map(|name| row[name].as_str().unwrap_or("-").to_owned()).join(" ");
    all[list].as_array().unwrap().iter().map(row).collect()
}

/// The tapes of the pick list.
fn picked(lab: &Lab) -> Vec<String> {
    let list = report(run(lab, "restore t --into out --dry-run --json"));
    let picks = list["pick"].as_array().unwrap();
    assert_eq!(picks.len(), 1, "{list}");
    let of = |tape: &Value| {
        let text = |name: &str| tape[name].as_str().unwrap().to_owned();
        let away = if tape["away"] == true { "away" } else { "here" };
        format!("{} {} {away}", text("barcode"), text("place"))
    };
    picks[0]["tapes"].as_array().unwrap().iter().map(of).collect()
}

fn waiting(lab: &Lab, line: &str) -> Child {
    let mut command = lab.command();
    command.args(line.split_whitespace()).arg("--json").env("CAPSTAN_TAPE_WAIT", "10min");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> Run {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    Run { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// The tapes that sessions wait for, with their places.
fn wanted(lab: &Lab) -> Vec<String> {
    let status = json(lab, "status --json");
    let tapes = status["tapes_wanted"].as_array().unwrap();
    let of = |of: &Value| {
        let barcode = of["barcode"].as_str()?;
        Some(format!("{barcode} {}", of["place"].as_str().unwrap_or("-")))
    };
    tapes.iter().filter_map(of).collect()
}

fn comes_back(lab: &Lab, into: &str) {
    same_by_rsync(&lab.path("t"), &below(&lab.path(into), &lab.path("t")));
}

/// Two tapes of three go to two places. As few are asked for as the array needs, and another one does as well.
#[test]
fn tapes_of_an_array_go_to_places_of_their_own() {
    let lab = lab("rait5", 3);
    export(&lab, "V00001L9", "bank");
    assert_eq!(outside(&lab), ["V00001L9 bank", "V00002L9 -", "V00003L9 -"]);
    // The others stay, and are enough to read.
    assert_eq!(carried(&lab, "to_vault", ["barcode", "to", "why"]), [""; 0]);
    assert_eq!(picked(&lab), ["V00002L9 drive:2 here", "V00003L9 drive:3 here"]);
    lab.restored(["t", "--into", "two"]);
    comes_back(&lab, "two");

    unload(&lab);
    export(&lab, "V00002L9", "cellar");
    assert_eq!(outside(&lab), ["V00001L9 bank", "V00002L9 cellar", "V00003L9 -"]);
    assert_eq!(place(&lab), "V00001L9 bank; V00002L9 cellar; V00003L9 slot:3");
    let listed = run(&lab, "media list").ok().stdout.clone();
    assert!(listed.contains("V00001L9 bank; V00002L9 cellar; V00003L9 slot:3"), "{listed}");
    assert_eq!(picked(&lab), ["V00001L9 bank away", "V00003L9 slot:3 here"]);
    let text = run(&lab, "restore t --into out --dry-run").ok().stdout.clone();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip_while(|line| !line.starts_with("Medium "))
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0][..3], ["V00001L9", "V00001L9", "bank"], "{text}");
    assert_eq!(rows[1][..3], ["V00001L9", "V00003L9", "slot:3"], "{text}");
    assert!(rows[0].len() > 4 && rows[1].len() == 4, "of the array once: {text}");

    let restore = waiting(&lab, "restore t --into out");
    wait_for("the tape wanted", || wanted(&lab) == ["V00001L9 bank"]);
    assert_eq!(carried(&lab, "to_fetch", ["barcode", "location", "why"]), ["V00001L9 bank wanted"]);
    // The other one comes.
    comes_by_mail(&lab, "V00002L9");
    let restored = ended(restore);
    assert_eq!(restored.stderr.matches("tape-wanted").count(), 1, "{}", restored.stderr);
    let asked = &restored.stderr;
    let words = ["put in tape V00001L9 (was", " to bank), or instead tape V00002L9", " to cellar)"];
    assert!(words.iter().all(|word| asked.contains(word)), "{asked}");
    assert_eq!(report(restored)["status"], "completed");
    comes_back(&lab, "out");
    assert_eq!(outside(&lab), ["V00001L9 bank", "V00002L9 -", "V00003L9 -"]);

    // It is written again when all are back.
    let named = "rait5:vtape:vtl?tape=V00001L9,vtape:vtl?tape=V00002L9,vtape:vtl?tape=V00003L9";
    run(&lab, &format!("backup t --to {named} --name t"))
        .refused(&["V00001L9 was exported on", "to bank"]);
    unload(&lab);
    comes_by_mail(&lab, "V00001L9");
    assert_eq!(outside(&lab), ["V00001L9 -", "V00002L9 -", "V00003L9 -"]);
    assert_eq!(backup(&lab, "rait5", 3)["media"][0], "V00001L9");
}

/// What a database of before has of an array as a whole is true of each of its tapes.
#[test]
fn an_array_that_left_as_a_whole_comes_back_tape_by_tape() {
    let lab = lab("rait0", 2);
    unload(&lab);
    // So every release recorded it.
    lab.run(["media", "export", "V00001L9", "--to", "bank, box 7"]).ok();
    take(&lab, "V00001L9");
    take(&lab, "V00002L9");
    assert_eq!(outside(&lab), ["V00001L9 bank, box 7", "V00002L9 bank, box 7"]);
    assert_eq!(place(&lab), "bank, box 7");

    comes_by_mail(&lab, "V00002L9");
    assert_eq!(outside(&lab), ["V00001L9 bank, box 7", "V00002L9 -"]);
    assert_eq!(picked(&lab), ["V00001L9 bank, box 7 away", "V00002L9 slot:1 here"]);
    run(&lab, "status").ok();
    run(&lab, "restore t --into out").refused(&["V00001L9 was exported on", "to bank, box 7"]);
    let mut timed = lab.command();
    timed.args(["restore", "t", "--into", "out", "--json"]).env("CAPSTAN_TAPE_WAIT", "1s");
    let timed = report(finish(&mut timed));
    let text = timed["errors"].to_string();
    assert!(text.contains("needs tape V00001L9 (was exported on"), "{text}");
    assert!(text.contains("to bank, box 7") && !text.contains("V00002L9"), "{text}");
    assert_eq!(timed["away"], 1, "{timed}");

    // Nobody took the other one away on record: that is said, of this one.
    take(&lab, "V00002L9");
    let status = run(&lab, "status");
    assert_ne!(status.code, 0, "{}", status.stdout);
    assert!(status.stdout.contains("not there: vtape:"), "{}", status.stdout);
    assert!(status.stdout.contains("media export 'LIBRARY?tape=BARCODE'"), "{}", status.stdout);
    let why = status.stdout.split("not there: ").nth(1).unwrap().split(')').next().unwrap();
    assert!(why.contains("V00002L9") && !why.contains("V00001L9"), "{why}");
    for barcode in ["V00001L9", "V00002L9"] {
        comes_by_mail(&lab, barcode);
    }
    run(&lab, "status").ok();
    lab.restored(["t", "--into", "out2"]);
    comes_back(&lab, "out2");
}

/// Of a library without mail slots a tape is named by its device; a rescan finds that it is back.
#[test]
fn one_tape_of_an_array_is_exported_by_its_device() {
    let lab = lab("rait1", 2);
    unload(&lab);
    run(&lab, "media export vtape:vtl?tape=V00001L9 --to cellar").ok();
    assert_eq!(outside(&lab), ["V00001L9 cellar", "V00002L9 -"]);
    assert_eq!(carried(&lab, "to_vault", ["barcode", "to", "why"]), ["V00001L9 cellar exported"]);
    // The array as a whole.
    run(&lab, "media export V00001L9 --to bank").ok();
    assert_eq!(outside(&lab), ["V00001L9 bank", "V00002L9 bank"]);
    take(&lab, "V00001L9");
    run(&lab, "library inventory vtape:vtl --rescan").ok();
    assert_eq!(outside(&lab), ["V00001L9 bank", "V00002L9 -"]);
    // An import finds the one that is there, and no more.
    run(&lab, "media export V00001L9 --to bank").ok();
    run(&lab, "import vtape:vtl").ok();
    assert_eq!(outside(&lab), ["V00001L9 bank", "V00002L9 -"]);
    // The one that is out is lost there: another takes its place, and the array is written again.
    run(&lab, "rait rebuild V00001L9 --member 1 --onto vtape:vtl?tape=V00004L9").ok();
    assert_eq!(outside(&lab), ["V00004L9 -", "V00002L9 -"]);
    assert_eq!(backup(&lab, "rait1", 2)["media"][0], "V00001L9");
}

/// With one mail slot the tapes of an array go to the vault in several rounds.
#[test]
fn what_has_not_left_of_an_array_goes_to_the_vault_of_its_pool_still() {
    let lab = Lab::new();
    run(
        &lab,
        "vtl create vtl --capacity 60M --scale 1e5 --drives 2 --slots 8 --tapes 2 --mail-slots 1",
    )
    .ok();
    lab.file("t/file", noise(1, 2_500_000));
    lab.run(["pool", "create", "off", "--not-appendable", "--vault", "bank"]).ok();
    let device = "rait1:vtape:vtl?tape=V00001L9,vtape:vtl?tape=V00002L9";
    run(&lab, &format!("media init {device} --label V00001L9 --pool off")).ok();
    lab.backed_up(["t", "--to", "pool:off", "--name", "t", "--protect", "30d"]);
    unload(&lab);
    let to_vault = || carried(&lab, "to_vault", ["barcode", "to", "why"]);
    assert_eq!(to_vault(), ["V00001L9 bank closed", "V00002L9 bank closed"]);
    run(&lab, "library export vtape:vtl V00001L9").ok();
    assert_eq!(to_vault(), ["V00001L9 bank exported", "V00002L9 bank closed"]);
    run(&lab, "vtl take vtl V00001L9").ok();
    assert_eq!(to_vault(), ["V00002L9 bank closed"]);
    run(&lab, "library export vtape:vtl V00002L9").ok();
    run(&lab, "vtl take vtl V00002L9").ok();
    assert_eq!(to_vault(), [""; 0]);
    assert_eq!(place(&lab), "bank");
}

/// A library without mail slots: who takes the tapes out by hand is told how each goes on record.
#[test]
fn tapes_that_are_taken_out_by_hand_are_named_each_by_itself() {
    let lab = Lab::new();
    for name in ["vtl", "other"] {
        let create = "--capacity 60M --scale 1e5 --drives 1 --slots 4 --tapes 1 --mail-slots 0";
        run(&lab, &format!("vtl create {name} {create}")).ok();
    }
    lab.file("t/file", noise(1, 500_000));
    let to = "rait1:vtape:vtl,vtape:other";
    let args = ["backup", "t", "--to", to, "--name", "t", "--eject-to", "bank", "--json"];
    let done = report(lab.run(args));
    let said = done["errors"].to_string();
    let commands: Vec<&str> = said.split('`').filter(|of| of.contains("media export")).collect();
    assert_eq!(commands.len(), 2, "{said}");
    let second = commands.iter().find(|of| of.contains("/vtl?tape=")).unwrap();
    lab.sh(&second.replace("capstan ", concat!(env!("CARGO_BIN_EXE_capstan"), " --home home ")));
    let shown = json(&lab, &format!("media show {} --json", done["media"][0].as_str().unwrap()));
    let tapes = shown["tapes"].as_array().unwrap();
    let out: Vec<_> = tapes.iter().map(|tape| tape["exported_to"].as_str()).collect();
    assert_eq!(out, [Some("bank"), None], "{shown}");
}

/// A tape that was taken out by hand: each of the others stands in its own place all the same.
#[test]
fn places_stand_beside_their_barcodes_where_a_tape_was_taken() {
    let lab = lab("rait5", 3);
    unload(&lab);
    take(&lab, "V00001L9");
    let wanted = "V00001L9 not in the library; V00002L9 slot:2; V00003L9 slot:3";
    for line in ["media list", "media show V00001L9"] {
        let shown = run(&lab, line).ok().stdout.clone();
        assert!(shown.contains(wanted), "{line}: {shown}");
    }
}

/// The tape that left the house is lost for good: what a refusal names makes the others blank.
#[test]
fn an_array_of_which_a_tape_is_lost_for_good_can_be_given_up() {
    let lab = lab("rait1", 2);
    unload(&lab);
    export(&lab, "V00002L9", "bank");
    run(&lab, "prune t --give-up").ok();
    let refused = run(&lab, "media recycle V00001L9");
    assert_eq!(refused.code, 2, "{}", refused.stdout);
    for way in ["media retire 'V00001L9'", "media forget 'V00001L9'", "media erase TAPE --foreign"]
    {
        assert!(refused.stderr.contains(way), "{way}: {}", refused.stderr);
    }
    assert!(!refused.stderr.contains("media import"), "{}", refused.stderr);
    run(&lab, "media retire V00001L9").ok();
    run(&lab, "media forget V00001L9").ok();
    run(&lab, "media erase vtape:vtl?tape=V00001L9 --foreign").ok();
    lab.backed_up(["t", "--to", "vtape:vtl?tape=V00001L9", "--name", "t"]);
}

/// An array whose second tape failed while a second backup was written, and what that backup is of.
fn with_an_incomplete_tape() -> Lab {
    let lab = lab("rait5", 3);
    lab.file("t/more", noise(2, 2_500_000));
    run(&lab, "vtl fault vtl --drive 2 write:2=error").ok();
    let to = array("rait5", 3);
    let done = run(&lab, &format!("backup t --to {to} --name t"));
    assert!(done.stderr.contains("member-lost"), "{}", done.stderr);
    lab
}

/// A tape that is known to lack something does not count as one that is at hand: the whole one that is out is wanted.
#[test]
fn an_incomplete_tape_is_not_enough_while_a_whole_one_is_out() {
    let lab = with_an_incomplete_tape();
    export(&lab, "V00001L9", "bank");
    assert_eq!(picked(&lab), ["V00001L9 bank away", "V00003L9 drive:3 here"]);

    let done = report(run(&lab, "restore t --into first --json"));
    assert_eq!((&done["away"], &done["corrupt"]), (&1.into(), &0.into()), "{done:#}");
    let said = done["errors"].to_string();
    assert!(said.contains("needs tape V00001L9 (was exported on"), "{said}");
    let status = run(&lab, "status");
    assert!(!status.stdout.contains("damaged"), "{}", status.stdout);
    let verified = run(&lab, "verify t -q");
    for code in ["medium-changed", "device-failed"] {
        assert!(!verified.stderr.contains(code), "{}", verified.stderr);
    }
    assert!(verified.stderr.contains("needs tape V00001L9"), "{}", verified.stderr);
    assert!(!run(&lab, "status").stdout.contains("damaged"));
    // An import forgets nothing.
    let device = json(&lab, "media show V00001L9 --json")["device"].as_str().unwrap().to_owned();
    let imported = lab.run(["import", &device]);
    assert!(!imported.stderr.contains("forgotten"), "{}", imported.stderr);

    let restore = waiting(&lab, "restore t --into out");
    wait_for("the tape wanted", || wanted(&lab) == ["V00001L9 bank"]);
    comes_by_mail(&lab, "V00001L9");
    assert_eq!(report(ended(restore))["status"], "completed");
    comes_back(&lab, "out");
}

/// Of an array that is a member no tape counts while it lacks something: the other half is wanted.
#[test]
fn an_incomplete_half_is_not_enough_while_a_tape_of_the_other_is_out() {
    let lab = Lab::new();
    let made = "--capacity 60M --scale 1e5 --drives 4 --slots 8 --tapes 4 --mail-slots 3";
    run(&lab, &format!("vtl create vtl {made}")).ok();
    lab.file("t/file", noise(1, 2_500_000));
    let to = "rait1:(rait0:vtape:vtl,vtape:vtl),(rait0:vtape:vtl,vtape:vtl)";
    lab.backed_up(["t", "--to", to, "--name", "t"]);
    lab.file("t/more", noise(2, 2_500_000));
    run(&lab, "vtl fault vtl --drive 2 write:2=error").ok();
    let done = run(&lab, &format!("backup t --to {to} --name t"));
    assert!(done.stderr.contains("member-lost"), "{}", done.stderr);
    export(&lab, "V00003L9", "bank");
    assert_eq!(picked(&lab), ["V00003L9 bank away", "V00004L9 drive:4 here"]);
    let done = report(run(&lab, "restore t --into first --json"));
    assert_eq!((&done["away"], &done["corrupt"]), (&1.into(), &0.into()), "{done:#}");
    comes_by_mail(&lab, "V00003L9");
    run(&lab, "restore t --into out").ok();
    comes_back(&lab, "out");
}

/// The same of one that nobody took away on record: that alarms, before anything is read.
#[test]
fn status_alarms_for_a_tape_that_vanished_while_another_is_incomplete() {
    let lab = with_an_incomplete_tape();
    unload(&lab);
    let before = run(&lab, "status").stdout.clone();
    assert!(!before.contains("not there"), "{before}");
    take(&lab, "V00001L9");
    let status = run(&lab, "status");
    assert_eq!(status.code, 6, "{}", status.stdout);
    assert!(status.stdout.contains("tapes are not there: vtape:"), "{}", status.stdout);
    comes_by_mail(&lab, "V00001L9");
    assert_eq!(run(&lab, "status").code, 5);
}
