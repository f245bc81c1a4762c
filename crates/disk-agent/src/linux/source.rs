//! Reading a file system: directories and metadata, with access times left as they are.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use capstan_format::entry::{Entry, Kind, Timestamp, Xattr};
use capstan_port::disk::base::Access;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom, Stat, Statx, StatxFlags};
use rustix::io::Errno;

use super::CALL_PATH_BYTES_MAX;

/// Most bytes of extended attributes of one file that a row can carry.
const XATTRS_MAX: usize = 512 << 10;

/// An open directory of the source, with its path (absolute, without the leading slash).
#[derive(Debug)]
pub struct DirHandle {
    /// The open directory.
    pub fd: OwnedFd,
    /// Its path.
    pub path: Vec<u8>,
}

/// A name in a directory, as listing gives it: no stat was made.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The name.
    pub name: Vec<u8>,
    /// Its type, `None` where the file system does not say.
    pub kind: Option<Kind>,
    /// Its inode number.
    pub ino: u64,
}

fn kind_of(t: FileType) -> Option<Kind> {
    Some(match t {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Dir,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Unknown => return None,
    })
}

/// Lets the process have as many open files as it is allowed.
pub fn raise_open_files() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    // Fewer open files make smaller groups, not a failure.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
}

/// Opens the root directory, where every walk begins.
pub fn open_root() -> io::Result<DirHandle> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(DirHandle { fd: rustix::fs::open("/", flags, Mode::empty())?, path: Vec::new() })
}

/// Opens a name in a directory for reading, following no symbolic link, not waiting, and where it may be without
/// changing its access time.
pub fn open_at(dir: &DirHandle, name: &[u8], directory: bool) -> Result<OwnedFd, Errno> {
    let mut flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if directory {
        flags |= OFlags::DIRECTORY;
    }
    match rustix::fs::openat(&dir.fd, name, flags | OFlags::NOATIME, Mode::empty()) {
        // Only the owner may read without changing the access time.
        Err(Errno::PERM) => rustix::fs::openat(&dir.fd, name, flags, Mode::empty()),
        other => other,
    }
}

/// Opens a subdirectory.
pub fn open_dir(dir: &DirHandle, name: &[u8]) -> Result<DirHandle, Errno> {
    let fd = open_at(dir, name, true)?;
    Ok(DirHandle { fd, path: capstan_format::entry::join(&dir.path, name) })
}

/// Lists a directory, in the order the file system gives.
pub fn list(dir: &DirHandle, each: &mut dyn FnMut(Listed) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(64 << 10);
    let mut raw = RawDir::new(&dir.fd, buffer.spare_capacity_mut());
    while let Some(entry) = raw.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            let kind = kind_of(entry.file_type());
            each(Listed { name: name.to_vec(), kind, ino: entry.ino() })?;
        }
    }
    Ok(())
}

/// Identity of an open file: device and inode number.
pub fn identity(fd: impl AsFd) -> Result<(u64, u64), Errno> {
    let stat = rustix::fs::fstat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// What tells the directory at a path from all others; of what is none there is nothing: to open a FIFO would wait for its other end.
pub fn directory(path: &Path) -> Option<(u64, u64)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    identity(&dir).ok()
}

/// Whether the file system has no files worth saving: made by the kernel as it is read.
pub fn is_pseudo(fd: impl AsFd) -> bool {
    // linux/magic.h: proc, sysfs, devpts, cgroup, cgroup2, debugfs, tracefs, securityfs, pstore, bpf, configfs,
    // mqueue, binfmt_misc, efivarfs, fusectl, nsfs, selinuxfs.
    const PSEUDO: [u64; 17] = [
        0x9fa0,
        0x6265_6572,
        0x1cd1,
        0x27_e0eb,
        0x6367_7270,
        0x6462_6720,
        0x7472_6163,
        0x7363_6673,
        0x6165_676c,
        0xcafe_4a11,
        0x6265_6570,
        0x1980_0202,
        0x4249_4e4d,
        0xde5e_81e4,
        0x6573_5543,
        0x6e73_6673,
        0xf97c_ff8c,
    ];
    rustix::fs::fstatfs(fd).is_ok_and(|s| PSEUDO.contains(&(s.f_type as u64)))
}

