//! The options of `capstan library`.

use capstan_address::LibraryName;
use capstan_cell::library::TapeName;
use capstan_engine::problem::Problem;
use capstan_medium::tape::Place;
use clap::{Args, Subcommand};

const AFTER: &str = "\
A LIBRARY is a device name: vtape:/dir (a virtual one), scsi:/dev/sgN (a changer of this machine, or a drive that stands
alone), iscsi://[user@]host[:port]/target-iqn/lun. Places are slot:N, drive:N and mail:N, numbered from 1 as the library
numbers its elements.

Exit codes: 1 a drive, a tape or the robot failed; 2 it cannot be done as asked (no such place, no tape there, the drive is
in use): nothing was moved; 3 `scan`: some targets could not be asked.";
const AFTER_SCAN: &str = "\
Examples:
  capstan library scan
  capstan library scan --iscsi tapes.example.org
  CAPSTAN_CHAP_SECRET=... capstan library scan --iscsi backup@10.0.0.7:3260 --json";
const AFTER_STATUS: &str = "\
Examples:
  capstan library status scsi:/dev/sg3
  capstan library status vtape:/srv/vtl --json";
const AFTER_INVENTORY: &str = "\
Examples:
  capstan library inventory scsi:/dev/sg3
  capstan library inventory scsi:/dev/sg3 --rescan
  capstan library inventory vtape:/srv/vtl --json | jq -r '.tapes[] | select(.known | not) | .barcode'

