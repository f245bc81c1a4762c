//! Rows of which there may be millions, in a compact binary form: CBOR with numbered fields, many rows in one message.
//!
//! A type of rows has `#[derive(Encode, Decode)]` of [`minicbor`], with a number for each field. Numbers are for ever; fields that a reader
//! does not know are left alone. What belongs to other crates has its form here, by [`Form`]: such fields are marked
//! `#[cbor(with = "capstan_wire::rows::form")]`.
//!
//! [`encode`] makes a message of rows, [`decode`] reads one. A message of rows never begins as JSON does, so that both can be said in one
//! conversation ([`are_rows`]).

mod entry;
pub mod form;
mod plain;
mod problem;

use minicbor::{Decode, Decoder, Encode, Encoder};

pub use self::form::Form;
use crate::{LONGEST, WireError};

/// Rows in one message, at most.
pub const MOST_ROWS: u64 = 1 << 16;

/// A message of rows.
pub fn encode<T: Encode<()>>(rows: &[T]) -> Result<Vec<u8>, WireError> {
    if rows.len() as u64 > MOST_ROWS {
        return Err(WireError::TooManyRows(rows.len() as u64));
    }
    let mut message = Encoder::new(Vec::with_capacity(16 + rows.len() * 96));
    let encoded = message.encode(rows).map(drop);
    encoded.map_err(|e| WireError::Rows(e.to_string()))?;
    let message = message.into_writer();
    if message.len() > LONGEST {
        return Err(WireError::TooLong(message.len()));
    }
    Ok(message)
}

/// The rows of a message.
pub fn decode<T: for<'b> Decode<'b, ()>>(message: &[u8]) -> Result<Vec<T>, WireError> {
    if message.len() > LONGEST {
        return Err(WireError::TooLong(message.len()));
    }
    let bad = |e: minicbor::decode::Error| WireError::Rows(e.to_string());
    let mut decoder = Decoder::new(message);
    let number = decoder.array().map_err(bad)?;
    let number = number.ok_or_else(|| WireError::Rows("their number is not said".to_owned()))?;
    if number > MOST_ROWS {
        return Err(WireError::TooManyRows(number));
    }
    // No row is shorter than a byte.
    let mut rows = Vec::with_capacity((number as usize).min(message.len() / 16));
    for _ in 0..number {
        rows.push(decoder.decode().map_err(bad)?);
    }
    match decoder.position() == message.len() {
        true => Ok(rows),
        false => Err(WireError::Rows("something follows them".to_owned())),
    }
}

/// Whether a message has rows. One in JSON begins with a character.
pub fn are_rows(message: &[u8]) -> bool {
    message.first().is_some_and(|first| *first >= 0x80)
}
