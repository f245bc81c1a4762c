//! Identities, times, names of owners.

use std::sync::Arc;

use capstan_format::acl::{AclNames, Whose};
use capstan_format::entry::{Kind, Timestamp};
use capstan_format::id::{
    MediumId, ObjectId, SegmentId, SegmentNumber, SessionId, StreamId, VersionId,
};
use minicbor::encode::Write;
use minicbor::{Decoder, Encoder, decode as de};

use super::form::{Form, Written};

/// Identities as their bytes.
macro_rules! ids {
    ($($id:ident),*) => {$(
        impl Form for $id {
            fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
                to.bytes(self.as_bytes()).map(drop)
            }

            fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
                let bytes = from.bytes()?.try_into();
                bytes.map(Self).map_err(|_| de::Error::message("an id is not 16 bytes"))
            }
        }
    )*};
}

ids!(MediumId, ObjectId, SegmentId, SessionId, StreamId, VersionId);

impl Form for SegmentNumber {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        self.0.put(to)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        u32::get(from).map(Self)
    }
}

impl Form for Kind {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        to.u8(*self as u8).map(drop)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        Self::from_u8(from.u8()?)
            .ok_or_else(|| de::Error::message("a kind of file that is unknown"))
    }
}

impl Form for Timestamp {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        to.array(2)?.i64(self.sec)?.u32(self.nsec).map(drop)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        match from.array()? {
            Some(2) => time(from.i64()?, from.u32()?),
            _ => Err(de::Error::message("a time is not two numbers")),
        }
    }
}

/// A point in time of these numbers.
pub(super) fn time(sec: i64, nsec: u32) -> Result<Timestamp, de::Error> {
    match nsec < 1_000_000_000 {
        true => Ok(Timestamp { sec, nsec }),
        false => Err(de::Error::message("a second has a thousand million nanoseconds")),
    }
}

/// Three for each: whether it is a group, the number, the name.
impl Form for AclNames {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        to.array(3 * self.len() as u64)?;
        self.iter().try_for_each(|((whose, id), name)| {
            to.bool(*whose == Whose::Group)?.u32(*id)?.bytes(name).map(drop)
        })
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        let number = from.array()?.ok_or_else(|| de::Error::message("a list without a length"))?;
        if number % 3 != 0 {
            return Err(de::Error::message("names of owners are threes"));
        }
        let mut names = Self::new();
        for _ in 0..number / 3 {
            let whose = if from.bool()? { Whose::Group } else { Whose::User };
            names.insert((whose, from.u32()?), Arc::get(from)?);
        }
        Ok(names)
    }
}
