//! A disk agent's backup job: what it reads of one object, and how it makes streams of it.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use capstan_format::id::{StreamId, VersionId};
use capstan_format::record::{SessionLabel, StreamNames};
use capstan_select::Pattern;
use serde::{Deserialize, Serialize};

use crate::as_text;
use crate::compression::Compression;
use crate::keys::JobKeys;

/// A backup of one object, by one disk agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupJob {
    /// What is read.
    pub source: JobSource,
    /// The version that this one builds on: files of which only metadata changed refer to it.
    pub builds_on: Option<VersionId>,
    /// How contents are made into streams.
    pub streams: Streams,
}

/// The streams of a job, all made alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streams {
    /// Their identities, new for every job: as many as may be read at once.
    pub ids: Vec<StreamId>,
    /// Whose they are, in clear.
    pub label: SessionLabel,
    /// What is secret of that where the session is encrypted.
    pub names: StreamNames,
    /// The session's keys, where it is encrypted.
    pub keys: Option<JobKeys>,
    /// Whether payloads of data carry a CRC, and rows the checksums of their contents. Sealed payloads carry one all the same.
    pub crc: bool,
    /// How to compress.
    pub compression: Compression,
}

/// What a job reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobSource {
    /// Trees of files.
    Trees(Box<Trees>),
    /// The standard input of the disk agent, as a file of that path.
    Stdin {
        /// The path, without leading slash.
        path: String,
    },
    /// What a command writes, as a file of that path.
    Command {
        /// The command, for a shell.
        line: String,
        /// The path, without leading slash.
        path: String,
    },
}

/// Trees of files that are backed up as one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trees {
    /// Where they begin: absolute paths without leading slash, resolved, sorted, none inside another.
    #[serde(with = "as_text::list")]
    pub roots: Vec<Vec<u8>>,
    /// What of them is left out.
    pub rules: Rules,
    /// What the object's last version found mounted in them.
    pub mounted_last: MountedLast,
    /// How files are read.
    pub read: ReadOptions,
}

/// What of trees is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Patterns of what is left out, in their order.
    pub exclude: Vec<Pattern>,
    /// Exceptions to them.
    pub include: Vec<Pattern>,
    /// Leave out what lies in directories tagged as caches.
    pub exclude_caches: bool,
    /// Leave out what lies in directories that hold one of these names.
    #[serde(with = "as_text::list")]
    pub exclude_if_present: Vec<Vec<u8>>,
    /// Sizes of the files to take, in bytes.
    pub sizes: Option<RangeInclusive<u64>>,
    /// Do not enter other file systems.
    pub one_file_system: bool,
    /// Directories never to enter, by their absolute paths: the medium that is written, and the home.
    #[serde(with = "as_text::list")]
    pub never: Vec<Vec<u8>>,
    /// Directories to enter only as roots, by their absolute paths: other media of the cell.
    #[serde(with = "as_text::list")]
    pub media: Vec<Vec<u8>>,
    /// Roots that are not looked at, of which what the base has stays: they were directories and are links, or a link above
    /// them leads to where there is nothing.
    #[serde(with = "as_text::list")]
    pub kept_roots: Vec<Vec<u8>>,
    /// Roots that lie in other roots, and maybe in what is not entered for those: on another file system, or made by the kernel.
    #[serde(with = "as_text::list")]
    pub inner_roots: Vec<Vec<u8>>,
}

/// What the last version found mounted in a source. Paths are as messages write them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountedLast {
    /// Where something was mounted, and something was in it; nothing where that is not known.
    pub mounted: Option<HashSet<String>>,
    /// Where it found contents that another may mask: btrfs subvolumes, which are one in a snapshot, and directories that a
    /// file system in memory lay over.
    pub maskable: Option<HashSet<String>>,
    /// Whether the last version does not say so, as it was imported or comes from an earlier program: its rows tell it
    /// besides, and the others are of an earlier version, if of any.
    pub rows_tell: bool,
}

/// What a disk agent counted, so far or at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Names found.
    pub found: u64,
    /// Files stored, all that are not directories.
    pub files: u64,
    /// Directories stored.
    pub dirs: u64,
    /// Names left out by options.
    pub skipped: u64,
    /// Files that were in use.
    pub in_use: u64,
    /// Files stored with unreadable parts.
    pub corrupt: u64,
    /// Files that an earlier run of the version has, or that are as the version has them that is built on.
    pub kept: u64,
    /// Bytes of contents of those.
    pub kept_bytes: u64,
    /// Files that were moved or touched, whose contents the base has.
    pub moved: u64,
    /// Bytes of those contents.
    pub moved_bytes: u64,
    /// Files of which no contents were stored: moved, touched, empty ones, links.
    pub no_contents: u64,
    /// Bytes of contents read.
    pub bytes: u64,
}

/// Mount points that are noted, at most.
pub const MOUNTED_LISTED: usize = 10_000;

/// Paths that a disk agent noted, as messages write them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Noted {
    /// Files stored with unreadable parts; one more than a report names, at most.
    pub cut: Vec<String>,
    /// Where something was mounted and something was in it, or was at the last backup; [`MOUNTED_LISTED`] at most.
    pub mounted: Vec<String>,
    /// Likewise where contents were that another may mask.
    pub maskable: Vec<String>,
}

/// What came of a job: whether all of it was handed to the media agent, and what it came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOver {
    /// Whether all of it was.
    pub is_whole: bool,
    /// Why standard input, or a command, failed.
    pub input_failed: Option<String>,
    /// What was counted.
    pub counts: Counts,
    /// What was noted.
    pub noted: Noted,
}

/// How files are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOptions {
    /// What to do with files in use.
    pub locked: Locked,
    /// Hold a shared lock on each file while it is read.
    pub lock_files: bool,
    /// Store each name of an inode as a file of its own.
    pub hard_links_as_files: bool,
    /// How often a file that changed while it was read is read again.
    pub retries: u32,
    /// How long to wait before that.
    #[serde(rename = "retry_wait_ms", with = "milliseconds")]
    pub retry_wait: Duration,
    /// How large files are read.
    pub mode: ReadMode,
}

/// What to do with files in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Locked {
    /// Save them and say so.
    Warn,
    /// Leave them out and say so.
    Skip,
    /// Save them and count them as errors.
    Error,
}

/// How large files are read: through the page cache or past it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadMode {
    /// Past it where the file is not in it: a direct read of a cold file is faster, and leaves the cache alone.
    #[default]
    Auto,
    /// Through the page cache.
    Buffered,
    /// Past the page cache, where the file system can.
    Direct,
}

/// Times in JSON, as whole milliseconds.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
        u64::deserialize(d).map(Duration::from_millis)
    }
}
