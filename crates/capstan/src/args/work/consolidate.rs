//! The options of `capstan consolidate`.

use capstan_cell::request::VersionName;
use clap::{Args, ValueHint};

use crate::args::destination::Destination;
use crate::args::encrypt::EncryptCopyArg;
use crate::args::version::parse_version;
use crate::text::sizes::parse_size_u32;

const AFTER: &str = "\
Examples:
  capstan consolidate desk
  capstan consolidate desk --to /mnt/new
  capstan consolidate desk@1f2e3d4c --to /mnt/new
  capstan consolidate desk --to pool:tapes

The newest version, or the one of SESSION, and all that it builds on become one full version, a
synthetic full, which restores the same files. The source is not read. A frame of which at least
half is still needed is taken over as it is; of other frames the needed contents are saved anew.
For encrypted backups that needs a key that opens contents; with a key for names only, all frames
are taken over whole. Later --incr backups build on the synthetic full. The versions that it was
made from stay until they are removed. If a tape ends or fails, the session continues on the next
one of the library or pool. A tape that is read is not written.";

/// Arguments of `consolidate`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct ConsolidateArgs {
    /// The object's name, and the session if not the newest complete one
    #[arg(value_name = "NAME[@SESSION]", value_parser = parse_version)]
    pub version: VersionName,
    /// Where to: a tape library, a tape or a directory; or pool:NAME [default: the disk that has the version, or another tape of
    /// its pool or library]
    #[arg(long, value_name = "DEVICE|pool:NAME", value_hint = ValueHint::DirPath)]
    pub to: Option<Destination>,
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
