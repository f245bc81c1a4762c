//! The options of `capstan media`, and where a backup goes.

pub(super) mod library;
pub(super) mod pool;
pub(super) mod rait;
pub(super) mod vtl;

use capstan_address::{Address, LibraryName};
use capstan_cell::LabelRule;
use capstan_idb::RotationSet;
use clap::{ArgGroup, Args, Subcommand, ValueHint};

use crate::args::destination::Destination;
use crate::args::{CopyTargetArgs, ImportArgs, ProtectMediumArgs};
use crate::text::sizes::parse_size_u32;

const AFTER_LIST: &str = "\
Examples:
  capstan media list
  capstan media list --pool office
  capstan media list --json | jq -r '.media[] | select(.state == \"expired\") | .label'

States: free (holds nothing), appendable (has room), full, protected (its contents must stay and
its pool does not append), expired (nothing on it must stay: it may be recycled), exported (out of
the house, or a tape of it is), changed (not as it was last written: somebody cut it or wrote over it;
`capstan media show` says what differs), damaged (damage was found on it), poor (worn or at fault:
not written any more; `capstan media show` says what helps), retired (never written again), foreign (another cell's, to be
read only; `capstan media adopt` lets this cell write to it).

Where: the place in the library (slot:3, drive:1, mail:2), where the medium was brought, or why it
is not at hand. Used: for a tape, what its drive said when it was last written; for a directory,
how full its file system is. Loads: how often a robot of this cell loaded the tape. Kept until:
when the last version on it may go; of a rotation set, its turn. Empty columns are left out.";
const AFTER_SHOW: &str = "\
Examples:
  capstan media show monday
  capstan media show /mnt/backup --json";
const AFTER_INIT: &str = "\
Examples:
  capstan media init /mnt/backup
  capstan media init /mnt/usb1 --label monday --pool office
  capstan media init scsi:/dev/sg3 --barcodes 'A0*L9' --pool daily --dry-run
  capstan media init scsi:/dev/sg3 --barcodes 'A0*L9' --pool daily --label '{pool}-{n:03}'

The directory must be empty. A backup to a new directory makes a medium there by itself. Use this
command to give it a label or a pool first.

With --barcodes (a pattern with *, ? and [..]) each blank tape that matches becomes a medium. A
tape that is already a medium stays as it is. Any other tape stays as it is and is named with the
reason; the others are made, and the exit code is 3. `capstan media erase TAPE --foreign` makes
such a tape blank.

A rule for labels is text with {barcode}, {pool} and {n:03}: the first number, with three digits,
that gives a free label.";
const AFTER_PROTECT: &str = "\
Examples:
  capstan media protect monday --permanent
  capstan media protect monday --until 90d

This protects the versions, wherever else they lie. A medium is reused when nothing on it is
protected any more. `capstan lock` is stronger.";
const AFTER_EXPORT: &str = "\
Example:
  capstan media export monday --to 'bank, box 7'

A restore that needs it says where it went. `capstan media import DEVICE` takes it back.";
const AFTER_VAULT: &str = "\
Examples:
  capstan media vault
  capstan media vault scsi:/dev/sg3
  capstan media vault --json | jq -r '.to_vault[] | select(.exported == null) | .barcode'

To vault: tapes that were exported and are in the library still; tapes that --eject-to could not bring out, as no mail slot was
free; and media of pools that have a vault (`capstan pool set POOL --vault LOCATION`) when they take no more: they are full, the
pool appends nothing (--not-appendable), the day of their rotation set is over, or somebody put them into a mail slot. Not as long
as a session uses them. `capstan library export` brings tapes to the mail slots, and records where they go. One that --eject-to was
to bring out stays in the house if `capstan media import DEVICE` takes it back.

To fetch: exported media on which nothing must stay, so that they can be used again, and tapes for which sessions wait. A medium
with the last complete version of an object stays outside, as pools do not recycle it. `capstan library import` takes tapes in.

Media of other cells are not listed. Of several hosts with one database each lists the media that it had last. If a library cannot
be asked, that is said, and the exit code is 3.";
const AFTER_RECYCLE: &str = "\
Examples:
  capstan media recycle monday
  capstan media recycle A00007L9 --foreign

Gives up all that the medium holds. It is free again, with a new identity. Refused while anything
on it is protected, or a version that must stay builds on it. Refused, too, while it alone has what
no prune would remove, as an object's last complete version: --give-up gives that up.

