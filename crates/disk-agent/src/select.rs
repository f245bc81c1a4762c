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
        let mut add = |sign: &str, pattern: &str| {
            let bad = |reason: String| BadPattern { pattern: pattern.to_owned(), reason };
            let glob = without_alternatives(pattern);
            let line = &format!("{sign}{glob}");
            // The matcher takes what is no glob as a pattern that matches nothing; here it is a mistake.
            globset::Glob::new(&glob).map_err(|e| bad(e.kind().to_string()))?;
            builder.add_line(None, line).map(|_| ()).map_err(|e| bad(e.to_string()))
        };
        for pattern in exclude {
            add("", pattern)?;
        }
        for pattern in include {
            add("!", pattern)?;
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

/// The pattern with its braces escaped: to the matcher they are alternatives, to a `.gitignore` they are themselves.
/// In a character class, where the matcher knows no escapes, they are themselves anyway.
fn without_alternatives(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '\\' => c.len_utf8() + rest[1..].chars().next().map_or(0, char::len_utf8),
            '[' => class_len(rest),
            _ => c.len_utf8(),
        };
        if matches!(c, '{' | '}') {
            out.push('\\');
        }
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out
}

/// Bytes of the character class at the begin of `text`; all of it if the class has no end.
fn class_len(text: &str) -> usize {
    let negated = usize::from(text[1..].starts_with(['!', '^']));
    // A bracket in the first place is one of the class.
    let first = 1 + negated + usize::from(text[1 + negated..].starts_with(']'));
    text[first..].find(']').map_or(text.len(), |at| first + at + 1)
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

    #[test]
    fn braces_are_themselves() {
        // Each as `git check-ignore` has it.
        for (pattern, name, matches) in [
            ("{keep,a}.o", "{keep,a}.o", true),
            ("{keep,a}.o", "keep.o", false),
            ("{keep,a}.o", "a.o", false),
            ("x{y", "x{y", true),
            ("x}y", "x}y", true),
            ("\\{x\\}", "{x}", true),
            ("\\\\{x", "\\{x", true),
            ("[{}]x", "{x", true),
            ("[{}]x", "\\x", false),
            ("[!{]x", "ax", true),
            ("[!{]x", "{x", false),
            ("[]{]x", "]x", true),
            ("[]{]x{", "{x{", true),
            ("*{[0-9]}", "a{5}", true),
        ] {
            let s = selection(&[pattern], &[]);
            assert_eq!(s.excludes(name.as_bytes(), false), matches, "{pattern} {name}");
        }
        let s = selection(&["*.o"], &["{a,b}.o"]);
        assert!(s.excludes(b"a.o", false) && !s.excludes(b"{a,b}.o", false));
    }
}
