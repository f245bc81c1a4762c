//! A small FUSE file system of the tests' own: what is in a directory, through a mount that fails as it is told: EIO, ESTALE,
//! reads and writes that do less than was asked, and no answer at all.
//!
//! It speaks the kernel's protocol itself (`linux/fuse.h`, version 7.31), one request at a time, and needs root and `/dev/fuse`.

use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{
    DirEntryExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::dice::Dice;

/// How a mount fails. Of so many requests of a kind one does, by chance; none where that is 0.
#[derive(Clone, Default)]
pub struct Faults {
    pub eio: usize,
    pub estale: usize,
    /// Reads and writes that do less than they were asked.
    pub short: usize,
    /// Nothing is answered, nor even taken.
    pub hangs: bool,
    /// So many requests are well before any of this.
    pub spare: usize,
}

/// What happened.
#[derive(Clone, Default, Debug)]
pub struct Happened {
    pub requests: u64,
    pub eio: u64,
    pub estale: u64,
    pub short: u64,
    pub hung: u64,
}

struct State {
    faults: Faults,
    /// What its clock says, in seconds since 1970: all times of change are that. Else they are the files' own.
    clock: Option<i64>,
    happened: Happened,
    dice: Dice,
}

/// A mount, gone when dropped.
pub struct Mount {
    at: PathBuf,
    state: Arc<Mutex<State>>,
    device: Arc<File>,
}

/// Why none can be made here.
pub fn missing() -> Option<&'static str> {
    if !crate::support::is_root() {
        return Some("only root may mount");
    }
    (!Path::new("/dev/fuse").exists()).then_some("there is no /dev/fuse")
}

impl Mount {
    /// Shows what is in `of` at `at`, without faults. An error where the kernel refuses.
    pub fn new(of: &Path, at: &Path, seed: u64) -> io::Result<Self> {
        fs::create_dir_all(of)?;
        fs::create_dir_all(at)?;
        let device = Arc::new(OpenOptions::new().read(true).write(true).open("/dev/fuse")?);
        let options =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let [source, target, kind, data] =
            ["capstan-test", at.to_str().unwrap(), "fuse.capstan", &options]
                .map(|text| CString::new(text).unwrap());
        // SAFETY: four texts that end in a zero byte.
        let done = unsafe {
            let flags = libc::MS_NOSUID | libc::MS_NODEV;
            libc::mount(
                source.as_ptr(),
                target.as_ptr(),
                kind.as_ptr(),
                flags,
                data.as_ptr().cast(),
            )
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        let state = State {
            faults: Faults::default(),
            clock: None,
            happened: Happened::default(),
            dice: Dice::new(seed),
        };
        let mount = Self { at: at.to_owned(), state: Arc::new(Mutex::new(state)), device };
        let (device, state, of) = (mount.device.clone(), mount.state.clone(), of.to_owned());
        std::thread::spawn(move || Server::new(of, device, state).serve());
        Ok(mount)
    }

    /// From now on it fails so.
    pub fn fail(&self, faults: Faults) {
        self.state.lock().unwrap().faults = faults;
    }

    /// From now on all files were changed at that second.
    pub fn set_clock(&self, at: i64) {
        self.state.lock().unwrap().clock = Some(at);
    }

    pub fn happened(&self) -> Happened {
        self.state.lock().unwrap().happened.clone()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.fail(Faults::default());
        let at = CString::new(self.at.to_str().unwrap()).unwrap();
        // SAFETY: a text that ends in a zero byte.
        unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
    }
}

/// A request, cut into its fields.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().unwrap())
    }

    /// The text from a place on.
    fn name(&self, at: usize) -> &'a OsStr {
        let rest = &self.0[at..];
        OsStr::from_bytes(&rest[..rest.iter().position(|b| *b == 0).unwrap_or(rest.len())])
    }
}

#[derive(Default)]
struct Answer(Vec<u8>);

impl Answer {
    fn u32(mut self, v: u32) -> Self {
        self.0.extend_from_slice(&v.to_le_bytes());
        self
    }

    fn u64(mut self, v: u64) -> Self {
        self.0.extend_from_slice(&v.to_le_bytes());
        self
    }

