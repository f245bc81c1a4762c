//! Comparison of a restored tree with its source by other programs than ours.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::support::{Lab, finish, is_root};

/// rsync sees no difference, in either direction: contents, owners, modes, times, links, ACLs, xattrs, devices.
pub fn same_by_rsync(source: &Path, restored: &Path) {
    same_by_rsync_with(&[], source, restored);
}

pub fn same_by_rsync_with(options: &[&str], source: &Path, restored: &Path) {
    let mut command = std::process::Command::new("rsync");
    command.args(["-aHAXn", "--checksum", "--delete", "--itemize-changes"]).args(options);
    // `-n` and a modify window of -1: nanoseconds too.
    command.arg("--modify-window=-1");
    for path in [source, restored] {
        let mut path = path.as_os_str().to_owned();
        path.push("/");
        command.arg(path);
    }
    let run = finish(&mut command);
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, ""),
        "rsync finds a difference: {}",
        run.stderr
    );
}

/// getfacl, getfattr and lsattr print the same for both.
pub fn same_attributes(lab: &Lab, source: &Path, restored: &Path) {
    let trees = [source, restored].map(|tree| {
        let print = |command: &str| {
            let mut bash = lab.program("bash");
            let run = finish(bash.args(["-c", command]).current_dir(tree).env("LC_ALL", "C"));
            run.stdout
        };
        [
            // As root, trusted and security attributes are seen too.
            print("find . -print0 | sort -z | xargs -0 getfattr -h -d -m - -e hex --absolute-names"),
            print("find . -not -type l -print0 | sort -z | xargs -0 getfacl -n --absolute-names"),
            // Only regular files and directories have inode flags. `e` (extents) is the file system's own business.
            print("find . \\( -type f -o -type d \\) -print0 | sort -z | xargs -0 lsattr -d | sed 's/^\\(\\S*\\)e/\\1-/'"),
        ]
    });
    let [a, b] = trees;
    for (what, (a, b)) in ["getfattr", "getfacl", "lsattr"].iter().zip(a.iter().zip(&b)) {
        assert!(!b.is_empty() || a.is_empty(), "{what} prints nothing of what was restored");
        if a != b {
            let differ: Vec<_> = a.lines().zip(b.lines()).filter(|(a, b)| a != b).take(5).collect();
            panic!(
                "{what} differs ({} and {} lines): {differ:#?}",
                a.lines().count(),
                b.lines().count()
            );
        }
    }
}

/// What `lstat` says of each file of a tree: type, mode, owner, device, length, time to the nanosecond, link text, and
/// which names are one inode.
pub fn manifest(tree: &Path) -> BTreeMap<Vec<u8>, String> {
    let mut all = BTreeMap::new();
    let mut inodes: HashMap<(u64, u64), Vec<u8>> = HashMap::new();
    let mut todo = vec![tree.to_owned()];
    while let Some(dir) = todo.pop() {
        let mut names: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
        names.sort();
        for path in names {
            let meta = fs::symlink_metadata(&path).unwrap();
            let key = path.strip_prefix(tree).unwrap().as_os_str().as_bytes().to_vec();
            all.insert(key, String::new());
            if meta.is_dir() {
                todo.push(path);
            }
        }
    }
    // In the order of names, so that the first name of an inode is the same on both sides.
    for (name, line) in &mut all {
        let path = tree.join(OsStr::from_bytes(name));
        let meta = fs::symlink_metadata(&path).unwrap();
        let kind = meta.file_type();
        let length = if kind.is_dir() { 0 } else { meta.len() };
        let device = if kind.is_char_device() || kind.is_block_device() { meta.rdev() } else { 0 };
        let links = if kind.is_dir() { 0 } else { meta.nlink() };
        let first = inodes.entry((meta.dev(), meta.ino())).or_insert_with(|| name.clone());
        *line = format!(
            "{:o} {}:{} dev {device:x} len {length} time {}.{:09} links {links} as {:?} -> {:?}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime(),
            meta.mtime_nsec(),
            OsStr::from_bytes(first),
            fs::read_link(&path).ok(),
        );
    }
    all
}

/// The manifests are the same.
pub fn same_manifest(source: &Path, restored: &Path) {
    let (a, b) = (manifest(source), manifest(restored));
    assert!(!a.is_empty(), "nothing to compare in {}", source.display());
    for (name, line) in &a {
        assert_eq!(Some(line), b.get(name), "{:?}", OsStr::from_bytes(name));
    }
    assert_eq!(a.len(), b.len(), "names that were not in the source");
}

/// All of the above.
pub fn same(lab: &Lab, source: &Path, restored: &Path) {
    same_by_rsync(source, restored);
    same_manifest(source, restored);
    same_attributes(lab, source, restored);
    let top = [source, restored].map(|p| fs::symlink_metadata(p).unwrap());
    let of = |m: &fs::Metadata| (m.mode(), m.uid(), m.gid(), m.mtime(), m.mtime_nsec());
    assert_eq!(of(&top[0]), of(&top[1]), "the tree's own directory");
    if is_root() {
        assert_eq!(top[0].uid(), top[1].uid());
    }
}
