//! Until when a version is kept: saying so, and showing it.

use std::collections::{BTreeSet, HashSet};

use capstan_engine::message::Code;
use capstan_format::id::VersionId;
use capstan_idb::{Keeping, Protection, Status, Version};

use crate::Cell;
use crate::error::{CellError, Result, VersionRefusal};
use crate::request::{Keep, VersionName};
use crate::session::local;
use crate::session::{SessionLog, now_us, writes_versions};

/// How a version is named: by its object, or by a session alone, as where the object's name stays encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionRef {
    /// By object, and session if it is not the newest complete one.
    Name(VersionName),
    /// By the begin of a session's id.
    Session(String),
}

impl Cell {
    /// The version that is meant, and how people call it.
    pub(crate) fn version_of(&self, of: &VersionRef) -> Result<(Version, String)> {
        let prefix = match of {
            VersionRef::Name(name) => {
                let version = self.version(name)?;
                let called = self.called(&version)?;
                return Ok((version, called));
            }
            VersionRef::Session(prefix) => prefix,
        };
        let session = self.session_row(prefix)?;
        let version = session.version.filter(|_| writes_versions(&session.kind));
        let version = version.map(|id| self.idb.version(id)).transpose()?.flatten();
        let version =
            version.ok_or_else(|| VersionRefusal::NoVersion { session: session.id.short() })?;
        let called = self.called(&version)?;
        if self.idb.keeping(version.id)?.expired_us.is_some() {
            return Err(VersionRefusal::Expired { version: called }.into());
        }
        Ok((version, called))
    }

    /// `NAME@SESSION`.
    pub(crate) fn called(&self, version: &Version) -> Result<String> {
        let name = self.idb.object(version.object)?.map(|o| o.name).unwrap_or_default();
        let sessions = self.idb.sessions_of_version(version.id)?;
        let session = sessions.iter().rfind(|s| writes_versions(&s.kind)).map(|s| s.id.short());
        Ok(format!("{name}@{}", session.unwrap_or_else(|| version.id.short())))
    }

    /// Sets until when a version and its catalog are kept, as far as given. Returns how people call it, and how it is
    /// kept now.
    pub fn protect(
        &self,
        of: &VersionRef,
        protection: Option<Protection>,
        catalog: Option<Protection>,
    ) -> Result<(String, Keeping)> {
        for until in [protection, catalog].into_iter().flatten() {
            not_past(until)?;
        }
        let (version, called) = self.version_of(of)?;
        if version.null_device {
            return Err(VersionRefusal::OnNullDevice { version: called }.into());
        }
        self.idb.set_protection(version.id, protection, catalog)?;
        Ok((called, self.idb.keeping(version.id)?))
    }

    /// The same for each version that has something on a medium and was not given up, by name and time.
    pub fn protect_medium(
        &self,
        medium: &str,
        protection: Option<Protection>,
        catalog: Option<Protection>,
    ) -> Result<Vec<(String, Keeping)>> {
        for until in [protection, catalog].into_iter().flatten() {
            not_past(until)?;
        }
        let medium = self.find_medium(medium)?;
        let mut versions = Vec::new();
        for id in self.idb.versions_on_medium(medium.id)? {
            let version = self.idb.version(id)?;
            if let Some(version) = version
                && self.idb.keeping(id)?.expired_us.is_none()
            {
                versions.push((self.called(&version)?, version));
            }
        }
        self.protect_all(versions, protection, catalog)
    }

    /// The same for each version of the objects of a name that is not whole, as far as is known, and was not given up; also one whose
    /// backup did not complete.
    pub fn protect_not_whole(
        &self,
        name: &str,
        protection: Option<Protection>,
        catalog: Option<Protection>,
    ) -> Result<Vec<(String, Keeping)>> {
        for until in [protection, catalog].into_iter().flatten() {
            not_past(until)?;
        }
        let lost: HashSet<VersionId> =
            self.idb.lost_versions()?.iter().map(|of| of.version).collect();
        let unsound = self.unsound_versions(&self.unsound_places()?.of_this_host())?;
        let is_whole = |v: &Version| {
            !lost.contains(&v.id)
                && !unsound.damaged.contains_key(&v.id)
                && !matches!(v.status, Status::Incomplete | Status::Failed)
        };
        let mut versions = Vec::new();
        for object in self.objects_named(&[name.to_owned()], &[])? {
            for version in self.idb.versions_of(object.id)? {
                if !version.null_device
                    && !is_whole(&version)
                    && self.idb.keeping(version.id)?.expired_us.is_none()
                {
                    versions.push((self.called(&version)?, version));
                }
            }
        }
        self.protect_all(versions, protection, catalog)
    }

    fn protect_all(
        &self,
        mut versions: Vec<(String, Version)>,
        protection: Option<Protection>,
        catalog: Option<Protection>,
    ) -> Result<Vec<(String, Keeping)>> {
        self.sort_by_commit(&mut versions, |(_, version)| version)?;
        versions.sort_by_key(|(_, version)| version.object);
        let mut kept = Vec::new();
        for (called, version) in versions {
            self.idb.set_protection(version.id, protection, catalog)?;
            kept.push((called, self.idb.keeping(version.id)?));
        }
        Ok(kept)
    }

    /// Whether one of these versions was given up.
    pub(crate) fn has_expired(&self, versions: &BTreeSet<[u8; 16]>) -> Result<bool> {
        for id in versions {
            if self.idb.keeping(VersionId(*id))?.expired_us.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Records what a backup was told of its version. Returns what its medium is to record.
    pub(crate) fn keep_new(&self, version: VersionId, keep: &Keep) -> Result<Protection> {
        if keep.protection.is_some() || keep.catalog.is_some() {
            self.idb.set_protection(version, keep.protection, keep.catalog)?;
        }
        Ok(self.idb.keeping(version)?.protection)
    }
}

impl Keep {
    /// Refuses what cannot be meant: before anything is written.
    pub(crate) fn check(&self, null: bool) -> Result<()> {
        for until in [self.protection, self.catalog].into_iter().flatten() {
            not_past(until)?;
        }
        if let Some(until) = self.lock_until_us {
            not_past(Protection::UntilUs(until))?;
            if null {
                return Err(VersionRefusal::NothingToLock.into());
            }
        }
        Ok(())
    }
}

/// Says that a lock that was asked for is not there, which is an error of the session.
pub(crate) fn say_not_locked(log: &SessionLog<'_>, name: &str, e: &CellError) {
    let text = format!("the version is complete but not locked: {}", crate::error::chain(e));
    log.say(Code::NotLocked, "cell", name, text);
}

pub(crate) fn not_past(protection: Protection) -> Result<()> {
    match protection {
        Protection::UntilUs(until) if until <= now_us() => {
            Err(VersionRefusal::ProtectionInThePast { until: local(until) }.into())
        }
        _ => Ok(()),
    }
}
