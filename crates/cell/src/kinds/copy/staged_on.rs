//! The media on which a copy counts as staged.

use capstan_address::Address;
use capstan_format::id::MediumId;

use crate::Cell;
use crate::media::libraries::is_of;
use crate::request::{StageRequest, Turn};

/// The media on which a copy counts as staged.
pub(crate) enum Target {
    /// Those of a pool; where they stand in for a medium of a rotation set, those of that set.
    Pool(String, Turn),
    /// The tapes of a library, or arrays of tapes of such.
    Library(Address),
    /// One.
    Medium(MediumId),
}

impl Target {
    /// What a request names; `opened` is the medium that was opened for it.
    pub fn of(request: &StageRequest, opened: MediumId) -> Self {
        match (&request.pool, &request.device) {
            (Some(pool), _) => Self::Pool(pool.clone(), request.turn),
            (None, device) if device.names_no_medium() => Self::Library(device.clone()),
            (None, _) => Self::Medium(opened),
        }
    }

    /// What a request names, before anything is opened for it; nothing where that is not known yet.
    pub fn foreseen(cell: &Cell, request: &StageRequest) -> Option<Self> {
        match (&request.pool, &request.device) {
            (Some(pool), _) => Some(Self::Pool(pool.clone(), request.turn)),
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
            Self::Pool(pool, turn) => {
                let is_of_set = match turn {
                    Turn::Night(_) => true,
                    Turn::InPlaceOf(set) => management.rotation_set == *set,
                };
                is_of_set && management.pool.as_ref() == Some(pool)
            }
            Self::Library(library) => {
                let device = cell.idb.medium(medium).ok().flatten().map(|row| row.device);
                device.is_some_and(|device| is_of(&device, library))
            }
            Self::Medium(target) => *target == medium,
        }
    }
}
