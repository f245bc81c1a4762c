//! A tape as a medium.
//!
//! The first file of the tape (a file ends with a filemark) has the medium's header, one block. Segment n is the two files
//! 2n − 1 and 2n: its header and data blocks; its catalog and end record. So segments and their catalogs are found by
//! filemarks alone, and a segment whose second filemark is missing is a torn one, which the next writer overwrites. Every
//! block is as long as the medium's block size says; only records that do not fit are longer.
//!
//! What is no segment and lies between them has a number as they have ([`attachment`]).
//!
//! [`mount`] has the tapes that a host uses and their drives; [`bring`] has the robot get one there, into one that [fits](`fitting`), a [`deck`], which has what
//! [`passed`] by; [`by_hand`] waits until somebody has put it
//! into a drive that stands alone; [`claim`] keeps those that are to be an array. [`seems`] tells what others wrote. [`storage`] reads the tape, [`writer`] writes it, [`spool`] is what may lie between that and
//! who writes; several who read stay [`abreast`]. Where the medium's header says so, the drive encrypts all that is behind it; [`keys`] has the keys. The
//! [`ledger`] is told what happens to tapes.

mod abreast;
mod attachment;
mod bring;
mod by_hand;
mod claim;
mod deck;
mod fitting;
mod keys;
pub mod ledger;
mod mount;
mod on_tape;
mod passed;
mod seems;
mod spool;
mod storage;
mod tapes;
#[cfg(test)]
mod tests;
mod writer;

pub use by_hand::Wanted;
pub(crate) use claim::Claim;
pub(crate) use fitting::Generations;
pub(crate) use keys::Keys;
pub(crate) use ledger::Ledger;
pub use mount::{Tape, Trial};
pub use on_tape::OnTape;
pub(crate) use on_tape::{has_header_only, is_blank, refuse_used};
pub(crate) use passed::ReadSpool;
pub use passed::WINDOW;
pub(crate) use spool::check as check_spool;
pub use spool::{SpoolPlan, SpooledTape, nameless};
pub(crate) use storage::{open, open_member, open_wanted};
pub(crate) use tapes::Tapes;
pub use writer::TapeDevice;
pub(crate) use writer::check_encrypts;

use capstan_format::id::SegmentNumber;

/// The tape file with the medium's header.
const HEADER_FILE: u64 = 0;

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
