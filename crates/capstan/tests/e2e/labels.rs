//! Labels: one names one medium of a home, however that came to be known.

use serde_json::Value;

use crate::naming::id_of;
use crate::support::{Lab, noise};
use crate::tape::media;

fn labels(lab: &Lab) -> Vec<String> {
    media(lab).into_iter().map(|(label, _)| label).collect()
}

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 50_000));
    lab.backed_up(["tree", "--to", "m", "--name", "t"]);
    lab
}

#[test]
fn a_medium_in_the_place_of_another_has_a_label_of_its_own() {
    let lab = lab();
    lab.sh("mv m first");
    lab.backed_up(["tree", "--to", "m", "--name", "u", "--new-medium"]);
    assert_eq!(labels(&lab), ["m", "m-2"]);
    lab.sh("mv m second");
    lab.run(["media", "init", "m", "--new-medium"]).ok();
    assert_eq!(labels(&lab), ["m", "m-2", "m-3"]);
    // The label is that of the first, the directory has the third.
    let (first, third) = (id_of(&lab, "first"), id_of(&lab, "m-3"));
    lab.run(["media", "forget", "m"]).refused(&[&first, &third, "./m"]);
    lab.run(["media", "forget", &first]).ok();
    assert_eq!(labels(&lab), ["m-2", "m-3"]);
    // Found again, it has its own label, which is free.
    lab.run(["import", "first"]).ok();
    assert_eq!(labels(&lab), ["m", "m-2", "m-3"]);
}

#[test]
fn a_medium_of_another_home_with_a_label_that_is_taken_gets_a_number() {
    let other = lab();
    let lab = lab();
    let theirs = other.path("m").display().to_string();
    let imported = lab.run(["import", &theirs, "--json"]);
    let report: Value = serde_json::from_str(&imported.ok().stdout).unwrap();
    assert_eq!(report["media"][0], "m-2", "{report:#}");
    assert!(report["notes"].to_string().contains("m-2"), "{report:#}");
    assert_eq!(labels(&lab), ["m", "m-2"]);
    // It keeps that name, imported again, adopted, and written.
    lab.run(["import", &theirs]).ok();
    lab.run(["media", "adopt", &theirs]).ok();
    lab.backed_up(["tree", "--to", &theirs, "--name", "t"]);
    assert_eq!(labels(&lab), ["m", "m-2"]);
    lab.run(["verify", "--medium", "m-2"]).ok();
    lab.run(["verify", "--medium", "m"]).ok();
    lab.run(["media", "label", "m-2", "theirs"]).ok();
    assert_eq!(labels(&lab), ["m", "theirs"]);
}

/// Homes of before may have two of one label.
#[test]
fn a_label_of_two_media_is_said_with_their_ids() {
    let lab = lab();
    lab.backed_up(["tree", "--to", "n", "--name", "u"]);
    lab.edit_tables("UPDATE media SET label = (SELECT MIN(label) FROM media)");
    let list = lab.run(["media", "list", "--json"]).ok().json_lines();
    let of = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let ids: Vec<String> =
        list.lines().map(|line| of(line)["id"].as_str().unwrap()[..8].to_owned()).collect();
    let words = [ids[0].as_str(), ids[1].as_str(), "2 media"];
    for args in [
        &["media", "show", "m"][..],
        &["media", "recycle", "m"],
        &["media", "forget", "m"],
        &["media", "adopt", "m"],
        &["verify", "--medium", "m"],
        &["copy", "--medium", "m", "--to", "third"],
        &["stage", "m", "--to", "third"],
    ] {
        lab.run(args).refused(&words);
    }
    lab.run(["media", "show", &ids[0]]).ok();
}
