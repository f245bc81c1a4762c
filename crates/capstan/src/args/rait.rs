//! The options of `capstan rait`.

use capstan_devices::address::Address;
use clap::Subcommand;

const AFTER_STATUS: &str = "\
Examples:
  capstan rait status rait5:/mnt/a,/mnt/b,/mnt/c
  capstan rait status weekly --json

Exit status: 0 if all members are whole, 3 if some are lost or incomplete, or if segments that are
recorded are on too few of the members at hand, 1 if too many are lost to read the array.";
const AFTER_REBUILD: &str = "\
Examples:
  capstan rait rebuild weekly --member /mnt/b --onto /mnt/new
  capstan rait rebuild rait5:/mnt/a,/mnt/b,/mnt/c --member 2 --onto /mnt/new

What the member had, or lacked, is computed from the others, and the new one takes its place: the
array is then named with it. Nothing is removed from the old one. Blocks for which too little is
left are marked as damaged, and named. Nothing is written while segments that are recorded are on
too few of the members at hand.";

/// The commands of `rait`.
#[derive(Debug, Subcommand)]
pub enum RaitCommand {
    /// Show an array and how its members are
    #[command(after_help = AFTER_STATUS)]
    Status {
        /// Its label, the begin of its id, or its device
        #[arg(value_name = "ARRAY")]
        array: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write a lost member of an array anew onto another device
    #[command(after_help = AFTER_REBUILD)]
    Rebuild {
        /// Its label, the begin of its id, or its device
        #[arg(value_name = "ARRAY")]
        array: String,
        /// The member: its device as the array's name has it, its barcode, or its number from 1
        #[arg(long, value_name = "OLD")]
        member: String,
        /// A blank device: an empty or new directory, or a blank tape
        #[arg(long, value_name = "NEW")]
        onto: Address,
        /// Write it there though the database knows another medium in that place, or a disk is not mounted there
        #[arg(long)]
        new_medium: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}
