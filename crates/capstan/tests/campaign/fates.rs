//! Lives of a cell: backups, copies, consolidations, repairs, kills, disks that are away, damage that was found, homes put back, in
//! any order. Whatever happened before:
//!
//! - `prune` never takes the newest version that restored whole until then;
//! - a backup or a copy that says that all went well restores whole, a copy without any other medium;
//! - `status` is content only where the newest version restores whole.
//!
//! Whether a version restores whole is asked with a copy of the home, so that asking changes nothing. Damage that no command
//! named yet is taken back: nobody can know of it.
//!
//! Some lives in the gate, 2,000 with `CAPSTAN_SOAK=1`; `CAPSTAN_SEED=N` tries one again and tells it.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::dice::{Dice, seeds_wanted};
use crate::guard;
use crate::server;
use crate::support::{Lab, Run, below, finish, noise, skip, soak};

/// Disks; backups go to the first one mostly.
const DISKS: [&str; 3] = ["m", "n", "o"];

/// Commands of one life.
const LENGTH: usize = 14;

struct Life {
    lab: Lab,
    dice: Dice,
    /// Versions that completed, oldest first, and the state of the source that they are of.
    versions: Vec<(String, usize)>,
    /// Backups that were to be killed, and the state that they are of: they may turn out to be complete later.
    to_be_killed: Vec<(String, usize)>,
    states: usize,
    told: Vec<String>,
    commands: u64,
    prunes: u64,
}

/// What went wrong.
type Fault = String;

impl Life {
    fn new(seed: u64) -> Self {
        let memory = Path::new("/dev/shm");
        let lab = if memory.is_dir() { Lab::within(memory) } else { Lab::new() };
        let mut life = Self {
            lab,
            dice: Dice::new(seed),
            versions: Vec::new(),
            to_be_killed: Vec::new(),
            states: 0,
            told: Vec::new(),
            commands: 0,
            prunes: 0,
        };
        life.lab.sh("mkdir log scratch tree states");
        for n in 0..5 {
            life.lab.file(&format!("tree/f{n}"), noise(seed ^ n, 60_000));
        }
        life.states = 1;
        life.lab.sh("cp -a tree states/0");
        life
    }

    /// Changes some files of the source.
    fn change(&mut self) {
        self.learn();
        for n in 0..5 {
            if self.dice.once_in(2) {
                let bytes = noise(self.dice.next(), 60_000);
                self.lab.file(&format!("tree/f{n}"), bytes);
            }
        }
        self.lab.sh(&format!("cp -a tree states/{}", self.states));
        self.states += 1;
    }

    fn run(&mut self, args: &str) -> Run {
        self.commands += 1;
        let run = finish(self.lab.command().args(args.split(' ')));
        self.told.push(format!("{args} -> {}: {}", run.code, first_line(&run)));
        run
    }

    /// The same, killed after a while, and then given again.
    fn killed(&mut self, args: &str) {
        let after = Duration::from_millis(self.dice.below(120) as u64);
        let mut command = self.lab.command();
        command.args(args.split(' '));
        let killed = guard::killed_after(command, after);
        self.told.push(format!("{args} {}", if killed { "was killed" } else { "had ended" }));
        for session in self.listed() {
            let id = session["id"].as_str().unwrap_or_default().to_owned();
            let is_known = |all: &[(String, usize)]| all.iter().any(|v| v.0 == id);
            if !is_known(&self.versions) && !is_known(&self.to_be_killed) {
                self.to_be_killed.push((id, self.states - 1));
            }
        }
    }

    /// Learns of versions that were made all the same.
    fn learn(&mut self) {
        for session in self.listed() {
            let id = session["id"].as_str().unwrap_or_default();
            let status = session["status"].as_str().unwrap_or_default();
            let is_new = status.starts_with("completed") && self.versions.iter().all(|v| v.0 != id);
            if session["kind"] == "backup" && session["removed"] != true && is_new {
                let killed = self.to_be_killed.iter().find(|v| v.0 == id);
                let state = killed.map_or(self.states - 1, |v| v.1);
                let later = self.versions.iter().position(|v| v.1 > state);
                self.versions.insert(later.unwrap_or(self.versions.len()), (id.to_owned(), state));
            }
        }
    }

    /// The sessions that the home lists.
    fn listed(&self) -> Vec<Value> {
        self.lab.run(["sessions", "--kind", "all", "--json"]).rows()
    }

