//! Whether a file is in use: locked by somebody, or open for writing.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use rustix::fs::Stat;

/// How long a reading of the kernel's table of locks is believed.
const FRESH: Duration = Duration::from_secs(2);

/// The inodes that are locked, as the kernel's table says.
#[derive(Debug, Default)]
pub struct LockTable {
    read: Option<Instant>,
    locked: HashSet<(u32, u32, u64)>,
}

impl LockTable {
    /// Whether somebody holds a lock on the file.
    pub fn is_locked(&mut self, stat: &Stat) -> bool {
        if self.read.is_none_or(|at| at.elapsed() > FRESH) {
            self.read = Some(Instant::now());
            self.locked = read_table().unwrap_or_default();
        }
        let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        !self.locked.is_empty() && self.locked.contains(&(major, minor, stat.st_ino))
    }
}

/// How often a table is read that the kernel does not give at once.
const READINGS: usize = 4;

/// Reads the kernel's table of locks.
/// The kernel gives about a page at a time, and counts entries to find where it goes on:
/// a lock that is released between two pages makes it leave out another one that is held.
/// So a table of several pages is read several times, and what any reading has is taken for locked.
fn read_table() -> std::io::Result<HashSet<(u32, u32, u64)>> {
    let mut locked = HashSet::new();
    for _ in 0..READINGS {
        let (mut table, mut page, mut pages) = (Vec::new(), [0; 1 << 16], 0);
        let mut file = File::open("/proc/locks")?;
        loop {
            let got = file.read(&mut page)?;
            if got == 0 {
                break;
            }
            table.extend_from_slice(&page[..got]);
            pages += 1;
        }
        locked.extend(parse(&String::from_utf8_lossy(&table)));
        if pages < 2 {
            break;
        }
    }
    Ok(locked)
}

/// Which signal tells of a lease that is to be given up: Linux' include/uapi/asm-generic/fcntl.h, the same on all processors.
const F_SETSIG: libc::c_int = 10;

/// Lines are `1: POSIX ADVISORY WRITE 123 fe:00:4711 0 EOF`; a waiting lock has `->` after its number.
fn parse(table: &str) -> HashSet<(u32, u32, u64)> {
    let inode = |line: &str| {
        let word = line.split_whitespace().find(|w| w.matches(':').count() == 2)?;
        let mut parts = word.split(':');
        let major = u32::from_str_radix(parts.next()?, 16).ok()?;
        let minor = u32::from_str_radix(parts.next()?, 16).ok()?;
        Some((major, minor, parts.next()?.parse().ok()?))
    };
    table.lines().filter(|l| !l.contains("LEASE")).filter_map(inode).collect()
}

/// Whether somebody has the file open for writing. Known only of files that are ours or to a privileged process.
pub fn is_open_for_writing(fd: impl AsFd) -> bool {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: plain system calls on an open descriptor. A read lease is refused with EAGAIN while the file is open for
    // writing; where it is granted it is given back at once. Whoever opens the file for writing in between has us told by a signal:
    // SIGIO would end the process, SIGURG is ignored by default.
    unsafe {
        libc::fcntl(fd, F_SETSIG, libc::SIGURG);
        if libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) == 0 {
            libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK);
            return false;
        }
    }
    std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
}

/// Takes a shared advisory lock for as long as the file is open; `false` if another holds an exclusive one.
pub fn lock_shared(fd: impl AsFd) -> bool {
    rustix::fs::flock(fd, rustix::fs::FlockOperation::NonBlockingLockShared).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};

    #[test]
    fn writers_and_locks_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let writer = File::create(&path).unwrap();
        let reader = File::open(&path).unwrap();
        assert!(is_open_for_writing(&reader));
        drop(writer);
        assert!(!is_open_for_writing(&reader));
        let stat = rustix::fs::fstat(&reader).unwrap();
        assert!(!LockTable::default().is_locked(&stat));
        let holder = OpenOptions::new().write(true).open(&path).unwrap();
        rustix::fs::flock(&holder, rustix::fs::FlockOperation::LockExclusive).unwrap();
        assert!(LockTable::default().is_locked(&stat));
        assert!(!lock_shared(&reader));
    }

    /// The signal that tells of a writer would end the process of this test.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test may panic")]
    fn who_begins_to_write_just_then_does_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        drop(File::create(&path).unwrap());
        let reader = File::open(&path).unwrap();
        let begin = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while begin.elapsed() < Duration::from_millis(300) {
                    drop(OpenOptions::new().write(true).open(&path).unwrap());
                }
            });
            while begin.elapsed() < Duration::from_millis(300) {
                is_open_for_writing(&reader);
            }
        });
    }

    /// Locks that come and go elsewhere hide none that is held.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test may panic")]
    fn a_lock_is_seen_while_others_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let file = |i: usize| File::create(dir.path().join(i.to_string())).unwrap();
        let lock = |file: &File| {
            rustix::fs::flock(file, rustix::fs::FlockOperation::LockExclusive).unwrap()
        };
        let held: Vec<File> = (0..300).map(file).collect();
        held.iter().for_each(lock);
        let stats: Vec<Stat> = held.iter().map(|f| rustix::fs::fstat(f).unwrap()).collect();
        let begin = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while begin.elapsed() < Duration::from_millis(500) {
                    let passing: Vec<File> = (300..400).map(file).collect();
                    passing.iter().for_each(lock);
                }
            });
            while begin.elapsed() < Duration::from_millis(500) {
                let mut table = LockTable::default();
                assert!(stats.iter().all(|stat| table.is_locked(stat)));
            }
        });
    }

    #[test]
    fn the_kernels_table_is_understood() {
        let table = "1: FLOCK  ADVISORY  WRITE 123 fe:00:4711 0 EOF\n1: -> POSIX ADVISORY READ 5 00:1f:9 0 5\n";
        assert_eq!(parse(table), HashSet::from([(0xfe, 0, 4711), (0, 0x1f, 9)]));
    }
}
