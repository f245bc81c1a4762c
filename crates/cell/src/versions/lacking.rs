//! Paths that a version was to have and lacks: they were not there when it was made, were locked and left out, or could not be listed,
//! opened or read, and what it builds on does not have them either. Such a version is complete, but for each of these paths the last one before it that
//! has it has its last state, and must not go for its sake.

use std::collections::{BTreeSet, HashMap, HashSet};

use capstan_engine::message::Code;
use capstan_format::id::VersionId;
use capstan_idb::{Session, Status, Version};
use serde::Deserialize;

use crate::Cell;
use crate::error::Result;
use crate::session::{ERRORS_LISTED, SessionLog};

/// What a backup says of a path that it did not find, could not list or open, or left out as it was locked: of it a version has what
/// its base has.
const NOT_REACHED: [Code; 7] = [
    Code::PathMissing,
    Code::PathBecameLink,
    Code::InputEmpty,
    Code::NotMounted,
    Code::NotListed,
    Code::NotOpened,
    Code::LockedLeftOut,
];
/// What it says of a file of which it has a part only.
const CUT: [Code; 1] = [Code::Unreadable];
/// Paths that are recorded of one version; it lacks what cannot be named where there are more.
pub(crate) const RECORDED: usize = 10_000;
/// Paths that are named in a sentence.
const NAMED: usize = 5;

/// Paths, as messages write them. An empty one stands for such that nobody can name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Paths(BTreeSet<String>);

impl Paths {
    /// Those that nobody can name.
    pub fn unnamed() -> Self {
        Self([String::new()].into())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn into_list(self) -> Vec<String> {
        self.0.into_iter().collect()
    }

    /// Whether it, or what it lies in, is among them.
    pub fn have(&self, path: &str) -> bool {
        let within = path.match_indices('/').map(|(at, _)| &path[..at.max(1)]);
        self.0.contains(path) || within.into_iter().any(|dir| self.0.contains(dir))
    }

    /// Those that lie in a directory.
    fn below<'p>(&'p self, dir: &'p str) -> impl Iterator<Item = &'p String> {
        let prefix = format!("{}/", dir.trim_end_matches('/'));
        let all = self.0.range(prefix.clone()..).take_while(move |path| path.starts_with(&prefix));
        all.filter(move |path| !dir.is_empty() && path.as_str() != dir)
    }

    /// As they are recorded: not too many.
    fn limited(mut self) -> Self {
        if self.0.len() > RECORDED {
            self.0 = self.0.into_iter().take(RECORDED).collect();
            self.0.insert(String::new());
        }
        self
    }
}

impl FromIterator<String> for Paths {
    fn from_iter<I: IntoIterator<Item = String>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

/// What a backup says that it did not find or could not read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Paths of which the version has what its base has.
    not_reached: Paths,
    /// Files of which it has a part.
    cut: Paths,
}

impl Said {
    /// By the codes and paths of its errors, of which so many are listed at most.
    pub fn of<'e>(errors: impl Iterator<Item = (&'e str, &'e str)>, listed: usize) -> Self {
        let (mut said, mut count) = (Self::default(), 0);
        for (code, path) in errors {
            count += 1;
            let is_of = |codes: &[Code]| codes.iter().any(|c| c.name() == code);
            if is_of(&NOT_REACHED) {
                said.not_reached.0.insert(path.to_owned());
            } else if is_of(&CUT) {
                said.cut.0.insert(path.to_owned());
            }
        }
        if count >= listed {
            said.cut.0.insert(String::new());
        }
        said
    }

    /// What a session said so far.
    pub fn so_far(log: &SessionLog<'_>) -> Self {
        Self::of(log.errors().1.iter().map(|e| (e.code, e.path.as_str())), ERRORS_LISTED)
    }

    /// The same where it is known of which files the version has a part: of the others that cannot be read it has what its base has.
    pub fn but_cut(mut self, cut: Vec<String>) -> Self {
        let unreadable = std::mem::replace(&mut self.cut, cut.into_iter().collect());
        self.not_reached.0.extend(unreadable.0);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.not_reached.is_empty() && self.cut.is_empty()
    }

    /// What a version lacks that said so, and builds on one that lacks that. `None` of a base of which nothing is known, and where
    /// there is none. What nobody can name of the base is lacking still: that it was found now nobody can say.
    pub fn lacking(self, base: Option<&Paths>) -> Paths {
        let said = self.not_reached.0;
        let is_open = base.is_some_and(|base| base.0.contains(""));
        let mut lacks = match base {
            _ if is_open => said.into_iter().chain([String::new()]).collect(),
            None => said,
            Some(base) => {
                let above = said.iter().flat_map(|path| base.below(path)).cloned();
                let mut lacks: BTreeSet<String> = above.collect();
                lacks.extend(said.into_iter().filter(|path| base.have(path)));
                lacks
            }
        };
        lacks.extend(self.cut.0);
        Paths(lacks).limited()
    }
}

/// What versions lack.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lacking {
    of: HashMap<VersionId, Paths>,
    /// Versions of which it is not known.
    unknown: HashSet<VersionId>,
}

