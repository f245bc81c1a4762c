//! What a restore is told.

use serde::{Deserialize, Serialize};

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
