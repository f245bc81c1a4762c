//! Arrays of devices: opened, made, and their members.

use std::io;

use capstan_address::{Address, ArrayAddress, StoreAddress, TapeAddress};
use capstan_format::array::RebuiltMember;
use capstan_format::id::{MediumId, SegmentNumber};
use capstan_format::record::MediumHeader;
use serde::{Deserialize, Serialize};

use super::placed::Placed;
use crate::{DeviceError, LostMember, OpenMedium};

/// Makes identities for new members.
pub type NewId<'a> = &'a dyn Fn() -> io::Result<MediumId>;

/// Who follows a rebuilding: is told the bytes of each block, and says whether to go on.
pub type Follow<'a> = &'a mut dyn FnMut(u64) -> bool;

/// A member of an array that is there.
pub trait ArrayMember {
    /// The medium that it is.
    fn medium(&self) -> MediumId;
    /// What is wrong with where it lies, though it can be read.
    fn problems(&self) -> Vec<String>;
    /// Segments that it has, by what it lists.
    fn segments(&self) -> Result<Vec<SegmentNumber>, DeviceError>;
    /// Segments that it has: on tape each is looked for.
    fn held(&self) -> Result<Vec<SegmentNumber>, DeviceError>;
}

/// What was written of a member.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebuilt {
    /// Segments.
    pub segments: u64,
    /// Their bytes on the member.
    pub bytes: u64,
    /// Segments of which some blocks could not be computed: they are marked as damaged on the new member.
    pub damaged: Vec<SegmentNumber>,
}

/// An array that was opened.
pub trait OpenArray: Send {
    /// Its name, with its members in their places.
    fn address(&self) -> &ArrayAddress;
    /// What it says of itself.
    fn header(&self) -> MediumHeader;
    /// The members that are lost.
    fn lost(&self) -> Vec<LostMember>;
    /// Its members by their places; nothing for those that are lost.
    fn members(&self) -> Vec<Option<Box<dyn ArrayMember + '_>>>;
    /// The medium that it is.
    fn medium(&self) -> Result<OpenMedium, DeviceError>;
    /// Where it was found.
    fn placed(&self) -> Placed;
    /// The same, with that device in the place of a member, which was written anew there.
    fn placed_with(&self, place: usize, onto: &Address) -> Placed;
    /// Keeps others from writing to its members, until what is returned is dropped.
    fn lock(&self) -> Result<Box<dyn Send>, DeviceError>;
    /// Writes a member anew, on a blank device, or in a directory where that was begun before and did not end. The array is to be
    /// locked meanwhile.
    fn rebuild(
        &self,
        place: usize,
        onto: &Address,
        new_id: NewId<'_>,
        follow: Follow<'_>,
    ) -> Result<Rebuilt, DeviceError>;
}

/// What is known of members of arrays beside what they say themselves.
pub trait KnownMembers {
    /// Those of an array that took the place of others.
    fn rebuilt(&self, array: MediumId) -> Vec<RebuiltMember>;

    /// Those that are there and not to be written to, by their places, and why.
    fn unfit(&self, of: &dyn OpenArray) -> Vec<(usize, String)>;
}

/// Nothing is known of them.
impl KnownMembers for () {
    fn rebuilt(&self, _: MediumId) -> Vec<RebuiltMember> {
        Vec::new()
    }

    fn unfit(&self, _: &dyn OpenArray) -> Vec<(usize, String)> {
        Vec::new()
    }
}

/// An array of which some members are still to be made.
pub trait HalfMade {
    /// The header of the array.
    fn header(&self) -> &MediumHeader;
    /// The members that are to be made.
    fn blank(&self) -> Vec<&Address>;
    /// The stores in which that is.
    fn blank_stores(&self) -> Vec<StoreAddress>;
    /// Makes them. Before anything is written all tapes among them are there, and nobody else's. A member that another process made
    /// meanwhile stays as it is.
    fn make(&self, new_id: NewId<'_>) -> Result<(), DeviceError>;
}

/// What a device host does with arrays.
pub trait Arrays {
    /// Opens an array of which enough is there, without the members that are `known` to have been replaced. Where its tapes are more
    /// than there are drives for, it does without the last of them as long as it can.
    fn array(
        &self,
        address: &ArrayAddress,
        known: &dyn KnownMembers,
    ) -> Result<Box<dyn OpenArray>, DeviceError>;
    /// The identity of the medium that a member has, whatever array it is of.
    fn look_at_member(&self, member: &Address) -> Result<MediumId, DeviceError>;
    /// Refuses an array that cannot be written, as it has more tapes in a library than that has drives. Tapes of a library that is not
    /// there are lost members, like any others.
    fn refuse_too_few_drives(&self, array: &ArrayAddress) -> Result<(), DeviceError>;
    /// Makes all members of an array with that header, of the array. Its tapes are blank, or hold one of the media that `may_go` and
    /// nothing of it. Before anything is written all of them are there, and nobody else's.
    fn make_array(
        &self,
        address: &ArrayAddress,
        header: &MediumHeader,
        may_go: &[MediumId],
        new_id: NewId<'_>,
    ) -> Result<(), DeviceError>;
    /// Whether an array is half made: at each of its members is nothing, or the header of a member of this array and nothing else. What
    /// cannot be looked at counts as something else: who opens the array says what is wrong.
    fn half_made(&self, address: &ArrayAddress) -> Option<Box<dyn HalfMade + '_>>;
    /// The header of a member of an array on a tape that has nothing else: no segment was ever written to it.
    fn member_without_data(&self, tape: &TapeAddress) -> Option<MediumHeader>;
    /// Of these tapes of an array those that are `incomplete` lack what is read of it from now on: who waits for enough of its tapes
    /// does not count them.
    fn set_incomplete(&self, tapes: &[TapeAddress], incomplete: &[TapeAddress]);
    /// Whether a tape lacks what is read now of its array.
    fn is_incomplete(&self, tape: &TapeAddress) -> bool;
}
