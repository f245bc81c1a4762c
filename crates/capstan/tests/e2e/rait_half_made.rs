//! Arrays whose making was cut short, by a kill or the loss of power: the next backup makes what they lack, and nothing where anything lies.

use std::fs;
use std::path::Path;

use capstan_tape::vtl::library::Library;

use crate::support::{Lab, Run, completed, report};
use crate::tape::{comes_back, library_of};

const ARRAY: &str = "rait5:a,b,c";
const LIBRARIES: &str = "rait5:vtape:vtl,vtape:vtl,vtape:vtl";

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

/// A home in use.
fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/text", "1");
    lab.sh("seq 1 20000 >tree/more");
    lab.backed_up(["tree", "--name", "other", "--to", "other"]);
    lab
}

/// The same, which knows nothing of an array that was made.
fn lab_with(array: &str) -> Lab {
    let lab = lab();
    make(&lab, array);
    lab
}

fn make(lab: &Lab, array: &str) {
    unrecorded(lab, || _ = run(lab, &format!("media init {array} --block-size 64K")).ok());
}

/// Does something of which the home knows nothing afterwards.
fn unrecorded(lab: &Lab, what: impl FnOnce()) {
    let kept = lab.keep_tables();
    lab.sh("cp -a home before");
    what();
    lab.sh("rm -r home; mv before home");
    lab.put_tables_back(&kept);
}

/// Leaves of the members' directories what a kill left while they were made: a header, the begin of one, or nothing.
fn cut(lab: &Lab, unfinished: &[&str], nothing: &[&str]) {
    for name in unfinished {
        let header = |end| lab.path(name).join(format!("medium.capstan{end}"));
        fs::rename(header(""), header(".new")).unwrap();
        fs::OpenOptions::new().write(true).open(header(".new")).unwrap().set_len(100).unwrap();
    }
    for name in nothing {
        fs::remove_file(lab.path(name).join("medium.capstan")).unwrap();
    }
}

fn backup(lab: &Lab, array: &str) -> Run {
    run(lab, &format!("backup tree --name t --to {array} --json"))
}

/// Backs up to an array that is whole afterwards; any member may go.
fn becomes_whole(lab: &Lab, array: &str, members: &[&str]) {
    completed(report(backup(lab, array)));
    lab.sh("echo more >>tree/text");
    completed(report(backup(lab, array)));
    let status = run(lab, &format!("rait status {array}"));
    assert!(status.ok().stdout.contains("whole"), "{}", status.stdout);
    for member in members {
        lab.sh(&format!("mv {member} away"));
        comes_back(lab, "t", &lab.path("tree"));
        lab.sh(&format!("mv away {member}"));
    }
}

#[test]
fn a_backup_makes_the_members_that_lack() {
    for (unfinished, nothing) in [
        (&["b"][..], &["c"][..]),
        (&["a"], &["b", "c"]),
        (&[], &["c"]),
        (&["c"], &[]),
        (&[], &["a", "c"]),
    ] {
        let lab = lab_with(ARRAY);
        cut(&lab, unfinished, nothing);
        becomes_whole(&lab, ARRAY, &["a", "b", "c"]);
    }
}

#[test]
fn members_that_are_arrays_are_made_too() {
    let array = "rait1:(rait0:a,b),(rait0:c,d)";
    for (unfinished, nothing) in [(&["b"][..], &["c", "d"][..]), (&[], &["d"])] {
        let lab = lab_with(array);
        cut(&lab, unfinished, nothing);
        becomes_whole(&lab, array, &["a", "d"]);
    }
}

