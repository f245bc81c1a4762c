//! What the tests of writing and reading share: made streams, a medium in memory, and reading all of it back.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capstan_devices::memory::FaultyStorage;
use capstan_devices::store::StorageDevice;
use capstan_engine::entropy::Entropy;
use capstan_engine::ladder::Ladder;
use capstan_engine::link::{BlockPort, LinkClosed};
use capstan_engine::meter::Meters;
use capstan_format::batch::Batch;
use capstan_format::catalog::{Contents, StreamContents};
use capstan_format::codec::Decompressor;
use capstan_format::entry::{Entry, Extent, ExtentKind, Kind, Outcome, OutcomeCode, Timestamp};
use capstan_format::frame::{FrameHeader, FrameType};
use capstan_format::id::{MediumId, ObjectId, SegmentNumber, SessionId, StreamId, VersionId};
use capstan_format::keys::{Cipher, FrameSealer, Purpose};
use capstan_format::record::{
    FORMAT_VERSION, MediumHeader, Protection, SegmentEnd, SegmentHeader, SessionEnd, SessionLabel,
    StreamLabel,
};
use capstan_media_agent::read::frames::FrameReader;
use capstan_media_agent::read::segment::SegmentReader;
use capstan_media_agent::write::writer::Writer;
use capstan_medium::{Device, DeviceError, OpenMedium};
use capstan_port::media::write::committed::{OnCommit, Written};
use capstan_port::media::write::options::WriterOptions;
use capstan_stream::StreamWriter;
use capstan_stream::choice::CompressionChoice;
use capstan_stream::options::{Sealers, StreamOptions};
use capstan_stream::owners::OwnerNames;
use capstan_wire::compression::Compression;

/// A small generator of numbers (SplitMix64), so that a case is its seed.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub fn bytes(&mut self, len: usize, compressible: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(len + 8);
        while out.len() < len {
            let word = self.next();
            let word = if compressible { word & 0x0303_0000_0000_0303 } else { word };
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.truncate(len);
        out
    }
}

/// One row, and what is done for it.
#[derive(Debug, Clone)]
pub struct Spec {
    pub kind: Kind,
    pub len: u32,
    /// Holes between pieces of the contents.
    pub sparse: bool,
    /// Contents from this byte on cannot be read.
    pub fill_from: Option<u32>,
    pub outcome: bool,
    /// Bytes of extended attributes.
    pub xattrs: u32,
    pub name_len: u8,
    pub compressible: bool,
    /// Rows are sent up to this one before its contents are.
    pub flush: bool,
    /// The stream waits for input after it.
    pub idle: bool,
}

impl Spec {
    pub fn file(len: u32) -> Self {
        Self {
            kind: Kind::File,
            len,
            sparse: false,
            fill_from: None,
            outcome: false,
            xattrs: 0,
            name_len: 8,
            compressible: false,
            flush: true,
            idle: false,
        }
    }

    fn entry(&self, number: usize, random: &mut Random) -> Entry {
        let has_data = matches!(self.kind, Kind::File | Kind::Part);
        let len = if has_data { u64::from(self.len) } else { 0 };
        let mut entry = Entry {
            kind: self.kind,
            dir: format!("top/d{}", number / 7).into_bytes(),
            name: format!("{number:05}{}", "n".repeat(self.name_len.into())).into_bytes(),
            mode: (number % 0o7777) as u16,
            uid: (number % 3 * 1000) as u32,
            gid: 0,
            size: len,
            mtime: Timestamp { sec: 1_700_000_000 - number as i64, nsec: number as u32 },
            ctime: Timestamp { sec: -5, nsec: 1 },
            ino: random.next(),
            dev: 7,
            ..Entry::default()
        };
        match self.kind {
            Kind::Symlink => entry.target = b"some where".to_vec(),
            Kind::CharDevice => entry.rdev = (number as u32, 3),
            Kind::Part => entry.part_offset = 1 << 30,
            Kind::File if self.sparse && len > 10 => {
                let (first, hole) = (len / 3, 1 << 33);
                let rest = len - first;
                entry.size = len + hole;
                entry.extents = vec![
                    Extent { len: first, kind: ExtentKind::Data },
                    Extent { len: hole, kind: ExtentKind::Hole },
                    Extent { len: rest, kind: ExtentKind::Data },
                ];
            }
            _ => {}
        }
        let mut left = self.xattrs as usize;
        while left > 0 {
            let n = left.min(60_000);
            entry.xattrs.push((format!("user.{left:08}").into_bytes(), random.bytes(n, false)));
            left -= n;
        }
        entry.xattrs.sort();
        entry
    }
}

