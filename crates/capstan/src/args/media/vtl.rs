//! The options of `capstan vtl`.

use std::path::PathBuf;

use capstan_engine::problem::Problem;
use clap::{Args, Subcommand, ValueHint};

use crate::args::media::library::drive;
use crate::text::sizes::parse_size;

const AFTER: &str = "\
A virtual library is a directory with drives, slots, a robot and tapes that behave like real ones
and take as long: for trials, tests, training, and to plan purchases. As a device it is vtape:DIR.
`capstan library` shows it and moves its tapes.";
const AFTER_CREATE: &str = "\
Examples:
  capstan vtl create /srv/vtl
  capstan vtl create /srv/vtl --model lto-7 --drives 4 --slots 96 --tapes 40
  capstan vtl create /tmp/vtl --capacity 40M --scale 1000
  capstan vtl create /srv/drive --alone --slots 10

A drive that stands alone has no robot: `capstan vtl insert` puts its tapes in. The tapes are
files below DIR that grow as they are written: limit them with --capacity, or provide the room.";
const AFTER_FAULT: &str = "\
Examples:
  capstan vtl fault /srv/vtl --drive 1 write:120=error
  capstan vtl fault /srv/vtl --drive 2 read:1=offline
  capstan vtl fault /srv/vtl move:3=jam

PLAN is OPERATION:N=FAULT; several are joined by commas. It means the N-th write, read, mark
(filemark), sync (the buffer is written to the tape), locate (by the drive's own number) or space
(by filemarks) of the drive, or the N-th move of the robot. Operations are counted from now on,
over all commands that use it. Each fault strikes once, and the report of that session names it. A
new plan replaces the last one; an empty one ('') ends it.

Faults of a drive: error (the tape cannot be written or read there), offline (the drive stops
answering), power (the same, and its buffer is lost), dirty (it asks to be cleaned). Fault of the
robot: jam, only for a move. For the next command, a robot that jammed and a drive that stopped
answering are well again.";
const AFTER_INSERT: &str = "\
Examples:
  capstan vtl insert /srv/drive V00002L9
  capstan vtl insert /srv/vtl V00007L9

The tape that was in a drive that stands alone goes back to the shelf. A session that uses the
drive keeps its tape. In a library the tape goes into a mail slot (`capstan library import` puts
it away), or into a slot if no mail slot is free.";
const AFTER_TAKE: &str = "\
Examples:
  capstan library export vtape:/srv/vtl V00007L9 --location 'bank, box 7'
  capstan vtl take /srv/vtl V00007L9

`capstan vtl insert` puts it back.";
const AFTER_ADD: &str = "\
Examples:
  capstan vtl add-tape /srv/vtl
  capstan vtl add-tape /srv/vtl --barcode OLD042L6 --write-protected
  capstan vtl add-tape /srv/vtl --cleaning 50

The tape goes into a mail slot (`capstan library import` puts it away), or into a slot if no mail slot is free.";

/// The commands of `vtl`.
#[derive(Debug, Subcommand)]
#[command(after_help = AFTER)]
pub enum VtlCommand {
    /// Make a virtual library in a new or empty directory
    #[command(after_help = AFTER_CREATE)]
    Create(CreateVtlArgs),
    /// List the drive models that there are
    #[command(after_help = "Examples:\n  capstan vtl models\n  capstan vtl models --json")]
    Models {
        /// Print one JSON object with the list `models`
        #[arg(long)]
        json: bool,
    },
    /// Plan faults of a drive or the robot
    #[command(after_help = AFTER_FAULT)]
    Fault {
        /// The library's directory
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = directory)]
        dir: PathBuf,
        /// A fault of this drive; without it, of the robot
        #[arg(long, value_name = "N", value_parser = drive)]
        drive: Option<u32>,
        /// Which fault, and when
        #[arg(value_name = "PLAN")]
        plan: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Put a tape into a drive that stands alone, or one that was taken out back into its library, as an operator does by hand
    #[command(after_help = AFTER_INSERT)]
    Insert {
        /// The directory of the drive or library
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = directory)]
        dir: PathBuf,
        /// The tape, by its barcode
        #[arg(value_name = "BARCODE")]
        barcode: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Take a tape out of a mail slot or slot, as an operator does by hand
    #[command(after_help = AFTER_TAKE)]
    Take {
        /// The library's directory
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = directory)]
        dir: PathBuf,
        /// The tape, by its barcode
        #[arg(value_name = "BARCODE")]
        barcode: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Put a new tape into a mail slot
    #[command(after_help = AFTER_ADD)]
    AddTape {
        /// The library's directory
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = directory)]
        dir: PathBuf,
        /// Its barcode [default: the next free number]
        #[arg(long, value_name = "BARCODE")]
        barcode: Option<String>,
        /// A cleaning tape with so many uses
        #[arg(long, value_name = "USES")]
        cleaning: Option<u32>,
        /// Its write-protect tab is set
        #[arg(long)]
        write_protected: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `vtl create`.
#[derive(Debug, Args)]
pub struct CreateVtlArgs {
    /// A new or empty directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = directory)]
    pub dir: PathBuf,
    /// The model of its drives: one of `capstan vtl models`
    #[arg(long, value_name = "MODEL", default_value = "lto-9")]
    pub model: String,
    /// Make a drive that stands alone, without a robot; the slots are a shelf for its tapes
    #[arg(long, conflicts_with_all = ["drives", "mail_slots"])]
    pub alone: bool,
    /// How many drives
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub drives: u32,
    /// How many slots for tapes
    #[arg(long, value_name = "N", default_value_t = 24)]
    pub slots: u32,
    /// How many mail slots, through which tapes come and go
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub mail_slots: u32,
    /// How many tapes it has at first [default: one in each slot]
    #[arg(long, value_name = "N")]
    pub tapes: Option<u32>,
    /// Capacity of a tape [default: that of the model's tapes]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub capacity: Option<u64>,
    /// How many times as fast as real time its clock runs
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pub scale: f64,
    /// Compression ratio of the drives
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pub ratio: f64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A directory, also as a device.
fn directory(text: &str) -> Result<PathBuf, Problem> {
    match text.strip_prefix("vtape:").unwrap_or(text) {
        "" => Err(Problem::new("it names no directory").hint("write its path")),
        path => Ok(PathBuf::from(path)),
    }
}
