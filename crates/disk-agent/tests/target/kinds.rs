//! Each kind of file, and names and paths of every sort.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use capstan_disk_agent::target::Made;
use capstan_format::entry::{Entry, Extent, ExtentKind, Kind, Timestamp};

use crate::{TIME, created, entry, file, is_root, open, path, restore};

#[test]
fn files_with_contents_mode_and_times() {
    let tmp = tempfile::tempdir().unwrap();
    let target = open(tmp.path());
    let mut worker = target.worker();
    let data: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
    for (n, mode) in [0o644u16, 0, 0o4755, 0o2711, 0o1600, 0o7777, 0o400].into_iter().enumerate() {
        let name = format!("f{n}");
        let mut entry = file(mode);
        entry.mtime.sec += n as i64;
        let data = if n == 1 { &[][..] } else { &data };
        restore(&mut worker, &entry, b"sub/dir", name.as_bytes(), data).unwrap();
        let path = tmp.path().join("sub/dir").join(name);
        let meta = fs::metadata(&path).unwrap();
        assert_eq!(meta.mode() & 0o7777, u32::from(mode));
        assert_eq!(meta.mtime(), entry.mtime.sec);
        assert_eq!(meta.mtime_nsec(), 123_456_789);
        assert_eq!(meta.len(), data.len() as u64);
        if meta.mode() & 0o400 != 0 || is_root("reading a file of mode 0") {
            assert_eq!(fs::read(&path).unwrap(), data);
        }
    }
    assert_eq!(fs::metadata(tmp.path().join("sub")).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(target.tally().totals(), Default::default());
}

#[test]
fn times_before_1970_and_damaged_ones() {
    let tmp = tempfile::tempdir().unwrap();
    let target = open(tmp.path());
    let mut worker = target.worker();
    let mut entry = Entry { mtime: Timestamp { sec: -86_400, nsec: 999_999_999 }, ..file(0o600) };
    restore(&mut worker, &entry, b"", b"old", b"x").unwrap();
    let meta = fs::metadata(tmp.path().join("old")).unwrap();
    assert_eq!((meta.mtime(), meta.mtime_nsec()), (-86_400, 999_999_999));
    // The numbers that mean "now" and "leave" to the system call.
    for nsec in [(1 << 30) - 1, (1 << 30) - 2, u32::MAX] {
        entry.mtime = Timestamp { sec: 5, nsec };
        restore(&mut worker, &entry, b"", b"old", b"x").unwrap();
        assert_eq!(fs::metadata(tmp.path().join("old")).unwrap().mtime(), 5);
    }
}

#[test]
fn holes_stay_holes() {
    let tmp = tempfile::tempdir().unwrap();
    let target = open(tmp.path());
    let mut worker = target.worker();
    let entry = file(0o644);
    let sparse = created(worker.create_file(&entry, b"", b"sparse").unwrap());
    sparse.write_all_at(1 << 20, &[7; 4096]).unwrap();
    sparse.set_len(64 << 20).unwrap();
    sparse.finish(&target, &entry).unwrap();
    let meta = fs::metadata(tmp.path().join("sparse")).unwrap();
    assert_eq!(meta.len(), 64 << 20);
    assert!(meta.blocks() * 512 <= 64 << 10, "{} blocks", meta.blocks());
    assert_eq!(meta.mtime_nsec(), 123_456_789);
    let data = fs::read(tmp.path().join("sparse")).unwrap();
    assert!(data[1 << 20..][..4096].iter().all(|b| *b == 7));
    assert_eq!(data.iter().map(|b| u64::from(*b)).sum::<u64>(), 7 * 4096);
}

#[test]
fn parts_by_several_workers() {
    let tmp = tempfile::tempdir().unwrap();
    let target = open(tmp.path());
    let parts = vec![Extent { len: 8 << 20, kind: ExtentKind::Parts }];
    let entry = Entry { size: 8 << 20, extents: parts, ..file(0o444) };
    let whole = created(target.worker().create_file(&entry, b"d", b"big").unwrap());
    whole.set_len(8 << 20).unwrap();
    whole.leave().unwrap();
    std::thread::scope(|scope| {
        for n in 0..8u8 {
            let mut worker = target.worker();
            scope.spawn(move || {
                let part = worker.open_part(b"d", b"big").unwrap();
                part.write_all_at(u64::from(n) << 20, &vec![n; 1 << 20]).unwrap();
                part.leave().unwrap();
            });
        }
    });
    target.worker().finish_file(&entry, b"d", b"big").unwrap();
    let path = tmp.path().join("d/big");
    let data = fs::read(&path).unwrap();
    assert_eq!(data.len(), 8 << 20);
    assert!(data.iter().enumerate().all(|(at, b)| usize::from(*b) == at >> 20));
    let meta = fs::metadata(&path).unwrap();
    assert_eq!(
        (meta.mode() & 0o7777, meta.mtime(), meta.mtime_nsec()),
        (0o444, TIME.sec, i64::from(TIME.nsec))
    );
}

#[test]
fn nodes_of_every_kind() {
    let tmp = tempfile::tempdir().unwrap();
    let target = open(tmp.path());
    let mut worker = target.worker();
    let root = is_root("owners and device nodes");
    for (name, kind, rdev) in [
        ("symlink", Kind::Symlink, (0, 0)),
        ("fifo", Kind::Fifo, (0, 0)),
        ("socket", Kind::Socket, (0, 0)),
        ("char", Kind::CharDevice, (1, 3)),
        ("block", Kind::BlockDevice, (259, 1_000_000)),
    ] {
        if !root && rdev != (0, 0) {
            continue;
        }
        let mut entry = entry(kind, 0o2640);
        entry.rdev = rdev;
        entry.target = b"no/\xffwhere".to_vec();
        if root {
            (entry.uid, entry.gid) = (12_345, 54_321);
        }
        assert_eq!(worker.make_node(&entry, b"d", name.as_bytes()).unwrap(), Made::Made);
        let path = tmp.path().join("d").join(name);
        let meta = fs::symlink_metadata(&path).unwrap();
        let is = meta.file_type();
        let right = match kind {
            Kind::Symlink => is.is_symlink(),
            Kind::Fifo => is.is_fifo(),
            Kind::Socket => is.is_socket(),
            Kind::CharDevice => is.is_char_device(),
            _ => is.is_block_device(),
        };
        assert!(right, "{name}: {is:?}");
        assert_eq!((meta.uid(), meta.gid()), (entry.uid, entry.gid), "{name}");
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (TIME.sec, i64::from(TIME.nsec)), "{name}");
        if kind == Kind::Symlink {
            assert_eq!(fs::read_link(&path).unwrap().as_os_str().as_bytes(), b"no/\xffwhere");
        } else {
            assert_eq!(meta.mode() & 0o7777, 0o2640, "{name}");
        }
        if rdev != (0, 0) {
            assert_eq!(meta.rdev(), rustix::fs::makedev(rdev.0, rdev.1));
        }
    }
    assert_eq!(target.tally().totals(), Default::default());
}

