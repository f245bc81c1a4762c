//! The rows of the database, as the rest of Capstan sees them.

use std::fmt;
use std::str::FromStr;

use capstan_address::{Address, HostName};
use capstan_format::id::{
    KeyId, MediumId, ObjectId, SegmentId, SegmentNumber, SessionId, StreamId, VersionId,
};

use crate::decode::{self, Fault, Row};

/// The state of a session or of an object version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// It is being written.
    Running,
    /// It ended and all of it is there.
    Completed,
    /// It ended; what is missing is named in its report.
    CompletedWithErrors,
    /// It did not end. What was committed is there.
    Incomplete,
    /// It ended without a result.
    Failed,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Running, Self::Completed, Self::CompletedWithErrors, Self::Incomplete, Self::Failed];

    /// The word that stands for it in the database, in reports and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::CompletedWithErrors => "completed_with_errors",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
        }
    }

    /// How much it says: an import finds `Incomplete` wherever a medium lacks the end record, be
    /// it that the session still runs or that the record lies on another medium; an end is an end.
    const fn weight(self) -> u8 {
        match self {
            Self::Incomplete => 0,
            Self::Running => 1,
            Self::Completed | Self::CompletedWithErrors | Self::Failed => 2,
        }
    }

    /// Whether an import that found this replaces a row that says `recorded`.
    pub(crate) const fn says_more_than(self, recorded: Self) -> bool {
        self.weight() > recorded.weight()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text that is not the name of a status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a status; give running, completed, completed_with_errors, incomplete or failed"
)]
pub struct UnknownStatus(pub String);

impl FromStr for Status {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| UnknownStatus(text.chars().take(64).collect()))
    }
}

/// One thing to back up, through all its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its identity.
    pub id: ObjectId,
    /// Its name; empty while only the encrypted form is known.
    pub name: String,
    /// The host it belongs to; empty if unknown.
    pub host: HostName,
    /// Its encrypted name, from an import without the key.
    pub sealed: Option<Vec<u8>>,
}

/// One medium: a directory, a tape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Medium {
    /// Its identity.
    pub id: MediumId,
    /// Its label, for people.
    pub label: String,
    /// The device on which it was last seen.
    pub device: Address,
    /// The size of its blocks in bytes.
    pub block_size: u32,
    /// When it was initialised, in microseconds since 1970.
    pub created_us: i64,
    /// The hosts that wrote it there, or took it in, the last one last; none if that was before hosts were recorded.
    pub hosts: Vec<String>,
}

/// The state of an object from one session, or from that and those that resumed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Its identity.
    pub id: VersionId,
    /// The object it is a version of.
    pub object: ObjectId,
    /// Whether all of it is there.
    pub status: Status,
    /// How it was backed up, as "full".
    pub method: String,
    /// The version it builds on, unless full.
    pub base: Option<VersionId>,
    /// The key it is encrypted with, if it is.
    pub key: Option<KeyId>,
    /// Whether it went to the null device: then nothing of it can be restored.
    pub null_device: bool,
    /// When it was begun, in microseconds since 1970.
    pub created_us: i64,
    /// The version whose state it has whole, where it is a synthetic full of it.
    pub stands_for: Option<VersionId>,
}

impl Version {
    /// Whether it is complete, and was begun by that time, in microseconds since 1970, where one is given.
    pub fn is_complete_by(&self, as_of_us: Option<i64>) -> bool {
        matches!(self.status, Status::Completed | Status::CompletedWithErrors)
            && as_of_us.is_none_or(|at| self.created_us <= at)
    }
}

/// One run of a backup, restore, verification, import and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its identity.
    pub id: SessionId,
    /// What it does, as "backup" or "restore".
    pub kind: String,
    /// The object it works on.
    pub object: Option<ObjectId>,
    /// The version it writes or reads.
    pub version: Option<VersionId>,
    /// The session it resumes or builds on.
    pub parent: Option<SessionId>,
    /// How it stands or ended.
    pub status: Status,
    /// The host whose data it concerns.
    pub host: HostName,
    /// The device it uses.
    pub device: String,
    /// When it began, in microseconds since 1970.
    pub started_us: i64,
    /// When the run began of which it is a part, if that is known.
    pub run_us: Option<i64>,
    /// When it ended, if it did.
    pub ended_us: Option<i64>,
    /// Files done.
    pub files: u64,
    /// Directories done.
    pub dirs: u64,
    /// Bytes read from the source (restore: from the medium).
    pub bytes_read: u64,
    /// Bytes written to the medium (restore: to the target).
    pub bytes_written: u64,
    /// Tags given by the user.
    pub tags: Vec<String>,
    /// Its report, JSON, once it ended.
    pub report: Option<String>,
    /// The process that runs it.
    pub pid: u32,
    /// The boot of the machine and the space of process numbers in which `pid` means that process, and when it was begun.
    pub birth: String,
}

/// What a session did, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files done.
    pub files: u64,
    /// Directories done.
    pub dirs: u64,
    /// Bytes read from the source (restore: from the medium).
    pub bytes_read: u64,
    /// Bytes written to the medium (restore: to the target).
    pub bytes_written: u64,
}

/// One committed segment at one place. A segment on several media (mirror, copy) is one of these
/// for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its identity.
    pub id: SegmentId,
    /// The medium on which it lies.
    pub medium: MediumId,
    /// Its place in the order of that medium.
    pub number: SegmentNumber,
    /// Blocks and filemarks before its first block on that medium, if it is a tape and its drive said so.
    pub object: Option<u64>,
    /// The session that wrote it.
    pub session: SessionId,
    /// Its data blocks.
    pub blocks: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was first committed, in microseconds since 1970.
    pub committed_us: i64,
}

/// What of a stream lies in a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPart {
    /// The segment.
    pub segment: SegmentId,
    /// The stream.
    pub stream: StreamId,
    /// The version whose files the stream carries.
    pub version: VersionId,
    /// The logical offset in the stream of the first byte.
    pub logical_start: u64,
    /// The logical offset in the stream after the last byte.
    pub logical_end: u64,
    /// The rows (files and directories) in its batches; 0 while they are unknown.
    pub rows: u64,
}

/// The wrapped keys of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// The identity of the key pair.
    pub id: KeyId,
    /// The wrapped keys, JSON.
    pub record: String,
}

pub(crate) fn session(row: &Row) -> std::result::Result<Session, Fault> {
    Ok(Session {
        id: decode::parsed(row, "id")?,
        kind: row.try_get("kind")?,
        object: decode::parsed_opt(row, "object_id")?,
        version: decode::parsed_opt(row, "version_id")?,
        parent: decode::parsed_opt(row, "parent_id")?,
        status: decode::parsed(row, "status")?,
        host: HostName::recorded(row.try_get::<String>("host")?),
        device: row.try_get("device")?,
        started_us: row.try_get("started_us")?,
        run_us: row.try_get("run_us")?,
        ended_us: row.try_get("ended_us")?,
        files: decode::count(row, "files")?,
        dirs: decode::count(row, "dirs")?,
        bytes_read: decode::count(row, "bytes_read")?,
        bytes_written: decode::count(row, "bytes_written")?,
        tags: decode::texts(row, "tags")?,
        report: row.try_get("report")?,
        pid: decode::count(row, "pid")?,
        birth: row.try_get("boot_id")?,
    })
}
