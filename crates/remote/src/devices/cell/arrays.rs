//! Arrays of a device host, opened from a cell.

use capstan_address::{Address, ArrayAddress, StoreAddress, TapeAddress};
use capstan_format::id::{MediumId, SegmentNumber};
use capstan_format::record::MediumHeader;
use capstan_medium::host::arrays::{ArrayMember, Follow, HalfMade, NewId, Rebuilt};
use capstan_medium::host::placed::Placed;
use capstan_medium::host::{Arrays, KnownMembers, OpenArray};
use capstan_medium::{DeviceError, LostMember, OpenMedium};
use serde::de::DeserializeOwned;

use super::Known;
use super::storage::{broke, medium};
use crate::connection::{Broken, Channel};
use crate::devices::RemoteDevices;
use crate::devices::crosses::Crosses;
use crate::devices::far::Stand;
use crate::devices::message::{
    ArrayFacts, Asked, Dev, Judging, Kind, MediumFound, OfArray, OfArrays as Of, OfHalfMade,
    OfMember, Question, Store,
};

fn of(question: Of) -> Question {
    Question::Arrays(question)
}

fn name(of: &ArrayAddress) -> Dev {
    Dev(Address::Array(of.clone()))
}

impl Arrays for RemoteDevices {
    fn array(
        &self,
        address: &ArrayAddress,
        known: &dyn KnownMembers,
    ) -> Result<Box<dyn OpenArray>, DeviceError> {
        self.introduce();
        let known = Known { new_header: None, new_id: None, known };
        let question = of(Of::Array(name(address)));
        let mut answer = |channel: &Channel, asked| known.answer(channel, asked);
        let facts = self.far.call_back::<ArrayFacts, DeviceError>(&question, &mut answer)?;
        let stand = Stand::new(&self.far, Kind::Array, facts.number);
        Ok(Box::new(RemoteArray { stand, facts: Facts::of(facts)? }))
    }

    fn look_at_member(&self, member: &Address) -> Result<MediumId, DeviceError> {
        self.call(&of(Of::LookAtMember(member.into())))
    }

    fn refuse_too_few_drives(&self, array: &ArrayAddress) -> Result<(), DeviceError> {
        self.call(&of(Of::RefuseTooFewDrives(name(array))))
    }

    fn make_array(
        &self,
        address: &ArrayAddress,
        header: &MediumHeader,
        may_go: &[MediumId],
        new_id: NewId<'_>,
    ) -> Result<(), DeviceError> {
        self.introduce();
        let known = Known { new_header: None, new_id: Some(new_id), known: &() };
        let header = Box::new(header.clone());
        let question = of(Of::MakeArray(name(address), header, may_go.to_vec()));
        self.far.call_back(&question, &mut |channel, asked| known.answer(channel, asked))
    }

    fn half_made(&self, address: &ArrayAddress) -> Option<Box<dyn HalfMade + '_>> {
        type Found = Option<(MediumHeader, Vec<Dev>, Vec<Store>)>;
        let found = self.ask::<Found>(&of(Of::HalfMade(name(address)))).ok().flatten()?;
        let (header, blank, stores) = found;
        let blank = blank.into_iter().map(|member| member.0).collect();
        let stores = stores.into_iter().map(|store| store.0).collect();
        let array = name(address);
        Some(Box::new(RemoteHalf { devices: self, array, header, blank, stores }))
    }

    fn member_without_data(&self, tape: &TapeAddress) -> Option<MediumHeader> {
        self.ask::<Option<MediumHeader>>(&of(Of::MemberWithoutData(tape.into()))).ok().flatten()
    }

    fn set_incomplete(&self, tapes: &[TapeAddress], incomplete: &[TapeAddress]) {
        let names = |tapes: &[TapeAddress]| tapes.iter().map(Into::into).collect();
        self.tell(&of(Of::SetIncomplete(names(tapes), names(incomplete))));
    }

    fn is_incomplete(&self, tape: &TapeAddress) -> bool {
        self.ask(&of(Of::IsIncomplete(tape.into()))).unwrap_or(false)
    }
}