impl Lacking {
    /// What a version lacks, if anything.
    pub fn of(&self, version: VersionId) -> Option<&Paths> {
        self.of.get(&version).filter(|paths| !paths.is_empty())
    }

    /// Of versions, newest first, those that have what the first one lacks and none between has, each with these paths.
    pub fn keepers(&self, versions: &[VersionId]) -> Vec<(usize, Paths)> {
        let none = Paths::default();
        let lacks = |version| self.of(version).unwrap_or(&none);
        let mut wanted = versions.first().map(|first| lacks(*first).clone()).unwrap_or_default();
        let (mut keepers, mut may_have) = (Vec::new(), None);
        for (index, version) in versions.iter().enumerate().skip(1) {
            if wanted.is_empty() {
                break;
            }
            let lacks = lacks(*version);
            // Of one that lacks what nobody can name it is not known what it has.
            let is_open = lacks.0.contains("");
            let is_had = |path: &String| !is_open && !lacks.have(path);
            if is_open && may_have.is_none() && wanted.0.iter().any(|path| !lacks.have(path)) {
                may_have = Some(index);
            }
            let (had, mut left): (BTreeSet<_>, BTreeSet<_>) =
                wanted.0.into_iter().partition(is_had);
            // What it lacks of a directory that it has an older one may have.
            left.extend(had.iter().flat_map(|dir| lacks.below(dir)).cloned());
            wanted = Paths(left);
            if !had.is_empty() {
                keepers.push((index, Paths(had)));
            }
        }
        if let Some(index) = may_have.filter(|_| !wanted.is_empty()) {
            keepers.push((index, wanted));
        }
        keepers
    }
}

/// Paths, in a sentence.
pub(crate) fn paths_text(paths: &Paths) -> String {
    let named: Vec<&str> =
        paths.0.iter().filter(|p| !p.is_empty()).take(NAMED).map(String::as_str).collect();
    match (named.len(), paths.0.len() - named.len()) {
        (0, _) => "what is not on record by name".to_owned(),
        (_, 0) => named.join(", "),
        (_, _) if paths.0.contains("") => format!("{} and more", named.join(", ")),
        (_, more) => format!("{} and {more} more", named.join(", ")),
    }
}

impl Cell {
    /// What the versions lack that are on record.
    pub(crate) fn lacking_paths(&self) -> Result<Lacking> {
        let recorded = self.idb.lacks()?.into_iter();
        let of = recorded.map(|(version, paths)| (version, paths.into_iter().collect()));
        let mut lacking = Lacking { of: of.collect(), unknown: HashSet::new() };
        // Earlier programs recorded it in their reports only.
        for version in self.idb.versions_without_lacks()? {
            self.derive_lacks(version, &mut lacking)?;
        }
        Ok(lacking)
    }

    /// Finds out what a version lacks of which that is not recorded, and those that it builds on.
    fn derive_lacks(&self, version: Version, lacking: &mut Lacking) -> Result<()> {
        let mut way = vec![version];
        // Up to one of which it is known, or that is not on record, or where the chain is a circle.
        while let Some(at) = way.last() {
            let next = if at.status == Status::Completed { None } else { at.base };
            let Some(next) = at.stands_for.or(next) else { break };
            if lacking.of.contains_key(&next) || way.iter().any(|v| v.id == next) {
                break;
            }
            match self.idb.version(next)? {
                None => break,
                Some(next) => way.push(next),
            }
        }
        for version in
            way.into_iter().rev().filter(|v| !lacking.of.contains_key(&v.id)).collect::<Vec<_>>()
        {
            let known =
                |id: &VersionId| lacking.of.get(id).filter(|_| !lacking.unknown.contains(id));
            let lacks = match version.stands_for {
                Some(of) => known(&of).cloned(),
                None if version.status == Status::Completed => Some(Paths::default()),
                None => {
                    let said = match self.writer_of(version.id)?.and_then(|s| said_of(&s)) {
                        Some(said) => said,
                        None => Said { not_reached: Paths::unnamed(), ..Said::default() },
                    };
                    Some(said.lacking(version.base.as_ref().and_then(known)))
                }
            };
            if lacks.is_none() {
                lacking.unknown.insert(version.id);
            }
            lacking.of.insert(version.id, lacks.unwrap_or_default());
        }
        Ok(())
    }

    /// What a new version lacks that says so, and builds on that one.
    pub(crate) fn lacks_of_new(&self, said: Said, base: Option<VersionId>) -> Result<Paths> {
        let lacking = match base {
            Some(_) => self.lacking_paths()?,
            None => return Ok(said.lacking(None)),
        };
        let nothing = Paths::default();
        let of_base = base.filter(|base| !lacking.unknown.contains(base));
        let of_base = of_base.map(|base| lacking.of.get(&base).unwrap_or(&nothing));
        Ok(said.lacking(of_base))
    }

