//! Rotation sets over many nights: the guide's own commands, by a clock that is set.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::civil::{Date, Weekday, date};
use jiff::{ToSpan, tz::TimeZone};
use serde_json::Value;

use crate::support::{Lab, Run, below, finish};

const CLOCK: &str = "CAPSTAN_TEST_CLOCK_AHEAD_S";

/// A cell whose clock is set for each command.
pub(crate) struct Nights {
    pub lab: Lab,
    /// The media that each night wrote.
    pub media: BTreeMap<Date, Vec<String>>,
}

impl Nights {
    pub fn new() -> Self {
        Self { lab: Lab::new(), media: BTreeMap::new() }
    }

    fn set(&self, command: &mut Command, day: Date, hour: i8) -> Run {
        self.set_to(command, day, (hour, 0, 0))
    }

    fn set_to(
        &self,
        command: &mut Command,
        day: Date,
        (hour, minute, second): (i8, i8, i8),
    ) -> Run {
        let then = day
            .at(hour, minute, second, 0)
            .to_zoned(TimeZone::UTC)
            .unwrap()
            .timestamp()
            .as_second();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let ahead = then - i64::try_from(now).unwrap();
        finish(command.env(CLOCK, ahead.to_string()).env("TZ", "UTC"))
    }

    pub fn run(&self, day: Date, hour: i8, line: &str) -> Run {
        self.set(self.lab.command().args(line.split_whitespace()), day, hour)
    }

    /// The same a moment before midnight.
    pub fn run_past_midnight(&self, day: Date, line: &str) -> Run {
        self.set_to(self.lab.command().args(line.split_whitespace()), day, (23, 59, 58))
    }

    /// The same, and tapes that lack are waited for, for a second.
    pub fn run_waiting(&self, day: Date, hour: i8, line: &str) -> Run {
        let mut command = self.lab.command();
        command.args(line.split_whitespace()).env("CAPSTAN_TAPE_WAIT", "1s");
        self.set(&mut command, day, hour)
    }

    /// The commands under a heading of the guide.
    fn guide(&self, day: Date, heading: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/tape-rotation.md");
        let text = fs::read_to_string(path).unwrap();
        let section = text.split("\n## ").find(|s| s.starts_with(heading)).unwrap();
        let block = section.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
        let home = self.lab.path("home").display().to_string();
        self.lab.file("guide.sh", format!("export CAPSTAN_HOME='{home}'\n{block}"));
        let mut shell = self.lab.program("bash");
        let bin = Path::new(env!("CARGO_BIN_EXE_capstan")).parent().unwrap().display().to_string();
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
        let run = self.set(shell.args(["-euo", "pipefail", "guide.sh"]).env("PATH", path), day, 12);
        assert_eq!(run.code, 0, "{}\n{}", run.stdout, run.stderr);
    }

    /// One night; its report.
    pub fn night(&mut self, day: Date) -> Value {
        self.lab.file("data/numbers", text_of(day));
        let run = self.run(day, 22, "run office.toml --json");
        assert_eq!(run.code, 0, "{day}: {}{}", run.stdout, run.stderr);
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        let session = &report["sessions"][0];
        let media = session["media"].as_array().unwrap().iter();
        self.media.insert(day, media.map(|label| label.as_str().unwrap().to_owned()).collect());
        session.clone()
    }

    /// The days of which versions are there, with their names.
    pub fn versions(&self, day: Date) -> BTreeMap<Date, String> {
        let listed = self.run(day, 23, "versions office --json");
        let listed: Value = serde_json::from_str(&listed.ok().stdout).unwrap();
        let of = |v: &Value| {
            let session = &v["session"].as_str().unwrap()[..8];
            (v["started"].as_str().unwrap()[..10].parse().unwrap(), format!("office@{session}"))
        };
        listed["versions"].as_array().unwrap().iter().map(of).collect()
    }

    /// What a version has is what there was.
    pub fn comes_back(&self, today: Date, of: Date, name: &str) {
        self.run(today, 23, &format!("restore {name} --into out")).ok();
        let out = below(&self.lab.path("out"), &self.lab.path("data"));
        assert_eq!(fs::read_to_string(out.join("numbers")).unwrap(), text_of(of), "{name}");
        fs::remove_dir_all(self.lab.path("out")).unwrap();
    }
}

fn text_of(day: Date) -> String {
    (0..5000).map(|n| format!("{day} {n}\n")).collect()
}

fn set_of(day: Date) -> &'static str {
    match (day.day(), day.weekday()) {
        (1, _) => "monthly",
        (_, Weekday::Sunday) => "weekly",
        _ => "daily",
    }
}

/// So many nights by the guide.
fn by_the_guide(more: &str, nights: i64) -> Nights {
    let mut nights_of = Nights::new();
    // A Monday before the first of a month.
    let first = date(2030, 1, 28);
    for heading in ["A library and its tapes", "The pool", "The nights"] {
        nights_of.guide(first, heading);
    }
    let spec = fs::read_to_string(nights_of.lab.path("office.toml")).unwrap();
    nights_of.lab.file("office.toml", format!("{spec}{more}"));
    let mut was_incremental = false;
    for n in 1..nights {
        let day = first.checked_add(n.days()).unwrap();
        let session = nights_of.night(day);
        was_incremental |= session["method"] == "incr";
        if n % 3 > 0 {
            continue;
        }
        let status = nights_of.run(day, 23, "status");
        assert_eq!(status.code, 0, "{day}: {}", status.stdout);
        let shown = nights_of.run(day, 23, "pool show office --json").ok().stdout.clone();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["lacks"], Value::Null, "{day}");
    }
    assert_eq!(was_incremental, !more.contains("full = true"));
    nights_of
}

