//! What is asked of arrays.

use capstan_address::{Address, ArrayAddress};
use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_medium::LostMember;
use serde::{Deserialize, Serialize};

use super::names::{Dev, TapeName};

/// What is asked of arrays: the methods of [`capstan_medium::host::Arrays`].
#[derive(Debug, Serialize, Deserialize)]
pub enum OfArrays {
    /// An array is opened.
    Array(Dev),
    /// The medium that a member has.
    LookAtMember(Dev),
    /// Refuses an array with more tapes than drives.
    RefuseTooFewDrives(Dev),
    /// All members are made, with that header; tapes may hold one of these media.
    MakeArray(Dev, Box<MediumHeader>, Vec<MediumId>),
    /// Whether an array is half made.
    HalfMade(Dev),
    /// The header of a member without data.
    MemberWithoutData(TapeName),
    /// Which tapes of these lack what is read.
    SetIncomplete(Vec<TapeName>, Vec<TapeName>),
    /// Whether a tape does.
    IsIncomplete(TapeName),
}

/// What is asked of an array that was opened: the methods of [`capstan_medium::host::OpenArray`].
#[derive(Debug, Serialize, Deserialize)]
pub enum OfArray {
    /// What it is now.
    Facts,
    /// The medium that it is.
    Medium,
    /// Where it was found.
    Placed,
    /// The same, with a device in the place of a member.
    PlacedWith(usize, Dev),
    /// Keeps others from writing.
    Lock,
    /// Writes a member anew.
    Rebuild(usize, Dev),
    /// Of a member, by its place.
    Member(usize, OfMember),
}

/// What is asked of a member.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum OfMember {
    /// What is wrong with where it lies.
    Problems,
    /// Its segments, by what it lists.
    Segments,
    /// Its segments; on tape each is looked for.
    Held,
}

/// What is asked of an array that is half made.
#[derive(Debug, Serialize, Deserialize)]
pub enum OfHalfMade {
    /// The other members are made.
    Make,
}

/// What an array is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ArrayFacts {
    /// Its number.
    pub number: u64,
    /// Its name, with members in their places.
    pub address: Dev,
    /// What it says of itself.
    pub header: MediumHeader,
    /// The members that are lost.
    pub lost: Vec<LostMember>,
    /// The media that its members are, by their places.
    pub members: Vec<Option<MediumId>>,
}

impl ArrayFacts {
    /// Its name; nothing where that is none of an array.
    pub fn array(&self) -> Option<&ArrayAddress> {
        match &self.address.0 {
            Address::Array(array) => Some(array),
            _ => None,
        }
    }
}
