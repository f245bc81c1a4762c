//! What is to be carried to the vault and fetched from there, as `media vault` lists it.

use std::io::Write as _;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::support::{Lab, Run, finish, noise, report, wait_for};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

fn text(lab: &Lab) -> String {
    run(lab, "media vault").ok().stdout.clone()
}

fn listed(lab: &Lab, line: &str) -> Value {
    let run = run(lab, line);
    serde_json::from_str(&run.stdout)
        .unwrap_or_else(|e| panic!("{e}: '{}' {}", run.stdout, run.stderr))
}

fn list(lab: &Lab, name: &str) -> Vec<Value> {
    listed(lab, "media vault --json")[name].as_array().unwrap().clone()
}

/// Of a list those values, a line of them for each.
fn of(list: &[Value], names: [&str; 3]) -> Vec<String> {
    let row = |row: &Value| names.map(|name| row[name].as_str().unwrap_or("-").to_owned());
    list.iter().map(|v| row(v).join(" ")).collect()
}

fn to_vault(lab: &Lab) -> Vec<String> {
    of(&list(lab, "to_vault"), ["label", "place", "why"])
}

fn to_fetch(lab: &Lab) -> Vec<String> {
    of(&list(lab, "to_fetch"), ["label", "location", "why"])
}

/// A library of two mail slots, and a pool whose media go to a bank.
fn lab(pool: &str, capacity: &str) -> Lab {
    let lab = Lab::new();
    run(
        &lab,
        &format!(
            "vtl create vtl --capacity {capacity} --scale 1e5 --drives 1 --slots 5 --tapes 4 --mail-slots 2"
        ),
    )
    .ok();
    let vault = ["--vault", "bank, box 7"];
    lab.run(["pool", "create", "off"].into_iter().chain(pool.split_whitespace()).chain(vault)).ok();
    for (n, label) in [(1, "monday"), (2, "tuesday")] {
        run(&lab, &format!("media init vtape:vtl?tape=V0000{n}L9 --label {label} --pool off")).ok();
    }
    lab.file("t/file", noise(1, 2_000_000));
    lab
}

fn backup(lab: &Lab, to: &str, name: &str, protect: &str) -> String {
    let args = ["t", "--to", to, "--name", name, "--full", "--protect", protect];
    lab.backed_up(args)["media"][0].as_str().unwrap().to_owned()
}

/// Takes a tape out of its drive and of the library, to where its pool says.
fn carry_out(lab: &Lab, barcode: &str) {
    lab.run(["library", "unload", "vtape:vtl", "1"]);
    run(lab, &format!("library export vtape:vtl {barcode}")).ok();
    run(lab, &format!("vtl take vtl {barcode}")).ok();
}

#[test]
fn a_tape_that_takes_no_more_goes_to_the_vault_of_its_pool() {
    let lab = lab("--not-appendable", "40M");
    assert_eq!(text(&lab), "nothing to vault, nothing to fetch\n");
    let none = listed(&lab, "media vault --json");
    assert!(none["to_vault"].as_array().is_some_and(Vec::is_empty), "{none}");
    assert!(none["to_fetch"].as_array().is_some_and(Vec::is_empty), "{none}");

    assert_eq!(backup(&lab, "pool:off", "t", "30d"), "monday");
    // One of no pool, and one that holds nothing, stay.
    backup(&lab, "vtape:vtl?tape=V00003L9", "u", "30d");
    let rows = list(&lab, "to_vault");
    assert_eq!(of(&rows, ["label", "barcode", "why"]), ["monday V00001L9 closed"]);
    assert_eq!(
        of(&rows, ["to", "pool", "kept_until"])[0].split(" 20").next(),
        Some("bank, box 7 off")
    );
    let shown = text(&lab);
    let line = shown.lines().find(|line| line.starts_with("V00001L9")).unwrap();
    assert!(line.contains("bank, box 7") && line.contains("  20"), "{shown}");
    assert!(shown.starts_with("To vault:\n") && shown.ends_with("\nnothing to fetch\n"), "{shown}");

    // It goes by the mail slot, recorded with its pool's vault, and stands in the list until it is taken out.
    lab.run(["library", "unload", "vtape:vtl", "1"]);
    run(&lab, "library export vtape:vtl V00001L9").ok();
    assert_eq!(to_vault(&lab), ["monday mail:1 exported"]);
    run(&lab, "vtl take vtl V00001L9").ok();
    let media = run(&lab, "media list").ok().stdout.clone();
    assert!(media.contains("bank, box 7"), "{media}");
    assert_eq!(text(&lab), "nothing to vault, nothing to fetch\n");
    // Who took it back too early reads where it belongs.
    run(&lab, "vtl insert vtl V00001L9").ok();
    assert_eq!(to_vault(&lab), ["monday mail:1 exported"]);

    // Without the rule nothing is to go, but what was exported.
    run(&lab, "library import vtape:vtl").ok();
    assert_eq!(to_vault(&lab).len(), 1);
    let set = run(&lab, "pool set off --no-vault").ok().stdout.clone();
    assert!(!set.contains("vault"), "{set}");
    assert_eq!(text(&lab), "nothing to vault, nothing to fetch\n");
    lab.run(["pool", "set", "off", "--vault", " "]).refused(&["is no vault"]);
}

