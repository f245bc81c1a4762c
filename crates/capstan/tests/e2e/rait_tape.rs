//! Arrays of tapes that are chosen from libraries: they span, come back without some of their tapes, and are found again.

use std::fs;

use capstan_tape::vtl::library::{Design, Library};
use serde_json::{Value, json};

use crate::independent_reader::Reader;
use crate::support::{Lab, Run, finish, noise, report, soak};
use crate::tape::{comes_back, library_of, media};
use crate::tape_faults::Seeded;

const ONE: &str = "rait5:vtape:vtl,vtape:vtl,vtape:vtl";

/// A library whose tapes hold 24 MB, of which a drive warns at 18.
fn library(lab: &Lab, name: &str, drives: u32, tapes: u32) {
    let design = Design { capacity: Some(24_000_000), ..library_of(drives, tapes) };
    Library::create(&lab.path(name), &design, tapes).unwrap();
}

/// A tree of so many files of ten megabytes, and of small ones.
fn tree(lab: &Lab, large: u64) {
    for n in 0..large {
        lab.file(&format!("tree/big-{n}"), noise(n + 1, 10_000_000));
    }
    for n in 0..40 {
        lab.file(&format!("tree/d{}/f{n}", n % 7), noise(n, 5_000 + n as usize));
    }
    lab.sh(
        "cd tree; seq 1 20000 >text; ln d1/f1 linked; ln -s d1/f1 symlink; truncate -s 2M sparse",
    );
}

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

const TUNE: [&str; 4] = ["--block-size", "64K", "--segment-size", "4M"];

fn backed_up(lab: &Lab, to: &str, more: &[&str]) -> Value {
    lab.backed_up([&["tree", "--name", "t", "--to", to], &TUNE[..], more].concat())
}

fn labels(report: &Value) -> Vec<String> {
    let labels = report["media"].as_array().unwrap();
    labels.iter().map(|label| label.as_str().unwrap().to_owned()).collect()
}

fn whole_tree_comes_back(lab: &Lab) {
    comes_back(lab, "t", &lab.path("tree"));
}

fn lose_database(lab: &Lab) {
    fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
}

/// What an array's members are, by its label.
fn members(lab: &Lab, label: &str) -> Vec<String> {
    let shown: Value =
        serde_json::from_str(&run(lab, &format!("rait status {label} --json")).stdout).unwrap();
    let device = |member: &Value| member["device"].as_str().unwrap().to_owned();
    shown["members"].as_array().unwrap().iter().map(device).collect()
}

/// In the place of a member's tape is a blank one.
fn lose(lab: &Lab, member: &str) {
    let (library, barcode) = member.split_once("?tape=").unwrap();
    let dir = library.strip_prefix("vtape:").unwrap();
    fs::write(lab.path(format!("{dir}/tapes/{barcode}.tape")), "capstan vtape 1\n").unwrap();
}

