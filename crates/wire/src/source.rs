//! What a disk agent is asked of a source before a backup: where its paths lead, which roots are links, what is used on them. Each is
//! one question with all paths, and one answer.

use serde::{Deserialize, Serialize};

use crate::as_text;

/// Asks where paths lead that are to be backed up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathsAsked {
    /// The paths as they are written. What is relative begins where the disk agent runs.
    #[serde(with = "as_text::list")]
    pub paths: Vec<Vec<u8>>,
    /// Directories of which nothing is backed up: what is written to, and the home.
    #[serde(with = "as_text::list")]
    pub own: Vec<Vec<u8>>,
}

/// A path that is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// As it is written, from the root directory on; without the leading slash, with the last one.
    #[serde(with = "as_text")]
    pub path: Vec<u8>,
    /// What it is resolved to.
    #[serde(with = "as_text")]
    pub root: Vec<u8>,
    /// Why it is not there, or cannot be reached.
    pub missing: Option<String>,
    /// Whether it is one of the directories of which nothing is backed up.
    pub is_own: bool,
}

impl Named {
    /// The path without a slash at its end.
    pub fn trimmed(&self) -> &[u8] {
        self.path.strip_suffix(b"/").unwrap_or(&self.path)
    }
}

/// A path that means nothing, as an empty one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadPath {
    /// The path, as it is shown.
    pub path: String,
    /// What is wrong with it.
    pub why: String,
}

/// Asks what roots are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootsAsked {
    /// The roots: absolute paths without leading slash, sorted.
    #[serde(with = "as_text::list")]
    pub roots: Vec<Vec<u8>>,
    /// Whether it is to be said what is used on the file systems that they are.
    pub used: Option<UsedAsked>,
}

/// Asks what is used on the file systems that roots are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedAsked {
    /// Without other file systems below.
    pub one_file_system: bool,
    /// Directories that are not backed up: where one of these lies there, nothing is said.
    #[serde(with = "as_text::list")]
    pub aside: Vec<Vec<u8>>,
}

/// What roots are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootsFound {
    /// Those that are symbolic links to what no root has.
    pub links: Vec<RootLink>,
    /// What is used on the file systems that they are, if that was asked for and says anything.
    pub used: Option<Used>,
}

/// A root that is a symbolic link to what no root has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootLink {
    /// The root.
    #[serde(with = "as_text")]
    pub root: Vec<u8>,
    /// Where it leads, as the link says it.
    #[serde(with = "as_text")]
    pub target: Vec<u8>,
    /// Whether a directory is there.
    pub is_to_directory: bool,
}

/// What is used on file systems.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Inodes; 0 where a file system does not count them.
    pub inodes: u64,
    /// Bytes.
    pub bytes: u64,
}
