//! What becomes of files that exist.

use std::fs::{self, File, FileTimes};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use capstan_disk_agent::target::{Created, Made, Target, Worker};
use capstan_format::entry::{Entry, Kind};
use capstan_wire::restore::Overwrite;

use crate::{TIME, created, entry, file, options, restore};

const OLD: &[u8] = b"old";
const NEW: &[u8] = b"new";

fn age(path: &Path, seconds: i64) {
    let time = Duration::new((TIME.sec + seconds) as u64, TIME.nsec);
    let times = FileTimes::new().set_modified(UNIX_EPOCH + time);
    File::options().write(true).open(path).unwrap().set_times(times).unwrap();
}

/// Restores "new" over a file of that content and age; whether it was replaced.
fn replaces(overwrite: Overwrite, content: &[u8], seconds: i64) -> bool {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("f");
    fs::write(&path, content).unwrap();
    age(&path, seconds);
    let target = Target::open(tmp.path(), options(overwrite)).unwrap();
    let new = Entry { size: 3, ..file(0o644) };
    restore(&mut target.worker(), &new, b"", b"f", NEW).unwrap();
    let replaced = fs::read(&path).unwrap() == NEW;
    assert_eq!(target.tally().totals().skipped_existing, u64::from(!replaced));
    if !replaced {
        assert_eq!(fs::metadata(&path).unwrap().mtime(), TIME.sec + seconds, "left as it was");
    }
    replaced
}

#[test]
fn policies_for_files() {
    use Overwrite::{Always, IfDifferent, IfNewer, Never};
    for (policy, content, seconds, expected) in [
        (Never, OLD, -1, false),
        (Always, OLD, 0, true),
        (Always, OLD, 1, true),
        (IfDifferent, OLD, 0, false),
        (IfDifferent, OLD, 1, true),
        (IfDifferent, OLD, -1, true),
        (IfDifferent, b"longer", 0, true),
        (IfNewer, OLD, -1, true),
        (IfNewer, OLD, 0, false),
        (IfNewer, OLD, 1, false),
    ] {
        assert_eq!(replaces(policy, content, seconds), expected, "{policy:?} {seconds}");
    }
}

#[test]
fn a_replaced_file_keeps_its_other_names_and_readers() {
    let tmp = tempfile::tempdir().unwrap();
    fs::write(tmp.path().join("f"), OLD).unwrap();
    fs::hard_link(tmp.path().join("f"), tmp.path().join("other")).unwrap();
    let mut reader = File::open(tmp.path().join("f")).unwrap();
    let target = Target::open(tmp.path(), options(Overwrite::Always)).unwrap();
    restore(&mut target.worker(), &file(0o644), b"", b"f", NEW).unwrap();
    assert_eq!(fs::read(tmp.path().join("f")).unwrap(), NEW);
    assert_eq!(fs::read(tmp.path().join("other")).unwrap(), OLD);
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert_eq!(read, OLD);
}

#[test]
fn what_exists_stays_until_all_of_a_file_came() {
    let tmp = tempfile::tempdir().unwrap();
    let at = |name: &str| tmp.path().join(name);
    let names = || fs::read_dir(tmp.path()).unwrap().count();
    for name in ["whole", "withdrawn", "parts", "dropped"] {
        fs::write(at(name), OLD).unwrap();
    }
    let target = Target::open(tmp.path(), options(Overwrite::Always)).unwrap();
    let mut worker = target.worker();
    let new = Entry { size: 3, ..file(0o644) };
    let create = |worker: &mut Worker<'_>, name: &str| {
        let file = created(worker.create_file(&new, b"", name.as_bytes()).unwrap());
        file.write_all_at(0, b"n").unwrap();
        assert_eq!(fs::read(at(name)).unwrap(), OLD);
        file
    };
    let whole = create(&mut worker, "whole");
    whole.write_all_at(0, NEW).unwrap();
    whole.finish(&target, &new).unwrap();
    assert_eq!(fs::read(at("whole")).unwrap(), NEW);
    let withdrawn = create(&mut worker, "withdrawn");
    assert_eq!(names(), 5);
    assert!(worker.withdraw(b"", b"withdrawn").unwrap());
    drop(withdrawn);
    // In parts, by others who know its name alone.
    create(&mut worker, "parts").leave().unwrap();
    let part = target.worker().open_part(b"", b"parts").unwrap();
    part.write_all_at(0, NEW).unwrap();
    part.leave().unwrap();
    assert_eq!(fs::read(at("parts")).unwrap(), OLD);
    target.worker().finish_file(&new, b"", b"parts").unwrap();
    assert_eq!(fs::read(at("parts")).unwrap(), NEW);
    create(&mut worker, "dropped");
    target.worker().withdraw_rest().unwrap();
    assert!(!worker.withdraw(b"", b"dropped").unwrap(), "nothing is beside it any more");
    assert_eq!(names(), 4, "nothing is left beside them");
    for name in ["withdrawn", "dropped"] {
        assert_eq!(fs::read(at(name)).unwrap(), OLD, "{name}");
    }
    // What was not there is in its place at once, and stays there.
    let fresh = created(worker.create_file(&new, b"", b"fresh").unwrap());
    assert!(at("fresh").exists());
    fresh.leave().unwrap();
    assert!(!worker.withdraw(b"", b"fresh").unwrap());
    assert!(at("fresh").exists());
}

