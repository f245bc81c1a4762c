//! Catalogs of a written session, changed at random, and segments too: reading them neither panics nor hangs.

mod catalogs;
mod common;

use capstan_devices::memory::FaultyStorage;
use capstan_format::block::{HEADER_LEN, MaHeader};
use capstan_format::catalog::rebuild;
use capstan_format::crc::crc32c;
use capstan_format::entry::Kind;
use capstan_format::id::{SegmentId, SegmentNumber, StreamId};
use capstan_media_agent::read::frames::FrameReader;
use capstan_media_agent::read::scan::scan;
use capstan_media_agent::read::segment::SegmentReader;
use capstan_medium::storage::Storage;
use capstan_wire::compression::Compression;
use common::{
    Random, Reported, Shape, Spec, device, open, read_all, recorder, write_session, writer,
};

fn rounds(gate: u64) -> u64 {
    if std::env::var_os("CAPSTAN_SOAK").is_some() { gate * 50 } else { gate }
}

fn written() -> (FaultyStorage, Reported) {
    let storage = FaultyStorage::new(None);
    let reported = Reported::default();
    let shape = Shape {
        block_size: 64 << 10,
        segment_size: 128 << 10,
        catalog_limit: 4 << 20,
        buffers: 4,
        compression: Compression::Off,
        crc: true,
        sealed: false,
        seed: 9,
    };
    let made = device(&storage, shape.block_size).unwrap();
    let writer = writer(Box::new(made), &shape, 3, recorder(&reported));
    let dir = Spec { kind: Kind::Dir, ..Spec::file(0) };
    let streams =
        [vec![dir, Spec::file(500), Spec::file(20_000)], vec![Spec::file(90_000), Spec::file(9)]];
    let (_, written) = write_session(writer, &shape, 3, &streams, 0);
    written.unwrap();
    (storage, reported)
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(6) {
            0..=2 => bytes[at] ^= 1 << random.below(8),
            3 => bytes[at] = [0, 0x7f, 0x80, 0xff][random.below(4) as usize],
            4 => bytes.truncate(at.max(1)),
            _ => {
                let end = (at + random.below(4096) as usize).min(bytes.len());
                let to = random.below(bytes.len() as u64) as usize;
                let piece = bytes[at..end].to_vec();
                for (b, p) in bytes[to..].iter_mut().zip(piece) {
                    *b = p;
                }
            }
        }
    }
}

/// The same catalog for the segment that the decoder reads as.
fn as_segment(frames: &[u8], from: SegmentId) -> Vec<u8> {
    use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader};
    let (mut out, mut at) = (Vec::new(), 0);
    while at < frames.len() {
        let mut header = FrameHeader::decode(StreamId(from.0), &frames[at..]).unwrap();
        let stored = &frames[at + FRAME_HEADER_LEN..at + FRAME_HEADER_LEN + header.stored as usize];
        let stream = StreamId(catalogs::SEGMENT.0);
        let crc = capstan_format::crc::payload_crc(stream, header.sequence, stored);
        header.payload_crc = Some(crc);
        let begin = out.len();
        out.resize(begin + FRAME_HEADER_LEN, 0);
        header.encode(stream, &mut out[begin..]);
        out.extend_from_slice(stored);
        at += header.total_len();
        out.resize(begin + header.total_len(), 0);
    }
    out
}

#[test]
fn changed_catalogs_are_read_or_refused() {
    let (_, reported) = written();
    let reported = reported.lock().unwrap();
    let valid: Vec<_> = reported.iter().map(|(h, _, c)| as_segment(c, h.segment)).collect();
    for bytes in &valid {
        capstan_format::catalog::Contents::from_catalog(catalogs::SEGMENT, &bytes[..]).unwrap();
    }
    let mut random = Random(4);
    for _ in 0..rounds(20_000) {
        let mut bytes = valid[random.below(valid.len() as u64) as usize].clone();
        mutate(&mut bytes, &mut random);
        catalogs::catalog(&bytes);
    }
}

#[test]
fn every_flipped_bit_of_a_catalog_is_found() {
    let (_, reported) = written();
    let reported = reported.lock().unwrap();
    let (header, _, catalog) = &reported[0];
    for bit in 0..catalog.len() * 8 {
        let mut bytes = catalog.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let read = capstan_format::catalog::Contents::from_catalog(header.segment, &bytes[..]);
        assert!(read.is_err(), "bit {bit}");
    }
}

/// Gives blocks whose media agent's header was changed the checksum that it asks for; whether there were any.
fn right_headers(bytes: &mut [u8]) -> bool {
    let mut righted = false;
    for at in (0..bytes.len().saturating_sub(HEADER_LEN)).step_by(4096) {
        let h = &mut bytes[at..at + HEADER_LEN];
        if &h[..4] == b"CpMA" && MaHeader::decode(h).is_err() {
            let crc = crc32c(&h[..60]);
            h[60..64].copy_from_slice(&crc.to_le_bytes());
            righted = true;
        }
    }
    righted
}

#[test]
fn changed_segments_are_scanned_without_panics() {
    let (storage, _) = written();
    let medium = open(&storage).unwrap();
    let numbers = medium.segments().unwrap();
    let valid: Vec<_> = numbers.iter().map(|n| read_all(&medium, *n)).collect();
    let mut random = Random(5);
    for round in 0..rounds(4_000) {
        let which = random.below(valid.len() as u64) as usize;
        let mut bytes = valid[which].clone();
        mutate(&mut bytes, &mut random);
        let changed = bytes != valid[which];
        // Reserved bytes of a header may be anything, if its checksum holds.
        let righted = right_headers(&mut bytes);
        let storage = FaultyStorage::new(None);
        device(&storage, 64 << 10).unwrap();
        storage.create("00000001.segment").unwrap().append(&bytes).unwrap();
        let medium = open(&storage).unwrap();
        let reader = SegmentReader::open(&medium, SegmentNumber(1)).unwrap();
        let found = scan(&reader).unwrap();
        assert!(righted || found.damage.is_empty() != changed, "round {round}");
        let _ = rebuild(&found.contents);
        for stream in &found.contents.streams {
            let mut frames = FrameReader::of(&reader, &found.contents, stream.stream);
            for place in &stream.index {
                let _ = frames.frame(place);
            }
        }
        if let Ok(contents) = reader.catalog() {
            let _ = rebuild(&contents);
        }
    }
}
