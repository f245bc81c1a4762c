//! Sources on file systems that have no change time (ctime) of their own, as sshfs, exFAT and squashfs: they show mtime in its place. An
//! ext4 plays them: debugfs sets both times of all its inodes while it is not mounted.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::compare::same;
use crate::support::{Lab, Mount, below, loop_devices, noise, skip, wait_for};

/// A source in `at`, mounted while it is not made.
struct Source {
    lab: Lab,
    mount: Option<Mount>,
    /// The same one each time: a device's number is part of what is known of a file.
    device: String,
    /// What debugfs calls the extra bits of a time: nanoseconds, shifted by 2.
    extra: u32,
}

impl Drop for Source {
    fn drop(&mut self) {
        self.mount.take();
        self.lab.succeeds(&format!("losetup -d {}", self.device));
    }
}

impl Source {
    /// `make` makes the file system; times have these nanoseconds.
    fn new(make: &str, nsec: u32) -> Self {
        let lab = Lab::new();
        let made = lab.sh(&format!(
            "truncate -s 120M image; {make} image >/dev/null; losetup -f --show image"
        ));
        let mut source =
            Self { lab, mount: None, device: made.trim().to_owned(), extra: nsec << 2 };
        source.mount();
        source.lab.sh("rm -rf at/lost+found");
        source
    }

    fn mount(&mut self) {
        self.mount = Some(Mount::new(&["-o", "noatime", &self.device], &self.lab.path("at")));
    }

    /// Changes what is in it by a script. Then all there is has one time, as in an image that was built with SOURCE_DATE_EPOCH.
    fn change(&mut self, script: &str) {
        self.lab.sh(&format!("cd at; {script}"));
        let names = self.lab.sh("cd at; find . | sed 's/^\\.//'");
        self.mount.take();
        let mut commands = String::new();
        for name in names.lines().map(|name| if name.is_empty() { "/" } else { name }) {
            for time in ["atime", "mtime", "ctime", "crtime"] {
                commands += &format!("sif {name} {time} 202611010000.00\n");
                if self.extra > 0 {
                    commands += &format!("sif {name} {time}_extra {}\n", self.extra);
                }
            }
        }
        self.lab.file("commands", commands);
        self.lab.sh(&format!("debugfs -w -f commands {} >/dev/null 2>&1", self.device));
        self.mount();
        let times = self.lab.sh("find at -printf '%T@ %C@\\n' | sort -u");
        let fields: Vec<&str> = times.split_whitespace().collect();
        assert_eq!(fields.len(), 2, "all have one time: {times}");
        assert_eq!(fields[0], fields[1], "ctime is mtime");
    }

    fn path(&self) -> PathBuf {
        self.lab.path("at")
    }

    fn backup(&self, options: &[&str]) -> Value {
        let args = [&["at", "--to", "medium", "--name", "t"], options].concat();
        self.lab.backed_up(args)
    }

    /// The last version is what is there.
    #[track_caller]
    fn comes_back(&self) {
        self.lab.restored(["t", "--into", "out"]);
        same(&self.lab, &self.path(), &below(&self.lab.path("out"), &self.path()));
        self.lab.sh("rm -rf out");
        self.lab.run(["verify", "t"]).ok();
    }
}

fn of(report: &Value, field: &str) -> u64 {
    report[field].as_u64().unwrap_or_else(|| panic!("no {field}: {report:#}"))
}

const SMALL_INODES: &str = "mkfs.ext4 -q -F -I 128";

/// Bytes of the tree below that are read each night.
const CONTENTS: u64 = 100_000 + 3 * 50_000 + 34_000_000 + 3 + 3;

const TREE: &str = "truncate -s 1M sparse; echo end >>sparse; truncate -s -1 sparse; : >empty; : >empty-too; printf one >linked; \
                    ln linked again; ln -s one now; ln -s one link; mkdir dir dir/acl; mkfifo pipe; setfattr -n user.a -v 1 a";

fn tree(source: &mut Source) {
    let lab = &source.lab;
    lab.file("at/box", noise(1, 100_000));
    ["a", "b", "c"]
        .iter()
        .zip(2..)
        .for_each(|(name, n)| drop(lab.file(&format!("at/{name}"), noise(n, 50_000))));
    lab.file("at/large", noise(5, 34_000_000));
    source.change(TREE);
}

