//! A medium that was made to do harm: its names lead out of where they are restored. A restore into a directory and one
//! to an archive refuse the same ones.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use capstan_cell::Cell;
use capstan_cell::keyring::Secrets;
use capstan_cell::observe::Stop;
use capstan_cell::report::Report;
use capstan_cell::request::{Overwrite, RestoreRequest, RestoreTo, VersionName};
use capstan_devices::directory::Directories;
use capstan_engine::entropy::Entropy;
use capstan_engine::ladder::Ladder;
use capstan_engine::meter::Meters;
use capstan_format::entry::{Entry, Kind, path_order};
use capstan_format::id::{MediumId, ObjectId, SessionId, StreamId, VersionId};
use capstan_format::record::{
    FORMAT_VERSION, MediumHeader, Protection, SessionEnd, SessionLabel, StreamLabel,
};
use capstan_media_agent::write::writer::Writer;
use capstan_port::media::write::options::{CATALOG_LIMIT_DEFAULT, WriterOptions};
use capstan_stream::StreamWriter;
use capstan_stream::choice::CompressionChoice;
use capstan_stream::options::StreamOptions;
use capstan_stream::owners::OwnerNames;
use capstan_wire::compression::Compression;
use support::{Deaf, agents, fast_dir};

/// Writes a medium with a session that has these rows.
fn write_medium(path: &Path, rows: Vec<Entry>) {
    write_medium_with(path, rows, 0, 0);
}

/// The same with so many bytes of contents behind the rows, and so many of filling behind these.
fn write_medium_with(path: &Path, rows: Vec<Entry>, contents: usize, fill: u64) {
    let header = MediumHeader {
        format: FORMAT_VERSION,
        incompatible: 0,
        compatible: 0,
        medium: MediumId([1; 16]),
        label: "evil".to_owned(),
        block_size: 64 << 10,
        created_us: 1,
        protection: Protection::None,
        cell: None,
        array: None,
        drive_key: None,
    };
    let label = SessionLabel {
        session: SessionId([2; 16]),
        object: ObjectId([3; 16]),
        version: VersionId([4; 16]),
        parent: None,
        base: None,
        started_us: 2,
        key: None,
        cipher: None,
        state_us: None,
        stands_for: None,
    };
    let device = Directories::site(path).device(|| Ok(header.clone()), None).unwrap();
    let options = WriterOptions {
        medium: header.clone(),
        session: label.clone(),
        others: std::collections::HashMap::new(),
        keys: Vec::new(),
        segment_size: 1 << 20,
        catalog_limit: CATALOG_LIMIT_DEFAULT,
        segment_time: Duration::from_secs(60),
        buffers: 4,
        now_us: || 3,
        next_media: None,
        rereads: false,
        keeping: None,
    };
    let (entropy, meters) = (Arc::new(Entropy::seeded(1)), Arc::new(Meters::default()));
    let writer =
        Writer::start(Box::new(device), options, entropy, meters.clone(), Box::new(|_| Ok(())));
    let options = StreamOptions {
        stream: StreamId([5; 16]),
        label: serde_json::to_vec(&StreamLabel { session: label }).unwrap(),
        names: br#"{"name":"evil","host":"there","method":"full"}"#.to_vec(),
        sealers: None,
        crc: true,
        choice: CompressionChoice::new(Compression::Off, Arc::new(Ladder::default())),
    };
    let owners = Arc::new(OwnerNames::default());
    let mut stream = StreamWriter::open(Arc::new(writer.port()), meters, owners, options);
    stream.rows(rows).unwrap();
    if contents > 0 {
        stream.space().unwrap()[..contents].fill(b'x');
        stream.advance(contents).unwrap();
    }
    stream.fill(fill).unwrap();
    stream.finish().unwrap();
    let end = SessionEnd {
        status: "completed".to_owned(),
        ended_us: 4,
        files: 0,
        dirs: 0,
        bytes_read: 0,
        bytes_written: 0,
        segments: Vec::new(),
        lacks: None,
    };
    writer.finish(Some(end)).unwrap();
}

fn restore(cell: &Cell, to: RestoreTo) -> Report {
    let request = RestoreRequest {
        version: VersionName::parse("evil"),
        client: None,
        paths: Vec::new(),
        exclude: Vec::new(),
        include: Vec::new(),
        to,
        strip: 0,
        overwrite: Overwrite::Always,
        dry_run: false,
        numeric_ids: true,
        spool: None,
    };
    cell.restore(&request, &Deaf, &Stop::default()).unwrap()
}

