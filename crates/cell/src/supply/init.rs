//! Making media.

use capstan_address::Address;
use capstan_format::block::is_block_size;
use capstan_format::record::MediumHeader;
use capstan_idb::{Medium, RotationSet};
use capstan_medium::OpenMedium;
use capstan_medium::host::placed::Placed;

use crate::Cell;
use crate::error::{CellError, Result, SupplyRefusal};
use crate::media::{BLOCK_SIZE, MediumInfo, shown};
use crate::session::waited::patiently;
use crate::supply::labels::check_text_of_label;
use crate::supply::labels::rule::LabelRule;

/// A medium to make.
#[derive(Debug, Clone, Default)]
pub struct Initialise {
    /// Its label, or a rule for it; by default that of its pool, else the directory's or tape's name.
    pub label: Option<LabelRule>,
    /// The pool it comes into.
    pub pool: Option<String>,
    /// The rotation set of the pool.
    pub set: Option<RotationSet>,
    /// Its block size in bytes.
    pub block_size: Option<u32>,
    /// Whether it is made though another one was there, or a disk is not mounted there.
    pub new_medium: bool,
}

impl Cell {
    /// Makes a medium in an empty or new directory, or on a blank tape.
    pub fn media_init(&self, address: &Address, wanted: &Initialise) -> Result<MediumInfo> {
        patiently(&*self.devices, || self.media_init_now(address, wanted))
    }

    /// The same, at once: what others have is an error.
    pub(crate) fn media_init_now(
        &self,
        address: &Address,
        wanted: &Initialise,
    ) -> Result<MediumInfo> {
        let size = wanted.block_size.unwrap_or(BLOCK_SIZE);
        if !is_block_size(size) {
            return Err(SupplyRefusal::BlockSizeOutOfRange { size }.into());
        }
        if let Some(pool) = &wanted.pool {
            self.pool(pool)?;
        }
        let held = |there: &OpenMedium| {
            CellError::from(SupplyRefusal::HoldsMedium {
                device: address.clone(),
                medium: shown(there.header().medium, &there.header().label),
            })
        };
        match self.devices.medium(address) {
            Ok(there) if self.is_begun(address, &there)? => {}
            Ok(there) => return Err(held(&there)),
            Err(_) => self.refuse_taken(address, wanted.new_medium)?,
        }
        let empty = self.empty_on_tape(address)?;
        let label = match &empty {
            Some(empty) if wanted.label.is_none() => empty.label.clone(),
            _ => self.label_by_rule(address, wanted, &[])?,
        };
        match &wanted.label {
            Some(_) if empty.as_ref().is_some_and(|empty| empty.label == label) => {}
            Some(_) => self.check_label(&label)?,
            // Where another one gets it meanwhile, this one gets a number.
            None => check_text_of_label(&label)?,
        }
        let new = || self.new_medium(&label, size);
        let opened = self.devices.writable(address, &new, None, &())?;
        let is_new = std::cell::Cell::new(false);
        let device = opened.judged(|there, made| {
            is_new.set(made);
            if made || self.is_begun(address, there)? { Ok(()) } else { Err(held(there)) }
        })?;
        let (placed, mut header) = (device.placed(address), device.medium().header().clone());
        // Nobody else writes to it until it is recorded.
        let device = match is_new.get() {
            true => Some(device),
            false => {
                header = new().map_err(CellError::io("read", "/dev/urandom"))?;
                device.begin_anew(&header)?;
                None
            }
        };
        let row = self.record_made(&placed, &header, wanted, empty)?;
        drop(device);
        self.medium_info(&row)
    }

    /// Makes a tape of a library that was found blank, and whose record holds nothing, that medium again.
    pub(crate) fn given_header_again(&self, medium: &Medium) -> Result<Option<Medium>> {
        let address = &medium.device;
        if self.empty_on_tape(address)?.is_none_or(|empty| empty.id != medium.id)
            || !patiently(&*self.devices, || Ok(self.devices.is_blank(address)?))?
        {
            return Ok(None);
        }
        let wanted = Initialise { block_size: Some(medium.block_size), ..Initialise::default() };
        Ok(Some(self.media_init(address, &wanted)?.medium))
    }

    /// Records a medium that was made, in the place of the record of one that was `empty` there.
    fn record_made(
        &self,
        placed: &Placed,
        header: &MediumHeader,
        wanted: &Initialise,
        empty: Option<Medium>,
    ) -> Result<Medium> {
        let mut pool = wanted.pool.as_deref().map(|pool| (pool, wanted.set));
        if let Some(empty) = empty {
            // It keeps its set.
            let of = self.idb.management(empty.id)?;
            pool.take_if(|(pool, set)| set.is_none() && of.pool.as_deref() == Some(*pool));
            self.replace_by(&empty, header)?;
        }
        self.put_medium_in(placed, header, pool)
    }

    /// Whether the making of a medium was cut short on a tape: it has the header of one of this cell that is not known, and nothing else.
    fn is_begun(&self, address: &Address, there: &OpenMedium) -> Result<bool> {
        let header = there.header();
        let is_ours = header.cell == Some(self.id) && !header.is_array();
        Ok(address.is_tape()
            && is_ours
            && self.idb.medium(header.medium)?.is_none()
            && there.segments()?.is_empty())
    }
}
