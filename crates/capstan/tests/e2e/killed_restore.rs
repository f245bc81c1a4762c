//! What a restore that is killed leaves beside the files that it was to replace: the next one takes it away, and nothing else.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::{Lab, noise};

const RESTORE: [&str; 5] = ["restore", "t", "--in-place", "--overwrite", "always"];

/// Files of the tree that lie beside others.
fn beside(lab: &Lab) -> Vec<String> {
    let all = fs::read_dir(lab.path("tree")).unwrap().map(|e| e.unwrap().file_name());
    let mut all: Vec<String> = all.map(|name| name.into_string().unwrap()).collect();
    all.retain(|name| name.starts_with(".capstan-"));
    all.sort();
    all
}

/// A restore that was stopped while it wrote a file beside another; nothing if it was done before.
fn stopped(lab: &Lab, had: &[String]) -> Option<Child> {
    let mut command = lab.command();
    command.args(RESTORE).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    loop {
        if beside(lab) != had {
            lab.sh(&format!("kill -STOP {}", child.id()));
            if beside(lab) != had {
                return Some(child);
            }
            lab.sh(&format!("kill -CONT {}", child.id()));
            child.wait().unwrap();
            return None;
        }
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_a_killed_restore_left_goes_with_the_next_one() {
    let lab = Lab::new();
    lab.file("tree/big", noise(1, 60_000_000));
    lab.file("tree/sub/small", noise(2, 10_000));
    lab.backed_up(["tree", "--to", "m", "--name", "t", "--compress", "off"]);
    // Others have such names as well.
    let strange = [".capstan-0123456789abcdef", ".capstan-0123456789abcdef01234567-0"];
    strange.iter().for_each(|name| drop(lab.file(&format!("tree/{name}"), "mine")));
    let had = beside(&lab);
    lab.file("tree/big", "changed");
    let mut child = (0..40).find_map(|_| stopped(&lab, &had)).expect("none was met at work");
    let left = beside(&lab);
    assert_eq!(left.len(), 3, "{left:?}");
    // One that is at work is left alone.
    let beside_it = lab.restored(&RESTORE[1..]);
    assert!(!beside_it["notes"].to_string().contains("killed restore"), "{beside_it:#}");
    assert_eq!(beside(&lab), left);
    lab.file("tree/big", "changed");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(
        (beside(&lab), fs::read(lab.path("tree/big")).unwrap()),
        (left, b"changed".to_vec())
    );
    let next = lab.restored(&RESTORE[1..]);
    // It may have written another one beside, in the directory below.
    assert!(next["notes"].to_string().contains("that a killed restore left"), "{next:#}");
    assert_eq!(beside(&lab), had);
    assert!(fs::read(lab.path("tree/big")).unwrap() == noise(1, 60_000_000));
    for name in strange {
        assert_eq!(fs::read(lab.path(format!("tree/{name}"))).unwrap(), b"mine");
    }
    let again = lab.restored(&RESTORE[1..]);
    assert!(!again["notes"].to_string().contains("killed restore"), "{again:#}");
}
