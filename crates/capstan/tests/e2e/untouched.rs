//! What an incremental backup does to files that did not change: it asks for their inodes, and opens none.

use std::collections::{BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use crate::support::{Lab, is_root, noise};

const DIRS: usize = 8;
const FILES: usize = 1_600;

/// Says which files are opened.
struct Opens {
    inotify: OwnedFd,
    dirs: HashMap<i32, String>,
}

impl Opens {
    fn of(lab: &Lab, dirs: impl IntoIterator<Item = String>) -> Self {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        let mut known = HashMap::new();
        for dir in dirs {
            let path = lab.path(&dir);
            known.insert(inotify::add_watch(&inotify, &path, WatchFlags::OPEN).unwrap(), dir);
        }
        Self { inotify, dirs: known }
    }

    /// Files that were opened since it was asked last.
    fn files(&self) -> BTreeSet<String> {
        let mut buffer = [MaybeUninit::uninit(); 64 << 10];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut files = BTreeSet::new();
        while let Ok(event) = reader.next() {
            assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW), "more than are queued");
            if let Some(name) =
                event.file_name().filter(|_| !event.events().contains(ReadFlags::ISDIR))
            {
                files.insert(format!("{}/{}", self.dirs[&event.wd()], name.to_string_lossy()));
            }
        }
        files
    }
}

fn tree(lab: &Lab) -> Vec<String> {
    for i in 0..FILES {
        lab.file(&format!("tree/d{}/f{i}", i % DIRS), noise(i as u64, 3_000));
    }
    // Some have several names. None was changed just now: such files are asked whether somebody writes to them.
    lab.sh("cd tree; for i in 1 2 3; do ln d1/f1 d2/again$i; done; ln -s f1 d1/symlink; \
            find . -type f -exec touch -d '2020-02-02' {} +");
    (0..DIRS).map(|d| format!("tree/d{d}")).collect()
}

#[test]
fn an_incremental_opens_only_what_changed() {
    let lab = Lab::new();
    let opens = Opens::of(&lab, tree(&lab));
    let backup = || lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    assert_eq!(backup()["method"], "full");
    assert!(opens.files().len() >= FILES, "the watch sees what is opened");
    let unchanged = backup();
    assert_eq!((&unchanged["method"], &unchanged["bytes_read"]), (&"incr".into(), &0.into()));
    assert_eq!(opens.files(), BTreeSet::new());
    lab.sh("cd tree; echo new >d3/new; echo more >>d4/f4; touch -d 2021-01-01 d5/f5; rm d6/f6; chmod 600 d7/f7");
    opens.files();
    let changed = backup();
    let expected = ["tree/d3/new", "tree/d4/f4", "tree/d5/f5", "tree/d7/f7"];
    assert_eq!(opens.files(), expected.map(str::to_owned).into(), "{changed:#}");
}

#[test]
fn a_cold_one_does_not_either() {
    let lab = Lab::new();
    let opens = Opens::of(&lab, tree(&lab));
    let backup = || lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    backup();
    opens.files();
    if is_root() {
        // A plain user finds a warm source: he has to open nothing all the same.
        lab.sh("sync; echo 3 >/proc/sys/vm/drop_caches");
    }
    let unchanged = backup();
    assert_eq!(unchanged["bytes_read"], 0, "{unchanged:#}");
    assert_eq!(opens.files(), BTreeSet::new());
}
