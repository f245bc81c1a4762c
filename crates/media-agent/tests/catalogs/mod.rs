//! Reading a catalog as the IDB keeps it, as a function of bytes that must neither panic nor hang. Used by
//! `fuzz_catalog.rs` and by the target of `fuzz/`.

use capstan_format::catalog::Contents;
use capstan_format::catalog::rebuild;
use capstan_format::crc::{crc32c_of, payload_crc};
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader};
use capstan_format::id::{SegmentId, StreamId};

/// The segment that catalogs are read as.
pub const SEGMENT: SegmentId = SegmentId([3; 16]);

/// A catalog; checksums are made right first, else hardly any input would get further.
pub fn catalog(data: &[u8]) {
    read(data);
    let mut bytes = data.to_vec();
    let stream = StreamId(SEGMENT.0);
    let mut at = 0;
    while let Some(h) = bytes.get(at..at + FRAME_HEADER_LEN) {
        let mut sequence = [0; 8];
        sequence.copy_from_slice(&h[8..16]);
        let mut len = [0; 4];
        len.copy_from_slice(&h[32..36]);
        let (begin, len) = (at + FRAME_HEADER_LEN, u32::from_le_bytes(len) as usize);
        let Some(stored) = bytes.get(begin..begin.saturating_add(len)) else { break };
        let crc = payload_crc(stream, u64::from_le_bytes(sequence), stored);
        bytes[at + 40..at + 44].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32c_of(&[stream.as_bytes(), &bytes[at..at + 44]]);
        bytes[at + 44..at + 48].copy_from_slice(&crc.to_le_bytes());
        let Ok(header) = FrameHeader::decode(stream, &bytes[at..]) else { break };
        at += header.total_len();
    }
    read(&bytes);
}

fn read(bytes: &[u8]) {
    if let Ok(contents) = Contents::from_catalog(SEGMENT, bytes) {
        // What was read can be written again, and says the same.
        if let Some(again) = rebuild(&contents)
            && let Some(segment) = contents.header.as_ref().map(|h| h.segment)
            && let Ok(read) = Contents::from_catalog(segment, &again[..])
        {
            let indexes = |c: &Contents| {
                let of = |s: &capstan_format::catalog::StreamContents| (s.stream, s.index.clone());
                c.streams.iter().map(of).filter(|s| !s.1.is_empty()).collect::<Vec<_>>()
            };
            assert_eq!(indexes(&read), indexes(&contents));
        }
    }
}
