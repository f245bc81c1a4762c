//! What is left out of a backup: patterns, tags, sizes, file systems, and what must never be backed up.

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Begin of a cache directory's tag (https://bford.info/cachedir/).
pub const CACHE_TAG: &str = "CACHEDIR.TAG";
/// What that file must begin with.
pub const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// A pattern that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("bad pattern '{pattern}': {reason}; patterns are those of .gitignore files")]
pub struct BadPattern {
    /// The pattern.
    pub pattern: String,
    /// Why not.
    pub reason: String,
}

/// What is left out.
#[derive(Debug)]
pub struct Selection {
    patterns: Gitignore,
    /// Leave out what lies in directories tagged as caches.
    pub exclude_caches: bool,
    /// Leave out what lies in directories that hold one of these names.
    pub exclude_if_present: Vec<Vec<u8>>,
    /// Sizes of the files to take, in bytes.
    pub sizes: Option<RangeInclusive<u64>>,
    /// Do not enter other file systems.
    pub one_file_system: bool,
    /// Directories (device, inode) never to enter: our own media and home.
    pub never: Vec<(u64, u64)>,
}

impl Selection {
    /// A selection by patterns in the order given, later ones deciding; `include` patterns come after all.
    /// Patterns with a leading or inner slash are anchored at the root directory.
    pub fn new(exclude: &[String], include: &[String]) -> Result<Self, BadPattern> {
        let mut builder = GitignoreBuilder::new("/");
        let mut add = |line: &str, pattern: &str| {
            let bad = |reason: String| BadPattern { pattern: pattern.to_owned(), reason };
            // The matcher takes what is no glob as a pattern that matches nothing; here it is a mistake.
            globset::Glob::new(pattern).map_err(|e| bad(e.kind().to_string()))?;
            builder.add_line(None, line).map(|_| ()).map_err(|e| bad(e.to_string()))
        };
        for pattern in exclude {
            add(pattern, pattern)?;
        }
        for pattern in include {
            add(&format!("!{pattern}"), pattern)?;
        }
        let bad = |e: ignore::Error| BadPattern { pattern: String::new(), reason: e.to_string() };
        Ok(Self {
            patterns: builder.build().map_err(bad)?,
            exclude_caches: false,
            exclude_if_present: Vec::new(),
            sizes: None,
            one_file_system: false,
            never: Vec::new(),
        })
    }

    /// Whether there is no pattern at all.
    pub fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Whether the path (without leading slash) is left out by a pattern.
    pub fn excludes(&self, path: &[u8], is_dir: bool) -> bool {
        self.has_patterns()
            && self.patterns.matched(Path::new(OsStr::from_bytes(path)), is_dir).is_ignore()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(exclude: &[&str], include: &[&str]) -> Selection {
        let own = |s: &[&str]| s.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        Selection::new(&own(exclude), &own(include)).unwrap()
    }

    #[test]
    fn patterns_are_those_of_gitignore() {
        let s = selection(&["*.o", "/home/*/cache/", "tmp/"], &["keep.o"]);
        assert!(s.excludes(b"usr/src/a.o", false));
        assert!(!s.excludes(b"usr/src/keep.o", false));
        assert!(s.excludes(b"home/me/cache", true));
        assert!(!s.excludes(b"home/me/cache", false));
        assert!(!s.excludes(b"srv/home/me/cache", true));
        assert!(s.excludes(b"srv/tmp", true));
        assert!(Selection::new(&["a[".to_owned()], &[]).is_err());
    }
}
