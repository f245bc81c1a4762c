//! Answers what is asked of arrays.

use std::time::{Duration, Instant};

use capstan_address::{Address, ArrayAddress};
use capstan_format::id::SegmentNumber;
use capstan_medium::DeviceError;

use super::media::{Known, Said, member};
use super::opened::facts;
use super::{Asks, no_device};
use crate::connection::Broken;
use crate::devices::message::{Asked, Dev, OfArray, OfArrays as Of, OfHalfMade, Store};

/// How often it is told what was written of a member.
const PAUSE: Duration = Duration::from_millis(200);

/// The array that a name is.
fn array(name: &Dev) -> Result<&ArrayAddress, DeviceError> {
    match &name.0 {
        Address::Array(array) => Ok(array),
        other => Err(DeviceError::NoMedium(other.to_string())),
    }
}

/// Says what a member is asked as the answer.
struct Answering<'a>(&'a Asks<'a>);

impl Said for Answering<'_> {
    fn problems(&mut self, problems: Vec<String>) -> Result<(), Broken> {
        self.0.is(&problems)
    }

    fn segments(&mut self, found: Result<Vec<SegmentNumber>, DeviceError>) -> Result<(), Broken> {
        self.0.came(found)
    }
}

impl Asks<'_> {
    pub(super) fn arrays(&self, of: Of) -> Result<(), Broken> {
        let (devices, things) = (&*self.side.devices, &self.side.things);
        match of {
            Of::Array(name) => {
                let opened = array(&name).and_then(|array| devices.array(array, &Known(self)));
                self.came(opened.map(|array| things.array(array)))
            }
            Of::LookAtMember(member) => self.came(devices.look_at_member(&member.0)),
            Of::RefuseTooFewDrives(name) => {
                self.came(array(&name).and_then(|array| devices.refuse_too_few_drives(array)))
            }
            Of::MakeArray(name, header, may_go) => {
                let new_id = || self.new_id();
                self.came(
                    array(&name)
                        .and_then(|array| devices.make_array(array, &header, &may_go, &new_id)),
                )
            }
            Of::HalfMade(name) => {
                let half = array(&name).ok().and_then(|array| devices.half_made(array));
                self.is(&half.map(|half| {
                    let blank: Vec<Dev> = half.blank().into_iter().map(Dev::from).collect();
                    let stores: Vec<Store> = half.blank_stores().into_iter().map(Store).collect();
                    (half.header().clone(), blank, stores)
                }))
            }
            Of::MemberWithoutData(tape) => self.is(&devices.member_without_data(&tape.0)),
            Of::SetIncomplete(tapes, incomplete) => {
                let names = |tapes: Vec<crate::devices::message::TapeName>| -> Vec<_> {
                    tapes.into_iter().map(|tape| tape.0).collect()
                };
                devices.set_incomplete(&names(tapes), &names(incomplete));
                self.is(&())
            }
            Of::IsIncomplete(tape) => self.is(&devices.is_incomplete(&tape.0)),
        }
    }

    pub(super) fn array(&self, number: u64, of: OfArray) -> Result<(), Broken> {
        let things = &self.side.things;
        let opened = things.arrays.get(number);
        let opened = opened.as_ref().map(|array| array.lock());
        let Some(array) = opened.as_ref().and_then(|array| array.as_ref()) else {
            return self.came(Err::<(), _>(no_device()));
        };
        match of {
            OfArray::Facts => self.is(&facts(&**array)),
            OfArray::Medium => self.came(array.medium().map(|medium| things.medium(medium))),
            OfArray::Placed => self.is(&array.placed()),
            OfArray::PlacedWith(place, onto) => self.is(&array.placed_with(place, &onto.0)),
            OfArray::Lock => self.came(array.lock().map(|lock| things.locks.put(lock))),
            OfArray::Rebuild(place, onto) => {
                let new_id = || self.new_id();
                let (mut told, mut bytes) = (Instant::now(), 0);
                // Not for each block: the cell is told what was written since, and asks to stop when it wants to.
                let mut follow = |written: u64| {
                    bytes += written;
                    if told.elapsed() >= PAUSE {
                        told = Instant::now();
                        let _ = self.tell(Asked::Followed(std::mem::take(&mut bytes)));
                    }
                    !self.channel.is_stopped()
                };
                let rebuilt = array.rebuild(place, &onto.0, &new_id, &mut follow);
                if bytes > 0 {
                    self.tell(Asked::Followed(bytes))?;
                }
                self.came(rebuilt)
            }
            OfArray::Member(place, question) => {
                member(&**array, place, question, &mut Answering(self))
            }
        }
    }

    pub(super) fn half_made(&self, name: &Dev, of: OfHalfMade) -> Result<(), Broken> {
        let OfHalfMade::Make = of;
        let devices = &*self.side.devices;
        // It is looked at anew: what another process made meanwhile stays as it is.
        let half = array(name).ok().and_then(|array| devices.half_made(array));
        let new_id = || self.new_id();
        self.came(half.map_or(Ok(()), |half| half.make(&new_id)))
    }
}
