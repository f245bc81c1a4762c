//! Tapes that are written anew, and whose first block, sync or filemark does not get through: they stay in their pool and set.

use std::fs;
use std::path::PathBuf;

use capstan_tape::vtl::library::Library;
use jiff::civil::Date;

use crate::changed_media::{copy_home, run_of};
use crate::rotation::Nights;
use crate::rotation_faults::{day, media, office};
use crate::support::{Lab, report};

/// The next thing that the drives do fails.
fn plan_faults(nights: &Nights, plan: &str) {
    let library = Library::open(&nights.lab.path("lib")).unwrap();
    (1..=2).for_each(|drive| library.plan_faults(Some(drive), plan).unwrap());
}

/// All tapes that are known are of the pool and the set, and each is known once.
fn all_are_of_the_set(nights: &Nights, today: Date) {
    let media = media(nights, today);
    for medium in &media {
        assert_eq!(medium["label"], medium["barcode"], "{media:?}");
        assert_eq!((&medium["pool"], &medium["rotation_set"]), (&"office".into(), &"daily".into()));
    }
}

#[test]
fn a_night_whose_tape_fails_as_it_is_written_anew_takes_a_blank_one() {
    // A drive that fails is left for another one, in which the tape is written anew.
    for plan in ["write:1=error", "sync:1=error", "mark:1=error"] {
        let mut nights = office(6, "daily=3", true);
        (0..3).for_each(|n| drop(nights.night(day(n))));
        plan_faults(&nights, plan);
        let night = nights.night(day(3));
        assert_eq!(nights.media[&day(3)], ["V00004L9"], "{plan}: {night}");
        let said = night["errors"].to_string();
        assert!(said.contains("'V00001L9' failed as it was to be written anew"), "{plan}: {said}");
        (4..10).for_each(|n| drop(nights.night(day(n))));
        all_are_of_the_set(&nights, day(9));
        for n in 4..10 {
            let (now, before) = (&nights.media[&day(n)], &nights.media[&day(n - 1)]);
            assert!(now.len() == 1 && now != before, "{plan}: {:?}", nights.media);
        }
        let back = nights.versions(day(9));
        for n in 7..10 {
            nights.comes_back(day(9), day(n), &back[&day(n)]);
        }
        let status = nights.run(day(9), 23, "status");
        assert_eq!(status.code, 0, "{plan}: {}", status.stdout);
    }
}

#[test]
fn a_tape_that_was_erased_and_got_no_header_is_that_medium_again() {
    for plan in ["mark:1=power", "write:1=power", "sync:1=power"] {
        let mut nights = office(6, "daily=3", true);
        (0..3).for_each(|n| drop(nights.night(day(n))));
        plan_faults(&nights, plan);
        // Both drives may have lost their power.
        nights.lab.file("data/numbers", "3");
        nights.run(day(3), 22, "run office.toml");
        (4..10).for_each(|n| drop(nights.night(day(n))));
        all_are_of_the_set(&nights, day(9));
        let mut written: Vec<_> = (6..10).flat_map(|n| nights.media[&day(n)].clone()).collect();
        written.sort();
        written.dedup();
        assert!(written.len() >= 3, "{plan}: {:?}", nights.media);
        let status = nights.run(day(9), 23, "status");
        // Its drive lost its power, and no session has needed it since.
        assert_eq!(status.code, 5, "{plan}: {}", status.stdout);
        assert!(status.stdout.contains("1 drive is not well"), "{plan}: {}", status.stdout);
    }
}

#[test]
fn a_pool_without_sets_goes_on_with_a_tape_that_was_cut_short() {
    for plan in ["mark:1=power", "sync:1=error"] {
        let mut nights = office(5, "daily=3", true);
        nights.run(day(0), 12, "pool delete office").ok();
        nights
            .run(day(0), 12, "pool create office --not-appendable --scratch --library vtape:lib")
            .ok();
        let spec = fs::read_to_string(nights.lab.path("office.toml")).unwrap();
        nights.lab.file("office.toml", format!("{spec}\n[keep]\nlast = 2\n"));
        (0..4).for_each(|n| drop(nights.night(day(n))));
        plan_faults(&nights, plan);
        nights.lab.file("data/numbers", "4");
        nights.run(day(4), 22, "run office.toml");
        (5..9).for_each(|n| drop(nights.night(day(n))));
        for medium in media(&nights, day(8)) {
            assert_eq!((&medium["label"], &medium["pool"]), (&medium["barcode"], &"office".into()));
        }
    }
}

/// A free medium in a pool, that was written anew, and a home that does not know it: what a kill leaves between the two.
fn cut_short(device: &str) -> (Lab, impl Fn(&Lab)) {
    let (lab, is_one_of_the_pool) = free_in_pool(device);
    run_of(&lab, "other", &["media", "recycle", &label_of(&lab)]).ok();
    (lab, is_one_of_the_pool)
}

