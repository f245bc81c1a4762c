//! Backups of which nothing was committed hold no tape of a rotation set.

use std::process::Stdio;

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::rotation::Nights;
use crate::rotation_faults::{day, office};
use crate::support::wait_for;

/// Nights to three daily and two weekly tapes, with something on a daily night: on the next Sunday but one the first weekly tape is written
/// anew, as in each rotation.
fn weekly_tapes_come_round(mut on_wednesday: impl FnMut(&mut Nights)) -> Nights {
    let mut nights = office(8, "daily=3,weekly=2", false);
    for n in 0..9 {
        nights.night(day(n));
    }
    on_wednesday(&mut nights);
    assert_eq!(nights.night(day(10))["method"], "incr");
    for n in 11..28 {
        nights.night(day(n));
    }
    for [before, after] in [[6, 20], [13, 27]] {
        assert_eq!(nights.media[&day(before)], nights.media[&day(after)]);
    }
    nights
}

#[test]
fn a_night_whose_tape_failed_before_anything_was_committed_holds_no_weekly_tape() {
    for fault in ["write:2=power", "mark:2=offline"] {
        let mut pruned = String::new();
        let nights = weekly_tapes_come_round(|nights| {
            let library = Library::open(&nights.lab.path("lib")).unwrap();
            let plan = |drive: u32, fault| library.plan_faults(Some(drive), fault).unwrap();
            (1..=2).for_each(|drive| plan(drive, fault));
            nights.night(day(9));
            (1..=2).for_each(|drive| plan(drive, ""));
            let listed = nights.run(day(9), 23, "sessions --json").ok().stdout.clone();
            let failed = |listed: &str| {
                let listed: Value = serde_json::from_str(listed).unwrap();
                let all = listed["sessions"].as_array().unwrap();
                all.iter().filter(|s| s["status"] == "failed").count()
            };
            assert!(failed(&listed) > 0, "{fault}: {listed}");
            pruned = nights.run(day(9), 23, "prune --dry-run").ok().stdout.clone();
        });
        assert!(pruned.contains("nothing of it was committed"), "{pruned}");
        let pruned = nights.run(day(27), 23, "prune --json").ok().stdout.clone();
        assert!(!pruned.contains("\"failed\""), "{pruned}");
    }
}

#[test]
fn an_incremental_to_the_null_device_holds_no_weekly_tape() {
    weekly_tapes_come_round(|nights| {
        nights.run(day(9), 12, "backup data --to null: --name office --incr").ok();
        nights.night(day(9));
    });
}

#[test]
fn a_restore_that_was_killed_holds_no_weekly_tape() {
    weekly_tapes_come_round(|nights| {
        let tape = nights.media[&day(8)][0].clone();
        nights.run(day(9), 8, &format!("library export vtape:lib {tape}")).ok();
        nights.run(day(9), 8, &format!("vtl take lib {tape}")).ok();
        let mut command = nights.lab.command();
        command.args(["restore", "office", "--into", "out"]).env("CAPSTAN_TAPE_WAIT", "300s");
        let mut waiting = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("the version to be read", || {
            let kept = nights.run(day(9), 8, "prune --dry-run").stdout.clone();
            kept.contains("read by process")
        });
        waiting.kill().unwrap();
        waiting.wait().unwrap();
        nights.run(day(9), 8, &format!("vtl insert lib {tape}")).ok();
        nights.run(day(9), 8, "library import vtape:lib").ok();
        nights.night(day(9));
    });
}
