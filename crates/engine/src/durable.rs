//! Names of files and directories that stay after a power cut.
//!
//! A file's bytes are durable when it was synchronised, its name only when the directory was that has it; and that directory's own
//! name when its parent was. Whoever makes or renames something that is to be there tomorrow does it through here.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What of a file system names depend on; a disk, or one in memory whose power fails.
pub trait Names {
    /// Makes a directory with these permissions; its parent has to be there.
    fn make_directory(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Whether a directory is there.
    fn is_directory(&self, path: &Path) -> bool;
    /// Whether a directory is the root of its file system, or that is all there is.
    fn is_root(&self, path: &Path) -> bool;
    /// Gives a file another name, in the place of the one that has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes durable which names a directory has.
    fn synchronise(&self, directory: &Path) -> io::Result<()>;
}

/// The file systems of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Names for Disk {
    fn make_directory(&self, path: &Path, mode: u32) -> io::Result<()> {
        DirBuilder::new().mode(mode).create(path)
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn is_root(&self, path: &Path) -> bool {
        let of = |path: &Path| fs::metadata(path).map(|m| m.dev());
        match (of(path), of(&parent_of(path))) {
            (Ok(own), Ok(above)) => own != above || parent_of(path) == path,
            _ => true,
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn synchronise(&self, directory: &Path) -> io::Result<()> {
        match File::open(directory) {
            Ok(opened) => match opened.sync_all() {
                // Some file systems of the network synchronise no directories: there names are durable when they are made.
                Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
                done => done,
            },
            // A directory that may be passed through and not be read is not ours to synchronise.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            Err(e) => Err(e),
        }
    }
}

/// The directory that has a path's name.
pub fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => path.to_owned(),
    }
}

/// Makes a directory, durably, if it is not there.
pub fn create_directory(path: &Path, mode: u32) -> io::Result<()> {
    create_directory_on(&Disk, path, mode)
}

/// Makes a directory and those above it that are not there, durably.
pub fn create_directories(path: &Path, mode: u32) -> io::Result<()> {
    create_directories_on(&Disk, path, mode)
}

/// Gives a file another name, durably, in the place of the one that has it. The file's bytes are durable already.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    rename_on(&Disk, from, to)
}

/// Makes the name of a file or directory durable.
pub fn synchronise_name(path: &Path) -> io::Result<()> {
    Disk.synchronise(&parent_of(path))
}

/// Makes the names of a directory and of all above it durable, up to the root of its file system: whoever made them may not have
/// done so.
pub fn synchronise_way_to(path: &Path) -> io::Result<()> {
    // Relative names have their directories above them, too.
    let whole = fs::canonicalize(path)?;
    synchronise_way_on(&Disk, &whole)
}

/// [`create_directory`] on a given disk.
pub fn create_directory_on(disk: &dyn Names, path: &Path, mode: u32) -> io::Result<()> {
    match disk.make_directory(path, mode) {
        // Who made it may not have come to synchronise it.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && disk.is_directory(path) => {}
        made => made?,
    }
    disk.synchronise(&parent_of(path))
}

/// [`create_directories`] on a given disk.
pub fn create_directories_on(disk: &dyn Names, path: &Path, mode: u32) -> io::Result<()> {
    let mut missing = vec![path];
    for above in path.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()) {
        if disk.is_directory(above) {
            break;
        }
        missing.push(above);
    }
    missing.iter().rev().try_for_each(|path| create_directory_on(disk, path, mode))
}

/// [`rename`] on a given disk.
pub fn rename_on(disk: &dyn Names, from: &Path, to: &Path) -> io::Result<()> {
    disk.rename(from, to)?;
    let (before, now) = (parent_of(from), parent_of(to));
    disk.synchronise(&now)?;
    if before == now { Ok(()) } else { disk.synchronise(&before) }
}

