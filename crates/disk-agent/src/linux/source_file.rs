//! A file of the source that is open to be read: through the page cache or past it, with the cache left as it is.
//!
//! A read past the cache (O_DIRECT) wants aligned memory and offsets, and a probe of the cache fails on such a descriptor. So
//! only a [`SourceFile`] knows and changes how its descriptor is read, and all reads go through a [`Reader`], which asks it.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use capstan_engine::buffer::{BUFFER_ALIGN, Buffer};
use rustix::fs::{Advice, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::source::{DirHandle, open_at};

/// Read without leaving in the page cache what was not there (Linux 6.14; `RWF_DONTCACHE` of linux/fs.h).
const RWF_DONTCACHE: u32 = 0x80;
/// Bytes of a file that are fetched ahead; the kernel's own readahead goes on from there.
const FETCH: u64 = 1 << 20;
/// Files of this many bytes and more may be read with O_DIRECT: 1 MiB.
pub const DIRECT_MIN: u64 = 1 << 20;
/// Bytes of one direct read.
const DIRECT_READ: usize = 1 << 20;

/// A file that is open to be read, and how it is.
#[derive(Debug)]
pub struct SourceFile {
    fd: OwnedFd,
    /// O_DIRECT is set. Threads that share the file may take it back, but not set it.
    direct: AtomicBool,
    /// What the first probe of the page cache said: the probe itself has the kernel read ahead.
    cold: OnceLock<bool>,
}

impl AsFd for SourceFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl SourceFile {
    /// Opens a file as [`open_at`] does: it is read through the page cache.
    pub fn open(dir: &DirHandle, name: &[u8]) -> Result<Self, Errno> {
        let fd = open_at(dir, name, false)?;
        Ok(Self { fd, direct: AtomicBool::new(false), cold: OnceLock::new() })
    }

    fn is_direct(&self) -> bool {
        self.direct.load(SeqCst)
    }

    fn has_direct_set(&self, is_set: bool) -> bool {
        let flags = rustix::fs::fcntl_getfl(&self.fd);
        flags
            .map(|flags| if is_set { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT })
            .and_then(|flags| rustix::fs::fcntl_setfl(&self.fd, flags))
            .is_ok()
    }

    /// Has the file read past the page cache; `false` where its file system does not.
    pub fn set_direct(&mut self) -> bool {
        *self.direct.get_mut() = self.is_direct() || self.has_direct_set(true);
        self.is_direct()
    }

    /// Has the file read through the page cache; `false` if it cannot be.
    pub fn set_buffered(&self) -> bool {
        // Others that share it read as if it were direct until it is not: an aligned read is right either way.
        if self.is_direct() && self.has_direct_set(false) {
            self.direct.store(false, SeqCst);
        }
        !self.is_direct()
    }

    /// Whether the begin of the file was not in the page cache when this was first asked. To ask it the first time has the file
    /// read through the cache from then on: the kernel refuses to say it of one that is read past it.
    pub fn is_cold(&self) -> bool {
        *self.cold.get_or_init(|| {
            self.set_buffered();
            let mut byte = [0];
            let mut slices = [io::IoSliceMut::new(&mut byte)];
            let read = rustix::io::preadv2(&self.fd, &mut slices, 0, ReadWriteFlags::NOWAIT);
            read == Err(Errno::AGAIN)
        })
    }

    // What follows is advice only: where it is not taken, a stream waits for the disk, or pages stay in the cache.

    /// Starts reading the begin of the file into the page cache. Whether it was not there before.
    pub fn prefetch(&self) -> bool {
        let cold = self.is_cold();
        if cold {
            let len = std::num::NonZeroU64::new(FETCH);
            let _ = rustix::fs::fadvise(&self.fd, 0, len, Advice::WillNeed);
        }
        cold
    }

    /// Starts reading all of the file into the page cache, where it is from then on.
    pub fn prefetch_all(&mut self) {
        self.cold = OnceLock::from(false);
        let _ = rustix::fs::fadvise(&self.fd, 0, None, Advice::WillNeed);
    }

    /// Drops the file's pages from the page cache.
    pub fn drop_pages(&self) {
        let _ = rustix::fs::fadvise(&self.fd, 0, None, Advice::DontNeed);
    }

    /// Says that the file is read from begin to end.
    pub fn will_read_all(&self) {
        let _ = rustix::fs::fadvise(&self.fd, 0, None, Advice::Sequential);
    }
}

/// How contents are read without pushing others' pages out of the cache.
#[derive(Default)]
pub struct Reader {
    /// The file at hand is on this device.
    dev: u64,
    /// Devices whose file systems refused RWF_DONTCACHE.
    plain: BTreeSet<u64>,
    /// What a direct read brought: the file offset, the bytes.
    direct: Option<Buffer>,
    window: (u64, usize),
}

impl Reader {
    /// Forgets what is known of the last file, or of the last time that this one was read. The next one is on that device.
    pub fn next_file(&mut self, dev: u64) {
        self.window = (0, 0);
        self.dev = dev;
    }

    /// Reads up to `out.len()` bytes at `offset`; 0 is the end of the file.
    pub fn read_at(
        &mut self,
        file: &SourceFile,
        out: &mut [u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        if file.is_direct() {
            match self.read_direct(file, out, offset) {
                // Accepted when it was asked for, refused when it is done: on through the page cache.
                Err(Errno::INVAL | Errno::OPNOTSUPP) if file.set_buffered() => {}
                other => return other,
            }
        }
        self.read_buffered(file, out, offset)
    }

    fn read_buffered(
        &mut self,
        file: &SourceFile,
        out: &mut [u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        if !self.must_drop() {
            let flags = ReadWriteFlags::from_bits_retain(RWF_DONTCACHE);
            let mut slices = [io::IoSliceMut::new(&mut *out)];
            let read =
                unless_interrupted(|| rustix::io::preadv2(&file.fd, &mut slices, offset, flags));
            if !matches!(read, Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)) {
                return read;
            }
        }
        let read = unless_interrupted(|| rustix::io::pread(&file.fd, &mut *out, offset));
        if read.is_ok() {
            // What was refused is the flag, and not the file.
            self.plain.insert(self.dev);
        }
        read
    }

    /// Direct reads want aligned memory and offsets, so they go through a buffer of ours, which stays in the core's cache.
    fn read_direct(
        &mut self,
        file: &SourceFile,
        out: &mut [u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        let (at, len) = self.window;
        if !(at..at + len as u64).contains(&offset) {
            let buffer = self.direct.get_or_insert_with(|| Buffer::new(DIRECT_READ));
            let from = offset - offset % BUFFER_ALIGN as u64;
            let n = unless_interrupted(|| rustix::io::pread(&file.fd, &mut buffer[..], from))?;
            self.window = (from, n);
            if from + n as u64 <= offset {
                return Ok(0);
            }
        }
        let (at, len) = self.window;
        let Some(buffer) = &self.direct else { return Ok(0) };
        let skip = (offset - at) as usize;
        let n = out.len().min(len - skip);
        out[..n].copy_from_slice(&buffer[skip..skip + n]);
        Ok(n)
    }

    /// Whether pages of the file at hand stay in the cache, once they were read, unless they are dropped by hand.
    pub fn must_drop(&self) -> bool {
        self.plain.contains(&self.dev)
    }
}

fn unless_interrupted(mut read: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    loop {
        match read() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 5_000_001;

    fn contents() -> Vec<u8> {
        (0..SIZE).map(|at| (at % 251) as u8).collect()
    }

    fn opened() -> (tempfile::TempDir, SourceFile) {
        let dir = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(dir.path().join("f")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &contents(), 0).unwrap();
        file.sync_all().unwrap();
        let fd = std::fs::File::open(dir.path()).unwrap().into();
        let file = SourceFile::open(&DirHandle { fd, path: Vec::new() }, b"f").unwrap();
        file.drop_pages();
        (dir, file)
    }

    /// By reads of no round length, into memory that is not aligned.
    fn all(reader: &mut Reader, file: &SourceFile) -> Result<Vec<u8>, Errno> {
        let (mut found, mut chunk) = (Vec::new(), vec![0; 70_001]);
        loop {
            let offset = found.len() as u64;
            match reader.read_at(file, &mut chunk[1..], offset)? {
                0 => return Ok(found),
                n => found.extend_from_slice(&chunk[1..=n]),
            }
        }
    }

    #[test]
    fn it_is_read_whole_however_it_was_read_before() {
        let (_dir, mut file) = opened();
        let (mut reader, dev) = (Reader::default(), 7);
        for _ in 0..3 {
            reader.next_file(dev);
            // Without it (a tmpfs of old) all is read through the cache.
            file.set_direct();
            assert!(all(&mut reader, &file).unwrap() == contents());
            // The first time that this is asked it has the file read through the cache.
            file.cold = OnceLock::new();
            file.is_cold();
            assert!(!file.is_direct());
            reader.next_file(dev);
            assert!(all(&mut reader, &file).unwrap() == contents());
            file.set_direct();
            reader.next_file(dev);
            assert_eq!(reader.read_at(&file, &mut [0; 10], 3), Ok(10));
            assert!(file.set_buffered());
            assert!(all(&mut reader, &file).unwrap() == contents());
            file.drop_pages();
        }
    }

    #[test]
    fn it_is_as_cold_after_a_direct_read_as_before() {
        let (_dir, mut file) = opened();
        // Another program may have it read meanwhile, or the file system may not tell.
        if !file.is_cold() || !file.set_direct() {
            return;
        }
        all(&mut Reader::default(), &file).unwrap();
        assert!(file.is_cold() && file.is_direct());
        file.prefetch_all();
        assert!(!file.is_cold());
    }

    /// As where a device wants more alignment than the buffer has: the descriptor is direct, and nobody knows.
    #[test]
    fn a_refused_read_says_nothing_of_the_flag_that_keeps_the_cache_clean() {
        let (_dir, mut file) = opened();
        if !file.set_direct() {
            return;
        }
        file.direct = AtomicBool::new(false);
        let mut reader = Reader::default();
        reader.next_file(7);
        let read = all(&mut reader, &file);
        if read == Err(Errno::INVAL) {
            assert!(!reader.must_drop());
        }
        // Nor does a directory, which cannot be read at all.
        let fd = std::fs::File::open("/").unwrap().into();
        let root = SourceFile { fd, direct: AtomicBool::new(false), cold: OnceLock::new() };
        assert_eq!(reader.read_at(&root, &mut [0; 10], 0), Err(Errno::ISDIR));
        assert!(!reader.must_drop());
    }

    #[test]
    fn what_one_file_system_refuses_others_may_have() {
        let mut reader = Reader::default();
        reader.next_file(1);
        reader.plain.insert(1);
        assert!(reader.must_drop());
        reader.next_file(2);
        assert!(!reader.must_drop());
    }
}
