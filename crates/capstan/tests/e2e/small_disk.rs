//! Incrementals for ever on a small disk: prune makes the new full while there is room for it, and says in time where there is none.

use std::fs::File;
use std::process::Command;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::full::offered;
use crate::support::{Lab, Mount, below, finish, loop_devices, noise, skip, soak};

/// Bytes of each file of the source.
const FILE: usize = 250_000;
/// Files of the source.
const FILES: u64 = 100;
/// Files that change each night.
const CHANGES: u64 = 4;

/// A lab with an ext4 of its own at `disk`, whose medium gets the source each night.
struct Nights {
    lab: Lab,
    /// Unmounted before the lab is removed.
    mount: Option<Mount>,
    night: u64,
}

impl Drop for Nights {
    fn drop(&mut self) {
        self.mount.take();
    }
}

impl Nights {
    fn new(disk: u64) -> Option<Self> {
        if !loop_devices() {
            skip("no loop device can be mounted here");
            return None;
        }
        let lab = Lab::new();
        File::create(lab.path("image")).unwrap().set_len(disk).unwrap();
        let made = finish(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(lab.path("image")));
        assert_eq!(made.code, 0, "{}", made.stderr);
        let image = lab.path("image").display().to_string();
        let mount = Mount::new(&["-o", "loop", &image], &lab.path("disk"));
        for file in 0..FILES {
            lab.file(&format!("tree/{file}"), noise(file, FILE));
        }
        let spec = format!(
            "device = {:?}\n[[object]]\nname = \"t\"\npaths = [{:?}]\n[keep]\nlast = 3\n",
            lab.path("disk/medium"),
            lab.path("tree")
        );
        lab.file("spec.toml", spec);
        Some(Self { lab, mount: Some(mount), night: 0 })
    }

    /// Other files change each night, until all have.
    fn change(&mut self) {
        self.night += 1;
        for n in 0..CHANGES {
            let file = (self.night * CHANGES + n) % FILES;
            self.lab.file(&format!("tree/{file}"), noise(1000 * self.night + file, FILE));
        }
    }

    /// A night: the code, what was pruned, and all that was said.
    fn pass(&mut self) -> (i32, Value, String) {
        self.change();
        let run = self.lab.run(["run", "spec.toml", "--json"]);
        let report: Value = serde_json::from_str(&run.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}{}", run.stdout, run.stderr));
        (run.code, report["pruned"].clone(), run.stdout + &run.stderr)
    }

    fn comes_back(&self) {
        self.lab.restored(["t", "--into", "out"]);
        let tree = self.lab.path("tree");
        same_by_rsync(&tree, &below(&self.lab.path("out"), &tree));
        std::fs::remove_dir_all(self.lab.path("out")).unwrap();
    }
}

/// Fulls of 25 MB on a disk of 64 MB: two fulls, what is kept, and the growth of a few nights.
#[test]
fn incrementals_for_ever_go_on_where_two_fulls_have_room() {
    let Some(mut nights) = Nights::new(68 << 20) else { return };
    let mut fulls = 0;
    for _ in 0..if soak() { 200 } else { 40 } {
        let (code, pruned, said) = nights.pass();
        assert_eq!(code, 0, "night {}: {said}", nights.night);
        fulls += pruned["consolidated"].as_array().unwrap().len();
        assert_eq!(offered(&nights.lab, "t").len() as u64, nights.night.min(3));
    }
    assert!(fulls > 1, "{fulls}");
    nights.comes_back();
    nights.lab.run(["verify", "t"]).ok();
    nights.lab.run(["idb", "check"]).ok();
    nights.lab.run(["status"]).ok();
}

