//! Tapes that are written anew, and whose first block, sync or filemark does not get through: they stay in their pool and set.

use capstan_tape::vtl::library::Library;
use jiff::civil::Date;

use crate::rotation::Nights;
use crate::rotation_faults::{day, media, office};

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
    for plan in ["write:1=error"] {
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