/// What an array is.
struct Facts {
    address: ArrayAddress,
    facts: ArrayFacts,
}

impl Facts {
    fn of(facts: ArrayFacts) -> Result<Self, DeviceError> {
        match facts.array() {
            Some(address) => Ok(Self { address: address.clone(), facts }),
            None => Err(broke(&Broken::Message("an array has another name".to_owned()))),
        }
    }
}

/// What stands for an array that was opened.
struct RemoteArray {
    stand: Stand,
    facts: Facts,
}

impl RemoteArray {
    fn of(&self, question: OfArray) -> Question {
        Question::Array(self.stand.number, question)
    }

    /// What it is now; what it was, where the connection broke.
    fn now(&self) -> ArrayFacts {
        let now = self.stand.far.ask(&self.of(OfArray::Facts));
        now.unwrap_or_else(|_| self.facts.facts.clone())
    }
}

impl OpenArray for RemoteArray {
    fn address(&self) -> &ArrayAddress {
        &self.facts.address
    }

    fn header(&self) -> MediumHeader {
        self.now().header
    }

    fn lost(&self) -> Vec<LostMember> {
        self.now().lost
    }

    fn members(&self) -> Vec<Option<Box<dyn ArrayMember + '_>>> {
        let ask = move |place, question| Asking::Host(self, place, question);
        members(&self.now().members, ask)
    }

    fn medium(&self) -> Result<OpenMedium, DeviceError> {
        let far = &self.stand.far;
        far.call(&self.of(OfArray::Medium)).map(|found: MediumFound| medium(far, found))
    }

    fn placed(&self) -> Placed {
        let placed = self.stand.far.ask(&self.of(OfArray::Placed));
        placed.unwrap_or_else(|_| Placed::from(Address::Array(self.facts.address.clone())))
    }

    fn placed_with(&self, place: usize, onto: &Address) -> Placed {
        let placed = self.stand.far.ask(&self.of(OfArray::PlacedWith(place, onto.into())));
        placed.unwrap_or_else(|_| Placed::from(Address::Array(self.facts.address.clone())))
    }

    fn lock(&self) -> Result<Box<dyn Send>, DeviceError> {
        let far = &self.stand.far;
        let number = far.call::<u64, DeviceError>(&self.of(OfArray::Lock))?;
        Ok(Box::new(Stand::new(far, Kind::Lock, number)))
    }

    fn rebuild(
        &self,
        place: usize,
        onto: &Address,
        new_id: NewId<'_>,
        follow: Follow<'_>,
    ) -> Result<Rebuilt, DeviceError> {
        let known = Known { new_header: None, new_id: Some(new_id), known: &() };
        let question = self.of(OfArray::Rebuild(place, onto.into()));
        self.stand.far.call_back(&question, &mut |channel, asked| match asked {
            Asked::Followed(bytes) => match follow(bytes) {
                true => Ok(()),
                false => channel.stop(),
            },
            asked => known.answer(channel, asked),
        })
    }
}

/// Says what of an array is unfit, which is just opened. What has to be known of its members is asked in the same conversation.
pub fn judge(channel: &Channel, facts: ArrayFacts, known: &dyn KnownMembers) -> Result<(), Broken> {
    let wrong = || Broken::Message("an array has another name".to_owned());
    let of = Facts::of(facts).map_err(|_| wrong())?;
    let unfit = known.unfit(&JudgedArray { facts: of, channel });
    channel.tell(&Judging::Is(unfit))
}

/// An array that is judged while it is opened.
struct JudgedArray<'c> {
    facts: Facts,
    channel: &'c Channel,
}

/// Nothing else is asked of an array while it is judged.
fn later<T>() -> Result<T, DeviceError> {
    let path = "an array that is not open yet".to_owned();
    let source = std::io::ErrorKind::Unsupported.into();
    Err(DeviceError::Io { action: "use".into(), path, source })
}