/// What stat says of an open file.
pub fn stat(fd: impl AsFd) -> Result<Stat, Errno> {
    rustix::fs::fstat(fd)
}

/// When an open file came into being, where its file system says so.
pub fn born(fd: impl AsFd) -> Option<Timestamp> {
    let found = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    born_of(&found)
}

/// When what `stat` is of came into being, where its file system says so and its name still has it, in that state.
pub fn born_at(dir: &DirHandle, name: &[u8], stat: &Stat) -> Option<Timestamp> {
    let wanted = StatxFlags::BTIME | StatxFlags::INO | StatxFlags::CTIME;
    let found = rustix::fs::statx(&dir.fd, name, AtFlags::SYMLINK_NOFOLLOW, wanted).ok()?;
    let changed = Timestamp { sec: found.stx_ctime.tv_sec, nsec: found.stx_ctime.tv_nsec };
    let is_it = found.stx_ino == stat.st_ino && changed == ctime_of(stat);
    born_of(&found).filter(|_| is_it)
}

fn born_of(found: &Statx) -> Option<Timestamp> {
    let known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    let nsec = found.stx_btime.tv_nsec.min(999_999_999);
    known.then_some(Timestamp { sec: found.stx_btime.tv_sec, nsec })
}

/// What stat says of a name, not following a symbolic link.
pub fn stat_at(dir: &DirHandle, name: &[u8]) -> Result<Stat, Errno> {
    rustix::fs::statat(&dir.fd, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// What has an absolute path, without leading slash, which may be longer than a system call takes.
pub fn stat_of(path: &[u8]) -> Result<Stat, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open("/", flags, Mode::empty())?;
    let mut rest = path;
    while rest.len() > CALL_PATH_BYTES_MAX {
        let slash = rest[..=CALL_PATH_BYTES_MAX].iter().rposition(|b| *b == b'/');
        let end = slash.ok_or(Errno::NAMETOOLONG)?;
        at = rustix::fs::openat(&at, &rest[..end], flags, Mode::empty())?;
        rest = &rest[end + 1..];
    }
    rustix::fs::statat(&at, rest, AtFlags::SYMLINK_NOFOLLOW)
}

/// The kind that a mode of stat tells.
pub fn kind_of_mode(mode: u32) -> Option<Kind> {
    kind_of(FileType::from_raw_mode(mode))
}

/// The length that a row has of a file of that kind: only regular files have one.
pub fn size_of(kind: Kind, stat: &Stat) -> u64 {
    if kind == Kind::File { stat.st_size.max(0) as u64 } else { 0 }
}

/// When its contents changed.
pub fn mtime_of(stat: &Stat) -> Timestamp {
    Timestamp { sec: stat.st_mtime, nsec: (stat.st_mtime_nsec as u32).min(999_999_999) }
}

/// When its inode changed.
pub fn ctime_of(stat: &Stat) -> Timestamp {
    Timestamp { sec: stat.st_ctime, nsec: (stat.st_ctime_nsec as u32).min(999_999_999) }
}

/// The row of a file that stat described; without what stat does not say.
pub fn entry_of(dir: &DirHandle, name: &[u8], stat: &Stat) -> Option<Entry> {
    let kind = kind_of_mode(stat.st_mode)?;
    let Access { mode, uid, gid, rdev } = access_of(kind, stat);
    Some(Entry {
        kind,
        dir: dir.path.clone(),
        name: name.to_vec(),
        mode,
        uid,
        gid,
        size: size_of(kind, stat),
        mtime: mtime_of(stat),
        ctime: ctime_of(stat),
        ino: stat.st_ino,
        dev: stat.st_dev,
        rdev,
        ..Entry::default()
    })
}

/// What stat says of the permissions, owners and device numbers of a name of that kind.
pub fn access_of(kind: Kind, stat: &Stat) -> Access {
    let rdev = match kind {
        Kind::CharDevice | Kind::BlockDevice => {
            (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev))
        }
        _ => (0, 0),
    };
    let mode = (stat.st_mode & 0o7777) as u16;
    Access { mode, uid: stat.st_uid, gid: stat.st_gid, rdev }
}

