//! Rows to test with: each test names only what matters to it.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod server;

use capstan_address::HostName;
use capstan_format::id::{
    MediumId, ObjectId, SegmentId, SegmentNumber, SessionId, StreamId, VersionId,
};
use capstan_idb::{Idb, Medium, Object, Segment, Session, Status, StreamPart, Version};
use tempfile::TempDir;

/// A fresh home and its database, on the store that is tested.
pub fn fresh() -> (TempDir, Idb) {
    let dir = tempfile::tempdir().unwrap();
    server::prepare(&dir.path().join("home"));
    let idb = Idb::open(&dir.path().join("home")).unwrap();
    (dir, idb)
}

/// The same with the database in a file, whatever is tested.
pub fn fresh_file() -> (TempDir, Idb) {
    let dir = tempfile::tempdir().unwrap();
    let idb = Idb::open(&dir.path().join("home")).unwrap();
    (dir, idb)
}

/// The bytes of the n-th identity: the first byte tells them apart, as in a random one.
pub fn nth(n: u8) -> [u8; 16] {
    let mut bytes = [0xee; 16];
    bytes[0] = n;
    bytes
}

pub fn object(n: u8, name: &str) -> Object {
    Object {
        id: ObjectId(nth(n)),
        name: name.into(),
        host: HostName::recorded("alpha"),
        sealed: None,
    }
}

pub fn medium(n: u8, label: &str) -> Medium {
    Medium {
        id: MediumId(nth(n)),
        label: label.into(),
        device: "file:/mnt/backup".parse().unwrap(),
        block_size: 256 << 10,
        created_us: 1_700_000_000_000_000,
        hosts: Vec::new(),
    }
}

pub fn version(n: u8, object: u8, status: Status) -> Version {
    Version {
        id: VersionId(nth(n)),
        object: ObjectId(nth(object)),
        status,
        method: "full".into(),
        base: None,
        key: None,
        null_device: false,
        created_us: 1_000 + i64::from(n),
        stands_for: None,
    }
}

pub fn session(n: u8, version: Option<u8>, status: Status) -> Session {
    Session {
        id: SessionId(nth(n)),
        kind: "backup".into(),
        object: None,
        version: version.map(|v| VersionId(nth(v))),
        parent: None,
        status,
        host: HostName::recorded("alpha"),
        device: "file:/mnt/backup".parse().unwrap(),
        started_us: 2_000 + i64::from(n),
        run_us: None,
        ended_us: None,
        files: 0,
        dirs: 0,
        bytes_read: 0,
        bytes_written: 0,
        tags: vec!["nightly".into(), "a \"quoted\"; tag".into()],
        report: None,
        pid: 100 + u32::from(n),
        birth: "boot".into(),
    }
}

pub fn segment(n: u8, medium: u8, number: u32, session: u8) -> Segment {
    Segment {
        id: SegmentId(nth(n)),
        medium: MediumId(nth(medium)),
        number: SegmentNumber(number),
        object: None,
        session: SessionId(nth(session)),
        blocks: 16,
        bytes: 16 * (256 << 10),
        committed_us: 3_000 + i64::from(n),
    }
}

pub fn part(segment: u8, stream: u8, version: u8, from: u64, to: u64) -> StreamPart {
    StreamPart {
        segment: SegmentId(nth(segment)),
        stream: StreamId(nth(stream)),
        version: VersionId(nth(version)),
        logical_start: from,
        logical_end: to,
        rows: 7,
    }
}

/// Object 1, its running version 1 written by running session 1, and medium 1.
pub fn begun() -> (TempDir, Idb) {
    begun_in(fresh())
}

/// The same in a database that is there.
pub fn begun_in((dir, idb): (TempDir, Idb)) -> (TempDir, Idb) {
    begin(&idb);
    (dir, idb)
}

/// The rows alone.
pub fn begin(idb: &Idb) {
    idb.put_object(&object(1, "etc")).unwrap();
    idb.put_medium(&medium(1, "monday")).unwrap();
    idb.begin_session(&session(1, Some(1), Status::Running), Some(&version(1, 1, Status::Running)))
        .unwrap();
}
