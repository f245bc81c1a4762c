//! What the tests of damage and of golden media share: a made tree, a cell, and comparing trees.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use capstan_address::HostName;
use capstan_cell::Cell;
use capstan_cell::keyring::{self, Secrets};
use capstan_cell::observe::{Observer, Progress, Stop};
use capstan_cell::report::Report;
use capstan_cell::request::{
    BackupRequest, Compression, Locked, Overwrite, ReadMode, RestoreRequest, RestoreTo, Source,
    VersionName,
};
use capstan_devices::host::LocalDevices;
use capstan_engine::entropy::Entropy;
use capstan_engine::message::{Listener, Message};
use capstan_format::keys::{ArgonParams, KeyRing, LockBy, NewLock, Scope};
use capstan_port::Agents;
use tempfile::TempDir;

/// The agents of this host.
pub fn agents() -> Agents {
    capstan_local::agents(LocalDevices::default()).unwrap()
}

/// Nobody listens: what counts is in the reports.
pub struct Deaf;

impl Listener for Deaf {
    fn message(&self, _: Message) {}
}
impl Observer for Deaf {
    fn progress(&self, _: &Progress) {}
}

/// A directory in memory where there is one: these tests restore thousands of times.
pub fn fast_dir() -> TempDir {
    let shm = Path::new("/dev/shm");
    let made = tempfile::Builder::new().prefix("capstan-test").tempdir_in(shm);
    made.unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// Bytes that compress a little, the same for the same seed.
pub fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|i| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            if i % 64 < 40 { (state >> 56) as u8 } else { (i / 64) as u8 }
        })
        .collect()
}

/// A small tree with one of each kind; `unit` scales the sizes.
pub fn make_tree(root: &Path, unit: usize) {
    for dir in ["letters", "letters/old", "zoo"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    for i in 0..12 {
        fs::write(root.join(format!("letters/letter{i}")), bytes(unit + i * 100, i as u64))
            .unwrap();
    }
    for i in 0..4 {
        fs::write(root.join(format!("letters/old/album{i}")), bytes(unit * 9, 50 + i)).unwrap();
    }
    fs::write(root.join("big"), bytes(unit * 40, 99)).unwrap();
    fs::write(root.join("zoo/text"), "much the same ".repeat(unit / 4)).unwrap();
    fs::write(root.join("empty"), b"").unwrap();
    fs::write(root.join("mode0"), b"secret").unwrap();
    fs::hard_link(root.join("letters/letter3"), root.join("zoo/letter3 again")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    let sparse = fs::File::create(root.join("zoo/sparse")).unwrap();
    sparse.set_len(8 << 20).unwrap();
    sparse.write_all_at(&bytes(unit, 7), 4 << 20).unwrap();
    let odd = root.join(std::ffi::OsStr::from_bytes(b"zoo/not utf8 \xff\xfe"));
    fs::write(&odd, b"odd").unwrap();
    let old = fs::File::options().write(true).open(root.join("letters/letter5")).unwrap();
    old.set_modified(std::time::UNIX_EPOCH - std::time::Duration::new(86_400, 250_000_001))
        .unwrap();
    let fifo = root.join("zoo/pipe");
    let (kind, rwx) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, rwx, 0).unwrap();
    // Not every file system has them; where the source has none, none are compared.
    let flags = rustix::fs::XattrFlags::empty();
    let _ = rustix::fs::setxattr(root.join("zoo/text"), "user.note", b"kept", flags);
    let mode = |name: &str, mode| {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    if rustix::process::geteuid().is_root() {
        mode("mode0", 0);
    }
    mode("zoo/text", 0o4755);
    mode("letters/old", 0o500);
}

/// What is compared of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub kind: &'static str,
    pub mode: u32,
    pub mtime: (i64, i64),
    pub size: u64,
    /// Checksum of contents or the link's text.
    pub contents: String,
    /// An extended attribute that the made tree has.
    pub note: Vec<u8>,
    /// Names of the same inode, sorted.
    pub names: Vec<PathBuf>,
}

/// All that is below `root`, by relative path.
pub fn tree(root: &Path) -> BTreeMap<PathBuf, State> {
    let mut found = BTreeMap::new();
    let mut inodes: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        let Ok(list) = fs::read_dir(&dir) else { continue };
        for entry in list {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let short = path.strip_prefix(root).unwrap().to_owned();
            let file_type = meta.file_type();
            let (kind, contents) = if file_type.is_dir() {
                dirs.push(path.clone());
                ("directory", String::new())
            } else if file_type.is_symlink() {
                ("symlink", fs::read_link(&path).unwrap().display().to_string())
            } else if file_type.is_fifo() {
                ("fifo", String::new())
            } else {
                ("file", checksum(&read(&path, meta.mode())))
            };
            if kind != "directory" && meta.nlink() > 1 {
                inodes.entry(meta.ino()).or_default().push(short.clone());
            }
            let state = State {
                kind,
                mode: meta.mode() & 0o7777,
                mtime: (meta.mtime(), meta.mtime_nsec()),
                size: if kind == "file" { meta.size() } else { 0 },
                contents,
                note: note(&path),
                names: Vec::new(),
            };
            found.insert(short, state);
        }
    }
    for mut names in inodes.into_values() {
        names.sort();
        for name in &names {
            found.get_mut(name).unwrap().names = names.clone();
        }
    }
    found
}

