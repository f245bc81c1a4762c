//! What is on a device that has one medium, opened to write to; or a medium made there.

use capstan_address::{Address, StoreAddress, TapeAddress};
use capstan_format::id::{MediumId, SegmentNumber};
use capstan_format::record::MediumHeader;
use capstan_idb::Medium;
use capstan_medium::host::Writable;
use capstan_medium::tape::TapeError;
use capstan_medium::{Device, DeviceError, HeldMedium};
use capstan_port::media::write::members::Member;

use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::media::{BLOCK_SIZE, LEAST_SPACE};
use crate::observe::Observer;
use crate::session::{SessionLog, now_us};
use crate::supply::Wanted;

impl Cell {
    /// Opens what is on a device that has one medium.
    pub(crate) fn open_named(
        &self,
        address: &Address,
        wanted: &Wanted,
        hold: bool,
        observer: &dyn Observer,
    ) -> Result<(Member, Option<HeldMedium>)> {
        let null_medium = || {
            self.new_medium("null", wanted.block_size.unwrap_or(BLOCK_SIZE))
                .map_err(CellError::io("read", "/dev/urandom"))
        };
        wanted.by_drive.refuse_no_tape(address)?;
        match address.keeps_nothing() {
            true => {
                let header = null_medium()?;
                let device = self.devices.null(address, header.block_size)?;
                Ok((Member::new(device, header), None))
            }
            // What this program does not know is refused where it is opened.
            false => self.open_that_keeps(address, wanted, hold, observer),
        }
    }

    /// The same of a device that keeps what is written.
    fn open_that_keeps(
        &self,
        address: &Address,
        wanted: &Wanted,
        hold: bool,
        observer: &dyn Observer,
    ) -> Result<(Member, Option<HeldMedium>)> {
        let empty = self.empty_on_tape(address)?;
        self.refuse_no_space(address)?;
        let there = self.medium_there(address, wanted, observer)?;
        let device = self.open_or_make(address, wanted, empty.as_ref(), there)?;
        self.refuse_not_as_written(&*device, address, wanted)?;
        let header = self.record_opened(&*device, address, observer)?;
        let held = hold.then(|| device.hold()).transpose()?;
        let mut device = device.into_device()?;
        if !address.is_sequential() {
            self.pass_recorded(&mut *device, header.medium)?;
        }
        Ok((Member::new(device, header), held))
    }

    /// Refuses a destination without room before anything is made there.
    fn refuse_no_space(&self, address: &Address) -> Result<()> {
        // A member without room is not there yet when the array is made: then all are looked at.
        if address.as_array().is_some() && self.devices.medium(address).is_ok() {
            return Ok(());
        }
        address.stores().iter().try_for_each(|store| self.check_space(store))
    }

    /// Which medium is there; none where one is to be made. Refuses one that is not to be written, and a place where none may be made.
    fn medium_there(
        &self,
        address: &Address,
        wanted: &Wanted,
        observer: &dyn Observer,
    ) -> Result<Option<MediumId>> {
        let there = match self.refuse_others(address) {
            // Somebody made the tape blank, and it is to become another medium.
            Err(CellError::Changed(_))
                if wanted.new_medium
                    && address.is_tape()
                    && self.devices.is_blank(address).unwrap_or(false) =>
            {
                None
            }
            there => there?,
        };
        match there {
            Some(id) if address.is_tape() => self.refuse_poor(id)?,
            Some(_) => {}
            None => self.refuse_taken(address, wanted.new_medium)?,
        }
        let Some(array) = address.as_array() else { return Ok(there) };
        match self.end_making(array, wanted.new_medium, observer) {
            // It does without what cannot be made.
            Err(e) if there.is_some() && !e.is_busy() => Ok(there),
            made => Ok(made?.or(there)),
        }
    }

