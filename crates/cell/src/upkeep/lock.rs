//! Locking a version until a date: it, all it builds on, and their segments. The medium records it, so that the lock
//! outlives the internal database.

use std::collections::{BTreeMap, BTreeSet};

use capstan_address::Address;
use capstan_catalog::version::chain;
use capstan_engine::problem::Problem;
use capstan_format::id::{MediumId, SegmentNumber, VersionId};
use capstan_format::lock::VersionLock;
use capstan_idb::{Protection, Status, Version};
use capstan_medium::HeldMedium;

use crate::Cell;
use crate::drives::attached::Content;
use crate::error::{CellError, LockRefusal, Result};
use crate::media::{lacking_tapes, shown};
use crate::session::{local, now_us};
use crate::versions::protect::{VersionRef, not_past};

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

/// A medium on which locks are recorded.
enum Here {
    Held(Box<HeldMedium>),
    /// A tape, or an array of tapes, loaded when it is written.
    Tape,
}

impl Cell {
    /// Locks a version. A lock is prolonged, never shortened or lifted.
    pub fn lock(&self, of: &VersionRef, until_us: i64) -> Result<Locked> {
        not_past(Protection::UntilUs(until_us))?;
        let (version, name) = self.version_of(of)?;
        let keeping = self.idb.keeping(version.id)?;
        if let Some(known) = keeping.lock_at(now_us()).filter(|known| *known > until_us) {
            return Err(LockRefusal::Shortened { version: name, until: local(known) }.into());
        }
        if version.null_device
            || !matches!(version.status, Status::Completed | Status::CompletedWithErrors)
        {
            return Err(LockRefusal::NotComplete {
                version: name,
                status: version.status.to_string(),
            }
            .into());
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
        let row = row.ok_or_else(|| LockRefusal::NotRecorded { name: name.to_owned() })?;
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
                let origin = origins.get(&segment).map_or(segment, |of| of.origin);
                segments.entry(origin.0).or_default().push(medium);
                places.entry(medium).or_default().entry(version.id).or_default().push(number);
            }
        }
        let (at_hand, mut elsewhere) = self.all_at_hand(places.keys().copied(), held)?;
        // Each segment on one medium at least.
        let all_on = |media: &BTreeMap<MediumId, Here>, elsewhere: &BTreeMap<_, CellError>| {
            let lacking = segments.values().find(|of| of.iter().all(|id| !media.contains_key(id)));
            lacking.map_or(Ok(()), |of| {
                let why = of.iter().find_map(|id| elsewhere.get(id));
                let why = why.map(ToString::to_string).unwrap_or_default();
                Err(LockRefusal::NotOnMedia { version: name.clone(), why }.into())
            })
        };
        all_on(&at_hand, &elsewhere)?;
        let mut recorded = BTreeMap::new();
        for (id, here) in at_hand {
            let of = places.get(&id).into_iter().flatten();
            let locks = of.map(|(version, numbers)| VersionLock::new(*version, until_us, numbers));
            match (self.put_locks(id, &here, locks.collect()), here) {
                (Ok(()), here) => drop(recorded.insert(id, here)),
                // Whether it could be loaded is known now.
                (Err(e), Here::Tape) => drop(elsewhere.insert(id, e)),
                (Err(e), Here::Held(_)) => return Err(e),
            }
        }
        if let Err(e) = all_on(&recorded, &elsewhere) {
            let on = self.labels(recorded.keys())?;
            // What a tape has on record stays there.
            return Err(match on.is_empty() {
                true => e,
                false => CellError::Unfinished(Problem::new(format!("{e}")).hint(format!("on {} the lock is on record all the same, and counts after an import; copy the version to \
                 media with room, and lock it then", on.join(", ")))),
            });
        }
        let all: Vec<_> = versions.iter().map(|v| v.id).collect();
        self.idb.lock(version.id, &all, until_us)?;
        Ok(Locked {
            name,
            until_us,
            versions: versions.len() as u64,
            segments: segments.len() as u64,
            media: self.labels(recorded.keys())?,
            elsewhere: self.labels(elsewhere.keys())?,
        })
    }

    /// Records the locks of versions on media that were written just now. On others that have the versions they are recorded.
    pub(crate) fn lock_on(&self, versions: &[Version], media: &[MediumId]) -> Result<()> {
        let now = self.believed_us()?;
        let mut locks: BTreeMap<MediumId, BTreeMap<VersionId, VersionLock>> = BTreeMap::new();
        for locked in versions {
            let Some(until_us) = self.idb.keeping(locked.id)?.lock_at(now) else { continue };
            for version in chain(&self.idb, locked.id)? {
                for (_, medium, number) in self.idb.places_of_version(version.id)? {
                    if media.contains(&medium) {
                        let lock = VersionLock::new(version.id, until_us, &[number]);
                        let of = locks.entry(medium).or_default();
                        let known = of.entry(version.id).or_insert_with(|| lock.clone());
                        *known = known.joined(&lock);
                    }
                }
            }
        }
        let mut before = None;
        for (id, locks) in locks {
            // The last one is written once more, with a backup of the database.
            before.replace(id).into_iter().for_each(|id| self.done_reading(id));
            let (at_hand, not_at_hand) = self.all_at_hand(std::iter::once(id), Vec::new())?;
            if let Some(e) = not_at_hand.into_values().next() {
                return Err(e);
            }
            for here in at_hand.values() {
                self.put_locks(id, here, locks.values().cloned().collect())?;
            }
        }
        Ok(())
    }

    /// Records locks on a medium: in files of their own, on a tape as one attachment.
    fn put_locks(&self, id: MediumId, here: &Here, locks: Vec<VersionLock>) -> Result<()> {
        let held = match here {
            Here::Held(held) => held,
            // Each tape is loaded once, when it is its turn.
            Here::Tape if locks.is_empty() => return Ok(()),
            Here::Tape => {
                let medium = self.medium_at_hand(id)?;
                let header = medium.header();
                self.refuse_other_cells(header, medium.path())?;
                self.open_drive_key(header)?;
                // Behind the end of one that was cut it would be over what is left there.
                if let Some(address) = self.device_of_medium(id) {
                    self.refuse_changed(&address, &medium)?;
                }
                if !medium.takes_attachments() {
                    return Err(
                        LockRefusal::RecordsNone { medium: shown(id, &header.label) }.into()
                    );
                }
                return self.attach(&medium, Content::Locks(locks));
            }
        };
        Ok(locks.iter().try_for_each(|lock| held.put_lock(lock))?)
    }

    /// Those media that are at hand, held; why the others are not. Tapes are not loaded for it: that they are in their library
    /// has to do.
    fn all_at_hand(
        &self,
        media: impl Iterator<Item = MediumId>,
        held: Vec<HeldMedium>,
    ) -> Result<(BTreeMap<MediumId, Here>, BTreeMap<MediumId, CellError>)> {
        // Who has one already does not wait for others, who might wait for that.
        let is_patient = held.is_empty();
        let held = held.into_iter().map(|held| (held.medium().header().medium, held));
        let mut held: BTreeMap<_, _> = held.collect();
        let (mut at_hand, mut not_at_hand) = (BTreeMap::new(), BTreeMap::new());
        for id in media.collect::<BTreeSet<_>>() {
            let device = self.device_of_medium(id).filter(Address::is_sequential);
            let here = match (device, held.remove(&id)) {
                (Some(tapes), _) => {
                    let out = self.exported(id)?.map(Problem::from);
                    match out.or_else(|| lacking_tapes(&*self.devices, &tapes).0) {
                        Some(why) => {
                            let name = self.labels(std::iter::once(&id))?.concat();
                            Err(LockRefusal::TapeAway { label: name, why }.into())
                        }
                        None => Ok(Here::Tape),
                    }
                }
                (None, Some(held)) => Ok(Here::Held(Box::new(held))),
                (None, None) => {
                    let held = match is_patient {
                        true => self.hold_medium(id),
                        false => self.hold_medium_now(id),
                    };
                    held.map(|held| Here::Held(Box::new(held)))
                }
            };
            match here {
                Ok(here) => drop(at_hand.insert(id, here)),
                Err(e) => drop(not_at_hand.insert(id, e)),
            }
        }
        Ok((at_hand, not_at_hand))
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