/// Reads a file; one that its owner may not read is opened up meanwhile.
fn read(path: &Path, mode: u32) -> Vec<u8> {
    let closed = mode & 0o400 == 0;
    if closed {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let bytes = fs::read(path).unwrap();
    if closed {
        fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777)).unwrap();
    }
    bytes
}

fn note(path: &Path) -> Vec<u8> {
    let mut value = vec![0; 64];
    let len = rustix::fs::lgetxattr(path, "user.note", &mut value[..]).unwrap_or(0);
    value.truncate(len);
    value
}

/// SHA-256, as `sha256sum` prints it.
pub fn checksum(bytes: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    digest.as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

/// Makes a key ring in a home, opened by a passphrase; cheap to derive, as that is not what is tested.
pub fn make_ring(home: &Path, passphrase: &str) {
    fs::create_dir_all(home).unwrap();
    let entropy = Entropy::system().unwrap();
    let cheap = ArgonParams { m_kib: 16, t: 1, p: 1 };
    let lock =
        NewLock { by: LockBy::Passphrase(passphrase, cheap), scope: Scope::All, label: "test" };
    let ring = keyring::with_randomness(&entropy, |rng| KeyRing::create(&lock, 1_700_000_000, rng));
    keyring::save(home, &ring.unwrap().0).unwrap();
}

pub fn secrets(passphrase: Option<&str>) -> Secrets {
    match passphrase {
        Some(p) => Secrets::none().with_passphrase(p),
        None => Secrets::none(),
    }
}

pub fn backup_request(source: &Path, medium: &Path) -> BackupRequest {
    BackupRequest {
        source: Source::Paths(vec![source.to_owned()]),
        client: None,
        device: format!("file:{}", medium.display()).parse().unwrap(),
        mirrors: Vec::new(),
        pool: None,
        log_level: Default::default(),
        name: Some("made".to_owned()),
        level: Some(capstan_cell::request::Level::Full),
        resume: false,
        run_us: 0,
        dry_run: false,
        tags: vec![],
        keep: capstan_cell::request::Keep::default(),
        streams: Some(2),
        concurrency: None,
        eject_to: None,
        block_size: Some(64 << 10),
        new_medium: false,
        segment_size: Some(64 << 10),
        buffers: None,
        compression: Compression::Off,
        encrypt: None,
        crc: true,
        read: ReadMode::Auto,
        exclude: vec![],
        include: vec![],
        exclude_caches: false,
        exclude_if_present: vec![],
        sizes: None,
        one_file_system: false,
        hard_links_as_files: false,
        lock_files: false,
        locked: Locked::Warn,
        retries: 0,
        retry_wait: std::time::Duration::ZERO,
    }
}

pub fn backup(cell: &Cell, request: &BackupRequest) -> Report {
    let report = cell.backup(request, &Deaf, &Stop::default()).unwrap();
    assert_eq!(report.status, "completed", "{:?}", report.errors);
    report
}

pub fn restore(cell: &Cell, name: &str, into: &Path) -> capstan_cell::Result<Report> {
    restore_to(cell, name, into, None)
}

/// The same to a client of the cell.
pub fn restore_to(
    cell: &Cell,
    name: &str,
    into: &Path,
    client: Option<HostName>,
) -> capstan_cell::Result<Report> {
    let _ = fs::remove_dir_all(into);
    let request = RestoreRequest {
        version: VersionName::parse(name),
        client,
        paths: Vec::new(),
        exclude: Vec::new(),
        include: Vec::new(),
        to: RestoreTo::Into(into.to_owned()),
        strip: 0,
        overwrite: Overwrite::Always,
        dry_run: false,
        numeric_ids: false,
        spool: None,
    };
    cell.restore(&request, &Deaf, &Stop::default())
}
