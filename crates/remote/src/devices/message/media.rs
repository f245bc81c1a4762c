//! What is asked of media: opened, to write, and of devices.

use capstan_format::id::{MediumId, SegmentNumber};
use capstan_format::record::MediumHeader;
use capstan_medium::host::Wanted;
use capstan_wire::keys::SecretKey;
use serde::{Deserialize, Serialize};

use super::names::{Dev, Dir, TapeName};

/// What is asked of media: the methods of [`capstan_medium::host::Media`].
#[derive(Debug, Serialize, Deserialize)]
pub enum OfMedia {
    /// The medium on a device, to read.
    Medium(Dev),
    /// A medium that is known.
    Known(Dev, Wanted),
    /// The medium in a drive that stands alone.
    MediumIn(TapeName),
    /// The medium on a device, held.
    Held(Dev),
    /// Whether nothing is on a device.
    IsBlank(Dev),
    /// What a tape says of itself.
    HeaderOn(TapeName),
    /// The medium on a tape, also a member of an array.
    Member(TapeName),
    /// The medium on a device, to write, with the block size that is asked for.
    Writable(Dev, Option<u32>),
    /// A device that keeps nothing.
    Null(Dev, u32),
    /// A medium's key.
    OpenKey(MediumId, SecretKey),
    /// Whether a medium's key is open.
    HasKey(MediumId),
    /// The spool through which tapes are read: its directory and size.
    ReadThrough(Option<(Dir, u64)>),
}

/// What is asked of a medium to write: the methods of [`capstan_medium::host::Writable`].
#[derive(Debug, Serialize, Deserialize)]
pub enum OfWritable {
    /// Refuses a drive that cannot encrypt where it has to.
    CheckDrive,
    /// Refuses a tape of which nothing can be overwritten.
    RefuseWorm,
    /// The name that it was opened by, with members in their places.
    Address(Dev),
    /// Where it was found.
    Placed(Dev),
    /// The members that are not written.
    LostMembers,
    /// The medium, held.
    Hold,
    /// To write segments.
    IntoDevice,
    /// Another header.
    ReplaceHeader(Box<MediumHeader>),
    /// Nothing of it is left.
    Erase(bool),
    /// All segments are removed, and it gets another header.
    BeginAnew(Box<MediumHeader>),
}

/// What is asked of a device: the methods of [`capstan_medium::Device`].
#[derive(Debug, Serialize, Deserialize)]
pub enum OfDevice {
    /// The number of the next segment.
    NextNumber,
    /// At least that number.
    Advance(SegmentNumber),
    /// A segment begins.
    BeginSegment,
    /// A block, whose bytes follow.
    Write,
    /// The catalog comes next.
    BeginCatalog,
    /// The segment ends.
    EndSegment,
    /// What was ended is made durable.
    Commit,
    /// What can be saved of a full medium.
    Salvage,
    /// Segments are dropped from that one on.
    Cut(SegmentNumber),
    /// Where a segment lies on a tape.
    ObjectOf(SegmentNumber),
    /// The segment that was begun is dropped.
    AbandonSegment,
    /// Whether it ends soon.
    IsEnding,
    /// Bytes of a segment that suit it.
    SegmentSize,
    /// Members that failed.
    TakeLost,
    /// Why it goes on without its spool.
    TakeLostSpool,
    /// Whether it can compress.
    Compresses,
    /// Whether it is to.
    SetCompression(bool),
    /// How fast its drive is.
    Speeds,
    /// What its drives did.
    DriveSessions,
}
