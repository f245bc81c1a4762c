//! Media that are made or written anew: what is found there where that was cut short belongs to the record that holds nothing.
//!
//! A medium that is recycled has for a moment an old record and a new header, or none. Whoever comes next goes on from there: its pool,
//! its set, its label and its history stay what they were.

use capstan_address::Address;
use capstan_engine::problem::Problem;
use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_idb::{Medium, Pool};
use capstan_medium::DeviceError;

use super::changed::ways::ON_IT;
use super::{is_place_here, shown};
use crate::Cell;
use crate::error::{CellError, MediumRefusal, Result};

impl Cell {
    /// The record of a tape of a library, where nothing is known to be on it. Of one that is written no more, or is another cell's, none.
    pub(crate) fn empty_on_tape(&self, address: &Address) -> Result<Option<Medium>> {
        let Some((tape, _)) = address.as_named_tape() else {
            return Ok(None);
        };
        let place = Address::from(tape.recorded());
        let mut found = None;
        for medium in self.idb.media()? {
            if medium.device == place && self.is_empty(medium.id)? {
                let of = self.idb.management(medium.id)?;
                let is_written = of.retired_us.or(of.exported_us).is_none();
                found = Some(medium).filter(|_| is_written && !of.is_other_cells()).or(found);
            }
        }
        Ok(found)
    }

    /// Makes the record of a medium that holds nothing that of another one of this cell, which is not known, has its label, and is found
    /// in its place: there it was written anew.
    pub(crate) fn take_over(&self, device: &Address, header: &MediumHeader) -> Result<()> {
        if header.cell != Some(self.id) || self.idb.medium(header.medium)?.is_some() {
            return Ok(());
        }
        for old in self.idb.media()? {
            let is_it = old.device == *device && old.label == header.label;
            let is_tape = || old.device.is_tape();
            if is_it && (is_tape() || is_place_here(&self.idb, &old)) && self.is_empty(old.id)? {
                return self.replace_by(&old, header);
            }
        }
        Ok(())
    }

    /// A medium by what is in its place now: where it was written anew and that was cut short, its record is put right first.
    pub(crate) fn settled(&self, medium: Medium) -> Result<Medium> {
        if !self.is_empty(medium.id)? {
            return Ok(medium);
        }
        let Ok(there) = self.devices.medium(&medium.device) else { return Ok(medium) };
        let header = there.header();
        if header.medium != medium.id {
            self.take_over(&medium.device, header)?;
        }
        let now = self.idb.medium(header.medium)?;
        Ok(now.filter(|now| now.device == medium.device).unwrap_or(medium))
    }

    /// The same of the media of a pool in directories, which are chosen only where they are what is known. What is on tapes shows when
    /// they are loaded.
    pub(crate) fn settle_directories(&self, pool: &Pool) -> Result<()> {
        for medium in self.idb.media()? {
            let of = self.idb.management(medium.id)?.pool;
            let is_of_pool =
                of.is_some() && (of == pool.free_pool || of.as_ref() == Some(&pool.name));
            let in_directories = || medium.device.tapes().is_empty();
            if is_of_pool && in_directories() && is_place_here(&self.idb, &medium) {
                self.settled(medium)?;
            }
        }
        Ok(())
    }

    /// The error for a tape of a library that holds nothing, and on which no medium is any more.
    pub(super) fn without_header(
        &self,
        medium: &Medium,
        address: &Address,
        e: &DeviceError,
    ) -> Option<CellError> {
        let empty = self.empty_on_tape(address).ok()?.filter(|empty| empty.id == medium.id)?;
        matches!(e, DeviceError::NoMedium(_)).then(|| {
            CellError::from(MediumRefusal::HeaderGone {
                medium: shown(empty.id, &empty.label),
                label: empty.label,
                device: address.clone(),
            })
        })
    }

    /// Makes the record of a medium that holds nothing that of the one which was made in its place.
    pub(crate) fn replace_by(&self, old: &Medium, header: &MediumHeader) -> Result<()> {
        let row = Medium {
            id: header.medium,
            block_size: header.block_size,
            created_us: header.created_us,
            ..old.clone()
        };
        Ok(self.idb.replace_medium(old.id, &row)?)
    }

    /// Refuses what turns out to be on a device that a pool chose, where the pool would not choose that: what is written goes to the pool or
    /// nowhere, and what holds something is appended to only where the pool lets it be.
    pub(crate) fn refuse_not_chosen(
        &self,
        pool: &str,
        address: &Address,
        found: &MediumHeader,
    ) -> Result<()> {
        self.refuse_not_of_pool(pool, address, found)?;
        // One that was given up, and not written anew, holds what it held.
        if self.pool(pool)?.appendable || self.is_empty(found.medium)? {
            return Ok(());
        }
        Err(CellError::Exchanged(
            Problem::new(format!(
                "{} in {address} holds more than was recorded, and pool '{pool}' appends to none",
                shown(found.medium, &found.label)
            ))
            .hint("give the command again"),
        ))
    }

    /// Refuses a medium that is none of the pool, and marks the medium of the pool that was to be on its tape.
    fn refuse_not_of_pool(
        &self,
        pool: &str,
        address: &Address,
        found: &MediumHeader,
    ) -> Result<()> {
        let is_of_pool =
            |id| Ok::<_, CellError>(self.idb.management(id)?.pool.as_deref() == Some(pool));
        if is_of_pool(found.medium)? {
            return Ok(());
        }
        let name = shown(found.medium, &found.label);
        if let Some((tape, _)) = address.as_named_tape() {
            let place = Address::from(tape.recorded());
            for row in self.idb.media()? {
                if row.device == place && row.id != found.medium && is_of_pool(row.id)? {
                    return Err(self.mark_changed(&row, address, &format!("{name} {ON_IT}"))?);
                }
            }
        }
        // Somebody took it out of the pool since it was chosen.
        match self.idb.medium(found.medium)? {
            Some(_) => Err(MediumRefusal::LeftPool { medium: name, pool: pool.to_owned() }.into()),
            None => Ok(()),
        }
    }

    /// Whether nothing is known to be on a medium.
    fn is_empty(&self, medium: MediumId) -> Result<bool> {
        Ok(self.idb.last_segment_number(medium)?.is_none())
    }
}
