//! Where a restore writes: a directory tree that it never leaves, whatever the medium says.
//!
//! A [`Target`] is shared by all worker threads, each of which has its own [`Worker`]. The caller
//! decides the order: directories are made 0700 as they are needed, files and nodes get their
//! metadata at once, [`Worker::finish_dir`] comes when everything below the directory is restored
//! (deepest first, for a plain user cannot enter a directory once its final mode is set), and
//! [`Worker::finish_flags`] last of all, also deepest first: nothing more can be done to what is
//! immutable.
//!
//! A file that is to replace what exists is written beside it, and takes its place when it is finished; [`Worker::withdraw`] leaves what
//! exists as it is.
//!
//! Directories are opened relative to the target's root through real directories only; single
//! names in them are never followed. Contents and metadata are set by descriptor.

mod amend;
mod beside;
mod dirs;
mod error;
mod file;
mod ids;
mod leftovers;
mod meta;
mod names;
mod node;
mod policy;
mod tally;
mod worker;

use capstan_wire::restore::Overwrite;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::fs::DirBuilder;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::linux::restore as sys;
use beside::Beside;
use dirs::Dir;
use leftovers::Leftovers;

pub use amend::Existing;
pub use error::{ShownPath, TargetError};
pub use file::OpenFile;
pub use ids::IdMap;
pub use leftovers::Mark;
pub use names::{check_link_text, check_path};
pub use policy::Found;
pub use tally::{Tally, TallyTotals};
pub use worker::{Created, Made, Worker};

/// How a restore goes about its target.
#[derive(Debug, Clone, Copy)]
pub struct TargetOptions {
    /// What to do about files that exist.
    pub overwrite: Overwrite,
    /// Owners by number, even where the backup has their names.
    pub numeric_ids: bool,
}

/// A directory tree that is restored into.
#[derive(Debug)]
pub struct Target {
    root: Arc<Dir>,
    in_place: bool,
    overwrite: Overwrite,
    euid: u32,
    tally: Tally,
    ids: IdMap,
    /// Whether setting another owner was refused to this plain user.
    chown_refused: AtomicBool,
    /// Hashes of the directories that this restore made.
    made: Mutex<HashSet<u64>>,
    hasher: RandomState,
    temporary_names: AtomicU64,
    /// What names have that are given to what is written beside something.
    mark: Mark,
    leftovers: Leftovers,
    beside: Beside,
}

impl Target {
    /// Opens `root` as a target; if it is missing it is made, with mode 0700, and what leads to it.
    ///
    /// Sets the umask of the **process** to 0, for good: files are created with the modes of the
    /// backup, and asking for the umask's mercy would cost a system call per file.
    pub fn open(root: &Path, options: TargetOptions) -> Result<Self, TargetError> {
        let shown = || root.as_os_str().as_bytes().to_vec();
        DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(|source| {
            TargetError::Io { path: ShownPath(shown()), doing: "make the target directory", source }
        })?;
        let fd = sys::open_root(root)
            .map_err(|e| TargetError::io("open the target directory", shown(), e))?;
        sys::clear_umask();
        Ok(Self {
            root: Arc::new(Dir::existing(fd, Vec::new())),
            in_place: root == Path::new("/"),
            overwrite: options.overwrite,
            euid: sys::effective_uid(),
            tally: Tally::default(),
            ids: IdMap::new(options.numeric_ids),
            chown_refused: AtomicBool::new(false),
            made: Mutex::default(),
            hasher: RandomState::new(),
            temporary_names: AtomicU64::new(0),
            mark: Mark::drawn(),
            leftovers: Leftovers::default(),
            beside: Beside::default(),
        })
    }

    /// Opens `root` as a target where it is there; nothing is made.
    pub fn open_existing(root: &Path, options: TargetOptions) -> Result<Option<Self>, TargetError> {
        if root.is_dir() { Self::open(root, options).map(Some) } else { Ok(None) }
    }

    /// Opens the root of the file system: everything goes back where it was.
    pub fn in_place(options: TargetOptions) -> Result<Self, TargetError> {
        Self::open(Path::new("/"), options)
    }

    /// Whether names can be made in the root directory; else why not.
    pub fn check_writable(&self) -> Result<(), std::io::Error> {
        Ok(self.root.fd.check_writable()?)
    }

    /// Whether the root directory has something of that name.
    pub fn has(&self, name: &[u8]) -> bool {
        names::component(b"", name).is_ok_and(|name| sys::stat(&self.root.fd, &name).is_ok())
    }

    /// The means of one worker thread.
    pub fn worker(&self) -> Worker<'_> {
        Worker::new(self)
    }

    /// What could not be restored for lack of rights.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Owners of the backup mapped to owners here; entries given to workers have mapped ones.
    pub fn ids(&self) -> &IdMap {
        &self.ids
    }

    /// The user the restore acts as.
    pub fn euid(&self) -> u32 {
        self.euid
    }

    /// Whether the restore acts as root; a plain user can restore less: see [`Tally`].
    pub fn is_root(&self) -> bool {
        self.euid == 0
    }

    /// Waits until what was restored is on the disk.
    pub fn sync(&self) -> Result<(), TargetError> {
        if self.in_place {
            // It may have gone to any file system.
            sys::sync_all();
            return Ok(());
        }
        let synced = self.root.fd.sync_file_system();
        synced.map_err(|e| TargetError::io("write back to the disk", Vec::new(), e))
    }

    /// Keeps in mind that this restore made a directory: its metadata are this restore's to set.
    fn note_made(&self, path: &[u8]) {
        let hash = self.hasher.hash_one(path);
        self.made.lock().insert(hash);
    }

    /// Whether this restore made a directory.
    pub fn has_made(&self, path: &[u8]) -> bool {
        let hash = self.hasher.hash_one(path);
        self.made.lock().contains(&hash)
    }

    /// Whether a directory may be given metadata.
    fn may_finish(&self, path: &[u8]) -> bool {
        self.overwrite != Overwrite::Never || self.has_made(path)
    }

    fn next_temporary(&self) -> u64 {
        self.temporary_names.fetch_add(1, Relaxed)
    }
}
