//! The unit's rights are enough for what a backup needs. There is no systemd here: the rights are taken away as it takes them
//! away, and the system calls that are made are held against those that it refuses.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::compare::same_by_rsync;
use crate::package::sources;
use crate::support::{Lab, below, finish, is_root, noise, skip};

/// The values of a key of the unit, all its lines together.
fn values(key: &str) -> Vec<String> {
    let unit = fs::read_to_string(sources().join("packaging/capstan@.service")).unwrap();
    let lines = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// What only root reads, of several users, and a command as another user.
fn prepare(lab: &Lab) -> String {
    lab.sh(
        "mkdir -p tree/shut; echo secret >tree/shut/file; echo of-bin >tree/bin; chown bin: tree/bin tree/shut
         chmod 0 tree/bin tree/shut tree/shut/file; setfattr -n trusted.mark -v 1 tree/bin
         mkdir medium; chown bin: medium; chmod 700 medium",
    );
    lab.file("tree/more", noise(1, 3_000_000));
    let text = "device = \"LAB/medium\"\n[options]\nlock-files = true\n\
                [[object]]\nname = \"tree\"\npaths = [\"LAB/tree\"]\n\
                [[object]]\nname = \"who\"\nfrom-command = \"runuser -u nobody -- id -un\"\nstdin-name = \"who\"\n";
    let text = text.replace("LAB", lab.path("").to_str().unwrap().trim_end_matches('/'));
    lab.file("spec.toml", text).to_str().unwrap().to_owned()
}

fn comes_back(lab: &Lab) {
    let out = lab.path("out");
    lab.restored(["tree", "--into", out.to_str().unwrap()]);
    same_by_rsync(&lab.path("tree"), &below(&out, &lab.path("tree")));
    let mark = "getfattr -m - --only-values -n trusted.mark out/$PWD/tree/bin";
    assert_eq!(lab.sh(mark), "1");
    lab.restored(["who", "--into", out.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(out.join("who")).unwrap(), "nobody\n");
}

#[test]
fn a_run_needs_no_more_of_roots_rights_than_the_unit_has() {
    let lab = Lab::new();
    if !is_root() || !lab.succeeds("command -v setpriv runuser") {
        return skip("only root, with setpriv, gives rights up");
    }
    let spec = prepare(&lab);
    let rights = values("CapabilityBoundingSet");
    assert!(rights.len() > 5, "{rights:?}");
    let rights: String = rights
        .iter()
        .map(|right| format!(",+{}", right.strip_prefix("CAP_").unwrap().to_lowercase()))
        .collect();
    let mut run = lab.program("setpriv");
    run.arg("--no-new-privs").arg(format!("--bounding-set=-all{rights}")).arg("--inh-caps=-all");
    run.arg(env!("CARGO_BIN_EXE_capstan")).args(["run", &spec]);
    run.env("CAPSTAN_HOME", lab.path("home"));
    finish(&mut run).ok();
    comes_back(&lab);
}

#[test]
fn a_run_makes_no_system_call_that_the_unit_refuses() {
    let lab = Lab::new();
    if !is_root() || !lab.succeeds("command -v strace systemd-analyze runuser") {
        return skip("no strace or systemd-analyze");
    }
    let spec = prepare(&lab);
    let filter = values("SystemCallFilter");
    let groups = filter.iter().map(|group| group.trim_start_matches('~'));
    let refused: BTreeSet<String> = groups.flat_map(calls_of).collect();
    assert!(refused.contains("reboot") && refused.contains("ptrace"), "{refused:?}");
    let mut run = lab.program("strace");
    run.args(["-f", "-qq", "-o"]).arg(lab.path("trace"));
    run.arg(env!("CARGO_BIN_EXE_capstan")).args(["run", &spec]);
    run.env("CAPSTAN_HOME", lab.path("home"));
    finish(&mut run).ok();
    let trace = fs::read_to_string(lab.path("trace")).unwrap();
    let call = |line: &str| {
        let rest = line.split_once(' ')?.1.trim_start();
        let rest = rest.strip_prefix("<... ").unwrap_or(rest);
        Some(rest.split(['(', ' ']).next()?.to_owned())
    };
    let made: BTreeSet<String> = trace.lines().filter_map(call).collect();
    assert!(made.contains("openat") && made.contains("execve"), "{made:?}");
    let both: Vec<_> = made.intersection(&refused).collect();
    assert!(both.is_empty(), "{both:?}");
    comes_back(&lab);
}

/// The system calls of a group of systemd's, with those of the groups in it.
fn calls_of(group: &str) -> Vec<String> {
    let listed = finish(Command::new("systemd-analyze").args(["syscall-filter", group]));
    let lines = listed.ok().stdout.lines().skip(1).map(str::trim);
    let names = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    names.flat_map(|n| if n.starts_with('@') { calls_of(n) } else { vec![n.to_owned()] }).collect()
}
