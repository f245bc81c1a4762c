//! Records: the few, small, self-describing things on a medium, as JSON in a block of their own or in a frame.
//!
//! A record block is the media agent's header, the JSON's length and CRC, the JSON, zeros.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::array::{ArrayPlace, Layout};
use crate::block::{BLOCK_ALIGN, BLOCK_SIZE_MAX, BlockKind, HEADER_LEN, MaHeader};
use crate::bytes::{is_zero, le32};
use crate::crc::crc32c;
use crate::error::{FormatError, Result};
use crate::id::{BlockIndex, CellId, KeyId, MediumId, ObjectId, SegmentId, SegmentNumber};
use crate::id::{SessionId, StreamId, VersionId};
use crate::keys::{Cipher, KeyError, KeyRecord, drive_record_id};

/// The version of the format that this program writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 1;
/// Incompatible feature: the medium is an array, or a member of one ([`crate::array`]).
pub const FEATURE_ARRAY: u64 = 1;
/// Incompatible feature: what is behind the medium's header is encrypted by the tape drive.
pub const FEATURE_DRIVE_KEY: u64 = 2;
/// Incompatible features that this program knows.
pub const INCOMPATIBLE_KNOWN: u64 = FEATURE_ARRAY | FEATURE_DRIVE_KEY;
/// Most bytes of a record's JSON.
pub const RECORD_MAX: usize = 1 << 20;
/// Bytes of a record block before its JSON.
pub const RECORD_AT: usize = HEADER_LEN + 8;

/// Until when what a medium holds may not be overwritten; what lasts longer is greater.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protection {
    /// Not protected.
    None,
    /// Until that time, in microseconds since 1970.
    UntilUs(i64),
    /// For ever.
    Permanent,
}

/// What a medium says of itself; repeated in every segment header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediumHeader {
    /// Version of the format.
    pub format: u32,
    /// Feature bits of which a reader must know all.
    pub incompatible: u64,
    /// Feature bits that a reader may ignore.
    pub compatible: u64,
    /// The medium's identity.
    pub medium: MediumId,
    /// The label people know it by.
    pub label: String,
    /// Its block size in bytes.
    pub block_size: u32,
    /// When it was initialised, in microseconds since 1970.
    pub created_us: i64,
    /// Protection at the time of writing.
    pub protection: Protection,
    /// The cell that writes it; media of earlier versions of the program belong to nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<CellId>,
    /// Its place in the array that it is a member of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayPlace>,
    /// The wrapped key that its drive encrypts it with ([`crate::keys::KeyRecord`], whose id is the medium's).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_key: Option<serde_json::Value>,
}

impl MediumHeader {
    /// Whether the drive encrypts what is behind the header, so that nothing of it can be read without the key.
    pub fn is_drive_encrypted(&self) -> bool {
        self.incompatible & FEATURE_DRIVE_KEY != 0
    }

    /// The same header, of a medium whose drive encrypts it with the key in that record; of an array each of its tapes with one of
    /// its own.
    pub fn drive_encrypted(self, record: &KeyRecord) -> std::result::Result<Self, KeyError> {
        let malformed = |e: serde_json::Error| KeyError::Malformed {
            what: "the key record",
            reason: e.to_string(),
        };
        let json = serde_json::from_slice(&record.to_json()?).map_err(malformed)?;
        let incompatible = self.incompatible | FEATURE_DRIVE_KEY;
        Ok(Self { incompatible, drive_key: Some(json), ..self })
    }

    /// The wrapped key that its drive encrypts it with. One that is another medium's is none.
    pub fn drive_key_record(&self) -> Option<std::result::Result<KeyRecord, KeyError>> {
        let record = KeyRecord::from_json(self.drive_key.as_ref()?.to_string().as_bytes());
        Some(record.and_then(|record| match record.id() == drive_record_id(self.whole()) {
            true => Ok(record),
            false => Err(KeyError::Malformed {
                what: "the key record of the medium",
                reason: "it is another medium's".to_owned(),
            }),
        }))
    }

