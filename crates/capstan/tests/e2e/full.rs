//! Full media: what prune does where a consolidation has no room, and what a dry run says before.

use std::path::Path;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Mount, below, can_mount, finish, free_bytes, noise, skip};

/// The backups of an object that are offered, by session: those that were not given up.
pub fn offered(lab: &Lab, name: &str) -> Vec<String> {
    let sessions = lab.run(["sessions", "--json"]).ok().stdout.clone();
    let sessions = sessions.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_offered = |s: &Value| {
        s["name"] == name
            && s["kind"] == "backup"
            && s["status"] == "completed"
            && s["expired"].is_null()
            && s["removed"] == false
    };
    sessions.filter(is_offered).map(|s| s["id"].as_str().unwrap().to_owned()).collect()
}

/// The newest version of an object comes back as its tree is.
fn comes_back(lab: &Lab, name: &str) {
    lab.restored([name, "--into", "out"]);
    let tree = lab.path(format!("tree-{name}"));
    same_by_rsync(&tree, &below(&lab.path("out"), &tree));
    std::fs::remove_dir_all(lab.path("out")).unwrap();
}

/// A lab with a small file system at `disk`; what cannot be mounted is said.
struct Small {
    lab: Lab,
    /// Unmounted before the lab is removed.
    mount: Option<Mount>,
}

impl Drop for Small {
    fn drop(&mut self) {
        self.mount.take();
    }
}

impl Small {
    fn new() -> Option<Self> {
        if !can_mount() {
            skip("nothing can be mounted here");
            return None;
        }
        let lab = Lab::new();
        let mount = Mount::new(&["-t", "tmpfs", "-o", "size=80M", "tmpfs"], &lab.path("disk"));
        Some(Self { lab, mount: Some(mount) })
    }

    /// Leaves so many bytes free.
    fn fill(&self, free: u64) {
        let len = free_bytes(&self.lab.path("disk")) - free;
        self.lab.sh(&format!("fallocate -l {len} disk/filler"));
    }
}

/// Backs up an object `days` times: what stays, and what changes each day, in bytes.
fn days(lab: &Lab, name: &str, days: u64, stays: usize, changes: usize) {
    let seed = 1000 * name.bytes().map(u64::from).sum::<u64>();
    let tree = format!("tree-{name}");
    lab.file(&format!("{tree}/stays"), noise(seed, stays));
    lab.sh(&format!("seq 1 3000 >{tree}/text"));
    for i in 0..30 {
        lab.file(&format!("{tree}/small/{i}"), noise(seed + 100 + i, 700));
    }
    for day in 0..days {
        lab.file(&format!("{tree}/changes"), noise(seed + 500 + day, changes));
        lab.backed_up([tree.as_str(), "--to", "disk/medium", "--name", name, "--incr"]);
    }
}