#[test]
fn a_session_goes_on_on_a_next_array() {
    let lab = Lab::new();
    library(&lab, "vtl", 3, 10);
    tree(&lab, 5);
    let full = backed_up(&lab, ONE, &[]);
    let on = labels(&full);
    assert!(on.len() >= 2, "{full:#}");
    assert_eq!(full["drives"].as_array().unwrap().len(), 3 * on.len(), "{full:#}");
    let said = full["errors"].to_string();
    assert!(!said.contains("member-lost"), "{said}");
    whole_tree_comes_back(&lab);
    // Each tape is loaded once for that.
    let verified = report(finish(lab.command().args(["verify", "t", "--json"])));
    assert_eq!(verified["drives"].as_array().unwrap().len(), 3 * on.len(), "{verified:#}");
    // The next session appends to the last one, and builds on both.
    lab.sh("cd tree; rm big-1; echo new >new");
    let second = backed_up(&lab, ONE, &[]);
    assert_eq!((&second["method"], &second["errors"]), (&"incr".into(), &json!([])), "{second:#}");
    assert_eq!(labels(&second), on[on.len() - 1..], "{second:#}");
    whole_tree_comes_back(&lab);
    let states = media(&lab);
    let state = |label: &String| states.iter().find(|m| m.0 == *label).unwrap().1.as_str();
    assert_eq!((state(&on[0]), state(on.last().unwrap())), ("full", "appendable"));
    let inventory = run(&lab, "library inventory vtape:vtl --json");
    let parts =
        inventory.ok().stdout.lines().filter(|line| line.contains(&format!("\"{}\"", on[0])));
    assert!(parts.count() >= 3, "each tape says of which array it is: {}", inventory.stdout);
    // Any tape of each array may be lost; the database too.
    let all: Vec<Vec<String>> = on.iter().map(|label| members(&lab, label)).collect();
    let mut distinct = all.concat();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 3 * on.len(), "{all:?}");
    for (n, members) in all.iter().enumerate() {
        lose(&lab, &members[n % 3]);
    }
    whole_tree_comes_back(&lab);
    for import in [ONE, "vtape:vtl"] {
        lose_database(&lab);
        let imported = run(&lab, &format!("import {import} --json"));
        let report: Value = serde_json::from_str(&imported.stdout).unwrap();
        assert_eq!(labels(&report).len(), on.len(), "{}{}", imported.stdout, imported.stderr);
        assert!(imported.stderr.contains("is lost"), "{}", imported.stderr);
        assert!(!report["notes"].to_string().contains("wanted"), "{report:#}");
        whole_tree_comes_back(&lab);
    }
    // What lacks a tape is not gone on with: a new one is begun.
    lab.sh("echo newer >tree/newer");
    let third = backed_up(&lab, ONE, &[]);
    assert!(!on.contains(&labels(&third)[0]), "{third:#}");
    whole_tree_comes_back(&lab);
}

#[test]
fn arrays_in_two_libraries_and_in_one_another_span_too() {
    for array in [
        "rait1:vtape:vtl,vtape:other",
        "rait1:(rait0:vtape:vtl,vtape:vtl),(rait0:vtape:other,vtape:other)",
    ] {
        let lab = Lab::new();
        library(&lab, "vtl", 2, 5);
        library(&lab, "other", 2, 5);
        tree(&lab, if array.contains('(') { 4 } else { 2 });
        let full = backed_up(&lab, array, &[]);
        let on = labels(&full);
        assert!(on.len() >= 2, "{full:#}");
        whole_tree_comes_back(&lab);
        lose_database(&lab);
        // One library has half of each: enough for a mirror.
        run(&lab, "import vtape:other");
        whole_tree_comes_back(&lab);
        lose_database(&lab);
        run(&lab, &format!("import {array}")).ok();
        whole_tree_comes_back(&lab);
        // One place burns down.
        lab.sh("mv vtl gone");
        whole_tree_comes_back(&lab);
    }
}

/// Tapes are chosen where all libraries are there. Who names those of an array goes on without the library that is away.
#[test]
fn a_library_that_is_away_is_a_lost_member_of_an_array_that_is_named() {
    for array in [
        "rait1:vtape:vtl,vtape:other",
        "rait1:(rait0:vtape:vtl,vtape:vtl),(rait0:vtape:other,vtape:other)",
    ] {
        let lab = Lab::new();
        library(&lab, "vtl", 2, 3);
        library(&lab, "other", 2, 3);
        tree(&lab, 0);
        let label = labels(&backed_up(&lab, array, &[])).concat();
        let shown = run(&lab, &format!("media show {label} --json"));
        let medium: Value = serde_json::from_str(&shown.ok().stdout).unwrap();
        let named = medium["device"].as_str().unwrap();
        lab.sh("mv vtl gone");
        lab.file("tree/new", "while it was away");
        let chosen = ["backup", "tree", "--name", "t", "--to", array];
        lab.run(chosen).refused(&[
            "vtl: there is no virtual library",
            "bring the library back",
            named,
        ]);
        let done = lab.backup(["tree", "--name", "t", "--to", named]);
        assert_eq!(done["status"], "completed_with_errors", "{done:#}");
        let errors = done["errors"].to_string();
        assert!(errors.contains("member-lost") && errors.contains("vtl"), "{done:#}");
        assert_eq!((&done["method"], labels(&done).concat()), (&"incr".into(), label), "{done:#}");
        whole_tree_comes_back(&lab);
        lab.sh("mv gone vtl");
        whole_tree_comes_back(&lab);
    }
}

