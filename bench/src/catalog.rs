//! Generates the catalogs of an object as large as nobody has at hand: a full and incrementals, without files or media.

use std::path::Path;

use capstan_address::{Address, HostName};
use capstan_format::batch::BatchEncoder;
use capstan_format::catalog::CatalogBuilder;
use capstan_format::codec::{Codec, Compressor, Method};
use capstan_format::crc::payload_crc;
use capstan_format::entry::{Entry, Timestamp};
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader, FrameType};
use capstan_format::id::{
    BlockIndex, MediumId, ObjectId, SegmentId, SegmentNumber, SessionId, StreamId, VersionId,
};
use capstan_format::index::FramePlace;
use capstan_format::record::{
    FORMAT_VERSION, MediumHeader, Protection, SegmentEnd, SegmentHeader, SessionLabel,
    StreamExtent, StreamLabel, StreamNames,
};
use capstan_idb::{Idb, Medium, Object, Segment, Session, Status, StreamPart, Totals, Version};

use crate::error::BenchError;

/// The object's name.
pub const NAME: &str = "huge";
/// Files of a directory.
pub const FILES_PER_DIR: u64 = 300;
/// Directories of a directory above.
const DIRS_PER_DIR: u64 = 1000;
/// Rows of a batch, as the walk groups them.
const BATCH: usize = 256;
/// Catalog bytes that end a segment.
const SEGMENT: usize = 1 << 20;
/// Of so many files an incremental has one.
const CHANGED: u64 = 300;

/// The directory of a file.
pub fn dir_of(file: u64) -> String {
    let dir = file / FILES_PER_DIR;
    format!("srv/data/d{:05}/d{:04}", dir / DIRS_PER_DIR, dir % DIRS_PER_DIR)
}

/// The name of a file.
pub fn name_of(file: u64) -> String {
    format!("f{file:09}")
}

/// Makes a home with a full of `files` files and `incrementals` of a three hundredth each. Returns entries and bytes of
/// catalogs.
pub fn generate(home: &Path, files: u64, incrementals: u64) -> Result<(u64, u64), BenchError> {
    let idb = Idb::open(home)?;
    let medium = MediumHeader {
        format: FORMAT_VERSION,
        incompatible: 0,
        compatible: 0,
        medium: MediumId([1; 16]),
        label: "generated".to_owned(),
        block_size: 1 << 19,
        created_us: 1,
        protection: Protection::None,
        cell: None,
        array: None,
        drive_key: None,
    };
    let object = ObjectId([2; 16]);
    idb.put_object(&Object {
        id: object,
        name: NAME.into(),
        host: HostName::recorded("bench"),
        sealed: None,
    })?;
    idb.put_medium(&Medium {
        id: medium.medium,
        label: medium.label.clone(),
        device: Address::of_directory("/nowhere"),
        block_size: medium.block_size,
        created_us: 1,
        hosts: Vec::new(),
    })?;
    let (mut entries, mut bytes, mut base, mut number) = (0, 0, None, 0);
    for n in 0..=incrementals {
        let session = SessionLabel {
            session: SessionId(id(3, n)),
            object,
            version: VersionId(id(4, n)),
            parent: None,
            base,
            started_us: 1_700_000_000_000_000 + n as i64 * 86_400_000_000,
            key: None,
            cipher: None,
            state_us: None,
            stands_for: None,
        };
        begin(&idb, &session)?;
        let changed = move |file: u64| n == 0 || file % CHANGED == n;
        let all = (0..files).filter(move |file| changed(*file));
        for stream in 0..2 {
            let rows = all.clone().filter(|file| file % 2 == stream).map(|file| row(file, n));
            let mut writer = Writer::new(&idb, &medium, &session, StreamId(id(5, n * 2 + stream)));
            let (e, b) = writer.write(rows, &mut number)?;
            entries += e;
            bytes += b;
        }
        let done = Status::Completed;
        let ended = session.started_us + 1_000_000;
        idb.end_session(session.session, done, ended, &Totals::default(), "{}", Some(done))?;
        base = Some(session.version);
    }
    Ok((entries, bytes))
}

fn id(kind: u8, n: u64) -> [u8; 16] {
    let mut id = [kind; 16];
    id[8..].copy_from_slice(&n.to_le_bytes());
    id
}

/// Sizes and times that do not compress better than real ones.
fn row(file: u64, version: u64) -> Entry {
    let noise = (file ^ version << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let time = Timestamp {
        sec: 1_700_000_000 + (noise % 10_000_000) as i64,
        nsec: (noise as u32) % 1_000_000_000,
    };
    Entry {
        dir: dir_of(file).into_bytes(),
        name: name_of(file).into_bytes(),
        mode: 0o644,
        uid: 1000,
        gid: 1000,
        size: 4096 + noise % 12_288,
        mtime: time,
        ctime: time,
        ino: 100_000 + file,
        dev: 64_768,
        replaces: version > 0,
        ..Entry::default()
    }
}

fn begin(idb: &Idb, label: &SessionLabel) -> Result<(), BenchError> {
    let method = if label.base.is_some() { "incr" } else { "full" };
    let version = Version {
        id: label.version,
        object: label.object,
        status: Status::Running,
        method: method.to_owned(),
        base: label.base,
        key: None,
        null_device: false,
        created_us: label.started_us,
        stands_for: None,
    };
    let session = Session {
        id: label.session,
        kind: "backup".to_owned(),
        object: Some(label.object),
        version: Some(label.version),
        parent: None,
        status: Status::Running,
        host: HostName::recorded("bench"),
        device: "file:/nowhere".to_owned(),
        started_us: label.started_us,
        run_us: None,
        ended_us: None,
        files: 0,
        dirs: 0,
        bytes_read: 0,
        bytes_written: 0,
        tags: Vec::new(),
        report: None,
        pid: std::process::id(),
        birth: String::new(),
    };
    Ok(idb.begin_session(&session, Some(&version))?)
}

/// Writes the catalogs of one stream.
struct Writer<'a> {
    idb: &'a Idb,
    medium: &'a MediumHeader,
    session: &'a SessionLabel,
    stream: StreamId,
    compressor: Compressor,
    sequence: u64,
    logical: u64,
}