--foreign is for a tape that another program wrote over. What the tape held is lost and given up;
what is on it now is erased. Refused if there is a Capstan medium on it.";
const AFTER_ERASE: &str = "\
Examples:
  capstan media erase monday
  capstan media erase A00007L9 --secure
  capstan media erase 'scsi:/dev/sg3?tape=A00007L9' --foreign

The contents can no longer be read by the usual means, and the medium is forgotten: its device is
blank, and `capstan media init` makes a new medium there. There is no question to confirm. Like
`recycle`, this is refused while anything on the medium is protected or locked, or a version that
must stay builds on it, and without --give-up while it alone has an object's last complete version.

On disk the files are removed; --secure first overwrites each of them once with zeros. On SSDs,
thin volumes and copy-on-write file systems (btrfs, ZFS, snapshots) the old bytes may stay
elsewhere. So encrypt what must never be read (`capstan key`), or erase the whole device by its
own means. On tape the drive erases, so that nothing is recorded on it any more (seconds to
minutes). With --secure it erases the tape's whole length, which takes as long as writing it full
(LTO-9: 13 hours).

Tapes of other programs, and of other cells, are never written. --foreign makes such a tape blank,
and also one that a killed `rait rebuild` left behind. Only a lock on it prevents that.";
const AFTER_FORGET: &str = "\
Example:
  capstan media forget monday

Use this for a medium that was destroyed, stolen or lost. While a medium is missing and was not
exported, the keep rules of its objects are suspended, and `capstan status` says so. This command
gives the medium up. Refused if it is at hand. Nothing is removed from it: if it turns up,
`capstan media import` brings back what it has.";
const AFTER_ADOPT: &str = "\
Examples:
  capstan media adopt /mnt/backup
  capstan media adopt scsi:/dev/sg3
  capstan media adopt /mnt/clone --as-new

A copy of a medium's directory has the identity of the original, so it is not written: nobody
could tell the segments of the two apart. With --as-new the copy becomes a medium of its own with
the same segments, and can be written and read like any other.

A cell writes only to its own media. After the loss of the home, `capstan idb recover` keeps the
cell's identity, so you need not adopt anything. If the medium's backups are encrypted, first take
its key ring over with `capstan key import`. Without a key ring this is refused, since later
backups would be in the clear.";

const AFTER_RETIRE: &str = "\
Examples:
  capstan media retire A00007L9
  capstan media retire A00007L9 --to pool:archive
  capstan media retire A00007L9 --no-copy
  capstan media retire A00007L9 --undo

What must stay on the medium is copied to another medium of its pool, or to another tape of its
library, unless it is already there. The copies are read back. Then the medium is recorded as
retired: it is never written again, neither by sessions nor by `recycle` or `erase`, and restores
read it only if nothing else has what they need. If any copy is not whole, nothing is retired; the
next attempt does not copy again what was copied.

With --no-copy nothing is copied. If the medium is not at hand, the versions that only it has are
named. They take no place of a keep rule, and `capstan status` is critical if the last complete
one is among them, until the medium is back.

Sessions do this by themselves, at their end, with tapes in poor condition (`capstan status` names
them). That needs two drives, and room on other tapes.";

const AFTER_REPAIR: &str = "\
Examples:
  capstan media repair monday --dry-run
  capstan media repair monday
  capstan media repair monday --from off-site

Reads the whole medium. Segments that are damaged or incomplete are written anew on it, as new
segments: from themselves, and what they lack from mirrors and copies that are at hand. What was
written is read back. Then the damaged segments are removed from a directory; on tape they stay,
and are read last. What is whole nowhere is named: the exit code is 3, and the damaged segment
stays. A tape cannot be read while it is written, so another medium must have all of the segment.

If the last segment that was written is missing, or another one is in its place, nothing is written:
another disk may be mounted there, or the disk is not mounted and an older copy lies in its mount
point. If it is the disk that was written, --as-it-is repairs it.

A damaged segment that no version needs is removed from a directory. A segment that this home does
not know may belong to another home, and stays. With --remove-unreadable it goes, if none of its
data can be read and no lock covers it. If some of it can be read, it stays in any case; move its
file elsewhere if nothing needs it.

If medium.capstan in a directory is damaged or missing, it is written anew first, from the
segments and the database, also for a medium that this home does not know. `capstan rait rebuild`
writes a member of an array anew. What the whole array lacks comes from copies.";

