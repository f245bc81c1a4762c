//! Hosts that share one database: each has disks and objects of its own, and disks that both have.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::server::{Server, write_settings};
use crate::support::{Lab, Run, can_mount, finish, noise, report, skip};

/// Two homes of one cell, each of a host with another name, which have a directory each at the same path.
struct Hosts {
    lab: Lab,
    url: String,
}

/// A host: its name, its home, and the directory that it has as `disk`.
type Host = (&'static str, &'static str, &'static str);

const ALPHA: Host = ("alpha", "home", "disk-a");
const BETA: Host = ("beta", "home-2", "disk-b");
/// What `status` ends with where somebody must look.
const CRITICAL: i32 = 6;
/// The same host without its disk.
const ALPHA_BARE: Host = ("alpha", "home", "nothing");

impl Hosts {
    /// `None` where nobody may give this machine another name for a while.
    fn new() -> Option<Self> {
        if !can_mount() {
            skip("name spaces cannot be made here");
            return None;
        }
        let lab = Lab::new();
        let url = Server::shared().new_database();
        for home in ["home", "home-2"] {
            write_settings(&lab.path(home), &format!("database = \"{url}\"\n"));
        }
        lab.file("tree/a", noise(1, 100_000));
        for dir in ["disk", "disk-a", "disk-b", "nothing"] {
            lab.mkdir(dir);
        }
        let hosts = Self { lab, url };
        hosts.on(ALPHA, &["media", "list"]).ok();
        hosts.lab.sh("cp home/postgres.cell home-2");
        Some(hosts)
    }

    fn sql(&self, statement: &str) {
        Server::shared().sql(crate::server::name_of(&self.url), statement);
    }

    fn on(&self, (name, home, disk): Host, args: &[&str]) -> Run {
        let mut command = self.lab.program("unshare");
        let script =
            "echo \"$0\" >/proc/sys/kernel/hostname; mount --bind \"$1\" disk; shift; exec \"$@\"";
        command.args(["-u", "-m", "bash", "-euc", script, name, disk]);
        command.arg(env!("CARGO_BIN_EXE_capstan")).args(args);
        command.env("CAPSTAN_HOME", self.lab.path(home));
        finish(&mut command)
    }

    fn backup(&self, host: Host, name: &str) -> Value {
        let args = ["backup", "--json", "tree", "--to", "disk", "--name", name, "--full"];
        let report = report(self.on(host, &args));
        assert_eq!(report["status"], "completed", "{report:#}");
        report
    }

    fn media(&self, host: Host) -> Vec<Value> {
        let list = self.on(host, &["media", "list", "--json"]).ok().json_lines();
        list.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn versions(&self, name: &str) -> usize {
        let list = self.on(ALPHA, &["sessions", "--kind", "all", "--json"]).ok().json_lines();
        let is_there =
            |s: &Value| s["name"] == name && s["kind"] == "backup" && s["removed"] == false;
        list.lines().filter(|l| is_there(&serde_json::from_str(l).unwrap())).count()
    }

    fn files(&self, disk: &str) -> usize {
        self.lab.sh(&format!("ls {disk} | wc -l")).trim().parse().unwrap()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        Server::shared().drop_database(&self.url);
    }
}

#[test]
fn each_host_watches_over_its_own_disk() {
    let Some(hosts) = Hosts::new() else { return };
    for _ in 0..2 {
        hosts.backup(ALPHA, "a");
        hosts.backup(BETA, "b");
    }
    for host in [ALPHA, BETA] {
        hosts.on(host, &["status"]).ok();
        hosts.on(host, &["idb", "check"]).ok();
    }
    let list = hosts.media(ALPHA);
    let of = |host: &str| list.iter().find(|m| m["host"] == host).unwrap();
    assert_eq!((&of("alpha")["at_hand"], &of("beta")["at_hand"]), (&true.into(), &false.into()));
    let label = of("beta")["label"].as_str().unwrap();
    let shown = hosts.on(ALPHA, &["media", "show", label]).ok().stdout.clone();
    assert!(shown.contains("Host") && shown.contains("beta"), "{shown}");
    let list = hosts.on(ALPHA, &["media", "list"]).ok().stdout.clone();
    assert!(list.contains("host 'beta' has it") && !list.contains("'alpha'"), "{list}");
    // What the other one has is to be read there.
    let there = ["host 'beta'", label];
    hosts.on(ALPHA, &["restore", "b", "--into", "out"]).refused(&there);
    hosts.on(ALPHA, &["verify", "--medium", label]).refused(&there);
    hosts.on(ALPHA, &["media", "recycle", label]).refused(&there);
    // What the other one has, that one decides on.
    let before = (hosts.files("disk-a"), hosts.files("disk-b"));
    let pruned = hosts.on(ALPHA, &["prune", "--keep-last", "1"]).ok().stdout.clone();
    assert!(pruned.contains("host 'beta' decides on it"), "{pruned}");
    assert!(hosts.files("disk-a") < before.0 && hosts.files("disk-b") == before.1, "{pruned}");
    assert_eq!((hosts.versions("a"), hosts.versions("b")), (1, 2));
    hosts.on(BETA, &["prune", "--keep-last", "1"]).ok();
    assert!(hosts.files("disk-b") < before.1);
    assert_eq!((hosts.versions("a"), hosts.versions("b")), (1, 1));
    hosts.on(BETA, &["restore", "b", "--into", "out"]).ok();
}

#[test]
fn a_host_alarms_when_its_own_disk_is_away() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.backup(ALPHA, "a");
    hosts.backup(BETA, "b");
    let status = hosts.on(ALPHA_BARE, &["status"]);
    assert_eq!(status.code, CRITICAL, "{}{}", status.stdout, status.stderr);
    assert!(status.stdout.contains("is not in file:"), "{}", status.stdout);
    assert_eq!(hosts.on(ALPHA_BARE, &["prune", "--keep-last", "1"]).code, 3);
    hosts.on(ALPHA_BARE, &["backup", "tree", "--to", "disk"]).refused(&["is known to be in"]);
    hosts.on(BETA, &["status", "b"]).ok();
    // One that was cut is changed for its host, and for all that ask.
    hosts.lab.sh("find disk-b -type f -size +50k -delete");
    assert_eq!(hosts.on(BETA, &["status"]).code, CRITICAL);
    assert_eq!(hosts.on(ALPHA, &["status"]).code, CRITICAL);
}

#[test]
fn another_host_gives_nothing_up_of_an_object_whose_disk_is_away_on_its_host() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.backup(ALPHA, "a");
    hosts.backup(ALPHA, "a");
    hosts.backup(BETA, "b");
    // It is away, and two more nights go to another disk.
    let stand_in = ["backup", "tree", "--to", "stand-in", "--name", "a", "--full"];
    for _ in 0..2 {
        hosts.on(ALPHA_BARE, &stand_in).ok();
    }
    assert_eq!(hosts.on(ALPHA_BARE, &["prune", "--keep-last", "2"]).code, 3);
    for more in [
        &["--keep-last", "2"][..],
        &["a", "--keep-last", "1"],
        &["--host", "alpha", "--keep-last", "1"],
    ] {
        hosts.on(BETA, &["status"]).ok();
        hosts.on(BETA, &[&["prune"], more].concat()).ok();
        assert_eq!(hosts.versions("a"), 4, "{more:?}");
        // The alarm stays as long as it is away.
        assert_eq!(hosts.on(ALPHA_BARE, &["status"]).code, 5);
    }
    // Once it is there again, its host decides on all of them.
    hosts.on(ALPHA, &["prune", "--keep-last", "4"]).ok();
    assert_eq!(hosts.versions("a"), 4);
    hosts.on(ALPHA, &["prune", "--keep-last", "3"]).ok();
    assert_eq!(hosts.versions("a"), 3);
    // Who gives it up by its name and host means it.
    hosts.on(BETA, &["prune", "a", "--give-up", "--host", "alpha"]).ok();
    hosts.on(ALPHA, &["prune"]).ok();
    assert_eq!(hosts.versions("a"), 0);
}