States are those of `capstan media list`. `unknown` means that nothing of this cell is recorded on
the tape. Tapes that a search found unusable are listed with what they are (foreign, another
cell's, write-protected, unreadable, blank) and since when. No search loads them again until they
move. --rescan forgets that, and takes back exported media whose tapes are in slots.";
const AFTER_MOVE: &str = "\
Example:
  capstan library move scsi:/dev/sg3 slot:4 mail:1

The tape of a drive is unloaded first.";
const AFTER_LOAD: &str = "\
Examples:
  capstan library load scsi:/dev/sg3 A00007L9
  capstan library load scsi:/dev/sg3 slot:7 drive:2

Without DRIVE, the first drive that is empty and not in use. Sessions load what they need by themselves.";
const AFTER_IMPORT: &str = "\
Example:
  capstan library import scsi:/dev/sg3

Media that were exported count as back. `capstan import` records what is on tapes that this cell does not know.";
const AFTER_EXPORT: &str = "\
Examples:
  capstan library export scsi:/dev/sg3 A00007L9 A00008L9 --location 'bank, box 7'

Before the first tape is moved, all tapes must be found, and the mail slots must have room. The
media are recorded as exported; `capstan library import` takes them back. Each tape of an array has a
place of its own.";
const AFTER_CLEAN: &str = "\
Example:
  capstan library clean scsi:/dev/sg3 drive:1

Takes the first cleaning tape of the library (its barcode begins with CLN) that is not used up, and puts it back.";

const AFTER_DISABLE: &str = "\
Example:
  capstan library disable scsi:/dev/sg3 drive:1

No session brings a tape to that drive, unless the session names it (`?drive=1`). What is written in it now goes on.
`capstan library status` shows it. One drive of each library stays in service.";
const AFTER_ENABLE: &str = "\
Example:
  capstan library enable scsi:/dev/sg3 drive:1

Use it after a repair too. A drive that failed, or that could not write several tapes, comes behind all others until a
session works in it or it is cleaned. What is on record of a library that is gone is forgotten in the same way.";

/// The commands of `library`.
#[derive(Debug, Subcommand)]
#[command(after_help = AFTER)]
pub enum LibraryCommand {
    /// Find the tape drives and libraries of this machine, or of an iSCSI host
    #[command(after_help = AFTER_SCAN)]
    Scan {
        /// Ask this host instead: [USER@]HOST[:PORT]
        #[arg(long, value_name = "HOST")]
        iscsi: Vec<String>,
        /// Print one JSON object with the list `devices`
        #[arg(long)]
        json: bool,
    },
    /// Show a library's drives, who uses them, and how many tapes it has
    #[command(after_help = AFTER_STATUS)]
    Status(OfLibrary),
    /// List a library's tapes, and what is known of each
    #[command(after_help = AFTER_INVENTORY)]
    Inventory {
        /// The library.
        #[command(flatten)]
        of: OfLibrary,
        /// Have the library look into every slot first, which can take an hour, and forget what was found on tapes
        #[arg(long)]
        rescan: bool,
    },
    /// Move a tape from one place to another
    #[command(after_help = AFTER_MOVE)]
    Move {
        /// The library.
        #[command(flatten)]
        of: OfLibrary,
        /// Where the tape is
        #[arg(value_name = "FROM")]
        from: Place,
        /// Where it goes
        #[arg(value_name = "TO")]
        to: Place,
    },
    /// Load a tape into a drive
    #[command(after_help = AFTER_LOAD)]
    Load {
        /// The library.
        #[command(flatten)]
        of: OfLibrary,
        /// The tape: its barcode, or where it is
        #[arg(value_name = "BARCODE|PLACE")]
        tape: TapeName,
        /// The drive
        #[arg(value_name = "DRIVE", value_parser = drive)]
        drive: Option<u32>,
    },
    /// Unload a drive and put its tape back where it came from
    #[command(after_help = "Example:\n  capstan library unload scsi:/dev/sg3 drive:1")]
    Unload {
        /// The library.
        #[command(flatten)]
        of: OfLibrary,
        /// The drive [default: 1, of a drive that stands alone]
        #[arg(value_name = "DRIVE", value_parser = drive, default_value = "drive:1", hide_default_value = true)]
        drive: u32,
    },
    /// Move the tapes in the mail slots to free slots
    #[command(after_help = AFTER_IMPORT)]
    Import(OfLibrary),
    /// Move tapes to mail slots, and record where their media go
    #[command(after_help = AFTER_EXPORT)]
    Export {
        /// The library.
        #[command(flatten)]
        of: OfLibrary,
        /// The tapes
        #[arg(value_name = "BARCODE", required = true)]
        barcodes: Vec<String>,
        /// Where they go [default: where --eject-to was to bring them, or the vault of their pool]
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        location: String,
    },
    /// Take a drive out of service
    #[command(after_help = AFTER_DISABLE)]
    Disable {
        /// The library.
        #[command(flatten)]
        of: OfLibrary,
        /// The drive
        #[arg(value_name = "DRIVE", value_parser = drive)]
        drive: u32,
    },
    /// Take a drive back into service, and forget what is on record against it
    #[command(after_help = AFTER_ENABLE)]
    Enable {
        /// The library.
        #[command(flatten)]
        of: OfLibrary,
        /// The drive
        #[arg(value_name = "DRIVE", value_parser = drive)]
        drive: u32,
    },
    /// Clean a drive with a cleaning tape of the library
    #[command(after_help = AFTER_CLEAN)]
    Clean {
        /// The library.
        #[command(flatten)]
        of: OfLibrary,
        /// The drive
        #[arg(value_name = "DRIVE", value_parser = drive)]
        drive: u32,
    },
}

/// A library, and how it is shown.
#[derive(Debug, Args)]
pub struct OfLibrary {
    /// The library: vtape:/dir, scsi:/dev/sgN or iscsi://host/target-iqn/lun
    #[arg(value_name = "LIBRARY")]
    pub library: LibraryName,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A drive as `drive:2` or `2`.
pub fn drive(text: &str) -> Result<u32, Problem> {
    let number = text.strip_prefix("drive:").unwrap_or(text).parse().ok().filter(|n| *n > 0);
    number.ok_or_else(|| {
        Problem::new(format!("'{text}' is no drive")).hint("write drive:N, N from 1")
    })
}
