//! A few seconds of what `fuzz/` does for hours, with no tools needed: valid encodings, changed at random.
//!
//! A failure names seed and round; the same seed gives the same bytes.

mod decoders;

use capstan_format::array::Layout;
use capstan_format::attachment::{Attachment, AttachmentEnd, AttachmentHeader, AttachmentKind};
use capstan_format::batch::BatchEncoder;
use capstan_format::block::{BLOCK_ALIGN, BlockKind, DaHeader, MaHeader, PAYLOAD_AT};
use capstan_format::codec::{Codec, Compressor, Method};
use capstan_format::entry::{Entry, Extent, ExtentKind, Kind, Outcome, OutcomeCode, Timestamp};
use capstan_format::frame::{CopiedFrame, FRAME_HEADER_LEN, FrameHeader, FrameType};
use capstan_format::id::{
    BlockIndex, MediumId, ObjectId, SegmentId, SegmentNumber, SessionId, VersionId,
};
use capstan_format::index::{FramePlace, encode_index};
use capstan_format::keys::{
    ArgonParams, Cipher, KeyRecord, KeyRing, LockBy, NamesKey, NewLock, RecoveryCode, Scope,
    SessionKeys,
};
use capstan_format::lock::VersionLock;
use capstan_format::record::{
    FORMAT_VERSION, Follows, MediumHeader, OtherEnd, Protection, SegmentEnd, SegmentHeader,
    SessionEnd, SessionLabel, StreamExtent, StreamLabel, encode_record,
};
use decoders::STREAM;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Changes bytes as damage and malice would.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    const ODD: [&[u8]; 8] = [
        &[0],
        &[0x7f],
        &[0x80],
        &[0xff],
        &[0xff, 0xff, 0xff, 0xff],
        &[0x80, 0x80, 0x80, 0x80, 0x01],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        &[0, 0, 0, 0x80],
    ];
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(7) {
            0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            2 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            3 => {
                let odd = ODD[random.below(ODD.len())];
                for (b, odd) in bytes[at..].iter_mut().zip(odd) {
                    *b = *odd;
                }
            }
            4 => bytes.truncate(at),
            5 => {
                let odd = ODD[random.below(ODD.len())].to_vec();
                bytes.splice(at..at, odd);
            }
            _ => {
                let end = (at + random.below(40)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
        }
    }
}

/// Runs a decoder on the valid encodings, then on changed ones.
fn run(seed: u64, valid: &[Vec<u8>], decoder: fn(&[u8])) {
    let rounds = if std::env::var_os("CAPSTAN_SOAK").is_some() { 2_000_000 } else { 80_000 };
    valid.iter().for_each(|bytes| decoder(bytes));
    let mut random = Random(seed);
    for round in 0..rounds {
        let mut bytes = valid[random.below(valid.len())].clone();
        mutate(&mut bytes, &mut random);
        let kept = std::panic::AssertUnwindSafe(&bytes);
        if let Err(why) = std::panic::catch_unwind(|| decoder(&kept)) {
            eprintln!("seed {seed}, round {round}: {bytes:02x?}");
            std::panic::resume_unwind(why);
        }
    }
}

