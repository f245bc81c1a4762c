//! Where copies are staged to.

use capstan_devices::address::Address;
use capstan_format::id::MediumId;
use capstan_media_agent::mirror::Member;

use super::StageRequest;
use super::source::Sources;
use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{CellError, Result};
use crate::media::libraries::is_of;
use crate::supply::Wanted;
use crate::supply::by_hand::Choice;
use crate::supply::tapes::{NOT_AS_WRITTEN, Queue};

/// The media on which a copy counts as staged.
pub(crate) enum Target {
    /// Those of a pool.
    Pool(String),
    /// The tapes of a library, or arrays of tapes of such.
    Library(Address),
    /// One.
    Medium(MediumId),
}

impl Target {
    /// What a request names; `opened` is the medium that was opened for it.
    pub fn of(request: &StageRequest, opened: MediumId) -> Self {
        match (&request.pool, &request.device) {
            (Some(pool), _) => Self::Pool(pool.clone()),
            (None, device) if device.names_no_medium() => Self::Library(device.clone()),
            (None, _) => Self::Medium(opened),
        }
    }

    /// What a request names, before anything is opened for it; nothing where that is not known yet.
    pub fn foreseen(cell: &Cell, request: &StageRequest) -> Option<Self> {
        match (&request.pool, &request.device) {
            (Some(pool), _) => Some(Self::Pool(pool.clone())),
            (None, device) if device.names_no_medium() => Some(Self::Library(device.clone())),
            (None, device) => Some(Self::Medium(cell.find_medium(&device.to_string()).ok()?.id)),
        }
    }

    /// Whether a copy on that medium is one there. What is on one that was found damaged, is worn or retired, or left the house,
    /// cannot be relied on.
    pub fn has(&self, cell: &Cell, medium: MediumId) -> bool {
        let Ok(management) = cell.idb.management(medium) else { return false };
        let is_out = management.exported_us.is_some() || management.retired_us.is_some();
        let is_at_fault = management.damaged_us.is_some() || management.changed_us.is_some();
        if is_at_fault || is_out || cell.refuse_poor(medium).is_err() {
            return false;
        }
        match self {
            Self::Pool(pool) => management.pool.as_ref() == Some(pool),
            Self::Library(library) => {
                let device = cell.idb.medium(medium).ok().flatten().map(|row| row.device);
                let address = device.and_then(|device| device.parse::<Address>().ok());
                address.is_some_and(|address| is_of(&address, library))
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
        passed.extend(sources.ids().into_iter().map(|id| (id, "is what is to be copied")));
        let (block_size, new_medium) = (request.block_size, request.new_medium);
        let wanted = Wanted { block_size, by_drive, new_medium, as_it_is: false };
        let mut queue = Queue::begin(&self.devices);
        let member = loop {
            let mut chosen = None;
            let address = match &request.pool {
                Some(pool) => {
                    let medium = self.allocate_or_wait(pool, by_drive, &mut passed, &mut queue)?;
                    chosen = Some(medium.id);
                    medium.device.parse()?
                }
                None => request.device.clone(),
            };
            if let Address::File(_) | Address::Array(_) = &address
                && let Ok(there) = self.devices.medium(&address)
                && sources.has(there.header().medium)
            {
                return Err(CellError::BadInput(format!(
                    "{address} is what is to be staged; name another target"
                )));
            }
            let choice = Choice { pool: request.pool.clone(), passed: passed.clone(), asks: false };
            match self.open_chosen(&address, &wanted, &choice) {
                Err(e)
                    if e.is_out_of_reach()
                        && let Some(id) = chosen =>
                {
                    queue.pass(id, e, &mut passed)?;
                }
                Err(e @ CellError::Changed(_)) if let Some(id) = chosen => {
                    self.passed_changed(&address.to_string(), &e);
                    passed.push((id, NOT_AS_WRITTEN));
                }
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
