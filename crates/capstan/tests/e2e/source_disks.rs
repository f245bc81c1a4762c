//! Disks of a source that are not mounted: their empty mount points are not taken for directories of which all was removed.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Mount, Run, below, loop_devices, noise, report, skip, wait_for};

/// A disk with files, at `srv/data`, and something beside it.
struct Disk {
    lab: Lab,
    image: String,
    at: PathBuf,
    mount: Option<Mount>,
}

impl Disk {
    fn new() -> Option<Self> {
        if !loop_devices() {
            skip("loop devices cannot be mounted here");
            return None;
        }
        let lab = Lab::new();
        lab.sh("truncate -s 32M image; mkfs.ext4 -q image");
        lab.file("srv/other", noise(1, 5_000));
        let at = lab.mkdir("srv/data");
        let image = lab.path("image").display().to_string();
        let mut disk = Self { lab, image, at, mount: None };
        disk.mount();
        for n in 0..12 {
            disk.lab.file(&format!("srv/data/dir{}/f{n}", n % 3), noise(n + 10, 20_000));
        }
        // What is below is another directory.
        disk.lab.sh("chmod 700 srv/data; touch -d 2020-01-01 srv/data");
        disk.keep();
        Some(disk)
    }

    fn mount(&mut self) {
        self.mount = Some(Mount::new(&["-o", "loop", &self.image], &self.at));
    }

    fn unmount(&mut self) {
        self.mount = None;
        assert_eq!(fs::read_dir(&self.at).unwrap().count(), 0);
    }

    /// Remembers the disk as it is.
    fn keep(&self) {
        self.lab.sh("rm -rf kept; cp -a srv/data kept");
    }

    fn path(&self) -> String {
        self.at.display().to_string()
    }

    /// The newest version has the disk as it was remembered.
    fn restores(&self, version: &str) {
        self.lab.sh("rm -rf out");
        self.lab.restored([version, "--into", "out"]);
        same_by_rsync(&self.lab.path("kept"), &below(&self.lab.path("out"), &self.at));
    }

    fn backup(&self, path: &str, options: &[&str]) -> Value {
        let args = ["backup", path, "--to", "medium", "--name", name_of(path), "--json"];
        let run = self.lab.run([&args[..], options].concat());
        let code = run.code;
        let mut report = report(run);
        report["code"] = code.into();
        report
    }

    /// A backup that says that the disk is not mounted, and nothing else.
    fn says(&self, path: &str, options: &[&str], words: &[&str]) -> Value {
        let report = self.backup(path, options);
        assert_not_mounted(&report, &self.path(), words);
        report
    }
}

