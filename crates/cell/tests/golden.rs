//! Golden media: written once by an early version of this format, kept in the repository, and read back by every later
//! one to the very same files. They are never written again; a new version of the format gets media of its own beside
//! them.
//!
//! `tests/golden/NAME/medium` is the medium, `manifest.txt` what a restore of it gives. The passphrase of
//! `v1-encrypted` is [`PASSPHRASE`]. `CAPSTAN_WRITE_GOLDEN=1 cargo test -p capstan-cell --test golden -- --ignored`
//! writes those that are missing (remove a directory first to write it anew).

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use capstan_cell::Cell;
use capstan_cell::observe::Stop;
use capstan_cell::request::{BackupRequest, Compression, Source, VerifyRequest};
use capstan_engine::message::path_text;
use capstan_format::codec::Method;
use support::{Deaf, agents, backup, backup_request, make_ring, make_tree, restore, secrets, tree};

const PASSPHRASE: &str = "golden passphrase";
/// Where the source lay: the same everywhere, so that the stored paths do not depend on the machine.
const SOURCE: &str = "/var/tmp/capstan-golden";

struct Golden {
    name: &'static str,
    passphrase: Option<&'static str>,
    compression: Compression,
}

const GOLDEN: [Golden; 2] = [
    Golden { name: "v1-plain", passphrase: None, compression: Compression::Off },
    Golden {
        name: "v1-encrypted",
        passphrase: Some(PASSPHRASE),
        compression: Compression::Fixed(Method::Zstd(3)),
    },
];

fn place(golden: &Golden) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(golden.name)
}

/// One line per name below `root`, sorted: kind, mode, length, time, checksum or link text, path; further names of an
/// inode say so. Owners are not in it: restoring them takes root.
fn manifest(root: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut text = String::new();
    for (path, s) in tree(root) {
        let contents = if s.contents.is_empty() { "-".to_owned() } else { s.contents.clone() };
        let links =
            if s.names.is_empty() { String::new() } else { format!(" links={}", s.names.len()) };
        let note = String::from_utf8_lossy(&s.note);
        let note = if note.is_empty() { String::new() } else { format!(" user.note={note}") };
        let (sec, nsec) = s.mtime;
        let path = path_text(path.as_os_str().as_bytes());
        text += &format!(
            "{} {:04o} {} {sec}.{nsec:09} {contents}{links}{note} {path}\n",
            s.kind, s.mode, s.size
        );
    }
    text
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn todays_code_reads_the_golden_media() {
    for golden in &GOLDEN {
        let place = place(golden);
        let expected = fs::read_to_string(place.join("manifest.txt"))
            .unwrap_or_else(|e| panic!("{}: {e}", place.display()));
        let dir = tempfile::tempdir().unwrap();
        // A copy, so that nothing that is tried here can change the one that is kept.
        let medium = dir.path().join("medium");
        copy_dir(&place.join("medium"), &medium);
        let cell =
            Cell::open(&dir.path().join("home"), secrets(golden.passphrase), agents()).unwrap();

        let device = format!("file:{}", medium.display()).parse().unwrap();
        let report = cell.import(&device, &Deaf, &Stop::default()).unwrap();
        assert_eq!(report.status, "completed", "{}: {report:?}", golden.name);
        let verify = VerifyRequest::Medium(medium.display().to_string());
        let report = cell.verify(&verify, &Deaf, &Stop::default()).unwrap();
        assert_eq!(report.status, "completed", "{}: {report:?}", golden.name);

        let into = dir.path().join("out");
        let report = restore(&cell, "made", &into).unwrap();
        assert!(report.errors.iter().all(|e| e.code == "not-restored"), "{report:?}");
        let root = into.join(SOURCE.trim_start_matches('/'));
        assert_eq!(manifest(&root), expected, "{}", golden.name);
        // The second session has other frames: another codec, and no checksums of contents.
        let report = restore(&cell, "second", &into).unwrap();
        assert!(report.errors.iter().all(|e| e.code == "not-restored"), "{report:?}");
        let zoo = |text: &str| {
            let lines = text.lines().filter(|l| l.contains(" zoo/"));
            lines.map(|l| l.replace(" links=2", "")).collect::<Vec<_>>()
        };
        assert!(zoo(&expected).len() > 4);
        assert_eq!(zoo(&manifest(&root)), zoo(&expected), "{}", golden.name);
        let sparse = fs::metadata(root.join("zoo/sparse")).unwrap();
        assert!(sparse.blocks() * 512 < sparse.len() / 4, "holes stay holes");
    }
}

#[test]
fn a_golden_medium_without_its_passphrase_gives_nothing_away() {
    let golden = &GOLDEN[1];
    let dir = tempfile::tempdir().unwrap();
    let medium = dir.path().join("medium");
    copy_dir(&place(golden).join("medium"), &medium);
    for wrong in [None, Some("another passphrase")] {
        let cell = Cell::open(
            &dir.path().join(format!("home{}", wrong.is_some())),
            secrets(wrong),
            agents(),
        )
        .unwrap();
        let device = format!("file:{}", medium.display()).parse().unwrap();
        let imported = cell.import(&device, &Deaf, &Stop::default());
        let sessions = cell.sessions(None, None, 10).unwrap();
        if wrong.is_some() {
            assert!(imported.is_err() && sessions.is_empty(), "a wrong secret is no secret");
            continue;
        }
        imported.unwrap();
        let session =
            sessions.iter().find(|s| s.kind == "backup").expect("the clear part is known");
        assert!(session.files > 0 && session.name.is_empty(), "{session:?}");
        assert!(restore(&cell, "made", &dir.path().join("out")).is_err());
        assert!(!dir.path().join("out").exists(), "nothing was written");
    }
    for entry in fs::read_dir(&medium).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        for secret in [&b"letter"[..], b"much the same", b"made"] {
            assert!(!bytes.windows(secret.len()).any(|w| w == secret));
        }
    }
}

#[test]
#[ignore = "writes the golden media; once per version of the format"]
fn write_the_golden_media() {
    assert!(std::env::var_os("CAPSTAN_WRITE_GOLDEN").is_some(), "set CAPSTAN_WRITE_GOLDEN=1");
    for golden in &GOLDEN {
        let place = place(golden);
        if place.exists() {
            println!("{} is there", place.display());
            continue;
        }
        let source = Path::new(SOURCE);
        let _ = fs::remove_dir_all(source);
        fs::create_dir(source).unwrap();
        fs::set_permissions(source, fs::Permissions::from_mode(0o755)).unwrap();
        make_tree(source, 400);
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        if let Some(p) = golden.passphrase {
            make_ring(&home, p);
        }
        let medium = dir.path().join("golden");
        let cell = Cell::open(&home, secrets(golden.passphrase), agents()).unwrap();
        let request =
            BackupRequest { compression: golden.compression, ..backup_request(source, &medium) };
        backup(&cell, &request);
        let second = BackupRequest {
            source: Source::Paths(vec![source.join("zoo")]),
            name: Some("second".to_owned()),
            compression: Compression::Fixed(Method::Lz4),
            crc: false,
            streams: Some(1),
            ..request
        };
        backup(&cell, &second);
        fs::create_dir_all(&place).unwrap();
        copy_dir(&medium, &place.join("medium"));
        fs::write(place.join("manifest.txt"), manifest(source)).unwrap();
        let size: u64 = fs::read_dir(place.join("medium"))
            .unwrap()
            .map(|e| e.unwrap().metadata().unwrap().len())
            .sum();
        assert!(size < 200 << 10, "{size} bytes are much to keep in the repository");
        fs::remove_dir_all(source).unwrap();
    }
}