#[test]
fn too_little_of_an_array_in_a_library_is_said() {
    let lab = Lab::new();
    library(&lab, "vtl", 2, 4);
    library(&lab, "other", 1, 2);
    tree(&lab, 0);
    let array = "rait5:vtape:vtl,vtape:other,vtape:vtl";
    backed_up(&lab, array, &[]);
    lose_database(&lab);
    run(&lab, "import vtape:other").refused(&["1 of 3 members", "2 are needed"]);
    // Named in another order, and wherever they are by now.
    let inventory = run(&lab, "library inventory vtape:vtl --json").ok().stdout.clone();
    assert!(inventory.contains("V00001L9"), "{inventory}");
    run(&lab, "library move vtape:vtl slot:4 slot:6").ok();
    run(&lab, "import rait5:vtape:other,vtape:vtl,vtape:vtl").ok();
    whole_tree_comes_back(&lab);
    run(&lab, "import rait1:vtape:vtl,vtape:vtl").refused(&["no array of"]);
}

#[test]
fn tapes_are_of_arrays_or_of_single_sessions() {
    let lab = Lab::new();
    library(&lab, "vtl", 3, 6);
    tree(&lab, 0);
    backed_up(&lab, "vtape:vtl", &[]);
    let array = backed_up(&lab, ONE, &[]);
    let parts = members(&lab, &labels(&array)[0]);
    assert_eq!(parts.len(), 3);
    assert!(parts.iter().all(|part| !part.ends_with("V00001L9")), "{parts:?}");
    whole_tree_comes_back(&lab);
    // A single tape's session passes over the array's.
    lab.sh("echo new >tree/new");
    let single = backed_up(&lab, "vtape:vtl", &["--full"]);
    assert_eq!(labels(&single), ["V00001L9"]);
    run(&lab, "backup tree --to vtape:vtl?tape=V00002L9").refused(&["part of an array"]);
    // Two blank ones are left, which is too few; what is given up counts, too.
    run(&lab, &format!("media export {} --to away", labels(&array)[0])).ok();
    let said = run(&lab, &format!("backup tree --name u --to {ONE}"));
    said.refused(&["too few tapes", "V00001L9", "is exported"]);
}

#[test]
fn a_tape_that_is_free_becomes_a_member() {
    let lab = Lab::new();
    library(&lab, "vtl", 2, 2);
    tree(&lab, 0);
    run(&lab, "media init vtape:vtl?tape=V00002L9 --label old").ok();
    let array = "rait1:vtape:vtl,vtape:vtl";
    let done = backed_up(&lab, array, &[]);
    assert_eq!(media(&lab), [(labels(&done)[0].clone(), "appendable".to_owned())]);
    whole_tree_comes_back(&lab);
    // An array that is given up is taken again as a whole.
    run(&lab, "protect t --none").ok();
    run(&lab, &format!("media recycle {} --give-up", labels(&done)[0])).ok();
    let again = backed_up(&lab, array, &["--full"]);
    assert_eq!(labels(&again), labels(&done));
    whole_tree_comes_back(&lab);
}

#[test]
fn a_pool_of_arrays_spans() {
    let lab = Lab::new();
    library(&lab, "vtl", 2, 5);
    tree(&lab, 2);
    run(&lab, "pool create weekly").ok();
    for pair in [[1, 2], [3, 4]] {
        let members = pair.map(|n| format!("vtape:vtl?tape=V{n:05}L9")).join(",");
        run(&lab, &format!("media init rait1:{members} --pool weekly --block-size 64K")).ok();
    }
    let done =
        lab.backed_up(["tree", "--name", "t", "--to", "pool:weekly", "--segment-size", "4M"]);
    assert_eq!(labels(&done), ["V00001L9", "V00003L9"], "{done:#}");
    whole_tree_comes_back(&lab);
}

