//! What a prune is asked for, and what it did: values.

use crate::versions::away_media::AwayMedium;
use crate::versions::leap::Leap;
use capstan_address::HostName;

use super::decide::Action;
use super::rules::KeepRules;

/// A prune.
#[derive(Debug, Clone, Default)]
pub struct PruneRequest {
    /// Names of objects; all, if none is given.
    pub names: Vec<String>,
    /// Only objects of this host; if none is given, of this one where objects are given up, else of all.
    pub host: Option<HostName>,
    /// Which of their versions are kept.
    pub rules: KeepRules,
    /// Whether all of the objects that are named goes, but what is protected, locked or read; without rules.
    pub give_up: bool,
    /// Whether only what consolidations left that did not end goes, whatever rules say.
    pub leftovers: bool,
    /// Backups that were begun before and did not complete go though they could be resumed, where a version of the object is whole:
    /// their room is wanted. Microseconds since 1970.
    pub unended_before_us: Option<i64>,
    /// The backups of a run that goes before have said what clocks say that cannot be.
    pub clocks_said: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// A version, and what became of it.
#[derive(Debug, Clone)]
pub struct PrunedVersion {
    /// The object's name.
    pub name: String,
    /// The host it is of.
    pub host: HostName,
    /// The session that wrote it, or the version's own id where none did.
    pub session: String,
    /// When it was begun, in microseconds since 1970.
    pub started_us: i64,
    /// Its method.
    pub method: String,
    /// What became of it.
    pub action: Action,
    /// Why.
    pub why: Vec<String>,
    /// Bytes of its segments on all media.
    pub bytes: u64,
}

/// Segments that stay for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The medium's label.
    pub medium: String,
    /// How many.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Why.
    pub why: String,
    /// Whether the medium failed, rather than not being at hand.
    pub failed: bool,
}

/// What a prune did, or would do.
#[derive(Debug, Clone, Default)]
pub struct Pruned {
    /// Whether it only says so.
    pub dry_run: bool,
    /// The versions that were asked for, and others that go: by object, newest first.
    pub versions: Vec<PrunedVersion>,
    /// Versions that went with all that is known of them.
    pub removed_versions: u64,
    /// Segments that were removed from media.
    pub removed_segments: u64,
    /// Bytes that this gave back.
    pub freed_bytes: u64,
    /// Catalog files that were removed from the internal database while their versions stay.
    pub removed_catalogs: u64,
    /// Catalog files that were written anew in fewer bytes.
    pub packed_catalogs: u64,
    /// Bytes that this gave back.
    pub packed_bytes: u64,
    /// Segments that stay for now.
    pub pending: Vec<Pending>,
    /// Bases of living versions that were given up and became fulls of their own, as most of their chain was dead.
    pub consolidated: Vec<ConsolidatedBase>,
    /// What clocks say of versions that cannot be: which are newer was decided without them.
    pub wrong_clocks: Vec<String>,
    /// A leap of the clock for the sake of which nothing ended by time.
    pub leap: Option<Leap>,
    /// Errors that were said.
    pub errors: u64,
    /// Media that are away though nobody took them away: of the objects named there nothing went.
    pub away: Vec<AwayMedium>,
    /// Those that should have been, and were not.
    pub unconsolidated: Vec<UnconsolidatedBase>,
    /// Backups that did not complete and stay on full disks, so that they can be resumed.
    pub unended: Vec<UnendedBackup>,
}

/// A backup that did not complete and stays on a full disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnendedBackup {
    /// The object's name.
    pub name: String,
    /// Its session.
    pub session: String,
    /// The label of the medium.
    pub medium: String,
    /// Bytes of its segments there.
    pub bytes: u64,
}

impl Pruned {
    /// With what a further prune did, of the same objects.
    pub fn and(self, next: Self) -> Self {
        let mut versions = self.versions;
        for v in next.versions {
            match versions.iter_mut().find(|known| known.session == v.session) {
                Some(known) => *known = v,
                None => versions.push(v),
            }
        }
        Self {
            versions,
            removed_versions: self.removed_versions + next.removed_versions,
            removed_segments: self.removed_segments + next.removed_segments,
            freed_bytes: self.freed_bytes + next.freed_bytes,
            removed_catalogs: self.removed_catalogs + next.removed_catalogs,
            packed_catalogs: self.packed_catalogs + next.packed_catalogs,
            packed_bytes: self.packed_bytes + next.packed_bytes,
            consolidated: [self.consolidated, next.consolidated].concat(),
            errors: self.errors.max(next.errors),
            away: if next.away.is_empty() { self.away } else { next.away },
            unconsolidated: [self.unconsolidated, next.unconsolidated].concat(),
            ..next
        }
    }

    /// How many versions an action was taken on.
    pub fn count(&self, action: Action) -> u64 {
        self.versions.iter().filter(|v| v.action == action).count() as u64
    }
}

/// A base that became a full of its own, or would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsolidatedBase {
    /// The object's name.
    pub name: String,
    /// The session that wrote the base.
    pub session: String,
    /// How much of it and what it builds on nobody needs, in percent of their data.
    pub dead_percent: u64,
    /// The session that consolidated it; none where that is still to come, or was done before.
    pub by: Option<String>,
    /// Bytes that the full takes on its medium: what was written, or about what will be.
    pub takes_bytes: u64,
}

/// A base that should have become a full of its own, and did not: all that it builds on stays, and is not marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnconsolidatedBase {
    /// The object's name.
    pub name: String,
    /// The host it is of.
    pub host: HostName,
    /// The session that wrote the base.
    pub session: String,
    /// Why, and what to do.
    pub why: String,
    /// Bytes that lack on its medium, where it is for want of room.
    pub lacks_bytes: Option<u64>,
}
