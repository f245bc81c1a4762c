//! Arrays of media: blocks striped over several media, with parity, so that some of the media may be lost.
//!
//! [`Layout`] says how many media there are and which of them may be lost, [`code`] computes parity and what is lost,
//! [`stamp`] is what a block says of its place.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{FormatError, Result};
use crate::id::MediumId;

pub mod code;
pub mod field;
pub mod stamp;

/// Most members of an array.
pub const MEMBERS_MAX: usize = 256;

/// What parity is made by. The texts are those of device names and of medium headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// `rait0`: no parity.
    Stripe,
    /// `rait1`: every member has every block.
    Mirror,
    /// `rait5`: one parity block in a stripe, the XOR of the others.
    Xor,
    /// `rait:N+K`: K parity blocks in a stripe of N.
    Cauchy,
}

/// How blocks lie on the members of an array: `data` blocks and `parity` blocks in every stripe, one on each member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    level: Level,
    data: u8,
    parity: u8,
}

impl Layout {
    /// The layout that a name (`rait0`, `rait1`, `rait5`, `rait:N+K`) means with that many members; `None` if there is
    /// no such layout.
    pub fn of(name: &str, members: usize) -> Option<Self> {
        let (level, data, parity) = match name {
            "rait0" if members >= 2 => (Level::Stripe, members, 0),
            "rait1" if members >= 2 => (Level::Mirror, 1, members - 1),
            "rait5" if members >= 3 => (Level::Xor, members - 1, 1),
            _ => {
                let (data, parity) = name.strip_prefix("rait:")?.split_once('+')?;
                (Level::Cauchy, number(data)?, number(parity)?)
            }
        };
        let fits = data + parity == members && members <= MEMBERS_MAX && data >= 1;
        let layout = Self { level, data: data.try_into().ok()?, parity: parity.try_into().ok()? };
        (fits && (level != Level::Cauchy || parity >= 1)).then_some(layout)
    }

    /// How parity is made.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Data blocks in a stripe.
    pub fn data(&self) -> usize {
        self.data.into()
    }

    /// Parity blocks in a stripe: as many members may be lost.
    pub fn parity(&self) -> usize {
        self.parity.into()
    }

    /// Members.
    pub fn members(&self) -> usize {
        self.data() + self.parity()
    }

    /// The member that has the block of that role in a stripe: roles below [`Self::data`] are data blocks, the others
    /// parity. They rotate, so that all members have as much of both.
    pub fn member_of(&self, stripe: u32, role: usize) -> usize {
        ((stripe as u64 + role as u64) % self.members() as u64) as usize
    }

    /// The role that a member has in a stripe.
    pub fn role_of(&self, stripe: u32, member: usize) -> usize {
        let members = self.members() as u64;
        ((member as u64 + members - u64::from(stripe) % members) % members) as usize
    }
}

/// Digits without sign or leading zero.
fn number(text: &str) -> Option<usize> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|n| plain && *n <= MEMBERS_MAX)
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            Level::Stripe => f.write_str("rait0"),
            Level::Mirror => f.write_str("rait1"),
            Level::Xor => f.write_str("rait5"),
            Level::Cauchy => write!(f, "rait:{}+{}", self.data, self.parity),
        }
    }
}

/// A medium's place in an array, in its header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayPlace {
    /// The array: the id of the medium that it is as a whole.
    pub array: MediumId,
    /// `rait0`, `rait1`, `rait5` or `rait:N+K`.
    pub layout: String,
    /// Number of members.
    pub members: u32,
    /// Which member this is, from 0.
    pub member: u32,
    /// The place of the array in another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Box<ArrayPlace>>,
    /// Members of the array that were written anew: who else says it has their place was replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rebuilt: Vec<RebuiltMember>,
}

/// A member of an array that took the place of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuiltMember {
    /// Which member it is, from 0.
    pub member: u32,
    /// The medium that has the place now.
    pub medium: MediumId,
    /// How often the place was given to another one; what says more is newer.
    pub turn: u32,
}

