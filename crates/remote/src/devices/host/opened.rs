//! What was opened is kept, and told with its number.

use std::sync::Arc;

use capstan_medium::host::{OpenArray, Unjudged};
use capstan_medium::{Device, HeldMedium, OpenMedium};

use super::things::Things;
use crate::devices::message::{
    ArrayFacts, Dev, DeviceFound, HeldFound, MediumFound, WritableFound,
};

impl Things {
    /// A medium.
    pub fn medium(&self, medium: OpenMedium) -> MediumFound {
        let storage = medium.storage();
        let found = MediumFound {
            number: 0,
            path: medium.path().to_owned(),
            header: medium.header().clone(),
            header_problem: medium.header_problem().map(str::to_owned),
            is_tape: storage.is_tape(),
            is_array: storage.is_array(),
            takes_attachments: storage.takes_attachments(),
        };
        MediumFound { number: self.media.put(medium), ..found }
    }

    /// One that is held.
    pub fn held(&self, held: HeldMedium) -> HeldFound {
        let medium = self.medium(held.medium().clone());
        HeldFound { number: self.held.put(Arc::new(held)), medium }
    }

    /// One to write.
    pub fn writable(&self, unjudged: Unjudged) -> WritableFound {
        let (is_new, device) = (unjudged.is_new(), unjudged.into_device());
        let medium = self.medium(device.medium().clone());
        WritableFound { number: self.writables.put_alone(device), medium, is_new }
    }

    /// A device.
    pub fn device(&self, device: Box<dyn Device>) -> DeviceFound {
        let found = DeviceFound {
            number: 0,
            next_number: device.next_number(),
            can_leave_out_numbers: device.can_leave_out_numbers(),
            short_blocks: device.short_blocks(),
            commits_each_segment: device.commits_each_segment(),
            is_instant: device.is_instant(),
        };
        DeviceFound { number: self.devices.put_alone(device), ..found }
    }

    /// An array.
    pub fn array(&self, array: Box<dyn OpenArray>) -> ArrayFacts {
        let facts = facts(&*array);
        ArrayFacts { number: self.arrays.put_alone(array), ..facts }
    }
}

/// What an array is; without its number.
pub fn facts(array: &dyn OpenArray) -> ArrayFacts {
    ArrayFacts {
        number: 0,
        address: Dev(capstan_address::Address::Array(array.address().clone())),
        header: array.header(),
        lost: array.lost(),
        members: array.members().iter().map(|m| m.as_ref().map(|m| m.medium())).collect(),
    }
}
