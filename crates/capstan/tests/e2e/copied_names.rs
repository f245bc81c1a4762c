//! Copies of a segment whose names are damaged: none of them is taken for whole, here or in another home.

use std::fs;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Run, below};

/// Two fulls on medium `m`, and no catalogs of them in the home; `whole` is the medium before names at the end of the second one, and its
/// catalog, were damaged.
fn lab() -> Lab {
    let lab = Lab::new();
    let to = ["tree", "--to", "m", "--name", "d", "--full", "--log-level", "none"];
    let to = to.iter().chain(&["--compress", "off", "--streams", "1"]);
    for i in 0..2000 {
        lab.file(&format!("tree/name-of-file-{i}"), format!("text {i}"));
    }
    lab.backed_up(to.clone());
    for i in (0..2000).step_by(3) {
        lab.file(&format!("tree/name-of-file-{i}"), format!("NEW {i}"));
    }
    lab.backed_up(to);
    lab.sh("cp -a m whole; rm -f home/catalogs/*");
    damage_names(&lab, "m");
    lab
}

/// Damages the second half of the second segment up to its end record.
fn damage_names(lab: &Lab, medium: &str) {
    let path = lab.path(format!("{medium}/00000002.segment"));
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len() - 4096;
    for at in (bytes.len() / 2..end).step_by(50) {
        bytes[at] ^= 0x55;
    }
    fs::write(path, bytes).unwrap();
}

pub(crate) fn fails(lab: &Lab, args: &[&str], says: &str) -> Run {
    let run = lab.run(args);
    assert_eq!(run.code, 3, "{args:?}: {}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains(says), "{args:?}: {}", run.stderr);
    run
}

/// The states of the versions, the last first.
fn states(lab: &Lab) -> Vec<String> {
    let run = lab.run(["versions", "d", "--json"]);
    let json: Value = serde_json::from_str(&run.ok().stdout).unwrap();
    let all = json["versions"].as_array().unwrap().iter();
    all.map(|v| v["state"].as_str().unwrap().to_owned()).collect()
}

fn is_damaged(lab: &Lab) {
    let states = states(lab);
    assert!(states.contains(&"damaged".to_owned()), "{states:?}");
}

#[test]
fn a_copy_of_what_lacks_names_says_so_wherever_it_is_known() {
    let lab = lab();
    fails(&lab, &["copy", "d", "--to", "m2"], "the copy lacks names");
    is_damaged(&lab);
    fails(&lab, &["restore", "d", "--into", "out"], "files whose names are lost");
    fails(&lab, &["verify", "--medium", "m2"], "lacks");
    fails(&lab, &["verify", "d"], "files whose names are lost");
    is_damaged(&lab);
    // It is not written once more as long as it would lack as much, and a copy of it lacks the same.
    fails(&lab, &["copy", "d", "--to", "m2"], "the copy lacks");
    assert_eq!(fs::read_dir(lab.path("m2")).unwrap().count(), 2, "{}", lab.sh("ls m2"));
    lab.sh("rm -r home; mv m gone");
    lab.run(["import", "m2"]);
    fails(&lab, &["restore", "d", "--into", "out2"], "files whose names are lost");
    fails(&lab, &["copy", "d", "--to", "m3"], "is a copy that lacks them");
    lab.sh("rm -r home m2");
    lab.run(["import", "m3"]);
    fails(&lab, &["restore", "d", "--into", "out3"], "files whose names are lost");
    // With the original all comes back.
    lab.sh("mv whole m");
    lab.run(["import", "m"]).ok();
    lab.restored(["d", "--into", "out4"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out4"), &lab.path("tree")));
    lab.run(["copy", "d", "--to", "m4"]).ok();
    lab.sh("mv m gone2");
    lab.restored(["d", "--into", "out5"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out5"), &lab.path("tree")));
}

#[test]
fn prune_keeps_the_last_whole_full_where_a_later_one_and_its_copy_lack_names() {
    let lab = lab();
    lab.run(["copy", "d", "--to", "m2"]);
    lab.run(["verify", "--medium", "m2"]);
    lab.run(["prune", "d", "--keep-last", "1"]);
    assert!(lab.path("m/00000001.segment").exists(), "{}", lab.sh("ls m"));
    assert_eq!(states(&lab).len(), 2);
}

#[test]
fn no_medium_is_given_back_of_which_a_copy_lacks_names() {
    for args in [&["media", "retire", "m", "--to", "m2"][..], &["stage", "m", "--to", "m2"]] {
        let lab = lab();
        fails(&lab, args, "the copy lacks names");
        assert!(lab.path("m/00000002.segment").exists(), "{args:?}: {}", lab.sh("ls m"));
        is_damaged(&lab);
        fails(&lab, &["restore", "d", "--into", "out"], "files whose names are lost");
    }
}

#[test]
fn a_repair_takes_no_copy_that_lacks_names_for_whole() {
    let lab = lab();
    lab.run(["copy", "d", "--to", "m2"]);
    for _ in 0..2 {
        fails(&lab, &["media", "repair", "m"], "cannot be mended");
        assert!(lab.path("m/00000002.segment").exists(), "{}", lab.sh("ls m"));
        is_damaged(&lab);
    }
}

#[test]
fn what_lacks_names_is_copied_from_where_it_is_whole() {
    let lab = lab();
    lab.sh("mv m damaged; cp -a whole m");
    lab.run(["copy", "d", "--to", "m2"]).ok();
    lab.sh("rm -r m; mv damaged m; rm -f home/catalogs/*");
    let run = lab.run(["copy", "d", "--to", "m3"]);
    assert!([0, 3].contains(&run.code), "{}{}", run.stdout, run.stderr);
    lab.sh("mv m gone; mv m2 gone2");
    lab.restored(["d", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
}
