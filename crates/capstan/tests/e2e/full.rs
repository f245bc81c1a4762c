//! Full media: what prune does where a consolidation has no room, and what a dry run says before.

use std::path::Path;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{
    Lab, Mount, below, can_mount, completed, finish, free_bytes, noise, report, skip,
};

/// The backups of an object that are offered, by session: those that were not given up.
pub fn offered(lab: &Lab, name: &str) -> Vec<String> {
    let sessions = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
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

/// Frames of many files each, of which some live: what opens is written anew without the others, sealed or not.
#[test]
fn a_dry_run_foresees_the_full_of_sealed_frames() {
    let lab = Lab::with_passphrase(Some("correct horse battery staple"));
    for i in 0..40 {
        lab.file(&format!("tree/{i}"), noise(i, 40_000));
    }
    lab.backed_up(["tree", "--to", "m", "--name", "t"]);
    for day in 1..5 {
        // The more of a frame goes, the later the day.
        (0..40).filter(|i| i % 5 < day).for_each(|i| {
            lab.file(&format!("tree/{i}"), noise(1000 * day + i, 40_000));
        });
        lab.backed_up(["tree", "--to", "m", "--name", "t"]);
    }
    let (code, foreseen, _) = prune(&lab, &["--dry-run"]);
    assert_eq!((code, foreseen["consolidated"].as_array().unwrap().len()), (0, 1), "{foreseen:#}");
    let (code, done, said) = prune(&lab, &[]);
    assert_eq!(code, 0, "{done:#}{said}");
    as_foreseen(&foreseen, &done);
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

/// The command that a text names, without the program's name.
fn advised(text: &str, begins: &str) -> Vec<String> {
    let all = text.split('`').skip(1).step_by(2);
    let command = all.filter_map(|c| c.strip_prefix("capstan ")).find(|c| c.starts_with(begins));
    let command = command.unwrap_or_else(|| panic!("no `capstan {begins}` in: {text}"));
    command.replace("DIRECTORY", "elsewhere").split(' ').map(str::to_owned).collect()
}

/// Versions that were given up and stay on a full disk are said, with the command that lets them go.
#[test]
fn what_stays_on_a_full_disk_is_said_however_little_of_it_is_dead() {
    // A quarter of the chain is dead; next to nothing; and there is no chain but a full.
    for (count, stays, changes) in
        [(4, 10_000_000, 2_000_000), (4, 20_000_000, 50_000), (2, 9_000_000, 50_000)]
    {
        let Some(small) = Small::new() else { return };
        let lab = &small.lab;
        days(lab, "t", count, stays, changes);
        small.fill(3_000_000);
        for args in [&["--dry-run"][..], &[]] {
            let (code, done, said) = prune(lab, args);
            assert_eq!(code, 3, "{args:?}: {done:#}{said}");
            for word in ["not-consolidated", "medium 'medium'", " MB are", "consolidate t@"] {
                assert!(said.contains(word), "'{word}' is not in: {said}");
            }
        }
        // Also when it was marked before.
        let (_, _, said) = prune(lab, &[]);
        lab.run(advised(&said, "consolidate")).ok();
        let (code, done, said) = prune(lab, &[]);
        assert_eq!(code, 0, "{done:#}{said}");
        assert!(done["freed_bytes"].as_u64() > Some(9_000_000), "{done:#}");
        lab.file("tree-t/new", "new");
        lab.backed_up(["tree-t", "--to", "disk/medium", "--name", "t"]);
        comes_back(lab, "t");
        lab.run(["idb", "check"]).ok();
    }
}

/// A full on another disk, made as advised, is kept in the place of the version that it stands for: that and its chain go at once.
#[test]
fn what_is_advised_for_a_full_disk_gives_the_room_back_at_once() {
    // By number the full takes the place of what it stands for; by time, or by no rule, both would be kept.
    for keep in [&["--keep-last", "2"][..], &["--keep-within", "5d"], &[]] {
        let Some(small) = Small::new() else { return };
        let lab = &small.lab;
        lab.file("tree-t/stays", noise(1, 10_000_000));
        let mut versions = Vec::new();
        for day in 0..3 {
            lab.file("tree-t/changes", noise(2 + day, 8_000_000));
            let args = ["backup", "--json", "tree-t", "--to", "disk/medium", "--name", "t"];
            // The first is of ten days ago.
            let clock = if day == 0 { "-864000" } else { "0" };
            let run = finish(lab.command().args(args).env("CAPSTAN_TEST_CLOCK_AHEAD_S", clock));
            let made = completed(report(run));
            versions.push(format!("t@{}", &made["session"].as_str().unwrap()[..8]));
            lab.sh(&format!("cp -a tree-t state-{day}"));
        }
        if keep.is_empty() {
            lab.run(["protect", &versions[0], "--none"]).ok();
        }
        small.fill(3_000_000);
        let prune = |more: &[&str]| {
            let run = finish(lab.command().args(["prune", "t", "--json"]).args(keep).args(more));
            let json: Value = serde_json::from_str(&run.stdout).expect(&run.stderr);
            (run.code, json, run.stderr)
        };
        let (code, done, said) = prune(&[]);
        assert_eq!(code, 3, "{keep:?}: {done:#}{said}");
        let advice = advised(&said, "consolidate");
        assert_eq!(advice[1], versions[1], "{said}");
        let made = lab.run(advice.iter().map(String::as_str).chain(["--json"])).ok().stdout.clone();
        let made: Value = serde_json::from_str(&made).unwrap();
        let full = format!("t@{}", &made["session"].as_str().unwrap()[..8]);
        let (code, foreseen, said) = prune(&["--dry-run"]);
        assert_eq!(code, 0, "{keep:?}: {foreseen:#}{said}");
        let (code, done, said) = prune(&[]);
        assert_eq!(code, 0, "{keep:?}: {done:#}{said}");
        as_foreseen(&foreseen, &done);
        assert_eq!(done["removed_versions"], 2, "{keep:?}: {done:#}");
        assert!(done["freed_bytes"].as_u64() > Some(25_000_000), "{keep:?}: {done:#}");
        assert!(free_bytes(&lab.path("disk")) > 25_000_000);
        // Nothing more goes, and both states are there.
        assert_eq!(prune(&[]).1["removed_versions"], 0, "{keep:?}");
        for (version, day) in [(&full, 1), (&versions[2], 2)] {
            lab.restored([version, "--into", "out"]);
            lab.sh(&format!("diff -r state-{day} \"out$PWD/tree-t\" && rm -r out"));
        }
        lab.run(["idb", "check"]).ok();
        lab.run(["status"]).ok();
    }
}

#[test]
fn where_there_is_room_nothing_is_said_of_what_stays() {
    let Some(small) = Small::new() else { return };
    days(&small.lab, "t", 4, 20_000_000, 50_000);
    let (code, done, said) = prune(&small.lab, &[]);
    assert_eq!((code, said.contains("not-consolidated")), (0, false), "{done:#}{said}");
}

#[test]
fn a_backup_to_a_full_disk_names_the_medium_and_is_on_record() {
    let Some(small) = Small::new() else { return };
    let lab = &small.lab;
    days(lab, "t", 1, 4_000_000, 1_000);
    small.fill(3_000_000);
    let refused = lab.run(["backup", "tree-t", "--to", "disk/medium", "--name", "t"]);
    refused.refused(&[
        "the disk of medium 'medium'",
        "is full",
        "capstan prune",
        "capstan consolidate",
    ]);
    let sessions = lab.run(["sessions"]).ok().stdout.clone();
    let line = sessions.lines().find(|line| line.contains("failed")).expect(&sessions);
    assert!(line.split_whitespace().any(|word| word == "-") && !line.contains("removed"), "{line}");
    let status = lab.run(["status", "--max-age", "1d"]);
    assert_ne!(status.code, 0);
    assert!(status.stdout.contains("refused 0 min ago: the disk"), "{}", status.stdout);
    // One that runs out of room in the middle says the same.
    lab.sh("rm disk/filler");
    lab.file("tree-t/large", noise(77, 60_000_000));
    small.fill(30_000_000);
    let failed = lab.backup(["tree-t", "--to", "disk/medium", "--name", "t", "--compress", "off"]);
    assert_eq!(failed["device_full"], true, "{failed:#}");
    let said = failed["errors"].to_string();
    assert!(
        said.contains("the disk of medium 'medium' is full") && said.contains("capstan prune"),
        "{said}"
    );
}

#[test]
fn every_refusal_of_a_known_object_is_on_record() {
    let lab = Lab::new();
    lab.file("tree/a", "a");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.backed_up(["tree", "--to", "medium"]);
    let failed = || {
        let all = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
        all.lines().filter(|line| line.contains("\"failed\"")).count()
    };
    for (n, args) in [
        &["backup", "gone", "--to", "medium", "--name", "t"][..],
        &["backup", "tree", "--to", "medium", "--name", "t", "--exclude-from", "gone"],
        &["backup", "tree", "--to", "tree/a", "--name", "t"],
        &["backup", "tree", "--to", "tree/a"],
        &["backup", "tree", "--to", "medium", "--name", "t", "--block-size", "64K", "--json"],
    ]
    .into_iter()
    .enumerate()
    {
        assert_ne!(lab.run(args).code, 0, "{args:?}");
        assert_eq!(failed(), n + 1, "{args:?}");
    }
    // What nobody knows leaves no session, and what asks only leaves nothing. What was refused is shown.
    lab.run(["backup", "gone", "--to", "medium", "--name", "typo"]).refused(&["gone"]);
    lab.run(["backup", "gone", "--to", "medium", "--name", "t", "--dry-run"]).refused(&["gone"]);
    assert_eq!(failed(), 5);
    let status = lab.run(["status"]).stdout;
    assert!(status.contains("backup of 'typo'"), "{status}");
}

/// A run of one object whose backups are fulls of 30 MB, with `keep.last = 1`.
fn run_of_fulls(lab: &Lab) -> (i32, Value) {
    let at = |path: &str| lab.path(path).display().to_string();
    let text = format!(
        "device = \"{}\"\n[[object]]\nname = \"t\"\npaths = [\"{}\"]\nfull = true\ncompress = \"off\"\n[keep]\nlast = 1\n",
        at("disk/medium"),
        at("tree-t")
    );
    lab.file("spec.toml", text);
    let run = lab.run(["run", "spec.toml", "--json"]);
    (
        run.code,
        serde_json::from_str(&run.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}{}", run.stdout, run.stderr)),
    )
}

#[test]
fn a_run_that_has_no_room_prunes_and_backs_up_again() {
    let Some(small) = Small::new() else { return };
    let lab = &small.lab;
    lab.file("tree-t/a", noise(3, 30_000_000));
    let full = ["tree-t", "--to", "disk/medium", "--name", "t", "--full", "--compress", "off"];
    lab.backed_up(full);
    lab.backed_up(full);
    let (code, report) = run_of_fulls(lab);
    let of = |n: usize| report["sessions"][n]["status"].as_str();
    assert_eq!((of(0), of(1)), (Some("failed"), Some("completed")), "{report:#}");
    // The rules count what was backed up then, too: both fulls go, and what the first try left.
    assert_eq!((code, &report["pruned"]["removed_versions"]), (0, &3.into()), "{report:#}");
    let last = report["sessions"][1]["session"].as_str().unwrap();
    assert_eq!(offered(lab, "t"), [last], "{report:#}");
    comes_back(lab, "t");
    // Where the rules give nothing back, it says what does.
    small.fill(3_000_000);
    let (code, report) = run_of_fulls(lab);
    assert_eq!((code, report["sessions"].as_array().map(Vec::len)), (1, Some(1)), "{report:#}");
    let errors = report["errors"].to_string();
    assert!(
        errors.contains("gave nothing back") && errors.contains("capstan consolidate"),
        "{errors}"
    );
}

fn has_segments(medium: &Path) -> bool {
    let names = std::fs::read_dir(medium).unwrap().map(|e| e.unwrap().file_name());
    names.into_iter().any(|name| name.to_string_lossy().ends_with(".segment"))
}

/// A full that filled the disk was cut short: it is in nobody's way.
#[test]
fn a_backup_that_did_not_complete_goes_where_its_room_is_wanted() {
    let Some(small) = Small::new() else { return };
    let lab = &small.lab;
    let backup = ["backup", "tree", "--to", "disk/medium", "--name", "t", "--segment-size", "4M"];
    (0..14).for_each(|n| drop(lab.file(&format!("tree/{n}"), noise(n, 2_000_000))));
    lab.run(backup).ok();
    small.fill(26_000_000);
    let run = finish(lab.command().args(backup).arg("--full"));
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(free_bytes(&lab.path("disk")) < 8 << 20, "the disk is full");
    // By hand: it is said what stays, and what lets it go.
    let (code, pruned, said) = prune(lab, &[]);
    assert_eq!((code, pruned["removed_versions"].as_u64()), (3, Some(0)), "{pruned:#}");
    let unended = pruned["unended"].as_array().unwrap();
    assert_eq!((unended.len(), &unended[0]["medium"]), (1, &"medium".into()), "{pruned:#}");
    assert!(unended[0]["bytes"].as_u64() > Some(8_000_000), "{pruned:#}");
    assert!(said.contains("236 unended-kept"), "{said}");
    let version = format!("t@{}", &unended[0]["session"].as_str().unwrap()[..8]);
    assert_eq!(advised(&said, "protect"), ["protect", &version, "--none"]);
    // By itself: a run prunes it, and backs up.
    lab.file("tree/new", noise(99, 100_000));
    let spec = format!(
        "device = {:?}\n[options]\nsegment-size = \"4M\"\n[[object]]\nname = \"t\"\npaths = [{:?}]\n[keep]\nlast = 2\n",
        lab.path("disk/medium"),
        lab.path("tree")
    );
    lab.file("spec.toml", spec);
    let run = lab.run(["run", "spec.toml", "--json"]);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let (sessions, went) = (report["sessions"].as_array().unwrap(), &report["pruned"]);
    assert_eq!(sessions.last().unwrap()["status"], "completed", "{report:#}");
    assert_eq!(went["removed_versions"], 1, "{report:#}");
    lab.restored(["t", "--into", "out"]);
    let tree = lab.path("tree");
    same_by_rsync(&tree, &below(&lab.path("out"), &tree));
    assert_eq!(offered(lab, "t").len(), 2);
}

/// A consolidation that was killed leaves nothing that stays.
#[test]
fn what_a_killed_consolidation_left_goes_with_the_next_prune() {
    let lab = Lab::new();
    (0..40).for_each(|n| drop(lab.file(&format!("tree/{n}"), noise(n, 1_000_000))));
    let backup = ["tree", "--to", "medium", "--name", "t", "--segment-size", "1M", "--incr"];
    lab.backed_up(backup);
    lab.file("tree/new", "new");
    lab.backed_up(backup);
    let count = || {
        let names = std::fs::read_dir(lab.path("medium")).unwrap().map(|e| e.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".segment")).count()
    };
    // Killed when something is written and not all of it. One that was faster, or had recorded nothing, is tried again.
    let why = |v: &Value| v["why"].to_string().contains("its consolidation did not end");
    for day in 0.. {
        assert!(day < 60, "no consolidation is killed before its end");
        lab.file("tree/new", format!("day {day}"));
        lab.backed_up(backup);
        let before = count();
        let mut child = lab.command().args(["consolidate", "t"]).spawn().unwrap();
        while count() == before && child.try_wait().unwrap().is_none() {}
        std::thread::sleep(std::time::Duration::from_millis(day % 20));
        let _ = child.kill();
        child.wait().unwrap();
        let (_, foreseen, _) = prune(&lab, &["--dry-run"]);
        let left = |v: &Value| why(v) && v["bytes"].as_u64() > Some(1_000_000);
        if foreseen["versions"].as_array().unwrap().iter().any(left) {
            break;
        }
    }
    let (left, (code, pruned, said)) = (count(), prune(&lab, &[]));
    assert_eq!(code, 0, "{said}");
    let versions = pruned["versions"].as_array().unwrap();
    assert!(versions.iter().any(|v| v["action"] == "remove" && why(v)), "{pruned:#}");
    assert!(pruned["freed_bytes"].as_u64() > Some(1_000_000) && count() < left, "{pruned:#}");
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    lab.run(["idb", "check"]).ok();
}
