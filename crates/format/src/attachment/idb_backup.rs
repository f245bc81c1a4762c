//! A backup of an internal database: one file beside the segments of a medium, sealed for a recovery key.
//!
//! A head in clear (whose it is, of when, the wrapped keys), then sealed frames. All frames together hold a manifest and
//! the files it names. The head proves nothing by itself: what counts of it is repeated in the manifest.

use serde::{Deserialize, Serialize};

use crate::bytes::le32;
use crate::crc::{crc32c, payload_crc};
use crate::error::{FormatError, Result};
use crate::frame::codec::{Codec, Compressor, Decompressor, Method};
use crate::frame::{FRAME_HEADER_LEN, FrameHeader, FrameType, padded};
use crate::id::{CellId, StreamId};
use crate::keys::{Cipher, FrameSealer, KeyError, Purpose};

const MAGIC: &[u8; 8] = b"CpIDB\0\0\x01";
const HEAD_AT: usize = 16;
/// Most bytes of the head's JSON: a key record, and a little more.
const HEAD_MAX: usize = 1 << 20;
/// Plain bytes of a frame.
const CHUNK: usize = 512 << 10;
/// Most plain bytes in all; a reader refuses more.
pub const IDB_BACKUP_MAX: u64 = 4 << 30;
const WHAT: &str = "backup of an internal database";

/// What is said in clear.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IdbBackupHead {
    /// Version of this format: 1.
    pub format: u32,
    /// Whose it is.
    pub cell: CellId,
    /// When it was made, in microseconds since 1970.
    pub created_us: i64,
    /// The stream that its frames are of.
    pub stream: StreamId,
    /// How they are sealed.
    pub cipher: Cipher,
    /// The wrapped keys ([`crate::keys::KeyRecord`]).
    pub key: serde_json::Value,
}

/// What is in it: the sealed counterpart of the head, and the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdbManifest {
    /// Whose it is.
    pub cell: CellId,
    /// When it was made, in microseconds since 1970.
    pub created_us: i64,
    /// The files, in their order.
    pub files: Vec<IdbFile>,
}

/// A file of a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdbFile {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub len: u64,
}

/// Makes the bytes of a backup. `contents` is the session key of that purpose, used for this one stream.
pub fn seal_idb_backup(
    head: &IdbBackupHead,
    contents: &[u8; 32],
    files: &[(&str, &[u8])],
) -> std::result::Result<Vec<u8>, SealError> {
    let manifest = IdbManifest {
        cell: head.cell,
        created_us: head.created_us,
        files: files
            .iter()
            .map(|(name, bytes)| IdbFile { name: (*name).to_owned(), len: bytes.len() as u64 })
            .collect(),
    };
    let manifest = serde_json::to_vec(&manifest)?;
    let mut plain = (manifest.len() as u32).to_le_bytes().to_vec();
    plain.extend_from_slice(&manifest);
    files.iter().for_each(|(_, bytes)| plain.extend_from_slice(bytes));

    let json = serde_json::to_vec(head)?;
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&(json.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc32c(&json).to_le_bytes());
    out.extend_from_slice(&json);
    out.resize(padded(out.len()), 0);
    let sealer = FrameSealer::new(contents, Purpose::Contents, head.stream, head.cipher)?;
    let (mut compressor, mut packed) = (Compressor::default(), Vec::new());
    let mut logical = 0;
    for (sequence, chunk) in plain.chunks(CHUNK).enumerate() {
        let codec = compressor.compress(Method::Zstd(3), chunk, &mut packed);
        if codec.is_none() {
            packed.clear();
            packed.extend_from_slice(chunk);
        }
        let sequence = sequence as u64;
        let mut header = FrameHeader {
            frame_type: FrameType::Data,
            codec: codec.unwrap_or(Codec::None),
            sealed: true,
            sequence,
            logical,
            length: chunk.len() as u64,
            stored: (packed.len() + crate::frame::TAG_LEN) as u32,
            payload_crc: Some(0),
        };
        let tag = sealer.seal_in_place(sequence, &header.associated_data(), &mut packed)?;
        packed.extend_from_slice(&tag);
        header.payload_crc = Some(payload_crc(head.stream, sequence, &packed));
        let at = out.len();
        out.resize(at + FRAME_HEADER_LEN, 0);
        header.encode(head.stream, &mut out[at..]);
        out.extend_from_slice(&packed);
        out.resize(padded(out.len()), 0);
        logical += chunk.len() as u64;
    }
    Ok(out)
}

