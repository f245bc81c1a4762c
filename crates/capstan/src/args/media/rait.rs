//! The options of `capstan rait`.

use capstan_address::Address;
use clap::Subcommand;

const AFTER_STATUS: &str = "\
Examples:
  capstan rait status rait5:/mnt/a,/mnt/b,/mnt/c
  capstan rait status weekly --json

Exit codes: 0 all members are whole; 3 some are lost or incomplete, or recorded segments are on
too few of the members at hand; 1 too many are lost to read the array.";
const AFTER_REBUILD: &str = "\
Examples:
  capstan rait rebuild weekly --member /mnt/b --onto /mnt/new
  capstan rait rebuild rait5:/mnt/a,/mnt/b,/mnt/c --member 2 --onto /mnt/new

Computes the contents of the member from the others. The new member takes its place, and the
array's name then has the new one. Nothing is removed from the old one. Blocks for which too
little is left are marked as damaged, and named. Nothing is written while recorded segments are on
too few of the members at hand.";

/// The commands of `rait`.
#[derive(Debug, Subcommand)]
pub enum RaitCommand {
    /// Show an array and the state of its members
    #[command(after_help = AFTER_STATUS)]
    Status {
        /// Its label, the first digits of its id, or its device
        #[arg(value_name = "ARRAY")]
        array: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Rebuild a lost member of an array on another device
    #[command(after_help = AFTER_REBUILD)]
    Rebuild {
        /// Its label, the first digits of its id, or its device
        #[arg(value_name = "ARRAY")]
        array: String,
        /// The member: its device as the array's name has it, its barcode, or its number from 1
        #[arg(long, value_name = "OLD")]
        member: String,
        /// A blank device: an empty or new directory, or a blank tape
        #[arg(long, value_name = "NEW")]
        onto: Address,
        /// Write it there even if the database knows another medium in that place, or no disk is mounted there
        #[arg(long)]
        new_medium: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}