    /// The medium that it is a part of: the outermost array, or itself where it is no member of any.
    pub fn whole(&self) -> MediumId {
        let first = self.array.as_ref();
        let places = std::iter::successors(first, |place| place.of.as_deref());
        places.last().map_or(self.medium, |place| place.array)
    }

    /// Whether it is an array or a member of one, which cannot be read like an ordinary medium.
    pub fn is_array(&self) -> bool {
        self.incompatible & FEATURE_ARRAY != 0
    }

    /// The same header, of an array.
    pub fn as_array(&self) -> Self {
        Self { incompatible: self.incompatible | FEATURE_ARRAY, ..self.clone() }
    }

    /// The header of a member, this being the array's.
    pub fn of_member(&self, medium: MediumId, layout: Layout, member: usize) -> Self {
        let place = ArrayPlace::new(self.medium, layout, member, self.array.clone());
        Self { medium, array: Some(place), ..self.as_array() }
    }

    /// The header of the array, this being a member's.
    pub fn of_array(&self) -> Option<Self> {
        let place = self.array.as_ref()?;
        let array = place.of.as_deref().cloned();
        Some(Self { medium: place.array, array, ..self.clone() })
    }

    /// Refuses what this program cannot read: a newer format, unknown incompatible features, an impossible block size.
    pub fn check(&self) -> Result<()> {
        if self.format > FORMAT_VERSION {
            return Err(FormatError::Newer {
                what: "medium".into(),
                found: self.format,
                known: FORMAT_VERSION,
            });
        }
        let unknown = self.incompatible & !INCOMPATIBLE_KNOWN;
        if unknown != 0 {
            return Err(FormatError::UnknownFeatures(unknown));
        }
        let place_ok = self.array.as_ref().is_none_or(|p| self.is_array() && p.layout().is_ok());
        let encrypted = self.is_drive_encrypted();
        let key_ok = encrypted == self.drive_key.is_some();
        if !crate::block::is_block_size(self.block_size) || !place_ok || !key_ok {
            return Err(FormatError::Invalid("medium header"));
        }
        Ok(())
    }
}

/// What is said in clear of the session that writes a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionLabel {
    /// The session.
    pub session: SessionId,
    /// The object it backs up.
    pub object: ObjectId,
    /// The object version it makes, or goes on with.
    pub version: VersionId,
    /// The session it goes on with, if it resumes one.
    pub parent: Option<SessionId>,
    /// The version it builds on, if it is not a full.
    pub base: Option<VersionId>,
    /// When it started, in microseconds since 1970.
    pub started_us: i64,
    /// The keys its names and contents are encrypted with.
    pub key: Option<KeyId>,
    /// The cipher they are used with.
    pub cipher: Option<Cipher>,
    /// The time of the state it stands for, in microseconds since 1970, if that is not when it started: of a synthetic
    /// full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_us: Option<i64>,
    /// The version whose state it has whole, so that it does in that one's place: of a synthetic full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_for: Option<VersionId>,
}

/// The medium that a session wrote before another one, on which it went on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follows {
    /// Its identity.
    pub medium: MediumId,
    /// The label people know it by.
    pub label: String,
}

/// A segment's first block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SegmentHeader {
    /// The medium's header, once more.
    pub medium: MediumHeader,
    /// The segment.
    pub segment: SegmentId,
    /// Its place in the order of this medium.
    pub number: SegmentNumber,
    /// The session that writes it.
    pub session: SessionLabel,
    /// The wrapped keys of every session whose frames lie in it ([`crate::keys::KeyRecord`]).
    pub keys: Vec<serde_json::Value>,
    /// The segment that this one is a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<SegmentId>,
    /// The medium that this one continues, in the first segment that a session writes here after it left another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Follows>,
    /// When it was begun (of a copy: when the original was), in microseconds since 1970.
    pub written_us: i64,
}

