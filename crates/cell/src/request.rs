//! What a front end asks for. Plain values; nothing here knows of command lines.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use capstan_address::{Address, HostName, SpoolPlan};
use capstan_format::entry::Kind;
use capstan_idb::RotationSet;
pub use capstan_idb::{LogLevel, Protection};
pub use capstan_select::Pattern;
pub use capstan_wire::backup::{Locked, ReadMode};
pub use capstan_wire::compression::{BadCompression, Compression};
pub use capstan_wire::foreseen::{Fate, Foreseen};
pub use capstan_wire::restore::Overwrite;
use jiff::civil::Date;
use serde::Serialize;

/// What to back up.
#[derive(Debug, Clone)]
pub enum Source {
    /// Trees.
    Paths(Vec<PathBuf>),
    /// Standard input, as a file of that name.
    Stdin(String),
    /// A command's output, as a file of that name; run by a shell with pipefail where there is one.
    Command(String, String),
}

/// What of an object is backed up: all of it, or what changed since an earlier version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// All of it.
    Full,
    /// What changed since the last version, of whatever level.
    Incremental,
    /// 1 to 9: what changed since the last version of a lower level; a full one is lower than all.
    Numbered(u8),
}

impl Level {
    /// Whether a backup of this level may build on a version of that one.
    pub fn builds_on(self, base: Self) -> bool {
        match (self, base) {
            (Self::Full, _) => false,
            (Self::Incremental, _) | (Self::Numbered(_), Self::Full) => true,
            (Self::Numbered(_), Self::Incremental) => false,
            (Self::Numbered(of), Self::Numbered(base)) => base < of,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            Self::Incremental => f.write_str("incr"),
            Self::Numbered(n) => write!(f, "level {n}"),
        }
    }
}

impl FromStr for Level {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "full" => Ok(Self::Full),
            "incr" => Ok(Self::Incremental),
            _ => {
                let n = text.strip_prefix("level ").and_then(|n| n.parse().ok());
                n.filter(|n| (1..=9).contains(n)).map(Self::Numbered).ok_or(())
            }
        }
    }
}

/// Who encrypts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Encrypt {
    /// The session, before anything leaves it.
    Software,
    /// The tape drive.
    Drive,
    /// Nobody, in a home without a key ring, though earlier backups are encrypted.
    Off,
}

impl fmt::Display for Encrypt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Software => "software",
            Self::Drive => "drive",
            Self::Off => "off",
        })
    }
}

/// A backup.
#[derive(Debug, Clone)]
pub struct BackupRequest {
    /// What.
    pub source: Source,
    /// The host whose files these are: a client of the cell; this one, if not said.
    pub client: Option<HostName>,
    /// Where to.
    pub device: Address,
    /// Further devices that get the same.
    pub mirrors: Vec<Address>,
    /// The pool whose media take the place of the device.
    pub pool: Option<String>,
    /// The object's name; by default the paths.
    pub name: Option<String>,
    /// All of it, or what changed; if not said, what changed where the last version is on the same medium or was staged from there.
    pub level: Option<Level>,
    /// Go on with the last incomplete session of the object.
    pub resume: bool,
    /// When the run began that it is a part of, in microseconds since 1970. Its day says which media are taken where they rotate.
    pub run_us: i64,
    /// Only say what would be done.
    pub dry_run: bool,
    /// How much of its catalogs the internal database keeps.
    pub log_level: LogLevel,
    /// Tags.
    pub tags: Vec<String>,
    /// Until when the version is kept.
    pub keep: Keep,
    /// Streams; by default as the machine has processors, at least 2, at most 8.
    pub streams: Option<usize>,
    /// Streams that feed the device at once, at most; where neither this nor the number of streams is given, a tape drive gets as few
    /// as keep it streaming.
    pub concurrency: Option<usize>,
    /// Where the tapes go that are brought out of their library when the session is done.
    pub eject_to: Option<String>,
    /// Block size of a new medium in bytes.
    pub block_size: Option<u32>,
    /// Whether a medium is made though another one was there, or a disk is not mounted there.
    pub new_medium: bool,
    /// Bytes after which a segment ends.
    pub segment_size: Option<u64>,
    /// Block buffers.
    pub buffers: Option<usize>,
    /// How to compress.
    pub compression: Compression,
    /// Who encrypts; if not said, the session, where the home has a key ring.
    pub encrypt: Option<Encrypt>,
    /// Whether data frames carry a CRC.
    pub crc: bool,
    /// How to read.
    pub read: ReadMode,
    /// Patterns of what is left out, in order (`--exclude` and the lines of `--exclude-from` files).
    pub exclude: Vec<Pattern>,
    /// Exceptions to them.
    pub include: Vec<Pattern>,
    /// Leave out what lies in directories tagged as caches.
    pub exclude_caches: bool,
    /// Leave out what lies in directories that hold such a name.
    pub exclude_if_present: Vec<String>,
    /// Sizes of the files to take, in bytes.
    pub sizes: Option<RangeInclusive<u64>>,
    /// Do not enter other file systems.
    pub one_file_system: bool,
    /// Store each name of an inode as a file.
    pub hard_links_as_files: bool,
    /// Hold a shared lock on each file while it is read.
    pub lock_files: bool,
    /// What to do with files in use.
    pub locked: Locked,
    /// How often a changed file is read again.
    pub retries: u32,
    /// How long to wait before that.
    pub retry_wait: Duration,
}

