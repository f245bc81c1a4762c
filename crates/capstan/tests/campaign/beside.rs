//! Commands beside each other: in one home, and in two homes on one medium. Whatever they do to each other: each ends, what
//! completed comes back as it was, and the database agrees with the media.
//!
//! A few runs in the gate, 40 of each with `CAPSTAN_SOAK=1`; `CAPSTAN_SEED=N` begins with another choice.

use std::collections::HashMap;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::clocks::{self, Clock};
use crate::dice::{Dice, seed_wanted};
use crate::guard;
use crate::kills::same;
use crate::support::{Lab, below, noise, soak};

/// What the home that writes the medium does.
const OWN: &[&str] = &[
    "backup tree --name t --to medium",
    "backup tree --name t --to medium --full",
    "backup other --name o --to medium",
    "backup tree --name m --to medium --mirror mirrored",
    "prune --keep-last 3",
    "prune t --keep-last 2",
    "copy t --to second",
    "copy --medium medium --to second",
    "consolidate t",
    "consolidate t --to second",
    "stage medium --to second --older-than 1d",
    "verify t",
    "verify --medium medium",
    "restore t --into NEW",
    "restore t --to-tar NEW",
    "drill t --sample 30% --scratch scratch",
    "catalog load --medium medium",
    "import medium",
    "lock t --until 1d",
    "protect t --rules",
    "media label medium name",
    "media show medium",
    "status",
    "idb check",
    "sessions",
    "ls t",
    "find f1",
];

/// What another one does, to which the medium is another cell's.
const OTHER: &[&str] = &[
    "import medium",
    "verify --medium medium",
    "restore t --into NEW",
    "restore t --to-tar NEW",
    "drill t --sample 30% --scratch scratch",
    "copy t --to theirs",
    "copy --medium medium --to theirs",
    "catalog load --medium medium",
    "media show medium",
    "backup other --name x --to theirs",
    // These are refused: it is not theirs.
    "backup other --name x --to medium",
    "prune --keep-last 1",
    "stage medium --to theirs",
    "media recycle medium",
    "media erase medium",
    "lock t --until 1d",
    "status",
    "idb check",
];

struct Yard {
    lab: Lab,
    dice: Dice,
    /// The state of the source when each session was begun.
    states: HashMap<String, usize>,
    round: usize,
    /// What ran beside each other last.
    last: Vec<String>,
    commands: u64,
    codes: HashMap<i32, u64>,
}

impl Yard {
    fn new(seed: u64) -> Self {
        let lab = Lab::new();
        lab.sh("mkdir scratch log");
        for i in 0..40 {
            lab.file(&format!("tree/d{}/f{i}", i % 4), noise(i, 3_000 + 90 * i as usize));
            lab.file(&format!("other/f{i}"), noise(100 + i, 2_000));
        }
        lab.file("tree/big", noise(5, 3_000_000));
        let dice = Dice::new(seed);
        let mut yard = Self {
            lab,
            dice,
            states: HashMap::new(),
            round: 0,
            last: Vec::new(),
            commands: 0,
            codes: HashMap::new(),
        };
        yard.change();
        yard.lab.run(["backup", "tree", "--name", "t", "--to", "medium"]).ok();
        yard.lab.run(["backup", "other", "--name", "o", "--to", "medium"]).ok();
        yard.note();
        yard
    }

    /// Makes the source another one.
    fn change(&mut self) {
        let n = self.round;
        self.lab.file(&format!("tree/d1/f{}", n % 9), noise(500 + n as u64, 20_000));
        self.lab.file(&format!("other/new-{}", n % 7), noise(900 + n as u64, 9_000));
        self.lab.sh(&format!(
            "mkdir -p states; rm -rf states/{n}; mkdir states/{n}; cp -a tree other states/{n}"
        ));
    }

    /// Runs commands at once, each in its home; how long one may take is for all of them.
    fn run(&mut self, commands: &[(&str, &str)]) {
        self.last = commands.iter().map(|(home, args)| format!("{home}: {args}")).collect();
        let mut running = Vec::new();
        for (n, (home, args)) in commands.iter().enumerate() {
            let new = format!("new-{}-{n}", self.round);
            let args = args.replace("NEW", &new);
            let log = self.lab.mkdir(&format!("log/{}-{n}", self.round));
            let mut command = self.lab.command();
            command.args(args.split(' ')).env("CAPSTAN_HOME", self.lab.path(home));
            Clock::any(&mut self.dice).set(&mut command);
            let delay = Duration::from_millis(self.dice.below(80) as u64);
            running.push((args, log, command, delay));
        }
        let round = self.round;
        let codes: Vec<i32> = std::thread::scope(|scope| {
            let started: Vec<_> = running
                .into_iter()
                .map(|(args, log, mut command, delay): (String, _, Command, _)| {
                    scope.spawn(move || {
                        std::thread::sleep(delay);
                        let ran =
                            guard::run_for(&mut command, &log, None, Duration::from_secs(120));
                        let fault = ran.fault.as_deref().unwrap_or_default();
                        assert!(
                            fault.is_empty(),
                            "round {round}: `{args}` {fault}: {}",
                            ran.stderr
                        );
                        ran.code.unwrap_or(-1)
                    })
                })
                .collect();
            started.into_iter().map(|s| s.join().unwrap()).collect()
        });
        self.commands += codes.len() as u64;
        codes.into_iter().for_each(|code| *self.codes.entry(code).or_default() += 1);
        self.lab.sh("chmod -R u+rwx new-* 2>/dev/null || true; rm -rf new-* log/*");
    }

