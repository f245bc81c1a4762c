//! What an administrator does with media: makes them, names them, gives them away, gives up what they hold.

use capstan_address::TapeAddress;
use capstan_engine::message::shell_word;
use capstan_format::id::VersionId;
use capstan_format::record::MediumHeader;
use capstan_idb::{Medium, RotationSet, Status, Version};
use capstan_medium::host::Writable;
use capstan_medium::{DeviceError, FoundLock, OpenMedium};

use crate::Cell;
use crate::error::{CellError, PoolRefusal, Result, UpkeepRefusal};
use crate::media::{MediumInfo, WriteFailure, check_location, shown};
use crate::session::now_us;
use crate::session::waited::patiently;
use crate::supply::init::Initialise;
use crate::supply::labels::rule::LabelRule;
use crate::supply::labels::{TAKEN, no_label};
use crate::versions::leap::until_text;

/// So many versions that must stay are named, others are counted.
const NAMED: usize = 5;

/// What recycling a medium gave up.
#[derive(Debug, Clone)]
pub struct Recycled {
    /// The medium as it is now; its identity is new.
    pub medium: Medium,
    /// Segments that were removed.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Versions that are no more.
    pub versions: u64,
}

/// What the database forgot of a medium that is to be written anew.
pub(crate) struct GivenUp {
    segments: u64,
    bytes: u64,
    versions: u64,
}

/// What lets a backup go that did not complete.
fn way_of_unended(name: &str) -> String {
    let object = name.rsplit_once('@').map_or(name, |(object, _)| object);
    format!(
        "; {name} did not complete, and stays so that `backup --resume` can go on with it: `capstan protect {} --none` and `capstan \
         prune {}` let it go",
        shell_word(name),
        shell_word(object)
    )
}

/// Refuses a medium that records a lock, whatever the database knows of it.
pub(crate) fn refuse_locked(medium: &OpenMedium, now_us: i64) -> Result<()> {
    medium.version_locks()?.iter().try_for_each(|lock| refuse_lock(medium, lock, now_us))
}

/// Refuses a tape to which a lock is attached, of which the database knows nothing.
pub(crate) fn refuse_lock_attached(medium: &OpenMedium, now_us: i64) -> Result<()> {
    for number in medium.segments()? {
        let locks = match medium.attachment(number) {
            Ok(found) => found.map(|attached| attached.locks).unwrap_or_default(),
            // What is damaged is a segment's begin as likely as a lock's, and such a tape is to be had again, too.
            Err(DeviceError::Medium { .. }) => continue,
            Err(e) => return Err(e.into()),
        };
        let mut locks = locks.into_iter().map(FoundLock::Whole);
        locks.try_for_each(|lock| refuse_lock(medium, &lock, now_us))?;
    }
    Ok(())
}

fn refuse_lock(medium: &OpenMedium, lock: &FoundLock, now_us: i64) -> Result<()> {
    let until = match lock {
        FoundLock::Whole(lock) if lock.until_us <= now_us => return Ok(()),
        FoundLock::Whole(lock) => until_text(lock.until_us),
        FoundLock::Damaged(_) => "without end, as its lock is damaged".to_owned(),
    };
    Err(UpkeepRefusal::HoldsLocked {
        label: medium.header().label.clone(),
        version: lock.version(),
        until,
    }
    .into())
}

impl Cell {
    /// Gives a medium another label.
    pub fn media_label(&self, name: &str, label: &str) -> Result<MediumInfo> {
        let medium = self.settled(self.find_medium(name)?)?;
        if label != medium.label {
            self.check_label(label)?;
        }
        let device = self.hold(&medium)?;
        let address = &medium.device;
        self.refuse_changed(address, device.medium())?;
        let placed = device.placed(address);
        let old = device.medium().header().clone();
        let header = MediumHeader { label: label.to_owned(), ..old.clone() };
        // The database says whose it is, where two want it at once.
        let row = self.put_medium_as(&placed, &header, |media| {
            let is_taken = media.iter().any(|m| m.label == label && m.id != medium.id);
            if is_taken { medium.label.clone() } else { label.to_owned() }
        })?;
        if row.label != label {
            return Err(no_label(label, TAKEN));
        }
        if let Err(e) = device.replace_header(&header) {
            self.put_medium_as(&placed, &old, |_| medium.label.clone())?;
            return Err(e.into());
        }
        self.medium_info(&row)
    }

    /// Puts a medium into a pool, into one of its rotation sets where that is said, or takes it out of any.
    pub fn media_move(
        &self,
        name: &str,
        pool: Option<&str>,
        set: Option<RotationSet>,
    ) -> Result<MediumInfo> {
        let medium = self.find_medium(name)?;
        if let Some(name) = pool {
            let pool = self.pool(name)?;
            if let Some(set) = set.filter(|set| pool.size_of(*set) == 0) {
                return Err(PoolRefusal::PoolHasNoSuchSet {
                    pool: name.to_owned(),
                    set: set.to_string(),
                }
                .into());
            }
        }
        self.leaves_set(medium.id)?;
        self.idb.set_medium_pool(medium.id, pool, set)?;
        self.medium_info(&medium)
    }

