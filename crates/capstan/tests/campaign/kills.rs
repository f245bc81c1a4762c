//! SIGKILL at any moment of any command that changes something: what was there is there, the command can be given again, and
//! the database has no quarrel with the media. On either store.
//!
//! Each command once in the gate, 200 kills and more with `CAPSTAN_SOAK=1`; `CAPSTAN_SEED=N` begins with another moment.

use std::fs;
use std::panic::AssertUnwindSafe;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::clocks::{self, Clock};
use crate::dice::{Dice, seed_wanted};
use crate::guard;
use crate::server::{self, Server};
use crate::support::{Lab, Run, below, finish, noise, soak};

/// What must still be there after a command.
#[derive(Clone, Copy, PartialEq)]
enum Keeps {
    All,
    Newest,
}

/// A command that changes something.
struct Step {
    /// What a shell does before.
    before: &'static str,
    args: &'static str,
    /// What it may answer when it is given again, besides 0: what it did is done.
    again: &'static [i32],
    keeps: Keeps,
}

const fn step(args: &'static str) -> Step {
    Step { before: "", args, again: &[], keeps: Keeps::All }
}

const fn once(args: &'static str) -> Step {
    Step { again: &[2], ..step(args) }
}

const STEPS: &[Step] = &[
    step("backup tree --name t --to medium --segment-size 1M"),
    step("backup tree --name t --to medium --full --segment-size 1M"),
    step("backup tree --name t --to medium --resume"),
    step("backup tree --name u --to fresh"),
    step("backup tree --name t --to medium --mirror mirrored --full"),
    step("backup tree --name r --to rait5:a,b,c --full"),
    step("backup tree --name k --to vtape:vtl --full"),
    step("copy t --to third"),
    step("copy --medium medium --to second"),
    step("media copy medium --to third"),
    once("consolidate t"),
    once("consolidate t --to third"),
    Step { keeps: Keeps::Newest, ..step("prune t --keep-last 1") },
    step("stage medium --to second"),
    step("stage second --to vtape:vtl"),
    once("media retire medium --to third"),
    once("media recycle spare"),
    once("media erase spare"),
    once("media erase spare --secure"),
    step("media label medium other"),
    step("media protect second --until 3d"),
    once("media init blank --label new"),
    step("media move second --no-pool"),
    step("lock t --until 2m"),
    step("protect t --none"),
    step("catalog load --medium medium"),
    step("library inventory vtape:vtl --rescan"),
    Step { before: "rm -r b", again: &[2], ..step("rait rebuild a --member b --onto d") },
    Step { before: "mv home away", ..step("import medium") },
    Step { before: "mv home away", ..step("import vtape:vtl") },
    Step { before: "mv home away", again: &[2], ..step("idb recover medium --code-file code") },
    once("pool create extra"),
    step("idb recovery-key --replace"),
    once("key init --new-key-file secret"),
    step("idb check"),
    step("drill t --sample 50% --scratch scratch"),
    step("restore t --into elsewhere --overwrite always"),
];

/// A home with three versions on a disk and copies of them on another, an array, and a tape.
struct Scene {
    lab: Lab,
    tables: Option<String>,
    /// Versions, and what they must give.
    versions: Vec<(String, &'static str)>,
}

fn scene() -> Scene {
    let lab = Lab::new();
    for i in 0..30 {
        lab.file(&format!("tree/d{}/f{i}", i % 4), noise(i, 2_000 + 97 * i as usize));
    }
    lab.file("tree/big", noise(9, 2_500_000));
    lab.file("code", lab.run(["idb", "recovery-key"]).ok().stdout.clone());
    lab.run(
        "vtl create vtl --drives 1 --tapes 3 --slots 5 --capacity 60M --scale 1000000".split(' '),
    )
    .ok();
    lab.sh("mkdir scratch");
    let mut versions = Vec::new();
    let mut backup = |name: &str, args: &[&str], state: &'static str| {
        let report = lab.backed_up([&["tree", "--name", name][..], args].concat());
        versions.push((format!("{name}@{}", report["session"].as_str().unwrap()), state));
    };
    let medium = ["--to", "medium", "--segment-size", "1M"];
    backup("t", &medium, "state-0");
    lab.sh("cp -a tree state-0; echo more >>tree/d1/f1; rm tree/d2/f2; echo new >tree/new");
    backup("t", &medium, "state-1");
    lab.sh("cp -a tree state-1; mv tree/d3 tree/moved; chmod 600 tree/big");
    backup("t", &medium, "tree");
    backup("r", &["--to", "rait5:a,b,c"], "tree");
    backup("k", &["--to", "vtape:vtl"], "tree");
    lab.run("copy --medium medium --to second".split(' ')).ok();
    // A medium that nothing needs any more.
    let given_up = lab.backed_up(["tree/d1", "--name", "w", "--to", "spare"]);
    lab.backed_up(["tree/d1", "--name", "w", "--to", "second", "--full"]);
    let given_up = format!("w@{}", given_up["session"].as_str().unwrap());
    lab.run(["protect", &given_up, "--none"]).ok();
    lab.sh("mkdir saved; cp -a home medium second spare a b c vtl saved/");
    let tables = lab.keep_tables();
    Scene { lab, tables, versions }
}