/// Why a backup cannot be sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// What it says of itself is no JSON.
    #[error("cannot encode the backup of the internal database: {0}")]
    Json(#[from] serde_json::Error),
    /// Keys.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// The head of a backup, and where its frames begin.
pub fn read_idb_head(bytes: &[u8]) -> Result<(IdbBackupHead, usize)> {
    if bytes.get(..MAGIC.len()) != Some(&MAGIC[..]) {
        return Err(FormatError::NotA(WHAT));
    }
    let cut = FormatError::Truncated(WHAT);
    let field = bytes.get(8..HEAD_AT).ok_or(cut)?;
    let (n, crc) = (le32(field, 0) as usize, le32(field, 4));
    if n > HEAD_MAX {
        return Err(FormatError::Invalid(WHAT));
    }
    let json = bytes.get(HEAD_AT..HEAD_AT + n).ok_or(FormatError::Truncated(WHAT))?;
    if crc32c(json) != crc {
        return Err(FormatError::Checksum(WHAT));
    }
    let head: IdbBackupHead =
        serde_json::from_slice(json).map_err(|_| FormatError::Invalid(WHAT))?;
    if head.format != 1 {
        return Err(FormatError::Newer { what: WHAT.into(), found: head.format, known: 1 });
    }
    Ok((head, padded(HEAD_AT + n)))
}

/// The manifest and the files of a backup.
pub fn open_idb_backup(
    bytes: &[u8],
    contents: &[u8; 32],
) -> Result<(IdbManifest, Vec<(String, Vec<u8>)>)> {
    let (head, mut at) = read_idb_head(bytes)?;
    let sealer = FrameSealer::new(contents, Purpose::Contents, head.stream, head.cipher)
        .map_err(|_| FormatError::Sealed(WHAT))?;
    let (mut plain, mut out) = (Vec::new(), Vec::new());
    let (mut decompressor, mut scratch) = (Decompressor::default(), Vec::new());
    let mut sequence = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let raw = rest.get(..FRAME_HEADER_LEN).ok_or(FormatError::Truncated(WHAT))?;
        let header = FrameHeader::decode(head.stream, raw)?;
        let good = header.frame_type == FrameType::Data
            && header.sealed
            && header.sequence == sequence
            && header.logical == plain.len() as u64;
        if !good || header.logical.saturating_add(header.length) > IDB_BACKUP_MAX {
            return Err(FormatError::Invalid(WHAT));
        }
        let end = FRAME_HEADER_LEN + header.stored as usize;
        let stored = rest.get(FRAME_HEADER_LEN..end).ok_or(FormatError::Truncated(WHAT))?;
        header.check_payload(head.stream, stored)?;
        header.open(stored, Some(&sealer), &mut decompressor, &mut scratch, &mut out)?;
        plain.extend_from_slice(&out);
        at += header.total_len();
        sequence += 1;
    }
    split(&head, &plain)
}

fn split(head: &IdbBackupHead, plain: &[u8]) -> Result<(IdbManifest, Vec<(String, Vec<u8>)>)> {
    let cut = || FormatError::Truncated(WHAT);
    let n = le32(plain.get(..4).ok_or_else(cut)?, 0) as usize;
    let json = plain.get(4..).and_then(|rest| rest.get(..n)).ok_or_else(cut)?;
    let manifest: IdbManifest =
        serde_json::from_slice(json).map_err(|_| FormatError::Invalid(WHAT))?;
    if (manifest.cell, manifest.created_us) != (head.cell, head.created_us) {
        return Err(FormatError::Invalid(WHAT));
    }
    let mut rest = &plain[4 + n..];
    let mut files = Vec::new();
    for file in &manifest.files {
        let len = usize::try_from(file.len).map_err(|_| cut())?;
        let (bytes, more) = rest.split_at_checked(len).ok_or_else(cut)?;
        files.push((file.name.clone(), bytes.to_vec()));
        rest = more;
    }
    if !rest.is_empty() {
        return Err(FormatError::Invalid(WHAT));
    }
    Ok((manifest, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn sealed(files: &[(&str, &[u8])]) -> Vec<u8> {
        let head = IdbBackupHead {
            format: 1,
            cell: CellId([1; 16]),
            created_us: 42,
            stream: StreamId([2; 16]),
            cipher: Cipher::best(),
            key: serde_json::json!({"id": "x"}),
        };
        seal_idb_backup(&head, &KEY, files).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_with_the_key_alone() {
        let noise: Vec<u8> =
            (0..1_500_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let bytes = sealed(&[("capstan.db", &noise), ("keyring.json", b"{}"), ("empty", b"")]);
        let (manifest, files) = open_idb_backup(&bytes, &KEY).unwrap();
        assert_eq!((manifest.cell, manifest.created_us), (CellId([1; 16]), 42));
        assert_eq!(files[0], ("capstan.db".to_owned(), noise));
        assert_eq!(files[1..], [("keyring.json".into(), b"{}".to_vec()), ("empty".into(), vec![])]);
        assert_eq!(
            open_idb_backup(&bytes, &[8; 32]).unwrap_err(),
            FormatError::Sealed("data frame")
        );
    }

    #[test]
    fn no_flipped_bit_and_no_cut_is_taken_for_a_backup() {
        let bytes = sealed(&[("capstan.db", b"some tables")]);
        let whole = open_idb_backup(&bytes, &KEY).unwrap();
        for len in 0..bytes.len() {
            // Only what is padding can be missing.
            if let Ok(cut) = open_idb_backup(&bytes[..len], &KEY) {
                assert_eq!(cut, whole);
            }
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            if let Ok(other) = open_idb_backup(&flipped, &KEY) {
                assert_eq!(other, whole, "bit {bit}");
            }
        }
    }
}
