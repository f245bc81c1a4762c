//! Damage is noted of the medium, whatever the command was for that came upon it.

use std::fs;

use crate::support::{Lab, noise};

#[test]
fn who_finds_damage_has_it_noted() {
    for args in [
        &["copy", "d", "--to", "m2"][..],
        &["copy", "--medium", "m", "--to", "m2"],
        &["media", "copy", "m", "--to", "m2"],
        &["media", "repair", "m", "--dry-run"],
        &["restore", "d", "--to-tar", "out.tar"],
        &["consolidate", "d", "--to", "m2"],
    ] {
        let lab = Lab::new();
        lab.file("tree/a", noise(1, 2_000_000));
        lab.file("tree/b", "x");
        lab.backed_up(["tree", "--to", "m", "--name", "d"]);
        lab.file("tree/b", "y");
        lab.backed_up(["tree", "--to", "m", "--name", "d", "--incr"]);
        let path = lab.path("m/00000001.segment");
        let mut bytes = fs::read(&path).unwrap();
        bytes[1_000_000] ^= 0xff;
        fs::write(&path, bytes).unwrap();
        let run = lab.run(args);
        let code = if args[0] == "consolidate" { 1 } else { 3 };
        assert_eq!(run.code, code, "{args:?}: {}{}", run.stdout, run.stderr);
        let listed = lab.run(["media", "list", "--json"]);
        let media = listed.ok().rows().into_iter();
        let m = media.into_iter().find(|m| m["label"] == "m").unwrap();
        assert_eq!(m["state"], "damaged", "{args:?}: {m:#}");
    }
}
