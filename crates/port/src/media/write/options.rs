//! What a writer needs to know: sizes and times of segments, where it goes on, what is kept until it is committed.

use std::collections::HashMap;
use std::fs::File;
use std::time::Duration;

use capstan_format::id::StreamId;
use capstan_format::record::{MediumHeader, SessionLabel};

use super::error::WriteError;
use super::members::{LostMirror, Member};

/// Catalog bytes after which a segment ends, by default: 1 MiB, the rows of some 46,000 files of a `/usr`. A catalog is
/// held in memory while its segment is written and read; smaller ones cost more commits.
pub const CATALOG_LIMIT_DEFAULT: u64 = 1 << 20;

/// Buffers that a writer with `streams` streams needs at least, so that reading and writing overlap.
pub fn default_buffers(streams: usize) -> usize {
    2 * streams + 4
}

/// What a writer needs to know.
pub struct WriterOptions {
    /// The medium.
    pub medium: MediumHeader,
    /// The session that segments name, in clear.
    pub session: SessionLabel,
    /// The sessions of the streams that are not of that one, but of others that write together with it.
    pub others: HashMap<StreamId, SessionLabel>,
    /// The sessions' wrapped keys.
    pub keys: Vec<serde_json::Value>,
    /// Bytes after which a segment ends.
    pub segment_size: u64,
    /// Bytes of catalog after which a segment ends.
    pub catalog_limit: u64,
    /// Time after which a segment ends although it is small, so that a slow source is committed too.
    pub segment_time: Duration,
    /// Block buffers in all.
    pub buffers: usize,
    /// Now, in microseconds since 1970.
    pub now_us: fn() -> i64,
    /// Where the session goes on when a medium ends; nowhere, if there is none.
    pub next_media: Option<Box<NextMedia>>,
    /// Whether the sources are read again where the writing ends as a medium is full, so that nothing is lost by it.
    pub rereads: bool,
    /// How what is not committed is kept, so that the session goes on on other media where these fail; `None` where the source is
    /// read again.
    pub keeping: Option<Keeping>,
}

/// How what is not committed is kept.
pub struct Keeping {
    /// A file without a name.
    pub file: File,
    /// The directory in which it lies.
    pub path: String,
    /// Its bytes at most. Commits come so often that they are enough.
    pub room: u64,
    /// Gives the media on which the session goes on.
    pub replace: Box<ReplaceMedia>,
    /// Takes why something could not be kept: what comes until the next commit is lost where the media fail.
    pub lost: Box<dyn FnMut(String) + Send>,
}

/// The media on which a session goes on, one for each of those before, in their order: a mirror for which there is none is left.
pub type OnMedia = Result<Vec<Result<Member, LostMirror>>, WriteError>;

/// Gives the media on which a session goes on when one of those that it has ends.
pub type NextMedia = dyn FnMut(Vec<Member>) -> OnMedia + Send;

/// Gives other media in place of those that failed with that error.
pub type ReplaceMedia = dyn FnMut(Vec<Member>, &WriteError) -> OnMedia + Send;