#[test]
fn new_contents_of_the_same_size_and_times_are_stored() {
    if !loop_devices() {
        return skip("loop devices cannot be mounted here");
    }
    let mut source = Source::new(SMALL_INODES, 0);
    tree(&mut source);
    source.backup(&["--full"]);
    let dry = |source: &Source| {
        let done = source.lab.run([
            "backup",
            "at",
            "--to",
            "medium",
            "--name",
            "t",
            "--dry-run",
            "--json",
        ]);
        serde_json::from_str::<Value>(&done.ok().stdout).unwrap()
    };
    // Nothing changed: all is read, and nothing stored.
    let foreseen = dry(&source);
    let nothing = source.backup(&["--incr"]);
    for field in ["files", "dirs", "kept", "bytes_read", "moved", "status"] {
        assert_eq!(foreseen[field], nothing[field], "{field}: {foreseen:#} {nothing:#}");
    }
    assert!(of(&nothing, "bytes_read") >= CONTENTS, "{nothing:#}");
    assert_eq!((of(&nothing, "moved"), of(&nothing, "kept")), (0, 13), "{nothing:#}");
    assert!(of(&nothing, "bytes_written") < 40_000, "{nothing:#}");
    // Each in its own way, and two that change names. The new link has the inode of the old one.
    source.change(
        "printf NEW | dd of=box conv=notrunc bs=1 seek=50000 status=none; cat a >../t; cat b >a; cat ../t >b; rm ../t
         printf NEW | dd of=large conv=notrunc bs=1 seek=33000000 status=none; printf END | dd of=sparse conv=notrunc bs=1 seek=1M status=none
         printf two >again; rm now; ln -s two now; setfattr -n user.b -v 2 dir; setfattr -n user.b -v 2 empty
         setfattr -n user.a -v 2 c",
    );
    let foreseen = dry(&source);
    let changed = source.backup(&["--incr"]);
    for field in ["files", "dirs", "kept", "bytes_read", "moved", "status"] {
        assert_eq!(foreseen[field], changed[field], "{field}: {foreseen:#} {changed:#}");
    }
    // `again` is the further name of `linked`, or the other way round; `c` has other attributes alone.
    assert_eq!((of(&changed, "moved"), of(&changed, "kept")), (1, 4), "{changed:#}");
    source.comes_back();
    // From this one on as well, which refers to the full for `c`.
    let nothing = source.backup(&["--incr"]);
    assert_eq!((of(&nothing, "moved"), of(&nothing, "kept")), (0, 13), "{nothing:#}");
    source.change("printf x | dd of=c conv=notrunc bs=1 seek=7 status=none");
    let changed = source.backup(&["--incr"]);
    assert_eq!(of(&changed, "kept"), 12, "{changed:#}");
    source.comes_back();
}

/// Without checksums in the base nothing tells that they are the same.
#[test]
fn without_checksums_all_is_stored_again() {
    if !loop_devices() {
        return skip("loop devices cannot be mounted here");
    }
    let mut source = Source::new(SMALL_INODES, 0);
    tree(&mut source);
    source.backup(&["--full", "--no-crc"]);
    source.change("printf NEW | dd of=box conv=notrunc bs=1 seek=50000 status=none");
    let changed = source.backup(&["--incr"]);
    assert!(of(&changed, "bytes_written") > 34_000_000, "{changed:#}");
    source.comes_back();
    let nothing = source.backup(&["--incr"]);
    assert!(of(&nothing, "bytes_written") < 40_000, "that one had checksums: {nothing:#}");
}

/// exFAT shows steps of 10 ms, times of birth, and other inode numbers after each mount.
#[test]
fn files_that_got_each_others_names_are_read() {
    if !loop_devices() {
        return skip("loop devices cannot be mounted here");
    }
    let mut source = Source::new("mkfs.ext4 -q -F -I 256", 480_000_000);
    source.lab.file("at/img-1", noise(1, 50_000));
    source.lab.file("at/img-2", noise(2, 50_000));
    source.change("sync");
    source.backup(&["--full"]);
    source.change("mv img-1 x-1; mv img-2 x-2; cat x-1 >../t; cat x-2 >x-1; cat ../t >x-2");
    source.backup(&["--incr"]);
    source.comes_back();
}

/// What was committed is not stored again if it is as it was, and is if it is not: a large file, too, of which there are parts.
#[test]
fn what_goes_on_holds_contents_against_what_it_has() {
    if !loop_devices() {
        return skip("loop devices cannot be mounted here");
    }
    let mut source = Source::new(SMALL_INODES, 0);
    for n in 0..30 {
        source.lab.file(&format!("at/f{n:02}"), noise(n, 100_000));
    }
    source.lab.file("at/sub/large", noise(99, 90_000_000));
    source.change("sync");
    let mut command = source.lab.command();
    command.args([
        "backup",
        "at",
        "--to",
        "medium",
        "--name",
        "t",
        "--segment-size",
        "1M",
        "--streams",
        "1",
    ]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("a commit of the large file", || source.lab.path("medium/00000010.segment").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    source.change(
        "printf NEW | dd of=f07 conv=notrunc bs=1 seek=50000 status=none; printf NEW | dd of=sub/large conv=notrunc bs=1 seek=9 status=none",
    );
    let report = source.backup(&["--resume"]);
    assert_eq!(report["method"], "full", "{report:#}");
    assert!(of(&report, "kept") >= 20, "{report:#}");
    assert!(of(&report, "bytes_written") < 92_000_000, "small ones are there: {report:#}");
    source.comes_back();
}

/// A live file that differs from what was backed up is no sign of damage there.
#[test]
fn a_drill_takes_no_live_file_for_untouched() {
    if !loop_devices() {
        return skip("loop devices cannot be mounted here");
    }
    let mut source = Source::new(SMALL_INODES, 0);
    source.lab.file("at/box", noise(1, 100_000));
    source.lab.file("at/same", noise(2, 100_000));
    source.change("sync");
    source.backup(&["--full"]);
    source.change("printf NEW | dd of=box conv=notrunc bs=1 seek=50000 status=none");
    source.lab.mkdir("scratch");
    let done = source.lab.run(["drill", "t", "--scratch", "scratch", "--sample", "100%", "--json"]);
    let report: Value = serde_json::from_str(&done.ok().stdout).unwrap();
    let drill = &report["drill"];
    assert_eq!((of(drill, "by_live_file"), of(drill, "by_checksum")), (1, 1), "{report:#}");
    let compared = source.lab.run(["compare", "t", "--contents"]);
    assert_eq!(compared.code, 4, "{}", compared.stdout);
}
