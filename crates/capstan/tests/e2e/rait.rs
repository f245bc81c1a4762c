//! Arrays of devices: whatever may be lost of one, all comes back; what is more is named.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

use capstan_medium::tape::TapeLibrary;
use capstan_tape::vtl::library::{Design, Library};
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::independent_reader::Reader;
use crate::mirror::{comes_back, comes_back_as};
use crate::support::{Lab, Mount, below, can_mount, noise, skip, wait_for};

const TUNE: [&str; 4] = ["--block-size", "64K", "--segment-size", "4M"];

fn tree(lab: &Lab) {
    for i in 0..60 {
        lab.file(&format!("tree/d{}/f{i}", i % 7), noise(i, 20_000 + i as usize));
    }
    lab.file("tree/huge", noise(7, 9_000_000));
    lab.sh("cd tree; seq 1 20000 >text; ln d1/f1 linked; ln -s d1/f1 symlink; mkfifo pipe; truncate -s 2M sparse");
}

fn backed_up(lab: &Lab, array: &str) -> Value {
    lab.backed_up([&["tree", "--name", "t", "--to", array][..], &TUNE].concat())
}

/// Changes a byte in each of these blocks of all large segments of a member.
fn damage(member: &Path, stripes: &[u64]) {
    for entry in fs::read_dir(member).unwrap() {
        let path = entry.unwrap().path();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        if path.extension().is_none_or(|e| e != "segment")
            || file.metadata().unwrap().len() < 2_000_000
        {
            continue;
        }
        for stripe in stripes {
            let at = 4096 + stripe * 65536 + 40_000;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
        }
    }
}