    fn sessions(&self) -> Vec<Value> {
        let listed = self.lab.run(["sessions", "--kind", "all", "--json", "--limit", "100000"]);
        listed.ok().rows()
    }

    /// Remembers what was just backed up.
    fn note(&mut self) {
        for session in self.sessions() {
            let id = session["id"].as_str().unwrap().to_owned();
            self.states.entry(id).or_insert(self.round);
        }
    }

    /// The database agrees with the media, and what completed restores as it was.
    fn is_sound(&mut self) {
        let mut check = self.lab.run(["idb", "check"]);
        if (check.stdout.clone() + &check.stderr).contains("not recorded") {
            self.lab.run(["import", "medium"]).ok();
            check = self.lab.run(["idb", "check"]);
        }
        let round = format!("{} after {:#?}", self.round, self.last);
        assert_eq!(check.code, 0, "round {round}: {}{}", check.stdout, check.stderr);
        self.lab.run(["verify", "--medium", "medium"]).ok();
        let backups: Vec<(String, String)> = self
            .sessions()
            .iter()
            .filter(|s| s["kind"] == "backup" && s["status"] == "completed")
            .map(|s| (s["name"].as_str().unwrap().to_owned(), s["id"].as_str().unwrap().to_owned()))
            .collect();
        // The newest of both, and some other one.
        let newest = |name: &str| backups.iter().find(|(n, _)| n == name).cloned();
        let some = self.dice.pick(&backups).clone();
        for (name, id) in newest("t").into_iter().chain(newest("o")).chain([some]) {
            let source = if name == "o" { "other" } else { "tree" };
            let version = format!("{name}@{id}");
            let run = self.lab.run(["restore", &version, "--into", "out", "--json"]);
            let report: Value = serde_json::from_str(&run.stdout).unwrap_or(Value::Null);
            if run.code == 2 && !self.is_listed(&name, &id) {
                // It was pruned, and stands in the list as what was done.
                continue;
            }
            assert!(
                clocks::completed(&report),
                "round {round}: {version}: {}{}",
                run.stdout,
                run.stderr
            );
            let state = self.lab.path(format!("states/{}/{source}", self.states[&id]));
            same(
                &state,
                &below(&self.lab.path("out"), &self.lab.path(source)),
                &format!("round {round}: {name}@{id}"),
            );
            fs::remove_dir_all(self.lab.path("out")).unwrap();
        }
    }

    /// Whether it is said to be restorable: what expired may lie there still, as somebody read it.
    fn is_listed(&self, name: &str, id: &str) -> bool {
        let versions = self.lab.run(["versions", name, "--json"]).rows();
        versions.iter().any(|v| v["session"] == id && v["expired"].is_null())
    }
}

fn beside(seed: u64, homes: &[(&str, &[&str])], rounds: usize) {
    let mut yard = Yard::new(seed);
    let begun = Instant::now();
    for round in 1..=rounds {
        yard.round = round;
        yard.change();
        let count = 3 + yard.dice.below(3);
        let commands: Vec<_> = (0..count)
            .map(|n| {
                let (home, of) = homes[n % homes.len()];
                (home, *yard.dice.pick(of))
            })
            .collect();
        yard.run(&commands);
        yard.note();
        yard.is_sound();
        if yard.lab.sh("du -sm medium | cut -f1").trim().parse::<u64>().unwrap() > 200 {
            let pruned = yard.lab.run(["prune", "--keep-last", "2"]);
            assert!(matches!(pruned.code, 0 | 3), "{}{}", pruned.stdout, pruned.stderr);
        }
    }
    eprintln!(
        "{rounds} runs, {} commands beside each other in {} in {:?}; {}; exit codes {:?}",
        yard.commands,
        if homes.len() > 1 { "two homes" } else { "one home" },
        begun.elapsed(),
        clocks::told(),
        yard.codes
    );
}

#[test]
fn commands_beside_each_other_in_one_home() {
    beside(seed_wanted().unwrap_or(21), &[("home", OWN)], if soak() { 40 } else { 5 });
}

#[test]
fn commands_of_two_homes_beside_each_other_on_one_medium() {
    beside(
        seed_wanted().unwrap_or(22),
        &[("home", OWN), ("home-2", OTHER)],
        if soak() { 40 } else { 5 },
    );
}