impl RebuiltMember {
    /// Of all that is said of each place the newest, by places.
    pub fn newest(said: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut newest: Vec<Self> = Vec::new();
        for one in said {
            match newest.iter_mut().find(|of| of.member == one.member) {
                Some(of) if of.turn < one.turn => *of = one,
                Some(_) => {}
                None => newest.push(one),
            }
        }
        newest.sort_by_key(|of| of.member);
        newest
    }
}

/// Most arrays in one another.
pub const DEPTH_MAX: usize = 8;

impl ArrayPlace {
    /// The place of a member.
    pub fn new(array: MediumId, layout: Layout, member: usize, of: Option<Self>) -> Self {
        let (members, member) = (layout.members() as u32, member as u32);
        Self {
            array,
            layout: layout.to_string(),
            members,
            member,
            of: of.map(Box::new),
            rebuilt: Vec::new(),
        }
    }

    /// The layout, checked.
    pub fn layout(&self) -> Result<Layout> {
        const WHAT: FormatError = FormatError::Invalid("place in an array");
        if self.member >= self.members {
            return Err(WHAT);
        }
        let of = std::iter::successors(self.of.as_deref(), |place| place.of.as_deref());
        if of.take(DEPTH_MAX).count() == DEPTH_MAX {
            return Err(WHAT);
        }
        Layout::of(&self.layout, self.members as usize).ok_or(WHAT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_read_as_people_write_them() {
        let shape = |name: &str, members| {
            let layout = Layout::of(name, members)?;
            assert_eq!(layout.to_string(), name);
            assert_eq!(layout.members(), members);
            Some((layout.data(), layout.parity()))
        };
        assert_eq!(shape("rait0", 2), Some((2, 0)));
        assert_eq!(shape("rait1", 3), Some((1, 2)));
        assert_eq!(shape("rait5", 4), Some((3, 1)));
        assert_eq!(shape("rait:4+2", 6), Some((4, 2)));
        assert_eq!(shape("rait:254+2", 256), Some((254, 2)));
        for (name, members) in [
            ("rait0", 1),
            ("rait1", 1),
            ("rait5", 2),
            ("rait:4+2", 5),
            ("rait:4+0", 4),
            ("rait:0+4", 4),
            ("rait:04+2", 6),
            ("rait:+4+2", 6),
            ("rait:255+2", 257),
            ("rait0", 257),
            ("rait1", 258),
            ("rait6", 4),
            ("rait:", 4),
        ] {
            assert_eq!(Layout::of(name, members), None, "{name} of {members}");
        }
    }

    #[test]
    fn every_member_has_one_role_in_every_stripe() {
        let layout = Layout::of("rait:3+2", 5).unwrap();
        for stripe in [0, 1, 4, 5, 77, u32::MAX] {
            for role in 0..5 {
                assert_eq!(layout.role_of(stripe, layout.member_of(stripe, role)), role);
            }
        }
    }

    #[test]
    fn the_newest_of_a_place_counts() {
        let one = |member, id, turn| RebuiltMember { member, medium: MediumId([id; 16]), turn };
        let said = [one(2, 1, 1), one(0, 2, 2), one(2, 3, 4), one(0, 4, 1), one(2, 5, 3)];
        assert_eq!(RebuiltMember::newest(said), [one(0, 2, 2), one(2, 3, 4)]);
    }

    #[test]
    fn a_place_that_cannot_be_is_refused() {
        let layout = Layout::of("rait5", 3).unwrap();
        let place = ArrayPlace::new(MediumId([1; 16]), layout, 2, None);
        assert_eq!(place.layout(), Ok(layout));
        assert!(ArrayPlace { member: 3, ..place.clone() }.layout().is_err());
        assert!(ArrayPlace { members: 2, member: 1, ..place.clone() }.layout().is_err());
        let mut deep = place;
        for _ in 0..DEPTH_MAX - 1 {
            deep = ArrayPlace { of: Some(Box::new(deep.clone())), ..deep };
            assert!(deep.layout().is_ok());
        }
        deep = ArrayPlace { of: Some(Box::new(deep.clone())), ..deep };
        assert!(deep.layout().is_err());
    }
}
