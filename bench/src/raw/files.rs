//! Loops over a list of files that is made before the clock starts; the threads share it by one atomic index.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{CWD, Mode, OFlags};

use super::{Done, errno, in_threads};
use crate::error::{BenchError, io_error};

/// A regular file below the listed directory.
pub struct Listed {
    path: CString,
    /// Where the path relative to the listed directory starts.
    relative: usize,
    size: u64,
}

impl Listed {
    fn path(&self) -> &Path {
        Path::new(std::ffi::OsStr::from_bytes(self.path.as_bytes()))
    }

    fn relative(&self) -> &Path {
        Path::new(std::ffi::OsStr::from_bytes(&self.path.as_bytes()[self.relative..]))
    }
}

/// All regular files below a directory, or the one file that it is.
pub fn list(dir: &Path) -> Result<Vec<Listed>, BenchError> {
    let mut found = Vec::new();
    let meta = fs::metadata(dir).map_err(io_error("examine", dir))?;
    if meta.is_file() {
        let path = CString::new(dir.as_os_str().as_bytes()).unwrap_or_default();
        return Ok(vec![Listed { path, relative: 0, size: meta.len() }]);
    }
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next).map_err(io_error("list", &next))? {
            let entry = entry.map_err(io_error("list", &next))?;
            let path = entry.path();
            let meta = entry.metadata().map_err(io_error("examine", &path))?;
            if meta.is_dir() {
                dirs.push(path);
            } else if meta.is_file() {
                let path = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
                let relative = dir.as_os_str().len() + 1;
                found.push(Listed { path, relative, size: meta.len() });
            }
        }
    }
    Ok(found)
}

/// Opens, reads into one reused buffer per thread, and closes every file. A read that does not fill the buffer ends the
/// file: a regular file needs no further read to know its end.
pub fn read_all(list: &[Listed], threads: usize, buffer: usize) -> Result<Done, BenchError> {
    let next = AtomicUsize::new(0);
    in_threads(threads, |_| {
        let mut buffer = vec![0xa5; buffer];
        let mut done = Done::default();
        while let Some(file) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.bytes += read_file(&file.path, file.path(), &mut buffer)?;
            done.files += 1;
        }
        Ok(done)
    })
}

/// Reads one file to its end.
pub fn read_file(name: &CString, path: &Path, buffer: &mut [u8]) -> Result<u64, BenchError> {
    let file = rustix::fs::openat(CWD, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(errno("open", path))?;
    let mut bytes = 0;
    loop {
        let n = rustix::io::read(&file, &mut *buffer).map_err(errno("read", path))?;
        bytes += n as u64;
        if n < buffer.len() {
            return Ok(bytes);
        }
    }
}

/// Makes the directories, then creates, writes and closes files of the same names and sizes.
pub fn write_all(
    list: &[Listed],
    target: &Path,
    threads: usize,
    buffer: usize,
) -> Result<Done, BenchError> {
    let mut made = PathBuf::new();
    for file in list {
        let parent = file.relative().parent().unwrap_or(Path::new(""));
        if made != parent {
            let dir = target.join(parent);
            fs::create_dir_all(&dir).map_err(io_error("create", &dir))?;
            made = parent.to_owned();
        }
    }
    fs::create_dir_all(target).map_err(io_error("create", target))?;
    let next = AtomicUsize::new(0);
    in_threads(threads, |_| {
        let buffer = vec![0xa5; buffer];
        let mut done = Done::default();
        while let Some(file) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
            write_file(&target.join(file.relative()), file.size, &buffer)?;
            done += Done { files: 1, bytes: file.size };
        }
        Ok(done)
    })
}

fn write_file(path: &Path, size: u64, buffer: &[u8]) -> Result<(), BenchError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(0o644))
        .map_err(errno("create", path))?;
    let mut left = size;
    while left > 0 {
        let piece = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        left -= rustix::io::write(&file, &buffer[..piece]).map_err(errno("write", path))? as u64;
    }
    Ok(())
}

/// Files of some size that every tree of tiny files has as well.
const LARGE_FILES: u64 = 64;
const LARGE_SIZE: u64 = 4 << 20;

/// Makes `count` files, 1000 to a directory, all empty but each sixteenth, which has 64 bytes: millions fit into memory.
/// Some of a few MiB are added, so that all the buffers of who reads them are filled, however few the others are.
pub fn make_tiny(target: &Path, count: u64, threads: usize) -> Result<Done, BenchError> {
    const PER_DIR: u64 = 1000;
    let dirs = count.div_ceil(PER_DIR);
    let large = target.join("large");
    fs::create_dir_all(&large).map_err(io_error("create", &large))?;
    in_threads(threads, |thread| {
        let mut done = Done::default();
        let buffer = vec![0xa5; 1 << 20];
        for n in (thread as u64..LARGE_FILES).step_by(threads) {
            write_file(&large.join(n.to_string()), LARGE_SIZE, &buffer)?;
            done += Done { files: 1, bytes: LARGE_SIZE };
        }
        for dir in (thread as u64..dirs).step_by(threads) {
            let path = target.join(format!("{:03}", dir / 100)).join(format!("{:02}", dir % 100));
            fs::create_dir_all(&path).map_err(io_error("create", &path))?;
            for n in 0..PER_DIR.min(count - dir * PER_DIR) {
                let size = if n % 16 == 0 { 64 } else { 0 };
                write_file(&path.join(format!("file-{n:04}.dat")), size, &[0xa5; 64])?;
                done += Done { files: 1, bytes: size };
            }
        }
        Ok(done)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_listed_and_read_again() {
        let dir = std::env::temp_dir().join(format!("bench-files-{}", std::process::id()));
        let (a, b) = (dir.join("a"), dir.join("b"));
        let made = make_tiny(&a, 2500, 2).unwrap();
        let tiny = (63 + 63 + 32) * 64;
        let large = LARGE_FILES * LARGE_SIZE;
        assert_eq!(made, Done { files: 2500 + LARGE_FILES, bytes: tiny + large });
        fs::write(a.join("one"), vec![1; 100_000]).unwrap();

        let first = list(&a).unwrap();
        let expected = Done { files: made.files + 1, bytes: made.bytes + 100_000 };
        // Buffers below, equal to and above the size of the large file.
        for buffer in [512, 50_000, 100_000, 1 << 20] {
            assert_eq!(read_all(&first, 2, buffer).unwrap(), expected);
        }
        assert_eq!(write_all(&first, &b, 3, 4096).unwrap(), expected);
        let second = list(&b).unwrap();
        let sizes = |list: &[Listed]| {
            let mut all: Vec<_> = list.iter().map(|f| (f.relative().to_owned(), f.size)).collect();
            all.sort();
            all
        };
        assert_eq!(sizes(&first), sizes(&second));
        assert_eq!(super::super::cold::walk_and_read(&b, 8, 4096).unwrap(), expected);
        fs::remove_dir_all(dir).unwrap();
    }
}