fn entries() -> Vec<Entry> {
    let file = |name: &str, size| Entry {
        dir: b"home/user".to_vec(),
        name: name.as_bytes().to_vec(),
        mode: 0o644,
        uid: 1000,
        gid: 100,
        size,
        mtime: Timestamp { sec: 1_700_000_000, nsec: 5 },
        ctime: Timestamp { sec: 1_700_000_001, nsec: 999_999_999 },
        ino: 77,
        dev: 8,
        ..Entry::default()
    };
    let extents = vec![
        Extent { len: 10, kind: ExtentKind::Data },
        Extent { len: 1 << 40, kind: ExtentKind::Hole },
        Extent { len: 4, kind: ExtentKind::AsIn([3; 16]) },
        Extent { len: 9, kind: ExtentKind::Parts },
        Extent { len: 5, kind: ExtentKind::At(STREAM, 1 << 33) },
    ];
    let sparse = extents.iter().map(|e| e.len).sum();
    let xattrs = vec![(b"user.a".to_vec(), b"1".to_vec()), (b"user.b".to_vec(), vec![0; 40])];
    vec![
        Entry { kind: Kind::Dir, size: 0, mode: 0o4755, ..file("", 0) },
        file("letter", 4000),
        Entry { extents, ..file("sparse", sparse) },
        Entry { xattrs: xattrs.clone(), inode_flags: 16, ..file("letter2", u64::MAX >> 8) },
        Entry { xattrs, link: true, target: b"home/user/letter".to_vec(), ..file("link", 4000) },
        Entry { kind: Kind::Symlink, target: b"../x".to_vec(), ..file("sym", 0) },
        Entry { kind: Kind::CharDevice, rdev: (5, 1), ..file("tty", 0) },
        Entry { kind: Kind::Part, part_offset: 1 << 33, ..file("huge", 8 << 20) },
        Entry { kind: Kind::Tombstone, replaces: true, ..file("gone", 0) },
        Entry {
            kind: Kind::Outcome,
            outcome: Some(Outcome { code: OutcomeCode::Short, errno: 5, offset: 12 }),
            ..file("letter", 0)
        },
    ]
}

fn batch() -> Vec<u8> {
    let mut encoder = BatchEncoder::new();
    entries().iter().for_each(|e| encoder.push(e));
    encoder.user(1000, b"user");
    encoder.group(100, b"users");
    let mut out = Vec::new();
    encoder.finish(17, &mut out);
    out
}

fn frame(frame_type: FrameType, method: Method, plain: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let codec = Compressor::default().compress(method, plain, &mut packed);
    let stored = if codec.is_some() { &packed[..] } else { plain };
    let header = FrameHeader {
        frame_type,
        codec: codec.unwrap_or(Codec::None),
        sealed: false,
        sequence: 3,
        logical: 1 << 33,
        length: plain.len() as u64,
        stored: stored.len() as u32,
        payload_crc: Some(capstan_format::crc::payload_crc(STREAM, 3, stored)),
    };
    let mut bytes = vec![0; FRAME_HEADER_LEN];
    header.encode(STREAM, &mut bytes);
    bytes.extend_from_slice(stored);
    bytes
}

fn frames() -> Vec<Vec<u8>> {
    let text = b"much the same ".repeat(30);
    vec![
        frame(FrameType::Data, Method::Store, b"contents of a file"),
        frame(FrameType::Data, Method::Lz4, &text),
        frame(FrameType::Data, Method::Zstd(1), &text),
        frame(FrameType::Batch, Method::Zstd(3), &batch()),
        frame(FrameType::Unknown(77), Method::Store, b"of a later version"),
    ]
}

fn block() -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_ALIGN];
    let frame = frame(FrameType::Data, Method::Store, b"contents of a file");
    bytes[PAYLOAD_AT..PAYLOAD_AT + frame.len()].copy_from_slice(&frame);
    let used = frame.len().next_multiple_of(8) as u32;
    DaHeader { stream: STREAM, position: 99, used, first_frame: 0 }.encode(&mut bytes);
    let segment = SegmentId([3; 16]);
    let length = bytes.len() as u32;
    MaHeader { kind: BlockKind::Data, segment, index: BlockIndex(4), length }.encode(&mut bytes);
    bytes
}

fn index() -> Vec<u8> {
    let place = |i: u32| FramePlace {
        logical_frame: !i.is_multiple_of(3),
        sequence: i.into(),
        logical: u64::from(i) * 262_144,
        block: BlockIndex(1 + i / 2),
        byte: i * 8,
    };
    encode_index(STREAM, &(0..50).map(place).collect::<Vec<_>>())
}