    /// Records that a medium leaves the house: for that place, or, where none is named, for where a session was to bring it, or the
    /// vault of its pool. A tape of an array
    /// that is named by its device leaves alone.
    pub fn media_export(&self, name: &str, to: &str) -> Result<MediumInfo> {
        check_location(to)?;
        let (medium, tape) = match self.array_with_tape(name)? {
            Some((array, tape)) => (array, Some(tape)),
            None => (self.find_medium(name)?, None),
        };
        self.record_export(&medium, tape.as_ref(), to)?;
        self.medium_info(&medium)
    }

    /// Records that a medium, or a tape of it, leaves the house.
    pub(crate) fn record_export(
        &self,
        medium: &Medium,
        tape: Option<&TapeAddress>,
        to: &str,
    ) -> Result<()> {
        let vault = match to.trim() {
            "" => match self.leaves_to(medium, tape)? {
                Some(to) => to,
                None => self.vault_of(medium)?.unwrap_or_default(),
            },
            to => to.to_owned(),
        };
        match tape {
            Some(tape) => self.export_tape(medium, tape, &vault),
            None => Ok(self.idb.set_medium_exported(medium.id, Some((now_us(), &vault)))?),
        }
    }

    /// Gives up all that a medium holds, and makes it free. Refused while something on it must stay; also what no prune would remove,
    /// as an object's last complete version, unless it is to be given up.
    ///
    /// It gets a new identity: whoever still refers to what it held finds another medium, never other contents. The
    /// database forgets first: what an interruption leaves on the medium can be recycled again, or imported.
    pub fn media_recycle(&self, name: &str, give_up: bool) -> Result<Recycled> {
        let medium = self.settled(self.find_medium(name)?)?;
        if let Some(medium) = self.given_header_again(&medium)? {
            return Ok(Recycled { medium, segments: 0, bytes: 0, versions: 0 });
        }
        let may_go = || self.refuse_last(&medium, give_up, "recycle");
        let device = self.hold(&medium)?;
        let given_up = self.give_up_held(&*device, &medium, &may_go)?;
        self.begin_anew(device, &medium, given_up)
    }

    /// Refuses to give up what no prune would remove, unless that is meant; `command` is what says so.
    pub(crate) fn refuse_last(
        &self,
        medium: &Medium,
        give_up: bool,
        command: &'static str,
    ) -> Result<()> {
        let info = self.medium_info(medium)?;
        if give_up || info.held.is_none() {
            return Ok(());
        }
        let keeps = self.keeps()?;
        let held = keeps.lasts(self)?.held.get(&medium.id).cloned().unwrap_or_default();
        let of =
            |(id, why): &(VersionId, String)| Ok(format!("{} ({why})", self.name_of_version(*id)?));
        let names = held.iter().take(NAMED).map(of).collect::<Result<Vec<_>>>()?;
        let more = held.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Err(UpkeepRefusal::HoldsKept {
            medium: shown(medium.id, &medium.label),
            label: medium.label.clone(),
            versions: names.join(", ") + &more,
            command,
        }
        .into())
    }

    /// Forgets all that a medium holds which is held: `may_go` has the last word. On the medium it is left as it is.
    pub(crate) fn give_up_held(
        &self,
        device: &dyn Writable,
        medium: &Medium,
        may_go: &dyn Fn() -> Result<()>,
    ) -> Result<GivenUp> {
        // A writer that was killed may have left more than is recorded.
        let silent = crate::observe::Silent;
        self.record_unknown(device.medium(), &crate::session::SessionLog::new(&silent))?;
        let info = self.medium_info(medium)?;
        self.refuse_kept(&info)?;
        self.refuse_read(medium.id)?;
        refuse_locked(device.medium(), self.believed_us()?)?;
        device.refuse_worm()?;
        may_go()?;
        let lost = self.idb.versions_only_on_medium(medium.id)?;
        let lost = self.idb.with_dependants(&lost)?;
        self.idb.forget_medium_contents(medium.id, &lost)?;
        Ok(GivenUp {
            segments: info.holdings.segments,
            bytes: info.holdings.bytes,
            versions: lost.len() as u64,
        })
    }