impl OpenArray for JudgedArray<'_> {
    fn address(&self) -> &ArrayAddress {
        &self.facts.address
    }

    fn header(&self) -> MediumHeader {
        self.facts.facts.header.clone()
    }

    fn lost(&self) -> Vec<LostMember> {
        self.facts.facts.lost.clone()
    }

    fn members(&self) -> Vec<Option<Box<dyn ArrayMember + '_>>> {
        let ask = move |place, question| Asking::Judge(self, place, question);
        members(&self.facts.facts.members, ask)
    }

    fn medium(&self) -> Result<OpenMedium, DeviceError> {
        later()
    }

    fn placed(&self) -> Placed {
        Placed::from(Address::Array(self.facts.address.clone()))
    }

    fn placed_with(&self, _: usize, _: &Address) -> Placed {
        self.placed()
    }

    fn lock(&self) -> Result<Box<dyn Send>, DeviceError> {
        later()
    }

    fn rebuild(
        &self,
        _: usize,
        _: &Address,
        _: NewId<'_>,
        _: Follow<'_>,
    ) -> Result<Rebuilt, DeviceError> {
        later()
    }
}

/// How a member is asked.
enum Asking<'a> {
    Host(&'a RemoteArray, usize, OfMember),
    Judge(&'a JudgedArray<'a>, usize, OfMember),
}

impl Asking<'_> {
    fn ask<T: DeserializeOwned>(self) -> Result<T, Broken> {
        match self {
            Self::Host(array, place, question) => {
                array.stand.far.ask(&array.of(OfArray::Member(place, question)))
            }
            Self::Judge(array, place, question) => {
                array.channel.ask(&Judging::Asks(place, question))
            }
        }
    }
}

/// The members of an array, each of which is asked so.
fn members<'a>(
    of: &[Option<MediumId>],
    ask: impl Fn(usize, OfMember) -> Asking<'a> + Copy + 'a,
) -> Vec<Option<Box<dyn ArrayMember + 'a>>> {
    let member = |(place, medium): (usize, &Option<MediumId>)| {
        let member = RemoteMember { medium: (*medium)?, place, ask };
        Some(Box::new(member) as Box<dyn ArrayMember + 'a>)
    };
    of.iter().enumerate().map(member).collect()
}

/// What stands for a member.
struct RemoteMember<F> {
    medium: MediumId,
    place: usize,
    ask: F,
}

impl<'a, F: Fn(usize, OfMember) -> Asking<'a>> RemoteMember<F> {
    fn list(&self, question: OfMember) -> Result<Vec<SegmentNumber>, DeviceError> {
        match (self.ask)(self.place, question).ask::<Result<Vec<SegmentNumber>, DeviceError>>() {
            Ok(found) => found,
            Err(broken) => Err(DeviceError::lost(crate::devices::crosses::lost(&broken))),
        }
    }
}

impl<'a, F: Fn(usize, OfMember) -> Asking<'a>> ArrayMember for RemoteMember<F> {
    fn medium(&self) -> MediumId {
        self.medium
    }

    fn problems(&self) -> Vec<String> {
        (self.ask)(self.place, OfMember::Problems).ask().unwrap_or_default()
    }

    fn segments(&self) -> Result<Vec<SegmentNumber>, DeviceError> {
        self.list(OfMember::Segments)
    }

    fn held(&self) -> Result<Vec<SegmentNumber>, DeviceError> {
        self.list(OfMember::Held)
    }
}

/// What stands for an array that is half made.
struct RemoteHalf<'d> {
    devices: &'d RemoteDevices,
    array: Dev,
    header: MediumHeader,
    blank: Vec<Address>,
    stores: Vec<StoreAddress>,
}

impl HalfMade for RemoteHalf<'_> {
    fn header(&self) -> &MediumHeader {
        &self.header
    }

    fn blank(&self) -> Vec<&Address> {
        self.blank.iter().collect()
    }

    fn blank_stores(&self) -> Vec<StoreAddress> {
        self.stores.clone()
    }

    fn make(&self, new_id: NewId<'_>) -> Result<(), DeviceError> {
        let known = Known { new_header: None, new_id: Some(new_id), known: &() };
        let question = Question::HalfMade(self.array.clone(), OfHalfMade::Make);
        self.devices.far.call_back(&question, &mut |channel, asked| known.answer(channel, asked))
    }
}
