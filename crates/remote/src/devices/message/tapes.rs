//! What is asked of libraries, drives and tapes.

use capstan_format::id::MediumId;
use capstan_medium::tape::Place;
use serde::{Deserialize, Serialize};

use super::names::{Dev, Lib, TapeName};

/// What is asked of libraries and tapes: the methods of [`capstan_medium::host::Tapes`].
#[derive(Debug, Serialize, Deserialize)]
pub enum OfTapes {
    /// A library is opened.
    Library(Lib),
    /// Drives and changers of the host.
    DevicesHere,
    /// Those of an iSCSI host.
    DevicesAt(String),
    /// Whether tapes are put in by hand.
    IsByHand(TapeName),
    /// Refuses a drive that is not there.
    RefuseNoDrive(Dev),
    /// Why no drive writes a tape.
    WhyNotWritten(Lib, String),
    /// What lies in a library.
    Inventory(Lib),
    /// The same, as it is now.
    InventoryNow(Lib),
    /// What is on a tape that is in a drive.
    SeenOn(TapeName),
    /// Refuses a tape on which anything is.
    RefuseUsed(TapeName),
    /// Refuses a tape that cannot be erased.
    RefuseWorm(TapeName),
    /// Erases a tape, all of its length or not.
    EraseTape(TapeName, bool),
    /// Takes a tape out.
    Eject(TapeName),
    /// Tries a medium.
    Trial(Dev),
    /// Its tapes are waited for.
    WaitFor(Dev),
    /// Its tapes are left in mail slots.
    LeaveExported(Dev),
    /// Gives back drives that do not write.
    ReleaseIdle,
    /// Gives back the drives of a medium that was read.
    DoneReading(Dev),
    /// The same of one that was written.
    DoneWriting(Dev),
    /// Whether it writes with all drives.
    HasAllDrives(Lib),
    /// How much of a medium's tapes is written.
    NoteUse(MediumId, Dev),
    /// What drives did.
    TakeSessions,
    /// What drives did that could not read.
    TakeSuspects,
    /// What drives did not do.
    TakeDriveFaults,
    /// What the drive of a tape did not do.
    DriveFaultOf(TapeName),
    /// Whether a drive is sound.
    IsDriveSound(Lib, u32),
    /// Planned faults that struck.
    TakeStruck,
}

/// What is asked of a library that was opened: the methods of [`capstan_medium::tape::TapeLibrary`].
#[derive(Debug, Serialize, Deserialize)]
pub enum OfLibrary {
    /// All tapes in it.
    Inventory,
    /// Looks into every slot again.
    Rescan,
    /// Unloads a drive.
    UnloadDrive(u32),
    /// Moves a tape.
    MoveTape(Place, Place),
    /// What is known of a drive.
    DriveInfo(u32),
    /// Uses of a cleaning tape that are left.
    CleaningsLeft(String),
    /// Cleans a drive.
    Clean(u32, Place),
}
