//! Arrays whose making did not end: a kill or a power cut left some members with their headers and the others with nothing. As long as
//! no member has more than that, the others can be made as they would have been.

use std::collections::BTreeSet;

use capstan_address::{Address, ArrayAddress, StoreAddress, TapeAddress};
use capstan_format::record::MediumHeader;
use capstan_medium::DeviceError;
use capstan_medium::error::io_error;
use capstan_medium::host::Stores;
use capstan_medium::host::arrays::{HalfMade, NewId};
use capstan_medium::host::stores::InStore;

use super::drives;
use super::make::{Claims, claims, make_one};
use crate::host::LocalDevices;
use crate::tape;

/// An array of which some members are still to be made.
pub struct Half {
    host: LocalDevices,
    plan: Plan,
}

/// An array, or one that is a member of another: its header, and its members with their places.
struct Plan {
    layout: capstan_format::array::Layout,
    header: MediumHeader,
    members: Vec<(usize, Address, Found)>,
}

/// What is at a member's device.
enum Found {
    Blank,
    /// Its header, and no more.
    Made(MediumHeader),
    Half(Plan),
}

impl Found {
    fn header(&self) -> Option<&MediumHeader> {
        match self {
            Self::Blank => None,
            Self::Made(header) | Self::Half(Plan { header, .. }) => Some(header),
        }
    }
}

/// Whether an array is half made: at each of its members is nothing, or the header of a member of this array and nothing else. What cannot be
/// looked at counts as something else: who opens the array says what is wrong.
pub fn look(host: &LocalDevices, address: &ArrayAddress) -> Option<Half> {
    drives::check(host, address).ok()?;
    match look_at_array(host, address)? {
        Found::Half(plan) if plan.header.array.is_none() => Some(Half { host: host.clone(), plan }),
        _ => None,
    }
}

/// The header of a member of an array on a tape that has nothing else: no segment was ever written to it.
pub fn member_without_data(host: &LocalDevices, tape: &TapeAddress) -> Option<MediumHeader> {
    match look_at(host, &Address::Tape(tape.clone()))? {
        Found::Made(header) => Some(header).filter(MediumHeader::is_array),
        Found::Blank | Found::Half(_) => None,
    }
}

fn look_at(host: &LocalDevices, address: &Address) -> Option<Found> {
    match address {
        Address::Store(store) => match host.look_in(store).ok()? {
            InStore::Nothing => Some(Found::Blank),
            InStore::HeaderOnly => host.header_in(store).ok().map(Found::Made),
            InStore::More => None,
        },
        Address::Tape(of) => {
            let of = host.named(of).ok()?;
            match tape::is_blank(host, of).ok()? {
                true => Some(Found::Blank),
                false if tape::has_header_only(host, of).ok()? => tape::open_member(host, of)
                    .ok()
                    .map(|there| Found::Made(there.header().clone())),
                false => None,
            }
        }
        Address::Array(array) => look_at_array(host, array),
        Address::Null { .. } | Address::Unknown(_) => None,
    }
}

fn look_at_array(host: &LocalDevices, array: &ArrayAddress) -> Option<Found> {
    let found: Vec<Found> =
        array.members.iter().map(|member| look_at(host, member)).collect::<Option<_>>()?;
    let mut taken = BTreeSet::new();
    let mut header = None;
    for member in found.iter().filter_map(Found::header) {
        let place = member.array.as_ref()?;
        let of_array = member.of_array();
        // One of which a member was written anew was whole before.
        let is_of_it = (header.is_none() || header == of_array)
            && place.layout().is_ok_and(|layout| layout == array.layout)
            && place.rebuilt.is_empty()
            && taken.insert(place.member as usize);
        header = of_array.filter(|_| is_of_it);
        header.as_ref()?;
    }
    let Some(header) = header else { return Some(Found::Blank) };
    if found.iter().all(|member| matches!(member, Found::Made(_))) {
        return Some(Found::Made(header));
    }
    let mut members = Vec::new();
    for (at, (address, member)) in array.members.iter().zip(found).enumerate() {
        let said = member.header().and_then(|header| header.array.as_ref());
        // A blank one gets the place where it is named, or one that is left.
        let place = said.map_or_else(
            || [at].into_iter().chain(0..array.members.len()).find(|place| taken.insert(*place)),
            |place| Some(place.member as usize),
        )?;
        members.push((place, address.clone(), member));
    }
    Some(Found::Half(Plan { layout: array.layout, header, members }))
}

impl HalfMade for Half {
    fn header(&self) -> &MediumHeader {
        &self.plan.header
    }

    fn blank(&self) -> Vec<&Address> {
        self.plan.blank()
    }

    fn blank_stores(&self) -> Vec<StoreAddress> {
        self.blank().into_iter().flat_map(Address::stores).collect()
    }

    fn make(&self, new_id: NewId<'_>) -> Result<(), DeviceError> {
        let mut tapes = Claims::new();
        for member in self.blank() {
            tapes.extend(claims(&self.host, member, &[])?);
        }
        self.plan.make(&self.host, &tapes, new_id)
    }
}

impl Plan {
    fn blank(&self) -> Vec<&Address> {
        let mut blank = Vec::new();
        for (_, address, found) in &self.members {
            match found {
                Found::Blank => blank.push(address),
                Found::Made(_) => {}
                Found::Half(plan) => blank.extend(plan.blank()),
            }
        }
        blank
    }

    fn make(
        &self,
        host: &LocalDevices,
        tapes: &Claims,
        new_id: NewId<'_>,
    ) -> Result<(), DeviceError> {
        for (place, address, found) in &self.members {
            match found {
                Found::Blank => {
                    let id =
                        new_id().map_err(io_error("make a new medium in", &address.to_string()))?;
                    let header = self.header.of_member(id, self.layout, *place);
                    make_one(host, address, &header, tapes, new_id)?;
                }
                Found::Made(_) => {}
                Found::Half(plan) => plan.make(host, tapes, new_id)?,
            }
        }
        Ok(())
    }
}
