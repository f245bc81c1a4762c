//! Making media.

use capstan_devices::address::Address;
use capstan_devices::medium::OpenMedium;
use capstan_format::block::is_block_size;

use crate::Cell;
use crate::error::{CellError, Result};
use crate::media::{BLOCK_SIZE, MediumInfo, shown};
use crate::session::waited::patiently;
use crate::supply::label_rule::LabelRule;
use crate::supply::labels::check_text_of_label;

/// A medium to make.
#[derive(Debug, Clone, Default)]
pub struct Initialise {
    /// Its label, or a rule for it; by default that of its pool, else the directory's or tape's name.
    pub label: Option<LabelRule>,
    /// The pool it comes into.
    pub pool: Option<String>,
    /// Its block size in bytes.
    pub block_size: Option<u32>,
    /// Whether it is made though another one was there, or a disk is not mounted there.
    pub new_medium: bool,
}

impl Cell {
    /// Makes a medium in an empty or new directory, or on a blank tape.
    pub fn media_init(&self, address: &Address, wanted: &Initialise) -> Result<MediumInfo> {
        patiently(&self.devices, || self.media_init_now(address, wanted))
    }

    /// The same, at once: what others have is an error.
    pub(crate) fn media_init_now(
        &self,
        address: &Address,
        wanted: &Initialise,
    ) -> Result<MediumInfo> {
        let size = wanted.block_size.unwrap_or(BLOCK_SIZE);
        if !is_block_size(size) {
            return Err(CellError::BadInput(format!(
                "the block size {size} is out of range; it is 64 KiB to 8 MiB, a multiple of 4 KiB"
            )));
        }
        if let Some(pool) = &wanted.pool {
            self.pool(pool)?;
        }
        let held = |there: &OpenMedium| {
            CellError::BadInput(format!(
                "{address} holds {} already; `capstan media recycle` gives up what a medium holds, `capstan media import` \
                 makes it known",
                shown(there.header().medium, &there.header().label)
            ))
        };
        if let Ok(there) = self.devices.medium(address) {
            return Err(held(&there));
        }
        self.refuse_taken(address, wanted.new_medium)?;
        let label = self.label_by_rule(address, wanted, &[])?;
        match &wanted.label {
            Some(_) => self.check_label(&label)?,
            // Where another one gets it meanwhile, this one gets a number.
            None => check_text_of_label(&label)?,
        }
        let opened = self.devices.writable(address, || self.new_medium(&label, size), None)?;
        let judge = |there: &OpenMedium, is_new| if is_new { Ok(()) } else { Err(held(there)) };
        let device = opened.judged(judge)?;
        let row = self.put_medium_of(&device.placed(address), device.medium().header())?;
        if wanted.pool.is_some() {
            self.idb.set_medium_pool(row.id, wanted.pool.as_deref(), None)?;
        }
        drop(device);
        self.medium_info(&row)
    }
}