    fn disk(&mut self) -> &'static str {
        if self.dice.once_in(2) { DISKS[0] } else { DISKS[self.dice.below(DISKS.len())] }
    }

    fn version(&mut self) -> Option<String> {
        let n = self.versions.len();
        (n > 0).then(|| format!("d@{}", self.versions[self.dice.below(n)].0))
    }

    /// What a version gives: `None` if that is not all.
    fn restores(&self, home: &str, version: &(String, usize)) -> Result<(), String> {
        let lab = &self.lab;
        lab.sh(&format!("rm -rf oracle out; cp -a {home} oracle"));
        let mut command = lab.command();
        let name = format!("d@{}", version.0);
        let run = finish(command.args(["--home", "oracle", "restore", &name, "--into", "out"]));
        let restored = below(&lab.path("out"), &lab.path("tree"));
        if !restored.exists() {
            return Err(format!("code {}: {}{}", run.code, run.stdout, run.stderr));
        }
        let (state, restored) = (lab.path(format!("states/{}", version.1)), restored);
        let differ = finish(lab.program("diff").arg("-r").arg(state).arg(restored));
        match differ.code {
            0 => Ok(()),
            _ => Err(format!("code {}: {}", run.code, first_line(&differ))),
        }
    }

    /// The newest version that restores whole.
    fn newest_whole(&self) -> Option<(String, usize)> {
        self.versions.iter().rev().find(|v| self.restores("home", v).is_ok()).cloned()
    }

    fn backup(&mut self) -> Result<(), Fault> {
        let disk = self.disk();
        let how = *self.dice.pick(&["", "", "", " --full", " --incr", " --mirror o"]);
        if disk == "o" && how.contains("mirror") {
            return Ok(());
        }
        let args = format!("backup tree --name d --to {disk}{how}");
        if self.dice.once_in(6) && kills() {
            self.killed(&args);
            return Ok(());
        }
        let run = self.run(&format!("{args} --json"));
        let report: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
        let (0, Some(id)) = (run.code, report["session"].as_str()) else { return Ok(()) };
        self.versions.push((id.to_owned(), self.states - 1));
        let version = self.versions.last().unwrap();
        if DISKS.iter().any(|disk| self.lab.path(format!("{disk}.away")).exists()) {
            return Ok(());
        }
        self.restores("home", version).map_err(|why| {
            format!("a backup that completed ({}) does not restore whole: {why}", version.0)
        })
    }

    /// A synthetic full gives what the version gives of which it was made.
    fn consolidate(&mut self, what: &str, to: &str) -> Result<(), Fault> {
        let run = self.run(&format!("consolidate {what} --to {to} --json"));
        let report: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
        let (0, Some(id)) = (run.code, report["session"].as_str()) else { return Ok(()) };
        let source = self.versions.iter().find(|v| report["base_session"] == v.0.as_str());
        let version = (id.to_owned(), source.ok_or("a full of a version that nobody made")?.1);
        self.versions.push(version.clone());
        self.versions.sort_by_key(|v| v.1);
        self.restores("home", &version)
            .map_err(|why| format!("a synthetic full ({id}) does not restore whole: {why}"))
    }

    fn copy(&mut self) -> Result<(), Fault> {
        let to = *self.dice.pick(&DISKS);
        let from = *self.dice.pick(&DISKS);
        let what = match self.dice.below(3) {
            0 => "copy d".to_owned(),
            1 => format!("copy --medium {from}"),
            _ => format!("media copy {from}"),
        };
        let run = self.run(&format!("{what} --to {to}"));
        let Some(newest) = self.newest().filter(|_| run.code == 0 && what == "copy d") else {
            return Ok(());
        };
        // One of which a mirror was away is none of these, and is what was copied.
        if self.listed().iter().find(|s| is_complete(s)).is_some_and(|s| s["id"] != newest.0) {
            return Ok(());
        }
        // A copy restores without the others.
        let others: Vec<_> = DISKS.iter().filter(|d| **d != to).collect();
        let hide = |from: &str, to: &str| {
            others
                .iter()
                .map(|d| format!("[ ! -e {d}{from} ] || mv {d}{from} {d}{to};"))
                .collect::<String>()
        };
        self.lab.sh(&hide("", ".hidden"));
        let restores = self.restores("home", &newest);
        self.lab.sh(&hide(".hidden", ""));
        restores
            .map_err(|why| format!("a copy in {to} that completed does not restore whole: {why}"))
    }

    /// The newest version that the home lists as complete.
    fn newest(&self) -> Option<(String, usize)> {
        let listed = self.listed();
        let is_listed = |s: &Value, id: &str| s["id"] == id && s["removed"] != true;
        let known =
            |id: &str| listed.iter().any(|s| is_listed(s, id) && s["status"] == "completed");
        self.versions.iter().rev().find(|v| known(&v.0)).cloned()
    }

    /// A segment of a disk.
    fn segment(&mut self) -> Option<PathBuf> {
        let disk = self.lab.path(*self.dice.pick(&DISKS));
        let mut all: Vec<_> = fs::read_dir(disk).ok()?.flatten().map(|e| e.path()).collect();
        all.retain(|p| p.extension().is_some_and(|e| e == "segment"));
        all.sort();
        (!all.is_empty()).then(|| self.dice.pick(&all).clone())
    }

    /// Damages a segment, and has a command find it; what none finds is taken back.
    fn damage(&mut self) {
        let Some(path) = self.segment() else { return };
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        let mut bytes = vec![0; 3000];
        let at = (self.dice.next() % length.max(1)).min(length.saturating_sub(3000));
        let Ok(()) = file.read_exact_at(&mut bytes, at) else { return };
        let turned: Vec<_> = bytes.iter().map(|b| b ^ 0xff).collect();
        let disk = path.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let version = self.version().unwrap_or_else(|| "d".to_owned());
        let finder = match self.dice.below(7) {
            0 => "verify d".to_owned(),
            1 => format!("verify {version}"),
            2 => format!("restore {version} --to-tar -"),
            3 => format!("restore {version} --into found"),
            4 => format!("drill {version} --sample 100% --scratch scratch"),
            5 => "copy d --to n".to_owned(),
            _ => format!("verify --medium {disk}"),
        };
        let finds = |run: Run| (run.stdout + &run.stderr).contains("damaged") && run.code == 3;
        // What finds damage of before tells nothing of this.
        let before = if finder.starts_with("copy") { "verify d" } else { &finder };
        let is_told = !finder.contains("--medium") && finds(self.run(before));
        self.lab.sh("rm -rf found");
        if is_told {
            return;
        }
        file.write_all_at(&turned, at).unwrap();
        self.told.push(format!("damage of {} at byte {at}", path.display()));
        let is_found = finds(self.run(&finder));
        self.lab.sh("rm -rf found");
        if !is_found {
            file.write_all_at(&bytes, at).unwrap();
            self.told.push("was not found, and is taken back".to_owned());
        }
    }

    fn prune(&mut self) -> Result<(), Fault> {
        let before = self.newest_whole();
        let keep = 1 + self.dice.below(2);
        let args = format!("prune d --keep-last {keep}");
        if self.dice.once_in(4) && kills() {
            self.killed(&args);
        } else {
            self.run(&args);
        }
        self.prunes += 1;
        let Some(before) = before else { return Ok(()) };
        // One that was made later is as good.
        match self.newest_whole() {
            Some(after) if after.1 >= before.1 => Ok(()),
            after => Err(format!(
                "prune took {before:?}, the newest that was whole; now it is {after:?}"
            )),
        }
    }

    fn status(&mut self) -> Result<(), Fault> {
        // A backup that was to be killed may have made one.
        self.learn();
        let run = self.run("status d");
        let Some(newest) = self.newest().filter(|_| run.code == 0 && run.stdout.contains("OK"))
        else {
            return Ok(());
        };
        self.restores("home", &newest).map_err(|why| {
            format!("status is content, but {} does not restore whole: {why}", newest.0)
        })
    }

    fn step(&mut self) -> Result<(), Fault> {
        match self.dice.below(26) {
            0..=5 => {
                self.change();
                self.backup()?;
            }
            6 | 7 => self.copy()?,
            8 | 9 => {
                let version = self.version().unwrap_or_else(|| "d".to_owned());
                let what = if self.dice.once_in(2) { version } else { "d".to_owned() };
                let to = self.disk();
                self.consolidate(&what, to)?;
            }
            10 | 11 => self.damage(),
            12 => {
                if let Some(path) = self.segment() {
                    fs::remove_file(&path).unwrap();
                    self.told.push(format!("{} is removed", path.display()));
                }
            }
            13 => {
                if let Some(path) = self.segment() {
                    let file = OpenOptions::new().write(true).open(&path).unwrap();
                    let length = file.metadata().unwrap().len();
                    let cut = self.dice.next() % length.max(1);
                    file.set_len(cut).unwrap();
                    self.told.push(format!("{} is cut from {length} to {cut}", path.display()));
                }
            }
            14 => {
                let disk = self.disk();
                self.lab.sh(&format!(
                    "if [ -e {disk}.away ]; then rm -rf {disk}; mv {disk}.away {disk}; \
                     elif [ -e {disk} ]; then mv {disk} {disk}.away; fi"
                ));
                self.told.push(format!("{disk} goes or comes back"));
            }
            15 => {
                let disk = self.disk();
                let from = *self.dice.pick(&["", "", " --from n", " --from o"]);
                self.run(&format!("media repair {disk}{from}"));
            }
            16 => {
                let disk = self.disk();
                self.run(&format!("import {disk}"));
            }
            17 => {
                let disk = *self.dice.pick(&["n", "o"]);
                let how = *self.dice.pick(&["--no-copy", "--to m"]);
                self.run(&format!("media retire {disk} {how}"));
            }
            18 => {
                if let Some(version) = self.version() {
                    self.run(&format!("protect {version} --none"));
                }
            }
            19 => {
                // The disk of the home was put back to an older state.
                if self.lab.path("home.old").exists() {
                    self.lab.sh("rm -rf home; mv home.old home");
                    self.told.push("the home is put back".to_owned());
                } else if self.lab.path("home").exists() {
                    self.lab.sh("cp -a home home.old");
                    self.told.push("the home is kept aside".to_owned());
                }
            }
            20 => {
                let disk = *self.dice.pick(&["n", "o"]);
                self.lab.run(["--home", "other", "media", "adopt", disk]);
                self.told.push(format!("another cell adopts {disk}"));
            }
            21 => {
                let disk = self.disk();
                self.run(&format!("verify --medium {disk}"));
            }
            _ => self.prune()?,
        }
        self.status()?;
        self.learn();
        Ok(())
    }

    fn live(&mut self) -> Result<(), Fault> {
        self.backup()?;
        for _ in 0..LENGTH {
            self.step()?;
        }
        self.prune()
    }
}

