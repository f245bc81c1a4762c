//! A tape as a medium.
//!
//! The first file of the tape (a file ends with a filemark) has the medium's header, one block. Segment n is the two files
//! 2n − 1 and 2n: its header and data blocks; its catalog and end record. So segments and their catalogs are found by
//! filemarks alone, and a segment whose second filemark is missing is a torn one, which the next writer overwrites. Every
//! block is as long as the medium's block size says; only records that do not fit are longer.
//!
//! Each number is that of a segment, or of something else that lies between them ([`attachment`]).
//!
//! [`storage`] reads the tape, [`writer`] writes it, [`spool`] is what may lie between that and who writes. [`claim`] keeps tapes that are to
//! be an array. [`on_tape`] looks at what is there, [`seems`] tells what others wrote. Where the medium's header says so, the drive encrypts
//! all that is behind it. How a tape gets into a drive is in [`crate::drives`].

mod attachment;
mod claim;
mod on_tape;
mod seems;
mod spool;
mod storage;
#[cfg(test)]
mod tests;
mod writable;
mod writer;

pub(crate) use claim::Claim;
pub(crate) use on_tape::{has_header_only, is_blank, refuse_used, seen_on};
pub use spool::SpooledTape;
pub(crate) use spool::check as check_spool;
pub(crate) use storage::{open, open_member, open_wanted};
pub(crate) use writable::WritableTape;
pub use writer::TapeDevice;
pub(crate) use writer::{check_encrypts, erase, refuse_worm};

use std::io;

use capstan_format::id::SegmentNumber;
use capstan_medium::tape::TapeError;

/// The tape file with a segment's header and data.
fn data_file(number: SegmentNumber) -> u64 {
    2 * u64::from(number.0) - 1
}

/// The tape file with a segment's catalog and end.
fn catalog_file(number: SegmentNumber) -> u64 {
    2 * u64::from(number.0)
}

/// Complete segments on a tape whose data end behind so many filemarks.
fn complete(filemarks: u64) -> u32 {
    u32::try_from(filemarks.saturating_sub(1) / 2).unwrap_or(u32::MAX - 1)
}

fn failed(error: TapeError) -> io::Error {
    match error {
        TapeError::Io { source, .. } => source,
        e => io::Error::other(e),
    }
}