#[test]
fn policies_for_links_and_nodes() {
    let tmp = tempfile::tempdir().unwrap();
    let at = |name: &str| tmp.path().join(name);
    symlink("old", at("link")).unwrap();
    fs::write(at("fifo"), OLD).unwrap();
    fs::write(at("first"), OLD).unwrap();
    fs::write(at("second"), OLD).unwrap();
    let link = Entry { target: b"new".to_vec(), ..entry(Kind::Symlink, 0o777) };
    let fifo = entry(Kind::Fifo, 0o600);

    let never = Target::open(tmp.path(), options(Overwrite::Never)).unwrap();
    let mut worker = never.worker();
    assert_eq!(worker.make_node(&link, b"", b"link").unwrap(), Made::Skipped);
    assert_eq!(worker.make_node(&fifo, b"", b"fifo").unwrap(), Made::Skipped);
    assert_eq!(worker.make_link(b"", b"second", b"", b"first").unwrap(), Made::Skipped);
    let created = worker.create_file(&file(0o600), b"", b"link").unwrap();
    assert!(matches!(created, Created::Skipped));
    assert_eq!(never.tally().totals().skipped_existing, 4);
    assert_eq!(fs::read(at("fifo")).unwrap(), OLD);
    assert_eq!(fs::read_link(at("link")).unwrap().to_str(), Some("old"));

    let different = Target::open(tmp.path(), options(Overwrite::IfDifferent)).unwrap();
    let mut worker = different.worker();
    assert_eq!(worker.make_node(&link, b"", b"link").unwrap(), Made::Made);
    let inode = fs::symlink_metadata(at("link")).unwrap().ino();
    assert_eq!(worker.make_node(&link, b"", b"link").unwrap(), Made::Skipped);
    assert_eq!(fs::symlink_metadata(at("link")).unwrap().ino(), inode);
    let other = Entry { target: b"wen".to_vec(), ..link };
    assert_eq!(worker.make_node(&other, b"", b"link").unwrap(), Made::Made);
    assert_eq!(fs::read_link(at("link")).unwrap().to_str(), Some("wen"));
    assert_eq!(worker.make_node(&fifo, b"", b"fifo").unwrap(), Made::Made);
    assert_eq!(worker.make_node(&fifo, b"", b"fifo").unwrap(), Made::Skipped);
    assert_eq!(worker.make_link(b"", b"second", b"", b"first").unwrap(), Made::Made);
    assert_eq!(fs::metadata(at("second")).unwrap().nlink(), 2);
    assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 4, "nothing is left beside them");
}

#[test]
fn never_leaves_existing_directories_alone() {
    let tmp = tempfile::tempdir().unwrap();
    fs::create_dir(tmp.path().join("there")).unwrap();
    let before = fs::metadata(tmp.path().join("there")).unwrap();
    let target = Target::open(tmp.path(), options(Overwrite::Never)).unwrap();
    let dir = entry(Kind::Dir, 0o711);
    target.worker().make_dir(b"new/er").unwrap();
    for path in [&b"there"[..], b"new/er", b"new"] {
        // Another worker than the one that made it.
        target.worker().finish_dir(&dir, path).unwrap();
    }
    let after = fs::metadata(tmp.path().join("there")).unwrap();
    assert_eq!((after.mode(), after.mtime()), (before.mode(), before.mtime()));
    for new in ["new", "new/er"] {
        let meta = fs::metadata(tmp.path().join(new)).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o711, TIME.sec));
    }
}
