//! Media of a device host, opened from a cell.

use capstan_address::{Address, SpoolPlan, TapeAddress};
use capstan_format::id::MediumId;
use capstan_format::keys::Key32;
use capstan_format::record::MediumHeader;
use capstan_medium::host::media::NewHeader;
use capstan_medium::host::{KnownMembers, Media, Unjudged, Wanted};
use capstan_medium::{Device, DeviceError, HeldMedium, OpenMedium};
use capstan_wire::keys::SecretKey;

use super::Known;
use super::device::RemoteDevice;
use super::storage::{held, medium};
use super::writable::RemoteWritable;
use crate::connection::Channel;
use crate::devices::RemoteDevices;
use crate::devices::message::{
    DeviceFound, Dir, HeldFound, MediumFound, OfMedia as Of, Question, WritableFound,
};

fn of(question: Of) -> Question {
    Question::Media(question)
}

impl RemoteDevices {
    /// Opens a medium.
    pub(super) fn opened(&self, question: &Question) -> Result<OpenMedium, DeviceError> {
        self.call(question).map(|found: MediumFound| medium(&self.far, found))
    }
}

impl Media for RemoteDevices {
    fn medium(&self, address: &Address) -> Result<OpenMedium, DeviceError> {
        self.opened(&of(Of::Medium(address.into())))
    }

    fn known(&self, address: &Address, wanted: Wanted) -> Result<OpenMedium, DeviceError> {
        self.opened(&of(Of::Known(address.into(), wanted)))
    }

    fn medium_in(&self, drive: &TapeAddress) -> Option<MediumId> {
        self.ask::<Option<MediumId>>(&of(Of::MediumIn(drive.into()))).ok().flatten()
    }

    fn held(&self, address: &Address) -> Result<HeldMedium, DeviceError> {
        self.call(&of(Of::Held(address.into()))).map(|found: HeldFound| held(&self.far, found))
    }

    fn is_blank(&self, address: &Address) -> Result<bool, DeviceError> {
        self.call(&of(Of::IsBlank(address.into())))
    }

    fn header_on(&self, tape: &TapeAddress) -> Result<MediumHeader, DeviceError> {
        self.call(&of(Of::HeaderOn(tape.into())))
    }

    fn member(&self, tape: &TapeAddress) -> Result<OpenMedium, DeviceError> {
        self.opened(&of(Of::Member(tape.into())))
    }

    fn writable(
        &self,
        address: &Address,
        new: NewHeader<'_>,
        block_size: Option<u32>,
        known: &dyn KnownMembers,
    ) -> Result<Unjudged, DeviceError> {
        self.introduce();
        let known = Known { new_header: Some(new), new_id: None, known };
        let question = of(Of::Writable(address.into(), block_size));
        let mut answer = |channel: &Channel, asked| known.answer(channel, asked);
        let found = self.far.call_back::<WritableFound, DeviceError>(&question, &mut answer)?;
        let is_new = found.is_new;
        Ok(Unjudged::new(Box::new(RemoteWritable::new(&self.far, found)), is_new))
    }

    fn null(&self, address: &Address, block_size: u32) -> Result<Box<dyn Device>, DeviceError> {
        let found = self.call(&of(Of::Null(address.into(), block_size)));
        found.map(|found: DeviceFound| Box::new(RemoteDevice::new(&self.far, found)) as _)
    }

    fn open_key(&self, medium: MediumId, contents: Key32) {
        self.far.tell(&of(Of::OpenKey(medium, SecretKey(contents))));
    }

    fn has_key(&self, medium: MediumId) -> bool {
        self.ask(&of(Of::HasKey(medium))).unwrap_or(false)
    }

    fn read_through(&self, plan: Option<SpoolPlan>) -> Result<(), DeviceError> {
        self.call(&of(Of::ReadThrough(plan.map(|plan| (Dir(plan.dir), plan.size)))))
    }
}