impl<'a> Writer<'a> {
    fn new(
        idb: &'a Idb,
        medium: &'a MediumHeader,
        session: &'a SessionLabel,
        stream: StreamId,
    ) -> Self {
        let compressor = Compressor::default();
        Self { idb, medium, session, stream, compressor, sequence: 0, logical: 0 }
    }

    fn write(
        &mut self,
        rows: impl Iterator<Item = Entry>,
        number: &mut u64,
    ) -> Result<(u64, u64), BenchError> {
        let mut rows = rows.peekable();
        let (mut entries, mut bytes) = (0, 0);
        while rows.peek().is_some() {
            *number += 1;
            let (segment_rows, segment_bytes) = self.segment(&mut rows, *number)?;
            entries += segment_rows;
            bytes += segment_bytes;
        }
        Ok((entries, bytes))
    }

    fn segment(
        &mut self,
        rows: &mut impl Iterator<Item = Entry>,
        number: u64,
    ) -> Result<(u64, u64), BenchError> {
        let segment = SegmentId(id(6, number));
        let at = SegmentNumber(number as u32);
        let header = SegmentHeader {
            follows: None,
            medium: self.medium.clone(),
            segment,
            number: at,
            session: self.session.clone(),
            keys: Vec::new(),
            copy_of: None,
            written_us: 1,
        };
        let mut catalog = CatalogBuilder::new(segment);
        let (begin, first_sequence) = (self.logical, self.sequence);
        let label = serde_json::to_vec(&StreamLabel { session: self.session.clone() });
        let names = serde_json::to_vec(&StreamNames {
            name: NAME.into(),
            host: "bench".to_owned(),
            method: "full".into(),
            tags: Vec::new(),
        });
        let mut places = Vec::new();
        let mut size = 0;
        for (kind, plain) in [(FrameType::Label, label), (FrameType::Names, names)] {
            size += self.frame(&mut catalog, kind, &plain?, &mut places);
        }
        let (mut encoder, mut plain, mut count) = (BatchEncoder::new(), Vec::new(), 0);
        while size < SEGMENT {
            rows.take(BATCH).for_each(|row| encoder.push(&row));
            if encoder.rows() == 0 {
                break;
            }
            count += encoder.rows() as u64;
            let len = encoder.logical_len();
            encoder.finish(0, &mut plain);
            size += self.frame(&mut catalog, FrameType::Batch, &plain, &mut places);
            self.logical += len;
        }
        catalog.index(self.stream, &places);
        let extent = StreamExtent {
            stream: self.stream,
            version: self.session.version,
            logical_start: begin,
            logical_end: self.logical,
            first_sequence,
            frames: self.sequence - first_sequence,
            rows: count,
            sparse: false,
        };
        let end = SegmentEnd {
            segment,
            number: at,
            session: self.session.session,
            data_blocks: 1,
            blocks: 3,
            catalog_at: 1 << 20,
            short_blocks: Vec::new(),
            streams: vec![extent],
            session_end: None,
            other_ends: Vec::new(),
            lacks: 0,
            lacks_names: false,
            written_us: 1,
        };
        let frames = catalog.finish(&header, &end)?.into_frames();
        self.idb.write_catalog(segment, &[&frames])?;
        let row = Segment {
            id: segment,
            medium: self.medium.medium,
            number: at,
            object: None,
            session: self.session.session,
            blocks: 3,
            bytes: 1 << 20,
            committed_us: self.session.started_us,
        };
        let part = StreamPart {
            segment,
            stream: self.stream,
            version: self.session.version,
            logical_start: begin,
            logical_end: self.logical,
            rows: count,
        };
        self.idb.commit_segments(&[(row, vec![part])])?;
        Ok((count, frames.len() as u64))
    }

    fn frame(
        &mut self,
        catalog: &mut CatalogBuilder,
        frame_type: FrameType,
        plain: &[u8],
        places: &mut Vec<FramePlace>,
    ) -> usize {
        let mut packed = Vec::new();
        let codec = self.compressor.compress(Method::Zstd(3), plain, &mut packed);
        let stored = if codec.is_some() { &packed[..] } else { plain };
        let header = FrameHeader {
            frame_type,
            codec: codec.unwrap_or(Codec::None),
            sealed: false,
            sequence: self.sequence,
            logical: self.logical,
            length: plain.len() as u64,
            stored: stored.len() as u32,
            payload_crc: Some(payload_crc(self.stream, self.sequence, stored)),
        };
        let mut frame = vec![0; FRAME_HEADER_LEN];
        header.encode(self.stream, &mut frame);
        frame.extend_from_slice(stored);
        catalog.copy(self.stream, &frame);
        places.push(FramePlace {
            logical_frame: false,
            sequence: self.sequence,
            logical: self.logical,
            block: BlockIndex(1),
            byte: 0,
        });
        self.sequence += 1;
        frame.len()
    }
}
