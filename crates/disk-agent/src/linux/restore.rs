//! System calls of a restore: opening directories without ever leaving the target, creating what
//! belongs into them, and setting the metadata of what was created.
//!
//! Nothing here follows a symbolic link. Each function is one system call where the fast path has
//! one; policy (what to do about names that exist, what to count) is in [`crate::target`].

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use capstan_format::entry::{Kind, Timestamp};
pub use rustix::io::Errno;

use super::CALL_PATH_BYTES_MAX;
use rustix::fs::{
    self, Access, AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps,
    Uid, XattrFlags,
};

/// The access ACL's extended attribute.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// The extended attribute of a file's capabilities.
pub const CAPABILITY: &[u8] = b"security.capability";
/// The extended attribute of the ACL that a directory hands to what is made in it.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

/// What is known of a name in the file system.
#[derive(Debug, Clone, Copy)]
pub struct Stat {
    /// What it is; `None` of kinds that no backup holds.
    pub kind: Option<Kind>,
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Time of last change of the contents.
    pub mtime: Timestamp,
    /// Major and minor number of a device node.
    pub rdev: (u32, u32),
    /// Device and inode number: the same for names of the same inode.
    pub id: (u64, u64),
}

impl From<fs::Stat> for Stat {
    // The width of the fields differs between architectures.
    #[allow(clippy::unnecessary_cast)]
    fn from(s: fs::Stat) -> Self {
        let kind = match FileType::from_raw_mode(s.st_mode) {
            FileType::RegularFile => Some(Kind::File),
            FileType::Directory => Some(Kind::Dir),
            FileType::Symlink => Some(Kind::Symlink),
            FileType::Fifo => Some(Kind::Fifo),
            FileType::Socket => Some(Kind::Socket),
            FileType::CharacterDevice => Some(Kind::CharDevice),
            FileType::BlockDevice => Some(Kind::BlockDevice),
            FileType::Unknown => None,
        };
        Self {
            kind,
            mode: (s.st_mode & 0o7777) as u16,
            uid: s.st_uid,
            gid: s.st_gid,
            size: s.st_size as u64,
            mtime: Timestamp { sec: s.st_mtime as i64, nsec: s.st_mtime_nsec as u32 },
            rdev: (fs::major(s.st_rdev), fs::minor(s.st_rdev)),
            id: (s.st_dev as u64, s.st_ino as u64),
        }
    }
}

/// Sets the process's umask to 0, so that modes given at creation hold. It is process-wide.
pub fn clear_umask() {
    rustix::process::umask(Mode::empty());
}

/// The user the process acts as.
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn mode_of(mode: u16) -> Mode {
    Mode::from_raw_mode(u32::from(mode & 0o7777))
}

// ---------------------------------------------------------------------------------------------
// Directories
// ---------------------------------------------------------------------------------------------

/// An open directory: readable where its permissions allow, else a mere place in the tree.
#[derive(Debug)]
pub struct DirFd {
    fd: OwnedFd,
    place_only: bool,
}

impl DirFd {
    /// Its handle for metadata.
    pub fn handle(&self) -> Handle<'_> {
        if self.place_only { Handle::place(self.fd.as_fd()) } else { Handle::Open(self.fd.as_fd()) }
    }

    /// Whether we may make names in it, as far as the system tells.
    pub fn check_writable(&self) -> Result<(), Errno> {
        let rights = Access::WRITE_OK | Access::EXEC_OK;
        match fs::accessat(self, c".", rights, AtFlags::EACCESS) {
            Err(e @ (Errno::ACCESS | Errno::ROFS)) => Err(e),
            _ => Ok(()),
        }
    }

    /// Writes what its file system holds back to the disk.
    pub fn sync_file_system(&self) -> Result<(), Errno> {
        if self.place_only {
            fs::sync();
            return Ok(());
        }
        fs::syncfs(&self.fd)
    }
}

impl AsFd for DirFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The names in a directory, without `.` and `..`.
pub fn names_in(dir: &DirFd) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in fs::Dir::read_from(&dir.fd)? {
        let name = entry?.file_name().to_owned();
        if ![c".", c".."].contains(&name.as_c_str()) {
            names.push(name);
        }
    }
    Ok(names)
}