#[test]
fn a_disk_that_both_hosts_have_is_one_medium() {
    let Some(hosts) = Hosts::new() else { return };
    const BETA_TOO: Host = ("beta", "home-2", "disk-a");
    hosts.backup(ALPHA, "a");
    hosts.backup(BETA_TOO, "b");
    assert_eq!(hosts.media(ALPHA).len(), 1);
    for host in [ALPHA, BETA_TOO] {
        hosts.on(host, &["status"]).ok();
        hosts.on(host, &["restore", "b", "--into", host.0]).ok();
        hosts.on(host, &["prune", "--keep-last", "1"]).ok();
    }
    // The one that did not write last knows the place too.
    hosts.on(ALPHA_BARE, &["backup", "tree", "--to", "disk"]).refused(&["is known to be in"]);
    hosts.backup(ALPHA, "a");
    hosts.backup(BETA_TOO, "b");
}

#[test]
fn media_of_before_are_everybodys() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.backup(ALPHA, "a");
    hosts.sql("UPDATE media SET hosts = NULL");
    assert_eq!(hosts.on(BETA, &["status"]).code, CRITICAL);
    hosts.on(BETA, &["backup", "tree", "--to", "disk"]).refused(&["is known to be in"]);
    hosts.backup(ALPHA, "a");
    hosts.on(BETA, &["status", "a"]).ok();
    hosts.backup(BETA, "b");
}

