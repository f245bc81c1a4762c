//! Every decoder of the format, as functions of bytes that must neither panic nor hang, whatever the bytes are. Used by
//! the short run of the gate (`fuzz_short.rs`) and by the targets of `fuzz/`.
//!
//! Checksums are made right first where the decoder asks for them: else hardly any input would get further.

#![allow(dead_code, reason = "each fuzz target uses one")]

use capstan_format::array::Layout;
use capstan_format::array_map::SegmentMap;
use capstan_format::attachment::{AttachmentEnd, AttachmentHeader, Contents};
use capstan_format::batch::{Batch, BatchEncoder};
use capstan_format::block::{Block, BlockKind, DaHeader, HEADER_LEN, MaHeader};
use capstan_format::bytes::Cursor;
use capstan_format::codec::{Codec, Decompressor};
use capstan_format::crc::{crc32c, crc32c_of, payload_crc};
use capstan_format::frame::{
    CopiedFrame, FRAME_HEADER_LEN, FRAME_PLAIN_MAX, FrameHeader, find_frame,
};
use capstan_format::id::StreamId;
use capstan_format::index::{decode_index, encode_index};
use capstan_format::keys::{KeyRecord, KeyRing, NamesKey, RecoveryCode};
use capstan_format::lock::VersionLock;
use capstan_format::record::{
    MediumHeader, RECORD_AT, SegmentEnd, SegmentHeader, StreamLabel, StreamNames, decode_record,
};

/// The stream that frames are read as.
pub const STREAM: StreamId = StreamId([5; 16]);

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn right_header(bytes: &mut [u8], at: usize) {
    if let Some(h) = bytes.get_mut(at..at + HEADER_LEN) {
        let crc = crc32c(&h[..60]);
        put32(h, 60, crc);
    }
}

fn right_frame(bytes: &mut [u8], stream: StreamId) {
    if bytes.len() < FRAME_HEADER_LEN {
        return;
    }
    let mut sequence = [0; 8];
    sequence.copy_from_slice(&bytes[8..16]);
    let crc = payload_crc(stream, u64::from_le_bytes(sequence), &bytes[FRAME_HEADER_LEN..]);
    put32(bytes, 40, crc);
    let crc = crc32c_of(&[stream.as_bytes(), &bytes[..44]]);
    put32(bytes, 44, crc);
}

/// A data or catalog block.
pub fn block(data: &[u8]) {
    let _ = Block::decode(data);
    let mut bytes = data.to_vec();
    right_header(&mut bytes, 0);
    right_header(&mut bytes, HEADER_LEN);
    if let Ok(block) = Block::decode(&bytes) {
        // What was read is what is written, but for reserved bytes.
        let mut again = bytes.clone();
        block.da.encode(&mut again);
        block.ma.encode(&mut again);
        let (ma, da) = (block.ma, block.da);
        assert_eq!(MaHeader::decode(&again), Ok(ma));
        assert_eq!(DaHeader::decode(&again[..ma.length as usize]), Ok(da));
        let _ = find_frame(STREAM, block.payload, 0);
    }
}

/// A frame: its header, and its payload opened.
pub fn frame(data: &[u8]) {
    let _ = FrameHeader::decode(STREAM, data);
    let mut bytes = data.to_vec();
    right_frame(&mut bytes, STREAM);
    let Ok(header) = FrameHeader::decode(STREAM, &bytes) else { return };
    let mut again = [0; FRAME_HEADER_LEN];
    header.encode(STREAM, &mut again);
    assert_eq!(FrameHeader::decode(STREAM, &again), Ok(header));
    let Some(stored) = bytes.get(FRAME_HEADER_LEN..FRAME_HEADER_LEN + header.stored as usize)
    else {
        return;
    };
    let (mut scratch, mut out) = (Vec::new(), Vec::new());
    if header.check_payload(STREAM, stored).is_ok()
        && header.open(stored, None, &mut Decompressor::default(), &mut scratch, &mut out).is_ok()
    {
        assert!(out.is_empty() || out.len() as u64 == header.length);
    }
}

