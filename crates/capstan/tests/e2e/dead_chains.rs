//! Chains that are dead for the most part and that prune does not consolidate by itself: it is said while backups have room, and what is
//! advised helps when it is followed once.

use std::process::{Command, Stdio};

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::full::offered;
use crate::support::{Lab, Mount, below, can_mount, finish, free_bytes, noise, skip, soak};
use crate::tape::library_of;

/// Bytes of each file of the source.
const FILE: usize = 300_000;
/// Files of the source.
const FILES: u64 = 20;
/// Files that change each night.
const CHANGES: u64 = 7;

/// A lab with small file systems, and a source that is backed up each night.
struct Nights {
    lab: Lab,
    /// Unmounted before the lab is removed.
    mounts: Vec<Mount>,
    night: u64,
}

impl Drop for Nights {
    fn drop(&mut self) {
        self.mounts.clear();
    }
}

impl Nights {
    /// Disks with so many MB each.
    fn new(lab: Lab, disks: &[(&str, u64)], to: &str, more: &str) -> Option<Self> {
        if !can_mount() {
            skip("nothing can be mounted here");
            return None;
        }
        let mount = |(name, mb): &(&str, u64)| {
            let size = format!("size={mb}M");
            Mount::new(&["-t", "tmpfs", "-o", &size, "tmpfs"], &lab.path(name))
        };
        let mounts = disks.iter().map(mount).collect();
        for file in 0..FILES {
            lab.file(&format!("tree/{file}"), noise(file, FILE));
        }
        let nights = Self { lab, mounts, night: 0 };
        nights.specify(to, more);
        Some(nights)
    }

    fn specify(&self, to: &str, more: &str) {
        let place = |of: &str| match of.strip_prefix("pool:") {
            Some(_) => of.to_owned(),
            None => self.lab.path(of).display().to_string(),
        };
        let spec = format!(
            "device = {:?}\n[[object]]\nname = \"t\"\npaths = [{:?}]\n{}[keep]\nlast = 3\n",
            place(to),
            self.lab.path("tree"),
            more.replace("LAB", &self.lab.path("").display().to_string())
        );
        self.lab.file("spec.toml", spec);
    }

    /// A night: the code, what was pruned, and all that was said.
    fn pass(&mut self) -> (i32, Value, String) {
        self.pass_with(|_| ())
    }

    fn pass_with(&mut self, with: impl Fn(&mut Command)) -> (i32, Value, String) {
        self.change();
        let mut command = self.lab.command();
        with(&mut command);
        let run = finish(command.args(["run", "spec.toml", "--json"]));
        let report: Value = serde_json::from_str(&run.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}{}", run.stdout, run.stderr));
        (run.code, report["pruned"].clone(), run.stdout + &run.stderr)
    }

    fn change(&mut self) {
        self.night += 1;
        for n in 0..CHANGES {
            let file = (self.night * CHANGES + n) % FILES;
            self.lab.file(&format!("tree/{file}"), noise(1000 * self.night + file, FILE));
        }
    }

    /// A night that builds on the last one wherever that lies: what the prune said.
    fn pass_incr(&mut self, to: &str) -> (i32, String) {
        self.change();
        let tree = self.lab.path("tree").display().to_string();
        self.lab.backed_up([&tree, "--to", to, "--name", "t", "--incr"]);
        let run = self.lab.run(["prune", "--keep-last", "3"]);
        (run.code, run.stdout + &run.stderr)
    }

    /// Nights until one does not go well: what that said.
    fn until_said(&mut self, mut night: impl FnMut(&mut Self) -> (i32, String)) -> String {
        loop {
            let (code, said) = night(self);
            if code != 0 {
                assert_eq!(code, 3, "{said}");
                return said;
            }
            self.lab.run(["status"]).ok();
            assert!(self.night < 60, "nothing is said");
        }
    }

    /// So many nights, each of which goes well, with what follows it. Returns how many fulls were made.
    fn go_well(&mut self, nights: u64, then: impl Fn(&Self)) -> usize {
        let mut fulls = 0;
        for _ in 0..nights {
            let (code, pruned, said) = self.pass();
            assert_eq!(code, 0, "night {}: {said}", self.night);
            fulls += pruned["consolidated"].as_array().unwrap().len();
            assert_eq!(offered(&self.lab, "t").len() as u64, self.night.min(3));
            then(self);
            self.lab.run(["status"]).ok();
        }
        fulls
    }

    fn free(&self, disk: &str) -> u64 {
        free_bytes(&self.lab.path(disk))
    }

    fn comes_back(&self) {
        self.comes_back_to(&self.lab);
    }

    fn comes_back_to(&self, home: &Lab) {
        home.restored(["t", "--into", "out"]);
        let tree = self.lab.path("tree");
        same_by_rsync(&tree, &below(&home.path("out"), &tree));
        std::fs::remove_dir_all(home.path("out")).unwrap();
    }