    /// Records what a version lacks as what the one does whose state it has.
    pub(crate) fn take_over_lacks(&self, from: VersionId, to: VersionId) -> Result<()> {
        let lacks = self.lacking_paths()?.of(from).cloned().unwrap_or_default();
        Ok(self.idb.set_lacks(to, &lacks.into_list())?)
    }
}

/// The paths that a backup did not find or could not read, by its report. Nothing where there is no report.
pub(crate) fn said_of(session: &Session) -> Option<Said> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct OfReport {
        errors: Vec<OfError>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct OfError {
        path: String,
        code: String,
    }
    let report: OfReport = serde_json::from_str(session.report.as_deref()?).ok()?;
    let errors = report.errors.iter().map(|e| (e.code.as_str(), e.path.as_str()));
    Some(Said::of(errors, ERRORS_LISTED))
}

impl Said {
    /// All of them.
    pub fn all(self) -> Paths {
        Paths(self.not_reached.0.into_iter().chain(self.cut.0).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(all: &[&str]) -> Paths {
        all.iter().map(|path| (*path).to_owned()).collect()
    }

    impl Lacking {
        /// Of versions by their numbers.
        pub(crate) fn with(all: &[(u8, &[&str])]) -> Self {
            let of = all.iter().map(|(n, lacks)| (VersionId([*n; 16]), paths(lacks)));
            Self { of: of.collect(), unknown: HashSet::new() }
        }
    }

    fn said(not_reached: &[&str], cut: &[&str]) -> Said {
        Said { not_reached: paths(not_reached), cut: paths(cut) }
    }

    #[test]
    fn what_the_base_has_is_not_lacking() {
        let missing = || said(&["/b", "/c/x"], &[]);
        assert_eq!(missing().lacking(None), paths(&["/b", "/c/x"]), "a full has nothing of it");
        assert_eq!(missing().lacking(Some(&paths(&[]))), paths(&[]));
        assert_eq!(missing().lacking(Some(&paths(&["/d", "/bc"]))), paths(&[]), "it found these");
        assert_eq!(missing().lacking(Some(&paths(&["/b/f", "/c"]))), paths(&["/b/f", "/c/x"]));
        assert_eq!(said(&["/"], &[]).lacking(Some(&paths(&["/b/f"]))), paths(&["/b/f"]));
        let open = Paths::unnamed();
        assert_eq!(missing().lacking(Some(&open)), paths(&["", "/b", "/c/x"]));
        assert_eq!(said(&[], &[]).lacking(Some(&open)), open, "nobody knows whether it was found");
        let cut = said(&[], &["/b/f"]);
        assert_eq!(cut.lacking(Some(&paths(&[]))), paths(&["/b/f"]), "it has a part of it");
    }

    #[test]
    fn a_list_that_is_not_all_lacks_what_it_does_not_name() {
        let errors = [("path-missing", "/b"), ("changed", "/c")];
        assert_eq!(Said::of(errors.into_iter(), 3).all(), paths(&["/b"]));
        assert_eq!(Said::of(errors.into_iter(), 2).all(), paths(&["", "/b"]));
        let many: Paths = (0..=RECORDED).map(|n| n.to_string()).collect();
        assert!(many.limited().0.contains(""));
    }

    #[test]
    fn each_path_has_its_last_state_somewhere() {
        let ids: Vec<VersionId> = (1..6).map(|n| VersionId([n; 16])).collect();
        let keepers = |all: &[(u8, &[&str])]| {
            let of = Lacking::with(all).keepers(&ids).into_iter();
            of.map(|(i, paths)| (i, paths.into_list().join(" "))).collect::<Vec<_>>()
        };
        let of = |all: &[(usize, &str)]| -> Vec<(usize, String)> {
            all.iter().map(|(i, text)| (*i, (*text).to_owned())).collect()
        };
        assert_eq!(keepers(&[(2, &["/a"])]), of(&[]));
        assert_eq!(keepers(&[(1, &["/a"]), (2, &["/b"])]), of(&[(1, "/a")]));
        assert_eq!(keepers(&[(1, &["/a", "/b"]), (2, &["/b"])]), of(&[(1, "/a"), (2, "/b")]));
        // What one that has the directory lacks of it an older one has.
        let below: &[(u8, &[&str])] = &[(1, &["/a"]), (2, &["/a/f", "/ab"]), (3, &["/a"])];
        assert_eq!(keepers(below), of(&[(1, "/a"), (3, "/a/f")]));
        assert_eq!(keepers(&[(1, &["/a/f"]), (2, &["/a"])]), of(&[(2, "/a/f")]));
        // Of what nobody can name it is only known who lacks it.
        assert_eq!(keepers(&[(1, &[""]), (2, &[""])]), of(&[(2, "")]));
        assert_eq!(keepers(&[(1, &["/a"]), (2, &[""])]), of(&[(2, "/a")]));
        let all_open: &[(u8, &[&str])] =
            &[(1, &["/a"]), (2, &["/a"]), (3, &[""]), (4, &["", "/a"]), (5, &[""])];
        assert_eq!(keepers(all_open), of(&[(2, "/a")]));
    }
}