#[test]
fn a_pool_that_appends_gives_its_full_tapes_to_the_vault() {
    let lab = lab("", "40M");
    lab.file("t/file", noise(1, 15_000_000));
    for name in ["a", "b", "c"] {
        backup(&lab, "pool:off", name, "30d");
    }
    let rows = list(&lab, "to_vault");
    assert_eq!(of(&rows, ["label", "to", "why"]), ["monday bank, box 7 full"]);
    // The other one takes more; somebody puts it into a mail slot all the same.
    lab.run(["library", "unload", "vtape:vtl", "1"]);
    run(&lab, "library move vtape:vtl slot:2 mail:2").ok();
    assert_eq!(to_vault(&lab), ["tuesday mail:2 mail slot", "monday slot:1 full"]);
    // A tape that was given up stays, and one that is to be looked at.
    run(&lab, "media retire monday --no-copy").ok();
    assert_eq!(to_vault(&lab), ["tuesday mail:2 mail slot"]);
}

#[test]
fn what_a_session_writes_stays_until_it_is_done() {
    let lab = lab("--not-appendable", "40M");
    let mut command = lab.command();
    command.args(["backup", "--stdin", "--to", "pool:off", "--name", "s", "--compress", "off"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut session = command.spawn().unwrap();
    let mut input = session.stdin.take().unwrap();
    input.write_all(&noise(2, 50_000_000)).unwrap();
    let state = || {
        let media = run(&lab, "media show monday --json").ok().stdout.clone();
        serde_json::from_str::<Value>(&media).unwrap()["state"].as_str().unwrap().to_owned()
    };
    wait_for("a full tape", || state() == "full");
    assert_eq!(to_vault(&lab), Vec::<String>::new());
    drop(input);
    assert!(session.wait().unwrap().success());
    assert_eq!(to_vault(&lab), ["tuesday drive:1 closed", "monday slot:1 full"]);
}

#[test]
fn a_tape_on_which_nothing_must_stay_is_fetched() {
    let lab = lab("--not-appendable", "40M");
    backup(&lab, "pool:off", "t", "none");
    carry_out(&lab, "V00001L9");
    // Its version is the last one, which no pool gives up.
    assert_eq!(text(&lab), "nothing to vault, nothing to fetch\n");
    assert_eq!(backup(&lab, "pool:off", "t", "30d"), "tuesday");
    assert_eq!(to_fetch(&lab), ["monday bank, box 7 expired"]);
    let shown = text(&lab);
    assert!(
        shown.contains("\nTo fetch:\n") && shown.contains("nothing on it must stay"),
        "{shown}"
    );
    // One that holds nothing can be used too; a disk comes back as well; what was given up does not.
    run(&lab, "media init vtape:vtl?tape=V00003L9 --label free --pool off").ok();
    run(&lab, "media init disk").ok();
    for (label, to) in [("free", "home"), ("disk", "drawer")] {
        run(&lab, &format!("media export {label} --to {to}")).ok();
    }
    lab.sh("mv disk drawer");
    lab.run(["library", "unload", "vtape:vtl", "1"]);
    run(&lab, "vtl take vtl V00003L9").ok();
    let all = ["monday bank, box 7 expired", "disk drawer free", "free home free"];
    assert_eq!(to_fetch(&lab), all);
    run(&lab, "media retire free --no-copy").ok();
    assert_eq!(to_fetch(&lab), all[..2]);
    // Of a library only its tapes.
    let one = listed(&lab, "media vault vtape:vtl --json");
    assert_eq!(
        of(one["to_fetch"].as_array().unwrap(), ["label", "place", "why"]),
        ["monday - expired"]
    );
    // In the mail slot it waits to be taken in, and does not go out again.
    run(&lab, "vtl insert vtl V00001L9").ok();
    assert!(text(&lab).contains("bank, box 7 (already in mail:1)"), "{}", text(&lab));
    assert_eq!(to_vault(&lab), ["tuesday slot:2 closed"]);
    run(&lab, "library import vtape:vtl").ok();
    assert_eq!(to_fetch(&lab), all[1..2]);
}

#[test]
fn a_tape_for_which_a_session_waits_is_fetched_once() {
    let lab = lab("--not-appendable", "40M");
    backup(&lab, "pool:off", "t", "30d");
    carry_out(&lab, "V00001L9");
    let waits = |into: &str| -> Child {
        let mut command = lab.command();
        command.args(["restore", "t", "--into", into, "--json"]).env("CAPSTAN_TAPE_WAIT", "10min");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    };
    let sessions = [waits("out"), waits("other")];
    let wanted = || -> Vec<Value> {
        let list = list(&lab, "to_fetch");
        list.iter().flat_map(|row| row["wanted_by"].as_array().unwrap().clone()).collect()
    };
    wait_for("both wait", || wanted().len() == 2);
    let rows = list(&lab, "to_fetch");
    assert_eq!(of(&rows, ["barcode", "location", "why"]), ["V00001L9 bank, box 7 wanted"]);
    assert!(wanted().iter().all(|of| of["kind"] == "restore" && of["name"] == "t"), "{rows:?}");
    let shown = text(&lab);
    assert_eq!(shown.matches("restore t, session ").count(), 2, "{shown}");
    // Back in the library it is the sessions' until they are done; then it goes out again.
    run(&lab, "vtl insert vtl V00001L9").ok();
    for session in sessions {
        let output = session.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
    }
    assert_eq!(to_fetch(&lab), Vec::<String>::new());
    let rows = list(&lab, "to_vault");
    assert_eq!(of(&rows, ["label", "to", "why"]), ["monday bank, box 7 exported"]);
}

#[test]
fn tapes_of_another_cell_are_not_listed() {
    let lab = lab("--not-appendable", "40M");
    let other = |args: &[&str]| {
        let mut command = lab.command();
        command.env("CAPSTAN_HOME", lab.path("other")).args(args);
        finish(&mut command)
    };
    report(other(&["backup", "t", "--to", "vtape:vtl?tape=V00003L9", "--name", "o", "--json"]));
    run(&lab, "import vtape:vtl?tape=V00003L9").ok();
    run(&lab, "media move V00003L9 --pool off").ok();
    assert_eq!(text(&lab), "nothing to vault, nothing to fetch\n");
    lab.run(["library", "unload", "vtape:vtl", "1"]);
    run(&lab, "library export vtape:vtl V00003L9").ok();
    assert_eq!(text(&lab), "nothing to vault, nothing to fetch\n");
    // Whose it is by now lists it.
    run(&lab, "library import vtape:vtl").ok();
    run(&lab, "media adopt V00003L9").ok();
    assert_eq!(to_vault(&lab).len(), 1);
}

#[test]
fn each_tape_of_an_array_is_carried() {
    let lab = lab("--not-appendable", "40M");
    run(
        &lab,
        "vtl create other --capacity 40M --scale 1e5 --drives 1 --slots 2 --tapes 1 --mail-slots 1",
    )
    .ok();
    let label = backup(&lab, "rait1:vtape:vtl?tape=V00003L9,vtape:other?tape=V00001L9", "t", "30d");
    lab.run(["media", "move", &label, "--pool", "off"]).ok();
    let rows = |line: &str| -> Vec<String> {
        let list = listed(&lab, line);
        of(list["to_vault"].as_array().unwrap(), ["barcode", "label", "why"])
    };
    assert_eq!(rows("media vault --json").len(), 2, "{}", text(&lab));
    assert_eq!(rows("media vault vtape:vtl --json"), [format!("V00003L9 {label} closed")]);
    // One is out already: the other one is to follow.
    carry_out(&lab, "V00003L9");
    assert_eq!(rows("media vault --json"), [format!("V00001L9 {label} closed")]);
}

#[test]
fn a_library_that_cannot_be_asked_is_named() {
    let lab = lab("--not-appendable", "40M");
    backup(&lab, "pool:off", "t", "30d");
    lab.sh("mv vtl away");
    let vault = run(&lab, "media vault");
    assert_eq!(vault.code, 3, "{}{}", vault.stdout, vault.stderr);
    assert!(vault.stdout.contains("vtl cannot be asked"), "{}", vault.stdout);
    let unasked = &listed(&lab, "media vault --json")["unasked"];
    assert!(unasked[0]["library"].as_str().unwrap().ends_with("/vtl"), "{unasked}");
    assert_ne!(run(&lab, "media vault vtape:vtl").code, 0);
}