/// A frame found in a payload after damage.
pub fn resync(data: &[u8]) {
    if let Some(at) = find_frame(STREAM, data, 1) {
        assert!(FrameHeader::decode(STREAM, &data[at..]).is_ok());
    }
}

/// A frame copied into a catalog.
pub fn copied_frame(data: &[u8]) {
    let _ = CopiedFrame::decode(data);
    let mut bytes = data.to_vec();
    if bytes.len() > 16 {
        let mut id = [0; 16];
        id.copy_from_slice(&bytes[..16]);
        right_frame(&mut bytes[16..], StreamId(id));
        if let Ok(copy) = CopiedFrame::decode(&bytes) {
            assert_eq!(copy.stored.len(), copy.header.stored as usize);
        }
    }
}

/// A batch. One that can be read is the same once encoded and read again.
pub fn batch(data: &[u8]) {
    let Ok(batch) = Batch::decode(data) else { return };
    let mut encoder = BatchEncoder::new();
    batch.entries.iter().for_each(|e| encoder.push(e));
    batch.users.iter().for_each(|(id, name)| encoder.user(*id, name));
    batch.groups.iter().for_each(|(id, name)| encoder.group(*id, name));
    let mut again = Vec::new();
    encoder.finish(batch.data_at, &mut again);
    // Front coding may have blown it up beyond what a frame holds.
    if again.len() <= FRAME_PLAIN_MAX {
        let read = Batch::decode(&again).expect("what was read can be written and read");
        assert!(same(&read, &batch), "{batch:?}\n{read:?}");
    }
}

/// Extents of kinds that this version does not know lose their detail, which it cannot write either.
fn same(a: &Batch, b: &Batch) -> bool {
    a.data_at == b.data_at
        && a.entries == b.entries
        && (&a.users, &a.groups) == (&b.users, &b.groups)
}

/// A frame index.
pub fn index(data: &[u8]) {
    if let Ok((stream, places)) = decode_index(data) {
        let again = encode_index(stream, &places);
        assert_eq!(decode_index(&again), Ok((stream, places)));
    }
}

/// A record block, of each kind.
pub fn record(data: &[u8]) {
    records(data);
    let mut bytes = data.to_vec();
    right_header(&mut bytes, 0);
    if bytes.len() > RECORD_AT {
        let mut len = [0; 4];
        len.copy_from_slice(&bytes[HEADER_LEN..HEADER_LEN + 4]);
        let end = RECORD_AT.saturating_add(u32::from_le_bytes(len) as usize);
        if let Some(json) = bytes.get(RECORD_AT..end) {
            let crc = crc32c(json);
            put32(&mut bytes, HEADER_LEN + 4, crc);
        }
        records(&bytes);
    }
}

fn records(bytes: &[u8]) {
    if let Ok((_, header)) = decode_record::<MediumHeader>(BlockKind::MediumHeader, bytes)
        && header.check().is_ok()
        && let Some(array) = header.of_array()
    {
        array.check().expect("the array of a member that can be can be");
    }
    if let Ok((_, header)) = decode_record::<SegmentHeader>(BlockKind::SegmentHeader, bytes) {
        for key in &header.keys {
            key_record(key.to_string().as_bytes());
        }
    }
    if let Ok((_, end)) = decode_record::<SegmentEnd>(BlockKind::SegmentEnd, bytes) {
        for (name, members) in [("rait0", 2), ("rait1", 2), ("rait:3+2", 5)] {
            let layout = Layout::of(name, members).expect("a layout");
            if let Ok(map) = SegmentMap::new(layout, 1 << 19, &end) {
                map_holds(&map, end.data_blocks);
                map_holds(&map.of_member(1, layout), map.stripes());
            }
        }
    }
    if let Ok(header) = AttachmentHeader::decode(bytes) {
        let again = header.encode().expect("what was read can be written");
        assert_eq!(AttachmentHeader::decode(&again).as_ref(), Ok(&header));
        let mut contents = Contents::of(header.attachment);
        let _ = contents.take(bytes);
        let _ = contents.finish(None);
    }
    if let Ok(end) = AttachmentEnd::decode(bytes) {
        let _ = Contents::of(end.attachment.clone()).finish(Some(&end));
    }
    if let Ok(lock) = VersionLock::decode(bytes) {
        let again = lock.encode().expect("what was read can be written");
        assert_eq!(VersionLock::decode(&again), Ok(lock));
    }
}