/// What of a stream lies in a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamExtent {
    /// The stream.
    pub stream: StreamId,
    /// The version its files belong to.
    pub version: VersionId,
    /// Its logical offset where the segment begins.
    pub logical_start: u64,
    /// Its logical offset where the segment ends.
    pub logical_end: u64,
    /// Sequence of its first frame in the segment.
    pub first_sequence: u64,
    /// Number of its frames in the segment.
    pub frames: u64,
    /// Rows of its batches in the segment.
    pub rows: u64,
    /// Frames that nobody needs are left out between others: gaps in sequence and logical offset are no damage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sparse: bool,
}

/// How a session ended, and its totals. Without it a session is incomplete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    /// `completed`, `completed_with_errors` or `failed`.
    pub status: String,
    /// When it ended, in microseconds since 1970.
    pub ended_us: i64,
    /// Files stored.
    pub files: u64,
    /// Directories stored.
    pub dirs: u64,
    /// Bytes read from the source.
    pub bytes_read: u64,
    /// Bytes written to the medium in the segments before this record's.
    pub bytes_written: u64,
    /// The segments before this record's that have something of the session's version, also those of sessions that it goes on with;
    /// of copies the originals. Empty where there are none, where there are more than [`SEGMENTS_LISTED`] in all ends of the record,
    /// and before 2026-11-24.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<SegmentId>,
    /// How many paths the session's version was to have and lacks something of. `None` before 2026-11-24.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<u64>,
}

/// Segments that the ends of sessions in one record list at most: a record has 1 MiB.
pub const SEGMENTS_LISTED: usize = 16_384;

/// How a session ended that wrote together with the one that a segment's header names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherEnd {
    /// The session.
    pub session: SessionLabel,
    /// How it ended; the bytes written are those of its own blocks.
    #[serde(flatten)]
    pub end: SessionEnd,
}

/// How the sessions ended that end in a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionEnds {
    /// The one that the segment's header names.
    pub own: Option<SessionEnd>,
    /// Those that wrote together with it.
    pub others: Vec<OtherEnd>,
}

impl SessionEnds {
    /// Whether none ends.
    pub fn is_empty(&self) -> bool {
        self.own.is_none() && self.others.is_empty()
    }

    /// Leaves out lists of segments that are too long for a record together, the longest first.
    pub fn limit_lists(&mut self) {
        let others = self.others.iter_mut().map(|o| &mut o.end.segments);
        let mut lists: Vec<_> =
            self.own.iter_mut().map(|e| &mut e.segments).chain(others).collect();
        lists.sort_by_key(|list| list.len());
        let mut room = SEGMENTS_LISTED;
        for list in lists {
            match room.checked_sub(list.len()) {
                Some(left) => room = left,
                None => list.clear(),
            }
        }
    }
}

impl From<Option<SessionEnd>> for SessionEnds {
    fn from(own: Option<SessionEnd>) -> Self {
        Self { own, others: Vec::new() }
    }
}

/// A segment's last block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SegmentEnd {
    /// The segment.
    pub segment: SegmentId,
    /// Its place in the order of this medium.
    pub number: SegmentNumber,
    /// The session that wrote it.
    pub session: SessionId,
    /// Data blocks: indices 1 to this.
    pub data_blocks: u32,
    /// All blocks, header, catalog and this one included.
    pub blocks: u32,
    /// Where the catalog begins, in bytes from the segment's begin (on a device with byte addresses).
    pub catalog_at: u64,
    /// Blocks of another length than the block size, up to the last data block: index (0 is the header) and length in
    /// bytes.
    pub short_blocks: Vec<(u32, u32)>,
    /// The streams that have blocks here.
    pub streams: Vec<StreamExtent>,
    /// The session's end, if it ends here.
    pub session_end: Option<SessionEnd>,
    /// The ends of sessions that wrote together with it, as far as they end here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_ends: Vec<OtherEnd>,
    /// Of a copy: so many frames of its original it lacks, which could be had nowhere when it was written.
    #[serde(default, skip_serializing_if = "is_none")]
    pub lacks: u64,
    /// Among them may be names: files may lack of which nothing else tells. `false` before 2026-11-27, whatever lacked.
    #[serde(default, skip_serializing_if = "is_not")]
    pub lacks_names: bool,
    /// When it was written, in microseconds since 1970.
    pub written_us: i64,
}

