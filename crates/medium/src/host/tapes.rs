//! Libraries, drives, and the tapes in them.

use std::sync::Arc;

use capstan_address::{Address, LibraryName, TapeAddress};
use capstan_format::id::MediumId;

use super::ledger::{DriveFault, Exported, Keep, Recorded};
use super::shared::Common;
use crate::DeviceError;
use crate::tape::{DriveSession, FoundDevice, Held, OnTape, Struck, TapeError, TapeLibrary};

/// A medium that is tried: dropped, it gives back the drives of tapes that were loaded for that.
pub trait Trial: Send {
    /// It will do: what was loaded stays in its drive.
    fn keep(self: Box<Self>);
}

/// What a device host has of libraries and drives.
pub trait Tapes {
    /// Opens a library, or a drive that stands alone, which is a library without slots.
    fn library(&self, name: &LibraryName) -> Result<Box<dyn TapeLibrary>, TapeError>;
    /// Drives and changers of its machine.
    fn devices_here(&self) -> Vec<FoundDevice>;
    /// Drives and changers of an iSCSI host, `[user@]host[:port]`; and why some of its targets could not be asked.
    fn devices_at(&self, host: &str) -> Result<(Vec<FoundDevice>, Vec<String>), DeviceError>;
    /// Whether it is a drive that stands alone: somebody puts its tapes in by hand.
    fn is_by_hand(&self, tape: &TapeAddress) -> Result<bool, DeviceError>;
    /// Refuses an address that names a drive which its library does not have. Of a library that is away it is not known.
    fn refuse_no_drive(&self, address: &Address) -> Result<(), DeviceError>;
    /// Why no drive of a library writes a tape, by its barcode, in words that follow its name; nothing where one does, or nobody
    /// knows.
    fn why_not_written(
        &self,
        library: &LibraryName,
        barcode: &str,
    ) -> Result<Option<String>, TapeError>;
    /// What lies in a library, by place, as it was at most two seconds ago.
    fn inventory(&self, name: &LibraryName) -> Result<Vec<Held>, TapeError>;
    /// The same, as it is now.
    fn inventory_now(&self, name: &LibraryName) -> Result<Vec<Held>, TapeError>;

    /// What is on a tape that it has in a drive now. Nothing where it has it not: the tape is not loaded for that; nor where it
    /// cannot be read.
    fn seen_on(&self, address: &TapeAddress) -> Option<OnTape>;
    /// Refuses a tape on which anything is, or that takes nothing.
    fn refuse_used(&self, tape: &TapeAddress) -> Result<(), DeviceError>;
    /// Refuses a tape that cannot be erased.
    fn refuse_worm(&self, address: &TapeAddress) -> Result<(), DeviceError>;
    /// Erases a tape, whatever is on it. `secure`: all of its length.
    fn erase_tape(&self, address: &TapeAddress, secure: bool) -> Result<(), DeviceError>;
    /// Takes the tape out of a drive that stands alone; the host gives the drive up, if it does not write there.
    fn eject(&self, address: &TapeAddress) -> Result<(), TapeError>;

    /// Tries a medium.
    fn trial(&self, medium: &Address) -> Box<dyn Trial>;
    /// Has the tapes of a medium waited for from here on, as long as they are only read: where others have them, or all drives
    /// ([`super::queue`]).
    fn wait_for(&self, address: &Address);
    /// Leaves the tapes of a medium in their mail slots, if they are exported by record: somebody takes them out. It holds until they are
    /// waited for to be read ([`Self::wait_for`]).
    fn leave_exported(&self, address: &Address);
    /// Gives back the drives of all tapes that are not being written; the tapes stay in them.
    fn release_idle(&self);
    /// Gives back the drives of a medium's tapes that this session has read as far as it needs them; the tapes stay in them. What is
    /// just read, or written, stays this host's.
    fn done_reading(&self, medium: &Address);
    /// The same of a medium that this session has written as far as it does.
    fn done_writing(&self, medium: &Address);
    /// Whether it writes with every drive of a library: there is none to wait for.
    fn has_all_drives(&self, library: &LibraryName) -> bool;
    /// Tells of the tapes of a medium that it has in drives how much of them is written, as their drives say it.
    fn note_use(&self, medium: MediumId, device: &Address);

    /// What the drives did that tapes are read in, or did since that was asked.
    fn take_sessions(&self) -> Vec<DriveSession>;
    /// What those drives did that could not read a tape, which another one reads, since that was asked.
    fn take_suspects(&self) -> Vec<DriveSession>;
    /// What drives did not do, since that was asked last.
    fn take_drive_faults(&self) -> Vec<DriveFault>;
    /// What the drive did not do in which a tape was last, as it was written.
    fn drive_fault_of(&self, tape: &TapeAddress) -> Option<DriveFault>;
    /// Whether a drive could do all that it was to do for this host.
    fn is_drive_sound(&self, library: &LibraryName, drive: u32) -> bool;
    /// The planned faults that struck in its virtual libraries since that was asked last.
    fn take_struck(&self) -> Vec<Struck>;

    /// Says what it shares with other hosts. The first one stays.
    fn share_with(&self, common: Arc<dyn Common>);
    /// Says who keeps what happens to its tapes. The first one stays.
    fn keep_with(&self, keep: Box<Keep>);
    /// Says who knows what is on record against drives. The first one stays.
    fn doubt_drives_by(&self, recorded: Box<Recorded>);
    /// Says who knows which tapes are exported by record. The first one stays.
    fn know_exported_by(&self, recorded: Box<Exported>);
}
