//! What stands at a cell for a medium that it may write, at its host.

use std::sync::Arc;

use capstan_address::Address;
use capstan_format::record::MediumHeader;
use capstan_medium::host::Writable;
use capstan_medium::host::placed::Placed;
use capstan_medium::{Device, DeviceError, HeldMedium, LostMember, OpenMedium};
use serde::de::DeserializeOwned;

use super::device::RemoteDevice;
use super::storage::{held, medium};
use crate::devices::far::{Far, Stand};
use crate::devices::message::{
    Dev, DeviceFound, HeldFound, Kind, OfWritable as Of, Question, WritableFound,
};

/// What stands for a medium to write.
pub struct RemoteWritable {
    stand: Stand,
    medium: OpenMedium,
}

impl RemoteWritable {
    /// For what was found.
    pub fn new(far: &Arc<Far>, found: WritableFound) -> Self {
        let stand = Stand::new(far, Kind::Writable, found.number);
        Self { stand, medium: medium(far, found.medium) }
    }

    fn of(&self, question: Of) -> Question {
        Question::Writable(self.stand.number, question)
    }

    fn call<T: DeserializeOwned>(&self, question: Of) -> Result<T, DeviceError> {
        self.stand.far.call(&self.of(question))
    }

    /// Has it done by the host, which gives it up for that.
    fn last<T: DeserializeOwned>(self: Box<Self>, question: Of) -> Result<T, DeviceError> {
        let Self { stand, medium } = *self;
        let question = Question::Writable(stand.number, question);
        let far = stand.far.clone();
        drop(medium);
        stand.give();
        far.call(&question)
    }
}

impl Writable for RemoteWritable {
    fn medium(&self) -> &OpenMedium {
        &self.medium
    }

    fn check_drive(&self) -> Result<(), DeviceError> {
        self.call(Of::CheckDrive)
    }

    fn refuse_worm(&self) -> Result<(), DeviceError> {
        self.call(Of::RefuseWorm)
    }

    fn address(&self, named: &Address) -> Address {
        let found = self.stand.far.ask::<Dev>(&self.of(Of::Address(named.into())));
        found.map_or_else(|_| named.clone(), |found| found.0)
    }

    fn placed(&self, named: &Address) -> Placed {
        let found = self.stand.far.ask(&self.of(Of::Placed(named.into())));
        found.unwrap_or_else(|_| Placed::from(named.clone()))
    }

    fn lost_members(&self) -> Vec<LostMember> {
        self.stand.far.ask(&self.of(Of::LostMembers)).unwrap_or_default()
    }

    fn hold(&self) -> Result<HeldMedium, DeviceError> {
        self.call(Of::Hold).map(|found: HeldFound| held(&self.stand.far, found))
    }

    fn into_device(self: Box<Self>) -> Result<Box<dyn Device>, DeviceError> {
        let far = self.stand.far.clone();
        let found: DeviceFound = self.last(Of::IntoDevice)?;
        Ok(Box::new(RemoteDevice::new(&far, found)))
    }

    fn replace_header(self: Box<Self>, header: &MediumHeader) -> Result<(), DeviceError> {
        self.last(Of::ReplaceHeader(Box::new(header.clone())))
    }

    fn erase(self: Box<Self>, secure: bool) -> Result<Vec<String>, DeviceError> {
        self.last(Of::Erase(secure))
    }

    fn begin_anew(self: Box<Self>, header: &MediumHeader) -> Result<(), DeviceError> {
        self.last(Of::BeginAnew(Box::new(header.clone())))
    }
}
