//! Sources and media on a file system that fails: what is read wrong is never stored as right, what completed comes back, and
//! every wait can be ended.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::clocks::{self, Clock};
use crate::dice::{Dice, seed_wanted};
use crate::fuse::{self, Faults, Happened, Mount};
use crate::guard;
use crate::kills::same;
use crate::support::{Lab, below, noise, skip, soak, wait_for};

/// A source and a medium behind mounts; nothing where there can be none.
fn mounts(lab: &Lab, seed: u64) -> Option<(Mount, Mount)> {
    if let Some(why) = fuse::missing() {
        skip(why);
        return None;
    }
    for i in 0..40 {
        lab.file(&format!("real-tree/d{}/f{i}", i % 5), noise(i, 4_000 + 300 * i as usize));
    }
    lab.file("real-tree/big", noise(77, 3_000_000));
    lab.sh("mkdir log");
    let tree = Mount::new(&lab.path("real-tree"), &lab.path("tree"), seed);
    let medium = Mount::new(&lab.path("real-medium"), &lab.path("medium"), seed + 1);
    match (tree, medium) {
        (Ok(tree), Ok(medium)) => Some((tree, medium)),
        (Err(e), _) | (_, Err(e)) => {
            skip(&format!("the kernel refuses a FUSE mount: {e}"));
            None
        }
    }
}

const BACKUP: [&str; 9] =
    ["backup", "tree", "--name", "t", "--to", "medium", "--segment-size", "1M", "--json"];

fn run(lab: &Lab, args: &[&str], clock: Clock, what: &str) -> (i32, Value) {
    let mut command = lab.command();
    command.args(args);
    clock.set(&mut command);
    let ran = guard::run_for(&mut command, &lab.path("log"), None, Duration::from_secs(120));
    if let Some(fault) = &ran.fault {
        panic!("{what}: {args:?} {fault}: {}", ran.stderr);
    }
    (ran.code.unwrap_or(-1), serde_json::from_str(&ran.stdout).unwrap_or(Value::Null))
}

/// Everything the report does not name came back as it is in the source.
fn comes_back(lab: &Lab, report: &Value, what: &str) {
    let version = format!("t@{}", report["session"].as_str().unwrap());
    let restored = lab.restore([version.as_str(), "--into", "out"]);
    let out = below(&lab.path("out"), &lab.path("tree"));
    if clocks::completed(report) {
        assert!(clocks::completed(&restored), "{what}: {restored:#}");
        same(&lab.path("real-tree"), &out, what);
    } else {
        // What could not be read is missing or named; what is there and not named is right.
        let named = report["errors"].to_string() + &restored["errors"].to_string();
        let list = lab.sh("cd real-tree; find . -type f -printf '%P\\n'");
        for name in list.lines() {
            let (a, b) =
                (fs::read(lab.path("real-tree").join(name)).ok(), fs::read(out.join(name)).ok());
            // A directory that cannot be listed takes along what is below it.
            let dir = name.rsplit_once('/').map_or("tree", |(dir, _)| dir);
            let path = |of: &str| format!("/tree/{of}\"");
            let is_named = named.contains(&path(name))
                || named.contains(&path(dir))
                || named.contains("/tree\"");
            if a != b {
                assert!(is_named, "{what}: {name} is not as it was, and not named: {report:#}");
            }
        }
    }
    let _ = fs::remove_dir_all(lab.path("out"));
}

fn kinds(spare: usize) -> [Faults; 5] {
    let of = |eio, estale, short| Faults { eio, estale, short, hangs: false, spare };
    [of(40, 0, 0), of(0, 40, 0), of(0, 0, 2), of(60, 60, 3), of(400, 0, 8)]
}

fn sum(a: &mut Happened, b: &Happened) {
    a.requests += b.requests;
    a.eio += b.eio;
    a.estale += b.estale;
    a.short += b.short;
    a.hung += b.hung;
}

