//! Locking a version until a date: it, all it builds on, and their segments. The medium records it, so that the lock
//! outlives the internal database.

use std::collections::{BTreeMap, BTreeSet};

use capstan_devices::held::HeldMedium;
use capstan_format::id::{MediumId, SegmentNumber, VersionId};
use capstan_format::lock::VersionLock;
use capstan_idb::{Protection, Status, Version};

use crate::Cell;
use crate::error::{CellError, Result};
use crate::protect::{VersionRef, local, not_past};
use crate::session::now_us;
use crate::version::chain;

/// What was locked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Locked {
    /// The version, as people write it.
    pub name: String,
    /// Until when, in microseconds since 1970.
    pub until_us: i64,
    /// Versions: this one, and those it builds on.
    pub versions: u64,
    /// Their segments.
    pub segments: u64,
    /// Labels of the media that record it.
    pub media: Vec<String>,
    /// Labels of media that have copies and are not at hand: they do not record it.
    pub elsewhere: Vec<String>,
}

/// Segments by medium, and there by version.
type Places = BTreeMap<MediumId, BTreeMap<VersionId, Vec<SegmentNumber>>>;

impl Cell {
    /// Locks a version. A lock is prolonged, never shortened or lifted.
    pub fn lock(&self, of: &VersionRef, until_us: i64) -> Result<Locked> {
        not_past(Protection::UntilUs(until_us))?;
        let (version, name) = self.version_of(of)?;
        let keeping = self.idb.keeping(version.id)?;
        if let Some(known) = keeping.lock_at(now_us()).filter(|known| *known > until_us) {
            return Err(CellError::BadInput(format!(
                "{name} is locked until {} already: a lock can be prolonged, not shortened; name a later time",
                local(known)
            )));
        }
        if version.null_device
            || !matches!(version.status, Status::Completed | Status::CompletedWithErrors)
        {
            return Err(CellError::BadInput(format!(
                "{name} is not complete ({}); lock one that is, or go on with it first",
                version.status
            )));
        }
        self.lock_version(&version, name, until_us, Vec::new())
    }

    /// Locks what a backup has just completed.
    pub(crate) fn lock_new(
        &self,
        version: VersionId,
        name: &str,
        until_us: i64,
        held: Vec<HeldMedium>,
    ) -> Result<Locked> {
        let row = self.idb.version(version)?;
        let row = row.ok_or_else(|| CellError::BadInput(format!("'{name}' is not recorded")))?;
        self.lock_version(&row, name.to_owned(), until_us, held)
    }

    /// Locks a version and all it builds on: first on media, of which some may be held already, then in the database.
    pub(crate) fn lock_version(
        &self,
        version: &Version,
        name: String,
        until_us: i64,
        held: Vec<HeldMedium>,
    ) -> Result<Locked> {
        let versions = chain(&self.idb, version.id)?;
        let mut places = Places::new();
        let mut segments: BTreeMap<[u8; 16], Vec<MediumId>> = BTreeMap::new();
        for version in &versions {
            // A copy stands in for its original.
            let origins = self.idb.copies_of_version(version.id)?;
            for (segment, medium, number) in self.idb.places_of_version(version.id)? {
                let origin = origins.get(&segment).unwrap_or(&segment);
                segments.entry(origin.0).or_default().push(medium);
                places.entry(medium).or_default().entry(version.id).or_default().push(number);
            }
        }
        let (at_hand, not_at_hand) = self.hold_all(places.keys().copied(), held);
        for media in segments.values() {
            if media.iter().all(|id| !at_hand.contains_key(id)) {
                let failed = media.iter().find_map(|id| not_at_hand.get(id));
                let why = failed.map(ToString::to_string).unwrap_or_default();
                return Err(CellError::BadInput(format!("{name} cannot be locked: {why}")));
            }
        }
        for (id, held) in &at_hand {
            for (version, numbers) in places.get(id).into_iter().flatten() {
                held.put_lock(&VersionLock::new(*version, until_us, numbers))?;
            }
        }
        let all: Vec<_> = versions.iter().map(|v| v.id).collect();
        self.idb.lock(version.id, &all, until_us)?;
        Ok(Locked {
            name,
            until_us,
            versions: versions.len() as u64,
            segments: segments.len() as u64,
            media: at_hand.values().map(|held| held.medium().header().label.clone()).collect(),
            elsewhere: self.labels(not_at_hand.keys())?,
        })
    }

    /// Holds those media that are at hand; why the others are not.
    fn hold_all(
        &self,
        media: impl Iterator<Item = MediumId>,
        held: Vec<HeldMedium>,
    ) -> (BTreeMap<MediumId, HeldMedium>, BTreeMap<MediumId, CellError>) {
        let held = held.into_iter().map(|held| (held.medium().header().medium, held));
        let mut at_hand: BTreeMap<_, _> = held.collect();
        let mut not_at_hand = BTreeMap::new();
        for id in media.collect::<BTreeSet<_>>() {
            if at_hand.contains_key(&id) {
                continue;
            }
            match self.hold_medium(id) {
                Ok(held) => drop(at_hand.insert(id, held)),
                Err(e) => drop(not_at_hand.insert(id, e)),
            }
        }
        (at_hand, not_at_hand)
    }

    pub(crate) fn labels<'a>(
        &self,
        media: impl Iterator<Item = &'a MediumId>,
    ) -> Result<Vec<String>> {
        let label = |id: &MediumId| {
            Ok(self.idb.medium(*id)?.map_or_else(|| id.short(), |medium| medium.label))
        };
        media.map(label).collect()
    }
}