impl BackupRequest {
    /// Whether nothing of it stays: it is written to no pool, and to the null device.
    pub fn keeps_nothing(&self) -> bool {
        self.pool.is_none() && self.device.keeps_nothing()
    }

    /// Whether another object can be backed up together with this one: to the same media, with the same options of these.
    pub fn goes_with(&self, other: &Self) -> bool {
        let media = |r: &Self| (r.device.clone(), r.mirrors.clone(), r.pool.clone());
        let options = |r: &Self| {
            let made = (r.block_size, r.segment_size, r.new_medium);
            (made, r.encrypt, r.log_level, r.dry_run)
        };
        media(self) == media(other)
            && options(self) == options(other)
            && self.eject_to == other.eject_to
    }
}

/// Until when a version is kept, as far as that is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
    /// Until when it is protected.
    pub protection: Option<Protection>,
    /// Until when its catalog is kept in the internal database.
    pub catalog: Option<Protection>,
    /// Until when nothing may remove it, in microseconds since 1970.
    pub lock_until_us: Option<i64>,
}

/// Which version of which object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionName {
    /// The object's name.
    pub name: String,
    /// Prefix of a session's id; without it the newest version that is complete.
    pub session: Option<String>,
    /// Only versions begun by then, in microseconds since 1970.
    pub as_of_us: Option<i64>,
}

impl VersionName {
    /// Reads `NAME` or `NAME@SESSION`; what follows the last `@` is a session if it is hexadecimal digits.
    pub fn parse(text: &str) -> Self {
        match text.rsplit_once('@') {
            Some((name, session))
                if !session.is_empty() && session.bytes().all(|b| b.is_ascii_hexdigit()) =>
            {
                let session = Some(session.to_ascii_lowercase());
                Self { name: name.to_owned(), session, as_of_us: None }
            }
            _ => Self { name: text.to_owned(), session: None, as_of_us: None },
        }
    }

    /// The same as of a time.
    pub fn as_of(&self, as_of_us: Option<i64>) -> Self {
        Self { as_of_us, ..self.clone() }
    }
}

/// Where a restore writes.
#[derive(Debug, Clone)]
pub enum RestoreTo {
    /// Below a directory, with the full path.
    Into(PathBuf),
    /// Where it came from.
    InPlace,
    /// As a tar archive to a file, or to standard output (`None`).
    Tar(Option<PathBuf>),
}

/// A restore.
#[derive(Debug, Clone)]
pub struct RestoreRequest {
    /// What.
    pub version: VersionName,
    /// The host that it is restored to: a client of the cell; this one, if not said.
    pub client: Option<HostName>,
    /// Only these paths (absolute, leading slash optional) and what is below them; all if empty.
    pub paths: Vec<Vec<u8>>,
    /// Patterns of what is left out, in order.
    pub exclude: Vec<Pattern>,
    /// Exceptions to them; without any, patterns of all that is restored.
    pub include: Vec<Pattern>,
    /// Where to.
    pub to: RestoreTo,
    /// Components to strip from the begin of each path.
    pub strip: usize,
    /// What to do with files that exist.
    pub overwrite: Overwrite,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Owners by number, not by name.
    pub numeric_ids: bool,
    /// What tapes are read through, where the target is slower than the drive.
    pub spool: Option<SpoolPlan>,
}