    /// What a medium alone gives back, to a home that knows no other.
    fn comes_back_from(&self, medium: &str) {
        let home = Lab::new();
        home.run(["import", &self.lab.path(medium).display().to_string()]).ok();
        self.comes_back_to(&home);
    }
}

/// The first command of what was said that begins so, without the program's name.
fn advised(said: &str, begins: &str) -> Vec<String> {
    let all = said.split('`').skip(1).step_by(2);
    let command = all.filter_map(|c| c.strip_prefix("capstan ")).find(|c| c.starts_with(begins));
    let command = command.unwrap_or_else(|| panic!("no `capstan {begins}` in: {said}"));
    command.replace("DIRECTORY", "elsewhere").split(' ').map(str::to_owned).collect()
}

/// Without a key prune cannot say what is dead. That is said long before the disk is full; with the key it makes the room itself.
#[test]
fn a_key_that_prune_lacks_is_said_before_the_disk_is_full() {
    let lab = Lab::with_passphrase(Some("correct horse battery staple"));
    let Some(mut nights) = Nights::new(lab, &[("disk", 45)], "disk/medium", "") else { return };
    let said = nights.until_said(|nights| {
        let (code, _, said) = nights.pass_with(|command| {
            command.env_remove("CAPSTAN_PASSPHRASE").stdin(Stdio::null());
        });
        (code, said)
    });
    assert!(nights.free("disk") > 15_000_000, "night {}: {said}", nights.night);
    let status = nights.lab.run(["status"]);
    assert_ne!(status.code, 0);
    for word in ["not-consolidated", "prune was given no key", "CAPSTAN_KEY_FILE", "more backups"] {
        assert!(said.contains(word), "'{word}' is not in: {said}");
        assert!(status.stdout.contains(word), "'{word}' is not in: {}", status.stdout);
    }
    // As it says.
    let mut fulls = 0;
    for _ in 0..20 {
        let (code, pruned, said) = nights.pass();
        assert_eq!(code, 0, "night {}: {said}", nights.night);
        fulls += pruned["consolidated"].as_array().unwrap().len();
        nights.lab.run(["status"]).ok();
    }
    assert!(fulls > 0);
    nights.comes_back();
}

/// The first nights lie on another disk. What is advised is enough when it is done once, whatever the rules keep.
#[test]
fn a_chain_on_two_disks_goes_after_one_full_as_advised() {
    let disks = [("disk", 45)];
    let Some(mut nights) = Nights::new(Lab::new(), &disks, "disk/medium", "") else { return };
    nights.pass_incr("old");
    nights.pass_incr("old");
    let mut said = nights.until_said(|nights| nights.pass_incr("disk/medium"));
    assert!(nights.free("disk") > 15_000_000, "night {}: {said}", nights.night);
    let status = nights.lab.run(["status"]);
    assert_ne!(status.code, 0);
    for word in ["not-consolidated", "more backups", "prune makes no room there", "consolidate t@"]
    {
        assert!(said.contains(word), "'{word}' is not in: {said}");
        assert!(status.stdout.contains(word), "'{word}' is not in: {}", status.stdout);
    }
    // It is said each night, and the last of it helps.
    while nights.free("disk") > 11_500_000 {
        let (code, now) = nights.pass_incr("disk/medium");
        assert_eq!(code, 3, "{now}");
        said = now;
    }
    let free = nights.free("disk");
    nights.lab.run(advised(&said, "consolidate")).ok();
    let (code, said) = nights.pass_incr("disk/medium");
    assert_eq!(code, 0, "{said}");
    // All but the nights that are kept came back.
    assert!(nights.free("disk") > free + 15_000_000, "{free} {}: {said}", nights.free("disk"));
    assert_eq!(offered(&nights.lab, "t").len(), 3);
    nights.lab.run(["status"]).ok();
    nights.comes_back();
    nights.lab.run(["verify", "t"]).ok();
    nights.lab.run(["idb", "check"]).ok();
}

