//! Backup and restore of made trees through the cell, compared with rsync.

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use capstan_cell::Cell;
use capstan_cell::keyring::Secrets;
use capstan_cell::observe::{Observer, Progress, Stop};
use capstan_cell::report::Report;
use capstan_cell::request::{
    BackupRequest, Compression, Locked, Overwrite, ReadMode, RestoreRequest, RestoreTo, Source,
    VerifyRequest, VersionName,
};
use capstan_engine::message::{Listener, Message};
use support::agents;
use tempfile::TempDir;

#[derive(Default)]
struct SessionLog(Mutex<Vec<String>>);

impl Listener for SessionLog {
    fn message(&self, m: Message) {
        self.0.lock().unwrap().push(format!("{} {} {}", m.code, m.path, m.text));
    }
}
impl Observer for SessionLog {
    fn progress(&self, _: &Progress) {}
}

struct Bench {
    dir: TempDir,
    cell: Cell,
    log: SessionLog,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cell = Cell::open(&dir.path().join("home"), Secrets::none(), agents()).unwrap();
        fs::create_dir(dir.path().join("src")).unwrap();
        Self { dir, cell, log: SessionLog::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn request(&self) -> BackupRequest {
        BackupRequest {
            source: Source::Paths(vec![self.path("src")]),
            client: None,
            device: format!("file:{}", self.path("medium").display()).parse().unwrap(),
            mirrors: Vec::new(),
            pool: None,
            log_level: Default::default(),
            name: Some("src".to_owned()),
            level: Some(capstan_cell::request::Level::Full),
            resume: false,
            run_us: 0,
            dry_run: false,
            tags: vec![],
            keep: capstan_cell::request::Keep::default(),
            streams: Some(2),
            concurrency: None,
            eject_to: None,
            block_size: None,
            new_medium: false,
            segment_size: None,
            buffers: None,
            encrypt: None,
            compression: Compression::Auto,
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

    fn backup(&self, request: &BackupRequest) -> Report {
        let report = self.cell.backup(request, &self.log, &Stop::default()).unwrap();
        assert_eq!(report.status, "completed", "{:?}", self.log.0.lock().unwrap());
        report
    }

    fn restore(&self, paths: &[&Path]) -> (Report, PathBuf) {
        let into = self.path("out");
        let _ = fs::remove_dir_all(&into);
        let request = RestoreRequest {
            version: VersionName::parse("src"),
            client: None,
            paths: paths.iter().map(|p| p.as_os_str().as_encoded_bytes().to_vec()).collect(),
            exclude: Vec::new(),
            include: Vec::new(),
            to: RestoreTo::Into(into.clone()),
            strip: 0,
            overwrite: Overwrite::Always,
            dry_run: false,
            numeric_ids: false,
            spool: None,
        };
        let report = self.cell.restore(&request, &self.log, &Stop::default()).unwrap();
        let place = into.join(self.path("src").strip_prefix("/").unwrap());
        (report, place)
    }

    fn round_trip(&self, request: &BackupRequest) {
        self.backup(request);
        let (report, place) = self.restore(&[]);
        assert_eq!(report.status, "completed", "{report:?} {:?}", self.log.0.lock().unwrap());
        assert_same(&self.path("src"), &place);
        let verify = VerifyRequest::Version(VersionName::parse("src"));
        let report = self.cell.verify(&verify, &self.log, &Stop::default()).unwrap();
        assert_eq!(report.status, "completed", "{:?}", report.errors);
    }
}

fn assert_same(a: &Path, b: &Path) {
    let out = Command::new("rsync")
        .args(["-aHAXn", "--checksum", "--delete", "--itemize-changes"])
        .arg(format!("{}/", a.display()))
        .arg(format!("{}/", b.display()))
        .output()
        .expect("rsync is needed: apt-get install rsync");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success() && text.is_empty(),
        "{text}{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

/// Bytes that compress a little.
fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    (0..len)
        .map(|i| {
            if i % 64 < 32 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                (state >> 56) as u8
            } else {
                (i / 64) as u8
            }
        })
        .collect()
}

fn make_tree(root: &Path, files: usize, size: usize) {
    for i in 0..files {
        let dir = root.join(format!("d{}/e{}", i % 7, i % 3));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("file{i}")), bytes(size + i * 13, i as u64)).unwrap();
    }
    fs::write(root.join("empty"), b"").unwrap();
    fs::write(root.join("mode0"), b"secret").unwrap();
    fs::set_permissions(root.join("mode0"), fs::Permissions::from_mode(0o0)).unwrap();
    fs::hard_link(root.join("mode0"), root.join("zlink")).unwrap();
    fs::hard_link(root.join("d0/e0/file0"), root.join("d1/other name")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(100 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, &bytes(5000, 3), 50 << 20).unwrap();
    fs::set_permissions(root.join("d2"), fs::Permissions::from_mode(0o500)).unwrap();
}

#[test]
fn a_small_tree_comes_back() {
    let bench = Bench::new();
    make_tree(&bench.path("src"), 60, 1000);
    bench.round_trip(&bench.request());
    let sparse = bench.path("out").join(bench.path("src/sparse").strip_prefix("/").unwrap());
    let blocks = std::os::unix::fs::MetadataExt::blocks(&fs::metadata(sparse).unwrap());
    assert!(blocks < 1000, "holes stay holes: {blocks}");
}

#[test]
fn any_shape_of_session_comes_back() {
    for (streams, block, segment, compression) in [
        (1, 64 << 10, 64 << 10, Compression::Off),
        (3, 64 << 10, 1 << 20, Compression::Auto),
        (2, 1 << 20, 3 << 20, Compression::Off),
        (5, 128 << 10, 700_000, Compression::Fixed(capstan_format::codec::Method::Zstd(1))),
    ] {
        let bench = Bench::new();
        make_tree(&bench.path("src"), 300, 20_000);
        fs::write(bench.path("src/huge"), bytes(70 << 20, 5)).unwrap();
        let request = BackupRequest {
            streams: Some(streams),
            block_size: Some(block),
            segment_size: Some(segment),
            compression,
            ..bench.request()
        };
        bench.round_trip(&request);
    }
}

#[test]
fn single_files_and_links_come_back_alone() {
    let bench = Bench::new();
    make_tree(&bench.path("src"), 60, 1000);
    bench.backup(&bench.request());
    let (report, place) =
        bench.restore(&[&bench.path("src/d1/other name"), &bench.path("src/zlink")]);
    assert_eq!(report.status, "completed");
    assert_eq!(fs::read(place.join("d1/other name")).unwrap(), bytes(1000, 0));
    assert_eq!(fs::read(place.join("zlink")).unwrap(), b"secret");
    assert!(!place.join("empty").exists());
    assert_eq!(report.files, 2);
}

#[test]
fn the_database_can_be_lost() {
    let bench = Bench::new();
    make_tree(&bench.path("src"), 60, 30_000);
    bench.backup(&BackupRequest { segment_size: Some(1 << 20), ..bench.request() });
    let cell = Cell::open(&bench.path("home2"), Secrets::none(), agents()).unwrap();
    let device = bench.request().device;
    let report = cell.import(&device, &bench.log, &Stop::default()).unwrap();
    assert_eq!(report.status, "completed", "{report:?}");
    let bench = Bench { cell, ..bench };
    let (report, place) = bench.restore(&[]);
    assert_eq!(report.status, "completed");
    assert_same(&bench.path("src"), &place);
}

#[test]
fn a_cold_huge_file_is_read_by_several_streams() {
    let bench = Bench::new();
    let path = bench.path("src/huge");
    fs::write(&path, bytes(70 << 20, 5)).unwrap();
    // Out of the page cache, so that it is read directly where the file system can.
    let file = fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    bench.round_trip(&BackupRequest { streams: Some(3), ..bench.request() });
}
