//! What of a version is restored: paths with what is below them, and of that what patterns leave. The patterns are those of a
//! backup, and mean the same: what lies in a directory that is left out is left out with it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use capstan_format::entry::split;
use capstan_select::{Pattern, Patterns};
use parking_lot::Mutex;

use crate::error::Result;

/// What is restored.
#[derive(Default)]
pub(crate) struct Chosen {
    /// Stored paths, without leading slash; all if empty.
    paths: HashSet<Vec<u8>>,
    /// The directories that lead to them.
    above: HashSet<Vec<u8>>,
    /// What the version is of, where no path is asked for: patterns leave that as they did in the backup.
    roots: HashSet<Vec<u8>>,
    above_roots: HashSet<Vec<u8>>,
    patterns: Option<ByPatterns>,
}

/// Patterns, and what is known of the directory that was asked for last.
struct ByPatterns {
    all: Patterns,
    /// The same without those that take back, to know whether there is something to take back.
    excluding: Patterns,
    /// How many exclude; those that take back come after them.
    excludes: usize,
    /// Only what patterns match is chosen: nothing is to be left out, so they say what is to be taken.
    only: bool,
    /// Which of them had a say.
    used: Vec<AtomicBool>,
    /// With `only`, the directories that lead to what is chosen.
    above: HashSet<Vec<u8>>,
    last: Mutex<Option<(Vec<u8>, bool)>>,
}

impl Chosen {
    /// What of these paths, or of all, these patterns leave. Without any that exclude, those that include say what is taken.
    pub fn new(paths: &[Vec<u8>], exclude: &[Pattern], include: &[Pattern]) -> Result<Self> {
        let paths: HashSet<Vec<u8>> = paths.iter().cloned().collect();
        let above = above(&paths);
        let patterns = match exclude.is_empty() && include.is_empty() {
            true => None,
            false => Some(ByPatterns::new(exclude, include)?),
        };
        Ok(Self { paths, above, patterns, ..Self::default() })
    }

    /// The same of a version of these paths: patterns that leave out have no say of them, nor of what they are in.
    pub fn of_roots(mut self, roots: &[Vec<u8>]) -> Self {
        if self.paths.is_empty() {
            self.roots = roots.iter().cloned().collect();
            self.above_roots = above(&self.roots);
        }
        self
    }

    /// Whether it is not all.
    pub fn is_narrow(&self) -> bool {
        !self.paths.is_empty() || self.patterns.is_some()
    }

    /// Whether patterns have a say.
    pub fn has_patterns(&self) -> bool {
        self.patterns.is_some()
    }

    /// The paths that are asked for, in no order; all if there are none.
    pub fn paths(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.paths.iter()
    }

    /// Which of the paths that are asked for this one is, or is below; the deepest.
    pub fn asked_of<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        deepest(&self.paths, path)
    }

    /// Whether a stored path is chosen.
    pub fn has(&self, path: &[u8], is_dir: bool) -> bool {
        let asked = self.asked_of(path);
        if asked.is_none() && !self.paths.is_empty() {
            return false;
        }
        let Some(patterns) = &self.patterns else { return true };
        if !patterns.only && self.above_roots.contains(path) {
            return true;
        }
        let root = asked.or_else(|| deepest(&self.roots, path)).unwrap_or_default();
        // Asked in any case, so that it is known which patterns had a say.
        patterns.have(path, is_dir, root) || asked == Some(path)
    }

    /// Whether a directory leads to what is chosen.
    pub fn leads(&self, path: &[u8]) -> bool {
        match &self.patterns {
            Some(patterns) if patterns.only => patterns.above.contains(path),
            _ => self.above.contains(path),
        }
    }

    /// Takes a path that is there for what it leads by.
    pub fn learn(&mut self, path: &[u8]) {
        if let Some(patterns) = self.patterns.as_mut().filter(|patterns| patterns.only) {
            lead_to(path, &mut patterns.above);
        }
    }

    /// What patterns did nothing: said of each when all paths were asked for.
    pub fn useless(&self) -> Vec<String> {
        let Some(p) = &self.patterns else { return Vec::new() };
        let of = |(number, pattern): (usize, &Pattern)| {
            // Comments and empty lines of a file are none.
            let nothing = pattern.text.trim().is_empty() || pattern.text.starts_with('#');
            if nothing || p.used[number].load(Relaxed) {
                return None;
            }
            Some(match (p.only, number < p.excludes, pattern.text.starts_with('!')) {
                (true, _, false) => format!("--include {pattern} matches nothing that is there"),
                (false, true, false) => format!("--exclude {pattern} leaves nothing out"),
                (false, true, true) | (true, _, true) => {
                    format!("the pattern {pattern} takes nothing back")
                }
                (false, false, _) => format!(
                    "--include {pattern} takes nothing back of what --exclude leaves out; to restore only what it matches, give it \
                     without --exclude, or name a PATH"
                ),
            })
        };
        p.all.all().iter().enumerate().filter_map(of).collect()
    }
}