/// A full that was made on one disk alone: the copy of what builds on it keeps all that it needs, until the full is there too.
#[test]
fn a_copy_keeps_what_it_needs_until_it_has_the_full() {
    let Some(mut nights) = Nights::new(Lab::new(), &[], "first", "") else { return };
    let copy = |nights: &Nights| nights.lab.run(["copy", "t", "--to", "off"]).ok().code;
    for _ in 0..5 {
        let (code, _, said) = nights.pass();
        assert_eq!(code, 0, "{said}");
        copy(&nights);
    }
    nights.comes_back_from("off");
    let sessions = offered(&nights.lab, "t");
    assert_eq!(sessions.len(), 3);
    let oldest = format!("t@{}", &sessions[2][..8]);
    nights.lab.run(["consolidate", &oldest, "--to", "third"]).ok();
    let prune = |nights: &Nights| -> Value {
        let run = nights.lab.run(["prune", "t", "--keep-last", "2", "--json"]);
        serde_json::from_str(&run.ok().stdout).unwrap()
    };
    let dry = nights.lab.run(["prune", "t", "--keep-last", "2", "--json", "--dry-run"]);
    let dry: Value = serde_json::from_str(&dry.ok().stdout).unwrap();
    let done = prune(&nights);
    // Newer versions build on it, and both disks still have all that these need.
    assert_eq!(done["pending"].as_array().map(Vec::len), Some(2), "{done:#}");
    assert_eq!(dry["pending"], done["pending"], "{dry:#}{done:#}");
    let advice = format!("capstan copy t@{}", &sessions[1][..8]);
    assert!(done["pending"].to_string().contains(&advice), "{advice} {done:#}");
    nights.comes_back();
    for medium in ["off", "first"] {
        nights.comes_back_from(medium);
    }
    // A copy brings the full there, and then the old chain goes from there. The other disk has none.
    copy(&nights);
    let done = prune(&nights);
    assert!(done["freed_bytes"].as_u64() > Some(10_000_000), "{done:#}");
    assert_eq!(done["pending"].as_array().map(Vec::len), Some(0), "{done:#}");
    nights.comes_back();
    nights.comes_back_from("off");
    nights.lab.run(["verify", "t"]).ok();
    nights.lab.run(["idb", "check"]).ok();
}

/// Of a tape no part is given back, so a full takes no place of what has a copy there: a full backup begins a new chain.
#[test]
fn where_a_tape_has_a_copy_a_full_backup_is_advised() {
    let disks = [("disk", 45)];
    let Some(mut nights) = Nights::new(Lab::new(), &disks, "disk/medium", "") else { return };
    Library::create(&nights.lab.path("vtl"), &library_of(1, 4), 4).unwrap();
    let said = nights.until_said(|nights| {
        let (code, _, said) = nights.pass();
        nights.lab.run(["copy", "t", "--to", "vtape:vtl"]).ok();
        (code, said)
    });
    assert!(nights.free("disk") > 15_000_000, "night {}: {said}", nights.night);
    for word in ["not-consolidated", "more backups", "capstan backup --full"] {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
    let tree = nights.lab.path("tree").display().to_string();
    nights.lab.backed_up([&tree, "--to", "disk/medium", "--name", "t", "--full"]);
    let free = nights.free("disk");
    for _ in 0..3 {
        nights.pass();
    }
    assert!(nights.free("disk") > free, "{free} {}", nights.free("disk"));
    nights.lab.run(["status"]).ok();
    nights.comes_back();
}

/// A chain over the disks of a pool becomes one full on them.
#[test]
fn a_chain_over_the_disks_of_a_pool_goes_when_it_is_dead() {
    let disks = [("d1", 24), ("d2", 24), ("d3", 24)];
    let Some(mut nights) = Nights::new(Lab::new(), &disks, "pool:p", "") else { return };
    nights.lab.run(["pool", "create", "p"]).ok();
    for disk in ["d1", "d2", "d3"] {
        let medium = nights.lab.path(disk).join("m").display().to_string();
        nights.lab.run(["media", "init", &medium, "--pool", "p", "--label", disk]).ok();
    }
    let fulls = nights.go_well(if soak() { 200 } else { 40 }, |_| ());
    assert!(fulls > 1, "{fulls}");
    nights.comes_back();
    nights.lab.run(["verify", "t"]).ok();
    nights.lab.run(["idb", "check"]).ok();
}

/// Each of two disks has all, always: the mirror gets the new full before its chain goes.
#[test]
fn a_mirror_gets_the_new_full_and_gives_back_its_chain() {
    let disks = [("disk", 45), ("off", 60)];
    let mirror = "mirror = \"LAB/off/m\"\n";
    let Some(mut nights) = Nights::new(Lab::new(), &disks, "disk/m", mirror) else { return };
    let both = |nights: &Nights| ["disk/m", "off/m"].iter().for_each(|m| nights.comes_back_from(m));
    let fulls = nights.go_well(if soak() { 100 } else { 16 }, both);
    assert!(fulls > 1, "{fulls}");
    nights.comes_back();
    nights.lab.run(["verify", "t"]).ok();
    nights.lab.run(["idb", "check"]).ok();
}

/// The same of a disk that gets a copy each night.
#[test]
fn a_disk_with_copies_gets_the_new_full_and_gives_back_its_chain() {
    let disks = [("disk", 45), ("off", 60)];
    let Some(mut nights) = Nights::new(Lab::new(), &disks, "disk/m", "") else { return };
    let fulls = nights.go_well(if soak() { 100 } else { 16 }, |nights| {
        nights.lab.run(["copy", "t", "--to", "off/m"]).ok();
        nights.comes_back_from("off/m");
    });
    assert!(fulls > 1, "{fulls}");
    nights.comes_back();
    nights.lab.run(["verify", "t"]).ok();
    nights.lab.run(["idb", "check"]).ok();
}