#[test]
fn each_tape_needs_a_drive() {
    let lab = Lab::new();
    library(&lab, "vtl", 3, 6);
    tree(&lab, 0);
    backed_up(&lab, ONE, &[]);
    let file = lab.path("vtl/library.toml");
    let text = fs::read_to_string(&file).unwrap();
    let less = text.replace("drives = 3", "drives = 2");
    assert_ne!(text, less);
    fs::write(&file, less).unwrap();
    // The library has a drive less: what is there is read with the two that it has, and nothing is written.
    let restored = lab.restore(["t", "--into", "out"]);
    assert_eq!(restored["status"], "completed", "{restored:#}");
    assert!(restored["errors"].to_string().contains("2 drives"), "{restored:#}");
    run(&lab, &format!("backup tree --to {ONE}")).refused(&["2 drives", "3 tapes"]);
    let label = media(&lab).remove(0).0;
    let verified = run(&lab, &format!("verify --medium {label}"));
    assert_eq!(verified.code, 3, "{}{}", verified.stdout, verified.stderr);
    let striped = "rait0:vtape:vtl,vtape:vtl,vtape:vtl";
    fs::write(&file, &text).unwrap();
    lab.backed_up(["tree", "--name", "s", "--to", striped]);
    fs::write(&file, text.replace("drives = 3", "drives = 2")).unwrap();
    let said = run(&lab, "restore s --into elsewhere");
    assert_ne!(said.code, 0);
    assert!(said.stderr.contains("2 drives"), "{}", said.stderr);
}

#[test]
fn copies_are_staged_to_arrays_of_tapes() {
    let lab = Lab::new();
    library(&lab, "vtl", 2, 6);
    tree(&lab, 3);
    let array = "rait1:vtape:vtl,vtape:vtl";
    lab.backed_up(["tree", "--name", "t", "--to", "disk", "--segment-size", "4M"]);
    let copied = run(&lab, &format!("copy t --to {array} --json"));
    let report: Value = serde_json::from_str(&copied.ok().stdout).unwrap();
    assert!(labels(&report).len() >= 2, "{report:#}");
    let staged = run(&lab, &format!("stage disk --to {array} --json"));
    let report: Value = serde_json::from_str(&staged.ok().stdout).unwrap();
    assert_eq!(report["bytes_written"], 0, "it is there already: {report:#}");
    assert!(lab.sh("ls disk").lines().all(|name| !name.ends_with(".segment")));
    whole_tree_comes_back(&lab);
}

#[test]
fn a_tape_that_is_no_member_any_more_is_made_blank() {
    let lab = Lab::new();
    library(&lab, "vtl", 2, 4);
    tree(&lab, 0);
    let done = backed_up(&lab, "rait1:vtape:vtl,vtape:vtl", &[]);
    let label = &labels(&done)[0];
    run(&lab, &format!("rait rebuild {label} --member V00002L9 --onto vtape:vtl?tape=V00003L9"))
        .ok();
    let erase = |tape: &str| run(&lab, &format!("media erase vtape:vtl?tape={tape} --foreign"));
    for member in ["V00001L9", "V00003L9"] {
        erase(member).refused(&["the database knows"]);
    }
    erase("V00002L9").ok();
    run(&lab, &format!("rait status {label}")).ok();
    run(&lab, "media init vtape:vtl?tape=V00002L9").ok();
    whole_tree_comes_back(&lab);
}

