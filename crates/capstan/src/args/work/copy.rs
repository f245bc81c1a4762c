//! The options of `capstan copy`.

use capstan_address::Address;
use capstan_cell::request::VersionName;
use capstan_idb::LogLevel;
use clap::{ArgGroup, Args, ValueHint};

use crate::args::encrypt::EncryptCopyArg;
use crate::args::version::parse_version;
use crate::text::sizes::parse_size_u32;

const AFTER: &str = "\
Examples:
  capstan copy desk --to /mnt/off-site
  capstan copy desk@1f2e3d4c --only --to /mnt/off-site
  capstan copy --medium shelf-7 --to /mnt/shelf-8

A copy includes what the version builds on, so that it can be restored from that medium alone
(--only leaves that out). What is already there is not copied again, so you can run an interrupted
copy again. Frames are copied as they are, also encrypted ones, without a key. Their checksums are
checked on the way. What is damaged is taken from a mirror or another copy if there is one;
otherwise it is named and left out. A restore uses the copy by itself if the original is missing
or damaged.

In the copy, the streams of a multiplexed backup follow one after another. That needs no spool
space, since each stream is read where it lies.";

/// Arguments of `copy`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
#[command(group = ArgGroup::new("what").required(true).args(["version", "session", "medium"]))]
pub struct CopyArgs {
    /// Copy a version: the object's name, and the session if not the newest complete one
    #[arg(value_name = "NAME[@SESSION]", value_parser = parse_version)]
    pub version: Option<VersionName>,
    /// Copy the version that a session wrote; the first digits of its id are enough
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// Copy all of a medium: its label, id or device
    #[arg(long, value_name = "MEDIUM")]
    pub medium: Option<String>,
    /// Leave out what the version builds on
    #[arg(long, conflicts_with = "medium")]
    pub only: bool,
    /// Where to.
    #[command(flatten)]
    pub target: CopyTargetArgs,
}

/// Where a copy goes, and how.
#[derive(Debug, Args)]
pub struct CopyTargetArgs {
    /// Device to write to: a directory, a tape library, a tape, or an array of them
    #[arg(long, value_name = "DEVICE", value_hint = ValueHint::DirPath)]
    pub to: Address,
    /// What the internal database keeps of the copy's catalogs: all, files, directories or none; by default as much as of
    /// the original's
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
    /// At the end, move the tapes that were written to mail slots, or eject the tape of a drive that stands alone, and record
    /// them as exported to this place
    #[arg(long, value_name = "LOCATION")]
    pub eject_to: Option<String>,
    /// Block size of a new medium, 64K to 8M
    #[arg(long, value_name = "SIZE", value_parser = parse_size_u32)]
    #[arg(allow_negative_numbers = true)]
    pub block_size: Option<u32>,
    /// Make a medium there even if the database knows another one in that place, or no disk is mounted there
    #[arg(long)]
    pub new_medium: bool,
    /// Have the tape drive encrypt, on tapes that it encrypts as a whole. Without this option a tape stays as it is
    #[arg(long, value_enum, value_name = "BY")]
    pub encrypt: Option<EncryptCopyArg>,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}
