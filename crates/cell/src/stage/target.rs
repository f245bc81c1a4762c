//! Where copies are staged to.

use capstan_devices::address::{Address, TapeAddress};
use capstan_format::id::MediumId;
use capstan_media_agent::mirror::Member;

use super::StageRequest;
use super::source::Sources;
use crate::Cell;
use crate::backup::Wanted;
use crate::by_hand::Choice;
use crate::drive_key::ByDrive;
use crate::error::{CellError, Result};

/// The media on which a copy counts as staged.
pub(super) enum Target {
    /// Those of a pool.
    Pool(String),
    /// The tapes of a library.
    Library(TapeAddress),
    /// One.
    Medium(MediumId),
}

impl Target {
    /// What a request names; `opened` is the medium that was opened for it.
    pub fn of(request: &StageRequest, opened: MediumId) -> Self {
        match (&request.pool, &request.device) {
            (Some(pool), _) => Self::Pool(pool.clone()),
            (None, Address::Tape(tape)) if tape.tape.is_none() => Self::Library(tape.resolved()),
            (None, _) => Self::Medium(opened),
        }
    }

    /// Whether a copy on that medium is one there. What is on one that was found damaged, or that left the house, cannot be
    /// relied on.
    pub fn has(&self, cell: &Cell, medium: MediumId) -> bool {
        let Ok(management) = cell.idb.management(medium) else { return false };
        if management.damaged_us.is_some() || management.exported_us.is_some() {
            return false;
        }
        match self {
            Self::Pool(pool) => management.pool.as_ref() == Some(pool),
            Self::Library(library) => {
                let device = cell.idb.medium(medium).ok().flatten().map(|row| row.device);
                let address = device.and_then(|device| device.parse().ok());
                matches!(address, Some(Address::Tape(tape)) if tape.library == library.library)
            }
            Self::Medium(target) => *target == medium,
        }
    }
}

impl Cell {
    /// Opens the medium that is written to, none of those that were `passed` over.
    pub(super) fn stage_member(
        &self,
        request: &StageRequest,
        by_drive: ByDrive,
        passed: &[(MediumId, &'static str)],
        sources: &Sources,
    ) -> Result<Member> {
        let mut passed = passed.to_vec();
        let wanted = Wanted { block_size: request.block_size, by_drive };
        let member = loop {
            let address = match &request.pool {
                Some(pool) => {
                    let medium = self.allocate(pool, by_drive, &passed, false)?;
                    passed.push((medium.id, "is in use"));
                    medium.device.parse()?
                }
                None => request.device.clone(),
            };
            if let Address::File(_) | Address::Array(_) = &address
                && let Ok(there) = capstan_devices::open::medium(&address)
                && sources.has(there.header().medium)
            {
                return Err(CellError::BadInput(format!(
                    "{address} is what is to be staged; name another target"
                )));
            }
            let ids: Vec<_> = passed.iter().map(|(id, _)| *id).collect();
            match self.open_chosen(&address, &wanted, &Choice::but(&ids)) {
                Err(CellError::Device(e)) if e.is_out_of_reach() && request.pool.is_some() => {}
                other => break other?,
            }
        };
        let id = member.medium.medium;
        if self.idb.management(id)?.damaged_us.is_some() {
            return Err(CellError::BadInput(format!(
                "damage was found on medium '{}'; stage to another one",
                member.medium.label
            )));
        }
        Ok(member)
    }
}