/// A free medium in a pool, and another home that is a copy.
fn free_in_pool(device: &str) -> (Lab, impl Fn(&Lab)) {
    let lab = Lab::new();
    lab.run(
        "vtl create lib --drives 1 --slots 8 --tapes 3 --capacity 200M --scale 100000".split(' '),
    )
    .ok();
    lab.run(["pool", "create", "p", "--not-appendable"]).ok();
    lab.file("data/numbers", "1");
    lab.run(["media", "init", device, "--pool", "p"]).ok();
    copy_home(&lab);
    (lab, |lab| {
        let all = lab.run(["media", "list", "--json"]).ok().stdout.clone();
        let all: serde_json::Value = serde_json::from_str(&all).unwrap();
        let media = all["media"].as_array().unwrap();
        assert!(media.len() == 1 && media[0]["pool"] == "p", "{all}");
    })
}

fn label_of(lab: &Lab) -> String {
    let all = lab.run(["media", "list", "--json"]).ok().stdout.clone();
    let all: serde_json::Value = serde_json::from_str(&all).unwrap();
    all["media"][0]["label"].as_str().unwrap().to_owned()
}

/// Gives a tape what a blank one has.
fn make_blank(lab: &Lab) {
    let tape = |n: u32| -> PathBuf { lab.path(format!("lib/tapes/V0000{n}L9.tape")) };
    fs::copy(tape(3), tape(1)).unwrap();
}

#[test]
fn a_medium_with_a_header_that_is_not_recorded_yet_is_the_one_of_its_pool() {
    for device in ["vtape:lib?tape=V00001L9", "disk", "rait5:a,b,c"] {
        let (lab, is_one_of_the_pool) = cut_short(device);
        lab.backed_up(["data", "--to", "pool:p", "--name", "t"]);
        is_one_of_the_pool(&lab);
    }
}

#[test]
fn commands_that_name_a_medium_that_was_cut_short_go_on_with_it() {
    for is_blank in [false, true] {
        for line in [
            "media recycle V00001L9",
            "media label V00001L9 other",
            "media init vtape:lib?tape=V00001L9 --pool p",
            "import vtape:lib?tape=V00001L9",
            "media erase V00001L9",
        ] {
            let (lab, is_one_of_the_pool) = cut_short("vtape:lib?tape=V00001L9");
            if is_blank {
                make_blank(&lab);
            }
            let ran = lab.run(line.split(' '));
            match (line.split(' ').nth(1).unwrap(), is_blank) {
                ("erase", _) => {
                    ran.ok();
                    let listed = lab.run(["media", "list", "--json"]).ok().stdout.clone();
                    assert!(!listed.contains("V00001L9"), "{listed}");
                    continue;
                }
                ("label", true) => {
                    // The hint helps.
                    let way = "media recycle V00001L9";
                    assert!(ran.code == 2 && ran.stderr.contains(way), "{}", ran.stderr);
                    lab.run(way.split(' ')).ok();
                    lab.run(line.split(' ')).ok();
                }
                (_, true) if line.starts_with("import") => assert_eq!(ran.code, 2),
                _ => assert_eq!(ran.code, 0, "{line}: {}", ran.stderr),
            }
            lab.backed_up(["data", "--to", "pool:p", "--name", "t"]);
            is_one_of_the_pool(&lab);
        }
    }
}

#[test]
fn a_blank_tape_whose_making_was_cut_short_is_taken_by_its_pool() {
    let lab = Lab::new();
    lab.run("vtl create lib --drives 1 --slots 4 --tapes 1 --capacity 200M".split(' ')).ok();
    lab.run("pool create p --scratch --library vtape:lib".split(' ')).ok();
    lab.file("data/numbers", "1");
    copy_home(&lab);
    run_of(&lab, "other", &["media", "init", "vtape:lib?tape=V00001L9", "--pool", "p"]).ok();
    lab.backed_up(["data", "--to", "pool:p", "--name", "t"]);
    assert_eq!(label_of(&lab), "V00001L9");
}

#[test]
fn a_tape_that_was_given_up_and_not_written_anew_is_given_up_again() {
    let (lab, is_one_of_the_pool) = free_in_pool("vtape:lib?tape=V00001L9");
    // What is on it is not recorded any more.
    let backup = ["backup", "data", "--to", "pool:p", "--name", "t"];
    run_of(&lab, "other", &backup).ok();
    lab.file("data/numbers", "2");
    let refused = lab.run(backup);
    refused.refused(&["pool 'p' has no usable medium", "holds what must stay"]);
    is_one_of_the_pool(&lab);
}

#[test]
fn what_a_pool_is_given_goes_to_no_tape_that_is_not_in_it() {
    let (lab, _) = free_in_pool("vtape:lib?tape=V00001L9");
    lab.run(["pool", "set", "p", "--scratch", "--library", "vtape:lib"]).ok();
    // Another medium is on the tape, which is in no pool.
    run_of(&lab, "other", &["media", "recycle", "V00001L9"]).ok();
    run_of(&lab, "other", &["media", "label", "V00001L9", "strange"]).ok();
    lab.run(["import", "vtape:lib?tape=V00001L9"]).ok();
    let done = report(lab.run(["backup", "data", "--to", "pool:p", "--name", "t", "--json"]));
    assert_eq!(done["media"][0], "V00002L9", "{done}");
    let said = done["errors"].to_string();
    assert!(said.contains("'strange'") && said.contains("is on its tape now"), "{said}");
}
