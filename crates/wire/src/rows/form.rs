//! The form within rows of what belongs to other crates. As a module it is what `#[cbor(with = ...)]` names.

use std::borrow::Cow;
use std::sync::Arc;

use minicbor::data::Type;
use minicbor::encode::Write;
use minicbor::{Decoder, Encoder, decode as de, encode as en};

/// Written.
pub type Written<W> = Result<(), en::Error<<W as Write>::Error>>;

/// What has a form within rows.
pub trait Form: Sized {
    /// Writes it.
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W>;
    /// Reads it.
    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error>;
}

/// Writes a field.
pub fn encode<C, T: Form, W: Write>(of: &T, to: &mut Encoder<W>, _: &mut C) -> Written<W> {
    of.put(to)
}

/// Reads a field.
pub fn decode<C, T: Form>(from: &mut Decoder<'_>, _: &mut C) -> Result<T, de::Error> {
    T::get(from)
}

/// Gives what derives its form a [`Form`] besides, to be in lists and options of such.
#[macro_export]
macro_rules! derived_form {
    ($($of:ty),*) => {$(
        impl $crate::rows::Form for $of {
            fn put<W: ::minicbor::encode::Write>(
                &self,
                to: &mut ::minicbor::Encoder<W>,
            ) -> $crate::rows::form::Written<W> {
                to.encode(self).map(drop)
            }

            fn get(from: &mut ::minicbor::Decoder<'_>) -> Result<Self, ::minicbor::decode::Error> {
                from.decode()
            }
        }
    )*};
}

impl Form for u64 {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        to.u64(*self).map(drop)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        from.u64()
    }
}

impl Form for u32 {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        to.u32(*self).map(drop)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        from.u32()
    }
}

impl Form for u16 {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        to.u16(*self).map(drop)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        from.u16()
    }
}

impl Form for usize {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        to.u64(*self as u64).map(drop)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        from.u64()?.try_into().map_err(|_| de::Error::message("a number is too large"))
    }
}

impl Form for bool {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        to.bool(*self).map(drop)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        from.bool()
    }
}

impl Form for String {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        to.str(self).map(drop)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        from.str().map(str::to_owned)
    }
}

impl Form for Cow<'static, str> {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        to.str(self).map(drop)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        String::get(from).map(Self::Owned)
    }
}

impl Form for Vec<u8> {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        to.bytes(self).map(drop)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        from.bytes().map(<[u8]>::to_vec)
    }
}

impl Form for Arc<[u8]> {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        to.bytes(self).map(drop)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        from.bytes().map(Self::from)
    }
}

impl<T: Form> Form for Arc<T> {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        (**self).put(to)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        T::get(from).map(Self::new)
    }
}

impl<T: Form> Form for Box<T> {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        (**self).put(to)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        T::get(from).map(Self::new)
    }
}

impl<T: Form> Form for Option<T> {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        match self {
            Some(of) => of.put(to),
            None => to.null().map(drop),
        }
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        match from.datatype()? {
            Type::Null | Type::Undefined => from.skip().map(|()| None),
            _ => T::get(from).map(Some),
        }
    }
}

/// As a list of one that is a value, or of two, the first of which is nothing and the second the error.
impl<T: Form, E: Form> Form for Result<T, E> {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        match self {
            Ok(of) => of.put(to.array(1)?),
            Err(e) => e.put(to.array(2)?.null()?),
        }
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        match from.array()? {
            Some(1) => T::get(from).map(Ok),
            Some(2) => {
                from.skip()?;
                E::get(from).map(Err)
            }
            _ => Err(de::Error::message("neither a value nor an error")),
        }
    }
}

impl<A: Form, B: Form> Form for (A, B) {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        self.0.put(to.array(2)?)?;
        self.1.put(to)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        match from.array()? {
            Some(2) => Ok((A::get(from)?, B::get(from)?)),
            _ => Err(de::Error::message("not a pair")),
        }
    }
}

impl<T: Form> Form for Vec<T> {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        to.array(self.len() as u64)?;
        self.iter().try_for_each(|of| of.put(to))
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        let number = from.array()?.ok_or_else(|| de::Error::message("a list without a length"))?;
        // The length is not believed before the elements are there.
        let mut all = Self::new();
        for _ in 0..number {
            all.push(T::get(from)?);
        }
        Ok(all)
    }
}

/// Reads the fields of a list: `each` gets the number of each field that is there. Those that it does not know are to be skipped.
pub(super) fn fields(
    from: &mut Decoder<'_>,
    each: &mut dyn FnMut(u64, &mut Decoder<'_>) -> Result<(), de::Error>,
) -> Result<(), de::Error> {
    let number = from.array()?.ok_or_else(|| de::Error::message("a list without a length"))?;
    (0..number).try_for_each(|n| each(n, from))
}