/// The oldest version of an object.
fn oldest(lab: &Lab, name: &str) -> String {
    let run = lab.run(["versions", name, "--json"]);
    let versions: Value = serde_json::from_str(&run.ok().stdout).unwrap();
    let first = versions["versions"].as_array().unwrap().last().unwrap();
    format!("{name}@{}", first["session"].as_str().unwrap())
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

fn assert_not_mounted(report: &Value, path: &str, words: &[&str]) {
    assert_eq!(report["code"], 3, "{report:#}");
    let errors = report["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{report:#}");
    assert_eq!((&errors[0]["code"], &errors[0]["path"]), (&"not-mounted".into(), &path.into()));
    let text = errors[0]["error"].as_str().unwrap();
    words.iter().for_each(|word| assert!(text.contains(word), "'{word}' is not in: {text}"));
}

fn assert_good(report: &Value) {
    assert_eq!(
        (&report["code"], &report["status"]),
        (&0.into(), &"completed".into()),
        "{report:#}"
    );
}

fn with_code(run: Run) -> Value {
    let code = run.code;
    let mut report = report(run);
    report["code"] = code.into();
    report
}

#[test]
fn incrementals_keep_what_a_disk_had_that_is_not_mounted() {
    let Some(mut disk) = Disk::new() else { return };
    let ways = ["srv/data", "srv"];
    for path in ways {
        assert_good(&disk.backup(path, &[]));
        assert_good(&disk.backup(path, &[]));
    }
    disk.unmount();
    for night in 0..3 {
        for path in ways {
            disk.lab.file("srv/other", noise(night + 100, 5_000));
            let report = disk.says(path, &[], &["last backup found another", "kept as it was"]);
            assert_eq!(report["method"], "incr");
            assert!(report["anomalies"].is_null(), "{report:#}");
            disk.restores(name_of(path));
            disk.lab.run(["prune", name_of(path), "--keep-last", "2"]).ok();
        }
    }
    let dry = disk.backup("srv/data", &["--dry-run"]);
    assert_not_mounted(&dry, &disk.path(), &[]);
    let said = disk.lab.run(["backup", "srv", "--to", "medium", "--name", "srv"]).stderr;
    assert!(said.contains("114 not-mounted"), "{said}");
    // It is there again, and what was removed meanwhile is gone.
    disk.mount();
    disk.lab.sh("rm srv/data/dir1/f1; echo new >srv/data/new");
    disk.keep();
    for path in ways {
        assert_good(&disk.backup(path, &[]));
        disk.restores(name_of(path));
        disk.lab.run(["prune", name_of(path), "--keep-last", "1"]).ok();
        disk.restores(name_of(path));
    }
}

/// The nights of the story: three with the disk, three without, one when it is back. All are fulls, two are kept.
#[test]
fn fulls_of_an_unmounted_disk_push_out_none_that_has_it() {
    let Some(mut disk) = Disk::new() else { return };
    let spec = |path: &str| {
        let at = disk.lab.path("").display().to_string();
        let at = at.trim_end_matches('/');
        let name = name_of(path);
        let text = format!(
            "device = \"{at}/medium\"\n[[object]]\nname = \"{name}\"\npaths = [\"{at}/{path}\"]\nfull = true\n[keep]\nlast = 2\n"
        );
        disk.lab.file(&format!("{name}.toml"), text).display().to_string()
    };
    let specs = ["srv/data", "srv"].map(|path| (name_of(path), spec(path)));
    for (_, spec) in &specs {
        (0..3).for_each(|_| {
            disk.lab.run(["run", spec]).ok();
        });
    }
    let newest = |name: &str| {
        let run = disk.lab.run(["versions", name, "--json"]);
        let versions: Value = serde_json::from_str(&run.ok().stdout).unwrap();
        versions["versions"][0]["session"].as_str().unwrap().to_owned()
    };
    let whole = ["data", "srv"].map(newest);
    disk.mount = None;
    for (name, spec) in &specs {
        for _ in 0..3 {
            let ran = disk.lab.run(["run", spec]);
            assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
            assert!(ran.stderr.contains("not-mounted"), "{}", ran.stderr);
        }
        let status = disk.lab.run(["status", name]);
        assert!(status.code == 5 && status.stdout.contains("has nothing of"), "{}", status.stdout);
    }
    for (name, session) in ["data", "srv"].iter().zip(&whole) {
        disk.restores(&format!("{name}@{}", &session[..8]));
        // Who restores the newest is told what it lacks.
        disk.lab.sh("rm -rf out");
        let run = disk.lab.run(["restore", name, "--into", "out"]);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(said.contains("has nothing of") && said.contains(&session[..8]), "{said}");
    }
    disk.mount();
    for (name, spec) in &specs {
        disk.lab.run(["run", spec]).ok();
        disk.lab.run(["run", spec]).ok();
        disk.restores(name);
        let versions = disk.lab.run(["versions", name]).ok().stdout.clone();
        assert!(
            !whole.iter().any(|id| versions.contains(&id[..8])),
            "the rule goes on: {versions}"
        );
    }
}

#[test]
fn a_disk_that_is_mounted_and_empty_was_emptied() {
    let Some(mut disk) = Disk::new() else { return };
    disk.lab.sh("rmdir srv/data/lost+found");
    for path in ["srv/data", "srv"] {
        assert_good(&disk.backup(path, &[]));
    }
    disk.lab.sh("rm -rf srv/data/*");
    let emptied = disk.backup("srv/data", &[]);
    assert_good(&emptied);
    assert_eq!(emptied["anomalies"][0]["what"], "no_files", "{emptied:#}");
    let status = disk.lab.run(["status", "data"]);
    assert!(status.code == 5 && status.stdout.contains("found no file"), "{}", status.stdout);
    assert_good(&disk.backup("srv", &[]));
    for name in ["data", "srv"] {
        let names = disk.lab.run(["ls", name]).ok().stdout.clone();
        assert!(!names.contains("dir1"), "{names}");
    }
    // An empty one is not missed, unless it is on record; it was said once that no file is there.
    disk.unmount();
    for path in ["srv/data", "srv"] {
        let report = disk.backup(path, &[]);
        assert_good(&report);
        assert!(report["anomalies"].is_null(), "{report:#}");
    }
    let fstab = format!("/dev/none {} ext4 defaults 0 0\n", disk.path());
    let args = ["backup", "srv/data", "--to", "medium", "--name", "data", "--json"];
    let report = with_code(disk.lab.run_with_fstab(&fstab, &args));
    assert_not_mounted(&report, &disk.path(), &["/etc/fstab"]);
}

#[test]
fn a_mount_point_on_record_is_missed_from_the_first_backup_on() {
    let Some(mut disk) = Disk::new() else { return };
    disk.unmount();
    let line = |options: &str| format!("/dev/none {} ext4 {options} 0 0\n", disk.path());
    let backup = |options: &str, name: &str, more: &[&str]| {
        let args = [&["backup", "--to", "medium", "--name", name, "--json"], more].concat();
        with_code(disk.lab.run_with_fstab(&line(options), &args))
    };
    for (n, path) in ["srv/data", "srv"].iter().enumerate() {
        let report = backup("defaults,nofail", &format!("first{n}"), &[path]);
        assert_not_mounted(&report, &disk.path(), &["/etc/fstab", "has nothing of it"]);
        // What builds on it lacks the same.
        let next = backup("defaults,nofail", &format!("first{n}"), &[path]);
        assert_not_mounted(&next, &disk.path(), &["/etc/fstab"]);
    }
    // Several paths, of which one is that.
    let report = backup("defaults", "several", &["srv/data", "srv/other"]);
    assert_not_mounted(&report, &disk.path(), &[]);
    assert_eq!(report["files"], 1);
    // One that is mounted by hand may be empty where nobody named it, and so what lies on another file system.
    assert_good(&backup("noauto,user", "by-hand", &["srv"]));
    assert_not_mounted(&backup("noauto", "named", &["srv/data"]), &disk.path(), &[]);
    assert_not_mounted(
        &backup("noauto,x-systemd.automount", "automount", &["srv"]),
        &disk.path(),
        &[],
    );
    assert_good(&backup("defaults", "one-fs", &["srv", "--one-file-system"]));
    assert_good(&backup("defaults", "excluded", &["srv", "--exclude", &disk.path()]));
    // What is written to is nothing that was on the disk.
    disk.lab.sh("mkdir srv/data/keep");
    disk.lab.run(["media", "init", "srv/data/keep/medium"]).ok();
    let args = ["backup", "srv", "--to", "srv/data/keep/medium", "--name", "own", "--json"];
    let report = with_code(disk.lab.run_with_fstab(&line("defaults"), &args));
    assert_not_mounted(&report, &disk.path(), &[]);
    disk.lab.sh("mkdir srv/data/keep/empty");
    let report = with_code(disk.lab.run_with_fstab(&line("defaults"), &args));
    assert_eq!(report["code"], 0, "it has something of its own: {report:#}");
}

#[test]
fn what_others_made_in_the_mount_point_hides_nothing() {
    let Some(mut disk) = Disk::new() else { return };
    for path in ["srv", "srv/data/dir0"] {
        assert_good(&disk.backup(path, &[]));
    }
    disk.unmount();
    // As a service does that is started without its disk.
    disk.lab.sh("mkdir srv/data/dir0");
    let dir = format!("{}/dir0", disk.path());
    assert_not_mounted(
        &disk.backup("srv/data/dir0", &[]),
        &dir,
        &["last backup", "kept as it was"],
    );
    disk.lab.sh("rm -rf out");
    disk.lab.restored(["dir0", "--into", "out"]);
    same_by_rsync(
        &disk.lab.path("kept/dir0"),
        &below(&disk.lab.path("out"), &disk.at).join("dir0"),
    );
    // What is on record to be there is not given up: what is in it now is backed up beside.
    disk.lab.sh("echo new >srv/data/dir0/new");
    let fstab = format!("/dev/none {} ext4 defaults 0 0\n", disk.path());
    let args = ["backup", "srv", "--to", "medium", "--name", "srv", "--json"];
    for _ in 0..2 {
        let report = with_code(disk.lab.run_with_fstab(&fstab, &args));
        assert_not_mounted(&report, &disk.path(), &["what is in it now is backed up"]);
    }
    disk.lab.sh("rm -rf out");
    disk.lab.restored(["srv", "--into", "out"]);
    let out = below(&disk.lab.path("out"), &disk.at);
    assert_eq!(fs::read(out.join("dir0/new")).unwrap(), b"new\n");
    assert_eq!(fs::read(out.join("dir0/f0")).unwrap(), noise(10, 20_000));
    assert_eq!(fs::read(out.join("dir2/f2")).unwrap(), noise(12, 20_000));
}

#[test]
fn a_disk_that_was_taken_away_for_good_is_given_up() {
    let Some(mut disk) = Disk::new() else { return };
    for name in ["removed", "filled", "excluded"] {
        disk.lab.backed_up(["srv", "--to", "medium", "--name", name]);
    }
    disk.unmount();
    let backup = |name: &str, more: &[&str]| {
        let args = [&["backup", "srv", "--to", "medium", "--name", name, "--json"], more].concat();
        with_code(disk.lab.run(args))
    };
    let names = |name: &str| disk.lab.run(["ls", name]).ok().stdout.clone();
    assert_not_mounted(&backup("removed", &[]), &disk.path(), &[]);
    assert_good(&backup("excluded", &["--exclude", &disk.path()]));
    // What is there now was moved from the disk, as soon as all of it is.
    for dirs in ["kept/dir0 kept/dir1", "kept/dir2"] {
        disk.lab.sh(&format!("cp -a {dirs} srv/data"));
        assert_not_mounted(
            &backup("filled", &[]),
            &disk.path(),
            &["is backed up", "kept as it was"],
        );
        assert!(names("filled").contains("dir2"));
    }
    assert_good(&backup("filled", &[]));
    disk.lab.sh("rm -r srv/data/dir2");
    assert_good(&backup("filled", &[]));
    assert!(names("filled").contains("dir1") && !names("filled").contains("dir2"));
    disk.lab.sh("rm -r srv/data/*");
    assert_good(&backup("filled", &[]));
    disk.lab.sh("rmdir srv/data");
    assert_not_mounted(&backup("removed", &[]), &disk.path(), &["--exclude gives it up"]);
    assert_good(&backup("removed", &["--exclude", &disk.path()]));
    for name in ["removed", "filled", "excluded"] {
        assert_good(&backup(name, &[]));
        assert!(!names(name).contains("dir1"), "{name}: {}", names(name));
    }
}

/// Whatever lies below where a disk should be: what the last version found mounted is missed.
#[test]
fn what_lies_in_the_place_of_a_disk_hides_nothing() {
    let Some(mut disk) = Disk::new() else { return };
    let stands = [
        "mkdir srv/data/lost+found",
        "echo x >srv/data/dir1",
        "mkdir -p srv/data/dir1/f1/x",
        "echo x >srv/data/log",
        "ln -s nowhere srv/data/link",
    ];
    for (n, stand) in stands.iter().enumerate() {
        let name = format!("n{n}");
        let night = |disk: &Disk| {
            let args = ["backup", "srv", "--to", "medium", "--json", "--exclude", "log", "--name"];
            with_code(disk.lab.run([&args[..], &[name.as_str()]].concat()))
        };
        assert_good(&night(&disk));
        disk.unmount();
        disk.lab.sh(stand);
        for _ in 0..3 {
            assert_not_mounted(&night(&disk), &disk.path(), &["last backup", "kept as it was"]);
            disk.lab.run(["prune", &name, "--keep-last", "2"]).ok();
        }
        disk.lab.sh("rm -rf out srv/data/*");
        disk.lab.restored([&name, "--into", "out"]);
        let out = below(&disk.lab.path("out"), &disk.at);
        for dir in ["dir0", "dir1", "dir2"] {
            same_by_rsync(&disk.lab.path("kept").join(dir), &out.join(dir));
        }
        disk.mount();
        assert_good(&night(&disk));
    }
}

/// A service that is started without its disk makes its files anew, which a backup then has. None of them is the disk's.
#[test]
fn files_made_anew_in_the_place_of_a_disk_give_nothing_up() {
    let Some(mut disk) = Disk::new() else { return };
    let night = |disk: &Disk, name: &str, more: &[&str]| {
        let args = ["backup", "srv", "--to", "medium", "--json", "--name", name];
        with_code(disk.lab.run([&args[..], more].concat()))
    };
    for name in ["anew", "full"] {
        assert_good(&night(&disk, name, &[]));
    }
    disk.unmount();
    for (dir, n) in (0..12).map(|n| (n % 3, n)) {
        disk.lab.file(&format!("srv/data/dir{dir}/f{n}"), noise(n + 200, 10_000));
    }
    for n in 0..4 {
        let full: &[&str] = if n == 0 { &["--full"] } else { &[] };
        assert_not_mounted(&night(&disk, "full", full), &disk.path(), &[]);
        disk.lab.run(["prune", "full", "--keep-last", "2"]).ok();
        assert_not_mounted(&night(&disk, "anew", &[]), &disk.path(), &["is backed up"]);
        disk.lab.run(["prune", "anew", "--keep-last", "2"]).ok();
    }
    // What is the disk's stays, whatever has its name.
    disk.restores("anew");
    disk.lab.sh("rm -r srv/data/*");
    disk.mount();
    for name in ["anew", "full"] {
        assert_good(&night(&disk, name, &[]));
        if name == "anew" {
            continue;
        }
        disk.lab.sh("rm -rf out");
        disk.lab.restored([&oldest(&disk.lab, name), "--into", "out"]);
        same_by_rsync(&disk.lab.path("kept"), &below(&disk.lab.path("out"), &disk.at));
    }
}

/// What was made by a backup that was killed has no record of what was mounted: its rows tell it.
#[test]
fn a_first_backup_that_is_resumed_misses_a_disk_too() {
    let Some(mut disk) = Disk::new() else { return };
    disk.lab.file("srv/zz/big", noise(99, 60_000_000));
    let mut args = vec!["backup", "srv", "--to", "medium", "--name", "srv", "--compress", "off"];
    args.extend(["--segment-size", "4M", "--streams", "1"]);
    let mut killed = disk.lab.command().args(&args).spawn().unwrap();
    crate::support::wait_for("some segments", || {
        disk.lab.succeeds("test -e medium/00000004.segment")
    });
    killed.kill().unwrap();
    killed.wait().unwrap();
    disk.unmount();
    args.extend(["--resume", "--json"]);
    let resumed = with_code(disk.lab.run(&args));
    assert_not_mounted(&resumed, &disk.path(), &["kept as it was"]);
    disk.restores("srv");
}

/// Nor is a link or a file in its place the directory that was removed.
#[test]
fn a_link_in_the_place_of_a_mount_point_hides_nothing() {
    let Some(mut disk) = Disk::new() else { return };
    for (n, stand) in
        ["ln -s other srv/data", "ln -s nowhere srv/data", "echo x >srv/data", "mkfifo srv/data"]
            .iter()
            .enumerate()
    {
        let name = format!("l{n}");
        let night = |disk: &Disk, more: &[&str]| {
            let args = ["backup", "srv", "--to", "medium", "--json", "--name", &name];
            with_code(disk.lab.run([&args[..], more].concat()))
        };
        assert_good(&night(&disk, &[]));
        disk.unmount();
        disk.lab.sh(&format!("rmdir srv/data; {stand}"));
        for _ in 0..3 {
            assert_not_mounted(
                &night(&disk, &[]),
                &disk.path(),
                &["no directory is there", "kept as it was"],
            );
            disk.lab.run(["prune", &name, "--keep-last", "2"]).ok();
            disk.restores(&name);
        }
        assert_good(&night(&disk, &["--exclude", &disk.path()]));
        assert_good(&night(&disk, &[]));
        disk.lab.sh("rm srv/data; mkdir srv/data");
        disk.mount();
    }
}

/// `--one-file-system` enters no other file system that was not named.
#[test]
fn named_paths_on_other_file_systems_are_backed_up_with_one_file_system() {
    let Some(disk) = Disk::new() else { return };
    for (n, paths) in
        [["srv", "srv/data"], ["srv/data", "srv"], ["srv", "srv/data/dir1"]].iter().enumerate()
    {
        let name = format!("o{n}");
        let args = [
            "backup",
            paths[0],
            paths[1],
            "--one-file-system",
            "--to",
            "medium",
            "--json",
            "--name",
            &name,
        ];
        for _ in 0..2 {
            assert_good(&with_code(disk.lab.run(args)));
        }
        disk.lab.sh("rm -rf out");
        disk.lab.restored([&name, "--into", "out"]);
        let out = below(&disk.lab.path("out"), &disk.at);
        match paths.contains(&"srv/data/dir1") {
            false => same_by_rsync(&disk.lab.path("kept"), &out),
            true => {
                same_by_rsync(&disk.lab.path("kept/dir1"), &out.join("dir1"));
                assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
            }
        }
        assert!(below(&disk.lab.path("out"), &disk.lab.path("srv/other")).exists());
        disk.lab.run(["compare", &name]).ok();
    }
    disk.lab.backed_up(["srv", "--one-file-system", "--to", "medium", "--name", "alone"]);
    assert!(!disk.lab.run(["ls", "alone"]).ok().stdout.contains("dir1"));
}

/// systemd hides directories behind an empty file system in memory (ProtectHome=, InaccessiblePaths=).
#[test]
fn an_empty_tmpfs_over_a_directory_hides_nothing() {
    let Some(mut disk) = Disk::new() else { return };
    disk.lab.sh("cp -a srv/data/dir1 srv/plain; mkdir srv/none; cp -a srv/plain kept-plain");
    for path in ["srv", "srv/plain"] {
        assert_good(&disk.backup(path, &[]));
    }
    let plain = disk.lab.path("srv/plain");
    let hidden =
        |at: &std::path::Path| Mount::new(&["-t", "tmpfs", "-o", "ro,mode=000,size=4k", "x"], at);
    let over = hidden(&plain);
    let over_none = hidden(&disk.lab.path("srv/none"));
    for _ in 0..3 {
        for (path, words) in
            [("srv", &["masks", "kept as it was"]), ("srv/plain", &["masks", "kept as it was"])]
        {
            assert_not_mounted(&disk.backup(path, &[]), &plain.display().to_string(), words);
            disk.lab.run(["prune", name_of(path), "--keep-last", "2"]).ok();
            disk.lab.sh("rm -rf out");
            disk.lab.restored([name_of(path), "--into", "out"]);
            let out = below(&disk.lab.path("out"), &plain);
            disk.lab.sh(&format!("diff -r kept-plain {}", out.display()));
        }
    }
    drop((over, over_none));
    for path in ["srv", "srv/plain"] {
        assert_good(&disk.backup(path, &[]));
    }
    // Nor does one that holds something.
    let over = Mount::new(&["-t", "tmpfs", "x"], &plain);
    disk.lab.file("srv/plain/own", noise(6, 100));
    for _ in 0..3 {
        assert_not_mounted(&disk.backup("srv", &[]), &plain.display().to_string(), &["masks"]);
        disk.lab.run(["prune", "srv", "--keep-last", "2"]).ok();
    }
    drop(over);
    assert_good(&disk.backup("srv", &[]));
    disk.lab.sh("rm -rf out");
    disk.lab.restored(["srv", "--into", "out"]);
    disk.lab.sh(&format!("diff -r kept-plain {}", below(&disk.lab.path("out"), &plain).display()));
    // In the place of a disk it is none either.
    disk.unmount();
    let over = hidden(&disk.at);
    for _ in 0..2 {
        disk.says("srv", &[], &["kept as it was"]);
        disk.restores("srv");
    }
    drop(over);
    // A file system in memory that was emptied was emptied.
    disk.mount();
    let memory = Mount::new(&["-t", "tmpfs", "x"], &disk.lab.path("srv/none"));
    disk.lab.file("srv/none/f", noise(7, 100));
    assert_good(&disk.backup("srv", &[]));
    disk.lab.sh("rm srv/none/f");
    assert_good(&disk.backup("srv", &[]));
    drop(memory);
}

/// Whoever excludes a path of the backup that is a mount point gives up what was mounted there. It is backed up as what it is now.
#[test]
fn a_path_that_was_a_mount_point_is_given_up_by_excluding_it() {
    let Some(mut disk) = Disk::new() else { return };
    let deep = disk.at.join("dir1").display().to_string();
    assert_good(&disk.backup("srv/data", &[]));
    assert_good(&disk.backup("srv/data/dir1", &[]));
    disk.unmount();
    disk.lab.sh("mkdir srv/data/dir1; echo x >srv/data/dir1/left");
    disk.says("srv/data", &[], &["is backed up"]);
    assert_not_mounted(&disk.backup("srv/data/dir1", &[]), &deep, &["is backed up"]);
    for path in ["srv/data", "srv/data/dir1"] {
        assert_good(&disk.backup(path, &["--exclude", &disk.path()]));
        assert_good(&disk.backup(path, &[]));
        let names = disk.lab.run(["ls", name_of(path)]).ok().stdout.clone();
        assert!(names.contains("left") && !names.contains("f1"), "{names}");
    }
}

/// What mounts disks by itself makes their mount points, and removes them with the disks.
#[test]
fn a_mount_point_that_went_with_its_disk_is_missed() {
    let Some(mut disk) = Disk::new() else { return };
    assert_good(&disk.backup("srv", &[]));
    let full = |disk: &Disk| {
        let args = ["backup", "srv", "--to", "medium", "--name", "full", "--full", "--json"];
        with_code(disk.lab.run(args))
    };
    assert_good(&full(&disk));
    disk.unmount();
    disk.lab.sh("rmdir srv/data");
    for night in 0..2 {
        disk.lab.file("srv/other", noise(night + 100, 5_000));
        let report = disk.says("srv", &[], &["no directory is there", "kept as it was"]);
        assert_eq!(report["method"], "incr");
        disk.restores("srv");
        disk.lab.run(["prune", "srv", "--keep-last", "1"]).ok();
        disk.restores("srv");
        assert_not_mounted(
            &full(&disk),
            &disk.path(),
            &["no directory is there", "has nothing of it"],
        );
    }
    assert_not_mounted(&disk.backup("srv", &["--dry-run"]), &disk.path(), &[]);
    // Nobody who says that he wants one file system misses others, nor who leaves it out.
    assert_good(&disk.backup("srv", &["--one-file-system", "--dry-run"]));
    disk.lab.sh("mkdir srv/data");
    disk.mount();
    disk.lab.sh("rm srv/data/dir1/f1; echo new >srv/data/new");
    disk.keep();
    assert_good(&disk.backup("srv", &[]));
    disk.restores("srv");
}

/// With all that it lay in it was removed.
/// Messages write some names in another way than they are.
#[test]
fn mount_points_of_odd_names_are_missed_with_their_disks() {
    let Some(mut disk) = Disk::new() else { return };
    disk.unmount();
    for (n, name) in ["back\\slash", "new\nline", "nobreak\u{200b}"].iter().enumerate() {
        let at = disk.lab.mkdir(&format!("srv/{name}"));
        let object = format!("odd{n}");
        let args = ["backup", "srv", "--to", "medium", "--json", "--name", &object];
        let mount = Mount::new(&["-o", "loop", &disk.image], &at);
        assert_good(&with_code(disk.lab.run(args)));
        drop(mount);
        fs::remove_dir(&at).unwrap();
        for _ in 0..3 {
            let report = with_code(disk.lab.run(args));
            assert_eq!(report["errors"].as_array().unwrap().len(), 1, "{report:#}");
            assert_eq!(
                (&report["code"], &report["errors"][0]["code"]),
                (&3.into(), &"not-mounted".into())
            );
            disk.lab.run(["prune", &object, "--keep-last", "2"]).ok();
        }
        disk.lab.sh("rm -rf out");
        disk.lab.restored([&object, "--into", "out"]);
        same_by_rsync(&disk.lab.path("kept"), &below(&disk.lab.path("out"), &at));
        // With the directory around it, it was removed.
        let inner = format!("srv/in{n}/{name}");
        let at = disk.lab.mkdir(&inner);
        let mount = Mount::new(&["-o", "loop", &disk.image], &at);
        assert_eq!(with_code(disk.lab.run(args))["code"], 3);
        drop(mount);
        disk.lab.sh(&format!("rm -r srv/in{n}"));
        let report = with_code(disk.lab.run(args));
        assert_eq!(report["errors"].as_array().unwrap().len(), 1, "{report:#}");
    }
}

#[test]
fn a_mount_point_that_went_with_its_directory_was_removed() {
    let Some(disk) = Disk::new() else { return };
    let source = disk.lab.path("srv/data/dir0").display().to_string();
    let bound = Mount::new(&["--bind", &source], &disk.lab.mkdir("srv/inner/disk"));
    assert_good(&disk.backup("srv", &[]));
    drop(bound);
    disk.lab.sh("rm -r srv/inner");
    assert_good(&disk.backup("srv", &[]));
    let names = disk.lab.run(["ls", "srv"]).ok().stdout.clone();
    assert!(!names.contains("inner"), "{names}");
    disk.restores("srv");
}

/// A path that became a link for a night, of which a full backup has nothing: its disk is missed afterwards.
#[test]
fn a_disk_is_missed_too_after_a_night_on_which_its_path_was_a_link() {
    let Some(mut disk) = Disk::new() else { return };
    for more in [&["--full"][..], &[]] {
        assert_good(&disk.backup("srv", more));
        disk.unmount();
        disk.lab.sh("mv srv hidden; ln -s hidden srv");
        let linked = disk.backup("srv", more);
        assert_eq!(linked["errors"][0]["code"], "path-became-link", "{linked:#}");
        disk.lab.sh("rm srv; mv hidden srv");
        disk.says("srv", more, &[]);
        disk.mount();
    }
}

/// A night on which nothing is seen of a disk makes the next one not forget it.
#[test]
fn a_disk_is_missed_too_after_a_night_that_did_not_come_to_it() {
    let Some(mut disk) = Disk::new() else { return };
    let backup = |disk: &Disk, name: &str, more: &[&str]| {
        let args = ["backup", "srv", "beside", "--to", "medium", "--name", name, "--json"];
        with_code(disk.lab.run([&args[..], more].concat()))
    };
    disk.lab.file("beside", "x");
    let ways = [("incremental", &[][..]), ("full", &["--full"])];
    for (name, more) in ways {
        assert_good(&backup(&disk, name, more));
    }
    disk.unmount();
    disk.lab.sh("mv srv hidden");
    for (name, more) in ways {
        let report = backup(&disk, name, more);
        assert_eq!(report["errors"][0]["code"], "path-missing", "{report:#}");
    }
    disk.lab.sh("mv hidden srv");
    for (name, more) in ways {
        assert_not_mounted(&backup(&disk, name, more), &disk.path(), &[]);
    }
    disk.restores("incremental");
}

/// A path of the backup may lie below the mount point, and a directory of its name on the disk below.
#[test]
fn a_path_below_a_mount_point_is_missed_each_night() {
    let Some(mut disk) = Disk::new() else { return };
    let below_it = disk.at.join("dir1").display().to_string();
    disk.lab.sh("cp -a srv/data/dir1 kept-dir");
    let fstab = format!("{} {} ext4 loop 0 0\n", disk.image, disk.path());
    let night = |disk: &Disk, name: &str, with_fstab: bool| {
        let other = disk.lab.path("srv/other").display().to_string();
        let args = ["backup", &below_it, &other, "--to", "medium", "--name", name, "--json"];
        with_code(match with_fstab {
            true => disk.lab.run_with_fstab(&fstab, &args),
            false => disk.lab.run(args),
        })
    };
    assert_good(&night(&disk, "plain", false));
    assert_good(&night(&disk, "fstab", true));
    disk.unmount();
    let restores = |disk: &Disk, name: &str| {
        disk.lab.run(["prune", name, "--keep-last", "2"]).ok();
        disk.lab.sh("rm -rf out");
        disk.lab.restored([name, "--into", "out"]);
        let out = below(&disk.lab.path("out"), &disk.at).join("dir1");
        same_by_rsync(&disk.lab.path("kept-dir"), &out);
    };
    // Somebody makes the directory after the first night.
    for n in 0..4 {
        let report = night(&disk, "plain", false);
        let code = if n == 0 { "path-missing" } else { "not-mounted" };
        assert_eq!((&report["code"], &report["errors"][0]["code"]), (&3.into(), &code.into()));
        restores(&disk, "plain");
        disk.lab.mkdir("srv/data/dir1");
    }
    // It has something in it from the first night on.
    disk.lab.file("srv/data/dir1/.profile", noise(90, 200));
    disk.lab
        .sh("touch -r kept-dir was; cp -p srv/data/dir1/.profile kept-dir; touch -r was kept-dir");
    for _ in 0..4 {
        let report = night(&disk, "fstab", true);
        assert_not_mounted(&report, &below_it, &["/etc/fstab", "kept as it was"]);
        restores(&disk, "fstab");
    }
    // It was mounted again, and given up where nothing else says that it should be.
    disk.lab.sh("rm -r srv/data/dir1");
    disk.mount();
    for name in ["plain", "fstab"] {
        assert_good(&night(&disk, name, name == "fstab"));
    }
}

#[test]
fn a_directory_that_is_bound_from_elsewhere_is_missed_too() {
    let Some(mut disk) = Disk::new() else { return };
    let lab = &disk.lab;
    lab.file("srv/data/store/f", noise(50, 10_000));
    // On the same device as the directory that it hides.
    lab.sh("mkdir -p srv/data/bound; cp -a srv/data/store bound-kept");
    let bound = Mount::new(
        &["--bind", &lab.path("srv/data/store").display().to_string()],
        &lab.path("srv/data/bound"),
    );
    assert_good(&disk.backup("srv", &[]));
    drop(bound);
    let path = format!("{}/bound", disk.path());
    assert_not_mounted(&disk.backup("srv", &[]), &path, &["kept as it was"]);
    disk.lab.sh("rm -rf out");
    disk.lab.restored(["srv", "--into", "out"]);
    let out = below(&disk.lab.path("out"), &disk.at);
    same_by_rsync(&disk.lab.path("bound-kept"), &out.join("bound"));
    // With the disk it is gone as well: one is said, and all is kept.
    disk.unmount();
    disk.says("srv", &[], &[]);
    disk.lab.sh("rm -rf out");
    disk.lab.restored(["srv", "--into", "out"]);
    same_by_rsync(&disk.lab.path("bound-kept"), &out.join("bound"));
}

#[test]
fn a_subvolume_that_was_emptied_is_none_that_is_not_mounted() {
    if !loop_devices() {
        return skip("loop devices cannot be mounted here");
    }
    let lab = Lab::new();
    if !lab.succeeds("truncate -s 256M image; mkfs.btrfs -q image") {
        return skip("mkfs.btrfs is not there");
    }
    let image = lab.path("image").display().to_string();
    let _mount = Mount::new(&["-o", "loop", &image], &lab.mkdir("srv"));
    lab.sh("btrfs -q subvolume create srv/sub || btrfs subvolume create srv/sub >/dev/null; echo x >srv/sub/f");
    let args = ["backup", "srv", "--to", "medium", "--name", "t", "--json"];
    assert_good(&with_code(lab.run(args)));
    lab.sh("rm srv/sub/f");
    assert_good(&with_code(lab.run(args)));
    // Nor is one that gave way to a directory.
    lab.sh("echo x >srv/sub/f");
    assert_good(&with_code(lab.run(args)));
    lab.sh("btrfs subvolume delete srv/sub >/dev/null; mkdir srv/sub");
    assert_good(&with_code(lab.run(args)));
}

/// A snapshot has an empty directory where its original has a subvolume. So has a tree that was rolled back to one.
#[test]
fn the_empty_directory_of_a_subvolume_in_a_snapshot_is_none_that_was_emptied() {
    if !loop_devices() {
        return skip("loop devices cannot be mounted here");
    }
    let lab = Lab::new();
    if !lab.succeeds("truncate -s 256M image; mkfs.btrfs -q image") {
        return skip("mkfs.btrfs is not there");
    }
    let image = lab.path("image").display().to_string();
    let at = lab.mkdir("top");
    let _mount = Mount::new(&["-o", "loop", &image], &at);
    lab.sh("cd top; for s in srv srv/a srv/a/b srv/gone; do btrfs subvolume create $s >/dev/null; done");
    lab.sh("cd top/srv; for n in 1 2 3; do for d in . a a/b gone; do echo $n $d >$d/f$n; done; done; cp -a a ../../kept");
    let backup = |name: &str, options: &[&str]| {
        let args = ["backup", "top/srv", "--to", "medium", "--json", "--name", name];
        with_code(lab.run([&args[..], options].concat()))
    };
    for name in ["t", "fulls", "imported"] {
        assert_good(&backup(name, &[]));
    }
    // Nothing is said of one that was deleted.
    lab.sh("cd top; btrfs subvolume delete srv/gone >/dev/null");
    assert_good(&backup("t", &[]));
    lab.sh("cd top; btrfs subvolume snapshot srv back >/dev/null; mv srv old; mv back srv; echo 4 >srv/f4");
    let a = at.join("srv/a").display().to_string();
    let same = |name: &str| {
        lab.sh("rm -rf out");
        lab.restored([name, "--into", "out"]);
        same_by_rsync(&lab.path("kept"), &below(&lab.path("out"), &at).join("srv/a"));
    };
    for _ in 0..3 {
        assert_not_mounted(&backup("t", &[]), &a, &["btrfs subvolume", "kept as it was"]);
        lab.run(["prune", "t", "--keep-last", "2"]).ok();
        same("t");
        // A full one has nothing of it, and pushes out none that has it.
        assert_not_mounted(&backup("fulls", &["--full"]), &a, &["has nothing of it"]);
        lab.run(["prune", "fulls", "--keep-last", "1"]).ok();
    }
    same(&oldest(&lab, "fulls"));
    // Rows tell it to a home that has only imported.
    lab.sh("rm -r home/catalogs");
    lab.lose_tables();
    lab.run(["import", "medium"]).ok();
    lab.run(["media", "adopt", "medium"]).ok();
    assert_not_mounted(&backup("imported", &[]), &a, &["btrfs subvolume", "kept as it was"]);
    same("imported");
    // Brought back, it is backed up; what a version never had is not missed.
    lab.sh("cd top; mv srv snapshot; mv old srv");
    assert_good(&backup("t", &[]));
    lab.sh("cd top; mv srv old; mv snapshot srv");
    assert_good(&backup("new", &[]));
    assert_good(&backup("new", &[]));
    // Removed or excluded, it was given up.
    assert_eq!(backup("t", &[])["code"], 3);
    lab.sh("rmdir top/srv/a");
    assert_good(&backup("t", &[]));
    assert!(!lab.run(["ls", "t"]).ok().stdout.contains("srv/a"));
}

/// A home that was lost has no record of what was mounted: rows tell it.
#[test]
fn after_an_import_rows_tell_what_was_mounted() {
    let Some(mut disk) = Disk::new() else { return };
    for path in ["srv/data", "srv"] {
        assert_good(&disk.backup(path, &[]));
    }
    disk.lab.sh("rm -r home/catalogs");
    disk.lab.lose_tables();
    disk.lab.run(["import", "medium"]).ok();
    disk.lab.run(["media", "adopt", "medium"]).ok();
    // A directory that was emptied stays what it was.
    disk.lab.sh("rm srv/data/dir2/*");
    assert_good(&disk.backup("srv", &["--dry-run"]));
    disk.unmount();
    // Whatever is in its place.
    disk.lab.sh("mkdir srv/data/made");
    disk.says("srv", &["--dry-run"], &["kept as it was"]);
    disk.lab.sh("rmdir srv/data/made");
    for _ in 0..2 {
        for path in ["srv/data", "srv"] {
            disk.says(path, &[], &["kept as it was"]);
            disk.restores(name_of(path));
        }
    }
}

/// Of a version that lacks something, and was imported, nobody can name what. One that builds on it lacks that, too.
#[test]
fn after_an_import_an_incremental_lacks_what_its_base_does() {
    let Some(mut disk) = Disk::new() else { return };
    assert_good(&disk.backup("srv", &[]));
    disk.unmount();
    disk.says("srv", &["--full"], &["has nothing of it"]);
    disk.lab.sh("rm -r home/catalogs");
    disk.lab.lose_tables();
    disk.lab.run(["import", "medium"]).ok();
    disk.lab.run(["media", "adopt", "medium"]).ok();
    for _ in 0..3 {
        assert_good(&disk.backup("srv", &[]));
        disk.lab.run(["prune", "srv", "--keep-last", "1"]).ok();
    }
    disk.restores(&oldest(&disk.lab, "srv"));
    // A full one that lacks nothing ends it.
    disk.mount();
    assert_good(&disk.backup("srv", &["--full"]));
    disk.lab.run(["prune", "srv", "--keep-last", "1"]).ok();
    disk.lab.run(["status", "srv"]).ok();
}

/// What a synthetic full stands for had something mounted.
#[test]
fn a_consolidation_takes_over_what_was_mounted() {
    let Some(mut disk) = Disk::new() else { return };
    assert_good(&disk.backup("srv", &[]));
    disk.lab.sh("echo more >srv/data/more");
    assert_good(&disk.backup("srv", &[]));
    disk.lab.run(["consolidate", "srv"]).ok();
    disk.lab.run(["prune", "srv", "--keep-last", "1"]).ok();
    disk.unmount();
    disk.says("srv", &["--full"], &["has nothing of it"]);
    disk.says("srv", &["--full"], &["has nothing of it"]);
}

/// Backs up `srv` slowly; the disk goes while names that come before it are read. What the backup reports.
fn backup_while_it_goes(disk: &mut Disk) -> Value {
    let mut command = disk.lab.command();
    command.args(["backup", "srv", "--to", "null:rate=8", "--name", "srv", "--full", "--json"]);
    command.args(["--streams", "1"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let has_read = |pid: u32| {
        let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let read = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        read.and_then(|n| n.parse::<u64>().ok()).is_some_and(|n| n > 4_000_000)
    };
    wait_for("the first files", || has_read(child.id()));
    disk.lab.sh("umount -l srv/data");
    assert!(child.try_wait().unwrap().is_none(), "it has ended before the disk went");
    let out = child.wait_with_output().unwrap();
    let mut report: Value = serde_json::from_slice(&out.stdout).unwrap();
    report["code"] = out.status.code().into();
    report
}

#[test]
fn a_disk_that_goes_while_a_backup_runs_is_missed() {
    let Some(mut disk) = Disk::new() else { return };
    // So many that the walk waits for the streams, and does not come to the disk for a while.
    disk.lab.sh("mkdir srv/a; cd srv/a; head -c 40000000 /dev/urandom | split -b 10000 -a4 - f");
    // A first backup knows that it was there when it began.
    let report = backup_while_it_goes(&mut disk);
    assert_not_mounted(&report, &disk.path(), &["nothing is mounted"]);
    disk.mount = None;
    disk.mount();
    assert_good(&disk.backup(&disk.lab.path("srv").display().to_string(), &[]));
    let report = backup_while_it_goes(&mut disk);
    assert_not_mounted(&report, &disk.path(), &["nothing is mounted"]);
    // It is missed as long as it is away, and what the last version has of it is kept.
    disk.mount = None;
    disk.says(&disk.lab.path("srv").display().to_string(), &[], &["nothing is mounted"]);
    disk.lab.run(["prune", "--keep-last", "1"]);
    disk.restores("srv");
}