/// What a stream was given.
#[derive(Debug, Clone)]
pub struct Given {
    pub stream: StreamId,
    pub rows: Vec<Entry>,
    pub outcomes: Vec<Entry>,
    /// Its logical byte space; filling is zeros.
    pub data: Vec<u8>,
}

/// How a session is written.
#[derive(Debug, Clone)]
pub struct Shape {
    pub block_size: u32,
    pub segment_size: u64,
    pub catalog_limit: u64,
    pub buffers: usize,
    pub compression: Compression,
    pub crc: bool,
    pub sealed: bool,
    pub seed: u64,
}

pub const SESSION_KEY: [u8; 32] = [7; 32];

pub fn sealer(stream: StreamId, purpose: Purpose) -> FrameSealer {
    FrameSealer::new(&SESSION_KEY, purpose, stream, Cipher::Aes256Gcm).unwrap()
}

pub fn medium(block_size: u32) -> MediumHeader {
    MediumHeader {
        format: FORMAT_VERSION,
        incompatible: 0,
        compatible: 0,
        medium: MediumId([1; 16]),
        label: "made".to_owned(),
        block_size,
        created_us: 5,
        protection: Protection::None,
        cell: None,
        array: None,
        drive_key: None,
    }
}

pub fn label(session: u8) -> SessionLabel {
    SessionLabel {
        session: SessionId([session; 16]),
        object: ObjectId([2; 16]),
        version: VersionId([session; 16]),
        parent: None,
        base: None,
        started_us: 6,
        key: None,
        cipher: None,
        state_us: None,
        stands_for: None,
    }
}

pub fn device(storage: &FaultyStorage, block_size: u32) -> Result<StorageDevice, DeviceError> {
    StorageDevice::on_storage(Arc::new(storage.clone()), "memory", || Ok(medium(block_size)))
}

pub fn open(storage: &FaultyStorage) -> Result<OpenMedium, DeviceError> {
    OpenMedium::on(Arc::new(storage.clone()), "memory")
}

/// Starts a writer.
pub fn writer(
    device: Box<dyn Device>,
    shape: &Shape,
    session: u8,
    on_commit: Box<OnCommit>,
) -> Writer {
    let options = WriterOptions {
        medium: medium(shape.block_size),
        session: label(session),
        others: std::collections::HashMap::new(),
        keys: Vec::new(),
        segment_size: shape.segment_size,
        catalog_limit: shape.catalog_limit,
        segment_time: Duration::from_secs(60),
        buffers: shape.buffers,
        now_us: || 8,
        next_media: None,
        rereads: false,
        keeping: None,
    };
    let entropy = Arc::new(Entropy::seeded(shape.seed));
    Writer::start(device, options, entropy, Arc::new(Meters::default()), on_commit)
}

fn stream_options(shape: &Shape, session: u8, stream: StreamId) -> StreamOptions {
    let sealers = shape.sealed.then(|| Sealers {
        names: sealer(stream, Purpose::Names),
        contents: sealer(stream, Purpose::Contents),
    });
    StreamOptions {
        stream,
        label: serde_json::to_vec(&StreamLabel { session: label(session) }).unwrap(),
        names: br#"{"name":"made","host":"here","method":"full"}"#.to_vec(),
        sealers,
        crc: shape.crc,
        choice: CompressionChoice::new(shape.compression, Arc::new(Ladder::default())),
    }
}

/// Sends the rows and their contents; returns what was sent (as far as the media agent took it).
fn send(
    writer: &mut StreamWriter<'_>,
    specs: &[Spec],
    given: &mut Given,
    seed: u64,
) -> Result<(), LinkClosed> {
    let mut random = Random(seed);
    let mut waiting: Vec<(Entry, &Spec)> = Vec::new();
    for (number, spec) in specs.iter().enumerate() {
        waiting.push((spec.entry(number, &mut random), spec));
        if !spec.flush && number + 1 < specs.len() {
            continue;
        }
        let rows: Vec<_> = waiting.iter().map(|(e, _)| e.clone()).collect();
        given.rows.extend(rows.iter().cloned());
        writer.rows(rows)?;
        for (entry, spec) in waiting.drain(..) {
            contents(writer, &entry, spec, given, &mut random)?;
        }
    }
    Ok(())
}

