//! What is asked of what a medium lies on.

use capstan_format::attachment::{Attachment, AttachmentKind};
use capstan_format::id::{SegmentId, SegmentNumber};
use capstan_format::lock::VersionLock;
use capstan_format::record::MediumHeader;
use capstan_medium::storage::{Recorded, SegmentSize};
use serde::{Deserialize, Serialize};

/// What is asked of a storage: the methods of [`capstan_medium::storage::Storage`].
#[derive(Debug, Serialize, Deserialize)]
pub enum OfStorage {
    /// A file is created.
    Create(String),
    /// A file is opened.
    Open(String),
    /// It gets another name.
    Rename(String, String),
    /// It takes the place of another one.
    Replace(String, String),
    /// It is removed.
    Remove(String),
    /// All its bytes are taken.
    Empty(String),
    /// The names of all.
    List,
    /// What was done is made durable.
    Sync,
    /// The lengths of files.
    Lengths(Vec<String>),
    /// Whether a segment is cut, and how many may be opened to see it.
    IsCut(String, SegmentSize, u32),
    /// What nobody else reads of a file.
    CheckSpare(String),
    /// Where segments lie.
    Recall(Vec<Recorded>),
    /// Whether there is anything under a number.
    Holds(SegmentNumber),
    /// Whether members that are away may have a segment.
    MayBeAway(SegmentNumber),
    /// Which segment has a number, by its end.
    SegmentNearEnd(SegmentNumber),
    /// What has a number, if it is an attachment.
    Attachment(SegmentNumber),
    /// The contents of an attachment, which follow the answer.
    ReadAttachment(Box<Attachment>),
    /// Whether both its records can be read.
    HasBothRecords(Box<Attachment>),
    /// An attachment is written, whose contents follow.
    Attach {
        /// Its identity.
        id: SegmentId,
        /// What it is.
        kind: AttachmentKind,
        /// The locks, if that is what it is.
        locks: Vec<VersionLock>,
        /// When it is written.
        written_us: i64,
        /// The least number that it gets.
        least: SegmentNumber,
    },
    /// The header as segments repeat it.
    TakeHeader(Box<MediumHeader>),
    /// Whether blocks of a medium were found.
    HasBlocksOfOurs,
    /// What is wrong with it.
    Problems,
    /// The begins of files, of so many bytes each at most. What can be read follows the answer.
    ReadBegins(Vec<String>, u64),
    /// Bytes of a file: from where on, and how many. They follow the answer.
    ReadPiece(String, u64, u32),
    /// Files are removed in that order.
    RemoveEach(Vec<String>),
    /// A file is written, whose bytes follow.
    WriteFile(String),
}

/// What is asked of a file that is read.
#[derive(Debug, Serialize, Deserialize)]
pub enum OfFile {
    /// Bytes: from where on, and how many. They follow the answer.
    ReadAt(u64, u32),
    /// A block: its index, where it begins, how many bytes. They follow the answer.
    ReadBlock(u32, u64, u32),
    /// What follows a block will be read.
    Expect(u32),
    /// Where it lies on its tape.
    Object,
    /// Where data lie.
    DataFrom(u64),
    /// Its length.
    Len,
}

/// What is asked of a file that is written.
#[derive(Debug, Serialize, Deserialize)]
pub enum OfNewFile {
    /// Bytes, which follow, are appended.
    Append,
    /// They are made durable.
    Sync,
}