const DIR: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
const DIR_PLACE: OFlags = DIR.union(OFlags::PATH);

/// Opens with `open`, as a mere place where reading is not permitted.
fn open_dir(open: impl Fn(OFlags) -> Result<OwnedFd, Errno>) -> Result<DirFd, Errno> {
    match open(DIR) {
        Err(Errno::ACCESS) => Ok(DirFd { fd: open(DIR_PLACE)?, place_only: true }),
        fd => Ok(DirFd { fd: fd?, place_only: false }),
    }
}

/// Writes what all file systems hold back to their disks.
pub fn sync_all() {
    fs::sync();
}

/// Opens the target's root; this path is the user's own and may lead through symbolic links.
pub fn open_root(path: &Path) -> Result<DirFd, Errno> {
    open_dir(|flags| fs::open(path, flags, Mode::empty()))
}

/// Opens the directory of that single name in `dir`.
pub fn open_child_dir(dir: &DirFd, name: &CStr) -> Result<DirFd, Errno> {
    open_dir(|flags| fs::openat(dir, name, flags | OFlags::NOFOLLOW, Mode::empty()))
}

/// Whether this kernel, or the sandbox around us, has no openat2.
static NO_OPENAT2: AtomicBool = AtomicBool::new(false);

fn open_at_once(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // The kernel gives up with EAGAIN where somebody renames at the same time.
    for _ in 0..16 {
        match fs::openat2(dir, path, flags, Mode::empty(), how) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// As [`open_at_once`] without openat2: component by component, each without following links.
fn open_by_step(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut at: Option<OwnedFd> = None;
    let mut rest = path;
    while let Some(slash) = rest.iter().position(|b| *b == b'/') {
        let from = at.as_ref().map_or(dir, |fd| fd.as_fd());
        let next = fs::openat(from, &rest[..slash], DIR_PLACE | OFlags::NOFOLLOW, Mode::empty())?;
        at = Some(next);
        rest = &rest[slash + 1..];
    }
    let from = at.as_ref().map_or(dir, |fd| fd.as_fd());
    fs::openat(from, rest, flags | OFlags::NOFOLLOW, Mode::empty())
}

fn open_chunk(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    if !NO_OPENAT2.load(Relaxed) {
        match open_at_once(dir, path, flags) {
            // Old kernels say ENOSYS, old sandboxes EPERM; opening a directory never does.
            Err(Errno::NOSYS | Errno::PERM) => NO_OPENAT2.store(true, Relaxed),
            result => return result,
        }
    }
    open_by_step(dir, path, flags)
}

/// Opens the directory `path` below `root`, through real directories only. `path` may be longer
/// than a system call takes; its components must have been checked.
pub fn open_beneath(root: &DirFd, path: &[u8]) -> Result<DirFd, Errno> {
    let mut at: Option<OwnedFd> = None;
    let mut rest = path;
    while rest.len() > CALL_PATH_BYTES_MAX {
        let end = rest[..=CALL_PATH_BYTES_MAX]
            .iter()
            .rposition(|b| *b == b'/')
            .ok_or(Errno::NAMETOOLONG)?;
        let from = at.as_ref().map_or(root.as_fd(), |fd| fd.as_fd());
        at = Some(open_chunk(from, &rest[..end], DIR_PLACE)?);
        rest = &rest[end + 1..];
    }
    let from = at.as_ref().map_or(root.as_fd(), |fd| fd.as_fd());
    open_dir(|flags| open_chunk(from, rest, flags))
}

/// The first component on the way to `path` that is there and is no directory: where it ends in
/// `path`, and what it is.
pub fn first_obstacle(root: &DirFd, path: &[u8]) -> Option<(usize, Option<Kind>)> {
    let mut at: Option<OwnedFd> = None;
    let mut start = 0;
    for name in path.split(|b| *b == b'/') {
        let from = at.as_ref().map_or(root.as_fd(), |fd| fd.as_fd());
        let kind = Stat::from(fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW).ok()?).kind;
        if kind != Some(Kind::Dir) {
            return Some((start + name.len(), kind));
        }
        at = fs::openat(from, name, DIR_PLACE | OFlags::NOFOLLOW, Mode::empty()).ok();
        at.as_ref()?;
        start += name.len() + 1;
    }
    None
}

/// Makes a directory that nobody else can enter; its mode is set when it is complete.
pub fn make_dir(dir: &DirFd, name: &CStr) -> Result<(), Errno> {
    fs::mkdirat(dir, name, Mode::RWXU)
}

// ---------------------------------------------------------------------------------------------
// Names in a directory
// ---------------------------------------------------------------------------------------------

/// Creates a regular file for writing; a name that exists, of whatever kind, is `EXIST`.
pub fn create(dir: &DirFd, name: &CStr, mode: u16) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        match fs::openat(dir, name, flags, mode_of(mode)) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

// Non-blocking, for a FIFO could have taken the name's place.
const EXISTING: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// Opens an existing name for writing at offsets.
pub fn open_for_writing(dir: &DirFd, name: &CStr) -> Result<OwnedFd, Errno> {
    fs::openat(dir, name, EXISTING | OFlags::WRONLY, Mode::empty())
}

/// Opens an existing file or directory for its metadata.
pub fn open_for_reading(dir: &DirFd, name: &CStr) -> Result<OwnedFd, Errno> {
    fs::openat(dir, name, EXISTING | OFlags::RDONLY, Mode::empty())
}

/// Opens a name of any kind, symbolic links among them, as a mere place: see [`Handle::place`].
pub fn open_place(dir: &DirFd, name: &CStr) -> Result<OwnedFd, Errno> {
    fs::openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Makes a symbolic link with that text.
pub fn make_symlink(dir: &DirFd, name: &CStr, text: &CStr) -> Result<(), Errno> {
    fs::symlinkat(text, dir, name)
}

/// Makes a FIFO, a socket's name or a device node.
pub fn make_special(
    dir: &DirFd,
    name: &CStr,
    kind: Kind,
    mode: u16,
    rdev: (u32, u32),
) -> Result<(), Errno> {
    let (kind, dev) = match kind {
        Kind::Fifo => (FileType::Fifo, 0),
        Kind::Socket => (FileType::Socket, 0),
        Kind::CharDevice => (FileType::CharacterDevice, fs::makedev(rdev.0, rdev.1)),
        Kind::BlockDevice => (FileType::BlockDevice, fs::makedev(rdev.0, rdev.1)),
        _ => return Err(Errno::INVAL),
    };
    fs::mknodat(dir, name, kind, mode_of(mode), dev)
}

/// Gives the inode of one name a further name; a symbolic link is linked, not followed.
pub fn link(from: &DirFd, from_name: &CStr, dir: &DirFd, name: &CStr) -> Result<(), Errno> {
    fs::linkat(from, from_name, dir, name, AtFlags::empty())
}

/// Removes a name that is no directory.
pub fn unlink(dir: &DirFd, name: &CStr) -> Result<(), Errno> {
    fs::unlinkat(dir, name, AtFlags::empty())
}

/// Renames within a directory, taking the place of what has the new name.
pub fn rename(dir: &DirFd, from: &CStr, to: &CStr) -> Result<(), Errno> {
    fs::renameat(dir, from, dir, to)
}

/// What a name is.
pub fn stat(dir: &DirFd, name: &CStr) -> Result<Stat, Errno> {
    fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map(Stat::from)
}

/// A symbolic link's text.
pub fn read_link(dir: &DirFd, name: &CStr) -> Result<CString, Errno> {
    fs::readlinkat(dir, name, Vec::new())
}

// ---------------------------------------------------------------------------------------------
// Contents
// ---------------------------------------------------------------------------------------------

/// Writes all of `data` at `offset`.
pub fn write_all_at(file: &OwnedFd, mut offset: u64, mut data: &[u8]) -> Result<(), Errno> {
    while !data.is_empty() {
        match rustix::io::pwrite(file, data, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => {
                data = &data[n..];
                offset += n as u64;
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Sets a file's length; what was not written reads as zeros and takes no space.
pub fn set_len(file: &OwnedFd, size: u64) -> Result<(), Errno> {
    fs::ftruncate(file, size)
}

/// Closes and tells what closing found: on network file systems that is where writing fails.
pub fn close(file: OwnedFd) -> Result<(), Errno> {
    // SAFETY: `into_raw_fd` gives the descriptor up, so that nothing else closes or uses it.
    if unsafe { libc::close(file.into_raw_fd()) } == 0 {
        return Ok(());
    }
    match std::io::Error::last_os_error().raw_os_error().map(Errno::from_raw_os_error) {
        // Linux has closed it all the same.
        None | Some(Errno::INTR) => Ok(()),
        Some(e) => Err(e),
    }
}

// ---------------------------------------------------------------------------------------------
// Metadata
// ---------------------------------------------------------------------------------------------

/// Something whose metadata is set: by descriptor, or by a name that is never followed.
#[derive(Debug)]
pub enum Handle<'a> {
    /// An open file or directory.
    Open(BorrowedFd<'a>),
    /// A descriptor that is a mere place (`O_PATH`), with its path below /proc, which leads to
    /// that very inode whatever became of its name.
    Place(BorrowedFd<'a>, String),
    /// A name in a directory: for symbolic links, of which opening tells nothing more.
    Name(BorrowedFd<'a>, &'a CStr),
}

impl<'a> Handle<'a> {
    /// The handle of a descriptor opened as a mere place.
    pub fn place(fd: BorrowedFd<'a>) -> Self {
        Self::Place(fd, format!("/proc/self/fd/{}", fd.as_raw_fd()))
    }

    /// What it is.
    pub fn stat(&self) -> Result<Stat, Errno> {
        match self {
            Self::Open(fd) | Self::Place(fd, _) => fs::fstat(fd),
            Self::Name(dir, name) => fs::statat(dir, *name, AtFlags::SYMLINK_NOFOLLOW),
        }
        .map(Stat::from)
    }

    /// Sets owner and group, `None` leaves one as it is.
    pub fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<(), Errno> {
        // The number of all ones means "as it is" to the system call: nobody has it.
        if uid == Some(u32::MAX) || gid == Some(u32::MAX) {
            return Err(Errno::INVAL);
        }
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        match self {
            Self::Open(fd) => fs::fchown(fd, uid, gid),
            Self::Place(fd, _) => fs::chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH),
            Self::Name(dir, name) => fs::chownat(dir, *name, uid, gid, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    /// Sets the permission bits; symbolic links have none.
    pub fn set_mode(&self, mode: u16) -> Result<(), Errno> {
        match self {
            Self::Open(fd) => fs::fchmod(fd, mode_of(mode)),
            Self::Place(_, path) => fs::chmod(path.as_str(), mode_of(mode)),
            Self::Name(..) => Ok(()),
        }
    }

    /// Sets the time of last change of the contents and leaves that of the last access.
    pub fn set_mtime(&self, mtime: Timestamp) -> Result<(), Errno> {
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT },
            // From a damaged row; larger values have a meaning of their own to the system call.
            last_modification: Timespec {
                tv_sec: mtime.sec,
                tv_nsec: mtime.nsec.min(999_999_999).into(),
            },
        };
        match self {
            Self::Open(fd) => fs::futimens(fd, &times),
            Self::Place(_, path) => fs::utimensat(CWD, path.as_str(), &times, AtFlags::empty()),
            Self::Name(dir, name) => fs::utimensat(dir, *name, &times, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    /// Sets an extended attribute.
    pub fn set_xattr(&self, name: &[u8], value: &[u8]) -> Result<(), Errno> {
        match self {
            Self::Open(fd) => fs::fsetxattr(fd, name, value, XattrFlags::empty()),
            Self::Place(_, path) => fs::setxattr(path.as_str(), name, value, XattrFlags::empty()),
            Self::Name(dir, file) => {
                fs::lsetxattr(proc_path(*dir, file), name, value, XattrFlags::empty())
            }
        }
    }

    /// Removes an extended attribute; it is well where there is none.
    pub fn remove_xattr(&self, name: &[u8]) -> Result<(), Errno> {
        let result = match self {
            Self::Open(fd) => fs::fremovexattr(fd, name),
            Self::Place(_, path) => fs::removexattr(path.as_str(), name),
            Self::Name(dir, file) => fs::lremovexattr(proc_path(*dir, file), name),
        };
        match result {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            result => result,
        }
    }

    /// Whether it has that extended attribute.
    pub fn has_xattr(&self, name: &[u8]) -> bool {
        self.get_xattr(name, &mut []).is_ok()
    }

    /// Whether it has that extended attribute with that value. What may not be read, or is not told of here, it does not have.
    pub fn has_value(&self, name: &[u8], value: &[u8]) -> Result<bool, Errno> {
        let mut buffer = vec![0; value.len() + 1];
        match self.get_xattr(name, &mut buffer) {
            Ok(len) => Ok(buffer.get(..len) == Some(value)),
            Err(e @ (Errno::IO | Errno::NOMEM)) => Err(e),
            Err(_) => Ok(false),
        }
    }

    fn get_xattr(&self, name: &[u8], buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Open(fd) => fs::fgetxattr(fd, name, buffer),
            Self::Place(_, path) => fs::getxattr(path.as_str(), name, buffer),
            Self::Name(dir, file) => fs::lgetxattr(proc_path(*dir, file), name, buffer),
        }
    }

    /// The names of its extended attributes, each with a zero byte behind it; none where there are no attributes.
    pub fn xattr_names(&self) -> Result<Vec<u8>, Errno> {
        let mut names = vec![0; 1 << 10];
        loop {
            let listed = match self {
                Self::Open(fd) => fs::flistxattr(fd, &mut names[..]),
                Self::Place(_, path) => fs::listxattr(path.as_str(), &mut names[..]),
                Self::Name(dir, file) => fs::llistxattr(proc_path(*dir, file), &mut names[..]),
            };
            match listed {
                Ok(len) => {
                    names.truncate(len);
                    return Ok(names);
                }
                Err(Errno::RANGE) if names.len() < 1 << 20 => names.resize(names.len() * 4, 0),
                Err(e @ (Errno::IO | Errno::NOMEM)) => return Err(e),
                Err(_) => return Ok(Vec::new()),
            }
        }
    }
}

fn proc_path(dir: BorrowedFd<'_>, name: &CStr) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Both ways of opening, with openat2 and without, refuse the same things.
    #[test]
    fn opening_stays_beneath() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::create_dir(tmp.path().join("outside")).unwrap();
        std::fs::write(root.join("a/file"), "").unwrap();
        symlink("b", root.join("a/link")).unwrap();
        symlink(tmp.path(), root.join("a/out")).unwrap();
        let root = open_root(&root).unwrap();
        type Opener = fn(BorrowedFd<'_>, &[u8], OFlags) -> Result<OwnedFd, Errno>;
        for open in [open_at_once as Opener, open_by_step] {
            for flags in [DIR, DIR_PLACE] {
                let open = |path: &[u8]| open(root.as_fd(), path, flags);
                assert!(open(b"a").is_ok() && open(b"a/b").is_ok());
                for path in [&b"a/link"[..], b"a/out", b"a/out/outside", b"a/file", b"a/file/x"] {
                    let e = open(path).unwrap_err();
                    assert!(matches!(e, Errno::LOOP | Errno::NOTDIR), "{path:?}: {e}");
                }
                assert_eq!(open(b"a/none").unwrap_err(), Errno::NOENT);
            }
        }
        assert_eq!(first_obstacle(&root, b"a/out/outside"), Some((5, Some(Kind::Symlink))));
        assert_eq!(first_obstacle(&root, b"a/file"), Some((6, Some(Kind::File))));
        assert_eq!(first_obstacle(&root, b"a/b"), None);
    }
}