fn contents(
    writer: &mut StreamWriter<'_>,
    entry: &Entry,
    spec: &Spec,
    given: &mut Given,
    random: &mut Random,
) -> Result<(), LinkClosed> {
    let len = entry.logical_len() as usize;
    let readable = spec.fill_from.map_or(len, |n| len.min(n as usize));
    let bytes = random.bytes(readable, spec.compressible);
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let space = writer.space()?;
        // Readers give what they have, not what there is room for.
        let n = space.len().min(rest.len()).min(1 + random.below(300_000) as usize);
        space[..n].copy_from_slice(&rest[..n]);
        rest = &rest[n..];
        writer.advance(n)?;
    }
    writer.fill((len - readable) as u64)?;
    given.data.extend_from_slice(&bytes);
    given.data.resize(given.data.len() + len - readable, 0);
    if spec.outcome && len > 0 {
        let outcome = Entry {
            kind: Kind::Outcome,
            dir: entry.dir.clone(),
            name: entry.name.clone(),
            outcome: Some(Outcome {
                code: OutcomeCode::Unreadable,
                errno: 5,
                offset: readable as u64,
            }),
            ..Entry::default()
        };
        writer.outcome(outcome.clone());
        given.outcomes.push(outcome);
    }
    if spec.idle {
        writer.idle()?;
        if random.below(2) == 0 {
            std::thread::yield_now();
        }
    }
    Ok(())
}

/// Writes a session of one thread per stream; the order of their blocks is the scheduler's. `pokes` times a commit is
/// asked for meanwhile. Returns what was given, and how the media agent ended.
pub fn write_session(
    writer: Writer,
    shape: &Shape,
    session: u8,
    streams: &[Vec<Spec>],
    pokes: u32,
) -> (Vec<Given>, Result<Written, capstan_port::media::write::error::WriteError>) {
    let through: &Through = &|writer, _, fill| fill(Arc::new(writer.port()));
    write_session_through(writer, (shape, session), streams, pokes, through)
}

/// Has streams filled through a port of a writer: the writer's own, or one behind connections.
pub type Through = dyn Fn(&Writer, &[StreamId], &mut Fill<'_>);

/// Fills them.
pub type Fill<'f> = dyn FnMut(Arc<dyn BlockPort + '_>) + 'f;

/// The same through that port.
pub fn write_session_through(
    writer: Writer,
    (shape, session): (&Shape, u8),
    streams: &[Vec<Spec>],
    pokes: u32,
    through: &Through,
) -> (Vec<Given>, Result<Written, capstan_port::media::write::error::WriteError>) {
    let mut random = Random(shape.seed ^ u64::from(session));
    let ids: Vec<_> =
        streams.iter().map(|_| StreamId(std::array::from_fn(|_| random.next() as u8))).collect();
    let seed = random.next();
    let mut given = Vec::new();
    through(&writer, &ids, &mut |port| {
        let streams: Vec<_> = ids.iter().copied().zip(streams).collect();
        given = fill(&writer, port, (shape, session, seed), &streams, pokes);
    });
    let end = SessionEnd {
        status: "completed".to_owned(),
        ended_us: 9,
        files: 1,
        dirs: 0,
        bytes_read: 0,
        bytes_written: 0,
        segments: Vec::new(),
        lacks: None,
    };
    (given, writer.finish(Some(end)))
}

/// Fills streams, each in a thread.
fn fill(
    writer: &Writer,
    port: Arc<dyn BlockPort + '_>,
    (shape, session, seed): (&Shape, u8, u64),
    streams: &[(StreamId, &Vec<Spec>)],
    pokes: u32,
) -> Vec<Given> {
    let owners = Arc::new(OwnerNames::default());
    let meters = Arc::new(Meters::default());
    let mut random = Random(seed);
    let opened: Vec<_> = streams
        .iter()
        .map(|(stream, specs)| {
            let options = stream_options(shape, session, *stream);
            let opened = StreamWriter::open(port.clone(), meters.clone(), owners.clone(), options);
            let given =
                Given { stream: *stream, rows: Vec::new(), outcomes: Vec::new(), data: Vec::new() };
            (opened, given, *specs, random.next())
        })
        .collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = opened
            .into_iter()
            .map(|(mut stream, mut given, specs, seed)| {
                scope.spawn(move || {
                    let sent = send(&mut stream, specs, &mut given, seed);
                    let _ = sent.and_then(|()| stream.finish());
                    given
                })
            })
            .collect();
        for _ in 0..pokes {
            std::thread::sleep(Duration::from_micros(300));
            writer.commit_soon();
        }
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// What is read back of a stream from all segments.
#[derive(Debug, Default, PartialEq)]
pub struct Got {
    /// Rows whose data begin in the segment, or that have none: each once.
    pub rows: Vec<(u64, Entry)>,
    pub outcomes: Vec<Entry>,
    pub data: Vec<u8>,
    next_sequence: u64,
}

/// Takes what one segment has of its streams.
pub fn take(
    got: &mut BTreeMap<StreamId, Got>,
    reader: &SegmentReader,
    contents: &Contents,
    sealed: bool,
) {
    for stream in &contents.streams {
        let got = got.entry(stream.stream).or_default();
        take_rows(got, stream, sealed);
        take_data(got, reader, contents, stream, sealed);
    }
}

fn open_frame(header: &FrameHeader, stored: &[u8], sealer: Option<&FrameSealer>) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut scratch = Vec::new();
    header.open(stored, sealer, &mut Decompressor::default(), &mut scratch, &mut plain).unwrap();
    plain
}

