//! What a device host does with arrays.

use capstan_address::{Address, ArrayAddress, TapeAddress};
use capstan_format::id::{MediumId, SegmentNumber};
use capstan_format::record::MediumHeader;
use capstan_medium::host::arrays::{ArrayMember, Follow, HalfMade, NewId, Rebuilt};
use capstan_medium::host::placed::Placed;
use capstan_medium::host::{Arrays, KnownMembers, OpenArray};
use capstan_medium::{DeviceError, LostMember, OpenMedium};

use crate::host::LocalDevices;
use crate::rait::open::{self, Opened};
use crate::rait::storage::StoredMember;
use crate::rait::{drives, half_made, make, rebuild};

impl Arrays for LocalDevices {
    fn array(
        &self,
        address: &ArrayAddress,
        known: &dyn KnownMembers,
    ) -> Result<Box<dyn OpenArray>, DeviceError> {
        Ok(Box::new(open::open_known(self, address, known)?))
    }

    fn look_at_member(&self, member: &Address) -> Result<MediumId, DeviceError> {
        open::look(self, member)
    }

    fn refuse_too_few_drives(&self, array: &ArrayAddress) -> Result<(), DeviceError> {
        drives::check(self, array)
    }

    fn make_array(
        &self,
        address: &ArrayAddress,
        header: &MediumHeader,
        may_go: &[MediumId],
        new_id: NewId<'_>,
    ) -> Result<(), DeviceError> {
        make::make(self, address, header, may_go, new_id)
    }

    fn half_made(&self, address: &ArrayAddress) -> Option<Box<dyn HalfMade + '_>> {
        Some(Box::new(half_made::look(self, address)?))
    }

    fn member_without_data(&self, tape: &TapeAddress) -> Option<MediumHeader> {
        half_made::member_without_data(self, tape)
    }

    fn set_incomplete(&self, tapes: &[TapeAddress], incomplete: &[TapeAddress]) {
        let mut known = self.state().incomplete.lock();
        for tape in tapes {
            known.remove(&tape.recorded());
        }
        known.extend(incomplete.iter().map(TapeAddress::recorded));
    }

    fn is_incomplete(&self, tape: &TapeAddress) -> bool {
        let known = self.state().incomplete.lock();
        !known.is_empty() && known.contains(&tape.recorded())
    }
}

impl OpenArray for Opened {
    fn address(&self) -> &ArrayAddress {
        &self.address
    }

    fn header(&self) -> MediumHeader {
        self.storage.header()
    }

    fn lost(&self) -> Vec<LostMember> {
        self.storage.lost()
    }

    fn members(&self) -> Vec<Option<Box<dyn ArrayMember + '_>>> {
        let boxed = |member| Box::new(member) as Box<dyn ArrayMember>;
        self.storage.members().into_iter().map(|member| member.map(boxed)).collect()
    }

    fn medium(&self) -> Result<OpenMedium, DeviceError> {
        self.medium()
    }

    fn placed(&self) -> Placed {
        self.placed()
    }

    fn placed_with(&self, place: usize, onto: &Address) -> Placed {
        self.placed_with(place, onto)
    }

    fn lock(&self) -> Result<Box<dyn Send>, DeviceError> {
        Ok(Box::new(self.lock()?))
    }

    fn rebuild(
        &self,
        place: usize,
        onto: &Address,
        new_id: NewId<'_>,
        follow: Follow<'_>,
    ) -> Result<Rebuilt, DeviceError> {
        rebuild::member(&self.host, self, place, onto, new_id, follow)
    }
}

impl ArrayMember for StoredMember {
    fn medium(&self) -> MediumId {
        self.medium
    }

    fn problems(&self) -> Vec<String> {
        self.storage.problems()
    }

    fn segments(&self) -> Result<Vec<SegmentNumber>, DeviceError> {
        self.segments()
    }

    fn held(&self) -> Result<Vec<SegmentNumber>, DeviceError> {
        self.held()
    }
}