#[test]
fn sources_and_media_that_fail() {
    let rounds = if soak() { 100 } else { 6 };
    let mut dice = Dice::new(seed_wanted().unwrap_or(31));
    let (mut all, mut codes, mut completed) = (Happened::default(), Vec::new(), 0);
    let lab = Lab::new();
    let Some((tree, medium)) = mounts(&lab, 5) else { return };
    run(&lab, &BACKUP, Clock::Right, "without faults");
    for round in 0..rounds {
        lab.file(&format!("real-tree/d1/f{}", round % 20), noise(round as u64 + 900, 30_000));
        let of_source = round % 2 == 0;
        let faults = kinds(dice.below(200))[dice.below(5)].clone();
        let what = format!(
            "round {round}: faults of the {}: 1 in {} EIO, {} ESTALE, {} short, after {}",
            if of_source { "source" } else { "medium" },
            faults.eio,
            faults.estale,
            faults.short,
            faults.spare
        );
        if of_source {
            tree.fail(faults)
        } else {
            medium.fail(faults)
        };
        let full = if dice.once_in(2) { "--full" } else { "--incr" };
        let (code, report) =
            run(&lab, &[&BACKUP[..], &[full]].concat(), Clock::any(&mut dice), &what);
        codes.push(code);
        // What reads and what removes meets them too.
        for args in [
            &["verify", "t"][..],
            &["restore", "t", "--into", "new"],
            &["prune", "t", "--keep-last", "9"],
            &["consolidate", "t"],
            &["idb", "check"],
        ] {
            if dice.once_in(3) {
                codes.push(run(&lab, args, Clock::Right, &what).0);
                lab.sh("chmod -R u+rwx new 2>/dev/null || true; rm -rf new");
            }
        }
        tree.fail(Faults::default());
        medium.fail(Faults::default());
        // What it says that it completed is there, once nothing fails any more.
        if matches!(report["status"].as_str(), Some("completed" | "completed_with_errors")) {
            completed += 1;
            comes_back(&lab, &report, &what);
        }
        let (_, report) = run(&lab, &BACKUP, Clock::Right, &what);
        assert!(clocks::completed(&report), "{what}: afterwards: {report:#}");
        comes_back(&lab, &report, &what);
        let verified = lab.run(["verify", "--medium", "medium"]);
        assert_eq!(verified.code, 0, "{what}: {}{}", verified.stdout, verified.stderr);
        let mut check = lab.run(["idb", "check"]);
        if (check.stdout.clone() + &check.stderr).contains("not recorded") {
            lab.run(["import", "medium"]).ok();
            check = lab.run(["idb", "check"]);
        }
        assert_eq!(check.code, 0, "{what}: {}{}", check.stdout, check.stderr);
        if dice.once_in(6) {
            let pruned = lab.run(["prune", "--keep-last", "3"]);
            assert!(matches!(pruned.code, 0 | 3), "{}{}", pruned.stdout, pruned.stderr);
        }
    }
    sum(&mut all, &tree.happened());
    sum(&mut all, &medium.happened());
    eprintln!(
        "{rounds} rounds, {completed} backups completed in spite of faults; {all:?}; {}; exit codes {codes:?}",
        clocks::told()
    );
    assert!(all.eio > 0 && all.estale > 0 && all.short > 0, "{all:?}");
}

/// The clock of a file server is behind, and has whole seconds: what is written in the second in which it was read has the times of before.
#[test]
fn a_file_servers_clock_that_is_behind_hides_no_change() {
    let lab = Lab::new();
    let Some((tree, _medium)) = mounts(&lab, 9) else { return };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
    let write = |what: u64| {
        lab.file("real-tree/held", noise(what, 50_000));
        lab.sh("touch -d @1600000000 real-tree/held");
    };
    for (behind, is_trusted) in [(5, false), (600, false), (3 * 86_400, true)] {
        tree.set_clock(now - behind);
        write(1);
        assert!(clocks::completed(&run(&lab, &BACKUP, Clock::Right, "first").1));
        write(2);
        let (_, report) = run(&lab, &BACKUP, Clock::Right, "rewritten");
        assert!(clocks::completed(&report), "{report:#}");
        if !is_trusted {
            comes_back(&lab, &report, &format!("{behind} s behind"));
        }
        // What is older than any clock is wrong is not read again.
        let (_, report) = run(&lab, &BACKUP, Clock::Right, "unchanged");
        assert_eq!(report["bytes_read"] == 0, is_trusted, "{behind} s behind: {report:#}");
    }
}

/// A mount that does not answer: the second SIGTERM ends whoever waits for it, and nothing is lost.
#[test]
fn a_mount_that_hangs_can_be_left() {
    let lab = Lab::new();
    let Some((tree, medium)) = mounts(&lab, 9) else { return };
    run(&lab, &BACKUP, Clock::Right, "without faults");
    let rounds = if soak() { 20 } else { 2 };
    for round in 0..rounds {
        let mount = if round % 2 == 0 { &tree } else { &medium };
        let before = mount.happened().hung;
        mount.fail(Faults { hangs: true, spare: 60 + 17 * (round / 2), ..Faults::default() });
        let mut command: Command = lab.command();
        command.args(BACKUP).arg("--full").stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        wait_for("a request that is not answered", || {
            mount.happened().hung > before || child.try_wait().unwrap().is_some()
        });
        let pid = rustix::process::Pid::from_child(&child);
        let begun = Instant::now();
        // The kernel keeps what waits in it for some requests until they are answered: then all else of the process is gone.
        let stat = format!("/proc/{}/stat", child.id());
        let is_gone = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        while !is_gone() && begun.elapsed() < Duration::from_secs(20) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            std::thread::sleep(Duration::from_millis(500));
        }
        let ended = is_gone();
        mount.fail(Faults::default());
        let _ = child.kill();
        child.wait().unwrap();
        assert!(ended, "round {round}: deaf to SIGTERM while a mount hangs");
        let (code, report) = run(&lab, &BACKUP, Clock::Right, "afterwards");
        assert_eq!(code, 0, "{report:#}");
        comes_back(&lab, &report, "after a mount that hung");
    }
    eprintln!("{rounds} mounts that hung were left");
}