fn take_rows(got: &mut Got, stream: &StreamContents, sealed: bool) {
    let key = sealed.then(|| sealer(stream.stream, Purpose::Names));
    for raw in &stream.batches {
        assert_eq!(raw.header.sealed, sealed);
        let batch = Batch::decode(&open_frame(&raw.header, &raw.stored, key.as_ref())).unwrap();
        let mut start = raw.header.logical + batch.data_at;
        for entry in batch.entries {
            let len = entry.logical_len();
            let begins = len == 0 || start < stream.logical_end;
            // What continues from an earlier segment lies in a row that was taken there.
            let goes_on = entry.kind == Kind::Part
                && got.rows.iter().any(|(at, row)| {
                    row.name == entry.name && *at < start && start < *at + row.logical_len()
                });
            if entry.kind == Kind::Outcome {
                got.outcomes.push(entry);
            } else if begins && !goes_on {
                got.rows.push((start, entry));
            }
            start += len;
        }
    }
}

fn take_data(
    got: &mut Got,
    reader: &SegmentReader,
    contents: &Contents,
    stream: &StreamContents,
    sealed: bool,
) {
    let key = sealed.then(|| sealer(stream.stream, Purpose::Contents));
    let mut frames = FrameReader::of(reader, contents, stream.stream);
    for place in &stream.index {
        assert_eq!(place.sequence, got.next_sequence, "frames follow each other");
        assert_eq!(place.logical, got.data.len() as u64, "logical offsets follow each other");
        got.next_sequence += 1;
        let (header, stored) = frames.frame(place).unwrap();
        match header.frame_type {
            FrameType::Data => {
                got.data.extend_from_slice(&open_frame(&header, stored, key.as_ref()));
            }
            FrameType::Fill => got.data.resize(got.data.len() + header.length as usize, 0),
            _ => {}
        }
    }
    assert_eq!(stream.logical_end, got.data.len() as u64, "the segment ends where its frames do");
}

/// Panics where what was read of a stream is not what was given.
pub fn assert_same(given: &Given, got: &Got) {
    assert!(
        given.data == got.data,
        "data of {}: {} and {}",
        given.stream,
        given.data.len(),
        got.data.len()
    );
    assert_eq!(given.outcomes, got.outcomes);
    let mut expected: Vec<(u64, Entry)> = Vec::new();
    let mut start = 0;
    for row in &given.rows {
        expected.push((start, row.clone()));
        start += row.logical_len();
    }
    // A row without data is read where it was sent; one whose data came later, with them.
    let where_data_begin =
        |(at, e): &(u64, Entry)| (if e.logical_len() > 0 { *at } else { 0 }, e.clone());
    let order = |rows: &[(u64, Entry)]| {
        let mut rows: Vec<_> = rows.iter().map(where_data_begin).collect();
        rows.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        rows
    };
    let (expected, found) = (order(&expected), order(&got.rows));
    assert_eq!(expected.len(), found.len(), "rows of {}", given.stream);
    for (e, f) in expected.iter().zip(&found) {
        assert_eq!(e, f);
    }
}

/// What `on_commit` reported: header, end, catalog.
pub type Reported = Arc<Mutex<Vec<(SegmentHeader, SegmentEnd, Vec<u8>)>>>;

pub fn recorder(reported: &Reported) -> Box<OnCommit> {
    let reported = reported.clone();
    Box::new(move |c| {
        let commit = (c.header.clone(), c.end.clone(), c.catalog.clone());
        reported.lock().unwrap().push(commit);
        Ok(())
    })
}

pub fn read_all(medium: &OpenMedium, number: SegmentNumber) -> Vec<u8> {
    let file = medium.open_segment(number).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}
