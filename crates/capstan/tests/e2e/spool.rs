//! Backups to tapes through a spool whose disk fails.

use crate::support::{Lab, Mount, can_mount, noise, skip};
use crate::tape::{comes_back, library, media};

#[test]
fn a_spool_whose_disk_is_full_costs_no_tape() {
    if !can_mount() {
        return skip("file systems cannot be mounted here");
    }
    let lab = Lab::new();
    library(&lab, 1, 8);
    let spool = lab.path("spool");
    let _mount = Mount::new(&["-t", "tmpfs", "-o", "size=5M", "tmpfs"], &spool);
    lab.file("tree/large", noise(1, 60_000_000));
    let to = format!("vtape:vtl?spool={}&spool-size=10M", spool.display());
    let run = lab.run(["backup", "tree", "--to", &to, "--name", "t", "--block-size", "64K"]);
    let said = run.ok().stderr.clone() + &run.stdout;
    let words = ["without its spool", "cannot write the spool in", &spool.display().to_string()];
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
    // Once of each tape, whose spool has its own file.
    let states: Vec<String> = media(&lab).into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["full", "full", "appendable"], "{said}");
    assert_eq!(said.matches("without its spool").count(), 3, "{said}");
    comes_back(&lab, "t", &lab.path("tree"));
    // A copy does the same.
    lab.backed_up(["tree", "--to", "disk", "--name", "d", "--segment-size", "8M"]);
    let copied = lab.run(["copy", "d", "--to", &to, "--block-size", "64K"]);
    assert!((copied.ok().stderr.clone() + &copied.stdout).contains("without its spool"));
    assert_eq!(media(&lab).len(), 6);
    std::fs::remove_dir_all(lab.path("disk")).unwrap();
    comes_back(&lab, "d", &lab.path("tree"));
    // A spool that cannot be made is told before a tape is touched.
    let none = format!("vtape:vtl?spool={}", lab.path("none").display());
    let before = media(&lab);
    lab.run(["backup", "tree", "--to", &none, "--name", "u"]).refused(&["the spool in", "none"]);
    assert_eq!(media(&lab), before);
}