fn status(lab: &Lab, array: &str, code: i32) -> Value {
    let run = lab.run(["rait", "status", array, "--json"]);
    assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

fn member_states(info: &Value) -> Vec<&str> {
    info["members"].as_array().unwrap().iter().map(|m| m["state"].as_str().unwrap()).collect()
}

#[test]
fn one_of_three_may_be_lost_and_any_block_of_a_stripe() {
    let lab = Lab::new();
    tree(&lab);
    let array = "rait5:a,b,c";
    let report = backed_up(&lab, array);
    assert_eq!(report["media"], serde_json::json!(["a"]), "{report:#}");
    lab.sh("cp -a tree state-0; echo more >>tree/text; rm tree/d2/f2");
    lab.backed_up(["tree", "--name", "t", "--incr", "--to", array]);
    assert_eq!(member_states(&status(&lab, array, 0)), ["whole"; 3]);
    lab.run(["verify", "t"]).ok();
    for lost in ["a", "b", "c"] {
        lab.sh(&format!("mv {lost} elsewhere"));
        comes_back(&lab);
        let info = status(&lab, "a", 3);
        assert_eq!(member_states(&info).iter().filter(|s| **s == "lost").count(), 1, "{info:#}");
        let verified = lab.run(["verify", "t"]);
        assert_eq!(verified.code, 3, "{}", verified.stderr);
        assert!(verified.stderr.contains("is lost"), "{}", verified.stderr);
        lab.sh(&format!("mv elsewhere {lost}"));
    }
    // Another stripe of each: more members than may be lost, never two blocks of one stripe.
    damage(&lab.path("a"), &[0, 3, 7]);
    damage(&lab.path("b"), &[1, 4, 8]);
    damage(&lab.path("c"), &[2, 5, 9]);
    comes_back(&lab);
    lab.run(["restore", "t", "--to-tar", "out.tar"]).ok();
    lab.sh("mkdir out; tar -C out -xf out.tar; rm out.tar");
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    fs::remove_dir_all(lab.path("out")).unwrap();
    let verified = lab.run(["verify", "--medium", "a"]);
    assert_eq!(verified.code, 3, "{}", verified.stderr);
    for member in ["member 1", "member 2", "member 3"] {
        assert!(verified.stderr.contains(member), "{}", verified.stderr);
    }
    // Now one is lost whole: the stripes that were damaged on the others are lost, and files are named.
    lab.sh("mv a elsewhere");
    let report = lab.restore(["t", "--into", "out"]);
    assert_eq!(report["status"], "completed_with_errors", "{report:#}");
    assert!(report["corrupt"].as_u64().unwrap() > 0, "{report:#}");
}

#[test]
fn a_lost_member_is_written_anew() {
    let lab = Lab::new();
    tree(&lab);
    backed_up(&lab, "rait:2+1:a,b,c");
    lab.sh("cp -a tree state-0; echo more >>tree/text; rm -r b");
    // Degraded, the session says so and all is in it.
    let report = lab.backup(["tree", "--name", "t", "--incr", "--to", "rait:2+1:a,b,c"]);
    assert_eq!(report["status"], "completed_with_errors", "{report:#}");
    assert!(report["errors"].to_string().contains("member-lost"), "{report:#}");
    comes_back(&lab);
    lab.run(["rait", "rebuild", "a", "--member", "b", "--onto", "c"]).refused(&["not blank"]);
    lab.run(["rait", "rebuild", "a", "--member", "x", "--onto", "d"]).refused(&["not a member"]);
    let run = lab.run(["rait", "rebuild", "a", "--member", "b", "--onto", "d", "--json"]);
    let rebuilt: Value = serde_json::from_str(&run.ok().stdout).unwrap();
    assert!(rebuilt["segments"].as_u64().unwrap() > 2, "{rebuilt:#}");
    assert_eq!(member_states(&rebuilt["array"]), ["whole"; 3], "{rebuilt:#}");
    lab.run(["verify", "t"]).ok();
    lab.sh("mv a elsewhere");
    comes_back(&lab);
    lab.sh("mv elsewhere a; mv c elsewhere");
    comes_back(&lab);
    lab.sh("mv elsewhere c");
    // The medium is known by its new name, and goes on.
    let shown = lab.run(["media", "show", "a"]).ok().stdout.clone();
    assert!(shown.contains("/d,"), "{shown}");
    let shown = lab.run(["media", "show", "a", "--json"]).ok().stdout.clone();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(member_states(&shown), ["whole"; 3], "{shown:#}");
    lab.sh("echo even more >>tree/text");
    lab.backed_up(["tree", "--name", "t", "--incr", "--to", "rait:2+1:a,d,c"]);
    comes_back(&lab);
}

#[test]
fn what_too_few_members_have_is_not_forgotten() {
    let lab = Lab::new();
    tree(&lab);
    let array = "rait5:a,b,c";
    backed_up(&lab, array);
    lab.sh("mv b away; echo more >>tree/text");
    let report = lab.backup(["tree", "--name", "t", "--full", "--to", array]);
    assert_eq!(report["status"], "completed_with_errors", "{report:#}");
    // One that is behind comes back, and another one goes.
    lab.sh("mv away b");
    let before = status(&lab, "a", 3);
    assert_eq!(member_states(&before), ["whole", "incomplete", "whole"]);
    assert_eq!(before["missing_segments"], serde_json::json!([]), "{before:#}");
    lab.sh("mv a away");
    let info = status(&lab, "a", 3);
    assert_eq!(info["state"], "incomplete", "{info:#}");
    assert_eq!(info["segments"], before["segments"], "{info:#}");
    assert_eq!(info["missing_segments"], before["members"][1]["lacking"], "{info:#}");
    assert_eq!(member_states(&info), ["lost", "incomplete", "whole"], "{info:#}");
    let version = info["missing_of"][0].as_str().unwrap().to_owned();
    assert!(version.starts_with("t@"), "{info:#}");
    for member in ["a", "b"] {
        let rebuild = ["rait", "rebuild", "a", "--member", member, "--onto", "d"];
        lab.run(rebuild).refused(&["bring back the member", &version]);
    }
    assert!(!lab.path("d").exists());
    let verified = lab.run(["verify", "--medium", "a"]);
    assert_eq!(verified.code, 3, "{}", verified.stderr);
    assert!(
        verified.stderr.contains(&format!("it is recorded ({version})")),
        "{}",
        verified.stderr
    );
    // With it nothing is lost.
    lab.sh("mv away a");
    lab.run(["rait", "rebuild", "a", "--member", "b", "--onto", "d"]).ok();
    lab.sh("mv a away");
    lab.run(["rait", "rebuild", "a", "--member", "1", "--onto", "e"]).ok();
    assert_eq!(member_states(&status(&lab, "a", 0)), ["whole"; 3]);
    lab.run(["verify", "--medium", "a"]).ok();
    comes_back(&lab);
}

#[test]
fn a_killed_rebuilding_is_begun_again() {
    let lab = Lab::new();
    lab.file("tree/huge", noise(7, 40_000_000));
    backed_up(&lab, "rait5:a,b,c");
    lab.sh("rm -r b");
    let mark = lab.path("d/rebuild.unfinished");
    let mut command = lab.command();
    command.args(["rait", "rebuild", "a", "--member", "b", "--onto", "d"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // A mark that is not whole is anybody's: nothing was written yet.
    wait_for("a begin", || fs::read(&mark).is_ok_and(|text| text.ends_with(b"\n")));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(mark.exists(), "it ended before it was killed");
    // It is no member, and nobody else's.
    let info = status(&lab, "rait5:a,d,c", 3);
    assert_eq!(member_states(&info), ["whole", "lost", "whole"], "{info:#}");
    assert!(info["members"][1]["problems"].to_string().contains("rait rebuild"), "{info:#}");
    lab.run(["rait", "rebuild", "a", "--member", "c", "--onto", "d"]).refused(&["not blank"]);
    assert!(mark.exists());
    lab.run(["rait", "rebuild", "a", "--member", "b", "--onto", "d"]).ok();
    assert!(!mark.exists());
    assert_eq!(member_states(&status(&lab, "a", 0)), ["whole"; 3]);
    lab.sh("mv a elsewhere");
    comes_back(&lab);
}

#[test]
fn two_of_six_may_be_lost() {
    let lab = Lab::with_passphrase(Some("secret"));
    tree(&lab);
    backed_up(&lab, "rait:4+2:m1,m2,m3,m4,m5,m6");
    for (one, other) in [(1, 2), (3, 6), (4, 5)] {
        lab.sh(&format!("mkdir away; mv m{one} m{other} away"));
        comes_back(&lab);
        lab.sh("mv away/* .; rmdir away");
    }
    lab.sh("mkdir away; mv m2 m5 away");
    // The database is lost too; members are named in any order, the lost ones where they were.
    fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
    lab.run(["import", "rait:4+2:m3,m2,m1,m4,m5,m6"]).ok();
    comes_back(&lab);
    if let Some(reader) = Reader::find() {
        let members = ["--member", "m3", "--member", "m6", "--member", "m4"];
        reader.run(&lab, Some("secret"), &[&["check", "m1"][..], &members].concat()).ok();
        let extract = ["extract", "m1", "--into", "read"];
        reader.run(&lab, Some("secret"), &[&extract[..], &members].concat()).ok();
        same_by_rsync(&lab.path("tree"), &below(&lab.path("read"), &lab.path("tree")));
    }
    lab.sh("mv m1 away");
    let run = lab.run(["restore", "t", "--into", "out"]);
    assert_ne!(run.code, 0);
    assert!(run.stderr.contains("lacks 3 of its 6 members"), "{}", run.stderr);
    assert_eq!(status(&lab, "rait:4+2:m1,m2,m3,m4,m5,m6", 1)["state"], "broken");
}

#[test]
fn arrays_are_members_of_arrays() {
    let lab = Lab::new();
    tree(&lab);
    let array = "rait1:(rait0:a,b),(rait0:c,d)";
    backed_up(&lab, array);
    assert_eq!(member_states(&status(&lab, array, 0)), ["whole"; 2]);
    for lost in ["a", "d"] {
        lab.sh(&format!("mv {lost} elsewhere"));
        comes_back(&lab);
        lab.sh(&format!("mv elsewhere {lost}"));
    }
    lab.run(["verify", "t"]).ok();
    // One place burns down, and the other is written to.
    lab.sh("mkdir away; mv a b away; cp -a tree state-0; echo more >>tree/text");
    let report = lab.backup(["tree", "--name", "t", "--incr", "--to", array]);
    assert_eq!(report["status"], "completed_with_errors", "{report:#}");
    comes_back(&lab);
    lab.run(["rait", "rebuild", array, "--member", "1", "--onto", "rait0:e,f"]).ok();
    lab.sh("mv c d away");
    comes_back(&lab);
    if let Some(reader) = Reader::find() {
        reader.run(&lab, None, &["check", "e", "--member", "f"]).ok();
        reader.run(&lab, None, &["extract", "f", "--member", "e", "--into", "read"]).ok();
        same_by_rsync(&lab.path("tree"), &below(&lab.path("read"), &lab.path("tree")));
    }
}

#[test]
fn a_member_that_fills_up_is_left() {
    if !can_mount() {
        return skip("only root can mount a small file system");
    }
    let lab = Lab::new();
    tree(&lab);
    let small = Mount::new(&["-t", "tmpfs", "-o", "size=12M", "tmpfs"], &lab.path("small"));
    let array = "rait5:a,small/b,c";
    backed_up(&lab, array);
    lab.file("tree/more", noise(99, 20_000_000));
    let report = lab.backup(["tree", "--name", "t", "--to", array, "--segment-size", "4M"]);
    assert_eq!(report["status"], "completed_with_errors", "{report:#}");
    let errors = report["errors"].to_string();
    assert!(errors.contains("member-lost") && errors.contains("No space left"), "{report:#}");
    comes_back(&lab);
    drop(small);
    comes_back(&lab);
}

#[test]
fn segments_go_from_all_members() {
    let lab = Lab::new();
    tree(&lab);
    let array = "rait5:a,b,c";
    backed_up(&lab, array);
    lab.sh("echo more >>tree/text");
    lab.backed_up(["tree", "--name", "t", "--full", "--to", array]);
    let segments = |member: &str| -> usize {
        lab.sh(&format!("ls {member} | grep -c 'segment$' || true")).trim().parse().unwrap()
    };
    let before = segments("a");
    // With one away; what it has of them is none of the array's any more when it is back.
    lab.sh("mv c elsewhere");
    lab.run(["prune", "t", "--keep-last", "1"]).ok();
    assert!(segments("a") < before && segments("a") == segments("b"), "{before}");
    lab.sh("mv elsewhere c");
    assert_eq!(segments("c"), before);
    comes_back(&lab);
    lab.run(["verify", "--medium", "a"]).ok();
    lab.run(["idb", "check"]).ok();
    // Locks are on all members.
    lab.run(["lock", "t", "--until", "2999-01-01"]).ok();
    for member in ["a", "b", "c"] {
        lab.sh(&format!("ls {member}/*.lock"));
    }
    lab.run(["media", "label", "a", "array-1"]).ok();
    lab.run(["media", "show", array]).ok();
    comes_back(&lab);
}

#[test]
fn what_is_no_array_is_refused() {
    let lab = Lab::new();
    lab.file("tree/x", "x");
    let backup = |to: &str| lab.run(["backup", "tree", "--to", to]);
    backup("rait5:a,b").refused(&["three members"]);
    backup("rait1:a,a").refused(&["twice"]);
    backup("rait9:a,b").refused(&["rait9"]);
    backup("rait1:a,null:").refused(&["keep nothing"]);
    backup("rait1:a,no/such").refused(&["no/such"]);
    lab.run(["backup", "tree", "--to", "plain"]).ok();
    backup("rait1:plain,b").refused(&["plain"]);
    backup("rait5:a,b,c").ok();
    backup("a").refused(&["part of an array", "member 1 of 3"]);
    lab.run(["import", "b"]).refused(&["part of an array"]);
    backup("rait1:a,b").refused(&["rait5"]);
    assert_eq!(backup("rait5:a,b,plain").code, 3);
    lab.run(["rait", "status", "plain"]).refused(&["no array"]);
    // To null it is fast, and nothing is kept.
    backup("rait5:null:,null:,null:").ok();
    comes_back_as_one(&lab);
}

fn comes_back_as_one(lab: &Lab) {
    let name = lab.path("tree").display().to_string();
    comes_back_as(lab, &name, "tree");
}

/// A library whose tapes hold 100 MB, a hundred thousand times as fast as the world.
fn library(lab: &Lab, name: &str, drives: u32) {
    let design = Design {
        model: "lto-9".into(),
        drives,
        slots: drives + 2,
        mail_slots: 1,
        alone: false,
        capacity: Some(100_000_000),
        scale: 1e5,
        ratio: 1.0,
    };
    Library::create(&lab.path(name), &design, drives).unwrap();
}

/// The barcodes of a library's tapes.
fn tapes(lab: &Lab, name: &str) -> Vec<String> {
    let held = Library::open(&lab.path(name)).unwrap().inventory().unwrap();
    held.into_iter().map(|h| h.barcode).filter(|b| !b.starts_with("CLN")).collect()
}

#[test]
fn arrays_of_tapes_do_without_one() {
    let lab = Lab::new();
    tree(&lab);
    library(&lab, "vtl", 3);
    library(&lab, "other", 1);
    let names: Vec<String> =
        tapes(&lab, "vtl").iter().map(|barcode| format!("vtape:vtl?tape={barcode}")).collect();
    let array = format!("rait5:{}", names[..3].join(","));
    lab.backed_up(["tree", "--name", "t", "--to", &array, "--block-size", "64K"]);
    comes_back(&lab);
    lab.sh("cp -a tree state-0; echo more >>tree/text; rm tree/d2/f2");
    lab.backed_up(["tree", "--name", "t", "--incr", "--to", &array]);
    comes_back(&lab);
    lab.run(["verify", "t"]).ok();
    assert_eq!(member_states(&status(&lab, &array, 0)), ["whole"; 3]);
    // One tape is not there; what is written now it lacks.
    let named = |n: usize| if n == 1 { "vtape:vtl?tape=NONE01L9" } else { names[n].as_str() };
    let degraded = format!("rait5:{},{},{}", named(0), named(1), named(2));
    lab.sh("echo even more >>tree/text");
    let report = lab.backup(["tree", "--name", "t", "--incr", "--to", &degraded]);
    assert_eq!(report["status"], "completed_with_errors", "{report:#}");
    comes_back(&lab);
    // It comes back, and nothing is written to it before it is written anew.
    lab.sh("echo still more >>tree/text");
    let report = lab.backup(["tree", "--name", "t", "--incr", "--to", &array]);
    assert_eq!(report["status"], "completed_with_errors", "{report:#}");
    comes_back(&lab);
    let other = format!("vtape:other?tape={}", tapes(&lab, "other")[0]);
    assert_eq!(member_states(&status(&lab, &array, 3)), ["whole", "incomplete", "whole"]);
    lab.run(["rait", "rebuild", &array, "--member", "2", "--onto", &other]).ok();
    let rebuilt = format!("rait5:{},{other},{}", names[0], names[2]);
    assert_eq!(member_states(&status(&lab, &rebuilt, 0)), ["whole"; 3]);
    let run = lab.run(["import", &format!("rait5:vtape:vtl?tape=NONE01L9,{other},{}", names[2])]);
    assert!(matches!(run.code, 0 | 3), "{}", run.stderr);
    comes_back(&lab);
    lab.run(["backup", "tree", "--to", &names[0]]).refused(&["part of an array"]);
}

#[test]
fn an_array_is_a_medium_like_any_other() {
    let lab = Lab::new();
    tree(&lab);
    let array = "rait1:(rait0:a,b),c";
    lab.run(["media", "init", array, "--label", "both", "--block-size", "64K"]).ok();
    backed_up(&lab, array);
    // Copied from one array to another.
    lab.run(["copy", "t", "--to", "rait5:d,e,f"]).ok();
    lab.sh("mkdir away; mv a b c e away");
    comes_back(&lab);
    lab.sh("mv away/* .");
    lab.sh("cp -a tree state-0; echo more >>tree/text");
    lab.backed_up(["tree", "--name", "t", "--incr", "--to", array]);
    lab.run(["consolidate", "t", "--to", "rait5:d,e,f"]).ok();
    lab.run(["verify", "--medium", "d"]).ok();
    comes_back(&lab);
    // A member that was away while the array was recycled is of another one when it is back.
    let other = "rait5:g,h,i";
    let failing = ["--from-command", "cat tree/text; false", "--name", "f", "--to", other];
    assert_eq!(lab.backup(failing)["status"], "failed");
    lab.sh("mv i away");
    lab.run(["media", "recycle", "g"]).ok();
    lab.sh("mv away/i .");
    let info = status(&lab, other, 3);
    let problem = info["members"][2]["problems"][0].as_str().unwrap();
    assert!(problem.contains("another array"), "{info:#}");
    // Another cell's array is read, and written to when it is adopted.
    lab.sh("mv home first");
    lab.run(["backup", "tree", "--to", array]).refused(&["another cell", "media adopt"]);
    lab.run(["import", array]).ok();
    comes_back(&lab);
    lab.run(["media", "adopt", array]).ok();
    lab.sh("echo still more >>tree/text");
    lab.backed_up(["tree", "--name", "t", "--to", array]);
    comes_back(&lab);
}

#[test]
fn an_array_of_tapes_is_given_up() {
    let lab = Lab::new();
    lab.file("tree/x", noise(5, 3_000_000));
    library(&lab, "vtl", 2);
    let names: Vec<String> =
        tapes(&lab, "vtl").iter().map(|barcode| format!("vtape:vtl?tape={barcode}")).collect();
    let array = format!("rait1:{}", names.join(","));
    let failing = ["--from-command", "cat tree/x; false", "--name", "f", "--to", &array];
    assert_eq!(lab.backup(failing)["status"], "failed");
    let before = status(&lab, &array, 0);
    lab.run(["media", "recycle", &array]).ok();
    let after = status(&lab, &array, 0);
    assert_ne!(before["id"], after["id"]);
    assert_eq!(after["segments"], 0, "{after:#}");
    lab.backed_up(["tree", "--name", "t", "--to", &array]);
    comes_back(&lab);
    assert_eq!(status(&lab, &array, 0)["segments"], 1);
}
