//! Versions that lack a path which they were to have: it was not there when they were made, or could not be listed, and what they
//! build on does not have it either. They are complete, but the last one before them that has all its paths is the last state of what is missing, so that it
//! must not go for their sake.

use std::collections::{HashMap, HashSet};

use capstan_engine::message::Code;
use capstan_format::id::VersionId;
use capstan_idb::{Session, Version};
use serde::Deserialize;

use crate::Cell;
use crate::error::Result;

/// What a backup says of a path of which it has nothing.
const SAID: [Code; 2] = [Code::PathMissing, Code::NotListed];

impl Cell {
    /// The versions that lack a path, of all that are on record.
    pub(crate) fn lacking_versions(&self) -> Result<HashSet<VersionId>> {
        let mut said = HashSet::new();
        for code in SAID {
            for version in self.idb.versions_with_error(code.name())? {
                // What an earlier run of it did not find, the last one may have found.
                if self.writer_of(version)?.is_some_and(|s| !missing_paths(&s).is_empty()) {
                    said.insert(version);
                }
            }
        }
        if said.is_empty() {
            return Ok(said);
        }
        let rows = self.idb.prune_rows()?;
        let known: HashMap<VersionId, &Version> =
            rows.iter().map(|row| (row.version.id, &row.version)).collect();
        Ok(lacking(&said, &known))
    }

    /// What a version lacks, in a sentence's rest; nothing where it lacks nothing.
    pub(crate) fn lacks(&self, version: VersionId) -> Result<Option<String>> {
        let lacking = self.lacking_versions()?;
        let is_lacking = lacking.contains(&version);
        is_lacking.then(|| self.lacks_text(version, &lacking)).transpose()
    }

    /// The same of one of those that lack something.
    pub(crate) fn lacks_text(
        &self,
        version: VersionId,
        lacking: &HashSet<VersionId>,
    ) -> Result<String> {
        let paths = self.writer_of(version)?.map(|s| missing_paths(&s)).unwrap_or_default();
        let object = self.idb.version(version)?.map(|v| v.object);
        let versions = object.map(|object| self.idb.versions_of(object)).transpose()?;
        let has_all = |v: &&Version| {
            crate::restore::is_complete_by(v, None) && !v.null_device && !lacking.contains(&v.id)
        };
        let last = versions.unwrap_or_default().iter().find(has_all).map(|v| v.id);
        let last = last.map(|id| self.name_of_version(id)).transpose()?;
        let and = last.map(|name| format!("; the last version that has all its paths is {name}"));
        Ok(format!(
            "it has nothing of {}, which was not there, or could not be listed, when it was made{}",
            paths.join(", "),
            and.unwrap_or_default()
        ))
    }
}

/// The paths that a backup did not find, by its report; the first of them.
pub(crate) fn missing_paths(session: &Session) -> Vec<String> {
    /// Paths that are named.
    const NAMED: usize = 5;
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
    let report = session.report.as_deref().map(serde_json::from_str::<OfReport>);
    let errors = report.and_then(std::result::Result::ok).unwrap_or_default().errors;
    let is_missing = |e: &OfError| SAID.iter().any(|code| e.code == code.name());
    errors.into_iter().filter(is_missing).map(|e| e.path).take(NAMED).collect()
}

/// Those versions that did not find a path and have nothing of it from what they build on.
fn lacking(said: &HashSet<VersionId>, known: &HashMap<VersionId, &Version>) -> HashSet<VersionId> {
    let lacks = |version: &Version| {
        let (mut at, mut seen) = (version, HashSet::new());
        loop {
            // A synthetic full found and lacks what the version does whose state it has.
            let of = if said.contains(&at.id) { at.base } else { at.stands_for };
            let is_link = said.contains(&at.id) || at.stands_for.is_some();
            if !is_link || !seen.insert(at.id) {
                return false;
            }
            match of {
                None => return true,
                Some(id) => match known.get(&id) {
                    Some(next) => at = next,
                    // What is not on record cannot be asked.
                    None => return false,
                },
            }
        }
    };
    known.values().filter(|version| lacks(version)).map(|version| version.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_format::id::ObjectId;
    use capstan_idb::Status;

    fn version(n: u8, base: Option<u8>) -> Version {
        Version {
            id: VersionId([n; 16]),
            object: ObjectId([1; 16]),
            status: Status::CompletedWithErrors,
            method: "full".to_owned(),
            base: base.map(|n| VersionId([n; 16])),
            key: None,
            null_device: false,
            created_us: n.into(),
            stands_for: None,
        }
    }

    #[test]
    fn what_the_base_has_is_not_lacking() {
        let mut all = vec![
            version(1, None),
            // It did not find a path that its base has.
            version(2, Some(1)),
            // A full that did not, what builds on it and did not either, and one that found it again.
            version(3, None),
            version(4, Some(3)),
            version(5, Some(4)),
            version(6, Some(4)),
        ];
        let mut synthetic = version(7, None);
        synthetic.stands_for = Some(VersionId([6; 16]));
        all.push(synthetic.clone());
        synthetic.id = VersionId([8; 16]);
        synthetic.stands_for = Some(VersionId([5; 16]));
        all.push(synthetic);
        let known = all.iter().map(|v| (v.id, v)).collect();
        let said = [2, 3, 4, 6].map(|n| VersionId([n; 16])).into();
        let mut found: Vec<u8> = lacking(&said, &known).iter().map(|v| v.0[0]).collect();
        found.sort_unstable();
        assert_eq!(found, [3, 4, 6, 7]);
    }
}
