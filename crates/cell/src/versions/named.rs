//! Which version a name means.

use std::collections::BTreeSet;

use capstan_idb::Version;

use crate::Cell;
use crate::error::{CellError, KnownObjects, Result, VersionRefusal};
use crate::request::VersionName;
use crate::session::rfc3339;
use crate::versions::clock;

impl Cell {
    /// The version that a name means, of this host's object of that name first. Versions on the null device are never offered.
    pub(crate) fn version(&self, name: &VersionName) -> Result<Version> {
        let objects = self.idb.objects_by_name(&name.name)?;
        // An object may be called what looks like a name with a session: its own name wins.
        if let Some(session) = &name.session
            && let whole = format!("{}@{session}", name.name)
            && !self.idb.objects_by_name(&whole)?.is_empty()
        {
            let as_of_us = name.as_of_us;
            return self.version(&VersionName { name: whole, session: None, as_of_us });
        }
        if objects.is_empty() {
            return Err(self.no_object(&name.name)?);
        }
        let mut found: Vec<Version> = Vec::new();
        for object in &objects {
            found.extend(self.idb.versions_of(object.id)?.into_iter().filter(|v| !v.null_device));
        }
        if objects.len() > 1 {
            self.sort_by_commit(&mut found, |v| v)?;
            found.reverse();
        }
        if let Some(prefix) = &name.session {
            return self.version_by_session(name, prefix, found);
        }
        let here: Vec<_> = objects.iter().filter(|o| o.host == self.host()).map(|o| o.id).collect();
        let own: Vec<_> = found.iter().filter(|v| here.contains(&v.object)).cloned().collect();
        let newest = |of: &[Version]| match name.as_of_us {
            Some(at) => clock::newest_by(of, at).cloned(),
            None => of.iter().find(|v| v.is_complete_by(None)).cloned(),
        };
        // One that is not whole is taken where nothing else is there, and another host's where this one has none.
        for of in [&own, &found] {
            if let Some(wanted) = newest(&self.whole_of(of)?).or_else(|| newest(of)) {
                return Ok(wanted);
            }
        }
        Err(no_complete_version(&name.name, &found))
    }

    /// The error for a name that no object has.
    fn no_object(&self, name: &str) -> Result<CellError> {
        if let Some((object, session)) = name.rsplit_once('@')
            && !self.idb.objects_by_name(object)?.is_empty()
        {
            return Ok(VersionRefusal::NoSessionId {
                object: object.to_owned(),
                session: session.to_owned(),
            }
            .into());
        }
        let all = self.idb.objects()?;
        let mut names: Vec<_> = all.iter().map(|o| &*o.name).filter(|n| !n.is_empty()).collect();
        names.sort_unstable();
        names.dedup();
        let known = match names.len() {
            0 if !all.is_empty() => KnownObjects::Encrypted,
            0 => KnownObjects::None,
            _ => KnownObjects::Some(names.into_iter().take(10).map(str::to_owned).collect()),
        };
        Ok(VersionRefusal::UnknownObject { name: name.to_owned(), known }.into())
    }

    /// The one of these versions that a session wrote whose id begins so.
    fn version_by_session(
        &self,
        name: &VersionName,
        prefix: &str,
        found: Vec<Version>,
    ) -> Result<Version> {
        let sessions = self.idb.sessions_by_prefix(prefix)?;
        let of: BTreeSet<_> = sessions.iter().filter_map(|s| s.version).map(|v| v.0).collect();
        let mut matching = found.into_iter().filter(|v| of.contains(&v.id.0));
        let name = &name.name;
        match (matching.next(), matching.next()) {
            (Some(v), None) => self.with_something(v, prefix, name),
            (Some(_), Some(_)) => Err(VersionRefusal::PrefixAmbiguous {
                name: name.clone(),
                prefix: prefix.to_owned(),
            }
            .into()),
            (None, _) if self.has_expired(&of)? => Err(VersionRefusal::SessionExpired {
                name: name.clone(),
                prefix: prefix.to_owned(),
            }
            .into()),
            _ => Err(VersionRefusal::UnknownSession {
                name: name.clone(),
                prefix: prefix.to_owned(),
            }
            .into()),
        }
    }

    /// Refuses a version of a session that ended before it committed anything.
    fn with_something(&self, version: Version, prefix: &str, name: &str) -> Result<Version> {
        if version.is_complete_by(None) || self.idb.has_segments(version.id)? {
            return Ok(version);
        }
        Err(VersionRefusal::NothingCommitted { name: name.to_owned(), prefix: prefix.to_owned() }
            .into())
    }
}

/// The error for an object of which no version is complete, or none of the time that is asked for.
fn no_complete_version(name: &str, found: &[Version]) -> CellError {
    let name = name.to_owned();
    match found.iter().rfind(|v| v.is_complete_by(None)) {
        Some(first) => {
            VersionRefusal::NoneOfThatTime { name, first: rfc3339(first.created_us) }.into()
        }
        None => VersionRefusal::NoneComplete { name }.into(),
    }
}
