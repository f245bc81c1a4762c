//! Patterns of paths, as `.gitignore` files have them.
//!
//! Whoever chooses paths asks here: a backup what it leaves out, a restore what it brings, a search what it finds. In come
//! patterns and paths, out comes a decision. Nothing is read or opened.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use capstan_engine::problem::Explain;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// A pattern, and where it was given.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Pattern {
    /// The pattern, as in a .gitignore.
    pub text: String,
    /// The file that has it, as it is shown, and its line there, from 1; nothing of one that was typed.
    pub from: Option<(String, usize)>,
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), from: None }
    }
}

impl Pattern {
    /// Patterns that were typed.
    pub fn typed(texts: &[String]) -> Vec<Self> {
        texts.iter().map(|text| text.as_str().into()).collect()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            Some((file, line)) => write!(f, "'{}' ({file}:{line})", self.text),
            None => write!(f, "'{}'", self.text),
        }
    }
}

/// How patterns are written.
const HOW_WRITTEN: &str = "patterns are those of .gitignore files";

/// A pattern that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("bad pattern {pattern}: {reason}; {HOW_WRITTEN}")]
pub struct BadPattern {
    /// The pattern.
    pub pattern: Pattern,
    /// Why not.
    pub reason: String,
}

impl Explain for BadPattern {
    fn hint(&self) -> Option<String> {
        Some(HOW_WRITTEN.to_owned())
    }
}

/// What patterns say of a path: the last that matches it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The number of that pattern: those that exclude come first, then those that include.
    pub pattern: usize,
    /// Whether the path is left out.
    pub excludes: bool,
}

/// Patterns, compiled: the last one that matches a path decides.
#[derive(Debug)]
pub struct Patterns {
    matcher: Gitignore,
    patterns: Vec<Pattern>,
}

impl Patterns {
    /// Patterns of what is left out, in the order given, later ones deciding; `include` has exceptions, which come after all.
    /// Patterns with a leading or inner slash are anchored at the root directory.
    pub fn new(exclude: &[Pattern], include: &[Pattern]) -> Result<Self, BadPattern> {
        let mut builder = GitignoreBuilder::new("/");
        let mut patterns: Vec<Pattern> = Vec::with_capacity(exclude.len() + include.len());
        let mut add = |sign: &str, pattern: &Pattern| {
            let bad = |reason: String| BadPattern { pattern: pattern.clone(), reason };
            let glob = for_matcher(&pattern.text)
                .map_err(|name| bad(format!("there is no class of characters [:{name}:]")))?;
            let line = &format!("{sign}{glob}");
            // The matcher takes what is no glob as a pattern that matches nothing; here it is a mistake.
            globset::Glob::new(&glob).map_err(|e| bad(e.kind().to_string()))?;
            // It keeps of each pattern whence it comes: here that is its number.
            let number = PathBuf::from(patterns.len().to_string());
            builder.add_line(Some(number), line).map_err(|e| bad(e.to_string()))?;
            patterns.push(pattern.clone());
            Ok(())
        };
        for pattern in exclude {
            add("", pattern)?;
        }
        for pattern in include {
            add("!", pattern)?;
        }
        let bad = |e: ignore::Error| BadPattern { pattern: "".into(), reason: e.to_string() };
        Ok(Self { matcher: builder.build().map_err(bad)?, patterns })
    }

    /// Whether there is no pattern at all.
    pub fn is_empty(&self) -> bool {
        self.matcher.is_empty()
    }

    /// Its patterns, by their numbers.
    pub fn all(&self) -> &[Pattern] {
        &self.patterns
    }

    /// What patterns say of a path (without leading slash); nothing where none matches.
    pub fn decide(&self, path: &[u8], is_dir: bool) -> Option<Decision> {
        if self.is_empty() {
            return None;
        }
        let (glob, excludes) =
            match self.matcher.matched(Path::new(OsStr::from_bytes(path)), is_dir) {
                Match::None => return None,
                Match::Ignore(glob) => (glob, true),
                Match::Whitelist(glob) => (glob, false),
            };
        let pattern = glob.from()?.to_str()?.parse().ok()?;
        Some(Decision { pattern, excludes })
    }

    /// Whether the path (without leading slash) is left out by a pattern.
    pub fn excludes(&self, path: &[u8], is_dir: bool) -> bool {
        self.decide(path, is_dir).is_some_and(|decision| decision.excludes)
    }
}

/// The pattern as the matcher understands it. Its braces are escaped: to the matcher they are alternatives, to a `.gitignore` they are
/// themselves. Classes by name, as `[:digit:]`, are written out: the matcher has none. `Err` is a name that is none of a class.
fn for_matcher(pattern: &str) -> Result<String, &str> {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        if c == '[' {
            rest = take_class(rest, &mut out)?;
            continue;
        }
        let taken = match c {
            '\\' => c.len_utf8() + rest[1..].chars().next().map_or(0, char::len_utf8),
            _ => c.len_utf8(),
        };
        if matches!(c, '{' | '}') {
            out.push('\\');
        }
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    Ok(out)
}