impl Scene {
    /// Puts everything back, and does what comes before a step.
    fn lay(&self, step: &Step) {
        self.lab.sh("chattr -R -f -i -a . || true
            for f in *; do case $f in saved|tree|state-*|code|scratch) ;; *) rm -rf \"$f\" ;; esac; done
            cp -a saved/* .");
        self.lab.put_tables_back(&self.tables);
        self.lab.sh(step.before);
    }

    fn command(&self, step: &Step, clock: Clock) -> Command {
        let mut command = self.lab.command();
        command.args(step.args.split(' '));
        clock.set(&mut command);
        command
    }

    /// Everything that must be there restores as it was, and the database agrees with the media.
    fn is_sound(&self, step: &Step, dice: &mut Dice, what: &str) {
        let lab = &self.lab;
        if step.before.contains("home away") && !step.args.starts_with("idb recover") {
            // What the medium says is all that a new home knows.
            let tape = step.args.contains("vtape:");
            return self.restores(&self.versions[if tape { 4 } else { 2 }], what);
        }
        let mut check = lab.run(["idb", "check"]);
        if check.code != 0 && (check.stdout.clone() + &check.stderr).contains("not recorded") {
            for device in
                ["medium", "second", "third", "fresh", "mirrored", "rait5:a,b,c", "vtape:vtl"]
            {
                let there =
                    !device.contains(':') && lab.path(device).join("medium.capstan").exists();
                if there || device.contains(':') {
                    lab.run(["import", device]);
                }
            }
            check = lab.run(["idb", "check"]);
        }
        if step.args.starts_with("idb recover") && check.code == 3 {
            // The tables came, the catalogs did not: what it says helps.
            assert!(check.stdout.contains("capstan catalog load"), "{what}: {}", check.stdout);
            lab.run(["catalog", "load", "--medium", "medium"]).ok();
            check = lab.run(["idb", "check"]);
        }
        assert_eq!(check.code, 0, "{what}: {}{}", check.stdout, check.stderr);
        let all = match step.keeps {
            // What was done later than the backup of the database is on other media.
            _ if step.args.starts_with("idb recover") => &self.versions[..3],
            Keeps::All => &self.versions[..],
            Keeps::Newest => &self.versions[2..],
        };
        for version in all {
            // A share of them in the gate.
            if soak() || dice.once_in(2) || version.1 == "tree" && version.0.starts_with('t') {
                self.restores(version, what);
            }
        }
    }

    fn restores(&self, (version, state): &(String, &'static str), what: &str) {
        let lab = &self.lab;
        let report = lab.restore([version, "--into", "out"]);
        assert!(clocks::completed(&report), "{what}: {version}: {report:#}");
        let restored = below(&lab.path("out"), &lab.path("tree"));
        same(&lab.path(state), &restored, &format!("{what}: {version}"));
        fs::remove_dir_all(lab.path("out")).unwrap();
    }
}

/// rsync sees no difference.
pub fn same(a: &std::path::Path, b: &std::path::Path, what: &str) {
    let mut rsync = Command::new("rsync");
    rsync.args(["-aHAXn", "--checksum", "--delete", "--itemize-changes", "--modify-window=-1"]);
    for path in [a, b] {
        rsync.arg(format!("{}/", path.display()));
    }
    let run = finish(&mut rsync);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{what}: {}", run.stderr);
}

fn well(run: &Run, codes: &[i32], what: &str) {
    // What a killed command was told of the time may stand in the database.
    let of_clocks = run.code == 3 && (run.stdout.clone() + &run.stderr).contains("a clock was");
    let fine = run.code == 0 || codes.contains(&run.code) || of_clocks;
    assert!(fine, "{what}: code {}: {}{}", run.code, run.stdout, run.stderr);
    assert!(!run.stderr.contains("panicked"), "{what}: {}", run.stderr);
}

#[test]
fn killed_commands_lose_nothing() {
    let scene = scene();
    let mut dice = Dice::new(seed_wanted().unwrap_or(11));
    let rounds = if soak() { 6 } else { 1 };
    let (mut killed, mut ended) = (0, 0);
    let mut took = vec![Duration::from_millis(150); STEPS.len()];
    let mut faults = Vec::new();
    for round in 0..rounds {
        for (n, step) in STEPS.iter().enumerate() {
            let clock = Clock::any(&mut dice);
            let what = format!("round {round}, `{}`, {clock:?}", step.args);
            // One that fails does not hide what the others do.
            let tried = std::panic::catch_unwind(AssertUnwindSafe(|| {
                if round == 0 {
                    // How long it takes, that it works, and that it can be given again.
                    scene.lay(step);
                    let begun = Instant::now();
                    well(&finish(&mut scene.command(step, Clock::Right)), &[], &what);
                    took[n] = begun.elapsed();
                    if soak() {
                        scene.is_sound(step, &mut dice, &what);
                    }
                    well(&finish(&mut scene.command(step, Clock::Right)), step.again, &what);
                }
                scene.lay(step);
                let after = took[n].mul_f64(dice.below(1_000) as f64 / 950.0);
                match guard::killed_after(scene.command(step, clock), after) {
                    true => killed += 1,
                    false => ended += 1,
                }
                let begun = Instant::now();
                well(&finish(&mut scene.command(step, Clock::Right)), step.again, &what);
                took[n] = begun.elapsed();
                scene.is_sound(step, &mut dice, &what);
            }));
            if tried.is_err() {
                faults.push(what);
            }
        }
    }
    eprintln!(
        "{killed} of {} commands killed, {ended} had ended before, {} kinds; {}",
        killed + ended,
        STEPS.len(),
        clocks::told()
    );
    assert!(
        faults.is_empty(),
        "{} went wrong, as said above:\n{}",
        faults.len(),
        faults.join("\n")
    );
    assert!(killed > ended / 2, "hardly anything was killed");
}

/// The tables on their way to a server: they are in the one place or in the other.
#[test]
fn a_killed_move_of_the_tables_can_be_given_again() {
    if server::is_wanted() {
        return crate::support::skip("the tables are on a server already");
    }
    if !server::is_installed() {
        return crate::support::skip("PostgreSQL is not installed");
    }
    let scene = scene();
    let mut dice = Dice::new(seed_wanted().unwrap_or(12));
    let step = Step { again: &[2], ..step("idb move") };
    let (mut killed, mut took) = (0, Duration::from_millis(400));
    let rounds = if soak() { 12 } else { 3 };
    for round in 0..rounds {
        scene.lay(&step);
        let url = Server::shared().new_database();
        server::write_settings(&scene.lab.path("home"), &format!("database = \"{url}\"\n"));
        let after = took.mul_f64(dice.below(1_000) as f64 / 950.0);
        killed +=
            u32::from(guard::killed_after(scene.command(&step, Clock::any(&mut dice)), after));
        let begun = Instant::now();
        let what = format!("move {round}");
        well(&finish(&mut scene.command(&step, Clock::Right)), step.again, &what);
        took = begun.elapsed().max(Duration::from_millis(100));
        scene.is_sound(&step, &mut dice, &what);
        let listed = scene.lab.run(["sessions", "--kind", "all", "--json"]);
        let sessions = listed.ok().rows().len();
        assert!(sessions >= scene.versions.len(), "{what}: {}", listed.stdout);
        Server::shared().drop_database(&url);
    }
    eprintln!("{killed} of {rounds} moves of the tables killed");
}