#[test]
fn names_that_lead_out_are_refused_by_restores_of_both_kinds() {
    let dir = fast_dir();
    let at = |name: &str| dir.path().join(name);
    let file = |dir: &[u8], name: &[u8]| Entry {
        dir: dir.to_vec(),
        name: name.to_vec(),
        mode: 0o644,
        ..Entry::default()
    };
    let link = |name: &[u8], target: &[u8]| Entry {
        link: true,
        target: target.to_vec(),
        ..file(b"", name)
    };
    let soft = |name: &[u8], target: &[u8]| Entry {
        kind: Kind::Symlink,
        link: false,
        ..link(name, target)
    };
    let mut rows = vec![
        file(b"", b"../../x"),
        link(b"stolen", b"../../../etc/passwd"),
        file(b"", b"good"),
        link(b"good2", b"good"),
        soft(b"nothing", b""),
        file(b"..", b"y"),
        Entry { kind: Kind::Dir, ..file(b"a/..", b"..") },
        file(b"/etc", b"z"),
    ];
    rows.sort_by(|a, b| path_order((&a.dir, &a.name), (&b.dir, &b.name)));
    write_medium(&at("medium"), rows);
    let cell = Cell::open(&at("home"), Secrets::none(), agents()).unwrap();
    let device = format!("file:{}", at("medium").display()).parse().unwrap();
    cell.import(&device, &Deaf, &Stop::default()).unwrap();
    for (to, what) in
        [(RestoreTo::Into(at("a/b/out")), "into"), (RestoreTo::Tar(Some(at("x.tar"))), "tar")]
    {
        let report = restore(&cell, to);
        assert_eq!(report.status, "completed_with_errors", "{what}: {report:?}");
        let mut refused: Vec<_> = report.errors.iter().map(|e| (e.path.as_str(), e.code)).collect();
        refused.sort_unstable();
        let mut expected = ["/../../x", "/stolen", "/nothing", "/../y", "/a/../..", "//etc/z"]
            .map(|p| (p, "bad-name"));
        expected.sort_unstable();
        assert_eq!(refused, expected, "{what}");
    }
    let listed = Command::new("tar").arg("-tf").arg(at("x.tar")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "good\ngood2\n");
    let restored = fs::read_dir(at("a/b/out")).unwrap().count();
    assert_eq!((restored, fs::read_dir(at("a/b")).unwrap().count()), (2, 1));
}

/// A cell that imported a medium with one file that claims nearly 2^63 bytes, of which ten are there, and then so much filling.
fn with_claim(dir: &Path, fill: u64) -> Cell {
    let huge = Entry { name: b"huge".to_vec(), mode: 0o644, size: 1 << 62, ..Entry::default() };
    write_medium_with(&dir.join("medium"), vec![huge], 10, fill);
    let cell = Cell::open(&dir.join("home"), Secrets::none(), agents()).unwrap();
    let device = format!("file:{}", dir.join("medium").display()).parse().unwrap();
    cell.import(&device, &Deaf, &Stop::default()).unwrap();
    cell
}

#[test]
fn a_size_that_no_frame_bears_out_is_not_believed() {
    let dir = fast_dir();
    let cell = with_claim(dir.path(), 0);
    for to in [RestoreTo::Into(dir.path().join("out")), RestoreTo::Tar(Some(dir.path().join("x")))]
    {
        let report = restore(&cell, to);
        assert_eq!(report.status, "completed_with_errors", "{report:?}");
        let errors: Vec<_> = report.errors.iter().map(|e| (e.path.as_str(), e.code)).collect();
        assert_eq!(errors, [("/huge", "damaged")]);
    }
    assert_eq!(fs::read(dir.path().join("out/huge")).unwrap(), b"xxxxxxxxxx");
    let archive = fs::metadata(dir.path().join("x")).unwrap().len();
    assert!(archive < 1 << 20, "{archive} bytes");
    let untar = ["-xf", "x", "-O"];
    let out = Command::new("tar").args(untar).current_dir(dir.path()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.stdout, b"xxxxxxxxxx");
}

#[test]
fn filling_of_any_length_is_a_hole_in_an_archive() {
    let dir = fast_dir();
    let cell = with_claim(dir.path(), (1 << 62) - 10);
    let report = restore(&cell, RestoreTo::Tar(Some(dir.path().join("x"))));
    assert_eq!(report.status, "completed", "{report:?}");
    let archive = fs::metadata(dir.path().join("x")).unwrap().len();
    assert!(archive < 2 << 20, "{archive} bytes");
    let listed = Command::new("tar").arg("-tvf").arg(dir.path().join("x")).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains(&(1_u64 << 62).to_string()), "{listed}");
}
