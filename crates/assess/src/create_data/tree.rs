//! The directories: a numbered tree of given depth and breadth, made by arithmetic.
//!
//! Directories are numbered depth first, each before its children, so the first n of them are
//! always connected and reach the full depth early.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Timespec, Timestamps};

use super::MTIME_UNIX_S;
use super::error::{CreateDataError, io_error};
use super::options::Options;

/// More directories than this without files in them are a mistake in depth or breadth.
const DIRS_MAX: u64 = 100_000_000;
/// Longest path in bytes: PATH_MAX without its final zero.
const PATH_LENGTH_MAX: u64 = 4095;

/// The shape of the tree and the place of each file in it.
#[derive(Debug)]
pub(super) struct Tree {
    depth: u32,
    breadth: u64,
    /// Directories below the target, all of which get created.
    dirs: u64,
    files: u64,
    files_per_dir: Option<u64>,
    dir_digits: usize,
    file_digits: usize,
}

impl Tree {
    pub(super) fn new(options: &Options, files: u64) -> Result<Self, CreateDataError> {
        let breadth = u64::from(options.breadth);
        let possible = subtree_dirs(options.depth, breadth) - 1;
        let dirs = match options.files_per_dir {
            Some(files_per_dir) => {
                let needed = files.div_ceil(files_per_dir);
                if needed > possible.max(1) {
                    let dirs = possible.max(1);
                    return Err(CreateDataError::TreeTooSmall { files, dirs, files_per_dir });
                }
                needed.min(possible)
            }
            None if possible > DIRS_MAX => {
                let problem = format!(
                    "and --breadth make more than {DIRS_MAX} directories: lower them or give \
                     --files-per-dir to create only those with files"
                );
                return Err(CreateDataError::bad_option("depth", problem));
            }
            None => possible,
        };
        Ok(Self {
            depth: options.depth,
            breadth,
            dirs,
            files,
            files_per_dir: options.files_per_dir,
            dir_digits: digits(breadth.saturating_sub(1)),
            file_digits: digits(files - 1).max(6),
        })
    }

    /// Directories below the target.
    pub(super) fn dirs(&self) -> u64 {
        self.dirs
    }

    /// The directory of file number `index`; `None` is the target itself.
    pub(super) fn dir_of(&self, index: u64) -> Option<u64> {
        match self.files_per_dir {
            _ if self.dirs == 0 => None,
            Some(files_per_dir) => Some(index / files_per_dir),
            None => {
                Some((u128::from(index) * u128::from(self.dirs) / u128::from(self.files)) as u64)
            }
        }
    }

    /// The path of directory number `dir` below `target`.
    pub(super) fn dir_path(&self, target: &Path, dir: Option<u64>) -> PathBuf {
        let mut path = target.to_path_buf();
        let Some(mut rest) = dir else { return path };
        let width = self.dir_digits;
        for level in 1..=self.depth {
            let subtree = subtree_dirs(self.depth - level, self.breadth);
            path.push(format!("d{:0width$}", rest / subtree));
            rest %= subtree;
            if rest == 0 {
                break;
            }
            rest -= 1;
        }
        path
    }

    /// The name of file number `index` in its directory, unique in the whole tree.
    pub(super) fn file_name(&self, index: u64) -> String {
        format!("f{index:0width$}", width = self.file_digits)
    }

    /// Refuses a tree whose deepest paths the system would refuse half way.
    pub(super) fn check_path_length(&self, target: &Path) -> Result<(), CreateDataError> {
        let levels = u64::from(self.depth).min(self.dirs);
        let names = levels * (2 + self.dir_digits as u64) + 2 + self.file_digits as u64;
        let length = target.as_os_str().as_bytes().len() as u64 + names;
        if length > PATH_LENGTH_MAX {
            let limit = PATH_LENGTH_MAX;
            return Err(CreateDataError::PathTooLong { path: target.into(), length, limit });
        }
        Ok(())
    }

    /// Creates the directories, parents first.
    pub(super) fn create_dirs(&self, target: &Path) -> Result<(), CreateDataError> {
        for dir in 0..self.dirs {
            let path = self.dir_path(target, Some(dir));
            fs::create_dir(&path).map_err(io_error("create", &path))?;
        }
        Ok(())
    }

