//! Whose media are: a cell writes on its own.

use capstan_address::{Address, LibraryName};
use capstan_engine::entropy::Entropy;
use capstan_engine::message::shell_word;
use capstan_engine::problem::Problem;
use capstan_format::id::{CellId, MediumId};
use capstan_format::record::{FORMAT_VERSION, MediumHeader, Protection};
use capstan_idb::{Idb, Medium, RotationSet};
use capstan_medium::OpenMedium;
use capstan_medium::host::placed::Placed;
use capstan_medium::host::{DeviceHost, Unjudged, Writable};

use super::{Condition, MediumInfo, label_for, shown};
use crate::Cell;
use crate::error::{CellError, KeyRefusal, MediumRefusal, Result};
use crate::keys::keyring;
use crate::keys::records::key_records;
use crate::names::{TEXT_MAX, bounded};
use crate::observe::{Observer, Silent};
use crate::session::waited::patiently;
use crate::session::{SessionLog, now_us};

/// The identity of the cell whose database this is; made where there is none yet.
pub(crate) fn identity(idb: &Idb, entropy: &Entropy) -> Result<CellId> {
    let new = CellId(entropy.id().map_err(CellError::io("read", "/dev/urandom"))?);
    let known = idb.cell_or(&new.to_string())?;
    known.parse().map_err(|_| CellError::from(MediumRefusal::NoCellId { found: known.clone() }))
}

impl Cell {
    /// Its identity, which media carry that it writes.
    pub fn id(&self) -> CellId {
        self.id
    }

    /// The header of a new medium.
    pub(crate) fn new_medium(&self, label: &str, block_size: u32) -> std::io::Result<MediumHeader> {
        Ok(MediumHeader {
            format: FORMAT_VERSION,
            incompatible: 0,
            compatible: 0,
            medium: MediumId(self.entropy.id()?),
            label: label.to_owned(),
            block_size,
            created_us: now_us(),
            protection: Protection::None,
            cell: Some(self.id),
            array: None,
            drive_key: None,
        })
    }

    /// Refuses to write to a medium that is another cell's, that counts as out of the house, or that is retired. Nothing is
    /// touched yet. Returns which medium is there, if any.
    pub(crate) fn refuse_others(&self, address: &Address) -> Result<Option<MediumId>> {
        self.devices.leave_exported(address);
        let (header, is_whole) = match self.devices.medium(address) {
            Ok(medium) => {
                self.note_lost_header(&medium)?;
                (medium.header().clone(), medium.header_problem().is_none())
            }
            Err(e) => {
                self.refuse_overwritten(address, Err(&e))?;
                // Who opens it to write says what is wrong, or makes it.
                return Ok(None);
            }
        };
        self.refuse_written(address, &header, is_whole)?;
        Ok(Some(header.medium))
    }

    /// The same of a medium that was opened, by its header. `is_whole`: that was read, and not taken from a segment.
    pub(crate) fn refuse_written(
        &self,
        address: &Address,
        header: &MediumHeader,
        is_whole: bool,
    ) -> Result<()> {
        self.refuse_overwritten(address, Ok(header))?;
        let name = shown(header.medium, &header.label);
        self.refuse_other_cells(header, &address.to_string())?;
        if let Some(to) = self.exported(header.medium)? {
            let way = match (address, address.is_tape()) {
                (Address::Array(_), true) => format!(
                    "`capstan library import` takes a tape back that came; where one is lost for good, `capstan media retire '{0}'` \
                     and `capstan media forget '{0}'` give the array up, and `capstan media erase TAPE --foreign` makes its other \
                     tapes blank",
                    header.label
                ),
                _ => format!("`capstan media import {}` takes it back", shell_word(address)),
            };
            let text = Problem::new(format!("{name} {to}, so nothing is written to it")).hint(way);
            let medium = header.medium;
            return Err(CellError::Away { medium, why: format!("which {to}"), text });
        }
        self.refuse_retired(header.medium, &header.label)?;
        if is_whole {
            self.refuse_twice(header.medium, address)?;
        }
        Ok(())
    }