/// Whether commands are killed. When a kill comes depends on the machine; in the gate each life is that of its seed.
fn kills() -> bool {
    soak() || seeds_wanted().is_some()
}

fn first_line(run: &Run) -> String {
    let all = run.stderr.lines().chain(run.stdout.lines());
    all.filter(|l| !l.is_empty())
        .take(2)
        .map(|l| l.chars().take(180).collect::<String>())
        .collect::<Vec<_>>()
        .join(" | ")
}

/// Whether a session made a version that is complete, and there still.
fn is_complete(session: &Value) -> bool {
    let makes = ["backup", "consolidate"].iter().any(|kind| session["kind"] == *kind);
    let status = session["status"].as_str().unwrap_or_default();
    makes && session["removed"] != true && status.starts_with("completed")
}

#[test]
fn no_life_of_a_cell_costs_a_version() {
    if server::is_wanted() {
        return skip("the home is asked by a copy of it");
    }
    let wanted = seeds_wanted();
    let seeds = wanted.clone().unwrap_or(0..if soak() { 2_000 } else { 24 });
    let next = AtomicU64::new(seeds.start);
    let (most, begun) = (guard::longest(), Instant::now());
    let done: Mutex<BTreeMap<u64, (u64, u64, Option<String>)>> = Mutex::default();
    let workers = std::thread::available_parallelism().map_or(2, |n| (2 * n.get()).clamp(2, 8));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while begun.elapsed() < most {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let mut life = Life::new(seed);
                    let fault = life.live().err();
                    let fault = fault.map(|fault| {
                        format!("CAPSTAN_SEED={seed}: {fault}\n  {}", life.told.join("\n  "))
                    });
                    if let Some(fault) = &fault {
                        eprintln!("{fault}");
                    }
                    done.lock().unwrap().insert(seed, (life.commands, life.prunes, fault));
                }
            });
        }
    });
    let done = done.into_inner().unwrap();
    let faults: Vec<_> = done.values().filter_map(|(_, _, fault)| fault.as_deref()).collect();
    let sum = |of: fn(&(u64, u64, Option<String>)) -> u64| done.values().map(of).sum::<u64>();
    eprintln!(
        "{} lives, {} commands, {} of them prune; {} lives went wrong",
        done.len(),
        sum(|d| d.0),
        sum(|d| d.1),
        faults.len()
    );
    assert!(
        faults.is_empty(),
        "{} of {} lives went wrong, as said above",
        faults.len(),
        done.len()
    );
}