/// What a copy lacks of its original.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lacks {
    /// So many frames.
    pub frames: u64,
    /// Among them may be names.
    pub names: bool,
}

fn is_none(n: &u64) -> bool {
    *n == 0
}

fn is_not(b: &bool) -> bool {
    !*b
}

impl SegmentEnd {
    /// How a session ended, if it ends here.
    pub fn end_of(&self, session: SessionId) -> Option<&SessionEnd> {
        let own = self.session_end.as_ref().filter(|_| self.session == session);
        let other =
            || self.other_ends.iter().find(|o| o.session.session == session).map(|o| &o.end);
        own.or_else(other)
    }

    /// How the sessions ended that end here.
    pub fn ends(&self) -> SessionEnds {
        SessionEnds { own: self.session_end.clone(), others: self.other_ends.clone() }
    }
}

/// The first frame of a stream in a segment: whose it is, in clear.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamLabel {
    /// The session that wrote it, with object, version and keys.
    #[serde(flatten)]
    pub session: SessionLabel,
}

/// What is secret of a stream's label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamNames {
    /// The object's name.
    pub name: String,
    /// The host it is of.
    pub host: String,
    /// Method: `full`, `incr`, …
    pub method: String,
    /// Tags.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// Encodes a record as a block of its own: a multiple of 4096 bytes, at least `length`.
pub fn encode_record<T: Serialize>(
    kind: BlockKind,
    segment: SegmentId,
    index: BlockIndex,
    record: &T,
    length: usize,
) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(record).map_err(|_| FormatError::Invalid("record"))?;
    if json.len() > RECORD_MAX {
        return Err(FormatError::Invalid("record"));
    }
    let len = (RECORD_AT + json.len()).next_multiple_of(BLOCK_ALIGN).max(length);
    if len > BLOCK_SIZE_MAX as usize {
        return Err(FormatError::Invalid("record"));
    }
    let mut block = vec![0; len];
    block[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&(json.len() as u32).to_le_bytes());
    block[HEADER_LEN + 4..RECORD_AT].copy_from_slice(&crc32c(&json).to_le_bytes());
    block[RECORD_AT..RECORD_AT + json.len()].copy_from_slice(&json);
    MaHeader { kind, segment, index, length: len as u32 }.encode(&mut block);
    Ok(block)
}

/// Reads a record block of that kind; checks header, JSON and padding.
pub fn decode_record<T: DeserializeOwned>(kind: BlockKind, bytes: &[u8]) -> Result<(MaHeader, T)> {
    const WHAT: &str = "record";
    let header = MaHeader::decode(bytes)?;
    if header.kind != kind {
        return Err(FormatError::NotA("record of that kind"));
    }
    let block = bytes.get(..header.length as usize).ok_or(FormatError::Truncated(WHAT))?;
    let len = le32(block, HEADER_LEN) as usize;
    if len > RECORD_MAX || len > block.len() - RECORD_AT {
        return Err(FormatError::Invalid(WHAT));
    }
    let (json, padding) = block[RECORD_AT..].split_at(len);
    if crc32c(json) != le32(block, HEADER_LEN + 4) {
        return Err(FormatError::Checksum(WHAT));
    }
    if !is_zero(padding) {
        return Err(FormatError::Padding(WHAT));
    }
    let record = serde_json::from_slice(json).map_err(|_| FormatError::Invalid(WHAT))?;
    Ok((header, record))
}