pub(in crate::args) const AFTER_MEDIA: &str = "\
Name a medium by its label, by its id or the first digits of it (at least 4), or by the device on
which it lies. A name without a slash may match two different media. Then nothing is done, and the
message says which they are. The whole id names one medium only; ./NAME and file:NAME name the one
in the directory NAME.";

/// The commands of `media`.
#[derive(Debug, Subcommand)]
pub enum MediaCommand {
    /// List the media that are known
    #[command(after_help = AFTER_LIST)]
    List {
        /// List only those of this pool
        #[arg(long, value_name = "POOL")]
        pool: Option<String>,
        /// Print one JSON object with the list `media`
        #[arg(long)]
        json: bool,
    },
    /// Show all that is known of a medium
    #[command(after_help = AFTER_SHOW)]
    Show {
        /// Its label, the first digits of its id, or its device
        #[arg(value_name = "MEDIUM")]
        medium: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Make a medium in an empty or new directory
    #[command(after_help = AFTER_INIT)]
    Init(InitArgs),
    /// Set how long the contents of a medium are kept: each version that has something on it
    #[command(after_help = AFTER_PROTECT)]
    Protect(ProtectMediumArgs),
    /// Copy all of a medium to another: as `capstan copy --medium`
    #[command(after_help = "Example:\n  capstan media copy shelf-7 --to /mnt/shelf-8")]
    Copy {
        /// Its label, the first digits of its id, or its device
        #[arg(value_name = "MEDIUM")]
        medium: String,
        /// Where to.
        #[command(flatten)]
        target: CopyTargetArgs,
    },
    /// Give a medium another label
    #[command(after_help = "Example:\n  capstan media label backup monday")]
    Label {
        /// Its label, the first digits of its id, or its device
        #[arg(value_name = "MEDIUM")]
        medium: String,
        /// Its new label
        #[arg(value_name = "LABEL")]
        label: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Put a medium into a pool, or take it out of any
    #[command(
        after_help = "Examples:\n  capstan media move monday --pool office\n  capstan media move V00001L9 --pool office --set daily\n  \
                      capstan media move monday --no-pool"
    )]
    #[command(group = ArgGroup::new("where").required(true).args(["pool", "no_pool"]))]
    Move {
        /// Its label, the first digits of its id, or its device
        #[arg(value_name = "MEDIUM")]
        medium: String,
        /// The pool
        #[arg(long, value_name = "POOL")]
        pool: Option<String>,
        /// The rotation set of the pool: daily, weekly or monthly
        #[arg(long, value_name = "SET", requires = "pool")]
        set: Option<RotationSet>,
        /// Take it out of its pool
        #[arg(long)]
        no_pool: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Read and check all that a medium holds: as `capstan verify --medium`
    #[command(after_help = "Example:\n  capstan media verify monday")]
    Verify {
        /// Its label, the first digits of its id, or its device
        #[arg(value_name = "MEDIUM")]
        medium: String,
        /// Print the report as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Repair a medium: write anew what is damaged or missing, from other media that have it
    #[command(after_help = AFTER_REPAIR)]
    Repair(RepairArgs),
    /// Record what is on a medium, for example one that comes back: as `capstan import`
    Import(ImportArgs),
    /// Make a medium of another cell one of this cell
    #[command(after_help = AFTER_ADOPT)]
    Adopt {
        /// Its label, its device, or a library: all tapes of it that were imported
        #[arg(value_hint = ValueHint::DirPath)]
        medium: String,
        /// Even if its backups are encrypted and this home has no key ring: later backups are then not encrypted
        #[arg(long)]
        unencrypted: bool,
        /// Give the medium in a directory a new identity: it is a copy (`cp -a`, a cloned disk) of another one
        #[arg(long)]
        as_new: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Record that a medium leaves the house: nothing is written to it until it comes back
    #[command(after_help = AFTER_EXPORT)]
    Export {
        /// Its label, the first digits of its id, or its device; of an array also the device of one of its tapes, which goes alone
        #[arg(value_name = "MEDIUM")]
        medium: String,
        /// Where it goes [default: where --eject-to was to bring it, or the vault of its pool]
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        to: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// List the media to bring to the vault, and those to fetch from there
    #[command(after_help = AFTER_VAULT)]
    Vault {
        /// Only tapes of this library: vtape:/dir, scsi:/dev/sgN or iscsi://host/target-iqn/lun
        #[arg(value_name = "LIBRARY")]
        library: Option<LibraryName>,
        /// Print one JSON object with the lists `to_vault` and `to_fetch`
        #[arg(long)]
        json: bool,
    },
    /// Give up all that a medium holds
    #[command(after_help = AFTER_RECYCLE)]
    Recycle {
        /// Its label, the first digits of its id, or its device
        #[arg(value_name = "MEDIUM")]
        medium: String,
        /// Another program wrote over its tape: erase that, and make the tape a free medium again
        #[arg(long, conflicts_with = "give_up")]
        foreign: bool,
        /// Give up an object's last complete version, too
        #[arg(long)]
        give_up: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Copy what must stay on a medium elsewhere, and never write it again
    #[command(after_help = AFTER_RETIRE)]
    Retire(RetireArgs),
    /// Forget a medium that is lost, and the versions that need what only it has
    #[command(after_help = AFTER_FORGET)]
    Forget {
        /// Its label, or the first digits of its id
        #[arg(value_name = "MEDIUM")]
        medium: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Erase a medium that holds nothing that must stay, and forget it
    #[command(after_help = AFTER_ERASE)]
    Erase {
        /// Its label, the first digits of its id, or its device
        #[arg(value_name = "MEDIUM")]
        medium: String,
        /// Overwrite everything once: files with zeros, a tape by the drive in its whole length
        #[arg(long)]
        secure: bool,
        /// Erase a tape that the database does not know, whatever is on it; name it as a device
        #[arg(long, conflicts_with = "give_up")]
        foreign: bool,
        /// Give up an object's last complete version, too
        #[arg(long)]
        give_up: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `media repair`.
#[derive(Debug, Args)]
pub struct RepairArgs {
    /// Its label, the first digits of its id, or its device
    #[arg(value_name = "MEDIUM")]
    pub medium: String,
    /// Take what it lacks from this medium only [default: from all that are at hand]
    #[arg(long, value_name = "MEDIUM")]
    pub from: Option<String>,
    /// Remove from a directory segments of which nothing can be read and this home knows nothing
    #[arg(long)]
    pub remove_unreadable: bool,
    /// Repair it even if its last segments are missing: it is the disk that was written, not an older copy
    #[arg(long)]
    pub as_it_is: bool,
    /// Only say what would be written anew
    #[arg(long)]
    pub dry_run: bool,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `media retire`.
#[derive(Debug, Args)]
pub struct RetireArgs {
    /// Its label, the first digits of its id, or its device
    #[arg(value_name = "MEDIUM")]
    pub medium: String,
    /// Where what must stay goes: a tape library, a tape or a directory; or pool:NAME [default: its pool, or its library]
    #[arg(long, value_name = "DEVICE|pool:NAME", value_hint = ValueHint::DirPath)]
    pub to: Option<Destination>,
    /// Copy nothing, whatever is on it: for example of a tape that is destroyed
    #[arg(long, conflicts_with = "to")]
    pub no_copy: bool,
    /// Make a medium there even if the database knows another one in that place, or no disk is mounted there
    #[arg(long)]
    pub new_medium: bool,
    /// Undo: it is no longer retired, and requests of drives to be cleaned no longer count against it
    #[arg(long, conflicts_with_all = ["to", "no_copy"])]
    pub undo: bool,
    /// Print the report as one JSON object; with --undo, the medium
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `media init`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_INIT)]
pub struct InitArgs {
    /// An empty or new directory, or file:/path; a tape, as LIBRARY?tape=BARCODE; with --barcodes a library
    #[arg(value_name = "DEVICE", value_hint = ValueHint::DirPath)]
    pub device: Address,
    /// Make media of all blank tapes of the library whose barcodes match this pattern
    #[arg(long, value_name = "PATTERN", conflicts_with = "new_medium")]
    pub barcodes: Option<String>,
    /// Its label, or a rule for it [default: its pool's rule, else the directory's or tape's name]
    #[arg(long, value_name = "LABEL")]
    pub label: Option<LabelRule>,
    /// Say what would be done with each tape; load and write nothing
    #[arg(long, requires = "barcodes")]
    pub dry_run: bool,
    /// The pool to put it into
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,
    /// Its block size, 64K to 8M [default: 512K]
    #[arg(long, value_name = "SIZE", value_parser = parse_size_u32)]
    pub block_size: Option<u32>,
    /// Make a medium there even if the database knows another one in that place, or no disk is mounted there
    #[arg(long)]
    pub new_medium: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