/// What a dry run says is what is done, in the nights of fulls and before.
#[test]
fn a_dry_run_says_when_the_last_chance_is() {
    let Some(mut nights) = Nights::new(68 << 20) else { return };
    let mut fulls = 0;
    while fulls < 2 {
        nights.change();
        assert!(nights.night < 60, "{fulls} fulls are made");
        let tree = nights.lab.path("tree").display().to_string();
        nights.lab.backed_up([&tree[..], "--to", "disk/medium", "--name", "t"]);
        let prune = |more: &[&str]| {
            let args = ["prune", "--keep-last", "3", "--json"];
            let run = finish(nights.lab.command().args(args).args(more));
            assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
            serde_json::from_str::<Value>(&run.stdout).unwrap()
        };
        let (foreseen, done) = (prune(&["--dry-run"]), prune(&[]));
        let of = |v: &Value| v["consolidated"].as_array().unwrap().len();
        assert_eq!(of(&foreseen), of(&done), "{foreseen:#}{done:#}");
        assert_eq!(foreseen["removed_versions"], done["removed_versions"], "{foreseen:#}{done:#}");
        let bytes = |v: &Value| v["freed_bytes"].as_u64().unwrap();
        let differ = bytes(&foreseen).abs_diff(bytes(&done));
        assert!(differ <= bytes(&done) / 100, "{foreseen:#}{done:#}");
        fulls += of(&done);
    }
    nights.comes_back();
}

/// A disk that never has room for a second full: it is said as soon as anything was given up, weeks before backups fail, with what
/// lacks and the command that helps.
#[test]
fn a_disk_that_has_no_room_for_a_second_full_is_said_in_time() {
    let Some(mut nights) = Nights::new(50 << 20) else { return };
    let (code, pruned, said) = loop {
        let night = nights.pass();
        if night.0 != 0 {
            break night;
        }
        nights.lab.run(["status"]).ok();
        assert!(nights.night < 8, "nothing is said");
    };
    assert_eq!(code, 3, "{said}");
    let of = &pruned["unconsolidated"][0];
    let lacks = of["lacks_bytes"].as_u64().unwrap();
    assert!((2_000_000..20_000_000).contains(&lacks), "{of:#}");
    // All but the first full, which only what builds on it needs, is offered; and status says it too, until it was seen to.
    assert_eq!(offered(&nights.lab, "t").len() as u64, nights.night - 1);
    let status = nights.lab.run(["status"]);
    assert_ne!(status.code, 0);
    let advice = "capstan consolidate t@";
    let text = format!("{:.1} MB lack", lacks as f64 / 1e6);
    for word in ["not-consolidated", &text[..], advice] {
        assert!(status.stdout.contains(word), "'{word}' is not in: {}", status.stdout);
    }
    let command = said.split('`').find(|c| c.starts_with(advice)).expect(&said);
    let command = command.strip_prefix("capstan ").unwrap().replace("DIRECTORY", "elsewhere");
    nights.lab.run(command.split(' ')).ok();
    let (code, _, said) = nights.pass();
    assert_eq!(code, 0, "{said}");
    nights.lab.run(["status"]).ok();
    nights.comes_back();
}

/// The names of a large directory are sorted in temporary files: where these have no room, it is said where, and what to do.
#[test]
fn a_full_directory_for_temporary_files_is_named() {
    let lab = Lab::new();
    if !loop_devices() {
        return skip("nothing can be mounted here");
    }
    lab.sh("mkdir temp big");
    let mount = Mount::new(&["-t", "tmpfs", "-o", "size=64k", "none"], &lab.path("temp"));
    lab.sh("python3 -c 'for n in range(20000): open(\"big/%0230d\" % n, \"w\").close()'");
    let run = |dir: &str| {
        let mut command = lab.program(env!("CARGO_BIN_EXE_capstan"));
        command.env("TMPDIR", lab.path(dir)).env("CAPSTAN_HOME", lab.path("home"));
        finish(command.args(["backup", "big", "--to", "medium", "--name", "t"]))
    };
    let (full, none) = (run("temp"), run("no-such-directory"));
    drop(mount);
    for (run, dir, why) in
        [(full, "temp", "no space left on device"), (none, "no-such-directory", "no such file")]
    {
        let dir = lab.path(dir).display().to_string();
        assert_eq!(run.code, 3, "{}", run.stderr);
        for said in [&*dir, why, "TMPDIR", "not-listed"] {
            assert!(run.stderr.contains(said), "{said}: {}", run.stderr);
        }
    }
}