    /// Lets a medium that was opened to write be written, if it is one that [`Self::refuse_others`] does not refuse, or was made now.
    /// That the same place was looked at before is not enough: where its header could not be read then, it can be now.
    pub(crate) fn judged(&self, address: &Address, opened: Unjudged) -> Result<Box<dyn Writable>> {
        opened.judged(|medium, is_new| match is_new {
            true => Ok(()),
            false => {
                self.refuse_written(address, medium.header(), medium.header_problem().is_none())
            }
        })
    }

    /// Refuses a medium of another cell. All that writes to a medium, or removes anything from one, comes by here, as
    /// [`Self::refuse_others`] or by itself: a cell changes its own media only.
    pub(crate) fn refuse_other_cells(&self, header: &MediumHeader, at: &str) -> Result<()> {
        let Some(other) = self.other_cell(header)? else { return Ok(()) };
        Err(MediumRefusal::OfAnotherCell {
            medium: shown(header.medium, &header.label),
            place: at.to_owned(),
            cell: other,
        }
        .into())
    }

    /// The other cell that a medium belongs to, if it does, and was not adopted.
    pub(crate) fn other_cell(&self, header: &MediumHeader) -> Result<Option<CellId>> {
        let Some(other) = header.cell.filter(|cell| *cell != self.id) else { return Ok(None) };
        // A member of an array was adopted with it.
        let medium = header.array.as_ref().map_or(header.medium, |place| place.array);
        let adopted = self.idb.management(medium)?.adopted_us;
        Ok(adopted.is_none().then_some(other))
    }

    /// Refuses a medium that was given up.
    pub(crate) fn refuse_retired(&self, id: MediumId, label: &str) -> Result<()> {
        match self.idb.management(id)?.retired_us {
            None => Ok(()),
            Some(us) => Err(MediumRefusal::Retired {
                medium: shown(id, label),
                label: label.to_owned(),
                since: crate::session::local(us),
                is_had_elsewhere: self.is_had_elsewhere(id)?,
            }
            .into()),
        }
    }