fn prune(lab: &Lab, args: &[&str]) -> (i32, Value, String) {
    let run = finish(lab.command().args(["prune", "--keep-last", "1", "--json"]).args(args));
    let json = serde_json::from_str(&run.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", run.stdout, run.stderr));
    (run.code, json, run.stderr)
}

/// Whether two numbers of bytes are the same but for one in a hundred of `whole`.
fn near(a: &Value, b: &Value, whole: &Value) {
    let [a, b, whole] = [a, b, whole].map(|v| v.as_u64().unwrap());
    assert!(a.abs_diff(b) <= whole / 100, "{a} and {b} of {whole}");
}

/// What a dry run said is what was done.
fn as_foreseen(foreseen: &Value, done: &Value) {
    near(&foreseen["freed_bytes"], &done["freed_bytes"], &done["freed_bytes"]);
    assert_eq!(foreseen["removed_segments"], done["removed_segments"], "{foreseen:#}{done:#}");
    assert_eq!(foreseen["removed_versions"], done["removed_versions"], "{foreseen:#}{done:#}");
    let of = |v: &Value| v["consolidated"].as_array().unwrap().clone();
    let (foreseen, made) = (of(foreseen), of(done));
    assert_eq!(foreseen.len(), made.len(), "{foreseen:#?}{made:#?}");
    for (a, b) in foreseen.iter().zip(&made) {
        assert_eq!(a["base_session"], b["base_session"]);
        near(&a["takes_bytes"], &b["takes_bytes"], &done["freed_bytes"]);
    }
}

#[test]
fn a_chain_that_has_no_room_stays_and_the_command_that_helps_is_named() {
    let Some(small) = Small::new() else { return };
    let lab = &small.lab;
    days(lab, "t", 10, 4_000_000, 1_500_000);
    // What needs no room goes all the same.
    lab.backed_up(["tree-t/small", "--to", "disk/medium", "--name", "o"]);
    lab.backed_up(["tree-t/small", "--to", "disk/medium", "--name", "o", "--full"]);
    let before = offered(lab, "t");
    assert_eq!(before.len(), 10);
    small.fill(3_000_000);
    let (code, foreseen, _) = prune(lab, &["--dry-run"]);
    assert_eq!(code, 3, "{foreseen:#}");
    let (code, done, said) = prune(lab, &[]);
    assert_eq!(code, 3, "{done:#}");
    as_foreseen(&foreseen, &done);
    assert_eq!(done["removed_versions"], 1, "{done:#}");
    for word in ["warning", "not-consolidated", "are to be free on", "capstan consolidate t@"] {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
    assert!(done["versions"].as_array().unwrap().iter().all(|v| v["action"] != "mark"), "{done:#}");
    assert_eq!(offered(lab, "t"), before, "the chain is as it was");
    // As the warning says.
    let (_, _, said) = prune(lab, &[]);
    let command = said.split('`').nth(1).unwrap();
    let command = command.strip_prefix("capstan ").unwrap().replace("DIRECTORY", "elsewhere");
    lab.run(command.split(' ')).ok();
    let (code, foreseen, _) = prune(lab, &["--dry-run"]);
    assert_eq!(code, 0, "{foreseen:#}");
    let (code, done, said) = prune(lab, &[]);
    assert_eq!(code, 0, "{done:#}{said}");
    as_foreseen(&foreseen, &done);
    assert_eq!((&done["removed_versions"], offered(lab, "t").len()), (&9.into(), 1), "{done:#}");
    assert!(done["freed_bytes"].as_u64() > Some(17_000_000), "{done:#}");
    // There is room for the next backup, which goes on with the chain.
    lab.file("tree-t/new", "new");
    let args = ["tree-t", "--to", "disk/medium", "--name", "t", "--incr"];
    assert_eq!(lab.backed_up(args)["method"], "incr");
    comes_back(lab, "t");
    lab.run(["verify", "t"]).ok();
    lab.run(["idb", "check"]).ok();
    assert_eq!(prune(lab, &[]).1["removed_versions"], 0);
}

/// What takes little goes first, and gives back what the next one needs.
#[test]
fn consolidations_go_one_by_one_where_all_at_once_have_no_room() {
    let Some(small) = Small::new() else { return };
    let lab = &small.lab;
    days(lab, "large", 8, 10_000_000, 3_000_000);
    days(lab, "small", 8, 600_000, 1_200_000);
    // Either is done with that, but not both.
    small.fill(12_000_000);
    let (_, foreseen, _) = prune(lab, &["--dry-run"]);
    let (code, done, said) = prune(lab, &[]);
    assert_eq!(code, 0, "{done:#}{said}");
    as_foreseen(&foreseen, &done);
    assert_eq!(done["consolidated"].as_array().map(Vec::len), Some(2), "{done:#}");
    assert_eq!(done["consolidated"][0]["name"], "small");
    assert_eq!(done["removed_versions"], 14, "{done:#}");
    ["large", "small"].iter().for_each(|name| comes_back(lab, name));
    lab.run(["idb", "check"]).ok();
}

#[test]
fn another_medium_of_the_pool_takes_what_has_no_room() {
    let Some(small) = Small::new() else { return };
    let lab = &small.lab;
    lab.run(["pool", "create", "disks"]).ok();
    lab.run(["media", "init", "disk/medium", "--pool", "disks"]).ok();
    lab.run(["media", "init", "other", "--pool", "disks"]).ok();
    days(lab, "t", 10, 4_000_000, 1_500_000);
    small.fill(3_000_000);
    let (code, done, said) = prune(lab, &[]);
    assert_eq!(code, 0, "{done:#}{said}");
    assert_eq!(done["removed_versions"], 9, "{done:#}");
    assert!(has_segments(&lab.path("other")));
    comes_back(lab, "t");
    lab.run(["verify", "t"]).ok();
}

fn has_segments(medium: &Path) -> bool {
    let names = std::fs::read_dir(medium).unwrap().map(|e| e.unwrap().file_name());
    names.into_iter().any(|name| name.to_string_lossy().ends_with(".segment"))
}
