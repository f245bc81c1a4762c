//! CRC-32C (Castagnoli): the checksum of every header, record and payload on a medium.

use crc_fast::{CrcAlgorithm, Digest};

use crate::id::StreamId;

/// CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// CRC-32C of the parts, one after the other.
pub fn crc32c_of(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|p| digest.update(p));
    digest.finalize() as u32
}

/// CRC-32C of a frame's payload, bound to the frame's identity: stream id, sequence (little-endian), stored bytes.
pub fn payload_crc(stream: StreamId, sequence: u64, stored: &[u8]) -> u32 {
    crc32c_of(&[stream.as_bytes(), &sequence.to_le_bytes(), stored])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_of_rfc_3720() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c_of(&[b"1234", b"56789"]), 0xe306_9283);
    }
}