    /// Sets the times of all directories and of the target.
    pub(super) fn set_times(&self, target: &Path) -> Result<(), CreateDataError> {
        for dir in (0..self.dirs).map(Some).chain([None]) {
            let path = self.dir_path(target, dir);
            rustix::fs::utimensat(rustix::fs::CWD, &path, &fixed_times(), AtFlags::empty())
                .map_err(|e| io_error("set the times of", &path)(e.into()))?;
        }
        Ok(())
    }
}

/// The times of everything in the tree.
pub(super) fn fixed_times() -> Timestamps {
    let time = Timespec { tv_sec: MTIME_UNIX_S, tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}

/// Directories in a tree of `levels` below its top, with the top; `u64::MAX` stands for too many.
fn subtree_dirs(levels: u32, breadth: u64) -> u64 {
    if breadth == 1 {
        return u64::from(levels) + 1;
    }
    let mut dirs = 1_u64;
    for _ in 0..levels {
        let grown = dirs.saturating_mul(breadth).saturating_add(1);
        if grown == dirs || grown == u64::MAX {
            return grown;
        }
        dirs = grown;
    }
    dirs
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn tree(depth: u32, breadth: u32, files_per_dir: Option<u64>, files: u64) -> Tree {
        Tree::new(&Options { depth, breadth, files_per_dir, ..Options::default() }, files).unwrap()
    }

    #[test]
    fn numbers_are_depth_first_with_parents_first() {
        let tree = tree(3, 3, None, 1000);
        assert_eq!(tree.dirs(), 39);
        let mut seen = BTreeSet::from([PathBuf::new()]);
        for dir in 0..tree.dirs() {
            let path = tree.dir_path(Path::new(""), Some(dir));
            assert!(seen.contains(path.parent().unwrap()), "{path:?} before its parent");
            assert!(seen.insert(path.clone()), "{path:?} twice");
        }
        let first: Vec<_> = (0..5).map(|dir| tree.dir_path(Path::new(""), Some(dir))).collect();
        let expected = ["d0", "d0/d0", "d0/d0/d0", "d0/d0/d1", "d0/d0/d2"];
        assert_eq!(first, expected.map(PathBuf::from));
        assert_eq!(tree.dir_path(Path::new(""), Some(38)), Path::new("d2/d2/d2"));
    }

    #[test]
    fn files_fill_the_directories() {
        let by_count = tree(3, 10, Some(300), 300_000);
        assert_eq!(by_count.dirs(), 1000);
        assert_eq!(by_count.dir_of(299), Some(0));
        assert_eq!(by_count.dir_of(299_999), Some(999));
        let even = tree(1, 4, None, 10);
        let dirs: Vec<_> = (0..10).filter_map(|index| even.dir_of(index)).collect();
        assert_eq!(dirs, [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]);
        assert_eq!(tree(0, 5, None, 10).dir_of(9), None);
        assert_eq!(tree(0, 5, Some(10), 10).dir_of(9), None);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let options = |depth, breadth, files_per_dir| Options {
            depth,
            breadth,
            files_per_dir,
            ..Options::default()
        };
        let error = Tree::new(&options(1, 2, Some(10)), 21).unwrap_err();
        assert!(matches!(error, CreateDataError::TreeTooSmall { dirs: 2, .. }), "{error}");
        assert!(Tree::new(&options(0, 2, Some(10)), 11).is_err());
        assert!(Tree::new(&options(u32::MAX, 1, None), 1).unwrap_err().is_bad_input());
        assert!(Tree::new(&options(100, 100, None), 1).unwrap_err().is_bad_input());
        assert!(Tree::new(&options(100, 100, Some(1)), 1000).is_ok());
        let deep = Tree::new(&options(2000, 1, Some(1)), 2000).unwrap();
        assert!(matches!(
            deep.check_path_length(Path::new("/tmp")),
            Err(CreateDataError::PathTooLong { length: 6012, .. })
        ));
    }
}
