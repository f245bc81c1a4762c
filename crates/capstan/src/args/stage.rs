//! The options of `capstan stage`.

use clap::{Args, ValueHint};

use super::encrypt::EncryptCopyArg;
use super::media::Destination;
use super::time::{When, parse_when};
use crate::sizes::{parse_size, parse_size_u32};

const AFTER: &str = "\
Examples:
  capstan stage disks --to pool:tapes --older-than 3d
  capstan stage disks --to vtape:/srv/vtl --keep 2T
  capstan stage /mnt/backup --to scsi:/dev/sg3 --dry-run

Versions go oldest first: each is copied (what is on the target already is not copied again), the copy is read back from
there and checked, and only then its segments are removed from disk. Restores, incrementals and all else use the copy from
then on. With --older-than and --keep both conditions hold.

What is locked is copied, with its lock, and stays on disk until the lock is over. What is mirrored by `backup --mirror`, not
complete or in use stays on disk, and the report says so; so does all of a version whose copy does not verify. A stage that was interrupted goes on when it is run again.";

/// Arguments of `stage`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER)]
pub struct StageArgs {
    /// What is staged: a pool, of which the disk media are meant, or one disk medium (its label, id or device)
    #[arg(value_name = "POOL|DEVICE")]
    pub source: String,
    /// Where to: a tape library, a tape or a directory; or pool:NAME, whose policy chooses
    #[arg(long, value_name = "DEVICE|pool:NAME", value_hint = ValueHint::DirPath)]
    pub to: Destination,
    /// Only versions that were begun longer ago, or before a time: 12h, 3d, 2w, 2026-11-20
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub older_than: Option<When>,
    /// Go on, oldest first, until no more than so much is left on the disk
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_negative_numbers = true)]
    pub keep: Option<u64>,
    /// Block size of a new medium, 64K to 8M
    #[arg(long, value_name = "SIZE", value_parser = parse_size_u32)]
    #[arg(allow_negative_numbers = true)]
    pub block_size: Option<u32>,
    /// Make a medium there though the database knows another one in that place, or a disk is not mounted there
    #[arg(long)]
    pub new_medium: bool,
    /// Have the tape drive encrypt, on a tape that it encrypts as a whole; without this option a tape stays as it is
    #[arg(long, value_enum, value_name = "BY")]
    pub encrypt: Option<EncryptCopyArg>,
    /// Only say what would be staged, and what stays and why
    #[arg(long)]
    pub dry_run: bool,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}