#[test]
fn each_night_by_the_guide_finds_a_tape_and_the_sets_keep_what_they_promise() {
    let nights = by_the_guide("", 70);
    let last = *nights.media.keys().last().unwrap();
    let versions = nights.versions(last);
    let of_set = |set: &str| {
        let days = nights.media.keys().rev().filter(|day| set_of(**day) == set);
        days.copied().collect::<Vec<_>>()
    };
    for (set, kept) in [("daily", 5), ("weekly", 4), ("monthly", 3)] {
        let days = of_set(set);
        let mut tapes: Vec<_> = days.iter().flat_map(|day| &nights.media[day]).collect();
        tapes.sort();
        tapes.dedup();
        let most = if set == "daily" { 6 } else { kept };
        assert!(tapes.len() <= most, "{set}: {tapes:?}");
        for day in &days[..kept] {
            let name = versions.get(day).unwrap_or_else(|| panic!("{set} {day}: {versions:?}"));
            nights.comes_back(last, *day, name);
        }
    }
}

#[test]
fn keep_rules_do_not_hold_back_tapes_of_rotation_sets() {
    let rules = "full = true\n\n[keep]\ndaily = 4\nweekly = 3\nmonthly = 2\n";
    let nights = by_the_guide(rules, 32);
    let last = *nights.media.keys().last().unwrap();
    let versions = nights.versions(last);
    let first_of_month = date(2030, 2, 1);
    nights.comes_back(last, first_of_month, &versions[&first_of_month]);
}

#[test]
fn the_evening_before_says_that_a_set_has_no_tape_and_the_advice_of_the_refusal_helps() {
    let nights = Nights::new();
    let run = |day: i8, hour: i8, line: &str| nights.run(date(2030, 1, day), hour, line);
    run(7, 12, "vtl create lib --drives 1 --slots 8 --tapes 4 --capacity 200M --scale 100000").ok();
    run(7, 12, "pool create p --rotation daily=2 --not-appendable --scratch --library vtape:lib")
        .ok();
    nights.lab.file("data/numbers", "1");
    for day in [7, 8] {
        run(day, 22, "backup data --to pool:p --name t --protect permanent").ok();
    }
    let status = run(8, 23, "status");
    let words = "the next run, of 2030-01-09, finds no medium";
    assert!(status.code == 5 && status.stdout.contains(words), "{}", status.stdout);
    let shown = run(8, 23, "pool show p").ok().stdout.clone();
    assert!(shown.contains("of 2030-01-09, finds no medium"), "{shown}");
    let refused = run(9, 22, "backup data --to pool:p --name t");
    refused.refused(&["for its daily set", "V00001L9 holds what must stay"]);
    let advice = "pool set p --rotation daily=3";
    assert!(refused.stderr.contains(advice), "{}", refused.stderr);
    run(9, 22, advice).ok();
    assert!(!run(9, 22, "status").stdout.contains("finds no medium"));
    run(9, 22, "backup data --to pool:p --name t").ok();
    // What is protected by itself is passed over, and the one that is not takes turns alone.
    run(10, 22, "backup data --to pool:p --name t").refused(&["V00003L9 holds what must stay"]);
}

#[test]
fn what_a_set_keeps_is_kept_until_its_turn_and_not_for_ever() {
    let nights = Nights::new();
    let run = |day: i8, hour: i8, line: &str| nights.run(date(2030, 1, day), hour, line);
    run(7, 12, "vtl create lib --drives 1 --slots 8 --tapes 6 --capacity 200M --scale 100000").ok();
    run(7, 12, "pool create p --rotation daily=4 --not-appendable --scratch --library vtape:lib")
        .ok();
    nights.lab.file("data/numbers", "1");
    let protections = ["", "--protect permanent", "--protect 30d"];
    for (day, protect) in (7..).zip(protections) {
        run(day, 22, &format!("backup data --to pool:p --full --name t {protect}")).ok();
    }
    run(10, 12, "backup data --to vtape:lib?tape=V00006L9 --name of-no-pool").ok();
    let list = run(10, 23, "media list --json").ok().rows();
    let of = |tape: usize| {
        let label = format!("V0000{tape}L9");
        let row = list.iter().find(|row| row["label"] == label.as_str()).expect(&label);
        let until = row["kept_until"].as_str().map(|until| until[..10].to_owned());
        (row["kept_by_set"] == true, row["kept_for_ever"] == true, until)
    };
    assert_eq!(of(1), (true, false, None));
    assert_eq!(of(2), (true, true, None));
    assert_eq!(of(3), (true, false, Some("2030-02-08".to_owned())));
    assert_eq!(of(6), (false, true, None));
    let text = run(10, 23, "media list").ok().stdout.clone();
    let line = |tape: &str| text.lines().find(|line| line.starts_with(tape)).unwrap();
    assert!(line("V00001L9").contains("  its turn (daily)  "), "{text}");
    assert!(line("V00002L9").contains("  for ever  "), "{text}");
    assert!(line("V00003L9").contains("  its turn (daily), not before 2030-02-08"), "{text}");
    let shown = run(10, 23, "media show V00001L9").ok().stdout.clone();
    assert!(shown.contains("1 versions, until its turn (daily)"), "{shown}");
}
