//! The narrow door to the file system that a medium's directory lies in.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use capstan_format::attachment::Attachment;
use capstan_format::id::{SegmentId, SegmentNumber};
use capstan_format::record::MediumHeader;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom};

use crate::DeviceError;
use crate::attached::NewAttachment;

/// Read without leaving in the page cache what was not there (Linux 6.14; linux/fs.h).
const RWF_DONTCACHE: u32 = 0x80;

/// What is recorded of a segment.
#[derive(Debug, Clone, Copy)]
pub struct SegmentSize {
    /// Its bytes.
    pub bytes: u64,
    /// Its data blocks.
    pub blocks: u32,
}

/// A flat directory of files that are written once, from the begin, and never changed.
pub trait Storage: Send + Sync {
    /// Creates a file that must not exist.
    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>>;
    /// Opens a file to read.
    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>>;
    /// Gives a file another name; replaces nothing.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Gives a file the name of another one, whose place it takes at once.
    fn replace(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Takes all bytes of a file durably, and leaves the file.
    fn empty(&self, name: &str) -> io::Result<()> {
        let _ = name;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes creations, renames and removals durable.
    fn sync(&self) -> io::Result<()>;
    /// The length of a file in bytes, where that is known without opening it. What is no file has none.
    fn length(&self, name: &str) -> io::Result<Option<u64>> {
        let _ = name;
        Ok(None)
    }
    /// Whether so little is there of a segment that not all of it can be read. What can be told by lengths alone is; where they say
    /// nothing, segments are opened as long as there are `looks`.
    fn is_cut(&self, name: &str, size: SegmentSize, looks: &mut u32) -> io::Result<bool> {
        let _ = looks;
        Ok(self.length(name)?.is_some_and(|length| length < size.bytes))
    }
    /// Whether it is an array of storages.
    fn is_array(&self) -> bool {
        false
    }
    /// Reads what of a file nobody reads while all else is whole, and notes what is damaged.
    fn check_spare(&self, name: &str) -> io::Result<()> {
        let _ = name;
        Ok(())
    }
    /// Where segments lie, as it was recorded: who has to go there finds them faster.
    fn recall(&self, places: Vec<Recorded>) {
        let _ = places;
    }
    /// Whether there is anything under a segment's number that is listed: on a tape one may have been left out.
    fn holds(&self, number: SegmentNumber) -> io::Result<bool> {
        let _ = number;
        Ok(true)
    }
    /// Whether too little is there of a segment to have it, and members of an array that are away may have the rest.
    fn may_be_away(&self, number: SegmentNumber) -> io::Result<bool> {
        let _ = number;
        Ok(false)
    }
    /// Which segment has that number, as its end says where that is nearer than its begin. `None` if nothing there says it.
    fn segment_near_end(&self, number: SegmentNumber) -> io::Result<Option<SegmentId>> {
        let _ = number;
        Ok(None)
    }
    /// Whether it takes attachments; else what they are has files of its own.
    fn takes_attachments(&self) -> bool {
        false
    }
    /// What has that number, if it is an attachment and no segment.
    fn attachment(&self, number: SegmentNumber) -> io::Result<Option<Attachment>> {
        let _ = number;
        Ok(None)
    }
    /// The contents of an attachment, checked.
    fn read_attachment(&self, of: &Attachment) -> io::Result<Vec<u8>> {
        let _ = of;
        Err(io::ErrorKind::NotFound.into())
    }
    /// Whether both records of an attachment can be read; either is enough to have it.
    fn has_both_records(&self, of: &Attachment) -> io::Result<bool> {
        let _ = of;
        Ok(true)
    }
    /// Writes an attachment behind all that is there, durably; under that number or a later one.
    fn attach(
        &self,
        new: &NewAttachment,
        least: SegmentNumber,
    ) -> Result<SegmentNumber, DeviceError> {
        let _ = (new, least);
        Err(DeviceError::KeepsNoAttachment)
    }
    /// Whether it is a tape.
    fn is_tape(&self) -> bool {
        false
    }
    /// Takes the medium's header as its segments repeat it, where its own place does not say it.
    fn take_header(&self, header: &MediumHeader) {
        let _ = header;
    }
    /// Whether anything was found that is a block of a medium, while the header was looked for.
    fn has_blocks_of_ours(&self) -> bool {
        false
    }
    /// What is wrong with it, though it can be read.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Where a segment lies on a tape, as it was recorded when it was written or imported. What is found there has to be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// Its number.
    pub number: SegmentNumber,
    /// What it is.
    pub segment: SegmentId,
    /// Blocks and filemarks before its first block.
    pub object: u64,
}

/// A file being written from begin to end.
pub trait WriteFile: Send {
    /// Appends; `bytes` is aligned and a multiple of 4096 long.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes the contents durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file being read at offsets.
pub trait ReadFile: Send + Sync {
    /// Reads up to `out.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Reads block `index` of a segment, which begins at `offset`. Where it is gone to by its index, the begin of the file need
    /// not be looked at first.
    fn read_block(&self, index: u32, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let _ = index;
        self.read_at(out, offset)
    }
    /// Says that what follows block `index` will be read, so that others who read the same tape do not go on without.
    fn expect(&self, index: u32) {
        let _ = index;
    }
    /// Blocks and filemarks before its first block, on a tape, once that is known.
    fn object(&self) -> Option<u64> {
        None
    }
    /// Where the next bytes from `offset` on lie that may be other than zeros; nothing, if all that comes is a hole.
    fn data_from(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether it has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A real directory. Files are written with O_DIRECT where the file system has it, so that a backup does not push the
/// machine's working set out of the page cache.
pub struct RealStorage {
    path: PathBuf,
    fd: OwnedFd,
}

impl RealStorage {
    /// Opens an existing directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { path: path.to_owned(), fd })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for a lock on the directory itself.
    pub(crate) fn lock(&self) -> io::Result<()> {
        Ok(rustix::fs::flock(&self.fd, rustix::fs::FlockOperation::LockExclusive)?)
    }

    /// Gives the lock on the directory back.
    pub(crate) fn unlock(&self) -> io::Result<()> {
        Ok(rustix::fs::flock(&self.fd, rustix::fs::FlockOperation::Unlock)?)
    }

    /// Opens a file as it is, for locking. A pipe that somebody laid there is not waited for, and refused.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::openat(&self.fd, name, flags, Mode::empty())?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        }
    }

    /// Opens a file to be written over, by no link; nothing, if it is no regular file.
    pub(crate) fn open_to_overwrite(&self, name: &str) -> io::Result<Option<File>> {
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

/// The first range of a file, from an offset on, that is no hole. A file system that knows of no holes says that all is data.
pub(crate) fn data_behind(file: &File, offset: u64) -> io::Result<Option<(u64, u64)>> {
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
