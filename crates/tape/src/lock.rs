//! Locks between the processes of a machine: a file, and who has it locked. A kill frees what was held.
//!
//! The system knows which process has a lock. Which of several device hosts in one process has it, only they know: each keeps its
//! [`Locks`].

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use capstan_engine::leaving;
use capstan_medium::tape::error::failed;
use capstan_medium::tape::{ANOTHER_HOST, TapeError};
use parking_lot::Mutex;
use rustix::fs::OFlags;

/// A program that is just being started has all that its parent had open until it begins: for so long a lock may outlive who
/// held it.
const FORK: Duration = Duration::from_millis(50);

/// What tells a file from all others: its device and its inode.
type FileId = (u64, u64);

/// The locks that a device host has. Clones are of the same host.
#[derive(Debug, Clone, Default)]
pub struct Locks(Arc<Mutex<Vec<FileId>>>);

/// A file that is locked until this is dropped.
#[derive(Debug)]
pub struct Lock {
    locks: Locks,
    id: FileId,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.locks.0.lock().retain(|id| *id != self.id);
    }
}

impl Locks {
    /// Locks a file. `what` is what it stands for.
    ///
    /// # Errors
    /// [`TapeError::Busy`] at once if another has it; [`TapeError::Io`] if the file cannot be opened or locked.
    pub fn take(&self, path: &Path, what: &str) -> Result<Lock, TapeError> {
        self.wait(path, what, FORK)
    }

    /// The same, with patience where another has it, as long as the process is not to end.
    ///
    /// # Errors
    /// As of [`Self::take`], when the patience is over.
    pub fn wait(&self, path: &Path, what: &str, patience: Duration) -> Result<Lock, TapeError> {
        const PAUSE: Duration = Duration::from_millis(20);
        let end = Instant::now() + patience;
        let file = open(path).map_err(failed("open", path))?;
        let id = id_of(&file.metadata().map_err(failed("examine", path))?);
        loop {
            match file.try_lock() {
                Ok(()) => {
                    self.0.lock().push(id);
                    return Ok(Lock { locks: self.clone(), id, _file: file });
                }
                Err(TryLockError::WouldBlock) if Instant::now() < end && !leaving::has_left() => {
                    thread::sleep(PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    let holder = self.named(holder_of(&file), id);
                    return Err(TapeError::Busy { what: what.to_owned(), holder });
                }
                Err(TryLockError::Error(e)) => return Err(failed("lock", path)(e)),
            }
        }
    }

    /// Who has a file locked, without touching the lock. Nothing where nobody has it.
    pub fn holder(&self, path: &Path) -> Option<String> {
        let meta = fs::metadata(path).ok()?;
        find(&meta).map(|holder| self.named(holder, id_of(&meta)))
    }

    /// Who has a file locked: where that is this process, but not this host, it is another host.
    fn named(&self, holder: String, id: FileId) -> String {
        let is_own = holder.starts_with(&format!("process {} (", std::process::id()));
        match is_own && !self.0.lock().contains(&id) {
            true => ANOTHER_HOST.to_owned(),
            false => holder,
        }
    }
}

fn id_of(meta: &fs::Metadata) -> FileId {
    (meta.dev(), meta.ino())
}

/// Opens a lock file, or makes it. To lock it is enough to read it, so users can share one that root made.
fn open(path: &Path) -> io::Result<File> {
    let there =
        || OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path);
    match there() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o644).open(path) {
        // Another process was faster.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => there(),
        made => made,
    }
}

/// The process that holds the flock on `file`, as text.
pub fn holder_of(file: &File) -> String {
    // Others lock and unlock while the table is read, so that a reading may pass over an entry; the more so, the more they do.
    let found = file.metadata().ok().and_then(|meta| (0..10).find_map(|_| find(&meta)));
    found.unwrap_or_else(|| "another process".to_owned())
}

fn find(meta: &fs::Metadata) -> Option<String> {
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let key = format!("{major:02x}:{minor:02x}:{}", meta.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pid = locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_flock = words.next() == Some("FLOCK");
        let mut rest = words.skip(2);
        let pid = rest.next()?;
        (is_flock && rest.next() == Some(key.as_str())).then(|| pid.to_owned())
    })?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(format!("process {pid} ({})", name.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_lock_is_named_and_a_drop_frees_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("drive-1");
        let locks = Locks::default();
        assert_eq!(locks.holder(&path), None);
        let held = locks.take(&path, "drive 1").unwrap();
        let own = format!("process {} (", std::process::id());
        assert!(locks.holder(&path).unwrap().starts_with(&own));
        let busy = locks.take(&path, "drive 1").unwrap_err();
        assert!(matches!(&busy, TapeError::Busy { holder, .. } if holder.starts_with(&own)));
        assert!(busy.to_string().contains(&own), "{busy}");
        let (path_too, locks_too) = (path.clone(), locks.clone());
        let waiting = thread::spawn(move || {
            locks_too.wait(&path_too, "drive 1", Duration::from_secs(20)).is_ok()
        });
        thread::sleep(Duration::from_millis(30));
        drop(held);
        assert!(waiting.join().unwrap());
        assert_eq!(locks.holder(&path), None);
        // A link that somebody laid there is not followed.
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(locks.take(&link, "drive 1").is_err());
    }

    #[test]
    fn what_another_host_of_the_process_has_is_not_taken_for_ones_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("drive-1");
        let (one, other) = (Locks::default(), Locks::default());
        let held = one.take(&path, "drive 1").unwrap();
        assert_ne!(one.holder(&path).as_deref(), Some(ANOTHER_HOST));
        assert_eq!(other.holder(&path).as_deref(), Some(ANOTHER_HOST));
        let busy = other.take(&path, "drive 1").unwrap_err();
        assert!(matches!(&busy, TapeError::Busy { holder, .. } if holder == ANOTHER_HOST));
        drop(held);
        let _held = other.take(&path, "drive 1").unwrap();
        assert_eq!(one.holder(&path).as_deref(), Some(ANOTHER_HOST));
    }
}
