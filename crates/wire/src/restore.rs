//! What a restore is told.

use capstan_format::id::SessionId;
use serde::{Deserialize, Serialize};

use crate::as_text;

/// What to do about files that exist. Directories that exist are always used. What exists and is not replaced gets its metadata where it
/// looks like what is in the backup, as directories do; with [`Overwrite::Never`] both keep theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overwrite {
    /// Keep what exists.
    Never,
    /// Replace what differs from the backup in kind, size or time of last change (symbolic links:
    /// in their text, device nodes: in their number).
    IfDifferent,
    /// Replace what was last changed before the file in the backup was.
    IfNewer,
    /// Replace whatever exists.
    Always,
}

/// Where a restore writes, and how it goes about that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetSpec {
    /// The directory; the root directory where everything goes back where it was.
    #[serde(with = "as_text")]
    pub directory: Vec<u8>,
    /// What to do about files that exist.
    pub overwrite: Overwrite,
    /// Owners by number, even where the backup has their names.
    pub numeric_ids: bool,
    /// Whether it is only looked at: nothing is made then.
    pub only_looked_at: bool,
    /// The restore's session, which marks what it writes beside something.
    pub session: Option<SessionId>,
    /// Restores that were killed: what they left beside files is removed.
    pub killed: Vec<SessionId>,
}

/// An archive that a restore writes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveSpec {
    /// The file; empty for the standard output of the disk agent.
    #[serde(with = "as_text")]
    pub file: Vec<u8>,
    /// Owners by number, even where the backup has their names.
    pub numeric_ids: bool,
    /// Where parts of files wait that go on on another tape; in memory, where that is not said.
    pub spool: Option<SpoolSpec>,
}

/// A file without a name in which something waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolSpec {
    /// In which directory.
    #[serde(with = "as_text")]
    pub directory: Vec<u8>,
    /// Its size in bytes.
    pub bytes: u64,
}

/// What a restore did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RestoreCounts {
    /// Files, all that are not directories.
    pub files: u64,
    /// Directories.
    pub dirs: u64,
    /// Bytes of contents that were written.
    pub bytes: u64,
    /// Files that did not come whole.
    pub lost: u64,
    /// Stored bytes of frames that came.
    pub bytes_read: u64,
}

/// What a restore left alone in its target, or would.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeftAlone {
    /// Existing files that the policy kept.
    pub kept: u64,
    /// Those of them whose metadata were put right.
    pub put_right: u64,
    /// Those of them that look like what is in the backup and have other metadata, which the policy kept too.
    pub differ: u64,
}

/// What came of a restore besides what it counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RestoreDone {
    /// What was left alone.
    pub left_alone: LeftAlone,
    /// Files of killed restores that were removed.
    pub leftovers_removed: u64,
    /// Whether contents came that have no checksums.
    pub is_unchecked: bool,
    /// Files that lie on media that are away, by their paths in the backup.
    #[serde(with = "as_text::list")]
    pub away: Vec<Vec<u8>>,
}