/// Takes the character class at the begin of a pattern, all of it if the class has no end; returns what is behind it.
/// In a class the matcher knows no escapes: braces are themselves.
fn take_class<'p>(pattern: &'p str, out: &mut String) -> Result<&'p str, &'p str> {
    let negated = usize::from(pattern[1..].starts_with(['!', '^']));
    // A bracket in the first place is one of the class.
    let first = 1 + negated + usize::from(pattern[1 + negated..].starts_with(']'));
    out.push_str(&pattern[..first]);
    let mut rest = &pattern[first..];
    while let Some(at) = rest.find([']', '[']) {
        let named = rest[at..].strip_prefix("[:").and_then(|behind| behind.split_once(":]"));
        let (taken, behind) = match named {
            Some((name, behind)) if name.bytes().all(|b| b.is_ascii_lowercase()) => {
                out.push_str(&rest[..at]);
                out.push_str(class_of(name).ok_or(name)?);
                ("", behind)
            }
            _ => rest.split_at(at + 1),
        };
        out.push_str(taken);
        rest = behind;
        if taken.ends_with(']') {
            return Ok(rest);
        }
    }
    out.push_str(rest);
    Ok("")
}

/// The characters of a class by its name (POSIX.1-2017, Base Definitions, 7.3.1), those of ASCII, as git's wildmatch has them. None begins
/// with a `!`, which in the first place means another thing.
fn class_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "alnum" => "0-9A-Za-z",
        "alpha" => "A-Za-z",
        "blank" => " \t",
        "cntrl" => "\u{1}-\u{1f}\u{7f}",
        "digit" => "0-9",
        "graph" => "\"-~!",
        "lower" => "a-z",
        "print" => " -~",
        "punct" => ":-@[-`{-~!-/",
        "space" => " \t-\r",
        "upper" => "A-Z",
        "xdigit" => "0-9A-Fa-f",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(exclude: &[&str], include: &[&str]) -> Patterns {
        let own = |s: &[&str]| s.iter().map(|s| (*s).into()).collect::<Vec<_>>();
        Patterns::new(&own(exclude), &own(include)).unwrap()
    }

    #[test]
    fn patterns_are_those_of_gitignore() {
        let s = patterns(&["*.o", "/home/*/cache/", "tmp/"], &["keep.o"]);
        assert!(s.excludes(b"usr/src/a.o", false));
        assert!(!s.excludes(b"usr/src/keep.o", false));
        assert!(s.excludes(b"home/me/cache", true));
        assert!(!s.excludes(b"home/me/cache", false));
        assert!(!s.excludes(b"srv/home/me/cache", true));
        assert!(s.excludes(b"srv/tmp", true));
        assert!(Patterns::new(&["a[".into()], &[]).is_err());
    }

    #[test]
    fn the_pattern_that_decides_is_known() {
        let listed = |text: &str, line| Pattern {
            text: text.to_owned(),
            from: Some(("list".to_owned(), line)),
        };
        let exclude = [listed("# a comment", 1), listed("*.o", 2), listed("", 3), "cache/".into()];
        let s = Patterns::new(&exclude, &["keep.o".into()]).unwrap();
        let of = |path: &str, is_dir| {
            let decision = s.decide(path.as_bytes(), is_dir)?;
            Some((s.all()[decision.pattern].clone(), decision.excludes))
        };
        assert_eq!(of("a/b.o", false), Some((listed("*.o", 2), true)));
        assert_eq!(of("a/cache", true), Some(("cache/".into(), true)));
        assert_eq!(of("a/keep.o", false), Some(("keep.o".into(), false)));
        assert_eq!(of("a/cache", false), None);
        let bad = Patterns::new(&[listed("a[", 7)], &[]).unwrap_err();
        assert!(bad.to_string().contains("'a[' (list:7)"), "{bad}");
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
            let s = patterns(&[pattern], &[]);
            assert_eq!(s.excludes(name.as_bytes(), false), matches, "{pattern} {name}");
        }
        let s = patterns(&["*.o"], &["{a,b}.o"]);
        assert!(s.excludes(b"a.o", false) && !s.excludes(b"{a,b}.o", false));
    }

    #[test]
    fn classes_have_names() {
        // Each as `git check-ignore` has it.
        for (pattern, name, matches) in [
            ("[[:digit:]]", "1", true),
            ("[[:digit:]]", "a", false),
            ("[[:digit:]]", ":]", false),
            ("[![:digit:]_]x", "ax", true),
            ("[![:digit:]_]x", "_x", false),
            ("[]x[:upper:]]", "]", true),
            ("[]x[:upper:]]", "Q", true),
            ("[[:punct:]]", "]", true),
            ("[[:punct:]]", "~", true),
            ("[[:punct:]]", "b", false),
            ("[[:space:]]a{", " a{", true),
            ("[[:alnum:]-]", "-", true),
            ("[[:xdigit:][:blank:]]", "F", true),
            ("[[:print:]]", "\u{7f}", false),
            ("[[:cntrl:]]", "\u{7f}", true),
            ("[[x]", "[", true),
            ("[[:graph:]]", "!", true),
            ("[[:graph:]]", " ", false),
        ] {
            let s = patterns(&[pattern], &[]);
            assert_eq!(s.excludes(name.as_bytes(), false), matches, "{pattern} {name}");
        }
        let bad = Patterns::new(&["[[:digits:]]".into()], &[]).unwrap_err().to_string();
        assert!(bad.contains("there is no class of characters [:digits:]"), "{bad}");
        let endless = Patterns::new(&["a[[:digit:]".into()], &[]).unwrap_err().to_string();
        assert!(endless.contains("a[[:digit:]"), "{endless}");
    }
}
