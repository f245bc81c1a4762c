//! What drives and libraries are not asked for.

use capstan_address::{Address, LibraryName};
use capstan_engine::problem::Explain;
use capstan_medium::tape::Place;

/// Why a drive or a library is not used as it was asked for; nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum DriveRefusal {
    /// A medium takes no more, and something was to be attached to it.
    #[error("{medium} is full")]
    Full {
        /// The medium.
        medium: String,
    },
    /// Damage was found on a medium, and something was to be attached to it.
    #[error("damage was found on {medium}")]
    Damaged {
        /// The medium.
        medium: String,
    },
    /// A tape was exchanged since the session wrote to it.
    #[error("{medium} is not in {device} any more")]
    Exchanged {
        /// The medium that was written.
        medium: String,
        /// Where it was.
        device: Address,
    },
    /// There is no room left on a medium for what is to be attached to it.
    #[error("{medium} has no room left for a {what}")]
    NoRoom {
        /// The medium.
        medium: String,
        /// What was to be attached.
        what: String,
    },
    /// Drives are to encrypt, and a device is no tape.
    #[error("{device} is no tape, and only tape drives encrypt by themselves")]
    NoTapeToEncrypt {
        /// The device.
        device: Address,
    },
    /// A medium is encrypted by its drive, or is not, and the contrary was asked for.
    #[error("medium '{label}' {unlike}, as a whole")]
    EncryptedOtherwise {
        /// The medium's label.
        label: String,
        /// How it is encrypted.
        unlike: &'static str,
        /// The option with which the backup would be as the medium is.
        option: &'static str,
    },
    /// A medium was exchanged since it was made.
    #[error("{device} does not hold medium '{label}' any more, which was made there just now")]
    NewMediumGone {
        /// Where it was made.
        device: Address,
        /// The label it got.
        label: String,
    },
    /// The last drive of a library was to be taken out of service.
    #[error("drive {drive} is the only one of library {library} that is in service")]
    LastInService {
        /// The drive.
        drive: u32,
        /// The library.
        library: LibraryName,
    },
    /// A cleaning tape was to be loaded like another one.
    #[error("tape {barcode} cleans drives, it cannot be loaded")]
    CleaningTape {
        /// Its barcode.
        barcode: String,
    },
    /// A tape that was to be loaded lies in a drive.
    #[error("{tape} is in drive {drive} already")]
    InDriveAlready {
        /// The tape.
        tape: String,
        /// The drive.
        drive: u32,
    },
    /// No drive of a library takes a tape now.
    #[error("all drives have tapes or are in use")]
    NoFreeDrive,
    /// A drive that was to be unloaded is empty.
    #[error("drive {drive} of {library} holds no tape")]
    EmptyDrive {
        /// The drive.
        drive: u32,
        /// Its library.
        library: LibraryName,
    },
    /// A drive that was to be cleaned has a tape.
    #[error("drive {drive} holds {tape}")]
    DriveNotEmpty {
        /// The drive.
        drive: u32,
        /// The tape in it.
        tape: String,
    },
    /// There is nothing with which a drive could be cleaned.
    #[error("{library} has no cleaning tape")]
    NoCleaningTape {
        /// The library.
        library: LibraryName,
    },
    /// A place of a library has no tape.
    #[error("{place} of {library} holds no tape")]
    EmptyPlace {
        /// The place.
        place: Place,
        /// The library.
        library: LibraryName,
    },
    /// A library has no tape of that barcode.
    #[error("{library} has no tape {barcode}")]
    UnknownTape {
        /// The library.
        library: LibraryName,
        /// The barcode.
        barcode: String,
    },
    /// All slots of a library are taken.
    #[error("{library} has no free slot")]
    NoFreeSlot {
        /// The library.
        library: LibraryName,
    },
    /// Tapes were to come in through the mail slots of a library that has none.
    #[error("{library} has no mail slots")]
    NoMailSlots {
        /// The library.
        library: LibraryName,
    },
    /// More tapes are to go out than the mail slots take.
    #[error("{library} has {free} free mail slots for {wanted} tapes")]
    TooFewMailSlots {
        /// The library.
        library: LibraryName,
        /// Mail slots that are free.
        free: usize,
        /// Tapes that are to go out.
        wanted: usize,
    },
    /// Somebody uses the drive that has a tape which is to go out.
    #[error("{tape} is in drive {drive}, which is in use: {holder}")]
    DriveInUse {
        /// The tape.
        tape: String,
        /// The drive.
        drive: u32,
        /// Who uses it.
        holder: String,
    },
    /// No mail slot is free for a tape.
    #[error("{library} has no free mail slot for tape {barcode}")]
    NoFreeMailSlot {
        /// The library.
        library: LibraryName,
        /// The tape's barcode.
        barcode: String,
    },
}

impl Explain for DriveRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Full { .. }
            | Self::Damaged { .. }
            | Self::Exchanged { .. }
            | Self::NoRoom { .. }
            | Self::NewMediumGone { .. } => return None,
            Self::NoTapeToEncrypt { .. } => {
                "name a tape or a library, or leave --encrypt drive out".to_owned()
            }
            Self::EncryptedOtherwise { option, .. } => {
                format!("name another one, or back up {option}")
            }
            Self::LastInService { .. } => "use another library, or `capstan library enable` another drive first".to_owned(),
            Self::CleaningTape { .. } => "use `capstan library clean`".to_owned(),
            Self::InDriveAlready { .. } => "unload it to put it elsewhere".to_owned(),
            Self::NoFreeDrive => "unload one of them".to_owned(),
            Self::EmptyDrive { .. } => "`capstan library status` shows where they are".to_owned(),
            Self::DriveNotEmpty { .. } => "unload it first".to_owned(),
            Self::NoCleaningTape { .. } => "put one in whose barcode begins with CLN".to_owned(),
            Self::EmptyPlace { .. } | Self::UnknownTape { .. } => {
                "`capstan library inventory` shows what it has".to_owned()
            }
            Self::NoFreeSlot { .. } => "export a tape, or take one out".to_owned(),
            Self::NoMailSlots { .. } => {
                "put the tapes into its slots, and let it look: `capstan library inventory --rescan`".to_owned()
            }
            Self::TooFewMailSlots { .. } => {
                "take out what is in them, or export fewer at once".to_owned()
            }
            Self::DriveInUse { .. } => "export it when that is done".to_owned(),
            Self::NoFreeMailSlot { .. } => "take out what is in them".to_owned(),
        })
    }
}
