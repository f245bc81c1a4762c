//! What a walk does not come to: directories that cannot be listed, mount points without their disk, roots that are not there. What the
//! base has there stays, and the next walk is to know of it.

use std::collections::HashSet;

use capstan_engine::message::path_text;
use capstan_format::entry::{Kind, is_inside, join};

use crate::linux::source::{self, DirHandle};
use capstan_port::disk::base::BaseRow;

/// The places that a walk did not come to, so far.
#[derive(Default)]
pub(crate) struct Missed {
    /// Directories that are there and cannot be listed, or lack what is to be mounted there; and roots that are not come to.
    dirs: Vec<Vec<u8>>,
    /// Roots that are not there: what leads to them stays too.
    absent: Vec<Vec<u8>>,
    /// Roots that are not come to, whatever the reason.
    roots: Vec<Vec<u8>>,
    /// Mount points without their disk in which something is.
    holding: Vec<Holding>,
    /// Directories that an empty file system lies over, and of which it is not known yet whether the base has something in them.
    covered: Vec<Vec<u8>>,
}

/// A mount point without its disk in which something is.
struct Holding {
    path: Vec<u8>,
    /// Whether it is the mount point, and not below it.
    is_itself: bool,
    /// The device of its disk, if the base has the disk's root or something in it at that path.
    disk: Option<u64>,
    /// How many of the disk's files are in it as they were.
    found: u64,
    /// How much of what the base has there is not in it, or is another thing there.
    lacks: u64,
}

/// Whether something that the base has and the walk did not meet stays.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stays {
    No,
    Yes,
    /// It does, as the first in a directory that an empty file system lies over.
    Covered(Vec<u8>),
}

impl Missed {
    /// A directory that could not be listed, or lacks what is to be mounted there.
    pub fn dir(&mut self, path: Vec<u8>) {
        self.dirs.push(path);
    }

    /// A root that is there and not come to.
    pub fn root(&mut self, path: Vec<u8>) {
        self.roots.push(path.clone());
        self.dirs.push(path);
    }

    /// A root that is not there.
    pub fn absent(&mut self, path: Vec<u8>) {
        self.absent.push(path.clone());
        self.root(path);
    }

    /// A mount point without its disk in which something is, or a root below one; it was missed already.
    /// `disk` is the device of its disk by the base.
    pub fn holds(&mut self, path: Vec<u8>, is_itself: bool, disk: Option<u64>) {
        self.holding.push(Holding { path, is_itself, disk, found: 0, lacks: 0 });
    }

    /// A directory that an empty file system lies over. What the base has in it stays.
    pub fn covered(&mut self, path: Vec<u8>) {
        self.dirs.push(path.clone());
        self.covered.push(path);
    }

    /// The walk met a name that the base has a row of. Whether that is of a disk that is not mounted: what has its name now stands in for
    /// it. That counts as moved there where it is a file that has its size and time still.
    pub fn met(&mut self, dir: &DirHandle, name: &[u8], row: &BaseRow) -> bool {
        if self.holding.is_empty() {
            return false;
        }
        let path = join(&dir.path, name);
        let inner = |of: &&mut Holding| is_inside(&path, &of.path) && of.disk == Some(row.dev);
        let Some(of) = self.holding.iter_mut().rev().find(inner) else { return false };
        let Ok(stat) = source::stat_at(dir, name) else { return true };
        let kind = source::kind_of_mode(stat.st_mode);
        let is_same = kind == Some(row.kind)
            && (kind != Some(Kind::File)
                || (stat.st_size as u64, source::mtime_of(&stat)) == (row.size, row.mtime));
        of.found += u64::from(is_same && kind == Some(Kind::File));
        of.lacks += u64::from(!is_same);
        true
    }

    /// The walk did not meet what the base has at a path. What is in directories that could not be listed may be there as it was.
    pub fn stays(&mut self, path: &[u8]) -> Stays {
        if let Some(of) = self.holding.iter_mut().rev().find(|of| is_inside(path, &of.path)) {
            // What each file system has of its own is not moved with its files.
            of.lacks += u64::from(!is_inside(path, &join(&of.path, b"lost+found")));
        }
        if let Some(at) = self.covered.iter().position(|dir| is_inside(path, dir)) {
            return Stays::Covered(self.covered.remove(at));
        }
        let stays = self.dirs.iter().any(|dir| is_inside(path, dir))
            || self.absent.iter().any(|root| is_inside(root, path));
        if stays { Stays::Yes } else { Stays::No }
    }

    /// Takes a mount point for given up in which all is that the base has there: somebody moved it there from the disk. Where some of it
    /// lacks, a restore or a copy may not be done yet.
    /// Returns those that are still missed.
    pub fn give_up(&mut self) -> Vec<Vec<u8>> {
        let (moved, missed): (Vec<_>, Vec<_>) =
            self.holding.drain(..).partition(|of| of.found > 0 && of.lacks == 0);
        let moved: HashSet<Vec<u8>> = moved.into_iter().map(|of| of.path).collect();
        self.dirs.retain(|dir| !moved.contains(dir));
        self.roots.retain(|root| !moved.contains(root));
        missed.into_iter().filter(|of| of.is_itself).map(|of| of.path).collect()
    }