/// What files are looked for: all conditions hold.
#[derive(Debug, Clone)]
pub struct FindRequest {
    /// A pattern of paths, as `.gitignore` has them.
    pub pattern: Option<String>,
    /// A pattern of the last component alone.
    pub name: Option<String>,
    /// Only files of more bytes.
    pub larger: Option<u64>,
    /// Only files of fewer bytes.
    pub smaller: Option<u64>,
    /// Only what was last changed then or later, in microseconds since 1970.
    pub changed_since_us: Option<i64>,
    /// Only what was last changed before, in microseconds since 1970.
    pub changed_before_us: Option<i64>,
    /// Only these kinds; all if empty.
    pub kinds: Vec<Kind>,
    /// In which versions.
    pub which: Which,
}

/// A drill.
#[derive(Debug, Clone)]
pub struct DrillRequest {
    /// What.
    pub version: VersionName,
    /// Share of the files to restore, more than 0 and at most 1.
    pub sample: f64,
    /// Directory below which they are restored, and removed again.
    pub scratch: Option<PathBuf>,
}

/// A comparison of a version with the file system.
#[derive(Debug, Clone)]
pub struct CompareRequest {
    /// What.
    pub version: VersionName,
    /// Only these paths (absolute, leading slash optional) and what is below them; all if empty.
    pub paths: Vec<Vec<u8>>,
    /// Compare contents too, byte by byte.
    pub contents: bool,
}

/// What to verify.
#[derive(Debug, Clone)]
pub enum VerifyRequest {
    /// All that a version needs.
    Version(VersionName),
    /// All of a medium: its label, id or device.
    Medium(String),
}

/// What to copy.
#[derive(Debug, Clone)]
pub enum CopyWhat {
    /// A version.
    Version(VersionName),
    /// What a session wrote, by a prefix of its id.
    Session(String),
    /// All of a medium: its label, id or device.
    Medium(String),
}

/// A copy of backups onto another medium.
#[derive(Debug, Clone)]
pub struct CopyRequest {
    /// What.
    pub what: CopyWhat,
    /// Without what a version builds on.
    pub only: bool,
    /// How much of the copies' catalogs is kept; by default as much as of the originals'.
    pub log_level: Option<LogLevel>,
    /// Where to.
    pub device: Address,
    /// Where the tapes go that are brought out of their library when the session is done.
    pub eject_to: Option<String>,
    /// Block size of a new medium in bytes.
    pub block_size: Option<u32>,
    /// Whether a medium is made though another one was there, or a disk is not mounted there.
    pub new_medium: bool,
    /// Whether the tape drive is to encrypt; if not said, where the tape is encrypted by its drive.
    pub encrypt: Option<Encrypt>,
}

/// A new full from a version and what it builds on.
#[derive(Debug, Clone)]
pub struct ConsolidateRequest {
    /// What.
    pub version: VersionName,
    /// Where to; by default where the version is.
    pub device: Option<Address>,
    /// The pool whose media take the place of the device.
    pub pool: Option<String>,
    /// Block size of a new medium in bytes.
    pub block_size: Option<u32>,
    /// Whether a medium is made though another one was there, or a disk is not mounted there.
    pub new_medium: bool,
    /// Whether the tape drive is to encrypt; if not said, where the tape is encrypted by its drive.
    pub encrypt: Option<Encrypt>,
}

/// Which versions of each object are looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The newest.
    Newest,
    /// The newest complete one that was begun by then, in microseconds since 1970.
    AsOf(i64),
    /// All.
    All,
}

/// Which media of a pool with rotation sets are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Those of the set whose day this is: the one on which the run began. What is written after midnight is of the same night.
    Night(Date),
    /// One in place of a medium of that set, or of none, from which something is copied: nothing goes for it.
    InPlaceOf(Option<RotationSet>),
}

/// What is to be staged, and where to.
#[derive(Debug, Clone)]
pub struct StageRequest {
    /// A pool, or a medium on disk: its label, id or device.
    pub source: String,
    /// Where to.
    pub device: Address,
    /// The pool whose media take the place of the device.
    pub pool: Option<String>,
    /// Which of the pool's media, where they rotate.
    pub turn: Turn,
    /// Only versions that were begun before, in microseconds since 1970.
    pub begun_before_us: Option<i64>,
    /// The newest that have no more than so many bytes together stay.
    pub keep: Option<u64>,
    /// Block size of a new medium in bytes.
    pub block_size: Option<u32>,
    /// Whether a medium is made though another one was there, or a disk is not mounted there.
    pub new_medium: bool,
    /// Whether the tape drive is to encrypt; if not said, where the tape is encrypted by its drive.
    pub encrypt: Option<Encrypt>,
    /// Only say what would be done.
    pub dry_run: bool,
}
