//! What a plain user cannot restore is counted, and everything else comes back. Under root the
//! test runs itself again as user 65534.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use capstan_disk_agent::target::{Made, TallyTotals};
use capstan_format::entry::{Entry, Extent, ExtentKind, Kind};

use crate::{TIME, created, entry, file, open, restore, xattr};

const NOBODY: u32 = 65_534;
const DIR_VARIABLE: &str = "CAPSTAN_TEST_PLAIN_USER_DIR";

#[test]
fn as_a_plain_user() {
    if let Some(dir) = std::env::var_os(DIR_VARIABLE) {
        assert!(!rustix::process::geteuid().is_root());
        body(&PathBuf::from(dir));
        return;
    }
    let tmp = tempfile::tempdir().unwrap();
    if !rustix::process::geteuid().is_root() {
        body(tmp.path());
        return;
    }
    // Somebody else's directory in the target, which the user may write to.
    let foreign = tmp.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o777)).unwrap();
    chown(tmp.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    // The program may lie where the user cannot go. Copied by another process: a file that this
    // one had open for writing while another test started a tool could not be run.
    let program = tmp.path().join("program");
    crate::run("cp", &[std::env::current_exe().unwrap().as_ref(), program.as_ref()]);
    let out = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&program)
        .args(["--exact", "plain_user::as_a_plain_user", "--nocapture"])
        .env(DIR_VARIABLE, tmp.path())
        .current_dir("/")
        .output()
        .expect("setpriv (Debian: util-linux)");
    let shown = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && shown.contains("1 passed"), "{shown}");
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn body(root: &Path) {
    let target = open(root);
    let mut worker = target.worker();
    let somebody = |entry: Entry| Entry { uid: 0, gid: 0, ..entry };

    // Other people's files: contents, mode and times; not the owner, nor their setuid.
    for n in 0..5u8 {
        let entry = somebody(file(0o6755));
        restore(&mut worker, &entry, b"d", &[b'a' + n], b"data").unwrap();
        let path = root.join("d").join(char::from(b'a' + n).to_string());
        let meta = fs::metadata(&path).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o755, TIME.sec));
        assert_eq!(fs::read(&path).unwrap(), b"data");
    }
    let mut expected = TallyTotals { owners_not_restored: 5, ..TallyTotals::default() };
    assert_eq!(target.tally().totals(), expected);

    // Our own setuid file, and attributes of a file that not even we may write to.
    restore(&mut worker, &file(0o4711), b"d", b"suid", b"x").unwrap();
    assert_eq!(mode(&root.join("d/suid")), 0o4711);
    let mut readonly = file(0);
    readonly.xattrs = vec![
        (
            b"security.capability".to_vec(),
            vec![1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        (b"trusted.x".to_vec(), b"1".to_vec()),
        (b"user.x".to_vec(), b"2".to_vec()),
    ];
    restore(&mut worker, &readonly, b"d", b"none", b"x").unwrap();
    assert_eq!(mode(&root.join("d/none")), 0);
    expected.xattrs_not_restored += 2;
    let mut in_parts = file(0);
    in_parts.xattrs = vec![(b"user.x".to_vec(), b"2".to_vec())];
    in_parts.extents = vec![Extent { len: 2, kind: ExtentKind::Parts }];
    created(worker.create_file(&in_parts, b"d", b"parts").unwrap()).leave().unwrap();
    worker.open_part(b"d", b"parts").unwrap().write_all_at(0, b"ab").unwrap();
    worker.finish_file(&in_parts, b"d", b"parts").unwrap();
    assert_eq!(mode(&root.join("d/parts")), 0);
    // Even after that it can be written to and finished.
    worker.open_part(b"d", b"parts").unwrap().write_all_at(1, b"c").unwrap();
    worker.finish_file(&in_parts, b"d", b"parts").unwrap();
    assert_eq!(mode(&root.join("d/parts")), 0);
    for name in ["none", "parts"] {
        let path = root.join("d").join(name);
        let set = fs::Permissions::from_mode(0o600);
        assert_eq!(fs::metadata(&path).unwrap().mtime(), TIME.sec);
        fs::set_permissions(&path, set).unwrap();
        assert_eq!(xattr(&path, "user.x").as_deref(), Some(&b"2"[..]), "{name}");
    }
    assert_eq!(fs::read(root.join("d/parts")).unwrap(), b"ac");

    // Device nodes, and one that exists: it stays if the new one cannot be made.
    let device = Entry { rdev: (1, 3), ..entry(Kind::CharDevice, 0o666) };
    assert_eq!(worker.make_node(&device, b"d", b"null").unwrap(), Made::NotPermitted);
    assert_eq!(worker.make_node(&device, b"d", b"a").unwrap(), Made::NotPermitted);
    assert_eq!(fs::read(root.join("d/a")).unwrap(), b"data");
    expected.nodes_not_restored += 2;
    let link = somebody(Entry { target: b"x".to_vec(), ..entry(Kind::Symlink, 0o777) });
    assert_eq!(worker.make_node(&link, b"d", b"link").unwrap(), Made::Made);
    expected.owners_not_restored += 1;

    // Immutable is root's; no-dump anybody's.
    let flags = Entry { inode_flags: 0x50, ..file(0o644) };
    restore(&mut worker, &flags, b"d", b"flags", b"x").unwrap();
    worker.finish_flags(&flags, b"d", b"flags").unwrap();
    expected.flags_not_restored += 1;
    let shown = crate::run("lsattr", &[root.join("d/flags").as_ref()]);
    assert!(shown.split(' ').next().unwrap().contains('d'), "{shown}");

    // A directory without rights, finished after what is below it.
    restore(&mut worker, &file(0o600), b"d/closed/sub", b"f", b"x").unwrap();
    worker.finish_dir(&entry(Kind::Dir, 0o500), b"d/closed/sub").unwrap();
    worker.finish_dir(&entry(Kind::Dir, 0), b"d/closed").unwrap();
    assert_eq!(mode(&root.join("d/closed")), 0);
    assert_eq!(fs::metadata(root.join("d/closed")).unwrap().mtime(), TIME.sec);
    // Neither readable: opened as a mere place, by a worker that has nothing open.
    let mut other = target.worker();
    other
        .finish_dir(&Entry { mtime: Default::default(), ..entry(Kind::Dir, 0o300) }, b"d/closed")
        .unwrap();
    assert_eq!(mode(&root.join("d/closed")), 0o300);
    assert_eq!(fs::metadata(root.join("d/closed")).unwrap().mtime(), 0);
    restore(&mut target.worker(), &file(0o600), b"d/closed", b"f", b"x").unwrap();
    assert!(restore(&mut target.worker(), &file(0o600), b"d/closed/sub", b"g", b"x").is_err());

    // Somebody else's directory: used, but neither mode nor times are ours to set.
    if root.join("foreign").is_dir() {
        restore(&mut worker, &file(0o600), b"foreign", b"f", b"x").unwrap();
        worker.finish_dir(&somebody(entry(Kind::Dir, 0o755)), b"foreign").unwrap();
        assert_eq!(mode(&root.join("foreign")), 0o777);
        expected.modes_not_restored += 1;
    }
    assert_eq!(target.tally().totals(), expected);
    let set = fs::Permissions::from_mode(0o700);
    fs::set_permissions(root.join("d/closed"), set.clone()).unwrap();
    fs::set_permissions(root.join("d/closed/sub"), set).unwrap();
}
