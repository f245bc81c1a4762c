//! What a walk does not come to: directories that cannot be listed, mount points without their disk, roots that are not there. What the
//! base has there stays, and the next walk is to know of it.

use std::collections::HashSet;

use capstan_engine::message::path_text;
use capstan_format::entry::join;

use crate::walk::is_inside;

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
    /// How much of what the base has there is in it.
    found: u64,
    /// How much is not.
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
    pub fn holds(&mut self, path: Vec<u8>, is_itself: bool) {
        self.holding.push(Holding { path, is_itself, found: 0, lacks: 0 });
    }

    /// A directory that an empty file system lies over. What the base has in it stays.
    pub fn covered(&mut self, path: Vec<u8>) {
        self.dirs.push(path.clone());
        self.covered.push(path);
    }

    /// The walk met something that the base has.
    pub fn met(&mut self, dir: &[u8], name: &[u8]) {
        if !self.holding.is_empty() {
            let path = join(dir, name);
            let inner = |of: &&mut Holding| is_inside(&path, &of.path);
            if let Some(of) = self.holding.iter_mut().rev().find(inner) {
                of.found += 1;
            }
        }
    }

    /// The walk did not meet what the base has at a path. What is in directories that could not be listed may be there as it was.
    pub fn stays(&mut self, path: &[u8]) -> Stays {
        if let Some(of) = self.holding.iter_mut().rev().find(|of| is_inside(path, &of.path)) {
            of.lacks += 1;
        }
        if let Some(at) = self.covered.iter().position(|dir| is_inside(path, dir)) {
            return Stays::Covered(self.covered.remove(at));
        }
        let stays = self.dirs.iter().any(|dir| is_inside(path, dir))
            || self.absent.iter().any(|root| is_inside(root, path));
        if stays { Stays::Yes } else { Stays::No }
    }

    /// Takes a mount point for given up in which at least half is of what the base has there: somebody moved it there from the disk.
    /// Returns those that are still missed.
    pub fn give_up(&mut self) -> Vec<Vec<u8>> {
        let (moved, missed): (Vec<_>, Vec<_>) =
            self.holding.drain(..).partition(|of| of.found > 0 && of.found >= of.lacks);
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

    #[test]
    fn a_mount_point_is_given_up_where_half_of_it_was_moved() {
        for (found, lacks, given_up) in [(0, 0, false), (0, 1, false), (1, 2, false), (2, 2, true)]
        {
            let mut of = Missed::default();
            of.root(b"m".into());
            of.holds(b"m".into(), true);
            (0..found).for_each(|_| of.met(b"m", b"f"));
            of.met(b"other", b"f");
            (0..lacks).for_each(|_| assert_eq!(of.stays(b"m/gone"), Stays::Yes));
            assert_eq!(of.give_up().is_empty(), given_up, "{found} {lacks}");
            assert_eq!(missed(&["/m"], &of).is_empty(), given_up, "{found} {lacks}");
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