#[test]
fn a_name_means_the_object_of_this_host_first() {
    let Some(hosts) = Hosts::new() else { return };
    const BETA_TOO: Host = ("beta", "home-2", "disk-a");
    let first = hosts.backup(ALPHA, "t")["end"].as_str().unwrap().to_owned();
    hosts.lab.file("tree/a", "of beta");
    hosts.backup(BETA_TOO, "t");
    let restored = |host: Host, into: &str, as_of: &[&str]| {
        let args = [&["restore", "t", "--into", into], as_of].concat();
        hosts.on(host, &args).ok();
        hosts.lab.sh(&format!("cat $(find {into} -name a)")) == "of beta"
    };
    assert!(!restored(ALPHA, "out-a", &[]), "another host's is newer");
    assert!(restored(BETA_TOO, "out-b", &[]));
    // A host that has none of that name, or none of that time, means another one's.
    assert!(restored(("gamma", "home", "disk-a"), "out-c", &[]));
    assert!(!restored(BETA_TOO, "out-d", &["--as-of", &first]));
}

#[test]
fn what_another_host_has_is_read_from_its_copy_here() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.backup(BETA, "b");
    hosts.on(BETA, &["copy", "b", "--to", "copies"]).ok();
    // As one that both see.
    let report = report(hosts.on(ALPHA, &["restore", "--json", "b", "--into", "out"]));
    assert_eq!((&report["status"], &report["media"][0]), (&"completed".into(), &"copies".into()));
    assert_eq!(hosts.media(ALPHA).iter().filter(|m| m["at_hand"] == true).count(), 1);
    // Of a pool, each host stages its own disks.
    hosts.on(BETA, &["pool", "create", "disks"]).ok();
    hosts.on(BETA, &["media", "move", "disk", "--pool", "disks"]).ok();
    let pool = ["stage", "pool:disks", "--to", "copies"];
    hosts.on(ALPHA, &pool).refused(&["pool 'disks'", "of this host"]);
    hosts.backup(ALPHA, "a");
    hosts.on(BETA, &["media", "move", "disk-2", "--pool", "disks"]).ok();
    hosts.on(ALPHA, &pool).ok();
    hosts.on(BETA, &pool).ok();
}

#[test]
fn an_object_of_another_host_is_given_up_by_its_host() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.backup(ALPHA, "t");
    hosts.backup(BETA, "t");
    hosts.backup(BETA, "only");
    assert_eq!(hosts.versions("t"), 2);
    hosts.on(ALPHA, &["prune", "only", "--give-up"]).refused(&["'beta'", "--host"]);
    hosts.on(ALPHA, &["prune", "t", "--give-up"]).ok();
    assert_eq!(hosts.versions("t"), 1);
    hosts.on(BETA, &["restore", "t", "--into", "out"]).ok();
    hosts.on(ALPHA, &["prune", "t", "--give-up"]).ok();
    assert_eq!(hosts.versions("t"), 1);
    hosts.on(BETA, &["prune", "t", "--give-up", "--host", "nobody"]).refused(&["'nobody'"]);
    hosts.on(ALPHA, &["prune", "t", "--give-up", "--host", "beta"]).ok();
    hosts.on(BETA, &["prune", "--host", "beta", "--keep-last", "1"]).ok();
    assert_eq!((hosts.versions("t"), hosts.versions("only")), (0, 1));
}

#[test]
fn hosts_at_once_give_no_label_twice() {
    let Some(hosts) = Hosts::new() else { return };
    let init = |n: usize| {
        let home = if n.is_multiple_of(2) { "home" } else { "home-2" };
        let mut command = hosts.lab.command();
        command.env("CAPSTAN_HOME", hosts.lab.path(home)).stdout(Stdio::null());
        let at: PathBuf = hosts.lab.path(format!("many/{n}/same"));
        std::fs::create_dir_all(&at).unwrap();
        command.stderr(Stdio::piped()).args(["media", "init"]).arg(at).spawn().unwrap()
    };
    let children: Vec<_> = (0..12).map(init).collect();
    for child in children {
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let media = hosts.media(ALPHA);
    let labels: BTreeSet<&str> = media.iter().filter_map(|m| m["label"].as_str()).collect();
    assert_eq!((media.len(), labels.len()), (12, 12), "{labels:?}");
}

#[test]
fn each_host_lists_its_own_disks_to_vault_and_to_fetch() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.on(ALPHA, &["pool", "create", "off", "--not-appendable", "--vault", "bank"]).ok();
    let label = hosts.backup(ALPHA, "a")["media"][0].as_str().unwrap().to_owned();
    hosts.on(ALPHA, &["media", "move", &label, "--pool", "off"]).ok();
    let lists = |host: Host| {
        let run = hosts.on(host, &["media", "vault", "--json"]).ok().stdout.clone();
        let all: Value = serde_json::from_str(&run).unwrap();
        ["to_vault", "to_fetch"].map(|name| all[name].as_array().unwrap().len())
    };
    assert_eq!((lists(ALPHA), lists(BETA)), ([1, 0], [0, 0]));
    hosts.on(ALPHA, &["media", "protect", &label, "--none"]).ok();
    hosts.on(ALPHA, &["media", "recycle", &label, "--give-up"]).ok();
    hosts.on(ALPHA, &["media", "export", &label]).ok();
    assert_eq!((lists(ALPHA_BARE), lists(BETA)), ([0, 1], [0, 0]));
}