fn keys() -> (KeyRing, KeyRecord) {
    let mut state = Random(1);
    let mut rng = |out: &mut [u8]| out.fill_with(|| state.next() as u8);
    let argon = ArgonParams { m_kib: 16, t: 1, p: 1 };
    let by = LockBy::Passphrase("open sesame", argon);
    let lock = NewLock { by, scope: Scope::All, label: "test" };
    let (ring, _) = KeyRing::create(&lock, 1_700_000_000, &mut rng).unwrap();
    let keys = SessionKeys::draw(&mut rng);
    let record = KeyRecord::wrap(&keys, Cipher::Aes256Gcm, &ring, &[], &mut rng).unwrap();
    (ring, record)
}

fn records() -> Vec<Vec<u8>> {
    let medium = MediumHeader {
        format: FORMAT_VERSION,
        incompatible: 0,
        compatible: 0,
        medium: MediumId([1; 16]),
        label: "tape 7".to_owned(),
        block_size: 1 << 19,
        created_us: 1_700_000_000_000_000,
        protection: Protection::UntilUs(5),
        cell: None,
        array: None,
        drive_key: None,
    };
    let layout = Layout::of("rait:2+1", 3).unwrap();
    let member = medium.as_array().of_member(MediumId([2; 16]), layout, 1);
    let (segment, number) = (SegmentId([3; 16]), SegmentNumber(9));
    let header = SegmentHeader {
        medium: medium.clone(),
        segment,
        number,
        session: label().session,
        keys: vec![serde_json::from_slice(&keys().1.to_json().unwrap()).unwrap()],
        copy_of: Some(SegmentId([8; 16])),
        follows: Some(Follows { medium: MediumId([9; 16]), label: "tape 6".to_owned() }),
        written_us: 8,
    };
    let stream = StreamExtent {
        stream: STREAM,
        version: VersionId([6; 16]),
        logical_start: 0,
        logical_end: 1 << 30,
        first_sequence: 0,
        frames: 4000,
        rows: 500,
        sparse: true,
    };
    let session_end = SessionEnd {
        status: "completed".to_owned(),
        ended_us: 9,
        files: 500,
        dirs: 3,
        bytes_read: 1 << 30,
        bytes_written: 1 << 29,
        segments: Vec::new(),
        lacks: None,
    };
    let end = SegmentEnd {
        segment,
        number,
        session: SessionId([4; 16]),
        data_blocks: 2000,
        blocks: 2010,
        catalog_at: 4096 + 1999 * (1 << 19) + 8192,
        short_blocks: vec![(0, 4096), (2000, 8192)],
        streams: vec![stream],
        other_ends: vec![OtherEnd { session: label().session, end: session_end.clone() }],
        session_end: Some(session_end),
        lacks: 0,
        lacks_names: false,
        written_us: 10,
    };
    let at = BlockIndex(0);
    let lock = VersionLock::new(VersionId([6; 16]), 7, &[3, 4, 9].map(SegmentNumber));
    let attachment = Attachment {
        id: segment,
        number,
        attachment: AttachmentKind::Lock,
        length: 0,
        written_us: 11,
        locks: vec![lock.clone()],
    };
    let attached = AttachmentHeader { medium: medium.clone(), attachment: attachment.clone() };
    let detached = AttachmentEnd { attachment, blocks: 1, crc: 0 };
    vec![
        encode_record(BlockKind::MediumHeader, SegmentId([0; 16]), at, &medium, 0).unwrap(),
        encode_record(BlockKind::MediumHeader, SegmentId([0; 16]), at, &member, 0).unwrap(),
        encode_record(BlockKind::SegmentHeader, segment, at, &header, 0).unwrap(),
        encode_record(BlockKind::SegmentEnd, segment, at, &end, 0).unwrap(),
        lock.encode().unwrap(),
        encode_record(BlockKind::Attachment, segment, at, &attached, 0).unwrap(),
        encode_record(BlockKind::AttachmentEnd, segment, at, &detached, 0).unwrap(),
    ]
}

fn label() -> StreamLabel {
    StreamLabel {
        session: SessionLabel {
            session: SessionId([4; 16]),
            object: ObjectId([2; 16]),
            version: VersionId([6; 16]),
            parent: Some(SessionId([1; 16])),
            base: None,
            started_us: 6,
            key: Some(keys().1.id()),
            cipher: Some(Cipher::Aes256Gcm),
            state_us: Some(7),
            stands_for: Some(VersionId([7; 16])),
        },
    }
}