impl ByPatterns {
    fn new(exclude: &[Pattern], include: &[Pattern]) -> Result<Self> {
        let only = exclude.is_empty();
        let (exclude, include) = if only { (include, exclude) } else { (exclude, include) };
        let made = |include: &[Pattern]| Patterns::new(exclude, include);
        Ok(Self {
            all: made(include)?,
            excluding: made(&[])?,
            excludes: exclude.len(),
            only,
            used: std::iter::repeat_with(AtomicBool::default)
                .take(exclude.len() + include.len())
                .collect(),
            above: HashSet::new(),
            last: Mutex::new(None),
        })
    }

    /// Whether a path is chosen that is `asked`, or below it: what is asked for itself is, whatever patterns leave out.
    fn have(&self, path: &[u8], is_dir: bool, asked: &[u8]) -> bool {
        if path.is_empty() || !self.only && path == asked {
            return !self.only;
        }
        let within = self.directory(split(path).0, asked);
        match (self.only, within) {
            // It is left out with its directory.
            (false, false) => false,
            (false, true) => !self.says(path, is_dir).unwrap_or(false),
            // The deepest directory of which patterns say something decides where they say nothing of it.
            (true, within) => self.says(path, is_dir).unwrap_or(within),
        }
    }

    /// Whether a directory's contents are chosen, as far as patterns say nothing of them.
    fn directory(&self, dir: &[u8], asked: &[u8]) -> bool {
        if dir.is_empty() || !self.only && dir == asked {
            return !self.only;
        }
        if let Some(last) = self.last.try_lock()
            && let Some((path, chosen)) = &*last
            && path == dir
        {
            return *chosen;
        }
        let chosen = self.have(dir, true, asked);
        if let Some(mut last) = self.last.try_lock() {
            *last = Some((dir.to_vec(), chosen));
        }
        chosen
    }

    /// What patterns say of a path, and that they do; nothing if none matches.
    fn says(&self, path: &[u8], is_dir: bool) -> Option<bool> {
        let decision = self.all.decide(path, is_dir)?;
        if decision.pattern < self.excludes {
            self.used[decision.pattern].store(true, Relaxed);
        } else if let Some(without) = self.excluding.decide(path, is_dir)
            && without.excludes
        {
            // What is taken back had been left out: both did something.
            self.used[decision.pattern].store(true, Relaxed);
            self.used[without.pattern].store(true, Relaxed);
        }
        Some(decision.excludes)
    }
}

/// Which of some paths this one is, or is below; the deepest.
fn deepest<'p>(of: &HashSet<Vec<u8>>, path: &'p [u8]) -> Option<&'p [u8]> {
    let mut at = Some(path).filter(|_| !of.is_empty());
    while let Some(path) = at {
        if of.contains(path) {
            return Some(path);
        }
        at = (!path.is_empty()).then(|| split(path).0);
    }
    None
}

/// The directories that paths are in.
fn above(paths: &HashSet<Vec<u8>>) -> HashSet<Vec<u8>> {
    let mut above = HashSet::new();
    paths.iter().for_each(|path| lead_to(path, &mut above));
    above
}

