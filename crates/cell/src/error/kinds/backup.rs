//! Backups that are not made as they were asked for.

use capstan_address::Address;
use capstan_engine::message::{path_text, shell_word};
use capstan_engine::problem::{Explain, Problem};

/// Why a backup is not made as it was asked for; nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum BackupRefusal {
    /// Nothing is named to back up.
    #[error("nothing is named to back up")]
    NothingNamed,
    /// No path is named to back up.
    #[error("no path is named")]
    NoPath,
    /// Objects that are backed up together have different devices or options of them.
    #[error("objects that are backed up together have one device and the same options of it")]
    NotTogether,
    /// An object is named twice.
    #[error("'{name}' is backed up already at this time")]
    NamedTwice {
        /// The object.
        name: String,
    },
    /// A path that is to be backed up cannot be had.
    #[error("cannot back up {path}: {why}")]
    PathUnavailable {
        /// The path, or several of them in words.
        path: String,
        /// Why not.
        why: String,
    },
    /// All that is to be backed up is Capstan's own.
    #[error("/{} is what the backup is written to, or capstan's home: nothing of it is backed up", path_text(.0))]
    OwnPath(Vec<u8>),
    /// The null device is to have mirrors.
    #[error("the null device keeps nothing and has no mirror")]
    NullMirror,
    /// Segments are to have no room for a block.
    #[error("a segment size of 0 is out of range")]
    SegmentSizeZero,
    /// No device is named.
    #[error("there is no device to write to")]
    NoDevice,
    /// Two devices hold one medium.
    #[error("{device} holds the medium that is written already")]
    WrittenAlready {
        /// The second of them.
        device: Address,
    },
    /// Two devices are one place.
    #[error("{place} would be written twice, which makes no copy")]
    PlaceTwice {
        /// The place.
        place: String,
    },
    /// A tape that is to be written is not there.
    #[error("{tape} cannot be written: {}", why.sentence)]
    TapeAbsent {
        /// The tape.
        tape: String,
        /// Where it is.
        why: Problem,
    },
    /// The library of a mirror is not there.
    #[error("{0}")]
    LibraryAway(String),
    /// A library is away from which tapes of an array are to be chosen.
    #[error("no tapes can be chosen for {array}: {why}")]
    NoTapesForArray {
        /// The array.
        array: Address,
        /// What is away.
        why: String,
        /// An array that can do without it.
        without: Option<Address>,
    },
    /// The tapes of an array in drives that stand alone take no more.
    #[error(
        "the tapes of {array} are full or failed, and a session does not change tapes of an array in drives that stand alone"
    )]
    ArrayByHandFull {
        /// The array.
        array: Address,
    },
    /// The last version, on which a backup is to build, is not whole.
    #[error("the last version is not whole: {why}")]
    BaseNotWhole {
        /// What of it is lost.
        why: String,
    },
    /// Names of the version on which a backup is to build are on media that are away.
    #[error(
        "names in it are missing or damaged in this home, and lie on media that are away: {media}"
    )]
    NamesAway {
        /// The media.
        media: String,
        /// Commands that bring the names back.
        imports: String,
    },
    /// A part of the version on which a backup is to build was found damaged.
    #[error("some of it was found damaged on medium '{label}'")]
    BasePartDamaged {
        /// The medium's label.
        label: String,
    },
    /// A medium of the version on which a backup is to build was found damaged.
    #[error("medium '{label}' was found damaged")]
    BaseMediumDamaged {
        /// The medium's label.
        label: String,
    },
    /// A medium of the version on which a backup is to build was changed.
    #[error("medium '{label}' is not as it was last written: {why}")]
    BaseMediumChanged {
        /// The medium's label.
        label: String,
        /// What differs.
        why: String,
    },
    /// What is to be said of a stream cannot be written as JSON.
    #[error("{0}")]
    LabelNotJson(String),
}

impl Explain for BackupRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NothingNamed => "name a path".to_owned(),
            Self::NoPath => "name what to back up".to_owned(),
            Self::NotTogether => "back them up one by one".to_owned(),
            Self::NamedTwice { .. } => "give each object its own name".to_owned(),
            Self::PathUnavailable { .. } => "check the path".to_owned(),
            Self::OwnPath(_) => "name other paths".to_owned(),
            Self::NullMirror => "name directories".to_owned(),
            Self::SegmentSizeZero => "it is at least one block".to_owned(),
            Self::NoDevice => "name one".to_owned(),
            Self::WrittenAlready { .. } => "name another as its mirror".to_owned(),
            Self::PlaceTwice { .. } => "name another place as the mirror".to_owned(),
            Self::TapeAbsent { why, .. } => {
                return why.clone().hint_too("`capstan library status` shows what is there").hint;
            }
            Self::NoTapesForArray { without: None, .. } => "bring the library back".to_owned(),
            Self::NoTapesForArray { without: Some(other), .. } => format!(
                "bring the library back, or name the tapes of an array that can do without it: {other}"
            ),
            Self::ArrayByHandFull { .. } => {
                "put blank ones into all of them and run it again with --resume".to_owned()
            }
            Self::NamesAway { imports, .. } => {
                format!("once these are fetched, {imports} brings the names back")
            }
            Self::BaseMediumDamaged { label } => {
                format!("`capstan verify --medium {}` says whether it still is", shell_word(label))
            }
            Self::LibraryAway(_)
            | Self::BaseNotWhole { .. }
            | Self::BasePartDamaged { .. }
            | Self::BaseMediumChanged { .. }
            | Self::LabelNotJson(_) => return None,
        })
    }
}