/// A tape warns of its end too late for the segments that are copied: each takes one, and the second is begun for nothing.
#[test]
fn tapes_that_get_full_in_a_segment_are_no_failures() {
    let lab = Lab::new();
    library(&lab, "vtl", 2, 12);
    library(&lab, "single", 1, 6);
    tree(&lab, 6);
    let backup = ["tree", "--name", "t", "--to", "disk", "--streams", "1"];
    lab.backed_up([&backup[..], &["--segment-size", "10M"]].concat());
    for (to, least) in [("rait1:vtape:vtl,vtape:vtl", 5), ("vtape:single", 5)] {
        let copied = run(&lab, &format!("copy t --to {to} --json"));
        let report: Value = serde_json::from_str(&copied.ok().stdout).unwrap();
        assert!(labels(&report).len() >= least, "{report:#}");
        assert_eq!(report["status"], "completed", "{report:#}");
        assert!(!copied.stderr.contains("member-lost"), "{}", copied.stderr);
    }
    lab.sh("mv disk away");
    whole_tree_comes_back(&lab);
    lab.sh("mv vtl vtl-away");
    whole_tree_comes_back(&lab);
}

#[test]
fn a_drive_that_fails_costs_a_member_and_the_next_array_is_whole() {
    let lab = Lab::new();
    library(&lab, "vtl", 3, 7);
    tree(&lab, 5);
    let library = Library::open(&lab.path("vtl")).unwrap();
    library.plan_faults(Some(2), "write:60=error").unwrap();
    let done = lab.backup([&["tree", "--name", "t", "--to", ONE], &TUNE[..]].concat());
    assert_eq!(done["status"], "completed_with_errors", "{done:#}");
    assert!(done["errors"].to_string().contains("member-lost"), "{done:#}");
    let on = labels(&done);
    assert!(on.len() >= 2, "{done:#}");
    whole_tree_comes_back(&lab);
    let state = |label: &String| run(&lab, &format!("rait status {label}")).code;
    assert_eq!((state(&on[0]), state(on.last().unwrap())), (3, 0));
    run(&lab, "media list").ok();
}

#[test]
fn what_cannot_be_an_array_of_tapes_is_refused() {
    let lab = Lab::new();
    library(&lab, "vtl", 3, 4);
    tree(&lab, 0);
    let backup = |to: &str| run(&lab, &format!("backup tree --to {to}"));
    backup("rait1:vtape:vtl,vtape:vtl?tape=V00002L9").refused(&["?tape=BARCODE"]);
    backup("rait1:vtape:vtl,disk").refused(&["?tape=BARCODE"]);
    backup("rait1:vtape:vtl?tape=V00001L9,vtape:vtl?tape=V00001L9").refused(&["twice"]);
    backup("rait1:vtape:vtl?spool=/tmp,vtape:vtl").refused(&["spool"]);
    backup(&format!("rait:4+1:{}", ["vtape:vtl"; 5].join(","))).refused(&["3 drives", "5 tapes"]);
    run(&lab, &format!("media init {ONE}")).refused(&["?tape=BARCODE"]);
    assert!(!lab.path("disk").exists());
}

/// How many whole attachments of a kind the tape of a member has.
fn attached(lab: &Lab, member: &str, kind: &str) -> usize {
    let (library, barcode) = member.split_once("?tape=").unwrap();
    let dir = library.strip_prefix("vtape:").unwrap();
    let bytes = fs::read(lab.path(format!("{dir}/tapes/{barcode}.tape"))).unwrap();
    let said = format!("\"attachment\":\"{kind}\"");
    bytes.windows(said.len()).filter(|w| *w == said.as_bytes()).count() / 2
}