#[test]
fn hard_links_are_links() {
    let tmp = tempfile::tempdir().unwrap();
    let target = open(tmp.path());
    let mut worker = target.worker();
    restore(&mut worker, &file(0o640), b"a", b"first", b"data").unwrap();
    assert_eq!(worker.make_link(b"b/c", b"second", b"a", b"first").unwrap(), Made::Made);
    let mut link = entry(Kind::Symlink, 0o777);
    link.target = b"first".to_vec();
    worker.make_node(&link, b"a", b"sym").unwrap();
    worker.make_link(b"b", b"sym", b"a", b"sym").unwrap();
    let inode = |p: &str| fs::symlink_metadata(tmp.path().join(p)).unwrap().ino();
    assert_eq!(inode("a/first"), inode("b/c/second"));
    assert_eq!(inode("a/sym"), inode("b/sym"));
    assert_ne!(inode("a/sym"), inode("a/first"));
    // Again, over what is there: still the links, and nothing left beside them.
    assert_eq!(worker.make_link(b"b/c", b"second", b"a", b"first").unwrap(), Made::Made);
    assert_eq!(worker.make_link(b"b", b"sym", b"a", b"first").unwrap(), Made::Made);
    assert_eq!(inode("b/sym"), inode("a/first"));
    assert_eq!(fs::read_dir(tmp.path().join("b")).unwrap().count(), 2);
    assert!(worker.make_link(b"b", b"third", b"a", b"missing").is_err());
    assert!(worker.make_link(b"b", b"sym", b"a", b"missing").is_err());
    assert_eq!(inode("b/sym"), inode("a/first"), "kept when its target is missing");
}

#[test]
fn names_of_every_sort() {
    let tmp = tempfile::tempdir().unwrap();
    let target = open(tmp.path());
    let mut worker = target.worker();
    let long = vec![b'n'; 255];
    for name in [&b"\xff\xfe\x80"[..], b" ", b"\n", b"-rf", b"...", b"\\x", "ä".as_bytes(), &long]
    {
        let mut entry = entry(Kind::Dir, 0o750);
        restore(&mut worker, &file(0o600), name, name, name).unwrap();
        entry.mtime.nsec = 1;
        worker.finish_dir(&entry, name).unwrap();
        let dir = path(tmp.path(), name);
        assert_eq!(fs::read(path(&dir, name)).unwrap(), name);
        let meta = fs::metadata(&dir).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.mtime(), meta.mtime_nsec()), (0o750, TIME.sec, 1));
    }
    let too_long = vec![b'n'; 256];
    assert!(restore(&mut worker, &file(0o600), b"", &too_long, b"").is_err());
    assert!(worker.make_dir(&too_long).is_err());
}

#[test]
fn paths_beyond_path_max() {
    let tmp = tempfile::tempdir().unwrap();
    let target = open(tmp.path());
    let mut worker = target.worker();
    let component = [b'd'; 199];
    // 60 x 200 bytes: three chunks; and one of single letters, with very many components.
    let deep = std::iter::repeat_n(&component[..], 60).collect::<Vec<_>>().join(&b'/');
    let letters = std::iter::repeat_n(&b"x"[..], 5000).collect::<Vec<_>>().join(&b'/');
    for dir in [deep, letters] {
        assert!(dir.len() > 8192);
        restore(&mut worker, &file(0o640), &dir, b"file", b"deep").unwrap();
        // Others find it by themselves: a new worker has nothing open.
        let mut other = target.worker();
        other.make_link(b"", b"up", &dir, b"file").unwrap();
        other.finish_file(&Entry { mode: 0o604, ..file(0) }, &dir, b"file").unwrap();
        let meta = fs::metadata(tmp.path().join("up")).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.nlink()), (0o604, 2));
        // Deepest first, each directory.
        let mut end = dir.len();
        while end > 0 {
            other.finish_dir(&entry(Kind::Dir, 0o755), &dir[..end]).unwrap();
            end = dir[..end].iter().rposition(|b| *b == b'/').unwrap_or(0);
        }
        let top = tmp.path().join(if dir[0] == b'x' { "x/x/x" } else { "." });
        let top = if dir[0] == b'x' { top } else { path(tmp.path(), &component) };
        let meta = fs::metadata(top).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.mtime_nsec()), (0o755, i64::from(TIME.nsec)));
    }
}
