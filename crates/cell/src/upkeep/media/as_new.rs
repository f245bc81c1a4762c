//! A copy of a medium's directory becomes a medium of its own.
//!
//! Two directories with one identity (`cp -a`, a cloned disk) would give two segments one number, and whoever reads would get the one
//! for the other. The copy gets a new identity in its header file; its segments stay what they are, and lie on both media.

use capstan_address::Address;
use capstan_engine::message::shell_word;
use capstan_engine::problem::Problem;
use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_idb::Medium;

use crate::Cell;
use crate::error::{CellError, Result, UpkeepRefusal};
use crate::media::owner::refuse_other;
use crate::media::{MediumInfo, is_place_here, shown};
use crate::observe::{Observer, Stop};

impl Cell {
    /// Gives the medium in a directory a new identity, as one of this cell, and records what it has. Refused where it is the
    /// medium as it was last written, and, unless what is written from now on is to be `unencrypted`, where its backups are encrypted
    /// and this home has no key ring.
    pub fn media_adopt_as_new(
        &self,
        what: &str,
        unencrypted: bool,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<MediumInfo> {
        // A directory, whatever is called so; but not where another medium is.
        self.known_medium(what)?;
        let address: Address = what.parse()?;
        if address.as_store().is_none() {
            return Err(UpkeepRefusal::NoDirectory { device: address }.into());
        }
        let there = self.devices.medium(&address)?;
        let old = there.header().clone();
        let known = self.idb.medium(old.medium)?;
        let is_here =
            |row: &Medium| row.device == address.recorded() && is_place_here(&self.idb, row);
        let here = known.as_ref().is_some_and(is_here);
        if let Some(row) = &known
            && here
            && self.difference(&address, &there)?.is_none()
        {
            return Err(UpkeepRefusal::TheOriginal {
                device: address,
                medium: shown(row.id, &row.label),
            }
            .into());
        }
        if !unencrypted {
            self.refuse_open(&there, &address)?;
        }
        let nobody = || Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        let opened = self.devices.writable(&address, &nobody, None, &())?;
        let device = opened.judged(|now, _| refuse_other(&there, now))?;
        let new = MediumHeader {
            medium: MediumId(self.new_id()?),
            label: self.new_label(&address)?,
            cell: Some(self.id),
            ..old.clone()
        };
        device.replace_header(&new)?;
        if here {
            // What was not as it was written is another medium now; the one that was written is away.
            self.idb.set_medium_changed(old.medium, None)?;
        }
        self.import_medium(&address, None, observer, stop)?;
        let row = self.idb.medium(new.medium)?;
        let row = row.ok_or_else(|| {
            CellError::Unfinished(
                Problem::new(format!(
                    "{address} is {} now, and could not be recorded",
                    shown(new.medium, &new.label)
                ))
                .hint(format!("`capstan import {}` does that", shell_word(&address))),
            )
        })?;
        self.medium_info(&row)
    }
}