/// Whether a file changed between two stats, as far as its contents go.
pub fn changed(before: &Stat, after: &Stat) -> bool {
    (before.st_size, before.st_mtime, before.st_mtime_nsec)
        != (after.st_size, after.st_mtime, after.st_mtime_nsec)
}

/// Adds to a row what an open file has beyond stat: extended attributes and inode flags.
pub fn add_details(fd: impl AsFd, entry: &mut Entry, buffers: &mut Buffers) -> Result<(), Errno> {
    let fd = fd.as_fd();
    entry.xattrs =
        xattrs(buffers, |b| rustix::fs::flistxattr(fd, b), |n, b| rustix::fs::fgetxattr(fd, n, b))?;
    // File systems without inode flags say so; that is no loss.
    if let Ok(flags) = rustix::fs::ioctl_getflags(fd) {
        entry.inode_flags = super::flags::settable(flags.bits());
    }
    Ok(())
}

/// Adds the extended attributes of what cannot be opened (symbolic links, nodes).
pub fn add_details_at(
    dir: &DirHandle,
    entry: &mut Entry,
    buffers: &mut Buffers,
) -> Result<(), Errno> {
    let mut path = format!("/proc/self/fd/{}/", dir.fd.as_raw_fd()).into_bytes();
    path.extend_from_slice(&entry.name);
    let Ok(path) = CString::new(path) else { return Err(Errno::INVAL) };
    let path = path.as_c_str();
    entry.xattrs = xattrs(
        buffers,
        |b| rustix::fs::llistxattr(path, b),
        |n, b| rustix::fs::lgetxattr(path, n, b),
    )?;
    Ok(())
}

/// Memory reused from file to file.
pub struct Buffers {
    names: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { names: vec![0; 1 << 10], value: vec![0; 1 << 10] }
    }
}

fn xattrs(
    buffers: &mut Buffers,
    list: impl Fn(&mut [u8]) -> Result<usize, Errno>,
    get: impl Fn(&std::ffi::CStr, &mut [u8]) -> Result<usize, Errno>,
) -> Result<Vec<Xattr>, Errno> {
    let n = match growing(&mut buffers.names, &list) {
        Ok(0) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
        Ok(n) => n,
        Err(e) => return Err(e),
    };
    let mut out: Vec<Xattr> = Vec::new();
    let mut total = 0;
    for name in buffers.names[..n].split_inclusive(|b| *b == 0) {
        let Ok(c_name) = std::ffi::CStr::from_bytes_with_nul(name) else { continue };
        match growing(&mut buffers.value, |b| get(c_name, b)) {
            Ok(len) => {
                total += name.len() + len;
                if total > XATTRS_MAX {
                    return Err(Errno::TOOBIG);
                }
                out.push((c_name.to_bytes().to_vec(), buffers.value[..len].to_vec()));
            }
            // Removed since it was listed, or not ours to read.
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) => {}
            Err(e) => return Err(e),
        }
    }
    out.sort();
    Ok(out)
}

fn growing(
    buffer: &mut Vec<u8>,
    call: impl Fn(&mut [u8]) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    loop {
        match call(buffer) {
            Err(Errno::RANGE) if buffer.len() < (1 << 20) => {
                let len = buffer.len() * 4;
                buffer.resize(len, 0);
            }
            other => return other,
        }
    }
}

/// The text of a symbolic link.
pub fn read_link(dir: &DirHandle, name: &[u8]) -> Result<Vec<u8>, Errno> {
    Ok(rustix::fs::readlinkat(&dir.fd, name, Vec::new())?.into_bytes())
}

/// Data ranges of a file of `size` bytes: offset and length, ascending. What is between them are holes. After
/// [`RANGES_MAX`] ranges the rest of the file is taken as one, so that its row fits a batch.
pub fn data_ranges(fd: impl AsFd, size: u64) -> Result<Vec<(u64, u64)>, Errno> {
    let fd = fd.as_fd();
    ranges_by(size, &mut |to| rustix::fs::seek(fd, to))
}