#[test]
fn blocks() {
    run(1, &[block()], decoders::block);
}

#[test]
fn frames_open() {
    run(2, &frames(), decoders::frame);
}

#[test]
fn resynchronising() {
    let mut bytes = vec![0; 32];
    frames().iter().for_each(|f| {
        bytes.extend_from_slice(f);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    });
    run(3, &[bytes], decoders::resync);
}

#[test]
fn copied_frames() {
    let copies: Vec<_> = frames().iter().map(|f| CopiedFrame::encode(STREAM, f)).collect();
    run(4, &copies, decoders::copied_frame);
}

#[test]
fn batches() {
    run(5, &[batch()], decoders::batch);
}

#[test]
fn indexes() {
    run(6, &[index()], decoders::index);
}

#[test]
fn records_of_all_kinds() {
    run(7, &records(), decoders::record);
}

#[test]
fn labels() {
    let names = br#"{"name":"n","host":"h","method":"full","tags":["a"]}"#.to_vec();
    run(8, &[serde_json::to_vec(&label()).unwrap(), names], decoders::label);
}

#[test]
fn key_rings_and_records() {
    let (ring, record) = keys();
    run(9, &[ring.to_json().unwrap()], decoders::key_ring);
    run(10, &[record.to_json().unwrap()], decoders::key_record);
    let mut state = Random(2);
    let mut rng = |out: &mut [u8]| out.fill_with(|| state.next() as u8);
    let names = NamesKey::draw(1_700_000_000, &mut rng).unwrap();
    run(10, &[names.to_json().unwrap().to_vec()], decoders::names_key);
}

#[test]
fn recovery_codes() {
    let mut state = Random(2);
    let code = RecoveryCode::draw(&mut |out: &mut [u8]| out.fill_with(|| state.next() as u8));
    run(11, &[code.to_text().as_bytes().to_vec()], decoders::recovery_code);
}

#[test]
fn numbers() {
    let mut bytes = Vec::new();
    for v in [0, 1, 127, 128, 1 << 20, u64::MAX] {
        capstan_format::bytes::put_varint(&mut bytes, v);
        capstan_format::bytes::put_bytes(&mut bytes, b"some bytes");
    }
    run(12, &[bytes], decoders::varints);
}

#[test]
fn compressed_bytes() {
    let text = b"much the same ".repeat(200);
    let len = (text.len() as u32).to_le_bytes();
    let mut packed = Vec::new();
    let encodings: Vec<_> = [(1, Method::Lz4), (2, Method::Zstd(1)), (2, Method::Zstd(9))]
        .into_iter()
        .map(|(codec, method)| {
            Compressor::default().compress(method, &text, &mut packed).unwrap();
            [&[codec, len[0], len[1], len[2]][..], &packed].concat()
        })
        .collect();
    run(13, &encodings, decoders::codec);
}

#[test]
fn checksums_of_contents() {
    let sums = capstan_format::sums::Sums {
        batch: 300,
        sums: vec![Some(1 << 60), None, Some(7)],
        whole: vec![(3, 9), (700, 1 << 50)],
    };
    run(14, &[sums.encode()], decoders::sums);
}

#[test]
fn backups_of_a_database() {
    use capstan_format::idb_backup::{IdbBackupHead, seal_idb_backup};
    let (_, record) = keys();
    let head = IdbBackupHead {
        format: 1,
        cell: capstan_format::id::CellId([8; 16]),
        created_us: 5,
        stream: STREAM,
        key: serde_json::from_slice(&record.to_json().unwrap()).unwrap(),
        cipher: Cipher::Aes256Gcm,
    };
    let files = [("capstan.db", &b"tables"[..]), ("keyring.json", b"{}")];
    run(15, &[seal_idb_backup(&head, &[7; 32], &files).unwrap()], decoders::idb_backup);
}