    /// `ctime` stands for the file's own, if there is one.
    fn attr(self, ino: u64, m: &fs::Metadata, ctime: Option<i64>) -> Self {
        let (changed, fraction) = ctime.map_or((m.ctime(), m.ctime_nsec()), |at| (at, 0));
        self.u64(ino)
            .u64(m.len())
            .u64(m.blocks())
            .u64(m.atime() as u64)
            .u64(m.mtime() as u64)
            .u64(changed as u64)
            .u32(m.atime_nsec() as u32)
            .u32(m.mtime_nsec() as u32)
            .u32(fraction as u32)
            .u32(m.mode())
            .u32(m.nlink() as u32)
            .u32(m.uid())
            .u32(m.gid())
            .u32(m.rdev() as u32)
            .u32(4096)
            .u32(0)
    }
}

/// What the kernel calls requests.
mod op {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const RENAME2: u32 = 45;
}

const HEADER: usize = 40;
const MOST: u32 = 128 << 10;
/// Nothing is cached by the kernel: each read and write comes here as it was asked.
const DIRECT_IO: u32 = 1;

struct Server {
    root: PathBuf,
    device: Arc<File>,
    state: Arc<Mutex<State>>,
    /// Paths below the root, by node.
    nodes: HashMap<u64, PathBuf>,
    files: HashMap<u64, File>,
    last: u64,
}

impl Server {
    fn new(root: PathBuf, device: Arc<File>, state: Arc<Mutex<State>>) -> Self {
        Self {
            root,
            device,
            state,
            nodes: [(1, PathBuf::new())].into(),
            files: HashMap::new(),
            last: 1,
        }
    }

    fn ctime(&self) -> Option<i64> {
        self.state.lock().unwrap().clock
    }