fn ranges_by(
    size: u64,
    seek: &mut dyn FnMut(SeekFrom) -> Result<u64, Errno>,
) -> Result<Vec<(u64, u64)>, Errno> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < size {
        let from = match seek(SeekFrom::Data(at)) {
            Ok(from) => from.min(size),
            Err(Errno::NXIO) => break,
            // No such seek here: all is data.
            Err(Errno::INVAL) => return Ok(vec![(0, size)]),
            Err(e) => return Err(e),
        };
        let to = match seek(SeekFrom::Hole(from)) {
            Ok(to) => to.min(size),
            // The file was cut meanwhile: reading finds that, and says so.
            Err(Errno::NXIO) => size,
            Err(e) => return Err(e),
        };
        if to <= from {
            break;
        }
        if ranges.len() >= RANGES_MAX {
            ranges.push((from, size - from));
            break;
        }
        ranges.push((from, to - from));
        at = to;
    }
    Ok(ranges)
}

/// Whether the file may have holes: it takes less room than its length.
pub fn may_be_sparse(stat: &Stat) -> bool {
    (stat.st_blocks as i128) * 512 < stat.st_size as i128
}

/// Most data ranges of a file that are told apart.
pub const RANGES_MAX: usize = 8192;

/// Resolves a path as people write it: absolute, with no `.`, `..` or symbolic link but in its last component, and there
/// only if no slash follows it.
/// Returned without the leading slash.
pub fn resolve(path: &Path) -> io::Result<Vec<u8>> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let absolute = std::path::absolute(path)?;
    // Says what is wrong with the path itself before its parent is looked at.
    std::fs::symlink_metadata(&absolute)?;
    // `link/` means what the link leads to, as everywhere.
    let through = path.as_os_str().as_bytes().ends_with(b"/");
    let resolved = match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) if !through => std::fs::canonicalize(parent)?.join(name),
        _ => std::fs::canonicalize(&absolute)?,
    };
    let bytes = resolved.into_os_string().into_vec();
    Ok(bytes.strip_prefix(b"/").unwrap_or(&bytes).to_vec())
}

/// A path as people write it, from the root directory on. Returned without the leading slash.
pub fn written(path: &Path) -> io::Result<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    let bytes = std::path::absolute(path)?.into_os_string().into_vec();
    Ok(bytes.strip_prefix(b"/").unwrap_or(&bytes).to_vec())
}

/// Most symbolic links that are followed in a path, as the kernel has it.
const LINKS_MAX: usize = 40;

/// The same of a path that is not there, or cannot be reached: what it would be resolved to, were it there.
pub fn resolve_absent(path: &Path) -> io::Result<Vec<u8>> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let components = |path: &Path| -> Vec<OsString> {
        path.components().rev().map(|c| c.as_os_str().to_owned()).collect()
    };
    // The next component is the last of these.
    let mut left = components(&std::path::absolute(path)?);
    let through = path.as_os_str().as_bytes().ends_with(b"/");
    let mut resolved = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = left.pop() {
        let here = match name.as_bytes() {
            b"/" | b"." => continue,
            b".." => {
                resolved.pop();
                continue;
            }
            _ => resolved.join(&name),
        };
        let is_followed = (!left.is_empty() || through) && links < LINKS_MAX;
        match is_followed.then(|| std::fs::read_link(&here)) {
            Some(Ok(target)) => {
                links += 1;
                if target.is_absolute() {
                    resolved = PathBuf::from("/");
                }
                left.extend(components(&target));
            }
            _ => resolved = here,
        }
    }
    let bytes = resolved.into_os_string().into_vec();
    Ok(bytes.strip_prefix(b"/").unwrap_or(&bytes).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of the end of one that is cut between the two seeks: reading finds it short.
    #[test]
    fn a_sparse_file_that_is_cut_while_its_holes_are_looked_for_has_data_to_its_end() {
        let ranges = ranges_by(100, &mut |to| match to {
            SeekFrom::Data(0) => Ok(10),
            SeekFrom::Hole(10) => Ok(20),
            SeekFrom::Data(20) => Ok(40),
            _ => Err(Errno::NXIO),
        });
        assert_eq!(ranges, Ok(vec![(10, 10), (40, 60)]));
        let failed = ranges_by(100, &mut |to| match to {
            SeekFrom::Data(at) => Ok(at),
            _ => Err(Errno::IO),
        });
        assert_eq!(failed, Err(Errno::IO));
    }
}