/// Adds the directories that a path is in.
fn lead_to(path: &[u8], above: &mut HashSet<Vec<u8>>) {
    let mut at = path;
    while !at.is_empty() {
        at = split(at).0;
        if !above.insert(at.to_vec()) {
            // Those above are there.
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(paths: &[&str], exclude: &[&str], include: &[&str]) -> Chosen {
        let paths: Vec<_> = paths.iter().map(|p| p.as_bytes().to_vec()).collect();
        let own = |p: &[&str]| p.iter().map(|p| (*p).into()).collect::<Vec<Pattern>>();
        Chosen::new(&paths, &own(exclude), &own(include)).unwrap()
    }

    /// Which of some files of a tree are chosen.
    fn files(chosen: &Chosen) -> Vec<&'static str> {
        const ALL: [&str; 6] = [
            "home/ann/a.odt",
            "home/ann/a.iso",
            "home/ann/cache/b.odt",
            "home/bob/c.odt",
            "etc/hosts",
            "top",
        ];
        ALL.into_iter().filter(|path| chosen.has(path.as_bytes(), false)).collect()
    }

    #[test]
    fn patterns_are_those_of_a_backup() {
        assert_eq!(files(&chosen(&[], &[], &[])).len(), 6);
        let no_cache = chosen(&[], &["cache/", "*.iso"], &["b.odt"]);
        let expected = ["home/ann/a.odt", "home/bob/c.odt", "etc/hosts", "top"];
        assert_eq!(
            files(&no_cache),
            expected,
            "what is in an excluded directory cannot be taken back"
        );
        assert!(!no_cache.has(b"home/ann/cache", true) && no_cache.has(b"home/ann/cache", false));
        let kept = chosen(&[], &["/home/ann/*"], &["a.odt"]);
        assert_eq!(files(&kept), ["home/ann/a.odt", "home/bob/c.odt", "etc/hosts", "top"]);
        assert!(kept.has(b"home/ann", true) && !kept.leads(b"home/ann"));
    }

    #[test]
    fn includes_alone_say_what_is_taken() {
        let odt = chosen(&[], &[], &["*.odt", "!c.odt"]);
        assert_eq!(files(&odt), ["home/ann/a.odt", "home/ann/cache/b.odt"]);
        assert!(!odt.has(b"home", true));
        let ann = chosen(&[], &[], &["/home/ann", "!*.iso"]);
        assert_eq!(files(&ann), ["home/ann/a.odt", "home/ann/cache/b.odt"]);
        assert!(ann.has(b"home/ann/cache", true) && !ann.has(b"home/bob", true));
        let below = chosen(&["home/ann/cache"], &[], &["*.odt"]);
        assert_eq!(files(&below), ["home/ann/cache/b.odt"]);
    }

    #[test]
    fn a_named_path_is_taken_also_where_includes_alone_match_others() {
        let named = chosen(&["home/ann", "top"], &[], &["*.odt"]);
        assert_eq!(files(&named), ["home/ann/a.odt", "home/ann/cache/b.odt", "top"]);
        assert!(named.has(b"home/ann", true) && !named.has(b"home/ann/cache", true));
        // Of two paths that are named, the deeper one comes as well.
        let both = chosen(&["home", "home/ann/a.iso"], &[], &["c.odt"]);
        assert_eq!(files(&both), ["home/ann/a.iso", "home/bob/c.odt"]);
        assert!(both.has(b"home", true) && !both.has(b"home/bob", true));
        // What says no word of what is below it brings the path alone, and is named.
        let alone = chosen(&["home/ann"], &[], &["*.none"]);
        assert!(files(&alone).is_empty() && alone.has(b"home/ann", true));
        assert_eq!(alone.useless(), ["--include '*.none' matches nothing that is there"]);
        let whole = chosen(&["home/ann"], &[], &["ann"]);
        assert_eq!(files(&whole).len(), 3);
    }

    #[test]
    fn a_named_path_is_taken_whatever_patterns_say() {
        let cache = chosen(&["home/ann/cache", "top"], &["cache", "top", "*.iso"], &[]);
        assert_eq!(files(&cache), ["home/ann/cache/b.odt", "top"]);
        assert!(cache.has(b"home/ann/cache", true));
        assert!(cache.leads(b"home/ann") && cache.leads(b"") && !cache.leads(b"home/bob"));
        assert_eq!(cache.asked_of(b"home/ann/cache/b.odt"), Some(&b"home/ann/cache"[..]));
    }

    #[test]
    fn what_the_version_is_of_is_left_as_in_the_backup() {
        let roots = [b"home/ann".to_vec()];
        let of =
            |exclude: &[&str], include: &[&str]| chosen(&[], exclude, include).of_roots(&roots);
        let ann = of(&["home", "ann", "*.iso"], &[]);
        assert!(ann.has(b"", true) && ann.has(b"home", true) && ann.has(b"home/ann", true));
        assert_eq!(files(&ann)[..2], ["home/ann/a.odt", "home/ann/cache/b.odt"]);
        // Who names it as what is wanted has all of it.
        assert!(of(&[], &["/home"]).has(b"home/ann/a.iso", false));
    }

    #[test]
    fn what_does_nothing_is_known() {
        let all = chosen(&[], &["*.iso", "*.none"], &["/home", "*.gone"]);
        files(&all);
        let said = all.useless();
        let words =
            ["--exclude '*.none' leaves nothing", "--include '/home' takes nothing", "'*.gone'"];
        assert_eq!(said.len(), words.len(), "{said:?}");
        said.iter().zip(words).for_each(|(said, word)| assert!(said.contains(word), "{said}"));
        let back = chosen(&[], &["*.iso"], &["a.iso"]);
        assert!(files(&back).contains(&"home/ann/a.iso") && back.useless().is_empty());
        let only = chosen(&[], &[], &["*.odt", "*.none"]);
        files(&only);
        assert_eq!(only.useless(), ["--include '*.none' matches nothing that is there"]);
    }

    #[test]
    fn directories_that_lead_to_matches_are_learned() {
        let mut only = chosen(&[], &[], &["*.odt"]);
        assert!(!only.leads(b"home"));
        only.learn(b"home/ann/a.odt");
        assert!(only.leads(b"home/ann") && only.leads(b"home") && !only.leads(b"home/bob"));
    }
}