    /// Of these paths, as messages write them, those that the walk did not come to, or that lie above a root that it did not come to.
    pub fn among<'p>(&self, paths: impl Iterator<Item = &'p String>) -> Vec<&'p str> {
        let text = |paths: &[Vec<u8>]| paths.iter().map(|path| path_text(path)).collect();
        let (dirs, roots): (Vec<_>, Vec<_>) = (text(&self.dirs), text(&self.roots));
        let missed = |path: &&str| {
            dirs.iter().any(|dir| is_inside(path.as_bytes(), dir.as_bytes()))
                || roots.iter().any(|root| is_inside(root.as_bytes(), path.as_bytes()))
        };
        paths.map(|path| path.trim_start_matches('/')).filter(missed).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use capstan_format::entry::Timestamp;

    use super::*;

    fn missed(paths: &[&str], of: &Missed) -> Vec<String> {
        let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
        of.among(paths.iter()).into_iter().map(Into::into).collect()
    }

    #[test]
    fn what_is_in_a_missed_directory_and_what_leads_to_an_absent_root_stays() {
        let mut of = Missed::default();
        of.dir(b"a/closed".into());
        of.absent(b"b/disk/root".into());
        for (path, stays) in [
            ("a/closed", Stays::Yes),
            ("a/closed/f", Stays::Yes),
            ("a/closed2", Stays::No),
            ("a", Stays::No),
            ("b/disk", Stays::Yes),
            ("b/disk/other", Stays::No),
        ] {
            assert_eq!(of.stays(path.as_bytes()), stays, "{path}");
        }
        assert_eq!(
            missed(&["/a/closed/m", "/a", "/b/disk", "/b/x"], &of),
            ["a/closed/m", "b/disk"]
        );
    }

    /// A directory with files of 3 bytes, and what a base says of one of that name.
    fn moved(names: &[&str]) -> (tempfile::TempDir, DirHandle, impl Fn(&str, u64, u64) -> BaseRow) {
        let temp = tempfile::tempdir().unwrap();
        names.iter().for_each(|name| std::fs::write(temp.path().join(name), "abc").unwrap());
        let fd = std::fs::File::open(temp.path()).unwrap().into();
        let dir = DirHandle { fd, path: b"m".into() };
        let at = temp.path().to_owned();
        let row = move |name: &str, dev, size| {
            let meta = std::fs::metadata(at.join(name)).unwrap();
            let mtime = Timestamp { sec: meta.mtime(), nsec: meta.mtime_nsec() as u32 };
            BaseRow {
                complete: true,
                sum: None,
                kind: Kind::File,
                access: None,
                details: None,
                size,
                mtime,
                ctime: mtime,
                ino: 1,
                dev,
                data: None,
                link_to: None,
                saved: Vec::new(),
            }
        };
        (temp, dir, row)
    }

    #[test]
    fn a_mount_point_is_given_up_where_all_that_it_had_was_moved_there() {
        const DISK: u64 = 7;
        let (_temp, dir, row) = moved(&["f"]);
        // Made anew, of another size, it is none of the disk's; nor is one that a backup found in the place of the disk.
        for (found, dev, size, lacks, given_up) in [
            (0, DISK, 3, 0, false),
            (0, DISK, 3, 1, false),
            (9, DISK, 3, 1, false),
            (1, DISK, 3, 0, true),
            (2, DISK, 4, 0, false),
            (2, DISK + 1, 3, 0, false),
        ] {
            let mut of = Missed::default();
            of.root(b"m".into());
            of.holds(b"m".into(), true, Some(DISK));
            let is_of_disk = dev == DISK;
            (0..found)
                .for_each(|_| assert_eq!(of.met(&dir, b"f", &row("f", dev, size)), is_of_disk));
            (0..lacks).for_each(|_| assert_eq!(of.stays(b"m/gone"), Stays::Yes));
            assert_eq!(of.give_up().is_empty(), given_up, "{found} {dev} {size} {lacks}");
            assert_eq!(missed(&["/m"], &of).is_empty(), given_up, "{found} {dev} {size} {lacks}");
        }
    }

    #[test]
    fn what_is_covered_is_said_once_and_only_if_the_base_has_something_there() {
        let mut of = Missed::default();
        of.covered(b"home".into());
        assert_eq!(of.stays(b"etc/f"), Stays::No);
        assert_eq!(of.stays(b"home/f"), Stays::Covered(b"home".into()));
        assert_eq!(of.stays(b"home/g"), Stays::Yes);
    }
}