    /// Opens the medium that is there, or makes one; `empty` is on record where a tape was made blank.
    fn open_or_make(
        &self,
        address: &Address,
        wanted: &Wanted,
        empty: Option<&Medium>,
        there: Option<MediumId>,
    ) -> Result<Box<dyn Writable>> {
        let new = || {
            // One that went away since must not become another one.
            if there.is_some() {
                let gone = "the medium there is gone since it was looked at";
                return Err(std::io::Error::other(gone));
            }
            let label = self.label_to_give(address, empty);
            let label = label.map_err(|e| std::io::Error::other(chain(&e)))?;
            self.new_medium_by(wanted.by_drive, &label, wanted.block_size.unwrap_or(BLOCK_SIZE))
        };
        // What is mended is mended on all members.
        let known = match wanted.as_it_is {
            true => self.known_members().even_unfit(),
            false => self.known_members(),
        };
        let opened = self.devices.writable(address, &new, wanted.block_size, &known);
        let opened = opened.map_err(|e| self.note_ended(address, there, e))?;
        let device = self.judged(address, opened)?;
        if address.is_tape() {
            self.refuse_poor(device.medium().header().medium)?;
        }
        self.as_wanted(device, address, wanted.by_drive)
    }

    /// What a medium that is made there is called.
    fn label_to_give(&self, address: &Address, empty: Option<&Medium>) -> Result<String> {
        match (address, empty) {
            (Address::Tape(TapeAddress { tape: None, .. }), _) => self.next_label(),
            // It gets a header again.
            (_, Some(empty)) => Ok(empty.label.clone()),
            (_, None) => self.new_label(address),
        }
    }

    /// Refuses a medium that was cut short, or is not as it was last written.
    fn refuse_not_as_written(
        &self,
        device: &dyn Writable,
        address: &Address,
        wanted: &Wanted,
    ) -> Result<()> {
        let medium = device.medium();
        self.refuse_behind_cut(medium)?;
        if wanted.as_it_is {
            return Ok(());
        }
        let changed = self.refuse_changed(&device.address(address), medium);
        changed.map_err(|e| self.unread_at_end(medium.header().medium, e))
    }

    /// Puts on record where a medium is, what of it is not written, and what is on it that nobody knows. Returns its header.
    fn record_opened(
        &self,
        device: &dyn Writable,
        address: &Address,
        observer: &dyn Observer,
    ) -> Result<MediumHeader> {
        let mut header = device.medium().header().clone();
        // By the label that it has here: its own may be another medium's.
        header.label = self.put_medium_of(&device.placed(address), &header)?.label;
        if address.as_array().is_some() && address.is_sequential() {
            self.note_not_written(header.medium, device.lost_members())?;
        }
        let recorded = self.record_unknown(device.medium(), &SessionLog::new(observer));
        recorded.map_err(|e| self.unread_at_end(header.medium, e))?;
        Ok(header)
    }

    /// The error of a tape that cannot be opened to write. One that is WORM and ends in what a session left is full from now on: no
    /// session loads it again in vain.
    fn note_ended(&self, address: &Address, there: Option<MediumId>, e: DeviceError) -> CellError {
        let is_ended = address.is_tape() && matches!(e.of_tape(), Some(TapeError::Worm { .. }));
        let Some(medium) = there.filter(|_| is_ended) else { return e.into() };
        match self.idb.medium(medium) {
            Ok(Some(_)) => self.idb.set_medium_full(medium, now_us()).err().map(CellError::from),
            _ => None,
        }
        .unwrap_or_else(|| e.into())
    }

    /// Lets the next segment have a number that none has that is recorded: where that one is gone from the medium, another one in its
    /// place would be taken for it.
    fn pass_recorded(&self, device: &mut dyn Device, medium: MediumId) -> Result<()> {
        if let Some(last) = self.idb.last_segment_number(medium)?
            && device.next_number() <= last
        {
            device.advance(SegmentNumber(last.0.saturating_add(1)));
        }
        Ok(())
    }

    /// Refuses a destination without room before anything is made there.
    fn check_space(&self, store: &StoreAddress) -> Result<()> {
        // Those that count no blocks refuse for themselves.
        if self.devices.space(store).is_none_or(|space| space.free >= LEAST_SPACE) {
            return Ok(());
        }
        let least_mib = LEAST_SPACE >> 20;
        let there = self.devices.medium(&store.clone().into());
        let there = there.map(|medium| medium.header().label.clone());
        let path = store.shown();
        Err(match there {
            Ok(label) => DeviceError::MediumFull { label, path, least_mib },
            Err(_) => DeviceError::NoRoom { path, least_mib },
        }
        .into())
    }
}
