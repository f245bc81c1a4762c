//! Locks between the processes of a host: a file, and who has it locked. A kill frees what was held.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::cartridge::failed;
use crate::drive::TapeError;
use crate::leaving;

/// A program that is just being started has all that its parent had open until it begins: for so long a lock may outlive who
/// held it.
const FORK: Duration = Duration::from_millis(50);

/// Locks a file, or says at once who has it. `what` is what it stands for.
pub fn take(path: &Path, what: &str) -> Result<File, TapeError> {
    wait(path, what, FORK)
}

/// The same, with patience where another has it, as long as the process is not to end.
pub fn wait(path: &Path, what: &str, patience: Duration) -> Result<File, TapeError> {
    const PAUSE: Duration = Duration::from_millis(20);
    let end = Instant::now() + patience;
    let file = open(path).map_err(failed("open", path))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < end && !leaving::has_left() => {
                thread::sleep(PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(TapeError::Busy { what: what.to_owned(), holder: holder_of(&file) });
            }
            Err(TryLockError::Error(e)) => return Err(failed("lock", path)(e)),
        }
    }
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

/// Who has a file locked, without touching the lock. Nothing where nobody has it.
pub fn holder(path: &Path) -> Option<String> {
    find(&fs::metadata(path).ok()?)
}

/// The process that holds the flock on `file`, as text.
pub fn holder_of(file: &File) -> String {
    // Others lock and unlock while the table is read, so that a reading may pass over an entry.
    let found = file.metadata().ok().and_then(|meta| (0..3).find_map(|_| find(&meta)));
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
        assert_eq!(holder(&path), None);
        let held = take(&path, "drive 1").unwrap();
        let own = format!("process {} (", std::process::id());
        assert!(holder(&path).unwrap().starts_with(&own));
        let busy = take(&path, "drive 1").unwrap_err();
        assert!(matches!(&busy, TapeError::Busy { holder, .. } if holder.starts_with(&own)));
        assert!(busy.to_string().contains(&own), "{busy}");
        let path_too = path.clone();
        let waiting =
            thread::spawn(move || wait(&path_too, "drive 1", Duration::from_secs(20)).is_ok());
        thread::sleep(Duration::from_millis(30));
        drop(held);
        assert!(waiting.join().unwrap());
        assert_eq!(holder(&path), None);
        // A link that somebody laid there is not followed.
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(take(&link, "drive 1").is_err());
    }
}
