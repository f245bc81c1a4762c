//! What a cell manager and its agents tell each other, as values.
//!
//! A message is what crosses a port: it names no file handle, process, lock or clock of either side. In come and out go
//! plain values; each has one JSON form, which [`encode`] and [`decode`] know. Fields that a reader does not know are left
//! alone, so that a newer side may say more. Nothing is sent from here: within one process the values are passed as they are.

pub mod as_text;
pub mod backup;
pub mod channel;
pub mod check;
pub mod compression;
pub mod data;
pub mod disk;
pub mod foreseen;
pub mod frame;
pub mod hello;
pub mod host;
pub mod keys;
pub mod probe;
pub mod restore;
pub mod rows;
pub mod source;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest message that is read, in bytes: 64 MiB. A job may name 10,000 mount points, and as many patterns as a file has lines.
pub const LONGEST: usize = 64 << 20;

/// A message that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// It is longer than [`LONGEST`].
    #[error("a message of {0} bytes is too long; at most {LONGEST} bytes are read")]
    TooLong(usize),
    /// It is not what it should be.
    #[error("a message cannot be understood: {0}")]
    Json(#[from] serde_json::Error),
    /// Its rows are not what they should be.
    #[error("rows cannot be understood: {0}")]
    Rows(String),
    /// It has more rows than are read.
    #[error("a message of {0} rows is too long; at most {MOST} rows are read", MOST = rows::MOST_ROWS)]
    TooManyRows(u64),
}

/// A message's JSON.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, WireError> {
    let json = serde_json::to_vec(message)?;
    if json.len() > LONGEST {
        return Err(WireError::TooLong(json.len()));
    }
    Ok(json)
}

/// The message that a JSON text is.
pub fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, WireError> {
    if json.len() > LONGEST {
        return Err(WireError::TooLong(json.len()));
    }
    Ok(serde_json::from_slice(json)?)
}