    /// Writes a medium anew of which all was given up: it is empty, and has a new identity. A failure is recorded with it.
    ///
    /// Where this is cut short, it has its old header, the new one or none; its record holds nothing, and becomes that of what is
    /// found there ([`crate::media::anew`]).
    pub(crate) fn begin_anew(
        &self,
        device: Box<dyn Writable>,
        medium: &Medium,
        given_up: GivenUp,
    ) -> Result<Recycled> {
        // By the label that it has here: its own may be another medium's.
        let new = self
            .new_medium(&medium.label, device.medium().header().block_size)
            .map_err(CellError::io("read", "/dev/urandom"))?;
        let at = device.medium().path().to_owned();
        if let Err(e) = device.begin_anew(&new) {
            self.note_write_failure(medium.id, WriteFailure::of_device(&e))?;
            return Err(e.into());
        }
        let row = Medium { id: new.medium, created_us: new.created_us, ..medium.clone() };
        self.idb.replace_medium(medium.id, &row)?;
        let log = crate::session::SessionLog::new(&crate::observe::Silent);
        self.back_up_idb_on(std::iter::once(at.as_str()), &log);
        let GivenUp { segments, bytes, versions } = given_up;
        Ok(Recycled { medium: row, segments, bytes, versions })
    }

    /// Gives up what a tape held on which something else is now, erases it and makes it a free medium of the same label. Refused
    /// where another medium of a Capstan is on it.
    pub fn media_recycle_foreign(&self, name: &str) -> Result<Recycled> {
        let medium = self.find_medium(name)?;
        let called = shown(medium.id, &medium.label);
        let address = &medium.device;
        let Some((tape, _)) = address.as_named_tape() else {
            return Err(UpkeepRefusal::NoLibraryTape { medium: called, label: medium.label }.into());
        };
        let management = self.idb.management(medium.id)?;
        if management.is_other_cells() {
            return Err(UpkeepRefusal::OfAnotherCell { medium: called, label: medium.label }.into());
        }
        self.refuse_retired(medium.id, &medium.label)?;
        // What cannot be read as ours may be ours and damaged: a lock holds it all the same.
        let believed_us = self.believed_us()?;
        for id in self.idb.versions_on_medium(medium.id)? {
            if let Some(until) = self.idb.keeping(id)?.lock_at(believed_us) {
                return Err(UpkeepRefusal::HeldLocked {
                    medium: called,
                    label: medium.label,
                    version: self.name_of_version(id)?,
                    until: until_text(until),
                }
                .into());
            }
        }
        // A tape that has another medium is none to erase.
        match patiently(&*self.devices, || Ok(self.devices.member(tape)?)) {
            Ok(there) if there.header().medium == medium.id => {
                return Err(UpkeepRefusal::OnItsTape { medium: called }.into());
            }
            Ok(there) => {
                let header = there.header();
                self.refuse_overwritten(address, Ok(header))?;
                return Err(UpkeepRefusal::AnotherOnTape {
                    found: shown(header.medium, &header.label),
                    medium: called,
                    label: medium.label,
                }
                .into());
            }
            Err(CellError::Device(e)) if e.is_no_medium() => {}
            Err(e) => return Err(e),
        }
        self.refuse_read(medium.id)?;
        self.devices.refuse_worm(tape)?;
        let holdings = self.idb.holdings(medium.id)?;
        let forgotten = self.forget_lost(medium.clone())?;
        self.devices.erase_tape(tape, false)?;
        let wanted = Initialise {
            label: Some(LabelRule::plain(medium.label)),
            pool: management.pool,
            set: None,
            block_size: Some(medium.block_size),
            new_medium: true,
        };
        Ok(Recycled {
            medium: self.media_init(address, &wanted)?.medium,
            segments: holdings.segments,
            bytes: holdings.bytes,
            versions: forgotten.versions + forgotten.given_up,
        })
    }

    /// Refuses to give up what a medium holds while something of it must stay, or where it is to be left alone.
    pub(crate) fn refuse_kept(&self, info: &MediumInfo) -> Result<()> {
        self.refuse_retired(info.medium.id, &info.medium.label)?;
        if info.kept == 0 {
            return Ok(());
        }
        let keeps = self.keeps()?;
        let kept: Vec<_> = info.versions.iter().filter(|id| keeps.get(**id).is_some()).collect();
        let names = kept.iter().take(NAMED).map(|id| self.name_of_version(**id));
        let names = names.collect::<Result<Vec<_>>>()?;
        let more = kept.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let mut unended = None;
        for id in &kept {
            let is_unended = |v: &Version| matches!(v.status, Status::Incomplete | Status::Failed);
            if unended.is_none() && self.idb.version(**id)?.is_some_and(|v| is_unended(&v)) {
                unended = Some(self.name_of_version(**id)?);
            }
        }
        let way = unended.map(|name| way_of_unended(&name)).unwrap_or_default();
        Err(UpkeepRefusal::HoldsProtected {
            medium: shown(info.medium.id, &info.medium.label),
            versions: names.join(", ") + &more,
            way_of_unended: way,
        }
        .into())
    }

    /// A version by its object and session, as it is typed.
    pub(crate) fn name_of_version(&self, id: VersionId) -> Result<String> {
        let session = self.idb.sessions_of_version(id)?.into_iter().next();
        let version = self.idb.version(id)?;
        let object = version.map(|v| self.idb.object(v.object)).transpose()?.flatten();
        let object = object.map_or_else(String::new, |o| o.name);
        Ok(format!("{object}@{}", session.map_or(id.short(), |s| s.id.short())))
    }
}
