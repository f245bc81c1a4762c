//! The only version of an object, which nothing protects and which is not whole: nothing removes it by itself.

use crate::support::{Lab, Run, noise};

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 900_000));
    lab.file("tree/b", "text");
    lab
}

fn backed_up(lab: &Lab, to: &str) {
    let args = ["tree", "--name", "t", "--protect", "none", "--compress", "off", "--to", to];
    lab.run(["backup"].iter().chain(&args)).ok();
}

/// Damages a file on the medium, as a verify finds.
fn damage(lab: &Lab) {
    lab.sh("printf XXXX | dd of=m/00000001.segment bs=1 seek=400000 conv=notrunc status=none");
    assert_eq!(lab.run(["verify", "t"]).code, 3);
}

fn versions(lab: &Lab) -> usize {
    lab.run(["versions", "t", "--json"]).rows().len()
}

fn refused(run: &Run) {
    assert_eq!(run.code, 2, "{}{}", run.stdout, run.stderr);
}

#[test]
fn a_prune_without_rules_keeps_the_last_version_though_it_is_damaged() {
    let lab = lab();
    backed_up(&lab, "m");
    lab.file("tree/b", "more text");
    backed_up(&lab, "m");
    damage(&lab);
    let pruned = lab.run(["prune"]);
    assert!(pruned.stdout.contains("not whole, but none after it is"), "{}", pruned.stdout);
    assert_eq!(versions(&lab), 2, "{}", pruned.stdout);
    refused(&lab.run(["media", "erase", "m"]));
    refused(&lab.run(["media", "recycle", "m"]));
    // Once there is a whole one, it goes.
    lab.run(["backup", "tree", "--name", "t", "--full", "--to", "n"]).ok();
    lab.run(["prune"]).ok();
    assert_eq!(versions(&lab), 1);
}

#[test]
fn a_pool_writes_over_no_medium_with_the_last_version_of_another_object() {
    let lab = lab();
    lab.run(["pool", "create", "p"]).ok();
    lab.run(["media", "init", "m", "--pool", "p"]).ok();
    for n in 0..3 {
        lab.file(&format!("tree/c{n}"), noise(n, 900_000));
    }
    let args = ["--protect", "none", "--compress", "off", "--segment-size", "2M", "--to", "pool:p"];
    lab.run(["backup", "tree", "--name", "t"].iter().chain(&args)).ok();
    // A part of it is lost, and the rest is taken as it is.
    lab.sh("rm m/00000002.segment");
    lab.run(["import", "m"]);
    lab.file("other/c", "text");
    let backup = lab.run(["backup", "other", "--name", "o", "--to", "pool:p"]);
    assert_eq!(versions(&lab), 1, "{}{}", backup.stdout, backup.stderr);
    lab.run(["restore", "t", "--into", "out"]);
    assert!(lab.sh("find out -type f | wc -l").trim().parse::<u32>().unwrap() > 0);
}