    fn serve(mut self) {
        let mut buffer = vec![0; MOST as usize + 4096];
        loop {
            let mut poll =
                libc::pollfd { fd: self.device.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry, which is there.
            if unsafe { libc::poll(&mut poll, 1, 50) } == 0 {
                continue;
            }
            // What is not even taken can be killed, as with a server that does not answer; else the kernel waits for ever.
            let mut state = self.state.lock().unwrap();
            if state.faults.hangs && state.faults.spare == 0 && poll.revents & libc::POLLERR == 0 {
                state.happened.hung += 1;
                drop(state);
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            drop(state);
            match (&*self.device).read(&mut buffer) {
                Ok(n) if n >= HEADER => {
                    let request = buffer[..n].to_vec();
                    self.answer(&request);
                }
                // The mount is gone.
                Ok(_) => return,
                Err(e) => match e.raw_os_error() {
                    Some(libc::ENODEV) => return,
                    Some(libc::EINTR | libc::EAGAIN | libc::ENOENT) => {}
                    _ => return,
                },
            }
        }
    }

    fn answer(&mut self, request: &[u8]) {
        let f = Fields(request);
        let (opcode, unique, node) = (f.u32(4), f.u64(8), f.u64(16));
        if matches!(opcode, op::FORGET | op::BATCH_FORGET | op::INTERRUPT) {
            return;
        }
        let result = match self.fault(opcode) {
            0 => self.done(opcode, node, &Fields(&request[HEADER..])),
            errno => Err(io::Error::from_raw_os_error(errno)),
        };
        let (error, body) = match result {
            Ok(answer) => (0, answer.0),
            Err(e) => (-e.raw_os_error().unwrap_or(libc::EIO), Vec::new()),
        };
        let head = Answer::default().u32(16 + body.len() as u32).u32(error as u32).u64(unique);
        let whole = [head.0, body].concat();
        // Whoever asked may have been killed meanwhile.
        let _ = (&*self.device).write(&whole);
    }

    /// The error that a request meets, 0 if none.
    fn fault(&self, opcode: u32) -> i32 {
        let mut state = self.state.lock().unwrap();
        let state = &mut *state;
        state.happened.requests += 1;
        // What a device that fails does to closing says nothing.
        let fails = !matches!(
            opcode,
            op::INIT | op::DESTROY | op::RELEASE | op::RELEASEDIR | op::FLUSH | op::STATFS
        );
        if !fails {
            return 0;
        }
        if state.faults.spare > 0 {
            state.faults.spare -= 1;
            return 0;
        }
        let mut is = |once_in: usize| once_in > 0 && state.dice.once_in(once_in);
        if is(state.faults.eio) {
            state.happened.eio += 1;
            return libc::EIO;
        }
        if is(state.faults.estale) {
            state.happened.estale += 1;
            return libc::ESTALE;
        }
        0
    }

    /// Less than was asked, where that is the fault.
    fn short(&self, size: usize) -> usize {
        let mut state = self.state.lock().unwrap();
        let once_in = state.faults.short;
        if once_in == 0 || size < 2 || !state.dice.once_in(once_in) {
            return size;
        }
        state.happened.short += 1;
        1 + state.dice.below(size - 1)
    }

    fn path(&self, node: u64) -> io::Result<PathBuf> {
        let stale = || io::Error::from_raw_os_error(libc::ESTALE);
        self.nodes.get(&node).map(|p| self.root.join(p)).ok_or_else(stale)
    }

    fn below(&self, node: u64, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.path(node)?.join(name))
    }

    fn entry(&mut self, path: &Path) -> io::Result<Answer> {
        let meta = fs::symlink_metadata(path)?;
        let relative = path.strip_prefix(&self.root).unwrap().to_owned();
        let known = self.nodes.iter().find(|(_, p)| **p == relative).map(|(node, _)| *node);
        let node = known.unwrap_or_else(|| {
            self.last += 1;
            self.nodes.insert(self.last, relative);
            self.last
        });
        let answer = Answer::default().u64(node).u64(0).u64(0).u64(0).u32(0).u32(0);
        Ok(answer.attr(meta.ino(), &meta, self.ctime()))
    }

    fn opened(&mut self, file: File, answer: Answer) -> Answer {
        self.last += 1;
        self.files.insert(self.last, file);
        answer.u64(self.last).u32(DIRECT_IO).u32(0)
    }

    fn file(&self, handle: u64) -> io::Result<&File> {
        self.files.get(&handle).ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    fn moved(&mut self, from: &Path, to: &Path) {
        let of = |p: &Path| p.strip_prefix(&self.root).unwrap().to_owned();
        let (from, to) = (of(from), of(to));
        self.nodes.retain(|_, p| *p != to);
        for path in self.nodes.values_mut() {
            if let Ok(rest) = path.strip_prefix(&from) {
                *path = if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
            }
        }
    }

    fn gone(&mut self, path: &Path) {
        let relative = path.strip_prefix(&self.root).unwrap().to_owned();
        self.nodes.retain(|_, p| *p != relative);
    }

    fn done(&mut self, opcode: u32, node: u64, f: &Fields<'_>) -> io::Result<Answer> {
        let none = Answer::default;
        Ok(match opcode {
            op::INIT => {
                // Nothing special is asked of the kernel but large writes.
                const BIG_WRITES: u32 = 1 << 5;
                let answer = none().u32(7).u32(31).u32(MOST).u32(BIG_WRITES);
                let answer = answer.u32(12 | 9 << 16).u32(MOST).u32(1).u32(0);
                let mut answer = answer;
                answer.0.resize(64, 0);
                answer
            }
            op::LOOKUP => {
                let path = self.below(node, f.name(0))?;
                self.entry(&path)?
            }
            op::GETATTR => {
                let meta = fs::symlink_metadata(self.path(node)?)?;
                none().u64(0).u32(0).u32(0).attr(meta.ino(), &meta, self.ctime())
            }
            op::SETATTR => self.set(node, f)?,
            op::READLINK => {
                Answer(fs::read_link(self.path(node)?)?.into_os_string().as_bytes().to_vec())
            }
            op::SYMLINK => {
                let name = f.name(0);
                let path = self.below(node, name)?;
                std::os::unix::fs::symlink(f.name(name.len() + 1), &path)?;
                self.entry(&path)?
            }
            op::MKDIR => {
                let path = self.below(node, f.name(8))?;
                fs::create_dir(&path)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(f.u32(0) & 0o7777))?;
                self.entry(&path)?
            }
            op::UNLINK | op::RMDIR => {
                let path = self.below(node, f.name(0))?;
                if opcode == op::RMDIR {
                    fs::remove_dir(&path)?
                } else {
                    fs::remove_file(&path)?
                };
                self.gone(&path);
                none()
            }
            op::RENAME | op::RENAME2 => {
                let (at, flags) = if opcode == op::RENAME { (8, 0) } else { (16, f.u32(8)) };
                let old = f.name(at);
                let (from, to) =
                    (self.below(node, old)?, self.below(f.u64(0), f.name(at + old.len() + 1))?);
                if flags & libc::RENAME_NOREPLACE != 0 && fs::symlink_metadata(&to).is_ok() {
                    return Err(io::Error::from_raw_os_error(libc::EEXIST));
                }
                fs::rename(&from, &to)?;
                self.moved(&from, &to);
                none()
            }
            op::OPEN => {
                let flags = f.u32(0) as i32;
                let mode = flags & libc::O_ACCMODE;
                let mut options = OpenOptions::new();
                options.read(mode != libc::O_WRONLY).write(mode != libc::O_RDONLY);
                let file = options.custom_flags(libc::O_NOFOLLOW).open(self.path(node)?)?;
                self.opened(file, none())
            }
            op::CREATE => {
                let path = self.below(node, f.name(16))?;
                let mut options = OpenOptions::new();
                let exclusive = f.u32(0) as i32 & libc::O_EXCL != 0;
                options
                    .read(true)
                    .write(true)
                    .create(true)
                    .create_new(exclusive)
                    .mode(f.u32(4) & 0o7777);
                let file = options.open(&path)?;
                let answer = self.entry(&path)?;
                self.opened(file, answer)
            }
            op::READ => {
                let mut out = vec![0; self.short(f.u32(16) as usize)];
                let (handle, offset) = (f.u64(0), f.u64(8));
                let n = self.file(handle)?.read_at(&mut out, offset)?;
                out.truncate(n);
                Answer(out)
            }
            op::WRITE => {
                let size = self.short(f.u32(16) as usize);
                self.file(f.u64(0))?.write_all_at(&f.0[40..40 + size], f.u64(8))?;
                none().u32(size as u32).u32(0)
            }
            op::FSYNC => {
                self.file(f.u64(0))?.sync_data()?;
                none()
            }
            op::RELEASE => {
                self.files.remove(&f.u64(0));
                none()
            }
            op::OPENDIR => none().u64(0).u32(0).u32(0),
            op::READDIR => self.list(node, f)?,
            // Not FLUSH, which the kernel then does not ask for again: who is killed closes his files, and nothing ends a
            // process that waits for that.
            op::RELEASEDIR | op::FSYNCDIR | op::DESTROY => none(),
            op::STATFS => {
                let stat = rustix::fs::statvfs(&self.root)?;
                let answer = none()
                    .u64(stat.f_blocks)
                    .u64(stat.f_bfree)
                    .u64(stat.f_bavail)
                    .u64(stat.f_files)
                    .u64(stat.f_ffree);
                let mut answer = answer.u32(stat.f_bsize as u32).u32(255).u32(stat.f_frsize as u32);
                answer.0.resize(80, 0);
                answer
            }
            _ => return Err(io::Error::from_raw_os_error(libc::ENOSYS)),
        })
    }

    fn set(&mut self, node: u64, f: &Fields<'_>) -> io::Result<Answer> {
        let (valid, path) = (f.u32(0), self.path(node)?);
        let has = |bit: u32| valid & 1 << bit != 0;
        if has(0) {
            fs::set_permissions(&path, fs::Permissions::from_mode(f.u32(68) & 0o7777))?;
        }
        if has(1) || has(2) {
            let id = |bit, at| has(bit).then(|| f.u32(at));
            std::os::unix::fs::lchown(&path, id(1, 76), id(2, 80))?;
        }
        if has(3) {
            OpenOptions::new().write(true).open(&path)?.set_len(f.u64(16))?;
        }
        let meta = fs::symlink_metadata(&path)?;
        Ok(Answer::default().u64(0).u32(0).u32(0).attr(meta.ino(), &meta, self.ctime()))
    }

    fn list(&self, node: u64, f: &Fields<'_>) -> io::Result<Answer> {
        let mut all: Vec<_> = fs::read_dir(self.path(node)?)?.collect::<io::Result<_>>()?;
        all.sort_by_key(|e| e.file_name());
        let (from, size) = (f.u64(8) as usize, f.u32(16) as usize);
        let mut answer = Answer::default();
        for (n, entry) in all.iter().enumerate().skip(from) {
            let (name, kind) = (entry.file_name(), entry.file_type()?);
            let kind = match () {
                () if kind.is_dir() => libc::DT_DIR,
                () if kind.is_symlink() => libc::DT_LNK,
                () if kind.is_fifo() => libc::DT_FIFO,
                () => libc::DT_REG,
            };
            if answer.0.len() + (24 + name.len()).next_multiple_of(8) > size {
                break;
            }
            answer =
                answer.u64(entry.ino()).u64(n as u64 + 1).u32(name.len() as u32).u32(kind.into());
            answer.0.extend_from_slice(name.as_bytes());
            answer.0.resize(answer.0.len().next_multiple_of(8), 0);
        }
        Ok(answer)
    }
}
