//! Where a synthetic full goes: a directory, a tape, tapes of a library, or media of a pool.
//!
//! A tape that the versions are read from is not written: the drive would wind between the two for every block.

use capstan_address::Address;
use capstan_format::id::MediumId;
use capstan_port::media::write::members::Member;

use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{ConsolidateRefusal, Result};
use crate::media::libraries::libraries_for;
use crate::media::recorded;
use crate::observe::Observer;
use crate::reading::version::VersionView;
use crate::request::{ConsolidateRequest, Turn};
use crate::supply::Wanted;
use crate::supply::tapes::Supply;
use crate::supply::tapes::by_hand::Choice;
use crate::supply::unfit::{IS_READ, PassedOver, why_passed};

/// Where it goes.
#[derive(Debug, Clone)]
pub(crate) struct To {
    /// The device.
    pub device: Address,
    /// The pool whose media take the device's place.
    pub pool: Option<String>,
    /// A medium that has no room.
    pub but: Option<MediumId>,
}

/// Why a medium is not written that a consolidation found too small.
pub(super) const NO_ROOM: &str = "has no room";

impl To {
    /// To a pool.
    pub fn pool(pool: String) -> Self {
        Self { pool: Some(pool), ..Self::device(Address::Null { rate: None }) }
    }

    /// To another medium of a pool.
    pub fn other_of_pool(pool: String, than: MediumId) -> Self {
        Self { but: Some(than), ..Self::pool(pool) }
    }

    /// To a device.
    pub fn device(device: Address) -> Self {
        Self { device, pool: None, but: None }
    }

    /// Where media come from when one ends or fails, without those that are read.
    pub fn supply(&self, by_drive: ByDrive, sources: &[MediumId]) -> Supply {
        let supply = Supply::of(self.pool.as_deref(), [&self.device]);
        let sources = sources.iter().map(|id| (*id, IS_READ.into()));
        supply.encrypted(by_drive).but(sources.chain(self.but.map(|id| (id, NO_ROOM.into()))))
    }

    /// How sessions are recorded.
    pub fn name(&self) -> String {
        self.pool.as_ref().map_or_else(|| recorded(&self.device), |pool| format!("pool:{pool}"))
    }
}

impl Cell {
    /// Where a request says, or where the newest of the version is: beside it on the same disk, on another tape of its pool or
    /// library.
    pub(super) fn consolidate_to(
        &self,
        request: &ConsolidateRequest,
        view: &VersionView<'_>,
    ) -> Result<To> {
        match (&request.pool, &request.device) {
            (Some(pool), _) => {
                self.pool(pool)?;
                Ok(To::pool(pool.clone()))
            }
            (None, Some(device)) => Ok(To::device(device.clone())),
            (None, None) => self.to_where_it_is(view),
        }
    }

    fn to_where_it_is(&self, view: &VersionView<'_>) -> Result<To> {
        let places = view.segments.last().map(|s| s.places()).unwrap_or_default();
        for (_, medium, _) in places {
            let Some(known) = self.idb.medium(medium)? else { continue };
            let device = known.device;
            let pool = self.idb.management(medium)?.pool;
            return Ok(match (libraries_for(&device), pool) {
                (Some(_), Some(pool)) => To::pool(pool),
                (Some(libraries), None) => To::device(libraries),
                (None, _) => To::device(device),
            });
        }
        Err(ConsolidateRefusal::UnknownTarget.into())
    }

    /// The tapes from which a version and what it builds on are read.
    pub(super) fn tapes_read(&self, view: &VersionView<'_>) -> Result<Vec<MediumId>> {
        let mut tapes: Vec<MediumId> = Vec::new();
        for (_, medium, _) in view.segments.iter().flat_map(|segment| segment.places()) {
            if !tapes.contains(&medium) && view.media.is_sequential(medium)? {
                tapes.push(medium);
            }
        }
        Ok(tapes)
    }

    /// Opens a medium to write to, none of those that were `passed` over.
    pub(super) fn open_to(
        &self,
        to: &To,
        wanted: &Wanted,
        passed: &[PassedOver],
        observer: &dyn Observer,
    ) -> Result<Member> {
        let choice = Choice::but(passed);
        let member = match &to.pool {
            Some(pool) => {
                return self.open_medium_of(pool, Turn::of_now(), wanted, &mut passed.to_vec());
            }
            None if to.device.names_no_medium() => {
                return self.open_chosen(&to.device, wanted, &choice);
            }
            None => self.open_device(&to.device, wanted, observer)?,
        };
        if why_passed(passed, member.medium.medium).is_some() {
            return Err(
                ConsolidateRefusal::SourceIsTarget { label: member.medium.label.clone() }.into()
            );
        }
        Ok(member)
    }
}