    /// Refuses a tape that is worn or at fault, before more is entrusted to it.
    pub(crate) fn refuse_poor(&self, id: MediumId) -> Result<()> {
        let Some(row) = self.idb.medium(id)? else { return Ok(()) };
        match self.condition_of(&row, &self.idb.management(id)?)? {
            (Condition::Poor, reasons) => Err(MediumRefusal::Poor {
                medium: shown(id, &row.label),
                reasons: reasons.join(", "),
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// In words, that a medium left the house, and where it went.
    pub(crate) fn exported(&self, medium: MediumId) -> Result<Option<String>> {
        super::exported(&self.idb, medium)
    }

    /// Makes media this cell's: the one of that label, or on that device, or all of a library that were imported. What is on a
    /// single one becomes known. Where its backups are encrypted and this home has no key ring, that is refused unless what is
    /// written from now on is to be `unencrypted`.
    pub fn media_adopt(
        &self,
        what: &str,
        unencrypted: bool,
        observer: &dyn Observer,
    ) -> Result<Vec<MediumInfo>> {
        let address = match self.known_medium(what)? {
            Some(known) => known.device.clone(),
            None => what.parse::<Address>()?,
        };
        match &address {
            Address::Tape(library)
                if library.tape.is_none() && !self.devices.is_by_hand(library)? =>
            {
                self.adopt_library(&library.library, unencrypted)
            }
            _ => {
                let medium = self.adopt_one(&address, unencrypted, observer)?;
                Ok(vec![self.medium_info(&medium)?])
            }
        }
    }

    fn adopt_one(
        &self,
        address: &Address,
        unencrypted: bool,
        observer: &dyn Observer,
    ) -> Result<Medium> {
        self.devices.wait_for(address);
        let medium = self.devices.medium(address)?;
        if self.other_cell(medium.header())?.is_none() && medium.header().cell.is_some() {
            let name = shown(medium.header().medium, &medium.header().label);
            return Err(MediumRefusal::OursAlready { medium: name }.into());
        }
        if !unencrypted {
            self.refuse_open(&medium, address)?;
        }
        let nobody = || Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        let known = self.known_members();
        let open = || Ok(self.devices.writable(address, &nobody, None, &known)?);
        let opened = patiently(&*self.devices, open)?;
        let device = opened.judged(|now, _| refuse_other(&medium, now))?;
        let row = self.put_medium_of(&device.placed(address), device.medium().header())?;
        self.record_unknown(device.medium(), &SessionLog::new(observer))?;
        let log = SessionLog::new(observer);
        if address.is_sequential() {
            // Its header cannot be written without losing what comes behind it.
            self.idb.set_medium_adopted(row.id, now_us())?;
            self.bring_back(row.id, None, &log)?;
            self.join_objects_of_one_name()?;
            self.open_closed_names()?;
            return Ok(row);
        }
        let header = MediumHeader { cell: Some(self.id), ..device.medium().header().clone() };
        let there = device.medium().clone();
        device.replace_header(&header)?;
        self.idb.set_medium_other_cell(row.id, None)?;
        self.bring_back(row.id, Some(&there), &log)?;
        self.join_objects_of_one_name()?;
        self.open_closed_names()?;
        Ok(row)
    }

    /// Refuses a medium with encrypted backups where this home has no key ring.
    pub(crate) fn refuse_open(&self, medium: &OpenMedium, address: &Address) -> Result<()> {
        if keyring::load(&self.home)?.is_some() {
            return Ok(());
        }
        let by_drive = medium.header().drive_key_record().is_some();
        if by_drive || !key_records(&*self.agents.media, medium, &medium.segments()?).is_empty() {
            let name = shown(medium.header().medium, &medium.header().label);
            return Err(would_be_open(&format!("{name} has"), address));
        }
        Ok(())
    }

    /// No tape is loaded for that: what was imported is known.
    fn adopt_library(&self, library: &LibraryName, unencrypted: bool) -> Result<Vec<MediumInfo>> {
        if !unencrypted && keyring::load(&self.home)?.is_none() && !self.idb.keys()?.is_empty() {
            let of = self.carrier_of_ring(library)?;
            return Err(would_be_open("media that were imported have", &of));
        }
        let mut adopted = Vec::new();
        for tape in self.library_inventory(library, false)? {
            let Some(known) = tape.known else { continue };
            if self.idb.management(known.id)?.is_other_cells() {
                self.idb.set_medium_adopted(known.id, now_us())?;
                self.bring_back(known.id, None, &SessionLog::new(&Silent))?;
                adopted.push(self.media_show(&known.id.to_string())?);
            }
        }
        self.join_objects_of_one_name()?;
        self.open_closed_names()?;
        if adopted.is_empty() {
            return Err(MediumRefusal::NoneToAdopt { library: library.to_string() }.into());
        }
        Ok(adopted)
    }

    /// The device of the medium that got its key ring last, so that what it has is the newest: a tape of this library, if one has a ring.
    fn carrier_of_ring(&self, library: &LibraryName) -> Result<String> {
        let inventory = self.library_inventory(library, false)?;
        let here: Vec<_> =
            inventory.iter().filter_map(|tape| Some(tape.known.as_ref()?.id)).collect();
        let encrypted = self.idb.encrypted_media()?;
        let last = encrypted.iter().max_by_key(|(id, last_us)| (here.contains(id), *last_us));
        let medium = last.map(|(id, _)| self.idb.medium(*id)).transpose()?.flatten();
        Ok(medium.map_or_else(|| "MEDIUM".to_owned(), |medium| medium.device.to_string()))
    }

    /// Records a medium that lies on a device at hand.
    pub(crate) fn put_medium_of(&self, at: &Placed, header: &MediumHeader) -> Result<Medium> {
        self.put_medium_in(at, header, None)
    }

    /// The same; where a pool is named, it is in that, and in that set of it, from the begin.
    pub(crate) fn put_medium_in(
        &self,
        at: &Placed,
        header: &MediumHeader,
        pool: Option<(&str, Option<RotationSet>)>,
    ) -> Result<Medium> {
        let own = bounded(header.label.clone(), TEXT_MAX);
        self.put_medium_by(at, header, pool, |media| label_for(media, header.medium, &own))
    }

    /// The same, by the label that `label` chooses where all these media are known.
    pub(crate) fn put_medium_as(
        &self,
        at: &Placed,
        header: &MediumHeader,
        label: impl Fn(&[Medium]) -> String,
    ) -> Result<Medium> {
        self.put_medium_by(at, header, None, label)
    }

    fn put_medium_by(
        &self,
        at: &Placed,
        header: &MediumHeader,
        pool: Option<(&str, Option<RotationSet>)>,
        label: impl Fn(&[Medium]) -> String,
    ) -> Result<Medium> {
        let row = Medium {
            id: header.medium,
            label: String::new(),
            device: self.device_of(at, header.medium)?,
            block_size: header.block_size,
            created_us: header.created_us,
            hosts: Vec::new(),
        };
        self.take_over(&row.device, header)?;
        let row = self.idb.place_medium_in(&row, self.host(), pool, label)?;
        self.forget_replaced_tapes(&row)?;
        for (array, rebuilt) in at.rebuilt() {
            self.idb.put_rebuilt_members(*array, rebuilt)?;
        }
        let other = header.cell.filter(|cell| *cell != self.id).map(|cell| cell.to_string());
        self.idb.set_medium_other_cell(row.id, other.as_deref())?;
        self.put_drive_key(header)?;
        self.forget_seen(at.address())?;
        Ok(row)
    }

    /// The device that is recorded of a medium that was found there. Members of an array that were not found stay where they are known.
    pub(crate) fn device_of(&self, at: &Placed, medium: MediumId) -> Result<Address> {
        let known = self.idb.medium(medium)?.map(|row| row.device);
        let device = known.map_or_else(|| at.address().clone(), |known| at.with_known(&known));
        whole(&*self.devices, &device)
    }

    /// A medium of this cell, held for writing. It has to be there, and in no other state. One that others have is waited for.
    pub(crate) fn hold(&self, medium: &Medium) -> Result<Box<dyn Writable>> {
        patiently(&*self.devices, || self.hold_now(medium))
    }

    /// The same, at once.
    pub(crate) fn hold_now(&self, medium: &Medium) -> Result<Box<dyn Writable>> {
        let address = &medium.device;
        self.refuse_others(address)?;
        let there = self.open_medium(medium)?;
        let nobody = || Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        let device = self.judged(address, self.devices.writable(address, &nobody, None, &())?)?;
        refuse_other(&there, device.medium())?;
        // Another disk may be in its place. A tape is told by its barcode, and given up whatever is left of it.
        if !address.is_sequential() {
            self.refuse_other_state(address, device.medium())?;
        }
        Ok(device)
    }
}

/// Refuses what was opened to write, where it is not the medium that was looked at.
pub(crate) fn refuse_other(seen: &OpenMedium, now: &OpenMedium) -> Result<()> {
    let (was, is) = (seen.header(), now.header());
    match was.medium == is.medium {
        true => Ok(()),
        false => Err(MediumRefusal::AnotherNow {
            place: now.path().to_owned(),
            found: shown(is.medium, &is.label),
            seen: shown(was.medium, &was.label),
        }
        .into()),
    }
}

/// Refuses to go on in clear where backups are encrypted.
fn would_be_open(whose: &str, device: &dyn std::fmt::Display) -> CellError {
    CellError::from(KeyRefusal::GoesOnInClear {
        whose: whose.to_owned(),
        device: device.to_string(),
    })
}

/// A device by the name that is recorded: its whole path.
fn whole(devices: &dyn DeviceHost, address: &Address) -> Result<Address> {
    Ok(match address {
        Address::Store(store) => {
            let place = devices.resolve(store);
            place.map_err(CellError::io("resolve", store.shown()))?.into()
        }
        other => other.recorded(),
    })
}

/// The name by which a device is recorded, as text, whether it is there or not.
pub(crate) fn recorded(address: &Address) -> String {
    address.recorded().to_string()
}