#[test]
fn locks_and_backups_of_the_database_are_on_every_tape() {
    let lab = Lab::new();
    library(&lab, "vtl", 3, 7);
    tree(&lab, 4);
    lab.file("sheet", run(&lab, "idb recovery-key").ok().stdout.clone());
    let options = ["--protect", "none", "--lock-until", "30d"];
    let done = backed_up(&lab, ONE, &options);
    let on = labels(&done);
    assert!(on.len() >= 2 && done["errors"].to_string().find("not").is_none(), "{done:#}");
    let all: Vec<Vec<String>> = on.iter().map(|label| members(&lab, label)).collect();
    for (n, array) in all.iter().enumerate() {
        let last = usize::from(n + 1 == all.len());
        let has = |kind| array.iter().map(|m| attached(&lab, m, kind)).collect::<Vec<_>>();
        assert_eq!((has("lock"), has("idb-backup")), (vec![1; 3], vec![last; 3]), "{array:?}");
    }
    let last = on.last().unwrap();
    run(&lab, &format!("verify --medium {last}")).ok();
    if let Some(reader) = Reader::find() {
        let file = |m: &String| m.replace("vtape:", "").replace("?tape=", "/tapes/") + ".tape";
        // The arrays that the session spans, of each all members.
        let files: Vec<String> = all.iter().flatten().map(file).collect();
        for command in ["check", "list"] {
            let args: Vec<&str> =
                std::iter::once(command).chain(files.iter().map(|f| &**f)).collect();
            let said = reader.run(&lab, None, &args);
            let locked = said.ok().stdout.matches("locked until").count();
            assert_eq!(locked, usize::from(command == "list"), "{}", said.stdout);
        }
        // Of one array alone it is told that there was another.
        let last = files[files.len() - 3..].iter().map(|f| &**f);
        let said = reader.run(&lab, None, &["check"].into_iter().chain(last).collect::<Vec<_>>());
        assert_eq!(said.code, 3, "{}", said.stdout);
        assert!(said.stdout.contains("which was not given"), "{}", said.stdout);
    }
    // It is appended to behind them, and a lost tape of each array costs nothing.
    lab.file("tree/new", "more");
    let second = backed_up(&lab, ONE, &["--incr"]);
    assert_eq!(labels(&second)[0], *last);
    let spare = format!("vtape:vtl?tape=V{:05}L9", 7);
    let barcode = all.last().unwrap()[1].split_once("?tape=").unwrap().1;
    run(&lab, &format!("rait rebuild {last} --member {barcode} --onto {spare}")).ok();
    let last_members = members(&lab, last);
    let counts =
        last_members.iter().map(|m| (attached(&lab, m, "lock"), attached(&lab, m, "idb-backup")));
    assert_eq!(counts.collect::<Vec<_>>(), [(1, 2); 3], "{last_members:?}");
    lose(&lab, &all[0][1]);
    lose(&lab, &last_members[0]);
    fs::rename(lab.path("home"), lab.path("before")).unwrap();
    for from in [ONE, "vtape:vtl"] {
        let back = run(&lab, &format!("idb recover {from} --code-file sheet --json"));
        let report: Value = serde_json::from_str(&back.ok().stdout).unwrap();
        let media = report["media"].as_array().unwrap();
        assert_eq!(media.len(), on.len(), "{report:#}");
        assert!(media.iter().all(|m| m["lacking"].is_null()), "{report:#}");
        whole_tree_comes_back(&lab);
        for label in &on {
            run(&lab, &format!("media recycle {label}")).refused(&["must stay"]);
        }
        fs::remove_dir_all(lab.path("home")).unwrap();
    }
    // A new database learns of the locks by an import.
    run(&lab, &format!("import {ONE}"));
    assert!(run(&lab, "sessions").stdout.contains("locked until"));
    let said = run(&lab, &format!("media erase {last}"));
    assert_eq!(said.code, 2, "{}", said.stderr);
}

