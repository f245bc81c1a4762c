//! Which version is advised to whoever misses paths that the newest one lacks: the last one that has them and is whole, as far as is
//! known. One that has them and is not whole is named with what is known of it.

use std::collections::HashMap;

use capstan_format::id::VersionId;
use capstan_idb::{LostData, Version};

use crate::Cell;
use crate::error::Result;
use crate::versions::damaged::{UnsoundVersions, damaged_text, lost_text};
use crate::versions::lacking::{Lacking, Paths, paths_text};

/// Versions that nobody may rely on to restore all that they have, each with why, in a sentence's rest.
#[derive(Default)]
pub(crate) struct NotWhole(HashMap<VersionId, String>);

impl NotWhole {
    pub fn of<'l>(unsound: &UnsoundVersions, lost: impl Iterator<Item = &'l LostData>) -> Self {
        let mut why: HashMap<VersionId, String> =
            lost.map(|of| (of.version, format!("is not whole: {}", lost_text(of)))).collect();
        let cannot = |what: &String| format!("cannot be restored as it is: {what}");
        why.extend(unsound.out_of_use.iter().map(|(id, what)| (*id, cannot(what))));
        why.extend(unsound.damaged.iter().map(|(id, labels)| (*id, damaged_text(labels))));
        Self(why)
    }
}

/// What is advised of paths that a version lacks.
#[derive(Debug, Default, PartialEq, Eq)]
struct Advice {
    /// The last whole versions that have some of them.
    whole: Vec<(VersionId, Paths)>,
    /// Later ones that have some of them and are not whole, where a whole one has these as well.
    also: Vec<(VersionId, Paths)>,
    /// Versions that are not whole and have what no whole one has.
    alone: Vec<(VersionId, Paths)>,
}

impl Advice {
    /// `versions` are those of an object, newest first, from the one that lacks paths on.
    fn of(lacking: &Lacking, versions: &[VersionId], not_whole: &NotWhole) -> Self {
        let is_whole = |id: &VersionId| !not_whole.0.contains_key(id);
        let first = versions.first().copied();
        let whole: Vec<VersionId> =
            versions.iter().copied().filter(|id| Some(*id) == first || is_whole(id)).collect();
        let keepers = |of: &[VersionId]| -> Vec<(VersionId, Paths)> {
            let found = lacking.keepers(of).into_iter();
            found.filter_map(|(index, paths)| Some((*of.get(index)?, paths))).collect()
        };
        let mut advice = Self { whole: keepers(&whole), ..Self::default() };
        for (id, paths) in keepers(versions).into_iter().filter(|(id, _)| !is_whole(id)) {
            let is_had = |path: &String| advice.whole.iter().any(|(_, had)| had.have(path));
            let (had, alone): (Vec<_>, Vec<_>) = paths.into_list().into_iter().partition(is_had);
            let put = |to: &mut Vec<_>, paths: Vec<String>| {
                if !paths.is_empty() {
                    to.push((id, paths.into_iter().collect()));
                }
            };
            put(&mut advice.also, had);
            put(&mut advice.alone, alone);
        }
        advice
    }
}

impl Cell {
    /// What a version lacks, in a sentence's rest; nothing where it lacks nothing.
    pub(crate) fn lacks(&self, version: VersionId) -> Result<Option<String>> {
        let lacking = self.lacking_paths()?;
        let Some(paths) = lacking.of(version) else { return Ok(None) };
        let unsound = self.unsound_versions(&self.unsound_places()?.of_this_host())?;
        let lost = self.idb.lost_versions()?;
        let not_whole = NotWhole::of(&unsound, lost.iter());
        self.lacks_text(version, paths, &lacking, &not_whole).map(Some)
    }

    /// The same of one that lacks these paths.
    pub(crate) fn lacks_text(
        &self,
        version: VersionId,
        paths: &Paths,
        lacking: &Lacking,
        not_whole: &NotWhole,
    ) -> Result<String> {
        let object = self.idb.version(version)?.map(|v| v.object);
        let versions = object.map(|object| self.idb.versions_of(object)).transpose()?;
        let from = versions.unwrap_or_default().into_iter().skip_while(|v| v.id != version);
        let is_complete = |v: &Version| v.is_complete_by(None) && !v.null_device;
        let from: Vec<VersionId> =
            from.filter(|v| v.id == version || is_complete(v)).map(|v| v.id).collect();
        let mut text = format!(
            "it has nothing of {}, or only a part: it was not there, was locked and left out, or could not be read, when the version was made",
            paths_text(paths)
        );
        let advice = Advice::of(lacking, &from, not_whole);
        let is_plain = advice.also.is_empty() && advice.alone.is_empty();
        let last = if is_plain { "last version" } else { "last whole version" };
        let why = |id: &VersionId| not_whole.0.get(id).map(String::as_str).unwrap_or_default();
        for (id, paths) in &advice.whole {
            let name = self.name_of_version(*id)?;
            text.push_str(&format!("; the {last} that has {} is {name}", paths_text(paths)));
        }
        for (id, paths) in &advice.also {
            let name = self.name_of_version(*id)?;
            text.push_str(&format!("; {name} has {}, too, but {}", paths_text(paths), why(id)));
        }
        for (id, paths) in &advice.alone {
            let name = self.name_of_version(*id)?;
            text.push_str(&format!(
                "; no whole version has {}: {name} has it, but {}",
                paths_text(paths),
                why(id)
            ));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(lacks: &[(u8, &[&str])], damaged: &[u8]) -> Advice {
        let id = |n: u8| VersionId([n; 16]);
        let not_whole = NotWhole(damaged.iter().map(|n| (id(*n), String::new())).collect());
        let versions: Vec<VersionId> = (1..6).map(id).collect();
        Advice::of(&Lacking::with(lacks), &versions, &not_whole)
    }

    #[test]
    fn a_version_that_is_not_whole_is_advised_by_nobody() {
        let of = |all: &[(u8, &str)]| -> Vec<(VersionId, Paths)> {
            all.iter()
                .map(|(n, p)| (VersionId([*n; 16]), [(*p).to_owned()].into_iter().collect()))
                .collect()
        };
        let lacks: &[(u8, &[&str])] = &[(1, &["/a"]), (2, &["/a"])];
        assert_eq!(advice(lacks, &[]), Advice { whole: of(&[(3, "/a")]), ..Advice::default() });
        assert_eq!(
            advice(lacks, &[3]),
            Advice { whole: of(&[(4, "/a")]), also: of(&[(3, "/a")]), alone: of(&[]) }
        );
        assert_eq!(
            advice(lacks, &[3, 4, 5]),
            Advice { alone: of(&[(3, "/a")]), ..Advice::default() }
        );
        // What is wrong with the one that lacks it, or with one that lacks it as well, is no matter.
        assert_eq!(advice(lacks, &[1, 2]), Advice { whole: of(&[(3, "/a")]), ..Advice::default() });
        let some: &[(u8, &[&str])] = &[(1, &["/a", "/b"]), (4, &["/b"]), (5, &["/b"])];
        assert_eq!(
            advice(some, &[2, 3]),
            Advice { whole: of(&[(4, "/a")]), also: of(&[(2, "/a")]), alone: of(&[(2, "/b")]) }
        );
    }
}
