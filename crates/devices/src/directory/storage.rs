//! The file system that a medium's directory lies in.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use capstan_medium::storage::{ReadFile, Storage, WriteFile};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom};

/// A directory that is locked, until this is dropped.
pub(super) struct Locked(OwnedFd);

impl Drop for Locked {
    fn drop(&mut self) {
        // Other descriptors of the same opening would hold it on.
        let _ = rustix::fs::flock(&self.0, rustix::fs::FlockOperation::Unlock);
    }
}

/// Read without leaving in the page cache what was not there (Linux 6.14; linux/fs.h).
const RWF_DONTCACHE: u32 = 0x80;

/// A real directory. Files are written with O_DIRECT where the file system has it, so that a backup does not push the
/// machine's working set out of the page cache.
pub struct RealStorage {
    fd: OwnedFd,
}

impl RealStorage {
    /// Opens an existing directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { fd })
    }

    /// Waits for a lock on the directory itself.
    pub(super) fn lock(&self) -> io::Result<Locked> {
        let fd = self.fd.try_clone()?;
        rustix::fs::flock(&fd, rustix::fs::FlockOperation::LockExclusive)?;
        Ok(Locked(fd))
    }

    /// Opens a file as it is, for locking. A pipe that somebody laid there is not waited for, and refused.
    pub(super) fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::openat(&self.fd, name, flags, Mode::empty())?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        }
    }

    /// Opens a file to be written over, by no link; nothing, if it is no regular file.
    pub(super) fn open_to_overwrite(&self, name: &str) -> io::Result<Option<File>> {
        let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::openat(&self.fd, name, flags, Mode::empty())?);
        Ok(file.metadata()?.is_file().then_some(file))
    }

    fn create_fd(&self, name: &str, extra: OFlags) -> io::Result<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | extra;
        Ok(rustix::fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?)
    }
}

impl Storage for RealStorage {
    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        let direct = self.create_fd(name, OFlags::DIRECT);
        let (fd, direct) = match direct {
            Ok(fd) => (fd, true),
            // Some file systems make the file and then refuse O_DIRECT.
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
                let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::empty());
                (self.create_fd(name, OFlags::empty())?, false)
            }
            Err(e) => return Err(e),
        };
        Ok(Box::new(RealWriteFile { file: File::from(fd), direct, at: 0 }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        Ok(Box::new(RealReadFile { file: self.open_file(name)?, plain: AtomicBool::new(false) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&self.fd, from, &self.fd, to, flags) {
            // File systems without RENAME_NOREPLACE: the medium's lock keeps others out.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
            }
            other => Ok(other?),
        }
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    fn empty(&self, name: &str) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?;
        Ok(rustix::fs::fsync(&fd)?)
    }

    fn overwrite(&self, name: &str) -> io::Result<Option<&'static str>> {
        overwrite(self, name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            match entry.file_name().to_str() {
                Ok("." | "..") => {}
                Ok(name) => names.push(name.to_owned()),
                // Not one of ours, but it must be seen that the directory is not empty.
                Err(_) => names.push(entry.file_name().to_string_lossy().into_owned()),
            }
        }
        Ok(names)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    fn length(&self, name: &str) -> io::Result<Option<u64>> {
        let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_file = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
        Ok(Some(u64::try_from(stat.st_size).ok().filter(|_| is_file).unwrap_or(0)))
    }
}

struct RealWriteFile {
    file: File,
    direct: bool,
    at: u64,
}

impl WriteFile for RealWriteFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pwrite(self.file.as_fd(), &bytes[done..], self.at + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => done += n,
                Err(rustix::io::Errno::INTR) => {}
                // Accepted at open, refused at write: go on through the page cache.
                Err(rustix::io::Errno::INVAL) if self.direct => {
                    let flags = rustix::fs::fcntl_getfl(&self.file)?;
                    rustix::fs::fcntl_setfl(&self.file, flags - OFlags::DIRECT)?;
                    self.direct = false;
                }
                Err(e) => return Err(e.into()),
            }
        }
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        if !self.direct {
            let advice = rustix::fs::Advice::DontNeed;
            // Advice only: what stays cached does no harm to the medium.
            let _ = rustix::fs::fadvise(&self.file, 0, None, advice);
        }
        Ok(())
    }
}

struct RealReadFile {
    file: File,
    /// The file system refused RWF_DONTCACHE.
    plain: AtomicBool,
}

impl ReadFile for RealReadFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let plain = self.plain.load(Relaxed);
            let result = if plain {
                rustix::io::pread(&self.file, &mut out[done..], at)
            } else {
                let flags = rustix::io::ReadWriteFlags::from_bits_retain(RWF_DONTCACHE);
                let mut slices = [io::IoSliceMut::new(&mut out[done..])];
                rustix::io::preadv2(&self.file, &mut slices, at, flags)
            };
            match result {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::INVAL) if !plain => {
                    self.plain.store(true, Relaxed);
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(done)
    }

    fn data_from(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(data_behind(&self.file, offset)?.map(|(from, _)| from))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

/// Overwrites what a file has with zeros, durably; holes have nothing. What is no file, or has another name that may lie anywhere,
/// is left as it is: says why.
fn overwrite(dir: &RealStorage, name: &str) -> std::io::Result<Option<&'static str>> {
    const CHUNK: usize = 1 << 20;
    let Some(mut file) = dir.open_to_overwrite(name)? else {
        return Ok(Some("is no regular file"));
    };
    if file.metadata()?.nlink() > 1 {
        return Ok(Some("has another name, by which its content stays"));
    }
    let zeros = vec![0; CHUNK];
    let mut at = 0;
    while let Some((from, to)) = data_behind(&file, at)? {
        file.seek(std::io::SeekFrom::Start(from))?;
        let mut left = to - from;
        while left > 0 {
            let here = left.min(CHUNK as u64);
            file.write_all(&zeros[..here as usize])?;
            left -= here;
        }
        at = to;
    }
    file.sync_all()?;
    Ok(None)
}

/// The first range of a file, from an offset on, that is no hole. A file system that knows of no holes says that all is data.
fn data_behind(file: &File, offset: u64) -> io::Result<Option<(u64, u64)>> {
    let from = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(from) => from,
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => {
            let len = file.metadata()?.len();
            return Ok((len > offset).then_some((offset, len)));
        }
        Err(e) => return Err(e.into()),
    };
    let to = rustix::fs::seek(file, SeekFrom::Hole(from))?;
    Ok((to > from).then_some((from, to)))
}