#[test]
fn drives_encrypt_each_tape_of_an_array_with_a_key_of_its_own() {
    let lab = Lab::with_passphrase(Some("correct horse battery"));
    library(&lab, "vtl", 3, 8);
    tree(&lab, 4);
    lab.file("sheet", run(&lab, "idb recovery-key").ok().stdout.clone());
    // One that was made without a key and holds nothing is made so.
    let first = [1, 2, 3].map(|n| format!("vtape:vtl?tape=V{n:05}L9")).join(",");
    run(&lab, &format!("media init rait5:{first} --block-size 64K")).ok();
    let done =
        backed_up(&lab, ONE, &["--encrypt", "drive", "--protect", "none", "--lock-until", "30d"]);
    assert_eq!(done["encryption"], "drive", "{done:#}");
    let on = labels(&done);
    assert!(on.len() >= 2 && on[0] == "V00001L9", "{done:#}");
    let all: Vec<Vec<String>> = on.iter().map(|label| members(&lab, label)).collect();
    let clear = noise(1, 10_000_000);
    for member in all.concat() {
        let file =
            fs::read(lab.path(member.replace("vtape:", "").replace("?tape=", "/tapes/") + ".tape"));
        let file = file.unwrap();
        let has = |piece: &[u8]| file.windows(piece.len()).any(|w| w == piece);
        assert!(has(b"drive_key") && file.len() > 1_000_000, "{member}");
        assert!(!has(&clear[500_000..500_032]) && !has(b"\"session_end\""), "{member} lies open");
    }
    whole_tree_comes_back(&lab);
    run(&lab, "verify t").ok();
    // It is appended to, and done without a member of each.
    lab.file("tree/new", "more");
    let second = backed_up(&lab, ONE, &["--incr", "--encrypt", "drive"]);
    assert_eq!(labels(&second)[0], *on.last().unwrap());
    lose(&lab, &all[0][2]);
    lose(&lab, &all.last().unwrap()[0]);
    run(
        &lab,
        &format!(
            "rait rebuild {} --member vtape:vtl?tape=V00003L9 --onto vtape:vtl?tape=V00008L9",
            on[0]
        ),
    )
    .ok();
    lose(&lab, &all[0][0]);
    whole_tree_comes_back(&lab);
    // Those that are not to be encrypted are others.
    let open = lab.backed_up(["tree/text", "--name", "u", "--to", "rait1:vtape:vtl,vtape:vtl"]);
    assert!(labels(&open).iter().all(|label| !on.contains(label)), "{open:#}");
    fs::remove_dir_all(lab.path("home")).unwrap();
    run(&lab, "idb recover vtape:vtl --code-file sheet").ok();
    whole_tree_comes_back(&lab);
    fs::remove_dir_all(lab.path("home")).unwrap();
    run(&lab, &format!("import {ONE}"));
    whole_tree_comes_back(&lab);
    // Without the secret there is nothing to be read.
    fs::remove_dir_all(lab.path("home")).unwrap();
    let mut command = lab.program("setsid");
    command.arg("--wait").arg(env!("CARGO_BIN_EXE_capstan")).env("CAPSTAN_HOME", lab.path("home"));
    let closed = finish(command.env("CAPSTAN_PASSPHRASE", "wrong").args(["import", ONE]));
    assert_ne!(closed.code, 0, "{}", closed.stdout);
    assert!(closed.stderr.contains("encrypted by its drive"), "{}", closed.stderr);
}