/// [`synchronise_way_to`] on a given disk, of a whole path.
pub fn synchronise_way_on(disk: &dyn Names, path: &Path) -> io::Result<()> {
    let mut at = path.to_owned();
    while !disk.is_root(&at) {
        at = parent_of(&at);
        disk.synchronise(&at)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    /// Directories and files in memory; whatever was not synchronised when the power fails is lost.
    #[derive(Default)]
    struct Lossy {
        /// Each name with what it is, and whether it is durable.
        names: RefCell<BTreeMap<PathBuf, (bool, bool)>>,
        left: RefCell<u32>,
    }

    impl Lossy {
        fn new(there: &[&str], operations: u32) -> Self {
            let names = there.iter().map(|path| (PathBuf::from(path), (true, true)));
            Self { names: RefCell::new(names.collect()), left: RefCell::new(operations) }
        }

        fn operate(&self) -> io::Result<()> {
            let mut left = self.left.borrow_mut();
            *left = left.checked_sub(1).ok_or_else(|| io::Error::other("the power has failed"))?;
            Ok(())
        }

        /// Whether a name and all above it are there after the power failed.
        fn survives(&self, path: &str) -> bool {
            let names = self.names.borrow();
            Path::new(path).ancestors().all(|p| names.get(p).is_some_and(|(_, durable)| *durable))
        }
    }

    impl Names for Lossy {
        fn make_directory(&self, path: &Path, _: u32) -> io::Result<()> {
            self.operate()?;
            let mut names = self.names.borrow_mut();
            if names.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            if !names.contains_key(&parent_of(path)) {
                return Err(io::ErrorKind::NotFound.into());
            }
            names.insert(path.to_owned(), (true, false));
            Ok(())
        }
        fn is_directory(&self, path: &Path) -> bool {
            self.names.borrow().get(path).is_some_and(|(directory, _)| *directory)
        }
        fn is_root(&self, path: &Path) -> bool {
            path == Path::new("/")
        }
        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.operate()?;
            let mut names = self.names.borrow_mut();
            let (directory, _) = names.remove(from).ok_or(io::ErrorKind::NotFound)?;
            names.insert(to.to_owned(), (directory, false));
            Ok(())
        }
        fn synchronise(&self, directory: &Path) -> io::Result<()> {
            self.operate()?;
            let mut names = self.names.borrow_mut();
            let own = names.iter_mut().filter(|(path, _)| parent_of(path) == directory);
            own.for_each(|(_, (_, durable))| *durable = true);
            Ok(())
        }
    }

    /// Does it with the power failing at every operation: whenever it says that it is done, the name survives.
    fn cut_everywhere(there: &[&str], name: &str, work: impl Fn(&Lossy) -> io::Result<()>) {
        for operations in 0.. {
            let disk = Lossy::new(there, operations);
            if work(&disk).is_ok() {
                assert!(disk.survives(name), "{name} after {operations} operations");
                return;
            }
        }
    }

    #[test]
    fn what_was_made_is_there_after_a_power_cut() {
        let to = Path::new("/mnt/a/b/c");
        cut_everywhere(&["/", "/mnt"], "/mnt/a/b/c", |d| create_directories_on(d, to, 0o700));
        let to = Path::new("/mnt/a");
        cut_everywhere(&["/", "/mnt"], "/mnt/a", |d| create_directory_on(d, to, 0o755));
        // One that somebody else has just made is as little durable.
        cut_everywhere(&["/", "/mnt"], "/mnt/a", |d| {
            d.make_directory(to, 0o755)?;
            create_directory_on(d, to, 0o755)
        });
        cut_everywhere(&["/", "/mnt"], "/mnt/a/b", |d| {
            d.make_directory(to, 0o755)?;
            d.make_directory(&to.join("b"), 0o755)?;
            synchronise_way_on(d, &to.join("b"))
        });
        cut_everywhere(&["/", "/x", "/x/f", "/y"], "/y/g", |d| {
            rename_on(d, Path::new("/x/f"), Path::new("/y/g"))
        });
    }

    #[test]
    fn names_of_a_real_disk() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        create_directories(&deep, 0o700).unwrap();
        create_directories(&deep, 0o700).unwrap();
        assert_eq!(deep.metadata().unwrap().mode() & 0o777, 0o700);
        synchronise_way_to(&deep).unwrap();
        fs::write(deep.join("f"), "f").unwrap();
        rename(&deep.join("f"), &dir.path().join("g")).unwrap();
        synchronise_name(&dir.path().join("g")).unwrap();
        let file = dir.path().join("g");
        assert!(create_directory(&file, 0o700).is_err(), "a file is no directory");
        assert!(create_directories(&file.join("below"), 0o700).is_err());
        assert_eq!(parent_of(Path::new("name")), Path::new("."));
    }
}
