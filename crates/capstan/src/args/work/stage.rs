//! The options of `capstan stage`.

use clap::{Args, ValueHint};

use crate::args::destination::Destination;
use crate::args::encrypt::EncryptCopyArg;
use crate::args::time::{When, parse_when};
use crate::text::sizes::{parse_size, parse_size_u32};

const AFTER: &str = "\
Examples:
  capstan stage disks --to pool:tapes --older-than 3d
  capstan stage disks --to vtape:/srv/vtl --keep 2T
  capstan stage /mnt/backup --to scsi:/dev/sg3 --dry-run

Versions go oldest first. Each is copied, the copy is read back and checked, and only then its
segments are removed from disk. What is already on the target is not copied again. From then on
restores, incrementals and all other commands use the copy. With --older-than and --keep both
conditions must hold.

A locked version is copied with its lock, and stays on disk until the lock ends. A version that is
mirrored by `backup --mirror`, incomplete or in use stays on disk, and the report says so. So does
a version whose copy does not verify. Run an interrupted stage again to continue it.";

/// Arguments of `stage`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER)]
pub struct StageArgs {
    /// What to stage: the disk media of a pool, or one disk medium (its label, id or device)
    #[arg(value_name = "POOL|DEVICE")]
    pub source: String,
    /// Where to: a tape library, a tape or a directory; or pool:NAME, whose policy chooses
    #[arg(long, value_name = "DEVICE|pool:NAME", value_hint = ValueHint::DirPath)]
    pub to: Destination,
    /// Only versions that were begun longer ago, or before a time: 12h, 3d, 2w, 2026-11-20
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub older_than: Option<When>,
    /// Continue, oldest first, until no more than this is left on the disk
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_negative_numbers = true)]
    pub keep: Option<u64>,
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
    /// Only say what would be staged, and what stays and why
    #[arg(long)]
    pub dry_run: bool,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}