/// What a map says of its first and last blocks fits together.
fn map_holds(map: &SegmentMap, most: u32) {
    assert!(map.data_blocks() <= most);
    for index in [1, map.data_blocks()].into_iter().filter(|i| (1..=map.data_blocks()).contains(i))
    {
        let (stripe, role) = map.place_of(index);
        assert_eq!(map.index_of(stripe, role), Some(index));
        assert_eq!(map.block_with(map.block_at(index)), Some(index));
        assert_eq!(map.len_of(stripe, role), map.block_len(index));
    }
    for member in 0..map.layout().members() {
        assert!(map.member_at(member, map.stripes()) <= map.catalog_at());
    }
}

/// The JSON of labels and names.
pub fn label(data: &[u8]) {
    let _ = serde_json::from_slice::<StreamLabel>(data);
    let _ = serde_json::from_slice::<StreamNames>(data);
}

/// A key ring.
pub fn key_ring(data: &[u8]) {
    if let Ok(ring) = KeyRing::from_json(data) {
        let _ = ring.list();
        let json = ring.to_json().expect("what was read can be written");
        assert!(KeyRing::from_json(&json).is_ok_and(|again| again == ring));
    }
}

/// The names key of a home.
pub fn names_key(data: &[u8]) {
    if let Ok(key) = NamesKey::from_json(data) {
        let json = key.to_json().expect("what was read can be written");
        assert!(NamesKey::from_json(&json).is_ok_and(|again| again.id() == key.id()));
        assert!(key.unlocked().scope(&key.id()).is_some());
    }
}

/// A session's wrapped keys.
pub fn key_record(data: &[u8]) {
    if let Ok(record) = KeyRecord::from_json(data) {
        let _ = (record.id(), record.cipher(), record.ring().list());
        let json = record.to_json().expect("what was read can be written");
        assert!(KeyRecord::from_json(&json).is_ok());
    }
}

/// A recovery code as people type it.
pub fn recovery_code(data: &[u8]) {
    if let Ok(code) = RecoveryCode::parse(&String::from_utf8_lossy(data)) {
        assert!(RecoveryCode::parse(&code.to_text()).is_ok());
    }
}

/// Numbers of variable length.
pub fn varints(data: &[u8]) {
    let mut cursor = Cursor::new(data, "test");
    while !cursor.is_empty() {
        let before = cursor.remaining();
        let read = match before % 3 {
            0 => cursor.varint().is_ok(),
            1 => cursor.zigzag().is_ok(),
            _ => cursor.bytes().is_ok(),
        };
        if !read {
            return;
        }
        assert!(cursor.remaining() < before);
    }
}

/// Compressed bytes: the first says how, the next three how long they claim to be.
pub fn codec(data: &[u8]) {
    let [codec, a, b, c, stored @ ..] = data else { return };
    let Some(codec) = Codec::from_u8(codec % 4) else { return };
    let len = u32::from_le_bytes([*a, *b, *c, 0]) as usize % (FRAME_PLAIN_MAX + 1);
    let mut out = Vec::new();
    if Decompressor::default().decompress(codec, stored, len, &mut out, "test").is_ok() {
        assert_eq!(out.len(), len);
    }
}

/// Checksums of contents.
pub fn sums(data: &[u8]) {
    if let Ok(sums) = capstan_format::sums::Sums::decode(data) {
        assert_eq!(capstan_format::sums::Sums::decode(&sums.encode()), Ok(sums));
    }
}

/// A backup of an internal database: what is in clear, and what a wrong key makes of the rest.
pub fn idb_backup(data: &[u8]) {
    let _ = capstan_format::idb_backup::read_idb_head(data);
    let _ = capstan_format::idb_backup::open_idb_backup(data, &[7; 32]);
}