/// Whatever was reported as completed restores, whatever fails of drives and robot, and without a tape of each whole array.
#[test]
fn what_was_reported_completed_restores_whatever_fails_of_an_array() {
    let seeds = match std::env::var("CAPSTAN_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None if soak() => 0..60,
        None => 0..1,
    };
    for seed in seeds {
        let lab = Lab::new();
        library(&lab, "vtl", 3, 12);
        tree(&lab, 1);
        let mut random = Seeded(seed);
        let (mut completed, mut arrays) = (Vec::new(), Vec::new());
        for round in 0..3 {
            lab.file(&format!("tree/round-{round}"), noise(seed * 10 + round, 9_000_000));
            lab.sh(&format!("cd tree; echo {round} >text; touch -d @{} d1/f1", 1_000_000 + round));
            let robot = Library::open(&lab.path("vtl")).unwrap();
            match random.below(6) {
                0 => robot.plan_faults(None, &format!("move:{}=jam", 1 + random.below(5))).unwrap(),
                _ => robot.plan_faults(Some(1 + random.below(3) as u32), &random.plan()).unwrap(),
            }
            let level = if random.below(3) == 0 { "--full" } else { "--incr" };
            let args = ["backup", "--json", "tree", "--to", ONE, "--name", "t", level];
            let run = lab.run([&args[..], &TUNE].concat());
            let said: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
            println!("seed {seed}: {} {}", said["status"], run.stderr.lines().last().unwrap_or(""));
            if said["status"].as_str().is_some_and(|status| status.starts_with("completed")) {
                let state = lab.path(format!("state-{round}"));
                lab.sh(&format!("cp -a tree {}", state.display()));
                completed.push((said["session"].as_str().unwrap().to_owned(), state));
            }
            arrays.extend(labels(&said));
        }
        // What was planned and did not come to pass stays no longer.
        for planned in ["robot.faults", "drive-1.faults", "drive-2.faults", "drive-3.faults"] {
            let _ = fs::remove_file(lab.path("vtl").join(planned));
        }
        let all_come_back = || {
            for (session, state) in &completed {
                comes_back(&lab, &format!("t@{session}"), state);
            }
        };
        all_come_back();
        arrays.sort();
        arrays.dedup();
        for label in arrays {
            if run(&lab, &format!("rait status {label}")).code == 0 {
                lose(&lab, &members(&lab, &label)[random.below(3) as usize]);
            }
        }
        all_come_back();
    }
}

/// The tapes of the other members stay in their drives while the one that is away is looked for.
#[test]
fn a_member_that_is_away_has_no_tape_loaded_twice() {
    let lab = Lab::new();
    library(&lab, "vtl", 3, 12);
    tree(&lab, 6);
    let arrays = labels(&backed_up(&lab, ONE, &[]));
    assert!(arrays.len() >= 2, "{arrays:?}");
    let unload = || {
        for drive in 1..=3 {
            let _ = run(&lab, &format!("library unload vtape:vtl drive:{drive}"));
        }
    };
    let mut tapes = Vec::new();
    for label in &arrays {
        let members = members(&lab, label);
        unload();
        for (place, member) in members.iter().enumerate() {
            let barcode = member.split_once("?tape=").unwrap().1.to_owned();
            match place {
                1 => drop(run(&lab, &format!("vtl take vtl {barcode}")).ok()),
                _ => tapes.push(barcode),
            }
        }
    }
    let loads = || -> Vec<u64> {
        let of = |barcode: &String| {
            let path = lab.path(format!("vtl/tapes/{barcode}.json"));
            let label: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
            label["loads"].as_u64().unwrap()
        };
        tapes.iter().map(of).collect()
    };
    let once = |before: &[u64]| {
        let more: Vec<u64> = loads().iter().zip(before).map(|(now, was)| now - was).collect();
        assert!(more.iter().all(|n| *n <= 1), "{tapes:?} {more:?}");
        unload();
    };
    let before = loads();
    lab.run(["restore", "t", "--into", "out"]).ok();
    once(&before);
    let before = loads();
    run(&lab, "verify t");
    once(&before);
}

#[test]
fn loads_of_an_arrays_tapes_are_the_arrays() {
    let lab = Lab::new();
    for library in ["v1", "v2"] {
        lab.run(["vtl", "create", library, "--drives", "1", "--tapes", "3", "--scale", "1000"])
            .ok();
    }
    lab.file("tree/a", noise(1, 100_000));
    let to = "rait1:vtape:v1,vtape:v2";
    lab.backed_up(["tree", "--to", to, "--name", "t"]);
    let loads = || {
        let listed = lab.run(["media", "list", "--json"]).ok().rows();
        assert_eq!(listed.len(), 1, "{listed:?}");
        listed[0]["loads"].as_u64().unwrap()
    };
    assert_eq!(loads(), 2);
    lab.run(["library", "unload", "vtape:v1", "1"]).ok();
    lab.backed_up(["tree", "--to", to, "--name", "t"]);
    assert_eq!(loads(), 3);
}