#[test]
fn nothing_is_made_where_anything_lies() {
    // A segment of a member that is there: the others were lost.
    let lab = lab_with("rait5:x,y,z");
    unrecorded(&lab, || _ = backup(&lab, ARRAY).ok());
    for name in ["b", "c"] {
        lab.sh(&format!("mv {name} {name}x; mkdir {name}"));
    }
    let refused = backup(&lab, ARRAY);
    refused.refused(&[
        "lacks 2 of its 3 members",
        "b is not a member of the array: no medium is in it",
    ]);
    assert!(
        !refused.stderr.contains("back up to it"),
        "that makes another medium: {}",
        refused.stderr
    );
    assert_eq!(names(&lab.path("b")), [] as [&str; 0]);
    // A segment of one, though the one with the header has none.
    cut(&lab, &[], &["y", "z"]);
    lab.sh("cp bx/*.segment z");
    backup(&lab, "rait5:x,y,z").refused(&["lacks"]);
    // Something else.
    lab.sh("rm z/*; echo mine >z/file");
    backup(&lab, "rait5:x,y,z").refused(&["lacks 2 of its 3 members"]);
    assert_eq!(names(&lab.path("y")), [] as [&str; 0]);
    lab.sh("rm z/file");
    // Another cell's: of a home of its own, which is in a file.
    if !crate::server::is_wanted() {
        let home = lab.path("home");
        lab.sh("mkdir kept; mv home kept; mkdir home");
        backup(&lab, "rait5:x,y,z").refused(&["lacks"]);
        assert_eq!(names(&lab.path("y")), [] as [&str; 0]);
        fs::remove_dir_all(&home).unwrap();
        lab.sh("mv kept/home home");
    }
    becomes_whole(&lab, "rait5:x,y,z", &["x", "y", "z"]);
}

/// One that is recorded was whole: what it lacks was lost.
#[test]
fn a_member_of_a_known_array_is_not_made() {
    let lab = lab();
    run(&lab, &format!("media init {ARRAY}")).ok();
    cut(&lab, &[], &["c"]);
    let done = report(backup(&lab, ARRAY));
    assert!(done["errors"].to_string().contains("member-lost"), "{done:#}");
    assert_eq!(names(&lab.path("c")), [] as [&str; 0]);
}

fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

/// Makes blank tapes of what a library has, but for the first so many.
fn blank_behind(lab: &Lab, count: usize) -> Vec<String> {
    let mut tapes = names(&lab.path("vtl/tapes"));
    tapes.retain(|name| name.ends_with(".tape") && !name.starts_with("CLN"));
    tapes.iter_mut().for_each(|name| name.truncate(name.len() - ".tape".len()));
    tapes.sort();
    for barcode in &tapes[count..] {
        fs::write(lab.path(format!("vtl/tapes/{barcode}.tape")), "capstan vtape 1\n").unwrap();
    }
    tapes
}

#[test]
fn the_same_on_tapes_that_are_named_or_chosen() {
    for made in [1, 2] {
        for is_named in [true, false] {
            let lab = lab();
            Library::create(&lab.path("vtl"), &library_of(3, 3), 3).unwrap();
            let tapes = blank_behind(&lab, 0);
            let name = |barcode: &String| format!("vtape:vtl?tape={barcode}");
            let named: Vec<String> = tapes.iter().map(name).collect();
            let named = format!("rait5:{}", named.join(","));
            make(&lab, &named);
            blank_behind(&lab, made);
            // A look at what is on the tapes is in nobody's way.
            run(&lab, "library inventory vtape:vtl");
            let array = if is_named { named.as_str() } else { LIBRARIES };
            completed(report(backup(&lab, array)));
            lab.sh("echo more >>tree/text");
            let done = completed(report(backup(&lab, array)));
            let label = done["media"][0].as_str().unwrap();
            let status = run(&lab, &format!("rait status {label} --json"));
            assert_eq!(status.ok().stdout.matches("\"whole\"").count(), 4, "{}", status.stdout);
            for tape in &tapes {
                let path = lab.path(format!("vtl/tapes/{tape}.tape"));
                let kept = fs::read(&path).unwrap();
                fs::write(&path, "capstan vtape 1\n").unwrap();
                comes_back(&lab, "t", &lab.path("tree"));
                fs::write(&path, kept).unwrap();
            }
        }
    }
}
